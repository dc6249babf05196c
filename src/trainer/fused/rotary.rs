//! Rotary position embeddings of packed queries and keys (Su et al. 2021).

use std::sync::Arc;

use super::simd::vectorised;
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// Rotates the first `heads` heads of `[tokens, columns]` and copies the other columns. Elements
/// `i` and `i + head_dim / 2` of a head are one pair, as in transformers.
#[derive(Debug, Clone)]
pub(crate) struct RotaryEmbedding {
    /// Heads of queries and keys together.
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) columns: usize,
    /// `head_dim / 2` cosines, then as many sines, for each token: `[tokens, head_dim]`.
    pub(crate) angles: Arc<[f32]>,
}

impl Operation<1> for RotaryEmbedding {
    const SAVES_INPUT: [bool; 1] = [false];
    type Saved = ();

    fn forward(&self, [x]: [&[f32]; 1], _: GradMode) -> (Vec<f32>, ()) {
        (self.rotated(x, 1.0), ())
    }

    fn backward(&self, pass: BackwardInput<1, ()>) -> [InputGradient; 1] {
        let gradient = pass.gradient;
        [InputGradient::Values(self.rotated(gradient, -1.0))]
    }
}

impl RotaryEmbedding {
    fn rotated(&self, x: &[f32], direction: f32) -> Vec<f32> {
        let mut rotated = x.to_vec();
        rotate(&mut rotated, &self.angles, [self.heads, self.head_dim, self.columns], direction);
        rotated
    }
}

vectorised! {
    fn rotate(x: &mut [f32], angles: &[f32], sizes: [usize; 3], direction: f32) {
        let [heads, head_dim, columns] = sizes;
        for (row, angles) in x.chunks_exact_mut(columns).zip(angles.chunks_exact(head_dim)) {
            let (cosines, sines) = angles.split_at(head_dim / 2);
            for head in row[..heads * head_dim].chunks_exact_mut(head_dim) {
                let (first, second) = head.split_at_mut(head_dim / 2);
                for ((a, b), (cosine, sine)) in first.iter_mut().zip(second).zip(cosines.iter().zip(sines)) {
                    (*a, *b) = (*a * cosine - *b * sine * direction, *b * cosine + *a * sine * direction);
                }
            }
        }
    }
}
