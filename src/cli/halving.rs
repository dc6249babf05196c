//! Errands that run out of memory are done again with half the rows at once, as trials are.

use super::waiting::Waiting;
use crate::arguments::RowsAtOnce;
use crate::runner::errand::ErrandError;

/// Does an errand with the rows at once that it usually has, and with half of them while they do not fit into memory, down to one row.
/// `usual`: `None` where rows are not to be halved.
pub fn halving<T>(
    usual: Option<RowsAtOnce>,
    waiting: &Waiting,
    mut errand: impl FnMut(Option<RowsAtOnce>) -> Result<T, ErrandError>,
) -> Result<T, ErrandError> {
    let mut done = errand(None);
    let Some(usual) = usual else { return done };
    for times in 1..=usual.halvings() {
        let Err(ErrandError::OutOfMemory { .. }) = done else { return done };
        let (before, now) = (usual.halved(times - 1), usual.halved(times));
        waiting.say(&fewer(before, now));
        done = errand(Some(now));
    }
    done
}

/// That rows did not fit, and how many are next.
fn fewer(before: RowsAtOnce, now: RowsAtOnce) -> String {
    let (before, now) =
        if before.train == now.train { (before.eval, now.eval) } else { (before.train, now.train) };
    format!("{before} rows at once did not fit into memory; now {now}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: RowsAtOnce = RowsAtOnce { train: 4, eval: 16 };

    fn starved() -> ErrandError {
        ErrandError::OutOfMemory { how: "killed".to_owned() }
    }

    /// How many rows of evaluation an errand is tried with that fits with so many.
    fn tried(usual: Option<RowsAtOnce>, fitting: usize) -> (Vec<Option<usize>>, bool) {
        let mut tried = Vec::new();
        let done = halving(usual, &Waiting::in_silence(), |rows| {
            tried.push(rows.map(|rows| rows.eval));
            if rows.map_or(16, |rows| rows.eval) <= fitting { Ok(()) } else { Err(starved()) }
        });
        (tried, done.is_ok())
    }

    #[test]
    fn rows_are_halved_until_they_fit_or_one_is_left() {
        assert_eq!(tried(Some(USUAL), 16), (vec![None], true));
        assert_eq!(tried(Some(USUAL), 5), (vec![None, Some(8), Some(4)], true));
        assert_eq!(tried(Some(USUAL), 0), (vec![None, Some(8), Some(4), Some(2), Some(1)], false));
        assert_eq!(tried(None, 5), (vec![None], false));
    }

    #[test]
    fn what_failed_for_another_reason_is_not_tried_again() {
        let mut times = 0;
        let done: Result<(), _> = halving(Some(USUAL), &Waiting::in_silence(), |_| {
            times += 1;
            Err(ErrandError::Failed("no such file".to_owned()))
        });
        assert!(done.is_err() && times == 1);
    }

    #[test]
    fn the_rows_that_are_told_of_are_those_that_become_fewer() {
        let said = |times| fewer(USUAL.halved(times - 1), USUAL.halved(times));
        assert_eq!(said(1), "4 rows at once did not fit into memory; now 2");
        assert_eq!(said(4), "2 rows at once did not fit into memory; now 1");
    }
}
