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
fn put_once<'a>(fixture: &'a ExportFixture, name: &'a str) -> impl FnMut(u64, u64) + use<'a> {
    let mut is_put = false;
    move |_, _| {
        if !std::mem::replace(&mut is_put, true) {
            fixture.put(name, "mine");
        }
    }
}

/// The contents of an export with one checkpoint file.
const WHOLE: [&str; 5] =
    [".hpsearch-export.json", "README.md", "best.toml", "metrics.json", "weights"];

/// A directory with a command's checkpoint.
struct ExportFixture {
    directory: tempfile::TempDir,
}

impl ExportFixture {
    fn new() -> ExportFixture {
        let fixture = ExportFixture { directory: tempfile::tempdir().unwrap() };
        fixture.put("checkpoint/weights", "one");
        fixture
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
fn what_is_put_into_an_export_after_the_last_look_survives_its_removal() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    let (directory, known) = (fixture.path("model"), earlier::Stamps::new());
    let earlier::TargetContent::Export(seen) =
        earlier::look(&directory, earlier::Depth::Contents, &known).unwrap()
    else {
        panic!("it is an export")
    };
    fixture.put("model/notes.md", "mine");
    fixture.put("model/README.md", "my own words");
    assert!(!earlier::remove(&directory, &seen));
    assert_eq!(
        (fixture.read("model/notes.md"), fixture.read("model/README.md")),
        ("mine".into(), "my own words".into())
    );
    assert!(!fixture.path("model/weights").exists());
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
    let old = bundle::swap_in_two_steps(&new, &model, &model).unwrap();
    assert!(old.file_name().unwrap().to_str().unwrap().starts_with(".model.old-"));
    assert_eq!(
        (fixture.read("model/weights"), fs::read_to_string(old.join("weights")).unwrap()),
        ("new".into(), "one".into())
    );
    // Without the new one, the old one is back in place.
    assert!(bundle::swap_in_two_steps(&fixture.path("missing"), &model, &model).is_err());
    assert_eq!(fixture.read("model/weights"), "new");
}

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

#[test]
fn fifos_sockets_and_links_to_devices_are_left_out_and_told_of() {
    let fixture = ExportFixture::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fixture.path("checkpoint/fifo"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let _socket =
        std::os::unix::net::UnixListener::bind(fixture.path("checkpoint/socket")).unwrap();
    symlink("/dev/zero", fixture.path("checkpoint/zero")).unwrap();
    let placed = fixture.export().unwrap();
    let left_out: Vec<(PathBuf, LeftOut)> =
        [("fifo", LeftOut::Fifo), ("socket", LeftOut::Socket), ("zero", LeftOut::Device)]
            .map(|(name, why)| (name.into(), why))
            .into();
    assert_eq!(placed.left_out, left_out);
    assert_eq!(fixture.tree_below("model"), WHOLE);
}

#[test]
fn a_checkpoint_that_is_no_file_is_refused() {
    let fixture = ExportFixture::new();
    fs::remove_dir_all(fixture.path("checkpoint")).unwrap();
    symlink("/dev/zero", fixture.path("checkpoint")).unwrap();
    let refused = fixture.export().unwrap_err().to_string();
    assert!(refused.contains("it is a device, neither a file nor a directory"), "{refused}");
    assert_eq!(fixture.beside(), ["checkpoint"]);
}

#[test]
fn links_to_files_and_directories_are_followed_and_circles_are_not() {
    let fixture = ExportFixture::new();
    fixture.put("shared/tokenizer", "words");
    fixture.put("shared/deep/vocabulary", "more words");
    fs::create_dir(fixture.path("checkpoint/inner")).unwrap();
    for (target, link) in
        [(".", "here"), ("..", "up"), ("..", "inner/circle"), ("../..", "inner/far"), ("/", "root")]
    {
        symlink(target, fixture.path("checkpoint").join(link)).unwrap();
    }
    symlink(fixture.path("shared/tokenizer"), fixture.path("checkpoint/tokenizer")).unwrap();
    symlink("../shared/deep", fixture.path("checkpoint/deep")).unwrap();
    // It only leads back from inside.
    symlink(fixture.path("shared"), fixture.path("shared/deep/back")).unwrap();
    let placed = fixture.export().unwrap();
    assert_eq!(
        (fixture.read("model/tokenizer"), fixture.read("model/deep/vocabulary")),
        ("words".into(), "more words".into())
    );
    assert!(
        !fixture.path("model/tokenizer").is_symlink() && !fixture.path("model/deep").is_symlink()
    );
    let left_out: Vec<String> =
        placed.left_out.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect();
    for circle in ["here", "up", "inner/circle", "inner/far", "root"] {
        assert!(
            left_out.contains(&format!("{circle}: a link to a directory that holds it")),
            "{circle}: {left_out:?}"
        );
    }
    fixture.export().unwrap();
}

#[test]
fn a_link_to_nothing_is_no_complete_checkpoint() {
    let fixture = ExportFixture::new();
    symlink("gone", fixture.path("checkpoint/inner")).unwrap();
    let refused = fixture.export().unwrap_err().to_string();
    assert!(refused.contains("`inner` is a link to nothing"), "{refused}");
}

#[test]
fn names_that_are_no_utf8_stay_apart() {
    let fixture = ExportFixture::new();
    for name in [&b"a\xff"[..], b"a\xfe"] {
        fs::write(fixture.path("checkpoint").join(OsStr::from_bytes(name)), name).unwrap();
    }
    for _ in 0..2 {
        fixture.export().unwrap();
        for name in [&b"a\xff"[..], b"a\xfe"] {
            assert_eq!(
                fs::read(fixture.path("model").join(OsStr::from_bytes(name))).unwrap(),
                name
            );
        }
    }
    assert_eq!(fixture.beside(), ["checkpoint", "model"]);
}

#[test]
fn the_checkpoints_own_files_of_our_names_get_other_names() {
    let fixture = ExportFixture::new();
    for name in [
        "README.md",
        "readme.MD",
        "metrics.json",
        "best.toml",
        ".hpsearch-export.json",
        "checkpoint-metrics.json",
        "inner/README.md",
    ] {
        fixture.put(&format!("checkpoint/{name}"), name);
    }
    let placed = fixture.export().unwrap();
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
    assert_eq!(fixture.read("model/checkpoint-2-metrics.json"), "metrics.json");
    assert_eq!(fixture.read("model/checkpoint-metrics.json"), "checkpoint-metrics.json");
    assert_eq!(fixture.read("model/inner/README.md"), "inner/README.md");
    assert!(fixture.read("model/README.md").starts_with("# s: trial 0"));
    fixture.export().unwrap();
}

#[test]
fn a_checkpoint_that_is_a_file_of_our_name_is_kept_under_another() {
    let fixture = ExportFixture::new();
    fixture.put("ours/README.md", "weights");
    fs::remove_dir_all(fixture.path("checkpoint")).unwrap();
    fs::rename(fixture.path("ours"), fixture.path("checkpoint")).unwrap();
    assert_eq!(
        contents::plan(&fixture.path("checkpoint/README.md"), contents::Kind::Command)
            .unwrap()
            .renamed,
        [("README.md".into(), "checkpoint-README.md".into())]
    );
}

#[test]
fn a_commands_own_digests_json_is_a_file_like_any_other() {
    let fixture = ExportFixture::new();
    fixture.put("checkpoint/digests.json", "[1, 2]");
    fixture.put("checkpoint/optimizer.safetensors", "moments");
    fixture.export().unwrap();
    assert_eq!(
        (fixture.read("model/digests.json"), fixture.read("model/optimizer.safetensors")),
        ("[1, 2]".into(), "moments".into())
    );
}

#[test]
fn holes_take_no_space_in_the_copy_and_progress_ends_at_the_whole() {
    use std::os::unix::fs::MetadataExt;
    let fixture = ExportFixture::new();
    let size = 64 << 20;
    let file = fs::File::create(fixture.path("checkpoint/weights")).unwrap();
    file.set_len(size).unwrap();
    let mut last = (0, 0);
    fixture.export_with(Otherwise::Refuse, &mut |done, of| last = (done, of)).unwrap();
    let copy = fs::metadata(fixture.path("model/weights")).unwrap();
    assert_eq!((copy.len(), last), (size, (size, size)));
    assert!(copy.blocks() * 512 < size / 8, "{} blocks", copy.blocks());
    fixture.export().unwrap();
}

#[test]
fn a_file_that_grows_is_not_copied_for_ever() {
    use std::io::Write;
    let fixture = ExportFixture::new();
    let mut growing =
        fs::OpenOptions::new().append(true).open(fixture.path("checkpoint/weights")).unwrap();
    let mut told = 0;
    let refused = fixture.export_with(Otherwise::Refuse, &mut |_, _| {
        told += 1;
        growing.write_all(b"more").unwrap();
    });
    assert!(refused.unwrap_err().to_string().contains("`weights` changed while it was copied"));
    assert_eq!((told, fixture.beside()), (1, vec!["checkpoint".to_owned()]));
}

#[test]
fn an_export_into_or_over_its_own_checkpoint_is_refused() {
    let fixture = ExportFixture::new();
    symlink("checkpoint", fixture.path("model")).unwrap();
    assert!(matches!(fixture.refusal(), Obstacle::Holds(Needed::Checkpoint, _)));
    fs::remove_file(fixture.path("model")).unwrap();
    let target = Target::new(
        &fixture.path("checkpoint/model"),
        vec![(Needed::Checkpoint, fixture.path("checkpoint"))],
    );
    assert!(matches!(
        target.unwrap_err(),
        ExportError::Occupied { why: Obstacle::LiesIn(Needed::Checkpoint, _), .. }
    ));
}

#[test]
fn a_link_to_an_export_stays_a_link() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    fs::rename(fixture.path("model"), fixture.path("elsewhere")).unwrap();
    symlink("elsewhere", fixture.path("model")).unwrap();
    fixture.put("checkpoint/weights", "two");
    fixture.export().unwrap();
    assert!(fixture.path("model").is_symlink());
    assert_eq!((fixture.read("elsewhere/weights"), fixture.beside().len()), ("two".into(), 3));
}

#[test]
fn a_model_trained_again_goes_beside_the_export_and_not_into_it() {
    let fixture = ExportFixture::new();
    fixture.export().unwrap();
    assert_eq!(default_beside(&fixture.path("model")), fixture.path("model-trained"));
    assert_eq!(default_beside(&fixture.path("model/.")), fixture.path("model-trained"));
    assert_eq!(default_beside(&fixture.path("checkpoint")), fixture.path("checkpoint/trained"));
    // The export remains one that the next replaces.
    fixture.put("model-trained/weights", "two");
    fixture.export().unwrap();
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
