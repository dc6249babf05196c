//! Runs in groups, by `--group` or by a parameter: their mean curves and the statistics of their
//! values.

use hpsearch::server::Limits;
use hpsearch::study::event::AttemptEnd;
use hpsearch::study::trial::TrialState;
use serde_json::{Value as Json, json};

use crate::harness::{Browser, Scene, Site, assert_done, assert_names, assert_refused};

/// Reports the losses that it is given.
const TRAIN: &str = "step=0\nfor loss in $(echo $4 | tr , ' '); do step=$((step + 1))\n\
    echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$loss}\"; done\n";

/// Two runs of the group `base`, one of `high` and one of none, with two values of `lr`.
fn tracked() -> Site {
    let site = Site::empty();
    site.write("train.sh", TRAIN);
    for (group, lr, losses) in [
        ("base", "0.1", "0.5,0.4,0.3"),
        ("base", "0.1", "0.7,0.6"),
        ("high", "1", "0.9,NaN,0.2"),
        ("", "1.0", "0.8,0.2"),
    ] {
        let options = if group.is_empty() { vec![] } else { vec!["--group", group] };
        let command = ["--", "sh", "train.sh", "--lr", lr, "--losses", losses];
        assert_done(&site.run(&[&["track"], &options[..], &command].concat()));
    }
    site
}

fn assert_near(json: &Json, expected: f64) {
    assert!((json.as_f64().unwrap() - expected).abs() < 1e-12, "{json}");
}

#[test]
fn the_curves_of_a_group_have_a_mean_and_a_deviation_at_each_step() {
    let site = tracked();
    let told = site.run(&["curves", "runs", "--by", "group", "--json"]);
    assert_done(&told);
    assert_names(&told.err, &["1 trial has no group, and is left out: 3"]);
    let json: Json = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&json["by"], &json["metric"]), (&json!("group"), &json!("loss")));
    let [base, high] = json["groups"].as_array().unwrap().as_slice() else { panic!("{json}") };
    assert_eq!((&base["value"], &base["trials"]), (&json!("base"), &json!([0, 1])));
    let first = &base["points"][0];
    assert_eq!((&first["step"], &first["runs"]), (&json!(1), &json!(2)));
    assert_near(&first["mean"], 0.6);
    assert_near(&first["deviation"], 0.2 / 2.0_f64.sqrt());
    // One run got so far, and has no spread.
    let last = json!({"step": 3, "runs": 1, "mean": 0.3, "deviation": null});
    assert_eq!(base["points"][2], last);
    // A value that is not finite is no part of a mean.
    let steps: Vec<_> = high["points"].as_array().unwrap().iter().map(|one| &one["step"]).collect();
    assert_eq!(steps, [1, 3]);
    let named: Json = site.json(&["curves", "runs", "0", "2", "--by", "group", "--json"]);
    assert_eq!(named["groups"][0]["points"][0]["mean"], 0.5);
    let table = site.run(&["curves", "runs", "--by", "lr", "--table"]);
    assert_names(&table.out, &["lr 0.1", "lr 1", "deviation", "runs"]);
    let drawn = site.run(&["curves", "runs", "--by", "group"]);
    assert_names(&drawn.out, &["mean and standard deviation by group", "base (2 runs)"]);
}

#[test]
fn bands_around_mean_curves_are_drawn_in_files_and_on_the_page() {
    let site = tracked();
    let plotted = site.run(&["plot", "curves", "runs", "--by", "group", "-o", "groups.svg"]);
    assert_done(&plotted);
    assert_names(&plotted.err, &["1 trial has no group, and is left out: 3"]);
    let svg = std::fs::read_to_string(site.path("groups.svg")).unwrap();
    assert_names(&svg, &["fill-opacity=\"0.18\"", "base (2 runs)", "high (1 run)"]);
    let plot = site.json(&["plot", "curves", "runs", "--by", "group", "--json"]);
    let series = &plot["charts"][0]["series"];
    assert_eq!((&series[0]["mark"], &series[2]["mark"]), (&json!("band"), &json!("line")));
    let [low, high] = [&series[0]["points"][0], &series[0]["points"][1]];
    assert_near(&low[1], 0.6 - 0.2 / 2.0_f64.sqrt());
    assert_near(&high[1], 0.6 + 0.2 / 2.0_f64.sqrt());
    let browser = Browser::with_limits(&site, Limits::default(), false);
    let figures = browser.json("/api/figures?study=runs&kind=curves&group=lr");
    let names: Vec<_> = figures["figures"][0]["series"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&names[2]["name"], &names[3]["name"]),
        (&json!("lr 0.1 (2 runs)"), &json!("lr 1 (2 runs)"))
    );
    assert_eq!(browser.get("/api/figures?study=runs&kind=curves&group=lrr").code, 400);
}

#[test]
fn groups_are_listed_by_their_means() {
    let site = tracked();
    let json = site.json(&["trials", "runs", "--by", "lr", "--json"]);
    let [first, second] = json["groups"].as_array().unwrap().as_slice() else { panic!("{json}") };
    // 1 and 1.0 are one value.
    assert_eq!((&first["value"], &first["trials"]), (&json!(1), &json!([2, 3])));
    assert_eq!((&second["value"], &second["complete"]), (&json!(0.1), &json!(2)));
    let values = &second["values"][0];
    assert_eq!((&values["metric"], &values["runs"]), (&json!("loss"), &json!(2)));
    assert_near(&values["mean"], 0.45);
    assert_near(&values["deviation"], 0.3 / 2.0_f64.sqrt());
    assert_eq!(values["best"], json!({"trial": 0, "value": 0.3}));
    let table = site.run(&["trials", "runs", "--by", "group", "--where", "lr=0.1"]);
    assert_names(&table.out, &["group", "mean loss", "0.45", "of trial"]);
    assert!(!table.out.contains("high"), "{}", table.out);
    let pruned = Scene::digits().close().json(&["trials", "digits", "--by", "optim", "--json"]);
    let sgd = pruned["groups"].as_array().unwrap().iter().find(|group| group["value"] == "sgd");
    let none =
        json!({"metric": "eval_loss", "runs": 0, "mean": null, "deviation": null, "best": null});
    assert_eq!((&sgd.unwrap()["complete"], &sgd.unwrap()["values"][0]), (&json!(1), &none));
}

/// Runs of two configurations, one of them on two seeds, and one run without a `width`.
fn seeded(site: &Site, study: &str, metric: &str) {
    for (options, losses) in [
        (["--lr", "0.1", "--width", "8", "--seed", "1"], "0.5,0.3"),
        (["--lr", "0.1", "--width", "8", "--seed", "2"], "0.7,0.5"),
        (["--lr", "0.2", "--width", "8", "--seed", "1"], "0.2,0.1"),
        (["--lr", "0.2", "--fold", "0", "--seed", "1"], "0.9,0.8"),
    ] {
        let track = ["track", "--study", study, "--metric", metric, "--direction", "minimize"];
        let command = ["--", "sh", "train.sh", "--metric", metric, "--losses", losses];
        assert_done(&site.run(&[&track[..], &command, &options].concat()));
    }
}

/// As `TRAIN`, of the metric that is its second argument.
const TRAIN_OF: &str = "step=0\nfor loss in $(echo $4 | tr , ' '); do step=$((step + 1))\n\
    echo \"@hpsearch {\\\"step\\\":$step,\\\"$2\\\":$loss}\"; done\n";

#[test]
fn trials_that_differ_only_in_their_seeds_are_a_group() {
    let site = Site::empty();
    site.write("train.sh", TRAIN_OF);
    seeded(&site, "runs", "loss");
    let over = ["--over", "seed", "--over", "losses"];
    let json = site.json(&[&["trials", "runs", "--json"][..], &over].concat());
    assert_eq!(json["over"], json!(["seed", "losses"]));
    let groups = json["groups"].as_array().unwrap();
    let trials: Vec<_> = groups.iter().map(|group| group["trials"].clone()).collect();
    assert_eq!(trials, [json!([2]), json!([0, 1]), json!([3])], "by their means");
    let common = json!({"lr": 0.1, "metric": "loss", "width": 8});
    assert_eq!((&groups[1]["params"], &groups[1]["value"]), (&common, &Json::Null));
    assert_near(&groups[1]["values"][0]["mean"], 0.4);
    // A parameter that a run lacks distinguishes it, as a value does.
    assert_eq!(groups[2]["params"], json!({"fold": 0, "lr": 0.2, "metric": "loss"}));
    let table = site.run(&[&["trials", "runs"][..], &over].concat());
    let head: Vec<&str> = table.out.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head[..4], ["fold", "lr", "width", "trials"], "not `metric`, the same everywhere");
    let drawn = site.run(&[&["curves", "runs"][..], &over].concat());
    let title = "mean and standard deviation over seed, losses";
    assert_names(&drawn.out, &[title, "lr 0.1, width 8 (2 runs)", "fold 0, lr 0.2 (1 run)"]);
    let one = site.json(&["trials", "runs", "--json", "--over", "seed"]);
    assert_eq!(one["groups"].as_array().unwrap().len(), 4, "losses differ");
}

#[test]
fn runs_of_one_configuration_are_averaged_where_no_parameter_is_called_seed() {
    let mut scene = Scene::new();
    scene.begin("digits");
    for (number, rate) in [(0, 0.1), (1, 0.1), (2, 0.2)] {
        scene.start(number, rate, 2, "adamw");
        scene.report(number, &[rate * (number + 1) as f64]);
        let value = Some(rate * (number + 1) as f64);
        scene.end(number, AttemptEnd::Completed, TrialState::Complete, value, None);
    }
    scene.leave();
    let json = scene.json(&["trials", "digits", "--over", "seed", "--json"]);
    let groups = json["groups"].as_array().unwrap();
    let trials: Vec<_> = groups.iter().map(|group| &group["trials"]).collect();
    assert_eq!(trials, [&json!([0, 1]), &json!([2])]);
    assert_near(&groups[0]["values"][0]["mean"], 0.15);
}

#[test]
fn groups_of_several_studies_are_in_one_table_and_one_figure() {
    let site = Site::empty();
    site.write("train.sh", TRAIN_OF);
    seeded(&site, "one", "loss");
    seeded(&site, "two", "loss");
    let told = site.json(&["trials", "--all", "--by", "lr", "--json"]);
    let of = |groups: &Json, key: &str| -> Vec<Json> {
        groups["groups"].as_array().unwrap().iter().map(|group| group[key].clone()).collect()
    };
    assert_eq!((&told["study"], &told["by"]), (&Json::Null, &json!("lr")));
    assert_eq!(of(&told, "study"), ["one", "two", "one", "two"].map(|name| json!(name)));
    assert_eq!(of(&told, "value"), [0.1, 0.1, 0.2, 0.2].map(|rate| json!(rate)), "by the mean");
    let table = site.run(&["trials", "--study", "*", "--by", "fold"]);
    assert_names(&table.out, &["study", "fold", "mean loss", "one", "two"]);
    let lack = ["one", "two"].map(|name| format!("`{name}`: 3 trials have no value of `fold`"));
    assert_names(&table.err, &lack.each_ref().map(String::as_str));
    let curves = site.json(&["curves", "--all", "--by", "lr", "--json"]);
    assert_eq!(of(&curves, "study"), ["one", "one", "two", "two"].map(|name| json!(name)));
    assert_eq!(curves["groups"][0]["metric"], "loss");
    let named = site.json(&["curves", "one/0,2", "two/1", "--by", "lr", "--json"]);
    assert_eq!(of(&named, "trials"), [json!([0]), json!([2]), json!([1])]);
    let drawn = site.run(&["curves", "--all", "--by", "lr"]);
    assert_names(&drawn.out, &["loss by step, mean", "one: lr 0.1 (2 runs)", "two: lr 0.1"]);
    let rows = site.run(&["curves", "--all", "--by", "lr", "--table"]);
    assert_names(&rows.out, &["study", "group", "mean", "deviation", "lr 0.1"]);
    let plot = ["plot", "curves", "one", "two", "--by", "fold", "-o", "both.svg"];
    let plotted = site.run(&plot);
    assert_names(&plotted.err, &["1 figure written", "`two`: 3 trials have no value of `fold`"]);
    // Another metric has another figure and column; a study without the parameter has none.
    seeded(&site, "other", "accuracy");
    assert_done(&site.run(&["track", "--study", "bare", "--", "sh", "train.sh", "x"]));
    let table = site.run(&["trials", "--all", "--by", "lr"]);
    assert_names(&table.err, &["`bare` is left out", "has no parameter `lr`"]);
    assert_names(&table.out, &["metric", "accuracy", "loss", "other"]);
    let drawn = site.run(&["curves", "--all", "--by", "lr"]);
    assert_names(&drawn.out, &["other: accuracy by step", "one: lr 0.1 (2 runs)"]);
}

#[test]
fn what_cannot_be_grouped_is_explained() {
    let site = tracked();
    for verb in ["curves", "trials"] {
        let refused = site.run(&[verb, "runs", "--by", "lrr"]);
        assert_refused(&refused, &["has no parameter `lrr`", "did you mean `lr`?", "`group`"]);
    }
    assert_refused(&site.run(&["plot", "history", "runs", "--by", "lr"]), &["`--by` is not for"]);
    let refused = site.run(&["trials", "runs", "--over", "sead"]);
    assert_refused(&refused, &["has no parameter `sead`", "did you mean `seed`?"]);
    let refused = site.run(&["plot", "history", "runs", "--over", "lr"]);
    assert_refused(&refused, &["`--over` is not for"]);
    let mut scene = Scene::new();
    scene.begin("digits");
    for number in 0..19 {
        scene.start(number, 0.01 * (number + 1) as f64, 2, "adamw");
        scene.report(number, &[0.5]);
    }
    scene.leave();
    let site = scene.close();
    let drawn = site.run(&["curves", "digits", "--by", "learning_rate"]);
    assert_refused(&drawn, &["19 groups by learning_rate", "at most 18", "--table"]);
    assert_done(&site.run(&["curves", "digits", "--by", "learning_rate", "--table"]));
}
