//! Artifacts from real files: copied, referenced and rejected.

use std::os::unix::fs::{MetadataExt as _, symlink};
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
        let content = NewContent::Path { path: path.into(), copy, owner: FileOwner::Program };
        take(&self.places, NewArtifact { name: "a".to_owned(), step: Some(3), content })
    }

    fn image(&self, path: &str) -> Result<Kept, String> {
        let content = NewContent::Image { path: path.into(), owner: FileOwner::Program };
        take(&self.places, NewArtifact { name: "a".to_owned(), step: None, content })
    }

    /// Takes what the client made for a line.
    fn take_made(&self, path: &str, of: Option<&str>) -> Result<Kept, String> {
        let owner = FileOwner::Line { of: of.map(PathBuf::from) };
        let content = match of {
            Some(_) => NewContent::Path { path: path.into(), copy: None, owner },
            None => NewContent::Image { path: path.into(), owner },
        };
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

/// The beginning of an image.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

#[test]
fn a_file_is_copied_once_by_its_digest_or_referenced() {
    let site = Site::new();
    let path = site.write("model.pt", b"abc");
    let Kept { artifact, content, .. } = site.take("model.pt", None).unwrap();
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
    let referenced = site.take("other.pt", Some(false)).unwrap().artifact;
    assert_eq!((referenced.copied, site.copies().len()), (false, 1));
    assert_eq!(referenced.digest, digest_of(b"other"));
    // Relative paths are resolved in the trial's directory of checkpoints first.
    let own = site.write("checkpoints/model.pt", b"own");
    assert_eq!(site.take("model.pt", None).unwrap().artifact.path, Some(own));
}

#[test]
fn a_directory_is_a_listing_of_its_files() {
    let site = Site::new();
    site.write("data/b/two.txt", b"abc");
    site.write("data/one.txt", b"1");
    symlink("one.txt", site.directory.path().join("data/link.txt")).unwrap();
    let Kept { artifact, content, .. } = site.take("data", None).unwrap();
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
fn an_image_is_known_by_its_content() {
    let site = Site::new();
    let path = site.write("picture.png", PNG);
    let Kept { artifact, spent, .. } = site.image("picture.png").unwrap();
    assert_eq!((artifact.kind, artifact.copied, spent), (ArtifactKind::Image, true, None));
    fs::write(path, "<svg>").unwrap();
    let refused = site.image("picture.png").unwrap_err();
    assert!(refused.contains("picture.png` is not a PNG, JPEG, GIF or WebP file"), "{refused}");
}

#[test]
fn what_the_client_made_is_called_by_its_original_and_is_there_until_it_is_cleared() {
    let site = Site::new();
    let copy = site.write(".artifact-000000000001", b"abc");
    // The entry may not have been written: a second reading of the line finds the same.
    for _ in 0..2 {
        let Kept { artifact, spent, .. } =
            site.take_made(".artifact-000000000001", Some("/a/b.csv")).unwrap();
        assert_eq!(artifact.path.as_deref(), Some(Path::new("/a/b.csv")));
        assert_eq!((artifact.digest.as_str(), artifact.copied), (ABC, true));
        assert_eq!((site.copies(), spent.as_ref()), (vec![ABC.to_owned()], Some(&copy)));
    }
    let same = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(same(&copy), same(&site.places.copies.join(ABC)), "its content is copied once");
    clear([copy.clone()]);
    assert_eq!((copy.exists(), site.copies().len()), (false, 1));
    let refused = site.take_made(".artifact-000000000001", Some("/a/b.csv")).unwrap_err();
    assert_eq!(refused, "the copy of `/a/b.csv` is gone");
    let drawn = site.write(".image-000000000002.png", PNG);
    let Kept { artifact, spent, .. } = site.take_made(".image-000000000002.png", None).unwrap();
    assert_eq!((artifact.path, spent), (None, Some(drawn.clone())));
    // A directory, and one that is refused.
    site.write(".artifact-000000000003/one.txt", b"1");
    let kept = site.take_made(".artifact-000000000003", Some("/a/data")).unwrap();
    assert_eq!((kept.artifact.kind, kept.artifact.bytes), (ArtifactKind::Directory, 1));
    fs::write(drawn, "<svg>").unwrap();
    assert!(site.take_made(".image-000000000002.png", None).is_err());
    clear_files_of_lines(site.directory.path());
    assert_eq!(fs::read_dir(site.directory.path()).unwrap().count(), 1, "only `files` is left");
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
    let Kept { artifact, content, .. } = take(&site.places, new).unwrap();
    assert_eq!((artifact.digest.as_str(), content.as_deref()), (ABC, Some("abc")));
}
