//! Exports offline runs of Weights & Biases: a directory for each, with one log of records.
//!
//! The log is LevelDB's (blocks of 32 KiB, records cut into chunks) after a header of seven bytes;
//! its checksums are CRC-32 without a mask. `Record` 1 number, 2 history, 3 summary, 17 run, 18
//! exit, 21 header; `RunRecord` 1 id, 3 project, 4 config, 6 group, 7 kind of job, 8 display name,
//! 9 notes, 10 tags, 17 start time; items 1 key, 16 value as JSON
//! (wandb/proto/wandb_internal.proto).

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use super::protobuf::Message;
use super::run_file::{self, Out, Rest};
use super::{Run, SyncError, Target, seconds};
use crate::runner::metric_files::{crc, crc_table};
use crate::storage::{StorageReader, StudySummary};
use crate::study::series::{Point, SeriesAxis, SeriesSummary};
use crate::study::time::Timestamp;
use crate::study::trial::TrialState;

/// Bytes of a block.
pub(in crate::tracking) const BLOCK: u64 = 32 << 10;

/// Bytes of a chunk's header: checksum, length, kind.
pub(in crate::tracking) const HEADER: u64 = 7;

/// The header of a log: a name, a number, and the version of the format.
pub(in crate::tracking) const BEGIN: [u8; 7] = *b":W&B\xe1\xbe\0";

/// The job type of runs written by hpsearch, whose rows name their axis.
pub(in crate::tracking) const JOB_TYPE: &str = "hpsearch";

/// CRC-32 of each byte.
pub(in crate::tracking) const IEEE: [u32; 256] = crc_table(0xedb8_8320);

/// A study's directory of runs.
pub(super) struct Wandb {
    root: PathBuf,
    /// The axis of the study's reports.
    axis: SeriesAxis,
    /// The store's name, of which runs have theirs.
    store: String,
}

impl Wandb {
    pub fn new(root: PathBuf) -> Self {
        Wandb { root, axis: SeriesAxis::Step, store: String::new() }
    }

    /// The run's stable and unique identifier.
    fn id(&self, run: &Run<'_>) -> String {
        let of = format!("{}/{}/{}", self.store, run.study.id.0, run.trial.number.0);
        blake3::hash(of.as_bytes()).to_hex()[..12].to_owned()
    }
}

impl Target for Wandb {
    fn begin(&mut self, reader: &dyn StorageReader, study: &StudySummary) -> Result<(), SyncError> {
        self.axis = study.spec.step.into();
        self.store = reader.identity()?.unwrap_or_default();
        Ok(())
    }

    fn write(&mut self, run: &Run<'_>) -> Result<Option<u64>, SyncError> {
        let id = self.id(run);
        let directory = self.root.join(format!("offline-run-{}-{id}", moment(run.began)));
        fs::create_dir_all(&directory).map_err(SyncError::io(&directory))?;
        let name = |_| format!("run-{id}.wandb");
        let Some(rest) = run_file::rest(run, &directory, name)? else { return Ok(None) };
        run_file::append(run, &directory, &rest, (name, &BEGIN), |state, out| {
            let mut log = Log { at: rest.bytes(), records: &mut state.records, out };
            if rest.is_new() {
                log.begin()?;
                log.record(21, &header())?;
                log.record(17, &run_record(run, &id))?;
            }
            self.history(run, &rest, &mut state.step, &mut log)?;
            if rest.is_end {
                end(run, state.step, &mut log)?;
            }
            Ok(())
        })?;
        Ok(Some(rest.count()))
    }
}

/// Values logged together, at one step of one axis.
struct HistoryRow<'a> {
    axis: SeriesAxis,
    step: f64,
    at: Timestamp,
    values: Vec<(&'a str, f64)>,
}

impl Wandb {
    /// The points in the order in which they were logged, those of one time and step together. The
    /// tool's own step must increase: it is the study's if that does, else one more.
    fn history(
        &self,
        run: &Run<'_>,
        rest: &Rest<'_>,
        last: &mut Option<i64>,
        log: &mut Log<'_>,
    ) -> io::Result<()> {
        for row in rows(&rest.points) {
            let least = last.map_or(0, |last| last.saturating_add(1));
            #[expect(clippy::cast_possible_truncation, reason = "the format has integer steps")]
            let step = if row.axis == self.axis { least.max(row.step as i64) } else { least };
            *last = Some(step);
            let at = seconds(row.at);
            let mut history = Message::new();
            for (name, value) in &row.values {
                history = history.message(1, &item(name, &number(*value)));
            }
            let own = [
                (row.axis.as_str(), number(row.step)),
                ("_step", step.to_string()),
                ("_timestamp", number(at)),
                ("_runtime", number(at - seconds(run.began))),
            ];
            let is_free = |name: &str| !row.values.iter().any(|(taken, _)| *taken == name);
            for (name, json) in own.iter().filter(|(name, _)| is_free(name)) {
                history = history.message(1, &item(name, json));
            }
            let history = history.message(2, &Message::new().int64(1, step));
            log.record(2, &history)?;
        }
        Ok(())
    }
}

fn rows<'a>(points: &'a [(&'a SeriesSummary, Vec<Point>)]) -> Vec<HistoryRow<'a>> {
    let mut all: Vec<(&SeriesSummary, &Point)> = points
        .iter()
        .flat_map(|(series, points)| points.iter().map(move |point| (*series, point)))
        .collect();
    all.sort_by(|(a, one), (b, other)| {
        let order = |series: &SeriesSummary, point: &Point| (point.at, series.axis);
        order(a, one).cmp(&order(b, other)).then(one.step.total_cmp(&other.step))
    });
    let mut rows: Vec<HistoryRow<'a>> = Vec::new();
    for (series, point) in all {
        let value = (series.metric.as_str(), point.value);
        match rows.last_mut() {
            Some(row)
                if (row.axis, row.at) == (series.axis, point.at) && row.step == point.step =>
            {
                row.values.push(value);
            }
            _ => rows.push(HistoryRow {
                axis: series.axis,
                step: point.step,
                at: point.at,
                values: vec![value],
            }),
        }
    }
    rows
}

/// A key with its value as JSON.
fn item(key: &str, json: &str) -> Message {
    Message::new().text(1, key).text(16, json)
}

/// A number in the tool's JSON, which has NaN and infinities.
fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        serde_json::Value::from(value).to_string()
    }
}

fn header() -> Message {
    let versions = Message::new().text(1, env!("CARGO_PKG_VERSION")).text(2, "0.1.0");
    Message::new().message(1, &versions)
}

fn run_record(run: &Run<'_>, id: &str) -> Message {
    let config = run.trial.params.iter().fold(Message::new(), |config, (name, value)| {
        config.message(1, &item(name, &value.to_json().to_string()))
    });
    let mut record = Message::new().text(1, id).text(3, &run.study.spec.name).message(4, &config);
    let tracked = run.trial.origin.tracked();
    if let Some(group) = tracked.and_then(|tracked| tracked.group.as_deref()) {
        record = record.text(6, group);
    }
    // A run needs a name there: its number if it has none.
    let name = tracked.and_then(|tracked| tracked.name.clone());
    record = record.text(7, JOB_TYPE).text(8, &name.unwrap_or_else(|| run.name()));
    let notes: Vec<&str> = run.trial.notes.iter().map(|note| note.text.as_str()).collect();
    if !notes.is_empty() {
        record = record.text(9, &notes.join("\n"));
    }
    for tag in &run.trial.tags {
        record = record.text(10, tag);
    }
    let (whole, rest) = (run.began.0.div_euclid(1_000_000), run.began.0.rem_euclid(1_000_000));
    record.message(17, &Message::new().int64(1, whole).int64(2, rest * 1_000))
}

/// A run's summary and end.
fn end(run: &Run<'_>, step: Option<i64>, log: &mut Log<'_>) -> io::Result<()> {
    let at = run.trial.finished.unwrap_or(run.began);
    let runtime = (seconds(at) - seconds(run.began)).max(0.0);
    let mut summary = Message::new();
    let is_own = |series: &&SeriesSummary| run.summary.contains_key(&series.metric);
    for series in run.series.iter().filter(|series| !is_own(series)) {
        summary = summary.message(1, &item(&series.metric, &number(series.last_value)));
    }
    for (name, value) in &run.summary {
        summary = summary.message(1, &item(name, &value.to_string()));
    }
    if let Some(step) = step {
        summary = summary.message(1, &item("_step", &step.to_string()));
    }
    for (name, value) in [("_timestamp", seconds(at)), ("_runtime", runtime)] {
        summary = summary.message(1, &item(name, &number(value)));
    }
    log.record(3, &summary)?;
    let code = u64::from(run.trial.state == TrialState::Failed);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a run, not negative"
    )]
    let exit = Message::new().varint(1, code).varint(2, runtime as u64);
    log.record(18, &exit)
}

/// A log that is appended to.
struct Log<'a> {
    /// Where it ends.
    at: u64,
    records: &'a mut u64,
    out: &'a mut Out,
}

impl Log<'_> {
    fn begin(&mut self) -> io::Result<()> {
        self.put(&BEGIN)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// A record with one field, split at block boundaries.
    fn record(&mut self, field: u32, content: &Message) -> io::Result<()> {
        let record = Message::new().varint(1, *self.records).message(field, content);
        *self.records += 1;
        let mut rest = record.encoded();
        let mut is_first = true;
        loop {
            let left = BLOCK - self.at % BLOCK;
            if left < HEADER {
                self.put(&[0; 6][..usize::try_from(left).unwrap_or(0)])?;
                continue;
            }
            let room = usize::try_from(left - HEADER).unwrap_or(usize::MAX);
            let (chunk, after) = rest.split_at(room.min(rest.len()));
            let kind: u8 = match (is_first, after.is_empty()) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            let checked = [&[kind][..], chunk].concat();
            self.put(&crc(&IEEE, &checked).to_le_bytes())?;
            self.put(&u16::try_from(chunk.len()).unwrap_or(u16::MAX).to_le_bytes())?;
            self.put(&checked)?;
            (rest, is_first) = (after, false);
            if rest.is_empty() {
                return Ok(());
            }
        }
    }
}

/// A UTC time as in the names of directories.
fn moment(at: Timestamp) -> String {
    let moment = jiff::Timestamp::from_microsecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    moment.strftime("%Y%m%d_%H%M%S").to_string()
}
