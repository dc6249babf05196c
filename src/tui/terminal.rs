//! The terminal: taken, given back on every way out, and waited on together with signals and news
//! from the loader.

use std::io::{self, BufWriter, Read, Stdout, Write};
use std::net::Shutdown;
use std::os::fd::IntoRawFd as _;
use std::os::unix::net::UnixStream;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, TryLockError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste, Event, poll, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};
use rustix::process::getpgrp;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level::unregister;

use super::TuiMode;
use crate::runner::threads;

/// Whether the screens hold the terminal: a panic anywhere in the process gives it back before it
/// says what happened.
static HELD: AtomicBool = AtomicBool::new(false);

/// Whose turn it is to write to the terminal: a frame that is half drawn while a panic gives the
/// terminal back would end up over its message.
static TURN: Mutex<()> = Mutex::new(());

/// How long a panic waits for a frame; the thread that draws one may be the one that panicked.
const LAST_FRAME: Duration = Duration::from_millis(300);

/// How long keys are looked for that are there already.
const FOR_KEYS: Duration = Duration::from_micros(100);

/// What frames are drawn on. Everything of a frame goes out in one write.
pub type Canvas = Terminal<CrosstermBackend<BufWriter<Screen>>>;

/// Standard output while the terminal is held, and nothing after: ratatui panics where it cannot
/// give a closed terminal its cursor back, which [`leave`] has done.
pub struct Screen(Stdout);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if HELD.load(Ordering::Relaxed) { self.0.write(bytes) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if HELD.load(Ordering::Relaxed) { self.0.flush() } else { Ok(()) }
    }
}

/// The terminal while it is held; dropping gives it back.
pub struct TerminalGuard {
    /// What frames are drawn on.
    pub canvas: Canvas,
}

impl TerminalGuard {
    /// Takes the terminal: raw keys, a screen of its own.
    pub fn take() -> io::Result<TerminalGuard> {
        give_back_on_panic();
        enter()?;
        // A process that was killed here has left its last frame on the screen, which frames are
        // compared with as if it were blank.
        match cleared() {
            Ok(canvas) => Ok(TerminalGuard { canvas }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Forgets what was drawn: the next frame draws every cell. ratatui's own `clear` asks the
    /// terminal where its cursor is, and waits for the answer.
    pub fn clear(&mut self) -> io::Result<()> {
        self.canvas = cleared()?;
        Ok(())
    }

    /// Draws a frame, unless a panic has taken the terminal away.
    pub fn draw(&mut self, frame: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        // A panic of this thread while it drew poisons nothing that matters.
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_held() {
            self.canvas.draw(frame)?;
        }
        Ok(())
    }

    /// Whether it still is held: a panic in another thread has given it back.
    pub fn is_held(&self) -> bool {
        HELD.load(Ordering::Relaxed)
    }

    /// Gives the terminal back, stops this process as the shell expects it, and takes the terminal
    /// when it continues.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
        enter()?;
        // Whatever is on the screen now, it is not what was drawn last.
        self.clear()
    }

    /// Sends text to the terminal past the frames: for the clipboard.
    pub fn send(&mut self, text: &str) -> io::Result<()> {
        let out = self.canvas.backend_mut();
        out.write_all(text.as_bytes())?;
        Write::flush(out)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        give_back();
    }
}

fn cleared() -> io::Result<Canvas> {
    execute!(io::stdout(), Clear(ClearType::All))?;
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 16, Screen(io::stdout()))))
}

fn enter() -> io::Result<()> {
    HELD.store(true, Ordering::Relaxed);
    let taken = enable_raw_mode()
        .and_then(|()| execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste));
    if taken.is_err() {
        give_back();
    }
    taken
}

/// The terminal's settings before another process takes it.
pub struct Before(Termios);

impl Before {
    /// The settings as they are now.
    ///
    /// # Errors
    /// Standard input is no terminal.
    pub fn remember() -> io::Result<Before> {
        Ok(Before(tcgetattr(io::stdin())?))
    }

    /// Gives the terminal back for a process that was killed while it held it; whether that was so.
    /// One that is this process's no more is left alone: its shell has it.
    pub fn put_back(&self) -> bool {
        let stdin = io::stdin();
        let is_ours = tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp());
        let is_held =
            is_ours && tcgetattr(&stdin).is_ok_and(|now| now.local_modes != self.0.local_modes);
        if is_held {
            let _ = tcsetattr(&stdin, OptionalActions::Flush, &self.0);
            leave();
        }
        is_held
    }
}

fn leave() {
    let _ = execute!(io::stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
}

/// Nothing can be done, or said, about a terminal that cannot be given back (it was closed).
fn give_back() {
    if HELD.swap(false, Ordering::Relaxed) {
        let _ = disable_raw_mode();
        leave();
    }
}

fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            let until = Instant::now() + LAST_FRAME;
            let _turn = loop {
                match TURN.try_lock() {
                    Err(TryLockError::WouldBlock) if Instant::now() < until => {
                        sleep(Duration::from_millis(1))
                    }
                    turn => break turn,
                }
            };
            give_back();
            before(panicked);
        }));
    });
}

/// Wakes whoever waits for the terminal; also when it is dropped, so that a thread that has died is
/// noticed.
pub struct Waker(UnixStream);

impl Drop for Waker {
    fn drop(&mut self) {
        self.wake();
    }
}

impl Waker {
    /// Wakes; a waiter that was woken already needs no second time.
    pub fn wake(&self) {
        let _full_is_awake = (&self.0).write(&[0]);
    }
}

/// Signals as flags, and one wait for keys, signals and news.
pub struct EventPoll {
    leave: Arc<AtomicBool>,
    hang_up: Arc<AtomicBool>,
    suspend: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    registered: Vec<SigId>,
    bell: UnixStream,
    waker: UnixStream,
    /// Ends the thread that waits for SIGHUP.
    hung_up: UnixStream,
}

/// What the waiting was ended by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Keys, a signal, news or the time.
    Something,
    /// The terminal was closed.
    Gone,
}

impl EventPoll {
    /// Listens to signals. An embedding runner has its own ears for SIGINT and SIGTERM: it then
    /// ends the study in order.
    pub fn new(mode: TuiMode) -> io::Result<EventPoll> {
        let (bell, waker) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let (hung_up, signal) = UnixStream::pair()?;
        let hears = hung_up.try_clone()?;
        let mut event_poll = EventPoll {
            leave: Arc::default(),
            hang_up: Arc::default(),
            suspend: Arc::default(),
            over: Arc::default(),
            registered: Vec::new(),
            bell,
            waker,
            hung_up,
        };
        if mode == TuiMode::Watching {
            for signal in [SIGTERM, SIGINT] {
                event_poll.flag(signal, &event_poll.leave.clone())?;
            }
        }
        event_poll.flag(SIGHUP, &event_poll.hang_up.clone())?;
        event_poll.registered.push(signal_hook::low_level::pipe::register(SIGHUP, signal)?);
        threads::spawn("hang-up", move || end_reading(&hears))?;
        // Once the screens are left, Ctrl-Z is the system's again: this is never unregistered, for
        // without it the signal would do nothing at all. SIGHUP stays without effect, since it
        // comes twice when a terminal is closed, and whoever is leaving in order because of the
        // first must not die of the second.
        let _for_ever =
            signal_hook::flag::register_conditional_default(SIGTSTP, Arc::clone(&event_poll.over))?;
        event_poll.flag(SIGTSTP, &event_poll.suspend.clone())?;
        for signal in [SIGWINCH, SIGCONT] {
            event_poll.registered.push(signal_hook::low_level::pipe::register(
                signal,
                event_poll.waker.try_clone()?,
            )?);
        }
        Ok(event_poll)
    }

    fn flag(&mut self, signal: i32, flag: &Arc<AtomicBool>) -> io::Result<()> {
        let flag = signal_hook::flag::register(signal, Arc::clone(flag))?;
        let bell = signal_hook::low_level::pipe::register(signal, self.waker.try_clone()?)?;
        self.registered.extend([flag, bell]);
        Ok(())
    }

    /// For threads with news.
    pub fn waker(&self) -> io::Result<Waker> {
        Ok(Waker(self.waker.try_clone()?))
    }

    /// Whether a signal asks to leave.
    pub fn is_terminated(&self) -> bool {
        self.leave.load(Ordering::Relaxed)
    }

    /// Whether the terminal was closed.
    pub fn is_hung_up(&self) -> bool {
        self.hang_up.load(Ordering::Relaxed)
    }

    /// Whether a signal asks to suspend; asked once.
    pub fn takes_suspension(&self) -> bool {
        self.suspend.swap(false, Ordering::Relaxed)
    }

    /// Waits for keys, a signal, news or `most`; `next_event` then reads the keys. crossterm
    /// cannot be asked: a terminal that was closed reads as ready for ever.
    pub fn wait(&mut self, most: Option<Duration>) -> Woken {
        use rustix::event::{PollFd, PollFlags};
        let stdin = io::stdin();
        let mut ready =
            [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.bell, PollFlags::IN)];
        let most = most.and_then(|most| rustix::event::Timespec::try_from(most).ok());
        // Interrupted by a signal: what it was is looked for by the caller.
        let _interrupted = rustix::event::poll(&mut ready, most.as_ref());
        let gone = ready[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        let mut rung = [0; 64];
        while matches!((&self.bell).read(&mut rung), Ok(1..)) {}
        if gone { Woken::Gone } else { Woken::Something }
    }
}

/// A key, pasted text or a new size, if one is there.
///
/// # Errors
/// The terminal cannot be read.
pub fn next_event() -> io::Result<Option<Event>> {
    // crossterm looks at nothing once its time is over, which may be before it began (hence twice),
    // and does not sleep through less than a millisecond (hence a short one).
    let is_there = poll(FOR_KEYS)? || poll(FOR_KEYS)?;
    if is_there { read().map(Some) } else { Ok(None) }
}

/// Waits for SIGHUP, then puts a silent socket in the place of the terminal: crossterm may fail at
/// a closed one, where the end came between [`EventPoll::wait`] and its own `poll`.
fn end_reading(hears: &UnixStream) {
    let replace = || -> io::Result<()> {
        let (silent, open) = UnixStream::pair()?;
        silent.set_nonblocking(true)?;
        rustix::stdio::dup2_stdin(&silent)?;
        // As long as the process lives.
        let _open = open.into_raw_fd();
        Ok(())
    };
    let mut reader = hears;
    if matches!(reader.read(&mut [0]), Ok(1..)) {
        let _read_on = replace();
    }
}

impl Drop for EventPoll {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ended_already = self.hung_up.shutdown(Shutdown::Both);
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}
