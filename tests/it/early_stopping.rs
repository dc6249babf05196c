//! `[budget] trial_patience`: a trial whose reports no longer improve is complete.

use crate::harness::{
    KEEP_ALL, ONE_SLOT, Site, assert_done, assert_names, assert_refused, study, wait_until,
};
#[cfg(feature = "train")]
use crate::harness::{
    run,
    training::{small_study, trials},
};

/// Reports .8, .6, .5, .5 and so on, up to step 10; leaves when it hears `stop` or `pause`.
const LEVEL: &str = r#"
step=0; [ -z "$HPSEARCH_RESUME" ] || step=$(cat "$HPSEARCH_RESUME")
echo "$HPSEARCH_JUDGED" > judged
while [ $step -lt ${HPSEARCH_UNTIL:-10} ]; do
  step=$((step + 1)); echo $step >> steps.$HPSEARCH_TRIAL
  case $step in 1) loss=0.8 ;; 2) loss=0.6 ;; *) loss=0.5 ;; esac
  echo $step > "$HPSEARCH_CHECKPOINT_DIR/$step"
  echo "@hpsearch {\"checkpoint\":\"$HPSEARCH_CHECKPOINT_DIR/$step\",\"step\":$step}"
  echo "@hpsearch {\"step\":$step,\"loss\":$loss}"
  read -r answer || exit 8
  case "$answer" in *'"stop"'* | *'"pause"'*) exit 0 ;; esac
done
"#;

/// The same without looking at answers and signals, until the file `go` is there.
const DEAF: &str = r#"
trap '' TERM
for loss in 0.8 0.6 0.5 0.5 0.5; do
  step=$((step + 1)); echo "@hpsearch {\"step\":$step,\"loss\":$loss}"
done
until [ -e go ]; do sleep 0.02; done
"#;

const REASON: &str = "no improvement on 0.5 at step 3 in 2 reports up to step 5";

#[test]
fn a_trial_that_no_longer_improves_is_complete_with_its_best_value() {
    let budget = "trials = 2\ntrial_patience = 2";
    let site = Site::new(&study(budget, &format!("{ONE_SLOT}{KEEP_ALL}")), LEVEL);
    assert_done(&site.run_study());
    for trial in site.trials() {
        assert_eq!((&trial["state"], &trial["value"]), (&"complete".into(), &0.5.into()));
        assert_eq!((&trial["last_step"], &trial["reason"]), (&5.into(), &REASON.into()));
    }
    assert_eq!(site.lines("steps.0"), ["1", "2", "3", "4", "5"]);
    assert_eq!(site.read("judged").trim(), "[\"loss\"]", "a report may end the trial");
    assert_names(&site.run(&["explain", "s", "0"]).out, &["stop", REASON]);
    assert_eq!(site.json(&["best", "s", "--json"])["trial"]["value"], 0.5);
    assert_done(&site.run(&["verify", "s"]));
    site.assert_folds();
    // Its user may continue it, which patience does not end.
    let continued = site.run(&["continue", "s", "0", "--until", "8"]);
    assert_done(&continued);
    assert_done(&site.run_study());
    assert_eq!(site.lines("steps.0").last().map(String::as_str), Some("8"));
    assert_eq!(site.trials()[0]["state"], "complete");
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn patience_may_change_and_small_improvements_may_count_for_nothing() {
    let with = |budget: &str| study(&format!("trials = {budget}"), ONE_SLOT);
    let rule = "1\ntrial_patience = 1\ntrial_min_delta = 0.15";
    let site = Site::new(&with(rule), LEVEL);
    assert_done(&site.run_study());
    // .6 improves on .8 by more than .15, and .5 on .6 does not.
    let trial = &site.trials()[0];
    assert_eq!((&trial["last_step"], &trial["value"]), (&3.into(), &0.5.into()));
    let reason = "no improvement on 0.6 at step 2 in 1 report up to step 3 by more than 0.15";
    assert_eq!(trial["reason"], reason);
    for (trials, budget, last) in [(2, "2\ntrial_patience = 4", 7), (3, "3", 10)] {
        site.write("study.toml", with(budget));
        assert_done(&site.run_study());
        let found = site.trials();
        let newest = found.iter().find(|trial| trial["number"] == trials - 1).unwrap();
        assert_eq!(newest["last_step"], last, "{budget}");
        assert_done(&site.run(&["verify", "s"]));
    }
}

#[test]
fn a_run_that_is_killed_before_such_a_trial_has_left_completes_it_without_running_it() {
    let site = Site::new(&study("trials = 1\ntrial_patience = 2", ONE_SLOT), DEAF);
    let mut running = site.start_study();
    wait_until("the decision is stored", || {
        site.exists("runs/hpsearch.db")
            && site
                .database()
                .query_row("SELECT count(*) FROM decision", [], |row| row.get::<_, i64>(0))
                .is_ok_and(|decisions| decisions > 0)
    });
    running.kill();
    site.write("go", "");
    assert_done(&site.run_study());
    let trial = &site.trials()[0];
    assert_eq!((&trial["state"], &trial["value"]), (&"complete".into(), &0.5.into()), "{trial}");
    assert_eq!((&trial["attempts"], &trial["reason"]), (&1.into(), &REASON.into()), "{trial}");
    assert_done(&site.run(&["verify", "s"]));
    site.assert_folds();
}

#[cfg(feature = "train")]
#[test]
fn the_built_in_trainer_ends_with_its_best_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    small_study(directory, "");
    let sets = [
        "budget.trials=1",
        "budget.trial_patience=1",
        "budget.trial_min_delta=2",
        "trainer.eval_strategy=epoch",
    ];
    let sets = sets.iter().flat_map(|set| ["--set", *set]);
    let words: Vec<&str> = ["run", "small.toml", "--plain"].into_iter().chain(sets).collect();
    assert_done(&run(directory, &words));
    let trial = &trials(directory)[0];
    // No accuracy is better by 2.
    assert_eq!((&trial["state"], &trial["last_step"]), (&"complete".into(), &2.into()), "{trial}");
    let listed = run(directory, &["trials", "small", "--json"]);
    assert_names(&listed.out, &["in 1 report up to epoch 2"]);
    assert_done(&run(directory, &["export", "small", "-o", "model"]));
    assert_done(&run(directory, &["verify", "small"]));
}

#[test]
fn patience_comes_before_the_pruner() {
    let pruner = "[pruner]\ntype = \"asha\"\nmin_resource = 1\nmax_resource = 10\n\
        mode = \"promote\"\n[devices]\nuse = [\"sim:0\"]\n";
    let site = Site::new(&study("trials = 6\ntrial_patience = 2", pruner), LEVEL);
    assert_done(&site.run_study());
    let trials = site.trials();
    let complete = trials.iter().filter(|trial| trial["state"] == "complete");
    assert!(complete.clone().count() > 0, "{trials:?}");
    for trial in complete {
        assert_eq!((&trial["last_step"], &trial["reason"]), (&5.into(), &REASON.into()));
    }
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn patience_is_refused_where_it_has_no_meaning() {
    let check = |text: &str| {
        let site = Site::new(text, LEVEL);
        site.run(&["check", "study.toml"])
    };
    let alone = check(&study("trials = 1\ntrial_min_delta = 0.1", ONE_SLOT));
    assert_refused(&alone, &["`budget.trial_min_delta` needs `trial_patience`"]);
    let patient = study("trials = 4\ntrial_patience = 3", ONE_SLOT);
    let several = patient.replace(
        "metric = \"loss\"\ndirection = \"minimize\"\n",
        "objective = [{ metric = \"loss\", direction = \"minimize\" }, \
         { metric = \"size\", direction = \"minimize\" }]\n",
    );
    assert_refused(&check(&several), &["`trial_patience` looks at one metric", "2 objectives"]);
    let members = patient.replace(
        "type = \"none\"",
        "type = \"pbt\"\npopulation = 4\ninterval = 2\nmax_resource = 8",
    );
    assert_refused(&check(&members), &["one that no longer improves is not complete"]);
    assert_refused(&check(&patient.replace("= 3", "= 0")), &["trial_patience"]);
}
