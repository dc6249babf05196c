//! Durations as people write them: `90m`, `2h30m`, `1d`, `45s`, `1.5h`.

use std::time::Duration;

const UNITS: &[(&str, u64)] = &[("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// The longest accepted duration: a hundred years, so that adding it to any clock is safe.
const LONGEST: f64 = 100.0 * 365.25 * 86_400.0;

/// Parses a duration. Each unit at most once, from large to small; decimals anywhere.
pub fn parse(text: &str) -> Result<Duration, &'static str> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("the duration is empty");
    }
    let mut seconds = 0.0;
    let mut units = UNITS;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| "a duration is numbers with units")?;
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if unit.is_empty() {
            return Err("the unit is missing");
        }
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err("the units are d, h, m and s");
        };
        let Some(position) = units.iter().position(|(name, _)| *name == unit) else {
            return Err("units go from large to small, each once");
        };
        units = &units[position + 1..];
        #[expect(clippy::cast_precision_loss, reason = "a unit of at most 86400 seconds")]
        let size = *size as f64;
        seconds += number * size;
        rest = after.trim_start();
    }
    if seconds <= 0.0 {
        return Err("a duration must be longer than zero");
    }
    if seconds > LONGEST {
        return Err("a duration is at most a hundred years");
    }
    // Rounded to milliseconds: sums of decimals are exact enough and print as they were written.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive and at most a hundred years"
    )]
    Ok(Duration::from_millis((seconds * 1_000.0).round().max(1.0) as u64))
}

/// The duration as [`parse`] reads it.
pub fn format(duration: Duration) -> String {
    let mut seconds = duration.as_secs();
    let mut text = String::new();
    for (unit, size) in &UNITS[..3] {
        if seconds >= *size {
            text.push_str(&format!("{}{unit}", seconds / size));
            seconds %= size;
        }
    }
    let millis = duration.subsec_millis();
    match (seconds, millis) {
        (0, 0) if !text.is_empty() => text,
        (seconds, 0) => format!("{text}{seconds}s"),
        (seconds, millis) => {
            format!("{text}{seconds}.{}s", format!("{millis:03}").trim_end_matches('0'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_written() {
        let seconds = |text: &str| parse(text).map(|duration| duration.as_secs_f64());
        let minutes = [("90m", 90.0), ("2h30m", 150.0), ("2h 30m", 150.0), ("1.5h", 90.0)];
        for (text, expected) in minutes.into_iter().chain([("1d", 1440.0), ("45s", 0.75)]) {
            assert_eq!(seconds(text), Ok(expected * 60.0), "{text}");
        }
        assert_eq!(seconds("0.5s"), Ok(0.5));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        let wrong = "|  |90|m|90x|5 minutes|30m2h|1h1h|-1h|0s|1e3s|1..5h|.h|9999999d|1h garbage|٣h";
        for text in wrong.split('|') {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_duration_is_read_back(millis in 1u64..3_000_000_000_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }
    }
}
