//! The trait of operations as the trainer has it, and the files that implement it.
#![expect(dead_code, reason = "the bench calls a part of what is in the files")]

pub mod attention;
pub mod curve;
pub mod dropout;
pub mod feed_forward;
pub mod lanes;
pub mod layer_norm;
pub mod linear;
pub mod products;

use std::fmt::Debug;

pub trait Operation<const N: usize>: Clone + Send + Debug + 'static {
    const NEEDS: [bool; N] = [true; N];
    type Kept: Clone + Send + Debug + 'static;
    fn forward(&self, inputs: [&[f32]; N], purpose: Purpose) -> (Vec<f32>, Self::Kept);
    fn backward(&self, inputs: [&[f32]; N], kept: Self::Kept, gradient: &[f32], wanted: [bool; N]) -> [Slope; N];
}

pub enum Slope {
    Unwanted,
    Output,
    New(Vec<f32>),
}

impl Slope {
    fn when(wanted: bool, slope: impl FnOnce() -> Vec<f32>) -> Self {
        if wanted { Self::New(slope()) } else { Self::Unwanted }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Gradient,
    Output,
}
