//! Rebuilds rows of tables from a journal, to compare the two.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Attempt, StoredRunner};
use crate::study::event::{
    AttemptEnd, AttemptEvent, DeviceEvent, Event, ProposalEvent, RunnerEvent, Seq, StateEvent,
    TrialEvent,
};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// The attempts in a journal, by trial and number.
pub fn attempts_of(journal: &[(Seq, Timestamp, Event)]) -> BTreeMap<(TrialNumber, u32), Attempt> {
    let (mut attempts, mut runner) = (BTreeMap::<_, Attempt>::new(), None);
    let mut killed_at = None;
    let mut created = HashSet::new();
    for (seq, at, event) in journal {
        match event {
            Event::Runner(RunnerEvent::Started { .. }) => runner = Some(*seq),
            Event::Runner(RunnerEvent::Stopped { heard, .. }) => killed_at = *heard,
            Event::Trial(trial, TrialEvent::Proposal(ProposalEvent::TrialCreated { .. })) => {
                created.insert(*trial);
            }
            _ => {}
        }
        let Some((trial, event)) = event.attempt_event() else { continue };
        // As in the fold, nothing happens to a trial before it is created.
        if !created.contains(&trial) {
            continue;
        }
        match event {
            AttemptEvent::Started { attempt, slot, resume, until, .. } => {
                let begun = Attempt {
                    trial,
                    attempt: *attempt,
                    slot: slot.clone(),
                    resume: resume.clone(),
                    until: *until,
                    process: None,
                    started: *at,
                    ended: None,
                    end: None,
                    reason: None,
                    runner,
                };
                attempts.insert((trial, attempt.0), begun);
            }
            AttemptEvent::Launched { attempt, pid, pid_started } => {
                if let Some(attempt) = attempts.get_mut(&(trial, attempt.0)) {
                    attempt.process = Some((*pid, *pid_started));
                }
            }
            AttemptEvent::Ended { attempt, end, reason, .. } => {
                if let Some(attempt) = attempts.get_mut(&(trial, attempt.0)) {
                    attempt.ended =
                        Some(end.moment(attempt.started, *at, killed_at).unwrap_or(*at));
                    attempt.end = Some(end.clone());
                    attempt.reason.clone_from(reason);
                }
            }
            AttemptEvent::Reported { .. } | AttemptEvent::Remarked { .. } => {}
        }
    }
    attempts
}

/// A reported value.
#[derive(Clone, Copy, Debug)]
pub struct StoredReport {
    /// The value.
    pub value: f64,
    /// The attempt that reported it.
    pub attempt: AttemptNumber,
    /// When it was stored.
    pub at: Timestamp,
}

/// The reports of one trial, by metric and step.
pub type Reports = BTreeMap<(String, u64), StoredReport>;

/// The reports of each trial that count: a rerun's replace those of the same step, and those of a
/// trial that failed to continue past its end count no longer.
pub fn reports_of(journal: &[(Seq, Timestamp, Event)]) -> BTreeMap<TrialNumber, Reports> {
    let mut reports: BTreeMap<TrialNumber, Reports> = BTreeMap::new();
    let mut before: HashMap<TrialNumber, Reports> = HashMap::new();
    let mut tracked = HashSet::new();
    for (_, at, event) in journal {
        let Event::Trial(trial, event) = event else { continue };
        if let TrialEvent::Proposal(ProposalEvent::TrialCreated { origin, .. }) = event {
            reports.insert(*trial, Reports::new());
            if origin.tracked().is_some() {
                tracked.insert(*trial);
            }
        }
        // As in the fold, nothing happens to a trial before it is created.
        let Some(own) = reports.get_mut(trial) else { continue };
        match event {
            TrialEvent::Attempt(AttemptEvent::Reported { attempt, step, metrics, .. }) => {
                let report = |value| StoredReport { value, attempt: *attempt, at: *at };
                let named = metrics.iter();
                let named = named.map(|(name, value)| ((name.to_owned(), *step), report(value)));
                own.extend(named);
            }
            TrialEvent::Attempt(AttemptEvent::Ended { superseded, .. })
                if !superseded.is_empty() =>
            {
                let is_tracked = tracked.contains(trial);
                own.retain(|(name, step), _| {
                    let is_removed = |steps: &Vec<u64>| match steps.is_empty() {
                        true => is_tracked,
                        false => steps.binary_search(step).is_ok(),
                    };
                    !superseded.get(name).is_some_and(is_removed)
                });
            }
            TrialEvent::State(StateEvent::Continued { .. }) => {
                before.insert(*trial, own.clone());
            }
            TrialEvent::State(StateEvent::Restored) => {
                if let Some(before) = before.remove(trial) {
                    *own = before;
                }
            }
            TrialEvent::State(StateEvent::Finished { .. }) => drop(before.remove(trial)),
            TrialEvent::Proposal(_)
            | TrialEvent::Attempt(_)
            | TrialEvent::Checkpoint(_)
            | TrialEvent::Decision(_)
            | TrialEvent::State(_)
            | TrialEvent::Record(_)
            | TrialEvent::Entry(_) => {}
        }
    }
    reports
}

/// When the losses of attempts were recorded: earlier versions stored this as their end.
pub fn losses_recorded(
    journal: &[(Seq, Timestamp, Event)],
) -> BTreeMap<(TrialNumber, u32), Timestamp> {
    let recorded = |(_, at, event): &(Seq, Timestamp, Event)| match event {
        Event::Trial(
            trial,
            TrialEvent::Attempt(AttemptEvent::Ended { attempt, end: AttemptEnd::Lost, .. }),
        ) => Some(((*trial, attempt.0), *at)),
        _ => None,
    };
    journal.iter().filter_map(recorded).collect()
}

/// The runners in a journal, in order.
pub fn runners_of(journal: &[(Seq, Timestamp, Event)]) -> Vec<StoredRunner> {
    let mut runners: Vec<StoredRunner> = Vec::new();
    for (seq, at, event) in journal {
        match (event, runners.last_mut()) {
            (Event::Runner(RunnerEvent::Started { pid, host, slots, .. }), _) => {
                runners.push(StoredRunner {
                    seq: *seq,
                    pid: *pid,
                    host: host.clone(),
                    slots: slots.clone(),
                    started: *at,
                    stopped: None,
                    ran_micros: None,
                    reason: None,
                    provenance: None,
                })
            }
            (Event::Device(DeviceEvent::SlotsChanged { slots }), Some(runner)) => {
                runner.slots.clone_from(slots)
            }
            (Event::Runner(RunnerEvent::Described { provenance }), Some(runner)) => {
                runner.provenance = Some(provenance.as_ref().clone())
            }
            (
                Event::Runner(RunnerEvent::Stopped { reason, ran_micros, runner, .. }),
                Some(last),
            ) => {
                let began = runner.unwrap_or(last.seq);
                let stopped = runners.iter_mut().find(|runner| runner.seq == began);
                if let Some(runner) = stopped.filter(|runner| runner.stopped.is_none()) {
                    runner.stopped = Some(*at);
                    runner.ran_micros = Some(*ran_micros);
                    runner.reason = Some(reason.clone());
                }
            }
            _ => {}
        }
    }
    runners
}
