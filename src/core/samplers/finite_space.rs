//! The cells of a finite space: counted, numbered and ranked, with conditions respected.

use std::collections::{BTreeMap, HashMap};

use crate::study::params::{Params, Value};
use crate::study::space::{Distribution, Space};

/// Cells numbered in the order of nested loops: dimensions in the space's order, the last one
/// fastest.
///
/// A value is represented by its *position* on its axis. Only positions of a parent that some
/// condition names (its *marks*) affect later dimensions; all others are equivalent, so that an
/// integer parent with a million values costs no more than its conditions.
#[derive(Debug)]
pub(super) struct FiniteSpace {
    axes: Vec<Axis>,
    /// `counts[(d, marks of the live parents)]`: number of cells of the dimensions from `d` on.
    counts: HashMap<(usize, Vec<u64>), u64>,
    cells: u64,
}

#[derive(Debug)]
struct Axis {
    name: String,
    values: AxisValues,
    /// Parents by index, each with the ascending positions that activate this parameter.
    conditions: Vec<(usize, Vec<u64>)>,
    /// Ascending positions named by conditions of later dimensions.
    marks: Vec<u64>,
    /// Earlier dimensions that this or a later one depends on, ascending.
    live: Vec<usize>,
    /// Number of cells from this dimension on, if no earlier one matters: a shortcut past `counts`.
    independent: Option<u64>,
}

#[derive(Debug)]
enum AxisValues {
    /// The values of a finite distribution.
    All { distribution: Distribution, length: u64 },
    /// Listed values, by position.
    Some(Vec<Value>),
}

/// Maximum number of combinations of marks: thirty flags whose children all follow them have 2^30.
const MOST_COUNTS: usize = 100_000;

/// An inactive parent, or a position without a mark.
const UNMARKED: u64 = u64::MAX;

impl FiniteSpace {
    /// The cells of `space` with the `fixed` values and `points` values on each continuous axis.
    /// `None`: there are too many to count.
    pub(super) fn new(space: &Space, fixed: &Params, points: u64) -> Option<Self> {
        let axes = axes(space, fixed, points)?;
        let mut finite_space = FiniteSpace { axes, counts: HashMap::new(), cells: 0 };
        let mut chosen = vec![UNMARKED; finite_space.axes.len()];
        finite_space.cells = finite_space.fill_counts(0, &mut chosen)?;
        for index in 0..finite_space.axes.len() {
            if finite_space.axes[index].live.is_empty() {
                finite_space.axes[index].independent =
                    finite_space.counts.get(&(index, Vec::new())).copied();
            }
        }
        Some(finite_space)
    }

    /// Number of cells.
    pub(super) fn cells(&self) -> u64 {
        self.cells
    }

    /// The cell with this number.
    pub(super) fn cell(&self, number: u64) -> Option<Params> {
        if number >= self.cells {
            return None;
        }
        let mut rest = number;
        let mut params = Params::new();
        let mut chosen = vec![UNMARKED; self.axes.len()];
        for (index, axis) in self.axes.iter().enumerate() {
            if !axis.is_active(&chosen) {
                continue;
            }
            let position = self.descend(index, &mut rest, &mut chosen);
            params.insert(axis.name.clone(), axis.nth(position)?);
        }
        Some(params)
    }

    /// The number of the cell `params`; `None` if it is not a cell.
    pub(super) fn rank(&self, params: &Params) -> Option<u64> {
        let mut rank = 0;
        let mut active = 0;
        let mut chosen = vec![UNMARKED; self.axes.len()];
        for (index, axis) in self.axes.iter().enumerate() {
            if !axis.is_active(&chosen) {
                continue;
            }
            active += 1;
            let position = axis.position(params.get(&axis.name)?)?;
            rank += self.cells_before(index, position, &mut chosen);
            chosen[index] = axis.class(position);
        }
        (active == params.len()).then_some(rank)
    }

    /// The position on axis `index` that contains the cell `rest` further on; subtracts from `rest`
    /// the cells before that position.
    fn descend(&self, index: usize, rest: &mut u64, chosen: &mut [u64]) -> u64 {
        for (run, class) in self.axes[index].runs() {
            chosen[index] = class;
            let each = self.count(index + 1, chosen);
            let cells = (run.end - run.start) * each;
            if *rest < cells {
                let position = run.start + *rest / each;
                *rest %= each;
                return position;
            }
            *rest -= cells;
        }
        unreachable!(
            "`rest` is below the number of cells of this axis: both come from the same counts"
        )
    }

    fn cells_before(&self, index: usize, position: u64, chosen: &mut [u64]) -> u64 {
        if self.axes[index].marks.is_empty() {
            return position * self.count(index + 1, chosen);
        }
        let mut cells = 0;
        for (run, class) in
            self.axes[index].runs().into_iter().take_while(|(run, _)| run.start < position)
        {
            chosen[index] = class;
            cells += (run.end.min(position) - run.start) * self.count(index + 1, chosen);
        }
        cells
    }

    fn count(&self, index: usize, chosen: &[u64]) -> u64 {
        let Some(axis) = self.axes.get(index) else { return 1 };
        if let Some(independent) = axis.independent {
            return independent;
        }
        let key = (index, axis.live.iter().map(|parent| chosen[*parent]).collect());
        *self.counts.get(&key).expect("`fill_counts` has visited every combination of marks")
    }

    fn fill_counts(&mut self, index: usize, chosen: &mut Vec<u64>) -> Option<u64> {
        if index == self.axes.len() {
            return Some(1);
        }
        let key = (index, self.axes[index].live.iter().map(|parent| chosen[*parent]).collect());
        if let Some(count) = self.counts.get(&key) {
            return Some(*count);
        }
        if self.counts.len() >= MOST_COUNTS {
            return None;
        }
        let mut total = 0u64;
        if self.axes[index].is_active(chosen) {
            for (run, class) in self.axes[index].runs() {
                chosen[index] = class;
                let each = self.fill_counts(index + 1, chosen)?;
                total = total.checked_add((run.end - run.start).checked_mul(each)?)?;
            }
            chosen[index] = UNMARKED;
        } else {
            total = self.fill_counts(index + 1, chosen)?;
        }
        self.counts.insert(key, total);
        Some(total)
    }
}

impl Axis {
    fn length(&self) -> u64 {
        match &self.values {
            AxisValues::All { length, .. } => *length,
            AxisValues::Some(values) => values.len() as u64,
        }
    }

    fn nth(&self, position: u64) -> Option<Value> {
        match &self.values {
            AxisValues::All { distribution, .. } => distribution.nth(position),
            AxisValues::Some(values) => values.get(usize::try_from(position).ok()?).cloned(),
        }
    }

    fn position(&self, value: &Value) -> Option<u64> {
        match &self.values {
            AxisValues::All { distribution, .. } => position_in(distribution, value),
            AxisValues::Some(values) => {
                values.iter().position(|own| own.same(value)).map(|position| position as u64)
            }
        }
    }

    fn is_active(&self, chosen: &[u64]) -> bool {
        self.conditions
            .iter()
            .all(|(parent, accepted)| accepted.binary_search(&chosen[*parent]).is_ok())
    }

    fn class(&self, position: u64) -> u64 {
        if self.marks.binary_search(&position).is_ok() { position } else { UNMARKED }
    }

    /// The axis as ordered runs of positions that are equivalent for later dimensions.
    fn runs(&self) -> Vec<(std::ops::Range<u64>, u64)> {
        let mut runs = Vec::with_capacity(2 * self.marks.len() + 1);
        let mut start = 0;
        for mark in &self.marks {
            if start < *mark {
                runs.push((start..*mark, UNMARKED));
            }
            runs.push((*mark..mark + 1, *mark));
            start = mark + 1;
        }
        if start < self.length() {
            runs.push((start..self.length(), UNMARKED));
        }
        runs
    }
}

fn axes(space: &Space, fixed: &Params, points: u64) -> Option<Vec<Axis>> {
    let mut axes: Vec<Axis> = Vec::with_capacity(space.dimensions().len());
    let mut index_of = BTreeMap::new();
    for dimension in space.dimensions() {
        let values = axis_values(&dimension.distribution, fixed.get(&dimension.name), points)?;
        let mut conditions = Vec::new();
        for (parent, accepted) in dimension.when.iter().flat_map(|when| &when.0) {
            let parent: usize =
                *index_of.get(parent).expect("a space has parents before their children");
            let mut positions: Vec<u64> =
                accepted.iter().filter_map(|value| axes[parent].position(value)).collect();
            positions.sort_unstable();
            positions.dedup();
            conditions.push((parent, positions));
        }
        index_of.insert(dimension.name.clone(), axes.len());
        axes.push(Axis {
            name: dimension.name.clone(),
            values,
            conditions,
            marks: Vec::new(),
            live: Vec::new(),
            independent: None,
        });
    }
    connect(&mut axes);
    Some(axes)
}

/// Computes the marks and live parents of all axes.
fn connect(axes: &mut [Axis]) {
    for child in 0..axes.len() {
        for (parent, positions) in axes[child].conditions.clone() {
            axes[parent].marks.extend(positions);
            for between in &mut axes[parent + 1..=child] {
                between.live.push(parent);
            }
        }
    }
    for axis in axes {
        axis.marks.sort_unstable();
        axis.marks.dedup();
        axis.live.sort_unstable();
        axis.live.dedup();
    }
}

fn axis_values(
    distribution: &Distribution,
    fixed: Option<&Value>,
    points: u64,
) -> Option<AxisValues> {
    if let Some(value) = fixed.and_then(|value| distribution.normalize(value)) {
        return Some(AxisValues::Some(vec![value]));
    }
    if let Some(length) = distribution.cardinality() {
        return (length < u64::MAX)
            .then(|| AxisValues::All { distribution: distribution.clone(), length });
    }
    let mut values: Vec<Value> =
        (0..points).map(|point| evenly(distribution, point, points)).collect();
    // A range of a few adjacent floating-point numbers has fewer values than points.
    values.dedup();
    Some(AxisValues::Some(values))
}

/// Point `point` of `points` on a continuous axis, both ends included exactly; a single point lies
/// in the middle.
#[expect(clippy::cast_precision_loss, reason = "at most 10,000 points")]
fn evenly(distribution: &Distribution, point: u64, points: u64) -> Value {
    match distribution {
        _ if points == 1 => distribution.from_unit(0.5),
        Distribution::Float { low, .. } if point == 0 => Value::Float(*low),
        Distribution::Float { high, .. } if point == points - 1 => Value::Float(*high),
        _ => distribution.from_unit(point as f64 / (points - 1) as f64),
    }
}

/// The index of `value` among the values of a finite distribution: the inverse of
/// [`Distribution::nth`].
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "integers below 2^53, and a rounded index inside the range"
)]
fn position_in(distribution: &Distribution, value: &Value) -> Option<u64> {
    let value = distribution.to_internal(&distribution.normalize(value)?)?;
    let (low, step) = match distribution {
        Distribution::Int { low, step, .. } => (*low as f64, *step as f64),
        Distribution::Float { low, step: Some(step), .. } => (*low, *step),
        Distribution::Choice { .. } => (0.0, 1.0),
        Distribution::Float { step: None, .. } => return Some(0),
    };
    Some(((value - low) / step).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::{choice, dimension, float, int, log_float, space, under};

    fn finite(space: &Space) -> FiniteSpace {
        FiniteSpace::new(space, &Params::new(), 9).unwrap()
    }

    #[test]
    fn cells_and_their_numbers_are_inverse_in_a_tree_of_conditions() {
        let two_layers = [("layers", vec![2i64.into(), 5i64.into()])];
        let both = [("nesterov", vec!["yes".into()]), ("layers", vec![5i64.into(), 6i64.into()])];
        let space = space([
            int("layers", 1, 6),
            choice("optim", ["sgd", "adamw", "lion"]),
            under("optim", "sgd", choice("nesterov", ["yes", "no"])),
            dimension("wide", int("wide", 8, 10).distribution, &two_layers),
            dimension("both", choice("both", ["a", "b", "c"]).distribution, &both),
        ]);
        let finite_space = finite(&space);
        assert_eq!(Some(finite_space.cells()), space.cardinality());
        for number in 0..finite_space.cells() {
            let cell = finite_space.cell(number).unwrap();
            assert_eq!(space.check(&cell), Ok(()));
            assert_eq!(finite_space.rank(&cell), Some(number));
        }
        assert_eq!(finite_space.cell(finite_space.cells()), None);
    }

    #[test]
    fn a_parent_with_a_million_values_costs_only_its_conditions() {
        let finite_space =
            finite(&space([int("n", 1, 1_000_000_000), under("n", 7i64, int("m", 1, 3))]));
        assert_eq!(finite_space.cells(), 1_000_000_002);
        assert!(finite_space.counts.len() <= 4);
    }

    #[test]
    fn points_on_a_log_axis_are_even_in_the_logarithm_with_exact_ends() {
        let axis = log_float("x", 1e-3, 0.7).distribution;
        let points: Vec<f64> =
            (0..4).map(|point| evenly(&axis, point, 4).as_number().unwrap()).collect();
        assert_eq!((points[0], points[3]), (1e-3, 0.7));
        assert!((points[1] / points[0] - points[2] / points[1]).abs() < 1e-9);
    }

    #[test]
    fn a_range_of_two_floats_has_two_cells_whatever_the_points() {
        assert_eq!(finite(&space([float("x", 1.0, 1.0f64.next_up())])).cells(), 2);
    }
}
