//! Converts the lines of a spool to events and points of its run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use super::Notice;
use crate::runner;
use crate::runner::artifacts::{self, Kept, Places};
use crate::runner::protocol::{MessageToRunner, PREFIX, Reported, Spoken, StepCounter};
use crate::study::artifact::NewArtifact;
use crate::study::event::{AttemptEvent, CheckpointEvent, EntryEvent, RecordEvent, TrialEvent};
use crate::study::metric::Metrics;
use crate::study::params::{Params, Value};
use crate::study::series::{LoggedPoint, LoggedSeries, SeriesAxis, SeriesSummary};
use crate::study::spec::FailureCause;
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::tracking::spool::{Header, Spool, SpoolLine};
use crate::tracking::{Run, RunEnd};

/// Converts lines to events of the run.
pub(super) struct Lines<'a> {
    run: &'a Run,
    spool: String,
    /// The time of the last line: those of later ones are not before it.
    last: Timestamp,
    /// The study's metric: a line that contains it is a report.
    metric: String,
    /// Points besides reports.
    points: BTreeMap<(SeriesAxis, String), Vec<LoggedPoint>>,
    cwd: PathBuf,
    places: Places,
    step_counter: StepCounter,
    /// Files of lines whose events are not written yet.
    spent: Vec<PathBuf>,
    /// The largest step of each metric, reports included, on the axis `step`.
    reached: BTreeMap<String, f64>,
    pub say: &'a mut dyn FnMut(Notice),
}

impl<'a> Lines<'a> {
    /// Lines of `run`, which has these series, and whose last report is of step `last`; its
    /// artifacts are kept in `copies`.
    pub fn new(
        run: &'a Run,
        (spool, header): (&Spool, &Header),
        (last, series): (u64, Vec<SeriesSummary>),
        copies: PathBuf,
        say: &'a mut dyn FnMut(Notice),
    ) -> Self {
        let cwd = header.cwd.clone().unwrap_or_default();
        Lines {
            run,
            spool: spool.name(),
            last: run.heard(),
            metric: run.study().spec.objective().metric.clone(),
            points: BTreeMap::new(),
            places: Places { looked_for: vec![spool.directory().to_owned(), cwd.clone()], copies },
            cwd,
            spent: Vec::new(),
            step_counter: StepCounter::after(StepUnit::Step, last),
            reached: series
                .into_iter()
                .filter(|series| series.axis == SeriesAxis::Step)
                .map(|series| (series.metric, series.last))
                .collect(),
            say,
        }
    }

    /// The events of these lines with their times and the offset read; the end of the run, which
    /// counts as read only once written; and the offset of the next lines, if any.
    pub fn events(
        &mut self,
        lines: Vec<(SpoolLine, u64)>,
    ) -> (Vec<(Timestamp, TrialEvent)>, Option<RunEnd>, Option<u64>) {
        let (mut events, mut end, mut next) = (Vec::new(), None, None);
        for (line, after) in lines {
            match line {
                SpoolLine::Record { record, time } => {
                    let (at, mut of_line) = (self.time_of(time), Vec::new());
                    self.record(record, at, &mut of_line);
                    events.extend(of_line.into_iter().map(|event| (at, event)));
                }
                SpoolLine::Finish { status, message, time } => {
                    self.time_of(time);
                    end = Some(end_of(&status, message));
                    break;
                }
                SpoolLine::Unknown => (self.say)(Notice::Note(format!(
                    "a line of the spool `{}` is damaged, and skipped",
                    self.spool
                ))),
            }
            next = Some(after);
        }
        if let Some(offset) = next {
            // The time of the writer, by which `written` finds it again.
            let read = RecordEvent::SpoolRead { spool: self.spool.clone(), offset };
            events.push((self.run.clock().now(), TrialEvent::Record(read)));
        }
        (events, end, next)
    }

    /// The time of the last line.
    pub fn last(&self) -> Timestamp {
        self.last
    }

    /// The time of the next line in the run. The program's clock may be set back or forward.
    fn time_of(&mut self, time: Option<i64>) -> Timestamp {
        let time = time.map_or_else(runner::now, Timestamp);
        self.last = self.run.of_program(time).max(self.last);
        self.last
    }

    fn record(
        &mut self,
        mut record: Map<String, Json>,
        at: Timestamp,
        events: &mut Vec<TrialEvent>,
    ) {
        if let Some(Json::Object(more)) = record.remove("params") {
            events.push(TrialEvent::Record(RecordEvent::ParamsRecorded { params: params(&more) }));
        }
        if let Some(Json::Object(summary)) = record.remove("summary") {
            let summary = summary.into_iter().collect();
            events.push(TrialEvent::Record(RecordEvent::SummaryRecorded { summary }));
        }
        if record.is_empty() {
            return;
        }
        self.count_report_from(&record);
        let said = format!("{PREFIX}{}", Json::Object(record));
        let (taken, remarks) = match Spoken::read(
            said.as_bytes(),
            &mut self.step_counter,
            Reported::With(std::slice::from_ref(&self.metric)),
        ) {
            Spoken::Message(taken, remarks) => (taken, remarks),
            Spoken::Missed(remark) => (Vec::new(), vec![remark]),
            Spoken::Log => (Vec::new(), Vec::new()),
        };
        for message in taken {
            match message {
                MessageToRunner::Report { step, metrics } => {
                    self.report(step, &metrics, at);
                    events.push(TrialEvent::Attempt(AttemptEvent::reported(
                        self.run.attempt(),
                        step,
                        metrics,
                    )));
                }
                MessageToRunner::Points { axis, step, metrics } => {
                    for (metric, value) in metrics.0 {
                        let step = match axis {
                            SeriesAxis::Step => Some(self.reach(&metric, step)),
                            _ => step,
                        };
                        let point = LoggedPoint { step, value, at };
                        self.points.entry((axis, metric)).or_default().push(point);
                    }
                }
                MessageToRunner::Checkpoint { path, step } => self.checkpoint(path, step, events),
                MessageToRunner::Artifact { artifact } => self.keep(artifact, events),
                MessageToRunner::Tags { tags } => events.extend(
                    tags.into_iter()
                        .map(|tag| TrialEvent::Entry(EntryEvent::Tagged { tag, present: true })),
                ),
                MessageToRunner::StartsOver { .. }
                | MessageToRunner::Peak { .. }
                | MessageToRunner::Unheard {}
                | MessageToRunner::End { .. }
                | MessageToRunner::Params { .. }
                | MessageToRunner::Summary { .. }
                | MessageToRunner::Exit { .. }
                | MessageToRunner::Answer { .. }
                | MessageToRunner::Text { .. }
                | MessageToRunner::At { .. } => {}
            }
        }
        for remark in remarks {
            self.note(remark.why);
        }
    }

    /// A report without a step is one past what its metrics have reached.
    fn count_report_from(&mut self, record: &Map<String, Json>) {
        if !record.contains_key(&self.metric) {
            return;
        }
        let reached = record.keys().filter_map(|name| self.reached.get(name));
        let reached = reached.copied().fold(0.0, f64::max);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates; a step is not negative"
        )]
        let reached = reached as u64;
        self.step_counter.last = self.step_counter.last.max(reached);
    }

    /// Adds a report to those series that have points which are not taken yet. They are written
    /// after it although they came before: of one step, the report's value stands.
    fn report(&mut self, step: u64, metrics: &Metrics, at: Timestamp) {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let step = step as f64;
        for (name, value) in metrics.iter() {
            self.reach(name, Some(step));
            if let Some(points) = self.points.get_mut(&(SeriesAxis::Step, name.to_owned())) {
                points.push(LoggedPoint { step: Some(step), value, at });
            }
        }
    }

    /// A step of a metric; if it is `None`, one past the largest.
    fn reach(&mut self, metric: &str, step: Option<f64>) -> f64 {
        match self.reached.get_mut(metric) {
            Some(reached) => {
                let step = step.unwrap_or(*reached + 1.0);
                *reached = reached.max(step);
                step
            }
            None => {
                let step = step.unwrap_or(1.0);
                self.reached.insert(metric.to_owned(), step);
                step
            }
        }
    }

    /// The points since the last call.
    pub fn take_points(&mut self) -> Vec<LoggedSeries> {
        let (trial, attempt) = (self.run.number(), self.run.attempt());
        let series = std::mem::take(&mut self.points).into_iter();
        series
            .map(|((axis, metric), points)| LoggedSeries { trial, attempt, metric, axis, points })
            .collect()
    }

    /// The events are written: removes the files of their lines.
    pub fn clear_spent(&mut self) {
        artifacts::clear(self.spent.drain(..));
    }

    fn checkpoint(&mut self, path: PathBuf, step: u64, events: &mut Vec<TrialEvent>) {
        let path = self.cwd.join(path);
        if !path.exists() {
            self.note(format!("the checkpoint `{}` is not there", path.display()));
            return;
        }
        // It stays where its program put it: never removed, and not counted.
        let system = Some(runner::now());
        events.push(TrialEvent::Checkpoint(CheckpointEvent::Saved {
            step,
            path,
            bytes: None,
            system,
            digest: None,
        }));
    }

    fn keep(&mut self, artifact: NewArtifact, events: &mut Vec<TrialEvent>) {
        let name = artifact.name.clone();
        match artifacts::take(&self.places, artifact) {
            Ok(Kept { artifact, content, spent }) => {
                self.spent.extend(spent);
                events.push(TrialEvent::Record(RecordEvent::ArtifactSaved { artifact, content }));
            }
            Err(why) => self.note(format!("the artifact `{name}` is not kept: {why}")),
        }
    }

    fn note(&mut self, text: String) {
        (self.say)(Notice::Note(text));
    }
}

fn end_of(status: &str, message: Option<String>) -> RunEnd {
    match status {
        "complete" => RunEnd::Completed,
        "interrupted" => RunEnd::Interrupted {
            by: format!("by {}", message.unwrap_or_else(|| "its program".to_owned())),
        },
        _ => RunEnd::Failed {
            cause: FailureCause::Program,
            reason: message.unwrap_or_else(|| "its program says that it failed".to_owned()),
        },
    }
}

/// Parameters: lists as their text, null omitted.
pub(super) fn params(json: &Map<String, Json>) -> Params {
    let mut params = Params::new();
    for (name, value) in json {
        match Value::from_json(value) {
            Some(value) => params.insert(name.as_str(), value),
            None if value.is_null() => {}
            None => params.insert(name.as_str(), Value::Text(value.to_string())),
        }
    }
    params
}
