//! The address of a store: a path, or `postgres://..`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::study::database_url::{is_database_url, without_password};

/// The passwords that this process was given with addresses. A mutex rather than a channel: every
/// thread that opens a store reads this plain data.
static PASSWORDS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// An address as it was given, in the form that may be printed, stored and passed on: without its
/// password, which this process keeps for when it is opened, and with the path of a file for
/// `sqlite:///relative.db` and `sqlite:////absolute.db`, as Optuna and SQLAlchemy write it.
pub fn as_given(address: PathBuf) -> PathBuf {
    let Address::Postgres(url) = Address::of(&address) else {
        let path = address.to_str().and_then(file_of_url).map(PathBuf::from);
        return path.unwrap_or(address);
    };
    let (address, password) = without_password(url);
    if let Some(password) = password {
        let mut passwords = PASSWORDS.lock().unwrap_or_else(PoisonError::into_inner);
        passwords.insert(address.clone(), password);
    }
    PathBuf::from(address)
}

/// The path in an SQLite URL; `None` for others, and for those of databases in memory.
fn file_of_url(text: &str) -> Option<&str> {
    let path = text.strip_prefix("sqlite:///")?;
    (!path.is_empty() && path != ":memory:" && !path.contains('?')).then_some(path)
}

/// A URL that is no address of a store.
#[derive(Debug, thiserror::Error)]
#[error(
    "a file is named by its path, `sqlite:///relative.db` or `sqlite:////absolute.db`, a \
         database of a server by `postgres://..`"
)]
pub struct OtherUrl {
    /// Its beginning. The rest may hold a password, which is not printed.
    pub address: String,
}

/// Rejects URLs that are no addresses of stores, which would be names of directories.
///
/// # Errors
/// It begins like a URL, and not like one of PostgreSQL.
pub fn refuse_other_urls(address: &Path) -> Result<(), OtherUrl> {
    let Address::File(path) = Address::of(address) else { return Ok(()) };
    let Some((scheme, _)) = path.to_str().and_then(|text| text.split_once("://")) else {
        return Ok(());
    };
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+';
    if !scheme.bytes().all(is_scheme) {
        return Ok(());
    }
    Err(OtherUrl { address: format!("{scheme}://..") })
}

/// The password that came with an address.
pub fn password_of(address: &str) -> Option<String> {
    PASSWORDS.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned()
}

/// Where a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address<'a> {
    /// An SQLite file.
    File(&'a Path),
    /// A database of a PostgreSQL server, as libpq writes it: `postgres://user@host:port/database`.
    Postgres(&'a str),
}

impl<'a> Address<'a> {
    /// What an address names.
    pub fn of(address: &'a Path) -> Self {
        let url = address.to_str().filter(|text| is_database_url(text));
        url.map_or(Address::File(address), Address::Postgres)
    }

    /// The path of the file, if it is one.
    pub fn file(self) -> Option<&'a Path> {
        if let Address::File(path) = self { Some(path) } else { None }
    }
}

/// Where symbolic links lead, also to a file that is not there.
pub(super) fn target(path: &Path) -> PathBuf {
    const MOST_LINKS: u32 = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(link) = std::fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    path
}

/// The directory of what belongs to a store but is not in it, such as the files of trials: that of
/// the file itself, not of a symbolic link to it, or `runs` in the working directory if the store
/// is on a server.
pub fn directory_beside(address: &Path) -> PathBuf {
    match Address::of(address) {
        Address::File(path) => target(path).parent().unwrap_or(Path::new("")).to_owned(),
        Address::Postgres(_) => PathBuf::from(RUNS),
    }
}

/// The address as it is valid in every directory.
///
/// # Errors
/// The working directory cannot be determined.
pub fn absolute(address: &Path) -> io::Result<PathBuf> {
    match Address::of(address) {
        Address::File(path) => std::path::absolute(path),
        Address::Postgres(_) => Ok(address.to_owned()),
    }
}

/// The directory of files of stores on servers, beside the study file.
pub const RUNS: &str = "runs";

/// Whether a store is a database of a server.
pub fn is_on_server(address: &Path) -> bool {
    matches!(Address::of(address), Address::Postgres(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_kept_apart_from_its_address() {
        let address = as_given(PathBuf::from("postgres://u:p@only-here/d"));
        assert_eq!(address, Path::new("postgres://u@only-here/d"));
        assert_eq!(password_of("postgres://u@only-here/d").as_deref(), Some("p"));
        assert_eq!(as_given(PathBuf::from("a:b@c")), Path::new("a:b@c"));
    }

    #[test]
    fn an_sqlite_url_is_the_path_of_its_file() {
        for (url, path) in [
            ("sqlite:///runs/a.db", "runs/a.db"),
            ("sqlite:////data/a.db", "/data/a.db"),
            ("./sqlite:///a.db", "./sqlite:///a.db"),
        ] {
            let given = as_given(PathBuf::from(url));
            assert_eq!(given, Path::new(path));
            assert!(refuse_other_urls(&given).is_ok());
        }
    }

    #[test]
    fn other_urls_are_refused_without_their_passwords() {
        for url in [
            "sqlite://",
            "sqlite:///",
            "sqlite:///:memory:",
            "sqlite://a.db",
            "sqlite:///a.db?timeout=3",
            "mysql+pymysql://u:secret@h/d",
        ] {
            let refused = refuse_other_urls(&as_given(PathBuf::from(url))).unwrap_err().to_string();
            assert!(refused.contains("`sqlite:////absolute.db`"), "{refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn a_url_is_told_from_a_path() {
        for url in ["postgres://h/d", "postgresql:///d?host=/run"] {
            assert_eq!(Address::of(Path::new(url)), Address::Postgres(url));
            assert!(is_on_server(Path::new(url)) && refuse_other_urls(Path::new(url)).is_ok());
        }
        for path in ["runs/hpsearch.db", "postgres", "/a/postgres://h/d"] {
            assert_eq!(Address::of(Path::new(path)).file(), Some(Path::new(path)));
        }
    }
}
