//! `[space] file`: only the rows of a file are searched.

use std::fs;

use serde_json::Value as Json;

use crate::harness::{ONE_SLOT, REPORT_X, Site, assert_done, assert_names, assert_refused, study};

const ROWS: &str = "x,kind,width\n0.9,a,8\n0.25,b,16\n0.5,a,800\n0.25,b,16\n0.75,b,64\n0.1,a,32\n";

/// The study `s` over the rows of `rows.csv`.
fn site(rows: &str, budget: &str, sampler: &str, rest: &str) -> Site {
    let text = study(budget, &format!("{ONE_SLOT}{rest}"))
        .replace("x = { float = [0.0, 1.0] }", "file = \"rows.csv\"\nx = { float = [0.0, 1.0] }")
        .replace("type = \"random\"", &format!("type = \"{sampler}\""));
    let site = Site::new(&text, REPORT_X);
    fs::write(site.path("rows.csv"), rows).unwrap();
    site
}

fn tried(site: &Site) -> Vec<(f64, String, u64)> {
    let row = |trial: &Json| {
        let params = &trial["params"];
        let number = |name: &str| params[name].as_f64().unwrap();
        (number("x"), params["kind"].as_str().unwrap().to_owned(), number("width") as u64)
    };
    site.trials().iter().map(row).collect()
}

#[test]
fn each_row_is_run_once_by_any_sampler_and_the_study_ends() {
    for sampler in ["random", "tpe", "gp", "auto", "grid", "cmaes"] {
        // The file is a limit, too.
        let budget = if sampler == "gp" { "" } else { "trials = 20" };
        let site = site(ROWS, budget, sampler, "");
        let ended = site.run_study();
        assert_done(&ended);
        let mut rows = tried(&site);
        if sampler == "grid" {
            assert_eq!(rows[0], (0.9, "a".to_owned(), 8));
        }
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let of = |x: f64, kind: &str, width: u64| (x, kind.to_owned(), width);
        let all = [of(0.1, "a", 32), of(0.25, "b", 16), of(0.5, "a", 800), of(0.75, "b", 64)];
        assert_eq!(rows[..4], all, "{sampler}");
        assert_eq!(rows.len(), 5, "{sampler}");
        assert_names(&ended.out, &["every configuration of the space was tried (5 trials)"]);
        let best: Json = site.json(&["best", "--json"]);
        assert_eq!(best["trial"]["params"]["x"], 0.1);
        assert_done(&site.run(&["verify", "s"]));
    }
}

#[test]
fn rows_that_are_no_configurations_are_refused_with_their_lines() {
    let site = site("x,kind\n0.5,a\n1.5,b\n,a\n", "trials = 3", "random", "");
    let checked = site.run(&["check", "study.toml"]);
    assert_refused(
        &checked,
        &[
            "line 3 of `rows.csv`: `1.5` is not a value of `x`",
            "line 4 of `rows.csv`: `x` has no value",
        ],
    );
    fs::write(site.path("rows.csv"), "y\n1\n2\n").unwrap();
    let checked = site.run(&["check", "study.toml"]);
    assert_refused(&checked, &["`rows.csv` has no column `x`", "its columns are `y`"]);
    fs::write(site.path("rows.csv"), "x,x\n1,2\n").unwrap();
    assert_refused(&site.run(&["check", "study.toml"]), &["`rows.csv` has the column `x` twice"]);
    for name in ["a b", "\"a,b\"", "k=1", "{k}", "\"a\nb\""] {
        fs::write(site.path("rows.csv"), format!("x,{name}\n0.5,1\n0.7,2\n")).unwrap();
        let checked = site.run(&["check", "study.toml"]);
        assert_refused(&checked, &["`rows.csv`: the column `", "letters, digits"]);
    }
    fs::write(site.path("rows.csv"), "x,kind\n0.5,\"a\n0.7,b\n0.9,c\n").unwrap();
    let open = "`rows.csv`: line 2: a quote is opened here and never closed";
    assert_refused(&site.run(&["check", "study.toml"]), &[open, "close it"]);
    fs::write(site.path("rows.csv"), "x\n").unwrap();
    assert_refused(&site.run(&["check", "study.toml"]), &["`rows.csv` has no rows"]);
    fs::remove_file(site.path("rows.csv")).unwrap();
    let text = site.read("study.toml").replace("\"{x}\"", "\"{x}\", \"{kind}\"");
    site.write("study.toml", text);
    let checked = site.run(&["check", "study.toml"]);
    assert_refused(&checked, &["`rows.csv` cannot be read", "1 problem in"]);
    assert!(!checked.err.contains("not a parameter"), "{}", checked.err);
}

#[test]
fn semicolons_and_tabs_separate_columns_and_beside_texts_numbers_stay_as_they_are_written() {
    for separator in [";", "\t"] {
        let rows = "x,kind,width\n0.5,1e5,8\n0.25,auto,16\n0.75,007,8\n".replace(',', separator);
        let site = site(&rows, "trials = 3", "grid", "");
        assert_done(&site.run_study());
        let kinds = ["1e5", "auto", "007"].map(str::to_owned);
        assert_eq!(tried(&site).into_iter().map(|row| row.1).collect::<Vec<_>>(), kinds);
    }
}

#[test]
fn check_shows_command_lines_of_rows() {
    let site = site(ROWS, "trials = 2", "random", "");
    let text = site.read("study.toml").replace("\"{x}\"", "\"{x}\", \"{kind}\", \"{width}\"");
    site.write("study.toml", text);
    let checked = site.run(&["check", "study.toml"]);
    assert_done(&checked);
    assert_names(&checked.out, &["0.9 a 8\n", "0.25 b 16\n"]);
}

#[test]
fn an_enqueued_configuration_is_completed_by_a_row_or_refused() {
    let enqueued = site(ROWS, "trials = 2", "random", "[[enqueue]]\nwidth = 64\n");
    assert_done(&enqueued.run_study());
    assert_eq!(tried(&enqueued)[0], (0.75, "b".to_owned(), 64));
    assert_done(&enqueued.run(&["verify", "s"]));
    let absent = site(ROWS, "trials = 2", "random", "[[enqueue]]\nwidth = 65\n");
    assert_refused(
        &absent.run(&["check", "study.toml"]),
        &["no row of `[space] file` has width=65"],
    );
}

#[test]
fn other_rows_are_another_space_and_earlier_trials_stay() {
    let site = site(ROWS, "trials = 20", "random", "");
    assert_done(&site.run_study());
    fs::write(site.path("rows.csv"), format!("{ROWS}0.05,a,9\n")).unwrap();
    let refused = site.run(&["run", "study.toml", "--plain"]);
    assert_eq!(refused.code, 6, "{}", refused.err);
    assert_names(&refused.err, &["space.file", "5 configurations", "6 configurations"]);
    assert_done(&site.run(&["run", "study.toml", "--plain", "--accept"]));
    assert_eq!(tried(&site).last().unwrap(), &(0.05, "a".to_owned(), 9));
    assert_done(&site.run(&["verify", "s"]));
}
