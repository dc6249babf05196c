//! Forecasts the remaining time of a study and its total use of device-hours, cost and disk from
//! its trials so far.

use std::time::Duration;

use crate::study::budget::{Budget, Count, DeviceLimit};
use crate::study::finalists::{LEAST_ROUNDS, MOST_ROUNDS};
use crate::study::program::Program;
use crate::study::spec::{StudySpec, WhileRunning};
use crate::study::state::Counts;
use crate::study::time::Timestamp;
use crate::study::trial::TrialState;
use crate::study::usage::{Tried, Used};

/// A likely range and the most likely value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Lower end.
    pub low: f64,
    /// Most likely.
    pub likely: f64,
    /// Upper end.
    pub high: f64,
}

impl Span {
    fn exactly(value: f64) -> Span {
        Span { low: value, likely: value, high: value }
    }

    fn map(self, change: impl Fn(f64) -> f64) -> Span {
        Span { low: change(self.low), likely: change(self.likely), high: change(self.high) }
    }

    fn at_most(self, limit: f64) -> Span {
        self.map(|value| value.min(limit))
    }
}

/// The budget limit that will end a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// `budget.trials`.
    Trials,
    /// `budget.time`.
    Time,
    /// `budget.device_hours`.
    DeviceHours,
    /// `budget.cost`.
    Cost,
}

/// The forecast for a study. `None`: no trial has run yet, or no limit applies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Seconds of running time until the end.
    pub seconds_left: Option<Span>,
    /// Device-hours of the whole study.
    pub device_hours: Option<Span>,
    /// Cost of the whole study.
    pub cost: Option<Span>,
    /// Trials that will count towards the budget at the end, if another limit ends the study.
    pub trials: Option<Span>,
    /// The limit that most likely ends it.
    pub ended_by: Option<EndedBy>,
    /// Peak size of its checkpoints in bytes.
    pub disk: Option<Span>,
    /// The checkpoints of each running trial in that, if all are kept until it ends and those of
    /// running trials say how many it saves.
    pub held: Option<f64>,
    /// Seconds of the final comparison, which the budget does not limit: from its minimum to its
    /// maximum number of rounds.
    pub race: Option<Span>,
}

/// The state of a study at one time.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The resolved specification.
    pub spec: &'a StudySpec,
    /// Last step of a full trial, if known.
    pub full_trial: Option<u64>,
    /// Trials by state.
    pub counts: Counts,
    /// Running time so far.
    pub elapsed: Duration,
    /// Resources used so far.
    pub used: &'a Used,
    /// The current time.
    pub now: Timestamp,
}

impl Situation<'_> {
    /// Trials that count towards the budget so far.
    fn counted(&self) -> f64 {
        float(counted(self.counts, self.spec.budget.count))
    }
}

/// Forecasts the rest of a study.
///
/// Trial durations are estimated by survival analysis (Kaplan and Meier, 1958): a running trial is
/// known to take longer than it has, so that short trials that end first do not bias the mean.
/// Later trials weigh more because pruners are milder at first; the range is two standard errors
/// plus an allowance for drift. The remaining trials are divided among the slots, which are assumed
/// as busy as so far.
///
/// If all trials failed, nothing is forecast: the time to failure does not predict the time to
/// completion.
pub fn forecast(situation: &Situation<'_>) -> Forecast {
    if situation.counts.only_fail() {
        return Forecast::default();
    }
    let held = held(situation);
    let nothing = || Forecast { disk: disk(situation, held, None), held, ..Forecast::default() };
    let Some(speed) = TrialSpeed::of(situation) else { return nothing() };
    let budget = &situation.spec.budget;
    let device_so_far = situation.used.device_time(situation.now).as_secs_f64();
    let (share, at_work) = (share(situation.used), speed.slots_at_work());
    let device_left = budget
        .device_limit()
        .map(|limit| (limit, (limit.time().as_secs_f64() - device_so_far).max(0.0)));
    let by_trials = budget.trials.map(|limit| speed.of_the_rest(limit));
    // Seconds until each limit ends the study.
    let ends = [
        by_trials.map(|work| (EndedBy::Trials, speed.wall(work))),
        budget.time.map(|limit| {
            let left = limit.saturating_sub(situation.elapsed);
            (EndedBy::Time, Span::exactly(left.as_secs_f64()))
        }),
        device_left.map(|(limit, left)| {
            let by = match limit {
                DeviceLimit::Hours(_) => EndedBy::DeviceHours,
                DeviceLimit::Cost { .. } => EndedBy::Cost,
            };
            (by, Span::exactly(left / (at_work * share)))
        }),
    ];
    let ends = || ends.iter().flatten().copied();
    let Some((ended_by, first)) =
        ends().min_by(|(_, one), (_, other)| one.likely.total_cmp(&other.likely))
    else {
        return nothing();
    };
    let hard = ends().filter(|(by, _)| *by != EndedBy::Trials).map(|(_, span)| span.likely);
    let seconds_left = first.at_most(hard.fold(f64::INFINITY, f64::min));
    let work_left = match by_trials.filter(|_| ended_by == EndedBy::Trials) {
        Some(work) => work.at_most(device_left.map_or(f64::INFINITY, |(_, left)| left / share)),
        None => seconds_left.map(|seconds| seconds * at_work),
    };
    let device_hours = work_left.map(|work| (device_so_far + work * share) / 3600.0);
    let trials = match ended_by {
        EndedBy::Trials => None,
        _ => Some(speed.trials_in(seconds_left.likely * at_work)),
    };
    let most_trials = trials.map(|trials| trials.likely).or(budget.trials.map(float));
    Forecast {
        seconds_left: Some(seconds_left),
        device_hours: Some(device_hours),
        cost: budget.price_per_hour.map(|price| device_hours.map(|hours| hours * price)),
        disk: disk(situation, held, most_trials),
        held,
        trials,
        ended_by: Some(ended_by),
        race: race(situation),
    }
}

/// The final comparison adds to the budget: its rounds, each as long as a complete trial, times the
/// number of batches in which its finalists fit the slots.
fn race(situation: &Situation<'_>) -> Option<Span> {
    let finalists = situation.spec.race;
    let complete = situation.used.recent.iter().filter(|tried| tried.state == TrialState::Complete);
    let seconds: Vec<f64> = complete.map(|tried| tried.seconds(situation.now)).collect();
    if finalists == 0 || seconds.is_empty() {
        return None;
    }
    let turns = (f64::from(finalists) / slots(situation.used)).ceil();
    let round = turns * seconds.iter().sum::<f64>() / count(seconds.len());
    let (least, most) = (f64::from(LEAST_ROUNDS), f64::from(MOST_ROUNDS));
    Some(Span { low: least * round, likely: (least + most) / 2.0 * round, high: most * round })
}

/// The speed of a study.
struct TrialSpeed<'a> {
    situation: &'a Situation<'a>,
    /// Mean slot-seconds per trial.
    mean: f64,
    /// Its relative uncertainty.
    uncertainty: f64,
    /// Survival function: ascending durations of ended trials, and the share that takes longer.
    survival: Vec<(f64, f64)>,
    /// The share of ended trials that count towards the budget.
    counted: f64,
}

impl<'a> TrialSpeed<'a> {
    /// `None` until a trial took time.
    fn of(situation: &'a Situation<'a>) -> Option<Self> {
        let Situation { used, now, full_trial, counts, .. } = *situation;
        // A paused trial has left its slot, and most are never resumed.
        let has_ended =
            |tried: &Tried| tried.state.is_finished() || tried.state == TrialState::Paused;
        let mut times: Vec<(f64, bool, f64)> = (1..)
            .zip(&used.recent)
            .map(|(rank, tried)| (tried.seconds(now), has_ended(tried), float(rank)))
            .filter(|time| time.0 > 0.0)
            .collect();
        if times.is_empty() {
            return None;
        }
        times.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
        let (mut share, mut mean, mut before) = (1.0, 0.0, 0.0);
        let mut alive: f64 = times.iter().map(|(_, _, weight)| weight).sum();
        let mut survival = Vec::new();
        for (seconds, ended, weight) in &times {
            mean += share * (seconds - before);
            before = *seconds;
            if *ended {
                share *= (1.0 - weight / alive).max(0.0);
                survival.push((*seconds, share));
            }
            alive -= weight;
        }
        // What is left after the last one ended is rounding error.
        if share > 1e-9 {
            // The longest ones still run: assume that they become full trials if that length is
            // known, else that they take twice as long.
            let whole = whole_trial(used, now, full_trial).unwrap_or(2.0 * before);
            mean += share * (whole - before).max(0.0);
        }
        let ended: Vec<f64> =
            times.iter().filter(|(_, ended, _)| *ended).map(|(seconds, ..)| *seconds).collect();
        let drift = if situation.spec.pruner.name == "none" { 0.1 } else { 0.3 };
        let over = counts.complete + counts.pruned + counts.failed;
        let counted =
            if over == 0 { 1.0 } else { (situation.counted() + 1.0) / (float(over) + 1.0) };
        Some(TrialSpeed {
            situation,
            mean,
            uncertainty: uncertainty(&ended, drift),
            survival,
            counted,
        })
    }

    /// Slot-seconds until `limit` trials count.
    fn of_the_rest(&self, limit: u64) -> Span {
        let Situation { counts, used, now, .. } = *self.situation;
        let missing = (float(limit) - self.situation.counted()).max(0.0);
        if missing == 0.0 {
            return Span::exactly(0.0);
        }
        let ends = missing / self.counted;
        let unfinished = float(counts.queued + counts.running + counts.paused).min(ends.ceil());
        let begun =
            |tried: &&Tried| matches!(tried.state, TrialState::Queued | TrialState::Running);
        let rest: f64 =
            used.recent.iter().filter(begun).map(|tried| self.rest_of(tried.seconds(now))).sum();
        let likely = (ends - unfinished).max(0.0) * self.mean + rest;
        Span {
            low: likely * (1.0 - self.uncertainty),
            likely,
            high: likely * (1.0 + self.uncertainty),
        }
    }

    /// Expected remaining seconds of a trial that has run for `seconds`.
    fn rest_of(&self, seconds: f64) -> f64 {
        let alive = self
            .survival
            .iter()
            .rfind(|(moment, _)| *moment <= seconds)
            .map_or(1.0, |(_, share)| *share);
        if alive <= 0.0 {
            return 0.0;
        }
        let (mut area, mut before, mut share) = (0.0, 0.0, 1.0);
        for (moment, after) in &self.survival {
            area += share * (moment.min(seconds) - f64::min(before, seconds));
            (before, share) = (*moment, *after);
        }
        area += share * (seconds - f64::min(before, seconds)).max(0.0);
        ((self.mean - area) / alive).max(0.0)
    }

    /// Average number of busy slots: all, less the overhead of starting trials.
    fn slots_at_work(&self) -> f64 {
        let Situation { used, now, counts, .. } = *self.situation;
        let (slots, elapsed) = (slots(used), self.situation.elapsed.as_secs_f64());
        if elapsed <= 0.0 || counts.complete + counts.pruned == 0 {
            return slots;
        }
        let at_work = used.device_time(now).as_secs_f64() / elapsed / share(used);
        at_work.clamp(slots * 0.05, slots)
    }

    /// Wall time of this much work: at the end slots idle until the last trial ends.
    fn wall(&self, work: Span) -> Span {
        let (slots, at_work) = (slots(self.situation.used), self.slots_at_work());
        let last = if work.likely > 0.0 { self.mean * (slots - 1.0) / slots } else { 0.0 };
        Span {
            low: work.low / at_work,
            likely: work.likely / at_work + last / 2.0,
            high: work.high / at_work + last,
        }
    }

    /// Trials that will count after this many further slot-seconds.
    fn trials_in(&self, work: f64) -> Span {
        let done = self.situation.counted();
        let more = |mean: f64| done + if mean > 0.0 { work / mean * self.counted } else { 0.0 };
        Span {
            low: more(self.mean * (1.0 + self.uncertainty)),
            likely: more(self.mean),
            high: more(self.mean * (1.0 - self.uncertainty).max(0.1)),
        }
    }
}

/// Relative uncertainty of the mean: two standard errors (rising weights reduce the effective
/// sample to three quarters), plus `drift`.
fn uncertainty(ended: &[f64], drift: f64) -> f64 {
    let trials = count(ended.len());
    if ended.len() < 3 {
        return 0.6;
    }
    let mean = ended.iter().sum::<f64>() / trials;
    let variance =
        ended.iter().map(|seconds| (seconds - mean).powi(2)).sum::<f64>() / (trials - 1.0);
    let errors = 2.0 * (variance / (0.75 * trials)).sqrt();
    if mean > 0.0 { (drift + errors / mean).min(0.9) } else { 0.9 }
}

/// Devices for each slot.
fn share(used: &Used) -> f64 {
    count(used.devices.max(1)) / slots(used)
}

fn slots(used: &Used) -> f64 {
    count(used.slots.max(1))
}

/// Seconds of a full trial, from the speed of its steps; `None` if unknown.
fn whole_trial(used: &Used, now: Timestamp, full_trial: Option<u64>) -> Option<f64> {
    let full = full_trial?;
    let paces = used
        .recent
        .iter()
        .filter_map(|tried| Some((tried.seconds(now), tried.last_step.filter(|step| *step > 0)?)));
    let (seconds, steps) =
        paces.fold((0.0, 0), |(seconds, steps), (more, step)| (seconds + more, steps + step));
    (steps > 0).then(|| seconds / float(steps) * float(full))
}

/// Trials that count towards the budget.
pub fn counted(counts: Counts, which: Count) -> u64 {
    match which {
        Count::Finished => counts.complete + counts.pruned,
        Count::Completed => counts.complete,
        Count::All => counts.complete + counts.pruned + counts.failed,
    }
}

/// The checkpoints that a trial of a command holds at its end, if all are kept until then: by those
/// that unfinished trials saved in their steps so far.
fn held(situation: &Situation<'_>) -> Option<f64> {
    let Situation { spec, used, full_trial, .. } = *situation;
    if !matches!(spec.program, Program::Command { .. })
        || spec.checkpoints.while_running != WhileRunning::All
    {
        return None;
    }
    let unfinished = || used.recent.iter().filter(|tried| !tried.state.is_finished());
    let (saved, steps) = unfinished().fold((0, 0), |(saved, steps), tried| {
        (saved + tried.saved, steps + tried.last_step.unwrap_or(0))
    });
    let complete = used.recent.iter().filter(|tried| tried.state == TrialState::Complete);
    let whole = full_trial.or(complete.filter_map(|tried| tried.last_step).max())?;
    let most = unfinished().map(|tried| tried.saved).max().filter(|most| *most > 0)?;
    // One that ran longer than others were to holds what it holds.
    let expected = float(saved) / float(steps.max(1)) * float(whole);
    Some(expected.round().max(float(most)))
}

/// Peak bytes of checkpoints: the best ones, one or two for each running trial, or as many as it
/// holds until its end, and one being written.
fn disk(situation: &Situation<'_>, held: Option<f64>, trials: Option<f64>) -> Option<Span> {
    let (files, bytes) = situation.used.measured;
    if files == 0 {
        return None;
    }
    let each = float(bytes) / float(files);
    let there = float(bytes) + each * float(situation.used.unmeasured);
    let (slots, paused) = (slots(situation.used), float(situation.counts.paused));
    let rule = &situation.spec.checkpoints;
    let span = match rule.keep_best {
        Some(keep) => {
            let kept = trials.map_or(f64::from(keep), |trials| f64::from(keep).min(trials));
            // Trials that run at the same time are at different steps.
            let (low, likely, high) = held
                .filter(|held| *held > 2.0)
                .map_or((1.0, 2.0, 3.0), |held| (held / 2.0, held, held + 1.0));
            Span {
                low: each * (kept + low * slots),
                likely: each * (kept + likely * slots + (likely - 1.0) * paused),
                high: each * (kept + high * slots + (high - 1.0) * paused),
            }
        }
        None => {
            // Everything is kept: each trial will leave as much as trials left so far.
            let begun = float(situation.counts.total().max(1));
            let all = there / begun * trials?.max(begun);
            Span { low: all * 0.8, likely: all, high: all * 1.25 }
        }
    };
    let span = span.map(|bytes| bytes.max(there));
    Some(rule.max_disk.map_or(span, |limit| span.at_most(float(limit).max(each * slots))))
}

/// Upper bound of the steps of all trials, from the study file alone.
pub fn most_steps(budget: &Budget, full_trial: Option<u64>) -> Option<u64> {
    Some(budget.trials?.saturating_mul(full_trial?))
}

#[expect(clippy::cast_precision_loss, reason = "an estimate from a number")]
fn float(number: u64) -> f64 {
    number as f64
}

fn count(number: usize) -> f64 {
    float(number as u64)
}
