//! Cases in which the tables must equal the fold of the journal.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt as _;

use super::journal::{OTHER_METRIC, holder, random_journal, small_study};
use super::{Case, Opener};
use crate::storage::{Lease, OutcomeCursor, Storage, StorageError, StudyId, Takeover};
use crate::study::event::{
    AttemptEvent, DeviceEvent, Event, ProposalEvent, RunnerEvent, Seq, StateEvent, StudyEvent,
    TrialEvent,
};
use crate::study::metric::{Direction, LastMetrics, Score};
use crate::study::query::{SortKey, TrialQuery};
use crate::study::seed::SeedTree;
use crate::study::spec::{Objective, ValueRule};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber, TrialState};
use crate::study::usage::Used;

pub(super) const CASES: &[(&str, Case)] = &[
    ("the tables are the fold of the journal", tables_are_the_fold),
    ("the tables of several objectives are the fold of the journal", several_objectives_too),
    ("two studies do not mix", two_studies_do_not_mix),
];

fn tables_are_the_fold(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    for seed in 0..6 {
        let mut rng = SeedTree::new(seed).stream("conformance");
        let direction = if seed % 2 == 0 { Direction::Minimize } else { Direction::Maximize };
        let mut spec = small_study(&format!("study {seed}"), direction);
        if seed % 3 == 0 {
            spec.last_metrics = LastMetrics::OfLastReport;
        }
        let study = store.create_study(Timestamp(0), &spec)?;
        let lease = store.acquire(study, &holder(1), Timestamp(0), Takeover::IfFree)?;
        let mut state = StudyState::new(&spec);
        let mut journal = Vec::new();
        let events = random_journal(&spec, 400, &mut rng);
        let mut rest = events.as_slice();
        let mut now = Timestamp(1_700_000_000_000_000);
        while !rest.is_empty() {
            // Clocks jump backwards, too.
            now.0 += rng.random_range(-1000..100_000);
            let (batch, later) = rest.split_at(rng.random_range(1..=40).min(rest.len()));
            rest = later;
            store.append(&lease, now, batch)?;
            for event in batch {
                state.apply(now, event);
                journal.push((now, event.clone()));
            }
            assert_same_state(&store.study_state(study)?, &state);
        }
        assert_whole(&*open(), study, &state, &journal)?;
        // Another metric: all its earlier reports count now.
        let mut other = spec.clone();
        other.objectives[0].metric = OTHER_METRIC.to_owned();
        store.update_spec(&lease, now, &other, &[])?;
        let mut state = StudyState::new(&other);
        for (at, event) in &journal {
            state.apply(*at, event);
        }
        assert_whole(&*open(), study, &state, &journal)?;
    }
    Ok(())
}

fn several_objectives_too(open: &mut Opener) -> Result<(), StorageError> {
    let (mut store, mut fronts) = (open(), 0);
    for seed in 0..8 {
        let mut rng = SeedTree::new(seed).stream("several objectives");
        let mut spec = small_study(&format!("study {seed}"), Direction::Maximize);
        spec.objectives.push(Objective::new(OTHER_METRIC, Direction::Minimize));
        spec.value = ValueRule::Last;
        let study = store.create_study(Timestamp(0), &spec)?;
        let lease = store.acquire(study, &holder(1), Timestamp(0), Takeover::IfFree)?;
        let mut study_state = StudyState::new(&spec);
        let is_of_a_race = |event: &Event| matches!(event, Event::Finalists(_));
        for event in random_journal(&spec, 400, &mut rng) {
            if is_of_a_race(&event) {
                // Studies of several objectives have none.
                continue;
            }
            let event = match event {
                Event::Trial(
                    trial,
                    TrialEvent::State(StateEvent::Finished { state, reason, .. }),
                ) => {
                    let mut some =
                        || [0.25, 0.5, 2.0, 0.75, -1.0, f64::NAN][rng.random_range(0..6)];
                    let values = match state {
                        TrialState::Complete => vec![some(), some()],
                        _ => Vec::new(),
                    };
                    let ended = TrialEvent::State(StateEvent::Finished {
                        state,
                        value: None,
                        values,
                        reason,
                    });
                    Event::Trial(trial, ended)
                }
                event => event,
            };
            let now = Timestamp(1_700_000_000_000_000);
            store.append(&lease, now, std::slice::from_ref(&event))?;
            study_state.apply(now, &event);
        }
        let reader = open();
        assert_same_state(&reader.study_state(study)?, &study_state);
        let front = study_state.front();
        fronts += front.trials.len();
        assert_eq!(reader.summary(study)?.front, Some(front.clone()));
        assert_eq!(reader.summary(study)?.best, None);
        let by_value = reader.trials(study, &TrialQuery::all(SortKey::Value))?;
        let first = by_value.iter().take(front.trials.len()).map(|trial| trial.number);
        assert_eq!(first.collect::<BTreeSet<_>>(), front.trials.iter().copied().collect());
        let (outcomes, _) = reader.outcomes(study, OutcomeCursor::default())?;
        for (outcome, trial) in outcomes.iter().zip(&study_state.trials) {
            let told = (&outcome.values, outcome.value, outcome.violation);
            assert_eq!(
                format!("{told:?}"),
                format!("{:?}", (&trial.values, None::<f64>, trial.violation))
            );
        }
    }
    assert!(fronts > 0, "no front was compared");
    Ok(())
}

/// Compares everything a reader returns with what was written.
fn assert_whole(
    reader: &dyn Storage,
    study: StudyId,
    state: &StudyState,
    journal: &[(Timestamp, Event)],
) -> Result<(), StorageError> {
    assert_same_state(&reader.study_state(study)?, state);
    let stored = reader.events_after(study, Seq(0), u64::MAX)?;
    assert_eq!(stored.len(), journal.len());
    for ((_, at, event), (when, written)) in stored.iter().zip(journal) {
        assert_eq!((format!("{event:?}"), at), (format!("{written:?}"), when));
    }
    let summary = reader.summary(study)?;
    assert_eq!(summary.counts, state.counts);
    assert_eq!(summary.finished, state.finished);
    let end = journal.iter().rev().find_map(|(_, event)| match event {
        Event::Study(StudyEvent::Finished { too_many_failures, .. }) => Some(*too_many_failures),
        _ => None,
    });
    let by_failures = state.finished.is_some() && state.counts.failed > 0 && end == Some(true);
    assert_eq!(summary.too_many_failures, by_failures);
    assert_eq!((&summary.paused, summary.extension), (&state.paused, state.extension));
    assert_eq!((&summary.notes, &summary.tags), (&state.notes, &state.tags));
    assert_eq!(summary.paused_devices, state.paused_devices);
    assert_eq!(summary.best.map(|(number, _)| number), state.leader().map(|(number, _)| number));
    let listed = reader.trials(study, &TrialQuery::all(SortKey::Number))?;
    assert_eq!(listed.len(), state.trials.len());
    for trial in &state.trials {
        // Read with the state only.
        let trial = &Trial { before: None, ..trial.clone() };
        let found = reader.trial(study, trial.number)?;
        assert_eq!(found.as_ref().map(canonical), Some(canonical(trial)));
        assert_eq!(canonical(&listed[trial.number.index()]), canonical(trial));
        assert_reports(reader, study, trial.number, journal)?;
    }
    let ranked = reader.trials(study, &TrialQuery::all(SortKey::Value))?;
    assert!(
        ranked.iter().map(|trial| trial.number).eq(ranking(state)),
        "{:?}",
        ranked.iter().map(|trial| trial.number.0).collect::<Vec<_>>()
    );
    let since = journal.iter().rev().find_map(|(at, event)| match event {
        Event::Runner(RunnerEvent::Started { .. }) => Some(Some(*at)),
        Event::Runner(RunnerEvent::Stopped { .. }) => Some(None),
        _ => None,
    });
    assert_eq!(reader.running_since(study)?, (state.ran_micros, since.flatten()));
    let slots = journal.iter().fold(None, |now, (_, event)| match event {
        Event::Runner(RunnerEvent::Started { slots, .. }) => Some(slots),
        Event::Device(DeviceEvent::SlotsChanged { slots }) => now.map(|_| slots),
        _ => now,
    });
    assert_eq!(reader.used(study)?, Used::of(state, slots.map_or(&[], Vec::as_slice)));
    let of_all = state.trials.iter().flat_map(|trial| {
        trial.checkpoints.iter().map(|checkpoint| (trial.number, checkpoint.clone()))
    });
    assert_eq!(reader.checkpoints(study)?, of_all.collect::<Vec<_>>());
    Ok(())
}

/// Complete trials by value, then those that violate a limit by how far, then the others by their
/// last report; the better first, NaN after numbers, none after NaN.
fn ranking(state: &StudyState) -> impl Iterator<Item = TrialNumber> {
    let mut keys: Vec<_> = state
        .trials
        .iter()
        .map(|trial| {
            let complete = trial.state == TrialState::Complete;
            let violated = trial.violation.filter(|_| complete);
            let value = if complete { trial.value } else { trial.last().map(|(_, value)| value) };
            (
                !complete,
                violated.is_some(),
                violated.is_none() && value.is_none(),
                violated.map(|violation| Score::new(Direction::Minimize, violation)),
                Score::new(state.direction(), value.unwrap_or(f64::NAN)),
                trial.number,
            )
        })
        .collect();
    keys.sort();
    keys.into_iter().map(|(.., number)| number)
}

fn assert_reports(
    reader: &dyn Storage,
    study: StudyId,
    trial: TrialNumber,
    journal: &[(Timestamp, Event)],
) -> Result<(), StorageError> {
    let mut expected = BTreeMap::new();
    let (mut exists, mut is_tracked, mut before) = (false, false, None);
    for (_, event) in journal.iter().filter(|(_, event)| event.trial() == Some(trial)) {
        match event {
            Event::Trial(_, TrialEvent::Proposal(ProposalEvent::TrialCreated { origin, .. })) => {
                (exists, is_tracked) = (true, origin.tracked().is_some());
            }
            Event::Trial(_, TrialEvent::Attempt(event)) if exists => match event {
                AttemptEvent::Reported { step, metrics, .. } => expected.extend(
                    metrics.iter().map(|(name, value)| ((name.to_owned(), *step), value + 0.0)),
                ),
                AttemptEvent::Ended { superseded, .. } => {
                    expected.retain(|(name, step), _| match superseded.get(name) {
                        Some(steps) if steps.is_empty() => !is_tracked,
                        Some(steps) => !steps.contains(step),
                        None => true,
                    });
                }
                AttemptEvent::Started { .. }
                | AttemptEvent::Launched { .. }
                | AttemptEvent::Remarked { .. } => {}
            },
            Event::Trial(_, TrialEvent::State(StateEvent::Continued { .. })) if exists => {
                before = Some(expected.clone());
            }
            Event::Trial(_, TrialEvent::State(StateEvent::Restored)) if exists => {
                expected = before.take().unwrap_or(expected);
            }
            Event::Trial(_, TrialEvent::State(StateEvent::Finished { .. })) => before = None,
            _ => {}
        }
    }
    let reports = reader.reports(study, trial)?;
    let reports: Vec<_> =
        reports.into_iter().map(|(name, step, value)| ((name, step), value + 0.0)).collect();
    assert_eq!(format!("{reports:?}"), format!("{:?}", expected.into_iter().collect::<Vec<_>>()));
    Ok(())
}

/// A trial as text in which NaN equals NaN and zeros are unsigned, because SQLite drops their sign.
fn canonical(trial: &Trial) -> String {
    let mut trial = trial.clone();
    trial.value = trial.value.map(|value| value + 0.0);
    for (_, value) in &mut trial.curve {
        *value += 0.0;
    }
    let reported = trial.vectors.iter_mut().flat_map(|(_, values)| values.iter_mut().flatten());
    for value in reported.chain(&mut trial.values) {
        *value += 0.0;
    }
    format!("{trial:?}")
}

fn assert_same_state(stored: &StudyState, folded: &StudyState) {
    for (stored, folded) in stored.trials.iter().zip(&folded.trials) {
        assert_eq!(canonical(stored), canonical(folded));
    }
    let rest = |state: &StudyState| {
        let mut rest = state.clone();
        rest.trials.clear();
        format!("{rest:?}")
    };
    assert_eq!((rest(stored), stored.trials.len()), (rest(folded), folded.trials.len()));
}

fn two_studies_do_not_mix(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let mut begin = |name: &str, pid| -> Result<(Lease, StudyState), StorageError> {
        let spec = small_study(name, Direction::Minimize);
        let study = store.create_study(Timestamp(0), &spec)?;
        Ok((
            store.acquire(study, &holder(pid), Timestamp(0), Takeover::IfFree)?,
            StudyState::new(&spec),
        ))
    };
    let mut sides = [begin("a", 1)?, begin("b", 2)?];
    let spec = small_study("", Direction::Minimize);
    let mut handles = [open(), open()];
    let mut rngs = ["left", "right"].map(|name| SeedTree::new(9).stream(name));
    for (side, handle) in handles.iter_mut().enumerate() {
        // Alternating small batches, so that sequence numbers interleave.
        let (lease, state) = &mut sides[side];
        for event in random_journal(&spec, 100, &mut rngs[side]) {
            handle.append(lease, Timestamp(5), std::slice::from_ref(&event))?;
            state.apply(Timestamp(5), &event);
        }
    }
    for (lease, state) in &sides {
        assert_same_state(&store.study_state(lease.study)?, state);
        assert_eq!(store.events_after(lease.study, Seq(0), u64::MAX)?.len(), 100);
    }
    Ok(())
}
