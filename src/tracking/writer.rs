//! Writes the spool of a logging program into the store, each line exactly once, even after
//! crashes.

mod lines;
mod orphans;
mod spooled_run;

use std::path::Path;

use super::measuring::Measuring;
use super::requests::{self, Asked};
use super::spool::{self, Header, Spool, SpoolLine};
use super::{Run, RunEnd, TrackingError, settle_dead};
use crate::storage::{Storage, StorageError};
use crate::study::trial::TrialNumber;
use lines::Lines;
pub use orphans::{adopt_spools, orphaned_spools};
use spooled_run::{begin, begin_rest, study_of, written};

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
    write(path, spool, writer, Refusal::Ends)
}

/// Whether a spool's run depends on another's being there, whose own spool may still be unread.
pub fn names_a_run(path: &Path) -> bool {
    let header = Spool::open(path).and_then(|mut spool| spool.header());
    header.ok().flatten().is_some_and(|header| header.resume.is_some())
}

/// What becomes of a run that must exist and does not, or exists and must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// Its program is told.
    Ends,
    /// Its program has ended, and would not be told: what it logged becomes a run of its own.
    Begins,
}

fn write(
    path: &Path,
    mut spool: Spool,
    writer: SpoolWriter<'_>,
    refusal: Refusal,
) -> Result<(), TrackingError> {
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
    let header = match refusal {
        Refusal::Ends => header,
        Refusal::Begins => header.without_demands(),
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
    let last = (last.map_or(0, |(step, _)| step), storage.series(study.id, &[trial])?);
    let copies = study.files(store).artifacts(trial);
    let mut measuring = Measuring::start(&run, header);
    let mut lines = Lines::new(&run, (spool, header), last, copies, say);
    let (mut program, mut was_alive, mut asked) = (Program::Lives, false, None);
    loop {
        let (events, end, offset) = lines.events(spool.next()?);
        let is_last = end.is_some() || offset.is_none() && program == Program::Gone;
        let mut points = lines.take_points();
        points.extend(measuring.points(storage, &run, is_last)?);
        if !events.is_empty() || !points.is_empty() {
            run.write_timed(storage, events, &points)?;
            lines.clear_spent();
        }
        if let Some(offset) = offset {
            spool.seek(offset);
        }
        if is_last {
            // One that does not say when it ended, and was not seen alive, ended after its last
            // line.
            let ended = match &end {
                None if was_alive => run.clock().now(),
                _ => lines.last(),
            };
            let end = end.unwrap_or_else(|| RunEnd::Interrupted {
                by: "when its program ended without a word".to_owned(),
            });
            spool.lock();
            let end = asked.map_or(end.clone(), |asked| asked_end(asked, end));
            return run.finish_at(storage, end, ended);
        }
        if offset.is_none() {
            program = wait();
            was_alive |= program == Program::Lives;
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

/// Removes a spool that is completely in the store, and what its program copied for lines that it
/// did not come to write.
fn remove(path: &Path) {
    // If it remains, the next reader finds it written.
    let _found_written_next_time = std::fs::remove_file(path);
    spool::remove_unneeded_files(&path.with_extension(spool::FILES));
}

#[cfg(test)]
mod tests;
