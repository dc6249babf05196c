//! The files of the stores that this process has open: keeps other code from opening them, and
//! detects replaced ones.
//!
//! POSIX drops every lock that a process holds on a file when it closes any descriptor of that file
//! (SQLite, "How To Corrupt An SQLite Database File", 2.2). Without its locks a store looks unused
//! to the next reader, which deletes its log, and recent writes with it, when it closes. So code
//! that opens a path given by the user checks here first. Locks are per process, and so is this
//! list.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
#[cfg(target_os = "linux")]
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Suffixes of the WAL, its index and the rollback journal.
const ENDINGS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The magic header of an SQLite database.
const HEADER: &[u8] = b"SQLite format 3\0";

/// Number of retries: another connection of this process may be closing and have removed the log
/// already.
const LOOKS: u32 = 200;

/// Device and inode.
pub(super) type Identity = (u64, u64);

/// A file as it was when it was opened.
#[derive(Debug)]
struct OpenedFile {
    identity: Identity,
    /// Keeps the inode from being used for another file once this one is deleted. Closing such a
    /// descriptor drops no locks.
    #[cfg(target_os = "linux")]
    hold: Option<File>,
}

impl OpenedFile {
    #[cfg(target_os = "linux")]
    fn at(path: &Path) -> Option<OpenedFile> {
        let flags = rustix::fs::OFlags::PATH.bits().cast_signed();
        let hold = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok();
        let metadata = match &hold {
            Some(file) => file.metadata(),
            // Out of descriptors.
            None => fs::metadata(path),
        };
        Some(OpenedFile { identity: identity_of(&metadata.ok()?), hold })
    }

    #[cfg(not(target_os = "linux"))]
    fn at(path: &Path) -> Option<OpenedFile> {
        Some(OpenedFile { identity: identity(path)? })
    }

    /// The same file, held once more.
    #[cfg(target_os = "linux")]
    fn again(&self) -> Option<OpenedFile> {
        let hold = Some(self.hold.as_ref()?.try_clone().ok()?);
        Some(OpenedFile { identity: self.identity, hold })
    }

    #[cfg(not(target_os = "linux"))]
    fn again(&self) -> Option<OpenedFile> {
        None
    }

    /// The file's metadata, whatever its name is now.
    #[cfg(target_os = "linux")]
    fn metadata(&self) -> Option<fs::Metadata> {
        self.hold.as_ref()?.metadata().ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn metadata(&self) -> Option<fs::Metadata> {
        None
    }
}

/// Length and time of the last change of the store's file, which every process that writes to it
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    length: u64,
    changed: (i64, i64),
}

/// The length of a store, and the version of its schema, which each vacuum changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) schema: i64,
    pub(super) length: u64,
}

/// The files of one store when it was opened; the default is for a store in memory, which has none.
#[derive(Debug, Default)]
pub(super) struct Files {
    path: PathBuf,
    /// The resolved path, from which SQLite derives the names of the log and the index.
    real: PathBuf,
    /// `None` if it cannot be examined; it then counts as present.
    main: Option<OpenedFile>,
    /// Created by the first transaction, and the same until the last connection closes.
    wal: OnceLock<OpenedFile>,
    shm: OnceLock<OpenedFile>,
    /// The largest length of the index so far. It only grows while in use, and is memory-mapped:
    /// accessing a page beyond the end of a truncated file raises SIGBUS.
    longest: AtomicU64,
    /// How long the store's file is at least. A mutex rather than a channel: all connections of
    /// this process share it.
    shortest: Mutex<Option<Extent>>,
    /// Set once a connection has found the store damaged.
    damaged: AtomicBool,
    /// Where the log was set aside, since another file lies at the path of the store. Shared in the
    /// same way.
    aside: Mutex<Option<PathBuf>>,
}

/// A file that was replaced after it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchanged {
    /// Its suffix: empty, `-wal` or `-shm`.
    pub(super) ending: &'static str,
    /// What became of it.
    pub(super) what: &'static str,
}

/// A store whose file was changed in place.
pub(super) const OVERWRITTEN: Exchanged =
    Exchanged { ending: "", what: "was overwritten by an older or another one" };
const TRUNCATED: &str = "was truncated";

/// What follows the name of a log that was set aside.
const SET_ASIDE: &str = ".replaced";

impl Exchanged {
    /// Whether the store's file was changed, and is where it was.
    pub(super) fn is_in_place(self) -> bool {
        self.ending.is_empty() && [TRUNCATED, OVERWRITTEN.what].contains(&self.what)
    }
}

// A mutex rather than a channel: every thread that opens a file reads this plain data.
static OPEN: Mutex<Vec<Weak<Files>>> = Mutex::new(Vec::new());

fn open_files() -> MutexGuard<'static, Vec<Weak<Files>>> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|files| files.strong_count() > 0);
    open
}

/// A store whose log was set aside.
#[derive(Debug)]
struct SetAside {
    main: OpenedFile,
    real: PathBuf,
    log: PathBuf,
}

/// Those that this process knows. Kept, so that their inodes are not used again.
static ASIDE: Mutex<Vec<SetAside>> = Mutex::new(Vec::new());

fn set_aside() -> MutexGuard<'static, Vec<SetAside>> {
    ASIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts the log of a store back that this process has set aside, if the store is back at its path.
pub(super) fn put_log_back(path: &Path) {
    let Some(identity) = identity(path) else { return };
    set_aside().retain(|store| store.main.identity != identity || !store.put_back());
}

impl SetAside {
    /// Whether the log is back.
    fn put_back(&self) -> bool {
        let [wal, shm] = ["-wal", "-shm"].map(|ending| with_ending(&self.real, ending));
        if wal.exists() || shm.exists() {
            return false;
        }
        let log = self.log.as_os_str().as_encoded_bytes();
        let end = &log[wal.as_os_str().len()..];
        let aside = with_ending(&shm, &String::from_utf8_lossy(end));
        // Rebuilt if it is not there; a store in use misses it.
        let _rebuilt = fs::rename(aside, shm);
        fs::rename(&self.log, wal).is_ok()
    }
}

impl Files {
    /// The files of a store that a connection has just been opened to, and has read. All
    /// connections of a process share them.
    pub(super) fn of(path: &Path) -> Result<Arc<Files>, Exchanged> {
        let mut looks = LOOKS;
        loop {
            let files = Files::look(path);
            let mut open = open_files();
            let Some(known) = open
                .iter()
                .filter_map(Weak::upgrade)
                .find(|known| files.main.is_some() && known.main() == files.main())
            else {
                let files = Arc::new(files);
                open.push(Arc::downgrade(&files));
                return Ok(files);
            };
            match known.check() {
                Ok(()) => {
                    known.learn();
                    return Ok(known);
                }
                Err(exchanged) if looks == 0 => return Err(exchanged),
                Err(_) => looks -= 1,
            }
            drop((known, open));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The files of a store that was opened without its log and index.
    pub(super) fn without_log(path: &Path) -> Arc<Files> {
        let files = Arc::new(Files::at(path));
        open_files().push(Arc::downgrade(&files));
        files
    }

    fn look(path: &Path) -> Files {
        let files = Files::at(path);
        files.learn();
        files
    }

    fn at(path: &Path) -> Files {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Files {
            path: path.to_owned(),
            main: OpenedFile::at(path),
            real,
            wal: OnceLock::new(),
            shm: OnceLock::new(),
            longest: AtomicU64::new(0),
            shortest: Mutex::new(None),
            damaged: AtomicBool::new(false),
            aside: Mutex::new(None),
        }
    }

    /// Records the log and the index once they exist: after a connection has read, which keeps them
    /// open from then on.
    pub(super) fn learn(&self) {
        for (known, ending) in [(&self.wal, "-wal"), (&self.shm, "-shm")] {
            if self.main.is_some()
                && known.get().is_none()
                && let Some(file) = OpenedFile::at(&self.beside(ending))
            {
                known.get_or_init(|| file);
            }
        }
    }

    /// Records that the store is damaged: no connection of this process writes its log back.
    pub(super) fn note_damage(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    pub(super) fn are_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    fn main(&self) -> Option<Identity> {
        self.main.as_ref().map(|known| known.identity)
    }

    /// The contents of the store's file wherever it is now; `None` if they cannot be examined.
    pub(super) fn contents(&self) -> Option<Contents> {
        let found = self.main.as_ref()?.metadata()?;
        Some(Contents { length: found.len(), changed: (found.mtime(), found.mtime_nsec()) })
    }

    fn wal(&self) -> Option<Identity> {
        self.wal.get().map(|known| known.identity)
    }

    fn shm(&self) -> Option<Identity> {
        self.shm.get().map(|known| known.identity)
    }

    /// The path of the store with an ending.
    pub(super) fn beside(&self, ending: &str) -> PathBuf {
        with_ending(&self.real, ending)
    }

    /// An error if one of the files is not at its path any more.
    pub(super) fn check(&self) -> Result<(), Exchanged> {
        let ones = [
            ("", self.main(), &self.path),
            ("-wal", self.wal(), &self.beside("-wal")),
            ("-shm", self.shm(), &self.beside("-shm")),
        ];
        ones.into_iter()
            .filter_map(|(ending, known, path)| Some((ending, known?, path)))
            .try_for_each(|(ending, known, path)| {
                let what = match fs::metadata(path) {
                    Ok(metadata) if identity_of(&metadata) == known => {
                        let shortest = match ending {
                            "-shm" => self.longest.fetch_max(metadata.len(), Ordering::Relaxed),
                            // A store in use has at least its first page.
                            "" => 1,
                            _ => 0,
                        };
                        if metadata.len() >= shortest {
                            return Ok(());
                        }
                        TRUNCATED
                    }
                    Ok(_) => "was replaced by another file",
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::NotFound | ErrorKind::NotADirectory
                        ) && ending.is_empty() =>
                    {
                        "was moved or deleted"
                    }
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::NotFound | ErrorKind::NotADirectory
                        ) =>
                    {
                        "was removed"
                    }
                    // Without permission nothing can be determined.
                    Err(_) => return Ok(()),
                };
                Err(Exchanged { ending, what })
            })
    }

    /// An error if the store's file is shorter than it can be: it grows only, by checkpoints, until
    /// it is vacuumed. `extent` asks SQLite.
    pub(super) fn check_length(
        &self,
        extent: impl Fn() -> Option<Extent>,
    ) -> Result<(), Exchanged> {
        let mut shortest = self.shortest.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Contents { length, .. }) = self.contents() else { return Ok(()) };
        if shortest.is_some_and(|shortest| shortest.length == length) {
            return Ok(());
        }
        let Some(now) = extent() else { return Ok(()) };
        let is_short = |shortest: Extent| {
            length < shortest.length
                && now.schema == shortest.schema
                && now.length >= shortest.length
        };
        if shortest.is_some_and(is_short) {
            return Err(OVERWRITTEN);
        }
        // Part of it may be in the log only, or be cut off by the checkpoint of a vacuum.
        *shortest = Some(Extent { length: length.min(now.length), ..now });
        Ok(())
    }

    /// Renames the log and its index if the file that lies at the path of the store is not the
    /// one that they belong to: SQLite would apply them to it. `exchanged`: what happened to the
    /// store.
    pub(super) fn set_log_aside(&self, exchanged: Exchanged) {
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = fs::metadata(&self.path).is_ok_and(|metadata| {
            let is_other = Some(identity_of(&metadata)) != self.main();
            // An empty one is not opened beside a log.
            metadata.len() > 0 && (is_other || exchanged.is_in_place())
        });
        if !exchanged.ending.is_empty() || aside.is_some() || !is_other || !self.has_own_log() {
            return;
        }
        let is_free = |end: &String| !self.beside(&format!("-wal{end}")).exists();
        let numbered = (2..).map(|number| format!("{SET_ASIDE}-{number}"));
        let ends = std::iter::once(SET_ASIDE.to_owned()).chain(numbered);
        let Some(end) = ends.take(LOOKS as usize).find(is_free) else { return };
        let log = self.beside(&format!("-wal{end}"));
        if fs::rename(self.beside("-wal"), &log).is_ok() {
            if self.has_own_index() {
                let to = self.beside(&format!("-shm{end}"));
                let _rebuilt_for_another_log = fs::rename(self.beside("-shm"), to);
            }
            if let Some(main) = self.main.as_ref().and_then(OpenedFile::again) {
                set_aside().push(SetAside { main, real: self.real.clone(), log: log.clone() });
            }
            *aside = Some(log);
        }
    }

    /// Undoes that for a store that is back.
    pub(super) fn put_log_back(&self) {
        put_log_back(&self.path);
        if self.has_own_log() {
            self.aside.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Where the log was set aside.
    pub(super) fn log_set_aside(&self) -> Option<PathBuf> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The length of the file at the path of the log, if it is not the log that was opened.
    pub(super) fn other_log(&self) -> Option<u64> {
        let metadata = fs::metadata(self.beside("-wal")).ok()?;
        (Some(identity_of(&metadata)) != self.wal()).then_some(metadata.len())
    }

    /// Whether the log that was opened is at its path.
    pub(super) fn has_own_log(&self) -> bool {
        self.wal().is_some() && identity(&self.beside("-wal")) == self.wal()
    }

    pub(super) fn has_own_index(&self) -> bool {
        self.shm().is_some() && identity(&self.beside("-shm")) == self.shm()
    }

    pub(super) fn is_log(&self, identity: Identity) -> bool {
        self.wal() == Some(identity)
    }

    /// Whether this process has opened this file as one of the store's. Of a file that it does not
    /// know, it may have opened the one that is there.
    fn opened(&self, identity: Identity) -> bool {
        [("", self.main()), ("-wal", self.wal()), ("-shm", self.shm())].iter().any(
            |(ending, known)| match known {
                Some(known) => *known == identity,
                None => self::identity(&self.beside(ending)) == Some(identity),
            },
        )
    }

    fn has(&self, path: &Path, identity: Option<Identity>) -> bool {
        let is_known = |known: Option<Identity>| known.is_some() && known == identity;
        let is_there =
            |ending: &&str| identity.is_some() && self::identity(&self.beside(ending)) == identity;
        let is_named = |ending: &&str| *path == self.beside(ending);
        is_known(self.main())
            || is_known(self.wal())
            || is_known(self.shm())
            || *path == self.real
            || ENDINGS.iter().any(|ending| is_there(ending) || is_named(ending))
    }
}

fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().as_ref().map(identity_of)
}

fn identity_of(metadata: &fs::Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// The path of the file beside a store with this suffix.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Whether `path` is a file of a store that this process has open: the store, its log, its index,
/// or another name of one of them. Such a file must not be opened directly or replaced.
pub fn is_open_here(path: &Path) -> bool {
    let identity = identity(path);
    // A file that does not exist yet is identified by its directory and name.
    let named = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent == Path::new("") { Path::new(".") } else { parent };
            fs::canonicalize(parent).map_or_else(|_| path.to_owned(), |parent| parent.join(name))
        }
        _ => path.to_owned(),
    };
    open_files().iter().filter_map(Weak::upgrade).any(|files| files.has(&named, identity))
}

/// Opens a file given by the user for reading, unless it belongs to a store that this process has
/// open.
///
/// # Errors
/// It cannot be opened, or belongs to such a store.
pub fn open_file(path: &Path) -> io::Result<File> {
    if is_open_here(path) {
        return Err(io::Error::new(
            ErrorKind::ResourceBusy,
            "it belongs to the store that is in use",
        ));
    }
    File::open(path)
}

/// Reads such a file completely.
///
/// # Errors
/// It cannot be read, or belongs to such a store.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a file is an SQLite database, by its first bytes. One that this process has open is; its
/// log and index are not, nor is anything that is not a regular file.
///
/// # Errors
/// The file exists and cannot be read.
pub fn is_database(path: &Path) -> io::Result<bool> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Ok(false);
    }
    let identity = identity_of(&metadata);
    let open = open_files().iter().filter_map(Weak::upgrade).find(|files| files.opened(identity));
    if let Some(open) = open {
        return Ok(open.main() == Some(identity));
    }
    let mut bytes = [0; HEADER.len()];
    match File::open(path)?.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(bytes == HEADER),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::sqlite::{SqliteReader, SqliteStore};

    #[test]
    fn a_file_is_missed_when_it_is_moved_replaced_or_deleted_and_found_when_it_is_back() {
        let directory = tempfile::tempdir().unwrap();
        for ending in ["", "-wal", "-shm"] {
            let store = directory.path().join(format!("a{ending}.db"));
            for each in ["", "-wal", "-shm"] {
                fs::write(with_ending(&store, each), "x").unwrap();
            }
            let (path, away) = (with_ending(&store, ending), directory.path().join("b"));
            let files = Files::of(&store).unwrap();
            files.check().unwrap();
            fs::rename(&path, &away).unwrap();
            let gone = if ending.is_empty() { "was moved or deleted" } else { "was removed" };
            assert_eq!(files.check(), Err(Exchanged { ending, what: gone }));
            fs::write(&path, "x").unwrap();
            assert_eq!(
                files.check(),
                Err(Exchanged { ending, what: "was replaced by another file" })
            );
            fs::rename(&away, &path).unwrap();
            files.check().unwrap();
        }
    }

    #[test]
    fn every_name_of_a_stores_files_is_known_while_it_is_open_and_no_longer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hpsearch.db");
        let store = SqliteStore::open(&path).unwrap();
        let (link, soft, other) = (
            directory.path().join("link"),
            directory.path().join("soft"),
            directory.path().join("other"),
        );
        fs::hard_link(with_ending(&path, "-shm"), &link).unwrap();
        std::os::unix::fs::symlink(&path, &soft).unwrap();
        fs::write(&other, "x").unwrap();
        for name in [
            path.clone(),
            with_ending(&path, "-wal"),
            with_ending(&path, "-shm"),
            with_ending(&path, "-journal"),
            link,
            soft.clone(),
        ] {
            assert!(is_open_here(&name), "{}", name.display());
            assert!(open_file(&name).is_err() && read_file(&name).is_err());
        }
        assert!(
            !is_open_here(&other)
                && read_file(&other).unwrap() == b"x"
                && !is_open_here(&directory.path().join("no such/file"))
        );
        drop(store);
        assert!(!is_open_here(&path) && !is_open_here(&soft));
        let reader = SqliteReader::open(&path).unwrap();
        assert!(is_open_here(&path));
        drop(reader);
    }

    #[test]
    fn a_new_file_is_not_taken_for_one_that_was_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hpsearch.db");
        fs::write(&path, "x").unwrap();
        let files = Files::of(&path).unwrap();
        fs::remove_file(&path).unwrap();
        // Most file systems give the next file the inode of the last one that was deleted.
        for number in 0..100 {
            let other = directory.path().join(number.to_string());
            fs::write(&other, "x").unwrap();
            assert!(!is_open_here(&other), "{number}");
        }
        drop(files);
    }

    #[test]
    fn a_database_is_known_by_how_it_begins() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("any name");
        drop(SqliteStore::open(&path).unwrap());
        assert!(is_database(&path).unwrap());
        let _open = SqliteReader::open(&path).unwrap();
        assert!(is_database(&path).unwrap(), "it is not opened for that");
        assert!(!is_database(&with_ending(&path, "-wal")).unwrap());
        let text = directory.path().join("text");
        fs::write(&text, "SQLite").unwrap();
        assert!(!is_database(&text).unwrap() && !is_database(directory.path()).unwrap());
        assert!(is_database(&directory.path().join("none")).is_err());
    }

    #[test]
    fn connections_that_are_opened_and_closed_at_once_are_not_taken_for_an_exchange() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hpsearch.db");
        drop(SqliteStore::open(&path).unwrap());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| drop(SqliteReader::open(&path).unwrap())));
            }
        });
    }
}
