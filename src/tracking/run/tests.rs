//! Tests of writing runs.

use std::time::Duration;

use super::*;
use crate::storage::memory::MemoryStore;
use crate::storage::tracked::Move;
use crate::storage::{StorageReader as _, StudyId, Takeover};
use crate::study::event::Seq;
use crate::study::metric::Direction;
use crate::study::program::Program;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::request::Request;
use crate::study::space::Space;
use crate::study::spec::StudySpec;
use crate::tracking::{Goal, find_run, open_study, run_of_job, settle_dead};

fn store() -> (MemoryStore, StoredStudy) {
    let mut store = MemoryStore::new();
    let goal = Goal::default();
    let study = open_study(&mut store, Path::new("/s.db"), "runs", &goal, Timestamp(1)).unwrap();
    (store, study)
}

fn named(name: &str) -> NewRun {
    let run = TrackedRun { name: Some(name.to_owned()), ..TrackedRun::default() };
    NewRun { run, ..NewRun::default() }
}

fn loss(value: f64) -> Metrics {
    Metrics([("loss".to_owned(), value)].into())
}

/// The store equals the fold of its journal.
fn assert_folds(store: &MemoryStore, study: &StoredStudy) {
    let mut fold = StudyState::new(&study.spec);
    for (_, at, event) in store.events_after(study.id, Seq(0), u64::MAX).unwrap() {
        fold.apply(at, &event);
    }
    let state = store.study_state(study.id).unwrap();
    assert_eq!((&fold.trials, fold.counts), (&state.trials, state.counts));
    assert_eq!((fold.busy_micros, fold.ran_micros), (state.busy_micros, state.ran_micros));
}

#[test]
fn a_run_is_complete_with_its_best_report_as_its_value() {
    let (mut store, study) = store();
    let run = Run::create(&mut store, &study, named("first")).unwrap();
    for (step, value) in [(1, 0.5), (2, 0.2), (3, 0.3)] {
        run.report(&mut store, step, loss(value)).unwrap();
    }
    let params = Params::from_iter([("lr".to_owned(), 0.1.into())]);
    run.record_params(&mut store, params.clone()).unwrap();
    let number = run.number();
    run.finish(&mut store, RunEnd::Completed).unwrap();
    let trial = store.trial(study.id, number).unwrap().unwrap();
    assert_eq!((trial.state, trial.value), (TrialState::Complete, Some(0.2)));
    assert_eq!(trial.params, params);
    assert_folds(&store, &study);
}

/// A run whose attempts end like this, each after reports of the loss at some steps.
fn resumed(attempts: &[(&[(u64, f64)], RunEnd)]) -> (MemoryStore, StoredStudy, TrialNumber) {
    let (mut store, study) = store();
    let mut run = Run::create(&mut store, &study, named("a")).unwrap();
    for (index, (reports, end)) in attempts.iter().enumerate() {
        if index > 0 {
            run = Run::resume(&mut store, &study, run.number(), ResumedRun::default()).unwrap();
        }
        for (step, value) in *reports {
            run.report(&mut store, *step, loss(*value)).unwrap();
        }
        run.finish(&mut store, end.clone()).unwrap();
    }
    assert_folds(&store, &study);
    (store, study, run.number())
}

fn failed() -> RunEnd {
    RunEnd::Failed { cause: FailureCause::Program, reason: "exit status 1".to_owned() }
}

#[test]
fn a_run_that_started_over_is_complete_with_what_it_reported_since() {
    let first: &[_] = &[(1, 0.3), (2, 0.2), (3, 0.1), (4, 0.01)];
    let again: (&[_], _) = (&[(1, 0.9), (2, 0.5)], RunEnd::Completed);
    let (store, study, run) = resumed(&[(first, failed()), again]);
    let trial = store.trial(study.id, run).unwrap().unwrap();
    assert_eq!((trial.curve, trial.value), (vec![(1, 0.9), (2, 0.5)], Some(0.5)));
    // One that goes on keeps what was before; of attempts between, too, only what followed counts.
    let stopped = RunEnd::Interrupted { by: "by SIGINT".to_owned() };
    let (store, study, run) =
        resumed(&[(first, failed()), (&[(2, 0.8)], stopped), (&[(3, 0.7)], RunEnd::Completed)]);
    let trial = store.trial(study.id, run).unwrap().unwrap();
    assert_eq!((trial.curve, trial.value), (vec![(1, 0.3), (2, 0.8), (3, 0.7)], Some(0.3)));
}

#[test]
fn other_metrics_of_reports_are_superseded_with_the_study_s_metric() {
    let (mut store, study) = store();
    let run = Run::create(&mut store, &study, named("a")).unwrap();
    let number = run.number();
    let report = |store: &mut MemoryStore, run: &Run, step: u32, names: &[&str]| {
        let value = |name: &&str| ((*name).to_owned(), f64::from(step));
        let metrics = names.iter().map(value).collect();
        run.report(store, u64::from(step), metrics).unwrap();
    };
    let all = ["loss", "f1", "old", "rare"];
    (1..=8).for_each(|step| report(&mut store, &run, step, &all));
    run.finish(&mut store, failed()).unwrap();
    // It starts over without one of them, and stops before it has another one.
    let run = Run::resume(&mut store, &study, number, ResumedRun::default()).unwrap();
    (1..=4).for_each(|step| report(&mut store, &run, step, &["loss", "f1"]));
    report(&mut store, &run, 2, &["loss", "rare"]);
    report(&mut store, &run, 4, &["loss", "rare"]);
    run.finish(&mut store, failed()).unwrap();
    // It continues.
    let run = Run::resume(&mut store, &study, number, ResumedRun::default()).unwrap();
    report(&mut store, &run, 3, &["loss", "f1"]);
    run.finish(&mut store, RunEnd::Completed).unwrap();
    assert_folds(&store, &study);
    let steps = |metric: &str| -> Vec<u64> {
        let reports = store.reports(study.id, number).unwrap().into_iter();
        reports.filter(|(name, ..)| name == metric).map(|(_, step, _)| step).collect()
    };
    let kept = ["loss", "f1", "rare", "old"].map(steps);
    assert_eq!(kept, [vec![1, 2, 3], vec![1, 2, 3], vec![2], vec![]]);
    let last = store.trial(study.id, number).unwrap().unwrap().last_metrics;
    let expected = [("f1", 3.0), ("loss", 3.0), ("rare", 2.0)];
    assert_eq!(last.iter().collect::<Vec<_>>(), expected);
    let journal = store.events_after(study.id, Seq(0), u64::MAX).unwrap();
    let rebuilt = crate::storage::journal::reports_of(&journal).remove(&number).unwrap();
    let stored = store.reports(study.id, number).unwrap().into_iter();
    let stored: Vec<_> = stored.map(|(name, step, _)| (name, step)).collect();
    assert_eq!(rebuilt.into_keys().collect::<Vec<_>>(), stored);
}

#[test]
fn parameters_that_a_resumed_run_changes_are_said() {
    let (mut store, study) = store();
    let params = |pairs: &[(&str, f64)]| -> Params {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
    };
    let before = NewRun { params: params(&[("lr", 0.1), ("wd", 0.5)]), ..named("a") };
    let run = Run::create(&mut store, &study, before).unwrap();
    run.finish(&mut store, failed()).unwrap();
    let run = Run::resume(&mut store, &study, run.number(), ResumedRun::default()).unwrap();
    assert_eq!(run.change_params(&mut store, params(&[("lr", 0.1), ("size", 2.0)])).unwrap(), None);
    let said = run.change_params(&mut store, params(&[("lr", 0.9), ("wd", 0.5)])).unwrap().unwrap();
    assert!(said.contains("from attempt 1 on: `lr` is 0.9, and was 0.1;"), "{said}");
    let now = store.trial(study.id, run.number()).unwrap().unwrap().params;
    assert_eq!(now, params(&[("lr", 0.9), ("size", 2.0), ("wd", 0.5)]));
}

#[test]
fn a_run_that_is_resumed_by_mistake_or_to_add_something_loses_nothing() {
    let first: &[_] = &[(1, 0.3), (2, 0.2), (3, 0.1)];
    for (before, now) in [
        (failed(), failed()),
        (RunEnd::Completed, failed()),
        (RunEnd::Completed, RunEnd::Completed),
    ] {
        let (store, study, run) = resumed(&[(first, before), (&[(0, 0.4)], now)]);
        let trial = store.trial(study.id, run).unwrap().unwrap();
        assert_eq!(trial.curve, [(0, 0.4), (1, 0.3), (2, 0.2), (3, 0.1)]);
    }
}

#[test]
fn runs_are_tracked_at_the_same_time_and_none_holds_the_study() {
    let (mut store, study) = store();
    let one = Run::create(&mut store, &study, named("same")).unwrap();
    let other = Run::create(&mut store, &study, named("same")).unwrap();
    assert_eq!((one.name(), other.name()), (Some("same"), Some("same-2")));
    one.report(&mut store, 1, loss(0.5)).unwrap();
    other.report(&mut store, 1, loss(0.4)).unwrap();
    one.finish(&mut store, RunEnd::Completed).unwrap();
    other.finish(&mut store, RunEnd::Interrupted { by: "by SIGINT".to_owned() }).unwrap();
    let runners = store.runners(study.id).unwrap();
    assert!(runners.iter().all(|runner| runner.stopped.is_some()), "{runners:?}");
    let reasons: Vec<_> = runners.into_iter().filter_map(|runner| runner.reason).collect();
    assert_eq!(reasons, ["its run is complete", "interrupted by SIGINT"]);
    assert_eq!(find_run(&store, &study, "same-2").unwrap().state, TrialState::Paused);
    assert_eq!(find_run(&store, &study, "0").unwrap().state, TrialState::Complete);
    assert!(find_run(&store, &study, "none").is_err());
    assert_folds(&store, &study);
}

#[test]
fn an_older_attempt_writes_no_more_once_the_run_was_resumed() {
    let (mut store, study) = store();
    let old = Run::create(&mut store, &study, named("a")).unwrap();
    old.report(&mut store, 1, loss(0.5)).unwrap();
    // Its process is this one, and alive.
    let refused = Run::resume(&mut store, &study, old.number(), ResumedRun::default());
    assert!(matches!(refused, Err(TrackingError::Running { .. })), "{refused:?}");
    let tracked = life_of(&store, study.id, old.number()).unwrap().unwrap();
    assert!(settle(&mut store, &tracked, "it is not heard any more").unwrap());
    assert!(!settle(&mut store, &tracked, "again").unwrap(), "somebody else did");
    let new = Run::resume(&mut store, &study, old.number(), ResumedRun::default()).unwrap();
    assert_eq!((new.number(), new.attempt()), (old.number(), AttemptNumber(1)));
    let late = old.report(&mut store, 2, loss(0.1));
    assert!(
        matches!(late, Err(TrackingError::Storage(StorageError::RunFenced { .. }))),
        "{late:?}"
    );
    new.report(&mut store, 2, loss(0.4)).unwrap();
    new.finish(&mut store, RunEnd::Completed).unwrap();
    let trial = store.trial(study.id, TrialNumber(0)).unwrap().unwrap();
    assert_eq!((trial.value, trial.attempts), (Some(0.4), 2));
    assert_folds(&store, &study);
}

#[test]
fn a_run_whose_process_died_is_settled_as_interrupted() {
    let (mut store, study) = store();
    let run = Run::create(&mut store, &study, named("a")).unwrap();
    assert!(settle_dead(&mut store, study.id, &study.spec).unwrap().is_empty());
    // An unused process id.
    let process = TrackerProcess {
        spool: None,
        pid: u32::MAX,
        host: identified_process().host,
        tracker: Tracker { pid_started: 1, boot_id: identified_process().boot_id },
        slot: Slot::on(0, Device::Cpu),
        provenance: None,
        since: None,
    };
    let begin = BeginRun::New {
        params: Params::new(),
        run: TrackedRun::default(),
        tags: vec!["x".to_owned()],
        note: Some("why".to_owned()),
    };
    let dead = store.begin_run(study.id, Timestamp(9), &begin, &process).unwrap();
    assert_eq!(settle_dead(&mut store, study.id, &study.spec).unwrap(), [dead.trial]);
    let trial = store.trial(study.id, dead.trial).unwrap().unwrap();
    assert_eq!(trial.state, TrialState::Paused);
    assert_eq!(trial.reason.as_deref(), Some("interrupted: its process was killed"));
    assert_eq!((trial.tags.len(), trial.notes.len()), (1, 1));
    run.finish(&mut store, RunEnd::Completed).unwrap();
    assert_folds(&store, &study);
}

#[test]
fn a_removed_run_is_as_if_it_had_never_been_and_its_number_is_not_given_again() {
    let (mut store, study) = store();
    let runs = ["a", "b", "c"].map(|name| {
        let run = Run::create(&mut store, &study, named(name)).unwrap();
        run.report(&mut store, 1, loss(0.5)).unwrap();
        run
    });
    let numbers = |store: &MemoryStore, study: StudyId| -> Vec<u64> {
        let query = TrialQuery::all(SortKey::Number);
        store.numbers(study, &query).unwrap().into_iter().map(|number| number.0).collect()
    };
    let [a, b, c] = &runs;
    let removed = store.remove_runs(study.id, Timestamp(9), &[b.number()]);
    assert!(matches!(removed, Err(StorageError::RunTracked { .. })), "{removed:?}");
    b.finish(&mut store, RunEnd::Completed).unwrap();
    // It ends like a killed process: its usage extends to its last write.
    let tracked = life_of(&store, study.id, c.number()).unwrap().unwrap();
    assert!(settle(&mut store, &tracked, "its process was killed").unwrap());
    store.remove_runs(study.id, Timestamp(9), &[b.number()]).unwrap();
    assert_folds(&store, &study);
    assert_eq!(numbers(&store, study.id), [0, 2]);
    assert_eq!(store.next_number(study.id).unwrap(), TrialNumber(3));
    let gone = b.report(&mut store, 2, loss(0.1));
    assert!(
        matches!(gone, Err(TrackingError::Storage(StorageError::RunFenced { .. }))),
        "{gone:?}"
    );
    let gone = Run::resume(&mut store, &study, b.number(), ResumedRun::default());
    assert!(matches!(gone, Err(TrackingError::Storage(StorageError::NoTrial { .. }))), "{gone:?}");
    let noted = Request::Note { trial: Some(b.number()), text: "late".to_owned() };
    assert!(store.request(study.id, Timestamp(9), &noted).is_err());
    let twice = store.remove_runs(study.id, Timestamp(9), &[b.number()]);
    assert!(matches!(twice, Err(StorageError::NoTrial { .. })), "{twice:?}");
    // To another study and into a page of it.
    let path = Path::new("/s.db");
    let other = open_study(&mut store, path, "other", &Goal::default(), Timestamp(1)).unwrap();
    Run::create(&mut store, &other, named("c")).unwrap();
    let files = other.files(path);
    let runs = [c.number()];
    let moving = Move { from: study.id, runs: &runs, homes: &[], to: other.id, files: &files };
    assert_eq!(store.move_runs(Timestamp(9), &moving).unwrap(), [TrialNumber(1)]);
    let moved = store.trial(other.id, TrialNumber(1)).unwrap().unwrap();
    assert_eq!(moved.origin.tracked().unwrap().name.as_deref(), Some("c-2"));
    assert_eq!((moved.state, moved.curve), (TrialState::Paused, vec![(1, 0.5)]));
    for study in [&study, &other] {
        assert_folds(&store, study);
    }
    a.finish(&mut store, RunEnd::Completed).unwrap();
    store.remove_runs(study.id, Timestamp(9), &[a.number()]).unwrap();
    assert_folds(&store, &study);
    assert_eq!(
        (numbers(&store, study.id), store.used(study.id).unwrap().busy),
        (vec![], Duration::ZERO)
    );
    let again = Run::create(&mut store, &study, named("a")).unwrap();
    assert_eq!((again.number(), again.name()), (TrialNumber(3), Some("a")));
}

#[test]
fn searches_and_runs_do_not_mix() {
    let (mut store, study) = store();
    let taken = runner::take_lease(&mut store, &study).map(drop);
    assert!(matches!(taken, Err(StorageError::Tracked { .. })), "{taken:?}");
    let run = Run::create(&mut store, &study, named("a")).unwrap();
    let refused = store.acquire(study.id, &identified_process(), Timestamp(1), Takeover::IfFree);
    assert!(matches!(refused, Err(StorageError::RunTracked { run: TrialNumber(0), .. })));
    run.finish(&mut store, RunEnd::Completed).unwrap();
    let lease = store.acquire(study.id, &identified_process(), Timestamp(1), Takeover::IfFree);
    store.release(&lease.unwrap()).unwrap();
    let spec = StudySpec::new("s", "loss", Direction::Minimize, Space::default(), Program::Inline);
    store.create_study(Timestamp(1), &spec).unwrap();
    let search = store.study("s").unwrap().unwrap();
    let refused = Run::create(&mut store, &search, NewRun::default());
    assert!(
        matches!(refused, Err(TrackingError::Storage(StorageError::Searched { .. }))),
        "{refused:?}"
    );
    let goal = Goal { metric: Some("accuracy".to_owned()), direction: None };
    let other = open_study(&mut store, Path::new("/s.db"), "runs", &goal, Timestamp(1));
    assert!(matches!(other, Err(TrackingError::OtherMetric { .. })), "{other:?}");
}

#[test]
fn a_requeued_job_finds_the_run_that_it_began_and_not_a_complete_one() {
    let (mut store, study) = store();
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let of_job = |command: &[&str]| NewRun {
        run: TrackedRun {
            job: Some("17".to_owned()),
            command: words(command),
            ..TrackedRun::default()
        },
        ..NewRun::default()
    };
    let first = Run::create(&mut store, &study, of_job(&["prepare"])).unwrap();
    first.finish(&mut store, RunEnd::Completed).unwrap();
    let second = Run::create(&mut store, &study, of_job(&["train"])).unwrap();
    second.finish(&mut store, RunEnd::Interrupted { by: "by SIGTERM".to_owned() }).unwrap();
    let found = |job: &str, command: &[&str]| {
        run_of_job(&store, &study, job, &words(command)).unwrap().map(|trial| trial.number.0)
    };
    assert_eq!(found("17", &["train"]), Some(1));
    assert_eq!([found("17", &["prepare"]), found("18", &["train"])], [None, None]);
}
