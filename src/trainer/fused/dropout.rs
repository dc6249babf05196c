//! Counter-based dropout: masks are computed where they are needed, forward and backward, and never
//! stored.

use super::simd::{extend_zip_map, simd_level, vectorised};
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// Which elements are dropped at one site of one forward pass: a function of the site's key and an
/// element's row and column alone.
///
/// A row's key takes two rounds of a 32-bit mixer with half of the site's key each, an element one
/// more round with the row's key. Rows whose keys differ in low bits alone drop the same elements
/// in another order: one such pair per 30 masks of a thousand rows of 256, four pairs per mask of
/// 24,000 rows of 64. The hash is light, not cryptographic; `tests/randomness.rs` tests it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DropoutMask {
    pub(super) low: u32,
    pub(super) high: u32,
    /// Elements whose hash is below it are dropped.
    pub(super) threshold: u32,
    /// The factor of the others, `1 / (1 - rate)`.
    pub(crate) scale: f32,
}

impl DropoutMask {
    /// `rate` is in [0, 1).
    pub(crate) fn new(key: u64, rate: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rate is in [0, 1), and halves of the key are meant"
        )]
        let (threshold, low, high) =
            ((rate * 4_294_967_296.0) as u32, key as u32, (key >> 32) as u32);
        #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
        let scale = (1.0 / (1.0 - rate)) as f32;
        Self { low, high, threshold, scale }
    }

    /// What a kernel needs: the halves of the key, and the threshold.
    #[cfg(feature = "gpu")]
    pub(crate) fn words(self) -> (u32, u32, u32) {
        (self.low, self.high, self.threshold)
    }

    #[inline(always)]
    pub(super) fn row(self, row: usize) -> DropoutMaskRow {
        DropoutMaskRow {
            key: mix(mix(counter(row) ^ self.low).wrapping_add(self.high)),
            threshold: self.threshold,
            scale: self.scale,
        }
    }

    /// The factors of `rows` rows, one after another.
    #[cfg(test)]
    pub(crate) fn factors(self, rows: usize, columns: usize) -> Vec<f32> {
        (0..rows)
            .flat_map(|row| (0..columns).map(move |column| self.row(row).factor(column)))
            .collect()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct DropoutMaskRow {
    key: u32,
    threshold: u32,
    scale: f32,
}

impl DropoutMaskRow {
    /// The factor of the element in a column: 0 or `scale`.
    #[inline(always)]
    pub(super) fn factor(self, column: usize) -> f32 {
        if mix(counter(column) ^ self.key) < self.threshold { 0.0 } else { self.scale }
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

/// Beyond 2^32 rows or columns the mask repeats, which does no harm.
#[inline(always)]
fn counter(index: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    let counter = index as u32;
    counter
}

/// Dropout of `x [rows, width]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dropout {
    pub(crate) width: usize,
    pub(crate) mask: DropoutMask,
}

impl Operation<1> for Dropout {
    const SAVES_INPUT: [bool; 1] = [false];
    type Saved = ();

    fn forward(&self, [x]: [&[f32]; 1], _: GradMode) -> (Vec<f32>, ()) {
        (apply_dropout(x, self.width, self.mask), ())
    }

    fn backward(&self, pass: BackwardInput<1, ()>) -> [InputGradient; 1] {
        let gradient = pass.gradient;
        [InputGradient::Values(apply_dropout(gradient, self.width, self.mask))]
    }
}

vectorised! {
    /// Multiplies rows of `width` elements with their factors.
    pub(super) fn apply_dropout(x: &[f32], width: usize, mask: DropoutMask) -> Vec<f32> {
        let mut output = Vec::with_capacity(x.len());
        for (row, x) in x.chunks_exact(width).enumerate() {
            let mask = mask.row(row);
            extend_zip_map(&mut output, x, x, |column, x, _| x * mask.factor(column));
        }
        output
    }
}
