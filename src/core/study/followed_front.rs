//! The front of a study that changes, computed again only where a change can move it.

use std::collections::{BTreeMap, BTreeSet};

use crate::study::front::{self, Front, Point};
use crate::study::pareto;
use crate::study::state::{Mark, StudyState};
use crate::study::trial::TrialNumber;

/// The front of the state that it follows: as [`StudyState::front`], of which each call sees all
/// trials.
#[derive(Debug, Default)]
pub struct FollowedFront {
    seen: Option<Mark>,
    /// The trials that can be on the front.
    points: BTreeMap<TrialNumber, Vec<f64>>,
    /// Those that are, by number.
    members: Vec<Point>,
    /// With its hypervolume, once anybody asked for it.
    front: Option<Front>,
}

impl FollowedFront {
    /// The points on the front, by number.
    pub fn members(&mut self, state: &StudyState) -> &[Point] {
        self.follow(state);
        &self.members
    }

    /// The front, with its hypervolume, and the points on it.
    pub fn front(&mut self, state: &StudyState) -> (&Front, &[Point]) {
        self.follow(state);
        let (points, members) = (&self.points, &self.members);
        let front = self.front.get_or_insert_with(|| {
            // A point that only an infinite one dominates has a part in the reference point.
            let has_thresholds = state.objectives().iter().all(|one| one.threshold.is_some());
            match has_thresholds || members.iter().all(is_finite) {
                true => Front::of(state.objectives(), members),
                false => Front::of(state.objectives(), &owned(points)),
            }
        });
        (front, members)
    }

    fn follow(&mut self, state: &StudyState) {
        let changed = self.seen.as_ref().and_then(|seen| state.changes().since(seen));
        let changed: Option<BTreeSet<TrialNumber>> = changed.map(Iterator::collect);
        self.seen = Some(state.changes().mark());
        let Some(changed) = changed else {
            self.points = front::points(&state.trials).into_iter().collect();
            return self.sort(state, None);
        };
        for number in changed {
            let point = state.trial(number).and_then(front::point_of).map(|(_, values)| values);
            if self.points.get(&number) == point.as_ref() {
                continue;
            }
            let before = match point {
                Some(values) => self.points.insert(number, values),
                None => self.points.remove(&number),
            };
            self.sort(state, Some(number).filter(|_| before.is_none()));
        }
    }

    /// Finds the members again, of which all but perhaps a new point are known.
    fn sort(&mut self, state: &StudyState, new: Option<TrialNumber>) {
        let directions = state.directions();
        let candidates = match new.and_then(|new| Some((new, self.points.get(&new)?))) {
            None => owned(&self.points),
            Some((new, values)) => {
                let losses = pareto::losses(directions, values);
                let dominates = |member: &&Point| {
                    pareto::dominates(&pareto::losses(directions, &member.1), &losses)
                };
                let mut dominating = self.members.iter().filter(dominates).peekable();
                if dominating.peek().is_some() {
                    // It has no part in the reference point either, if a finite one dominates it.
                    if !dominating.any(is_finite) {
                        self.front = None;
                    }
                    return;
                }
                let place = self.members.partition_point(|(number, _)| *number < new);
                let mut candidates = std::mem::take(&mut self.members);
                candidates.insert(place, (new, values.clone()));
                candidates
            }
        };
        self.front = None;
        let losses: Vec<Vec<f64>> =
            candidates.iter().map(|(_, values)| pareto::losses(directions, values)).collect();
        let on_front = pareto::front(&losses);
        self.members = on_front.into_iter().map(|index| candidates[index].clone()).collect();
    }
}

fn is_finite((_, values): &Point) -> bool {
    values.iter().all(|value| value.is_finite())
}

fn owned(points: &BTreeMap<TrialNumber, Vec<f64>>) -> Vec<Point> {
    points.iter().map(|(number, values)| (*number, values.clone())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::study::event::{DecisionEvent, Event, StateEvent, TrialEvent};
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::spec::{Objective, StudySpec};
    use crate::study::time::Timestamp;
    use crate::study::trial::{Origin, TrialState};

    fn state(thresholds: &[Option<f64>]) -> StudyState {
        let space = Space::new(Vec::new()).unwrap();
        let spec = StudySpec::new("s", "m0", Direction::Minimize, space, Program::Inline);
        let objective = |(index, threshold): (usize, &Option<f64>)| {
            let direction = [Direction::Minimize, Direction::Maximize][index % 2];
            Objective { threshold: *threshold, ..Objective::new(&format!("m{index}"), direction) }
        };
        let objectives = thresholds.iter().enumerate().map(objective).collect();
        StudyState::new(&StudySpec { objectives, ..spec })
    }

    /// What happens to a trial: it ends with values, violates a limit, continues, or is hidden.
    fn event() -> impl Strategy<Value = TrialEvent> {
        let value = prop_oneof![
            10 => (-3_i8..4).prop_map(f64::from),
            1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
        ];
        let ended = prop::collection::vec(value, 3).prop_map(|values| {
            TrialEvent::State(StateEvent::Finished {
                state: TrialState::Complete,
                value: None,
                values,
                reason: None,
            })
        });
        let broken = TrialEvent::Decision(DecisionEvent::LimitsBroken {
            violation: 1.0,
            reason: String::new(),
        });
        let queued = TrialEvent::State(StateEvent::Queued { until: None, reason: String::new() });
        let hidden = TrialEvent::State(StateEvent::Hidden);
        prop_oneof![
            8 => ended,
            1 => prop_oneof![Just(broken), Just(queued), Just(hidden)],
        ]
    }

    proptest! {
        #[test]
        fn it_is_that_of_all_trials_after_each_change(
            events in prop::collection::vec((0_u64..24, event()), 0..60),
            thresholds in prop::collection::vec(prop::option::of(Just(2.5)), 2..4),
            looks in prop::collection::vec(any::<bool>(), 60),
        ) {
            let mut state = state(&thresholds);
            let mut followed = FollowedFront::default();
            for number in (0..24).map(TrialNumber) {
                let created = TrialEvent::created(Params::new(), Origin::Asked);
                state.apply(Timestamp(0), &Event::Trial(number, created));
            }
            for ((number, mut event), looks) in events.into_iter().zip(looks) {
                if let TrialEvent::State(StateEvent::Finished { values, .. }) = &mut event {
                    values.truncate(thresholds.len());
                }
                state.apply(Timestamp(0), &Event::Trial(TrialNumber(number), event));
                // Several changes may come between two looks.
                if looks {
                    let (front, members) = followed.front(&state);
                    prop_assert_eq!(front, &state.front());
                    let members: Vec<TrialNumber> = members.iter().map(|(one, _)| *one).collect();
                    prop_assert_eq!(&members, &front.trials);
                }
            }
            // Another state is read anew.
            let other = state.clone();
            prop_assert_eq!(followed.front(&other).0, &other.front());
        }
    }
}
