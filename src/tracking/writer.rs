//! Writes the spool of a logging program into the store, each line exactly once, even after
//! crashes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::arguments::masked;
use super::life::wait_for_end;
use super::measuring::Measuring;
use super::requests::{self, Asked};
use super::run::Rival;
use super::spool::{Header, JOB, REST_JOB, Spool, SpoolLine};
use super::{Goal, NewRun, ResumedRun, Run, RunEnd, TrackingError};
use super::{find_run, open_study, settle_dead, study_named_for};
use crate::runner::artifacts::{self, Places};
use crate::runner::protocol::{MessageToRunner, PREFIX, Reported, Spoken, StepCounter};
use crate::runner::provenance::{PythonProgram, look_around_python};
use crate::runner::{self, disk, inputs};
use crate::storage::{Storage, StorageError, StorageReader, StoredStudy};
use crate::study::artifact::NewArtifact;
use crate::study::event::{
    AttemptEvent, CheckpointEvent, Event, ProposalEvent, RecordEvent, Seq, TrialEvent,
};
use crate::study::params::{Params, Value};
use crate::study::provenance::Provenance;
use crate::study::series::{LoggedPoint, LoggedSeries, SeriesAxis};
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::step::StepUnit;
use crate::study::tag::is_tag;
use crate::study::time::Timestamp;
use crate::study::tracked::{TrackedRun, is_run_name};
use crate::study::trial::{AttemptNumber, TrialNumber};

/// The journal is searched from this long before the spool began, in microseconds: a store's clock
/// never goes back, and may be ahead.
const CLOCK_TOLERANCE: i64 = 3_600_000_000;

/// Whether the logging program is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// It is, and may have logged more.
    Lives,
    /// It has ended.
    Gone,
}

/// A notice to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The run's identity.
    Run {
        /// The study.
        study: String,
        /// The run's number.
        trial: TrialNumber,
        /// Its name.
        name: Option<String>,
    },
    /// What was skipped, in one sentence.
    Note(String),
    /// It is asked to stop, with the reason.
    Stop(String),
}

/// The target of a spool's lines.
pub struct SpoolWriter<'a> {
    /// The store.
    pub storage: &'a mut dyn Storage,
    /// Its path.
    pub store: &'a Path,
    /// Waits until there may be more to read, at most a second.
    pub wait: &'a mut dyn FnMut() -> Program,
    /// Receives notices.
    pub say: &'a mut dyn FnMut(Notice),
}

/// Writes a spool into the store until its program has exited, ends the run, and removes the file.
///
/// # Errors
/// The spool cannot be read, its run cannot be begun or resumed, or the store failed. Unwritten
/// lines stay in the spool.
pub fn write_spool(path: &Path, writer: SpoolWriter<'_>) -> Result<(), TrackingError> {
    let spool = Spool::open(path)?;
    write(path, spool, writer)
}

/// Writes spools other than `own` whose programs have exited and whose writers were killed or never
/// ran. Those of another store in the same directory are left to it.
///
/// # Errors
/// The store failed.
pub fn adopt_spools(
    directory: &Path,
    own: &Path,
    storage: &mut dyn Storage,
    store: &Path,
    say: &mut dyn FnMut(Notice),
) -> Result<(), TrackingError> {
    for path in disk::entries(directory) {
        let is_spool = path.extension().is_some_and(|extension| extension == "jsonl");
        if !is_spool || path.file_name() == own.file_name() {
            continue;
        }
        let Ok(mut spool) = Spool::open(&path) else { continue };
        // The program holds the lock while it is alive; here it excludes other adopters.
        if !spool.try_lock() {
            continue;
        }
        if spool.is_removed() || is_of_another(&mut spool, directory, store) {
            continue;
        }
        let wait = &mut || Program::Gone;
        match write(&path, spool, SpoolWriter { storage, store, wait, say }) {
            Ok(()) => {}
            Err(TrackingError::Storage(error)) if !is_refusal(&error) => return Err(error.into()),
            Err(error) => say(Notice::Note(format!("{}: {error}", path.display()))),
        }
    }
    Ok(())
}

/// Whether a spool in this directory is of another store that is there, whatever links are called.
fn is_of_another(spool: &mut Spool, directory: &Path, store: &Path) -> bool {
    let Ok(Some(Header { store: Some(name), .. })) = spool.header() else { return false };
    let file = |path: &Path| path.canonicalize().ok();
    file(&directory.with_file_name(name)).is_some_and(|its| Some(its) != file(store))
}

/// Whether the store works and rejects this run.
fn is_refusal(error: &StorageError) -> bool {
    matches!(error, StorageError::RunFenced { .. } | StorageError::Searched { .. })
}

/// The part of a spool that is already written.
struct Written {
    trial: TrialNumber,
    /// `None`: none of them.
    offset: Option<u64>,
    /// Whether another process has continued the run since.
    is_taken_over: bool,
}

fn write(path: &Path, mut spool: Spool, writer: SpoolWriter<'_>) -> Result<(), TrackingError> {
    // Another process writes it into the store, or has done so.
    if !spool.lock_as_writer() || spool.is_removed() {
        return Ok(());
    }
    let SpoolWriter { storage, store, wait, say } = writer;
    let header = loop {
        if let Some(header) = spool.header()? {
            break header;
        }
        if wait() == Program::Gone && spool.header()?.is_none() {
            // It ended before it wrote its header.
            remove(path);
            return Ok(());
        }
    };
    let study = study_of(storage, store, &header, say)?;
    let written = written(storage, &study, &spool.name(), &header)?;
    if let Some(written) = &written {
        if let Some(offset) = written.offset {
            spool.seek(offset);
        }
        let trial = storage.trial(study.id, written.trial)?;
        let has_ended = trial.is_some_and(|trial| trial.state.is_finished());
        if is_all_written(&spool, has_ended || written.is_taken_over, wait)? {
            // The last writer was killed after its last line.
            settle_dead(storage, study.id, &study.spec)?;
            remove(path);
            return Ok(());
        }
    }
    let mut run = begin(storage, &study, &spool, &header, written.as_ref(), say)?;
    settle_dead(storage, study.id, &study.spec)?;
    loop {
        let number = run.number();
        match follow((storage, store), run, &mut spool, &header, wait, say) {
            Err(TrackingError::Storage(StorageError::RunFenced { .. })) => {
                if is_all_written(&spool, true, wait)? {
                    break;
                }
                run = begin_rest(storage, &study, &spool, &header, number, say)?;
            }
            Err(error) => return Err(error),
            Ok(()) => break,
        }
    }
    remove(path);
    Ok(())
}

/// Whether a spool is complete and read to its end. If its run is over or another process's, waits
/// until it has more or its program has exited.
fn is_all_written(
    spool: &Spool,
    is_over: bool,
    wait: &mut dyn FnMut() -> Program,
) -> Result<bool, TrackingError> {
    loop {
        let rest = spool.next()?;
        if rest.is_empty() {
            // The last lines may have been written just before the program exited.
            if wait() == Program::Gone && spool.next()?.is_empty() {
                return Ok(true);
            }
            if is_over {
                continue;
            }
        }
        let is_end = |(line, _): &(SpoolLine, u64)| matches!(line, SpoolLine::Finish { .. });
        return Ok(is_over && rest.iter().all(is_end));
    }
}

/// Writes the remaining lines of the spool into the run, and ends it.
fn follow(
    (storage, store): (&mut dyn Storage, &Path),
    run: Run,
    spool: &mut Spool,
    header: &Header,
    wait: &mut dyn FnMut() -> Program,
    say: &mut dyn FnMut(Notice),
) -> Result<(), TrackingError> {
    let (study, trial) = (run.study().clone(), run.number());
    let name = run.name().map(str::to_owned);
    say(Notice::Run { study: study.spec.name.clone(), trial, name });
    requests::refuse_old(storage, &run)?;
    let last = storage.trial(study.id, trial)?.and_then(|trial| trial.last());
    let cwd = header.cwd.clone().unwrap_or_default();
    let mut measuring = Measuring::start(&run, header);
    let mut lines = Lines {
        spool: spool.name(),
        trial,
        attempt: run.attempt(),
        metric: study.spec.objective().metric.clone(),
        points: BTreeMap::new(),
        places: Places {
            looked_for: vec![cwd.clone()],
            copies: study.files(store).artifacts(trial),
        },
        cwd,
        step_counter: StepCounter { unit: StepUnit::Step, last: last.map_or(0, |(step, _)| step) },
        say,
    };
    let (mut program, mut asked) = (Program::Lives, None);
    loop {
        let (events, end, offset) = lines.events(spool.next()?);
        let is_last = end.is_some() || offset.is_none() && program == Program::Gone;
        let mut points = lines.take_points();
        points.extend(measuring.points(storage, &run, is_last)?);
        if !events.is_empty() || !points.is_empty() {
            run.write_logged(storage, &events, &points)?;
        }
        if let Some(offset) = offset {
            spool.seek(offset);
        }
        if is_last {
            let end = end.unwrap_or_else(|| RunEnd::Interrupted {
                by: "when its program ended without a word".to_owned(),
            });
            spool.lock();
            return run.finish(storage, asked.map_or(end.clone(), |asked| asked_end(asked, end)));
        }
        if offset.is_none() {
            program = wait();
        }
        let text = &|asked: Asked| stop_answer(asked, trial, header);
        if let Some(new) = requests::take(storage, &run, text)? {
            (lines.say)(Notice::Stop(new.reason().to_owned()));
            asked = Some(new);
        }
    }
}

/// The answer to a request to stop a logging program.
fn stop_answer(asked: Asked, trial: TrialNumber, header: &Header) -> String {
    let asks = format!("run {trial} is asked to stop: its `should_stop` is true");
    match (asked, header.pid) {
        (Asked::Kill, Some(pid)) => {
            format!("{asks}, and it will count as failed; `kill {pid}` ends its program")
        }
        _ => asks,
    }
}

/// The end of a run that was asked to stop.
fn asked_end(asked: Asked, end: RunEnd) -> RunEnd {
    match (asked, end) {
        (_, RunEnd::Failed { cause, reason }) => RunEnd::Failed { cause, reason },
        (asked, _) => asked.end(),
    }
}

/// The study of the run; if the named one is unusable, that of the directory, so that no data is
/// lost.
fn study_of(
    storage: &mut dyn Storage,
    store: &Path,
    header: &Header,
    say: &mut dyn FnMut(Notice),
) -> Result<StoredStudy, TrackingError> {
    let otherwise = study_named_for(header.cwd.as_deref().unwrap_or(Path::new("")));
    let named = header.study.as_deref().unwrap_or(&otherwise);
    let goal = Goal { metric: header.metric.clone(), direction: header.direction };
    let error = match open_study(storage, store, named, &goal, runner::now()) {
        Ok(study) => return Ok(study),
        Err(error) => error,
    };
    match &error {
        TrackingError::OtherMetric { .. } => {
            say(Notice::Note(format!("{error}; the run goes there all the same")));
            open_study(storage, store, named, &Goal::default(), runner::now())
        }
        TrackingError::StudyName { .. } | TrackingError::Storage(StorageError::Searched { .. })
            if named != otherwise =>
        {
            say(Notice::Note(format!("{error}: the run goes to `{otherwise}`")));
            let goal = match storage.study(&otherwise)? {
                Some(_) => Goal::default(),
                None => goal,
            };
            open_study(storage, store, &otherwise, &goal, runner::now())
        }
        _ => Err(error),
    }
}

/// Removes a spool that is completely in the store.
fn remove(path: &Path) {
    // If it remains, the next reader finds it written.
    let _found_written_next_time = std::fs::remove_file(path);
}

/// The run that a spool was written to before, by the study's journal.
fn written(
    reader: &dyn StorageReader,
    study: &StoredStudy,
    spool: &str,
    header: &Header,
) -> Result<Option<Written>, StorageError> {
    let jobs = [job_of(JOB, header, spool), job_of(REST_JOB, header, spool)];
    let is_its = |run: &TrackedRun| run.job.as_ref().is_some_and(|job| jobs.contains(job));
    // Attempts of each run since then.
    let mut attempts: BTreeMap<TrialNumber, u32> = BTreeMap::new();
    let mut before = Seq(i64::MAX);
    loop {
        let page = reader.events_before(study.id, before, 1000)?;
        let Some((first, earliest, _)) = page.first() else { return Ok(None) };
        for (_, _, event) in page.iter().rev() {
            let Event::Trial(trial, event) = event else { continue };
            let begun = attempts.get(trial).copied().unwrap_or(0);
            let (trial, found) = (*trial, |offset, is_taken_over| {
                Ok(Some(Written { trial: *trial, offset, is_taken_over }))
            });
            match event {
                TrialEvent::Attempt(AttemptEvent::Started { .. }) => {
                    attempts.insert(trial, begun + 1);
                }
                // An attempt's start is written together with its spool's offset.
                TrialEvent::Record(RecordEvent::SpoolRead { spool: read, offset })
                    if read == spool =>
                {
                    return found(Some(*offset), begun > 0);
                }
                TrialEvent::Proposal(ProposalEvent::TrialCreated { origin, .. })
                    if origin.tracked().is_some_and(is_its) =>
                {
                    return found(None, begun > 1);
                }
                _ => {}
            }
        }
        if earliest.0 < header.time.saturating_sub(CLOCK_TOLERANCE) {
            return Ok(None);
        }
        before = *first;
    }
}

fn job_of(kind: &str, header: &Header, spool: &str) -> String {
    let part = spool.rsplit_once('.').map_or(spool, |(_, part)| part);
    format!("{kind}{}.{part}", header.id)
}

fn begin(
    storage: &mut dyn Storage,
    study: &StoredStudy,
    spool: &Spool,
    header: &Header,
    written: Option<&Written>,
    say: &mut dyn FnMut(Notice),
) -> Result<Run, TrackingError> {
    let resumed = ResumedRun { spool: Some((spool.name(), spool.offset())), ..Default::default() };
    if let Some(Written { trial, is_taken_over, .. }) = written {
        if *is_taken_over {
            return begin_rest(storage, study, spool, header, *trial, say);
        }
        if let Some(run) = Run::take_up(storage, study, *trial)? {
            return Ok(run);
        }
        return Run::resume(storage, study, *trial, resumed);
    }
    let known = match &header.resume {
        Some(run) => by_id(storage, study, run)?,
        None => None,
    };
    let params = params(&header.params);
    let provenance = provenance(storage, study, header)?;
    if let Some(trial) = known {
        // The writer of a killed program may still be writing the last lines.
        wait_for_end(storage, study.id, trial)?;
        let resumed = ResumedRun { rival: Rival::Fenced, provenance, ..resumed };
        let run = Run::resume(storage, study, trial, resumed)?;
        if params.iter().next().is_some() {
            run.record_params(storage, params)?;
        }
        return Ok(run);
    }
    let new = new_run(storage, study, (JOB, provenance), (spool, header), say)?;
    Run::create(storage, study, new)
}

/// Begins a new run for a program whose run another process has continued.
fn begin_rest(
    storage: &mut dyn Storage,
    study: &StoredStudy,
    spool: &Spool,
    header: &Header,
    before: TrialNumber,
    say: &mut dyn FnMut(Notice),
) -> Result<Run, TrackingError> {
    let of = (REST_JOB, provenance(storage, study, header)?);
    let new = new_run(storage, study, of, (spool, header), &mut |_| {})?;
    let run = Run::create(storage, study, new)?;
    say(Notice::Note(format!(
        "run {before} was continued by another process: what this program logs from here on is run \
         {}",
        run.label()
    )));
    Ok(run)
}

fn new_run(
    storage: &dyn Storage,
    study: &StoredStudy,
    (kind, provenance): (&str, Option<Box<Provenance>>),
    (spool, header): (&Spool, &Header),
    say: &mut dyn FnMut(Notice),
) -> Result<NewRun, TrackingError> {
    let name = header.name.clone().filter(|name| {
        let is_one = is_run_name(name);
        if !is_one {
            let error = TrackingError::RunName { name: name.clone() };
            say(Notice::Note(format!("{error}, and this one has none: {}", error.remedy())));
        }
        is_one
    });
    let (tags, others): (Vec<String>, Vec<String>) =
        header.tags.iter().cloned().partition(|tag| is_tag(tag));
    if let Some(tag) = others.into_iter().next() {
        let error = TrackingError::Tag { tag };
        say(Notice::Note(format!("{error}, and is left out: {}", error.remedy())));
    }
    let job = Some(job_of(kind, header, &spool.name()));
    let parent = match &header.parent {
        None => None,
        Some(parent) => by_id(storage, study, parent)?.or_else(|| {
            say(Notice::Note(format!("there is no run `{parent}` that this one is part of")));
            None
        }),
    };
    let group = header.group.clone();
    let run = TrackedRun { name, group, parent, job, source: None, command: masked(&header.argv) };
    let spool = Some((spool.name(), spool.offset()));
    let params = params(&header.params);
    Ok(NewRun { params, run, tags, provenance, spool, ..NewRun::default() })
}

/// The provenance of a program that states its command.
fn provenance(
    storage: &mut dyn Storage,
    study: &StoredStudy,
    header: &Header,
) -> Result<Option<Box<Provenance>>, StorageError> {
    let (Some(interpreter), Some(cwd)) = (&header.python, &header.cwd) else { return Ok(None) };
    let program = crate::study::program::Program::Command {
        run: header.argv.clone(),
        cwd: cwd.clone(),
        env: Default::default(),
        args: Default::default(),
        metrics: Default::default(),
    };
    let spec = StudySpec { program, ..study.spec.clone() };
    let mut words = vec![interpreter.display().to_string()];
    words.extend(masked(&header.argv));
    let words = words.into_iter().map(OsString::from).collect();
    let python = PythonProgram { interpreter, sites: &header.path };
    // The salt is for values of `[command] env`, of which there are none.
    let found = look_around_python(&spec, inputs::of_study(&spec), words, None, "", Some(python));
    for (digest, text) in &found.documents {
        storage.keep_document(digest, text)?;
    }
    Ok(Some(Box::new(found.provenance)))
}

/// The newest run with this id, or the one of this name or number; `None` if there is none.
fn by_id(
    reader: &dyn StorageReader,
    study: &StoredStudy,
    wanted: &str,
) -> Result<Option<TrialNumber>, TrackingError> {
    let id_of = |event: &Event| match event {
        Event::Trial(trial, TrialEvent::Proposal(ProposalEvent::TrialCreated { origin, .. })) => {
            let job = origin.tracked()?.job.as_deref()?.strip_prefix(JOB)?;
            Some((*trial, job.rsplit_once('.')?.0.to_owned()))
        }
        _ => None,
    };
    let mut before = Seq(i64::MAX);
    loop {
        let page = reader.events_before(study.id, before, 1000)?;
        let Some((first, ..)) = page.first() else { break };
        let mut ids = page.iter().rev().filter_map(|(_, _, event)| id_of(event));
        if let Some((trial, _)) = ids.find(|(_, id)| id == wanted) {
            return Ok(Some(trial));
        }
        before = *first;
    }
    match find_run(reader, study, wanted) {
        Ok(trial) => Ok(Some(trial.number)),
        Err(TrackingError::NoRun { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Parameters: lists as their text, null omitted.
fn params(json: &Map<String, Json>) -> Params {
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

/// Converts lines to events of the run.
struct Lines<'a> {
    spool: String,
    trial: TrialNumber,
    attempt: AttemptNumber,
    /// The study's metric: a line that contains it is a report.
    metric: String,
    /// Points besides reports.
    points: BTreeMap<(SeriesAxis, String), Vec<LoggedPoint>>,
    cwd: PathBuf,
    places: Places,
    step_counter: StepCounter,
    say: &'a mut dyn FnMut(Notice),
}

impl Lines<'_> {
    /// The events of these lines with the offset read; the end of the run, which counts as read
    /// only once written; and the offset of the next lines, if any.
    fn events(
        &mut self,
        lines: Vec<(SpoolLine, u64)>,
    ) -> (Vec<TrialEvent>, Option<RunEnd>, Option<u64>) {
        let (mut events, mut end, mut next) = (Vec::new(), None, None);
        for (line, after) in lines {
            match line {
                SpoolLine::Record { record, time } => {
                    let at = time.map_or_else(runner::now, Timestamp);
                    self.record(record, at, &mut events);
                }
                SpoolLine::Finish { status, message } => {
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
            events.push(TrialEvent::Record(RecordEvent::SpoolRead {
                spool: self.spool.clone(),
                offset,
            }));
        }
        (events, end, next)
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
                    events.push(TrialEvent::Attempt(AttemptEvent::Reported {
                        attempt: self.attempt,
                        step,
                        metrics,
                    }));
                }
                MessageToRunner::Points { axis, step, metrics } => {
                    for (metric, value) in metrics.0 {
                        let point = LoggedPoint { step, value, at };
                        self.points.entry((axis, metric)).or_default().push(point);
                    }
                }
                MessageToRunner::Checkpoint { path, step } => self.checkpoint(path, step, events),
                MessageToRunner::Artifact { artifact } => self.keep(artifact, events),
                MessageToRunner::StartsOver { .. }
                | MessageToRunner::Peak { .. }
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

    fn take_points(&mut self) -> Vec<LoggedSeries> {
        let (trial, attempt) = (self.trial, self.attempt);
        let series = std::mem::take(&mut self.points).into_iter();
        series
            .map(|((axis, metric), points)| LoggedSeries { trial, attempt, metric, axis, points })
            .collect()
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
            Ok((artifact, content)) => {
                events.push(TrialEvent::Record(RecordEvent::ArtifactSaved { artifact, content }))
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
