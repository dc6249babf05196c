//! `hpsearch ask-tell`: a study whose trials another program runs, one JSON object a line in each
//! direction.
//!
//! [`Session::answer`] is the whole protocol as a function of the lines so far; [`serve`] puts it
//! between two streams. Samplers, pruners and the rules of a study are those of every other run:
//! the session drives a [`HeldStudy`], in memory or in a store.

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

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::app::held_study::{self, HeldError, HeldStudy, LOOK};
use crate::app::reconcile::Consent;
use crate::engine::{Input, TellError, TellOutcome};
use crate::runner::threads;
use crate::storage::Storage;
use crate::storage::memory::MemoryStore;
use crate::storage::sqlite::SqliteStore;
use crate::study::decision::Decision;
use crate::study::event::AttemptEnd;
use crate::study::metric::{Metrics, Number};
use crate::study::params::Value;
use crate::study::space::Space;
use crate::study::spec::StudySpec;
use crate::study::trial::{Trial, TrialNumber, TrialState};

pub use line::{LONGEST_LINE, converse, serve};
use request::Request;

/// The metric's name where only its values are said.
const METRIC: &str = "value";

/// What cannot be answered, and why: one sentence that says what to send instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl From<HeldError> for Refusal {
    fn from(error: HeldError) -> Self {
        Refusal(error.to_string())
    }
}

/// A conversation with a program that runs trials.
#[derive(Default)]
pub struct Session {
    /// The store and the study's name; in memory without.
    place: Option<(PathBuf, String)>,
    study: Option<Study>,
    has_quit: bool,
}

/// The study, once `init` has said what is searched.
struct Study {
    held: HeldStudy,
    /// Whether `suggest` adds parameters.
    grows: bool,
    /// The parameters that trials which are out have asked for.
    asked: BTreeMap<TrialNumber, BTreeSet<String>>,
    is_stored: bool,
}

impl Session {
    /// A conversation that has not begun, about a study in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same about a study of this name in the store at `path`.
    pub fn stored(path: PathBuf, name: String) -> Self {
        Session { place: Some((path, name)), ..Session::default() }
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
                let (study, answer) = Study::begin(self.place.as_ref(), *init)?;
                self.study = Some(study);
                Ok(answer)
            }
            Request::Quit => {
                self.has_quit = true;
                Ok(done())
            }
            Request::Ask => self.study()?.ask(),
            Request::Report { trial, step, value } => self.study()?.report(trial, step, value),
            Request::Tell { trial, told, metrics } => self.study()?.tell(trial, told, metrics),
            Request::Suggest(suggest) => self.study()?.suggest(*suggest),
            Request::Best => self.study()?.best(),
            Request::Trials => self.study()?.trials(),
        }
    }

    fn study(&mut self) -> Result<&mut Study, Refusal> {
        self.study.as_mut().ok_or_else(|| {
            Refusal("there is no study yet: say {\"cmd\":\"init\",\"space\":[..]} first".to_owned())
        })
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
    /// The study, made or continued; what `init` is answered.
    fn begin(
        place: Option<&(PathBuf, String)>,
        init: request::Checked,
    ) -> Result<(Self, Json), Refusal> {
        let grows = init.is_set("define");
        let name = place.map_or("ask-tell", |(_, name)| name);
        let consent = if init.is_set("accept") { Consent::Given } else { Consent::Missing };
        let mut spec = start::study(init, name)?;
        let mut store: Box<dyn Storage> = match place {
            Some((path, _)) => Box::new(SqliteStore::open(path).map_err(HeldError::Storage)?),
            None => Box::new(MemoryStore::new()),
        };
        let known = store.study(name).map_err(HeldError::Storage)?;
        if let Some(known) = known.filter(|_| grows) {
            take_grown(&mut spec, &known.spec.space);
        }
        let study = held_study::settle(store.as_mut(), &mut spec, consent)?;
        let held = HeldStudy::new(store, study)?;
        let mut answer = done();
        if place.is_some() {
            let open = |trial: &&Trial| !trial.state.is_finished() && trial.attempts > 0;
            let open: Vec<Json> = held.view().trials.iter().filter(open).map(described).collect();
            answer["trials"] = held.view().trials.len().into();
            answer["open"] = open.into();
        }
        let asked = BTreeMap::new();
        Ok((Study { held, grows, asked, is_stored: place.is_some() }, answer))
    }

    fn ask(&mut self) -> Result<Json, Refusal> {
        let asked = loop {
            match self.held.ask()? {
                None if self.held.is_paused() => threads::sleep(LOOK),
                asked => break asked,
            }
        };
        if let Some(assignment) = asked {
            let number = assignment.trial;
            if assignment.attempt.0 > 0 {
                let mut answer = json!({ "resume": number, "until": assignment.until });
                if self.is_stored {
                    // Whoever asks now need not be who was given it first.
                    answer["params"] = json!(assignment.params);
                    answer["reported"] = assignment.reported.into();
                }
                return Ok(answer);
            }
            let mut answer = json!({ "id": number, "params": assignment.params });
            if let Some(until) = assignment.until {
                answer["until"] = until.into();
            }
            return Ok(answer);
        }
        let out = self.held.view().counts.running;
        let over = self.held.outcome().map(|outcome| outcome.reason().to_owned());
        let reason = over.unwrap_or_else(|| match out {
            1 => "one trial is out: tell how it ended, then ask again".to_owned(),
            _ => format!("{out} trials are out: tell how they ended, then ask again"),
        });
        Ok(json!({ "done": true, "reason": reason }))
    }

    fn report(&mut self, number: TrialNumber, step: u64, value: f64) -> Result<Json, Refusal> {
        self.held.look()?;
        let trial = self.trial(number)?;
        let attempt = match (trial.state, trial.last_attempt()) {
            (TrialState::Running, Some(attempt)) => attempt,
            (TrialState::Paused | TrialState::Queued, _) => refuse!(
                "trial {number} is {}: it continues when `ask` answers {{\"resume\":{number}}}",
                trial.state.as_str()
            ),
            (state, _) => refuse!("trial {number} is {}: it reports no more", state.as_str()),
        };
        let metrics: Metrics = [(METRIC.to_owned(), value)].into_iter().collect();
        let (_, verdict) =
            self.held.step(Input::Report { trial: number, attempt, step, metrics })?;
        let Some(verdict) = verdict else {
            refuse!("trial {number} is not out");
        };
        if let Decision::Pause(_) = &verdict {
            // The program pauses the trial by this answer, and does not confirm it.
            let end = AttemptEnd::Paused;
            self.held.step(Input::Ended { trial: number, attempt, end, message: None })?;
        }
        if self.held.is_leaving(number, attempt) && matches!(verdict, Decision::Continue(_)) {
            let reason = "asked to leave from elsewhere";
            return Ok(json!({ "verdict": "stop", "reason": reason }));
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
            self.held.view().trial(number).and_then(|trial| Some((trial, trial.last_attempt()?)))
            && trial.state == TrialState::Running
            && metrics.iter().next().is_some()
        {
            let step = trial.last().map_or(0, |(step, _)| step);
            self.held.step(Input::Report { trial: number, attempt, step, metrics })?;
        }
        if self.grows {
            // What it did not ask for says nothing about its value.
            let asked = self.asked.remove(&number).unwrap_or_default();
            self.held.keep_params(number, &asked)?;
        }
        self.held.tell(number, told)?;
        Ok(done())
    }

    fn suggest(&mut self, mut suggest: request::Checked) -> Result<Json, Refusal> {
        if !self.grows {
            refuse!("`suggest` adds parameters: say \"define\":true in `init`");
        }
        let (number, param, given): (TrialNumber, Json, Option<Vec<Json>>) =
            (suggest.take("id"), suggest.take("param"), suggest.take("value"));
        let (name, asked) = start::suggested(&suggest, param)?;
        let given = match given.as_deref() {
            None => None,
            Some([value]) => match Value::from_json(value) {
                Some(value) => Some(value),
                None => refuse!("`value` is no value of a parameter"),
            },
            Some(_) => refuse!("`value` must be a list of one"),
        };
        let value = self.held.define(number, &name, &asked, given.as_ref())?;
        self.asked.entry(number).or_default().insert(name);
        Ok(json!({ "value": value.to_json() }))
    }

    fn trials(&self) -> Result<Json, Refusal> {
        let trials: Vec<Json> = self.held.view().trials.iter().map(described).collect();
        Ok(json!({ "trials": trials }))
    }

    fn best(&self) -> Result<Json, Refusal> {
        let none = || {
            let complete = self.held.view().counts.complete;
            Refusal(match self.held.view().trials.iter().any(|trial| trial.violation.is_some()) {
                true => format!("none of {complete} complete trials keeps all limits"),
                false => "no trial is complete yet: tell a value that is a number first".to_owned(),
            })
        };
        let best = self.held.view().best().ok_or_else(none)?;
        let value = best.value.map_or(Json::Null, |value| Number(value).to_json());
        Ok(json!({ "id": best.number, "params": best.params, "value": value }))
    }

    fn trial(&self, number: TrialNumber) -> Result<&Trial, Refusal> {
        let unknown = || Refusal(TellError::Unknown { number }.to_string());
        self.held.view().trial(number).ok_or_else(unknown)
    }
}

/// A space of `init` as it has grown: parameters that were added to the stored one stay.
fn take_grown(spec: &mut StudySpec, stored: &Space) {
    let is_known = |name: &str| stored.dimension(name).is_some();
    if spec.space.dimensions().iter().all(|dimension| is_known(&dimension.name)) {
        spec.space = stored.clone();
    }
}

/// A trial with what it has come to.
fn described(trial: &Trial) -> Json {
    let number = |value: f64| Number(value).to_json();
    let reports: Vec<Json> =
        trial.curve.iter().map(|(step, value)| json!([step, number(*value)])).collect();
    json!({
        "id": trial.number,
        "state": trial.state.as_str(),
        "params": trial.params,
        "value": trial.value.map(number),
        "reports": reports,
    })
}

#[cfg(test)]
mod tests;
