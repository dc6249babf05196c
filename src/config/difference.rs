//! Differences between two versions of a study, and the consent that each requires.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::Value as Json;

use super::tables::{keep_word, period_word};
use crate::study::counted::count;
use crate::study::params::{Value, cut};
use crate::study::program::{EnvironmentValue, MetricSources, Program};
use crate::study::space::{Dimension, Distribution, Scale};
use crate::study::spec::{AlgorithmSpec, PerTrial, StudySpec};
use crate::study::{duration, size};

/// The consent that a change requires when a study is run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeClass {
    /// No consent: no earlier trial would have been decided differently.
    Free,
    /// `--accept`: earlier trials were proposed or judged differently.
    NeedsAccept,
    /// `--fork NAME`: earlier trials are not comparable.
    NeedsFork,
}

use ChangeClass::{Free, NeedsAccept, NeedsFork};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Dotted key: `budget.trials`.
    pub path: String,
    /// Before; `None`: not set.
    pub old: Option<String>,
    /// After; `None`: not set.
    pub new: Option<String>,
    /// The consent it requires.
    pub class: ChangeClass,
}

impl Change {
    /// A changed value of a variable of `[command] env`, which may be a secret: needs no consent,
    /// and is shown by name only.
    pub fn of_value(name: &str) -> Self {
        let (path, old, new) = (
            format!("command.env.{name}"),
            Some("one value".to_owned()),
            Some("another".to_owned()),
        );
        Change { path, old, new, class: Free }
    }

    /// Changed contents of files behind a key, with abbreviated digests.
    pub fn of_contents(key: &str, old: &str, new: &str, class: ChangeClass) -> Self {
        let side = |digest: &str| Some(format!("contents {digest}"));
        Change { path: key.to_owned(), old: side(old), new: side(new), class }
    }
}

impl fmt::Display for Change {
    /// `budget.trials: 24 -> 48`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [old, new] = [&self.old, &self.new].map(|side| side.as_deref().unwrap_or("not set"));
        let same = old.chars().zip(new.chars()).take_while(|(old, new)| old == new).count();
        write!(f, "{}: {} -> {}", self.path, around(old, same), around(new, same))
    }
}

/// Most characters of a side of a change that are shown.
const MOST_SHOWN: usize = 2_000;

/// A side of a change, or of a very long one the part where the two begin to differ.
fn around(side: &str, same: usize) -> String {
    if side.len() <= MOST_SHOWN {
        return side.to_owned();
    }
    const BEFORE: usize = 100;
    match same.checked_sub(BEFORE) {
        Some(skipped) if skipped > BEFORE => {
            let rest: String = side.chars().skip(skipped).collect();
            format!("...{}", cut(&rest, MOST_SHOWN / 4))
        }
        _ => cut(side, MOST_SHOWN / 4),
    }
}

/// What a stored study has measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// No trial has reported an objective.
    Nothing,
    /// Some have, and none is complete.
    Reports,
    /// Some trials are complete.
    Results,
}

/// The differences to a stored study. While no trial is complete, the command may change with
/// `--accept`: no result becomes incomparable. While nothing of an objective was reported, the
/// objectives may change freely.
pub fn difference_to_stored(old: &StudySpec, new: &StudySpec, measured: Measured) -> Vec<Change> {
    let mut changes = difference(old, new);
    for change in &mut changes {
        change.class = match measured {
            Measured::Nothing if is_objective(&change.path) => Free,
            Measured::Nothing | Measured::Reports if COMMAND.contains(&change.path.as_str()) => {
                NeedsAccept
            }
            _ => change.class,
        };
    }
    changes
}

/// Whether a key says which report of which metric is the value, and which is better.
fn is_objective(path: &str) -> bool {
    path.starts_with("study.objective.")
        || ["study.metric", "study.direction", "study.value"].contains(&path)
}

/// The keys of a command.
const COMMAND: [&str; 6] = [
    "command.run",
    "command.cwd",
    "command.args_style",
    "command.metrics.pattern",
    "command.metrics.json",
    "command.metrics.tensorboard",
];

/// All differences, in the order of the study file's tables. The name is not compared: it
/// identifies the study.
pub fn difference(old: &StudySpec, new: &StudySpec) -> Vec<Change> {
    let mut changes = Changes { old, new, list: Vec::new() };
    study(&mut changes);
    space(&mut changes);
    changes.compare("space.file", NeedsAccept, |spec| {
        let rows = serde_json::to_vec(&spec.candidates).unwrap_or_default();
        let digest = blake3::hash(&rows).to_hex();
        let points = spec.candidates.len() as u64;
        (points > 0).then(|| format!("{}, digest {}", count(points, "configuration"), &digest[..8]))
    });
    let constraints = old.constraints.len().max(new.constraints.len());
    for index in 0..constraints {
        changes.compare(&format!("constraint.{index}"), NeedsAccept, |spec| {
            spec.constraints.get(index).map(ToString::to_string)
        });
    }
    for index in 0..old.enqueue.len().max(new.enqueue.len()) {
        changes.compare(&format!("enqueue.{index}"), NeedsAccept, |spec| {
            spec.enqueue.get(index).map(|params| format!("{{{params}}}"))
        });
    }
    registered(&mut changes, "sampler", |spec| &spec.sampler);
    changes.compare("sampler.warm_start", NeedsAccept, |spec| {
        (!spec.warm_start.is_empty()).then(|| spec.warm_start.join(", "))
    });
    registered(&mut changes, "pruner", |spec| &spec.pruner);
    program(&mut changes);
    operation(&mut changes);
    changes.list
}

struct Changes<'a> {
    old: &'a StudySpec,
    new: &'a StudySpec,
    list: Vec<Change>,
}

impl Changes<'_> {
    /// Compares `of` for both.
    fn compare(
        &mut self,
        path: &str,
        class: ChangeClass,
        of: impl Fn(&StudySpec) -> Option<String>,
    ) {
        self.add(path, class, of(self.old), of(self.new));
    }

    fn add(&mut self, path: &str, class: ChangeClass, old: Option<String>, new: Option<String>) {
        if old != new {
            self.list.push(Change { path: path.to_owned(), old, new, class });
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
        for key in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
            let value = |table: &BTreeMap<String, Json>| table.get(key).and_then(text_of);
            self.add(&format!("{path}.{key}"), class, value(old), value(new));
        }
    }
}

fn study(changes: &mut Changes<'_>) {
    changes.compare("study.description", Free, |spec| {
        spec.description.as_ref().map(|text| format!("{text:?}"))
    });
    changes.compare("study.tags", Free, |spec| {
        if spec.tags.is_empty() { None } else { written(&spec.tags) }
    });
    for index in 0..changes.old.objectives.len().max(changes.new.objectives.len()) {
        let path = if index == 0 { "study".to_owned() } else { format!("study.objective.{index}") };
        changes.compare(&format!("{path}.metric"), NeedsFork, |spec| {
            spec.objectives.get(index).map(|objective| objective.metric.clone())
        });
        changes.compare(&format!("{path}.direction"), NeedsFork, |spec| {
            spec.objectives.get(index).and_then(|objective| written(&objective.direction))
        });
        // Like the target, it decides when the study ends, and how its front is measured.
        changes.compare(&format!("{path}.threshold"), Free, |spec| {
            spec.objectives.get(index)?.threshold.map(|threshold| threshold.to_string())
        });
    }
    changes.compare("study.value", NeedsFork, |spec| written(&spec.value));
    changes.compare("study.step", NeedsFork, |spec| written(&spec.step));
    changes.compare("study.seed", NeedsFork, |spec| written(&spec.seed));
    // Like the sampler, these decide which configurations are proposed and run.
    changes.compare("study.duplicates", NeedsAccept, |spec| written(&spec.duplicates));
    changes.compare("study.deterministic", NeedsAccept, |spec| written(&spec.deterministic));
    changes.compare("study.replicates", NeedsAccept, |spec| written(&spec.replicates));
    changes.compare("study.race", Free, |spec| written(&spec.race));
    changes.compare("budget.trials", Free, |spec| written(&spec.budget.trials));
    changes.compare("budget.count", Free, |spec| written(&spec.budget.count));
    changes.compare("budget.time", Free, |spec| spec.budget.time.map(duration::format));
    let number = |number: Option<f64>| number.map(|number| number.to_string());
    changes.compare("budget.target", Free, |spec| number(spec.budget.target));
    changes.compare("budget.failures", Free, |spec| written(&spec.budget.failures));
    changes.compare("budget.trial_time", Free, |spec| spec.budget.trial_time.map(duration::format));
    changes.compare("budget.stall_time", Free, |spec| spec.budget.stall_time.map(duration::format));
    changes.compare("budget.trial_patience", Free, |spec| written(&spec.budget.trial_patience));
    changes.compare("budget.trial_min_delta", Free, |spec| number(spec.budget.trial_min_delta));
    changes.compare("budget.patience", Free, |spec| written(&spec.budget.patience));
    changes.compare("budget.device_hours", Free, |spec| number(spec.budget.device_hours));
    changes.compare("budget.cost", Free, |spec| number(spec.budget.cost));
    changes.compare("budget.price_per_hour", Free, |spec| number(spec.budget.price_per_hour));
}

fn space(changes: &mut Changes<'_>) {
    let names = |spec: &StudySpec| {
        spec.space.dimensions().iter().map(|dimension| dimension.name.clone()).collect::<Vec<_>>()
    };
    let (before, after) = (names(changes.old), names(changes.new));
    for name in before.iter().chain(after.iter().filter(|name| !before.contains(name))) {
        changes.compare(&format!("space.{name}"), NeedsAccept, |spec| {
            spec.space.dimension(name).map(dimension)
        });
    }
    // The order of parameters determines the order of draws, and so the configurations for a seed.
    if before.iter().collect::<BTreeSet<_>>() == after.iter().collect::<BTreeSet<_>>() {
        changes.compare("space (order)", NeedsAccept, |spec| Some(names(spec).join(", ")));
    }
}

fn dimension(dimension: &Dimension) -> String {
    let all = |values: &[Value], separator: &str| {
        values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(separator)
    };
    let mut text = match &dimension.distribution {
        // All of them: an abbreviation would hide a change.
        Distribution::Choice { choices } => format!("one of {}", all(choices, ", ")),
        range @ (Distribution::Float { scale, .. } | Distribution::Int { scale, .. }) => {
            let axis = if *scale == Scale::Log { " on a log axis" } else { "" };
            format!("{range}{axis}")
        }
    };
    if let Some(prior) = &dimension.prior {
        text.push_str(&format!(", prior {prior}"));
    }
    for (parent, values) in dimension.when.iter().flat_map(|when| &when.0) {
        text.push_str(&format!(", when {parent} is {}", all(values, " or ")));
    }
    text
}

fn registered(changes: &mut Changes<'_>, path: &str, of: fn(&StudySpec) -> &AlgorithmSpec) {
    let (old, new) = (of(changes.old), of(changes.new));
    changes.compare(&format!("{path}.type"), NeedsAccept, |spec| Some(of(spec).name.clone()));
    if old.name == new.name {
        // The same table under another version of hpsearch: the rules changed.
        changes.compare(&format!("{path} ({})", new.name), NeedsAccept, |spec| {
            Some(format!("rules {}", of(spec).version))
        });
    }
    changes.tables(path, NeedsAccept, &old.options, &new.options);
}

fn program(changes: &mut Changes<'_>) {
    let kind = |program: &Program| match program {
        Program::Trainer { .. } => "[trainer]",
        Program::Command { .. } => "[command]",
        Program::Inline => "a closure",
    };
    match (&changes.old.program, &changes.new.program) {
        (
            Program::Trainer { arguments, data },
            Program::Trainer { arguments: new_arguments, data: new_data },
        ) => {
            changes.tables("trainer", NeedsFork, arguments, new_arguments);
            changes.tables("data", NeedsFork, data, new_data);
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
            let [of_run, of_cwd, of_style, of_pattern, of_json, of_events] = COMMAND;
            changes.add(of_run, NeedsFork, written(run), written(new_run));
            changes.add(of_cwd, NeedsFork, written(cwd), written(new_cwd));
            changes.add(of_style, NeedsFork, written(&args.style), written(&new_args.style));
            changes.add(of_pattern, NeedsFork, patterns(metrics), patterns(new_metrics));
            changes.add(of_json, NeedsFork, written(&metrics.json), written(&new_metrics.json));
            let (old, new) = (written(&metrics.tensorboard), written(&new_metrics.tensorboard));
            changes.add(of_events, NeedsFork, old, new);
            // Their values are not stored; changes need no consent.
            for name in env.keys().chain(new_env.keys()).collect::<BTreeSet<_>>() {
                let is_set = |env: &BTreeMap<String, EnvironmentValue>| {
                    env.contains_key(name).then(|| "set".to_owned())
                };
                changes.add(&format!("command.env.{name}"), Free, is_set(env), is_set(new_env));
                let value = |env: &BTreeMap<String, EnvironmentValue>| {
                    env.get(name).and_then(EnvironmentValue::get).map(str::to_owned)
                };
                if let (Some(old), Some(new)) = (value(env), value(new_env))
                    && old != new
                {
                    changes.list.push(Change::of_value(name));
                }
            }
        }
        _ => changes.compare("program", NeedsFork, |spec| Some(kind(&spec.program).to_owned())),
    }
}

/// What may change at any time: where and how trials run, and what is kept of them.
fn operation(changes: &mut Changes<'_>) {
    changes.compare("devices.use", Free, |spec| Some(spec.devices.select.join(", ")));
    changes.compare("devices.trials_per_device", Free, |spec| {
        let unsaid = if spec.devices.automatic_concurrency { "auto" } else { "default" };
        Some(spec.devices.trials_per_device.map_or(unsaid.to_owned(), |count| count.to_string()))
    });
    changes.compare("devices.per_trial", Free, |spec| {
        Some(match spec.devices.per_trial {
            None => "1".to_owned(),
            Some(PerTrial::Count(count)) => count.to_string(),
            Some(PerTrial::Auto) => "auto".to_owned(),
        })
    });
    changes.compare("devices.nodes_per_trial", Free, |spec| written(&spec.devices.nodes_per_trial));
    changes.compare("devices.per_device", Free, |spec| written(&spec.devices.per_device));
    changes.compare("devices.memory", Free, |spec| spec.devices.memory.map(size::format));
    changes.compare("devices.cpu_threads", Free, |spec| written(&spec.devices.cpu_threads));
    changes.compare("cluster", Free, |spec| spec.cluster.as_ref().and_then(written));
    changes.compare("retry.max", Free, |spec| written(&spec.retry.max));
    changes.compare("retry.on", Free, |spec| written(&spec.retry.on));
    changes.compare("checkpoints.keep", Free, |spec| Some(keep_word(spec.checkpoints.keep_best)));
    changes.compare("checkpoints.dir", Free, |spec| written(&spec.checkpoints.dir));
    changes
        .compare("checkpoints.max_disk", Free, |spec| spec.checkpoints.max_disk.map(size::format));
    changes.compare("checkpoints.while_running", Free, |spec| {
        Some(spec.checkpoints.while_running.word().to_owned())
    });
    changes.compare("export.dir", Free, |spec| written(&spec.export.dir));
    changes.compare("export.on_finish", Free, |spec| written(&spec.export.on_finish));
    changes.compare("export.quantize", Free, |spec| written(&spec.export.quantize));
    changes.compare("track.system", Free, |spec| Some(period_word(spec.track.system)));
    changes.compare("notify.command", Free, |spec| {
        (!spec.notify.command.is_empty()).then(|| written(&spec.notify.command))?
    });
    changes.compare("notify.webhook", Free, |spec| spec.notify.webhook.clone());
    changes.compare("notify.on", Free, |spec| written(&spec.notify.on));
    changes.compare("track.to", Free, |spec| {
        (!spec.track.to.is_empty()).then(|| written(&spec.track.to))?
    });
}

/// A value of a specification in messages.
fn written<T: Serialize + ?Sized>(value: &T) -> Option<String> {
    let json = serde_json::to_value(value);
    text_of(&json.expect("specifications are plain data with string keys"))
}

fn patterns(metrics: &MetricSources) -> Option<String> {
    (!metrics.pattern.is_empty()).then(|| written(&metrics.pattern))?
}

/// Strings without quotes, null as not set.
fn text_of(value: &Json) -> Option<String> {
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
        let choice = Distribution::choice(vec!["a".into(), "b".into()]).unwrap();
        let dimensions = ["x", "y"].map(|name| Dimension::new(name, choice.clone()));
        let space = Space::new(dimensions.into()).unwrap();
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
        new.sampler = AlgorithmSpec::named("grid").with("points", 3);
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
    fn an_objective_that_was_never_reported_may_change() {
        let mut new = spec();
        new.objectives[0].metric = "error".to_owned();
        new.seed = 7;
        let classes = |measured| -> Vec<ChangeClass> {
            let changes = difference_to_stored(&spec(), &new, measured);
            changes.iter().map(|change| change.class).collect()
        };
        assert_eq!(classes(Measured::Nothing), [Free, NeedsFork]);
        assert_eq!(classes(Measured::Reports), [NeedsFork, NeedsFork]);
    }

    #[test]
    fn the_order_of_parameters_is_a_change() {
        let mut dimensions: Vec<Dimension> = spec().space.into();
        dimensions.reverse();
        let new = StudySpec { space: Space::new(dimensions).unwrap(), ..spec() };
        assert_eq!(difference(&spec(), &new)[0].to_string(), "space (order): x, y -> y, x");
    }
}
