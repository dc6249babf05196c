//! Progress of long operations, reported ten times a second at most.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reading the rows: the cost of a byte in each stage. Estimates for WordPiece on rows of prose are
/// good enough for a progress bar.
pub(super) const PARSE: u64 = 1;
/// Finding the words of the training texts.
pub(super) const WORDS: u64 = 15;
/// Training merges, without progress in between.
pub(super) const MERGES: u64 = 5;
/// Tokenising all texts.
pub(super) const TOKENISE: u64 = 10;

/// Receives the current stage, the units done and the total. Called from several threads.
pub type ProgressCallback<'a> = &'a (dyn Fn(&str, u64, u64) + Sync);

/// Shortest time between two reports.
const INTERVAL: Duration = Duration::from_millis(100);

/// Approximate bytes of a portion.
const PORTION: usize = 1 << 20;

/// An operation of several stages, each with its share of the total.
pub(super) struct Progress<'a> {
    on_progress: ProgressCallback<'a>,
    /// Units of all stages.
    total: u64,
    // A lock rather than a channel: threads that process texts in parallel report directly.
    position: Mutex<Position>,
}

/// The current stage.
struct Position {
    stage: &'static str,
    /// Units of earlier stages.
    before: u64,
    /// Units of this stage.
    units: u64,
    last_report: Option<Instant>,
}

impl<'a> Progress<'a> {
    /// An operation of `total` units.
    pub(super) fn new(on_progress: ProgressCallback<'a>, total: u64) -> Self {
        Self {
            on_progress,
            total,
            position: Mutex::new(Position { stage: "", before: 0, units: 0, last_report: None }),
        }
    }

    /// Ends the current stage, and begins one of `units`.
    pub(super) fn begin_stage(&self, stage: &'static str, units: u64) {
        let before = {
            let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
            let before = position.before.saturating_add(position.units).min(self.total);
            *position = Position { stage, before, units, last_report: Some(Instant::now()) };
            before
        };
        (self.on_progress)(stage, before, self.total);
    }

    /// Sets the progress of the current stage: `done` of `of`.
    pub(super) fn update(&self, done: usize, of: usize) {
        let (stage, share) = {
            let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
            if position.last_report.is_some_and(|last| last.elapsed() < INTERVAL) {
                return;
            }
            position.last_report = Some(Instant::now());
            let part = u128::from(position.units) * done.min(of) as u128 / of.max(1) as u128;
            (
                position.stage,
                position
                    .before
                    .saturating_add(u64::try_from(part).unwrap_or(position.units))
                    .min(self.total),
            )
        };
        (self.on_progress)(stage, share, self.total);
    }
}

/// Splits texts, or pairs of them, into portions of about a megabyte, between which progress is
/// reported; `length` gives the bytes of one.
pub(super) fn portions<T>(texts: &[T], length: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut rest = texts;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let last = rest.iter().position(|text| {
            bytes += length(text);
            bytes >= PORTION
        });
        let (portion, others) = rest.split_at(last.map_or(rest.len(), |last| last + 1));
        rest = others;
        (!portion.is_empty()).then_some(portion)
    })
}

/// Total bytes of `texts`.
pub(super) fn bytes(texts: &[&str]) -> usize {
    texts.iter().map(|text| text.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(run: impl Fn(&Progress<'_>)) -> Vec<(String, u64, u64)> {
        let reports = Mutex::new(Vec::new());
        let on_progress =
            |what: &str, done, of| reports.lock().unwrap().push((what.to_owned(), done, of));
        run(&Progress::new(&on_progress, 100));
        reports.into_inner().unwrap()
    }

    #[test]
    fn a_stage_begins_where_the_one_before_ends() {
        let reports = reports(|progress| {
            progress.begin_stage("reading", 20);
            progress.begin_stage("tokenising", 80);
            std::thread::sleep(INTERVAL);
            progress.update(1, 4);
        });
        let expected = [("reading", 0), ("tokenising", 20), ("tokenising", 40)];
        assert_eq!(reports, expected.map(|(what, done)| (what.to_owned(), done, 100)));
    }

    #[test]
    fn portions_are_all_texts_in_their_order() {
        let long = "x".repeat(PORTION / 2);
        let texts = ["a", &long, &long, "", "b", &long];
        let lengths: Vec<usize> = portions(&texts, |text| text.len()).map(<[_]>::len).collect();
        assert_eq!(lengths, [3, 3]);
        assert_eq!(
            portions(&texts, |text| text.len()).flatten().copied().collect::<Vec<_>>(),
            texts
        );
        assert_eq!(portions(&[], |text: &&str| text.len()).count(), 0);
    }

    #[test]
    fn progress_is_reported_ten_times_a_second_at_most_and_never_exceeds_the_total() {
        let reports = reports(|progress| {
            progress.begin_stage("reading", 500);
            (0..100_000).for_each(|done| progress.update(done, 10));
            std::thread::sleep(INTERVAL);
            progress.update(30, 10);
        });
        assert!(reports.len() < 60, "{}", reports.len());
        assert_eq!(reports.last().unwrap(), &("reading".to_owned(), 100, 100));
    }
}
