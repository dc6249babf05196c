//! The end of a run: its outcome, the export, and what to do next.

use std::path::Path;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGTERM};

use super::{Form, RunArguments};
use crate::app::best::state_of_runs;
use crate::app::best_runs;
use crate::app::export::{ExportOptions, export_trial, target, test_winner};
use crate::app::study_state::{elapsed, unmeasured};
use crate::cli::console::{Console, Talk, shown};
use crate::cli::exit::{AGAIN, Exit, Failure};
use crate::cli::overrides::sets;
use crate::cli::waiting::listener;
use crate::cli::{exported, failures};
use crate::engine::RunOutcome;
use crate::export::Otherwise;
use crate::report::wording::{front_in_words, number, one_line};
use crate::storage::any::{AnyReader, AnyStore};
use crate::storage::{StorageReader, StoredStudy, StudySummary};
use crate::study::budget::DeviceLimit;
use crate::study::counted::count;
use crate::study::front::Front;
use crate::study::trial::{Trial, TrialState};

/// Prints the outcome, exports if configured, and returns the exit code.
pub(super) fn conclude(
    outcome: &RunOutcome,
    signal: Option<i32>,
    form: Form,
    (study, file): (&StoredStudy, &Path),
    arguments: &RunArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    // The run is over: the remaining output does not wait for stalled readers.
    console.drop_output_of_stalled_readers();
    let reader = AnyReader::open(&console.store)?;
    let summary = reader.summary(study.id)?;
    let name = &study.spec.name;
    let again = command_to_continue(arguments, &shown(file), console);
    // The plain reporter has printed this already.
    let is_told = form == Form::Lines && !arguments.events && console.talk != Talk::Quiet;
    if !is_told {
        say_result(outcome, &reader, &summary, console)?;
    }
    // Without a word, a script's log would have a number only.
    if let (RunOutcome::NoValue(why) | RunOutcome::TooManyFailures(why), Talk::Quiet) =
        (outcome, console.talk)
    {
        console.say_anyway(&format!("error: study `{name}`: {why}"));
    }
    match outcome {
        RunOutcome::Finished(_) => {
            test_and_export((&reader, &summary), (study, file), console)?;
            say_what_waits(&reader, &summary, console)?;
            Ok(Exit::Done)
        }
        RunOutcome::NoValue(_) => {
            let [trials, logs] = [format!("trials {name}"), format!("logs {name} N")]
                .map(|words| console.next(&words));
            console.say(&format!("{trials} says why each trial ended, {logs} what it printed"));
            say_what_waits(&reader, &summary, console)?;
            if summary.counts.failed > 0 {
                failures::print_next_steps(&reader, &summary, &again, console)?;
            }
            Ok(Exit::NoCompletedTrial)
        }
        RunOutcome::TooManyFailures(_) => {
            failures::print_next_steps(&reader, &summary, &again, console)?;
            Ok(Exit::FailureLimit)
        }
        RunOutcome::Interrupted(_) => {
            console.say(&format!("nothing is lost; continue with: {again}"));
            if summary.paused.is_some() {
                let resume = console.next(&format!("resume {name}"));
                console.say(&format!(
                    "it stays paused until {resume}, or until it is run with --resume"
                ));
            }
            Ok(match signal {
                Some(SIGTERM) => Exit::Terminated,
                Some(SIGHUP) => Exit::HungUp,
                _ => Exit::Interrupted,
            })
        }
        RunOutcome::Refused(reason) => {
            let help = format!(
                "nothing is lost, and no trial counts as failed: raise the limit that is named \
                 (of open files: `ulimit -n`), free disk space (`df -h`, `df -i`) or allow writing \
                 there, then continue with: {again}"
            );
            Err(Failure::new(Exit::Store, reason.clone()).help(help))
        }
        RunOutcome::Broken(reason) => Err(Failure::new(Exit::Internal, reason.clone()).help(AGAIN)),
    }
}

/// The result of a study, for a user that no reporter has told it.
fn say_result(
    outcome: &RunOutcome,
    reader: &AnyReader,
    summary: &StudySummary,
    console: &mut Console,
) -> Result<(), Failure> {
    let spec = &summary.spec;
    console.say(&format!("study `{}`: {}", spec.name, outcome.reason()));
    if let Some((trial, value)) = summary.best {
        let total = count(summary.counts.total(), "trial");
        let metric = &spec.objective().metric;
        console.say(&format!("best of {total}: trial {trial} with {metric} {}", number(value)));
    }
    if let Some(front @ Front { knee: Some(knee), .. }) = &summary.front {
        console.say(&format!("{}; trial {knee} is its compromise", front_in_words(front)));
    }
    if let Some(why) = unmeasured(reader, summary)? {
        console.say(&one_line(&why.to_string()));
    }
    Ok(())
}

/// Follows a finished study: measures its winner on the test split, and exports the best trial.
fn test_and_export(
    (reader, summary): (&AnyReader, &StudySummary),
    (study, file): (&StoredStudy, &Path),
    console: &mut Console,
) -> Result<(), Failure> {
    let name = &study.spec.name;
    let store = console.absolute_store()?;
    let tested = test_winner(&mut AnyStore::open(&store)?, study, &store, &mut listener(console));
    match tested {
        Ok(changed) => changed.iter().for_each(|file| {
            console.say(&format!(
                "the winner was not measured on the test split: `{}` {}",
                shown(file),
                exported::how_changed(file)
            ));
        }),
        Err(error) => {
            let export = console.next(&format!("export {name}"));
            console.say(&format!(
                "the winner was not measured on the test split; {export} tries again: {}",
                Failure::from(error)
            ));
        }
    }
    if let Some(race) = state_of_runs(reader, summary)?.as_ref().and_then(best_runs::race) {
        console.say(&format!("race: {race}"));
    }
    failures::warn_failing_choices(reader, summary, console)?;
    if let (true, Some(directory)) = (study.spec.export.on_finish, &study.spec.export.dir) {
        let known = Some((reader as &dyn StorageReader, study.id));
        let target = target(directory, &study.spec, Some(file), known, &store)?;
        let wanted = ExportOptions {
            trial: None,
            quantize: study.spec.export.quantize,
            target: &target,
            otherwise: Otherwise::Beside,
        };
        let written = export_trial(reader, summary, wanted, &store, &mut listener(console))?;
        exported::tell(&written, &study.spec, console);
    } else if summary.best_trial().is_some() {
        let [best, export] = [format!("best {name}"), format!("export {name} -o DIR")]
            .map(|words| console.next(&words));
        console.say(&format!("{best} shows it, {export} exports it"));
    }
    Ok(())
}

fn command_to_continue(arguments: &RunArguments, file: &str, console: &Console) -> String {
    let fork = arguments.fork.as_ref().map_or(String::new(), |fork| format!(" --fork {fork}"));
    format!("hpsearch run {file}{}{fork}{}", sets(&arguments.set), console.store_option())
}

/// Says how waiting trials continue where the study has used up its time, devices or cost.
fn say_what_waits(
    reader: &dyn StorageReader,
    study: &StudySummary,
    console: &Console,
) -> Result<(), Failure> {
    let budget = &study.spec.budget;
    if study.counts.paused + study.counts.queued == 0 {
        return Ok(());
    }
    let is_over = |limit: Option<Duration>, used: Duration| limit.is_some_and(|it| used >= it);
    let limit = budget.device_limit();
    let devices = is_over(limit.map(|limit| limit.time()), reader.used(study.id)?.busy);
    let option = match limit {
        _ if is_over(budget.time, elapsed(reader, study)?) => "--time +1h",
        Some(DeviceLimit::Hours(_)) if devices => "--device-hours +1",
        Some(DeviceLimit::Cost { .. }) if devices => "--cost +1",
        _ => return Ok(()),
    };
    let state = reader.study_state(study.id)?;
    let waits = |trial: &&Trial| trial.waits_for_its_pruner() || trial.state == TrialState::Queued;
    let (waiting, them) = match state.trials.iter().filter(waits).count() {
        0 => return Ok(()),
        1 => ("one trial waits".to_owned(), "it"),
        more => (format!("{more} trials wait"), "them"),
    };
    let extend = console.next(&format!("extend {} {option}", study.spec.name));
    console.say(&format!("{waiting}: {extend} lets {them} continue when the study is run"));
    Ok(())
}
