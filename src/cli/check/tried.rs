//! `hpsearch check --try LINE`: the matches of the patterns of `[command.metrics]` in a line.

use std::io::Write;

use super::CheckArguments;
use crate::cli::{Console, Exit, Failure};
use crate::config;
use crate::config::shown::one_line;
use crate::study::metric::significant;
use crate::study::printed_metrics::{Patterns, PrintedMetrics, not_what};
use crate::study::program::Program;

/// Tries the lines.
pub(super) fn try_lines(
    arguments: &CheckArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let checked = config::load_with_warnings(&arguments.study, &arguments.set)?;
    console.warn(&checked.warnings);
    let unit = checked.spec.step.as_str();
    let patterns = match &checked.spec.program {
        Program::Command { metrics, .. } if !metrics.pattern.is_empty() => {
            Patterns::new(&metrics.pattern, unit).ok()
        }
        _ => None,
    };
    let patterns = patterns.ok_or_else(|| {
        Failure::usage(
            "the study has no `pattern` under [command.metrics], so there is nothing to try",
        )
    })?;
    for line in &arguments.tried {
        let found = PrintedMetrics::find(&patterns, line.as_bytes());
        let step = found.step.map(|step| format!("{unit} {step}"));
        let metrics = found
            .metrics
            .iter()
            .map(|(name, value)| format!("{name}={}", significant(value, 6)))
            .collect::<Vec<_>>()
            .join(" ");
        match (step, metrics.is_empty()) {
            (Some(step), false) => writeln!(console.out, "{step}: {metrics}")?,
            (Some(step), true) => writeln!(console.out, "{step}")?,
            (None, false) => writeln!(console.out, "{metrics}")?,
            (None, true) if found.not_numbers.is_empty() => {
                writeln!(console.out, "nothing is found in `{}`", one_line(line))?;
            }
            (None, true) => {}
        }
        for (name, text) in &found.not_numbers {
            let (text, what) = (one_line(text), not_what(text));
            writeln!(console.out, "`{text}` for `{name}` is {what}")?;
        }
    }
    Ok(Exit::Done)
}
