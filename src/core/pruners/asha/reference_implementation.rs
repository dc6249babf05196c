//! Reference implementation of successive halving without caches, to test the incremental ranks.

use proptest::prelude::*;

use super::rungs::{value_at, waits_at};
use super::*;
use crate::study::event::{AttemptEvent, Event, StateEvent, TrialEvent};
use crate::study::metric::{Direction, Metrics, Score};
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::space::Space;
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Origin, TrialState};

fn population<'a>(
    asha: &'a Asha,
    history: History<'a>,
    bracket: usize,
    index: usize,
) -> impl Iterator<Item = (Score, &'a Trial)> {
    let of_bracket = history.compared().filter(move |trial| asha.bracket(trial.number) == bracket);
    of_bracket.filter_map(move |trial| {
        value_at(trial, asha.rungs[index]).map(|value| (history.score(value), trial))
    })
}

/// Population and rank of a score at the rung that a trial is at.
fn standing(
    asha: &Asha,
    history: History<'_>,
    bracket: usize,
    index: usize,
    own: (Score, TrialNumber),
) -> (usize, u64) {
    let at_rung = || population(asha, history, bracket, index);
    // Promotion ranks equal values by number.
    let breaks_ties = asha.mode == Mode::Promote;
    let is_before = |(score, trial): &(Score, &Trial)| {
        *score < own.0 || breaks_ties && *score == own.0 && trial.number < own.1
    };
    (at_rung().count(), at_rung().filter(is_before).count() as u64 + 1)
}

fn promoted(asha: &Asha, history: History<'_>) -> Option<(TrialNumber, Option<u64>)> {
    for index in (0..asha.rungs.len()).rev() {
        for bracket in 0..asha.shares.len().min(index + 1) {
            let next = asha.rungs.get(index + 1).copied();
            let place = |(score, trial): (Score, &Trial)| (score, trial.number);
            let waiting = population(asha, history, bracket, index)
                .filter(|(score, trial)| !score.loss().is_nan() && waits_at(trial, next));
            let Some(best) = waiting.map(place).min() else { continue };
            let places: Vec<_> = population(asha, history, bracket, index).map(place).collect();
            if (places.iter().filter(|other| **other < best).count() as u64)
                < asha.survivors(places.len())
            {
                return Some((best.1, next));
            }
        }
    }
    None
}

fn concluded(asha: &Asha, history: History<'_>) -> Option<TrialNumber> {
    let is_complete = |trial: &Trial| trial.state == TrialState::Complete && !trial.hidden;
    if history.trials().iter().any(is_complete) {
        return None;
    }
    (0..asha.rungs.len()).rev().find_map(|index| {
        let next = asha.rungs.get(index + 1).copied();
        let at_rung = (0..asha.shares.len().min(index + 1))
            .flat_map(|bracket| population(asha, history, bracket, index));
        let waiting =
            at_rung.filter(|(score, trial)| !score.loss().is_nan() && waits_at(trial, next));
        waiting.map(|(score, trial)| (score, trial.number)).min().map(|(_, trial)| trial)
    })
}

fn resumed(promotion: Option<Promotion>) -> Option<(TrialNumber, Option<u64>)> {
    promotion.map(|promotion| (promotion.trial, promotion.until))
}

/// One event about a trial of the study, or a new trial.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Begins,
    Reports(u64, f64),
    Pauses,
    Queued(Option<u64>),
    Ends(TrialState),
}

fn happenings() -> impl Strategy<Value = Vec<(u64, Happening)>> {
    let value = prop_oneof![
        8 => (0..9_u8).prop_map(f64::from),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(-0.0),
    ];
    let end =
        prop_oneof![Just(TrialState::Complete), Just(TrialState::Pruned), Just(TrialState::Failed)];
    let happening = prop_oneof![
        4 => Just(Happening::Begins),
        12 => (1..30_u64, value).prop_map(|(step, value)| Happening::Reports(step, value)),
        5 => Just(Happening::Pauses),
        2 => prop::option::of(1..30_u64).prop_map(Happening::Queued),
        1 => end.prop_map(Happening::Ends),
    ];
    prop::collection::vec((0..30_u64, happening), 1..160)
}

fn created(number: u64) -> Event {
    let (trial, params) = (TrialNumber(number), Params::new());
    Event::Trial(trial, TrialEvent::created(params, Origin::Asked))
}

fn event(study_state: &StudyState, about: u64, happening: Happening) -> Event {
    let count = study_state.trials.len() as u64;
    let trial = TrialNumber(about % count.max(1));
    match happening {
        _ if count == 0 => created(0),
        Happening::Begins => created(count),
        Happening::Reports(step, value) => {
            let metrics: Metrics = [("loss".to_owned(), value)].into_iter().collect();
            Event::of(trial, AttemptEvent::reported(AttemptNumber(0), step, metrics))
        }
        Happening::Pauses => {
            Event::of(trial, StateEvent::Paused { reason: String::new(), hold: None })
        }
        Happening::Queued(until) => {
            Event::of(trial, StateEvent::Queued { until, reason: String::new() })
        }
        Happening::Ends(state) => Event::Trial(trial, TrialEvent::finished(state, Some(1.0), None)),
    }
}

proptest! {
    #[test]
    fn ranks_that_are_kept_are_those_of_a_pass_over_all_trials(
        story in happenings(),
        brackets in 1..4_u64,
        mode in prop_oneof![Just("stop"), Just("promote")],
        every in 1..7_usize,
        maximize: bool,
    ) {
        let direction = if maximize { Direction::Maximize } else { Direction::Minimize };
        let study = StudySpec::new(
            "s",
            "loss",
            direction,
            Space::new(Vec::new()).unwrap(),
            Program::Inline,
        );
        let spec = ENTRY.defaults().with("mode", mode).with("brackets", brackets);
        let (asha, mut state) = (Asha::new(&spec, Some(27)).unwrap(), StudyState::new(&study));
        for (turn, (about, happening)) in story.into_iter().enumerate() {
            let event = event(&state, about, happening);
            state.apply(Timestamp(0), &event);
            if turn % every != 0 {
                continue;
            }
            // A study that diverges from here on must not be mistaken for this one.
            if turn % 50 == 49 {
                state = state.clone();
            }
            let history = History::new(&state);
            if let Event::Trial(trial, TrialEvent::Attempt(event)) = event
                && let AttemptEvent::Reported { step, .. } = event
            {
                let trial = &state.trials[trial.index()];
                let (space, restart) = (&Space::default(), Restart::Unknown);
                let verdict = asha.judge(&Case { space, history, trial, step, restart });
                let own = history.score_at(trial, step).unwrap();
                let reached = asha.reached(history, trial, step);
                if let (Some(index), false) = (reached, own.loss().is_nan()) {
                    let (population, rank) = standing(
                        &asha,
                        history,
                        asha.bracket(trial.number),
                        index,
                        (own, trial.number),
                    );
                    let said = format!("rank {rank} of {population}");
                    prop_assert!(
                        verdict.reason().is_some_and(|reason| reason.to_string().contains(&said)),
                        "{verdict:?}, {said}"
                    );
                }
            }
            let expected = if mode == "promote" {
                (promoted(&asha, history), concluded(&asha, history))
            } else {
                (None, None)
            };
            let found = (
                resumed(asha.promote(history)),
                resumed(asha.conclude(history)).map(|(trial, _)| trial),
            );
            prop_assert_eq!(found, expected);
        }
    }
}
