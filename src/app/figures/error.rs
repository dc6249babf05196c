//! Why there is no figure.

use crate::app::groups::{GroupBy, GroupError};
use crate::report::wording::one_line;
use crate::storage::StorageError;
use crate::study::series::SeriesAxis;

fn in_no_parameter(study: &str, of_runs: bool) -> String {
    let study = one_line(study);
    match of_runs {
        true => format!("the runs of `{study}` differ in no parameter"),
        false => format!("`{study}` searches no parameter"),
    }
}

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A parameter that the study does not search, or in which its runs do not differ.
    #[error("{} `{}`", in_no_parameter(study, *of_runs), one_line(name))]
    UnknownParameter {
        /// The study.
        study: String,
        /// The name.
        name: String,
        /// Whether the study is of tracked runs.
        of_runs: bool,
        /// Those that it searches, or in which its runs differ.
        known: Vec<String>,
    },
    /// The study searches none, or its runs differ in none.
    #[error("{}", in_no_parameter(study, *of_runs))]
    NoParameter {
        /// The study.
        study: String,
        /// Whether the study is of tracked runs.
        of_runs: bool,
    },
    /// The trials cannot be grouped.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// More groups than lines that can be told apart.
    #[error("there are {count} groups {by}, and at most {most} are drawn")]
    TooManyGroups {
        /// What the trials are grouped by.
        by: GroupBy,
        /// How many groups there are.
        count: usize,
        /// How many can be drawn.
        most: usize,
    },
    /// A contour needs two parameters.
    #[error("a contour is over two parameters, and {given}")]
    NotTwoParameters {
        /// What is given, or how many the study searches.
        given: String,
    },
    /// A metric that none of the trials has.
    #[error("these trials report no `{}`", one_line(metric))]
    UnknownMetric {
        /// The name.
        metric: String,
        /// Those that they have.
        known: Vec<String>,
    },
    /// A metric that is not on this axis.
    #[error("these trials have no `{}` by {axis}", one_line(metric))]
    NotOnAxis {
        /// The metric.
        metric: String,
        /// The axis.
        axis: SeriesAxis,
        /// The axes that it is on.
        known: Vec<&'static str>,
    },
    /// A metric that the study does not optimise.
    #[error("`{}` is not an objective of `{}`", one_line(metric), one_line(study))]
    NotAnObjective {
        /// The study.
        study: String,
        /// The name.
        metric: String,
        /// Its objectives.
        known: Vec<String>,
    },
    /// The study has one objective, and a front needs several.
    #[error("`{}` has one objective, and a front is of several", one_line(study))]
    OneObjective {
        /// The study.
        study: String,
    },
    /// The study has no such trial, or no best one.
    #[error("`{}` has no trial to show system metrics of", one_line(study))]
    NoTrial {
        /// The study.
        study: String,
    },
}
