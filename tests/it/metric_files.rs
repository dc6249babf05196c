//! Metrics in files that a program writes: JSON lines and TensorBoard's event files.

use serde_json::{Value as Json, json};

use crate::harness::{ONE_SLOT, Site, assert_done, study};

/// A study of one trial that counts epochs and finds its metrics by `sources`.
fn writing(sources: &str, rest: &str, script: &str) -> Site {
    let text =
        study("trials = 1\ncount = \"all\"", rest).replace("step = \"step\"", "step = \"epoch\"");
    Site::new(&format!("{text}\n[command.metrics]\n{sources}\n"), script)
}

fn trial(site: &Site) -> Json {
    let shown = site.run(&["trials", "s", "--json"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    serde_json::from_str::<Json>(&shown.out).unwrap()["trials"][0].clone()
}

fn best_metrics(site: &Site) -> Json {
    let best = site.run(&["best", "s", "--json"]);
    serde_json::from_str::<Json>(&best.out).unwrap()["trial"]["metrics"].clone()
}

const JSON: &str = "json = \"metrics.jsonl\"";

#[test]
fn lines_of_a_json_file_are_reports() {
    let script = "cd \"$HPSEARCH_CHECKPOINT_DIR\"; for epoch in 1 2 3; do\n\
        echo \"{\\\"epoch\\\": $epoch, \\\"loss\\\": 0.$((8 - epoch)), \\\"train\\\": \
        {\\\"loss\\\": 0.$((9 - epoch))}, \\\"phase\\\": \\\"fit\\\"}\" >> metrics.jsonl; done\n\
        printf '{\"epoch\": 4, \"loss\": NaN}' >> metrics.jsonl\n";
    let site = writing(JSON, ONE_SLOT, script);
    assert_done(&site.run_study());
    let trial = trial(&site);
    assert_eq!((&trial["value"], &trial["last_step"]), (&json!(0.5), &json!(4)), "{trial}");
    assert_eq!(best_metrics(&site), json!({ "loss": 0.5, "train/loss": 0.6 }));
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_report_from_a_file_is_judged_while_the_program_runs() {
    let pruner = "[devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"threshold\"\nupper = 0.5\n";
    let script = "echo '{\"epoch\": 1, \"loss\": 0.9}' > \"run-$HPSEARCH_TRIAL.jsonl\"; sleep 60\n";
    let site = writing("json = \"run-{trial}.jsonl\"", pruner, script);
    let ended = site.run_study();
    let trial = trial(&site);
    assert_eq!((&trial["state"], &trial["last_value"]), (&json!("pruned"), &json!(0.9)), "{trial}");
    assert!(ended.code == 3 && ended.out.contains("0.9"), "{}", ended.out);
}

#[test]
fn the_next_attempt_starts_behind_what_the_last_one_wrote() {
    let script = "file=\"$HPSEARCH_CHECKPOINT_DIR/../metrics.jsonl\"\n\
        if [ $HPSEARCH_ATTEMPT = 0 ]; then\n\
        printf '{\"epoch\": 1, \"loss\": 0.8}\\n{\"epoch\": 2, \"lo' >> \"$file\"; kill -9 $$; fi\n\
        echo '{\"loss\": 0.7}' >> \"$file\"; echo '{\"loss\": 0.6}' >> \"$file\"\n";
    let rest = format!("{ONE_SLOT}[retry]\nmax = 1\non = [\"worker_lost\"]\n");
    let site = writing(JSON, &rest, script);
    let ended = site.run_study();
    assert_done(&ended);
    let trial = trial(&site);
    assert_eq!((&trial["attempts"], &trial["last_value"]), (&json!(2), &json!(0.6)), "{trial}");
    assert_eq!((&trial["last_step"], &trial["value"]), (&json!(2), &json!(0.6)), "{trial}");
    assert!(!ended.out.contains("is ignored"), "{}", ended.out);
}

#[test]
fn what_is_no_file_of_metrics_is_remarked_and_the_program_goes_on() {
    let report = "echo '@hpsearch {\"epoch\": 1, \"loss\": 0.5}'\n";
    for (source, script, said) in [
        (
            JSON,
            "mkfifo \"$dir/metrics.jsonl\"; sleep 0.6",
            "metrics.jsonl` is a pipe, where a file",
        ),
        (JSON, "mkdir \"$dir/metrics.jsonl\"", "metrics.jsonl` is a directory, where a file"),
        (JSON, "echo 'epoch 1' > \"$dir/metrics.jsonl\"", "`epoch 1` is not a JSON object"),
        (JSON, "", "the file `metrics.jsonl` is not there: looked for /"),
        ("tensorboard = \"tb\"", "", "there is no event file in `tb`: looked for `events.out"),
        (
            "tensorboard = \"tb\"",
            "mkdir \"$dir/tb\"; seq 100 > \"$dir/tb/events.out.tfevents.1\"",
            "is not read any further: the checksum of a record is wrong",
        ),
    ] {
        let script = format!("dir=\"$HPSEARCH_CHECKPOINT_DIR\"; {script}\n{report}");
        let site = writing(source, ONE_SLOT, &script);
        let ended = site.run_study();
        assert_done(&ended);
        assert!(ended.out.contains(said), "{said}: {}", ended.out);
        assert_eq!(trial(&site)["value"], json!(0.5));
        assert!(site.run(&["show", "s", "0"]).out.contains(said), "{said}");
    }
    let site = writing(
        JSON,
        ONE_SLOT,
        "echo '{\"epoch\": 1}' > \"$HPSEARCH_CHECKPOINT_DIR/metrics.jsonl\"\n",
    );
    let ended = site.run_study();
    let said = "`loss` was not found in what [command.metrics] names (json = \"metrics.jsonl\")";
    assert!(ended.out.contains(said), "{}", ended.out);
}

#[test]
fn event_files_of_tensorboard_are_followed() {
    let script = "runs=\"runs-$HPSEARCH_TRIAL\"; mkdir -p \"$runs/train\"\n\
        cat part-1 > \"$runs/events.out.tfevents.1.host\"; sleep 0.6\n\
        cat part-2 >> \"$runs/events.out.tfevents.1.host\"\n\
        cat part-3 > \"$runs/train/events.out.tfevents.2.host\"\n";
    let site = writing("tensorboard = \"runs-{trial}\"", ONE_SLOT, script);
    let all = [scalar(1, "loss", 0.5), scalar(2, "loss", 0.25)].concat();
    let (first, rest) = all.split_at(all.len() - 9);
    site.write("part-1", first);
    site.write("part-2", rest);
    site.write("part-3", scalar(2, "acc", 0.1));
    assert_done(&site.run_study());
    let trial = trial(&site);
    assert_eq!((&trial["value"], &trial["last_step"]), (&json!(0.25), &json!(2)), "{trial}");
    assert_eq!(best_metrics(&site), json!({ "loss": 0.25, "train/acc": 0.1 }));
}

#[test]
fn paths_and_keys_are_checked_before_anything_runs() {
    for (sources, code, said) in [
        ("tensorbord = \"runs\"", 2, "did you mean `tensorboard`?"),
        ("json = \"runs/{trail}.jsonl\"", 2, "did you mean `{trial}`?"),
        ("tensorboard = [\"a\"]", 2, "must be a string"),
        ("json = \"/tmp/metrics.jsonl\"", 0, "all trials write to the same `command.metrics.json`"),
        ("json = \"{trial_dir}/m.jsonl\"\npattern = 'x (?<x>.)'", 0, ""),
    ] {
        let checked = writing(sources, ONE_SLOT, "echo\n").run(&["check", "study.toml"]);
        assert_eq!(checked.code, code, "{sources}: {}", checked.err);
        assert!(checked.err.contains(said), "{sources}: {}", checked.err);
        assert!(!said.is_empty() || !checked.err.contains("warning"), "{}", checked.err);
    }
}

/// A record of an event file with one scalar.
fn scalar(step: u8, tag: &str, number: f32) -> Vec<u8> {
    let message = |key: u8, content: &[u8]| {
        [&[key, u8::try_from(content.len()).unwrap()][..], content].concat()
    };
    let value = [message(10, tag.as_bytes()), vec![21], number.to_le_bytes().to_vec()].concat();
    let summary = message(42, &message(10, &value));
    let data = [&[9][..], &f64::from(step).to_le_bytes(), &[16, step], &summary].concat();
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length), &data, &masked_crc(&data)].concat()
}

/// CRC-32C bit by bit, masked.
fn masked_crc(bytes: &[u8]) -> [u8; 4] {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    (!crc).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}
