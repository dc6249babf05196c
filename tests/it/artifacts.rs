//! What trials keep besides numbers: files, directories, images, texts and tables, whatever is
//! killed, changed or asked for.

use std::fs;
use std::process::Command;

use hpsearch::runner::artifacts::digest_of;
use serde_json::{Value as Json, json};

use crate::harness::{
    KEEP_ALL, ONE_SLOT, REPORT_X, Site, assert_code, assert_done, assert_names, assert_refused,
    paths_below, study, wait_until,
};

/// Keeps one thing of each kind, and a file in two versions.
const KEEPS: &str = r#"
mkdir -p out/deep
echo weights > out/model.bin
echo deep > out/deep/part.txt
printf '\211PNG\r\n\032\n....' > picture.png
echo '@hpsearch {"artifact":"out/model.bin","name":"model","step":1}'
echo '@hpsearch {"artifact":"out","name":"all"}'
echo '@hpsearch {"artifact":"out/model.bin","name":"where","copy":false}'
echo '@hpsearch {"image":"picture.png","name":"picture"}'
echo '@hpsearch {"text":{"sample":"once upon a time"}}'
echo '@hpsearch {"table":{"columns":["label","f1"],"rows":[["spam",0.5]]},"name":"f1"}'
sleep 0.5
echo '@hpsearch {"artifact":"out/model.bin","name":"model","step":1}'
sleep 0.5
echo better > out/model.bin
echo '@hpsearch {"artifact":"out/model.bin","name":"model","step":2}'
sleep 0.3
"#;

fn site(script: &str) -> Site {
    let study = study("trials = 1", &format!("{ONE_SLOT}{KEEP_ALL}"));
    let in_epochs = study.replace("step = \"step\"", "step = \"epoch\"");
    let site = Site::new(&in_epochs, &format!("{script}{REPORT_X}"));
    assert_done(&site.run_study());
    site
}

fn listed(site: &Site) -> Vec<Json> {
    site.json(&["artifacts", "s", "--json"])["artifacts"].as_array().unwrap().clone()
}

#[test]
fn files_directories_images_texts_and_tables_are_kept_with_versions_and_fetched() {
    let site = site(KEEPS);
    let labels: Vec<String> = listed(&site)
        .iter()
        .map(|kept| {
            let word = |key: &str| kept[key].as_str().unwrap().to_owned();
            format!("{}:v{} {}", word("name"), kept["version"], word("kind"))
        })
        .collect();
    let all = [
        "model:v1 file",
        "all:v1 directory",
        "where:v1 file",
        "picture:v1 image",
        "sample:v1 text",
        "f1:v1 table",
        "model:v2 file",
    ];
    assert_eq!(labels, all, "the same content again is no version");
    let shown = site.run(&["show", "s", "0"]).out;
    assert_names(
        &shown,
        &["model:v2: file", ", epoch 2\n", "once upon a time", "label | f1", "spam | 0.5"],
    );
    let journal = site.run(&["events", "s"]).out;
    assert_names(&journal, &["keeps the file `model` at epoch 1,", "`model` at epoch 2,"]);
    assert_done(&site.run(&[
        "artifacts",
        "s",
        "0",
        "--get",
        "model",
        "--get",
        "all",
        "--get",
        "f1",
        "-o",
        "got",
    ]));
    let text = |path: &str| fs::read_to_string(site.path(path)).unwrap();
    assert_eq!(text("got/model.bin"), "better\n");
    assert_eq!(
        (text("got/all/model.bin"), text("got/all/deep/part.txt")),
        ("weights\n".into(), "deep\n".into())
    );
    assert_eq!(
        serde_json::from_str::<Json>(&text("got/f1.json")).unwrap()["rows"],
        json!([["spam", 0.5]])
    );
    assert_refused(
        &site.run(&["artifacts", "s", "0", "--get", "model", "-o", "got"]),
        &["already exists"],
    );
    assert_done(&site.run(&["artifacts", "s", "0", "--get", "model:v1", "-o", "older"]));
    assert_eq!(text("older/model.bin"), "weights\n");
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_copy_that_was_changed_is_found_out_and_copies_go_with_their_study() {
    let site = site(KEEPS);
    let copies = paths_below(&site.path("runs/files"));
    let copy = copies.iter().find(|path| {
        path.is_file()
            && path.parent().unwrap().ends_with("artifacts")
            && fs::read(path).unwrap() == b"better\n"
    });
    fs::write(copy.unwrap(), "worse").unwrap();
    let verified = site.run(&["verify", "s"]);
    assert_code(&verified, 7);
    assert_names(&verified.out, &["artifact", "model:v2"]);
    let fetched = site.run(&["artifacts", "s", "0", "--get", "model", "-o", "got"]);
    assert!(
        fetched.code != 0 && fetched.err.contains("has changed since it was logged"),
        "{}",
        fetched.err
    );
    assert!(!site.path("got/model.bin").exists());
    assert_done(&site.run(&["gc", "--yes"]));
    assert_eq!(listed(&site).len(), 7);
    assert_done(&site.run(&["rm", "s", "--yes"]));
    let left = paths_below(&site.path("runs/files"));
    assert!(!left.iter().any(|path| path.to_str().unwrap().contains("artifacts")), "{left:?}");
    assert!(
        site.path("out/model.bin").exists()
            || paths_below(&site.path("")).iter().any(|path| path.ends_with("out/model.bin"))
    );
}

#[test]
fn a_store_that_names_paths_outside_of_the_output_gets_nothing_written_or_read_there() {
    let site = site(KEEPS);
    let copy = |text: &[u8]| digest_of(text);
    let listing = |path: &str, digest: &str| {
        json!([{"path": path, "bytes": 8, "digest": digest}]).to_string()
    };
    let weights = copy(b"weights\n");
    let absolute = site.path("absolute").display().to_string();
    let alter = |name: &str, to: &str, digest: &str| {
        let sql = "UPDATE artifact SET name = ?2, digest = ?3, body = json_set(body, \
                   '$.name', ?2, '$.digest', ?3) WHERE name = ?1";
        let database = site.database();
        database.pragma_update(None, "foreign_keys", false).unwrap();
        assert!(database.execute(sql, [name, to, digest]).unwrap() > 0);
    };
    let refused = |name: &str, words: &[&str]| {
        let ended = site.run(&["artifacts", "s", "0", "--get", name, "-o", "a/b/got"]);
        assert_refused(&ended, words);
        let below = paths_below(&site.path("a"));
        assert!(below.iter().all(|path| path.is_dir()), "{below:?}");
    };
    for path in ["../../escaped", &absolute, "deep/../../escaped", "", "."] {
        let listing = listing(path, &weights);
        let digest = copy(listing.as_bytes());
        let database = site.database();
        let sql = "INSERT OR REPLACE INTO document VALUES (?1, ?2)";
        database.execute(sql, [&digest, &listing]).unwrap();
        alter("all", "all", &digest);
        refused("all", &["is not the name of a file in its directory", path]);
        assert_names(&site.run(&["verify", "s"]).out, &["artifact", "all:v1"]);
    }
    let sample: String = site.query("SELECT digest FROM artifact WHERE name = 'sample'");
    for name in ["../../.profile", &absolute, "plots/../../../escaped"] {
        alter("sample", name, &sample);
        refused(name, &["is not the name of a file in its directory"]);
        alter(name, "sample", &sample);
    }
    alter("model", "model", "../../../../../../../../etc/passwd");
    refused("model", &["etc/passwd", "is not the name of a file in its directory"]);
    let left = paths_below(&site.path(""));
    let is_escaped = |path: &&std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.contains("escaped") || name == "absolute" || name.starts_with(".profile")
    };
    assert_eq!(left.iter().find(is_escaped), None);
    assert_done(&site.run(&["artifacts", "s", "0", "--get", "sample", "-o", "got"]));
}

#[test]
fn rows_of_artifacts_and_revisions_that_are_missing_or_renamed_are_found_by_verify() {
    let site = site(KEEPS);
    for (sql, words) in [
        ("DELETE FROM artifact WHERE name = 'picture'", ["artifact", "picture:v1"]),
        ("DELETE FROM artifact", ["artifact", "all:v1"]),
        ("UPDATE artifact SET name = 'zz' WHERE name = 'sample'", ["artifact", "sample:v1"]),
        ("UPDATE artifact SET version = 9 WHERE name = 'f1'", ["artifact", "f1:v1"]),
        ("DELETE FROM study_revision", ["study_revision", "the first"]),
    ] {
        let copied = site.start_program("cp", &["-a", "runs", "altered"]);
        assert_done(&copied.end());
        let verify = || site.run(&["--store", "altered/hpsearch.db", "verify", "s"]);
        assert_done(&verify());
        let database = rusqlite::Connection::open(site.path("altered/hpsearch.db")).unwrap();
        database.pragma_update(None, "foreign_keys", false).unwrap();
        assert!(database.execute(sql, []).unwrap() > 0);
        drop(database);
        let verified = verify();
        assert_code(&verified, 7);
        assert_names(&verified.out, &words);
        fs::remove_dir_all(site.path("altered")).unwrap();
    }
}

#[test]
fn what_cannot_be_kept_is_said_and_the_trial_continues() {
    let site = site(
        r#"mkfifo pipe; mkdir -p odd; ln -s /etc/hostname odd/link; echo text > plain.png
for path in pipe odd missing.bin /dev/null; do echo "@hpsearch {\"artifact\":\"$path\"}"; done
echo '@hpsearch {"image":"plain.png"}'
echo '@hpsearch {"artifact":"plain.png","name":"../../out"}'
echo '@hpsearch {"table":{"columns":["a"],"rows":[[1,2]]}}'
sleep 0.3
"#,
    );
    assert_eq!(listed(&site).len(), 0);
    let json = site.json(&["trials", "s", "--json"]);
    assert_eq!(json["trials"][0]["state"], "complete");
    let shown = site.run(&["show", "s", "0"]).out;
    assert_names(&shown, &["7 times in this attempt", "it is not kept"]);
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_run_that_is_killed_leaves_no_half_of_a_copy() {
    let script = "head -c 60000000 /dev/zero > large.bin\n\
        echo '@hpsearch {\"artifact\":\"large.bin\",\"name\":\"large\"}'\necho >> asked\n\
        sleep 30\n";
    let text = study("trials = 1", &format!("{ONE_SLOT}{KEEP_ALL}"));
    for _ in 0..3 {
        let site = Site::new(&text, script);
        let mut running = site.start_study();
        wait_until("the trial asks", || {
            paths_below(&site.path("")).iter().any(|path| path.ends_with("asked"))
        });
        running.kill();
        for path in paths_below(&site.path("runs/files")) {
            if path.is_file() && path.parent().unwrap().ends_with("artifacts") {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                assert!(name.ends_with(".tmp") || fs::metadata(&path).unwrap().len() == 60_000_000);
            }
        }
        let verified = site.run(&["verify", "s"]);
        assert_done(&verified);
    }
}

#[test]
fn packages_and_untracked_sources_are_kept_without_secrets() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    let git = |words: &[&str]| {
        let done = Command::new("git").args(words).current_dir(site.path("")).output();
        done.is_ok_and(|done| done.status.success())
    };
    if !git(&["init", "-q"]) {
        println!("skipped: there is no git");
        return;
    }
    site.write(".gitignore", "runs\n");
    git(&["add", "study.toml", "trial.sh", ".gitignore"]);
    git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]);
    site.write("model.py", "layers = 3\n");
    site.write("my_token.py", "value = 'hidden-word'\n");
    site.write(".env", "KEY=hidden-word\n");
    assert_done(&site.run_study());
    let changes = site.run(&["show", "s", "0", "--changes"]).out;
    assert_names(&changes, &["model.py", "+layers = 3"]);
    assert!(!changes.contains("hidden-word"), "{changes}");
    let store = fs::read(site.path("runs/hpsearch.db")).unwrap();
    assert!(!store.windows(11).any(|part| part == b"hidden-word"));
}
