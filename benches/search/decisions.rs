//! How long proposals of `gp` take in a study that goes on, by the number of observations before
//! them: of complete trials, and of trials that promotion pauses at rungs.
//!
//!     cargo run --release -p hpsearch-core --example decisions [SAMPLER]
//!
//! After each proposal a trial with it is added, so that what is kept from one to the next counts,
//! as do the fits of hyperparameters every few trials. Milliseconds of one hundred proposals: mean,
//! median and longest.

use std::time::Instant;

use hpsearch_core::samplers::conformance::{
    choice, float, int, log_float, log_int, space, trial_of,
};
use hpsearch_core::samplers::{self, Ask};
use hpsearch_core::study::history::History;
use hpsearch_core::study::metric::Direction;
use hpsearch_core::study::params::Params;
use hpsearch_core::study::seed::SeedTree;
use hpsearch_core::study::space::Space;
use hpsearch_core::study::trial::{Trial, TrialNumber, TrialState};
use rand::RngExt as _;

/// Steps of a full trial; rungs are its quotients by powers of three.
const STEPS: u64 = 81;
/// Proposals whose time is taken.
const PROPOSALS: usize = 100;

fn axes() -> Space {
    space([
        log_float("learning_rate", 1e-5, 1e-1),
        log_float("weight_decay", 1e-6, 1.0),
        float("dropout", 0.0, 0.5),
        float("momentum", 0.0, 1.0),
        log_int("batch_size", 8, 512),
        int("layers", 1, 8),
        choice("optimizer", ["sgd", "adamw", "lion"]),
    ])
}

/// A loss that two parameters decide, which falls towards its end.
fn loss(params: &Params, step: u64) -> f64 {
    let number = |name: &str| params.get(name).and_then(|value| value.as_number()).expect("number");
    let rate = number("learning_rate").log10() + 3.0;
    let end = 0.1 * rate * rate + (number("dropout") - 0.2).powi(2);
    #[expect(clippy::cast_precision_loss, reason = "a step")]
    let way = 1.0 / (1.0 + step as f64);
    end + way
}

/// A trial that ends at a step, or is paused there.
fn trial(number: u64, params: Params, last: u64) -> Trial {
    let curve = (1..=last).map(|step| (step, loss(&params, step))).collect();
    let (state, value) = match last {
        STEPS => (TrialState::Complete, Some(loss(&params, STEPS))),
        _ => (TrialState::Paused, None),
    };
    Trial { curve, ..trial_of(number, params, state, value) }
}

/// One in three trials of each rung continues.
fn rung(number: u64) -> u64 {
    let mut draw = SeedTree::new(3).stream(&format!("rung/{number}"));
    let mut last = 1;
    while last < STEPS && draw.random_range(0..3) == 0 {
        last *= 3;
    }
    last
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_else(|| "gp".to_owned());
    let build = |name: &str, space: &Space| {
        let spec = samplers::resolve(name, Default::default()).expect("a sampler");
        (samplers::find(name).expect("a sampler").build)(&spec, space).expect("a sampler")
    };
    let (space, seeds) = (axes(), SeedTree::new(1));
    for (case, is_complete) in [("complete trials", true), ("paused trials", false)] {
        for observations in [100, 1_000, 10_000] {
            let (random, sampler) = (build("random", &space), build(&name, &space));
            let mut trials: Vec<Trial> = Vec::new();
            let propose = |sampler: &dyn samplers::Sampler, trials: &[Trial]| {
                let number = trials.len() as u64;
                let history = History::of(trials, Direction::Minimize);
                let ask = Ask {
                    max_resource: Some(STEPS),
                    ..Ask::new(&space, history, TrialNumber(number), seeds)
                };
                let mut rng = seeds.stream(&format!("sampler/{number}"));
                sampler.suggest(&ask, &mut rng).expect("a proposal").expect("a point").params
            };
            let next = |number: u64| if is_complete { STEPS } else { rung(number) };
            let mut seen = 0;
            while seen < observations {
                let params = propose(random.as_ref(), &trials);
                let number = trials.len() as u64;
                let last = next(number);
                seen += if is_complete { 1 } else { last.ilog(3) + 1 };
                trials.push(trial(number, params, last));
            }
            // The first one fits from nothing.
            propose(sampler.as_ref(), &trials);
            let mut times: Vec<f64> = Vec::new();
            for _ in 0..PROPOSALS {
                #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
                let begin = Instant::now();
                let params = propose(sampler.as_ref(), &trials);
                times.push(1_000.0 * begin.elapsed().as_secs_f64());
                let number = trials.len() as u64;
                trials.push(trial(number, params, next(number)));
            }
            #[expect(clippy::cast_precision_loss, reason = "a number of proposals")]
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            times.sort_by(f64::total_cmp);
            let (median, longest) = (times[PROPOSALS / 2], times[PROPOSALS - 1]);
            println!(
                "{case:16} {observations:6} {mean:8.2} {median:8.2} {longest:8.2}  ({} trials)",
                trials.len() - PROPOSALS
            );
        }
    }
}
