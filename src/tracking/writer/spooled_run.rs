//! The run that a spool is written to: the one of its last writer, one that its program resumes, or
//! a new one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::Notice;
use super::lines::params;
use crate::runner::provenance::{PythonProgram, look_around_python};
use crate::runner::{self, inputs};
use crate::storage::{Storage, StorageError, StorageReader, StoredStudy};
use crate::study::event::{AttemptEvent, Event, ProposalEvent, RecordEvent, Seq, TrialEvent};
use crate::study::program::Program;
use crate::study::provenance::Provenance;
use crate::study::spec::StudySpec;
use crate::study::tag::is_tag;
use crate::study::time::Timestamp;
use crate::study::tracked::{TrackedRun, is_run_name};
use crate::study::trial::TrialNumber;
use crate::tracking::arguments::masked;
use crate::tracking::life::wait_for_end;
use crate::tracking::run::Rival;
use crate::tracking::spool::{Header, JOB, Known, REST_JOB, Spool};
use crate::tracking::{AssumedDirection, find_run, open_study, study_named_for};
use crate::tracking::{Goal, NewRun, ResumedRun, Run, TrackingError};

/// The journal is searched from this long before the spool began, in microseconds: a store's clock
/// never goes back, and may be ahead.
const CLOCK_TOLERANCE: i64 = 3_600_000_000;

/// The part of a spool that is already written.
pub(super) struct SpoolProgress {
    /// Its run.
    pub trial: TrialNumber,
    /// Where the unwritten lines begin; `None`: none is written.
    pub offset: Option<u64>,
    /// Whether another process has continued the run since.
    pub is_taken_over: bool,
}

/// The study of the run; if the named one is unusable, that of the directory, so that no data is
/// lost.
pub(super) fn study_of(
    storage: &mut dyn Storage,
    store: &Path,
    header: &Header,
    say: &mut dyn FnMut(Notice),
) -> Result<StoredStudy, TrackingError> {
    let otherwise = study_named_for(header.cwd.as_deref().unwrap_or(Path::new("")));
    let named = header.study.as_deref().unwrap_or(&otherwise);
    if header.known == Known::Must && storage.study(named)?.is_none() {
        return Err(TrackingError::NoStudy { study: named.to_owned() });
    }
    let goal = Goal { metric: header.metric.clone(), direction: header.direction };
    // A study is not younger than its first run.
    let now = runner::now().min(Timestamp(header.time));
    let assumed = AssumedDirection::of(storage, named, &goal)?;
    let error = match open_study(storage, store, named, &goal, now) {
        Ok(study) => {
            if let Some(assumed) = assumed {
                say(Notice::Note(assumed.in_words("direction=\"maximize\"")));
            }
            return Ok(study);
        }
        Err(error) => error,
    };
    match &error {
        TrackingError::OtherMetric { .. } => {
            say(Notice::Note(format!("{error}; the run goes there regardless")));
            open_study(storage, store, named, &Goal::default(), now)
        }
        TrackingError::StudyName { .. } | TrackingError::Storage(StorageError::Searched { .. })
            if named != otherwise =>
        {
            say(Notice::Note(format!("{error}: the run goes to `{otherwise}`")));
            let goal = match storage.study(&otherwise)? {
                Some(_) => Goal::default(),
                None => goal,
            };
            open_study(storage, store, &otherwise, &goal, now)
        }
        _ => Err(error),
    }
}

/// The run that a spool was written to before, by the study's journal.
pub(super) fn written(
    reader: &dyn StorageReader,
    study: &StoredStudy,
    spool: &str,
    header: &Header,
) -> Result<Option<SpoolProgress>, StorageError> {
    let jobs = [job_of(JOB, header, spool), job_of(REST_JOB, header, spool)];
    let is_its = |run: &TrackedRun| run.job.as_ref().is_some_and(|job| jobs.contains(job));
    // Attempts of each run since then.
    let mut attempts: BTreeMap<TrialNumber, u32> = BTreeMap::new();
    let mut before = Seq(i64::MAX);
    loop {
        let page = reader.events_before(study.id, before, 1000)?;
        let Some((first, ..)) = page.first() else { return Ok(None) };
        for (_, _, event) in page.iter().rev() {
            let Event::Trial(trial, event) = event else { continue };
            let begun = attempts.get(trial).copied().unwrap_or(0);
            let (trial, found) = (*trial, |offset, is_taken_over| {
                Ok(Some(SpoolProgress { trial: *trial, offset, is_taken_over }))
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
        // Only these have the writers' times: what runs taken over later logged is older.
        let has_writers_time = |event: &Event| {
            matches!(
                event,
                Event::Runner(_)
                    | Event::Trial(_, TrialEvent::Record(RecordEvent::SpoolRead { .. }))
            )
        };
        let written = page.iter().filter(|(_, _, event)| has_writers_time(event));
        let latest = written.map(|(_, at, _)| at.0).max();
        if latest.is_some_and(|at| at < header.time.saturating_sub(CLOCK_TOLERANCE)) {
            return Ok(None);
        }
        before = *first;
    }
}

/// The run of a spool: the one that it was written to before, the one that its program resumes, or
/// a new one.
pub(super) fn begin(
    storage: &mut dyn Storage,
    study: &StoredStudy,
    spool: &Spool,
    header: &Header,
    written: Option<&SpoolProgress>,
    say: &mut dyn FnMut(Notice),
) -> Result<Run, TrackingError> {
    let since = Some(Timestamp(header.time));
    let position = Some((spool.name(), spool.offset()));
    let resumed = ResumedRun { spool: position, since, ..ResumedRun::default() };
    if let Some(SpoolProgress { trial, is_taken_over, .. }) = written {
        if *is_taken_over {
            return begin_rest(storage, study, spool, header, *trial, say);
        }
        if let Some(run) = Run::take_up(storage, study, *trial)? {
            return Ok(run);
        }
        let resumed = ResumedRun { since: next_time(spool)?, ..resumed };
        return Run::resume(storage, study, *trial, resumed);
    }
    let known = match &header.resume {
        // A number that is an id is no run's number.
        Some(run) if *run == header.id && run.bytes().all(|byte| byte.is_ascii_digit()) => {
            of_id(storage, study, run)?
        }
        Some(run) => by_id(storage, study, run)?,
        None => None,
    };
    let wanted = |run: &String| (study.spec.name.clone(), run.clone());
    match (header.known, known, header.resume.as_ref().map(wanted)) {
        (Known::Must, None, Some((study, run))) => return Err(TrackingError::NoRun { study, run }),
        (Known::Never, Some(_), Some((study, run))) => {
            return Err(TrackingError::Exists { study, run });
        }
        _ => {}
    }
    let params = params(&header.params);
    let provenance = provenance(storage, study, header)?;
    if let Some(trial) = known {
        // The writer of a killed program may still be writing the last lines.
        wait_for_end(storage, study.id, trial)?;
        let resumed = ResumedRun { rival: Rival::Fenced, provenance, ..resumed };
        let run = Run::resume(storage, study, trial, resumed)?;
        if let Some(changed) = run.change_params(storage, params)? {
            say(Notice::Note(changed));
        }
        return Ok(run);
    }
    let new = new_run(storage, study, (JOB, provenance), (spool, header), say)?;
    Run::create(storage, study, new)
}

/// Begins a new run for a program whose run another process has continued.
pub(super) fn begin_rest(
    storage: &mut dyn Storage,
    study: &StoredStudy,
    spool: &Spool,
    header: &Header,
    before: TrialNumber,
    say: &mut dyn FnMut(Notice),
) -> Result<Run, TrackingError> {
    let of = (REST_JOB, provenance(storage, study, header)?);
    let new = new_run(storage, study, of, (spool, header), &mut |_| {})?;
    let run = Run::create(storage, study, NewRun { since: next_time(spool)?, ..new })?;
    say(Notice::Note(format!(
        "run {before} was continued by another process: what this program logs from here on is run \
         {}",
        run.label()
    )));
    Ok(run)
}

/// The time of the next unwritten line.
fn next_time(spool: &Spool) -> Result<Option<Timestamp>, TrackingError> {
    Ok(spool.next()?.iter().find_map(|(line, _)| line.time()).map(Timestamp))
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
    let since = Some(Timestamp(header.time));
    Ok(NewRun { params, run, tags, provenance, spool, since, ..NewRun::default() })
}

fn job_of(kind: &str, header: &Header, spool: &str) -> String {
    let part = spool.rsplit_once('.').map_or(spool, |(_, part)| part);
    format!("{kind}{}.{part}", header.id)
}

/// The provenance of a program that states its command.
fn provenance(
    storage: &mut dyn Storage,
    study: &StoredStudy,
    header: &Header,
) -> Result<Option<Box<Provenance>>, StorageError> {
    let (Some(interpreter), Some(cwd)) = (&header.python, &header.cwd) else { return Ok(None) };
    let program = Program::Command {
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
    if let Some(trial) = of_id(reader, study, wanted)? {
        return Ok(Some(trial));
    }
    match find_run(reader, study, wanted) {
        Ok(trial) => Ok(Some(trial.number)),
        Err(TrackingError::NoRun { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The newest run with this id; `None` if there is none.
fn of_id(
    reader: &dyn StorageReader,
    study: &StoredStudy,
    wanted: &str,
) -> Result<Option<TrialNumber>, StorageError> {
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
        let Some((first, ..)) = page.first() else { return Ok(None) };
        let mut ids = page.iter().rev().filter_map(|(_, _, event)| id_of(event));
        if let Some((trial, _)) = ids.find(|(_, id)| id == wanted) {
            return Ok(Some(trial));
        }
        before = *first;
    }
}
