//! `hpsearch extend`: raises a study's budget.

use std::time::Duration;

use clap::{ArgGroup, Args};

use super::request::ask_all;
use super::{Console, Exit, Failure};
use crate::study::budget::Extension;
use crate::study::budget::LARGEST_INTEGER;
use crate::study::duration;
use crate::study::request::Request;

const EXAMPLES: &str = "\
Examples:
  hpsearch extend digits --trials +50
  hpsearch extend digits --time +2h
  hpsearch extend --trials +20 --time +30m     the only study of the store
  hpsearch extend digits --device-hours +4 --cost +20

The amount is added to the study file's budget, and stays added when the study
is run again or the file changes. A finished study continues when it is run.";

/// Arguments of `hpsearch extend`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "hpsearch extend [OPTIONS] [STUDY]",
    group = ArgGroup::new("budget").required(true).multiple(true)
)]
pub struct ExtendArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Add N trials
    #[arg(long, value_name = "+N", value_parser = trials, group = "budget")]
    pub trials: Option<u64>,
    /// Add running time: 90m, 2h, 1d12h
    #[arg(long, value_name = "+TIME", value_parser = time, group = "budget")]
    pub time: Option<Duration>,
    /// Add device-hours, where the study's budget has `device_hours`
    #[arg(long, value_name = "+HOURS", value_parser = amount, group = "budget")]
    pub device_hours: Option<f64>,
    /// Add to the cost, where the study's budget has `cost`
    #[arg(long, value_name = "+COST", value_parser = amount, group = "budget")]
    pub cost: Option<f64>,
}

fn amount(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix('+').unwrap_or(text);
    number
        .parse()
        .ok()
        .filter(|amount: &f64| amount.is_finite() && *amount > 0.0)
        .ok_or_else(|| "an amount is a number above zero, like +2.5".to_owned())
}

fn trials(text: &str) -> Result<u64, String> {
    Extension::trials_of(text)
        .ok_or_else(|| format!("a number of trials is like +50, and at most {LARGEST_INTEGER}"))
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text.strip_prefix('+').unwrap_or(text))
        .map_err(|why| format!("{why}: write for example +2h or +90m"))
}

/// Asks for it.
pub fn extend(arguments: &ExtendArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (_, study) = console.study(arguments.study.as_deref())?;
    let by = Extension {
        trials: arguments.trials.unwrap_or_default(),
        time: arguments.time.unwrap_or_default(),
        device_hours: arguments.device_hours.unwrap_or_default(),
        cost: arguments.cost.unwrap_or_default(),
    };
    ask_all(&study, vec![Request::Extend { by }], console)
}
