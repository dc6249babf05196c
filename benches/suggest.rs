//! How long one suggestion takes, by sampler and by the number of trials before it: `cargo bench --bench suggest`.

#![expect(clippy::unwrap_used, reason = "axes and histories are constants here, and a benchmark may fail loudly")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

use hpsearch::history::History;
use hpsearch::metric::Direction;
use hpsearch::params::Params;
use hpsearch::samplers::conformance::{dimension, trial_of};
use hpsearch::samplers::{self, Ask, Sampler};
use hpsearch::seed::SeedTree;
use hpsearch::space::{Distribution, Scale, Space};
use hpsearch::study::PolicySpec;
use hpsearch::trial::{Trial, TrialNumber, TrialState};

const LENGTHS: [u64; 3] = [100, 1_000, 10_000];

/// Ten parameters of every kind; in steps, so that points of any sampler are cells of the grid (13 million of them).
fn space() -> Space {
    let float = |low, high, step| Distribution::float(low, high, Scale::Linear, Some(step)).unwrap();
    let int = |low, high| Distribution::int(low, high, Scale::Linear, 1).unwrap();
    let choice = |words: &[&str]| Distribution::choice(words.iter().map(|word| (*word).into()).collect()).unwrap();
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
    Space::new(axes.into_iter().enumerate().map(|(index, axis)| dimension(&format!("parameter_{index}"), axis, &[])).collect()).unwrap()
}

/// The same with continuous axes, half of them logarithmic: what a study of a model has.
fn continuous_space() -> Space {
    let axis = |index: usize| match index {
        0..4 => Distribution::float(1e-6, 1.0, Scale::Log, None).unwrap(),
        4..7 => Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(),
        7 | 8 => Distribution::int(1, 64, Scale::Log, 1).unwrap(),
        _ => Distribution::choice(vec!["sgd".into(), "adamw".into(), "lion".into(), "adagrad".into()]).unwrap(),
    };
    Space::new((0..10).map(|index| dimension(&format!("parameter_{index}"), axis(index), &[])).collect()).unwrap()
}

fn sampler(name: &str, space: &Space) -> Box<dyn Sampler> {
    (samplers::find(name).unwrap().build)(&PolicySpec::named(name), space).unwrap()
}

/// Random trials, three in four complete, the others pruned.
fn history(space: &Space, length: u64) -> Vec<Trial> {
    let random = sampler("random", space);
    let (seeds, nothing) = (SeedTree::new(1), Params::new());
    let trial = |number| {
        let ask = Ask {
            room: None,
            constraints: &[],
            earlier: &[],
            space,
            history: History::of(&[], Direction::Minimize),
            number: TrialNumber(number),
            fixed: &nothing,
            budget: None,
            seeds,
        };
        let params = random.suggest(&ask, &mut seeds.stream(&format!("sampler/{number}"))).unwrap().unwrap();
        let value = (number as f64 * 0.618_033_988_749).fract();
        let mut trial = trial_of(number, params, TrialState::Complete, Some(value));
        trial.curve = (1..=10).map(|step| (step, value + 1.0 / step as f64)).collect();
        if number % 4 == 3 {
            (trial.state, trial.value) = (TrialState::Pruned, None);
            trial.curve.truncate(3);
        }
        trial
    };
    (0..length).map(trial).collect()
}

fn suggest(criterion: &mut Criterion) {
    for (name, space) in [
        ("tpe", continuous_space()),
        ("gp", continuous_space()),
        ("cmaes", continuous_space()),
        ("qmc", continuous_space()),
        ("auto", continuous_space()),
        ("tpe-independent", continuous_space()),
        ("random", continuous_space()),
        ("grid", space()),
    ] {
        let mut group = criterion.benchmark_group(format!("suggest/{name}"));
        group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3)).sample_size(30);
        let sampler = sampler(name, &space);
        let (seeds, nothing) = (SeedTree::new(2), Params::new());
        for length in LENGTHS {
            let trials = history(&space, length);
            let number = TrialNumber(length);
            group.bench_with_input(BenchmarkId::from_parameter(length), &trials, |bencher, trials| {
                bencher.iter(|| {
                    let ask = Ask {
                        room: None,
                        constraints: &[],
                        earlier: &[],
                        space: &space,
                        history: History::of(trials, Direction::Minimize),
                        number,
                        fixed: &nothing,
                        budget: None,
                        seeds,
                    };
                    sampler.suggest(black_box(&ask), &mut seeds.stream(&format!("sampler/{number}"))).unwrap()
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, suggest);
criterion_main!(benches);
