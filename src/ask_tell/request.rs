//! Parses a line as a request: its command, with exactly the keys of that command.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::Refusal;
use crate::app::reconcile::Consent;
use crate::engine::TellOutcome;
use crate::runner::protocol::quote_non_finite;
use crate::study::field::FieldDefault::{Absent, Flag, Required};
use crate::study::field::{self, COUNT, Field, FieldKind, NATURAL, field, unknown_help};
use crate::study::metric::{Metrics, Number};
use crate::study::params::{Params, Value};
use crate::study::suggestion::{nearest, quoted};
use crate::study::trial::TrialNumber;

/// The keys of `init`.
pub(super) const INIT: &[Field] = &[
    field("space", FieldKind::List, Required, "a list of parameters"),
    field("seed", NATURAL, Absent, "root of all random streams"),
    field("direction", FieldKind::Direction, Absent, "which direction is better"),
    field("directions", FieldKind::List, Absent, "the same of each objective, as a list"),
    field("metric_names", FieldKind::Texts, Absent, "names of the objectives"),
    field("n_trials", NATURAL, Absent, "number of trials after which the study ends"),
    // The asks determine how many trials are outstanding; the number is only validated.
    field("workers", COUNT, Absent, "maximum number of outstanding trials"),
    field("sampler", FieldKind::Object, Absent, "`{\"type\":\"..\"}` with its options beside"),
    field("pruner", FieldKind::Object, Absent, "`{\"type\":\"..\"}` with its options beside"),
    field("constraints", FieldKind::List, Absent, "conditions, as in [[constraint]]"),
    field("enqueue", FieldKind::List, Absent, "configurations to run first"),
    field(
        "study_id",
        FieldKind::AnyText,
        Absent,
        "the stored study that is continued, as answered",
    ),
    field("define", FieldKind::Flag, Flag(false), "whether `suggest` adds parameters"),
    field(
        "accept",
        FieldKind::Flag,
        Flag(false),
        "whether a stored study may be changed to this one",
    ),
];
const ID: Field = field("id", NATURAL, Required, "the trial's id, from `ask`");
const ASK: &[Field] = &[
    field("candidates", FieldKind::List, Absent, "configurations, of which a new trial gets one"),
    field("running", FieldKind::List, Absent, "stopped trials that the program still runs"),
];
/// Maximum number of candidates of one ask.
const MOST_CANDIDATES: usize = 10_000;
const REPORT: &[Field] = &[
    ID,
    field("step", NATURAL, Required, "the step, an integer"),
    field("value", FieldKind::AnyFloat, Absent, "a number (NaN is one)"),
    field("values", FieldKind::List, Absent, "a number for each objective"),
];
const SUGGEST: &[Field] = &[
    ID,
    field("param", FieldKind::Object, Required, "a parameter, as in `space`"),
    field("value", FieldKind::List, Absent, "its value, as a list of one"),
];
const TELL: &[Field] = &[
    ID,
    field("value", FieldKind::AnyFloat, Absent, "the objective value"),
    field("values", FieldKind::List, Absent, "the value of each objective"),
    field("metrics", FieldKind::Object, Absent, "further metrics, for limits"),
    field("state", FieldKind::Choice(&["complete", "failed", "pruned"]), Absent, "how it ended"),
    field("reason", FieldKind::AnyText, Absent, "why it failed"),
];

const ENQUEUE: &[Field] = &[field(
    "params",
    FieldKind::Object,
    Required,
    "the values of parameters; missing ones are sampled",
)];

/// Every command with its keys besides `cmd`.
const COMMANDS: [(&str, &[Field]); 10] = [
    ("init", INIT),
    ("ask", ASK),
    ("report", REPORT),
    ("tell", TELL),
    ("requeue", &[ID]),
    ("suggest", SUGGEST),
    ("enqueue", ENQUEUE),
    ("best", &[]),
    ("trials", &[]),
    ("quit", &[]),
];

/// A request.
#[derive(Debug)]
pub(super) enum Request {
    /// The description of a study.
    Init(Box<Checked>),
    /// A trial to run; a new one gets one of the candidates, if there are any. Other threads of
    /// the program are `running` those that were stopped and are not left.
    Ask { candidates: Vec<Params>, running: BTreeSet<TrialNumber> },
    /// A value of a running trial.
    Report { trial: TrialNumber, step: u64, values: Vec<f64> },
    /// How a trial ended.
    Tell { trial: TrialNumber, told: TellOutcome, metrics: Metrics },
    /// A running trial that its program has left: an ask gives it again.
    Requeue { trial: TrialNumber },
    /// A parameter of a running trial.
    Suggest(Box<Checked>),
    /// A configuration to run before any other.
    Enqueue { params: Params },
    /// The best complete trial.
    Best,
    /// All trials.
    Trials,
    /// The end of the conversation.
    Quit,
}

impl Request {
    /// The same request, if it is an ask: it is answered later if the study is paused.
    pub fn again(&self) -> Option<Request> {
        match self {
            Request::Ask { candidates, running } => {
                let (candidates, running) = (candidates.clone(), running.clone());
                Some(Request::Ask { candidates, running })
            }
            _ => None,
        }
    }

    /// Parses a line. Python's bare `NaN`, `Infinity` and `-Infinity` are numbers.
    pub fn read(line: &str) -> Result<Request, Refusal> {
        if line.trim().is_empty() {
            refuse!("the line is empty: send one JSON object a line, such as {{\"cmd\":\"ask\"}}");
        }
        let quoted_line = quote_non_finite(line);
        let has_bare_words = quoted_line != line;
        let json: Json = serde_json::from_str(&quoted_line)
            .map_err(|error| Refusal::new(format!("the line is not JSON: {error}")))?;
        let Json::Object(mut object) = json else {
            refuse!("the line is {}, not an object such as {{\"cmd\":\"ask\"}}", shown(&json));
        };
        let names = || COMMANDS.iter().map(|(name, _)| *name);
        let command = match object.remove("cmd").filter(|command| !command.is_null()) {
            Some(Json::String(command)) => command,
            Some(other) => {
                refuse!("`cmd` is {}: it must be one of {}", shown(&other), quoted(names()))
            }
            None => refuse!("`cmd` is missing: it is one of {}", quoted(names())),
        };
        let Some((name, fields)) = COMMANDS.iter().find(|(name, _)| *name == command) else {
            let help = nearest(&command, names()).map_or_else(
                || format!("there are {}", quoted(names())),
                |near| format!("did you mean `{near}`?"),
            );
            refuse!("there is no command `{}`: {help}", short(&command));
        };
        let mut own = Checked::read(name, object, fields, has_bare_words)?;
        Ok(match *name {
            "init" => Request::Init(Box::new(own)),
            "ask" => Request::Ask {
                candidates: candidates(own.take("candidates"))?,
                running: numbers(&own.take::<Option<Vec<Json>>>("running").unwrap_or_default())?,
            },
            "best" => Request::Best,
            "trials" => Request::Trials,
            "requeue" => Request::Requeue { trial: own.take("id") },
            "suggest" => Request::Suggest(Box::new(own)),
            "enqueue" => Request::Enqueue { params: params(own.take("params"))? },
            "quit" => Request::Quit,
            "report" => {
                let values = values(&mut own, REPORT)?;
                let Some(values) = values else {
                    refuse!("`value` is missing: it is a number (NaN is one)")
                };
                Request::Report { trial: own.take("id"), step: own.take("step"), values }
            }
            _ => tell(own)?,
        })
    }
}

fn params(object: Map<String, Json>) -> Result<Params, Refusal> {
    let value = |(name, json): (String, Json)| match Value::from_json(&json) {
        Some(value) => Ok((name, value)),
        None => refuse!("`{}` is not a value of a parameter", short(&name)),
    };
    object.into_iter().map(value).collect()
}

fn numbers(list: &[Json]) -> Result<BTreeSet<TrialNumber>, Refusal> {
    let number = |json: &Json| match json.as_u64() {
        Some(number) => Ok(TrialNumber(number)),
        None => refuse!("`running` has {}: it lists the ids of trials", shown(json)),
    };
    list.iter().map(number).collect()
}

fn candidates(list: Option<Vec<Json>>) -> Result<Vec<Params>, Refusal> {
    let Some(list) = list else { return Ok(Vec::new()) };
    if list.is_empty() || list.len() > MOST_CANDIDATES {
        refuse!(
            "`candidates` has {} configurations: send 1 to {MOST_CANDIDATES}, or leave it out",
            list.len()
        );
    }
    let candidate = |(index, json): (usize, Json)| match json {
        Json::Object(object) => params(object)
            .map_err(|Refusal { why, .. }| Refusal::new(format!("`candidates[{index}]`: {why}"))),
        other => refuse!("`candidates[{index}]` is {}: it must be an object", shown(&other)),
    };
    list.into_iter().enumerate().map(candidate).collect()
}

/// The numbers of `value` or `values`, at least one.
fn values(own: &mut Checked, fields: &[Field]) -> Result<Option<Vec<f64>>, Refusal> {
    let value: Option<Json> = own.take("value");
    let listed = match (value, own.take::<Option<Vec<Json>>>("values")) {
        (Some(_), Some(_)) => refuse!("`value` and `values` are alternatives: send one of them"),
        (Some(value), None) => vec![value],
        (None, Some(values)) if values.is_empty() => refuse!("`values` is empty"),
        (None, Some(values)) => values,
        (None, None) => return Ok(None),
    };
    let number = |json: &Json| {
        let checked = own.check(fields, "value", json)?;
        Ok(Number::from_json(&checked).map_or(f64::NAN, |number| number.0))
    };
    listed.iter().map(number).collect::<Result<_, Refusal>>().map(Some)
}

fn tell(mut own: Checked) -> Result<Request, Refusal> {
    let values = values(&mut own, TELL)?;
    let reason: Option<String> = own.take("reason");
    let told = match (own.take::<Option<String>>("state").as_deref(), values) {
        (None | Some("complete"), Some(values)) => match values[..] {
            [value] => TellOutcome::Value(value),
            _ => TellOutcome::Values(values),
        },
        (None, None) => refuse!(
            "say how the trial ended: `value` is a number (or `values` a list), or `state` is \
             `failed` or `pruned`"
        ),
        (Some("complete"), None) => refuse!("a complete trial has a `value`"),
        (Some(state), Some(_)) => refuse!(
            "a {state} trial has no `value`: `report` it with its step before, or leave it out"
        ),
        (Some("pruned"), None) => TellOutcome::Pruned,
        (Some(_), None) => {
            TellOutcome::Failed(reason.unwrap_or_else(|| "reported as failed".to_owned()))
        }
    };
    let mut metrics = Metrics::default();
    for (name, json) in own.take::<Option<Map<String, Json>>>("metrics").unwrap_or_default() {
        match Number::from_json(&json).filter(|_| !json.is_null()) {
            Some(value) => drop(metrics.0.insert(name, value.0)),
            None => {
                refuse!("`{}` must be {}, not {}", short(&name), FieldKind::AnyFloat, shown(&json))
            }
        };
    }
    Ok(Request::Tell { trial: own.take("id"), told, metrics })
}

/// The values of an object whose keys were checked against its fields. A null value counts as
/// absent.
#[derive(Debug)]
pub(super) struct Checked {
    values: Map<String, Json>,
    /// Whether the line contained a bare `NaN` or infinity, which are strings by now.
    pub has_bare_words: bool,
}

impl Checked {
    /// The values of `object`, called `what` in messages, with the defaults of those that are
    /// absent.
    fn read(
        what: &str,
        object: Map<String, Json>,
        fields: &[Field],
        has_bare_words: bool,
    ) -> Result<Self, Refusal> {
        let mut own = Checked { values: Map::new(), has_bare_words };
        for (key, value) in object.into_iter().filter(|(_, value)| !value.is_null()) {
            if field::find(fields, &key).is_none() {
                let help = match fields {
                    [] => "it has none but `cmd`".to_owned(),
                    fields => unknown_help(&key, fields),
                };
                refuse!("{what} has no key `{}`: {help}", short(&key));
            }
            let value = own.check(fields, &key, &value)?;
            own.values.insert(key, value);
        }
        for field in fields.iter().filter(|field| !own.values.contains_key(field.name)) {
            if matches!(field.default, Required) {
                refuse!("`{}` is missing: it is {}", field.name, field.doc);
            }
        }
        for field in fields {
            own.values.entry(field.name).or_insert_with(|| field.default.json());
        }
        Ok(own)
    }

    /// Whether the object has a value of a key.
    pub fn has(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(|value| !value.is_null())
    }

    /// The values of an object inside this one.
    pub fn inner(&self, what: &str, json: Json, fields: &[Field]) -> Result<Self, Refusal> {
        match json {
            Json::Object(object) => Checked::read(what, object, fields, self.has_bare_words),
            other => refuse!("`{what}` is {}: it must be an object", shown(&other)),
        }
    }

    /// Checks and converts one value.
    pub fn check(&self, fields: &[Field], key: &str, value: &Json) -> Result<Json, Refusal> {
        let kind = field::find(fields, key).map(|field| field.kind).expect("a field of the table");
        kind.check(value).map_err(|_| {
            match value.as_str().and_then(|text| Some((text, kind.other_word(text)?))) {
                Some((text, help)) => {
                    Refusal::new(format!("`{key}` cannot be `{}`: {help}", short(text)))
                }
                None => Refusal::new(format!("`{key}` must be {kind}, not {}", shown(value))),
            }
        })
    }

    /// Whether `init` may change a stored study.
    pub fn consent(&self) -> Consent {
        if self.is_set("accept") { Consent::Given } else { Consent::Missing }
    }

    /// Whether a flag is there and true.
    fn is_set(&self, key: &str) -> bool {
        self.values.get(key) == Some(&Json::Bool(true))
    }

    /// The value of a field.
    pub fn get(&self, key: &str) -> &Json {
        self.values.get(key).unwrap_or(&Json::Null)
    }

    /// The value of a field, taken out.
    pub fn take<T: DeserializeOwned>(&mut self, key: &str) -> T {
        let value = self.values.remove(key).unwrap_or_default();
        serde_json::from_value(value).expect("checked values are of their fields' types")
    }
}

/// A JSON value in a message: scalars as they are, the rest by their kind.
fn shown(json: &Json) -> String {
    match json {
        Json::String(text) => format!("the string `{}`", short(text)),
        Json::Bool(_) | Json::Number(_) => format!("`{json}`"),
        Json::Null => "null".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "an object".to_owned(),
    }
}

/// The beginning of a text, so that messages stay short.
pub(super) fn short(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
