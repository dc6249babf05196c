//! Dates of filters: `2026-11-01`, `2026-11-30T18:30`.

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const DAY: i64 = 24 * 60 * MINUTE;

/// A day, minute, second or fraction of one, in UTC: from its first microsecond since 1970 to that
/// of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub start: i64,
    pub end: i64,
}

impl Moment {
    /// The moment that is all of a text.
    pub fn parse(text: &str) -> Option<Moment> {
        Moment::written_at(text).filter(|(_, length)| *length == text.len()).map(|(it, _)| it)
    }

    /// The moment at the beginning of a text, up to white space or a parenthesis, and its length.
    pub fn written_at(text: &str) -> Option<(Moment, usize)> {
        let is_end = |char: char| char.is_whitespace() || "()<>=!,".contains(char);
        let word = &text[..text.find(is_end).unwrap_or(text.len())];
        let utc = word.strip_suffix('Z').filter(|rest| rest.contains('T')).unwrap_or(word);
        let (date, time) =
            utc.split_once('T').map_or((utc, None), |(date, time)| (date, Some(time)));
        let day = days_since_1970(date)?.checked_mul(DAY)?;
        let (offset, length) = time.map_or(Some((0, DAY)), time_of_day)?;
        let start = day + offset;
        Some((Moment { start, end: start + length }, word.len()))
    }
}

/// Digits of this number.
fn digits(text: &str, count: usize) -> Option<i64> {
    let is_it = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_it)
}

/// The days from 1970-01-01 to a date, `2026-11-01`.
fn days_since_1970(date: &str) -> Option<i64> {
    let [year, month, day] = date.split('-').collect::<Vec<_>>().try_into().ok()?;
    let (year, month, day) = (digits(year, 4)?, digits(month, 2)?, digits(day, 2)?);
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = usize::try_from(month - 1).ok()?;
    (1..=*lengths.get(before)?).contains(&day).then_some(())?;
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    Some(years + lengths[..before].iter().sum::<i64>() + day - 1)
}

/// The microseconds from midnight to a time, `18:30`, `18:30:05` or `18:30:05.25`, and how long it
/// lasts.
fn time_of_day(time: &str) -> Option<(i64, i64)> {
    let below = |text: &str, limit: i64| digits(text, 2).filter(|number| *number < limit);
    let (hour, rest) = time.split_once(':')?;
    let (minute, second) = rest.split_once(':').map_or((rest, None), |(one, two)| (one, Some(two)));
    let start = below(hour, 24)? * 60 * MINUTE + below(minute, 60)? * MINUTE;
    let Some(second) = second else { return Some((start, MINUTE)) };
    let (whole, fraction) =
        second.split_once('.').map_or((second, None), |(one, two)| (one, Some(two)));
    let start = start + below(whole, 60)? * SECOND;
    let Some(fraction) = fraction else { return Some((start, SECOND)) };
    let places = fraction.len();
    let length = 10_i64.checked_pow(u32::try_from(6_usize.checked_sub(places)?).ok()?)?;
    Some((start + digits(fraction, places)? * length, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_of_the_calendar_and_times_last_as_long_as_they_are_written() {
        let at = |text: &str| Moment::parse(text).map(|Moment { start, end }| (start, end - start));
        for (text, seconds, length) in [
            ("1970-01-01", 0, DAY),
            ("1969-12-31", -86_400, DAY),
            ("2000-02-29", 951_782_400, DAY),
            ("2000-03-01", 951_868_800, DAY),
            ("2026-11-30", 1_795_996_800, DAY),
            ("2100-03-01", 4_107_542_400, DAY),
            ("2000-02-29T18:30", 951_782_400 + 66_600, MINUTE),
            ("2000-02-29T18:30Z", 951_782_400 + 66_600, MINUTE),
            ("2000-02-29T18:30:05", 951_782_400 + 66_605, SECOND),
        ] {
            assert_eq!(at(text), Some((seconds * SECOND, length)), "{text}");
        }
        let fraction = at("1970-01-01T00:00:01.25Z");
        assert_eq!(fraction, Some((1_250_000, 10_000)));
        for wrong in [
            "2026",
            "2026-11",
            "2026-13-01",
            "2026-00-01",
            "2026-02-29",
            "2026-11-31",
            "2026-11-1",
            "26-11-01",
            "2026-11-01T",
            "2026-11-01T24:00",
            "2026-11-01T1:00",
            "2026-11-01Z",
            "2026-11-01T10:00:00.1234567",
            "2026-11-01T10:00+01:00",
            "x",
            "",
        ] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }
}
