//! Errors of a store, and their remedies.

use super::address::OtherUrl;
use super::sqlite::Rescue;
use super::{BUSY_TIMEOUT, Holder, StudyId};
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Another process holds the study.
    #[error("study `{study}` is being run by process {} on {}", holder.pid, holder.host)]
    Busy {
        /// Its name.
        study: String,
        /// The process that holds the study.
        holder: Holder,
        /// When the lease was acquired.
        since: Timestamp,
    },
    /// A process of another host or container holds the study; whether it lives cannot be
    /// determined from here.
    #[error(
        "study `{study}` is held by process {} on `{}`, another host or container than this one, \
         for {held} (it last wrote {wrote} ago), and from here it cannot be determined whether \
         that process lives",
        holder.pid, holder.host
    )]
    HeldElsewhere {
        /// Its name.
        study: String,
        /// The process that holds the study.
        holder: Box<Holder>,
        /// For how long, in words.
        held: String,
        /// Time since the last write to the study, in words.
        wrote: String,
    },
    /// The lease was taken over: its former holder must stop writing.
    #[error("`{name}` was taken over by another process, and this one no longer writes")]
    Fenced {
        /// The study whose lease was lost.
        study: StudyId,
        /// Its name.
        name: String,
    },
    /// The study holds tracked runs and cannot be searched.
    #[error("`{study}` holds tracked runs: nothing is searched there")]
    Tracked {
        /// Its name.
        study: String,
    },
    /// The study holds tracked runs, and a request is for a search.
    #[error("`{study}` holds tracked runs: nothing is searched there")]
    NotSearched {
        /// Its name.
        study: String,
    },
    /// A run of the study is being tracked: it cannot be removed or moved, and the study cannot be
    /// renamed or removed.
    #[error("run {run} of `{study}` is being tracked")]
    RunTracked {
        /// The study's name.
        study: String,
        /// The run.
        run: TrialNumber,
    },
    /// The study is a search: runs cannot be tracked in it.
    #[error("`{study}` is a search: runs are not tracked there")]
    Searched {
        /// Its name.
        study: String,
    },
    /// Another process writes a tracked run, or it has ended.
    #[error("run {trial} was resumed by another process, or has ended: this one no longer writes")]
    RunFenced {
        /// Its number.
        trial: TrialNumber,
    },
    /// A study with this name exists.
    #[error("a study called `{name}` already exists")]
    Exists {
        /// The name.
        name: String,
    },
    /// A trial out of order: numbers are consecutive.
    #[error("trial {trial} cannot be created now: the next number is {expected}")]
    OutOfOrder {
        /// The number of the event.
        trial: TrialNumber,
        /// The next number.
        expected: TrialNumber,
    },
    /// There is no such study.
    #[error("{}", no_study(name.as_deref()))]
    NoStudy {
        /// Id of the study.
        study: StudyId,
        /// Its name, if this process has read it.
        name: Option<String>,
    },
    /// There is no such trial.
    #[error("the study has no trial {trial}")]
    NoTrial {
        /// Number of the trial.
        trial: TrialNumber,
    },
    /// The backup before a migration could not be written.
    #[error(
        "the store `{path}` has the older schema version {found}, and the copy of it could not be \
         written to `{copy}`; nothing was changed"
    )]
    NoBackup {
        /// The file.
        path: String,
        /// Its version.
        found: i64,
        /// The path of the backup.
        copy: String,
        /// SQLite's or the system's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is not a store.
    #[error("`{path}` is not an hpsearch store: {why}")]
    NotAStore {
        /// The file.
        path: String,
        /// What of the file is not as in a store, in words.
        why: String,
    },
    /// The file is a database of Optuna.
    #[error("`{path}` is not an hpsearch store: it is a database of Optuna")]
    Optuna {
        /// The file.
        path: String,
    },
    /// The name of the store is not text.
    #[error("the path of the store, `{path}`, is not UTF-8, and trials are given it as text")]
    NotText {
        /// The file, as far as it can be shown.
        path: String,
    },
    /// The file was written by a newer hpsearch.
    #[error("`{path}` has schema version {found}; this hpsearch knows up to {known}")]
    Newer {
        /// The file.
        path: String,
        /// Its version.
        found: i64,
        /// The newest known version.
        known: i64,
    },
    /// The file system cannot hold a store.
    #[error("`{path}` is on a network file system ({kind}), where SQLite loses data")]
    NetworkFileSystem {
        /// The file.
        path: String,
        /// The file system's name.
        kind: String,
    },
    /// A stored value cannot be read.
    #[error("the store holds something unreadable in {place}: {why}")]
    Corrupt {
        /// Table and row.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// There is no store yet.
    #[error("there is no store at `{path}`")]
    Missing {
        /// Its path.
        path: String,
    },
    /// A store cannot be created: SQLite would delete the log of the one that was there.
    #[error("`{log}` is the log of a store whose file `{path}` does not exist")]
    OrphanedLog {
        /// The path of the store.
        path: String,
        /// The log.
        log: String,
    },
    /// The path of the store is not a file.
    #[error("`{path}` is {what}, and a store is a file")]
    NotAFile {
        /// The path.
        path: String,
        /// Its kind, such as `a directory`.
        what: &'static str,
    },
    /// The opened file is no longer at its path: later writes would be lost.
    #[error(
        "the store `{path}` {what} while it was in use, and nothing more is written{}",
        log.as_ref().map(|log| format!("; its log was renamed to `{log}`")).unwrap_or_default()
    )]
    Moved {
        /// The path.
        path: String,
        /// What happened to it.
        what: &'static str,
        /// Where its log is, which SQLite would have applied to the file that is there now.
        log: Option<String>,
    },
    /// The store's `-wal` or `-shm` file is not the one that was opened.
    #[error("`{path}` {what} while the store was in use, and nothing more is written: {rescue}")]
    Exchanged {
        /// That file.
        path: String,
        /// What happened to it.
        what: &'static str,
        /// What happened to its content.
        rescue: Rescue,
    },
    /// The process that runs the study is stopped.
    #[error(
        "study `{study}` is being run by process {} on {}, and that process is stopped (by \
         SIGSTOP or Ctrl-Z)",
        holder.pid, holder.host
    )]
    HolderStopped {
        /// Its name.
        study: String,
        /// The process that holds the study.
        holder: Holder,
    },
    /// SQLite refuses.
    #[error("{} (while {doing})", failure.of(path))]
    Sqlite {
        /// The file.
        path: String,
        /// The operation.
        doing: &'static str,
        /// SQLite's failure.
        failure: SqliteFailure,
        /// SQLite's error.
        #[source]
        source: rusqlite::Error,
    },
    /// This user may not read and write a file of the store, or its directory.
    #[error(
        "this user may not read and write `{file}`, as the store `{path}` needs (while {doing})"
    )]
    Forbidden {
        /// The store.
        path: String,
        /// The file or directory.
        file: String,
        /// The operation.
        doing: &'static str,
        /// SQLite's error.
        #[source]
        source: Box<rusqlite::Error>,
    },
    /// Another process began to write to a store that was read without its index.
    #[error(
        "another process began to write to the store `{path}` while it was read; there was no \
         space or permission for the file `-shm` through which they coordinate"
    )]
    ReadAlone {
        /// The store.
        path: String,
    },
    /// The server refuses, or cannot be reached.
    #[error("{} (while {doing})", failure.of(address))]
    Postgres {
        /// The address, without a password.
        address: String,
        /// The operation.
        doing: &'static str,
        /// Its kind.
        failure: PostgresFailure,
        /// The client's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Not an address of a store.
    #[error("`{address}` cannot be used as the address of a store: {why}")]
    Address {
        /// The address, without a password.
        address: String,
        /// What is wrong with the address, in words.
        why: String,
    },
    /// This binary does not know PostgreSQL.
    #[error("`{address}` is a store in PostgreSQL, for which this binary was not built")]
    WithoutPostgres {
        /// The address.
        address: String,
    },
    /// An I/O error.
    #[error("`{path}` cannot be used for a store")]
    Io {
        /// The file or its directory.
        path: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}

/// The kind of an error of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresFailure {
    /// No connection, or it was lost.
    Unreachable,
    /// The server does not accept the user or the password.
    Refused,
    /// The server demands a password, and none is given.
    NoPassword,
    /// The same, and a file of passwords was ignored because others may read it.
    PasswordFile,
    /// The server has no entry for this login without TLS.
    NotEncrypted,
    /// There is no such database.
    NoDatabase,
    /// The user may not create tables in the schema.
    Forbidden,
    /// The user may not use a table or a sequence.
    NotGranted,
    /// Only the owner of a table may do this.
    NotOwner,
    /// No space is left on the server.
    DiskFull,
    /// Another process kept the study locked.
    Locked,
    /// The server has no connection left.
    Busy,
    /// Something else.
    Other,
}

impl PostgresFailure {
    /// What happened to the store at `address`.
    fn of(self, address: &str) -> String {
        match self {
            PostgresFailure::Unreachable => {
                format!("the server of the store `{address}` cannot be reached")
            }
            PostgresFailure::Refused => {
                format!("the server refuses the login of the store `{address}`")
            }
            PostgresFailure::NoPassword => {
                format!("the server demands a password for the store `{address}`")
            }
            PostgresFailure::PasswordFile => format!(
                "the server demands a password for the store `{address}`, and the file of \
                 passwords (`PGPASSFILE` or `~/.pgpass`) is ignored because others may read it"
            ),
            PostgresFailure::NotEncrypted => format!(
                "the server refuses the login of the store `{address}` without TLS, which this \
                 program does not have"
            ),
            PostgresFailure::NoDatabase => {
                format!("there is no database for the store `{address}`")
            }
            PostgresFailure::Forbidden
            | PostgresFailure::NotGranted
            | PostgresFailure::NotOwner => {
                format!("the user of the store `{address}` may not do this")
            }
            PostgresFailure::DiskFull => format!("no space is left for the store `{address}`"),
            PostgresFailure::Locked => format!(
                "another process kept a study of the store `{address}` locked for more than {} s",
                BUSY_TIMEOUT.as_secs()
            ),
            PostgresFailure::Busy => {
                format!("the server of the store `{address}` has no connection left")
            }
            PostgresFailure::Other => format!("the store `{address}` failed"),
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            PostgresFailure::Unreachable => {
                "what was written before is safe: start the server or restore the connection, then \
                 run the same command again"
            }
            PostgresFailure::Refused => {
                "give the user in the address, and the password in `PGPASSWORD` or `~/.pgpass`"
            }
            PostgresFailure::NoPassword => {
                "give it in `PGPASSWORD`, or as the line `HOST:PORT:DATABASE:USER:PASSWORD` of \
                 `~/.pgpass`, whose mode is 0600"
            }
            PostgresFailure::PasswordFile => "`chmod 600` that file, or give it in `PGPASSWORD`",
            PostgresFailure::NotEncrypted => {
                "connect through an SSH tunnel (`ssh -L 5432:localhost:5432 HOST`); without one, \
                 the server's `pg_hba.conf` needs an entry `host` for this user, database and \
                 address"
            }
            PostgresFailure::NoDatabase => {
                "create it with `createdb`, or name another in the address"
            }
            PostgresFailure::Forbidden => {
                "it needs to create tables in its schema: ask the server's administrator"
            }
            PostgresFailure::NotGranted => {
                "the owner of the tables grants it, to read: `GRANT SELECT ON ALL TABLES IN SCHEMA \
                 public TO user`; to write, too: `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL \
                 TABLES IN SCHEMA public TO user` and `GRANT USAGE ON ALL SEQUENCES IN SCHEMA \
                 public TO user`"
            }
            PostgresFailure::NotOwner => {
                "the tables have an older schema, which their owner migrates: any command of this \
                 hpsearch does it for that user"
            }
            PostgresFailure::DiskFull => {
                "what was written before is safe: free some space on the server, then run the same \
                 command again"
            }
            PostgresFailure::Locked => {
                "table `pg_stat_activity` of the server shows it; then run the same command again"
            }
            PostgresFailure::Busy => {
                "close other connections, or raise `max_connections`, then run the same command \
                 again"
            }
            PostgresFailure::Other => {
                "what was written before is safe: run the same command again, and look at the \
                 server's log if it fails again"
            }
        }
    }
}

/// The kind of an error of SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqliteFailure {
    /// No space is left.
    DiskFull,
    /// A write failed: a quota, a limit on file sizes, a failing or read-only disk.
    WriteFailed,
    /// The file or its directory cannot be opened or written.
    NotUsable,
    /// The file is damaged.
    Damaged,
    /// Another process kept the file locked.
    Locked,
    /// Something else.
    Other,
}

impl SqliteFailure {
    /// What happened to the store at `path`.
    fn of(self, path: &str) -> String {
        match self {
            SqliteFailure::DiskFull => format!("no space is left for the store `{path}`"),
            SqliteFailure::WriteFailed => format!(
                "the store `{path}` can no longer be written, because of a quota, a limit on file \
                 sizes (`ulimit -f`) or an error of the disk"
            ),
            SqliteFailure::NotUsable => {
                format!("the store `{path}` cannot be opened or written")
            }
            SqliteFailure::Damaged => format!("the store `{path}` is damaged"),
            SqliteFailure::Locked => format!(
                "another process kept the store `{path}` locked for more than {} s",
                BUSY_TIMEOUT.as_secs()
            ),
            SqliteFailure::Other => format!("the store `{path}` failed"),
        }
    }

    fn remedy(self, path: &str) -> String {
        match self {
            SqliteFailure::DiskFull => "what was written before is safe: free some space \
                (`hpsearch gc --yes` removes files that no study needs, even while the disk is \
                full), then run the same command again"
                .to_owned(),
            SqliteFailure::WriteFailed => "what was written before is safe: remove the cause \
                (`dmesg` shows errors of the disk), then run the same command again"
                .to_owned(),
            SqliteFailure::NotUsable => "check the permissions of the file and its directory, or \
                choose another place with `--store PATH`"
                .to_owned(),
            SqliteFailure::Damaged => format!(
                "copy it, with its `-wal` if there is one, before anything else; then put back a \
                 backup, or save what can be read: `sqlite3 '{path}' .recover | sqlite3 NEW`, with \
                 the `sqlite3` from sqlite.org (Debian's may lack `.recover`)"
            ),
            SqliteFailure::Locked => {
                format!("find it with `fuser '{path}'`, then run the same command again")
            }
            SqliteFailure::Other => "what was written before is safe: run the same command again, \
                and `hpsearch doctor` if it fails again"
                .to_owned(),
        }
    }
}

/// Ids come from the store: a study that is not there was there before.
fn no_study(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("`{name}` is no longer in the store: another process removed it"),
        None => "the study is no longer in the store: another process removed it".to_owned(),
    }
}

impl From<OtherUrl> for StorageError {
    fn from(url: OtherUrl) -> Self {
        let why = url.to_string();
        StorageError::Address { address: url.address, why }
    }
}

impl StorageError {
    /// Whether another process kept the store locked for as long as was waited: it works otherwise.
    pub fn is_locked(&self) -> bool {
        matches!(
            self,
            StorageError::Sqlite { failure: SqliteFailure::Locked, .. }
                | StorageError::Postgres { failure: PostgresFailure::Locked, .. }
        )
    }

    /// The remedy.
    pub fn remedy(&self) -> String {
        let text = match self {
            StorageError::Busy { study, .. } => {
                return format!(
                    "`hpsearch watch {study}` shows it, `hpsearch stop {study}` ends that run"
                );
            }
            StorageError::HeldElsewhere { study, .. } => {
                return format!(
                    "if it is dead, as after a container was restarted under another name, run \
                     again with `--take-over` (a Rust program: `take_over`). If it is alive, \
                     `hpsearch watch {study}` shows it: taking over ends its run at its next \
                     write, and its trials lose what they did since their last checkpoint"
                );
            }
            StorageError::HolderStopped { holder: Holder { pid, .. }, .. } => {
                return format!(
                    "`kill -CONT {pid}` lets it continue; after `kill -9 {pid}` this command \
                     takes the study over"
                );
            }
            StorageError::Sqlite { path, failure, .. } => return failure.remedy(path),
            StorageError::Forbidden { file, .. } => {
                return format!(
                    "`ls -ld '{file}'` shows owner and mode: grant access, for example with `chmod \
                     u+rw '{file}'`, or choose another place with `--store PATH`"
                );
            }
            StorageError::ReadAlone { .. } => "run the same command again",
            StorageError::Postgres { failure, .. } => failure.remedy(),
            StorageError::Address { .. } => {
                "`--store PATH` names a file, `--store postgres://USER@HOST/DATABASE` a database"
            }
            StorageError::WithoutPostgres { .. } => {
                "build one with `--features postgres`, or name a file with `--store PATH`"
            }
            StorageError::Fenced { .. } => {
                "`hpsearch ls` shows who has it; the next run continues from what is stored"
            }
            StorageError::Tracked { .. } => {
                "name another study in the study file; `hpsearch track` adds a run to this one"
            }
            StorageError::NotSearched { study } => {
                return format!(
                    "`hpsearch track --study {study} -- COMMAND` adds a run, and with `--resume \
                     RUN` it continues one"
                );
            }
            StorageError::RunTracked { study, run } => {
                return format!(
                    "`hpsearch stop {study} {run}` lets it save and exit: wait until it has ended"
                );
            }
            StorageError::Searched { .. } => "name another one with `--study NAME`",
            StorageError::RunFenced { .. } => "`hpsearch show STUDY RUN` shows its attempts",
            StorageError::Exists { .. } => {
                "choose another name, or continue that one with `hpsearch run`"
            }
            StorageError::OutOfOrder { .. } => {
                "run the command again, and report it if this persists"
            }
            StorageError::NoStudy { .. } => "`hpsearch ls` lists those that are there",
            StorageError::NoTrial { .. } => {
                "`hpsearch trials --sort number` lists those that it has"
            }
            StorageError::NoBackup { .. } => {
                "make room or allow writing there, then run the same command again"
            }
            StorageError::NotAStore { .. } => "choose another file with `--store PATH`",
            StorageError::Optuna { path } => {
                return format!(
                    "`hpsearch import {path} --store runs/hpsearch.db` imports its studies into a \
                     store, where they can continue"
                );
            }
            StorageError::NotText { .. } => "choose another one with `--store PATH`",
            StorageError::Newer { .. } => "use a newer hpsearch",
            StorageError::NetworkFileSystem { .. } => {
                "put the store on a local disk with `--store PATH`"
            }
            StorageError::Corrupt { .. } => {
                "keep a copy of it, and check it with `hpsearch doctor`"
            }
            StorageError::Missing { .. } => {
                "`hpsearch run study.toml` creates one, `--store PATH` names another"
            }
            StorageError::OrphanedLog { path, log } => {
                return format!(
                    "a new store would delete it, and with it what the other one wrote last: put \
                     that file back as `{path}`; or, if it is not needed, `mv '{log}' \
                     '{log}.old'`; or name another store with `--store PATH`"
                );
            }
            StorageError::NotAFile { .. } => "name one with `--store PATH`",
            StorageError::Moved { path, log: Some(_), .. } => {
                return format!(
                    "to continue with the earlier one, put it back with that log as `{path}-wal`, \
                     or name its new place with `--store PATH`; to continue with the one that is \
                     there now, run the same command again"
                );
            }
            StorageError::Moved { .. } => {
                "put it back with its `-wal` file, or name its new place with `--store PATH`, then \
                 run the same command again"
            }
            StorageError::Exchanged { .. } => {
                "leave the `-wal` and `-shm` files of a store alone while it is in use, and run \
                 the same command again"
            }
            StorageError::Io { .. } => "choose another place with `--store PATH`",
        };
        text.to_owned()
    }

    /// Whether a file of the store was moved or replaced: this process must open it again.
    pub fn is_of_lost_file(&self) -> bool {
        matches!(self, StorageError::Moved { .. } | StorageError::Exchanged { .. })
    }

    /// What happened and what to do, in one sentence.
    pub fn with_remedy(&self) -> String {
        format!("{self}: {}", self.remedy())
    }
}
