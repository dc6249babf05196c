//! Grid search: every cell of the space once, whatever was lost, enqueued or resumed in between.

use rand::RngExt as _;

use super::lattice::Lattice;
use super::{Ask, Capabilities, Sampler, SamplerEntry, SamplerError};
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
    "nested loops with the last parameter fastest, or any cell that is left",
);

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "grid",
    aliases: &[],
    summary: "tries every combination once; continuous parameters at a few points of their axis",
    version: 1,
    options: &[POINTS, ORDER],
    build: |spec, space| Grid::new(spec, space).map(|grid| Box::new(grid) as Box<dyn Sampler>),
};

/// Cells that constraints may reject before the search for the next one ends.
const MOST_REJECTED: u64 = 100_000;

/// Which of the untried cells is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The first in nested loops.
    Sequential,
    /// Any, with equal chances.
    Random,
}

/// Walks the cells of a lattice. Which were tried is read off the history each time: a trial in any
/// state counts, failed ones too (running a failed configuration again is what `retry` is for).
#[derive(Debug)]
pub struct Grid {
    points: u64,
    order: Order,
    space: Space,
    /// The lattice of `space` without fixed values: a memo, it can be rebuilt from the two.
    lattice: Lattice,
}

impl Grid {
    /// Checks that the cells of `space` can be counted.
    pub fn new(spec: &AlgorithmSpec, space: &Space) -> Result<Self, RegistryError> {
        let points = POINTS.of(spec);
        let order =
            if ORDER.of::<String>(spec) == "random" { Order::Random } else { Order::Sequential };
        let lattice = Lattice::new(space, &Params::new(), points).ok_or_else(|| {
            RegistryError::Unsuitable {
                policy: ENTRY.name.to_owned(),
                why: TOO_MANY_CELLS,
                advice: FEWER_CELLS,
            }
        })?;
        Ok(Grid { points, order, space: space.clone(), lattice })
    }

    /// The next cell of `lattice`; `None` when each is in the history.
    fn next_cell(
        &self,
        lattice: &Lattice,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
    ) -> Result<Option<u64>, SamplerError> {
        let mut tried: Vec<u64> =
            ask.history.trials().iter().filter_map(|trial| lattice.rank(&trial.params)).collect();
        tried.sort_unstable();
        tried.dedup();
        let mut rejected = 0;
        while rejected < MOST_REJECTED {
            let left = lattice.cells() - tried.len() as u64;
            if left == 0 {
                // Of nothing but rejected cells its user should hear which constraint does it: what
                // chance proposes says so.
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
            match lattice.cell(cell) {
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
    fn capabilities(&self) -> Capabilities {
        Capabilities { conditional: true, continuous: true, exhausts: true }
    }

    /// With fixed values the cells are those that have them. When all of these were tried, the
    /// first comes again: the user asked for it, and only the whole grid can be exhausted.
    fn suggest(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Result<Option<Params>, SamplerError> {
        if ask.fixed.is_empty() && *ask.space == self.space {
            return Ok(self
                .next_cell(&self.lattice, ask, rng)?
                .and_then(|cell| self.lattice.cell(cell)));
        }
        let lattice =
            Lattice::new(ask.space, ask.fixed, self.points).ok_or_else(|| SamplerError::Space {
                sampler: ENTRY.name,
                why: format!("{TOO_MANY_CELLS}; {FEWER_CELLS}"),
            })?;
        let again = (!ask.fixed.is_empty()).then_some(0);
        Ok(self.next_cell(&lattice, ask, rng)?.or(again).and_then(|cell| lattice.cell(cell)))
    }
}

/// The number that is missing from the ascending `taken` after `skip` other missing ones.
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
    use crate::samplers::conformance::{dimension, trial_of};
    use crate::study::history::History;
    use crate::study::metric::Direction;
    use crate::study::params::Value;
    use crate::study::seed::SeedTree;
    use crate::study::space::{Distribution, Scale};
    use crate::study::trial::{Trial, TrialNumber, TrialState};

    fn space() -> Space {
        Space::new(vec![
            dimension(
                "optim",
                Distribution::choice(vec!["sgd".into(), "adamw".into()]).unwrap(),
                &[],
            ),
            dimension("rate", Distribution::float(1e-4, 1.0, Scale::Log, None).unwrap(), &[]),
            dimension(
                "momentum",
                Distribution::float(0.0, 0.9, Scale::Linear, Some(0.45)).unwrap(),
                &[("optim", vec!["sgd".into()])],
            ),
        ])
        .unwrap()
    }

    fn suggest(grid: &Grid, trials: &[Trial], fixed: &Params, seed: u64) -> Option<Params> {
        let number = TrialNumber(trials.len() as u64);
        let ask = Ask {
            room: None,
            constraints: &[],
            earlier: &[],
            space: &grid.space,
            history: History::of(trials, Direction::Minimize),
            number,
            fixed,
            budget: None,
            seeds: SeedTree::new(seed),
        };
        grid.suggest(&ask, &mut SeedTree::new(seed).stream(&format!("sampler/{number}"))).unwrap()
    }

    fn walk(grid: &Grid, mut trials: Vec<Trial>, seed: u64) -> Vec<Params> {
        let mut points = Vec::new();
        while let Some(point) = suggest(grid, &trials, &Params::new(), seed) {
            trials.push(trial_of(
                trials.len() as u64,
                point.clone(),
                TrialState::Complete,
                Some(0.5),
            ));
            points.push(point);
        }
        points
    }

    #[test]
    fn cells_come_as_nested_loops_and_inactive_parameters_take_no_part() {
        let grid = Grid::new(&AlgorithmSpec::named("grid").with("points", 2), &space()).unwrap();
        let points: Vec<String> =
            walk(&grid, Vec::new(), 0).iter().map(Params::to_string).collect();
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
        let grid =
            Grid::new(&AlgorithmSpec::named("grid").with("order", "random"), &space()).unwrap();
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
        assert_eq!(
            crate::samplers::conformance::check(&ENTRY, &ENTRY.defaults().with("order", "random")),
            Ok(())
        );
    }

    #[test]
    fn enqueued_points_off_the_grid_do_not_displace_cells_and_cells_among_them_are_not_repeated() {
        let grid = Grid::new(&AlgorithmSpec::named("grid").with("points", 2), &space()).unwrap();
        let mut off = Params::new();
        off.insert("optim", "adamw");
        off.insert("rate", 0.5);
        let mut on = off.clone();
        on.insert("rate", 1.0);
        let before = vec![
            trial_of(0, off, TrialState::Complete, Some(1.0)),
            trial_of(1, on.clone(), TrialState::Failed, None),
        ];
        let points = walk(&grid, before, 0);
        assert_eq!(points.len(), 7);
        assert!(!points.contains(&on));
    }

    #[test]
    fn fixed_values_choose_among_the_cells_that_have_them_and_may_lie_off_the_grid() {
        let grid = Grid::new(&AlgorithmSpec::named("grid").with("points", 2), &space()).unwrap();
        let mut fixed = Params::new();
        fixed.insert("rate", 0.3);
        fixed.insert("optim", "adamw");
        let point = suggest(&grid, &[], &fixed, 0).unwrap();
        assert_eq!(point, fixed);
        let tried = vec![trial_of(0, point.clone(), TrialState::Complete, Some(1.0))];
        assert_eq!(suggest(&grid, &tried, &fixed, 0), Some(point));
    }

    #[test]
    fn ten_thousand_cells_with_ten_thousand_trials_are_searched_in_one_pass() {
        let choices =
            |count: i64| Distribution::choice((0..count).map(Value::Int).collect()).unwrap();
        let space = Space::new(
            (0..4).map(|index| dimension(&format!("x{index}"), choices(10), &[])).collect(),
        )
        .unwrap();
        let grid = Grid::new(&AlgorithmSpec::named("grid"), &space).unwrap();
        let mut trials: Vec<Trial> = (0..10_000)
            .map(|cell| {
                trial_of(cell, grid.lattice.cell(cell).unwrap(), TrialState::Complete, Some(1.0))
            })
            .collect();
        assert_eq!(suggest(&grid, &trials, &Params::new(), 0), None);
        let missing = trials.remove(7_313).params;
        assert_eq!(suggest(&grid, &trials, &Params::new(), 0), Some(missing));
    }

    #[test]
    fn a_grid_too_large_to_count_is_refused() {
        let wide = Distribution::int(0, 1 << 40, Scale::Linear, 1).unwrap();
        let space =
            Space::new(vec![dimension("a", wide.clone(), &[]), dimension("b", wide, &[])]).unwrap();
        assert!(matches!(
            Grid::new(&AlgorithmSpec::named("grid"), &space),
            Err(RegistryError::Unsuitable { .. })
        ));
    }
}
