//! Who is at each rung, in order, kept from one decision to the next.

use std::collections::BTreeSet;

use crate::study::history::History;
use crate::study::metric::{Direction, Score};
use crate::study::state::Mark;
use crate::study::trial::{Trial, TrialNumber};

/// A trial's place at a rung: equals rank by number.
pub(super) type Place = (Score, TrialNumber);

/// The trials at every rung of every ladder by rank. A function of the history: it is made anew
/// where it cannot follow one.
#[derive(Clone, Debug, Default)]
pub(super) struct Rungs {
    /// The moment that this is of, where the history says what has changed since.
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
    places: Vec<Place>,
    /// Those that may be promoted.
    waiting: BTreeSet<Place>,
}

/// What a trial came to at a rung.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Standing {
    score: Score,
    waits: bool,
}

impl Rungs {
    /// Brings it up to `history`. `ladders` gives a trial's ladder and the steps of its rungs.
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

    /// The rung of a ladder; nothing where nobody has been.
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
                rung.places.push((standing.score, trial.number));
                if standing.waits {
                    rung.waiting.insert((standing.score, trial.number));
                }
            }
            self.standings.push(standings);
        }
        self.ladders.iter_mut().flatten().for_each(|rung| rung.places.sort_unstable());
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
    /// How many trials came here.
    pub fn population(&self) -> usize {
        self.places.len()
    }

    /// How many are before `place`, and one; equals share a rank if it is of the smallest number.
    pub fn rank(&self, place: Place) -> u64 {
        self.places.partition_point(|other| *other < place) as u64 + 1
    }

    /// The best that waits.
    pub fn best_waiting(&self) -> Option<Place> {
        self.waiting.first().copied()
    }

    fn change(&mut self, trial: TrialNumber, before: Option<Standing>, after: Option<Standing>) {
        if let Some(before) = before {
            let place = (before.score, trial);
            if let Ok(index) = self.places.binary_search(&place) {
                self.places.remove(index);
            }
            self.waiting.remove(&place);
        }
        if let Some(after) = after {
            let place = (after.score, trial);
            if let Err(index) = self.places.binary_search(&place) {
                self.places.insert(index, place);
            }
            if after.waits {
                self.waiting.insert(place);
            }
        }
    }
}

/// What `trial` came to at each rung of its ladder, as far as it got.
fn standings(history: History<'_>, trial: &Trial, steps: &[u64]) -> Vec<Standing> {
    let standing = |(index, step): (usize, &u64)| {
        let score = history.score(value_at(trial, *step)?);
        Some(Standing {
            score,
            waits: !score.loss().is_nan() && waits_at(trial, steps.get(index + 1).copied()),
        })
    };
    steps.iter().enumerate().map_while(standing).collect()
}

/// Whether a trial that reached a rung is paused there, neither past the next one nor on its way to
/// it. One that was paused on its way was paused by the user, whose decision it stays.
pub(super) fn waits_at(trial: &Trial, next: Option<u64>) -> bool {
    let passed_next = trial.last().is_some_and(|(last, _)| next.is_some_and(|next| last >= next));
    let on_its_way = trial.until.zip(trial.last()).is_some_and(|(until, (last, _))| until > last);
    trial.waits_for_its_pruner() && !passed_next && !on_its_way
}

/// The trial's first report at or after `rung`.
pub(super) fn value_at(trial: &Trial, rung: u64) -> Option<f64> {
    trial.curve.get(trial.curve.partition_point(|(step, _)| *step < rung)).map(|(_, value)| *value)
}
