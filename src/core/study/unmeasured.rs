//! Why `budget.target` or `budget.patience` of several objectives cannot be measured, so that the
//! search does not end by it.

use std::fmt;

use crate::study::budget::Budget;
use crate::study::counted::count;
use crate::study::front::{self, Front, Point};
use crate::study::metric::Number;
use crate::study::pareto;
use crate::study::spec::Objective;
use crate::study::state::Counts;
use crate::study::trial::TrialNumber;

/// Why a goal of several objectives is not in force, with what decides it.
#[derive(Clone, Debug, PartialEq)]
pub enum Unmeasured {
    /// No trial can be on the front.
    NoFront {
        /// The keys of the goals.
        goals: Vec<&'static str>,
        /// The number of complete trials: each has a NaN, is beyond a limit, or is hidden.
        complete: u64,
        /// The number of pruned ones.
        pruned: u64,
    },
    /// The front's hypervolume is infinite, because of a value.
    Infinite {
        /// The first trial with such a value.
        trial: TrialNumber,
        /// The objective.
        metric: String,
        /// The value.
        value: f64,
    },
    /// The front's hypervolume is too large a number, of finite values.
    TooLarge,
    /// The front's hypervolume takes too long to compute ([`pareto::hypervolume_within`]).
    TooLong {
        /// The number of trials on the front.
        trials: u64,
        /// The number of objectives.
        objectives: u64,
    },
}

impl Unmeasured {
    /// Why the goals of `budget` cannot be measured at present, if there is anything to measure:
    /// `None` of one objective, of a study without a goal, and before there could be a front. Of
    /// `points`, those on the front are needed, where it has no hypervolume.
    pub fn of(
        budget: &Budget,
        objectives: &[Objective],
        counts: Counts,
        front: &Front,
        points: &[Point],
    ) -> Option<Unmeasured> {
        let goals = [("target", budget.target.is_some()), ("patience", budget.patience.is_some())];
        let goals: Vec<&'static str> =
            goals.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key).collect();
        if goals.is_empty() || objectives.len() < 2 {
            return None;
        }
        if front.trials.is_empty() {
            let (complete, pruned) = (counts.complete, counts.pruned);
            let counts = |patience| complete + pruned >= patience;
            let is_late = complete > 0 || budget.patience.is_some_and(counts);
            return is_late.then_some(Unmeasured::NoFront { goals, complete, pruned });
        }
        budget.target?;
        match front.hypervolume {
            Some(_) => None,
            None => Some(Unmeasured::of_front(objectives, front, points)),
        }
    }

    /// Why a front has no hypervolume.
    fn of_front(objectives: &[Objective], front: &Front, points: &[Point]) -> Unmeasured {
        let directions = front::directions(objectives);
        let reference = pareto::losses(&directions, &front.reference);
        let mut best = reference.clone();
        for (trial, values) in points.iter().filter(|(trial, _)| front.contains(*trial)) {
            let losses = pareto::losses(&directions, values);
            if !losses.iter().zip(&reference).all(|(loss, border)| loss < border) {
                continue;
            }
            if let Some(place) = losses.iter().position(|loss| loss.is_infinite()) {
                let metric = objectives[place].metric.clone();
                return Unmeasured::Infinite { trial: *trial, metric, value: values[place] };
            }
            best.iter_mut().zip(losses).for_each(|(best, loss)| *best = best.min(loss));
        }
        // The box around the front: nothing on it dominates more.
        let most: f64 = best.iter().zip(&reference).map(|(best, border)| border - best).product();
        match most.is_finite() {
            true => Unmeasured::TooLong {
                trials: front.trials.len() as u64,
                objectives: reference.len() as u64,
            },
            false => Unmeasured::TooLarge,
        }
    }
}

impl fmt::Display for Unmeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unmeasured::NoFront { goals, complete, pruned } => {
                let goals: Vec<String> = goals.iter().map(|key| format!("budget.{key}")).collect();
                let are = if goals.len() == 1 { "is" } else { "are" };
                write!(f, "{} {are} not in force yet: ", goals.join(" and "))?;
                match complete {
                    0 => write!(
                        f,
                        "no trial is complete, {} pruned; a milder pruner lets some complete",
                        match pruned {
                            1 => "1 trial is".to_owned(),
                            several => format!("{several} are"),
                        }
                    ),
                    _ => write!(
                        f,
                        "none of {} can be on the front, because of NaN, a limit, or `rm`; \
                         `hpsearch trials` has their values",
                        count(*complete, "complete trial")
                    ),
                }
            }
            Unmeasured::Infinite { trial, metric, value } => write!(
                f,
                "budget.target is not in force: the front's hypervolume is infinite, because \
                 `{metric}` of trial {trial} is {}; `hpsearch rm` hides such a trial",
                Number(*value)
            ),
            Unmeasured::TooLarge => f.write_str(
                "budget.target is not in force: the front's hypervolume is too large a number; \
                 thresholds nearer to the values make it smaller",
            ),
            Unmeasured::TooLong { trials, objectives } => write!(
                f,
                "budget.target is not in force: the hypervolume of {} of {objectives} objectives \
                 takes too long to compute; end the study by `patience` or `trials` instead",
                count(*trials, "trial")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::spec::StudySpec;
    use crate::study::state::StudyState;
    use crate::study::time::Timestamp;
    use crate::study::trial::{Origin, Trial, TrialState};

    /// A state of complete trials with these values, to be minimised below a threshold.
    fn state(threshold: f64, values: &[&[f64]]) -> StudyState {
        let space = Space::new(Vec::new()).unwrap();
        let spec = StudySpec::new("s", "m0", Direction::Minimize, space, Program::Inline);
        let objectives = (0..values[0].len()).map(|index| Objective {
            threshold: Some(threshold),
            ..Objective::new(&format!("m{index}"), Direction::Minimize)
        });
        let mut state = StudyState::new(&StudySpec { objectives: objectives.collect(), ..spec });
        for (number, values) in (0..).map(TrialNumber).zip(values) {
            let trial = Trial::new(number, Params::new(), Origin::Asked, Timestamp(0));
            let (state_of, values) = (TrialState::Complete, values.to_vec());
            state.trials.push(Trial { state: state_of, values, ..trial });
            state.counts.complete += 1;
        }
        state
    }

    fn both() -> Budget {
        Budget { target: Some(1.0), patience: Some(3), ..Budget::default() }
    }

    fn unmeasured(budget: &Budget, state: &StudyState) -> Option<Unmeasured> {
        let points = front::points(&state.trials);
        Unmeasured::of(budget, state.objectives(), state.counts, &state.front(), &points)
    }

    fn in_words(budget: &Budget, state: &StudyState) -> String {
        unmeasured(budget, state).map_or_else(String::new, |why| why.to_string())
    }

    #[test]
    fn a_front_with_a_hypervolume_measures_both_goals() {
        // The last one is no better than the threshold in an objective, and adds nothing.
        let measured = state(1.0, &[&[0.5, 0.5], &[f64::NEG_INFINITY, 2.0]]);
        assert_eq!(unmeasured(&both(), &measured), None);
    }

    #[test]
    fn without_a_front_no_goal_is_in_force() {
        let none = state(1.0, &[&[0.5, f64::NAN]]);
        assert!(in_words(&both(), &none).starts_with(
            "budget.target and budget.patience are not in force yet: none of 1 complete trial can"
        ));
        let target = Budget { patience: None, ..both() };
        assert!(in_words(&target, &none).starts_with("budget.target is not in force yet"));
        assert_eq!(in_words(&Budget { target: None, ..target }, &none), "");
    }

    #[test]
    fn pruned_trials_alone_are_told_once_they_would_be_too_many() {
        let mut pruned = state(1.0, &[&[0.5, 0.5]]);
        pruned.trials[0].state = TrialState::Pruned;
        (pruned.counts.complete, pruned.counts.pruned) = (0, 2);
        assert_eq!(in_words(&both(), &pruned), "");
        pruned.counts.pruned = 3;
        assert!(in_words(&both(), &pruned).contains("no trial is complete, 3 are pruned"));
        assert_eq!(in_words(&Budget { patience: None, ..both() }, &pruned), "");
    }

    #[test]
    fn a_hypervolume_that_is_no_number_says_what_makes_it_so() {
        let infinite = state(1.0, &[&[0.5, 0.5], &[f64::NEG_INFINITY, 0.7]]);
        assert!(in_words(&both(), &infinite).contains("because `m0` of trial 1 is -inf"));
        assert_eq!(
            in_words(&Budget { target: None, ..both() }, &infinite),
            "",
            "patience is counted"
        );
        let large = state(1e200, &[&[-1e200, -1e200]]);
        assert_eq!(unmeasured(&both(), &large), Some(Unmeasured::TooLarge));
    }

    #[test]
    fn a_hypervolume_that_takes_too_long_is_told_with_the_size_of_the_front() {
        // Points on a plane, none of which dominates another.
        let point = |index: u32| -> Vec<f64> {
            let parts = (1..=12).map(|by| (f64::from(index * by) * 0.618_034).fract() + 0.01);
            let parts: Vec<f64> = parts.collect();
            let sum: f64 = parts.iter().sum();
            parts.into_iter().map(|part| part / sum).collect()
        };
        let points: Vec<Vec<f64>> = (1..=150).map(point).collect();
        let slices: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
        let why = unmeasured(&both(), &state(1.0, &slices));
        assert_eq!(why, Some(Unmeasured::TooLong { trials: 150, objectives: 12 }));
        assert!(why.unwrap().to_string().contains("of 150 trials of 12 objectives takes too long"));
    }
}
