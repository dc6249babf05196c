//! `--metric`, `--clock`, `--wall`, `--by` and `--over`: selects series of trials, and groups them.

use clap::Args;

use super::exit::Failure;
use super::groups::GroupArguments;
use crate::app::curves::By;
use crate::app::figures::{FigureError, series_of};
use crate::app::groups::GroupError;
use crate::study::series::{SeriesAxis, SeriesSummary};

/// A series, and its horizontal axis.
#[derive(Clone, Debug, Default, Args)]
pub struct SeriesArguments {
    /// Another metric than the study's: any that trials reported or logged
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// What the steps count, where the metric has several axes [default: the study's]
    #[arg(long = "clock", value_name = "AXIS", value_parser = axis_of)]
    pub axis: Option<SeriesAxis>,
    /// Draw by seconds since each trial began instead of steps
    #[arg(long, conflicts_with_all = ["by", "over"])]
    pub wall: bool,
    /// Draw the means of groups.
    #[command(flatten)]
    pub groups: GroupArguments,
}

fn axis_of(word: &str) -> Result<SeriesAxis, String> {
    SeriesAxis::from_word(word).ok_or_else(|| "it is step, epoch, samples or seconds".to_owned())
}

impl SeriesArguments {
    /// The horizontal axis.
    pub fn by(&self) -> By {
        if self.wall { By::Wall } else { By::Step }
    }

    /// Whether another series than the study's metric by its steps is selected.
    pub fn is_given(&self) -> bool {
        self.metric.is_some() || self.axis.is_some() || self.wall
    }

    /// The trials' series of `metric`.
    ///
    /// # Errors
    /// There is none of this metric, or none on the requested axis.
    pub fn of<'a>(
        &self,
        all: &'a [SeriesSummary],
        metric: &str,
    ) -> Result<Vec<&'a SeriesSummary>, FigureError> {
        series_of(all, metric, self.axis)
    }
}

impl From<GroupError> for Failure {
    fn from(error: GroupError) -> Self {
        let message = error.to_string();
        match error {
            GroupError::Storage(error) => error.into(),
            GroupError::Unknown { name, known, .. } if known.is_empty() => {
                Failure::usage(message).help(format!("it has none: leave out `{name}`"))
            }
            GroupError::Unknown { name, known, .. } => Failure::usage(message).known(
                &name,
                "its trials can be grouped by",
                known.iter().map(String::as_str),
            ),
        }
    }
}

impl From<FigureError> for Failure {
    fn from(error: FigureError) -> Self {
        let message = error.to_string();
        match error {
            FigureError::Storage(error) => error.into(),
            FigureError::Group(error) => error.into(),
            FigureError::TooManyGroups { .. } => Failure::usage(message).help(
                "`hpsearch curves` with `--table` or `--json` has all; name trials for fewer",
            ),
            FigureError::UnknownParameter { name, of_runs, known, .. } => {
                let there = if of_runs { "they differ in" } else { "it searches" };
                Failure::usage(message).known(&name, there, known.iter().map(String::as_str))
            }
            FigureError::NoParameter { .. } => {
                Failure::usage(message).help("`plot history` shows its values")
            }
            FigureError::UnknownMetric { metric, known } => Failure::usage(message).known(
                &metric,
                "they report",
                known.iter().map(String::as_str),
            ),
            FigureError::NotOnAxis { known, .. } => {
                Failure::usage(message).help(format!("they have it by {}", known.join(" and ")))
            }
            FigureError::NotTwoParameters { .. } => {
                Failure::usage(message).help("name two: `--param learning_rate --param dropout`")
            }
            FigureError::NotAnObjective { metric, known, .. } => Failure::usage(message).known(
                &metric,
                "it searches",
                known.iter().map(String::as_str),
            ),
            FigureError::OneObjective { .. } => {
                Failure::usage(message).help("`plot history` shows its values")
            }
            FigureError::NoTrial { .. } => Failure::usage(message).help("name one: `--trial 3`"),
        }
    }
}
