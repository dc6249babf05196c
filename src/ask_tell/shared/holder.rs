//! The process that holds the study: it answers its peers.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::super::client::Speaker;
use super::super::request::Request;
use super::super::{Refusal, Study, not_begun, refused};
use super::messages::{Hello, PROTOCOL, write_line};
use crate::app::held_study::HeldError;
use crate::app::study_clients::{self, Listening};
use crate::runner;

pub(super) struct Holder {
    /// Dropped first, so that no peer connects to a holder that has left. Without a socket, other
    /// programs are refused: the study is busy.
    pub listening: Option<Listening>,
    pub study: Study,
    pub lock: Option<PathBuf>,
    pub peers: BTreeMap<u64, Peer>,
}

pub(super) struct Peer {
    pub name: String,
    pub stream: UnixStream,
    /// Its `ask`, while the study is paused.
    pub paused: Option<(Speaker, Request)>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Its reading thread has a copy of the stream.
        study_clients::close(&self.stream);
    }
}

impl Holder {
    pub fn admit(&mut self, peer: u64, mut stream: UnixStream, hello: &Hello) {
        let admitted = match Request::read(&hello.init) {
            Ok(Request::Init(_)) if hello.protocol != PROTOCOL => Err(Refusal::new(format!(
                "the study is run by another version of hpsearch (process {}): use one version",
                runner::this_process().pid
            ))),
            Ok(Request::Init(init)) => self.study.admit(*init),
            _ => Err(not_begun()),
        };
        let is_admitted = admitted.is_ok();
        let answer = admitted.unwrap_or_else(|refusal| refused(&refusal));
        if write_line(&mut stream, &answer.to_string()).is_ok() && is_admitted {
            let name = hello.client.clone();
            self.peers.insert(peer, Peer { name, stream, paused: None });
        }
    }

    pub fn answer(&mut self, peer: u64, request: Result<Request, Refusal>, speaker: Speaker) {
        let again = request.as_ref().ok().and_then(Request::again);
        let answered = request.and_then(|request| self.study.answer(request, &speaker));
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let answer = match answered {
            Ok(Some(answer)) => answer,
            Ok(None) => return known.paused = again.map(|request| (speaker, request)),
            Err(refusal) => refused(&refusal),
        };
        known.paused = None;
        if write_line(&mut known.stream, &answer.to_string()).is_err() {
            // Its reading thread sees the end and reports that the peer has left.
            study_clients::close(&known.stream);
        }
    }

    /// Serves requests and looks after peers.
    ///
    /// # Errors
    /// The store failed.
    pub fn poll(&mut self, own: &str) -> Result<(), HeldError> {
        self.study.held.look()?;
        let names = self.study.owners.values();
        let away: Vec<String> = names
            .filter(|name| *name != own && self.peers.values().all(|peer| peer.name != **name))
            .cloned()
            .collect();
        for name in away {
            if !self.lock.as_deref().is_some_and(|lock| study_clients::is_alive(lock, &name)) {
                let _is_answered_later = self.study.client_gone(&name);
            }
        }
        let peers = self.peers.iter_mut();
        let paused: Vec<(u64, (Speaker, Request))> =
            peers.filter_map(|(id, peer)| Some((*id, peer.paused.take()?))).collect();
        for (peer, (speaker, request)) in paused {
            self.answer(peer, Ok(request), speaker);
        }
        Ok(())
    }
}
