//! Self-attention on packed queries, keys and values: products of padded heads, between them one
//! pass for scale, mask, softmax and dropout.

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::cubecl;
use burn::cubecl::prelude::*;
use burn::tensor::{DType, Device};
use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::tensor::CubeTensor;

use super::super::floats::{as_f32, real};
use super::super::fused::{AttentionMask, DropoutMask};
use super::heads::{HeadShape, join_qkv, merge_heads, split_heads, split_qkv};
use super::operation::{DeviceOperation, empty, mix, plane_per_row, row_major};
use super::products::product;
use super::{AttentionConfig, ints};

/// `[tokens, (heads + 2 kv_heads) head_dim]`, each row a token's queries, keys and values, to
/// `[tokens, heads head_dim]` in the dtype of products.
#[derive(Debug, Clone)]
pub(crate) struct Attention {
    pub(crate) shape: HeadShape,
    pub(crate) mask: AttentionMask,
    /// Dropout of attention probabilities `[texts, heads, length, length]`.
    pub(crate) dropout: Option<DropoutMask>,
    /// The first token of each text, and their number, `[texts + 1]`.
    pub(crate) starts: CubeTensor,
    /// The place of each token among `texts * length`, `[tokens]`.
    pub(crate) places: CubeTensor,
    /// The dtype of products.
    pub(crate) dtype: DType,
}

/// Where texts lie among packed tokens and among padded ones.
#[derive(Debug, Clone)]
pub(crate) struct DeviceLayout {
    texts: usize,
    /// Tokens of a text, padded.
    length: usize,
    starts: CubeTensor,
    places: CubeTensor,
}

impl DeviceLayout {
    /// Of texts of `lengths` tokens, padded to `length`; `None` where `device` is no GPU.
    pub(crate) fn new(lengths: &[usize], length: usize, device: &Device) -> Option<Self> {
        let number = |count: usize| u32::try_from(count).expect("fewer than 2^32 tokens");
        let mut end = 0;
        let ends = lengths.iter().map(|tokens| {
            end += tokens;
            number(end)
        });
        let starts: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let places: Vec<u32> = lengths
            .iter()
            .enumerate()
            .flat_map(|(text, tokens)| number(text * length)..number(text * length + tokens))
            .collect();
        let [starts, places] = [starts, places].map(|list| ints(&list, device));
        Some(Self { texts: lengths.len(), length, starts: starts?, places: places? })
    }
}

/// Queries, keys, values, probabilities, and those after dropout.
type Saved = [CubeTensor; 5];

impl DeviceOperation<1> for Attention {
    type Saved = Saved;

    fn forward(&self, [packed]: [CubeTensor; 1]) -> (CubeTensor, Saved) {
        let (queries, keys, values) =
            split_qkv(packed, self.starts.clone(), self.shape, self.dtype);
        let scores = self.product(queries.clone(), transposed(keys.clone()));
        let (probabilities, dropped) = match self.dropout {
            None => {
                let all = attention_softmax(scores, self.starts.clone(), self.softmax());
                (all.clone(), all)
            }
            Some(_) => attention_softmax_dropout(scores, self.starts.clone(), self.softmax()),
        };
        let attended = self.product(dropped.clone(), values.clone());
        let out = merge_heads(attended, self.places.clone(), self.shape);
        (out, [queries, keys, values, probabilities, dropped])
    }

    fn backward(
        &self,
        [queries, keys, values, probabilities, dropped]: Saved,
        gradient: CubeTensor,
        _: [bool; 1],
    ) -> [Option<CubeTensor>; 1] {
        let gradient = split_heads(gradient, self.starts.clone(), self.shape, self.dtype);
        let of_values = self.product(transposed(dropped), gradient.clone());
        let of_dropped = self.product(gradient, transposed(values));
        let of_scores = attention_softmax_backward(probabilities, of_dropped, self.softmax());
        let of_queries = self.product(of_scores.clone(), keys);
        let of_keys = self.product(transposed(of_scores), queries);
        [Some(join_qkv(of_queries, of_keys, of_values, self.places.clone(), self.shape))]
    }
}

impl Attention {
    pub(super) fn new(config: &AttentionConfig, layout: &DeviceLayout) -> Self {
        let AttentionConfig { heads, kv_heads, head_dim, mask, dropout, dtype } = *config;
        // Half of the scale on each side, so that neither sums nor gradients overflow in 16 bits.
        let scale = as_f32(real(head_dim).powf(-0.25));
        let DeviceLayout { texts, length, .. } = *layout;
        Self {
            shape: HeadShape { texts, length, heads, kv_heads, head_dim, scale },
            mask,
            dropout,
            starts: layout.starts.clone(),
            places: layout.places.clone(),
            dtype: dtype.into(),
        }
    }

    fn product(&self, left: CubeTensor, right: CubeTensor) -> CubeTensor {
        product(left, right, self.dtype)
    }

    fn softmax(&self) -> Softmax {
        let (mask, window) = match self.mask {
            AttentionMask::Full => (Reach::All, 0),
            AttentionMask::Causal => (Reach::Before, 0),
            AttentionMask::SlidingWindow(reach) => (Reach::Window, reach),
        };
        let window = u32::try_from(window).unwrap_or(u32::MAX);
        Softmax { mask, window, dropout: self.dropout }
    }
}

fn transposed(x: CubeTensor) -> CubeTensor {
    Cube::float_swap_dims(x, 2, 3)
}

/// What a softmax of scores `[texts, heads, length, length]` needs to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Softmax {
    mask: Reach,
    window: u32,
    dropout: Option<DropoutMask>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Reach {
    All,
    Before,
    Window,
}

pub(super) fn attention_softmax(
    scores: CubeTensor,
    starts: CubeTensor,
    softmax: Softmax,
) -> CubeTensor {
    let softmax = Softmax { dropout: None, ..softmax };
    attention_softmax_dropout(scores, starts, softmax).0
}

/// The probabilities, and those after dropout.
pub(super) fn attention_softmax_dropout(
    scores: CubeTensor,
    starts: CubeTensor,
    softmax: Softmax,
) -> (CubeTensor, CubeTensor) {
    let (scores, starts) = (row_major(scores), row_major(starts));
    let (client, shape) = (scores.client.clone(), scores.meta.shape().dims::<4>());
    let [texts, heads, queries, keys] = shape;
    let rows = texts * heads * queries;
    let out = empty(&scores, shape, scores.dtype);
    let dropped = match softmax.dropout {
        Some(_) => empty(&scores, shape, scores.dtype),
        // Not written.
        None => empty(&scores, [1, 1, 1, 1], scores.dtype),
    };
    let mask = softmax.dropout.unwrap_or(DropoutMask::new(0, 0.0));
    let (low, high, threshold) = mask.words();
    let (count, dim) = plane_per_row(&client, rows);
    let dtypes = [scores.dtype, starts.dtype].map(dtype_to_storage_type);
    softmax_kernel::launch(
        &client,
        count,
        dim,
        scores.into_buffer_arg(),
        starts.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        dropped.clone().into_buffer_arg(),
        rows,
        queries,
        keys,
        softmax.window as usize,
        low,
        high,
        threshold,
        mask.scale,
        heads,
        softmax.mask,
        softmax.dropout.is_some(),
        dtypes,
    );
    (out, dropped)
}

/// The gradient of the scores from that of the probabilities after dropout.
pub(super) fn attention_softmax_backward(
    probabilities: CubeTensor,
    gradient: CubeTensor,
    softmax: Softmax,
) -> CubeTensor {
    let (probabilities, gradient) = (row_major(probabilities), row_major(gradient));
    let (client, shape) = (probabilities.client.clone(), probabilities.meta.shape().dims::<4>());
    let [texts, heads, queries, keys] = shape;
    let rows = texts * heads * queries;
    let out = empty(&probabilities, shape, probabilities.dtype);
    let mask = softmax.dropout.unwrap_or(DropoutMask::new(0, 0.0));
    let (low, high, threshold) = mask.words();
    let (count, dim) = plane_per_row(&client, rows);
    let dtypes = dtype_to_storage_type(probabilities.dtype);
    softmax_backward_kernel::launch(
        &client,
        count,
        dim,
        probabilities.into_buffer_arg(),
        gradient.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        rows,
        keys,
        low,
        high,
        threshold,
        mask.scale,
        softmax.dropout.is_some(),
        dtypes,
    );
    out
}

/// A plane for each text, head and query.
#[cube(launch)]
fn softmax_kernel<F: Float, I: Numeric>(
    scores: &[F],
    starts: &[I],
    out: &mut [F],
    dropped: &mut [F],
    rows: usize,
    queries: usize,
    keys: usize,
    window: usize,
    low: u32,
    high: u32,
    threshold: u32,
    scale: f32,
    #[comptime] heads: usize,
    #[comptime] mask: Reach,
    #[comptime] drops: bool,
    #[define(F, I)] _dtypes: [ElemType; 2],
) {
    let row = CUBE_POS as usize * CUBE_DIM_Y as usize + UNIT_POS_Y as usize;
    if row >= rows {
        terminate!();
    }
    let query = row % queries;
    let text = row / queries / heads;
    // The keys that the query attends to.
    let mut begin = 0usize.runtime();
    let mut end = usize::cast_from(starts[text + 1]) - usize::cast_from(starts[text]);
    if comptime!(mask == Reach::Before) {
        end = min(end, query + 1);
    }
    if comptime!(mask == Reach::Window) {
        if query > window {
            begin = query - window;
        }
        end = min(end, query + window + 1);
    }
    let first = row * keys;
    let lane = UNIT_POS_X as usize;
    let lanes = CUBE_DIM_X as usize;
    let mut most = f32::new(-3.0e38f32);
    let mut key = begin + lane;
    while key < end {
        most = max(most, f32::cast_from(scores[first + key]));
        key += lanes;
    }
    most = plane_max(most);
    let mut sum = 0.0f32;
    let mut key = begin + lane;
    while key < end {
        sum += (f32::cast_from(scores[first + key]) - most).exp();
        key += lanes;
    }
    sum = plane_sum(sum);
    let mut inverse = 0.0f32;
    if sum > 0.0 {
        inverse = 1.0 / sum;
    }
    let row_key = mix(mix(u32::cast_from(row) ^ low) + high);
    let mut key = lane;
    while key < keys {
        let mut probability = 0.0f32;
        if key >= begin && key < end {
            probability = (f32::cast_from(scores[first + key]) - most).exp() * inverse;
        }
        out[first + key] = F::cast_from(probability);
        if drops {
            if mix(u32::cast_from(key) ^ row_key) < threshold {
                probability = 0.0;
            }
            dropped[first + key] = F::cast_from(probability * scale);
        }
        key += lanes;
    }
}

/// A plane for each text, head and query.
#[cube(launch)]
fn softmax_backward_kernel<F: Float>(
    probabilities: &[F],
    gradient: &[F],
    out: &mut [F],
    rows: usize,
    keys: usize,
    low: u32,
    high: u32,
    threshold: u32,
    scale: f32,
    #[comptime] drops: bool,
    #[define(F)] _dtype: ElemType,
) {
    let row = CUBE_POS as usize * CUBE_DIM_Y as usize + UNIT_POS_Y as usize;
    if row >= rows {
        terminate!();
    }
    let first = row * keys;
    let lane = UNIT_POS_X as usize;
    let lanes = CUBE_DIM_X as usize;
    let row_key = mix(mix(u32::cast_from(row) ^ low) + high);
    let mut product = 0.0f32;
    let mut key = lane;
    while key < keys {
        let mut own = f32::cast_from(gradient[first + key]);
        if drops {
            own *= scale;
            if mix(u32::cast_from(key) ^ row_key) < threshold {
                own = 0.0;
            }
        }
        product += own * f32::cast_from(probabilities[first + key]);
        key += lanes;
    }
    product = plane_sum(product);
    let mut key = lane;
    while key < keys {
        let mut own = f32::cast_from(gradient[first + key]);
        if drops {
            own *= scale;
            if mix(u32::cast_from(key) ^ row_key) < threshold {
                own = 0.0;
            }
        }
        out[first + key] =
            F::cast_from(f32::cast_from(probabilities[first + key]) * (own - product));
        key += lanes;
    }
}
