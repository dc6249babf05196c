//! The views of the search as they look, over scripted studies in memory.

use std::time::Duration;

use super::*;
use crate::study::decision::{Decision, Reason};
use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEnd, AttemptEvent, DecisionEvent, Event, StateEvent};
use crate::study::params::{Params, Value};
use crate::study::program::Program;
use crate::study::space::{Condition, Distribution, Scale, Space};
use crate::study::spec::AlgorithmSpec;
use crate::study::trial::AttemptNumber;
use crate::tui::tests::{
    COLOURS, PLAIN, Script, at_every_size, attempt_started, created, dimension, drawn, ended,
    processor_time, reported,
};

/// A study whose trials run one after the other, of nine steps at most, pruned as successive
/// halving does.
pub(crate) struct Halving {
    pub(crate) script: Script,
    next: u64,
    /// What was reported at each rung so far.
    rungs: [Vec<f64>; 2],
}

const RUNGS: [u64; 2] = [1, 3];
const OPTIMIZERS: [&str; 3] = ["adamw", "sgd", "とても長い名前の最適化手法"];

fn spec() -> StudySpec {
    let mut momentum =
        dimension("momentum", Distribution::float(0.5, 0.99, Scale::Linear, None).unwrap());
    momentum.when = Some(Condition(vec![("optim".into(), vec!["sgd".into()])]));
    let space = Space::new(vec![
        dimension("learning_rate", Distribution::float(1e-5, 1e-1, Scale::Log, None).unwrap()),
        dimension("model.num_layers", Distribution::int(1, 6, Scale::Linear, 1).unwrap()),
        dimension("optim", Distribution::choice(OPTIMIZERS.map(Value::from).to_vec()).unwrap()),
        momentum,
        dimension("ドロップアウト", Distribution::float(0.0, 0.5, Scale::Linear, None).unwrap()),
    ]);
    let mut spec =
        StudySpec::new("digits", "eval_loss", Direction::Minimize, space.unwrap(), Program::Inline);
    spec.pruner = AlgorithmSpec::named("asha").with("reduction_factor", 3);
    spec
}

/// Numbers that look like chance and are the same every time.
fn chance(number: u64, which: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let spot = (number + 1) as f64 * [2.0, 3.0, 5.0, 7.0, 11.0, 13.0_f64][which].sqrt();
    spot.fract()
}

fn params(number: u64) -> Params {
    let optim =
        OPTIMIZERS[usize::from(chance(number, 2) > 0.4) + usize::from(chance(number, 2) > 0.8)];
    let mut params = Params::new();
    params.insert("learning_rate", 10_f64.powf(-5.0 + 4.0 * chance(number, 0)));
    #[expect(clippy::cast_possible_truncation, reason = "a small number")]
    params.insert("model.num_layers", Value::Int(1 + (6.0 * chance(number, 1)) as i64));
    params.insert("optim", optim);
    if optim == "sgd" {
        params.insert("momentum", 0.5 + 0.49 * chance(number, 3));
    }
    params.insert("ドロップアウト", 0.5 * chance(number, 4));
    params
}

fn loss(number: u64, step: u64) -> f64 {
    let rate = params(number).get("learning_rate").and_then(Value::as_number).unwrap().log10();
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let falling = (-0.4 * step as f64).exp();
    0.2 + 0.15 * (rate + 3.0).powi(2) + 0.1 * chance(number, 5) + 1.5 * falling
}

impl Halving {
    pub(crate) fn of(trials: u64) -> Self {
        let halving = Halving { script: Script::new(&spec()), next: 0, rungs: Default::default() };
        halving.run(trials)
    }

    /// So many more trials.
    fn run(mut self, trials: u64) -> Self {
        for _ in 0..trials {
            let events = self.one();
            self.script.clock += 19;
            self.script.append(&events);
        }
        self
    }

    fn one(&mut self) -> Vec<Event> {
        let trial = TrialNumber(self.next);
        self.next += 1;
        let slot = Slot::on(0, Device::Cpu);
        let mut events = vec![created(trial, params(trial.0)), attempt_started(trial, slot)];
        for step in 1..=9 {
            let value = if trial.0 == 5 && step > 4 { f64::NAN } else { loss(trial.0, step) };
            events.push(reported(trial, step, &[("eval_loss", value)]));
            let Some(rung) = RUNGS.iter().position(|rung| *rung == step) else { continue };
            let rung = &mut self.rungs[rung];
            rung.push(value);
            let rank = rung.iter().filter(|other| **other < value).count();
            let said = format!("rank {} of {} at step {step}", rank + 1, rung.len());
            let reason = Reason::Recorded(said.clone());
            if rank >= (rung.len() / 3).max(1) && rung.len() > 2 {
                events.push(Event::of(
                    trial,
                    DecisionEvent::Decided { step, verdict: Decision::Stop(reason) },
                ));
                events.extend(ended(trial, AttemptEnd::Stopped, None, Some(&said)));
                return events;
            }
            let verdict = Decision::Continue(Some(reason));
            events.push(Event::of(trial, DecisionEvent::Decided { step, verdict }));
        }
        events.extend(ended(trial, AttemptEnd::Completed, Some(loss(trial.0, 9)), None));
        events
    }

    fn data(&self) -> SearchData {
        SearchData::load(&self.script.store, &self.script.summary()).unwrap()
    }
}

fn view(data: &SearchData, view: SearchView, size: (u16, u16), theme: Theme) -> String {
    drawn(size, |buffer, area| draw(buffer, area, data, view, 0, theme))
}

#[test]
fn every_view_on_terminals_of_several_kinds() {
    let mut data = Halving::of(60).data();
    for (name, shown, size, theme) in [
        ("the_history_on_a_small_terminal", SearchView::History, (80, 18), COLOURS),
        ("the_history_on_a_wide_terminal", SearchView::History, (200, 50), COLOURS),
        ("the_history_in_ascii", SearchView::History, (120, 34), PLAIN),
        ("slices_on_a_small_terminal", SearchView::Slices, (80, 18), COLOURS),
        ("rungs_with_their_cut_off", SearchView::Rungs, (80, 10), COLOURS),
        ("rungs_in_ascii", SearchView::Rungs, (60, 10), PLAIN),
    ] {
        insta::assert_snapshot!(name, view(&data, shown, size, theme));
    }
    data.importances = vec![("optim".into(), 0.62), ("learning_rate".into(), 0.3)];
    let name = "slices_on_a_larger_terminal_the_most_important_first";
    insta::assert_snapshot!(name, view(&data, SearchView::Slices, (120, 34), COLOURS));
}

#[test]
fn shares_of_importance_and_rungs_at_the_sizes_of_terminals() {
    let mut data = Halving::of(60).data();
    data.importances =
        vec![("optim".into(), 0.62), ("learning_rate".into(), 0.3), ("momentum".into(), 0.004)];
    for size in [(80, 24), (120, 40), (200, 60)] {
        for (name, shown) in [("shares", SearchView::Slices), ("rungs", SearchView::Rungs)] {
            insta::assert_snapshot!(
                format!("{name}_{}x{}", size.0, size.1),
                view(&data, shown, size, COLOURS)
            );
        }
    }
}

#[test]
fn the_cut_off_is_the_value_of_the_last_trial_that_goes_on() {
    let script = Halving::of(60);
    let rungs = rungs::rungs(&script.data());
    let drawn = view(&script.data(), SearchView::Rungs, (120, 10), COLOURS);
    let mut first = script.rungs[0].clone();
    first.sort_by(f64::total_cmp);
    assert!(drawn.contains(&crate::report::wording::number(first[60 / 3 - 1])), "{drawn}");
    assert_eq!(rungs.len(), 2, "those that were reached");
}

#[test]
fn an_empty_study_and_one_trial_are_drawn() {
    for (name, trials) in [("empty", 0), ("one", 1)] {
        let data = Halving::of(trials).data();
        let frames = SearchView::ALL
            .map(|shown| view(&data, shown, (80, 14), COLOURS).trim_end().to_owned() + "\n");
        insta::assert_snapshot!(name, frames.join("------\n"));
    }
}

#[test]
fn what_is_read_later_gives_the_same_as_reading_all() {
    let halving = Halving::of(10);
    let mut data = halving.data();
    assert!(!data.refresh(&halving.script.store, &halving.script.summary()).unwrap());
    let halving = halving.run(100);
    assert!(data.refresh(&halving.script.store, &halving.script.summary()).unwrap());
    assert!(data.is_complete());
    for shown in SearchView::ALL {
        assert_eq!(
            view(&data, shown, (120, 40), COLOURS),
            view(&halving.data(), shown, (120, 40), COLOURS)
        );
    }
}

/// A study that pauses its trials after three steps, and lets each third one run to its end.
fn pausing(trials: u64) -> SearchData {
    let mut spec = spec();
    spec.pruner = AlgorithmSpec::named("asha").with("mode", "promote").with("max_resource", 9);
    let mut script = Script::new(&spec);
    for trial in (0..trials).map(TrialNumber) {
        let slot = Slot::on(0, Device::Cpu);
        let mut events = vec![created(trial, params(trial.0)), attempt_started(trial, slot)];
        let last = if trial.0 % 3 == 0 { 9 } else { 3 };
        for step in 1..=last {
            events.push(reported(trial, step, &[("eval_loss", loss(trial.0, step))]));
        }
        if last == 9 {
            events.extend(ended(trial, AttemptEnd::Completed, Some(loss(trial.0, 9)), None));
        } else {
            events.push(Event::of(
                trial,
                AttemptEvent::Ended {
                    attempt: AttemptNumber(0),
                    end: AttemptEnd::Paused,
                    reason: None,
                    device_micros: None,
                    memory: None,
                    superseded: Default::default(),
                },
            ));
            let reason = "waits".to_owned();
            events.push(Event::of(trial, StateEvent::Paused { reason, hold: None }));
        }
        script.clock += 19;
        script.append(&events);
    }
    let mut data = SearchData::load(&script.store, &script.summary()).unwrap();
    data.read_paused(&script.store, script.study).unwrap();
    data
}

#[test]
fn trials_that_wait_are_in_the_order_of_their_predicted_ends() {
    let data = pausing(18);
    insta::assert_snapshot!("paused", view(&data, SearchView::Paused, (100, 16), COLOURS));
    insta::assert_snapshot!("paused_in_ascii", view(&data, SearchView::Paused, (60, 8), PLAIN));
    // Too few have reported for predictions.
    let few = view(&pausing(3), SearchView::Paused, (80, 8), COLOURS);
    insta::assert_snapshot!("paused_few", few);
}

#[test]
fn no_size_makes_drawing_panic() {
    let data = pausing(18);
    for shown in SearchView::ALL {
        at_every_size((0..64).chain([120, 200]), (0..20).chain([40]), |buffer, area| {
            draw(buffer, area, &data, shown, 0, COLOURS)
        });
    }
}

#[test]
fn a_hundred_thousand_outcomes_are_drawn_in_time() {
    let mut data = Halving::of(40).data();
    let (dots, count) = (data.dots.clone(), 100_000);
    data.dots = (0..count).map(|index| dots[index % dots.len()]).collect();
    for places in &mut data.places {
        *places = (0..count).map(|index| places[index % dots.len()]).collect();
    }
    data.summarise();
    for shown in [SearchView::History, SearchView::Slices] {
        let times = (0..5).map(|_| {
            let began = processor_time();
            view(&data, shown, (200, 60), COLOURS);
            processor_time() - began
        });
        let fastest = times.min().unwrap();
        // Without optimisation; with it a frame takes a few milliseconds.
        assert!(fastest < Duration::from_millis(500), "{shown:?} took {fastest:?}");
        println!("{shown:?}: {fastest:?}");
    }
}
