//! The protocol between a runner and a trial's process: JSON after `@hpsearch ` on stdout, plain
//! JSON on stdin.

mod kept;
mod spoken;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::arguments::{Probe, RowsAtOnce, WritingOptions};
use crate::engine::GroupNode;
use crate::study::artifact::NewArtifact;
use crate::study::decision::Decision;
use crate::study::device::{Device, DeviceGroup};
use crate::study::event::AttemptEnd;
use crate::study::metric::{Metrics, Number};
use crate::study::params::Params;
use crate::study::series::SeriesAxis;
use crate::study::spec::{Milestones, Objective};
use crate::study::step::StepUnit;
use crate::study::trial::{AttemptNumber, TrialNumber};

pub use spoken::{Reported, Spoken, StepCounter, step_of};

/// Prefix of empty files in tokenised data that name the studies using it, for `hpsearch gc`.
pub const USED_BY: &str = "used-by-";

/// The variable with the name of a run, in the environment of everything that it starts.
pub const RUN: &str = "HPSEARCH_RUN";

/// The name of the directory of checkpoints in a trial's directory.
pub const CHECKPOINTS: &str = "checkpoints";

/// The variable with the directory of the run's control group, if there is one; for supervisors,
/// not commands.
pub const RUN_GROUP: &str = "HPSEARCH_RUN_GROUP";

/// Set for workers of an agent, and for nothing that they start.
pub const OF_AGENT: &str = "HPSEARCH_OF_AGENT";

/// The runner's last message to its watchdog.
pub const RUN_IS_OVER: &str = "over\n";

/// Prefix of a line for the runner; every other line belongs to the trial's log.
pub const PREFIX: &str = "@hpsearch ";

/// Prefix of a line in the log of a group that another rank than the first wrote: `[rank 1] `.
pub const RANK_PREFIX: &str = "[rank ";

/// Prefix of the keys of internal messages.
const OWN: &str = "hpsearch_";

/// Longest line of a message, in bytes; longer ones are log, and truncated.
pub const LONGEST_LINE: usize = 1 << 20;

/// The exit status of shells, and of a supervisor's own child, for a command that is not found.
pub const COMMAND_NOT_FOUND: i32 = 127;

/// A message of a trial's process to the runner. Commands print reports and checkpoints, too; the
/// others are internal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MessageToRunner {
    /// Metrics at a step.
    #[serde(skip)]
    Report {
        /// Step.
        step: u64,
        /// The metrics.
        metrics: Metrics,
    },
    /// Metrics that need no decision, on any axis.
    #[serde(rename = "hpsearch_points")]
    Points {
        /// The axis.
        #[serde(rename = "clock")]
        axis: SeriesAxis,
        /// The step; `None`: counted, separately for each metric.
        step: Option<f64>,
        /// The metrics.
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
    /// The trial cannot resume from its checkpoint, and starts over, or from an earlier one.
    #[serde(rename = "hpsearch_starts_over")]
    StartsOver {
        /// The reason.
        why: String,
        /// The earlier checkpoint.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// The process's peak memory for the job that ends now.
    #[serde(rename = "hpsearch_peak")]
    Peak {
        /// The peak memory in bytes.
        bytes: u64,
    },
    /// The command that ends now was told to pause, and did not read it.
    #[serde(rename = "hpsearch_unheard")]
    Unheard {},
    /// A job ended (built-in workers and supervisors).
    #[serde(rename = "hpsearch_end")]
    End {
        /// How the attempt ended.
        end: AttemptEnd,
        /// One sentence.
        message: Option<String>,
    },
    /// Parameters recorded by a tracked run's program.
    #[serde(skip)]
    Params {
        /// The parameters.
        params: Params,
    },
    /// Summary values, which describe the whole trial.
    #[serde(skip)]
    Summary {
        /// The values.
        summary: BTreeMap<String, serde_json::Value>,
    },
    /// Tags that the program gives its trial.
    #[serde(skip)]
    Tags {
        /// The tags, each of them valid.
        tags: Vec<String>,
    },
    /// An artifact to save.
    #[serde(skip)]
    Artifact {
        /// The artifact.
        artifact: NewArtifact,
    },
    /// The exit status of a tracked program: 128 plus the signal number if a signal ended it.
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
    /// A piece of a job's output text.
    #[serde(rename = "hpsearch_text")]
    Text {
        /// The piece.
        text: String,
    },
    /// Progress of a job.
    #[serde(rename = "hpsearch_at")]
    At {
        /// The activity.
        what: String,
        /// Units done.
        done: u64,
        /// Units of the whole activity.
        of: u64,
    },
}

/// Why a line for the runner was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not JSON.
    #[error("not JSON: {why}")]
    NotJson {
        /// The parser's message.
        why: String,
    },
    /// JSON, but not a message.
    #[error("{why}")]
    Shape {
        /// What is wrong.
        why: String,
    },
}

impl MessageToRunner {
    /// Parses what follows [`PREFIX`] in a worker's line.
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

    /// The messages of an object: a worker's internal one, or else a report or a checkpoint with
    /// its step.
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

    /// The complete line with prefix, without a newline.
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
            MessageToRunner::Tags { tags } => serde_json::json!({ "tags": tags }),
            own => serde_json::to_value(own).expect("a message to the runner has only string keys"),
        };
        format!("{PREFIX}{body}")
    }
}

/// Bare words for non-finite numbers, in lower case, and their names in JSON strings: those of
/// Python's `json`, of its `print`, and of C.
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

/// Quotes bare words for non-finite numbers (`NaN`, `nan`, `Infinity`, `-inf`, ..) outside strings.
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

/// The answer to a report with the study's metric, without a newline.
pub fn verdict_line(verdict: &Decision) -> String {
    let reason = verdict.reason().map_or_else(String::new, ToString::to_string);
    serde_json::json!({ "verdict": verdict.word(), "reason": reason }).to_string()
}

/// A message of a runner to a worker. Commands receive decision lines only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "hpsearch", rename_all = "snake_case")]
pub enum MessageToTrial {
    /// A job.
    Job(Box<WorkerJob>),
    /// Save a checkpoint and end the present job; a command gets SIGTERM.
    Leave,
    /// Forward this signal to the command, as a terminal would.
    Signal {
        /// The signal's number.
        number: i32,
    },
    /// Write the activity of the command's processes into its log.
    Examine,
    /// Kill the command and its descendants.
    Kill,
}

impl MessageToTrial {
    /// The line of a message without paths, which a job has; without a newline.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a message without paths has only string keys")
    }
}

/// A job of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerJob {
    /// Train one trial with the built-in trainer.
    Train(TrainJob),
    /// Run a diagnostic; the answer holds the learning rate and the loss of each step.
    Probe {
        /// The training.
        train: TrainJob,
        /// The diagnostic.
        probe: Probe,
    },
    /// Profile a training; the answer holds the times of its phases and layers.
    Profile {
        /// The training.
        train: TrainJob,
        /// Optimiser steps to profile.
        steps: u32,
        /// The trace file with every span.
        trace: PathBuf,
    },
    /// Query drivers for Vulkan and Metal; the answer holds the names and kinds of their GPUs.
    Devices,
    /// Test whether a device can compute.
    TryDevice {
        /// The device.
        device: Device,
        /// Trainer arguments, for the compute precision.
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
        /// The directory for prepared data.
        cache: PathBuf,
        /// Arguments that other trials may have, which are checked too.
        #[serde(default)]
        others: Vec<BTreeMap<String, serde_json::Value>>,
    },
    /// Evaluate a checkpoint on the test split; the answer holds the metrics.
    Evaluate {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// Trainer arguments.
        arguments: BTreeMap<String, serde_json::Value>,
        /// The `[data]` table.
        data: BTreeMap<String, serde_json::Value>,
        /// The directory of prepared data.
        cache: PathBuf,
        /// The device.
        device: Device,
        /// Use the validation split if there are no test rows; otherwise there are no metrics then.
        #[serde(default)]
        or_validation: bool,
        /// Largest batch size, if the arguments' did not fit in memory.
        #[serde(default)]
        rows: Option<usize>,
    },
    /// Quantize a checkpoint's model to 8 bits; the answer holds its size before and after.
    Quantize {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The output directory.
        target: PathBuf,
    },
    /// Label texts with an exported model; the answer holds labels and scores.
    Predict {
        /// The exported directory.
        directory: PathBuf,
        /// The texts.
        texts: Vec<String>,
        /// The second text of each, of pairs.
        pairs: Option<Vec<String>>,
        /// Whether texts are normalised first, as those of the training were.
        normalize: bool,
        /// How texts are written, by models that write them.
        writing: WritingOptions,
        /// The device.
        device: Device,
        /// Batch size.
        rows: usize,
    },
    /// Generate text with an exported model, streamed piece by piece; the answer holds the number
    /// of tokens.
    Generate {
        /// The exported directory.
        directory: PathBuf,
        /// The prompt.
        prompt: String,
        /// Most tokens to add.
        max_new_tokens: usize,
        /// Divides the logits; 0: always the most likely token.
        temperature: f64,
        /// Sample only from this many most likely tokens; 0: all.
        top_k: usize,
        /// Sample only from the most likely tokens that together reach this probability.
        top_p: f64,
        /// Seed of the draws.
        seed: u64,
        /// The device.
        device: Device,
    },
}

/// Another trial's checkpoint, from which a trial continues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cloned {
    /// The trial that saved it.
    pub from: TrialNumber,
    /// Its digest, which is compared before it is used.
    pub digest: Option<String>,
}

/// What both kinds of trial need.
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
    /// The device.
    pub device: Device,
    /// The trial's seed.
    pub seed: u64,
    /// Threads on the CPU.
    pub cpu_threads: u32,
    /// The trial's own directory, which contains its checkpoints.
    pub directory: PathBuf,
    /// Checkpoint to continue from.
    pub resume: Option<PathBuf>,
    /// Set if that is another trial's: the parameters differ from those it was saved with.
    #[serde(default)]
    pub cloned: Option<Cloned>,
    /// The metrics of the study's objectives, at least one.
    pub objectives: Vec<String>,
    /// The store, for programs that call hpsearch themselves.
    pub store: PathBuf,
}

/// A trial of the built-in trainer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainJob {
    /// The trial.
    pub trial: TrialJob,
    /// Fixed arguments; the trial's parameters override them.
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// The `[data]` table.
    pub data: BTreeMap<String, serde_json::Value>,
    /// The directory of prepared data.
    pub cache: PathBuf,
    /// The objective that early stopping watches.
    pub monitored: Objective,
    /// Unit of steps.
    #[serde(rename = "clock")]
    pub step_unit: StepUnit,
    /// When to evaluate.
    pub milestones: Milestones,
    /// Batch sizes, if the trial has run out of memory.
    #[serde(default)]
    pub rows_at_once: Option<RowsAtOnce>,
    /// Step at which it pauses.
    pub until: Option<u64>,
    /// The step of the last recorded report.
    pub reported: Option<u64>,
    /// Whether trials copy the checkpoints of others: one that a trial saved before may be of the
    /// weights that it gave up.
    #[serde(default)]
    pub in_population: bool,
    /// Whether to send progress between reports.
    #[serde(default)]
    pub is_watched: bool,
}

/// One attempt of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandJob {
    /// The trial.
    pub trial: TrialJob,
    /// Program and arguments, parameters filled in.
    pub run: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Variables added to the environment.
    pub env: BTreeMap<String, String>,
    /// Step at which it pauses, or ends if it continues past its end.
    #[serde(default)]
    pub until: Option<u64>,
    /// The devices as the study names them (inside its processes GPUs are counted from 0).
    pub devices: DeviceGroup,
    /// Whether it is started once per device.
    #[serde(default)]
    pub per_device: bool,
    /// The node of the group that this is, if that is on several.
    #[serde(default)]
    pub node: Option<GroupNode>,
    /// Whether a report of an objective may be answered by the end of the trial.
    #[serde(default)]
    pub is_judged: bool,
    /// Whether it is a tracked run, which has no device or seed.
    #[serde(default)]
    pub is_tracked: bool,
}

impl CommandJob {
    /// Whether the attempt's first process is on another node: nothing that is printed here is a
    /// message.
    pub fn follows(&self) -> bool {
        self.node.as_ref().is_some_and(|node| !node.leads())
    }
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
            MessageToRunner::StartsOver { why: "it is damaged".into(), from: None },
            MessageToRunner::Peak { bytes: 1 << 33 },
            MessageToRunner::Unheard {},
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
