//! Biases of attention scores by how far apart two tokens are (Raffel et al. 2020, section 2.1).

use burn::tensor::Tensor;

use super::super::floats::{as_f32, real};
use super::super::layers::{ForwardContext, row_numbers};
use super::super::parameters::{ParameterId, Parameters, Role};
use super::config::RelativePositions;

/// A bias for each bucket of distances and each head.
pub(super) struct RelativeBias {
    /// `[buckets, heads]`.
    table: ParameterId,
    heads: usize,
    positions: RelativePositions,
    /// Whether tokens attend to those before them only.
    is_causal: bool,
}

impl RelativeBias {
    pub(super) fn new(
        list: &mut Parameters,
        name: &str,
        positions: RelativePositions,
        heads: usize,
        is_causal: bool,
    ) -> Self {
        let shape = [positions.buckets, heads];
        let table = list.add(format!("{name}.weight"), shape, Role::ScoreBias);
        Self { table, heads, positions, is_causal }
    }

    /// The biases of the last `queries` of `keys` tokens, `[1, heads, queries, keys]`.
    pub(super) fn of(&self, context: &ForwardContext, queries: usize, keys: usize) -> Tensor<4> {
        // By how far the key lies behind the query, and before it.
        let bucket = |query, key| self.positions.bucket(query, key, self.is_causal);
        let behind: Vec<usize> = (0..keys).map(|distance| bucket(distance, 0)).collect();
        let before: Vec<usize> = (0..keys).map(|distance| bucket(0, distance)).collect();
        let of = |query: usize, key: usize| {
            if key <= query { behind[query - key] } else { before[key - query] }
        };
        let buckets: Vec<usize> = (keys - queries..keys)
            .flat_map(|query| (0..keys).map(move |key| (query, key)))
            .map(|(query, key)| of(query, key))
            .collect();
        let table = context.values.get(self.table);
        table
            .select(0, row_numbers(&buckets, context.device))
            .reshape([1, queries, keys, self.heads])
            .permute([0, 3, 1, 2])
    }
}

impl RelativePositions {
    /// The bucket of the distance from the token at `query` to the one at `key`: half of them are
    /// of single distances, the others of ranges that grow with the distance. As
    /// `_relative_position_bucket` in `modeling_t5.py`.
    fn bucket(self, query: usize, key: usize, is_causal: bool) -> usize {
        let (buckets, first, distance) = if is_causal {
            (self.buckets, 0, query.saturating_sub(key))
        } else {
            let half = self.buckets / 2;
            (half, if key > query { half } else { 0 }, query.abs_diff(key))
        };
        let exact = buckets / 2;
        if distance < exact {
            return first + distance;
        }
        // In f32, as there: a range's end is where rounding says.
        let ratio = (as_f32(real(distance)) / as_f32(real(exact))).ln();
        let span = as_f32((real(self.max_distance) / real(exact)).ln());
        let place = ratio / span * as_f32(real(buckets - exact));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
        let place = exact + place as usize;
        first + place.min(buckets - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distances from which on each bucket holds, by `_relative_position_bucket`.
    const CAUSAL: [usize; 32] = [
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 21, 24, 27, 31, 35, 40, 46,
        52, 59, 67, 77, 87, 99, 113,
    ];
    const BOTH_WAYS: [usize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91];

    #[test]
    fn distances_fall_into_the_buckets_of_transformers() {
        let positions = RelativePositions { buckets: 32, max_distance: 128 };
        let place = |starts: &[usize], distance: usize| {
            starts.iter().filter(|start| **start <= distance).count() - 1
        };
        for distance in 0..300 {
            let expected = place(&CAUSAL, distance);
            assert_eq!(positions.bucket(distance, 0, true), expected, "{distance} before");
            assert_eq!(positions.bucket(0, distance, true), 0, "{distance} after");
            let expected = place(&BOTH_WAYS, distance);
            assert_eq!(positions.bucket(distance, 0, false), expected, "{distance} before");
            let after = expected + if distance > 0 { 16 } else { 0 };
            assert_eq!(positions.bucket(0, distance, false), after, "{distance} after");
        }
    }
}
