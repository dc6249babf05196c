//! One axis of a chart: which values it covers, where its ticks are, and what they are called.

use crate::study::space::Scale;

/// Values further out than this are left outside: no arithmetic on an axis overflows.
const FARTHEST: f64 = 1e300;

/// Whether values far from the others may be left outside the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cut {
    /// Everything finite is inside.
    #[default]
    Nothing,
    /// Values so far out that the others would be a flat line are left outside.
    Outliers,
    /// The same, where up to a fifth of the values may be far out: those of trials that diverged.
    ManyOutliers,
}

/// The values an axis covers, never empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    scale: Scale,
    /// Both on the axis: of a logarithmic one the decimal logarithms.
    low: f64,
    high: f64,
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// From 0 (low end) to 1.
    pub at: f64,
    /// What stands there.
    pub label: String,
}

impl Range {
    /// The range from `low` to `high`; equal ends are widened.
    pub fn new(low: f64, high: f64, scale: Scale) -> Option<Range> {
        let (low, high) = (on_axis(low, scale)?, on_axis(high, scale)?);
        Some(Range::widened(low.min(high), low.max(high), scale))
    }

    /// The range of `values`, whichever are finite; all of `keep` is inside. `None` if there are
    /// none.
    pub fn over(
        values: impl IntoIterator<Item = f64>,
        keep: &[f64],
        scale: Scale,
        cut: Cut,
    ) -> Option<Range> {
        let mut places: Vec<f64> =
            values.into_iter().filter_map(|value| on_axis(value, scale)).collect();
        let (mut low, mut high) = match cut {
            Cut::Nothing => ends(places.iter().copied()),
            Cut::Outliers => ends_without_outliers(&mut places, 0.1),
            Cut::ManyOutliers => ends_without_outliers(&mut places, 0.2),
        };
        if places.is_empty() {
            return None;
        }
        for place in keep.iter().filter_map(|value| on_axis(*value, scale)) {
            (low, high) = (low.min(place), high.max(place));
        }
        (low <= high).then(|| Range::widened(low, high, scale))
    }

    fn widened(low: f64, high: f64, scale: Scale) -> Range {
        let size = low.abs().max(high.abs());
        // Narrower than this, ticks could not be told apart; also where all values are equal.
        if high - low > size * 1e-12 && high > low {
            return Range { scale, low, high };
        }
        let margin = match scale {
            Scale::Log => 0.5,
            Scale::Linear if size > 1e-290 => size * 0.1,
            Scale::Linear => 1.0,
        };
        Range { scale, low: low - margin, high: high + margin }
    }

    /// The values at its ends.
    pub fn values(&self) -> (f64, f64) {
        match self.scale {
            Scale::Linear => (self.low, self.high),
            Scale::Log => (10_f64.powf(self.low), 10_f64.powf(self.high)),
        }
    }

    /// Where `value` is: 0 at the low end, 1 at the high one, beyond them outside. `None` where the
    /// axis has no place for it.
    pub fn place(&self, value: f64) -> Option<f64> {
        on_axis(value, self.scale).map(|place| (place - self.low) / (self.high - self.low))
    }

    /// At most about `most` ticks at round values, ascending; with `whole`, at integers only.
    pub fn ticks(&self, most: usize, whole: bool) -> Vec<Tick> {
        let most = most.max(2);
        let (low, high) = match self.scale {
            Scale::Linear => (self.low, self.high),
            Scale::Log => {
                let decades = decades(self.low, self.high, most);
                if decades.len() >= 2 {
                    let tick = |value: f64| {
                        Some(Tick { at: self.place(value)?, label: scientific(value) })
                    };
                    return decades.into_iter().filter_map(tick).collect();
                }
                (10_f64.powf(self.low), 10_f64.powf(self.high))
            }
        };
        linear_ticks(low, high, most, whole, |value| self.place(value))
    }
}

fn on_axis(value: f64, scale: Scale) -> Option<f64> {
    match scale {
        Scale::Linear => (value.abs() <= FARTHEST).then_some(value),
        Scale::Log => (value > 0.0 && value <= FARTHEST).then(|| value.log10()),
    }
}

fn ends(places: impl Iterator<Item = f64>) -> (f64, f64) {
    places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| {
        (low.min(place), high.max(place))
    })
}

/// The ends, unless most values lie within an eighth of the range: then those beyond three times
/// the spread of the middle are left out. `beyond`: the share of the values on each side of it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a length in memory"
)]
fn ends_without_outliers(places: &mut [f64], beyond: f64) -> (f64, f64) {
    let (low, high) = ends(places.iter().copied());
    let last = places.len().saturating_sub(1) as f64;
    let (first, second) =
        ((last * beyond).ceil() as usize, (last * (1.0 - beyond)).floor() as usize);
    if first >= second {
        return (low, high);
    }
    let bottom = *places.select_nth_unstable_by(first, f64::total_cmp).1;
    let top = *places.select_nth_unstable_by(second, f64::total_cmp).1;
    let spread = top - bottom;
    if spread <= 0.0 || high - low <= 8.0 * spread {
        return (low, high);
    }
    let (lowest, highest) = (bottom - 3.0 * spread, top + 3.0 * spread);
    ends(places.iter().copied().filter(|place| (lowest..=highest).contains(place)))
}

/// 1, 2 or 5 times a power of ten: the smallest of them that needs at most `most` steps for `span`.
#[expect(clippy::cast_precision_loss, reason = "a number of ticks")]
fn round_step(span: f64, most: usize) -> f64 {
    let rough = span / most as f64;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

fn linear_ticks(
    low: f64,
    high: f64,
    most: usize,
    whole: bool,
    place: impl Fn(f64) -> Option<f64>,
) -> Vec<Tick> {
    let step = round_step(high - low, most);
    let step = if whole { step.max(1.0) } else { step };
    let unit = Unit::new(low.abs().max(high.abs()), step);
    let slack = step * 1e-9;
    let first = ((low - slack) / step).ceil();
    let values =
        (0..=2 * most).map(|index| (first + f64::from(u32::try_from(index).unwrap_or(0))) * step);
    values
        .take_while(|value| *value <= high + slack)
        .filter_map(|value| Some(Tick { at: place(value)?, label: unit.label(value) }))
        .collect()
}

/// Powers of ten from `low` to `high` (logarithms), thinned to `most`; twos and fives between them
/// where there is room.
#[expect(clippy::cast_possible_truncation, reason = "logarithms of floats are below 400")]
fn decades(low: f64, high: f64, most: usize) -> Vec<f64> {
    let (first, last) = ((low - 1e-9).ceil() as i32, (high + 1e-9).floor() as i32);
    let count = usize::try_from(last - first + 1).unwrap_or(0);
    if count == 0 || 3 * count <= most {
        let digits = |power: i32| {
            [1.0, 2.0, 5.0].into_iter().map(move |digit: f64| digit * 10_f64.powi(power))
        };
        let inside = |value: &f64| (low - 1e-9..=high + 1e-9).contains(&value.log10());
        return (first - 1..=last).flat_map(digits).filter(inside).collect();
    }
    let stride = count.div_ceil(most);
    (first..=last).step_by(stride).map(|power| 10_f64.powi(power)).collect()
}

/// A power of ten, or a small multiple of one, in as few characters as it needs.
fn scientific(value: f64) -> String {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Twos and fives come out of `powi` with a last digit that is off.
    let mantissa = mantissa.parse::<f64>().unwrap_or(1.0).round();
    match exponent {
        -3..=3 => {
            let decimals = usize::try_from(-exponent).unwrap_or(0);
            format!("{:.decimals$}", mantissa * 10_f64.powi(exponent))
        }
        _ => format!("{mantissa}e{exponent}"),
    }
}

/// How the ticks of one axis are written: all with as many decimals, large ones in thousands.
enum Unit {
    Decimals { by: f64, sign: &'static str, decimals: usize },
    Scientific { decimals: usize },
}

impl Unit {
    fn new(largest: f64, step: f64) -> Unit {
        let (by, sign) = match largest {
            1e15.. => (1.0, ""),
            1e9.. => (1e9, "G"),
            1e6.. => (1e6, "M"),
            1e4.. => (1e3, "k"),
            _ => (1.0, ""),
        };
        let decimals = decimals_of(step / by);
        if largest >= 1e15 || decimals > 6 {
            let power = 10_f64.powf(largest.log10().floor());
            return Unit::Scientific { decimals: decimals_of(step / power).min(9) };
        }
        Unit::Decimals { by, sign, decimals }
    }

    fn label(&self, value: f64) -> String {
        match self {
            // The zero of an axis may come out as -0.
            Unit::Decimals { by, sign, decimals } => {
                let text = format!("{:.decimals$}", value / by);
                let zero = text.chars().all(|char| matches!(char, '-' | '0' | '.'));
                if zero { "0".to_owned() } else { format!("{text}{sign}") }
            }
            Unit::Scientific { decimals } => {
                let text = format!("{value:.decimals$e}");
                match text.split_once('e') {
                    _ if value.abs() < f64::MIN_POSITIVE => "0".to_owned(),
                    Some((mantissa, exponent)) if mantissa.contains('.') => {
                        let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
                        format!("{mantissa}e{exponent}")
                    }
                    _ => text,
                }
            }
        }
    }
}

/// Digits behind the point that a multiple of `step` needs.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 330")]
fn decimals_of(step: f64) -> usize {
    (-(step * (1.0 + 1e-9)).log10().floor()).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(range: &Range, most: usize) -> Vec<String> {
        range.ticks(most, false).into_iter().map(|tick| tick.label).collect()
    }

    fn linear(low: f64, high: f64) -> Range {
        Range::new(low, high, Scale::Linear).unwrap()
    }

    /// The place of a value in hundredths.
    #[expect(clippy::cast_possible_truncation, reason = "a small integer")]
    fn at(range: &Range, value: f64) -> i64 {
        (range.place(value).unwrap() * 100.0).round() as i64
    }

    #[test]
    fn ticks_are_round_numbers_with_equal_decimals() {
        assert_eq!(labels(&linear(0.13, 0.92), 5), ["0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(labels(&linear(0.0, 1.0), 5), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&linear(-3.0, 3.0), 6), ["-3", "-2", "-1", "0", "1", "2", "3"]);
        assert_eq!(labels(&linear(0.981_23, 0.981_29), 3), ["0.98124", "0.98126", "0.98128"]);
        assert_eq!(labels(&linear(0.0, 120_000.0), 4), ["0", "50k", "100k"]);
        assert_eq!(labels(&linear(0.0, 2.4e6), 3), ["0", "1M", "2M"]);
    }

    #[test]
    fn tiny_and_huge_ranges_are_written_with_exponents() {
        assert_eq!(labels(&linear(0.0, 3e-12), 3), ["0", "1e-12", "2e-12", "3e-12"]);
        assert_eq!(labels(&linear(0.0, 1e299), 2), ["0", "5e298", "1e299"]);
    }

    #[test]
    fn whole_axes_have_no_ticks_between_numbers() {
        let tick = |at, label: &str| Tick { at, label: label.to_owned() };
        let ticks = [tick(0.0, "1"), tick(0.5, "2"), tick(1.0, "3")];
        assert_eq!(linear(1.0, 3.0).ticks(10, true), ticks);
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_ten_with_twos_and_fives_where_there_is_room() {
        let log = |low, high| Range::new(low, high, Scale::Log).unwrap();
        assert_eq!(labels(&log(1e-5, 1e-1), 5), ["1e-5", "1e-4", "0.001", "0.01", "0.1"]);
        assert_eq!(labels(&log(1e-9, 1.0), 4), ["1e-9", "1e-6", "0.001", "1"]);
        assert_eq!(labels(&log(0.01, 0.1), 6), ["0.01", "0.02", "0.05", "0.1"]);
        assert_eq!(labels(&log(1.0, 2000.0), 4), ["1", "10", "100", "1000"]);
        // Less than a decade: round numbers, in logarithmic places.
        assert_eq!(labels(&log(3.1, 4.9), 3), ["4"]);
        assert!(log(1.0, 100.0).place(10.0).is_some_and(|place| (place - 0.5).abs() < 1e-12));
    }

    #[test]
    fn one_outlier_is_left_outside_and_what_must_be_seen_is_kept() {
        let mut values: Vec<f64> = (0..20).map(|index| 0.3 + 0.01 * f64::from(index)).collect();
        values.push(1e6);
        let over = |keep: &[f64], cut| {
            Range::over(values.iter().copied(), keep, Scale::Linear, cut).unwrap()
        };
        let range = over(&[], Cut::Outliers);
        assert_eq!((at(&range, 0.3), range.place(1e6).is_some_and(|place| place > 1.0)), (0, true));
        assert!((range.high - 0.49).abs() < 1e-12);
        assert_eq!(at(&over(&[1e6], Cut::Outliers), 1e6), 100);
        assert_eq!(at(&over(&[], Cut::Nothing), 1e6), 100);
    }

    #[test]
    fn of_trials_a_fifth_may_be_outliers() {
        let mut values: Vec<f64> = (0..34).map(|index| 0.3 + 0.01 * f64::from(index)).collect();
        values.extend([40.0, 90.0, 1e3, 1e4, 1e5, 1e6]);
        let over = |cut| Range::over(values.iter().copied(), &[], Scale::Linear, cut).unwrap();
        assert!((over(Cut::ManyOutliers).high - 0.63).abs() < 1e-12);
        assert!(over(Cut::Outliers).high > 10.0, "a tenth: the others are a flat line");
    }

    #[test]
    fn a_spread_that_is_merely_wide_is_not_cut() {
        // 2.3 falling to 0.2, as losses do.
        let values = (0..50).map(|step| 0.2 + 2.1 * (-0.1 * f64::from(step)).exp());
        let range = Range::over(values, &[], Scale::Linear, Cut::Outliers).unwrap();
        assert_eq!(at(&range, 2.3), 100);
    }

    #[test]
    fn equal_empty_and_impossible_values_have_a_range_or_none() {
        let over =
            |values: &[f64], scale| Range::over(values.iter().copied(), &[], scale, Cut::Outliers);
        assert_eq!(at(&over(&[2.0, 2.0], Scale::Linear).unwrap(), 2.0), 50);
        assert_eq!(at(&over(&[0.0], Scale::Linear).unwrap(), 0.0), 50);
        let close = over(&[1.0, 1.0 + f64::EPSILON], Scale::Linear).unwrap();
        assert_eq!(close.ticks(4, false).len(), 5);
        assert_eq!(over(&[f64::NAN, f64::INFINITY], Scale::Linear), None);
        assert_eq!(over(&[0.0, -1.0], Scale::Log), None);
        assert_eq!(at(&over(&[7.0], Scale::Log).unwrap(), 7.0), 50);
        assert_eq!(over(&[], Scale::Linear), None);
    }

    #[test]
    fn extremes_neither_overflow_nor_loop() {
        let extremes = [f64::MIN, f64::MAX, -1e300, 1e300, f64::MIN_POSITIVE, 5e-324, 0.0, -0.0];
        for low in extremes {
            for high in extremes {
                for scale in [Scale::Linear, Scale::Log] {
                    let Some(range) = Range::over([low, high], &[], scale, Cut::Outliers) else {
                        continue;
                    };
                    let ticks = range.ticks(6, false);
                    assert!(
                        ticks.len() < 20 && ticks.iter().all(|tick| tick.at.is_finite()),
                        "{low} {high} {ticks:?}"
                    );
                }
            }
        }
    }
}
