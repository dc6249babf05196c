//! Compared trials as they look.

use super::*;
use crate::tui::search::tests::{COLOURS, PLAIN, Script, drawn, spec};

fn compared(marked: &[u64], size: (u16, u16), look: Look) -> String {
    let script = Script::new(&spec()).run(40);
    let marked: Vec<TrialNumber> = marked.iter().copied().map(TrialNumber).collect();
    let data = CompareData::load(&script.store, script.study, &marked, None).unwrap();
    drawn(size, |buffer, area| draw(buffer, area, &data, 0, look))
}

#[test]
fn two_trials_on_a_small_terminal() {
    insta::assert_snapshot!(compared(&[0, 4], (80, 20), COLOURS));
}

#[test]
fn four_trials_on_a_larger_terminal() {
    insta::assert_snapshot!(compared(&[0, 1, 4, 12], (120, 36), COLOURS));
}

#[test]
fn three_trials_on_a_wide_terminal() {
    insta::assert_snapshot!(compared(&[0, 1, 12], (200, 30), COLOURS));
}

#[test]
fn two_trials_in_ascii() {
    insta::assert_snapshot!(compared(&[0, 4], (80, 24), PLAIN));
}

#[test]
fn nothing_to_compare_says_what_to_do() {
    assert!(compared(&[], (80, 8), COLOURS).contains("no trial is marked"));
}

#[test]
fn marks_of_trials_that_are_not_there_are_passed_over() {
    assert!(compared(&[0, 4_000], (80, 20), COLOURS).contains("trial 0"));
}

#[test]
fn no_size_makes_drawing_panic() {
    let script = Script::new(&spec()).run(8);
    let marked: Vec<TrialNumber> = (0..8).map(TrialNumber).collect();
    let data = CompareData::load(&script.store, script.study, &marked, None).unwrap();
    for width in (0..100).chain([160, 250]) {
        for height in (0..24).chain([50]) {
            let scroll = [0, 3, 900][usize::from((width + height) % 3)];
            drawn((width, height), |buffer, area| draw(buffer, area, &data, scroll, COLOURS));
        }
    }
}
