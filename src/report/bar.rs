//! A progress line: a bar, the elapsed time, and the estimated time left.

use std::time::Duration;

use super::sparkline::Charset;
use super::wording::{rough_duration, shorten, width};

/// Width of a bar with enough space.
const BAR: usize = 24;

/// Width below which a bar is useless.
const SHORTEST_BAR: usize = 6;

/// Shorter measurements are not extrapolated.
const SETTLED: Duration = Duration::from_millis(500);

/// Progress with a linear estimate of the time left.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimator {
    began: Option<(Duration, f64)>,
    share: f64,
}

impl Estimator {
    /// At `at`, `done` of `of` is done. Less than before begins a new operation.
    #[expect(clippy::cast_precision_loss, reason = "a share for a bar")]
    pub fn hear(&mut self, at: Duration, done: u64, of: u64) {
        let share = if of == 0 { 0.0 } else { (done as f64 / of as f64).clamp(0.0, 1.0) };
        if self.began.is_none() || share < self.share {
            self.began = Some((at, share));
        }
        self.share = share;
    }

    /// Progress from 0 to 1; `None` if unknown.
    pub fn share(&self) -> Option<f64> {
        self.began.map(|_| self.share)
    }

    /// The time left at `now`; `None` if unknown. It grows while there is no progress.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        let (began, share) = self.began?;
        let (spent, done) = (now.saturating_sub(began), self.share - share);
        if self.share >= 1.0 {
            return Some(Duration::ZERO);
        }
        let settled = spent >= SETTLED && done > 0.0;
        settled
            .then(|| {
                Duration::try_from_secs_f64(spent.as_secs_f64() * (1.0 - self.share) / done).ok()
            })
            .flatten()
    }
}

/// `tokenising the texts ━━━━━━────── 50 %, 4 s, about 4 s left` in at most `columns` columns;
/// without progress `preparing the data, 12 s`.
pub fn line(
    what: &str,
    estimator: &Estimator,
    elapsed: Duration,
    charset: Charset,
    columns: usize,
) -> String {
    let room = columns.saturating_sub(width(&words(what, estimator, elapsed)) + 1);
    let text = match estimator.share() {
        Some(share) if room >= SHORTEST_BAR => {
            words(&format!("{what} {}", drawn(share, room.min(BAR), charset)), estimator, elapsed)
        }
        _ => words(what, estimator, elapsed),
    };
    shorten(&text, columns, charset.cut())
}

/// The same without a bar, for files and pipes.
pub fn words(what: &str, estimator: &Estimator, elapsed: Duration) -> String {
    let spent = rough_duration(elapsed);
    let Some(share) = estimator.share() else {
        return format!("{what}, {spent}");
    };
    let left = estimator
        .left(elapsed)
        .map(|left| format!(", about {} left", rough_duration(left)))
        .unwrap_or_default();
    format!("{what} {:.0} %, {spent}{left}", share * 100.0)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a bar's few columns"
)]
fn drawn(share: f64, columns: usize, charset: Charset) -> String {
    let full = ((share * columns as f64).round() as usize).min(columns);
    let (on, off) = if charset == Charset::Unicode { ("━", "─") } else { ("=", "-") };
    on.repeat(full) + &off.repeat(columns - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn heard(times: &[(u64, u64, u64)]) -> Estimator {
        let mut estimator = Estimator::default();
        times.iter().for_each(|(at, done, of)| estimator.hear(seconds(*at), *done, *of));
        estimator
    }

    #[test]
    fn what_is_left_takes_as_long_as_what_is_done_took() {
        let estimator = heard(&[(0, 0, 4), (10, 1, 4)]);
        assert_eq!(estimator.left(seconds(10)), Some(seconds(30)));
        assert_eq!(
            line("checking", &estimator, seconds(10), Charset::Ascii, 80),
            "checking ======------------------ 25 %, 10 s, about 30 s left"
        );
    }

    #[test]
    fn time_before_the_first_word_does_not_count() {
        assert_eq!(heard(&[(60, 0, 10), (62, 1, 10)]).left(seconds(62)), Some(seconds(18)));
        assert_eq!(heard(&[(60, 5, 10), (62, 6, 10)]).left(seconds(62)), Some(seconds(8)));
    }

    #[test]
    fn less_than_before_is_a_new_beginning() {
        let estimator = heard(&[(0, 0, 10), (100, 10, 10), (100, 0, 8), (102, 4, 8)]);
        assert_eq!(
            (estimator.share(), estimator.left(seconds(102))),
            (Some(0.5), Some(seconds(2)))
        );
    }

    #[test]
    fn an_estimate_grows_while_nothing_is_heard_and_ends_at_nothing() {
        let estimator = heard(&[(0, 0, 2), (10, 1, 2)]);
        assert_eq!(
            (estimator.left(seconds(10)), estimator.left(seconds(15))),
            (Some(seconds(10)), Some(seconds(15)))
        );
        assert_eq!(heard(&[(0, 0, 2), (9, 7, 2)]).left(seconds(9)), Some(Duration::ZERO));
    }

    #[test]
    fn nothing_is_said_before_anything_is_known() {
        let nothing = Estimator::default();
        assert_eq!((nothing.share(), nothing.left(seconds(5))), (None, None));
        assert_eq!(heard(&[(1, 0, 4)]).left(seconds(9)), None);
        assert_eq!(heard(&[(1, 0, 0)]).left(seconds(9)), None);
        let mut early = Estimator::default();
        early.hear(Duration::ZERO, 0, 100);
        early.hear(Duration::from_millis(100), 1, 100);
        assert_eq!(early.left(Duration::from_millis(100)), None);
        assert_eq!(
            line("preparing the data", &nothing, seconds(75), Charset::Unicode, 80),
            "preparing the data, 1 min 15 s"
        );
    }

    #[test]
    fn a_line_fits_its_terminal() {
        let estimator = heard(&[(0, 0, 100), (3000, 31, 100)]);
        let said = |columns| {
            line("measuring on the test split", &estimator, seconds(3000), Charset::Ascii, columns)
        };
        assert_eq!(
            said(80),
            "measuring on the test split ===-------- 31 %, 50 min 00 s, about 1 h 51 min left"
        );
        assert_eq!(said(60), "measuring on the test split 31 %, 50 min 00 s, about 1 h 51~");
        for columns in 1..120 {
            assert!(width(&said(columns)) <= columns, "{}", said(columns));
        }
    }
}
