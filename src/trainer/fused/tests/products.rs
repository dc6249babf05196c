//! The room's own loops for matrix products against sums one by one, on every processor and by several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::lanes::{Instance, MOST, widest};
use super::super::products::{
    BLOCK, Finish, Landing, OWN, Place, new_finished_map, new_map, new_map_and_more, new_product, new_product_and_sums, product, side_by_side,
};
use super::*;

/// Columns of which the loops pack two blocks where there are 512 inner numbers or more: whole panels in both, and a rest.
const TWO_BLOCKS: usize = BLOCK / 512 + 66;

fn numbers(seed: u64, count: usize) -> Vec<f32> {
    Dice::new(seed).normal(count, 1.0)
}

/// What loops of this room make of `compute`, with AVX-512 if there is, and the same with AVX2: both are one.
fn own<R: PartialEq + std::fmt::Debug>(compute: impl Fn() -> R) -> R {
    OWN.set(Some(true));
    let best = compute();
    MOST.set(Instance::Avx2);
    let other = compute();
    MOST.set(Instance::Avx512);
    OWN.set(None);
    assert_eq!(best, other);
    best
}

fn sums([rows, inner, columns]: [usize; 3], left: (&[f32], Place), right: (&[f32], Place)) -> Vec<f64> {
    let at = |(numbers, place): (&[f32], Place), row: usize, column: usize| f64::from(numbers[place.start + row * place.row + column * place.column]);
    let sum = |row: usize, column: usize| (0..inner).map(|i| at(left, row, i) * at(right, i, column)).sum();
    (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))).map(|(row, column)| sum(row, column)).collect()
}

fn assert_near(found: &[f32], expected: &[f64], inner: usize) {
    #[expect(clippy::cast_precision_loss, reason = "a size")]
    let tolerance = 1e-6 * (inner as f64 + 1.0);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < tolerance, "{found} {expected}");
    }
}

#[test]
fn products_of_any_sizes_and_strides_are_sums_of_products() {
    for [rows, inner, columns] in [
        [5, 1, 1],
        [6, 3, 17],
        [12, 8, 32],
        [13, 30, 33],
        [29, 7, 64],
        [7, 1025, 40],
        [31, 513, 5],
        [24, 100, 300],
        [29, 1024, 40],
        [1024, 30, 33],
        [7, 1024, TWO_BLOCKS],
    ] {
        let (left, right) = (numbers(1, rows * inner), numbers(2, inner * columns));
        for left_place in [Place::dense(inner), Place::dense(rows).transposed()] {
            for right_place in [Place::dense(columns), Place::dense(inner).transposed()] {
                let (sizes, left, right) = ([rows, inner, columns], (&left[..], left_place), (&right[..], right_place));
                assert_near(&own(|| new_product(sizes, left, right)), &sums(sizes, left, right), inner);
            }
        }
    }
}

#[test]
fn products_within_wider_matrices_are_scaled_and_added() {
    let ([rows, inner, columns], wide) = ([17, 20, 35], 50);
    let (left, right, before) = (numbers(1, rows * wide + 9), numbers(2, inner * wide + 9), numbers(3, rows * wide + 9));
    let (left, right) = ((&left[..], Place::new(3, wide)), (&right[..], Place::new(9, wide)));
    for landing in [Landing::Replace, Landing::Add] {
        let found = own(|| {
            let mut output = before.clone();
            product([rows, inner, columns], (&mut output, Place::new(5, wide)), left, right, 0.5, landing);
            output
        });
        let mut expected: Vec<f64> = before.iter().map(|number| f64::from(*number)).collect();
        for (place, sum) in sums([rows, inner, columns], left, right).into_iter().enumerate() {
            let number = &mut expected[5 + place / columns * wide + place % columns];
            *number = 0.5 * sum + if landing == Landing::Add { *number } else { 0.0 };
        }
        assert_near(&found, &expected, inner);
    }
}

#[test]
fn rows_start_with_the_numbers_they_are_told() {
    // Few rows, which the other crate multiplies; whole panels and others, halves of them too; more than one block each way.
    for [rows, inner, columns] in [[3, 9, 20], [13, 30, 33], [13, 30, 8], [5, 7, 64], [14, 1024, TWO_BLOCKS], [7, 513, 300]] {
        let (left, right, start) = (numbers(1, rows * inner), numbers(2, inner * columns), numbers(3, columns));
        let (sizes, left) = ([rows, inner, columns], (&left[..], Place::dense(inner)));
        for place in [Place::dense(columns), Place::dense(inner).transposed()] {
            let mut expected = sums(sizes, left, (&right, place));
            expected.iter_mut().zip(start.iter().cycle()).for_each(|(sum, start)| *sum += f64::from(*start));
            assert_near(&own(|| new_map(sizes, left, (&right, place), &start)), &expected, inner);
        }
    }
}

#[test]
fn columns_of_the_right_factor_are_added_up_row_by_row_on_the_way() {
    // Few rows, which the other crate multiplies; whole panels and others; more than one block each way.
    for [rows, inner, columns] in [[3, 9, 20], [13, 30, 33], [14, 1024, TWO_BLOCKS], [7, 513, 300]] {
        let left = numbers(1, rows * inner);
        let right = numbers(2, inner * (columns + 5));
        for place in [Place::new(4, columns + 5), Place::dense(inner).transposed()] {
            let (left, right) = ((&left[..], Place::dense(inner)), (&right[..], place));
            let (found, sums) = own(|| new_product_and_sums([rows, inner, columns], left, right));
            assert_eq!(found, own(|| new_product([rows, inner, columns], left, right)));
            let expected: Vec<f32> = (0..columns)
                .map(|column| (0..inner).fold(0.0, |sum, row| sum + right.0[place.start + row * place.row + column * place.column]))
                .collect();
            assert_eq!(sums, expected);
        }
    }
}

#[test]
fn every_row_is_finished_once_when_its_numbers_are_there() {
    let (sizes, finished) = ([14, 1024, TWO_BLOCKS], AtomicUsize::new(0));
    let (left, right) = (numbers(1, 14 * 1024), numbers(2, 1024 * TWO_BLOCKS));
    let (left, right) = ((&left[..], Place::dense(1024)), (&right[..], Place::dense(TWO_BLOCKS)));
    let plain = own(|| new_product(sizes, left, right));
    let finish: &Finish<'_> = &|row, column, numbers, _| {
        finished.fetch_add(numbers.len(), Ordering::Relaxed);
        numbers.iter_mut().zip(column..).for_each(|(number, column)| *number = f32::midpoint(*number, (row * TWO_BLOCKS + column) as f32));
    };
    let expected: Vec<f32> = plain.iter().enumerate().map(|(place, number)| f32::midpoint(*number, place as f32)).collect();
    assert_eq!(own(|| new_finished_map(sizes, left, right, &[], &[], finish)), expected);
    assert_eq!(finished.into_inner(), 2 * 14 * TWO_BLOCKS);
    let negated: &Finish<'_> = &|_, _, numbers, room| {
        room.iter_mut().zip(numbers).for_each(|(room, number)| {
            room.write(-*number);
        });
    };
    // SAFETY: the closure writes all of the room.
    #[expect(unsafe_code, reason = "as said")]
    let (same, other) = own(|| unsafe { new_map_and_more(sizes, left, right, &[], negated) });
    assert_eq!(same, plain);
    assert!(other.iter().zip(&plain).all(|(other, number)| *other == -number));
}

#[test]
fn factors_side_by_side_are_multiplied_one_by_one() {
    let (left, rights) = (numbers(1, 14 * 40), [40, 3, 50].map(|columns| numbers(columns, 40 * columns as usize)));
    let left = (&left[..], Place::dense(40));
    let parts = [(&rights[0], 40), (&rights[1], 3), (&rights[2], 50)].map(|(right, columns)| (&right[..], Place::dense(columns), columns));
    for start in [Vec::new(), numbers(4, 93)] {
        let together = own(|| side_by_side([14, 40], left, parts, &start));
        let mut first = 0;
        for (right, place, columns) in parts {
            let start = start.get(first..first + columns).unwrap_or(&[]);
            let alone = own(|| new_map([14, 40, columns], left, (right, place), start));
            for (place, number) in alone.iter().enumerate() {
                let (row, column) = (place / columns, first + place % columns);
                assert_eq!(together[row * 93 + column].to_bits(), number.to_bits());
            }
            first += columns;
        }
    }
}

#[test]
fn any_number_of_threads_computes_the_same_numbers() {
    let sizes = [301, 200, 250];
    let (left, right) = (numbers(1, 301 * 200), numbers(2, 200 * 250));
    let compute = || {
        OWN.set(Some(true));
        let found = new_finished_map(sizes, (&left, Place::dense(200)), (&right, Place::dense(250)), &[], &[], &|row, column, numbers, _| {
            numbers.iter_mut().for_each(|number| *number += (row * 250 + column / 250) as f32)
        });
        OWN.set(None);
        found
    };
    let sums = || {
        OWN.set(Some(true));
        let found = new_product_and_sums(sizes, (&left, Place::dense(200)), (&right, Place::dense(250)));
        OWN.set(None);
        found
    };
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    assert_eq!(pool(1).install(compute), pool(3).install(compute));
    assert_eq!(pool(1).install(sums), pool(3).install(sums));
}

#[test]
fn parts_of_rows_and_rows_of_other_threads_are_dropped_where_the_mask_says() {
    let ([rows, inner, width], mask) = ([26, 1024, TWO_BLOCKS], Mask::new(5, 0.3));
    let (residual, x, weight, bias) = (numbers(1, rows * width), numbers(2, rows * inner), numbers(3, inner * width), numbers(4, width));
    let operation = ResidualLinear { width, dropout: Some(mask) };
    let compute = || operation.forward([&residual, &x, &weight, &bias], Purpose::Output).0;
    let map = own(|| new_map([rows, inner, width], (&x, Place::dense(inner)), (&weight, Place::dense(width)), &bias));
    let numbers = map.iter().zip(mask.numbers(rows, width)).zip(&residual);
    let expected: Vec<f32> = numbers.map(|((mapped, factor), residual)| residual + mapped * factor).collect();
    assert_eq!(own(compute), expected);
    for threads in [1, 3] {
        let found = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| own(compute));
        assert_eq!(found, expected);
    }
}

#[test]
fn what_finishes_a_row_may_not_compute_a_product_and_the_next_one_is_computed() {
    let (left, right) = (numbers(1, 64), numbers(2, 64));
    let (left, right) = ((&left[..], Place::dense(8)), (&right[..], Place::dense(8)));
    let finish: &Finish<'_> = &|_, _, _, _| drop(new_product([8, 8, 8], left, right));
    OWN.set(Some(true));
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| new_finished_map([8, 8, 8], left, right, &[], &[], finish)));
    OWN.set(None);
    // Only the loops of this room have a room that two would share.
    assert_eq!(found.is_err(), widest() != Instance::Plain);
    assert_near(&own(|| new_product([8, 8, 8], left, right)), &sums([8, 8, 8], left, right), 8);
}
