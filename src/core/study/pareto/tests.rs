//! Fronts, ranks and hypervolumes against pymoo's, and their edges.

use super::*;

/// Fronts and random points with pymoo's ranks and hypervolumes; made by
/// `tests/peers/pareto_golden.py`.
#[test]
fn ranks_hypervolumes_and_contributions_are_those_of_pymoo() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("pymoo.json")).unwrap();
    let numbers = |json: &serde_json::Value| -> Vec<f64> {
        json.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    for case in golden["cases"].as_array().unwrap() {
        let name = &case["name"];
        let points: Vec<Vec<f64>> =
            case["points"].as_array().unwrap().iter().map(numbers).collect();
        let reference = numbers(&case["reference"]);
        let found: Vec<f64> = ranks(&points).into_iter().map(|rank| rank as f64).collect();
        assert_eq!(found, numbers(&case["ranks"]), "{name}");
        let found: Vec<f64> = front(&points).into_iter().map(|index| index as f64).collect();
        assert_eq!(found, numbers(&case["front"]), "{name}");
        let (volume, expected) =
            (hypervolume(&points, &reference), case["hypervolume"].as_f64().unwrap());
        assert!((volume - expected).abs() < 1e-9 * expected, "{name}: {volume} {expected}");
        let alone = contributions(&points, &reference);
        for (index, expected_alone) in
            front(&points).into_iter().zip(numbers(&case["contributions"]))
        {
            let error = (alone[index] - expected_alone).abs();
            assert!(error < 1e-9 * expected, "{name}, {index}: {} {expected_alone}", alone[index]);
        }
    }
}

fn vectors<const N: usize, const M: usize>(points: [[f64; M]; N]) -> Vec<Vec<f64>> {
    points.iter().map(|point| point.to_vec()).collect()
}

/// Evenly mixed points: multiples of irrational numbers, modulo 1.
fn scattered(count: u32, objectives: usize) -> Vec<Vec<f64>> {
    let part = |index: u32, by: f64| (f64::from(index + 1) * by).fract();
    let by = [0.618_034, 0.754_878, 0.819_173, 0.856_675, 0.881_271];
    (0..count).map(|index| by[..objectives].iter().map(|by| part(index, *by)).collect()).collect()
}

#[test]
fn nan_is_an_infinite_loss_in_both_directions() {
    let directions = [Direction::Minimize, Direction::Maximize];
    assert_eq!(losses(&directions, &[f64::NAN, f64::NAN]), [f64::INFINITY; 2]);
    assert_eq!(losses(&directions, &[1.0, f64::INFINITY]), [1.0, f64::NEG_INFINITY]);
    assert!(losses(&directions, &[0.0, 0.0])[1].is_sign_positive());
}

#[test]
fn equal_points_share_a_rank_and_all_stay_on_the_front() {
    let points = vectors([[1.0, 2.0], [2.0, 2.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.0]]);
    assert_eq!(ranks(&points), [0, 1, 0, 0, 2]);
    assert_eq!(front(&points), [0, 2, 3]);
    assert_eq!((ranks(&[]), front(&[])), (Vec::new(), Vec::new()));
}

#[test]
fn ranks_of_every_number_of_objectives_are_those_of_peeling() {
    for objectives in 1..=5 {
        let points = scattered(120, objectives);
        let mut expected = vec![usize::MAX; points.len()];
        for rank in 0.. {
            let left: Vec<usize> =
                (0..points.len()).filter(|index| expected[*index] == usize::MAX).collect();
            if left.is_empty() {
                break;
            }
            let is_beaten =
                |one: &usize| left.iter().any(|other| dominates(&points[*other], &points[*one]));
            let peeled: Vec<usize> =
                left.iter().copied().filter(|index| !is_beaten(index)).collect();
            peeled.into_iter().for_each(|index| expected[index] = rank);
        }
        assert_eq!(ranks(&points), expected, "{objectives}");
    }
}

#[test]
fn points_beyond_the_reference_add_nothing() {
    let reference = [2.0, 2.0];
    let inside = vectors([[0.0, 1.0], [1.0, 0.0]]);
    assert_eq!(hypervolume(&inside, &reference), 3.0);
    let beyond = [inside, vectors([[-9.0, 2.0], [3.0, -9.0], [f64::INFINITY, 0.0]])].concat();
    assert_eq!(hypervolume(&beyond, &reference), 3.0);
    assert_eq!(contributions(&beyond[..2], &reference), [1.0, 1.0]);
    assert_eq!(hypervolume(&[], &reference), 0.0);
    assert_eq!(hypervolume(&vectors([[2.0, 2.0]]), &reference), 0.0);
}

#[test]
fn equal_points_have_no_contribution_and_count_once() {
    let points = vectors([[0.0, 0.0, 0.0]; 3]);
    assert_eq!(hypervolume(&points, &[1.0; 3]), 1.0);
    assert_eq!(contributions(&points, &[1.0; 3]), [0.0; 3]);
}

#[test]
fn infinities_never_give_nan() {
    const ODD: [f64; 5] = [f64::NEG_INFINITY, -1.0, 0.0, f64::MAX, f64::INFINITY];
    for objectives in 1..=4 {
        let point = |index: usize| (0..objectives).map(|k| ODD[index / (k + 1) % 5]).collect();
        let points: Vec<Vec<f64>> = (0..25).map(point).collect();
        for border in [1.0, f64::MAX, f64::INFINITY] {
            let reference = vec![border; objectives];
            assert!(!hypervolume(&points, &reference).is_nan());
            assert!(contributions(&points, &reference).iter().all(|volume| !volume.is_nan()));
        }
        assert!(crowding(&points).iter().all(|distance| !distance.is_nan()));
        let mut sorted = order(&points);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..25).collect::<Vec<_>>());
        let reference = reference_point(&points).unwrap();
        assert!(reference.iter().all(|border| border.is_finite()), "{reference:?}");
        assert!(knee(&points).is_none_or(|index| points[index].iter().all(|l| l.is_finite())));
    }
    assert_eq!(hypervolume(&vectors([[f64::NEG_INFINITY, 0.0]]), &[1.0; 2]), f64::INFINITY);
    assert_eq!(reference_point(&vectors([[f64::INFINITY, 0.0]])), None);
}

#[test]
fn crowding_is_infinite_at_the_ends_and_the_gap_of_the_neighbours_between() {
    let points = vectors([[0.0, 10.0], [1.0, 6.0], [4.0, 5.0], [10.0, 0.0]]);
    let distances = crowding(&points);
    assert_eq!(distances[0], f64::INFINITY);
    assert!((distances[1] - 0.9).abs() < 1e-12 && (distances[2] - 1.5).abs() < 1e-12);
    assert_eq!(crowding(&vectors([[1.0, 2.0]; 3])), [0.0; 3]);
}

#[test]
fn the_knee_bulges_farthest_towards_the_best_losses() {
    let convex = vectors([[0.0, 100.0], [1.0, 20.0], [5.0, 15.0], [10.0, 0.0], [11.0, 200.0]]);
    assert_eq!(knee(&convex), Some(1));
    let concave = vectors([[0.0, 1.0], [0.9, 0.9], [1.0, 0.0]]);
    assert_eq!((knee(&concave), knee(&concave[..2]), knee(&[])), (None, None, None));
}

#[test]
fn the_reference_is_a_tenth_of_the_front_beyond_its_worst_losses() {
    let points = vectors([[0.0, 10.0], [4.0, 0.0], [99.0, 99.0]]);
    assert_eq!(reference_point(&points), Some(vec![4.4, 11.0]));
    assert_eq!(reference_point(&vectors([[-5.0, 0.0]])), Some(vec![-4.5, 0.1]));
    assert_eq!(reference_point(&[]), None);
}

#[test]
fn selection_covers_the_front_and_is_the_exact_greedy_one() {
    let points: Vec<Vec<f64>> =
        scattered(40, 3).into_iter().map(|point| point.iter().map(|x| x * x).collect()).collect();
    let reference = [1.1; 3];
    let mut expected: Vec<usize> = Vec::new();
    for _ in 0..10 {
        let volume_with = |index: usize| {
            let set: Vec<Vec<f64>> =
                expected.iter().chain([&index]).map(|index| points[*index].clone()).collect();
            hypervolume(&set, &reference)
        };
        let left = (0..40).filter(|index| !expected.contains(index));
        expected.push(left.max_by(|a, b| volume_with(*a).total_cmp(&volume_with(*b))).unwrap());
    }
    assert_eq!(select(&points, &reference, 10), expected);
}

#[test]
fn the_order_is_by_rank_then_spread_over_the_front_and_independent_of_scales() {
    // Three on the front (the last of them in the middle), one behind it.
    let points = vectors([[0.0, 9.0], [0.1, 8.9], [9.0, 0.0], [4.0, 9.5], [3.0, 3.0]]);
    assert_eq!(order(&points), [1, 4, 0, 2, 3]);
    let scaled: Vec<Vec<f64>> =
        points.iter().map(|point| vec![point[0] * 1e9, point[1].exp()]).collect();
    assert_eq!(order(&scaled), order(&points));
    // One objective: by value, ties by index.
    assert_eq!(order(&vectors([[2.0], [1.0], [2.0], [0.0]])), [3, 1, 0, 2]);
}

#[test]
fn a_hypervolume_that_takes_too_long_is_given_up_at_the_same_place_everywhere() {
    let points = scattered(300, 5);
    let reference = [1.0; 5];
    let exact = hypervolume(&points, &reference);
    let within = |mut work: Work| hypervolume_within(&points, &reference, &mut work);
    assert_eq!(within(Work::default()), Some(exact));
    assert_eq!(within(Work::comparisons(1_000)), None);
    let mut shared = Work::comparisons(1_000_000_000);
    let first = hypervolume_within(&points, &reference, &mut shared);
    assert_eq!((first, shared.left() < 1_000_000_000), (Some(exact), true));
}

#[test]
fn ties_go_to_the_first_or_to_the_sparsest_part_of_the_front() {
    // The two in the middle add equal volumes in ranks, and the third has more room.
    let points = vectors([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.9, 0.1]]);
    assert_eq!(order_with(&points, Ties::First)[0], 1);
    assert_eq!(order_with(&points, Ties::Sparse)[0], 2);
    // Equal points and infinite losses are no trouble: every point has a place.
    let points = vectors([[0.5, 0.5], [0.5, 0.5], [f64::INFINITY, 0.1], [0.1, f64::INFINITY]]);
    let mut order = order_with(&points, Ties::Sparse);
    order.sort_unstable();
    assert_eq!(order, [0, 1, 2, 3]);
}

#[test]
fn with_ties_by_sparseness_the_order_does_not_depend_on_who_came_first() {
    let points = scattered(60, 2);
    let mut turned = points.clone();
    turned.reverse();
    let front_of = |points: &[Vec<f64>]| -> Vec<Vec<f64>> {
        order_with(points, Ties::Sparse).into_iter().map(|index| points[index].clone()).collect()
    };
    assert_eq!(front_of(&points), front_of(&turned));
}

/// Points on the plane where the losses sum to 1: none dominates another.
fn on_a_plane(count: u32, objectives: u32) -> Vec<Vec<f64>> {
    let mut mixed: u64 = 12_345;
    let mut draw = || {
        mixed = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        f64::from(u32::try_from(mixed >> 32).unwrap()) / f64::from(u32::MAX)
    };
    let mut point = || {
        let parts: Vec<f64> = (0..objectives).map(|_| -(draw() + 1e-9).ln()).collect();
        let sum: f64 = parts.iter().sum();
        parts.into_iter().map(|part| part / sum).collect()
    };
    (0..count).map(|_| point()).collect()
}

#[test]
fn of_about_as_many_points_as_are_said_a_hypervolume_is_measured() {
    assert_eq!(measurable_points(5), None);
    for objectives in [7, 9, 12] {
        let most = u32::try_from(measurable_points(objectives).unwrap()).unwrap();
        let is_measured = |points: u32| {
            let points = on_a_plane(points, u32::try_from(objectives).unwrap());
            hypervolume_within(&points, &vec![1.0; objectives], &mut Work::default()).is_some()
        };
        let measured = [is_measured(most), is_measured(4 * most)];
        assert_eq!(measured, [true, false], "{objectives} objectives");
    }
}
