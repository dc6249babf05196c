//! The estimators' view of past trials, updated incrementally: their ranks and positions.

use std::cell::Cell;
use std::cmp::Ordering;

use super::kernels::{Kernels, Norm, Norms};
use crate::samplers::cube::{AxisKind, Cube};
use crate::samplers::ranking::{RankKey, rank_keys};
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::space::Space;
use crate::study::state::Mark;
use crate::study::trial::TrialNumber;

/// The trials of a study by rank, and the positions of those requested so far. A function of space
/// and history: rebuilt where it cannot be updated.
#[derive(Debug)]
pub(super) struct Past {
    space: Space,
    /// The axes of the space.
    pub cube: Cube,
    /// The history's mark at the last update.
    seen: Option<(Mark, Vec<Direction>)>,
    /// Each trial's rank key, by trial.
    rank_keys: Vec<RankKey>,
    /// All trials, best first; ties by number.
    ranked: Vec<(RankKey, usize)>,
    informed: usize,
    /// By trial: its slot, once its positions were requested.
    slots: Vec<Option<usize>>,
    /// By slot: its trial.
    owners: Vec<usize>,
    /// The trials on each axis of `cube`.
    axes: Vec<AxisTrials>,
}

/// The trials on one axis.
#[derive(Debug)]
struct AxisTrials {
    is_ordered: bool,
    /// The position of each slot's trial on the axis.
    positions: Vec<f64>,
    /// Trials that have the axis, by position; ties by number. Empty on axes without kernel widths.
    order: Vec<Placed>,
    /// By slot: norms of kernels of the bad density.
    norms: Vec<Cell<Norm>>,
}

/// A trial's position on an axis.
#[derive(Clone, Copy, Debug)]
struct Placed {
    position: f64,
    trial: usize,
    slot: usize,
}

impl Placed {
    fn cmp(&self, other: &Placed) -> Ordering {
        self.position.total_cmp(&other.position).then(self.trial.cmp(&other.trial))
    }
}

/// Up to this many new trials are inserted one by one; with more, the order is sorted again.
const FEW: usize = 8;

impl Past {
    /// The past of `history`, updated from an `earlier` one if possible.
    pub fn after(earlier: Option<Past>, space: &Space, history: History<'_>) -> Self {
        let seen = history.changes().map(|changes| (changes.mark(), history.directions().to_vec()));
        let followed =
            earlier.filter(|past| past.space == *space).and_then(|past| past.follow(history));
        Past { seen, ..followed.unwrap_or_else(|| Past::new(space, history)) }
    }

    fn new(space: &Space, history: History<'_>) -> Self {
        let cube = Cube::new(space);
        let axis_trials = |kind| AxisTrials {
            is_ordered: !matches!(kind, AxisKind::Single | AxisKind::Choice(_)),
            positions: Vec::new(),
            order: Vec::new(),
            norms: Vec::new(),
        };
        let axes = cube.axes.iter().map(|axis| axis_trials(axis.kind)).collect();
        let mut past = Past {
            space: space.clone(),
            cube,
            seen: None,
            rank_keys: Vec::new(),
            ranked: Vec::new(),
            informed: 0,
            slots: Vec::new(),
            owners: Vec::new(),
            axes,
        };
        past.rank_all(history);
        past
    }

    fn rank_all(&mut self, history: History<'_>) {
        self.rank_keys = rank_keys(&history);
        self.ranked = self.rank_keys.iter().copied().zip(0..).collect();
        self.ranked.sort_unstable();
        self.informed = self.rank_keys.iter().filter(|key| key.is_informed()).count();
        self.slots.resize(self.rank_keys.len(), None);
    }

    /// Updates it to `history`, if that records what has changed, and no parameters of a trial
    /// whose positions are known have.
    fn follow(mut self, history: History<'_>) -> Option<Self> {
        let (mark, directions) = self.seen.take()?;
        let changed =
            history.changes().filter(|_| directions == history.directions())?.since(&mark)?;
        let mut changed: Vec<usize> = changed.map(TrialNumber::index).collect();
        changed.sort_unstable();
        changed.dedup();
        if history.has_present_params() && changed.iter().any(|index| self.moved(*index, history)) {
            return None;
        }
        if history.has_several_objectives() {
            // A trial may change the ranks of all others.
            if !changed.is_empty() {
                self.rank_all(history);
            }
            return (self.rank_keys.len() == history.trials().len()).then_some(self);
        }
        for index in changed {
            self.rank(index, RankKey::of(&history, history.trials().get(index)?));
        }
        Some(self)
    }

    /// Whether a trial has other positions than it had when they were requested.
    fn moved(&self, index: usize, history: History<'_>) -> bool {
        let Some(slot) = self.slots.get(index).copied().flatten() else { return false };
        let Some(trial) = history.trials().get(index) else { return false };
        let point = self.cube.encode(&trial.params);
        self.axes
            .iter()
            .zip(point)
            .any(|(axis, position)| axis.positions[slot].to_bits() != position.to_bits())
    }

    fn rank(&mut self, index: usize, key: RankKey) {
        if let Some(before) = self.rank_keys.get(index).copied() {
            if before == key {
                return;
            }
            if let Ok(rank) = self.ranked.binary_search(&(before, index)) {
                self.ranked.remove(rank);
            }
            self.informed -= usize::from(before.is_informed());
            self.rank_keys[index] = key;
        } else {
            // In ascending order, without gaps.
            self.rank_keys.push(key);
            self.slots.push(None);
        }
        self.informed += usize::from(key.is_informed());
        let rank = self.ranked.partition_point(|other| *other < (key, index));
        self.ranked.insert(rank, (key, index));
    }

    /// How many trials are complete, pruned or paused.
    pub fn informed(&self) -> usize {
        self.informed
    }

    /// The indices of all trials, best first.
    pub fn ranked(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.ranked.iter().map(|(_, index)| *index)
    }

    /// Computes the positions of `trials`, and returns their slots.
    pub fn locate(&mut self, trials: &[usize], history: History<'_>) -> Vec<usize> {
        let before = self.owners.len();
        for index in trials {
            if self.slots[*index].is_none() {
                let point = self.cube.encode(&history.trials()[*index].params);
                self.slots[*index] = Some(self.owners.len());
                self.owners.push(*index);
                self.axes.iter_mut().zip(point).for_each(|(axis, position)| axis.push(position));
            }
        }
        self.axes
            .iter_mut()
            .filter(|axis| axis.is_ordered)
            .for_each(|axis| axis.insert_slots(before, &self.owners));
        trials.iter().filter_map(|index| self.slots[*index]).collect()
    }

    /// The kernels on one axis of the trials in `slots`, and of `others` after them.
    pub fn kernels(&self, axis: usize, slots: &[usize], others: &[&[f64]]) -> Kernels<'static> {
        Kernels::new(self.middles(axis, slots, others), Norms::default())
    }

    /// The same for many slots, ascending by trial, with cached norms. `kernel_of`: by slot, its
    /// index in `slots`.
    pub fn many_kernels<'a>(
        &'a self,
        axis: usize,
        slots: &'a [usize],
        kernel_of: &[Option<usize>],
        others: &[&[f64]],
    ) -> Kernels<'a> {
        let trials = &self.axes[axis];
        let middles = self.middles(axis, slots, others);
        let norms = Norms { known: &trials.norms, slots };
        if !others.is_empty() {
            return Kernels::new(middles, norms);
        }
        let order = trials
            .order
            .iter()
            .filter_map(|placed| Some((placed.position, kernel_of[placed.slot]?)))
            .collect();
        Kernels { middles, order, norms }
    }

    fn middles(&self, axis: usize, slots: &[usize], others: &[&[f64]]) -> Vec<f64> {
        let positions = &self.axes[axis].positions;
        slots
            .iter()
            .map(|slot| positions[*slot])
            .chain(others.iter().map(|other| other[axis]))
            .collect()
    }

    /// By slot, its index in `slots`.
    pub fn kernel_of(&self, slots: &[usize]) -> Vec<Option<usize>> {
        let mut kernel_of = vec![None; self.owners.len()];
        for (kernel, slot) in slots.iter().enumerate() {
            kernel_of[*slot] = Some(kernel);
        }
        kernel_of
    }
}

impl AxisTrials {
    fn push(&mut self, position: f64) {
        self.positions.push(position);
        self.norms.push(Cell::default());
    }

    /// Inserts the slots from `first` on into the order.
    fn insert_slots(&mut self, first: usize, owners: &[usize]) {
        let new = (first..owners.len()).map(|slot| Placed {
            position: self.positions[slot],
            trial: owners[slot],
            slot,
        });
        let new = new.filter(|placed| !placed.position.is_nan());
        if owners.len() - first > FEW {
            self.order.extend(new);
            self.order.sort_unstable_by(Placed::cmp);
            return;
        }
        for placed in new {
            let key = self.order.partition_point(|other| other.cmp(&placed).is_lt());
            self.order.insert(key, placed);
        }
    }
}
