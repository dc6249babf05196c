//! Resolves the tree of a study file to a specification, or reports all problems.

use std::path::Path;

use super::command;
use super::command_metrics;
use super::constraint;
use super::diagnostic::{Diagnostic, SourceSpan};
use super::enqueue;
use super::file;
use super::objective;
use super::populations;
use super::reproducibility;
use super::sampler_pruner::{self, Chosen};
use super::section::{Section, nul};
use super::space::{self, Searched};
use super::syntax::{Item, Node, TomlEntry, TomlTable};
use super::tables::{self, Contents, TABLES, fields_of};
use super::trainer::{self, Arguments};
use super::{Purpose, STUDY_NAME_RULE, is_study_name};
use super::{cluster, devices};
use crate::arguments::TaskKind;
use crate::samplers::{Ask, OfEarlier, Sampler, SamplerError};
use crate::study::condition::KnownNames;
use crate::study::destination::Destination;
use crate::study::field::{self, keep_best};
use crate::study::history::History;
use crate::study::notify::NotifySpec;
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::seed::SeedTree;
use crate::study::space::Space;
use crate::study::spec::{
    CheckpointsSpec, Duplicates, ExportSpec, RetrySpec, StudySpec, TrackSpec, ValueRule,
};
use crate::study::step::StepUnit;
use crate::study::suggestion::{nearest, quoted};
use crate::study::trial::TrialNumber;
use crate::{pruners, samplers};

/// Resolves `tree`. `stem`: the default name; `base`: the absolute directory to which paths are
/// relative. `None` only if `problems` has an error.
pub(super) fn resolve(
    tree: &TomlTable,
    stem: &str,
    base: &Path,
    purpose: Purpose,
    problems: &mut Vec<Diagnostic>,
) -> Option<StudySpec> {
    check_tables(tree, problems);
    let file = StudyFile { tree, base, purpose, meant: meant(tree) };
    let study = file.section("study", problems);
    let name = name(&study, stem, problems);
    let objectives = if study.place.is_some() || file.lacks("study") {
        objective::read(&study, problems)
    } else {
        None
    };
    let budget = file.section("budget", problems);
    check_cost(&budget, problems);
    let searched = file.space(problems);
    let sampler = sampler_pruner::read("sampler", file.table("sampler"), problems);
    let pruner = sampler_pruner::read("pruner", file.table("pruner"), problems);
    let (program, arguments) = file.program(searched.as_ref(), problems);
    let enqueue = match (file.tree.get("enqueue"), &searched) {
        (Some(entry), Some(searched)) => enqueue::read(entry, searched, problems),
        _ => Vec::<Params>::new(),
    };
    let of_trainer = file.table("trainer").zip(arguments.as_ref());
    let task = of_trainer.and_then(|((table, _), all)| trainer::task_of(table, &all.values));
    let reported = task.map(TaskKind::reported);
    let metrics = reported.as_deref().map_or(KnownNames::Metrics, KnownNames::Reported);
    if let Some(searched) = &searched {
        enqueue::check_candidates(file.tree.get("enqueue"), &enqueue, searched, problems);
    }
    let constraints = file
        .tree
        .get("constraint")
        .map(|entry| constraint::read(entry, searched.as_ref(), metrics, problems))
        .unwrap_or_default();
    constraint::check_enqueued(&constraints, &enqueue, file.tree.get("enqueue"), problems);
    let devices_table = file.section("devices", problems);
    let devices = devices::read(&devices_table, program.as_ref(), problems);
    let mut retry: RetrySpec = file.section("retry", problems).read_as();
    retry.on.sort_unstable();
    retry.on.dedup();
    let cluster_table = file.section("cluster", problems);
    let cluster = cluster::read(&cluster_table, base, problems);
    let mut checkpoints = checkpoints(&file.section("checkpoints", problems), base, problems);
    let shared_dir = cluster.as_ref().and_then(|cluster| cluster.shared_dir.clone());
    checkpoints.dir = checkpoints.dir.or(shared_dir);
    let export = export(&file.section("export", problems), base, problems);
    let track = track(&file.section("track", problems), base, problems);
    let notify = notify(&file.section("notify", problems), problems);
    if let Some(task) = task {
        let has_scores = file.table("data").is_some_and(|(data, _)| data.get("score").is_some());
        let writes = !matches!(&program, Some(Program::Trainer { arguments, .. })
            if arguments.get("predict_with_generate") == Some(&false.into()));
        let reports = objective::Reports { task, has_scores, writes };
        for (index, objective) in objectives.iter().flatten().enumerate() {
            objective::check_metric(&study, index, objective, reports, problems);
        }
    }

    let searched = searched?;
    let (Some(space), Some(sampler), Some(pruner), Some(objectives), Some(program)) =
        (searched.space.clone(), sampler, pruner, objectives, program)
    else {
        return None;
    };
    let first = objectives.first()?;
    // Combinations are checked only if each part is valid.
    if let Some(arguments) = arguments.as_ref().filter(|_| !has_errors(problems)) {
        trainer::check_together(arguments, &space, &constraints, &searched, problems);
    }
    let spec = StudySpec {
        description: study.get("description"),
        tags: study.get("tags"),
        // With several objectives the values of a trial are those of one model: the last.
        value: if objectives.len() > 1 { ValueRule::Last } else { study.get("value") },
        step: study.get("step"),
        seed: study.get("seed"),
        duplicates: study.get("duplicates"),
        deterministic: study.get("deterministic"),
        replicates: study.get("replicates"),
        race: study.get("race"),
        budget: budget.read_as(),
        candidates: searched.candidates.clone(),
        enqueue,
        constraints,
        warm_start: sampler.section.get("warm_start"),
        sampler: sampler.spec.clone(),
        pruner: pruner.spec.clone(),
        devices,
        cluster,
        retry,
        checkpoints,
        export,
        track,
        notify,
        ..StudySpec::new(&name, &first.metric, first.direction, space, program)
    };
    let spec = StudySpec { objectives, ..spec };
    let unlimited = ["trials", "time", "target", "patience", "device_hours", "cost"]
        .iter()
        .all(|key| budget.lacks(key))
        && (budget.place.is_some() || file.lacks("budget"));
    let of_constraints = file.tree.get("constraint").map(|entry| entry.place);
    check_sampler(&spec, &sampler, (&budget, unlimited), of_constraints, problems);
    let length = arguments.as_ref().and_then(|arguments| arguments.place_of_length(spec.step));
    check_pruner(&spec, &pruner, length, problems);
    populations::check(&spec, &pruner, &study, &budget, &searched, problems);
    command_metrics::check(&spec, file.tree, problems);
    objective::check_names(&spec, &study, problems);
    objective::check_several(&spec, &study, &budget, problems);
    cluster::check(&spec, (&cluster_table, &devices_table), problems);
    let run = file.tree.get("command").and_then(|entry| entry.value.table());
    let run = run.and_then(|table| table.get("run")).map(|entry| entry.value.place);
    devices::check_placeholders(&spec, run, problems);
    reproducibility::check(&spec, &budget, &devices_table, problems);
    Some(spec)
}

fn has_errors(problems: &[Diagnostic]) -> bool {
    problems.iter().any(|problem| problem.severity == super::Severity::Error)
}

/// Reports unknown tables, unsupported ones, and values that should be tables.
fn check_tables(tree: &TomlTable, problems: &mut Vec<Diagnostic>) {
    for entry in &tree.entries {
        let Some(table) = tables::find(&entry.key) else {
            problems.push(unknown_table(entry));
            continue;
        };
        match (table.contents, &entry.value.item) {
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
                let first = field::find(table.fields, "type").map_or("...", |field| field.name);
                problems.push(problem.help(format!(
                    "write [{}] on a line of its own, and `{first} = {}` under it",
                    table.name,
                    entry.value.to_json()
                )));
            }
        }
    }
}

fn unknown_table(entry: &TomlEntry) -> Diagnostic {
    let names = TABLES.iter().map(|table| table.name);
    if matches!(entry.value.item, Item::Table(_) | Item::List(_))
        || tables::owners(&entry.key).next().is_none()
    {
        let problem =
            Diagnostic::error(entry.place, format!("a study file has no table `{}`", entry.key))
                .label("unknown table");
        return match nearest(&entry.key, names.clone()) {
            Some(near) => problem.help(format!("did you mean [{near}]?")),
            None => problem.help(format!("its tables are {}", quoted(names))),
        };
    }
    let owner = tables::owners(&entry.key).next().map_or("study", |table| table.name);
    Diagnostic::error(entry.place, format!("`{}` is in no table", entry.key))
        .help(format!("write it under [{owner}]"))
}

struct StudyFile<'a> {
    tree: &'a TomlTable,
    base: &'a Path,
    purpose: Purpose,
    /// Probable meanings of unknown tables.
    meant: Vec<&'static str>,
}

/// The probable meanings of unknown tables, which are then not reported as missing.
fn meant(tree: &TomlTable) -> Vec<&'static str> {
    let names = TABLES.iter().map(|table| table.name);
    let unknown = tree.entries.iter().filter(|entry| tables::find(&entry.key).is_none());
    unknown
        .filter_map(|entry| nearest(&entry.key, names.clone()))
        .filter_map(tables::find)
        .map(|table| table.name)
        .collect()
}

impl<'a> StudyFile<'a> {
    /// Whether the table is absent, and not merely misspelt.
    fn lacks(&self, name: &str) -> bool {
        self.tree.get(name).is_none() && !self.meant.contains(&name)
    }

    /// The table `name` with the span of its header.
    fn table(&self, name: &str) -> Option<(&'a TomlTable, SourceSpan)> {
        let entry = self.tree.get(name)?;
        Some((entry.value.table()?, header(entry)))
    }

    /// A table of fixed keys.
    fn section(&self, name: &str, problems: &mut Vec<Diagnostic>) -> Section<'a> {
        match self.table(name) {
            Some((table, place)) => Section::read(name, place, table, fields_of(name), problems),
            None => Section::absent(fields_of(name)),
        }
    }

    fn space(&self, problems: &mut Vec<Diagnostic>) -> Option<Searched> {
        match self.table("space") {
            Some((table, place)) => {
                Some(space::read(table, place, space::Names::Plain, Some(self.base), problems))
            }
            None if self.purpose == Purpose::OneTraining && self.lacks("space") => {
                Some(Searched { space: Space::new(Vec::new()).ok(), ..Searched::default() })
            }
            None => {
                if self.lacks("space") {
                    let problem =
                        Diagnostic::error(None, "the study has no [space]: nothing to search");
                    problems.push(problem.help(
                        "write under [space] for example `learning_rate = \
                        { float = [1e-5, 1e-1], log = true }`",
                    ));
                }
                None
            }
        }
    }

    /// The program of trials, and the trainer's fixed arguments if it is the trainer.
    fn program(
        &self,
        searched: Option<&Searched>,
        problems: &mut Vec<Diagnostic>,
    ) -> (Option<Program>, Option<Arguments>) {
        match (self.tree.get("trainer"), self.tree.get("command")) {
            (Some(trainer), Some(command)) => {
                let mut places = [header(trainer), header(command)];
                places.sort_unstable();
                let message = "a study has [trainer] or [command], not both";
                let problem = Diagnostic::error(places[1], message).label("second");
                problems.push(problem.related(places[0], "first").help("take one of them out"));
                (None, None)
            }
            (None, None) if !self.lacks("trainer") || !self.lacks("command") => (None, None),
            (None, None) => {
                let problem = Diagnostic::error(None, "the study does not say what a trial runs");
                let problem = problem.help("write [trainer] and [data] for the built-in trainer");
                let other = "or [command] with `run = [\"python3\", \"train.py\"]` for any program";
                problems.push(problem.help(other));
                (None, None)
            }
            (Some(_), None) => match self.table("trainer") {
                Some((table, place)) => self.trainer(table, place, searched, problems),
                None => (None, None),
            },
            (None, Some(_)) => {
                if let Some(data) = self.tree.get("data") {
                    let message = "[data] belongs to [trainer]; a command reads its own data";
                    let problem = Diagnostic::error(header(data), message);
                    let help = "take it out, and give the program its files in `run`";
                    problems.push(problem.help(help));
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
        table: &TomlTable,
        place: SourceSpan,
        searched: Option<&Searched>,
        problems: &mut Vec<Diagnostic>,
    ) -> (Option<Program>, Option<Arguments>) {
        let arguments = trainer::read_trainer(table, self.base, problems);
        if let Some(searched) = searched {
            trainer::check_searched(searched, &arguments, problems);
        }
        let data = match self.table("data") {
            Some((of_data, place)) => {
                let task = trainer::task_of(table, &arguments.values);
                trainer::read_data(of_data, place, self.base, task, problems)
            }
            None => {
                if self.lacks("data") {
                    let problem = Diagnostic::error(place, "a [trainer] study needs [data]");
                    problems.push(problem.help(
                        "write [data] with `train = \"train.csv\"`, and \
                        the columns `text` and `label`",
                    ));
                }
                return (None, Some(arguments));
            }
        };
        (Some(Program::Trainer { arguments: arguments.values.clone(), data }), Some(arguments))
    }
}

/// The span for messages about a whole table: its header or its key.
fn header(entry: &TomlEntry) -> SourceSpan {
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
                let message = format!("`{}` cannot be a study's name", text.escape_debug());
                problems.push(Diagnostic::error(node.place, message).help(STUDY_NAME_RULE));
            }
            text.to_owned()
        }
        None => {
            if study.lacks("name") && !is_study_name(stem) {
                let stem = stem.escape_debug();
                let message = format!("the file's name `{stem}` cannot be the study's name");
                let problem = Diagnostic::error(study.place, message)
                    .help("write `name = \"...\"` under [study]");
                problems.push(problem.help(STUDY_NAME_RULE));
            }
            stem.to_owned()
        }
    }
}

/// A cost limit requires a price.
fn check_cost(budget: &Section<'_>, problems: &mut Vec<Diagnostic>) {
    if let Some(cost) = budget.entry("cost").filter(|_| budget.lacks("price_per_hour")) {
        let problem = Diagnostic::error(
            cost.place,
            "`budget.cost` needs `price_per_hour`: price of a device-hour",
        );
        problems.push(problem.help(
            "write for example `price_per_hour = 2.5` under [budget], or \
            `device_hours` instead of `cost`",
        ));
    }
}

/// Spaces of more configurations are hardly ever tried as a whole.
const FEW_CONFIGURATIONS: u64 = 1_000;

/// Builds the sampler to validate it. A study without a limit needs a sampler that exhausts, or
/// candidates.
fn check_sampler(
    spec: &StudySpec,
    sampler: &Chosen,
    (budget, is_unlimited): (&Section<'_>, bool),
    of_constraints: Option<SourceSpan>,
    problems: &mut Vec<Diagnostic>,
) {
    let built = samplers::find(&spec.sampler.name).map(|entry| {
        samplers::check_objectives(&spec.sampler, spec.objectives.len())?;
        (entry.build)(&spec.sampler, &spec.space)
    });
    let Some(built) = sampler.built(built, None, problems) else { return };
    check_warm_start(spec, sampler, built.as_ref(), problems);
    if is_unlimited && spec.candidates.is_empty() && !built.exhausts() {
        let problem = Diagnostic::error(budget.place, "the study has no limit: it would never end");
        problems.push(problem.help("write `trials = 48` or `time = \"8h\"` under [budget]"));
    } else if spec.budget.trials.is_none()
        && spec.duplicates == Duplicates::Skip
        && spec.candidates.is_empty()
        && !built.exhausts()
        && let Some(points) =
            spec.space.cardinality().filter(|points| *points <= FEW_CONFIGURATIONS)
    {
        let message = format!(
            "once all {points} configurations of the space were tried, they are repeated until \
             another limit is reached"
        );
        let problem = Diagnostic::warning(budget.place, message);
        problems
            .push(problem.help(format!("write `trials = {points}` under [budget] to end then")));
    }
    check_requirements(spec, built.as_ref(), of_constraints, problems);
}

/// Warns of a sampler that does not learn from the earlier studies.
fn check_warm_start(
    spec: &StudySpec,
    sampler: &Chosen,
    built: &dyn Sampler,
    problems: &mut Vec<Diagnostic>,
) {
    if spec.warm_start.is_empty() {
        return;
    }
    let (name, objectives) = (&spec.sampler.name, spec.objectives.len());
    let (message, help) = match built.takes_of_earlier(&spec.space, objectives) {
        OfEarlier::Results => return,
        OfEarlier::Best => {
            let one = built.takes_of_earlier(&spec.space, 1);
            let here = match one {
                OfEarlier::Results => format!(" with {objectives} objectives"),
                _ => String::new(),
            };
            let help = "it only begins with the best configurations of these studies; `type = \
                        \"tpe\"` learns from all of their results";
            (format!("`{name}` does not learn from `warm_start`{here}"), help)
        }
        OfEarlier::Nothing => {
            let help = "`type = \"tpe\"` learns from the results of these studies";
            (format!("`{name}` takes nothing of `warm_start`"), help)
        }
    };
    let problem = Diagnostic::warning(sampler.section.place_of("warm_start"), message);
    problems.push(problem.help(help));
}

/// Requirements that no configuration satisfies.
fn check_requirements(
    spec: &StudySpec,
    sampler: &dyn Sampler,
    of_constraints: Option<SourceSpan>,
    problems: &mut Vec<Diagnostic>,
) {
    let seeds = SeedTree::new(spec.seed);
    let history = History::of(&[], spec.objective().direction);
    let ask = Ask {
        constraints: &spec.constraints,
        ..Ask::new(&spec.space, history, TrialNumber(0), seeds)
    };
    // Enqueued configurations may be all that is run.
    if ask.is_restricted()
        && spec.candidates.is_empty()
        && spec.enqueue.is_empty()
        && let Err(SamplerError::Constraints { draws, rejected }) =
            samplers::propose(sampler, &ask, &mut seeds.stream("sampler/0"))
    {
        let message = format!("none of {draws} random points keeps the constraints: {rejected}");
        let problem = Diagnostic::error(of_constraints, message);
        problems.push(
            problem.help("loosen a `[[constraint]]`, or narrow `[space]` to where they hold"),
        );
    }
}

fn check_pruner(
    spec: &StudySpec,
    pruner: &Chosen,
    length: Option<SourceSpan>,
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
            (Program::Trainer { .. }, StepUnit::Step) => {
                "fix `max_steps` under [trainer], or write `max_resource = 1000` under [pruner]"
            }
            (_, StepUnit::Epoch) => "write for example `max_resource = 27` under [pruner]",
            _ => "write for example `max_resource = 10000` under [pruner]",
        };
        problems.push(problem.help(help));
        return;
    }
    let is_given = |key: &str| spec.pruner.options.contains_key(key);
    if pruners::is_population(&spec.pruner)
        && budget.is_none()
        && !is_given(pruners::INTERVAL.name)
        && !is_given("max_resource")
    {
        let unit = spec.step.plural();
        let message = format!("pbt needs `interval`: how many {unit} lie between two decisions");
        let problem = Diagnostic::error(pruner.place, message);
        problems.push(problem.help("write for example `interval = 2` under [pruner]"));
        return;
    }
    let built = pruners::find(&spec.pruner.name).map(|entry| {
        pruners::check_objectives(&spec.pruner, spec.objectives.len())?;
        (entry.build)(&spec.pruner, budget)
    });
    pruner.built(built, length, problems);
}

fn checkpoints(
    section: &Section<'_>,
    base: &Path,
    problems: &mut Vec<Diagnostic>,
) -> CheckpointsSpec {
    let dir = section.text("dir").map(|dir| super::absolute(base, dir));
    if let Some(file) = dir.as_deref().and_then(file::in_the_way) {
        let what = if Some(file) == dir.as_deref() {
            "this is a file, not a directory"
        } else {
            "this lies below a file"
        };
        let place = section.place_of("dir");
        problems.push(
            Diagnostic::error(place, format!("`checkpoints.dir`: {what}"))
                .label(what)
                .help(format!("`{}` is no directory: name another", file.display())),
        );
    }
    let keep_best = keep_best(&section.get::<String>("keep")).unwrap_or_default();
    CheckpointsSpec { keep_best, dir, max_disk: section.get("max_disk") }
}

fn notify(section: &Section<'_>, problems: &mut Vec<Diagnostic>) -> NotifySpec {
    let mut notify: NotifySpec = section.read_as();
    notify.on.sort_unstable();
    notify.on.dedup();
    if let Some(node) = section.node("command")
        && notify.command.iter().any(|word| word.contains('\0'))
    {
        problems.push(nul("`notify.command`", node));
    }
    // A URL is a secret: the file must name the variable that holds it.
    if let Some(text) = notify.webhook.take() {
        let name = text.strip_prefix("env:").filter(|name| is_variable(name));
        match name {
            Some(name) => notify.webhook = Some(name.to_owned()),
            None => {
                let message = "`notify.webhook` is the name of an environment variable, `env:NAME`";
                let problem = Diagnostic::error(section.place_of("webhook"), message);
                problems.push(problem.help(
                    "an address is a secret, and this file is stored: put it into a variable, and \
                     write `webhook = \"env:HPSEARCH_WEBHOOK\"`",
                ));
            }
        }
    }
    notify
}

fn is_variable(name: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    !name.is_empty() && name.chars().all(is_part)
}

fn track(section: &Section<'_>, base: &Path, problems: &mut Vec<Diagnostic>) -> TrackSpec {
    let system = section.text("system").and_then(|text| field::period(text).ok());
    let mut to: Vec<Destination> = Vec::new();
    for text in section.get::<Vec<String>>("to") {
        match text.parse::<Destination>() {
            Ok(destination) => {
                let destination = destination.below(base);
                if !to.contains(&destination) {
                    to.push(destination);
                }
            }
            Err(error) => {
                let message = format!("`track.to`: `{text}`: {error}");
                let problem = Diagnostic::error(section.place_of("to"), message);
                problems.push(problem.help("write `to = [\"tensorboard:DIR\"]` under [track]"));
            }
        }
    }
    TrackSpec { system: system.unwrap_or(TrackSpec::default().system), to }
}

fn export(section: &Section<'_>, base: &Path, problems: &mut Vec<Diagnostic>) -> ExportSpec {
    let export: ExportSpec = section.read_as();
    if export.on_finish && section.lacks("dir") {
        let place = section.place_of("on_finish");
        let problem = Diagnostic::error(place, "`export.on_finish` needs `dir`");
        problems.push(problem.help("write `dir = \"exported\"` under [export]"));
    }
    let dir = section.text("dir").map(|dir| super::absolute(base, dir));
    ExportSpec { dir, ..export }
}
