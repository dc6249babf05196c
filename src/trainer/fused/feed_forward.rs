//! The feed-forward part of a transformer's layer as one operation: what lies between its maps is made twice and kept never.

use super::curve::{Curve, bend, slope, slope_and_curve};
use super::dropout::{Mask, masked};
use super::linear::{Map, add, onto};
use super::products::{Finish, Place, new_finished_product, new_product_and_more};
use super::{Operation, Purpose, Slope};

/// `r + dropout(curve(x W₁ + b₁) W₂ + b₂)`: inputs `r [rows, width]`, `x [rows, in]`, `W₁ [in, inner]`, `b₁ [1, inner]`, `W₂ [inner, width]`,
/// `b₂ [1, width]`, output as `r`.
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct FeedForward {
    /// Columns between the maps.
    pub(in crate::trainer) inner: usize,
    /// Columns of the output.
    pub(in crate::trainer) width: usize,
    /// What becomes of every number between the maps.
    pub(in crate::trainer) curve: Curve,
    /// What is dropped before the sum.
    pub(in crate::trainer) dropout: Option<Mask>,
}

impl Operation<6> for FeedForward {
    const NEEDS: [bool; 6] = [false, true, true, false, true, false];
    /// The first map's numbers before the nonlinearity.
    type Kept = Vec<f32>;

    fn forward(&self, [residual, x, w1, b1, w2, b2]: [&[f32]; 6], purpose: Purpose) -> (Vec<f32>, Vec<f32>) {
        let (curve, map) = (self.curve, Map::new(x, w1, self.inner));
        let (kept, bent) = match purpose {
            Purpose::Gradient => map.bent(curve, x, w1, |column, numbers| add(numbers, &b1[column..])),
            Purpose::Output => {
                let finish: &Finish<'_> = &|_, column, numbers, _| {
                    add(numbers, &b1[column..]);
                    bend(curve, numbers);
                };
                (Vec::new(), map.finished(x, w1, finish))
            }
        };
        (Map::new(&bent, w2, self.width).finished(&bent, w2, &onto(residual, b2, self.dropout)), kept)
    }

    fn backward(&self, [_, x, w1, _, w2, _]: [&[f32]; 6], kept: Vec<f32>, gradient: &[f32], wanted: [bool; 6]) -> [Slope; 6] {
        let [_, dx, dw1, db1, dw2, db2] = wanted;
        if wanted[1..] == [false; 5] {
            return [Slope::Output, Slope::Unwanted, Slope::Unwanted, Slope::Unwanted, Slope::Unwanted, Slope::Unwanted];
        }
        let dropped = self.dropout.map(|mask| masked(gradient, mask));
        let outer = dropped.as_deref().unwrap_or(gradient);
        let (inner, bent) = self.between(&kept, w2, outer, dw2);
        drop(kept);
        let [_, dw2, db2] = Map::new(&bent, w2, self.width).slopes(&bent, w2, outer, [false, dw2, db2]);
        drop(bent);
        let [dx, dw1, db1] = Map::new(x, w1, self.inner).slopes(x, w1, &inner, [dx, dw1, db1]);
        [Slope::Output, dx, dw1, db1, dw2, db2]
    }
}

impl FeedForward {
    /// The gradient of the first map's numbers, and the numbers that the second map has read if its weight's gradient needs them.
    #[expect(unsafe_code, reason = "a second matrix is not filled with zeros first, which would be one more pass over memory")]
    fn between(&self, kept: &[f32], w2: &[f32], outer: &[f32], again: bool) -> (Vec<f32>, Vec<f32>) {
        let (curve, columns) = (self.curve, self.inner);
        let sizes = [outer.len() / self.width, self.width, columns];
        let (left, right) = ((outer, Place::dense(self.width)), (w2, Place::dense(self.width).transposed()));
        let before = |row: usize, column: usize, count: usize| &kept[row * columns + column..][..count];
        if again {
            let finish: &Finish<'_> = &|row, column, numbers, room| slope_and_curve(curve, before(row, column, numbers.len()), numbers, room);
            // SAFETY: `slope_and_curve` writes all of the room.
            return unsafe { new_product_and_more(sizes, left, right, finish) };
        }
        let finish: &Finish<'_> = &|row, column, numbers, _| slope(curve, before(row, column, numbers.len()), numbers);
        (new_finished_product(sizes, left, right, finish), Vec::new())
    }
}
