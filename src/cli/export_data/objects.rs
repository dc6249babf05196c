//! The table as JSON objects.

use std::io::Write;

use serde::Serialize;

use super::rows::{ReportLine, RowOf, TrialLine, TrialTable};
use crate::cli::Failure;
use crate::config::shown;
use crate::study::metric::Number;

impl TrialTable<'_> {
    /// Writes each row as a JSON object, with separators before the first and the other ones, and a
    /// terminator after each.
    pub(super) fn objects(
        &self,
        of: RowOf,
        out: &mut dyn Write,
        [first, next]: [&str; 2],
        end: &str,
    ) -> Result<u64, Failure> {
        let mut before = first;
        if of == RowOf::Point {
            return self
                .each_point(|row| object(out, std::mem::replace(&mut before, next), row, end));
        }
        if of == RowOf::Report {
            return self.each_report(|study, trial, metric, step, value| {
                let value = Number(value);
                let row = ReportLine { study, trial: trial.0, metric, step, value };
                object(out, std::mem::replace(&mut before, next), &row, end)
            });
        }
        let summaries = self.summaries()?;
        self.each_trial(|study, trial| {
            let line = TrialLine::new(&study.spec, trial, summaries.of(study, trial));
            let row = TrialLine { study: self.name(study), ..line };
            object(out, std::mem::replace(&mut before, next), &row, end).map(|()| 1)
        })
    }
}

fn object(
    out: &mut dyn Write,
    before: &str,
    row: &impl Serialize,
    end: &str,
) -> Result<(), Failure> {
    let text = shown::json(&serde_json::to_string(row)?);
    Ok(write!(out, "{before}{text}{end}")?)
}
