//! How long one decision of a pruner takes, by pruner and by the number of trials before it:
//! `cargo bench --bench judge`.
//!
//! A decision is a report at the first rung, taken into the study and judged; with `promote`, also
//! the question which paused trial continues.

#![expect(clippy::unwrap_used, reason = "a benchmark may fail loudly")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

use hpsearch::pruners::{self, Case, Restart};
use hpsearch::study::event::{AttemptEvent, Event, TrialEvent};
use hpsearch::study::history::History;
use hpsearch::study::metric::{Direction, Metrics};
use hpsearch::study::params::Params;
use hpsearch::study::program::Program;
use hpsearch::study::space::{Dimension, Distribution, Scale, Space};
use hpsearch::study::spec::{AlgorithmSpec, StudySpec};
use hpsearch::study::state::StudyState;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};

const LENGTHS: [u64; 3] = [100, 1_000, 20_000];
const END: u64 = 81;

const PARAMETERS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn space() -> Space {
    let axis = |name: &str| Dimension {
        name: name.to_owned(),
        distribution: Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(),
        prior: None,
        when: None,
    };
    Space::new(PARAMETERS.map(axis).into()).unwrap()
}

fn create(state: &mut StudyState, number: u64) {
    let mut params = Params::new();
    PARAMETERS
        .iter()
        .zip([0.618, 0.755, 0.569, 0.347, 0.819, 0.430])
        .for_each(|(name, by)| params.insert(*name, (number as f64 * by).fract()));
    state.apply(
        Timestamp(0),
        &Event::Trial(TrialNumber(number), TrialEvent::created(params, Origin::Asked)),
    );
}

fn report(state: &mut StudyState, number: u64, step: u64, value: f64) {
    let metrics: Metrics = [("loss".to_owned(), value)].into_iter().collect();
    state.apply(
        Timestamp(0),
        &Event::of(TrialNumber(number), AttemptEvent::reported(AttemptNumber(0), step, metrics)),
    );
}

/// Trials of which two in three were stopped at each rung, one more that runs.
fn study(length: u64) -> StudyState {
    let mut study_state = StudyState::new(&StudySpec::new(
        "s",
        "loss",
        Direction::Minimize,
        space(),
        Program::Inline,
    ));
    for number in 0..length {
        create(&mut study_state, number);
        let value = (number as f64 * 0.618_033_988_749).fract();
        let last = [1, 3, 9, 27, END]
            .into_iter()
            .zip(0..)
            .find(|(_, rung)| number % 3_u64.pow(rung + 1) != 0)
            .map_or(END, |(step, _)| step);
        (1..=last)
            .for_each(|step| report(&mut study_state, number, step, value + 1.0 / step as f64));
        let state = if last == END { TrialState::Complete } else { TrialState::Pruned };
        let value = (last == END).then_some(value);
        study_state.apply(
            Timestamp(0),
            &Event::Trial(TrialNumber(number), TrialEvent::finished(state, value, None)),
        );
    }
    create(&mut study_state, length);
    study_state
}

fn judge(criterion: &mut Criterion) {
    let with_end = |name: &str| AlgorithmSpec::named(name).with("max_resource", END);
    let specs = [
        ("asha", with_end("asha")),
        ("asha-end", with_end("asha").with("rank_by", "end")),
        ("asha-promote", with_end("asha").with("mode", "promote")),
        ("hyperband", with_end("hyperband")),
        ("curve", with_end("curve")),
        ("median", AlgorithmSpec::named("median")),
    ];
    for (name, spec) in specs {
        let spec = pruners::resolve(&spec.name, spec.options).unwrap();
        let mut group = criterion.benchmark_group(format!("judge/{name}"));
        group
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(2))
            .sample_size(20);
        for length in LENGTHS {
            let (mut state, space, mut turn) = (study(length), space(), 0_u64);
            let pruner = (pruners::find(&spec.name).unwrap().build)(&spec, Some(END)).unwrap();
            let trial = TrialNumber(length);
            // Where a forecast is made too.
            let step = if spec.name == "curve" { 3 } else { 1 };
            group.bench_function(BenchmarkId::from_parameter(length), |bencher| {
                bencher.iter(|| {
                    turn += 1;
                    report(&mut state, length, step, 0.4 + (turn as f64 * 0.755).fract());
                    let history = History::new(&state);
                    let verdict = pruner.judge(&Case {
                        space: &space,
                        history,
                        trial: state.trial(trial).unwrap(),
                        step,
                        restart: Restart::Unknown,
                    });
                    black_box((verdict, pruner.promote(history)))
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, judge);
criterion_main!(benches);
