//! Control from another terminal, end to end: pausing, enqueueing, retrying, extending, continuing,
//! notes and tags.

use std::time::{Duration, Instant};

use hpsearch::app::AppError;
use hpsearch::app::control::{StudyControl, offered_to_study, offered_to_trial, post};
use hpsearch::app::enqueue::Repeat;
use hpsearch::app::study_state::state;
use hpsearch::storage::{Storage as _, StorageReader as _};
use hpsearch::study::budget::Extension;
use hpsearch::study::control::TrialControl;
use hpsearch::study::event::{AttemptEnd, Event, StateEvent, StudyEvent};
use hpsearch::study::params::Params;
use hpsearch::study::request::{Request, RequestAnswer, Retried};
use hpsearch::study::spec::FailureCause;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{Hold, TrialNumber, TrialState};
use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::harness::{
    KEEP_ALL, ONE_SLOT, REPORT_X, RESUMABLE, STORE, Scene, Site, TWO_SLOTS, assert_code,
    assert_done, assert_names, assert_refused, held, study, wait_at_most, wait_until,
};

/// The steps that trials began, each once.
fn assert_no_step_twice(site: &Site, trials: u64, last: u64) {
    let mut steps = site.lines("steps");
    steps.sort();
    assert_eq!(
        steps,
        (0..trials)
            .flat_map(|trial| (1..=last).map(move |step| format!("{trial} {step}")))
            .collect::<Vec<_>>()
    );
}

fn listed(site: &Site) -> Json {
    let listed: Json = site.json(&["ls", "--json"]);
    listed["studies"][0].clone()
}

#[test]
fn a_paused_trial_gives_its_slot_to_another_and_goes_on_where_it_saved() {
    let site = Site::new(&study("trials = 3", ONE_SLOT), RESUMABLE);
    let running = site.start_study();
    site.wait_for_lines("steps", 2);
    let asked = site.run(&["pause", "s", "0"]);
    assert_done(&asked);
    assert_names(&asked.err, &["trial 0 saves and leaves"]);
    wait_until("another trial has its slot", || site.states() == ["paused", "running"]);
    assert!(
        site.trials()[0]["reason"]
            .as_str()
            .unwrap()
            .starts_with("paused by you; continues from step "),
        "{}",
        site.trials()[0]
    );
    assert_done(&site.run(&["resume", "0"]));
    assert_done(&running.end());
    assert_eq!(site.states(), vec!["complete"; 3]);
    assert_no_step_twice(&site, 3, 6);
    site.assert_folds();
}

#[test]
fn a_run_ends_without_the_trials_that_stay_paused_and_they_can_be_resumed_later() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), RESUMABLE);
    let running = site.start_study();
    site.wait_for_lines("steps", 1);
    assert_done(&site.run(&["pause", "s", "0"]));
    let ended = running.end();
    assert_done(&ended);
    assert_names(&ended.out, &["one trial stays paused by you"]);
    assert_eq!(site.states(), ["paused", "complete"]);
    let resumed = site.run(&["resume", "s", "0"]);
    assert_done(&resumed);
    assert_names(&resumed.err, &["it starts when the study is run"]);
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete", "complete"]);
    assert_no_step_twice(&site, 2, 6);
}

#[test]
fn a_paused_study_stays_paused_through_a_kill_and_another_run() {
    let site = Site::new(&study("trials = 3", TWO_SLOTS), RESUMABLE);
    let mut running = site.start_study();
    site.wait_for_lines("steps", 3);
    assert_done(&site.run(&["pause", "s"]));
    wait_until("they have left", || site.states() == ["paused", "paused"]);
    assert_eq!((listed(&site)["state"].clone(), site.processes().len()), (json!("paused"), 0));
    wait_until("its runner holds no process", || {
        hpsearch::runner::processes::descendants(running.child.id()).is_empty()
    });
    running.kill();
    let running = site.start_study();
    wait_until("it says so", || {
        running.said_so_far().contains("it is paused, so that nothing starts: `hpsearch resume s`")
    });
    assert_eq!(site.states(), ["paused", "paused"]);
    // Its runner waits, and is ended like any other.
    assert_done(&site.run(&["stop", "s"]));
    let left = running.end();
    assert_code(&left, 130);
    assert_names(&left.err, &["it stays paused until `hpsearch resume s`"]);
    assert_done(&site.run_study_with(&["--resume"]));
    assert_eq!(site.states(), vec!["complete"; 3]);
    assert_no_step_twice(&site, 3, 6);
    site.assert_folds();
}

#[test]
fn a_study_that_waits_goes_on_when_it_is_resumed_from_another_terminal() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), RESUMABLE);
    assert_done(&site.run_study_with(&["--set", "budget.trials=1"]));
    assert_refused(&site.run(&["pause", "s"]), &["the study is over"]);
    assert_done(&site.run(&["extend", "s", "--trials", "+1"]));
    let paused = site.run(&["pause", "s"]);
    assert_done(&paused);
    assert_refused(&site.run(&["resume", "s", "0"]), &["trial 0 is complete", "hpsearch continue"]);
    let running = site.start(&["run", "study.toml", "--plain", "--set", "budget.trials=1"]);
    wait_until("it waits", || running.said_so_far().contains("it is paused"));
    assert_done(&site.run(&["resume", "s"]));
    assert_done(&running.end());
    assert_eq!(site.states(), ["complete", "complete"]);
    assert_refused(&site.run(&["resume", "s"]), &["is not paused"]);
}

#[test]
fn options_after_tags_are_options() {
    let site = Site::finished("trials = 1");
    assert_done(&site.run(&["copy", "s", "--to", "other.db"]));
    let tags = |store: &str| site.run(&["--store", store, "tag", "s"]).out;
    assert_done(&site.run(&["tag", "s", "+q", "+old", "+x", "--store", "other.db"]));
    assert_eq!((tags("other.db"), tags("runs/hpsearch.db")), ("old q x\n".into(), "\n".into()));
    let quiet = site.run(&["tag", "s", "-old", "-q", "--store=other.db"]);
    assert_done(&quiet);
    assert_eq!((tags("other.db").as_str(), quiet.err.as_str()), ("q x\n", ""));
    assert_done(&site.run(&["tag", "--store", "other.db", "s", "--", "-q"]));
    assert_eq!(tags("other.db"), "x\n");
    let left = site.run(&["tag", "s", "-x", "--json", "--store", "other.db"]);
    assert_eq!(serde_json::from_str::<Json>(&left.out).unwrap()["tags"], json!([]));
    assert_refused(&site.run(&["tag", "s", "+y", "--strange"]), &["--strange"]);
}

#[test]
fn notes_and_tags_are_there_at_once_whoever_runs_the_study() {
    let text = study("trials = 2", ONE_SLOT);
    let text = text.replace("name = \"s\"", "name = \"s\"\ntags = [\"night\"]");
    let site = Site::new(&text, RESUMABLE);
    let running = site.start_study();
    site.wait_for_lines("steps", 1);
    assert_done(&site.run(&["note", "s", "0", "-m", "  läuft gut\nbisher "]));
    assert_done(&site.run(&["tag", "s", "0", "+keep", "+b", "-b"]));
    assert_done(&site.run(&["tag", "s", "+round-2"]));
    assert!(
        site.run(&["note", "s", "0"]).out.contains("trial 0: läuft gut"),
        "{}",
        site.run(&["note", "s", "0"]).out
    );
    assert_eq!(site.run(&["tag", "s", "0"]).out, "trial 0: keep\n");
    assert_eq!(site.run(&["tag", "s"]).out, "night round-2\n");
    assert_done(&running.end());
    // And with nobody there; also about what failed, was paused, or is over.
    assert_done(&site.run(&["note", "-m", "about the study"]));
    let shown = site.run(&["show", "s"]).out;
    let has = |title: &str, text: &str| {
        shown.lines().any(|line| line.starts_with(title) && line.ends_with(text))
    };
    assert!(has("tags ", " night round-2") && has("note ", " about the study"), "{shown}");
    assert_done(&site.run(&["tag", "0-1", "+done", "-keep"]));
    assert_eq!(site.run(&["tag", "0", "1"]).out, "trial 0: done\ntrial 1: done\n");
    assert!(site.run(&["note", "s"]).out.ends_with("about the study\n"));
    assert_refused(&site.run(&["note", "s", "7", "-m", "x"]), &["no trial 7"]);
    assert_refused(&site.run(&["note", "s", "0", "-m", "  "]), &["empty"]);
    assert_refused(&site.run(&["tag", "s", "0", "+a b"]), &["is not a tag"]);
    assert_refused(&site.run(&["tag", "s", "0", "-a b"]), &["`-a b` is not a tag"]);
    assert_refused(
        &site.run(&["note", "s", "0", "a text"]),
        &["`a text` is not a trial number", " -m "],
    );
    assert_refused(
        &site.run(&["tag", "s", "0", "keep"]),
        &["`keep` is not a trial number", "`+keep`"],
    );
    assert!(site.run(&["note", "s", "0", "-m", "more"]).err.contains("noted"));
    assert!(site.run(&["tag", "s", "0", "+more"]).err.contains("tagged"));
    assert!(site.run(&["note", "s", "1"]).err.contains("no notes"));
    for verb in ["explain", "kill", "logs"] {
        assert_refused(
            &site.run(&[verb, "s"]),
            &["is not a trial number", "the study comes before"],
        );
    }
    site.assert_folds();
}

#[test]
fn requests_of_the_screens_are_held_to_the_rules_of_the_verbs() {
    let mut scene = Scene::digits();
    scene.leave();
    let (store, study) = (scene.path(STORE), scene.store.study("digits").unwrap().unwrap().id);
    let ask = |request, repeat| post(&store, study, request, repeat);
    let refused = |request| ask(request, Repeat::Refused).unwrap_err();
    let number = TrialNumber;
    let note = Request::Note { trial: None, text: "x".repeat(5_000) };
    assert!(matches!(refused(note), AppError::UnfitNote { most: Some(_) }));
    let tag = |present| Request::Tag { trial: None, tag: "a b".to_owned(), present };
    assert!(matches!(refused(tag(true)), AppError::NoTag { .. }));
    ask(tag(false), Repeat::Refused).unwrap();
    let ended = refused(Request::Kill { trial: number(0) });
    assert!(matches!(ended, AppError::EndedAlready { state: TrialState::Complete, .. }), "{ended}");
    let absent = refused(Request::Retry { trials: Retried::One(number(9)) });
    assert!(matches!(absent, AppError::UnknownTrial { .. }), "{absent}");
    let params = scene.store.trial(study, number(0)).unwrap().unwrap().params;
    let outside: Params = [("learning_rate".to_owned(), 7.0.into())].into_iter().collect();
    let outside = refused(Request::Enqueue { params: outside });
    assert!(matches!(outside, AppError::NoConfiguration { .. }), "{outside}");
    let enqueue = || Request::Enqueue { params: params.clone() };
    assert!(matches!(refused(enqueue()), AppError::Tried { trial: TrialNumber(0) }));
    let before = scene.store.summary(study).unwrap().counts.total();
    assert_eq!(ask(enqueue(), Repeat::Wanted).unwrap().len(), 1);
    assert_eq!(scene.store.summary(study).unwrap().counts.total(), before + 1);
}

/// What a study and its trials are offered, as the page of `serve` is told.
#[test]
fn a_study_and_its_trials_are_offered_what_their_states_allow() {
    let mut scene = Scene::digits();
    let study = scene.store.study("digits").unwrap().unwrap().id;
    let offered = |scene: &Scene| {
        let summary = scene.store.summary(study).unwrap();
        let of_trial = |number| {
            let trial = scene.store.trial(study, TrialNumber(number)).unwrap().unwrap();
            offered_to_trial(&summary, &trial)
        };
        (offered_to_study(&summary, state(&summary)), [0, 1, 3].map(of_trial))
    };
    let ended = vec![TrialControl::Continue];
    let running = vec![TrialControl::Pause, TrialControl::Kill];
    let (of_study, of_trials) = offered(&scene);
    assert_eq!(
        of_study,
        [StudyControl::Pause, StudyControl::Stop, StudyControl::Enqueue],
        "no trial has failed"
    );
    assert_eq!(of_trials, [ended.clone(), ended.clone(), running]);
    scene.append(&[
        Event::of(TrialNumber(3), StateEvent::Held { hold: Some(Hold::Trial) }),
        Event::Study(StudyEvent::Paused { reason: "paused by you".to_owned() }),
    ]);
    let (of_study, of_trials) = offered(&scene);
    assert_eq!(of_study, [StudyControl::Resume, StudyControl::Stop, StudyControl::Enqueue]);
    let leaving = vec![TrialControl::Resume, TrialControl::Kill];
    assert_eq!(of_trials, [ended.clone(), ended.clone(), leaving]);
    let end = AttemptEnd::Failed(FailureCause::Program);
    scene.end(3, end, TrialState::Failed, None, Some("exit code 1"));
    scene.leave();
    let (of_study, of_trials) = offered(&scene);
    assert_eq!(of_study, [StudyControl::Resume, StudyControl::Enqueue, StudyControl::RetryFailed]);
    assert_eq!(of_trials, [ended.clone(), ended, vec![TrialControl::Retry]]);
}

#[test]
fn configurations_of_ones_own_run_next_and_nothing_wrong_is_taken() {
    let space = "kind = [\"a\", \"b\", \"2\"]\ndepth = { int = [1, 9], when = { kind = \"b\" } }\n";
    let text = study("trials = 2", ONE_SLOT).replace("[sampler]", &format!("{space}[sampler]"));
    let site = Site::new(&text, REPORT_X);
    assert_done(&site.run_study());
    let wrong = site.run(&["enqueue", "s", "x=7", "kind=a", "depth=3", "wdith=1"]);
    assert_refused(
        &wrong,
        &[
            "`7` is not a value of `x`: it is a number from 0 to 1",
            "needs `kind` to be `b`",
            "`wdith`",
            "nothing was enqueued",
        ],
    );
    assert_refused(&site.run(&["enqueue", "s", "t", "x=0.5"]), &["`t` is not a value"]);
    assert_refused(&site.run(&["enqueue", "s", "--from", "9"]), &["no trial 9"]);
    assert_eq!(site.trials().len(), 2);
    let asked = site.run(&["enqueue", "s", "x=.5", "kind=2"]);
    assert_done(&asked);
    assert_names(&asked.err, &["trial 2 is queued: kind=2 x=0.5; it starts when the study is run"]);
    assert_eq!(listed(&site)["state"], "stopped", "there is something to do again");
    assert_refused(
        &site.run(&["enqueue", "s", "--from", "2"]),
        &["trial 2 already has these parameters", "--again"],
    );
    assert_done(&site.run(&["enqueue", "s", "--from", "2", "kind=b", "depth=4"]));
    assert_done(&site.run(&["enqueue", "s", "--from", "3", "kind=a"]));
    site.write("mine.toml", "kind = \"b\"\nx = 1\n");
    assert_done(&site.run(&["enqueue", "s", "--file", "mine.toml", "depth=9"]));
    assert_done(&site.run_study());
    let params: Vec<Json> =
        site.trials()[2..].iter().map(|trial| trial["params"].clone()).collect();
    let expected = [
        json!({"kind": "2", "x": 0.5}),
        json!({"kind": "b", "x": 0.5, "depth": 4}),
        json!({"kind": "a", "x": 0.5}),
        json!({"kind": "b", "x": 1.0, "depth": 9}),
    ];
    assert_eq!(params, expected);
    assert_eq!(site.states(), vec!["complete"; 6], "they run although the budget is used up");
    site.assert_folds();
}

#[test]
fn failed_trials_are_tried_again_while_the_study_runs_and_after() {
    let script = format!(
        "[ $HPSEARCH_TRIAL = 2 ] && while [ ! -e go ]; do sleep 0.02; done\n[ -e repaired ] || [ \
         $HPSEARCH_TRIAL = 2 ] || exit 3\n{REPORT_X}"
    );
    let site = Site::new(&study("trials = 3\ncount = \"all\"", ONE_SLOT), &script);
    let running = site.start_study();
    wait_until("the third trial runs", || site.states() == ["failed", "failed", "running"]);
    assert_refused(&site.run(&["retry", "s", "2"]), &["trial 2 has not failed", "kill s 2"]);
    assert_refused(&site.run(&["retry", "s"]), &["--failed"]);
    site.write("repaired", "");
    assert_done(&site.run(&["retry", "s", "0"]));
    site.write("go", "");
    assert_done(&running.end());
    assert_eq!(site.states(), ["complete", "failed", "complete"]);
    let asked = site.run(&["retry", "s", "--failed"]);
    assert_done(&asked);
    assert_names(&asked.err, &["trial 1 is queued again"]);
    assert_done(&site.run_study());
    assert_eq!(
        (site.states(), site.trials()[1]["attempts"].clone()),
        (vec!["complete".to_owned(); 3], json!(2))
    );
    assert_refused(&site.run(&["retry", "s", "--failed"]), &["no trial has failed"]);
}

#[test]
fn an_extended_budget_stays_when_the_study_is_run_again() {
    let site = Site::finished("trials = 1");
    assert_refused(&site.run(&["extend", "s", "--time", "+2h"]), &["budget.time"]);
    assert_eq!(site.run(&["extend", "s"]).code, 2);
    assert_eq!(site.run(&["extend", "s", "--trials", "lots"]).code, 2);
    let asked = site.run(&["extend", "s", "--trials", "+2"]);
    assert_done(&asked);
    assert_names(&asked.err, &["the budget is 3 trials now"]);
    let again = site.run_study();
    assert_done(&again);
    assert!(
        again.err.contains("2 trials more than the file says")
            && !again.err.contains("changed since"),
        "{}",
        again.err
    );
    assert_eq!(site.states(), vec!["complete"; 3]);
    // The file's own budget may still change.
    let set = site.run_study_with(&["--set", "budget.trials=2"]);
    assert_done(&set);
    assert!(
        set.err
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("set 2 trials less to take it back"),
        "{}",
        set.err
    );
    assert_eq!(site.states(), vec!["complete"; 4]);
    site.assert_folds();
}

#[test]
fn an_extension_that_starts_no_trial_says_why() {
    let script = format!("[ -e repaired ] || [ $HPSEARCH_TRIAL != 0 ] || exit 3\n{REPORT_X}");
    let site = Site::new(&study("trials = 2\ntarget = -1", ONE_SLOT), &script);
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["failed", "complete", "complete"]);
    site.write("repaired", "");
    assert_done(&site.run(&["retry", "s", "--failed"]));
    assert_done(&site.run_study());
    let asked = site.run(&["extend", "s", "--trials", "+1"]);
    assert_done(&asked);
    let why = "the budget is 3 trials now, but 3 are complete or under way: 1 more trial and a \
               new one starts";
    assert_names(&asked.err, &[why]);
    assert_done(&site.run(&["extend", "s", "--trials", "+1"]));
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete"; 4]);
    // A goal that was reached ends the next run, too.
    let set = site.run_study_with(&["--set", "budget.target=1"]);
    assert_done(&set);
    let asked = site.run(&["extend", "s", "--trials", "+1"]);
    assert_names(&asked.err, &["the study ends as before: ", "change `target` under [budget]"]);
}

#[test]
fn a_complete_trial_goes_on_from_its_checkpoint_to_where_it_is_told() {
    let site = Site::new(&study("trials = 1", &format!("{ONE_SLOT}{KEEP_ALL}")), RESUMABLE);
    assert_done(&site.run_study());
    assert_refused(&site.run(&["continue", "s", "0", "--until", "6"]), &["has reached step 6"]);
    assert_refused(&site.run(&["continue", "s", "--until", "6"]), &["name the trial to continue"]);
    let asked = site.run(&["continue", "s", "0", "--until", "9"]);
    assert_done(&asked);
    assert_names(&asked.err, &["trial 0 continues from step 6 to step 9"]);
    assert_refused(
        &site.run(&["continue", "s", "0", "--until", "9"]),
        &["has not ended, it is queued"],
    );
    assert_done(&site.run_study());
    let trial = &site.trials()[0];
    assert_eq!(
        (&trial["state"], &trial["last_step"], &trial["attempts"]),
        (&json!("complete"), &json!(9), &json!(2))
    );
    assert_no_step_twice(&site, 1, 9);
    let without = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    assert_done(&without.run_study());
    assert_refused(
        &without.run(&["continue", "s", "0", "--until", "9"]),
        &["has no checkpoint to continue from", "hpsearch enqueue --from 0"],
    );
    site.assert_folds();
}

/// Two trials: a further attempt of the first starts over, and one of the second continues; both
/// fail.
const FAILS_TO_CONTINUE: &str = r#"
says() { for line; do echo "@hpsearch $line"; done; }
saves() { echo $2 > "$HPSEARCH_CHECKPOINT_DIR/$1"; says "{\"checkpoint\":\"$1\",\"step\":$1}"; }
case $HPSEARCH_TRIAL$HPSEARCH_ATTEMPT in
?0) for step in 1 2 3; do
      saves $step first
      says "{\"step\":$step,\"loss\":0.$(((step - 2) * (step - 2) + HPSEARCH_TRIAL + 2)),\"lat\":1}"
    done ;;
01) for step in 1 2; do saves $step.again again; done
    says '{"step":1,"loss":0.9,"lat":1}' '{"checkpoint":"2.again","step":2}'
    says '{"step":2,"loss":0.1,"lat":99}'
    exit 1 ;;
11) saves 4 again; says '{"step":4,"loss":0.01,"lat":99}'; exit 1 ;;
esac
"#;

#[test]
fn a_trial_that_fails_to_continue_keeps_its_value_its_limits_and_its_checkpoint() {
    for rule in ["best", "last", "mean"] {
        let limit = "[[constraint]]\nlimit = \"lat <= 10\"\n";
        let text = study("trials = 2", &format!("{limit}{ONE_SLOT}"))
            .replace("step = \"step\"", &format!("step = \"step\"\nvalue = \"{rule}\""));
        let site = Site::new(&text, FAILS_TO_CONTINUE);
        assert_done(&site.run_study());
        let result = || {
            let of =
                |trial: &Json| ["value", "violation", "last_step"].map(|key| trial[key].clone());
            let best = site.json(&["best", "s", "--json"])["trial"].clone();
            let curves = site.json(&["curves", "s", "--json"]);
            let reports = &curves["series"][0]["points"];
            let steps = reports.as_array().unwrap().iter().map(|point| point[1].clone());
            let shown = (best["metrics"].clone(), best["checkpoint"].clone());
            (site.trials().iter().map(of).collect::<Vec<_>>(), shown, steps.collect::<Vec<_>>())
        };
        let before = result();
        for trial in ["0", "1"] {
            assert_done(&site.run(&["continue", "s", trial, "--until", "8"]));
        }
        site.assert_folds();
        let _ended = site.run_study();
        assert_eq!(result(), before, "{rule}");
        for trial in site.trials() {
            assert_eq!((&trial["state"], &trial["attempts"]), (&json!("complete"), &json!(2)));
            let reason = trial["reason"].as_str().unwrap();
            assert_names(
                reason,
                &["continued past its end and failed, so it is as before: exit status 1"],
            );
        }
        let (_, (_, checkpoint), _) = before;
        let saved = std::fs::read_to_string(checkpoint.as_str().unwrap()).unwrap();
        assert_eq!(saved.trim(), "first", "{rule}");
        assert_done(&site.run(&["verify", "s"]));
        site.assert_folds();
    }
}

#[test]
fn a_command_that_ends_before_the_step_it_was_continued_to_says_where_it_finds_it() {
    let deaf_to_it = RESUMABLE.replace("${HPSEARCH_UNTIL:-6}", "$((step + 2))");
    let site = Site::new(&study("trials = 1", &format!("{ONE_SLOT}{KEEP_ALL}")), &deaf_to_it);
    assert_done(&site.run_study());
    assert_done(&site.run(&["continue", "s", "0", "--until", "9"]));
    assert_done(&site.run_study());
    let trial = &site.trials()[0];
    assert_eq!((&trial["state"], &trial["last_step"]), (&json!("complete"), &json!(4)));
    let reason = trial["reason"].as_str().unwrap();
    assert!(
        reason.ends_with("4, before 9: a command finds the step in HPSEARCH_UNTIL"),
        "{reason}"
    );
    site.assert_folds();
}

/// Ignores SIGTERM, and has a child that does.
const DEAF: &str = "trap '' TERM INT\n(trap '' TERM INT; while :; do sleep 0.2; done) &\necho \
    started > started\nwhile :; do sleep 0.2; done\n";

#[test]
fn what_ignores_sigterm_for_the_whole_grace_is_killed_with_its_children() {
    // It hears SIGTERM, and then goes on to say so.
    let deaf = DEAF
        .replacen("trap '' TERM", "told=false; trap 'told=true' TERM", 1)
        .replace("done\n", "! $told || echo >> went_on; done\n");
    let site = Site::new(&study("trials = 1", ONE_SLOT), &deaf);
    let running = site.start_study_with(&[("HPSEARCH_GRACE", "1.5")]);
    site.wait_for("started");
    let began = Instant::now();
    running.signal(Signal::TERM);
    let left = running.end();
    assert!(site.exists("went_on"), "SIGTERM does not end it");
    assert!(
        began.elapsed() >= Duration::from_millis(1_500),
        "it had its grace: {:?}",
        began.elapsed()
    );
    assert_eq!((left.code, site.states()), (143, vec!["queued".to_owned()]), "{}", left.err);
    wait_at_most(Duration::from_secs(2), "its child is gone", || site.processes().is_empty());
}

#[test]
fn a_trial_that_neither_reports_nor_listens_is_paused_all_the_same() {
    let site = Site::new(
        &study("trials = 2", ONE_SLOT),
        &format!("[ $HPSEARCH_TRIAL != 0 ] || {{\n{DEAF}}}\n{REPORT_X}"),
    );
    let running = site.start_study_with(&[("HPSEARCH_GRACE", "0.3")]);
    site.wait_for("started");
    assert_done(&site.run(&["pause", "s", "0"]));
    assert_done(&running.end());
    assert_eq!(site.states(), ["paused", "complete"]);
    assert_eq!(site.processes(), [0; 0]);
}

#[test]
fn a_command_that_completes_without_reading_that_it_is_to_pause_is_complete() {
    let report =
        |step: u32| format!("echo \"@hpsearch {{\\\"step\\\":{step},\\\"loss\\\":$1}}\"\n");
    for (reads, state) in [("", "complete"), ("read -r a; read -r b\n", "paused")] {
        // It ends once the answer to its second report has been written.
        let script = format!("{}{}{reads}", report(1), held(&report(2)));
        let script = format!("{script}while [ ! -e told ]; do sleep 0.02; done\n");
        let site = Site::new(&study("trials = 1", ONE_SLOT), &script);
        let running = site.start_study();
        site.wait_for("started");
        assert_done(&site.run(&["pause", "s", "0"]));
        site.write("go", "");
        wait_until("step 2 is there", || site.trials()[0]["last_step"] == 2);
        site.write("told", "");
        running.end();
        assert_eq!(site.states(), [state], "{reads}");
        assert_done(&site.run(&["verify", "s"]));
    }
}

#[test]
fn what_was_asked_is_done_once_though_the_runner_is_killed_right_after() {
    // How many of the five requests are answered when the runner dies.
    for answered in [0, 1, 3, 5] {
        let site = Site::new(&study("trials = 4", TWO_SLOTS), RESUMABLE);
        let mut running = site.start_study();
        site.wait_for_lines("steps", 3);
        let mut store = site.store();
        let study = store.study("s").unwrap().unwrap().id;
        let mut point = Params::new();
        point.insert("x", 0.5);
        let requests = [
            Request::Enqueue { params: point },
            Request::PauseTrial { trial: TrialNumber(0) },
            Request::Extend {
                by: Extension { trials: 1, time: Duration::ZERO, ..Extension::default() },
            },
            Request::Kill { trial: TrialNumber(1) },
            Request::Note { trial: Some(TrialNumber(1)), text: "kept".to_owned() },
        ];
        let ids: Vec<i64> = requests
            .iter()
            .map(|request| store.request(study, Timestamp(1), request).unwrap())
            .collect();
        wait_until("so many are answered", || {
            let served = |id: &&i64| store.answer(study, **id).unwrap().is_some();
            ids.iter().filter(served).count() >= answered
        });
        running.kill();
        let ended = site.run_study();
        assert_done(&ended);
        for (id, request) in ids.iter().zip(&requests) {
            assert!(
                matches!(store.answer(study, *id).unwrap(), Some(RequestAnswer::Done(_))),
                "{answered} answered: {request:?}"
            );
        }
        let trials = site.trials();
        let asked: Vec<&Json> =
            trials.iter().filter(|trial| trial["params"]["x"] == json!(0.5)).collect();
        assert_eq!(
            (asked.len(), asked[0]["state"].clone()),
            (1, json!("complete")),
            "{answered} answered"
        );
        assert_eq!(
            (&trials[0]["state"], &trials[1]["state"], &trials[1]["reason"]),
            (&json!("paused"), &json!("failed"), &json!("killed on request"))
        );
        // Five places: one is the paused trial's, the killed one's was made up for.
        let complete = trials.iter().filter(|trial| trial["state"] == "complete").count();
        assert_eq!((complete, trials.len()), (4, 6), "{answered} answered: {:?}", site.states());
        let state = store.study_state(study).unwrap();
        assert_eq!((state.extension.trials, state.trials[1].notes.len()), (1, 1));
        site.assert_folds();
    }
}

#[test]
fn odd_reports_do_not_confuse_a_trial() {
    let report = |text: &str| format!("echo '@hpsearch {text}'\n");
    let script: String = [
        report(r#"{"step":1,"loss":3}"#),
        report(r#"{"step":1,"loss":2.5}"#),
        report(r#"{"step":4,"loss":1e308,"never heard of":-1e308}"#),
        report(r#"{"step":2,"loss":2}"#),
        report(r#"{"step":5,"loss":"low"}"#),
        report(r#"{"step":6,"loss":[1]}"#),
        report(r#"{"step":7,"loss":1e999}"#),
        report(r#"{"step":18446744073709551615,"loss":0}"#),
    ]
    .concat();
    let site = Site::new(&study("trials = 1", ONE_SLOT), &script);
    assert_done(&site.run_study());
    let store = site.store();
    let trial = store.study_state(store.study("s").unwrap().unwrap().id).unwrap().trials.remove(0);
    assert_eq!(trial.value, Some(2.0));
    // The same step again replaces it, an earlier one is put in its place, and what is no number is
    // a line of the log.
    assert_eq!(trial.curve[..3], [(1, 2.5), (2, 2.0), (4, 1e308)]);
    let log = site.log(0, 0);
    assert_names(
        &log,
        &["`loss` must be a number, not `\"low\"`", "`loss` must be a number, not `[1]`"],
    );
    assert!(log.contains("18446744073709551615"), "{log}");
    site.assert_folds();
}

#[test]
fn a_trial_that_waits_for_the_next_run_can_be_killed_without_one() {
    let site = Site::finished("trials = 1");
    assert_done(&site.run(&["enqueue", "s", "x=0.5"]));
    let killed = site.run(&["kill", "s", "1"]);
    assert_done(&killed);
    assert_names(&killed.err, &["trial 1 counts as failed"]);
    assert_eq!(
        (site.states(), site.trials()[1]["reason"].clone()),
        (vec!["complete".to_owned(), "failed".to_owned()], json!("killed on request"))
    );
    assert_done(&site.run_study());
    assert_eq!(site.trials().len(), 2);
    site.assert_folds();
}
