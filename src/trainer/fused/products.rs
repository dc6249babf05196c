//! Matrix products on strided slices, by the crate that burn-flex computes with.

/// Where a matrix lies in a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Index of the first number.
    pub(super) start: usize,
    /// From one row to the next.
    pub(super) row: usize,
    /// From one column to the next.
    pub(super) column: usize,
}

impl Place {
    /// Rows that lie `row` apart.
    pub(super) fn new(start: usize, row: usize) -> Self {
        Self { start, row, column: 1 }
    }

    /// Rows one after another, from the first number on.
    pub(super) fn dense(columns: usize) -> Self {
        Self::new(0, columns)
    }

    /// The same matrix on its side.
    pub(super) fn transposed(self) -> Self {
        Self { row: self.column, column: self.row, ..self }
    }

    /// The same matrix without its first `rows` rows.
    pub(super) fn below(self, rows: usize) -> Self {
        Self { start: self.start + rows * self.row, ..self }
    }

    fn end(self, rows: usize, columns: usize) -> usize {
        self.start + (rows - 1) * self.row + (columns - 1) * self.column
    }
}

/// What becomes of the numbers where a product goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Landing {
    /// They are written over.
    Replace,
    /// The product is added to them.
    Add,
}

/// `output = scale * left right`, or that much more, of `[rows, inner]` and `[inner, columns]`.
///
/// # Panics
/// If a matrix does not lie within its slice.
#[expect(unsafe_code, reason = "the product of the crate that burn-flex computes with takes pointers")]
pub(super) fn product(
    [rows, inner, columns]: [usize; 3],
    (output, out): (&mut [f32], Place),
    (left, l): (&[f32], Place),
    (right, r): (&[f32], Place),
    scale: f32,
    landing: Landing,
) {
    if rows * inner * columns == 0 {
        assert!(rows * columns == 0 || landing == Landing::Add, "a product over nothing is 0, which nobody asks for");
        return;
    }
    assert!(out.end(rows, columns) < output.len() && l.end(rows, inner) < left.len() && r.end(inner, columns) < right.len());
    // SAFETY: the least and the greatest index of each matrix lie within its slice, as just checked, so all others do; the output is borrowed
    // mutably and overlaps neither factor.
    unsafe { multiply([rows, inner, columns], (output.as_mut_ptr(), out), (left, l), (right, r), scale, landing) }
}

/// `left right` as a new matrix `[rows, columns]` in row-major order.
///
/// # Panics
/// If a factor does not lie within its slice, or `inner` is 0.
#[expect(unsafe_code, reason = "room is not filled with zeros first, which would be one more pass over memory")]
pub(super) fn new_product([rows, inner, columns]: [usize; 3], (left, l): (&[f32], Place), (right, r): (&[f32], Place)) -> Vec<f32> {
    let mut output = Vec::with_capacity(rows * columns);
    if rows * columns == 0 {
        return output;
    }
    assert!(inner > 0 && l.end(rows, inner) < left.len() && r.end(inner, columns) < right.len());
    // SAFETY: the factors lie within their slices, as just checked; the room holds `rows * columns` numbers, all of which the product writes
    // and none of which it reads when it replaces.
    unsafe {
        multiply([rows, inner, columns], (output.as_mut_ptr(), Place::dense(columns)), (left, l), (right, r), 1.0, Landing::Replace);
        output.set_len(rows * columns);
    }
    output
}

/// Products of fewer multiplications are not worth a second thread; burn-flex's number.
const PARALLEL: usize = 192 * 192 * 192;

/// # Safety
/// Each matrix lies in memory that is the caller's, the output overlaps neither factor, and is initialised if the product is added to it.
#[expect(unsafe_code, reason = "it is for the two functions above, which check places")]
unsafe fn multiply(
    [rows, inner, columns]: [usize; 3],
    (output, out): (*mut f32, Place),
    (left, l): (&[f32], Place),
    (right, r): (&[f32], Place),
    scale: f32,
    landing: Landing,
) {
    let step = |place: usize| isize::try_from(place).expect("a slice's length fits");
    let parallelism = if rows * inner * columns >= PARALLEL { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
    // SAFETY: the caller's promise.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            output.add(out.start),
            step(out.column),
            step(out.row),
            landing == Landing::Add,
            left.as_ptr().add(l.start),
            step(l.column),
            step(l.row),
            right.as_ptr().add(r.start),
            step(r.column),
            step(r.row),
            1.0,
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}
