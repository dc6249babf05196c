//! `init`: the space, the sampler, the pruner and the budget of a session as a resolved study.

use serde_json::{Value as Json, json};

use super::request::{Checked, INIT, short};
use super::{METRIC, Refusal};
use crate::app::held_study::Growth;
use crate::config::{JsonSearch, Search};
use crate::study::budget::Count;
use crate::study::constraint::Constraint;
use crate::study::field::FieldDefault::{Absent, Flag, Required};
use crate::study::field::{self, Field, FieldKind, MOST_OBJECTIVES, field};
use crate::study::metric::Direction;
use crate::study::program::Program;
use crate::study::space::Distribution;
use crate::study::spec::{AlgorithmSpec, Duplicates, Objective, StudySpec, ValueRule};
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

/// What an `init` leaves out, which is as stored in a study that is continued.
pub(super) struct LeftOut {
    seed: bool,
    sampler: bool,
    pruner: bool,
}

impl LeftOut {
    pub fn of(init: &Checked) -> Self {
        let [seed, sampler, pruner] = ["seed", "sampler", "pruner"].map(|key| !init.has(key));
        LeftOut { seed, sampler, pruner }
    }

    /// Takes that from the stored study.
    pub fn take_stored(&self, spec: &mut StudySpec, known: &StudySpec) {
        if self.seed {
            spec.seed = known.seed;
        }
        if self.sampler {
            spec.sampler = known.sampler.clone();
        }
        if self.pruner {
            spec.pruner = known.pruner.clone();
        }
    }
}

/// The study that `init` describes, and whether its space grows.
pub(super) fn study(mut init: Checked, name: &str) -> Result<(StudySpec, Growth), Refusal> {
    let grows: bool = init.take("define");
    let _asked_by_the_caller: (bool, Option<String>) = (init.take("accept"), init.take("study_id"));
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
        written.read().map_err(Refusal::new)?;
    let objectives = objectives(&mut init)?;
    let is_objective = |name: &str| objectives.iter().any(|objective| objective.metric == name);
    let is_limit_of_value = |constraint: &Constraint| {
        constraint.limit().is_some_and(|limit| limit.names().any(is_objective))
    };
    if let Some(index) = constraints.iter().position(is_limit_of_value) {
        refuse!(
            "`constraints[{index}]` limits an objective; limits are over the `metrics` of a `tell`"
        );
    }
    let spec = StudySpec::new(name, METRIC, Direction::Minimize, space, Program::Inline);
    let mut spec = StudySpec { objectives, ..spec };
    if spec.has_several_objectives() {
        spec.value = ValueRule::Last;
    }
    spec.seed = init.take::<Option<_>>("seed").unwrap_or_default();
    (spec.sampler, spec.pruner) = (sampler, pruner);
    (spec.enqueue, spec.constraints) = (enqueue, constraints);
    if let Err(error) = crate::pruners::check_program(&spec.pruner, &spec.program) {
        refuse!("{error}");
    }
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
    // Its messages have no other unit.
    spec.step = StepUnit::Step;
    // `n_trials` counts all trials, since the program runs them itself.
    (spec.budget.trials, spec.budget.count) = (init.take("n_trials"), Count::All);
    Ok((spec, if grows { Growth::OnDemand } else { Growth::Never }))
}

/// The objectives: `value`, or of several `value_0`, `value_1` and so on, unless they are named.
fn objectives(init: &mut Checked) -> Result<Vec<Objective>, Refusal> {
    let single: Option<Json> = init.take("direction");
    let words = match (single, init.take::<Option<Vec<Json>>>("directions")) {
        (Some(_), Some(_)) => {
            refuse!("`direction` and `directions` are alternatives: send one of them")
        }
        (single, None) => vec![single.unwrap_or_else(|| "minimize".into())],
        (None, Some(words)) if words.is_empty() => {
            refuse!("`directions` is empty: leave it out, or write `minimize` or `maximize`")
        }
        (None, Some(words)) if words.len() > MOST_OBJECTIVES => {
            refuse!("`directions` has {} words; {MOST_OBJECTIVES} are the limit", words.len())
        }
        (None, Some(words)) => words,
    };
    let names: Option<Vec<String>> = init.take("metric_names");
    if let Some(names) = &names {
        if names.len() != words.len() {
            refuse!(
                "`metric_names` has {} names, and there are {} objectives",
                names.len(),
                words.len()
            );
        }
        if let Some(name) = (1..names.len()).find(|index| names[..*index].contains(&names[*index]))
        {
            refuse!("`metric_names` has `{}` twice", short(&names[name]));
        }
    }
    let name = |index: usize| match &names {
        Some(names) => names[index].clone(),
        None if words.len() == 1 => METRIC.to_owned(),
        None => format!("{METRIC}_{index}"),
    };
    let objective = |(index, word): (usize, &Json)| {
        let word = init.check(INIT, "direction", word)?;
        let direction = match word.as_str() {
            Some("maximize" | "max") => Direction::Maximize,
            _ => Direction::Minimize,
        };
        Ok(Objective::new(&name(index), direction))
    };
    words.iter().enumerate().map(objective).collect()
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
    let space = written.read().map_err(Refusal::new)?.space;
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
            .map_err(|Refusal { why, .. }| Refusal::new(format!("parameter `{shown}`: {why}")))?;
        table["when"] = json!({ when.take::<String>("param"): when.take::<Json>("in") });
    }
    Ok((name, table))
}
