//! The files that trials read, with the digests of their contents.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::arguments::PRETRAINED;
use crate::arguments::data_file::{DataFiles, folder_of};
use crate::arguments::data_format::is_on_hub;
use crate::storage::sqlite;
use crate::study::params::Value;
use crate::study::program::Program;
use crate::study::provenance::SourceFile;
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;

/// Larger files are not read, so that a study starts quickly.
const LONGEST_FILE: u64 = 4 << 30;

/// Files that a pretrained model is read from, besides its weights.
const OF_MODELS: [&str; 9] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
];

/// Endings of weights, of their index, and of SentencePiece models.
const OF_WEIGHTS: [&str; 3] = [".safetensors", ".safetensors.index.json", ".model"];

/// The files that trials read according to the study: words of its command that are files; the data
/// and the pretrained models of the trainer.
pub fn of_study(spec: &StudySpec) -> Vec<SourceFile> {
    match &spec.program {
        Program::Command { run, cwd, .. } => {
            let words = run.iter().map(|word| cwd.join(word)).filter(|path| path.is_file());
            words.map(|path| described(SourceFile::PROGRAM, &path)).collect()
        }
        Program::Trainer { .. } => {
            let data = data_of(spec).map(|(split, path)| described(split, path));
            data.chain(models_of(spec).iter().map(|path| described(SourceFile::MODEL, path)))
                .collect()
        }
        Program::Inline => Vec::new(),
    }
}

/// The paths of the trainer's data by split.
pub fn data_of(spec: &StudySpec) -> impl Iterator<Item = (&'static str, &Path)> {
    let data = match &spec.program {
        Program::Trainer { data, .. } => Some(data),
        Program::Command { .. } | Program::Inline => None,
    };
    SourceFile::DATA
        .into_iter()
        .filter_map(move |split| Some((split, Path::new(data?.get(split)?.as_str()?))))
}

/// The directories of pretrained models, fixed and searched ones.
fn models_of(spec: &StudySpec) -> Vec<PathBuf> {
    let Program::Trainer { arguments, .. } = &spec.program else { return Vec::new() };
    let fixed = arguments.get(PRETRAINED).and_then(serde_json::Value::as_str);
    let choices = spec.space.dimension(PRETRAINED).map(|dimension| &dimension.distribution);
    let searched = match choices {
        Some(Distribution::Choice { choices }) => &choices[..],
        _ => &[],
    };
    let searched = searched.iter().filter_map(|value| match value {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    });
    fixed.into_iter().chain(searched).map(PathBuf::from).filter(|path| path.is_dir()).collect()
}

/// A file, with the digest of its contents if it can be read and is not too large; a directory or a
/// pattern with that of the files behind it.
pub fn described(role: &str, path: &Path) -> SourceFile {
    let files = files_of(role, path).ok();
    let lengths = files.iter().flat_map(|files| &files.paths);
    let bytes = lengths.map(|path| fs::metadata(path).map_or(0, |metadata| metadata.len())).sum();
    let digest = files.filter(|_| bytes <= LONGEST_FILE).and_then(|files| digest(&files).ok());
    SourceFile { role: role.to_owned(), path: path.display().to_string(), bytes, digest, why: None }
}

fn files_of(role: &str, path: &Path) -> io::Result<DataFiles> {
    match role {
        SourceFile::MODEL => model_files(path),
        _ => data_files(path),
    }
}

/// What the trials of a run read, as it was when the run began.
#[derive(Clone, Debug, Default)]
pub struct KnownInputs {
    data_and_models: Vec<KnownFile>,
    programs: Vec<KnownFile>,
}

/// A file, with its stamp.
#[derive(Clone, Debug)]
struct KnownFile {
    file: SourceFile,
    stamp: Stamp,
    /// What it became, if that is something else.
    changed: Option<(SourceFile, Stamp)>,
}

/// Name, length, time of the last write and identity of each file: where these are the same, the
/// contents are not read again.
type Stamp = Vec<(PathBuf, u64, i64, i64, u64)>;

impl KnownInputs {
    /// What trials read among these files, which have just been described.
    pub fn of(files: &[SourceFile]) -> Self {
        let known = |is_meant: fn(&SourceFile) -> bool| {
            let stamped = |file: &SourceFile| KnownFile {
                file: file.clone(),
                stamp: stamp(&file.role, Path::new(&file.path)),
                changed: None,
            };
            files.iter().filter(|file| is_meant(file)).map(stamped).collect()
        };
        KnownInputs {
            data_and_models: known(|file| file.is_data_or_model() && file.role != SourceFile::TEST),
            programs: known(|file| file.role == SourceFile::PROGRAM),
        }
    }

    /// Data or a model that is not what it was, as it is now.
    pub fn changed(&mut self) -> Option<SourceFile> {
        changed(&mut self.data_and_models)
    }

    /// A file of the command itself that is not what it was, as it is now.
    pub fn changed_program(&mut self) -> Option<SourceFile> {
        changed(&mut self.programs)
    }
}

fn changed(known: &mut [KnownFile]) -> Option<SourceFile> {
    for KnownFile { file, stamp: known, changed } in known.iter_mut() {
        let path = Path::new(&file.path);
        let now = stamp(&file.role, path);
        if now == *known || file.digest.is_none() {
            continue;
        }
        if let Some((found, _)) = changed.as_ref().filter(|(_, stamp)| *stamp == now) {
            return Some(found.clone());
        }
        let found = described(&file.role, path);
        if found.digest != file.digest {
            *changed = Some((found.clone(), now));
            return Some(found);
        }
        // Written again with the same contents, which are not read once more.
        *known = now;
    }
    None
}

fn stamp(role: &str, path: &Path) -> Stamp {
    let files = files_of(role, path).map_or_else(|_| Vec::new(), |files| files.paths);
    let of_file = |path: PathBuf| {
        let found = fs::metadata(&path).ok()?;
        Some((path, found.len(), found.mtime(), found.mtime_nsec(), found.ino()))
    };
    files.into_iter().filter_map(of_file).collect()
}

/// The digest of a data file, or of a folder or pattern of them, whatever its size.
///
/// # Errors
/// A file cannot be read, or there is none.
pub fn data_digest(path: &Path) -> io::Result<String> {
    digest(&data_files(path)?)
}

/// The files behind a path of `[data]`.
///
/// # Errors
/// There is none, they are of several formats, or the path is of the Hub.
pub fn data_files(path: &Path) -> io::Result<DataFiles> {
    // What is on the Hub does not change at a commit, and is not downloaded for this.
    if is_on_hub(path) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let folder = if path.is_file() { None } else { folder_of(path, path.is_dir()) };
    let listed = folder.filter(|folder| folder.is_dir()).map(files_in).transpose()?;
    DataFiles::of(path, listed).map_err(io::Error::other)
}

fn files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    Ok(entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect())
}

fn model_files(directory: &Path) -> io::Result<DataFiles> {
    let mut paths = files_in(directory)?;
    paths.retain(|path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
            OF_MODELS.contains(&name) || OF_WEIGHTS.iter().any(|end| name.ends_with(end))
        })
    });
    paths.sort();
    Ok(DataFiles { paths, is_folder: true })
}

fn digest(files: &DataFiles) -> io::Result<String> {
    let digests = files.paths.iter().map(|path| file_digest(path));
    Ok(files.digest(digests.collect::<io::Result<Vec<_>>>()?))
}

/// BLAKE3 of a file.
///
/// # Errors
/// It cannot be read, or belongs to the store.
pub fn file_digest(path: &Path) -> io::Result<blake3::Hash> {
    // A pipe would be waited for, and a device has no end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(sqlite::open_file(path)?)?;
    Ok(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_known_by_what_they_are_read_from_and_changes_are_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("config.json", "{}");
        write("model.safetensors", "weights");
        write("rows.csv", "text,label\n");
        let data = directory.path().join("rows.csv");
        let files = [described(SourceFile::MODEL, directory.path()), described("train", &data)];
        assert_eq!(files[1].digest, Some(blake3::hash(b"text,label\n").to_hex().to_string()));
        let mut known = KnownInputs::of(&files);
        for other in ["notes.txt", "all_results.json", "README.md"] {
            write(other, "x");
        }
        // Written again, with the same contents.
        write("rows.csv", "text,label\n");
        let changed = |known: &mut KnownInputs| known.changed().map(|file| file.path);
        let path = |path: &Path| Some(path.display().to_string());
        assert_eq!(changed(&mut known), None);
        write("model.safetensors", "others");
        assert_eq!(changed(&mut known), path(directory.path()));
        write("model.safetensors", "weights");
        fs::remove_file(&data).unwrap();
        assert_eq!(changed(&mut known), path(&data));
    }

    #[test]
    fn what_is_no_file_has_no_digest() {
        assert_eq!(described("train", Path::new("/dev/zero")).digest, None);
        assert!(file_digest(Path::new("/dev/zero")).is_err());
    }
}
