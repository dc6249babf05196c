//! The curve that was to be expected of a trial when it was proposed, drawn beside the real one.

use std::io::Write as _;

use crate::cli::{Console, Failure};
use crate::report::sparkline::Charset;
use crate::report::table::Columns;
use crate::report::wording::number;
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

/// Prints the table with the drawing.
pub(super) fn print(
    spec: &StudySpec,
    trial: &Trial,
    predicted: &[Predicted],
    console: &mut Console,
) -> Result<(), Failure> {
    let reported = |row: &Predicted| {
        let at = trial.curve.binary_search_by_key(&row.step, |(step, _)| *step).ok();
        at.map(|index| trial.curve[index].1)
    };
    let drawing = Drawing::of(predicted, reported, console.look.charset);
    writeln!(
        console.out,
        "\npredicted when it was proposed; nine in ten reports should lie between"
    )?;
    let columns = Columns::of(predicted)
        .right(spec.step.as_str(), |row| row.step.to_string())
        .point("reported", |row| reported(row).map_or_else(String::new, number))
        .point("predicted", |row| significant(row.mean, DIGITS))
        .point("from", |row| significant(row.low, DIGITS))
        .point("to", |row| significant(row.high, DIGITS))
        .left("", |row| drawing.line(row, reported(row)))
        .end();
    console.table(&columns)
}

/// Where values are on a line, and how they are drawn there.
struct Drawing {
    low: f64,
    high: f64,
    /// Both ends of an interval, what is between, the mean, and a report.
    marks: [char; 5],
}

impl Drawing {
    fn of(
        predicted: &[Predicted],
        reported: impl Fn(&Predicted) -> Option<f64>,
        charset: Charset,
    ) -> Self {
        let all = || {
            let values = |row: &Predicted| [row.low, row.high].into_iter().chain(reported(row));
            predicted.iter().flat_map(values).filter(|value| value.is_finite())
        };
        let marks = match charset {
            Charset::Unicode => ['├', '┤', '─', '┼', '●'],
            Charset::Ascii => ['|', '|', '-', '+', 'o'],
        };
        let (low, high) =
            (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        Drawing { low, high, marks }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a column, saturating"
    )]
    fn column(&self, value: f64) -> usize {
        let share = (value - self.low) / (self.high - self.low);
        if share.is_nan() {
            0
        } else {
            (share.clamp(0.0, 1.0) * (WIDTH - 1) as f64).round() as usize
        }
    }

    fn line(&self, row: &Predicted, reported: Option<f64>) -> String {
        let [begin, end, inside, mean, report] = self.marks;
        let mut line = vec![' '; WIDTH];
        let (first, last) = (self.column(row.low), self.column(row.high));
        line[first..=last].fill(inside);
        (line[first], line[last]) = (begin, end);
        line[self.column(row.mean)] = mean;
        if let Some(value) = reported.filter(|value| value.is_finite()) {
            line[self.column(value)] = report;
        }
        line.into_iter().collect::<String>().trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_means_and_reports_are_drawn_to_one_scale() {
        let rows = [
            Predicted { step: 1, mean: 1.0, low: 0.0, high: 2.0 },
            Predicted { step: 9, mean: 3.0, low: 2.9, high: 3.1 },
        ];
        let reports = [Some(3.9), None];
        let drawing = Drawing::of(&rows, |row| reports[usize::from(row.step == 9)], Charset::Ascii);
        assert_eq!(drawing.line(&rows[0], reports[0]), "|--------+--------|                o");
        assert_eq!(drawing.line(&rows[1], reports[1]).trim_start(), "|+|");
        assert_eq!(drawing.line(&rows[1], Some(f64::NAN)), drawing.line(&rows[1], None));
        let flat = [Predicted { step: 1, mean: 1.0, low: 1.0, high: 1.0 }];
        let drawing = Drawing::of(&flat, |_| Some(1.0), Charset::Ascii);
        assert_eq!(drawing.line(&flat[0], Some(1.0)), "o");
    }
}
