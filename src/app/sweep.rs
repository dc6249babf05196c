//! A sweep of Weights & Biases as a study file.
//!
//! What has a counterpart is translated exactly; the nearest stands for the rest, with a comment in
//! the file and a note for the user. The format is that of W&B's sweep configuration, with its
//! defaults.

mod command;
mod early_terminate;
mod parameter;
mod python;
mod study_file;
#[cfg(test)]
mod tests;
mod yaml;

use self::command::Command;
use self::early_terminate::Pruner;
use self::parameter::{Parameter, Values};
use self::yaml::{Entry, Item, Node};
use crate::config::{Diagnostic, Diagnostics, Source, SourceSpan};
use crate::study::metric::Direction;
use crate::study::suggestion::{nearest, quoted};
use crate::study::usual_direction::proposed_direction;

pub use self::yaml::LARGEST_FILE;

/// The budget of a sweep without `run_cap`, which would go on until it is stopped.
const TRIALS: u64 = 24;

/// A sweep, translated.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Its file, for messages.
    file: String,
    /// Its name, or that of its project.
    name: Option<String>,
    description: Option<String>,
    method: Method,
    objectives: Vec<Objective>,
    target: Option<f64>,
    budget: Budget,
    parameters: Vec<Parameter>,
    command: Command,
    pruner: Option<Pruner>,
    notes: Vec<String>,
}

/// What the user gives besides the sweep.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The metric, instead of the sweep's.
    pub metric: Option<String>,
    /// The number of trials, instead of `run_cap`.
    pub trials: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Grid,
    Random,
    Bayes,
    Custom,
}

#[derive(Clone, Debug, PartialEq)]
struct Objective {
    metric: String,
    direction: Direction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Budget {
    /// `run_cap`, which counts all runs.
    Cap(u64),
    /// Given by the user.
    Given(u64),
    /// A grid has an end.
    Grid,
    /// Nothing ends the sweep: this many trials end the study.
    Default,
}

/// Problems, and what the study has not of the sweep.
#[derive(Debug, Default)]
struct Findings {
    problems: Vec<Diagnostic>,
    notes: Vec<String>,
}

impl Findings {
    fn problem(&mut self, problem: Diagnostic) {
        self.problems.push(problem);
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }
}

/// The keys that mean something to a study, and those that do not.
const KEYS: [&str; 9] = [
    "program",
    "command",
    "method",
    "metric",
    "metrics",
    "parameters",
    "early_terminate",
    "run_cap",
    "name",
];
/// Where runs are shown and by whom they are started: nothing to translate.
const SILENT: [&str; 6] = ["description", "project", "entity", "controller", "apiVersion", "kind"];
/// Of W&B Launch and of schedulers.
const OTHER: [&str; 3] = ["job", "image_uri", "scheduler"];

impl Sweep {
    /// Translates the sweep in `text`; `file` is its name in messages.
    ///
    /// # Errors
    /// All problems of the file.
    pub fn read(text: &str, file: &str, given: &Given) -> Result<Self, Diagnostics> {
        let sources = || vec![Source { name: file.to_owned(), text: text.to_owned() }];
        let root =
            yaml::read(text).map_err(|problem| Diagnostics::new(sources(), vec![*problem]))?;
        let mut found = Findings::default();
        let sweep = Sweep::of_root(&root, file, given, &mut found);
        match sweep {
            Some(sweep) if !found.has_problems() => Ok(Sweep { notes: found.notes, ..sweep }),
            _ => Err(Diagnostics::new(sources(), found.problems)),
        }
    }

    /// Its name, or that of its project.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What the study has not of the sweep, or has otherwise, a line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The study file, with the name of the study.
    pub fn study_file(&self, name: &str) -> String {
        study_file::text(self, name)
    }

    fn of_root(root: &Node, file: &str, given: &Given, found: &mut Findings) -> Option<Self> {
        let Some(entries) = root.entries() else {
            let message = format!("a sweep is a mapping, not {}", root.kind());
            found.problem(
                Diagnostic::error(root.place, message).help("it has `method` and `parameters`"),
            );
            return None;
        };
        let get = |key: &str| entries.iter().find(|entry| entry.key == key);
        check_keys(entries, found);
        let method = method(get("method"), root.place, found);
        let is_grid = method == Some(Method::Grid);
        let parameters = match get("parameters") {
            Some(map) => parameter::read(map, &[], is_grid, found),
            None => {
                let message = "the sweep has no `parameters`";
                found.problem(
                    Diagnostic::error(root.place, message)
                        .help("write `parameters:` with a line for each parameter"),
                );
                Vec::new()
            }
        };
        check_parameters(&parameters, get("parameters"), found);
        let (objectives, target) = objectives(get("metric"), get("metrics"), given, found);
        let budget = budget(get("run_cap"), is_grid, given, found);
        let pruner = get("early_terminate")
            .and_then(|entry| early_terminate::read(entry, &parameters, found));
        let command = command::read(get("command"), get("program"), &parameters, found);
        if method == Some(Method::Custom) {
            found.note(
                "`method: custom`: the scheduler is code, which is not read; `auto` proposes"
                    .to_owned(),
            );
        }
        if let Some(nested) = parameters.iter().find(|parameter| parameter.path.len() > 1) {
            let name = python::string(&nested.name);
            found.note(format!(
                "nested parameters have dotted names for the program: `run.config[{name}]`"
            ));
        }
        let text = |key: &str| get(key).map(|entry| python::text(&entry.value));
        Some(Sweep {
            file: file.to_owned(),
            name: text("name").or_else(|| text("project")).filter(|name| !name.is_empty()),
            description: text("description").filter(|text| !text.is_empty()),
            method: method?,
            objectives,
            target,
            budget,
            parameters,
            command,
            pruner,
            notes: Vec::new(),
        })
    }
}

fn check_keys(entries: &[Entry], found: &mut Findings) {
    let known = || KEYS.iter().chain(&SILENT).chain(&OTHER).copied();
    for entry in entries {
        let key = entry.key.as_str();
        if OTHER.contains(&key) {
            found.note(format!("`{key}` has no counterpart: trials are processes of `run`"));
        } else if !known().any(|known| known == key) {
            match nearest(key, known()) {
                Some(near) => found.problem(
                    Diagnostic::error(entry.place, format!("a sweep has no key `{key}`"))
                        .help(format!("did you mean `{near}`?")),
                ),
                None => found.note(format!("`{key}` is not a key of a sweep, and is left out")),
            }
        }
    }
}

fn method(entry: Option<&Entry>, root: SourceSpan, found: &mut Findings) -> Option<Method> {
    let known = ["grid", "random", "bayes", "custom"];
    let given = entry.and_then(|entry| entry.value.text());
    let method = match given {
        Some("grid") => Some(Method::Grid),
        Some("random") => Some(Method::Random),
        Some("bayes") => Some(Method::Bayes),
        Some("custom") => Some(Method::Custom),
        _ => None,
    };
    if method.is_none() {
        let message = match (entry, given) {
            (None, _) => "the sweep has no `method`".to_owned(),
            (_, Some(given)) => format!("there is no method `{given}`"),
            (Some(entry), None) => {
                format!("`method` must be a word, not {}", entry.value.kind())
            }
        };
        let help = match given.and_then(|given| nearest(given, known)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("W&B's are {}", quoted(known)),
        };
        let place = entry.map_or(root, |entry| entry.place);
        found.problem(Diagnostic::error(place, message).help(help));
    }
    method
}

fn check_parameters(parameters: &[Parameter], map: Option<&Entry>, found: &mut Findings) {
    let Some(map) = map else { return };
    for (at, parameter) in parameters.iter().enumerate() {
        if parameters[..at].iter().any(|earlier| earlier.name == parameter.name) {
            let message = format!("the parameter `{}` is defined twice", parameter.name);
            found.problem(
                Diagnostic::error(map.place, message)
                    .help("a nested parameter has the name of the mapping before its own"),
            );
        }
        // A table of TOML cannot be a parameter, too.
        let within = format!("{}.", parameter.name);
        if let Some(inner) = parameters.iter().find(|other| other.name.starts_with(&within)) {
            let message =
                format!("`{}` is a parameter, and `{}` is within it", parameter.name, inner.name);
            found.problem(Diagnostic::error(map.place, message).help("rename one of them"));
        }
    }
    let is_searched = |parameter: &Parameter| matches!(parameter.values, Values::Searched(_));
    if !found.has_problems() && !parameters.iter().any(is_searched) {
        found.problem(
            Diagnostic::error(map.place, "all parameters have one value: nothing is searched")
                .help("give one of them `values`, or `min` and `max`"),
        );
    }
}

fn objectives(
    metric: Option<&Entry>,
    metrics: Option<&Entry>,
    given: &Given,
    found: &mut Findings,
) -> (Vec<Objective>, Option<f64>) {
    if let (Some(metric), Some(metrics)) = (metric, metrics) {
        let message = "`metric` and `metrics` cannot both be given";
        found.problem(
            Diagnostic::error(metrics.place, message)
                .related(metric.place, "the other one")
                .help("keep one of them"),
        );
        return (Vec::new(), None);
    }
    if let Some(entry) = metrics {
        let Item::List(list) = &entry.value.item else {
            let message = format!("`metrics` must be a list, not {}", entry.value.kind());
            found.problem(Diagnostic::error(entry.place, message).help("or write `metric`"));
            return (Vec::new(), None);
        };
        let objectives: Vec<_> =
            list.iter().filter_map(|node| objective(node, entry.place, found)).collect();
        if objectives.iter().any(|(_, target)| target.is_some()) {
            found.note(
                "`target` of several metrics is left out: [budget] target is a hypervolume"
                    .to_owned(),
            );
        }
        return (objectives.into_iter().map(|(objective, _)| objective).collect(), None);
    }
    let read = metric.and_then(|entry| objective(&entry.value, entry.place, found));
    match (&given.metric, read) {
        (Some(name), read) => {
            let target = read.as_ref().and_then(|(_, target)| *target);
            let direction = match read {
                Some((objective, _)) => objective.direction,
                None => proposed_direction(name),
            };
            (vec![Objective { metric: name.clone(), direction }], target)
        }
        (None, Some((objective, target))) => (vec![objective], target),
        (None, None) => {
            if metric.is_none() {
                found.note(
                    "the sweep has no `metric`, which a study compares its trials by: `loss` is a \
                     guess; `--metric NAME` gives another"
                        .to_owned(),
                );
            }
            (vec![Objective { metric: "loss".to_owned(), direction: Direction::Minimize }], None)
        }
    }
}

/// A metric and its target.
fn objective(
    node: &Node,
    place: SourceSpan,
    found: &mut Findings,
) -> Option<(Objective, Option<f64>)> {
    let get = |key: &str| node.entries()?.iter().find(|entry| entry.key == key);
    let Some(name) = get("name").and_then(|entry| entry.value.text()).filter(|n| !n.is_empty())
    else {
        let message = "a metric needs a `name`";
        found.problem(
            Diagnostic::error(place, message).help("write `metric: {name: loss, goal: minimize}`"),
        );
        return None;
    };
    let direction = match get("goal").map(|entry| (entry.value.text(), entry)) {
        None | Some((Some("minimize"), _)) => Direction::Minimize,
        Some((Some("maximize"), _)) => Direction::Maximize,
        // W&B takes any other word for its default; that is hardly what was meant.
        Some((_, entry)) => {
            let message = "`goal` must be `minimize` or `maximize`";
            found.problem(Diagnostic::error(entry.place, message).help("correct the word"));
            Direction::Minimize
        }
    };
    let target = get("target").and_then(|entry| {
        let number = entry.value.number();
        if number.is_none() {
            let message = format!("`target` must be a number, not {}", entry.value.kind());
            found.problem(Diagnostic::error(entry.place, message).help("write it without quotes"));
        }
        number
    });
    for entry in node.entries().unwrap_or_default() {
        match entry.key.as_str() {
            "name" | "goal" | "target" => {}
            "impute" | "impute_while_running" => found.note(format!(
                "`metric.{}` is left out: the samplers have rules of their own for failed trials",
                entry.key
            )),
            key => found.note(format!("`metric.{key}` is not a key of a sweep, and is left out")),
        }
    }
    Some((Objective { metric: name.to_owned(), direction }, target))
}

fn budget(entry: Option<&Entry>, is_grid: bool, given: &Given, found: &mut Findings) -> Budget {
    let cap = entry.and_then(|entry| {
        let cap = match entry.value.item {
            Item::Int(int) => u64::try_from(int).ok().filter(|cap| *cap > 0),
            _ => None,
        };
        if cap.is_none() {
            let message = "`run_cap` must be an integer above 0";
            found.problem(Diagnostic::error(entry.place, message).help("such as 50"));
        }
        cap
    });
    match (given.trials, cap) {
        (Some(trials), _) => Budget::Given(trials),
        (None, Some(cap)) => Budget::Cap(cap),
        (None, None) if is_grid => Budget::Grid,
        (None, None) => {
            found.note(format!(
                "the sweep has no `run_cap`, and would go on until it is stopped: the study ends \
                 after {TRIALS} trials ([budget] trials)"
            ));
            Budget::Default
        }
    }
}
