//! `hpsearch import`: imports runs and searches recorded by other tools.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::console::{credentials, shown};
use super::direction::DirectionArgument;
use super::{Console, Exit, Failure};
use crate::app::AppError;
use crate::app::import::{
    ImportOptions, ImportResult, Imported, check, import as import_into, look,
};
use crate::app::import_optuna::{Came, import_database};
use crate::report::wording::one_line;
use crate::storage::StorageReader;
use crate::storage::any::AnyStore;
use crate::storage::optuna_database;
use crate::storage::sqlite::is_database;
use crate::study::counted::count;
use crate::study::destination::{Destination, Tool};
use crate::study::metric::Direction;
use crate::tracking::Goal;
use crate::tracking::import::{Format, Mapping, ServerPlace};

const EXAMPLES: &str = "\
Examples:
  hpsearch import wandb                      all runs below ./wandb
  hpsearch import tensorboard:runs --study digits --metric val/loss
  hpsearch import results.csv --metric accuracy --direction maximize
  hpsearch import log.csv --metric loss --step epoch --run id --params lr
  hpsearch import optuna.db                  all studies of Optuna's database
  hpsearch import 'optuna:optuna.db#demo' --study digits
  hpsearch import mlflow:http://127.0.0.1:5000 --experiment digits
  hpsearch import wandb --dry-run            what would be imported

Each run becomes a tracked run with its parameters, series, tags and notes; a
run of TensorBoard is a directory with event files. A repeated import adds what
is new. Without --study, the study is named after the project in W&B, the
experiment in MLflow, or the directory or file.

A study of Optuna stays a search: `hpsearch ask-tell --study` and Python's
`hpsearch.optuna` continue it, and `warm_start` in a study file learns from it.

Each row of a table is a run with one value of the metric; all other columns
are parameters. With --step, each row is a point of the run that its --run
column names, and all other columns are metrics.";

/// Maximum number of remarks shown.
const REMARKS: usize = 20;

/// Arguments of `hpsearch import`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArguments {
    /// A directory or file, or wandb:PATH, tensorboard:PATH, csv:PATH, optuna:PATH#STUDY,
    /// mlflow:URL
    pub source: String,
    /// The study to import into; created if it does not exist
    #[arg(long, value_name = "NAME")]
    pub study: Option<String>,
    /// The experiment of an MLflow server; all if not given
    #[arg(long, value_name = "NAME")]
    pub experiment: Option<String>,
    /// The metric by which runs are compared
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<String>,
    /// Whether smaller or larger values of the metric are better
    #[arg(long, value_name = "WAY", value_enum)]
    pub direction: Option<DirectionArgument>,
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
    /// List what would be imported, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Imports runs, or with `--dry-run` says what would be imported.
pub fn import_runs(arguments: &ImportArguments, console: &mut Console) -> Result<Exit, Failure> {
    refuse_servers(&arguments.source)?;
    if let Some((path, only)) = database(&arguments.source) {
        return import_search(arguments, (&path, only.as_deref()), console);
    }
    let wanted = wanted(arguments)?;
    let outcome = if arguments.dry_run {
        let reader = console.reader_if_there()?;
        let reader = reader.as_ref().map(|reader| reader as &dyn StorageReader);
        look(reader, &wanted)?
    } else {
        // Checked before anything is created.
        check(&wanted)?;
        let mut store = AnyStore::open(&console.store)?;
        console.print_migration(store.migrated());
        let path = console.store.clone();
        import_into(&mut store, &path, &wanted, &mut |_| {})?
    };
    if arguments.json {
        return console.json(None, &json_of(&outcome, arguments.dry_run));
    }
    say(&outcome, ("run", "point"), arguments.dry_run, console);
    Ok(Exit::Done)
}

/// Rejects a database of Optuna on a server, whose address may have a password.
fn refuse_servers(source: &str) -> Result<(), Failure> {
    let url = source.strip_prefix("optuna:").unwrap_or(source);
    let Some((scheme, _)) = url.split_once("://") else { return Ok(()) };
    let kind = scheme.split('+').next().unwrap_or_default();
    if !["postgresql", "postgres", "mysql", "mariadb"].contains(&kind) {
        return Ok(());
    }
    let help = format!(
        "copy the study to a file first, in Python: `optuna.copy_study(from_study_name=\"NAME\", \
         from_storage=\"{scheme}://..\", to_storage=\"sqlite:///optuna.db\")`, then `hpsearch \
         import optuna.db`; a study of hpsearch itself goes to another store by `hpsearch copy`"
    );
    Err(Failure::usage(format!(
        "`{scheme}://..` is a database on a server: only files are imported"
    ))
    .help(help))
}

/// An Optuna database and the study named by the source, if it is one: `sqlite:///optuna.db` as
/// Optuna writes it, `optuna:optuna.db#demo`, or a file that is a database.
fn database(source: &str) -> Option<(PathBuf, Option<String>)> {
    let named = ["sqlite:///", "optuna:"].iter().find_map(|prefix| source.strip_prefix(prefix));
    let path = match named {
        Some(path) => path,
        None if is_database(Path::new(source)).is_ok_and(|is_one| is_one) => {
            return Some((PathBuf::from(source), None));
        }
        None => return None,
    };
    // The name of a study may have a `#`, too.
    let mut split = path.match_indices('#').filter_map(|(at, _)| path.split_at_checked(at));
    let file = split.find(|(file, _)| Path::new(file).is_file());
    let file = file.map(|(file, rest)| (file, &rest[1..]));
    match file.or_else(|| path.rsplit_once('#')) {
        Some((path, study)) if !Path::new(source).exists() => {
            Some((PathBuf::from(path), Some(study.to_owned())))
        }
        _ => Some((PathBuf::from(path), None)),
    }
}

/// Imports the studies of a database of Optuna.
fn import_search(
    arguments: &ImportArguments,
    (path, only): (&Path, Option<&str>),
    console: &mut Console,
) -> Result<Exit, Failure> {
    let of_runs = [
        ("--direction", arguments.direction.is_some()),
        ("--params", !arguments.params.is_empty()),
        ("--metrics", !arguments.metrics.is_empty()),
        ("--step", arguments.step.is_some()),
        ("--run", arguments.run.is_some()),
    ];
    if let Some((option, _)) = of_runs.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!("`{option}` does not apply to a study of Optuna"))
            .help("leave it out: the database defines it"));
    }
    if !path.exists() {
        return Err(Failure::usage(format!("there is no file {}", shown(path)))
            .help("name the file of an `RDBStorage`, as in `optuna.db`"));
    }
    let names = (only, arguments.study.as_deref());
    let metric = arguments.metric.as_deref();
    let done = if arguments.dry_run {
        let reader = console.reader_if_there()?;
        let reader = reader.as_ref().map(|reader| reader as &dyn StorageReader);
        import_database((None, reader), path, names, metric)?
    } else {
        // Checked before a store is created.
        optuna_database::read(path).map_err(AppError::from)?;
        let mut store = AnyStore::open(&console.store)?;
        console.print_migration(store.migrated());
        import_database((Some(&mut store), None), path, names, metric)?
    };
    let (mut outcome, is_dry) = (ImportResult::default(), arguments.dry_run);
    for (study, Came { new, known, reports }) in &done.studies {
        let imported =
            Imported { new: *new, known: *known, points: *reports, ..Imported::default() };
        outcome.studies.insert(study.clone(), imported);
    }
    let remarks = done.remarks.iter().map(|(study, remark)| (PathBuf::from(study), remark.clone()));
    outcome.remarks.extend(remarks);
    match arguments.json {
        true => drop(console.json(None, &json_of(&outcome, is_dry))?),
        false => say(&outcome, ("trial", "report"), is_dry, console),
    }
    Ok(if done.refused == 0 { Exit::Done } else { Exit::Usage })
}

/// The MLflow server, if the source is one.
fn server(arguments: &ImportArguments) -> Result<Option<ServerPlace>, Failure> {
    let source = &arguments.source;
    if !source.starts_with(&format!("{}:", Tool::MlFlow.as_str())) {
        if arguments.experiment.is_some() {
            return Err(Failure::usage("`--experiment` applies only to an MLflow server")
                .help("name one, as in `mlflow:http://127.0.0.1:5000`, or leave the option out"));
        }
        return Ok(None);
    }
    let destination: Destination = source
        .parse()
        .map_err(|error| Failure::usage(format!("`{}`: {error}", one_line(source))))?;
    Ok(Some(ServerPlace {
        address: destination.place.to_string_lossy().into_owned(),
        experiment: arguments.experiment.clone(),
        credentials: credentials(),
    }))
}

fn wanted(arguments: &ImportArguments) -> Result<ImportOptions, Failure> {
    let server = server(arguments)?;
    let named = Format::OF_FILES.into_iter().find_map(|format| {
        let rest = arguments.source.strip_prefix(format.as_str())?.strip_prefix(':')?;
        Some((Some(format), rest))
    });
    let (format, path) = named.unwrap_or((None, &arguments.source));
    if path.is_empty() {
        return Err(Failure::usage(format!("`{}` names no path", one_line(&arguments.source)))
            .help("write `wandb:DIR`, `tensorboard:DIR` or `csv:FILE`"));
    }
    let metric = arguments.metric.clone();
    Ok(ImportOptions {
        path: PathBuf::from(path),
        format,
        server,
        study: arguments.study.clone(),
        goal: Goal { metric: metric.clone(), direction: arguments.direction.map(Direction::from) },
        mapping: Mapping {
            metric,
            usual_metric: String::new(),
            metrics: arguments.metrics.clone(),
            params: arguments.params.clone(),
            step: arguments.step.clone(),
            run: arguments.run.clone(),
        },
    })
}

fn json_of(outcome: &ImportResult, is_dry: bool) -> serde_json::Value {
    let study = |(name, imported): (&String, &Imported)| {
        json!({
            "study": name,
            "new": imported.new,
            "continued": imported.continued,
            "changed": imported.changed,
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

fn say(outcome: &ImportResult, (run, point): (&str, &str), is_dry: bool, console: &Console) {
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
        let Imported { new, continued, changed, known, points } = *imported;
        let verb = match (is_dry, new) {
            (true, _) => "would be",
            (false, 1) => "is",
            (false, _) => "are",
        };
        let study = one_line(study);
        let mut parts = vec![format!("{} {verb} new", count(new, run))];
        if continued > 0 {
            parts.push(format!("{} had more points than before", count(continued, run)));
        }
        if changed > 0 {
            let verb = match (is_dry, changed) {
                (true, _) => "would be",
                (false, 1) => "was",
                (false, _) => "were",
            };
            parts.push(format!("{changed} {verb} changed"));
        }
        if known > 0 {
            parts.push(format!("{known} {} there", if known == 1 { "was" } else { "were" }));
        }
        let points = count(points, point);
        console.say(&format!("`{study}`: {} ({points})", parts.join(", ")));
    }
    if outcome.studies.is_empty() {
        console.say("nothing to import was found there");
    }
}
