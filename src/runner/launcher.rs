//! The interface between the runner and what executes trials: processes, threads of this process,
//! or a simulation.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::clock::Clock;
use super::point_queue::PointQueue;
use super::processes::process_limits;
use crate::engine::{Assignment, Input, SlottedAttempt};
use crate::study::decision::Decision;
use crate::study::event::AttemptEnd;
use crate::study::spec::FailureCause;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Why an attempt could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The machine refuses resources (memory, files, processes). It may provide them later; the
    /// trial is not at fault.
    #[error("{0}")]
    Refused(String),
    /// It can never be started.
    #[error("{0}")]
    Impossible(String),
}

impl LaunchError {
    /// The end of the attempt that could not be started.
    pub fn end(&self) -> AttemptEnd {
        match self {
            LaunchError::Refused(_) => AttemptEnd::Refused,
            LaunchError::Impossible(_) => AttemptEnd::Failed(FailureCause::Program),
        }
    }

    /// An error for an operation that the machine refused.
    pub fn refused(what: &str) -> impl FnOnce(io::Error) -> Self {
        move |error| LaunchError::Refused(format!("cannot {what}: {}", with_limits(&error)))
    }
}

/// An error of the system, with the limits on processes if it may come from one.
pub fn with_limits(error: &io::Error) -> String {
    match process_limits(error) {
        Some(limits) => format!("{error}; {limits}"),
        None => error.to_string(),
    }
}

/// A running attempt as the runner sees it. Its end always arrives as [`Input::Ended`], exactly
/// once.
pub trait Job {
    /// Answers its last report.
    fn answer(&mut self, verdict: &Decision);
    /// Asks it to save a checkpoint and exit.
    fn leave(&mut self);
    /// Sends it a signal, as a terminal would to a foreground program.
    fn signal(&mut self, _number: i32) {}
    /// Writes the activity of its processes into its log.
    fn examine(&mut self) {}
    /// Kills it and everything it started.
    fn kill(&mut self);
    /// Its report will never be answered: ends a job that cannot continue without the answer.
    fn give_up(&mut self) {}
}

/// A run that begins.
pub struct BegunRun<'a> {
    /// The epoch of the runner's lease.
    pub epoch: i64,
    /// The runner's channel.
    pub inputs: &'a Sender<Input>,
    /// The study's clock.
    pub clock: Clock,
    /// Time that trials have to save and exit.
    pub grace: Duration,
    /// Attempts that were started for an earlier runner and may still run: each ends by an input,
    /// as others do.
    pub surviving: &'a [SlottedAttempt],
}

/// Starts attempts.
pub trait Launcher {
    /// Starts an attempt; its messages arrive at `inputs`.
    fn launch(
        &mut self,
        assignment: &Assignment,
        inputs: &Sender<Input>,
    ) -> Result<Box<dyn Job>, LaunchError>;

    /// Called once, before the first launch: the queue for logged points.
    fn log_to(&mut self, _points: Arc<PointQueue>) {}

    /// Called once, after that, when the run begins.
    ///
    /// # Errors
    /// The system refuses what trials need.
    fn begin(&mut self, _run: &BegunRun<'_>) -> io::Result<()> {
        Ok(())
    }

    /// An attempt that was started for an earlier runner and may still run.
    fn adopt(&mut self, _trial: TrialNumber, _attempt: AttemptNumber) -> Option<Box<dyn Job>> {
        None
    }

    /// Called when the runner's lease was renewed, in stores where leases end: afterwards another
    /// runner may take the study over.
    fn hold_until(&mut self, _end: Instant) {}

    /// Called when everything before an [`Input::Mark`] is durable.
    fn stored(&mut self, _sender: u64, _number: u64) {}

    /// Called when a job ended: cleans up what it left.
    fn sweep(&mut self) {}

    /// Called at every turn: a killed child may have left processes that hide its end.
    fn look_after(&mut self) {}

    /// Called at every turn: how many more trials could run now, if there were slots for them.
    fn set_demand(&mut self, _trials: u64) {}

    /// Called when a checkpoint of a trial was removed.
    fn removed(&mut self, _trial: TrialNumber, _path: &Path) {}

    /// Called when a slot is no longer used and idle: frees what is kept for it.
    fn vacate(&mut self, _slot: usize) {}

    /// Called when the study is paused and idle: frees what is kept between attempts.
    fn rest(&mut self) {}

    /// Called instead of killing attempts if another runner has taken the study over: leaves alone
    /// what that one continues. Returns whether there is such a thing.
    fn hand_over(&mut self) -> bool {
        false
    }

    /// Ends everything that is kept between attempts.
    fn shut_down(&mut self) {}
}
