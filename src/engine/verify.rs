//! Decides a stored study again, event by event, and says where the journal first has something
//! else.

mod replay;
mod tables;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use replay::Replay;
pub use tables::hold_tables;

use serde::Serialize;

use super::EngineError;
use crate::pruners::PRUNERS;
use crate::samplers::SAMPLERS;
use crate::study::event::{Event, Seq, TrialEvent};
use crate::study::spec::{AlgorithmSpec, StudySpec};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// An entry of a journal.
pub type Entry = (Seq, Timestamp, Event);

/// What deciding again gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verified {
    /// Points that were proposed again.
    pub proposals: u64,
    /// Reports that were judged again.
    pub verdicts: u64,
    /// Trials that a pruner let continue, chosen again.
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

/// What differs where an entry of a journal cannot follow those before it: one was taken out, put
/// in or moved.
pub const ORDER: &str = "order";

/// A sampler or pruner that decides by other rules now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// What was decided: `proposal`, `verdict`, `promotion`, `race`, `value` or `rows`; `state`,
    /// where a table has something else than the journal; [`ORDER`].
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

impl Difference {
    /// What an entry has, against what is the case now.
    fn of_entry(entry: &Entry, what: &'static str, stored: String, now: String) -> Self {
        let (seq, trial) = (entry.0, entry.2.trial());
        let (table, row, field) = (None, String::new(), String::new());
        Difference { seq, trial, what, table, row, field, stored, now }
    }
}

/// The first entry that cannot follow those before it: trials are created one after another, those
/// left out that were removed, and nothing happens to a trial that there is not.
fn misplaced(journal: &[Entry]) -> Option<Difference> {
    let is_removal = |event: &Event| matches!(event, Event::Trial(_, TrialEvent::Removed { .. }));
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
        let is_created = matches!(entry.2, Event::Trial(_, TrialEvent::Created { .. }));
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

/// Decides everything in `journal` again. `revisions` are the versions of the specification, each
/// with the last event before it; `tables` is the state that the store's tables hold.
///
/// # Errors
/// A sampler or pruner of the study is unknown here.
pub fn verify(
    revisions: &[(Seq, StudySpec)],
    journal: &[Entry],
    tables: &StudyState,
) -> Result<Verified, EngineError> {
    let mut verified = Verified { difference: misplaced(journal), ..Verified::default() };
    if verified.difference.is_some() {
        return Ok(verified);
    }
    let mut replay: Option<Replay> = None;
    for (index, entry) in journal.iter().enumerate() {
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
        let (spec, folded) = (replay.engine.spec(), replay.engine.view());
        let metric = &spec.objective().metric;
        verified.difference = tables::views_differ(metric, folded, tables, *seq);
    }
    Ok(verified)
}

/// Of tracked runs nothing was decided: their journal folds to what the tables hold, or not.
fn fold_again(spec: &StudySpec, journal: &[Entry], tables: &StudyState) -> Verified {
    let mut folded = StudyState::new(spec);
    journal.iter().for_each(|(_, at, event)| folded.apply(*at, event));
    let last = journal.last().map_or(Seq(0), |(seq, ..)| *seq);
    let metric = &spec.objective().metric;
    let difference = tables::views_differ(metric, &folded, tables, last);
    Verified { difference, ..Verified::default() }
}

fn note_versions(spec: &StudySpec, found: &mut Vec<VersionChange>) {
    let (sampler, pruner) = (&spec.sampler, &spec.pruner);
    let sampler_here = SAMPLERS.iter().find(|entry| entry.name == sampler.name);
    let pruner_here = PRUNERS.iter().find(|entry| entry.name == pruner.name);
    for (kind, policy, here) in [
        ("sampler", sampler, sampler_here.map(|entry| entry.version)),
        ("pruner", pruner, pruner_here.map(|entry| entry.version)),
    ] {
        let AlgorithmSpec { name, version, .. } = policy;
        if let Some(here) = here.filter(|here| here != version) {
            found.push(VersionChange { kind, name: name.clone(), stored: *version, here });
        }
    }
}
