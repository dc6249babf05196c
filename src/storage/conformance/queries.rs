//! Cases about filtered and sorted pages, counts, outcomes and curves: all stores agree with a pass
//! over the whole state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;

use super::journal::{
    METRIC, OTHER_METRIC, created, finished, holder, random_journal, reported, small_study,
};
use super::records::held_study;
use super::{Case, Opener};
use crate::storage::{OutcomeCursor, Storage, StorageError, StudyId, Takeover};
use crate::study::condition::{Measured, TrialNames};
use crate::study::event::{AttemptEvent, Event};
use crate::study::metric::Direction;
use crate::study::outcome::TrialSummary;
use crate::study::query::{Filter, SortKey, SortPosition, TrialQuery};
use crate::study::seed::{SeedTree, StreamRng};
use crate::study::spec::{StudySpec, ValueRule};
use crate::study::state::{StudyState, shown_params};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Trial, TrialNumber, TrialState};

pub(super) const CASES: &[(&str, Case)] = &[
    ("filtered and sorted pages are what a pass over all trials gives", pages),
    ("outcomes since a cursor, taken together, are the whole state", outcomes),
    ("outcomes come although clocks go backwards and the metric changes", outcomes_without_clocks),
    ("curves and names of metrics are those that were reported", curves),
    ("names of metrics are the study's own, whatever others report", metrics_of_others),
];

const TERMS: &[&str] = &[
    "adamw",
    "rank",
    "e-",
    "cuda",
    "state:finished",
    "state:running,queued",
    "-state:pruned",
    "state!=failed",
    "device:cpu",
    "device=cuda:0",
    "reason:no",
    "note:a",
    "tag:a,b",
    "-tag:b",
    "-reason:no",
    "learning_rate>1e-3",
    "learning_rate<=0.01",
    "num_layers=4",
    "num_layers!=2,4",
    "num_layers>=6",
    "optim=sgd",
    "optim=\"adamw \\\"β\\\"\"",
    "optim!=true",
    "optim:w",
    "momentum<0.5",
    "-momentum<0.5",
    "value<=0.5",
    "value=nan",
    "value!=0",
    "last_value>0",
    "eval_loss>0",
    "eval_loss=inf",
    "number>=5",
    "number<20",
    "step>1",
    "seconds>0",
    "seconds>=8",
    "seconds<20 state:running",
    "attempts>1",
    "failures>0",
    "\"genauigkeit/größe\">0",
    "-metrics.nirgends>0",
];

fn sort_keys(spec: &StudySpec) -> Vec<SortKey> {
    let params =
        spec.space.dimensions().iter().map(|dimension| SortKey::Param(dimension.name.clone()));
    let fixed = [
        SortKey::Value,
        SortKey::Number,
        SortKey::Step,
        SortKey::Seconds,
        SortKey::State,
        SortKey::Created,
        SortKey::Started,
    ];
    fixed
        .into_iter()
        .chain(params)
        .chain([SortKey::Metric(OTHER_METRIC.to_owned()), SortKey::Metric("nirgends".to_owned())])
        .collect()
}

/// A study with a random journal.
fn study(
    store: &mut dyn Storage,
    seed: u64,
    rng: &mut StreamRng,
) -> Result<(StudySpec, StudyId), StorageError> {
    let direction = if seed.is_multiple_of(2) { Direction::Minimize } else { Direction::Maximize };
    let value = if seed < 2 { ValueRule::Last } else { ValueRule::Best };
    let spec = StudySpec { value, ..small_study(&format!("study {seed}"), direction) };
    let study = store.create_study(Timestamp(0), &spec)?;
    let lease = store.acquire(study, &holder(1), Timestamp(0), Takeover::IfFree)?;
    for (now, batch) in (0..).zip(random_journal(&spec, 300, rng).chunks(25)) {
        store.append(&lease, Timestamp(now * 1_000_000), batch)?;
    }
    Ok((spec, study))
}

fn pages(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    for seed in 0..4 {
        let mut rng = SeedTree::new(seed).stream("queries");
        let (spec, study) = study(&mut *store, seed, &mut rng)?;
        let state = store.study_state(study)?;
        let keys = sort_keys(&spec);
        let reader = open();
        for round in 0..60 {
            let terms: Vec<&str> = (0..rng.random_range(0..3))
                .filter_map(|_| TERMS.choose(&mut rng).copied())
                .collect();
            // Every term is also tried alone.
            let text = if seed < 2 {
                TERMS.get(round).map_or_else(String::new, |term| (*term).to_owned())
            } else {
                terms.join(" ")
            };
            // Some know the time of open attempts.
            let now = Timestamp(rng.random_range(0..60) * 1_000_000);
            let spent = match rng.random_ratio(1, 2) {
                true => time_spent(&state, now),
                false => BTreeMap::new(),
            };
            let names =
                TrialNames { metrics: vec![OTHER_METRIC.to_owned()], ..TrialNames::default() };
            let filter = Filter::parse_with(&text, &spec, &names)
                .unwrap_or_else(|error| panic!("{text}: {error}"))
                .with_time_spent(spent);
            let sort = keys[rng.random_range(0..keys.len())].clone();
            let query = TrialQuery {
                filter: filter.clone(),
                sort,
                reverse: rng.random_ratio(1, 2),
                offset: rng.random_range(0..6),
                limit: *[0, 1, 7, u64::MAX].choose(&mut rng).unwrap_or(&1),
            };
            let listed: Vec<_> = reader.trials(study, &query)?;
            assert_eq!(
                listed.iter().map(|trial| trial.number.0).collect::<Vec<_>>(),
                expected(&spec, &state, &query),
                "{query:?}"
            );
            assert!(
                listed.iter().map(|trial| trial.number).eq(reader.numbers(study, &query)?),
                "{query:?}"
            );
            let positions = reader.positions(study, &query)?;
            assert!(
                listed
                    .iter()
                    .map(|trial| trial.number)
                    .eq(positions.iter().map(SortPosition::number)),
                "{query:?}"
            );
            assert!(
                listed
                    .iter()
                    .all(|trial| filter
                        .matches(&as_shown(&spec, &filter, trial), &Measured::default())),
                "{query:?}: what is listed is whole"
            );
            let passing = state
                .trials
                .iter()
                .filter(|trial| {
                    filter.matches(&as_shown(&spec, &filter, trial), &Measured::default())
                })
                .count() as u64;
            assert_eq!(reader.count(study, &filter)?, passing, "{text}");
        }
    }
    Ok(())
}

/// A trial as filters and orders see it: with the parameters that its value was measured with, and
/// the time of its open attempt.
fn as_shown(spec: &StudySpec, filter: &Filter, trial: &Trial) -> Trial {
    let spent = filter.time_spent().get(&trial.number);
    let busy_micros = spent
        .map_or(trial.busy_micros, |spent| i64::try_from(spent.as_micros()).unwrap_or(i64::MAX));
    Trial { params: shown_params(spec, trial).clone(), busy_micros, ..trial.clone() }
}

/// The time spent on running trials.
fn time_spent(state: &StudyState, now: Timestamp) -> BTreeMap<TrialNumber, Duration> {
    let running = state.trials.iter().filter(|trial| trial.state == TrialState::Running);
    running.filter_map(|trial| Some((trial.number, trial.time_spent(now)?))).collect()
}

fn expected(spec: &StudySpec, state: &StudyState, query: &TrialQuery) -> Vec<u64> {
    let shown = state.trials.iter().map(|trial| as_shown(spec, &query.filter, trial));
    let passing = shown.filter(|trial| query.filter.matches(trial, &Measured::default()));
    let mut positions: Vec<SortPosition> =
        passing.map(|trial| query.sort.position(state.direction(), &trial)).collect();
    positions.sort_by(|mine, theirs| mine.compare(theirs, query.reverse));
    let (offset, limit) = (
        query.offset.try_into().unwrap_or(usize::MAX),
        query.limit.try_into().unwrap_or(usize::MAX),
    );
    positions.into_iter().skip(offset).take(limit).map(|position| position.number().0).collect()
}

/// Outcomes as texts, so that NaN equals NaN.
fn in_words(outcomes: impl IntoIterator<Item = TrialSummary>) -> BTreeMap<TrialNumber, String> {
    outcomes
        .into_iter()
        .map(|outcome| (outcome.number, format!("{outcome:?}").replace("-0.0", "0.0")))
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a test")]
fn whole(spec: &StudySpec, study_state: &StudyState) -> BTreeMap<TrialNumber, String> {
    in_words(study_state.trials.iter().map(|trial| {
        let (last_step, last_value) = trial.last().unzip();
        let (number, state, value, params) =
            (trial.number, trial.state, trial.value, shown_params(spec, trial).clone());
        let seconds = trial.busy_micros as f64 / 1e6;
        TrialSummary {
            number,
            state,
            value,
            last_step,
            last_value,
            params,
            seconds,
            created: trial.created,
            finished: trial.finished,
            hidden: trial.hidden,
            values: trial.values.clone(),
            violation: trial.violation,
        }
    }))
}

fn outcomes(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let mut rng = SeedTree::new(7).stream("outcomes");
    let spec = small_study("s", Direction::Minimize);
    let study = store.create_study(Timestamp(0), &spec)?;
    let other = store.create_study(Timestamp(0), &small_study("other", Direction::Minimize))?;
    let lease = store.acquire(study, &holder(1), Timestamp(0), Takeover::IfFree)?;
    let other = store.acquire(other, &holder(1), Timestamp(0), Takeover::IfFree)?;
    let events = random_journal(&spec, 400, &mut rng);
    let mut known = BTreeMap::new();
    let (nothing, mut cursor) = store.outcomes(study, OutcomeCursor::default())?;
    assert!(nothing.is_empty());
    let mut rest = events.as_slice();
    let mut others = 0;
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(rng.random_range(1..30).min(rest.len()));
        rest = later;
        store.append(&lease, Timestamp(rng.random_range(0..1000)), batch)?;
        store.append(&other, Timestamp(3), &[created(others)])?;
        others += 1;
        let (changed, next) = open().outcomes(study, cursor)?;
        let of_batch = batch.iter().filter_map(Event::trial);
        assert!(
            changed.iter().all(|outcome| of_batch.clone().any(|trial| trial == outcome.number)),
            "only what changed comes again"
        );
        assert!(changed.is_sorted_by_key(|outcome| outcome.number));
        known.extend(in_words(changed));
        cursor = next;
        assert_eq!(known, whole(&spec, &store.study_state(study)?));
        assert!(open().outcomes(study, cursor)?.0.is_empty());
    }
    let (all, _) = open().outcomes(study, OutcomeCursor::default())?;
    assert_eq!(in_words(all), known);
    Ok(())
}

fn outcomes_without_clocks(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let other = Event::of(
        TrialNumber(0),
        AttemptEvent::reported(
            AttemptNumber(0),
            4,
            std::iter::once((OTHER_METRIC.to_owned(), 9.0)).collect(),
        ),
    );
    store.append(
        &lease,
        Timestamp(1000),
        &[created(0), created(1), reported(0, 0, 1, 0.5), other],
    )?;
    let (_, cursor) = store.outcomes(lease.study, OutcomeCursor::default())?;
    store.append(&lease, Timestamp(10), &[finished(1, TrialState::Complete, Some(f64::NAN))])?;
    let (changed, cursor) = store.outcomes(lease.study, cursor)?;
    let states: Vec<_> = changed.iter().map(|outcome| (outcome.number.0, outcome.state)).collect();
    assert_eq!(states, [(1, TrialState::Complete)]);
    assert!(changed[0].value.is_some_and(f64::is_nan));
    let mut spec = small_study("s", Direction::Minimize);
    spec.objectives[0].metric = OTHER_METRIC.to_owned();
    store.update_spec(&lease, Timestamp(5), &spec, &[])?;
    let (changed, _) = open().outcomes(lease.study, cursor)?;
    let last: Vec<_> =
        changed.iter().map(|outcome| (outcome.last_step, outcome.last_value)).collect();
    assert_eq!(last, [(Some(4), Some(9.0)), (None, None)]);
    Ok(())
}

fn curves(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let mut rng = SeedTree::new(3).stream("curves");
    let (_, study) = study(&mut *store, 0, &mut rng)?;
    let state = store.study_state(study)?;
    let mut asked: Vec<TrialNumber> = state.trials.iter().map(|trial| trial.number).rev().collect();
    asked.push(TrialNumber(5000));
    let points = |curve: &[(u64, f64)]| {
        curve.iter().map(|(step, value)| format!("{step} {}", value + 0.0)).collect::<Vec<_>>()
    };
    let read = open().curves(study, METRIC, &asked)?;
    assert!(read.iter().map(|(number, _)| number).eq(&asked));
    for (number, curve) in &read {
        assert_eq!(
            points(curve),
            state.trial(*number).map_or_else(Vec::new, |trial| points(&trial.curve)),
            "trial {number}"
        );
    }
    for (number, curve) in store.curves(study, OTHER_METRIC, &asked)? {
        let reports =
            store.reports(study, number)?.into_iter().filter(|(name, ..)| name == OTHER_METRIC);
        assert_eq!(
            points(&curve),
            points(&reports.map(|(_, step, value)| (step, value)).collect::<Vec<_>>()),
            "trial {number}"
        );
    }
    assert!(store.curves(study, "nirgends", &asked)?.iter().all(|(_, curve)| curve.is_empty()));
    assert_eq!(open().metrics(study)?, ["", METRIC, OTHER_METRIC, "日本 \"x\""]);
    let names: BTreeSet<String> = state
        .trials
        .iter()
        .flat_map(|trial| trial.params.iter().map(|(name, _)| name.to_owned()))
        .collect();
    assert!(names.contains("learning_rate"), "{names:?}");
    assert_eq!(open().params(study)?, names.into_iter().collect::<Vec<_>>());
    let empty = store.create_study(Timestamp(1), &small_study("empty", Direction::Minimize))?;
    assert!(store.params(empty)?.is_empty());
    assert!(store.metrics(empty)?.is_empty());
    Ok(())
}

fn metrics_of_others(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let report = |trial: u64, names: &[String]| {
        let metrics = names.iter().map(|name| (name.clone(), 1.0)).collect();
        let attempt = AttemptNumber(0);
        Event::of(TrialNumber(trial), AttemptEvent::reported(attempt, 1, metrics))
    };
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let mut events = Vec::new();
    for trial in 0..40 {
        events.extend([created(trial), reported(trial, 0, 1, 0.5)]);
    }
    events.push(report(39, &["late".to_owned()]));
    store.append(&lease, Timestamp(2), &events)?;
    let own = [METRIC, "late"];
    assert_eq!(store.metrics(lease.study)?, own);
    for count in [1, 30] {
        let name = format!("of {count}");
        let other = store.create_study(Timestamp(1), &small_study(&name, Direction::Minimize))?;
        let other = store.acquire(other, &holder(2), Timestamp(1), Takeover::IfFree)?;
        let names: Vec<String> = (10..10 + count).map(|index| format!("{count}/{index}")).collect();
        store.append(&other, Timestamp(3), &[created(0), report(0, &names)])?;
        assert_eq!(store.metrics(other.study)?, names);
        assert_eq!(open().metrics(lease.study)?, own);
    }
    Ok(())
}
