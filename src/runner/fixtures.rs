//! Fixtures of the runner's unit tests: a study, and the events of its first attempt.

use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEnd, AttemptEvent, Event};
use crate::study::metric::Direction;
use crate::study::program::Program;
use crate::study::space::Space;
use crate::study::spec::StudySpec;
use crate::study::trial::{AttemptNumber, TrialNumber};

pub const TRIAL: TrialNumber = TrialNumber(0);
pub const ATTEMPT: AttemptNumber = AttemptNumber(0);

/// A study `s` that minimises `loss`.
pub fn spec(program: Program) -> StudySpec {
    StudySpec::new("s", "loss", Direction::Minimize, Space::default(), program)
}

pub fn command() -> Program {
    Program::Command {
        run: vec!["true".to_owned()],
        cwd: "/".into(),
        env: Default::default(),
        args: Default::default(),
        metrics: Default::default(),
    }
}

pub fn started() -> Event {
    Event::of(
        TRIAL,
        AttemptEvent::Started {
            attempt: ATTEMPT,
            slot: Slot::on(0, Device::Cpu),
            resume: None,
            until: None,
            rows_at_once: None,
            device_micros: 0,
        },
    )
}

pub fn ended(end: AttemptEnd) -> Event {
    let (device_micros, memory) = (None, None);
    Event::of(
        TRIAL,
        AttemptEvent::Ended {
            attempt: ATTEMPT,
            end,
            reason: None,
            device_micros,
            memory,
            superseded: Default::default(),
        },
    )
}
