//! `hpsearch logs`: what the program of a trial printed, so far or as it comes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::thread::sleep;
use std::time::Duration;

use clap::Args;

use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::named_study;
use super::trial_words;
use crate::reporters::wording::count;
use crate::storage::sqlite;
use crate::storage::{StorageReader, StudyId, StudySummary};
use crate::trial::{AttemptNumber, Trial, TrialNumber, TrialState};

/// What `hpsearch logs` is told.
#[derive(Clone, Debug, Args)]
#[command(
    allow_missing_positional = true,
    after_help = "Examples:\n  hpsearch logs digits 7\n  hpsearch logs digits 7 -f\n  hpsearch logs digits 7 --grep error\n  hpsearch logs 7 --attempt 0      the only study of the store"
)]
pub struct LogsArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The trial's number
    #[arg(value_parser = trial_words::number)]
    pub trial: u64,
    /// Which attempt, from 0; the last one by default
    #[arg(long, value_name = "N")]
    pub attempt: Option<u32>,
    /// Go on printing while the attempt runs
    #[arg(short, long)]
    pub follow: bool,
    /// Print only lines that hold this; small letters stand for capital ones too
    #[arg(short, long, value_name = "TEXT")]
    pub grep: Option<String>,
}

/// Lets all bytes through, or only lines that hold a text.
struct Sieve {
    text: Option<String>,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
}

impl Sieve {
    fn new(text: Option<&String>) -> Self {
        Sieve { text: text.cloned(), begun: Vec::new() }
    }

    fn pass(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let Some(text) = &self.text else { return out.write_all(bytes) };
        self.begun.extend_from_slice(bytes);
        while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.begun.drain(..=end).collect();
            if holds(&line, text) {
                out.write_all(&line)?;
            }
        }
        Ok(())
    }

    /// The last line, if nothing ended it.
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let line = std::mem::take(&mut self.begun);
        match &self.text {
            Some(text) if holds(&line, text) => out.write_all(&line),
            _ => Ok(()),
        }
    }
}

/// Whether a line holds a text; a text without capital letters is found in any case.
fn holds(line: &[u8], text: &str) -> bool {
    let line = String::from_utf8_lossy(line);
    if text.chars().any(char::is_uppercase) { line.contains(text) } else { line.to_lowercase().contains(text) }
}

/// How often a growing log is looked at.
const TURN: Duration = Duration::from_millis(200);

/// Prints the log of an attempt.
pub fn logs(arguments: &LogsArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let study = named_study::find(&reader, arguments.study.as_deref())?;
    let number = TrialNumber(arguments.trial);
    let trial = reader.trial(study.id, number)?.ok_or_else(|| unknown_trial(&study, number))?;
    let attempt = attempt(arguments.attempt, &trial)?;
    let path = study.files(&console.store).log(number, attempt);
    let mut log = sqlite::open_file(&path).map_err(|error| {
        let failure = Failure::new(Exit::Usage, format!("trial {number} has no log of attempt {attempt}: `{}`: {error}", shown(&path)));
        failure.help("built-in and commanded trials write one; the files may have been moved or removed")
    })?;
    let mut sieve = Sieve::new(arguments.grep.as_ref());
    if sieve.text.is_none() {
        io::copy(&mut log, &mut console.out)?;
    } else {
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        sieve.pass(&bytes, &mut console.out)?;
    }
    if arguments.follow {
        console.finish()?;
        follow(&reader, (study.id, number, attempt), &mut log, &mut sieve, console)?;
    }
    sieve.finish(&mut console.out)?;
    Ok(Exit::Done)
}

/// The error about a trial that the study does not have.
pub fn unknown_trial(study: &StudySummary, trial: TrialNumber) -> Failure {
    let help = match study.counts.total() {
        0 => "the study has no trials yet".to_owned(),
        total => format!("it has {}, the last is {}", count(total, "trial"), total - 1),
    };
    Failure::usage(format!("there is no trial {trial} in `{}`", study.spec.name)).help(help)
}

fn attempt(asked: Option<u32>, trial: &Trial) -> Result<AttemptNumber, Failure> {
    let Some(last) = trial.last_attempt() else {
        return Err(
            Failure::usage(format!("trial {} has not started yet, so there is no log", trial.number)).help("`hpsearch trials` shows which have")
        );
    };
    match asked {
        None => Ok(last),
        Some(asked) if asked <= last.0 => Ok(AttemptNumber(asked)),
        Some(asked) => Err(Failure::usage(format!("trial {} has no attempt {asked}", trial.number)).help(format!("its attempts are 0 to {last}"))),
    }
}

/// Prints what is added to the log until the attempt is over.
fn follow(
    reader: &dyn StorageReader,
    (study, number, attempt): (StudyId, TrialNumber, AttemptNumber),
    log: &mut File,
    sieve: &mut Sieve,
    console: &mut Console,
) -> Result<(), Failure> {
    loop {
        // Asked before reading: what is written between the last read and the end is not missed.
        let running = reader.trial(study, number)?.is_some_and(|trial| trial.state == TrialState::Running && trial.last_attempt() == Some(attempt));
        let mut added = Vec::new();
        log.read_to_end(&mut added)?;
        sieve.pass(&added, &mut console.out)?;
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
        let mut sieve = Sieve::new(Some(&text.to_owned()));
        let mut out = Vec::new();
        parts.iter().for_each(|part| sieve.pass(part.as_bytes(), &mut out).unwrap());
        sieve.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        assert_eq!(sieved("loss", &["epoch 1 lo", "ss 0.5\nother\nLoss ", "nan"]), "epoch 1 loss 0.5\nLoss nan");
        assert_eq!(sieved("Loss", &["loss\nLoss\n"]), "Loss\n");
    }
}
