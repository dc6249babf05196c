//! Decides a stored study again, event by event, and says where the journal first has something else.

mod tables;

use std::cmp::Ordering;

pub use tables::hold_tables;

use super::race::{Standing, standing};
use super::{Engine, EngineError};
use crate::pruners::{PRUNERS, Promotion};
use crate::samplers::SAMPLERS;
use crate::study::decision::Verdict;
use crate::study::device::{Device, Slot};
use crate::study::event::{Event, Seq};
use crate::study::params::Params;
use crate::study::spec::{PolicySpec, Program, StudySpec};
use crate::study::state::StudyView;
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, TrialNumber, TrialState};

/// An entry of a journal.
pub type Entry = (Seq, Timestamp, Event);

/// What deciding again gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verified {
    /// Points that were proposed again.
    pub proposals: u64,
    /// Reports that were judged again.
    pub verdicts: u64,
    /// Trials that a pruner let go on, chosen again.
    pub promotions: u64,
    /// Steps of races: who runs, who leaves, who wins.
    pub race_steps: u64,
    /// Values of trials, computed from their reports again.
    pub values: u64,
    /// Samplers and pruners whose rules have another version here than where they decided.
    pub versions: Vec<VersionChange>,
    /// The first entry that is not what is decided now.
    pub difference: Option<Difference>,
}

/// What differs where an entry of a journal cannot follow those before it: one was taken out, put in or moved.
pub const ORDER: &str = "order";

/// A sampler or pruner that decides by other rules now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionChange {
    /// `sampler` or `pruner`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The version that the study was decided with.
    pub stored: u32,
    /// The version of this hpsearch.
    pub here: u32,
}

/// Where a journal has something else than what is decided now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its place.
    pub seq: Seq,
    /// The trial it is about.
    pub trial: Option<TrialNumber>,
    /// What was decided: `proposal`, `verdict`, `promotion`, `race`, `value` or `rows`; `state`, where a table has something else
    /// than the journal; [`ORDER`].
    pub what: &'static str,
    /// That table.
    pub table: Option<&'static str>,
    /// Its row, where a trial or study has several.
    pub row: String,
    /// Its column.
    pub field: String,
    /// What the journal has, or the table.
    pub stored: String,
    /// What is decided now, or what the journal folds to.
    pub now: String,
}

/// The first entry that cannot follow those before it: trials are created one after another, and nothing happens to a trial
/// that there is not.
fn misplaced(journal: &[Entry]) -> Option<Difference> {
    let mut next = TrialNumber(0);
    for (seq, _, event) in journal {
        let Some(trial) = event.trial() else { continue };
        let is_created = matches!(event, Event::TrialCreated { .. });
        let now = match trial.cmp(&next) {
            Ordering::Less if is_created => format!("trial {trial} was created before"),
            Ordering::Equal if is_created => {
                next.0 += 1;
                continue;
            }
            Ordering::Less => continue,
            _ if is_created => format!("trial {next} is the next to be created"),
            _ => format!("trial {trial} was not created before"),
        };
        let stored = serde_json::to_string(event).unwrap_or_default();
        let (row, field) = (String::new(), String::new());
        return Some(Difference {
            seq: *seq,
            trial: Some(trial),
            what: ORDER,
            table: None,
            row,
            field,
            stored,
            now,
        });
    }
    None
}

/// Decides everything in `journal` again. `revisions` are the versions of the specification, each with the last event
/// before it; `tables` is the state that the store's tables hold.
///
/// # Errors
/// A sampler or pruner of the study is unknown here.
pub fn verify(
    revisions: &[(Seq, StudySpec)],
    journal: &[Entry],
    tables: &StudyView,
) -> Result<Verified, EngineError> {
    let mut verified = Verified { difference: misplaced(journal), ..Verified::default() };
    if verified.difference.is_some() {
        return Ok(verified);
    }
    let mut replay: Option<Replay> = None;
    for (index, entry) in journal.iter().enumerate() {
        let revision = revisions.iter().rposition(|(since, _)| *since < entry.0).unwrap_or(0);
        let Some((_, spec)) = revisions.get(revision) else { return Ok(verified) };
        if replay.as_ref().is_none_or(|replay| replay.revision != revision) {
            note_versions(spec, &mut verified.versions);
            replay = Some(Replay::new(revision, spec, &revisions[revision].0, journal, index)?);
        }
        let Some(replay) = &mut replay else { return Ok(verified) };
        verified.difference = replay.check(entry, journal.get(index + 1), &mut verified);
        if verified.difference.is_some() {
            return Ok(verified);
        }
    }
    if let (Some(replay), Some((seq, ..))) = (&replay, journal.last()) {
        verified.difference = tables::views_differ(
            &replay.engine.spec.objective().metric,
            &replay.engine.view,
            tables,
            *seq,
        );
    }
    Ok(verified)
}

fn note_versions(spec: &StudySpec, found: &mut Vec<VersionChange>) {
    let sampler =
        SAMPLERS.iter().find(|entry| entry.name == spec.sampler.name).map(|entry| entry.version);
    let pruner =
        PRUNERS.iter().find(|entry| entry.name == spec.pruner.name).map(|entry| entry.version);
    for (kind, policy, here) in
        [("sampler", &spec.sampler, sampler), ("pruner", &spec.pruner, pruner)]
    {
        let PolicySpec { name, version, .. } = policy;
        if let Some(here) = here.filter(|here| here != version) {
            found.push(VersionChange { kind, name: name.clone(), stored: *version, here });
        }
    }
}

/// An engine that is fed a journal instead of inputs.
struct Replay {
    revision: usize,
    engine: Engine,
}

impl Replay {
    /// The state before entry `index`.
    fn new(
        revision: usize,
        spec: &StudySpec,
        since: &Seq,
        journal: &[Entry],
        index: usize,
    ) -> Result<Self, EngineError> {
        let mut spec = spec.clone();
        // The budget of a specification has what was added before it, and nothing of what was added later.
        for (seq, _, event) in journal {
            if let Event::BudgetExtended { by } = event
                && *seq <= *since
                && journal.get(index).is_some_and(|entry| entry.0 <= *seq)
            {
                spec.budget.trials =
                    spec.budget.trials.map(|trials| trials.saturating_sub(by.trials));
                spec.budget.time = spec.budget.time.map(|time| time.saturating_sub(by.time));
            }
        }
        let mut view = StudyView::new(&spec);
        journal[..index].iter().for_each(|(_, at, event)| view.apply(*at, event));
        let slot = Slot { index: 0, device: Device::Cpu };
        let before = journal[..index].iter().map(|(_, at, event)| (*at, event));
        let ends = journal[..index].iter().filter_map(|(_, _, event)| event.attempt_end());
        Ok(Replay {
            revision,
            engine: Engine::new(spec, view, vec![slot])?.with_journal(before).with_ends(ends),
        })
    }

    fn check(
        &mut self,
        entry: &Entry,
        next: Option<&Entry>,
        verified: &mut Verified,
    ) -> Option<Difference> {
        let (seq, at, event) = entry;
        let differs = |what, stored: String, now: String| {
            let (row, field) = (String::new(), String::new());
            Some(Difference {
                seq: *seq,
                trial: event.trial(),
                what,
                table: None,
                row,
                field,
                stored,
                now,
            })
        };
        self.engine.now = *at;
        let found = match event {
            Event::TrialCreated { params, origin, .. } => match self.proposal(params, origin) {
                Proposal::Same => {
                    verified.proposals += 1;
                    None
                }
                Proposal::Asked => None,
                Proposal::Differs(now) => {
                    differs("proposal", proposal_in_words(params, origin), now)
                }
            },
            Event::TrialQueued { trial, until, reason } if self.is_promotion(*trial, next) => {
                verified.promotions += 1;
                match promotion(&self.engine, *trial, *until) {
                    Ok(()) => None,
                    Err(now) => differs("promotion", promotion_in_words(*until, reason), now),
                }
            }
            Event::TrialFinished { trial, state: TrialState::Complete, value, .. }
                if self.engine.spec.program != Program::Inline =>
            {
                let reported = self
                    .engine
                    .view
                    .trial(*trial)
                    .and_then(|trial| self.engine.view.value_of(trial));
                verified.values += 1;
                // NaN is a value, and zero is zero whatever its sign.
                let same = match (*value, reported) {
                    (Some(stored), Some(now)) => stored == now || (stored.is_nan() && now.is_nan()),
                    (stored, now) => stored.is_none() == now.is_none(),
                };
                let words = |value: Option<f64>| {
                    value.map_or_else(|| "no value".to_owned(), |value| value.to_string())
                };
                if same { None } else { differs("value", words(*value), words(reported)) }
            }
            // Of stores that did not keep it there is nothing to compare.
            Event::AttemptStarted { trial, rows_at_once: Some(stored), .. } => {
                let memory =
                    self.engine.view.trial(*trial).and_then(|trial| self.engine.memory_of(trial));
                let now = memory.map(|memory| memory.rows().train as u64);
                if now == Some(*stored) {
                    None
                } else {
                    differs("rows", rows_in_words(Some(*stored)), rows_in_words(now))
                }
            }
            Event::RaceBegun { finalists } => {
                verified.race_steps += 1;
                let most = usize::try_from(self.engine.spec.race).unwrap_or(usize::MAX);
                let best: Vec<TrialNumber> = self
                    .engine
                    .view
                    .ranked_configurations()
                    .into_iter()
                    .take(most)
                    .map(|(trial, _)| trial)
                    .collect();
                if best == *finalists {
                    None
                } else {
                    differs("race", finalists_in_words(finalists), finalists_in_words(&best))
                }
            }
            Event::RaceDropped { .. } | Event::RaceWon { .. } => {
                verified.race_steps += 1;
                match standing(&self.engine.view) {
                    Standing::Events(events) if events.contains(event) => None,
                    Standing::Events(events) => differs(
                        "race",
                        race_in_words(std::slice::from_ref(event)),
                        race_in_words(&events),
                    ),
                    _ => differs(
                        "race",
                        race_in_words(std::slice::from_ref(event)),
                        "the race goes on".to_owned(),
                    ),
                }
            }
            _ => None,
        };
        if found.is_some() {
            return found;
        }
        let is_judged = self.is_judged(event);
        self.engine.absorb(event);
        match event {
            Event::BudgetExtended { by } => self.engine.spec.budget.extend(*by),
            Event::Reported { trial, step, .. } if is_judged => {
                verified.verdicts += 1;
                let now = self.engine.judge(*trial, *step);
                let stored = stored_verdict(next, *trial, *step);
                if !now.repeats(&stored) {
                    let words = |verdict: &Verdict| {
                        let because = verdict.reason().map(|reason| format!(": {reason}"));
                        format!("{} at step {step}{}", verdict.word(), because.unwrap_or_default())
                    };
                    return differs("verdict", words(&stored), words(&now));
                }
            }
            _ => {}
        }
        None
    }

    fn proposal(&self, params: &Params, origin: &Origin) -> Proposal {
        let now = match origin {
            Origin::Asked => return Proposal::Asked,
            Origin::Enqueued(index) => match usize::try_from(*index)
                .ok()
                .and_then(|index| self.engine.spec.enqueue.get(index))
            {
                Some(fixed) => self.engine.draw(Some(fixed)),
                // The list was changed since, and the study file with it.
                None => return Proposal::Asked,
            },
            Origin::Replicate(of) | Origin::Race { of, .. } => {
                let configuration = self.engine.view.trial(*of).map(|trial| trial.params.clone());
                return match configuration {
                    Some(same) if same == *params => Proposal::Same,
                    Some(other) => Proposal::Differs(other.to_string()),
                    None => Proposal::Differs(format!("there is no trial {of}")),
                };
            }
            Origin::Sampled(_) | Origin::Repeat(_) => self.engine.draw(None),
        };
        match now {
            Err(why) => Proposal::Differs(why),
            Ok(None) => Proposal::Differs("nothing is left to propose".to_owned()),
            Ok(Some(drawn)) => {
                let from = match (origin, drawn.repeats) {
                    (Origin::Enqueued(index), _) => Origin::Enqueued(*index),
                    (_, Some(of)) => Origin::Repeat(of),
                    (_, None) => Origin::Sampled(drawn.sampler),
                };
                if drawn.params == *params && from == *origin {
                    Proposal::Same
                } else {
                    Proposal::Differs(proposal_in_words(&drawn.params, &from))
                }
            }
        }
    }

    /// Whether the pruner lets the trial go on: not its user, whose request is answered next, and not the runner after a fault.
    fn is_promotion(&self, number: TrialNumber, next: Option<&Entry>) -> bool {
        let waits = self
            .engine
            .view
            .trial(number)
            .is_some_and(|trial| trial.state == TrialState::Paused && trial.hold.is_none());
        waits && !matches!(next, Some((_, _, Event::RequestServed { .. })))
    }

    /// Whether a pruner has a say at this report: not at a step that was reported before, nor past the trial's end.
    fn is_judged(&self, event: &Event) -> bool {
        let Event::Reported { trial, step, metrics, .. } = event else { return false };
        let Some(trial) = self.engine.view.trial(*trial) else { return false };
        let is_new = trial.curve.binary_search_by_key(step, |(at, _)| *at).is_err();
        let counts = metrics.get(&self.engine.spec.objective().metric).is_some();
        is_new && counts && trial.origin.is_judged() && trial.continued.and(trial.until).is_none()
    }
}

/// The verdict that the journal has about a report: the event after it.
fn stored_verdict(next: Option<&Entry>, trial: TrialNumber, step: u64) -> Verdict {
    match next {
        Some((_, _, Event::Decided { trial: about, step: at, verdict }))
            if (*about, *at) == (trial, step) =>
        {
            verdict.clone()
        }
        _ => Verdict::GO_ON,
    }
}

/// Whether a pruner promotes the trial to that step; otherwise what it does.
fn promotion(engine: &Engine, number: TrialNumber, stored: Option<u64>) -> Result<(), String> {
    let promoted = engine.promotion(|pruner, ask, rng| pruner.promote(ask, rng));
    let concluded = || engine.promotion(|pruner, ask, _| pruner.conclude(ask));
    let is_same = |found: &Option<Promotion>| matches!(found, Some(Promotion::Resume { trial, until, .. }) if (*trial, *until) == (number, stored));
    if is_same(&promoted) || is_same(&concluded()) {
        return Ok(());
    }
    Err(match promoted.or_else(concluded) {
        None => "nothing goes on".to_owned(),
        Some(Promotion::Resume { trial, until, reason }) => {
            format!("trial {trial}, {}", promotion_in_words(until, &reason.to_string()))
        }
        Some(Promotion::Clone { from, reason, .. }) => format!("trial {from}, {reason}"),
    })
}

enum Proposal {
    Same,
    /// Not decided here.
    Asked,
    Differs(String),
}

fn proposal_in_words(params: &Params, origin: &Origin) -> String {
    let from = match origin {
        Origin::Sampled(sampler) => format!("by {sampler}"),
        Origin::Enqueued(index) => format!("[[enqueue]] {index}"),
        Origin::Asked => "by its user".to_owned(),
        Origin::Replicate(of) | Origin::Repeat(of) => format!("again, as trial {of}"),
        Origin::Race { of, round, .. } => format!("as trial {of}, in round {round} of the race"),
    };
    format!("{params} ({from})")
}

fn promotion_in_words(until: Option<u64>, reason: &str) -> String {
    let end = until.map_or_else(|| "its end".to_owned(), |until| format!("step {until}"));
    format!("up to {end}: {reason}")
}

fn rows_in_words(rows: Option<u64>) -> String {
    rows.map_or_else(
        || "as many rows as the study says".to_owned(),
        |rows| format!("{rows} rows at once"),
    )
}

fn finalists_in_words(finalists: &[TrialNumber]) -> String {
    format!("trials {}", finalists.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

fn race_in_words(events: &[Event]) -> String {
    let words = |event: &Event| match event {
        Event::RaceDropped { trial, reason } => format!("trial {trial} leaves: {reason}"),
        Event::RaceWon { trial, reason, sample } => {
            format!("trial {trial} wins with a mean of {}: {reason}", sample.mean)
        }
        other => serde_json::to_string(other).unwrap_or_default(),
    };
    if events.is_empty() {
        "nothing".to_owned()
    } else {
        events.iter().map(words).collect::<Vec<_>>().join("; ")
    }
}
