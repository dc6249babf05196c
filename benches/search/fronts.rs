//! Runs samplers on functions with known Pareto fronts, and prints the values of every trial.
//!
//!     cargo run --release -p hpsearch-core --example fronts -- SAMPLERS PROBLEMS TRIALS SEEDS
//!
//! Names are separated by commas (`gp,nsga2:{"population_size":30}` has options, which must not
//! contain commas); a problem's name ends with its number of parameters (`zdt1-30`), or is a file
//! that `front_tables.py tables` writes. One JSON object a line: sampler, problem (or table), seed,
//! `seconds` of the sampler, and `values` by trial.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::PI;
use std::time::Instant;

use hpsearch_core::samplers::conformance::{float, int, space, trial_of};
use hpsearch_core::samplers::{self, Ask};
use hpsearch_core::study::history::History;
use hpsearch_core::study::metric::Direction;
use hpsearch_core::study::params::{Params, Value};
use hpsearch_core::study::seed::SeedTree;
use hpsearch_core::study::space::Space;
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

/// What answers proposals.
enum Problem {
    Function(String, usize),
    Table(TabulatedProblem),
}

/// A table of trainings (`front_tables.py tables`): rows in the unit cube, and their values.
#[derive(serde::Deserialize)]
struct TabulatedProblem {
    /// By axis: the number of its levels, or 0 for a real number.
    levels: Vec<i64>,
    rows: Vec<Vec<f64>>,
    values: Vec<Vec<f64>>,
    /// Whether rows are answered again.
    is_grid: bool,
}

impl Problem {
    fn named(name: &str) -> Problem {
        if name.ends_with(".json") {
            let text = std::fs::read_to_string(name).expect("a table");
            return Problem::Table(serde_json::from_str(&text).expect("a table"));
        }
        let (function, axes) = name.split_once('-').expect("NAME-PARAMETERS");
        Problem::Function(function.to_owned(), axes.parse().expect("a number of parameters"))
    }

    fn space(&self) -> Space {
        let named = |axis: usize| format!("x{axis:02}");
        match self {
            Problem::Function(_, axes) => {
                space((0..*axes).map(|axis| float(&named(axis), 0.0, 1.0)))
            }
            Problem::Table(table) => {
                space(table.levels.iter().enumerate().map(|(axis, levels)| match levels {
                    0 => float(&named(axis), 0.0, 1.0),
                    levels => int(&named(axis), 0, levels - 1),
                }))
            }
        }
    }

    fn objectives(&self) -> usize {
        match self {
            Problem::Function(function, axes) => values(function, &vec![0.5; *axes]).len(),
            Problem::Table(table) => table.values[0].len(),
        }
    }

    /// The values of a point; of a table those of the nearest row, without curves one not used yet.
    #[expect(clippy::cast_precision_loss, reason = "levels of an axis")]
    fn values(&self, x: &[f64], used: &mut BTreeSet<usize>) -> Vec<f64> {
        let table = match self {
            Problem::Function(function, _) => return values(function, x),
            Problem::Table(table) => table,
        };
        let scaled: Vec<f64> = x
            .iter()
            .zip(&table.levels)
            .map(|(x, levels)| if *levels > 1 { x / (*levels - 1) as f64 } else { *x })
            .collect();
        let far =
            |row: &Vec<f64>| -> f64 { row.iter().zip(&scaled).map(|(a, b)| (a - b).powi(2)).sum() };
        let free = (0..table.rows.len()).filter(|row| table.is_grid || !used.contains(row));
        let nearest = free
            .min_by(|a, b| far(&table.rows[*a]).total_cmp(&far(&table.rows[*b])))
            .expect("a row");
        used.insert(nearest);
        table.values[nearest].clone()
    }
}

fn run(sampler: &str, name: &str, problem: &Problem, budget: u64, seed: u64) {
    let space = problem.space();
    let (kind, options) = sampler.split_once(':').unwrap_or((sampler, "{}"));
    let options: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(options).expect("options in JSON");
    let spec = samplers::resolve(kind, options).expect("a known sampler with its options");
    let entry = samplers::find(kind).expect("a known sampler");
    let sampler_of = (entry.build)(&spec, &space).expect("a sampler for numbers");
    let (seeds, mut trials, mut seconds) = (SeedTree::new(seed), Vec::<Trial>::new(), 0.0);
    let directions = vec![Direction::Minimize; problem.objectives()];
    let mut used = BTreeSet::new();
    for number in 0..budget {
        let history = History::of_several(&trials, &directions);
        let ask =
            Ask { budget: Some(budget), ..Ask::new(&space, history, TrialNumber(number), seeds) };
        let mut rng = seeds.stream(&format!("sampler/{number}"));
        #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
        let begin = Instant::now();
        let proposal = sampler_of.suggest(&ask, &mut rng).expect("a proposal");
        seconds += begin.elapsed().as_secs_f64();
        let point: Params = proposal.expect("a point").params;
        let x: Vec<f64> =
            point.iter().map(|(_, value)| Value::as_number(value).expect("a number")).collect();
        let values = problem.values(&x, &mut used);
        let trial = trial_of(number, point, TrialState::Complete, None);
        trials.push(Trial { values, ..trial });
    }
    let values: Vec<&Vec<f64>> = trials.iter().map(|trial| &trial.values).collect();
    let key = if matches!(problem, Problem::Table(_)) { "table" } else { "problem" };
    let name = name.rsplit_once("tables/").map_or(name, |(_, table)| table);
    let name = name.trim_end_matches(".json").replacen("--", "/", 1);
    let line = serde_json::json!({
        "sampler": sampler, key: name, "seed": seed, "seconds": seconds, "values": values,
    });
    println!("{line}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [samplers, problems, trials, seeds] = arguments.as_slice() else {
        panic!("usage: fronts SAMPLERS PROBLEMS TRIALS SEEDS");
    };
    let number = |text: &str| -> u64 { text.parse().expect("a number") };
    for name in problems.split(',') {
        let problem = Problem::named(name);
        for sampler in samplers.split(',') {
            for seed in 0..number(seeds) {
                run(sampler, name, &problem, number(trials), seed);
            }
        }
    }
}
