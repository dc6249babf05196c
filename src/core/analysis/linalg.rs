//! Symmetric positive definite matrices of a few hundred rows: Cholesky factor, its inverse,
//! products.

use crate::simd::{SimdLevel, simd_level as best_level, vectorised};

/// How many elements a sum of products takes at a time: it has as many partial sums.
const LANES: usize = 4;
/// How many rows are worked on together, so that what one waits for the others use.
const ROWS: usize = 4;

/// AVX-512 gains nothing here.
fn simd_level() -> SimdLevel {
    #[cfg(not(test))]
    let most = SimdLevel::Avx2;
    #[cfg(test)]
    let most = tests::MOST.get();
    best_level().min(most)
}

/// A square matrix in row-major order; the upper part of a triangular one is unused.
#[derive(Clone, Debug)]
pub struct Matrix {
    size: usize,
    cells: Vec<f64>,
}

impl Matrix {
    /// A zero matrix.
    pub fn new(size: usize) -> Self {
        Matrix { size, cells: vec![0.0; size * size] }
    }

    /// A row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.cells[row * self.size..(row + 1) * self.size]
    }

    /// A mutable row.
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.cells[row * self.size..(row + 1) * self.size]
    }

    /// The Cholesky factor: lower triangular `L` with `L L^T` = the matrix, of which only the lower
    /// part is read; `None` if it is not positive definite. In place, as pages of new memory take
    /// as long as a tenth of it.
    pub fn factor(self) -> Option<Matrix> {
        factor(self)
    }

    /// `L^-1 v` of a lower triangular `L`.
    pub fn solve(&self, vector: &[f64]) -> Vec<f64> {
        solve(self, vector)
    }

    /// `L^-T v` of a lower triangular `L`.
    pub fn transposed_solve(&self, vector: &[f64]) -> Vec<f64> {
        transposed_solve(self, vector)
    }

    /// The inverse of a lower triangular matrix, in place.
    pub fn inverse_of_factor(self) -> Matrix {
        inverse_of_factor(self)
    }

    /// The lower part of `M^T M` for a lower triangular `M`: the inverse of a matrix, if `M` is
    /// that of its factor.
    pub fn gram(&self) -> Matrix {
        gram(self)
    }

    /// `M v` of a lower triangular `M`.
    pub fn times(&self, vector: &[f64]) -> Vec<f64> {
        times(self, vector)
    }

    /// The same of several vectors, which takes less time than one after the other.
    pub fn times_each(&self, vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        times_each(self, vectors)
    }

    /// The squared norm of `M v` for a lower triangular `M`.
    pub fn square_of_product(&self, vector: &[f64]) -> f64 {
        self.times(vector).iter().map(|product| product * product).sum()
    }

    /// `M^T v` of a lower triangular `M`.
    pub fn transposed_times(&self, vector: &[f64]) -> Vec<f64> {
        transposed_times(self, vector)
    }

    /// The same of several vectors, which takes less time than one after the other.
    pub fn transposed_times_each(&self, vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        transposed_times_each(self, vectors)
    }
}

/// The dot product, in four independent sums for instruction-level parallelism.
#[inline(always)]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    continued([0.0; LANES], a, b)
}

vectorised! {
    /// Dot products of several slices with one of their length, each the same as [`dot`]'s.
    pub fn dots(rows: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
        let mut products = Vec::with_capacity(rows.len());
        let whole = vector.len() / LANES;
        let from = whole * LANES;
        let (fours, rest) = rows.as_chunks::<ROWS>();
        for rows in fours {
            let sums = four_by_one(rows.each_ref().map(|row| &row[..]), vector, whole);
            let last = |(row, sums): (&Vec<f64>, _)| continued(sums, &row[from..], &vector[from..]);
            products.extend(rows.iter().zip(sums).map(last));
        }
        products.extend(rest.iter().map(|row| dot(row, vector)));
        products
    }
}

vectorised! {
    /// The largest square of a value divided by its positive divisor; 0 of none.
    pub fn largest_quotient(values: &[f64], divisors: &[f64]) -> f64 {
        let (values, last_values) = values.as_chunks::<{ 2 * LANES }>();
        let (divisors, last) = divisors.as_chunks::<{ 2 * LANES }>();
        let mut most = [0.0; 2 * LANES];
        for (values, divisors) in values.iter().zip(divisors) {
            for lane in 0..2 * LANES {
                let quotient = values[lane] * values[lane] / divisors[lane];
                most[lane] = if quotient > most[lane] { quotient } else { most[lane] };
            }
        }
        let rest = last_values.iter().zip(last).map(|(value, divisor)| value * value / divisor);
        rest.chain(most).fold(0.0, f64::max)
    }
}

vectorised! {
    /// The sum of slices of this length, each times its weight, one after the other.
    pub fn weighted_sum(rows: &[Vec<f64>], weights: &[f64], len: usize) -> Vec<f64> {
        let mut sums = vec![0.0; len];
        for (row, weight) in rows.iter().zip(weights) {
            add_scaled(&mut sums, *weight, row);
        }
        sums
    }
}

vectorised! {
    fn factor(matrix: Matrix) -> Option<Matrix> {
        let mut factor = matrix;
        let size = factor.size;
        for first in (0..size).step_by(ROWS) {
            let count = ROWS.min(size - first);
            let (above, own) = factor.cells.split_at_mut(first * size);
            let above = |row: usize| &above[row * size..(row + 1) * size];
            for column in (0..first).step_by(2) {
                // Of the elements before the last whole lanes, nothing waits for the column before.
                let whole = column / LANES;
                let rows = [0, 1, 2, 3].map(|row: usize| {
                    let row = row.min(count - 1);
                    &own[row * size..(row + 1) * size]
                });
                let sums = four_by_two(rows, [above(column), above(column + 1)], whole);
                for (row, sums) in (0..count).zip(sums) {
                    let own = &mut own[row * size..(row + 1) * size];
                    for (column, sums) in (column..).zip(sums) {
                        let (other, from) = (above(column), whole * LANES);
                        let product = continued(sums, &own[from..column], &other[from..column]);
                        own[column] = (own[column] - product) / other[column];
                    }
                }
            }
            for row in first..first + count {
                let (above, own) = own.split_at_mut((row - first) * size);
                let own = &mut own[..size];
                for (column, other) in (first..).zip(above.chunks_exact(size)) {
                    let product = dot(&own[..column], &other[..column]);
                    own[column] = (own[column] - product) / other[column];
                }
                let square = own[row] - dot(&own[..row], &own[..row]);
                if square.is_nan() || square <= 0.0 {
                    return None;
                }
                own[row] = square.sqrt();
            }
        }
        Some(factor)
    }
}

vectorised! {
    fn solve(factor: &Matrix, vector: &[f64]) -> Vec<f64> {
        let mut solved = vector.to_vec();
        for first in (0..factor.size).step_by(ROWS) {
            let sums = rows_times(factor, first, &solved);
            for (row, sums) in (first..factor.size).zip(sums) {
                let own = factor.row(row);
                let product = continued(sums, &own[first..row], &solved[first..row]);
                solved[row] = (solved[row] - product) / own[row];
            }
        }
        solved
    }
}

vectorised! {
    fn transposed_solve(factor: &Matrix, vector: &[f64]) -> Vec<f64> {
        let mut solved = vector.to_vec();
        for first in (0..factor.size).step_by(ROWS).rev() {
            let end = factor.size.min(first + ROWS);
            for row in (first..end).rev() {
                let factors = factor.row(row);
                let own = solved[row] / factors[row];
                solved[row] = own;
                for column in (first..row).rev() {
                    solved[column] += -own * factors[column];
                }
            }
            let (before, own) = solved[..end].split_at_mut(first);
            let factors = |row: usize| &factor.row(first + row)[..first];
            // From the last row up, as one after the other would be.
            if let [a, b, c, d] = own {
                add([-*d, -*c, -*b, -*a], before, [3, 2, 1, 0].map(factors));
            } else {
                for (row, own) in own.iter().enumerate().rev() {
                    add_scaled(before, -own, factors(row));
                }
            }
        }
        solved
    }
}

vectorised! {
    fn inverse_of_factor(factor: Matrix) -> Matrix {
        let mut inverse = factor;
        let size = inverse.size;
        for first in (0..size).step_by(ROWS) {
            let end = size.min(first + ROWS);
            let (above, own) = inverse.cells.split_at_mut(first * size);
            let own = &mut own[..(end - first) * size];
            let factors = own.to_vec();
            own.fill(0.0);
            for block in (0..first).step_by(ROWS) {
                for (factors, own) in factors.chunks_exact(size).zip(own.chunks_exact_mut(size)) {
                    let scales = [0, 1, 2, 3].map(|index| -factors[block + index]);
                    add_rows(own, scales, above, block);
                }
            }
            for (row, factors) in (first..end).zip(factors.chunks_exact(size)) {
                let (above, own) = own.split_at_mut((row - first) * size);
                let own = &mut own[..size];
                for (column, other) in (first..).zip(above.chunks_exact(size)) {
                    let (before, after) = own[..=column].split_at_mut(first);
                    add([-factors[column]], before, [&other[..first]]);
                    for (cell, other) in after.iter_mut().zip(&other[first..]) {
                        *cell += -factors[column] * other;
                    }
                }
                let scale = 1.0 / factors[row];
                own[..row].iter_mut().for_each(|cell| *cell *= scale);
                own[row] = scale;
            }
        }
        inverse
    }
}

vectorised! {
    fn gram(matrix: &Matrix) -> Matrix {
        let size = matrix.size;
        let mut gram = Matrix::new(size);
        for first in (0..size).step_by(ROWS) {
            let end = size.min(first + ROWS);
            let mut shared = 0;
            if end == first + ROWS {
                shared = first;
                for target in 0..first {
                    // Whole lanes, a few cells of the unused part with them.
                    let count = (target / LANES + 1) * LANES;
                    let rows = [0, 1, 2, 3].map(|row| &matrix.row(first + row)[..count]);
                    let scales = rows.map(|row| row[target]);
                    add(scales, &mut gram.row_mut(target)[..count], rows);
                }
            }
            for row in first..end {
                let own = matrix.row(row);
                for target in shared..=row {
                    add_scaled(&mut gram.row_mut(target)[..=target], own[target], &own[..=target]);
                }
            }
        }
        gram
    }
}

vectorised! {
    fn times(matrix: &Matrix, vector: &[f64]) -> Vec<f64> {
        let mut products = Vec::with_capacity(matrix.size);
        for first in (0..matrix.size).step_by(ROWS) {
            let sums = rows_times(matrix, first, vector);
            push_rows(&mut products, matrix, first, vector, sums);
        }
        products
    }
}

vectorised! {
    fn times_each(matrix: &Matrix, vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut products = vec![Vec::with_capacity(matrix.size); vectors.len()];
        for first in (0..matrix.size).step_by(ROWS) {
            let rows = rows(matrix, first);
            let (pairs, rest) = vectors.as_chunks::<2>();
            let (products_of_pairs, products_of_rest) = products.as_chunks_mut::<2>();
            for ([a, b], products) in pairs.iter().zip(products_of_pairs) {
                let sums = four_by_two(rows, [a, b], first / LANES);
                push_rows(&mut products[0], matrix, first, a, sums.map(|[of_a, _]| of_a));
                push_rows(&mut products[1], matrix, first, b, sums.map(|[_, of_b]| of_b));
            }
            for (vector, products) in rest.iter().zip(products_of_rest) {
                let sums = four_by_one(rows, vector, first / LANES);
                push_rows(products, matrix, first, vector, sums);
            }
        }
        products
    }
}

vectorised! {
    fn transposed_times(matrix: &Matrix, vector: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; matrix.size];
        let (fours, rest) = vector.as_chunks::<ROWS>();
        for (block, scales) in fours.iter().enumerate() {
            add_rows(&mut product, *scales, &matrix.cells, block * ROWS);
        }
        for (row, scale) in (fours.len() * ROWS..).zip(rest) {
            add_scaled(&mut product[..=row], *scale, &matrix.row(row)[..=row]);
        }
        product
    }
}

vectorised! {
    fn transposed_times_each(matrix: &Matrix, vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let size = matrix.size;
        let mut products = vec![vec![0.0; size]; vectors.len()];
        let whole = size / ROWS * ROWS;
        for first in (0..whole).step_by(ROWS) {
            for (vector, product) in vectors.iter().zip(&mut products) {
                let scales = [0, 1, 2, 3].map(|row| vector[first + row]);
                add_rows(product, scales, &matrix.cells, first);
            }
        }
        for row in whole..size {
            for (vector, product) in vectors.iter().zip(&mut products) {
                add_scaled(&mut product[..=row], vector[row], &matrix.row(row)[..=row]);
            }
        }
        products
    }
}

/// Partial sums of the products of the rows from `first` (a multiple of four) on with `vector`, of
/// the elements before `first`.
#[inline(always)]
fn rows_times(matrix: &Matrix, first: usize, vector: &[f64]) -> [[f64; LANES]; ROWS] {
    four_by_one(rows(matrix, first), vector, first / LANES)
}

/// The rows from `first` on; beyond the last, that one.
#[inline(always)]
fn rows(matrix: &Matrix, first: usize) -> [&[f64]; ROWS] {
    let last = matrix.size - 1;
    [0, 1, 2, 3].map(|row| matrix.row(last.min(first + row)))
}

/// The products of the rows of a lower triangular matrix from `first` on with `vector`, given their
/// partial sums of the elements before `first`.
#[inline(always)]
fn push_rows(
    products: &mut Vec<f64>,
    matrix: &Matrix,
    first: usize,
    vector: &[f64],
    sums: [[f64; LANES]; ROWS],
) {
    if first + ROWS <= matrix.size {
        let [a, b, c, d] = rows(matrix, first).map(|row| block(row, first));
        let [e, f, g, h] = block(vector, first);
        let [of_a, of_b, of_c, mut of_d] = sums;
        add_products(&mut of_d, &d, &[e, f, g, h]);
        products.extend([
            whole(of_a) + a[0] * e,
            whole(of_b) + (b[0] * e + b[1] * f),
            whole(of_c) + (c[0] * e + c[1] * f + c[2] * g),
            whole(of_d),
        ]);
        return;
    }
    for (row, sums) in (first..matrix.size).zip(sums) {
        let own = matrix.row(row);
        products.push(continued(sums, &own[first..=row], &vector[first..=row]));
    }
}

/// The elements of a row's own block.
#[inline(always)]
fn block(row: &[f64], first: usize) -> [f64; LANES] {
    *row[first..].first_chunk().expect("a whole block")
}

/// The sum of partial sums.
#[inline(always)]
fn whole(sums: [f64; LANES]) -> f64 {
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// Partial sums of the products of each row with `other`, of their first lanes.
#[inline(always)]
fn four_by_one(rows: [&[f64]; ROWS], other: &[f64], whole: usize) -> [[f64; LANES]; ROWS] {
    let [a, b, c, d] = rows.map(|row| lanes(row, whole));
    let other = lanes(other, whole);
    // Variables, since an array is kept in memory.
    let (mut ae, mut be) = ([0.0; LANES], [0.0; LANES]);
    let (mut ce, mut de) = ([0.0; LANES], [0.0; LANES]);
    for ((((a, b), c), d), e) in a.iter().zip(b).zip(c).zip(d).zip(other) {
        add_products(&mut ae, a, e);
        add_products(&mut be, b, e);
        add_products(&mut ce, c, e);
        add_products(&mut de, d, e);
    }
    [ae, be, ce, de]
}

/// The same of two others.
#[inline(always)]
fn four_by_two(
    rows: [&[f64]; ROWS],
    others: [&[f64]; 2],
    whole: usize,
) -> [[[f64; LANES]; 2]; ROWS] {
    let [a, b, c, d] = rows.map(|row| lanes(row, whole));
    let [e, f] = others.map(|row| lanes(row, whole));
    let (mut ae, mut be) = ([0.0; LANES], [0.0; LANES]);
    let (mut ce, mut de) = ([0.0; LANES], [0.0; LANES]);
    let (mut af, mut bf) = ([0.0; LANES], [0.0; LANES]);
    let (mut cf, mut df) = ([0.0; LANES], [0.0; LANES]);
    for (((((a, b), c), d), e), f) in a.iter().zip(b).zip(c).zip(d).zip(e).zip(f) {
        add_products(&mut ae, a, e);
        add_products(&mut af, a, f);
        add_products(&mut be, b, e);
        add_products(&mut bf, b, f);
        add_products(&mut ce, c, e);
        add_products(&mut cf, c, f);
        add_products(&mut de, d, e);
        add_products(&mut df, d, f);
    }
    [[ae, af], [be, bf], [ce, cf], [de, df]]
}

#[inline(always)]
fn lanes(row: &[f64], whole: usize) -> &[[f64; LANES]] {
    &row.as_chunks().0[..whole]
}

/// The dot product of slices, of whose elements before `a` and `b` these are the partial sums.
#[inline(always)]
fn continued(mut sums: [f64; LANES], a: &[f64], b: &[f64]) -> f64 {
    let ((whole_a, rest_a), (whole_b, rest_b)) = (a.as_chunks(), b.as_chunks());
    for (a, b) in whole_a.iter().zip(whole_b) {
        add_products(&mut sums, a, b);
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    whole(sums) + rest
}

#[inline(always)]
fn add_products(sums: &mut [f64; LANES], a: &[f64; LANES], b: &[f64; LANES]) {
    sums[0] += a[0] * b[0];
    sums[1] += a[1] * b[1];
    sums[2] += a[2] * b[2];
    sums[3] += a[3] * b[3];
}

/// Adds to `target` four rows of a lower triangular matrix of its size, from `first` (a multiple of
/// four) on, each times its scale.
#[inline(always)]
fn add_rows(target: &mut [f64], scales: [f64; ROWS], cells: &[f64], first: usize) {
    let size = target.len();
    let rows = [0, 1, 2, 3].map(|row| &cells[(first + row) * size..(first + row + 1) * size]);
    let (before, own) = target.split_at_mut(first);
    add(scales, before, rows.map(|row| &row[..first]));
    let own = &mut own[..ROWS];
    let [a, b, c, d] = rows.map(|row| &row[first..first + ROWS]);
    let [of_a, of_b, of_c, of_d] = scales;
    own[0] = own[0] + of_a * a[0] + of_b * b[0] + of_c * c[0] + of_d * d[0];
    own[1] = own[1] + of_b * b[1] + of_c * c[1] + of_d * d[1];
    own[2] = own[2] + of_c * c[2] + of_d * d[2];
    own[3] += of_d * d[3];
}

/// Adds slices of whole lanes, each times its scale, one after the other.
#[inline(always)]
fn add<const N: usize>(scales: [f64; N], target: &mut [f64], sources: [&[f64]; N]) {
    let (targets, rest) = target.as_chunks_mut::<LANES>();
    debug_assert!(rest.is_empty(), "whole lanes");
    let sources = sources.map(|source| lanes(source, targets.len()));
    for (index, target) in targets.iter_mut().enumerate() {
        // Written once, when all is read: what is written could be what is read next.
        let mut sums = *target;
        for source in 0..N {
            add_products(&mut sums, &[scales[source]; LANES], &sources[source][index]);
        }
        *target = sums;
    }
}

#[inline(always)]
fn add_scaled(target: &mut [f64], scale: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target += scale * source;
    }
}

#[cfg(test)]
mod tests;
