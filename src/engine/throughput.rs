//! Throughput of a device by number of concurrent trials: tells whether more of them help.

use std::collections::BTreeMap;
use std::time::Duration;

use super::load::float;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// After this time without reported steps, CPU time measures the speed of trials.
const SILENT: Duration = Duration::from_secs(10);
/// Ends that measure a number of trials, at least.
const FEWEST_ENDS: u32 = 6;
/// Number of trials whose speeds are kept.
const REMEMBERED: usize = 256;

/// A trial on a device.
#[derive(Clone, Copy, Debug)]
pub struct RunningTrial {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Its start.
    pub since: Timestamp,
    /// Whether it is the best of the running trials, or of all.
    pub is_best: bool,
    /// Whether it has been asked to leave.
    pub leaves: bool,
    /// Estimated peak memory in bytes, if there is an estimate.
    pub memory: Option<u64>,
}

/// Amount of work and its duration.
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

/// Work by number of concurrent trials.
type ByNumber = BTreeMap<u32, Work>;

/// Work by trial.
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

    /// The largest number below `slots` that was measured.
    fn below(&self, slots: u32) -> Option<u32> {
        self.0.values().filter_map(|of| below(of, slots)).max()
    }

    /// Throughput of `slots` trials with the speeds `now`, relative to fewer: the sum of their
    /// speeds, each relative to its own speed before. New ones have no speed before; the mean of
    /// the others replaces it, since a faster one would say nothing about capacity.
    fn growth(
        &self,
        trials: &[RunningTrial],
        slots: u32,
        now: impl Fn(&RunningTrial) -> Option<f64>,
    ) -> Option<Growth> {
        let fewer = self.below(slots)?;
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
        let factor = sum / f64::from(fewer);
        (!before.is_empty()).then_some(Growth { factor, fewer })
    }
}

/// The largest number below `slots` in which there is work.
fn below(of: &ByNumber, slots: u32) -> Option<u32> {
    of.range(..slots).next_back().map(|(number, _)| *number)
}

/// How much more is done than with fewer trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    /// Throughput relative to that of `fewer` trials.
    pub factor: f64,
    /// The number compared with.
    pub fewer: u32,
}

/// Measurements of one device. A *stage* is a period with a constant number of slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Throughput {
    /// Present number of slots, and its start.
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
    /// Begins a stage with this number of slots.
    pub fn stage(&mut self, slots: u32, now: Timestamp) {
        self.slots = slots;
        self.since = now;
        self.looked = None;
        self.last_end = None;
        self.ended = 0;
    }

    /// Begins a run: no reports yet.
    pub fn begin(&mut self) {
        self.reports.clear();
    }

    /// A trial reported while `running` ran.
    pub fn reported(&mut self, trial: TrialNumber, step: u64, running: u32, now: Timestamp) {
        let before = self.reports.insert(trial, (now, step));
        if let Some((at, last)) =
            before.filter(|(at, last)| *at > self.since && *last < step && running == self.slots)
        {
            let seconds = now.since(at).as_secs_f64();
            self.steps.add(trial, self.slots, float(step - last), seconds);
        }
    }

    /// An attempt ended while `running` ran, itself included.
    pub fn ended(&mut self, trial: TrialNumber, running: u32, now: Timestamp) {
        self.reports.remove(&trial);
        self.ended = self.ended.saturating_add(1);
        // From one end to the next, while all slots are taken.
        let before = self.last_end.replace(now);
        if let Some(before) = before.filter(|_| running == self.slots) {
            self.ends.entry(self.slots).or_default().add(1.0, now.since(before).as_secs_f64());
        }
    }

    /// Measured CPU cores of trials while `running` ran.
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

    /// The highest CPU usage of a trial, at any concurrency.
    pub fn cores_of(&self, trial: TrialNumber) -> Option<f64> {
        let measured = self.cores.0.get(&trial)?.values().filter(|work| work.samples >= 3);
        measured.filter_map(|work| work.speed()).reduce(f64::max)
    }

    /// Whether all running trials have reported, or as many have ended in this stage.
    pub fn is_under_way(&self, trials: &[RunningTrial]) -> bool {
        self.ended >= self.slots
            || trials.iter().all(|trial| self.reports.contains_key(&trial.trial))
    }

    /// Whether the present stage is measured: a few reports of each trial, as many ends, or some
    /// seconds of CPU time.
    pub fn is_measured(&self, trials: &[RunningTrial], now: Timestamp) -> bool {
        self.has_steps(trials) || self.by_ends().is_some() || self.has_cores(trials, now)
    }

    /// Throughput relative to the largest smaller number that was measured; `None` while not
    /// measured.
    pub fn growth(&self, trials: &[RunningTrial], now: Timestamp) -> Option<Growth> {
        let slots = self.slots;
        if self.has_steps(trials)
            && let Some(growth) =
                self.steps.growth(trials, slots, |trial| self.pace_of(trial, now).speed())
        {
            return Some(growth);
        }
        let fewer = below(&self.ends, slots);
        let before = fewer.and_then(|fewer| Some((fewer, self.ends.get(&fewer)?.speed()?)));
        if let (Some(now), Some((fewer, before))) = (self.by_ends(), before) {
            return Some(Growth { factor: now / before, fewer });
        }
        self.has_cores(trials, now).then_some(())?;
        self.cores.growth(trials, slots, |trial| self.cores.at(trial.trial, slots).speed())
    }

    fn has_steps(&self, trials: &[RunningTrial]) -> bool {
        // Three reports of minutes are more reliable than five of milliseconds.
        let tells = |work: Work| work.samples >= 3 && (work.seconds >= 1.0 || work.samples >= 8);
        trials.iter().all(|trial| tells(self.steps.at(trial.trial, self.slots)))
    }

    /// The speed of a trial at the present concurrency. An overdue report counts with its delay:
    /// otherwise a blocked trial would seem as fast as before.
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
        (work.samples >= (3 * self.slots).max(FEWEST_ENDS)).then(|| work.speed()).flatten()
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
        assert_eq!(throughput.growth(&trials, second(17)), Some(Growth { factor: 2.0, fewer: 1 }));
    }
}
