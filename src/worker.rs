//! The worker process: runs jobs for a runner and ends with it.

#![expect(clippy::disallowed_methods, reason = "a process of its own")]

#[cfg(feature = "train")]
mod builtin;
mod command;
mod ranks;
mod verdict_queue;
pub mod watchdog;

use std::io::{BufRead, Write};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::runner::processes::ControlGroup;
use crate::runner::protocol::{
    COMMAND_NOT_FOUND, MessageToRunner, MessageToTrial, OF_AGENT, RUN_GROUP, WorkerJob,
};
use crate::runner::signals::outlive_termination;
use crate::runner::threads;
use crate::study::decision::Action;
use crate::study::event::AttemptEnd;
use crate::study::spec::FailureCause::Program;

/// What arrives on a worker's stdin.
enum Incoming {
    /// A message to the worker itself.
    Message(MessageToTrial),
    /// The decision on a report, as a line.
    Decision { action: Action, line: String },
    /// The runner closed the pipe, or died.
    RunnerGone,
}

/// Runs jobs from stdin until it is closed; returns the exit code.
pub fn serve() -> i32 {
    // Started as `/proc/self/exe`, it would be listed as `exe`.
    let _only_a_name = std::fs::write("/proc/self/comm", "hpsearch");
    let terminated = match std::env::var_os(OF_AGENT) {
        Some(_) => outlive_termination(),
        None => Arc::default(),
    };
    let (tx, rx) = unbounded();
    if let Err(error) = threads::spawn("stdin", move || read_stdin(&tx)) {
        let message = Some(format!("cannot start a thread of a worker: {error}"));
        let end = MessageToRunner::End { end: AttemptEnd::Refused, message };
        say(&end);
        report_end(&end);
        return 0;
    }
    loop {
        match rx.recv() {
            Ok(Incoming::Message(MessageToTrial::Job(job))) => match *job {
                // A supervisor lives as long as its command: the runner waits for its end.
                WorkerJob::Command(job) => {
                    command::run(&job, &rx, &terminated);
                    return 0;
                }
                job => carry_out(&job, &rx),
            },
            Ok(
                Incoming::Message(
                    MessageToTrial::Leave
                    | MessageToTrial::Signal { .. }
                    | MessageToTrial::Examine
                    | MessageToTrial::Kill,
                )
                | Incoming::Decision { .. },
            ) => {}
            Ok(Incoming::RunnerGone) | Err(_) => return 0,
        }
    }
}

/// The kind of command that a process becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecOf {
    /// A trial's, of `[command]`.
    Trial,
    /// A tracked run's, of a command line.
    Tracked,
}

/// Replaces this process by a command that dies with its parent; returns the exit code if that
/// fails.
pub fn exec(words: &[std::ffi::OsString], of: ExecOf) -> i32 {
    use std::os::unix::process::CommandExt;
    let Some((program, arguments)) = words.split_first() else { return 2 };
    if rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .is_err()
    {
        return 1;
    }
    if let Some(group) = std::env::var_os(RUN_GROUP) {
        // Without it, the watchdog finds processes by their environment.
        let _not_possible_any_more = ControlGroup::at(std::path::Path::new(&group)).join();
    }
    let error = std::process::Command::new(program)
        .args(arguments)
        .env_remove(RUN_GROUP)
        .env_remove(OF_AGENT)
        .exec();
    let program = program.to_string_lossy();
    let what = match error.kind() {
        std::io::ErrorKind::NotFound => not_found(&program),
        _ => error.to_string(),
    };
    let remedy = match of {
        ExecOf::Trial if program.contains('/') => "; check `run` and `cwd` in [command]",
        ExecOf::Trial => "; check `run` in [command]",
        ExecOf::Tracked => "",
    };
    let message = format!("cannot start `{program}`: {what}{remedy}");
    let end =
        if command::is_refused(&error) { AttemptEnd::Refused } else { AttemptEnd::Failed(Program) };
    say(&MessageToRunner::End { end, message: Some(message) });
    COMMAND_NOT_FOUND
}

/// Where a program was looked for.
fn not_found(program: &str) -> String {
    if !program.contains('/') {
        return "there is no such program on PATH".to_owned();
    }
    if std::path::Path::new(program).exists() {
        return "the interpreter that its first line names is not there".to_owned();
    }
    match std::env::current_dir() {
        Ok(directory) if !program.starts_with('/') => {
            format!("there is no such program in {}", directory.display())
        }
        _ => "there is no such program".to_owned(),
    }
}

#[cfg(feature = "train")]
fn carry_out(job: &WorkerJob, incoming: &Receiver<Incoming>) {
    builtin::run(job, incoming);
}

#[cfg(not(feature = "train"))]
fn carry_out(_: &WorkerJob, _: &Receiver<Incoming>) {
    let message =
        "this hpsearch was built without the `train` feature: build it with default features"
            .to_owned();
    say(&MessageToRunner::End { end: AttemptEnd::Failed(Program), message: Some(message) });
}

/// Writes a message to the runner, always on its own line.
fn say(message: &MessageToRunner) {
    let mut stdout = std::io::stdout().lock();
    // If the runner is gone, this process ends as soon as it reads its stdin.
    let _runner_gone = stdout
        .write_all(format!("{}\n", message.to_line()).as_bytes())
        .and_then(|()| stdout.flush());
}

/// Reports how an attempt ended on the socket at this process's stdin, which the command does not
/// have.
fn report_end(message: &MessageToRunner) {
    let aside = std::io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from);
    // If the runner is gone, this process ends too.
    let _runner_gone =
        aside.and_then(|mut aside| aside.write_all(format!("{}\n", message.to_line()).as_bytes()));
}

fn read_stdin(incoming: &Sender<Incoming>) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let json: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        let message = if json.get("hpsearch").is_some() {
            let Ok(down) = serde_json::from_value(json) else { continue };
            Incoming::Message(down)
        } else {
            let action = serde_json::from_value(json["verdict"].clone());
            Incoming::Decision { action: action.unwrap_or(Action::Continue), line }
        };
        if incoming.send(message).is_err() {
            return;
        }
    }
    #[cfg(feature = "train")]
    if builtin::is_training() {
        std::process::exit(0);
    }
    let _ending_anyway = incoming.send(Incoming::RunnerGone);
}
