//! `hpsearch export-data`: the trials of studies, or their reports, as a table for other programs.

mod cells;
#[cfg(feature = "parquet")]
mod columns;
mod objects;
#[cfg(feature = "parquet")]
mod parquet;
mod rows;
#[cfg(feature = "parquet")]
mod typed_rows;

use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::output_file::{refuse_existing, refuse_inputs, whole_file};
use super::selection::{self, SeveralArguments};
use super::{Console, Exit, Failure};
use crate::app::find;
use crate::storage::StudySummary;
use crate::storage::paths::store_files;
use crate::study::counted::count;
use crate::study::query::Filter;
use rows::{RowOf, TrialTable};

/// Arguments of `hpsearch export-data`.
#[derive(Clone, Debug, Args)]
#[command(after_help = selection::with_filters("\
Examples:
  hpsearch export-data digits > trials.csv
  hpsearch export-data digits -o trials.json
  hpsearch export-data digits --format tsv
  hpsearch export-data digits --where state:complete -o complete.csv
  hpsearch export-data digits --reports -o curves.csv
  hpsearch export-data digits --series -o series.csv
  hpsearch export-data --all -o trials.csv     every study, named in a column
  hpsearch export-data digits --series -o points.parquet

The value is that of a complete trial, by [study] value; last_value is the last
report of any trial. Columns metrics.NAME have what it reported last, those of a
tracked run what it reported or logged last;
`hpsearch best --json` has the metrics at the step of its value, and --reports
those of every step. Columns summary.NAME have its summary; seconds is the time
of all its attempts, started the beginning of the last.
In CSV and TSV, absent values are empty cells, and NaN is NaN; cells with
separators or line breaks are quoted."))]
pub struct ExportDataArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Several studies instead.
    #[command(flatten)]
    pub several: SeveralArguments,
    /// The file to write; standard output by default, and for `-`
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    pub overwrite: bool,
    /// The format; by default that of the file's extension, csv without one
    #[arg(long)]
    pub format: Option<Format>,
    /// One row for each reported number instead of each trial
    #[arg(long)]
    pub reports: bool,
    /// One row for each point of each series, reported or logged, with its axis and seconds since
    /// its trial began
    #[arg(long, conflicts_with = "reports")]
    pub series: bool,
    /// Write hidden trials, too
    #[arg(long)]
    pub hidden: bool,
    /// Only trials that match the filter (see below)
    #[arg(long = "where", value_name = "FILTER", allow_hyphen_values = true)]
    pub filter: Option<String>,
}

/// A format of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values, with a line of names first
    Csv,
    /// The same, separated by tabs
    Tsv,
    /// One JSON array of objects: exact values with their types
    Json,
    /// One JSON object per line: exact values with their types
    Jsonl,
    /// Columns with types; in builds with `--features parquet`
    Parquet,
}

/// Writes the table.
pub fn export_data(
    arguments: &ExportDataArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    if let Some(path) = &arguments.output {
        refuse_inputs(
            path,
            store_files(&console.store)
                .into_iter()
                .chain(arguments.study.as_ref().map(PathBuf::from)),
        )?;
        if !arguments.overwrite {
            refuse_existing(path)?;
        }
    }
    let form = match (arguments.format, &arguments.output) {
        (Some(form), _) => form,
        (None, Some(path)) => form_of(path)?,
        (None, None) => Format::Csv,
    };
    let of = match (arguments.reports, arguments.series) {
        (true, _) => RowOf::Report,
        (_, true) => RowOf::Point,
        _ => RowOf::Trial,
    };
    check_parquet(form, arguments.output.is_none())?;
    let reader = console.reader()?;
    let named = arguments.study.as_deref();
    let is_named = arguments.several.is_given();
    let studies = if is_named {
        let studies = arguments.several.studies(&reader, named, console)?;
        let filtered = selection::of_each(studies, console, |study| match &arguments.filter {
            Some(text) => selection::filter_of(&reader, study, text),
            None => Ok(Filter::all()),
        })?;
        let filters = filtered.iter().map(|(study, filter)| (study, filter));
        selection::warn_of_absent(&reader, filters, console)?;
        filtered
    } else {
        let study = find::study(&reader, named)?;
        let filter = selection::filter(&reader, &study, arguments.filter.as_deref(), console)?;
        vec![(study, filter)]
    };
    let visible = |(study, filter): (StudySummary, Filter)| {
        let filter = if arguments.hidden { filter } else { study.visible(filter) };
        (study, filter)
    };
    let studies = studies.into_iter().map(visible).collect();
    let table = TrialTable { reader: &reader, studies, is_named, form };
    let Some(path) = &arguments.output else {
        table.write(of, &mut console.out)?;
        return Ok(Exit::Done);
    };
    let rows = whole_file(path, |out| table.write(of, out))?;
    if path != Path::new("-") {
        console.say(&format!("{} written to {}", count(rows, "row"), path.display()));
    }
    Ok(Exit::Done)
}

/// The format of a file's extension; CSV without one.
fn form_of(path: &Path) -> Result<Format, Failure> {
    let Some(ending) = path.extension() else { return Ok(Format::Csv) };
    match ending.to_string_lossy().to_ascii_lowercase().as_str() {
        "csv" => Ok(Format::Csv),
        "tsv" | "tab" => Ok(Format::Tsv),
        "json" => Ok(Format::Json),
        "jsonl" | "ndjson" => Ok(Format::Jsonl),
        "parquet" | "pq" => Ok(Format::Parquet),
        other => {
            let formats = match cfg!(feature = "parquet") {
                true => ".csv, .tsv, .json, .jsonl or .parquet",
                false => ".csv, .tsv, .json or .jsonl",
            };
            let help = format!(
                "end the name in {formats}: `-o {}`; or choose the format with `--format`",
                path.with_extension("csv").display()
            );
            Err(Failure::usage(format!(
                "`{}`: `.{other}` is not a supported format",
                path.display()
            ))
            .help(help))
        }
    }
}

/// Checks that this build supports Parquet, and that the output is not a terminal.
fn check_parquet(form: Format, to_output: bool) -> Result<(), Failure> {
    if form != Format::Parquet {
        return Ok(());
    }
    if cfg!(not(feature = "parquet")) {
        let failure = Failure::usage("this build does not write Parquet");
        return Err(failure.help(
            "write `.csv` or `.jsonl`, which pandas and polars also read, or build hpsearch with \
             `--features parquet`",
        ));
    }
    if to_output && std::io::stdout().is_terminal() {
        let failure = Failure::usage("Parquet cannot be written to a terminal");
        return Err(failure.help("name a file: `-o trials.parquet`"));
    }
    Ok(())
}

impl TrialTable<'_> {
    /// Writes all rows; returns their number.
    fn write(&self, of: RowOf, out: &mut dyn Write) -> Result<u64, Failure> {
        match self.form {
            Format::Csv => self.cells(of, b',', out),
            Format::Tsv => self.cells(of, b'\t', out),
            Format::Json => {
                write!(out, "[")?;
                let rows = self.objects(of, out, ["\n", ",\n"], "")?;
                writeln!(out, "{}]", if rows == 0 { "" } else { "\n" })?;
                Ok(rows)
            }
            Format::Jsonl => self.objects(of, out, ["", ""], "\n"),
            Format::Parquet => self.parquet(of, out),
        }
    }

    #[cfg(not(feature = "parquet"))]
    fn parquet(&self, _of: RowOf, _out: &mut dyn Write) -> Result<u64, Failure> {
        check_parquet(Format::Parquet, false).map(|()| 0)
    }
}
