//! Runners whose lease is over, which may have been replaced.

use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};

use super::{Hub, HubContext};
use crate::cluster::frames::{FrameReader, FrameWriter, over_pipe};
use crate::cluster::message::{
    Envelope, Greeting, Hello, ToAgent, ToRunner, Welcome, bytes, envelope,
};
use crate::engine::Input;
use crate::runner::clock::Clock;
use crate::runner::fixtures;
use crate::runner::now;
use crate::storage::paths::StudyFiles;

/// For what comes at once, unless the machine stands still.
const PATIENCE: Duration = Duration::from_secs(60);

fn hub() -> (Hub, Receiver<Input>) {
    let (inputs, heard) = unbounded();
    let spec = fixtures::spec(fixtures::command());
    let run = HubContext {
        runner: "runner".to_owned(),
        files: StudyFiles::of(&spec, None, "/nowhere/store.db".as_ref()),
        welcome: Welcome { runner: "runner".to_owned(), ..Welcome::of(spec) },
        clock: Clock::start(now(), None),
        lost_after: Duration::from_secs(60),
        grace: Duration::from_secs(1),
        trainer_inputs: Vec::new(),
        listed_inputs: OnceLock::new(),
        inputs,
        points: Default::default(),
    };
    (Hub::new(run, [], Duration::ZERO), heard)
}

/// The agent's side of a connection.
struct Link {
    reader: FrameReader,
    writer: FrameWriter,
    stream: UnixStream,
}

impl Link {
    fn to(hub: &Hub) -> Link {
        let (here, there) = UnixStream::pair().unwrap();
        let hub = hub.clone();
        std::thread::spawn(move || {
            let (reader, writer) = over_pipe(there.try_clone().unwrap(), there);
            let _ended = hub.serve(reader, writer);
        });
        let (reader, writer) = over_pipe(here.try_clone().unwrap(), here.try_clone().unwrap());
        Link { reader, writer, stream: here }
    }

    /// The answer to a greeting; `None`: the connection was closed.
    fn greet(&mut self, can_return: bool, received: u64) -> Option<Greeting> {
        let runner = (received > 0).then(|| "runner".to_owned());
        self.say(Hello { can_return, received, runner, ..Hello::of_session("a") })
    }

    fn say(&mut self, hello: Hello) -> Option<Greeting> {
        self.writer.write(&bytes(&hello)).unwrap();
        let answer = self.reader.read().ok().flatten()?;
        Some(serde_json::from_slice(&answer).unwrap())
    }

    fn send(&mut self, number: Option<u64>, message: &ToRunner) {
        // The connection may be closed.
        let _closed = self.writer.write(&envelope(0, number, 0, &bytes(message)));
    }

    fn next(&mut self) -> Option<ToAgent> {
        let frame = self.reader.read().ok().flatten()?;
        Some(serde_json::from_slice::<Envelope<ToAgent>>(&frame).unwrap().message)
    }

    /// Whether nothing arrives for some time.
    fn is_silent(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let silent = self.reader.read().is_err();
        self.stream.set_read_timeout(None).unwrap();
        silent
    }
}

fn leaving() -> ToRunner {
    ToRunner::Leaving { why: "it is told to".to_owned() }
}

#[test]
fn agents_leave_a_runner_whose_lease_is_over_and_hear_nothing_of_it() {
    let (hub, heard) = hub();
    let mut link = Link::to(&hub);
    assert!(matches!(link.greet(true, 0), Some(Greeting::Welcome(_))));
    link.send(None, &ToRunner::Ping { ping: 1 });
    assert_eq!(link.next(), Some(ToAgent::Pong { ping: 1 }));
    hub.hold_until(Instant::now());
    // It may have been told to kill a trial that runs for another runner by now.
    hub.send_to_all(&ToAgent::End);
    link.send(Some(1), &leaving());
    assert_eq!(link.next(), None, "closed");
    assert!(heard.try_iter().next().is_none(), "nothing is taken in");
    assert!(Link::to(&hub).greet(true, 0).is_none(), "no greeting, so that it tries again");
    // Nobody took the study over, and the lease was renewed: nothing is lost.
    hub.hold_until(Instant::now() + Duration::from_secs(60));
    let mut link = Link::to(&hub);
    assert!(matches!(link.greet(true, 0), Some(Greeting::Welcome(_))));
    assert_eq!(link.next(), Some(ToAgent::End));
    link.send(Some(1), &leaving());
    let input = heard.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(input, Input::AgentLeft { .. }), "{input:?}");
}

#[test]
fn agents_whose_connection_is_broken_when_the_run_ends_are_told_once_they_are_back() {
    let (hub, _heard) = hub();
    let mut link = Link::to(&hub);
    assert!(matches!(link.greet(true, 0), Some(Greeting::Welcome(_))));
    drop(link);
    hub.end();
    let mut link = Link::to(&hub);
    assert!(matches!(link.greet(true, 0), Some(Greeting::Welcome(_))));
    assert_eq!(link.next(), Some(ToAgent::End));
    // One that worked for an earlier runner of the study, and one that never did.
    let mut link = Link::to(&hub);
    let study = Some(hub.run.welcome.study.clone());
    let answer = link.say(Hello { study, can_return: true, ..Hello::of_session("b") });
    assert!(matches!(answer, Some(Greeting::Welcome(_))));
    assert_eq!(link.next(), Some(ToAgent::End));
    let answer = Link::to(&hub).say(Hello::of_session("c"));
    assert!(matches!(answer, Some(Greeting::Refused { .. })));
}

#[test]
fn agents_that_come_back_to_a_runner_that_handed_over_try_again() {
    let (hub, _heard) = hub();
    let mut link = Link::to(&hub);
    assert!(matches!(link.greet(true, 0), Some(Greeting::Welcome(_))));
    hub.abandon();
    assert!(Link::to(&hub).greet(true, 0).is_none(), "no greeting, so that it tries again");
}

#[test]
fn nothing_is_taken_in_that_is_for_a_runner_with_another_epoch() {
    let (hub, heard) = hub();
    let mut link = Link::to(&hub);
    assert!(matches!(link.greet(true, 0), Some(Greeting::Welcome(_))));
    link.writer.write(&envelope(1, Some(1), 0, &bytes(&leaving()))).unwrap();
    assert_eq!(link.next(), None, "closed");
    assert!(heard.try_iter().next().is_none(), "nothing is taken in");
}

#[test]
fn an_agent_that_cannot_connect_again_is_not_answered_until_the_lease_is_renewed() {
    let (hub, heard) = hub();
    let mut link = Link::to(&hub);
    assert!(matches!(link.greet(false, 0), Some(Greeting::Welcome(_))));
    hub.hold_until(Instant::now());
    hub.send_to_all(&ToAgent::Rest);
    link.send(None, &ToRunner::Ping { ping: 1 });
    link.send(Some(1), &leaving());
    assert!(link.is_silent());
    assert!(heard.try_iter().next().is_none(), "nothing is taken in");
    hub.hold_until(Instant::now() + Duration::from_secs(60));
    let next: Vec<_> = [link.next(), link.next()].into_iter().flatten().collect();
    assert!(next.contains(&ToAgent::Rest), "{next:?}");
    assert!(next.contains(&ToAgent::Pong { ping: 1 }), "{next:?}");
    let input = heard.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(input, Input::AgentLeft { .. }), "{input:?}");
}
