//! Loops over single floats that become vector instructions: an exponential and sums in a fixed order.

use std::mem::MaybeUninit;

/// Partial sums of a reduction: the order of additions is the same whatever the processor's width.
const LANES: usize = 16;

/// The processors that loops are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Instance {
    /// Any of the architecture.
    Plain,
    /// With AVX2 and FMA.
    Avx2,
    /// With AVX-512 and FMA.
    Avx512,
}

/// The best instance that this processor can run.
pub(super) fn widest() -> Instance {
    #[cfg(target_arch = "x86_64")]
    let found = match (is_x86_feature_detected!("fma"), is_x86_feature_detected!("avx512f"), is_x86_feature_detected!("avx2")) {
        (true, true, _) => Instance::Avx512,
        (true, false, true) => Instance::Avx2,
        _ => Instance::Plain,
    };
    #[cfg(not(target_arch = "x86_64"))]
    let found = Instance::Plain;
    #[cfg(test)]
    let found = found.min(MOST.get());
    found
}

#[cfg(test)]
thread_local! {
    /// The best instance that tests on this thread let loops use.
    pub(super) static MOST: std::cell::Cell<Instance> = const { std::cell::Cell::new(Instance::Avx512) };
}

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
                #[target_feature(enable = "avx512f,fma")]
                fn avx512($($argument: $kind),*) $(-> $output)? {
                    plain($($argument),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($argument: $kind),*) $(-> $output)? {
                    plain($($argument),*)
                }
                match $crate::trainer::fused::lanes::widest() {
                    // SAFETY: the processor has what the instance needs.
                    $crate::trainer::fused::lanes::Instance::Avx512 => return unsafe { avx512($($argument),*) },
                    // SAFETY: as above.
                    $crate::trainer::fused::lanes::Instance::Avx2 => return unsafe { avx2($($argument),*) },
                    $crate::trainer::fused::lanes::Instance::Plain => {}
                }
            }
            plain($($argument),*)
        }
    };
}
pub(super) use vectorised;

/// e^x with a relative error below 2e-7 for -87 < x < 88; NaN stays NaN, what lies beyond is cut there (Cephes' `expf`).
///
/// Fused multiplications give the same bits everywhere, and are slow on processors without FMA (before 2013).
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to a whole number, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    // No `clamp`, `min` or `max`: they would turn a NaN into a number.
    let x = if x < -87.3 { -87.3 } else { x };
    let x = if x > 88.3 { 88.3 } else { x };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let power = shifted - ROUND;
    let rest = power.mul_add(2.121_944_4e-4, power.mul_add(-0.693_359_4, x));
    let mut series = 1.987_569_1e-4;
    for factor in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        series = rest.mul_add(series, factor);
    }
    let scale = f32::from_bits(shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    ((series * rest).mul_add(rest, rest) + 1.0) * scale
}

/// Writes to `room` a number for each place of it and of two slices as long: what `each` makes of the place and the two numbers there.
///
/// A loop of its own, since `collect` and `extend` are not always compiled into their caller, and then not for its processor.
#[inline(always)]
pub(super) fn fill(room: &mut [MaybeUninit<f32>], a: &[f32], b: &[f32], each: impl Fn(usize, f32, f32) -> f32) {
    assert!(a.len() == room.len() && b.len() == room.len(), "a number of each for each place");
    for (place, (room, (a, b))) in room.iter_mut().zip(a.iter().zip(b)).enumerate() {
        room.write(each(place, *a, *b));
    }
}

/// Adds to `output` a number for each place of two slices, made as [`fill`] does.
#[inline(always)]
#[expect(unsafe_code, reason = "room is not filled with zeros first, which would be one more pass over memory")]
pub(super) fn append(output: &mut Vec<f32>, a: &[f32], b: &[f32], each: impl Fn(usize, f32, f32) -> f32) {
    let len = a.len().min(b.len());
    output.reserve(len);
    fill(&mut output.spare_capacity_mut()[..len], &a[..len], &b[..len], each);
    // SAFETY: the `len` numbers after those that were there have just been written.
    unsafe { output.set_len(output.len() + len) };
}

/// New numbers, made as [`append`] does.
#[inline(always)]
pub(super) fn made(a: &[f32], b: &[f32], each: impl Fn(usize, f32, f32) -> f32) -> Vec<f32> {
    let mut output = Vec::with_capacity(a.len());
    append(&mut output, a, b, each);
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
        // Other lanes, since those above stay in a register only if no place among them is computed.
        let mut some = lanes;
        for ((lane, a), b) in some.iter_mut().zip(a_rest).zip(b_rest) {
            *lane += term(*a, *b);
        }
        lanes = some;
    }
    folded(lanes, |one, other| one + other)
}

/// All lanes in one: each of a half is joined with the one as far in the other half, until one is left.
#[inline(always)]
fn folded(lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
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

/// The greatest number, NaN left aside.
#[inline(always)]
pub(super) fn greatest(numbers: &[f32]) -> f32 {
    // Nothing is greater than NaN, nor is that greater than anything.
    let greater = |a: f32, b: f32| if a > b { a } else { b };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = greater(chunk[lane], lanes[lane]);
        }
    }
    for (lane, number) in lanes.iter_mut().zip(rest) {
        *lane = greater(*number, *lane);
    }
    folded(lanes, greater)
}
