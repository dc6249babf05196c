//! The kernels for matrix products against naive sums, with every instruction set and several
//! threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::matmul::{
    Beta, Epilogue, FORCE_OWN_KERNELS, PACKED_BLOCK, Strides, gemm, matmul, matmul_and_column_sums,
    matmul_concat, matmul_with_bias, matmul_with_epilogue, matmul_with_side_output,
};
use super::super::simd::{MAX_LEVEL, SimdLevel, simd_level};
use super::*;

/// Columns that need two packed blocks for an inner dimension from 512 on: whole panels in both,
/// and a remainder.
const TWO_BLOCKS: usize = PACKED_BLOCK / 512 + 66;

fn numbers(seed: u64, count: usize) -> Vec<f32> {
    Rng::new(seed).normal(count, 1.0)
}

/// The result of `compute` with the kernels of this module, for AVX-512 if the CPU has it and for
/// AVX2, which are equal.
fn own<R: PartialEq + std::fmt::Debug>(compute: impl Fn() -> R) -> R {
    FORCE_OWN_KERNELS.set(Some(true));
    let best = compute();
    MAX_LEVEL.set(SimdLevel::Avx2);
    let other = compute();
    MAX_LEVEL.set(SimdLevel::Avx512);
    FORCE_OWN_KERNELS.set(None);
    assert_eq!(best, other);
    best
}

fn on_threads<R: Send>(threads: usize, compute: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(compute)
}

fn sums(
    [rows, inner, columns]: [usize; 3],
    left: (&[f32], Strides),
    right: (&[f32], Strides),
) -> Vec<f64> {
    let at = |(numbers, strides): (&[f32], Strides), row: usize, column: usize| {
        f64::from(numbers[strides.offset + row * strides.row + column * strides.column])
    };
    let sum = |row: usize, column: usize| {
        (0..inner).map(|i| at(left, row, i) * at(right, i, column)).sum()
    };
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(row, column)| sum(row, column))
        .collect()
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
        for left_strides in [Strides::dense(inner), Strides::dense(rows).transposed()] {
            for right_strides in [Strides::dense(columns), Strides::dense(inner).transposed()] {
                let (sizes, left, right) = (
                    [rows, inner, columns],
                    (&left[..], left_strides),
                    (&right[..], right_strides),
                );
                assert_near(&own(|| matmul(sizes, left, right)), &sums(sizes, left, right), inner);
            }
        }
    }
}

#[test]
fn products_within_wider_matrices_are_scaled_and_added() {
    let ([rows, inner, columns], wide) = ([17, 20, 35], 50);
    let (left, right, before) =
        (numbers(1, rows * wide + 9), numbers(2, inner * wide + 9), numbers(3, rows * wide + 9));
    let (left, right) = ((&left[..], Strides::new(3, wide)), (&right[..], Strides::new(9, wide)));
    for beta in [Beta::Zero, Beta::One] {
        let found = own(|| {
            let mut output = before.clone();
            let strides = Strides::new(5, wide);
            gemm([rows, inner, columns], (&mut output, strides), left, right, 0.5, beta);
            output
        });
        let mut expected: Vec<f64> = before.iter().map(|number| f64::from(*number)).collect();
        for (index, sum) in sums([rows, inner, columns], left, right).into_iter().enumerate() {
            let number = &mut expected[5 + index / columns * wide + index % columns];
            *number = 0.5 * sum + if beta == Beta::One { *number } else { 0.0 };
        }
        assert_near(&found, &expected, inner);
    }
}

#[test]
fn bias_is_added_to_every_row() {
    // Few rows, which the crate multiplies; whole, half and other panels; more than one block each
    // way.
    for [rows, inner, columns] in
        [[3, 9, 20], [13, 30, 33], [13, 30, 8], [5, 7, 64], [14, 1024, TWO_BLOCKS], [7, 513, 300]]
    {
        let (left, right, bias) =
            (numbers(1, rows * inner), numbers(2, inner * columns), numbers(3, columns));
        let (sizes, left) = ([rows, inner, columns], (&left[..], Strides::dense(inner)));
        for strides in [Strides::dense(columns), Strides::dense(inner).transposed()] {
            let mut expected = sums(sizes, left, (&right, strides));
            let pairs = expected.iter_mut().zip(bias.iter().cycle());
            pairs.for_each(|(sum, bias)| *sum += f64::from(*bias));
            let found = own(|| matmul_with_bias(sizes, left, (&right, strides), &bias));
            assert_near(&found, &expected, inner);
        }
    }
}

#[test]
fn column_sums_of_the_right_operand_are_in_the_order_of_its_rows() {
    // Few rows, which the crate multiplies; whole and other panels; more than one block each way.
    for [rows, inner, columns] in [[3, 9, 20], [13, 30, 33], [14, 1024, TWO_BLOCKS], [7, 513, 300]]
    {
        let left = numbers(1, rows * inner);
        let right = numbers(2, inner * (columns + 5));
        for strides in [Strides::new(4, columns + 5), Strides::dense(inner).transposed()] {
            let (left, right) = ((&left[..], Strides::dense(inner)), (&right[..], strides));
            let (found, sums) = own(|| matmul_and_column_sums([rows, inner, columns], left, right));
            assert_eq!(found, own(|| matmul([rows, inner, columns], left, right)));
            let expected: Vec<f32> = (0..columns)
                .map(|column| {
                    (0..inner).fold(0.0, |sum, row| {
                        sum + right.0[strides.offset + row * strides.row + column * strides.column]
                    })
                })
                .collect();
            assert_eq!(sums, expected);
        }
    }
}

#[test]
fn the_epilogue_runs_once_for_every_element_of_the_product() {
    let (sizes, finished) = ([14, 1024, TWO_BLOCKS], AtomicUsize::new(0));
    let (left, right) = (numbers(1, 14 * 1024), numbers(2, 1024 * TWO_BLOCKS));
    let (left, right) =
        ((&left[..], Strides::dense(1024)), (&right[..], Strides::dense(TWO_BLOCKS)));
    let plain = own(|| matmul(sizes, left, right));
    let epilogue: &Epilogue<'_> = &|row, column, numbers, _| {
        finished.fetch_add(numbers.len(), Ordering::Relaxed);
        numbers.iter_mut().zip(column..).for_each(|(number, column)| {
            *number = f32::midpoint(*number, (row * TWO_BLOCKS + column) as f32)
        });
    };
    let expected: Vec<f32> = plain
        .iter()
        .enumerate()
        .map(|(index, number)| f32::midpoint(*number, index as f32))
        .collect();
    assert_eq!(own(|| matmul_with_epilogue(sizes, left, right, &[], &[], epilogue)), expected);
    assert_eq!(finished.into_inner(), 2 * 14 * TWO_BLOCKS);
    let negated: &Epilogue<'_> = &|_, _, numbers, side| {
        side.iter_mut().zip(numbers).for_each(|(side, number)| {
            side.write(-*number);
        });
    };
    // SAFETY: the closure writes all of the side output.
    #[expect(unsafe_code, reason = "the buffer is not zeroed first")]
    let (same, other) =
        own(|| unsafe { matmul_with_side_output(sizes, left, right, &[], negated) });
    assert_eq!(same, plain);
    assert!(other.iter().zip(&plain).all(|(other, number)| *other == -number));
}

#[test]
fn concatenated_products_are_those_one_by_one() {
    let (left, rights) =
        (numbers(1, 14 * 40), [40, 3, 50].map(|columns| numbers(columns, 40 * columns as usize)));
    let left = (&left[..], Strides::dense(40));
    let parts = [(&rights[0], 40), (&rights[1], 3), (&rights[2], 50)]
        .map(|(right, columns)| (&right[..], Strides::dense(columns), columns));
    for bias in [Vec::new(), numbers(4, 93)] {
        let together = own(|| matmul_concat([14, 40], left, parts, &bias));
        let mut first = 0;
        for (right, strides, columns) in parts {
            let bias = bias.get(first..first + columns).unwrap_or(&[]);
            let alone = own(|| matmul_with_bias([14, 40, columns], left, (right, strides), bias));
            for (index, number) in alone.iter().enumerate() {
                let (row, column) = (index / columns, first + index % columns);
                assert_eq!(together[row * 93 + column].to_bits(), number.to_bits());
            }
            first += columns;
        }
    }
}

#[test]
fn any_number_of_threads_computes_the_same_bits() {
    let sizes = [301, 200, 250];
    let (left, right) = (numbers(1, 301 * 200), numbers(2, 200 * 250));
    let (left, right) = ((&left[..], Strides::dense(200)), (&right[..], Strides::dense(250)));
    let epilogue: &Epilogue<'_> = &|row, column, numbers, _| {
        numbers.iter_mut().for_each(|number| *number += (row * 250 + column / 250) as f32)
    };
    let compute = || {
        FORCE_OWN_KERNELS.set(Some(true));
        let product = matmul_with_epilogue(sizes, left, right, &[], &[], epilogue);
        let sums = matmul_and_column_sums(sizes, left, right);
        FORCE_OWN_KERNELS.set(None);
        (product, sums)
    };
    assert_eq!(on_threads(1, compute), on_threads(3, compute));
}

#[test]
fn dropout_in_epilogues_follows_the_mask_across_blocks_and_threads() {
    let ([rows, inner, width], mask) = ([26, 1024, TWO_BLOCKS], DropoutMask::new(5, 0.3));
    let (residual, x, weight, bias) = (
        numbers(1, rows * width),
        numbers(2, rows * inner),
        numbers(3, inner * width),
        numbers(4, width),
    );
    let operation = ResidualLinear { width, dropout: Some(mask) };
    let compute = || operation.forward([&residual, &x, &weight, &bias], GradMode::Disabled).0;
    let (left, right) = ((&x[..], Strides::dense(inner)), (&weight[..], Strides::dense(width)));
    let projected = own(|| matmul_with_bias([rows, inner, width], left, right, &bias));
    let numbers = projected.iter().zip(mask.factors(rows, width)).zip(&residual);
    let expected: Vec<f32> =
        numbers.map(|((value, factor), residual)| residual + value * factor).collect();
    assert_eq!(own(compute), expected);
    for threads in [1, 3] {
        assert_eq!(on_threads(threads, || own(compute)), expected);
    }
}

#[test]
fn an_epilogue_must_not_compute_a_product_and_the_next_product_works() {
    let (left, right) = (numbers(1, 64), numbers(2, 64));
    let (left, right) = ((&left[..], Strides::dense(8)), (&right[..], Strides::dense(8)));
    let epilogue: &Epilogue<'_> = &|_, _, _, _| drop(matmul([8, 8, 8], left, right));
    FORCE_OWN_KERNELS.set(Some(true));
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        matmul_with_epilogue([8, 8, 8], left, right, &[], &[], epilogue)
    }));
    FORCE_OWN_KERNELS.set(None);
    // Only the kernels of this module have a workspace, which two products would share.
    assert_eq!(found.is_err(), simd_level() != SimdLevel::Baseline);
    assert_near(&own(|| matmul([8, 8, 8], left, right)), &sums([8, 8, 8], left, right), 8);
}
