//! Studies are written in the forms of other tools: whatever is killed meanwhile, nothing is lost
//! and nothing is there twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::harness::{
    KEEP_ALL, ONE_SLOT, Site, assert_done, assert_names, assert_refused, paths_below, study,
};

/// A script that logs on two axes, with values that JSON does not have.
const LOGS: &str = r#"
for step in 10 20 30; do echo "@hpsearch {\"step\":$step,\"train/loss\":$step.5}"; done
echo '@hpsearch {"epoch":0.5,"speed":NaN}'
echo '@hpsearch {"step":1,"loss":0.5,"accuracy":0.25}'
read -r answer
echo '@hpsearch {"step":2,"loss":0.25}'
read -r answer
"#;

fn site() -> Site {
    let site = Site::new(&study("trials = 3", &format!("{ONE_SLOT}{KEEP_ALL}")), LOGS);
    assert_done(&site.run_study());
    site
}

/// The files of runs below a directory of the site, with what is in them.
fn files(site: &Site, directory: &str, part: &str) -> BTreeMap<String, Vec<u8>> {
    let root = site.path(directory);
    let all = paths_below(&root).into_iter().filter(|path| path.is_file());
    let name = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    let named = all.map(|path| (name(&path), path));
    named
        .filter(|(name, _)| name.contains(part))
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect()
}

fn is_in(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn a_study_is_written_once_however_often_that_is_asked_and_interrupted() {
    let site = site();
    for (tool, part) in [("tensorboard", "tfevents"), ("wandb", ".wandb")] {
        let sync = |code: i32| {
            let done = site.run(&["sync", "s", "--to", &format!("{tool}:out")]);
            assert_eq!(done.code, code, "{}", done.err);
            done.err
        };
        let said = sync(0);
        assert_names(&said, &["points of 3 runs written to out"]);
        let whole = files(&site, "out/s", part);
        assert!(whole.len() >= 3, "{:?}", whole.keys());
        let texts = whole.values().filter(|bytes| is_in(bytes, "train/loss")).count();
        assert_eq!(texts, 3);
        assert_names(&sync(0), &["has all of it"]);
        assert_eq!(files(&site, "out/s", part), whole, "{tool} again");
        // A writer that was killed: behind what is known to be there are other bytes, or less is.
        for path in paths_below(&site.path("out/s")) {
            if path.to_str().unwrap().contains(part) && path.parent().unwrap().ends_with("s") {
                continue;
            }
            if path.is_file() && path.to_str().unwrap().contains(part) {
                let begin = fs::read(&path).unwrap()[..10].to_vec();
                let torn = if tool == "wandb" { [&begin[..], b"half"].concat() } else { begin };
                fs::write(&path, torn).unwrap();
            }
        }
        sync(0);
        let restored = files(&site, "out/s", part);
        let content = |files: &BTreeMap<String, Vec<u8>>| -> Vec<usize> {
            files
                .values()
                .map(|bytes| bytes.windows(10).filter(|part| part == b"train/loss").count())
                .collect()
        };
        assert_eq!(content(&restored), content(&whole), "{tool}");
        fs::remove_dir_all(site.path("out")).unwrap();
        sync(0);
        assert_eq!(files(&site, "out/s", part), whole, "{tool} from nothing");
        fs::remove_dir_all(site.path("out")).unwrap();
    }
}

#[test]
fn files_that_somebody_else_put_there_are_left_and_the_other_runs_are_written() {
    type Put = fn(&Path);
    let puts: [(Put, &str); 3] = [
        (|path| fs::write(path, "a file of mine").unwrap(), "hpsearch did not write it"),
        (
            |path| std::os::unix::fs::symlink(path.with_file_name("precious"), path).unwrap(),
            "it is a symbolic link",
        ),
        (
            |path| rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap(),
            "it is a named pipe",
        ),
    ];
    let site = site();
    for tool in ["tensorboard", "wandb"] {
        let to = format!("{tool}:out");
        let sync = || site.run(&["sync", "s", "--to", &to]);
        assert_done(&sync());
        let whole = files(&site, "out/s", "");
        let begin = if tool == "wandb" { "offline-run-" } else { "trial-" };
        let is_of_run =
            |name: &&String| name.starts_with(begin) && !name.contains(".hpsearch.json");
        let first = whole.keys().find(is_of_run).unwrap().clone();
        let experiment = "events.out.tfevents.0000000000.hpsearch".to_owned();
        let names = [Some(first), Some(experiment).filter(|_| tool == "tensorboard")];
        for name in names.iter().flatten() {
            for (put, why) in puts {
                fs::remove_dir_all(site.path("out")).unwrap();
                let path = site.path("out/s").join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path.with_file_name("precious"), "my only copy").unwrap();
                put(&path);
                let kind = path.symlink_metadata().unwrap().file_type();
                let said = sync();
                assert_refused(&said, &[name.as_str(), why, "move it away"]);
                assert_eq!(path.symlink_metadata().unwrap().file_type(), kind);
                if kind.is_file() {
                    assert_eq!(fs::read(&path).unwrap(), b"a file of mine");
                }
                assert_eq!(fs::read(path.with_file_name("precious")).unwrap(), b"my only copy");
                fs::remove_file(&path).unwrap();
                let others = files(&site, "out/s", begin);
                assert!(
                    whole
                        .iter()
                        .filter(|(of, _)| of.starts_with(begin) && *of != name)
                        .all(|(of, bytes)| of.contains(name.split('/').next().unwrap())
                            || others.get(of) == Some(bytes))
                );
                assert_done(&sync());
                fs::remove_file(path.with_file_name("precious")).unwrap();
                assert_eq!(files(&site, "out/s", ""), whole);
            }
        }
        fs::remove_dir_all(site.path("out")).unwrap();
    }
}

#[test]
fn summaries_are_written_and_what_is_not_written_is_named() {
    let more = r#"
echo '@hpsearch {"summary":{"verdict":"good","accuracy":0.125}}'
echo '@hpsearch {"text":{"sample":"once"}}'
echo '@hpsearch {"table":{"columns":["a"],"rows":[[1]]},"name":"t"}'
"#;
    let site = Site::new(&study("trials = 2", ONE_SLOT), &format!("{LOGS}{more}"));
    assert_done(&site.run_study());
    let said = site.run(&["sync", "s", "--to", "wandb:w"]).err;
    assert_names(&said, &["not written there: 2 tables, 2 texts;", "hpsearch artifacts"]);
    let said = site.run(&["sync", "s", "--to", "tensorboard:tb"]).err;
    assert_names(&said, &["2 tables, 2 texts, the summaries of 2 runs;"]);
    assert_done(&site.run(&["import", "w", "--study", "back"]));
    let back = site.json(&["show", "back", "0", "--json"]);
    assert_eq!(back["summary"]["verdict"], "good", "{back}");
    let files = files(&site, "w/s", ".wandb");
    assert!(files.values().all(|bytes| is_in(bytes, "0.125")), "the summary's own value");
    assert!(!site.run(&["sync", "s", "--to", "wandb:w"]).err.contains("not written"));
}

#[test]
fn destinations_are_written_while_a_study_runs_and_one_that_cannot_be_delays_nothing() {
    let text = study("trials = 2", &format!("{ONE_SLOT}{KEEP_ALL}"));
    let to = "[track]\nto = [\"tensorboard:tb\", \"wandb:blocked\"]\n";
    let site = Site::new(&format!("{text}{to}"), LOGS);
    site.write("blocked", "a file");
    let done = site.run_study();
    assert_done(&done);
    assert_names(&done.err, &["wandb:", "lacks some of the runs", "hpsearch sync s --to wandb:"]);
    assert_eq!(
        files(&site, "tb/s", "trial-").keys().filter(|name| name.contains("tfevents")).count(),
        2
    );
    fs::remove_file(site.path("blocked")).unwrap();
    let destination = format!("wandb:{}", site.path("blocked").display());
    assert_done(&site.run(&["sync", "s", "--to", &destination]));
    assert_eq!(files(&site, "blocked/s", ".wandb").len(), 2);
}

#[test]
fn a_directory_of_another_study_is_refused_and_so_are_words_that_name_none() {
    let site = site();
    assert_done(&site.run(&["sync", "s", "--to", "tensorboard:tb"]));
    let other = Site::new(&study("trials = 1", ONE_SLOT), LOGS);
    assert_done(&other.run_study());
    let destination = format!("tensorboard:{}", site.path("tb").display());
    let refused = other.run(&["sync", "s", "--to", &destination]);
    assert_refused(&refused, &["has the runs of another study", "name another directory"]);
    for (to, words) in [
        ("tb", "`tensorboard:DIR`"),
        ("tensorbord:tb", "`tensorboard`"),
        ("wandb:", "names no directory"),
    ] {
        assert_refused(&site.run(&["sync", "s", "--to", to]), &[words]);
    }
    let json: Json = site.json(&["ls", "--json"]);
    assert_eq!(json["studies"][0]["name"], json!("s"));
}

#[cfg(not(feature = "mlflow"))]
#[test]
fn a_build_without_mlflow_says_so() {
    let site = site();
    for words in [
        ["sync", "s", "--to", "mlflow:http://127.0.0.1:9"],
        ["import", "mlflow:http://127.0.0.1:9", "--study", "t"],
    ] {
        assert_refused(&site.run(&words), &["without MLflow", "--features mlflow"]);
    }
}
