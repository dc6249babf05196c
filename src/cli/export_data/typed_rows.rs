//! Rows with typed columns.

use std::io::Write;

use super::super::Failure;
use super::columns::{Cell, Kind, common, kind_of};
use super::parquet::ParquetTable;
use super::rows::{RowOf, TrialLine, TrialTable, origin, value_of};
use crate::storage::StudySummary;
use crate::study::device::DeviceGroup;
use crate::study::params::Value;
use crate::study::trial::Trial;

impl TrialTable<'_> {
    /// Writes the rows with typed columns.
    pub(super) fn parquet(&self, of: RowOf, out: &mut dyn Write) -> Result<u64, Failure> {
        match of {
            RowOf::Trial => self.trials_as_columns(out),
            RowOf::Report => self.reports_as_columns(out),
            RowOf::Point => self.points_as_columns(out),
        }
    }

    fn table<'o>(
        &self,
        out: &'o mut dyn Write,
        columns: &[(&str, Kind)],
        more: Vec<(String, Kind)>,
    ) -> Result<ParquetTable<'o>, Failure> {
        let study = self.is_named.then(|| ("study".to_owned(), Kind::Text));
        let own = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
        let all: Vec<_> = study.into_iter().chain(own).chain(more).collect();
        ParquetTable::new(out, &all)
    }

    fn points_as_columns(&self, out: &mut dyn Write) -> Result<u64, Failure> {
        let columns = [
            ("trial", Kind::Integer),
            ("metric", Kind::Text),
            ("clock", Kind::Text),
            ("step", Kind::Number),
            ("value", Kind::Number),
            ("seconds", Kind::Number),
        ];
        let mut table = self.table(out, &columns, Vec::new())?;
        let rows = self.each_point(|row| {
            let study = row.study.map(|study| Cell::Text(study.to_owned()));
            let own = [
                Cell::whole(row.trial),
                Cell::Text(row.metric.to_owned()),
                Cell::Text(row.axis.as_str().to_owned()),
                Cell::of(row.step.as_f64(), Cell::Number),
                Cell::Number(row.value.0),
                Cell::Number(row.seconds),
            ];
            table.row(study.into_iter().chain(own).collect())
        })?;
        table.finish().map(|()| rows)
    }

    fn reports_as_columns(&self, out: &mut dyn Write) -> Result<u64, Failure> {
        let columns = [
            ("trial", Kind::Integer),
            ("metric", Kind::Text),
            ("step", Kind::Integer),
            ("value", Kind::Number),
        ];
        let mut table = self.table(out, &columns, Vec::new())?;
        let rows = self.each_report(|study, trial, metric, step, value| {
            let study = study.map(|study| Cell::Text(study.to_owned()));
            let metric = Cell::Text(metric.to_owned());
            let own = [Cell::whole(trial.0), metric, Cell::whole(step), Cell::Number(value)];
            table.row(study.into_iter().chain(own).collect())
        })?;
        table.finish().map(|()| rows)
    }

    fn trials_as_columns(&self, out: &mut dyn Write) -> Result<u64, Failure> {
        let columns = [
            ("number", Kind::Integer),
            ("state", Kind::Text),
            ("value", Kind::Number),
            ("last_value", Kind::Number),
            ("last_step", Kind::Integer),
            ("seconds", Kind::Number),
            ("attempts", Kind::Integer),
            ("failures", Kind::Integer),
            ("device", Kind::Text),
            ("origin", Kind::Text),
            ("created", Kind::Text),
            ("started", Kind::Text),
            ("finished", Kind::Text),
            ("tags", Kind::Text),
            ("notes", Kind::Text),
            ("reason", Kind::Text),
            ("violation", Kind::Number),
            ("name", Kind::Text),
            ("group", Kind::Text),
        ];
        let params = self.params()?;
        let metrics = self.metrics()?;
        let summaries = self.summaries()?;
        let summary_names = summaries.names();
        let summarised = |study: &StudySummary, trial: &Trial, name: &String| {
            summaries.of(study, trial).get(name).and_then(Value::from_json)
        };
        // A first pass determines the type of each parameter and value of summaries.
        let mut kinds = vec![None; params.len()];
        let mut summary_kinds = vec![None; summary_names.len()];
        self.each_trial(|study, trial| {
            for (name, kind) in params.iter().zip(&mut kinds) {
                *kind = common(*kind, trial.params.get(name).and_then(kind_of));
            }
            for (name, kind) in summary_names.iter().zip(&mut summary_kinds) {
                let value = summarised(study, trial, name);
                *kind = common(*kind, value.as_ref().and_then(kind_of));
            }
            Ok(0)
        })?;
        let of_params = params
            .iter()
            .zip(&kinds)
            .map(|(name, kind)| (format!("params.{name}"), kind.unwrap_or(Kind::Text)));
        let of_metrics = metrics.iter().map(|name| (format!("metrics.{name}"), Kind::Number));
        let objectives = self.objectives();
        let of_objectives = objectives.iter().map(|name| (format!("values.{name}"), Kind::Number));
        let of_summaries = summary_names
            .iter()
            .zip(&summary_kinds)
            .map(|(name, kind)| (format!("summary.{name}"), kind.unwrap_or(Kind::Text)));
        let more = of_objectives.chain(of_params).chain(of_metrics).chain(of_summaries).collect();
        let mut table = self.table(out, &columns, more)?;
        let rows = self.each_trial(|study, trial| {
            let line = TrialLine::new(&study.spec, trial, summaries.of(study, trial));
            let text = |text: &str| Cell::Text(text.to_owned());
            let run = trial.origin.tracked();
            let of = |text: Option<&Option<String>>| Cell::of(text.cloned().flatten(), Cell::Text);
            let own = [
                Cell::whole(line.number),
                text(line.state.as_str()),
                Cell::of(trial.value, Cell::Number),
                Cell::of(trial.last().map(|(_, value)| value), Cell::Number),
                Cell::of(line.last_step, Cell::whole),
                Cell::Number(line.seconds),
                Cell::whole(line.attempts.into()),
                Cell::whole(line.failures.into()),
                Cell::of(line.device.map(DeviceGroup::to_string), Cell::Text),
                Cell::Text(origin(line.origin)),
                Cell::Text(line.created),
                Cell::of(line.started, Cell::Text),
                Cell::of(line.finished, Cell::Text),
                Cell::Text(line.tags.join(" ")),
                Cell::Text(line.notes.join("\n")),
                Cell::of(line.reason, text),
                Cell::of(trial.violation, Cell::Number),
                of(run.map(|run| &run.name)),
                of(run.map(|run| &run.group)),
            ];
            let values =
                objectives.iter().map(|name| Cell::of(value_of(study, trial, name), Cell::Number));
            let params = params.iter().map(|name| Cell::of(line.params.get(name), Cell::value));
            let last =
                metrics.iter().map(|name| Cell::of(trial.last_metrics.get(name), Cell::Number));
            let summary = summary_names
                .iter()
                .map(|name| Cell::of(summarised(study, trial, name).as_ref(), Cell::value));
            let study = self.name(study).map(text);
            let cells = study.into_iter().chain(own).chain(values).chain(params).chain(last);
            table.row(cells.chain(summary).collect()).map(|()| 1)
        })?;
        table.finish().map(|()| rows)
    }
}
