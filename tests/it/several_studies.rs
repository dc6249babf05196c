//! Verbs over several studies: one table, rows that name their study, and a broken study that
//! holds up nobody.

use rusqlite::Connection;
use serde_json::{Value as Json, json};

use crate::harness::{ONE_SLOT, REPORT_X, Site, assert_done, assert_names, assert_refused, study};

fn text_of(name: &str) -> String {
    let text = study("trials = 2", ONE_SLOT);
    let seed = name.bytes().map(u64::from).sum::<u64>();
    let text = text.replace("name = \"s\"", &format!("name = \"{name}\""));
    text.replace("seed = 7", &format!("seed = {seed}"))
}

/// `sms-a`, `sms-b` minimise `loss`; `digits` maximises `accuracy` and searches `y`, too.
fn site() -> Site {
    let site = Site::new(&text_of("s"), REPORT_X);
    let digits = text_of("digits")
        .replace("metric = \"loss\"", "metric = \"accuracy\"")
        .replace("minimize", "maximize")
        .replace("[sampler]", "y = { int = [1, 9] }\n[sampler]");
    site.write("digits.sh", "echo \"@hpsearch {\\\"step\\\":1,\\\"accuracy\\\":$1}\"\n");
    site.write("digits.toml", digits.replace("trial.sh", "digits.sh"));
    site.write("sms-a.toml", text_of("sms-a"));
    site.write("sms-b.toml", text_of("sms-b"));
    for name in ["digits", "sms-a", "sms-b"] {
        assert_done(&site.run(&["run", &format!("{name}.toml"), "--plain", "-q"]));
    }
    site
}

fn rows(answer: &Json) -> Vec<(String, u64, f64)> {
    let trials = answer["trials"].as_array().unwrap().iter();
    trials
        .map(|trial| {
            (
                trial["study"].as_str().unwrap().to_owned(),
                trial["number"].as_u64().unwrap(),
                trial["value"].as_f64().unwrap(),
            )
        })
        .collect()
}

fn studies_of(rows: &[(String, u64, f64)]) -> Vec<&str> {
    rows.iter().map(|(study, ..)| study.as_str()).collect()
}

#[test]
fn trials_of_studies_with_one_metric_are_ranked_together() {
    let site = site();
    let found = rows(&site.json(&["trials", "--study", "sms*", "--json"]));
    assert_eq!(found.len(), 4);
    assert!(found.is_sorted_by(|one, next| one.2 <= next.2), "{found:?}");
    let best = rows(&site.json(&["trials", "--study", "sms*", "--limit", "1", "--json"]));
    assert_eq!(best, &found[..1]);
    let worst = rows(&site.json(&["trials", "--study", "sms*", "--reverse", "--json"]));
    assert_eq!(worst.iter().rev().cloned().collect::<Vec<_>>(), found);
    let table = site.run(&["trials", "--study", "sms-a", "--study", "sms-b"]);
    assert_done(&table);
    let title = table.out.lines().next().unwrap();
    assert!(title.starts_with("study  trial  state") && title.contains("loss"), "{title}");
    assert!(!title.contains("metric"), "{title}");
}

#[test]
fn trials_of_studies_with_different_metrics_stay_study_by_study() {
    let site = site();
    let found = rows(&site.json(&["trials", "--all", "--json"]));
    assert_eq!(studies_of(&found), ["digits", "digits", "sms-a", "sms-a", "sms-b", "sms-b"]);
    assert!(found[0].2 >= found[1].2 && found[2].2 <= found[3].2, "each by its own direction");
    let first = rows(&site.json(&["trials", "--all", "--limit", "1", "--json"]));
    assert_eq!(studies_of(&first), ["digits", "sms-a", "sms-b"]);
    let by_number = rows(&site.json(&["trials", "--all", "--sort", "number", "--json"]));
    assert_eq!(by_number.iter().map(|row| row.1).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
    let table = site.run(&["trials", "--all"]);
    assert_done(&table);
    assert_names(&table.out, &["study", "metric", "accuracy", "loss"]);
}

#[test]
fn a_filter_leaves_out_studies_that_do_not_know_its_names() {
    let site = site();
    let ended = site.run(&["trials", "--all", "--where", "y>=1", "--json"]);
    assert_done(&ended);
    assert_eq!(studies_of(&rows(&ended.json())), ["digits", "digits"]);
    assert_names(&ended.err, &["`sms-a` is left out", "`sms-b` is left out"]);
    assert_refused(&site.run(&["trials", "--all", "--where", "z>=1"]), &["z"]);
    assert_refused(&site.run(&["trials", "--all", "--sort", "z"]), &["z"]);
}

#[test]
fn trials_are_selected_and_sorted_by_when_they_were_created() {
    let site = site();
    let trials =
        |options: &[&str]| rows(&site.json(&[&["trials", "--all", "--json"], options].concat()));
    let order = ["digits", "digits", "sms-a", "sms-a", "sms-b", "sms-b"];
    assert_eq!(studies_of(&trials(&["--sort", "created"])), order);
    let newest = trials(&["--sort", "-created"]);
    assert_eq!(studies_of(&newest).into_iter().rev().collect::<Vec<_>>(), order);
    // The last trial, by the moment that it shows.
    let written = site.json(&["export-data", "sms-b", "--where", "number=1", "--format", "json"]);
    let created = written[0]["created"].as_str().unwrap().to_owned();
    assert_eq!(trials(&["--where", &format!("created>={created}")]), newest[..1]);
    assert_eq!(trials(&["--where", &format!("created < {created}")]).len(), 5);
    assert_eq!(trials(&["--where", "created<2026-01-01"]), []);
    let wrong = site.run(&["trials", "--all", "--where", "created>yesterday"]);
    assert_refused(&wrong, &["compared with a date, not with `yesterday`", "2026-11-01"]);
}

#[test]
fn patterns_name_what_there_is() {
    let site = site();
    assert_refused(
        &site.run(&["trials", "--study", "sns*"]),
        &["no study matches `sns*`", "`digits`"],
    );
    assert_refused(&site.run(&["trials", "digits", "--all"]), &["`digits`", "--all"]);
    assert_refused(&site.run(&["trials", "--all", "--study", "x"]), &["--all"]);
    let listed: Json = site.json(&["ls", "--study", "*-b", "--json"]);
    assert_eq!(listed["studies"].as_array().unwrap().len(), 1);
    assert_done(&site.run(&["mv", "--archive", "sms-a"]));
    let found = rows(&site.json(&["trials", "--all", "--json"]));
    assert_eq!(studies_of(&found), ["digits", "digits", "sms-b", "sms-b"]);
    let found = rows(&site.json(&["trials", "--study", "sms*", "--json"]));
    assert_eq!(found.len(), 4, "an archived study can be named");
}

#[test]
fn curves_of_several_studies_lie_over_each_other() {
    let site = site();
    let told: Json = site.json(&["curves", "sms-a/1", "sms-b/0", "--json"]);
    let curves = told["series"].as_array().unwrap();
    // A point is its step, its value, and seconds.
    let of = |curve: &Json| {
        (
            curve["study"].clone(),
            curve["trial"].clone(),
            json!([&curve["points"][0].as_array().unwrap()[..2]]),
        )
    };
    let value = |study: &str, number: u64| {
        let trials: Json = site.json(&["trials", study, "--sort", "number", "--json"]);
        trials["trials"][usize::try_from(number).unwrap()]["value"].clone()
    };
    assert_eq!(of(&curves[0]), (json!("sms-a"), json!(1), json!([[1, value("sms-a", 1)]])));
    assert_eq!(of(&curves[1]), (json!("sms-b"), json!(0), json!([[1, value("sms-b", 0)]])));
    let drawn = site.run(&["curves", "--all"]);
    assert_done(&drawn);
    assert_names(&drawn.out, &["accuracy by step", "loss by step", "digits/0", "sms-b/1"]);
    assert_refused(&site.run(&["curves", "sms-a/9"]), &["no trial 9", "sms-a"]);
    assert_refused(&site.run(&["curves", "--all", "--metric", "f1"]), &["f1"]);
    let table = site.run(&["curves", "--study", "sms*", "--table"]);
    assert_done(&table);
    assert_eq!(table.out.lines().count(), 5, "{}", table.out);
}

#[test]
fn trials_of_two_studies_are_compared() {
    let site = site();
    let told: Json = site.json(&["diff", "sms-a/0", "digits/1", "--json"]);
    assert_eq!(told.get("study"), None);
    assert_eq!(
        (&told["trials"][0]["study"], &told["trials"][1]["study"]),
        (&json!("sms-a"), &json!("digits"))
    );
    let kinds: Vec<_> =
        told["different"].as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    assert!(kinds.contains(&json!("x")) && kinds.contains(&json!("y")), "{kinds:?}");
    let table = site.run(&["diff", "sms-a/0", "digits/1"]);
    assert_done(&table);
    assert_names(&table.out, &["sms-a/0", "digits/1", "loss | accuracy"]);
    let same: Json = site.json(&["diff", "sms-a/0", "sms-a/1", "--json"]);
    assert_eq!((&same["study"], same["trials"][0].get("study")), (&json!("sms-a"), None));
    assert_refused(&site.run(&["diff", "sms-a/0", "nope/1"]), &["no study `nope`"]);
}

#[test]
fn exported_rows_name_their_study() {
    let site = site();
    let csv = site.run(&["export-data", "--all"]);
    assert_done(&csv);
    let lines: Vec<&str> = csv.out.lines().collect();
    assert!(lines[0].starts_with("study,number,state,value,"), "{}", lines[0]);
    assert!(lines[0].ends_with("params.x,params.y,metrics.accuracy,metrics.loss"), "{}", lines[0]);
    assert_eq!(lines.len(), 7);
    assert!(
        lines[1].starts_with("digits,0,complete,") && lines[6].starts_with("sms-b,1,complete,")
    );
    let told: Json =
        site.json(&["export-data", "--study", "sms*", "--format", "json", "--reports"]);
    assert_eq!((told.as_array().unwrap().len(), &told[3]["study"]), (4, &json!("sms-b")));
    let one: Json = site.json(&["export-data", "digits", "--format", "json"]);
    assert_eq!(one[0].get("study"), None);
}

#[test]
fn pictures_are_drawn_study_by_study() {
    let site = site();
    let told: Json = site.json(&["plot", "history", "--study", "sms*", "--json"]);
    let charts = told["charts"].as_array().unwrap();
    assert_eq!((&charts[0]["study"], &charts[1]["study"]), (&json!("sms-a"), &json!("sms-b")));
    let drawn = site.run(&["plot", "history", "--all"]);
    assert_done(&drawn);
    assert_names(&drawn.out, &["digits", "sms-a", "sms-b"]);
    assert_refused(&site.run(&["plot", "importance", "--all"]), &["one study at a time"]);
}

#[test]
fn histories_and_curves_of_several_studies_lie_over_each_other() {
    let site = site();
    for arguments in [&["plot", "curves", "sms-a", "sms-b"][..], &["plot", "curves", "sms*"]] {
        let drawn = site.run(arguments);
        assert_done(&drawn);
        assert_eq!(drawn.out.matches("loss by step").count(), 1, "{}", drawn.out);
        let legend = drawn.out.lines().last().unwrap();
        assert!(legend.contains("sms-a") && legend.contains("sms-b"), "{legend}");
    }
    let drawn = site.run(&["plot", "curves", "--all"]);
    assert_names(&drawn.out, &["accuracy by step", "loss by step", "digits"]);
    let drawn = site.run(&["plot", "history", "sms-a.toml", "digits"]);
    assert_done(&drawn);
    assert_names(&drawn.out, &["loss by trial, minimized", "accuracy by trial, maximized"]);
    // A study without the metric is left out, and the others are drawn.
    let drawn = site.run(&["plot", "curves", "--all", "--metric", "accuracy"]);
    assert_done(&drawn);
    assert_names(&drawn.err, &["`sms-a` is left out", "`sms-b` is left out"]);
    assert!(drawn.out.contains("accuracy by step"), "{}", drawn.out);
    // In one file every panel names its study.
    let file = site.path("slices.svg");
    assert_done(&site.run(&["plot", "slice", "sms-a", "sms-b", "-o", file.to_str().unwrap()]));
    let svg = std::fs::read_to_string(file).unwrap();
    assert_names(&svg, &["sms-a: loss by x", "sms-b: loss by x"]);
    let drawn = site.run(&["plot", "slice", "sms-a", "sms-b"]);
    assert_eq!(drawn.out.matches("loss by x").count(), 2, "{}", drawn.out);
    // The study may come first, as one alone.
    assert_eq!(
        site.run(&["plot", "sms-a", "history"]).out,
        site.run(&["plot", "history", "sms-a"]).out
    );
    assert_refused(&site.run(&["plot", "histry", "sms-a"]), &["`histry`", "`history`"]);
    assert_refused(&site.run(&["plot", "history", "sms-a", "nope"]), &["no study `nope`"]);
    assert_refused(
        &site.run(&["plot", "history", "sms-a", "--metric", "x"]),
        &["`x` is not an objective", "`loss`"],
    );
}

#[test]
fn a_filter_names_the_study_and_watch_says_what_prints_its_table() {
    let site = site();
    let found = rows(&site.json(&["trials", "--all", "--where", "study=sms-b", "--json"]));
    assert_eq!(studies_of(&found), ["sms-b", "sms-b"]);
    for (arguments, verb) in [
        (&["watch", "--all"][..], "trials --all"),
        (&["watch", "sms*"], "trials --study 'sms*'"),
        (&["watch", "sms-a", "digits"], "trials --study 'sms-a' --study 'digits'"),
        (&["watch", "sms-a"], "trials sms-a"),
    ] {
        assert_refused(&site.run(arguments), &["needs a terminal", verb]);
    }
    assert_refused(&site.run(&["watch", "sns*"]), &["no study matches `sns*`"]);
    assert_refused(&site.run(&["watch", "sms-a", "--all"]), &["--all"]);
}

#[test]
fn a_study_that_cannot_be_read_holds_up_no_other() {
    let site = site();
    let connection = Connection::open(site.path("runs/hpsearch.db")).unwrap();
    let sql = "UPDATE study SET spec = json_set(spec, '$.later', 1) WHERE name = 'sms-a'";
    connection.execute(sql, []).unwrap();
    for arguments in [
        &["ls", "--json"][..],
        &["trials", "--all", "--json"],
        &["export-data", "--all"],
        &["curves", "--all", "--json"],
        &["plot", "history", "--all"],
    ] {
        let ended = site.run(arguments);
        assert_done(&ended);
        assert_names(&ended.err, &["`sms-a` is left out"]);
        assert!(ended.out.contains("sms-b") && !ended.out.contains("sms-a"), "{arguments:?}");
    }
    assert_done(&site.run(&["trials", "sms-b"]));
}
