//! `hpsearch verify`: replays a stored study, and reports the first difference.

use std::io::Write;
use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::{Console, Exit, Failure};
use crate::app::artifacts;
use crate::engine::verify::{
    Difference, Entry, ORDER, Verified, VersionChange, hold_tables, verify as decide_again,
};
use crate::report::wording::{count, one_line};
use crate::storage::sqlite::SqliteReader;
use crate::storage::{StorageReader, StudyId, StudySummary};
use crate::study::event::Seq;
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;

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
struct Answer {
    repeats: bool,
    proposals: u64,
    verdicts: u64,
    promotions: u64,
    race_steps: u64,
    values: u64,
    versions: Vec<VersionChange>,
    difference: Option<DifferenceJson>,
}

#[derive(Serialize)]
struct DifferenceJson {
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
    let Moment { revisions, journal, tables, difference } = moment_of(&reader, study.id)?;
    let fault = artifact_fault(&reader, &study, &console.store)?;
    let mut verified = decide_again(&revisions, &journal, &tables).map_err(|error| {
        Failure::new(Exit::Internal, error)
            .help("verify with the hpsearch that ran the study: `hpsearch show` names it")
    })?;
    // Differences of decisions come first, then those of tables.
    if verified.difference.as_ref().is_none_or(|difference| difference.table.is_some()) {
        verified.difference = difference.or(verified.difference);
    }
    // No decision depends on artifacts.
    verified.difference = verified.difference.or(fault);
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

/// The first artifact whose content in the store or in the trial's files differs from what was
/// logged.
fn artifact_fault(
    reader: &SqliteReader,
    study: &StudySummary,
    store: &Path,
) -> Result<Option<Difference>, Failure> {
    let files = study.files(store);
    for stored in reader.artifacts(study.id, None)? {
        // The files of a hidden trial are gone.
        let is_hidden =
            || Ok::<_, Failure>(reader.trial(study.id, stored.trial)?.is_some_and(|of| of.hidden));
        let Some(why) = artifacts::fault(reader, &files, &stored)? else { continue };
        if is_hidden()? {
            continue;
        }
        return Ok(Some(Difference {
            seq: Seq(0),
            trial: Some(stored.trial),
            what: "artifact",
            table: Some("artifact"),
            row: stored.label(),
            field: "digest".to_owned(),
            stored: stored.artifact.digest,
            now: why,
        }));
    }
    Ok(None)
}

/// A consistent snapshot of a study.
struct Moment {
    revisions: Vec<(Seq, StudySpec)>,
    journal: Vec<Entry>,
    tables: StudyState,
    /// The difference between the journal and tables that the state does not include.
    difference: Option<Difference>,
}

/// Reads a consistent snapshot while other processes may be writing.
fn moment_of(reader: &SqliteReader, study: StudyId) -> Result<Moment, Failure> {
    loop {
        let revisions = reader.revisions(study)?;
        let journal = reader.events_after(study, Seq(0), u64::MAX)?;
        let tables = reader.view(study)?;
        let difference =
            hold_tables(reader, study, &reader.objectives(study)?, &revisions, &journal)?;
        let last = journal.last().map_or(Seq(0), |(seq, ..)| *seq);
        if reader.events_after(study, last, 1)?.is_empty()
            && reader.revisions(study)?.len() == revisions.len()
        {
            return Ok(Moment { revisions, journal, tables, difference });
        }
    }
}

fn json(verified: Verified) -> Answer {
    let said = |text: String| (!text.is_empty()).then_some(text);
    let difference = verified.difference.map(
        |Difference { seq, trial, what, table, row, field, stored, now }| DifferenceJson {
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
    Answer {
        repeats: difference.is_none(),
        proposals: verified.proposals,
        verdicts: verified.verdicts,
        promotions: verified.promotions,
        race_steps: verified.race_steps,
        values: verified.values,
        versions: verified.versions,
        difference,
    }
}

/// `50 proposals, 132 verdicts and 38 values`
fn what_was_decided(verified: &Verified) -> String {
    let more = [
        (verified.promotions, "promotion"),
        (verified.race_steps, "race step"),
        (verified.values, "value"),
    ];
    let mut parts =
        vec![count(verified.proposals, "proposal"), count(verified.verdicts, "verdict")];
    let more = more.into_iter().filter(|(number, _)| *number > 0);
    parts.extend(more.map(|(number, what)| count(number, what)));
    let last = parts.pop().unwrap_or_default();
    format!("{} and {last}", parts.join(", "))
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
    for VersionChange { kind, name: policy, stored, here } in &verified.versions {
        let words = format!(
            "{kind} `{}` decided by its rules of version {stored}; this hpsearch has version \
             {here}, which may decide otherwise",
            one_line(policy)
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
    let about = trial.map(|trial| format!(" of trial {trial}")).unwrap_or_default();
    let (place, title) = match table {
        Some(table) => (in_table(table, &about, difference), "  journal  "),
        None if *what == ORDER => {
            (format!("event {} cannot follow those before it", seq.0), "  journal  ")
        }
        None => (
            format!("event {} has the {what}{about} otherwise than it is decided now", seq.0),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decided_is_counted_in_words() {
        let mut verified = Verified { proposals: 1, verdicts: 12, ..Verified::default() };
        assert_eq!(what_was_decided(&verified), "1 proposal and 12 verdicts");
        verified.race_steps = 4;
        verified.values = 2;
        assert_eq!(
            what_was_decided(&verified),
            "1 proposal, 12 verdicts, 4 race steps and 2 values"
        );
    }
}
