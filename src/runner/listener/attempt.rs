//! An attempt that a child carries out: its log, the metrics in it, and what is odd about its
//! lines.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::engine::Input;
use crate::runner::failure_cause::StderrTail;
use crate::runner::metric_files::Found;
use crate::runner::processes;
use crate::runner::protocol::{Clock, PREFIX};
use crate::storage::sqlite;
use crate::study::event::AttemptEnd;
use crate::study::metric::Metrics;
use crate::study::printed_metrics::{LineReports, PrintedMetrics};
use crate::study::remark::{Remark, RemarkKind, Reports};
use crate::study::trial::{AttemptNumber, TrialNumber};

/// A log grows to this size; what comes after is dropped, and said to be.
const LOG_LIMIT: u64 = 64 << 20;

/// How an attempt ended, and one sentence about it.
pub(super) type End = (AttemptEnd, Option<String>);

/// Where a line was printed.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Output,
    Errors,
}

/// The attempt whose words a child's are.
pub(super) struct Current {
    pub expected: Expected,
    pub log: AttemptLog,
    pub stderr_tail: StderrTail,
    remarks: Remarks,
    pub end: Option<End>,
    /// Why there was nothing to start, where its command's place says so.
    pub not_started: Option<End>,
    /// How many processes the kernel had killed for want of memory when it began.
    pub memory_kills: Option<u64>,
}

/// Whose words a child's are.
#[derive(Clone, Debug)]
pub(in crate::runner) struct Expected {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Number of the trial's attempt, from 0.
    pub attempt: AttemptNumber,
    /// Where its relative paths begin.
    pub cwd: PathBuf,
    /// The study's clock, at the checkpoint that the attempt continues from.
    pub clock: Clock,
    /// Reads the metrics in its log: on standard output, and on standard error. Each has steps of
    /// its own, since nobody knows which line of the two came first.
    pub printed: Option<[PrintedMetrics; 2]>,
}

impl Current {
    /// Begins the log of an attempt.
    pub fn new(expected: Expected, log: &Path) -> io::Result<Self> {
        Ok(Current {
            expected,
            log: AttemptLog::open(log)?,
            stderr_tail: StderrTail::default(),
            remarks: Remarks::default(),
            end: None,
            not_started: None,
            memory_kills: processes::memory_kills(),
        })
    }

    /// Notes in the log what is odd about what stands there.
    fn note(&mut self, remark: &Remark) {
        let why = &remark.why;
        let line = match remark.kind {
            RemarkKind::Repeated
            | RemarkKind::WentBack
            | RemarkKind::Uncopied
            | RemarkKind::Superseded => {
                format!("[hpsearch] {why}\n")
            }
            RemarkKind::Pattern | RemarkKind::MetricFile => {
                format!("[hpsearch] {}\n", remark.text())
            }
            RemarkKind::Misplaced | RemarkKind::StandardError | RemarkKind::TooLong => {
                format!("[hpsearch] the line above was not taken: {why}\n")
            }
            _ => format!("[hpsearch] the line above was not understood: {why}\n"),
        };
        self.log.write(line.as_bytes());
    }

    /// The same, the first time for each kind; whether it was that.
    pub fn note_once(&mut self, remark: &Remark) -> bool {
        let is_first = self.remarks.noted.insert(remark.kind);
        if is_first {
            self.note(remark);
        }
        is_first
    }

    /// Notes a line that was meant for the runner, and what of it is none of its words.
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

    /// The reports that the patterns of the study find in a line of the log, and what they make of
    /// them.
    pub fn print(&mut self, stream: Stream, line: &[u8]) -> Vec<Input> {
        let Some(printed) = &mut self.expected.printed else { return Vec::new() };
        let LineReports { reports, not_numbers } = printed[stream as usize].read(line);
        let mut inputs: Vec<_> =
            reports.into_iter().map(|(step, metrics)| self.report(step, metrics)).collect();
        if let Some((name, text)) = not_numbers.first() {
            let why = format!("a pattern finds `{text}` for `{name}`, which is not a number");
            inputs.extend(self.remark_once(Remark::new(RemarkKind::Pattern, why)));
        }
        inputs
    }

    /// The same at its end, and which patterns never found anything.
    pub fn print_end(&mut self) -> Vec<Input> {
        let Some(printed) = &mut self.expected.printed else { return Vec::new() };
        let ended_itself = matches!(self.end, Some((AttemptEnd::Completed, _)));
        let [output, errors] = printed;
        let unmatched = output.unmatched().find(|index| errors.unmatched().any(|of| of == *index));
        let unmatched = unmatched.filter(|_| ended_itself);
        let last: Vec<_> = [output.end(), errors.end()].into_iter().flatten().collect();
        let mut inputs: Vec<_> =
            last.into_iter().map(|(step, metrics)| self.report(step, metrics)).collect();
        if let Some(index) = unmatched {
            let why = format!("pattern {} matches no line of this trial", index + 1);
            inputs.extend(self.remark_once(Remark::new(RemarkKind::Pattern, why)));
        }
        inputs
    }

    /// What was found in the files that the program writes.
    pub fn take_found(&mut self, found: Found) -> Option<Input> {
        match found {
            Found::Report { step, metrics } => Some(self.report(step, metrics)),
            Found::Remark(why) => self.remark_once(Remark::new(RemarkKind::MetricFile, why)),
        }
    }

    /// In which of these files nothing was found, if the program ended by itself.
    pub fn take_emptiness(&mut self, whys: Vec<String>) -> Vec<Input> {
        let ended_itself = matches!(self.end, Some((AttemptEnd::Completed, _)));
        let whys = whys.into_iter().filter(|_| ended_itself);
        whys.filter_map(|why| self.take_found(Found::Remark(why))).collect()
    }

    /// A report; what is odd about it stands in the log, and the engine makes the same remark.
    pub fn report(&mut self, step: u64, metrics: Metrics) -> Input {
        let Expected { trial, attempt, clock, .. } = self.expected;
        if let (_, Some(remark)) = self.remarks.reports.take(clock.unit, step, metrics.clone()) {
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

    /// What its end should say of lines that could not be understood.
    pub fn misread_at_end(&self) -> Option<String> {
        let Remarks { misread, why, .. } = &self.remarks;
        let lines = if *misread == 1 { "a line".to_owned() } else { format!("{misread} lines") };
        let prefix = PREFIX.trim_end();
        (*misread > 0).then(|| {
            format!("{lines} after `{prefix}` could not be understood, the last because {why}")
        })
    }
}

/// What is odd about an attempt's lines.
#[derive(Default)]
struct Remarks {
    reports: Reports,
    /// Of these the log has one each.
    noted: BTreeSet<RemarkKind>,
    /// Lines that were not understood, and why the last of them was not.
    misread: u64,
    why: String,
}

/// What an attempt printed.
pub(super) struct AttemptLog {
    file: File,
    written: u64,
}

impl AttemptLog {
    /// An attempt has one log, and begins it: what is there already was printed by one that the
    /// store forgot (its last moments went with the machine's power, or it was deleted).
    fn open(path: &Path) -> io::Result<Self> {
        if sqlite::is_open_here(path) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "it belongs to the store that is in use",
            ));
        }
        // Not written to: a link leads elsewhere, a pipe waits for a reader.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(AttemptLog { file: File::create_new(path)?, written: 0 })
    }

    /// Appends; a log that cannot be written (a full disk) does not stop a trial.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.written >= LOG_LIMIT {
            return;
        }
        self.written += bytes.len() as u64;
        let _disk_full = self.file.write_all(bytes);
        if self.written >= LOG_LIMIT {
            let _disk_full = self
                .file
                .write_all(b"\n[hpsearch] this log reached 64 MiB; the rest is not kept\n");
        }
    }
}
