//! Compared trials as they look.

use super::*;
use crate::study::trial::TrialState;
use crate::tui::search::tests::Halving;
use crate::tui::tests::{COLOURS, PLAIN, at_every_size, drawn};

fn data(trials: u64, marked: &[u64]) -> CompareData {
    let Halving { script, .. } = Halving::of(trials);
    let study = script.study;
    let key = |number: &u64| TrialKey { study, number: TrialNumber(*number) };
    let marked: Vec<TrialKey> = marked.iter().map(key).collect();
    CompareData::load(&script.store, &marked, None, Timestamp(0)).unwrap()
}

fn compared(marked: &[u64], size: (u16, u16), theme: Theme) -> String {
    let data = data(40, marked);
    drawn(size, |buffer, area| draw(buffer, area, &data, 0, theme))
}

#[test]
fn trials_on_terminals_of_several_kinds() {
    for (name, marked, size, theme) in [
        ("two_trials_on_a_small_terminal", &[0, 4][..], (80, 20), COLOURS),
        ("four_trials_on_a_larger_terminal", &[0, 1, 4, 12], (120, 36), COLOURS),
        ("three_trials_on_a_wide_terminal", &[0, 1, 12], (200, 30), COLOURS),
        ("two_trials_in_ascii", &[0, 4], (80, 24), PLAIN),
    ] {
        insta::assert_snapshot!(name, compared(marked, size, theme));
    }
}

#[test]
fn nothing_to_compare_says_what_to_do() {
    assert!(compared(&[], (80, 8), COLOURS).contains("no trial is marked"));
}

#[test]
fn the_time_of_a_running_trial_includes_its_attempt() {
    let mut data = data(40, &[4]);
    let trial = &mut data.trials[0].1;
    trial.state = TrialState::Running;
    (trial.started, trial.attempts, trial.busy_micros) = (Some(Timestamp(0)), 2, 60_000_000);
    data.at = Timestamp(65_000_000);
    let time = rows(&data).into_iter().find(|row| row.name == "time").unwrap();
    assert_eq!(time.cells, ["2 min 05 s"]);
}

#[test]
fn marks_of_trials_that_are_not_there_are_skipped() {
    assert!(compared(&[0, 4_000], (80, 20), COLOURS).contains("trial 0"));
}

#[test]
fn no_size_makes_drawing_panic() {
    let data = data(8, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for scroll in [0, 3, 900] {
        at_every_size((0..100).chain([160, 250]), (0..24).chain([50]), |buffer, area| {
            draw(buffer, area, &data, scroll, COLOURS);
        });
    }
}
