//! What constraints, guesses and earlier studies do to the samplers of the table.

use super::conformance::{dimension, trial_of};
use super::*;
use crate::study::condition::Expression;
use crate::study::metric::Direction;
use crate::study::space::{Distribution, Scale};
use crate::study::trial::{Trial, TrialState};

fn require(text: &str) -> Constraint {
    Constraint::Require(Expression::parse(text).unwrap())
}

fn limit(text: &str) -> Constraint {
    Constraint::Limit(Expression::parse(text).unwrap())
}

fn space() -> Space {
    let float = || Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap();
    let kind = Distribution::choice(vec!["a".into(), "b".into()]).unwrap();
    Space::new(vec![
        dimension("x", float(), &[]),
        dimension("n", Distribution::int(1, 8, Scale::Linear, 1).unwrap(), &[]),
        dimension("kind", kind, &[]),
        dimension("y", float(), &[("kind", vec!["a".into()])]),
    ])
    .unwrap()
}

fn number(params: &Params, name: &str) -> f64 {
    params.get(name).and_then(crate::study::params::Value::as_number).unwrap_or(0.0)
}

struct Run<'a> {
    sampler: &'a dyn Sampler,
    space: &'a Space,
    constraints: &'a [Constraint],
    earlier: &'a [Earlier],
}

impl Run<'_> {
    fn next(&self, trials: &[Trial], seed: u64) -> Result<Option<Params>, SamplerError> {
        let seeds = SeedTree::new(seed);
        let number = TrialNumber(trials.len() as u64);
        let history = History::of(trials, Direction::Minimize);
        let (constraints, earlier, space, fixed) =
            (self.constraints, self.earlier, self.space, &Params::new());
        let ask = Ask {
            room: None,
            space,
            history,
            number,
            fixed,
            budget: None,
            constraints,
            earlier,
            seeds,
        };
        propose(self.sampler, &ask, &mut seeds.stream(&format!("sampler/{number}")))
    }

    /// Losses and metrics of so many trials; the violation as the engine has it.
    fn search(
        &self,
        budget: usize,
        seed: u64,
        loss: impl Fn(&Params) -> f64,
        metrics: impl Fn(&Params) -> Vec<(String, f64)>,
    ) -> Vec<Trial> {
        let mut trials = Vec::new();
        while trials.len() < budget {
            let Some(point) = self.next(&trials, seed).unwrap() else { break };
            let mut trial = trial_of(
                trials.len() as u64,
                point.clone(),
                TrialState::Complete,
                Some(loss(&point)),
            );
            trial.last_metrics = metrics(&point).into_iter().collect();
            trial.violation = constraint::violation(self.constraints, &trial.last_metrics)
                .filter(|violation| *violation > 0.0);
            trials.push(trial);
        }
        trials
    }
}

fn built(name: &str, space: &Space) -> Box<dyn Sampler> {
    (find(name).unwrap().build)(&AlgorithmSpec::named(name), space).unwrap()
}

fn best(trials: &[Trial]) -> f64 {
    trials
        .iter()
        .filter(|trial| trial.violation.is_none())
        .filter_map(|trial| trial.value)
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn no_sampler_proposes_what_a_constraint_rejects() {
    let space = space();
    let constraints = [require("x + n / 8 <= 0.6"), require("y > 0.5 or kind == 'b'")];
    for entry in SAMPLERS {
        let sampler = match (entry.build)(&entry.defaults(), &space) {
            Ok(sampler) => sampler,
            Err(RegistryError::Unsuitable { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let run = Run {
            sampler: sampler.as_ref(),
            space: &space,
            constraints: &constraints,
            earlier: &[],
        };
        let trials = run.search(
            if entry.name == "gp" { 20 } else { 40 },
            3,
            |params| number(params, "x"),
            |_| Vec::new(),
        );
        for trial in &trials {
            assert_eq!(
                constraint::broken(&constraints, &trial.params),
                None,
                "{}: {}",
                entry.name,
                trial.params
            );
        }
    }
}

#[test]
fn a_grid_leaves_out_what_is_rejected_and_then_is_exhausted() {
    let digit =
        |name: &str| dimension(name, Distribution::int(0, 9, Scale::Linear, 1).unwrap(), &[]);
    let space = Space::new(vec![digit("a"), digit("b")]).unwrap();
    let grid = built("grid", &space);
    let constraints = [require("a + b == 9")];
    let run =
        Run { sampler: grid.as_ref(), space: &space, constraints: &constraints, earlier: &[] };
    let mut trials = run.search(10, 0, |_| 0.5, |_| Vec::new());
    assert!(run.next(&trials, 0).unwrap().is_none());
    trials.dedup_by(|a, b| a.params == b.params);
    assert_eq!(trials.len(), 10);
    let impossible = [require("a + b == 99")];
    let error = Run { constraints: &impossible, ..run }.next(&[], 0).unwrap_err().to_string();
    assert!(error.contains("its cells are rejected by `a + b == 99`"), "{error}");
}

#[test]
fn the_best_that_keeps_a_limit_is_found_although_better_ones_break_it() {
    let axis = || Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap();
    let space =
        Space::new((0..3).map(|index| dimension(&format!("x{index}"), axis(), &[])).collect())
            .unwrap();
    // The loss falls towards 1 on every axis; only the part where the first two add up to less than
    // one may be used.
    let loss = |params: &Params| {
        (0..3).map(|index| (1.0 - number(params, &format!("x{index}"))).powi(2)).sum::<f64>()
    };
    let latency = |params: &Params| {
        vec![("latency".to_owned(), 10.0 * (number(params, "x0") + number(params, "x1")))]
    };
    let constraints = [limit("latency <= 10")];
    for (name, bar) in [("tpe", 0.62), ("gp", 0.505)] {
        let sampler = built(name, &space);
        let run = Run {
            sampler: sampler.as_ref(),
            space: &space,
            constraints: &constraints,
            earlier: &[],
        };
        let mut found: Vec<f64> =
            (0..3).map(|seed| best(&run.search(45, seed, loss, latency))).collect();
        found.sort_by(f64::total_cmp);
        // The best possible is 0.5; random search after 45 trials is at 0.75.
        assert!(found[1] < bar, "{name}: {found:?}");
    }
}

#[test]
fn the_users_guess_is_tried_first_and_looked_around_sooner() {
    let mut dimensions: Vec<crate::study::space::Dimension> = (0..4)
        .map(|index| {
            dimension(
                &format!("x{index}"),
                Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(),
                &[],
            )
        })
        .collect();
    let plain = Space::new(dimensions.clone()).unwrap();
    for (dimension, prior) in dimensions.iter_mut().zip([0.8, 0.2, 0.7, 0.3]) {
        dimension.prior = Some(prior.into());
    }
    let guessed = Space::new(dimensions).unwrap();
    let loss = |params: &Params| {
        [0.85, 0.15, 0.7, 0.35]
            .iter()
            .enumerate()
            .map(|(index, at)| (at - number(params, &format!("x{index}"))).abs())
            .sum::<f64>()
    };
    for name in ["tpe", "gp", "auto"] {
        let found = |space: &Space| {
            let sampler = built(name, space);
            let run = Run { sampler: sampler.as_ref(), space, constraints: &[], earlier: &[] };
            let mut found: Vec<f64> =
                (0..3).map(|seed| best(&run.search(16, seed, loss, |_| Vec::new()))).collect();
            found.sort_by(f64::total_cmp);
            let first = run.next(&[], 1).unwrap().unwrap();
            (found[1], first)
        };
        let (with, first) = found(&guessed);
        let (without, _) = found(&plain);
        assert_eq!((number(&first, "x0"), number(&first, "x3")), (0.8, 0.3), "{name}");
        assert!(with < 0.8 * without, "{name}: {with} against {without}");
    }
}

#[test]
fn a_guess_far_off_costs_little_in_the_end() {
    let axis = |prior: Option<f64>| crate::study::space::Dimension {
        prior: prior.map(Into::into),
        ..dimension("", Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(), &[])
    };
    let space = |prior: Option<f64>| {
        Space::new(
            (0..3)
                .map(|index| crate::study::space::Dimension {
                    name: format!("x{index}"),
                    ..axis(prior)
                })
                .collect(),
        )
        .unwrap()
    };
    let loss = |params: &Params| {
        (0..3).map(|index| (0.9 - number(params, &format!("x{index}"))).powi(2)).sum::<f64>()
    };
    for name in ["tpe", "gp"] {
        let median = |space: &Space| {
            let sampler = built(name, space);
            let run = Run { sampler: sampler.as_ref(), space, constraints: &[], earlier: &[] };
            let mut found: Vec<f64> =
                (0..3).map(|seed| best(&run.search(40, seed, loss, |_| Vec::new()))).collect();
            found.sort_by(f64::total_cmp);
            found[1]
        };
        let (wrong, none) = (median(&space(Some(0.1))), median(&space(None)));
        assert!(wrong < 4.0 * none + 0.01, "{name}: {wrong} against {none}");
    }
}

#[test]
fn an_earlier_study_gives_its_best_first_and_a_head_start() {
    let space = space();
    let loss = |params: &Params| {
        let y = if number(params, "y") == 0.0 { 0.6 } else { (number(params, "y") - 0.7).abs() };
        (number(params, "x") - 0.3).abs() + y + (number(params, "n") - 5.0).abs() / 8.0
    };
    // The earlier study had losses a thousand times as large, and its best point a little beside
    // this one's.
    let mut earlier: Vec<(f64, Params)> = Vec::new();
    let random = built("random", &space);
    for trial in (Run { sampler: random.as_ref(), space: &space, constraints: &[], earlier: &[] })
        .search(60, 11, |params| 1000.0 * loss(params), |_| Vec::new())
    {
        earlier.push((trial.value.unwrap(), trial.params));
    }
    earlier.sort_by(|a, b| a.0.total_cmp(&b.0));
    let earlier: Vec<Earlier> = earlier
        .into_iter()
        .enumerate()
        .map(|(place, (_, params))| Earlier { params, rank: place as f64 / 60.0 })
        .collect();
    for name in ["tpe", "gp", "auto"] {
        let sampler = built(name, &space);
        let found = |earlier: &[Earlier]| {
            let run = Run { sampler: sampler.as_ref(), space: &space, constraints: &[], earlier };
            let mut found: Vec<f64> =
                (0..3).map(|seed| best(&run.search(14, seed, loss, |_| Vec::new()))).collect();
            found.sort_by(f64::total_cmp);
            (found[1], run.next(&[], 5).unwrap().unwrap())
        };
        let (with, first) = found(&earlier);
        let (without, _) = found(&[]);
        assert_eq!(first, earlier[0].params, "{name}");
        assert!(with < without, "{name}: {with} against {without}");
    }
}
