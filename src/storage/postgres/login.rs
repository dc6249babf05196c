//! The address of a database and the password for it, which stays out of messages and of the store.
//!
//! As with libpq, the password is in the address, in `PGPASSWORD`, or in the file `PGPASSFILE`
//! (`~/.pgpass`); the user is in the address or in `PGUSER`.

use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use postgres::Config;
use postgres::config::Host;

use crate::storage::address::password_of;
use crate::storage::sql::fault::Fault;
use crate::storage::{PostgresFailure, StorageError};
use crate::study::database_url::{UNREADABLE, UNREADABLE_REASON, without_password};

/// Longest wait for a server to answer a new connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection without answers for this long is lost.
const SILENCE: Duration = Duration::from_secs(10);

/// What a connection needs.
#[derive(Clone, Debug)]
pub(super) struct Login {
    address: String,
    config: Config,
    /// Whether a file of passwords was ignored because others may read it.
    ignores_file: bool,
}

impl Login {
    /// The login at a URL, with what the environment adds.
    pub(super) fn of(url: &str) -> Result<Self, StorageError> {
        let (address, given) = without_password(url);
        let wrong = |why: String| StorageError::Address { address: address.clone(), why };
        if address == UNREADABLE {
            return Err(wrong(UNREADABLE_REASON.to_owned()));
        }
        if let Some(demand) = demand_for_tls(&address, variable("PGSSLMODE")) {
            let why = format!(
                "`{demand}` demands TLS, which this program does not have; connect through an SSH \
                 tunnel (`ssh -L 5432:localhost:5432 HOST`), with `sslmode=prefer`"
            );
            return Err(wrong(why));
        }
        // Without TLS, they are the same.
        let parsed = address.replace("sslmode=allow", "sslmode=prefer").parse();
        let mut config: Config = parsed.map_err(|error: postgres::Error| {
            wrong(std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string))
        })?;
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
        let password = given.or_else(|| password_of(&address)).or_else(|| variable("PGPASSWORD"));
        let mut ignores_file = false;
        let password = match (password, password_file()) {
            (None, Some(file)) => {
                ignores_file = is_readable_by_others(&file);
                if ignores_file { None } else { password_in_file(&file, &config) }
            }
            (password, _) => password,
        };
        if let Some(password) = password {
            config.password(&password);
        }
        config
            .application_name("hpsearch")
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(SILENCE);
        Ok(Login { address, config, ignores_file })
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
        let mut error = fault.at(self.path(), doing);
        if let StorageError::Postgres { failure, .. } = &mut error
            && *failure == PostgresFailure::NoPassword
            && self.ignores_file
        {
            *failure = PostgresFailure::PasswordFile;
        }
        error
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// What demands TLS: an option of the address, or `PGSSLMODE`.
fn demand_for_tls(address: &str, variable: Option<String>) -> Option<String> {
    let query = address.split_once('?').map_or("", |(_, query)| query);
    let options: Vec<(&str, &str)> =
        query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    let is_optional = |mode: &str| ["disable", "allow", "prefer"].contains(&mode);
    let demands = |(name, value): &&(&str, &str)| match *name {
        "sslmode" => !is_optional(value),
        name => name.starts_with("ssl"),
    };
    if let Some((name, value)) = options.iter().find(demands) {
        // Others may be secret, such as `sslpassword`.
        return Some(match *name {
            "sslmode" => format!("{name}={value}"),
            name => name.to_owned(),
        });
    }
    let is_given = options.iter().any(|(name, _)| *name == "sslmode");
    let mode = variable.filter(|mode| !is_given && !is_optional(mode))?;
    Some(format!("PGSSLMODE={mode}"))
}

/// libpq's file of passwords.
fn password_file() -> Option<PathBuf> {
    variable("PGPASSFILE")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".pgpass")))
}

/// Whether the group or others may read a file, which libpq then ignores, too.
fn is_readable_by_others(file: &Path) -> bool {
    let found = std::fs::metadata(file);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o077 != 0)
}

/// The password of the first matching line of a file.
fn password_in_file(file: &Path, config: &Config) -> Option<String> {
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
        for option in ["sslmode=require", "sslmode=verify-full", "a=b&sslrootcert=system"] {
            let url = format!("postgres://u:secret@h/d?{option}");
            let refused = Login::of(&url).unwrap_err().to_string();
            assert!(refused.contains("demands TLS") && !refused.contains("secret"), "{refused}");
        }
        assert!(Login::of("postgres://u@h/d?sslmode=allow").is_ok());
        let in_environment = |mode: &str| demand_for_tls("postgres://h/d", Some(mode.to_owned()));
        assert_eq!(in_environment("verify-ca").as_deref(), Some("PGSSLMODE=verify-ca"));
        assert_eq!(in_environment("prefer"), None);
        let address = "postgres://h/d?sslmode=disable";
        assert_eq!(demand_for_tls(address, Some("require".to_owned())), None);
    }

    #[test]
    fn a_file_that_others_may_read_gives_no_password() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pgpass");
        std::fs::write(&file, "*:*:*:*:secret").unwrap();
        for (mode, is_readable) in [(0o644, true), (0o640, true), (0o600, false), (0o400, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_readable_by_others(&file), is_readable, "{mode:o}");
        }
        assert!(!is_readable_by_others(&directory.path().join("missing")));
    }

    #[test]
    fn an_address_whose_password_is_uncertain_is_refused_with_the_way_to_write_it() {
        let refused = Login::of("postgres://u:hunter/2secret@h/d").unwrap_err().to_string();
        assert!(refused.contains("%2F") && refused.contains("PGPASSWORD"), "{refused}");
        assert!(!refused.contains("hunter") && !refused.contains("2secret"), "{refused}");
        let refused = Login::of("postgres://u:secret@h:port/d").unwrap_err().to_string();
        assert!(!refused.contains("secret"), "{refused}");
    }
}
