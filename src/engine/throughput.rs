//! How fast the trials on a device are with how many others: what tells whether it does more with
//! one more.

use std::collections::BTreeMap;
use std::time::Duration;

use super::load::float;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// Where no steps are reported for so long, the CPU time that trials get tells their speed.
const SILENT: Duration = Duration::from_secs(10);
/// Speeds of so many trials are remembered.
const REMEMBERED: usize = 256;

/// A trial on a device, as whoever asks knows it.
#[derive(Clone, Copy, Debug)]
pub struct RunningTrial {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Since when it runs.
    pub since: Timestamp,
    /// Whether it is the best of those that run, or of all.
    pub is_best: bool,
    /// Whether it has been asked to leave.
    pub leaves: bool,
    /// The memory that it will have taken at most, in bytes, where that can be told.
    pub memory: Option<u64>,
}

/// Work that was done in some time.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    amount: f64,
    seconds: f64,
    samples: u32,
}

impl Work {
    fn add(&mut self, amount: f64, seconds: f64) {
        self.amount += amount;
        self.seconds += seconds;
        self.samples += 1;
    }

    fn speed(self) -> Option<f64> {
        (self.seconds > 0.0 && self.amount > 0.0).then(|| self.amount / self.seconds)
    }
}

/// Work by how many trials there were at a time.
type ByNumber = BTreeMap<u32, Work>;

/// The work of each trial.
#[derive(Clone, Debug, Default)]
struct OfTrials(BTreeMap<TrialNumber, ByNumber>);

impl OfTrials {
    fn add(&mut self, trial: TrialNumber, number: u32, amount: f64, seconds: f64) {
        self.0.entry(trial).or_default().entry(number).or_default().add(amount, seconds);
        while self.0.len() > REMEMBERED {
            self.0.pop_first();
        }
    }

    fn at(&self, trial: TrialNumber, number: u32) -> Work {
        let of_trial = self.0.get(&trial).and_then(|of| of.get(&number));
        of_trial.copied().unwrap_or_default()
    }

    /// How much more is done by `slots` trials, of which `now` tells the speed, than by one less:
    /// the sum of their speeds, each as a share of what it had with one less. Of one that came last
    /// that is not known, and what the others had on average stands for it; were it faster than
    /// them, it would say nothing about room.
    fn growth(
        &self,
        trials: &[RunningTrial],
        slots: u32,
        now: impl Fn(&RunningTrial) -> Option<f64>,
    ) -> Option<f64> {
        let fewer = slots - 1;
        let before: Vec<f64> =
            self.0.keys().filter_map(|trial| self.at(*trial, fewer).speed()).collect();
        let mean = before.iter().sum::<f64>() / float(before.len() as u64);
        let mut sum = 0.0;
        for trial in trials {
            let now = now(trial)?;
            sum += match self.at(trial.trial, fewer).speed() {
                Some(before) => now / before,
                None => (now / mean).min(1.0),
            };
        }
        (!before.is_empty()).then(|| sum / f64::from(fewer))
    }
}

/// What was measured on one device. A *stage* is a time in which as many trials may run at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Throughput {
    /// How many that are now, and since when.
    slots: u32,
    since: Timestamp,
    /// Last reports.
    reports: BTreeMap<TrialNumber, (Timestamp, u64)>,
    looked: Option<Timestamp>,
    steps: OfTrials,
    cores: OfTrials,
    ends: ByNumber,
    last_end: Option<Timestamp>,
    /// Attempts that ended in this stage.
    ended: u32,
}

impl Throughput {
    /// What is measured from here on belongs to this number of trials.
    pub fn stage(&mut self, slots: u32, now: Timestamp) {
        self.slots = slots;
        self.since = now;
        self.looked = None;
        self.last_end = None;
        self.ended = 0;
    }

    /// A run begins: nobody reported yet.
    pub fn begin(&mut self) {
        self.reports.clear();
    }

    /// A trial reported, while so many ran.
    pub fn reported(&mut self, trial: TrialNumber, step: u64, running: u32, now: Timestamp) {
        let before = self.reports.insert(trial, (now, step));
        if let Some((at, last)) =
            before.filter(|(at, last)| *at > self.since && *last < step && running == self.slots)
        {
            let seconds = now.since(at).as_secs_f64();
            self.steps.add(trial, self.slots, float(step - last), seconds);
        }
    }

    /// An attempt ended, while so many ran, it included.
    pub fn ended(&mut self, trial: TrialNumber, running: u32, now: Timestamp) {
        self.reports.remove(&trial);
        self.ended = self.ended.saturating_add(1);
        // From one end to the next, as long as all slots are taken.
        let before = self.last_end.replace(now);
        if let Some(before) = before.filter(|_| running == self.slots) {
            self.ends.entry(self.slots).or_default().add(1.0, now.since(before).as_secs_f64());
        }
    }

    /// The CPU cores that trials were seen to use, while so many ran.
    pub fn looked(
        &mut self,
        cores: impl Iterator<Item = (TrialNumber, f64)>,
        running: u32,
        now: Timestamp,
    ) {
        let is_of_stage = |looked: &Timestamp| *looked >= self.since && running == self.slots;
        let Some(before) = self.looked.replace(now).filter(is_of_stage) else { return };
        let seconds = now.since(before).as_secs_f64();
        for (trial, cores) in cores {
            self.cores.add(trial, self.slots, cores * seconds, seconds);
        }
    }

    /// The most cores that a trial used, with however many others.
    pub fn cores_of(&self, trial: TrialNumber) -> Option<f64> {
        let measured = self.cores.0.get(&trial)?.values().filter(|work| work.samples >= 3);
        measured.filter_map(|work| work.speed()).reduce(f64::max)
    }

    /// Whether all that run have reported, or as many have ended since there are so many.
    pub fn is_under_way(&self, trials: &[RunningTrial]) -> bool {
        self.ended >= self.slots
            || trials.iter().all(|trial| self.reports.contains_key(&trial.trial))
    }

    /// Whether what runs now was measured: all of them at a few reports each, or so many ends, or
    /// some seconds of CPU time.
    pub fn is_measured(&self, trials: &[RunningTrial], now: Timestamp) -> bool {
        self.has_steps(trials) || self.by_ends().is_some() || self.has_cores(trials, now)
    }

    /// How many times as much the device does with so many as with one less; `None` while that was
    /// not measured.
    pub fn growth(&self, trials: &[RunningTrial], now: Timestamp) -> Option<f64> {
        let (slots, fewer) = (self.slots, self.slots.checked_sub(1).filter(|fewer| *fewer > 0)?);
        if self.has_steps(trials)
            && let Some(growth) =
                self.steps.growth(trials, slots, |trial| self.pace_of(trial, now).speed())
        {
            return Some(growth);
        }
        let fewer_ends = self.ends.get(&fewer).and_then(|work| work.speed());
        if let (Some(now), Some(before)) = (self.by_ends(), fewer_ends) {
            return Some(now / before);
        }
        self.has_cores(trials, now).then_some(())?;
        self.cores.growth(trials, slots, |trial| self.cores.at(trial.trial, slots).speed())
    }

    fn has_steps(&self, trials: &[RunningTrial]) -> bool {
        // Three reports of minutes say more than five of milliseconds.
        let tells = |work: Work| work.samples >= 3 && (work.seconds >= 1.0 || work.samples >= 8);
        trials.iter().all(|trial| tells(self.steps.at(trial.trial, self.slots)))
    }

    /// How fast a trial is with as many as there are now. A report that is overdue counts as far as
    /// it is: otherwise whoever is kept waiting would seem as fast as before.
    fn pace_of(&self, trial: &RunningTrial, now: Timestamp) -> Work {
        let mut work = self.steps.at(trial.trial, self.slots);
        if let Some((last, _)) = self
            .reports
            .get(&trial.trial)
            .filter(|(last, _)| *last > self.since && work.samples > 0)
        {
            let usual = work.seconds / f64::from(work.samples);
            work.seconds += (now.since(*last).as_secs_f64() - usual).max(0.0);
        }
        work
    }

    fn by_ends(&self) -> Option<f64> {
        let work = self.ends.get(&self.slots)?;
        (work.samples >= (3 * self.slots).max(8)).then(|| work.speed()).flatten()
    }

    fn has_cores(&self, trials: &[RunningTrial], now: Timestamp) -> bool {
        now.since(self.since) >= SILENT
            && !trials.is_empty()
            && trials.iter().all(|trial| self.cores.at(trial.trial, self.slots).samples >= 5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_trials_that_keep_their_speed_double_the_throughput() {
        let trial = |trial| RunningTrial {
            trial: TrialNumber(trial),
            since: Timestamp(0),
            is_best: false,
            leaves: false,
            memory: None,
        };
        let trials = [trial(0), trial(1)];
        let second = |second: u64| Timestamp(i64::try_from(second).unwrap() * 1_000_000);
        let mut throughput = Throughput::default();
        throughput.stage(1, second(0));
        (1..9).for_each(|step| throughput.reported(TrialNumber(0), step, 1, second(step)));
        assert!(throughput.is_measured(&trials[..1], second(8)));
        throughput.stage(2, second(8));
        assert!(!throughput.is_measured(&trials, second(8)));
        for step in 9..18 {
            (0..2).for_each(|trial| throughput.reported(TrialNumber(trial), step, 2, second(step)));
        }
        assert_eq!(throughput.growth(&trials, second(17)), Some(2.0));
    }
}
