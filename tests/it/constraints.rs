//! Constraints and earlier studies through the program: what is never proposed, what is never the
//! best, what a study begins with.

use serde_json::Value as Json;

use crate::harness::{
    ONE_SLOT, REPORT_X, STORE, Site, assert_done, assert_names, assert_refused, study,
};

const TWO_METRICS: &str = "echo \"@hpsearch \
    {\\\"step\\\":1,\\\"loss\\\":$1,\\\"latency\\\":$(echo \"$1\" | cut -c1-3)}\"\n";

fn numbers(site: &Site, key: &str) -> Vec<f64> {
    site.trials().iter().map(|trial| trial["params"][key].as_f64().unwrap()).collect()
}

#[test]
fn a_requirement_holds_for_every_trial_and_a_limit_decides_what_is_best() {
    let constraints =
        "[[constraint]]\nrequire = \"x < 0.6\"\n[[constraint]]\nlimit = \"latency >= 0.3\"\n";
    let site = Site::new(&study("trials = 12", &format!("{constraints}{ONE_SLOT}")), TWO_METRICS);
    let ended = site.run_study();
    assert_done(&ended);
    assert!(numbers(&site, "x").iter().all(|x| *x < 0.6));
    let best: Json = site.json(&["best", "--json"]);
    let value = best["trial"]["value"].as_f64().unwrap();
    assert!(value >= 0.3, "{value}");
    let broken: Vec<Json> =
        site.trials().into_iter().filter(|trial| trial["value"].as_f64().unwrap() < 0.3).collect();
    assert!(!broken.is_empty());
    for trial in &broken {
        assert!(
            trial["reason"].as_str().unwrap().starts_with("`latency >= 0.3` is violated by 0."),
            "{trial}"
        );
    }
    let table = site.run(&["export-data"]).out;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let column = rows[0].iter().position(|name| *name == "violation").unwrap();
    let violations =
        rows[1..].iter().filter(|row| row[column].parse().is_ok_and(|by: f64| by > 0.0));
    assert_eq!(violations.count(), broken.len(), "{table}");
    // `ls` and a later run agree on which is best.
    let listed: Json = site.json(&["ls", "--json"]);
    assert_eq!(listed["studies"][0]["best"]["number"], best["trial"]["number"]);
    let explained = site.run(&["explain", "s", &broken[0]["number"].to_string()]);
    assert_names(&explained.out, &["`latency >= 0.3`"]);
    // So do the lines of the journal, also those of its end.
    for words in [&["events", "s"][..], &["events", "s", "--limit", "40"]] {
        let told = site.run(words).out;
        let bests: Vec<&str> = told.lines().filter(|line| line.contains("new best")).collect();
        assert!(bests.iter().all(|line| !line.contains("is violated")), "{bests:#?}");
        let last = format!("trial {} complete", best["trial"]["number"]);
        assert!(bests.last().is_none_or(|line| line.contains(&last)), "{bests:#?}");
    }
    // So do the table, from either end, its pages, ranks and figures.
    let feasible = 12 - broken.len();
    for (sort, nth) in [("value", 0), ("-value", feasible - 1)] {
        let ranked: Json = site.json(&["trials", "s", "--sort", sort, "--json"]);
        let ranked = ranked["trials"].as_array().unwrap();
        assert_eq!(ranked[nth]["number"], best["trial"]["number"], "{sort}");
        let values = || ranked.iter().map(|trial| trial["value"].as_f64().unwrap() >= 0.3);
        assert!(values().take(feasible).all(|keeps| keeps), "{sort}");
        assert!(values().skip(feasible).all(|keeps| !keeps), "{sort}");
        let page: Json = site.json(&["trials", "s", "--sort", sort, "--limit", "10", "--json"]);
        assert_eq!(page["trials"].as_array().unwrap()[..], ranked[..10], "{sort}");
    }
    let behind: Json = site.json(&["explain", "s", &broken[0]["number"].to_string(), "--json"]);
    assert!(behind["comparison"]["rank"].as_u64().unwrap() > feasible as u64, "{behind}");
    let report = site.run(&["report", "s", "--markdown"]);
    let second = report.out.split_once("second best: ").unwrap().1.split_once(' ').unwrap().0;
    assert!(second.parse::<f64>().unwrap() >= 0.3, "{second}");
}

#[test]
fn where_no_trial_keeps_the_limits_the_nearest_one_is_named() {
    let site = Site::new(
        &study("trials = 4", &format!("[[constraint]]\nlimit = \"size <= 1\"\n{ONE_SLOT}")),
        TWO_METRICS,
    );
    let ended = site.run_study();
    let misspelt = "each of 4 complete trials violates a limit: `size`, which a limit names, was \
                    never reported";
    assert!(ended.out.contains(misspelt), "{}", ended.out);
    let best = site.run(&["best"]);
    assert_eq!(best.code, 3);
    assert!(
        best.err.starts_with(
            "error: none of the 4 complete trials of `s` satisfies all \
        limits\nhelp: trial 0 comes nearest: `size <= 1` has no value: `size` was never \
        reported"
        ),
        "{}",
        best.err
    );
}

/// Prints the size at the start, and then the loss; both in one line while there is no file `once`.
const SIZE_AT_THE_START: &str = r#"
if [ -e once ]; then
  echo '@hpsearch {"step":0,"size":2}'
  for step in 1 2; do echo "@hpsearch {\"step\":$step,\"loss\":$1}"; done
else
  echo "@hpsearch {\"step\":1,\"loss\":$1,\"size\":2}"
fi
"#;

fn limited(budget: &str, limit: &str) -> String {
    study(budget, &format!("[[constraint]]\nlimit = \"{limit}\"\n{ONE_SLOT}"))
}

#[test]
fn a_limit_reads_the_last_value_of_each_metric() {
    let site = Site::new(&limited("trials = 2", "size <= 2"), SIZE_AT_THE_START);
    site.write("once", "");
    assert_done(&site.run_study());
    for trial in site.trials() {
        assert!(trial["violation"].is_null() && trial["reason"].is_null(), "{trial}");
    }
    assert_done(&site.run(&["best"]));
    let found = site.json(&["trials", "s", "--where", "size=2", "--json"]);
    assert_eq!(found["trials"].as_array().unwrap().len(), 2);
    assert_done(&site.run(&["verify", "s"]));
    // One that ends trials does so as soon as a report of the objective comes after it.
    let limit = format!("[[constraint]]\nlimit = \"size <= 1\"\nprune = true\n{ONE_SLOT}");
    let other = study("trials = 2", &limit).replace("name = \"s\"", "name = \"t\"");
    site.write("study.toml", other);
    site.run_study();
    for trial in site.json(&["trials", "t", "--json"])["trials"].as_array().unwrap() {
        assert_eq!(trial["state"], "pruned", "{trial}");
        assert_eq!(trial["reason"], "`size <= 1` is violated by 1 at step 1", "{trial}");
    }
    assert_done(&site.run(&["verify", "t"]));
}

#[test]
fn the_last_value_of_a_metric_is_that_of_its_highest_step() {
    // The same lines, in one order and in the other.
    let script = "early='@hpsearch {\"step\":2,\"loss\":0.9,\"size\":1}'\n\
        late='@hpsearch {\"step\":5,\"loss\":0.1,\"size\":7}'\n\
        [ $HPSEARCH_TRIAL = 0 ] && echo \"$late\"\necho \"$early\"\n\
        [ $HPSEARCH_TRIAL = 0 ] || echo \"$late\"\n";
    let site = Site::new(&limited("trials = 2", "size <= 2"), script);
    site.run_study();
    for trial in site.trials() {
        assert_eq!(trial["reason"], "`size <= 2` is violated by 5", "{trial}");
    }
    let listed = site.json(&["trials", "s", "--where", "size=7", "--json"]);
    assert_eq!(listed["trials"].as_array().unwrap().len(), 2, "{listed}");
    assert_done(&site.run(&["verify", "s"]));
    site.assert_folds();
}

#[test]
fn a_study_that_began_with_limits_on_the_last_report_goes_on_with_them() {
    let site = Site::new(&limited("trials = 1", "size <= 2"), SIZE_AT_THE_START);
    assert_done(&site.run_study());
    // As studies were stored before each metric's last value counted.
    for table in ["study", "study_revision"] {
        let field = "'\"last_metrics\":\"of_each\",'";
        let sql = format!("UPDATE {table} SET spec = replace(spec, {field}, '')");
        assert_eq!(site.database().execute(&sql, []).unwrap(), 1, "{table}");
    }
    site.write("once", "");
    site.write("study.toml", limited("trials = 2", "size <= 2"));
    let ended = site.run_study();
    assert_done(&ended);
    assert!(!ended.err.contains("--accept"), "{}", ended.err);
    let trials = site.trials();
    assert!(trials[0]["violation"].is_null(), "{}", trials[0]);
    let why = "`size <= 2` has no value: `size` is not in the trial's last report";
    assert_eq!(trials[1]["reason"], why);
    assert_done(&site.run(&["verify", "s"]));
    site.assert_folds();
    assert!(!site.query::<String>("SELECT spec FROM study").contains("last_metrics"));
}

#[test]
fn complete_trials_are_judged_again_by_changed_limits() {
    let with_limit = |limit: &str| {
        study("trials = 4", &format!("[[constraint]]\nlimit = \"{limit}\"\n{ONE_SLOT}"))
            .replace("x = { float = [0.0, 1.0] }", "x = [0.1, 0.2, 0.3, 0.4]")
            .replace("\"random\"", "\"grid\"")
    };
    // A typo: no trial keeps the limit.
    let site = Site::new(&with_limit("latenzy >= 0.3"), TWO_METRICS);
    site.run_study();
    assert_eq!(site.run(&["best"]).code, 3);
    let kept = |site: &Site| {
        let trials = site.trials();
        let kept = trials.iter().filter(|trial| trial["violation"].is_null());
        for trial in &trials {
            assert_eq!(trial["violation"].is_null(), trial["reason"].is_null(), "{trial}");
        }
        kept.map(|trial| trial["value"].as_f64().unwrap()).fold(Vec::new(), |mut all, value| {
            all.push(value);
            all.sort_by(f64::total_cmp);
            all
        })
    };
    assert!(kept(&site).is_empty());
    for (limit, values, told) in [
        ("latency >= 0.3", &[0.3, 0.4][..], "2 complete trials now keep them"),
        ("latency >= 0.2", &[0.2, 0.3, 0.4], "1 complete trial now keeps them"),
        ("latency >= 0.4", &[0.4], "2 complete trials now violate them"),
        ("latency >= 0.35", &[0.4], "every complete trial satisfies or violates them as before"),
    ] {
        site.write("study.toml", with_limit(limit));
        let refused = site.run_study();
        assert_eq!(refused.code, 6, "{}", refused.err);
        let accepted = site.run_study_with(&["--accept"]);
        assert_names(&accepted.err, &[&format!("limits changed: {told}")]);
        assert_eq!(kept(&site), values, "{limit}");
        let best = site.json(&["best", "--json"]);
        assert_eq!(best["trial"]["value"].as_f64(), Some(values[0]), "{limit}");
        assert_done(&site.run(&["verify", "s"]));
        site.assert_folds();
        for trial in site.trials().iter().filter(|trial| !trial["violation"].is_null()) {
            let reason = trial["reason"].as_str().unwrap();
            assert!(reason.starts_with(&format!("`{limit}` is violated by 0.")), "{trial}");
        }
    }
    let told = site.run(&["events", "s"]).out;
    assert_names(
        &told,
        &["satisfies the changed limits", "violates the changed limits: `latency >="],
    );
    // Tables tell them from others; what scripts read keeps the state's name.
    assert_eq!(site.run(&["trials", "s"]).out.matches("infeasible").count(), 3);
    assert!(site.trials().iter().all(|trial| trial["state"] == "complete"));
    // Optuna sees the same.
    let sql = "SELECT count(*) FROM trial_system_attributes WHERE key = 'constraints' AND \
        value_json <> '[0.0]'";
    assert_eq!(site.query::<i64>(sql), 3);
    // A verdict that is not that of the limits is found.
    let sql = "UPDATE event SET body = replace(body, '\"violation\":0.2', '\"violation\":0.25')";
    site.database().execute(sql, []).unwrap();
    assert_ne!(site.run(&["verify", "s"]).code, 0);
}

#[test]
fn constraints_that_reject_everything_are_refused_and_it_is_said_which() {
    let site = Site::new(
        &study("trials = 4", &format!("[[constraint]]\nrequire = \"x > 3\"\n{ONE_SLOT}")),
        TWO_METRICS,
    );
    for ended in [site.run(&["check", "study.toml"]), site.run_study()] {
        assert_refused(&ended, &["`x > 3` rejects every one", "loosen a `[[constraint]]`"]);
    }
    assert!(!site.exists(STORE), "and nothing is left of it");
}

#[test]
fn a_small_space_without_a_number_of_trials_is_warned_of() {
    let text = |budget| {
        study(budget, ONE_SLOT).replace("x = { float = [0.0, 1.0] }", "x = [0.1, 0.2, 0.3]")
    };
    for (budget, is_warned) in [("time = \"1h\"", true), ("trials = 3", false)] {
        let checked = Site::new(&text(budget), TWO_METRICS).run(&["check", "study.toml"]);
        assert_done(&checked);
        assert_eq!(checked.err.contains("once all 3 configurations"), is_warned, "{}", checked.err);
        assert_eq!(checked.err.contains("`trials = 3`"), is_warned, "{}", checked.err);
    }
}

#[test]
fn a_configuration_that_breaks_a_requirement_is_not_enqueued() {
    let site = Site::new(
        &study("trials = 2", &format!("[[constraint]]\nrequire = \"x < 0.5\"\n{ONE_SLOT}")),
        TWO_METRICS,
    );
    site.run_study();
    let refused = site.run(&["enqueue", "s", "x=0.7"]);
    assert_eq!(refused.code, 2);
    assert_names(&refused.err, &["it violates the constraint `x < 0.5`"]);
}

/// A study with a prior that runs these values of `x` first.
fn with_prior(sampler: &str, trials: u64, enqueued: &[f64]) -> String {
    let enqueue: String = enqueued.iter().map(|x| format!("[[enqueue]]\nx = {x}\n")).collect();
    study(&format!("trials = {trials}"), &format!("{enqueue}{ONE_SLOT}"))
        .replace("{ float = [0.0, 1.0] }", "{ float = [0.0, 1.0], prior = 0.625 }")
        .replace("\"random\"", &format!("\"{sampler}\""))
}

fn by_number(site: &Site) -> Vec<f64> {
    let listed = site.json(&["trials", "s", "--sort", "number", "--json"]);
    let trials = listed["trials"].as_array().unwrap().iter();
    trials.map(|trial| trial["params"]["x"].as_f64().unwrap()).collect()
}

#[test]
fn the_first_trial_that_is_not_enqueued_takes_the_prior() {
    // Of `tpe` also after more than it has start-up trials.
    for (sampler, numbers) in [("tpe", &[0, 1, 20][..]), ("gp", &[1]), ("auto", &[1])] {
        for enqueued in numbers.iter().map(|number| vec![0.25; *number]) {
            let trials = enqueued.len() + 2;
            let text = with_prior(sampler, trials as u64, &enqueued);
            let site = Site::new(&text, TWO_METRICS);
            assert_done(&site.run_study());
            let xs = by_number(&site);
            assert_eq!(xs[enqueued.len()], 0.625, "{sampler}: {xs:?}");
            assert_ne!(xs[enqueued.len() + 1], 0.625, "{sampler}: {xs:?}");
            let explained = site.run(&["explain", "s", &enqueued.len().to_string()]);
            assert_names(&explained.out, &["at the priors of the space"]);
            assert_done(&site.run(&["verify", "s"]));
        }
    }
    // One that was enqueued is not run again.
    let site = Site::new(&with_prior("tpe", 4, &[0.625]), TWO_METRICS);
    assert_done(&site.run_study());
    assert_eq!(by_number(&site).iter().filter(|x| **x == 0.625).count(), 1);
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_study_that_began_when_trial_0_alone_took_the_prior_goes_on_so() {
    let site = Site::new(&with_prior("tpe", 1, &[0.25]), TWO_METRICS);
    assert_done(&site.run_study());
    for table in ["study", "study_revision"] {
        let field = "'\"prior_rule\":\"first_sampled\",'";
        let sql = format!("UPDATE {table} SET spec = replace(spec, {field}, '')");
        assert_eq!(site.database().execute(&sql, []).unwrap(), 1, "{table}");
    }
    site.write("study.toml", with_prior("tpe", 3, &[0.25]));
    let ended = site.run_study();
    assert_done(&ended);
    assert!(!ended.err.contains("--accept"), "{}", ended.err);
    assert!(!by_number(&site).contains(&0.625));
    assert_done(&site.run(&["verify", "s"]));
    assert!(!site.query::<String>("SELECT spec FROM study").contains("prior_rule"));
}

#[test]
fn an_earlier_study_that_is_not_there_is_missed_by_check_as_by_run() {
    let text = study("trials = 2", ONE_SLOT).replace("name = \"s\"", "name = \"warm\"");
    for (entry, why) in [
        ("earlier", "`warm_start` \"earlier\" names no study of its store, which holds"),
        ("old.db", "`warm_start` \"old.db\" cannot be read"),
        ("old.db:earlier", "`warm_start` \"old.db:earlier\" cannot be read"),
    ] {
        let table = format!("type = \"tpe\"\nwarm_start = [\"{entry}\"]");
        let site = Site::new(&text.replace("type = \"random\"", &table), TWO_METRICS);
        // Without a store, and with one of another study.
        for _ in 0..2 {
            let checked = site.run(&["check", "study.toml"]);
            assert_names(&checked.err, &[why]);
            assert_ne!(checked.code, 0);
            let ran = site.run_study();
            let (_, told) = ran.err.split_at(ran.err.find("error: ").unwrap());
            assert_eq!((checked.code, checked.err.as_str()), (ran.code, told));
            site.write("other.toml", study("trials = 1", ONE_SLOT));
            assert_done(&site.run(&["run", "other.toml", "--plain"]));
        }
    }
    // A store that cannot be read is not taken for an empty one.
    let table = "type = \"tpe\"\nwarm_start = [\"earlier\"]";
    let site = Site::new(&text.replace("type = \"random\"", table), TWO_METRICS);
    std::fs::create_dir(site.path("runs")).unwrap();
    site.write(STORE, "no database at all, and longer than the header of one would be: ".repeat(9));
    for ended in [site.run(&["check", "study.toml"]), site.run_study()] {
        let why = "is not an hpsearch store: it is not an SQLite database";
        assert_eq!(ended.code, 5);
        assert_names(&ended.err, &[why]);
    }
}

#[test]
fn a_study_learns_from_an_earlier_one_and_keeps_what_it_took() {
    let site = Site::new(&study("trials = 8", ONE_SLOT), TWO_METRICS);
    site.run_study();
    let best = numbers(&site, "x").into_iter().fold(f64::INFINITY, f64::min);
    let warm = |budget: &str| {
        let text = study(budget, ONE_SLOT).replace("name = \"s\"", "name = \"warm\"");
        let text =
            text.replace("type = \"random\"", "type = \"tpe\"\nwarm_start = [\"s\"]").replace(
                "x = { float = [0.0, 1.0] }",
                "x = { float = [0.0, 2.0] }\ny = { float = [0, 1] }",
            );
        site.write("warm.toml", &text);
    };
    warm("trials = 3");
    let first = site.run(&["run", "warm.toml", "--plain"]);
    assert_done(&first);
    assert_names(&first.err, &["warm start: 8 trials of `s`"]);
    let trials: Json = site.json(&["trials", "warm", "--json"]);
    assert_eq!(trials["trials"][0]["params"]["x"].as_f64(), Some(best));
    let by = "by sampler tpe, a best configuration of the earlier studies (warm_start)";
    assert_names(&site.run(&["explain", "warm", "0"]).out, &[by]);
    // More trials of the earlier study change nothing of what was taken: the same specification,
    // nothing to accept.
    site.write("study.toml", study("trials = 10", ONE_SLOT));
    site.run_study();
    warm("trials = 5");
    let again = site.run(&["run", "warm.toml", "--plain"]);
    assert_done(&again);
    assert!(!again.err.contains("warm start:") && !again.err.contains("--accept"), "{}", again.err);
    // Nothing fits: an error, and no study.
    site.write(
        "other.toml",
        study("trials = 3", ONE_SLOT)
            .replace("name = \"s\"", "name = \"other\"")
            .replace("type = \"random\"", "type = \"tpe\"\nwarm_start = [\"s\"]")
            .replace("x = {", "z = {")
            .replace("{x}", "{z}"),
    );
    let refused = site.run(&["run", "other.toml", "--plain"]);
    assert_eq!(refused.code, 2);
    assert_names(&refused.err, &["`warm_start` \"s\" holds no trial that fits the space"]);
    assert!(!site.run(&["ls"]).out.contains("other"));
}

#[test]
fn an_earlier_study_of_the_same_metric_in_the_other_direction_is_ranked_as_here() {
    // The best report is the first one when minimized and the last one when maximized.
    let second = "$(awk \"BEGIN { print 2 - $1 }\")";
    let second = format!("echo \"@hpsearch {{\\\"step\\\":2,\\\"loss\\\":{second}}}\"\n");
    let falls = format!("{REPORT_X}{second}");
    let site = Site::new(&study("trials = 6", ONE_SLOT), &falls);
    assert_done(&site.run_study());
    let smallest = numbers(&site, "x").into_iter().fold(f64::INFINITY, f64::min);
    site.write(
        "other.toml",
        study("trials = 1", ONE_SLOT)
            .replace("name = \"s\"", "name = \"other\"")
            .replace("minimize", "maximize")
            .replace("type = \"random\"", "type = \"tpe\"\nwarm_start = [\"s\"]"),
    );
    let ended = site.run(&["run", "other.toml", "--plain"]);
    assert_done(&ended);
    let told = "6 trials of `s`, ranked as here (maximize), though they were searched to minimize";
    assert_names(&ended.err, &[told]);
    let trials = site.json(&["trials", "other", "--json"]);
    assert_eq!(trials["trials"][0]["params"]["x"].as_f64(), Some(smallest));
}

/// Three reports, the first with the size; ends when it is told to stop.
const SIZED: &str = "for step in 1 2 3; do\n\
    echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":0.$step,\\\"size\\\":$1}\"; read -r answer\n\
    case \"$answer\" in *'\"stop\"'*) exit 0 ;; esac\n\
    done\n";

#[test]
fn a_limit_that_prunes_ends_a_trial_at_the_first_report_beyond_it() {
    // The other limit is broken until the last report, and does not prune.
    let limits = "[[constraint]]\nlimit = \"size < 0.5\"\nprune = true\n\
                  [[constraint]]\nlimit = \"loss > 0.25\"\n";
    let site = Site::new(&study("trials = 10", &format!("{limits}{ONE_SLOT}")), SIZED);
    assert_done(&site.run_study());
    let trials = site.trials();
    let is_large = |trial: &&Json| trial["params"]["x"].as_f64().unwrap() >= 0.5;
    let (large, small): (Vec<&Json>, Vec<&Json>) = trials.iter().partition(is_large);
    assert!(large.len() >= 2 && small.len() >= 2, "{trials:?}");
    for trial in large {
        assert_eq!(
            (trial["state"].as_str(), trial["last_step"].as_u64()),
            (Some("pruned"), Some(1))
        );
        let reason = trial["reason"].as_str().unwrap();
        assert_names(reason, &["`size < 0.5` is violated by 0.", "at step 1"]);
    }
    for trial in small {
        let ended = (trial["state"].as_str(), trial["last_step"].as_u64());
        assert_eq!(ended, (Some("complete"), Some(3)), "{trial}");
    }
    assert_names(&site.run(&["verify", "s"]).out, &["repeat exactly"]);
}
