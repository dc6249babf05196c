//! An append-only file of a run, and a state file that records its content: after a crash the file
//! is truncated to the recorded length and continued.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::own_file::{self, replace};
use super::{Run, SyncError};
use crate::storage::StorageError;
use crate::study::series::{Point, SeriesAxis, SeriesSummary};
use crate::study::trial::TrialState;

/// The state file.
const STATE: &str = ".hpsearch.json";

/// The part of a series that is in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SeriesState {
    metric: String,
    #[serde(rename = "clock")]
    axis: SeriesAxis,
    count: u64,
    last: f64,
    /// The bits of its last value, which may be NaN.
    last_value: u64,
    /// The digest ([`sum`]) of its points.
    #[serde(default)]
    sum: u64,
}

/// An additive digest of points.
fn sum(points: &[Point]) -> u64 {
    let of = |point: &Point| {
        let parts = [point.step.to_bits(), point.value.to_bits(), point.at.0.cast_unsigned()];
        parts.into_iter().fold(0, |hash: u64, part| {
            // The finaliser of MurmurHash3.
            let mut hash = hash.rotate_left(23) ^ part;
            for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
                hash = (hash ^ hash >> 33).wrapping_mul(factor);
            }
            hash ^ hash >> 33
        })
    };
    points.iter().map(of).fold(0, u64::wrapping_add)
}

/// The recorded content of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunFileState {
    /// Attempts of the run so far: points of earlier ones may be superseded.
    attempts: u32,
    /// How often the file was restarted.
    pub generation: u32,
    /// Its length.
    bytes: u64,
    series: Vec<SeriesState>,
    /// The last state written.
    pub ended: Option<TrialState>,
    /// Records in it, where a format counts them.
    #[serde(default)]
    pub records: u64,
    /// The last step, where a format has one for all metrics.
    #[serde(default)]
    pub step: Option<i64>,
}

/// The part of a run that is not in its file.
pub(super) struct Rest<'a> {
    /// The file's content; without bytes, a new file is started.
    pub state: RunFileState,
    /// Points by series.
    pub points: Vec<(&'a SeriesSummary, Vec<Point>)>,
    /// Whether the end of the run is to be written.
    pub is_end: bool,
}

impl RunFileState {
    /// Whether anything was written.
    #[cfg(feature = "mlflow")]
    pub fn is_begun(&self) -> bool {
        self.attempts > 0
    }

    /// The number of points written.
    #[cfg(feature = "mlflow")]
    pub fn points(&self) -> u64 {
        self.series.iter().map(|series| series.count).sum()
    }

    /// Updates the state after a write.
    pub fn take(&mut self, run: &Run<'_>, rest: &Rest<'_>) {
        if rest.is_end {
            self.ended = (!run.is_open()).then_some(run.trial.state);
        }
        for (series, points) in &rest.points {
            let Some(last) = points.last() else { continue };
            let known = self
                .series
                .iter_mut()
                .find(|known| known.metric == series.metric && known.axis == series.axis);
            let (count, last_value) = (points.len() as u64, last.value.to_bits());
            match known {
                Some(known) => {
                    known.count += count;
                    known.sum = known.sum.wrapping_add(sum(points));
                    (known.last, known.last_value) = (last.step, last_value);
                }
                None => self.series.push(SeriesState {
                    metric: series.metric.clone(),
                    axis: series.axis,
                    count,
                    last: last.step,
                    last_value,
                    sum: sum(points),
                }),
            }
        }
    }
}

impl Rest<'_> {
    /// Whether the file is to be started.
    pub fn is_new(&self) -> bool {
        self.state.bytes == 0
    }

    /// The offset to append at.
    pub fn bytes(&self) -> u64 {
        self.state.bytes
    }

    /// The number of points.
    pub fn count(&self) -> u64 {
        self.points.iter().map(|(_, points)| points.len() as u64).sum()
    }
}

/// The part of `run` that the file in `directory` lacks; `None`: nothing. `name` gives the file's
/// name by generation.
///
/// # Errors
/// The store failed, or the file cannot be accessed.
pub(super) fn rest<'a>(
    run: &'a Run<'_>,
    directory: &Path,
    name: impl Fn(u32) -> String,
) -> Result<Option<Rest<'a>>, SyncError> {
    let state = own_file::read(&directory.join(STATE))?;
    let known: Option<RunFileState> = state.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    if let Some(known) = &known {
        let there = fs::symlink_metadata(directory.join(name(known.generation)));
        let is_whole = there.is_ok_and(|there| there.is_file() && there.len() >= known.bytes);
        if is_whole && let Some(rest) = continued(run, known)? {
            let nothing = rest.count() == 0 && !rest.is_end;
            return Ok(Some(rest).filter(|_| !nothing));
        }
    }
    Ok(Some(anew(run, known.map_or(0, |known| known.generation + 1))?))
}

/// The whole run, for a new file.
pub(super) fn anew<'a>(run: &'a Run<'_>, generation: u32) -> Result<Rest<'a>, StorageError> {
    let state =
        RunFileState { attempts: run.trial.attempts, generation, ..RunFileState::default() };
    let points = |series| Ok((series, run.points(series, f64::NEG_INFINITY)?));
    let points = run.series.iter().map(points).collect::<Result<_, StorageError>>()?;
    Ok(Rest { state, points, is_end: !run.is_open() })
}

/// What is new since; `None` if the file is outdated.
pub(super) fn continued<'a>(
    run: &'a Run<'_>,
    known: &RunFileState,
) -> Result<Option<Rest<'a>>, StorageError> {
    let ended = (!run.is_open()).then_some(run.trial.state);
    // An end that was written cannot be withdrawn.
    let is_end = known.ended != ended;
    if known.attempts != run.trial.attempts || (is_end && known.ended.is_some()) {
        return Ok(None);
    }
    let mut all = Vec::new();
    for state in &known.series {
        let same =
            |series: &&SeriesSummary| series.metric == state.metric && series.axis == state.axis;
        if !run.series.iter().any(|series| same(&series)) {
            return Ok(None);
        }
    }
    for series in &run.series {
        let state = known
            .series
            .iter()
            .find(|state| state.metric == series.metric && state.axis == series.axis);
        let Some(state) = state else {
            all.push((series, run.points(series, f64::NEG_INFINITY)?));
            continue;
        };
        // Earlier points may have been replaced, which is checked at the end.
        if is_end && ended.is_some() {
            let all = run.points(series, f64::NEG_INFINITY)?;
            let there = all.partition_point(|point| point.step <= state.last);
            if sum(&all[..there]) != state.sum {
                return Ok(None);
            }
        }
        let is_same_value = series.last_value.to_bits() == state.last_value;
        if series.count == state.count && series.last == state.last && is_same_value {
            continue;
        }
        // From the last one written, to check that it is unchanged.
        let mut points = run.points(series, state.last)?;
        let fits = points.first().is_some_and(|point| {
            point.step == state.last && point.value.to_bits() == state.last_value
        });
        if !fits || state.count + points.len() as u64 - 1 < series.count {
            return Ok(None);
        }
        points.remove(0);
        all.push((series, points));
    }
    Ok(Some(Rest { state: known.clone(), points: all, is_end }))
}

/// Appends to the run's file, which begins with `prefix`, updates the state file, and removes the
/// file of the previous generation.
///
/// # Errors
/// A file cannot be written; the next call writes the same again.
pub(super) fn append(
    run: &Run<'_>,
    directory: &Path,
    rest: &Rest<'_>,
    (name, prefix): (impl Fn(u32) -> String, &[u8]),
    write: impl FnOnce(&mut RunFileState, &mut Out) -> io::Result<()>,
) -> Result<(), SyncError> {
    let path = directory.join(name(rest.state.generation));
    let file = own_file::open(&path, prefix)?;
    let before = rest.state.generation.checked_sub(1).map(|before| directory.join(name(before)));
    if rest.is_new() && before.as_ref() == Some(&path) {
        // The file is overwritten: until that is done, no content is recorded.
        own_file::remove(&directory.join(STATE), &[])?;
    }
    let mut state = rest.state.clone();
    state.bytes = written(file, rest.state.bytes, |out| write(&mut state, out))
        .map_err(SyncError::io(&path))?;
    state.take(run, rest);
    let json = serde_json::to_vec(&state)
        .map_err(|error| SyncError::Io { path: directory.join(STATE), source: error.into() })?;
    if let Some(before) = before.filter(|before| *before != path) {
        own_file::remove(&before, prefix)?;
    }
    replace(&directory.join(STATE), &json)
}

/// Where a file is written.
pub(super) type Out = BufWriter<File>;

/// Truncates the file at `from` and appends; returns its length.
fn written(
    mut file: File,
    from: u64,
    write: impl FnOnce(&mut Out) -> io::Result<()>,
) -> io::Result<u64> {
    file.set_len(from)?;
    file.seek(SeekFrom::End(0))?;
    let mut out = BufWriter::with_capacity(1 << 16, file);
    write(&mut out)?;
    out.flush()?;
    out.stream_position()
}
