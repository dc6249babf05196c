//! The number of concurrent trials on a device with `trials_per_device = "auto"`, decided from
//! memory and throughput.
//!
//! It starts with one trial. Another is admitted once all running ones have been measured, if there
//! is memory for it and for the growth of the running ones, with a tenth to spare, **and** the last
//! admission increased the throughput. While each slot does nearly as much as the first, the number
//! doubles, as far as memory goes: otherwise short trials would be over before a GPU is full. A
//! trial's memory is its measured peak or the estimate for trials like it (see
//! [`memory_model`](crate::analysis::memory_model)), whichever is larger; without an estimate, the
//! largest so far. Throughput is the sum of each trial's speed relative to its speed with fewer
//! trials. Speed is steps per second between reports or, for short trials, ended trials, or CPU
//! time. If an admission did not increase throughput by the factor [`GROWTH`] for each trial, the
//! number drops again, without stopping a trial, and goes up one by one from there; one more that
//! is no better is tried again at growing intervals. Under memory pressure, which a larger trial
//! can still cause, the youngest trial saves and waits; the best one never does.
//!
//! On a CPU, a trial needs a free core. Trials of the built-in trainer compute constantly, on their
//! configured number of threads: while cores are free, one more increases throughput, so only
//! memory is measured, once each has reported. The usage of other programs is measured. If cores or
//! memory are exhausted, the device is saturated, which is recorded once.
//!
//! It has no access to clock, devices or processes: the runner feeds it measurements, and the
//! journal its earlier decisions.

use std::time::Duration;

use super::load::float;
pub use super::load::{Load, TrialLoad};
pub use super::throughput::RunningTrial;
use super::throughput::{Growth, Throughput};
use crate::study::counted::count;
use crate::study::event::ConcurrencyChange;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// Minimum increase in throughput per admission. Busy machines have larger measurement errors:
/// trials blocked by one lock were measured at 1.07.
pub const GROWTH: f64 = 1.05;
/// How much more than a whole number of trials is a measurement error.
const TOLERANCE: f64 = 0.1;
/// The share of the throughput that as many trials alone would have, from which on the number
/// doubles.
const EFFICIENT: f64 = 0.85;
/// Trials are admitted up to this share of a device's memory.
pub const FILLED: f64 = 0.9;
/// Memory pressure: above this share a trial has to leave.
pub const SHORT: f64 = 0.95;
/// Tolerance for the measured demand, in cores.
const SLACK: f64 = 0.5;
/// Wait before a number that was no better is tried again, doubled each time.
const RETRY: Duration = Duration::from_secs(120);

/// The next trial in the queue for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// No trial waits for the slot.
    Nothing,
    /// A trial, and the upper estimate of its memory in bytes, if there is one.
    Trial(Option<u64>),
}

/// A change to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// New number of concurrent trials.
    pub slots: u32,
    /// The kind of change.
    pub change: ConcurrencyChange,
    /// The trial that has to leave.
    pub leaves: Option<TrialNumber>,
    /// The reason with its numbers, one sentence.
    pub reason: String,
}

/// Decides the number of concurrent trials on one device.
#[derive(Clone, Debug, Default)]
pub struct Concurrency {
    slots: u32,
    /// The number at the start of the run.
    first: u32,
    /// A number that was no better than one less, and when it may be tried again.
    ceiling: Option<(u32, Timestamp)>,
    /// How often that happened.
    setbacks: u32,
    /// Whether twice as many were no better: from here on it goes up one by one.
    is_careful: bool,
    memory: Option<(u64, u64)>,
    /// The user's memory limit for all trials together.
    limit: Option<u64>,
    /// Cores of the device, if it is a CPU.
    cores: Option<u32>,
    /// Whether it accepts only one process at a time.
    exclusive: bool,
    /// Threads on which each trial computes constantly; `None` if trials may idle.
    threads: Option<u32>,
    /// Whether saturation was recorded.
    is_saturated: bool,
    /// The lowest memory in use so far: that of other programs.
    base: u64,
    /// Memory of other programs, where usage is known by process.
    others: u64,
    /// The largest memory of any trial.
    largest: u64,
    throughput: Throughput,
}

impl Concurrency {
    /// One trial at a time, from this time on.
    pub fn new(since: Timestamp) -> Self {
        let mut throughput = Throughput::default();
        throughput.stage(1, since);
        Concurrency { slots: 1, first: 1, base: u64::MAX, throughput, ..Concurrency::default() }
    }

    /// Sets the memory limit of all trials together, and the threads of each if they compute
    /// constantly.
    #[must_use]
    pub fn of_trials(self, limit: Option<u64>, threads: Option<u32>) -> Self {
        Concurrency { limit, threads: threads.map(|threads| threads.max(1)), ..self }
    }

    /// Number of concurrent trials.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The largest memory of a trial so far.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// Memory available to a single trial, in bytes; `None` before the first measurement.
    pub fn room(&self) -> Option<u64> {
        self.memory.map(|(_, total)| self.capacity(total).saturating_sub(self.others))
    }

    /// Applies an earlier decision from the journal, to continue after a crash.
    pub fn apply(&mut self, at: Timestamp, slots: u32, change: ConcurrencyChange, largest: u64) {
        let more = self.slots;
        self.stage(slots, at);
        self.largest = self.largest.max(largest);
        match change {
            ConcurrencyChange::Back => self.set_back(more, slots, at),
            ConcurrencyChange::Saturated => self.is_saturated = true,
            ConcurrencyChange::Admitted | ConcurrencyChange::MemoryPressure => {}
        }
    }

    /// Begins a stage: measurements from here on belong to the new number.
    fn stage(&mut self, slots: u32, now: Timestamp) {
        self.slots = slots.max(1);
        self.is_saturated = false;
        self.throughput.stage(self.slots, now);
    }

    /// From `more` slots, which were no better.
    fn set_back(&mut self, more: u32, slots: u32, now: Timestamp) {
        self.is_careful = true;
        if more > slots + 1 {
            return;
        }
        let wait = RETRY.saturating_mul(1 << self.setbacks.min(16));
        self.setbacks += 1;
        self.ceiling = Some((slots, now.after(wait)));
    }

    /// Begins a run: earlier measurements are discarded.
    pub fn begin(&mut self, now: Timestamp) {
        self.stage(self.slots, now);
        self.first = self.slots;
        self.throughput.begin();
        self.ceiling = self.ceiling.map(|(slots, _)| (slots, now.after(RETRY)));
    }

    /// A trial reported while `running` ran.
    pub fn reported(&mut self, trial: TrialNumber, step: u64, running: u32, now: Timestamp) {
        self.throughput.reported(trial, step, running, now);
    }

    /// An attempt ended while `running` ran, itself included.
    pub fn ended(&mut self, trial: TrialNumber, running: u32, now: Timestamp) {
        self.throughput.ended(trial, running, now);
    }

    /// Applies a measurement of the device; returns each trial's memory, as far as it is known.
    pub fn loaded(&mut self, load: &Load, running: u32, now: Timestamp) -> Vec<(TrialNumber, u64)> {
        self.memory = Some((load.used, load.total));
        self.cores = load.cores;
        self.exclusive = load.exclusive;
        self.base = self.base.min(load.used);
        let of_trials: u64 = load.trials.iter().map(|trial| trial.memory).sum();
        let tells = load.trials.iter().any(|trial| trial.memory > 0);
        self.others = if tells { load.used.saturating_sub(of_trials) } else { self.base };
        let own = load.used.saturating_sub(self.base);
        let taken: Vec<(TrialNumber, u64)> = match load.trials.as_slice() {
            trials if tells => trials.iter().map(|seen| (seen.trial, seen.memory)).collect(),
            // A single trial has all memory beyond the base.
            [only] => vec![(only.trial, own)],
            _ => Vec::new(),
        };
        let share = own / u64::from(running.max(1));
        let most = taken.iter().map(|(_, bytes)| *bytes).max().unwrap_or(share);
        self.largest = self.largest.max(most);
        self.throughput.looked(
            load.trials.iter().filter_map(|seen| Some((seen.trial, seen.cores?))),
            running,
            now,
        );
        taken
    }

    /// A trial reported its peak memory.
    pub fn took(&mut self, bytes: u64) {
        self.largest = self.largest.max(bytes);
    }

    /// The change to make for these running trials, if any.
    pub fn advise(
        &mut self,
        trials: &[RunningTrial],
        waiting: Waiting,
        now: Timestamp,
    ) -> Option<Advice> {
        let running = u32::try_from(trials.len()).unwrap_or(u32::MAX);
        let (used, total) = self.memory?;
        let capacity = self.capacity(total);
        if trials.iter().any(|trial| trial.leaves) {
            return None;
        }
        if float(used) > self.up_to(SHORT, capacity) {
            return self.make_room(trials, used, capacity, now);
        }
        if let Some(advice) = self.fit_to_cores(now) {
            return Some(advice);
        }
        let Waiting::Trial(next) = waiting else { return None };
        let is_too_early = |(ceiling, again)| ceiling <= self.slots && now < again;
        if running < self.slots || running == 0 || self.ceiling.is_some_and(is_too_early) {
            return None;
        }
        let grown = self.growth(trials, now)?;
        let slots = self.slots;
        let compared = |Growth { factor, fewer }| {
            format!("{slots} at a time do {factor:.2} times as much as {fewer}")
        };
        let needed = |fewer: u32| GROWTH.powf(f64::from(slots - fewer));
        if let Some(growth) = grown.filter(|growth| growth.factor < needed(growth.fewer)) {
            let fewer = growth.fewer;
            let what = if slots - fewer == 1 { "a slot" } else { "the slots" };
            let reason = format!("{}: not worth {what}", compared(growth));
            self.stage(fewer, now);
            self.set_back(slots, fewer, now);
            return self.advice(ConcurrencyChange::Back, reason);
        }
        if let Some((growth, enough)) =
            grown.and_then(|growth| Some((growth, self.enough(growth)?)))
        {
            let reason = format!("{}, as {enough} would", compared(growth));
            self.stage(enough, now);
            self.set_back(slots, enough, now);
            return self.advice(ConcurrencyChange::Back, reason);
        }
        if self.exclusive {
            let reason = "its compute mode is `exclusive`, for one process at a time; `nvidia-smi \
                -c 0` lets several share it";
            return self.saturated(reason.to_owned());
        }
        if let Some(reason) = self.lack_of_cores(trials) {
            return self.saturated(reason);
        }
        if self.largest == 0 {
            return None;
        }
        let each = next.unwrap_or(0).max(self.largest);
        let with_one = self.expected(trials, next);
        let with = |more: u32| with_one.saturating_add(each.saturating_mul(u64::from(more - 1)));
        let has_room = |more: &u32| float(with(*more)) <= self.up_to(FILLED, capacity);
        let numbers = |more: u32| {
            let others = match (more, next) {
                (1, Some(memory)) => {
                    format!("another that is expected to take {}", size(memory))
                }
                (1, None) => {
                    format!("another as large as the largest so far ({})", size(self.largest))
                }
                _ => format!("{more} others of up to {}", size(each)),
            };
            format!("{} of {} with {others}", size(with(more)), size(capacity))
        };
        if !has_room(&1) {
            return self.saturated(format!("memory has no room: {}", numbers(1)));
        }
        let so_far = grown.map_or_else(String::new, |growth| compared(growth) + ", and ");
        let is_efficient = |Growth { factor, fewer }: &Growth| {
            factor * f64::from(*fewer) >= EFFICIENT * f64::from(slots)
        };
        let doubles = !self.is_careful && grown.as_ref().is_some_and(is_efficient);
        // On a processor trials need cores, which are counted one by one.
        let most = if doubles && self.cores.is_none() { slots } else { 1 };
        let more = (1..=most).take_while(has_room).last().unwrap_or(1);
        let reason = format!("{so_far}memory has room: {}", numbers(more));
        self.stage(slots + more, now);
        self.ceiling = None;
        self.advice(ConcurrencyChange::Admitted, reason)
    }

    /// The number whose trials, as fast as those of fewer, would do as much as the present one, if
    /// it is smaller: after a jump, the device was full before its end.
    fn enough(&self, Growth { factor, fewer }: Growth) -> Option<u32> {
        let alone = float(fewer.into()) * factor;
        if self.slots - fewer == 1 || alone >= EFFICIENT * float(self.slots.into()) {
            return None;
        }
        (fewer..self.slots).find(|slots| float((*slots).into()) + TOLERANCE >= alone)
    }

    /// The present number, with a reason.
    fn advice(&self, change: ConcurrencyChange, reason: String) -> Option<Advice> {
        Some(Advice { slots: self.slots, change, leaves: None, reason })
    }

    /// Why a trial with this memory estimate does not fit even alone, if so.
    pub fn excess(&self, memory: u64) -> Option<String> {
        self.lack_of_memory(&[], memory)
    }

    /// Why a trial with this memory estimate cannot start beside the running ones, if so.
    pub fn lack_of_memory(&self, trials: &[RunningTrial], memory: u64) -> Option<String> {
        let (_, total) = self.memory?;
        let (expected, capacity) = (self.expected(trials, Some(memory)), self.capacity(total));
        let is_too_much = float(expected) > self.up_to(FILLED, capacity);
        let [memory, expected, capacity] = [memory, expected, capacity].map(size);
        is_too_much.then(|| {
            format!("it is expected to take {memory}, and {expected} of {capacity} would be in use")
        })
    }

    /// Upper estimate of the memory in use by the running trials and another. Without an estimate,
    /// the largest so far.
    fn expected(&self, trials: &[RunningTrial], next: Option<u64>) -> u64 {
        let all = trials.iter().map(|trial| trial.memory).chain(std::iter::once(next));
        all.fold(self.others, |sum, memory| sum.saturating_add(memory.unwrap_or(self.largest)))
    }

    /// The device's memory, as far as trials and others may use it.
    fn capacity(&self, total: u64) -> u64 {
        self.limit.map_or(total, |limit| total.min(self.others.saturating_add(limit)))
    }

    /// A share of the capacity; of the user's limit, if there is one, which excludes other
    /// programs.
    fn up_to(&self, share: f64, capacity: u64) -> f64 {
        let is_theirs = |limit: u64| self.others.saturating_add(limit) <= capacity;
        let of_others = if self.limit.is_some_and(is_theirs) { self.others } else { 0 };
        float(of_others) + share * float(capacity - of_others)
    }

    /// Reduces the number to the available cores: an earlier run may have been on another machine,
    /// or with fewer threads per trial.
    fn fit_to_cores(&mut self, now: Timestamp) -> Option<Advice> {
        let (cores, threads) = self.cores.zip(self.threads)?;
        let slots = (cores / threads).max(1);
        if self.slots <= slots {
            return None;
        }
        self.stage(slots, now);
        let (cores, threads) = (count(cores.into(), "core"), count(threads.into(), "thread"));
        let reason = format!("{cores} for trials that compute on {threads} each");
        self.advice(ConcurrencyChange::Back, reason)
    }

    /// Why no core is left for another trial, if so.
    fn lack_of_cores(&self, trials: &[RunningTrial]) -> Option<String> {
        let cores = self.cores?;
        let all = count(cores.into(), "core");
        if let Some(threads) = self.threads {
            let wanted = threads.saturating_mul(self.slots.saturating_add(1));
            let each = count(threads.into(), "thread");
            return (wanted > cores)
                .then(|| format!("all of {all} are in use: each trial computes on {each}"));
        }
        let used = trials.iter().map(|trial| self.throughput.cores_of(trial.trial));
        let used = used.collect::<Option<Vec<f64>>>().filter(|used| !used.is_empty())?;
        let (sum, most) = (used.iter().sum::<f64>(), used.iter().copied().fold(0.0, f64::max));
        (sum + most > f64::from(cores) + SLACK)
            .then(|| format!("{sum:.1} of {all} are in use, and another may use {most:.1}"))
    }

    /// No change; the reason is recorded once.
    fn saturated(&mut self, reason: String) -> Option<Advice> {
        let is_news = !std::mem::replace(&mut self.is_saturated, true);
        self.advice(ConcurrencyChange::Saturated, reason).filter(|_| is_news)
    }

    /// The youngest trial leaves, but never the best, nor the last one.
    fn make_room(
        &mut self,
        trials: &[RunningTrial],
        used: u64,
        capacity: u64,
        now: Timestamp,
    ) -> Option<Advice> {
        let may_leave = trials.iter().filter(|trial| !trial.is_best && trials.len() > 1);
        let leaves = Some(may_leave.max_by_key(|trial| (trial.since, trial.trial))?.trial);
        self.stage(u32::try_from(trials.len()).unwrap_or(u32::MAX) - 1, now);
        self.memory = None;
        let (used, capacity, count) = (size(used), size(capacity), trials.len());
        let reason = format!(
            "memory is short: {used} of {capacity} are used by {count} trials; the youngest makes \
             room"
        );
        let advice = self.advice(ConcurrencyChange::MemoryPressure, reason)?;
        Some(Advice { leaves, ..advice })
    }

    /// A trial ran out of memory beside others: one slot less.
    pub fn out_of_memory(&mut self, running: u32, now: Timestamp) -> Option<Advice> {
        let others = running.checked_sub(1).filter(|others| *others > 0)?;
        self.stage(others, now);
        self.set_back(running, others, now);
        let reason = format!("a trial ran out of memory beside {}", count(others.into(), "other"));
        self.advice(ConcurrencyChange::MemoryPressure, reason)
    }

    /// Throughput relative to fewer trials; `None` while not measured. A single trial, or the
    /// number inherited from an earlier run, has no reference.
    fn growth(&self, trials: &[RunningTrial], now: Timestamp) -> Option<Option<Growth>> {
        if self.threads.is_some() {
            return self.throughput.is_under_way(trials).then_some(None);
        }
        let is_first = self.slots == self.first && self.throughput.is_measured(trials, now);
        self.throughput.growth(trials, now).map(Some).or(is_first.then_some(None))
    }
}

/// A size for messages.
pub(super) fn size(bytes: u64) -> String {
    let mib = float(bytes) / f64::from(1 << 20);
    if mib >= 1024.0 { format!("{:.1} GiB", mib / 1024.0) } else { format!("{mib:.0} MiB") }
}
