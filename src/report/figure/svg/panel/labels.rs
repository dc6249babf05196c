//! The room that labels take, and which ticks have one.

use crate::report::figure::axis::Tick;
use crate::report::wording::{shorten, width};

/// Average advance of a character at the size of labels.
pub(super) const CHARACTER: f64 = 6.6;

/// Most characters of a tick's label.
const LONGEST_LABEL: usize = 22;

pub(super) fn short(label: &str) -> String {
    shorten(label, LONGEST_LABEL, "…")
}

/// Whether labels in a row would touch.
pub(super) fn overlap(ticks: &[Tick], length: f64) -> bool {
    let half = |tick: &Tick| pixels(width(&short(&tick.label))) / 2.0 + 4.0;
    ticks
        .windows(2)
        .any(|pair| (pair[1].at - pair[0].at).abs() * length < half(&pair[0]) + half(&pair[1]))
}

/// Each how many of these ticks has a label, so that labels stay apart by `room`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of ticks"
)]
pub(super) fn stride(ticks: &[Tick], length: f64, room: f64) -> usize {
    let distances = ticks.windows(2).map(|pair| (pair[1].at - pair[0].at).abs() * length);
    let nearest = distances.fold(f64::INFINITY, f64::min);
    (room / nearest.max(0.01)).ceil().max(1.0) as usize
}

/// How many ticks fit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of ticks"
)]
pub(super) fn steps(length: f64, each: f64) -> usize {
    (length / each).max(2.0) as usize
}

#[expect(clippy::cast_precision_loss, reason = "columns of a text")]
pub(super) fn pixels(columns: usize) -> f64 {
    columns as f64 * CHARACTER
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of characters"
)]
pub(super) fn characters(pixels: f64) -> usize {
    (pixels / CHARACTER).max(4.0) as usize
}
