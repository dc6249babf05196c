//! Statistical tests of the hash behind dropout: rates, independence of neighbours within and
//! across rows, and of sites, steps and seeds; in short rows, in rows as wide as those of models,
//! and in one long row.
//!
//! Each statistic is measured in standard deviations of independent draws. With the thousand
//! statistics here, all fixed by their keys, 4.5 is very unlikely by chance.

use super::super::super::rng::key;
use super::*;

const LEN: usize = 1 << 18;
const MOST: f64 = 4.5;

const WIDTHS: [usize; 4] = [13, 64, 384, LEN];

/// Which of `LEN` elements are dropped, in rows of `width`.
fn dropped(key: u64, rate: f64, width: usize) -> Vec<bool> {
    DropoutMask::new(key, rate).factors(LEN.div_ceil(width), width)[..LEN]
        .iter()
        .map(|factor| *factor == 0.0)
        .collect()
}

/// How many standard deviations `count` of `draws` lies from a chance of `share`.
fn deviations(count: usize, draws: usize, share: f64) -> f64 {
    let (count, draws) = (count as f64, draws as f64);
    (count - draws * share) / (draws * share * (1.0 - share)).sqrt()
}

fn both<'a>(
    one: impl IntoIterator<Item = &'a bool>,
    other: impl IntoIterator<Item = &'a bool>,
) -> usize {
    one.into_iter().zip(other).filter(|(one, other)| **one && **other).count()
}

#[test]
fn the_dropped_fraction_is_the_rate_and_the_mean_stays() {
    for rate in [0.01, 0.1, 0.3, 0.5, 0.9] {
        for site in 0..16 {
            for width in WIDTHS {
                let mask = dropped(key(1, "dropout", &[2, 3, site]), rate, width);
                let off = deviations(mask.iter().filter(|dropped| **dropped).count(), LEN, rate);
                assert!(off.abs() < MOST, "{rate} {site} {width}: {off}");
            }
        }
    }
    let sum: f64 = DropoutMask::new(7, 0.1)
        .factors(LEN / 64, 64)
        .iter()
        .map(|factor| f64::from(*factor))
        .sum();
    assert!((sum / LEN as f64 - 1.0).abs() < 0.003);
}

#[test]
fn neighbours_at_any_distance_are_independent() {
    let rate = 0.1;
    for width in WIDTHS {
        let mask = dropped(key(5, "dropout", &[1, 0, 2]), rate, width);
        for distance in (1..=64)
            .chain([100, 128, 255, 256, 257, 383, 384, 385, 512, 1_000, 1_024, 4_096, 65_536])
        {
            let off = deviations(both(&mask[distance..], &mask), LEN - distance, rate * rate);
            assert!(off.abs() < MOST, "{width} {distance}: {off}");
        }
    }
}

#[test]
fn the_numbers_dropped_among_sixteen_are_binomial() {
    let rate = 0.5;
    for width in WIDTHS {
        let mask = dropped(key(6, "dropout", &[4]), rate, width);
        // Side by side, and one above another.
        for apart in [1, width].into_iter().filter(|apart| *apart < LEN) {
            let groups: Vec<_> =
                (0..LEN - 15 * apart).filter(|first| first / apart % 16 == 0).collect();
            let mut counts = [0_usize; 17];
            for first in &groups {
                counts[(0..16).filter(|index| mask[first + index * apart]).count()] += 1;
            }
            let mut share = 0.5_f64.powi(16);
            for (number, count) in counts.into_iter().enumerate() {
                if share * groups.len() as f64 > 10.0 {
                    let off = deviations(count, groups.len(), share);
                    assert!(off.abs() < MOST, "{width} {apart} {number}: {off}");
                }
                share *= (16 - number) as f64 / (number + 1) as f64;
            }
        }
    }
}

#[test]
fn every_element_is_dropped_equally_often_over_many_steps() {
    let (rate, steps, elements) = (0.1, 2_000, 256);
    let mut counts = vec![0; elements];
    for step in 0..steps {
        let mask =
            DropoutMask::new(key(9, "dropout", &[step, 0, 1]), rate).factors(elements / 16, 16);
        counts
            .iter_mut()
            .zip(mask)
            .for_each(|(count, factor)| *count += usize::from(factor == 0.0));
    }
    for (element, count) in counts.into_iter().enumerate() {
        let off = deviations(count, usize::try_from(steps).unwrap(), rate);
        assert!(off.abs() < MOST, "{element}: {off}");
    }
}

#[test]
fn sites_steps_micro_batches_and_seeds_are_independent() {
    let rate = 0.3;
    for width in WIDTHS {
        let first = dropped(key(1, "dropout", &[10, 0, 3]), rate, width);
        let others = [
            key(1, "dropout", &[10, 0, 4]),
            key(1, "dropout", &[10, 1, 3]),
            key(1, "dropout", &[11, 0, 3]),
            key(2, "dropout", &[10, 0, 3]),
            key(1, "dropout", &[10, 0, 3]) ^ (1 << 32),
            key(1, "dropout", &[10, 0, 3]).wrapping_add(1 << 63),
        ];
        for (number, other) in others.into_iter().enumerate() {
            let other = dropped(other, rate, width);
            for shift in [0, 1, 2, 16, 17, 64, 384, 4_096] {
                let off = deviations(both(&first[shift..], &other), LEN - shift, rate * rate);
                assert!(off.abs() < MOST, "{width} {number} {shift}: {off}");
                let off = deviations(both(&other[shift..], &first), LEN - shift, rate * rate);
                assert!(off.abs() < MOST, "{width} {number} -{shift}: {off}");
            }
        }
    }
}

#[test]
fn a_mask_is_a_function_of_its_key() {
    assert_eq!(
        DropoutMask::new(3, 0.5).factors(10, 100),
        DropoutMask::new(3, 0.5).factors(10, 100)
    );
    assert_ne!(
        DropoutMask::new(3, 0.5).factors(10, 100),
        DropoutMask::new(4, 0.5).factors(10, 100)
    );
}
