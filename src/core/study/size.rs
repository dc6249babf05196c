//! Sizes in bytes as people write them: `50GiB`, `1.5 GB`, `800MiB`, `2TB`.

/// Units by their names: those of 1024 with an `i`, those of 1000 without.
const UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Larger than any disk, and exact as a float.
const LARGEST: f64 = (1_u64 << 53) as f64;

/// Parses a size.
pub fn parse(text: &str) -> Result<u64, &'static str> {
    let text = text.trim();
    let digits =
        text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| "a size is a number with a unit")?;
    let unit = unit.trim_start();
    if unit.is_empty() {
        return Err("the unit is missing");
    }
    let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let (_, size) = known.ok_or("the units are B, KiB, MiB, GiB, TiB, and kB, MB, GB, TB")?;
    #[expect(clippy::cast_precision_loss, reason = "a power of two or ten below 2^53")]
    let bytes = (number * *size as f64).round();
    if bytes < 1.0 {
        return Err("a size must be more than zero");
    }
    if bytes > LARGEST {
        return Err("a size is at most 8192 TiB");
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1 and 2^53"
    )]
    Ok(bytes as u64)
}

/// The size as [`parse`] reads it.
pub fn format(bytes: u64) -> String {
    let whole = UNITS.iter().find(|(_, size)| bytes.is_multiple_of(*size));
    whole.map_or_else(|| format!("{bytes}B"), |(name, size)| format!("{}{name}", bytes / size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_written() {
        assert_eq!(parse("50GiB"), Ok(50 << 30));
        assert_eq!(parse(" 1.5 GB "), Ok(1_500_000_000));
        assert_eq!(parse("800mib"), Ok(800 << 20));
        assert_eq!(parse("7B"), Ok(7));
        assert_eq!(
            (format(50 << 30), format(1_500_000_000), format(1_025)),
            ("50GiB".into(), "1500MB".into(), "1025B".into())
        );
    }

    #[test]
    fn what_is_no_size_is_refused() {
        let wrong = "|50|GiB|50 gigabytes|-1GiB|0GiB|1e9B|1..5GiB|9999999TiB|1GiB2MiB|٣GiB";
        for text in wrong.split('|') {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_size_is_read_back(bytes in 1u64..1 << 53) {
            prop_assert_eq!(parse(&format(bytes)), Ok(bytes));
        }
    }
}
