//! Dropout by counters: which numbers are dropped is computed where it is needed, forward and backward, and stored nowhere.

use burn::tensor::{Bool, Device, Int, IntDType, Tensor};

use super::lanes::{append, vectorised};
use super::{Operation, Purpose, Slope};

/// Which elements are dropped at one site of one forward pass: a function of the site's key, an element's row and its column alone.
///
/// A row's key takes two rounds of a 32-bit mixer with half of the site's key each, an element one more with the row's. Two rows
/// whose keys differ in their low bits alone would drop the same elements in another order: of a thousand rows of 256 one such pair in 30
/// masks, of 24,000 rows of 64 four pairs in each. It is a light hash, not a cryptographic one; `tests/chance.rs` says what it was tested for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::trainer) struct Mask {
    low: u32,
    high: u32,
    /// Draws below it are dropped.
    threshold: u32,
    /// What the others are multiplied with.
    pub(in crate::trainer) kept: f32,
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

    /// What of it concerns a row.
    #[inline(always)]
    pub(super) fn row(self, row: usize) -> RowMask {
        RowMask { key: mix(mix(counter(row) ^ self.low).wrapping_add(self.high)), threshold: self.threshold, kept: self.kept }
    }

    /// The factors of so many rows, one after another.
    #[cfg(test)]
    pub(in crate::trainer) fn numbers(self, rows: usize, columns: usize) -> Vec<f32> {
        (0..rows).flat_map(|row| (0..columns).map(move |column| self.row(row).factor(column))).collect()
    }

    /// Which elements are dropped, `[rows, columns]`, found by the device itself: the same ones as anywhere. `rows [rows]` and
    /// `columns [columns]` count from 0, as 32 bits without a sign.
    pub(in crate::trainer) fn dropped(self, rows: Tensor<1, Int>, columns: Tensor<1, Int>) -> Tensor<2, Bool> {
        let [[all], [width]] = [rows.dims(), columns.dims()];
        let keys = mixed(mixed(rows.bitwise_xor_scalar(self.low)).add_scalar(self.high)).reshape([all, 1]);
        mixed(columns.reshape([1, width]).bitwise_xor(keys)).lower_elem(self.threshold)
    }
}

/// The numbers below `many`, `[many]`, as 32 bits without a sign.
pub(in crate::trainer) fn counted(many: usize, device: &Device) -> Tensor<1, Int> {
    let many = i64::try_from(many).expect("rows and columns are counted from a tensor's");
    // Cast, for a device makes ranges by way of -1 (burn 0.22).
    Tensor::<1, Int>::arange(0..many, device).cast(IntDType::U32)
}

/// [`mix`] of every number of a tensor.
fn mixed<const D: usize>(x: Tensor<D, Int>) -> Tensor<D, Int> {
    let x = x.clone().bitwise_xor(x.bitwise_right_shift_scalar(16_u32)).mul_scalar(0x7FEB_352D_u32);
    let x = x.clone().bitwise_xor(x.bitwise_right_shift_scalar(15_u32)).mul_scalar(0x846C_A68B_u32);
    x.clone().bitwise_xor(x.bitwise_right_shift_scalar(16_u32))
}

/// Which elements of a row are dropped.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowMask {
    key: u32,
    threshold: u32,
    kept: f32,
}

impl RowMask {
    /// What the element in a column is multiplied with: 0, or what makes up for those dropped.
    #[inline(always)]
    pub(super) fn factor(self, column: usize) -> f32 {
        if mix(counter(column) ^ self.key) < self.threshold { 0.0 } else { self.kept }
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

/// The low half of a row's or column's number: more than 2^32 repeat the mask, which harms nothing.
#[inline(always)]
fn counter(place: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "as said")]
    let counter = place as u32;
    counter
}

/// `x [rows, width]` with its dropped elements set to 0 and the others scaled up.
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct Dropout {
    /// Columns of a row.
    pub(in crate::trainer) width: usize,
    /// What is dropped.
    pub(in crate::trainer) mask: Mask,
}

impl Operation<1> for Dropout {
    const NEEDS: [bool; 1] = [false];
    type Kept = ();

    fn forward(&self, [x]: [&[f32]; 1], _: Purpose) -> (Vec<f32>, ()) {
        (masked(x, self.width, self.mask), ())
    }

    fn backward(&self, _: [&[f32]; 1], (): (), gradient: &[f32], _: [bool; 1]) -> [Slope; 1] {
        [Slope::New(masked(gradient, self.width, self.mask))]
    }
}

vectorised! {
    /// Rows of `width` numbers, each multiplied with its factor.
    pub(super) fn masked(x: &[f32], width: usize, mask: Mask) -> Vec<f32> {
        let mut output = Vec::with_capacity(x.len());
        for (row, x) in x.chunks_exact(width).enumerate() {
            let mask = mask.row(row);
            append(&mut output, x, x, |column, x, _| x * mask.factor(column));
        }
        output
    }
}
