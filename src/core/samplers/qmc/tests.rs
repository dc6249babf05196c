//! The properties of a quasi-random sequence, and of its sampler.

use std::collections::BTreeSet;

use super::*;
use crate::samplers::conformance::{choice, float, int, space, trial_of, under};
use crate::samplers::fixtures::{answer, ask, unit_cube};
use crate::samplers::random::Random;
use crate::study::params::Params;
use crate::study::space::Space;
use crate::study::trial::{Trial, TrialNumber, TrialState};

fn sequence(seed: u64) -> Sequence {
    Sequence { seeds: SeedTree::new(seed) }
}

fn suggest(
    sampler: &dyn Sampler,
    space: &Space,
    trials: &[Trial],
    number: u64,
    seed: u64,
) -> Params {
    let number = TrialNumber(number);
    answer(sampler, &Ask { number, ..ask(space, trials, seed) }).unwrap()
}

/// Made with scipy 1.17's `qmc.Sobol(128, scramble=False, bits=32)`, whose point i is point
/// `i ^ (i >> 1)` here.
#[test]
fn before_scrambling_the_points_are_those_of_joe_and_kuo() {
    let of = |index| [0, 1, 2, 3, 63, 127].map(|coordinate| sobol(index, coordinate));
    assert_eq!(of(0), [0; 6]);
    assert_eq!(of(1), [1 << 31; 6]);
    assert_eq!(
        of(7),
        [3_758_096_384, 3_758_096_384, 536_870_912, 1_610_612_736, 2_684_354_560, 536_870_912]
    );
    assert_eq!(
        of(540),
        [943_718_400, 415_236_096, 2_227_175_424, 2_906_652_672, 1_916_796_928, 2_336_227_328]
    );
}

#[test]
fn the_table_has_every_coordinate_with_its_own_polynomial() {
    assert_eq!(DIRECTIONS.len(), COORDINATES - 1);
    let polynomials: BTreeSet<(usize, u32)> =
        DIRECTIONS.iter().map(|(polynomial, initial)| (initial.len(), *polynomial)).collect();
    assert_eq!(polynomials.len(), DIRECTIONS.len());
    for (_, initial) in DIRECTIONS {
        let mut numbers = initial.iter().enumerate();
        assert!(numbers.all(|(index, number)| number % 2 == 1 && *number < 2 << index));
    }
}

#[test]
fn two_to_the_m_points_are_one_in_each_cell_however_the_square_is_halved_m_times() {
    for seed in 0..3 {
        let sequence = sequence(seed);
        for m in 0..=8 {
            for start in [0u64, 1 << m, 5 << m] {
                for halvings in 0..=m {
                    let (columns, rows) =
                        (f64::from(1 << halvings), f64::from(1 << (m - halvings)));
                    let unit = |index, axis| sequence.unit(index, axis);
                    let cell =
                        |index| ((unit(index, 0) * columns) as u64, (unit(index, 1) * rows) as u64);
                    let found: BTreeSet<(u64, u64)> = (start..start + (1 << m)).map(cell).collect();
                    assert_eq!(
                        found.len(),
                        1 << m,
                        "seed {seed}, 2^{m} points from {start}, {halvings} halvings of the first \
                         axis"
                    );
                }
            }
        }
    }
}

#[test]
fn any_axis_alone_is_stratified_also_beyond_the_table() {
    let sequence = sequence(4);
    for coordinate in [2, 17, 100, 127, 128, 200, 999] {
        let parts: BTreeSet<u64> =
            (0..256).map(|index| (sequence.unit(index, coordinate) * 256.0) as u64).collect();
        assert_eq!(parts.len(), 256, "coordinate {coordinate}");
    }
}

#[test]
fn coordinates_beyond_the_table_do_not_repeat_those_of_it() {
    let sequence = sequence(4);
    let moves_with = |other: usize| {
        let points = (0..512)
            .map(|index| (sequence.unit(index, 0) - 0.5, sequence.unit(index, other) - 0.5));
        points.map(|(x, y)| x * y).sum::<f64>() / 512.0 * 12.0
    };
    assert!(moves_with(0) > 0.99);
    assert!(moves_with(128).abs() < 0.15 && moves_with(256).abs() < 0.15);
}

#[test]
fn seeds_give_different_points_and_the_same_seed_the_same() {
    let first = |seed| suggest(&Qmc, &unit_cube(3), &[], 0, seed).fingerprint();
    assert_eq!(first(1), first(1));
    let different: BTreeSet<String> = (0..50).map(|seed| first(seed).to_string()).collect();
    assert_eq!(different.len(), 50);
}

/// The square of the L2 star discrepancy (T. T. Warnock, 1972).
fn discrepancy(points: &[Vec<f64>]) -> f64 {
    let (count, axes) = (points.len() as f64, points[0].len() as i32);
    let single: f64 =
        points.iter().map(|point| point.iter().map(|x| (1.0 - x * x) / 2.0).product::<f64>()).sum();
    let pair =
        |a: &Vec<f64>, b: &Vec<f64>| a.iter().zip(b).map(|(x, y)| 1.0 - x.max(*y)).product::<f64>();
    let double: f64 = points.iter().flat_map(|a| points.iter().map(move |b| pair(a, b))).sum();
    3f64.powi(-axes) - 2.0 / count * single + double / (count * count)
}

#[test]
fn points_are_spread_more_evenly_than_random_ones() {
    let space = unit_cube(5);
    let mean_of = |sampler: &dyn Sampler| {
        let point = |number, seed| -> Vec<f64> {
            let params = suggest(sampler, &space, &[], number, seed);
            params.iter().filter_map(|(_, value)| value.as_number()).collect()
        };
        let of_seed =
            |seed| discrepancy(&(0..128).map(|number| point(number, seed)).collect::<Vec<_>>());
        (0..10).map(of_seed).sum::<f64>() / 10.0
    };
    let (even, random) = (mean_of(&Qmc), mean_of(&Random));
    assert!(even < random / 4.0, "{even} against {random}");
}

#[test]
fn choices_and_integers_get_equal_parts() {
    let space = space([choice("word", ["a", "b", "c", "d"]), int("n", 1, 8)]);
    let mut points: Vec<String> =
        (0..32).map(|number| suggest(&Qmc, &space, &[], number, 3).to_string()).collect();
    points.sort();
    points.dedup();
    assert_eq!(points.len(), 32, "each pair once");
}

#[test]
fn a_conditional_parameter_has_its_own_coordinate() {
    let word = || choice("word", ["a", "b"]);
    let unit = |name| float(name, 0.0, 1.0);
    let only = |kind, name| under("word", kind, unit(name));
    let conditional = space([word(), only("a", "only_a"), only("b", "only_b"), unit("always")]);
    let flat = space([word(), unit("only_a"), unit("only_b"), unit("always")]);
    for number in 0..16 {
        let (point, whole) =
            (suggest(&Qmc, &conditional, &[], number, 5), suggest(&Qmc, &flat, &[], number, 5));
        assert_eq!(point.iter().count(), 3);
        assert!(point.iter().all(|(name, value)| whole.get(name) == Some(value)));
    }
}

#[test]
fn a_resumed_study_gets_the_points_an_uninterrupted_one_would() {
    let space = unit_cube(2);
    let trial = |number| {
        trial_of(number, suggest(&Random, &space, &[], number, 9), TrialState::Failed, None)
    };
    let history: Vec<Trial> = (0..7).map(trial).collect();
    for number in 7..20 {
        let after = |trials: &[Trial]| suggest(&Qmc, &space, trials, number, 9);
        assert_eq!(after(&history), after(&[]));
    }
}
