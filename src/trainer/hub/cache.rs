//! The cache of huggingface_hub: `models--org--name` with `blobs` by etag, `snapshots/<commit>` that link to them, and `refs` that name commits.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::super::pace::Ticker;
use super::client::{Client, Found};

/// How often an interrupted download is taken up again.
const TRIES: u32 = 5;

/// Bytes that are read at once.
const PIECE: usize = 1 << 18;

/// A repository's part of the cache.
pub(super) struct Cache {
    root: PathBuf,
    directory: PathBuf,
}

/// Whether a commit or an etag may be part of a path.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&letter);
    !text.is_empty() && text.len() <= 200 && text.chars().all(plain) && !text.starts_with('.')
}

impl Cache {
    pub(super) fn of(root: &Path, repository: &str) -> Self {
        Self { root: root.to_owned(), directory: root.join(format!("models--{}", repository.replace('/', "--"))) }
    }

    /// The commit that a revision names, as far as the cache knows.
    pub(super) fn commit(&self, revision: &str) -> Option<String> {
        let is_hash = revision.len() == 40 && revision.chars().all(|digit| digit.is_ascii_hexdigit());
        let named = fs::read_to_string(self.directory.join("refs").join(revision)).ok().map(|commit| commit.trim().to_owned());
        named.or_else(|| is_hash.then(|| revision.to_owned())).filter(|commit| is_name(commit))
    }

    /// The files of a commit.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.directory.join("snapshots").join(commit)
    }

    pub(super) fn has(&self, commit: &str, name: &str) -> bool {
        self.snapshot(commit).join(name).is_file()
    }

    /// Remembers that a commit has no such file, as huggingface_hub does.
    pub(super) fn note_missing(&self, commit: &str, name: &str) {
        let path = self.directory.join(".no_exist").join(commit).join(name);
        // Without the note it is only asked for again.
        let _ = path.parent().map(fs::create_dir_all).map(|_| fs::write(&path, ""));
    }

    /// From now on a revision names this commit.
    pub(super) fn point(&self, revision: &str, commit: &str) -> Result<(), String> {
        if revision == commit {
            return Ok(());
        }
        let path = self.directory.join("refs").join(revision);
        make_parent(&path)?;
        let aside = path.with_file_name(format!("{}.{}", revision.rsplit('/').next().unwrap_or_default(), std::process::id()));
        fs::write(&aside, commit).and_then(|()| fs::rename(&aside, &path)).map_err(failed("write", &path))
    }

    /// Downloads a file, unless its content is here already, and links it into the commit's snapshot.
    pub(super) fn store(&self, client: &Client, found: &Found, commit: &str, name: &str, ticker: Ticker<'_>) -> Result<(), String> {
        if !is_name(&found.etag) {
            return Err(format!("`{name}` came with the etag `{}`, which is none", found.etag));
        }
        let blob = self.directory.join("blobs").join(&found.etag);
        make_parent(&blob)?;
        let lock = self.root.join(".locks").join(self.directory.file_name().unwrap_or_default()).join(format!("{}.lock", found.etag));
        make_parent(&lock)?;
        // Two processes that want the same file: the second finds it whole.
        let lock = File::create(&lock).map_err(failed("write", &lock))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| format!("`{name}` cannot be locked in the cache: {error}"))?;
        if !blob.is_file() {
            fetch(client, found, &blob, name, ticker)?;
        }
        let link = self.snapshot(commit).join(name);
        make_parent(&link)?;
        let aside = link.with_file_name(format!(".{name}.{}", std::process::id()));
        let target = Path::new("../../blobs").join(&found.etag);
        let _left_by_a_killed_process = fs::remove_file(&aside);
        std::os::unix::fs::symlink(target, &aside).and_then(|()| fs::rename(&aside, &link)).map_err(failed("write", &link))
    }
}

/// Downloads to `blob` by way of `blob.incomplete`, which a later try goes on with.
fn fetch(client: &Client, found: &Found, blob: &Path, name: &str, ticker: Ticker<'_>) -> Result<(), String> {
    let incomplete = blob.with_file_name(format!("{}.incomplete", found.etag));
    let mut last = String::new();
    for number in 0..TRIES {
        if number > 0 {
            std::thread::sleep(client.pause(number));
        }
        match try_once(client, found, &incomplete, name, ticker) {
            Ok(()) => {
                if let Err(problem) = check(found, &incomplete, name) {
                    fs::remove_file(&incomplete).map_err(failed("remove", &incomplete))?;
                    return Err(problem);
                }
                return fs::rename(&incomplete, blob).map_err(failed("write", blob));
            }
            Err(Interrupted::ForGood(problem)) => return Err(problem),
            Err(Interrupted::ForNow(problem)) => last = problem,
        }
    }
    Err(format!("`{name}` could not be downloaded in {TRIES} tries ({last}): what is there is kept, and the same command goes on with it"))
}

/// Why a download ended early.
enum Interrupted {
    /// Trying again helps.
    ForNow(String),
    /// It does not.
    ForGood(String),
}

fn try_once(client: &Client, found: &Found, incomplete: &Path, name: &str, ticker: Ticker<'_>) -> Result<(), Interrupted> {
    let good = |problem: String| Interrupted::ForGood(problem);
    let mut file = File::options().create(true).append(true).open(incomplete).map_err(failed("write", incomplete)).map_err(good)?;
    let length = |file: &File| file.metadata().map(|about| about.len()).map_err(failed("read", incomplete)).map_err(good);
    let mut done = length(&file)?;
    if found.size.is_some_and(|size| done > size) {
        file.set_len(0).map_err(failed("write", incomplete)).map_err(good)?;
        done = 0;
    }
    if found.size == Some(done) && done > 0 {
        return Ok(());
    }
    let mut answer = client.body(found, done, name).map_err(|(problem, again)| if again { Interrupted::ForNow(problem) } else { good(problem) })?;
    if answer.from != done {
        // The server begins anew.
        file.set_len(0).map_err(failed("write", incomplete)).map_err(good)?;
        done = 0;
        if answer.from != 0 {
            return Err(Interrupted::ForNow("the server went on at another place than was asked for".to_owned()));
        }
    }
    let mut piece = vec![0; PIECE];
    loop {
        let read = match answer.reader.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Interrupted::ForNow(error.to_string())),
        };
        std::io::Write::write_all(&mut file, &piece[..read]).map_err(failed("write", incomplete)).map_err(good)?;
        done += read as u64;
        ticker(&format!("downloading {name}"), done, found.size.unwrap_or(done));
    }
    file.sync_all().map_err(failed("write", incomplete)).map_err(good)?;
    match found.size {
        Some(size) if done < size => Err(Interrupted::ForNow(format!("it ended after {done} of {size} bytes"))),
        _ => Ok(()),
    }
}

/// Whether what was downloaded is what the server promised: its size, and for large files the SHA-256 that is their etag.
fn check(found: &Found, path: &Path, name: &str) -> Result<(), String> {
    let mut file = File::open(path).map_err(failed("read", path))?;
    let (mut digest, mut piece, mut bytes) = (Sha256::new(), vec![0; PIECE], 0);
    loop {
        match file.read(&mut piece).map_err(failed("read", path))? {
            0 => break,
            read => {
                digest.update(&piece[..read]);
                bytes += read as u64;
            }
        }
    }
    if let Some(size) = found.size.filter(|size| *size != bytes) {
        return Err(format!("`{name}` has {bytes} bytes where the server promised {size}: it was thrown away, so try again"));
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found.etag.len() == 64 && found.etag.chars().all(|digit| digit.is_ascii_hexdigit()) && found.etag != digest {
        return Err(format!("`{name}` is not what the server promised (its SHA-256 differs): it was thrown away, so try again"));
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<(), String> {
    path.parent().map_or(Ok(()), |parent| fs::create_dir_all(parent).map_err(failed("make", parent)))
}

fn failed(doing: &str, path: &Path) -> impl Fn(std::io::Error) -> String {
    let (doing, path) = (doing.to_owned(), path.to_owned());
    move |error| format!("cannot {doing} `{}` of the Hub's cache: {error}; HF_HOME names another place", path.display())
}
