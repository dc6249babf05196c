//! The rows of a table by their indices. Their gradient adds up, row by row and in order, what the
//! lookups of a row received: the indices are known before, so no atomics are needed.

use std::sync::Arc;

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::cubecl;
use burn::cubecl::prelude::*;
use burn::tensor::{DType, Device};
use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::tensor::CubeTensor;

use super::ints;
use super::operation::{DeviceOperation, empty, row_major, unit_per_element};

/// The rows `ids` of a table `[entries, width]`: `[ids, width]`.
#[derive(Debug, Clone)]
pub(crate) struct Embedding {
    ids: Arc<[u32]>,
    ids_on_device: CubeTensor,
    /// Rows of the table, and their width.
    shape: [usize; 2],
    device: Device,
}

impl Embedding {
    /// Rows of a table of this shape; `None` where `device` is no GPU.
    pub(crate) fn new(ids: &Arc<[u32]>, shape: [usize; 2], device: &Device) -> Option<Self> {
        let ids_on_device = ints(ids, device)?;
        Some(Self { ids: Arc::clone(ids), ids_on_device, shape, device: device.clone() })
    }
}

impl DeviceOperation<1> for Embedding {
    type Saved = ();

    fn forward(&self, [table]: [CubeTensor; 1]) -> (CubeTensor, ()) {
        (Cube::float_select(table, 0, self.ids_on_device.clone()), ())
    }

    fn backward(&self, (): (), gradient: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let [entries, width] = self.shape;
        let lookups = Lookups::of(&self.ids, entries);
        let shape = LookupShape {
            entries,
            width,
            ids: self.ids.len(),
            segments: lookups.segments.len() - 1,
            rows: lookups.rows.len(),
        };
        let all = [lookups.order, lookups.segments, lookups.rows, lookups.first_segments].concat();
        let lookups = ints(&all, &self.device);
        [lookups.map(|lookups| embedding_gradient(gradient, lookups, shape))]
    }
}

/// Which lookups are of which row.
#[derive(Debug, PartialEq, Eq)]
struct Lookups {
    /// The lookups, sorted by their rows.
    order: Vec<u32>,
    /// Where each segment of a row's lookups begins in `order`, and the end of all.
    segments: Vec<u32>,
    /// The rows that are looked up.
    rows: Vec<u32>,
    /// The first segment of each of them, and the end of all.
    first_segments: Vec<u32>,
}

/// Lookups of a segment at most: one unit adds them up for each column.
const SEGMENT: usize = 32;

impl Lookups {
    fn of(ids: &[u32], entries: usize) -> Self {
        let mut counts = vec![0_u32; entries + 1];
        for id in ids {
            counts[*id as usize + 1] += 1;
        }
        for entry in 0..entries {
            counts[entry + 1] += counts[entry];
        }
        let (starts, mut next) = (counts.clone(), counts);
        let mut order = vec![0; ids.len()];
        for (lookup, id) in (0..).zip(ids) {
            order[next[*id as usize] as usize] = lookup;
            next[*id as usize] += 1;
        }
        let (mut segments, mut rows, mut first_segments) = (Vec::new(), Vec::new(), Vec::new());
        for (row, bounds) in (0..).zip(starts.windows(2)) {
            if bounds[0] == bounds[1] {
                continue;
            }
            rows.push(row);
            first_segments.push(length_of(&segments));
            segments.extend((bounds[0]..bounds[1]).step_by(SEGMENT));
        }
        first_segments.push(length_of(&segments));
        segments.push(length_of(ids));
        Self { order, segments, rows, first_segments }
    }
}

fn length_of<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("a batch has fewer than 2^32 tokens")
}

/// The sizes of [`Lookups`], whose lists lie one after another, and of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookupShape {
    entries: usize,
    width: usize,
    ids: usize,
    segments: usize,
    rows: usize,
}

/// The gradient of a table, `[entries, width]`, from that of its looked up rows.
pub(super) fn embedding_gradient(
    gradient: CubeTensor,
    lookups: CubeTensor,
    shape: LookupShape,
) -> CubeTensor {
    let (gradient, lookups) = (row_major(gradient), row_major(lookups));
    let client = gradient.client.clone();
    let LookupShape { entries, width, ids, segments, rows } = shape;
    let sums = empty(&gradient, [segments, width], DType::F32);
    let dtypes = [gradient.dtype, lookups.dtype].map(dtype_to_storage_type);
    let (count, dim) = unit_per_element(segments * width);
    segments_kernel::launch(
        &client,
        count,
        dim,
        gradient.clone().into_buffer_arg(),
        lookups.clone().into_buffer_arg(),
        sums.clone().into_buffer_arg(),
        ids,
        segments,
        width,
        dtypes,
    );
    // Not `float_zeros`: its rows may lie apart.
    let table = empty(&gradient, [entries, width], DType::F32);
    let (count, dim) = unit_per_element(entries * width);
    zero_kernel::launch(&client, count, dim, table.clone().into_buffer_arg(), entries * width);
    let (count, dim) = unit_per_element(rows * width);
    let dtypes = dtype_to_storage_type(lookups.dtype);
    rows_kernel::launch(
        &client,
        count,
        dim,
        sums.into_buffer_arg(),
        lookups.into_buffer_arg(),
        table.clone().into_buffer_arg(),
        ids + segments + 1,
        rows,
        width,
        dtypes,
    );
    table
}

#[cube(launch)]
fn zero_kernel(table: &mut [f32], elements: usize) {
    if ABSOLUTE_POS < elements {
        table[ABSOLUTE_POS] = 0.0f32;
    }
}

#[cube(launch)]
fn segments_kernel<F: Float, I: Numeric>(
    gradient: &[F],
    lookups: &[I],
    sums: &mut [f32],
    ids: usize,
    segments: usize,
    #[comptime] width: usize,
    #[define(F, I)] _dtypes: [ElemType; 2],
) {
    if ABSOLUTE_POS >= segments * width {
        terminate!();
    }
    let column = ABSOLUTE_POS % width;
    let segment = ABSOLUTE_POS / width;
    let begin = usize::cast_from(lookups[ids + segment]);
    let end = usize::cast_from(lookups[ids + segment + 1]);
    let mut sum = 0.0f32;
    for at in begin..end {
        sum += f32::cast_from(gradient[usize::cast_from(lookups[at]) * width + column]);
    }
    sums[ABSOLUTE_POS] = sum;
}

/// `first` is where the rows lie among the lookups.
#[cube(launch)]
fn rows_kernel<I: Numeric>(
    sums: &[f32],
    lookups: &[I],
    table: &mut [f32],
    first: usize,
    rows: usize,
    #[comptime] width: usize,
    #[define(I)] _dtype: ElemType,
) {
    if ABSOLUTE_POS >= rows * width {
        terminate!();
    }
    let column = ABSOLUTE_POS % width;
    let at = ABSOLUTE_POS / width;
    let row = usize::cast_from(lookups[first + at]);
    let begin = usize::cast_from(lookups[first + rows + at]);
    let end = usize::cast_from(lookups[first + rows + at + 1]);
    let mut sum = 0.0f32;
    for segment in begin..end {
        sum += sums[segment * width + column];
    }
    table[row * width + column] = sum;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_are_sorted_by_row_and_divided() {
        let lookups = Lookups::of(&[3, 1, 3, 0], 5);
        assert_eq!(
            lookups,
            Lookups {
                order: vec![3, 1, 0, 2],
                segments: vec![0, 1, 2, 4],
                rows: vec![0, 1, 3],
                first_segments: vec![0, 1, 2, 3],
            }
        );
        let many = Lookups::of(&[2; 70], 3);
        assert_eq!((many.segments, many.first_segments), (vec![0, 32, 64, 70], vec![0, 3]));
    }
}
