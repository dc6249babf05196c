//! Eigendecomposition of a symmetric matrix by Jacobi rotations.

/// A symmetric matrix as `B diag(roots^2) B^T`.
#[derive(Clone, Debug)]
pub(super) struct Eigen {
    /// Rows of `B`: its columns are the eigenvectors.
    pub vectors: Vec<Vec<f64>>,
    /// Square roots of the eigenvalues; 1e-4 for those that rounding made negative.
    pub roots: Vec<f64>,
}

impl Eigen {
    /// `C^(-1/2) v`.
    pub fn whitened(&self, vector: &[f64]) -> Vec<f64> {
        let axes = vector.len();
        let inner: Vec<f64> = (0..axes)
            .map(|column| {
                (0..axes).map(|row| self.vectors[row][column] * vector[row]).sum::<f64>()
                    / self.roots[column]
            })
            .collect();
        (0..axes)
            .map(|row| (0..axes).map(|column| self.vectors[row][column] * inner[column]).sum())
            .collect()
    }
}

/// Rotates until the matrix is diagonal: about ten sweeps of O(n^3).
pub(super) fn eigen(matrix: &[Vec<f64>]) -> Eigen {
    let size = matrix.len();
    let mut cells = matrix.to_vec();
    let mut vectors: Vec<Vec<f64>> = (0..size)
        .map(|row| (0..size).map(|column| f64::from(u8::from(row == column))).collect())
        .collect();
    for _ in 0..60 {
        let beside: f64 = (0..size)
            .flat_map(|row| (0..row).map(move |column| (row, column)))
            .map(|(row, column)| cells[row][column].powi(2))
            .sum();
        let diagonal: f64 = (0..size).map(|row| cells[row][row].powi(2)).sum();
        if beside <= 1e-30 * diagonal || !beside.is_finite() {
            break;
        }
        for row in 1..size {
            for column in 0..row {
                rotate(&mut cells, &mut vectors, row, column);
            }
        }
    }
    let roots = (0..size)
        .map(|row| if cells[row][row] > 0.0 { cells[row][row].sqrt() } else { 1e-4 })
        .collect();
    Eigen { vectors, roots }
}

/// Rotates the plane of two axes to zero their off-diagonal element (Golub and Van Loan, "Matrix
/// computations", algorithm 8.5.1).
fn rotate(cells: &mut [Vec<f64>], vectors: &mut [Vec<f64>], p: usize, q: usize) {
    if cells[p][q] == 0.0 {
        return;
    }
    let slope = (cells[q][q] - cells[p][p]) / (2.0 * cells[p][q]);
    let tangent = if slope >= 0.0 {
        1.0 / (slope + (1.0 + slope * slope).sqrt())
    } else {
        -1.0 / (-slope + (1.0 + slope * slope).sqrt())
    };
    let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
    let sine = tangent * cosine;
    for row in cells.iter_mut().chain(vectors.iter_mut()) {
        let (a, b) = (row[p], row[q]);
        (row[p], row[q]) = (cosine * a - sine * b, sine * a + cosine * b);
    }
    // `p` is the larger of the two.
    let (above, below) = cells.split_at_mut(p);
    for (of_p, of_q) in below[0].iter_mut().zip(&mut above[q]) {
        (*of_p, *of_q) = (cosine * *of_p - sine * *of_q, sine * *of_p + cosine * *of_q);
    }
}
