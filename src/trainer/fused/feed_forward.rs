//! The feed-forward part of a transformer's layer as one operation: of what lies between its maps, values and slopes are kept.

use super::curve::{Curve, bend, multiply};
use super::dropout::{Mask, masked};
use super::linear::{Map, onto};
use super::products::{Finish, Place, new_finished_map};
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
    /// What the second map has read, and the slopes of the nonlinearity there.
    type Kept = [Vec<f32>; 2];

    fn forward(&self, [residual, x, w1, b1, w2, b2]: [&[f32]; 6], purpose: Purpose) -> (Vec<f32>, Self::Kept) {
        let (curve, map) = (self.curve, Map::new(x, w1, self.inner));
        let (bent, slopes) = match purpose {
            Purpose::Gradient => map.bent(curve, x, w1, b1),
            Purpose::Output => (map.finished(x, w1, b1, &[], &|_, _, numbers, _| bend(curve, numbers)), Vec::new()),
        };
        let output = Map::new(&bent, w2, self.width).finished(&bent, w2, b2, residual, &onto(residual, self.width, self.dropout));
        (output, [bent, slopes])
    }

    fn backward(&self, [_, x, w1, _, w2, _]: [&[f32]; 6], [bent, slopes]: Self::Kept, gradient: &[f32], wanted: [bool; 6]) -> [Slope; 6] {
        let [_, dx, dw1, db1, dw2, db2] = wanted;
        if wanted[1..] == [false; 5] {
            return [Slope::Output, Slope::Unwanted, Slope::Unwanted, Slope::Unwanted, Slope::Unwanted, Slope::Unwanted];
        }
        let dropped = self.dropout.map(|mask| masked(gradient, self.width, mask));
        let outer = dropped.as_deref().unwrap_or(gradient);
        let inner = self.between(&slopes, w2, outer);
        drop(slopes);
        let [_, dw2, db2] = Map::new(&bent, w2, self.width).slopes(&bent, w2, outer, [false, dw2, db2]);
        drop(bent);
        let [dx, dw1, db1] = Map::new(x, w1, self.inner).slopes(x, w1, &inner, [dx, dw1, db1]);
        [Slope::Output, dx, dw1, db1, dw2, db2]
    }
}

impl FeedForward {
    /// The gradient of the first map's numbers.
    fn between(&self, slopes: &[f32], w2: &[f32], outer: &[f32]) -> Vec<f32> {
        let columns = self.inner;
        let sizes = [outer.len() / self.width, self.width, columns];
        let (left, right) = ((outer, Place::dense(self.width)), (w2, Place::dense(self.width).transposed()));
        let finish: &Finish<'_> = &|row, column, numbers, _| multiply(numbers, &slopes[row * columns + column..]);
        new_finished_map(sizes, left, right, &[], slopes, finish)
    }
}
