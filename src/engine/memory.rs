//! What comes of running out of memory: a trial of the built-in trainer goes on with half the rows at once.
//!
//! Halving is no retry. It needs no `"oom"` in `[retry] on` and takes nothing from `[retry] max`, for it does not do the same again
//! in the hope of better luck: each attempt needs less memory than the one before, until one row is left. Only then, or with
//! `auto_find_batch_size = false`, or for a command, is running out of memory a failure like others. A trial's parameters stay as
//! they were suggested, and so do its optimiser steps: for the search it is a trial that completed, or one that failed.
//!
//! What is known of it is in the journal: how many attempts ended for lack of memory says how many rows the next one gets.

use std::collections::BTreeMap;

use super::Engine;
use crate::arguments::RowsAtOnce;
use crate::study::event::AttemptEnd;
use crate::study::params::Params;
use crate::study::spec::{FailureCause, Program, StudySpec};
use crate::study::trial::{Trial, TrialNumber};

/// Where a trial stands with its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Rows at once by its arguments.
    pub usual: RowsAtOnce,
    /// How many times they were halved.
    pub halved: u32,
    /// Whether it ran out of memory once more than it could be helped.
    pub exhausted: bool,
}

impl Memory {
    /// Of a trial with these parameters, `starved` of whose attempts ran out of memory; `None` where rows are not halved.
    pub fn new(spec: &StudySpec, params: &Params, starved: u32) -> Option<Self> {
        let Program::Trainer { arguments, .. } = &spec.program else { return None };
        let mut values = arguments.clone();
        values.extend(params.iter().map(|(name, value)| (name.to_owned(), value.to_json())));
        let usual = RowsAtOnce::that_may_be_halved(&values)?;
        let most = usual.halvings();
        Some(Memory { usual, halved: starved.min(most), exhausted: starved > most })
    }

    /// The same of a trial whose attempts ended like this.
    pub fn of_attempts<'a>(
        spec: &StudySpec,
        trial: &Trial,
        ends: impl IntoIterator<Item = &'a AttemptEnd>,
    ) -> Option<Self> {
        let starved = ends.into_iter().filter(|end| is_starved(end)).count();
        if starved == 0 {
            None
        } else {
            Memory::new(spec, &trial.params, u32::try_from(starved).unwrap_or(u32::MAX))
        }
    }

    /// Rows at once of its next attempt.
    pub fn rows(self) -> RowsAtOnce {
        self.usual.halved(self.halved)
    }

    /// What there is to say of it: `4 of 32 rows at once in training, 8 of 64 in evaluation: it ran out of memory 3 times`.
    pub fn in_words(self) -> String {
        let times = self.halved + u32::from(self.exhausted);
        let times = match times {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            times => format!("{times} times"),
        };
        let (now, usual) = (self.rows(), self.usual);
        let evaluated = format!("{} of {} in evaluation", now.eval, usual.eval);
        format!(
            "{} of {} rows at once in training, {evaluated}: it ran out of memory {times}",
            now.train, usual.train
        )
    }
}

fn too_many(rows: RowsAtOnce) -> String {
    let rows = if rows.train == 1 { "one row".to_owned() } else { format!("{} rows", rows.train) };
    format!("{rows} at once did not fit into memory")
}

fn is_starved(end: &AttemptEnd) -> bool {
    matches!(end, AttemptEnd::Failed(FailureCause::Oom))
}

/// How many attempts of each trial ran out of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Starved(BTreeMap<TrialNumber, u32>);

impl Starved {
    /// Takes the end of an attempt in.
    pub(super) fn note(&mut self, trial: TrialNumber, end: &AttemptEnd) {
        if is_starved(end) {
            *self.0.entry(trial).or_default() += 1;
        }
    }

    fn of(&self, trial: TrialNumber) -> u32 {
        self.0.get(&trial).copied().unwrap_or(0)
    }
}

impl Engine {
    /// The same with the ends of all attempts that there were: how many rows at once the next ones get depends on them.
    #[must_use]
    pub fn with_ends<'a>(
        mut self,
        ends: impl IntoIterator<Item = (TrialNumber, &'a AttemptEnd)>,
    ) -> Self {
        ends.into_iter().for_each(|(trial, end)| self.starved.note(trial, end));
        self
    }

    /// Where a trial stands that has run out of memory, if that can be helped.
    pub(super) fn memory_of(&self, trial: &Trial) -> Option<Memory> {
        let starved = self.starved.of(trial.number);
        if starved == 0 { None } else { Memory::new(&self.spec, &trial.params, starved) }
    }

    /// What an attempt that ended for lack of memory says, with the rows that it had; before its end is written.
    pub(super) fn words_of_starved(
        &self,
        number: TrialNumber,
        end: &AttemptEnd,
        message: Option<String>,
    ) -> Option<String> {
        let before = || {
            self.view
                .trial(number)
                .and_then(|trial| Memory::new(&self.spec, &trial.params, self.starved.of(number)))
        };
        let Some(memory) = Some(end).filter(|end| is_starved(end)).and_then(|_| before()) else {
            return message;
        };
        let said = message.map(|message| format!(": {message}")).unwrap_or_default();
        Some(format!("{}{said}", too_many(memory.rows())))
    }

    /// What a trial does that has just run out of memory, and whose attempt's end is written: it goes on with half the rows at once,
    /// or gets back the reason why it cannot.
    pub(super) fn go_on_with_fewer_rows(
        &mut self,
        number: TrialNumber,
        message: String,
    ) -> Result<(), String> {
        let Some(memory) = self.view.trial(number).and_then(|trial| self.memory_of(trial)) else {
            return Err(message);
        };
        if memory.exhausted {
            let help = "fewer rows there are not: a smaller model (`model.*`), shorter texts (`[data] max_length`) or fewer trials at a time need less";
            return Err(format!("{message}; {help}"));
        }
        let before = memory.usual.halved(memory.halved - 1);
        let now = memory.rows();
        let now = if now.train < before.train {
            now.train.to_string()
        } else {
            format!("{} at once in evaluation", now.eval)
        };
        self.requeue(number, &format!("{}; now {now}", too_many(before)));
        Ok(())
    }

    /// How many of a trial's failed attempts were no retries' business.
    pub(super) fn halvings_of(&self, number: TrialNumber) -> u32 {
        self.view
            .trial(number)
            .and_then(|trial| self.memory_of(trial))
            .map_or(0, |memory| memory.halved)
    }
}
