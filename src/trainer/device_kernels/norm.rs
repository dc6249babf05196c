//! Layer and RMS normalisation of rows: a plane a row, statistics in f32.

use burn::cubecl;
use burn::cubecl::prelude::*;
use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;

use super::operation::{DeviceOperation, empty, plane_per_row, row_major};

/// `[rows, width]`, `[1, width]`, `[1, width]` to `[rows, width]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Norm {
    /// Whether the mean is subtracted, and a bias added: layer normalisation, else RMS.
    pub(crate) centred: bool,
    pub(crate) epsilon: f32,
}

impl DeviceOperation<3> for Norm {
    /// The input, the scale, and the mean and inverse deviation of each row.
    type Saved = [CubeTensor; 3];

    fn forward(&self, [x, scale, bias]: [CubeTensor; 3]) -> (CubeTensor, Self::Saved) {
        let (y, statistics) =
            norm_forward(x.clone(), scale.clone(), bias, self.epsilon, self.centred);
        (y, [x, scale, statistics])
    }

    fn backward(
        &self,
        [x, scale, statistics]: Self::Saved,
        gradient: CubeTensor,
        _: [bool; 3],
    ) -> [Option<CubeTensor>; 3] {
        let (of_x, of_scale, of_bias) = norm_backward(x, scale, statistics, gradient, self.centred);
        // Without a mean, the scale stands for the bias.
        [Some(of_x), Some(of_scale), self.centred.then_some(of_bias)]
    }
}

/// Rows that one cube adds up for the gradients of scale and bias, at least.
const ROWS_PER_PART: usize = 128;

/// Parts at most: their sums are added up by one unit per column.
const MAX_PARTS: usize = 64;

/// Columns of a cube in those sums, and rows that it looks at at a time.
const COLUMNS: u32 = 32;
const ROWS: u32 = 8;

pub(super) fn norm_forward(
    x: CubeTensor,
    scale: CubeTensor,
    bias: CubeTensor,
    epsilon: f32,
    centred: bool,
) -> (CubeTensor, CubeTensor) {
    let (x, scale, bias) = (row_major(x), row_major(scale), row_major(bias));
    let [rows, width] = x.meta.shape().dims::<2>();
    let (y, statistics) = (empty(&x, [rows, width], DType::F32), empty(&x, [rows, 2], DType::F32));
    let (count, dim) = plane_per_row(&x.client, rows);
    norm_forward_kernel::launch(
        &x.client.clone(),
        count,
        dim,
        x.into_buffer_arg(),
        scale.into_buffer_arg(),
        bias.into_buffer_arg(),
        y.clone().into_buffer_arg(),
        statistics.clone().into_buffer_arg(),
        rows,
        epsilon,
        width,
        centred,
    );
    (y, statistics)
}

pub(super) fn norm_backward(
    x: CubeTensor,
    scale: CubeTensor,
    statistics: CubeTensor,
    gradient: CubeTensor,
    centred: bool,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    let (x, scale, gradient) = (row_major(x), row_major(scale), row_major(gradient));
    let (client, [rows, width]) = (x.client.clone(), x.meta.shape().dims::<2>());
    let of_x = empty(&x, [rows, width], DType::F32);
    let (count, dim) = plane_per_row(&client, rows);
    norm_backward_kernel::launch(
        &client,
        count,
        dim,
        x.clone().into_buffer_arg(),
        scale.into_buffer_arg(),
        statistics.clone().into_buffer_arg(),
        gradient.clone().into_buffer_arg(),
        of_x.clone().into_buffer_arg(),
        rows,
        width,
        centred,
    );
    let parts = rows.div_ceil(ROWS_PER_PART).clamp(1, MAX_PARTS);
    let sums = empty(&x, [parts, 2 * width], DType::F32);
    let columns = u32::try_from(width.div_ceil(COLUMNS as usize)).expect("a row's width");
    norm_sums_kernel::launch(
        &client,
        CubeCount::Static(columns, u32::try_from(parts).expect("at most 64"), 1),
        CubeDim::new_2d(COLUMNS, ROWS),
        x.clone().into_buffer_arg(),
        statistics.into_buffer_arg(),
        gradient.into_buffer_arg(),
        sums.clone().into_buffer_arg(),
        rows,
        rows.div_ceil(parts),
        width,
    );
    let (of_scale, of_bias) =
        (empty(&x, [1, width], DType::F32), empty(&x, [1, width], DType::F32));
    let (count, dim) = super::operation::unit_per_element(width);
    norm_parts_kernel::launch(
        &client,
        count,
        dim,
        sums.into_buffer_arg(),
        of_scale.clone().into_buffer_arg(),
        of_bias.clone().into_buffer_arg(),
        parts,
        width,
    );
    (of_x, of_scale, of_bias)
}

#[cube(launch)]
fn norm_forward_kernel(
    x: &[f32],
    scale: &[f32],
    bias: &[f32],
    y: &mut [f32],
    statistics: &mut [f32],
    rows: usize,
    epsilon: f32,
    #[comptime] width: usize,
    #[comptime] centred: bool,
) {
    let row = CUBE_POS as usize * CUBE_DIM_Y as usize + UNIT_POS_Y as usize;
    if row >= rows {
        terminate!();
    }
    let first = row * width;
    let lane = UNIT_POS_X as usize;
    let lanes = CUBE_DIM_X as usize;
    let count = comptime!(width as f32).runtime();
    let mut mean = 0.0f32;
    if centred {
        let mut sum = 0.0f32;
        let mut column = lane;
        while column < width {
            sum += x[first + column];
            column += lanes;
        }
        mean = plane_sum(sum) / count;
    }
    let mut squares = 0.0f32;
    let mut column = lane;
    while column < width {
        let off = x[first + column] - mean;
        squares += off * off;
        column += lanes;
    }
    let inverse = 1.0f32 / (plane_sum(squares) / count + epsilon).sqrt();
    let mut column = lane;
    while column < width {
        let mut value = (x[first + column] - mean) * inverse * scale[column];
        if centred {
            value += bias[column];
        }
        y[first + column] = value;
        column += lanes;
    }
    if lane == 0 {
        statistics[2 * row] = mean;
        statistics[2 * row + 1] = inverse;
    }
}

#[cube(launch)]
fn norm_backward_kernel(
    x: &[f32],
    scale: &[f32],
    statistics: &[f32],
    gradient: &[f32],
    of_x: &mut [f32],
    rows: usize,
    #[comptime] width: usize,
    #[comptime] centred: bool,
) {
    let row = CUBE_POS as usize * CUBE_DIM_Y as usize + UNIT_POS_Y as usize;
    if row >= rows {
        terminate!();
    }
    let first = row * width;
    let lane = UNIT_POS_X as usize;
    let lanes = CUBE_DIM_X as usize;
    let count = comptime!(width as f32).runtime();
    let mean = statistics[2 * row];
    let inverse = statistics[2 * row + 1];
    let mut sum = 0.0f32;
    let mut product = 0.0f32;
    let mut column = lane;
    while column < width {
        let scaled = gradient[first + column] * scale[column];
        sum += scaled;
        product += scaled * (x[first + column] - mean) * inverse;
        column += lanes;
    }
    let mean_product = plane_sum(product) / count;
    let mut mean_sum = 0.0f32;
    if centred {
        mean_sum = plane_sum(sum) / count;
    }
    let mut column = lane;
    while column < width {
        let scaled = gradient[first + column] * scale[column];
        let normal = (x[first + column] - mean) * inverse;
        of_x[first + column] = inverse * (scaled - mean_sum - normal * mean_product);
        column += lanes;
    }
}

/// The gradients of scale and bias of a part of the rows, side by side.
#[cube(launch)]
fn norm_sums_kernel(
    x: &[f32],
    statistics: &[f32],
    gradient: &[f32],
    sums: &mut [f32],
    rows: usize,
    rows_per_part: usize,
    #[comptime] width: usize,
) {
    let column = CUBE_POS_X as usize * CUBE_DIM_X as usize + UNIT_POS_X as usize;
    let part = CUBE_POS_Y as usize;
    let mut end = (part + 1) * rows_per_part;
    if end > rows {
        end = rows;
    }
    let mut of_scale = 0.0f32;
    let mut of_bias = 0.0f32;
    if column < width {
        let mut row = part * rows_per_part + UNIT_POS_Y as usize;
        while row < end {
            let own = gradient[row * width + column];
            of_scale +=
                own * (x[row * width + column] - statistics[2 * row]) * statistics[2 * row + 1];
            of_bias += own;
            row += CUBE_DIM_Y as usize;
        }
    }
    let mut shared = Shared::<[f32]>::new_slice(comptime!((2 * COLUMNS * ROWS) as usize));
    let place = (UNIT_POS_Y * CUBE_DIM_X + UNIT_POS_X) as usize;
    let half = comptime!((COLUMNS * ROWS) as usize);
    shared[place] = of_scale;
    shared[half + place] = of_bias;
    sync_cube();
    if UNIT_POS_Y == 0 && column < width {
        let mut of_scale = 0.0f32;
        let mut of_bias = 0.0f32;
        let mut other = UNIT_POS_X as usize;
        while other < half {
            of_scale += shared[other];
            of_bias += shared[half + other];
            other += CUBE_DIM_X as usize;
        }
        sums[part * 2 * width + column] = of_scale;
        sums[part * 2 * width + width + column] = of_bias;
    }
}

#[cube(launch)]
fn norm_parts_kernel(
    sums: &[f32],
    of_scale: &mut [f32],
    of_bias: &mut [f32],
    parts: usize,
    #[comptime] width: usize,
) {
    let column = ABSOLUTE_POS;
    if column >= width {
        terminate!();
    }
    let mut scale = 0.0f32;
    let mut bias = 0.0f32;
    for part in 0..parts {
        scale += sums[part * 2 * width + column];
        bias += sums[part * 2 * width + width + column];
    }
    of_scale[column] = scale;
    of_bias[column] = bias;
}
