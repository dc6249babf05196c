//! What a study says of itself on its first day: exit codes, the first failures, limits of time,
//! numbers that are so.

use std::fs;

use hpsearch::engine::RunOutcome;
use hpsearch::engine::simulator::{Fault, Simulation};
use hpsearch::study::event::{Event, StudyEvent};
use hpsearch::study::params::Params;
use hpsearch::study::program::Program;
use hpsearch::study::spec::{AlgorithmSpec, FailureCause, StudySpec};
use hpsearch::study::trial::TrialState;
use serde_json::{Value as Json, json};

use crate::harness::{
    Ended, KEEP_ALL, ONE_SLOT, REPORT_X, RESUMABLE, Site, asha, assert_code, assert_done,
    assert_names, assert_says, decisions, journal, loss, pruner_named, spec, study, verified,
    wait_until,
};

#[test]
fn a_study_of_which_no_trial_has_a_value_ends_with_3_and_its_trials_stay_complete() {
    let site =
        Site::new(&study("trials = 4", ONE_SLOT), "echo '@hpsearch {\"step\":1,\"loss\":NaN}'\n");
    let ended = site.run_study();
    assert_code(&ended, 3);
    assert_says(&ended, &["none of 4 complete trials has a value", "NaN"]);
    assert_eq!(site.states(), vec!["complete"; 4]);
    assert_eq!(site.trials()[0]["reason"], "its value is NaN: it cannot be the best");
    let best = site.run(&["best", "s"]);
    assert_eq!(best.code, 3);
    assert_says(&best, &["none of the 4 complete trials of `s` has a value"]);
    assert_says(&site.run(&["show", "s"]), &["none of 4 complete trials has a value"]);
    // Run again, it says the same.
    assert_eq!(site.run_study().code, 3);
    site.assert_folds();
}

#[test]
fn a_study_of_which_every_trial_breaks_a_limit_ends_with_3() {
    let limit = format!("{ONE_SLOT}[[constraint]]\nlimit = \"size < 1\"\n");
    let site = Site::new(
        &study("trials = 4", &limit),
        "echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1,\\\"size\\\":2}\"\n",
    );
    let ended = site.run_study();
    assert_code(&ended, 3);
    assert_says(&ended, &["each of 4 complete trials violates a limit"]);
    assert_eq!((site.states(), site.run(&["best", "s"]).code), (vec!["complete".to_owned(); 4], 3));
    // One that keeps it is enough.
    site.write("study.toml", study("trials = 5", &limit.replace("size < 1", "size < 3")));
    assert_done(&site.run_study_with(&["--accept"]));
}

/// A script whose trials all end in the same way.
fn failing(budget: &str, script: &str) -> (Site, Ended) {
    let site = Site::new(&study(budget, ONE_SLOT), script);
    let ended = site.run_study();
    (site, ended)
}

#[test]
fn three_first_trials_that_fail_in_the_same_way_end_a_study() {
    // The number is that of the configuration.
    let (site, ended) = failing("trials = 20", "echo \"ValueError: $1 is no rate\" >&2; exit 1\n");
    assert_eq!(
        (ended.code, site.states()),
        (4, vec!["failed".to_owned(); 3]),
        "{}\n{}",
        ended.out,
        ended.err
    );
    assert_says(
        &ended,
        &[
            "the first 3 trials, of different configurations, failed in the same way; the last: \
             exit status 1: ValueError",
            "`hpsearch logs s 2`",
            "runs/files/s/trial-2/",
            "correct the program, or `run` in [command]",
            "`hpsearch retry s --failed`",
            "`hpsearch run study.toml` continues",
            "`failures = N` under [budget]",
        ],
    );
    assert!(!ended.err.contains("raise"), "there is nothing to raise: {}", ended.err);
    // Its user has repaired nothing: three more are tried, not ten, and not none.
    let again = site.run_study();
    assert_eq!((again.code, site.states().len()), (4, 6));
    assert_says(
        &again,
        &["3 trials since the study was run again, of different configurations, failed in the \
             same way"],
    );
    assert!(!again.err.contains("the first 3 trials"), "{}", again.err);
    site.write("trial.sh", REPORT_X);
    assert_says(&site.run(&["retry", "s", "--failed"]), &["6 failed trials are queued again"]);
    let repaired = site.run_study();
    assert_done(&repaired);
    assert_says(&repaired, &["`trial.sh` changed since the last run"]);
    assert_eq!(site.states(), vec!["complete"; 20]);
    assert!(!site.run_study().err.contains("changed since"), "only what changed is said");
    site.assert_folds();
}

#[test]
fn three_first_trials_without_a_value_end_a_study() {
    let (site, ended) = failing("trials = 20", "echo done; exit 0\n");
    assert_eq!((ended.code, site.states().len()), (4, 3), "{}\n{}", ended.out, ended.err);
    assert_says(&ended, &["failed in the same way; the last: reported no value"]);
}

#[test]
fn first_failures_that_differ_or_tell_nothing_of_the_program_do_not_end_a_study_so_soon() {
    let differing = [
        // Another exit status, another last line, no configuration but one.
        ("exit $((HPSEARCH_TRIAL % 3 + 1))\n", "trials = 20", 10),
        (
            "case $HPSEARCH_TRIAL in 0) echo a >&2;; *) echo b >&2;; esac; exit 1\n",
            "trials = 20",
            10,
        ),
        ("exit 1\n", "trials = 20\nfailures = 5", 5),
    ];
    for (script, budget, trials) in differing {
        let (site, ended) = failing(budget, script);
        assert_eq!(
            (ended.code, site.states().len()),
            (4, trials),
            "{script}: {}\n{}",
            ended.out,
            ended.err
        );
        assert!(!ended.out.contains("in the same way"), "{}", ended.out);
    }
    // What ends them is not the program: all of the budget is tried.
    for script in [
        "echo 'CUDA out of memory' >&2; exit 1\n",
        "echo 'CUDA error: device lost' >&2; exit 1\n",
        "kill -9 $$\n",
    ] {
        let (site, ended) = failing("trials = 5\ncount = \"all\"", script);
        assert_eq!(
            (ended.code, site.states().len()),
            (3, 5),
            "{script}: {}\n{}",
            ended.out,
            ended.err
        );
    }
}

#[test]
fn what_is_advised_after_the_limit_of_failures_is_to_raise_it() {
    let (_, ended) = failing("trials = 20\nfailures = 2", "exit 1\n");
    assert_eq!(ended.code, 4);
    assert_says(
        &ended,
        &["`failures = 2` under [budget] says how many trials may fail: retry them, or raise \
             it, to continue"],
    );
}

/// A study of a command, simulated, in which what `faults` says goes wrong.
fn simulated(
    slots: usize,
    faults: impl Fn(u64, u64) -> Option<Fault> + Send + Sync + 'static,
) -> Simulation {
    let mut simulated: StudySpec = spec(20, "random", AlgorithmSpec::named("none"));
    simulated.program = Program::Command {
        run: vec!["train".into()],
        cwd: "/".into(),
        env: Default::default(),
        args: Default::default(),
        metrics: Default::default(),
    };
    let mut simulation = Simulation::new(simulated, slots, 4, loss);
    simulation.faults = Box::new(move |trial, _, step| faults(trial.0, step));
    simulation
}

#[test]
fn first_failures_are_counted_across_a_death_of_the_runner() {
    let simulation = simulated(1, |_, _| Some(Fault::Fail));
    let whole = simulation.run(&[]).unwrap();
    let is_over = whole
        .turns
        .iter()
        .position(|turn| {
            turn.events
                .iter()
                .any(|event| matches!(event, Event::Study(StudyEvent::Finished { .. })))
        })
        .unwrap();
    for died in 1..=is_over {
        let run = simulation.run(&whole.turns[..died]).unwrap();
        assert!(
            matches!(&run.outcome, RunOutcome::TooManyFailures(why) if why.contains("in the same \
                way")),
            "{died}: {:?}",
            run.outcome
        );
        assert_eq!(run.state.counts.failed, 3, "killed after turn {died}");
    }
    // Once it is over, whoever runs it again may have repaired the program.
    let again = simulation.run(&whole.turns).unwrap();
    assert_eq!(again.state.counts.failed, 6);
}

#[test]
fn a_trial_that_comes_further_than_those_that_failed_is_waited_for() {
    // On one of two slots a trial trains on while those on the other fail at their first step.
    let run =
        simulated(2, |trial, step| (trial != 1 && trial < 6 && step == 1).then_some(Fault::Fail))
            .run(&[])
            .unwrap();
    assert_eq!(
        (run.state.trials[1].state, run.state.counts.failed),
        (TrialState::Complete, 5),
        "{:?}",
        run.outcome
    );
    // One that completes first shows that the program works.
    let run =
        simulated(1, |trial, _| (1..9).contains(&trial).then_some(Fault::Fail)).run(&[]).unwrap();
    assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{:?}", run.outcome);
}

#[test]
fn failures_of_one_configuration_end_no_study() {
    let one = study("trials = 20", ONE_SLOT).replace("x = { float = [0.0, 1.0] }", "x = [1]");
    let site =
        Site::new(&one.replace("direction", "duplicates = \"allow\"\ndirection"), "exit 1\n");
    assert_eq!((site.run_study().code, site.states().len()), (4, 10));
}

#[test]
fn a_study_whose_trials_all_failed_is_called_failed_and_has_no_forecast() {
    let (site, _) = failing("trials = 20", "exit 1\n");
    assert_eq!(site.json(&["ls", "--json"])["studies"][0]["state"], "failed");
    let shown = site.json(&["show", "s", "--json"]);
    assert_eq!((&shown["state"], &shown["forecast"]), (&json!("failed"), &Json::Null));
    assert_says(&site.run(&["show", "s"]), &["failed: the first 3 trials"]);
    assert_says(
        &site.run(&["check", "study.toml"]),
        &["forecast none: none of the 3 trials of the store produced a result"],
    );
    let (site, ended) = failing("trials = 20\nfailures = 3", "sleep 0.05; exit 1\n");
    assert!(!ended.out.contains(" left"), "nothing is forecast: {}", ended.out);
    site.write("trial.sh", REPORT_X);
    assert_done(&site.run_study_with(&["--set", "budget.failures=4", "--set", "budget.trials=1"]));
    assert_eq!(site.json(&["ls", "--json"])["studies"][0]["state"], "finished");
}

#[test]
fn a_study_that_reached_its_failure_limit_is_called_failed_although_a_trial_is_complete() {
    let (site, _) = failing("trials = 20\nfailures = 3", "exit 1\n");
    let state = || site.json(&["ls", "--json"])["studies"][0]["state"].clone();
    // The first trial of the second run completes, the next ones fail again.
    site.write("trial.sh", format!("test ! -e once || exit 1\n: > once\n{REPORT_X}"));
    let again = site.run_study_with(&["--set", "budget.failures=5"]);
    assert_eq!((again.code, state()), (4, json!("failed")), "{}{}", again.out, again.err);
    assert_says(&site.run(&["ls"]), &["failed"]);
    assert_says(&site.run(&["show", "s"]), &["failed: 5 trials failed"]);
    assert_done(&site.run(&["note", "s", "-m", "after its end"]));
    assert_eq!(state(), "failed");
    site.write("trial.sh", REPORT_X);
    assert_done(&site.run_study_with(&["--set", "budget.failures=6", "--set", "budget.trials=2"]));
    assert_eq!(state(), "finished");
}

#[test]
fn a_command_out_of_time_may_save_before_it_is_killed_and_its_log_says_what_it_did() {
    // Longer than a busy machine takes to start a shell that handles signals.
    let check = |limit: &str| {
        let script = "trap 'echo > saved; exit 0' TERM\necho begun\nwhile :; do sleep 0.05; done\n";
        let (site, ended) = failing(&format!("trials = 1\ncount = \"all\"\n{limit}"), script);
        assert_eq!(
            (ended.code, site.states()),
            (3, vec!["failed".to_owned()]),
            "{}\n{}",
            ended.out,
            ended.err
        );
        assert!(site.exists("saved"), "{limit}: it got SIGTERM");
        let reason = site.trials()[0]["reason"].as_str().unwrap().to_owned();
        assert!(
            reason.ends_with("(5 s)") && reason.contains(limit.split(' ').next().unwrap()),
            "{reason}"
        );
        let log = site.log(0, 0);
        assert_names(&log, &["its processes:", " sh: ", "py-spy dump --pid"]);
    };
    let limits = ["trial_time = \"5s\"", "stall_time = \"5s\""];
    std::thread::scope(|scope| limits.map(|limit| drop(scope.spawn(move || check(limit)))));
}

#[test]
fn a_command_out_of_time_that_heeds_nothing_is_killed_after_the_grace() {
    let script = "trap 'echo > told' TERM\nwhile :; do sleep 0.05; done\n";
    // Longer than a busy machine takes to start a shell that handles signals.
    let site =
        Site::new(&study("trials = 1\ncount = \"all\"\ntrial_time = \"5s\"", ONE_SLOT), script);
    let ended = site.start_study_with(&[("HPSEARCH_GRACE", "1")]).end();
    assert_eq!((ended.code, site.exists("told")), (3, true), "{}", ended.err);
    assert_eq!(site.trials()[0]["reason"], "ran longer than trial_time (5 s)");
    assert_eq!(site.processes(), [0; 0]);
}

#[test]
fn a_trial_out_of_time_leaves_and_is_tried_again_from_its_checkpoint() {
    let mut simulation =
        Simulation::new(spec(3, "random", AlgorithmSpec::named("none")), 1, 30, loss);
    // 1.5 s of the 3 s that a trial takes.
    simulation.spec.budget.trial_time = Some(std::time::Duration::from_millis(1550));
    simulation.spec.retry.on.push(FailureCause::Timeout);
    simulation.spec.retry.max = 2;
    let run = simulation.run(&[]).unwrap();
    assert_eq!(
        (run.state.counts.complete, run.state.trials[0].attempts),
        (3, 2),
        "{:?}",
        run.outcome
    );
}

/// A study of which this many trials are complete.
fn of_trials(trials: u64) -> Site {
    let site = Site::new(&study(&format!("trials = {trials}"), ONE_SLOT), REPORT_X);
    assert_done(&site.run_study());
    site
}

#[test]
fn importances_are_told_from_ten_trials_on() {
    let few = of_trials(2);
    let told = few.run(&["importance", "s"]);
    assert_eq!(
        (told.code, told.out.contains('#') || told.out.contains('█')),
        (0, false),
        "{}",
        told.out
    );
    assert_says(&told, &["importances need 10 trials, and 2 count: with fewer"]);
    let told = few.json(&["importance", "s", "--json"]);
    assert_eq!((&told["trials"], &told["importances"]), (&json!(2), &json!([])));
    assert!(told["reason"].as_str().unwrap().contains("10 trials, and 2 count"), "{told}");
    let enough = of_trials(10).json(&["importance", "s", "--json"]);
    assert_eq!(
        (&enough["importances"][0], &enough["reason"], &enough["pruned"]),
        (&json!({"name": "x", "importance": 1.0}), &Json::Null, &json!(0))
    );
}

#[test]
fn pruned_trials_count_for_importance_where_they_can_and_that_is_said() {
    let pruner = "[devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"threshold\"\nupper = 0.5\n";
    let site = Site::new(
        &study("trials = 24", pruner),
        "for step in 1 2; do echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"; read \
         verdict; done\n",
    );
    assert_done(&site.run_study());
    let states = site.states();
    let pruned = states.iter().filter(|state| *state == "pruned").count();
    assert!(pruned > 3 && pruned < 21, "{states:?}");
    let told = site.json(&["importance", "s", "--json"]);
    assert_eq!((&told["trials"], &told["pruned"]), (&json!(24), &json!(pruned)));
    let said = site.run(&["importance", "s"]);
    assert_says(
        &said,
        &[
            &format!("{} completed and {pruned} pruned trials", 24 - pruned),
            "pruned ones count as worse",
            "with so few trials, the best tenth is partly due to chance",
        ],
    );
    let variance = site.run(&["importance", "s", "--evaluator", "fanova"]);
    assert_says(&variance, &[&format!("{pruned} pruned ones have no value, and are left out")]);
}

#[test]
fn the_best_trial_stays_the_best_while_it_goes_on() {
    // Steps fall below any first report; what continues waits to be let.
    let script = RESUMABLE.replace(
        "step=$((step + 1))",
        "step=$((step + 1))\nif [ $step -gt 6 ]; then while [ ! -e go ]; do sleep 0.02; done; fi",
    );
    let site = Site::new(&study("trials = 2", &format!("{ONE_SLOT}{KEEP_ALL}")), &script);
    assert_done(&site.run_study());
    let best = site.json(&["ls", "--json"])["studies"][0]["best"].clone();
    let number = best["number"].to_string();
    assert_done(&site.run(&["continue", "s", &number, "--until", "9"]));
    let still = |site: &Site| {
        assert_eq!(site.json(&["ls", "--json"])["studies"][0]["best"], best);
        let told = site.json(&["best", "s", "--json"]);
        assert_eq!(
            (&told["trial"]["number"], &told["trial"]["value"]),
            (&best["number"], &best["value"])
        );
        assert_says(&site.run(&["best", "s"]), &["it continues past its end, to step 9"]);
    };
    still(&site);
    let running = site.start_study();
    wait_until("it runs", || site.states().contains(&"running".to_owned()));
    still(&site);
    let listed = site.run(&["trials", "s", "--sort", "number"]).out;
    assert!(
        listed.lines().any(|line| line.contains("running") && line.contains('(')),
        "its last report is marked as no value: {listed}"
    );
    site.write("go", "");
    assert_done(&running.end());
    assert_eq!(site.states(), vec!["complete"; 2]);
    site.assert_folds();
}

#[test]
fn a_value_stands_in_a_column_as_it_is_and_a_last_report_in_parentheses() {
    let script = format!(
        "[ $HPSEARCH_TRIAL != 1 ] || {{ echo '@hpsearch {{\"step\":1,\"loss\":0.000001}}'; exit \
         1; }}\n{REPORT_X}"
    );
    let site = Site::new(&study("trials = 3", ONE_SLOT), &script);
    assert_done(&site.run_study());
    let listed = site.run(&["trials", "s"]).out;
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 5, "{listed}");
    assert!(
        lines[1..4].iter().all(|line| line.contains("complete") && !line.contains('(')),
        "complete trials come first: {listed}"
    );
    assert!(lines[4].contains("failed") && lines[4].contains("(1e-6)"), "{listed}");
}

#[test]
fn a_command_changes_with_accept_while_no_trial_has_completed() {
    let (site, _) = failing("trials = 2\ncount = \"all\"", "exit 1\n");
    let file = fs::read_to_string(site.path("study.toml")).unwrap();
    site.write("other.sh", REPORT_X);
    site.write(
        "study.toml",
        file.replace("trial.sh", "other.sh").replace("trials = 2", "trials = 4"),
    );
    let refused = site.run_study();
    assert_eq!(refused.code, 6);
    assert_says(&refused, &["command.run: ", "--accept"]);
    assert_says(&refused, &["--accept` continues with the change and keeps the trials"]);
    assert_done(&site.run_study_with(&["--accept"]));
    assert_eq!(site.states(), ["failed", "failed", "complete", "complete"]);
    // From here on its trials are of that command.
    site.write("study.toml", &file);
    assert_says(&site.run_study_with(&["--accept"]), &["--fork NAME"]);
    site.assert_folds();
}

#[test]
fn a_script_that_changed_between_two_runs_is_said_with_the_trials_of_the_one_before() {
    let site = of_trials(2);
    site.write("trial.sh", format!("# another\n{REPORT_X}"));
    let again = site.run_study_with(&["--set", "budget.trials=3"]);
    assert_done(&again);
    assert_says(
        &again,
        &["`trial.sh` changed since the last run: 2 complete trials may be of an earlier \
             version; `--fork NAME` starts a new study"],
    );
}

#[test]
fn a_script_that_is_edited_while_its_study_runs_is_said_of_each_trial_from_then_on() {
    // The second trial edits it, and the third writes it again as it is.
    let edits = "case $HPSEARCH_TRIAL in 1) echo '# edited' >> trial.sh;; 2) touch trial.sh;; esac";
    let site = Site::new(&study("trials = 4", ONE_SLOT), &format!("{REPORT_X}\n{edits}\n"));
    let ended = site.run_study();
    assert_done(&ended);
    let said = "trial.sh` has changed since this run began (now ";
    assert_eq!(ended.out.matches(said).count(), 1, "{}", ended.out);
    assert_says(&ended, &["trial 2: ", "those before are of another version"]);
    let digest = blake3::hash(&fs::read(site.path("trial.sh")).unwrap()).to_hex();
    for (trial, expected) in [("0", 0), ("1", 0), ("2", 1), ("3", 1)] {
        let shown = site.json(&["show", "s", trial, "--json"]);
        let remarks = shown["remarks"].as_array().unwrap();
        let of_program = remarks.iter().filter(|remark| remark["kind"] == "changed_program");
        let texts: Vec<String> = of_program.map(|remark| remark["text"].to_string()).collect();
        assert_eq!(texts.len(), expected, "{shown}");
        assert!(texts.iter().all(|text| text.contains(&digest[..12])), "{texts:?}");
    }
    site.assert_folds();
}

#[test]
fn a_study_of_an_earlier_version_decides_and_verifies_by_the_middle_that_it_had() {
    // Far from even, so that what is bad is cut off.
    let uneven = |params: &Params, step: u64| (5.0 * loss(params, step)).exp();
    let cases: [(&str, AlgorithmSpec, u32); 3] = [
        ("auto", asha("stop"), 5),
        ("random", asha("stop").with("max_resource", 27).with("rank_by", "end"), 2),
        ("random", pruner_named("curve").with("max_resource", 27), 1),
    ];
    for (sampler, pruner, before) in cases {
        let trials = if sampler == "auto" { 40 } else { 80 };
        let run_with = |is_before: bool| {
            let spec = spec(trials, sampler, pruner.clone());
            let mut simulation = Simulation::new(spec, 1, 27, uneven);
            if is_before {
                let policy = if sampler == "auto" {
                    &mut simulation.spec.sampler
                } else {
                    &mut simulation.spec.pruner
                };
                policy.version = before;
            }
            let run = simulation.run(&[]).unwrap();
            assert_eq!(
                verified(&simulation.spec, &journal(&run)).difference,
                None,
                "{sampler}: what it decided is decided again"
            );
            (simulation, run)
        };
        let ((old, then), (new, now)) = (run_with(true), run_with(false));
        assert!(
            decisions(&then.state) != decisions(&now.state),
            "{sampler}, {}: the rules differ",
            pruner.name
        );
        assert!(
            verified(&new.spec, &journal(&then)).difference.is_some(),
            "{sampler}: by the new rules its journal is another"
        );
        assert!(
            verified(&old.spec, &journal(&then)).versions.is_empty(),
            "{sampler}: its rules are still here"
        );
    }
}
