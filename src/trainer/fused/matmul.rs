//! Matrix products (GEMM) on strided slices, with a bias, and an epilogue that runs while rows are
//! still in the cache.
//!
//! CPUs with AVX2 use kernels of this module, which pack less for the sizes of small models than
//! the `gemm` crate that burn-flex uses; other CPUs and builds without optimisation use that crate.
#![expect(
    unsafe_code,
    reason = "kernels take pointers, buffers are not zeroed first, and tasks share an output"
)]

#[cfg(target_arch = "x86_64")]
mod blocked;
#[cfg(target_arch = "x86_64")]
mod microkernels;

use std::mem::MaybeUninit;

#[cfg(target_arch = "x86_64")]
use super::simd::{SimdLevel, simd_level};

/// Where a matrix lies in a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strides {
    /// Index of the first element.
    pub(super) offset: usize,
    pub(super) row: usize,
    pub(super) column: usize,
}

impl Strides {
    /// Rows of adjacent elements, `row` apart.
    pub(super) fn new(offset: usize, row: usize) -> Self {
        Self { offset, row, column: 1 }
    }

    /// Row-major from the start of the slice.
    pub(super) fn dense(columns: usize) -> Self {
        Self::new(0, columns)
    }

    pub(super) fn transposed(self) -> Self {
        Self { row: self.column, column: self.row, ..self }
    }

    /// Without the first `rows` rows.
    pub(super) fn skip_rows(self, rows: usize) -> Self {
        Self { offset: self.offset + rows * self.row, ..self }
    }

    fn end(self, rows: usize, columns: usize) -> usize {
        self.offset + (rows - 1) * self.row + (columns - 1) * self.column
    }
}

/// The factor of the output's old values, as in BLAS:
/// `output = alpha * left right + beta * output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beta {
    /// The output is overwritten, and may be uninitialised before.
    Zero,
    /// The product is added to the output.
    One,
}

/// A function of a finished part of a row: the row's index, the first column, the part's values,
/// and the same part of the side output, empty where there is none. It must not compute products.
pub(super) type Epilogue<'a> =
    dyn Fn(usize, usize, &mut [f32], &mut [MaybeUninit<f32>]) + Sync + 'a;

/// `output = alpha * left right + beta * output` for `left [rows, inner]` and
/// `right [inner, columns]`.
///
/// # Panics
/// If a matrix does not lie within its slice.
pub(super) fn gemm(
    sizes: [usize; 3],
    (output, out): (&mut [f32], Strides),
    left: Operand<'_>,
    right: Operand<'_>,
    alpha: f32,
    beta: Beta,
) {
    // SAFETY: `f32` has the layout of `MaybeUninit<f32>`, all are initialised, and products write
    // nothing but values.
    unsafe {
        let uninit = std::slice::from_raw_parts_mut(output.as_mut_ptr().cast(), output.len());
        gemm_uninit(sizes, (uninit, out), left, right, alpha, beta);
    }
}

/// The same for an output that may be uninitialised where `beta` is 0.
///
/// # Panics
/// As [`gemm`].
///
/// # Safety
/// Where `beta` is 1, the output is initialised.
pub(super) unsafe fn gemm_uninit(
    sizes: [usize; 3],
    (output, out): (&mut [MaybeUninit<f32>], Strides),
    left: Operand<'_>,
    right: Operand<'_>,
    alpha: f32,
    beta: Beta,
) {
    let [rows, inner, columns] = sizes;
    if rows * inner * columns == 0 {
        assert!(
            rows * columns == 0 || beta == Beta::One,
            "an empty inner dimension needs beta = 1"
        );
        return;
    }
    assert!(out.end(rows, columns) < output.len(), "the output lies within its slice");
    let (left, right) = (operand(left, [rows, inner]), operand(right, [inner, columns]));
    let gemm =
        Gemm { alpha, beta, ..Gemm::new(sizes, (output.as_mut_ptr().cast(), out), left, right) };
    // SAFETY: the first and the last index of each matrix lie within its slice, as just checked, so
    // all others do; the output is borrowed mutably and overlaps neither operand; with beta = 1 it
    // is initialised, as the caller promises.
    unsafe { multiply(&gemm) }
}

/// `left right`, row-major `[rows, columns]`.
///
/// # Panics
/// If an operand does not lie within its slice, or `inner` is 0.
pub(super) fn matmul(sizes: [usize; 3], left: Operand<'_>, right: Operand<'_>) -> Vec<f32> {
    allocate_and_multiply(sizes, left, right, Extras::default()).0
}

/// `left right + bias`, with the bias broadcast over rows; it may be empty. In the kernels of this
/// module it costs nothing.
///
/// # Panics
/// As [`matmul`].
pub(super) fn matmul_with_bias(
    sizes: [usize; 3],
    left: Operand<'_>,
    right: Operand<'_>,
    bias: &[f32],
) -> Vec<f32> {
    allocate_and_multiply(sizes, left, right, Extras { bias, ..Extras::default() }).0
}

/// The same with an epilogue, which may run for parts of rows in any order and on several threads.
/// `prefetched` is empty or as large as the output: the epilogue's own input, which is prefetched
/// together with the output.
pub(super) fn matmul_with_epilogue(
    sizes: [usize; 3],
    left: Operand<'_>,
    right: Operand<'_>,
    bias: &[f32],
    prefetched: &[f32],
    epilogue: &Epilogue<'_>,
) -> Vec<f32> {
    let extras = Extras { bias, epilogue: Some(epilogue), prefetched, ..Extras::default() };
    allocate_and_multiply(sizes, left, right, extras).0
}

/// The same with a side output, as large as the output, which the epilogue fills.
///
/// # Safety
/// The epilogue writes all of the side output that it gets.
pub(super) unsafe fn matmul_with_side_output(
    sizes: [usize; 3],
    left: Operand<'_>,
    right: Operand<'_>,
    bias: &[f32],
    epilogue: &Epilogue<'_>,
) -> (Vec<f32>, Vec<f32>) {
    let epilogue = Some(epilogue);
    let extras = Extras { bias, epilogue, has_side_output: true, ..Extras::default() };
    allocate_and_multiply(sizes, left, right, extras)
}

/// [`matmul`], and the column sums of the right operand, in the order of its rows: at almost no
/// cost, since they are taken while packing.
///
/// # Panics
/// As [`matmul`].
pub(super) fn matmul_and_column_sums(
    sizes: [usize; 3],
    left: Operand<'_>,
    right: Operand<'_>,
) -> (Vec<f32>, Vec<f32>) {
    let columns = sizes[2];
    let mut column_sums = vec![0.0; columns.next_multiple_of(PANEL)];
    let extras = Extras { column_sums: &mut column_sums, ..Extras::default() };
    let (output, _) = allocate_and_multiply(sizes, left, right, extras);
    column_sums.truncate(columns);
    (output, column_sums)
}

/// Products of `left [rows, inner]` with several right operands of so many columns each,
/// concatenated by columns, plus a bias, which may be empty.
///
/// # Panics
/// As [`matmul`].
pub(super) fn matmul_concat<const N: usize>(
    [rows, inner]: [usize; 2],
    left: Operand<'_>,
    rights: [(&[f32], Strides, usize); N],
    bias: &[f32],
) -> Vec<f32> {
    let columns = rights.iter().map(|(_, _, columns)| columns).sum();
    let (mut output, mut column) = (Vec::with_capacity(rows * columns), 0);
    if rows * columns == 0 {
        return output;
    }
    assert!(inner > 0, "the inner dimension is not empty");
    assert!(bias.is_empty() || bias.len() == columns, "a bias for each column, or none");
    let left = operand(left, [rows, inner]);
    for (right, strides, width) in rights.into_iter().filter(|(_, _, width)| *width > 0) {
        let right = operand((right, strides), [inner, width]);
        let bias = if bias.is_empty() { std::ptr::null() } else { bias[column..].as_ptr() };
        let out = (output.as_mut_ptr(), Strides::new(column, columns));
        let gemm = Gemm { bias, ..Gemm::new([rows, inner, width], out, left, right) };
        // SAFETY: the operands lie within their slices, as just checked; the columns from `column`
        // on lie in the output's capacity, and there is a bias for each of them, or none.
        unsafe { multiply(&gemm) };
        column += width;
    }
    // SAFETY: all columns of all rows have been written.
    unsafe { output.set_len(rows * columns) };
    output
}

/// A matrix that is multiplied.
type Operand<'a> = (&'a [f32], Strides);

/// What is fused to a product; nothing by default.
#[derive(Default)]
struct Extras<'a> {
    /// One for each column.
    bias: &'a [f32],
    epilogue: Option<&'a Epilogue<'a>>,
    /// An input of the epilogue, as large as the output.
    prefetched: &'a [f32],
    /// Whether the epilogue writes all of a second output; then nothing is prefetched.
    has_side_output: bool,
    /// Those of the right operand, for whole panels.
    column_sums: &'a mut [f32],
}

fn allocate_and_multiply(
    sizes: [usize; 3],
    left: Operand<'_>,
    right: Operand<'_>,
    extras: Extras<'_>,
) -> (Vec<f32>, Vec<f32>) {
    let Extras { bias, epilogue, prefetched, has_side_output, column_sums } = extras;
    let [rows, inner, columns] = sizes;
    let count = rows * columns;
    let (mut output, mut side_output) =
        (Vec::with_capacity(count), Vec::with_capacity(if has_side_output { count } else { 0 }));
    if count == 0 {
        return (output, side_output);
    }
    assert!(inner > 0, "the inner dimension is not empty");
    let (left, right) = (operand(left, [rows, inner]), operand(right, [inner, columns]));
    let (uninit, prefetch) = if has_side_output {
        (side_output.spare_capacity_mut().as_mut_ptr(), side_output.as_ptr())
    } else {
        (std::ptr::null_mut(), pointer(prefetched))
    };
    let panels = columns.next_multiple_of(PANEL);
    assert!(column_sums.is_empty() || column_sums.len() == panels, "sums of whole panels, or none");
    let column_sums =
        if column_sums.is_empty() { std::ptr::null_mut() } else { column_sums.as_mut_ptr() };
    assert!(bias.is_empty() || bias.len() == columns, "a bias for each column, or none");
    let (bias, epilogue) = (pointer(bias), epilogue.map(|epilogue| (epilogue, uninit, 0)));
    let out = (output.as_mut_ptr(), Strides::dense(columns));
    let gemm = Gemm { epilogue, prefetch, column_sums, bias, ..Gemm::new(sizes, out, left, right) };
    // SAFETY: the operands lie within their slices, as just checked; the output has capacity for
    // `count` values, all of which the product writes and none of which it reads with beta = 0. The
    // epilogue writes the side output, as the caller promises. Column sums are those of whole
    // panels and the bias is that of all columns, or they are null, as just checked.
    unsafe {
        multiply(&gemm);
        output.set_len(count);
        if has_side_output {
            side_output.set_len(count);
        }
    }
    (output, side_output)
}

/// A pointer to the values, null where there are none.
fn pointer(values: &[f32]) -> *const f32 {
    if values.is_empty() { std::ptr::null() } else { values.as_ptr() }
}

/// A pointer to an operand that lies within its slice.
fn operand((values, strides): Operand<'_>, [rows, columns]: [usize; 2]) -> (*const f32, Strides) {
    assert!(strides.end(rows, columns) < values.len(), "an operand lies within its slice");
    (values.as_ptr(), strides)
}

/// One product, or the rows of one that a task computes.
#[derive(Clone, Copy)]
struct Gemm<'a> {
    /// Rows, inner dimension, columns.
    sizes: [usize; 3],
    output: (*mut f32, Strides),
    left: (*const f32, Strides),
    right: (*const f32, Strides),
    alpha: f32,
    beta: Beta,
    /// The epilogue, the side output or null, and the index of the first row.
    epilogue: Option<(&'a Epilogue<'a>, *mut MaybeUninit<f32>, usize)>,
    /// What is prefetched together with the output, element by element, or null.
    prefetch: *const f32,
    /// Where the column sums of the right operand are added, for whole panels, or null.
    column_sums: *mut f32,
    /// One for each column, or null.
    bias: *const f32,
}

// SAFETY: the creator of a `Gemm` guarantees its pointers; its tasks share only the operands, which
// are read-only.
unsafe impl Sync for Gemm<'_> {}

/// Products with fewer multiplications run on one thread, as in burn-flex.
const PARALLEL_THRESHOLD: usize = 192 * 192 * 192;

/// Columns of the widest panel of the packed right operand, a multiple of the others.
const PANEL: usize = 32;

/// Elements of a packed block of the right operand: three quarters of a second-level cache of 1
/// MiB. Larger blocks do no harm where a third-level cache is near; more blocks do, for each of
/// which all rows of the left operand are read again.
#[cfg(any(test, target_arch = "x86_64"))]
pub(super) const PACKED_BLOCK: usize = 192 * 1024;

/// Products of so few rows are not worth packing the right operand.
const MAX_UNPACKED_ROWS: usize = 4;

/// # Safety
/// Each matrix lies in memory that is the caller's; the output overlaps neither operand, and is
/// initialised if `beta` is 1. With an epilogue or a bias, the output's rows are contiguous, and
/// the side output is null or as large as the output. `column_sums` is null or has room for whole
/// panels; `bias` is null or has a value for each column, and then `alpha` is 1 and `beta` 0.
unsafe fn multiply(gemm: &Gemm<'_>) {
    debug_assert!(gemm.bias.is_null() || (gemm.alpha == 1.0 && gemm.beta == Beta::Zero));
    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = own_kernel(gemm) {
        let threads = if gemm.sizes.iter().product::<usize>() < PARALLEL_THRESHOLD {
            1
        } else {
            rayon::current_num_threads()
        };
        // Each element is computed in the same way, whatever the number of threads.
        let rows_per_task = gemm.sizes[0].div_ceil(threads).next_multiple_of(ROW_MULTIPLE);
        // SAFETY: the caller's promise, and the CPU has the kernel's features. Tasks have rows of
        // their own.
        unsafe {
            if rows_per_task >= gemm.sizes[0] {
                kernel(gemm);
                return;
            }
            rayon::scope(|scope| {
                for first in (0..gemm.sizes[0]).step_by(rows_per_task) {
                    scope.spawn(move |_| kernel(&gemm.rows_from(first, rows_per_task)));
                }
            });
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { gemm.run_gemm_crate() }
}

/// Tasks have a multiple of this many rows, except the last.
#[cfg(target_arch = "x86_64")]
const ROW_MULTIPLE: usize = 12;

#[cfg(target_arch = "x86_64")]
type GemmKernel = unsafe fn(&Gemm<'_>);

/// The kernel of this module that the CPU supports, where it is faster than the crate's.
#[cfg(target_arch = "x86_64")]
fn own_kernel(gemm: &Gemm<'_>) -> Option<GemmKernel> {
    let left = gemm.left.1;
    if gemm.sizes[0] <= MAX_UNPACKED_ROWS
        || gemm.output.1.column != 1
        || (left.row != 1 && left.column != 1)
        || !own_kernels_enabled()
    {
        return None;
    }
    match simd_level() {
        SimdLevel::Avx512 => Some(blocked::with_avx512),
        SimdLevel::Avx2 => Some(blocked::with_avx2),
        SimdLevel::Baseline => None,
    }
}

/// Not without optimisation, which makes the kernels of this module fifty times slower.
#[cfg(target_arch = "x86_64")]
fn own_kernels_enabled() -> bool {
    #[cfg(test)]
    if let Some(asked) = FORCE_OWN_KERNELS.get() {
        return asked;
    }
    !cfg!(debug_assertions)
}

#[cfg(test)]
thread_local! {
    /// Whether products on this thread use the kernels of this module; `None`: if they are faster.
    pub(super) static FORCE_OWN_KERNELS: std::cell::Cell<Option<bool>> =
        const { std::cell::Cell::new(None) };
}

impl Gemm<'_> {
    /// `output = left right`.
    fn new(
        sizes: [usize; 3],
        output: (*mut f32, Strides),
        left: (*const f32, Strides),
        right: (*const f32, Strides),
    ) -> Self {
        Self {
            sizes,
            output,
            left,
            right,
            alpha: 1.0,
            beta: Beta::Zero,
            epilogue: None,
            prefetch: std::ptr::null(),
            column_sums: std::ptr::null_mut(),
            bias: std::ptr::null(),
        }
    }

    /// The task of up to `rows_per_task` rows from row `first` on.
    #[cfg(target_arch = "x86_64")]
    fn rows_from(&self, first: usize, rows_per_task: usize) -> Self {
        let [rows, inner, columns] = self.sizes;
        let epilogue = self.epilogue.map(|(epilogue, uninit, _)| {
            let uninit =
                if uninit.is_null() { uninit } else { uninit.wrapping_add(first * columns) };
            (epilogue, uninit, first)
        });
        Self {
            sizes: [rows_per_task.min(rows - first), inner, columns],
            output: (self.output.0, self.output.1.skip_rows(first)),
            left: (self.left.0, self.left.1.skip_rows(first)),
            epilogue,
            column_sums: if first == 0 { self.column_sums } else { std::ptr::null_mut() },
            ..*self
        }
    }

    /// # Safety
    /// As [`multiply`].
    unsafe fn run_gemm_crate(&self) {
        let Self {
            sizes: [rows, inner, columns],
            output: (output, out),
            left: (left, l),
            right: (right, r),
            alpha,
            beta,
            ..
        } = *self;
        let step =
            |stride: usize| isize::try_from(stride).expect("a slice's length fits into isize");
        let parallelism = if rows * inner * columns >= PARALLEL_THRESHOLD {
            gemm::Parallelism::Rayon(0)
        } else {
            gemm::Parallelism::None
        };
        // SAFETY: the caller's promise.
        unsafe {
            gemm::gemm(
                rows,
                columns,
                inner,
                output.add(out.offset),
                step(out.column),
                step(out.row),
                beta == Beta::One,
                left.add(l.offset),
                step(l.column),
                step(l.row),
                right.add(r.offset),
                step(r.column),
                step(r.row),
                1.0,
                alpha,
                false,
                false,
                false,
                parallelism,
            );
            self.add_column_sums();
            self.add_bias();
            self.run_epilogue();
        }
    }

    /// # Safety
    /// As [`multiply`].
    unsafe fn add_column_sums(&self) {
        let Self { sizes: [_, inner, columns], right: (right, strides), column_sums, .. } = *self;
        if column_sums.is_null() {
            return;
        }
        for row in 0..inner {
            for column in 0..columns {
                // SAFETY: the caller's promise.
                unsafe {
                    *column_sums.add(column) +=
                        *right.add(strides.offset + row * strides.row + column * strides.column)
                };
            }
        }
    }

    /// # Safety
    /// As [`multiply`], after the product.
    unsafe fn add_bias(&self) {
        let ([rows, _, columns], (output, out), bias) = (self.sizes, self.output, self.bias);
        if bias.is_null() {
            return;
        }
        for row in 0..rows {
            // SAFETY: the caller's promise: with a bias, the output's rows are contiguous.
            let (row, bias) = unsafe {
                (
                    std::slice::from_raw_parts_mut(output.add(out.offset + row * out.row), columns),
                    std::slice::from_raw_parts(bias, columns),
                )
            };
            row.iter_mut().zip(bias).for_each(|(number, bias)| *number += bias);
        }
    }

    /// # Safety
    /// As [`multiply`], after the product.
    unsafe fn run_epilogue(&self) {
        let Some((epilogue, side, first_row)) = self.epilogue else { return };
        let ([rows, _, columns], (output, out)) = (self.sizes, self.output);
        for row in 0..rows {
            // SAFETY: the caller's promise.
            unsafe {
                let part = (output.add(out.offset + row * out.row), side);
                call_epilogue(epilogue, part, [row, columns, 0, columns], first_row);
            }
        }
    }
}

/// Runs the epilogue on the `width` columns from `column` on of row `row`, in a matrix of `columns`
/// columns.
///
/// # Safety
/// The part begins at the first pointer; the second is null or that of a side output as large as
/// the output.
#[inline(always)]
unsafe fn call_epilogue(
    epilogue: &Epilogue<'_>,
    (numbers, side): (*mut f32, *mut MaybeUninit<f32>),
    [row, columns, column, width]: [usize; 4],
    first_row: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let side = match side.is_null() {
            true => &mut [][..],
            false => std::slice::from_raw_parts_mut(side.add(row * columns + column), width),
        };
        epilogue(first_row + row, column, std::slice::from_raw_parts_mut(numbers, width), side);
    }
}
