//! `hpsearch artifacts`: the files, images, texts and tables that trials kept, listed or written to
//! a directory.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::artifact_json::{ArtifactJson, artifacts_json};
use super::{Console, Exit, Failure};
use crate::app::artifacts::{fetch, find};
use crate::app::find as find_study;
use crate::report::table::Columns;
use crate::report::wording::{bytes, one_line, shorten};
use crate::storage::{StorageReader, StudySummary};
use crate::study::artifact::{Artifact, StoredArtifact};
use crate::study::trial::TrialNumber;

const EXAMPLES: &str = "\
Examples:
  hpsearch artifacts digits              of all trials
  hpsearch artifacts digits 7
  hpsearch artifacts digits 7 --get model -o out
  hpsearch artifacts digits 7 --get model:v2 --get confusion
  hpsearch artifacts digits 7 --json | jq '.artifacts[].name'

A name has versions; without `:v2` the newest one is used. A file is written
under its name, a directory with its files, a text as .txt, a table as .json.
Digests (SHA-256) are checked; existing files are not overwritten.";

/// Arguments of `hpsearch artifacts`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "hpsearch artifacts [OPTIONS] [STUDY] [TRIAL]..."
)]
pub struct ArtifactsArguments {
    /// The study's name or file, then numbers of trials (7 or 3,5 or 0-4) [default: all]
    #[arg(value_name = "STUDY, TRIAL")]
    pub words: Vec<String>,
    /// Write this artifact of the trial to a directory, as often as needed
    #[arg(long, value_name = "NAME")]
    pub get: Vec<String>,
    /// The directory to write to
    #[arg(short, long, value_name = "DIR", default_value = ".", requires = "get")]
    pub output: PathBuf,
    /// Print JSON, texts and tables included
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ArtifactsJson {
    artifacts: Vec<ArtifactJson>,
}

/// Lists them, or writes some to a directory.
pub fn artifacts(arguments: &ArtifactsArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let (study, trials) = find_study::study_and_trials(&reader, &arguments.words)?;
    let name = study.spec.name.clone();
    let mut artifacts = Vec::new();
    for trial in &trials {
        find_study::trial(&reader, &study, *trial)?;
        artifacts.extend(reader.artifacts(study.id, Some(*trial))?);
    }
    if trials.is_empty() {
        artifacts = reader.artifacts(study.id, None)?;
    }
    if !arguments.get.is_empty() {
        let [trial] = trials.as_slice() else {
            return Err(Failure::usage("`--get` requires one trial")
                .help(format!("write `hpsearch artifacts {name} 7 --get NAME`")));
        };
        return get(arguments, (&reader, &study, *trial), &artifacts, console);
    }
    if arguments.json {
        let artifacts = artifacts_json(&reader, &study, &console.store, &artifacts)?;
        return console.json(Some(&name), &ArtifactsJson { artifacts });
    }
    if artifacts.is_empty() {
        console.say("no artifact was logged");
        return Ok(Exit::Done);
    }
    let step = |stored: &StoredArtifact| {
        stored.artifact.step.map_or_else(String::new, |step| step.to_string())
    };
    let columns = Columns::of(&artifacts)
        .right("trial", |stored| stored.trial.to_string())
        .left("name", |stored| one_line(&stored.label()))
        .left("kind", |stored| stored.artifact.kind.as_str())
        .right("step", step)
        .right("size", |stored| bytes(stored.artifact.bytes))
        .left("sha256", |stored| stored.artifact.digest.get(..12).unwrap_or_default().to_owned())
        .left("original", |stored| original(&stored.artifact))
        .optional();
    console.table(&columns.end())?;
    Ok(Exit::Done)
}

fn original(artifact: &Artifact) -> String {
    let path = artifact.path.as_ref().map(|path| one_line(&path.display().to_string()));
    match (path, artifact.copied) {
        (Some(path), false) => format!("{path} (not copied)"),
        (path, _) => path.unwrap_or_default(),
    }
}

fn get(
    arguments: &ArtifactsArguments,
    (reader, study, trial): (&dyn StorageReader, &StudySummary, TrialNumber),
    artifacts: &[StoredArtifact],
    console: &mut Console,
) -> Result<Exit, Failure> {
    let files = study.files(&console.store);
    for named in &arguments.get {
        let Some(stored) = find(artifacts, named) else {
            let mut known: Vec<String> =
                artifacts.iter().map(|stored| format!("`{}`", one_line(&stored.label()))).collect();
            known.truncate(20);
            let known = match known.as_slice() {
                [] => "it has none".to_owned(),
                known => format!("it has {}", known.join(", ")),
            };
            let shown = shorten(&one_line(named), 60, "..");
            let message = format!("trial {trial} has no artifact `{shown}`");
            return Err(Failure::usage(message).help(known));
        };
        let path = fetch(reader, &files, stored, &arguments.output)
            .map_err(|error| Failure::usage(error.to_string()))?;
        writeln!(console.out, "{}", one_line(&path.display().to_string()))?;
    }
    Ok(Exit::Done)
}
