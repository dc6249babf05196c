//! A line as a request: which command it is, with the keys that command has and no others.

use serde_json::{Map, Value as Json};

use super::{METRIC, Refusal};
use crate::config::{nearest, quoted};
use crate::engine::Told;
use crate::runner::protocol::quote_non_finite;
use crate::study::metric::{Metrics, Number};
use crate::study::trial::TrialNumber;

/// Every command, for "did you mean".
const COMMANDS: [&str; 6] = ["init", "ask", "report", "tell", "best", "quit"];

/// What a line asks for.
#[derive(Debug)]
pub(super) enum Request {
    /// What is searched, and how.
    Init(Box<Fields>),
    /// A trial to run.
    Ask,
    /// A value of a running trial.
    Report { trial: TrialNumber, step: u64, value: f64 },
    /// How a trial ended.
    Tell { trial: TrialNumber, told: Told, metrics: Metrics },
    /// The best complete trial.
    Best,
    /// The end of the conversation.
    Quit,
}

impl Request {
    /// Reads a line. Python's bare `NaN`, `Infinity` and `-Infinity` are numbers.
    pub fn read(line: &str) -> Result<Request, Refusal> {
        if line.trim().is_empty() {
            return Err(Refusal(
                "the line is empty: send one JSON object a line, such as {\"cmd\":\"ask\"}"
                    .to_owned(),
            ));
        }
        let quoted_line = quote_non_finite(line);
        let has_bare_words =
            matches!(quoted_line, std::borrow::Cow::Owned(_)) && quoted_line != line;
        let json: Json = serde_json::from_str(&quoted_line)
            .map_err(|error| Refusal(format!("the line is not JSON: {error}")))?;
        let Json::Object(object) = json else {
            return Err(Refusal(format!(
                "the line is {}, not an object such as {{\"cmd\":\"ask\"}}",
                kind(&json)
            )));
        };
        let mut fields = Fields { command: "a request", object, has_bare_words };
        let command = match fields.take("cmd") {
            Some(Json::String(command)) => command,
            Some(other) => {
                return Err(Refusal(format!(
                    "`cmd` is {}: it must be one of {}",
                    kind(&other),
                    quoted(COMMANDS)
                )));
            }
            None => {
                return Err(Refusal(format!(
                    "`cmd` is missing: it is one of {}",
                    quoted(COMMANDS)
                )));
            }
        };
        let Some(known) = COMMANDS.into_iter().find(|known| *known == command) else {
            let help = nearest(&command, COMMANDS).map_or_else(
                || format!("there are {}", quoted(COMMANDS)),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(Refusal(format!("there is no command `{}`: {help}", short(&command))));
        };
        fields.command = known;
        match known {
            "init" => Ok(Request::Init(Box::new(fields))),
            "ask" => fields.end(&[]).map(|()| Request::Ask),
            "best" => fields.end(&[]).map(|()| Request::Best),
            "quit" => fields.end(&[]).map(|()| Request::Quit),
            "report" => report(fields),
            _ => tell(fields),
        }
    }
}

fn report(mut fields: Fields) -> Result<Request, Refusal> {
    let trial = fields.id()?;
    let step = fields.whole("step")?.ok_or_else(|| {
        Refusal("`step` is missing: say how far the trial is, as a whole number".to_owned())
    })?;
    let value = fields
        .value()?
        .ok_or_else(|| Refusal("`value` is missing: say a number (NaN is one)".to_owned()))?;
    fields.end(&["id", "step", "value"])?;
    Ok(Request::Report { trial, step, value })
}

fn tell(mut fields: Fields) -> Result<Request, Refusal> {
    let trial = fields.id()?;
    let value = fields.value()?;
    let values = fields.values()?;
    let state = fields.take("state");
    let reason = fields.text("reason")?;
    let metrics = metrics(&mut fields)?;
    fields.end(&["id", "value", "values", "metrics", "state", "reason"])?;
    let value = match (value, values) {
        (Some(_), Some(_)) => {
            return Err(Refusal("`value` and `values` say the same: send one of them".to_owned()));
        }
        (value, values) => value.or(values),
    };
    let told = match (state.as_ref(), value) {
        (None, Some(value)) => Told::Value(value),
        (None, None) => {
            return Err(Refusal(
                "say how the trial ended: `value` is a number, or `state` is `failed` or `pruned`"
                    .to_owned(),
            ));
        }
        (Some(Json::String(state)), value) => match (state.as_str(), value) {
            ("complete", Some(value)) => Told::Value(value),
            ("complete", None) => return Err(Refusal("a complete trial has a `value`".to_owned())),
            ("failed", None) => Told::Failed(reason.unwrap_or_else(|| "told as failed".to_owned())),
            ("pruned", None) => Told::Pruned,
            ("failed" | "pruned", Some(_)) => {
                return Err(Refusal(format!(
                    "a {state} trial has no `value`: `report` it with its step before, or leave it out"
                )));
            }
            _ => {
                return Err(Refusal(format!(
                    "`state` is `{}`: it must be `complete`, `failed` or `pruned`",
                    short(state)
                )));
            }
        },
        (Some(other), _) => {
            return Err(Refusal(format!(
                "`state` is {}: it must be `complete`, `failed` or `pruned`",
                kind(other)
            )));
        }
    };
    Ok(Request::Tell { trial, told, metrics })
}

/// What else was measured, for limits.
fn metrics(fields: &mut Fields) -> Result<Metrics, Refusal> {
    match fields.take("metrics") {
        None => Ok(Metrics::default()),
        Some(Json::Object(object)) => {
            if object.contains_key(METRIC) {
                return Err(Refusal(format!("`metrics` holds `{METRIC}`: it stands beside them")));
            }
            object.iter().map(|(name, json)| Ok((name.clone(), number(name, json)?))).collect()
        }
        Some(other) => {
            Err(Refusal(format!("`metrics` is {}: it must be an object of numbers", kind(&other))))
        }
    }
}

/// The keys of an object that were not looked at yet. A key whose value is null is as good as absent.
#[derive(Debug)]
pub(super) struct Fields {
    command: &'static str,
    object: Map<String, Json>,
    has_bare_words: bool,
}

impl Fields {
    /// The keys of an object inside this one, called `what` in messages.
    pub fn inner(&self, what: &'static str, object: Map<String, Json>) -> Fields {
        Fields { command: what, object, has_bare_words: self.has_bare_words }
    }

    /// Whether the line held a bare `NaN` or infinity, which are strings by now.
    pub fn has_bare_words(&self) -> bool {
        self.has_bare_words
    }

    /// The value of `key`, taken out; `None`: absent or null.
    pub fn take(&mut self, key: &str) -> Option<Json> {
        self.object.remove(key).filter(|value| !value.is_null())
    }

    /// The keys that are left, taken out.
    pub fn rest(&mut self) -> Map<String, Json> {
        std::mem::take(&mut self.object)
    }

    /// Nothing may be left. `known`: every key the object can have.
    pub fn end(self, known: &[&str]) -> Result<(), Refusal> {
        let Some(key) = self.object.keys().next() else { return Ok(()) };
        let help = match nearest(key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "it has none but `cmd`".to_owned(),
            None => format!("its keys are {}", quoted(known.iter().copied())),
        };
        Err(Refusal(format!("{} has no key `{}`: {help}", self.command, short(key))))
    }

    /// A string.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, Refusal> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(other) => {
                Err(Refusal(format!("`{key}` is {}: it must be a string", kind(&other))))
            }
        }
    }

    /// A whole number of at least 0, as an integer or as a float without a fraction.
    pub fn whole(&mut self, key: &str) -> Result<Option<u64>, Refusal> {
        let Some(json) = self.take(key) else { return Ok(None) };
        match whole(&json) {
            Some(whole) if whole >= 0 => Ok(Some(whole.unsigned_abs())),
            _ => Err(Refusal(format!(
                "`{key}` must be a whole number of at least 0, not {}",
                shown(&json)
            ))),
        }
    }

    fn id(&mut self) -> Result<TrialNumber, Refusal> {
        let id = self.whole("id")?.ok_or_else(|| {
            Refusal("`id` is missing: it is the trial's, as `ask` gave it".to_owned())
        })?;
        Ok(TrialNumber(id))
    }

    fn value(&mut self) -> Result<Option<f64>, Refusal> {
        self.take("value").map(|json| number("value", &json)).transpose()
    }

    /// `values` of the one objective that there is.
    fn values(&mut self) -> Result<Option<f64>, Refusal> {
        match self.take("values") {
            None => Ok(None),
            Some(Json::Array(values)) => match &values[..] {
                [value] => number("values", value).map(Some),
                _ => Err(Refusal(format!(
                    "`values` has {} numbers, and the study one objective",
                    values.len()
                ))),
            },
            Some(other) => {
                Err(Refusal(format!("`values` is {}: it must be a list of numbers", kind(&other))))
            }
        }
    }
}

/// A number that may be NaN or infinite, bare or quoted.
pub(super) fn number(key: &str, json: &Json) -> Result<f64, Refusal> {
    let number = if json.is_null() { None } else { Number::from_json(json) };
    number.map(|number| number.0).ok_or_else(|| {
        Refusal(format!("`{key}` must be a number (NaN and Infinity are), not {}", shown(json)))
    })
}

/// A whole number that `i64` holds; `16.0` is one.
pub(super) fn whole(json: &Json) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "whole, and exact below 2^53")]
    json.as_i64().or_else(|| {
        json.as_f64()
            .filter(|float| float.fract() == 0.0 && float.abs() < 9e15)
            .map(|float| float as i64)
    })
}

/// What a JSON value is, for messages.
pub(super) fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a truth value",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

/// A JSON value in a message: scalars as they are, the rest by their kind.
pub(super) fn shown(json: &Json) -> String {
    match json {
        Json::String(text) => format!("the string `{}`", short(text)),
        Json::Bool(_) | Json::Number(_) => format!("`{json}`"),
        _ => kind(json).to_owned(),
    }
}

/// The beginning of a text: what was sent is not sent back by the megabyte.
pub(super) fn short(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
