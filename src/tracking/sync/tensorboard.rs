//! Exports runs to TensorBoard: a directory with an event file for each, its parameters and state
//! for the HParams plugin, and one file that describes the experiment.
//!
//! `Event` 1 wall time, 2 step, 3 file version, 5 summary, 7 session log; `Summary` 1 values;
//! `Value` 1 tag, 2 simple value, 8 tensor, 9 metadata (tensorflow/core/util/event.proto,
//! framework/summary.proto); HParams: `plugins/hparams/{plugin_data,api}.proto` of TensorBoard.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use super::protobuf::Message;
use super::run_file::{self, Out, Rest};
use super::{Run, SyncError, Target, own_file, seconds};
use crate::runner::metric_files::masked_crc;
use crate::storage::{StorageReader, StudySummary};
use crate::study::params::Value;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::series::{SeriesAxis, SeriesSummary};
use crate::study::space::Distribution;
use crate::study::time::Timestamp;
use crate::study::trial::TrialState;

/// The plugin that shows parameters beside metrics.
const PLUGIN: &str = "hparams";

/// The plugin's codes of a run's states.
const SUCCESS: u64 = 1;
const FAILURE: u64 = 2;

/// Trials examined for the types of parameters that are not in the space.
const SAMPLE: u64 = 200;

/// A study's directory of runs.
pub(super) struct TensorBoard {
    root: PathBuf,
    /// The axis of the study's reports.
    axis: SeriesAxis,
    /// The description of the experiment that was written.
    experiment: Vec<u8>,
}

impl TensorBoard {
    pub fn new(root: PathBuf) -> Self {
        TensorBoard { root, axis: SeriesAxis::Step, experiment: Vec::new() }
    }

    /// The tag of a series: its metric, and its axis where the metric has another one, too.
    fn tag(&self, run: &Run<'_>, series: &SeriesSummary) -> String {
        let of_metric = || run.series.iter().filter(|other| other.metric == series.metric);
        let is_first = || of_metric().next().is_some_and(|first| first.axis == series.axis);
        let on_axis = of_metric().any(|other| other.axis == self.axis);
        let is_plain = if on_axis { series.axis == self.axis } else { is_first() };
        if is_plain {
            series.metric.clone()
        } else {
            format!("{} by {}", series.metric, series.axis)
        }
    }
}

impl Target for TensorBoard {
    fn begin(&mut self, reader: &dyn StorageReader, study: &StudySummary) -> Result<(), SyncError> {
        self.axis = study.spec.step.into();
        let experiment = experiment(reader, study)?;
        if experiment == self.experiment {
            return Ok(());
        }
        let event = summary(seconds(study.created), "_hparams_/experiment", &experiment);
        let file = [begin_of(study.created), record(event.encoded())].concat();
        let path = self.root.join(file_name(0));
        if own_file::read(&path)?.is_none_or(|there| there != file) {
            own_file::check(&path, &begin_of(study.created))?;
            own_file::replace(&path, &file)?;
        }
        self.experiment = experiment;
        Ok(())
    }

    fn write(&mut self, run: &Run<'_>) -> Result<Option<u64>, SyncError> {
        let directory = self.root.join(run.directory());
        fs::create_dir_all(&directory).map_err(SyncError::io(&directory))?;
        let Some(rest) = run_file::rest(run, &directory, file_name)? else { return Ok(None) };
        let begin = begin_of(run.began);
        run_file::append(run, &directory, &rest, (file_name, &begin), |_, out| {
            self.events(run, &rest, out)
        })?;
        Ok(Some(rest.count()))
    }
}

impl TensorBoard {
    fn events(&self, run: &Run<'_>, rest: &Rest<'_>, out: &mut Out) -> io::Result<()> {
        if rest.is_new() {
            out.write_all(&begin_of(run.began))?;
            if rest.state.generation > 0 {
                // Data that a reader has loaded from the file before is outdated.
                let restart = Message::new().varint(1, 1);
                let event = Message::new().double(1, seconds(run.began)).message(7, &restart);
                out.write_all(&record(event.encoded()))?;
            }
            let start = summary(seconds(run.began), "_hparams_/session_start_info", &start(run));
            out.write_all(&record(start.encoded()))?;
        }
        for (series, points) in &rest.points {
            let tag = self.tag(run, series);
            for point in points {
                #[expect(clippy::cast_possible_truncation, reason = "the format has f32")]
                let value = Message::new().text(1, &tag).float(2, point.value as f32);
                #[expect(clippy::cast_possible_truncation, reason = "the format has integer steps")]
                let event = Message::new()
                    .double(1, seconds(point.at))
                    .int64(2, point.step as i64)
                    .message(5, &Message::new().message(1, &value));
                out.write_all(&record(event.encoded()))?;
            }
        }
        if rest.is_end {
            let at = run.trial.finished.unwrap_or(run.began);
            let status = match run.trial.state {
                TrialState::Failed => FAILURE,
                TrialState::Queued
                | TrialState::Running
                | TrialState::Paused
                | TrialState::Complete
                | TrialState::Pruned => SUCCESS,
            };
            let end = Message::new().varint(1, status).double(2, seconds(at));
            let data = Message::new().varint(1, 0).message(4, &end);
            let end = summary(seconds(at), "_hparams_/session_end_info", data.encoded());
            out.write_all(&record(end.encoded()))?;
        }
        Ok(())
    }
}

fn file_name(generation: u32) -> String {
    format!("events.out.tfevents.{generation:010}.hpsearch")
}

/// A record of a file: length, checksum, data, checksum.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(length);
    record.extend(masked_crc(&length).to_le_bytes());
    record.extend(data);
    record.extend(masked_crc(data).to_le_bytes());
    record
}

/// The first record of a file, by which it is known as one of this program.
fn begin_of(at: Timestamp) -> Vec<u8> {
    record(version(at).encoded())
}

/// The first event of a file.
fn version(at: Timestamp) -> Message {
    Message::new().double(1, seconds(at)).text(3, "brain.Event:2")
}

/// A summary for the plugin under a tag: its data, and an empty tensor.
fn summary(at: f64, tag: &str, data: &[u8]) -> Message {
    let plugin = Message::new().text(1, PLUGIN).bytes(2, data);
    let empty = Message::new().message(2, &Message::new().varint(1, 0));
    let tensor = Message::new().varint(1, 1).message(2, &empty);
    let value = Message::new()
        .text(1, tag)
        .message(8, &tensor)
        .message(9, &Message::new().message(1, &plugin));
    Message::new().double(1, at).message(5, &Message::new().message(1, &value))
}

/// A parameter's value as `google.protobuf.Value`; nothing for null.
fn value_of(value: &Value) -> Option<Message> {
    match value {
        Value::Null => None,
        Value::Bool(flag) => Some(Message::new().varint(4, u64::from(*flag))),
        value => Some(match value.as_number() {
            Some(number) => Message::new().double(2, number),
            None => Message::new().text(3, &value.to_string()),
        }),
    }
}

/// A run's parameters.
fn start(run: &Run<'_>) -> Vec<u8> {
    let mut start = Message::new();
    for (name, value) in run.trial.params.iter() {
        if let Some(value) = value_of(value) {
            start = start.message(1, &Message::new().text(1, name).message(2, &value));
        }
    }
    let group = run.trial.origin.tracked().and_then(|tracked| tracked.group.clone());
    let group = group.map_or_else(|| run.name(), |group| format!("{group}/{}", run.name()));
    let start = start.text(4, &group).double(5, seconds(run.began));
    Message::new().varint(1, 0).message(3, &start).encoded().to_vec()
}

/// The kinds of parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text = 1,
    Flag = 2,
    Number = 3,
}

/// The common kind of some values.
fn kind_of<'a>(values: impl Iterator<Item = &'a Value>) -> Kind {
    let mut kind = None;
    for value in values.filter(|value| **value != Value::Null) {
        let own = match value {
            Value::Bool(_) => Kind::Flag,
            value if value.as_number().is_some() => Kind::Number,
            _ => Kind::Text,
        };
        if *kind.get_or_insert(own) != own {
            return Kind::Text;
        }
    }
    kind.unwrap_or(Kind::Text)
}

/// The experiment's parameters and metrics.
fn experiment(reader: &dyn StorageReader, study: &StudySummary) -> Result<Vec<u8>, SyncError> {
    let mut experiment = Message::new().double(3, seconds(study.created));
    if let Some(description) = &study.spec.description {
        experiment = experiment.text(1, description);
    }
    let space = &study.spec.space;
    for dimension in space.dimensions() {
        let info = Message::new().text(1, &dimension.name);
        let interval = |low: f64, high: f64| Message::new().double(1, low).double(2, high);
        #[expect(clippy::cast_precision_loss, reason = "bounds for a screen")]
        let info = match &dimension.distribution {
            Distribution::Float { low, high, .. } => {
                info.varint(4, Kind::Number as u64).message(6, &interval(*low, *high))
            }
            Distribution::Int { low, high, .. } => {
                info.varint(4, Kind::Number as u64).message(6, &interval(*low as f64, *high as f64))
            }
            Distribution::Choice { choices } => {
                let list = choices.iter().filter_map(value_of);
                let list = list.fold(Message::new(), |list, value| list.message(1, &value));
                info.varint(4, kind_of(choices.iter()) as u64).message(5, &list)
            }
        };
        experiment = experiment.message(4, &info);
    }
    let other = |name: &String| space.dimension(name).is_none();
    let others: Vec<String> = reader.params(study.id)?.into_iter().filter(other).collect();
    if !others.is_empty() {
        let query = TrialQuery::all(SortKey::Number).page(0, SAMPLE);
        let trials = reader.trials(study.id, &query)?;
        for name in others {
            let values = trials.iter().filter_map(|trial| trial.params.get(&name));
            let info = Message::new().text(1, &name).varint(4, kind_of(values) as u64);
            experiment = experiment.message(4, &info);
        }
    }
    let own = &study.spec.objective().metric;
    let metrics = reader.metrics(study.id)?;
    let others = metrics.iter().filter(|metric| *metric != own);
    for metric in std::iter::once(own).chain(others) {
        let name = Message::new().text(2, metric);
        experiment = experiment.message(5, &Message::new().message(1, &name));
    }
    Ok(Message::new().varint(1, 0).message(2, &experiment).encoded().to_vec())
}
