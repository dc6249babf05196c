//! The attempt of a child: its log, the metrics in it, and remarks about its lines.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::engine::Input;
use crate::runner::failure_cause::StderrTail;
use crate::runner::metric_files::MetricFileItem;
use crate::runner::point_queue::PointQueue;
use crate::runner::processes;
use crate::runner::protocol::{PREFIX, RANK_PREFIX, StepCounter};
use crate::storage::sqlite;
use crate::study::event::AttemptEnd;
use crate::study::metric::Metrics;
use crate::study::printed_metrics::{LineReports, PrintedMetrics, not_what};
use crate::study::remark::{Remark, RemarkKind, Reports, without_metric};
use crate::study::series::SeriesAxis;
use crate::study::step::StepUnit;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Size limit of a log; of the rest, the end is kept, which the log says.
const LOG_LIMIT: u64 = 64 << 20;

/// Bytes at the end of a longer log that are kept.
const LOG_END: usize = 1 << 20;

/// How an attempt ended, and one sentence about it.
pub(super) type End = (AttemptEnd, Option<String>);

/// The stream of a line.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Output,
    Errors,
}

/// The attempt to which a child's output belongs.
pub(super) struct Current {
    pub expected: Expected,
    pub log: AttemptLog,
    pub stderr_tail: StderrTail,
    remarks: Remarks,
    logged: Logged,
    pub end: Option<End>,
    /// Whether it did not read that it is to pause.
    pub is_unheard: bool,
    /// Why nothing could be started, if its supervisor's child says so.
    pub not_started: Option<End>,
    /// The kernel's count of out-of-memory kills when it began.
    pub memory_kills: Option<u64>,
}

/// The attempt expected from a child.
#[derive(Clone, Debug)]
pub(in crate::runner) struct Expected {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Number of the trial's attempt, from 0.
    pub attempt: AttemptNumber,
    /// Base of its relative paths.
    pub cwd: PathBuf,
    /// Counts its steps, from the checkpoint from which the attempt continues.
    pub step_counter: StepCounter,
    /// Whether it continues from a checkpoint.
    pub is_resumed: bool,
    /// The study's metric.
    pub metric: String,
    /// The metrics whose lines are reports, including the study's.
    pub reported: Arc<[String]>,
    /// Extracts metrics from its log: from standard output, and from standard error. Each counts
    /// its own steps, since the order of lines between the two is unknown.
    pub printed: Option<[PrintedMetrics; 2]>,
    /// Whether a process per device writes it: then its supervisor knows which of them failed, and
    /// lines of other ranks than the first are only log.
    pub per_device: bool,
}

impl Current {
    /// Begins the log of an attempt.
    pub fn new(expected: Expected, log: &Path) -> io::Result<Self> {
        Ok(Current {
            expected,
            log: AttemptLog::open(log)?,
            stderr_tail: StderrTail::default(),
            remarks: Remarks::default(),
            logged: Logged::default(),
            end: None,
            is_unheard: false,
            not_started: None,
            memory_kills: processes::memory_kills(),
        })
    }

    /// Writes a remark into the log.
    fn note(&mut self, remark: &Remark) {
        let why = &remark.why;
        let line = match remark.kind {
            RemarkKind::Repeated
            | RemarkKind::WentBack
            | RemarkKind::Cut
            | RemarkKind::Uncopied
            | RemarkKind::Superseded => {
                format!("[hpsearch] {why}\n")
            }
            RemarkKind::Pattern
            | RemarkKind::MetricFile
            | RemarkKind::StartedOver
            | RemarkKind::WentBackTo => {
                format!("[hpsearch] {}\n", remark.text())
            }
            RemarkKind::Misplaced | RemarkKind::StandardError | RemarkKind::TooLong => {
                format!("[hpsearch] the line above was ignored: {why}\n")
            }
            _ => format!("[hpsearch] the line above was not understood: {why}\n"),
        };
        self.log.write(line.as_bytes());
    }

    /// The same for the first of each kind; returns whether it was.
    pub fn note_once(&mut self, remark: &Remark) -> bool {
        let is_first = self.remarks.noted.insert(remark.kind);
        if is_first {
            self.note(remark);
        }
        is_first
    }

    /// Logs a line that was meant for the runner but contains no message.
    pub fn misread(&mut self, line: &[u8], remarks: Vec<Remark>) -> Vec<Input> {
        let Some(last) = remarks.last() else { return Vec::new() };
        self.log.write(line);
        if !line.ends_with(b"\n") {
            self.log.write(b"\n");
        }
        remarks.iter().for_each(|remark| self.note(remark));
        self.remarks.misread += 1;
        last.why.clone_into(&mut self.remarks.why);
        remarks.into_iter().map(|remark| self.remark(remark)).collect()
    }

    /// The reports, points and remarks that the study's patterns extract from a line of the log.
    pub fn print(&mut self, stream: Stream, line: &[u8], points: &PointQueue) -> Vec<Input> {
        if self.expected.per_device && line.starts_with(RANK_PREFIX.as_bytes()) {
            return Vec::new();
        }
        let Some(printed) = &mut self.expected.printed else { return Vec::new() };
        let LineReports { reports, points: other, not_numbers } =
            printed[stream as usize].read(line);
        let mut inputs = self.printed(reports, points);
        for (axis, step, metrics) in other {
            inputs.extend(self.log_points(axis, Some(step), metrics, points));
        }
        if let Some((name, text)) = not_numbers.first() {
            let why = format!("a pattern finds `{text}` for `{name}`, which is {}", not_what(text));
            inputs.extend(self.remark_once(Remark::new(RemarkKind::Pattern, why)));
        }
        inputs
    }

    /// The same at its end, and remarks on patterns that never matched.
    pub fn print_end(&mut self, points: &PointQueue) -> Vec<Input> {
        let Some(printed) = &mut self.expected.printed else { return Vec::new() };
        let ended_itself = matches!(self.end, Some((AttemptEnd::Completed, _)));
        let [output, errors] = printed;
        let unmatched = output.unmatched().find(|index| errors.unmatched().any(|of| of == *index));
        let unmatched = unmatched.filter(|_| ended_itself);
        let last: Vec<_> = [output.end(), errors.end()].into_iter().flatten().collect();
        let mut inputs = self.printed(last, points);
        if let Some(index) = unmatched {
            let why = format!("pattern {} matches no line of this trial", index + 1);
            inputs.extend(self.remark_once(Remark::new(RemarkKind::Pattern, why)));
        }
        inputs
    }

    /// Metrics and remarks from the files that the program writes.
    pub fn take_found(&mut self, found: MetricFileItem, points: &PointQueue) -> Vec<Input> {
        match found {
            MetricFileItem::Report { step, metrics } => self.printed(vec![(step, metrics)], points),
            MetricFileItem::Remark(why) => {
                self.remark_once(Remark::new(RemarkKind::MetricFile, why)).into_iter().collect()
            }
        }
    }

    /// Remarks on files without metrics, if the program ended by itself.
    pub fn remark_empty(&mut self, whys: Vec<String>, points: &PointQueue) -> Vec<Input> {
        let ended_itself = matches!(self.end, Some((AttemptEnd::Completed, _)));
        let whys = whys.into_iter().filter(|_| ended_itself);
        whys.flat_map(|why| self.take_found(MetricFileItem::Remark(why), points)).collect()
    }

    /// Metrics at steps of the study's unit, from patterns or files.
    fn printed(&mut self, found: Vec<(u64, Metrics)>, points: &PointQueue) -> Vec<Input> {
        let axis = SeriesAxis::from(self.expected.step_counter.unit);
        let mut inputs = Vec::new();
        for (step, metrics) in found {
            if self.is_report(&metrics) {
                inputs.push(self.report(step, metrics, points));
            } else {
                #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
                let step = step as f64;
                inputs.extend(self.log_points(axis, Some(step), metrics, points));
            }
        }
        inputs
    }

    fn is_report(&self, metrics: &Metrics) -> bool {
        self.expected.reported.iter().any(|name| metrics.get(name).is_some())
    }

    /// Queues points. Those at the step reported last are added to the report; those of a step that
    /// is reported later are sent with it.
    pub fn log_points(
        &mut self,
        axis: SeriesAxis,
        step: Option<f64>,
        metrics: Metrics,
        points: &PointQueue,
    ) -> Option<Input> {
        let Expected { trial, attempt, step_counter, is_resumed, .. } = self.expected;
        self.logged.note(&metrics);
        // In reports, `step` is the study's step.
        let own = SeriesAxis::from(step_counter.unit);
        let is_own = axis == SeriesAxis::Step || axis == own;
        let Some(step) = step else {
            for (name, value) in metrics.0 {
                // Only the store knows what an attempt counted that this one continues.
                let step = (!is_resumed).then(|| self.logged.count(&name));
                points.log((trial, attempt), axis, step, [(name, value)].into_iter().collect());
            }
            return None;
        };
        if axis == SeriesAxis::Step {
            self.logged.reach(step, &metrics);
        }
        if !is_own {
            points.log((trial, attempt), axis, Some(step), metrics);
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        if self.remarks.reports.last_step().is_some_and(|last| last as f64 == step) {
            let last = self.remarks.reports.last_step()?;
            return Some(self.report(last, metrics, points));
        }
        self.logged.hold(step, &metrics);
        points.log((trial, attempt), axis, Some(step), metrics);
        None
    }

    /// A report; remarks about it go to the log, and the engine makes the same ones.
    pub fn report(&mut self, step: u64, metrics: Metrics, points: &PointQueue) -> Input {
        let Expected { trial, attempt, step_counter, .. } = self.expected;
        let metrics = self.logged.merged_report(step, metrics);
        let axis = SeriesAxis::from(step_counter.unit);
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let at = step as f64;
        points.report((trial, attempt), axis, at, &metrics);
        if axis == SeriesAxis::Step {
            self.logged.reach(at, &metrics);
        }
        if let (_, Some(remark)) =
            self.remarks.reports.take(step_counter.unit, step, metrics.clone())
        {
            self.note_once(&remark);
        }
        Input::Report { trial, attempt, step, metrics }
    }

    pub fn remark_once(&mut self, remark: Remark) -> Option<Input> {
        self.note_once(&remark).then(|| self.remark(remark))
    }

    pub fn remark(&self, remark: Remark) -> Input {
        Input::Remark { trial: self.expected.trial, attempt: self.expected.attempt, remark }
    }

    /// The message at its end if it has no value: unintelligible lines, or other metrics than the
    /// study's.
    pub fn remark_at_end(&self) -> Option<String> {
        self.misread_at_end().or_else(|| {
            let Expected { metric, step_counter, .. } = &self.expected;
            let is_reported = self.remarks.reports.last_step().is_some();
            self.logged.without(metric, step_counter.unit).filter(|_| !is_reported)
        })
    }

    fn misread_at_end(&self) -> Option<String> {
        let Remarks { misread, why, .. } = &self.remarks;
        let lines = if *misread == 1 { "a line".to_owned() } else { format!("{misread} lines") };
        let prefix = PREFIX.trim_end();
        (*misread > 0).then(|| {
            format!("{lines} after `{prefix}` could not be understood, the last because {why}")
        })
    }
}

/// Points of an attempt that were logged but not reported.
#[derive(Default)]
struct Logged {
    /// The names of its first metrics.
    names: BTreeSet<String>,
    /// Metrics of a step that may still be reported.
    held: Option<(f64, Metrics)>,
    /// The largest step of each metric, reports included, on the axis `step`.
    reached: BTreeMap<String, f64>,
}

/// Maximum number of metrics' names in a message.
const NAMES: usize = 8;

impl Logged {
    fn note(&mut self, metrics: &Metrics) {
        if self.names.len() < NAMES {
            let new = metrics.iter().map(|(name, _)| name);
            self.names.extend(new.take(NAMES).map(str::to_owned));
        }
    }

    /// The step of a point that comes without one.
    fn count(&mut self, name: &str) -> f64 {
        let step = self.reached.get(name).map_or(1.0, |last| last + 1.0);
        self.reach_by(name, step);
        step
    }

    fn reach(&mut self, step: f64, metrics: &Metrics) {
        metrics.iter().for_each(|(name, _)| self.reach_by(name, step));
    }

    fn reach_by(&mut self, name: &str, step: f64) {
        match self.reached.get_mut(name) {
            Some(last) => *last = last.max(step),
            None => drop(self.reached.insert(name.to_owned(), step)),
        }
    }

    fn hold(&mut self, step: f64, metrics: &Metrics) {
        match &mut self.held {
            Some((at, held)) if *at == step => {
                held.0.extend(metrics.iter().map(|(name, value)| (name.to_owned(), value)))
            }
            held => *held = Some((step, metrics.clone())),
        }
    }

    /// A report merged with points logged before at its step.
    fn merged_report(&mut self, step: u64, metrics: Metrics) -> Metrics {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let held = self.held.take().filter(|(at, _)| *at == step as f64);
        let Some((_, mut held)) = held else { return metrics };
        held.0.extend(metrics.0);
        held
    }

    /// One sentence about metrics that lack the study's, or are on another axis than its steps.
    fn without(&self, metric: &str, step_unit: StepUnit) -> Option<String> {
        let others: Vec<&str> =
            self.names.iter().map(String::as_str).filter(|name| *name != metric).collect();
        if self.names.contains(metric) {
            let step_unit = step_unit.as_str();
            return Some(format!(
                "it logged `{metric}` on another axis than the study's, which is `{step_unit}`: \
                 print `{step_unit}` beside it, or set `step` in [study]"
            ));
        }
        (!others.is_empty()).then(|| without_metric(&others, metric))
    }
}

/// Remarks about an attempt's lines.
#[derive(Default)]
struct Remarks {
    reports: Reports,
    /// Kinds that the log contains.
    noted: BTreeSet<RemarkKind>,
    /// Number of unintelligible lines, and what is wrong with the last.
    misread: u64,
    why: String,
}

/// The log of an attempt.
pub(super) struct AttemptLog {
    file: File,
    written: u64,
    /// The last bytes beyond the limit, written when the attempt ends: tracebacks are there.
    end: VecDeque<u8>,
    left_out: u64,
}

impl AttemptLog {
    /// Begins the log: an existing one is of an attempt that the store forgot (lost in a power
    /// failure, or deleted).
    fn open(path: &Path) -> io::Result<Self> {
        if sqlite::is_open_here(path) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "it belongs to the store that is in use",
            ));
        }
        // Not written to: it may be a link, or a pipe without a reader.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // An agent appends what other nodes print.
        let file = File::options().append(true).create_new(true).open(path)?;
        Ok(AttemptLog { file, written: 0, end: VecDeque::new(), left_out: 0 })
    }

    /// Appends; a log that cannot be written (a full disk) does not stop a trial.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.written >= LOG_LIMIT {
            self.end.extend(bytes);
            let beyond = self.end.len().saturating_sub(LOG_END);
            self.end.drain(..beyond);
            self.left_out += beyond as u64;
            return;
        }
        self.written += bytes.len() as u64;
        let _disk_full = self.file.write_all(bytes);
        if self.written >= LOG_LIMIT {
            let _disk_full = self.file.write_all(
                b"\n[hpsearch] this log reached 64 MiB; of the rest, the last 1 MiB is kept when \
                  the attempt ends\n",
            );
        }
    }

    /// Appends the end of a log beyond the limit, in whole lines if something before it is left
    /// out.
    pub fn write_end(&mut self) {
        let mut end = Vec::from(std::mem::take(&mut self.end));
        let mut left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let line_end = end.iter().position(|byte| *byte == b'\n');
            let partial = line_end.map_or(0, |at| at + 1);
            end.drain(..partial);
            left_out += partial as u64;
            let note = format!("[hpsearch] {left_out} bytes are left out here\n");
            let _disk_full = self.file.write_all(note.as_bytes());
        }
        let _disk_full = self.file.write_all(&end);
    }
}
