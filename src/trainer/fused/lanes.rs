//! Loops over single floats that become vector instructions: an exponential, sums in a fixed order, strided matrix products.

/// Partial sums of a reduction: the order of additions is the same whatever the processor's width.
const LANES: usize = 16;

/// Defines a function with instances for AVX-512 and AVX2; the best that the processor has is called.
macro_rules! vectorised {
    ($(#[$doc:meta])* $visibility:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $output:ty)? $body:block) => {
        $(#[$doc])*
        #[cfg_attr(
            target_arch = "x86_64",
            expect(unsafe_code, reason = "an instance for newer processors may only be called on those, which the compiler cannot see")
        )]
        $visibility fn $name($($argument: $kind),*) $(-> $output)? {
            #[inline(always)]
            fn plain($($argument: $kind),*) $(-> $output)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f")]
                fn avx512($($argument: $kind),*) $(-> $output)? {
                    plain($($argument),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $kind),*) $(-> $output)? {
                    plain($($argument),*)
                }
                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: the processor has what the instance needs.
                    return unsafe { avx512($($argument),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: as above.
                    return unsafe { avx2($($argument),*) };
                }
            }
            plain($($argument),*)
        }
    };
}
pub(super) use vectorised;

/// e^x with a relative error below 2e-7 for -87 < x < 88; NaN stays NaN, what lies beyond is cut there (Cephes' `expf`).
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to a whole number, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    // No `clamp`, `min` or `max`: they would turn a NaN into a number.
    let x = if x < -87.3 { -87.3 } else { x };
    let x = if x > 88.3 { 88.3 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let power = shifted - ROUND;
    let rest = x - power * 0.693_359_4 - power * -2.121_944_4e-4;
    let mut series = 1.987_569_1e-4;
    for factor in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        series = series * rest + factor;
    }
    let scale = f32::from_bits(shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    (series * rest * rest + rest + 1.0) * scale
}

/// The sum of `term` over two slices of one length.
#[inline(always)]
pub(super) fn sum(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] += term(a[lane], b[lane]);
        }
    }
    for ((lane, a), b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane += term(*a, *b);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The greatest number, NaN left aside.
#[inline(always)]
pub(super) fn greatest(numbers: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = if chunk[lane] > lanes[lane] { chunk[lane] } else { lanes[lane] };
        }
    }
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}

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

    /// The same matrix on its side.
    pub(super) fn transposed(self) -> Self {
        Self { row: self.column, column: self.row, ..self }
    }

    fn end(self, rows: usize, columns: usize) -> usize {
        self.start + (rows - 1) * self.row + (columns - 1) * self.column
    }
}

/// `output = scale * left right`, of `[rows, inner]` and `[inner, columns]`.
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
) {
    if rows * inner * columns == 0 {
        return;
    }
    assert!(out.end(rows, columns) < output.len() && l.end(rows, inner) < left.len() && r.end(inner, columns) < right.len());
    let step = |place: usize| isize::try_from(place).expect("a slice's length fits");
    // SAFETY: the least and the greatest index of each matrix lie within its slice, as just checked, so all others do; the output is borrowed
    // mutably and overlaps neither factor.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            output.as_mut_ptr().add(out.start),
            step(out.column),
            step(out.row),
            false,
            left.as_ptr().add(l.start),
            step(l.column),
            step(l.row),
            right.as_ptr().add(r.start),
            step(r.column),
            step(r.row),
            0.0,
            scale,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
