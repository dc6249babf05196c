//! Runs of other tools are imported: what was written in their forms comes back, twice is once, and
//! what is broken is taken as far as it goes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::harness::{Site, assert_done, assert_names, assert_refused, paths_below, wait_until};

/// A site without a study, and a tracked run that logs what is awkward.
fn site(runs: u32) -> Site {
    let site = Site::new("", "");
    for run in 0..runs {
        let script = format!(
            r#"
for step in 1 2 3 10 20; do echo "@hpsearch {{\"step\":$step,\"train/loss\":$step.{run}}}"; done
echo '@hpsearch {{"epoch":0.5,"speed":NaN,"gain":Infinity}}'
echo '@hpsearch {{"step":1,"loss":0.{run}5}}'
echo '@hpsearch {{"step":2,"loss":0.{run}25}}'
[ {run} -ne 2 ] || exit 3
"#
        );
        site.write("run.sh", &script);
        let (lr, name) = (format!("lr=0.{}", run + 1), format!("run-{run} ä/b"));
        let done = site.run(&[
            "track",
            "--study",
            "out",
            "--name",
            &name,
            "--param",
            &lr,
            "--param",
            "kind=a b",
            "--tag",
            "odd",
            "--group",
            "g",
            "--note",
            "two\nlines",
            "--system",
            "off",
            "--",
            "sh",
            "run.sh",
        ]);
        assert_eq!(done.code, if run == 2 { 3 } else { 0 }, "{}", done.err);
    }
    site
}

fn json(site: &Site, words: &[&str]) -> Json {
    let done = site.run(words);
    assert_done(&done);
    serde_json::from_str(&done.out).unwrap()
}

/// Every point of a study: run, metric, axis, step and value, and when it was logged.
fn points(site: &Site, study: &str) -> Vec<String> {
    let path = site.path("points.jsonl");
    let path = path.to_str().unwrap();
    assert_done(&site.run(&["export-data", study, "--series", "--output", path]));
    let text = fs::read_to_string(path).unwrap();
    fs::remove_file(path).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn events_of(directory: PathBuf, part: &str) -> Vec<PathBuf> {
    let all = paths_below(&directory).into_iter().filter(|path| path.is_file());
    all.filter(|path| path.to_str().unwrap().contains(part)).collect()
}

#[test]
fn runs_that_were_written_for_another_tool_come_back_once() {
    let site = site(3);
    let before = points(&site, "out");
    assert!(before.len() >= 27, "{before:?}");
    for tool in ["wandb", "tensorboard"] {
        assert_done(&site.run(&["sync", "out", "--to", &format!("{tool}:{tool}")]));
        let dry = site.run(&["import", tool, "--study", tool, "--dry-run"]);
        assert_done(&dry);
        assert_names(&dry.err, &["3 runs would be new"]);
        assert!(!site.run(&["show", tool]).err.is_empty(), "nothing was written");
        let done = site.run(&["import", tool, "--study", tool]);
        assert_done(&done);
        assert_names(&done.err, &["3 runs are new"]);
        let again = site.run(&["import", &format!("{tool}:{tool}"), "--study", tool]);
        assert_done(&again);
        assert_names(&again.err, &["0 runs are new", "3 were there"]);
        assert_done(&site.run(&["verify", tool]));
        let (trials, known) = (
            json(&site, &["trials", tool, "--sort", "number", "--json"]),
            json(&site, &["trials", "out", "--sort", "number", "--json"]),
        );
        let (trials, known) =
            (trials["trials"].as_array().unwrap(), known["trials"].as_array().unwrap());
        assert_eq!(trials.len(), 3);
        for (trial, known) in trials.iter().zip(known) {
            for field in ["params", "state", "value"] {
                let (here, there) = (&trial[field], &known[field]);
                assert!(here == there || tool == "tensorboard", "{field}: {here} {there}");
            }
        }
    }
    assert_eq!(points(&site, "wandb"), before, "in and out without a difference");
    let of_tensorboard = points(&site, "tensorboard");
    assert_eq!(of_tensorboard.len(), before.len());
}

#[test]
fn a_run_that_grew_is_continued_and_one_that_is_cut_or_broken_is_taken_as_far_as_it_goes() {
    let site = site(1);
    assert_done(&site.run(&["sync", "out", "--to", "wandb:w"]));
    let path = events_of(site.path("w"), ".wandb").pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let all = points(&site, "out").len();
    let mut last = 0;
    for cut in [whole.len() / 2, whole.len() - 3, whole.len()] {
        fs::write(&path, &whole[..cut]).unwrap();
        let done = site.run(&["import", "w", "--study", "in"]);
        assert_done(&done);
        if cut < whole.len() {
            assert_names(&done.err, &["is read up to byte"]);
        }
        let here = points(&site, "in").len();
        assert!(here >= last, "{here} after {last}");
        last = here;
    }
    assert_eq!(last, all);
    let trials = json(&site, &["trials", "in", "--json"]);
    assert_eq!(trials["trials"].as_array().unwrap().len(), 1);
    assert_eq!(trials["trials"][0]["state"], "complete");
    let mut broken = whole.clone();
    broken[whole.len() / 2] ^= 1;
    fs::write(&path, &broken).unwrap();
    let done = site.run(&["import", "w", "--study", "broken"]);
    assert_done(&done);
    assert_names(&done.err, &["is read up to byte", "checksum"]);
    fs::write(&path, b"no such file").unwrap();
    let refused = site.run(&["import", "w", "--study", "none"]);
    assert_refused(&refused, &["does not have the header of a W&B file"]);
    assert_done(&site.run(&["verify", "in"]));
}

#[test]
fn an_import_that_is_killed_leaves_each_run_whole_or_absent() {
    let site = site(3);
    assert_done(&site.run(&["sync", "out", "--to", "wandb:w"]));
    let all = points(&site, "out");
    let imported = || {
        let sql = "SELECT count(*) FROM trial JOIN study ON study.id = study_id WHERE name = 'in'";
        site.query::<u32>(sql)
    };
    for count in 0..3 {
        let mut import = site.start(&["import", "w", "--study", "in"]);
        wait_until("so many runs are there", || import.has_ended() || imported() >= count);
        import.kill();
    }
    assert_done(&site.run(&["import", "w", "--study", "in"]));
    assert_eq!(points(&site, "in"), all);
    let trials = json(&site, &["trials", "in", "--json"]);
    let attempts = trials["trials"].as_array().unwrap().iter();
    assert!(attempts.clone().all(|trial| trial["state"] != "paused"), "{trials}");
    assert_done(&site.run(&["verify", "in"]));
}

#[test]
fn rows_of_a_table_are_runs_or_points_of_runs() {
    let site = Site::new("", "");
    site.write("runs.csv", "id,lr,opt,accuracy\na,0.1,adam,0.9\nb,1e-3,sgd,0.95\nc,,sgd,\n");
    let words =
        ["import", "runs.csv", "--metric", "accuracy", "--direction", "maximize", "--run", "id"];
    assert_done(&site.run(&words));
    let best = json(&site, &["best", "runs", "--json"]);
    let text = best.to_string();
    assert!(text.contains("0.95") && text.contains("sgd") && text.contains("0.001"), "{text}");
    site.write(
        "runs.csv",
        "id,lr,opt,accuracy\na,0.1,adam,0.9\nb,1e-3,sgd,0.95\nc,,sgd,\nd,1,sgd,0.1\n",
    );
    let again = site.run(&words);
    assert_done(&again);
    assert_names(&again.err, &["1 run is new", "3 were there"]);
    site.write("log.csv", "run,epoch,loss,speed\nx,1,0.5,3\nx,2,0.25,nan\ny,1,oops,3\n");
    let done =
        site.run(&["import", "log.csv", "--metric", "loss", "--step", "epoch", "--run", "run"]);
    assert_done(&done);
    assert_names(&done.err, &["2 runs are new (5 points)", "line 4: `loss` is not a number"]);
    let refused = site.run(&["import", "log.csv", "--metric", "los", "--step", "epoch"]);
    assert_refused(&refused, &["no column `los`", "`loss`"]);
    let refused = site.run(&["import", "nothing"]);
    assert_refused(&refused, &["nothing"]);
    fs::create_dir(site.path("empty")).unwrap();
    assert_refused(
        &site.run(&["import", "empty"]),
        &["holds no runs of W&B", "events.out.tfevents"],
    );
}

/// Optuna's database that `tests/peers/optuna_demo.py` makes: eight complete trials, three pruned,
/// one failed and one that waits.
const DEMO: &str = include_str!("optuna/demo.sql");

#[test]
fn a_table_has_the_metric_of_its_study_or_loss_and_never_less_than_before() {
    let site = Site::new("", "");
    site.write("scores.csv", "lr,accuracy\n0.1,0.5\n0.2,0.75\n");
    // No metric is named, and there is none of the usual name.
    let refused = site.run(&["import", "scores.csv"]);
    assert_refused(&refused, &["no column `loss`", "`lr`, `accuracy`", "--metric"]);
    let named = ["import", "scores.csv", "--metric", "accuracy", "--direction", "maximize"];
    assert_done(&site.run(&named));
    let again = site.run(&["import", "scores.csv"]);
    assert_done(&again);
    assert_names(&again.err, &["2 were there"]);
    // With less in it the table takes nothing away.
    site.write("scores.csv", "lr,accuracy\n0.1,\n0.2,0.75\n");
    let less = site.run(&["import", "scores.csv"]);
    assert_done(&less);
    assert_names(&less.err, &["less data now", "2 were there"]);
    let best = json(&site, &["best", "scores", "--json"]);
    assert_eq!((&best["trial"]["value"], &best["trial"]["number"]), (&0.75.into(), &1.into()));
    assert_eq!(points(&site, "scores").len(), 2);
    site.write("clean.csv", "lr,loss\n0.1,0.5\n0.2,0.25\n");
    assert_done(&site.run(&["import", "clean.csv"]));
    let best = json(&site, &["best", "clean", "--json"]);
    assert_eq!(best["trial"]["params"], serde_json::json!({"lr": 0.2}));
}

/// The parameters of a study's runs with their values, by their numbers.
fn runs_of(site: &Site, study: &str) -> Vec<(Json, Json)> {
    let trials = json(site, &["trials", study, "--sort", "number", "--json"]);
    let trials = trials["trials"].as_array().unwrap().iter();
    trials.map(|trial| (trial["params"].clone(), trial["value"].clone())).collect()
}

fn runs(expected: &[(&str, f64)]) -> Vec<(Json, Json)> {
    let run =
        |(params, value): &(&str, f64)| (serde_json::from_str(params).unwrap(), Json::from(*value));
    expected.iter().map(run).collect()
}

#[test]
fn rows_without_a_name_are_known_by_their_parameters_wherever_they_stand() {
    let site = Site::new("", "");
    site.write("sh.csv", "lr,loss\n0.1,0.5\n0.2,0.4\n0.2,0.3\n1.0,0.7\n");
    assert_done(&site.run(&["import", "sh.csv"]));
    site.write("sh.csv", "lr,loss\n0.3,0.9\n1,0.7\n0.2,0.4\n0.1,0.5\n0.2,0.3\n0.2,0.2\n");
    let again = site.run(&["import", "sh.csv"]);
    assert_done(&again);
    assert_names(&again.err, &["2 runs are new", "4 were there"]);
    let expected = [
        (r#"{"lr":0.1}"#, 0.5),
        (r#"{"lr":0.2}"#, 0.4),
        (r#"{"lr":0.2}"#, 0.3),
        (r#"{"lr":1.0}"#, 0.7),
        (r#"{"lr":0.3}"#, 0.9),
        (r#"{"lr":0.2}"#, 0.2),
    ];
    assert_eq!(runs_of(&site, "sh"), runs(&expected));
    // Without the first row, the others are the same.
    site.write("sh.csv", "lr,loss\n0.2,0.4\n0.2,0.3\n");
    let fewer = site.run(&["import", "sh.csv"]);
    assert_names(&fewer.err, &["0 runs are new, 2 were there"]);
    assert_done(&site.run(&["verify", "sh"]));
}

#[test]
fn rows_that_an_earlier_version_knew_by_their_position_are_known() {
    let site = Site::new("", "");
    let table = "id,lr,loss\n,0.1,0.5\n,0.2,0.4\na,0.3,0.3\na,0.4,0.2\n7,0.5,0.1\n,0.2,0.6\n";
    site.write("old.csv", table);
    let words = ["import", "old.csv", "--run", "id"];
    assert_done(&site.run(&words));
    let path = fs::canonicalize(site.path("old.csv")).unwrap();
    let store = rusqlite::Connection::open(site.path("runs/hpsearch.db")).unwrap();
    for (number, place) in ["1", "2", "a", "a#4", "7", "6"].into_iter().enumerate() {
        let source = format!("csv:{}#{place}", path.display());
        let changed = store.execute(
            "UPDATE trial SET origin = json_set(origin, '$.tracked.source', ?1) WHERE number = ?2",
            (&source, number as i64),
        );
        assert_eq!(changed, Ok(1));
    }
    drop(store);
    let again = site.run(&words);
    assert_done(&again);
    assert_names(&again.err, &["0 runs are new, 6 were there"]);
    let inserted = table.replace("loss\n", "loss\n,0.9,0.9\n,0.2,0.4\n");
    site.write("old.csv", inserted.replace(",0.2,0.6", ",0.2,0.6\na,0.4,0.15"));
    let again = site.run(&words);
    assert_names(&again.err, &["3 runs are new", "1 was changed", "5 were there"]);
}

#[test]
fn what_a_table_has_changed_since_is_said_and_taken() {
    let site = Site::new("", "");
    site.write("t.csv", "id,lr,loss,opt\na,0.1,0.5,adam\nb,0.2,0.4,adam\n");
    let words = ["import", "t.csv", "--run", "id"];
    assert_done(&site.run(&words));
    site.write("t.csv", "id,lr,loss,opt\na,0.1,0.05,adam\nb,0.25,0.4,adam\n");
    let dry = site.run(&[&words[..], &["--dry-run"]].concat());
    assert_names(&dry.err, &["2 would be changed"]);
    let changed = site.run(&words);
    assert_done(&changed);
    assert_names(
        &changed.err,
        &["#a", "`loss` is 0.05 now and was 0.5", "`lr` is 0.25 now and was 0.2", "2 were changed"],
    );
    let expected = [(r#"{"lr":0.1,"opt":"adam"}"#, 0.05), (r#"{"lr":0.25,"opt":"adam"}"#, 0.4)];
    assert_eq!(runs_of(&site, "t"), runs(&expected));
    assert_eq!(points(&site, "t").len(), 2);
    assert_names(&site.run(&words).err, &["0 runs are new, 2 were there"]);
    assert_done(&site.run(&["verify", "t"]));
    // A row without a name, and a point of several.
    site.write("u.csv", "lr,loss\n0.1,0.5\n");
    assert_done(&site.run(&["import", "u.csv"]));
    site.write("u.csv", "lr,loss\n0.1,0.4\n");
    let changed = site.run(&["import", "u.csv"]);
    assert_names(&changed.err, &["`loss` is 0.4 now and was 0.5", "1 was changed"]);
    site.write("log.csv", "epoch,loss\n1,0.5\n2,0.4\n3,nan\n");
    let words = ["import", "log.csv", "--step", "epoch"];
    assert_done(&site.run(&words));
    site.write("log.csv", "epoch,loss\n1,0.5\n2,0.3\n3,nan\n");
    let changed = site.run(&words);
    assert_names(&changed.err, &["`loss` at 2 is 0.3 now and was 0.4", "1 was changed"]);
    assert_eq!(points(&site, "log").len(), 3);
    // A point that the table no longer has is no longer the run's, also before all others.
    site.write("log.csv", "epoch,loss\n2,0.3\n3,nan\n4,0.2\n");
    assert_done(&site.run(&words));
    let steps: Vec<f64> = {
        let curves = json(&site, &["curves", "log", "--json"]);
        let points = curves["series"][0]["points"].as_array().unwrap().clone();
        points.iter().map(|point| point[0].as_f64().unwrap()).collect()
    };
    assert_eq!(steps, [2.0, 3.0, 4.0]);
    assert_done(&site.run(&["verify", "log"]));
}

#[test]
fn columns_may_be_separated_by_semicolons_and_a_direction_that_is_assumed_is_said() {
    let site = Site::new("", "");
    site.write("semi.csv", "lr;acc;note\n0.1;0.5;a, b\n0.2;0.75;c\n");
    let done = site.run(&["import", "semi.csv", "--metric", "acc"]);
    assert_done(&done);
    assert_names(&done.err, &["smaller values of `acc` are better", "--direction maximize"]);
    let listed = json(&site, &["trials", "semi", "--sort", "number", "--json"]);
    let first = &listed["trials"][0];
    assert_eq!((&first["value"], &first["params"]["note"]), (&0.5.into(), &"a, b".into()));
    let again = site.run(&["import", "semi.csv", "--metric", "acc"]);
    assert_done(&again);
    assert!(!again.err.contains("no direction"), "{}", again.err);
}

#[test]
fn a_table_with_a_quote_that_is_never_closed_is_refused_whole() {
    let site = Site::new("", "");
    let rows: String = (1..=9).map(|row| format!("0.{row},{row},n\n")).collect();
    for open in [3, 9] {
        let row = format!(",{open},");
        site.write("r.csv", format!("loss,lr,note\n{}", rows.replace(&row, &format!("{row}\""))));
        let refused = site.run(&["import", "r.csv"]);
        let place = format!("r.csv:{}: a quote is opened here and never closed", open + 1);
        assert_refused(&refused, &[&place, "close it"]);
    }
    assert!(!site.run(&["ls"]).out.contains('r'), "nothing is imported");
    site.write("r.csv", format!("loss,lr,note\n{}", rows.replace("4,n", "4,\"n\nm\"")));
    assert_names(&site.run(&["import", "r.csv"]).err, &["9 runs are new"]);
}

#[test]
fn a_path_that_is_not_there_is_said_once() {
    let site = Site::new("", "");
    let refused = site.run(&["import", "nope.csv"]);
    assert_refused(&refused, &["nope.csv", "No such file"]);
    assert_eq!(refused.err.matches("No such file").count(), 1, "{}", refused.err);
}

#[test]
fn a_name_that_no_run_can_have_is_changed_and_said() {
    let site = Site::new("", "");
    site.write("log.csv", "id,epoch,loss\n1,1,5\n1,2,4\n10,1,3\n");
    let words = ["import", "log.csv", "--metric", "loss", "--step", "epoch", "--run", "id"];
    let imported = site.run(&words);
    assert_done(&imported);
    assert_names(&imported.err, &["`10`", "`run-10`"]);
    assert_names(&site.run(&["show", "log", "run-10"]).out, &["3"]);
    let again = site.run(&words);
    assert_names(&again.err, &["2 were there"]);
}

#[test]
fn event_files_of_which_nothing_can_be_read_are_named() {
    let site = Site::new("", "");
    fs::create_dir_all(site.path("tb/a")).unwrap();
    site.write("tb/a/events.out.tfevents.1", [7_u8; 1000]);
    let alone = site.run(&["import", "tensorboard:tb"]);
    assert_refused(&alone, &["events.out.tfevents.1", "damaged"]);
}

pub fn database(site: &Site) -> PathBuf {
    let path = site.path("optuna.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    // Its tables come in the order of their names.
    database.execute_batch(&format!("PRAGMA foreign_keys = OFF;\n{DEMO}")).unwrap();
    path
}

#[test]
fn a_study_of_optuna_continues_here_and_is_learned_from() {
    let site = Site::new("", "");
    let path = database(&site);
    let attributes = "INSERT INTO trial_user_attributes (trial_id, key, value_json) VALUES \
        (1, 'conf', '{\"a\":[1,2]}'), (1, 'score', 'NaN'), (1, 'size', '3')";
    rusqlite::Connection::open(path).unwrap().execute_batch(attributes).unwrap();
    let dry = site.run(&["import", "optuna.db", "--dry-run"]);
    assert_done(&dry);
    assert_names(&dry.err, &["12 trials would be new", "1 trial of it has not ended"]);
    for (came, source) in
        [("12 trials are new", "optuna.db"), ("12 were there", "optuna:optuna.db#demo")]
    {
        let done = site.run(&["import", source]);
        assert_done(&done);
        assert_names(&done.err, &[came]);
    }
    assert_done(&site.run(&["verify", "demo"]));
    let summary = &json(&site, &["show", "demo", "0", "--json"])["summary"];
    assert_eq!(summary["conf"], "{\"a\":[1,2]}", "{summary}");
    assert_eq!((&summary["score"], &summary["size"]), (&"NaN".into(), &3.into()));
    let known = rusqlite::Connection::open(site.path("optuna.db")).unwrap();
    let trials = json(&site, &["trials", "demo", "--sort", "number", "--json"]);
    for trial in trials["trials"].as_array().unwrap() {
        let number = trial["number"].as_i64().unwrap();
        let sql = "SELECT state, (SELECT value FROM trial_values v WHERE v.trial_id = t.trial_id), \
            (SELECT count(*) FROM trial_params p WHERE p.trial_id = t.trial_id) \
            FROM trials t WHERE number = ?1";
        let (state, value, params): (String, Option<f64>, u32) = known
            .query_row(sql, [number], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap();
        let states = [("COMPLETE", "complete"), ("PRUNED", "pruned"), ("FAIL", "failed")];
        let state = states.iter().find(|(theirs, _)| *theirs == state).unwrap().1;
        assert_eq!(trial["state"], state, "{trial}");
        if state == "complete" {
            assert_eq!(trial["value"].as_f64(), value, "{trial}");
        }
        assert_eq!(trial["params"].as_object().unwrap().len(), params as usize, "{trial}");
    }
    let lines = concat!(
        r#"{"cmd":"init","space":[],"define":true,"direction":"maximize","accept":true}"#,
        "\n",
        r#"{"cmd":"ask"}"#,
        "\n",
        r#"{"cmd":"tell","id":12,"value":9}"#,
        "\n",
    );
    site.write("lines", lines);
    let program = env!("CARGO_BIN_EXE_hpsearch");
    let said = site.start_shell(&format!("{program} ask-tell --study demo < lines")).end();
    assert_names(&said.out, &[r#""trials":12"#, r#""id":12"#]);
    let best = json(&site, &["best", "demo", "--json"]);
    assert!(best.to_string().contains("12"), "{best}");
    assert_done(&site.run(&["verify", "demo"]));
    let refused = site.run(&["import", "optuna:optuna.db#other"]);
    assert_refused(&refused, &["found 0", "optuna:optuna.db#study"]);
    site.write("text.db", "no database");
    assert_refused(&site.run(&["import", "optuna:text.db"]), &["text.db", "RDBStorage"]);
    for prefix in ["", "optuna:"] {
        let on_server =
            site.run(&["import", &format!("{prefix}postgresql+psycopg2://u:secret@h/d")]);
        assert_refused(
            &on_server,
            &["on a server", "optuna.copy_study(", "postgresql+psycopg2://.."],
        );
        assert!(!on_server.err.contains("secret"), "{}", on_server.err);
    }
    let own = site.run(&["import", "runs/hpsearch.db"]);
    assert_refused(&own, &["is not a database of Optuna"]);
}

const DISTRIBUTION: &str = r#"{"name": "FloatDistribution", "attributes": {
    "low": 0.0, "high": 1.0, "log": false, "step": null}}"#;

/// Adds studies to a database, whose tables are those of the demo: for each its name, the names of
/// its metrics, and of each complete trial the values, and constraints by their keys.
fn add_studies(path: &Path, studies: &[Added<'_>]) {
    let database = rusqlite::Connection::open(path).unwrap();
    for (study, (name, metrics, trials)) in (100..).zip(studies) {
        let objectives = trials.first().map_or(1, |(values, _)| values.len());
        let mut sql = format!("INSERT INTO studies VALUES ({study}, '{name}');");
        for objective in 0..objectives {
            sql += &format!(
                "INSERT INTO study_directions (direction, study_id, objective) VALUES \
                 ('MINIMIZE', {study}, {objective});"
            );
        }
        if let Some(metrics) = metrics {
            sql += &format!(
                "INSERT INTO study_system_attributes (study_id, key, value_json) VALUES ({study}, \
                 'study:metric_names', '{metrics}');"
            );
        }
        for (number, (values, constraints)) in trials.iter().enumerate() {
            let trial = study * 100 + number;
            sql += &format!(
                "INSERT INTO trials (trial_id, number, study_id, state, datetime_start, \
                 datetime_complete) VALUES ({trial}, {number}, {study}, 'COMPLETE', '2026-01-01 \
                 00:00:00', '2026-01-01 00:00:01');
                 INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) \
                 VALUES ({trial}, 'x', 0.{number}, '{DISTRIBUTION}');"
            );
            for (objective, value) in values.iter().enumerate() {
                sql += &format!(
                    "INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES \
                     ({trial}, {objective}, {value}, 'FINITE');"
                );
            }
            for (key, json) in *constraints {
                sql += &format!(
                    "INSERT INTO trial_system_attributes (trial_id, key, value_json) VALUES \
                     ({trial}, '{key}', '{json}');"
                );
            }
        }
        database.execute_batch(&sql).unwrap();
    }
}

/// The values of a trial, and its constraints.
type AddedTrial<'a> = (&'a [f64], &'a [(&'a str, &'a str)]);

type Added<'a> = (&'a str, Option<&'a str>, &'a [AddedTrial<'a>]);

/// A study that learns from one of Optuna.
const LEARNS: &str = r#"
[study]
name = "new"
metric = "loss"
direction = "minimize"
[budget]
trials = 1
[space]
x = { float = [0.0, 1.0] }
[sampler]
type = "tpe"
warm_start = ["optuna.db:limited"]
[command]
run = ["sh", "-c", "echo '@hpsearch {\"step\":1,\"loss\":1}'"]
"#;

#[test]
fn constraints_of_optuna_make_trials_infeasible_here() {
    let site = Site::new("", "");
    let path = database(&site);
    let trials: [AddedTrial<'_>; 6] = [
        (&[0.1], &[("constraints", "[2.5, -1.0, 0.5]")]),
        (&[0.2], &[("constraints:size", "Infinity"), ("constraints:time", "-3.0")]),
        (&[0.3], &[("constraints", "null")]),
        (&[0.0], &[("constraints", "[1e-05]")]),
        (&[0.4], &[("constraints", "[0.0]")]),
        (&[0.5], &[("constraints", "[\"a\"]")]),
    ];
    add_studies(&path, &[("limited", None, &trials)]);
    let imported = site.run(&["import", "optuna:optuna.db#limited"]);
    assert_done(&imported);
    assert_names(&imported.err, &["trial 5: its `constraints` [\"a\"] are not numbers"]);
    let listed = json(&site, &["trials", "limited", "--sort", "number", "--json"]);
    let violations: Vec<Option<f64>> =
        listed["trials"].as_array().unwrap().iter().map(|it| it["violation"].as_f64()).collect();
    assert_eq!(violations, [Some(3.0), Some(f64::MAX), None, Some(1e-5), None, None], "{listed}");
    let reason = &listed["trials"][0]["reason"];
    assert_eq!(
        reason,
        "constraint 0 of Optuna is violated by 2.5; constraint 2 of Optuna is violated by 0.5"
    );
    assert_names(
        &listed["trials"][1]["reason"].to_string(),
        &["constraint `size` of Optuna is violated by"],
    );
    let best = json(&site, &["best", "limited", "--json"]);
    assert_eq!((&best["trial"]["number"], &best["trial"]["value"]), (&2.into(), &0.3.into()));
    let summary = &json(&site, &["show", "limited", "0", "--json"])["summary"];
    assert_eq!(summary["constraints"], "[2.5, -1.0, 0.5]");
    assert_done(&site.run(&["verify", "limited"]));
    // Optuna's view of the store has the total.
    let sql = "SELECT group_concat(value_json, ' ') FROM (SELECT * FROM trial_system_attributes \
        ORDER BY trial_id)";
    assert_names(&site.query::<String>(sql), &["[3.0] [1.79769", "] [0.0] [1.0"]);
    // A study that learns from it does not take them for its best trials.
    site.write("new.toml", LEARNS);
    assert_done(&site.run(&["run", "new.toml", "--plain"]));
    let earlier: String = site.query("SELECT spec ->> '$.earlier' FROM study WHERE name = 'new'");
    let earlier: Json = serde_json::from_str(&earlier).unwrap();
    let last = &earlier.as_array().unwrap().last().unwrap()["params"]["x"];
    assert_eq!(last, 0.1, "{earlier}");
}

#[test]
fn metric_names_of_optuna_are_taken_where_they_can_be() {
    let site = Site::new("", "");
    let path = database(&site);
    let two: [AddedTrial<'_>; 1] = [(&[0.5, 0.25], &[])];
    let one: [AddedTrial<'_>; 1] = [(&[0.5], &[])];
    add_studies(
        &path,
        &[
            ("two", Some(r#"["err", "speed"]"#), &two),
            ("twice", Some(r#"["err", "err"]"#), &two),
            ("one", Some(r#"["accuracy"]"#), &one),
            ("step", Some(r#"["step"]"#), &one),
            ("plain", None, &two),
        ],
    );
    let imported = site.run(&["import", "optuna.db"]);
    assert_done(&imported);
    let metrics = |study: &str| -> Vec<String> {
        let database = rusqlite::Connection::open(site.path("runs/hpsearch.db")).unwrap();
        let sql = "SELECT group_concat(metric) FROM (SELECT metric FROM objective o JOIN study s \
            ON s.id = o.study_id WHERE s.name = ?1 ORDER BY idx)";
        let names: String = database.query_row(sql, [study], |row| row.get(0)).unwrap();
        names.split(',').map(str::to_owned).collect()
    };
    assert_eq!((metrics("two"), metrics("one")), (named("err,speed"), named("accuracy")));
    assert_eq!((metrics("twice"), metrics("step")), (named("value_0,value_1"), named("value")));
    assert_eq!(metrics("plain"), named("value_0,value_1"));
    assert_names(
        &imported.err,
        &["twice: its metric names [\"err\", \"err\"] cannot be metrics here", "--metric"],
    );
    let other = ["import", "optuna:optuna.db#two", "--study", "other", "--metric", "loss"];
    assert_done(&site.run(&other));
    assert_eq!(metrics("other"), named("loss_0,loss_1"));
}

fn named(names: &str) -> Vec<String> {
    names.split(',').map(str::to_owned).collect()
}

#[test]
fn a_study_of_optuna_whose_name_is_none_here_gets_one_that_the_next_import_finds() {
    let site = Site::new("", "");
    let path = database(&site);
    let one: [AddedTrial<'_>; 1] = [(&[0.5], &[])];
    let added = [("exp/1", None, &one[..]), ("exp#1", None, &one), ("??", None, &one)];
    add_studies(&path, &added);
    for (dry, said) in [(true, "1 trial would be new"), (false, "1 trial is new"), (false, "0 ")] {
        let words = ["import", "optuna.db", "--dry-run"];
        let partial = site.run(&words[..2 + usize::from(dry)]);
        assert_eq!(partial.code, 2, "{}", partial.err);
        assert_names(
            &partial.err,
            &[
                "`demo`: ",
                "`exp#1` is the study `exp-1` here; `--study NAME` names another one",
                "`exp/1` is the study `exp-1-2` here",
                &format!("`exp-1`: {said}"),
                &format!("`exp-1-2`: {said}"),
                "`??` of Optuna cannot be a study's name here: `hpsearch import \
                 'optuna:optuna.db#??' --study NAME`",
            ],
        );
    }
    let alone = site.run(&["import", "optuna:optuna.db#??"]);
    assert_refused(&alone, &["`??` of Optuna", "--study NAME"]);
    let named = ["import", "optuna:optuna.db#exp#1", "--study", "mine"];
    assert_done(&site.run(&named));
    assert_eq!(studies(&site), ["demo", "exp-1", "exp-1-2", "mine"]);
    let other = site.run(&["import", "optuna:optuna.db#demo", "--study", "a/b"]);
    assert_refused(&other, &["`a/b` cannot be a study's name"]);
}

#[test]
fn a_database_of_optuna_is_no_store_and_says_how_it_becomes_one() {
    let site = Site::new("", "");
    database(&site);
    let listed = site.run(&["ls", "--store", "optuna.db"]);
    assert_ne!(listed.code, 0);
    let remedy = "`hpsearch import optuna.db --store runs/hpsearch.db`";
    assert_names(&listed.err, &["a database of Optuna", remedy]);
    assert!(!listed.err.contains("--store optuna.db"), "{}", listed.err);
}

#[test]
fn integers_of_optuna_beyond_the_limit_are_refused_with_the_parameter_and_the_limit() {
    let site = Site::new("", "");
    let path = database(&site);
    add_studies(&path, &[("large", None, &[(&[0.5], &[])])]);
    let range = r#"{"name":"IntDistribution","attributes":{"low":0,"high":9223372036854775807}}"#;
    let sql = format!(
        "UPDATE trial_params SET param_name = 'salt', param_value = 7, distribution_json = \
         '{range}' WHERE trial_id = 10000"
    );
    assert_eq!(rusqlite::Connection::open(path).unwrap().execute(&sql, []).unwrap(), 1);
    let limit = "from `0` to `9223372036854775807` is too wide: integers lie between \
                 -4503599627370496 and 4503599627370496 (2^52)";
    let refused = site.run(&["import", "optuna:optuna.db#large"]);
    assert_refused(&refused, &["parameter `salt` of study `large`", limit, "cannot be imported"]);
    // The others are.
    assert_names(&site.run(&["import", "optuna.db"]).err, &["12 trials are new", limit]);
}

#[test]
fn a_value_that_no_report_had_is_at_no_step() {
    let site = Site::new("", "");
    database(&site);
    assert_done(&site.run(&["import", "optuna.db"]));
    let rule = "the program's final value, or else the best report of a trial";
    assert_names(&site.run(&["show", "demo"]).out, &[rule]);
    let best = site.run(&["best", "demo"]).out;
    let first = best.lines().next().unwrap();
    assert!(first.contains(": value ") && !first.contains(" at step"), "{first}");
}

/// A field of a message with bytes in it.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut length = bytes.len();
    let mut out = match number {
        0..16 => vec![number << 3 | 2],
        _ => vec![number << 3 & 0x7f | 0x82, number >> 4],
    };
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    [out, bytes.to_vec()].concat()
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 }
        })
    })
}

/// A file of W&B with these records, each of them short.
fn wandb_file(records: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b":W&B\xe1\xbe\0".to_vec();
    for record in records {
        let checked = [&[1], record.as_slice()].concat();
        file.extend(crc32(&checked).to_le_bytes());
        file.extend((record.len() as u16).to_le_bytes());
        file.extend(checked);
    }
    assert!(file.len() < 32 << 10, "one block");
    file
}

fn item(key: &str, json: &str) -> Vec<u8> {
    field(1, &[field(1, key.as_bytes()), field(16, json.as_bytes())].concat())
}

/// The names of all studies, sorted.
fn studies(site: &Site) -> Vec<String> {
    let listed = json(site, &["ls", "--json"]);
    let studies = listed["studies"].as_array().unwrap().iter();
    let mut names: Vec<String> =
        studies.map(|study| study["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// A run of W&B in `w` or elsewhere, which has logged a loss.
fn wandb_run(site: &Site, path: &str, (id, project): (&str, &str), tags: &[&str]) {
    let tags: Vec<Vec<u8>> = tags.iter().map(|tag| field(10, tag.as_bytes())).collect();
    let about = [field(1, id.as_bytes()), field(3, project.as_bytes()), tags.concat()].concat();
    let row = field(2, &[item("loss", "0.5"), item("_step", "1")].concat());
    site.write(path, wandb_file(&[field(17, &about), row]));
}

#[test]
fn projects_whose_names_are_none_here_are_studies_of_their_own_which_the_next_import_finds() {
    let site = Site::new("", "");
    fs::create_dir(site.path("w")).unwrap();
    let of = ["Image Classification", "Image-Classification", "speech to text", "digits"];
    for (index, project) in of.into_iter().enumerate() {
        wandb_run(&site, &format!("w/run-{index}.wandb"), (&index.to_string(), project), &[]);
    }
    let homes = ["Image-Classification", "Image-Classification-2", "digits", "speech-to-text"];
    let renamed = [
        "`Image Classification` is the study `Image-Classification` here; `--study NAME`",
        "`Image-Classification` is the study `Image-Classification-2` here",
        "`speech to text` is the study `speech-to-text` here",
    ];
    for (words, verb) in [(&["--dry-run"][..], "would be"), (&[], "is")] {
        let done = site.run(&[&["import", "w"], words].concat());
        assert_done(&done);
        assert_names(&done.err, &renamed);
        for home in homes {
            assert_names(&done.err, &[&format!("`{home}`: 1 run {verb} new")]);
        }
        assert!(!done.err.contains("`digits` is"), "{}", done.err);
    }
    assert_eq!(studies(&site), homes);
    assert_names(&site.run(&["show", "Image-Classification"]).out, &["Image Classification"]);
    let again = site.run(&["import", "w"]);
    assert_done(&again);
    assert_eq!(again.err.matches("0 runs are new, 1 was there").count(), 4, "{}", again.err);
    let together = site.run(&["import", "w", "--study", "all"]);
    assert_names(&together.err, &["`all`: 4 runs are new"]);
    assert!(!together.err.contains("--study NAME"), "{}", together.err);
}

#[test]
fn tables_whose_names_are_none_here_are_studies_of_their_own() {
    let site = Site::new("", "");
    let tables = [
        ("a b.csv", "a-b"),
        ("c d.csv", "c-d"),
        ("my results (v2).csv", "my-results-v2"),
        ("nai\u{308}ve.csv", "na\u{ef}ve"),
    ];
    for said in ["1 run is new", "0 runs are new, 1 was there"] {
        for (table, study) in tables {
            site.write(table, "lr,loss\n0.1,0.5\n");
            let done = site.run(&["import", table]);
            assert_done(&done);
            let renamed = format!("is the study `{study}` here; `--study NAME`");
            assert_names(&done.err, &[&renamed, &format!("`{study}`: {said}")]);
        }
    }
    assert_eq!(studies(&site), tables.map(|(_, study)| study));
}

#[test]
fn what_an_earlier_version_imported_into_a_common_study_is_found_there_and_can_be_moved() {
    let site = Site::new("", "");
    fs::create_dir(site.path("wandb")).unwrap();
    for (index, project) in ["Image Classification", "speech to text"].into_iter().enumerate() {
        let path = format!("wandb/run-{index}.wandb");
        wandb_run(&site, &path, (&index.to_string(), project), &[]);
    }
    assert_done(&site.run(&["import", "wandb", "--study", "wandb"]));
    wandb_run(&site, "wandb/run-2.wandb", ("2", "Image Classification"), &[]);
    let more = site.run(&["import", "wandb"]);
    assert_done(&more);
    let moves = "hpsearch mv wandb 0 --to Image-Classification";
    assert_names(
        &more.err,
        &[
            "`wandb`: 0 runs are new, 2 were there",
            "`Image-Classification`: 1 run is new",
            "1 run of `Image Classification` is in the study `wandb`",
            moves,
            "hpsearch mv wandb 1 --to speech-to-text",
        ],
    );
    for moved in ["0 --to Image-Classification", "1 --to speech-to-text"] {
        let words: Vec<&str> = ["mv", "wandb"].into_iter().chain(moved.split(' ')).collect();
        assert_done(&site.run(&[&words[..], &["--yes"]].concat()));
    }
    let moved = site.run(&["import", "wandb"]);
    assert_done(&moved);
    assert_names(
        &moved.err,
        &[
            "`Image-Classification`: 0 runs are new, 2 were there",
            "`speech-to-text`: 0 runs are new, 1 was there",
        ],
    );
    assert!(!moved.err.contains("`wandb`: "), "{}", moved.err);
    // A table stays whole, and is read by the metric of the study that has it.
    site.write("a b.csv", "lr,accuracy\n0.1,0.5\n");
    let goal = ["--metric", "accuracy", "--direction", "maximize"];
    assert_done(&site.run(&[&["import", "a b.csv", "--study", "csv"], &goal[..]].concat()));
    site.write("a b.csv", "lr,accuracy\n0.1,0.5\n0.2,0.6\n");
    let more = site.run(&["import", "a b.csv"]);
    assert_done(&more);
    assert_names(&more.err, &["`csv`: 1 run is new, 1 was there", "mv csv 0 --to a-b"]);
    // Another table goes to its own study.
    site.write("c d.csv", "lr,loss\n0.1,0.5\n");
    assert_names(&site.run(&["import", "c d.csv"]).err, &["`c-d`: 1 run is new"]);
}

#[test]
fn tags_that_are_none_here_are_written_as_tags_and_said() {
    let site = Site::new("", "");
    fs::create_dir(site.path("w")).unwrap();
    let tags = ["needs review", "v2", "best-so-far!", "??"];
    for id in ["a", "b"] {
        wandb_run(&site, &format!("w/run-{id}.wandb"), (id, "p"), &tags);
    }
    let done = site.run(&["import", "w"]);
    assert_done(&done);
    let said = "tags are written differently here: `best-so-far!` as `best-so-far`, `needs \
        review` as `needs-review`";
    assert_eq!(done.err.matches(said).count(), 1, "{}", done.err);
    assert_names(&done.err, &["no tags here, and left out: `??`"]);
    let trials = json(&site, &["trials", "p", "--json"]);
    let expected = serde_json::json!(["best-so-far", "needs-review", "v2"]);
    for trial in trials["trials"].as_array().unwrap() {
        assert_eq!(trial["tags"], expected);
    }
}

#[test]
fn nested_summaries_are_values_with_dots_and_media_are_counted_and_left_out() {
    let site = Site::new("", "");
    let image =
        [item("im._type", "\"image-file\""), item("im.height", "8"), item("im.path", "\"p\"")];
    let row = |step: &str| {
        let own = [item("loss", step), item("eval", "{\"acc\":0.5}"), item("_step", step)];
        field(2, &[own.concat(), image.concat()].concat())
    };
    let summary = [
        item("loss", "2"),
        item("d.x", "1"),
        item("e", "{\"f\":{\"g\":2.5},\"word\":\"ok\"}"),
        item("list", "[1,2]"),
        item("h", "{\"_type\":\"histogram\",\"bins\":[0,1],\"values\":[3]}"),
        image.concat(),
    ];
    let run = field(17, &[field(1, b"a"), field(3, b"p")].concat());
    let early = field(3, &image.concat());
    let records = [run, early, row("1"), row("2"), field(3, &summary.concat())];
    fs::create_dir(site.path("w")).unwrap();
    site.write("w/run-a.wandb", wandb_file(&records));
    let done = site.run(&["import", "w", "--metric", "los"]);
    assert_done(&done);
    assert_names(
        &done.err,
        &[
            "no run has the metric `los`: there are `eval.acc`, `loss`",
            "skipped, since they are not numbers: `list`",
            "skipped 3 objects of media: `h` (histogram), 2 of `im` (image-file)",
        ],
    );
    let shown = json(&site, &["show", "p", "0", "--json"]);
    let expected = serde_json::json!({ "d.x": 1, "e.f.g": 2.5, "e.word": "ok" });
    assert_eq!(shown["summary"], expected);
    let points = points(&site, "p");
    assert!(points.iter().all(|point| !point.contains("im.")), "{points:?}");
    assert!(points.iter().any(|point| point.contains("eval.acc")), "{points:?}");
}

#[test]
fn hostile_words_and_numbers_are_kept_or_left_out_and_break_nothing() {
    let site = Site::new("", "");
    let odd =
        ["", "\0", "a\nb", "\u{1b}[31m", "../../etc", "'; DROP TABLE trial; --", "\u{202e}x", "12"];
    let long = "x".repeat(1500);
    fs::create_dir(site.path("w")).unwrap();
    for (number, odd) in odd.into_iter().chain([long.as_str()]).enumerate() {
        let config =
            [item(odd, "\"\\u0000\""), item("lr", "1e999"), item("deep", "{\"a\":{\"b\":[[]]}}")]
                .concat();
        let own = [
            field(1, format!("id{number}").as_bytes()),
            field(3, odd.as_bytes()),
            field(4, &config),
            field(6, odd.as_bytes()),
            field(8, odd.as_bytes()),
            field(9, odd.as_bytes()),
            field(10, odd.as_bytes()),
        ];
        let step = |step: &str| {
            [item(odd, "1"), item("loss", "NaN"), item("_step", step), item("_timestamp", "1e300")]
        };
        let steps = ["-5", "1e300", "NaN", "9007199254740993", "\"x\""];
        let rows = steps.iter().map(|at| field(2, &step(at).concat()));
        let records: Vec<_> = [field(17, &own.concat())].into_iter().chain(rows).collect();
        site.write(&format!("w/run-{number}.wandb"), wandb_file(&records));
    }
    let done = site.run(&["import", "w", "--study", "odd"]);
    assert_done(&done);
    assert!(!done.err.contains('\u{1b}') && !done.err.contains('\u{202e}'), "{}", done.err);
    for words in
        [vec!["verify", "odd"], vec!["trials", "odd"], vec!["show", "odd", "3"], vec!["doctor"]]
    {
        let done = site.run(&words);
        assert_done(&done);
        assert!(!done.out.contains('\u{1b}'), "{}", done.out);
    }
    let again = site.run(&["import", "w", "--study", "odd"]);
    assert_names(&again.err, &["0 runs are new, 9 were there"]);
    // Without a study, projects that can be no study's name go to one called as the directory.
    assert_done(&site.run(&["import", "w"]));
}

#[test]
fn bytes_at_random_are_no_reason_to_stop() {
    let site = Site::new("", "");
    let mut state = 1u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    fs::create_dir(site.path("w")).unwrap();
    for number in 0..60 {
        fs::create_dir_all(site.path(&format!("t/{number}"))).unwrap();
        let run = field(17, &field(1, format!("id{number}").as_bytes()));
        let mut rows: Vec<Vec<u8>> = (0..5)
            .map(|step| field(2, &[item("loss", "0.5"), item("_step", &step.to_string())].concat()))
            .collect();
        let row = &mut rows[random() % 5];
        for _ in 0..=random() % 4 {
            let at = random() % row.len();
            row[at] = random() as u8;
        }
        let file = wandb_file(&[vec![run], rows].concat());
        site.write(&format!("w/run-{number}.wandb"), &file);
        let bytes: Vec<u8> = (0..random() % 200).map(|_| random() as u8).collect();
        site.write(&format!("t/{number}/events.out.tfevents.1"), &bytes);
    }
    assert_done(&site.run(&["import", "w", "--study", "w"]));
    let nothing = site.run(&["import", "t", "--study", "t"]);
    assert!(nothing.code == 0 || nothing.code == 2, "{}", nothing.err);
    let trials = json(&site, &["trials", "w", "--json", "--limit", "100"]);
    assert_eq!(trials["trials"].as_array().unwrap().len(), 60);
    assert_done(&site.run(&["verify", "w"]));
}

#[test]
fn columns_of_one_name_are_refused_and_numbers_beyond_the_range_are_said() {
    let site = Site::empty();
    for header in ["x,loss,loss", "lr,lr,loss"] {
        site.write("twice.csv", format!("{header}\n1,2,3\n"));
        let refused = site.run(&["import", "twice.csv", "--metric", "loss"]);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert_names(&refused.err, &["two columns named", "rename one"]);
    }
    site.write("large.csv", "x,loss\n1,1e309\n2,inf\n");
    let taken = site.run(&["import", "large.csv", "--metric", "loss"]);
    assert_names(&(taken.out + &taken.err), &["line 2: `loss` = 1e309 is too large"]);
}
