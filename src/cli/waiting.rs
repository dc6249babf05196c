//! Progress on standard error during a long operation: a line redrawn on a terminal, occasional
//! lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::console::{Console, Talk, is_dumb, terminal_size};
use crate::app::worker_job::Progress;
use crate::config::shown::{lines, one_line};
use crate::report::bar::{self, Estimator};
use crate::report::sparkline::Charset;
use crate::report::wording::number;

/// Shorter operations show no progress.
const PATIENCE: Duration = Duration::from_millis(600);

/// Interval of redrawing on a terminal.
const TURN: Duration = Duration::from_millis(200);

/// Interval of lines without a terminal.
const NOW_AND_THEN: Duration = Duration::from_secs(30);

/// A progress line, removed on drop.
pub struct Waiting {
    parts: Option<(Sender<Word>, JoinHandle<()>)>,
}

/// Shows the progress of use cases, until it is dropped.
pub fn listener(console: &Console) -> impl FnMut(Progress<'_>) {
    let mut waiting = None::<Waiting>;
    move |progress| match (progress, &waiting) {
        (Progress::Began(what), _) => {
            // Removes the line of the finished stage first.
            drop(waiting.take());
            waiting = Some(Waiting::start(what, console));
        }
        (Progress::At { what, done, of }, Some(waiting)) => waiting.at(what, done, of),
        (Progress::FewerRows { before, now }, Some(waiting)) => {
            waiting.say(&format!("{before} rows at once did not fit into memory; now {now}"))
        }
        (Progress::Finding(finding), Some(waiting)) => waiting.say(&format!("data: {finding}")),
        (Progress::Logged { step, loss, learning_rate }, Some(waiting)) => {
            let [loss, rate] = [loss, learning_rate].map(number);
            waiting.say(&format!("step {step}: loss {loss}, learning_rate {rate}"));
        }
        (Progress::Report { step_unit, step, metric, value }, Some(waiting)) => {
            waiting.say(&format!("{step_unit} {step}: {metric} {}", number(value)))
        }
        (_, None) => {}
    }
}

/// A message to the drawing thread.
enum Word {
    /// Progress of a stage.
    At(String, u64, u64),
    /// A line to print above it.
    Say(String),
}

/// The form of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Redrawn in place.
    Redrawn,
    /// One line below another.
    NowAndThen,
}

impl Waiting {
    /// Starts the progress of `what`; nothing is shown with `-q`.
    pub fn start(what: &str, console: &Console) -> Self {
        if console.talk == Talk::Quiet {
            return Waiting { parts: None };
        }
        let form =
            if io::stderr().is_terminal() && !is_dumb(&std::env::var("TERM").unwrap_or_default()) {
                Form::Redrawn
            } else {
                Form::NowAndThen
            };
        let (tx, rx) = channel::<Word>();
        let (what, charset) = (what.to_owned(), console.look.charset);
        // Without a thread, no progress is shown.
        let drawing =
            Builder::new().name("waiting".to_owned()).spawn(move || draw(what, form, charset, &rx));
        Waiting { parts: drawing.ok().map(|drawing| (tx, drawing)) }
    }

    /// Updates the progress.
    pub fn at(&self, what: &str, done: u64, of: u64) {
        if let Some((tx, _)) = &self.parts {
            // The thread runs until this is dropped.
            let _ = tx.send(Word::At(one_line(what), done, of));
        }
    }

    /// Prints a message above the line; nothing with `-q`.
    pub fn say(&self, text: &str) {
        if let Some((tx, _)) = &self.parts {
            // The thread runs until this is dropped.
            let _ = tx.send(Word::Say(lines(text)));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((tx, drawing)) = self.parts.take() {
            drop(tx);
            // A line that cannot be removed is not an error.
            let _ = drawing.join();
        }
    }
}

/// Draws the line until the channel is closed.
fn draw(mut what: String, form: Form, charset: Charset, words: &Receiver<Word>) {
    let (turn, patience) =
        if form == Form::Redrawn { (TURN, PATIENCE) } else { (NOW_AND_THEN, NOW_AND_THEN) };
    let (started, mut shown) = (Instant::now(), None::<Instant>);
    let mut estimator = Estimator::default();
    loop {
        let due = shown.map_or(patience, |shown| turn.saturating_sub(shown.elapsed()));
        match words.recv_timeout(due) {
            Ok(Word::At(now, done, of)) => {
                what = now;
                estimator.hear(started.elapsed(), done, of);
            }
            Ok(Word::Say(text)) => {
                let begin = if form == Form::Redrawn && shown.is_some() { "\r\x1b[K" } else { "" };
                write(&format!("{begin}{text}\n"));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if started.elapsed() >= patience && shown.is_none_or(|shown| shown.elapsed() >= turn) {
            shown = Some(Instant::now());
            let elapsed = started.elapsed();
            match form {
                // Leaves the last column free: some terminals wrap once it is written.
                Form::Redrawn => write(&format!(
                    "\r{}\x1b[K",
                    bar::line(
                        &what,
                        &estimator,
                        elapsed,
                        charset,
                        terminal_size().0.saturating_sub(1)
                    )
                )),
                Form::NowAndThen => write(&format!("{}\n", bar::words(&what, &estimator, elapsed))),
            }
        }
    }
    if form == Form::Redrawn && shown.is_some() {
        write("\r\x1b[K");
    }
}

fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    // A closed standard error is ignored.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
