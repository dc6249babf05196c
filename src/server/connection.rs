//! One connection: what came in, what waits to go out, and until when each must happen.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::body::{FileBody, FilePart};
use super::http::{self, Head, HttpRequest, MOST_BODY, MOST_HEAD, Method};
use super::response::{Parts, Response, Status};

/// Deadlines and limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many connections are held at most.
    pub connections: usize,
    /// How many of them receive events at most.
    pub streams: usize,
    /// For a head, from its first byte, or from the beginning of the connection.
    pub head: Duration,
    /// For a body, from the end of its head.
    pub body: Duration,
    /// Between requests.
    pub idle: Duration,
    /// For a response; one that is large gets more, at `Limits::SLOWEST`.
    pub write: Duration,
    /// How long events may wait for a client to read them.
    pub unread: Duration,
    /// Between two signs of life in a stream of events.
    pub heartbeat: Duration,
}

impl Limits {
    /// Bytes a second that a client reads at least.
    const SLOWEST: usize = 32 * 1024;
    /// Bytes of events that may wait for a client.
    pub const MOST_UNREAD: usize = 2 * 1024 * 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 512,
            streams: 64,
            head: Duration::from_secs(10),
            body: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            write: Duration::from_secs(20),
            unread: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
        }
    }
}

/// How long a closed connection is read on: closing one with unread bytes takes the response back.
const LINGER: Duration = Duration::from_secs(2);

/// What a connection is doing.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// It reads a request; with a head, its body.
    Reading(Option<Head>),
    /// A request is being answered elsewhere; what it wants of the response, and whether the
    /// connection is kept.
    Answering(Parts, bool),
    /// It writes a response; whether the connection is kept.
    Writing(bool),
    /// It writes events for as long as the client stays.
    Streaming,
    /// The response is out, and the rest of what the client sends is thrown away.
    Lingering,
}

/// What became of a connection after its socket was ready.
#[derive(Debug)]
pub enum Turn {
    /// It waits.
    Waits,
    /// A request is complete.
    Asked(HttpRequest),
    /// It has sent what it had of a file, and this part is next.
    Needs(FilePart),
    /// It is over.
    Closed,
}

/// A connection.
pub struct Connection {
    stream: TcpStream,
    local: IpAddr,
    limits: Limits,
    phase: Phase,
    input: Vec<u8>,
    scanned: usize,
    output: VecDeque<Arc<[u8]>>,
    /// Bytes of the first part of the output that are out.
    written: usize,
    unwritten: usize,
    /// What is left of the response's file.
    file: Option<FileBody>,
    /// Whether a part of the file is being read.
    waits_for_part: bool,
    deadline: Option<Instant>,
    is_known: bool,
}

impl Connection {
    /// A connection that was just accepted.
    ///
    /// # Errors
    /// The client has gone already.
    pub fn new(stream: TcpStream, limits: Limits, now: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            local: stream.local_addr()?.ip().to_canonical(),
            stream,
            limits,
            phase: Phase::Reading(None),
            input: Vec::new(),
            scanned: 0,
            output: VecDeque::new(),
            written: 0,
            unwritten: 0,
            file: None,
            waits_for_part: false,
            deadline: Some(now + limits.head),
            is_known: false,
        })
    }

    /// Its socket, to be polled.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The address that the client connected to.
    pub fn local(&self) -> IpAddr {
        self.local
    }

    /// What it is doing.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// When it must have gone on.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Marks it as one whose client has the cookie.
    pub fn know(&mut self) {
        self.is_known = true;
    }

    /// Whether its client had the cookie.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether it is between requests, or has not made one.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Reading(_))
    }

    /// Whether it waits for bytes of the client. While a request is answered, the next one waits in
    /// the system's buffer.
    pub fn reads(&self) -> bool {
        matches!(self.phase, Phase::Reading(_) | Phase::Streaming | Phase::Lingering)
    }

    /// Whether it has something to write.
    pub fn writes(&self) -> bool {
        self.unwritten > 0
    }

    /// Takes in what the client sent.
    pub fn read(&mut self, now: Instant) -> Turn {
        let mut bytes = [0_u8; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => Turn::Closed,
            Ok(length) => {
                if let Phase::Reading(_) = self.phase {
                    if self.input.is_empty() {
                        self.deadline = Some(now + self.limits.head);
                    }
                    self.input.extend_from_slice(&bytes[..length]);
                    return self.next_request(now);
                }
                // A stream has no further requests.
                Turn::Waits
            }
            Err(error) if is_later(&error) => Turn::Waits,
            Err(_) => Turn::Closed,
        }
    }

    /// The request that the input begins with, once it is complete.
    fn next_request(&mut self, now: Instant) -> Turn {
        if self.phase == Phase::Reading(None) {
            // Empty lines before a request are skipped, as RFC 9112 asks.
            while self.input.starts_with(b"\r\n") && self.scanned == 0 {
                self.input.drain(..2);
            }
            match http::head(&self.input, &mut self.scanned) {
                Ok(None) => return Turn::Waits,
                Ok(Some((head, length))) => {
                    self.input.drain(..length);
                    self.deadline = Some(now + self.limits.body);
                    self.phase = Phase::Reading(Some(head));
                }
                Err(response) => return self.refuse(&response, now),
            }
        }
        let Phase::Reading(Some(head)) = &self.phase else { return Turn::Waits };
        if self.input.len() < head.body {
            return Turn::Waits;
        }
        let head = head.clone();
        let body = self.input.drain(..head.body).collect();
        self.deadline = None;
        let parts = if head.method == Method::Head { Parts::Head } else { Parts::Whole };
        self.phase = Phase::Answering(parts, head.is_kept);
        Turn::Asked(HttpRequest { head, body })
    }

    /// Writes the answer to its request.
    pub fn answer(&mut self, response: &Response, now: Instant) -> Turn {
        let Phase::Answering(parts, is_kept) = self.phase else { return Turn::Waits };
        self.send(response.bytes(parts, is_kept).into());
        self.file = response.file_body(parts);
        self.phase = Phase::Writing(is_kept);
        self.write_in_time(now)
    }

    /// Writes the next part of the response's file; without one, the client learns from the length
    /// that it lacks the rest.
    pub fn send_part(&mut self, part: Option<Arc<[u8]>>, now: Instant) -> Turn {
        let Some(part) = part.filter(|_| self.waits_for_part) else { return Turn::Closed };
        self.waits_for_part = false;
        self.send(part);
        self.write_in_time(now)
    }

    /// Writes what there is, until a deadline.
    fn write_in_time(&mut self, now: Instant) -> Turn {
        let seconds = self.unwritten / Limits::SLOWEST;
        let slowest = Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX));
        self.deadline = Some(now + self.limits.write + slowest);
        self.write(now)
    }

    /// Writes an error and closes the connection: what follows cannot be understood.
    fn refuse(&mut self, response: &Response, now: Instant) -> Turn {
        self.phase = Phase::Answering(Parts::Whole, false);
        self.answer(response, now)
    }

    /// Turns the connection into a stream of events.
    pub fn begin_stream(&mut self, now: Instant) -> Turn {
        self.phase = Phase::Streaming;
        self.deadline = None;
        self.input = Vec::new();
        self.push(Response::event_stream().into(), now)
    }

    /// Writes a part of a stream; the connection is closed if the client leaves too much unread.
    pub fn push(&mut self, bytes: Arc<[u8]>, now: Instant) -> Turn {
        if self.phase != Phase::Streaming || self.unwritten + bytes.len() > Limits::MOST_UNREAD {
            return Turn::Closed;
        }
        self.send(bytes);
        self.write(now)
    }

    fn send(&mut self, bytes: Arc<[u8]>) {
        self.unwritten += bytes.len();
        self.output.push_back(bytes);
    }

    /// Writes what the client takes.
    pub fn write(&mut self, now: Instant) -> Turn {
        while let Some(part) = self.output.front() {
            match self.stream.write(&part[self.written..]) {
                Ok(0) => return Turn::Closed,
                Ok(length) => {
                    self.written += length;
                    self.unwritten -= length;
                    if self.phase == Phase::Streaming {
                        self.deadline = None;
                    }
                    if self.written == part.len() {
                        self.output.pop_front();
                        self.written = 0;
                    }
                }
                Err(error) if is_later(&error) => {
                    if self.phase == Phase::Streaming {
                        self.deadline.get_or_insert(now + self.limits.unread);
                    }
                    return Turn::Waits;
                }
                Err(_) => return Turn::Closed,
            }
        }
        if self.waits_for_part {
            return Turn::Waits;
        }
        if let Some(part) = self.file.as_mut().and_then(FileBody::next_part) {
            self.waits_for_part = true;
            self.deadline = None;
            return Turn::Needs(part);
        }
        self.file = None;
        match self.phase {
            Phase::Writing(true) => {
                self.phase = Phase::Reading(None);
                self.deadline = Some(now + self.limits.idle);
                if self.input.is_empty() {
                    return Turn::Waits;
                }
                // The client did not wait for the response before its next request.
                self.deadline = Some(now + self.limits.head);
                self.next_request(now)
            }
            Phase::Writing(false) => match self.stream.shutdown(Shutdown::Write) {
                Ok(()) => {
                    self.phase = Phase::Lingering;
                    self.deadline = Some(now + LINGER);
                    Turn::Waits
                }
                Err(_) => Turn::Closed,
            },
            _ => Turn::Waits,
        }
    }

    /// What happens at its deadline: a client that has begun a request gets an answer, any other
    /// connection is closed.
    pub fn expire(&mut self, now: Instant) -> Turn {
        let has_begun = match &self.phase {
            Phase::Reading(None) => !self.input.is_empty(),
            Phase::Reading(Some(_)) => true,
            _ => false,
        };
        if !has_begun {
            return Turn::Closed;
        }
        let text = "the request did not arrive in time\n";
        self.refuse(&Response::text(Status::RequestTimeout, text), now)
    }
}

/// The most that is read of one client before it is answered.
const _: () = assert!(MOST_HEAD + MOST_BODY <= 128 * 1024);

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
