//! `init`: the space, the sampler, the pruner and the budget of a session as a resolved study.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::request::{Fields, kind, number, short, shown, whole};
use super::{METRIC, Refusal};
use crate::config::{self, nearest, quoted};
use crate::study::condition::{self, Expression, ExpressionError, Known};
use crate::study::constraint::{self, Constraint};
use crate::study::metric::Direction;
use crate::study::params::{Params, Value};
use crate::study::registry::PolicyProblem;
use crate::study::space::{Condition, Dimension, Distribution, Scale, Space};
use crate::study::spec::{Count, PolicySpec, Program, StepClock, StudySpec};
use crate::{pruners, samplers};

/// The keys of `init`.
const KEYS: [&str; 10] = [
    "space",
    "seed",
    "direction",
    "directions",
    "n_trials",
    "workers",
    "sampler",
    "pruner",
    "constraints",
    "enqueue",
];
/// The keys of a parameter.
const PARAMETER_KEYS: [&str; 8] = ["name", "type", "low", "high", "log", "step", "choices", "when"];
/// The types of a parameter.
const TYPES: [&str; 3] = ["float", "int", "cat"];
/// Most parameters of a space. Checking their conditions takes the cube of their number in the worst case.
const MOST_PARAMETERS: usize = 1000;
/// Most configurations to run first.
const MOST_ENQUEUED: usize = 100_000;

/// The study that `init` describes.
pub(super) fn study(mut init: Fields) -> Result<StudySpec, Refusal> {
    let space = space(&mut init)?;
    let direction = direction(&mut init)?;
    let seed = init.whole("seed")?.unwrap_or(0);
    let trials = init.whole("n_trials")?;
    // How many trials may be out at once is known from the asks; the number is checked and nothing else.
    if init.whole("workers")? == Some(0) {
        return Err(Refusal("`workers` must be at least 1".to_owned()));
    }
    let sampler = match policy(&mut init, "sampler", samplers::resolve)? {
        Some(sampler) => sampler,
        None => config::default_sampler(),
    };
    let pruner = policy(&mut init, "pruner", pruners::resolve)?;
    let constraints = constraints(&mut init, &space)?;
    let enqueue = enqueue(&mut init, &space)?;
    for (index, params) in enqueue.iter().enumerate() {
        if let Some(broken) = constraint::broken(&constraints, params) {
            return Err(Refusal(format!(
                "`enqueue[{index}]` breaks the constraint `{}`",
                broken.expression().text()
            )));
        }
    }
    init.end(&KEYS)?;
    let mut spec = StudySpec::new("ask-tell", METRIC, direction, space, Program::Inline);
    (spec.seed, spec.sampler, spec.enqueue, spec.constraints) =
        (seed, sampler, enqueue, constraints);
    spec.pruner = pruner.unwrap_or(spec.pruner);
    // Its lines have no other clock.
    spec.step = StepClock::Step;
    // Whoever says how many trials there are means all of them, as it runs them itself.
    (spec.budget.trials, spec.budget.count) = (trials, Count::All);
    Ok(spec)
}

fn direction(init: &mut Fields) -> Result<Direction, Refusal> {
    let single = init.text("direction")?;
    let word = match (single, init.take("directions")) {
        (Some(_), Some(_)) => {
            return Err(Refusal(
                "`direction` and `directions` say the same: send one of them".to_owned(),
            ));
        }
        (single, None) => single,
        (None, Some(Json::Array(list))) => match &list[..] {
            [Json::String(word)] => Some(word.clone()),
            [other] => {
                return Err(Refusal(format!(
                    "`directions` holds {}: write `minimize` or `maximize`",
                    kind(other)
                )));
            }
            [] => {
                return Err(Refusal(
                    "`directions` is empty: leave it out, or write `minimize` or `maximize`"
                        .to_owned(),
                ));
            }
            _ => {
                return Err(Refusal(
                    "several objectives are not built yet: send one of `directions`".to_owned(),
                ));
            }
        },
        (None, Some(other)) => {
            return Err(Refusal(format!(
                "`directions` is {}: it must be a list of words",
                kind(&other)
            )));
        }
    };
    match word.as_deref() {
        None | Some("minimize") => Ok(Direction::Minimize),
        Some("maximize") => Ok(Direction::Maximize),
        Some(other) => Err(Refusal(format!(
            "`direction` is `{}`: it must be `minimize` or `maximize`",
            short(other)
        ))),
    }
}

/// How a table of policies takes one as written.
type Resolve = fn(&str, BTreeMap<String, Json>) -> Result<PolicySpec, Vec<PolicyProblem>>;

fn policy(
    init: &mut Fields,
    key: &'static str,
    resolve: Resolve,
) -> Result<Option<PolicySpec>, Refusal> {
    let Some(json) = init.take(key) else { return Ok(None) };
    let Json::Object(object) = json else {
        return Err(Refusal(format!(
            "`{key}` is {}: write {{\"type\":\"..\"}} with its options beside",
            kind(&json)
        )));
    };
    let mut fields = init.inner(key, object);
    let name = fields.text("type")?.ok_or_else(|| {
        Refusal(format!("`{key}` has no `type`: `hpsearch list {key}s` shows them"))
    })?;
    let options = fields.rest().into_iter().filter(|(_, value)| !value.is_null()).collect();
    resolve(&name, options).map(Some).map_err(|problems| {
        let said = problems.into_iter().map(|problem| match problem.help {
            Some(help) => format!("{} ({help})", problem.message),
            None => problem.message,
        });
        Refusal(said.collect::<Vec<_>>().join("; "))
    })
}

fn space(init: &mut Fields) -> Result<Space, Refusal> {
    let list = match init.take("space") {
        Some(Json::Array(list)) => list,
        Some(other) => {
            return Err(Refusal(format!(
                "`space` is {}: it must be a list of parameters",
                kind(&other)
            )));
        }
        None => return Err(Refusal("`space` is missing: it is a list of parameters".to_owned())),
    };
    if list.is_empty() {
        return Err(Refusal("`space` is empty: there is nothing to search".to_owned()));
    }
    if list.len() > MOST_PARAMETERS {
        return Err(Refusal(format!(
            "`space` has {} parameters; {MOST_PARAMETERS} can be searched at most",
            list.len()
        )));
    }
    let mut dimensions = Vec::with_capacity(list.len());
    for (index, json) in list.into_iter().enumerate() {
        let Json::Object(object) = json else {
            return Err(Refusal(format!(
                "`space[{index}]` is {}: a parameter is an object",
                kind(&json)
            )));
        };
        let mut fields = init.inner("a parameter", object);
        let name = match fields.text("name")? {
            Some(name) if !name.is_empty() => name,
            _ => return Err(Refusal(format!("`space[{index}]` has no `name`"))),
        };
        let dimension = parameter(&name, fields)
            .map_err(|refusal| Refusal(format!("parameter `{}`: {}", short(&name), refusal.0)))?;
        dimensions.push(dimension);
    }
    Space::new(dimensions).map_err(|error| Refusal(error.to_string()))
}

fn parameter(name: &str, mut fields: Fields) -> Result<Dimension, Refusal> {
    let has_bare_words = fields.has_bare_words();
    let kind_word = fields
        .text("type")?
        .ok_or_else(|| Refusal(format!("`type` is missing: it is one of {}", quoted(TYPES))))?;
    let (low, high, step) = (fields.take("low"), fields.take("high"), fields.take("step"));
    let choices = fields.take("choices");
    let scale = match fields.take("log") {
        None | Some(Json::Bool(false)) => Scale::Linear,
        Some(Json::Bool(true)) => Scale::Log,
        Some(other) => {
            return Err(Refusal(format!("`log` must be true or false, not {}", shown(&other))));
        }
    };
    let when = fields.take("when").map(|json| condition(&fields, json)).transpose()?;
    fields.end(&PARAMETER_KEYS)?;
    let is_choice = kind_word == "cat";
    if choices.is_some() && TYPES.contains(&kind_word.as_str()) && !is_choice {
        return Err(Refusal(format!("`choices` are for `cat`, and this is `{kind_word}`")));
    }
    if is_choice && (low.is_some() || high.is_some() || step.is_some() || scale == Scale::Log) {
        return Err(Refusal(
            "`cat` has `choices`, and no `low`, `high`, `step` or `log`".to_owned(),
        ));
    }
    let both = || {
        low.as_ref()
            .zip(high.as_ref())
            .ok_or_else(|| Refusal("`low` and `high` are both needed".to_owned()))
    };
    let made = match kind_word.as_str() {
        "float" => {
            let (low, high) = both()?;
            let step = step.as_ref().map(|step| number("step", step)).transpose()?;
            Distribution::float(number("low", low)?, number("high", high)?, scale, step)
        }
        "int" => {
            let (low, high) = both()?;
            let bound = |key: &str, json: &Json| {
                whole(json).ok_or_else(|| {
                    Refusal(format!("`{key}` must be a whole number, not {}", shown(json)))
                })
            };
            let step = step.as_ref().map(|step| bound("step", step)).transpose()?;
            // A step of 1 says nothing, and stands beside `log` in what other programs write.
            Distribution::int(bound("low", low)?, bound("high", high)?, scale, step.unwrap_or(1))
        }
        "cat" => Distribution::choice(scalars("choices", choices, has_bare_words)?),
        other => {
            let help = nearest(other, TYPES).map_or_else(
                || format!("it must be one of {}", quoted(TYPES)),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(Refusal(format!("there is no type `{}`: {help}", short(other))));
        }
    };
    let distribution = made.map_err(|error| Refusal(error.to_string()))?;
    Ok(Dimension { name: name.to_owned(), distribution, prior: None, when })
}

fn condition(fields: &Fields, json: Json) -> Result<Condition, Refusal> {
    let Json::Object(object) = json else {
        return Err(Refusal(format!(
            "`when` is {}: write {{\"param\":\"other\",\"in\":[..]}}",
            kind(&json)
        )));
    };
    let mut when = fields.inner("`when`", object);
    let parent = when
        .text("param")?
        .ok_or_else(|| Refusal("`when` has no `param`: whose value it depends on".to_owned()))?;
    let accepted = scalars("in", when.take("in"), fields.has_bare_words())?;
    when.end(&["param", "in"])?;
    if accepted.is_empty() {
        return Err(Refusal("`when` can never hold: `in` is empty".to_owned()));
    }
    Ok(Condition(vec![(parent, accepted)]))
}

fn scalars(key: &str, json: Option<Json>, has_bare_words: bool) -> Result<Vec<Value>, Refusal> {
    let list = match json {
        Some(Json::Array(list)) => list,
        Some(other) => {
            return Err(Refusal(format!("`{key}` is {}: it must be a list", kind(&other))));
        }
        None => return Err(Refusal(format!("`{key}` is missing: it is a list of values"))),
    };
    list.iter().map(|json| scalar(key, json, has_bare_words)).collect()
}

/// A value of a parameter: a string, a finite number or a truth value.
fn scalar(key: &str, json: &Json, has_bare_words: bool) -> Result<Value, Refusal> {
    let value = Value::from_json(json);
    let is_not_finite = matches!(&value, Some(Value::Text(text)) if has_bare_words && ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()));
    let wrong = || {
        Refusal(format!(
            "`{key}` must hold strings, finite numbers, true or false, not {}",
            shown(json)
        ))
    };
    value.filter(|_| !is_not_finite).ok_or_else(wrong)
}

/// `{"require":"a * b <= 9"}` over parameters, `{"limit":"latency <= 20"}` over what `tell` says under `metrics`.
fn constraints(init: &mut Fields, space: &Space) -> Result<Vec<Constraint>, Refusal> {
    let list = match init.take("constraints") {
        None => return Ok(Vec::new()),
        Some(Json::Array(list)) => list,
        Some(other) => {
            return Err(Refusal(format!(
                "`constraints` is {}: it must be a list of objects",
                kind(&other)
            )));
        }
    };
    let mut constraints = Vec::with_capacity(list.len());
    for (index, json) in list.into_iter().enumerate() {
        let at = |why: String| Refusal(format!("`constraints[{index}]`: {why}"));
        let Json::Object(object) = json else {
            return Err(at(format!(
                "it is {}: write {{\"require\":\"..\"}} or {{\"limit\":\"..\"}}",
                kind(&json)
            )));
        };
        let mut fields = init.inner("a constraint", object);
        let (require, limit) = (fields.text("require")?, fields.text("limit")?);
        fields.end(&["require", "limit"])?;
        let (text, known) = match (&require, &limit) {
            (Some(text), None) => (text, Known::Parameters(space)),
            (None, Some(text)) => (text, Known::Metrics),
            _ => return Err(at("it has one of `require` and `limit`".to_owned())),
        };
        let pointed = |error: ExpressionError| {
            let here = text
                .get(error.span.clone())
                .filter(|here| !here.is_empty())
                .map_or_else(String::new, |here| format!(" at `{}`", short(here)));
            let help = error.help.map_or_else(String::new, |help| format!(" ({help})"));
            at(format!("{}{here}{help}", error.message))
        };
        let expression = Expression::parse(text).map_err(pointed)?;
        if let Some(error) = condition::check(&expression, known).into_iter().next() {
            return Err(pointed(error));
        }
        if limit.is_some() && expression.names().any(|name| name == METRIC) {
            return Err(at(format!(
                "`{METRIC}` is what is searched for; limits are over the `metrics` of a `tell`"
            )));
        }
        constraints.push(if require.is_some() {
            Constraint::Require(expression)
        } else {
            Constraint::Limit(expression)
        });
    }
    Ok(constraints)
}

fn enqueue(init: &mut Fields, space: &Space) -> Result<Vec<Params>, Refusal> {
    let has_bare_words = init.has_bare_words();
    let list = match init.take("enqueue") {
        None => return Ok(Vec::new()),
        Some(Json::Array(list)) => list,
        Some(other) => {
            return Err(Refusal(format!(
                "`enqueue` is {}: it must be a list of configurations",
                kind(&other)
            )));
        }
    };
    if list.len() > MOST_ENQUEUED {
        return Err(Refusal(format!(
            "`enqueue` has {} configurations; {MOST_ENQUEUED} can wait at most",
            list.len()
        )));
    }
    let read = |(index, json): (usize, &Json)| match json {
        Json::Object(object) => configuration(object, space, has_bare_words)
            .map_err(|refusal| Refusal(format!("`enqueue[{index}]`: {}", refusal.0))),
        other => Err(Refusal(format!(
            "`enqueue[{index}]` is {}: a configuration is an object",
            kind(other)
        ))),
    };
    list.iter().enumerate().map(read).collect()
}

/// The given values, in the kinds of their parameters; what is missing is sampled.
fn configuration(
    object: &Map<String, Json>,
    space: &Space,
    has_bare_words: bool,
) -> Result<Params, Refusal> {
    let mut params = Params::new();
    for (name, json) in object {
        let Some(dimension) = space.dimension(name) else {
            let names = space.dimensions().iter().map(|dimension| dimension.name.as_str());
            let help = nearest(name, names)
                .map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
            return Err(Refusal(format!(
                "`{}` is not a parameter of the space{help}",
                short(name)
            )));
        };
        let value = scalar(name, json, has_bare_words)?;
        let outside =
            || Refusal(format!("`{}` is not a value of `{name}`", short(&value.to_string())));
        params.insert(name.clone(), dimension.distribution.normalize(&value).ok_or_else(outside)?);
    }
    for name in object.keys() {
        let conditions = space
            .dimension(name)
            .and_then(|dimension| dimension.when.as_ref())
            .into_iter()
            .flat_map(|when| &when.0);
        for (parent, accepted) in conditions {
            if let Some(value) =
                params.get(parent).filter(|value| !accepted.iter().any(|accept| accept.same(value)))
            {
                return Err(Refusal(format!(
                    "`{name}` is not active when `{parent}` is `{value}`: take it out"
                )));
            }
        }
    }
    Ok(params)
}
