//! Symmetric positive definite matrices of a few hundred rows: Cholesky factor, its inverse,
//! products.

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
    /// part is read; `None` if it is not positive definite.
    pub fn factor(&self) -> Option<Matrix> {
        let mut factor = Matrix::new(self.size);
        for row in 0..self.size {
            let (above, rest) = factor.cells.split_at_mut(row * self.size);
            let own = &mut rest[..self.size];
            for column in 0..row {
                let other = &above[column * self.size..(column + 1) * self.size];
                own[column] =
                    (self.row(row)[column] - dot(&own[..column], &other[..column])) / other[column];
            }
            let square = self.row(row)[row] - dot(&own[..row], &own[..row]);
            if square.is_nan() || square <= 0.0 {
                return None;
            }
            own[row] = square.sqrt();
        }
        Some(factor)
    }

    /// `L^-1 v` of a lower triangular `L`.
    pub fn solve(&self, vector: &[f64]) -> Vec<f64> {
        let mut solved = vector.to_vec();
        for index in 0..self.size {
            let own = self.row(index);
            solved[index] = (solved[index] - dot(&own[..index], &solved[..index])) / own[index];
        }
        solved
    }

    /// `L^-T v` of a lower triangular `L`.
    pub fn transposed_solve(&self, vector: &[f64]) -> Vec<f64> {
        let mut solved = vector.to_vec();
        for index in (0..self.size).rev() {
            let (before, rest) = solved.split_at_mut(index);
            rest[0] /= self.row(index)[index];
            add_scaled(before, -rest[0], &self.row(index)[..index]);
        }
        solved
    }

    /// The inverse of a lower triangular matrix.
    pub fn inverse_of_factor(&self) -> Matrix {
        let mut inverse = Matrix::new(self.size);
        for row in 0..self.size {
            let (above, rest) = inverse.cells.split_at_mut(row * self.size);
            let own = &mut rest[..self.size];
            for column in 0..row {
                add_scaled(
                    &mut own[..=column],
                    -self.row(row)[column],
                    &above[column * self.size..=column * self.size + column],
                );
            }
            let scale = 1.0 / self.row(row)[row];
            own[..row].iter_mut().for_each(|cell| *cell *= scale);
            own[row] = scale;
        }
        inverse
    }

    /// The lower part of `M^T M` for a lower triangular `M`: the inverse of a matrix, if `M` is
    /// that of its factor.
    pub fn gram(&self) -> Matrix {
        let mut gram = Matrix::new(self.size);
        for row in 0..self.size {
            let own = self.row(row);
            for target in 0..=row {
                add_scaled(&mut gram.row_mut(target)[..=target], own[target], &own[..=target]);
            }
        }
        gram
    }

    /// `M v` of a lower triangular `M`.
    pub fn times(&self, vector: &[f64]) -> Vec<f64> {
        (0..self.size).map(|row| dot(&self.row(row)[..=row], &vector[..=row])).collect()
    }

    /// The squared norm of `M v` for a lower triangular `M`.
    pub fn square_of_product(&self, vector: &[f64]) -> f64 {
        (0..self.size)
            .map(|row| dot(&self.row(row)[..=row], &vector[..=row]))
            .map(|product| product * product)
            .sum()
    }

    /// `M^T v` of a lower triangular `M`.
    pub fn transposed_times(&self, vector: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; self.size];
        for (row, scale) in vector.iter().enumerate() {
            add_scaled(&mut product[..=row], *scale, &self.row(row)[..=row]);
        }
        product
    }
}

/// The dot product, in four independent sums for instruction-level parallelism.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((whole_a, rest_a), (whole_b, rest_b)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; 4];
    for (a, b) in whole_a.iter().zip(whole_b) {
        sums[0] += a[0] * b[0];
        sums[1] += a[1] * b[1];
        sums[2] += a[2] * b[2];
        sums[3] += a[3] * b[3];
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

fn add_scaled(target: &mut [f64], scale: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target += scale * source;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let inverse = factor.inverse_of_factor().gram();
        for row in 0..7 {
            for column in 0..7 {
                let cell = |index: usize| {
                    if index <= row { inverse.row(row)[index] } else { inverse.row(index)[row] }
                };
                let product: f64 =
                    (0..7).map(|index| cell(index) * matrix.row(index)[column]).sum();
                assert!((product - if row == column { 1.0 } else { 0.0 }).abs() < 1e-10);
            }
        }
        let vector: Vec<f64> = (0..7).map(f64::from).collect();
        let solved =
            factor.inverse_of_factor().transposed_times(&factor.inverse_of_factor().times(&vector));
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
}
