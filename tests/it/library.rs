//! Studies in Rust: with a closure as their objective, and with trials that the program runs
//! itself.

use std::os::unix::process::ExitStatusExt as _;

use hpsearch::engine::RunOutcome;
use hpsearch::study::metric::Direction;
use hpsearch::study::spec::AlgorithmSpec;
use hpsearch::study::trial::{Trial, TrialState};
use hpsearch::{Continue, Study, TellOutcome, TrialEnd, TrialError};

use crate::harness::assert_names;

fn parabola(study: Study) -> Study {
    study
        .float("x", -5.0, 5.0)
        .choice("kind", ["round", "flat"])
        .float("tilt", 0.0, 1.0)
        .when("kind", "flat")
}

fn loss(trial: &mut hpsearch::TrialContext) -> Result<TrialEnd, TrialError> {
    let x = trial.number_of("x")?;
    trial.report(1, (x - 1.0).powi(2));
    Ok(TrialEnd::Finished)
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
    assert!(matches!(finished.outcome, RunOutcome::Finished(_)));
    assert_eq!(finished.state.counts.complete, 60);
    assert!(finished.best().unwrap().value.unwrap() < 0.5);
}

#[test]
fn a_pruned_closure_is_told_to_leave() {
    let pruner = AlgorithmSpec::named("asha").with("min_resource", 1).with("max_resource", 9);
    let finished = parabola(Study::minimize("pruned", "loss"))
        .trials(20)
        .pruner(pruner)
        .run(|trial| {
            let x = trial.number_of("x")?;
            for step in 1..=9 {
                if trial.report(step, (x - 1.0).powi(2) + 1.0 / step as f64) == Continue::No {
                    return Ok(TrialEnd::Left);
                }
            }
            Ok(TrialEnd::Finished)
        })
        .unwrap();
    assert!(finished.state.counts.pruned > 5, "{:?}", finished.state.counts);
    assert_eq!(finished.state.counts.complete + finished.state.counts.pruned, 20);
}

#[test]
fn a_limit_that_prunes_ends_a_closure_at_its_first_report_beyond_it() {
    let finished = Study::minimize("limited", "loss")
        .float("x", 0.0, 1.0)
        .limit_that_prunes("size < 0.5")
        .trials(12)
        .run(|trial| {
            let x = trial.number_of("x")?;
            for step in 1..=3 {
                let metrics = [("loss".to_owned(), x), ("size".to_owned(), x)];
                if trial.report_metrics(step, metrics.into()) == Continue::No {
                    return Ok(TrialEnd::Left);
                }
            }
            Ok(TrialEnd::Finished)
        })
        .unwrap();
    let is_small =
        |trial: &&Trial| trial.params.get("x").and_then(|value| value.as_number()).unwrap() < 0.5;
    let (small, large): (Vec<&Trial>, Vec<&Trial>) =
        finished.state.trials.iter().partition(is_small);
    assert!(!small.is_empty() && !large.is_empty(), "{} are small", small.len());
    for (trials, end) in
        [(small, (TrialState::Complete, Some(3))), (large, (TrialState::Pruned, Some(1)))]
    {
        assert!(trials.iter().all(|trial| (trial.state, trial.last_step()) == end), "{trials:?}");
    }
}

/// A study of two objectives: a small error and a high speed.
fn tradeoff(name: &str) -> Study {
    Study::minimize(name, "error")
        .and("speed", Direction::Maximize)
        .float("x", 0.0, 1.0)
        .float("y", 0.0, 1.0)
}

/// The numbers of trials that no other one dominates.
fn undominated(trials: &[Trial]) -> Vec<u64> {
    let is_on = |own: &&Trial| {
        !trials.iter().any(|one| {
            one.values[0] <= own.values[0]
                && one.values[1] >= own.values[1]
                && one.values != own.values
        })
    };
    trials.iter().filter(is_on).map(|trial| trial.number.0).collect()
}

#[test]
fn a_closure_of_several_objectives_has_values_and_finds_their_front() {
    let finished = tradeoff("tradeoff")
        .trials(24)
        .threads(2)
        .run(|trial| {
            let (x, y) = (trial.number_of("x")?, trial.number_of("y")?);
            // Known once, and held until the end.
            trial.report_metrics(1, [("speed".to_owned(), x + y)].into());
            trial.report_metrics(2, [("error".to_owned(), x + 1.0)].into());
            trial.report_metrics(3, [("error".to_owned(), x)].into());
            Ok(TrialEnd::Finished)
        })
        .unwrap();
    let trials = &finished.state.trials;
    assert_eq!(finished.state.counts.complete, 24);
    for trial in trials {
        let of = |name| trial.params.get(name).and_then(|value| value.as_number()).unwrap();
        assert_eq!((trial.value, &trial.values), (None, &vec![of("x"), of("x") + of("y")]));
    }
    let front: Vec<u64> = finished.front().iter().map(|trial| trial.number.0).collect();
    assert_eq!(front, undominated(trials));
    assert!(front.len() > 1 && front.contains(&finished.best().unwrap().number.0), "{front:?}");
}

#[test]
fn a_closure_that_lacks_one_of_several_objectives_fails_and_is_told_which() {
    let mut study = tradeoff("lacking").trials(1);
    study.spec.budget.count = hpsearch::study::budget::Count::All;
    let finished = study
        .run(|trial| {
            // The first objective alone.
            trial.report(1, 0.5);
            Ok(TrialEnd::Finished)
        })
        .unwrap();
    let trial = &finished.state.trials[0];
    assert_eq!(trial.state, TrialState::Failed);
    assert_names(trial.reason.as_deref().unwrap(), &["no value of `speed`"]);
    assert!(finished.front().is_empty() && finished.best().is_none());
}

#[test]
fn a_program_tells_the_values_of_several_objectives_and_goes_on_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("studies.db");
    let run = |trials| {
        let study = tradeoff("told").trials(trials).store(&path).open().unwrap();
        while let Some(trial) = study.ask().unwrap() {
            let [x, y] = ["x", "y"].map(|name| trial.number_of(name).unwrap());
            study.tell(trial, TellOutcome::Values(vec![x, x + y])).unwrap();
        }
        study.finish().unwrap()
    };
    let first = run(5);
    let second = run(12);
    // The store has what the program saw, with its times.
    assert_eq!(second.state.trials[..5], first.state.trials[..]);
    let front: Vec<u64> = second.front().iter().map(|trial| trial.number.0).collect();
    assert_eq!((second.state.counts.complete, front), (12, undominated(&second.state.trials)));
    // One value is not enough, and another direction is another question.
    let study = tradeoff("one").trials(1).open().unwrap();
    let trial = study.ask().unwrap().unwrap();
    let refused = study.tell(trial, 0.5).unwrap_err().to_string();
    assert_names(&refused, &["trial 0 has 1 value of the study's 2 objectives"]);
    assert_eq!(study.ask().unwrap().unwrap().number().0, 0, "it runs again");
    let other = Study::minimize("told", "error").and("speed", Direction::Minimize);
    let other = other.float("x", 0.0, 1.0).float("y", 0.0, 1.0).trials(12).store(&path);
    assert_names(&other.open().err().unwrap().to_string(), &["differs"]);
}

#[test]
fn objectives_that_cannot_be_searched_together_are_refused() {
    let refused = |study: Study| study.open().err().map_or_else(String::new, |e| e.to_string());
    assert_names(&refused(tradeoff("same").and("error", Direction::Maximize)), &["`error`"]);
    let cmaes = tradeoff("sampler").sampler(AlgorithmSpec::named("cmaes")).trials(2);
    assert_names(&refused(cmaes), &["`cmaes`", "several objectives"]);
    let one_value = |change: fn(&mut Study)| {
        let mut study = tradeoff("one-value").trials(2);
        change(&mut study);
        refused(study)
    };
    assert_names(&one_value(|study| study.spec.race = 2), &["`spec.race`", "several objectives"]);
    assert_names(&one_value(|study| study.spec.replicates = 2), &["`spec.replicates`"]);
    let mut target = tradeoff("target").trials(2);
    target.spec.budget.target = Some(0.5);
    assert_names(&refused(target), &["`error`", "threshold"]);
}

#[test]
fn policies_are_stored_with_the_version_of_their_rules() {
    let study = Study::minimize("rules", "loss")
        .sampler(AlgorithmSpec::named("gp").with("n_startup_trials", 5))
        .pruner(AlgorithmSpec::named("asha"));
    assert_eq!(study.spec.sampler, crate::harness::sampler_named("gp").with("n_startup_trials", 5));
    assert_eq!(study.spec.pruner, crate::harness::pruner_named("asha"));
    assert!(study.spec.sampler.version > 1 && study.spec.pruner.version > 1);
}

#[test]
fn errors_and_panics_fail_the_trial_and_nothing_else() {
    let mut study = parabola(Study::maximize("failing", "score")).trials(6);
    study.spec.budget.count = hpsearch::study::budget::Count::All;
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
    let reasons: Vec<String> =
        finished.state.trials[..3].iter().map(|trial| trial.reason.clone().unwrap()).collect();
    assert_eq!(reasons[0], "no luck");
    assert!(reasons[1].contains("out of cheese"));
    assert!(reasons[2].contains("reported no value"));
    assert!(finished.state.trials[3..].iter().all(|trial| trial.state == TrialState::Complete));
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
        finished.unwrap().state
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
    let changed =
        Study::minimize("same", "loss").float("x", 0.0, 1.0).trials(2).store(&path).run(objective);
    assert!(changed.unwrap_err().to_string().contains("differs"));
    let impossible =
        Study::minimize("impossible", "loss").float("x", 1.0, 0.0).trials(2).run(objective);
    assert!(impossible.is_err());
}

#[test]
fn a_program_asks_reports_and_tells_itself() {
    let pruner = AlgorithmSpec::named("asha").with("min_resource", 1).with("max_resource", 9);
    let study =
        parabola(Study::maximize("asked", "score")).trials(30).pruner(pruner).open().unwrap();
    let mut told = Vec::new();
    'trials: while let Some(mut trial) = study.ask().unwrap() {
        let x = trial.number_of("x").unwrap();
        assert_eq!(
            trial.params().get("tilt").is_some(),
            trial.params().get("kind") == Some(&"flat".into())
        );
        for step in 1..=9 {
            if trial.report(step, -(x - 1.0).powi(2) - 1.0 / step as f64).unwrap() == Continue::No {
                assert_eq!(trial.verdict().unwrap().word(), "stop");
                continue 'trials;
            }
        }
        // The value told is the trial's, whatever it reported.
        told.push(-(x - 1.0).powi(2));
        study.tell(trial, told[told.len() - 1]).unwrap();
    }
    let best = told.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(study.best().unwrap().value, Some(best));
    let finished = study.finish().unwrap();
    assert!(matches!(finished.outcome, RunOutcome::Finished(_)), "{:?}", finished.outcome);
    assert_eq!(
        (
            finished.state.counts.complete,
            finished.state.counts.complete + finished.state.counts.pruned
        ),
        (told.len() as u64, 30)
    );
    assert!(finished.state.counts.pruned > 5, "{:?}", finished.state.counts);
}

#[test]
fn failed_pruned_and_nan_trials_are_told_as_what_they_are() {
    let study = parabola(Study::minimize("told", "loss")).trials(3).open().unwrap();
    study.tell(study.ask().unwrap().unwrap(), TellOutcome::Failed("no luck".into())).unwrap();
    study.tell(study.ask().unwrap().unwrap(), TellOutcome::Pruned).unwrap();
    study.tell(study.ask().unwrap().unwrap(), f64::NAN).unwrap();
    study.tell(study.ask().unwrap().unwrap(), 2.0).unwrap();
    assert!(study.ask().unwrap().is_none());
    let state = study.finish().unwrap().state;
    let states: Vec<TrialState> = state.trials.iter().map(|trial| trial.state).collect();
    assert_eq!(
        states,
        [TrialState::Failed, TrialState::Pruned, TrialState::Complete, TrialState::Complete]
    );
    assert_eq!(state.trials[0].reason.as_deref(), Some("no luck"));
    assert_eq!(state.best().unwrap().number.0, 3);
}

#[test]
fn threads_share_an_open_study() {
    let study = parabola(Study::minimize("threads", "loss")).trials(40).open().unwrap();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let study = study.clone();
            std::thread::spawn(move || {
                while let Some(mut trial) = study.ask().unwrap() {
                    let x = trial.number_of("x").unwrap();
                    trial.report(1, x * x).unwrap();
                    study.tell(trial, x * x).unwrap();
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let finished = study.finish().unwrap();
    assert_eq!(finished.state.counts.complete, 40);
    assert!(matches!(finished.outcome, RunOutcome::Finished(_)));
}

#[test]
fn a_dropped_trial_is_given_again_and_a_paused_one_goes_on_when_it_is_promoted() {
    let pruner = AlgorithmSpec::named("asha").with("max_resource", 9).with("mode", "promote");
    let study =
        parabola(Study::minimize("paused", "loss")).trials(9).pruner(pruner).open().unwrap();
    let first = study.ask().unwrap().unwrap();
    let params = first.params().clone();
    drop(first);
    let mut again = study.ask().unwrap().unwrap();
    assert_eq!((again.number().0, again.params(), again.until()), (0, &params, Some(1)));
    assert_eq!(again.report(1, 0.0).unwrap(), Continue::No);
    drop(again);
    for number in 1..3 {
        let mut trial = study.ask().unwrap().unwrap();
        assert_eq!(trial.number().0, number);
        trial.report(1, number as f64).unwrap();
    }
    let promoted = study.ask().unwrap().unwrap();
    assert_eq!((promoted.number().0, promoted.reported(), promoted.until()), (0, Some(1), Some(3)));
}

#[test]
fn an_open_study_is_held_and_its_store_knows_what_was_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("studies.db");
    let build = |trials| parabola(Study::minimize("held", "loss")).trials(trials).store(&path);
    let study = build(3).open().unwrap();
    let trial = study.ask().unwrap().unwrap();
    assert!(
        build(3).open().err().unwrap().to_string().contains("held"),
        "two programs would run the same study"
    );
    study.tell(trial, 7.5).unwrap();
    let out = study.ask().unwrap().unwrap();
    assert!(matches!(study.clone().finish().unwrap().outcome, RunOutcome::Interrupted(_)));
    drop((out, study));

    let study = build(3).open().unwrap();
    let trial = study.ask().unwrap().unwrap();
    assert_eq!(trial.number().0, 1, "the trial that was out is given again");
    study.tell(trial, 1.0).unwrap();
    study.tell(study.ask().unwrap().unwrap(), 2.0).unwrap();
    // Nobody asks once more: the study is over all the same.
    let finished = study.finish().unwrap();
    assert!(matches!(finished.outcome, RunOutcome::Finished(_)), "{:?}", finished.outcome);
    let values: Vec<Option<f64>> = finished.state.trials.iter().map(|trial| trial.value).collect();
    assert_eq!(values, [Some(7.5), Some(1.0), Some(2.0)]);
    assert_eq!(finished.state.finished.as_deref(), Some("the budget of 3 trials is used up"));
}

#[test]
fn a_request_from_another_terminal_reaches_an_open_study() {
    use hpsearch::storage::{Storage, StorageReader};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("studies.db");
    let study =
        parabola(Study::minimize("asked to stop", "loss")).trials(9).store(&path).open().unwrap();
    let mut trial = study.ask().unwrap().unwrap();
    let mut other = hpsearch::storage::any::AnyStore::open(&path).unwrap();
    let id = other.study("asked to stop").unwrap().unwrap().id;
    other
        .request(id, hpsearch::study::time::Timestamp(0), &hpsearch::study::request::Request::Stop)
        .unwrap();
    let mut step = 0;
    loop {
        step += 1;
        if trial.report(step, 1.0).unwrap() == Continue::No {
            break;
        }
    }
    drop(trial);
    assert!(study.ask().unwrap().is_none());
    assert!(matches!(
        study.finish().unwrap().outcome,
        RunOutcome::Interrupted(reason) if reason == "stopped on request"
    ));
}

/// Set for the copy of this test that dies.
const DYING: &str = "HPSEARCH_TEST_DYING_STORE";

#[test]
fn a_program_that_dies_is_given_what_was_out_and_suggests_as_if_it_had_not() {
    let build =
        |path: &std::path::Path| parabola(Study::minimize("dying", "loss")).trials(12).store(path);
    let value = |trial: &hpsearch::AskedTrial| trial.number_of("x").unwrap().powi(2);
    if let Some(path) = std::env::var_os(DYING) {
        let study = build(path.as_ref()).open().unwrap();
        for _ in 0..7 {
            let trial = study.ask().unwrap().unwrap();
            let value = value(&trial);
            study.tell(trial, value).unwrap();
        }
        let mut out = study.ask().unwrap().unwrap();
        out.report(1, 1.0).unwrap();
        std::process::abort();
    }
    let directory = tempfile::tempdir().unwrap();
    let (dying, whole) = (directory.path().join("dying.db"), directory.path().join("whole.db"));
    // Not by its path, where a build may just be putting another one.
    let mut copy = std::process::Command::new("/proc/self/exe");
    let name = "library::a_program_that_dies_is_given_what_was_out_and_suggests_as_if_it_had_not";
    let died =
        copy.args([name, "--exact", "--test-threads=1"]).env(DYING, &dying).output().unwrap();
    assert_eq!(died.status.signal(), Some(6), "{}", String::from_utf8_lossy(&died.stdout));

    let search = |path: &std::path::Path, expected: Option<u64>| {
        let study = build(path).open().unwrap();
        while let Some(trial) = study.ask().unwrap() {
            if trial.number().0 == 7 {
                assert_eq!(trial.reported(), expected);
            }
            let value = value(&trial);
            study.tell(trial, value).unwrap();
        }
        study.finish().unwrap().state
    };
    let (resumed, uninterrupted) = (search(&dying, Some(1)), search(&whole, None));
    let params = |state: &hpsearch::study::state::StudyState| {
        state.trials.iter().map(|trial| trial.params.clone()).collect::<Vec<_>>()
    };
    assert_eq!(params(&resumed), params(&uninterrupted));
    assert_eq!(resumed.counts.complete, 12);
}

#[test]
fn a_study_that_is_paused_from_another_terminal_waits_until_it_is_resumed() {
    use hpsearch::storage::{Storage, StorageReader};
    use hpsearch::study::request::Request;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("studies.db");
    let study =
        parabola(Study::minimize("to pause", "loss")).trials(3).store(&path).open().unwrap();
    let mut other = hpsearch::storage::any::AnyStore::open(&path).unwrap();
    let id = other.study("to pause").unwrap().unwrap().id;
    let mut trial = study.ask().unwrap().unwrap();
    other.request(id, hpsearch::study::time::Timestamp(0), &Request::PauseStudy).unwrap();
    let mut step = 0;
    loop {
        step += 1;
        if trial.report(step, 1.0).unwrap() == Continue::No {
            break;
        }
    }
    drop(trial);
    let asking = {
        let study = study.clone();
        std::thread::spawn(move || study.ask().unwrap().map(|trial| trial.number().0))
    };
    assert!(!asking.is_finished());
    other.request(id, hpsearch::study::time::Timestamp(0), &Request::ResumeStudy).unwrap();
    assert_eq!(asking.join().unwrap(), Some(0));
}

#[test]
fn a_study_learns_from_an_earlier_one_as_it_was_when_it_was_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("studies.db");
    let earlier =
        parabola(Study::minimize("earlier", "loss")).trials(40).store(&path).run(loss).unwrap();
    let later =
        |name: &str, trials| Study::minimize(name, "error").float("x", -5.0, 5.0).trials(trials);
    let kept = || {
        let reader = hpsearch::storage::any::AnyReader::open(&path).unwrap();
        hpsearch::storage::StorageReader::study(&reader, "later").unwrap().unwrap().spec.earlier
    };
    let same_store = later("later", 6).store(&path).warm_start("earlier").run(loss).unwrap();
    let found = kept();
    assert_eq!(found.len(), 40);
    // The best three of before come first.
    let best = earlier.best().unwrap().params.get("x").cloned();
    assert_eq!(same_store.state.trials[0].params.get("x").cloned(), best);
    let other_store =
        later("later", 6).warm_start(&format!("{}:earlier", path.display())).run(loss).unwrap();
    assert_eq!(other_store.state.trials[0].params.get("x").cloned(), best);
    // What was found then is what counts, although there are more trials now.
    parabola(Study::minimize("earlier", "loss")).trials(60).store(&path).run(loss).unwrap();
    let goes_on = later("later", 8).store(&path).warm_start("earlier").run(loss).unwrap();
    assert_eq!(kept(), found);
    assert_eq!(goes_on.state.trials[..6], same_store.state.trials[..]);
}

#[test]
fn a_changed_search_goes_on_where_that_is_accepted_and_another_question_never_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("studies.db");
    let study = |trials, sampler: &str| {
        parabola(Study::minimize("continuing", "loss"))
            .trials(trials)
            .sampler(AlgorithmSpec::named(sampler))
            .store(&path)
    };
    // As an earlier version of the library would have stored it.
    let mut old = study(4, "tpe");
    old.spec.sampler.version = 1;
    let first = old.run(loss).unwrap();
    let refused = |study: Study| study.run(loss).unwrap_err().to_string();
    let upgraded = refused(study(6, "tpe"));
    assert_names(
        &upgraded,
        &["`continuing` that differs: sampler", "`accept_changes()` continues with it"],
    );
    let other = study(6, "random").float("y", 0.0, 1.0);
    assert!(refused(other).contains("space.y: not set ->"));
    let goes_on = study(6, "tpe").accept_changes().run(loss).unwrap();
    assert_eq!(goes_on.state.trials[..4], first.state.trials[..]);
    assert_eq!(goes_on.state.counts.complete, 6);
    // From then on nothing has changed.
    assert_eq!(study(7, "tpe").run(loss).unwrap().state.counts.complete, 7);
    let turned = parabola(Study::maximize("continuing", "loss"))
        .trials(8)
        .sampler(AlgorithmSpec::named("random"))
        .store(&path);
    let turned = refused(turned.accept_changes());
    assert_names(&turned, &["study.direction: minimize -> maximize; choose another name"]);
}

#[test]
fn an_earlier_study_that_is_not_there_or_does_not_fit_is_refused_with_what_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("studies.db");
    let nothing = |trial: &mut hpsearch::TrialContext| {
        trial.report(1, 1.0);
        Ok(TrialEnd::Finished)
    };
    parabola(Study::minimize("earlier", "loss")).trials(2).store(&path).run(nothing).unwrap();
    let refused = |entry: &str| {
        let study = Study::minimize("later", "loss")
            .float("y", 0.0, 1.0)
            .trials(2)
            .store(&path)
            .warm_start(entry);
        study.run(nothing).unwrap_err().to_string()
    };
    assert!(
        refused("earlyer").contains("names no study of its store, which holds `earlier`"),
        "{}",
        refused("earlyer")
    );
    assert!(refused("earlier").contains("no trial that fits the space"), "{}", refused("earlier"));
    assert!(
        refused("missing.db").contains("\"missing.db\" cannot be read"),
        "{}",
        refused("missing.db")
    );
    let kept = hpsearch::storage::any::AnyReader::open(&path).unwrap();
    assert!(
        hpsearch::storage::StorageReader::study(&kept, "later").unwrap().is_none(),
        "a refused study is not stored"
    );
}
