//! A study of two objectives on the screens.

use super::{Script, Shown, attempt_started, created, params, reported, slot, spec};
use crate::study::event::{AttemptEnd, Event, TrialEvent};
use crate::study::metric::Direction;
use crate::study::spec::Objective;
use crate::study::trial::{AttemptNumber, TrialNumber, TrialState};

fn script() -> Script {
    let mut spec = spec();
    spec.objectives.push(Objective {
        metric: "n_params".to_owned(),
        direction: Direction::Minimize,
        threshold: None,
    });
    let mut script = Script::new(&spec);
    let rows = [(0.184_213, 123_456.0), (0.26, 40_000.0), (0.3, 50_000.0), (0.15, f64::NAN)];
    for (number, (loss, size)) in (0..).zip(rows) {
        let trial = TrialNumber(number);
        let metrics = [("eval_loss", loss), ("n_params", size)];
        let mut finished = TrialEvent::finished(TrialState::Complete, None, None);
        if let TrialEvent::Finished { values, .. } = &mut finished {
            *values = vec![loss, size];
        }
        script.append(&[
            created(trial, params(1e-3, 2, "adamw")),
            attempt_started(trial, slot()),
            reported(trial, 1, &metrics),
            Event::Trial(
                trial,
                TrialEvent::AttemptEnded {
                    attempt: AttemptNumber(0),
                    end: AttemptEnd::Completed,
                    reason: None,
                    device_micros: None,
                    memory: None,
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
    for values in ["0.26, 40000", "0.1842, 123456", "0.3, 50000"] {
        assert!(frame.contains(values), "{frame}");
    }
    let mut shown = shown.press("4");
    let frame = shown.frame();
    assert!(frame.contains("eval_loss (the first of 2 objectives)"), "{frame}");
}

#[test]
fn the_front_is_marked_and_both_values_fit_a_narrow_screen() {
    let mut shown = Shown::new(script(), super::SMALL);
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
            &["1*", "1", "complete", "0.26,", "40000"],
            &["2*", "0", "complete", "0.1842,", "123456"],
            &["3", "2", "complete", "0.3,", "50000"],
            &["3", "complete", "0.15,", "NaN", "1"],
        ],
        "{frame}"
    );
}
