//! Grid search: every cell of the space exactly once, also after lost, enqueued or resumed trials.

use rand::RngExt as _;

use super::finite_space::FiniteSpace;
use super::{Ask, Chosen, Proposal, Sampler, SamplerEntry, SamplerError, candidates};
use crate::study::field::{Field, FieldDefault, FieldKind, field};
use crate::study::params::Params;
use crate::study::registry::RegistryError;
use crate::study::seed::StreamRng;
use crate::study::space::Space;
use crate::study::spec::AlgorithmSpec;

const POINTS: Field = field(
    "points",
    FieldKind::Integer { min: 1, max: 10_000 },
    FieldDefault::Int(5),
    "points on the axis of each continuous parameter, both ends included",
);

const ORDER: Field = field(
    "order",
    FieldKind::Choice(&["sequential", "random"]),
    FieldDefault::Text("sequential"),
    "nested loops with the last parameter fastest, or a random remaining cell",
);

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "grid",
    aliases: &[],
    summary: "tries every combination once; continuous parameters at a few points of their axis",
    version: 1,
    oldest: 1,
    options: &[POINTS, ORDER],
    several: true,
    build: |spec, space| Grid::new(spec, space).map(|grid| Box::new(grid) as Box<dyn Sampler>),
};

/// Cells that constraints may reject before the search for the next one gives up.
const MOST_REJECTED: u64 = 100_000;

/// Which untried cell is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The first, in the order of nested loops.
    Sequential,
    /// A uniformly random one.
    Random,
}

/// Enumerates the cells of a finite space. The history says which were tried: a trial in any state
/// counts, failed ones too (`retry` runs a failed configuration again).
#[derive(Debug)]
pub struct Grid {
    points: u64,
    order: Order,
    space: Space,
    /// The cells of `space` without fixed values, cached.
    finite_space: FiniteSpace,
}

impl Grid {
    /// Checks that `space` is finite.
    pub fn new(spec: &AlgorithmSpec, space: &Space) -> Result<Self, RegistryError> {
        let points = POINTS.of(spec);
        let order =
            if ORDER.of::<String>(spec) == "random" { Order::Random } else { Order::Sequential };
        let finite_space = FiniteSpace::new(space, &Params::new(), points).ok_or_else(|| {
            RegistryError::Unsuitable {
                algorithm: ENTRY.name.to_owned(),
                why: TOO_MANY_CELLS,
                advice: FEWER_CELLS,
            }
        })?;
        Ok(Grid { points, order, space: space.clone(), finite_space })
    }

    /// The next untried cell; `None` if all are in the history.
    fn next_cell(
        &self,
        finite_space: &FiniteSpace,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
    ) -> Result<Option<u64>, SamplerError> {
        let mut tried: Vec<u64> = ask
            .history
            .trials()
            .iter()
            .filter_map(|trial| finite_space.rank(&trial.params))
            .collect();
        tried.sort_unstable();
        tried.dedup();
        let mut rejected = 0;
        while rejected < MOST_REJECTED {
            let left = finite_space.cells() - tried.len() as u64;
            if left == 0 {
                // If every cell is rejected, a random proposal reports which constraint does it.
                return if rejected > 0 && ask.history.trials().is_empty() {
                    Err(self.nothing_allowed(ask))
                } else {
                    Ok(None)
                };
            }
            let skip = match self.order {
                Order::Sequential => 0,
                Order::Random => rng.random_range(0..left),
            };
            let cell = nth_gap(&tried, skip);
            let place = tried.partition_point(|other| *other < cell);
            match finite_space.cell(cell) {
                Some(params) if !ask.allows(&params) => tried.insert(place, cell),
                _ => return Ok(Some(cell)),
            }
            rejected += 1;
        }
        Err(self.nothing_allowed(ask))
    }

    fn nothing_allowed(&self, ask: &Ask<'_>) -> SamplerError {
        let said: Vec<String> = ask
            .constraints
            .iter()
            .map(|constraint| format!("`{}`", constraint.expression().text()))
            .collect();
        let why = format!(
            "its cells are rejected by {}; loosen a `[[constraint]]`, or give wide parameters a \
             finer `step`",
            said.join(", ")
        );
        SamplerError::Space { sampler: ENTRY.name, why }
    }
}

const TOO_MANY_CELLS: &str = "it has more cells than can be counted";
const FEWER_CELLS: &str = "give wide parameters a `step`, or use another sampler";

impl Sampler for Grid {
    fn exhausts(&self) -> bool {
        true
    }

    /// Fixed values select the cells that have them. If all of these were tried, the first repeats:
    /// the user asked for it, and only the whole grid can be exhausted.
    fn suggest(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
    ) -> Result<Option<Proposal>, SamplerError> {
        if ask.fixed.is_empty() && *ask.space == self.space {
            return Ok(self
                .next_cell(&self.finite_space, ask, rng)?
                .and_then(|cell| self.finite_space.cell(cell))
                .map(Proposal::from));
        }
        let finite_space =
            FiniteSpace::new(ask.space, ask.fixed, self.points).ok_or_else(|| {
                SamplerError::Space {
                    sampler: ENTRY.name,
                    why: format!("{TOO_MANY_CELLS}; {FEWER_CELLS}"),
                }
            })?;
        let again = (!ask.fixed.is_empty()).then_some(0);
        Ok(self
            .next_cell(&finite_space, ask, rng)?
            .or(again)
            .and_then(|cell| finite_space.cell(cell))
            .map(Proposal::from))
    }

    fn choose(
        &self,
        _: &Ask<'_>,
        candidates: &[&Params],
        rng: &mut StreamRng,
    ) -> Result<Chosen, SamplerError> {
        let index = match self.order {
            Order::Sequential => 0,
            Order::Random => candidates::uniform(candidates, rng),
        };
        Ok(index.into())
    }
}

/// The `skip`-th (from 0) number missing from the ascending `taken`.
fn nth_gap(taken: &[u64], skip: u64) -> u64 {
    let mut gap = skip;
    for number in taken {
        if *number > gap {
            break;
        }
        gap += 1;
    }
    gap
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::{
        self, choice, int, log_float, space, stepped, trial_of, under,
    };
    use crate::samplers::fixtures::{answer, ask, complete, params};
    use crate::study::trial::{Trial, TrialState};

    fn grid(option: &str, value: impl Into<serde_json::Value>) -> Grid {
        let space = space([
            choice("optim", ["sgd", "adamw"]),
            log_float("rate", 1e-4, 1.0),
            under("optim", "sgd", stepped("momentum", 0.0, 0.9, 0.45)),
        ]);
        Grid::new(&AlgorithmSpec::named("grid").with(option, value), &space).unwrap()
    }

    fn suggest(grid: &Grid, trials: &[Trial], fixed: &Params, seed: u64) -> Option<Params> {
        answer(grid, &Ask { fixed, ..ask(&grid.space, trials, seed) })
    }

    fn walk(grid: &Grid, mut trials: Vec<Trial>, seed: u64) -> Vec<Params> {
        let before = trials.len();
        while let Some(point) = suggest(grid, &trials, &Params::new(), seed) {
            trials.push(complete(trials.len() as u64, point, 0.5));
        }
        trials.split_off(before).into_iter().map(|trial| trial.params).collect()
    }

    #[test]
    fn cells_come_as_nested_loops_and_inactive_parameters_take_no_part() {
        let points: Vec<String> =
            walk(&grid("points", 2), Vec::new(), 0).iter().map(Params::to_string).collect();
        assert_eq!(
            points,
            [
                "momentum=0 optim=sgd rate=1e-4",
                "momentum=0.45 optim=sgd rate=1e-4",
                "momentum=0.9 optim=sgd rate=1e-4",
                "momentum=0 optim=sgd rate=1",
                "momentum=0.45 optim=sgd rate=1",
                "momentum=0.9 optim=sgd rate=1",
                "optim=adamw rate=1e-4",
                "optim=adamw rate=1",
            ]
        );
    }

    #[test]
    fn a_random_order_is_another_for_another_seed_and_has_the_same_cells() {
        let grid = grid("order", "random");
        let sorted = |mut points: Vec<Params>| {
            points.sort_by_key(Params::fingerprint);
            points
        };
        let (first, second) = (walk(&grid, Vec::new(), 1), walk(&grid, Vec::new(), 2));
        assert_ne!(first, second);
        assert_eq!(first.len(), 5 * 3 + 5);
        assert_eq!(sorted(first), sorted(second));
    }

    #[test]
    fn the_random_order_holds_the_contract_of_samplers_too() {
        let random = ENTRY.defaults().with("order", "random");
        assert_eq!(conformance::check(&ENTRY, &random), Ok(()));
    }

    #[test]
    fn enqueued_points_off_the_grid_do_not_displace_cells_and_cells_among_them_are_not_repeated() {
        let point = |rate: f64| params([("optim", "adamw".into()), ("rate", rate.into())]);
        let (off, on) = (point(0.5), point(1.0));
        let before = vec![complete(0, off, 1.0), trial_of(1, on.clone(), TrialState::Failed, None)];
        let points = walk(&grid("points", 2), before, 0);
        assert_eq!(points.len(), 7);
        assert!(!points.contains(&on));
    }

    #[test]
    fn fixed_values_choose_among_the_cells_that_have_them_and_may_lie_off_the_grid() {
        let grid = grid("points", 2);
        let fixed = params([("optim", "adamw".into()), ("rate", 0.3.into())]);
        let point = suggest(&grid, &[], &fixed, 0).unwrap();
        assert_eq!(point, fixed);
        let tried = [complete(0, point.clone(), 1.0)];
        assert_eq!(suggest(&grid, &tried, &fixed, 0), Some(point));
    }

    #[test]
    fn ten_thousand_cells_with_ten_thousand_trials_are_searched_in_one_pass() {
        let space = space((0..4).map(|index| choice(&format!("x{index}"), 0..10i64)));
        let grid = Grid::new(&AlgorithmSpec::named("grid"), &space).unwrap();
        let mut trials: Vec<Trial> = (0..10_000)
            .map(|cell| complete(cell, grid.finite_space.cell(cell).unwrap(), 1.0))
            .collect();
        assert_eq!(suggest(&grid, &trials, &Params::new(), 0), None);
        let missing = trials.remove(7_313);
        assert_eq!(suggest(&grid, &trials, &Params::new(), 0), Some(missing.params));
    }

    #[test]
    fn a_grid_too_large_to_count_is_refused() {
        let space = space(["a", "b"].map(|name| int(name, 0, 1 << 40)));
        let refused = Grid::new(&AlgorithmSpec::named("grid"), &space);
        assert!(matches!(refused, Err(RegistryError::Unsuitable { .. })));
    }
}
