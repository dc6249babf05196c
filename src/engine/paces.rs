//! How fast the trials on a device are with how many others: what tells whether it does more with one more.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// Where no steps are reported for so long, the processor time that trials get tells their speed.
const SILENT: Duration = Duration::from_secs(10);
/// Speeds of so many trials are remembered.
const REMEMBERED: usize = 256;

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
    /// The memory that it will have taken at most, in bytes, where that can be told.
    pub needs: Option<u64>,
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
        (self.samples > 0 && self.seconds > 0.0 && self.work > 0.0)
            .then(|| self.work / self.seconds)
    }
}

/// Paces by how many trials there were at a time.
type ByNumber = BTreeMap<u32, Pace>;

/// What was measured on one device. A *stage* is a time in which as many trials may run at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Paces {
    /// How many that are now, and since when.
    slots: u32,
    since: Timestamp,
    /// Last reports.
    reports: BTreeMap<TrialNumber, (Timestamp, u64)>,
    looked: Option<Timestamp>,
    steps: BTreeMap<TrialNumber, ByNumber>,
    cores: BTreeMap<TrialNumber, ByNumber>,
    ends: ByNumber,
    last_end: Option<Timestamp>,
    /// Attempts that ended in this stage.
    ended: u32,
}

impl Paces {
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
        let Some((at, last)) =
            before.filter(|(at, last)| *at > self.since && *last < step && running == self.slots)
        else {
            return;
        };
        let (work, seconds) = (float(step - last), now.since(at).as_secs_f64());
        self.steps.entry(trial).or_default().entry(self.slots).or_default().add(work, seconds);
        forget(&mut self.steps);
    }

    /// An attempt ended, while so many ran, it included.
    pub fn ended(&mut self, trial: TrialNumber, running: u32, now: Timestamp) {
        self.reports.remove(&trial);
        self.ended = self.ended.saturating_add(1);
        // From one end to the next, as long as all places are taken.
        let before = self.last_end.replace(now);
        if let Some(before) = before.filter(|_| running == self.slots) {
            self.ends.entry(self.slots).or_default().add(1.0, now.since(before).as_secs_f64());
        }
    }

    /// The processor cores that trials were seen to use, while so many ran.
    pub fn looked(
        &mut self,
        cores: impl Iterator<Item = (TrialNumber, f64)>,
        running: u32,
        now: Timestamp,
    ) {
        let before = self
            .looked
            .replace(now)
            .filter(|looked| *looked >= self.since && running == self.slots);
        let Some(seconds) = before.map(|looked| now.since(looked).as_secs_f64()) else { return };
        for (trial, cores) in cores {
            self.cores
                .entry(trial)
                .or_default()
                .entry(self.slots)
                .or_default()
                .add(cores * seconds, seconds);
            forget(&mut self.cores);
        }
    }

    /// The most cores that a trial used, with however many others.
    pub fn cores_of(&self, trial: TrialNumber) -> Option<f64> {
        let paces = self.cores.get(&trial)?.values().filter(|pace| pace.samples >= 3);
        paces.filter_map(|pace| pace.speed()).reduce(f64::max)
    }

    /// Whether all that run have reported, or as many have ended since there are so many.
    pub fn are_under_way(&self, guests: &[Guest]) -> bool {
        self.ended >= self.slots
            || guests.iter().all(|guest| self.reports.contains_key(&guest.trial))
    }

    /// Whether what runs now was measured: all of them at a few reports each, or so many ends, or some seconds of processor time.
    pub fn is_measured(&self, guests: &[Guest], now: Timestamp) -> bool {
        self.by_steps(guests).is_some()
            || self.by_ends().is_some()
            || self.by_cores(guests, now).is_some()
    }

    /// How many times as much the device does with so many as with one less; `None` while that was not measured.
    pub fn growth(&self, guests: &[Guest], now: Timestamp) -> Option<f64> {
        let (slots, fewer) = (self.slots, self.slots.checked_sub(1).filter(|fewer| *fewer > 0)?);
        if self.by_steps(guests).is_some()
            && let Some(growth) =
                growth(&self.steps, guests, slots, |guest| self.pace_of(guest, now).speed())
        {
            return Some(growth);
        }
        if let (Some(now), Some(before)) =
            (self.by_ends(), self.ends.get(&fewer).and_then(|pace| pace.speed()))
        {
            return Some(now / before);
        }
        self.by_cores(guests, now)?;
        growth(&self.cores, guests, slots, |guest| {
            self.cores.get(&guest.trial)?.get(&slots)?.speed()
        })
    }

    fn by_steps(&self, guests: &[Guest]) -> Option<()> {
        let pace = |guest: &Guest| {
            self.steps
                .get(&guest.trial)
                .and_then(|paces| paces.get(&self.slots))
                .copied()
                .unwrap_or_default()
        };
        // Three reports of minutes say more than five of milliseconds.
        let tells = |pace: Pace| pace.samples >= 3 && (pace.seconds >= 1.0 || pace.samples >= 8);
        guests.iter().all(|guest| tells(pace(guest))).then_some(())
    }

    /// How fast a trial is with as many as there are now. A report that is overdue counts as far as it is: otherwise whoever
    /// is kept waiting would seem as fast as before.
    fn pace_of(&self, guest: &Guest, now: Timestamp) -> Pace {
        let mut pace = self
            .steps
            .get(&guest.trial)
            .and_then(|paces| paces.get(&self.slots))
            .copied()
            .unwrap_or_default();
        if let Some((last, _)) = self
            .reports
            .get(&guest.trial)
            .filter(|(last, _)| *last > self.since && pace.samples > 0)
        {
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
        let samples = |guest: &Guest| {
            self.cores
                .get(&guest.trial)
                .and_then(|paces| paces.get(&self.slots))
                .map_or(0, |pace| pace.samples)
        };
        (now.since(self.since) >= SILENT && guests.iter().map(samples).min()? >= 5).then_some(())
    }
}

/// How much more is done by these trials than by one less: the sum of their speeds, each as a share of what it had with one less.
/// Of one that came last that is not known, and what the others had on average stands for it; were it faster than them, it
/// would say nothing about room.
fn growth(
    paces: &BTreeMap<TrialNumber, ByNumber>,
    guests: &[Guest],
    slots: u32,
    now: impl Fn(&Guest) -> Option<f64>,
) -> Option<f64> {
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

#[expect(clippy::cast_precision_loss, reason = "steps and counts, compared as shares")]
fn float(number: u64) -> f64 {
    number as f64
}
