//! The ranked trials at each rung, updated incrementally.

use std::collections::{BTreeMap, BTreeSet};

use crate::pruners::several::SeveralRule;
use crate::study::history::History;
use crate::study::metric::{Direction, Score};
use crate::study::pareto;
use crate::study::state::Mark;
use crate::study::trial::{Trial, TrialNumber};

/// A trial's rank key at a rung: ties rank by number.
pub(super) type RungRankKey = (Score, TrialNumber);

/// The ranked trials at every rung of every ladder. A function of the history: rebuilt where it
/// cannot be updated.
#[derive(Clone, Debug, Default)]
pub(super) struct Rungs {
    /// The history's mark at the last update.
    seen: Option<(Mark, Direction)>,
    /// By trial and rung of its ladder.
    standings: Vec<Vec<Standing>>,
    /// By ladder and rung.
    ladders: Vec<Vec<Rung>>,
}

/// The trials at one rung.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rung {
    /// All of them, best first.
    ranked: Vec<RungRankKey>,
    /// Those that may be promoted.
    waiting: BTreeSet<RungRankKey>,
}

/// A trial's result at a rung.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Standing {
    score: Score,
    waits: bool,
}

impl Rungs {
    /// Updates it to `history`. `ladders` gives a trial's ladder and the steps of its rungs.
    pub fn follow<'a>(
        &mut self,
        history: History<'_>,
        ladder_of: impl Fn(TrialNumber) -> (usize, &'a [u64]),
    ) {
        let trials = history.trials();
        let changed = match (&self.seen, history.changes()) {
            (Some((mark, direction)), Some(changes)) if *direction == history.direction() => {
                changes.since(mark)
            }
            _ => None,
        };
        match changed {
            Some(changed) => {
                let changed: Vec<usize> = changed.map(TrialNumber::index).collect();
                for index in changed {
                    if let Some(trial) = trials.get(index) {
                        self.update(history, index, trial, ladder_of(trial.number));
                    }
                }
            }
            None => self.begin(history, ladder_of),
        }
        self.seen = history.changes().map(|changes| (changes.mark(), history.direction()));
    }

    /// The rung of a ladder; `None` if no trial reached it.
    pub fn rung(&self, ladder: usize, rung: usize) -> Option<&Rung> {
        self.ladders.get(ladder)?.get(rung)
    }

    fn begin<'a>(
        &mut self,
        history: History<'_>,
        ladder_of: impl Fn(TrialNumber) -> (usize, &'a [u64]),
    ) {
        *self = Rungs::default();
        for trial in history.trials() {
            let (ladder, steps) = ladder_of(trial.number);
            let standings = standings(history, trial, steps);
            for (index, standing) in standings.iter().enumerate() {
                let rung = self.rung_mut(ladder, index);
                rung.ranked.push((standing.score, trial.number));
                if standing.waits {
                    rung.waiting.insert((standing.score, trial.number));
                }
            }
            self.standings.push(standings);
        }
        self.ladders.iter_mut().flatten().for_each(|rung| rung.ranked.sort_unstable());
    }

    fn update(
        &mut self,
        history: History<'_>,
        index: usize,
        trial: &Trial,
        (ladder, steps): (usize, &[u64]),
    ) {
        let after = standings(history, trial, steps);
        if self.standings.len() <= index {
            self.standings.resize_with(index + 1, Vec::new);
        }
        let before = std::mem::replace(&mut self.standings[index], after.clone());
        for rung in 0..before.len().max(after.len()) {
            let (before, after) = (before.get(rung).copied(), after.get(rung).copied());
            if before != after {
                self.rung_mut(ladder, rung).change(trial.number, before, after);
            }
        }
    }

    fn rung_mut(&mut self, ladder: usize, rung: usize) -> &mut Rung {
        if self.ladders.len() <= ladder {
            self.ladders.resize_with(ladder + 1, Vec::new);
        }
        let rungs = &mut self.ladders[ladder];
        if rungs.len() <= rung {
            rungs.resize_with(rung + 1, Rung::default);
        }
        &mut rungs[rung]
    }
}

impl Rung {
    /// The rung at a step of `trials` of several objectives: a trial's score is its rank by
    /// [`pareto::order_with`], from 0, the better one where losses are equal; NaN without a finite
    /// loss.
    pub fn of_several<'a>(
        history: History<'_>,
        trials: impl Iterator<Item = &'a Trial>,
        (step, next): (u64, Option<u64>),
        rule: SeveralRule,
    ) -> Rung {
        let losses = |trial: &Trial| match rule {
            SeveralRule::OldestFirst | SeveralRule::UnknownIsWorst => {
                losses_from(history, trial, step)
            }
            SeveralRule::AllKnown => Some(history.losses_known_from(trial, step)?.1),
        };
        let at_step = |trial: &'a Trial| Some((trial, losses(trial)?));
        let (trials, losses): (Vec<&Trial>, Vec<Vec<f64>>) = trials.filter_map(at_step).unzip();
        let mut rung = Rung::default();
        // By bits of the losses: the best rank.
        let mut ranks: BTreeMap<Vec<u64>, u32> = BTreeMap::new();
        for (rank, index) in (0..).zip(pareto::order_with(&losses, rule.ties())) {
            let (trial, losses) = (trials[index], &losses[index]);
            let bits = losses.iter().map(|loss| loss.to_bits()).collect();
            let rank = f64::from(*ranks.entry(bits).or_insert(rank));
            let is_known = losses.iter().any(|loss| *loss < f64::INFINITY);
            let score = if is_known { rank } else { f64::NAN };
            let key = (Score::new(Direction::Minimize, score), trial.number);
            rung.ranked.push(key);
            if is_known && waits_at(trial, next) {
                rung.waiting.insert(key);
            }
        }
        rung.ranked.sort_unstable();
        rung
    }

    /// The score of a trial.
    pub fn score_of(&self, trial: TrialNumber) -> Option<Score> {
        self.ranked.iter().find(|(_, number)| *number == trial).map(|(score, _)| *score)
    }

    /// Number of trials that reached it.
    pub fn population(&self) -> usize {
        self.ranked.len()
    }

    /// One plus the number of trials before `key`; ties share a rank if its number is the
    /// smallest.
    pub fn rank(&self, key: RungRankKey) -> u64 {
        self.ranked.partition_point(|other| *other < key) as u64 + 1
    }

    /// The best paused trial.
    pub fn best_waiting(&self) -> Option<RungRankKey> {
        self.waiting.first().copied()
    }

    fn change(&mut self, trial: TrialNumber, before: Option<Standing>, after: Option<Standing>) {
        if let Some(before) = before {
            let key = (before.score, trial);
            if let Ok(index) = self.ranked.binary_search(&key) {
                self.ranked.remove(index);
            }
            self.waiting.remove(&key);
        }
        if let Some(after) = after {
            let key = (after.score, trial);
            if let Err(index) = self.ranked.binary_search(&key) {
                self.ranked.insert(index, key);
            }
            if after.waits {
                self.waiting.insert(key);
            }
        }
    }
}

/// The results of `trial` at the rungs that it reached.
fn standings(history: History<'_>, trial: &Trial, steps: &[u64]) -> Vec<Standing> {
    let standing = |(index, step): (usize, &u64)| {
        let score = history.score(value_at(trial, *step)?);
        Some(Standing {
            score,
            waits: !score.loss().is_nan() && waits_at(trial, steps.get(index + 1).copied()),
        })
    };
    let steps = if history.compares(trial) { steps } else { &[] };
    steps.iter().enumerate().map_while(standing).collect()
}

/// Whether a trial that reached a rung is paused there and has not moved past it. One paused
/// between rungs was paused by the user, who alone resumes it.
pub(super) fn waits_at(trial: &Trial, next: Option<u64>) -> bool {
    let last = trial.last_step();
    let passed_next = last.is_some_and(|last| next.is_some_and(|next| last >= next));
    let on_its_way = trial.until.zip(last).is_some_and(|(until, last)| until > last);
    trial.waits_for_its_pruner() && !passed_next && !on_its_way
}

/// The trial's first report at or after `rung`.
pub(super) fn value_at(trial: &Trial, rung: u64) -> Option<f64> {
    trial.curve.get(trial.curve.partition_point(|(step, _)| *step < rung)).map(|(_, value)| *value)
}

/// The losses of the trial's first report at or after `rung`.
fn losses_from(history: History<'_>, trial: &Trial, rung: u64) -> Option<Vec<f64>> {
    let index = trial.vectors.partition_point(|(step, _)| *step < rung);
    history.losses_at(trial, trial.vectors.get(index)?.0)
}
