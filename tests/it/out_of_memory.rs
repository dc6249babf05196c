//! Built-in trials under a real memory limit: out of memory, they continue with fewer rows at once,
//! to the same result.

use hpsearch::runner::processes;
use serde_json::Value as Json;

use crate::harness::{Ended, Running, Site, assert_code, assert_done, assert_names};

/// One trial of a few steps, most of whose memory is for the rows of a micro-batch.
fn site(rows: usize, accumulation: usize, more: &str) -> Site {
    let study = format!(
        r#"
        [study]
        name = "s"
        metric = "eval_loss"
        direction = "minimize"
        seed = 3
        [budget]
        trials = 1
        count = "all"
        [data]
        train = "train.csv"
        validation = "validation.csv"
        [trainer]
        task = "text-classification"
        num_train_epochs = 2
        eval_strategy = "epoch"
        per_device_train_batch_size = {rows}
        per_device_eval_batch_size = 8
        gradient_accumulation_steps = {accumulation}
        "model.hidden_size" = 16
        "model.num_layers" = 1
        "model.num_heads" = 2
        "model.intermediate_size" = 2048
        "model.dropout" = 0.0
        "model.attention_dropout" = 0.0
        {more}
        [space]
        learning_rate = {{ float = [1e-3, 1e-2], log = true }}
        [devices]
        use = ["cpu"]
        trials_per_device = 1
        [retry]
        max = 0
        "#
    );
    let site = Site::new(&study, "");
    let rows = |rows: usize| -> String {
        let line = |row: usize| {
            let words = if row.is_multiple_of(2) {
                ["bus", "road", "late"]
            } else {
                ["lamp", "tree", "dark"]
            };
            let text: Vec<&str> =
                (0..60).map(|place| words[(row * 7 + place * place) % 3]).collect();
            format!(
                "{},{}\n",
                text.join(" "),
                if row.is_multiple_of(2) { "transport" } else { "light" }
            )
        };
        (0..rows).map(line).collect()
    };
    site.write("train.csv", format!("text,label\n{}", rows(64)));
    site.write("validation.csv", format!("text,label\n{}", rows(8)));
    site
}

/// Runs the study.
const RUN: &str = "run study.toml --plain";

/// Runs the study with at most `kib` KiB of address space for each process.
fn run_within(site: &Site, kib: u64) -> Ended {
    start_within(site, RUN, kib).end()
}

/// Starts a verb with at most `kib` KiB of address space for each process.
fn start_within(site: &Site, verb: &str, kib: u64) -> Running {
    // One arena: otherwise the C library reserves unused address space for each thread.
    site.start_shell(&format!("export MALLOC_ARENA_MAX=1; ulimit -v {kib}; exec \"$0\" {verb}"))
}

/// Runs the study; the peak address space of a worker in KiB.
fn peak_of_run(site: &Site) -> u64 {
    peak(site, RUN)
}

/// Runs a verb; the peak address space of a worker in KiB.
fn peak(site: &Site, verb: &str) -> u64 {
    // Less than the gigabyte of address space that a worker's allocator would reserve at once: here
    // it grows on demand.
    let running = start_within(site, verb, 1_000_000);
    let runner = running.id();
    let mut peak = 0;
    let ended = running.end_watched(|| {
        for pid in processes::children(runner) {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| {
                line.strip_prefix("VmPeak:")?.trim().strip_suffix("kB")?.trim().parse().ok()
            });
            peak = peak.max(line.unwrap_or(0));
        }
    });
    assert_done(&ended);
    peak
}

fn shown(site: &Site) -> Json {
    let ended = site.run(&["show", "s", "0", "--json"]);
    assert_done(&ended);
    ended.json()
}

#[test]
fn a_trial_that_runs_out_of_memory_halves_its_rows_and_ends_with_the_same_result() {
    let (plenty, small) = (site(64, 1, ""), site(8, 8, ""));
    let (most, least) = (peak_of_run(&plenty), peak_of_run(&small));
    assert!(most > least + 40_000, "rows make no difference: {most} and {least} KiB");
    let limited = site(64, 1, "");
    let limit = least + (most - least) / 3;
    let ended = run_within(&limited, limit);
    assert_eq!(ended.code, 0, "with {limit} of {most} KiB:\n{}\n{}", ended.out, ended.err);
    let (reference, shown) = (shown(&plenty), shown(&limited));
    let value = |json: &Json| json["trial"]["value"].as_f64().unwrap();
    assert!(
        (value(&reference) - value(&shown)).abs() < 1e-4,
        "{} {}",
        value(&reference),
        value(&shown)
    );
    assert_eq!(
        (&shown["trial"]["state"], &shown["trial"]["params"]),
        (&reference["trial"]["state"], &reference["trial"]["params"])
    );
    let attempts = shown["attempts"].as_array().unwrap();
    let (last, failed) = attempts.split_last().unwrap();
    assert_eq!(last["end"], "completed", "{shown}");
    assert!(!failed.is_empty(), "nothing ran out of memory: {shown}");
    for (number, attempt) in failed.iter().enumerate() {
        assert_eq!(attempt["end"], "out of memory", "{shown}");
        let reason = attempt["reason"].as_str().unwrap();
        assert!(
            reason.starts_with(&format!(
                "{} rows at once did not fit into memory: memory allocation",
                64 >> number
            )),
            "{reason}"
        );
    }
    assert_eq!(
        shown["memory"]["rows_at_once"]["train"].as_u64(),
        Some(64 >> failed.len()),
        "{shown}"
    );
    assert_eq!(shown["memory"]["by_its_arguments"]["train"], 64);
    assert!(reference["memory"].is_null() && reference["attempts"].as_array().unwrap().len() == 1);
    // The store has all of it, and the decisions verify.
    assert!(
        limited.run(&["show", "s", "0"]).out.contains("of 64 rows at once in training"),
        "{}",
        limited.run(&["show", "s", "0"]).out
    );
    assert!(
        limited
            .run(&["explain", "s", "0"])
            .out
            .contains("64 rows at once did not fit into memory; now 32")
    );
    assert_eq!(limited.run(&["verify", "s"]).code, 0);
    eprintln!(
        "{most} KiB with 64 rows, {least} with 8; within {limit} {} attempts",
        attempts.len()
    );

    // With `auto_find_batch_size = false` it fails, with the reason.
    let refused = site(64, 1, "auto_find_batch_size = false");
    assert_eq!(run_within(&refused, limit).code, 3);
    let trials = refused.trials();
    assert_eq!(
        (&trials[0]["state"], &trials[0]["attempts"]),
        (&Json::from("failed"), &Json::from(1))
    );
    assert!(
        trials[0]["reason"].as_str().unwrap().contains("memory allocation of"),
        "{}",
        trials[0]["reason"]
    );
}

#[test]
fn train_continues_with_fewer_rows_after_running_out_of_memory() {
    let (plenty, small) = (site(64, 1, ""), site(8, 8, ""));
    let train = "train study.toml -o model";
    let (most, least) = (peak(&plenty, train), peak(&small, train));
    let limited = site(64, 1, "");
    let ended = start_within(&limited, train, least + (most - least) / 3).end();
    assert_done(&ended);
    assert_names(&ended.err, &["64 rows at once did not fit into memory; now 32"]);
    let value = |site: &Site| -> f64 {
        let metrics = std::fs::read_to_string(site.path("model/metrics.json")).unwrap();
        serde_json::from_str::<Json>(&metrics).unwrap()["value"].as_f64().unwrap()
    };
    assert!(
        (value(&plenty) - value(&limited)).abs() < 1e-4,
        "{} {}",
        value(&plenty),
        value(&limited)
    );

    let refused = site(64, 1, "auto_find_batch_size = false");
    let ended = start_within(&refused, train, least + (most - least) / 3).end();
    assert_code(&ended, 1);
    assert_names(&ended.err, &["memory ran out", "help: "]);
}

#[test]
fn evaluation_and_prediction_continue_with_fewer_rows_after_running_out_of_memory() {
    let site = site(8, 8, "");
    let text = |name: &str| std::fs::read_to_string(site.path(name)).unwrap();
    let many = |rows: u64| {
        text("study.toml").replace(
            "per_device_eval_batch_size = 8",
            &format!("per_device_eval_batch_size = {rows}"),
        )
    };
    // Rows long and many enough for a batch to need memory.
    let lines: String = text("train.csv")
        .lines()
        .skip(1)
        .map(|line| format!("{}\n", line.replacen(" ", &format!(" {}", "tree ".repeat(60)), 1)))
        .collect();
    site.write("test.csv", format!("text,label\n{}", lines));
    site.write(
        "study.toml",
        many(64).replace("validation = ", "test = \"test.csv\"\n        validation = "),
    );
    assert_eq!(site.run_study().code, 0);
    let most = peak(&site, "export s -o plenty");
    let limit = most * 3 / 4;
    let ended = start_within(&site, "export s -o model", limit).end();
    assert_eq!(ended.code, 0, "within {limit} of {most} KiB: {}\n{}", ended.out, ended.err);
    assert_names(&ended.err, &["64 rows at once did not fit into memory; now 32"]);
    let loss = |export: &str| -> f64 {
        let metrics = text(&format!("{export}/metrics.json"));
        let metrics = serde_json::from_str::<Json>(&metrics).unwrap();
        metrics["metrics"]["test_loss"].as_f64().unwrap()
    };
    assert!((loss("plenty") - loss("model")).abs() < 1e-5, "{} {}", loss("plenty"), loss("model"));

    let verb = |output: &str| format!("predict model --file test.csv -o {output}");
    let most = peak(&site, &verb("plenty.csv"));
    let ended = start_within(&site, &verb("labels.csv"), most * 3 / 4).end();
    assert_eq!(ended.code, 0, "within 3/4 of {most} KiB: {}\n{}", ended.out, ended.err);
    assert_names(&ended.err, &["64 rows at once did not fit into memory; now 32"]);
    let labels = |name: &str| {
        text(name)
            .lines()
            .map(|line| line.rsplit(',').nth(1).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(labels("plenty.csv"), labels("labels.csv"));
}
