//! How far something long is: told to whoever waits for it, a few times a second at most.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Is told what is being done, how much of it is done, and of how much. Called from several threads.
pub type Ticker<'a> = &'a (dyn Fn(&str, u64, u64) + Sync);

/// How often it is told at most.
const TURN: Duration = Duration::from_millis(100);

/// Bytes of a portion.
const PORTION: usize = 1 << 20;

/// Something long that consists of stages, each with its part of the whole.
pub(super) struct Pace<'a> {
    ticker: Ticker<'a>,
    /// Units of all stages together.
    of: u64,
    // Stages are told of from the threads that read texts in parallel, each of which may be the one whose turn it is to tell.
    now: Mutex<Now>,
}

/// Where it is.
struct Now {
    stage: &'static str,
    /// Units of the stages before this one.
    before: u64,
    /// Units of this one.
    units: u64,
    told: Option<Instant>,
}

impl<'a> Pace<'a> {
    /// The beginning of something whose stages have `of` units together.
    pub(super) fn new(ticker: Ticker<'a>, of: u64) -> Self {
        Self { ticker, of, now: Mutex::new(Now { stage: "", before: 0, units: 0, told: None }) }
    }

    /// The stage before is over, and one of `units` begins.
    pub(super) fn stage(&self, stage: &'static str, units: u64) {
        let before = {
            let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            let before = now.before.saturating_add(now.units).min(self.of);
            *now = Now { stage, before, units, told: Some(Instant::now()) };
            before
        };
        (self.ticker)(stage, before, self.of);
    }

    /// So much of so much of the stage is done.
    pub(super) fn at(&self, done: usize, of: usize) {
        let (stage, share) = {
            let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            if now.told.is_some_and(|told| told.elapsed() < TURN) {
                return;
            }
            now.told = Some(Instant::now());
            let part = u128::from(now.units) * done.min(of) as u128 / of.max(1) as u128;
            (now.stage, now.before.saturating_add(u64::try_from(part).unwrap_or(now.units)).min(self.of))
        };
        (self.ticker)(stage, share, self.of);
    }
}

/// Texts in groups of about a megabyte, so that what is made of all of them can tell how far it is.
pub(super) fn portions<'s, 't>(texts: &'s [&'t str]) -> impl Iterator<Item = &'s [&'t str]> {
    let mut rest = texts;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let last = rest.iter().position(|text| {
            bytes += text.len();
            bytes >= PORTION
        });
        let (portion, others) = rest.split_at(last.map_or(rest.len(), |last| last + 1));
        rest = others;
        (!portion.is_empty()).then_some(portion)
    })
}

/// Bytes of all of them.
pub(super) fn bytes(texts: &[&str]) -> usize {
    texts.iter().map(|text| text.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(walk: impl Fn(&Pace<'_>)) -> Vec<(String, u64, u64)> {
        let heard = Mutex::new(Vec::new());
        let ticker = |what: &str, done, of| heard.lock().unwrap().push((what.to_owned(), done, of));
        walk(&Pace::new(&ticker, 100));
        heard.into_inner().unwrap()
    }

    #[test]
    fn a_stage_begins_where_the_one_before_ends() {
        let heard = told(|pace| {
            pace.stage("reading", 20);
            pace.stage("tokenising", 80);
            std::thread::sleep(TURN);
            pace.at(1, 4);
        });
        let expected = [("reading", 0), ("tokenising", 20), ("tokenising", 40)];
        assert_eq!(heard, expected.map(|(what, done)| (what.to_owned(), done, 100)));
    }

    #[test]
    fn portions_are_all_texts_in_their_order() {
        let long = "x".repeat(PORTION / 2);
        let texts = ["a", &long, &long, "", "b", &long];
        let lengths: Vec<usize> = portions(&texts).map(<[_]>::len).collect();
        assert_eq!(lengths, [3, 3]);
        assert_eq!(portions(&texts).flatten().copied().collect::<Vec<_>>(), texts);
        assert_eq!(portions(&[]).count(), 0);
    }

    #[test]
    fn it_is_told_ten_times_a_second_at_most_and_never_more_than_all() {
        let heard = told(|pace| {
            pace.stage("reading", 500);
            (0..100_000).for_each(|done| pace.at(done, 10));
            std::thread::sleep(TURN);
            pace.at(30, 10);
        });
        assert!(heard.len() < 60, "{}", heard.len());
        assert_eq!(heard.last().unwrap(), &("reading".to_owned(), 100, 100));
    }
}
