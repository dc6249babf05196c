//! The curve that was to be expected of a trial when it was proposed, drawn beside the real one.

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
pub(super) fn steps(trial: &Trial) -> Vec<u64> {
    let all: Vec<u64> = trial.curve.iter().map(|(step, _)| *step).collect();
    let Some(last) = all.len().checked_sub(1).filter(|last| *last >= ROWS) else { return all };
    let mut chosen: Vec<u64> =
        (0..ROWS).map(|row| all[last * row * row / ((ROWS - 1) * (ROWS - 1))]).collect();
    chosen.dedup();
    chosen
}

/// `0.71 (0.65 to 0.78)`.
pub(super) fn interval(predicted: &Predicted) -> String {
    let Predicted { mean, low, high, .. } = predicted;
    let [mean, low, high] = [mean, low, high].map(|value| significant(*value, DIGITS));
    format!("{mean} ({low} to {high})")
}

/// The rows of an objective that are printed: of one whose reports never changed, such as a size,
/// the end.
fn printed<'a>(trial: &Trial, objective: usize, predicted: &'a [Predicted]) -> &'a [Predicted] {
    let mut reports =
        trial.vectors.iter().filter_map(|(_, values)| values.get(objective).copied().flatten());
    let (first, second) = (reports.next(), reports.next());
    let is_constant =
        second.is_some() && first == second && reports.all(|other| Some(other) == first);
    let end = predicted.len().saturating_sub(1);
    if is_constant { predicted.get(end..).unwrap_or_default() } else { predicted }
}

/// Prints the table with the drawing of an objective.
pub(super) fn print(
    spec: &StudySpec,
    trial: &Trial,
    objective: usize,
    predicted: &[Predicted],
    console: &mut Console,
) -> Result<(), Failure> {
    let reported = |row: &Predicted| {
        if spec.has_several_objectives() {
            let at = trial.vectors.binary_search_by_key(&row.step, |(step, _)| *step).ok()?;
            return trial.vectors[at].1.get(objective).copied().flatten();
        }
        let at = trial.curve.binary_search_by_key(&row.step, |(step, _)| *step).ok();
        at.map(|index| trial.curve[index].1)
    };
    let predicted = printed(trial, objective, predicted);
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
    let columns = Columns::of(predicted)
        .right(spec.step.as_str(), |row| row.step.to_string())
        .point("reported", |row| reported(row).map_or_else(String::new, number))
        .point("predicted", |row| significant(row.mean, DIGITS))
        .point("from", |row| significant(row.low, DIGITS))
        .point("to", |row| significant(row.high, DIGITS))
        .left("", |row| scale.line(row, reported(row)))
        .end();
    console.table(&columns)
}
