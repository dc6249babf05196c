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
mod overlay;
mod picker;
mod picture;
mod preferences;
mod screen;
pub mod search;
mod snapshot;
mod source;
mod state;
mod studies;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;
mod together;
mod trial_key;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use ratatui::crossterm::event::{Event as TerminalEvent, KeyCode, KeyEventKind};
use ratatui::layout::Rect;
use rustix::io::Errno;

use crate::app::AppError;
use crate::app::enqueue::Repeat;
use crate::app::several::StudySelection;
use crate::report::wording::{HolderLife, StudyStatus};
use crate::storage::{HeldLease, StorageError, StorageReader, StudyId};
use crate::study::event;
use crate::study::request::Request;
use crate::study::time::Timestamp;
use loader::{Loader, LoaderMessage};
use preferences::Preferences;
use snapshot::SnapshotRequest;
use source::Source;
pub use source::Watched;
use state::{Command, RunPhase, TuiState};
pub use studies::choose_study;
pub use terminal::{Before, EventPoll};
use terminal::{TerminalGuard, Woken, next_event};
pub use theme::{Palette, Theme};

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
    /// The run continues without its terminal.
    Detached,
    /// The run was over, and more was asked of the study here: run it again.
    RunAgain,
    /// A second Ctrl-C: kill the running trials now.
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
    /// A signal asked the process to leave: the screen is left at once.
    Interrupted,
}

/// Whether a run can continue without its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detach {
    /// The run can continue without the terminal.
    Possible,
    /// It cannot: the shell waits for this very process.
    Impossible,
}

/// What the screens need besides the store's reading side.
pub struct TuiContext<'a> {
    /// Who runs the study.
    pub mode: TuiMode,
    /// Whether an embedded run can be detached.
    pub detach: Detach,
    /// What the terminal can show.
    pub theme: Theme,
    /// The store's path: trials' logs lie beside it.
    pub store: PathBuf,
    /// Checks a request to a study, and puts it into the store; its keys there.
    pub request: &'a mut dyn FnMut(StudyId, Request, Repeat) -> Result<Vec<i64>, AppError>,
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
    Terminal(#[from] io::Error),
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

/// Shows what is watched until it is left; the terminal is restored on every way out, panics
/// included. `event_poll` listens to signals since before anything began that must not be killed by
/// a hang-up.
pub fn run_tui(
    reader: Box<dyn StorageReader>,
    watched: Watched,
    event_poll: EventPoll,
    context: &mut TuiContext<'_>,
) -> Result<TuiExit, TuiError> {
    match show(reader, watched, event_poll, context) {
        // A write meets a closed terminal before the hangup does.
        Err(TuiError::Terminal(error))
            if error.raw_os_error() == Some(Errno::IO.raw_os_error()) =>
        {
            Ok(TuiExit::Gone)
        }
        left => left,
    }
}

fn show(
    reader: Box<dyn StorageReader>,
    watched: Watched,
    event_poll: EventPoll,
    context: &mut TuiContext<'_>,
) -> Result<TuiExit, TuiError> {
    let several = match &watched {
        Watched::One(_) => None,
        // Settings of several studies are kept under what they were chosen by.
        Watched::Several(StudySelection::All) => Some("*".to_owned()),
        Watched::Several(StudySelection::Matching(patterns)) => Some(patterns.join(" ")),
    };
    let mut source =
        Source::new(reader, watched, context.store.clone(), context.life, context.theme);
    // Read once before the terminal is taken: an unreadable store is a plain error message.
    let wanted = Arc::new(SnapshotRequest::first_page(source.first_study()?));
    let snapshot = source.load(&wanted)?;
    let preferences = Preferences::from_environment(
        |name| std::env::var(name).ok(),
        &context.store,
        several.as_ref().unwrap_or(&snapshot.summary.spec.name),
    );
    let mut state = TuiState::new(context.mode, snapshot, preferences.load());
    state.zone = TimeZone::system();
    state.detach = context.detach;
    let loader = Loader::start(source, Arc::clone(&wanted), event_poll.waker()?)?;
    let held = TerminalGuard::take()?;
    Screens { held, event_poll, loader, wanted, state, preferences, drawn: None }.run(context)
}

struct Screens {
    held: TerminalGuard,
    event_poll: EventPoll,
    loader: Loader,
    wanted: Arc<SnapshotRequest>,
    state: TuiState,
    preferences: Preferences,
    drawn: Option<Instant>,
}

impl Screens {
    fn run(mut self, context: &mut TuiContext<'_>) -> Result<TuiExit, TuiError> {
        let mut is_stale = true;
        loop {
            if let Some(exit) = self.exit_by_signal() {
                // The loader's panic is known by the terminal first, which it gave back, and a
                // little later by its silence.
                let patience =
                    if context.mode == TuiMode::Watching { FAREWELL } else { FAREWELL_OF_ONE };
                let is_loaders = !self.held.is_held() && self.loader.ends_within(patience);
                return if is_loaders { Err(TuiError::Loader) } else { Ok(exit) };
            }
            if self.event_poll.takes_suspension() {
                self.held.suspend()?;
                is_stale = true;
            }
            match self.end(context) {
                Command::Leave(exit) => return Ok(exit),
                Command::Ignore => {}
                _ => is_stale = true,
            }
            let waits = self.want()?;
            let is_due = |drawn: Instant| self.has_clock() && drawn.elapsed() >= TICK;
            if self.drawn.is_none_or(is_due) | self.hear()? {
                is_stale = true;
            } else if waits && is_stale {
                // What the key asked for is a moment away; the frame can wait that long.
                let _keys_or_news = self.event_poll.wait(Some(PATIENCE));
                self.hear()?;
            }
            if is_stale {
                self.draw(context.theme)?;
                is_stale = false;
            }
            if self.event_poll.wait(self.patience(context.mode)) == Woken::Gone {
                return Ok(TuiExit::Gone);
            }
            match self.keys(context)? {
                Command::Leave(exit) => return Ok(exit),
                Command::Ignore => {}
                _ => is_stale = true,
            }
        }
    }

    fn exit_by_signal(&self) -> Option<TuiExit> {
        if self.event_poll.is_hung_up() || !self.held.is_held() {
            return Some(TuiExit::Gone);
        }
        self.event_poll.is_terminated().then_some(TuiExit::Left)
    }

    /// What the end of the study, if it has come, means for the screens.
    fn end(&mut self, context: &TuiContext<'_>) -> Command {
        if self.state.is_to_run_again() {
            return Command::Leave(TuiExit::RunAgain);
        }
        let ended = match context.mode {
            TuiMode::Embedded => (context.ended)(),
            TuiMode::Watching => self.state.summary().finished.clone().map(RunnerEnd::Finished),
        };
        match (ended, &self.state.phase) {
            (Some(RunnerEnd::Interrupted), _) => Command::Leave(TuiExit::Left),
            (Some(RunnerEnd::Finished(reason)), RunPhase::Open | RunPhase::Stopping) => {
                self.state.over(reason)
            }
            (None, RunPhase::Over(_)) if context.mode == TuiMode::Watching => {
                // Its budget was raised, and it continues.
                self.state.phase = RunPhase::Open;
                Command::Redraw
            }
            _ => Command::Ignore,
        }
    }

    /// Tells the loader what is wanted, if that is something new; whether it was.
    fn want(&mut self) -> Result<bool, TuiError> {
        let size = self.held.canvas.size()?;
        screen::measure(Rect::new(0, 0, size.width, size.height), &mut self.state);
        let wanted = self.state.wanted();
        if wanted == *self.wanted {
            return Ok(false);
        }
        self.wanted = Arc::new(wanted);
        self.loader.want(Arc::clone(&self.wanted));
        Ok(true)
    }

    /// Takes in what the loader has to say; whether it had something to say.
    fn hear(&mut self) -> Result<bool, TuiError> {
        let mut has_news = false;
        while let Some(news) = self.loader.news()? {
            match news {
                LoaderMessage::Snapshot(snapshot) => self.state.see(*snapshot),
                LoaderMessage::Trouble(trouble) => self.state.notice = Some(trouble),
                LoaderMessage::Removed => self.state.lose(now()),
            }
            has_news = true;
        }
        Ok(has_news)
    }

    /// Whether something on the screen moves by itself.
    fn has_clock(&self) -> bool {
        match &self.state.seen.together {
            Some(together) => together.running() > 0,
            None => self.state.seen.state == StudyStatus::Running,
        }
    }

    fn patience(&self, mode: TuiMode) -> Option<Duration> {
        match mode {
            TuiMode::Embedded => Some(ENDING),
            TuiMode::Watching => self.has_clock().then(|| {
                self.drawn.map_or(Duration::ZERO, |drawn| TICK.saturating_sub(drawn.elapsed()))
            }),
        }
    }

    fn draw(&mut self, theme: Theme) -> Result<(), TuiError> {
        let state = &mut self.state;
        self.held.draw(|frame| screen::draw(frame, state, now(), theme))?;
        self.drawn = Some(Instant::now());
        Ok(())
    }

    /// Takes all keys that are there.
    fn keys(&mut self, context: &mut TuiContext<'_>) -> Result<Command, TuiError> {
        let mut done = Command::Ignore;
        while self.exit_by_signal().is_none()
            && let Some(event) = next_event()?
        {
            let command = match event {
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
                    self.carry_out(command, context)?;
                    done = Command::Redraw;
                }
            }
        }
        Ok(done)
    }

    fn carry_out(
        &mut self,
        command: Command,
        context: &mut TuiContext<'_>,
    ) -> Result<(), TuiError> {
        match command {
            Command::Ask(request) => self.ask(request, Repeat::Refused, context),
            Command::Repeat(params) => {
                self.ask(Request::Enqueue { params }, Repeat::Wanted, context)
            }
            Command::Copy(text) => self.held.send(&clipboard::sequence(&text))?,
            Command::Keep => {
                if let Err(error) = self.preferences.keep(&self.state.settings) {
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
            Command::Refresh => self.held.clear()?,
            Command::Ignore | Command::Redraw | Command::Leave(_) => {}
        }
        Ok(())
    }

    fn ask(&mut self, request: Request, repeat: Repeat, context: &mut TuiContext<'_>) {
        // Notes and tags are done at once, and need no answer.
        let is_answered = event::Event::requested(&request).is_none();
        match ((context.request)(self.state.focus(), request.clone(), repeat), request) {
            (Ok(ids), _) if is_answered => ids.into_iter().for_each(|id| self.state.asked(id)),
            (Ok(_), _) => {}
            (Err(AppError::Tried { trial }), Request::Enqueue { params }) => {
                self.state.ask_to_repeat(params, trial)
            }
            (Err(error), _) => {
                self.state.notice = Some(format!("not asked: {}", error.with_remedy()))
            }
        }
    }
}

/// Panics at the key that `HPSEARCH_PANIC_AT_KEY` names, in debug builds alone: for the test that a
/// panic gives the terminal back, which is true of a real process on a real terminal or not at all.
fn panic_if_told(code: KeyCode) {
    if cfg!(debug_assertions)
        && let KeyCode::Char(key) = code
        && std::env::var("HPSEARCH_PANIC_AT_KEY").is_ok_and(|asked| asked == key.to_string())
    {
        panic!("told to panic at `{key}`");
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
