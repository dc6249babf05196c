//! Requests to a study: each becomes events and effects, and gets one answer.

use super::attempt::Leaving;
use super::{Effect, Engine, Phase, RunOutcome};
use crate::config::shell;
use crate::pruners::{POPULATION, is_population};
use crate::study::constraint;
use crate::study::control::TrialControl;
use crate::study::event::{Event, StateEvent, StudyEvent};
use crate::study::finalists::Race;
use crate::study::metric::Number;
use crate::study::params::{Params, Value};
use crate::study::request::{Request, RequestAnswer, Retried};
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

/// The answer to a request, or why it is refused.
pub(super) type Served = Result<String, Refusal>;

/// Why a request is refused, always with what to do instead.
#[derive(Debug)]
pub(super) struct Refusal {
    why: String,
    instead: String,
}

pub(super) fn refused(why: impl Into<String>, instead: impl Into<String>) -> Refusal {
    Refusal { why: why.into(), instead: instead.into() }
}

/// Combines several refusals.
pub(super) fn all_of(refusals: Vec<Refusal>) -> Result<(), Refusal> {
    let together = |before: Refusal, next: Refusal| {
        refused(format!("{}: {}; {}", before.why, before.instead, next.why), next.instead)
    };
    refusals.into_iter().reduce(together).map_or(Ok(()), Err)
}

impl Engine {
    /// Serves requests while the study is not running, after closing what a dead runner left open.
    /// The caller holds the lease, and carries out the effects (events, and files to remove).
    pub fn serve_at_rest(&mut self, now: Timestamp, requests: Vec<(i64, Request)>) -> Vec<Effect> {
        self.now = now;
        self.recover();
        for (id, request) in requests {
            self.serve(id, &request);
        }
        std::mem::take(&mut self.effects)
    }

    pub(super) fn serve(&mut self, id: i64, request: &Request) {
        if self.killing.iter().any(|(asked, _)| *asked == id) {
            return;
        }
        let served = match request {
            Request::Stop => self.stop_run(),
            Request::Kill { trial } => match self.kill_trial(*trial) {
                // Answered once the process is gone, so that the request survives a crash until
                // then.
                None => return self.killing.push((id, *trial)),
                Some(served) => served,
            },
            Request::PauseStudy => self.pause_study(),
            Request::ResumeStudy => self.resume_study(),
            Request::PauseTrial { trial } => self.pause_trial(*trial),
            Request::ResumeTrial { trial } => self.resume_trial(*trial),
            Request::PauseDevice { device } => self.pause_device(device),
            Request::ResumeDevice { device, slots } => self.resume_device(device, *slots),
            Request::Enqueue { params } => self.enqueue(params),
            Request::Retry { trials: Retried::One(trial) } => self.retry(*trial),
            Request::Retry { trials: Retried::AllFailed } => self.retry_failed(),
            Request::Extend { by } => self.extend(*by),
            Request::Continue { trial, until } => self.continue_trial(*trial, *until),
            Request::Hide { trial } => self.hide(*trial),
            // The store writes them at once; pending ones come from programs that drive the engine
            // directly.
            Request::Note { trial, .. } | Request::Tag { trial, .. } => {
                trial.map_or(Ok(()), |trial| self.known(trial).map(|_| ())).map(|()| {
                    Event::requested(request).into_iter().for_each(|entry| self.emit(entry));
                    String::new()
                })
            }
            Request::Unreadable { why } => Err(refused(
                format!("the request cannot be read ({why})"),
                "nothing was changed; ask again with the version of hpsearch that runs the study",
            )),
        };
        let answer = match served {
            Ok(done) => RequestAnswer::Done(done),
            Err(Refusal { why, instead }) => RequestAnswer::Refused(format!("{why}: {instead}")),
        };
        self.emit(Event::Study(StudyEvent::RequestServed { id, answer }));
    }

    fn stop_run(&mut self) -> Served {
        match self.phase {
            Phase::Waiting => Err(refused(
                "the study is not running",
                "there is nothing to stop; `hpsearch run STUDY.toml` starts it",
            )),
            _ => {
                self.drain(RunOutcome::Interrupted("stopped on request".to_owned()));
                Ok("running trials save and leave".to_owned())
            }
        }
    }

    /// `None`: it is being killed, and answered once it is gone.
    fn kill_trial(&mut self, number: TrialNumber) -> Option<Served> {
        let state = match self.known(number) {
            Ok(trial) => trial.state,
            Err(why) => return Some(Err(why)),
        };
        if let Some(running) = self.slots.attempt_mut(number) {
            running.leaving = Some((Leaving::Killed, self.now.after(self.grace)));
            self.effects.push(running.kill());
            return None;
        }
        if !TrialControl::Kill.applies_to(state) {
            return Some(Err(over(number, state)));
        }
        self.fail(number, "killed on request".to_owned());
        Some(Ok(format!("trial {number} counts as failed")))
    }

    /// Answers the requests to kill a trial.
    pub(super) fn answer_kill_requests(&mut self, number: TrialNumber) {
        let asked = self.killing.extract_if(.., |(_, trial)| *trial == number);
        for (id, _) in asked.collect::<Vec<_>>() {
            let answer = RequestAnswer::Done(format!("trial {number} is killed"));
            self.emit(Event::Study(StudyEvent::RequestServed { id, answer }));
        }
    }

    fn enqueue(&mut self, fixed: &Params) -> Served {
        let problems = self.spec.space.problems(fixed);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        if !problems.is_empty() {
            let instead = "`hpsearch show` lists the parameters with their ranges";
            return Err(refused(problems.join("; "), instead));
        }
        if let Some(broken) = constraint::broken(&self.spec.constraints, fixed) {
            let why = format!("it violates the constraint `{}`", broken.expression().text());
            return Err(refused(why, "give other values"));
        }
        let full = self.spec.budget.trials.filter(|_| is_population(&self.spec.pruner));
        if full.is_some_and(|trials| self.state.trials.len() as u64 >= trials) {
            let size = POPULATION.of::<u64>(&self.spec.pruner);
            return Err(refused(
                "its populations are full: it would form an incomplete one",
                format!("make room for another one before: `hpsearch extend --trials {size}`"),
            ));
        }
        let candidates = &self.spec.candidates;
        if !candidates.is_empty() && !candidates.iter().any(|one| one.contains(fixed)) {
            let why = format!("no row of `[space] file` has {fixed}");
            return Err(refused(why, "only its rows are run"));
        }
        // Requests are served even if the sampler is exhausted.
        let whole = self.spec.space.assemble(fixed, |_, _| Err(()));
        let params = match whole {
            Ok(params) => params,
            Err(()) => {
                let drawn = self
                    .draw(Some(fixed))
                    .map_err(|why| refused(why, "give a value for each parameter"))?;
                let exhausted =
                    || refused("the sampler has no further values", "give one for each parameter");
                drawn.ok_or_else(exhausted)?.params
            }
        };
        let number = self.create_trial(params.clone(), Origin::Asked);
        self.reopen(format!("trial {number} was enqueued"));
        let said = params.iter().map(|(name, value)| match value {
            Value::Float(float) => format!("{name}={}", Number(*float)),
            other => format!("{name}={other}"),
        });
        let said: Vec<String> = said.collect();
        Ok(self.when(format!("trial {number} is queued: {}", said.join(" "))))
    }

    fn hide(&mut self, number: TrialNumber) -> Served {
        let trial = self.known(number)?;
        if !trial.state.is_finished() {
            let (why, instead) = (
                format!("trial {number} is {}, and needs its files", trial.state.as_str()),
                format!("`hpsearch kill {} {number}` ends it first", self.study_word()),
            );
            return Err(refused(why, instead));
        }
        let races = |race: &Race| {
            !race.void && race.finalists.iter().any(|finalist| finalist.trial == number)
        };
        if self.state.race.as_ref().is_some_and(races) {
            return Err(refused(
                format!("trial {number} is one of the finalists"),
                "they stay until the search continues; `hpsearch rm STUDY` removes the study",
            ));
        }
        let paths: Vec<_> = trial.checkpoints.iter().map(|kept| kept.path.clone()).collect();
        self.drop_all(paths.into_iter().map(|path| (number, path)).collect());
        self.emit(Event::of(number, StateEvent::Hidden));
        Ok(format!("trial {number} is hidden"))
    }

    fn retry(&mut self, number: TrialNumber) -> Served {
        let trial = self.known(number)?;
        if !TrialControl::Retry.applies_to(trial.state) {
            let study = self.study_word();
            let instead = match trial.state {
                TrialState::Complete | TrialState::Pruned => {
                    format!(
                        "`hpsearch enqueue {study} --from {number} --again` starts it from scratch"
                    )
                }
                TrialState::Queued => "it starts when a slot is free".to_owned(),
                TrialState::Paused => {
                    format!("`hpsearch resume {study} {number}` lets it continue")
                }
                TrialState::Running | TrialState::Failed => {
                    format!("`hpsearch kill {study} {number}` ends it first")
                }
            };
            let why = format!("trial {number} has not failed, it is {}", trial.state.as_str());
            return Err(refused(why, instead));
        }
        self.queue_failed(number);
        Ok(self.when(format!("trial {number} is queued again")))
    }

    /// The study's name as a word of a command line.
    fn study_word(&self) -> String {
        shell::quoted(std::slice::from_ref(&self.spec.name))
    }

    fn retry_failed(&mut self) -> Served {
        let failed = self.trials_that(|trial| trial.state == TrialState::Failed);
        failed.iter().for_each(|number| self.queue_failed(*number));
        match &failed[..] {
            [] => Err(refused(
                "no trial has failed",
                "there is nothing to retry; `hpsearch trials` shows them",
            )),
            [only] => Ok(self.when(format!("trial {only} is queued again"))),
            [first, .., last] => {
                let count = failed.len();
                let done = format!("{count} failed trials are queued again, {first} to {last}");
                Ok(self.when(done))
            }
        }
    }

    fn queue_failed(&mut self, number: TrialNumber) {
        self.queue_again(number, "retried by you");
        self.failures.before = self.failures.before.min(self.state.counts.failed);
        self.reopen(format!("trial {number} is tried again"));
    }

    /// Reopens a finished study.
    pub(super) fn reopen(&mut self, reason: String) {
        if matches!(self.phase, Phase::Racing(_)) {
            self.phase = Phase::Searching;
            self.budgets.ended_by = None;
        }
        if self.state.finished.is_some() {
            self.emit(Event::Study(StudyEvent::Reopened { reason }));
        }
    }

    /// The sentence, with the time if it is not done at once.
    pub(super) fn when(&self, done: String) -> String {
        match (&self.state.paused, &self.phase) {
            (Some(_), _) => {
                format!("{done}; the study is paused, and continues when it is resumed")
            }
            (None, Phase::Waiting | Phase::Draining(_) | Phase::Over) => {
                format!("{done}; it starts when the study is run")
            }
            (None, Phase::Searching | Phase::Racing(_)) => done,
        }
    }

    pub(super) fn known(&self, number: TrialNumber) -> Result<&Trial, Refusal> {
        self.state.trial(number).ok_or_else(|| {
            refused(format!("the study has no trial {number}"), "`hpsearch trials` lists them")
        })
    }
}

/// An ended trial cannot be killed or paused.
pub(super) fn over(number: TrialNumber, state: TrialState) -> Refusal {
    refused(
        format!("trial {number} is {} already", state.as_str()),
        "there is nothing to stop; `hpsearch trials` lists what runs",
    )
}
