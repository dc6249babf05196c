//! Early stopping: when the reports of one trial no longer improve.

use crate::study::metric::Direction;

/// A trial whose last reports did not improve on its best one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    /// The value that none of them improved on.
    pub best: f64,
    /// Its step.
    pub best_at: u64,
    /// How many reports there were since.
    pub reports: u64,
}

/// The plateau at the end of these reports (step and value), if it is at least `patience` reports
/// long. As in Keras, a value improves if it is better than the best by more than `min_delta`, and
/// only then becomes the best. NaN never improves, and everything else improves on NaN.
pub fn plateau(
    reports: &[(u64, f64)],
    direction: Direction,
    (patience, min_delta): (u64, f64),
) -> Option<Plateau> {
    let mut reports = reports.iter();
    let (best_at, best) = *reports.next()?;
    let mut found = Plateau { best, best_at, reports: 0 };
    for (step, value) in reports {
        let is_better = match found.best.is_nan() {
            true => !value.is_nan(),
            false => direction.loss(*value) < direction.loss(found.best) - min_delta,
        };
        found = match is_better {
            true => Plateau { best: *value, best_at: *step, reports: 0 },
            false => Plateau { reports: found.reports + 1, ..found },
        };
    }
    (found.reports >= patience).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Maximize, Minimize};

    /// The best step and the reports since, if it is a plateau.
    fn of(values: &[f64], direction: Direction, rule: (u64, f64)) -> Option<(u64, u64)> {
        let reports: Vec<(u64, f64)> = (1..).zip(values.iter().copied()).collect();
        plateau(&reports, direction, rule).map(|found| (found.best_at, found.reports))
    }

    #[test]
    fn it_begins_after_the_last_improvement() {
        assert_eq!(of(&[3.0, 2.0, 2.0, 2.5], Minimize, (2, 0.0)), Some((2, 2)));
        assert_eq!(of(&[3.0, 2.0, 2.0, 1.9], Minimize, (2, 0.0)), None);
        assert_eq!(of(&[0.1, 0.3, 0.3, 0.2], Maximize, (2, 0.0)), Some((2, 2)));
        assert_eq!(of(&[], Minimize, (1, 0.0)), None);
        assert_eq!(of(&[1.0], Minimize, (1, 0.0)), None);
    }

    #[test]
    fn smaller_improvements_do_not_count_until_they_add_up() {
        assert_eq!(of(&[1.0, 0.95, 0.91], Minimize, (2, 0.1)), Some((1, 2)));
        assert_eq!(of(&[1.0, 0.95, 0.91, 0.85], Minimize, (3, 0.1)), None);
        assert_eq!(of(&[1.0, 0.5], Minimize, (1, 0.5)), Some((1, 1)), "equal is not more");
        assert_eq!(of(&[0.0, 0.05, 0.2, 0.25], Maximize, (1, 0.1)), Some((3, 1)));
    }

    #[test]
    fn nan_and_infinity_are_no_improvements() {
        let nan = f64::NAN;
        assert_eq!(of(&[nan, nan, nan], Minimize, (2, 0.0)), Some((1, 2)));
        assert_eq!(of(&[nan, nan, 5.0], Minimize, (1, 0.0)), None, "5 improves on NaN");
        assert_eq!(of(&[5.0, nan, nan], Maximize, (2, 0.0)), Some((1, 2)));
        let infinity = f64::INFINITY;
        assert_eq!(of(&[infinity, infinity, 1.0], Minimize, (1, 0.5)), None);
        assert_eq!(of(&[infinity, infinity], Minimize, (1, 0.5)), Some((1, 1)));
        assert_eq!(of(&[-0.0, 0.0], Minimize, (1, 0.0)), Some((1, 1)));
    }
}
