//! The user's prior: the `prior` of each parameter as a position in the cube with a width.

use super::cube::{AxisKind, Cube, Point};
use crate::study::params::Params;
use crate::study::space::Space;

/// Standard deviation of the prior on a numeric axis: two thirds of its mass lie within 15 % of the
/// axis on either side.
pub(super) const WIDTH: f64 = 0.15;
/// After n trials the log prior is weighted by this over n (Hvarfner et al. 2022, "piBO", equation
/// 6, with beta a tenth of a hundred trials): its effect fades after some dozens.
const BETA: f64 = 10.0;

/// The priors of a space.
#[derive(Clone, Debug)]
pub(super) struct Prior {
    /// Positions; inactive on axes without a prior.
    pub place: Point,
}

impl Prior {
    /// The priors of `space`, if any.
    pub fn new(cube: &Cube, space: &Space) -> Option<Self> {
        let params = params(space);
        (!params.is_empty()).then(|| Prior { place: cube.encode(&params) })
    }

    /// The log prior at `point` (up to a constant), weighted for `finished` trials, and its
    /// gradient.
    #[expect(clippy::cast_precision_loss, reason = "numbers of trials and choices")]
    pub fn log_weight(&self, cube: &Cube, point: &[f64], finished: usize) -> (f64, Vec<f64>) {
        let share = BETA / finished.max(1) as f64;
        let mut total = 0.0;
        let mut slopes = vec![0.0; point.len()];
        for (index, axis) in cube.axes.iter().enumerate() {
            let (expected, position) = (self.place[index], point[index]);
            if expected.is_nan() || position.is_nan() {
                continue;
            }
            match axis.kind {
                AxisKind::Single => {}
                // Half of the mass on the expected choice, the rest uniform.
                AxisKind::Choice(count) if expected == position => {
                    total += share * (1.0 + count as f64).ln()
                }
                AxisKind::Choice(_) => {}
                AxisKind::Continuous | AxisKind::Cells(_) | AxisKind::LogCells { .. } => {
                    let off = (position - expected) / WIDTH;
                    total -= 0.5 * share * off * off;
                    slopes[index] = -share * off / WIDTH;
                }
            }
        }
        (total, slopes)
    }
}

/// The priors as values, including inactive parameters.
pub(super) fn params(space: &Space) -> Params {
    space
        .dimensions()
        .iter()
        .filter_map(|dimension| Some((dimension.name.clone(), dimension.prior.clone()?)))
        .collect()
}
