//! Artifacts from real files: copied, referenced and rejected.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;

struct Site {
    directory: tempfile::TempDir,
    places: Places,
}

impl Site {
    fn new() -> Site {
        let directory = tempfile::tempdir().unwrap();
        let copies = directory.path().join("files/s/trial-0/artifacts");
        let looked_for = vec![directory.path().join("checkpoints"), directory.path().to_owned()];
        Site { directory, places: Places { looked_for, copies } }
    }

    fn write(&self, name: &str, text: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn take(&self, path: &str, copy: Option<bool>) -> Result<Kept, String> {
        let content = NewContent::Path { path: path.into(), copy };
        take(&self.places, NewArtifact { name: "a".to_owned(), step: Some(3), content })
    }

    fn image(&self, path: &str, moved: bool) -> Result<Kept, String> {
        let content = NewContent::Image { path: path.into(), moved };
        take(&self.places, NewArtifact { name: "a".to_owned(), step: None, content })
    }

    fn copies(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.places.copies)
            .map(|entries| {
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
            })
            .unwrap_or_default();
        names.sort();
        names
    }
}

/// As `printf abc | sha256sum` prints it.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn a_file_is_copied_once_by_its_digest_or_referenced() {
    let site = Site::new();
    let path = site.write("model.pt", b"abc");
    let (artifact, content) = site.take("model.pt", None).unwrap();
    let expected = Artifact {
        name: "a".to_owned(),
        kind: ArtifactKind::File,
        digest: ABC.to_owned(),
        bytes: 3,
        step: Some(3),
        path: Some(path),
        copied: true,
    };
    assert_eq!((artifact, content), (expected, None));
    assert_eq!(fs::read(site.places.copies.join(ABC)).unwrap(), b"abc");
    site.write("same.pt", b"abc");
    site.take("same.pt", None).unwrap();
    assert_eq!(site.copies(), [ABC]);
    site.write("other.pt", b"other");
    let (referenced, _) = site.take("other.pt", Some(false)).unwrap();
    assert_eq!((referenced.copied, site.copies().len()), (false, 1));
    assert_eq!(referenced.digest, digest_of(b"other"));
    // Relative paths are resolved in the trial's directory of checkpoints first.
    let own = site.write("checkpoints/model.pt", b"own");
    assert_eq!(site.take("model.pt", None).unwrap().0.path, Some(own));
}

#[test]
fn a_directory_is_a_listing_of_its_files() {
    let site = Site::new();
    site.write("data/b/two.txt", b"abc");
    site.write("data/one.txt", b"1");
    symlink("one.txt", site.directory.path().join("data/link.txt")).unwrap();
    let (artifact, content) = site.take("data", None).unwrap();
    let listed: Vec<ListedFile> = serde_json::from_str(&content.clone().unwrap()).unwrap();
    let paths: Vec<&str> = listed.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["b/two.txt", "link.txt", "one.txt"]);
    assert_eq!((listed[0].digest.as_str(), artifact.bytes), (ABC, 5));
    assert_eq!(artifact.digest, digest_of(content.unwrap().as_bytes()));
    assert_eq!(site.copies().len(), 2);
    symlink("/etc/hostname", site.directory.path().join("data/out")).unwrap();
    let refused = site.take("data", None).unwrap_err();
    assert!(refused.contains("leads out of its directory"), "{refused}");
}

#[test]
fn what_is_no_file_is_refused_and_leaves_nothing() {
    let site = Site::new();
    let fifo = site.directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    symlink("nowhere", site.directory.path().join("broken")).unwrap();
    for (path, why) in
        [("", "empty"), ("missing", "there is no `"), ("pipe", "pipe"), ("broken", "nowhere")]
    {
        let refused = site.take(path, None).unwrap_err();
        assert!(refused.contains(why), "{path:?}: {refused}");
    }
    assert_eq!(site.copies(), Vec::<String>::new());
}

#[test]
fn an_image_is_known_by_its_content_and_may_be_moved() {
    let site = Site::new();
    let path = site.write("picture.png", b"\x89PNG\r\n\x1a\nrest");
    let (artifact, _) = site.image("picture.png", false).unwrap();
    assert_eq!((artifact.kind, artifact.copied, path.exists()), (ArtifactKind::Image, true, true));
    let (artifact, _) = site.image("picture.png", true).unwrap();
    assert_eq!((artifact.path, path.exists()), (None, false));
    site.write("picture.png", b"<svg>");
    let refused = site.image("picture.png", true).unwrap_err();
    assert!(refused.contains("is not a PNG, JPEG, GIF or WebP file"), "{refused}");
}

#[test]
fn a_copy_that_fails_in_the_middle_is_no_copy() {
    let site = Site::new();
    let source = site.write("model.pt", b"abc");
    let draft = Draft::new(&site.places.copies).unwrap();
    assert_eq!(site.copies().len(), 1);
    drop(draft);
    assert_eq!(site.copies(), Vec::<String>::new());
    // A directory in place of the copy makes the rename fail.
    fs::create_dir_all(site.places.copies.parent().unwrap()).unwrap();
    fs::remove_dir_all(&site.places.copies).unwrap();
    fs::write(&site.places.copies, "").unwrap();
    assert!(read(&source, Some(&site.places.copies)).is_err());
}

#[test]
fn texts_and_tables_go_into_the_store() {
    let site = Site::new();
    let content = NewContent::Text("abc".to_owned());
    let new = NewArtifact { name: "t".to_owned(), step: None, content };
    let (artifact, content) = take(&site.places, new).unwrap();
    assert_eq!((artifact.digest.as_str(), content.as_deref()), (ABC, Some("abc")));
}
