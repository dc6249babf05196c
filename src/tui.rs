//! The live screens: state -> what is wanted -> snapshot -> draw, fed by the store alone, the same
//! for `run` and `watch`.

#![expect(clippy::disallowed_methods, reason = "screens wait, and load on threads of their own")]

pub mod chart;
mod clipboard;
mod columns;
pub mod compare;
mod detail;
pub mod devices;
mod events;
mod form;
mod header;
mod journal;
mod keys;
mod leaderboard;
mod line;
mod list;
mod loader;
mod log;
mod look;
mod overlay;
mod picker;
mod picture;
mod preferences;
mod screen;
pub mod search;
mod snapshot;
mod state;
mod studies;
mod terminal;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use ratatui::crossterm::event::{Event as TerminalEvent, KeyCode, KeyEventKind, poll, read};
use ratatui::layout::Rect;
use rustix::io::Errno;

use crate::report::wording::{HolderLife, StudyStatus};
use crate::storage::{HeldLease, StorageError, StorageReader, StudyId};
use crate::study::event::Request;
use crate::study::time::Timestamp;
use loader::{Loader, LoaderMessage};
pub use look::{Look, Palette};
use preferences::Preferences;
use snapshot::{Source, Wanted};
use state::{Command, RunPhase, State};
pub use studies::choose_study;
pub use terminal::Before;
use terminal::{Alarm, TerminalGuard, Woken};

/// Who runs the study that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuiMode {
    /// This process (`hpsearch run`): leaving means stopping, or detaching.
    Embedded,
    /// Another one, or none (`hpsearch watch`).
    Watching,
}

/// How the screens were left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuiExit {
    /// The person left, or the end had come.
    Left,
    /// The run shall continue without its terminal.
    Detached,
    /// The run was over, and more was asked of the study here: it shall be run again.
    RunAgain,
    /// A second Ctrl-C: the running trials shall be killed now.
    KillNow,
    /// The terminal was closed, or a panic took it away: nobody can stop the study from here any
    /// more.
    Gone,
}

/// How the embedded runner ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunnerEnd {
    /// The study is over or was stopped: the screen stays, so that it can be read.
    Finished(String),
    /// The process was told to leave (a signal): the screen is left at once.
    Interrupted,
}

/// Whether a run can continue without its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detach {
    /// It can.
    Possible,
    /// It cannot: the shell waits for this very process.
    Impossible,
}

/// What the screens need besides the store's reading side.
pub struct Surroundings<'a> {
    /// Who runs the study.
    pub mode: TuiMode,
    /// Whether an embedded run can be detached.
    pub detach: Detach,
    /// What the terminal can show.
    pub look: Look,
    /// The store's path: trials' logs lie beside it.
    pub store: PathBuf,
    /// Puts a request into the store; its key there.
    pub request: &'a mut dyn FnMut(Request) -> Result<i64, StorageError>,
    /// Set when the embedded runner has ended; always `None` when watching.
    pub ended: &'a dyn Fn() -> Option<RunnerEnd>,
    /// Whether the process that holds the study lives.
    pub life: fn(&HeldLease) -> HolderLife,
}

/// What can go wrong with the screens.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// The terminal cannot be used.
    #[error("the terminal cannot show the leaderboard; `--plain` prints lines instead")]
    Terminal(#[source] io::Error),
    /// The store cannot be read.
    #[error("the study cannot be read: `hpsearch doctor` looks at the store")]
    Storage(#[from] StorageError),
    /// A panic of the thread that reads the store; its message was printed.
    #[error("reading the store failed; please report the message above")]
    Loader,
}

/// How often the clocks on the screen move, where there is one that runs.
const TICK: Duration = Duration::from_secs(1);
/// How often an embedded runner's end is looked for.
const ENDING: Duration = Duration::from_millis(200);
/// How long a thread that panicked takes to end: it prints where it was, which on a busy machine
/// takes its time. While watching, the loader is the only one that can have.
const FAREWELL: Duration = Duration::from_secs(20);
/// The same where it may have been the runner.
const FAREWELL_OF_ONE: Duration = Duration::from_secs(2);
/// A frame after a key waits so long for what it wants, so that it is drawn once.
const PATIENCE: Duration = Duration::from_millis(15);

/// Shows `study` until it is left; the terminal is restored on every way out, panics included.
pub fn run_tui(
    reader: Box<dyn StorageReader>,
    study: StudyId,
    surroundings: &mut Surroundings<'_>,
) -> Result<TuiExit, TuiError> {
    let mut source = Source::new(
        reader,
        study,
        surroundings.store.clone(),
        surroundings.life,
        surroundings.look,
    );
    // Read once before the terminal is taken: an unreadable store is a plain error message.
    let wanted = Arc::new(Wanted::first_page());
    let snapshot = source.load(&wanted)?;
    let preferences = Preferences::from_environment(
        |name| std::env::var(name).ok(),
        &surroundings.store,
        &snapshot.summary.spec.name,
    );
    let mut state = State::new(surroundings.mode, snapshot, preferences.load());
    state.zone = TimeZone::system();
    state.detach = surroundings.detach;
    let alarm = Alarm::new(surroundings.mode).map_err(TuiError::Terminal)?;
    let loader =
        Loader::start(source, Arc::clone(&wanted), alarm.waker().map_err(TuiError::Terminal)?)
            .map_err(TuiError::Terminal)?;
    let held = TerminalGuard::take().map_err(TuiError::Terminal)?;
    let screens = Screens { held, alarm, loader, wanted, state, preferences, drawn: None };
    match screens.run(surroundings) {
        // A write meets a closed terminal before the hangup does.
        Err(TuiError::Terminal(error))
            if error.raw_os_error() == Some(Errno::IO.raw_os_error()) =>
        {
            Ok(TuiExit::Gone)
        }
        left => left,
    }
}

struct Screens {
    held: TerminalGuard,
    alarm: Alarm,
    loader: Loader,
    wanted: Arc<Wanted>,
    state: State,
    preferences: Preferences,
    drawn: Option<Instant>,
}

/// Whether the screen is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freshness {
    Current,
    Stale,
}

impl Screens {
    fn run(mut self, surroundings: &mut Surroundings<'_>) -> Result<TuiExit, TuiError> {
        let mut frame = Freshness::Stale;
        loop {
            if let Some(exit) = self.told_to_leave() {
                // The loader's panic is known by the terminal first, which it gave back, and a
                // little later by its silence.
                let patience =
                    if surroundings.mode == TuiMode::Watching { FAREWELL } else { FAREWELL_OF_ONE };
                let is_loaders = !self.held.is_held() && self.loader.ends_within(patience);
                return if is_loaders { Err(TuiError::Loader) } else { Ok(exit) };
            }
            if self.alarm.told_to_suspend() {
                self.held.suspend().map_err(TuiError::Terminal)?;
                frame = Freshness::Stale;
            }
            match self.end(surroundings) {
                Command::Leave(exit) => return Ok(exit),
                Command::Ignore => {}
                _ => frame = Freshness::Stale,
            }
            let waits = self.want()?;
            if self.hear()? == Freshness::Stale
                || self.drawn.is_none_or(|drawn| self.has_clock() && drawn.elapsed() >= TICK)
            {
                frame = Freshness::Stale;
            } else if waits && frame == Freshness::Stale {
                // What the key asked for is a moment away; the frame can wait that long.
                let _keys_or_news = self.alarm.wait(Some(PATIENCE));
                self.hear()?;
            }
            if frame == Freshness::Stale {
                self.draw(surroundings.look)?;
                frame = Freshness::Current;
            }
            if self.alarm.wait(self.patience(surroundings.mode)) == Woken::Gone {
                return Ok(TuiExit::Gone);
            }
            match self.keys(surroundings)? {
                Command::Leave(exit) => return Ok(exit),
                Command::Ignore => {}
                _ => frame = Freshness::Stale,
            }
        }
    }

    fn told_to_leave(&self) -> Option<TuiExit> {
        if self.alarm.hung_up() || !self.held.is_held() {
            return Some(TuiExit::Gone);
        }
        self.alarm.told_to_leave().then_some(TuiExit::Left)
    }

    /// What the end of the study, if it has come, means for the screens.
    fn end(&mut self, surroundings: &Surroundings<'_>) -> Command {
        if self.state.is_to_run_again() {
            return Command::Leave(TuiExit::RunAgain);
        }
        let ended = match surroundings.mode {
            TuiMode::Embedded => (surroundings.ended)(),
            TuiMode::Watching => self.state.seen.summary.finished.clone().map(RunnerEnd::Finished),
        };
        match (ended, &self.state.phase) {
            (Some(RunnerEnd::Interrupted), _) => Command::Leave(TuiExit::Left),
            (Some(RunnerEnd::Finished(reason)), RunPhase::Open | RunPhase::Stopping) => {
                self.state.over(reason)
            }
            (None, RunPhase::Over(_)) if surroundings.mode == TuiMode::Watching => {
                // Its budget was raised, and it continues.
                self.state.phase = RunPhase::Open;
                Command::Redraw
            }
            _ => Command::Ignore,
        }
    }

    /// Tells the loader what is wanted, if that is something new; whether it was.
    fn want(&mut self) -> Result<bool, TuiError> {
        let size = self.held.canvas.size().map_err(TuiError::Terminal)?;
        screen::measure(Rect::new(0, 0, size.width, size.height), &mut self.state);
        let wanted = self.state.wanted();
        if wanted == *self.wanted {
            return Ok(false);
        }
        self.wanted = Arc::new(wanted);
        self.loader.want(Arc::clone(&self.wanted));
        Ok(true)
    }

    /// Takes in what the loader has to say.
    fn hear(&mut self) -> Result<Freshness, TuiError> {
        let mut frame = Freshness::Current;
        while let Some(news) = self.loader.news().map_err(|_| TuiError::Loader)? {
            match news {
                LoaderMessage::Snapshot(snapshot) => self.state.see(*snapshot),
                LoaderMessage::Trouble(trouble) => self.state.notice = Some(trouble),
            }
            frame = Freshness::Stale;
        }
        Ok(frame)
    }

    /// Whether something on the screen moves by itself.
    fn has_clock(&self) -> bool {
        self.state.seen.state == StudyStatus::Running
    }

    fn patience(&self, mode: TuiMode) -> Option<Duration> {
        match mode {
            TuiMode::Embedded => Some(ENDING),
            TuiMode::Watching => self.has_clock().then(|| {
                self.drawn.map_or(Duration::ZERO, |drawn| TICK.saturating_sub(drawn.elapsed()))
            }),
        }
    }

    fn draw(&mut self, look: Look) -> Result<(), TuiError> {
        let state = &mut self.state;
        self.held
            .draw(|frame| screen::draw(frame, state, now(), look))
            .map_err(TuiError::Terminal)?;
        self.drawn = Some(Instant::now());
        Ok(())
    }

    /// Takes all keys that are there.
    fn keys(&mut self, surroundings: &mut Surroundings<'_>) -> Result<Command, TuiError> {
        let mut done = Command::Ignore;
        while poll(Duration::ZERO).map_err(TuiError::Terminal)? {
            let command = match read().map_err(TuiError::Terminal)? {
                TerminalEvent::Key(key) if key.kind != KeyEventKind::Release => {
                    panic_if_told(key.code);
                    self.state.press(key)
                }
                TerminalEvent::Paste(text) => self.state.paste(&text),
                TerminalEvent::Resize(_, _) => Command::Redraw,
                _ => Command::Ignore,
            };
            match command {
                Command::Ignore => {}
                Command::Leave(_) => return Ok(command),
                command => {
                    self.carry_out(command, surroundings)?;
                    done = Command::Redraw;
                }
            }
        }
        Ok(done)
    }

    fn carry_out(
        &mut self,
        command: Command,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<(), TuiError> {
        match command {
            Command::Ask(request) => {
                // Notes and tags are done at once, and need no answer.
                let is_answered = request.entry().is_none();
                match (surroundings.request)(request) {
                    Ok(id) if is_answered => self.state.asked(id),
                    Ok(_) => {}
                    Err(error) => {
                        self.state.notice = Some(format!("not asked: {}", error.with_remedy()))
                    }
                }
            }
            Command::Copy(text) => {
                self.held.send(&clipboard::sequence(&text)).map_err(TuiError::Terminal)?
            }
            Command::Keep => {
                if let Err(error) = self.preferences.keep(&self.state.choices) {
                    self.state.notice =
                        Some(format!("the choice holds for this session only: {error}"));
                }
            }
            Command::Suspend => {
                // The whole group, as the terminal itself would: `cargo run` waits for us. Our
                // handler sees it, too.
                let _ours_at_least =
                    rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
            }
            Command::Refresh => self.held.clear().map_err(TuiError::Terminal)?,
            Command::Ignore | Command::Redraw | Command::Leave(_) => {}
        }
        Ok(())
    }
}

/// Panics at the key that `HPSEARCH_PANIC_AT_KEY` names, in debug builds alone: for the test that a
/// panic gives the terminal back, which is true of a real process on a real terminal or not at all.
fn panic_if_told(code: KeyCode) {
    if cfg!(debug_assertions)
        && let KeyCode::Char(key) = code
        && std::env::var("HPSEARCH_PANIC_AT_KEY").is_ok_and(|told| told == key.to_string())
    {
        panic!("told to panic at `{key}`");
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
