//! What an attempt repeats of earlier attempts of its trial, and what it supersedes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::study::checkpoint::Checkpoint;
use crate::study::event::AttemptEnd;
use crate::study::metric::Metrics;
use crate::study::spec::Objective;
use crate::study::trial::{Trial, TrialNumber};

/// The reports and checkpoints of an attempt, against those of earlier attempts.
#[derive(Clone, Debug, Default)]
pub(super) struct Superseding {
    /// Step and path of the checkpoint that it was given to continue from.
    given: Option<(u64, PathBuf)>,
    /// What earlier attempts reported of the objectives, by step and place, and it has not.
    reports: BTreeMap<(u64, usize), f64>,
    /// Metrics that earlier attempts reported, and it has not.
    metrics: BTreeSet<String>,
    /// Checkpoints that earlier attempts saved, and it has not.
    checkpoints: BTreeSet<PathBuf>,
    /// What they reported, and it repeated with the same value.
    repeated: BTreeMap<(u64, usize), f64>,
    /// The first step at which it reported another value of an objective, by its place.
    first: BTreeMap<usize, u64>,
    /// The steps at which it reported an objective.
    steps: Option<Steps>,
    /// Those at which it did not repeat a value: a program that continues may tell its whole
    /// history again.
    other_steps: Option<Steps>,
    /// The lowest step of a checkpoint that it saved.
    saved: Option<u64>,
}

/// What an attempt supersedes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Superseded {
    /// Steps by objective; without steps, other metrics whose last values no longer count.
    pub reports: BTreeMap<String, Vec<u64>>,
    pub checkpoints: Vec<(TrialNumber, PathBuf)>,
}

/// Some steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Steps {
    lowest: u64,
    second_lowest: Option<u64>,
    highest: u64,
}

impl Steps {
    fn with(steps: Option<Steps>, step: u64) -> Option<Steps> {
        let Some(Steps { lowest, second_lowest, highest }) = steps else {
            return Some(Steps { lowest: step, second_lowest: None, highest: step });
        };
        let other = Some(step.max(lowest)).filter(|other| *other > step.min(lowest));
        Some(Steps {
            lowest: step.min(lowest),
            second_lowest: second_lowest.into_iter().chain(other).min(),
            highest: step.max(highest),
        })
    }
}

impl Superseding {
    /// That of an attempt that begins.
    pub fn of(trial: &Trial, given: Option<(u64, PathBuf)>) -> Self {
        Superseding {
            given,
            reports: trial.reports_of_objectives(),
            metrics: trial.last_metrics.iter().map(|(name, _)| name.to_owned()).collect(),
            checkpoints: trial.checkpoints.iter().map(|saved| saved.path.clone()).collect(),
            ..Superseding::default()
        }
    }

    /// That of a trial's first attempt, whose reports are all its own.
    pub fn of_first(trial: &Trial) -> Self {
        let reports = trial.reports_of_objectives();
        let steps = reports.keys().fold(None, |steps, (step, _)| Steps::with(steps, *step));
        Superseding { steps, ..Superseding::default() }
    }

    /// Notes a report.
    pub fn note_report(&mut self, step: u64, metrics: &Metrics, objectives: &[Objective]) {
        for (name, _) in metrics.iter() {
            self.metrics.remove(name);
        }
        for (index, objective) in objectives.iter().enumerate() {
            let Some(value) = metrics.get(&objective.metric) else { continue };
            self.steps = Steps::with(self.steps, step);
            let at = (step, index);
            let before = self.reports.remove(&at).or_else(|| self.repeated.remove(&at));
            if let Some(before) = before.filter(|before| before.total_cmp(&value).is_eq()) {
                self.repeated.insert(at, before);
                continue;
            }
            self.other_steps = Steps::with(self.other_steps, step);
            let first = self.first.entry(index).or_insert(step);
            *first = step.min(*first);
        }
    }

    /// Notes a checkpoint.
    pub fn note_checkpoint(&mut self, step: u64, path: &Path) {
        self.checkpoints.remove(path);
        self.saved = Some(self.saved.map_or(step, |saved| saved.min(step)));
    }

    /// The highest step that it reported.
    pub fn last_step(&self) -> Option<u64> {
        self.steps.map(|steps| steps.highest)
    }

    /// The reports that it supersedes, if it ends like this: steps by objective, and without steps
    /// the other metrics whose last values no longer count. `None`: as far as it has come.
    pub fn reports(
        &self,
        objectives: &[Objective],
        end: Option<&AttemptEnd>,
    ) -> BTreeMap<String, Vec<u64>> {
        let mut superseded: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (step, index) in self.steps_superseded(end) {
            superseded.entry(objectives[index].metric.clone()).or_default().push(step);
        }
        for name in self.metrics_superseded(end) {
            superseded.entry(name.to_owned()).or_default();
        }
        superseded
    }

    /// The metrics that have no value, as far as it has come: it starts over, and has not reported
    /// them.
    pub fn lost_metrics(&self) -> impl Iterator<Item = &str> {
        self.metrics_superseded(None)
    }

    fn metrics_superseded(&self, end: Option<&AttemptEnd>) -> impl Iterator<Item = &str> {
        let starts_over = !self.metrics.is_empty() && self.starts_over(end);
        self.metrics.iter().filter(move |_| starts_over).map(String::as_str)
    }

    /// An attempt that the trial may continue from has not said all yet: what it repeated may be
    /// its history, so that it supersedes as little as if it had gone on.
    fn steps_superseded(&self, end: Option<&AttemptEnd>) -> impl Iterator<Item = (u64, usize)> {
        let steps = if end.is_some_and(is_resumed) { self.other_steps } else { self.steps };
        let start = if self.starts_over(end) { Some(0) } else { self.start(steps, end) };
        let from = start.map(|start| self.reports.range((start, 0)..));
        from.into_iter().flatten().map(|(at, _)| *at)
    }

    /// The trial's checkpoints that it supersedes, if it ends like this.
    pub fn checkpoints<'a>(
        &self,
        trial: &'a Trial,
        end: Option<&AttemptEnd>,
    ) -> impl Iterator<Item = &'a Checkpoint> {
        let start = if self.starts_over(end) { Some(0) } else { self.start(self.other_steps, end) };
        let first_superseded = self.steps_superseded(end).next().map(|(step, _)| step);
        let start = start.into_iter().chain(first_superseded).min();
        // While it runs, its first checkpoint tells where it is before its first report does.
        let saved = self.saved.filter(|_| end.is_none() && self.steps.is_none());
        let start = start.or(saved);
        let is_given =
            |saved: &Checkpoint| self.given.as_ref().is_some_and(|(_, given)| *given == saved.path);
        let listed = trial.checkpoints.iter().filter(|_| !self.checkpoints.is_empty());
        listed.filter(move |saved| {
            let is_beyond = |start| saved.step > start || saved.step == start && !is_given(saved);
            start.is_some_and(is_beyond) && self.checkpoints.contains(&saved.path)
        })
    }

    /// The first of these steps of its own. One up to the checkpoint that it was given, and others
    /// beyond, are an evaluation before it continued; if there are no others, the next attempt will
    /// show it.
    fn start(&self, steps: Option<Steps>, end: Option<&AttemptEnd>) -> Option<u64> {
        let Steps { lowest, second_lowest, .. } = steps?;
        let given = self.given.as_ref().map(|(given, _)| *given).filter(|given| lowest <= *given);
        match (given, second_lowest) {
            (Some(given), Some(second)) if second > given => Some(given.saturating_add(1)),
            (Some(_), None) if end.is_some_and(is_resumed) => None,
            _ => Some(lowest),
        }
    }

    /// Whether it has nothing of earlier attempts: it did not continue from the checkpoint that it
    /// was given, and none of them had reported an objective before its own first report of it.
    fn starts_over(&self, end: Option<&AttemptEnd>) -> bool {
        let is_first = |(index, first): (&usize, &u64)| {
            let mut before =
                self.reports.range(..(*first, 0)).chain(self.repeated.range(..(*first, 0)));
            !before.any(|((_, other), _)| other == index)
        };
        let start = self.start(self.other_steps, end);
        let is_behind = |start| self.given.as_ref().is_none_or(|(given, _)| start < *given);
        start.is_some_and(is_behind) && self.first.iter().any(is_first)
    }
}

/// Whether a trial continues after this end of its attempt, or may.
fn is_resumed(end: &AttemptEnd) -> bool {
    match end {
        AttemptEnd::Completed | AttemptEnd::Stopped | AttemptEnd::Diverged => false,
        AttemptEnd::Paused
        | AttemptEnd::Interrupted
        | AttemptEnd::Lost
        | AttemptEnd::Refused
        | AttemptEnd::Failed(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::spec::FailureCause;
    use crate::study::time::Timestamp;
    use crate::study::trial::Origin;

    fn objectives() -> [Objective; 1] {
        [Objective::new("loss", Direction::Minimize)]
    }

    fn path(step: u64) -> PathBuf {
        format!("/trial-0/{step}").into()
    }

    /// After an attempt that reported and saved these steps: the steps at which the reports and the
    /// checkpoints of that are superseded by one that reports others, and whether metrics are that
    /// it does not report.
    fn superseded(
        before: &[u64],
        given: Option<u64>,
        (steps, value): (&[u64], f64),
        end: Option<&AttemptEnd>,
    ) -> (Vec<u64>, Vec<u64>, bool) {
        let mut trial = Trial::new(TrialNumber(0), Params::new(), Origin::Asked, Timestamp(0));
        trial.curve = before.iter().map(|step| (*step, 0.5)).collect();
        trial.last_metrics =
            [("loss".to_owned(), 0.5), ("size".to_owned(), 9.0)].into_iter().collect();
        let saved =
            |step: &u64| Checkpoint { step: *step, path: path(*step), bytes: None, digest: None };
        trial.checkpoints = before.iter().map(saved).collect();
        let given = given.map(|step| (step, path(step)));
        let mut superseding = Superseding::of(&trial, given);
        for step in steps {
            let metrics = [("loss".to_owned(), value)].into_iter().collect();
            superseding.note_report(*step, &metrics, &objectives());
        }
        let mut reports = superseding.reports(&objectives(), end);
        let checkpoints = superseding.checkpoints(&trial, end).map(|saved| saved.step).collect();
        let size = reports.remove("size");
        (reports.remove("loss").unwrap_or_default(), checkpoints, size == Some(Vec::new()))
    }

    #[test]
    fn an_attempt_supersedes_from_its_first_report_on() {
        let before = [1, 2, 3, 4];
        let found = |given, steps: &[u64]| {
            superseded(&before, given, (steps, 0.25), Some(&AttemptEnd::Completed))
        };
        // It started over, whatever it was given.
        let all = (vec![3, 4], vec![1, 2, 3, 4], true);
        assert_eq!((found(None, &[1, 2]), found(Some(4), &[1, 2])), (all.clone(), all.clone()));
        assert_eq!(superseded(&before, Some(4), (&[1, 2], 0.25), None), all);
        // It continued from what it was given, which stays, or from a state of its own.
        let later = (vec![4], vec![3, 4], false);
        assert_eq!((found(Some(2), &[3]), found(None, &[3])), (later.clone(), later));
        assert_eq!(found(Some(3), &[3]), (vec![4], vec![4], false));
        assert_eq!(found(Some(4), &[]), (Vec::new(), Vec::new(), false));
    }

    #[test]
    fn an_evaluation_before_it_continues_does_not_show_that_an_attempt_started_over() {
        let failed = AttemptEnd::Failed(FailureCause::WorkerLost);
        let found =
            |given, steps: &[u64]| superseded(&[1, 2, 3, 4], given, (steps, 0.25), Some(&failed));
        let none = (Vec::new(), Vec::new(), false);
        assert_eq!((found(Some(4), &[0, 5]), found(Some(4), &[1])), (none.clone(), none));
        assert_eq!(found(Some(3), &[0, 4]), (Vec::new(), vec![4], false));
        assert_eq!(found(None, &[1]).0, [2, 3, 4]);
    }

    #[test]
    fn a_program_that_continues_may_tell_its_history_again() {
        let completed = Some(&AttemptEnd::Completed);
        let found = |given, steps: &[u64]| superseded(&[1, 2, 3], given, (steps, 0.5), completed);
        let none = (Vec::new(), Vec::new(), false);
        assert_eq!(
            (found(Some(3), &[1, 2, 3, 4]), found(None, &[1, 2, 3, 4])),
            (none.clone(), none.clone())
        );
        // What it no longer tells does not count, once it is complete.
        assert_eq!(found(None, &[1, 2]), (vec![3], vec![3], false));
        let lost = superseded(&[1, 2, 3], None, (&[1, 2], 0.5), Some(&AttemptEnd::Lost));
        assert_eq!(lost, none);
    }
}
