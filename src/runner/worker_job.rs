//! Runs one job in a separate worker: preparing data, evaluating, predicting, training a single
//! model.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};

use super::failure_cause::StderrTail;
use super::slot_environment::driver_cache;
use super::threads;
use crate::config::shown::one_line;
use crate::runner::processes::{self, own_program};
use crate::runner::protocol::{self, MessageToRunner, MessageToTrial, PREFIX, WorkerJob};
use crate::study::decision::Decision;
use crate::study::event::AttemptEnd;
use crate::study::spec::FailureCause;

/// Why a job failed.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The worker could not be started.
    #[error(
        "cannot start the worker `{program}`: run the command again, and reinstall hpsearch if the \
         file is gone"
    )]
    Start {
        /// The hpsearch program.
        program: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The worker was killed from outside: the job may be tried again.
    #[error("the worker was killed by signal {signal}")]
    Killed {
        /// The signal.
        signal: i32,
    },
    /// It ran out of memory.
    #[error("{how}: memory ran out")]
    OutOfMemory {
        /// How the worker ended.
        how: String,
    },
    /// The job failed; the message is the worker's.
    #[error("{0}")]
    Failed(String),
}

/// Runs `job` in a new worker with these environment variables; `on_message` receives its messages
/// except its answer and its end; every report is answered with `continue`. Returns the answer, for
/// jobs that have one; none if `on_message` stops the job early.
pub fn run(
    job: WorkerJob,
    environment: &BTreeMap<String, String>,
    on_message: &mut dyn FnMut(MessageToRunner) -> ControlFlow<()>,
) -> Result<Option<serde_json::Value>, JobError> {
    let program = own_program();
    let started = |source| JobError::Start { program: program.display().to_string(), source };
    let threads =
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get).to_string();
    let mut command = Command::new(&program);
    command
        .arg0("hpsearch")
        .arg("worker")
        .env("RAYON_NUM_THREADS", threads)
        .envs(driver_cache())
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let memory_kills = processes::memory_kills();
    let mut child = command.spawn().map_err(started)?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(started(io::ErrorKind::BrokenPipe.into()));
    };
    let overheard = threads::spawn("worker stderr", move || overhear(stderr))
        .inspect_err(|_| processes::kill(child.id()))
        .map_err(started)?;
    let message = serde_json::to_string(&MessageToTrial::Job(Box::new(job))).map_err(|error| {
        // Nothing else in a job can fail to serialise.
        JobError::Failed(format!(
            "a path of this job is not UTF-8, and paths are passed to workers as text: rename the \
            directory ({error})"
        ))
    })?;
    writeln!(stdin, "{message}").and_then(|()| stdin.flush()).map_err(started)?;
    let (mut answer, mut end) = (None, None);
    let mut enough = ControlFlow::Continue(());
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { break };
        // Other lines belong to its log.
        match line.strip_prefix(PREFIX).map(MessageToRunner::parse) {
            Some(Ok(MessageToRunner::End { end: word, message })) => {
                end = Some((word, message));
                break;
            }
            Some(Ok(MessageToRunner::Answer { body })) => answer = Some(body),
            Some(Ok(said)) => {
                let is_report = matches!(said, MessageToRunner::Report { .. });
                enough = on_message(said);
                if is_report {
                    // A dead worker is detected by its closed stdout.
                    let _noticed_there =
                        writeln!(stdin, "{}", protocol::verdict_line(&Decision::CONTINUE))
                            .and_then(|()| stdin.flush());
                }
            }
            Some(Err(_)) | None => {}
        }
        if enough.is_break() {
            // Before its standard output is closed, of which it would complain.
            processes::kill(child.id());
            break;
        }
    }
    drop(stdin);
    let status = child.wait();
    let stderr_tail = overheard.join().unwrap_or_default();
    if enough.is_break() {
        return Ok(None);
    }
    match end {
        // Paused: a stage of a schedule.
        Some((AttemptEnd::Completed | AttemptEnd::Paused, _)) => Ok(answer),
        Some((word, message)) => {
            let message = message.unwrap_or_else(|| format!("{word:?}").to_lowercase());
            Err(match word {
                AttemptEnd::Failed(FailureCause::Oom) => JobError::OutOfMemory { how: message },
                _ => JobError::Failed(message),
            })
        }
        None => Err(death(status.ok(), memory_kills, &stderr_tail)),
    }
}

/// Forwards a worker's standard error, except messages about lack of memory, which are reported
/// differently.
fn overhear(stderr: impl Read) -> StderrTail {
    let mut words = StderrTail::default();
    for line in BufReader::new(stderr).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        words.push(&line);
        // Nor the stack trace that follows.
        if words.cause() != Some(FailureCause::Oom) {
            // The reader closed standard error.
            let _ = writeln!(io::stderr(), "{}", one_line(&line));
        }
    }
    words
}

/// The end of a worker that exited without an answer.
fn death(
    status: Option<ExitStatus>,
    memory_kills: Option<u64>,
    stderr_tail: &StderrTail,
) -> JobError {
    match status.and_then(|status| status.signal()) {
        Some(signal) if processes::was_killed_for_memory(signal, memory_kills) => {
            JobError::OutOfMemory { how: "the kernel killed the worker".to_owned() }
        }
        // An allocation that fails ends a Rust program at once, and it says so on its standard
        // error.
        _ if stderr_tail.cause() == Some(FailureCause::Oom) => JobError::OutOfMemory {
            how: stderr_tail.telling().map_or_else(String::new, |(_, line)| line.to_owned()),
        },
        Some(signal) if processes::is_sent_to_end(signal) => JobError::Killed { signal },
        _ => JobError::Failed(format!(
            "the worker died ({})",
            status.map_or("unknown status".to_owned(), |status| status.to_string())
        )),
    }
}
