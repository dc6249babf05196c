//! A changed study file is treated as the contract's table says, row by row, and the difference is
//! shown.

use std::collections::BTreeMap;

use hpsearch::config::{ChangeClass, difference};
use hpsearch::study::metric::Direction;
use hpsearch::study::program::Program;
use hpsearch::study::space::Space;
use hpsearch::study::spec::StudySpec;
use serde_json::{Value as Json, json};

use crate::harness::{ONE_SLOT, Site, assert_names, study};

/// A finished study of two trials.
fn finished() -> Site {
    Site::finished("trials = 2")
}

/// Runs it again with something changed; the exit code, and what was said about it.
fn again(site: &Site, text: &str, options: &[&str]) -> (i32, String) {
    site.write("study.toml", text);
    let ended = site.run_study_with(options);
    (ended.code, ended.err)
}

fn file(from: &str, to: &str) -> String {
    let text = study("trials = 2", ONE_SLOT);
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

fn stored(site: &Site) -> Json {
    site.json(&["show", "s", "--json"])["specification"].take()
}

#[test]
fn budget_devices_retry_checkpoints_export_description_and_tags_are_taken() {
    let site = finished();
    let rows = [
        ("trials = 2", "trials = 3", "budget.trials: 2 -> 3", "/budget/trials", json!(3)),
        (
            "trials = 2",
            "trials = 3\ntime = \"1h\"",
            "budget.time: not set -> 1h",
            "/budget/time/secs",
            json!(3600),
        ),
        (
            "trials = 2",
            "trials = 3\ndevice_hours = 2.5",
            "budget.device_hours: not set -> 2.5",
            "/budget/device_hours",
            json!(2.5),
        ),
        (
            "trials = 2",
            "trials = 3\ncost = 9\nprice_per_hour = 3",
            "budget.cost: not set -> 9",
            "/budget/cost",
            json!(9.0),
        ),
        (
            "use = [\"sim:0\"]",
            "use = [\"sim:0..1\"]",
            "devices.use: sim:0 -> sim:0..1",
            "/devices/use",
            json!(["sim:0..1"]),
        ),
        (
            "use = [\"sim:0\"]",
            "use = [\"sim:0\"]\ncpu_threads = 2",
            "devices.cpu_threads: 1 -> 2",
            "/devices/cpu_threads",
            json!(2),
        ),
        ("[devices]", "[retry]\nmax = 5\n[devices]", "retry.max: 2 -> 5", "/retry/max", json!(5)),
        (
            "[devices]",
            "[checkpoints]\nkeep = \"best-1\"\n[devices]",
            "checkpoints.keep: best-3 -> best-1",
            "/checkpoints/keep_best",
            json!(1),
        ),
        (
            "[devices]",
            "[checkpoints]\nmax_disk = \"1GiB\"\n[devices]",
            "checkpoints.max_disk: not set -> 1GiB",
            "/checkpoints/max_disk",
            json!(1 << 30),
        ),
        (
            "[devices]",
            "[export]\ndir = \"out\"\n[devices]",
            "export.dir: not set -> ",
            "",
            Json::Null,
        ),
        (
            "name = \"s\"",
            "name = \"s\"\ndescription = \"why\"",
            "study.description: not set -> \"why\"",
            "/description",
            json!("why"),
        ),
        (
            "name = \"s\"",
            "name = \"s\"\ntags = [\"a\"]",
            "study.tags: not set -> [\"a\"]",
            "/tags",
            json!(["a"]),
        ),
    ];
    for (from, to, shown, place, value) in rows {
        let (code, said) = again(&site, &file(from, to), &[]);
        assert_eq!(code, 0, "{shown}: {said}");
        assert!(
            said.contains("study `s` changed since it was last run:") && said.contains(shown),
            "{shown} in {said}"
        );
        if !place.is_empty() {
            assert_eq!(stored(&site).pointer(place), Some(&value), "{shown}");
        }
    }
    assert_eq!(site.trials().len(), 3, "the raised budget was used, once");
}

#[test]
fn space_sampler_pruner_constraints_and_enqueued_configurations_need_accept() {
    let rows = [
        ("[0.0, 1.0]", "[0.0, 2.0]", "space.x: "),
        ("type = \"random\"", "type = \"qmc\"", "sampler.type: random -> qmc"),
        ("type = \"none\"", "type = \"median\"", "pruner.type: none -> median"),
        ("[devices]", "[[enqueue]]\nx = 0.5\n[devices]", "enqueue.0: not set -> "),
        ("[devices]", "[[constraint]]\nrequire = \"x < 0.9\"\n[devices]", "constraint"),
    ];
    for (from, to, shown) in rows {
        let site = finished();
        let before = stored(&site);
        let (code, said) = again(&site, &file(from, to), &[]);
        assert_eq!(code, 6, "{shown}: {said}");
        assert!(said.contains(shown) && said.contains("--accept"), "{shown} in {said}");
        assert_eq!(stored(&site), before, "nothing is taken before it is accepted");
        let (code, said) = again(&site, &file(from, to), &["--accept"]);
        assert_eq!(code, 0, "{shown}: {said}");
        assert_ne!(stored(&site), before);
        let (code, said) = again(&site, &file(from, to), &[]);
        assert_eq!(
            (code, said.contains("changed since")),
            (0, false),
            "once accepted, it is no change: {said}"
        );
    }
}

/// After an update of hpsearch: the study is decided by the rules with which it began.
#[test]
fn a_study_of_an_earlier_version_continues_with_its_rules_and_repeats() {
    let text = |trials, sampler| {
        file("trials = 2", &format!("trials = {trials}"))
            .replace("\"random\"", &format!("\"{sampler}\""))
    };
    let (sampler, version) = ("gp", 8);
    let site = Site::finished("trials = 2");
    assert_eq!(again(&site, &text(2, sampler), &["--accept"]).0, 0);
    assert!(stored(&site)["sampler"]["version"].as_i64().unwrap() > version);
    let connection = site.database();
    for table in ["study", "study_revision"] {
        let sql = format!("UPDATE {table} SET spec = json_set(spec, '$.sampler.version', ?1)");
        connection.execute(&sql, [version]).unwrap();
    }
    drop(connection);
    let (code, said) = again(&site, &text(14, sampler), &[]);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("sampler"), "{said}");
    assert_eq!(stored(&site)["sampler"]["version"], version);
    assert_eq!(site.trials().len(), 14);
    let verified = site.run(&["verify", "s"]);
    assert_eq!(verified.code, 0, "{}", verified.err);
    assert!(!verified.err.contains("version"), "{}", verified.err);
    // With another table, and consent, it has the present rules.
    let changed = text(15, sampler)
        .replace(&format!("\"{sampler}\""), &format!("\"{sampler}\"\nn_startup_trials = 5"));
    assert_eq!(again(&site, &changed, &[]).0, 6);
    assert_eq!(again(&site, &changed, &["--accept"]).0, 0);
    assert!(stored(&site)["sampler"]["version"].as_i64().unwrap() > version);
}

#[test]
fn metric_direction_value_step_seed_and_command_need_a_fork() {
    let rows = [
        ("metric = \"loss\"", "metric = \"other\"", "study.metric: loss -> other"),
        (
            "direction = \"minimize\"",
            "direction = \"maximize\"",
            "study.direction: minimize -> maximize",
        ),
        ("step = \"step\"", "step = \"step\"\nvalue = \"last\"", "study.value: best -> last"),
        ("step = \"step\"", "step = \"epoch\"", "study.step: step -> epoch"),
        ("seed = 7", "seed = 8", "study.seed: 7 -> 8"),
        ("\"trial.sh\"", "\"-e\", \"trial.sh\"", "command.run: "),
    ];
    for (from, to, shown) in rows {
        let site = finished();
        let before = stored(&site);
        for options in [&[][..], &["--accept"]] {
            let (code, said) = again(&site, &file(from, to), options);
            assert_eq!(code, 6, "{shown}: {said}");
            assert!(said.contains(shown) && said.contains("--fork NAME"), "{shown} in {said}");
        }
        assert_eq!(stored(&site), before);
        let (code, said) = again(
            &site,
            &file(from, to).replace("trials = 2", "trials = 2\ncount = \"all\""),
            &["--fork", "t"],
        );
        assert!(matches!(code, 0 | 3), "{shown}: {code} {said}");
        assert_eq!(stored(&site), before, "the study itself stays as it was");
        assert_eq!(site.run(&["show", "t", "--json"]).code, 0, "the fork is a study of its own");
    }
}

#[test]
fn check_says_of_a_changed_file_what_run_says() {
    let site = finished();
    for (set, words, code) in [
        ("study.metric=\"accuracy\"", "study.metric: loss -> accuracy", 6),
        ("sampler.type=\"qmc\"", "sampler.type: random -> qmc", 6),
        ("budget.trials=3", "budget.trials: 2 -> 3", 0),
    ] {
        let [checked, ran] = [&["check", "study.toml"][..], &["run", "study.toml", "--plain"]]
            .map(|verb| site.run(&[verb, &["--set", set]].concat()));
        assert_eq!((checked.code, ran.code), (code, code), "{set}: {}", checked.err);
        assert_names(&checked.err, &[words]);
        let changes = |err: &str| -> String {
            err.lines().filter(|line| !line.starts_with("store: ")).collect()
        };
        if code == 6 {
            assert_eq!(changes(&checked.err), changes(&ran.err));
            assert_eq!(checked.out, "");
            let told = site.run(&["check", "study.toml", "--json", "--set", set]);
            let object: Json = serde_json::from_str(&told.out).unwrap();
            assert_eq!((told.code, &object["valid"]), (6, &json!(false)));
            assert_names(object["problems"][0]["message"].as_str().unwrap(), &[words]);
            assert_names(object["problems"][0]["help"][0].as_str().unwrap(), &["`hpsearch run "]);
        }
    }
}

#[test]
fn data_and_trainer_need_a_fork() {
    let of = |arguments: Json, data: Json| {
        let table = |json: Json| {
            json.as_object().unwrap().clone().into_iter().collect::<BTreeMap<String, Json>>()
        };
        let program = Program::Trainer { arguments: table(arguments), data: table(data) };
        StudySpec::new("s", "eval_loss", Direction::Minimize, Space::default(), program)
    };
    let before = of(json!({ "num_train_epochs": 3 }), json!({ "train": "/a.csv" }));
    let rows = [
        (
            of(json!({ "num_train_epochs": 4 }), json!({ "train": "/a.csv" })),
            "trainer.num_train_epochs: 3 -> 4",
        ),
        (
            of(json!({ "num_train_epochs": 3 }), json!({ "train": "/b.csv" })),
            "data.train: /a.csv -> /b.csv",
        ),
    ];
    for (after, shown) in rows {
        let changes = difference(&before, &after);
        assert_eq!(changes.iter().map(ToString::to_string).collect::<Vec<_>>(), [shown]);
        assert_eq!(changes[0].class, ChangeClass::NeedsFork);
    }
}

#[test]
fn why_a_study_ended_is_said_everywhere() {
    let site = finished();
    let reason = "the budget of 2 trials is used up";
    let ended = site.run_study();
    assert!(ended.out.contains(reason), "run: {}", ended.out);
    assert!(site.run(&["show", "s"]).out.contains(&format!("finished: {reason}")));
    let json = |arguments: &[&str]| site.json(arguments);
    assert_eq!(json(&["show", "s", "--json"])["finished"], json!(reason));
    assert_eq!(json(&["ls", "--json"])["studies"][0]["reason"], json!(reason));
    assert!(site.run(&["events", "s"]).out.contains(reason), "{}", site.run(&["events", "s"]).out);
}
