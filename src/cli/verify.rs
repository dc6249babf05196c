//! `hpsearch verify`: replays a stored study, and reports the first difference.

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::waiting::listener;
use super::{Console, Exit, Failure};
use crate::app::verify::{self, VerifyError, what_was_decided};
use crate::engine::verify::{Difference, ORDER, Verified, VersionChange};
use crate::report::wording::one_line;

const EXAMPLES: &str = "\
Examples:
  hpsearch verify digits
  hpsearch verify digits --json | jq .difference

It replays every proposal from the study's seed and the results known at the
time, every pruning decision, promotion, race and value; then it compares the
tables with the journal, and artifacts with their digests. No trial is run, and
nothing is written.

Exit codes:
  0  everything repeats exactly      7  something differs; the first is shown";

/// Arguments of `hpsearch verify`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct VerifyJson {
    repeats: bool,
    proposals: u64,
    verdicts: u64,
    promotions: u64,
    race_steps: u64,
    values: u64,
    ends: u64,
    versions: Vec<VersionChange>,
    difference: Option<ReplayDifferenceJson>,
}

#[derive(Serialize)]
struct ReplayDifferenceJson {
    event: i64,
    trial: Option<u64>,
    what: &'static str,
    table: Option<&'static str>,
    row: Option<String>,
    field: Option<String>,
    stored: String,
    now: String,
}

/// Replays it.
pub fn verify(arguments: &VerifyArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (reader, study) = console.study(arguments.study.as_deref())?;
    let replayed = verify::verify(&reader, &study, &console.store, &mut listener(console));
    let verified = replayed.map_err(|error| match error {
        VerifyError::App(error) => Failure::from(error),
        VerifyError::Engine(error) => Failure::new(Exit::Internal, error)
            .help("verify with the hpsearch that ran the study: `hpsearch show` names it"),
    })?;
    let exit = if verified.difference.is_some() { Exit::Differs } else { Exit::Done };
    let name = &study.spec.name;
    if arguments.json {
        console.json(Some(name), &json(verified))?;
    } else {
        let decided = if study.spec.is_tracked() { Decided::Nothing } else { Decided::All };
        print(&one_line(name), &verified, decided, console)?;
    }
    Ok(exit)
}

fn json(verified: Verified) -> VerifyJson {
    let said = |text: String| (!text.is_empty()).then_some(text);
    let difference = verified.difference.map(
        |Difference { seq, trial, what, table, row, field, stored, now }| ReplayDifferenceJson {
            event: seq.0,
            trial: trial.map(|trial| trial.0),
            what,
            table,
            row: said(row),
            field: said(field),
            stored,
            now,
        },
    );
    VerifyJson {
        repeats: difference.is_none(),
        proposals: verified.proposals,
        verdicts: verified.verdicts,
        promotions: verified.promotions,
        race_steps: verified.race_steps,
        values: verified.values,
        ends: verified.ends,
        versions: verified.versions,
        difference,
    }
}

/// The kinds of decisions in a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decided {
    /// A search.
    All,
    /// Tracked runs: none.
    Nothing,
}

fn print(
    name: &str,
    verified: &Verified,
    decided: Decided,
    console: &mut Console,
) -> Result<(), Failure> {
    for VersionChange { kind, name: algorithm, stored, here } in &verified.versions {
        let words = format!(
            "{kind} `{}` decided by version {stored} of its rules; this hpsearch has version \
             {here}, which may decide differently",
            one_line(algorithm)
        );
        console.hanging("note: ", 6, &words)?;
    }
    let Some(difference) = &verified.difference else {
        if decided == Decided::Nothing {
            let text = "its tables repeat exactly from its journal; nothing was decided in it";
            return console.hanging(&format!("{name}: "), 2, text);
        }
        return console.hanging(
            &format!("{name}: "),
            2,
            &format!("{} repeat exactly", what_was_decided(verified)),
        );
    };
    let Difference { seq, trial, what, table, stored, now, .. } = difference;
    let in_words = difference.what_in_words();
    let about = trial.map(|trial| format!(" of trial {trial}")).unwrap_or_default();
    let (place, title) = match table {
        Some(table) => (in_table(table, &about, difference), "  journal  "),
        None if *what == ORDER => {
            (format!("event {} cannot follow those before it", seq.0), "  journal  ")
        }
        None => (
            format!("event {} has the {in_words}{about} otherwise than it is decided now", seq.0),
            "  now      ",
        ),
    };
    console.hanging(&format!("{name}: "), 2, &place)?;
    console.hanging("  stored   ", 11, &one_line(stored))?;
    console.hanging(title, 11, &one_line(now))?;
    console.hanging(
        "  before   ",
        11,
        &format!("{} repeat exactly", what_was_decided(verified)),
    )?;
    let events = console.next(&format!("events {name} --json"));
    writeln!(console.out, "  {events} prints the journal")?;
    Ok(())
}

/// `table "report" has "value" (accuracy at step 1) of trial 3 otherwise than the journal, which
/// ends with event 40`
fn in_table(table: &str, about: &str, difference: &Difference) -> String {
    let field = if difference.field.is_empty() {
        "something".to_owned()
    } else {
        format!("`{}`", one_line(&difference.field))
    };
    let row = if difference.row.is_empty() {
        String::new()
    } else {
        format!(" ({})", one_line(&difference.row))
    };
    match difference.seq.0 {
        0 => format!("table `{table}` has {field}{row}{about} otherwise than the other tables"),
        seq => format!(
            "table `{table}` has {field}{row}{about} otherwise than the journal, which ends with \
             event {seq}"
        ),
    }
}
