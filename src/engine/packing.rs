//! How many trials share a device where nobody said it (`trials_per_device = "auto"`): decided from what they take and do there.
//!
//! One trial begins. Another is admitted once all that run were measured, if so many trials as large as the largest seen so
//! far fit into memory, with a tenth to spare, **and** the last admission made the device do more. How much it does is told by the speeds of the trials themselves, before and after:
//! the sum of what each has of the speed that it had with one less. Speeds are steps a second
//! between two reports, or, where trials are too short for that, trials that end, or the processor time that they get. Where one
//! more did not make it at least [`GROWTH`] times as much, the number goes back by one, without anyone having to leave, and is
//! tried again later and later. When memory gets short all the same, for a trial may need more than any before it, the
//! youngest saves and waits; the best one never does.
//!
//! It knows no clock, no device and no process: whoever runs the study tells it what is the case, and the journal what was decided.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::device::Device;
use crate::event::{Event, PackingChange};
use crate::time::Timestamp;
use crate::trial::TrialNumber;

/// An admission has to make a device do so many times as much. A busy machine's measurements are off by more: trials that wait for one lock were
/// measured at 1.07.
pub const GROWTH: f64 = 1.05;
/// Trials are admitted up to this share of a device's memory.
pub const FILLED: f64 = 0.9;
/// Above this share somebody has to leave.
pub const SHORT: f64 = 0.95;
/// A number that was no better is tried again after so long at the earliest, and then after twice that, and so on.
const RETRY: Duration = Duration::from_secs(120);
/// Where no steps are reported for so long, the processor time that trials get tells their speed.
const SILENT: Duration = Duration::from_secs(10);
/// Speeds of so many trials are remembered.
const REMEMBERED: usize = 256;

/// What a device and the trials on it take at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Which.
    pub device: Device,
    /// Its memory, in bytes.
    pub total: u64,
    /// What of it is used, by whomever.
    pub used: u64,
    /// The trials there.
    pub trials: Vec<TrialLoad>,
}

/// What a trial takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialLoad {
    /// Which.
    pub trial: TrialNumber,
    /// Its memory in bytes; 0 where the device does not tell whose it is.
    pub memory: u64,
    /// Processor cores that it uses.
    pub cores: Option<f64>,
}

/// A trial on a device, as whoever asks knows it.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    /// Which.
    pub trial: TrialNumber,
    /// Since when it runs.
    pub since: Timestamp,
    /// Whether it is the best of those that run, or of all.
    pub is_best: bool,
    /// Whether it has been asked to leave.
    pub leaves: bool,
}

/// What is to change.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// So many trials at a time from now on.
    pub slots: u32,
    /// What kind of change that is.
    pub change: PackingChange,
    /// Who has to leave.
    pub leaves: Option<TrialNumber>,
    /// Why, one sentence with its numbers.
    pub reason: String,
}

/// Work that was done in some time.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    work: f64,
    seconds: f64,
    samples: u32,
}

impl Pace {
    fn add(&mut self, work: f64, seconds: f64) {
        self.work += work;
        self.seconds += seconds;
        self.samples += 1;
    }

    fn speed(self) -> Option<f64> {
        (self.samples > 0 && self.seconds > 0.0 && self.work > 0.0).then(|| self.work / self.seconds)
    }
}

/// Paces by how many trials there were at a time.
type ByNumber = BTreeMap<u32, Pace>;

/// Decides how many trials share one device.
#[derive(Clone, Debug)]
pub struct Packing {
    slots: u32,
    /// As many as the run began with.
    first: u32,
    since: Timestamp,
    /// So many were no better than one less; and from when on that is tried again.
    ceiling: Option<(u32, Timestamp)>,
    /// How often that was found.
    setbacks: u32,
    memory: Option<(u64, u64)>,
    /// The least memory that was seen in use: what others take.
    base: u64,
    /// What others use, as far as it is told whose memory is whose.
    others: u64,
    /// The largest of any trial.
    largest: u64,
    reports: BTreeMap<TrialNumber, (Timestamp, u64)>,
    looked: Option<Timestamp>,
    steps: BTreeMap<TrialNumber, ByNumber>,
    cores: BTreeMap<TrialNumber, ByNumber>,
    ends: ByNumber,
    last_end: Option<Timestamp>,
}

impl Packing {
    /// One trial at a time, since a moment.
    pub fn new(since: Timestamp) -> Self {
        Packing {
            slots: 1,
            first: 1,
            since,
            ceiling: None,
            setbacks: 0,
            memory: None,
            base: u64::MAX,
            others: 0,
            largest: 0,
            reports: BTreeMap::new(),
            looked: None,
            steps: BTreeMap::new(),
            cores: BTreeMap::new(),
            ends: ByNumber::new(),
            last_end: None,
        }
    }

    /// Trials at a time.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The largest memory of a trial that was seen.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// Takes in what the journal says was decided: after a crash it goes on from there.
    pub fn recall(&mut self, at: Timestamp, slots: u32, change: PackingChange, largest: u64) {
        self.stage(slots, at);
        self.largest = self.largest.max(largest);
        if change == PackingChange::Back {
            self.set_back(slots, at);
        }
    }

    /// The numbers of trials change: what is measured from here on belongs to the new one.
    fn stage(&mut self, slots: u32, now: Timestamp) {
        self.slots = slots.max(1);
        self.since = now;
        self.looked = None;
        self.last_end = None;
    }

    fn set_back(&mut self, slots: u32, now: Timestamp) {
        let wait = RETRY.saturating_mul(1 << self.setbacks.min(16));
        self.setbacks += 1;
        self.ceiling = Some((slots, now.after(wait)));
    }

    /// A run begins: nothing that was measured before goes on.
    pub fn begin(&mut self, now: Timestamp) {
        self.stage(self.slots, now);
        self.first = self.slots;
        self.reports.clear();
        self.ceiling = self.ceiling.map(|(slots, _)| (slots, now.after(RETRY)));
    }

    /// A trial there reported, while so many ran.
    pub fn reported(&mut self, trial: TrialNumber, step: u64, running: u32, now: Timestamp) {
        let before = self.reports.insert(trial, (now, step));
        let Some((at, last)) = before.filter(|(at, last)| *at > self.since && *last < step && running == self.slots) else { return };
        let (work, seconds) = (float(step - last), now.since(at).as_secs_f64());
        self.steps.entry(trial).or_default().entry(self.slots).or_default().add(work, seconds);
        forget(&mut self.steps);
    }

    /// An attempt there ended, while so many ran, it included.
    pub fn ended(&mut self, trial: TrialNumber, running: u32, now: Timestamp) {
        self.reports.remove(&trial);
        // From one end to the next, as long as all places are taken.
        let before = self.last_end.replace(now);
        if let Some(before) = before.filter(|_| running == self.slots) {
            self.ends.entry(self.slots).or_default().add(1.0, now.since(before).as_secs_f64());
        }
    }

    /// What the device is seen to carry.
    pub fn loaded(&mut self, load: &Load, running: u32, now: Timestamp) {
        self.memory = Some((load.used, load.total));
        self.base = self.base.min(load.used);
        let of_trials: u64 = load.trials.iter().map(|trial| trial.memory).sum();
        let tells = load.trials.iter().any(|trial| trial.memory > 0);
        self.others = if tells { load.used.saturating_sub(of_trials) } else { self.base };
        let passed = self.looked.replace(now).filter(|looked| *looked >= self.since).map(|looked| now.since(looked).as_secs_f64());
        for seen in &load.trials {
            let memory = if tells { seen.memory } else { load.used.saturating_sub(self.base) / u64::from(running.max(1)) };
            self.largest = self.largest.max(memory);
            if let (Some(cores), Some(seconds)) = (seen.cores, passed.filter(|_| running == self.slots)) {
                self.cores.entry(seen.trial).or_default().entry(self.slots).or_default().add(cores * seconds, seconds);
                forget(&mut self.cores);
            }
        }
    }

    /// What is to change, now that these trials are there; `waits`: whether another would start.
    pub fn advise(&mut self, guests: &[Guest], waits: bool, now: Timestamp) -> Option<Advice> {
        let running = u32::try_from(guests.len()).unwrap_or(u32::MAX);
        let (used, total) = self.memory?;
        if guests.iter().any(|guest| guest.leaves) {
            return None;
        }
        if float(used) > SHORT * float(total) {
            return self.make_room(guests, used, total, now);
        }
        if running < self.slots || running == 0 || !waits {
            return None;
        }
        if self.ceiling.is_some_and(|(ceiling, again)| ceiling <= self.slots && now < again) {
            return None;
        }
        let grown = self.growth(guests, now)?;
        if let Some(growth) = grown.filter(|growth| *growth < GROWTH) {
            let (more, slots) = (self.slots, self.slots - 1);
            self.stage(slots, now);
            self.set_back(slots, now);
            let reason = format!("{more} at a time do {growth:.2} times as much as {slots}: not worth a place");
            return Some(Advice { slots, change: PackingChange::Back, leaves: None, reason });
        }
        // Any of them, or whoever takes its place, may be as large as the largest.
        let expected = self.others.saturating_add(self.largest.saturating_mul(u64::from(self.slots) + 1));
        if self.largest == 0 || float(expected) > FILLED * float(total) {
            return None;
        }
        let slots = self.slots + 1;
        let so_far =
            grown.map_or_else(String::new, |growth| format!("{} at a time do {growth:.2} times as much as {}, and ", self.slots, self.slots - 1));
        let reason = format!(
            "{so_far}memory has room: {} of {} with another as large as the largest so far ({})",
            size(expected),
            size(total),
            size(self.largest)
        );
        self.stage(slots, now);
        self.ceiling = None;
        Some(Advice { slots, change: PackingChange::Admitted, leaves: None, reason })
    }

    /// The youngest leaves, but never the best, nor the last one.
    fn make_room(&mut self, guests: &[Guest], used: u64, total: u64, now: Timestamp) -> Option<Advice> {
        let youngest = guests.iter().filter(|guest| !guest.is_best).max_by_key(|guest| (guest.since, guest.trial))?;
        if guests.len() < 2 {
            return None;
        }
        let slots = u32::try_from(guests.len()).unwrap_or(u32::MAX) - 1;
        self.stage(slots, now);
        self.memory = None;
        let reason = format!("memory is short: {} of {} are used by {} trials; the youngest makes room", size(used), size(total), guests.len());
        Some(Advice { slots, change: PackingChange::Pressed, leaves: Some(youngest.trial), reason })
    }

    /// Somebody ran out of memory there beside others: one place less.
    pub fn starved(&mut self, running: u32, now: Timestamp) -> Option<Advice> {
        if running < 2 {
            return None;
        }
        self.stage(running - 1, now);
        self.set_back(running - 1, now);
        let reason = format!("a trial ran out of memory beside {} others", running - 1);
        Some(Advice { slots: running - 1, change: PackingChange::Pressed, leaves: None, reason })
    }

    /// Whether what runs now was measured: all of them at two reports each, or so many ends, or some seconds of processor time.
    fn is_measured(&self, guests: &[Guest], now: Timestamp) -> bool {
        self.by_steps(guests).is_some() || self.by_ends().is_some() || self.by_cores(guests, now).is_some()
    }

    /// How much more the device does with so many than with one less; `None` while that was not measured. Of one trial, and
    /// of as many as an earlier run left, there is nothing to compare with.
    fn growth(&self, guests: &[Guest], now: Timestamp) -> Option<Option<f64>> {
        let (slots, fewer) = (self.slots, self.slots - 1);
        if fewer > 0 {
            if self.by_steps(guests).is_some()
                && let Some(growth) = growth(&self.steps, guests, slots, |guest| self.pace_of(guest, now).speed())
            {
                return Some(Some(growth));
            }
            if let (Some(now), Some(before)) = (self.by_ends(), self.ends.get(&fewer).and_then(|pace| pace.speed())) {
                return Some(Some(now / before));
            }
            if self.by_cores(guests, now).is_some()
                && let Some(growth) = growth(&self.cores, guests, slots, |guest| self.cores.get(&guest.trial)?.get(&slots)?.speed())
            {
                return Some(Some(growth));
            }
        }
        (self.is_measured(guests, now) && slots == self.first).then_some(None)
    }

    fn by_steps(&self, guests: &[Guest]) -> Option<()> {
        let pace = |guest: &Guest| self.steps.get(&guest.trial).and_then(|paces| paces.get(&self.slots)).copied().unwrap_or_default();
        // Three reports of minutes say more than five of milliseconds.
        let tells = |pace: Pace| pace.samples >= 3 && (pace.seconds >= 1.0 || pace.samples >= 8);
        guests.iter().all(|guest| tells(pace(guest))).then_some(())
    }

    /// How fast a trial is with as many as there are now. A report that is overdue counts as far as it is: otherwise whoever
    /// is kept waiting would seem as fast as before.
    fn pace_of(&self, guest: &Guest, now: Timestamp) -> Pace {
        let mut pace = self.steps.get(&guest.trial).and_then(|paces| paces.get(&self.slots)).copied().unwrap_or_default();
        if let Some((last, _)) = self.reports.get(&guest.trial).filter(|(last, _)| *last > self.since && pace.samples > 0) {
            let usual = pace.seconds / f64::from(pace.samples);
            pace.seconds += (now.since(*last).as_secs_f64() - usual).max(0.0);
        }
        pace
    }

    fn by_ends(&self) -> Option<f64> {
        let pace = self.ends.get(&self.slots)?;
        (pace.samples >= (3 * self.slots).max(8)).then(|| pace.speed()).flatten()
    }

    fn by_cores(&self, guests: &[Guest], now: Timestamp) -> Option<()> {
        let samples = |guest: &Guest| self.cores.get(&guest.trial).and_then(|paces| paces.get(&self.slots)).map_or(0, |pace| pace.samples);
        (now.since(self.since) >= SILENT && guests.iter().map(samples).min()? >= 5).then_some(())
    }
}

/// How much more is done by these trials than by one less: the sum of their speeds, each as a share of what it had with one less.
/// Of one that came last that is not known, and what the others had on average stands for it; were it faster than them, it
/// would say nothing about room.
fn growth(paces: &BTreeMap<TrialNumber, ByNumber>, guests: &[Guest], slots: u32, now: impl Fn(&Guest) -> Option<f64>) -> Option<f64> {
    let fewer = slots - 1;
    let speed = |of: &ByNumber, number: u32| of.get(&number).and_then(|pace| pace.speed());
    let before: Vec<f64> = paces.values().filter_map(|of| speed(of, fewer)).collect();
    let mean = before.iter().sum::<f64>() / float(before.len() as u64);
    let mut sum = 0.0;
    for guest in guests {
        let now = now(guest)?;
        sum += match paces.get(&guest.trial).and_then(|of| speed(of, fewer)) {
            Some(before) => now / before,
            None => (now / mean).min(1.0),
        };
    }
    (!before.is_empty()).then(|| sum / f64::from(fewer))
}

fn forget(paces: &mut BTreeMap<TrialNumber, ByNumber>) {
    while paces.len() > REMEMBERED {
        paces.pop_first();
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes and steps, compared as shares")]
fn float(number: u64) -> f64 {
    number as f64
}

/// A size for a sentence.
fn size(bytes: u64) -> String {
    let mib = float(bytes) / f64::from(1 << 20);
    if mib >= 1024.0 { format!("{:.1} GiB", mib / 1024.0) } else { format!("{mib:.0} MiB") }
}

impl Event {
    /// What it says about how many trials share a device.
    pub(super) fn packing(&self) -> Option<(&Device, u32, PackingChange, u64)> {
        match self {
            Event::Packed { device, slots, change, largest, .. } => Some((device, *slots, *change, *largest)),
            _ => None,
        }
    }
}
