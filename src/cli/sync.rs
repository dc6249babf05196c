//! `hpsearch sync`: exports studies to other tools.

use clap::Args;

use super::console::{credentials, shown};
use super::selection::SeveralArguments;
use super::{Console, Exit, Failure};
use crate::app::find;
use crate::app::sync::{not_written, sync};
use crate::report::wording::one_line;
use crate::study::counted::count;
use crate::study::destination::Destination;

const EXAMPLES: &str = "\
Examples:
  hpsearch sync digits --to tensorboard:tb
  tensorboard --logdir tb/digits
  hpsearch sync --all --to wandb:wandb
  wandb sync wandb/digits/offline-run-*
  hpsearch sync digits --to mlflow:http://127.0.0.1:5000

Each study gets its own directory, with one for each trial or run; on an MLflow
server, an experiment. Names and passwords of servers are taken from the
environment: MLFLOW_TRACKING_USERNAME, _PASSWORD or _TOKEN. A repeated sync adds
what is new. `[track] to = [\"tensorboard:tb\"]` in a study file does the same
while the study runs.";

/// Arguments of `hpsearch sync`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SyncArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Several studies instead.
    #[command(flatten)]
    pub several: SeveralArguments,
    /// tensorboard:DIR, wandb:DIR or mlflow:URL, as often as needed
    #[arg(long, value_name = "TOOL:PLACE", required = true)]
    pub to: Vec<String>,
}

/// Writes them.
pub fn sync_studies(arguments: &SyncArguments, console: &mut Console) -> Result<Exit, Failure> {
    let read = |text: &String| {
        text.parse::<Destination>()
            .map_err(|error| Failure::usage(format!("`--to {}`: {error}", one_line(text))))
    };
    let destinations = arguments.to.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let (reader, credentials) = (console.reader()?, credentials());
    let named = arguments.study.as_deref();
    let studies = if arguments.several.is_given() {
        arguments.several.studies(&reader, named, console)?
    } else {
        vec![find::study(&reader, named)?]
    };
    for study in &studies {
        for destination in &destinations {
            let written = sync(&reader, study, destination, &credentials)?;
            let there = shown(&destination.place);
            let name = one_line(&study.spec.name);
            if written.left_alone > 0 {
                console.say(&format!(
                    "`{name}`: {} deleted in MLflow and left deleted; `mlflow runs restore` brings \
                     them back",
                    count(written.left_alone, "run"),
                ));
            }
            if written.runs == 0 {
                console.say(&format!("`{name}`: {there} has all of it"));
                continue;
            }
            console.say(&format!(
                "`{name}`: {} of {} written to {there}",
                count(written.points, "point"),
                count(written.runs, "run"),
            ));
            let missing = not_written(&reader, study, destination.tool)?;
            if !missing.is_empty() {
                console.say(&format!(
                    "`{name}`: not written there: {}; `hpsearch show` and `hpsearch artifacts` \
                     have them",
                    missing.join(", "),
                ));
            }
        }
    }
    Ok(Exit::Done)
}
