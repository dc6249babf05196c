//! A study of two objectives on the screens.

use super::{
    SMALL, Script, Shown, Watched, attempt_started, created, params, reported, slot, spec,
};
use crate::app::several::StudySelection;
use crate::storage::memory::MemoryStore;
use crate::study::event::{AttemptEnd, AttemptEvent, Event, StateEvent, TrialEvent};
use crate::study::metric::Direction;
use crate::study::query::SortKey;
use crate::study::spec::{Objective, StudySpec};
use crate::study::trial::{AttemptNumber, TrialNumber, TrialState};

fn two_objectives() -> StudySpec {
    let mut spec = spec();
    spec.objectives.push(Objective {
        metric: "n_params".to_owned(),
        direction: Direction::Minimize,
        threshold: None,
    });
    spec
}

fn script() -> Script {
    let rows = [(0.184_213, 123_456.0), (0.26, 40_000.0), (0.3, 50_000.0), (0.15, f64::NAN)];
    script_of(&two_objectives(), &rows)
}

/// Complete trials with these values.
fn script_of(spec: &StudySpec, rows: &[(f64, f64)]) -> Script {
    script_within(MemoryStore::new(), spec, rows)
}

fn script_within(store: MemoryStore, spec: &StudySpec, rows: &[(f64, f64)]) -> Script {
    let mut script = Script::within(store, spec);
    for (number, (loss, size)) in (0..).zip(rows.iter().copied()) {
        let trial = TrialNumber(number);
        let metrics = [("eval_loss", loss), ("n_params", size)];
        let mut finished = TrialEvent::finished(TrialState::Complete, None, None);
        if let TrialEvent::State(StateEvent::Finished { values, .. }) = &mut finished {
            *values = vec![loss, size];
        }
        script.append(&[
            created(trial, params(1e-3, 2, "adamw")),
            attempt_started(trial, slot()),
            reported(trial, 1, &metrics),
            Event::of(
                trial,
                AttemptEvent::Ended {
                    attempt: AttemptNumber(0),
                    end: AttemptEnd::Completed,
                    reason: None,
                    device_micros: None,
                    memory: None,
                    superseded: Default::default(),
                },
            ),
            Event::Trial(trial, finished),
        ]);
    }
    script
}

/// Also where the name of the metric leaves no room, and beside parameters.
#[test]
fn values_are_whole_and_the_first_objective_of_the_charts_is_named() {
    let mut shown = Shown::new(script(), (100, 30));
    let frame = shown.frame();
    for values in [["0.26", "40000"], ["0.18421", "123456"], ["0.3", "50000"]] {
        let has_all = |line: &str| values.iter().all(|value| line.contains(value));
        assert!(frame.lines().any(has_all), "{frame}");
    }
    let mut shown = shown.press("4");
    let frame = shown.frame();
    assert!(frame.contains("eval_loss (the first of 2 objectives)"), "{frame}");
}

#[test]
fn the_front_is_marked_and_both_values_fit_a_narrow_screen() {
    let mut shown = Shown::new(script(), SMALL);
    let frame = shown.frame();
    let rows: Vec<Vec<&str>> = frame
        .lines()
        .filter(|line| line.contains(" complete  ") && !line.contains("queued"))
        .map(|line| line.trim_matches(['"', '▸', ' ']).split_whitespace().collect())
        .collect();
    let begin: Vec<&[&str]> = rows.iter().map(|row| &row[..5]).collect();
    assert_eq!(
        begin,
        [
            &["1*", "1", "complete", "0.26", "40000"],
            &["2*", "0", "complete", "0.18421", "123456"],
            &["3", "2", "complete", "0.3", "50000"],
            &["3", "complete", "0.15", "NaN", "1"],
        ],
        "{frame}"
    );
}

/// Sorted by a metric, trials have no place, and the front is marked all the same.
#[test]
fn each_objective_has_a_column_and_the_front_is_marked_in_every_order() {
    for size in [SMALL, (60, 20), (160, 50)] {
        let mut shown = Shown::new(script(), size);
        shown.state.sort = SortKey::Metric("n_params".to_owned());
        let mut shown = shown.press("r");
        let frame = shown.frame();
        let titles = frame.lines().find(|line| line.contains("state  ")).unwrap_or_default();
        for title in ["front", "eval_loss", "n_params"] {
            assert_eq!(titles.matches(title).count(), 1, "{title}: {frame}");
        }
        let marked = frame
            .lines()
            .filter(|line| line.contains(" complete  "))
            .filter(|line| line.trim_matches(['"', '▸', ' ']).starts_with('*'));
        assert_eq!(marked.count(), 2, "{frame}");
    }
}

/// Also in the table of several studies.
#[test]
fn studies_of_the_same_objectives_have_a_column_for_each() {
    let first = script();
    let mut other = two_objectives();
    other.name = "other".to_owned();
    let second = script_within(first.store.clone(), &other, &[(0.125, 7_000.0)]);
    for size in [SMALL, (160, 50)] {
        let all = Watched::Several(StudySelection::All);
        let frame = Shown::watching(all, second.clone(), size).frame();
        let titles = frame.lines().find(|line| line.contains("state  ")).unwrap_or_default();
        for title in ["eval_loss", "n_params"] {
            assert_eq!(titles.matches(title).count(), 1, "{title}: {frame}");
        }
        let has =
            |line: &str| ["1*", " 0.125 ", " 7000 "].into_iter().all(|text| line.contains(text));
        assert!(frame.lines().any(has) && !frame.contains("of several metrics"), "{frame}");
    }
    // Of different ones the column has the values of all, in the order of `metric`.
    let mut alone = spec();
    alone.name = "alone".to_owned();
    let mut third = Script::within(second.store.clone(), &alone);
    third.start(0, params(1e-3, 2, "adamw"));
    third.report(0, &[0.75]);
    let all = Watched::Several(StudySelection::All);
    let frame = Shown::watching(all, third, (160, 50)).frame();
    let titles = frame.lines().find(|line| line.contains("state  ")).unwrap_or_default();
    assert!(titles.contains(" values ") && titles.contains(" metric "), "{frame}");
    let has = |line: &str| line.contains("0.125, 7000") && line.contains("eval_loss, n_");
    assert!(frame.lines().any(has), "{frame}");
}

#[test]
fn why_a_goal_is_not_in_force_is_whole_on_a_narrow_screen() {
    let mut spec = two_objectives();
    for objective in &mut spec.objectives {
        objective.threshold = Some(1e6);
    }
    (spec.budget.target, spec.budget.patience) = (Some(1e9), Some(5));
    let mut shown = Shown::new(script_of(&spec, &[(f64::NEG_INFINITY, 4e4)]), SMALL);
    let words = |frame: &str| -> String {
        let lines = frame.lines().map(|line| line.trim_matches(['"', ' ']));
        lines.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let why = "budget.target is not in force: the front's hypervolume is infinite, because \
        `eval_loss` of trial 0 is -inf; `hpsearch rm` hides such a trial";
    let frame = words(&shown.frame());
    assert!(frame.contains(why) && frame.contains("complete"), "{frame}");
    let mut shown = shown.press("4");
    assert!(words(&shown.frame()).contains(why));
    let mut shown = shown.press("6");
    assert!(!shown.frame().contains("in force"));
    // Without a front, neither is.
    let mut shown = Shown::new(script_of(&spec, &[(0.5, f64::NAN)]), SMALL);
    let none = "budget.target and budget.patience are not in force yet: none of 1 complete trial";
    assert!(words(&shown.frame()).contains(none));
    spec.budget.target = None;
    let mut shown = Shown::new(script_of(&spec, &[(f64::NEG_INFINITY, 4e4)]), SMALL);
    assert!(!shown.frame().contains("in force"), "patience is counted");
}
