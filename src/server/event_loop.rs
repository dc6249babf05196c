//! The one thread that owns all connections: it polls them, and never waits for a client or for
//! the store.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::access::{Admitted, Gate};
use super::assets::Assets;
use super::body::FilePart;
use super::connection::{Connection, Limits, Phase, Turn};
use super::http::{Head, HttpRequest, Method};
use super::response::{Response, Status};

/// Names a connection; never given again.
pub type ConnectionId = u64;

/// A request for a thread that may wait.
#[derive(Debug)]
pub struct PendingRequest {
    /// Who asked.
    pub connection: ConnectionId,
    /// The request that the connection sent.
    pub request: HttpRequest,
}

/// A part of a file that a connection is to send next.
#[derive(Debug)]
pub struct PartJob {
    /// Whose response it belongs to.
    pub connection: ConnectionId,
    /// Which part.
    pub part: FilePart,
}

/// Messages of other threads to the event loop.
#[derive(Debug)]
pub enum Reply {
    /// The answer to a request.
    Answer(ConnectionId, Response),
    /// The next part of a response's file; `None`: it cannot be read any more.
    Part(ConnectionId, Option<Arc<[u8]>>),
    /// A part of some streams of events.
    Events(Vec<ConnectionId>, Arc<[u8]>),
    /// A stream whose study is gone.
    EndStream(ConnectionId),
    /// Close everything and leave.
    Stop,
}

/// Messages of the event loop to the watcher of the store.
#[derive(Debug)]
pub enum Subscription {
    /// A client wants events; its request.
    Began(ConnectionId, Head),
    /// It has gone.
    Ended(ConnectionId),
}

/// Wakes the event loop.
#[derive(Clone)]
pub struct Waker(Arc<UnixStream>);

impl Waker {
    fn wake(&self) {
        // A full pipe wakes, too.
        let _ = (&*self.0).write(&[1]);
    }
}

/// The far end of the event loop, for other threads.
#[derive(Clone)]
pub struct Replies {
    tx: Sender<Reply>,
    waker: Waker,
}

impl Replies {
    /// Sends a message to the event loop.
    pub fn send(&self, reply: Reply) {
        // After its end nothing receives messages.
        if self.tx.send(reply).is_ok() {
            self.waker.wake();
        }
    }
}

/// Where the event loop passes work on.
pub struct Outlets {
    /// Requests that only read a store.
    pub reads: Sender<PendingRequest>,
    /// Writes, one after the other.
    pub writes: Sender<PendingRequest>,
    /// Files of responses.
    pub parts: Sender<PartJob>,
    /// Clients that want events.
    pub subscriptions: Sender<Subscription>,
}

/// The event loop.
pub struct EventLoop {
    listener: TcpListener,
    gate: Gate,
    assets: Assets,
    limits: Limits,
    outlets: Outlets,
    replies: Receiver<Reply>,
    woken: UnixStream,
    connections: BTreeMap<ConnectionId, Connection>,
    next: ConnectionId,
    /// Until when no connection is accepted: the system has no file descriptors left.
    deaf_until: Option<Instant>,
}

/// How long no connection is accepted after the system refused one.
const DEAF: Duration = Duration::from_millis(200);
/// Connections accepted in one turn.
const MOST_ACCEPTED: usize = 64;

/// The path of the stream of events.
pub const STREAM: &str = "/api/stream";

impl EventLoop {
    /// An event loop, and how other threads reach it.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn new(
        listener: TcpListener,
        (gate, assets): (Gate, Assets),
        limits: Limits,
        outlets: impl FnOnce(&Replies) -> io::Result<Outlets>,
    ) -> io::Result<(Self, Replies)> {
        listener.set_nonblocking(true)?;
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let (tx, replies) = crossbeam_channel::unbounded();
        let far = Replies { tx, waker: Waker(Arc::new(waker)) };
        let event_loop = EventLoop {
            listener,
            gate,
            assets,
            limits,
            outlets: outlets(&far)?,
            replies,
            woken,
            connections: BTreeMap::new(),
            next: 0,
            deaf_until: None,
        };
        Ok((event_loop, far))
    }

    /// Serves until a message stops it.
    ///
    /// # Errors
    /// The system refuses to poll.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            let ready = self.poll()?;
            let now = Instant::now();
            if self.hear(now) {
                return Ok(());
            }
            for (id, is_readable) in ready {
                self.turn(id, now, |connection| match is_readable {
                    true => connection.read(now),
                    false => connection.write(now),
                });
            }
            self.expire(now);
            if self.deaf_until.is_none_or(|until| now >= until) {
                self.deaf_until = None;
                self.accept(now);
            }
        }
    }

    /// Waits; the connections that are ready, each with whether there is something to read.
    fn poll(&self) -> io::Result<Vec<(ConnectionId, bool)>> {
        let mut polled = vec![PollFd::new(&self.woken, PollFlags::IN)];
        polled.push(match self.deaf_until {
            None => PollFd::new(&self.listener, PollFlags::IN),
            Some(_) => PollFd::new(&self.listener, PollFlags::empty()),
        });
        let own = polled.len();
        let mut deadline = self.deaf_until;
        for connection in self.connections.values() {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, connection.reads());
            flags.set(PollFlags::OUT, connection.writes());
            polled.push(PollFd::new(connection.stream(), flags));
            deadline = [deadline, connection.deadline()].into_iter().flatten().min();
        }
        let patience = deadline.map(|deadline| {
            // A little later, so that it is over then.
            deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1)
        });
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        match poll(&mut polled, patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = polled[own..].iter().map(PollFd::revents);
        let ready = self.connections.keys().zip(flags).flat_map(|(id, flags)| {
            let is_over = flags.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
            let reads = flags.intersects(PollFlags::IN) || is_over;
            let writes = flags.intersects(PollFlags::OUT) && !is_over;
            [writes.then_some((*id, false)), reads.then_some((*id, true))]
        });
        Ok(ready.flatten().collect())
    }

    /// Carries out what other threads say; whether to stop.
    fn hear(&mut self, now: Instant) -> bool {
        let mut woken = [0_u8; 256];
        while matches!((&self.woken).read(&mut woken), Ok(length) if length > 0) {}
        while let Ok(reply) = self.replies.try_recv() {
            match reply {
                Reply::Answer(id, response) => {
                    self.turn(id, now, |connection| connection.answer(&response, now));
                }
                Reply::Part(id, bytes) => {
                    self.turn(id, now, |connection| connection.send_part(bytes, now));
                }
                Reply::Events(ids, bytes) => {
                    for id in ids {
                        self.turn(id, now, |connection| connection.push(Arc::clone(&bytes), now));
                    }
                }
                Reply::EndStream(id) => self.turn(id, now, |_| Turn::Closed),
                Reply::Stop => return true,
            }
        }
        false
    }

    /// Lets a connection do something, and carries on with what comes of it.
    fn turn(&mut self, id: ConnectionId, now: Instant, act: impl FnOnce(&mut Connection) -> Turn) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut turn = act(connection);
        loop {
            match turn {
                Turn::Waits => return,
                Turn::Closed => return self.close(id),
                Turn::Needs(part) => {
                    match self.outlets.parts.send(PartJob { connection: id, part }) {
                        Ok(()) => return,
                        Err(_) => return self.close(id),
                    }
                }
                Turn::Asked(request) => match self.ask(id, request, now) {
                    Some(next) => turn = next,
                    None => return,
                },
            }
        }
    }

    /// Answers a request, or passes it on (`None`).
    fn ask(&mut self, id: ConnectionId, request: HttpRequest, now: Instant) -> Option<Turn> {
        let streams = self.streams();
        let connection = self.connections.get_mut(&id)?;
        let admitted = match self.gate.admit(&request.head, connection.local()) {
            Ok(admitted) => admitted,
            Err(response) => return Some(connection.answer(&response, now)),
        };
        connection.know();
        if request.head.path == STREAM && request.head.method == Method::Get {
            if streams >= self.limits.streams {
                return Some(connection.answer(&busy("too many pages are open"), now));
            }
            let turn = connection.begin_stream(now);
            let began = Subscription::Began(id, request.head);
            return Some(match self.outlets.subscriptions.send(began) {
                Ok(()) => turn,
                Err(_) => Turn::Closed,
            });
        }
        if admitted == Admitted::Read
            && let Some(response) = self.assets.response(&request.head)
        {
            return Some(connection.answer(&response, now));
        }
        let outlet = match admitted {
            Admitted::Read => &self.outlets.reads,
            Admitted::Write => &self.outlets.writes,
        };
        match outlet.try_send(PendingRequest { connection: id, request }) {
            Ok(()) => None,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                Some(connection.answer(&busy("the server is busy"), now))
            }
        }
    }

    fn streams(&self) -> usize {
        let is_stream = |connection: &&Connection| *connection.phase() == Phase::Streaming;
        self.connections.values().filter(is_stream).count()
    }

    fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id)
            && *connection.phase() == Phase::Streaming
        {
            // The watcher has ended only if the server does.
            let _ = self.outlets.subscriptions.send(Subscription::Ended(id));
        }
    }

    fn expire(&mut self, now: Instant) {
        let is_due = |connection: &Connection| connection.deadline().is_some_and(|at| at <= now);
        let due: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, connection)| is_due(connection))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            // It may have gone on meanwhile.
            self.turn(id, now, |connection| match is_due(connection) {
                true => connection.expire(now),
                false => Turn::Waits,
            });
        }
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..MOST_ACCEPTED {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client has gone already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    // No file descriptors are left: one that is not needed goes.
                    self.evict();
                    self.deaf_until = Some(now + DEAF);
                    return;
                }
            }
        }
    }

    /// Takes a connection in; where there are too many, one that asks for nothing makes room.
    fn admit(&mut self, stream: TcpStream, now: Instant) {
        if self.connections.len() >= self.limits.connections && !self.evict() {
            return;
        }
        if let Ok(connection) = Connection::new(stream, self.limits, now) {
            self.connections.insert(self.next, connection);
            self.next += 1;
        }
    }

    /// Closes the oldest connection that waits for a request, if possible of a client that never
    /// had the cookie; whether there is one.
    fn evict(&mut self) -> bool {
        let oldest = |is_known: bool| {
            let mut idle = self.connections.iter().filter(|(_, connection)| connection.is_idle());
            idle.find(|(_, connection)| connection.is_known() == is_known).map(|(id, _)| *id)
        };
        let lingering = || {
            let mut all = self.connections.iter();
            all.find(|(_, connection)| *connection.phase() == Phase::Lingering).map(|(id, _)| *id)
        };
        let Some(id) = lingering().or_else(|| oldest(false)).or_else(|| oldest(true)) else {
            return false;
        };
        self.close(id);
        true
    }
}

fn busy(why: &str) -> Response {
    Response::problem(Status::ServiceUnavailable, why, Some("try again in a moment"))
        .with("Retry-After", "1")
}
