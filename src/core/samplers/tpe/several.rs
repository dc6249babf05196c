//! The weights of good trials of several objectives.

use crate::study::history::History;
use crate::study::pareto;

/// The smallest weight, as a share of the largest: good trials that add no hypervolume.
const LEAST: f64 = 1e-12;

/// The weights of the good trials (by index in the history), in the scale of the prior's weight 1:
/// each trial's exclusive hypervolume among them, as a share of the largest (Y. Ozaki et al.,
/// "Multiobjective tree-structured Parzen estimator", JAIR 2022, as in Optuna 5). The reference
/// point is the worst loss of the good trials, a tenth of it further on.
pub(super) fn good_weights(good: &[usize], history: &History<'_>) -> Vec<f64> {
    let trials = history.trials();
    let known: Vec<(usize, Vec<f64>)> = good
        .iter()
        .enumerate()
        .filter_map(|(place, index)| Some((place, history.final_losses(&trials[*index])?)))
        .collect();
    let (places, losses): (Vec<usize>, Vec<Vec<f64>>) = known.into_iter().unzip();
    let reference: Vec<f64> = (0..history.directions().len())
        .map(|objective| {
            let losses = losses.iter().map(|losses| losses[objective]);
            let worst = losses.fold(f64::NEG_INFINITY, f64::max);
            let border = (1.1 * worst).max(0.9 * worst);
            if border == 0.0 { LEAST } else { border }
        })
        .collect();
    let contributions = pareto::contributions(&losses, &reference);
    let most = contributions.iter().copied().fold(0.0, f64::max);
    // Trials without a value, which are good only while others are few, weigh least.
    let mut weights = vec![LEAST; good.len()];
    for (place, contribution) in places.into_iter().zip(contributions) {
        let is_defined = most > 0.0 && most.is_finite();
        weights[place] = if is_defined { (contribution / most).max(LEAST) } else { 1.0 };
    }
    weights
}
