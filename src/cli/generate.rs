//! `hpsearch generate`: generates text with an exported language model, token by token.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use super::exported;
use super::{Console, Exit, Failure, Talk};
use crate::config::shown::lines;
use crate::runner::protocol::{MessageToRunner, WorkerJob};
use crate::runner::worker_job;
use crate::study::counted::count;

/// Arguments of `hpsearch generate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
    hpsearch generate model \"Once upon a time\"\n  \
    hpsearch generate model \"Once\" --temperature 0 --max-new-tokens 50\n  \
    echo Once | hpsearch generate model --top-p 0.9 --seed 7")]
pub struct GenerateArguments {
    /// The directory that `export` wrote
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The prompt; by default standard input, without its last line break
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Generate at most N tokens
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub max_new_tokens: usize,
    /// The sampling temperature; 0 always takes the most likely token
    #[arg(long, value_name = "T", default_value_t = 0.8, value_parser = temperature)]
    pub temperature: f64,
    /// Sample from the K most likely tokens only
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub top_k: Option<u32>,
    /// Sample only from the most likely tokens whose probabilities add up to P
    #[arg(long, value_name = "P", value_parser = share)]
    pub top_p: Option<f64>,
    /// Seed of the samples
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// The device to use
    #[arg(long, default_value = exported::DEVICE)]
    pub device: String,
}

fn temperature(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "a temperature is a number of at least 0".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| "a probability is a number above 0 and at most 1".to_owned())
}

/// Prints the prompt and the generated text as it arrives.
pub fn generate(arguments: &GenerateArguments, console: &mut Console) -> Result<Exit, Failure> {
    let device = exported::device(&arguments.device)?;
    let directory = exported::model(&arguments.directory)?;
    let prompt = match &arguments.prompt {
        Some(prompt) => prompt.clone(),
        None => piped()?,
    };
    let job = WorkerJob::Generate {
        directory,
        prompt: prompt.clone(),
        max_new_tokens: arguments.max_new_tokens,
        temperature: arguments.temperature,
        top_k: arguments.top_k.map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX)),
        top_p: arguments.top_p.unwrap_or(1.0),
        seed: arguments.seed,
        device,
    };
    let began = Instant::now();
    let mut text = Some(prompt);
    let mut written = Ok(());
    let answer = worker_job::run(job, &BTreeMap::new(), &mut |said| {
        if let MessageToRunner::Text { text: piece } = said {
            // The prompt is printed with the first piece: a failed start prints nothing.
            let piece = shown(text.take().unwrap_or_default() + &piece);
            written = write!(console.out, "{piece}").and_then(|()| console.out.flush());
        }
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    written?;
    // Also after an error, so that its message begins a line.
    match (&text, &answer) {
        (Some(_), Err(_)) => {}
        (prompt, _) => writeln!(console.out, "{}", shown(prompt.clone().unwrap_or_default()))?,
    }
    console.out.flush()?;
    let answer = answer?.unwrap_or_default();
    let number =
        |name: &str| answer.get(name).and_then(serde_json::Value::as_u64).unwrap_or_default();
    let (tokens, unknown) = (number("tokens"), number("unknown"));
    if unknown > 0 {
        console.say(&format!(
            "warning: the model does not know {} of the prompt",
            count(unknown, "character")
        ));
    }
    let seconds = began.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a number of tokens")]
    let speed = tokens as f64 / seconds;
    if console.talk == Talk::Verbose {
        console.say(&format!("{tokens} tokens in {seconds:.1} s, {speed:.0} a second"));
    }
    Ok(Exit::Done)
}

/// Generated text: unchanged for a program, sanitised for a terminal.
fn shown(text: String) -> String {
    if io::stdout().is_terminal() { lines(&text) } else { text }
}

/// The text on standard input without its last line break.
fn piped() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}
