//! Values over two parameters, interpolated between the trials.

use super::of_study::{EMPTY, axis_of_parameter, complete, place, present, series};
use super::{Figure, HeatMap, Mark, SeriesRole};
use crate::report::wording::one_line;
use crate::study::outcome::Outcome;
use crate::study::space::{Dimension, Distribution};
use crate::study::spec::StudySpec;
use crate::study::trial::TrialNumber;

/// Columns and rows of cells for parameters that are not choices.
const CELLS: u32 = 32;
/// Cells with no trial within this distance, in the unit square, are empty.
const REACH: f64 = 0.25;

/// The value of completed trials over two parameters: trials as dots over cells that are
/// interpolated by inverse squared distance in the unit square (Shepard, 1968).
pub fn contour(
    spec: &StudySpec,
    (across, up): (&Dimension, &Dimension),
    outcomes: &[Outcome],
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
    let cells = y.iter().flat_map(|(y, _)| x.iter().map(|(x, _)| interpolated(&known, *x, *y)));
    let cells = HeatMap {
        values: cells.collect(),
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

fn interpolated(known: &[(f64, f64, f64)], x: f64, y: f64) -> Option<f64> {
    let (mut weights, mut sum, mut nearest) = (0.0, 0.0, f64::INFINITY);
    for (at, up, value) in known {
        let squared = (at - x).powi(2) + (up - y).powi(2);
        nearest = nearest.min(squared);
        let weight = 1.0 / (squared + 1e-6);
        weights += weight;
        sum += weight * value;
    }
    (nearest <= REACH * REACH).then(|| sum / weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolation_passes_through_the_trials_and_leaves_far_cells_empty() {
        let known = [(0.1, 0.1, 1.0), (0.2, 0.1, 3.0)];
        let at = |x, y| interpolated(&known, x, y);
        assert!((at(0.1, 0.1).unwrap() - 1.0).abs() < 1e-3);
        assert!((at(0.15, 0.1).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(at(0.9, 0.9), None);
    }
}
