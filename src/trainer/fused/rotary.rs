//! Rotary position embeddings on queries and keys as one linear map leaves them (Su et al. 2021).

use std::sync::Arc;

use super::lanes::vectorised;
use super::{Operation, Purpose, Slope};

/// Of `[tokens, columns]` the first `heads` heads turned by their tokens' places, the other columns as they are. Number `i` of a head's first
/// half and number `i` of its second are one point, as in transformers.
#[derive(Debug, Clone)]
pub(in crate::trainer) struct Rotary {
    /// Heads that are turned: those of queries and keys.
    pub(in crate::trainer) heads: usize,
    /// Width of a head.
    pub(in crate::trainer) size: usize,
    /// Columns of the input.
    pub(in crate::trainer) columns: usize,
    /// Cosines and sines of each token's angles, `size / 2` of each: `[tokens, size]`.
    pub(in crate::trainer) angles: Arc<[f32]>,
}

impl Operation<1> for Rotary {
    const NEEDS: [bool; 1] = [false];
    type Kept = ();

    fn forward(&self, [x]: [&[f32]; 1], _: Purpose) -> (Vec<f32>, ()) {
        (self.turned(x, 1.0), ())
    }

    fn backward(&self, _: [&[f32]; 1], (): (), gradient: &[f32], _: [bool; 1]) -> [Slope; 1] {
        [Slope::New(self.turned(gradient, -1.0))]
    }
}

impl Rotary {
    fn turned(&self, x: &[f32], direction: f32) -> Vec<f32> {
        let mut turned = x.to_vec();
        turn(&mut turned, &self.angles, [self.heads, self.size, self.columns], direction);
        turned
    }
}

vectorised! {
    fn turn(x: &mut [f32], angles: &[f32], sizes: [usize; 3], direction: f32) {
        let [heads, size, columns] = sizes;
        for (row, angles) in x.chunks_exact_mut(columns).zip(angles.chunks_exact(size)) {
            let (cosines, sines) = angles.split_at(size / 2);
            for head in row[..heads * size].chunks_exact_mut(size) {
                let (first, second) = head.split_at_mut(size / 2);
                for ((a, b), (cosine, sine)) in first.iter_mut().zip(second).zip(cosines.iter().zip(sines)) {
                    (*a, *b) = (*a * cosine - *b * sine * direction, *b * cosine + *a * sine * direction);
                }
            }
        }
    }
}
