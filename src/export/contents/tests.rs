//! What of a checkpoint is copied, and under which names.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use super::*;
use crate::export::Otherwise;
use crate::export::fixture::{ExportFixture, WHOLE};

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
    assert!(refused.contains("`inner` is a dangling link"), "{refused}");
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
        plan(&fixture.path("checkpoint/README.md"), Kind::Command).unwrap().renamed,
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
