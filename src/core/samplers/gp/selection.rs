//! The trials that the hyperparameters are fitted to.

use crate::samplers::cube::{Point, evenly, key};

/// Maximum number of them.
const FIT_MOST: usize = 120;

/// Trials that the hyperparameters are fitted to.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub points: Vec<Point>,
    pub losses: Vec<f64>,
    pub variances: Vec<f64>,
}

impl Selection {
    /// Of `count` trials, `trial` of which gives the point, and the loss with its variance. Beyond
    /// `FIT_MOST`: the best third of it, and an even selection of the others.
    pub fn of(count: usize, trial: impl Fn(usize) -> (Point, f64, f64)) -> Self {
        let rows: Vec<_> = (0..count).map(trial).collect();
        let mut order: Vec<usize> = (0..count).collect();
        if count > FIT_MOST {
            order.sort_by(|a, b| rows[*a].1.total_cmp(&rows[*b].1).then(a.cmp(b)));
            let mut others = order.split_off(FIT_MOST / 3);
            others.sort_unstable();
            order.extend(evenly(&others, FIT_MOST - FIT_MOST / 3));
            order.sort_unstable();
        }
        let mut selection = Selection::default();
        for index in order {
            let (point, loss, variance) = rows[index].clone();
            selection.points.push(point);
            selection.losses.push(loss);
            selection.variances.push(variance);
        }
        selection
    }

    /// Whether both are the same.
    pub fn is(&self, other: &Selection) -> bool {
        self.losses == other.losses
            && self.variances == other.variances
            && self.points.len() == other.points.len()
            && self.points.iter().zip(&other.points).all(|(known, point)| key(known) == key(point))
    }
}

/// The largest number of trials up to `count`, `from` a number on in steps of a share of it: fits,
/// which dominate the cost, are saved by fitting to the oldest of them.
pub(super) fn in_steps(count: usize, from: usize, share: usize) -> usize {
    let mut steps = count.min(from);
    while steps + 1 + steps / share <= count {
        steps += 1 + steps / share;
    }
    steps
}

/// How many of the oldest trials hyperparameters are fitted to.
pub(super) fn fitted_of(count: usize) -> usize {
    in_steps(count, 5, 25)
}
