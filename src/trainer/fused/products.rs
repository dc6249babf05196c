//! Matrix products on strided slices, whose rows start with a bias and are finished while they are still in the cache: a nonlinearity, a sum.
//!
//! On processors with AVX2 they are computed by loops of this room, which repack less for the sizes of small models than the crate that
//! burn-flex computes with; on others, and in builds without optimisation, by that crate.

#[cfg(target_arch = "x86_64")]
mod blocks;
#[cfg(target_arch = "x86_64")]
mod kernels;

use std::mem::MaybeUninit;

#[cfg(target_arch = "x86_64")]
use super::lanes::{Instance, widest};

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

/// What is done to a part of a row of a product when its numbers are known: the row's number, the number of the part's first column, the numbers,
/// and as much room beside them if there is any. It computes no product itself.
pub(super) type Finish<'a> = dyn Fn(usize, usize, &mut [f32], &mut [MaybeUninit<f32>]) + Sync + 'a;

/// `output = scale * left right`, or that much more, of `[rows, inner]` and `[inner, columns]`.
///
/// # Panics
/// If a matrix does not lie within its slice.
#[expect(unsafe_code, reason = "numbers become room and numbers again")]
pub(super) fn product(
    sizes: [usize; 3],
    (output, out): (&mut [f32], Place),
    left: (&[f32], Place),
    right: (&[f32], Place),
    scale: f32,
    landing: Landing,
) {
    // SAFETY: numbers are room in which all is written, and products write nothing but numbers.
    unsafe {
        let room = std::slice::from_raw_parts_mut(output.as_mut_ptr().cast(), output.len());
        product_in_room(sizes, (room, out), left, right, scale, landing);
    }
}

/// The same where numbers may not have been written yet.
///
/// # Panics
/// As [`product`].
///
/// # Safety
/// Where the product is added to what there is, that has been written.
#[expect(unsafe_code, reason = "the innermost loops take pointers, and room is not filled with zeros first")]
pub(super) unsafe fn product_in_room(
    sizes: [usize; 3],
    (output, out): (&mut [MaybeUninit<f32>], Place),
    left: (&[f32], Place),
    right: (&[f32], Place),
    scale: f32,
    landing: Landing,
) {
    let [rows, inner, columns] = sizes;
    if rows * inner * columns == 0 {
        assert!(rows * columns == 0 || landing == Landing::Add, "a product over nothing is 0, which nobody asks for");
        return;
    }
    assert!(out.end(rows, columns) < output.len(), "the output lies within its slice");
    let (left, right) = (factor(left, [rows, inner]), factor(right, [inner, columns]));
    let output = (output.as_mut_ptr().cast(), out);
    let (also, sums, start) = (std::ptr::null(), std::ptr::null_mut(), std::ptr::null());
    let product = Product { sizes, output, left, right, scale, landing, finish: None, also, sums, start };
    // SAFETY: the least and the greatest index of each matrix lie within its slice, as just checked, so all others do; the output is borrowed
    // mutably and overlaps neither factor; what is added to has been written, as the caller promises.
    unsafe { multiply(&product) }
}

/// `left right` as a new matrix `[rows, columns]` in row-major order.
///
/// # Panics
/// If a factor does not lie within its slice, or `inner` is 0.
pub(super) fn new_product(sizes: [usize; 3], left: (&[f32], Place), right: (&[f32], Place)) -> Vec<f32> {
    made(sizes, left, right, &[], None, Beside::Nothing(&[]), &mut []).0
}

/// `start + left right`, where a row of the output starts with these numbers instead of 0, if there are any: in the loops of this room adding
/// them costs nothing.
///
/// # Panics
/// As [`new_product`].
pub(super) fn new_map(sizes: [usize; 3], left: (&[f32], Place), right: (&[f32], Place), start: &[f32]) -> Vec<f32> {
    made(sizes, left, right, start, None, Beside::Nothing(&[]), &mut []).0
}

/// The same, with each row finished: `finish` may be called for parts of rows in any order, and by several threads. Numbers that it `reads`, one
/// for each of the output, or none, are fetched in time.
pub(super) fn new_finished_map(
    sizes: [usize; 3],
    left: (&[f32], Place),
    right: (&[f32], Place),
    start: &[f32],
    reads: &[f32],
    finish: &Finish<'_>,
) -> Vec<f32> {
    made(sizes, left, right, start, Some(finish), Beside::Nothing(reads), &mut []).0
}

/// The same, and a second matrix of the same sizes that `finish` fills.
///
/// # Safety
/// `finish` writes all of the room that it is given.
#[expect(unsafe_code, reason = "room is not filled with zeros first, which would be one more pass over memory")]
pub(super) unsafe fn new_map_and_more(
    sizes: [usize; 3],
    left: (&[f32], Place),
    right: (&[f32], Place),
    start: &[f32],
    finish: &Finish<'_>,
) -> (Vec<f32>, Vec<f32>) {
    made(sizes, left, right, start, Some(finish), Beside::Filled, &mut [])
}

/// As [`new_product`], and the sums of the right factor's columns, each added up in the order of its rows: taken on the way, they cost next to nothing.
///
/// # Panics
/// As [`new_product`].
pub(super) fn new_product_and_sums(sizes: [usize; 3], left: (&[f32], Place), right: (&[f32], Place)) -> (Vec<f32>, Vec<f32>) {
    let columns = sizes[2];
    let mut sums = vec![0.0; columns.next_multiple_of(PANEL)];
    let (output, _) = made(sizes, left, right, &[], None, Beside::Nothing(&[]), &mut sums);
    sums.truncate(columns);
    (output, sums)
}

/// Products of `left [rows, inner]` with several factors, each of so many columns, as one new matrix side by side, whose rows start with these
/// numbers, or with 0 if there are none.
///
/// # Panics
/// As [`new_product`].
#[expect(unsafe_code, reason = "room is not filled with zeros first, which would be one more pass over memory")]
pub(super) fn side_by_side<const N: usize>(
    [rows, inner]: [usize; 2],
    left: (&[f32], Place),
    rights: [(&[f32], Place, usize); N],
    start: &[f32],
) -> Vec<f32> {
    let columns = rights.iter().map(|(_, _, columns)| columns).sum();
    let (mut output, mut column) = (Vec::with_capacity(rows * columns), 0);
    if rows * columns == 0 {
        return output;
    }
    assert!(inner > 0, "a product over nothing is 0, which nobody asks for");
    assert!(start.is_empty() || start.len() == columns, "a number to start with for each column, or none");
    let left = factor(left, [rows, inner]);
    for (right, place, width) in rights.into_iter().filter(|(_, _, width)| *width > 0) {
        let right = factor((right, place), [inner, width]);
        let start = if start.is_empty() { std::ptr::null() } else { start[column..].as_ptr() };
        let (sizes, output) = ([rows, inner, width], (output.as_mut_ptr(), Place::new(column, columns)));
        let (also, sums) = (std::ptr::null(), std::ptr::null_mut());
        let product = Product { sizes, output, left, right, scale: 1.0, landing: Landing::Replace, finish: None, also, sums, start };
        // SAFETY: the factors lie within their slices, as just checked; the columns from `column` on lie in the room, and there is a number to
        // start with for each of them, or none.
        unsafe { multiply(&product) };
        column += width;
    }
    // SAFETY: all columns of all rows have been written.
    unsafe { output.set_len(rows * columns) };
    output
}

/// Whether there is room beside a product.
#[derive(Clone, Copy)]
enum Beside<'a> {
    /// There is none; numbers are read, one for each of the output, or none.
    Nothing(&'a [f32]),
    /// All of which is written.
    Filled,
}

#[expect(unsafe_code, reason = "room is not filled with zeros first, which would be one more pass over memory")]
fn made(
    sizes: [usize; 3],
    left: (&[f32], Place),
    right: (&[f32], Place),
    start: &[f32],
    finish: Option<&Finish<'_>>,
    beside: Beside<'_>,
    sums: &mut [f32],
) -> (Vec<f32>, Vec<f32>) {
    let [rows, inner, columns] = sizes;
    let count = rows * columns;
    let filled = matches!(beside, Beside::Filled);
    let (mut output, mut more) = (Vec::with_capacity(count), Vec::with_capacity(if filled { count } else { 0 }));
    if count == 0 {
        return (output, more);
    }
    assert!(inner > 0, "a product over nothing is 0, which nobody asks for");
    let (left, right) = (factor(left, [rows, inner]), factor(right, [inner, columns]));
    let (room, also) = match beside {
        Beside::Filled => (more.spare_capacity_mut().as_mut_ptr(), more.as_ptr()),
        Beside::Nothing([]) => (std::ptr::null_mut(), std::ptr::null()),
        Beside::Nothing(reads) => (std::ptr::null_mut(), reads.as_ptr()),
    };
    assert!(sums.is_empty() || sums.len() == columns.next_multiple_of(PANEL), "sums, if any, of whole panels");
    let sums = if sums.is_empty() { std::ptr::null_mut() } else { sums.as_mut_ptr() };
    assert!(start.is_empty() || start.len() == columns, "a number to start with for each column, or none");
    let start = if start.is_empty() { std::ptr::null() } else { start.as_ptr() };
    let finish = finish.map(|finish| (finish, room, 0));
    let output_place = (output.as_mut_ptr(), Place::dense(columns));
    let product = Product { sizes, output: output_place, left, right, scale: 1.0, landing: Landing::Replace, finish, also, sums, start };
    // SAFETY: the factors lie within their slices, as just checked; the room holds `count` numbers, all of which the product writes and none of
    // which it reads when it replaces. What lies beside them is written by `finish`, as whoever asks for it promises.
    // There are sums for whole panels, or none, and numbers to start with for all columns, or none, as just checked.
    unsafe {
        multiply(&product);
        output.set_len(count);
        if filled {
            more.set_len(count);
        }
    }
    (output, more)
}

/// Where a factor's numbers lie, all of them within their slice.
fn factor((numbers, place): (&[f32], Place), [rows, columns]: [usize; 2]) -> (*const f32, Place) {
    assert!(place.end(rows, columns) < numbers.len(), "a factor lies within its slice");
    (numbers.as_ptr(), place)
}

/// One product, or the part of one that a thread computes.
#[derive(Clone, Copy)]
struct Product<'a> {
    /// Rows, inner numbers, columns.
    sizes: [usize; 3],
    output: (*mut f32, Place),
    left: (*const f32, Place),
    right: (*const f32, Place),
    scale: f32,
    landing: Landing,
    /// What is done to complete rows, the room beside them or null, and the number of the part's first row.
    finish: Option<(&'a Finish<'a>, *mut MaybeUninit<f32>, usize)>,
    /// Numbers that `finish` reads or writes, each where the output's is, or null: they are fetched together with the output's, never read.
    also: *const f32,
    /// What the right factor's columns are added to, with room for whole panels, or null.
    sums: *mut f32,
    /// What each row of the output starts with, or null: 0.
    start: *const f32,
}

#[expect(unsafe_code, reason = "the compiler cannot see that parts of a product write to different rows")]
// SAFETY: whoever makes a product answers for its pointers; parts of one share factors, which nobody writes.
unsafe impl Sync for Product<'_> {}

/// Products of fewer multiplications are not worth a second thread; burn-flex's number.
const PARALLEL: usize = 192 * 192 * 192;

/// The widest panel of the right factor that the loops of this room read, a multiple of the others.
const PANEL: usize = 32;

/// Numbers of a packed right block: three quarters of a second-level cache of one megabyte. More than it holds does no harm where a third
/// level is near; many blocks do, for each of which all left rows are read once more.
#[cfg(any(test, target_arch = "x86_64"))]
pub(super) const BLOCK: usize = 192 * 1024;

/// Products of fewer rows are not worth packing the right factor.
const FEW: usize = 4;

/// # Safety
/// Each matrix lies in memory that is the caller's, the output overlaps neither factor, and is initialised if the product is added to it. With
/// something to finish or to start with, rows of the output are one number after another, and the room beside them is null or as large as the output. `sums` is null,
/// or has room for whole panels; `start` is null, or has a number for each column of a product that is not scaled or added to anything.
#[expect(unsafe_code, reason = "it is for the functions above, which check places")]
unsafe fn multiply(product: &Product<'_>) {
    debug_assert!(product.start.is_null() || (product.scale == 1.0 && product.landing == Landing::Replace));
    #[cfg(target_arch = "x86_64")]
    if let Some(loops) = own_loops(product) {
        let threads = if product.sizes.iter().product::<usize>() < PARALLEL { 1 } else { rayon::current_num_threads() };
        // Whatever the number of threads, each number of the output is computed in the same way.
        let share = product.sizes[0].div_ceil(threads).next_multiple_of(ROWS);
        // SAFETY: the caller's promise, and the processor has what the loops need. Parts have rows of their own.
        unsafe {
            if share >= product.sizes[0] {
                loops(product);
                return;
            }
            rayon::scope(|scope| {
                for first in (0..product.sizes[0]).step_by(share) {
                    scope.spawn(move |_| loops(&product.part(first, share)));
                }
            });
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { product.by_crate() }
}

/// Parts of a product have a multiple of this many rows, unless they are the last.
#[cfg(target_arch = "x86_64")]
const ROWS: usize = 12;

#[cfg(target_arch = "x86_64")]
type Loops = unsafe fn(&Product<'_>);

/// The loops of this room that the processor can run, where they are quicker than the crate's.
#[cfg(target_arch = "x86_64")]
fn own_loops(product: &Product<'_>) -> Option<Loops> {
    let left = product.left.1;
    if product.sizes[0] <= FEW || product.output.1.column != 1 || (left.row != 1 && left.column != 1) || !are_quicker() {
        return None;
    }
    match widest() {
        Instance::Avx512 => Some(blocks::with_avx512),
        Instance::Avx2 => Some(blocks::with_avx2),
        Instance::Plain => None,
    }
}

/// Whether loops of this crate are quicker than the other's: not where they are not optimised, which takes fifty times as long.
#[cfg(target_arch = "x86_64")]
fn are_quicker() -> bool {
    #[cfg(test)]
    if let Some(asked) = OWN.get() {
        return asked;
    }
    !cfg!(debug_assertions)
}

#[cfg(test)]
thread_local! {
    /// Whether products on this thread are computed by the loops of this room; `None`: if they are quicker.
    pub(super) static OWN: std::cell::Cell<Option<bool>> = const { std::cell::Cell::new(None) };
}

impl Product<'_> {
    /// Up to `share` rows from the one numbered `first` on.
    #[cfg(target_arch = "x86_64")]
    fn part(&self, first: usize, share: usize) -> Self {
        let [rows, inner, columns] = self.sizes;
        let finish = self.finish.map(|(finish, room, _)| {
            let room = if room.is_null() { room } else { room.wrapping_add(first * columns) };
            (finish, room, first)
        });
        let (output, left) = ((self.output.0, self.output.1.below(first)), (self.left.0, self.left.1.below(first)));
        let sums = if first == 0 { self.sums } else { std::ptr::null_mut() };
        Self { sizes: [share.min(rows - first), inner, columns], output, left, finish, sums, ..*self }
    }

    /// # Safety
    /// As [`multiply`].
    #[expect(unsafe_code, reason = "as there")]
    unsafe fn by_crate(&self) {
        let Self { sizes: [rows, inner, columns], output: (output, out), left: (left, l), right: (right, r), scale, landing, .. } = *self;
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
                left.add(l.start),
                step(l.column),
                step(l.row),
                right.add(r.start),
                step(r.column),
                step(r.row),
                1.0,
                scale,
                false,
                false,
                false,
                parallelism,
            );
            self.add_up();
            self.add_start();
            self.finish_row_by_row();
        }
    }

    /// # Safety
    /// As [`multiply`].
    #[expect(unsafe_code, reason = "as there")]
    unsafe fn add_up(&self) {
        let Self { sizes: [_, inner, columns], right: (right, place), sums, .. } = *self;
        if sums.is_null() {
            return;
        }
        for row in 0..inner {
            for column in 0..columns {
                // SAFETY: the caller's promise.
                unsafe { *sums.add(column) += *right.add(place.start + row * place.row + column * place.column) };
            }
        }
    }

    /// # Safety
    /// As [`multiply`], and the product is there.
    #[expect(unsafe_code, reason = "as there")]
    unsafe fn add_start(&self) {
        let ([rows, _, columns], (output, out), start) = (self.sizes, self.output, self.start);
        if start.is_null() {
            return;
        }
        for row in 0..rows {
            // SAFETY: the caller's promise: rows that start with numbers are one number after another.
            let (row, start) = unsafe {
                (std::slice::from_raw_parts_mut(output.add(out.start + row * out.row), columns), std::slice::from_raw_parts(start, columns))
            };
            row.iter_mut().zip(start).for_each(|(number, start)| *number += start);
        }
    }

    /// # Safety
    /// As [`multiply`], and the product is there.
    #[expect(unsafe_code, reason = "as there")]
    unsafe fn finish_row_by_row(&self) {
        let Some((finish, beside, shift)) = self.finish else { return };
        let ([rows, _, columns], (output, out)) = (self.sizes, self.output);
        for row in 0..rows {
            // SAFETY: the caller's promise.
            unsafe { finish_part(finish, (output.add(out.start + row * out.row), beside), [row, columns, 0, columns], shift) }
        }
    }
}

/// Finishes the part from `column` on, `width` wide, of the row numbered `row` among rows of `columns` numbers.
///
/// # Safety
/// The part begins at the first pointer; beside the whole output there is as much room from the second on, if it is not null.
#[expect(unsafe_code, reason = "as `multiply`")]
#[inline(always)]
unsafe fn finish_part(
    finish: &Finish<'_>,
    (numbers, beside): (*mut f32, *mut MaybeUninit<f32>),
    [row, columns, column, width]: [usize; 4],
    shift: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let beside = match beside.is_null() {
            true => &mut [][..],
            false => std::slice::from_raw_parts_mut(beside.add(row * columns + column), width),
        };
        finish(shift + row, column, std::slice::from_raw_parts_mut(numbers, width), beside);
    }
}
