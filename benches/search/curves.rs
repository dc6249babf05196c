//! Replays tables and surrogates of learning curves with samplers and pruners in one process: what
//! `replay.py` does through the program, many times faster.
//!
//!     python benches/search/replay.py tables --tables DIR --out TABLES
//!     cargo run --release -p hpsearch-core --example curves -- \
//!         LABEL SAMPLER PRUNER POOL WORKERS SEEDS TABLES/*.json
//!
//! `SAMPLER` is a name, with options in JSON after a colon (`gp:{"n_startup_trials":5}`) and with a
//! version after `@` (`gp@6`); `PRUNER` is JSON (`{"type":"asha"}`), `SEEDS` a range (`0-9`),
//! `POOL` the rows of a table that are shown with each choice (0: the nearest row of a proposal;
//! surrogates are always searched continuously). One JSON object a line, as `replay.py report`
//! reads them, with the time in samplers and pruners, and the regret of the best trial that was
//! begun, had it been trained to its end. `LABEL` = `values` prints values of surrogates instead.

use std::collections::{BTreeMap, HashSet};
use std::f64::consts::PI;
use std::time::Instant;

use hpsearch_core::pruners::{self, Case, Pruner, Restart};
use hpsearch_core::samplers::conformance::{
    float, int, log_float, log_int, space as space_of, trial_of,
};
use hpsearch_core::samplers::{self, Ask, Sampler};
use hpsearch_core::study::decision::Decision;
use hpsearch_core::study::history::History;
use hpsearch_core::study::metric::Direction;
use hpsearch_core::study::params::{Params, Value};
use hpsearch_core::study::seed::SeedTree;
use hpsearch_core::study::space::Space;
use hpsearch_core::study::trial::{DecisionAtStep, Trial, TrialNumber, TrialState};
use rand::RngExt as _;
use serde::Deserialize;
use serde_json::json;

/// Trials that a study may begin.
const MOST_TRIALS: usize = 400;

#[derive(Deserialize)]
struct Axis {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    low: f64,
    high: f64,
    log: bool,
}

#[derive(Deserialize)]
struct Problem {
    name: String,
    kind: String,
    space: Vec<Axis>,
    steps: u64,
    budget: u64,
    best: f64,
    median: f64,
    /// Rows in the unit cube, and their losses by step.
    #[serde(default)]
    rows: Vec<Vec<f64>>,
    #[serde(default)]
    curves: Vec<Vec<f64>>,
    /// Of a surrogate, instead of rows.
    weights: Option<Weights>,
}

/// `surrogates.py` explains them.
#[derive(Deserialize)]
struct Weights {
    noise: f64,
    crossing: f64,
    diverging: f64,
    overfitting: f64,
    centre: Vec<f64>,
    steep: Vec<f64>,
    tilt: Vec<f64>,
    wave: Vec<f64>,
}

impl Weights {
    fn loss(&self, x: &[f64], share: f64) -> f64 {
        let axes = self.steep.iter().zip(x).zip(&self.centre).zip(&self.wave);
        let bowl: f64 = axes
            .map(|(((steep, x), centre), wave)| {
                let wave = 1.0 - (2.0 * PI * wave * (x - centre)).cos();
                steep * (x - centre).powi(2) + 0.05 * steep * wave
            })
            .sum();
        let level = bowl / (0.3 + bowl);
        let tilt: f64 = x.iter().zip(&self.tilt).map(|(x, tilt)| x * tilt).sum::<f64>() / 3.0;
        let half = 10f64.powf(-1.3 + 0.4 * tilt + self.crossing * 0.9 * (0.7 - level));
        let way = match x[4] < 0.5 {
            true => 0.5f64.powf(share / half),
            false => 1.0 / (1.0 + share / half),
        };
        let mut loss = level + (2.0 - level) * way;
        loss += self.overfitting * (0.15 - half).max(0.0) / 0.15 * share * share;
        let edge = x[0] - self.centre[0] - 0.08;
        if self.diverging != 0.0 && edge > 0.0 && x[1] > 0.4 {
            let past = (share - 0.6 * (-8.0 * edge).exp()).max(0.0);
            loss += self.diverging * 20.0 * past * past;
        }
        loss
    }

    #[expect(clippy::cast_precision_loss, reason = "axes and steps")]
    fn value(&self, x: &[f64], step: u64, steps: u64) -> f64 {
        let loss = self.loss(x, step as f64 / steps as f64);
        if self.noise == 0.0 {
            return loss;
        }
        let place: f64 =
            x.iter().enumerate().map(|(axis, x)| (axis + 1) as f64 * 12.9898 * x).sum();
        let mixed = (place + 78.233 * step as f64).sin() * 43_758.545_3;
        let (first, second) = (mixed - mixed.floor(), mixed * 7.77 - (mixed * 7.77).floor());
        let normal = (-2.0 * first.max(1e-12).ln()).sqrt() * (2.0 * PI * second).cos();
        loss + self.noise * normal
    }
}

impl Problem {
    fn weights(&self) -> &Weights {
        self.weights.as_ref().expect("a surrogate")
    }

    fn space(&self) -> Space {
        #[expect(clippy::cast_possible_truncation, reason = "whole bounds")]
        let axis = |axis: &Axis| match (axis.kind.as_str(), axis.log) {
            ("int", true) => log_int(&axis.name, axis.low as i64, axis.high as i64),
            ("int", false) => int(&axis.name, axis.low as i64, axis.high as i64),
            (_, true) => log_float(&axis.name, axis.low, axis.high),
            (_, false) => float(&axis.name, axis.low, axis.high),
        };
        space_of(self.space.iter().map(axis))
    }

    /// A row of the table in the space's own numbers.
    fn params(&self, row: usize) -> Params {
        let mut params = Params::new();
        for (axis, unit) in self.space.iter().zip(&self.rows[row]) {
            let value = match axis.log {
                true => (axis.low.ln() + unit * (axis.high.ln() - axis.low.ln())).exp(),
                false => axis.low + unit * (axis.high - axis.low),
            };
            #[expect(clippy::cast_possible_truncation, reason = "a whole number")]
            let value = match axis.kind.as_str() {
                "int" => Value::Int(value.round_ties_even() as i64),
                _ => Value::Float(value.clamp(axis.low, axis.high)),
            };
            params.insert(axis.name.as_str(), value);
        }
        params
    }

    fn unit(&self, params: &Params) -> Vec<f64> {
        let unit = |axis: &Axis| {
            let value = params.get(&axis.name).and_then(Value::as_number).expect("a number");
            match axis.log {
                true => (value.ln() - axis.low.ln()) / (axis.high.ln() - axis.low.ln()),
                false => (value - axis.low) / (axis.high - axis.low),
            }
        };
        self.space.iter().map(unit).collect()
    }

    fn nearest(&self, params: &Params, used: &HashSet<usize>) -> usize {
        let point = self.unit(params);
        let far = |row: &usize| -> f64 {
            self.rows[*row].iter().zip(&point).map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let free = (0..self.rows.len()).filter(|row| !used.contains(row));
        free.min_by(|a, b| far(a).total_cmp(&far(b))).expect("a row that is left")
    }
}

/// What a finished training reported, and the loss that counts.
type Best = (f64, f64);

/// Where a trial's losses come from.
enum Source {
    Row(usize),
    Point(Vec<f64>),
}

struct Study<'a> {
    problem: &'a Problem,
    space: Space,
    sampler: Box<dyn Sampler>,
    pruner: Box<dyn Pruner>,
    seeds: SeedTree,
    pool: usize,
    trials: Vec<Trial>,
    sources: Vec<Source>,
    used: HashSet<usize>,
    /// Seconds in samplers and pruners.
    seconds: f64,
}

impl Study<'_> {
    fn value(&self, trial: usize, step: u64) -> f64 {
        match &self.sources[trial] {
            Source::Row(row) => self.problem.curves[*row][step as usize - 1],
            Source::Point(x) => self.problem.weights().value(x, step, self.problem.steps),
        }
    }

    /// The value that counts: a surrogate's without noise.
    fn end(&self, trial: usize) -> f64 {
        match &self.sources[trial] {
            Source::Row(_) => self.value(trial, self.problem.steps),
            Source::Point(x) => self.problem.weights().loss(x, 1.0),
        }
    }

    /// The next trial to run: a paused one, or a new one.
    fn next(&mut self) -> Option<usize> {
        #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
        let begin = Instant::now();
        let history = History::of(&self.trials, Direction::Minimize);
        let found = match self.pruner.promote(history) {
            Some(promotion) => {
                let trial = &mut self.trials[promotion.trial.index()];
                trial.state = TrialState::Running;
                trial.until = promotion.until;
                Some(promotion.trial.index())
            }
            None if self.trials.len() < MOST_TRIALS => Some(self.create()),
            None => None,
        };
        self.seconds += begin.elapsed().as_secs_f64();
        found
    }

    fn create(&mut self) -> usize {
        let number = self.trials.len() as u64;
        let history = History::of(&self.trials, Direction::Minimize);
        let ask = Ask {
            budget: Some(MOST_TRIALS as u64),
            max_resource: Some(self.problem.steps),
            ..Ask::new(&self.space, history, TrialNumber(number), self.seeds)
        };
        let mut rng = self.seeds.stream(&format!("sampler/{number}"));
        let (params, source) = if self.pool > 0 && self.problem.weights.is_none() {
            let mut draw = self.seeds.stream(&format!("pool/{number}"));
            let mut free: Vec<usize> =
                (0..self.problem.rows.len()).filter(|row| !self.used.contains(row)).collect();
            let shown: Vec<usize> = (0..self.pool.min(free.len()))
                .map(|_| free.swap_remove(draw.random_range(0..free.len())))
                .collect();
            let params: Vec<Params> = shown.iter().map(|row| self.problem.params(*row)).collect();
            let candidates: Vec<&Params> = params.iter().collect();
            let chosen = samplers::choose(self.sampler.as_ref(), &ask, &candidates, &mut rng);
            let chosen = chosen.expect("a choice").map_or(0, |chosen| chosen.index);
            self.used.insert(shown[chosen]);
            (params[chosen].clone(), Source::Row(shown[chosen]))
        } else {
            let proposal = self.sampler.suggest(&ask, &mut rng).expect("a proposal");
            let params = proposal.expect("a point").params;
            match self.problem.weights {
                Some(_) => {
                    let point = self.problem.unit(&params);
                    (params, Source::Point(point))
                }
                None => {
                    let row = self.problem.nearest(&params, &self.used);
                    self.used.insert(row);
                    (params, Source::Row(row))
                }
            }
        };
        let until = self.pruner.first_rung(TrialNumber(number));
        let trial = trial_of(number, params, TrialState::Running, None);
        self.trials.push(Trial { until, ..trial });
        self.sources.push(source);
        self.trials.len() - 1
    }

    /// One more step of a trial; whether it continues.
    fn step(&mut self, index: usize) -> bool {
        let step = self.trials[index].last().map_or(0, |(step, _)| step) + 1;
        let value = self.value(index, step);
        self.trials[index].curve.push((step, value));
        if step == self.problem.steps {
            let trial = &mut self.trials[index];
            (trial.state, trial.value) = (TrialState::Complete, Some(value));
            return false;
        }
        #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
        let begin = Instant::now();
        let history = History::of(&self.trials, Direction::Minimize);
        let case = Case {
            space: &self.space,
            history,
            trial: &self.trials[index],
            step,
            restart: Restart::Unknown,
        };
        let verdict = self.pruner.judge(&case);
        self.seconds += begin.elapsed().as_secs_f64();
        let until = self.trials[index].until.is_some_and(|until| step >= until);
        let state = match &verdict {
            Decision::Stop(_) => TrialState::Pruned,
            Decision::Pause(_) => TrialState::Paused,
            Decision::Continue(_) if until => TrialState::Paused,
            Decision::Continue(_) => return true,
        };
        let trial = &mut self.trials[index];
        trial.decisions.push(DecisionAtStep { step, verdict });
        trial.state = state;
        false
    }
}

fn run(
    label: &str,
    problem: &Problem,
    [sampler, pruner]: [&str; 2],
    pool: usize,
    workers: usize,
    seed: u64,
) {
    let space = problem.space();
    let (kind, options) = sampler.split_once(':').unwrap_or((sampler, "{}"));
    let (kind, version) = kind.split_once('@').unwrap_or((kind, ""));
    let options: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(options).expect("options in JSON");
    let mut spec = samplers::resolve(kind, options).expect("a known sampler with its options");
    spec.version = version.parse().unwrap_or(spec.version);
    let built = (samplers::find(kind).expect("a sampler").build)(&spec, &space).expect("a sampler");
    let mut options: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(pruner).expect("a pruner in JSON");
    let kind = options.remove("type").expect("its type");
    let kind = kind.as_str().expect("a name");
    let spec = pruners::resolve(kind, options).expect("a known pruner with its options");
    let entry = pruners::find(kind).expect("a known pruner");
    let pruner_of = (entry.build)(&spec, Some(problem.steps)).expect("a pruner");
    let mut study = Study {
        problem,
        space,
        sampler: built,
        pruner: pruner_of,
        seeds: SeedTree::new(seed),
        pool,
        trials: Vec::new(),
        sources: Vec::new(),
        used: HashSet::new(),
        seconds: 0.0,
    };
    let (mut spent, mut live, mut full) = (0, Vec::<usize>::new(), 0);
    // The best, and the same at half the budget.
    let (mut best, mut half): (Option<Best>, Option<Best>) = (None, None);
    while spent < problem.budget {
        while live.len() < workers {
            let Some(next) = study.next() else { break };
            live.push(next);
        }
        if live.is_empty() {
            break;
        }
        for index in live.clone() {
            if spent >= problem.budget {
                break;
            }
            spent += 1;
            if 2 * spent <= problem.budget {
                half = best;
            }
            if !study.step(index) {
                live.retain(|other| *other != index);
            }
            if study.trials[index].state == TrialState::Complete {
                full += 1;
                let reported = study.value(index, problem.steps);
                if best.is_none_or(|best| reported < best.0) {
                    best = Some((reported, study.end(index)));
                }
            }
        }
    }
    let regret = |best: Option<Best>| {
        let value = best.map_or(problem.median, |best| best.1);
        ((value - problem.best) / (problem.median - problem.best)).clamp(0.0, 1.0)
    };
    let line = json!({
        "table": problem.name, "kind": problem.kind, "label": label, "seed": seed,
        "workers": workers, "regret": regret(best), "regret10": regret(half),
        "best": best.map(|best| best.1), "seconds": study.seconds,
        "trials": study.trials.len(), "full": full,
        "regret_of_begun": regret((0..study.trials.len())
            .map(|trial| (study.end(trial), study.end(trial)))
            .min_by(|a, b| a.0.total_cmp(&b.0))),
    });
    println!("{line}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [label, sampler, pruner, pool, workers, seeds, tables @ ..] = arguments.as_slice() else {
        panic!("usage: curves LABEL SAMPLER PRUNER POOL WORKERS SEEDS TABLE..");
    };
    let number = |text: &str| -> u64 { text.parse().expect("a number") };
    let (first, last) = seeds.split_once('-').expect("seeds such as 0-9");
    for path in tables {
        let text = std::fs::read_to_string(path).expect("a table");
        let problem: Problem = serde_json::from_str(&text).expect("a table");
        if label == "values" {
            let point =
                |k: usize| (0..6).map(move |axis| 0.1 * (1 + (3 * axis + 2 * k) % 9) as f64);
            let values = (0..3).flat_map(|k| {
                let x: Vec<f64> = point(k).collect();
                [1, 20, 60].map(|t| format!("{:.6}", problem.weights().value(&x, t, problem.steps)))
            });
            println!("{} {}", problem.name, values.collect::<Vec<_>>().join(" "));
            continue;
        }
        for seed in number(first)..=number(last) {
            let (pool, workers) = (number(pool) as usize, number(workers) as usize);
            run(label, &problem, [sampler, pruner], pool, workers, seed);
        }
    }
}
