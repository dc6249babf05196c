//! What is typed to raise a budget: the words of `hpsearch extend`, and shorter ones.

use crate::study::budget::Extension;
use crate::study::duration;

/// What may be typed.
pub(super) const HINT: &str = "+50 (trials)  +2h (time)  device-hours +4  cost +20   Enter adds it";

/// `+50`, `+2h`, `trials +50 time +2h`, `--device-hours +4`; an error says what was not understood.
pub(super) fn extension(text: &str) -> Result<Extension, String> {
    let mut by = Extension::default();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let key = word.trim_start_matches('-');
        match key {
            "trials" | "time" | "device-hours" | "device_hours" | "cost" => {
                let amount = words.next().ok_or_else(|| format!("how much {key}?"))?;
                match key {
                    "trials" => {
                        by.trials = by.trials.saturating_add(
                            trials(amount)
                                .ok_or_else(|| format!("`{amount}` is not a number of trials"))?,
                        )
                    }
                    "time" => by.time = by.time.saturating_add(time(amount)?),
                    "cost" => by.cost += number(amount)?,
                    _ => by.device_hours += number(amount)?,
                }
            }
            _ => match trials(word) {
                Some(more) => by.trials = by.trials.saturating_add(more),
                None => by.time = by.time.saturating_add(time(word)?),
            },
        }
    }
    Ok(by)
}

fn bare(word: &str) -> &str {
    word.strip_prefix('+').unwrap_or(word)
}

fn trials(word: &str) -> Option<u64> {
    Extension::trials_of(word)
}

fn time(word: &str) -> Result<std::time::Duration, String> {
    duration::parse(bare(word))
        .map_err(|_| format!("`{word}` is neither a number of trials nor a time like 2h or 90m"))
}

fn number(word: &str) -> Result<f64, String> {
    let amount: Option<f64> = bare(word).parse().ok();
    amount
        .filter(|amount| amount.is_finite() && *amount > 0.0)
        .ok_or_else(|| format!("`{word}` is not an amount above zero"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn budgets_are_raised_by_the_words_of_the_command_line_and_shorter_ones() {
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        let by = |trials, time| Extension { trials, time, ..Extension::default() };
        assert_eq!(extension("+50"), Ok(by(50, Duration::ZERO)));
        assert_eq!(extension("20 +2h"), Ok(by(20, hours(2))));
        assert_eq!(extension("--trials +5 --time 1h"), Ok(by(5, hours(1))));
        assert_eq!(
            extension("device-hours +4.5 cost 20"),
            Ok(Extension { device_hours: 4.5, cost: 20.0, ..Extension::default() })
        );
        assert_eq!(extension(""), Ok(Extension::default()));
        for wrong in ["+0", "-3", "trials", "trials many", "cost -1", "cost inf", "soon"] {
            assert!(extension(wrong).is_err(), "{wrong}");
        }
    }
}
