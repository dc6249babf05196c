//! The address of a store: a path, or `postgres://..`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::study::database_url::{is_database_url, without_password};

/// The passwords that this process was given with addresses. A mutex rather than a channel: every
/// thread that opens a store reads this plain data.
static PASSWORDS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// An address without its password, which this process keeps for when it is opened: it may be
/// printed, stored and passed on.
pub fn keep_password(address: PathBuf) -> PathBuf {
    let Address::Postgres(url) = Address::of(&address) else { return address };
    let (address, password) = without_password(url);
    if let Some(password) = password {
        let mut passwords = PASSWORDS.lock().unwrap_or_else(PoisonError::into_inner);
        passwords.insert(address.clone(), password);
    }
    PathBuf::from(address)
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

/// The directory of what belongs to a store but is not in it, such as the files of trials: that of
/// the file, or `runs` in the working directory if the store is on a server.
pub fn directory_beside(address: &Path) -> PathBuf {
    match Address::of(address) {
        Address::File(path) => path.parent().unwrap_or(Path::new("")).to_owned(),
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
        let address = keep_password(PathBuf::from("postgres://u:p@only-here/d"));
        assert_eq!(address, Path::new("postgres://u@only-here/d"));
        assert_eq!(password_of("postgres://u@only-here/d").as_deref(), Some("p"));
        assert_eq!(keep_password(PathBuf::from("a:b@c")), Path::new("a:b@c"));
    }

    #[test]
    fn a_url_is_told_from_a_path() {
        for url in ["postgres://h/d", "postgresql:///d?host=/run"] {
            assert_eq!(Address::of(Path::new(url)), Address::Postgres(url));
            assert!(is_on_server(Path::new(url)));
        }
        for path in ["runs/hpsearch.db", "postgres", "/a/postgres://h/d"] {
            assert_eq!(Address::of(Path::new(path)).file(), Some(Path::new(path)));
        }
    }
}
