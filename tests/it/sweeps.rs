//! Sweeps of Weights & Biases: `init --sweep` writes a study that is checked and run.

use serde_json::Value as Json;

use crate::harness::{Site, assert_done, assert_names, assert_refused};

/// A program that logs its arguments and reports once.
const TRAIN: &str = "echo \"passed: $*\"\necho '@hpsearch {\"step\": 1, \"loss\": 0.5}'\n";

#[test]
fn a_sweep_becomes_a_study_that_runs_with_the_arguments_of_wandb() {
    let site = Site::empty();
    site.write("train.sh", TRAIN);
    site.write(
        "sweep.yaml",
        "name: digits sweep\nprogram: train.sh\nmethod: grid\nmetric: {name: loss, goal: \
         minimize}\ncommand: [\"${env}\", sh, \"${program}\", \"${args}\"]\nparameters:\n  \
         epochs: {value: 5}\n  fast: {value: true}\n  lr: {values: [0.1, 1e-2]}\n  opt: {values: \
         [adam, sgd]}\n",
    );
    let made = site.run(&["init", "--sweep", "sweep.yaml"]);
    assert_done(&made);
    assert_names(&made.err, &["wrote study.toml\nnext: `hpsearch check study.toml` looks at it,"]);
    insta::assert_snapshot!(site.read("study.toml"));
    let checked = site.run(&["check", "study.toml"]);
    assert_eq!((checked.code, checked.err.as_str()), (0, ""));
    assert_done(&site.run(&["run", "study.toml", "--plain"]));
    let answer: Json = site.run(&["ls", "--json"]).json();
    assert_eq!(
        (&answer["studies"][0]["name"], &answer["studies"][0]["trials"]["complete"]),
        (&Json::from("digits-sweep"), &Json::from(4))
    );
    let mut passed: Vec<String> = (0..4)
        .map(|trial| site.run(&["logs", "digits-sweep", &trial.to_string()]).out)
        .filter_map(|log| log.split_once("passed: ")?.1.lines().next().map(str::to_owned))
        .collect();
    passed.sort();
    assert_eq!(
        passed,
        ["0.01 --opt=adam", "0.01 --opt=sgd", "0.1 --opt=adam", "0.1 --opt=sgd"]
            .map(|rest| format!("--epochs=5 --fast=True --lr={rest}"))
    );
}

#[test]
fn parameters_of_a_file_and_variables_of_the_environment_arrive() {
    let site = Site::empty();
    site.write("train.sh", "echo \"passed: $1 $(cat \"$2\")\"\necho '@hpsearch {\"loss\": 1}'\n");
    site.write(
        "sweep.yaml",
        "program: train.sh\nmethod: random\nrun_cap: 1\nmetric: {name: loss}\ncommand: [sh, \
         \"${program}\", \"${envvar:SWEEP_DATA}/${envvar:NOT_SET_HERE}\", \
         \"${args_json_file}\"]\nparameters: {epochs: {value: 5}, lr: {values: [0.5]}}\n",
    );
    assert_done(&site.run(&["init", "--sweep", "sweep.yaml", "--name", "s"]));
    let line = "SWEEP_DATA='my data' exec \"$0\" run study.toml --plain";
    assert_done(&site.start_shell(line).end());
    let log = site.run(&["logs", "s", "0"]).out;
    assert_names(&log, &["passed: my data/NOT_SET_HERE {", "\"epochs\": 5,", "\"lr\": 0.5"]);
}

#[test]
fn what_a_study_has_not_is_said_and_stands_in_the_file() {
    let site = Site::empty();
    site.write("train.py", "");
    site.write(
        "sweep.yaml",
        "program: train.py\nproject: mer\nmethod: bayes\nmetric: {name: val/acc, goal: \
         maximize}\nearly_terminate: {type: hyperband, min_iter: 3, eta: 2.5}\nparameters:\n  \
         lr: {distribution: log_uniform, min: -9, max: -2}\n  decay: {distribution: log_normal, \
         mu: -5}\n  batch: {distribution: q_log_uniform_values, min: 32, max: 256, q: 8}\n  \
         flip: {values: [true, false]}\n  opt: {values: [a, b], probabilities: [0.25, 0.75]}\n",
    );
    let made = site.run(&["init", "--sweep", "sweep.yaml", "-o", "mer.toml", "--trials", "9"]);
    assert_done(&made);
    let text = site.read("mer.toml");
    let notes: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# - ")).collect();
    assert!(notes.len() > 4, "{text}");
    assert_names(&made.err, &notes);
    insta::assert_snapshot!(text);
    assert_eq!(site.run(&["check", "mer.toml"]).code, 0);
}

#[test]
fn a_sweep_that_means_nothing_is_refused_with_its_line() {
    let site = Site::empty();
    let refused = |text: &str, words: &[&str]| {
        site.write("sweep.yaml", text);
        let ran = site.run(&["init", "--sweep", "sweep.yaml"]);
        assert_refused(&ran, words);
        assert!(!site.exists("study.toml"), "{}", ran.err);
    };
    refused(
        "method: grid\nparameters:\n  lr: {vaules: [0.1]}\n  n: {min: 3, max: 1}\n",
        &[
            "sweep.yaml:3:3",
            "`lr`: it has no values",
            "did you mean `values`?",
            "sweep.yaml:4:3",
            "`n`: `min: 3` is not below `max: 1`",
            "2 problems in sweep.yaml",
        ],
    );
    refused("method: [grid\n", &["sweep.yaml:", "not valid YAML: "]);
    refused(&"a: b\n".repeat(3 << 20), &["the file is larger than 1 MiB"]);
    refused(&"é".repeat(1 << 20), &["the file is larger than 1 MiB"]);
    refused(&"[".repeat(900_000), &["sweep.yaml:1:", "recursion limit exceeded"]);
    refused(&"- ".repeat(400_000), &["sweep.yaml:1:", "more than 64 levels are nested"]);
    site.write("latin.yaml", b"name: caf\xe9\n");
    assert_refused(&site.run(&["init", "--sweep", "latin.yaml"]), &["not UTF-8", "help: "]);
    assert_refused(
        &site.run(&["init", "--sweep", "none.yaml"]),
        &["`none.yaml` cannot be read: ", "help: give the file that `wandb sweep` takes"],
    );
    // A name that is too long, or begins otherwise, is made one.
    let named = |name: &str| {
        site.write(
            "sweep.yaml",
            format!(
                "name: {name}\nmethod: grid\nparameters: {{a: {{values: \
            [1, 2]}}}}\n"
            ),
        );
        assert_done(&site.run(&["init", "--sweep", "sweep.yaml"]));
        let text = site.read("study.toml");
        std::fs::remove_file(site.path("study.toml")).unwrap();
        text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().to_owned()
    };
    assert_eq!(named("_v1.2 (final)"), "\"v1.2--final\"");
    assert_eq!(named(&"x".repeat(200)), format!("\"{}\"", "x".repeat(100)));
    // Where a sweep is taken for another file, the way is shown.
    site.write("sweep.yaml", "method: grid\nparameters: {a: {values: [1, 2]}}\n");
    for arguments in [&["check", "sweep.yaml"][..], &["init", "sweep.yaml"]] {
        assert_names(&site.run(arguments).err, &["hpsearch init --sweep"]);
    }
}
