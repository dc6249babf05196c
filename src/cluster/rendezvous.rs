//! The file by which agents find their runner: its addresses and the token, readable by its owner
//! only. A runner that takes over replaces it, so that agents find the new one.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::frames::Token;
use crate::config::file;
use crate::runner::ownership;

/// The file's name in a study's directory of files.
pub const FILE: &str = ownership::AGENTS;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendezvous {
    /// The study's name, for users.
    pub study: String,
    /// The runner's host.
    pub host: String,
    /// `host:port`, to be tried in this order.
    pub addresses: Vec<String>,
    /// The directory that agents have to see at the same path, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_dir: Option<PathBuf>,
    /// The token in hexadecimal digits.
    token: String,
}

impl Rendezvous {
    /// For a listener at `local`; `host`: this machine's name; `before`: what a runner that this
    /// one replaces has written, whose token stays.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(
        study: &str,
        local: SocketAddr,
        host: &str,
        before: Option<&Rendezvous>,
    ) -> io::Result<Self> {
        let mut token = Token::default();
        match before.and_then(Rendezvous::token) {
            Some(kept) => token = kept,
            None => File::open("/dev/urandom")?.read_exact(&mut token)?,
        }
        let port = local.port();
        let addresses = if local.ip().is_unspecified() {
            // A name that other machines resolve is best; its address is what is left otherwise.
            let own = outward_address().map(|address| SocketAddr::new(address.ip(), port));
            std::iter::once(format!("{host}:{port}"))
                .chain(own.map(|own| own.to_string()))
                .collect()
        } else {
            vec![local.to_string()]
        };
        let token = token.iter().map(|byte| format!("{byte:02x}")).collect();
        let (study, host) = (study.to_owned(), host.to_owned());
        Ok(Rendezvous { study, host, addresses, shared_dir: None, token })
    }

    /// The same for agents that share this directory with the runner.
    #[must_use]
    pub fn sharing(self, directory: Option<PathBuf>) -> Self {
        Rendezvous { shared_dir: directory, ..self }
    }

    /// The port of its addresses.
    pub fn port(&self) -> Option<u16> {
        self.addresses.first()?.rsplit_once(':')?.1.parse().ok()
    }

    /// The token; `None` if the file was edited.
    pub fn token(&self) -> Option<Token> {
        let mut token = Token::default();
        let digits = self.token.as_bytes().chunks_exact(2);
        if self.token.len() != 2 * token.len() {
            return None;
        }
        for (byte, pair) in token.iter_mut().zip(digits) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(token)
    }

    /// Writes the file at once, so that no reader sees half of it.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let draft = draft_of(path);
        // One that a killed runner left may have other permissions.
        let _none_there = fs::remove_file(&draft);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// It is not there, or something else.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_str(&file::read_to_string(path)?)?)
    }
}

fn draft_of(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.draft", std::process::id()))
}

/// The address that this machine uses towards others. Nothing is sent: the system only chooses.
fn outward_address() -> Option<SocketAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_written_is_read_and_only_its_owner_may() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let local = "127.0.0.1:4711".parse().unwrap();
        let written = Rendezvous::new("one", local, "node", None).unwrap();
        written.write(&path).unwrap();
        assert_eq!(Rendezvous::read(&path).unwrap(), written);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(written.addresses, ["127.0.0.1:4711"]);
        assert!(written.token().is_some_and(|token| token != Token::default()));
        let other = Rendezvous::new("one", "0.0.0.0:4711".parse().unwrap(), "node", None).unwrap();
        assert_eq!(other.addresses[0], "node:4711");
        assert_ne!(other.token(), written.token());
        let again = Rendezvous::new("one", local, "node", Some(&written)).unwrap();
        assert_eq!((again.token(), again.port()), (written.token(), Some(4711)));
        other.write(&path).unwrap();
        assert_eq!(Rendezvous::read(&path).unwrap(), other);
        for token in ["", "abc", &"zz".repeat(32), &"ä".repeat(32)] {
            let edited = Rendezvous { token: token.to_owned(), ..other.clone() };
            assert_eq!(edited.token(), None, "{token}");
        }
        fs::write(&path, "{\"study\": 3}").unwrap();
        assert!(Rendezvous::read(&path).is_err());
    }
}
