//! The incremental past against one computed from all trials.

use proptest::prelude::*;

use super::*;
use crate::samplers::conformance::spaces;
use crate::samplers::fixtures::ask;
use crate::study::event::{
    AttemptEvent, DecisionEvent, Event, RecordEvent, StateEvent, TrialEvent,
};
use crate::study::history::History;
use crate::study::metric::{Direction, Metrics};
use crate::study::params::Value;
use crate::study::program::Program;
use crate::study::seed::SeedTree;
use crate::study::space::Space;
use crate::study::spec::{ParamsRule, StudySpec};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};

/// One event about a trial of the study, or new trials.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Begin(u64),
    Reports(u64, f64),
    Pauses,
    GoesOn,
    Ends(TrialState, f64),
    BreaksLimits(f64),
    DropsParams,
}

fn happenings() -> impl Strategy<Value = Vec<(u64, Happening)>> {
    let value = || {
        prop_oneof![
            8 => (0..9_u8).prop_map(f64::from),
            1 => Just(f64::NAN),
            1 => Just(f64::INFINITY),
            1 => Just(-0.0),
        ]
    };
    let end = prop_oneof![
        4 => Just(TrialState::Complete),
        1 => Just(TrialState::Pruned),
        1 => Just(TrialState::Failed),
    ];
    let happening = prop_oneof![
        2 => (1..12_u64).prop_map(Happening::Begin),
        4 => (1..9_u64, value()).prop_map(|(step, value)| Happening::Reports(step, value)),
        2 => Just(Happening::Pauses),
        1 => Just(Happening::GoesOn),
        8 => (end, value()).prop_map(|(state, value)| Happening::Ends(state, value)),
        1 => value().prop_map(Happening::BreaksLimits),
        2 => Just(Happening::DropsParams),
    ];
    prop::collection::vec((0..200_u64, happening), 1..60)
}

fn created(space: &Space, number: u64) -> Event {
    let trial = TrialNumber(number);
    // Every other configuration repeats the one before: kernels with equal means.
    let params = crate::samplers::random::point(&ask(space, &[], 0), &mut stream(number / 2));
    Event::Trial(trial, TrialEvent::created(params, Origin::Asked))
}

fn events(space: &Space, study_state: &StudyState, about: u64, happening: Happening) -> Vec<Event> {
    let count = study_state.trials.len() as u64;
    let trial = TrialNumber(about % count.max(1));
    match happening {
        Happening::Begin(more) => {
            (count..count + more).map(|number| created(space, number)).collect()
        }
        _ if count == 0 => vec![created(space, 0)],
        Happening::Reports(step, value) => {
            let metrics: Metrics = [("loss".to_owned(), value)].into_iter().collect();
            vec![Event::of(trial, AttemptEvent::reported(AttemptNumber(0), step, metrics))]
        }
        Happening::Pauses => {
            vec![Event::of(trial, StateEvent::Paused { reason: String::new(), hold: None })]
        }
        Happening::GoesOn => {
            vec![Event::of(trial, StateEvent::Queued { until: None, reason: String::new() })]
        }
        Happening::Ends(state, value) => {
            let value = (state == TrialState::Complete).then_some(value);
            vec![Event::Trial(trial, TrialEvent::finished(state, value, None))]
        }
        Happening::BreaksLimits(violation) => {
            vec![Event::of(trial, DecisionEvent::LimitsBroken { violation, reason: String::new() })]
        }
        Happening::DropsParams => vec![dropped(study_state, trial)],
    }
}

/// A trial has asked for all of its parameters but the last.
fn dropped(study_state: &StudyState, trial: TrialNumber) -> Event {
    let params = study_state.trial(trial).into_iter().flat_map(|trial| trial.params.iter());
    let names = params.map(|(name, _)| name.to_owned()).last().into_iter().collect();
    Event::of(trial, RecordEvent::ParamsDropped { names })
}

fn stream(number: u64) -> StreamRng {
    SeedTree::new(5).stream(&format!("sampler/{number}"))
}

/// A configuration bit for bit, which equality of floats is not.
fn bits(point: &Params) -> Vec<(String, String)> {
    let bits = |value: &Value| match value {
        Value::Float(float) => format!("{:x}", float.to_bits()),
        other => other.to_string(),
    };
    point.iter().map(|(name, value)| (name.to_owned(), bits(value))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_sampler_that_followed_a_study_suggests_what_a_new_one_would(
        story in happenings(),
        which in 0..7_usize,
        every in 1..6_usize,
        maximize: bool,
        with_optunas_rules: bool,
    ) {
        let (_, space) = spaces().swap_remove(which);
        let direction = if maximize { Direction::Maximize } else { Direction::Minimize };
        let study = StudySpec::new("s", "loss", direction, space.clone(), Program::Inline);
        let spec =
            ENTRY.defaults().with("rules", if with_optunas_rules { "optuna" } else { "own" });
        let (follower, mut state) = (Tpe::new(&spec), StudyState::new(&study));
        for (turn, (about, happening)) in story.into_iter().enumerate() {
            events(&space, &state, about, happening)
                .iter()
                .for_each(|event| state.apply(Timestamp(0), event));
            if turn % every != 0 {
                continue;
            }
            // A study that diverges from here on must not be mistaken for this one.
            if turn % 20 == 19 {
                state = state.clone();
            }
            let number = TrialNumber(state.trials.len() as u64);
            let suggest = |sampler: &Tpe, history| {
                sampler
                    .suggest(
                        &Ask::new(&space, history, number, SeedTree::new(0)),
                        &mut stream(number.0),
                    )
                    .unwrap()
                    .unwrap()
                    .params
            };
            let followed = suggest(&follower, History::new(&state));
            let anew = suggest(&Tpe::new(&spec), History::of(&state.trials, direction));
            prop_assert_eq!(bits(&followed), bits(&anew));
        }
    }
}

#[test]
fn a_study_that_began_before_keeps_the_parameters_that_its_sampler_has_seen() {
    let space = spaces().swap_remove(2).1;
    let study = StudySpec::new("s", "loss", Direction::Minimize, space.clone(), Program::Inline);
    let suggested = |params_rule| {
        let mut state = StudyState::new(&StudySpec { params_rule, ..study.clone() });
        for number in 0..30 {
            state.apply(Timestamp(0), &created(&space, number));
            let value = Some(1.0 / (number + 1) as f64);
            let end = TrialEvent::finished(TrialState::Complete, value, None);
            state.apply(Timestamp(0), &Event::Trial(TrialNumber(number), end));
        }
        let sampler = Tpe::new(&ENTRY.defaults());
        let suggest = |state: &StudyState| {
            let history = History::new(state);
            let ask = Ask::new(&space, history, TrialNumber(30), SeedTree::new(0));
            bits(&sampler.suggest(&ask, &mut stream(30)).unwrap().unwrap().params)
        };
        let before = suggest(&state);
        for number in 10..30 {
            let event = dropped(&state, TrialNumber(number));
            state.apply(Timestamp(0), &event);
        }
        (before, suggest(&state))
    };
    let (before, after) = suggested(ParamsRule::FirstSeen);
    assert_eq!(before, after);
    let (before, after) = suggested(ParamsRule::Present);
    assert_ne!(before, after);
}

#[test]
fn a_sampler_that_followed_one_space_suggests_points_of_the_next() {
    let spaces = spaces();
    let (first, second) = (&spaces[2].1, &spaces[4].1);
    let spec = StudySpec::new("s", "loss", Direction::Minimize, first.clone(), Program::Inline);
    let mut study_state = StudyState::new(&spec);
    for number in 0..30 {
        study_state.apply(Timestamp(0), &created(first, number));
        let (trial, state, value) =
            (TrialNumber(number), TrialState::Complete, Some(1.0 / (number + 1) as f64));
        study_state
            .apply(Timestamp(0), &Event::Trial(trial, TrialEvent::finished(state, value, None)));
    }
    let sampler = Tpe::new(&ENTRY.defaults());
    for space in [first, second, first] {
        let ask = Ask::new(space, History::new(&study_state), TrialNumber(30), SeedTree::new(0));
        let suggest =
            |sampler: &Tpe| sampler.suggest(&ask, &mut stream(30)).unwrap().unwrap().params;
        let point = suggest(&sampler);
        assert_eq!(space.check(&point), Ok(()));
        assert_eq!(point, suggest(&Tpe::new(&ENTRY.defaults())));
    }
}
