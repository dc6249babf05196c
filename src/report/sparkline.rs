//! A learning curve as one line of characters.

/// The characters that a terminal supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Block elements, arrows and ellipses.
    Unicode,
    /// Printable ASCII only.
    Ascii,
}

impl Charset {
    /// The marks from low to high.
    fn levels(self) -> &'static [char] {
        match self {
            Charset::Unicode => &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Charset::Ascii => &['_', '.', '-', '=', '^'],
        }
    }

    /// Marks truncated text.
    pub fn cut(self) -> &'static str {
        match self {
            Charset::Unicode => "…",
            Charset::Ascii => "~",
        }
    }
}

/// The curve in at most `columns` characters, low values low; longer curves are averaged. `×` (`x`
/// in ASCII) marks parts without finite values.
pub fn sparkline(curve: &[(u64, f64)], columns: usize, charset: Charset) -> String {
    let parts = parts(curve, columns);
    let finite = || parts.iter().copied().flatten();
    let (low, high) =
        (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let not_finite = if charset == Charset::Unicode { '×' } else { 'x' };
    parts
        .iter()
        .map(|part| part.map_or(not_finite, |value| mark(value, low, high, charset.levels())))
        .collect()
}

/// The mean of the finite values of each part; `None` if it has none.
fn parts(curve: &[(u64, f64)], columns: usize) -> Vec<Option<f64>> {
    let count = columns.min(curve.len());
    (0..count)
        .map(|part| {
            let values = &curve[part * curve.len() / count..(part + 1) * curve.len() / count];
            let finite: Vec<f64> =
                values.iter().map(|(_, value)| *value).filter(|value| value.is_finite()).collect();
            #[expect(
                clippy::cast_precision_loss,
                reason = "the length of a curve is far below 2^53"
            )]
            // Divided before summing: values near the largest float do not overflow.
            (!finite.is_empty())
                .then(|| finite.iter().map(|value| value / finite.len() as f64).sum())
        })
        .collect()
}

fn mark(value: f64, low: f64, high: f64, levels: &[char]) -> char {
    // Halved before subtracting, for the same reason.
    let range = high / 2.0 - low / 2.0;
    let share = if range > 0.0 { (value / 2.0 - low / 2.0) / range } else { 0.5 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of at most eight levels"
    )]
    let level = (share * (levels.len() - 1) as f64).round() as usize;
    levels[level.min(levels.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(values: &[f64]) -> Vec<(u64, f64)> {
        (1..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn low_values_are_low_in_both_charsets() {
        let curve = curve(&[8.0, 5.0, 3.0, 1.0]);
        assert_eq!(sparkline(&curve, 8, Charset::Unicode), "█▅▃▁");
        assert_eq!(sparkline(&curve, 8, Charset::Ascii), "^-._");
    }

    #[test]
    fn a_longer_curve_is_averaged_in_equal_parts() {
        let curve = curve(&[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0]);
        assert_eq!(sparkline(&curve, 5, Charset::Unicode), "▁▃▅▆█");
    }

    #[test]
    fn nan_constant_curves_and_extremes_are_drawn() {
        assert_eq!(sparkline(&curve(&[]), 8, Charset::Unicode), "");
        assert_eq!(sparkline(&curve(&[f64::NAN, f64::INFINITY]), 8, Charset::Unicode), "××");
        assert_eq!(sparkline(&curve(&[2.0, 2.0]), 8, Charset::Unicode), "▅▅");
        assert_eq!(sparkline(&curve(&[f64::MIN, f64::NAN, f64::MAX]), 8, Charset::Ascii), "_x^");
    }
}
