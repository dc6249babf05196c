//! `hpsearch ask-tell`: a study whose trials another program runs, with one JSON object per line in
//! each direction.
//!
//! [`Session::answer`] is the whole protocol as a function of the lines so far; [`serve`] puts it
//! between two streams. Samplers, pruners and the rules of a study are those of every other run:
//! the session drives a [`HeldStudy`]. A stored study is shared by all programs that ask for it at
//! the same time: one holds it and serves the others ([`converse_stored`]).

/// Returns with a [`Refusal`].
macro_rules! refuse {
    ($($text:tt)*) => {
        return Err(Refusal::new(format!($($text)*)))
    };
}

mod client;
mod identity;
mod line;
mod request;
mod shared;
mod start;

use serde_json::{Value as Json, json};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::app::held_study::{self, Growth, HeldError, HeldStudy, LOOK};
use crate::app::study_clients::LiveClient;
use crate::engine::{Input, TellError, TellOutcome};
use crate::runner::threads;
use crate::storage::any::AnyStore;
use crate::storage::memory::MemoryStore;
use crate::storage::{Storage, StorageError, StoredStudy, StudyId};
use crate::study::counted::count;
use crate::study::decision::Decision;
use crate::study::event::AttemptEnd;
use crate::study::metric::{Metrics, Number};
use crate::study::params::{Params, Value};
use crate::study::request::RequestAnswer;
use crate::study::space::Space;
use crate::study::spec::StudySpec;
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

use client::{Client, Speaker, Topic};
use identity::Identity;
pub use line::{LONGEST_LINE, converse, serve};
use request::Request;
pub use shared::converse_stored;
use start::LeftOut;

/// The metric's name, which messages do not contain.
const METRIC: &str = "value";

/// Why a line cannot be answered, and what to send instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    /// In words.
    pub why: String,
    /// The process that holds the study, on this machine.
    pub holder: Option<u32>,
}

impl Refusal {
    fn new(why: impl Into<String>) -> Self {
        Refusal { why: why.into(), holder: None }
    }
}

impl From<HeldError> for Refusal {
    fn from(error: HeldError) -> Self {
        Refusal { why: error.to_string(), holder: error.holder() }
    }
}

/// A conversation with a program that runs trials, about a study in memory.
#[derive(Default)]
pub struct Session {
    study: Option<Study>,
    client: Client,
    has_quit: bool,
}

/// The study, once `init` was received.
struct Study {
    held: HeldStudy,
    growth: Growth,
    /// The client of each outstanding trial.
    owners: BTreeMap<TrialNumber, String>,
    /// What each outstanding trial that was told to stop has asked for.
    stopped: BTreeMap<TrialNumber, BTreeSet<String>>,
    /// The parameters that `init` declares: trials have them without asking for them.
    declared: BTreeSet<String>,
    /// That of a stored study.
    identity: Option<Identity>,
}

/// A study in its store, which may be held by another process.
struct Settled {
    store: Box<dyn Storage>,
    study: StoredStudy,
    growth: Growth,
    declared: BTreeSet<String>,
    identity: Option<Identity>,
}

impl Session {
    /// A new session.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether `quit` was received.
    pub fn has_quit(&self) -> bool {
        self.has_quit
    }

    /// The answer to a line, both without their line ends: exactly one object. A rejected line
    /// changes nothing.
    pub fn answer(&mut self, line: &str) -> String {
        self.try_answer(line).unwrap_or_else(|refusal| refused(&refusal)).to_string()
    }

    fn try_answer(&mut self, line: &str) -> Result<Json, Refusal> {
        let mut request = Request::read(line)?;
        match request {
            Request::Init(init) => {
                if self.study.is_some() {
                    return Err(begun_already());
                }
                self.study = Some(Settled::new(None, *init, Begun::Now)?.hold()?);
                return Ok(done());
            }
            Request::Quit => {
                self.has_quit = true;
                return Ok(done());
            }
            _ => {}
        }
        let topic = Topic::of(&request);
        let speaker = self.client.says("", &topic, false);
        let study = self.study.as_mut().ok_or_else(not_begun)?;
        loop {
            let again = request.again();
            if let Some(answer) = study.answer(request, &speaker)? {
                self.client.hear(&topic, &answer);
                return Ok(answer);
            }
            threads::sleep(LOOK);
            request = again.expect("only an ask is answered later");
        }
    }
}

fn begun_already() -> Refusal {
    Refusal::new("`init` was sent already: another study needs another `hpsearch ask-tell`")
}

fn not_begun() -> Refusal {
    Refusal::new("there is no study yet: send {\"cmd\":\"init\",\"space\":[..]} first")
}

/// The answer without content.
fn done() -> Json {
    json!({ "ok": true })
}

/// The answer to a rejected line.
fn refused(refusal: &Refusal) -> Json {
    match refusal.holder {
        None => json!({ "error": refusal.why }),
        Some(pid) => json!({ "error": refusal.why, "holder_pid": pid }),
    }
}

/// Whether the program has begun with its study before.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Begun {
    /// With this [`Identity`].
    Before(String),
    Now,
}

impl Begun {
    fn open(&self, path: &Path) -> Result<AnyStore, StorageError> {
        match self {
            Begun::Before(_) => AnyStore::open_existing(path),
            Begun::Now => AnyStore::open(path),
        }
    }
}

/// The error about a study that the store had when the session began.
fn removed(name: &str) -> StorageError {
    StorageError::NoStudy { study: StudyId(0), name: Some(name.to_owned()) }
}

impl Settled {
    /// The study that `init` describes, created or continued; `Begun::Before` creates neither a
    /// store nor a study, and continues no other one of that name.
    fn new(
        place: Option<&(PathBuf, String)>,
        init: request::Checked,
        begun: Begun,
    ) -> Result<Self, HeldOr> {
        let (name, consent) = (place.map_or("ask-tell", |(_, name)| name), init.consent());
        let left_out = LeftOut::of(&init);
        let (mut spec, growth) = start::study(init, name)?;
        let mut store: Box<dyn Storage> = match place {
            Some((path, _)) => Box::new(begun.open(path).map_err(HeldError::Storage)?),
            None => Box::new(MemoryStore::new()),
        };
        let known = store.study(name).map_err(HeldError::Storage)?;
        if let Begun::Before(expected) = &begun {
            let known = known.as_ref().ok_or_else(|| HeldError::Storage(removed(name)))?;
            let found = Identity::of(store.as_ref(), known.id).map_err(HeldError::Storage)?;
            found.expect(expected, name)?;
        }
        let mut declared = names_in(&spec.space);
        if let Some(known) = known {
            // The `init` that began it may have declared more.
            let revisions = store.revisions(known.id).map_err(HeldError::Storage)?;
            declared.extend(revisions.first().into_iter().flat_map(|(_, of)| names_in(&of.space)));
            take_grown(&mut spec, growth, &known.spec.space);
            left_out.take_stored(&mut spec, &known.spec);
        }
        let study = held_study::settle(store.as_mut(), &mut spec, consent)?;
        let identity = match place {
            Some(_) => Some(Identity::of(store.as_ref(), study.id).map_err(HeldError::Storage)?),
            None => None,
        };
        Ok(Settled { store, study, growth, declared, identity })
    }

    /// Acquires the study.
    fn hold(self) -> Result<Study, HeldError> {
        let Settled { store, study, growth, declared, identity } = self;
        let mut held = HeldStudy::new(store, study, growth)?;
        if identity.is_none() {
            held.make_temporary();
        }
        let (owners, stopped) = (BTreeMap::new(), BTreeMap::new());
        Ok(Study { held, growth, owners, stopped, declared, identity })
    }
}

impl Study {
    /// The answer to a line; `None` to an `ask` while the study is paused: it is asked again later.
    fn answer(&mut self, request: Request, speaker: &Speaker) -> Result<Option<Json>, Refusal> {
        match request {
            Request::Ask { candidates, running } => {
                return self.ask(speaker, candidates, &running);
            }
            Request::Report { trial, step, values } => self.report(speaker, trial, step, &values),
            Request::Tell { trial, told, metrics } => self.tell(speaker, trial, told, metrics),
            Request::Requeue { trial } => self.requeue(speaker, trial),
            Request::Suggest(suggest) => self.suggest(speaker, *suggest),
            Request::Enqueue { params } => self.enqueue(params),
            Request::Best => self.best(),
            Request::Trials => self.trials(),
            Request::Init(_) => Err(begun_already()),
            Request::Quit => Ok(done()),
        }
        .map(Some)
    }

    /// The answer to `init` for a stored study.
    fn begun(&self) -> Json {
        let trials = &self.held.study_state().trials;
        let is_open = |trial: &&Trial| {
            !trial.state.is_finished()
                && trial.attempts > 0
                && !self.owners.contains_key(&trial.number)
        };
        let open: Vec<Json> = trials.iter().filter(is_open).map(described).collect();
        let study_id = self.identity.as_ref().map(Identity::to_string);
        json!({ "ok": true, "study_id": study_id, "trials": trials.len(), "open": open })
    }

    /// Admits another client, if it describes the same study; returns the answer to its `init`.
    fn admit(&self, init: request::Checked) -> Result<Json, Refusal> {
        let known = self.held.spec();
        let left_out = LeftOut::of(&init);
        let (mut spec, growth) = start::study(init, &known.name)?;
        if growth != self.growth {
            let difference = "its `init` has another `define`".to_owned();
            return Err(self.held.runs_otherwise(difference).into());
        }
        take_grown(&mut spec, growth, &known.space);
        left_out.take_stored(&mut spec, known);
        self.held.admit(spec)?;
        Ok(self.begun())
    }

    /// Keeps the trials of live clients of the previous holder with them.
    fn take_over(&mut self, clients: Vec<LiveClient>) -> Result<(), Refusal> {
        for LiveClient { name, trials } in clients {
            for number in trials {
                let waits = self
                    .held
                    .study_state()
                    .trial(number)
                    .is_some_and(|trial| trial.state == TrialState::Queued);
                if waits {
                    self.held.start_again(number)?;
                    self.owners.insert(number, name.clone());
                }
            }
        }
        Ok(())
    }

    /// Requeues the trials of a client that is gone.
    fn client_gone(&mut self, client: &str) -> Result<(), Refusal> {
        let owned = self.owners.extract_if(.., |_, owner| owner == client);
        let owned: Vec<TrialNumber> = owned.map(|(number, _)| number).collect();
        for number in owned {
            self.take_back(number, "the program that ran it is gone")?;
        }
        Ok(())
    }

    /// Requeues all outstanding trials, as at the end of a run.
    fn leave(&mut self) -> Result<(), Refusal> {
        self.owners.clear();
        let running = self.held.study_state().trials.iter();
        let running = running.filter(|trial| trial.state == TrialState::Running);
        let running: Vec<TrialNumber> = running.map(|trial| trial.number).collect();
        for number in running {
            self.take_back(number, "its run ended")?;
        }
        Ok(())
    }

    /// Ends the attempt of a trial that its program has left: the trial ends with the parameters
    /// that it used if it was told to stop, and waits otherwise.
    fn take_back(&mut self, number: TrialNumber, why: &str) -> Result<(), Refusal> {
        if let Some(asked) = self.stopped.remove(&number)
            && self.held.is_stopped(number)
        {
            self.drop_unused(number, &asked)?;
        }
        Ok(self.held.take_back(number, why)?)
    }

    /// Removes the parameters that an outstanding trial did not use: they did not affect its value.
    fn drop_unused(
        &mut self,
        number: TrialNumber,
        asked: &BTreeSet<String>,
    ) -> Result<(), Refusal> {
        // A program that asks for nothing in a trial of an enqueued configuration reads it from the
        // answer to its `ask`.
        let reads_answer =
            asked.is_empty()
                && self.held.study_state().trial(number).is_some_and(|trial| {
                    matches!(trial.origin, Origin::Asked | Origin::Enqueued(_))
                });
        if self.growth == Growth::Never || reads_answer {
            return Ok(());
        }
        let kept: BTreeSet<String> = asked.union(&self.declared).cloned().collect();
        Ok(self.held.keep_params(number, &kept)?)
    }

    /// Candidates with their values as the space has them.
    fn checked(&self, candidates: Vec<Params>) -> Result<Vec<Params>, Refusal> {
        let space = &self.held.spec().space;
        let normal = |(name, value): (&str, &Value)| {
            let known =
                space.dimension(name).and_then(|dimension| dimension.distribution.normalize(value));
            (name.to_owned(), known.unwrap_or_else(|| value.clone()))
        };
        let check = |(index, given): (usize, Params)| {
            let params: Params = given.iter().map(normal).collect();
            match space.check(&params) {
                Ok(()) => Ok(params),
                Err(error) => refuse!("`candidates[{index}]`: {error}"),
            }
        };
        candidates.into_iter().enumerate().map(check).collect()
    }

    fn ask(
        &mut self,
        speaker: &Speaker,
        candidates: Vec<Params>,
        running: &BTreeSet<TrialNumber>,
    ) -> Result<Option<Json>, Refusal> {
        let candidates = self.checked(candidates)?;
        let owned = self.owners.iter().filter(|(_, owner)| **owner == speaker.client);
        let owned: Vec<TrialNumber> = owned.map(|(number, _)| *number).collect();
        for number in owned {
            // A client that asks for another trial has left those that it was told to stop, unless
            // another thread of it runs them.
            if !running.contains(&number) && self.held.is_stopped(number) {
                self.take_back(number, "stopped")?;
                self.owners.remove(&number);
            }
        }
        let Some(assignment) = self.held.ask(&candidates)? else {
            return Ok(if self.held.is_paused() { None } else { Some(self.nothing_to_run()) });
        };
        let number = assignment.trial;
        self.owners.insert(number, speaker.client.clone());
        if assignment.attempt.0 > 0 {
            let mut answer = json!({ "resume": number, "until": assignment.until });
            if self.identity.is_some() {
                // This client need not be the one that was given the trial first.
                answer["params"] = json!(assignment.params);
                answer["reported"] = assignment.reported.into();
            }
            return Ok(Some(answer));
        }
        let mut answer = json!({ "id": number, "params": assignment.params });
        if let Some(until) = assignment.until {
            answer["until"] = until.into();
        }
        // A configuration that was enqueued need not be one of them.
        if let Some(index) = candidates.iter().position(|params| *params == assignment.params) {
            answer["candidate"] = index.into();
        }
        Ok(Some(answer))
    }

    fn nothing_to_run(&self) -> Json {
        let out = self.held.study_state().counts.running;
        let over = self.held.outcome().map(|outcome| outcome.reason().to_owned());
        let reason = over.unwrap_or_else(|| match out {
            1 => "one trial is open: tell how it ended, then ask again".to_owned(),
            _ => format!("{out} trials are open: tell how they ended, then ask again"),
        });
        json!({ "done": true, "reason": reason })
    }

    /// Checks that a trial is not outstanding with another client.
    fn own(&self, speaker: &Speaker, number: TrialNumber) -> Result<&Trial, Refusal> {
        let trial = self
            .held
            .study_state()
            .trial(number)
            .ok_or_else(|| Refusal::new(TellError::Unknown { number }.to_string()))?;
        match self.owners.get(&number) {
            Some(owner) if *owner != speaker.client => {
                refuse!("trial {number} is now open in another program: it was given again")
            }
            _ => Ok(trial),
        }
    }

    fn report(
        &mut self,
        speaker: &Speaker,
        number: TrialNumber,
        step: u64,
        values: &[f64],
    ) -> Result<Json, Refusal> {
        self.held.look()?;
        let metrics = self.named(values)?;
        let trial = self.own(speaker, number)?;
        if speaker.again && trial.has_reported(step) {
            let decision = trial.decision_at(step).map(|decision| decision.verdict.clone());
            return Ok(verdict(&decision.unwrap_or(Decision::CONTINUE)));
        }
        let attempt = match (trial.state, trial.last_attempt()) {
            (TrialState::Running, Some(attempt)) => attempt,
            // It was outstanding when the holder changed, and the run ends.
            (TrialState::Queued, _) if self.owners.contains_key(&number) => {
                return Ok(asked_to_leave());
            }
            (TrialState::Paused | TrialState::Queued, _) => refuse!(
                "trial {number} is {}: it continues when `ask` answers {{\"resume\":{number}}}",
                trial.state.as_str()
            ),
            (state, _) => refuse!("trial {number} is {}: it can no longer report", state.as_str()),
        };
        let (_, decision) =
            self.held.step(Input::Report { trial: number, attempt, step, metrics })?;
        let Some(decision) = decision else {
            refuse!("trial {number} is not open");
        };
        if let Decision::Stop(_) = &decision {
            self.stopped.insert(number, speaker.asked.clone());
        }
        if let Decision::Pause(_) = &decision {
            // This answer pauses the trial, without a confirmation by the program.
            let end = AttemptEnd::Paused;
            self.held.step(Input::Ended { trial: number, attempt, end, message: None })?;
            self.owners.remove(&number);
        }
        if self.held.is_leaving(number, attempt) && matches!(decision, Decision::Continue(_)) {
            return Ok(asked_to_leave());
        }
        Ok(verdict(&decision))
    }

    /// Values under the names of the objectives.
    fn named(&self, values: &[f64]) -> Result<Metrics, Refusal> {
        let objectives = &self.held.spec().objectives;
        if values.len() != objectives.len() {
            refuse!(
                "{} for a study of {}: send {}",
                count(values.len() as u64, "value"),
                count(objectives.len() as u64, "objective"),
                match objectives.len() {
                    1 => "`value`".to_owned(),
                    count => format!("`values`, a list of {count} numbers"),
                }
            );
        }
        let names = objectives.iter().map(|objective| objective.metric.clone());
        Ok(names.zip(values.iter().copied()).collect())
    }

    fn tell(
        &mut self,
        speaker: &Speaker,
        number: TrialNumber,
        told: TellOutcome,
        metrics: Metrics,
    ) -> Result<Json, Refusal> {
        match &told {
            TellOutcome::Value(value) => drop(self.named(&[*value])?),
            TellOutcome::Values(values) => drop(self.named(values)?),
            TellOutcome::Pruned | TellOutcome::Failed(_) => {}
        }
        // A request to kill it counts from when it was made.
        self.held.look_for_requests()?;
        let spec = self.held.spec();
        if let Some((name, _)) = metrics.iter().find(|(name, _)| spec.is_objective(name)) {
            refuse!("`metrics` contains `{name}`: send it beside them");
        }
        let trial = self.own(speaker, number)?;
        // A new holder prunes a trial that the previous one stopped, whatever result is told.
        let is_pruned = trial.state == TrialState::Pruned
            && (told == TellOutcome::Pruned || speaker.was_stopped);
        if is_pruned && told != TellOutcome::Pruned {
            return Ok(json!({ "ok": true, "state": TrialState::Pruned.as_str() }));
        }
        if is_pruned || speaker.again && is_told(trial, &told) {
            return Ok(done());
        }
        if let Some(attempt) = trial.last_attempt()
            && trial.state == TrialState::Running
            && metrics.iter().next().is_some()
        {
            let step = trial.last_step().unwrap_or(0);
            self.held.step(Input::Report { trial: number, attempt, step, metrics })?;
        }
        self.drop_unused(number, &speaker.asked)?;
        self.stopped.remove(&number);
        let is_told_failed = matches!(told, TellOutcome::Failed(_));
        self.held.tell(number, told)?;
        self.owners.remove(&number);
        let state = self.held.study_state().trial(number).map(|trial| trial.state);
        if state == Some(TrialState::Failed) && !is_told_failed {
            // It was killed, whatever its program tells.
            return Ok(json!({ "ok": true, "state": TrialState::Failed.as_str() }));
        }
        Ok(done())
    }

    fn requeue(&mut self, speaker: &Speaker, number: TrialNumber) -> Result<Json, Refusal> {
        self.own(speaker, number)?;
        self.take_back(number, "its program has left it")?;
        self.owners.remove(&number);
        Ok(done())
    }

    fn suggest(
        &mut self,
        speaker: &Speaker,
        mut suggest: request::Checked,
    ) -> Result<Json, Refusal> {
        if self.growth == Growth::Never {
            refuse!("`suggest` adds parameters: send \"define\":true in `init`");
        }
        let (number, param, given): (TrialNumber, Json, Option<Vec<Json>>) =
            (suggest.take("id"), suggest.take("param"), suggest.take("value"));
        let (name, asked) = start::suggested(&suggest, param)?;
        let given = match given.as_deref() {
            None => None,
            Some([value]) => match Value::from_json(value) {
                Some(value) => Some(value),
                None => refuse!("`value` is not a value of a parameter"),
            },
            Some(_) => refuse!("`value` must be a list of one"),
        };
        self.own(speaker, number)?;
        let value = self.held.define(number, &name, &asked, given.as_ref())?;
        if let Some(asked) = self.stopped.get_mut(&number) {
            asked.insert(name);
        }
        Ok(json!({ "value": value.to_json() }))
    }

    fn enqueue(&mut self, params: Params) -> Result<Json, Refusal> {
        enqueued(&self.held.enqueue(params)?)
    }

    fn trials(&self) -> Result<Json, Refusal> {
        let trials: Vec<Json> = self.held.study_state().trials.iter().map(described).collect();
        Ok(json!({ "trials": trials }))
    }

    fn best(&self) -> Result<Json, Refusal> {
        let none = || {
            let complete = self.held.study_state().counts.complete;
            Refusal::new(
                match self.held.study_state().trials.iter().any(|trial| trial.violation.is_some()) {
                    true => format!("none of {complete} complete trials satisfies all limits"),
                    false => {
                        "no trial is complete yet: tell a value that is a number first".to_owned()
                    }
                },
            )
        };
        let state = self.held.study_state();
        let best = state.best().ok_or_else(none)?;
        if state.has_several_objectives() {
            let front = state.front();
            let member = |number: &TrialNumber| {
                let trial = state.trial(*number)?;
                let values: Vec<Json> =
                    trial.values.iter().map(|value| Number(*value).to_json()).collect();
                Some(json!({ "id": trial.number, "params": trial.params, "values": values }))
            };
            let members: Vec<Json> = front.trials.iter().filter_map(member).collect();
            return Ok(json!({
                "front": members,
                "knee": front.knee,
                "hypervolume": front.hypervolume,
                "reference": front.reference,
            }));
        }
        let value = best.value.map_or(Json::Null, |value| Number(value).to_json());
        Ok(json!({ "id": best.number, "params": best.params, "value": value }))
    }
}

/// Why a study cannot be started.
enum HeldOr {
    Held(HeldError),
    Refused(Refusal),
}

impl From<HeldError> for HeldOr {
    fn from(error: HeldError) -> Self {
        HeldOr::Held(error)
    }
}

impl From<Refusal> for HeldOr {
    fn from(refusal: Refusal) -> Self {
        HeldOr::Refused(refusal)
    }
}

impl From<HeldOr> for Refusal {
    fn from(error: HeldOr) -> Self {
        match error {
            HeldOr::Held(error) => error.into(),
            HeldOr::Refused(refusal) => refusal,
        }
    }
}

/// Whether a trial has already ended with this result.
fn is_told(trial: &Trial, told: &TellOutcome) -> bool {
    match (trial.state, told) {
        (TrialState::Complete, TellOutcome::Value(value)) => {
            trial.value.is_some_and(|known| known.total_cmp(value).is_eq())
        }
        (TrialState::Complete, TellOutcome::Values(values)) => {
            let is_same = |(known, told): (&f64, &f64)| known.total_cmp(told).is_eq();
            trial.values.len() == values.len() && trial.values.iter().zip(values).all(is_same)
        }
        (TrialState::Failed, TellOutcome::Failed(_)) => true,
        _ => false,
    }
}

fn verdict(decision: &Decision) -> Json {
    let mut answer = json!({ "verdict": decision.word() });
    if let Some(reason) = decision.reason() {
        answer["reason"] = reason.to_string().into();
    }
    answer
}

fn asked_to_leave() -> Json {
    json!({ "verdict": "stop", "reason": "asked to leave from elsewhere" })
}

/// The answer to `enqueue`.
fn enqueued(answer: &RequestAnswer) -> Result<Json, Refusal> {
    match answer {
        RequestAnswer::Done(_) => Ok(done()),
        RequestAnswer::Refused(why) => Err(Refusal::new(why.clone())),
    }
}

fn names_in(space: &Space) -> BTreeSet<String> {
    space.dimensions().iter().map(|dimension| dimension.name.clone()).collect()
}

/// Keeps parameters that were added to the stored space in that of `init`.
fn take_grown(spec: &mut StudySpec, growth: Growth, stored: &Space) {
    let is_known = |name: &str| stored.dimension(name).is_some();
    let may_grow = growth == Growth::OnDemand;
    if may_grow && spec.space.dimensions().iter().all(|dimension| is_known(&dimension.name)) {
        spec.space = stored.clone();
    }
}

/// A trial with its result.
fn described(trial: &Trial) -> Json {
    let number = |value: f64| Number(value).to_json();
    let reports: Vec<Json> =
        trial.curve.iter().map(|(step, value)| json!([step, number(*value)])).collect();
    let mut described = json!({
        "id": trial.number,
        "state": trial.state.as_str(),
        "params": trial.params,
        "value": trial.value.map(number),
        "reports": reports,
    });
    if !trial.vectors.is_empty() || !trial.values.is_empty() {
        let known = |(step, _): &(u64, _)| {
            let values: Vec<Option<Json>> =
                trial.values_at(*step).into_iter().map(|value| value.map(number)).collect();
            json!([step, values])
        };
        described["values"] = trial.values.iter().copied().map(number).collect();
        described["reports"] = trial.vectors.iter().map(known).collect();
    }
    described
}

#[cfg(test)]
mod tests;
