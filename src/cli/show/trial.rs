//! One trial: its parameters and value, the runs of its configuration, and where its results come
//! from.

use std::io::Write;

use serde::Serialize;

use crate::app::find;
use crate::arguments::RowsAtOnce;
use crate::cli::lineage::{self, Made, MadeJson};
use crate::cli::trial_json::TrialJson;
use crate::cli::{Console, Exit, Failure};
use crate::engine::batch_halving::BatchHalving;
use crate::engine::seed_of;
use crate::report::wording::{count, duration, micros, number, one_line, param, remarked};
use crate::storage::{Remarked, StorageReader, StudySummary};
use crate::study::event::Seq;
use crate::study::remark::RemarkKind;
use crate::study::seed::SeedTree;
use crate::study::statistics::Sample;
use crate::study::trial::{Origin, Trial, TrialNumber};

#[derive(Serialize)]
struct Answer {
    trial: TrialJson,
    configuration: u64,
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryJson>,
    attempts: Vec<MadeJson>,
    remarks: Vec<RemarkJson>,
}

/// What was not taken of the trial's lines, or is odd.
#[derive(Serialize)]
struct RemarkJson {
    attempt: u32,
    kind: RemarkKind,
    count: u64,
    text: String,
}

/// Of a trial that ran out of memory: the rows at once that its next attempt has, or its last had.
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
    let made = lineage::of_trial(reader, study.id, number)?;
    let remarks = Remarked::taken_together(reader.remarks(study.id, number, Seq::default())?.0);
    match form {
        Form::Changes => changes(reader, study, number, &made, console)?,
        Form::Json => {
            let answer = Answer {
                trial: TrialJson::from(&trial),
                configuration: trial.origin.configuration().unwrap_or(number).0,
                seed: seed_of(SeedTree::new(study.spec.seed), &trial),
                memory: memory(study, &trial, &made).map(|memory| MemoryJson {
                    rows_at_once: memory.rows(),
                    by_its_arguments: memory.usual,
                }),
                attempts: made.iter().map(MadeJson::from).collect(),
                remarks: remarks.into_iter().map(RemarkJson::from).collect(),
            };
            return console.json(Some(&study.spec.name), &answer);
        }
        Form::Text => print(reader, study, &trial, &made, &remarks, console)?,
    }
    Ok(Exit::Done)
}

/// What of a trial is shown.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// The trial, for people.
    Text,
    /// The trial, as JSON.
    Json,
    /// What was changed in the code since its commit, as `git apply` takes it.
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
    let lineage = made.last().and_then(Made::lineage);
    let kept = lineage.and_then(|lineage| lineage.diff());
    let text = kept.map(|changes| reader.document(&changes.digest)).transpose()?.flatten();
    let Some(text) = text else {
        let failure = Failure::usage(format!("no changes of the code are kept of trial {number}"));
        let show = console.next(&format!("show {} {number}", study.spec.name));
        return Err(failure.help(format!("{show} tells its commit, if it had one")));
    };
    write!(console.out, "{text}")?;
    if kept.is_some_and(|changes| changes.cut) {
        console.say("note: there was more; it is cut");
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
    remarks: &[Remarked],
    console: &mut Console,
) -> Result<(), Failure> {
    let spec = &study.spec;
    let value = trial
        .value
        .map(|value| format!(" with {} {}", spec.objective().metric, number(value)))
        .unwrap_or_default();
    let head = format!("trial {} of {}: {}{value}", trial.number, spec.name, trial.state.as_str());
    writeln!(console.out, "{}\n", one_line(&head))?;
    let params: Vec<String> =
        trial.params.iter().map(|(name, value)| format!("{name}={}", param(value))).collect();
    console.fact("parameters", &one_line(&params.join(" ")))?;
    if let Some(reason) = &trial.reason {
        console.fact("reason", &one_line(reason))?;
    }
    if let Some((step, last)) = trial.last() {
        console
            .fact("last report", &format!("{} at {} {step}", number(last), spec.step.as_str()))?;
    }
    console.fact(
        "time",
        &format!(
            "{} in {}",
            duration(micros(trial.busy_micros)),
            count(u64::from(trial.attempts), "attempt")
        ),
    )?;
    console.fact("seed", &seed_of(SeedTree::new(spec.seed), trial).to_string())?;
    if let Some(memory) = memory(study, trial, made) {
        console.fact("memory", &memory.in_words())?;
    }
    if let Some(words) = configuration(reader, study, trial)? {
        console.fact("runs", &words)?;
    }
    for (index, remark) in remarks.iter().enumerate() {
        let text = format!("attempt {}: {}", remark.attempt, remarked(&remark.text, remark.count));
        console.fact(if index == 0 { "remarks" } else { "" }, &one_line(&text))?;
    }
    writeln!(console.out)?;
    lineage::print_attempts(made, console)?;
    Ok(())
}

/// The runs of the trial's configuration, where there are several.
fn configuration(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
) -> Result<Option<String>, Failure> {
    let first = trial.origin.configuration().unwrap_or(trial.number);
    let view = reader.view(study.id)?;
    let own: Vec<&Trial> = view
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
        let sample = Sample::of(&runs.iter().filter_map(|run| run.value).collect::<Vec<_>>());
        let mean = sample
            .map(|sample| {
                format!(", mean {}, deviation {}", number(sample.mean), number(sample.deviation))
            })
            .unwrap_or_default();
        format!("trials {}{mean}", numbers.join(", "))
    };
    let role = match &trial.origin {
        Origin::Replicate(_) => "another run of",
        Origin::Repeat(_) => "proposed again as",
        Origin::Race { .. } => "in the race for",
        Origin::Sampled(_) | Origin::Enqueued(_) | Origin::Asked | Origin::Tracked(_) => "of",
    };
    let races =
        if race.is_empty() { String::new() } else { format!("; in races: {}", words(&race)) };
    Ok(Some(format!("{role} configuration {first}: {}{races}", words(&search))))
}
