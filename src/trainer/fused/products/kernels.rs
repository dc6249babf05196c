//! The innermost loops of matrix products for AVX-512 and AVX2: a tile of the output stays in registers while factors run by.
//!
//! Each number of a tile is one chain of multiplications and additions in the order of the inner dimension, whatever the width of the
//! registers, so that both instances give the same bits.
#![expect(unsafe_code, reason = "factors are read through pointers: checks in the innermost loop would be half of its time")]

use std::arch::x86_64::*;

/// Where a tile goes.
pub(super) struct Tile {
    /// Its first number.
    pub(super) output: *mut f32,
    /// The same place in what else is fetched.
    pub(super) also: *const f32,
    /// What its columns begin with, or null: 0.
    pub(super) start: *const f32,
    /// From one row to the next.
    pub(super) row: usize,
    /// Columns that count.
    pub(super) columns: usize,
    /// What the product is multiplied with.
    pub(super) scale: f32,
    /// Whether it is added to what is there.
    pub(super) adds: bool,
}

/// Where the rows of a right panel lie in their matrix, and how far apart.
#[derive(Clone, Copy)]
pub(super) struct Source(pub(super) *const f32, pub(super) usize);

/// A tile of `inner` products: left numbers, how far their rows lie apart, a right panel, where that is copied from if it is, where the tile goes.
pub(super) type Kernel = unsafe fn(usize, *const f32, usize, *mut f32, Source, &Tile);

/// The kernels of a processor.
pub(super) struct Kernels {
    /// For one row, two rows, .. of left numbers whose rows lie as far apart as is said.
    pub(super) flat: Pair,
    /// The same where it is columns that lie as far apart, the numbers of each one after another.
    pub(super) tall: Pair,
    /// Adds the rows of a right panel, of so many, to as many numbers as it is wide.
    pub(super) add_up: unsafe fn(usize, *const f32, *mut f32),
}

/// Kernels that read a right panel, and those that read it where it comes from and leave it in the panel for others: copied while
/// numbers are multiplied, it costs next to nothing.
pub(super) struct Pair {
    pub(super) read: &'static [Kernel],
    pub(super) copy: &'static [Kernel],
}

/// Rows of a right matrix that are fetched ahead of the one that is copied.
const AHEAD: usize = 12;

macro_rules! tile {
    (
        $name:ident, $add_up:ident, $features:literal, $lanes:literal,
        $zero:ident, $load:ident, $store:ident, $spread:ident, $fma:ident, $times:ident, $plus:ident, $load_some:ident, $store_some:ident
    ) => {
        /// # Safety
        /// The processor has the features; `left` and `right` hold `inner` columns and rows of `R` rows and of a panel; where that is copied,
        /// `source` holds as many rows of its width; the tile's rows and columns are the caller's.
        #[target_feature(enable = $features)]
        unsafe fn $name<const R: usize, const TALL: bool, const COPY: bool>(
            inner: usize,
            left: *const f32,
            apart: usize,
            right: *mut f32,
            source: Source,
            to: &Tile,
        ) {
            let mut sums = [[$zero(); 2]; R];
            // SAFETY: the caller's promise.
            unsafe {
                if !to.start.is_null() {
                    let start = if to.columns == 2 * $lanes {
                        [$load(to.start), $load(to.start.add($lanes))]
                    } else {
                        let [first, second] = [to.columns.min($lanes), to.columns.saturating_sub($lanes)];
                        [$load_some(to.start, first), if second > 0 { $load_some(to.start.add($lanes), second) } else { $zero() }]
                    };
                    sums = [start; R];
                }
                // A pointer for three rows: the processor's addresses reach two more from it.
                let mut rows = [left, left.wrapping_add(3 * apart), left.wrapping_add(6 * apart), left.wrapping_add(9 * apart)];
                let (mut column, mut right, Source(mut source, step)) = (left, right, source);
                // Lines of the output are asked for one after another while the factors run by.
                let (pace, mut reached) = ((R << 16) / inner, 0);
                for _ in 0..inner {
                    let (first, second);
                    if COPY {
                        let later = source.wrapping_add(AHEAD * step);
                        _mm_prefetch::<_MM_HINT_T0>(later.cast());
                        _mm_prefetch::<_MM_HINT_T0>(later.wrapping_add(2 * $lanes - 1).cast());
                        (first, second) = ($load(source), $load(source.add($lanes)));
                        $store(right, first);
                        $store(right.add($lanes), second);
                        source = source.wrapping_add(step);
                    } else {
                        for begin in [to.output.cast_const(), to.also] {
                            let line = begin.wrapping_add((reached >> 16) * to.row);
                            _mm_prefetch::<_MM_HINT_T0>(line.cast());
                            _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(2 * $lanes - 1).cast());
                        }
                        reached += pace;
                        (first, second) = ($load(right), $load(right.add($lanes)));
                    }
                    for row in 0..R {
                        let number = $spread(if TALL { *column.add(row) } else { *rows[row / 3].add(row % 3 * apart) });
                        sums[row][0] = $fma(number, first, sums[row][0]);
                        sums[row][1] = $fma(number, second, sums[row][1]);
                    }
                    // Written out: a closure is compiled for this processor, what calls it in the library is not, and nothing is inlined.
                    rows = [rows[0].wrapping_add(1), rows[1].wrapping_add(1), rows[2].wrapping_add(1), rows[3].wrapping_add(1)];
                    column = column.wrapping_add(apart);
                    right = right.add(2 * $lanes);
                }
                // Which it mostly is not: the multiplications would be a hundredth of a tile of 64 inner numbers.
                if to.scale != 1.0 {
                    let scale = $spread(to.scale);
                    for row in 0..R {
                        sums[row] = [$times(sums[row][0], scale), $times(sums[row][1], scale)];
                    }
                }
                if to.columns == 2 * $lanes {
                    for row in 0..R {
                        let (first, second) = (to.output.add(row * to.row), to.output.add(row * to.row + $lanes));
                        let [mut a, mut b] = sums[row];
                        if to.adds {
                            (a, b) = ($plus(a, $load(first)), $plus(b, $load(second)));
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
                        let (output, mut sum) = (row_output.add(part * $lanes), sums[row][part]);
                        if counts[part] > 0 {
                            if to.adds {
                                sum = $plus(sum, $load_some(output, counts[part]));
                            }
                            $store_some(output, sum, counts[part]);
                        }
                    }
                }
            }
        }

        /// # Safety
        /// The processor has the features; `right` holds `inner` rows of a panel, `sums` one.
        #[target_feature(enable = $features)]
        unsafe fn $add_up(inner: usize, right: *const f32, sums: *mut f32) {
            // SAFETY: the caller's promise.
            unsafe {
                let (mut first, mut second) = ($load(sums), $load(sums.add($lanes)));
                for row in 0..inner {
                    let row = right.add(row * 2 * $lanes);
                    first = $plus(first, $load(row));
                    second = $plus(second, $load(row.add($lanes)));
                }
                $store(sums, first);
                $store(sums.add($lanes), second);
            }
        }
    };
}

tile!(
    tile16,
    add_up16,
    "avx512f,fma",
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_mul_ps,
    _mm512_add_ps,
    load_some16,
    store_some16
);
tile!(
    tile8,
    add_up8,
    "avx2,fma",
    8,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps,
    _mm256_mul_ps,
    _mm256_add_ps,
    load_some8,
    store_some8
);

macro_rules! kernels {
    ($name:ident, $add_up:ident, $tile:ident: $($rows:literal)*) => {
        pub(super) static $name: Kernels = Kernels {
            flat: Pair { read: &[$($tile::<$rows, false, false>),*], copy: &[$($tile::<$rows, false, true>),*] },
            tall: Pair { read: &[$($tile::<$rows, true, false>),*], copy: &[$($tile::<$rows, true, true>),*] },
            add_up: $add_up,
        };
    };
}

// As many sums as registers hold beside the numbers that are multiplied.
kernels!(AVX512, add_up16, tile16: 1 2 3 4 5 6 7 8 9 10 11 12);
kernels!(AVX2, add_up8, tile8: 1 2 3 4 5 6);

#[target_feature(enable = "avx512f")]
unsafe fn load_some16(from: *const f32, count: usize) -> __m512 {
    // SAFETY: the mask keeps to the `count` numbers that are the caller's.
    unsafe { _mm512_maskz_loadu_ps(u16::MAX >> (16 - count), from) }
}

#[target_feature(enable = "avx512f")]
unsafe fn store_some16(to: *mut f32, numbers: __m512, count: usize) {
    // SAFETY: as above.
    unsafe { _mm512_mask_storeu_ps(to, u16::MAX >> (16 - count), numbers) }
}

#[target_feature(enable = "avx2")]
fn mask8(count: usize) -> __m256i {
    const ONES_THEN_ZEROS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: 8 of 16 numbers are read from one of the first 9 on.
    unsafe { _mm256_loadu_si256(ONES_THEN_ZEROS[8 - count.min(8)..].as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
unsafe fn load_some8(from: *const f32, count: usize) -> __m256 {
    // SAFETY: the mask keeps to the `count` numbers that are the caller's.
    unsafe { _mm256_maskload_ps(from, mask8(count)) }
}

#[target_feature(enable = "avx2")]
unsafe fn store_some8(to: *mut f32, numbers: __m256, count: usize) {
    // SAFETY: as above.
    unsafe { _mm256_maskstore_ps(to, mask8(count), numbers) }
}

/// Eight rows of eight numbers, `apart` from each other, turned into eight rows `wide` apart.
///
/// # Safety
/// The processor has AVX; both places are the caller's and do not overlap.
#[inline(always)]
pub(super) unsafe fn turn(from: *const f32, apart: usize, to: *mut f32, wide: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = |row: usize| _mm256_loadu_ps(from.add(row * apart));
        let rows = [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)];
        let low = |pair: usize| _mm256_unpacklo_ps(rows[2 * pair], rows[2 * pair + 1]);
        let high = |pair: usize| _mm256_unpackhi_ps(rows[2 * pair], rows[2 * pair + 1]);
        let four = |pair: usize| {
            let (low, more_low, high, more_high) = (low(pair), low(pair + 1), high(pair), high(pair + 1));
            [
                _mm256_shuffle_ps::<0x44>(low, more_low),
                _mm256_shuffle_ps::<0xEE>(low, more_low),
                _mm256_shuffle_ps::<0x44>(high, more_high),
                _mm256_shuffle_ps::<0xEE>(high, more_high),
            ]
        };
        let (upper, lower) = (four(0), four(2));
        for column in 0..4 {
            _mm256_storeu_ps(to.add(column * wide), _mm256_permute2f128_ps::<0x20>(upper[column], lower[column]));
            _mm256_storeu_ps(to.add((column + 4) * wide), _mm256_permute2f128_ps::<0x31>(upper[column], lower[column]));
        }
    }
}
