//! `hpsearch show`: describes a study: search space, algorithms, budget, progress, and provenance.

mod kept;
mod trial;

use std::io::Write;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::moments::moment;
use super::provenance;
use super::trial_json::{BestJson, ForecastJson, FrontJson, as_instant};
use crate::analysis::forecast::Forecast;
use crate::app::best;
use crate::app::best_runs::{self, RunsJson};
use crate::app::find;
use crate::app::study_state::{elapsed, situation, state_in, unmeasured};
use crate::report::ahead::{self, Running, look_ahead};
use crate::report::specification::{algorithm, budget, comparison, condition, kind, values};
use crate::report::table::{Column, Columns};
use crate::report::wording::{
    StudyStatus, bytes, duration, front_in_words, goal, no_best, number, one_line, param, states_of,
};
use crate::runner;
use crate::samplers;
use crate::storage::paths::files_directory;
use crate::storage::{StorageReader, StoredRunner, StudySummary};
use crate::study::counted::count;
use crate::study::device::Device;
use crate::study::finalists::Race;
use crate::study::front::Front;
use crate::study::program::Program;
use crate::study::provenance::Provenance;
use crate::study::space::Dimension;
use crate::study::spec::{PerTrial, StudySpec};
use crate::study::state::{Counts, StudyState};
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;
use crate::study::unmeasured::Unmeasured;
use crate::tracking::{Behind, behind};
use trial::Form;

const EXAMPLES: &str = "\
Examples:
  hpsearch show digits
  hpsearch show digits 7             one trial, with its provenance
  hpsearch show digits 7 --changes   the code's changes since its commit

The provenance of a run has commit and changes (256 KiB), command line, host,
system, CPU, GPUs, version and digest of hpsearch, digests of the data and of
the command's files. The environment is not stored: pass secrets there, not on
the command line.";

/// Arguments of `hpsearch show`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch show [OPTIONS] [STUDY] [TRIAL]")]
pub struct ShowArguments {
    /// The study's name or file, and a trial of it
    #[arg(value_name = "STUDY, TRIAL", num_args = 0..=2)]
    pub words: Vec<String>,
    /// Print the uncommitted code changes of the trial as a patch
    #[arg(long)]
    pub changes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ShowJson<'a> {
    state: &'static str,
    finished: Option<&'a str>,
    trials: Counts,
    #[serde(serialize_with = "as_instant")]
    created: Timestamp,
    best: Option<BestJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<FrontJson<'a>>,
    /// Why a goal of several objectives is not in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    unmeasured: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<RunsJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    race: Option<&'a Race>,
    seconds: f64,
    device_hours: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forecast: Option<ForecastJson>,
    specification: &'a StudySpec,
    #[serde(rename = "lineage")]
    provenance: Option<&'a Provenance>,
    #[serde(skip_serializing_if = "<[Behind]>::is_empty")]
    behind: &'a [Behind],
}

/// Resource usage of the study, and its forecast unless it is over.
struct Effort {
    elapsed: Duration,
    device_time: Duration,
    forecast: Option<Forecast>,
}

/// Prints the study.
pub fn show(arguments: &ShowArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let (study, trials) = find::study_and_trials(&reader, &arguments.words)?;
    match (trials.as_slice(), arguments.changes) {
        ([], false) => {}
        ([trial], changes) => {
            let form = match arguments.json {
                _ if changes => Form::Changes,
                true => Form::Json,
                false => Form::Text,
            };
            return trial::show(&reader, &study, *trial, form, console);
        }
        ([], true) => {
            return Err(Failure::usage("`--changes` is about a trial")
                .help("write `hpsearch show STUDY 7 --changes`"));
        }
        _ => {
            return Err(Failure::usage("one trial is shown at a time")
                .help("`hpsearch trials` lists several, `hpsearch diff` compares two"));
        }
    }
    let state = state_in(&reader, &study)?;
    let effort = effort(&reader, &study, state)?;
    let study_state = best::state_of_runs(&reader, &study)?;
    let runners = reader.runners(study.id)?;
    let behind = behind(&reader, study.id);
    let unmeasured = unmeasured(&reader, &study)?;
    if arguments.json {
        let output = ShowJson {
            state: state.as_str(),
            finished: study.finished.as_deref(),
            trials: study.counts,
            created: study.created,
            best: study.best.map(BestJson::from),
            front: study.front.as_ref().map(FrontJson::from),
            unmeasured: unmeasured.as_ref().map(ToString::to_string),
            runs: study_state.as_ref().and_then(best::runs).as_ref().map(RunsJson::from),
            race: study_state.as_ref().and_then(|study_state| study_state.race.as_ref()),
            seconds: effort.elapsed.as_secs_f64(),
            device_hours: effort.device_time.as_secs_f64() / 3600.0,
            cost: study.spec.budget.price_of(effort.device_time),
            forecast: effort.forecast.as_ref().map(ForecastJson::from),
            specification: &study.spec,
            provenance: runners.last().and_then(|runner| runner.provenance.as_ref()),
            behind: &behind,
        };
        return console.json(Some(&study.spec.name), &output);
    }
    let figures = Figures {
        study_state: study_state.as_ref(),
        runners: &runners,
        behind: &behind,
        unmeasured: unmeasured.as_ref(),
    };
    print(&study, state, &effort, &figures, console)?;
    Ok(Exit::Done)
}

fn effort(
    reader: &dyn StorageReader,
    study: &StudySummary,
    state: StudyStatus,
) -> Result<Effort, Failure> {
    let (elapsed, used, now) = (elapsed(reader, study)?, reader.used(study.id)?, runner::now());
    let running = if state == StudyStatus::Running { Running::Yes } else { Running::No };
    let device_time = if running == Running::Yes { used.device_time(now) } else { used.busy };
    let has_end = matches!(state, StudyStatus::Finished | StudyStatus::Failed);
    let forecast = (!has_end && !study.spec.is_tracked())
        .then(|| look_ahead(&study.spec, study.search_counts(), elapsed, used, now, running));
    Ok(Effort { elapsed, device_time, forecast })
}

/// The inputs of the description.
struct Figures<'a> {
    study_state: Option<&'a StudyState>,
    runners: &'a [StoredRunner],
    behind: &'a [Behind],
    unmeasured: Option<&'a Unmeasured>,
}

fn print(
    study: &StudySummary,
    state: StudyStatus,
    effort: &Effort,
    figures: &Figures<'_>,
    console: &mut Console,
) -> Result<(), Failure> {
    let spec = &study.spec;
    writeln!(console.out, "{}: {}", one_line(&spec.name), goal(spec))?;
    if let Some(description) = &spec.description {
        writeln!(console.out, "{}", one_line(description))?;
    }
    writeln!(console.out)?;
    for (title, text) in how_far(study, state, effort, figures.runners, console)
        .into_iter()
        .chain(rules(study, console))
    {
        console.fact(title, &text)?;
        if let (true, Some(study_state)) = (title == "best", figures.study_state) {
            several_runs(study_state, console)?;
        }
        if let (true, Some(why)) = (title == "budget", figures.unmeasured) {
            console.fact("goal", &why.to_string())?;
        }
    }
    for Behind { destination, why } in figures.behind {
        let sync = console.next(&format!("sync {} --to {destination}", spec.name));
        console.fact("behind", &format!("{destination} ({why}); {sync} adds what it lacks"))?;
    }
    writeln!(console.out)?;
    if figures.runners.last().is_some_and(|runner| runner.provenance.is_some()) {
        provenance::print_study(figures.runners, console)?;
        writeln!(console.out)?;
    }
    if spec.is_tracked() {
        return Ok(());
    }
    console.table(&space_columns(spec.space.dimensions()))
}

/// Prints the runs behind the best value, and the race.
fn several_runs(state: &StudyState, console: &mut Console) -> Result<(), Failure> {
    let runs = best::runs(state);
    if let Some(runs) = &runs {
        console.fact("runs", &best_runs::in_words(runs))?;
    }
    if let Some(race) = best_runs::race(state) {
        console.fact("race", &race)?;
    }
    if let Some(test) = runs.and_then(|runs| runs.test) {
        let metrics: Vec<String> = test
            .iter()
            .map(|(name, value)| format!("{} {}", one_line(name), number(value)))
            .collect();
        console.fact("test", &format!("{}, measured once", metrics.join(", ")))?;
    }
    Ok(())
}

fn how_far(
    study: &StudySummary,
    state: StudyStatus,
    effort: &Effort,
    runners: &[StoredRunner],
    console: &Console,
) -> Vec<(&'static str, String)> {
    let running = if state == StudyStatus::Interrupted { "interrupted" } else { "running" };
    let none = if study.spec.is_tracked() { "none" } else { "none yet" };
    let trials = states_of(&study.spec, study.counts, running).unwrap_or_else(|| none.to_owned());
    let hours = ahead::device_hours(effort.device_time.as_secs_f64() / 3600.0);
    let cost = study
        .spec
        .budget
        .price_of(effort.device_time)
        .map(|cost| format!(", cost {cost:.2}"))
        .unwrap_or_default();
    let forecast = effort
        .forecast
        .as_ref()
        .map(ahead::parts)
        .filter(|parts| !parts.is_empty())
        .map(|parts| ("forecast", parts.join("; ")));
    let best = match (study.best, &study.front) {
        (Some((trial, value)), _) => format!("{} (trial {trial})", number(value)),
        (None, Some(Front { knee: Some(knee), .. })) => {
            let words = study.front.as_ref().map_or_else(String::new, front_in_words);
            format!("{words}; trial {knee} is its compromise")
        }
        (None, _) => no_best(study.counts, [&study.spec]),
    };
    let time = if study.spec.is_tracked() {
        format!("{} of all runs together", duration(effort.elapsed))
    } else {
        format!("{}; {hours}{cost}", duration(effort.elapsed))
    };
    let facts = [
        ("state", state_in_words(study, state, &provenance::run(runners), console)),
        ("trials", trials),
        ("best", best),
        ("time", time),
    ];
    let tags = Some(study.all_tags()).filter(|tags| !tags.is_empty());
    let tags = tags.map(|tags| ("tags", one_line(&tags.join(" "))));
    let notes = study.notes.iter().map(|note| ("note", one_line(&note.text)));
    let facts = facts.into_iter().chain(forecast).chain([("created", moment(study.created))]);
    facts.chain(tags).chain(notes).collect()
}

fn state_in_words(
    study: &StudySummary,
    state: StudyStatus,
    run: &str,
    console: &Console,
) -> String {
    let resume = console.next(&format!("resume {}", one_line(&study.spec.name)));
    let run = match study.spec.program {
        Program::Trainer { .. } | Program::Command { .. } => console.next(run),
        Program::Inline => "the program that asks for its trials".to_owned(),
    };
    match (state, &study.held, &study.finished) {
        (StudyStatus::Running, Some(held), _) => {
            format!("running, by process {} on {}", held.holder.pid, one_line(&held.holder.host))
        }
        (StudyStatus::Interrupted, ..) if study.spec.is_tracked() => {
            "the processes of its running runs died; `hpsearch track` settles them".to_owned()
        }
        (StudyStatus::Idle, ..) => "idle: no run is being tracked".to_owned(),
        (StudyStatus::Paused, ..) => format!("paused by you: {resume} lets it continue"),
        (StudyStatus::Finished | StudyStatus::Failed, _, Some(reason)) => {
            format!("{}: {}", state.as_str(), one_line(reason))
        }
        (StudyStatus::Interrupted, ..) if study.paused.is_some() => format!(
            "interrupted: its runner died; it is paused by you, too: {resume} and {run} let it \
             continue"
        ),
        (StudyStatus::Interrupted, ..) => format!("interrupted: its runner died; {run} continues"),
        (StudyStatus::Stopped, ..) => format!("stopped; {run} continues"),
        _ => state.as_str().to_owned(),
    }
}

fn rules(study: &StudySummary, console: &Console) -> Vec<(&'static str, String)> {
    let spec = &study.spec;
    let value = spec.value_in_words();
    let threads = count(u64::from(spec.devices.cpu_threads), "thread");
    let within =
        spec.devices.memory.map(|memory| format!(" within {}", bytes(memory))).unwrap_or_default();
    let shared = if spec.devices.automatic_concurrency {
        format!(", shared out as they are measured{within}")
    } else {
        String::new()
    };
    let grouped = match spec.devices.per_trial {
        None | Some(PerTrial::Count(1)) => String::new(),
        Some(PerTrial::Count(devices)) => format!(", {devices} for each trial"),
        Some(PerTrial::Auto) => ", all of them for each trial".to_owned(),
    };
    let nodes = match spec.devices.nodes_per_trial {
        1 => String::new(),
        nodes => format!(", on {nodes} machines for each trial"),
    };
    let ranks = if spec.devices.per_device { ", one process per device" } else { "" };
    let threads_of = if spec.devices.per_device { "process" } else { "trial" };
    let resume = |device: &Device| {
        console.next(&format!("resume {} --device {device}", one_line(&spec.name)))
    };
    let paused: String = study
        .paused_devices
        .iter()
        .map(|device| format!("; {device} is paused by you: {}", resume(device)))
        .collect();
    let keep = spec.checkpoints.keep_best.map_or_else(
        || "all".to_owned(),
        |best| format!("of the best {}", count(u64::from(best), "trial")),
    );
    let most = spec
        .checkpoints
        .max_disk
        .map(|most| format!(", {} at most", bytes(most)))
        .unwrap_or_default();
    let checkpoints =
        format!("{keep}{most}, in {}", one_line(&shown(&files_directory(spec, &console.store))));
    if spec.is_tracked() {
        let value = format!("{value}; reports are counted in {}", spec.step.plural());
        return vec![
            ("value", value),
            ("sampler", "none: it holds tracked runs, and nothing is searched".to_owned()),
            ("checkpoints", checkpoints),
        ];
    }
    vec![
        ("value", format!("{value}; reports are counted in {}", spec.step.plural())),
        ("budget", budget(spec)),
        ("sampler", sampler(study)),
        ("pruner", algorithm(&spec.pruner)),
        ("objective", program(&spec.program)),
        (
            "devices",
            format!(
                "{}{grouped}{nodes}{ranks}{shared}, {threads} for each {threads_of} on the \
                 CPU{paused}",
                one_line(&spec.devices.select.join(", "))
            ),
        ),
        ("checkpoints", checkpoints),
        ("seed", spec.seed.to_string()),
    ]
    .into_iter()
    .chain(comparison(spec).map(|text| ("comparison", text)))
    .collect()
}

/// The sampler, and the one it would choose for the next trial.
fn sampler(study: &StudySummary) -> String {
    let (spec, counts) = (&study.spec, study.search_counts());
    let number = TrialNumber(counts.total());
    let situation = situation(spec, counts, number);
    let chosen = samplers::choice(&spec.sampler, &situation);
    let next = chosen
        .map(|choice| format!("; next by {}: {}", choice.sampler, choice.reason))
        .unwrap_or_default();
    format!("{}{next}", algorithm(&spec.sampler))
}

fn program(program: &Program) -> String {
    match program {
        Program::Trainer { arguments, .. } => {
            let task = arguments
                .get("task")
                .and_then(serde_json::Value::as_str)
                .map(|task| format!(", {task}"))
                .unwrap_or_default();
            format!("the built-in trainer{}", one_line(&task))
        }
        Program::Command { run, .. } => format!("`{}`", one_line(&run.join(" "))),
        Program::Inline => "a function of the program that made the study".to_owned(),
    }
}

fn space_columns(dimensions: &[Dimension]) -> Vec<Column> {
    let mut columns = Columns::of(dimensions)
        .left("parameter", |dimension| one_line(&dimension.name))
        .left("kind", |dimension| kind(&dimension.distribution))
        .left("values", |dimension| one_line(&values(&dimension.distribution)));
    if dimensions.iter().any(|dimension| dimension.prior.is_some()) {
        let prior =
            |dimension: &Dimension| dimension.prior.as_ref().map_or_else(String::new, param);
        columns = columns.left("prior", prior);
    }
    if dimensions.iter().any(|dimension| dimension.when.is_some()) {
        columns = columns.left("only when", condition);
    }
    columns.end()
}
