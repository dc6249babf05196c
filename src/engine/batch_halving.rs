//! Batch halving: a trial of the built-in trainer that runs out of memory continues with half the
//! batch size.
//!
//! Halving is not a retry. It needs no `"oom"` in `[retry] on` and does not count towards `[retry]
//! max`, because each attempt needs less memory than the one before, until one row is left. Only
//! then, or with `auto_find_batch_size = false`, or for a command, is running out of memory a
//! failure like others. A trial's parameters and optimiser steps do not change: to the search it is
//! an ordinary trial.
//!
//! The state is in the journal: the number of attempts that ran out of memory determines the batch
//! size of the next one.

use std::collections::BTreeMap;

use super::Engine;
use crate::arguments::RowsAtOnce;
use crate::study::event::AttemptEnd;
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::trial::{Trial, TrialNumber};

/// How often a trial's batch size was halved after running out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHalving {
    /// Batch sizes by its arguments.
    pub usual: RowsAtOnce,
    /// Number of halvings.
    pub halved: u32,
    /// Whether it ran out of memory at one row.
    pub exhausted: bool,
}

impl BatchHalving {
    /// For a trial with these parameters, `times` of whose attempts ran out of memory; `None` if it
    /// cannot be halved.
    pub fn new(spec: &StudySpec, params: &Params, times: u32) -> Option<Self> {
        let Program::Trainer { arguments, .. } = &spec.program else { return None };
        let mut values = arguments.clone();
        values.extend(params.iter().map(|(name, value)| (name.to_owned(), value.to_json())));
        let usual = RowsAtOnce::that_may_be_halved(&values)?;
        let most = usual.halvings();
        Some(BatchHalving { usual, halved: times.min(most), exhausted: times > most })
    }

    /// For a trial whose attempts ended like this; `None` if none ran out of memory.
    pub fn of_attempts<'a>(
        spec: &StudySpec,
        trial: &Trial,
        ends: impl IntoIterator<Item = &'a AttemptEnd>,
    ) -> Option<Self> {
        let times = ends.into_iter().filter(|end| is_out_of_memory(end)).count();
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        (times > 0).then(|| BatchHalving::new(spec, &trial.params, times)).flatten()
    }

    /// Batch sizes of its next attempt.
    pub fn rows(self) -> RowsAtOnce {
        self.usual.halved(self.halved)
    }

    /// A description: `4 of 32 rows at once in training, 8 of 64 in evaluation: it ran out of
    /// memory 3 times`.
    pub fn in_words(self) -> String {
        let times = self.halved + u32::from(self.exhausted);
        let times = match times {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            times => format!("{times} times"),
        };
        let (now, usual) = (self.rows(), self.usual);
        format!(
            "{} of {} rows at once in training, {} of {} in evaluation: it ran out of memory \
             {times}",
            now.train, usual.train, now.eval, usual.eval
        )
    }
}

fn too_many(rows: RowsAtOnce) -> String {
    let rows = if rows.train == 1 { "one row".to_owned() } else { format!("{} rows", rows.train) };
    format!("{rows} at once did not fit into memory")
}

fn is_out_of_memory(end: &AttemptEnd) -> bool {
    matches!(end, AttemptEnd::Failed(FailureCause::Oom))
}

/// Number of attempts of each trial that ran out of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct OutOfMemory(BTreeMap<TrialNumber, u32>);

impl OutOfMemory {
    /// Applies the end of an attempt.
    pub fn note(&mut self, trial: TrialNumber, end: &AttemptEnd) {
        if is_out_of_memory(end) {
            *self.0.entry(trial).or_default() += 1;
        }
    }

    fn times(&self, trial: TrialNumber) -> u32 {
        self.0.get(&trial).copied().unwrap_or(0)
    }
}

impl Engine {
    /// Adds the ends of all earlier attempts, on which the next batch sizes depend.
    #[must_use]
    pub fn with_ends<'a>(
        mut self,
        ends: impl IntoIterator<Item = (TrialNumber, &'a AttemptEnd)>,
    ) -> Self {
        ends.into_iter().for_each(|(trial, end)| self.out_of_memory.note(trial, end));
        self
    }

    /// The halving of a trial that ran out of memory, if it can still be halved.
    pub(super) fn halving_of(&self, trial: &Trial) -> Option<BatchHalving> {
        let times = Some(self.out_of_memory.times(trial.number)).filter(|times| *times > 0)?;
        BatchHalving::new(&self.spec, &trial.params, times)
    }

    /// The message at an attempt's end, with its batch sizes if it ran out of memory.
    pub(super) fn with_rows(
        &self,
        number: TrialNumber,
        end: &AttemptEnd,
        message: Option<String>,
    ) -> Option<String> {
        let times = self.out_of_memory.times(number);
        let trial = self.state.trial(number).filter(|_| is_out_of_memory(end));
        match trial.and_then(|trial| BatchHalving::new(&self.spec, &trial.params, times)) {
            Some(halving) => {
                let said = message.map(|message| format!(": {message}")).unwrap_or_default();
                Some(format!("{}{said}", too_many(halving.rows())))
            }
            None => message,
        }
    }

    /// Requeues a trial that ran out of memory with half the batch size; `Err`: the message, with
    /// the reason why that is impossible.
    pub(super) fn requeue_with_halved_batch(
        &mut self,
        number: TrialNumber,
        cause: FailureCause,
        message: String,
    ) -> Result<(), String> {
        let trial = self.state.trial(number).filter(|_| cause == FailureCause::Oom);
        let Some(halving) = trial.and_then(|trial| self.halving_of(trial)) else {
            return Err(message);
        };
        if halving.exhausted {
            let help = "the batch cannot be smaller: a smaller model (`model.*`), shorter texts \
                (`[data] max_length`) or fewer trials at a time need less";
            return Err(format!("{message}; {help}"));
        }
        let (before, now) = (halving.usual.halved(halving.halved - 1), halving.rows());
        let now = if now.train < before.train {
            now.train.to_string()
        } else {
            format!("{} at once in evaluation", now.eval)
        };
        self.requeue(number, &format!("{}; now {now}", too_many(before)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_attempts_without_memory_count() {
        let (mut counted, trial) = (OutOfMemory::default(), TrialNumber(2));
        counted.note(trial, &AttemptEnd::Failed(FailureCause::Oom));
        counted.note(trial, &AttemptEnd::Failed(FailureCause::Program));
        counted.note(trial, &AttemptEnd::Failed(FailureCause::Oom));
        assert_eq!((counted.times(trial), counted.times(TrialNumber(0))), (2, 0));
    }
}
