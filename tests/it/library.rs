//! Studies with a Rust closure as their objective.

use hpsearch::engine::Outcome;
use hpsearch::study::PolicySpec;
use hpsearch::trial::TrialState;
use hpsearch::{GoOn, Study, TrialEnd, TrialError};

fn parabola(study: Study) -> Study {
    study.float("x", -5.0, 5.0).choice("kind", ["round", "flat"]).float("tilt", 0.0, 1.0).when("kind", "flat")
}

#[test]
fn a_closure_is_searched_and_its_best_trial_found() {
    let finished = parabola(Study::minimize("parabola", "loss"))
        .trials(60)
        .threads(2)
        .run(|trial| {
            let x = trial.number_of("x")?;
            let tilt = trial.number_of("tilt").unwrap_or(0.0);
            trial.report(1, (x - 1.0).powi(2) + tilt);
            Ok(TrialEnd::Finished)
        })
        .unwrap();
    assert!(matches!(finished.outcome, Outcome::Finished(_)));
    assert_eq!(finished.view.counts.complete, 60);
    assert!(finished.best().unwrap().value.unwrap() < 0.5);
}

#[test]
fn a_pruned_closure_is_told_to_leave() {
    let pruner = PolicySpec::named("asha").with("min_resource", 1).with("max_resource", 9);
    let finished = parabola(Study::minimize("pruned", "loss"))
        .trials(20)
        .pruner(pruner)
        .run(|trial| {
            let x = trial.number_of("x")?;
            for step in 1..=9 {
                if trial.report(step, (x - 1.0).powi(2) + 1.0 / step as f64) == GoOn::No {
                    return Ok(TrialEnd::Left);
                }
            }
            Ok(TrialEnd::Finished)
        })
        .unwrap();
    assert!(finished.view.counts.pruned > 5, "{:?}", finished.view.counts);
    assert_eq!(finished.view.counts.complete + finished.view.counts.pruned, 20);
}

#[test]
fn errors_and_panics_fail_the_trial_and_nothing_else() {
    let mut study = parabola(Study::maximize("failing", "score")).trials(6);
    study.spec.budget.count = hpsearch::study::Count::All;
    let finished = study
        .run(|trial| match trial.number().0 {
            0 => Err(TrialError("no luck".into())),
            1 => panic!("out of cheese"),
            2 => Ok(TrialEnd::Finished),
            _ => {
                trial.report(1, 1.0);
                Ok(TrialEnd::Finished)
            }
        })
        .unwrap();
    let reasons: Vec<String> = finished.view.trials[..3].iter().map(|trial| trial.reason.clone().unwrap()).collect();
    assert_eq!(reasons[0], "no luck");
    assert!(reasons[1].contains("out of cheese"));
    assert!(reasons[2].contains("reported no value"));
    assert!(finished.view.trials[3..].iter().all(|trial| trial.state == TrialState::Complete));
}

#[test]
fn a_stored_study_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("studies.db");
    let run = |trials| {
        let study = parabola(Study::minimize("stored", "loss")).trials(trials).store(&path);
        let finished = study.run(|trial| {
            let x = trial.number_of("x")?;
            trial.report(1, x * x);
            Ok(TrialEnd::Finished)
        });
        finished.unwrap().view
    };
    let first = run(5);
    let second = run(8);
    assert_eq!(second.trials.len(), 8);
    assert_eq!(second.trials[..5], first.trials[..]);
}

#[test]
fn a_changed_study_and_an_impossible_range_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("studies.db");
    let objective = |trial: &mut hpsearch::TrialContext| {
        trial.report(1, 1.0);
        Ok(TrialEnd::Finished)
    };
    parabola(Study::minimize("same", "loss")).trials(2).store(&path).run(objective).unwrap();
    let changed = Study::minimize("same", "loss").float("x", 0.0, 1.0).trials(2).store(&path).run(objective);
    assert!(changed.unwrap_err().to_string().contains("differs"));
    let impossible = Study::minimize("impossible", "loss").float("x", 1.0, 0.0).trials(2).run(objective);
    assert!(impossible.is_err());
}
