//! How long one suggestion takes, by sampler and by the number of trials before it:
//! `cargo bench --bench suggest`.
//!
//! Before each suggestion one trial gets another value, as one ends in a study: what samplers keep
//! from one suggestion to the next has something to follow. `tpe, anew` is asked about trials of
//! which nobody says what changed.

#![expect(
    clippy::unwrap_used,
    reason = "axes and histories are constants here, and a benchmark may fail loudly"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

use hpsearch::samplers::conformance::dimension;
use hpsearch::samplers::{self, Ask, Sampler};
use hpsearch::study::event::{AttemptEvent, Event, TrialEvent};
use hpsearch::study::history::History;
use hpsearch::study::metric::{Direction, Metrics};
use hpsearch::study::params::Params;
use hpsearch::study::program::Program;
use hpsearch::study::seed::SeedTree;
use hpsearch::study::space::{Distribution, Scale, Space};
use hpsearch::study::spec::StudySpec;
use hpsearch::study::state::StudyState;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};

const LENGTHS: [u64; 3] = [100, 1_000, 10_000];

/// Ten parameters of every kind; in steps, so that points of any sampler are cells of the grid (13
/// million of them).
fn space() -> Space {
    let float =
        |low, high, step| Distribution::float(low, high, Scale::Linear, Some(step)).unwrap();
    let int = |low, high| Distribution::int(low, high, Scale::Linear, 1).unwrap();
    let choice = |words: &[&str]| {
        Distribution::choice(words.iter().map(|word| (*word).into()).collect()).unwrap()
    };
    let axes = [
        float(0.0, 1.0, 0.2),
        float(-5.0, 5.0, 2.0),
        float(0.0, 0.5, 0.1),
        float(1.0, 2.0, 0.25),
        int(1, 6),
        int(0, 4),
        int(2, 8),
        Distribution::int(16, 1024, Scale::Log, 1).unwrap(),
        choice(&["sgd", "adamw", "lion", "adagrad"]),
        choice(&["constant", "linear", "cosine"]),
    ];
    Space::new(
        axes.into_iter()
            .enumerate()
            .map(|(index, axis)| dimension(&format!("parameter_{index}"), axis, &[]))
            .collect(),
    )
    .unwrap()
}

/// The same with continuous axes, half of them logarithmic: what a study of a model has.
fn continuous_space() -> Space {
    let axis = |index: usize| match index {
        0..4 => Distribution::float(1e-6, 1.0, Scale::Log, None).unwrap(),
        4..7 => Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(),
        7 | 8 => Distribution::int(1, 64, Scale::Log, 1).unwrap(),
        _ => Distribution::choice(vec![
            "sgd".into(),
            "adamw".into(),
            "lion".into(),
            "adagrad".into(),
        ])
        .unwrap(),
    };
    Space::new(
        (0..10).map(|index| dimension(&format!("parameter_{index}"), axis(index), &[])).collect(),
    )
    .unwrap()
}

fn sampler(name: &str, space: &Space) -> Box<dyn Sampler> {
    let spec = samplers::resolve(name, BTreeMap::new()).unwrap();
    (samplers::find(name).unwrap().build)(&spec, space).unwrap()
}

/// Random trials, three in four complete, the others pruned.
fn study(space: &Space, length: u64) -> StudyState {
    let random = sampler("random", space);
    let (seeds, nothing) = (SeedTree::new(1), Params::new());
    let mut study_state = StudyState::new(&StudySpec::new(
        "bench",
        "loss",
        Direction::Minimize,
        space.clone(),
        Program::Inline,
    ));
    for number in 0..length {
        let history = History::of(&[], Direction::Minimize);
        let ask = ask(space, history, TrialNumber(number), &nothing, seeds);
        let mut stream = seeds.stream(&format!("sampler/{number}"));
        let params = random.suggest(&ask, &mut stream).unwrap().unwrap().params;
        let trial = TrialNumber(number);
        let is_pruned = number % 4 == 3;
        study_state
            .apply(Timestamp(0), &Event::Trial(trial, TrialEvent::created(params, Origin::Asked)));
        for step in 1..=if is_pruned { 3 } else { 10 } {
            let metrics: Metrics =
                [("loss".to_owned(), value(number) + 1.0 / step as f64)].into_iter().collect();
            study_state.apply(
                Timestamp(0),
                &Event::of(trial, AttemptEvent::reported(AttemptNumber(0), step, metrics)),
            );
        }
        let (state, value) = if is_pruned {
            (TrialState::Pruned, None)
        } else {
            (TrialState::Complete, Some(value(number)))
        };
        study_state
            .apply(Timestamp(0), &Event::Trial(trial, TrialEvent::finished(state, value, None)));
    }
    study_state
}

/// Values that jump about evenly.
fn value(number: u64) -> f64 {
    (number as f64 * 0.618_033_988_749).fract()
}

fn ask<'a>(
    space: &'a Space,
    history: History<'a>,
    number: TrialNumber,
    fixed: &'a Params,
    seeds: SeedTree,
) -> Ask<'a> {
    Ask {
        max_resource: None,
        room: None,
        constraints: &[],
        earlier: &[],
        space,
        history,
        number,
        place: number.0,
        fixed,
        budget: None,
        seeds,
    }
}

fn suggest(criterion: &mut Criterion) {
    for (name, space) in [
        ("tpe", continuous_space()),
        ("tpe, anew", continuous_space()),
        ("gp", continuous_space()),
        ("cmaes", continuous_space()),
        ("qmc", continuous_space()),
        ("auto", continuous_space()),
        ("tpe-independent", continuous_space()),
        ("random", continuous_space()),
        ("grid", space()),
    ] {
        let mut group = criterion.benchmark_group(format!("suggest/{name}"));
        group
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_secs(3))
            .sample_size(30);
        let (name, is_anew) = (name.trim_end_matches(", anew"), name.ends_with(", anew"));
        let sampler = sampler(name, &space);
        let (seeds, nothing) = (SeedTree::new(2), Params::new());
        for length in LENGTHS {
            let mut study_state = study(&space, length);
            let (number, mut told) = (TrialNumber(length), length);
            group.bench_function(BenchmarkId::from_parameter(length), |bencher| {
                bencher.iter(|| {
                    // The last trial that is complete: a multiple of four is.
                    let (trial, state) = (TrialNumber(length - 4), TrialState::Complete);
                    study_state.apply(
                        Timestamp(0),
                        &Event::Trial(trial, TrialEvent::finished(state, Some(value(told)), None)),
                    );
                    told += 1;
                    let history = if is_anew {
                        History::of(&study_state.trials, Direction::Minimize)
                    } else {
                        History::new(&study_state)
                    };
                    let ask = ask(&space, history, number, &nothing, seeds);
                    sampler
                        .suggest(black_box(&ask), &mut seeds.stream(&format!("sampler/{number}")))
                        .unwrap()
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, suggest);
criterion_main!(benches);
