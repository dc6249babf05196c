//! What trials log besides reports: any metric at any step, on any axis, and what is measured of
//! their processes.

use std::time::{Duration, Instant};

use hpsearch::runner::processes;
use hpsearch::storage::StorageReader;
use hpsearch::storage::any::AnyReader;
use hpsearch::study::series::SeriesAxis;
use hpsearch::study::trial::TrialNumber;
use serde_json::{Value as Json, json};

use crate::harness::{
    KEEP_ALL, ONE_SLOT, STORE, Site, TWO_SLOTS, assert_done, assert_names, assert_refused, says,
    study, wait_until,
};

/// The steps and values of a series of a trial.
fn points(site: &Site, trial: &str, metric: &str, axis: &str) -> Vec<(f64, Json)> {
    let json = site.json(&["curves", "s", trial, "--metric", metric, "--clock", axis, "--json"]);
    assert_eq!((&json["version"], &json["study"]), (&json!(2), &json!("s")));
    let series = &json["series"][0];
    let points = series["points"].as_array().unwrap().iter();
    points.map(|point| (point[0].as_f64().unwrap(), point[1].clone())).collect()
}

#[test]
fn any_metric_at_any_step_is_kept_and_only_the_studys_asks_for_a_decision() {
    let script = r#"
echo '@hpsearch {"step":10,"train/loss":0.9,"lr":0.1}'
echo '@hpsearch {"epoch":0.5,"speed":3}'
echo '@hpsearch {"counted":5}'
echo '@hpsearch {"counted":NaN}'
echo '@hpsearch {"step":1,"accuracy":0.25}'
echo '@hpsearch {"step":1,"loss":0.5}'
read -r answer; echo "first $answer"
echo '@hpsearch {"step":20,"train/loss":Infinity}'
echo '@hpsearch {"epoch":1,"loss":7}'
echo '@hpsearch {"step":2,"loss":0.25}'
read -r answer; echo "second $answer"
"#;
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    assert_done(&site.run_study());
    let log = site.log(0, 0);
    assert!(log.contains("first {\"reason") && log.contains("second {\"reason"), "{log}");
    assert_eq!(
        points(&site, "0", "train/loss", "step"),
        [(10.0, json!(0.9)), (20.0, json!("Infinity"))]
    );
    assert_eq!(points(&site, "0", "speed", "epoch"), [(0.5, json!(3.0))]);
    assert_eq!(points(&site, "0", "counted", "step"), [(1.0, json!(5.0)), (2.0, json!("NaN"))]);
    assert_eq!(points(&site, "0", "loss", "step"), [(1.0, json!(0.5)), (2.0, json!(0.25))]);
    assert_eq!(points(&site, "0", "loss", "epoch"), [(1.0, json!(7.0))]);
    // What was logged at a report's step before it is told with it.
    let reports = site.run(&["export-data", "s", "--reports"]).out;
    assert!(reports.contains("0,accuracy,1,0.25"), "{reports}");
    let shown = site.run(&["show", "s", "0"]).out;
    assert_names(&shown, &["train/loss by step: 2 points, last inf at 20", "speed by epoch"]);
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn points_without_a_step_follow_the_reports_of_their_metric_and_the_later_of_one_step_stands() {
    let script = r#"
echo '@hpsearch {"loss":1,"accuracy":0.5}'
read -r answer
echo '@hpsearch {"accuracy":0.6}'
echo '@hpsearch {"accuracy":0.7}'
echo '@hpsearch {"step":7,"accuracy":0.8}'
echo '@hpsearch {"accuracy":0.9}'
echo '@hpsearch {"step":7,"loss":0.5,"accuracy":0.1}'
read -r answer
"#;
    let expected = [(1.0, 0.5), (2.0, 0.6), (3.0, 0.7), (7.0, 0.1), (8.0, 0.9)];
    let expected = expected.map(|(step, value)| (step, json!(value)));
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    assert_done(&site.run_study());
    assert_eq!(points(&site, "0", "accuracy", "step"), expected);
    assert_done(&site.run(&["verify", "s"]));
    let tracked = Site::empty();
    tracked.write("run.sh", script.replace("read -r answer", ":"));
    assert_done(&tracked.run(&["track", "--study", "s", "--", "sh", "run.sh"]));
    assert_eq!(points(&tracked, "0", "accuracy", "step"), expected);
}

#[test]
fn series_are_named_in_filters_and_drawn_for_whole_studies() {
    let script = r#"
echo '@hpsearch {"step":10,"train/loss":0.9}'
echo "@hpsearch {\"step\":20,\"train/loss\":$HPSEARCH_TRIAL}"
echo '@hpsearch {"epoch":1,"speed":3}'
echo '@hpsearch {"epoch":2,"speed":NaN}'
echo '@hpsearch {"step":1,"loss":0.75}'
echo '@hpsearch {"step":2,"loss":0.5}'
"#;
    let site = Site::new(&study("trials = 2", ONE_SLOT), script);
    assert_done(&site.run_study());
    let numbers = |filter: &str| {
        let told = site.json(&["trials", "s", "--sort", "number", "--where", filter, "--json"]);
        let trials = told["trials"].as_array().unwrap().iter();
        trials.map(|trial| trial["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    for (filter, expected) in [
        ("train/loss<0.5", &[0][..]),
        ("train/loss > 0.5 state:complete", &[1]),
        ("max(train/loss)>=1", &[1]),
        ("min(train/loss) < 0.5 or number=1", &[0, 1]),
        ("max(train/loss) - min(train/loss) > 0.5", &[0]),
        // Of what was only reported, too; NaN is no value that could be compared.
        ("max(loss)=0.75 loss=0.5", &[0, 1]),
        ("max(speed)=3", &[0, 1]),
        ("speed<9", &[]),
        ("speed=nan", &[0, 1]),
        ("metrics.speed=nan number=1", &[1]),
        ("train/loss=nan", &[]),
    ] {
        assert_eq!(numbers(filter), expected, "{filter}");
    }
    let exported = site.run(&["export-data", "s", "--where", "train/loss<0.5"]);
    assert_done(&exported);
    assert_eq!(exported.out.lines().count(), 2, "{}", exported.out);
    assert_refused(&site.run(&["trials", "s", "--where", "train/los<1"]), &["`train/loss`"]);
    assert_refused(&site.run(&["trials", "s", "--sort", "train/loss"]), &["not reported"]);
    let plot = |options: &[&str]| site.run(&[&["plot", "curves", "s"], options].concat());
    let drawn = plot(&["--metric", "train/loss"]);
    assert_done(&drawn);
    assert_names(&drawn.out, &["s: train/loss by step"]);
    assert_names(&plot(&["--metric", "speed"]).out, &["s: speed by epoch"]);
    assert_names(&plot(&["--wall"]).out, &["s: loss by seconds"]);
    let told: Json = plot(&["--metric", "train/loss", "--json"]).json();
    let points = |index: usize| told["charts"][0]["series"][index]["points"].clone();
    let both = [points(0), points(1)];
    assert!(both.contains(&json!([[10.0, 0.9], [20.0, 0.0]])), "{told}");
    assert!(both.contains(&json!([[10.0, 0.9], [20.0, 1.0]])), "{told}");
    assert_refused(&plot(&["--metric", "train/los"]), &["`train/loss`"]);
    assert_refused(&plot(&["--metric", "speed", "--clock", "step"]), &["they have it by epoch"]);
}

#[test]
fn curves_and_tables_of_series_are_drawn_and_exported() {
    let lines = [
        r#"{"step":10,"train/loss":0.9}"#,
        r#"{"step":20,"train/loss":0.7}"#,
        r#"{"epoch":1,"train/loss":0.8}"#,
        r#"{"step":1,"loss":0.5}"#,
    ];
    let script: String = lines.iter().map(|line| format!("echo '@hpsearch {line}'\n")).collect();
    let site = Site::new(&study("trials = 1", ONE_SLOT), &script);
    assert_done(&site.run_study());
    let drawn = site.run(&["curves", "s", "0", "--metric", "train/loss"]);
    assert_done(&drawn);
    assert_names(&drawn.out, &["s: train/loss by step"]);
    let wall = site.run(&["curves", "s", "0", "--metric", "train/loss", "--wall"]);
    assert_names(&wall.out, &["s: train/loss by seconds"]);
    let table =
        site.run(&["curves", "s", "0", "--metric", "train/loss", "--clock", "epoch", "--table"]);
    assert_names(&table.out, &["epoch", "0.8"]);
    let exported = site.run(&["export-data", "s", "--series"]).out;
    // A trial that takes long enough has a peak of memory, too.
    let own = exported.lines().filter(|row| !row.contains("system/"));
    let rows: Vec<&str> = own.map(|row| row.rsplit_once(',').unwrap().0).collect();
    assert_eq!(
        rows,
        [
            "trial,metric,clock,step,value",
            "0,loss,step,1,0.5",
            "0,train/loss,step,10,0.9",
            "0,train/loss,step,20,0.7",
            "0,train/loss,epoch,1,0.8",
        ]
    );
    assert_refused(
        &site.run(&["curves", "s", "0", "--metric", "loss", "--clock", "epoch"]),
        &["have no `loss` by epoch", "they have it by step"],
    );
    assert_refused(
        &site.run(&["curves", "s", "0", "--metric", "train/los"]),
        &["did you mean `train/loss`?"],
    );
    assert_refused(&site.run(&["curves", "s", "0", "--clock", "hours"]), &["step, epoch, samples"]);
}

#[test]
fn a_trial_that_only_logs_is_said_to_and_one_on_another_axis_too() {
    for (line, words) in [
        (r#"{"step":1,"accuracy":0.5}"#, &["it reported `accuracy` but never `loss`"][..]),
        (r#"{"epoch":1,"loss":0.5}"#, &["it logged `loss` on another axis", "`step`"]),
    ] {
        let text = study("trials = 1\ncount = \"all\"", ONE_SLOT);
        let site = Site::new(&text, &says(&[line]));
        site.run_study();
        let reason = site.trials()[0]["reason"].as_str().unwrap().to_owned();
        assert_names(&reason, words);
    }
}

#[test]
fn a_resumed_trial_goes_on_with_its_series() {
    // The first attempt logs ten steps and saves after five; the second begins there.
    let script = r#"
step=0; [ -z "$HPSEARCH_RESUME" ] || step=$(cat "$HPSEARCH_RESUME")
attempt=$HPSEARCH_ATTEMPT
while [ $step -lt 10 ]; do
  step=$((step + 1))
  echo "@hpsearch {\"step\":$step,\"train/loss\":$attempt}"
  echo "@hpsearch {\"counted\":$attempt}"
  if [ $step = 5 ] && [ $attempt = 0 ]; then
    echo 5 > "$HPSEARCH_CHECKPOINT_DIR/5"
    echo "@hpsearch {\"step\":5,\"loss\":1,\"checkpoint\":\"$HPSEARCH_CHECKPOINT_DIR/5\"}"
    read -r answer
  fi
  if [ $step = 8 ] && [ $attempt = 0 ]; then sleep 1; kill -9 $$; fi
done
echo '@hpsearch {"step":10,"loss":0.5}'
"#;
    let rest = format!("{ONE_SLOT}{KEEP_ALL}[retry]\nmax = 3\non = [\"worker_lost\", \"oom\"]\n");
    let site = Site::new(&study("trials = 1", &rest), script);
    site.run_study();
    if site.trials()[0]["attempts"] == json!(1) {
        // A command that kills itself is its program's fault: its user asks for another attempt.
        assert_done(&site.run(&["retry", "s", "0"]));
        assert_done(&site.run_study());
    }
    let series = points(&site, "0", "train/loss", "step");
    let steps: Vec<f64> = series.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, (1..=10).map(f64::from).collect::<Vec<_>>());
    let counted = points(&site, "0", "counted", "step").len();
    assert!(counted >= 10, "nothing that was counted is lost: {counted}");
    assert_done(&site.run(&["verify", "s"]));
}

/// Series of a killed run are whole, and nothing that was logged a second before is lost.
#[test]
fn a_killed_runner_leaves_whole_series() {
    let script = r#"
i=0
while [ $i -lt 200000 ]; do
  i=$((i + 1))
  echo "@hpsearch {\"step\":$i,\"train/loss\":0.5,\"b\":$i}"
  [ $((i % 500)) != 0 ] || { echo "$i $(date +%s%N)" >> progress; sleep 0.05; }
done
"#;
    for round in 0..3_u32 {
        let site = Site::new(&study("trials = 1", ONE_SLOT), script);
        let mut running = site.start_study();
        site.wait_for_lines("progress", 15 + 7 * round as usize);
        running.kill();
        let killed = std::time::SystemTime::now();
        let killed = killed.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let reader = AnyReader::open(&site.path(STORE)).unwrap();
        let study = reader.study("s").unwrap().unwrap();
        assert_eq!(reader.series_fault(study.id).unwrap(), None);
        let series = reader.series(study.id, &[TrialNumber(0)]).unwrap();
        let own = series.iter().find(|series| series.metric == "b").expect("it was logged");
        let points = reader
            .series_points(study.id, TrialNumber(0), "b", SeriesAxis::Step, 0.0..=f64::INFINITY)
            .unwrap();
        assert!(points.iter().all(|point| point.step.to_bits() == point.value.to_bits()));
        assert_eq!(points.len() as u64, own.count);
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let is_whole = own.count as f64 == own.last;
        assert!(is_whole, "no step is missing: {own:?}");
        // What the trial had said more than two seconds before, on a machine that others use.
        let before = killed - 2_000_000_000;
        let said = site.lines("progress").into_iter().filter_map(|line| {
            let (step, at) = line.split_once(' ')?;
            (at.parse::<u128>().ok()? < before).then(|| step.parse::<f64>().unwrap())
        });
        let said = said.fold(0.0, f64::max);
        assert!(own.last >= said, "{} of {said} steps are stored", own.last);
        drop(reader);
        wait_until("its processes are gone", || site.processes().is_empty());
    }
}

#[test]
fn a_trial_that_logs_without_end_holds_up_no_other() {
    let script = r#"
if [ $HPSEARCH_TRIAL = 0 ]; then
  yes '@hpsearch {"noise":0.5}' | head -n 400000
  echo '@hpsearch {"step":1,"loss":1}'
else
  for step in 1 2 3 4 5; do
    echo "@hpsearch {\"step\":$step,\"loss\":$1}"; read -r answer
  done
  touch answered.$HPSEARCH_TRIAL
fi
"#;
    let site = Site::new(&study("trials = 2", TWO_SLOTS), script);
    let began = Instant::now();
    let running = site.start_study();
    site.wait_for("answered.1");
    let answered = began.elapsed();
    assert_done(&running.end());
    let all = began.elapsed();
    let reader = AnyReader::open(&site.path(STORE)).unwrap();
    let study = reader.study("s").unwrap().unwrap();
    let series = reader.series(study.id, &[TrialNumber(0)]).unwrap();
    let noise = series.iter().find(|series| series.metric == "noise").unwrap();
    assert_eq!(noise.count, 400_000, "every point is kept");
    println!("400,000 lines in {all:?}; five reports beside them in {answered:?}");
}

#[test]
fn a_trial_that_logs_has_not_stalled() {
    // A busy machine may be late with some of the lines, by less than the limit.
    let script = "for i in $(seq 30); do echo '@hpsearch {\"noise\":1}'; sleep 0.5; done\n\
        echo '@hpsearch {\"step\":1,\"loss\":1}'\n";
    let site = Site::new(&study("trials = 1\nstall_time = \"12s\"", ONE_SLOT), script);
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete"]);
}

/// A chunk that does not hold what its row says is found.
#[test]
fn verify_compares_chunks_with_their_rows() {
    let script = "for i in 1 2 3; do echo \"@hpsearch {\\\"noise\\\":$i}\"; done\n\
        echo '@hpsearch {\"step\":1,\"loss\":1}'\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    assert_done(&site.run_study());
    assert_done(&site.run(&["verify", "s"]));
    for (sql, words) in [
        ("UPDATE series_chunk SET max = 9", &["`series_chunk`", "`max`", "noise by step"][..]),
        ("UPDATE series SET count = 4", &["table `series`", "`count`"]),
        ("UPDATE series_block SET points = zeroblob(7)", &["`points`", "damaged"]),
        ("DELETE FROM series_block", &["`points`"]),
    ] {
        let database = site.database();
        database.execute_batch("BEGIN").unwrap();
        database.execute_batch(sql).unwrap();
        database.execute_batch("COMMIT").unwrap();
        let said = site.run(&["verify", "s"]);
        assert_eq!(said.code, 7, "{sql}: {}{}", said.out, said.err);
        assert_names(&said.out, words);
        database
            .execute_batch("UPDATE series_chunk SET max = 3; UPDATE series SET count = 3")
            .unwrap();
    }
}

#[test]
fn a_trials_processes_are_measured_now_and_then() {
    let script = "i=0; while [ ! -e enough ]; do i=$((i + 1)); done\n\
        echo '@hpsearch {\"step\":1,\"loss\":1}'\n";
    let text = study("trials = 1", &format!("{ONE_SLOT}[track]\nsystem = \"1s\"\n"));
    let site = Site::new(&text, script);
    let running = site.start_study();
    let patience = Instant::now() + Duration::from_secs(100);
    let is_measured = || {
        let shown = site.run(&["show", "s", "0", "--json"]);
        assert!(Instant::now() < patience, "{}", shown.out);
        shown.out.contains("system/cpu") && shown.out.contains("system/memory")
    };
    wait_until("its processes are measured", is_measured);
    site.write("enough", "");
    assert_done(&running.end());
    let memory = points(&site, "0", "system/memory", "seconds");
    assert!(memory[0].0 > 0.0 && memory[0].1.as_f64().unwrap() > 100_000.0, "{memory:?}");
    assert!(processes::children(std::process::id()).len() < 1_000);
}

#[test]
fn how_often_is_checked_and_off_is_off() {
    for (value, words) in [
        ("\"soon\"", &["`track.system` is not a duration"][..]),
        ("\"0.5s\"", &["shorter than a second"]),
        ("5", &["a duration of at least a second, such as \"10s\", or \"off\""]),
    ] {
        let text = study("trials = 1", &format!("{ONE_SLOT}[track]\nsystem = {value}\n"));
        let site = Site::new(&text, "true\n");
        assert_refused(&site.run(&["check", "study.toml"]), words);
    }
    let text = study("trials = 1", &format!("{ONE_SLOT}[track]\nsystem = \"off\"\n"));
    assert_done(&Site::new(&text, "echo '@hpsearch {\"step\":1,\"loss\":1}'\n").run_study());
}

#[test]
fn a_metric_that_is_not_there_yet_is_no_error_unless_it_is_named_among_others() {
    let logged = |line: &str| {
        let site = Site::new(&study("trials = 1", ONE_SLOT), &format!("echo '@hpsearch {line}'\n"));
        site.run_study();
        site
    };
    let is_empty = |site: &Site, options: &[&str]| {
        let words = [&["curves", "s", "--json"], options].concat();
        assert_eq!(site.json(&words)["series"], json!([]), "{options:?}");
        let words = [&["curves", "--study", "s", "--json"], options].concat();
        assert_eq!(site.json(&words)["series"], json!([]), "{options:?}");
    };
    let measured = logged("{\"system/cpu\":5}");
    is_empty(&measured, &[]);
    is_empty(&measured, &["--metric", "train/loss"]);
    assert_done(&measured.run(&["curves", "s"]));
    let misspelt = ["curves", "s", "--metric", "system/cpus"];
    assert_refused(&measured.run(&misspelt), &["report no `system/cpus`", "`system/cpu`"]);
    let trained = logged("{\"train/loss\":5}");
    is_empty(&trained, &[]);
    assert_names(&trained.run(&["curves", "s"]).err, &["not reported `loss` yet", "`train/loss`"]);
    for study in [&["s"][..], &["--study", "s"]] {
        let words = [&["curves", "--json", "--metric", "train/los"], study].concat();
        assert_refused(&trained.run(&words), &["report no `train/los`", "`train/loss`"]);
    }
}

#[test]
fn reported_steps_beyond_what_floats_hold_are_printed_exactly() {
    let steps = [9_007_199_254_740_993_u64, 9_007_199_254_740_995, 9_007_199_254_740_996];
    let script: String = steps
        .iter()
        .map(|step| format!("echo '@hpsearch {{\"step\":{step},\"loss\":1}}'\n"))
        .collect();
    let site = Site::new(&study("trials = 1", ONE_SLOT), &script);
    assert_done(&site.run_study());
    let told = site.json(&["curves", "s", "0", "--json"]);
    let points = told["series"][0]["points"].as_array().unwrap().iter();
    assert_eq!(points.map(|point| point[0].as_u64().unwrap()).collect::<Vec<_>>(), steps);
    for words in [
        &["curves", "s", "0", "--table"][..],
        &["curves", "s/0", "--table"],
        &["export-data", "s", "--series"],
    ] {
        let printed = site.run(words).out;
        assert!(steps.iter().all(|step| printed.contains(&step.to_string())), "{printed}");
    }
}
