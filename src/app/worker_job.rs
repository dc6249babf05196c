//! Runs jobs in separate workers, with progress, and with smaller batches after running out of
//! memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::Value as Json;

use crate::arguments::RowsAtOnce;
use crate::runner::protocol::{MessageToRunner, WorkerJob};
use crate::runner::worker_job::{self, JobError};

/// Progress of a long operation.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A stage begins.
    Began(&'a str),
    /// Progress of the stage.
    At {
        /// The stage.
        what: &'a str,
        /// Units done.
        done: u64,
        /// Units of the whole stage.
        of: u64,
    },
    /// The batch size was reduced after running out of memory.
    FewerRows {
        /// The size before.
        before: usize,
        /// The next size.
        now: usize,
    },
    /// What is noteworthy about the data and the model.
    Finding(&'a str),
    /// A training logged its loss (`logging_steps`).
    Logged {
        /// The optimiser step.
        step: f64,
        /// The mean loss since the last one.
        loss: f64,
        /// The learning rate.
        learning_rate: f64,
    },
    /// A training evaluated its model.
    Report {
        /// The unit of steps.
        step_unit: &'a str,
        /// The step.
        step: u64,
        /// The study's metric.
        metric: &'a str,
        /// Its value.
        value: f64,
    },
}

/// Receives progress.
pub type OnProgress<'a> = dyn FnMut(Progress<'_>) + 'a;

/// Runs `job` in a new worker, with `what` as its first stage; returns its answer.
///
/// # Errors
/// It failed.
pub fn run(what: &str, job: WorkerJob, on_progress: &mut OnProgress<'_>) -> Result<Json, JobError> {
    on_progress(Progress::Began(what));
    again(job, on_progress)
}

/// The same without announcing a stage.
///
/// # Errors
/// It failed.
pub fn again(job: WorkerJob, on_progress: &mut OnProgress<'_>) -> Result<Json, JobError> {
    let answer = worker_job::run(job, &BTreeMap::new(), &mut |said| at(&said, on_progress));
    answer.map(Option::unwrap_or_default)
}

/// Forwards a worker's progress.
pub fn at(said: &MessageToRunner, on_progress: &mut OnProgress<'_>) -> ControlFlow<()> {
    if let MessageToRunner::At { what, done, of } = said {
        on_progress(Progress::At { what, done: *done, of: *of });
    }
    ControlFlow::Continue(())
}

/// Runs a job with its usual batch sizes, halved while it runs out of memory, down to one row.
/// `usual`: `None` if they must not be halved.
///
/// # Errors
/// One row does not fit, or the job failed otherwise.
pub fn halving<T>(
    usual: Option<RowsAtOnce>,
    on_progress: &mut OnProgress<'_>,
    mut job: impl FnMut(Option<RowsAtOnce>, &mut OnProgress<'_>) -> Result<T, JobError>,
) -> Result<T, JobError> {
    let mut done = job(None, on_progress);
    let Some(usual) = usual else { return done };
    for times in 1..=usual.halvings() {
        let Err(JobError::OutOfMemory { .. }) = done else { return done };
        let (before, now) = fewer(usual.halved(times - 1), usual.halved(times));
        on_progress(Progress::FewerRows { before, now });
        done = job(Some(usual.halved(times)), on_progress);
    }
    done
}

/// The batch size that is reduced.
fn fewer(before: RowsAtOnce, now: RowsAtOnce) -> (usize, usize) {
    if before.train == now.train { (before.eval, now.eval) } else { (before.train, now.train) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: RowsAtOnce = RowsAtOnce { train: 4, eval: 16 };

    /// The evaluation batch sizes tried by a job for which `fitting` rows fit.
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
        let fewer_rows = |times| fewer(USUAL.halved(times - 1), USUAL.halved(times));
        assert_eq!((fewer_rows(1), fewer_rows(4)), ((4, 2), (2, 1)));
    }
}
