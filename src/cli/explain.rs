//! `hpsearch explain`: why a trial was proposed, why it was stopped, how its attempts ended, and
//! how it compares.

mod story;

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::OutputForm;
use super::console::Console;
use super::exit::{Exit, Failure};
use super::moments::{instant, moment};
use super::trial_json::{BestJson, CountsJson, TrialJson, VERSION, seconds};
use super::trial_words;
use crate::app::find;
use crate::report::table::{Align, Column, Columns};
use crate::report::wording::{attempt_end, count, duration, number, one_line, param, shown_value};
use crate::samplers::{self, SAMPLERS, Situation};
use crate::storage::{OutcomeCursor, StorageReader, StudySummary};
use crate::study::event::Seq;
use crate::study::field;
use crate::study::metric::{Number, Score, median};
use crate::study::spec::StudySpec;
use crate::study::state::Counts;
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};
use story::{Field, Judgement, Proposal, Story, Teller};

const EXAMPLES: &str = "\
Examples:
  hpsearch explain 7               of the only study of the store
  hpsearch explain digits 7
  hpsearch explain digits 7 --json | jq .decisions";

/// What `hpsearch explain` is told.
#[derive(Clone, Debug, Args)]
#[command(allow_missing_positional = true, after_help = EXAMPLES)]
pub struct ExplainArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The trial's number
    #[arg(value_parser = trial_words::number)]
    pub trial: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    study: &'a str,
    trial: TrialJson,
    origin: OriginJson,
    proposed: Option<ProposedJson>,
    decisions: Vec<DecisionJson>,
    turns: Vec<TurnJson>,
    attempts: Vec<AttemptJson>,
    comparison: Option<ComparisonJson>,
}

#[derive(Serialize)]
struct OriginJson {
    kind: &'static str,
    sampler: Option<String>,
    entry: Option<u64>,
}

#[derive(Serialize)]
struct ProposedJson {
    at: String,
    others: CountsJson,
    best: Option<BestJson>,
    nearest: Option<NearestJson>,
}

#[derive(Serialize)]
struct NearestJson {
    number: u64,
    distance: f64,
    value: Option<Number>,
}

#[derive(Serialize)]
struct DecisionJson {
    step: u64,
    decision: &'static str,
    reason: Option<String>,
    value: Option<Number>,
    rank: Option<usize>,
    of: Option<usize>,
    best: Option<Number>,
    median: Option<Number>,
    cut_off: Option<Number>,
}

#[derive(Serialize)]
struct TurnJson {
    at: String,
    what: &'static str,
    reason: String,
}

#[derive(Serialize)]
struct AttemptJson {
    attempt: u32,
    device: String,
    started: String,
    resumed_from: Option<u64>,
    ended: Option<String>,
    seconds: Option<f64>,
    end: Option<&'static str>,
    reason: Option<String>,
}

#[derive(Serialize)]
struct ComparisonJson {
    value: Number,
    rank: usize,
    of: usize,
    best: BestJson,
}

/// How many journal events are read at a time.
const BATCH: u64 = 10_000;

/// Prints why.
pub fn explain(arguments: &ExplainArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (reader, study) = console.study(arguments.study.as_deref())?;
    let trial = find::trial(&reader, &study, TrialNumber(arguments.trial))?;
    let story = story(&reader, &study, &trial)?;
    let comparison = comparison(&reader, &study, &trial)?;
    match OutputForm::from(arguments.json) {
        OutputForm::Json => console.json(&json(&study, &trial, &story, comparison.as_ref()))?,
        OutputForm::Text => print(&study, &trial, &story, comparison.as_ref(), console)?,
    }
    Ok(Exit::Done)
}

/// Reads the journal up to the end of the trial.
fn story(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
) -> Result<Story, Failure> {
    let mut teller = Teller::new(&study.spec, trial.number);
    let mut after = Seq::default();
    loop {
        let events = reader.events_after(study.id, after, BATCH)?;
        let Some((last, ..)) = events.last() else { break };
        after = *last;
        for (_, at, event) in &events {
            teller.hear(*at, event);
        }
        if trial
            .finished
            .is_some_and(|finished| events.last().is_some_and(|(_, at, _)| *at > finished))
        {
            break;
        }
    }
    Ok(teller.finish())
}

/// Where the trial's value stands among those of all complete trials.
struct Comparison {
    value: f64,
    rank: usize,
    of: usize,
    best: (TrialNumber, f64),
    median: f64,
}

fn comparison(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
) -> Result<Option<Comparison>, Failure> {
    let (Some(value), Some(best)) = (shown_value(trial), study.best) else { return Ok(None) };
    let direction = study.spec.direction();
    let (outcomes, _) = reader.outcomes(study.id, OutcomeCursor::default())?;
    let mut values: Vec<f64> = outcomes
        .iter()
        .filter(|outcome| outcome.state == TrialState::Complete && outcome.number != trial.number)
        .filter_map(|outcome| outcome.value)
        .chain([value])
        .collect();
    values.sort_by_key(|value| Score::new(direction, *value));
    let better = values
        .iter()
        .filter(|other| Score::new(direction, **other) < Score::new(direction, value))
        .count();
    Ok(Some(Comparison {
        value,
        rank: better + 1,
        of: values.len(),
        best,
        median: median(&values).unwrap_or(value),
    }))
}

fn json<'a>(
    study: &'a StudySummary,
    trial: &Trial,
    story: &Story,
    comparison: Option<&Comparison>,
) -> Answer<'a> {
    let best =
        |(number, value): (TrialNumber, f64)| BestJson { number: number.0, value: Number(value) };
    let origin = match &trial.origin {
        Origin::Sampled(sampler) => {
            OriginJson { kind: "sampled", sampler: Some(sampler.clone()), entry: None }
        }
        Origin::Enqueued(entry) => {
            OriginJson { kind: "enqueued", sampler: None, entry: Some(*entry) }
        }
        Origin::Asked => OriginJson { kind: "asked", sampler: None, entry: None },
        Origin::Replicate(_) => OriginJson { kind: "replicate", sampler: None, entry: None },
        Origin::Repeat(_) => OriginJson {
            kind: "repeat",
            sampler: Some(study.spec.sampler.name.clone()),
            entry: None,
        },
        Origin::Race { .. } => OriginJson { kind: "race", sampler: None, entry: None },
    };
    let proposed = story.proposal.as_ref().map(|proposal| ProposedJson {
        at: instant(proposal.at),
        others: proposal.others.into(),
        best: proposal.best.map(best),
        nearest: proposal.nearest.as_ref().map(|near| NearestJson {
            number: near.trial.0,
            distance: near.distance,
            value: near.value.map(Number),
        }),
    });
    let field = |judgement: &Judgement, number: fn(&Field) -> Option<f64>| {
        judgement.field.as_ref().and_then(number).map(Number)
    };
    let decisions = story.judgements.iter().map(|judgement| DecisionJson {
        step: judgement.step,
        decision: judgement.verdict.word(),
        reason: judgement.verdict.reason().map(ToString::to_string),
        value: judgement.value.map(Number),
        rank: judgement.field.as_ref().map(|field| field.rank),
        of: judgement.field.as_ref().map(|field| field.of),
        best: field(judgement, |field| Some(field.best)),
        median: field(judgement, |field| Some(field.median)),
        cut_off: field(judgement, |field| field.cut_off),
    });
    let attempts = story.attempts.iter().map(|attempt| AttemptJson {
        attempt: attempt.attempt.0,
        device: attempt.device.clone(),
        started: instant(attempt.started),
        resumed_from: attempt.resumed_from,
        ended: attempt.end.as_ref().map(|(at, ..)| instant(*at)),
        seconds: attempt.end.as_ref().map(|(at, ..)| seconds(at.0 - attempt.started.0)),
        end: attempt.end.as_ref().map(|(_, end, _)| attempt_end(Some(end))),
        reason: attempt.end.as_ref().and_then(|(_, _, reason)| reason.clone()),
    });
    Answer {
        version: VERSION,
        study: &study.spec.name,
        trial: TrialJson::from(trial),
        origin,
        proposed,
        decisions: decisions.collect(),
        turns: story
            .turns
            .iter()
            .map(|turn| TurnJson {
                at: instant(turn.at),
                what: turn.what,
                reason: turn.reason.clone(),
            })
            .collect(),
        attempts: attempts.collect(),
        comparison: comparison.map(|comparison| ComparisonJson {
            value: Number(comparison.value),
            rank: comparison.rank,
            of: comparison.of,
            best: best(comparison.best),
        }),
    }
}

fn print(
    study: &StudySummary,
    trial: &Trial,
    story: &Story,
    comparison: Option<&Comparison>,
    console: &mut Console,
) -> Result<(), Failure> {
    let spec = &study.spec;
    writeln!(console.out, "{}", headline(spec, trial))?;
    if let Some(reason) = &trial.reason {
        writeln!(console.out, "{}", one_line(reason))?;
    }
    let mut lines = vec![("proposed", by(spec, trial, story))];
    if let Some(proposal) = &story.proposal {
        lines.extend(known(spec, trial, proposal));
    }
    if let Some(comparison) = comparison {
        lines.push(("compared", compared(trial, comparison)));
    }
    writeln!(console.out)?;
    for (title, text) in lines {
        console.fact(title, &text)?;
    }
    writeln!(console.out, "\nparameters")?;
    let params: Vec<_> = trial.params.iter().collect();
    let columns = Columns::of(&params)
        .left("name", |(name, _)| one_line(name))
        .left("value", |(_, value)| param(value));
    console.table(&columns.end())?;
    if story.judgements.is_empty() {
        let why = if spec.pruner.name == "none" {
            "the study has no pruner"
        } else {
            "no report reached a rung"
        };
        writeln!(console.out, "\nno decisions: {why}")?;
    } else {
        writeln!(console.out, "\ndecisions")?;
        console.table(&decision_columns(spec, &story.judgements))?;
    }
    for turn in &story.turns {
        writeln!(console.out, "{} {}: {}", moment(turn.at), turn.what, one_line(&turn.reason))?;
    }
    if story.attempts.is_empty() {
        writeln!(console.out, "\nno attempt has begun")?;
        return Ok(());
    }
    writeln!(console.out, "\nattempts")?;
    console.table(&attempt_columns(spec, story))
}

/// `trial 7 of digits: pruned at epoch 3 with eval_loss 0.71`.
fn headline(spec: &StudySpec, trial: &Trial) -> String {
    let metric = &spec.objective().metric;
    let value = match (trial.value, trial.last()) {
        (Some(value), _) => format!(" with {metric} {}", number(value)),
        (None, Some((step, value))) => {
            format!(" at {} {step} with {metric} {}", spec.step.as_str(), number(value))
        }
        (None, None) => ", nothing reported".to_owned(),
    };
    one_line(&format!("trial {} of {}: {}{value}", trial.number, spec.name, trial.state.as_str()))
}

fn by(spec: &StudySpec, trial: &Trial, story: &Story) -> String {
    let by = match &trial.origin {
        Origin::Sampled(sampler) => {
            let startup = startup_trials(spec).filter(|_| *sampler == spec.sampler.name);
            let known = story
                .proposal
                .as_ref()
                .map(|proposal| proposal.others.complete + proposal.others.pruned);
            let random = match (startup, known) {
                (Some(startup), Some(known)) if known < startup => {
                    format!(
                        ", at random until {} finished",
                        if startup == 1 {
                            "1 trial has".to_owned()
                        } else {
                            format!("{startup} trials have")
                        }
                    )
                }
                _ => String::new(),
            };
            let chosen = if *sampler == spec.sampler.name {
                String::new()
            } else {
                chosen(spec, trial, story)
            };
            format!("by sampler {sampler}{random}{chosen}")
        }
        Origin::Enqueued(entry) => format!("by the study file: its `[[enqueue]]` entry {entry}"),
        Origin::Asked => "by hand, with `hpsearch enqueue`".to_owned(),
        Origin::Replicate(of) => {
            format!("as another run of trial {of}, on another seed (study.replicates)")
        }
        Origin::Repeat(of) => format!(
            "by sampler {}, which proposed trial {of} again (study.duplicates)",
            spec.sampler.name
        ),
        Origin::Race { of, round, .. } => {
            format!("for round {} of the race: trial {of} on a fresh seed (study.race)", round + 1)
        }
    };
    let at = story
        .proposal
        .as_ref()
        .map(|proposal| format!(", on {}", moment(proposal.at)))
        .unwrap_or_default();
    one_line(&format!("{by}{at}"))
}

/// Why the study's sampler left the trial to another one.
fn chosen(spec: &StudySpec, trial: &Trial, story: &Story) -> String {
    let Some(others) = story.proposal.as_ref().map(|proposal| proposal.others) else {
        return String::new();
    };
    let finished = others.complete + others.pruned + others.failed + others.paused;
    let unfinished = others.queued + others.running;
    let stopped = others.pruned + others.paused;
    let situation = Situation {
        space: &spec.space,
        number: trial.number,
        finished,
        stopped,
        unfinished,
        budget: spec.budget.trials,
    };
    match samplers::choice(&spec.sampler, &situation) {
        Some(choice) if trial.origin == Origin::Sampled(choice.sampler.to_owned()) => {
            format!(", which {} chose: {}", spec.sampler.name, choice.reason)
        }
        _ => String::new(),
    }
}

/// The study's `n_startup_trials`, for samplers that have the option.
fn startup_trials(spec: &StudySpec) -> Option<u64> {
    let entry = SAMPLERS.iter().find(|entry| entry.name == spec.sampler.name)?;
    field::find(entry.options, "n_startup_trials")?.of(&spec.sampler)
}

fn known(spec: &StudySpec, trial: &Trial, proposal: &Proposal) -> Vec<(&'static str, String)> {
    let mut lines = vec![("known then", states(proposal.others))];
    if let Some((best, value)) = proposal.best {
        lines.push(("best then", format!("{} (trial {best})", number(value))));
    }
    if let Some(near) = &proposal.nearest
        && matches!(trial.origin, Origin::Sampled(_))
    {
        let value = near
            .value
            .map(|value| format!(" with {} {}", spec.objective().metric, number(value)))
            .unwrap_or_default();
        let is_best = if proposal.best.is_some_and(|(best, _)| best == near.trial) {
            ", the best then"
        } else {
            ""
        };
        lines.push((
            "nearest",
            one_line(&format!(
                "trial {}{value}{is_best}; parameters differ by {} of their ranges on average",
                near.trial,
                percent(near.distance)
            )),
        ));
    }
    lines
}

fn states(mut counts: Counts) -> String {
    let parts: Vec<String> = TrialState::ALL
        .into_iter()
        .filter_map(|state| {
            Some(*counts.of(state))
                .filter(|trials| *trials > 0)
                .map(|trials| format!("{trials} {}", state.as_str()))
        })
        .collect();
    if parts.is_empty() { "nothing: it was the first trial".to_owned() } else { parts.join(", ") }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn compared(trial: &Trial, comparison: &Comparison) -> String {
    let Comparison { value, rank, of, best: (best, best_value), median } = comparison;
    let place = match trial.state {
        TrialState::Complete if *best == trial.number => {
            format!("the best of {}", count(*of as u64, "complete trial"))
        }
        TrialState::Complete => format!("rank {rank} of {}", count(*of as u64, "complete trial")),
        _ => format!("its last report; among complete trials it would have rank {rank} of {of}"),
    };
    let to_best = if *best == trial.number {
        String::new()
    } else {
        format!("; best {} (trial {best})", number(*best_value))
    };
    format!("{} is {place}{to_best}; median {}", number(*value), number(*median))
}

fn decision_columns(spec: &StudySpec, judgements: &[Judgement]) -> Vec<Column> {
    let cells =
        |cell: &dyn Fn(&Judgement) -> String| judgements.iter().map(cell).collect::<Vec<_>>();
    let value = |value: Option<f64>| value.map_or_else(String::new, number);
    let field = |judgement: &Judgement, pick: fn(&Field) -> Option<f64>| {
        value(judgement.field.as_ref().and_then(pick))
    };
    let rank = |judgement: &Judgement| {
        judgement
            .field
            .as_ref()
            .map_or_else(String::new, |field| format!("{} of {}", field.rank, field.of))
    };
    vec![
        Column::new(
            spec.step.as_str(),
            Align::Right,
            cells(&|judgement| judgement.step.to_string()),
        ),
        Column::new("value", Align::Point, cells(&|judgement| value(judgement.value))),
        Column::new("rank", Align::Right, cells(&rank)),
        Column::new(
            "cut-off",
            Align::Point,
            cells(&|judgement| field(judgement, |field| field.cut_off)),
        ),
        Column::new(
            "best",
            Align::Point,
            cells(&|judgement| field(judgement, |field| Some(field.best))),
        )
        .optional(),
        Column::new(
            "median",
            Align::Point,
            cells(&|judgement| field(judgement, |field| Some(field.median))),
        )
        .optional(),
        Column::new(
            "decision",
            Align::Left,
            cells(&|judgement| judgement.verdict.word().to_owned()),
        ),
        Column::new(
            "why",
            Align::Left,
            cells(&|judgement| {
                judgement
                    .verdict
                    .reason()
                    .map_or_else(String::new, |reason| one_line(&reason.to_string()))
            }),
        ),
    ]
}

fn attempt_columns(spec: &StudySpec, story: &Story) -> Vec<Column> {
    let took = |attempt: &story::AttemptStory| {
        attempt
            .end
            .as_ref()
            .map_or_else(String::new, |(at, ..)| duration(at.since(attempt.started)))
    };
    let from = |attempt: &story::AttemptStory| match attempt.resumed_from {
        Some(step) => format!("{} {step}", spec.step.as_str()),
        None => "the start".to_owned(),
    };
    let why = |attempt: &story::AttemptStory| {
        attempt
            .end
            .as_ref()
            .and_then(|(_, _, reason)| reason.as_deref())
            .map_or_else(String::new, one_line)
    };
    Columns::of(&story.attempts)
        .right("attempt", |attempt| attempt.attempt.to_string())
        .left("device", |attempt| one_line(&attempt.device))
        .left("began", |attempt| moment(attempt.started))
        .left("from", from)
        .right("took", took)
        .left("end", |attempt| attempt_end(attempt.end.as_ref().map(|(_, end, _)| end)))
        .left("why", why)
        .end()
}
