//! Studies of several objectives: values, fronts, ends by the budget, and what survives a kill.

use serde_json::{Value as Json, json};

use crate::harness::{Site, assert_done, assert_names, assert_refused, wait_until};

/// `speed` is known at the first step and not reported again; `error` comes later.
const TRIAL: &str = "echo >> begun; [ ! -e slow ] || sleep 0.1\n\
    echo \"@hpsearch {\\\"step\\\":1,\\\"speed\\\":$2}\"\n\
    echo \"@hpsearch {\\\"step\\\":2,\\\"error\\\":9}\"\n\
    echo \"@hpsearch {\\\"step\\\":3,\\\"error\\\":$1}\"\n";

/// A study of two objectives.
pub fn study(thresholds: [&str; 2], budget: &str, rest: &str) -> String {
    let [error, speed] = thresholds;
    format!(
        "[study]\nname = \"s\"\nstep = \"step\"\nseed = 7\n\
         [[study.objective]]\nmetric = \"error\"\ndirection = \"minimize\"\n{error}\n\
         [[study.objective]]\nmetric = \"speed\"\ndirection = \"maximize\"\n{speed}\n\
         [space]\nx = {{ float = [0.0, 1.0] }}\ny = {{ float = [0.0, 1.0] }}\n\
         [command]\nrun = [\"sh\", \"trial.sh\", \"{{x}}\", \"{{y}}\"]\n\
         [devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"none\"\n[budget]\n{budget}\n{rest}"
    )
}

/// A finished one.
pub fn finished(rest: &str) -> Site {
    let site = Site::new(&study(["", ""], "trials = 12", rest), TRIAL);
    assert_done(&site.run_study());
    site
}

fn values(trial: &Json) -> (f64, f64) {
    assert_eq!(trial["value"], Json::Null);
    (trial["values"][0].as_f64().unwrap(), trial["values"][1].as_f64().unwrap())
}

/// The numbers of trials that no other one dominates.
pub fn front(trials: &[Json]) -> Vec<u64> {
    let is_dominated = |one: &Json| {
        let (error, speed) = values(one);
        trials.iter().map(values).any(|(other, faster)| {
            other <= error && faster >= speed && (other < error || faster > speed)
        })
    };
    let on = trials.iter().filter(|trial| !is_dominated(trial));
    on.map(|trial| trial["number"].as_u64().unwrap()).collect()
}

#[test]
fn a_pruned_trial_has_the_last_values_that_it_reported() {
    let script = "echo \"@hpsearch {\\\"step\\\":1,\\\"speed\\\":2}\"\n\
        echo \"@hpsearch {\\\"step\\\":2,\\\"error\\\":$1}\"\nread -r answer; read -r answer\n\
        case \"$answer\" in *'\"stop\"'*) exit 0 ;; esac\n\
        echo \"@hpsearch {\\\"step\\\":3,\\\"error\\\":7,\\\"speed\\\":8}\"\n";
    let limit = "[[constraint]]\nlimit = \"error < 0.5\"\nprune = true\n";
    let site = Site::new(&study(["", ""], "trials = 8", limit), script);
    site.run_study();
    let states = site.trials().into_iter().map(|trial| {
        let x = trial["params"]["x"].as_f64().unwrap();
        let last = if x < 0.5 { json!([7.0, 8.0]) } else { json!([x, 2.0]) };
        assert_eq!(trial["last_values"], last, "{trial}");
        trial["state"].as_str().unwrap().to_owned()
    });
    assert!(states.collect::<Vec<_>>().contains(&"pruned".to_owned()));
}

#[test]
fn trials_have_values_and_the_best_of_them_are_a_front() {
    let site = finished("[sampler]\ntype = \"tpe\"");
    let trials = site.trials();
    assert_eq!(trials.len(), 12);
    for trial in &trials {
        let params = &trial["params"];
        assert_eq!(
            values(trial),
            (params["x"].as_f64().unwrap(), params["y"].as_f64().unwrap()),
            "the last value of each objective"
        );
    }
    let on = front(&trials);
    let best = site.json(&["best", "s", "--json"]);
    let members: Vec<u64> = best["front"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| trial["number"].as_u64().unwrap())
        .collect();
    assert_eq!(members, on);
    assert!(on.contains(&best["trial"]["number"].as_u64().unwrap()));
    assert!(best["hypervolume"].as_f64().unwrap() > 0.0);
    assert_eq!(best["reference"].as_array().unwrap().len(), 2);
    let listed = site.json(&["trials", "s", "--json"]);
    let first: Vec<u64> = listed["trials"].as_array().unwrap()[..on.len()]
        .iter()
        .map(|trial| trial["number"].as_u64().unwrap())
        .collect();
    assert!(on.iter().all(|number| first.contains(number)), "the front comes first: {first:?}");
    let studies = site.json(&["ls", "--json"]);
    assert_eq!(studies["studies"][0]["front"]["trials"], json!(on));
    assert_eq!(studies["studies"][0]["objectives"][1]["metric"], "speed");
    let sorted = |words: &[&str]| -> Vec<u64> {
        let listed = site.json(&[&["trials", "s", "--json"], words].concat());
        let trials = listed["trials"].as_array().unwrap();
        trials.iter().map(|trial| trial["number"].as_u64().unwrap()).collect()
    };
    for (index, name) in ["error", "speed"].into_iter().enumerate() {
        let of = |number: &u64| trials[*number as usize]["values"][index].as_f64().unwrap();
        assert!(sorted(&["--sort", name]).iter().map(of).is_sorted(), "{name}");
        let few = sorted(&["--where", &format!("{name}<0.5")]);
        assert_eq!(
            few.len(),
            trials.iter().filter(|one| one["values"][index].as_f64().unwrap() < 0.5).count()
        );
    }
    assert_names(&site.run(&["best", "s"]).out, &["the compromise", "on the front", "x = "]);
    assert_names(&site.run(&["show", "s"]).out, &["minimize error, maximize speed", "front"]);
    assert_names(&site.run(&["verify", "s"]).out, &["12 values and 1 end repeat exactly"]);
    let unclear = ["value<0.3", "last_value<0.3"];
    for filter in unclear {
        let refused = site.run(&["trials", "s", "--where", filter]);
        assert_refused(&refused, &["this study has several", "`error`", "`speed`"]);
    }
    let export = site.run(&["export", "s", "-o", "out"]);
    assert_done(&export);
    let exported = site.read_json("out/metrics.json");
    let compromise = &best["trial"]["values"];
    assert_names(&export.err, &["(error 0.", ", speed 0."]);
    let recipe = site.read("out/best.toml");
    let recipe: Json = toml::from_str(&recipe).unwrap();
    assert_eq!(recipe["values"], json!({"error": compromise[0], "speed": compromise[1]}));
    // What was reported once is predicted at all steps alike, and shown where it was reported.
    let explained = site.json(&["explain", "s", "11", "--json"]);
    let rows = explained["proposed"]["predicted_objectives"][1].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["step"]).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(rows.iter().all(|row| row["mean"] == rows[0]["mean"]), "{rows:?}");
    let text = site.run(&["explain", "s", "11"]).out;
    let table = text.split("speed predicted").nth(1).unwrap().split("\n\n").next().unwrap();
    let told: Vec<&str> = table.lines().skip(2).map(str::trim).collect();
    assert!(told.len() == 1 && told[0].starts_with("1  "), "{text}");
    assert_eq!(exported["values"], json!({"error": compromise[0], "speed": compromise[1]}));
    assert_eq!(exported["metrics"]["speed"], compromise[1], "of an earlier step");
    assert_names(&site.read("out/README.md"), &["on the front of `error` (minimize), `speed`"]);
    let diff = site.run(&["diff", "s", "0", "1"]).out;
    assert_names(&diff, &["value (error, speed)", "\nspeed "]);
    // Optuna's tables have a row for each value.
    assert_eq!(site.query::<i64>("SELECT count(*) FROM trial_values"), 24);
    assert_eq!(site.query::<i64>("SELECT count(*) FROM trials WHERE state = 'COMPLETE'"), 12);
}

/// The second objective has the name of a column, and the first that of a parameter.
#[test]
fn filters_and_sort_keys_reach_an_objective_named_like_a_column_or_a_parameter() {
    let text = study(["", ""], "trials = 8", "[sampler]\ntype = \"random\"")
        .replace("\"speed\"", "\"seconds\"")
        .replace("\"error\"", "\"y\"");
    let site = Site::new(&text, &TRIAL.replace("speed", "seconds").replace("error", "y"));
    assert_done(&site.run_study());
    let trials = site.trials();
    let numbers = |words: &[&str]| -> Vec<u64> {
        let listed = site.json(&[&["trials", "s", "--json"], words].concat());
        let trials = listed["trials"].as_array().unwrap();
        trials.iter().map(|trial| trial["number"].as_u64().unwrap()).collect()
    };
    for (index, name) in ["y", "seconds"].into_iter().enumerate() {
        let of = |number: &u64| trials[*number as usize]["values"][index].as_f64().unwrap();
        let is_small = |trial: &&Json| trial["values"][index].as_f64().unwrap() < 0.5;
        let small = trials.iter().filter(is_small).count();
        assert!(small > 0 && small < trials.len());
        let found = numbers(&["--where", &format!("metrics.{name}<0.5")]);
        assert_eq!(found.len(), small, "{name}");
        assert!(found.iter().all(|number| of(number) < 0.5));
        let sorted = numbers(&["--sort", &format!("metrics.{name}")]);
        assert!(sorted.len() == trials.len() && sorted.iter().map(of).is_sorted(), "{name}");
    }
    // Without the prefix it is the column, and the parameter.
    assert_eq!(numbers(&["--where", "seconds>=0"]).len(), trials.len());
    let small = |trial: &&Json| trial["params"]["y"].as_f64().unwrap() < 0.5;
    assert_eq!(numbers(&["--where", "y<0.5"]).len(), trials.iter().filter(small).count());
    let refused = site.run(&["trials", "s", "--where", "zebra<1"]);
    assert_refused(
        &refused,
        &["`zebra` is not a parameter or metric", "its objectives are `y`, `seconds`"],
    );
}

#[test]
fn tables_for_other_programs_have_the_values_of_each_objective() {
    let site = finished("[sampler]\ntype = \"random\"");
    let csv = site.run(&["export-data", "s"]).out;
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let titles = rows.headers().unwrap().clone();
    let columns = ["values.error", "values.speed"]
        .map(|name| titles.iter().position(|title| title == name).expect(name));
    for (row, trial) in rows.records().map(Result::unwrap).zip(site.trials()) {
        let told = columns.map(|column| row[column].parse::<f64>().unwrap());
        assert_eq!((told[0], told[1]), values(&trial));
    }
    // Beside a study of one objective its cells are empty.
    let one = crate::harness::study("trials = 1", crate::harness::ONE_SLOT);
    site.write("one.toml", one.replace("name = \"s\"", "name = \"one\""));
    site.write("trial.sh", "echo '@hpsearch {\"step\":1,\"loss\":1}'\n");
    assert_done(&site.run(&["run", "one.toml", "--plain"]));
    assert!(!site.run(&["export-data", "one"]).out.contains("values."));
    let both = site.run(&["export-data", "--all"]).out;
    let last = both.lines().find(|line| line.starts_with("one,")).unwrap();
    assert!(both.lines().next().unwrap().contains("values.error,values.speed"));
    assert!(last.contains(",,"), "{last}");
}

#[test]
fn figures_show_the_front_and_each_objective_in_turn() {
    let site = finished("[sampler]\ntype = \"random\"");
    let pareto = site.json(&["plot", "pareto", "s", "--json"]);
    let series = pareto["charts"][0]["series"].as_array().unwrap();
    let on = series.iter().find(|one| one["name"] == "on the front").unwrap();
    assert_eq!(on["points"].as_array().unwrap().len(), front(&site.trials()).len());
    let volumes = site.json(&["plot", "hypervolume", "s", "--json"]);
    let points = volumes["charts"][0]["series"][0]["points"].as_array().unwrap().clone();
    let last = points.last().unwrap()[1].as_f64().unwrap();
    let best = site.json(&["best", "s", "--json"]);
    assert!((last - best["hypervolume"].as_f64().unwrap()).abs() < 1e-9);
    let history = site.json(&["plot", "history", "s", "--json"]);
    let titles: Vec<&str> = history["charts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|chart| chart["title"].as_str().unwrap())
        .collect();
    assert_eq!(titles, ["s: error by trial, minimized", "s: speed by trial, maximized"]);
    let one = site.json(&["plot", "slice", "s", "--metric", "speed", "--json"]);
    assert_eq!(one["charts"].as_array().unwrap().len(), 2);
    assert_refused(
        &site.run(&["plot", "history", "s", "--metric", "spede"]),
        &["`spede` is not an objective", "`speed`"],
    );
    for kind in ["history", "parallel", "importance", "edf", "comparison", "contour", "curves"] {
        assert_done(&site.run(&["plot", kind, "s"]));
    }
}

#[test]
fn figures_of_a_front_that_is_not_there_yet_say_why_and_are_no_empty_canvas() {
    let script = "echo '@hpsearch {\"step\":1,\"error\":1,\"speed\":NaN}'\n";
    let site = Site::new(&study(["", ""], "trials = 1", "[sampler]\ntype = \"random\""), script);
    site.run_study();
    for (kind, title) in
        [("hypervolume", "s: hypervolume of the front by trial\n"), ("pareto", "error and speed\n")]
    {
        let drawn = site.run(&["plot", kind, "s"]);
        assert_done(&drawn);
        assert_names(&drawn.out, &[title, "there is no front yet: no trial is complete with a"]);
        assert_eq!(drawn.out.lines().count(), 2, "{}", drawn.out);
        let written = site.run(&["plot", kind, "s", "-o", &format!("{kind}.svg")]);
        assert_done(&written);
        assert_names(&written.err, &["nothing is drawn of", "there is no front yet"]);
    }
}

#[test]
fn lists_of_samplers_and_pruners_say_which_take_several_objectives() {
    let site = Site::empty();
    for (kind, with, without) in [("pruners", "asha", "pbt"), ("samplers", "nsga2", "cmaes")] {
        let listed = site.json(&["list", kind, "--json"]);
        let is_marked = |name: &str| {
            let entries = listed["entries"].as_array().unwrap().iter();
            let entry = entries.clone().find(|entry| entry["name"] == name).unwrap();
            entry["several_objectives"].clone()
        };
        assert_eq!([is_marked(with), is_marked(without)], [json!(true), json!(false)]);
        assert_names(&site.run(&["list", kind]).out, &["  supports several objectives"]);
    }
}

#[test]
fn a_run_that_is_killed_ends_with_the_values_of_one_that_was_not() {
    let rest = "[sampler]\ntype = \"nsga2\"\npopulation_size = 4";
    let whole = finished(rest).trials();
    let site = Site::new(&study(["", ""], "trials = 12", rest), TRIAL);
    site.write("slow", "");
    let mut running = site.start_study();
    wait_until("six trials have begun", || site.exists("begun") && site.lines("begun").len() >= 6);
    running.kill();
    assert_done(&site.run_study());
    let told = |trials: &[Json]| -> Vec<(f64, f64)> { trials.iter().map(values).collect() };
    assert_eq!(told(&site.trials()), told(&whole));
    assert_names(&site.run(&["verify", "s"]).out, &["12 values and 1 end repeat exactly"]);
}

#[test]
fn a_trial_that_lacks_an_objective_fails_and_is_told_which() {
    let script = "echo '@hpsearch {\"step\":1,\"error\":1}'\n";
    let site = Site::new(&study(["", ""], "trials = 1\ncount = \"all\"", ""), script);
    site.run_study();
    let trial = &site.trials()[0];
    assert_eq!(trial["state"], "failed");
    assert_names(trial["reason"].as_str().unwrap(), &["no value of `speed`", "\"speed\": .."]);
}

#[test]
fn the_front_ends_a_study_by_its_hypervolume_or_when_nothing_joins_it() {
    let thresholds = ["threshold = 1.0", "threshold = 0.0"];
    let target = study(thresholds, "trials = 60\ntarget = 0.5", "[sampler]\ntype = \"random\"");
    let site = Site::new(&target, TRIAL);
    assert_names(&site.run_study().out, &["hypervolume reached the target"]);
    assert_names(&site.run(&["show", "s"]).out, &["a hypervolume of 0.5"]);
    let best = site.json(&["best", "s", "--json"]);
    assert!(best["hypervolume"].as_f64().unwrap() >= 0.5);
    assert_eq!(best["reference"], json!([1.0, 0.0]));
    // Another threshold measures the same trials otherwise; the change is printed.
    site.write("study.toml", target.replace("threshold = 1.0", "threshold = 2.0"));
    assert_names(&site.run_study().err, &["threshold", "2"]);
    assert_eq!(site.json(&["best", "s", "--json"])["reference"], json!([2.0, 0.0]));
    let patience = study(["", ""], "trials = 60\npatience = 6", "[sampler]\ntype = \"random\"");
    let site = Site::new(&patience, TRIAL);
    assert_names(&site.run_study().out, &["did not join the front (budget.patience)"]);
    let trials = site.trials();
    let newest = front(&trials).into_iter().max().unwrap();
    assert_eq!(trials.len() as u64, newest + 7);
}

#[test]
fn a_limit_keeps_trials_from_the_front() {
    let site = finished("[sampler]\ntype = \"random\"\n[[constraint]]\nlimit = \"error <= 0.5\"\n");
    let trials = site.trials();
    let feasible: Vec<Json> = trials.iter().filter(|one| values(one).0 <= 0.5).cloned().collect();
    assert!(!feasible.is_empty() && feasible.len() < trials.len());
    let best = site.json(&["ls", "--json"]);
    assert_eq!(best["studies"][0]["front"]["trials"], json!(front(&feasible)));
}

#[test]
fn a_sampler_for_one_objective_is_refused_by_check() {
    let site = Site::new(&study(["", ""], "trials = 2", "[sampler]\ntype = \"cmaes\""), TRIAL);
    let named = study(["", ""], "trials = 2", "").replace("\"speed\"", "\"step\"");
    site.write("named.toml", named);
    assert_refused(&site.run(&["check", "named.toml"]), &["no report has a metric `step`"]);
    assert_refused(
        &site.run(&["check", "study.toml"]),
        &["`cmaes`", "several objectives", "`tpe`"],
    );
}

#[test]
fn a_sampler_that_does_not_learn_from_a_warm_start_is_said_by_check_and_run() {
    let site = finished("[sampler]\ntype = \"random\"");
    let warm = |sampler: &str| {
        let table = format!("[sampler]\ntype = \"{sampler}\"\nwarm_start = [\"s\"]\n");
        let text = study(["", ""], "trials = 5", &table);
        site.write("warm.toml", text.replace("name = \"s\"", &format!("name = \"{sampler}\"")));
        let (checked, run) =
            (site.run(&["check", "warm.toml"]), site.run(&["run", "warm.toml", "--plain"]));
        assert_done(&checked);
        assert_done(&run);
        [checked.err, run.err]
    };
    for sampler in ["gp", "auto", "nsga2"] {
        for told in warm(sampler) {
            let begins = format!("`{sampler}` does not learn from `warm_start`");
            assert_names(&told, &[&begins, "it only begins with the best", "\"tpe\"`"]);
        }
        // It does begin with them: those of the front come first.
        let trials = site.json(&["trials", sampler, "--json"])["trials"].clone();
        let first = trials.as_array().unwrap().iter().find(|one| one["number"] == 0).unwrap();
        let earlier = site.trials();
        let on = front(&earlier);
        let is_first = |number: &&u64| earlier[**number as usize]["params"] == first["params"];
        assert!(on.iter().any(|number| is_first(&number)), "{sampler}: {first}");
    }
    for told in warm("gp") {
        assert_names(&told, &["`warm_start` with 2 objectives"]);
    }
    for told in warm("random") {
        assert_names(&told, &["`random` ignores `warm_start`"]);
    }
    for told in warm("tpe") {
        assert!(!told.contains("does not learn") && !told.contains("ignores"), "{told}");
    }
}

#[test]
fn a_pruner_ranks_a_rung_by_domination_and_its_decisions_repeat() {
    // Three steps; what is good in neither objective is stopped at the first rung.
    let script = "for step in 1 2 3; do\n\
        echo \"@hpsearch {\\\"step\\\":$step,\\\"error\\\":$1,\\\"speed\\\":$2}\"; read -r answer\n\
        case \"$answer\" in *'\"stop\"'*) exit 0 ;; esac\n\
        done\n";
    let text = study(["", ""], "trials = 30", "[sampler]\ntype = \"random\"").replace(
        "type = \"none\"",
        "type = \"asha\"\nmin_resource = 1\nmax_resource = 3\nreduction_factor = 2",
    );
    let site = Site::new(&text, script);
    assert_done(&site.run_study());
    let trials = site.trials();
    let state = |word: &str| -> Vec<&Json> {
        trials.iter().filter(|trial| trial["state"] == word).collect()
    };
    let (complete, pruned) = (state("complete"), state("pruned"));
    assert!(complete.len() >= 5 && pruned.len() >= 8, "{} {}", complete.len(), pruned.len());
    let param = |trial: &Json, name: &str| trial["params"][name].as_f64().unwrap();
    let dominates = |one: &Json, other: &Json| {
        param(one, "x") < param(other, "x") && param(one, "y") > param(other, "y")
    };
    // Nothing that was stopped beats in both objectives all that went on.
    let beats_all = |one: &&&Json| complete.iter().all(|other| dominates(one, other));
    assert_eq!(pruned.iter().filter(beats_all).count(), 0);
    let dominated = pruned.iter().filter(|one| trials.iter().any(|other| dominates(other, one)));
    assert!(dominated.count() * 10 >= pruned.len() * 7, "most that were stopped are dominated");
    assert_names(&site.run(&["verify", "s"]).out, &["repeat exactly"]);
}

/// The trials save no checkpoints, so that with `promote`, too, they are stopped.
/// A line for each objective: the second one at a step completes it, and is judged.
#[test]
fn objectives_that_are_reported_one_after_the_other_are_judged_at_the_same_step() {
    let script = "for step in 1 2 3; do\n\
        for pair in \\\"error\\\":$1 \\\"speed\\\":$2; do\n\
        echo \"@hpsearch {\\\"step\\\":$step,$pair}\"; read -r answer\n\
        case \"$answer\" in *'\"stop\"'*|*'\"pause\"'*) leave=1 ;; esac\n\
        done\n\
        [ -z \"$leave\" ] || exit 0\n\
        done\n";
    for (mode, rest) in [("stop", ""), ("promote", "mode = \"promote\"\n")] {
        let pruner = format!(
            "type = \"asha\"\nmin_resource = 1\nmax_resource = 3\nreduction_factor = 2\n{rest}"
        );
        let text = study(["", ""], "trials = 16", "[sampler]\ntype = \"random\"")
            .replace("type = \"none\"", &pruner);
        let site = Site::new(&text, script);
        assert_done(&site.run_study());
        let trials = site.trials();
        let of = |word: &str| trials.iter().filter(|trial| trial["state"] == word).count();
        let (complete, pruned) = (of("complete"), of("pruned"));
        assert!(complete >= 1 && pruned >= 4 && complete + pruned == 16, "{mode}: {complete}");
        let steps = |trial: &Json| trial["last_step"].as_u64().unwrap();
        let early = trials.iter().filter(|trial| trial["state"] == "pruned" && steps(trial) == 1);
        assert!(early.count() >= 3, "{mode}: the first rung judges");
        assert_done(&site.run(&["verify", "s"]));
    }
}

#[test]
fn trials_are_explained_by_who_dominates_them_and_by_predicted_ends() {
    let curves = "awk -v end=\"${HPSEARCH_UNTIL:-9}\" -v x=\"$1\" -v y=\"$2\" \
         'BEGIN { for (s = 1; s <= end; s++) printf \"@hpsearch \
         {\\\"step\\\":%d,\\\"error\\\":%f,\\\"speed\\\":%f}\\n\", s, x + 1 / s, y }'\n";
    let asha = "type = \"asha\"\nmode = \"promote\"\nmin_resource = 2\nmax_resource = 9";
    let text = study(["", ""], "trials = 24", "[sampler]\ntype = \"random\"");
    let site = Site::new(&text.replace("type = \"none\"", asha), curves);
    assert_done(&site.run_study());
    let said = site.run(&["events", "s"]).out;
    assert_names(&said, &["its program saves no checkpoints, and it would start over"]);
    assert!(said.matches("the trial starts over").count() <= 1, "{said}");
    let trials = site.trials();
    let complete: Vec<&Json> = trials.iter().filter(|one| one["state"] == "complete").collect();
    assert!((3..20).contains(&complete.len()), "{}", complete.len());
    let mut predicted = 0;
    for trial in &complete {
        let number = trial["number"].as_u64().unwrap();
        let is_better = |other: &&&Json| {
            let ((error, speed), (own, slow)) = (values(other), values(trial));
            error <= own && speed >= slow && (error < own || speed > slow)
        };
        let better: Vec<&Json> =
            complete.iter().filter(is_better).map(|other| &other["number"]).collect();
        let explained = site.json(&["explain", "s", &number.to_string(), "--json"]);
        assert_eq!(explained["domination"]["dominated_by"], json!(better));
        assert_eq!(explained["domination"]["on_front"], json!(better.is_empty()));
        let text = site.run(&["explain", "s", &number.to_string()]).out;
        assert_names(&text, &[if better.is_empty() { "on the front" } else { "dominated by" }]);
        let decisions = explained["decisions"].as_array().unwrap();
        assert_eq!(decisions[0]["values"][1], trial["values"][1], "the speed is constant");
        assert!(decisions[0]["values"][0].as_f64() > trial["values"][0].as_f64());
        for ends in decisions.iter().filter_map(|one| one["predicted_ends"].as_array()) {
            predicted += 1;
            assert!(ends[0]["low"].as_f64() < ends[0]["high"].as_f64(), "{ends:?}");
            // Once five trials have shown that it never changes.
            if number > 12 {
                let speed = &trial["values"][1];
                assert_eq!([&ends[1]["low"], &ends[1]["mean"], &ends[1]["high"]], [speed; 3]);
            }
        }
    }
    assert!(predicted > 2, "{predicted}");
}
