//! Resource usage of a study so far: device time, and the durations of recent trials.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::study::device::{DeviceGroup, Slot};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialState};

/// How many recent trials are considered: pruner and sampler change the durations, so that old ones
/// are not representative.
pub const RECENT: usize = 1000;

/// The duration of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// Its state.
    pub state: TrialState,
    /// Time of its ended attempts.
    pub busy: Duration,
    /// Start of the running attempt.
    pub since: Option<Timestamp>,
    /// Step of its last report.
    pub last_step: Option<u64>,
    /// Number of its existing checkpoints of steps up to that one.
    pub saved: u64,
}

impl Tried {
    /// From a trial.
    pub fn of(trial: &Trial) -> Tried {
        let last_step = trial.last().map(|(step, _)| step);
        Tried {
            state: trial.state,
            busy: Duration::from_micros(u64::try_from(trial.busy_micros).unwrap_or(0)),
            since: trial.started.filter(|_| trial.state == TrialState::Running),
            last_step,
            saved: trial.checkpoints.iter().filter(|saved| Some(saved.step) <= last_step).count()
                as u64,
        }
    }

    /// Its duration up to now, in seconds.
    pub fn seconds(&self, now: Timestamp) -> f64 {
        (self.busy + self.since.map_or(Duration::ZERO, |since| now.since(since))).as_secs_f64()
    }
}

/// Resources that a study used so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    /// Accounted device time; a device counts once, however many of its slots are busy.
    pub busy: Duration,
    /// For each busy device, the start of its unaccounted time.
    pub running: Vec<Timestamp>,
    /// The newest trials, [`RECENT`] at most.
    pub recent: Vec<Tried>,
    /// Slots of the current or last runner.
    pub slots: usize,
    /// Number of devices of those slots.
    pub devices: usize,
    /// Number and total size of existing checkpoints that were measured.
    pub measured: (u64, u64),
    /// Existing checkpoints that were not measured.
    pub unmeasured: u64,
}

impl Used {
    /// From a state and the slots of its runner.
    pub fn of(state: &StudyState, slots: &[Slot]) -> Used {
        let first = state.trials.len().saturating_sub(RECENT);
        let mut used = Used {
            busy: Duration::from_micros(u64::try_from(state.busy_micros).unwrap_or(0)),
            recent: state.trials[first..].iter().map(Tried::of).collect(),
            slots: slots.len(),
            devices: devices_of(slots),
            ..Used::default()
        };
        let mut told: BTreeMap<&DeviceGroup, Timestamp> = BTreeMap::new();
        for trial in &state.trials {
            if let Some((devices, started)) = trial
                .devices
                .as_ref()
                .zip(trial.started)
                .filter(|_| trial.state == TrialState::Running)
            {
                let told = told.entry(devices).or_insert(started);
                *told = started.max(*told);
            }
            for checkpoint in &trial.checkpoints {
                match checkpoint.bytes {
                    Some(bytes) => used.measured = (used.measured.0 + 1, used.measured.1 + bytes),
                    None => used.unmeasured += 1,
                }
            }
        }
        for trial in &state.trials[first..] {
            if let Some((told, finished)) =
                trial.devices.as_ref().and_then(|devices| told.get_mut(devices)).zip(trial.finished)
            {
                *told = finished.max(*told);
            }
        }
        let of_each = |(devices, since)| vec![since; DeviceGroup::distinct(devices).len()];
        used.running = told.into_iter().flat_map(of_each).collect();
        used.running.sort_unstable();
        used
    }

    /// Device time up to now.
    pub fn device_time(&self, now: Timestamp) -> Duration {
        self.running.iter().fold(self.busy, |sum, since| sum.saturating_add(now.since(*since)))
    }
}

/// Number of devices of the slots.
pub fn devices_of(slots: &[Slot]) -> usize {
    slots.iter().flat_map(|slot| slot.devices.members()).collect::<BTreeSet<_>>().len()
}
