//! The reason of a decision, as numbers.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::study::metric::Number;
use crate::study::step::UnitStep;

/// Why a trial continues, pauses, stops or is promoted. Stored as an object with the numbers;
/// [`Reason::Recorded`] as a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", remote = "Self")]
pub enum Reason {
    /// Its rank at a rung, of which the best `first` continue.
    Rank {
        /// From 1; ties share the better one.
        rank: u64,
        /// How many were compared.
        of: u64,
        /// How many continue; at least `of` while there are too few to select from.
        first: u64,
        /// The step of the report.
        at: UnitStep,
        /// Number of trials behind the forecasts, if those were ranked instead of the values.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forecast_from: Option<u64>,
        /// The forecast that was ranked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forecast: Option<RankedForecast>,
    },
    /// It reached a rung at which every trial pauses.
    Rung {
        /// The rung's step.
        rung: u64,
        /// Its rank there.
        rank: u64,
        /// How many were compared.
        of: u64,
        /// How many of them are promoted.
        first: u64,
    },
    /// It reached a rung at which trials pause, and continues, since a pause costs more than it is
    /// expected to save.
    NotPaused {
        /// The rung's step.
        rung: u64,
        /// Its rank there.
        rank: u64,
        /// How many were compared.
        of: u64,
        /// How many of them are promoted.
        first: u64,
        /// Step at which it pauses instead; `None`: it runs to its end.
        until: Option<UnitStep>,
        /// What a pause costs.
        cost: PauseCost,
    },
    /// It is among the best paused trials of a rung.
    Promoted {
        /// The rung's step.
        rung: u64,
        /// Its rank there.
        rank: u64,
        /// How many were compared.
        of: u64,
        /// How many of them are promoted.
        first: u64,
        /// Step at which it pauses again; `None`: it runs to its end.
        until: Option<UnitStep>,
    },
    /// No trial completed, so the best at the highest rung continues.
    Concluded {
        /// The rung's step.
        rung: u64,
    },
    /// It waits for the other members of its population.
    Ready {
        /// The step at which they meet.
        rung: u64,
        /// Whether it does not wait: it is decided about at once, by the latest results of the
        /// others.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        at_once: bool,
    },
    /// A member of a population continues from its own checkpoint.
    Survived {
        /// The step at which the members met.
        rung: u64,
        /// Its rank there.
        rank: u64,
        /// How many were compared.
        of: u64,
        /// Whether it was to be replaced, and no better member has a checkpoint of that step, or a
        /// later one if it was decided about at once.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        no_donor: bool,
        /// Whether it was compared with the latest results of the others.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        at_once: bool,
    },
    /// A member of a population continues from another member's checkpoint.
    Exploited {
        /// The step at which the members met.
        rung: u64,
        /// Its rank there.
        rank: u64,
        /// How many were compared.
        of: u64,
        /// The other member's number.
        from: u64,
        /// The other member's rank.
        from_rank: u64,
        /// The step of the other member's latest result, if it was compared with that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_step: Option<u64>,
    },
    /// A member of a population continues from the checkpoint of a member of another
    /// sub-population.
    Migrated {
        /// The step at which the members met.
        rung: u64,
        /// Its rank in its sub-population.
        rank: u64,
        /// How many were compared.
        of: u64,
        /// The other member's number.
        from: u64,
        /// The trial whose parameters it has now.
        params_of: u64,
    },
    /// Its best value against a percentile of completed trials at the same step.
    Percentile {
        /// Its best value so far.
        best: Number,
        /// The percentile's value.
        border: Number,
        /// 50 is the median.
        percentile: Number,
        /// How many completed trials there are.
        of: u64,
        /// The step of the report.
        at: UnitStep,
        /// How `best` compares with `border`.
        comparison: Comparison,
    },
    /// Its last reports against its best before them.
    Patience {
        /// The best of its last reports.
        best: Number,
        /// How many of them.
        reports: u64,
        /// The best before them.
        before: Number,
        /// Differences up to this count as equal.
        min_delta: Number,
        /// The step of the report.
        at: UnitStep,
        /// How `best` compares with `before`.
        comparison: Comparison,
        /// The second rule's reason to stop it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wrapped: Option<Box<Reason>>,
    },
    /// Its reports no longer improve; the trial is complete.
    Plateau {
        /// The value that they do not improve on.
        best: Number,
        /// Its step.
        best_at: UnitStep,
        /// How many reports there were since.
        reports: u64,
        /// By how much an improvement must be better.
        min_delta: Number,
        /// The step of the report.
        at: UnitStep,
    },
    /// Its value is outside a fixed bound.
    Threshold {
        /// The value.
        value: Number,
        /// Which bound.
        bound: Bound,
        /// That bound.
        threshold: Number,
        /// The step of the report.
        at: UnitStep,
    },
    /// Its metrics violate a limit that prunes.
    Limit {
        /// The limit's condition.
        condition: String,
        /// By how much it is violated.
        over: Number,
        /// The step of the report.
        at: UnitStep,
    },
    /// A signed-rank test against the best trial.
    Wilcoxon {
        /// The p-value of being worse.
        p: Number,
        /// It stops below this p-value.
        threshold: Number,
        /// Steps that both trials reported.
        steps: u64,
        /// The step of the report.
        at: UnitStep,
        /// Number of the reference trial.
        best: u64,
        /// Both means, if the test finds the trial worse.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        means: Option<Means>,
    },
    /// A learning-curve forecast of its final value against the best one.
    Forecast {
        /// The forecast.
        mean: Number,
        /// Its standard deviation.
        deviation: Number,
        /// The best final value so far.
        best: Number,
        /// Probability of a better final value.
        probability: Number,
        /// The threshold for this probability, if it stops the trial.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        threshold: Option<Number>,
        /// The step of the report.
        at: UnitStep,
        /// Its rank at a rung, if it reached one too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rank: Option<Box<Reason>>,
    },
    /// The reported value is NaN.
    Nan {
        /// The step of the report.
        at: UnitStep,
    },
    /// All values so far are NaN.
    OnlyNan {
        /// Step of the last one.
        at: UnitStep,
    },
    /// It ran past its end, to this step.
    Reached(UnitStep),
    /// The user or the runner needs its slot; sent to the trial, never stored.
    Held(String),
    /// The sentence that an older version stored instead of the numbers.
    Recorded(String),
}

impl Reason {
    /// The threshold, if a rank or a value decided.
    pub fn cut_off(&self) -> Option<CutOff> {
        match self {
            Reason::Rank { forecast_from: Some(_), .. } => None,
            Reason::Rank { first, of, .. }
            | Reason::Rung { first, of, .. }
            | Reason::NotPaused { first, of, .. }
            | Reason::Promoted { first, of, .. } => Some(CutOff::Rank { first: *first, of: *of }),
            Reason::Percentile { border, .. } => Some(CutOff::Value(border.0)),
            Reason::Patience { before, .. } => Some(CutOff::Value(before.0)),
            Reason::Threshold { threshold, .. } => Some(CutOff::Value(threshold.0)),
            Reason::Forecast { rank, .. } => rank.as_ref().and_then(|rank| rank.cut_off()),
            Reason::Concluded { .. }
            | Reason::Ready { .. }
            | Reason::Survived { .. }
            | Reason::Exploited { .. }
            | Reason::Migrated { .. }
            | Reason::Limit { .. }
            | Reason::Plateau { .. }
            | Reason::Wilcoxon { .. }
            | Reason::Nan { .. }
            | Reason::OnlyNan { .. }
            | Reason::Reached(_)
            | Reason::Held(_)
            | Reason::Recorded(_) => None,
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Reason::Recorded(text) => serializer.serialize_str(text),
            typed => Reason::serialize(typed, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Ok(Reason::Recorded(text)),
            typed => Reason::deserialize(typed).map_err(de::Error::custom),
        }
    }
}

/// What a pause costs a trial that is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseCost {
    /// The time to start again, against the training that the pause may save.
    Restart {
        /// Microseconds from the start of an attempt to its first step: the median of the study.
        restart: i64,
        /// Microseconds of training to `until`.
        training: i64,
    },
    /// All of its training: its program saves no checkpoints.
    StartsOver,
}

/// Whether a value is worse than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// The value is worse.
    Worse,
    /// It is equal or better.
    NotWorse,
}

impl Comparison {
    /// Whether `value` is worse than `than`, for scores and losses.
    pub fn of<T: PartialOrd>(value: T, than: T) -> Self {
        if value > than { Comparison::Worse } else { Comparison::NotWorse }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Comparison::Worse => "worse",
            Comparison::NotWorse => "not worse",
        })
    }
}

/// The bound that a value violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// It is below the lower one.
    Lower,
    /// It is above the upper one.
    Upper,
}

/// Mean reports of a trial and of the best one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Means {
    /// The trial's.
    pub own: Number,
    /// The best trial's.
    pub best: Number,
    /// How they compare.
    pub comparison: Comparison,
}

/// The threshold that decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CutOff {
    /// A rank among the reports.
    Rank {
        /// How many continue.
        first: u64,
        /// How many were compared.
        of: u64,
    },
    /// A value.
    Value(f64),
}

/// A forecast final value, and the border of those that continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankedForecast {
    /// The mean.
    pub mean: Number,
    /// The standard deviation.
    pub deviation: Number,
    /// The worst mean among the first that continue.
    pub cut_off: Number,
}
