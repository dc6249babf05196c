//! `hpsearch logs`: the output of a trial's program, optionally followed as it grows.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use crate::app::{find, log_tail};
use crate::config::file;
use crate::config::shown::json;
use crate::report::wording::drives_a_terminal;
use crate::storage::{StorageReader, StudyId, StudySummary};
use crate::study::trial::{AttemptNumber, Trial, TrialNumber, TrialState};

/// Arguments of `hpsearch logs`.
#[derive(Clone, Debug, Args)]
#[command(
    allow_missing_positional = true,
    after_help = "Examples:\n  hpsearch logs digits 7\n  hpsearch logs digits 7 -f\n  hpsearch \
        logs digits 7 --grep error\n  hpsearch logs digits 7 --json | jq -r .text\n  hpsearch \
        logs 7 --attempt 0      the only study of the store"
)]
pub struct LogsArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The trial's number, or a tracked run's name
    pub trial: String,
    /// Which attempt, from 0; the last one by default
    #[arg(long, value_name = "N")]
    pub attempt: Option<u32>,
    /// Keep printing new lines while the attempt runs
    #[arg(short, long)]
    pub follow: bool,
    /// Print the bytes unchanged even on a terminal: colours, progress bars, control sequences
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    /// Print JSON lines: trial, attempt, line number, text
    #[arg(long)]
    pub json: bool,
    /// Print only lines that contain TEXT; case is ignored unless TEXT has a capital letter
    #[arg(short, long, value_name = "TEXT")]
    pub grep: Option<String>,
}

/// A line of `--json`.
#[derive(Serialize)]
struct LogLineJson<'a> {
    trial: TrialNumber,
    attempt: AttemptNumber,
    /// Its number in the log, from 1.
    line: u64,
    text: &'a str,
}

/// Filters a log: all bytes, matching lines, or lines as JSON.
struct Sieve {
    text: Option<String>,
    /// The trial and attempt for JSON.
    json: Option<(TrialNumber, AttemptNumber)>,
    lines: u64,
    /// An unterminated line.
    begun: Vec<u8>,
}

impl Sieve {
    fn new(text: Option<&String>, json: Option<(TrialNumber, AttemptNumber)>) -> Self {
        Sieve { text: text.cloned(), json, lines: 0, begun: Vec::new() }
    }

    /// Whether it passes everything unchanged.
    fn is_open(&self) -> bool {
        self.text.is_none() && self.json.is_none()
    }

    fn pass(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        if self.is_open() {
            return out.write_all(bytes);
        }
        self.begun.extend_from_slice(bytes);
        while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.begun.drain(..=end).collect();
            self.pass_line(&line, out)?;
        }
        Ok(())
    }

    fn pass_line(&mut self, line: &[u8], out: &mut dyn Write) -> io::Result<()> {
        self.lines += 1;
        if self.text.as_ref().is_some_and(|text| !holds(line, text)) {
            return Ok(());
        }
        let Some((trial, attempt)) = self.json else { return out.write_all(line) };
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let line = LogLineJson {
            trial,
            attempt,
            line: self.lines,
            text: text.strip_suffix('\r').unwrap_or(text),
        };
        writeln!(out, "{}", json(&serde_json::to_string(&line)?))
    }

    /// The last line, if it is unterminated.
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let line = std::mem::take(&mut self.begun);
        if line.is_empty() { Ok(()) } else { self.pass_line(&line, out) }
    }
}

/// Whether a line contains a text; case is ignored for texts without capital letters.
fn holds(line: &[u8], text: &str) -> bool {
    let line = String::from_utf8_lossy(line);
    if text.chars().any(char::is_uppercase) {
        line.contains(text)
    } else {
        line.to_lowercase().contains(text)
    }
}

/// Polling interval of a growing log.
const TURN: Duration = Duration::from_millis(200);

/// Prints the log of an attempt.
pub fn logs(arguments: &LogsArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let (study, trial) =
        find::study_and_trial(&reader, arguments.study.as_deref(), &arguments.trial)?;
    let number = trial.number;
    let attempt = attempt(arguments.attempt, &study, &trial, console)?;
    let path = log_tail::place(&reader, &study, &console.store, (number, attempt))?;
    let mut log = file::open(&path).map_err(|error| {
        let failure = Failure::new(
            Exit::Usage,
            format!("trial {number} has no log of attempt {attempt}: `{}`: {error}", shown(&path)),
        );
        let is_tracked = trial.origin.tracked().is_some_and(|run| run.source.is_none());
        failure.help(match is_tracked {
            true => {
                "a program that starts its run itself (`hpsearch.init`) has a log only under \
                 `hpsearch track -- COMMAND`; if it was run that way, the files may have been \
                 moved or removed"
            }
            false => {
                "trials of the built-in trainer and of commands have logs; the files may have been \
                 moved or removed"
            }
        })
    })?;
    let mut sieve =
        Sieve::new(arguments.grep.as_ref(), arguments.json.then_some((number, attempt)));
    // JSON has no characters that control a terminal.
    let is_raw = arguments.raw || arguments.json || !io::stdout().is_terminal();
    let mut screen = Screen { is_raw, begun: Vec::new(), within: Within::Text };
    if sieve.is_open() {
        io::copy(&mut log, &mut screen.on(&mut console.out))?;
    } else {
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        sieve.pass(&bytes, &mut screen.on(&mut console.out))?;
    }
    if arguments.follow {
        console.finish()?;
        follow(&reader, (study.id, number, attempt), &mut log, (&mut sieve, &mut screen), console)?;
    }
    sieve.finish(&mut screen.on(&mut console.out))?;
    screen.finish(&mut console.out)?;
    Ok(Exit::Done)
}

/// Sanitises a log for a terminal: drops escape sequences, splits overwritten lines, and replaces
/// other control characters by spaces.
struct Screen {
    /// Whether bytes pass unchanged.
    is_raw: bool,
    /// An incomplete character.
    begun: Vec<u8>,
    within: Within,
}

/// The position within an escape sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Text,
    /// After a carriage return, which a line feed may follow.
    Return,
    /// After an ESC.
    Escape,
    /// `ESC [ .. letter`: colours, moves.
    Control,
    /// `ESC ] .. BEL`, or up to `ESC \`: titles, links.
    Command,
}

impl Screen {
    /// A writer to `out` through this filter.
    fn on<'a>(&'a mut self, out: &'a mut dyn Write) -> Screened<'a> {
        Screened { screen: self, out }
    }

    fn pass(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        if self.is_raw {
            return out.write_all(bytes);
        }
        self.begun.extend_from_slice(bytes);
        let rest = self.begun.split_off(self.begun.len() - incomplete(&self.begun));
        let text = String::from_utf8_lossy(&std::mem::replace(&mut self.begun, rest)).into_owned();
        let shown: String = text.chars().filter_map(|char| self.take(char)).collect();
        out.write_all(shown.as_bytes())
    }

    /// The replacement of the next character.
    fn take(&mut self, char: char) -> Option<char> {
        let before = std::mem::replace(&mut self.within, Within::Text);
        let (within, shown) = match (before, char) {
            (Within::Escape, '[') => (Within::Control, None),
            (Within::Escape, ']' | 'P' | '_' | '^' | 'X') => (Within::Command, None),
            (Within::Escape, '(' | ')' | '#' | ' ') => (Within::Escape, None),
            (Within::Escape, _) if !char.is_control() => (Within::Text, None),
            (Within::Control, '\u{20}'..='\u{3f}') => (Within::Control, None),
            (Within::Control, '\u{40}'..='\u{7e}') | (Within::Command, '\u{7}' | '\u{9c}') => {
                (Within::Text, None)
            }
            (_, '\u{1b}') => (Within::Escape, None),
            (Within::Command, _) if char != '\n' => (Within::Command, None),
            (_, '\u{9b}') => (Within::Control, None),
            (Within::Return, '\n') => (Within::Text, None),
            (_, '\r') => (Within::Return, Some('\n')),
            (_, '\n' | '\t') => (Within::Text, Some(char)),
            (_, _) if drives_a_terminal(char) => (Within::Text, Some(' ')),
            (_, _) => (Within::Text, Some(char)),
        };
        self.within = within;
        shown
    }

    /// An incomplete character at the end.
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(String::from_utf8_lossy(&std::mem::take(&mut self.begun)).as_bytes())
    }
}

/// Number of bytes at the end that begin an incomplete character.
fn incomplete(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3)..bytes.len();
    let begin = last.rev().find(|at| bytes[*at] & 0xc0 != 0x80).unwrap_or(bytes.len());
    let tail = &bytes[begin..];
    if std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none()) {
        tail.len()
    } else {
        0
    }
}

/// A stream with such a filter.
struct Screened<'a> {
    screen: &'a mut Screen,
    out: &'a mut dyn Write,
}

impl Write for Screened<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.screen.pass(bytes, self.out).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn attempt(
    asked: Option<u32>,
    study: &StudySummary,
    trial: &Trial,
    console: &Console,
) -> Result<AttemptNumber, Failure> {
    let Some(last) = trial.last_attempt() else {
        let trials = console.next(&format!("trials {}", study.spec.name));
        return Err(Failure::usage(format!(
            "trial {} has not started yet, so there is no log",
            trial.number
        ))
        .help(format!("{trials} shows which have")));
    };
    match asked {
        None => Ok(last),
        Some(asked) if asked <= last.0 => Ok(AttemptNumber(asked)),
        Some(asked) => {
            Err(Failure::usage(format!("trial {} has no attempt {asked}", trial.number))
                .help(format!("its attempts are 0 to {last}")))
        }
    }
}

/// Prints new output until the attempt is over.
fn follow(
    reader: &dyn StorageReader,
    (study, number, attempt): (StudyId, TrialNumber, AttemptNumber),
    log: &mut File,
    (sieve, screen): (&mut Sieve, &mut Screen),
    console: &mut Console,
) -> Result<(), Failure> {
    loop {
        // Queried before reading, so that output before the end is not missed.
        let running = reader.trial(study, number)?.is_some_and(|trial| {
            trial.state == TrialState::Running && trial.last_attempt() == Some(attempt)
        });
        let mut added = Vec::new();
        log.read_to_end(&mut added)?;
        sieve.pass(&added, &mut screen.on(&mut console.out))?;
        console.finish()?;
        if !running {
            return Ok(());
        }
        sleep(TURN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sieved(text: &str, parts: &[&str]) -> String {
        let mut sieve = Sieve::new(Some(&text.to_owned()), None);
        let mut out = Vec::new();
        parts.iter().for_each(|part| sieve.pass(part.as_bytes(), &mut out).unwrap());
        sieve.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The terminal's view of these parts of a log.
    fn on_a_terminal(parts: &[&[u8]]) -> String {
        let mut screen = Screen { is_raw: false, begun: Vec::new(), within: Within::Text };
        let mut out = Vec::new();
        parts.iter().for_each(|part| screen.pass(part, &mut out).unwrap());
        screen.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_drives_a_terminal_is_left_out_of_a_log_on_one() {
        for (log, shown) in [
            (&b"\x1b[31mred\x1b[0m \x1b]0;title\x07plain\n"[..], "red plain\n"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b(B\x07\x08\t|", "link   \t|"),
            (b"10%\r20%\r\nend", "10%\n20%\nend"),
            ("\u{9b}31mé\u{202e}".as_bytes(), "é "),
            (b"an open \x1b]title\nnext", "an open \nnext"),
        ] {
            assert_eq!(on_a_terminal(&[log]), shown);
        }
    }

    #[test]
    fn characters_and_sequences_are_whole_however_they_come() {
        let text = "a\u{1b}[1;31mé🙂\u{9b}0mz\r\n".as_bytes();
        let whole = on_a_terminal(&[text]);
        assert_eq!(whole, "aé🙂z\n");
        for cut in 0..=text.len() {
            assert_eq!(on_a_terminal(&[&text[..cut], &text[cut..]]), whole, "{cut}");
        }
        assert_eq!(on_a_terminal(&[b"\xff\xf0", b"\x9f"]), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        assert_eq!(
            sieved("loss", &["epoch 1 lo", "ss 0.5\nother\nLoss ", "nan"]),
            "epoch 1 loss 0.5\nLoss nan"
        );
        assert_eq!(sieved("Loss", &["loss\nLoss\n"]), "Loss\n");
    }
}
