//! The live leaderboard: state -> snapshot -> draw, fed by the store alone, the same for `run` and `watch`.

pub mod chart;
mod detail;
mod keys;
mod leaderboard;
mod look;
mod screen;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{Event as TerminalEvent, KeyEventKind, poll, read};
use ratatui::layout::Rect;

use crate::event::Request;
use crate::reporters::wording::HolderLife;
use crate::storage::{Holder, StorageError, StorageReader, StudyId};
use crate::time::Timestamp;
pub use look::{Look, Palette};
use snapshot::Snapshot;
use state::{Command, State};

/// Who runs the study that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuiMode {
    /// This process (`hpsearch run`): leaving means stopping.
    Embedded,
    /// Another one, or none (`hpsearch watch`).
    Watching,
}

/// How the screen was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuiExit {
    /// The person left, or the end had come.
    Left,
    /// A second Ctrl-C: the running trials shall be killed now.
    KillNow,
}

/// How the embedded runner ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunnerEnd {
    /// The study is over or was stopped: the screen stays, so that it can be read.
    Finished(String),
    /// The process was told to leave (a signal): the screen is left at once.
    Interrupted,
}

/// What the screen needs besides the store's reading side.
pub struct Surroundings<'a> {
    /// Who runs the study.
    pub mode: TuiMode,
    /// What the terminal can show.
    pub look: Look,
    /// Puts a request into the store.
    pub request: &'a mut dyn FnMut(Request) -> Result<(), StorageError>,
    /// Set when the embedded runner has ended; always `None` when watching.
    pub ended: &'a dyn Fn() -> Option<RunnerEnd>,
    /// Whether the process that holds the study lives.
    pub life: &'a dyn Fn(&Holder) -> HolderLife,
}

/// What can go wrong with the screen.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// The terminal cannot be used.
    #[error("the terminal cannot show the leaderboard; `--plain` prints lines instead")]
    Terminal(#[source] io::Error),
    /// The store cannot be read.
    #[error("the study cannot be read")]
    Storage(#[from] StorageError),
}

/// How often keys and the store are looked at.
const TURN: Duration = Duration::from_millis(150);
/// How often the clocks on the screen move.
const TICK: Duration = Duration::from_secs(1);

/// Shows `study` until it is left; the terminal is restored on every way out, panics included.
pub fn run_tui(reader: Box<dyn StorageReader>, study: StudyId, surroundings: &mut Surroundings<'_>) -> Result<TuiExit, TuiError> {
    let mut state = State::new(surroundings.mode);
    // Read once before the terminal is taken: an unreadable store is a plain error message.
    let snapshot = Snapshot::load(&*reader, study, &mut state, surroundings.life)?;
    let told_to_leave = leave_on_signals(surroundings.mode)?;
    let terminal = ratatui::try_init().map_err(TuiError::Terminal)?;
    let _restored = Restored;
    Screen { terminal, reader, study, state, snapshot, told_to_leave }.run(surroundings)
}

/// SIGTERM and SIGHUP as a flag when watching, so that the terminal is restored; an embedding runner has its own handlers.
fn leave_on_signals(mode: TuiMode) -> Result<Arc<AtomicBool>, TuiError> {
    let flag = Arc::new(AtomicBool::new(false));
    if mode == TuiMode::Watching {
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(TuiError::Terminal)?;
        }
    }
    Ok(flag)
}

/// Whether there still is a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Terminal {
    There,
    Gone,
}

/// Waits until there is something to read. crossterm cannot be asked: a terminal that was closed reads as ready for ever,
/// and its `poll` never comes back from that.
fn wait_for_keys(wait: Duration) -> Terminal {
    use rustix::event::{PollFd, PollFlags};
    let stdin = io::stdin();
    let mut keys = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = rustix::event::Timespec::try_from(wait).ok();
    // Interrupted by a signal (the window's size, a request to leave): what it was is looked for by the caller.
    let _interrupted = rustix::event::poll(&mut keys, wait.as_ref());
    if keys[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) { Terminal::Gone } else { Terminal::There }
}

/// Restores the terminal when it goes out of scope.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        // Nothing can be done, or said, about a terminal that cannot be restored (it was closed).
        let _ = ratatui::try_restore();
    }
}

struct Screen {
    terminal: DefaultTerminal,
    reader: Box<dyn StorageReader>,
    study: StudyId,
    state: State,
    snapshot: Snapshot,
    told_to_leave: Arc<AtomicBool>,
}

impl Screen {
    fn run(mut self, surroundings: &mut Surroundings<'_>) -> Result<TuiExit, TuiError> {
        let mut look_again = Command::Reload;
        let mut drawn: Option<Instant> = None;
        loop {
            if self.told_to_leave.load(Ordering::Relaxed) {
                return Ok(TuiExit::Left);
            }
            match self.end(surroundings) {
                Command::Leave(exit) => return Ok(exit),
                Command::Redraw => look_again = Command::Reload,
                _ => {}
            }
            // A line of notice takes a row of the table, and so does a smaller window.
            let rows = self.rows()?;
            if look_again == Command::Reload || rows != self.state.page() || self.store_changed() {
                self.load(rows, surroundings);
                look_again = Command::Redraw;
            }
            if look_again == Command::Redraw || drawn.is_none_or(|drawn| drawn.elapsed() >= TICK) {
                self.draw(surroundings.look)?;
                drawn = Some(Instant::now());
            }
            look_again = match self.next_command()? {
                Command::Leave(exit) => return Ok(exit),
                Command::Ask(request) => self.ask(&request, surroundings),
                other => other,
            };
        }
    }

    /// What the end of the study, if it has come, means for the screen.
    fn end(&mut self, surroundings: &Surroundings<'_>) -> Command {
        use state::Course;
        let ended = match surroundings.mode {
            TuiMode::Embedded => (surroundings.ended)(),
            TuiMode::Watching => self.snapshot.summary.finished.clone().map(RunnerEnd::Finished),
        };
        match (ended, &self.state.course) {
            (Some(RunnerEnd::Interrupted), _) => Command::Leave(TuiExit::Left),
            (Some(RunnerEnd::Finished(reason)), Course::Open | Course::Stopping) => self.state.over(reason),
            (None, Course::Over(_)) if surroundings.mode == TuiMode::Watching => {
                // Its budget was raised, and it goes on.
                self.state.course = Course::Open;
                Command::Redraw
            }
            _ => Command::Ignore,
        }
    }

    /// Errors of reading are shown, and reading is tried again: a store that is busy for a moment ends nothing.
    fn store_changed(&mut self) -> bool {
        match self.reader.changed() {
            Ok(changed) => changed,
            Err(error) => {
                self.state.notice = Some(error.to_string());
                false
            }
        }
    }

    fn rows(&self) -> Result<u64, TuiError> {
        let size = self.terminal.size().map_err(TuiError::Terminal)?;
        Ok(screen::rows(Rect::new(0, 0, size.width, size.height), &self.state))
    }

    fn load(&mut self, rows: u64, surroundings: &Surroundings<'_>) {
        self.state.resize(rows);
        match Snapshot::load(&*self.reader, self.study, &mut self.state, surroundings.life) {
            Ok(snapshot) => self.snapshot = snapshot,
            Err(error) => self.state.notice = Some(error.to_string()),
        }
    }

    fn draw(&mut self, look: Look) -> Result<(), TuiError> {
        let (snapshot, state) = (&self.snapshot, &mut self.state);
        self.terminal.draw(|frame| screen::draw(frame, snapshot, state, now(), look)).map_err(TuiError::Terminal)?;
        Ok(())
    }

    /// Waits for a key for one turn, then takes all that are there.
    fn next_command(&mut self) -> Result<Command, TuiError> {
        if wait_for_keys(TURN) == Terminal::Gone {
            return Ok(Command::Leave(TuiExit::Left));
        }
        let mut command = Command::Ignore;
        while poll(Duration::ZERO).map_err(TuiError::Terminal)? {
            let next = match read().map_err(TuiError::Terminal)? {
                TerminalEvent::Key(key) if key.kind != KeyEventKind::Release => self.state.press(key),
                TerminalEvent::Resize(_, _) => Command::Reload,
                _ => Command::Ignore,
            };
            match next {
                Command::Ignore => {}
                // Rows that must be loaded stay to be loaded, whatever comes after.
                Command::Redraw if command == Command::Reload => {}
                Command::Ask(_) | Command::Leave(_) => return Ok(next),
                _ => command = next,
            }
        }
        Ok(command)
    }

    fn ask(&mut self, request: &Request, surroundings: &mut Surroundings<'_>) -> Command {
        if let Err(error) = (surroundings.request)(request.clone()) {
            self.state.notice = Some(format!("not asked: {error}"));
        }
        Command::Redraw
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
