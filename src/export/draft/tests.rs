//! What is done with the drafts of dead writers.

use super::*;
use crate::export::fixture::{DEAD, ExportFixture};

#[test]
fn what_dead_writers_left_is_removed_as_far_as_it_is_ours() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    for name in ["old", "draft"] {
        fixture.put("checkpoint/weights", name);
        fixture.export().unwrap();
        fs::rename(fixture.path("model"), fixture.path(&format!(".model.{name}-{DEAD}"))).unwrap();
    }
    fixture.export().unwrap();
    let half = fixture.path(&format!(".model.draft-{DEAD}-1"));
    fs::create_dir(&half).unwrap();
    drop(marker::Marker::draft().write(&half).unwrap());
    fs::write(half.join("weights"), "hal").unwrap();
    fs::create_dir(fixture.path(&format!(".model.small-{DEAD}"))).unwrap();
    // Killed before the first marker was renamed.
    fixture.put(&format!(".model.draft-{DEAD}-2/.hpsearch-export.json.next"), "{");
    // Not ours, whatever their names.
    fixture.put(&format!(".model.draft-{}/mine", DEAD - 1), "mine");
    fixture.put(".model.draft-mine/mine", "mine");
    fixture.put(&format!(".other.draft-{DEAD}/mine"), "mine");
    fixture.put(&format!(".model.old-{}/mine", DEAD - 1), "mine");
    fixture.export().unwrap();
    let mine = [
        ".model.draft-99999998",
        ".model.draft-mine",
        ".model.old-99999998",
        ".other.draft-99999999",
    ];
    assert_eq!(fixture.beside(), [&mine[..], &["checkpoint", "model"]].concat());
    mine.iter().for_each(|name| assert_eq!(fixture.read(&format!("{name}/mine")), "mine"));
}

#[test]
fn an_old_export_that_somebody_put_files_into_before_its_writer_died_gets_a_name_that_people_see() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    fixture.put("model/notes.md", "mine");
    fs::rename(fixture.path("model"), fixture.path(&format!(".model.draft-{DEAD}"))).unwrap();
    let placed = fixture.export().unwrap();
    assert_eq!(
        (placed.kept, fixture.read("model.old/notes.md")),
        (vec![fixture.path("model.old")], "mine".into())
    );
}

#[test]
fn a_directory_that_was_cleared_halfway_is_cleared_by_the_next_export() {
    let fixture = ExportFixture::new();
    let draft = Draft::beside(&fixture.path("model"), Purpose::Training).unwrap();
    let left = fixture.path(&format!(".model.training-{DEAD}"));
    fs::create_dir_all(draft.path().join("inner/deep")).unwrap();
    // The marker is removed last, so that the rest is still recognised.
    fs::rename(draft.path(), &left).unwrap();
    drop(draft);
    assert!(left.join(".hpsearch-export.json").is_file() && left.join("inner/deep").is_dir());
    fixture.export().unwrap();
    assert_eq!(fixture.beside(), ["checkpoint", "model"]);
}

#[test]
fn a_draft_of_a_living_writer_stays() {
    let fixture = ExportFixture::new();
    let draft = Draft::beside(&fixture.path("model"), Purpose::Draft).unwrap();
    fixture.export().unwrap();
    assert!(draft.path().is_dir());
    drop(draft);
    assert_eq!(fixture.beside(), ["checkpoint", "model"]);
}

#[test]
fn the_newest_complete_checkpoint_of_a_training_is_kept_and_nothing_is_lost_that_cannot_be_moved() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("model");
    let save = |draft: &Path, name: &str| {
        fs::create_dir(draft.join(name)).unwrap();
        for file in ["model.safetensors", "optimizer.safetensors"] {
            fs::write(draft.join(name).join(file), name).unwrap();
        }
    };
    let kept =
        |name: &str| fs::read_to_string(directory.path().join(name).join("model.safetensors"));
    let mut draft = Draft::beside(&target, Purpose::Training).unwrap();
    assert_eq!(draft.keep_checkpoint(&target), None);
    // The last one is still being written.
    for name in ["checkpoint-8", ".checkpoint-9.1-1.tmp"] {
        save(draft.path(), name);
    }
    assert_eq!(draft.keep_checkpoint(&target), Some(directory.path().join("model.checkpoint")));
    drop(draft);
    assert_eq!(kept("model.checkpoint").unwrap(), "checkpoint-8");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    // Of a killed training the next one keeps it, and the earlier one gets a number.
    let draft = Draft::beside(&target, Purpose::Training).unwrap();
    save(draft.path(), "checkpoint-4");
    let left = directory.path().join(".model.training-1");
    fs::rename(draft.path(), &left).unwrap();
    drop(draft);
    settle(&target);
    assert_eq!(kept("model.checkpoint").unwrap(), "checkpoint-4");
    assert_eq!(kept("model.checkpoint-2").unwrap(), "checkpoint-8");
    assert!(!left.exists());
    // What is no checkpoint stays where it is.
    fs::remove_file(directory.path().join("model.checkpoint/optimizer.safetensors")).unwrap();
    let draft = Draft::beside(&target, Purpose::Training).unwrap();
    save(draft.path(), "checkpoint-12");
    fs::rename(draft.path(), &left).unwrap();
    drop(draft);
    let third = directory.path().join("model.checkpoint-3");
    assert_eq!(keep_checkpoints_of_killed(&target), Some(third));
    assert_eq!(kept("model.checkpoint").unwrap(), "checkpoint-4");
    assert!(!left.exists());
}
