//! The kernels of a mixture on one axis, with norms cached from earlier suggestions.

use std::cell::Cell;

/// The kernels of a mixture on one axis, without the prior.
#[derive(Debug)]
pub(super) struct Kernels<'a> {
    /// Mean of each kernel; inactive where its trial lacks the axis.
    pub middles: Vec<f64>,
    /// The active ones: ascending positions, each with its kernel; ties by kernel.
    pub order: Vec<(f64, usize)>,
    /// Cached norms.
    pub norms: Norms<'a>,
}

impl<'a> Kernels<'a> {
    /// Kernels at these positions.
    pub fn new(middles: Vec<f64>, norms: Norms<'a>) -> Self {
        let mut order: Vec<(f64, usize)> =
            middles.iter().copied().zip(0..).filter(|(middle, _)| !middle.is_nan()).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Kernels { middles, order, norms }
    }
}

/// A kernel's norm, and the inverse width that it belongs to. No width is infinite: 0 has no norm.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Norm {
    inverse: f64,
    norm: f64,
}

/// A cache of norms, which depend on a trial's position (constant) and on its width (rarely
/// changes).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Norms<'a> {
    /// The last norm of each slot, with the width that it is of.
    pub known: &'a [Cell<Norm>],
    /// The slot of each kernel; kernels beyond have none.
    pub slots: &'a [usize],
}

impl Norms<'_> {
    /// The norm of `kernel`, computed by `norm` unless the cache has it for this width.
    pub fn get(&self, kernel: usize, inverse: f64, norm: impl FnOnce() -> f64) -> f64 {
        let Some(known) = self.slots.get(kernel).map(|slot| &self.known[*slot]) else {
            return norm();
        };
        let last = known.get();
        if last.inverse == inverse {
            return last.norm;
        }
        let norm = norm();
        known.set(Norm { inverse, norm });
        norm
    }
}
