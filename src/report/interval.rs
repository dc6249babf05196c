//! Predicted intervals as lines of characters, all to one scale.

use super::sparkline::Charset;
use crate::samplers::Predicted;

/// The scale on which intervals are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntervalScale {
    low: f64,
    high: f64,
    columns: usize,
    /// Both ends of an interval, what is between, the mean, and a value beside it.
    marks: [char; 5],
}

impl IntervalScale {
    /// The scale that holds these intervals and values beside them, as far as they are finite.
    pub fn of<'a>(
        rows: impl Iterator<Item = (&'a Predicted, Option<f64>)>,
        columns: usize,
        charset: Charset,
    ) -> Self {
        let marks = match charset {
            Charset::Unicode => ['├', '┤', '─', '┼', '●'],
            Charset::Ascii => ['|', '|', '-', '+', 'o'],
        };
        let values = rows.flat_map(|(row, value)| [Some(row.low), Some(row.high), value]);
        let finite = values.flatten().filter(|value| value.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        IntervalScale { low, high, columns, marks }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a column, saturating"
    )]
    fn column(&self, value: f64) -> usize {
        let share = (value - self.low) / (self.high - self.low);
        let last = self.columns.saturating_sub(1);
        if share.is_nan() { 0 } else { (share.clamp(0.0, 1.0) * last as f64).round() as usize }
    }

    /// An interval with its mean, and a value where there is one.
    pub fn line(&self, row: &Predicted, value: Option<f64>) -> String {
        let [begin, end, inside, mean, beside] = self.marks;
        let mut line = vec![' '; self.columns.max(1)];
        let (first, last) = (self.column(row.low), self.column(row.high));
        line[first..=last].fill(inside);
        (line[first], line[last]) = (begin, end);
        line[self.column(row.mean)] = mean;
        if let Some(value) = value.filter(|value| value.is_finite()) {
            line[self.column(value)] = beside;
        }
        line.into_iter().collect::<String>().trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_means_and_values_are_drawn_to_one_scale() {
        let rows = [
            Predicted { step: 1, mean: 1.0, low: 0.0, high: 2.0 },
            Predicted { step: 9, mean: 3.0, low: 2.9, high: 3.1 },
        ];
        let values = [Some(3.9), None];
        let scale = |columns| IntervalScale::of(rows.iter().zip(values), columns, Charset::Ascii);
        let drawing = scale(36);
        assert_eq!(drawing.line(&rows[0], values[0]), "|--------+--------|                o");
        assert_eq!(drawing.line(&rows[1], values[1]).trim_start(), "|+|");
        assert_eq!(drawing.line(&rows[1], Some(f64::NAN)), drawing.line(&rows[1], None));
        assert_eq!(scale(0).line(&rows[0], values[0]).chars().count(), 1);
        let flat = [Predicted { step: 1, mean: 1.0, low: 1.0, high: 1.0 }];
        let drawing = IntervalScale::of(flat.iter().zip([Some(1.0)]), 36, Charset::Ascii);
        assert_eq!(drawing.line(&flat[0], Some(1.0)), "o");
    }
}
