//! Loops over f32 that compile to vector instructions: an exponential, element-wise maps, and
//! reductions in a fixed order.

use std::mem::MaybeUninit;

pub(super) use hpsearch_core::simd::{SimdLevel, vectorised};

/// Partial results of a reduction: the order of additions does not depend on the vector width of
/// the CPU.
const LANES: usize = 16;

/// The best level of this CPU.
pub(super) fn simd_level() -> SimdLevel {
    let level = hpsearch_core::simd::simd_level();
    #[cfg(test)]
    let level = level.min(MAX_LEVEL.get());
    level
}

#[cfg(test)]
thread_local! {
    /// The best level that loops on this thread may use in a test.
    pub(super) static MAX_LEVEL: std::cell::Cell<SimdLevel> =
        const { std::cell::Cell::new(SimdLevel::Avx512) };
}

/// e^x with a relative error below 2e-7 for -87 < x < 88, clamped beyond; NaN stays NaN (Cephes'
/// `expf`).
///
/// Fused multiply-adds give the same bits everywhere; without hardware FMA (before 2013) they are
/// slow.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    // Not `clamp`, `min` or `max`, which would turn NaN into a number.
    let x = if x < -87.3 { -87.3 } else { x };
    let x = if x > 88.3 { 88.3 } else { x };
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let exponent = rounded - ROUND;
    let remainder = exponent.mul_add(2.121_944_4e-4, exponent.mul_add(-0.693_359_4, x));
    let mut polynomial = 1.987_569_1e-4;
    for factor in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        polynomial = remainder.mul_add(polynomial, factor);
    }
    let scale =
        f32::from_bits(rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    ((polynomial * remainder).mul_add(remainder, remainder) + 1.0) * scale
}

/// Writes `function(index, a[index], b[index])` to each element of `output`.
///
/// A loop of its own, since `collect` and `extend` are not always inlined, and then not compiled
/// for the caller's instruction set.
#[inline(always)]
pub(super) fn write_zip_map(
    output: &mut [MaybeUninit<f32>],
    a: &[f32],
    b: &[f32],
    function: impl Fn(usize, f32, f32) -> f32,
) {
    assert!(a.len() == output.len() && b.len() == output.len(), "slices of one length");
    for (index, (output, (a, b))) in output.iter_mut().zip(a.iter().zip(b)).enumerate() {
        output.write(function(index, *a, *b));
    }
}

/// Appends to `output` what [`write_zip_map`] writes.
#[inline(always)]
#[expect(unsafe_code, reason = "zeroing the buffer first would be one more pass over memory")]
pub(super) fn extend_zip_map(
    output: &mut Vec<f32>,
    a: &[f32],
    b: &[f32],
    function: impl Fn(usize, f32, f32) -> f32,
) {
    let len = a.len().min(b.len());
    output.reserve(len);
    write_zip_map(&mut output.spare_capacity_mut()[..len], &a[..len], &b[..len], function);
    // SAFETY: `write_zip_map` has just written the `len` elements after the old ones.
    unsafe { output.set_len(output.len() + len) };
}

/// A new vector of what [`write_zip_map`] writes.
#[inline(always)]
pub(super) fn zip_map(a: &[f32], b: &[f32], function: impl Fn(usize, f32, f32) -> f32) -> Vec<f32> {
    let mut output = Vec::with_capacity(a.len());
    extend_zip_map(&mut output, a, b, function);
    output
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
    if !a_rest.is_empty() {
        // A copy, since the lanes above stay in registers only if none is addressed by a variable.
        let mut partial = lanes;
        for ((lane, a), b) in partial.iter_mut().zip(a_rest).zip(b_rest) {
            *lane += term(*a, *b);
        }
        lanes = partial;
    }
    fold_lanes(lanes, |one, other| one + other)
}

/// Reduces the lanes pairwise, halves against each other.
#[inline(always)]
fn fold_lanes(lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut eight = [0.0; 8];
    for lane in 0..8 {
        eight[lane] = join(lanes[lane], lanes[lane + 8]);
    }
    let mut four = [0.0; 4];
    for lane in 0..4 {
        four[lane] = join(eight[lane], eight[lane + 4]);
    }
    join(join(four[0], four[2]), join(four[1], four[3]))
}

/// The greatest value, ignoring NaN.
#[inline(always)]
pub(super) fn maximum(values: &[f32]) -> f32 {
    // Comparisons with NaN are false.
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, remainder) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = larger(chunk[lane], lanes[lane]);
        }
    }
    for (lane, number) in lanes.iter_mut().zip(remainder) {
        *lane = larger(*number, *lane);
    }
    fold_lanes(lanes, larger)
}
