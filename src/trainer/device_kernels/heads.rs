//! From packed queries, keys and values of texts one after another to padded heads, and back.

use burn::cubecl;
use burn::cubecl::prelude::*;
use burn::tensor::DType;
use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::tensor::CubeTensor;

use super::operation::{empty, row_major, unit_per_element};

/// How a packed row of a token is divided, and how texts are padded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HeadShape {
    pub(crate) texts: usize,
    /// Tokens of a text, padded.
    pub(crate) length: usize,
    pub(crate) heads: usize,
    /// Heads of keys and values, each of which serves `heads / kv_heads` heads of queries.
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// The factor of queries, and of keys.
    pub(crate) scale: f32,
}

impl HeadShape {
    fn padded(&self) -> [usize; 4] {
        [self.texts, self.heads, self.length, self.head_dim]
    }

    fn packed_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }
}

/// Queries, keys and values, keys and values once for each head of queries; 0 where no token
/// is.
pub(super) fn split_qkv(
    packed: CubeTensor,
    starts: CubeTensor,
    shape: HeadShape,
    dtype: DType,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    let (packed, starts) = (row_major(packed), row_major(starts));
    let client = packed.client.clone();
    let out = [0; 3].map(|_| empty(&packed, shape.padded(), dtype));
    let (count, dim) = unit_per_element(shape.padded().iter().product());
    let dtypes = [packed.dtype, starts.dtype, dtype].map(dtype_to_storage_type);
    let [queries, keys, values] = out.clone().map(|tensor| tensor.into_buffer_arg());
    split_qkv_kernel::launch(
        &client,
        count,
        dim,
        packed.into_buffer_arg(),
        starts.into_buffer_arg(),
        queries,
        keys,
        values,
        shape.texts,
        shape.length,
        shape.scale,
        shape.heads,
        shape.kv_heads,
        shape.head_dim,
        dtypes,
    );
    let [queries, keys, values] = out;
    (queries, keys, values)
}

/// The gradient of what [`split_qkv`](Self::split_qkv) read, in f32.
pub(super) fn join_qkv(
    queries: CubeTensor,
    keys: CubeTensor,
    values: CubeTensor,
    places: CubeTensor,
    shape: HeadShape,
) -> CubeTensor {
    let [queries, keys, values] = [queries, keys, values].map(row_major);
    let places = row_major(places);
    let (client, tokens) = (queries.client.clone(), places.meta.shape()[0]);
    let out = empty(&queries, [tokens, shape.packed_width()], DType::F32);
    let (count, dim) = unit_per_element(tokens * shape.packed_width());
    let dtypes = [queries.dtype, places.dtype].map(dtype_to_storage_type);
    join_qkv_kernel::launch(
        &client,
        count,
        dim,
        queries.into_buffer_arg(),
        keys.into_buffer_arg(),
        values.into_buffer_arg(),
        places.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        tokens,
        shape.length,
        shape.scale,
        shape.heads,
        shape.kv_heads,
        shape.head_dim,
        dtypes,
    );
    out
}

/// `[tokens, heads head_dim]` as padded heads.
pub(super) fn split_heads(
    rows: CubeTensor,
    starts: CubeTensor,
    shape: HeadShape,
    dtype: DType,
) -> CubeTensor {
    let (rows, starts) = (row_major(rows), row_major(starts));
    let client = rows.client.clone();
    let out = empty(&rows, shape.padded(), dtype);
    let (count, dim) = unit_per_element(shape.padded().iter().product());
    let dtypes = [rows.dtype, starts.dtype, dtype].map(dtype_to_storage_type);
    split_heads_kernel::launch(
        &client,
        count,
        dim,
        rows.into_buffer_arg(),
        starts.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        shape.texts,
        shape.length,
        shape.heads,
        shape.head_dim,
        dtypes,
    );
    out
}

/// Padded heads as `[tokens, heads head_dim]`, in their dtype.
pub(super) fn merge_heads(x: CubeTensor, places: CubeTensor, shape: HeadShape) -> CubeTensor {
    let (x, places) = (row_major(x), row_major(places));
    let (client, tokens) = (x.client.clone(), places.meta.shape()[0]);
    let width = shape.heads * shape.head_dim;
    let out = empty(&x, [tokens, width], x.dtype);
    let (count, dim) = unit_per_element(tokens * width);
    let dtypes = [x.dtype, places.dtype].map(dtype_to_storage_type);
    merge_heads_kernel::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        places.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        tokens,
        shape.length,
        shape.heads,
        shape.head_dim,
        dtypes,
    );
    out
}

#[cube(launch)]
fn split_qkv_kernel<F: Float, I: Numeric, O: Float>(
    packed: &[F],
    starts: &[I],
    queries: &mut [O],
    keys: &mut [O],
    values: &mut [O],
    texts: usize,
    length: usize,
    scale: f32,
    #[comptime] heads: usize,
    #[comptime] kv_heads: usize,
    #[comptime] head_dim: usize,
    #[define(F, I, O)] _dtypes: [ElemType; 3],
) {
    let place = ABSOLUTE_POS;
    if place >= texts * heads * length * head_dim {
        terminate!();
    }
    let element = place % head_dim;
    let rest = place / head_dim;
    let position = rest % length;
    let rest = rest / length;
    let head = rest % heads;
    let text = rest / heads;
    let begin = usize::cast_from(starts[text]);
    let end = usize::cast_from(starts[text + 1]);
    let mut query = 0.0f32;
    let mut key = 0.0f32;
    let mut value = 0.0f32;
    if position < end - begin {
        let width = comptime!((heads + 2 * kv_heads) * head_dim);
        let group = head / comptime!(heads / kv_heads);
        let row = (begin + position) * width + element;
        query = f32::cast_from(packed[row + head * head_dim]) * scale;
        key = f32::cast_from(packed[row + (heads + group) * head_dim]) * scale;
        value = f32::cast_from(packed[row + (heads + kv_heads + group) * head_dim]);
    }
    queries[place] = O::cast_from(query);
    keys[place] = O::cast_from(key);
    values[place] = O::cast_from(value);
}

#[cube(launch)]
fn join_qkv_kernel<F: Float, I: Numeric>(
    queries: &[F],
    keys: &[F],
    values: &[F],
    places: &[I],
    packed: &mut [f32],
    tokens: usize,
    length: usize,
    scale: f32,
    #[comptime] heads: usize,
    #[comptime] kv_heads: usize,
    #[comptime] head_dim: usize,
    #[define(F, I)] _dtypes: [ElemType; 2],
) {
    let width = comptime!((heads + 2 * kv_heads) * head_dim);
    if ABSOLUTE_POS >= tokens * width {
        terminate!();
    }
    let column = ABSOLUTE_POS % width;
    let token = ABSOLUTE_POS / width;
    let place = usize::cast_from(places[token]);
    let text = place / length;
    let position = place % length;
    let block = column / head_dim;
    let element = column % head_dim;
    let group = comptime!(heads / kv_heads);
    let mut sum = 0.0f32;
    if block < heads {
        let at = ((text * heads + block) * length + position) * head_dim + element;
        sum = f32::cast_from(queries[at]) * scale;
    } else if block < heads + kv_heads {
        for member in 0..group {
            let head = (block - heads) * group + member;
            let at = ((text * heads + head) * length + position) * head_dim + element;
            sum += f32::cast_from(keys[at]);
        }
        sum *= scale;
    } else {
        for member in 0..group {
            let head = (block - heads - kv_heads) * group + member;
            let at = ((text * heads + head) * length + position) * head_dim + element;
            sum += f32::cast_from(values[at]);
        }
    }
    packed[ABSOLUTE_POS] = sum;
}

#[cube(launch)]
fn split_heads_kernel<F: Float, I: Numeric, O: Float>(
    rows: &[F],
    starts: &[I],
    out: &mut [O],
    texts: usize,
    length: usize,
    #[comptime] heads: usize,
    #[comptime] head_dim: usize,
    #[define(F, I, O)] _dtypes: [ElemType; 3],
) {
    let place = ABSOLUTE_POS;
    if place >= texts * heads * length * head_dim {
        terminate!();
    }
    let element = place % head_dim;
    let rest = place / head_dim;
    let position = rest % length;
    let rest = rest / length;
    let head = rest % heads;
    let text = rest / heads;
    let begin = usize::cast_from(starts[text]);
    let end = usize::cast_from(starts[text + 1]);
    let mut value = 0.0f32;
    if position < end - begin {
        value =
            f32::cast_from(rows[(begin + position) * heads * head_dim + head * head_dim + element]);
    }
    out[place] = O::cast_from(value);
}

#[cube(launch)]
fn merge_heads_kernel<F: Float, I: Numeric>(
    x: &[F],
    places: &[I],
    out: &mut [F],
    tokens: usize,
    length: usize,
    #[comptime] heads: usize,
    #[comptime] head_dim: usize,
    #[define(F, I)] _dtypes: [ElemType; 2],
) {
    let width = comptime!(heads * head_dim);
    if ABSOLUTE_POS >= tokens * width {
        terminate!();
    }
    let column = ABSOLUTE_POS % width;
    let token = ABSOLUTE_POS / width;
    let place = usize::cast_from(places[token]);
    let text = place / length;
    let position = place % length;
    let head = column / head_dim;
    let element = column % head_dim;
    out[ABSOLUTE_POS] = x[((text * heads + head) * length + position) * head_dim + element];
}
