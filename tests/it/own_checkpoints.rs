//! Programs that read and remove their own checkpoints while they run, as the Trainer of
//! transformers does (`save_total_limit`, `load_best_model_at_end`).

use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use crate::harness::{ONE_SLOT, Site, assert_code, assert_done, assert_names, study, wait_until};

/// Saves `checkpoint-1` to `checkpoint-5` in `$out`, reports $1 .. $5 with them, and runs the
/// function `after` after each step `$at`.
const SAVES: &str = "out=$HPSEARCH_CHECKPOINT_DIR; at=0\n\
    for loss in $LOSSES; do at=$((at + 1)); echo $at > \"$out/checkpoint-$at\"\n\
    echo \"@hpsearch {\\\"step\\\":$at,\\\"loss\\\":$loss}\"; read -r answer\n\
    echo \"@hpsearch {\\\"checkpoint\\\":\\\"checkpoint-$at\\\",\\\"step\\\":$at}\"; after\n\
    done\n";

/// A program that keeps its newest two, and fails if another removed one.
const ROTATES: &str =
    "after() { [ $at -lt 3 ] || rm \"$out/checkpoint-$((at - 2))\" || exit 7; }\n";

fn site(trials: u32, losses: &str, after: &str, tables: &str) -> Site {
    let study = study(&format!("trials = {trials}"), &format!("{ONE_SLOT}{tables}"))
        .replace("seed = 7\n", "seed = 7\nvalue = \"best\"\n");
    Site::new(&study, &format!("LOSSES=\"{losses}\"\n{after}{SAVES}"))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

fn saved(site: &Site, trial: u64) -> Vec<String> {
    names(&site.path(&format!("runs/files/s/trial-{trial}/checkpoints")))
}

/// The checkpoints that the store lists are there.
fn assert_listed_are_there(site: &Site) {
    for trial in site.trials() {
        let number = trial["number"].to_string();
        let shown = site.json(&["show", "s", &number, "--json"]);
        for listed in shown["checkpoints"].as_array().into_iter().flatten() {
            assert!(Path::new(listed["path"].as_str().unwrap()).exists(), "{shown}");
        }
    }
}

#[test]
fn a_program_that_removed_its_best_checkpoint_keeps_its_newest() {
    let site = site(2, "5 1 2 3 4", ROTATES, "");
    assert_done(&site.run_study());
    for trial in 0..2 {
        assert_eq!(saved(&site, trial), ["checkpoint-5"], "trial {trial}");
    }
    assert_listed_are_there(&site);
    let best = site.run(&["best", "s"]);
    assert_names(&best.out, &["checkpoints/checkpoint-5"]);
    let exported = site.run(&["export", "s", "-o", "model"]);
    assert_done(&exported);
    assert_names(
        &exported.err,
        &[
            "value of trial 0 is loss 1 at step 2, whose checkpoint was saved and removed",
            "this export holds step 5 (loss 4), the newest that is kept",
            "`--trial N` exports another trial",
        ],
    );
    assert_eq!(site.read("model/checkpoint-5"), "5\n");
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_program_finds_all_that_it_saved_until_its_trial_has_ended() {
    // Its own best one is the first, which the study's metric has as its worst.
    let rereads = format!("after() {{ :; }}\n{SAVES}cat \"$out/checkpoint-1\" || exit 7\n");
    let site = site(2, "5 4 3 2 1", "", "");
    site.write("trial.sh", format!("LOSSES=\"5 4 3 2 1\"\n{rereads}"));
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete"; 2]);
    assert_eq!(saved(&site, 0), ["checkpoint-5"], "the others go with the end of the trial");
    // As needed.
    let tables = "[checkpoints]\nwhile_running = \"needed\"\n";
    let site = Site::new(&study("trials = 1", &format!("{ONE_SLOT}{tables}")), "");
    site.write("trial.sh", format!("LOSSES=\"5 4 3 2 1\"\n{rereads}"));
    site.run_study();
    assert!(site.states().iter().all(|state| state == "failed"), "{:?}", site.states());
}

#[test]
fn a_retry_of_a_failed_trial_continues_from_what_it_saved() {
    // Trial 1 fails after its third checkpoint, until the file is there.
    let script = "out=$HPSEARCH_CHECKPOINT_DIR; at=0\n\
        [ -z \"$HPSEARCH_RESUME\" ] || at=$(cat \"$HPSEARCH_RESUME\")\n\
        while [ $at -lt 5 ]; do at=$((at + 1)); echo $at >> steps; echo $at > \"$out/c-$at\"\n\
        echo \"@hpsearch {\\\"step\\\":$at,\\\"loss\\\":$at}\"; read -r answer\n\
        echo \"@hpsearch {\\\"checkpoint\\\":\\\"c-$at\\\",\\\"step\\\":$at}\"\n\
        [ $at -lt 3 ] || [ -e mended ] || exit 3\n\
        done\n";
    for (keep, left, steps) in [
        ("", &["c-3"][..], "1 2 3 4 5"),
        ("[checkpoints]\nkeep = \"none\"\n", &[], "1 2 3 1 2 3 4 5"),
    ] {
        let text = study("trials = 1\nfailures = 1", &format!("{ONE_SLOT}{keep}"));
        let site = Site::new(&text, script);
        assert_eq!(site.run_study().code, 4);
        assert_eq!(saved(&site, 0), left);
        site.write("mended", "");
        assert_done(&site.run(&["retry", "s", "--failed"]));
        assert_done(&site.run_study());
        assert_eq!(site.states(), ["complete"]);
        let run: Vec<String> = site.read("steps").split_whitespace().map(str::to_owned).collect();
        assert_eq!(run.join(" "), steps);
        assert_done(&site.run(&["verify", "s"]));
    }
}

#[test]
fn what_a_paused_program_saved_is_there_when_it_continues() {
    let tables = "[devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"asha\"\nmode = \"promote\"\n\
        min_resource = 2\nmax_resource = 5\nreduction_factor = 2\n";
    let site = Site::new(&study("trials = 2", tables), "");
    let script = "out=$HPSEARCH_CHECKPOINT_DIR; at=0\n\
        [ -z \"$HPSEARCH_RESUME\" ] || at=$(cat \"$HPSEARCH_RESUME\")\n\
        while [ $at -lt 5 ]; do at=$((at + 1)); echo $at > \"$out/checkpoint-$at\"\n\
        echo \"@hpsearch {\\\"checkpoint\\\":\\\"checkpoint-$at\\\",\\\"step\\\":$at}\"\n\
        echo \"@hpsearch {\\\"step\\\":$at,\\\"loss\\\":$((9 - at))}\"; read -r answer\n\
        case $answer in *pause*) exit;; esac; done; cat \"$out/checkpoint-1\" >> reread\n";
    site.write("trial.sh", script);
    assert_done(&site.run_study());
    assert!(site.lines("reread").len() == 1, "{}", site.read("reread"));
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_limit_of_the_disk_takes_from_a_running_program_and_says_so() {
    let large = SAVES.replace("echo $at > ", "head -c 1000000 /dev/zero > ");
    let tables = "[checkpoints]\nmax_disk = \"3MB\"\n";
    let site = site(1, "", "", tables);
    site.write("trial.sh", format!("LOSSES=\"5 4 3 2 1\"\nafter() {{ :; }}\n{large}ls $out >&2\n"));
    let ended = site.run_study();
    assert_done(&ended);
    let why = "checkpoints of its own were removed while it runs";
    assert_eq!(ended.err.matches(why).count() + ended.out.matches(why).count(), 1, "{}", ended.err);
    assert_names(&site.run(&["show", "s", "0"]).out, &[why, "`[checkpoints] max_disk`"]);
    assert_eq!(saved(&site, 0), ["checkpoint-5"]);
}

#[test]
fn a_checkpoint_that_is_gone_wins_against_none_that_is_there() {
    // The second trial is worse, and removes the checkpoint of the first.
    let removes = "after() { [ $HPSEARCH_TRIAL = 0 ] || rm -rf \
        \"$HPSEARCH_CHECKPOINT_DIR/../../trial-0/checkpoints/checkpoint-1\"; }\n";
    let site = site(2, "$((HPSEARCH_TRIAL + 1))", removes, "[checkpoints]\nkeep = \"best-1\"\n");
    assert_done(&site.run_study());
    assert_eq!((saved(&site, 0), saved(&site, 1)), (vec![], vec!["checkpoint-1".to_owned()]));
    assert_listed_are_there(&site);
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_program_that_rotates_continues_after_its_runner_was_killed_at_any_step() {
    for step in 1..=5 {
        let waits = format!(
            "after() {{ [ $at -lt 3 ] || rm -f \"$out/checkpoint-$((at - 2))\"\n\
             if [ $at = {step} ] && [ ! -e killed ]; then touch reached; sleep 60; fi; }}\n"
        );
        let site = site(1, "5 1 2 3 4", &waits, "");
        let mut running = site.start_study();
        site.wait_for("reached");
        let here = format!("checkpoint-{step}");
        wait_until("the checkpoint is listed", || {
            let shown: Json = site.run(&["show", "s", "0", "--json"]).json();
            shown["checkpoints"].to_string().contains(&here)
        });
        running.kill();
        site.write("killed", "");
        assert_done(&site.run_study());
        assert_eq!(saved(&site, 0), ["checkpoint-5"], "killed at {step}");
        assert_listed_are_there(&site);
        assert_done(&site.run(&["verify", "s"]));
        assert_code(&site.run(&["export", "s", "-o", "model"]), 0);
    }
}

#[test]
fn a_checkpoint_that_was_removed_by_hand_is_told_wherever_it_is_named() {
    let site = site(2, "9 8 $((HPSEARCH_TRIAL + 1))", "after() { :; }\n", "");
    assert_done(&site.run_study());
    let remove = |trial: u64| {
        let path = format!("runs/files/s/trial-{trial}/checkpoints/checkpoint-3");
        fs::remove_file(site.path(&path)).unwrap();
    };
    remove(0);
    assert_names(&site.run(&["best", "s"]).out, &["# no checkpoint: ", "checkpoint-3 is gone"]);
    let best: Json = site.json(&["best", "s", "--json"]);
    let best = &best["trial"];
    assert_eq!((&best["number"], &best["checkpoint_gone"]), (&0.into(), &true.into()));
    assert_names(&site.run(&["show", "s", "0"]).out, &["checkpoints/checkpoint-3 (gone)"]);
    assert!(site.json(&["show", "s", "0", "--json"]).get("checkpoints").is_none());
    assert!(!site.run(&["show", "s", "1"]).out.contains("(gone)"));
    let doctor = site.run(&["doctor"]);
    assert_names(&doctor.out, &["1 checkpoint of trial 0 of `s` is gone: `", "1 warning"]);
    // It is looked for before a trial is said to continue from it, and before it does.
    let refused = site.run(&["continue", "s", "0", "--until", "9"]);
    assert_code(&refused, 2);
    let why = "trial 0 has no checkpoint to continue from (it was removed from the disk)";
    assert_names(&refused.err, &[why, "hpsearch enqueue --from 0 --again"]);
    let granted = site.run(&["continue", "s", "1", "--until", "9"]);
    assert_done(&granted);
    assert_names(&granted.err, &["trial 1 continues from step 3 to step 9"]);
    remove(1);
    let ended = site.run_study();
    assert_names(&ended.err, &["1 checkpoint of trial 1 missing, and forgotten"]);
    assert_done(&site.run(&["verify", "s"]));
}
