//! The columns of a table of studies.

use std::time::Duration;

use crate::app::study_state::state;
use crate::report::progress::Progress;
use crate::report::table::{Align, Column};
use crate::report::wording::{number, one_line};
use crate::storage::StudySummary;

/// The columns of a table of studies.
pub fn columns(studies: &[StudySummary]) -> Vec<Column> {
    let cells =
        |cell: &dyn Fn(&StudySummary) -> String| studies.iter().map(cell).collect::<Vec<_>>();
    let trials = |study: &StudySummary| {
        let progress =
            Progress::new(&study.spec, study.search_counts(), Duration::ZERO, Duration::ZERO);
        progress
            .of
            .map_or_else(|| progress.done.to_string(), |of| format!("{}/{of}", progress.done))
    };
    vec![
        Column::new("study", Align::Left, cells(&|study| one_line(&study.spec.name))),
        Column::new("state", Align::Left, cells(&|study| state(study).as_str().to_owned())),
        Column::new("trials", Align::Right, cells(&trials)),
        Column::new(
            "best",
            Align::Point,
            cells(&|study| study.best.map_or_else(String::new, |(_, value)| number(value))),
        ),
        Column::new(
            "trial",
            Align::Right,
            cells(&|study| study.best.map_or_else(String::new, |(trial, _)| trial.to_string())),
        ),
        Column::new(
            "metric",
            Align::Left,
            cells(&|study| one_line(&study.spec.objective().metric)),
        ),
        Column::new(
            "goal",
            Align::Left,
            cells(&|study| study.spec.direction().as_str().to_owned()),
        ),
    ]
}
