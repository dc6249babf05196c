//! Untracked source files: small texts, kept in addition to the diff of tracked ones.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use crate::runner::ownership::MARK;
use crate::storage::sqlite::is_open_here;
use crate::study::artifact::is_of_line;
use crate::study::provenance::{Masked, SourceFile};
use crate::study::secret::is_secret_file;

/// Size limit of a file: 64 KiB.
pub const LARGEST: u64 = 64 << 10;

/// Size limit of all together: 1 MiB.
pub const MOST_BYTES: u64 = 1 << 20;

/// Most files.
pub const MOST_FILES: usize = 100;

/// Suffixes of source files.
const ENDINGS: [&str; 36] = [
    "py", "pyi", "pyx", "ipynb", "toml", "yaml", "yml", "json", "cfg", "ini", "sh", "bash", "rs",
    "c", "cc", "cpp", "h", "hpp", "cu", "cuh", "jl", "r", "R", "lua", "js", "ts", "go", "java",
    "kt", "scala", "sql", "proto", "cmake", "mk", "nix", "slurm",
];

/// Names of source files without a suffix.
const NAMES: [&str; 4] = ["Makefile", "Dockerfile", "Snakefile", "justfile"];

/// An untracked source file, and its text if kept.
pub type Source = (SourceFile, Option<String>);

/// The source files among `paths`, which are relative to `root`. One that is not kept has the
/// reason in place of its digest.
pub fn of_paths<'a>(
    root: &Path,
    paths: impl IntoIterator<Item = &'a str>,
    masked: &Masked<'_>,
) -> Vec<Source> {
    let (mut sources, mut bytes) = (Vec::new(), 0);
    for path in paths.into_iter().filter(|path| is_source(Path::new(path))) {
        if sources.len() >= MOST_FILES || is_ours(root, Path::new(path)) {
            continue;
        }
        let whole = root.join(path);
        let Ok(metadata) = fs::symlink_metadata(&whole) else { continue };
        if !metadata.is_file() || is_open_here(&whole) {
            continue;
        }
        let length = metadata.len();
        let text = if is_secret_file(path) {
            Err("not kept: its name indicates a secret")
        } else if length > LARGEST {
            Err("not kept: larger than 64 KiB")
        } else if bytes + length > MOST_BYTES {
            Err("not kept: all together are larger than 1 MiB")
        } else {
            read(&whole).ok_or("not kept: not text")
        };
        let text = text.map(|text| masked.text(&text));
        let digest = |text: &String| blake3::hash(text.as_bytes()).to_hex().to_string();
        bytes += text.as_ref().map_or(0, |text| text.len() as u64);
        let file = SourceFile {
            role: SourceFile::UNTRACKED.to_owned(),
            path: path.to_owned(),
            bytes: length,
            digest: text.as_ref().ok().map(digest),
            why: text.as_ref().err().map(|why| (*why).to_owned()),
        };
        sources.push((file, text.ok()));
    }
    sources
}

fn is_source(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    NAMES.contains(&name) || ENDINGS.contains(&ending)
}

/// Whether it is in the directory of a study's files, or in one that a client copied for a spool.
fn is_ours(root: &Path, path: &Path) -> bool {
    let mut above = path.ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty());
    above.any(|above| is_of_line(above) || root.join(above).join(MARK).exists())
}

fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > LARGEST || bytes.contains(&0) {
        return None;
    }
    String::from_utf8(bytes).ok()
}

/// A file as a diff for `git apply` that creates it.
pub fn as_new_file(path: &str, text: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut diff = format!("diff --git a/{path} b/{path}\nnew file mode 100644\n");
    if lines.is_empty() {
        return diff;
    }
    diff.push_str(&format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{} @@\n", lines.len()));
    for line in &lines {
        diff.push('+');
        diff.push_str(line);
    }
    if !text.ends_with('\n') {
        diff.push_str("\n\\ No newline at end of file\n");
    }
    diff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sources_are_kept_and_secrets_and_large_files_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let large = vec![b'x'; 65 << 10];
        for (name, text) in [
            ("new.py", &b"KEY = 'sk-0123456789'\n"[..]),
            ("large.py", &large),
            ("binary.py", b"a\0b"),
            ("my_secrets.json", b"{}"),
            (".env.toml", b"A=b"),
            ("data.csv", b"a,b"),
            ("model.pt", b"weights"),
            ("runs/files/s/.hpsearch-store", b""),
            ("runs/files/s/trial-0/config.json", b"{}"),
            ("runs/spool/x.1.files/.artifact-000000000001/a.json", b"{}"),
        ] {
            write(name, text);
        }
        let names = [
            "new.py",
            "large.py",
            "binary.py",
            "my_secrets.json",
            ".env.toml",
            "data.csv",
            "model.pt",
            "runs/files/s/trial-0/config.json",
            "runs/spool/x.1.files/.artifact-000000000001/a.json",
            "gone.py",
        ];
        let masked = Masked::new([("A", "sk-0123456789")]);
        let sources = of_paths(directory.path(), names, &masked);
        let seen: Vec<(&str, Option<&str>)> = sources
            .iter()
            .map(|(file, text)| (file.path.as_str(), text.as_deref().or(file.why.as_deref())))
            .collect();
        let secret = Some("not kept: its name indicates a secret");
        assert_eq!(
            seen,
            [
                ("new.py", Some("KEY = '...'\n")),
                ("large.py", Some("not kept: larger than 64 KiB")),
                ("binary.py", Some("not kept: not text")),
                ("my_secrets.json", secret),
                (".env.toml", secret),
            ]
        );
        assert!(sources[0].0.digest.is_some() && sources[1].0.digest.is_none());
    }

    #[test]
    fn all_together_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..20).map(|index| format!("{index}.py")).collect();
        for name in &names {
            fs::write(directory.path().join(name), vec![b'x'; 60 << 10]).unwrap();
        }
        let names = names.iter().map(String::as_str);
        let sources = of_paths(directory.path(), names, &Masked::default());
        assert_eq!(sources.iter().filter(|(_, text)| text.is_some()).count(), 17);
    }

    #[test]
    fn a_file_becomes_a_change_that_makes_it() {
        let expected = "diff --git a/a.py b/a.py\nnew file mode 100644\n--- /dev/null\n+++ \
            b/a.py\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n";
        assert_eq!(as_new_file("a.py", "one\ntwo"), expected);
    }
}
