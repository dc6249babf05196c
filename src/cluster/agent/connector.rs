//! The agent's connection: opened, greeted and read on a thread; opened again when it breaks.

use std::io;
use std::net::{IpAddr, Shutdown, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::cluster::frames::{FrameReader, FrameWriter, connect, over_pipe};
use crate::cluster::message::{Envelope, Greeting, Hello, ToAgent, Welcome, bytes};
use crate::cluster::rendezvous::Rendezvous;
use crate::runner::threads;

/// Longest wait for a connection, and for the answer to the first messages.
const PATIENCE: Duration = Duration::from_secs(10);

/// First and longest pause between attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Where the runner is.
#[derive(Clone, Debug)]
pub enum RunnerAddress {
    /// At the addresses in this file.
    File(PathBuf),
    /// At the other end of standard input and output.
    StandardStreams,
    /// It connects to this socket, through relays that come and go.
    Socket(PathBuf),
}

/// What happens to the connection.
pub(super) enum LinkEvent {
    /// It is open, and begins with what the agent knows now, after all earlier events.
    Greet(Sender<Hello>),
    /// It is open, and greeted.
    Open(Connected, Box<Welcome>),
    /// A message.
    Frame(Envelope<ToAgent>),
    /// It is closed.
    Closed,
    /// It cannot be opened, and is tried again.
    Unreachable(String),
    /// The runner does not take the agent on.
    Refused(String),
    /// The file of the runner was removed, as a runner does at its end.
    NoRunner,
}

/// The writing end.
pub(super) struct Connected {
    frames: Sender<Vec<u8>>,
}

impl Connected {
    pub fn send(&self, frame: Vec<u8>) {
        // A broken connection is noticed by its reader; the message is sent again.
        let _broken = self.frames.send(frame);
    }
}

/// Where events go.
#[derive(Clone)]
struct Events {
    tx: Sender<LinkEvent>,
    /// The latest epoch of a runner.
    epoch: Arc<AtomicI64>,
}

impl Events {
    /// Whether the agent takes it: it has not ended.
    fn send(&self, event: LinkEvent) -> bool {
        self.tx.send(event).is_ok()
    }
}

/// Starts the thread. Its events end when there will be no other connection.
pub(super) fn start(address: RunnerAddress) -> io::Result<Receiver<LinkEvent>> {
    // A reader that is ahead of the agent waits.
    let (tx, heard) = bounded(1024);
    let events = Events { tx, epoch: Arc::new(AtomicI64::new(i64::MIN)) };
    threads::spawn("link", move || match address {
        RunnerAddress::StandardStreams => {
            let streams = over_pipe(io::stdin(), io::stdout());
            let _closed = serve(streams, None, &events);
        }
        RunnerAddress::File(path) => connect_again_and_again(&path, &events),
        RunnerAddress::Socket(path) => serve_relays(&path, &events),
    })?;
    Ok(heard)
}

/// Serves the relay that came last.
fn serve_relays(path: &Path, events: &Events) {
    // One that a killed agent left.
    let _none_there = std::fs::remove_file(path);
    let Ok(listener) = UnixListener::bind(path) else { return };
    let mut before: Option<(UnixStream, JoinHandle<()>)> = None;
    for stream in listener.incoming().map_while(Result::ok) {
        if let Some((stream, served)) = before.take() {
            let _closed_already = stream.shutdown(Shutdown::Both);
            // Its end is told before the next one begins.
            let _ended = served.join();
        }
        let streams = stream.try_clone().and_then(|from| Ok((from, stream.try_clone()?)));
        let Ok((from, to)) = streams else { continue };
        let events = events.clone();
        let served = threads::spawn("relay", move || {
            let _broken = serve(over_pipe(from, to), None, &events);
        });
        before = served.ok().map(|served| (stream, served));
    }
}

fn connect_again_and_again(path: &Path, events: &Events) {
    let (first, longest) = PAUSES;
    let mut pause = first;
    let mut told = None;
    loop {
        let begun = Instant::now();
        let opened = open(path);
        // Of a file that is not there its user knows.
        let why = opened.as_ref().err().filter(|_| path.exists()).map(ToString::to_string);
        if let Some(why) = why.as_ref().filter(|why| told.as_ref() != Some(*why))
            && !events.send(LinkEvent::Unreachable(why.clone()))
        {
            return;
        }
        told = why;
        let result = opened.and_then(|(streams, own)| serve(streams, own, events));
        // A directory that cannot be reached says nothing.
        let is_there = |parent: &Path| parent == Path::new("") || parent.exists();
        let has_ended = || !path.exists() && path.parent().is_some_and(is_there);
        if result.is_err() && has_ended() && !events.send(LinkEvent::NoRunner) {
            return;
        }
        if matches!(result, Ok(Served::ToTheEnd)) {
            return;
        }
        if begun.elapsed() > longest {
            pause = first;
        }
        // Between a half and one and a half, so that a thousand agents do not come at once.
        threads::sleep(pause.mul_f64(0.5 + jitter()));
        pause = (pause * 2).min(longest);
    }
}

/// A number in [0, 1) that differs between processes and moments.
fn jitter() -> f64 {
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |passed| passed.subsec_nanos());
    f64::from(nanos.wrapping_mul(std::process::id() | 1) % 1_000) / 1_000.0
}

/// Connects to the runner; also gives this machine's address on the way there.
fn open(path: &Path) -> io::Result<((FrameReader, FrameWriter), Option<IpAddr>)> {
    let rendezvous = Rendezvous::read(path)?;
    let token = rendezvous.token().ok_or(io::ErrorKind::InvalidData)?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let at =
        |name: &str, error: &io::Error| io::Error::new(error.kind(), format!("`{name}`: {error}"));
    for name in &rendezvous.addresses {
        let addresses = match name.to_socket_addrs() {
            Ok(addresses) => addresses,
            Err(error) => {
                last = at(name, &error);
                continue;
            }
        };
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    let own = stream.local_addr().ok().map(|address| address.ip());
                    let streams = greet_securely(&stream, &token);
                    return Ok((streams.map_err(|error| at(name, &refusal(error)))?, own));
                }
                Err(error) => last = at(name, &error),
            }
        }
    }
    Err(last)
}

fn greet_securely(
    stream: &TcpStream,
    token: &crate::cluster::frames::Token,
) -> io::Result<(FrameReader, FrameWriter)> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    connect(stream.try_clone()?, stream.try_clone()?, token)
}

/// A runner closes a connection without a word if its token is another one.
fn refusal(error: io::Error) -> io::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    if !matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) {
        return error;
    }
    let why = "the connection was refused: the token in the file is not that of the runner there";
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// How a connection ended.
enum Served {
    /// Another one may be opened.
    Broken,
    /// It was the last one.
    ToTheEnd,
}

fn serve(
    (mut reader, mut writer): (FrameReader, FrameWriter),
    address: Option<IpAddr>,
    events: &Events,
) -> io::Result<Served> {
    let (tell, told) = bounded(1);
    let asked = events.send(LinkEvent::Greet(tell));
    // The agent has ended.
    let Some(hello) = asked.then(|| told.recv().ok()).flatten() else {
        return Ok(Served::ToTheEnd);
    };
    writer.write(&bytes(&Hello { address, ..hello }))?;
    let Some(greeting) = reader.read()? else { return Ok(Served::Broken) };
    let welcome = match serde_json::from_slice(&greeting)? {
        // A runner that was replaced, and has not noticed it yet.
        Greeting::Welcome(welcome)
            if events.epoch.fetch_max(welcome.epoch, Ordering::Relaxed) > welcome.epoch =>
        {
            return Ok(Served::Broken);
        }
        Greeting::Welcome(welcome) => welcome,
        Greeting::Refused { why } => {
            let _ended = events.send(LinkEvent::Refused(why));
            return Ok(Served::ToTheEnd);
        }
    };
    let (frames, to_write) = unbounded::<Vec<u8>>();
    threads::spawn("to the runner", move || {
        let _broken = writer.write_all_of(&to_write);
    })?;
    let is_over = |event| !events.send(event);
    if is_over(LinkEvent::Open(Connected { frames }, welcome)) {
        return Ok(Served::ToTheEnd);
    }
    let result = loop {
        match reader.read() {
            Ok(None) => break Ok(Served::Broken),
            Err(error) => break Err(error),
            Ok(Some(frame)) => match serde_json::from_slice(&frame) {
                Ok(envelope) => {
                    if is_over(LinkEvent::Frame(envelope)) {
                        return Ok(Served::ToTheEnd);
                    }
                }
                Err(error) => break Err(error.into()),
            },
        }
    };
    if is_over(LinkEvent::Closed) {
        return Ok(Served::ToTheEnd);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::spec::StudySpec;

    /// What an agent does with the greeting of a runner of this epoch.
    fn greeted(epoch: i64, events: &Events, heard: &Receiver<LinkEvent>) -> bool {
        let (here, there) = UnixStream::pair().unwrap();
        let runner = std::thread::spawn(move || {
            let (mut reader, mut writer) = over_pipe(there.try_clone().unwrap(), there);
            let spec =
                StudySpec::new("s", "loss", Direction::Minimize, Space::default(), Program::Inline);
            let welcome = Welcome { epoch, ..Welcome::of(spec) };
            reader.read().unwrap();
            writer.write(&bytes(&Greeting::Welcome(Box::new(welcome)))).unwrap();
        });
        let serving = events.clone();
        let agent = std::thread::spawn(move || {
            let _closed = serve(over_pipe(here.try_clone().unwrap(), here), None, &serving);
        });
        let Ok(LinkEvent::Greet(tell)) = heard.recv() else { panic!("it begins with a greeting") };
        tell.send(Hello::of_session("a")).unwrap();
        agent.join().unwrap();
        runner.join().unwrap();
        // All of them: the next connection begins with its own.
        heard.try_iter().filter(|event| matches!(event, LinkEvent::Open(..))).count() > 0
    }

    #[test]
    fn a_runner_that_was_replaced_is_not_followed() {
        let (tx, heard) = bounded(16);
        let events = Events { tx, epoch: Arc::new(AtomicI64::new(i64::MIN)) };
        let followed = [5, 4, 5, 6, 5].map(|epoch| greeted(epoch, &events, &heard));
        assert_eq!(followed, [true, false, true, true, false]);
    }
}
