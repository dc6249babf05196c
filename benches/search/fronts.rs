//! Runs samplers on functions with known Pareto fronts, and prints the values of every trial.
//!
//!     cargo run --release -p hpsearch-core --example fronts -- SAMPLERS PROBLEMS TRIALS SEEDS
//!
//! Names are separated by commas (`gp,nsga2:{"population_size":30}` has options, which must not
//! contain commas); a problem's name ends with its number of parameters (`zdt1-30`). One JSON
//! object a line: sampler, problem, seed, `seconds` of the sampler, and `values` by trial.

use std::collections::BTreeMap;
use std::f64::consts::PI;
use std::time::Instant;

use hpsearch_core::samplers::conformance::{float, space, trial_of};
use hpsearch_core::samplers::{self, Ask};
use hpsearch_core::study::history::History;
use hpsearch_core::study::metric::Direction;
use hpsearch_core::study::params::{Params, Value};
use hpsearch_core::study::seed::SeedTree;
use hpsearch_core::study::trial::{Trial, TrialNumber, TrialState};

/// The functions of Zitzler, Deb and Thiele (2000), and of Deb, Thiele, Laumanns and Zitzler
/// (2002) with two or three objectives (`dtlz2x2`, `dtlz2x3`), on the unit cube.
fn values(problem: &str, x: &[f64]) -> Vec<f64> {
    let rest = &x[1..];
    let mean = rest.iter().sum::<f64>() / rest.len().max(1) as f64;
    match problem {
        "zdt1" | "zdt2" | "zdt3" => {
            let (first, g) = (x[0], 1.0 + 9.0 * mean);
            let ratio = first / g;
            let shape = match problem {
                "zdt1" => 1.0 - ratio.sqrt(),
                "zdt2" => 1.0 - ratio * ratio,
                _ => 1.0 - ratio.sqrt() - ratio * (10.0 * PI * first).sin(),
            };
            vec![first, g * shape]
        }
        "zdt4" => {
            let rastrigin = |x: &f64| {
                let x = 10.0 * x - 5.0;
                x * x - 10.0 * (4.0 * PI * x).cos()
            };
            let g = 1.0 + 10.0 * rest.len() as f64 + rest.iter().map(rastrigin).sum::<f64>();
            vec![x[0], g * (1.0 - (x[0] / g).sqrt())]
        }
        "zdt6" => {
            let first = 1.0 - (-4.0 * x[0]).exp() * (6.0 * PI * x[0]).sin().powi(6);
            let g = 1.0 + 9.0 * mean.powf(0.25);
            vec![first, g * (1.0 - (first / g).powi(2))]
        }
        _ => {
            let objectives = if problem.ends_with('3') { 3 } else { 2 };
            let (angles, rest) = x.split_at(objectives - 1);
            let radius = 1.0 + rest.iter().map(|x| (x - 0.5).powi(2)).sum::<f64>();
            let turned = |k: usize| {
                let cosines = angles[..objectives - 1 - k].iter().map(|x| (0.5 * PI * x).cos());
                let sine = angles.get(objectives - 1 - k).filter(|_| k > 0);
                radius * cosines.product::<f64>() * sine.map_or(1.0, |x| (0.5 * PI * x).sin())
            };
            (0..objectives).map(turned).collect()
        }
    }
}

fn run(sampler: &str, problem: &str, budget: u64, seed: u64) {
    let (function, axes) = problem.split_once('-').expect("NAME-PARAMETERS");
    let axes: usize = axes.parse().expect("a number of parameters");
    let space = space((0..axes).map(|axis| float(&format!("x{axis:02}"), 0.0, 1.0)));
    let (name, options) = sampler.split_once(':').unwrap_or((sampler, "{}"));
    let options: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(options).expect("options in JSON");
    let spec = samplers::resolve(name, options).expect("a known sampler with its options");
    let entry = samplers::find(name).expect("a known sampler");
    let sampler_of = (entry.build)(&spec, &space).expect("a sampler for numbers");
    let (seeds, mut trials, mut seconds) = (SeedTree::new(seed), Vec::<Trial>::new(), 0.0);
    let count = values(function, &vec![0.5; axes]).len();
    let directions = vec![Direction::Minimize; count];
    for number in 0..budget {
        let history = History::of_several(&trials, &directions);
        let ask =
            Ask { budget: Some(budget), ..Ask::new(&space, history, TrialNumber(number), seeds) };
        let mut rng = seeds.stream(&format!("sampler/{number}"));
        #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
        let begin = Instant::now();
        let point: Params =
            sampler_of.suggest(&ask, &mut rng).expect("a proposal").expect("a point");
        seconds += begin.elapsed().as_secs_f64();
        let x: Vec<f64> =
            point.iter().map(|(_, value)| Value::as_number(value).expect("a number")).collect();
        let values = values(function, &x);
        let trial = trial_of(number, point, TrialState::Complete, None);
        trials.push(Trial { values, ..trial });
    }
    let values: Vec<&Vec<f64>> = trials.iter().map(|trial| &trial.values).collect();
    let line = serde_json::json!({
        "sampler": sampler, "problem": problem, "seed": seed, "seconds": seconds, "values": values,
    });
    println!("{line}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [samplers, problems, trials, seeds] = arguments.as_slice() else {
        panic!("usage: fronts SAMPLERS PROBLEMS TRIALS SEEDS");
    };
    let number = |text: &str| -> u64 { text.parse().expect("a number") };
    for problem in problems.split(',') {
        for sampler in samplers.split(',') {
            for seed in 0..number(seeds) {
                run(sampler, problem, number(trials), seed);
            }
        }
    }
}
