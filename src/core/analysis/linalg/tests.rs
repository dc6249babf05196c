//! Matrices against the same operations one after the other, and against their definitions.

use std::cell::Cell;

use super::*;

thread_local! {
    /// The best level that functions on this thread may use.
    pub(super) static MOST: Cell<SimdLevel> = const { Cell::new(SimdLevel::Avx2) };
}

/// The same row by row, one operation after the other: what studies of earlier versions proposed
/// by, so that every bit counts.
mod plain {
    use super::super::{Matrix, dot};

    fn add_scaled(target: &mut [f64], scale: f64, source: &[f64]) {
        for (target, source) in target.iter_mut().zip(source) {
            *target += scale * source;
        }
    }

    pub fn factor(matrix: &Matrix) -> Matrix {
        let mut factor = Matrix::new(matrix.size);
        for row in 0..matrix.size {
            for column in 0..row {
                let product = dot(&factor.row(row)[..column], &factor.row(column)[..column]);
                let cell = (matrix.row(row)[column] - product) / factor.row(column)[column];
                factor.row_mut(row)[column] = cell;
            }
            let own = &factor.row(row)[..row];
            let square = matrix.row(row)[row] - dot(own, own);
            factor.row_mut(row)[row] = square.sqrt();
        }
        factor
    }

    pub fn solve(factor: &Matrix, vector: &[f64]) -> Vec<f64> {
        let mut solved = vector.to_vec();
        for row in 0..factor.size {
            let own = factor.row(row);
            solved[row] = (solved[row] - dot(&own[..row], &solved[..row])) / own[row];
        }
        solved
    }

    pub fn transposed_solve(factor: &Matrix, vector: &[f64]) -> Vec<f64> {
        let mut solved = vector.to_vec();
        for row in (0..factor.size).rev() {
            solved[row] /= factor.row(row)[row];
            let own = -solved[row];
            add_scaled(&mut solved[..row], own, &factor.row(row)[..row]);
        }
        solved
    }

    pub fn inverse_of_factor(factor: &Matrix) -> Matrix {
        let mut inverse = Matrix::new(factor.size);
        for row in 0..factor.size {
            for column in 0..row {
                let other = inverse.row(column)[..=column].to_vec();
                let scale = -factor.row(row)[column];
                add_scaled(&mut inverse.row_mut(row)[..=column], scale, &other);
            }
            let scale = 1.0 / factor.row(row)[row];
            inverse.row_mut(row)[..row].iter_mut().for_each(|cell| *cell *= scale);
            inverse.row_mut(row)[row] = scale;
        }
        inverse
    }

    pub fn gram(matrix: &Matrix) -> Matrix {
        let mut gram = Matrix::new(matrix.size);
        for row in 0..matrix.size {
            let own = matrix.row(row);
            for target in 0..=row {
                add_scaled(&mut gram.row_mut(target)[..=target], own[target], &own[..=target]);
            }
        }
        gram
    }

    pub fn times(matrix: &Matrix, vector: &[f64]) -> Vec<f64> {
        (0..matrix.size).map(|row| dot(&matrix.row(row)[..=row], &vector[..=row])).collect()
    }

    pub fn transposed_times(matrix: &Matrix, vector: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; matrix.size];
        for (row, scale) in vector.iter().enumerate() {
            add_scaled(&mut product[..=row], *scale, &matrix.row(row)[..=row]);
        }
        product
    }
}

/// The bits of the lower part.
fn lower(matrix: &Matrix) -> Vec<Vec<u64>> {
    (0..matrix.size).map(|row| bits(&matrix.row(row)[..=row])).collect()
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

#[test]
fn every_bit_is_that_of_one_row_after_the_other_at_each_level() {
    for size in (0..20).chain([31, 32, 33, 34, 70]) {
        let number = |seed: usize| (seed as f64 * 0.618_033_988_749).fract() - 0.5;
        let mut matrix = Matrix::new(size);
        for row in 0..size {
            for column in 0..size {
                let distance = row.abs_diff(column) as f64;
                matrix.row_mut(row)[column] =
                    (-0.3 * distance).exp() + 0.01 * number(row * column + row + column);
            }
            matrix.row_mut(row)[row] += 0.5;
        }
        let vector: Vec<f64> = (0..size).map(number).collect();
        let expected = plain::factor(&matrix);
        let inverse = plain::inverse_of_factor(&expected);
        let rows: Vec<Vec<f64>> = (0..size).map(|row| matrix.row(row).to_vec()).collect();
        let mut sums = vec![0.0; size];
        for (row, weight) in rows.iter().zip(&vector) {
            sums.iter_mut().zip(row).for_each(|(sum, cell)| *sum += weight * cell);
        }
        let quotients = vector.iter().zip(&sums).map(|(value, sum)| value * value / sum);
        let largest = quotients.fold(0.0, f64::max);
        for level in [SimdLevel::Baseline, SimdLevel::Avx2, SimdLevel::Avx512] {
            MOST.set(level);
            let factor = matrix.clone().factor().unwrap();
            assert_eq!(lower(&factor), lower(&expected), "{size} {level:?}");
            let inverted = factor.clone().inverse_of_factor();
            assert_eq!(lower(&inverted), lower(&inverse), "{size} {level:?}");
            assert_eq!(lower(&inverse.gram()), lower(&plain::gram(&inverse)), "{size} {level:?}");
            let pairs = [
                (factor.solve(&vector), plain::solve(&expected, &vector)),
                (factor.transposed_solve(&vector), plain::transposed_solve(&expected, &vector)),
                (inverse.times(&vector), plain::times(&inverse, &vector)),
                (inverse.transposed_times(&vector), plain::transposed_times(&inverse, &vector)),
                (dots(&rows, &vector), rows.iter().map(|row| dot(row, &vector)).collect()),
                (weighted_sum(&rows, &vector, size), sums.clone()),
                (vec![largest_quotient(&vector, &sums)], vec![largest]),
            ];
            for (index, (found, expected)) in pairs.iter().enumerate() {
                assert_eq!(bits(found), bits(expected), "{index} of {size} {level:?}");
            }
            for count in 0..6 {
                let shifted = |by| (0..size).map(|index| number(index + by)).collect();
                let vectors: Vec<Vec<f64>> = (0..count).map(shifted).collect();
                let each = |found: Vec<Vec<f64>>, one: fn(&Matrix, &[f64]) -> Vec<f64>| {
                    assert_eq!(found.len(), count);
                    for (found, vector) in found.iter().zip(&vectors) {
                        let expected = one(&inverse, vector);
                        assert_eq!(bits(found), bits(&expected), "{count}, {size} {level:?}");
                    }
                };
                each(inverse.times_each(&vectors), plain::times);
                each(inverse.transposed_times_each(&vectors), plain::transposed_times);
            }
        }
    }
}

fn example() -> Matrix {
    let mut matrix = Matrix::new(7);
    for row in 0..7usize {
        for column in 0..7usize {
            matrix.row_mut(row)[column] = (-0.3 * (row.abs_diff(column) as f64)).exp()
                + if row == column { 0.1 } else { 0.0 };
        }
    }
    matrix
}

#[test]
fn the_inverse_by_way_of_the_factor_inverts() {
    let (matrix, factor) = (example(), example().factor().unwrap());
    let inverse_factor = factor.clone().inverse_of_factor();
    let inverse = inverse_factor.gram();
    for row in 0..7 {
        for column in 0..7 {
            let cell = |index: usize| {
                if index <= row { inverse.row(row)[index] } else { inverse.row(index)[row] }
            };
            let product: f64 = (0..7).map(|index| cell(index) * matrix.row(index)[column]).sum();
            assert!((product - if row == column { 1.0 } else { 0.0 }).abs() < 1e-10);
        }
    }
    let vector: Vec<f64> = (0..7).map(f64::from).collect();
    let solved = inverse_factor.transposed_times(&inverse_factor.times(&vector));
    assert!((dot(matrix.row(3), &solved) - 3.0).abs() < 1e-10);
    let substituted = factor.transposed_solve(&factor.solve(&vector));
    assert!(solved.iter().zip(&substituted).all(|(a, b)| (a - b).abs() < 1e-10));
}

#[test]
fn what_is_not_positive_definite_has_no_factor() {
    let mut matrix = example();
    matrix.row_mut(2)[2] = -1.0;
    assert!(matrix.factor().is_none());
}
