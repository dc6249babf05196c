//! Frames over a byte stream: byte strings of any length, encrypted on a network.
//!
//! Encryption and mutual authentication are those of the Noise protocol framework
//! (<https://noiseprotocol.org/noise.html>), pattern `NNpsk0`: both sides prove that they know the
//! token, and recorded traffic stays secret even if the token is found later.

use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;

use crossbeam_channel::Receiver;
use snow::{HandshakeState, StatelessTransportState};

/// The protocol's name; another version of the frames gets another prologue.
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"hpsearch frames 1";

/// Longest frame in bytes: more is a fault, or an attack.
pub const LONGEST_FRAME: usize = 64 << 20;

/// Longest message of Noise, and the length of its authentication tag.
const LONGEST_CHUNK: usize = 65_535;
const TAG: usize = 16;

/// Bytes that are read ahead: small frames take no system call each.
const READ_AHEAD: usize = 16 << 10;

/// Bytes after which frames are written, even if more wait.
const WRITTEN_AT_ONCE: usize = 256 << 10;

/// A secret that both sides know.
pub type Token = [u8; 32];

/// Encrypts or decrypts one direction.
struct Cipher {
    state: Arc<StatelessTransportState>,
    nonce: u64,
}

/// Writes frames.
pub struct FrameWriter {
    stream: Box<dyn Write + Send>,
    cipher: Option<Cipher>,
}

/// Reads frames.
pub struct FrameReader {
    stream: Box<dyn Read + Send>,
    cipher: Option<Cipher>,
    /// A chunk as it was read.
    sealed: Vec<u8>,
    /// Room for what it holds: as much as the longest one needed, since there may be a thousand
    /// readers.
    piece: Vec<u8>,
}

/// Frames over a pipe, which needs no secrets.
pub fn over_pipe(
    from: impl Read + Send + 'static,
    to: impl Write + Send + 'static,
) -> (FrameReader, FrameWriter) {
    (FrameReader::new(from, None), FrameWriter { stream: Box::new(to), cipher: None })
}

/// The agent's side of an encrypted connection.
///
/// # Errors
/// The stream fails, or the other side does not know the token.
pub fn connect(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    token: &Token,
) -> io::Result<(FrameReader, FrameWriter)> {
    let mut state = handshake(token, true)?;
    say(&mut state, &mut to)?;
    hear(&mut state, &mut from)?;
    sealed(state, from, to)
}

/// The runner's side.
///
/// # Errors
/// The stream fails, or the other side does not know the token.
pub fn accept(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    token: &Token,
) -> io::Result<(FrameReader, FrameWriter)> {
    let mut state = handshake(token, false)?;
    hear(&mut state, &mut from)?;
    say(&mut state, &mut to)?;
    sealed(state, from, to)
}

fn handshake(token: &Token, begins: bool) -> io::Result<HandshakeState> {
    let pattern = PATTERN.parse().map_err(io::Error::other)?;
    let builder = snow::Builder::new(pattern).prologue(PROLOGUE).map_err(io::Error::other)?;
    let builder = builder.psk(0, token).map_err(io::Error::other)?;
    if begins { builder.build_initiator() } else { builder.build_responder() }
        .map_err(io::Error::other)
}

fn say(state: &mut HandshakeState, to: &mut impl Write) -> io::Result<()> {
    let mut message = [0; 256];
    let length = state.write_message(&[], &mut message).map_err(io::Error::other)?;
    write_chunk(to, &message[..length])?;
    to.flush()
}

fn hear(state: &mut HandshakeState, from: &mut impl Read) -> io::Result<()> {
    let mut chunk = Vec::new();
    // A client of another protocol, which would announce any length.
    read_chunk(from, &mut chunk, 256)?;
    let wrong = |_| io::Error::new(io::ErrorKind::PermissionDenied, "the token is another one");
    state.read_message(&chunk, &mut [0; 256]).map_err(wrong)?;
    Ok(())
}

fn sealed(
    state: HandshakeState,
    from: impl Read + Send + 'static,
    to: impl Write + Send + 'static,
) -> io::Result<(FrameReader, FrameWriter)> {
    let state = Arc::new(state.into_stateless_transport_mode().map_err(io::Error::other)?);
    let cipher = || Some(Cipher { state: Arc::clone(&state), nonce: 0 });
    Ok((FrameReader::new(from, cipher()), FrameWriter { stream: Box::new(to), cipher: cipher() }))
}

fn write_chunk(to: &mut impl Write, chunk: &[u8]) -> io::Result<()> {
    let length = u16::try_from(chunk.len()).map_err(io::Error::other)?;
    to.write_all(&[&length.to_be_bytes()[..], chunk].concat())
}

fn read_chunk(from: &mut impl Read, chunk: &mut Vec<u8>, longest: usize) -> io::Result<()> {
    let mut length = [0; 2];
    from.read_exact(&mut length)?;
    let length = usize::from(u16::from_be_bytes(length));
    if length > longest {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a peer of this protocol"));
    }
    chunk.resize(length, 0);
    from.read_exact(chunk)
}

impl FrameWriter {
    /// Writes a frame, and flushes.
    ///
    /// # Errors
    /// The stream fails.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.seal(frame, &mut bytes)?;
        self.send(&bytes)
    }

    /// Writes the frames of a channel until it is closed; those that wait together.
    ///
    /// # Errors
    /// The stream fails.
    pub fn write_all_of(&mut self, frames: &Receiver<Vec<u8>>) -> io::Result<()> {
        let mut bytes = Vec::new();
        while let Ok(frame) = frames.recv() {
            self.seal(&frame, &mut bytes)?;
            while bytes.len() < WRITTEN_AT_ONCE
                && let Ok(frame) = frames.try_recv()
            {
                self.seal(&frame, &mut bytes)?;
            }
            self.send(&bytes)?;
            bytes.clear();
            bytes.shrink_to(WRITTEN_AT_ONCE);
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Appends a frame as the stream carries it.
    fn seal(&mut self, frame: &[u8], to: &mut Vec<u8>) -> io::Result<()> {
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?.to_be_bytes();
        let Some(cipher) = &mut self.cipher else {
            to.extend_from_slice(&length);
            to.extend_from_slice(frame);
            return Ok(());
        };
        let plain = [&length[..], frame].concat();
        for piece in plain.chunks(LONGEST_CHUNK - TAG) {
            let begin = to.len();
            to.resize(begin + 2 + piece.len() + TAG, 0);
            let (head, sealed) = to[begin..].split_at_mut(2);
            let written = cipher.state.write_message(cipher.nonce, piece, sealed);
            let length = u16::try_from(written.map_err(io::Error::other)?);
            head.copy_from_slice(&length.map_err(io::Error::other)?.to_be_bytes());
            cipher.nonce += 1;
        }
        Ok(())
    }
}

impl FrameReader {
    fn new(from: impl Read + Send + 'static, cipher: Option<Cipher>) -> Self {
        let stream = Box::new(BufReader::with_capacity(READ_AHEAD, from));
        FrameReader { stream, cipher, sealed: Vec::new(), piece: Vec::new() }
    }

    /// The next frame; `None` at the end of the stream.
    ///
    /// # Errors
    /// The stream fails, was changed on the way, or holds something else.
    pub fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut plain = Vec::new();
        let ended = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Ok(None),
            _ => Err(error),
        };
        let Some(cipher) = &mut self.cipher else {
            let mut length = [0; 4];
            if let Err(error) = self.stream.read_exact(&mut length) {
                return ended(error);
            }
            // Its length is only claimed so far.
            let length = checked(length)?;
            let taken = (&mut self.stream).take(length as u64).read_to_end(&mut plain)?;
            return Ok((taken == length).then_some(plain));
        };
        loop {
            if let Err(error) = read_chunk(&mut self.stream, &mut self.sealed, LONGEST_CHUNK) {
                return ended(error);
            }
            let changed = |_| io::Error::new(io::ErrorKind::InvalidData, "a frame was changed");
            self.piece.resize(self.piece.len().max(self.sealed.len()), 0);
            let read = cipher.state.read_message(cipher.nonce, &self.sealed, &mut self.piece);
            let length = read.map_err(changed)?;
            cipher.nonce += 1;
            plain.extend_from_slice(&self.piece[..length]);
            let Some((head, body)) = plain.split_first_chunk::<4>() else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame without a length"));
            };
            if body.len() >= checked(*head)? {
                plain.drain(..4);
                return Ok(Some(plain));
            }
        }
    }
}

fn checked(length: [u8; 4]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > LONGEST_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"));
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    type Frames = (FrameReader, FrameWriter);

    fn halves(stream: &UnixStream) -> (UnixStream, UnixStream) {
        (stream.try_clone().unwrap(), stream.try_clone().unwrap())
    }

    fn pair(one: Token, other: Token) -> (io::Result<Frames>, io::Result<Frames>) {
        let (here, there) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let accepted = scope.spawn(move || {
                let (from, to) = halves(&there);
                let accepted = accept(from, to, &other);
                drop(there);
                accepted
            });
            let (from, to) = halves(&here);
            let connected = connect(from, to, &one);
            drop(here);
            (connected, accepted.join().unwrap())
        })
    }

    #[test]
    fn frames_of_any_length_arrive_as_they_were_both_ways() {
        let (agent, runner) = pair([7; 32], [7; 32]);
        let ((mut from_runner, mut to_runner), (mut from_agent, mut to_agent)) =
            (agent.unwrap(), runner.unwrap());
        let long: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut frames =
            vec![b"".to_vec(), b"short".to_vec(), long.clone(), vec![0; 65_515], vec![1; 65_516]];
        frames.extend((0..1_000_u32).map(|number| number.to_le_bytes().to_vec()));
        let (queue, waiting) = crossbeam_channel::unbounded();
        frames[2..].iter().for_each(|frame| queue.send(frame.clone()).unwrap());
        drop(queue);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                frames[..2].iter().for_each(|frame| to_runner.write(frame).unwrap());
                to_runner.write_all_of(&waiting).unwrap();
            });
            for frame in &frames {
                assert!(from_agent.read().unwrap().as_ref() == Some(frame), "{}", frame.len());
            }
            scope.spawn(|| to_agent.write(&long).unwrap());
            assert!(from_runner.read().unwrap() == Some(long.clone()));
        });
        drop(to_agent);
        drop(from_agent);
        assert_eq!(from_runner.read().unwrap(), None);
    }

    #[test]
    fn another_token_is_refused_on_both_sides() {
        let (agent, runner) = pair([7; 32], [8; 32]);
        assert!(agent.is_err());
        let refused = runner.err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn what_was_changed_on_the_way_is_refused() {
        let (agent, runner) = pair([7; 32], [7; 32]);
        let ((_, mut to_runner), (mut from_agent, _)) = (agent.unwrap(), runner.unwrap());
        // A frame of the right form under a nonce that was used.
        to_runner.write(b"first").unwrap();
        to_runner.cipher.as_mut().unwrap().nonce = 0;
        to_runner.write(b"again").unwrap();
        assert_eq!(from_agent.read().unwrap().as_deref(), Some(&b"first"[..]));
        assert_eq!(from_agent.read().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_client_of_another_protocol_is_refused_at_its_first_bytes() {
        for words in ["GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "\0\x08garbage!"] {
            let (here, mut there) = UnixStream::pair().unwrap();
            there.write_all(words.as_bytes()).unwrap();
            let (from, to) = halves(&here);
            assert!(accept(from, to, &[7; 32]).is_err(), "{words}");
        }
    }

    #[test]
    fn pipes_carry_frames_as_they_are() {
        let (here, there) = UnixStream::pair().unwrap();
        let (from, to) = halves(&here);
        let (_, mut writer) = over_pipe(from, to);
        writer.write(b"plain").unwrap();
        let (from, to) = halves(&there);
        let (mut reader, _) = over_pipe(from, to);
        assert_eq!(reader.read().unwrap().as_deref(), Some(&b"plain"[..]));
        // A claimed length takes no memory.
        (&here).write_all(&[0x7f, 0xff, 0xff, 0xff]).unwrap();
        assert_eq!(reader.read().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
