//! Compares the store's tables with the fold of the journal, and names the first row that differs.

use std::collections::{BTreeMap, BTreeSet};

use super::{Difference, StoredEvent};
use crate::config;
use crate::storage::journal::{attempts_of, losses_recorded, reports_of, runners_of};
use crate::storage::{
    Attempt, OutcomeCursor, SeriesFault, StorageError, StorageReader, StoredRunner, StudyId,
};
use crate::study::event::{Event, Seq, StudyEvent};
use crate::study::spec::StudySpec;
use crate::study::state::{StudyState, continues};
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::{Note, Trial, TrialNumber};

/// Shown for an absent value.
const NOTHING: &str = "nothing";

/// A location: the table, a readable name of the row, the column.
type CellLocation = (&'static str, String, String);

/// The facts of one side, in a fixed order.
#[derive(Default)]
struct Facts(Vec<(CellLocation, String)>);

impl Facts {
    fn add(
        &mut self,
        table: &'static str,
        row: impl Into<String>,
        field: impl Into<String>,
        text: impl Into<String>,
    ) {
        self.0.push(((table, row.into(), field.into()), text.into()));
    }

    /// Adds an optional value.
    fn maybe(
        &mut self,
        table: &'static str,
        row: impl Into<String>,
        field: impl Into<String>,
        text: Option<impl Into<String>>,
    ) {
        if let Some(text) = text {
            self.add(table, row, field, text);
        }
    }

    /// Adds notes and tags.
    fn add_words(&mut self, notes: (&'static str, &[Note]), tags: (&'static str, &[String])) {
        for (index, note) in notes.1.iter().enumerate() {
            let text = format!("{} at {}", note.text, moment(note.at));
            self.add(notes.0, format!("note {index}"), "text", text);
        }
        tags.1.iter().for_each(|tag| self.add(tags.0, tag, "tag", tag));
    }

    /// The first location where the two sides differ, and both values.
    fn difference(self, other: Facts) -> Option<(CellLocation, String, String)> {
        let order: Vec<CellLocation> =
            self.0.iter().chain(&other.0).map(|(location, _)| location.clone()).collect();
        let (mut mine, mut theirs): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (self.0.into_iter().collect(), other.0.into_iter().collect());
        order.into_iter().find_map(|location| {
            let (mine, theirs) = (mine.remove(&location), theirs.remove(&location));
            let text = |side: Option<String>| side.unwrap_or_else(|| NOTHING.to_owned());
            (mine != theirs).then(|| (location, text(mine), text(theirs)))
        })
    }
}

/// A number for comparison: SQLite's columns drop the sign of a zero.
fn number(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { value.to_string() }
}

/// Seconds since 1970, independent of time zones.
fn moment(at: Timestamp) -> String {
    format!("{}.{:06} s", at.0.div_euclid(1_000_000), at.0.rem_euclid(1_000_000))
}

fn json(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

fn of_trial(trial: &Trial, metric: &str) -> Facts {
    let mut facts = Facts::default();
    let mut own = |field: &str, text: Option<String>| facts.maybe("trial", "", field, text);
    own("state", Some(trial.state.as_str().to_owned()));
    own("origin", Some(json(&trial.origin)));
    own("attempts", Some(trial.attempts.to_string()));
    own("failures", Some(trial.failures.to_string()));
    own("device", trial.devices.as_ref().map(ToString::to_string));
    own("until", trial.until.map(|until| until.to_string()));
    own("hold", trial.hold.map(|hold| hold.as_str().to_owned()));
    own("continued", trial.continued.map(|state| state.as_str().to_owned()));
    own("reason", trial.reason.clone().map(|reason| in_older_words(trial, reason)));
    own("violation", trial.violation.map(number));
    own("hidden", trial.hidden.then(|| "yes".to_owned()));
    own("created_at", Some(moment(trial.created)));
    own("started_at", trial.started.map(moment));
    own("finished_at", trial.finished.map(moment));
    own("busy_micros", Some(trial.busy_micros.to_string()));
    let metrics: Vec<String> = trial
        .last_metrics
        .iter()
        .map(|(name, value)| format!("{name}={}", number(value)))
        .collect();
    own("last_metrics", (!metrics.is_empty()).then(|| metrics.join(" ")));
    for (name, value) in trial.params.iter() {
        let text = value.as_number().map_or_else(|| value.to_string(), number);
        facts.add("param", name, "value", text);
    }
    facts.maybe("trial_value", "", "value", trial.value.map(number));
    for (index, value) in trial.values.iter().enumerate() {
        facts.add("trial_value", format!("objective {index}"), "value", number(*value));
    }
    for (step, values) in &trial.vectors {
        for (index, value) in values.iter().enumerate().skip(1) {
            let row = format!("objective {index} at step {step}");
            facts.maybe("report", &row, "value", value.map(number));
        }
    }
    for (step, value) in &trial.curve {
        facts.add("report", format!("{metric} at step {step}"), "value", number(*value));
    }
    for decision in &trial.decisions {
        let (row, verdict) = (format!("step {}", decision.step), decision.verdict.in_words());
        facts.add("decision", row, "verdict", verdict);
    }
    for checkpoint in &trial.checkpoints {
        let bytes = checkpoint.bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
        let step = format!("{}{bytes}", checkpoint.step);
        facts.add("checkpoint", checkpoint.path.display().to_string(), "step", step);
    }
    facts.add_words(("trial_note", &trial.notes), ("trial_tag", &trial.tags));
    facts
}

/// Older stores have this reason with "step", whatever the unit.
fn in_older_words(trial: &Trial, reason: String) -> String {
    let same = |step_unit| trial.until.is_some_and(|until| reason == continues(step_unit, until));
    match trial.until.filter(|_| same(StepUnit::Epoch) || same(StepUnit::Samples)) {
        Some(until) => continues(StepUnit::Step, until),
        None => reason,
    }
}

fn of_study(state: &StudyState) -> Facts {
    let mut facts = Facts::default();
    facts.maybe("study", "", "finished_reason", state.finished.as_ref());
    facts.maybe("study", "", "paused_reason", state.paused.as_ref());
    facts.maybe("study", "", "race", state.race.as_ref().map(json));
    facts.add("study", "", "ran_micros", state.ran_micros.to_string());
    facts.add("study", "", "busy_micros", state.busy_micros.to_string());
    facts.maybe("study", "", "killed_at", state.killed_at.map(moment));
    facts.add("study", "", "extra_trials", state.extension.trials.to_string());
    facts.add("study", "", "extra_micros", state.extension.time.as_micros().to_string());
    facts.add("study", "", "extra_device_hours", number(state.extension.device_hours));
    facts.add("study", "", "extra_cost", number(state.extension.cost));
    for device in &state.paused_devices {
        facts.add("paused_device", device.to_string(), "device", device.to_string());
    }
    facts.add_words(("study_note", &state.notes), ("study_tag", &state.tags));
    facts
}

fn of_attempt(attempt: &Attempt, runner: Option<Seq>) -> Facts {
    let mut facts = Facts::default();
    let mut own = |field: &str, text: Option<String>| {
        facts.maybe("attempt", format!("attempt {}", attempt.attempt), field, text)
    };
    own("slot", Some(attempt.slot.index.to_string()));
    own("device", Some(attempt.slot.devices.to_string()));
    own("resume_step", attempt.resume.as_ref().map(|(step, _)| step.to_string()));
    own("resume_path", attempt.resume.as_ref().map(|(_, path)| path.display().to_string()));
    own("until", attempt.until.map(|until| until.to_string()));
    own("pid", attempt.process.map(|(pid, _)| pid.to_string()));
    own("pid_started", attempt.process.map(|(_, started)| started.to_string()));
    own("started_at", Some(moment(attempt.started)));
    own("ended_at", attempt.ended.map(moment));
    own("outcome", attempt.end.as_ref().map(json));
    own("reason", attempt.reason.clone());
    own("runner", runner.map(|runner| runner.0.to_string()));
    facts
}

fn of_runner(runner: &StoredRunner) -> Facts {
    let mut facts = Facts::default();
    let mut own = |field: &str, text: Option<String>| {
        facts.maybe("runner", format!("runner of event {}", runner.seq.0), field, text)
    };
    own("pid", Some(runner.pid.to_string()));
    own("host", Some(runner.host.clone()));
    own("slots", Some(json(&runner.slots)));
    own("started_at", Some(moment(runner.started)));
    own("stopped_at", runner.stopped.map(moment));
    own("ran_micros", runner.ran_micros.map(|micros| micros.to_string()));
    own("reason", runner.reason.clone());
    own("lineage", runner.provenance.as_ref().map(json));
    facts
}

/// The first difference between tables and journal.
fn found(
    seq: Seq,
    trial: Option<TrialNumber>,
    stored: Facts,
    journal: Facts,
) -> Option<Difference> {
    let ((table, row, field), stored, now) = stored.difference(journal)?;
    Some(Difference { seq, trial, what: "state", table: Some(table), row, field, stored, now })
}

/// The first trial that differs between tables and journal, or else the study.
pub(super) fn states_differ(
    metric: &str,
    folded: &StudyState,
    tables: &StudyState,
    seq: Seq,
) -> Option<Difference> {
    let of = |state: &StudyState, number: TrialNumber| {
        state.trial(number).map_or_else(Facts::default, |trial| of_trial(trial, metric))
    };
    let differs = |number: &TrialNumber| folded.trial(*number) != tables.trial(*number);
    let trials = folded.trials.iter().chain(&tables.trials).map(|trial| trial.number);
    let trials: BTreeSet<TrialNumber> = trials.filter(differs).collect();
    let difference =
        |number: TrialNumber| found(seq, Some(number), of(tables, number), of(folded, number));
    trials
        .into_iter()
        .find_map(difference)
        .or_else(|| found(seq, None, of_study(tables), of_study(folded)))
}

/// Compares data that `verify` does not find in the folded state: the specification, the objectives
/// (metric and direction, in table `objective`), columns of trials that only lists read, reports of
/// all metrics, attempts, runners.
///
/// # Errors
/// The store cannot be read.
pub fn hold_tables(
    reader: &dyn StorageReader,
    study: StudyId,
    objectives: &[(String, String)],
    revisions: &[(Seq, StudySpec)],
    journal: &[StoredEvent],
) -> Result<Option<Difference>, StorageError> {
    let seq = journal.last().map_or(Seq(0), |(seq, ..)| *seq);
    let (attempts, runners) = (reader.attempts(study, None)?, reader.runners(study)?);
    let stored = reader.summary(study)?;
    if journal.is_empty() {
        let rows = [
            (stored.counts.total(), "trials"),
            (attempts.len() as u64, "attempts"),
            (runners.len() as u64, "runners"),
        ];
        let rows: Vec<String> = rows
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if !rows.is_empty() {
            let (mut empty, mut told) = (Facts::default(), Facts::default());
            empty.add("event", "", "", "no events");
            told.add("event", "", "", format!("events of {}", rows.join(", ")));
            return Ok(found(seq, None, empty, told));
        }
    }
    let before = super::misplaced(journal)
        .or_else(|| specification(seq, &stored.spec, objectives, revisions, journal));
    if before.is_some() {
        return Ok(before);
    }
    let mut folded = StudyState::new(&stored.spec);
    journal.iter().for_each(|(_, at, event)| folded.apply(*at, event));
    let mut comparison = Comparison { seq, first: None };
    for outcome in reader.outcomes(study, OutcomeCursor::default())?.0 {
        let last = |last: Option<(u64, f64)>| {
            let mut facts = Facts::default();
            facts.maybe("trial", "", "last_step", last.map(|(step, _)| step.to_string()));
            facts.maybe("trial", "", "last_value", last.map(|(_, value)| number(value)));
            facts
        };
        let stored = outcome.last_step.map(|step| (step, outcome.last_value.unwrap_or(f64::NAN)));
        let told = folded.trial(outcome.number).and_then(Trial::last);
        comparison.hold(Some(outcome.number), last(stored), last(told));
    }
    let mut told = reports_of(journal);
    for trial in &folded.trials {
        let (mut stored, mut own) = (Facts::default(), Facts::default());
        for (metric, step, value) in reader.reports(study, trial.number)? {
            stored.add("report", format!("{metric} at step {step}"), "value", number(value));
        }
        for ((metric, step), report) in told.remove(&trial.number).unwrap_or_default() {
            let row = format!("{metric} at step {step}");
            own.add("report", row, "value", number(report.value));
        }
        comparison.hold(Some(trial.number), stored, own);
    }
    let (mut told, recorded) = (attempts_of(journal), losses_recorded(journal));
    let mut stored: BTreeMap<_, Attempt> =
        attempts.into_iter().map(|attempt| ((attempt.trial, attempt.attempt.0), attempt)).collect();
    for key in told.keys().chain(stored.keys()).copied().collect::<BTreeSet<_>>() {
        let (mut told, stored) = (told.remove(&key), stored.remove(&key));
        if let (Some(told), Some(stored)) = (&mut told, &stored)
            && stored.ended.is_some()
            && stored.ended == recorded.get(&key).copied()
        {
            told.ended = stored.ended;
        }
        // Older stores did not record the runner.
        let keeps_runner = stored.as_ref().is_some_and(|stored| stored.runner.is_some());
        let facts = |attempt: Option<Attempt>| {
            let runner = |attempt: &Attempt| attempt.runner.filter(|_| keeps_runner);
            attempt.map_or_else(Facts::default, |attempt| of_attempt(&attempt, runner(&attempt)))
        };
        comparison.hold(Some(key.0), facts(stored), facts(told));
    }
    let by_seq = |runners: Vec<StoredRunner>| -> BTreeMap<Seq, StoredRunner> {
        runners.into_iter().map(|runner| (runner.seq, runner)).collect()
    };
    let (told, stored) = (by_seq(runners_of(journal)), by_seq(runners));
    for key in told.keys().chain(stored.keys()).collect::<BTreeSet<_>>() {
        let facts = |side: &BTreeMap<_, _>| side.get(key).map_or_else(Facts::default, of_runner);
        comparison.hold(None, facts(&stored), facts(&told));
    }
    if comparison.first.is_none()
        && let Some(fault) = reader.series_fault(study)?
    {
        let SeriesFault { trial, table, row, field, stored, now } = fault;
        let (trial, table) = (Some(trial), Some(table));
        comparison.first =
            Some(Difference { seq, trial, what: "state", table, row, field, stored, now });
    }
    Ok(comparison.first)
}

/// The first difference found.
struct Comparison {
    seq: Seq,
    first: Option<Difference>,
}

impl Comparison {
    fn hold(&mut self, trial: Option<TrialNumber>, stored: Facts, journal: Facts) {
        if self.first.is_none() {
            self.first = found(self.seq, trial, stored, journal);
        }
    }
}

/// The study must equal its last revision plus the extensions of its budget since.
fn specification(
    seq: Seq,
    stored: &StudySpec,
    objectives: &[(String, String)],
    revisions: &[(Seq, StudySpec)],
    journal: &[StoredEvent],
) -> Option<Difference> {
    if let Some((since, spec)) = revisions.last() {
        let mut told = spec.clone();
        for (at, _, event) in journal {
            if let Event::Study(StudyEvent::BudgetExtended { by }) = event
                && at > since
            {
                told.budget.extend(*by);
            }
        }
        let side = |text: &dyn Fn(&config::Change) -> Option<String>| {
            let mut facts = Facts::default();
            config::difference(stored, &told)
                .iter()
                .for_each(|change| facts.maybe("study", "spec", &change.path, text(change)));
            facts
        };
        let (old, new) = (side(&|change| change.old.clone()), side(&|change| change.new.clone()));
        let difference = found(seq, None, old, new);
        if difference.is_some() {
            return difference;
        }
    }
    let side = |objectives: &mut dyn Iterator<Item = (&str, &str)>| {
        let mut facts = Facts::default();
        for (index, (metric, direction)) in objectives.enumerate() {
            facts.add("objective", format!("objective {index}"), "metric", metric);
            facts.add("objective", format!("objective {index}"), "direction", direction);
        }
        facts
    };
    let told = stored.objectives.iter();
    let mut told = told.map(|objective| (objective.metric.as_str(), objective.direction.as_str()));
    let mut stored =
        objectives.iter().map(|(metric, direction)| (metric.as_str(), direction.as_str()));
    found(seq, None, side(&mut stored), side(&mut told))
}
