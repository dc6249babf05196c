//! A stored study for several programs at the same time. The process that has the lease answers the
//! lines of its own program and of the others, which reach it over a socket; when it ends, however
//! it ends, another takes the lease, and each line that was not answered is said again.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::client::{Client, Speaker, Topic};
use super::request::{Checked, Request};
use super::{HeldOr, Refusal, Settled, Study, begun_already, done, enqueued, not_begun, refused};
use crate::app::held_study::{HeldError, LOOK};
use crate::app::study_clients::{self, ClientFile};
use crate::app::study_state::has_runner;
use crate::runner::{self, RunnerError, threads};
use crate::storage::sqlite::{SqliteReader, SqliteStore};
use crate::storage::{Storage as _, StorageError, StorageReader as _, StudyId};
use crate::study::params::Params;
use crate::study::request::Request as StoredRequest;
use crate::study::time::Timestamp;

/// The version of what processes of one study say to each other.
const PROTOCOL: u32 = 1;

/// How long a guest may take to take in an answer: all others wait meanwhile. One that is dropped
/// joins again, and says what was not answered again.
const TAKING_IN: Duration = Duration::from_secs(2);

/// How long a guest or a holder may take to say its first word.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the answer to a stored request is looked for, and a study asked for that is being
/// taken by somebody.
const TURN: Duration = Duration::from_millis(20);

/// How many turns a holder that does not listen is waited for: it may be about to.
const TURNS: u32 = 50;

/// A holder as young as this is waited for in any case: it reads the study first.
const YOUNG: Duration = Duration::from_secs(5);

/// What processes hear at a time: who says more waits.
const QUEUE: usize = 64;

/// The first word of a guest.
#[derive(Serialize, Deserialize)]
struct Hello {
    protocol: u32,
    /// Its name among the programs of the study.
    client: String,
    /// The line that began its conversation.
    init: String,
}

/// A line of a guest.
#[derive(Serialize, Deserialize)]
struct Said {
    speaker: Speaker,
    line: String,
}

/// What happens to a process.
enum Heard {
    /// A line of its own program.
    Own(Result<String, Refusal>),
    /// The end of those lines.
    End(io::Result<()>),
    Joined {
        guest: u64,
        stream: UnixStream,
        hello: Hello,
    },
    Said {
        guest: u64,
        said: Said,
    },
    Left {
        guest: u64,
    },
    /// What its holder answers.
    Answered {
        connection: u64,
        answer: String,
    },
    HolderGone {
        connection: u64,
    },
}

/// What this process is to the study.
enum Role {
    /// Nothing: it has not begun, or there is nobody to talk to.
    Apart,
    Holder(Box<Holder>),
    Guest {
        stream: UnixStream,
        connection: u64,
    },
}

struct Holder {
    study: Study,
    lock: Option<PathBuf>,
    guests: BTreeMap<u64, Guest>,
}

struct Guest {
    name: String,
    stream: UnixStream,
    /// Its `ask`, while the study is paused.
    paused: Option<Speaker>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // The thread that hears it has the connection, too.
        study_clients::close(&self.stream);
    }
}

/// A line that is not answered yet.
struct Current {
    line: String,
    topic: Topic,
    waiting: Waiting,
}

/// Why the line that is being answered is not answered yet.
enum Waiting {
    /// It is its holder's to answer.
    Holder,
    /// The study is paused.
    Paused,
    /// It is a request in the store, which whoever holds the study serves.
    Request { store: Box<SqliteStore>, study: StudyId, id: i64 },
}

/// Answers the lines of the program, about a study of this name in the store, until they end or
/// `quit` is said.
///
/// # Errors
/// A stream cannot be read or written.
pub fn converse_stored<R: BufRead>(
    store: PathBuf,
    study: String,
    input: impl FnOnce() -> R + Send + 'static,
    output: impl Write,
) -> io::Result<()> {
    let (sender, heard) = sync_channel(QUEUE);
    let lines = sender.clone();
    threads::spawn("lines", move || hear_own(input(), &lines))?;
    let mut conversation = Conversation {
        place: (store, study),
        output,
        sender,
        heard,
        role: Role::Apart,
        client: Client::default(),
        file: None,
        init: None,
        current: None,
        lines: VecDeque::new(),
        connections: 0,
    };
    let ended = conversation.run();
    conversation.leave();
    ended
}

fn hear_own(mut input: impl BufRead, lines: &SyncSender<Heard>) {
    let mut line = Vec::new();
    let ended = loop {
        match super::line::next(&mut input, &mut line) {
            Ok(Some(text)) => {
                if lines.send(Heard::Own(text.map(str::to_owned))).is_err() {
                    return;
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let _nobody_listens_any_more = lines.send(Heard::End(ended));
}

struct Conversation<W> {
    place: (PathBuf, String),
    output: W,
    sender: SyncSender<Heard>,
    heard: Receiver<Heard>,
    role: Role,
    client: Client,
    file: Option<ClientFile>,
    /// The line that began it.
    init: Option<String>,
    /// The line of the program that is being answered.
    current: Option<Current>,
    /// Those behind it.
    lines: VecDeque<Result<String, Refusal>>,
    connections: u64,
}

impl<W: Write> Conversation<W> {
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
                    Ok(line) => self.say(line, false)?,
                    Err(refusal) => self.print(&refused(&refusal))?,
                }
            }
            // Nobody waits for a paused study any more.
            let waits = self.current.as_ref().is_some_and(|current| !current.is_paused());
            if !waits && let Some(ended) = ended {
                return ended;
            }
            let heard = match self.turn() {
                Some(turn) => self.heard.recv_timeout(turn),
                None => self.heard.recv().map_err(RecvTimeoutError::from),
            };
            match heard {
                Ok(Heard::Own(line)) => self.lines.push_back(line),
                Ok(Heard::End(how)) => ended = Some(how),
                Ok(Heard::Joined { guest, stream, hello }) => self.admit(guest, stream, &hello),
                Ok(Heard::Said { guest, said }) => self.serve(guest, said),
                Ok(Heard::Left { guest }) => self.part(guest),
                Ok(Heard::Answered { connection, answer }) if self.is_of(connection) => {
                    self.settle(&answer)?
                }
                Ok(Heard::HolderGone { connection }) if self.is_of(connection) => {
                    self.find_another_holder()?
                }
                // Of a holder before.
                Ok(Heard::Answered { .. } | Heard::HolderGone { .. }) => {}
                Err(RecvTimeoutError::Timeout) => self.look()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// After how long something is to be looked at, if nothing happens before.
    fn turn(&self) -> Option<Duration> {
        match (&self.current, &self.role) {
            (Some(Current { waiting: Waiting::Request { .. }, .. }), _) => Some(TURN),
            (_, Role::Holder(_)) => Some(LOOK),
            _ => None,
        }
    }

    fn is_of(&self, of: u64) -> bool {
        matches!(self.role, Role::Guest { connection, .. } if connection == of)
    }

    fn print(&mut self, answer: &Json) -> io::Result<()> {
        self.output.write_all(answer.to_string().as_bytes())?;
        self.output.write_all(b"\n")?;
        self.output.flush()
    }

    /// Answers a line of the program, now or later; `again`: another holder may have carried it out.
    fn say(&mut self, line: String, again: bool) -> io::Result<()> {
        let request = match Request::read(&line) {
            Ok(request) => request,
            Err(refusal) => return self.print(&refused(&refusal)),
        };
        let topic = Topic::of(&request);
        let answer = match request {
            Request::Init(_) if self.init.is_some() => Err(begun_already()),
            Request::Init(_) => self.join(&line).inspect(|_| self.init = Some(line)),
            request => match self.carry_out(request, &topic, line, again) {
                Ok(None) => return Ok(()),
                Ok(Some(answer)) => Ok(answer),
                Err(refusal) => Err(refusal),
            },
        };
        self.finish(&topic, &answer.unwrap_or_else(|refusal| refused(&refusal)))
    }

    /// The answer to a request, if there is one now.
    fn carry_out(
        &mut self,
        request: Request,
        topic: &Topic,
        line: String,
        again: bool,
    ) -> Result<Option<Json>, Refusal> {
        let init = self.init.clone().ok_or_else(not_begun)?;
        self.give_up_what_is_broken();
        if matches!(self.role, Role::Apart) {
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
            (Role::Guest { stream, .. }, _) => {
                // Where it cannot be written, the end of the connection is heard as well.
                let said = Said { speaker, line: line.clone() };
                let _heard_later = write(stream, &serde_json::to_string(&said).unwrap_or_default());
                Waiting::Holder
            }
            (Role::Apart, _) => return Err(not_begun()),
        };
        self.current = Some(Current { line, topic: topic.clone(), waiting });
        Ok(None)
    }

    /// Lets go of a study whose store failed, or that was taken over: whoever has it is found
    /// again.
    fn give_up_what_is_broken(&mut self) {
        if let Role::Holder(holder) = &self.role
            && holder.study.held.check().is_err()
        {
            self.role = Role::Apart;
        }
    }

    /// Puts a configuration into the store, where whoever holds the study finds it: once, whatever
    /// becomes of that process.
    fn request(&self, params: Params) -> Result<Waiting, Refusal> {
        let (path, name) = &self.place;
        let put = || -> Result<_, StorageError> {
            let mut store = Box::new(SqliteStore::open(path)?);
            let Some(study) = store.study(name)? else { return Ok(None) };
            let id = store.request(study.id, runner::now(), &StoredRequest::Enqueue { params })?;
            Ok(Some(Waiting::Request { store, study: study.id, id }))
        };
        put().map_err(HeldError::Storage)?.ok_or_else(not_begun)
    }

    /// Prints the answer to a line, once it is written down what the program has out by it.
    fn finish(&mut self, topic: &Topic, answer: &Json) -> io::Result<()> {
        if self.client.hear(topic, answer)
            && let Some(file) = &self.file
        {
            file.set(self.client.out())?;
        }
        self.print(answer)
    }

    /// Takes in the holder's answer to the line that waits for it.
    fn settle(&mut self, answer: &str) -> io::Result<()> {
        let Some(Current { topic, waiting: Waiting::Holder, .. }) = self.current.take() else {
            return Ok(());
        };
        let unreadable = |error| refused(&Refusal(format!("the holder's answer: {error}")));
        let answer = serde_json::from_str(answer).unwrap_or_else(unreadable);
        self.finish(&topic, &answer)
    }

    /// After the holder's end: at once, so that this program keeps the trials that it has out.
    fn find_another_holder(&mut self) -> io::Result<()> {
        self.role = Role::Apart;
        let Some(init) = self.init.clone() else { return Ok(()) };
        let joined = self.join(&init);
        match self.current.take() {
            Some(Current { line, topic, waiting: Waiting::Holder }) => match joined {
                Ok(_) => self.say(line, true),
                Err(refusal) => self.finish(&topic, &refused(&refusal)),
            },
            current => {
                self.current = current;
                Ok(())
            }
        }
    }

    /// Goes to whoever has the study, or takes it; what `init` is answered.
    fn join(&mut self, init: &str) -> Result<Json, Refusal> {
        for turn in 0.. {
            if let Ok(answer) = self.visit(init) {
                return answer;
            }
            if turn < TURNS && self.is_held() {
                threads::sleep(TURN);
                continue;
            }
            let Request::Init(checked) = Request::read(init)? else { return Err(not_begun()) };
            let busy = match self.hold(*checked) {
                Ok(answer) => return Ok(answer),
                Err(error) => Busy::of(error)?,
            };
            if turn >= TURNS && !busy.is_young() {
                return Err(busy.why);
            }
            threads::sleep(TURN);
        }
        unreachable!("a holder does not stay young")
    }

    /// Whether somebody who lives has the study.
    fn is_held(&self) -> bool {
        let (path, name) = &self.place;
        let summary = || -> Result<_, StorageError> {
            let store = SqliteReader::open(path)?;
            store.study(name)?.map(|study| store.summary(study.id)).transpose()
        };
        summary().is_ok_and(|summary| summary.is_some_and(|summary| has_runner(&summary)))
    }

    fn hold(&mut self, init: Checked) -> Result<Json, HeldOr> {
        let settled = Settled::new(Some(&self.place), init)?;
        let lock = settled.store.lock_file(settled.study.id);
        if let (None, Some(lock)) = (&self.file, &lock) {
            let file = ClientFile::create(lock).map_err(|error| {
                Refusal(format!("no file can be made beside `{}`: {error}", lock.display()))
            })?;
            self.file = Some(file);
        }
        let mut study = settled.hold()?;
        if let Some(lock) = &lock {
            // Where they cannot be read, trials that are out are given again.
            study.take_over(study_clients::live_clients(lock).unwrap_or_default())?;
        }
        let answer = study.begun();
        // Where there can be no socket it is alone, and others read that the study is run.
        if let Some(listener) = lock.as_deref().and_then(|lock| study_clients::listen(lock).ok()) {
            let sender = self.sender.clone();
            self.connections += 1;
            let first = self.connections << 32;
            let accept = move || {
                for (guest, stream) in (first..).zip(listener.incoming().flatten()) {
                    let sender = sender.clone();
                    let _refused =
                        threads::spawn("guest", move || hear_guest(guest, stream, &sender));
                }
            };
            let _alone = threads::spawn("guests", accept);
        }
        let guests = BTreeMap::new();
        self.role = Role::Holder(Box::new(Holder { study, lock, guests }));
        Ok(answer)
    }

    /// Goes to the holder, if it can be reached; what it answers to `init`.
    fn visit(&mut self, init: &str) -> io::Result<Result<Json, Refusal>> {
        let (path, name) = &self.place;
        let lock = || -> Result<_, StorageError> {
            let store = SqliteReader::open(path)?;
            let study = store.study(name)?;
            Ok(study.and_then(|study| store.lock_file(study.id)))
        };
        let Ok(Some(lock)) = lock() else { return Err(io::ErrorKind::NotFound.into()) };
        let mut stream = study_clients::connect(&lock)?;
        let file = match self.file.take() {
            Some(file) => file,
            None => ClientFile::create(&lock)?,
        };
        let client = self.file.insert(file).name().to_owned();
        stream.set_read_timeout(Some(PATIENCE))?;
        let hello = Hello { protocol: PROTOCOL, client, init: init.to_owned() };
        write(&mut stream, &serde_json::to_string(&hello)?)?;
        let mut answers = BufReader::new(stream.try_clone()?);
        let answer: Json = serde_json::from_str(&read(&mut answers)?)?;
        if let Some(why) = answer["error"].as_str() {
            return Ok(Err(Refusal(why.to_owned())));
        }
        stream.set_read_timeout(None)?;
        self.connections += 1;
        let (connection, sender) = (self.connections, self.sender.clone());
        threads::spawn("holder", move || {
            while let Ok(answer) = read(&mut answers) {
                if sender.send(Heard::Answered { connection, answer }).is_err() {
                    return;
                }
            }
            let _ended = sender.send(Heard::HolderGone { connection });
        })?;
        self.role = Role::Guest { stream, connection };
        Ok(Ok(answer))
    }

    /// Looks at what nobody says: requests in the store, guests that are gone without a word, a
    /// study that is not paused any more.
    fn look(&mut self) -> io::Result<()> {
        if let Role::Holder(holder) = &mut self.role {
            holder.look(self.file.as_ref().map_or("", ClientFile::name));
        }
        self.give_up_what_is_broken();
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
            Waiting::Paused => self.say(current.line, false),
            Waiting::Holder => {
                self.current = Some(current);
                Ok(())
            }
        }
    }

    fn admit(&mut self, guest: u64, stream: UnixStream, hello: &Hello) {
        let Role::Holder(holder) = &mut self.role else { return };
        holder.admit(guest, stream, hello);
    }

    fn serve(&mut self, guest: u64, said: Said) {
        let Role::Holder(holder) = &mut self.role else { return };
        let Some(name) = holder.guests.get(&guest).map(|guest| guest.name.clone()) else { return };
        let speaker = Speaker { client: name, ..said.speaker };
        let request = Request::read(&said.line);
        holder.answer(guest, request, speaker);
    }

    fn part(&mut self, guest: u64) {
        let Role::Holder(holder) = &mut self.role else { return };
        if let Some(guest) = holder.guests.remove(&guest) {
            // A store that fails says so to whoever asks next.
            let _said_later = holder.study.client_gone(&guest.name);
        }
    }

    /// Gives the study back; others go on with it.
    fn leave(mut self) {
        if let Role::Holder(holder) = std::mem::replace(&mut self.role, Role::Apart) {
            let Holder { mut study, lock, guests } = *holder;
            if let Some(lock) = &lock {
                study_clients::unlink(lock);
            }
            let _closed_by_the_next_holder = study.leave();
            // The lease is free before the others hear of it.
            drop(study);
            drop(guests);
        }
    }
}

impl Current {
    fn is_paused(&self) -> bool {
        matches!(self.waiting, Waiting::Paused)
    }
}

impl Holder {
    fn admit(&mut self, guest: u64, mut stream: UnixStream, hello: &Hello) {
        let admitted = match Request::read(&hello.init) {
            Ok(Request::Init(_)) if hello.protocol != PROTOCOL => Err(Refusal(format!(
                "the study is run by another version of hpsearch (process {}): use one version",
                runner::this_process().pid
            ))),
            Ok(Request::Init(init)) => self.study.admit(*init),
            _ => Err(not_begun()),
        };
        let is_admitted = admitted.is_ok();
        let answer = admitted.unwrap_or_else(|refusal| refused(&refusal));
        if write(&mut stream, &answer.to_string()).is_ok() && is_admitted {
            let name = hello.client.clone();
            self.guests.insert(guest, Guest { name, stream, paused: None });
        }
    }

    fn answer(&mut self, guest: u64, request: Result<Request, Refusal>, speaker: Speaker) {
        let answered = request.and_then(|request| self.study.answer(request, &speaker));
        let Some(known) = self.guests.get_mut(&guest) else { return };
        let answer = match answered {
            Ok(Some(answer)) => answer,
            Ok(None) => return known.paused = Some(speaker),
            Err(refusal) => refused(&refusal),
        };
        known.paused = None;
        if write(&mut known.stream, &answer.to_string()).is_err() {
            // Its thread hears the end, and says that it has left.
            study_clients::close(&known.stream);
        }
    }

    fn look(&mut self, own: &str) {
        // A store that fails says so to whoever asks next.
        let _said_later = self.study.held.look();
        let names = self.study.owners.values();
        let away: Vec<String> = names
            .filter(|name| *name != own && self.guests.values().all(|guest| guest.name != **name))
            .cloned()
            .collect();
        for name in away {
            if !self.lock.as_deref().is_some_and(|lock| study_clients::is_alive(lock, &name)) {
                let _said_later = self.study.client_gone(&name);
            }
        }
        let paused = |(id, guest): (&u64, &Guest)| Some((*id, guest.paused.clone()?));
        let paused: Vec<(u64, Speaker)> = self.guests.iter().filter_map(paused).collect();
        for (guest, speaker) in paused {
            self.answer(guest, Ok(Request::Ask), speaker);
        }
    }
}

/// Somebody else has the study.
struct Busy {
    why: Refusal,
    since: Timestamp,
}

impl Busy {
    /// Whether an error says so.
    fn of(error: HeldOr) -> Result<Self, Refusal> {
        let since = match &error {
            HeldOr::Held(
                HeldError::Storage(error) | HeldError::Runner(RunnerError::Storage(error)),
            ) => match error {
                StorageError::Busy { since, .. } => Some(*since),
                // Two began it, or took it, at the same moment.
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

    fn is_young(&self) -> bool {
        runner::now().since(self.since) < YOUNG
    }
}

fn hear_guest(guest: u64, stream: UnixStream, sender: &SyncSender<Heard>) {
    let hear = || -> io::Result<()> {
        stream.set_write_timeout(Some(TAKING_IN))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut lines = BufReader::new(stream.try_clone()?);
        let hello = serde_json::from_str(&read(&mut lines)?)?;
        let _ended = sender.send(Heard::Joined { guest, stream: stream.try_clone()?, hello });
        stream.set_read_timeout(None)?;
        loop {
            let said = serde_json::from_str(&read(&mut lines)?)?;
            let _ended = sender.send(Heard::Said { guest, said });
        }
    };
    let _gone = hear();
    let _ended = sender.send(Heard::Left { guest });
}

/// A line; what is not whole is the end.
fn read(lines: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    lines.read_line(&mut line)?;
    match line.pop() {
        Some('\n') => Ok(line),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn write(stream: &mut UnixStream, line: &str) -> io::Result<()> {
    stream.write_all(format!("{line}\n").as_bytes())
}
