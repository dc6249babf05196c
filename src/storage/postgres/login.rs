//! The address of a database and the password for it, which stays out of messages and of the store.
//!
//! As with libpq, the password is in the address, in `PGPASSWORD`, or in the file `PGPASSFILE`
//! (`~/.pgpass`); the user is in the address or in `PGUSER`.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use postgres::Config;
use postgres::config::{Host, SslMode};

use crate::storage::StorageError;
use crate::storage::address::password_of;
use crate::storage::sql::fault::Fault;
use crate::study::database_url::without_password;

/// Longest wait for a server to answer a new connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection without answers for this long is lost.
const SILENCE: Duration = Duration::from_secs(10);

/// What a connection needs.
#[derive(Clone, Debug)]
pub(super) struct Login {
    address: String,
    config: Config,
}

impl Login {
    /// The login at a URL, with what the environment adds.
    pub(super) fn of(url: &str) -> Result<Self, StorageError> {
        let (address, given) = without_password(url);
        let wrong = |why: String| StorageError::Address { address: address.clone(), why };
        let mut config: Config = address.parse().map_err(|error: postgres::Error| {
            wrong(std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string))
        })?;
        if config.get_ssl_mode() == SslMode::Require {
            let why = "this program has no TLS; connect through an SSH tunnel (`ssh -L \
                5432:localhost:5432 HOST`), with `sslmode=prefer`"
                .to_owned();
            return Err(wrong(why));
        }
        if config.get_hosts().is_empty() {
            config.host(&variable("PGHOST").unwrap_or_else(|| "localhost".to_owned()));
        }
        if config.get_ports().is_empty()
            && let Some(port) = variable("PGPORT").and_then(|port| port.parse().ok())
        {
            config.port(port);
        }
        if config.get_user().is_none() {
            let user = variable("PGUSER").or_else(|| variable("USER"));
            config.user(&user.unwrap_or_else(|| "postgres".to_owned()));
        }
        if config.get_dbname().is_none()
            && let Some(database) = variable("PGDATABASE")
        {
            config.dbname(&database);
        }
        let password = given
            .or_else(|| password_of(&address))
            .or_else(|| variable("PGPASSWORD"))
            .or_else(|| password_in_file(&config));
        if let Some(password) = password {
            config.password(&password);
        }
        config
            .application_name("hpsearch")
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(SILENCE);
        Ok(Login { address, config })
    }

    /// The address without a password.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The address as the path that it is given as.
    pub(super) fn path(&self) -> &Path {
        Path::new(&self.address)
    }

    /// The settings of the client.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// A fault of this database.
    pub(super) fn at(&self, fault: Fault, doing: &'static str) -> StorageError {
        fault.at(self.path(), doing)
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The password of the first matching line of libpq's file of passwords.
fn password_in_file(config: &Config) -> Option<String> {
    let file = variable("PGPASSFILE")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".pgpass")))?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    matching_password(&std::fs::read_to_string(file).ok()?, [&host, &port, database, user])
}

/// The password of the first line `host:port:database:user:password` that matches.
fn matching_password(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let (password, named) = fields.split_last()?;
        let matches = named.len() == wanted.len()
            && named.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        matches.then(|| password.clone())
    })
}

/// The fields of a line, in which a backslash escapes a colon or itself.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        let last = fields.len() - 1;
        match char {
            ':' if last < 4 => fields.push(String::new()),
            '\\' => fields[last].extend(chars.next()),
            char => fields[last].push(char),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_matches_has_the_password() {
        let text = "# comment\nother:*:*:*:x\nh:5432:d:u:one\\:two\\\\\n*:*:*:*:last";
        assert_eq!(matching_password(text, ["h", "5432", "d", "u"]).as_deref(), Some("one:two\\"));
        assert_eq!(matching_password(text, ["g", "1", "d", "u"]).as_deref(), Some("last"));
        assert_eq!(matching_password("h:1:d:u:p", ["h", "2", "d", "u"]), None);
    }

    #[test]
    fn an_address_that_demands_tls_is_refused() {
        let refused = Login::of("postgres://u:secret@h/d?sslmode=require").unwrap_err().to_string();
        assert!(refused.contains("TLS") && !refused.contains("secret"), "{refused}");
        let refused = Login::of("postgres://u:secret@h:port/d").unwrap_err().to_string();
        assert!(!refused.contains("secret"), "{refused}");
    }
}
