//! Warm start: trials of earlier studies, mapped by parameter name and ranked within their own
//! study.

use std::collections::BTreeMap;

use super::cube::evenly;
use super::ranking::Ranking;
use crate::study::history::History;
use crate::study::params::Params;
use crate::study::space::Space;
use crate::study::spec::Earlier;
use crate::study::trial::{Trial, TrialState};

/// Maximum number of trials taken from one study: its best, and an even selection of the others.
const MOST: usize = 200;
const BEST: usize = 50;

/// What an earlier study contributes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Its trials, the best first.
    pub trials: Vec<Earlier>,
    /// Values dropped, by parameter: unknown parameters, and values out of range.
    pub dropped: BTreeMap<String, u64>,
    /// Complete and pruned trials without any parameter in common with the space.
    pub foreign: u64,
}

/// The complete and pruned trials of an earlier study, reduced to the values that are valid in
/// `space`.
pub fn earlier(space: &Space, history: History<'_>) -> Taken {
    let ranking = Ranking::new(history);
    let counts = |trial: &&&Trial| match trial.state {
        TrialState::Complete if history.has_several_objectives() => {
            trial.values.iter().any(|value| !value.is_nan())
        }
        TrialState::Complete => trial.value.is_some_and(|value| !value.is_nan()),
        TrialState::Pruned => trial.last().is_some() || !trial.vectors.is_empty(),
        TrialState::Queued | TrialState::Running | TrialState::Paused | TrialState::Failed => false,
    };
    let ranked: Vec<&Trial> = ranking.trials.iter().filter(counts).copied().collect();
    let mut taken = Taken::default();
    let mut fitting = Vec::new();
    for (place, trial) in ranked.iter().enumerate() {
        let params = fitted(space, &trial.params, &mut taken.dropped);
        if params.is_empty() {
            taken.foreign += 1;
            continue;
        }
        #[expect(clippy::cast_precision_loss, reason = "numbers of trials")]
        fitting.push(Earlier { params, rank: place as f64 / ranked.len() as f64 });
    }
    taken.trials = selected(fitting);
    taken
}

fn fitted(space: &Space, params: &Params, dropped: &mut BTreeMap<String, u64>) -> Params {
    let mut fitting = Params::new();
    for (name, value) in params.iter() {
        match space.dimension(name).and_then(|dimension| dimension.distribution.normalize(value)) {
            Some(value) => fitting.insert(name, value),
            None => *dropped.entry(name.to_owned()).or_default() += 1,
        }
    }
    // A value whose parent has a different value here is dropped.
    let switched_off: Vec<String> = space
        .dimensions()
        .iter()
        .filter(|dimension| {
            fitting.get(&dimension.name).is_some() && !dimension.is_active(&fitting)
        })
        .map(|dimension| dimension.name.clone())
        .collect();
    for name in switched_off {
        fitting.remove(&name);
        *dropped.entry(name).or_default() += 1;
    }
    fitting
}

fn selected(mut trials: Vec<Earlier>) -> Vec<Earlier> {
    if trials.len() > MOST {
        let others = trials.split_off(BEST);
        trials.extend(evenly(&others, MOST - BEST));
    }
    trials
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::{choice, float, int, space, trial_of, under};
    use crate::samplers::fixtures::{complete, params};
    use crate::study::metric::Direction;

    #[test]
    fn values_are_mapped_by_name_into_the_new_ranges_and_the_rest_is_counted() {
        let space = space([
            float("rate", 0.0, 1.0),
            choice("optim", ["sgd", "lion"]),
            under("optim", "sgd", float("momentum", 0.0, 1.0)),
        ]);
        let of = |rate: f64, optim: &str, momentum: f64| {
            let optim = ("optim", optim.into());
            params([("rate", rate.into()), optim, ("momentum", momentum.into())])
        };
        let rate = || params([("rate", 0.1.into())]);
        let trials = [
            complete(0, of(0.5, "sgd", 0.9), 3.0),
            complete(1, of(2.0, "adamw", 0.5), 1.0),
            complete(2, params([("rate", 1i64.into()), ("layers", 3i64.into())]), 2.0),
            trial_of(3, rate(), TrialState::Failed, None),
            complete(4, rate(), f64::NAN),
        ];
        let taken = earlier(&space, History::of(&trials, Direction::Minimize));
        let said: Vec<(String, f64)> = taken
            .trials
            .iter()
            .map(|earlier| (earlier.params.to_string(), (earlier.rank * 3.0).round()))
            .collect();
        let (second, third) = ("rate=1".to_owned(), "momentum=0.9 optim=sgd rate=0.5".to_owned());
        assert_eq!(said, [(second, 1.0), (third.clone(), 2.0)]);
        assert_eq!(taken.foreign, 1);
        let dropped: Vec<(&str, u64)> =
            taken.dropped.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(dropped, [("layers", 1), ("momentum", 1), ("optim", 1), ("rate", 1)]);
        // Larger is better: the order reverses.
        let turned = earlier(&space, History::of(&trials, Direction::Maximize));
        assert_eq!(turned.trials[0].params.to_string(), third);
    }

    #[test]
    fn of_many_trials_the_best_and_an_even_selection_stay() {
        let trials: Vec<Trial> = (0..1000i64)
            .map(|x| complete(x.unsigned_abs(), params([("x", x.into())]), x as f64))
            .collect();
        let history = History::of(&trials, Direction::Minimize);
        let taken = earlier(&space([int("x", 0, 9999)]), history).trials;
        assert_eq!((taken.len(), taken[49].rank, taken[50].rank), (200, 0.049, 0.05));
        assert!(taken.windows(2).all(|pair| pair[0].rank < pair[1].rank) && taken[199].rank > 0.99);
    }
}
