//! The files of a checkpoint that go into an export, with their names; each is read exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::ExportError;
use super::earlier::names;
use super::marker::{self, ExportedFile};
use crate::storage::sqlite::{is_open_here, read_file};

/// Files of a checkpoint that are only needed to continue training.
const TRAINING_ONLY: [&str; 4] =
    ["optimizer.safetensors", "trainer_state.json", DIGESTS, "adapters.safetensors"];

/// The digests of the files, in checkpoints of the built-in trainer.
const DIGESTS: &str = "digests.json";

/// Files that an export adds.
pub(super) const OURS: [&str; 3] = ["best.toml", "metrics.json", "README.md"];

/// Size of a read.
const PIECE: usize = 1 << 20;

/// Maximum depth of directories.
const DEEPEST: usize = 64;

/// Maximum number of files and directories: links to directories can multiply them.
const MOST: usize = 1_000_000;

/// The origin of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The built-in trainer: it has digests, and files that are only needed to continue.
    Trainer,
    /// A command, with unknown contents.
    Command,
}

/// Why something in a checkpoint is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Reading would block.
    Fifo,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// A link to a directory that contains the link, or the whole checkpoint.
    Circle,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::Fifo => "a FIFO",
            LeftOut::Socket => "a socket",
            LeftOut::Device => "a device",
            LeftOut::Circle => "a link to a directory that holds it",
        })
    }
}

/// What to copy, and what not.
#[derive(Debug, Default)]
pub(super) struct Plan {
    files: Vec<Planned>,
    /// Directories below the export, parents first.
    pub(super) directories: BTreeSet<PathBuf>,
    /// Total bytes to read.
    pub(super) bytes: u64,
    /// What is left out, by path in the checkpoint.
    pub(super) left_out: Vec<(PathBuf, LeftOut)>,
    /// What is renamed because the export has a file with that name: before and after.
    pub(super) renamed: Vec<(PathBuf, PathBuf)>,
}

/// A file to read.
#[derive(Debug)]
struct Planned {
    from: PathBuf,
    /// Its path in the export; `None` if it is only verified.
    to: Option<PathBuf>,
    expected: Option<String>,
}

/// Plans the export of a checkpoint; opens only `digests.json`.
pub(super) fn plan(checkpoint: &Path, kind: Kind) -> Result<Plan, ExportError> {
    let metadata = fs::metadata(checkpoint).map_err(ExportError::io("read", checkpoint))?;
    let root = fs::canonicalize(checkpoint).map_err(ExportError::io("read", checkpoint))?;
    let mut walk =
        Walk { checkpoint, root, kind, plan: Plan::default(), above: Vec::new(), entries: 0 };
    if metadata.is_dir() {
        walk.directory(checkpoint, Path::new(""), Path::new(""), &metadata)?;
    } else if metadata.is_file() {
        let name = checkpoint.file_name().unwrap_or(OsStr::new("checkpoint"));
        let to = walk.name_in_export(name, &[]);
        walk.file(checkpoint.to_owned(), Some(to), &metadata, None);
    } else {
        return Err(
            walk.damaged(format!("it is {}, neither a file nor a directory", odd(&metadata)))
        );
    }
    Ok(walk.plan)
}

/// A traversal of a checkpoint.
struct Walk<'a> {
    checkpoint: &'a Path,
    /// The same with links resolved.
    root: PathBuf,
    kind: Kind,
    plan: Plan,
    /// Device and inode of the present directory and its ancestors.
    above: Vec<(u64, u64)>,
    entries: usize,
}

impl Walk<'_> {
    fn damaged(&self, why: String) -> ExportError {
        ExportError::Damaged { path: self.checkpoint.to_owned(), why }
    }

    /// Adds a directory: `inner` is its path in the checkpoint, `to` in the export.
    fn directory(
        &mut self,
        path: &Path,
        inner: &Path,
        to: &Path,
        metadata: &Metadata,
    ) -> Result<(), ExportError> {
        if self.above.len() >= DEEPEST {
            return Err(self.damaged(format!(
                "more than {DEEPEST} directories lie in each other at `{}`",
                inner.display()
            )));
        }
        self.above.push((metadata.dev(), metadata.ino()));
        let names = names(path)?;
        let digests = self.digests(path)?;
        if let Some(missing) =
            digests.iter().flat_map(BTreeMap::keys).find(|name| !path.join(name).is_file())
        {
            return Err(self.damaged(format!("`{missing}` is missing")));
        }
        for name in &names {
            let target =
                if to == Path::new("") { self.name_in_export(name, &names) } else { to.join(name) };
            self.entry(&path.join(name), &inner.join(name), target, digests.as_ref())?;
        }
        self.above.pop();
        Ok(())
    }

    fn entry(
        &mut self,
        path: &Path,
        inner: &Path,
        to: PathBuf,
        digests: Option<&BTreeMap<String, String>>,
    ) -> Result<(), ExportError> {
        self.entries += 1;
        if self.entries > MOST {
            return Err(self.damaged(format!("it holds more than {MOST} files")));
        }
        let is_link =
            fs::symlink_metadata(path).map_err(ExportError::io("read", path))?.is_symlink();
        let metadata = match fs::metadata(path) {
            Err(_) if is_link => {
                return Err(self.damaged(format!("`{}` is a dangling link", inner.display())));
            }
            metadata => metadata.map_err(ExportError::io("read", path))?,
        };
        if metadata.is_dir() {
            let is_above = self.above.contains(&(metadata.dev(), metadata.ino()));
            if is_above
                || is_link && fs::canonicalize(path).is_ok_and(|path| self.root.starts_with(path))
            {
                self.plan.left_out.push((inner.to_owned(), LeftOut::Circle));
                return Ok(());
            }
            self.plan.directories.insert(to.clone());
            self.directory(path, inner, &to, &metadata)
        } else if metadata.is_file() {
            let name = inner.file_name().and_then(OsStr::to_str).unwrap_or_default();
            let is_taken = digests.is_none() || !TRAINING_ONLY.contains(&name);
            let expected = digests.and_then(|digests| digests.get(name)).cloned();
            self.file(path.to_owned(), is_taken.then_some(to), &metadata, expected);
            Ok(())
        } else {
            self.plan.left_out.push((inner.to_owned(), odd(&metadata)));
            Ok(())
        }
    }

    fn file(
        &mut self,
        from: PathBuf,
        to: Option<PathBuf>,
        metadata: &Metadata,
        expected: Option<String>,
    ) {
        self.plan.bytes += metadata.len();
        self.plan.files.push(Planned { from, to, expected });
    }

    /// The digests of the saved files, if the checkpoint has them.
    fn digests(&self, directory: &Path) -> Result<Option<BTreeMap<String, String>>, ExportError> {
        let path = directory.join(DIGESTS);
        if self.kind == Kind::Command || !path.is_file() {
            return Ok(None);
        }
        let bytes = read_file(&path).map_err(ExportError::io("read", &path))?;
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| self.damaged(format!("{DIGESTS}: {error}")))
    }

    /// The name in the export: `checkpoint-README.md` for a checkpoint's own `README.md`, since the
    /// export has one; `others` are further reserved names.
    fn name_in_export(&mut self, name: &OsStr, others: &[OsString]) -> PathBuf {
        let is_ours = |name: &OsStr| {
            OURS.iter().chain(&marker::NAMES).any(|ours| name.eq_ignore_ascii_case(ours))
        };
        if !is_ours(name) {
            return PathBuf::from(name);
        }
        let renamed = |number: u32| {
            let mut renamed = OsString::from(if number == 1 {
                "checkpoint-".to_owned()
            } else {
                format!("checkpoint-{number}-")
            });
            renamed.push(name);
            renamed
        };
        let free = (1..).map(renamed).find(|renamed| !others.contains(renamed)).unwrap_or_default();
        self.plan.renamed.push((PathBuf::from(name), PathBuf::from(&free)));
        PathBuf::from(free)
    }
}

/// The kind of something that is neither a file nor a directory.
fn odd(metadata: &Metadata) -> LeftOut {
    let kind = metadata.file_type();
    if kind.is_fifo() {
        LeftOut::Fifo
    } else if kind.is_socket() {
        LeftOut::Socket
    } else {
        LeftOut::Device
    }
}

impl Plan {
    /// Copies everything into `draft`, and verifies the digests; returns what was written. `told`
    /// receives the bytes read, and the total.
    pub(super) fn copy(
        &self,
        checkpoint: &Path,
        draft: &Path,
        told: &mut dyn FnMut(u64, u64),
    ) -> Result<BTreeMap<PathBuf, ExportedFile>, ExportError> {
        for directory in &self.directories {
            let path = draft.join(directory);
            fs::create_dir(&path).map_err(ExportError::io("make", &path))?;
        }
        let mut written = BTreeMap::new();
        let mut done = 0;
        for planned in &self.files {
            let damaged = |why: &str| {
                let name = planned
                    .from
                    .strip_prefix(checkpoint)
                    .ok()
                    .filter(|name| *name != Path::new(""))
                    .unwrap_or(&planned.from);
                ExportError::Damaged {
                    path: checkpoint.to_owned(),
                    why: format!("`{}` {why}", name.display()),
                }
            };
            let copy = planned.to.as_ref().map(|to| draft.join(to));
            let file = copy_file(&planned.from, copy.as_deref(), &damaged, &mut |bytes| {
                done += bytes;
                told(done, self.bytes.max(done));
            })?;
            if planned
                .expected
                .as_ref()
                .is_some_and(|expected| file.digest.to_hex().as_str() != expected)
            {
                return Err(damaged("is not what was saved"));
            }
            if let Some(to) = &planned.to {
                written.insert(to.clone(), file);
            }
        }
        Ok(written)
    }
}

/// Reads a file with its present size, and writes it to `copy` if there is one.
fn copy_file(
    path: &Path,
    copy: Option<&Path>,
    damaged: &dyn Fn(&str) -> ExportError,
    read: &mut dyn FnMut(u64),
) -> Result<ExportedFile, ExportError> {
    const UNSTABLE: &str = "changed while it was copied: export again when nothing writes to it";
    // It may have become a FIFO, which blocks when opened.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    if is_open_here(path) {
        return Err(damaged(
            "belongs to the store that is in use: export another trial with `--trial N`",
        ));
    }
    let mut from = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(ExportError::io("read", path))?;
    let metadata = from.metadata().map_err(ExportError::io("read", path))?;
    if !metadata.is_file() {
        return Err(damaged(UNSTABLE));
    }
    let bytes = metadata.len();
    let mut to = match copy {
        // Never over another file: two names that the file system does not distinguish are an
        // error.
        Some(copy) => Some((copy, File::create_new(copy).map_err(ExportError::io("write", copy))?)),
        None => None,
    };
    let (mut digest, mut piece, mut left) = (blake3::Hasher::new(), vec![0; PIECE], bytes);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let count = match from.read(&mut piece[..most]) {
            Ok(0) => return Err(damaged(UNSTABLE)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ExportError::io("read", path)(error)),
        };
        digest.update(&piece[..count]);
        if let Some((copy, file)) = &mut to {
            write_piece(file, &piece[..count]).map_err(ExportError::io("write", copy))?;
        }
        left -= count as u64;
        read(count as u64);
    }
    // Another byte: it is growing.
    if from.read(&mut piece[..1]).map_err(ExportError::io("read", path))? > 0 {
        return Err(damaged(UNSTABLE));
    }
    if let Some((copy, file)) = to {
        file.set_len(bytes)
            .and_then(|()| file.sync_all())
            .map_err(ExportError::io("write", copy))?;
    }
    Ok(ExportedFile { bytes, digest: digest.finalize() })
}

/// Writes a piece, or skips it if it is a hole, so that sparse files stay sparse.
fn write_piece(file: &mut File, piece: &[u8]) -> io::Result<()> {
    if piece.len() == PIECE && piece.iter().all(|byte| *byte == 0) {
        return file.seek_relative(PIECE as i64);
    }
    file.write_all(piece)
}

#[cfg(test)]
mod tests;
