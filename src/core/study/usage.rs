//! What a study used so far: time of its devices, and how long its newest trials took.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::study::device::{Device, Slot};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialState};

/// How many trials are looked at, the newest: a pruner and a sampler change what trials take, so
/// that old ones tell little.
pub const RECENT: usize = 1000;

/// What is known of how long one trial took.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// Where it stands.
    pub state: TrialState,
    /// Time of its attempts that have ended.
    pub busy: Duration,
    /// When the attempt that runs began.
    pub since: Option<Timestamp>,
    /// Step of its last report.
    pub last_step: Option<u64>,
}

impl Tried {
    /// Of a trial as it stands.
    pub fn of(trial: &Trial) -> Tried {
        Tried {
            state: trial.state,
            busy: Duration::from_micros(u64::try_from(trial.busy_micros).unwrap_or(0)),
            since: trial.started.filter(|_| trial.state == TrialState::Running),
            last_step: trial.last().map(|(step, _)| step),
        }
    }

    /// How long its attempts took up to now, in seconds.
    pub fn seconds(&self, now: Timestamp) -> f64 {
        (self.busy + self.since.map_or(Duration::ZERO, |since| now.since(since))).as_secs_f64()
    }
}

/// What a study used so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    /// Time of devices, as far as it was told; a device counts once, however many of its slots are
    /// busy.
    pub busy: Duration,
    /// Of each device that is in use, since when its time was not told.
    pub running: Vec<Timestamp>,
    /// The newest trials, [`RECENT`] at most.
    pub recent: Vec<Tried>,
    /// Slots of the runner that runs it, or ran it last.
    pub slots: usize,
    /// On so many devices.
    pub devices: usize,
    /// Checkpoints that are there and were measured, and what they take on the disk.
    pub measured: (u64, u64),
    /// Checkpoints that are there and were not measured.
    pub unmeasured: u64,
}

impl Used {
    /// That of a state, run on these slots.
    pub fn of(view: &StudyState, slots: &[Slot]) -> Used {
        let first = view.trials.len().saturating_sub(RECENT);
        let mut used = Used {
            busy: Duration::from_micros(u64::try_from(view.busy_micros).unwrap_or(0)),
            recent: view.trials[first..].iter().map(Tried::of).collect(),
            slots: slots.len(),
            devices: devices_of(slots),
            ..Used::default()
        };
        let mut told: BTreeMap<&Device, Timestamp> = BTreeMap::new();
        for trial in &view.trials {
            if let Some((device, started)) = trial
                .device
                .as_ref()
                .zip(trial.started)
                .filter(|_| trial.state == TrialState::Running)
            {
                let told = told.entry(device).or_insert(started);
                *told = started.max(*told);
            }
            for checkpoint in &trial.checkpoints {
                match checkpoint.bytes {
                    Some(bytes) => used.measured = (used.measured.0 + 1, used.measured.1 + bytes),
                    None => used.unmeasured += 1,
                }
            }
        }
        for trial in &view.trials[first..] {
            if let Some((told, finished)) =
                trial.device.as_ref().and_then(|device| told.get_mut(device)).zip(trial.finished)
            {
                *told = finished.max(*told);
            }
        }
        used.running = told.into_values().collect();
        used.running.sort_unstable();
        used
    }

    /// Time of devices up to now.
    pub fn device_time(&self, now: Timestamp) -> Duration {
        self.running.iter().fold(self.busy, |sum, since| sum.saturating_add(now.since(*since)))
    }
}

/// On how many devices slots are.
pub fn devices_of(slots: &[Slot]) -> usize {
    slots.iter().map(|slot| &slot.device).collect::<BTreeSet<_>>().len()
}
