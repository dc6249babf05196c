//! Linear maps of rows with what stands around them: bias, nonlinearity, or dropout and the sum with what a block has read.

use super::curve::{Curve, curved, sloped};
use super::dropout::{Mask, counter, masked};
use super::lanes::{append, vectorised};
use super::products::{Landing, Place, new_product, product};
use super::{Operation, Purpose, Slope};

/// `curve(x W + b)`: inputs `x [rows, in]`, `W [in, width]`, `b [1, width]`, output `[rows, width]`.
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct Linear {
    /// Columns of the output.
    pub(in crate::trainer) width: usize,
    /// What becomes of every number of the map; `None`: it stays.
    pub(in crate::trainer) curve: Option<Curve>,
}

impl Operation<3> for Linear {
    const NEEDS: [bool; 3] = [true, true, false];
    /// The map's numbers before a nonlinearity.
    type Kept = Vec<f32>;

    fn forward(&self, [x, weight, bias]: [&[f32]; 3], purpose: Purpose) -> (Vec<f32>, Vec<f32>) {
        let map = Map::new(x, weight, self.width);
        let mut output = repeated(bias, map.rows);
        map.add_to(&mut output, x, weight);
        match (self.curve, purpose) {
            (None, _) => (output, Vec::new()),
            (Some(curve), Purpose::Gradient) => (curved(curve, &output), output),
            (Some(curve), Purpose::Output) => (curved(curve, &output), Vec::new()),
        }
    }

    fn backward(&self, [x, weight, _]: [&[f32]; 3], kept: Vec<f32>, gradient: &[f32], wanted: [bool; 3]) -> [Slope; 3] {
        let map = Map::new(x, weight, self.width);
        match self.curve {
            Some(curve) => map.slopes(x, weight, &sloped(curve, &kept, gradient), wanted),
            None => map.slopes(x, weight, gradient, wanted),
        }
    }
}

/// The same map without bias: inputs `x`, `W`.
impl Operation<2> for Linear {
    type Kept = Vec<f32>;

    fn forward(&self, [x, weight]: [&[f32]; 2], purpose: Purpose) -> (Vec<f32>, Vec<f32>) {
        let map = Map::new(x, weight, self.width);
        let output = map.apply(x, weight);
        match (self.curve, purpose) {
            (None, _) => (output, Vec::new()),
            (Some(curve), Purpose::Gradient) => (curved(curve, &output), output),
            (Some(curve), Purpose::Output) => (curved(curve, &output), Vec::new()),
        }
    }

    fn backward(&self, [x, weight]: [&[f32]; 2], kept: Vec<f32>, gradient: &[f32], [dx, dweight]: [bool; 2]) -> [Slope; 2] {
        let map = Map::new(x, weight, self.width);
        let wanted = [dx, dweight, false];
        let [dx, dweight, _] = match self.curve {
            Some(curve) => map.slopes(x, weight, &sloped(curve, &kept, gradient), wanted),
            None => map.slopes(x, weight, gradient, wanted),
        };
        [dx, dweight]
    }
}

/// `r + dropout(x W + b)`: inputs `r [rows, width]`, `x [rows, in]`, `W [in, width]`, `b [1, width]`, output as `r`.
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct ResidualLinear {
    /// Columns of the output.
    pub(in crate::trainer) width: usize,
    /// What is dropped of the map before it is added.
    pub(in crate::trainer) dropout: Option<Mask>,
}

impl Operation<4> for ResidualLinear {
    const NEEDS: [bool; 4] = [false, true, true, false];
    type Kept = ();

    fn forward(&self, [residual, x, weight, bias]: [&[f32]; 4], _: Purpose) -> (Vec<f32>, ()) {
        let map = Map::new(x, weight, self.width);
        let output = match self.dropout {
            Some(mask) => {
                let mut output = map.apply(x, weight);
                add_dropped(&mut output, residual, bias, mask);
                output
            }
            None => {
                let mut output = sums(residual, bias);
                map.add_to(&mut output, x, weight);
                output
            }
        };
        (output, ())
    }

    fn backward(&self, [_, x, weight, _]: [&[f32]; 4], (): (), gradient: &[f32], [_, dx, dweight, dbias]: [bool; 4]) -> [Slope; 4] {
        let map = Map::new(x, weight, self.width);
        let wanted = [dx, dweight, dbias];
        let [dx, dweight, dbias] = match self.dropout.filter(|_| wanted.contains(&true)) {
            Some(mask) => map.slopes(x, weight, &masked(gradient, mask), wanted),
            None => map.slopes(x, weight, gradient, wanted),
        };
        [Slope::Output, dx, dweight, dbias]
    }
}

/// Three maps of the same rows side by side, as attention reads them: `[x W₁ + b₁, x W₂ + b₂, x W₃ + b₃]`. Inputs `x`, the weights, the biases.
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct SideBySide {
    /// Columns of each map.
    pub(in crate::trainer) widths: [usize; 3],
}

impl SideBySide {
    /// Each map with its place in the output.
    fn maps(&self, x: &[f32], weights: [&[f32]; 3]) -> [(Map, Place); 3] {
        let (mut first, width) = (0, self.widths.iter().sum());
        [0, 1, 2].map(|part| {
            let place = Place::new(first, width);
            first += self.widths[part];
            (Map::new(x, weights[part], self.widths[part]), place)
        })
    }

    fn add_to(&self, output: &mut [f32], x: &[f32], weights: [&[f32]; 3], landing: Landing) {
        for ((map, place), weight) in self.maps(x, weights).into_iter().zip(weights) {
            let sizes = [map.rows, map.input, map.width];
            product(sizes, (output, place), (x, map.inputs()), (weight, map.outputs()), 1.0, landing);
        }
    }

    fn slopes(&self, x: &[f32], weights: [&[f32]; 3], gradient: &[f32], rows: bool, wanted: [bool; 3]) -> (Slope, [Slope; 3]) {
        let maps = self.maps(x, weights);
        let mut dx = vec![0.0; if rows { x.len() } else { 0 }];
        let dweights = [0, 1, 2].map(|part| {
            let ((map, place), weight) = (maps[part], weights[part]);
            if rows {
                let (sizes, landing) = ([map.rows, map.width, map.input], if part == 0 { Landing::Replace } else { Landing::Add });
                product(sizes, (&mut dx, map.inputs()), (gradient, place), (weight, map.outputs().transposed()), 1.0, landing);
            }
            Slope::when(wanted[part], || new_product([map.input, map.rows, map.width], (x, map.inputs().transposed()), (gradient, place)))
        });
        (Slope::when(rows, || dx), dweights)
    }
}

impl Operation<7> for SideBySide {
    const NEEDS: [bool; 7] = [true, true, true, true, false, false, false];
    type Kept = ();

    fn forward(&self, [x, w1, w2, w3, b1, b2, b3]: [&[f32]; 7], _: Purpose) -> (Vec<f32>, ()) {
        let bias = [b1, b2, b3].concat();
        let mut output = repeated(&bias, Map::new(x, w1, self.widths[0]).rows);
        self.add_to(&mut output, x, [w1, w2, w3], Landing::Add);
        (output, ())
    }

    fn backward(&self, [x, w1, w2, w3, ..]: [&[f32]; 7], (): (), gradient: &[f32], wanted: [bool; 7]) -> [Slope; 7] {
        let [rows, w1_, w2_, w3_, biases @ ..] = wanted;
        let (dx, [dw1, dw2, dw3]) = self.slopes(x, [w1, w2, w3], gradient, rows, [w1_, w2_, w3_]);
        let width: usize = self.widths.iter().sum();
        let sums = if biases.contains(&true) { column_sums(gradient, width) } else { vec![0.0; width] };
        let mut first = 0;
        let [db1, db2, db3] = [0, 1, 2].map(|part| {
            let range = first..first + self.widths[part];
            first = range.end;
            Slope::when(biases[part], || sums[range].to_vec())
        });
        [dx, dw1, dw2, dw3, db1, db2, db3]
    }
}

/// The same maps without biases.
impl Operation<4> for SideBySide {
    type Kept = ();

    fn forward(&self, [x, w1, w2, w3]: [&[f32]; 4], _: Purpose) -> (Vec<f32>, ()) {
        let rows = Map::new(x, w1, self.widths[0]).rows;
        let mut output = vec![0.0; rows * self.widths.iter().sum::<usize>()];
        self.add_to(&mut output, x, [w1, w2, w3], Landing::Replace);
        (output, ())
    }

    fn backward(&self, [x, w1, w2, w3]: [&[f32]; 4], (): (), gradient: &[f32], [rows, wanted @ ..]: [bool; 4]) -> [Slope; 4] {
        let (dx, [dw1, dw2, dw3]) = self.slopes(x, [w1, w2, w3], gradient, rows, wanted);
        [dx, dw1, dw2, dw3]
    }
}

/// The sizes of a linear map: `[rows, input]` to `[rows, width]`.
#[derive(Debug, Clone, Copy)]
struct Map {
    rows: usize,
    input: usize,
    width: usize,
}

impl Map {
    fn new(x: &[f32], weight: &[f32], width: usize) -> Self {
        let input = weight.len() / width;
        Self { rows: x.len() / input, input, width }
    }

    fn inputs(self) -> Place {
        Place::dense(self.input)
    }

    fn outputs(self) -> Place {
        Place::dense(self.width)
    }

    fn apply(self, x: &[f32], weight: &[f32]) -> Vec<f32> {
        new_product([self.rows, self.input, self.width], (x, self.inputs()), (weight, self.outputs()))
    }

    fn add_to(self, output: &mut [f32], x: &[f32], weight: &[f32]) {
        let sizes = [self.rows, self.input, self.width];
        product(sizes, (output, self.outputs()), (x, self.inputs()), (weight, self.outputs()), 1.0, Landing::Add);
    }

    /// The slopes of rows, weight and bias.
    fn slopes(self, x: &[f32], weight: &[f32], gradient: &[f32], [dx, dweight, dbias]: [bool; 3]) -> [Slope; 3] {
        let (outer, inner) = ((gradient, self.outputs()), (weight, self.outputs().transposed()));
        [
            Slope::when(dx, || new_product([self.rows, self.width, self.input], outer, inner)),
            Slope::when(dweight, || new_product([self.input, self.rows, self.width], (x, self.inputs().transposed()), outer)),
            Slope::when(dbias, || column_sums(gradient, self.width)),
        ]
    }
}

/// `row` again and again.
fn repeated(row: &[f32], rows: usize) -> Vec<f32> {
    let mut output = Vec::with_capacity(rows * row.len());
    (0..rows).for_each(|_| output.extend_from_slice(row));
    output
}

vectorised! {
    /// Every row of `rows` plus `row`.
    fn sums(rows: &[f32], row: &[f32]) -> Vec<f32> {
        let mut output = Vec::with_capacity(rows.len());
        for numbers in rows.chunks_exact(row.len()) {
            append(&mut output, numbers, row, |_, a, b| a + b);
        }
        output
    }
}

vectorised! {
    /// `output` becomes `residual + dropout(output + bias)`.
    fn add_dropped(output: &mut [f32], residual: &[f32], bias: &[f32], mask: Mask) {
        let width = bias.len();
        for (row, (output, residual)) in output.chunks_exact_mut(width).zip(residual.chunks_exact(width)).enumerate() {
            for (column, ((output, residual), bias)) in output.iter_mut().zip(residual).zip(bias).enumerate() {
                *output = residual + (*output + bias) * mask.factor(counter(row * width + column));
            }
        }
    }
}

vectorised! {
    /// The sum of all rows.
    pub(super) fn column_sums(rows: &[f32], width: usize) -> Vec<f32> {
        let mut sums = vec![0.0; width];
        for row in rows.chunks_exact(width) {
            for (sum, number) in sums.iter_mut().zip(row) {
                *sum += number;
            }
        }
        sums
    }
}
