//! Importances and figures of tracked runs, in the parameters in which these differ.

use std::fmt::Write as _;

use crate::harness::{Browser, Site, assert_done, assert_names, assert_refused};

/// A study `sh` of runs whose values depend on `lr`; `batch` is the same in all.
fn site(runs: u32) -> Site {
    let site = Site::empty();
    let mut table = "lr,opt,batch,loss\n".to_owned();
    for run in 0..runs {
        let opt = if run % 3 == 0 { "sgd" } else { "adam" };
        let lr = 10_f64.powi(-i32::try_from(run % 4).unwrap());
        writeln!(table, "{lr},{opt},32,{}", lr + f64::from(run) / 1000.0).unwrap();
    }
    site.write("runs.csv", &table);
    assert_done(&site.run(&["import", "runs.csv", "--study", "sh", "--metric", "loss"]));
    site
}

#[test]
fn importances_of_tracked_runs_are_of_the_parameters_in_which_they_differ() {
    let site = site(12);
    for evaluator in ["ped-anova", "fanova"] {
        let found = site.json(&["importance", "sh", "--evaluator", evaluator, "--json"]);
        let names: Vec<&str> = found["importances"]
            .as_array()
            .unwrap()
            .iter()
            .map(|share| share["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["lr", "opt"], "{evaluator}");
    }
}

#[test]
fn importances_say_how_many_runs_they_need_and_that_no_parameter_differs() {
    let few = site(5);
    assert_names(&few.run(&["importance", "sh"]).out, &["need 10 trials, and 5 count"]);
    let same = Site::empty();
    let rows: String = (0..12).map(|run| format!("0.1,{run}\n")).collect();
    same.write("runs.csv", format!("lr,loss\n{rows}"));
    assert_done(&same.run(&["import", "runs.csv", "--study", "sh", "--metric", "loss"]));
    assert_names(&same.run(&["importance", "sh"]).out, &["no parameter differs"]);
    assert_refused(
        &same.run(&["plot", "slice", "sh"]),
        &["the runs of `sh` differ in no parameter"],
    );
    assert_refused(&same.run(&["plot", "contour", "sh"]), &["differ in no parameter"]);
}

#[test]
fn figures_of_tracked_runs_have_the_parameters_in_which_they_differ_as_axes() {
    let site = site(12);
    let parallel = site.json(&["plot", "parallel", "sh", "--json"]);
    let axes: Vec<&str> = parallel["charts"][0]["x"]["names"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name[1].as_str().unwrap())
        .collect();
    assert_eq!(axes, ["lr", "opt", "loss"]);
    assert_names(&site.run(&["plot", "parallel", "sh"]).out, &["lr    0.001", "log", "adam, sgd"]);
    let slice = site.json(&["plot", "slice", "sh", "--param", "lr", "--json"]);
    assert_eq!(slice["charts"][0]["x"]["log"], true);
    let slices = site.json(&["plot", "slice", "sh", "--json"]);
    assert_eq!(slices["charts"].as_array().unwrap().len(), 2);
    let contour = site.json(&["plot", "contour", "sh", "--json"]);
    assert_eq!(contour["charts"].as_array().unwrap().len(), 1);
    let refused = site.run(&["plot", "slice", "sh", "--param", "batch"]);
    assert_refused(&refused, &["differ in no parameter `batch`", "they differ in `lr`, `opt`"]);
}

#[test]
fn a_report_on_tracked_runs_has_the_figures_of_their_parameters() {
    let site = site(12);
    assert_done(&site.run(&["report", "sh", "-o", "r.html"]));
    let page = std::fs::read_to_string(site.path("r.html")).unwrap();
    assert_names(&page, &["importance of parameters for loss", "loss by lr", "loss by opt"]);
}

#[test]
fn the_page_has_the_parameters_in_which_tracked_runs_differ_and_their_figures() {
    let site = site(12);
    let browser = Browser::start(&site, &[]);
    let study = browser.json("/api/study?study=sh");
    let kinds: Vec<(&str, &str)> = study["params"]
        .as_array()
        .unwrap()
        .iter()
        .map(|param| (param["name"].as_str().unwrap(), param["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(kinds, [("batch", ""), ("lr", "float, log"), ("opt", "choice")]);
    for kind in ["importance", "parallel", "contour", "slice&param=lr"] {
        let part = browser.json(&format!("/api/figures?study=sh&kind={kind}"));
        let series = part["figures"][0]["series"].as_array().unwrap();
        assert!(!series.is_empty(), "{kind}");
    }
}
