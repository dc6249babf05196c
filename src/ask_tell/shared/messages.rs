//! What the processes of one study send each other, and the inputs of their loops.

use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::Refusal;
use super::super::client::Speaker;

/// Version of the protocol between the processes of one study.
pub(super) const PROTOCOL: u32 = 3;

/// Write timeout of an answer to a peer, during which all others wait. A peer that is dropped joins
/// again and repeats its unanswered line.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for the first message of a peer or a holder.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// The first message of a peer.
#[derive(Serialize, Deserialize)]
pub(super) struct Hello {
    pub protocol: u32,
    /// Its name among the programs of the study.
    pub client: String,
    /// Its `init` line.
    pub init: String,
}

/// A line that a peer forwards.
#[derive(Serialize, Deserialize)]
pub(super) struct ForwardedLine {
    pub speaker: Speaker,
    pub line: String,
}

/// An input of the loop.
pub(super) enum Input {
    /// A line of its own program.
    Own(Result<String, Refusal>),
    /// The end of its program's lines.
    EndOfLines(io::Result<()>),
    Joined {
        peer: u64,
        stream: UnixStream,
        hello: Hello,
    },
    Forwarded {
        peer: u64,
        line: ForwardedLine,
    },
    PeerLeft {
        peer: u64,
    },
    /// An answer of the holder.
    Answered {
        connection: u64,
        answer: String,
    },
    HolderClosed {
        connection: u64,
    },
}

pub(super) fn read_own_lines(mut input: impl BufRead, lines: &SyncSender<Input>) {
    let mut line = Vec::new();
    let ended = loop {
        match super::super::line::next(&mut input, &mut line) {
            Ok(Some(text)) => {
                if lines.send(Input::Own(text.map(str::to_owned))).is_err() {
                    return;
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let _the_loop_has_ended = lines.send(Input::EndOfLines(ended));
}

pub(super) fn read_peer(peer: u64, stream: UnixStream, sender: &SyncSender<Input>) {
    let read = || -> io::Result<()> {
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
        let mut lines = BufReader::new(stream.try_clone()?);
        let hello = serde_json::from_str(&read_line(&mut lines)?)?;
        let _ended = sender.send(Input::Joined { peer, stream: stream.try_clone()?, hello });
        stream.set_read_timeout(None)?;
        loop {
            let line = serde_json::from_str(&read_line(&mut lines)?)?;
            let _ended = sender.send(Input::Forwarded { peer, line });
        }
    };
    let _gone = read();
    let _ended = sender.send(Input::PeerLeft { peer });
}

/// A line. An incomplete one is the end.
pub(super) fn read_line(lines: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    lines.read_line(&mut line)?;
    match line.pop() {
        Some('\n') => Ok(line),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

pub(super) fn write_line(stream: &mut UnixStream, line: &str) -> io::Result<()> {
    stream.write_all(format!("{line}\n").as_bytes())
}
