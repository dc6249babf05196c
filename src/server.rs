//! The live page in a browser: an HTTP server on threads.
//!
//! One thread owns all connections and never waits (`event_loop.rs`), so that slow clients and many
//! of them cost nothing but memory, which is bounded. Requests are checked before anything is
//! looked up (`http.rs`, `access.rs`). Some threads read the store, one changes it, one reads files
//! that are sent (`workers.rs`), and one watches the store for all clients that want events
//! (`watcher.rs`).

#![expect(clippy::disallowed_methods, reason = "a server waits for sockets, with deadlines")]

pub mod access;
mod assets;
mod body;
mod connection;
mod control;
mod event_loop;
mod http;
mod page;
mod response;
mod routes;
mod store;
mod study_states;
mod watcher;
mod workers;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

pub use access::Access;
use access::Gate;
use assets::Assets;
pub use connection::Limits;
use event_loop::{EventLoop, Outlets, Replies, Reply};
use page::PAGE_FILES;
use routes::Context;
use rustix::process::{Resource, getrlimit};
pub use store::Notices;
use store::Store;
use watcher::Watcher;

use crate::runner::threads;

/// What a server is to do.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The store, which may not exist yet.
    pub store: PathBuf,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whether the page may change studies.
    pub access: Access,
    /// Further names that browsers may know this server by, such as a proxy's.
    pub allowed_hosts: Vec<String>,
    /// Deadlines and limits.
    pub limits: Limits,
}

/// A server that listens.
pub struct Server {
    event_loop: EventLoop,
    stop: StopServer,
    address: SocketAddr,
    token: String,
}

/// Ends a server from another thread.
#[derive(Clone)]
pub struct StopServer(Replies);

impl StopServer {
    /// Ends it; connections are closed.
    pub fn stop(&self) {
        self.0.send(Reply::Stop);
    }
}

impl Server {
    /// Listens, and starts the threads. `notices` hears of a store that was brought up to date.
    ///
    /// # Errors
    /// The address is in use or not this machine's, or the system refuses threads.
    pub fn start(options: &ServerOptions, notices: &Notices) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        let gate = Gate::new(address.port(), &options.allowed_hosts, options.access)?;
        let token = gate.token().to_owned();
        let limits = within_the_system(options.limits);
        let context = Arc::new(Context { store: options.store.clone(), access: options.access });
        let assets = Assets::new(PAGE_FILES);
        let outlets = |replies: &Replies| {
            let (subscriptions, subscribed) = crossbeam_channel::unbounded();
            let store = Store::new(&options.store, notices);
            let watcher = Watcher::new(store, subscribed, replies.clone(), limits.heartbeat);
            threads::spawn("watcher", move || watcher.run())?;
            Ok(Outlets {
                reads: workers::start_readers(&context, notices, replies)?,
                writes: workers::start_writer(&options.store, notices, replies)?,
                parts: workers::start_file_reader(replies)?,
                subscriptions,
            })
        };
        let (event_loop, replies) = EventLoop::new(listener, (gate, assets), limits, outlets)?;
        Ok(Server { event_loop, stop: StopServer(replies), address, token })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a browser opens: with the token, so it is shown to the user alone.
    pub fn url(&self) -> String {
        let port = self.address.port();
        let host = match self.address.ip() {
            ip if ip.is_unspecified() => format!("127.0.0.1:{port}"),
            _ => self.address.to_string(),
        };
        format!("http://{host}/?token={}", self.token)
    }

    /// Ends it.
    pub fn stopper(&self) -> StopServer {
        self.stop.clone()
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// The system refuses to wait for connections.
    pub fn run(self) -> io::Result<()> {
        self.event_loop.run()
    }
}

/// Fewer connections, where the system gives this process few file descriptors.
fn within_the_system(limits: Limits) -> Limits {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = usize::try_from(descriptors / 2).unwrap_or(usize::MAX);
    Limits { connections: limits.connections.min(most), ..limits }
}
