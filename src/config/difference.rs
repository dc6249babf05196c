//! What changed between two versions of a study, and what the user must say before it is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::Value as Json;

use super::duration;
use super::size;
use super::space::describe;
use crate::study::space::{Dimension, Distribution, Scale};
use crate::study::spec::{EnvironmentValue, MetricSources, PolicySpec, Program, StudySpec};

/// What a change asks for when a study is run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeClass {
    /// Taken.
    Free,
    /// Needs `--accept`: trials so far were proposed or judged otherwise.
    NeedsAccept,
    /// Needs `--fork NAME`: trials so far answer another question.
    NeedsFork,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Dotted key: `budget.trials`.
    pub path: String,
    /// Before; `None`: not set.
    pub old: Option<String>,
    /// After; `None`: not set.
    pub new: Option<String>,
    /// What it asks for.
    pub class: ChangeClass,
}

impl Change {
    /// Another value of a variable of `[command] env`, which may be a secret: taken, and said by its name.
    pub fn of_value(name: &str) -> Self {
        let (path, old, new) = (
            format!("command.env.{name}"),
            Some("one value".to_owned()),
            Some("another".to_owned()),
        );
        Change { path, old, new, class: ChangeClass::Free }
    }
}

impl fmt::Display for Change {
    /// `budget.trials: 24 -> 48`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
        write!(f, "{}: {} -> {}", self.path, side(&self.old), side(&self.new))
    }
}

/// The differences to a stored study of which so many trials are complete. While none is, the command may change with `--accept`:
/// there is nothing yet that could not be compared any more.
pub fn difference_to_stored(old: &StudySpec, new: &StudySpec, complete: u64) -> Vec<Change> {
    let mut changes = difference(old, new);
    for change in
        changes.iter_mut().filter(|change| complete == 0 && COMMAND.contains(&change.path.as_str()))
    {
        change.class = ChangeClass::NeedsAccept;
    }
    changes
}

/// What a command is.
const COMMAND: [&str; 4] =
    ["command.run", "command.cwd", "command.args_style", "command.metrics.pattern"];

/// All differences, in the order of the study file's tables. The study's name is no difference: it says which study is meant.
pub fn difference(old: &StudySpec, new: &StudySpec) -> Vec<Change> {
    let mut changes = Changes(Vec::new());
    study(&mut changes, old, new);
    budget(&mut changes, old, new);
    space(&mut changes, old, new);
    constraints(&mut changes, old, new);
    enqueue(&mut changes, old, new);
    policy(&mut changes, "sampler", &old.sampler, &new.sampler);
    let names = |spec: &StudySpec| {
        if spec.warm_start.is_empty() { None } else { Some(spec.warm_start.join(", ")) }
    };
    changes.compare("sampler.warm_start", ChangeClass::NeedsAccept, names(old), names(new));
    policy(&mut changes, "pruner", &old.pruner, &new.pruner);
    program(&mut changes, &old.program, &new.program);
    operation(&mut changes, old, new);
    changes.0
}

struct Changes(Vec<Change>);

impl Changes {
    fn compare(
        &mut self,
        path: &str,
        class: ChangeClass,
        old: Option<String>,
        new: Option<String>,
    ) {
        if old != new {
            self.0.push(Change { path: path.to_owned(), old, new, class });
        }
    }

    /// Compares two tables key by key.
    fn tables(
        &mut self,
        path: &str,
        class: ChangeClass,
        old: &BTreeMap<String, Json>,
        new: &BTreeMap<String, Json>,
    ) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            self.compare(
                &format!("{path}.{key}"),
                class,
                old.get(key).and_then(written),
                new.get(key).and_then(written),
            );
        }
    }
}

fn study(changes: &mut Changes, old: &StudySpec, new: &StudySpec) {
    let text = |text: &Option<String>| text.as_ref().map(|text| format!("{text:?}"));
    let tags = |tags: &[String]| if tags.is_empty() { None } else { written(&json(tags)) };
    changes.compare(
        "study.description",
        ChangeClass::Free,
        text(&old.description),
        text(&new.description),
    );
    changes.compare("study.tags", ChangeClass::Free, tags(&old.tags), tags(&new.tags));
    let objective = |spec: &StudySpec, index: usize| spec.objectives.get(index).cloned();
    for index in 0..old.objectives.len().max(new.objectives.len()) {
        let (before, after) = (objective(old, index), objective(new, index));
        let path = |key: &str| {
            if index == 0 {
                format!("study.{key}")
            } else {
                format!("study.objective.{index}.{key}")
            }
        };
        let metric = |objective: &Option<crate::study::spec::Objective>| {
            objective.as_ref().map(|objective| objective.metric.clone())
        };
        let direction = |objective: &Option<crate::study::spec::Objective>| {
            objective.as_ref().map(|objective| objective.direction.as_str().to_owned())
        };
        changes.compare(&path("metric"), ChangeClass::NeedsFork, metric(&before), metric(&after));
        changes.compare(
            &path("direction"),
            ChangeClass::NeedsFork,
            direction(&before),
            direction(&after),
        );
    }
    changes.compare(
        "study.value",
        ChangeClass::NeedsFork,
        written(&json(&old.value)),
        written(&json(&new.value)),
    );
    changes.compare(
        "study.step",
        ChangeClass::NeedsFork,
        written(&json(&old.step)),
        written(&json(&new.step)),
    );
    changes.compare(
        "study.seed",
        ChangeClass::NeedsFork,
        Some(old.seed.to_string()),
        Some(new.seed.to_string()),
    );
    // The contract does not name these; like the sampler they decide which points are proposed and run.
    changes.compare(
        "study.duplicates",
        ChangeClass::NeedsAccept,
        written(&json(&old.duplicates)),
        written(&json(&new.duplicates)),
    );
    changes.compare(
        "study.deterministic",
        ChangeClass::NeedsAccept,
        Some(old.deterministic.to_string()),
        Some(new.deterministic.to_string()),
    );
    changes.compare(
        "study.replicates",
        ChangeClass::NeedsAccept,
        Some(old.replicates.to_string()),
        Some(new.replicates.to_string()),
    );
    changes.compare(
        "study.race",
        ChangeClass::Free,
        Some(old.race.to_string()),
        Some(new.race.to_string()),
    );
}

fn budget(changes: &mut Changes, old: &StudySpec, new: &StudySpec) {
    let (old, new) = (&old.budget, &new.budget);
    let count = |count: Option<u64>| count.map(|count| count.to_string());
    let mut compare = |key: &str, before, after| {
        changes.compare(&format!("budget.{key}"), ChangeClass::Free, before, after)
    };
    compare("trials", count(old.trials), count(new.trials));
    compare("count", written(&json(&old.count)), written(&json(&new.count)));
    compare("time", old.time.map(duration::format), new.time.map(duration::format));
    compare(
        "target",
        old.target.map(|target| target.to_string()),
        new.target.map(|target| target.to_string()),
    );
    compare("failures", count(old.failures), count(new.failures));
    compare(
        "trial_time",
        old.trial_time.map(duration::format),
        new.trial_time.map(duration::format),
    );
    compare(
        "stall_time",
        old.stall_time.map(duration::format),
        new.stall_time.map(duration::format),
    );
    compare("patience", count(old.patience), count(new.patience));
    let amount = |amount: Option<f64>| amount.map(|amount| amount.to_string());
    compare("device_hours", amount(old.device_hours), amount(new.device_hours));
    compare("cost", amount(old.cost), amount(new.cost));
    compare("price_per_hour", amount(old.price_per_hour), amount(new.price_per_hour));
}

fn space(changes: &mut Changes, old: &StudySpec, new: &StudySpec) {
    let names = |spec: &StudySpec| {
        spec.space.dimensions().iter().map(|dimension| dimension.name.clone()).collect::<Vec<_>>()
    };
    let (before, after) = (names(old), names(new));
    for name in before.iter().chain(after.iter().filter(|name| !before.contains(name))) {
        let text = |spec: &StudySpec| spec.space.dimension(name).map(dimension);
        changes.compare(&format!("space.{name}"), ChangeClass::NeedsAccept, text(old), text(new));
    }
    // The order of parameters decides the order of draws, and so the points that a seed gives.
    let (mut old_sorted, mut new_sorted) = (before.clone(), after.clone());
    old_sorted.sort();
    new_sorted.sort();
    if old_sorted == new_sorted {
        changes.compare(
            "space (order)",
            ChangeClass::NeedsAccept,
            Some(before.join(", ")),
            Some(after.join(", ")),
        );
    }
}

fn dimension(dimension: &Dimension) -> String {
    let mut text = describe(&dimension.distribution);
    if let Distribution::Choice { choices } = &dimension.distribution {
        // All of them: the abbreviation of messages would hide a change.
        text = format!(
            "one of {}",
            choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ")
        );
    }
    if let Distribution::Float { scale: Scale::Log, .. }
    | Distribution::Int { scale: Scale::Log, .. } = &dimension.distribution
    {
        text.push_str(" on a log axis");
    }
    if let Some(prior) = &dimension.prior {
        text.push_str(&format!(", prior {prior}"));
    }
    for (parent, values) in dimension.when.iter().flat_map(|when| &when.0) {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        text.push_str(&format!(", when {parent} is {}", values.join(" or ")));
    }
    text
}

fn constraints(changes: &mut Changes, old: &StudySpec, new: &StudySpec) {
    for index in 0..old.constraints.len().max(new.constraints.len()) {
        let text = |spec: &StudySpec| spec.constraints.get(index).map(ToString::to_string);
        changes.compare(
            &format!("constraint.{index}"),
            ChangeClass::NeedsAccept,
            text(old),
            text(new),
        );
    }
}

fn enqueue(changes: &mut Changes, old: &StudySpec, new: &StudySpec) {
    for index in 0..old.enqueue.len().max(new.enqueue.len()) {
        let text = |spec: &StudySpec| spec.enqueue.get(index).map(|params| format!("{{{params}}}"));
        changes.compare(
            &format!("enqueue.{index}"),
            ChangeClass::NeedsAccept,
            text(old),
            text(new),
        );
    }
}

fn policy(changes: &mut Changes, path: &str, old: &PolicySpec, new: &PolicySpec) {
    changes.compare(
        &format!("{path}.type"),
        ChangeClass::NeedsAccept,
        Some(old.name.clone()),
        Some(new.name.clone()),
    );
    if old.name == new.name {
        // The same words with another version of hpsearch: its rules changed.
        let version = |spec: &PolicySpec| Some(format!("rules {}", spec.version));
        changes.compare(
            &format!("{path} ({})", new.name),
            ChangeClass::NeedsAccept,
            version(old),
            version(new),
        );
    }
    changes.tables(path, ChangeClass::NeedsAccept, &old.options, &new.options);
}

fn program(changes: &mut Changes, old: &Program, new: &Program) {
    let kind = |program: &Program| match program {
        Program::Trainer { .. } => "[trainer]",
        Program::Command { .. } => "[command]",
        Program::Inline => "a closure",
    };
    if kind(old) != kind(new) {
        changes.compare(
            "program",
            ChangeClass::NeedsFork,
            Some(kind(old).to_owned()),
            Some(kind(new).to_owned()),
        );
        return;
    }
    match (old, new) {
        (
            Program::Trainer { arguments, data },
            Program::Trainer { arguments: new_arguments, data: new_data },
        ) => {
            changes.tables("trainer", ChangeClass::NeedsFork, arguments, new_arguments);
            changes.tables("data", ChangeClass::NeedsFork, data, new_data);
        }
        (
            Program::Command { run, cwd, env, args, metrics },
            Program::Command {
                run: new_run,
                cwd: new_cwd,
                env: new_env,
                args: new_args,
                metrics: new_metrics,
            },
        ) => {
            let [of_run, of_cwd, of_style, of_metrics] = COMMAND;
            changes.compare(
                of_run,
                ChangeClass::NeedsFork,
                written(&json(run)),
                written(&json(new_run)),
            );
            changes.compare(
                of_cwd,
                ChangeClass::NeedsFork,
                Some(cwd.display().to_string()),
                Some(new_cwd.display().to_string()),
            );
            changes.compare(
                of_style,
                ChangeClass::NeedsFork,
                written(&json(&args.style)),
                written(&json(&new_args.style)),
            );
            changes.compare(
                of_metrics,
                ChangeClass::NeedsFork,
                patterns(metrics),
                patterns(new_metrics),
            );
            // Their values are not stored; a changed one is taken.
            for name in env.keys().chain(new_env.keys()).collect::<BTreeSet<_>>() {
                let is_set = |env: &BTreeMap<String, EnvironmentValue>| {
                    env.contains_key(name).then(|| "set".to_owned())
                };
                let path = format!("command.env.{name}");
                changes.compare(&path, ChangeClass::Free, is_set(env), is_set(new_env));
                let value = |env: &BTreeMap<String, EnvironmentValue>| {
                    env.get(name).and_then(EnvironmentValue::get).map(str::to_owned)
                };
                if let (Some(old), Some(new)) = (value(env), value(new_env))
                    && old != new
                {
                    changes.0.push(Change::of_value(name));
                }
            }
        }
        _ => {}
    }
}

/// What may change at any time: where and how trials run, and what is kept of them.
fn operation(changes: &mut Changes, old: &StudySpec, new: &StudySpec) {
    let mut compare = |path: &str, of: &dyn Fn(&StudySpec) -> Option<String>| {
        changes.compare(path, ChangeClass::Free, of(old), of(new))
    };
    compare("devices.use", &|spec| Some(spec.devices.select.join(", ")));
    compare("devices.trials_per_device", &|spec| {
        let unsaid = if spec.devices.packed { "auto" } else { "default" };
        Some(spec.devices.trials_per_device.map_or(unsaid.to_owned(), |count| count.to_string()))
    });
    compare("devices.memory", &|spec| spec.devices.memory.map(size::format));
    compare("devices.cpu_threads", &|spec| Some(spec.devices.cpu_threads.to_string()));
    compare("retry.max", &|spec| Some(spec.retry.max.to_string()));
    compare("retry.on", &|spec| written(&json(&spec.retry.on)));
    compare("checkpoints.keep", &|spec| {
        Some(match spec.checkpoints.keep_best {
            None => "all".to_owned(),
            Some(0) => "none".to_owned(),
            Some(count) => format!("best-{count}"),
        })
    });
    compare("checkpoints.dir", &|spec| {
        spec.checkpoints.dir.as_ref().map(|dir| dir.display().to_string())
    });
    compare("checkpoints.max_disk", &|spec| spec.checkpoints.max_disk.map(size::format));
    compare("export.dir", &|spec| spec.export.dir.as_ref().map(|dir| dir.display().to_string()));
    compare("export.on_finish", &|spec| Some(spec.export.on_finish.to_string()));
    compare("export.quantize", &|spec| spec.export.quantize.map(|format| format.word().to_owned()));
}

fn json<T: Serialize + ?Sized>(value: &T) -> Json {
    serde_json::to_value(value).expect("specifications are plain data with string keys")
}

/// As it stands in messages: words without quotes, null as not set.
fn patterns(metrics: &MetricSources) -> Option<String> {
    (!metrics.pattern.is_empty()).then(|| json(&metrics.pattern).to_string())
}

fn written(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::space::Space;

    fn spec() -> StudySpec {
        let choice = |name: &str| Dimension {
            name: name.to_owned(),
            distribution: Distribution::choice(vec!["a".into(), "b".into()]).unwrap(),
            prior: None,
            when: None,
        };
        let space = Space::new(vec![choice("x"), choice("y")]).unwrap();
        let program = Program::Command {
            run: vec!["train".into()],
            cwd: "/tmp".into(),
            env: BTreeMap::new(),
            args: Default::default(),
            metrics: Default::default(),
        };
        StudySpec::new("s", "loss", Direction::Minimize, space, program)
    }

    #[test]
    fn equal_studies_have_no_difference_and_their_name_is_none() {
        let renamed = StudySpec { name: "t".into(), ..spec() };
        assert_eq!(difference(&spec(), &renamed), Vec::new());
    }

    #[test]
    fn each_kind_of_change_asks_for_what_the_contract_says() {
        let mut new = spec();
        new.budget.trials = Some(48);
        new.devices.cpu_threads = 4;
        new.checkpoints.keep_best = None;
        new.sampler = PolicySpec::named("grid").with("points", 3);
        new.seed = 7;
        new.objectives[0].direction = Direction::Maximize;
        let lines: Vec<String> = difference(&spec(), &new)
            .iter()
            .map(|change| format!("{change} {:?}", change.class))
            .collect();
        assert_eq!(
            lines,
            [
                "study.direction: minimize -> maximize NeedsFork",
                "study.seed: 0 -> 7 NeedsFork",
                "budget.trials: not set -> 48 Free",
                "sampler.type: random -> grid NeedsAccept",
                "sampler.points: not set -> 3 NeedsAccept",
                "devices.cpu_threads: 1 -> 4 Free",
                "checkpoints.keep: best-3 -> all Free",
            ]
        );
    }

    #[test]
    fn the_order_of_parameters_is_a_change() {
        let mut dimensions: Vec<Dimension> = spec().space.into();
        dimensions.reverse();
        let new = StudySpec { space: Space::new(dimensions).unwrap(), ..spec() };
        assert_eq!(difference(&spec(), &new)[0].to_string(), "space (order): x, y -> y, x");
    }
}
