//! `hpsearch doctor`: checks everything that studies need, with remedies for problems.

mod machine;
mod studies;

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::{Console, Exit, Failure};
use crate::report::wording::one_line;
use crate::study::counted::count;
use crate::tui::Palette;

const EXAMPLES: &str = "\
Examples:
  hpsearch doctor
  hpsearch doctor --store /data/hpsearch.db
  hpsearch doctor --json | jq '.findings[] | select(.state != \"ok\")'

Exit code 1 means that something is broken; warnings alone give exit code 0.
Checking a large store takes a while, since every page is read.";

/// Arguments of `hpsearch doctor`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckStatus {
    /// The check found no problem.
    Ok,
    /// It works, but needs attention.
    Warning,
    /// Studies cannot run, or have lost something.
    Broken,
}

impl CheckStatus {
    /// Its name, and the colour code: green, yellow, red.
    fn word(self) -> (&'static str, u8) {
        match self {
            CheckStatus::Ok => ("ok", 32),
            CheckStatus::Warning => ("warning", 33),
            CheckStatus::Broken => ("broken", 31),
        }
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// The check.
    check: &'static str,
    state: CheckStatus,
    /// One sentence.
    message: String,
    /// The remedy, if there is a problem.
    next: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Finding { check, state: CheckStatus::Ok, message: message.into(), next: None }
    }

    fn warning(check: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Finding {
            check,
            state: CheckStatus::Warning,
            message: message.into(),
            next: Some(next.into()),
        }
    }

    fn broken(check: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Finding {
            check,
            state: CheckStatus::Broken,
            message: message.into(),
            next: Some(next.into()),
        }
    }
}

/// Runs all checks.
pub fn doctor(arguments: &DoctorArguments, console: &mut Console) -> Result<Exit, Failure> {
    let mut findings = machine::findings(console);
    findings.extend(studies::findings(console)?);
    if arguments.json {
        console.json(None, &BTreeMap::from([("findings", &findings)]))?;
    } else {
        print(&findings, console)?;
    }
    let is_broken = findings.iter().any(|finding| finding.state == CheckStatus::Broken);
    Ok(if is_broken { Exit::Broken } else { Exit::Done })
}

fn print(findings: &[Finding], console: &mut Console) -> Result<(), Failure> {
    let palette = console.look.palette;
    for finding in findings {
        let (word, colour) = finding.state.word();
        match palette {
            Palette::Colours => write!(console.out, "\x1b[{colour}m{word:<8}\x1b[0m")?,
            Palette::Monochrome => write!(console.out, "{word:<8}")?,
        }
        console.hanging(&format!("{:<10}", finding.check), 18, &one_line(&finding.message))?;
        if let Some(next) = &finding.next {
            console.hanging(&" ".repeat(18), 18, next)?;
        }
    }
    let number = |state: CheckStatus| {
        findings.iter().filter(|finding| finding.state == state).count() as u64
    };
    let (warnings, broken) = (number(CheckStatus::Warning), number(CheckStatus::Broken));
    writeln!(
        console.out,
        "\n{}, {}, {broken} broken",
        count(findings.len() as u64, "check"),
        count(warnings, "warning")
    )?;
    Ok(())
}
