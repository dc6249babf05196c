//! The tree of a study file to a resolved study, or all that is wrong with it.

use std::path::Path;

use super::command;
use super::command_metrics;
use super::constraint;
use super::diagnostic::{Diagnostic, Place};
use super::enqueue;
use super::file;
use super::honest;
use super::keys::{self, Contents, Key, TABLES};
use super::policies::{self, Chosen, Kind};
use super::section::{Section, not_yet};
use super::space::{self, Searched};
use super::suggestion::{nearest, quoted};
use super::syntax::{Entry, Item, Node, Table};
use super::trainer::{self, Arguments};
use super::{STUDY_NAME_RULE, is_study_name};
use crate::arguments::TaskKind;
use crate::study::metric::Direction;
use crate::study::params::Params;
use crate::study::spec::{
    Budget, CheckpointsSpec, Count, DevicesSpec, Duplicates, ExportSpec, FailureCause, Objective,
    Program, Quantize, RetrySpec, StepClock, StudySpec, ValueRule,
};
use crate::{pruners, samplers};

/// The study of `tree`. `stem`: its name if it has none; `base`: the absolute directory that paths are relative to.
/// `None` only when `problems` has an error.
pub(super) fn resolve(
    tree: &Table,
    stem: &str,
    base: &Path,
    problems: &mut Vec<Diagnostic>,
) -> Option<StudySpec> {
    check_tables(tree, problems);
    let file = StudyFile { tree, base, meant: meant(tree) };
    let study = file.section("study", problems);
    let name = name(&study, stem, problems);
    let objective = if study.place.is_some() || file.lacks("study") {
        objective(&study, problems)
    } else {
        None
    };
    let budget = file.section("budget", problems);
    check_cost(&budget, problems);
    let searched = file.space(problems);
    let sampler = policies::read(Kind::Sampler, file.table("sampler"), problems);
    let pruner = policies::read(Kind::Pruner, file.table("pruner"), problems);
    let (program, arguments) = file.program(searched.as_ref(), problems);
    let enqueue = match (file.tree.get("enqueue"), &searched) {
        (Some(entry), Some(searched)) => enqueue::read(entry, searched, problems),
        _ => Vec::<Params>::new(),
    };
    let constraints = file
        .tree
        .get("constraint")
        .map(|entry| constraint::read(entry, searched.as_ref(), problems))
        .unwrap_or_default();
    constraint::check_enqueued(&constraints, &enqueue, file.tree.get("enqueue"), problems);
    let devices_table = file.section("devices", problems);
    let devices = devices(&devices_table, problems);
    let retry = retry(&file.section("retry", problems));
    let checkpoints = checkpoints(&file.section("checkpoints", problems), base, problems);
    let export = export(&file.section("export", problems), base, problems);
    if let Some(arguments) = &arguments {
        check_metric(&study, objective.as_ref(), TaskKind::of(&arguments.values), problems);
    }

    let searched = searched?;
    let (Some(space), Some(sampler), Some(pruner), Some(objective), Some(program)) =
        (searched.space.clone(), sampler, pruner, objective, program)
    else {
        return None;
    };
    // Together only what is sound alone.
    if let Some(arguments) = arguments.as_ref().filter(|_| !has_errors(problems)) {
        trainer::check_together(arguments, &space, &constraints, &searched, problems);
    }
    let spec = StudySpec {
        description: study.text("description").map(str::to_owned),
        tags: study.texts("tags").unwrap_or_default(),
        value: if study.text("value") == Some("last") { ValueRule::Last } else { ValueRule::Best },
        step: match study.text("step") {
            Some("step") => StepClock::Step,
            Some("samples") => StepClock::Samples,
            _ => StepClock::Epoch,
        },
        seed: study.whole("seed").unwrap_or(0),
        duplicates: match study.text("duplicates") {
            Some("allow") => Duplicates::Allow,
            Some("replicate") => Duplicates::Replicate,
            _ => Duplicates::Skip,
        },
        deterministic: study.is_set("deterministic"),
        replicates: study.whole("replicates").unwrap_or(1),
        race: study.whole("race").unwrap_or(0),
        budget: read_budget(&budget),
        enqueue,
        constraints,
        warm_start: sampler.warm_start.clone(),
        sampler: sampler.spec.clone(),
        pruner: pruner.spec.clone(),
        devices,
        retry,
        checkpoints,
        export,
        ..StudySpec::new(&name, &objective.metric, objective.direction, space, program)
    };
    let unlimited =
        ["trials", "time", "target", "device_hours", "cost"].iter().all(|key| budget.lacks(key))
            && (budget.place.is_some() || file.lacks("budget"));
    check_sampler(&spec, &sampler, unlimited.then_some(&budget), problems);
    check_pruner(
        &spec,
        &pruner,
        arguments.as_ref().and_then(|arguments| arguments.place_of_length(spec.step)),
        problems,
    );
    command_metrics::check(&spec, file.tree, problems);
    honest::check(&spec, &budget, &devices_table, problems);
    Some(spec)
}

fn has_errors(problems: &[Diagnostic]) -> bool {
    problems.iter().any(|problem| problem.severity == super::Severity::Error)
}

/// Tables that are unknown, promised, or no tables.
fn check_tables(tree: &Table, problems: &mut Vec<Diagnostic>) {
    for entry in &tree.entries {
        let Some(table) = keys::find(&entry.key) else {
            problems.push(unknown_table(entry));
            continue;
        };
        match (table.contents, &entry.value.item) {
            (Contents::NotYet, _) => space::refuse(entry, "leave it out for now", problems),
            (Contents::Configurations | Contents::Constraints, _) | (_, Item::Table(_)) => {}
            (_, Item::List(_)) => {
                let problem =
                    Diagnostic::error(entry.place, format!("[{}] is a single table", table.name))
                        .label("double brackets make a list");
                problems.push(problem.help(format!("write [{}] with single brackets", table.name)));
            }
            _ => {
                let problem =
                    Diagnostic::error(entry.place, format!("`{}` is a table", table.name));
                let problem = problem.label(format!("this is {}", entry.value.describe()));
                let first =
                    if table.keys.iter().any(|key| key.name == "type") { "type" } else { "..." };
                problems.push(problem.help(format!(
                    "write [{}] on a line of its own, and `{first} = {}` under it",
                    table.name,
                    entry.value.to_json()
                )));
            }
        }
    }
}

fn unknown_table(entry: &Entry) -> Diagnostic {
    let names = TABLES.iter().map(|table| table.name);
    if matches!(entry.value.item, Item::Table(_) | Item::List(_))
        || keys::owners(&entry.key).next().is_none()
    {
        let problem =
            Diagnostic::error(entry.place, format!("a study file has no table `{}`", entry.key))
                .label("unknown table");
        return match nearest(&entry.key, names.clone()) {
            Some(near) => problem.help(format!("did you mean [{near}]?")),
            None => problem.help(format!("its tables are {}", quoted(names))),
        };
    }
    let owner = keys::owners(&entry.key).next().map_or("study", |table| table.name);
    Diagnostic::error(entry.place, format!("`{}` is in no table", entry.key))
        .help(format!("write it under [{owner}]"))
}

struct StudyFile<'a> {
    tree: &'a Table,
    base: &'a Path,
    /// Tables that unknown ones were probably meant to be.
    meant: Vec<&'static str>,
}

/// What unknown tables were probably meant to be: those are not missing as well.
fn meant(tree: &Table) -> Vec<&'static str> {
    let names = TABLES.iter().map(|table| table.name);
    let unknown = tree.entries.iter().filter(|entry| keys::find(&entry.key).is_none());
    unknown
        .filter_map(|entry| nearest(&entry.key, names.clone()))
        .filter_map(keys::find)
        .map(|table| table.name)
        .collect()
}

impl<'a> StudyFile<'a> {
    /// Whether the table is not there, not even wrongly.
    fn lacks(&self, name: &str) -> bool {
        self.tree.get(name).is_none() && !self.meant.contains(&name)
    }

    /// The table called `name` with the place of its header.
    fn table(&self, name: &str) -> Option<(&'a Table, Place)> {
        let entry = self.tree.get(name)?;
        Some((entry.value.table()?, header(entry)))
    }

    /// A table of fixed keys.
    fn section(&self, name: &str, problems: &mut Vec<Diagnostic>) -> Section<'a> {
        let keys: &'static [Key] = keys::find(name).map_or(&[], |table| table.keys);
        match self.table(name) {
            Some((table, place)) => Section::read(name, place, table, keys, problems),
            None => Section::default(),
        }
    }

    fn space(&self, problems: &mut Vec<Diagnostic>) -> Option<Searched> {
        match self.table("space") {
            Some((table, place)) => Some(space::read(table, place, problems)),
            None => {
                if self.lacks("space") {
                    let problem =
                        Diagnostic::error(None, "the study has no [space]: nothing to search");
                    problems.push(problem.help("write under [space] for example `learning_rate = { float = [1e-5, 1e-1], log = true }`"));
                }
                None
            }
        }
    }

    /// What a trial runs, and the trainer's fixed arguments if it is the trainer.
    fn program(
        &self,
        searched: Option<&Searched>,
        problems: &mut Vec<Diagnostic>,
    ) -> (Option<Program>, Option<Arguments>) {
        match (self.tree.get("trainer"), self.tree.get("command")) {
            (Some(trainer), Some(command)) => {
                let (first, second) = if header(trainer) < header(command) {
                    (trainer, command)
                } else {
                    (command, trainer)
                };
                let problem = Diagnostic::error(
                    header(second),
                    "a study has [trainer] or [command], not both",
                )
                .label("second");
                problems.push(problem.related(header(first), "first").help("take one of them out"));
                (None, None)
            }
            (None, None) if !self.lacks("trainer") || !self.lacks("command") => (None, None),
            (None, None) => {
                let problem = Diagnostic::error(None, "the study does not say what a trial runs");
                problems.push(
                    problem.help("write [trainer] and [data] for the built-in trainer").help(
                        "or [command] with `run = [\"python3\", \"train.py\"]` for any program",
                    ),
                );
                (None, None)
            }
            (Some(_), None) => match self.table("trainer") {
                Some((table, place)) => self.trainer(table, place, searched, problems),
                None => (None, None),
            },
            (None, Some(_)) => {
                if let Some(data) = self.tree.get("data") {
                    let problem = Diagnostic::error(
                        header(data),
                        "[data] belongs to [trainer]; a command reads its own data",
                    );
                    problems
                        .push(problem.help("take it out, and give the program its files in `run`"));
                }
                let program = self.table("command").and_then(|(table, place)| {
                    command::read(table, place, searched, self.base, problems)
                });
                (program, None)
            }
        }
    }

    fn trainer(
        &self,
        table: &Table,
        place: Place,
        searched: Option<&Searched>,
        problems: &mut Vec<Diagnostic>,
    ) -> (Option<Program>, Option<Arguments>) {
        let arguments = trainer::read_trainer(table, self.base, problems);
        if let Some(searched) = searched {
            trainer::check_searched(searched, &arguments, problems);
        }
        let data = match self.table("data") {
            Some((table, place)) => trainer::read_data(
                table,
                place,
                self.base,
                TaskKind::of(&arguments.values),
                problems,
            ),
            None => {
                if self.lacks("data") {
                    let problem = Diagnostic::error(place, "a [trainer] study needs [data]");
                    problems.push(problem.help("write [data] with `train = \"train.csv\"`, and the columns `text` and `label`"));
                }
                return (None, Some(arguments));
            }
        };
        (Some(Program::Trainer { arguments: arguments.values.clone(), data }), Some(arguments))
    }
}

/// Where messages about a whole table point: its header or its key.
fn header(entry: &Entry) -> Place {
    match &entry.value {
        Node { item: Item::Table(table), place } if table.form == super::syntax::Form::Header => {
            *place
        }
        _ => entry.place,
    }
}

fn name(study: &Section<'_>, stem: &str, problems: &mut Vec<Diagnostic>) -> String {
    match study.node("name") {
        Some(node) => {
            let text = node.text().unwrap_or_default();
            if !is_study_name(text) {
                problems.push(
                    Diagnostic::error(
                        node.place,
                        format!("`{}` cannot be a study's name", text.escape_debug()),
                    )
                    .help(STUDY_NAME_RULE),
                );
            }
            text.to_owned()
        }
        None => {
            if study.lacks("name") && !is_study_name(stem) {
                let problem = Diagnostic::error(
                    study.place,
                    format!("the file's name `{}` cannot be the study's name", stem.escape_debug()),
                );
                problems.push(
                    problem.help("write `name = \"...\"` under [study]").help(STUDY_NAME_RULE),
                );
            }
            stem.to_owned()
        }
    }
}

const METRIC_HELP: &str = "write `metric = \"eval_loss\"`, the name your reports give it,";
const DIRECTION_HELP: &str = "write `direction = \"minimize\"` or `direction = \"maximize\"`";

fn objective(study: &Section<'_>, problems: &mut Vec<Diagnostic>) -> Option<Objective> {
    if let Some(entry) = study.entry("objective") {
        return listed_objective(study, entry, problems);
    }
    read_objective(study, "the study", "[study]", problems)
}

fn read_objective(
    section: &Section<'_>,
    owner: &str,
    table: &str,
    problems: &mut Vec<Diagnostic>,
) -> Option<Objective> {
    for (key, help) in [("metric", METRIC_HELP), ("direction", DIRECTION_HELP)] {
        if section.lacks(key) {
            problems.push(
                Diagnostic::error(section.place, format!("{owner} has no `{key}`"))
                    .help(format!("{help} under {table}")),
            );
        }
    }
    let node = section.node("direction");
    let direction = match node.and_then(Node::text) {
        Some("minimize" | "min") => Direction::Minimize,
        Some("maximize" | "max") => Direction::Maximize,
        _ => return None,
    };
    if let Some(node) = node.filter(|node| node.text() != Some(direction.as_str())) {
        let message =
            format!("`{}` is taken as `{}`", node.text().unwrap_or_default(), direction.as_str());
        problems.push(
            Diagnostic::warning(node.place, message)
                .help(format!("write direction = \"{}\"", direction.as_str())),
        );
    }
    Some(Objective { metric: section.text("metric")?.to_owned(), direction })
}

/// `[[study.objective]]`: one is the same as `metric` and `direction`; several are promised.
fn listed_objective(
    study: &Section<'_>,
    entry: &Entry,
    problems: &mut Vec<Diagnostic>,
) -> Option<Objective> {
    for other in ["metric", "direction"].into_iter().filter_map(|key| study.entry(key)) {
        let problem = Diagnostic::error(
            other.place,
            format!("`{}` is given here and in [[study.objective]]", other.key),
        );
        problems.push(problem.related(entry.place, "objectives").help("keep one of the two"));
    }
    let tables: Option<Vec<(&Table, Place)>> = entry.value.list().and_then(|list| {
        list.iter().map(|node| node.table().map(|table| (table, node.place))).collect()
    });
    match tables.as_deref() {
        Some([(table, place)]) => {
            let section =
                Section::read("study.objective", *place, table, keys::OBJECTIVE, problems);
            read_objective(&section, "the objective", "[[study.objective]]", problems)
        }
        Some([_, (_, second), ..]) => {
            problems.push(not_yet(
                *second,
                "searching several objectives",
                "keep the most important one; other metrics are recorded all the same",
            ));
            None
        }
        _ => {
            let problem =
                Diagnostic::error(entry.place, "`study.objective` must be a list of tables");
            problems.push(
                problem.help("leave it out and write `metric` and `direction` under [study]"),
            );
            None
        }
    }
}

/// The built-in trainer's metrics are known: a slip would let every trial fail.
fn check_metric(
    study: &Section<'_>,
    objective: Option<&Objective>,
    task: TaskKind,
    problems: &mut Vec<Diagnostic>,
) {
    let Some(objective) = objective else { return };
    let known: Vec<&str> = task.line().metrics.iter().copied().chain(["train_loss"]).collect();
    let metric = objective.metric.as_str();
    if !known.contains(&metric) {
        let problem = Diagnostic::error(
            study.node("metric").map(|node| node.place),
            format!("the trainer reports no metric `{metric}`"),
        );
        let suffix = known
            .iter()
            .copied()
            .find(|name| name.strip_prefix("eval_").is_some_and(|rest| rest == metric));
        problems.push(match suffix.or_else(|| nearest(metric, known.iter().copied())) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!("it reports {}", quoted(known))),
        });
        return;
    }
    let smaller = ["loss", "perplexity", "bits_per_byte"].iter().any(|end| metric.ends_with(end));
    let better = if smaller { Direction::Minimize } else { Direction::Maximize };
    if objective.direction != better {
        let message = format!(
            "`{metric}` is searched for its worst value: `direction = \"{}\"`",
            objective.direction.as_str()
        );
        let problem = Diagnostic::warning(study.node("direction").map(|node| node.place), message);
        problems.push(problem.help(format!("did you mean \"{}\"?", better.as_str())));
    }
}

fn read_budget(budget: &Section<'_>) -> Budget {
    Budget {
        trials: budget.whole("trials"),
        count: match budget.text("count") {
            Some("completed") => Count::Completed,
            Some("all") => Count::All,
            _ => Count::Finished,
        },
        time: budget.duration("time"),
        target: budget.number("target"),
        failures: budget.whole("failures"),
        trial_time: budget.duration("trial_time"),
        stall_time: budget.duration("stall_time"),
        patience: budget.whole("patience"),
        device_hours: budget.number("device_hours"),
        cost: budget.number("cost"),
        price_per_hour: budget.number("price_per_hour"),
    }
}

/// What is spent is not known without a price.
fn check_cost(budget: &Section<'_>, problems: &mut Vec<Diagnostic>) {
    if let Some(cost) = budget.entry("cost").filter(|_| budget.lacks("price_per_hour")) {
        let problem = Diagnostic::error(
            cost.place,
            "`budget.cost` needs `price_per_hour`: what an hour of one device costs",
        );
        problems.push(problem.help("write for example `price_per_hour = 2.5` under [budget], or `device_hours` instead of `cost`"));
    }
}

/// Builds the sampler as a trial of it. A study without a limit (`unlimited`: its budget) must have one that ends by itself.
fn check_sampler(
    spec: &StudySpec,
    sampler: &Chosen,
    unlimited: Option<&Section<'_>>,
    problems: &mut Vec<Diagnostic>,
) {
    let built =
        samplers::find(&spec.sampler.name).map(|entry| (entry.build)(&spec.sampler, &spec.space));
    match built {
        Ok(Ok(built)) => {
            if let Some(budget) = unlimited.filter(|_| !built.capabilities().exhausts) {
                let problem =
                    Diagnostic::error(budget.place, "the study has no limit: it would never end");
                problems
                    .push(problem.help("write `trials = 48` or `time = \"8h\"` under [budget]"));
            }
        }
        Ok(Err(error)) => problems.push(sampler.problem(&error, None)),
        Err(unknown) => {
            problems.push(Diagnostic::error(sampler.place, unknown.message()).help(unknown.help()))
        }
    }
}

fn check_pruner(
    spec: &StudySpec,
    pruner: &Chosen,
    length: Option<Place>,
    problems: &mut Vec<Diagnostic>,
) {
    let budget = super::full_trial(spec);
    let needs_end = matches!(spec.pruner.name.as_str(), "asha" | "curve" | "hyperband");
    if needs_end && budget.is_none() && !spec.pruner.options.contains_key("max_resource") {
        let unit = spec.step.plural();
        let problem = Diagnostic::error(
            pruner.place,
            format!("{} needs `max_resource`: how many {unit} a full trial has", spec.pruner.name),
        );
        let help = match (&spec.program, spec.step) {
            (Program::Trainer { .. }, StepClock::Step) => {
                "fix `max_steps` under [trainer], or write `max_resource = 1000` under [pruner]"
            }
            (_, StepClock::Epoch) => "write for example `max_resource = 27` under [pruner]",
            _ => "write for example `max_resource = 10000` under [pruner]",
        };
        problems.push(problem.help(help));
        return;
    }
    match pruners::find(&spec.pruner.name).map(|entry| (entry.build)(&spec.pruner, budget)) {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => problems.push(pruner.problem(&error, length)),
        Err(unknown) => {
            problems.push(Diagnostic::error(pruner.place, unknown.message()).help(unknown.help()))
        }
    }
}

fn devices(section: &Section<'_>, problems: &mut Vec<Diagnostic>) -> DevicesSpec {
    let default = DevicesSpec::default();
    let select = match section.node("use") {
        Some(node) => selected_devices(node, problems),
        None => default.select,
    };
    let packed = section.node("trials_per_device").and_then(Node::text) == Some("auto");
    if let Some(node) = section.node("memory").filter(|_| !packed) {
        let problem = Diagnostic::error(
            node.place,
            "`devices.memory` is kept where devices share themselves out, and nowhere else",
        );
        problems
            .push(problem.help("write trials_per_device = \"auto\" beside it, or leave it out"));
    }
    DevicesSpec {
        select,
        trials_per_device: section.whole("trials_per_device"),
        packed,
        memory: section.size("memory"),
        cpu_threads: section.whole("cpu_threads").unwrap_or(default.cpu_threads),
    }
}

fn selected_devices(node: &Node, problems: &mut Vec<Diagnostic>) -> Vec<String> {
    const HELP: &str = "write \"auto\", or a list such as [\"cpu\"], [\"cuda:0\", \"cuda:1\"], [\"cuda:*\"] or [\"wgpu:0\"]";
    if node.text() == Some("auto") {
        return vec!["auto".to_owned()];
    }
    let nodes: &[Node] = node.list().unwrap_or(std::slice::from_ref(node));
    if nodes.is_empty() {
        problems.push(
            Diagnostic::error(node.place, "`devices.use` is empty: no trial could run").help(HELP),
        );
    }
    let mut selected: Vec<String> = Vec::new();
    for element in nodes {
        match element.text() {
            Some(name) if selected.iter().any(|earlier| earlier == name) => {
                let problem =
                    Diagnostic::error(element.place, format!("the device `{name}` is there twice"));
                problems.push(
                    problem.help("for several trials on one device write `trials_per_device = 2`"),
                );
            }
            Some(name) if is_device(name) => selected.push(name.to_owned()),
            Some("auto") => problems.push(
                Diagnostic::error(element.place, "`auto` stands alone")
                    .help("write use = \"auto\""),
            ),
            Some(name) => {
                let problem = Diagnostic::error(element.place, format!("`{name}` is not a device"))
                    .label("expected cpu, cuda:N, cuda:*, wgpu:N or ndarray");
                let gpu = ["gpu", "cuda", "nvidia"]
                    .iter()
                    .any(|word| name.to_lowercase().starts_with(word));
                let other = ["wgpu", "vulkan", "metal", "mps", "amd", "rocm", "intel"]
                    .iter()
                    .any(|word| name.to_lowercase().starts_with(word));
                let first = "write \"wgpu:0\" for the first GPU with a driver for Vulkan or Metal";
                problems.push(problem.help(if other {
                    first
                } else if gpu {
                    "write \"cuda:0\" for the first GPU, \"cuda:*\" for all"
                } else {
                    HELP
                }));
            }
            None => {
                let problem = Diagnostic::error(
                    element.place,
                    "`devices.use` must be a list of device names",
                );
                problems.push(problem.label(format!("this is {}", element.describe())).help(HELP));
            }
        }
    }
    selected
}

/// `cpu`, `ndarray`, `cuda:1`, `cuda:*`, `wgpu:1`, `sim:1`, `sim:0..3` (pretended devices, for tests).
fn is_device(name: &str) -> bool {
    let range = |text: &str| {
        text.split_once("..")
            .and_then(|(from, to)| Some((from.parse::<u32>().ok()?, to.parse::<u32>().ok()?)))
    };
    match name.split_once(':') {
        None => matches!(name, "cpu" | "ndarray"),
        Some(("cuda", "*")) => true,
        Some(("sim", indices))
            if range(indices).is_some_and(|(from, to)| from <= to && to <= 1_023) =>
        {
            true
        }
        Some(("cuda" | "wgpu" | "sim", index)) => {
            index.parse::<u32>().is_ok() && index.bytes().all(|byte| byte.is_ascii_digit())
        }
        Some(_) => false,
    }
}

fn retry(section: &Section<'_>) -> RetrySpec {
    let default = RetrySpec::default();
    let causes = section.texts("on").map(|words| {
        let mut causes: Vec<FailureCause> = words.iter().filter_map(|word| cause(word)).collect();
        causes.sort_unstable();
        causes.dedup();
        causes
    });
    RetrySpec { max: section.whole("max").unwrap_or(default.max), on: causes.unwrap_or(default.on) }
}

fn cause(word: &str) -> Option<FailureCause> {
    match word {
        "oom" => Some(FailureCause::Oom),
        "device_lost" => Some(FailureCause::DeviceLost),
        "worker_lost" => Some(FailureCause::WorkerLost),
        "timeout" => Some(FailureCause::Timeout),
        _ => None,
    }
}

fn checkpoints(
    section: &Section<'_>,
    base: &Path,
    problems: &mut Vec<Diagnostic>,
) -> CheckpointsSpec {
    let default = CheckpointsSpec::default();
    let keep_best = match section.node("keep") {
        Some(node) => match node.text().map(kept) {
            Some(Some(keep)) => keep,
            _ => {
                let problem = Diagnostic::error(
                    node.place,
                    "`checkpoints.keep` must be \"best-3\" (any number), \"all\" or \"none\"",
                );
                let problem = problem.label(format!("this is {}", node.describe()));
                problems.push(match node.whole().filter(|count| *count > 0) {
                    Some(count) => problem.help(format!("write keep = \"best-{count}\"")),
                    None => problem.help("write keep = \"best-3\""),
                });
                default.keep_best
            }
        },
        None => default.keep_best,
    };
    if let Some(node) = section.node("dir") {
        let dir = super::absolute(base, node.text().unwrap_or_default());
        if let Some(file) = file::in_the_way(&dir) {
            let what = if file == dir {
                "this is a file, not a directory"
            } else {
                "this lies below a file"
            };
            let problem =
                Diagnostic::error(node.place, format!("`checkpoints.dir`: {what}")).label(what);
            problems
                .push(problem.help(format!("`{}` is no directory: name another", file.display())));
        }
    }
    CheckpointsSpec {
        keep_best,
        dir: section.text("dir").map(|dir| super::absolute(base, dir)),
        max_disk: section.size("max_disk"),
    }
}

/// How many of the best are kept; `Some(None)`: all.
fn kept(word: &str) -> Option<Option<u32>> {
    match word {
        "all" => Some(None),
        "none" => Some(Some(0)),
        _ => word.strip_prefix("best-")?.parse().ok().filter(|count| *count > 0).map(Some),
    }
}

fn export(section: &Section<'_>, base: &Path, problems: &mut Vec<Diagnostic>) -> ExportSpec {
    if section.is_set("on_finish") && section.lacks("dir") {
        let problem = Diagnostic::error(
            section.node("on_finish").map(|node| node.place),
            "`export.on_finish` needs `dir`",
        );
        problems.push(problem.help("write `dir = \"exported\"` under [export]"));
    }
    let quantize = section.text("quantize").and_then(Quantize::parse);
    ExportSpec {
        dir: section.text("dir").map(|dir| super::absolute(base, dir)),
        on_finish: section.is_set("on_finish"),
        quantize,
    }
}
