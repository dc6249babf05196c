//! The trials of an agent: how they start, and how their messages are relayed.

use std::time::{Duration, Instant};

use super::node_log::NodeLog;
use super::{Agent, AgentEnd, AgentNews};
use crate::cluster::message::{AttemptOf, ToRunner};
use crate::cluster::transfer::{Blob, append};
use crate::engine::{Assignment, Input};
use crate::runner::launcher::Launcher as _;
use crate::study::event::AttemptEnd;

/// Time for a signal to reach this process that has reached a trial.
const SIGNAL_PATIENCE: Duration = Duration::from_millis(300);

/// So many attempts in a row that could not start end an agent: another one may have room.
const MOST_REFUSALS: u32 = 3;

impl Agent {
    /// Ends an attempt that has not begun.
    pub(super) fn drop_deferred(&mut self, key: AttemptOf) {
        let Some(work) = &mut self.work else { return };
        let before = work.deferred.len();
        work.deferred.retain(|waits| (waits.trial, waits.attempt) != key);
        let waiting = work
            .carrying
            .as_mut()
            .map_or_else(Vec::new, |carrying| carrying.drop_waiting(|attempt| attempt != key));
        if work.deferred.len() < before || !waiting.is_empty() {
            self.end_unbegun(key, AttemptEnd::Interrupted, None);
        }
    }

    pub(super) fn launch(&mut self, assignment: Assignment) {
        let key = (assignment.trial, assignment.attempt);
        let Some(work) = &mut self.work else { return };
        self.attempts.insert(key, None);
        if self.leaving.is_some() {
            return self.end_unbegun(key, AttemptEnd::Interrupted, None);
        }
        if work.is_busy_with(&assignment) {
            // An attempt that an earlier runner gave up is being killed.
            work.deferred.push(assignment);
            return;
        }
        match &mut work.carrying {
            None => self.start(assignment),
            Some(carrying) => match carrying.launch(assignment) {
                Ok(assignment) => self.start(assignment),
                Err(None) => {}
                Err(Some(location)) => {
                    self.put(&ToRunner::Fetch(location));
                }
            },
        }
    }

    /// Starts an attempt whose files are here.
    pub(super) fn start(&mut self, assignment: Assignment) {
        let key = (assignment.trial, assignment.attempt);
        let Some(work) = &mut self.work else { return };
        if self.leaving.is_some() {
            return self.end_unbegun(key, AttemptEnd::Interrupted, None);
        }
        let assignment = work.here(assignment);
        match assignment.node.as_ref().filter(|node| !node.leads()) {
            Some(node) => {
                let log = work.files.log_of_node(key.0, key.1, node.rank);
                work.following.insert(key, NodeLog::at(log));
            }
            None => {
                if let Some(metrics) = &work.system_metrics {
                    metrics.started(key.0, key.1, &assignment.slot.devices);
                }
                let device = assignment.slot.devices.first();
                work.loads.iter_mut().for_each(|loads| loads.started(key.0, device));
                work.carrying.iter_mut().for_each(|carrying| carrying.started(key));
            }
        }
        match work.launcher.launch(&assignment, &self.inputs) {
            Ok(job) => {
                work.jobs.insert(key, job);
                let step_unit = work.step_unit();
                let assignment = Box::new(assignment);
                self.news.push(AgentNews::Started { assignment, step_unit });
            }
            Err(error) => self.end_unbegun(key, error.end(), Some(error.to_string())),
        }
    }

    pub(super) fn end_unbegun(
        &mut self,
        (trial, attempt): AttemptOf,
        end: AttemptEnd,
        message: Option<String>,
    ) {
        self.hear(Input::Ended { trial, attempt, end, message });
    }

    /// Relays a message of a trial; signals are for the agent itself.
    pub(super) fn hear(&mut self, input: Input) {
        match &input {
            Input::Interrupt => {
                self.put(&ToRunner::Leaving { why: "its machine asks it to leave".to_owned() });
                return self.leave(AgentEnd::Interrupted);
            }
            Input::KillAll => {
                self.leaving = Some((Instant::now(), AgentEnd::Interrupted));
                return;
            }
            // A signal that ends the job reaches its trials, too: what ends by it has left.
            Input::Ended { .. } if self.leaving.is_none() && is_job_of_slurm() => {
                self.ends.push_back((Instant::now() + SIGNAL_PATIENCE, input));
                return;
            }
            _ => {}
        }
        self.tell(input);
    }

    pub(super) fn tell(&mut self, input: Input) {
        self.send_points(true);
        if self.work.is_none() {
            return;
        }
        if let Input::Ended { end, message, .. } = &input {
            self.refusals = if *end == AttemptEnd::Refused { self.refusals + 1 } else { 0 };
            if self.refusals >= MOST_REFUSALS {
                let why = message.clone().unwrap_or_else(|| "the machine refused it".to_owned());
                let why = format!("trials cannot be started there: {why}");
                self.put(&ToRunner::Leaving { why: why.clone() });
                self.leave(AgentEnd::Unusable(why));
            }
        }
        if let Some(key) = input.attempt()
            && self.work.as_ref().is_some_and(|work| work.following.contains_key(&key))
        {
            match &input {
                Input::Ended { .. } => self.end_node_log(key),
                Input::Peak { .. } => {}
                // Another agent leads it, and speaks for it.
                _ => return,
            }
        }
        let Some(work) = &mut self.work else { return };
        let ended = match &input {
            Input::Launched { trial, pid, .. } => {
                if let Some(metrics) = &work.system_metrics {
                    metrics.launched(*trial, *pid);
                }
                work.loads.iter_mut().for_each(|loads| loads.launched(*trial, *pid));
                None
            }
            Input::Ended { trial, attempt, end, message } => {
                self.news.push(AgentNews::Ended {
                    trial: *trial,
                    attempt: *attempt,
                    end: end.clone(),
                    message: message.clone(),
                });
                work.jobs.remove(&(*trial, *attempt));
                if let Some(metrics) = &work.system_metrics {
                    metrics.ended(*trial);
                }
                work.loads.iter_mut().for_each(|loads| loads.ended(*trial));
                if end.may_leave_processes() {
                    work.launcher.sweep();
                }
                Some(*trial)
            }
            _ => None,
        };
        let input = match &mut work.carrying {
            Some(carrying) => carrying.hear(input),
            None => Some(input),
        };
        input.into_iter().for_each(|input| self.relay(input));
        if let Some(ended) = ended {
            let deferred = self.work.as_mut().map(|work| {
                work.deferred.extract_if(.., |waits| waits.trial == ended).collect::<Vec<_>>()
            });
            deferred.into_iter().flatten().for_each(|assignment| self.launch(assignment));
        }
    }

    /// Sends what was added to the logs of attempts that other agents lead.
    pub(super) fn send_node_logs(&mut self) {
        let Some(work) = &mut self.work else { return };
        let following = work.following.iter_mut();
        let due = following.filter_map(|(attempt, log)| log.is_due().then_some(*attempt));
        let due: Vec<AttemptOf> = due.collect();
        due.into_iter().for_each(|attempt| self.send_node_log(attempt, false));
    }

    fn send_node_log(&mut self, key: AttemptOf, end: bool) {
        let (trial, attempt) = key;
        let next = |agent: &mut Agent| {
            let log = agent.work.as_mut()?.following.get_mut(&key)?;
            log.next_lines(end)
        };
        while let Some(lines) = next(self) {
            self.put(&ToRunner::NodeLog { trial, attempt, lines: Blob(lines) });
        }
    }

    /// Adds what another node printed to the log of an attempt that this agent leads. A log that is
    /// on its way to the runner already is completed there.
    pub(super) fn take_node_log(&mut self, (trial, attempt): AttemptOf, lines: Blob) {
        let Some(work) = &self.work else { return };
        if work.carrying.is_some() && !work.jobs.contains_key(&(trial, attempt)) {
            self.put(&ToRunner::NodeLog { trial, attempt, lines });
        } else {
            append(&work.files.log(trial, attempt), &lines.0);
        }
    }

    /// Sends the rest of the log of an attempt that has ended.
    fn end_node_log(&mut self, attempt: AttemptOf) {
        self.send_node_log(attempt, true);
        let log = self.work.as_mut().and_then(|work| work.following.remove(&attempt));
        log.into_iter().for_each(NodeLog::remove);
    }

    /// Sends an input whose files are sent.
    pub(super) fn relay(&mut self, input: Input) {
        let Some(work) = &self.work else { return };
        let input = work.relative(input);
        let report = match &input {
            Input::Report { trial, attempt, .. } => Some(((*trial, *attempt), input.clone())),
            _ => None,
        };
        let ended = match &input {
            Input::Ended { trial, attempt, .. } => Some((*trial, *attempt)),
            _ => None,
        };
        let number = self.put(&ToRunner::input(input));
        if let Some((key, report)) = report {
            self.unanswered.insert(key, (number, report));
        }
        if let Some(key) = ended {
            self.unanswered.remove(&key);
            if let Some(end) = self.attempts.get_mut(&key) {
                *end = Some(number);
            }
        }
    }
}

/// Whether this process is part of a job of Slurm.
fn is_job_of_slurm() -> bool {
    std::env::var_os("SLURM_JOB_ID").is_some()
}
