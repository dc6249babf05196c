//! The gated middle of Llama's feed-forward part (Shazeer 2020), forward and backward in one pass each.

use super::curve::logistic;
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
