//! The lines that a runner and a trial's process say to each other: JSON after `@hpsearch ` on
//! stdout, plain JSON on stdin.

mod kept;
mod spoken;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::arguments::{Probe, RowsAtOnce};
use crate::study::artifact::NewArtifact;
use crate::study::decision::Decision;
use crate::study::device::Device;
use crate::study::event::AttemptEnd;
use crate::study::metric::{Direction, Metrics, Number};
use crate::study::params::Params;
use crate::study::series::SeriesClock;
use crate::study::spec::Milestones;
use crate::study::step::StepUnit;
use crate::study::trial::{AttemptNumber, TrialNumber};

pub use spoken::{Clock, Reported, Spoken, step_of};

/// Before the name of a study whose trials used tokenised data: an empty file among it, by which
/// `hpsearch gc` knows.
pub const USED_BY: &str = "used-by-";

/// The variable with the name of a run, in the environment of everything that it starts.
pub const RUN: &str = "HPSEARCH_RUN";

/// The name of a trial's directory of checkpoints, in the trial's own.
pub const CHECKPOINTS: &str = "checkpoints";

/// The variable that tells a supervisor the directory of the run's control group, where there is
/// one; commands do not see it.
pub const RUN_GROUP: &str = "HPSEARCH_RUN_GROUP";

/// What a runner says to its watchdog at the end.
pub const RUN_IS_OVER: &str = "over\n";

/// What starts a line that is meant for the runner; every other line is the trial's log.
pub const PREFIX: &str = "@hpsearch ";

/// What the keys of hpsearch's own messages begin with.
const OWN: &str = "hpsearch_";

/// Longest line taken for a message, in bytes; longer ones are log, and cut.
pub const LONGEST_LINE: usize = 1 << 20;

/// The exit status of shells, and of a supervisor's own child, for a command that is not found.
pub const COMMAND_NOT_FOUND: i32 = 127;

/// What a trial's process tells the runner. Reports and checkpoints have a form that commands
/// print, too; the others are hpsearch's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MessageToRunner {
    /// Metrics at a step.
    #[serde(skip)]
    Report {
        /// Step.
        step: u64,
        /// What was measured.
        metrics: Metrics,
    },
    /// Metrics that ask for no decision, on whatever clock.
    #[serde(rename = "hpsearch_points")]
    Points {
        /// What the step counts.
        clock: SeriesClock,
        /// The step; `None`: counted, for each metric by itself.
        step: Option<f64>,
        /// What was measured.
        metrics: Metrics,
    },
    /// A checkpoint was saved.
    #[serde(skip)]
    Checkpoint {
        /// Path of the checkpoint.
        path: PathBuf,
        /// Step of the state.
        step: u64,
    },
    /// How much memory the process took at most for the job that ends now.
    #[serde(rename = "hpsearch_peak")]
    Peak {
        /// Bytes.
        bytes: u64,
    },
    /// A job is over (built-in workers and supervisors).
    #[serde(rename = "hpsearch_end")]
    End {
        /// How the attempt ended.
        end: AttemptEnd,
        /// One sentence.
        message: Option<String>,
    },
    /// Parameters of a tracked run that its program says.
    #[serde(skip)]
    Params {
        /// What it says.
        params: Params,
    },
    /// What a tracked run came to, as its program says.
    #[serde(skip)]
    Summary {
        /// What it says.
        summary: BTreeMap<String, serde_json::Value>,
    },
    /// A file, text or table that a program wants kept.
    #[serde(skip)]
    Artifact {
        /// What it says of it.
        artifact: NewArtifact,
    },
    /// The exit status of a tracked program: 128 and the signal's number where a signal ended it.
    #[serde(rename = "hpsearch_exit")]
    Exit {
        /// The status.
        status: i32,
    },
    /// The answer to a job that is not a trial.
    #[serde(rename = "hpsearch_answer")]
    Answer {
        /// Its content.
        body: serde_json::Value,
    },
    /// A piece of the text that a job writes.
    #[serde(rename = "hpsearch_text")]
    Text {
        /// The piece.
        text: String,
    },
    /// How far a job is.
    #[serde(rename = "hpsearch_at")]
    At {
        /// What is being done.
        what: String,
        /// How much of it is done.
        done: u64,
        /// Of how much.
        of: u64,
    },
}

/// Why a line meant for the runner was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not JSON.
    #[error("not JSON: {why}")]
    NotJson {
        /// The parser's words.
        why: String,
    },
    /// JSON, but no message.
    #[error("{why}")]
    Shape {
        /// What is wrong.
        why: String,
    },
}

impl MessageToRunner {
    /// Reads what follows [`PREFIX`] in a line of a worker's.
    pub fn parse(text: &str) -> Result<MessageToRunner, WireError> {
        let json: serde_json::Value = serde_json::from_str(&quote_non_finite(text))
            .map_err(|error| WireError::NotJson { why: error.to_string() })?;
        let serde_json::Value::Object(object) = json else {
            return Err(WireError::Shape {
                why: "expected an object like {\"step\": 1, \"eval_loss\": 0.5}".to_owned(),
            });
        };
        MessageToRunner::of(object)
    }

    /// What an object says: a worker's own words, or else a report or a checkpoint with its step.
    fn of(
        object: serde_json::Map<String, serde_json::Value>,
    ) -> Result<MessageToRunner, WireError> {
        if object.keys().any(|key| key.starts_with(OWN)) {
            return serde_json::from_value(serde_json::Value::Object(object))
                .map_err(|error| WireError::Shape { why: error.to_string() });
        }
        if !object.contains_key("step") {
            return Err(WireError::Shape { why: "`step` is missing".to_owned() });
        }
        spoken::only(object)
    }

    /// The whole line, prefix included, without a newline.
    pub fn to_line(&self) -> String {
        let body = match self {
            MessageToRunner::Report { step, metrics } => {
                let mut object = serde_json::Map::new();
                object.insert("step".to_owned(), (*step).into());
                object.extend(
                    metrics.iter().map(|(name, value)| (name.to_owned(), Number(value).to_json())),
                );
                serde_json::Value::Object(object)
            }
            MessageToRunner::Checkpoint { path, step } => {
                serde_json::json!({ "checkpoint": path, "step": step })
            }
            MessageToRunner::Params { params } => serde_json::json!({ "params": params }),
            MessageToRunner::Summary { summary } => serde_json::json!({ "summary": summary }),
            own => serde_json::to_value(own).expect("a message to the runner has only string keys"),
        };
        format!("{PREFIX}{body}")
    }
}

/// Bare words for numbers that are not finite, in lower case, and their names in JSON strings:
/// those of Python's `json`, of its `print`, and of C.
const NON_FINITE: [(&str, &str); 9] = [
    ("nan", "NaN"),
    ("-nan", "NaN"),
    ("+nan", "NaN"),
    ("infinity", "Infinity"),
    ("-infinity", "-Infinity"),
    ("inf", "Infinity"),
    ("-inf", "-Infinity"),
    ("+infinity", "Infinity"),
    ("+inf", "Infinity"),
];

/// Puts bare words for numbers that are not finite (`NaN`, `nan`, `Infinity`, `-inf`, ..) in
/// quotes, outside strings.
pub fn quote_non_finite(text: &str) -> Cow<'_, str> {
    let is_word =
        |three: &[u8]| three.eq_ignore_ascii_case(b"nan") || three.eq_ignore_ascii_case(b"inf");
    if !text.as_bytes().windows(3).any(is_word) {
        return Cow::Borrowed(text);
    }
    let mut quoted = String::with_capacity(text.len() + 8);
    let (mut rest, mut in_string) = (text, false);
    while let Some(next) = rest.chars().next() {
        let begins = |word: &str| {
            rest.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))
        };
        let found = NON_FINITE.into_iter().find(|(word, _)| !in_string && begins(word));
        if let Some((word, name)) = found {
            quoted.push('"');
            quoted.push_str(name);
            quoted.push('"');
            rest = &rest[word.len()..];
            continue;
        }
        let mut taken = next.len_utf8();
        if in_string && next == '\\' {
            taken += rest[taken..].chars().next().map_or(0, char::len_utf8);
        } else if next == '"' {
            in_string = !in_string;
        }
        quoted.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    Cow::Owned(quoted)
}

/// The line a trial gets for a report that holds the study's metric, without a newline.
pub fn verdict_line(verdict: &Decision) -> String {
    let reason = verdict.reason().map_or_else(String::new, ToString::to_string);
    serde_json::json!({ "verdict": verdict.word(), "reason": reason }).to_string()
}

/// What a runner tells a worker. Commands get verdict lines only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "hpsearch", rename_all = "snake_case")]
pub enum MessageToTrial {
    /// Something to do.
    Job(Box<Job>),
    /// Checkpoint and leave the present job; a command gets SIGTERM.
    Leave,
    /// Send the command this signal, as the terminal of a program in the foreground would.
    Signal {
        /// The signal's number.
        number: i32,
    },
    /// Say in the command's log what its processes are doing.
    Examine,
    /// Kill the command and everything it started.
    Kill,
}

/// A job of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Train one trial with the built-in trainer.
    Train(TrainJob),
    /// Try out a training; the answer holds the learning rate and the loss of each step.
    Probe {
        /// The training.
        train: TrainJob,
        /// What is tried.
        probe: Probe,
    },
    /// Say where a training's time goes; the answer holds the times of its phases and layers.
    Profile {
        /// The training.
        train: TrainJob,
        /// Optimiser steps to look at.
        steps: u32,
        /// The file for every span.
        trace: PathBuf,
    },
    /// Ask drivers for Vulkan and Metal for their GPUs; the answer holds the names of devices and
    /// what they are.
    Devices,
    /// Compute a little on a device: whether it works.
    TryDevice {
        /// The device.
        device: Device,
        /// Trainer arguments, of which those about numbers count.
        arguments: BTreeMap<String, serde_json::Value>,
    },
    /// Run one attempt of a command.
    Command(CommandJob),
    /// Read, check and tokenise the data; the answer holds findings and the cache directory.
    Prepare {
        /// Trainer arguments (the tokenizer's among them).
        arguments: BTreeMap<String, serde_json::Value>,
        /// The `[data]` table.
        data: BTreeMap<String, serde_json::Value>,
        /// Where prepared data is kept.
        cache: PathBuf,
        /// Arguments that other trials may have: their models must fit, too.
        #[serde(default)]
        others: Vec<BTreeMap<String, serde_json::Value>>,
    },
    /// Measure a checkpoint on the test split; the answer holds the metrics.
    Evaluate {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// Trainer arguments.
        arguments: BTreeMap<String, serde_json::Value>,
        /// The `[data]` table.
        data: BTreeMap<String, serde_json::Value>,
        /// Where prepared data is kept.
        cache: PathBuf,
        /// Where to compute.
        device: Device,
        /// Measure on the validation split where there are no test rows; otherwise there are no
        /// metrics then.
        #[serde(default)]
        or_validation: bool,
        /// Most rows at once, where those of the arguments did not fit into memory.
        #[serde(default)]
        rows: Option<usize>,
    },
    /// Write a checkpoint's model with weights of eight bits; the answer holds its bytes before and
    /// after.
    Quantize {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The directory to write.
        target: PathBuf,
    },
    /// Label texts with an exported model; the answer holds labels and scores.
    Predict {
        /// The exported directory.
        directory: PathBuf,
        /// The texts.
        texts: Vec<String>,
        /// Where to compute.
        device: Device,
        /// Texts at once.
        rows: usize,
    },
    /// Continue with a text with an exported model, telling it piece by piece; the answer holds the
    /// number of tokens.
    Generate {
        /// The exported directory.
        directory: PathBuf,
        /// What to continue with.
        prompt: String,
        /// Most tokens to add.
        max_new_tokens: usize,
        /// What logits are divided by; 0: always the likeliest token.
        temperature: f64,
        /// Only so many of the likeliest tokens are drawn from; 0: all.
        top_k: usize,
        /// Only the likeliest tokens that together reach this probability are drawn from.
        top_p: f64,
        /// Seed of the draws.
        seed: u64,
        /// Where to compute.
        device: Device,
    },
}

/// Everything that both kinds of trial need to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialJob {
    /// The study's name.
    pub study: String,
    /// The trial.
    pub trial: TrialNumber,
    /// The attempt.
    pub attempt: AttemptNumber,
    /// Its parameters.
    pub params: Params,
    /// Where to run.
    pub device: Device,
    /// The trial's seed.
    pub seed: u64,
    /// Threads on the CPU.
    pub cpu_threads: u32,
    /// The trial's own directory: checkpoints go below it.
    pub directory: PathBuf,
    /// Checkpoint to continue from.
    pub resume: Option<PathBuf>,
    /// The study's metric.
    pub metric: String,
    /// The store, for programs that call hpsearch themselves.
    pub store: PathBuf,
}

/// A trial of the built-in trainer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainJob {
    /// Who and where.
    pub trial: TrialJob,
    /// Fixed arguments; the trial's parameters come on top.
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// The `[data]` table.
    pub data: BTreeMap<String, serde_json::Value>,
    /// Where prepared data is kept.
    pub cache: PathBuf,
    /// Which way the trial's metric is better.
    pub direction: Direction,
    /// Unit of steps.
    pub clock: StepUnit,
    /// Where to evaluate.
    pub milestones: Milestones,
    /// Most rows in memory at once, after the trial has run out of it.
    #[serde(default)]
    pub rows_at_once: Option<RowsAtOnce>,
    /// Step where it is to pause.
    pub until: Option<u64>,
    /// The last step whose report the runner has.
    pub reported: Option<u64>,
    /// Whether somebody wants to hear how far it is between reports.
    #[serde(default)]
    pub is_watched: bool,
}

/// One attempt of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandJob {
    /// Who and where.
    pub trial: TrialJob,
    /// Program and arguments, parameters filled in.
    pub run: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Variables added to the environment.
    pub env: BTreeMap<String, String>,
    /// Step where it is told to pause, or is at its end if it continues past it.
    #[serde(default)]
    pub until: Option<u64>,
    /// The device as the study names it (inside the process a GPU is always number 0).
    pub device: Device,
    /// Whether it is a tracked run, which nobody gives a device or a seed.
    #[serde(default)]
    pub is_tracked: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_nan_and_infinity_are_read_outside_strings_only() {
        let up = MessageToRunner::parse(
            r#"{"step": 2, "eval_loss": NaN, "a": -Infinity, "NaN \" b": Infinity, "c": "inf"}"#,
        )
        .unwrap();
        let MessageToRunner::Report { step, metrics } = up else { panic!("{up:?}") };
        assert_eq!(step, 2);
        assert!(metrics.get("eval_loss").unwrap().is_nan());
        assert_eq!(metrics.get("a"), Some(f64::NEG_INFINITY));
        assert_eq!(metrics.get("NaN \" b"), Some(f64::INFINITY));
        assert_eq!(metrics.get("c"), Some(f64::INFINITY));
    }

    #[test]
    fn messages_round_trip_as_lines() {
        let messages = [
            MessageToRunner::Report {
                step: 3,
                metrics: Metrics([("loss".to_owned(), 0.5), ("x".to_owned(), f64::NAN)].into()),
            },
            MessageToRunner::Checkpoint { path: "/tmp/a b".into(), step: 9 },
            MessageToRunner::End { end: AttemptEnd::Diverged, message: Some("loss is NaN".into()) },
            MessageToRunner::Peak { bytes: 1 << 33 },
            MessageToRunner::At { what: "tokenising \"a\"".into(), done: 3, of: 4 },
        ];
        for message in messages {
            let line = message.to_line();
            let read = MessageToRunner::parse(line.strip_prefix(PREFIX).unwrap());
            assert_eq!(read, Ok(message), "{line}");
        }
    }

    #[test]
    fn what_is_no_message_says_why() {
        for line in [
            "",
            "5",
            "{}",
            "{\"step\":-1,\"a\":1}",
            "{\"step\":1}",
            "{\"step\":1,\"a\":\"x\"}",
            "{\"step\":1.5,\"a\":2}",
            "{\"step\":1,\"checkpoint\":7}",
        ] {
            assert!(MessageToRunner::parse(line).is_err(), "{line}");
        }
    }
}
