//! CMA-ES against the package `cmaes`, and its own guarantees.

use super::*;
use crate::samplers::conformance::{choice, float, int, space, under};
use crate::samplers::fixtures::{number, run_trial, search, suggest, unit_cube};
use crate::study::params::Params;
use crate::study::time::Timestamp;
use crate::study::trial::TrialState;

fn floats(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn generations_change_the_distribution_as_those_of_the_package_cmaes() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("reference.json")).unwrap();
    for case in golden["cases"].as_array().unwrap() {
        let axes = case["axes"].as_u64().unwrap() as usize;
        let population = case["population"].as_u64().unwrap() as usize;
        let mut evolution = Evolution::new(vec![0.5; axes], 0.2, Some(population));
        for generation in case["generations"].as_array().unwrap() {
            let points: Vec<Vec<f64>> =
                generation["points"].as_array().unwrap().iter().map(floats).collect();
            evolution.tell(&points);
            let (mean, sigma, covariance) = evolution.state();
            let close = |mine: f64, theirs: f64| {
                assert!(
                    (mine - theirs).abs() < 1e-7 * theirs.abs().max(1e-3),
                    "{mine} instead of {theirs}"
                )
            };
            close(sigma, generation["sigma"].as_f64().unwrap());
            mean.iter()
                .zip(floats(&generation["mean"]))
                .for_each(|(mine, theirs)| close(*mine, theirs));
            for (row, theirs) in covariance.iter().zip(generation["covariance"].as_array().unwrap())
            {
                row.iter().zip(floats(theirs)).for_each(|(mine, theirs)| close(*mine, theirs));
            }
        }
    }
}

fn built(space: &Space) -> CmaEs {
    CmaEs::new(&ENTRY.defaults(), space).unwrap()
}

/// The values of `x0`, `x1`, ...
fn numbers(params: &Params) -> Vec<f64> {
    (0..params.len()).map(|axis| number(params, &format!("x{axis}"))).collect()
}

/// Trials until a loss is below 1e-3, or `most`.
fn trials_needed(space: &Space, loss: impl Fn(&[f64]) -> f64, most: usize, seed: u64) -> usize {
    let (sampler, mut trials) = (built(space), Vec::new());
    let mut next =
        || run_trial(&sampler, space, &mut trials, seed, |params| loss(&numbers(params)));
    (1..most).find(|_| next() < 1e-3).unwrap_or(most)
}

fn median(mut counts: Vec<usize>) -> usize {
    counts.sort_unstable();
    counts[counts.len() / 2]
}

#[test]
fn it_takes_as_many_trials_as_the_package_on_a_sphere_and_on_a_bent_valley() {
    // `tests/peers/cmaes_golden.py figures`: medians 319 (279 to 361 of the middle three quarters)
    // and 917 (816 to 1206).
    let sphere = |x: &[f64]| x.iter().map(|x| 100.0 * (x - 0.3).powi(2)).sum::<f64>();
    let needed =
        median((0..5).map(|seed| trials_needed(&unit_cube(5), sphere, 800, seed)).collect());
    assert!((240..400).contains(&needed), "{needed}");
    let valley = |x: &[f64]| {
        let z: Vec<f64> = x.iter().map(|x| 4.0 * x - 1.5).collect();
        z.windows(2)
            .map(|pair| 100.0 * (pair[1] - pair[0] * pair[0]).powi(2) + (1.0 - pair[0]).powi(2))
            .sum::<f64>()
    };
    let needed =
        median((0..3).map(|seed| trials_needed(&unit_cube(4), valley, 2000, seed)).collect());
    assert!((600..1400).contains(&needed), "{needed}");
}

#[test]
fn integers_do_not_freeze_before_the_best_is_found() {
    let space = space((0..4).map(|index| int(&format!("x{index}"), 0, 12)));
    // Coupled slopes: the optimum is 1, 11, 4, 7.
    let loss = |x: &[f64]| {
        let off: Vec<f64> = x.iter().zip([1.0, 11.0, 4.0, 7.0]).map(|(x, best)| x - best).collect();
        off.iter().map(|off| off * off).sum::<f64>() + off[0] * off[1] * 0.5
    };
    for seed in 0..4 {
        assert!(trials_needed(&space, loss, 500, seed) < 500, "seed {seed}");
    }
}

#[test]
fn the_same_history_gives_the_same_point_without_memory_and_late_trials_change_no_earlier_one() {
    let space = unit_cube(3);
    let sampler = built(&space);
    let both = |trials: &[Trial]| {
        [&sampler, &built(&space)].map(|sampler| suggest(sampler, &space, trials, 4))
    };
    let mut trials: Vec<Trial> = Vec::new();
    for index in 0..60 {
        let [followed, anew] = both(&trials);
        assert_eq!(followed, anew, "trial {index}");
        run_trial(&sampler, &space, &mut trials, 4, |params| {
            numbers(params).iter().map(|x| (x - 0.4).abs()).sum()
        });
        trials[index].finished = Some(Timestamp(index as i64));
        // Every fifth runs longer and ends much later.
        if index % 5 == 2 {
            let trial = &mut trials[index];
            (trial.state, trial.value, trial.finished) = (TrialState::Running, None, None);
        }
    }
    for index in [2usize, 7, 12] {
        (trials[index].state, trials[index].value, trials[index].finished) =
            (TrialState::Complete, Some(0.1), Some(Timestamp(900)));
    }
    let [followed, anew] = both(&trials);
    assert_eq!(followed, anew);
}

#[test]
fn it_starts_elsewhere_where_all_losses_are_equal() {
    let space = unit_cube(2);
    let sampler = built(&space);
    search(&sampler, &space, 400, 1, |_| 1.0);
    let replay = sampler.replayed.borrow().clone().unwrap();
    let (restarts, population) = (replay.restarts, replay.evolution.population());
    assert!(restarts >= 1 && population > 6, "{restarts} restarts, {population}");
}

#[test]
fn a_space_without_numbers_is_refused_with_what_to_take_instead() {
    let space = space([choice("word", ["a", "b"]), under("word", "a", float("x", 0.0, 1.0))]);
    let error = CmaEs::new(&ENTRY.defaults(), &space).unwrap_err().to_string();
    assert!(error.contains("no number that is always active; take `tpe`"), "{error}");
}
