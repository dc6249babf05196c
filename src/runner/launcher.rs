//! The seam between the runner and whatever carries out a trial: processes, threads of this
//! process, or a script.

use std::io;
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::point_queue::PointQueue;
use crate::engine::{Assignment, Input};
use crate::study::decision::Decision;

/// Why an attempt could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The machine refuses what it needs: room, files, processes. It may give it later; no trial is
    /// at fault.
    #[error("{0}")]
    Refused(String),
    /// It can be started nowhere and never.
    #[error("{0}")]
    Impossible(String),
}

impl LaunchError {
    /// Why the machine refuses what was tried.
    pub fn refused(what: &str) -> impl FnOnce(io::Error) -> Self {
        move |error| LaunchError::Refused(format!("cannot {what}: {error}"))
    }
}

/// A running attempt, as the runner holds it. Its end arrives as [`Input::Ended`], always, exactly
/// once.
pub trait Job {
    /// Answers its last report.
    fn answer(&mut self, verdict: &Decision);
    /// Asks it to checkpoint and leave.
    fn leave(&mut self);
    /// Sends it a signal, as the terminal of a program in the foreground would.
    fn signal(&mut self, _number: i32) {}
    /// Writes into its log what its processes are doing, as far as the system tells.
    fn examine(&mut self) {}
    /// Ends it at once, with everything it started.
    fn kill(&mut self);
    /// Its report will never be answered. A job that cannot continue, nor leave, without an answer
    /// is ended.
    fn give_up(&mut self) {}
}

/// Starts attempts.
pub trait Launcher {
    /// Starts one; what it says arrives at `inputs`.
    fn launch(
        &mut self,
        assignment: &Assignment,
        inputs: &Sender<Input>,
    ) -> Result<Box<dyn Job>, LaunchError>;

    /// Called before anything is launched: where attempts put the points that they log.
    fn log_to(&mut self, _points: Arc<PointQueue>) {}

    /// Called when a job ended: what it left behind is cleared away.
    fn sweep(&mut self) {}

    /// Called at every turn: a child that was killed may have left what hides its end.
    fn look_after(&mut self) {}

    /// Called when nothing is started on a slot any more, and nothing runs there: what is kept for
    /// it holds memory for nobody.
    fn vacate(&mut self, _slot: usize) {}

    /// Called when the study is paused and nothing runs: what is kept between attempts holds memory
    /// for nobody.
    fn rest(&mut self) {}

    /// Ends whatever is kept between attempts.
    fn shut_down(&mut self) {}
}
