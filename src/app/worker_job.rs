//! Jobs for a worker of their own: whoever waits hears how far they are, and rows that do not fit
//! into memory are halved.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::Value as Json;

use crate::arguments::RowsAtOnce;
use crate::runner::protocol::{Job, MessageToRunner};
use crate::runner::worker_job::{self, JobError};

/// What is heard of something long.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// Something is begun.
    Began(&'a str),
    /// So much of so much is done.
    At {
        /// What is being done.
        what: &'a str,
        /// How much of it is done.
        done: u64,
        /// Of how much.
        of: u64,
    },
    /// Rows that are computed together did not fit into memory.
    FewerRows {
        /// How many they were.
        before: usize,
        /// How many they are next.
        now: usize,
    },
    /// A training evaluated its model.
    Report {
        /// The word for a step.
        clock: &'a str,
        /// The step.
        step: u64,
        /// The study's metric.
        metric: &'a str,
        /// Its value.
        value: f64,
    },
}

/// Whoever hears of it.
pub type Hear<'a> = dyn FnMut(Progress<'_>) + 'a;

/// Has a fresh worker do `job`, which is called `what`; its answer.
///
/// # Errors
/// It was not done.
pub fn run(what: &str, job: Job, hear: &mut Hear<'_>) -> Result<Json, JobError> {
    hear(Progress::Began(what));
    again(job, hear)
}

/// The same for a job that was begun before.
///
/// # Errors
/// It was not done.
pub fn again(job: Job, hear: &mut Hear<'_>) -> Result<Json, JobError> {
    let answer = worker_job::run(job, &BTreeMap::new(), &mut |said| at(&said, hear));
    answer.map(Option::unwrap_or_default)
}

/// Passes on how far a worker is.
pub fn at(said: &MessageToRunner, hear: &mut Hear<'_>) -> ControlFlow<()> {
    if let MessageToRunner::At { what, done, of } = said {
        hear(Progress::At { what, done: *done, of: *of });
    }
    ControlFlow::Continue(())
}

/// Does a job with the rows at once that it usually has, and with half of them while they do not
/// fit into memory, down to one row. `usual`: `None` where rows are not to be halved.
///
/// # Errors
/// One row does not fit, or the job failed for another reason.
pub fn halving<T>(
    usual: Option<RowsAtOnce>,
    hear: &mut Hear<'_>,
    mut job: impl FnMut(Option<RowsAtOnce>, &mut Hear<'_>) -> Result<T, JobError>,
) -> Result<T, JobError> {
    let mut done = job(None, hear);
    let Some(usual) = usual else { return done };
    for times in 1..=usual.halvings() {
        let Err(JobError::OutOfMemory { .. }) = done else { return done };
        let (before, now) = fewer(usual.halved(times - 1), usual.halved(times));
        hear(Progress::FewerRows { before, now });
        done = job(Some(usual.halved(times)), hear);
    }
    done
}

/// The rows that become fewer.
fn fewer(before: RowsAtOnce, now: RowsAtOnce) -> (usize, usize) {
    if before.train == now.train { (before.eval, now.eval) } else { (before.train, now.train) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: RowsAtOnce = RowsAtOnce { train: 4, eval: 16 };

    /// How many rows of evaluation a job is tried with that fits with so many.
    fn tried(usual: Option<RowsAtOnce>, fitting: usize) -> (Vec<Option<usize>>, bool) {
        let mut tried = Vec::new();
        let done = halving(usual, &mut |_| {}, |rows, _| {
            tried.push(rows.map(|rows| rows.eval));
            if rows.map_or(16, |rows| rows.eval) <= fitting {
                Ok(())
            } else {
                Err(JobError::OutOfMemory { how: "killed".to_owned() })
            }
        });
        (tried, done.is_ok())
    }

    #[test]
    fn rows_are_halved_until_they_fit_or_one_is_left() {
        assert_eq!(tried(Some(USUAL), 16), (vec![None], true));
        assert_eq!(tried(Some(USUAL), 5), (vec![None, Some(8), Some(4)], true));
        assert_eq!(tried(Some(USUAL), 0), (vec![None, Some(8), Some(4), Some(2), Some(1)], false));
        assert_eq!(tried(None, 5), (vec![None], false));
    }

    #[test]
    fn what_failed_for_another_reason_is_not_tried_again() {
        let mut times = 0;
        let done: Result<(), _> = halving(Some(USUAL), &mut |_| {}, |_, _| {
            times += 1;
            Err(JobError::Failed("no such file".to_owned()))
        });
        assert!(done.is_err() && times == 1);
    }

    #[test]
    fn the_rows_that_are_told_of_are_those_that_become_fewer() {
        let told = |times| fewer(USUAL.halved(times - 1), USUAL.halved(times));
        assert_eq!((told(1), told(4)), ((4, 2), (2, 1)));
    }
}
