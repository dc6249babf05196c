//! Conversions to floating-point numbers, in one place for the lints.

/// A count as f64; counts are far below 2^53.
pub(super) fn real(count: impl TryInto<u64>) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let real = count.try_into().unwrap_or(u64::MAX) as f64;
    real
}

/// `number` rounded to f32.
pub(super) fn as_f32(number: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let number = number as f32;
    number
}
