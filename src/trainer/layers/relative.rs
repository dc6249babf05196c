//! Attention to relative positions (He et al. 2021, "DeBERTa: Decoding-enhanced BERT with
//! disentangled attention", equation 4): scores of content with content, of content with position,
//! and of position with content.

use burn::tensor::Tensor;

use super::super::batch::Batch;
use super::super::floats::{as_f32, real};
use super::super::parameters::{ParameterId, Parameters, Role};
use super::{ForwardContext, Linear, Norm, to_f32};

/// Learnt vectors of relative positions, which all layers share.
pub(in super::super) struct RelativePositions {
    /// `[2 span, width]`.
    table: ParameterId,
    norm: Option<Norm>,
    shape: RelativeShape,
    dropout: f64,
}

/// How tokens look at each other's relative positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct RelativeShape {
    /// Positions to each side, or buckets of them.
    pub(in super::super) span: usize,
    /// With buckets, the distance at which the last of them ends.
    pub(in super::super) bucketed_to: Option<usize>,
    /// Whether queries look at the positions of keys.
    pub(in super::super) content_to_position: bool,
    /// Whether keys look at the positions of queries.
    pub(in super::super) position_to_content: bool,
    /// Whether the vectors are normalised.
    pub(in super::super) is_normalised: bool,
}

/// The vectors of a layer's relative positions for texts of one length, `[1, heads, 2 length - 1,
/// head_dim]` each.
pub(super) struct PositionVectors {
    /// From the greatest distance to the least.
    keys: Option<Tensor<4>>,
    /// From the least distance to the greatest.
    queries: Option<Tensor<4>>,
}

impl RelativePositions {
    /// With the names of the table and of its norm.
    pub(in super::super) fn new(
        list: &mut Parameters,
        [table, norm]: [&str; 2],
        shape: RelativeShape,
        width: usize,
        epsilon: f64,
        dropout: f64,
    ) -> Self {
        let sizes = [2 * shape.span, width];
        Self {
            table: list.add(format!("{table}.weight"), sizes, Role::Embedding),
            norm: shape.is_normalised.then(|| Norm::layer(list, norm, width, epsilon, true)),
            shape,
            dropout,
        }
    }

    /// The vectors for texts of `length` tokens, by a layer's projections of queries and keys.
    pub(super) fn vectors(
        &self,
        context: &ForwardContext,
        [query, key]: [&Linear; 2],
        length: usize,
        heads: usize,
    ) -> PositionVectors {
        let table = context.values.get(self.table);
        let table = match &self.norm {
            Some(norm) => norm.forward(context, table),
            None => table,
        };
        let table = context.dropout(table, self.dropout);
        let farthest = i64::try_from(length).unwrap_or(i64::MAX) - 1;
        let of = |linear: &Linear, distances: Vec<i64>| -> Tensor<4> {
            let rows: Vec<usize> =
                distances.into_iter().map(|distance| self.shape.row(distance)).collect();
            let count = rows.len();
            let vectors = table.clone().select(0, Batch::token_indices(&rows, context.device));
            let vectors = context.to_compute_dtype(linear.forward(context, vectors));
            let head_dim = vectors.dims()[1] / heads;
            vectors.reshape([1, count, heads, head_dim]).swap_dims(1, 2)
        };
        let RelativeShape { content_to_position, position_to_content, .. } = self.shape;
        PositionVectors {
            keys: content_to_position.then(|| of(key, (-farthest..=farthest).rev().collect())),
            queries: position_to_content.then(|| of(query, (-farthest..=farthest).collect())),
        }
    }
}

impl RelativeShape {
    /// The row of the table for the distance from a key to its query.
    fn row(&self, distance: i64) -> usize {
        let span = i64::try_from(self.span).unwrap_or(i64::MAX);
        let row = (self.bucket(distance) + span).clamp(0, 2 * span - 1);
        usize::try_from(row).unwrap_or_default()
    }

    /// Distances up to half of the buckets have one each, the others ranges that grow with them:
    /// `make_log_bucket_position` in `modeling_deberta_v2.py`, in f32 as there.
    fn bucket(&self, distance: i64) -> i64 {
        let (Some(longest), middle) = (self.bucketed_to, self.span / 2) else { return distance };
        let size = usize::try_from(distance.unsigned_abs()).unwrap_or(usize::MAX);
        if size <= middle || middle == 0 {
            return distance;
        }
        let ratio = (as_f32(real(size)) / as_f32(real(middle))).ln();
        let span = as_f32(real(longest - 1) / real(middle)).ln();
        let place = (ratio / span * as_f32(real(middle - 1))).ceil();
        #[expect(clippy::cast_possible_truncation, reason = "a bucket's number")]
        let bucket = place as i64 + i64::try_from(middle).unwrap_or_default();
        bucket * distance.signum()
    }
}

/// The scores, `[texts, heads, length, length]` in f32, of queries and keys
/// `[texts, heads, length, head_dim]`.
pub(super) fn scores(query: Tensor<4>, key: Tensor<4>, vectors: PositionVectors) -> Tensor<4> {
    let PositionVectors { keys, queries } = vectors;
    let terms = 1 + usize::from(keys.is_some()) + usize::from(queries.is_some());
    // Half of the scale on each side, as without relative positions.
    let root = real(query.dims()[3] * terms).powf(0.25);
    let (query, key) = (query / root, key / root);
    let product = |one: Tensor<4>, other: Tensor<4>| to_f32(one.matmul(other.swap_dims(2, 3)));
    let mut sum = product(query.clone(), key.clone());
    if let Some(keys) = keys {
        sum = sum + skewed(product(query, keys / root));
    }
    if let Some(queries) = queries {
        sum = sum + skewed(product(key, queries / root)).swap_dims(2, 3);
    }
    sum
}

/// Row `a` of `[.., length, 2 length - 1]` from its element `length - 1 - a` on, `[.., length,
/// length]`: by distance to by token (Dai et al. 2019, appendix B).
fn skewed(x: Tensor<4>) -> Tensor<4> {
    let [texts, heads, length, distances] = x.dims();
    if length == 1 {
        return x;
    }
    x.reshape([texts, heads, length * distances])
        .narrow(2, length - 1, length * (distances - 1))
        .reshape([texts, heads, length, distances - 1])
        .narrow(3, 0, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_fall_into_the_buckets_of_transformers() {
        let shape = RelativeShape {
            span: 256,
            bucketed_to: Some(512),
            content_to_position: true,
            position_to_content: true,
            is_normalised: true,
        };
        // make_log_bucket_position(distance, 256, 512).
        for (distance, bucket) in BUCKETS {
            assert_eq!(shape.bucket(distance), bucket, "{distance}");
            assert_eq!(shape.bucket(-distance), -bucket, "{distance}");
        }
        let small = RelativeShape { span: 4, bucketed_to: Some(12), ..shape };
        let buckets: Vec<i64> = (0..12).map(|distance| small.bucket(distance)).collect();
        assert_eq!(buckets, SMALL);
        assert_eq!((small.row(-11), small.row(0), small.row(11)), (1, 4, 7));
        let plain = RelativeShape { bucketed_to: None, ..small };
        assert_eq!((plain.row(-11), plain.row(-4), plain.row(3), plain.row(9)), (0, 0, 7, 7));
    }

    const BUCKETS: [(i64, i64); 17] = [
        (0, 0),
        (1, 1),
        (127, 127),
        (128, 128),
        (129, 129),
        (130, 130),
        (135, 133),
        (150, 143),
        (180, 160),
        (200, 169),
        (255, 192),
        (257, 192),
        (300, 207),
        (350, 221),
        (400, 233),
        (500, 254),
        (511, 255),
    ];
    const SMALL: [i64; 12] = [0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3];
}
