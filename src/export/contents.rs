//! What of a checkpoint goes into an export, and under which names: files only, each of them read
//! once and to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::ExportError;
use super::earlier::names;
use super::marker::{self, Written};
use crate::storage::sqlite::is_open_here;

/// Files of a checkpoint that serve only to continue training.
const TRAINING_ONLY: [&str; 4] =
    ["optimizer.safetensors", "trainer_state.json", DIGESTS, "adapters.safetensors"];

/// What was saved, in checkpoints of the built-in trainer.
const DIGESTS: &str = "digests.json";

/// Names of the files that are written beside a checkpoint's.
pub(super) const OURS: [&str; 3] = ["best.toml", "metrics.json", "README.md"];

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// Directories in each other, at most.
const DEEPEST: usize = 64;

/// Files and directories, at most: links to directories can make a few look like any number.
const MOST: usize = 1_000_000;

/// Whose checkpoint it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The built-in trainer's: it has digests, and files that serve only to continue.
    Trainer,
    /// A command's, of which nothing is known.
    Command,
}

/// Why something in a checkpoint is not exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It waits for another process.
    Fifo,
    /// It belongs to a process.
    Socket,
    /// It is a part of the machine.
    Device,
    /// A link to a directory that holds the link, or the whole checkpoint.
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

/// What is to be copied, and what not.
#[derive(Debug, Default)]
pub(super) struct Plan {
    files: Vec<Planned>,
    /// Directories below the export, parents first.
    pub(super) directories: BTreeSet<PathBuf>,
    /// Bytes to read.
    pub(super) bytes: u64,
    /// What stays behind, by its path in the checkpoint.
    pub(super) left_out: Vec<(PathBuf, LeftOut)>,
    /// What has another name, since the export has a file of that name: before and after.
    pub(super) renamed: Vec<(PathBuf, PathBuf)>,
}

/// A file to be read.
#[derive(Debug)]
struct Planned {
    from: PathBuf,
    /// Where it goes below the export; `None` where it is only looked whether it is what was saved.
    to: Option<PathBuf>,
    expected: Option<String>,
}

/// Looks through a checkpoint; nothing is opened but `digests.json`.
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

/// A checkpoint being looked through.
struct Walk<'a> {
    checkpoint: &'a Path,
    /// The same, its links resolved.
    root: PathBuf,
    kind: Kind,
    plan: Plan,
    /// Device and inode of the directories that hold the one being looked at, and its own.
    above: Vec<(u64, u64)>,
    entries: usize,
}

impl Walk<'_> {
    fn damaged(&self, why: String) -> ExportError {
        ExportError::Damaged { path: self.checkpoint.to_owned(), why }
    }

    /// Takes what lies in a directory: `inner` is its path in the checkpoint, `to` in the export.
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
                return Err(self.damaged(format!("`{}` is a link to nothing", inner.display())));
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

    /// What was saved, in checkpoints that say so.
    fn digests(&self, directory: &Path) -> Result<Option<BTreeMap<String, String>>, ExportError> {
        let path = directory.join(DIGESTS);
        if self.kind == Kind::Command || !path.is_file() {
            return Ok(None);
        }
        let bytes = fs::read(&path).map_err(ExportError::io("read", &path))?;
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| self.damaged(format!("{DIGESTS}: {error}")))
    }

    /// The name in the export's directory: `checkpoint-README.md` for a `README.md` of the
    /// checkpoint's own, since the export has one; `others` are names that are taken too.
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

/// What is neither a file nor a directory.
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
    /// Copies everything into `draft`, and checks what was saved; what was written. `told` hears
    /// how many bytes of how many are read.
    pub(super) fn copy(
        &self,
        checkpoint: &Path,
        draft: &Path,
        told: &mut dyn FnMut(u64, u64),
    ) -> Result<BTreeMap<PathBuf, Written>, ExportError> {
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

/// Reads a file of the size that it has now, and writes it to `copy` if there is one.
fn copy_file(
    path: &Path,
    copy: Option<&Path>,
    damaged: &dyn Fn(&str) -> ExportError,
    read: &mut dyn FnMut(u64),
) -> Result<Written, ExportError> {
    const UNSTABLE: &str = "changed while it was copied: export again when nothing writes to it";
    // What was a file when it was looked at may be a FIFO now, and opening one waits.
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
        // Never over another file: two names that are one to the file system are an error.
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
    // One more byte: it grows.
    if from.read(&mut piece[..1]).map_err(ExportError::io("read", path))? > 0 {
        return Err(damaged(UNSTABLE));
    }
    if let Some((copy, file)) = to {
        file.set_len(bytes)
            .and_then(|()| file.sync_all())
            .map_err(ExportError::io("write", copy))?;
    }
    Ok(Written { bytes, digest: digest.finalize() })
}

/// Writes a piece, or skips it if it is a hole: what took no space does not take any in the copy.
fn write_piece(file: &mut File, piece: &[u8]) -> io::Result<()> {
    if piece.len() == PIECE && piece.iter().all(|byte| *byte == 0) {
        return file.seek_relative(PIECE as i64);
    }
    file.write_all(piece)
}
