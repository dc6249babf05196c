//! What an export may replace, and what it leaves alone.

use std::os::unix::fs::symlink;

use super::*;
use crate::export::fixture::ExportFixture;

#[test]
fn a_directory_that_merely_holds_a_best_toml_is_refused() {
    let fixture = ExportFixture::new();
    for name in [
        "model/best.toml",
        "model/study.toml",
        "model/runs/hpsearch.db",
        "model/train.py",
        "model/a/b",
    ] {
        fixture.put(name, "mine");
    }
    let before = fixture.tree_below("");
    let Obstacle::NoExport(names) = fixture.refusal() else { panic!("it is no export") };
    assert_eq!(names.len(), 5);
    let message = fixture.export().unwrap_err().to_string();
    assert!(message.contains("`a`, `best.toml`, `runs` and 2 more"), "{message}");
    assert_eq!(fixture.tree_below(""), before);
}

#[test]
fn an_empty_directory_is_taken() {
    let fixture = ExportFixture::new();
    fs::create_dir(fixture.path("model")).unwrap();
    fixture.export().unwrap();
    assert_eq!(fixture.read("model/weights"), "one");
}

#[test]
fn an_export_with_an_unknown_file_or_directory_is_refused_by_its_name() {
    for unknown in ["notes.md", "inner/notes.md", ".git/config", "inner/new/x"] {
        let fixture = ExportFixture::new();
        fixture.put("checkpoint/inner/more", "two");
        fixture.export().unwrap();
        fixture.put(&format!("model/{unknown}"), "mine");
        let before = fixture.tree_below("");
        let Obstacle::Unknown(names) = fixture.refusal() else { panic!("{unknown} is unknown") };
        assert!(Path::new(unknown).starts_with(&names[0]), "{unknown}: {names:?}");
        assert_eq!(
            (fixture.tree_below(""), fixture.read(&format!("model/{unknown}"))),
            (before, "mine".into())
        );
    }
}

#[test]
fn an_export_whose_files_changed_is_refused() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    for (name, text) in [("model/README.md", "my own words"), ("model/weights", "oen")] {
        let before = fixture.read(name);
        fixture.put(name, text);
        assert_eq!(
            fixture.refusal(),
            Obstacle::Changed(vec![PathBuf::from(name.trim_start_matches("model/"))])
        );
        assert_eq!(fixture.read(name), text);
        fixture.put(name, &before);
    }
    // Restored, and a missing file is no obstacle.
    fs::remove_file(fixture.path("model/best.toml")).unwrap();
    fixture.export().unwrap();
    fs::remove_file(fixture.path("model/weights")).unwrap();
    symlink(fixture.path("checkpoint/weights"), fixture.path("model/weights")).unwrap();
    assert_eq!(
        fixture.refusal(),
        Obstacle::Changed(vec!["weights".into()]),
        "a link is not what was written"
    );
}

#[test]
fn a_damaged_marker_is_refused() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    fixture.put("model/.hpsearch-export.json", "{\"version\":2}");
    assert_eq!(fixture.refusal(), Obstacle::Marker);
}

#[test]
fn an_export_of_an_earlier_version_is_replaced_and_kept_since_nobody_knows_what_it_held() {
    let fixture = ExportFixture::new();
    for name in [
        "best.toml",
        "metrics.json",
        "README.md",
        "model.safetensors",
        "config.json",
        "tokenizer.json",
    ] {
        fixture.put(&format!("model/{name}"), "old");
    }
    let placed = fixture.export().unwrap();
    assert_eq!(
        (placed.kept, fixture.read("model/weights")),
        (vec![fixture.path("model.old")], "one".into())
    );
    assert_eq!(fixture.tree_below("model.old").len(), 6);
    for missing in ["best.toml", "metrics.json", "README.md"] {
        let fixture = ExportFixture::new();
        for name in
            ["best.toml", "metrics.json", "README.md"].iter().filter(|name| **name != missing)
        {
            fixture.put(&format!("model/{name}"), "mine");
        }
        assert!(matches!(fixture.refusal(), Obstacle::NoExport(_)), "{missing}");
    }
}

#[test]
fn what_may_be_an_export_of_an_earlier_version_with_files_of_a_command_is_refused_with_advice() {
    let fixture = ExportFixture::new();
    for name in ["best.toml", "metrics.json", "README.md", "weights.pt"] {
        fixture.put(&format!("model/{name}"), "old");
    }
    assert_eq!(fixture.refusal(), Obstacle::NoList(vec!["weights.pt".into()]));
    let message = fixture.export().unwrap_err().to_string();
    assert!(
        message.contains("`weights.pt`")
            && message.contains("remove it yourself")
            && message.contains("choose another directory"),
        "{message}"
    );
}

#[test]
fn what_is_put_into_an_export_after_the_last_look_survives_its_removal() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    let (directory, known) = (fixture.path("model"), Stamps::new());
    let TargetContent::Export(seen) = look(&directory, Depth::Contents, &known).unwrap() else {
        panic!("it is an export")
    };
    fixture.put("model/notes.md", "mine");
    fixture.put("model/README.md", "my own words");
    assert!(!remove(&directory, &seen));
    assert_eq!(
        (fixture.read("model/notes.md"), fixture.read("model/README.md")),
        ("mine".into(), "my own words".into())
    );
    assert!(!fixture.path("model/weights").exists());
}
