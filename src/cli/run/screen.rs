//! A run with the live leaderboard.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Sender;
use signal_hook::consts::SIGHUP;

use super::no_signals;
use crate::app::control::post;
use crate::app::study_state::life;
use crate::cli::console::{Console, shown};
use crate::cli::exit::{AGAIN, Exit, Failure};
use crate::cli::foreground::Foreground;
use crate::engine::{Input, RunOutcome};
use crate::runner::signals::{HangUp, SignalWatch};
use crate::runner::{Runner, RunnerError};
use crate::storage::StoredStudy;
use crate::storage::any::{AnyReader, AnyStore};
use crate::tui::{
    Detach, EventPoll, RunnerEnd, TuiContext, TuiError, TuiExit, TuiMode, Watched, run_tui,
};

/// How a run with screens ended.
pub(super) enum Left {
    /// It is over: its outcome, and the signal that ended it.
    Over(RunOutcome, Option<i32>),
    /// It was over, and a request on its screens continues the study.
    ToRunAgain,
}

/// Shared by the screen's and the runner's thread: written once by the runner's.
type Ended = Arc<Mutex<Option<RunnerEnd>>>;

/// Stops the runner if the screen panics: the scope waits for it, and without a screen it could not
/// be stopped.
struct InOrder(Sender<Input>);

impl Drop for InOrder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(self.0.send(Input::Interrupt));
        }
    }
}

/// Runs with the live leaderboard: the runner on its own thread, the screen here, connected by the
/// store only.
pub(super) fn on_screen(
    mut store: AnyStore,
    study: &StoredStudy,
    log: &Path,
    console: &Console,
    start: impl for<'a> FnOnce(&'a mut AnyStore) -> Result<Runner<'a>, RunnerError> + Send,
) -> Result<Left, Failure> {
    let reader = AnyReader::open(&console.store)?;
    let ended: Ended = Arc::default();
    // Before the runner starts: a terminal that is closed then must not kill it.
    let event_poll = EventPoll::new(TuiMode::Embedded).map_err(TuiError::from)?;
    let (inputs_tx, inputs_rx) =
        crossbeam_channel::bounded::<Result<Sender<Input>, RunnerError>>(1);
    std::thread::scope(|scope| {
        let ended_there = Arc::clone(&ended);
        let running = scope.spawn(move || {
            let runner = match start(&mut store) {
                Ok(runner) => runner,
                Err(error) => {
                    let _screen_waits = inputs_tx.send(Err(error));
                    return None;
                }
            };
            let _screen_waits = inputs_tx.send(Ok(runner.inputs()));
            let outcome = runner.run();
            let end = match &outcome {
                Ok(RunOutcome::Interrupted(_)) => RunnerEnd::Interrupted,
                Ok(outcome) => RunnerEnd::Finished(outcome.reason().to_owned()),
                Err(error) => RunnerEnd::Finished(error.to_string()),
            };
            *ended_there.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
            // The log's remains are saved once the screen has closed its own connection.
            Some((outcome, store))
        });
        let inputs = match inputs_rx.recv() {
            Ok(Ok(inputs)) => inputs,
            Ok(Err(error)) => return Err(Failure::from(error)),
            Err(_) => {
                return Err(
                    Failure::new(Exit::Internal, "the runner ended before it began").help(AGAIN)
                );
            }
        };
        let _in_order = InOrder(inputs.clone());
        let signals = SignalWatch::start(
            inputs.clone(),
            HangUp::IsTheScreens,
            console.foreground.as_ref().map(Foreground::signals),
        )
        .map_err(no_signals)?;
        let store = console.store.clone();
        let mut context = TuiContext {
            mode: TuiMode::Embedded,
            detach: if console.foreground.is_some() {
                Detach::Possible
            } else {
                Detach::Impossible
            },
            theme: console.look,
            store: console.store.clone(),
            // Requests after the end are served here.
            request: &mut |study, request, repeat| post(&store, study, request, repeat),
            ended: &|| ended.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            life,
        };
        let left = run_tui(Box::new(reader), Watched::One(study.id), event_poll, &mut context);
        match &left {
            Ok(TuiExit::Left | TuiExit::RunAgain) => {}
            Ok(TuiExit::Detached) => detach(study, log, console),
            Ok(TuiExit::KillNow) => drop(inputs.send(Input::KillAll)),
            // Without a screen the run could not be stopped: it is ended in order.
            Ok(TuiExit::Gone) | Err(_) => drop(inputs.send(Input::Interrupt)),
        }
        let outcome = running
            .join()
            .map_err(|_| Failure::new(Exit::Internal, "the runner panicked").help(AGAIN))?;
        let left = left?;
        let (outcome, _store) = outcome
            .ok_or_else(|| Failure::new(Exit::Internal, "the runner did not start").help(AGAIN))?;
        if left == TuiExit::RunAgain {
            return Ok(Left::ToRunAgain);
        }
        let hung_up = (left == TuiExit::Gone).then_some(SIGHUP);
        Ok(Left::Over(outcome?, hung_up.or(signals.received())))
    })
}

/// Detaches the run from its terminal. If that fails, it stays there, without its screen.
fn detach(study: &StoredStudy, log: &Path, console: &Console) {
    let (name, pid) = (&study.spec.name, std::process::id());
    let says = || {
        console.say(&format!(
            "study `{name}` continues in the background, as process {pid}; what it \
            says at its end goes to {}",
            shown(log)
        ));
        let [watch, stop] = ["watch", "stop"].map(|verb| console.next(&format!("{verb} {name}")));
        console.say(&format!("{watch} shows it, {stop} stops it"));
    };
    let detached = console.foreground.as_ref().map(|foreground| foreground.detach(log, says));
    if let Some(Err(error)) = detached {
        let log = shown(log);
        console.say(&format!(
            "cannot detach, `{log}` or a session is refused ({error}): the study \
            continues here without its screen; Ctrl-C stops it"
        ));
    }
}
