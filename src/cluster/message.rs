//! The messages between a runner and its agents, as JSON.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::transfer::{Blob, Carried, Location};
use crate::engine::concurrency::Load;
use crate::engine::{Assignment, Input};
use crate::runner::processes;
use crate::study::decision::Decision;
use crate::study::device::DeviceGroup;
use crate::study::event::{RecordEvent, TrialEvent};
use crate::study::metric::Number;
use crate::study::provenance::AgentProvenance;
use crate::study::series::{LoggedPoint, LoggedSeries, SeriesAxis};
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// The version of these messages; both sides must have the same.
pub const PROTOCOL: u32 = 5;

/// One attempt of a trial.
pub type AttemptOf = (TrialNumber, AttemptNumber);

/// The first message of a connection, from the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Version of hpsearch.
    pub version: String,
    /// Identifies the agent's process.
    pub session: String,
    /// The name that a runner gave it.
    pub name: Option<String>,
    /// Its host.
    pub host: String,
    /// The address from which it connects, which other agents may reach.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Its process id.
    pub pid: u32,
    /// The runner that it worked for.
    pub runner: Option<String>,
    /// The last message of that runner that it has.
    pub received: u64,
    /// Its first message that no runner has acknowledged.
    pub first: u64,
    /// Attempts whose end no runner has acknowledged.
    pub attempts: Vec<AttemptOf>,
    /// Whether it can connect again when this connection ends.
    pub can_return: bool,
    /// Whether its files travel, as far as it knows.
    pub carries: bool,
    /// The study that it has worked for: [`Welcome::study`].
    pub study: Option<String>,
}

impl Hello {
    /// Of an agent's process that knows no runner yet.
    pub fn of_session(session: impl Into<String>) -> Self {
        let host = processes::host();
        Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session: session.into(),
            name: None,
            host,
            address: None,
            pid: std::process::id(),
            runner: None,
            received: 0,
            first: 1,
            attempts: Vec::new(),
            can_return: false,
            carries: false,
            study: None,
        }
    }
}

/// The answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Greeting {
    /// The agent is taken on.
    Welcome(Box<Welcome>),
    /// It is not, and has to end.
    Refused {
        /// The reason, for users.
        why: String,
    },
}

/// What an agent needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// Identifies the runner's process.
    pub runner: String,
    /// The epoch of its lease: a runner with an earlier one was replaced.
    pub epoch: i64,
    /// The agent's name, unique in the study.
    pub name: String,
    /// The last message of the agent that the runner has.
    pub received: u64,
    /// The attempts that continue; the agent ends others.
    pub attempts: Vec<AttemptOf>,
    /// Identifies the study, also among those of the same name.
    pub study: String,
    /// The study.
    pub spec: StudySpec,
    /// The values of `[command] env`, which specifications do not contain.
    pub env: BTreeMap<String, String>,
    /// Path of the store.
    pub store: PathBuf,
    /// Name of the study's directory of files.
    pub directory: String,
    /// Name of a file there, by which an agent knows that it sees the same directory.
    pub marker: String,
    /// Whether that directory is said to be shared.
    pub is_shared: bool,
    /// Paths that no checkpoint may contain.
    pub protected: Vec<PathBuf>,
    /// The runner's clock.
    pub now: Timestamp,
    /// Microseconds without an answer after which an agent stops its trials.
    pub lost_after_micros: u64,
    /// Microseconds that trials have to save and exit.
    pub grace_micros: u64,
}

impl Welcome {
    /// Of a study, without anything that belongs to a run.
    pub fn of(spec: StudySpec) -> Self {
        Welcome {
            runner: String::new(),
            epoch: 0,
            name: String::new(),
            received: 0,
            attempts: Vec::new(),
            study: String::new(),
            spec,
            env: BTreeMap::new(),
            store: PathBuf::new(),
            directory: String::new(),
            marker: String::new(),
            is_shared: false,
            protected: Vec::new(),
            now: Timestamp::default(),
            lost_after_micros: 0,
            grace_micros: 0,
        }
    }
}

/// A frame after the greeting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope<T> {
    /// The epoch of the runner's lease, as it greeted.
    pub epoch: i64,
    /// Its number; `None`: it is not repeated if it is lost.
    pub number: Option<u64>,
    /// The last message of the other side that was received, or stored by the runner.
    pub received: u64,
    /// The message.
    pub message: T,
}

/// A message of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToRunner {
    /// Its slots.
    Slots {
        /// The devices of each.
        devices: Vec<DeviceGroup>,
        /// Its machine.
        provenance: Box<AgentProvenance>,
    },
    /// An input of the engine.
    Input(Input),
    /// An artifact, with its text, table or listing, which events do not contain when they are
    /// written.
    Artifact {
        /// The input.
        input: Input,
        /// The text.
        content: String,
    },
    /// Points of series.
    Points(Vec<SentSeries>),
    /// What was added to the log of an attempt.
    Log {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// Position in the log.
        offset: u64,
        /// The bytes.
        bytes: Blob,
    },
    /// What the processes of an attempt print that is led by another agent.
    NodeLog {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// Whole lines.
        lines: Blob,
    },
    /// A part of files that its trials wrote.
    Carried(Carried),
    /// It asks for files that a trial needs.
    Fetch(Location),
    /// It asks for what the trainer reads.
    ListInputs,
    /// The loads of its devices. The next measurement replaces one that is lost.
    Loads(Vec<Load>),
    /// Nothing but the acknowledgement that its envelope carries.
    Received,
    /// It will leave, and takes no more trials.
    Leaving {
        /// The reason, for users.
        why: String,
    },
    /// It cannot run this study.
    Unfit {
        /// The reason, for users.
        why: String,
    },
    /// It has ended in order.
    Left,
    /// A sign of life, which is answered.
    Ping {
        /// Its number.
        ping: u64,
    },
}

/// A message of the runner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToAgent {
    /// Start an attempt.
    Launch {
        /// The attempt.
        assignment: Box<Assignment>,
    },
    /// About a running attempt.
    Attempt {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// What to do.
        act: Act,
    },
    /// What other agents' processes of an attempt print that this one leads.
    NodeLog {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// Whole lines.
        lines: Blob,
    },
    /// Free what is kept for a slot.
    Vacate {
        /// The slot's index.
        slot: usize,
    },
    /// Free what is kept between attempts.
    Rest,
    /// A part of files that it asked for.
    Carried(Carried),
    /// What the trainer reads.
    Inputs(Vec<TrainerInput>),
    /// Files of a trial were removed.
    Remove {
        /// The trial.
        trial: TrialNumber,
        /// Their path, below the study's directory of files.
        path: PathBuf,
    },
    /// The study is over, or stops: end.
    End,
    /// Nothing but the acknowledgement that its envelope carries.
    Stored,
    /// The answer to a ping.
    Pong {
        /// Its number.
        ping: u64,
    },
}

impl ToRunner {
    /// Whether the disk is read or written for it.
    pub fn is_about_files(&self) -> bool {
        matches!(self, ToRunner::Log { .. } | ToRunner::Carried(_) | ToRunner::Fetch(_))
    }

    /// An input with all that belongs to it.
    pub fn input(mut input: Input) -> Self {
        let content = match &mut input {
            Input::Recorded {
                event: TrialEvent::Record(RecordEvent::ArtifactSaved { content, .. }),
                ..
            } => content.take(),
            _ => None,
        };
        match content {
            Some(content) => ToRunner::Artifact { input, content },
            None => ToRunner::Input(input),
        }
    }
}

/// A file or directory that the trainer reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainerInput {
    /// Its place.
    pub of: Location,
    /// The digest of everything in it, see [`super::transfer::digest`]; of prepared data, its name.
    pub digest: String,
}

/// The operations of [`crate::runner::launcher::Job`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// The answer to its report.
    Answer(Decision),
    /// Save a checkpoint and exit.
    Leave,
    /// Write the activity of its processes into its log.
    Examine,
    /// Kill it.
    Kill,
    /// Its report will not be answered.
    GiveUp,
}

/// Points of a series; values may be NaN or infinite, which JSON has no numbers for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentSeries {
    trial: TrialNumber,
    attempt: AttemptNumber,
    metric: String,
    #[serde(rename = "clock")]
    axis: SeriesAxis,
    points: Vec<(Option<f64>, Number, i64)>,
}

impl SentSeries {
    /// To be sent: times as the runner's clock has them, which is `ahead` microseconds later.
    pub fn of(series: LoggedSeries, ahead: i64) -> Self {
        let LoggedSeries { trial, attempt, metric, axis, points } = series;
        let point = |LoggedPoint { step, value, at }: LoggedPoint| {
            (step, Number(value), at.0.saturating_add(ahead))
        };
        SentSeries { trial, attempt, metric, axis, points: points.into_iter().map(point).collect() }
    }

    /// As it was.
    pub fn received(self) -> LoggedSeries {
        let SentSeries { trial, attempt, metric, axis, points } = self;
        let point = |(step, Number(value), at)| LoggedPoint { step, value, at: Timestamp(at) };
        LoggedSeries {
            trial,
            attempt,
            metric,
            axis,
            points: points.into_iter().map(point).collect(),
        }
    }
}

/// A message as JSON.
pub fn bytes(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("a message has only string keys")
}

/// An [`Envelope`] around a message that is JSON already.
pub fn envelope(epoch: i64, number: Option<u64>, received: u64, message: &[u8]) -> Vec<u8> {
    let number = number.map_or_else(|| "null".to_owned(), |number| number.to_string());
    let head =
        format!("{{\"epoch\":{epoch},\"number\":{number},\"received\":{received},\"message\":");
    [head.as_bytes(), message, b"}"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_json_has_no_numbers_for_arrive() {
        let values = [f64::NAN, f64::INFINITY, -0.0, 0.1];
        let point = |value| LoggedPoint { step: Some(0.5), value, at: Timestamp(7) };
        let series = LoggedSeries {
            trial: TrialNumber(3),
            attempt: AttemptNumber(1),
            metric: "loss".to_owned(),
            axis: SeriesAxis::Epoch,
            points: values.map(point).to_vec(),
        };
        let text = serde_json::to_string(&SentSeries::of(series, 5)).unwrap();
        let read: SentSeries = serde_json::from_str(&text).unwrap();
        let points = read.received().points;
        assert_eq!(points.iter().map(|point| point.at.0).collect::<Vec<_>>(), [12; 4]);
        let same = |(one, other): (&f64, &f64)| one.total_cmp(other).is_eq();
        let values_read: Vec<f64> = points.iter().map(|point| point.value).collect();
        assert!(values.iter().zip(&values_read).all(same), "{values_read:?}");
    }
}
