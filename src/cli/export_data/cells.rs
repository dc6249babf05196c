//! The table as separated values.

use std::io::Write;

use super::rows::{RowOf, TrialLine, TrialTable, origin, value_of};
use crate::cli::{Exit, Failure};
use crate::study::device::DeviceGroup;
use crate::study::params::Value;

/// The columns of trials, before parameters and metrics.
const CELLS: &str = "number state value last_value last_step seconds attempts failures device \
    origin created started finished tags notes reason violation";

/// The CSV writer.
type Csv<'a> = csv::Writer<&'a mut dyn Write>;

impl TrialTable<'_> {
    /// Writes a line of names, and each row as a line; returns the number of rows.
    pub(super) fn cells(
        &self,
        of: RowOf,
        separator: u8,
        out: &mut dyn Write,
    ) -> Result<u64, Failure> {
        let mut csv = csv::WriterBuilder::new().delimiter(separator).from_writer(out);
        let rows = match of {
            RowOf::Trial => self.trials_as_cells(&mut csv),
            RowOf::Report => self.reports_as_cells(&mut csv),
            RowOf::Point => self.points_as_cells(&mut csv),
        }?;
        csv.flush()?;
        Ok(rows)
    }

    fn trials_as_cells(&self, csv: &mut Csv<'_>) -> Result<u64, Failure> {
        let params = self.params()?;
        let metrics = self.metrics()?;
        let summaries = self.summaries()?;
        let summary_names = summaries.names();
        let is_tracked = self.studies.iter().any(|(study, _)| study.spec.is_tracked());
        let own = if is_tracked { " name group" } else { "" };
        let cells = format!("{CELLS}{own}");
        let objectives = self.objectives();
        let names = cells.split(' ').map(str::to_owned);
        let names = names.chain(objectives.iter().map(|name| format!("values.{name}")));
        let params_named = params.iter().map(|name| format!("params.{name}"));
        let metrics_named = metrics.iter().map(|name| format!("metrics.{name}"));
        let summary_named = summary_names.iter().map(|name| format!("summary.{name}"));
        let own = names.chain(params_named).chain(metrics_named).chain(summary_named);
        let titles = self.titles(own);
        csv.write_record(titles).map_err(csv_failure)?;
        self.each_trial(|study, trial| {
            let told = TrialLine::new(&study.spec, trial, summaries.of(study, trial));
            let mut cells: Vec<String> = self.name(study).map(str::to_owned).into_iter().collect();
            cells.extend([
                told.number.to_string(),
                told.state.as_str().to_owned(),
                cell(trial.value),
                cell(trial.last().map(|(_, value)| value)),
                told.last_step.map_or_else(String::new, |step| step.to_string()),
                told.seconds.to_string(),
                told.attempts.to_string(),
                told.failures.to_string(),
                told.device.map_or_else(String::new, DeviceGroup::to_string),
                origin(told.origin),
                told.created,
                told.started.unwrap_or_default(),
                told.finished.unwrap_or_default(),
                told.tags.join(" "),
                told.notes.join("\n"),
                told.reason.unwrap_or_default().to_owned(),
                cell(trial.violation),
            ]);
            if is_tracked {
                let run = trial.origin.tracked();
                let of =
                    |text: Option<&Option<String>>| text.cloned().flatten().unwrap_or_default();
                cells.extend([of(run.map(|run| &run.name)), of(run.map(|run| &run.group))]);
            }
            cells.extend(objectives.iter().map(|name| cell(value_of(study, trial, name))));
            cells.extend(
                params.iter().map(|name| {
                    told.params.get(name).map_or_else(String::new, ToString::to_string)
                }),
            );
            cells.extend(metrics.iter().map(|name| cell(trial.last_metrics.get(name))));
            cells.extend(summary_names.iter().map(|name| {
                let value = told.summary.get(name).and_then(Value::from_json);
                value.map_or_else(String::new, |value| value.to_string())
            }));
            csv.write_record(&cells).map_err(csv_failure)?;
            Ok(1)
        })
    }

    fn reports_as_cells(&self, csv: &mut Csv<'_>) -> Result<u64, Failure> {
        let titles = self.titles(["trial", "metric", "step", "value"].map(str::to_owned));
        csv.write_record(titles).map_err(csv_failure)?;
        self.each_report(|study, trial, metric, step, value| {
            let (trial, step, value) = (trial.to_string(), step.to_string(), cell(Some(value)));
            let cells = study.into_iter().chain([trial.as_str(), metric, &step, &value]);
            csv.write_record(cells).map_err(csv_failure)
        })
    }

    fn points_as_cells(&self, csv: &mut Csv<'_>) -> Result<u64, Failure> {
        let names = ["trial", "metric", "clock", "step", "value", "seconds"];
        csv.write_record(self.titles(names.map(str::to_owned))).map_err(csv_failure)?;
        self.each_point(|row| {
            let mut cells: Vec<String> = row.study.map(str::to_owned).into_iter().collect();
            cells.extend([
                row.trial.to_string(),
                row.metric.to_owned(),
                row.axis.as_str().to_owned(),
                row.step.to_string(),
                cell(Some(row.value.0)),
                row.seconds.to_string(),
            ]);
            csv.write_record(cells).map_err(csv_failure)
        })
    }

    /// The titles of columns, preceded by one for the study if rows name it.
    fn titles(&self, names: impl IntoIterator<Item = String>) -> Vec<String> {
        self.is_named.then(|| "study".to_owned()).into_iter().chain(names).collect()
    }
}

/// A number in its shortest exact form, NaN and infinities included; empty if absent.
fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:?}"))
}

fn csv_failure(error: csv::Error) -> Failure {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Failure::from(error),
        other => Failure::new(Exit::Internal, format!("a row cannot be written: {other:?}"))
            .help("`-o FILE.jsonl` takes any row; please report it"),
    }
}
