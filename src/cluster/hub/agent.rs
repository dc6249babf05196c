//! An agent as its runner sees it: what was sent to it, and what it runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crossbeam_channel::Sender;

use super::lease::LeaseEnd;
use crate::cluster::message::{AttemptOf, ToAgent, bytes, envelope};
use crate::cluster::outbox::Outbox;
use crate::cluster::transfer::Sending;
use crate::study::trial::TrialNumber;

/// An agent.
pub(super) struct Agent {
    pub name: String,
    /// Its machine.
    pub host: String,
    /// Its address on the way to the runner.
    pub address: Option<IpAddr>,
    /// Its key in [`Input::Mark`].
    pub sender: u64,
    pub outbox: Outbox,
    pub received: u64,
    pub stored: u64,
    /// The epoch of the runner's lease.
    pub epoch: i64,
    pub connection: Option<Connection>,
    /// When it last said something.
    pub heard: Instant,
    /// Set if it cannot connect again, as its pipe is closed.
    pub gone_at: Option<Instant>,
    pub running: BTreeSet<AttemptOf>,
    pub is_leaving: bool,
    /// Since when it leaves, as nothing waits for it.
    pub dismissed: Option<Instant>,
    /// Since when it has nothing to do, as far as anybody looked.
    pub idle_since: Option<Instant>,
    /// Whether it can connect again when its connection ends.
    pub can_return: bool,
    /// The number of its last connection.
    pub generation: u64,
    /// Files that it asked for.
    pub outgoing: VecDeque<Sending>,
    /// Whether a piece of them is being read.
    pub is_reading: bool,
    /// Held while its files are written: connections may overlap.
    pub writing: Arc<Mutex<()>>,
    /// Whether its files travel.
    pub carries: bool,
    /// Trials that ran there.
    pub trials: BTreeSet<TrialNumber>,
    /// Whether the runner was told that it does not answer.
    pub is_silent: bool,
    /// What did not arrive as it was sent, and why.
    pub damaged: BTreeMap<PathBuf, String>,
}

/// Its present connection.
pub(super) struct Connection {
    pub frames: Sender<Vec<u8>>,
    /// Nothing is sent when it is over.
    pub lease: LeaseEnd,
    pub generation: u64,
}

impl Agent {
    /// Sends a message that must arrive.
    pub fn put(&mut self, message: &ToAgent) {
        self.outbox.put(&bytes(message));
        self.send_next();
    }

    /// Sends the next messages, as far as the connection takes them.
    pub fn send_next(&mut self) {
        if self.connection.as_ref().is_none_or(|connection| !connection.lease.is_held()) {
            return;
        }
        // What cannot be read back cannot be sent: the agent ends with a gap.
        while let Ok(Some((number, message))) = self.outbox.next_to_send() {
            self.send_raw(Some(number), &message);
        }
    }

    /// Whether a numbered message is the next one, and not one that came before.
    pub fn is_next(&self, number: Option<u64>) -> io::Result<bool> {
        match number {
            Some(number) if number <= self.received => Ok(false),
            Some(number) if number == self.received + 1 => Ok(true),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a message is missing")),
        }
    }

    /// Sends a message that is not repeated if it is lost.
    pub fn send(&self, number: Option<u64>, message: &ToAgent) {
        self.send_raw(number, &bytes(message));
    }

    fn send_raw(&self, number: Option<u64>, message: &[u8]) {
        let Some(connection) = &self.connection else { return };
        if !connection.lease.is_held() {
            return;
        }
        // A broken connection is noticed by its reader; the message is sent again.
        let _broken = connection.frames.send(envelope(self.epoch, number, self.stored, message));
    }
}
