//! A stored study for several programs at once. The process that holds the lease answers the lines
//! of its own program and those of its peers, which reach it over a socket. When it ends, a peer
//! takes the lease, and unanswered lines are sent again.

mod holder;
mod messages;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use serde_json::Value as Json;

use super::client::{Client, Speaker, Topic};
use super::identity::Identity;
use super::request::{Checked, Request};
use super::{
    Begun, HeldOr, Refusal, Settled, begun_already, done, enqueued, not_begun, refused, removed,
};
use crate::app::held_study::{HeldError, LOOK};
use crate::app::study_clients::{self, ClientFile, Listening};
use crate::app::study_state::has_runner;
use crate::runner::{self, RunnerError, threads};
use crate::storage::address::is_on_server;
use crate::storage::any::{AnyReader, AnyStore};
use crate::storage::{Storage as _, StorageError, StorageReader as _, StudyId};
use crate::study::params::Params;
use crate::study::request::Request as StoredRequest;
use crate::study::time::Timestamp;
use holder::Holder;
use messages::{
    ForwardedLine, HANDSHAKE_TIMEOUT, Hello, Input, PROTOCOL, read_line, read_own_lines, read_peer,
    write_line,
};

/// Interval of polling for the answer to a stored request, and for a holder that is starting.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Polls of a holder that does not listen yet.
const MAX_POLLS: u32 = 50;

/// A holder that took the lease within this time is still reading the study and is waited for.
const STARTUP_TIME: Duration = Duration::from_secs(5);

/// Capacity of the queue of inputs; senders block when it is full.
const QUEUE: usize = 64;

/// The role of this process in the study.
enum Role {
    /// It has not begun, or lost its holder.
    Detached,
    Holder(Box<Holder>),
    Peer {
        stream: UnixStream,
        connection: u64,
    },
}

/// An unanswered line.
struct Current {
    line: String,
    topic: Topic,
    waiting: Waiting,
}

/// What an unanswered line waits for.
enum Waiting {
    /// For the holder's answer.
    Holder,
    /// For the end of the study's pause.
    Paused,
    /// For a stored request, which the holder serves.
    Request { store: Box<AnyStore>, study: StudyId, id: i64 },
}

/// Answers the lines of the program, about the study of this name in the store, until `quit` or the
/// end of the input.
///
/// # Errors
/// A stream cannot be read or written.
pub fn converse_stored<R: BufRead>(
    store: PathBuf,
    study: String,
    input: impl FnOnce() -> R + Send + 'static,
    output: impl Write,
) -> io::Result<()> {
    let (sender, inputs) = sync_channel(QUEUE);
    let lines = sender.clone();
    threads::spawn("lines", move || read_own_lines(input(), &lines))?;
    let mut session = StoredSession {
        place: (store, study),
        output,
        sender,
        inputs,
        role: Role::Detached,
        client: Client::default(),
        file: None,
        init: None,
        current: None,
        lines: VecDeque::new(),
        connections: 0,
        store_id: None,
        study_id: None,
        loss: None,
    };
    let ended = session.run();
    session.leave();
    ended
}

struct StoredSession<W> {
    place: (PathBuf, String),
    output: W,
    sender: SyncSender<Input>,
    inputs: Receiver<Input>,
    role: Role,
    client: Client,
    file: Option<ClientFile>,
    /// The program's `init` line.
    init: Option<String>,
    /// The line that is being answered.
    current: Option<Current>,
    /// Lines after it.
    lines: VecDeque<Result<String, Refusal>>,
    connections: u64,
    /// The id of the store in which it has begun.
    store_id: Option<String>,
    /// The [`Identity`] of the study with which the program has begun, in this session or before.
    study_id: Option<String>,
    /// What was lost with files of the store, for the answer to the next line.
    loss: Option<Refusal>,
}

impl<W: Write> StoredSession<W> {
    fn run(&mut self) -> io::Result<()> {
        let mut ended = None;
        loop {
            while self.current.is_none()
                && let Some(line) = self.lines.pop_front()
            {
                match line {
                    Ok(line) if matches!(Request::read(&line), Ok(Request::Quit)) => {
                        return self.print(&done());
                    }
                    Ok(line) => self.answer_line(line, false)?,
                    Err(refusal) => self.print(&refused(&refusal))?,
                }
            }
            // At the end of the input, a line that waits for a pause to end is dropped.
            let waits = self.current.as_ref().is_some_and(|current| !current.is_paused());
            if !waits && let Some(ended) = ended {
                return ended;
            }
            let input = match self.poll_interval() {
                Some(interval) => self.inputs.recv_timeout(interval),
                None => self.inputs.recv().map_err(RecvTimeoutError::from),
            };
            match input {
                Ok(Input::Own(line)) => self.lines.push_back(line),
                Ok(Input::EndOfLines(how)) => ended = Some(how),
                Ok(Input::Joined { peer, stream, hello }) => self.admit(peer, stream, &hello),
                Ok(Input::Forwarded { peer, line }) => self.answer_peer(peer, line),
                Ok(Input::PeerLeft { peer }) => self.remove_peer(peer),
                Ok(Input::Answered { connection, answer }) if self.is_connected_by(connection) => {
                    self.receive_answer(&answer)?
                }
                Ok(Input::HolderClosed { connection }) if self.is_connected_by(connection) => {
                    self.find_another_holder()?
                }
                // From a previous holder.
                Ok(Input::Answered { .. } | Input::HolderClosed { .. }) => {}
                Err(RecvTimeoutError::Timeout) => self.poll()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// When to poll next, without an input.
    fn poll_interval(&self) -> Option<Duration> {
        match (&self.current, &self.role) {
            (Some(Current { waiting: Waiting::Request { .. }, .. }), _) => Some(POLL_INTERVAL),
            (_, Role::Holder(_)) => Some(LOOK),
            _ => None,
        }
    }

    fn is_connected_by(&self, id: u64) -> bool {
        matches!(self.role, Role::Peer { connection, .. } if connection == id)
    }

    fn print(&mut self, answer: &Json) -> io::Result<()> {
        self.output.write_all(answer.to_string().as_bytes())?;
        self.output.write_all(b"\n")?;
        self.output.flush()
    }

    /// Answers a line of the program, now or later; `again`: a previous holder may have served it.
    fn answer_line(&mut self, line: String, again: bool) -> io::Result<()> {
        let request = match Request::read(&line) {
            Ok(request) => request,
            Err(refusal) => return self.print(&refused(&refusal)),
        };
        let topic = Topic::of(&request);
        let answer = match request {
            Request::Init(_) if self.init.is_some() => Err(begun_already()),
            Request::Init(mut init) => {
                self.study_id = init.take("study_id");
                self.join(&line).inspect(|_| self.init = Some(line))
            }
            request => match self.answer_request(request, &topic, line, again) {
                Ok(None) => return Ok(()),
                Ok(Some(answer)) => Ok(answer),
                Err(refusal) => Err(refusal),
            },
        };
        self.finish(&topic, &answer.unwrap_or_else(|refusal| refused(&refusal)))
    }

    /// The answer to a request, if there is one now.
    fn answer_request(
        &mut self,
        request: Request,
        topic: &Topic,
        line: String,
        again: bool,
    ) -> Result<Option<Json>, Refusal> {
        let init = self.init.clone().ok_or_else(not_begun)?;
        self.release_if_fenced();
        if let Some(loss) = self.loss.take() {
            return Err(loss);
        }
        if matches!(self.role, Role::Detached) {
            self.join(&init)?;
        }
        let name = self.file.as_ref().map_or("", ClientFile::name);
        let speaker = self.client.says(name, topic, again);
        let waiting = match (&mut self.role, request) {
            (Role::Holder(holder), request) => match holder.study.answer(request, &speaker)? {
                Some(answer) => return Ok(Some(answer)),
                None => Waiting::Paused,
            },
            (_, Request::Enqueue { params }) => self.request(params)?,
            (Role::Peer { stream, .. }, _) => {
                // A failed write also ends the connection, which is an input.
                let forwarded = ForwardedLine { speaker, line: line.clone() };
                let _is_an_input =
                    write_line(stream, &serde_json::to_string(&forwarded).unwrap_or_default());
                Waiting::Holder
            }
            (Role::Detached, _) => return Err(not_begun()),
        };
        self.current = Some(Current { line, topic: topic.clone(), waiting });
        Ok(None)
    }

    /// Releases a study whose store failed or whose lease was taken over.
    fn release_if_fenced(&mut self) {
        if let Role::Holder(holder) = &self.role
            && holder.study.held.check().is_err()
        {
            self.role = Role::Detached;
        }
    }

    /// Stores a request to run a configuration, which is served once by this or a later holder.
    fn request(&self, params: Params) -> Result<Waiting, Refusal> {
        let (path, name) = &self.place;
        let put = || -> Result<_, StorageError> {
            let mut store = Box::new(AnyStore::open_existing(path)?);
            let Some(study) = store.study(name)? else { return Ok(None) };
            let id = store.request(study.id, runner::now(), &StoredRequest::Enqueue { params })?;
            Ok(Some(Waiting::Request { store, study: study.id, id }))
        };
        put().map_err(HeldError::Storage)?.ok_or_else(not_begun)
    }

    /// Records the trials that the program now has, then prints the answer to its line.
    fn finish(&mut self, topic: &Topic, answer: &Json) -> io::Result<()> {
        if self.client.hear(topic, answer)
            && let Some(file) = &self.file
        {
            file.set(self.client.out())?;
        }
        self.print(answer)
    }

    /// Passes on the holder's answer.
    fn receive_answer(&mut self, answer: &str) -> io::Result<()> {
        let Some(Current { topic, waiting: Waiting::Holder, .. }) = self.current.take() else {
            return Ok(());
        };
        let unreadable = |error| refused(&Refusal::new(format!("the holder's answer: {error}")));
        let answer = serde_json::from_str(answer).unwrap_or_else(unreadable);
        self.finish(&topic, &answer)
    }

    /// Called at the holder's end, so that this program keeps its trials.
    fn find_another_holder(&mut self) -> io::Result<()> {
        self.role = Role::Detached;
        let Some(init) = self.init.clone() else { return Ok(()) };
        let joined = self.join(&init);
        match self.current.take() {
            Some(Current { line, topic, waiting: Waiting::Holder }) => match joined {
                Ok(_) => self.answer_line(line, true),
                Err(refusal) => self.finish(&topic, &refused(&refusal)),
            },
            current => {
                self.current = current;
                Ok(())
            }
        }
    }

    /// Checks that the store and the study with which the session has begun are there. They are
    /// never created again: that would hide what was told, and delete the log of a store that was
    /// moved away.
    fn check_store(&self) -> Result<(), StorageError> {
        let (path, name) = &self.place;
        let Some(id) = &self.store_id else { return Ok(()) };
        let moved =
            |what| StorageError::Moved { path: path.display().to_string(), what, log: None };
        let reader = match AnyReader::open(path) {
            Err(StorageError::Missing { .. }) => return Err(moved("was moved or deleted")),
            opened => opened?,
        };
        if reader.identity()?.as_ref() != Some(id) {
            return Err(moved("was replaced by another store"));
        }
        reader.study(name)?.map(drop).ok_or_else(|| removed(name))
    }

    /// Connects to the holder, or becomes it; returns the answer to `init`.
    fn join(&mut self, init: &str) -> Result<Json, Refusal> {
        self.check_store().map_err(HeldError::Storage)?;
        let mut polls = 0;
        loop {
            if let Ok(answer) = self.connect(init) {
                return answer;
            }
            let is_patient = polls < MAX_POLLS;
            polls += 1;
            if is_patient && self.is_held() {
                threads::sleep(POLL_INTERVAL);
                continue;
            }
            let Request::Init(checked) = Request::read(init)? else { return Err(not_begun()) };
            let busy = match self.take_lease(*checked) {
                Ok(answer) => return Ok(answer),
                Err(error) => Busy::of(error)?,
            };
            if !is_patient && !busy.is_starting() {
                return Err(match is_on_server(&self.place.0) {
                    true => unshared(&busy.why),
                    false => busy.why,
                });
            }
            threads::sleep(POLL_INTERVAL);
        }
    }

    /// Whether a live process holds the study.
    fn is_held(&self) -> bool {
        let (path, name) = &self.place;
        let summary = || -> Result<_, StorageError> {
            let store = AnyReader::open(path)?;
            store.study(name)?.map(|study| store.summary(study.id)).transpose()
        };
        summary().is_ok_and(|summary| summary.is_some_and(|summary| has_runner(&summary)))
    }

    fn take_lease(&mut self, init: Checked) -> Result<Json, HeldOr> {
        let begun = self.study_id.clone().map_or(Begun::Now, Begun::Before);
        let settled = Settled::new(Some(&self.place), init, begun)?;
        let identity = settled.identity.clone();
        let lock = settled.store.lock_file(settled.study.id);
        if let (None, Some(lock)) = (&self.file, &lock) {
            let file = ClientFile::create(lock).map_err(|error| {
                Refusal::new(format!("no file can be created beside `{}`: {error}", lock.display()))
            })?;
            self.file = Some(file);
        }
        let mut study = settled.hold()?;
        if let Some(lock) = &lock {
            // If the files cannot be read, their trials are given out again.
            study.take_over(study_clients::live_clients(lock).unwrap_or_default())?;
        }
        let answer = study.begun();
        let listening = lock.as_deref().and_then(|lock| self.listen(lock).ok());
        let peers = BTreeMap::new();
        self.take_identity(identity);
        self.role = Role::Holder(Box::new(Holder { listening, study, lock, peers }));
        Ok(answer)
    }

    /// Keeps which study it is, for when it is joined again.
    fn take_identity(&mut self, identity: Option<Identity>) {
        self.study_id = identity.as_ref().map(Identity::to_string);
        self.store_id = identity.and_then(|identity| identity.store);
    }

    /// Lets other programs connect.
    fn listen(&mut self, lock: &Path) -> io::Result<Listening> {
        let listening = Listening::start(lock)?;
        let (connections, sender) = (listening.connections()?, self.sender.clone());
        self.connections += 1;
        let first = self.connections << 32;
        threads::spawn("peers", move || {
            for (peer, stream) in (first..).zip(connections) {
                let sender = sender.clone();
                let _refused = threads::spawn("peer", move || read_peer(peer, stream, &sender));
            }
        })?;
        Ok(listening)
    }

    /// Makes a socket again that somebody has removed.
    fn keep_listening(&mut self) {
        let Role::Holder(holder) = &self.role else { return };
        let is_removed = holder.listening.as_ref().is_some_and(Listening::is_removed);
        let Some(lock) = holder.lock.clone().filter(|_| is_removed) else { return };
        let listening = self.listen(&lock);
        if let (Role::Holder(holder), Ok(listening)) = (&mut self.role, listening) {
            holder.listening = Some(listening);
        }
    }

    /// Connects to the holder, if it listens; returns its answer to `init`.
    fn connect(&mut self, init: &str) -> io::Result<Result<Json, Refusal>> {
        let (path, name) = &self.place;
        let lock = || -> Result<_, StorageError> {
            let store = AnyReader::open(path)?;
            let Some(study) = store.study(name)? else { return Ok(None) };
            let identity = Identity::of(&store, study.id)?;
            Ok(store.lock_file(study.id).map(|lock| (identity, lock)))
        };
        let Ok(Some((identity, lock))) = lock() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if let Some(expected) = &self.study_id
            && let Err(refusal) = identity.expect(expected, name)
        {
            return Ok(Err(refusal));
        }
        let mut stream = study_clients::connect(&lock)?;
        let file = match self.file.take() {
            Some(file) => file,
            None => ClientFile::create(&lock)?,
        };
        let client = self.file.insert(file).name().to_owned();
        stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
        let hello = Hello { protocol: PROTOCOL, client, init: init.to_owned() };
        write_line(&mut stream, &serde_json::to_string(&hello)?)?;
        let mut answers = BufReader::new(stream.try_clone()?);
        let answer: Json = serde_json::from_str(&read_line(&mut answers)?)?;
        if let Some(why) = answer["error"].as_str() {
            let holder = answer["holder_pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
            return Ok(Err(Refusal { why: why.to_owned(), holder }));
        }
        stream.set_read_timeout(None)?;
        self.connections += 1;
        let (connection, sender) = (self.connections, self.sender.clone());
        threads::spawn("holder", move || {
            while let Ok(answer) = read_line(&mut answers) {
                if sender.send(Input::Answered { connection, answer }).is_err() {
                    return;
                }
            }
            let _ended = sender.send(Input::HolderClosed { connection });
        })?;
        self.take_identity(Some(identity));
        self.role = Role::Peer { stream, connection };
        Ok(Ok(answer))
    }

    /// Checks what causes no input: stored requests, peers that died, the end of a pause.
    fn poll(&mut self) -> io::Result<()> {
        // A failure that was an answer is not told again.
        self.release_if_fenced();
        if let Role::Holder(holder) = &mut self.role {
            // Of a store that failed otherwise, the next line's own attempt is the answer.
            if let Err(HeldError::Storage(error @ StorageError::Exchanged { .. })) =
                holder.poll(self.file.as_ref().map_or("", ClientFile::name))
            {
                self.loss = Some(HeldError::Storage(error).into());
            }
        }
        self.release_if_fenced();
        self.keep_listening();
        let Some(current) = self.current.take() else { return Ok(()) };
        match &current.waiting {
            Waiting::Request { store, study, id } => {
                let answer = match store.answer(*study, *id) {
                    Ok(None) => {
                        self.current = Some(current);
                        return Ok(());
                    }
                    Ok(Some(answer)) => enqueued(&answer),
                    Err(error) => Err(HeldError::Storage(error).into()),
                };
                let answer = answer.unwrap_or_else(|refusal| refused(&refusal));
                self.finish(&current.topic, &answer)
            }
            Waiting::Paused => self.answer_line(current.line, false),
            Waiting::Holder => {
                self.current = Some(current);
                Ok(())
            }
        }
    }

    fn admit(&mut self, peer: u64, stream: UnixStream, hello: &Hello) {
        // A program that is not served looks for the next holder.
        let Role::Holder(holder) = &mut self.role else { return study_clients::close(&stream) };
        holder.admit(peer, stream, hello);
    }

    fn answer_peer(&mut self, peer: u64, line: ForwardedLine) {
        let Role::Holder(holder) = &mut self.role else { return };
        let Some(name) = holder.peers.get(&peer).map(|peer| peer.name.clone()) else { return };
        let speaker = Speaker { client: name, ..line.speaker };
        let request = Request::read(&line.line);
        holder.answer(peer, request, speaker);
    }

    fn remove_peer(&mut self, peer: u64) {
        let Role::Holder(holder) = &mut self.role else { return };
        if let Some(peer) = holder.peers.remove(&peer) {
            // The error of a failed store is the answer to the next line.
            let _is_answered_later = holder.study.client_gone(&peer.name);
        }
    }

    /// Releases the study to a peer.
    fn leave(mut self) {
        if let Role::Holder(holder) = std::mem::replace(&mut self.role, Role::Detached) {
            let Holder { listening, mut study, peers, .. } = *holder;
            drop(listening);
            let _closed_by_the_next_holder = study.leave();
            // Release the lease before closing the connections, which makes the peers ask for it.
            drop(study);
            drop(peers);
        }
    }
}

impl Current {
    fn is_paused(&self) -> bool {
        matches!(self.waiting, Waiting::Paused)
    }
}

/// The refusal of a study on a server that another program has.
fn unshared(Refusal { why, holder }: &Refusal) -> Refusal {
    let why = format!(
        "{why}. A study on a server has one program at a time: programs share one in a file \
         (`runs/hpsearch.db`), and with `hpsearch run` agents on several machines run its trials"
    );
    Refusal { why, holder: *holder }
}

/// Another process holds the study.
struct Busy {
    why: Refusal,
    since: Timestamp,
}

impl Busy {
    /// An error that means so; any other is returned.
    fn of(error: HeldOr) -> Result<Self, Refusal> {
        let since = match &error {
            HeldOr::Held(
                HeldError::Storage(error) | HeldError::Runner(RunnerError::Storage(error)),
            ) => match error {
                StorageError::Busy { since, .. } => Some(*since),
                // Two processes created it, or took its lease, at the same moment.
                StorageError::Exists { .. } | StorageError::Fenced { .. } => Some(runner::now()),
                _ => None,
            },
            HeldOr::Held(HeldError::ChangedMeanwhile { .. }) => Some(runner::now()),
            _ => None,
        };
        let why = Refusal::from(error);
        match since {
            Some(since) => Ok(Busy { why, since }),
            None => Err(why),
        }
    }

    fn is_starting(&self) -> bool {
        runner::now().since(self.since) < STARTUP_TIME
    }
}
