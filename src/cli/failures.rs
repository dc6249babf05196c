//! Advice after failures: the log to read, what to correct, and the command to continue.

use super::console::{Console, shown};
use super::exit::Failure;
use crate::report::wording::param;
use crate::storage::address::absolute;
use crate::storage::{OutcomeCursor, StorageReader, StudySummary};
use crate::study::outcome::TrialSummary;
use crate::study::program::Program;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::space::Distribution;
use crate::study::trial::TrialState;

/// Warns about choices with which every trial failed, while trials with others did not.
pub fn warn_failing_choices(
    reader: &dyn StorageReader,
    study: &StudySummary,
    console: &Console,
) -> Result<(), Failure> {
    if study.counts.failed < 2 || study.counts.only_fail() {
        return Ok(());
    }
    let (outcomes, _) = reader.outcomes(study.id, OutcomeCursor::default())?;
    for dimension in study.spec.space.dimensions() {
        let Distribution::Choice { choices } = &dimension.distribution else { continue };
        for choice in choices {
            let has = |outcome: &&TrialSummary| {
                outcome.params.get(&dimension.name).is_some_and(|value| value.same(choice))
            };
            let with: Vec<&TrialSummary> = outcomes.iter().filter(has).collect();
            if with.len() > 1 && with.iter().all(|outcome| outcome.state == TrialState::Failed) {
                let (trials, name) = (with.len(), &dimension.name);
                let choice = param(choice);
                console.say(&format!("warning: all {trials} trials with {name}={choice} failed"));
            }
        }
    }
    Ok(())
}

/// Prints the advice after a run. `run_again`: the command that runs the study again.
pub fn print_next_steps(
    reader: &dyn StorageReader,
    study: &StudySummary,
    run_again: &str,
    console: &mut Console,
) -> Result<(), Failure> {
    let name = &study.spec.name;
    let filter = Filter::parse("state:failed", &study.spec)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let query = TrialQuery { filter, sort: SortKey::Started, reverse: true, offset: 0, limit: 1 };
    for last in reader.trials(study.id, &query)? {
        let Some(attempt) = last.last_attempt() else { continue };
        let log = study.files(&absolute(&console.store)?).log(last.number, attempt);
        let logs = console.next(&format!("logs {name} {}", last.number));
        console.say(&format!("what trial {} printed: {logs} ({})", last.number, shown(&log)));
    }
    let cause = match &study.spec.program {
        Program::Command { cwd, .. } => format!(
            "the program, or `run` in [command], whose relative paths begin at {} (`cwd`)",
            shown(cwd)
        ),
        Program::Trainer { .. } => "what it names in [trainer], [data] or [space]".to_owned(),
        Program::Inline => "the objective".to_owned(),
    };
    let retry = console.next(&format!("retry {name} --failed"));
    let accept = match study.spec.program {
        Program::Inline => "",
        _ => " (with `--accept` if the study file was changed)",
    };
    console.say(&format!(
        "correct {cause}; then {retry} queues the failed trials again, and `{run_again}` \
         continues{accept}"
    ));
    console.say(&match study.spec.budget.failures {
        Some(limit) => format!(
            "`failures = {limit}` under [budget] says how many trials may \
            fail: retry them, or raise it, to continue"
        ),
        None => "`failures = N` under [budget] says how many trials may fail before a study \
            ends"
            .to_owned(),
    });
    Ok(())
}
