//! Verifies a stored study: replays every decision and reports where the journal first differs.

mod ending;
mod replay;
mod tables;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use replay::Replay;
pub use tables::hold_tables;

use serde::Serialize;

use super::EngineError;
use crate::pruners;
use crate::samplers;
use crate::study::event::{Event, ProposalEvent, Seq, StateEvent, TrialEvent};
use crate::study::spec::{AlgorithmSpec, StudySpec};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// An entry of a journal.
pub type StoredEvent = (Seq, Timestamp, Event);

/// What differs, the stored value, and the replayed one.
type Contradiction = (&'static str, String, String);

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verified {
    /// Proposals replayed.
    pub proposals: u64,
    /// Decisions on reports replayed.
    pub verdicts: u64,
    /// Promotions replayed.
    pub promotions: u64,
    /// Steps of races: runs, dropouts, winners.
    pub race_steps: u64,
    /// Values of trials recomputed from their reports.
    pub values: u64,
    /// Ends of the study by a goal or with a front, recomputed from its trials.
    pub ends: u64,
    /// Samplers and pruners that decided by rules of versions that this program does not have.
    pub versions: Vec<VersionChange>,
    /// The first entry that differs from the replay.
    pub difference: Option<Difference>,
}

/// Set as `what` if an entry cannot follow those before it: one was removed, inserted or moved.
pub const ORDER: &str = "order";

/// What differs of a decision, as `--json` names it.
pub const VERDICT: &str = "verdict";

/// A sampler or pruner whose rules have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionChange {
    /// `sampler` or `pruner`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The version behind the study's decisions.
    pub stored: u32,
    /// The version of this build.
    pub here: u32,
}

/// Where the journal differs from the replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its position in the journal.
    pub seq: Seq,
    /// The trial it is about.
    pub trial: Option<TrialNumber>,
    /// What differs: `proposal`, `prediction` (the value that was predicted of it), `verdict`,
    /// `promotion`, `race`, `value` or `rows`; `state` if a table differs from the journal;
    /// [`ORDER`].
    pub what: &'static str,
    /// The table, if so.
    pub table: Option<&'static str>,
    /// Its row, if a trial or study has several.
    pub row: String,
    /// Its column.
    pub field: String,
    /// The value in the journal, or in the table.
    pub stored: String,
    /// The replayed value, or that of the journal's fold.
    pub now: String,
}

impl Difference {
    /// What differs, in words.
    pub fn what_in_words(&self) -> &'static str {
        if self.what == VERDICT { "decision" } else { self.what }
    }

    /// The difference of an entry from the replay.
    fn of_entry(entry: &StoredEvent, what: &'static str, stored: String, now: String) -> Self {
        let (seq, trial) = (entry.0, entry.2.trial());
        let (table, row, field) = (None, String::new(), String::new());
        Difference { seq, trial, what, table, row, field, stored, now }
    }
}

/// The first entry that cannot follow those before it: trials are created in order, and events need
/// an existing trial.
fn misplaced(journal: &[StoredEvent]) -> Option<Difference> {
    let is_removal = |event: &Event| {
        matches!(event, Event::Trial(_, TrialEvent::State(StateEvent::Removed { .. })))
    };
    let removals = journal.iter().filter(|(_, _, event)| is_removal(event));
    let removed: BTreeSet<TrialNumber> =
        removals.filter_map(|(_, _, event)| event.trial()).collect();
    let mut next = TrialNumber(0);
    for entry in journal.iter().filter(|(_, _, event)| !is_removal(event)) {
        let Some(trial) = entry.2.trial() else { continue };
        while removed.contains(&next) {
            next.0 += 1;
        }
        if removed.contains(&trial) {
            let stored = serde_json::to_string(&entry.2).unwrap_or_default();
            let now = format!("trial {trial} was removed");
            return Some(Difference::of_entry(entry, ORDER, stored, now));
        }
        let is_created = matches!(
            entry.2,
            Event::Trial(_, TrialEvent::Proposal(ProposalEvent::TrialCreated { .. }))
        );
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
        let stored = serde_json::to_string(&entry.2).unwrap_or_default();
        return Some(Difference::of_entry(entry, ORDER, stored, now));
    }
    None
}

/// Replays every decision in `journal`. `revisions` are the versions of the specification, each
/// with the last event before it; `tables` is the state in the store's tables. `progress` is called
/// with the number of replayed entries and of all entries.
///
/// # Errors
/// A sampler or pruner of the study is unknown to this version.
pub fn verify(
    revisions: &[(Seq, StudySpec)],
    journal: &[StoredEvent],
    tables: &StudyState,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verified, EngineError> {
    let mut verified = Verified { difference: misplaced(journal), ..Verified::default() };
    if verified.difference.is_some() {
        return Ok(verified);
    }
    let mut replay: Option<Replay> = None;
    for (index, entry) in journal.iter().enumerate() {
        progress(index as u64, journal.len() as u64);
        let revision = revisions.iter().rposition(|(since, _)| *since < entry.0).unwrap_or(0);
        let Some((_, spec)) = revisions.get(revision) else { return Ok(verified) };
        if spec.is_tracked() {
            return Ok(fold_again(spec, journal, tables));
        }
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
        let (spec, folded) = (replay.engine.spec(), replay.engine.study_state());
        let metric = &spec.objective().metric;
        verified.difference = tables::states_differ(metric, folded, tables, *seq);
    }
    Ok(verified)
}

/// Tracked runs have no decisions: only the fold of their journal is compared with the tables.
fn fold_again(spec: &StudySpec, journal: &[StoredEvent], tables: &StudyState) -> Verified {
    let mut folded = StudyState::new(spec);
    journal.iter().for_each(|(_, at, event)| folded.apply(*at, event));
    let last = journal.last().map_or(Seq(0), |(seq, ..)| *seq);
    let metric = &spec.objective().metric;
    let difference = tables::states_differ(metric, &folded, tables, last);
    Verified { difference, ..Verified::default() }
}

/// Notes rules that this program no longer has, or not yet.
fn note_versions(spec: &StudySpec, found: &mut Vec<VersionChange>) {
    let (sampler, pruner) = (&spec.sampler, &spec.pruner);
    let sampler_here = samplers::find(&sampler.name).ok().map(|entry| entry.version);
    let pruner_here = pruners::find(&pruner.name).ok().map(|entry| entry.version);
    for (kind, algorithm, here, has_rules) in [
        ("sampler", sampler, sampler_here, samplers::has_rules_of(sampler)),
        ("pruner", pruner, pruner_here, pruners::has_rules_of(pruner)),
    ] {
        let AlgorithmSpec { name, version, .. } = algorithm;
        if let Some(here) = here.filter(|_| !has_rules) {
            found.push(VersionChange { kind, name: name.clone(), stored: *version, here });
        }
    }
}
