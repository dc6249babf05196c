//! How many trials run at once on a device where nobody said it (`trials_per_device = "auto"`):
//! decided from what they take and do there.
//!
//! One trial begins. Another is admitted once all that run were measured, if there is memory for it
//! and for what those that run may still take, with a tenth to spare, **and** the last admission
//! raised the throughput. What a trial takes is what it was seen to take or what trials like it
//! took (see [`memory_model`](crate::analysis::memory_model)), whichever is more; where that cannot
//! be told, as much as the largest so far. Throughput is the sum of what each trial has of the
//! speed that it had with one trial less. Speeds are steps a second between two reports, or, where
//! trials are too short for that, trials that end, or the CPU time that they get. Where one more
//! did not make it at least [`GROWTH`] times as much, the number goes back by one, without anyone
//! having to leave, and is tried again later and later. Under memory pressure all the same, for a
//! trial may need more than any before it, the youngest saves and waits; the best one never does.
//!
//! On a CPU nobody is admitted whom no core is left for. Trials of the built-in trainer compute all
//! the time, on as many threads as they were given: as long as cores are left the CPU does more
//! with another, and nothing but memory is measured, once each that runs has reported. What other
//! programs use is measured. Where neither cores nor memory have room, the device is saturated;
//! that is said once.
//!
//! It knows no clock, no device and no process: whoever runs the study tells it what is the case,
//! and the journal what was decided.

use std::time::Duration;

use super::load::float;
pub use super::load::{Load, TrialLoad};
pub use super::throughput::RunningTrial;
use super::throughput::Throughput;
use crate::study::event::ConcurrencyChange;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// An admission has to make a device do so many times as much. A busy machine's measurements are
/// off by more: trials that wait for one lock were measured at 1.07.
pub const GROWTH: f64 = 1.05;
/// Trials are admitted up to this share of a device's memory.
pub const FILLED: f64 = 0.9;
/// Above this share somebody has to leave.
pub const SHORT: f64 = 0.95;
/// So many cores more than there are may be wanted: what trials use is measured with errors.
const SLACK: f64 = 0.5;
/// A number that was no better is tried again after so long at the earliest, and then after twice
/// that, and so on.
const RETRY: Duration = Duration::from_secs(120);

/// What waits for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing does.
    Nobody,
    /// A trial, and the memory that it will take at most, in bytes, where that can be told.
    Somebody(Option<u64>),
}

/// What is to change.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// So many trials at a time from now on.
    pub slots: u32,
    /// What kind of change that is.
    pub change: ConcurrencyChange,
    /// Who has to leave.
    pub leaves: Option<TrialNumber>,
    /// Why, one sentence with its numbers.
    pub reason: String,
}

/// Decides how many trials run at once on one device.
#[derive(Clone, Debug, Default)]
pub struct Concurrency {
    slots: u32,
    /// As many as the run began with.
    first: u32,
    /// So many were no better than one less; and from when on that is tried again.
    ceiling: Option<(u32, Timestamp)>,
    /// How often that was found.
    setbacks: u32,
    memory: Option<(u64, u64)>,
    /// What trials may take of it together, where their user said it.
    limit: Option<u64>,
    /// Cores of the device, where trials compute on those.
    cores: Option<u32>,
    /// Whether it takes one process at a time.
    exclusive: bool,
    /// Threads on which each trial computes all the time; `None` where trials may rest.
    threads: Option<u32>,
    /// Whether it was said that another has no room.
    is_saturated: bool,
    /// The least memory that was seen in use: what others take.
    base: u64,
    /// What others use, as far as it is told whose memory is whose.
    others: u64,
    /// The largest of any trial.
    largest: u64,
    throughput: Throughput,
}

impl Concurrency {
    /// One trial at a time, since a moment.
    pub fn new(since: Timestamp) -> Self {
        let mut throughput = Throughput::default();
        throughput.stage(1, since);
        Concurrency { slots: 1, first: 1, base: u64::MAX, throughput, ..Concurrency::default() }
    }

    /// The same of trials that may take so many bytes together, and that compute all the time on so
    /// many threads each if they do not rest.
    #[must_use]
    pub fn of_trials(self, limit: Option<u64>, threads: Option<u32>) -> Self {
        Concurrency { limit, threads: threads.map(|threads| threads.max(1)), ..self }
    }

    /// Trials at a time.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The largest memory of a trial that was seen.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// What a trial that is alone there may take, in bytes; `None` before anything was seen.
    pub fn room(&self) -> Option<u64> {
        self.memory.map(|(_, total)| self.capacity(total).saturating_sub(self.others))
    }

    /// Takes in what the journal says was decided: after a crash it continues from there.
    pub fn apply(&mut self, at: Timestamp, slots: u32, change: ConcurrencyChange, largest: u64) {
        self.stage(slots, at);
        self.largest = self.largest.max(largest);
        match change {
            ConcurrencyChange::Back => self.set_back(slots, at),
            ConcurrencyChange::Saturated => self.is_saturated = true,
            ConcurrencyChange::Admitted | ConcurrencyChange::MemoryPressure => {}
        }
    }

    /// The numbers of trials change: what is measured from here on belongs to the new one.
    fn stage(&mut self, slots: u32, now: Timestamp) {
        self.slots = slots.max(1);
        self.is_saturated = false;
        self.throughput.stage(self.slots, now);
    }

    fn set_back(&mut self, slots: u32, now: Timestamp) {
        let wait = RETRY.saturating_mul(1 << self.setbacks.min(16));
        self.setbacks += 1;
        self.ceiling = Some((slots, now.after(wait)));
    }

    /// A run begins: nothing that was measured before continues.
    pub fn begin(&mut self, now: Timestamp) {
        self.stage(self.slots, now);
        self.first = self.slots;
        self.throughput.begin();
        self.ceiling = self.ceiling.map(|(slots, _)| (slots, now.after(RETRY)));
    }

    /// A trial there reported, while so many ran.
    pub fn reported(&mut self, trial: TrialNumber, step: u64, running: u32, now: Timestamp) {
        self.throughput.reported(trial, step, running, now);
    }

    /// An attempt there ended, while so many ran, it included.
    pub fn ended(&mut self, trial: TrialNumber, running: u32, now: Timestamp) {
        self.throughput.ended(trial, running, now);
    }

    /// What the device is seen to carry; what each trial takes of it, as far as that is sure.
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
            // Alone, it has all that was not in use before.
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

    /// A trial there was told to have taken so much.
    pub fn took(&mut self, bytes: u64) {
        self.largest = self.largest.max(bytes);
    }

    /// What is to change, now that these trials are there.
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
        let Waiting::Somebody(next) = waiting else { return None };
        let is_too_early = |(ceiling, again)| ceiling <= self.slots && now < again;
        if running < self.slots || running == 0 || self.ceiling.is_some_and(is_too_early) {
            return None;
        }
        let grown = self.growth(trials, now)?;
        let (slots, fewer) = (self.slots, self.slots - 1);
        let compared =
            |growth| format!("{slots} at a time do {growth:.2} times as much as {fewer}");
        if let Some(growth) = grown.filter(|growth| *growth < GROWTH) {
            let reason = format!("{}: not worth a place", compared(growth));
            self.stage(fewer, now);
            self.set_back(fewer, now);
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
        let expected = self.expected(trials, next);
        let with = match next {
            Some(memory) => format!("another that is expected to take {}", size(memory)),
            None => format!("another as large as the largest so far ({})", size(self.largest)),
        };
        let numbers = format!("{} of {} with {with}", size(expected), size(capacity));
        if float(expected) > self.up_to(FILLED, capacity) {
            return self.saturated(format!("memory has no room: {numbers}"));
        }
        let so_far = grown.map_or_else(String::new, |growth| compared(growth) + ", and ");
        self.stage(slots + 1, now);
        self.ceiling = None;
        self.advice(ConcurrencyChange::Admitted, format!("{so_far}memory has room: {numbers}"))
    }

    /// The number of trials at a time as it is now, and why.
    fn advice(&self, change: ConcurrencyChange, reason: String) -> Option<Advice> {
        Some(Advice { slots: self.slots, change, leaves: None, reason })
    }

    /// Why a trial that is expected to take so much cannot begin beside those that run, if it
    /// cannot.
    pub fn lack_of_memory(&self, trials: &[RunningTrial], memory: u64) -> Option<String> {
        let (_, total) = self.memory.filter(|_| !trials.is_empty())?;
        let (expected, capacity) = (self.expected(trials, Some(memory)), self.capacity(total));
        let is_too_much = float(expected) > self.up_to(FILLED, capacity);
        let [memory, expected, capacity] = [memory, expected, capacity].map(size);
        is_too_much.then(|| {
            format!("it is expected to take {memory}, and {expected} of {capacity} would be in use")
        })
    }

    /// What will be in use at most with those that run, and another. Of whom nothing is known, as
    /// much as the largest is expected.
    fn expected(&self, trials: &[RunningTrial], next: Option<u64>) -> u64 {
        let all = trials.iter().map(|trial| trial.memory).chain(std::iter::once(next));
        all.fold(self.others, |sum, memory| sum.saturating_add(memory.unwrap_or(self.largest)))
    }

    /// The device's memory, as far as trials and others may use it.
    fn capacity(&self, total: u64) -> u64 {
        self.limit.map_or(total, |limit| total.min(self.others.saturating_add(limit)))
    }

    /// A share of that; where trials have a limit of their own, of this, for what others take is
    /// theirs.
    fn up_to(&self, share: f64, capacity: u64) -> f64 {
        let is_theirs = |limit: u64| self.others.saturating_add(limit) <= capacity;
        let of_others = if self.limit.is_some_and(is_theirs) { self.others } else { 0 };
        float(of_others) + share * float(capacity - of_others)
    }

    /// Fewer trials, where there are more than cores: an earlier run was on another machine, or
    /// with fewer threads each.
    fn fit_to_cores(&mut self, now: Timestamp) -> Option<Advice> {
        let (cores, threads) = self.cores.zip(self.threads)?;
        let slots = (cores / threads).max(1);
        if self.slots <= slots {
            return None;
        }
        self.stage(slots, now);
        let (cores, threads) = (count(cores, "core"), count(threads, "thread"));
        let reason = format!("{cores} for trials that compute on {threads} each");
        self.advice(ConcurrencyChange::Back, reason)
    }

    /// Why no core would be left for another, if that is so.
    fn lack_of_cores(&self, trials: &[RunningTrial]) -> Option<String> {
        let cores = self.cores?;
        let all = count(cores, "core");
        if let Some(threads) = self.threads {
            let wanted = threads.saturating_mul(self.slots.saturating_add(1));
            let each = count(threads, "thread");
            return (wanted > cores)
                .then(|| format!("all of {all} are in use: each trial computes on {each}"));
        }
        let used = trials.iter().map(|trial| self.throughput.cores_of(trial.trial));
        let used = used.collect::<Option<Vec<f64>>>().filter(|used| !used.is_empty())?;
        let (sum, most) = (used.iter().sum::<f64>(), used.iter().copied().fold(0.0, f64::max));
        (sum + most > f64::from(cores) + SLACK)
            .then(|| format!("{sum:.1} of {all} are in use, and another may use {most:.1}"))
    }

    /// Nothing changes; why not, is said once.
    fn saturated(&mut self, reason: String) -> Option<Advice> {
        let is_news = !std::mem::replace(&mut self.is_saturated, true);
        self.advice(ConcurrencyChange::Saturated, reason).filter(|_| is_news)
    }

    /// The youngest leaves, but never the best, nor the last one.
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

    /// A trial ran out of memory there beside others: one slot less.
    pub fn out_of_memory(&mut self, running: u32, now: Timestamp) -> Option<Advice> {
        let others = running.checked_sub(1).filter(|others| *others > 0)?;
        self.stage(others, now);
        self.set_back(others, now);
        let reason = format!("a trial ran out of memory beside {others} others");
        self.advice(ConcurrencyChange::MemoryPressure, reason)
    }

    /// How much more the device does with so many than with one less; `None` while that was not
    /// measured. Of one trial, and of as many as an earlier run left, there is nothing to compare
    /// with.
    fn growth(&self, trials: &[RunningTrial], now: Timestamp) -> Option<Option<f64>> {
        if self.threads.is_some() {
            return self.throughput.is_under_way(trials).then_some(None);
        }
        let is_first = self.slots == self.first && self.throughput.is_measured(trials, now);
        self.throughput.growth(trials, now).map(Some).or(is_first.then_some(None))
    }
}

fn count(number: u32, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A size for a sentence.
pub(super) fn size(bytes: u64) -> String {
    let mib = float(bytes) / f64::from(1 << 20);
    if mib >= 1024.0 { format!("{:.1} GiB", mib / 1024.0) } else { format!("{mib:.0} MiB") }
}
