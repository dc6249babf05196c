//! The gated middles of feed-forward parts (Shazeer 2020): Llama's in one pass, and those whose one map makes both halves.

use super::curve::{Curve, curved, logistic, sloped, times};
use super::lanes::{made, vectorised};
use super::{Operation, Purpose, Slope};

/// `silu(gate) * x`: inputs in this order.
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct SwiGlu;

impl Operation<2> for SwiGlu {
    type Kept = ();

    fn forward(&self, [gate, x]: [&[f32]; 2], _: Purpose) -> (Vec<f32>, ()) {
        (gated(gate, x), ())
    }

    fn backward(&self, [gate, x]: [&[f32]; 2], (): (), gradient: &[f32], _: [bool; 2]) -> [Slope; 2] {
        let (mut dgate, mut dx) = (gradient.to_vec(), gradient.to_vec());
        gated_slopes(gate, x, &mut dgate, &mut dx);
        [Slope::New(dgate), Slope::New(dx)]
    }
}

vectorised! {
    fn gated(gate: &[f32], x: &[f32]) -> Vec<f32> {
        made(gate, x, |_, gate, x| gate * logistic(gate) * x)
    }
}

vectorised! {
    fn gated_slopes(gate: &[f32], x: &[f32], dgate: &mut [f32], dx: &mut [f32]) {
        for (((gate, x), dgate), dx) in gate.iter().zip(x).zip(dgate).zip(dx) {
            let share = logistic(*gate);
            *dgate *= x * (share + gate * share * (1.0 - share));
            *dx *= gate * share;
        }
    }
}

/// `curve(a) * b` of rows `[a, b]`, the halves of what one map makes.
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct GatedHalves {
    /// What becomes of each number of the first half.
    pub(in crate::trainer) curve: Curve,
    /// Columns of the input: an even number.
    pub(in crate::trainer) columns: usize,
}

impl Operation<1> for GatedHalves {
    type Kept = ();

    fn forward(&self, [x]: [&[f32]; 1], _: Purpose) -> (Vec<f32>, ()) {
        let [first, second] = self.halves(x);
        (times(&curved(self.curve, &first), &second), ())
    }

    fn backward(&self, [x]: [&[f32]; 1], (): (), gradient: &[f32], _: [bool; 1]) -> [Slope; 1] {
        let [first, second] = self.halves(x);
        let dfirst = sloped(self.curve, &first, &times(gradient, &second));
        let dsecond = times(gradient, &curved(self.curve, &first));
        let half = self.columns / 2;
        let mut slopes = Vec::with_capacity(x.len());
        for (first, second) in dfirst.chunks_exact(half).zip(dsecond.chunks_exact(half)) {
            slopes.extend_from_slice(first);
            slopes.extend_from_slice(second);
        }
        [Slope::New(slopes)]
    }
}

impl GatedHalves {
    /// The first halves of all rows, and the second.
    fn halves(&self, x: &[f32]) -> [Vec<f32>; 2] {
        let half = self.columns / 2;
        let mut halves = [Vec::with_capacity(x.len() / 2), Vec::with_capacity(x.len() / 2)];
        for row in x.chunks_exact(self.columns) {
            halves[0].extend_from_slice(&row[..half]);
            halves[1].extend_from_slice(&row[half..]);
        }
        halves
    }
}
