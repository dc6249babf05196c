//! Provenance in words: the runner of each attempt and its environment.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::console::{shown, typed};
use super::moments::{instant, moment};
use super::{Console, Failure};
use crate::engine::seed_of;
use crate::report::wording::{attempt_end, duration, micros, one_line};
use crate::storage::{Attempt, StorageReader, StoredAgent, StoredRunner, StudyId, StudySummary};
use crate::study::counted::count;
use crate::study::event::AttemptEnd;
use crate::study::provenance::{AgentProvenance, Packages, Provenance};
use crate::study::trial::{Trial, TrialNumber};

/// An attempt of a trial and its runner.
#[derive(Clone, Debug)]
pub struct Made {
    /// The attempt.
    pub attempt: Attempt,
    /// Its runner; `None` in stores that did not record it.
    pub runner: Option<StoredRunner>,
    /// Its agent, if it ran on one whose machine is known.
    pub agent: Option<StoredAgent>,
}

/// One attempt in `--json`.
#[derive(Clone, Debug, Serialize)]
pub struct MadeJson {
    attempt: u32,
    device: String,
    started: String,
    end: Option<&'static str>,
    reason: Option<String>,
    #[serde(rename = "lineage")]
    provenance: Option<Provenance>,
    /// The machine of its agent, if it ran on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentProvenance>,
    /// The packages of `provenance`, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    packages: Option<BTreeMap<String, String>>,
}

impl MadeJson {
    /// An attempt with its packages by name.
    pub fn with_packages(made: &Made, reader: &dyn StorageReader) -> Result<Self, Failure> {
        let packages = made.provenance().and_then(|provenance| provenance.packages.as_ref());
        let list = packages.map(|packages| reader.document(&packages.digest)).transpose()?;
        let by_name = |list: String| {
            let lines = list.lines().filter_map(|line| line.split_once(' '));
            lines.map(|(name, version)| (name.to_owned(), version.to_owned())).collect()
        };
        Ok(MadeJson { packages: list.flatten().map(by_name), ..MadeJson::from(made) })
    }
}

impl From<&Made> for MadeJson {
    fn from(made: &Made) -> Self {
        MadeJson {
            attempt: made.attempt.attempt.0,
            device: made.attempt.slot.devices.to_string(),
            started: instant(made.attempt.started),
            end: made.attempt.end.as_ref().map(|end| attempt_end(Some(end))),
            reason: made.attempt.reason.clone(),
            provenance: made.provenance().cloned(),
            agent: made.agent.as_ref().map(|agent| agent.provenance.clone()),
            packages: None,
        }
    }
}

impl Made {
    /// The provenance, if recorded.
    pub fn provenance(&self) -> Option<&Provenance> {
        self.runner.as_ref()?.provenance.as_ref()
    }
}

/// The title of the fact that is a trial's seed.
pub const SEED: &str = "seed";

/// The attempts of a trial with their runners.
pub fn of_trial(
    reader: &dyn StorageReader,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Vec<Made>, Failure> {
    let runners = reader.runners(study)?;
    let of = |attempt: &Attempt| {
        runners.iter().find(|runner| Some(runner.seq) == attempt.runner).cloned()
    };
    let attempts = reader.attempts(study, Some(trial))?;
    let is_elsewhere = |attempt: &Attempt| attempt.slot.devices.agent().is_some();
    let agents = match attempts.iter().any(is_elsewhere) {
        true => reader.agents(study)?,
        false => Vec::new(),
    };
    let made = |attempt: Attempt| Made {
        runner: of(&attempt),
        agent: StoredAgent::that_ran(&agents, &attempt).cloned(),
        attempt,
    };
    Ok(attempts.into_iter().map(made).collect())
}

/// The full provenance of a trial's last attempt, with its device and the seed that hpsearch gave
/// it, if it did, to compare two trials.
pub fn facts(study: &StudySummary, trial: &Trial, made: &[Made]) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    if trial.origin.tracked().is_none() {
        facts.push((SEED.to_owned(), seed_of(&study.spec, trial).to_string()));
    }
    let Some(last) = made.last() else { return facts };
    facts.push(("device".to_owned(), last.attempt.slot.devices.to_string()));
    facts.extend(last.agent.iter().flat_map(|agent| agent.provenance.facts()));
    match last.provenance() {
        Some(provenance) => facts.extend(provenance.facts()),
        None => facts.push((
            "provenance".to_owned(),
            "not recorded by the version of hpsearch that ran it".to_owned(),
        )),
    }
    facts
}

/// The packages that differ between two runners, if both are known, by name.
pub fn package_differences(
    reader: &dyn StorageReader,
    one: &Provenance,
    other: &Provenance,
) -> Result<BTreeMap<String, [Option<String>; 2]>, Failure> {
    let (Some(one), Some(other)) = (&one.packages, &other.packages) else {
        return Ok(BTreeMap::new());
    };
    if one.digest == other.digest {
        return Ok(BTreeMap::new());
    }
    let list = |packages: &Packages| reader.document(&packages.digest);
    let (one, other) = (list(one)?.unwrap_or_default(), list(other)?.unwrap_or_default());
    Ok(Packages::differences(&one, &other))
}

/// `torch 2.9.0 -> 2.9.1`
pub fn version_change(name: &str, versions: &[Option<String>; 2]) -> String {
    match versions {
        [Some(one), Some(other)] => format!("{name} {one} -> {other}"),
        [None, Some(other)] => format!("{name} {other} added"),
        [Some(one), None] => format!("{name} {one} removed"),
        [None, None] => name.to_owned(),
    }
}

/// The arguments that run a study again: with the file of its last run, if known.
pub fn run(runners: &[StoredRunner]) -> String {
    let provenance = runners.iter().rev().find_map(|runner| runner.provenance.as_ref());
    let named = provenance.and_then(|provenance| {
        let mut words = provenance.command.iter().skip_while(|word| *word != "run").skip(1);
        let file = words.find(|word| word.ends_with(".toml") && !word.contains('='))?;
        Some(typed(Path::new(&shown(&Path::new(&provenance.directory).join(file)))))
    });
    format!("run {}", named.as_deref().unwrap_or("STUDY.toml"))
}

/// Prints the provenance of a runner.
pub fn print(provenance: Option<&Provenance>, console: &mut Console) -> Result<(), Failure> {
    let Some(provenance) = provenance else {
        return console.fact("provenance", "not recorded");
    };
    for (title, text) in provenance.short_facts() {
        console.fact(&title, &one_line(&text))?;
    }
    Ok(())
}

/// Prints the provenance of each attempt, grouped by runner. `dead`: the process of an open attempt
/// was killed, after this time if known.
pub fn print_attempts(
    made: &[Made],
    dead: Option<Option<Duration>>,
    console: &mut Console,
) -> Result<(), Failure> {
    for (index, of_attempt) in made.iter().enumerate() {
        let Attempt { attempt, slot, started, ended, end, reason, .. } = &of_attempt.attempt;
        let dead = dead.filter(|_| end.is_none());
        // The end of a lost attempt is when it was noticed; its runner's time ends with its life.
        let ran = of_attempt.runner.as_ref().filter(|_| *end == Some(AttemptEnd::Lost));
        let died = ran.and_then(|runner| Some(runner.started.after(micros(runner.ran_micros?))));
        let ended = ended.map(|ended| died.map_or(ended, |died| died.min(ended)));
        let took = ended.map(|ended| ended.since(*started)).or(dead.flatten());
        let took = took.map(|took| format!(", {}", duration(took))).unwrap_or_default();
        let end = match dead {
            Some(_) => attempt_end(Some(&AttemptEnd::Lost)),
            None => attempt_end(end.as_ref()),
        };
        let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        console.fact(
            &format!("attempt {attempt}"),
            &one_line(&format!("{} on {}, {end}{took}{why}", moment(*started), slot.devices)),
        )?;
        let is_last_of_agent =
            made.get(index + 1).is_none_or(|next| next.agent != of_attempt.agent);
        if is_last_of_agent {
            let agent = of_attempt.agent.iter();
            for (title, text) in agent.flat_map(|agent| agent.provenance.short_facts()) {
                console.fact(&title, &one_line(&text))?;
            }
        }
        let is_last_of_runner =
            made.get(index + 1).is_none_or(|next| next.attempt.runner != of_attempt.attempt.runner);
        if is_last_of_runner {
            print(of_attempt.provenance(), console)?;
        }
    }
    Ok(())
}

/// Prints the provenance of a study's last runner, and the number of others.
pub fn print_study(runners: &[StoredRunner], console: &mut Console) -> Result<(), Failure> {
    let Some(last) = runners.last() else { return Ok(()) };
    let others =
        runners.iter().filter(|runner| runner.provenance != last.provenance).count() as u64;
    let others = if others == 0 {
        String::new()
    } else {
        format!("; {} before it with other code, data or machine", count(others, "run"))
    };
    console.fact("last run", &format!("{}{others}", moment(last.started)))?;
    print(last.provenance.as_ref(), console)
}
