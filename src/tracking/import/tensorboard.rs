//! A directory of TensorBoard's event files: one run, with the parameters of the HParams plugin.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::recorded_run::moment;
use super::{Format, ImportError, RecordedEnd, RecordedPoint, RecordedRun};
use crate::runner::metric_files::{Broken, Content, EventReader, Fields};
use crate::study::params::Value;
use crate::study::series::SeriesAxis;
use crate::study::time::Timestamp;

/// Prefix of event files' names.
pub(super) const NAME: &str = "events.out.tfevents.";

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// Bytes of a file that are read to find the start of its run.
const BEGINNING: u64 = 1 << 16;

/// The plugin's status of a failed run.
const FAILURE: u64 = 2;

/// The run of a directory; `None` if its files only describe others. Its name is its path below
/// `root`.
pub(super) fn read(directory: &Path, root: &Path) -> Result<Option<RecordedRun>, ImportError> {
    let below = directory.strip_prefix(root).unwrap_or(directory);
    let name = if below.as_os_str().is_empty() { directory.file_name() } else { None };
    let name = name.map_or_else(|| below.to_string_lossy(), |name| name.to_string_lossy());
    let mut run = RecordedRun {
        source: format!("{}:{}", Format::TensorBoard.as_str(), directory.display()),
        name: Some(name.into_owned()),
        // TensorBoard does not record the end of a run, unless the plugin does.
        end: Some(RecordedEnd::Complete),
        ..RecordedRun::default()
    };
    let mut is_run = false;
    let mut all = files(directory).map_err(ImportError::io(directory))?;
    for part in parts(directory) {
        all.extend(files(&part).map_err(ImportError::io(&part))?);
    }
    for path in all {
        is_run |= file(&path, &mut run)?;
    }
    match run.remarks.first() {
        // Nothing of it could be read.
        Some(damage) if !is_run && run.series.is_empty() => {
            Err(ImportError::malformed(directory, damage.clone()))
        }
        _ => Ok(Some(run).filter(|run| is_run || !run.series.is_empty())),
    }
}

/// The directories in which PyTorch's `SummaryWriter.add_hparams` keeps the parameters of a run:
/// below its own, named by a time in seconds.
fn parts(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut parts: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| is_part(path)).collect();
    parts.sort();
    parts
}

/// Whether a directory is a part of the run in the one above it, if there is one.
pub(super) fn is_part(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_moment = name.contains('.') && name.parse::<f64>().is_ok_and(|moment| moment > 1e9);
    is_moment && directory.is_dir() && !directory.is_symlink()
}

/// The event files of a directory.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<_> = fs::read_dir(directory)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(NAME)) && path.is_file()
    });
    files.sort();
    Ok(files)
}

/// When the run of a directory began, from its first events.
pub(super) fn began(directory: &Path) -> Option<Timestamp> {
    let (mut reader, mut events) = (EventReader::default(), Vec::new());
    let mut piece = Vec::new();
    let first = files(directory).ok()?.into_iter().next()?;
    File::open(first).ok()?.take(BEGINNING).read_to_end(&mut piece).ok()?;
    let _what_comes_before_counts = reader.read(&piece, &mut events);
    let mut run = RecordedRun::default();
    let plugins = events.iter().flat_map(|event| &event.hparams);
    for data in plugins {
        plugin(data, &mut run)?;
    }
    run.began.or_else(|| moment(events.first()?.wall_time))
}

/// Reads a file; returns whether the plugin marks it as a run's.
fn file(path: &Path, run: &mut RecordedRun) -> Result<bool, ImportError> {
    let mut file = File::open(path).map_err(ImportError::io(path))?;
    let (mut reader, mut events, mut is_run) = (EventReader::default(), Vec::new(), false);
    let mut piece = vec![0; PIECE];
    loop {
        let length = file.read(&mut piece).map_err(ImportError::io(path))?;
        if length == 0 {
            break;
        }
        let read = reader.read(&piece[..length], &mut events);
        for event in events.drain(..) {
            let at = moment(event.wall_time).unwrap_or_default();
            #[expect(clippy::cast_precision_loss, reason = "steps are far below 2^53")]
            let step = event.step as f64;
            for (tag, value) in event.scalars {
                let (metric, axis) = on_axis(&tag);
                run.log(metric, axis, RecordedPoint { step, value, at });
            }
            for data in event.hparams {
                is_run |= plugin(&data, run).unwrap_or_default();
            }
        }
        if let Err(broken) = read {
            let what = match broken {
                Broken::Checksum => "a checksum does not match",
                Broken::Event => "a record is not an event",
            };
            let path = path.display();
            run.remarks.push(format!("`{path}` is damaged, and read up to there: {what}"));
            return Ok(is_run);
        }
    }
    if reader.has_rest() {
        let path = path.display();
        run.remarks.push(format!("`{path}` ends within a record, and is read up to there"));
    }
    Ok(is_run)
}

/// `loss by epoch`, as hpsearch writes a metric that has several axes.
fn on_axis(tag: &str) -> (&str, SeriesAxis) {
    let parts = tag.rsplit_once(" by ");
    let known = parts.and_then(|(metric, axis)| Some((metric, SeriesAxis::from_word(axis)?)));
    known.unwrap_or((tag, SeriesAxis::Step))
}

/// Applies the plugin's data of a run; returns whether there is any. `None`: it is malformed.
fn plugin(data: &[u8], run: &mut RecordedRun) -> Option<bool> {
    let mut is_run = false;
    for field in Fields(data) {
        match field? {
            (3, Content::Bytes(start)) => {
                is_run = true;
                for field in Fields(start) {
                    match field? {
                        (1, Content::Bytes(entry)) => {
                            if let Some((name, value)) = parameter(entry)? {
                                run.params.insert(name, value);
                            }
                        }
                        (5, Content::Eight(bytes)) => run.began = moment(f64::from_le_bytes(bytes)),
                        _ => {}
                    }
                }
            }
            (4, Content::Bytes(end)) => {
                is_run = true;
                for field in Fields(end) {
                    match field? {
                        (1, Content::Varint(FAILURE)) => run.end = Some(RecordedEnd::Failed(None)),
                        (2, Content::Eight(bytes)) => run.ended = moment(f64::from_le_bytes(bytes)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(is_run)
}

/// An entry of the map of parameters; the inner `None`: its value is of an unknown kind.
fn parameter(entry: &[u8]) -> Option<Option<(String, Value)>> {
    let (mut name, mut value) = (String::new(), None);
    for field in Fields(entry) {
        match field? {
            (1, Content::Bytes(text)) => name = String::from_utf8_lossy(text).into_owned(),
            (2, Content::Bytes(content)) => {
                for field in Fields(content) {
                    value = match field? {
                        (1, Content::Varint(_)) => Some(Value::Null),
                        (2, Content::Eight(bytes)) => Some(number(f64::from_le_bytes(bytes))),
                        (3, Content::Bytes(text)) => {
                            Some(Value::Text(String::from_utf8_lossy(text).into_owned()))
                        }
                        (4, Content::Varint(flag)) => Some(Value::Bool(flag != 0)),
                        _ => None,
                    };
                }
            }
            _ => {}
        }
    }
    Some(value.filter(|_| !name.is_empty()).map(|value| (name, value)))
}

/// The format has one type of number: integral ones become integers.
fn number(number: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "an integer below 2^53")]
    if number.fract() == 0.0 && number.abs() < 9e15 {
        Value::Int(number as i64)
    } else if number.is_finite() {
        Value::Float(number)
    } else {
        Value::Text(number.to_string())
    }
}
