//! Dropout by counters: which numbers are dropped is computed where it is needed, forward and backward, and stored nowhere.

use super::lanes::{made, vectorised};
use super::{Operation, Purpose, Slope};

/// Which elements are dropped at one site of one forward pass: a function of the site's key and an element's place alone.
///
/// Two rounds of a 32-bit mixer with half of the key each: with one, the masks of two keys would be shifts of each other (and are, place by
/// place exchanged, for keys of one upper half: one pair of 2^32, since keys are digests). It is a light hash, not a cryptographic one;
/// `tests/chance.rs` says what it was tested for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::trainer) struct Mask {
    low: u32,
    high: u32,
    /// Draws below it are dropped.
    threshold: u32,
    /// What the others are multiplied with.
    pub(super) kept: f32,
}

impl Mask {
    /// Drops a share of `rate`, which is in [0, 1).
    pub(in crate::trainer) fn new(key: u64, rate: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rate is in [0, 1), and halves of the key are meant")]
        let (threshold, low, high) = ((rate * 4_294_967_296.0) as u32, key as u32, (key >> 32) as u32);
        #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
        let kept = (1.0 / (1.0 - rate)) as f32;
        Self { low, high, threshold, kept }
    }

    /// What the element at `place` is multiplied with: 0, or what makes up for those dropped.
    #[inline(always)]
    pub(super) fn factor(self, place: u32) -> f32 {
        if mix(mix(place ^ self.low).wrapping_add(self.high)) < self.threshold { 0.0 } else { self.kept }
    }

    /// The factors of the first `len` elements, for devices that multiply tensors.
    pub(in crate::trainer) fn numbers(self, len: usize) -> Vec<f32> {
        factors(self, len)
    }
}

/// A bijection of 32 bits with low bias (Wellons, "Prospecting for Hash Functions", 2018).
#[inline(always)]
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7FEB_352D);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846C_A68B);
    x ^ (x >> 16)
}

/// The low half of a place: more than 2^32 elements repeat the mask, which harms nothing.
#[inline(always)]
pub(super) fn counter(place: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "as said")]
    let counter = place as u32;
    counter
}

vectorised! {
    fn factors(mask: Mask, len: usize) -> Vec<f32> {
        (0..len).map(|place| mask.factor(counter(place))).collect()
    }
}

/// `x` with its dropped elements set to 0 and the others scaled up.
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct Dropout(pub(in crate::trainer) Mask);

impl Operation<1> for Dropout {
    const NEEDS: [bool; 1] = [false];
    type Kept = ();

    fn forward(&self, [x]: [&[f32]; 1], _: Purpose) -> (Vec<f32>, ()) {
        (masked(x, self.0), ())
    }

    fn backward(&self, _: [&[f32]; 1], (): (), gradient: &[f32], _: [bool; 1]) -> [Slope; 1] {
        [Slope::New(masked(gradient, self.0))]
    }
}

vectorised! {
    pub(super) fn masked(x: &[f32], mask: Mask) -> Vec<f32> {
        made(x, x, |place, x, _| x * mask.factor(counter(place)))
    }
}
