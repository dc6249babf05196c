//! How many trials share a device where nobody said it (`trials_per_device = "auto"`): decided from what they take and do there.
//!
//! One trial begins. Another is admitted once all that run were measured, if there is memory for it and for what those that run may
//! still take, with a tenth to spare, **and** the last admission made the device do more. What a trial takes is what it was seen to take
//! or what trials like it took (see [`footprint`](crate::analysis::memory_model)), whichever is more; where that cannot be told, as much as the largest so far.
//! How much a device does is told by the speeds of the trials themselves, before and after:
//! the sum of what each has of the speed that it had with one less. Speeds are steps a second
//! between two reports, or, where trials are too short for that, trials that end, or the processor time that they get. Where one
//! more did not make it at least [`GROWTH`] times as much, the number goes back by one, without anyone having to leave, and is
//! tried again later and later. When memory gets short all the same, for a trial may need more than any before it, the
//! youngest saves and waits; the best one never does.
//!
//! On a processor nobody is admitted whom no core is left for. Trials of the built-in trainer compute all the time, on as many threads as they
//! were given: as long as cores are left the processor does more with another, and nothing but memory is measured, once each that runs has
//! reported. What other programs use is measured. Where neither cores nor memory have room, that is said once.
//!
//! It knows no clock, no device and no process: whoever runs the study tells it what is the case, and the journal what was decided.

use std::time::Duration;

use super::paces::Paces;

pub use super::paces::Guest;
use crate::study::device::Device;
use crate::study::event::{Event, PackingChange};
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// An admission has to make a device do so many times as much. A busy machine's measurements are off by more: trials that wait for one lock were
/// measured at 1.07.
pub const GROWTH: f64 = 1.05;
/// Trials are admitted up to this share of a device's memory.
pub const FILLED: f64 = 0.9;
/// Above this share somebody has to leave.
pub const SHORT: f64 = 0.95;
/// So many cores more than there are may be wanted: what trials use is measured with errors.
const SLACK: f64 = 0.5;
/// A number that was no better is tried again after so long at the earliest, and then after twice that, and so on.
const RETRY: Duration = Duration::from_secs(120);

/// What a device and the trials on it take at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Which.
    pub device: Device,
    /// Its memory, in bytes.
    pub total: u64,
    /// What of it is used, by whomever.
    pub used: u64,
    /// Processor cores that there are, where trials compute on those.
    pub cores: Option<u32>,
    /// Whether it takes one process at a time (a GPU in exclusive mode).
    pub exclusive: bool,
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

/// What waits for a place.
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
    pub change: PackingChange,
    /// Who has to leave.
    pub leaves: Option<TrialNumber>,
    /// Why, one sentence with its numbers.
    pub reason: String,
}

/// Decides how many trials share one device.
#[derive(Clone, Debug)]
pub struct Packing {
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
    processor: Option<u32>,
    /// Whether it takes one process at a time.
    exclusive: bool,
    /// Threads on which each trial computes all the time; `None` where trials may rest.
    threads: Option<u32>,
    /// Whether it was said that nothing has room for another.
    is_full: bool,
    /// The least memory that was seen in use: what others take.
    base: u64,
    /// What others use, as far as it is told whose memory is whose.
    others: u64,
    /// The largest of any trial.
    largest: u64,
    paces: Paces,
}

impl Packing {
    /// One trial at a time, since a moment.
    pub fn new(since: Timestamp) -> Self {
        let mut paces = Paces::default();
        paces.stage(1, since);
        Packing {
            slots: 1,
            first: 1,
            ceiling: None,
            setbacks: 0,
            memory: None,
            limit: None,
            processor: None,
            exclusive: false,
            threads: None,
            is_full: false,
            base: u64::MAX,
            others: 0,
            largest: 0,
            paces,
        }
    }

    /// The same of trials that compute all the time, on so many threads each.
    #[must_use]
    pub fn of_busy_trials(self, threads: u32) -> Self {
        Packing { threads: Some(threads.max(1)), ..self }
    }

    /// The same where trials may take so many bytes together.
    #[must_use]
    pub fn within(self, limit: Option<u64>) -> Self {
        Packing { limit, ..self }
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

    /// Takes in what the journal says was decided: after a crash it goes on from there.
    pub fn recall(&mut self, at: Timestamp, slots: u32, change: PackingChange, largest: u64) {
        self.stage(slots, at);
        self.largest = self.largest.max(largest);
        match change {
            PackingChange::Back => self.set_back(slots, at),
            PackingChange::Full => self.is_full = true,
            PackingChange::Admitted | PackingChange::Pressed => {}
        }
    }

    /// The numbers of trials change: what is measured from here on belongs to the new one.
    fn stage(&mut self, slots: u32, now: Timestamp) {
        self.slots = slots.max(1);
        self.is_full = false;
        self.paces.stage(self.slots, now);
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
        self.paces.begin();
        self.ceiling = self.ceiling.map(|(slots, _)| (slots, now.after(RETRY)));
    }

    /// A trial there reported, while so many ran.
    pub fn reported(&mut self, trial: TrialNumber, step: u64, running: u32, now: Timestamp) {
        self.paces.reported(trial, step, running, now);
    }

    /// An attempt there ended, while so many ran, it included.
    pub fn ended(&mut self, trial: TrialNumber, running: u32, now: Timestamp) {
        self.paces.ended(trial, running, now);
    }

    /// What the device is seen to carry; what each trial takes of it, as far as that is sure.
    pub fn loaded(&mut self, load: &Load, running: u32, now: Timestamp) -> Vec<(TrialNumber, u64)> {
        self.memory = Some((load.used, load.total));
        self.processor = load.cores;
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
        self.paces.looked(
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
    pub fn advise(&mut self, guests: &[Guest], waiting: Waiting, now: Timestamp) -> Option<Advice> {
        let running = u32::try_from(guests.len()).unwrap_or(u32::MAX);
        let (used, total) = self.memory?;
        let capacity = self.capacity(total);
        if guests.iter().any(|guest| guest.leaves) {
            return None;
        }
        if float(used) > self.up_to(SHORT, capacity) {
            return self.make_room(guests, used, capacity, now);
        }
        if let Some(advice) = self.mind_cores(now) {
            return Some(advice);
        }
        let Waiting::Somebody(next) = waiting else { return None };
        if running < self.slots || running == 0 {
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
            let reason = format!(
                "{more} at a time do {growth:.2} times as much as {slots}: not worth a place"
            );
            return Some(Advice { slots, change: PackingChange::Back, leaves: None, reason });
        }
        if self.exclusive {
            return self.say_full("its compute mode is `exclusive`, for one process at a time; `nvidia-smi -c 0` lets several share it".to_owned());
        }
        if let Some(reason) = self.lack_of_cores(guests) {
            return self.say_full(reason);
        }
        if self.largest == 0 {
            return None;
        }
        let expected = self.expected(guests, next);
        let with = match next {
            Some(needs) => format!("another that is expected to take {}", size(needs)),
            None => format!("another as large as the largest so far ({})", size(self.largest)),
        };
        if float(expected) > self.up_to(FILLED, capacity) {
            return self.say_full(format!(
                "memory has no room: {} of {} with {with}",
                size(expected),
                size(capacity)
            ));
        }
        let slots = self.slots + 1;
        let so_far = grown.map_or_else(String::new, |growth| {
            format!(
                "{} at a time do {growth:.2} times as much as {}, and ",
                self.slots,
                self.slots - 1
            )
        });
        let reason = format!(
            "{so_far}memory has room: {} of {} with {with}",
            size(expected),
            size(capacity)
        );
        self.stage(slots, now);
        self.ceiling = None;
        Some(Advice { slots, change: PackingChange::Admitted, leaves: None, reason })
    }

    /// Why a trial that is expected to take so much cannot begin beside those that run, if it cannot.
    pub fn lack_of_memory(&self, guests: &[Guest], needs: u64) -> Option<String> {
        let (_, total) = self.memory.filter(|_| !guests.is_empty())?;
        let (expected, capacity) = (self.expected(guests, Some(needs)), self.capacity(total));
        let words = || {
            format!(
                "it is expected to take {}, and {} of {} would be in use",
                size(needs),
                size(expected),
                size(capacity)
            )
        };
        (float(expected) > self.up_to(FILLED, capacity)).then(words)
    }

    /// What will be in use at most with those that run, and another. Of whom nothing is known, as much as the largest is expected.
    fn expected(&self, guests: &[Guest], next: Option<u64>) -> u64 {
        let all = guests.iter().map(|guest| guest.needs).chain(std::iter::once(next));
        all.fold(self.others, |sum, needs| sum.saturating_add(needs.unwrap_or(self.largest)))
    }

    /// The device's memory, as far as trials and others may use it.
    fn capacity(&self, total: u64) -> u64 {
        self.limit.map_or(total, |limit| total.min(self.others.saturating_add(limit)))
    }

    /// A share of that; where trials have a limit of their own, of this, for what others take is theirs.
    fn up_to(&self, share: f64, capacity: u64) -> f64 {
        let of_others = self
            .limit
            .filter(|limit| self.others.saturating_add(*limit) <= capacity)
            .map_or(0, |_| self.others);
        float(of_others) + share * float(capacity - of_others)
    }

    /// Fewer trials, where there are more than cores: an earlier run was on another machine, or with fewer threads each.
    fn mind_cores(&mut self, now: Timestamp) -> Option<Advice> {
        let (cores, threads) = self.processor.zip(self.threads)?;
        let slots = (cores / threads).max(1);
        if self.slots <= slots {
            return None;
        }
        self.stage(slots, now);
        let reason = format!(
            "{} for trials that compute on {} each",
            count(cores, "core"),
            count(threads, "thread")
        );
        Some(Advice { slots, change: PackingChange::Back, leaves: None, reason })
    }

    /// Why no core would be left for another, if that is so.
    fn lack_of_cores(&self, guests: &[Guest]) -> Option<String> {
        let cores = self.processor?;
        if let Some(threads) = self.threads {
            let wanted = threads.saturating_mul(self.slots.saturating_add(1));
            let words = || {
                format!(
                    "all of {} are in use: each trial computes on {}",
                    count(cores, "core"),
                    count(threads, "thread")
                )
            };
            return (wanted > cores).then(words);
        }
        let used: Option<Vec<f64>> =
            guests.iter().map(|guest| self.paces.cores_of(guest.trial)).collect();
        let used = used.filter(|used| !used.is_empty())?;
        let (sum, most) = (used.iter().sum::<f64>(), used.iter().copied().fold(0.0, f64::max));
        let words = || {
            format!(
                "{sum:.1} of {} are in use, and another may use {most:.1}",
                count(cores, "core")
            )
        };
        (sum + most > f64::from(cores) + SLACK).then(words)
    }

    /// Nothing changes; why not, is said once.
    fn say_full(&mut self, reason: String) -> Option<Advice> {
        let is_news = !std::mem::replace(&mut self.is_full, true);
        is_news.then_some(Advice {
            slots: self.slots,
            change: PackingChange::Full,
            leaves: None,
            reason,
        })
    }

    /// The youngest leaves, but never the best, nor the last one.
    fn make_room(
        &mut self,
        guests: &[Guest],
        used: u64,
        capacity: u64,
        now: Timestamp,
    ) -> Option<Advice> {
        let youngest = guests
            .iter()
            .filter(|guest| !guest.is_best)
            .max_by_key(|guest| (guest.since, guest.trial))?;
        if guests.len() < 2 {
            return None;
        }
        let slots = u32::try_from(guests.len()).unwrap_or(u32::MAX) - 1;
        self.stage(slots, now);
        self.memory = None;
        let reason = format!(
            "memory is short: {} of {} are used by {} trials; the youngest makes room",
            size(used),
            size(capacity),
            guests.len()
        );
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

    /// How much more the device does with so many than with one less; `None` while that was not measured. Of one trial, and
    /// of as many as an earlier run left, there is nothing to compare with.
    fn growth(&self, guests: &[Guest], now: Timestamp) -> Option<Option<f64>> {
        if self.threads.is_some() {
            return self.paces.are_under_way(guests).then_some(None);
        }
        match self.paces.growth(guests, now) {
            Some(growth) => Some(Some(growth)),
            None => {
                (self.paces.is_measured(guests, now) && self.slots == self.first).then_some(None)
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes, compared as shares")]
fn float(number: u64) -> f64 {
    number as f64
}

fn count(number: u32, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A size for a sentence.
pub(super) fn size(bytes: u64) -> String {
    let mib = float(bytes) / f64::from(1 << 20);
    if mib >= 1024.0 { format!("{:.1} GiB", mib / 1024.0) } else { format!("{mib:.0} MiB") }
}

impl Event {
    /// What it says about how many trials share a device.
    pub(super) fn packing(&self) -> Option<(&Device, u32, PackingChange, u64)> {
        match self {
            Event::Packed { device, slots, change, largest, .. } => {
                Some((device, *slots, *change, *largest))
            }
            _ => None,
        }
    }
}
