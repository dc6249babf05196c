//! Server-sent events: one thread watches the store while there are clients, and feeds them all.
//!
//! A client follows one study, or the store alone. `journal` events carry entries of the study's
//! journal, and their id is the place of the last one, from which `Last-Event-ID` continues without
//! a gap. `changed` says that something else may have changed, such as points of series, or the
//! state of any study. After `reset` a client reads everything anew. `trouble` says why the store
//! cannot be read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use serde::Serialize;

use super::event_loop::{ConnectionId, Replies, Reply, Subscription};
use super::http::Head;
use super::store::{Store, StoreChange};
use super::study_states::StudyStates;
use crate::report::journal_entry::JournalEntry;
use crate::storage::{StorageError, StorageReader, StudyId};
use crate::study::event::Seq;
use crate::study::step::StepUnit;

/// Interval of polling the store, while there are clients.
const TURN: Duration = Duration::from_millis(50);
/// How often it is looked whether a runner still lives, which the store does not tell, and whether
/// a store that could not be read can be.
const OUTSIDE: Duration = Duration::from_secs(1);
/// Events that are sent at once; with more, a client is quicker if it reads everything anew.
const MOST_EVENTS: u64 = 4_000;

/// A client that receives events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Client {
    study: Option<StudyId>,
}

/// A study of some clients.
#[derive(Debug)]
struct Followed {
    /// The last event that they have.
    seq: Seq,
    step_unit: StepUnit,
}

/// The thread that watches the store.
pub struct Watcher {
    store: Store,
    identity: Option<String>,
    subscriptions: Receiver<Subscription>,
    replies: Replies,
    heartbeat: Duration,
    clients: BTreeMap<ConnectionId, Client>,
    studies: BTreeMap<StudyId, Followed>,
    states: Option<StudyStates>,
    /// Whether the store has changed since it was last looked outside.
    is_in_flux: bool,
    trouble: Option<String>,
    /// What a look for a new client found, and the others have not heard of.
    unseen: StoreChange,
}

#[derive(Serialize)]
struct Entries<'a> {
    entries: &'a [JournalEntry],
}

#[derive(Serialize)]
struct At {
    seq: Seq,
}

#[derive(Serialize)]
struct Trouble<'a> {
    error: &'a str,
    remedy: Option<&'a str>,
}

/// One server-sent event. JSON has no line ends, so that its text is one line of data.
fn message(id: Option<Seq>, name: &str, value: &impl Serialize) -> String {
    let id = id.map(|seq| format!("id: {}\n", seq.0)).unwrap_or_default();
    let value = serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned());
    format!("{id}event: {name}\ndata: {value}\n\n")
}

impl Watcher {
    /// A watcher of a store; [`Watcher::run`] is its thread.
    pub fn new(
        store: Store,
        subscriptions: Receiver<Subscription>,
        replies: Replies,
        heartbeat: Duration,
    ) -> Self {
        Watcher {
            store,
            identity: None,
            subscriptions,
            replies,
            heartbeat,
            clients: BTreeMap::new(),
            studies: BTreeMap::new(),
            states: None,
            is_in_flux: false,
            trouble: None,
            unseen: StoreChange::Same,
        }
    }

    /// Watches until the event loop ends.
    pub fn run(mut self) {
        let (mut beat, mut outside) = (Instant::now(), Instant::now());
        loop {
            let said = if self.clients.is_empty() {
                self.subscriptions.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.subscriptions.recv_timeout(TURN)
            };
            match said {
                Ok(Subscription::Began(id, head)) => self.begin(id, &head),
                Ok(Subscription::Ended(id)) => self.end(id),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.clients.is_empty() {
                // Nobody waits for this store: it may be moved, or written anew.
                self.store.close();
                self.states = None;
                self.trouble = None;
                continue;
            }
            let now = Instant::now();
            let is_outside_due = now.duration_since(outside) >= OUTSIDE;
            if is_outside_due {
                outside = now;
            }
            if self.trouble.is_none() || is_outside_due {
                self.watch(is_outside_due);
            }
            if now.duration_since(beat) >= self.heartbeat {
                beat = now;
                self.send(self.clients.keys().copied().collect(), ":\n\n".to_owned());
            }
        }
    }

    fn send(&self, clients: Vec<ConnectionId>, text: String) {
        if !clients.is_empty() {
            self.replies.send(Reply::Events(clients, text.into_bytes().into()));
        }
    }

    /// Everyone, or everyone who follows this study.
    fn clients_of(&self, study: Option<StudyId>) -> Vec<ConnectionId> {
        let is_meant = |client: &Client| study.is_none() || client.study == study;
        let meant = self.clients.iter().filter(|(_, client)| is_meant(client));
        meant.map(|(id, _)| *id).collect()
    }

    /// Takes a client in; it has what it missed before anything new.
    fn begin(&mut self, id: ConnectionId, head: &Head) {
        let named = head.query("study").map(str::to_owned);
        let after = head.header("last-event-id").or_else(|| head.query("after"));
        let after = after.and_then(|text| text.parse().ok()).map(Seq);
        match self.welcome(named.as_deref(), after) {
            Ok(Some((study, greeting))) => {
                self.clients.insert(id, Client { study });
                self.send(vec![id], greeting);
            }
            Ok(None) => {
                let error = "there is no such study in the store";
                let trouble =
                    Trouble { error, remedy: Some("it may have been renamed or removed") };
                self.send(vec![id], message(None, "gone", &trouble));
                self.replies.send(Reply::EndStream(id));
            }
            Err(error) => {
                let remedy = error.remedy();
                let trouble = Trouble { error: &error.to_string(), remedy: Some(&remedy) };
                // Browsers reconnect, and continue from the last event.
                self.send(vec![id], format!("retry: 1000\n{}", message(None, "trouble", &trouble)));
                self.replies.send(Reply::EndStream(id));
            }
        }
    }

    /// A client's study and first events; `None` if there is no such study.
    fn welcome(
        &mut self,
        named: Option<&str>,
        after: Option<Seq>,
    ) -> Result<Option<(Option<StudyId>, String)>, StorageError> {
        let Watcher { store, studies, states, unseen, .. } = self;
        let (reader, found) = store.look()?;
        *unseen = found.max(*unseen);
        // Before the client reads them, so that it hears of each that is another one afterwards.
        if states.is_none() {
            *states = Some(StudyStates::new(reader)?);
        }
        let Some(named) = named else {
            return Ok(Some((None, message(None, "hello", &At { seq: Seq(0) }))));
        };
        let Some(stored) = reader.study(named)? else { return Ok(None) };
        let followed = match studies.entry(stored.id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry
                .insert(Followed { seq: last(reader, stored.id)?, step_unit: stored.spec.step }),
        };
        let hello = format!(
            "retry: 1000\n{}",
            message(Some(followed.seq), "hello", &At { seq: followed.seq })
        );
        let missed = match after {
            Some(after) if after < followed.seq => {
                let events = reader.events_after(stored.id, after, MOST_EVENTS + 1)?;
                let missed = events.iter().filter(|(seq, ..)| *seq <= followed.seq);
                let entries: Vec<JournalEntry> =
                    missed.map(|event| JournalEntry::new(event, followed.step_unit)).collect();
                entries_message(&entries, followed.seq)
            }
            // Another store was here, or it was brought back from a copy.
            Some(after) if after > followed.seq => {
                message(Some(followed.seq), "reset", &At { seq: followed.seq })
            }
            _ => String::new(),
        };
        Ok(Some((Some(stored.id), hello + &missed)))
    }

    fn end(&mut self, id: ConnectionId) {
        let Some(Client { study }) = self.clients.remove(&id) else { return };
        if let Some(study) = study
            && !self.clients.values().any(|client| client.study == Some(study))
        {
            self.studies.remove(&study);
        }
    }

    /// Polls the store, and sends the clients what is new.
    fn watch(&mut self, is_outside_due: bool) {
        match self.news(is_outside_due) {
            Ok(()) => self.trouble = None,
            Err(error) => {
                let (text, remedy) = (error.to_string(), error.remedy());
                if self.trouble.as_ref() != Some(&text) {
                    let trouble = Trouble { error: &text, remedy: Some(&remedy) };
                    self.send(self.clients_of(None), message(None, "trouble", &trouble));
                    self.trouble = Some(text);
                }
                self.store.close();
            }
        }
    }

    fn news(&mut self, is_outside_due: bool) -> Result<(), StorageError> {
        let (reader, found) = self.store.look()?;
        let found = std::mem::replace(&mut self.unseen, StoreChange::Same).max(found);
        let has_changed = found != StoreChange::Same;
        let mut is_other = false;
        if found == StoreChange::Opened {
            let identity = reader.identity()?;
            is_other = self.identity.is_some() && self.identity != identity;
            self.identity = identity;
        }
        self.is_in_flux |= has_changed;
        let mut has_other_state = false;
        if is_outside_due && let Some(states) = &mut self.states {
            let is_in_flux = std::mem::take(&mut self.is_in_flux);
            has_other_state = states.have_changed(reader, is_in_flux)?;
        }
        let mut messages = Vec::new();
        let mut gone = Vec::new();
        let followed = self.studies.iter_mut().filter(|_| has_changed).collect::<Vec<_>>();
        let names = if followed.is_empty() { Vec::new() } else { reader.names()? };
        for (study, followed) in followed {
            match names.iter().any(|(id, _)| id == study) {
                true => messages.push((*study, advance(reader, *study, followed, is_other)?)),
                false => gone.push(*study),
            }
        }
        for (study, told) in messages {
            if !told.is_empty() {
                self.send(self.clients_of(Some(study)), told);
            }
        }
        if has_changed || has_other_state || self.trouble.is_some() {
            self.send(self.clients_of(None), message(None, "changed", &At { seq: Seq(0) }));
        }
        for study in gone {
            let error = "the study was removed from the store";
            let trouble = Trouble { error, remedy: None };
            self.send(self.clients_of(Some(study)), message(None, "gone", &trouble));
            for id in self.clients_of(Some(study)) {
                self.replies.send(Reply::EndStream(id));
            }
        }
        Ok(())
    }
}

/// What is new in a study's journal.
fn advance(
    reader: &dyn StorageReader,
    study: StudyId,
    followed: &mut Followed,
    is_other: bool,
) -> Result<String, StorageError> {
    if is_other {
        followed.seq = last(reader, study)?;
        return Ok(message(Some(followed.seq), "reset", &At { seq: followed.seq }));
    }
    let events = reader.events_after(study, followed.seq, MOST_EVENTS + 1)?;
    let Some((newest, ..)) = events.last() else { return Ok(String::new()) };
    followed.seq = match events.len() as u64 > MOST_EVENTS {
        true => last(reader, study)?,
        false => *newest,
    };
    let entries: Vec<JournalEntry> =
        events.iter().map(|event| JournalEntry::new(event, followed.step_unit)).collect();
    Ok(entries_message(&entries, followed.seq))
}

/// The entries up to a place of the journal, as an event; too many are not sent one by one.
fn entries_message(entries: &[JournalEntry], seq: Seq) -> String {
    match entries.len() as u64 {
        0 => String::new(),
        1..=MOST_EVENTS => message(Some(seq), "journal", &Entries { entries }),
        _ => message(Some(seq), "reset", &At { seq }),
    }
}

/// The last place of a study's journal.
fn last(reader: &dyn StorageReader, study: StudyId) -> Result<Seq, StorageError> {
    Ok(reader.events_before(study, Seq(i64::MAX), 1)?.last().map_or(Seq(0), |(seq, ..)| *seq))
}
