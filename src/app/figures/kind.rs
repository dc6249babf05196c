//! The kinds of figures, and what of a study they show.

use crate::app::curves::{By, Detail};
use crate::app::groups::GroupBy;
use crate::study::series::SeriesAxis;
use crate::study::trial::TrialNumber;

/// A kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Values by trial, and the best so far.
    History,
    /// Curves of trials, the best in front.
    Curves,
    /// Every trial as a line over all parameters.
    Parallel,
    /// Values by each parameter.
    Slice,
    /// Values over two parameters.
    Contour,
    /// Importance of the parameters.
    Importance,
    /// Trials that reached each rung, and those that continued.
    Rungs,
    /// Empirical distribution of the values.
    Distribution,
    /// Best value so far, by completed trials and over time.
    Comparison,
    /// Which trials ran on which slot and when.
    Timeline,
    /// Load and memory of a trial.
    System,
    /// The front of several objectives.
    Pareto,
    /// The front's hypervolume by trial.
    Hypervolume,
}

impl FigureKind {
    /// All kinds.
    pub const ALL: [FigureKind; 13] = [
        FigureKind::History,
        FigureKind::Curves,
        FigureKind::Parallel,
        FigureKind::Slice,
        FigureKind::Contour,
        FigureKind::Importance,
        FigureKind::Rungs,
        FigureKind::Distribution,
        FigureKind::Comparison,
        FigureKind::Timeline,
        FigureKind::System,
        FigureKind::Pareto,
        FigureKind::Hypervolume,
    ];

    /// Its name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            FigureKind::History => "history",
            FigureKind::Curves => "curves",
            FigureKind::Parallel => "parallel",
            FigureKind::Slice => "slice",
            FigureKind::Contour => "contour",
            FigureKind::Importance => "importance",
            FigureKind::Rungs => "rungs",
            FigureKind::Distribution => "edf",
            FigureKind::Comparison => "comparison",
            FigureKind::Timeline => "timeline",
            FigureKind::System => "system",
            FigureKind::Pareto => "pareto",
            FigureKind::Hypervolume => "hypervolume",
        }
    }

    /// What it shows, in a line.
    pub fn summary(self) -> &'static str {
        match self {
            FigureKind::History => "values by trial, and the best so far",
            FigureKind::Curves => "the curves of all trials, the best in front, of any metric",
            FigureKind::Parallel => "every trial as a line over all parameters",
            FigureKind::Slice => "values by each parameter",
            FigureKind::Contour => "values over two parameters, interpolated between trials",
            FigureKind::Importance => "which parameters matter, as bars",
            FigureKind::Rungs => "trials that reached each rung, and those that continued",
            FigureKind::Distribution => "the share of trials up to each value",
            FigureKind::Comparison => "the best value so far, by completed trials and over time",
            FigureKind::Timeline => "which slot ran trials when, how they ended, and checkpoints",
            FigureKind::System => "CPU, memory and GPUs of a trial over time",
            FigureKind::Pareto => "the front of several objectives, two at a time",
            FigureKind::Hypervolume => "the volume that the front dominates, by trial",
        }
    }

    /// Whether its horizontal axis can be logarithmic: those that studies do not share are of
    /// parameters, slots or rungs.
    pub fn has_log_x(self) -> bool {
        self.is_shared() || self == FigureKind::Pareto
    }

    /// Whether its vertical axis can be logarithmic.
    pub fn has_log_y(self) -> bool {
        matches!(
            self,
            FigureKind::History
                | FigureKind::Curves
                | FigureKind::Slice
                | FigureKind::Comparison
                | FigureKind::Pareto
        )
    }

    /// Whether it shows the parameters.
    pub fn is_of_params(self) -> bool {
        matches!(
            self,
            FigureKind::Parallel | FigureKind::Slice | FigureKind::Contour | FigureKind::Importance
        )
    }

    /// Whether it shows the values of one objective, of several each in turn.
    pub fn is_of_an_objective(self) -> bool {
        !matches!(
            self,
            FigureKind::Rungs
                | FigureKind::Timeline
                | FigureKind::System
                | FigureKind::Pareto
                | FigureKind::Hypervolume
        )
    }

    /// Whether pages show it as a chart that answers to the pointer, besides the drawn figure.
    pub fn is_chart(self) -> bool {
        matches!(self, FigureKind::History | FigureKind::Curves | FigureKind::Comparison)
    }

    /// Whether several studies have one figure in common.
    pub(super) fn is_shared(self) -> bool {
        matches!(
            self,
            FigureKind::History
                | FigureKind::Curves
                | FigureKind::Distribution
                | FigureKind::Comparison
        )
    }
}

/// What of a study a figure shows.
#[derive(Clone, Debug)]
pub struct FigureOptions {
    /// Parameters of slices, and the two of a contour; empty: all, or the most important ones.
    pub params: Vec<String>,
    /// Metric of curves, and which of several objectives; `None`: the study's, all of them.
    pub metric: Option<String>,
    /// Of curves: the mean of each of these groups of trials.
    pub group_by: Option<GroupBy>,
    /// Axis of curves; `None`: the study's where the metric is on it.
    pub axis: Option<SeriesAxis>,
    /// What curves are drawn by.
    pub by: By,
    /// Which points of curves are read.
    pub detail: Detail,
    /// Weight of the past in the exponential moving average of curves, from 0 (none) below 1.
    pub smooth: f64,
    /// Logarithmic horizontal axis, where values are positive.
    pub log_x: bool,
    /// Logarithmic vertical axis.
    pub log_y: bool,
    /// The trial of system metrics; `None`: the best.
    pub trial: Option<TrialNumber>,
    /// Maximum number of trials drawn as lines: the best ones.
    pub lines: usize,
    /// Whether several studies share the axes of a figure where they can.
    pub overlay: bool,
}

impl Default for FigureOptions {
    fn default() -> Self {
        FigureOptions {
            params: Vec::new(),
            metric: None,
            group_by: None,
            axis: None,
            by: By::Step,
            detail: Detail::Every,
            smooth: 0.0,
            log_x: false,
            log_y: false,
            trial: None,
            lines: 200,
            overlay: true,
        }
    }
}

impl FigureOptions {
    /// Whether another series than the study's metric by its steps is asked for.
    pub fn names_series(&self) -> bool {
        self.metric.is_some() || self.axis.is_some() || self.by == By::Wall
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = FigureKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), FigureKind::ALL.len());
    }
}
