//! The trait of the trainer's fused operations, and the files that implement it.
#![expect(dead_code, reason = "the bench calls only some of the operations")]

pub mod activation;
pub mod attention;
pub mod dropout;
pub mod feed_forward;
pub mod layer_norm;
pub mod linear;
pub mod matmul;
pub mod simd;

use std::fmt::Debug;

pub trait Operation<const N: usize>: Clone + Send + Debug + 'static {
    const SAVES_INPUT: [bool; N] = [true; N];
    type Saved: Clone + Send + Debug + 'static;
    fn forward(&self, inputs: [&[f32]; N], grad_mode: GradMode) -> (Vec<f32>, Self::Saved);
    fn backward(&self, pass: BackwardInput<N, Self::Saved>) -> [InputGradient; N];
}

pub struct BackwardInput<'a, const N: usize, S> {
    pub inputs: [&'a [f32]; N],
    pub saved: S,
    pub gradient: &'a [f32],
    pub needs_grad: [bool; N],
}

pub enum InputGradient {
    NotNeeded,
    SameAsOutput,
    Values(Vec<f32>),
}

impl InputGradient {
    fn if_needed(needs_grad: bool, compute: impl FnOnce() -> Vec<f32>) -> Self {
        if needs_grad { Self::Values(compute()) } else { Self::NotNeeded }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GradMode {
    Enabled,
    Disabled,
}
