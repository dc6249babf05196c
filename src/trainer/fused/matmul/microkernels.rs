//! Micro-kernels for AVX-512 and AVX2: a tile of the output stays in registers while the operands
//! stream by.
//!
//! Each element of a tile is one chain of fused multiply-adds in the order of the inner dimension,
//! whatever the width of the registers, so that both instances give the same bits.
#![expect(
    unsafe_code,
    reason = "operands are read through pointers: bounds checks would take half of the innermost \
        loop's time"
)]

use std::arch::x86_64::*;

use super::Beta;

/// The destination of a tile.
pub(super) struct Tile {
    pub(super) output: *mut f32,
    /// Prefetched together with the output.
    pub(super) prefetch: *const f32,
    /// Initial values of the columns, or null: 0.
    pub(super) bias: *const f32,
    /// Row stride.
    pub(super) row: usize,
    /// Columns that are stored.
    pub(super) columns: usize,
    pub(super) alpha: f32,
    pub(super) beta: Beta,
}

/// The rows of an unpacked right panel, and their stride.
#[derive(Clone, Copy)]
pub(super) struct Source(pub(super) *const f32, pub(super) usize);

/// Computes a tile: inner dimension, left operand, its stride, packed right panel, source of the
/// panel if it is packed here, destination.
pub(super) type Kernel = unsafe fn(usize, *const f32, usize, *mut f32, Source, &Tile);

/// The kernels of an instruction set.
pub(super) struct Kernels {
    /// For one row, two rows and so on of a row-major left operand.
    pub(super) row_major: KernelPair,
    /// For rows of a column-major left operand.
    pub(super) column_major: KernelPair,
    /// Adds the rows of a packed right panel, of the given number, to column sums.
    pub(super) add_rows: unsafe fn(usize, *const f32, *mut f32),
}

/// Kernels that read a packed right panel, and those that pack it while they compute, at almost no
/// cost.
pub(super) struct KernelPair {
    pub(super) packed: &'static [Kernel],
    pub(super) packing: &'static [Kernel],
}

/// Rows of the right operand that are prefetched ahead of the one being packed.
const PREFETCH_ROWS: usize = 12;

macro_rules! tile_kernel {
    (
        $name:ident, $add_rows:ident, $features:literal, $lanes:literal,
        $zero:ident, $load:ident, $store:ident, $broadcast:ident, $fma:ident, $mul:ident,
        $add:ident, $load_partial:ident, $store_partial:ident
    ) => {
        /// # Safety
        /// The CPU has the features; `left` and `right` hold `inner` columns of `R` rows and
        /// `inner` rows of a panel; `source` holds as many rows where the panel is packed; the
        /// destination is the caller's.
        #[target_feature(enable = $features)]
        unsafe fn $name<const R: usize, const COLUMN_MAJOR: bool, const PACKING: bool>(
            inner: usize,
            left: *const f32,
            stride: usize,
            right: *mut f32,
            source: Source,
            to: &Tile,
        ) {
            let mut accumulators = [[$zero(); 2]; R];
            // SAFETY: the caller's promise.
            unsafe {
                if !to.bias.is_null() {
                    let bias = if to.columns == 2 * $lanes {
                        [$load(to.bias), $load(to.bias.add($lanes))]
                    } else {
                        let [first, second] =
                            [to.columns.min($lanes), to.columns.saturating_sub($lanes)];
                        [
                            $load_partial(to.bias, first),
                            if second > 0 {
                                $load_partial(to.bias.add($lanes), second)
                            } else {
                                $zero()
                            },
                        ]
                    };
                    accumulators = [bias; R];
                }
                // One pointer per three rows: addressing modes reach the two others.
                let mut rows = [
                    left,
                    left.wrapping_add(3 * stride),
                    left.wrapping_add(6 * stride),
                    left.wrapping_add(9 * stride),
                ];
                let (mut column, mut right, Source(mut source, step)) = (left, right, source);
                // The output's cache lines are prefetched one after another during the loop.
                let (lines_per_step, mut next_line) = ((R << 16) / inner, 0);
                for _ in 0..inner {
                    let (first, second);
                    if PACKING {
                        let ahead = source.wrapping_add(PREFETCH_ROWS * step);
                        _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                        _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(2 * $lanes - 1).cast());
                        (first, second) = ($load(source), $load(source.add($lanes)));
                        $store(right, first);
                        $store(right.add($lanes), second);
                        source = source.wrapping_add(step);
                    } else {
                        for begin in [to.output.cast_const(), to.prefetch] {
                            let line = begin.wrapping_add((next_line >> 16) * to.row);
                            _mm_prefetch::<_MM_HINT_T0>(line.cast());
                            _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(2 * $lanes - 1).cast());
                        }
                        next_line += lines_per_step;
                        (first, second) = ($load(right), $load(right.add($lanes)));
                    }
                    for row in 0..R {
                        let number = $broadcast(if COLUMN_MAJOR {
                            *column.add(row)
                        } else {
                            *rows[row / 3].add(row % 3 * stride)
                        });
                        accumulators[row][0] = $fma(number, first, accumulators[row][0]);
                        accumulators[row][1] = $fma(number, second, accumulators[row][1]);
                    }
                    // Written out: the library's caller of a closure is not compiled for this
                    // instruction set, so that nothing would be inlined.
                    rows = [
                        rows[0].wrapping_add(1),
                        rows[1].wrapping_add(1),
                        rows[2].wrapping_add(1),
                        rows[3].wrapping_add(1),
                    ];
                    column = column.wrapping_add(stride);
                    right = right.add(2 * $lanes);
                }
                // Rarely: the multiplications would be a hundredth of a tile with an inner
                // dimension of 64.
                if to.alpha != 1.0 {
                    let alpha = $broadcast(to.alpha);
                    for row in 0..R {
                        accumulators[row] =
                            [$mul(accumulators[row][0], alpha), $mul(accumulators[row][1], alpha)];
                    }
                }
                if to.columns == 2 * $lanes {
                    for row in 0..R {
                        let (first, second) =
                            (to.output.add(row * to.row), to.output.add(row * to.row + $lanes));
                        let [mut a, mut b] = accumulators[row];
                        if to.beta == Beta::One {
                            (a, b) = ($add(a, $load(first)), $add(b, $load(second)));
                        }
                        $store(first, a);
                        $store(second, b);
                    }
                    return;
                }
                let counts = [to.columns.min($lanes), to.columns.saturating_sub($lanes)];
                for row in 0..R {
                    let row_output = to.output.add(row * to.row);
                    for part in 0..2 {
                        let (output, mut sum) =
                            (row_output.add(part * $lanes), accumulators[row][part]);
                        if counts[part] > 0 {
                            if to.beta == Beta::One {
                                sum = $add(sum, $load_partial(output, counts[part]));
                            }
                            $store_partial(output, sum, counts[part]);
                        }
                    }
                }
            }
        }

        /// # Safety
        /// The CPU has the features; `right` holds `inner` rows of a panel, `sums` one.
        #[target_feature(enable = $features)]
        unsafe fn $add_rows(inner: usize, right: *const f32, sums: *mut f32) {
            // SAFETY: the caller's promise.
            unsafe {
                let (mut first, mut second) = ($load(sums), $load(sums.add($lanes)));
                for row in 0..inner {
                    let row = right.add(row * 2 * $lanes);
                    first = $add(first, $load(row));
                    second = $add(second, $load(row.add($lanes)));
                }
                $store(sums, first);
                $store(sums.add($lanes), second);
            }
        }
    };
}

tile_kernel! {
    tile16, add_rows16, "avx512f,fma", 16,
    _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps,
    _mm512_mul_ps, _mm512_add_ps, load_partial16, store_partial16
}
tile_kernel! {
    tile8, add_rows8, "avx2,fma", 8,
    _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps,
    _mm256_mul_ps, _mm256_add_ps, load_partial8, store_partial8
}

macro_rules! kernels {
    ($name:ident, $add_rows:ident, $tile_kernel:ident: $($rows:literal)*) => {
        pub(super) static $name: Kernels = Kernels {
            row_major: KernelPair {
                packed: &[$($tile_kernel::<$rows, false, false>),*],
                packing: &[$($tile_kernel::<$rows, false, true>),*],
            },
            column_major: KernelPair {
                packed: &[$($tile_kernel::<$rows, true, false>),*],
                packing: &[$($tile_kernel::<$rows, true, true>),*],
            },
            add_rows: $add_rows,
        };
    };
}

// As many rows as accumulators fit into the registers.
kernels!(AVX512, add_rows16, tile16: 1 2 3 4 5 6 7 8 9 10 11 12);
kernels!(AVX2, add_rows8, tile8: 1 2 3 4 5 6);

#[target_feature(enable = "avx512f")]
unsafe fn load_partial16(from: *const f32, count: usize) -> __m512 {
    // SAFETY: the mask selects the `count` elements that are the caller's.
    unsafe { _mm512_maskz_loadu_ps(u16::MAX >> (16 - count), from) }
}

#[target_feature(enable = "avx512f")]
unsafe fn store_partial16(to: *mut f32, numbers: __m512, count: usize) {
    // SAFETY: as above.
    unsafe { _mm512_mask_storeu_ps(to, u16::MAX >> (16 - count), numbers) }
}

#[target_feature(enable = "avx2")]
fn mask8(count: usize) -> __m256i {
    const ONES_THEN_ZEROS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: 8 of 16 elements are read, from one of the first 9 on.
    unsafe { _mm256_loadu_si256(ONES_THEN_ZEROS[8 - count.min(8)..].as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
unsafe fn load_partial8(from: *const f32, count: usize) -> __m256 {
    // SAFETY: the mask selects the `count` elements that are the caller's.
    unsafe { _mm256_maskload_ps(from, mask8(count)) }
}

#[target_feature(enable = "avx2")]
unsafe fn store_partial8(to: *mut f32, numbers: __m256, count: usize) {
    // SAFETY: as above.
    unsafe { _mm256_maskstore_ps(to, mask8(count), numbers) }
}

/// Transposes eight rows of eight elements, `stride` apart, into eight rows `to_stride` apart.
///
/// # Safety
/// The CPU has AVX; both matrices are the caller's and do not overlap.
#[inline(always)]
pub(super) unsafe fn transpose_8x8(
    from: *const f32,
    stride: usize,
    to: *mut f32,
    to_stride: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = |row: usize| _mm256_loadu_ps(from.add(row * stride));
        let rows = [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)];
        let low = |pair: usize| _mm256_unpacklo_ps(rows[2 * pair], rows[2 * pair + 1]);
        let high = |pair: usize| _mm256_unpackhi_ps(rows[2 * pair], rows[2 * pair + 1]);
        let four = |pair: usize| {
            let (low, more_low, high, more_high) =
                (low(pair), low(pair + 1), high(pair), high(pair + 1));
            [
                _mm256_shuffle_ps::<0x44>(low, more_low),
                _mm256_shuffle_ps::<0xEE>(low, more_low),
                _mm256_shuffle_ps::<0x44>(high, more_high),
                _mm256_shuffle_ps::<0xEE>(high, more_high),
            ]
        };
        let (upper, lower) = (four(0), four(2));
        for column in 0..4 {
            _mm256_storeu_ps(
                to.add(column * to_stride),
                _mm256_permute2f128_ps::<0x20>(upper[column], lower[column]),
            );
            _mm256_storeu_ps(
                to.add((column + 4) * to_stride),
                _mm256_permute2f128_ps::<0x31>(upper[column], lower[column]),
            );
        }
    }
}
