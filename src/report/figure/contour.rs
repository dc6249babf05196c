//! Values over two parameters, interpolated between the trials.

use super::of_study::{EMPTY, axis_of_parameter, complete, place, present, series, whole};
use super::{Figure, HeatMap, Mark, SeriesRole};
use crate::report::wording::one_line;
use crate::study::outcome::TrialSummary;
use crate::study::space::{Dimension, Distribution};
use crate::study::spec::StudySpec;
use crate::study::trial::TrialNumber;

/// Columns and rows of cells for parameters that are not choices.
const CELLS: u32 = 32;
/// Rounds of relaxation at most; 32 by 32 cells need fewer.
const ROUNDS: usize = 2_000;

/// The value of completed trials over two parameters: trials as dots over cells. A cell with trials
/// has the mean of their values, every other one the mean of its neighbours: the discrete Laplace
/// equation with closed edges, by which Optuna's `plot_contour` interpolates, too
/// (`_interpolate_zmap`, from Plotly's `interp2d.js`).
pub fn contour(
    spec: &StudySpec,
    (across, up): (&Dimension, &Dimension),
    outcomes: &[TrialSummary],
    best: Option<TrialNumber>,
) -> Figure<'static> {
    let metric = &spec.objective().metric;
    let (mut dots, mut front, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for (outcome, value) in complete(outcomes).filter(|(_, value)| value.is_finite()) {
        let at = |dimension: &Dimension| {
            let value = outcome.params.get(&dimension.name)?;
            Some((
                place(&dimension.distribution, value)?,
                unit_of(&dimension.distribution, place(&dimension.distribution, value)?)?,
            ))
        };
        let (Some((x, x_unit)), Some((y, y_unit))) = (at(across), at(up)) else { continue };
        known.push((x_unit, y_unit, value));
        if best == Some(outcome.number) { &mut front } else { &mut dots }.push((x, y));
    }
    let (x, y) = (centres(&across.distribution), centres(&up.distribution));
    let values = interpolated(&known, x.len(), y.len());
    let cells = HeatMap {
        values,
        x: x.iter().map(|(_, place)| *place).collect(),
        y: y.iter().map(|(_, place)| *place).collect(),
        label: one_line(metric),
    };
    Figure {
        title: one_line(&format!("{metric} by {} and {}", across.name, up.name)),
        x: axis_of_parameter(across),
        y: axis_of_parameter(up),
        cells: Some(cells).filter(|_| !known.is_empty()),
        series: present(vec![
            series("complete", dots, Mark::Dots, SeriesRole::Compared(0)),
            series("the best", front, Mark::Star, SeriesRole::Best),
        ]),
        empty: EMPTY,
    }
}

/// Where a place on the axis lies in the unit interval; choices at the centres of equal parts.
fn unit_of(distribution: &Distribution, place: f64) -> Option<f64> {
    match distribution {
        Distribution::Choice { choices } => {
            let count = f64::from(u32::try_from(choices.len()).unwrap_or(u32::MAX));
            Some((place + 0.5) / count)
        }
        Distribution::Float { .. } => distribution.to_unit(&place.into()),
        Distribution::Int { low, high, .. } => {
            distribution.to_unit(&nearest(*low, *high, place).into())
        }
    }
}

/// The integer of a range that is nearest to a place.
#[expect(clippy::cast_possible_truncation, reason = "clamped to the range")]
fn nearest(low: i64, high: i64, place: f64) -> i64 {
    (place.round() as i64).clamp(low, high)
}

/// Centres of an axis's cells: in the unit interval, and as places on the axis.
fn centres(distribution: &Distribution) -> Vec<(f64, f64)> {
    let count = match distribution {
        Distribution::Choice { choices } => u32::try_from(choices.len()).unwrap_or(CELLS),
        Distribution::Int { low, high, .. } => high
            .checked_sub(*low)
            .and_then(|span| u32::try_from(span).ok()?.checked_add(1))
            .map_or(CELLS, |count| count.min(CELLS)),
        Distribution::Float { .. } => CELLS,
    };
    (0..count)
        .filter_map(|index| {
            let unit = (f64::from(index) + 0.5) / f64::from(count);
            let value = distribution.from_unit(unit);
            Some((unit, place(distribution, &value)?))
        })
        .collect()
}

/// The cells row by row, from trials at places of the unit square; `None` without any.
fn interpolated(known: &[(f64, f64, f64)], columns: usize, rows: usize) -> Vec<Option<f64>> {
    let mut means = vec![(0.0, 0.0); columns * rows];
    for (x, y, value) in known {
        let Some(mean) = means.get_mut(cell_at(*y, rows) * columns + cell_at(*x, columns)) else {
            continue;
        };
        // The mean so far: a sum of large values may be infinite.
        mean.1 += 1.0;
        mean.0 += value / mean.1 - mean.0 / mean.1;
    }
    let fixed: Vec<Option<f64>> =
        means.into_iter().map(|(mean, count)| (count > 0.0).then_some(mean)).collect();
    let trials = fixed.iter().flatten().count();
    if trials == 0 {
        return fixed;
    }
    // In units of the largest: differences of huge values may be infinite.
    let unit = fixed.iter().flatten().map(|value| value.abs()).fold(f64::MIN_POSITIVE, f64::max);
    let fixed: Vec<Option<f64>> = fixed.iter().map(|value| Some((*value)? / unit)).collect();
    let start = fixed.iter().flatten().map(|value| value / whole(trials as u64)).sum::<f64>();
    let mut values: Vec<f64> = fixed.iter().map(|value| value.unwrap_or(start)).collect();
    relax(&mut values, &fixed, columns);
    values.into_iter().map(|value| Some(value * unit)).collect()
}

/// Successive over-relaxation until no cell that is not fixed changes by more than a millionth of
/// the range of the values.
fn relax(values: &mut [f64], fixed: &[Option<f64>], columns: usize) {
    const FACTOR: f64 = 1.8;
    let ends = |(low, high): (f64, f64), value: &f64| (low.min(*value), high.max(*value));
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), ends);
    let enough = (high - low) * 1e-6;
    for _ in 0..ROUNDS {
        let mut most = 0.0_f64;
        for index in (0..values.len()).filter(|index| fixed[*index].is_none()) {
            let column = index % columns;
            let neighbours = [
                (column > 0).then(|| index - 1),
                (column + 1 < columns).then_some(index + 1),
                index.checked_sub(columns),
                Some(index + columns).filter(|above| *above < values.len()),
            ];
            let count = neighbours.iter().flatten().count();
            let share = 1.0 / whole(count.max(1) as u64);
            let mean = neighbours.iter().flatten().map(|at| values[*at] * share).sum::<f64>();
            let change = FACTOR * (mean - values[index]);
            values[index] += change;
            most = most.max(change.abs());
        }
        if most <= enough {
            return;
        }
    }
}

/// The one of so many equal parts of the unit interval in which a place is.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of a short axis"
)]
fn cell_at(place: f64, parts: usize) -> usize {
    ((place.max(0.0) * parts as f64) as usize).min(parts.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(cells: &[Option<f64>], index: usize) -> f64 {
        cells[index].unwrap()
    }

    #[test]
    fn between_two_trials_in_a_row_values_change_evenly_and_beyond_them_not() {
        // Seven cells: trials in the second and the sixth.
        let cells = interpolated(&[(0.2, 0.5, 1.0), (0.8, 0.5, 5.0)], 7, 1);
        for (index, expected) in [1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0].into_iter().enumerate() {
            assert!((at(&cells, index) - expected).abs() < 1e-4, "{index}: {cells:?}");
        }
    }

    #[test]
    fn cells_without_trials_are_the_mean_of_their_neighbours() {
        let known = [(0.1, 0.1, 1.0), (0.12, 0.11, 3.0), (0.9, 0.3, -4.0), (0.4, 0.8, 9.0)];
        let (columns, rows) = (12, 9);
        let cells = interpolated(&known, columns, rows);
        // Two trials in one cell count by their mean.
        assert_eq!(at(&cells, 1), 2.0);
        let fixed = known.map(|(x, y, _)| cell_at(y, rows) * columns + cell_at(x, columns));
        for index in (0..columns * rows).filter(|index| !fixed.contains(index)) {
            let (column, row) = (index % columns, index / columns);
            let mut around = Vec::new();
            around.extend((column > 0).then(|| at(&cells, index - 1)));
            around.extend((column + 1 < columns).then(|| at(&cells, index + 1)));
            around.extend((row > 0).then(|| at(&cells, index - columns)));
            around.extend((row + 1 < rows).then(|| at(&cells, index + columns)));
            let mean = around.iter().sum::<f64>() / around.len() as f64;
            assert!((at(&cells, index) - mean).abs() < 1e-3, "{column}, {row}");
        }
    }

    #[test]
    fn huge_values_stay_finite_and_no_trial_leaves_cells_empty() {
        let cells = interpolated(&[(0.1, 0.1, 1e308), (0.1, 0.1, 1e308), (0.9, 0.9, -1e308)], 8, 8);
        assert!(cells.iter().flatten().all(|value| value.is_finite()));
        assert!(interpolated(&[], 3, 3).iter().all(Option::is_none));
    }
}
