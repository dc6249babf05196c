//! What trials print for hpsearch: what is taken of it, what is not, and where that is said.

use std::collections::BTreeMap;

use hpsearch::engine::simulator::Simulation;
use hpsearch::engine::verify::{StoredEvent, verify};
use hpsearch::study::decision::{Decision, Reason};
use hpsearch::study::event::{DecisionEvent, Event, Seq, StateEvent, TrialEvent};
use hpsearch::study::program::Program;
use hpsearch::study::spec::{AlgorithmSpec, StudySpec};
use hpsearch::study::state::StudyState;
use hpsearch::study::step::StepUnit;
use hpsearch::study::trial::TrialState;
use hpsearch::{Study, TrialEnd};
use serde_json::{Value as Json, json};

use crate::harness::{
    Ended, ONE_SLOT, Site, asha, assert_done, assert_names, loss, says, study, wait_until,
};

/// A study of `trials` trials whose steps are counted in `unit`.
fn with_step_unit(unit: &str, trials: u64, script: &str) -> Site {
    let text = study(&format!("trials = {trials}\ncount = \"all\""), ONE_SLOT)
        .replace("step = \"step\"", &format!("step = \"{unit}\""));
    Site::new(&text, script)
}

/// The reports of a trial: metric, step and value, in that order.
fn reports(site: &Site, trial: i64) -> Vec<(String, i64, f64)> {
    let store = site.database();
    let sql = "SELECT name, step, value FROM report JOIN metric ON metric.id = metric_id WHERE \
        trial_id % 1000000000 = ?1 ORDER BY name, step";
    let mut statement = store.prepare(sql).unwrap();
    statement
        .query_map([trial], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

fn steps(site: &Site, trial: i64, metric: &str) -> Vec<(i64, f64)> {
    reports(site, trial)
        .into_iter()
        .filter(|(name, ..)| name == metric)
        .map(|(_, step, value)| (step, value))
        .collect()
}

fn remarks(site: &Site, trial: u64) -> Json {
    let shown = site.run(&["show", "s", &trial.to_string(), "--json"]);
    assert_done(&shown);
    shown.json::<Json>()["remarks"].clone()
}

/// The lines of a run that hold `text`.
fn lines_with<'a>(ended: &'a Ended, text: &str) -> Vec<&'a str> {
    ended.out.lines().chain(ended.err.lines()).filter(|line| line.contains(text)).collect()
}

#[test]
fn what_is_not_taken_is_said_at_its_first_occurrence_and_counted() {
    let script = says(&[
        "{\"step\":0.5,\"loss\":9}",
        "{\"step\":1,\"loss\":0.5,\"lr\":\"low\"}",
        "{\"step\":1.5,\"loss\":9}",
        "nonsense",
    ]);
    let site = with_step_unit("step", 3, &script);
    let ended = site.run_study();
    assert_done(&ended);
    assert_eq!(reports(&site, 0), [("loss".to_owned(), 1, 0.5)]);
    // Once each in a run of three trials, and the number at each trial's end.
    for said in [
        "`step` must be an integer",
        "`lr` must be a number, not `\"low\"`: this value is ignored",
        "`nonsense` is not JSON",
    ] {
        let lines = lines_with(&ended, said);
        assert!(lines.len() == 1 && lines[0].starts_with("trial 0: "), "{said}: {lines:#?}");
    }
    for trial in 0..3 {
        let end = format!("; 4 lines not taken as printed: `hpsearch show s {trial}`");
        assert_eq!(lines_with(&ended, &end).len(), 1, "{}{}", ended.out, ended.err);
        let kinds: BTreeMap<String, u64> = remarks(&site, trial)
            .as_array()
            .unwrap()
            .iter()
            .map(|remark| {
                (remark["kind"].as_str().unwrap().to_owned(), remark["count"].as_u64().unwrap())
            })
            .collect();
        assert_eq!(
            kinds,
            BTreeMap::from([
                ("not_json".to_owned(), 1),
                ("step".to_owned(), 2),
                ("value".to_owned(), 1)
            ])
        );
    }
    let shown = site.run(&["show", "s", "1"]);
    assert_names(&shown.out, &["attempt 0: 2 times in this attempt: `step` must be an integer"]);
    let journal = site.run(&["events", "s"]);
    assert_names(&journal.out, &["trial 1: `nonsense` is not JSON"]);
}

#[test]
fn a_line_may_name_the_studys_step_unit_or_leave_the_step_out() {
    let script = says(&[
        "{\"epoch\":1,\"loss\":4}",
        "{\"epoch\":2,\"loss\":3}",
        "{\"loss\":2}",
        "{\"step\":7,\"epoch\":6.5,\"loss\":1}",
        "{\"loss\":0.5}",
    ]);
    let site = with_step_unit("epoch", 1, &script);
    let ended = site.run_study();
    assert_done(&ended);
    assert_eq!(steps(&site, 0, "loss"), [(1, 4.0), (2, 3.0), (3, 2.0), (7, 1.0), (8, 0.5)]);
    assert_eq!(steps(&site, 0, "epoch"), [(7, 6.5)]);
    assert_eq!(remarks(&site, 0), json!([]));
    assert_eq!(
        lines_with(&ended, "complete with 0.5 at epoch 8").len(),
        1,
        "{}{}",
        ended.out,
        ended.err
    );
    assert_eq!(lines_with(&ended, " step "), Vec::<&str>::new());
    // In a study that counts steps an epoch is another axis, or a metric beside the step.
    let site = with_step_unit(
        "step",
        1,
        &says(&["{\"epoch\":0.5,\"loss\":4}", "{\"step\":9,\"epoch\":1,\"loss\":3}"]),
    );
    assert_done(&site.run_study());
    assert_eq!(
        (steps(&site, 0, "loss"), steps(&site, 0, "epoch")),
        (vec![(9, 3.0)], vec![(9, 1.0)])
    );
    assert_eq!(remarks(&site, 0), json!([]));
}

#[test]
fn after_a_resume_lines_are_counted_from_the_checkpoint() {
    let script = "first=1; [ -z \"$HPSEARCH_RESUME\" ] || first=3\n\
        for n in $(seq $first 6); do\n  echo \"@hpsearch {\\\"loss\\\":0.$n}\"; read -r verdict\n\
          echo \"$n\" > \"$HPSEARCH_CHECKPOINT_DIR/$n\"\n\
          [ $n = 2 ] && [ -z \"$HPSEARCH_RESUME\" ] && echo \"@hpsearch \
          {\\\"checkpoint\\\":\\\"2\\\",\\\"step\\\":2}\" && echo '@hpsearch {\"loss\":0.9}' && \
          kill -9 $$\ndone\nexit 0\n";
    let text = study(
        "trials = 1\ncount = \"all\"",
        &format!("{ONE_SLOT}[retry]\nmax = 1\non = [\"worker_lost\"]\n"),
    );
    let site = Site::new(&text, script);
    let ended = site.run_study();
    assert_done(&ended);
    let expected: Vec<(i64, f64)> =
        (1..=6).map(|step| (step, format!("0.{step}").parse().unwrap())).collect();
    assert_eq!(
        steps(&site, 0, "loss"),
        expected,
        "the third report of the first attempt is replaced"
    );
    assert_eq!(site.trials()[0]["attempts"], json!(2));
    // The failure is told once: with the retry.
    assert_eq!(lines_with(&ended, "signal 9").len(), 1, "{}{}", ended.out, ended.err);
    assert_eq!(lines_with(&ended, "retry 1 of 1").len(), 1, "{}{}", ended.out, ended.err);
}

#[test]
fn a_message_behind_a_bar_of_progress_is_found() {
    let script = "printf ' 10%%|#   |\\r 50%%|##  |\\r@hpsearch {\"step\":1,\"loss\":3}\\n'\n\
        printf '@hpsearch {\"step\":2,\"loss\":2}\\r\\n'\nprintf '100%%|####|\\r\\n'\n\
        printf '@hpsearch {\"step\":3,\"loss\":1}\\r'\n\
        read -r a; read -r b; read -r c; echo \"$c\"\n";
    let site = with_step_unit("step", 1, script);
    assert_done(&site.run_study());
    assert_eq!(steps(&site, 0, "loss"), [(1, 3.0), (2, 2.0), (3, 1.0)]);
    // A line that ends with a return alone is answered without waiting for more.
    let log = std::fs::read_to_string(site.path("runs/files/s/trial-0/attempt-0.log")).unwrap();
    assert_eq!(
        log,
        " 10%|#   |\r 50%|##  |\r100%|####|\r\n{\"reason\":\"\",\"verdict\":\"continue\"}\n"
    );
}

#[test]
fn a_message_in_the_wrong_place_is_not_taken_and_said() {
    let script = "printf 'epoch 1: @hpsearch {\"step\":9,\"loss\":-9}\\n'\necho '@hpsearch \
        {\"step\":8,\"loss\":-8}' >&2\n\
        echo \"+ echo '@hpsearch {\\\"step\\\":7,\\\"loss\\\":-7}'\"\necho 'print it as @hpsearch \
        and JSON'\necho '@hpsearch {\"step\":1,\"loss\":1}'\n";
    let site = with_step_unit("step", 1, script);
    let ended = site.run_study();
    assert_done(&ended);
    assert_eq!(reports(&site, 0), [("loss".to_owned(), 1, 1.0)]);
    let told = remarks(&site, 0);
    let mut kinds: Vec<&str> =
        told.as_array().unwrap().iter().map(|remark| remark["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["misplaced", "standard_error"]);
    assert_eq!(
        lines_with(&ended, "follows other text on its line").len(),
        1,
        "{}{}",
        ended.out,
        ended.err
    );
    assert_eq!(
        lines_with(&ended, "was printed on standard error").len(),
        1,
        "{}{}",
        ended.out,
        ended.err
    );
}

#[test]
fn metrics_of_one_step_are_merged_and_the_last_value_stands() {
    let lines = [
        "{\"step\":1,\"train/loss\":0.9}",
        "{\"step\":1,\"loss\":0.7}",
        "{\"step\":1,\"f1\":0.5}",
        "{\"step\":2,\"loss\":0.6}",
        "{\"step\":2,\"loss\":0.4,\"f1\":0.6}",
    ];
    let site = with_step_unit("step", 1, &says(&lines));
    let ended = site.run_study();
    assert_done(&ended);
    let named = |name: &str, step, value| (name.to_owned(), step, value);
    assert_eq!(
        reports(&site, 0),
        [
            named("f1", 1, 0.5),
            named("f1", 2, 0.6),
            named("loss", 1, 0.7),
            named("loss", 2, 0.4),
            named("train/loss", 1, 0.9)
        ]
    );
    let best: Json = site.json(&["best", "s", "--json"]);
    assert_eq!(best["trial"]["metrics"], json!({ "loss": 0.4, "f1": 0.6 }));
    let told = remarks(&site, 0);
    assert_eq!(
        (told.as_array().unwrap().len(), &told[0]["kind"]),
        (1, &json!("repeated")),
        "{told}"
    );
    assert_eq!(
        lines_with(&ended, "step 2 was reported twice: the later values count, the verdict stays")
            .len(),
        1
    );
    let verified = site.run(&["verify", "s"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
}

#[test]
fn a_line_with_metrics_and_a_checkpoint_says_both() {
    let script = "echo state > \"$HPSEARCH_CHECKPOINT_DIR/a\"\necho '@hpsearch \
        {\"step\":3,\"checkpoint\":\"a\",\"loss\":2}'\n";
    let site = with_step_unit("step", 1, script);
    assert_done(&site.run_study());
    assert_eq!(reports(&site, 0), [("loss".to_owned(), 3, 2.0)]);
    let best: Json = site.json(&["best", "s", "--json"]);
    assert!(
        best["trial"]["checkpoint"].as_str().is_some_and(|path| path.ends_with("checkpoints/a")),
        "{best}"
    );
}

#[test]
fn a_checkpoint_that_is_not_there_is_said_at_its_first_occurrence() {
    let script = says(&[
        "{\"step\":1,\"loss\":1}",
        "{\"checkpoint\":\"gone\",\"step\":1}",
        "{\"checkpoint\":\"gone\",\"step\":1}",
    ]);
    let site = with_step_unit("step", 1, &script);
    let ended = site.run_study();
    assert_done(&ended);
    let lines = lines_with(&ended, "this checkpoint is rejected: there is no `");
    assert!(
        lines.len() == 1
            && lines[0].contains(
                "the trial cannot continue from \
        it"
            ),
        "{lines:#?}"
    );
    let told = remarks(&site, 0);
    assert_eq!((&told[0]["kind"], &told[0]["count"]), (&json!("checkpoint"), &json!(2)), "{told}");
}

#[test]
fn a_closure_that_reports_a_step_twice_follows_the_same_rules() {
    let finished = Study::minimize("twice", "loss")
        .float("x", 0.0, 1.0)
        .trials(1)
        .run(|trial| {
            trial.report_metrics(1, BTreeMap::from([("train".to_owned(), 3.0)]));
            trial.report(1, 2.0);
            trial.report(1, 1.0);
            trial.report_metrics(1, BTreeMap::from([("f1".to_owned(), 0.5)]));
            Ok(TrialEnd::Finished)
        })
        .unwrap();
    let trial = &finished.state.trials[0];
    assert_eq!((trial.state, trial.value), (TrialState::Complete, Some(1.0)));
    let last: Vec<(&str, f64)> = trial.last_metrics.iter().collect();
    assert_eq!(last, [("f1", 0.5), ("loss", 1.0), ("train", 3.0)]);
}

/// A study of a command that counts epochs.
fn epochs(pruner: AlgorithmSpec) -> StudySpec {
    let program = Program::Command {
        run: Vec::new(),
        cwd: std::path::PathBuf::new(),
        env: BTreeMap::new(),
        args: Default::default(),
        metrics: Default::default(),
    };
    StudySpec { program, step: StepUnit::Epoch, ..crate::harness::spec(24, "random", pruner) }
}

#[test]
fn reasons_name_the_studys_step_unit_and_journals_with_older_words_still_verify() {
    for (pruner, names_the_unit) in [
        (asha("stop"), true),
        (asha("promote"), true),
        (crate::harness::pruner_named("median").with("n_startup_trials", 2), true),
    ] {
        let simulation = Simulation::new(epochs(pruner.clone()), 2, 9, loss);
        let run = simulation.run(&[]).unwrap();
        let events = run
            .turns
            .iter()
            .flat_map(|turn| turn.events.iter().map(|event| (turn.at, event.clone())));
        let journal: Vec<StoredEvent> =
            (1..).zip(events).map(|(seq, (at, event))| (Seq(seq), at, event)).collect();
        let reasons: Vec<String> = journal
            .iter()
            .filter_map(|(_, _, event)| match event {
                Event::Trial(_, TrialEvent::Decision(DecisionEvent::Decided { verdict, .. })) => {
                    verdict.reason().map(ToString::to_string)
                }
                Event::Trial(_, TrialEvent::State(StateEvent::Queued { reason, .. })) => {
                    Some(reason.clone())
                }
                _ => None,
            })
            .collect();
        assert_eq!(
            reasons.iter().any(|reason| reason.contains("epoch ")),
            names_the_unit,
            "{reasons:#?}"
        );
        assert!(!reasons.iter().any(|reason| reason.contains("step ")), "{reasons:#?}");
        let long = |reason: &&String| {
            reason.split(|char: char| !char.is_ascii_digit()).any(|digits| digits.len() > 9)
        };
        assert_eq!(reasons.iter().find(long), None);
        let verdicts = |journal: &[StoredEvent]| {
            let mut study_state = StudyState::new(&simulation.spec);
            journal.iter().for_each(|(_, at, event)| study_state.apply(*at, event));
            let verified =
                verify(&[(Seq(0), simulation.spec.clone())], journal, &study_state, &mut |_, _| {})
                    .unwrap();
            assert_eq!(verified.difference, None);
            verified.verdicts
        };
        assert!(verdicts(&journal) > 0);
        let older = |reason: &str| reason.replace("epoch ", "step ");
        let recorded = |reason: &Reason| Reason::Recorded(older(&reason.to_string()));
        let aged: Vec<StoredEvent> = journal
            .iter()
            .cloned()
            .map(|(seq, at, event)| {
                let event = match event {
                    Event::Trial(
                        trial,
                        TrialEvent::Decision(DecisionEvent::Decided { step, verdict }),
                    ) => {
                        let verdict = match verdict {
                            Decision::Continue(reason) => {
                                Decision::Continue(reason.map(|reason| recorded(&reason)))
                            }
                            Decision::Pause(reason) => Decision::Pause(recorded(&reason)),
                            Decision::Stop(reason) => Decision::Stop(recorded(&reason)),
                        };
                        Event::of(trial, DecisionEvent::Decided { step, verdict })
                    }
                    Event::Trial(
                        trial,
                        TrialEvent::State(StateEvent::Queued { until, reason }),
                    ) => Event::of(trial, StateEvent::Queued { until, reason: older(&reason) }),
                    Event::Trial(trial, TrialEvent::State(StateEvent::Paused { reason, hold })) => {
                        Event::of(trial, StateEvent::Paused { reason: older(&reason), hold })
                    }
                    Event::Trial(
                        trial,
                        TrialEvent::State(StateEvent::Finished { state, value, reason, .. }),
                    ) => Event::Trial(
                        trial,
                        TrialEvent::finished(state, value, reason.map(|reason| older(&reason))),
                    ),
                    other => other,
                };
                (seq, at, event)
            })
            .collect();
        assert_ne!(format!("{aged:?}"), format!("{journal:?}"));
        assert_eq!(verdicts(&aged), verdicts(&journal));
    }
}

#[test]
fn a_trial_that_continues_names_the_studys_step_unit_and_older_tables_still_verify() {
    let script = "for n in $(seq ${HPSEARCH_UNTIL:-3}); do\n  \
                  echo state > \"$HPSEARCH_CHECKPOINT_DIR/$n\"\n  \
                  echo \"@hpsearch {\\\"epoch\\\":$n,\\\"loss\\\":$((10 - \
                  n)),\\\"checkpoint\\\":\\\"$n\\\"}\"\ndone\n";
    let site = with_step_unit("epoch", 1, script);
    assert_done(&site.run_study());
    let asked = site.run(&["continue", "s", "0", "--until", "9"]);
    assert!(
        asked.code == 0 && asked.err.contains("trial 0 continues from epoch 3 to epoch 9"),
        "{}",
        asked.err
    );
    assert_eq!(site.trials()[0]["reason"], json!("continues to epoch 9"));
    let store = site.database();
    let verifies = |reason: &str| {
        store.execute("UPDATE trial SET reason = ?1", [reason]).unwrap();
        site.run(&["verify", "s"]).code
    };
    assert_eq!((verifies("continues to epoch 9"), verifies("continues to step 9")), (0, 0));
    assert_ne!(verifies("continues to step 8"), 0);
}

/// A trial whose attempts print these lines each; all but the last fail, and are retried.
fn retried(attempts: &[&[&str]]) -> Site {
    let lines = attempts.iter().enumerate().map(|(attempt, lines)| {
        format!("if [ ! -e tried.{attempt} ]; then\n{}touch tried.{attempt}\n", says(lines))
    });
    let mut script = lines.collect::<Vec<_>>().join("exit 7\nfi\n");
    script.push_str("fi\n");
    let site = with_step_unit("step", 1, &script);
    for _ in 1..attempts.len() {
        assert!(site.run_study().code != 0);
        assert_done(&site.run(&["retry", "s", "0"]));
    }
    assert_done(&site.run_study());
    // What the journal gives, the tables have.
    assert_done(&site.run(&["verify", "s"]));
    site
}

#[test]
fn an_attempt_that_starts_over_has_none_of_the_reports_before() {
    let first = ["{\"step\":1,\"loss\":0.9}", "{\"step\":3,\"loss\":0.001}"];
    let first = [&first[..], &["{\"step\":9,\"loss\":0.002}"]].concat();
    let next = ["{\"step\":1,\"loss\":0.8}", "{\"step\":2,\"loss\":0.5}"];
    let site = retried(&[&first, &next]);
    assert_eq!(steps(&site, 0, "loss"), [(1, 0.8), (2, 0.5)]);
    let shown = site.json(&["best", "s", "--json"]);
    assert_eq!(shown["trial"]["value"], json!(0.5), "{shown}");
}

#[test]
fn what_an_attempt_superseded_stays_so_when_it_fails_as_well() {
    let first = ["{\"step\":1,\"loss\":0.9}", "{\"step\":3,\"loss\":0.001}"];
    let site = retried(&[&first, &["{\"step\":2,\"loss\":0.8}"], &["{\"step\":5,\"loss\":0.5}"]]);
    assert_eq!(steps(&site, 0, "loss"), [(1, 0.9), (2, 0.8), (5, 0.5)]);
}

#[test]
fn an_attempt_that_is_lost_with_its_runner_supersedes_as_well() {
    let first = says(&["{\"step\":1,\"loss\":0.9}", "{\"step\":3,\"loss\":0.001}"]);
    let (second, third) =
        (says(&["{\"step\":1,\"loss\":0.8}"]), says(&["{\"step\":5,\"loss\":0.5}"]));
    let site = with_step_unit(
        "step",
        1,
        &format!(
            "case $HPSEARCH_ATTEMPT in\n0)\n{first}exit 7;;\n1)\n{second}touch said; sleep \
             309;;\n*)\n{third}esac\n"
        ),
    );
    assert!(site.run_study().code != 0);
    assert_done(&site.run(&["retry", "s", "0"]));
    let mut running = site.start_study();
    site.wait_for("said");
    wait_until("it is stored", || steps(&site, 0, "loss").first() == Some(&(1, 0.8)));
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    assert_done(&site.run_study());
    assert_eq!(steps(&site, 0, "loss"), [(1, 0.8), (5, 0.5)]);
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn of_several_objectives_each_is_superseded_by_itself() {
    let script = format!(
        "if [ ! -e tried ]; then\n{}touch tried; exit 7\nfi\n{}",
        says(&["{\"step\":1,\"loss\":1,\"size\":9}", "{\"step\":3,\"loss\":0.9,\"size\":1}"]),
        says(&["{\"step\":1,\"loss\":0.5,\"size\":8}", "{\"step\":3,\"loss\":0.2}"])
    );
    let objective = |metric: &str| {
        format!("[[study.objective]]\nmetric = \"{metric}\"\ndirection = \"minimize\"\n")
    };
    let text = study("trials = 1\ncount = \"all\"", ONE_SLOT)
        .replace("metric = \"loss\"\ndirection = \"minimize\"\n", "")
        .replace("[space]", &format!("{}{}[space]", objective("loss"), objective("size")));
    let site = Site::new(&text, &script);
    assert!(site.run_study().code != 0);
    assert_done(&site.run(&["retry", "s", "0"]));
    assert_done(&site.run_study());
    // The size at step 3 was of the attempt that failed.
    assert_eq!(steps(&site, 0, "size"), [(1, 8.0)]);
    assert_eq!(site.json(&["trials", "s", "--json"])["trials"][0]["values"], json!([0.2, 8.0]));
    assert_done(&site.run(&["verify", "s"]));
}

/// `say STEP LOSS` and `save STEP`; the files tell whose they are.
const SAVES: &str = "say() { echo \"@hpsearch {\\\"step\\\":$1,\\\"loss\\\":0$2}\"; }
save() {
  echo \"attempt $HPSEARCH_ATTEMPT step $1\" > \"$HPSEARCH_CHECKPOINT_DIR/ck-$1\"
  echo \"@hpsearch {\\\"step\\\":$1,\\\"checkpoint\\\":\\\"ck-$1\\\"}\"
}
";

/// A trial whose attempts say and save this; the first `killed` ones are killed.
fn saving(attempts: &[&str], killed: usize, rest: &str) -> Site {
    let cases = attempts.iter().enumerate().map(|(index, lines)| {
        let end = if index < killed { "; kill -9 $$" } else { "" };
        format!("{index}) {lines}{end};;\n")
    });
    let script = format!("{SAVES}case $HPSEARCH_ATTEMPT in\n{}esac\n", cases.collect::<String>());
    let retry = "[retry]\nmax = 5\non = [\"worker_lost\"]";
    let rest = format!("{ONE_SLOT}\n{retry}\n{rest}");
    Site::new(&study("trials = 1\ncount = \"all\"", &rest), &script)
}

/// The steps of the trial's listed checkpoints, and what the exported one holds.
fn exported(site: &Site, name: &str) -> (Vec<u64>, String) {
    let shown = site.json(&["show", "s", "0", "--json"]);
    let listed = shown["checkpoints"].as_array().unwrap().iter();
    let steps = listed.map(|saved| saved["step"].as_u64().unwrap()).collect();
    assert_done(&site.run(&["export", "s", "-o", "model"]));
    (steps, std::fs::read_to_string(site.path("model").join(name)).unwrap())
}

#[test]
fn the_exported_checkpoint_is_not_that_of_an_attempt_that_was_started_over() {
    let first = "say 1 .9; save 2; say 2 .8; say 3 .7; say 4 .6; save 5; say 5 .9; say 6 .95";
    let next = "say 1 .8; say 2 .6; save 3; say 3 .5; say 4 .4; say 5 .1; save 6; say 6 .3";
    for kept in ["", "while_running = \"needed\"", "keep = \"all\""] {
        let site = saving(&[first, next], 1, &format!("[checkpoints]\n{kept}"));
        assert_done(&site.run_study());
        let (steps, held) = exported(&site, "ck-6");
        assert_eq!(held, "attempt 1 step 6\n", "{kept}");
        assert_eq!(steps, if kept == "keep = \"all\"" { vec![3, 6] } else { vec![6] });
        assert_done(&site.run(&["verify", "s"]));
    }
}

#[test]
fn what_a_longer_attempt_saved_is_gone_once_the_one_after_has_started_over() {
    let all = |last: usize| -> String {
        (1..=last).map(|step| format!("save {step}; say {step} .{}{last};", 9 - step)).collect()
    };
    let resumed = "cp \"$HPSEARCH_RESUME\" resumed; save 4; say 4 .1";
    let site = saving(
        &[all(6).trim_end_matches(';'), all(3).trim_end_matches(';'), resumed],
        2,
        "[checkpoints]\nwhile_running = \"needed\"",
    );
    assert_done(&site.run_study());
    let resumed = std::fs::read_to_string(site.path("resumed")).unwrap();
    assert_eq!(resumed, "attempt 1 step 3\n");
    assert_eq!(exported(&site, "ck-4"), (vec![4], "attempt 2 step 4\n".to_owned()));
}

#[test]
fn an_attempt_that_is_lost_with_its_runner_supersedes_checkpoints_as_well() {
    let first = "say 1 .9; save 2; say 2 .8; save 3; say 3 .01";
    let second = "say 1 .5; save 2; say 2 .4; touch said; sleep 309";
    let site = saving(&[first, second, "true"], 1, "");
    let mut running = site.start_study();
    site.wait_for("said");
    wait_until("it is stored", || steps(&site, 0, "loss").get(1) == Some(&(2, 0.4)));
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    assert_done(&site.run_study());
    assert_eq!(steps(&site, 0, "loss"), [(1, 0.5), (2, 0.4)]);
    assert_eq!(exported(&site, "ck-2"), (vec![2], "attempt 1 step 2\n".to_owned()));
    let shown = site.run(&["show", "s", "0"]);
    assert_names(&shown.out, &["reports", "step 1 to 2 by attempt 1"]);
    assert_done(&site.run(&["verify", "s"]));
}

/// A trial of one limit, `size <= 10`, whose attempts print these lines each.
fn limited_size(objectives: &str, attempts: [&[&str]; 2]) -> Site {
    let [first, next] = attempts.map(says);
    let script = format!("if [ ! -e tried ]; then\n{first}touch tried; exit 7\nfi\n{next}");
    let text = study("trials = 1\ncount = \"all\"", ONE_SLOT).replace(
        "[space]",
        &format!("{objectives}[[constraint]]\nlimit = \"size <= 10\"\n[space]"),
    );
    let text = match objectives {
        "" => text,
        _ => text.replace("metric = \"loss\"\ndirection = \"minimize\"\nstep", "step"),
    };
    let site = Site::new(&text, &script);
    assert!(site.run_study().code != 0);
    assert_done(&site.run(&["retry", "s", "0"]));
    let _failed_or_done = site.run_study();
    assert_done(&site.run(&["verify", "s"]));
    site
}

#[test]
fn a_limit_does_not_see_a_metric_of_an_attempt_that_was_started_over() {
    let first = ["{\"step\":1,\"loss\":0.01,\"size\":100}"];
    let site = limited_size("", [&first, &["{\"step\":1,\"loss\":0.2}"]]);
    let trial = &site.trials()[0];
    assert_names(trial["reason"].as_str().unwrap(), &["`size` was never reported"]);
    // One that continued need not report it again.
    let site = limited_size("", [&first, &["{\"step\":2,\"loss\":0.2}"]]);
    assert_eq!(site.trials()[0]["violation"], json!(90.0));
}

#[test]
fn a_limit_that_prunes_does_not_see_a_metric_of_an_attempt_that_was_started_over() {
    let first = says(&["{\"step\":1,\"loss\":0.3}", "{\"step\":3,\"size\":100}"]);
    let next = ["{\"step\":1,\"loss\":0.2}", "{\"step\":2,\"loss\":0.1}"];
    let next = says(&[&next[..], &["{\"step\":3,\"loss\":0.1,\"size\":5}"]].concat());
    let limit = "[[constraint]]\nlimit = \"size <= 10\"\nprune = true\n";
    let text = study("trials = 1\ncount = \"all\"", &format!("{limit}{ONE_SLOT}"));
    let script = format!("if [ ! -e tried ]; then\n{first}touch tried; exit 7\nfi\n{next}");
    let retried = |is_stored: bool| {
        let site = Site::new(&text, &script);
        assert!(site.run_study().code != 0);
        for table in ["study", "study_revision"].into_iter().filter(|_| is_stored) {
            // As studies were stored before.
            let field = "'\"pruning_limit_rule\":\"counting_attempts\",'";
            let sql = format!("UPDATE {table} SET spec = replace(spec, {field}, '')");
            assert_eq!(site.database().execute(&sql, []).unwrap(), 1, "{table}");
        }
        assert_done(&site.run(&["retry", "s", "0"]));
        let _done_or_pruned = site.run_study();
        assert_done(&site.run(&["verify", "s"]));
        let trial = site.trials()[0].clone();
        (trial["state"].clone(), trial["violation"].clone(), trial["reason"].clone())
    };
    assert_eq!(retried(false), (json!("complete"), Json::Null, Json::Null));
    let violated = json!("`size <= 10` is violated by 90 at step 2");
    assert_eq!(retried(true), (json!("pruned"), Json::Null, violated));
}

#[test]
fn an_objective_that_only_an_attempt_before_reported_is_missing() {
    let objectives = "[[study.objective]]\nmetric = \"loss\"\ndirection = \"minimize\"\n\
                      [[study.objective]]\nmetric = \"size\"\ndirection = \"minimize\"\n";
    let first = ["{\"step\":0,\"size\":1}", "{\"step\":1,\"loss\":0.5}"];
    let site = limited_size(objectives, [&first, &["{\"step\":1,\"loss\":0.3}"]]);
    let trial = &site.trials()[0];
    assert_eq!(trial["state"], json!("failed"));
    assert_names(trial["reason"].as_str().unwrap(), &["no value of `size`"]);
}

#[test]
fn the_value_of_folds_is_their_mean() {
    let folds = |values: [f64; 3]| -> String {
        let report = |(step, loss): (usize, &f64)| format!("{{\"step\":{step},\"loss\":{loss}}}");
        let lines: Vec<String> = (1..).zip(&values).map(report).collect();
        says(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let script = format!(
        "if [ $HPSEARCH_TRIAL = 0 ]; then\n{}else\n{}fi\n",
        folds([0.1, 0.9, 0.8]),
        folds([0.5, 0.5, 0.5])
    );
    let text = study("trials = 2\ncount = \"all\"", ONE_SLOT)
        .replace("step = \"step\"", "step = \"step\"\nvalue = \"mean\"");
    let site = Site::new(&text, &script);
    assert_done(&site.run_study());
    let trials = site.json(&["trials", "s", "--json"]);
    // The best first.
    let values = [0, 1].map(|place: usize| trials["trials"][place]["value"].as_f64().unwrap());
    assert!(values[0] == 0.5 && (values[1] - 0.6).abs() < 1e-12, "{values:?}");
    assert_eq!(site.json(&["best", "s", "--json"])["trial"]["number"], json!(1));
    assert_done(&site.run(&["verify", "s"]));
    let shown = site.run(&["show", "s"]);
    assert_names(&shown.out, &["the mean of a trial's reports"]);
}

#[test]
fn a_trial_that_was_pruned_among_folds_is_compared_by_the_mean_of_its_reports() {
    let first = says(&["{\"step\":1,\"loss\":0.3,\"size\":1}", "{\"step\":2,\"loss\":0.5}"]);
    // Its last fold alone would be the best.
    let next = says(&["{\"step\":1,\"loss\":0.9}", "{\"step\":2,\"loss\":0.1,\"size\":9}"]);
    let script = format!("if [ $HPSEARCH_TRIAL = 0 ]; then\n{first}else\n{next}fi\n");
    let limit = "[[constraint]]\nlimit = \"loss + size < 5\"\nprune = true\n";
    let text = study("trials = 2\ncount = \"all\"", &format!("{limit}{ONE_SLOT}"))
        .replace("step = \"step\"", "step = \"step\"\nvalue = \"mean\"");
    let site = Site::new(&text, &script);
    assert_done(&site.run_study());
    assert_eq!(site.json(&["show", "s", "1", "--json"])["trial"]["state"], json!("pruned"));
    let shown = site.run(&["show", "s", "1"]);
    assert_names(&shown.out, &["last report 0.1 at step 2", "mean so far 0.5 of 2 reports"]);
    let explained = site.run(&["explain", "s", "1"]);
    let place = "0.5 is the mean of its reports; among complete trials it would have rank 2 of 2";
    assert_names(&explained.out, &[place]);
    assert!(!site.run(&["show", "s", "0"]).out.contains("mean so far"));
}

#[test]
fn an_attempt_that_continues_by_itself_keeps_the_reports_before() {
    let first =
        ["{\"step\":1,\"loss\":0.9}", "{\"step\":2,\"loss\":0.1}", "{\"step\":5,\"loss\":0}"];
    let site = retried(&[&first, &["{\"step\":3,\"loss\":0.4}"]]);
    assert_eq!(steps(&site, 0, "loss"), [(1, 0.9), (2, 0.1), (3, 0.4)]);
    let shown = site.json(&["best", "s", "--json"]);
    assert_eq!(shown["trial"]["value"], json!(0.1), "{shown}");
}

#[test]
fn a_value_from_before_the_last_report_became_nan_says_so() {
    let script = says(&["{\"step\":1,\"loss\":0.5}", "{\"step\":2,\"loss\":NaN}"]);
    let site = with_step_unit("step", 1, &script);
    assert_done(&site.run_study());
    let trial = &site.json(&["trials", "s", "--json"])["trials"][0];
    assert_eq!(trial["value"], json!(0.5));
    assert_eq!(trial["reason"], json!("its last report, at step 2, is NaN"));
}
