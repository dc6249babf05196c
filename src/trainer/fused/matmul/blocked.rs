//! Cache blocking of matrix products: packs the operands as the micro-kernels read them, block by
//! block.
#![expect(unsafe_code, reason = "it is called by the functions of `matmul`, which check bounds")]

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::cell::{Cell, UnsafeCell};

use super::microkernels::{AVX2, AVX512, KernelPair, Kernels, Source, Tile, transpose_8x8};
use super::{Beta, Gemm, PACKED_BLOCK, PANEL, Strides, call_epilogue};

/// Most rows of a packed block of the right operand.
const MAX_DEPTH: usize = 512;

/// Strips of the left operand that are copied together where it is column-major: together they fill
/// whole cache lines of each column.
const STRIPS: usize = 4;

/// Elements at multiples of this distance, 4 KiB, share the sets of the caches.
const ALIASING_STRIDE: usize = 1024;

/// Left operands that span at most so many elements stay in the caches and are not prefetched.
const CACHE_RESIDENT: usize = 64 * 1024;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct CacheLine(#[expect(dead_code, reason = "written and read through pointers")] [f32; 16]);

/// The packed operands of a thread's products, one product after another.
struct Workspace {
    lines: UnsafeCell<[Vec<CacheLine>; 2]>,
    in_use: Cell<bool>,
}

thread_local! {
    static WORKSPACE: Workspace = const {
        Workspace {
            lines: UnsafeCell::new([Vec::new(), Vec::new()]),
            in_use: Cell::new(false),
        }
    };
}

/// Releases the workspace on drop.
struct Release(*const Cell<bool>);

impl Drop for Release {
    fn drop(&mut self) {
        // SAFETY: the flag lies in the thread's workspace, which outlives its products.
        unsafe { (*self.0).set(false) };
    }
}

/// # Safety
/// As `multiply`, on a CPU with AVX-512F and FMA.
#[target_feature(enable = "avx512f,fma")]
pub(super) unsafe fn with_avx512(gemm: &Gemm<'_>) {
    // SAFETY: the caller's promise.
    unsafe { multiply::<32, 12>(&AVX512, gemm) }
}

/// # Safety
/// As `multiply`, on a CPU with AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn with_avx2(gemm: &Gemm<'_>) {
    // SAFETY: the caller's promise.
    unsafe { multiply::<16, 6>(&AVX2, gemm) }
}

/// # Safety
/// Each matrix lies in memory that is the caller's, and the output's rows are contiguous; the
/// output overlaps neither operand, and is initialised if `beta` is 1. Column sums are those of
/// whole panels, and the bias is that of all columns, unless they are null.
#[inline(always)]
unsafe fn multiply<const WIDTH: usize, const HEIGHT: usize>(kernels: &Kernels, gemm: &Gemm<'_>) {
    const { assert!(PANEL.is_multiple_of(WIDTH), "column sums are those of whole panels") };
    let Gemm {
        sizes: [rows, inner, columns],
        output: (output, out),
        left,
        right,
        alpha,
        beta,
        epilogue,
        prefetch,
        column_sums,
        bias,
    } = *gemm;
    let prefetch = if prefetch.is_null() { output.cast_const() } else { prefetch };
    let depth = inner.div_ceil(inner.div_ceil(MAX_DEPTH));
    let breadth =
        (PACKED_BLOCK / depth).next_multiple_of(WIDTH).min(columns.next_multiple_of(WIDTH));
    let prefetches_left = left.1.end(rows, inner) - left.1.offset > CACHE_RESIDENT;
    // Not within `with`: a closure would not be compiled for the caller's instruction set.
    let own = WORKSPACE.with(std::ptr::from_ref);
    // SAFETY: the workspace is this thread's and outlives its products; it is not in use, as is
    // checked before its lines are touched.
    let (_release, [strip_buffer, block_buffer]) = unsafe {
        assert!(!(*own).in_use.replace(true), "an epilogue computes no product");
        (Release(&raw const (*own).in_use), &mut *(*own).lines.get())
    };
    let (strip, block) = (
        aligned_buffer(strip_buffer, STRIPS * HEIGHT * (MAX_DEPTH + 32)),
        aligned_buffer(block_buffer, depth * breadth),
    );
    for column in (0..columns).step_by(breadth) {
        let width = breadth.min(columns - column);
        for first in (0..inner).step_by(depth) {
            let block_depth = depth.min(inner - first);
            // SAFETY: `block` has room for `block_depth` rows of all panels, `strip` for the strips
            // of all kernels; all indices lie in their matrices.
            unsafe {
                // Full panels of a row-major right operand are packed by the kernels of the first
                // rows.
                let copied = if right.1.column == 1 { width / WIDTH * WIDTH } else { 0 };
                if copied < width {
                    pack_right::<WIDTH>(
                        right,
                        [first, block_depth, column + copied, width - copied],
                        block.add(copied * block_depth),
                    );
                }
                for row in (0..rows).step_by(HEIGHT) {
                    let height = HEIGHT.min(rows - row);
                    let (pair, numbers, stride) =
                        read_left::<HEIGHT>(kernels, left, [row, rows, first, block_depth], strip);
                    for panel in (0..width).step_by(WIDTH) {
                        if prefetches_left {
                            prefetch_left::<HEIGHT>(
                                left,
                                [row, rows, first, block_depth],
                                [panel, (panel + WIDTH).min(width), width],
                            );
                        }
                        let index = out.offset + row * out.row + column + panel;
                        let beta = if first > 0 { Beta::One } else { beta };
                        let columns = WIDTH.min(width - panel);
                        let bias = if bias.is_null() || first > 0 {
                            std::ptr::null()
                        } else {
                            bias.add(column + panel)
                        };
                        let to = Tile {
                            output: output.add(index),
                            prefetch: prefetch.wrapping_add(index),
                            bias,
                            row: out.row,
                            columns,
                            alpha,
                            beta,
                        };
                        let kernels_by_height =
                            if row == 0 && panel < copied { pair.packing } else { pair.packed };
                        let source = Source(
                            right.0.wrapping_add(
                                right.1.offset + first * right.1.row + column + panel,
                            ),
                            right.1.row,
                        );
                        kernels_by_height[height - 1](
                            block_depth,
                            numbers,
                            stride,
                            block.add(panel * block_depth),
                            source,
                            &to,
                        );
                        if row == 0 && !column_sums.is_null() {
                            (kernels.add_rows)(
                                block_depth,
                                block.add(panel * block_depth),
                                column_sums.add(column + panel),
                            );
                        }
                    }
                    if let Some((epilogue, side, first_row)) =
                        epilogue.filter(|_| first + block_depth == inner)
                    {
                        for row in row..row + height {
                            let part = output.add(out.offset + row * out.row + column);
                            call_epilogue(
                                epilogue,
                                (part, side),
                                [row, columns, column, width],
                                first_row,
                            );
                        }
                    }
                }
            }
        }
    }
}

/// A buffer of `count` elements, aligned to a cache line.
fn aligned_buffer(lines: &mut Vec<CacheLine>, count: usize) -> *mut f32 {
    let count = count.div_ceil(16);
    if lines.len() < count {
        lines.resize(count, CacheLine([0.0; 16]));
    }
    lines.as_mut_ptr().cast()
}

/// Packs rows of the right operand in panels of `WIDTH` columns, one after another; of a row-major
/// operand only one incomplete panel. Values after the last column are multiplied and discarded.
#[inline(always)]
unsafe fn pack_right<const WIDTH: usize>(
    (right, strides): (*const f32, Strides),
    [first, block_depth, column, width]: [usize; 4],
    block: *mut f32,
) {
    // SAFETY: all reads lie in the operand; panels follow each other in the block.
    unsafe {
        let from = right.add(strides.offset + first * strides.row + column * strides.column);
        if strides.column == 1 {
            let eights = width / 8 * 8;
            for row in 0..block_depth {
                let (from, to) = (from.add(row * strides.row), block.add(row * WIDTH));
                for column in (0..eights).step_by(8) {
                    to.add(column)
                        .cast::<[f32; 8]>()
                        .write(from.add(column).cast::<[f32; 8]>().read());
                }
                for column in eights..width {
                    to.add(column).write(from.add(column).read());
                }
            }
            return;
        }
        let even = if strides.row == 1 { (width / 8 * 8, block_depth / 8 * 8) } else { (0, 0) };
        for column in (0..even.0).step_by(8) {
            let (from, to) = (
                from.add(column * strides.column),
                block.add(column / WIDTH * WIDTH * block_depth + column % WIDTH),
            );
            for row in (0..even.1).step_by(8) {
                transpose_8x8(from.add(row), strides.column, to.add(row * WIDTH), WIDTH);
            }
        }
        for column in 0..width {
            let (from, to) = (
                from.add(column * strides.column),
                block.add(column / WIDTH * WIDTH * block_depth + column % WIDTH),
            );
            for row in if column < even.0 { even.1 } else { 0 }..block_depth {
                to.add(row * WIDTH).write(from.add(row * strides.row).read());
            }
        }
    }
}

/// Prefetches, for the panel of the columns from `begin` to `end` of `width`, its share of the left
/// operand's next `HEIGHT` rows.
#[inline(always)]
fn prefetch_left<const HEIGHT: usize>(
    (left, strides): (*const f32, Strides),
    [row, rows, first, block_depth]: [usize; 4],
    [begin, end, width]: [usize; 3],
) {
    // SAFETY: a prefetch does not access memory: any address will do.
    unsafe {
        let from = left.wrapping_add(strides.offset + first * strides.column);
        if strides.column == 1 {
            for row in (row + HEIGHT + HEIGHT * begin / width)
                ..(row + HEIGHT + HEIGHT * end / width).min(rows)
            {
                for column in (0..block_depth).step_by(16) {
                    _mm_prefetch::<_MM_HINT_T1>(
                        from.wrapping_add(row * strides.row + column).cast(),
                    );
                }
            }
            return;
        }
        // The last of the rows: the cache lines of the others are already there, except at first.
        let last = row
            + if strides.column.is_multiple_of(ALIASING_STRIDE) { STRIPS * HEIGHT } else { HEIGHT }
            + HEIGHT
            - 1;
        if last < rows {
            for column in block_depth * begin / width..block_depth * end / width {
                _mm_prefetch::<_MM_HINT_T1>(
                    from.wrapping_add(last + column * strides.column).cast(),
                );
            }
        }
    }
}

/// Up to `HEIGHT` rows of the left operand from row `row` on: the kernels for its layout, one for
/// each number of rows, and the pointer and stride for them. The rows are read in place, or copied
/// to `strip` where their stride would make them evict each other from the caches.
#[inline(always)]
unsafe fn read_left<const HEIGHT: usize>(
    kernels: &Kernels,
    (left, strides): (*const f32, Strides),
    [row, rows, first, block_depth]: [usize; 4],
    strip: *mut f32,
) -> (&KernelPair, *const f32, usize) {
    // SAFETY: all reads lie in the operand; `strip` has room for all strips.
    unsafe {
        let from = left.add(strides.offset + row * strides.row + first * strides.column);
        if strides.column == 1 {
            if !strides.row.is_multiple_of(ALIASING_STRIDE) {
                return (&kernels.row_major, from, strides.row);
            }
            let stride = block_depth.next_multiple_of(16) + 16;
            for row in 0..HEIGHT.min(rows - row) {
                strip
                    .add(row * stride)
                    .copy_from_nonoverlapping(from.add(row * strides.row), block_depth);
            }
            return (&kernels.row_major, strip, stride);
        }
        if !strides.column.is_multiple_of(ALIASING_STRIDE) {
            return (&kernels.column_major, from, strides.column);
        }
        let (group, within) = (STRIPS * HEIGHT, row % (STRIPS * HEIGHT));
        if within == 0 {
            for column in 0..block_depth {
                strip.add(column * group).copy_from_nonoverlapping(
                    from.add(column * strides.column),
                    group.min(rows - row),
                );
            }
        }
        (&kernels.column_major, strip.add(within), group)
    }
}
