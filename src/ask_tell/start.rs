//! `init`: the space, the sampler, the pruner and the budget of a session as a resolved study.

use serde_json::{Value as Json, json};

use super::request::{Checked, INIT, short};
use super::{METRIC, Refusal};
use crate::app::held_study::Growth;
use crate::config::{JsonSearch, Search};
use crate::study::budget::Count;
use crate::study::constraint::Constraint;
use crate::study::field::FieldDefault::{Absent, Flag, Required};
use crate::study::field::{self, Field, FieldKind, field};
use crate::study::metric::Direction;
use crate::study::program::Program;
use crate::study::space::Distribution;
use crate::study::spec::{AlgorithmSpec, Duplicates, StudySpec};
use crate::study::step::StepUnit;

const PARAMETER: &[Field] = &[
    field("name", FieldKind::AnyText, Required, "a string"),
    field("type", FieldKind::Choice(&["float", "int", "cat"]), Required, "`float`, `int` or `cat`"),
    field("low", FieldKind::AnyFloat, Absent, "the lower bound"),
    field("high", FieldKind::AnyFloat, Absent, "the upper bound"),
    field("log", FieldKind::Flag, Flag(false), "whether equal ratios matter equally"),
    field("step", FieldKind::AnyFloat, Absent, "the distance of values"),
    field("choices", FieldKind::List, Absent, "the values of a `cat`"),
    field("when", FieldKind::Object, Absent, "`{\"param\":\"other\",\"in\":[..]}`"),
];
const CONDITION: &[Field] = &[
    field("param", FieldKind::AnyText, Required, "whose value it depends on"),
    field("in", FieldKind::List, Required, "a list of values"),
];
/// Maximum number of parameters: checking their conditions is O(n^3) in the worst case.
const MOST_PARAMETERS: usize = 1000;
/// Maximum number of configurations to run first.
const MOST_ENQUEUED: usize = 100_000;

/// The study that `init` describes, and whether its space grows.
pub(super) fn study(mut init: Checked, name: &str) -> Result<(StudySpec, Growth), Refusal> {
    let grows: bool = init.take("define");
    let _asked_by_the_caller: bool = init.take("accept");
    let parameters: Vec<Json> = init.take("space");
    let enqueue: Vec<Json> = init.take::<Option<_>>("enqueue").unwrap_or_default();
    if parameters.len() > MOST_PARAMETERS || enqueue.len() > MOST_ENQUEUED {
        refuse!(
            "`space` has {} parameters and `enqueue` {} configurations; {MOST_PARAMETERS} and \
             {MOST_ENQUEUED} are the limits",
            parameters.len(),
            enqueue.len()
        );
    }
    let mut space = Vec::with_capacity(parameters.len());
    for (index, json) in parameters.into_iter().enumerate() {
        space.push(parameter(&init, &format!("space[{index}]"), json)?);
    }
    let sampler: Option<Json> = init.take("sampler");
    if sampler.as_ref().is_some_and(|sampler| sampler.get("warm_start").is_some()) {
        refuse!("`sampler` has no `warm_start` here: earlier studies are for study files");
    }
    let has_no_sampler = sampler.is_none();
    let written = JsonSearch {
        space,
        sampler,
        pruner: init.take("pruner"),
        constraints: init.take::<Option<_>>("constraints").unwrap_or_default(),
        enqueue,
        grows,
        has_bare_words: init.has_bare_words,
    };
    let Search { space, sampler, pruner, constraints, enqueue } =
        written.read().map_err(Refusal)?;
    let is_limit_of_value = |constraint: &Constraint| match constraint {
        Constraint::Limit(limit) => limit.names().any(|name| name == METRIC),
        Constraint::Require(_) => false,
    };
    if let Some(index) = constraints.iter().position(is_limit_of_value) {
        refuse!(
            "`constraints[{index}]`: `{METRIC}` is the objective; limits are over the \
             `metrics` of a `tell`"
        );
    }
    let mut spec = StudySpec::new(name, METRIC, direction(&mut init)?, space, Program::Inline);
    (spec.seed, spec.sampler, spec.pruner) = (init.take("seed"), sampler, pruner);
    (spec.enqueue, spec.constraints) = (enqueue, constraints);
    if grows {
        // In a define-by-run program equal parameters need not mean an equal run.
        spec.duplicates = Duplicates::Allow;
        if has_no_sampler {
            spec.sampler = AlgorithmSpec {
                version: crate::samplers::find("tpe").map_or(1, |entry| entry.version),
                ..AlgorithmSpec::named("tpe")
            };
        }
    }
    // Its messages have no other clock.
    spec.step = StepUnit::Step;
    // `n_trials` counts all trials, since the program runs them itself.
    (spec.budget.trials, spec.budget.count) = (init.take("n_trials"), Count::All);
    Ok((spec, if grows { Growth::OnDemand } else { Growth::Never }))
}

fn direction(init: &mut Checked) -> Result<Direction, Refusal> {
    let single: Option<Json> = init.take("direction");
    let word = match (single, init.take::<Option<Vec<Json>>>("directions").as_deref()) {
        (Some(_), Some(_)) => {
            refuse!("`direction` and `directions` are alternatives: send one of them")
        }
        (single, None) => single,
        (None, Some([word])) => Some(init.check(INIT, "direction", word)?),
        (None, Some([])) => {
            refuse!("`directions` is empty: leave it out, or write `minimize` or `maximize`")
        }
        (None, Some(_)) => {
            refuse!("several objectives are not supported: send one of `directions`")
        }
    };
    Ok(match word.as_ref().and_then(Json::as_str) {
        Some("maximize" | "max") => Direction::Maximize,
        _ => Direction::Minimize,
    })
}

/// A parameter that a program defines while a trial runs.
pub(super) fn suggested(own: &Checked, json: Json) -> Result<(String, Distribution), Refusal> {
    if json.get("when").is_some_and(|when| !when.is_null()) {
        refuse!("`param` has no `when` here: ask for it only where it is needed");
    }
    let written = JsonSearch {
        space: vec![parameter(own, "param", json)?],
        sampler: None,
        pruner: None,
        constraints: Vec::new(),
        enqueue: Vec::new(),
        grows: false,
        has_bare_words: own.has_bare_words,
    };
    let space = written.read().map_err(Refusal)?.space;
    let Some(dimension) = space.dimensions().first() else { refuse!("`param` is empty") };
    Ok((dimension.name.clone(), dimension.distribution.clone()))
}

/// A parameter in the study file's form: its name and its table.
fn parameter(init: &Checked, place: &str, json: Json) -> Result<(String, Json), Refusal> {
    let mut own = init.inner(place, json, PARAMETER)?;
    let (name, kind): (String, String) = (own.take("name"), own.take("type"));
    if name.is_empty() {
        refuse!("`{place}` has no `name`");
    }
    let shown = short(&name);
    let (low, high, step): (Option<Json>, Option<Json>, Option<Json>) =
        (own.take("low"), own.take("high"), own.take("step"));
    let (choices, is_log): (Option<Json>, bool) = (own.take("choices"), own.take("log"));
    let mut table = match (kind.as_str(), choices, low.zip(high)) {
        ("cat", Some(choices), None) if step.is_none() && !is_log => json!({ "choice": choices }),
        ("cat", ..) => refuse!(
            "parameter `{shown}`: `cat` has `choices`, and no `low`, `high`, `step` or `log`"
        ),
        (_, Some(_), _) => {
            refuse!("parameter `{shown}`: `choices` are for `cat`, and this is `{kind}`")
        }
        (_, None, None) => refuse!("parameter `{shown}`: `low` and `high` are both needed"),
        (_, None, Some((low, high))) => {
            let number = |json: Json| match field::integer(&json).filter(|_| kind == "int") {
                Some(integer) => integer.into(),
                None => json,
            };
            let mut table = json!({ kind.as_str(): [number(low), number(high)], "log": is_log });
            // A step of 1 has no effect, and other programs write it beside `log`.
            if let Some(step) = step.map(number).filter(|step| kind != "int" || *step != json!(1)) {
                table["step"] = step;
            }
            table
        }
    };
    if let Some(when) = own.take::<Option<Json>>("when") {
        let mut when = init
            .inner("when", when, CONDITION)
            .map_err(|Refusal(why)| Refusal(format!("parameter `{shown}`: {why}")))?;
        table["when"] = json!({ when.take::<String>("param"): when.take::<Json>("in") });
    }
    Ok((name, table))
}
