//! What `-o` and `[export] dir` may replace: exports as they were written, and nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{
    ONE_SLOT, REPORT_X, Running, Site, assert_done, assert_names, assert_refused, study, wait_until,
};

/// A script that saves a checkpoint before it reports.
const SAVES: &str = "mkdir -p $HPSEARCH_CHECKPOINT_DIR/step-1; echo weights > \
    $HPSEARCH_CHECKPOINT_DIR/step-1/model\n\
    echo \"@hpsearch {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/step-1\\\",\
    \\\"step\\\":1}\"\n";

const CHECKPOINT: &str = "runs/files/s/trial-0/checkpoints/step-1";

/// A study of one trial, with these lines before its script reports.
fn site(tables: &str, script: &str) -> Site {
    Site::new(
        &study("trials = 1", &format!("{ONE_SLOT}{tables}")),
        &format!("{SAVES}{script}\n{REPORT_X}"),
    )
}

fn finished() -> Site {
    let site = site("", "");
    assert_done(&site.run_study());
    site
}

/// All files below a directory with what they hold; links by where they lead.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            let path = entry.path();
            match fs::read_link(&path) {
                Ok(link) => {
                    all.push((path.display().to_string(), link.display().to_string().into_bytes()))
                }
                Err(_) if path.is_dir() => waiting.push(path),
                // What SQLite does with its own files on opening is not ours.
                Err(_) if path.to_string_lossy().contains("hpsearch.db-") => {}
                Err(_) => all.push((path.display().to_string(), fs::read(&path).unwrap())),
            }
        }
    }
    all.sort();
    all
}

#[test]
fn an_export_into_the_project_destroys_nothing() {
    let site = finished();
    site.write("best.toml", &site.run(&["best", "s"]).out);
    site.write("README.md", "mine");
    site.write("metrics.json", "{}");
    fs::create_dir(site.path("results")).unwrap();
    fs::copy(site.path("best.toml"), site.path("results/best.toml")).unwrap();
    site.write("results/notes.md", "mine");
    symlink(".", site.path("link")).unwrap();
    let before = contents(&site.path(""));
    let (project, trial) = (site.path("").display().to_string(), format!("{CHECKPOINT}/model"));
    for target in [
        ".",
        "..",
        &project,
        "runs/..",
        "link",
        "link/runs",
        "runs",
        "runs/files",
        "runs/files/s",
        "runs/files/s/trial-0/best",
        &trial,
        "/",
        "results",
        "study.toml",
    ] {
        let ended = site.run(&["export", "s", "-o", target]);
        assert_refused(&ended, &["cannot export to"]);
        assert_eq!(contents(&site.path("")), before, "{target}");
    }
    assert_refused(
        &site.run(&["export", "s", "-o", "results"]),
        &["`best.toml`, `notes.md`", "choose another directory"],
    );
    assert_refused(
        &site.run(&["export", "study.toml", "-o", "runs"]),
        &["the store", "hpsearch.db"],
    );
}

#[test]
fn a_second_export_replaces_the_first_until_somebody_changes_it() {
    let site = finished();
    for _ in 0..2 {
        assert_done(&site.run(&["export", "s", "-o", "out/model"]));
        assert_eq!(site.read("out/model/model"), "weights\n");
    }
    assert_eq!(fs::read_dir(site.path("out")).unwrap().count(), 1);
    site.write("out/model/README.md", "my own model card");
    assert_refused(
        &site.run(&["export", "s", "-o", "out/model"]),
        &["`README.md` changed since the export"],
    );
    assert_eq!(site.read("out/model/README.md"), "my own model card");
    assert_done(&site.run(&["export", "s", "-o", "out/other"]));
    site.write("out/other/notes.md", "mine");
    assert_refused(
        &site.run(&["export", "s", "-o", "out/other"]),
        &["`notes.md`, which no export wrote"],
    );
    assert_eq!(site.read("out/other/notes.md"), "mine");
}

#[test]
fn check_names_every_problem_of_device_export_and_earlier_study_at_once() {
    let tables = "[devices]\nuse = [\"cuda:7\"]\n[export]\ndir = \"runs\"\non_finish = true\n";
    let text = study("trials = 1", tables)
        .replace("type = \"random\"", "type = \"tpe\"\nwarm_start = [\"yesterday\"]");
    let site = Site::new(&text, REPORT_X);
    site.write("s2.toml", study("trials = 1", ONE_SLOT).replace("name = \"s\"", "name = \"s2\""));
    assert_done(&site.run(&["run", "s2.toml", "--plain"]));
    let problems = ["cuda", "the store", "`warm_start` \"yesterday\" names no study"];
    let checked = site.run(&["check", "study.toml"]);
    assert_refused(&checked, &problems);
    assert_eq!(checked.err.matches("error: ").count(), 3, "{}", checked.err);
    // With a change that is refused, too.
    let changed = text.replace("name = \"s\"", "name = \"s2\"").replace("loss", "other");
    site.write("study.toml", changed);
    let checked = site.run(&["check", "study.toml"]);
    assert_refused(&checked, &[problems[0], problems[2], "study `s2` changed", "--fork NAME"]);
    let json: serde_json::Value = site.run(&["check", "study.toml", "--json"]).json();
    let messages: Vec<&str> = json["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["message"].as_str().unwrap())
        .collect();
    assert_eq!(json["valid"], false);
    assert!(messages[0].starts_with("study `s2` changed"), "{messages:?}");
    for problem in [problems[0], problems[2]] {
        assert!(messages.iter().any(|message| message.contains(problem)), "{messages:?}");
    }
}

#[test]
fn a_directory_of_the_study_file_that_cannot_be_exported_to_is_told_before_the_first_trial() {
    for (dir, words) in [
        (".", "the study file"),
        ("runs", "the store"),
        ("mine", "`notes.md`"),
        ("runs/files/s/x", "trials' files"),
        ("trial.sh/x", "not a directory"),
    ] {
        let site = site(&format!("[export]\ndir = \"{dir}\"\non_finish = true\n"), "touch ran");
        fs::create_dir(site.path("mine")).unwrap();
        site.write("mine/best.toml", "mine");
        site.write("mine/notes.md", "mine");
        assert_refused(&site.run(&["check", "study.toml"]), &[words, "`[export] dir`"]);
        assert_refused(&site.run_study(), &[words, "`[export] dir`"]);
        assert!(!site.exists("ran") && site.trials().is_empty(), "{dir}");
        assert_eq!(
            (site.read("mine/notes.md"), site.read("mine/best.toml")),
            ("mine".into(), "mine".into())
        );
    }
}

#[test]
fn an_export_at_the_end_goes_beside_what_was_put_there_meanwhile() {
    let site = site(
        "[export]\ndir = \"model\"\non_finish = true\n",
        "mkdir -p model; echo mine > model/notes.md",
    );
    assert_done(&site.run(&["check", "study.toml"]));
    let ended = site.run_study();
    assert_done(&ended);
    assert_eq!(
        (site.read("model/notes.md"), site.read("model-2/model")),
        ("mine\n".into(), "weights\n".into())
    );
    assert_names(&ended.err, &["exported trial 0", "model-2", "cannot export to", "`notes.md`"]);
}

#[test]
fn a_study_that_ends_again_replaces_its_export() {
    let site = site("[export]\ndir = \"model\"\non_finish = true\n", "");
    assert_done(&site.run_study());
    assert_done(&site.run_study());
    assert!(site.path("model/.hpsearch-export.json").is_file() && !site.exists("model-2"));
}

#[test]
fn a_draft_of_a_killed_export_is_gone_after_the_next() {
    let site = finished();
    let large = fs::File::create(site.path(&format!("{CHECKPOINT}/large"))).unwrap();
    large.set_len(1 << 40).unwrap();
    let draft = |site: &Site| {
        let names = fs::read_dir(site.path(""))
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.into_iter().find(|name| name.starts_with(".model.draft-"))
    };
    let mut running = site.start(&["export", "s", "-o", "model"]);
    wait_until("a copy is begun", || {
        draft(&site).is_some_and(|draft| site.path(&draft).join("large").exists())
    });
    // While its writer lives, another export leaves it alone.
    fs::remove_file(site.path(&format!("{CHECKPOINT}/large"))).unwrap();
    assert_done(&site.run(&["export", "s", "-o", "model"]));
    assert!(draft(&site).is_some() && !running.has_ended());
    running.signal(Signal::KILL);
    running.end();
    assert!(draft(&site).is_some());
    assert_done(&site.run(&["export", "s", "-o", "model"]));
    assert_eq!((draft(&site), site.read("model/model")), (None, "weights\n".into()));
}

#[test]
fn exports_killed_at_any_moment_leave_a_whole_export_and_the_next_clears_up() {
    let site = finished();
    (0..20).for_each(|number| site.write(&format!("{CHECKPOINT}/part-{number}"), "more weights"));
    assert_done(&site.run(&["export", "s", "-o", "out/model"]));
    for round in 0..15_u64 {
        // Two at once in every third round.
        let mut running: Vec<_> = (0..=u64::from(round % 3 == 0))
            .map(|_| site.start(&["export", "s", "-o", "out/model"]))
            .collect();
        // The first is killed once its draft has so many of the 21 files, or has been put in place.
        let has_written = |one: &Running| {
            let draft = site.path(&format!("out/.model.draft-{}", one.id()));
            fs::read_dir(draft).is_ok_and(|files| files.count() as u64 >= 2 * round)
        };
        while round > 0 && !has_written(&running[0]) && !running[0].has_ended() {
            std::thread::sleep(Duration::from_micros(200));
        }
        for one in running {
            one.signal(Signal::KILL);
            let ended = one.end();
            assert!([0, -1].contains(&ended.code), "{}", ended.err);
        }
        assert_eq!(site.read("out/model/part-19"), "more weights", "round {round}");
    }
    assert_done(&site.run(&["export", "s", "-o", "out/model"]));
    let names: Vec<_> =
        fs::read_dir(site.path("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["model"]);
}

#[test]
fn a_fifo_in_a_checkpoint_is_told_of_and_does_not_hang() {
    let site = finished();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        site.path(&format!("{CHECKPOINT}/pipe")),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    symlink("/dev/zero", site.path(&format!("{CHECKPOINT}/zero"))).unwrap();
    symlink(".", site.path(&format!("{CHECKPOINT}/self"))).unwrap();
    site.write(&format!("{CHECKPOINT}/README.md"), "the checkpoint's own");
    let ended = site.run(&["export", "s", "-o", "model"]);
    assert_done(&ended);
    assert_names(
        &ended.err,
        &[
            "`pipe` is a FIFO",
            "`zero` is a device",
            "`self` is a link to a directory that holds it",
            "`README.md` is `checkpoint-README.md`",
        ],
    );
    assert_eq!(site.read("model/checkpoint-README.md"), "the checkpoint's own");
    assert!(site.read("model/README.md").starts_with("# s: trial 0"));
}

#[test]
fn a_table_is_never_written_over_the_store_or_the_study_file() {
    let site = finished();
    symlink("runs/hpsearch.db", site.path("link.csv")).unwrap();
    let store = fs::read(site.path("runs/hpsearch.db")).unwrap();
    for output in ["runs/hpsearch.db", "link.csv", "study.toml"] {
        assert_refused(
            &site.run(&["export-data", "study.toml", "-o", output]),
            &["would be overwritten", "give another file"],
        );
    }
    assert_eq!(fs::read(site.path("runs/hpsearch.db")).unwrap(), store);
    assert_eq!(site.trials().len(), 1);
}

#[test]
fn what_is_there_is_written_over_where_that_is_said_only() {
    let site = finished();
    site.write("notes.csv", "mine");
    let refused = site.run(&["export-data", "s", "-o", "notes.csv"]);
    assert_refused(&refused, &["already exists, and is not overwritten", "`--overwrite`"]);
    assert_eq!(site.read("notes.csv"), "mine");
    assert_done(&site.run(&["export-data", "s", "-o", "notes.csv", "--overwrite"]));
    assert!(site.read("notes.csv").starts_with("number,"), "{}", site.read("notes.csv"));
    fs::create_dir(site.path("model")).unwrap();
    site.write("model/model.safetensors", "weights");
    site.write("a.csv", "text\none\n");
    site.write("labels.csv", "mine");
    let refused = site.run(&["predict", "model", "--file", "a.csv", "-o", "labels.csv"]);
    assert_refused(
        &refused,
        &["`labels.csv` already exists, and is not overwritten", "`--overwrite`"],
    );
    assert_eq!(site.read("labels.csv"), "mine");
}

#[test]
fn a_memory_file_is_not_written_over_and_standard_output_is() {
    let site = finished();
    let memory = tempfile::Builder::new().suffix(".csv").tempfile_in("/dev/shm").unwrap();
    fs::write(memory.path(), "mine").unwrap();
    let refused = site.run(&["export-data", "s", "-o", memory.path().to_str().unwrap()]);
    assert_refused(&refused, &["already exists, and is not overwritten"]);
    assert_eq!(fs::read_to_string(memory.path()).unwrap(), "mine");
    for stdout in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let written = site.run(&["export-data", "s", "--format", "csv", "-o", stdout]);
        assert_done(&written);
        assert!(written.out.starts_with("number,"), "{stdout}: {}", written.out);
    }
}

#[test]
fn what_best_prints_is_known_where_a_study_file_is_wanted() {
    let site = finished();
    let printed = site.run(&["best", "s"]).out;
    let values: String = printed
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(!values.is_empty());
    for text in [&printed, &values] {
        site.write("best.toml", text);
        for verb in ["train", "check", "run"] {
            let refused = site.run(&[verb, "best.toml"]);
            assert_refused(
                &refused,
                &[
                    "as `hpsearch best` prints them",
                    "`hpsearch export STUDY -o DIR`",
                    "[[enqueue]]",
                ],
            );
            assert!(!refused.err.contains("has no table"), "{}", refused.err);
        }
    }
    // A study file without its headers, or with a wrong one, is still told what is wrong in it.
    for text in ["metric = \"loss\"\n", "[spce]\nx = 1\n", ""] {
        site.write("best.toml", text);
        let refused = site.run(&["check", "best.toml"]);
        assert_eq!(refused.code, 2);
        assert!(!refused.err.contains("hpsearch best"), "{}", refused.err);
    }
}

#[test]
fn labels_are_never_written_over_the_texts_or_the_model() {
    let site = site("", "");
    fs::create_dir(site.path("model")).unwrap();
    site.write("model/model.safetensors", "weights");
    site.write("a.csv", "text\none\n");
    fs::hard_link(site.path("a.csv"), site.path("b.csv")).unwrap();
    for output in ["a.csv", "./a.csv", "b.csv", "model/model.safetensors"] {
        assert_refused(
            &site.run(&["predict", "model", "--file", "a.csv", "-o", output]),
            &["would be overwritten"],
        );
    }
    assert_eq!(
        (site.read("a.csv"), site.read("model/model.safetensors")),
        ("text\none\n".into(), "weights".into())
    );
}

#[test]
fn what_drives_a_terminal_is_not_written_into_an_exports_readme() {
    let study = study("trials = 1", ONE_SLOT)
        .replace("name = \"s\"", "name = \"s\"\ndescription = \"a \\u001B[31mred \\u009B one\"");
    let script = format!("{SAVES}echo '@hpsearch {{\"step\":1,\"a\\u001b[31mb\":1}}'\n{REPORT_X}");
    let site = Site::new(&study, &script);
    assert_done(&site.run_study());
    assert_done(&site.run(&["export", "s", "-o", "model"]));
    let card = site.read("model/README.md");
    assert!(card.contains("[31mred"), "{card}");
    assert!(!card.contains(|char: char| char.is_control() && char != '\n'), "{card:?}");
}

#[test]
fn an_export_says_whose_export_it_replaces() {
    let site = site("", "");
    assert_done(&site.run(&["run", "study.toml", "--set", "budget.trials=2"]));
    let export = |trial: &str| site.run(&["export", "s", "--trial", trial, "-o", "model"]).err;
    let replaced = "it replaced the previous export there (trial 0 of `s`)\n";
    assert!(!export("0").contains("replaced"));
    assert!(!export("0").contains("replaced"));
    assert_names(&export("1"), &[replaced]);
}
