//! What exports replace, remove, copy and leave alone.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;
use crate::study::metric::Direction;
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::space::Space;
use crate::study::spec::Milestones;
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, TrialNumber};

fn trial() -> Trial {
    Trial::new(TrialNumber(0), Params::new(), Origin::Asked, Timestamp(0))
}

fn exported<'a>(
    spec: &'a StudySpec,
    trial: &'a Trial,
    checkpoint: Option<&'a Path>,
) -> Exported<'a> {
    Exported {
        spec,
        trial,
        checkpoint,
        step: None,
        holds: Holds::Value,
        metrics: Metrics::default(),
        recipe: Recipe::of(spec, trial, None, Milestones::default()).unwrap(),
        leaders: Vec::new(),
        quantized: None,
    }
}

/// Creates a file on the first call.
fn put_once<'a>(place: &'a Place, name: &'a str) -> impl FnMut(u64, u64) + use<'a> {
    let mut is_put = false;
    move |_, _| {
        if !std::mem::replace(&mut is_put, true) {
            place.put(name, "mine");
        }
    }
}

/// The contents of an export with one checkpoint file.
const WHOLE: [&str; 5] =
    [".hpsearch-export.json", "README.md", "best.toml", "metrics.json", "weights"];

/// A directory with a command's checkpoint.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { directory: tempfile::tempdir().unwrap() };
        place.put("checkpoint/weights", "one");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Exports the checkpoint to `model`.
    fn export(&self) -> Result<Placed, ExportError> {
        self.export_with(Otherwise::Refuse, &mut |_, _| {})
    }

    fn export_with(
        &self,
        otherwise: Otherwise,
        told: &mut dyn FnMut(u64, u64),
    ) -> Result<Placed, ExportError> {
        let spec =
            StudySpec::new("s", "loss", Direction::Minimize, Space::default(), Program::Inline);
        let trial = trial();
        let checkpoint = self.path("checkpoint");
        let exported = exported(&spec, &trial, Some(&checkpoint));
        let target =
            Target::new(&self.path("model"), vec![(Needed::Checkpoint, checkpoint.clone())])?;
        write(&exported, &target, otherwise, told)
    }

    fn refusal(&self) -> Obstacle {
        match self.export().unwrap_err() {
            ExportError::Occupied { why, .. } => why,
            other => panic!("{other}"),
        }
    }

    /// All paths below, directories with a `/`.
    fn tree_below(&self, name: &str) -> Vec<String> {
        fn walk(root: &Path, directory: &Path, into: &mut Vec<String>) {
            for entry in fs::read_dir(directory).unwrap().flatten() {
                let path = entry.path();
                let is_directory = entry.file_type().unwrap().is_dir();
                let below = path.strip_prefix(root).unwrap().to_string_lossy();
                into.push(format!("{below}{}", if is_directory { "/" } else { "" }));
                if is_directory {
                    walk(root, &path, into);
                }
            }
        }
        let mut all = Vec::new();
        walk(&self.path(name), &self.path(name), &mut all);
        all.sort();
        all
    }

    fn beside(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(""))
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// The process id in names of temporary directories without a living writer.
const DEAD: u32 = 99_999_999;

#[test]
fn an_export_replaces_an_export_and_leaves_nothing_beside_it() {
    let place = Place::new();
    place.put("checkpoint/inner/deep/more", "two");
    place.export().unwrap();
    assert_eq!(
        (place.read("model/weights"), place.read("model/inner/deep/more")),
        ("one".into(), "two".into())
    );
    place.put("checkpoint/weights", "three");
    fs::remove_dir_all(place.path("checkpoint/inner")).unwrap();
    let placed = place.export().unwrap();
    assert_eq!(
        (placed.directory, placed.kept, placed.refused.is_none()),
        (place.path("model"), Vec::<PathBuf>::new(), true)
    );
    assert_eq!(place.read("model/weights"), "three");
    assert_eq!(place.tree_below("model"), WHOLE);
    assert_eq!(place.beside(), ["checkpoint", "model"]);
}

#[test]
fn a_directory_that_merely_holds_a_best_toml_is_refused() {
    let place = Place::new();
    for name in [
        "model/best.toml",
        "model/study.toml",
        "model/runs/hpsearch.db",
        "model/train.py",
        "model/a/b",
    ] {
        place.put(name, "mine");
    }
    let before = place.tree_below("");
    let Obstacle::NoExport(names) = place.refusal() else { panic!("it is no export") };
    assert_eq!(names.len(), 5);
    let message = place.export().unwrap_err().to_string();
    assert!(message.contains("`a`, `best.toml`, `runs` and 2 more"), "{message}");
    assert_eq!(place.tree_below(""), before);
}

#[test]
fn an_empty_directory_is_taken() {
    let place = Place::new();
    fs::create_dir(place.path("model")).unwrap();
    place.export().unwrap();
    assert_eq!(place.read("model/weights"), "one");
}

#[test]
fn an_export_with_an_unknown_file_or_directory_is_refused_by_its_name() {
    for unknown in ["notes.md", "inner/notes.md", ".git/config", "inner/new/x"] {
        let place = Place::new();
        place.put("checkpoint/inner/more", "two");
        place.export().unwrap();
        place.put(&format!("model/{unknown}"), "mine");
        let before = place.tree_below("");
        let Obstacle::Unknown(names) = place.refusal() else { panic!("{unknown} is unknown") };
        assert!(Path::new(unknown).starts_with(&names[0]), "{unknown}: {names:?}");
        assert_eq!(
            (place.tree_below(""), place.read(&format!("model/{unknown}"))),
            (before, "mine".into())
        );
    }
}

#[test]
fn an_export_whose_files_changed_is_refused() {
    let place = Place::new();
    place.export().unwrap();
    for (name, text) in [("model/README.md", "my own words"), ("model/weights", "oen")] {
        let before = place.read(name);
        place.put(name, text);
        assert_eq!(
            place.refusal(),
            Obstacle::Changed(vec![PathBuf::from(name.trim_start_matches("model/"))])
        );
        assert_eq!(place.read(name), text);
        place.put(name, &before);
    }
    // Restored, and a missing file is no obstacle.
    fs::remove_file(place.path("model/best.toml")).unwrap();
    place.export().unwrap();
    fs::remove_file(place.path("model/weights")).unwrap();
    symlink(place.path("checkpoint/weights"), place.path("model/weights")).unwrap();
    assert_eq!(
        place.refusal(),
        Obstacle::Changed(vec!["weights".into()]),
        "a link is not what was written"
    );
}

#[test]
fn a_damaged_marker_is_refused() {
    let place = Place::new();
    place.export().unwrap();
    place.put("model/.hpsearch-export.json", "{\"version\":2}");
    assert_eq!(place.refusal(), Obstacle::Marker);
}

#[test]
fn an_export_of_an_earlier_version_is_replaced_and_kept_since_nobody_knows_what_it_held() {
    let place = Place::new();
    for name in [
        "best.toml",
        "metrics.json",
        "README.md",
        "model.safetensors",
        "config.json",
        "tokenizer.json",
    ] {
        place.put(&format!("model/{name}"), "old");
    }
    let placed = place.export().unwrap();
    assert_eq!(
        (placed.kept, place.read("model/weights")),
        (vec![place.path("model.old")], "one".into())
    );
    assert_eq!(place.tree_below("model.old").len(), 6);
    for missing in ["best.toml", "metrics.json", "README.md"] {
        let place = Place::new();
        for name in
            ["best.toml", "metrics.json", "README.md"].iter().filter(|name| **name != missing)
        {
            place.put(&format!("model/{name}"), "mine");
        }
        assert!(matches!(place.refusal(), Obstacle::NoExport(_)), "{missing}");
    }
}

#[test]
fn what_may_be_an_export_of_an_earlier_version_with_files_of_a_command_is_refused_with_advice() {
    let place = Place::new();
    for name in ["best.toml", "metrics.json", "README.md", "weights.pt"] {
        place.put(&format!("model/{name}"), "old");
    }
    assert_eq!(place.refusal(), Obstacle::NoList(vec!["weights.pt".into()]));
    let message = place.export().unwrap_err().to_string();
    assert!(
        message.contains("`weights.pt`")
            && message.contains("remove it yourself")
            && message.contains("choose another directory"),
        "{message}"
    );
}

#[test]
fn what_is_put_into_the_old_export_while_the_new_one_is_written_survives() {
    let place = Place::new();
    place.export().unwrap();
    let refused = place.export_with(Otherwise::Refuse, &mut put_once(&place, "model/notes.md"));
    assert!(
        matches!(refused, Err(ExportError::Occupied { why: Obstacle::Unknown(_), .. })),
        "{refused:?}"
    );
    assert_eq!(
        (place.read("model/notes.md"), place.read("model/weights"), place.beside()),
        ("mine".into(), "one".into(), vec!["checkpoint".into(), "model".into()])
    );
}

#[test]
fn an_export_that_may_not_replace_goes_beside_and_says_why() {
    let place = Place::new();
    place.export().unwrap();
    place.put("model/notes.md", "mine");
    place.put("model-2/mine", "mine");
    for _ in 0..2 {
        let placed = place.export_with(Otherwise::Beside, &mut |_, _| {}).unwrap();
        assert_eq!(placed.directory, place.path("model-3"));
        assert!(placed.refused.unwrap().to_string().contains("notes.md"));
    }
    let late = &mut put_once(&place, "model-3/late");
    let placed = place.export_with(Otherwise::Beside, late).unwrap();
    assert_eq!(
        (placed.directory, place.read("model-3/late")),
        (place.path("model-4"), "mine".into())
    );
    assert_eq!(place.beside(), ["checkpoint", "model", "model-2", "model-3", "model-4"]);
}

#[test]
fn what_is_put_into_an_export_after_the_last_look_survives_its_removal() {
    let place = Place::new();
    place.export().unwrap();
    let (directory, known) = (place.path("model"), earlier::Stamps::new());
    let earlier::Found::Export(seen) =
        earlier::look(&directory, earlier::Depth::Contents, &known).unwrap()
    else {
        panic!("it is an export")
    };
    place.put("model/notes.md", "mine");
    place.put("model/README.md", "my own words");
    assert!(!earlier::remove(&directory, &seen));
    assert_eq!(
        (place.read("model/notes.md"), place.read("model/README.md")),
        ("mine".into(), "my own words".into())
    );
    assert!(!place.path("model/weights").exists());
}

#[test]
fn an_export_that_was_being_replaced_when_its_writer_died_is_put_back() {
    let place = Place::new();
    place.export().unwrap();
    let old = format!(".model.old-{DEAD}");
    fs::rename(place.path("model"), place.path(&old)).unwrap();
    place.put("checkpoint/weights", "two");
    // This export fails, and the previous one is still there.
    fs::rename(place.path("checkpoint"), place.path("away")).unwrap();
    assert!(place.export().is_err());
    assert_eq!(
        (place.read("model/weights"), place.beside()),
        ("one".into(), vec!["away".into(), "model".into()])
    );
}

#[test]
fn where_directories_cannot_be_exchanged_the_old_one_is_aside_or_back() {
    let place = Place::new();
    place.export().unwrap();
    place.put("new/weights", "new");
    let [model, new] = ["model", "new"].map(|name| place.path(name));
    let old = bundle::swap_in_two_steps(&new, &model, &model).unwrap();
    assert!(old.file_name().unwrap().to_str().unwrap().starts_with(".model.old-"));
    assert_eq!(
        (place.read("model/weights"), fs::read_to_string(old.join("weights")).unwrap()),
        ("new".into(), "one".into())
    );
    // Without the new one, the old one is back in place.
    assert!(bundle::swap_in_two_steps(&place.path("missing"), &model, &model).is_err());
    assert_eq!(place.read("model/weights"), "new");
}

#[test]
fn what_dead_writers_left_is_removed_as_far_as_it_is_ours() {
    let place = Place::new();
    place.export().unwrap();
    for name in ["old", "draft"] {
        place.put("checkpoint/weights", name);
        place.export().unwrap();
        fs::rename(place.path("model"), place.path(&format!(".model.{name}-{DEAD}"))).unwrap();
    }
    place.export().unwrap();
    let half = place.path(&format!(".model.draft-{DEAD}-1"));
    fs::create_dir(&half).unwrap();
    drop(marker::Marker::draft().write(&half).unwrap());
    fs::write(half.join("weights"), "hal").unwrap();
    fs::create_dir(place.path(&format!(".model.small-{DEAD}"))).unwrap();
    // Killed before the first marker was renamed.
    place.put(&format!(".model.draft-{DEAD}-2/.hpsearch-export.json.next"), "{");
    // Not ours, whatever their names.
    place.put(&format!(".model.draft-{}/mine", DEAD - 1), "mine");
    place.put(".model.draft-mine/mine", "mine");
    place.put(&format!(".other.draft-{DEAD}/mine"), "mine");
    place.put(&format!(".model.old-{}/mine", DEAD - 1), "mine");
    place.export().unwrap();
    let mine = [
        ".model.draft-99999998",
        ".model.draft-mine",
        ".model.old-99999998",
        ".other.draft-99999999",
    ];
    assert_eq!(place.beside(), [&mine[..], &["checkpoint", "model"]].concat());
    mine.iter().for_each(|name| assert_eq!(place.read(&format!("{name}/mine")), "mine"));
}

#[test]
fn an_old_export_that_somebody_put_files_into_before_its_writer_died_gets_a_name_that_people_see() {
    let place = Place::new();
    place.export().unwrap();
    place.put("model/notes.md", "mine");
    fs::rename(place.path("model"), place.path(&format!(".model.draft-{DEAD}"))).unwrap();
    let placed = place.export().unwrap();
    assert_eq!(
        (placed.kept, place.read("model.old/notes.md")),
        (vec![place.path("model.old")], "mine".into())
    );
}

#[test]
fn a_directory_that_was_cleared_halfway_is_cleared_by_the_next_export() {
    let place = Place::new();
    let draft = Draft::beside(&place.path("model"), Purpose::Training).unwrap();
    let left = place.path(&format!(".model.training-{DEAD}"));
    fs::create_dir_all(draft.path().join("inner/deep")).unwrap();
    // The marker is removed last, so that the rest is still recognised.
    fs::rename(draft.path(), &left).unwrap();
    drop(draft);
    assert!(left.join(".hpsearch-export.json").is_file() && left.join("inner/deep").is_dir());
    place.export().unwrap();
    assert_eq!(place.beside(), ["checkpoint", "model"]);
}

#[test]
fn a_draft_of_a_living_writer_stays() {
    let place = Place::new();
    let draft = Draft::beside(&place.path("model"), Purpose::Draft).unwrap();
    place.export().unwrap();
    assert!(draft.path().is_dir());
    drop(draft);
    assert_eq!(place.beside(), ["checkpoint", "model"]);
}

#[test]
fn exports_to_one_place_at_the_same_time_leave_one_whole_and_nothing_else() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..5).for_each(|_| drop(place.export().unwrap())));
        }
    });
    assert_eq!(place.beside(), ["checkpoint", "model"]);
    assert!(matches!(
        earlier::look(&place.path("model"), earlier::Depth::Contents, &earlier::Stamps::new()),
        Ok(earlier::Found::Export(_))
    ));
}

#[test]
fn fifos_sockets_and_links_to_devices_are_left_out_and_told_of() {
    let place = Place::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("checkpoint/fifo"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.path("checkpoint/socket")).unwrap();
    symlink("/dev/zero", place.path("checkpoint/zero")).unwrap();
    let placed = place.export().unwrap();
    let left_out: Vec<(PathBuf, LeftOut)> =
        [("fifo", LeftOut::Fifo), ("socket", LeftOut::Socket), ("zero", LeftOut::Device)]
            .map(|(name, why)| (name.into(), why))
            .into();
    assert_eq!(placed.left_out, left_out);
    assert_eq!(place.tree_below("model"), WHOLE);
}

#[test]
fn a_checkpoint_that_is_no_file_is_refused() {
    let place = Place::new();
    fs::remove_dir_all(place.path("checkpoint")).unwrap();
    symlink("/dev/zero", place.path("checkpoint")).unwrap();
    let refused = place.export().unwrap_err().to_string();
    assert!(refused.contains("it is a device, neither a file nor a directory"), "{refused}");
    assert_eq!(place.beside(), ["checkpoint"]);
}

#[test]
fn links_to_files_and_directories_are_followed_and_circles_are_not() {
    let place = Place::new();
    place.put("shared/tokenizer", "words");
    place.put("shared/deep/vocabulary", "more words");
    fs::create_dir(place.path("checkpoint/inner")).unwrap();
    for (target, link) in
        [(".", "here"), ("..", "up"), ("..", "inner/circle"), ("../..", "inner/far"), ("/", "root")]
    {
        symlink(target, place.path("checkpoint").join(link)).unwrap();
    }
    symlink(place.path("shared/tokenizer"), place.path("checkpoint/tokenizer")).unwrap();
    symlink("../shared/deep", place.path("checkpoint/deep")).unwrap();
    // It only leads back from inside.
    symlink(place.path("shared"), place.path("shared/deep/back")).unwrap();
    let placed = place.export().unwrap();
    assert_eq!(
        (place.read("model/tokenizer"), place.read("model/deep/vocabulary")),
        ("words".into(), "more words".into())
    );
    assert!(!place.path("model/tokenizer").is_symlink() && !place.path("model/deep").is_symlink());
    let left_out: Vec<String> =
        placed.left_out.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect();
    for circle in ["here", "up", "inner/circle", "inner/far", "root"] {
        assert!(
            left_out.contains(&format!("{circle}: a link to a directory that holds it")),
            "{circle}: {left_out:?}"
        );
    }
    place.export().unwrap();
}

#[test]
fn a_link_to_nothing_is_no_complete_checkpoint() {
    let place = Place::new();
    symlink("gone", place.path("checkpoint/inner")).unwrap();
    let refused = place.export().unwrap_err().to_string();
    assert!(refused.contains("`inner` is a link to nothing"), "{refused}");
}

#[test]
fn names_that_are_no_utf8_stay_apart() {
    let place = Place::new();
    for name in [&b"a\xff"[..], b"a\xfe"] {
        fs::write(place.path("checkpoint").join(OsStr::from_bytes(name)), name).unwrap();
    }
    for _ in 0..2 {
        place.export().unwrap();
        for name in [&b"a\xff"[..], b"a\xfe"] {
            assert_eq!(fs::read(place.path("model").join(OsStr::from_bytes(name))).unwrap(), name);
        }
    }
    assert_eq!(place.beside(), ["checkpoint", "model"]);
}

#[test]
fn the_checkpoints_own_files_of_our_names_get_other_names() {
    let place = Place::new();
    for name in [
        "README.md",
        "readme.MD",
        "metrics.json",
        "best.toml",
        ".hpsearch-export.json",
        "checkpoint-metrics.json",
        "inner/README.md",
    ] {
        place.put(&format!("checkpoint/{name}"), name);
    }
    let placed = place.export().unwrap();
    let renamed: Vec<String> = placed
        .renamed
        .iter()
        .map(|(before, after)| format!("{} {}", before.display(), after.display()))
        .collect();
    assert_eq!(
        renamed,
        [
            ".hpsearch-export.json checkpoint-.hpsearch-export.json",
            "README.md checkpoint-README.md",
            "best.toml checkpoint-best.toml",
            "metrics.json checkpoint-2-metrics.json",
            "readme.MD checkpoint-readme.MD",
        ]
    );
    assert_eq!(place.read("model/checkpoint-2-metrics.json"), "metrics.json");
    assert_eq!(place.read("model/checkpoint-metrics.json"), "checkpoint-metrics.json");
    assert_eq!(place.read("model/inner/README.md"), "inner/README.md");
    assert!(place.read("model/README.md").starts_with("# s: trial 0"));
    place.export().unwrap();
}

#[test]
fn a_checkpoint_that_is_a_file_of_our_name_is_kept_under_another() {
    let place = Place::new();
    place.put("ours/README.md", "weights");
    fs::remove_dir_all(place.path("checkpoint")).unwrap();
    fs::rename(place.path("ours"), place.path("checkpoint")).unwrap();
    assert_eq!(
        contents::plan(&place.path("checkpoint/README.md"), contents::Kind::Command)
            .unwrap()
            .renamed,
        [("README.md".into(), "checkpoint-README.md".into())]
    );
}

#[test]
fn a_commands_own_digests_json_is_a_file_like_any_other() {
    let place = Place::new();
    place.put("checkpoint/digests.json", "[1, 2]");
    place.put("checkpoint/optimizer.safetensors", "moments");
    place.export().unwrap();
    assert_eq!(
        (place.read("model/digests.json"), place.read("model/optimizer.safetensors")),
        ("[1, 2]".into(), "moments".into())
    );
}

#[test]
fn holes_take_no_space_in_the_copy_and_progress_ends_at_the_whole() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    let size = 64 << 20;
    let file = fs::File::create(place.path("checkpoint/weights")).unwrap();
    file.set_len(size).unwrap();
    let mut last = (0, 0);
    place.export_with(Otherwise::Refuse, &mut |done, of| last = (done, of)).unwrap();
    let copy = fs::metadata(place.path("model/weights")).unwrap();
    assert_eq!((copy.len(), last), (size, (size, size)));
    assert!(copy.blocks() * 512 < size / 8, "{} blocks", copy.blocks());
    place.export().unwrap();
}

#[test]
fn a_file_that_grows_is_not_copied_for_ever() {
    use std::io::Write;
    let place = Place::new();
    let mut growing =
        fs::OpenOptions::new().append(true).open(place.path("checkpoint/weights")).unwrap();
    let mut told = 0;
    let refused = place.export_with(Otherwise::Refuse, &mut |_, _| {
        told += 1;
        growing.write_all(b"more").unwrap();
    });
    assert!(refused.unwrap_err().to_string().contains("`weights` changed while it was copied"));
    assert_eq!((told, place.beside()), (1, vec!["checkpoint".to_owned()]));
}

#[test]
fn an_export_into_or_over_its_own_checkpoint_is_refused() {
    let place = Place::new();
    symlink("checkpoint", place.path("model")).unwrap();
    assert!(matches!(place.refusal(), Obstacle::Holds(Needed::Checkpoint, _)));
    fs::remove_file(place.path("model")).unwrap();
    let target = Target::new(
        &place.path("checkpoint/model"),
        vec![(Needed::Checkpoint, place.path("checkpoint"))],
    );
    assert!(matches!(
        target.unwrap_err(),
        ExportError::Occupied { why: Obstacle::LiesIn(Needed::Checkpoint, _), .. }
    ));
}

#[test]
fn a_link_to_an_export_stays_a_link() {
    let place = Place::new();
    place.export().unwrap();
    fs::rename(place.path("model"), place.path("elsewhere")).unwrap();
    symlink("elsewhere", place.path("model")).unwrap();
    place.put("checkpoint/weights", "two");
    place.export().unwrap();
    assert!(place.path("model").is_symlink());
    assert_eq!((place.read("elsewhere/weights"), place.beside().len()), ("two".into(), 3));
}

#[test]
fn a_model_trained_again_goes_beside_the_export_and_not_into_it() {
    let place = Place::new();
    place.export().unwrap();
    assert_eq!(default_beside(&place.path("model")), place.path("model-trained"));
    assert_eq!(default_beside(&place.path("model/.")), place.path("model-trained"));
    assert_eq!(default_beside(&place.path("checkpoint")), place.path("checkpoint/trained"));
    // The export remains one that the next replaces.
    place.put("model-trained/weights", "two");
    place.export().unwrap();
}

#[test]
fn the_card_names_the_task_that_the_model_was_trained_for() {
    for (task, tag, words) in [
        ("text-classification", None, "one label per text"),
        (
            "multi-label-classification",
            Some("- multi-label-classification\n"),
            "multi-label text classification",
        ),
        ("text-regression", Some("- text-regression\n"), "text regression"),
    ] {
        let arguments = [("task".to_owned(), serde_json::Value::from(task))].into();
        let program = Program::Trainer { arguments, data: Default::default() };
        let spec = StudySpec::new("s", "eval_loss", Direction::Minimize, Space::default(), program);
        let trial = trial();
        let exported = exported(&spec, &trial, None);
        let card = card::card(&exported);
        assert!(
            card.contains("pipeline_tag: text-classification\n") && card.contains(words),
            "{card}"
        );
        assert_eq!(card.contains("tags:\n- hpsearch\n- "), tag.is_some(), "{card}");
        assert!(tag.is_none_or(|tag| card.contains(tag)), "{card}");
    }
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
    draft::settle(&target);
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
    assert_eq!(draft::keep_checkpoints_of_killed(&target), Some(third));
    assert_eq!(kept("model.checkpoint").unwrap(), "checkpoint-4");
    assert!(!left.exists());
}
