//! Trials of the built-in trainer on a processor that shares itself out
//! (`trials_per_device = "auto"`): as many as cores, within memory.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::harness::{Ended, Site, assert_done, assert_names};

/// Trials of a second or two each, drawn without looking at others.
fn site(trials: u32, devices: &str) -> Site {
    let epochs = if cfg!(debug_assertions) { 50 } else { 500 };
    let study = format!(
        r#"
        [study]
        name = "s"
        metric = "eval_loss"
        direction = "minimize"
        seed = 3
        [budget]
        trials = {trials}
        [data]
        train = "train.csv"
        validation = "validation.csv"
        [trainer]
        task = "text-classification"
        num_train_epochs = {epochs}
        eval_strategy = "epoch"
        per_device_train_batch_size = 8
        "model.hidden_size" = 16
        "model.num_layers" = 1
        "model.num_heads" = 2
        [space]
        learning_rate = {{ float = [1e-4, 1e-2], log = true }}
        [sampler]
        type = "random"
        [pruner]
        type = "none"
        [devices]
        use = ["cpu"]
        {devices}
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
                (0..16).map(|place| words[(row * 7 + place * place) % 3]).collect();
            format!(
                "{},{}\n",
                text.join(" "),
                if row.is_multiple_of(2) { "transport" } else { "light" }
            )
        };
        (0..rows).map(line).collect()
    };
    // Long enough for looks at the machine, once a second, also where it is fast.
    site.write("train.csv", format!("text,label\n{}", rows(128)));
    site.write("validation.csv", format!("text,label\n{}", rows(8)));
    site
}

fn run(site: &Site) -> Ended {
    let ended = site.run_study();
    assert_done(&ended);
    ended
}

fn values(site: &Site) -> Vec<(Json, Json)> {
    site.trials().iter().map(|trial| (trial["params"].clone(), trial["value"].clone())).collect()
}

/// The journal; the most attempts at a time; and the peaks that ended ones had.
fn journal(site: &Site) -> (usize, Vec<u64>) {
    let ended = site.run(&["events", "s", "--json"]);
    assert_done(&ended);
    let (mut running, mut most, mut peaks) = (BTreeSet::new(), 0, Vec::new());
    for line in ended.json_lines() {
        let event = &line["event"];
        match event["type"].as_str() {
            Some("attempt_started") => drop(running.insert(event["trial"].as_u64())),
            Some("attempt_ended") => {
                running.remove(&event["trial"].as_u64());
                // The machine is looked at once a second: what ended before that has nothing to be
                // compared with.
                let memory = &event["memory"];
                assert!(
                    memory.is_null() || memory["room"].as_u64() > memory["peak"].as_u64(),
                    "{event}"
                );
                peaks.extend(memory["peak"].as_u64());
            }
            _ => {}
        }
        most = most.max(running.len());
    }
    (most, peaks)
}

#[test]
fn trials_of_the_trainer_share_the_cores_that_there_are_and_find_what_they_would_alone() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let (alone, packed) =
        (site(4, "trials_per_device = 1"), site(4, "trials_per_device = \"auto\""));
    run(&alone);
    let ended = run(&packed);
    let (most, peaks) = journal(&packed);
    assert!(most <= cores, "{most} at a time on {cores} cores\n{}", ended.out);
    if cores > 1 {
        assert_names(&ended.out, &["2 at a time on cpu: memory has room: "]);
        assert!(most >= 2, "{}", ended.out);
    }
    assert_eq!(values(&packed), values(&alone), "the same parameters and values, bit for bit");
    let mib: Vec<u64> = peaks.iter().map(|peak| peak >> 20).collect();
    assert!(mib.len() >= 3 && mib.iter().all(|mib| (10..2000).contains(mib)), "{mib:?}");
    let explained = packed.run(&["explain", "s", "3"]);
    assert!(cores == 1 || explained.out.contains("at a time on cpu: "), "{}", explained.out);
    assert_eq!(packed.run(&["verify", "s"]).code, 0);

    // Two fit into no more than one and a half of them need.
    let limit = mib.iter().max().unwrap() * 3 / 2;
    let tight = site(3, &format!("trials_per_device = \"auto\"\nmemory = \"{limit}MiB\""));
    let ended = run(&tight);
    assert_eq!(journal(&tight).0, 1, "{}", ended.out);
    if cores > 1 {
        assert_names(&ended.out, &["1 at a time on cpu: memory has no room: "]);
    }
    let shown = tight.run(&["show", "s"]).out;
    assert!(shown.contains("shared out as they are measured within "), "{shown}");
    assert_eq!(values(&tight)[..], values(&alone)[..3]);
}
