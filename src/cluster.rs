//! One study over several machines: agents run its trials there, and the runner here decides.
//!
//! An **agent** (`hpsearch agent`) is a process on another machine. It starts trials as the runner
//! does on its own machine (the same [`ProcessLauncher`](crate::runner::process::ProcessLauncher)),
//! and relays their messages. Files of trials are in a directory that both machines see at the same
//! path, or travel over the link ([`transfer`]).
//!
//! ```text
//! runner ── Hub ══ link ══ agent ── ProcessLauncher ── trials
//! ```
//!
//! - The link is a TCP connection that the agent opens, with the address and the token of
//!   [`rendezvous`], encrypted by [`frames`]; or the standard streams of a process that the runner
//!   started ([`starter`]), over ssh through a [`relay`].
//! - Messages in both directions are numbered, and kept until they are acknowledged ([`outbox`]):
//!   whatever happens to connections, each arrives once and in order. The runner acknowledges what
//!   it has stored. What a killed runner stored without that is sent again to the next one, which
//!   recognises reports, checkpoints, points and ends; remarks and artifacts it stores again.
//! - While the link is down, trials continue for `lost_after`. An agent whose last answered ping is
//!   older stops its trials, after a checkpoint, and leaves; the runner waits longer, so that no
//!   trial runs twice.
//! - A runner that replaces a dead one finds the open attempts of agents in the store, and keeps
//!   them until their agents have come back, or would have given up.

#![expect(
    clippy::disallowed_methods,
    reason = "the clock, threads and processes of agents are here"
)]

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::PathBuf;

pub mod agent;
pub mod frames;
pub mod hub;
pub mod kubernetes;
pub mod launcher;
pub mod message;
pub mod outbox;
pub mod relay;
pub mod rendezvous;
pub mod starter;
pub mod transfer;

/// The directory of agents among the user's caches, or for temporary files; only its owner may
/// enter it.
///
/// # Errors
/// It cannot be made, or belongs to somebody else.
fn cache_directory() -> io::Result<PathBuf> {
    let given = |name: &str| {
        std::env::var_os(name).map(PathBuf::from).filter(|directory| directory.is_absolute())
    };
    let caches = given("XDG_CACHE_HOME").or_else(|| Some(given("HOME")?.join(".cache")));
    let directory = match caches {
        Some(caches) => caches.join("hpsearch").join("agents"),
        // Which anybody may write to.
        None => {
            let user = rustix::process::geteuid().as_raw();
            std::env::temp_dir().join(format!("hpsearch-agents-{user}"))
        }
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(|error| {
        let why = format!(
            "`{}` cannot be created: {error}; set `XDG_CACHE_HOME` to a directory that this user \
             may write",
            directory.display()
        );
        io::Error::new(error.kind(), why)
    })?;
    let metadata = fs::symlink_metadata(&directory)?;
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        let why = format!("`{}` belongs to another user", directory.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(directory)
}
