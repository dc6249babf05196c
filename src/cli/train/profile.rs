//! `hpsearch train --profile`: the time of each phase and layer, as tables and as a trace.

use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::app::train_once::look;
use crate::cli::console::{Console, shown};
use crate::cli::exit::{Exit, Failure};
use crate::cli::waiting::listener;
use crate::export::Recipe;
use crate::runner::protocol::WorkerJob;

/// Profiles `steps` steps and prints the tables; every span is written to `trace`.
pub fn profile(
    recipe: &Recipe,
    scratch: &Path,
    steps: u32,
    trace: &Path,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let path = std::path::absolute(trace)?;
    let of = |train| WorkerJob::Profile { train, steps, trace: path };
    let profile = look("profiling", recipe, scratch, of, &mut listener(console))?;
    let (steps, seconds) = (f64::from(steps), profile["seconds"].as_f64().unwrap_or_default());
    let named = |key: &str| {
        profile[key]
            .as_array()
            .cloned()
            .unwrap_or_default()
            .into_iter()
            .map(|line| (text(&line[0]), line[1].clone()))
    };
    let phases: Vec<(String, f64)> =
        named("phases").map(|(name, spent)| (name, number(&spent))).collect();
    let noted: f64 = phases.iter().map(|(_, spent)| spent).sum();
    let rest =
        [("between them".to_owned(), (seconds - noted).max(0.0)), ("a step".to_owned(), seconds)];
    writeln!(console.out, "{:<28}{:>12}{:>10}", "phase", "ms a step", "share")?;
    for (name, spent) in phases.iter().chain(&rest) {
        writeln!(
            console.out,
            "{name:<28}{:>12}{:>8.1} %",
            milliseconds(spent / steps),
            100.0 * spent / seconds
        )?;
    }
    for (name, spent) in named("besides") {
        writeln!(console.out, "{:<28}{:>12}", format!("one {name}"), milliseconds(number(&spent)))?;
    }
    let mut layers = named("layers").peekable();
    if layers.peek().is_some() {
        writeln!(
            console.out,
            "\n{:<28}{:>12}{:>12}{:>10}",
            "layer, ms a step", "forward", "backward", "share"
        )?;
    }
    for (name, spent) in layers {
        let (forward, backward) = (number(&spent[0]), number(&spent[1]));
        let share = 100.0 * (forward + backward) / seconds;
        writeln!(
            console.out,
            "{name:<28}{:>12}{:>12}{share:>8.1} %",
            milliseconds(forward / steps),
            milliseconds(backward / steps)
        )?;
    }
    console.out.flush()?;
    console.say(&format!(
        "every span is in {}: open it in chrome://tracing or https://ui.perfetto.dev",
        shown(trace)
    ));
    Ok(Exit::Done)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.3}", seconds * 1e3)
}
