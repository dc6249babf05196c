//! Checkpoints that a command writes over, and what an export says of the file that it holds.

use std::fs;

use serde_json::Value as Json;

use crate::harness::{
    ONE_SLOT, REPORT_X, Site, assert_code, assert_done, assert_names, files_below, study,
};

/// Writes the step `$at` into FILE, which may be the same for all steps, and reports $LOSSES at the
/// steps from 1 on.
const OVERWRITES: &str = "step=0; [ -z \"$HPSEARCH_RESUME\" ] || step=$(cat \"$HPSEARCH_RESUME\")\n\
    at=0; for loss in $LOSSES; do at=$((at + 1)); [ $at -gt $step ] || continue\n\
    echo $at > \"FILE\"; echo \"@hpsearch {\\\"checkpoint\\\":\\\"FILE\\\",\\\"step\\\":$at}\"\n\
    echo \"@hpsearch {\\\"step\\\":$at,\\\"loss\\\":$loss}\"; read -r answer; done\n";

fn overwrites(file: &str) -> String {
    OVERWRITES.replace("FILE", file)
}

const LAST: &str = "$HPSEARCH_CHECKPOINT_DIR/last.pt";

/// A study of `trials` trials that writes its checkpoints to `file`, whose value is its best one.
fn site(trials: u32, file: &str, losses: &str, tables: &str) -> Site {
    let study = study(&format!("trials = {trials}"), &format!("{ONE_SLOT}{tables}"))
        .replace("seed = 7\n", "seed = 7\nvalue = \"best\"\n");
    Site::new(&study, &format!("LOSSES=\"{losses}\"\n{}", overwrites(file)))
}

/// The files below a directory, relative to it.
fn files(site: &Site, directory: &str) -> Vec<String> {
    let root = site.path(directory);
    let files = files_below(&root).into_iter();
    files.map(|(path, _)| path.strip_prefix(&root).unwrap().display().to_string()).collect()
}

#[test]
fn the_best_steps_file_is_exported_though_it_was_written_over() {
    // In the trial's directory, by a relative path there, and in a directory that trials share.
    for file in [LAST, "$PWD/last.pt"] {
        let site = site(2, file, "3 1 2", "");
        assert_done(&site.run_study());
        assert_done(&site.run(&["export", "s", "-o", "model"]));
        assert_eq!(site.read("model/last.pt"), "2\n", "{file}");
        let metrics = site.read_json("model/metrics.json");
        assert_eq!((&metrics["step"], &metrics["value"]), (&2.into(), &1.0.into()));
        for trial in site.trials() {
            let number = trial["number"].to_string();
            assert_done(&site.run(&[
                "export",
                "s",
                "--trial",
                &number,
                "-o",
                &format!("model-of-{number}"),
            ]));
            assert_eq!(site.read(&format!("model-of-{number}/last.pt")), "2\n", "{file}");
        }
    }
}

#[test]
fn a_relative_path_of_the_trials_directory_is_copied_too() {
    let site = site(1, "last.pt", "1 2", "");
    site.write("trial.sh", format!("cd \"$HPSEARCH_CHECKPOINT_DIR\"; {}", site.read("trial.sh")));
    assert_done(&site.run_study());
    assert_done(&site.run(&["export", "s", "-o", "model"]));
    assert_eq!(site.read("model/last.pt"), "1\n");
}

#[test]
fn copies_go_when_they_are_no_longer_needed_and_their_original_with_the_last() {
    let site = site(3, LAST, "4 3 2 $1", "[checkpoints]\nkeep = \"best-1\"\n");
    assert_done(&site.run_study());
    let best = site.run(&["best", "s", "--json"]).json::<Json>()["trial"]["number"].to_string();
    for trial in 0..3 {
        let found: Vec<String> = files(&site, &format!("runs/files/s/trial-{trial}"))
            .into_iter()
            .filter(|name| name.ends_with("last.pt"))
            .collect();
        if trial.to_string() == best {
            assert_eq!(found, ["checkpoints/last.pt", "copies/step-4/checkpoints/last.pt"]);
        } else {
            assert_eq!(found, [""; 0], "trial {trial}");
        }
    }
    assert_done(&site.run(&["verify", "s"]));
    let listed = site.run(&["gc", "--yes"]);
    assert_done(&listed);
    assert!(
        site.path(&format!("runs/files/s/trial-{best}/copies/step-4/checkpoints/last.pt")).exists(),
        "{}",
        listed.out
    );
}

#[test]
fn a_step_in_the_name_needs_no_copy() {
    let site =
        site(1, "$HPSEARCH_CHECKPOINT_DIR/epoch-$at.pt", "1 2", "[checkpoints]\nkeep = \"all\"\n");
    assert_done(&site.run_study());
    assert!(!site.exists("runs/files/s/trial-0/copies"));
    assert_done(&site.run(&["export", "s", "-o", "model"]));
    assert_eq!(site.read("model/epoch-1.pt"), "1\n");
}

#[test]
fn a_trial_goes_on_from_the_copy_of_the_step_that_was_reported() {
    // The second step is half written when the command dies.
    let site = site(1, LAST, "3 2", "");
    let (both, first) = (site.read("trial.sh"), site.read("trial.sh").replace("\"3 2\"", "3"));
    let dies = format!(
        "if [ -z \"$HPSEARCH_RESUME\" ]; then\n{first}echo torn > \"{LAST}\"; kill -9 $$; fi\n"
    );
    site.write("trial.sh", format!("{dies}cat \"$HPSEARCH_RESUME\" > resumed\n{both}"));
    assert_done(&site.run_study());
    assert_eq!(
        (site.read("resumed"), site.trials()[0]["attempts"].clone()),
        ("1\n".to_owned(), 2.into())
    );
}

#[test]
fn a_command_that_does_not_wait_never_has_a_wrong_file() {
    let script = "at=0; for loss in 1 2 3 4 5 6 7 8; do at=$((at + 1)); echo $at > \
        \"$HPSEARCH_CHECKPOINT_DIR/last.pt\"\n\
        echo '@hpsearch {\"checkpoint\":\"last.pt\",\"step\":'$at'}'; echo '@hpsearch \
        {\"step\":'$at',\"loss\":'$loss'}'; done\n";
    let site = site(1, "unused", "", "[checkpoints]\nkeep = \"all\"\n");
    site.write("trial.sh", script);
    assert_done(&site.run_study());
    for copy in files(&site, "runs/files/s/trial-0/copies") {
        let step = copy.trim_start_matches("step-").split('/').next().unwrap().to_owned();
        assert_eq!(
            site.read(&format!("runs/files/s/trial-0/copies/{copy}")),
            format!("{step}\n"),
            "{copy}"
        );
    }
    let ended = site.run(&["export", "s", "-o", "model"]);
    assert_done(&ended);
    let (metrics, held) = (site.read_json("model/metrics.json"), site.read("model/last.pt"));
    assert_eq!(metrics["step"].to_string(), held.trim());
    assert_eq!(
        metrics["value"].as_f64().map(|value| value.to_string()).as_deref(),
        Some(held.trim())
    );
    if held != "1\n" {
        assert_names(&ended.err, &["the value of trial 0 is loss 1"]);
        assert_eq!(metrics["trial_value"]["step"], 1);
        assert!(site.log(0, 0).contains("was written again before it could be copied"));
    }
}

#[test]
fn what_cannot_be_copied_is_exported_as_the_step_that_it_holds() {
    // 100 kB do not fit: each step's checkpoint takes the place of the one before.
    let site = site(1, LAST, "1 3 2", "[checkpoints]\nmax_disk = \"50KiB\"\n");
    let script =
        site.read("trial.sh").replace("echo $at >", "{ echo $at; head -c 100000 /dev/urandom; } >");
    site.write("trial.sh", &script);
    assert_done(&site.run_study());
    if site.exists("runs/files/s/trial-0/copies") {
        eprintln!("this file system clones: nothing to see");
        return;
    }
    assert!(site.log(0, 0).contains("is not copied: it takes"), "{}", site.log(0, 0));
    let best = site.run(&["best", "s"]);
    assert_names(&best.out, &["of step 3"]);
    assert_eq!(site.run(&["best", "s", "--json"]).json::<Json>()["trial"]["checkpoint_step"], 3);
    let ended = site.run(&["export", "s", "-o", "model"]);
    assert_done(&ended);
    let words = [
        "the value of trial 0 is loss 1 at step 1, of which there is no checkpoint",
        "holds step 3 (loss 2)",
    ];
    words.iter().for_each(|word| assert!(ended.err.contains(word), "`{word}` in {}", ended.err));
    let metrics = site.read_json("model/metrics.json");
    assert_eq!(
        (&metrics["step"], &metrics["value"], &metrics["metrics"]["loss"]),
        (&3.into(), &2.0.into(), &2.0.into())
    );
    assert_eq!(
        (&metrics["trial_value"]["step"], &metrics["trial_value"]["value"]),
        (&1.into(), &1.0.into())
    );
    let card = site.read("model/README.md");
    assert!(
        card.contains("**holds step 3, where it had 2**") && !card.contains("where it reached 1"),
        "{card}"
    );
    assert!(site.read("model/best.toml").contains("loss 2"), "{}", site.read("model/best.toml"));
}

#[test]
fn a_file_that_was_written_to_after_it_was_taken_claims_no_step() {
    // It is not copied, and the command writes it once more without a word. A second is allowed for
    // what is registered late, and a busy machine is later than that.
    let site = site(1, "$HPSEARCH_CHECKPOINT_DIR/step-1.pt", "1", "");
    let script = format!(
        "{}sleep 3; echo other > \"$HPSEARCH_CHECKPOINT_DIR/step-1.pt\"\n",
        site.read("trial.sh")
    );
    site.write("trial.sh", &script);
    assert_done(&site.run_study());
    let ended = site.run(&["export", "s", "-o", "model"]);
    assert_done(&ended);
    assert_names(&ended.err, &["was changed after it was registered at step 1"]);
    let metrics = site.read_json("model/metrics.json");
    assert_eq!(
        (&metrics["step"], &metrics["value"], &metrics["metrics"]),
        (&Json::Null, &Json::Null, &Json::Object(Default::default()))
    );
    // The same content, and another one, that its user writes later.
    let kept = self::site(1, "$HPSEARCH_CHECKPOINT_DIR/step-1.pt", "1", "");
    assert_done(&kept.run_study());
    kept.write("runs/files/s/trial-0/checkpoints/step-1.pt", "1\n");
    assert_done(&kept.run(&["export", "s", "-o", "model"]));
    let metrics = kept.read_json("model/metrics.json");
    assert_eq!(metrics["step"], 1);
    kept.write("runs/files/s/trial-0/checkpoints/step-1.pt", "2\n");
    let ended = kept.run(&["export", "s", "-o", "model"]);
    assert_names(&ended.err, &["was changed after it was registered at step 1"]);
    assert_eq!(kept.read_json("model/metrics.json")["step"], Json::Null);
}

#[test]
fn a_copy_that_was_being_made_when_its_runner_was_killed_is_cleared_away() {
    let site = site(1, LAST, "2", "");
    site.write(
        "trial.sh",
        format!(
            "if [ -z \"$HPSEARCH_RESUME\" ]; then {}touch saved; sleep 60; fi\n{REPORT_X}",
            site.read("trial.sh")
        ),
    );
    let mut running = site.start_study();
    site.wait_for("saved");
    running.kill();
    let copies = site.path("runs/files/s/trial-0/copies");
    for name in [".step-2.99999999-0.tmp/checkpoints", "step-2/checkpoints"] {
        fs::create_dir_all(copies.join(name)).unwrap();
        fs::write(copies.join(name).join("last.pt"), "half").unwrap();
    }
    assert_done(&site.run_study());
    assert_eq!(files(&site, "runs/files/s/trial-0/copies"), ["step-1/checkpoints/last.pt"]);
    // Of a trial that is over, `gc` removes what nobody lists.
    fs::create_dir_all(copies.join("step-9/checkpoints")).unwrap();
    let removed = site.run(&["gc", "--yes"]);
    assert_done(&removed);
    assert!(
        !copies.join("step-9").exists() && copies.join("step-1/checkpoints/last.pt").exists(),
        "{}",
        removed.out
    );
}

#[test]
fn a_checkpoint_that_is_gone_is_named_with_the_way_out() {
    let site = site(1, "$HPSEARCH_CHECKPOINT_DIR/step-$at.pt", "1", "");
    let in_epochs = site.read("study.toml").replace("step = \"step\"", "step = \"epoch\"");
    fs::write(site.path("study.toml"), in_epochs).unwrap();
    assert_done(&site.run_study());
    fs::remove_file(site.path("runs/files/s/trial-0/checkpoints/step-1.pt")).unwrap();
    let ended = site.run(&["export", "s", "-o", "model"]);
    assert_code(&ended, 2);
    let words = [
        "checkpoint of epoch 1 of trial 0",
        "checkpoints/step-1.pt",
        "moved or deleted",
        "`--trial N`",
    ];
    // The program itself may delete it.
    assert!(ended.err.contains("by that program or by another process"), "{}", ended.err);
    words.iter().for_each(|word| assert!(ended.err.contains(word), "`{word}` in {}", ended.err));
    assert!(!ended.err.contains("permissions") && !site.exists("model"), "{}", ended.err);
}

/// An export that holds a model is not lost to one that holds none.
#[test]
fn an_export_with_a_checkpoint_is_not_replaced_by_one_without() {
    let script = "[ $HPSEARCH_TRIAL = 1 ] || { echo 1 > \"$HPSEARCH_CHECKPOINT_DIR/1\"; echo \
        '@hpsearch {\"checkpoint\":\"1\",\"step\":1}'; }\n\
        echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$((3 - HPSEARCH_TRIAL))}\"\n";
    let site = site(1, "unused", "", "[export]\ndir = \"model\"\non_finish = true\n");
    site.write("trial.sh", script);
    assert_done(&site.run_study());
    assert_eq!(site.read("model/1"), "1\n");
    site.write("study.toml", site.read("study.toml").replace("trials = 1", "trials = 2"));
    for _ in 0..2 {
        let ended = site.run_study();
        assert_done(&ended);
        assert_names(&ended.err, &["it is an export with a checkpoint (`1`)", "model-2"]);
        assert_eq!(
            (site.read("model/1"), site.exists("model-2/best.toml"), site.exists("model-3")),
            ("1\n".into(), true, false)
        );
    }
    let ended = site.run(&["export", "s", "-o", "model"]);
    assert_code(&ended, 2);
    assert_names(&ended.err, &["a model would be lost", "choose another directory"]);
    assert_done(&site.run(&["export", "s", "-o", "model", "--trial", "0"]));
}

#[test]
fn a_study_whose_export_was_edited_can_be_run_again() {
    let site = site(1, LAST, "1", "[export]\ndir = \"model\"\non_finish = true\n");
    assert_done(&site.run_study());
    site.write("model/README.md", "my own model card");
    assert_done(&site.run(&["check", "study.toml"]));
    let ended = site.run_study();
    assert_done(&ended);
    assert_names(&ended.err, &["`README.md` changed since the export", "it is kept", "model-2"]);
    assert_eq!(
        (site.read("model/README.md"), site.read("model-2/last.pt")),
        ("my own model card".into(), "1\n".into())
    );
    // What was never an export's still stands in the way, before anything is run.
    fs::remove_file(site.path("model/.hpsearch-export.json")).unwrap();
    assert_eq!(site.run_study().code, 2);
}

#[test]
fn a_path_that_was_taken_for_its_name_and_is_written_again_loses_that_step_only() {
    // Of step 1 by its name, and then of step 2 as well.
    let site = site(1, "$HPSEARCH_CHECKPOINT_DIR/model-1.pt", "1 2", "");
    assert_done(&site.run_study());
    let ended = site.run(&["export", "s", "-o", "model"]);
    assert_done(&ended);
    assert_names(&ended.err, &["this export holds step 2 (loss 2)"]);
    assert_eq!(
        (site.read("model/model-1.pt"), site.read_json("model/metrics.json")["step"].clone()),
        ("2\n".to_owned(), 2.into())
    );
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_file_that_is_added_to_a_checkpoint_later_does_not_make_it_another_steps() {
    let site = site(1, "$HPSEARCH_CHECKPOINT_DIR/step-1/weights", "1", "");
    let script = site.read("trial.sh").replace(
        "\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/step-1/weights",
        "\\\"checkpoint\\\":\\\"step-1",
    );
    let added = "sleep 1.3; echo 1 > \"$HPSEARCH_CHECKPOINT_DIR/step-1/eval_results.json\"\n";
    site.write(
        "trial.sh",
        format!("mkdir -p \"$HPSEARCH_CHECKPOINT_DIR/step-1\"\n{script}{added}"),
    );
    assert_done(&site.run_study());
    assert_done(&site.run(&["export", "s", "-o", "model"]));
    assert!(site.exists("model/eval_results.json"));
    assert_eq!(site.read_json("model/metrics.json")["step"], 1);
}
