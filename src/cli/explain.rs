//! `hpsearch explain`: why a trial was proposed and stopped, how its attempts ended, and how it
//! compares.

mod by_sampler;
mod domination;
mod predicted;
mod story;

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::moments::{instant, moment};
use super::prediction_json::{PredictionJson, predictions_json};
use super::trial_json::{BestJson, TrialJson, origin_kind, seconds};
use super::{Console, Exit, Failure};
use crate::app::find;
use crate::app::populations::{Family, family};
use crate::app::study_state::{situation, times_spent};
use crate::report::table::{Column, Columns};
use crate::report::wording::{
    attempt_end, duration, number, one_line, param, result, shown_value, states,
};
use crate::samplers::{self, Beginning, Given, PastProposal, Predicted, Startup, WaitsFor};
use crate::storage::{OutcomeCursor, StorageReader, StudySummary};
use crate::study::counted::count;
use crate::study::event::Seq;
use crate::study::metric::{Direction, Number, Score, median};
use crate::study::provenance::AgentProvenance;
use crate::study::spec::{StudySpec, ValueRule};
use crate::study::state::shown_params;
use crate::study::trial::{Origin, Trial, TrialState};
use domination::{Domination, trials_in_words};
use story::{Field, Judgement, Proposal, Story, Teller, Turn};

const EXAMPLES: &str = "\
Examples:
  hpsearch explain 7               of the only study of the store
  hpsearch explain digits 7
  hpsearch explain digits 7 --json | jq .decisions";

/// Arguments of `hpsearch explain`.
#[derive(Clone, Debug, Args)]
#[command(allow_missing_positional = true, after_help = EXAMPLES)]
pub struct ExplainArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The trial's number, or a tracked run's name
    pub trial: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ExplainJson<'a> {
    trial: TrialJson,
    origin: OriginJson,
    proposed: Option<&'a Proposal>,
    /// What the sampler's model predicted, by objective.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predictions: Vec<PredictionJson<'a>>,
    decisions: Vec<DecisionJson>,
    turns: &'a [Turn],
    attempts: Vec<AttemptJson>,
    comparison: Option<&'a Comparison>,
    /// In a study of several objectives.
    #[serde(skip_serializing_if = "Option::is_none")]
    domination: Option<&'a Domination>,
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<&'a Family>,
}

#[derive(Serialize)]
struct OriginJson {
    kind: &'static str,
    sampler: Option<String>,
    entry: Option<u64>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_end: Option<Predicted>,
    /// Of several objectives: each one's report, or the one before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<Option<Number>>,
    /// Of several objectives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predicted_ends: Vec<Predicted>,
}

#[derive(Serialize)]
struct AttemptJson {
    attempt: u32,
    device: String,
    /// The machine of its agent, if it ran on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentProvenance>,
    started: String,
    resumed_from: Option<u64>,
    ended: Option<String>,
    seconds: Option<f64>,
    end: Option<&'static str>,
    reason: Option<String>,
}

/// Events read per page.
const BATCH: u64 = 10_000;

/// Prints the explanation.
pub fn explain(arguments: &ExplainArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let (study, trial) =
        find::study_and_trial(&reader, arguments.study.as_deref(), &arguments.trial)?;
    let story = story(&reader, &study, &trial)?;
    let comparison = comparison(&reader, &study, &trial)?;
    let domination = domination::of(&reader, &study, &trial)?;
    let family = family(&reader, &study, &trial)?;
    if arguments.json {
        let spent =
            times_spent(&reader, &study, std::slice::from_ref(&trial))?.remove(&trial.number);
        let output = ExplainJson {
            trial: TrialJson::new(&study.spec, &trial).after(spent),
            domination: domination.as_ref(),
            family: family.as_ref(),
            ..json(&study, &trial, &story, comparison.as_ref())
        };
        return console.json(Some(&study.spec.name), &output);
    }
    let compared = comparison
        .map(|comparison| compared(&study.spec, &trial, &comparison))
        .or(domination.map(|domination| domination.in_words(&trial)));
    print(&study, &trial, &story, compared, console)?;
    if let Some(Family { stage_lines, tree, .. }) = family {
        for (title, lines) in [("schedule", stage_lines), ("family", tree)] {
            writeln!(console.out, "\n{title}")?;
            for line in lines {
                writeln!(console.out, "  {line}")?;
            }
        }
    }
    Ok(Exit::Done)
}

/// Reads the journal up to the end of the trial.
fn story(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
) -> Result<Story, Failure> {
    let mut teller =
        Teller::new(&study.spec, trial.number).predicting(predicted::steps(&study.spec, trial));
    let mut after = Seq::default();
    loop {
        let events = reader.events_after(study.id, after, BATCH)?;
        let Some((last, ..)) = events.last() else { break };
        after = *last;
        for (_, at, event) in &events {
            teller.hear(*at, event);
        }
        let read = events.last().map(|(_, at, _)| *at);
        if trial.finished.is_some_and(|finished| read > Some(finished)) {
            break;
        }
    }
    Ok(teller.finish())
}

/// The rank of the trial's value among those of all complete trials.
#[derive(Serialize)]
struct Comparison {
    value: Number,
    rank: usize,
    of: usize,
    best: BestJson,
    #[serde(skip)]
    median: f64,
}

fn comparison(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
) -> Result<Option<Comparison>, Failure> {
    let (Some(value), Some(best)) = (shown_value(&study.spec, trial), study.best) else {
        return Ok(None);
    };
    let direction = study.spec.direction();
    let (outcomes, _) = reader.outcomes(study.id, OutcomeCursor::default())?;
    let others = outcomes
        .iter()
        .filter(|outcome| outcome.state == TrialState::Complete && outcome.number != trial.number)
        .filter_map(|outcome| Some((outcome.violation, outcome.value?)));
    let mut values: Vec<(Option<f64>, f64)> = others.chain([(trial.violation, value)]).collect();
    // What violates a limit is behind all that do not, by how much it does.
    let place = |(violation, value): &(Option<f64>, f64)| {
        let violation = Score::new(Direction::Minimize, violation.unwrap_or(0.0));
        (violation, Score::new(direction, *value))
    };
    let own = place(&(trial.violation, value));
    let better = values.iter().filter(|other| place(other) < own).count();
    values.sort_by_key(|(_, value)| Score::new(direction, *value));
    let values: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
    Ok(Some(Comparison {
        value: Number(value),
        rank: better + 1,
        of: values.len(),
        best: best.into(),
        median: median(&values).unwrap_or(value),
    }))
}

fn json<'a>(
    study: &'a StudySummary,
    trial: &Trial,
    story: &'a Story,
    comparison: Option<&'a Comparison>,
) -> ExplainJson<'a> {
    let (sampler, entry) = match &trial.origin {
        Origin::Sampled(sampler) => (Some(sampler.clone()), None),
        Origin::Enqueued(entry) => (None, Some(*entry)),
        Origin::Repeat(_) => (Some(study.spec.sampler.name.clone()), None),
        _ => (None, None),
    };
    let is_several = study.spec.has_several_objectives();
    let field = |judgement: &Judgement, number: fn(&Field) -> Option<f64>| {
        judgement.field.as_ref().and_then(number).map(Number).filter(|_| !is_several)
    };
    let decisions = story.judgements.iter().map(|judgement| DecisionJson {
        step: judgement.step,
        decision: judgement.verdict.word(),
        reason: judgement.verdict.reason().map(ToString::to_string),
        value: judgement.value.map(Number).filter(|_| !is_several),
        rank: judgement.field.as_ref().map(|field| field.rank).filter(|_| !is_several),
        of: judgement.field.as_ref().map(|field| field.of).filter(|_| !is_several),
        best: field(judgement, |field| Some(field.best)),
        median: field(judgement, |field| Some(field.median)),
        cut_off: field(judgement, |field| field.cut_off),
        predicted_end: judgement.predicted_end,
        values: judgement.values.iter().map(|value| value.map(Number)).collect(),
        predicted_ends: judgement.predicted_ends.clone(),
    });
    let attempts = story.attempts.iter().map(|attempt| AttemptJson {
        attempt: attempt.attempt.0,
        device: attempt.device.clone(),
        agent: attempt.agent.clone(),
        started: instant(attempt.started),
        resumed_from: attempt.resumed_from,
        ended: attempt.end.as_ref().map(|(at, ..)| instant(*at)),
        seconds: attempt.end.as_ref().map(|(at, ..)| seconds(at.0 - attempt.started.0)),
        end: attempt.end.as_ref().map(|(_, end, _)| attempt_end(Some(end))),
        reason: attempt.end.as_ref().and_then(|(_, _, reason)| reason.clone()),
    });
    ExplainJson {
        trial: TrialJson::new(&study.spec, trial),
        origin: OriginJson { kind: origin_kind(&trial.origin), sampler, entry },
        proposed: story.proposal.as_ref(),
        predictions: story.proposal.as_ref().map_or_else(Vec::new, |proposal| {
            predictions_json(&study.spec, trial, &proposal.by_sampler)
        }),
        decisions: decisions.collect(),
        turns: &story.turns,
        attempts: attempts.collect(),
        comparison,
        domination: None,
        family: None,
    }
}

fn print(
    study: &StudySummary,
    trial: &Trial,
    story: &Story,
    compared: Option<String>,
    console: &mut Console,
) -> Result<(), Failure> {
    let spec = &study.spec;
    writeln!(console.out, "{}", headline(spec, trial))?;
    if let Some(reason) = &trial.reason {
        writeln!(console.out, "{}", one_line(reason))?;
    }
    let mut lines = vec![("proposed", by(spec, trial, story))];
    if let Some(proposal) = &story.proposal {
        lines.extend(by_sampler::in_words(spec, trial, &proposal.by_sampler));
        lines.extend(known(spec, trial, proposal));
    }
    lines.extend(compared.map(|compared| ("compared", compared)));
    writeln!(console.out)?;
    for (title, text) in lines {
        console.fact(title, &text)?;
    }
    if let Some(Proposal { predicted, predicted_objectives, .. }) = &story.proposal {
        let alone = Some(predicted).filter(|rows| !rows.is_empty());
        for (objective, rows) in alone.into_iter().chain(predicted_objectives).enumerate() {
            predicted::print(spec, trial, objective, rows, console)?;
        }
    }
    writeln!(console.out, "\nparameters")?;
    let params: Vec<_> = shown_params(spec, trial).iter().collect();
    let columns = Columns::of(&params)
        .left("name", |(name, _)| one_line(name))
        .left("value", |(_, value)| param(value));
    console.table(&columns.end())?;
    if story.judgements.is_empty() {
        let why = if spec.is_tracked() {
            "nothing judges a tracked run"
        } else if spec.pruner.name == "none" {
            "the study has no pruner"
        } else if trial.last_step().is_none() {
            "nothing was reported"
        } else {
            "the pruner evaluated none of its reports; `hpsearch list pruners` shows the options \
             that set when it begins"
        };
        writeln!(console.out, "\nno decisions: {why}")?;
    } else {
        writeln!(console.out, "\ndecisions")?;
        console.table(&decision_columns(spec, &story.judgements))?;
    }
    for turn in &story.turns {
        writeln!(console.out, "{} {}", moment(turn.at), one_line(&turn.text))?;
    }
    if story.attempts.is_empty() {
        writeln!(console.out, "\nno attempt has begun")?;
        return Ok(());
    }
    writeln!(console.out, "\nattempts")?;
    console.table(&attempt_columns(spec, story))?;
    for (index, attempt) in story.attempts.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| story.attempts.get(before));
        if let Some(agent) = &attempt.agent
            && before.is_none_or(|before| before.agent != attempt.agent)
        {
            let machine = one_line(&agent.in_words());
            writeln!(console.out, "attempt {} ran on {machine}", attempt.attempt)?;
        }
    }
    Ok(())
}

/// `trial 7 of digits: pruned at epoch 3 with eval_loss 0.71`.
fn headline(spec: &StudySpec, trial: &Trial) -> String {
    let has_ended = trial.value.is_some() || !trial.values.is_empty();
    let value = match (result(spec, trial), trial.last_step()) {
        (Some(result), _) if has_ended => format!(" with {result}"),
        (Some(result), Some(step)) => format!(" at {} {step} with {result}", spec.step.as_str()),
        _ => ", nothing reported".to_owned(),
    };
    let what = if spec.is_tracked() { "run" } else { "trial" };
    let Trial { number, state, .. } = trial;
    one_line(&format!("{what} {number} of {}: {}{value}", spec.name, state.as_str()))
}

fn by(spec: &StudySpec, trial: &Trial, story: &Story) -> String {
    let by = match &trial.origin {
        Origin::Sampled(sampler) => {
            let random = story
                .proposal
                .as_ref()
                .and_then(|proposal| beginning(spec, sampler, trial, proposal));
            let chosen = if *sampler == spec.sampler.name {
                String::new()
            } else {
                chosen(spec, trial, story)
            };
            format!("by sampler {sampler}{}{chosen}", random.unwrap_or_default())
        }
        Origin::Enqueued(entry) => format!("by the study file: its `[[enqueue]]` entry {entry}"),
        Origin::Asked => "by hand, with `hpsearch enqueue`".to_owned(),
        Origin::Imported(source) => format!("elsewhere: imported from {}", one_line(source)),
        Origin::Tracked(_) => "by no sampler: a tracked run".to_owned(),
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

/// Why the study's sampler delegated the trial to another one.
fn chosen(spec: &StudySpec, trial: &Trial, story: &Story) -> String {
    let Some(others) = story.proposal.as_ref().map(|proposal| proposal.others) else {
        return String::new();
    };
    let situation = situation(spec, others, trial.number);
    match samplers::choice(&spec.sampler, &situation) {
        Some(choice) if trial.origin == Origin::Sampled(choice.sampler.to_owned()) => {
            format!(", which {} chose: {}", spec.sampler.name, choice.reason)
        }
        _ => String::new(),
    }
}

/// Where the parameters of a trial came from, if not from a model.
fn beginning(
    spec: &StudySpec,
    sampler: &str,
    trial: &Trial,
    proposal: &Proposal,
) -> Option<String> {
    let past = PastProposal {
        params: shown_params(spec, trial),
        place: proposal.place,
        others: proposal.others,
        is_predicted: !proposal.by_sampler.is_empty(),
    };
    Some(match samplers::beginning(spec, sampler, past)? {
        Beginning::Given(Given::Prior) => ", at the priors of the space".to_owned(),
        Beginning::Given(Given::Earlier) => {
            ", a best configuration of the earlier studies (warm_start)".to_owned()
        }
        Beginning::Random(Startup { trials, waits_for }) => {
            let what = match waits_for {
                WaitsFor::Complete => "complete",
                WaitsFor::CompleteOrStopped => "finished",
            };
            let is = if trials == 1 { "is" } else { "are" };
            format!(", at random until {} {is} {what}", count(trials, "trial"))
        }
    })
}

fn known(spec: &StudySpec, trial: &Trial, proposal: &Proposal) -> Vec<(&'static str, String)> {
    if spec.is_tracked() {
        // Nothing proposed it.
        return Vec::new();
    }
    let mut lines = vec![(
        "known then",
        states(proposal.others, "running")
            .unwrap_or_else(|| "nothing: it was the first trial".to_owned()),
    )];
    if let Some(BestJson { number: best, value }) = proposal.best {
        lines.push(("best then", format!("{} (trial {best})", number(value.0))));
    }
    if !proposal.front.is_empty() {
        lines.push(("front then", trials_in_words(&proposal.front)));
    }
    if let Some(near) = &proposal.nearest
        && matches!(trial.origin, Origin::Sampled(_))
    {
        let metric = &spec.objective().metric;
        let value = near.value.filter(|_| !spec.has_several_objectives());
        let value = value.map(|value| format!(" with {metric} {}", number(value.0)));
        let is_best = proposal.best.is_some_and(|best| best.number == near.trial);
        let text = format!(
            "trial {}{}{}; parameters differ by {:.1} % of their ranges on average",
            near.trial,
            value.unwrap_or_default(),
            if is_best { ", the best then" } else { "" },
            near.distance * 100.0
        );
        lines.push(("nearest", one_line(&text)));
    }
    lines
}

fn compared(spec: &StudySpec, trial: &Trial, comparison: &Comparison) -> String {
    let Comparison { value, rank, of, best, median } = comparison;
    let is_best = best.number == trial.number;
    let trials = count(*of as u64, "complete trial");
    let place = match trial.state {
        TrialState::Complete if is_best => format!("the best of {trials}"),
        TrialState::Complete => format!("rank {rank} of {trials}"),
        TrialState::Queued
        | TrialState::Running
        | TrialState::Paused
        | TrialState::Pruned
        | TrialState::Failed => {
            let what = match spec.value {
                ValueRule::Mean => "the mean of its reports",
                ValueRule::Last | ValueRule::Best => "its last report",
            };
            format!("{what}; among complete trials it would have rank {rank} of {of}")
        }
    };
    let to_best = if is_best {
        String::new()
    } else {
        format!("; best {} (trial {})", number(best.value.0), best.number)
    };
    format!("{} is {place}{to_best}; median {}", number(value.0), number(*median))
}

fn decision_columns(spec: &StudySpec, judgements: &[Judgement]) -> Vec<Column> {
    let value = |value: Option<f64>| value.map_or_else(String::new, number);
    let field = |judgement: &Judgement, pick: fn(&Field) -> Option<f64>| {
        value(judgement.field.as_ref().and_then(pick))
    };
    let rank = |judgement: &Judgement| {
        let field = judgement.field.as_ref();
        field.map_or_else(String::new, |field| format!("{} of {}", field.rank, field.of))
    };
    let why = |judgement: &Judgement| {
        let reason = judgement.verdict.reason();
        reason.map_or_else(String::new, |reason| one_line(&reason.to_string()))
    };
    let columns =
        Columns::of(judgements).right(spec.step.as_str(), |judgement| judgement.step.to_string());
    // The place among values of one objective is not what decides among several.
    if spec.has_several_objectives() {
        let word = |judgement: &Judgement| judgement.verdict.word();
        let known = |judgement: &Judgement| {
            let values = judgement.values.iter();
            values.map(|value| value.map_or("?".to_owned(), number)).collect::<Vec<_>>().join(", ")
        };
        let ends = |judgement: &Judgement| {
            let ends = judgement.predicted_ends.iter();
            ends.map(predicted::interval).collect::<Vec<_>>().join(", ")
        };
        let columns = columns.left(one_line(&spec.objective_names().join(", ")), known);
        let columns = match judgements.iter().any(|one| !one.predicted_ends.is_empty()) {
            true => columns.left("predicted ends", ends).optional(),
            false => columns,
        };
        return columns.left("decision", word).left("why", why).end();
    }
    let columns = columns
        .point("value", |judgement| value(judgement.value))
        .right("rank", rank)
        .point("cut-off", |judgement| field(judgement, |field| field.cut_off))
        .point("best", |judgement| field(judgement, |field| Some(field.best)))
        .optional()
        .point("median", |judgement| field(judgement, |field| Some(field.median)))
        .optional();
    let end = |judgement: &Judgement| {
        judgement.predicted_end.as_ref().map_or_else(String::new, predicted::interval)
    };
    let columns = match judgements.iter().any(|judgement| judgement.predicted_end.is_some()) {
        true => columns.left("predicted end", end).optional(),
        false => columns,
    };
    columns.left("decision", |judgement| judgement.verdict.word()).left("why", why).end()
}

fn attempt_columns(spec: &StudySpec, story: &Story) -> Vec<Column> {
    let took = |attempt: &story::AttemptStory| {
        attempt
            .end
            .as_ref()
            .map_or_else(String::new, |(at, ..)| duration(at.since(attempt.started)))
    };
    let from = |attempt: &story::AttemptStory| spec.step.resume_point(attempt.resumed_from);
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
