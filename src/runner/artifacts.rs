//! Artifacts that trials announce: checked, read once for their digest, and copied under it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::{disk, threads};
use crate::config::file;
use crate::report::wording;
use crate::storage::sqlite::is_open_here;
use crate::study::artifact::{
    Artifact, ArtifactKind, COPIED_UP_TO, FileOwner, ListedFile, MOST_FILES, NewArtifact,
    NewContent, image_type, is_of_line,
};

/// Artifacts that take longer to read (a dead network mount) are rejected.
const PATIENCE: Duration = Duration::from_secs(300);

/// Size of a read.
const PIECE: usize = 1 << 20;

/// A stored artifact.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Its journal entry.
    pub artifact: Artifact,
    /// The text for the store.
    pub content: Option<String>,
    /// The file or directory of its line, for [`clear`] once the entry is written: until then a
    /// reader may have to begin again.
    pub spent: Option<PathBuf>,
}

/// Removes what lines have no more use for.
pub fn clear(spent: impl IntoIterator<Item = PathBuf>) {
    for path in spent {
        // What remains goes with its directory.
        let _later = disk::remove(&path);
    }
}

/// Removes what the client made in a directory for lines of programs that have ended.
pub fn clear_files_of_lines(directory: &Path) {
    clear(disk::entries(directory).filter(|path| is_of_line(path)));
}

/// The directories for the artifacts of a trial.
#[derive(Clone, Debug)]
pub struct Places {
    /// Where relative paths are resolved, in this order.
    pub looked_for: Vec<PathBuf>,
    /// The directory for the trial's copies; created on demand.
    pub copies: PathBuf,
}

/// Registers an artifact: its copy is durable once this returns. Blocks on disk I/O.
///
/// # Errors
/// Why it is rejected, in one sentence.
pub fn take(places: &Places, new: NewArtifact) -> Result<Kept, String> {
    let NewArtifact { name, step, content } = new;
    let of_text = |kind, text: String| {
        let artifact = Artifact {
            name: name.clone(),
            kind,
            digest: digest_of(text.as_bytes()),
            bytes: text.len() as u64,
            step,
            path: None,
            copied: false,
        };
        Ok(Kept { artifact, content: Some(text), spent: None })
    };
    let (path, want, owner) = match content {
        NewContent::Text(text) => return of_text(ArtifactKind::Text, text),
        NewContent::Table(text) => return of_text(ArtifactKind::Table, text),
        NewContent::Path { path, copy, owner } => (path, Want::File { copy }, owner),
        NewContent::Image { path, owner } => (path, Want::Image, owner),
    };
    let (tx, rx) = channel();
    let (places, shown) = (places.clone(), path.display().to_string());
    // On a separate thread, which may hang forever.
    let spawned = threads::spawn("artifact", move || {
        let _nobody_waits_any_more = tx.send(of_path(&places, (name, step), &path, want, owner));
    });
    spawned.map_err(|error| format!("`{shown}` could not be examined: {error}"))?;
    let seconds = PATIENCE.as_secs();
    rx.recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(format!("`{shown}` could not be read within {seconds} s")))
}

/// How to read a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    File { copy: Option<bool> },
    Image,
}

fn of_path(
    places: &Places,
    (name, step): (String, Option<u64>),
    path: &Path,
    want: Want,
    owner: FileOwner,
) -> Result<Kept, String> {
    if path.as_os_str().is_empty() {
        return Err("its path is empty".to_owned());
    }
    let candidates: Vec<PathBuf> = places.looked_for.iter().map(|from| from.join(path)).collect();
    let found = candidates.iter().find(|path| fs::symlink_metadata(path).is_ok());
    let (found, original, is_spent) = match (found, owner) {
        (Some(found), FileOwner::Program) => (found, Some(found.clone()), false),
        (Some(found), FileOwner::Line { of }) => (found, of, true),
        (None, FileOwner::Line { of: Some(of) }) => {
            return Err(format!("the copy of `{}` is gone", of.display()));
        }
        (None, _) => {
            let last = candidates.last().map_or(path, PathBuf::as_path);
            return Err(format!("there is no `{}`", last.display()));
        }
    };
    let shown = original.as_deref().unwrap_or(found);
    let copies = places.copies.as_path();
    let kept = contents(found, shown, want, (copies, is_spent));
    let (kind, listed, copied) = match kept {
        Ok(kept) => kept,
        Err(why) => {
            clear(is_spent.then(|| found.clone()));
            return Err(why);
        }
    };
    let content = match kind {
        ArtifactKind::Directory => {
            Some(serde_json::to_string(&listed).map_err(|error| error.to_string())?)
        }
        _ => None,
    };
    let digest = match (&content, listed.first()) {
        (Some(listing), _) => digest_of(listing.as_bytes()),
        (None, Some(file)) => file.digest.clone(),
        (None, None) => return Err(format!("`{}` is gone", shown.display())),
    };
    let bytes = listed.iter().map(|file| file.bytes).sum();
    let artifact = Artifact { name, kind, digest, bytes, step, path: original, copied };
    Ok(Kept { artifact, content, spent: is_spent.then(|| found.clone()) })
}

/// The kind of what was found, called `shown`, its files, and whether they are among the copies
/// now. A line's own are, whatever their size.
fn contents(
    found: &Path,
    shown: &Path,
    want: Want,
    (copies, is_spent): (&Path, bool),
) -> Result<(ArtifactKind, Vec<ListedFile>, bool), String> {
    let place = shown.display();
    let metadata =
        fs::metadata(found).map_err(|error| format!("`{place}` leads nowhere: {error}"))?;
    let kind = match want {
        Want::Image if metadata.is_file() => ArtifactKind::Image,
        Want::File { .. } if metadata.is_file() => ArtifactKind::File,
        Want::File { .. } if metadata.is_dir() => ArtifactKind::Directory,
        Want::Image => return Err(format!("`{place}` is not a file")),
        Want::File { .. } => {
            let what = file::what(metadata.file_type());
            return Err(format!("`{place}` is {what}, and an artifact is a file or a directory"));
        }
    };
    let sources = match kind {
        ArtifactKind::Directory => files_below(found)?,
        _ => vec![(String::new(), found.to_owned())],
    };
    let length = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let bytes: u64 = sources.iter().map(|(_, path)| length(path)).sum();
    let copied = match want {
        Want::Image => {
            check_image(found).map_err(|why| format!("`{place}` {why}"))?;
            true
        }
        Want::File { copy } => is_spent || copy.unwrap_or(bytes <= COPIED_UP_TO),
    };
    if copied && !is_spent {
        check_room(copies, bytes)?;
    }
    let mut listed = Vec::new();
    for (below, source) in &sources {
        let read = match is_spent {
            true => take_over(source, copies),
            false => read(source, copied.then_some(copies)),
        };
        let (digest, bytes) = read.map_err(|error| {
            let source = if below.is_empty() { shown.to_owned() } else { shown.join(below) };
            format!("`{}` is not kept: {error}", source.display())
        })?;
        listed.push(ListedFile { path: below.clone(), bytes, digest });
    }
    Ok((kind, listed, copied))
}

/// SHA-256 of bytes, hexadecimal.
pub fn digest_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(digest.len() * 2);
    for byte in digest {
        // Writing to a string cannot fail.
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

/// SHA-256 of a file, hexadecimal.
///
/// # Errors
/// It cannot be read, or changes meanwhile.
pub fn digest_of_file(path: &Path) -> io::Result<String> {
    Ok(read(path, None)?.0)
}

/// SHA-256 of an open file, hexadecimal, from where it is read.
///
/// # Errors
/// It cannot be read, or changes meanwhile.
pub fn digest_of_open(file: &mut File) -> io::Result<String> {
    Ok(read_open(file, None)?.0)
}

/// Reads a file: its digest and length. With a directory of copies, also copies it there under its
/// digest.
fn read(source: &Path, copies: Option<&Path>) -> io::Result<(String, u64)> {
    read_open(&mut open(source)?, copies)
}

/// Reads a line's own file, and gives it a second name among the copies; it is copied where that
/// is not possible, as on another file system.
fn take_over(source: &Path, copies: &Path) -> io::Result<(String, u64)> {
    let (digest, length) = read(source, None)?;
    let to = copies.join(&digest);
    if to.exists() {
        return Ok((digest, length));
    }
    fs::create_dir_all(copies)?;
    open(source)?.sync_all()?;
    match fs::hard_link(source, &to) {
        Ok(()) => File::open(copies)?.sync_all()?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(_) => return read(source, Some(copies)),
    }
    Ok((digest, length))
}

fn read_open(from: &mut File, copies: Option<&Path>) -> io::Result<(String, u64)> {
    let before = from.metadata()?;
    let mut draft = copies.map(Draft::new).transpose()?;
    let (mut hasher, mut length) = (Sha256::new(), 0_u64);
    let mut piece = vec![0; PIECE];
    loop {
        let count = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&piece[..count]);
        length += count as u64;
        if let Some(draft) = &mut draft {
            draft.file.write_all(&piece[..count])?;
        }
    }
    let after = from.metadata()?;
    let is_same = (before.len(), before.modified()?) == (after.len(), after.modified()?);
    if !is_same || length != after.len() {
        return Err(io::Error::other("it was written to while it was read"));
    }
    let digest = hex(&hasher.finalize());
    if let Some(draft) = draft {
        draft.place(&digest)?;
    }
    Ok((digest, length))
}

/// Opens a file for reading. It may have become a FIFO, and the store's files must not be opened
/// directly.
///
/// # Errors
/// The system's, and that it is no file.
pub fn open(path: &Path) -> io::Result<File> {
    if is_open_here(path) {
        return Err(io::Error::other("it belongs to the store that is in use"));
    }
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}

fn check_image(path: &Path) -> Result<(), String> {
    let mut beginning = [0; 12];
    let read = open(path).and_then(|mut file| file.read(&mut beginning));
    let count = read.map_err(|error| format!("cannot be read: {error}"))?;
    if image_type(&beginning[..count]).is_some() {
        return Ok(());
    }
    Err("is not a PNG, JPEG, GIF or WebP file".to_owned())
}

/// Requires twice the space, since the store needs room too.
fn check_room(copies: &Path, bytes: u64) -> Result<(), String> {
    let existing = copies.ancestors().find(|path| path.exists()).unwrap_or(copies);
    let Ok(disk) = rustix::fs::statvfs(existing) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free / 2 >= bytes {
        return Ok(());
    }
    let (takes, free) = (wording::bytes(bytes), wording::bytes(free));
    Err(format!("it takes {takes}, and only {free} are free"))
}

/// The files below a directory, by relative path.
fn files_below(root: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let real_root = fs::canonicalize(root).map_err(|error| error.to_string())?;
    let mut files = Vec::new();
    let mut directories = vec![(String::new(), root.to_owned())];
    while let Some((below, directory)) = directories.pop() {
        let place = directory.display();
        let entries = fs::read_dir(&directory)
            .map_err(|error| format!("`{place}` cannot be listed: {error}"))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("`{place}` cannot be listed: {error}"))?;
            let path = entry.path();
            let name = entry
                .file_name()
                .into_string()
                .map_err(|name| format!("`{place}` holds {name:?}, whose name is not UTF-8"))?;
            let below = if below.is_empty() { name } else { format!("{below}/{name}") };
            let kind = entry.file_type().map_err(|error| error.to_string())?;
            if kind.is_symlink() {
                check_link(&path, &real_root)?;
            }
            if kind.is_dir() {
                directories.push((below, path));
            } else if kind.is_file() || kind.is_symlink() {
                files.push((below, path));
            } else {
                let what = file::what(kind);
                return Err(format!("`{}` is {what}, which cannot be kept", path.display()));
            }
            if files.len() + directories.len() > MOST_FILES {
                let shown = root.display();
                return Err(format!("`{shown}` holds more than {MOST_FILES} files"));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// A link must lead to a file within the directory.
fn check_link(path: &Path, root: &Path) -> Result<(), String> {
    let place = path.display();
    let real = fs::canonicalize(path).map_err(|_| format!("the link `{place}` is broken"))?;
    if !real.starts_with(root) {
        let real = real.display();
        return Err(format!("the link `{place}` leads out of its directory, to `{real}`"));
    }
    if !real.is_file() {
        return Err(format!("the link `{place}` leads to something that is not a file"));
    }
    Ok(())
}

/// A copy in progress, removed unless completed. Its name contains the writer's process id, as
/// those of all drafts.
struct Draft {
    file: File,
    path: PathBuf,
    copies: PathBuf,
}

impl Draft {
    fn new(copies: &Path) -> io::Result<Draft> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        fs::create_dir_all(copies)?;
        let path = copies.join(format!(".artifact.{}-{count}.tmp", std::process::id()));
        Ok(Draft { file: File::create_new(&path)?, path, copies: copies.to_owned() })
    }

    /// Renames it to its digest; another copy of the same content may exist already.
    fn place(self, digest: &str) -> io::Result<()> {
        let to = self.copies.join(digest);
        if to.exists() {
            return Ok(());
        }
        self.file.sync_all()?;
        fs::rename(&self.path, &to)?;
        File::open(&self.copies)?.sync_all()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It no longer exists under this name once renamed.
        let _in_its_place = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;
