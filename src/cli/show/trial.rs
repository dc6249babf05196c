//! `hpsearch show` of one trial: parameters, value, the runs of its configuration, and provenance.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use super::kept;
use crate::app::find;
use crate::app::populations::{Family, family};
use crate::app::study_state::{interrupted, ran_until_death, times_spent};
use crate::arguments::RowsAtOnce;
use crate::cli::artifact_json::{ArtifactJson, artifacts_json};
use crate::cli::console::shown;
use crate::cli::prediction_json::{PredictionJson, predictions_json};
use crate::cli::provenance::{self, Made, MadeJson};
use crate::cli::trial_json::TrialJson;
use crate::cli::{Console, Exit, Failure};
use crate::engine::batch_halving::BatchHalving;
use crate::engine::seed_of;
use crate::report::wording::{
    duration, number, one_line, param, proposed_with, remarked, result, shown_value, state_word,
};
use crate::runner::removal::is_missing;
use crate::runner::untracked_sources::as_new_file;
use crate::storage::{Remarked, StorageReader, StudySummary};
use crate::study::artifact::StoredArtifact;
use crate::study::checkpoint::Checkpoint;
use crate::study::counted::count;
use crate::study::event::{AttemptEvent, Event, ProposalEvent, RecordEvent, Seq, TrialEvent};
use crate::study::metric::Number;
use crate::study::params::Params;
use crate::study::prediction::Prediction;
use crate::study::provenance::Provenance;
use crate::study::remark::RemarkKind;
use crate::study::series::{SeriesAxis, SeriesSummary, step_json};
use crate::study::spec::ValueRule;
use crate::study::state::shown_params;
use crate::study::statistics::Statistics;
use crate::study::tracked::TrackedRun;
use crate::study::trial::{AttemptNumber, Origin, Trial, TrialNumber};

#[derive(Serialize)]
struct ShowTrialJson<'a> {
    trial: TrialJson,
    /// The values that the sampler's model predicted when it proposed the trial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predictions: Vec<PredictionJson<'a>>,
    configuration: u64,
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryJson>,
    attempts: Vec<MadeJson>,
    series: Vec<SeriesSummaryJson>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    summary: BTreeMap<String, serde_json::Value>,
    /// Existing checkpoints, by step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checkpoints: Vec<Checkpoint>,
    artifacts: Vec<ArtifactJson>,
    remarks: Vec<RemarkJson>,
}

/// A metric on an axis.
#[derive(Serialize)]
struct SeriesSummaryJson {
    metric: String,
    #[serde(rename = "clock")]
    axis: SeriesAxis,
    count: u64,
    first: serde_json::Value,
    last: serde_json::Value,
    last_value: Number,
}

impl From<SeriesSummary> for SeriesSummaryJson {
    fn from(series: SeriesSummary) -> Self {
        let SeriesSummary { metric, axis, count, first, last, last_value, .. } = series;
        let (first, last, last_value) = (step_json(first), step_json(last), Number(last_value));
        SeriesSummaryJson { metric, axis, count, first, last, last_value }
    }
}

/// A remark about the trial's lines.
#[derive(Serialize)]
struct RemarkJson {
    attempt: u32,
    kind: RemarkKind,
    count: u64,
    text: String,
}

/// For a trial that ran out of memory: the batch sizes of its next or last attempt.
#[derive(Serialize)]
struct MemoryJson {
    rows_at_once: RowsAtOnce,
    by_its_arguments: RowsAtOnce,
}

/// Prints a trial of `study`.
pub fn show(
    reader: &dyn StorageReader,
    study: &StudySummary,
    number: TrialNumber,
    form: Form,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let trial = find::trial(reader, study, number)?;
    let made = provenance::of_trial(reader, study.id, number)?;
    let series = reader.series(study.id, &[number])?;
    let artifacts = reader.artifacts(study.id, Some(number))?;
    let predicted = reader.predicted(study.id, number)?;
    let remarks = Remarked::taken_together(reader.remarks(study.id, number, Seq::default())?.0);
    let spent = times_spent(reader, study, std::slice::from_ref(&trial))?.remove(&number);
    match form {
        Form::Changes => changes(reader, study, number, &made, console)?,
        Form::Json => {
            let output = ShowTrialJson {
                trial: TrialJson::new(&study.spec, &trial).after(spent),
                predictions: predictions_json(&study.spec, &trial, &predicted),
                configuration: trial.origin.configuration().unwrap_or(number).0,
                seed: seed_of(&study.spec, &trial),
                memory: memory(study, &trial, &made).map(|memory| MemoryJson {
                    rows_at_once: memory.rows(),
                    by_its_arguments: memory.usual,
                }),
                attempts: made
                    .iter()
                    .map(|made| MadeJson::with_packages(made, reader))
                    .collect::<Result<_, _>>()?,
                series: series.into_iter().map(SeriesSummaryJson::from).collect(),
                summary: reader.trial_summary(study.id, trial.number)?,
                checkpoints: {
                    let listed = trial.checkpoints.iter();
                    listed.filter(|listed| !is_missing(&listed.path)).cloned().collect()
                },
                artifacts: artifacts_json(reader, study, &console.store, &artifacts)?,
                remarks: remarks.into_iter().map(RemarkJson::from).collect(),
            };
            return console.json(Some(&study.spec.name), &output);
        }
        Form::Text => {
            let details = TrialDetails { predicted, series: &series, remarks: &remarks };
            print(reader, study, &trial, &made, &details, &artifacts, console)?
        }
    }
    Ok(Exit::Done)
}

/// What the journal tells of a trial.
struct TrialDetails<'a> {
    /// The values that were predicted when it was proposed.
    predicted: Vec<Prediction>,
    series: &'a [SeriesSummary],
    remarks: &'a [Remarked],
}

/// What to show of a trial.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// The trial as text.
    Text,
    /// The trial, as JSON.
    Json,
    /// Its uncommitted code changes, for `git apply`.
    Changes,
}

fn memory(study: &StudySummary, trial: &Trial, made: &[Made]) -> Option<BatchHalving> {
    BatchHalving::of_attempts(
        &study.spec,
        trial,
        made.iter().filter_map(|made| made.attempt.end.as_ref()),
    )
}

fn changes(
    reader: &dyn StorageReader,
    study: &StudySummary,
    number: TrialNumber,
    made: &[Made],
    console: &mut Console,
) -> Result<(), Failure> {
    let provenance = made.last().and_then(Made::provenance);
    let kept = provenance.and_then(|provenance| provenance.diff());
    let text = kept.map(|changes| reader.document(&changes.digest)).transpose()?.flatten();
    let mut new_files = Vec::new();
    for (path, digest) in provenance.into_iter().flat_map(Provenance::untracked) {
        let text = reader.document(digest)?;
        new_files.extend(text.map(|text| as_new_file(path, &text)));
    }
    if text.is_none() && new_files.is_empty() {
        let failure = Failure::usage(format!("no code changes of trial {number} were kept"));
        let show = console.next(&format!("show {} {number}", study.spec.name));
        return Err(failure.help(format!("{show} prints its commit, if it had one")));
    };
    write!(console.out, "{}{}", text.unwrap_or_default(), new_files.concat())?;
    if kept.is_some_and(|changes| changes.cut) {
        console.say("note: there were more changes; they are cut");
    }
    Ok(())
}

impl From<Remarked> for RemarkJson {
    fn from(remark: Remarked) -> Self {
        RemarkJson {
            attempt: remark.attempt.0,
            kind: remark.kind,
            count: remark.count,
            text: remark.text,
        }
    }
}

fn print(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    made: &[Made],
    details: &TrialDetails<'_>,
    artifacts: &[StoredArtifact],
    console: &mut Console,
) -> Result<(), Failure> {
    let TrialDetails { predicted, series, remarks } = details;
    let spec = &study.spec;
    let has_result = trial.value.is_some() || !trial.values.is_empty();
    let value = result(spec, trial)
        .filter(|_| has_result)
        .map(|result| format!(" with {result}"))
        .unwrap_or_default();
    let tracked = trial.origin.tracked();
    let is_dead = !interrupted(reader, study, std::slice::from_ref(trial))?.is_empty();
    let state = if is_dead { "interrupted" } else { state_word(trial) };
    let what = if tracked.is_some() { "run" } else { "trial" };
    let head = format!("{what} {} of {}: {state}{value}", trial.number, spec.name);
    writeln!(console.out, "{}\n", one_line(&head))?;
    print_configuration(reader, study, trial, (predicted, made), console)?;
    if is_dead {
        let reason = match tracked {
            Some(_) => {
                "its process was killed; the next `hpsearch track` in this study records its end"
            }
            None => "its runner was killed; it continues when the study is run again",
        };
        console.fact("reason", reason)?;
    }
    for (name, value) in reader.trial_summary(study.id, trial.number)? {
        console.fact("summary", &one_line(&format!("{name}={value}")))?;
    }
    if let Some(reason) = &trial.reason {
        console.fact("reason", &one_line(reason))?;
    }
    print_reports(reader, study, trial, console)?;
    let open = if is_dead { ran_until_death(reader, study, trial.number)? } else { None };
    let spent = times_spent(reader, study, std::slice::from_ref(trial))?.remove(&trial.number);
    let busy = spent.unwrap_or_default();
    let attempts = count(u64::from(trial.attempts), "attempt");
    console.fact("time", &format!("{} in {attempts}", duration(busy)))?;
    if tracked.is_none() {
        console.fact("seed", &seed_of(spec, trial).to_string())?;
    }
    if let Some(memory) = memory(study, trial, made) {
        console.fact("memory", &memory.in_words())?;
    }
    if let Some(words) = configuration(reader, study, trial)? {
        console.fact("runs", &words)?;
    }
    for (index, series) in series.iter().enumerate() {
        let SeriesSummary { metric, axis, count: points, last, last_value, .. } = series;
        let text = format!(
            "{metric} by {axis}: {}, last {} at {}",
            count(*points, "point"),
            number(*last_value),
            axis.words(*last)
        );
        console.fact(if index == 0 { "series" } else { "" }, &one_line(&text))?;
    }
    for (index, checkpoint) in trial.checkpoints.iter().enumerate() {
        let title = if index == 0 { "checkpoints" } else { "" };
        let at = spec.step.at(checkpoint.step);
        let gone = if is_missing(&checkpoint.path) { " (gone)" } else { "" };
        console.fact(title, &one_line(&format!("{at}: {}{gone}", shown(&checkpoint.path))))?;
    }
    kept::print(reader, artifacts, spec.step, console)?;
    for (index, remark) in remarks.iter().enumerate() {
        let text = format!("attempt {}: {}", remark.attempt, remarked(&remark.text, remark.count));
        console.fact(if index == 0 { "remarks" } else { "" }, &one_line(&text))?;
    }
    writeln!(console.out)?;
    provenance::print_attempts(made, is_dead.then_some(open), console)?;
    packages(reader, study, trial, made, console)
}

/// Who the trial is: its parameters and where they come from, its family, tags and notes.
fn print_configuration(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    (predicted, made): (&[Prediction], &[Made]),
    console: &mut Console,
) -> Result<(), Failure> {
    let spec = &study.spec;
    for (title, text) in trial.origin.tracked().map(identity).unwrap_or_default() {
        console.fact(title, &one_line(&text))?;
    }
    let params: Vec<String> = shown_params(spec, trial)
        .iter()
        .map(|(name, value)| format!("{name}={}", param(value)))
        .collect();
    console.fact("parameters", &one_line(&params.join(" ")))?;
    for text in earlier_params(reader, study, trial, made)? {
        console.fact("", &one_line(&text))?;
    }
    if !predicted.is_empty() {
        console.fact("origin", &proposed_with(spec, &trial.origin, predicted))?;
    }
    if let Some(Family { stage_lines, tree, .. }) = family(reader, study, trial)? {
        for (title, lines) in [("schedule", stage_lines), ("family", tree)] {
            for (index, line) in lines.iter().enumerate() {
                console.fact(if index == 0 { title } else { "" }, line)?;
            }
        }
    }
    if !trial.tags.is_empty() {
        console.fact("tags", &one_line(&trial.tags.join(" ")))?;
    }
    for note in &trial.notes {
        console.fact("note", &one_line(&note.text))?;
    }
    Ok(())
}

/// Where its reports stand.
fn print_reports(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    console: &mut Console,
) -> Result<(), Failure> {
    let spec = &study.spec;
    let last = match spec.has_several_objectives() {
        true => trial.last_step().zip(result(spec, trial)),
        false => trial.last().map(|(step, last)| (step, number(last))),
    };
    if let Some((step, last)) = last {
        console.fact("last report", &format!("{last} at {}", spec.step.at(step)))?;
    }
    if let Some(mean) = shown_value(spec, trial)
        && spec.value == ValueRule::Mean
        && trial.value.is_none()
    {
        let reports = count(trial.curve.len() as u64, "report");
        console.fact("mean so far", &format!("{} of {reports}", number(mean)))?;
    }
    for (index, text) in by_earlier_attempts(reader, study, trial)?.iter().enumerate() {
        console.fact(if index == 0 { "reports" } else { "" }, text)?;
    }
    Ok(())
}

/// The parameters of a tracked run that had other values in earlier attempts.
fn earlier_params(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    made: &[Made],
) -> Result<Vec<String>, Failure> {
    let first = made.first().and_then(|made| made.attempt.runner);
    let (Some(first), Some(_), true) = (first, trial.origin.tracked(), made.len() > 1) else {
        return Ok(Vec::new());
    };
    let (mut params, mut attempt) = (Params::new(), AttemptNumber(0));
    let mut of_attempts: BTreeMap<AttemptNumber, Params> = BTreeMap::new();
    let mut after = Seq(first.0 - 1);
    loop {
        let page = reader.events_after(study.id, after, EVENTS)?;
        let Some((last, ..)) = page.last() else { break };
        after = *last;
        for (_, _, event) in &page {
            let Event::Trial(number, event) = event else { continue };
            match event {
                _ if *number != trial.number => continue,
                TrialEvent::Proposal(ProposalEvent::TrialCreated { params: created, .. }) => {
                    params.clone_from(created);
                }
                TrialEvent::Attempt(AttemptEvent::Started { attempt: begun, .. }) => {
                    attempt = *begun;
                }
                TrialEvent::Record(RecordEvent::ParamsRecorded { params: recorded }) => {
                    for (name, value) in recorded.iter() {
                        params.insert(name, value.clone());
                    }
                }
                _ => continue,
            }
            of_attempts.insert(attempt, params.clone());
        }
    }
    let now = &trial.params;
    let in_words = |(attempt, params): (AttemptNumber, Params)| {
        let other = params.iter().filter(|(name, value)| now.get(name) != Some(*value));
        let other: Vec<String> =
            other.map(|(name, value)| format!("{name}={}", param(value))).collect();
        (!other.is_empty()).then(|| format!("attempt {attempt}: {}", other.join(" ")))
    };
    Ok(of_attempts.into_iter().filter_map(in_words).collect())
}

/// Events that are read at a time.
const EVENTS: u64 = 1000;

/// Which reports of the objectives still are of earlier attempts.
fn by_earlier_attempts(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
) -> Result<Vec<String>, Failure> {
    let Some(last) = trial.last_attempt().filter(|last| last.0 > 0) else { return Ok(Vec::new()) };
    let mut steps: BTreeMap<AttemptNumber, (u64, u64)> = BTreeMap::new();
    for (metric, step, by) in reader.reporters(study.id, trial.number)? {
        if by != last && study.spec.is_objective(&metric) {
            let (first, end) = steps.entry(by).or_insert((step, step));
            (*first, *end) = (step.min(*first), step.max(*end));
        }
    }
    let in_words = |(by, (first, end)): (AttemptNumber, (u64, u64))| {
        let to = if end > first { format!(" to {end}") } else { String::new() };
        format!("{}{to} by attempt {by}", study.spec.step.at(first))
    };
    Ok(steps.into_iter().map(in_words).collect())
}

/// Package changes since the trial before.
fn packages(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    made: &[Made],
    console: &mut Console,
) -> Result<(), Failure> {
    let Some(before) = trial.number.0.checked_sub(1).map(TrialNumber) else { return Ok(()) };
    let before = provenance::of_trial(reader, study.id, before)?;
    let of = |made: &[Made]| made.last().and_then(Made::provenance).cloned();
    let (Some(one), Some(other)) = (of(&before), of(made)) else { return Ok(()) };
    let differences = provenance::package_differences(reader, &one, &other)?;
    for (index, (name, versions)) in differences.iter().take(CHANGED_PACKAGES).enumerate() {
        let title = if index == 0 { "changed" } else { "" };
        let text = format!("{} since the trial before", provenance::version_change(name, versions));
        console.fact(title, &one_line(&text))?;
    }
    if differences.len() > CHANGED_PACKAGES {
        let more = count((differences.len() - CHANGED_PACKAGES) as u64, "more package");
        console.fact("", &format!("and {more}; `hpsearch diff` names them"))?;
    }
    Ok(())
}

/// Most changed packages named.
const CHANGED_PACKAGES: usize = 5;

/// The identity of a tracked run: its names and command.
fn identity(run: &TrackedRun) -> Vec<(&'static str, String)> {
    let command = (!run.command.is_empty()).then(|| run.command.join(" "));
    let facts = [
        ("name", run.name.clone()),
        ("group", run.group.clone()),
        ("parent", run.parent.map(|parent| parent.to_string())),
        ("job", run.job.clone()),
        ("command", command),
    ];
    facts.into_iter().filter_map(|(title, text)| Some((title, text?))).collect()
}

/// The runs of the trial's configuration, if there are several.
fn configuration(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
) -> Result<Option<String>, Failure> {
    let first = trial.origin.configuration().unwrap_or(trial.number);
    let state = reader.study_state(study.id)?;
    let own: Vec<&Trial> = state
        .trials
        .iter()
        .filter(|other| other.number == first || other.origin.configuration() == Some(first))
        .collect();
    if own.len() < 2 {
        return Ok(None);
    }
    let (race, search): (Vec<&Trial>, Vec<&Trial>) =
        own.into_iter().partition(|run| run.origin.is_race());
    let words = |runs: &[&Trial]| {
        let numbers: Vec<String> = runs.iter().map(|run| run.number.to_string()).collect();
        let statistics =
            Statistics::of(&runs.iter().filter_map(|run| run.value).collect::<Vec<_>>());
        let mean = statistics
            .map(|statistics| {
                format!(
                    ", mean {}, deviation {}",
                    number(statistics.mean),
                    number(statistics.deviation)
                )
            })
            .unwrap_or_default();
        format!("trials {}{mean}", numbers.join(", "))
    };
    let role = match &trial.origin {
        Origin::Replicate(_) => "another run of",
        Origin::Repeat(_) => "proposed again as",
        Origin::Race { .. } => "in the race for",
        Origin::Sampled(_)
        | Origin::Enqueued(_)
        | Origin::Asked
        | Origin::Imported(_)
        | Origin::Tracked(_) => "of",
    };
    let races =
        if race.is_empty() { String::new() } else { format!("; in races: {}", words(&race)) };
    Ok(Some(format!("{role} configuration {first}: {}{races}", words(&search))))
}
