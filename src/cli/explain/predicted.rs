//! The curve that was to be expected of a trial when it was proposed, drawn beside the real one.

use std::collections::BTreeMap;
use std::io::Write as _;

use crate::cli::{Console, Failure};
use crate::report::interval::IntervalScale;
use crate::report::table::Columns;
use crate::report::wording::{number, one_line};
use crate::samplers::Predicted;
use crate::study::metric::significant;
use crate::study::spec::StudySpec;
use crate::study::trial::Trial;

/// Rows of the drawing.
const ROWS: usize = 12;
/// Columns of it.
const WIDTH: usize = 36;
/// Significant digits of predicted values.
const DIGITS: usize = 3;

/// The steps of a trial's reports at which they are compared: all if there are few, and otherwise
/// closer at the start, where curves bend.
///
/// Of several objectives, those of each.
pub(super) fn steps(spec: &StudySpec, trial: &Trial) -> Vec<u64> {
    let objectives = 0..spec.objectives.len();
    let mut chosen: Vec<u64> = objectives
        .flat_map(|objective| spread(reports(spec, trial, objective).map(|(step, _)| step)))
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

fn spread(steps: impl Iterator<Item = u64>) -> Vec<u64> {
    let all: Vec<u64> = steps.collect();
    let Some(last) = all.len().checked_sub(1).filter(|last| *last >= ROWS) else { return all };
    (0..ROWS).map(|row| all[last * row * row / ((ROWS - 1) * (ROWS - 1))]).collect()
}

/// The steps at which a trial reported an objective, and the values.
fn reports<'a>(
    spec: &StudySpec,
    trial: &'a Trial,
    objective: usize,
) -> Box<dyn Iterator<Item = (u64, f64)> + 'a> {
    if !spec.has_several_objectives() {
        return Box::new(trial.curve.iter().copied());
    }
    let reported = move |values: &Vec<Option<f64>>| values.get(objective).copied().flatten();
    let rows = trial.vectors.iter();
    Box::new(rows.filter_map(move |(step, values)| Some((*step, reported(values)?))))
}

/// `0.71 (0.65 to 0.78)`; what is certain is itself.
pub(super) fn interval(predicted: &Predicted) -> String {
    let Predicted { mean, low, high, .. } = predicted;
    if low == high {
        return number(*mean);
    }
    let [mean, low, high] = [mean, low, high].map(|value| significant(*value, DIGITS));
    format!("{mean} ({low} to {high})")
}

/// The rows of an objective that are printed: those of its reports, and the end. Of one that never
/// changes within a trial, such as a size, the last report's.
fn printed(reports: &BTreeMap<u64, f64>, predicted: &[Predicted]) -> Vec<Predicted> {
    let is_reported = |row: &&Predicted| reports.contains_key(&row.step);
    let is_alike = predicted.windows(2).all(|pair| pair[0].mean == pair[1].mean);
    let never_changed = reports.values().all(|value| Some(value) == reports.values().next());
    if (is_alike || reports.len() > 1 && never_changed)
        && let Some(last) = predicted.iter().rfind(is_reported)
    {
        return vec![*last];
    }
    let end = predicted.last().map(|end| end.step);
    predicted.iter().filter(|row| is_reported(row) || Some(row.step) == end).copied().collect()
}

/// Prints the table with the drawing of an objective.
pub(super) fn print(
    spec: &StudySpec,
    trial: &Trial,
    objective: usize,
    predicted: &[Predicted],
    console: &mut Console,
) -> Result<(), Failure> {
    let reports: BTreeMap<u64, f64> = reports(spec, trial, objective).collect();
    let reported = |row: &Predicted| reports.get(&row.step).copied();
    let predicted = match spec.has_several_objectives() {
        true => printed(&reports, predicted),
        false => predicted.to_vec(),
    };
    let rows = predicted.iter().map(|row| (row, reported(row)));
    let scale = IntervalScale::of(rows, WIDTH, console.look.charset);
    let of = match spec.objectives.get(objective).filter(|_| spec.has_several_objectives()) {
        Some(objective) => format!("{} ", one_line(&objective.metric)),
        None => String::new(),
    };
    writeln!(
        console.out,
        "\n{of}predicted when it was proposed; nine in ten reports should lie between"
    )?;
    let columns = Columns::of(&predicted)
        .right(spec.step.as_str(), |row| row.step.to_string())
        .point("reported", |row| reported(row).map_or_else(String::new, number))
        .point("predicted", |row| significant(row.mean, DIGITS))
        .point("from", |row| significant(row.low, DIGITS))
        .point("to", |row| significant(row.high, DIGITS))
        .left("", |row| scale.line(row, reported(row)))
        .end();
    console.table(&columns)
}
