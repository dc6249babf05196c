//! The views of the search as they look, over scripted studies in memory.

use std::time::Duration;

use super::*;
use crate::report::sparkline::Charset;
use crate::storage::memory::MemoryStore;
use crate::storage::{Lease, Storage, Takeover};
use crate::study::decision::{Decision, Reason};
use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEnd, Event, TrialEvent};
use crate::study::params::{Params, Value};
use crate::study::space::{Condition, Distribution, Space};
use crate::study::spec::{AlgorithmSpec, Program};
use crate::study::trial::{AttemptNumber, Origin};
use crate::tui::look::Palette;
use crate::tui::tests::{attempt_started, dimension, ended, holder, processor_time};

pub(crate) const COLOURS: Look = Look { charset: Charset::Unicode, palette: Palette::Colours };
pub(crate) const PLAIN: Look = Look { charset: Charset::Ascii, palette: Palette::Monochrome };

/// A study whose trials run one after the other.
pub(crate) struct Script {
    pub(crate) store: MemoryStore,
    pub(crate) study: StudyId,
    lease: Lease,
    clock: i64,
    next: u64,
    /// What was reported at each rung so far.
    rungs: [Vec<f64>; 2],
}

const RUNGS: [u64; 2] = [1, 3];

pub(crate) fn spec() -> StudySpec {
    let mut momentum =
        dimension("momentum", Distribution::float(0.5, 0.99, Scale::Linear, None).unwrap());
    momentum.when = Some(Condition(vec![("optim".into(), vec!["sgd".into()])]));
    let space = Space::new(vec![
        dimension("learning_rate", Distribution::float(1e-5, 1e-1, Scale::Log, None).unwrap()),
        dimension("model.num_layers", Distribution::int(1, 6, Scale::Linear, 1).unwrap()),
        dimension(
            "optim",
            Distribution::choice(vec![
                "adamw".into(),
                "sgd".into(),
                "とても長い名前の最適化手法".into(),
            ])
            .unwrap(),
        ),
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
    let optim = ["adamw", "sgd", "とても長い名前の最適化手法"]
        [usize::from(chance(number, 2) > 0.4) + usize::from(chance(number, 2) > 0.8)];
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

impl Script {
    pub(crate) fn new(spec: &StudySpec) -> Self {
        let mut store = MemoryStore::new();
        let study = store.create_study(Timestamp(0), spec).unwrap();
        let lease = store.acquire(study, &holder(), Timestamp(0), Takeover::IfFree).unwrap();
        Script {
            store,
            study,
            lease,
            clock: 1_764_000_000_000_000,
            next: 0,
            rungs: [Vec::new(), Vec::new()],
        }
    }

    /// So many more trials, of nine steps at most, pruned as successive halving does.
    pub(crate) fn run(mut self, trials: u64) -> Self {
        for _ in 0..trials {
            let events = self.one();
            self.clock += 20_000_000;
            self.store.append(&self.lease, Timestamp(self.clock), &events).unwrap();
        }
        self
    }

    fn one(&mut self) -> Vec<Event> {
        let (trial, attempt) = (TrialNumber(self.next), AttemptNumber(0));
        self.next += 1;
        let slot = Slot { index: 0, device: Device::Cpu };
        let mut events = vec![
            Event::Trial(
                trial,
                TrialEvent::Created {
                    params: params(trial.0),
                    origin: Origin::Sampled("random".into()),
                },
            ),
            attempt_started(trial, slot),
        ];
        let mut end = (AttemptEnd::Completed, TrialState::Complete, Some(loss(trial.0, 9)), None);
        for step in 1..=9 {
            let value = if trial.0 == 5 && step > 4 { f64::NAN } else { loss(trial.0, step) };
            events.push(Event::Trial(
                trial,
                TrialEvent::Reported {
                    attempt,
                    step,
                    metrics: [("eval_loss".to_owned(), value)].into_iter().collect(),
                },
            ));
            let Some(rung) = RUNGS.iter().position(|rung| *rung == step) else { continue };
            self.rungs[rung].push(value);
            let rank = self.rungs[rung].iter().filter(|other| **other < value).count();
            let reason = Reason::Recorded(format!(
                "rank {} of {} at step {step}",
                rank + 1,
                self.rungs[rung].len()
            ));
            let stops = rank >= (self.rungs[rung].len() / 3).max(1) && self.rungs[rung].len() > 2;
            let verdict = if stops {
                Decision::Stop(reason.clone())
            } else {
                Decision::Continue(Some(reason.clone()))
            };
            events.push(Event::Trial(trial, TrialEvent::Decided { step, verdict }));
            if stops {
                end = (AttemptEnd::Stopped, TrialState::Pruned, None, Some(reason.to_string()));
                break;
            }
        }
        let (end, state, value, reason) = end;
        events.extend(ended(trial, end, state, value, reason));
        events
    }

    fn data(&self) -> SearchData {
        SearchData::load(&self.store, self.study).unwrap()
    }
}

pub(crate) fn drawn((width, height): (u16, u16), draw: impl Fn(&mut Buffer, Rect)) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(&mut buffer, area);
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height)
        .map(|y| row(y).trim_end().to_owned() + "\n")
        .collect::<String>()
        .trim_end()
        .to_owned()
        + "\n"
}

fn view(data: &SearchData, view: SearchView, size: (u16, u16), look: Look) -> String {
    drawn(size, |buffer, area| draw(buffer, area, data, view, 0, look))
}

fn of_sixty(shown: SearchView, size: (u16, u16), look: Look) -> String {
    view(&Script::new(&spec()).run(60).data(), shown, size, look)
}

#[test]
fn the_history_on_a_small_terminal() {
    insta::assert_snapshot!(of_sixty(SearchView::History, (80, 18), COLOURS));
}

#[test]
fn the_history_on_a_wide_terminal() {
    insta::assert_snapshot!(of_sixty(SearchView::History, (200, 50), COLOURS));
}

#[test]
fn the_history_in_ascii() {
    insta::assert_snapshot!(of_sixty(SearchView::History, (120, 34), PLAIN));
}

#[test]
fn slices_on_a_small_terminal() {
    insta::assert_snapshot!(of_sixty(SearchView::Slices, (80, 18), COLOURS));
}

#[test]
fn slices_on_a_larger_terminal_the_most_important_first() {
    let mut data = Script::new(&spec()).run(60).data();
    data.importances = vec![("optim".into(), 0.62), ("learning_rate".into(), 0.3)];
    insta::assert_snapshot!(view(&data, SearchView::Slices, (120, 34), COLOURS));
}

#[test]
fn shares_of_importance_and_rungs_at_the_sizes_of_terminals() {
    let mut data = Script::new(&spec()).run(60).data();
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
fn rungs_with_their_cut_off() {
    insta::assert_snapshot!(of_sixty(SearchView::Rungs, (80, 10), COLOURS));
}

#[test]
fn rungs_in_ascii() {
    insta::assert_snapshot!(of_sixty(SearchView::Rungs, (60, 10), PLAIN));
}

#[test]
fn the_cut_off_is_the_value_of_the_last_trial_that_goes_on() {
    let script = Script::new(&spec()).run(60);
    let rungs = rungs::rungs(&script.data());
    let drawn = view(&script.data(), SearchView::Rungs, (120, 10), COLOURS);
    let mut first = script.rungs[0].clone();
    first.sort_by(f64::total_cmp);
    assert!(drawn.contains(&crate::report::wording::number(first[60 / 3 - 1])), "{drawn}");
    assert_eq!(rungs.len(), 2, "those that were reached");
}

#[test]
fn an_empty_study_and_one_trial_are_drawn() {
    let empty = Script::new(&spec());
    for (name, script) in [("empty", &empty), ("one", &Script::new(&spec()).run(1))] {
        let frames = SearchView::ALL.map(|shown| view(&script.data(), shown, (80, 14), COLOURS));
        insta::assert_snapshot!(name, frames.join("------\n"));
    }
}

#[test]
fn what_is_read_later_gives_the_same_as_reading_all() {
    let script = Script::new(&spec()).run(10);
    let mut data = script.data();
    assert!(!data.refresh(&script.store, script.study).unwrap());
    let script = script.run(100);
    assert!(data.refresh(&script.store, script.study).unwrap());
    assert!(data.is_complete());
    for shown in SearchView::ALL {
        assert_eq!(
            view(&data, shown, (120, 40), COLOURS),
            view(&script.data(), shown, (120, 40), COLOURS)
        );
    }
}

#[test]
fn no_size_makes_drawing_panic() {
    let data = Script::new(&spec()).run(12).data();
    for width in (0..64).chain([120, 200]) {
        for height in (0..20).chain([40]) {
            for shown in SearchView::ALL {
                view(&data, shown, (width, height), COLOURS);
            }
        }
    }
}

#[test]
fn a_hundred_thousand_outcomes_are_drawn_in_time() {
    let mut data = Script::new(&spec()).run(40).data();
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
