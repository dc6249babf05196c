//! Linear maps of rows with what stands around them: bias, nonlinearity, or dropout and the sum with what a block has read.

use super::curve::{Curve, bend, bend_and_slope, times};
use super::dropout::{Mask, RowMask, masked};
use super::lanes::vectorised;
use super::products::{
    Finish, Landing, Place, new_finished_map, new_map, new_map_and_more, new_product, new_product_and_sums, product, side_by_side,
};
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
    /// The slopes of a nonlinearity.
    type Kept = Vec<f32>;

    fn forward(&self, [x, weight, bias]: [&[f32]; 3], purpose: Purpose) -> (Vec<f32>, Vec<f32>) {
        self.mapped(x, weight, bias, purpose)
    }

    fn backward(&self, [x, weight, _]: [&[f32]; 3], kept: Vec<f32>, gradient: &[f32], wanted: [bool; 3]) -> [Slope; 3] {
        let map = Map::new(x, weight, self.width);
        match self.curve {
            Some(_) => map.slopes(x, weight, &times(gradient, &kept), wanted),
            None => map.slopes(x, weight, gradient, wanted),
        }
    }
}

/// The same map without bias: inputs `x`, `W`.
impl Operation<2> for Linear {
    type Kept = Vec<f32>;

    fn forward(&self, [x, weight]: [&[f32]; 2], purpose: Purpose) -> (Vec<f32>, Vec<f32>) {
        self.mapped(x, weight, &[], purpose)
    }

    fn backward(&self, [x, weight]: [&[f32]; 2], kept: Vec<f32>, gradient: &[f32], [dx, dweight]: [bool; 2]) -> [Slope; 2] {
        let map = Map::new(x, weight, self.width);
        let wanted = [dx, dweight, false];
        let [dx, dweight, _] = match self.curve {
            Some(_) => map.slopes(x, weight, &times(gradient, &kept), wanted),
            None => map.slopes(x, weight, gradient, wanted),
        };
        [dx, dweight]
    }
}

impl Linear {
    /// The output, and the slopes of a nonlinearity where the gradient needs them; the bias may be empty.
    fn mapped(&self, x: &[f32], weight: &[f32], bias: &[f32], purpose: Purpose) -> (Vec<f32>, Vec<f32>) {
        let map = Map::new(x, weight, self.width);
        match (self.curve, purpose) {
            (None, _) => (map.plain(x, weight, bias), Vec::new()),
            (Some(curve), Purpose::Output) => (map.finished(x, weight, bias, &[], &|_, _, numbers, _| bend(curve, numbers)), Vec::new()),
            (Some(curve), Purpose::Gradient) => map.bent(curve, x, weight, bias),
        }
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
        (map.finished(x, weight, bias, residual, &onto(residual, self.width, self.dropout)), ())
    }

    fn backward(&self, [_, x, weight, _]: [&[f32]; 4], (): (), gradient: &[f32], [_, dx, dweight, dbias]: [bool; 4]) -> [Slope; 4] {
        let map = Map::new(x, weight, self.width);
        let wanted = [dx, dweight, dbias];
        let [dx, dweight, dbias] = match self.dropout.filter(|_| wanted.contains(&true)) {
            Some(mask) => map.slopes(x, weight, &masked(gradient, self.width, mask), wanted),
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

    /// The maps, to which a bias is added that may be empty.
    fn mapped(&self, x: &[f32], weights: [&[f32]; 3], bias: &[f32]) -> Vec<f32> {
        let maps = self.maps(x, weights).map(|(map, _)| map);
        let rights = [0, 1, 2].map(|part| (weights[part], maps[part].outputs(), self.widths[part]));
        side_by_side([maps[0].rows, maps[0].input], (x, maps[0].inputs()), rights, bias)
    }

    /// The slopes of the rows, and those of each map's weight and bias.
    fn slopes(&self, x: &[f32], weights: [&[f32]; 3], gradient: &[f32], rows: bool, wanted: [[bool; 2]; 3]) -> (Slope, [[Slope; 2]; 3]) {
        let maps = self.maps(x, weights);
        let mut dx = Vec::new();
        let parameters = [0, 1, 2].map(|part| {
            let ((map, place), weight) = (maps[part], weights[part]);
            if rows {
                let (sizes, turned) = ([map.rows, map.width, map.input], (weight, map.outputs().transposed()));
                if part == 0 {
                    dx = new_product(sizes, (gradient, place), turned);
                } else {
                    product(sizes, (&mut dx, map.inputs()), (gradient, place), turned, 1.0, Landing::Add);
                }
            }
            map.parameters(x, (gradient, place), wanted[part])
        });
        (Slope::when(rows, || dx), parameters)
    }
}

impl Operation<7> for SideBySide {
    const NEEDS: [bool; 7] = [true, true, true, true, false, false, false];
    type Kept = ();

    fn forward(&self, [x, w1, w2, w3, b1, b2, b3]: [&[f32]; 7], _: Purpose) -> (Vec<f32>, ()) {
        (self.mapped(x, [w1, w2, w3], &[b1, b2, b3].concat()), ())
    }

    fn backward(&self, [x, w1, w2, w3, ..]: [&[f32]; 7], (): (), gradient: &[f32], wanted: [bool; 7]) -> [Slope; 7] {
        let [rows, weights @ .., b1, b2, b3] = wanted;
        let parts = [[weights[0], b1], [weights[1], b2], [weights[2], b3]];
        let (dx, [[dw1, db1], [dw2, db2], [dw3, db3]]) = self.slopes(x, [w1, w2, w3], gradient, rows, parts);
        [dx, dw1, dw2, dw3, db1, db2, db3]
    }
}

/// The same maps without biases.
impl Operation<4> for SideBySide {
    type Kept = ();

    fn forward(&self, [x, w1, w2, w3]: [&[f32]; 4], _: Purpose) -> (Vec<f32>, ()) {
        (self.mapped(x, [w1, w2, w3], &[]), ())
    }

    fn backward(&self, [x, w1, w2, w3]: [&[f32]; 4], (): (), gradient: &[f32], [rows, wanted @ ..]: [bool; 4]) -> [Slope; 4] {
        let (dx, [[dw1, _], [dw2, _], [dw3, _]]) = self.slopes(x, [w1, w2, w3], gradient, rows, wanted.map(|weight| [weight, false]));
        [dx, dw1, dw2, dw3]
    }
}

/// The sizes of a linear map: `[rows, input]` to `[rows, width]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Map {
    rows: usize,
    input: usize,
    width: usize,
}

impl Map {
    pub(super) fn new(x: &[f32], weight: &[f32], width: usize) -> Self {
        let input = weight.len() / width;
        Self { rows: x.len() / input, input, width }
    }

    fn inputs(self) -> Place {
        Place::dense(self.input)
    }

    fn outputs(self) -> Place {
        Place::dense(self.width)
    }

    fn sizes(self) -> [usize; 3] {
        [self.rows, self.input, self.width]
    }

    /// The map of `x` with a bias, which may be empty.
    fn plain(self, x: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
        new_map(self.sizes(), (x, self.inputs()), (weight, self.outputs()), bias)
    }

    /// The same, its rows finished, for which a number of `reads` is read for each of the map, if there are any.
    pub(super) fn finished(self, x: &[f32], weight: &[f32], bias: &[f32], reads: &[f32], finish: &Finish<'_>) -> Vec<f32> {
        new_finished_map(self.sizes(), (x, self.inputs()), (weight, self.outputs()), bias, reads, finish)
    }

    /// The curve of the map of `x` with a bias, which may be empty, and the curve's slopes there.
    #[expect(unsafe_code, reason = "a second matrix is not filled with zeros first, which would be one more pass over memory")]
    pub(super) fn bent(self, curve: Curve, x: &[f32], weight: &[f32], bias: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let finish: &Finish<'_> = &|_, _, numbers, room| bend_and_slope(curve, numbers, room);
        // SAFETY: `bend_and_slope` writes all of the room.
        unsafe { new_map_and_more(self.sizes(), (x, self.inputs()), (weight, self.outputs()), bias, finish) }
    }

    /// The slopes of rows, weight and bias.
    pub(super) fn slopes(self, x: &[f32], weight: &[f32], gradient: &[f32], [dx, dweight, dbias]: [bool; 3]) -> [Slope; 3] {
        let (outer, inner) = ((gradient, self.outputs()), (weight, self.outputs().transposed()));
        let dx = Slope::when(dx, || new_product([self.rows, self.width, self.input], outer, inner));
        let [dweight, dbias] = self.parameters(x, outer, [dweight, dbias]);
        [dx, dweight, dbias]
    }

    /// The slopes of weight and bias.
    fn parameters(self, x: &[f32], outer: (&[f32], Place), [dweight, dbias]: [bool; 2]) -> [Slope; 2] {
        let (sizes, x) = ([self.input, self.rows, self.width], (x, self.inputs().transposed()));
        if dweight && dbias {
            let (dweight, dbias) = new_product_and_sums(sizes, x, outer);
            return [Slope::New(dweight), Slope::New(dbias)];
        }
        [Slope::when(dweight, || new_product(sizes, x, outer)), Slope::when(dbias, || column_sums([self.rows, self.width], outer))]
    }
}

/// Finishes rows of a map, of so many numbers: `residual + dropout(map)`.
pub(super) fn onto(
    residual: &[f32],
    width: usize,
    dropout: Option<Mask>,
) -> impl Fn(usize, usize, &mut [f32], &mut [std::mem::MaybeUninit<f32>]) + Sync {
    move |row, column, numbers, _| {
        let residual = &residual[row * width + column..];
        match dropout {
            Some(mask) => add_dropped(numbers, residual, mask.row(row), column),
            None => add(numbers, residual),
        }
    }
}

vectorised! {
    /// `numbers` becomes the sum with as many more.
    fn add(numbers: &mut [f32], more: &[f32]) {
        for (number, more) in numbers.iter_mut().zip(more) {
            *number += more;
        }
    }
}

vectorised! {
    /// `numbers` becomes `residual + dropout(numbers)`, where `first` is the column of the first one.
    fn add_dropped(numbers: &mut [f32], residual: &[f32], mask: RowMask, first: usize) {
        for (place, (number, residual)) in numbers.iter_mut().zip(residual).enumerate() {
            *number = residual + *number * mask.factor(first + place);
        }
    }
}

/// The sum of all rows, one after another, each of numbers that lie side by side.
fn column_sums([rows, columns]: [usize; 2], (numbers, place): (&[f32], Place)) -> Vec<f32> {
    let mut sums = vec![0.0; columns];
    for row in 0..rows {
        add(&mut sums, &numbers[place.start + row * place.row..]);
    }
    sums
}
