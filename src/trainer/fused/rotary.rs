//! Rotary position embeddings of packed queries and keys (Su et al. 2021).

use std::sync::Arc;

use super::simd::{simd_level, vectorised};
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// Rotates the first `rotated` elements of each of the first `heads` heads of `[tokens, columns]`
/// and copies the other columns. Elements `i` and `i + rotated / 2` of a head are one pair, as in
/// transformers.
#[derive(Debug, Clone)]
pub(crate) struct RotaryEmbedding {
    /// Heads of queries and keys together.
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) rotated: usize,
    pub(crate) columns: usize,
    /// `rotated / 2` cosines, then as many sines, for each token: `[tokens, rotated]`.
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
        let sizes = [self.heads, self.head_dim, self.rotated, self.columns];
        rotate(&mut rotated, &self.angles, sizes, direction);
        rotated
    }
}

vectorised! {
    fn rotate(x: &mut [f32], angles: &[f32], sizes: [usize; 4], direction: f32) {
        let [heads, head_dim, rotated, columns] = sizes;
        for (row, angles) in x.chunks_exact_mut(columns).zip(angles.chunks_exact(rotated)) {
            let (cosines, sines) = angles.split_at(rotated / 2);
            for head in row[..heads * head_dim].chunks_exact_mut(head_dim) {
                let (first, second) = head[..rotated].split_at_mut(rotated / 2);
                for ((a, b), (cosine, sine)) in
                    first.iter_mut().zip(second).zip(cosines.iter().zip(sines))
                {
                    (*a, *b) =
                        (*a * cosine - *b * sine * direction, *b * cosine + *a * sine * direction);
                }
            }
        }
    }
}
