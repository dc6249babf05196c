//! What people ask of a study: each request becomes events and effects, and gets one answer.

use super::{Busy, Effect, Engine, Leaving, Outcome, Phase};
use crate::study::constraint;
use crate::study::decision::{Reason, Verdict};
use crate::study::event::{Answer, Event, Request, Retried};
use crate::study::metric::Number;
use crate::study::params::{Params, Value};
use crate::study::spec::{Budget, Extension, Program, StepClock};
use crate::study::time::Timestamp;
use crate::study::trial::{Hold, LARGEST_STEP, Origin, Trial, TrialNumber, TrialState};

/// What is said of a trial, and of a study, that its user paused.
const BY_YOU: &str = "paused by you";

/// The sentence of a request that was carried out, or why it cannot be.
pub(super) type Served = Result<String, Refusal>;

/// Why a request cannot be carried out, never without what to do instead.
#[derive(Debug)]
pub(super) struct Refusal {
    why: String,
    instead: String,
}

pub(super) fn refused(why: impl Into<String>, instead: impl Into<String>) -> Refusal {
    Refusal { why: why.into(), instead: instead.into() }
}

/// Several at once, each with its own way out behind it.
fn all_of(refusals: Vec<Refusal>) -> Result<(), Refusal> {
    let together = |before: Refusal, next: Refusal| {
        refused(format!("{}: {}; {}", before.why, before.instead, next.why), next.instead)
    };
    refusals.into_iter().reduce(together).map_or(Ok(()), Err)
}

impl Engine {
    /// Serves requests while nobody runs the study: what a dead runner left open is closed first. The caller holds the
    /// lease, and carries out the effects (events, and files to remove).
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
                // Answered once it is gone: whoever asks again after a crash finds the request still there.
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
            // The store writes them at once; a pending one is of a program that only drives the engine.
            Request::Note { trial, .. } | Request::Tag { trial, .. } => {
                trial.map_or(Ok(()), |trial| self.known(trial).map(|_| ())).map(|()| {
                    request.entry().into_iter().for_each(|entry| self.emit(entry));
                    String::new()
                })
            }
            Request::Unreadable { why } => Err(refused(
                format!("what was asked cannot be read ({why})"),
                "nothing was changed; ask again with the hpsearch that runs the study",
            )),
        };
        let answer = match served {
            Ok(done) => Answer::Done(done),
            Err(Refusal { why, instead }) => Answer::Refused(format!("{why}: {instead}")),
        };
        self.emit(Event::RequestServed { id, answer });
    }

    fn stop_run(&mut self) -> Served {
        match self.phase {
            Phase::Waiting => Err(refused(
                "nobody runs the study",
                "there is nothing to stop; `hpsearch run STUDY.toml` starts it",
            )),
            _ => {
                self.drain(Outcome::Interrupted("stopped on request".to_owned()));
                Ok("running trials save and leave".to_owned())
            }
        }
    }

    /// `None`: it is being killed, and answered when it is gone.
    fn kill_trial(&mut self, number: TrialNumber) -> Option<Served> {
        let state = match self.known(number) {
            Ok(trial) => trial.state,
            Err(why) => return Some(Err(why)),
        };
        if let Some(busy) = self.busy.iter_mut().flatten().find(|busy| busy.trial == number) {
            busy.leaving = Some((Leaving::Killed, self.now.after(self.grace)));
            busy.kill_sent = true;
            self.effects.push(Effect::Kill { trial: number, attempt: busy.attempt });
            return None;
        }
        if state.is_finished() {
            return Some(Err(over(number, state)));
        }
        self.fail(number, "killed on request".to_owned());
        Some(Ok(format!("trial {number} counts as failed")))
    }

    /// Answers those who asked for a trial's end.
    pub(super) fn answer_killers(&mut self, number: TrialNumber) {
        let (gone, rest) =
            std::mem::take(&mut self.killing).into_iter().partition(|(_, trial)| *trial == number);
        self.killing = rest;
        let gone: Vec<(i64, TrialNumber)> = gone;
        for (id, _) in gone {
            self.emit(Event::RequestServed {
                id,
                answer: Answer::Done(format!("trial {number} is killed")),
            });
        }
    }

    fn pause_study(&mut self) -> Served {
        if self.view.paused.is_some() {
            return Ok("it was paused already".to_owned());
        }
        if self.view.finished.is_some() && self.queue.is_empty() {
            return Err(refused(
                "the study is over",
                "there is nothing to pause; `hpsearch extend` gives it more budget",
            ));
        }
        self.emit(Event::StudyPaused { reason: BY_YOU.to_owned() });
        let busy: Vec<usize> =
            (0..self.busy.len()).filter(|index| self.busy[*index].is_some()).collect();
        for index in &busy {
            self.ask_to_pause(*index);
        }
        Ok(match busy.len() {
            0 => "nothing is started until it is resumed".to_owned(),
            1 => "its one running trial saves and leaves; nothing is started until it is resumed"
                .to_owned(),
            trials => format!(
                "its {trials} running trials save and leave; nothing is started until it is resumed"
            ),
        })
    }

    fn resume_study(&mut self) -> Served {
        if self.view.paused.is_none() {
            return Err(refused(
                "the study is not paused",
                "if nobody runs it, `hpsearch run STUDY.toml` does",
            ));
        }
        self.emit(Event::StudyResumed { reason: "resumed by you".to_owned() });
        let held: Vec<TrialNumber> = self
            .view
            .trials
            .iter()
            .filter(|trial| trial.state == TrialState::Paused && trial.hold == Some(Hold::Study))
            .map(|trial| trial.number)
            .collect();
        for number in held {
            self.let_go(number);
        }
        for index in 0..self.busy.len() {
            if self.is_open(index)
                && self.busy[index].as_ref().is_some_and(|busy| self.hold_of(busy.trial).is_none())
            {
                self.withdraw(index);
            }
        }
        Ok(if self.phase == Phase::Waiting {
            "it goes on when it is run".to_owned()
        } else {
            "it goes on".to_owned()
        })
    }

    fn pause_trial(&mut self, number: TrialNumber) -> Served {
        let trial = self.known(number)?;
        let (state, hold) = (trial.state, trial.hold);
        let hold_it = |reason: &str| Event::TrialPaused {
            trial: number,
            reason: reason.to_owned(),
            hold: Some(Hold::Trial),
        };
        match state {
            _ if state.is_finished() => Err(over(number, state)),
            _ if hold == Some(Hold::Trial) => Ok(format!("trial {number} was paused already")),
            TrialState::Queued | TrialState::Paused => {
                self.emit(hold_it(BY_YOU));
                Ok(format!("trial {number} waits until it is resumed"))
            }
            _ => {
                self.emit(Event::TrialHeld { trial: number, hold: Some(Hold::Trial) });
                let Some(index) = self.index_of(number) else {
                    return Ok(format!("trial {number} is paused"));
                };
                self.ask_to_pause(index);
                Ok(format!("trial {number} saves and leaves, and waits until it is resumed"))
            }
        }
    }

    fn resume_trial(&mut self, number: TrialNumber) -> Served {
        let trial = self.known(number)?;
        match (trial.state, trial.hold) {
            (TrialState::Running, Some(_)) => {
                self.emit(Event::TrialHeld { trial: number, hold: None });
                if let Some(index) = self
                    .index_of(number)
                    .filter(|index| self.view.paused.is_none() && self.is_open(*index))
                {
                    self.withdraw(index);
                }
                Ok(format!("trial {number} goes on"))
            }
            (TrialState::Running | TrialState::Queued, _) => {
                Ok(format!("trial {number} was not paused"))
            }
            (TrialState::Paused, Some(_)) => {
                self.let_go(number);
                Ok(match self.view.trial(number).map(|trial| trial.state) {
                    Some(TrialState::Paused) => {
                        format!("trial {number} waits for its pruner again, as before")
                    }
                    _ => self.when(format!("trial {number} is queued")),
                })
            }
            (TrialState::Paused, None) => {
                let last = trial.last().map_or(0, |(step, _)| step);
                let until = self.milestones.at.iter().copied().find(|milestone| *milestone > last);
                self.emit(Event::TrialQueued {
                    trial: number,
                    until,
                    reason: "resumed by you, ahead of its pruner".to_owned(),
                });
                Ok(self.when(format!("trial {number} is queued")))
            }
            (state, _) => {
                let instead = if state == TrialState::Failed {
                    "`hpsearch retry` starts it again"
                } else {
                    "`hpsearch continue` takes it further"
                };
                Err(refused(format!("trial {number} is {}", state.as_str()), instead))
            }
        }
    }

    fn enqueue(&mut self, fixed: &Params) -> Served {
        let problems: Vec<String> =
            self.spec.space.problems(fixed).iter().map(ToString::to_string).collect();
        if !problems.is_empty() {
            return Err(refused(
                problems.join("; "),
                "`hpsearch show` lists the parameters with their ranges",
            ));
        }
        if let Some(broken) = constraint::broken(&self.spec.constraints, fixed) {
            return Err(refused(
                format!("it breaks the constraint `{}`", broken.expression().text()),
                "give other values",
            ));
        }
        let number = TrialNumber(self.view.trials.len() as u64);
        // A sampler that is exhausted, as a grid may be, still lets people ask for more.
        let whole = self.spec.space.assemble(fixed, |_, _| Err(()));
        let params = match whole {
            Ok(params) => params,
            Err(()) => {
                let drawn = self
                    .draw(Some(fixed))
                    .map_err(|why| refused(why, "give a value for each parameter"))?;
                drawn
                    .ok_or_else(|| {
                        refused("the sampler has no further values", "give one for each parameter")
                    })?
                    .params
            }
        };
        self.emit(Event::TrialCreated {
            trial: number,
            params: params.clone(),
            origin: Origin::Asked,
        });
        self.reopen(format!("trial {number} was enqueued"));
        let said: Vec<String> = params
            .iter()
            .map(|(name, value)| match value {
                Value::Float(float) => format!("{name}={}", Number(*float)),
                other => format!("{name}={other}"),
            })
            .collect();
        Ok(self.when(format!("trial {number} is queued: {}", said.join(" "))))
    }

    fn retry(&mut self, number: TrialNumber) -> Served {
        let trial = self.known(number)?;
        if trial.state != TrialState::Failed {
            let instead = match trial.state {
                TrialState::Complete | TrialState::Pruned => {
                    format!("`hpsearch enqueue --from {number} --again` runs it anew")
                }
                _ => format!("`hpsearch kill {number}` ends it first"),
            };
            return Err(refused(
                format!("trial {number} has not failed, it is {}", trial.state.as_str()),
                instead,
            ));
        }
        self.queue_failed(number);
        Ok(self.when(format!("trial {number} is queued again")))
    }

    fn retry_failed(&mut self) -> Served {
        let failed: Vec<TrialNumber> = self
            .view
            .trials
            .iter()
            .filter(|trial| trial.state == TrialState::Failed)
            .map(|trial| trial.number)
            .collect();
        for number in &failed {
            self.queue_failed(*number);
        }
        match &failed[..] {
            [] => Err(refused(
                "no trial has failed",
                "there is nothing to retry; `hpsearch trials` shows them",
            )),
            [only] => Ok(self.when(format!("trial {only} is queued again"))),
            [first, .., last] => Ok(self.when(format!(
                "{} failed trials are queued again, {first} to {last}",
                failed.len()
            ))),
        }
    }

    fn queue_failed(&mut self, number: TrialNumber) {
        let until = self.view.trial(number).and_then(|trial| trial.until);
        self.emit(Event::TrialQueued {
            trial: number,
            until,
            reason: format!("retried by you; goes on {}", self.place_of(number)),
        });
        self.failed_before = self.failed_before.min(self.view.counts.failed);
        self.reopen(format!("trial {number} is tried again"));
    }

    fn extend(&mut self, by: Extension) -> Served {
        let budget = &self.spec.budget;
        let unlimited = |key: &str| {
            refused(
                format!("`budget.{key}` is not set, so there is no limit to raise"),
                format!("set `{key}` under [budget] of the study file"),
            )
        };
        let problems = [
            by.is_nothing()
                .then(|| refused("nothing was added", "say `--trials N` or `--time 2h`")),
            (by.trials > 0 && budget.trials.is_none()).then(|| unlimited("trials")),
            (!by.time.is_zero() && budget.time.is_none()).then(|| unlimited("time")),
            (by.device_hours > 0.0 && budget.device_hours.is_none())
                .then(|| unlimited("device_hours")),
            (by.cost > 0.0 && budget.cost.is_none()).then(|| unlimited("cost")),
        ];
        all_of(problems.into_iter().flatten().collect())?;
        let beyond = self.beyond_a_store(by);
        if !beyond.is_empty() {
            let keys: Vec<String> = beyond.iter().map(|key| format!("`budget.{key}`")).collect();
            return Err(refused(
                format!("{} would be larger than a store can hold", keys.join(" and ")),
                "ask for less",
            ));
        }
        self.emit(Event::BudgetExtended { by });
        self.spec.budget.extend(by);
        self.reopen("its budget was extended".to_owned());
        let trials = self
            .spec
            .budget
            .trials
            .filter(|_| by.trials > 0)
            .map(|trials| format!("{trials} trials"));
        let time = self
            .spec
            .budget
            .time
            .filter(|_| !by.time.is_zero())
            .map(|time| format!("{} s", time.as_secs_f64()));
        let hours = self
            .spec
            .budget
            .device_hours
            .filter(|_| by.device_hours > 0.0)
            .map(|hours| format!("{hours} device-hours"));
        let cost =
            self.spec.budget.cost.filter(|_| by.cost > 0.0).map(|cost| format!("a cost of {cost}"));
        let parts: Vec<String> = trials.into_iter().chain(time).chain(hours).chain(cost).collect();
        Ok(self.when(format!("the budget is {} now", parts.join(" and "))))
    }

    /// The keys of the budget that could not be stored any more with `by` on top, nor what was added in all.
    fn beyond_a_store(&self, by: Extension) -> Vec<&'static str> {
        let before = self.spec.budget.beyond_a_store();
        let mut budget = self.spec.budget.clone();
        budget.extend(by);
        let added = self.view.extension.and(by);
        let added = Budget {
            trials: Some(added.trials),
            time: Some(added.time),
            device_hours: Some(added.device_hours),
            cost: Some(added.cost),
            ..Budget::default()
        };
        let mut keys: Vec<&str> =
            budget.beyond_a_store().into_iter().filter(|key| !before.contains(key)).collect();
        keys.extend(added.beyond_a_store());
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn continue_trial(&mut self, number: TrialNumber, until: u64) -> Served {
        let trial = self.known(number)?;
        let (state, last) = (trial.state, trial.last().map_or(0, |(step, _)| step));
        match state {
            TrialState::Complete | TrialState::Pruned => {}
            TrialState::Failed => {
                return Err(refused(
                    format!("trial {number} failed"),
                    "`hpsearch retry` starts it again",
                ));
            }
            TrialState::Paused => {
                return Err(refused(
                    format!("trial {number} has not ended, it is paused"),
                    format!("`hpsearch resume {number}` lets it go on"),
                ));
            }
            _ => {
                let why = format!("trial {number} has not ended, it is {}", state.as_str());
                return Err(refused(why, "wait for its end: `hpsearch watch` shows it"));
            }
        }
        let mut problems = Vec::new();
        if until > LARGEST_STEP {
            problems.push(refused(
                format!("{} is beyond the largest one, {LARGEST_STEP}", self.spec.step.at(until)),
                "say an earlier one",
            ));
        }
        if until <= last {
            problems.push(refused(
                format!("trial {number} has reached {}", self.spec.step.at(last)),
                format!("say a later one than {until}"),
            ));
        }
        if matches!(
            (&self.spec.program, self.spec.step),
            (Program::Trainer { .. }, StepClock::Samples)
        ) {
            let why = "a trial whose clock counts samples cannot be continued";
            problems.push(refused(
                why,
                "the trainer's length is in epochs or steps: a study with such a `step` can",
            ));
        }
        if trial.resumable_checkpoint().is_none() {
            let why = match state {
                TrialState::Pruned => {
                    "a pruned trial keeps none unless `[checkpoints] keep = \"all\"`"
                }
                _ => "it saved none, or it is not among those that `[checkpoints] keep` keeps",
            };
            let anew = format!("`hpsearch enqueue --from {number} --again` runs it anew");
            problems.push(refused(
                format!("trial {number} has no checkpoint to go on from ({why})"),
                anew,
            ));
        }
        all_of(problems)?;
        let place = self.place_of(number);
        self.emit(Event::TrialContinued { trial: number, until, from: state });
        self.reopen(format!("trial {number} continues"));
        Ok(self.when(format!("trial {number} goes on {place} to {}", self.spec.step.at(until))))
    }

    /// Asks what is on a slot to save and leave. A command is told at its next report, for it may lose its work since the
    /// last checkpoint otherwise; everything else saves when it is asked.
    pub(super) fn ask_to_pause(&mut self, index: usize) {
        let waits_for_report = matches!(self.spec.program, Program::Command { .. });
        let (now, deadline) = (self.now, self.now.after(self.grace));
        let Some(busy) = self.busy[index].as_mut().filter(|busy| busy.leaving.is_none()) else {
            return;
        };
        if waits_for_report {
            busy.pause_by.get_or_insert(deadline);
        } else {
            busy.pause_by = Some(now);
        }
        self.press_pause(index);
    }

    /// Asks a trial to leave that has not reported since it was to pause.
    pub(super) fn press_pause(&mut self, index: usize) {
        let (now, deadline) = (self.now, self.now.after(self.grace));
        let overdue = |busy: &&mut Busy| {
            busy.leaving.is_none() && busy.pause_by.is_some_and(|moment| moment <= now)
        };
        if let Some(busy) = self.busy[index].as_mut().filter(overdue) {
            busy.leaving = Some((Leaving::Holding { told: false }, deadline));
            self.effects.push(Effect::Leave { trial: busy.trial, attempt: busy.attempt });
        }
    }

    /// The answer to a report of a trial that its user paused: `None` if it is not.
    pub(super) fn pause_at_report(&mut self, index: usize) -> Option<Verdict> {
        let deadline = self.now.after(self.grace);
        let busy = self.busy[index]
            .as_mut()
            .filter(|busy| busy.leaving.is_none() && busy.pause_by.is_some())?;
        busy.leaving = Some((Leaving::Holding { told: true }, deadline));
        let why = self.packed.why_evicted(busy.trial).cloned();
        Some(Verdict::Pause(Reason::Held(why.unwrap_or_else(|| BY_YOU.to_owned()))))
    }

    /// What is on the slot need not pause any more; if it was told already, it is queued again when it has left.
    pub(super) fn withdraw(&mut self, index: usize) {
        if let Some(busy) = self.busy[index].as_mut() {
            busy.pause_by = None;
        }
    }

    /// A trial that its user paused may go on, as it was before.
    fn let_go(&mut self, number: TrialNumber) {
        let Some(trial) = self.view.trial(number) else { return };
        let until = trial.until;
        let decided = trial
            .last()
            .and_then(|(step, _)| trial.decision_at(step))
            .map(|decision| decision.verdict.clone());
        let reached = until.is_none_or(|until| trial.last().is_some_and(|(last, _)| last >= until));
        match decided {
            Some(Verdict::Pause(reason)) if reached && trial.continued.is_none() => {
                let reason = reason.to_string();
                self.emit(Event::TrialPaused { trial: number, reason, hold: None });
            }
            _ => self.emit(Event::TrialQueued {
                trial: number,
                until,
                reason: format!("resumed by you; goes on {}", self.place_of(number)),
            }),
        }
    }

    /// Who paused a trial, itself or with its study.
    pub(super) fn hold_of(&self, number: TrialNumber) -> Option<Hold> {
        let own = self.view.trial(number).and_then(|trial| trial.hold);
        own.or_else(|| self.view.paused.as_ref().map(|_| Hold::Study))
    }

    /// Pauses a trial that left its slot and is held.
    pub(super) fn hold(&mut self, number: TrialNumber, hold: Hold) {
        let whose = match hold {
            Hold::Trial => BY_YOU.to_owned(),
            Hold::Study => "paused with its study".to_owned(),
        };
        self.emit(Event::TrialPaused {
            trial: number,
            reason: format!("{whose}; goes on {}", self.place_of(number)),
            hold: Some(hold),
        });
    }

    /// Where a trial would go on.
    pub(super) fn place_of(&self, number: TrialNumber) -> String {
        let checkpoint = self.view.trial(number).and_then(Trial::resumable_checkpoint);
        checkpoint.map_or_else(
            || "from the start".to_owned(),
            |checkpoint| format!("from {}", self.spec.step.at(checkpoint.step)),
        )
    }

    /// A study that is over has something to do again.
    fn reopen(&mut self, reason: String) {
        if matches!(self.phase, Phase::Racing(_)) {
            self.phase = Phase::Searching;
        }
        if self.view.finished.is_some() {
            self.emit(Event::StudyReopened { reason });
        }
    }

    /// The sentence with when that happens, where it is not now.
    fn when(&self, done: String) -> String {
        match (&self.view.paused, &self.phase) {
            (Some(_), _) => format!("{done}; the study is paused, and goes on when it is resumed"),
            (None, Phase::Waiting | Phase::Draining(_) | Phase::Over) => {
                format!("{done}; it starts when the study is run")
            }
            (None, Phase::Searching | Phase::Racing(_)) => done,
        }
    }

    fn known(&self, number: TrialNumber) -> Result<&Trial, Refusal> {
        self.view.trial(number).ok_or_else(|| {
            refused(format!("the study has no trial {number}"), "`hpsearch trials` lists them")
        })
    }

    pub(super) fn index_of(&self, number: TrialNumber) -> Option<usize> {
        self.busy.iter().position(|busy| busy.as_ref().is_some_and(|busy| busy.trial == number))
    }
}

/// A trial that has ended cannot be killed or paused.
fn over(number: TrialNumber, state: TrialState) -> Refusal {
    refused(
        format!("trial {number} is {} already", state.as_str()),
        "there is nothing of it to stop; `hpsearch trials` lists what runs",
    )
}
