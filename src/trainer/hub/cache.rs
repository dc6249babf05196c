//! huggingface_hub's cache: `models--org--name` and `datasets--org--name` with `blobs` by etag,
//! `snapshots/<commit>` with links to them, and `refs` to commits.

use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::super::progress::ProgressCallback;
use super::client::{Client, DownloadError, RemoteFile};

/// Attempts of a download.
const TRIES: u32 = 5;

/// Bytes per read.
const CHUNK: usize = 1 << 18;

/// The cache of a repository.
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
    /// `kind` is `models` or `datasets`.
    pub(super) fn of(root: &Path, kind: &str, repository: &str) -> Self {
        Self {
            root: root.to_owned(),
            directory: root.join(format!("{kind}--{}", repository.replace('/', "--"))),
        }
    }

    /// The commit of a revision, if cached.
    pub(super) fn commit(&self, revision: &str) -> Option<String> {
        let named = fs::read_to_string(self.directory.join("refs").join(revision)).ok();
        named
            .map(|commit| commit.trim().to_owned())
            .or_else(|| is_hex(revision, 40).then(|| revision.to_owned()))
            .filter(|commit| is_name(commit))
    }

    /// The directory of a commit.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.directory.join("snapshots").join(commit)
    }

    pub(super) fn has(&self, commit: &str, name: &str) -> bool {
        self.snapshot(commit).join(name).is_file()
    }

    /// Where the data files of a folder that is complete are listed; huggingface_hub has no such
    /// file.
    pub(super) fn listing(&self, commit: &str, folder: &str) -> PathBuf {
        let name = format!("{}.txt", folder.replace('/', "--"));
        self.directory.join(".hpsearch").join(commit).join(name)
    }

    /// Lists the data files of a folder that is complete.
    pub(super) fn set_listing(
        &self,
        commit: &str,
        folder: &str,
        names: &[String],
    ) -> Result<(), String> {
        write_whole(&self.listing(commit, folder), &names.join("\n"))
    }

    /// Records that a commit has no such file, as huggingface_hub does.
    pub(super) fn mark_missing(&self, commit: &str, name: &str) {
        let path = self.missing(commit, name);
        let _only_looked_up_again =
            path.parent().map(fs::create_dir_all).map(|_| fs::write(&path, ""));
    }

    /// Whether it is known whether a commit has a file.
    pub(super) fn knows(&self, commit: &str, name: &str) -> bool {
        self.has(commit, name) || self.missing(commit, name).is_file()
    }

    fn missing(&self, commit: &str, name: &str) -> PathBuf {
        self.directory.join(".no_exist").join(commit).join(name)
    }

    /// Sets the commit of a revision.
    pub(super) fn set_ref(&self, revision: &str, commit: &str) -> Result<(), String> {
        if revision == commit {
            return Ok(());
        }
        write_whole(&self.directory.join("refs").join(revision), commit)
    }

    /// Downloads a file, unless its content is cached, and links it into the commit's snapshot.
    pub(super) fn store(
        &self,
        client: &Client,
        file: &RemoteFile,
        commit: &str,
        name: &str,
        on_progress: ProgressCallback<'_>,
    ) -> Result<(), String> {
        if !is_name(&file.etag) {
            return Err(format!("`{name}` came with the etag `{}`, which is invalid", file.etag));
        }
        let blob = self.directory.join("blobs").join(&file.etag);
        make_parent(&blob)?;
        let locks = self.root.join(".locks").join(self.directory.file_name().unwrap_or_default());
        let lock = locks.join(format!("{}.lock", file.etag));
        make_parent(&lock)?;
        // If two processes want the same file, the second finds it complete.
        let lock = File::create(&lock).map_err(failed("write", &lock))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| format!("`{name}` cannot be locked in the cache: {error}"))?;
        if !blob.is_file() {
            fetch(client, file, &blob, name, on_progress)?;
        }
        let link = self.snapshot(commit).join(name);
        make_parent(&link)?;
        let aside = aside(&link);
        let up = "../".repeat(name.matches('/').count());
        let target = Path::new(&up).join("../../blobs").join(&file.etag);
        let _left_by_a_killed_process = fs::remove_file(&aside);
        std::os::unix::fs::symlink(target, &aside)
            .and_then(|()| fs::rename(&aside, &link))
            .map_err(failed("write", &link))
    }
}

/// Downloads to `blob` by way of `blob.incomplete`, which a later attempt resumes.
fn fetch(
    client: &Client,
    file: &RemoteFile,
    blob: &Path,
    name: &str,
    on_progress: ProgressCallback<'_>,
) -> Result<(), String> {
    let incomplete = blob.with_file_name(format!("{}.incomplete", file.etag));
    let mut last = String::new();
    for number in 0..TRIES {
        if number > 0 {
            std::thread::sleep(client.pause(number));
        }
        match try_download(client, file, &incomplete, name, on_progress) {
            Ok(()) => {
                if let Err(problem) = verify(file, &incomplete, name) {
                    fs::remove_file(&incomplete).map_err(failed("remove", &incomplete))?;
                    return Err(problem);
                }
                return fs::rename(&incomplete, blob).map_err(failed("write", blob));
            }
            Err(DownloadError::Permanent(problem)) => return Err(problem),
            Err(DownloadError::Transient(problem)) => last = problem,
        }
    }
    Err(format!(
        "`{name}` could not be downloaded in {TRIES} tries ({last}): the partial download is \
         kept, and the same command resumes it"
    ))
}

fn try_download(
    client: &Client,
    file: &RemoteFile,
    incomplete: &Path,
    name: &str,
    on_progress: ProgressCallback<'_>,
) -> Result<(), DownloadError> {
    let output = File::options().create(true).append(true).open(incomplete);
    let mut output = output.map_err(failed("write", incomplete))?;
    let mut done = output.metadata().map_err(failed("read", incomplete))?.len();
    if file.size.is_some_and(|size| done > size) {
        output.set_len(0).map_err(failed("write", incomplete))?;
        done = 0;
    }
    if file.size == Some(done) && done > 0 {
        return Ok(());
    }
    let mut body = client.body(file, done, name)?;
    if body.offset != done {
        // The server starts over.
        output.set_len(0).map_err(failed("write", incomplete))?;
        done = 0;
        if body.offset != 0 {
            let message = "the server resumed at another offset than requested";
            return Err(DownloadError::Transient(message.to_owned()));
        }
    }
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match body.reader.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(DownloadError::Transient(error.to_string())),
        };
        output.write_all(&chunk[..read]).map_err(failed("write", incomplete))?;
        done += read as u64;
        on_progress(&format!("downloading {name}"), done, file.size.unwrap_or(done));
    }
    output.sync_all().map_err(failed("write", incomplete))?;
    match file.size.filter(|size| done < *size) {
        Some(size) => {
            let message = format!("the connection ended after {done} of {size} bytes");
            Err(DownloadError::Transient(message))
        }
        None => Ok(()),
    }
}

/// Verifies the size of a download, and for large files their SHA-256, which is their etag.
fn verify(file: &RemoteFile, path: &Path, name: &str) -> Result<(), String> {
    let mut input = File::open(path).map_err(failed("read", path))?;
    let mut digest = Sha256::new();
    let bytes = std::io::copy(&mut input, &mut digest).map_err(failed("read", path))?;
    if let Some(size) = file.size.filter(|size| *size != bytes) {
        return Err(format!(
            "`{name}` has {bytes} bytes instead of {size}: it was discarded, so try again"
        ));
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if is_hex(&file.etag, 64) && file.etag != digest {
        return Err(format!(
            "`{name}` is corrupt (its SHA-256 differs): it was discarded, so try again"
        ));
    }
    Ok(())
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.chars().all(|digit| digit.is_ascii_hexdigit())
}

/// A hidden name beside a file, of this process.
fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().display().to_string();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

fn write_whole(path: &Path, text: &str) -> Result<(), String> {
    make_parent(path)?;
    let aside = aside(path);
    fs::write(&aside, text).and_then(|()| fs::rename(&aside, path)).map_err(failed("write", path))
}

fn make_parent(path: &Path) -> Result<(), String> {
    path.parent()
        .map_or(Ok(()), |parent| fs::create_dir_all(parent).map_err(failed("make", parent)))
}

fn failed(doing: &str, path: &Path) -> impl Fn(std::io::Error) -> String {
    let (doing, path) = (doing.to_owned(), path.to_owned());
    move |error| {
        format!(
            "cannot {doing} `{}` of the Hub's cache: {error}; set HF_HOME to use another directory",
            path.display()
        )
    }
}
