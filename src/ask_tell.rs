//! `hpsearch ask-tell`: a study whose trials another program runs, one JSON object a line in each
//! direction.
//!
//! [`Session::answer`] is the whole protocol as a function of the lines so far; [`serve`] puts it
//! between two streams. Samplers, pruners and the rules of a study are those of every other run:
//! the session drives an [`Engine`] that starts trials when it is asked to. Nothing is stored.

/// Returns with a [`Refusal`].
macro_rules! refuse {
    ($($text:tt)*) => {
        return Err(Refusal(format!($($text)*)))
    };
}

mod line;
mod request;
mod start;

use serde_json::{Value as Json, json};

use crate::engine::{Effect, Engine, Input, TellError, TellOutcome};
use crate::study::decision::Decision;
use crate::study::event::AttemptEnd;
use crate::study::metric::{Metrics, Number};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber, TrialState};

pub use line::{LONGEST_LINE, serve};
use request::Request;

/// The metric's name where only its values are said.
const METRIC: &str = "value";

/// What cannot be answered, and why: one sentence that says what to send instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// A conversation with a program that runs trials.
#[derive(Default)]
pub struct Session {
    study: Option<Study>,
    has_quit: bool,
}

/// The study, once `init` has said what is searched.
struct Study {
    engine: Engine,
    /// Lines so far: the session's clock, since it has no other.
    now: Timestamp,
    /// Why there is nothing left to ask for.
    over: Option<String>,
}

impl Session {
    /// A conversation that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether `quit` was said.
    pub fn has_quit(&self) -> bool {
        self.has_quit
    }

    /// The answer to a line, both without their line ends: exactly one object. What cannot be
    /// answered changes nothing.
    pub fn answer(&mut self, line: &str) -> String {
        match self.try_answer(line) {
            Ok(json) => json.to_string(),
            Err(refusal) => refused(&refusal),
        }
    }

    fn try_answer(&mut self, line: &str) -> Result<Json, Refusal> {
        match Request::read(line)? {
            Request::Init(init) => {
                if self.study.is_some() {
                    refuse!(
                        "`init` was said already: another study needs another `hpsearch ask-tell`"
                    );
                }
                let spec = start::study(*init)?;
                let engine = Engine::on_demand(spec.clone(), StudyState::new(&spec))
                    .map_err(|error| Refusal(error.to_string()))?;
                self.study = Some(Study::begin(engine));
                Ok(done())
            }
            Request::Quit => {
                self.has_quit = true;
                Ok(done())
            }
            Request::Ask => self.study()?.ask(),
            Request::Report { trial, step, value } => self.study()?.report(trial, step, value),
            Request::Tell { trial, told, metrics } => self.study()?.tell(trial, told, metrics),
            Request::Best => self.study()?.best(),
        }
    }

    fn study(&mut self) -> Result<&mut Study, Refusal> {
        let study = self.study.as_mut().ok_or_else(|| {
            Refusal("there is no study yet: say {\"cmd\":\"init\",\"space\":[..]} first".to_owned())
        })?;
        study.now.0 += 1;
        Ok(study)
    }
}

/// The answer where there is nothing to say.
fn done() -> Json {
    json!({ "ok": true })
}

/// The answer to what cannot be answered.
fn refused(refusal: &Refusal) -> String {
    json!({ "error": refusal.0 }).to_string()
}

impl Study {
    fn begin(mut engine: Engine) -> Self {
        let begin = Input::Begin { pid: 0, host: String::new(), requests: Vec::new() };
        engine.step(Timestamp(0), begin);
        Study { engine, now: Timestamp(0), over: None }
    }

    fn ask(&mut self) -> Result<Json, Refusal> {
        let effects = self.engine.ask(self.now).map_err(Refusal)?;
        for effect in effects {
            match effect {
                Effect::Launch(assignment) if assignment.attempt.0 == 0 => {
                    let mut answer = json!({ "id": assignment.trial, "params": assignment.params });
                    if let Some(until) = assignment.until {
                        answer["until"] = until.into();
                    }
                    return Ok(answer);
                }
                Effect::Launch(assignment) => {
                    return Ok(json!({ "resume": assignment.trial, "until": assignment.until }));
                }
                Effect::Finish(outcome) => self.over = Some(outcome.reason().to_owned()),
                _ => {}
            }
        }
        let out = self.engine.view().counts.running;
        let reason = self.over.clone().unwrap_or_else(|| match out {
            1 => "one trial is out: tell how it ended, then ask again".to_owned(),
            _ => format!("{out} trials are out: tell how they ended, then ask again"),
        });
        Ok(json!({ "done": true, "reason": reason }))
    }

    fn report(&mut self, number: TrialNumber, step: u64, value: f64) -> Result<Json, Refusal> {
        let trial = self.trial(number)?;
        let attempt = match (trial.state, trial.last_attempt()) {
            (TrialState::Running, Some(attempt)) => attempt,
            (TrialState::Paused, _) => refuse!(
                "trial {number} is paused: it continues when `ask` answers {{\"resume\":{number}}}"
            ),
            (state, _) => refuse!("trial {number} is {}: it reports no more", state.as_str()),
        };
        let metrics: Metrics = [(METRIC.to_owned(), value)].into_iter().collect();
        let effects =
            self.engine.step(self.now, Input::Report { trial: number, attempt, step, metrics });
        let is_answer = |effect: &Effect| matches!(effect, Effect::Answer { .. });
        let Some(Effect::Answer { verdict, .. }) = effects.into_iter().find(is_answer) else {
            refuse!("trial {number} is not out");
        };
        if let Decision::Pause(_) = &verdict {
            // The program pauses the trial by this answer, and does not confirm it.
            let end = AttemptEnd::Paused;
            self.engine.step(self.now, Input::Ended { trial: number, attempt, end, message: None });
        }
        let mut answer = json!({ "verdict": verdict.word() });
        if let Some(reason) = verdict.reason() {
            answer["reason"] = reason.to_string().into();
        }
        Ok(answer)
    }

    fn tell(
        &mut self,
        number: TrialNumber,
        told: TellOutcome,
        metrics: Metrics,
    ) -> Result<Json, Refusal> {
        if let Some((trial, attempt)) =
            self.engine.view().trial(number).and_then(|trial| Some((trial, trial.last_attempt()?)))
            && trial.state == TrialState::Running
            && metrics.iter().next().is_some()
        {
            let step = trial.last().map_or(0, |(step, _)| step);
            self.engine.step(self.now, Input::Report { trial: number, attempt, step, metrics });
        }
        let effects =
            self.engine.tell(self.now, number, told).map_err(|error| Refusal(error.to_string()))?;
        for effect in effects {
            if let Effect::Finish(outcome) = effect {
                self.over = Some(outcome.reason().to_owned());
            }
        }
        Ok(done())
    }

    fn best(&self) -> Result<Json, Refusal> {
        let none = || {
            let complete = self.engine.view().counts.complete;
            Refusal(match self.engine.view().trials.iter().any(|trial| trial.violation.is_some()) {
                true => format!("none of {complete} complete trials keeps all limits"),
                false => "no trial is complete yet: tell a value that is a number first".to_owned(),
            })
        };
        let best = self.engine.view().best().ok_or_else(none)?;
        let value = best.value.map_or(Json::Null, |value| Number(value).to_json());
        Ok(json!({ "id": best.number, "params": best.params, "value": value }))
    }

    fn trial(&self, number: TrialNumber) -> Result<&Trial, Refusal> {
        let unknown = || Refusal(TellError::Unknown { number }.to_string());
        self.engine.view().trial(number).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests;
