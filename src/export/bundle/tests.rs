//! What exports replace, and what is left of the previous one.

use super::*;
use crate::export::earlier;
use crate::export::fixture::{DEAD, ExportFixture, WHOLE, put_once};

#[test]
fn an_export_replaces_an_export_and_leaves_nothing_beside_it() {
    let fixture = ExportFixture::new();
    fixture.put("checkpoint/inner/deep/more", "two");
    fixture.export().unwrap();
    assert_eq!(
        (fixture.read("model/weights"), fixture.read("model/inner/deep/more")),
        ("one".into(), "two".into())
    );
    fixture.put("checkpoint/weights", "three");
    fs::remove_dir_all(fixture.path("checkpoint/inner")).unwrap();
    let placed = fixture.export().unwrap();
    assert_eq!(
        (placed.directory, placed.kept, placed.refused.is_none()),
        (fixture.path("model"), Vec::<PathBuf>::new(), true)
    );
    assert_eq!(fixture.read("model/weights"), "three");
    assert_eq!(fixture.tree_below("model"), WHOLE);
    assert_eq!(fixture.beside(), ["checkpoint", "model"]);
}

#[test]
fn what_is_put_into_the_old_export_while_the_new_one_is_written_survives() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    let refused = fixture.export_with(Otherwise::Refuse, &mut put_once(&fixture, "model/notes.md"));
    assert!(
        matches!(refused, Err(ExportError::Occupied { why: Obstacle::Unknown(_), .. })),
        "{refused:?}"
    );
    assert_eq!(
        (fixture.read("model/notes.md"), fixture.read("model/weights"), fixture.beside()),
        ("mine".into(), "one".into(), vec!["checkpoint".into(), "model".into()])
    );
}

#[test]
fn an_export_that_may_not_replace_goes_beside_and_says_why() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    fixture.put("model/notes.md", "mine");
    fixture.put("model-2/mine", "mine");
    for _ in 0..2 {
        let placed = fixture.export_with(Otherwise::Beside, &mut |_, _| {}).unwrap();
        assert_eq!(placed.directory, fixture.path("model-3"));
        assert!(placed.refused.unwrap().to_string().contains("notes.md"));
    }
    let late = &mut put_once(&fixture, "model-3/late");
    let placed = fixture.export_with(Otherwise::Beside, late).unwrap();
    assert_eq!(
        (placed.directory, fixture.read("model-3/late")),
        (fixture.path("model-4"), "mine".into())
    );
    assert_eq!(fixture.beside(), ["checkpoint", "model", "model-2", "model-3", "model-4"]);
}

#[test]
fn an_export_that_was_being_replaced_when_its_writer_died_is_put_back() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    let old = format!(".model.old-{DEAD}");
    fs::rename(fixture.path("model"), fixture.path(&old)).unwrap();
    fixture.put("checkpoint/weights", "two");
    // This export fails, and the previous one is still there.
    fs::rename(fixture.path("checkpoint"), fixture.path("away")).unwrap();
    assert!(fixture.export().is_err());
    assert_eq!(
        (fixture.read("model/weights"), fixture.beside()),
        ("one".into(), vec!["away".into(), "model".into()])
    );
}

#[test]
fn where_directories_cannot_be_exchanged_the_old_one_is_aside_or_back() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    fixture.put("new/weights", "new");
    let [model, new] = ["model", "new"].map(|name| fixture.path(name));
    let old = swap_in_two_steps(&new, &model, &model).unwrap();
    assert!(old.file_name().unwrap().to_str().unwrap().starts_with(".model.old-"));
    assert_eq!(
        (fixture.read("model/weights"), fs::read_to_string(old.join("weights")).unwrap()),
        ("new".into(), "one".into())
    );
    // Without the new one, the old one is back in place.
    assert!(swap_in_two_steps(&fixture.path("missing"), &model, &model).is_err());
    assert_eq!(fixture.read("model/weights"), "new");
}

#[test]
fn a_trained_model_is_never_removed_and_what_it_displaces_is_set_aside() {
    let fixture = ExportFixture::new();
    assert!(fixture.train().unwrap().set_aside.is_none());
    let mut set_aside = Vec::new();
    for (weights, is_trained) in [("two", false), ("three", false), ("four", true), ("five", true)]
    {
        fixture.put("checkpoint/weights", weights);
        let placed = if is_trained { fixture.train() } else { fixture.export() }.unwrap();
        assert_eq!(fixture.read("model/weights"), weights);
        assert_eq!(placed.directory, fixture.path("model"));
        set_aside.push(placed.set_aside.map(|aside| {
            let weights = fs::read_to_string(aside.directory.join("weights")).unwrap();
            (aside.directory, weights, aside.recipe.unwrap().training.is_some())
        }));
    }
    let aside = |name, weights: &str, is_trained| {
        Some((fixture.path(name), weights.to_owned(), is_trained))
    };
    assert_eq!(
        set_aside,
        [
            aside("model.1", "one", true),
            // An export takes the place of another one.
            None,
            aside("model.2", "three", false),
            aside("model.3", "four", true),
        ]
    );
    assert_eq!(fixture.beside(), ["checkpoint", "model", "model.1", "model.2", "model.3"]);
    assert_eq!(fixture.tree_below("model.1"), WHOLE);
}

#[test]
fn a_training_that_cannot_take_its_place_loses_nothing() {
    let fixture = ExportFixture::new();
    fixture.train().unwrap();
    fixture.put("new/weights", "new");
    let [model, new, missing] = ["model", "new", "missing"].map(|name| fixture.path(name));
    assert!(set_aside(&new, &missing).is_err());
    assert_eq!(fixture.read("new/weights"), "new");
    assert!(set_aside_in_two_steps(&missing, &model).is_err());
    assert_eq!(fixture.read("model/weights"), "one");
    assert_eq!(fixture.beside(), ["checkpoint", "model", "new"]);
    // Killed between the two steps: both have names that the next one respects.
    let aside = draft::aside(&new, &model, None).unwrap();
    assert_eq!(aside, fixture.path("model.1"));
    fixture.put("checkpoint/weights", "two");
    fixture.train().unwrap();
    let names = ["model", "model.1", "model.2"].map(|name| format!("{name}/weights"));
    assert_eq!(names.map(|name| fixture.read(&name)), ["two", "new", "one"]);
}

#[test]
fn where_directories_cannot_be_exchanged_the_old_one_is_set_aside_all_the_same() {
    let fixture = ExportFixture::new();
    fixture.train().unwrap();
    fixture.put("model.1/weights", "new");
    let [model, aside] = ["model", "model.1"].map(|name| fixture.path(name));
    assert_eq!(set_aside_in_two_steps(&aside, &model).unwrap(), aside);
    assert_eq!(
        (fixture.read("model/weights"), fixture.read("model.1/weights")),
        ("new".into(), "one".into())
    );
    assert_eq!(fixture.beside(), ["checkpoint", "model", "model.1"]);
}

#[test]
fn exports_to_one_place_at_the_same_time_leave_one_whole_and_nothing_else() {
    let fixture = ExportFixture::new();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..5).for_each(|_| drop(fixture.export().unwrap())));
        }
    });
    assert_eq!(fixture.beside(), ["checkpoint", "model"]);
    assert!(matches!(
        earlier::look(&fixture.path("model"), earlier::Depth::Contents, &earlier::Stamps::new()),
        Ok(earlier::TargetContent::Export(_))
    ));
}
