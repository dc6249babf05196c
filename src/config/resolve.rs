//! Resolves the tree of a study file to a specification, or reports all problems.

use std::path::Path;

use super::command;
use super::command_metrics;
use super::constraint;
use super::diagnostic::{Diagnostic, SourceSpan, has_errors};
use super::enqueue;
use super::objective;
use super::outputs;
use super::populations;
use super::reproducibility;
use super::sampler_pruner;
use super::section::Section;
use super::space::{self, Searched};
use super::step_unit;
use super::strategies;
use super::suitability;
use super::syntax::{Item, Node, TomlEntry, TomlTable};
use super::tables::fields_of;
use super::trainer::{self, Arguments};
use super::unknown_tables;
use super::{Purpose, STUDY_NAME_RULE, is_study_name};
use super::{cluster, devices};
use crate::arguments::{ARGUMENTS, DataArguments, TaskKind};
use crate::study::condition::KnownNames;
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::space::Space;
use crate::study::spec::{RetrySpec, StudySpec, ValueRule};
use crate::study::word;

/// Resolves `tree`. `stem`: the default name; `base`: the absolute directory to which paths are
/// relative. `None` only if `problems` has an error.
pub(super) fn resolve(
    tree: &TomlTable,
    stem: &str,
    base: &Path,
    purpose: Purpose,
    problems: &mut Vec<Diagnostic>,
) -> Option<StudySpec> {
    unknown_tables::check_tables(tree, problems);
    let file = StudyFile { tree, base, purpose, meant: unknown_tables::meant(tree) };
    let study = file.section("study", problems);
    let name = name(&study, stem, problems);
    let objectives = if study.place.is_some() || file.lacks("study") {
        objective::read(&study, problems)
    } else {
        None
    };
    let budget = file.section("budget", problems);
    check_cost(&budget, problems);
    check_min_delta(&budget, problems);
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
    let evaluates = purpose == Purpose::OneTraining
        || !matches!(&program, Some(Program::Trainer { data, .. })
            if DataArguments::holds_nothing_out(data));
    let is_reported =
        |task: TaskKind, metric: &str| evaluates || !task.line().metrics.contains(&metric);
    let reported = task.map(|task| {
        let metrics = task.reported().into_iter();
        metrics.filter(|metric| is_reported(task, metric)).collect::<Vec<_>>()
    });
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
    let mut checkpoints =
        outputs::checkpoints(&file.section("checkpoints", problems), base, problems);
    let shared_dir = cluster.as_ref().and_then(|cluster| cluster.shared_dir.clone());
    checkpoints.dir = checkpoints.dir.or(shared_dir);
    let export = outputs::export(&file.section("export", problems), base, problems);
    let track = outputs::track(&file.section("track", problems), base, problems);
    let notify = outputs::notify(&file.section("notify", problems), problems);
    if let Some(task) = task {
        let has_scores = file.table("data").is_some_and(|(data, _)| data.get("score").is_some());
        let writes = !matches!(&program, Some(Program::Trainer { arguments, .. })
            if arguments.get("predict_with_generate") == Some(&false.into()));
        let reports = objective::Reports { task, has_scores, writes, evaluates };
        for (index, objective) in objectives.iter().flatten().enumerate() {
            objective::check_metric(&study, index, objective, reports, problems);
        }
    } else {
        for (index, objective) in objectives.iter().flatten().enumerate() {
            objective::check_direction(&study, index, objective, problems);
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
    let mut pruner_spec = pruner.spec.clone();
    let of_trainer = (&program, &space);
    let step =
        step_unit::of_study(&study, of_trainer, &mut pruner_spec, (&pruner, purpose), problems);
    let spec = StudySpec {
        description: study.get("description"),
        tags: study.get("tags"),
        // With several objectives the values of a trial are those of one model: the last.
        value: if objectives.len() > 1 { ValueRule::Last } else { study.get("value") },
        step,
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
        pruner: pruner_spec,
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
    suitability::check_sampler(&spec, &sampler, (&budget, unlimited), of_constraints, problems);
    let of_argument = |name: &str| {
        let searched = searched.parameters.iter();
        let mut searched =
            searched.filter(|one| trainer::canonical(ARGUMENTS, &one.dimension.name) == name);
        let fixed = arguments.as_ref().and_then(|arguments| arguments.place_of(name));
        fixed.or_else(|| searched.next().map(|parameter| parameter.place))
    };
    step_unit::check_parts(&spec, of_argument, problems);
    strategies::check(&spec, of_argument, problems);
    let length = arguments.as_ref().and_then(|arguments| arguments.place_of_length(spec.step));
    suitability::check_pruner(&spec, &pruner, length, problems);
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

struct StudyFile<'a> {
    tree: &'a TomlTable,
    base: &'a Path,
    purpose: Purpose,
    /// Probable meanings of unknown tables.
    meant: Vec<&'static str>,
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
                    let example = "write under [space] for example `learning_rate = \
                        { float = [1e-5, 1e-1], log = true }`";
                    problems.push(problem.help(if self.lacks("command") {
                        format!("{example}; `hpsearch train` trains a single model without it")
                    } else {
                        example.to_owned()
                    }));
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
                problems.push(problem.related(places[0], "first").help("remove one of them"));
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
                    let help = "remove it, and pass the program its files in `run`";
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
        if let Some(problem) = DataArguments::lacks_validation(&data, &arguments.values) {
            let found = Diagnostic::error(arguments.place_of(&problem.key), problem.message);
            problems.push(found.help(problem.help.unwrap_or_default()));
        }
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
            // Letters and their marks may be two characters each in a file's name.
            let name = word::composed(stem);
            if study.lacks("name") && !is_study_name(&name) {
                let stem = stem.escape_debug();
                let message = format!("the file's name `{stem}` cannot be the study's name");
                let problem = Diagnostic::error(study.place, message)
                    .help("write `name = \"...\"` under [study]");
                problems.push(problem.help(STUDY_NAME_RULE));
            }
            name
        }
    }
}

/// A cost limit requires a price.
fn check_min_delta(budget: &Section<'_>, problems: &mut Vec<Diagnostic>) {
    let needed = "trial_patience";
    if let Some(delta) = budget.entry("trial_min_delta").filter(|_| budget.lacks(needed)) {
        let message = "`budget.trial_min_delta` needs `trial_patience`";
        let help = "write for example `trial_patience = 5` under [budget]: after 5 reports \
            without an improvement a trial is complete";
        problems.push(Diagnostic::error(delta.place, message).help(help));
    }
}

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
