//! A line on standard error while something long is done: a bar with the time left, on terminals only.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use super::console::{Console, Talk};
use crate::reporters::sparkline::Charset;
use crate::reporters::wording::rough_duration;

/// What is quicker than this needs no line.
const PATIENCE: Duration = Duration::from_millis(600);

/// How often the line is drawn again.
const TURN: Duration = Duration::from_millis(200);

/// Columns of the bar.
const BAR: usize = 24;

/// The line, from its beginning to its drop.
pub struct Waiting {
    parts: Option<(Sender<Word>, JoinHandle<()>)>,
}

/// What the line is told.
enum Word {
    /// So much of so much is done.
    At(u64, u64),
    /// To be printed above it.
    Say(String),
}

impl Waiting {
    /// Begins to wait for what is called `what`; nothing is drawn with `-q` and where standard error is no terminal.
    pub fn start(what: &str, console: &Console) -> Self {
        if console.talk == Talk::Quiet || !io::stderr().is_terminal() {
            return Waiting { parts: None };
        }
        let (tx, rx) = channel::<Word>();
        let (what, charset) = (what.to_owned(), console.look.charset);
        let drawing = spawn(move || {
            let started = Instant::now();
            let mut part = None;
            let mut drawn: Option<Instant> = None;
            loop {
                match rx.recv_timeout(TURN) {
                    Ok(Word::At(done, of)) => part = Some((done, of)),
                    Ok(Word::Say(text)) => {
                        draw(&format!("\r\x1b[K{text}\n"));
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if started.elapsed() >= PATIENCE && drawn.is_none_or(|drawn| drawn.elapsed() >= TURN) {
                    drawn = Some(Instant::now());
                    draw(&format!("\r{}\x1b[K", line(&what, part, started.elapsed(), charset)));
                }
            }
            if drawn.is_some() {
                draw("\r\x1b[K");
            }
        });
        Waiting { parts: Some((tx, drawing)) }
    }

    /// So much of so much is done.
    pub fn at(&self, done: u64, of: u64) {
        if let Some((tx, _)) = &self.parts {
            // It draws until it is told to end.
            let _ = tx.send(Word::At(done, of));
        }
    }
}

impl Waiting {
    /// Says something to the person, above the line.
    pub fn say(&self, text: &str, console: &mut Console) {
        match &self.parts {
            // It draws until it is told to end.
            Some((tx, _)) => drop(tx.send(Word::Say(text.to_owned()))),
            None => console.say(text),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((tx, drawing)) = self.parts.take() {
            drop(tx);
            // A line that is not taken away is no reason to fail.
            let _ = drawing.join();
        }
    }
}

fn draw(text: &str) {
    let mut stderr = io::stderr().lock();
    // Whoever closed standard error does not want to see it.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// `checking the store ━━━━━━────── 50 %, 4 s, about 4 s left`; without parts `preparing data, 12 s`.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a bar")]
fn line(what: &str, part: Option<(u64, u64)>, elapsed: Duration, charset: Charset) -> String {
    let spent = rough_duration(elapsed);
    let Some((done, of)) = part.filter(|(_, of)| *of > 0) else {
        return format!("{what}, {spent}");
    };
    let share = (done as f64 / of as f64).clamp(0.0, 1.0);
    let full = (share * BAR as f64).round() as usize;
    let (on, off) = if charset == Charset::Unicode { ("━", "─") } else { ("=", "-") };
    let left = (share > 0.0).then(|| Duration::try_from_secs_f64(elapsed.as_secs_f64() * (1.0 - share) / share).ok()).flatten();
    let left = left.map(|left| format!(", about {} left", rough_duration(left))).unwrap_or_default();
    format!("{what} {}{} {:.0} %, {spent}{left}", on.repeat(full), off.repeat(BAR - full), share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_is_done_took() {
        let said = line("checking", Some((1, 4)), Duration::from_secs(10), Charset::Ascii);
        assert_eq!(said, "checking ======------------------ 25 %, 10 s, about 30 s left");
    }

    #[test]
    fn without_parts_the_time_is_all_that_is_known() {
        assert_eq!(line("preparing data", None, Duration::from_secs(75), Charset::Unicode), "preparing data, 1 min 15 s");
        assert_eq!(line("checking", Some((0, 4)), Duration::from_secs(1), Charset::Unicode), format!("checking {} 0 %, 1 s", "─".repeat(24)));
    }
}
