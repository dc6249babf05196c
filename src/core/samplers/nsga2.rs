//! NSGA-II: children of trials that no other dominates, and that lie far apart.

use rand::RngExt as _;

use super::cube::Cube;
use super::genetic::{
    CROSSOVER_PROB, Individual, MUTATION_PROB, POPULATION_SIZE, Variation, individuals, initial,
};
use super::{Ask, OfEarlier, Proposal, Sampler, SamplerEntry, SamplerError};
use crate::study::pareto;
use crate::study::seed::StreamRng;
use crate::study::space::Space;
use crate::study::spec::AlgorithmSpec;

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "nsga2",
    aliases: &["nsga-ii"],
    summary: "crosses and mutates the best trials, by Pareto rank and then by distance to their \
        neighbours, for many trials of two or three objectives (NSGA-II)",
    version: 1,
    oldest: 1,
    options: &[POPULATION_SIZE, CROSSOVER_PROB, MUTATION_PROB],
    several: true,
    build: |spec, _| Ok(Box::new(Nsga2::new(spec))),
};

/// NSGA-II (K. Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", 2002).
///
/// The parents are the best of **all** complete trials when a child is drawn, not of the last
/// generation: the steady-state variant, which converges faster (J. Durillo et al., "On the effect
/// of the steady-state selection scheme in multi-objective genetic algorithms", 2009). It needs no
/// generations, so that lost, late, enqueued and parallel trials change nothing.
///
/// - Selection: Pareto rank, then crowding distance; infeasible trials come after all feasible
///   ones, by their violation (constraint domination). A parent wins a tournament of two.
/// - Pruned, paused and failed trials are no parents.
/// - The first trials are a Latin hypercube.
#[derive(Clone, Copy, Debug)]
pub struct Nsga2 {
    population_size: u64,
    variation: Variation,
}

impl Nsga2 {
    /// From checked options.
    pub fn new(spec: &AlgorithmSpec) -> Self {
        Nsga2 { population_size: POPULATION_SIZE.of(spec), variation: Variation::new(spec) }
    }
}

impl Sampler for Nsga2 {
    fn starts_as_given(&self) -> bool {
        true
    }

    fn takes_of_earlier(&self, _space: &Space, _objectives: usize) -> OfEarlier {
        OfEarlier::Best
    }

    fn suggest(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
    ) -> Result<Option<Proposal>, SamplerError> {
        let cube = Cube::new(ask.space);
        let all = individuals(&cube, ask);
        if let Some(first) = initial(&all, ask, self.population_size, rng) {
            return Ok(Some(first.into()));
        }
        let size = usize::try_from(self.population_size).unwrap_or(usize::MAX);
        let parents = best(&all, size);
        // The population is sorted: the winner of a tournament is the one that comes first.
        let parent = |rng: &mut StreamRng| {
            let contestants =
                [rng.random_range(0..parents.len()), rng.random_range(0..parents.len())];
            parents[contestants[0].min(contestants[1])]
        };
        Ok(Some(self.variation.child(&cube, ask, rng, parent).into()))
    }
}

/// The best of all, best first.
fn best(all: &[Individual], size: usize) -> Vec<&Individual> {
    let (feasible, mut infeasible): (Vec<&Individual>, Vec<&Individual>) =
        all.iter().partition(|one| one.violation == 0.0);
    let losses: Vec<Vec<f64>> = feasible.iter().map(|one| one.losses.clone()).collect();
    let ranks = pareto::ranks(&losses);
    let mut sorted: Vec<(usize, f64, usize)> = Vec::with_capacity(feasible.len());
    for rank in 0..=ranks.iter().copied().max().unwrap_or(0) {
        let front: Vec<usize> = (0..ranks.len()).filter(|index| ranks[*index] == rank).collect();
        let own: Vec<Vec<f64>> = front.iter().map(|index| losses[*index].clone()).collect();
        let crowding = pareto::crowding(&own);
        sorted.extend(front.into_iter().zip(crowding).map(|(index, gap)| (rank, -gap, index)));
        if sorted.len() >= size {
            break;
        }
    }
    sorted.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    infeasible.sort_by(|a, b| a.violation.total_cmp(&b.violation));
    let feasible = sorted.into_iter().map(|(_, _, index)| feasible[index]);
    feasible.chain(infeasible).take(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn individual(losses: [f64; 2], violation: f64) -> Individual {
        Individual { point: vec![losses[0]], losses: losses.to_vec(), violation }
    }

    #[test]
    fn the_best_are_those_of_the_first_fronts_that_stand_alone_then_the_least_infeasible() {
        let all = [
            individual([0.0, 0.0], 2.0),
            individual([1.0, 4.0], 0.0),
            individual([2.0, 2.9], 0.0),
            individual([2.1, 2.8], 0.0),
            individual([5.0, 0.0], 0.0),
            individual([3.0, 3.0], 0.0),
            individual([0.0, 0.0], 1.0),
        ];
        let violations =
            |size| -> Vec<f64> { best(&all, size).iter().map(|one| one.violation).collect() };
        let firsts: Vec<f64> = best(&all, 5).iter().map(|one| one.losses[0]).collect();
        assert_eq!(firsts, [1.0, 5.0, 2.1, 2.0, 3.0]);
        assert_eq!(violations(9), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0]);
    }
}
