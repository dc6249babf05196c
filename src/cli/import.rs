//! `hpsearch import`: takes in runs that other tools recorded.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::console::shown;
use super::way::Way;
use super::{Console, Exit, Failure};
use crate::app::import::{Imported, Outcome, Wanted, import as import_into, look};
use crate::report::wording::{count, one_line};
use crate::storage::StorageReader;
use crate::storage::sqlite::SqliteStore;
use crate::study::metric::Direction;
use crate::tracking::Goal;
use crate::tracking::import::{self, Format, Mapping};

const EXAMPLES: &str = "\
Examples:
  hpsearch import wandb                      all runs below ./wandb
  hpsearch import tensorboard:runs --study digits --metric val/loss
  hpsearch import results.csv --metric accuracy --direction maximize
  hpsearch import log.csv --metric loss --step epoch --run id --params lr
  hpsearch import wandb --dry-run            what would come

Each run becomes a tracked run with its parameters, series, tags and notes; a
run of TensorBoard is a directory with event files. Run again, it adds what is
new. Without --study, runs go to a study called as their project in W&B, or as
the directory or file.

Of a table, each row is a run with one value of the metric; all other columns
are parameters. With --step, rows are points: those of one --run together, and
all other columns are metrics.";

/// So many remarks are shown.
const REMARKS: usize = 20;

/// Arguments of `hpsearch import`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArguments {
    /// A directory or file, or wandb:PATH, tensorboard:PATH, csv:PATH
    pub source: String,
    /// The study that the runs go to; it is made where there is none
    #[arg(long, value_name = "NAME")]
    pub study: Option<String>,
    /// The metric that runs are compared by
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<String>,
    /// Whether smaller or larger values of it are better
    #[arg(long, value_name = "WAY", value_enum)]
    pub direction: Option<Way>,
    /// Columns of a table that are parameters
    #[arg(long, value_name = "COLUMN,..", value_delimiter = ',')]
    pub params: Vec<String>,
    /// Columns of a table that are metrics, besides --metric
    #[arg(long, value_name = "COLUMN,..", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// The column with the steps of a table whose rows are points
    #[arg(long, value_name = "COLUMN")]
    pub step: Option<String>,
    /// The column with the names of runs
    #[arg(long, value_name = "COLUMN")]
    pub run: Option<String>,
    /// Say what would come, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Imports.
pub fn import_runs(arguments: &ImportArguments, console: &mut Console) -> Result<Exit, Failure> {
    let wanted = wanted(arguments)?;
    let outcome = if arguments.dry_run {
        let reader = console.store.exists().then(|| console.reader()).transpose()?;
        let reader = reader.as_ref().map(|reader| reader as &dyn StorageReader);
        look(reader, &wanted)?
    } else {
        // Before anything is made: is there something?
        import::find(&wanted.path, wanted.format)?;
        let mut store = SqliteStore::open(&console.store)?;
        console.tell_migration(store.reader());
        let path = console.store.clone();
        import_into(&mut store, &path, &wanted, &mut |_| {})?
    };
    if arguments.json {
        return console.json(None, &json_of(&outcome, arguments.dry_run));
    }
    say(&outcome, arguments.dry_run, console);
    Ok(Exit::Done)
}

fn wanted(arguments: &ImportArguments) -> Result<Wanted, Failure> {
    let named = Format::ALL.into_iter().find_map(|format| {
        let rest = arguments.source.strip_prefix(format.as_str())?.strip_prefix(':')?;
        Some((Some(format), rest))
    });
    let (format, path) = named.unwrap_or((None, &arguments.source));
    if path.is_empty() {
        return Err(Failure::usage(format!("`{}` names no path", one_line(&arguments.source)))
            .help("write `wandb:DIR`, `tensorboard:DIR` or `csv:FILE`"));
    }
    let metric = arguments.metric.clone();
    Ok(Wanted {
        path: PathBuf::from(path),
        format,
        study: arguments.study.clone(),
        goal: Goal { metric: metric.clone(), direction: arguments.direction.map(Direction::from) },
        mapping: Mapping {
            metric,
            metrics: arguments.metrics.clone(),
            params: arguments.params.clone(),
            step: arguments.step.clone(),
            run: arguments.run.clone(),
        },
    })
}

fn json_of(outcome: &Outcome, is_dry: bool) -> serde_json::Value {
    let study = |(name, imported): (&String, &Imported)| {
        json!({
            "study": name,
            "new": imported.new,
            "continued": imported.continued,
            "known": imported.known,
            "points": imported.points,
        })
    };
    let remark = |(path, text): &(PathBuf, String)| json!({"source": path, "remark": text});
    json!({
        "imported": !is_dry,
        "studies": outcome.studies.iter().map(study).collect::<Vec<_>>(),
        "remarks": outcome.remarks.iter().map(remark).collect::<Vec<_>>(),
    })
}

fn say(outcome: &Outcome, is_dry: bool, console: &Console) {
    for (path, remark) in outcome.remarks.iter().take(REMARKS) {
        let (path, remark) = (shown(path), one_line(remark));
        // Most remarks name the file themselves.
        let names_it = remark.contains(path.as_str());
        console.say(&if names_it { remark } else { format!("{path}: {remark}") });
    }
    if let Some(more) = outcome.remarks.len().checked_sub(REMARKS).filter(|more| *more > 0) {
        console.say(&format!("and {more} more; `--json` has all of them"));
    }
    for (study, imported) in &outcome.studies {
        let Imported { new, continued, known, points } = *imported;
        let verb = match (is_dry, new) {
            (true, _) => "would be",
            (false, 1) => "is",
            (false, _) => "are",
        };
        let study = one_line(study);
        let mut parts = vec![format!("{} {verb} new", count(new, "run"))];
        if continued > 0 {
            parts.push(format!("{} had more by now", count(continued, "run")));
        }
        if known > 0 {
            parts.push(format!("{known} were there"));
        }
        let points = count(points, "point");
        console.say(&format!("`{study}`: {} ({points})", parts.join(", ")));
    }
    if outcome.studies.is_empty() {
        console.say("nothing to import was found there");
    }
}
