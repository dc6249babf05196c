//! Programs that know nothing of hpsearch: their metrics are found in what they print.

use serde_json::{Value as Json, json};

use crate::harness::{ONE_SLOT, Site, assert_done, study};

/// A study of `trials` trials that counts epochs, whose script prints these lines and never
/// reports.
fn printing(trials: u32, pattern: &str, lines: &str) -> Site {
    let text = study(&format!("trials = {trials}\ncount = \"all\""), ONE_SLOT)
        .replace("step = \"step\"", "step = \"epoch\"");
    let text = format!("{text}\n[command.metrics]\npattern = {pattern}\n");
    Site::new(&text, lines)
}

fn curves(site: &Site) -> Json {
    let shown = site.run(&["trials", "s", "--json"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    serde_json::from_str::<Json>(&shown.out).unwrap()["trials"].clone()
}

#[test]
fn lines_in_a_programs_own_words_are_reports() {
    let script = "for epoch in 1 2 3; do { echo \"Epoch $epoch/3\"; printf 'loss: 9\\rloss: 8\\r'\n\
        echo \"loss: 0.$((9 - epoch)), val_loss: 0.$((8 - epoch))\"; } >&2; done; echo done\n";
    let patterns =
        r"['^Epoch (?<epoch>\d+)', '\bloss: (?<train_loss>[^,\s]+), val_loss: (?<loss>\S+)']";
    let site = printing(2, patterns, script);
    assert_done(&site.run_study());
    let trial = curves(&site)[0].clone();
    assert_eq!((&trial["value"], &trial["last_step"]), (&json!(0.5), &json!(3)), "{trial}");
    let best = site.run(&["best", "s", "--json"]);
    let best: Json = serde_json::from_str(&best.out).unwrap();
    assert_eq!(best["trial"]["metrics"], json!({ "loss": 0.5, "train_loss": 0.6 }));
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn more_metrics_than_the_runner_has_room_for_wait_on_both_streams() {
    for stream in ["1", "2"] {
        let script = format!("seq 1 4000 | sed 's/$/ loss 0.5/' >&{stream}\n");
        let site = printing(1, r"'^(?<epoch>\d+) loss (?<loss>\S+)'", &script);
        assert_done(&site.run_study());
        let trial = curves(&site)[0].clone();
        assert_eq!((&trial["value"], &trial["last_step"]), (&json!(0.5), &json!(4000)), "{trial}");
    }
}

#[test]
fn a_pattern_that_matches_nothing_is_named_when_the_first_trial_ends() {
    let patterns = r"['accuracy (?<accuracy>\S+)', 'loss (?<loss>\S+)']";
    let site = printing(2, patterns, "echo loss 0.5; echo accuracy=0.7\n");
    let ended = site.run_study();
    assert_done(&ended);
    assert!(ended.out.contains("pattern 1 matches no line of this trial"), "{}", ended.out);
    assert!(ended.out.contains("check STUDY.toml --try"), "{}", ended.out);
    let site = printing(2, r"'loss (?<loss>\S+)'", "echo loss is high\n");
    let ended = site.run_study();
    let said = "no pattern of [command.metrics] finds `loss` in what it printed";
    assert!(ended.out.contains(said), "{}", ended.out);
    assert!(
        ended.out.contains("a pattern finds `is` for `loss`, which is not a number"),
        "{}",
        ended.out
    );
}

#[test]
fn patterns_are_checked_before_anything_runs() {
    for (pattern, code, said) in [
        ("'loss (.*)'", 2, "names no metric"),
        ("'(?<loss>'", 2, "is not a regular expression"),
        ("['(?<loss>.)', 3]", 2, "must be a string or a list of strings"),
        ("'(?<accuracy>.)'", 0, "no pattern has a group for the study's metric `loss`"),
        (
            r"'(?<=loss )(?<loss>\S+)'",
            2,
            "there is no look-around and no back-reference: write what stands",
        ),
        (
            "'(?<loss>.)'\n[[constraint]]\nlimit = \"size < 3\"",
            0,
            "no pattern has a group for a limit's metric `size`",
        ),
    ] {
        let site = printing(1, pattern, "echo\n");
        let checked = site.run(&["check", "study.toml"]);
        assert_eq!(checked.code, code, "{pattern}: {}", checked.err);
        assert!(checked.err.contains(said), "{pattern}: {}", checked.err);
    }
}

#[test]
fn a_line_can_be_tried_before_anything_runs() {
    let site = printing(1, r"'^(?<epoch>\d+): (?<loss>\S+)'", "echo\n");
    let tried = site.run(&["check", "study.toml", "--try", "3: 0.25", "--try", "loss 3"]);
    assert_eq!(tried.code, 0, "{}", tried.err);
    assert!(tried.out.contains("epoch 3: loss=0.25"), "{}", tried.out);
    assert!(tried.out.contains("nothing is found in `loss 3`"), "{}", tried.out);
}
