//! Memory estimates of trials, learned by their study: for admission on shared devices, and for
//! proposals.
//!
//! They depend on the journal only: an attempt's end records its peak memory, and the device memory
//! available to a single trial. The same journal gives the same proposals.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::Engine;
use super::batch_halving::BatchHalving;
use super::concurrency::size;
use crate::analysis::memory_model::{MemoryModel, Seen, Sizes, sizes};
use crate::arguments::RowsAtOnce;
use crate::samplers::AvailableMemory;
use crate::study::device::Device;
use crate::study::event::{AttemptEnd, AttemptEvent, Event, MemoryUse, RunnerEvent};
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::state::StudyState;
use crate::study::trial::{Trial, TrialNumber};

/// Proposals are checked against memory once a trial took this fraction (1 in) of a device; before,
/// all are assumed to fit.
const SCARCE: u64 = 4;
/// Number of trials to learn from.
const KEPT: usize = 128;

/// What is known of the memory of trials.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryEstimates {
    /// The last trials that ended.
    seen: Vec<Seen>,
    /// The highest peak of any trial.
    largest: u64,
    /// The model, computed on demand: replaying a journal fits it only at the end.
    model: OnceLock<Option<MemoryModel>>,
    /// Sizes of trials that ran out of memory while alone on their device.
    too_large: Vec<Sizes>,
    /// Memory of each device available to a single trial.
    rooms: BTreeMap<Device, u64>,
    /// Device of each running attempt, and its training batch size, if halved.
    open: BTreeMap<TrialNumber, (Device, Option<u64>)>,
}

impl MemoryEstimates {
    /// Applies an event of the journal; `state` includes its trial.
    pub fn apply(&mut self, spec: &StudySpec, state: &StudyState, event: &Event) {
        if let Event::Runner(RunnerEvent::Started { .. }) = event {
            // It may have other devices.
            self.rooms.clear();
            self.open.clear();
            self.too_large.clear();
        }
        let Some((trial, event)) = event.attempt_event() else { return };
        match event {
            AttemptEvent::Started { slot, rows_at_once, .. } => {
                self.open.insert(trial, (slot.devices.first().clone(), *rows_at_once));
            }
            AttemptEvent::Ended { end, memory, .. } => {
                let Some((device, rows)) = self.open.remove(&trial) else { return };
                let is_alone = self.open.values().all(|(other, _)| *other != device);
                let trial = state.trial(trial);
                let sizes_of =
                    |trial: &Trial| sizes(spec, &trial.params, rows_then(spec, trial, rows));
                if is_alone && *end == AttemptEnd::Failed(FailureCause::Oom) {
                    self.too_large.extend(trial.map(sizes_of));
                }
                let Some(MemoryUse { peak, room }) = *memory else { return };
                self.rooms.insert(device, room);
                // A trial that failed or stopped early may not have reached its peak.
                let is_whole = match end {
                    AttemptEnd::Completed | AttemptEnd::Paused | AttemptEnd::Stopped => true,
                    AttemptEnd::Interrupted
                    | AttemptEnd::Lost
                    | AttemptEnd::Refused
                    | AttemptEnd::Diverged
                    | AttemptEnd::Failed(_) => false,
                };
                let Some(trial) = trial.filter(|_| is_whole) else { return };
                self.largest = self.largest.max(peak);
                if self.seen.len() >= KEPT {
                    self.seen.remove(0);
                }
                self.seen.push(Seen { sizes: sizes_of(trial), bytes: peak });
                self.model = OnceLock::new();
            }
            AttemptEvent::Launched { .. }
            | AttemptEvent::Reported { .. }
            | AttemptEvent::Remarked { .. } => {}
        }
    }

    fn model(&self) -> Option<&MemoryModel> {
        self.model.get_or_init(|| MemoryModel::learn(&self.seen)).as_ref()
    }

    /// Median peak of the last trials, if memory is predictable.
    fn median(&self) -> Option<u64> {
        self.model()?;
        let mut taken: Vec<u64> = self.seen.iter().map(|seen| seen.bytes).collect();
        taken.sort_unstable();
        taken.get(taken.len() / 2).copied()
    }

    /// The memory limit for proposals: the largest available on any device, and less than the
    /// estimate of any trial that ran out of memory. `None` while memory is ample.
    fn room(&self) -> Option<(&MemoryModel, u64, u64)> {
        let roomiest = self.rooms.values().copied().max().filter(|room| *room > 0)?;
        let is_scarce = self.largest >= roomiest / SCARCE;
        let model = is_scarce.then(|| self.model()).flatten()?;
        let too_much = self.too_large.iter().map(|sizes| model.expect(sizes).likely).min();
        Some((model, roomiest, too_much.unwrap_or(u64::MAX)))
    }
}

/// Batch sizes of an attempt whose training rows were halved to `rows`.
fn rows_then(spec: &StudySpec, trial: &Trial, rows: Option<u64>) -> Option<RowsAtOnce> {
    let usual = BatchHalving::new(spec, &trial.params, 0)?.usual;
    let mut halved = (0..=usual.halvings()).map(|times| usual.halved(times));
    rows.and_then(|train| halved.find(|rows| rows.train as u64 <= train))
}

impl Engine {
    /// Estimated peak memory of a trial in bytes, if there is one.
    pub(super) fn memory_estimate(&self, trial: &Trial) -> Option<u64> {
        let rows = self.halving_of(trial).map(BatchHalving::rows);
        let model = self.memory_estimates.model()?;
        Some(model.expect(&sizes(&self.spec, &trial.params, rows)).most)
    }

    /// The same for the next trial in line: a queued one, or a new proposal, which is assumed to be
    /// typical.
    pub(super) fn memory_estimate_of_next(&self) -> Option<u64> {
        match self.queue.first().and_then(|number| self.state.trial(number)) {
            Some(trial) => self.memory_estimate(trial),
            None => self.memory_estimates.median(),
        }
    }

    /// Calls `propose` with the memory limit of proposals, if it applies; also returns how many
    /// were skipped, and why.
    pub(super) fn within_memory<T>(
        &self,
        propose: impl FnOnce(Option<AvailableMemory<'_>>) -> T,
    ) -> (T, Option<(u64, String)>) {
        let room =
            self.spec.devices.automatic_concurrency.then(|| self.memory_estimates.room()).flatten();
        let Some((memory_model, bytes, too_much)) = room else { return (propose(None), None) };
        let skipped = Cell::new(0);
        let spec = &self.spec;
        let room = AvailableMemory { spec, memory_model, bytes, too_much, skipped: &skipped };
        let proposed = propose(Some(room));
        let reason = || {
            format!(
                "expected not to fit into the {} that a device has for one trial ({})",
                size(bytes),
                memory_model.in_words()
            )
        };
        (proposed, (skipped.get() > 0).then(|| (skipped.get(), reason())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::conformance::small_study;
    use crate::study::device::Slot;
    use crate::study::event::TrialEvent;
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::time::Timestamp;
    use crate::study::trial::{AttemptNumber, Origin};

    const GIB: u64 = 1 << 30;

    /// A study whose trials ran one after the other on these devices: how each ended, and its peak.
    fn after(ended: &[(u32, AttemptEnd, u64)]) -> MemoryEstimates {
        let spec = small_study("s", Direction::Minimize);
        let (mut state, mut estimates) = (StudyState::new(&spec), MemoryEstimates::default());
        for (number, (gpu, end, peak)) in (0..).map(TrialNumber).zip(ended) {
            let (attempt, params) = (AttemptNumber(0), Params::new());
            let origin = Origin::Sampled("random".to_owned());
            let started = TrialEvent::Attempt(AttemptEvent::Started {
                attempt,
                slot: Slot::on(0, Device::Cuda(*gpu)),
                resume: None,
                until: None,
                rows_at_once: None,
                device_micros: 0,
            });
            let ended = TrialEvent::Attempt(AttemptEvent::Ended {
                attempt,
                end: end.clone(),
                reason: None,
                device_micros: None,
                memory: Some(MemoryUse { peak: *peak, room: 8 * GIB }),
                superseded: Default::default(),
            });
            for event in [TrialEvent::created(params, origin), started, ended] {
                let event = Event::Trial(number, event);
                state.apply(Timestamp(0), &event);
                estimates.apply(&spec, &state, &event);
            }
        }
        estimates
    }

    #[test]
    fn only_attempts_that_may_have_reached_their_peak_are_learned_from() {
        let oom = AttemptEnd::Failed(FailureCause::Oom);
        let estimates = after(&[
            (0, AttemptEnd::Completed, GIB),
            (0, AttemptEnd::Interrupted, 7 * GIB),
            (1, AttemptEnd::Paused, 2 * GIB),
            (1, oom, 8 * GIB),
        ]);
        let peaks: Vec<u64> = estimates.seen.iter().map(|seen| seen.bytes).collect();
        assert_eq!((peaks, estimates.largest), (vec![GIB, 2 * GIB], 2 * GIB));
        assert_eq!(estimates.too_large.len(), 1, "it was alone there");
        assert_eq!(estimates.rooms.len(), 2);
    }

    #[test]
    fn proposals_are_free_while_memory_is_ample() {
        let of = |peak| after(&vec![(0, AttemptEnd::Completed, peak); 12]);
        assert!(of(GIB).room().is_none(), "an eighth of the device");
        let scarce = of(4 * GIB);
        let (_, bytes, too_much) = scarce.room().unwrap();
        assert_eq!((bytes, too_much), (8 * GIB, u64::MAX));
        assert_eq!(scarce.median(), Some(4 * GIB));
    }

    #[test]
    fn another_run_may_have_other_devices() {
        let mut estimates = after(&[(0, AttemptEnd::Completed, GIB)]);
        let spec = small_study("s", Direction::Minimize);
        let slots = vec![Slot::on(0, Device::Cpu)];
        let (pid, host) = (1, String::new());
        let started = Event::Runner(RunnerEvent::Started { pid, host, slots, tracker: None });
        estimates.apply(&spec, &StudyState::new(&spec), &started);
        assert!(estimates.rooms.is_empty() && estimates.room().is_none());
        assert_eq!(estimates.seen.len(), 1, "what trials took is known");
    }
}
