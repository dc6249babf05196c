//! A pruner's decision about a running trial: its reason as numbers, and its wording.

mod wording;

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

impl Reason {
    /// The threshold, if a rank or a value decided.
    pub fn cut_off(&self) -> Option<CutOff> {
        match self {
            Reason::Rank { forecast_from: Some(_), .. } => None,
            Reason::Rank { first, of, .. }
            | Reason::Rung { first, of, .. }
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

/// The answer to a report, without its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Continue.
    Continue,
    /// Save a checkpoint and exit for now.
    Pause,
    /// Exit permanently.
    Stop,
}

/// The answer to a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Continue; with a reason only if there was a decision (a rung was passed).
    Continue(Option<Reason>),
    /// Save a checkpoint and exit; the trial may be resumed later.
    Pause(Reason),
    /// Exit permanently: the trial is pruned.
    Stop(Reason),
}

impl Decision {
    /// Nothing to decide at this report.
    pub const CONTINUE: Decision = Decision::Continue(None);

    /// Continue after a decision.
    pub fn continues(reason: Reason) -> Self {
        Decision::Continue(Some(reason))
    }

    /// The word in the protocol and the store: `continue`, `pause` or `stop`.
    pub fn word(&self) -> &'static str {
        match self {
            Decision::Continue(_) => "continue",
            Decision::Pause(_) => "pause",
            Decision::Stop(_) => "stop",
        }
    }

    /// The reason, if any.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Decision::Continue(reason) => reason.as_ref(),
            Decision::Pause(reason) | Decision::Stop(reason) => Some(reason),
        }
    }

    /// The word and its reason: `stop: rank 9 of 12 at step 300; 4 continue`.
    pub fn in_words(&self) -> String {
        self.reason()
            .map_or_else(|| self.word().to_owned(), |reason| format!("{}: {reason}", self.word()))
    }

    /// Whether it equals a stored decision. Sentences of older versions have no numbers to compare.
    pub fn repeats(&self, stored: &Decision) -> bool {
        self.word() == stored.word()
            && match (self.reason(), stored.reason()) {
                (Some(_), Some(Reason::Recorded(_))) => true,
                (now, then) => now == then,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::step::StepUnit;
    use serde_json::json;

    #[test]
    fn a_reason_is_stored_as_numbers_said_in_words_and_knows_its_cut_off() {
        let at = json!({ "clock": "step", "step": 300 });
        let rank = |first, of| Some(CutOff::Rank { first, of });
        let value = |value| Some(CutOff::Value(value));
        let cases = [
            (
                json!({ "rank": { "rank": 9, "of": 12, "first": 4, "at": at } }),
                "rank 9 of 12 at step 300; 4 continue",
                rank(4, 12),
            ),
            (
                json!({ "rank": { "rank": 9, "of": 12, "first": 4, "at": at, "forecast_from": 6,
                    "forecast": { "mean": 0.31, "deviation": 0.021, "cut_off": 0.2 } } }),
                "rank 9 of 12 at step 300, by final values forecast from 6 that continued: 0.310 \
                 +- 0.021 against 0.200; 4 continue",
                None,
            ),
            (
                json!({ "rank": { "rank": 2, "of": 3, "first": 1, "at": at } }),
                "rank 2 of 3 at step 300; 1 continues",
                rank(1, 3),
            ),
            (
                json!({
                    "rank": { "rank": 1, "of": 1, "first": 2, "at": at, "forecast_from": 20 },
                }),
                "rank 1 of 1 at step 300, by final values forecast from 20 that continued; the \
                 first 2 continue",
                None,
            ),
            (
                json!({ "rung": { "rung": 3, "rank": 2, "of": 5, "first": 1 } }),
                "rung 3 reached with rank 2 of 5; the best one continues",
                rank(1, 5),
            ),
            (
                json!({ "promoted": { "rung": 3, "rank": 1, "of": 5, "first": 1, "until": at } }),
                "rank 1 of 5 at rung 3; 1 continues to step 300",
                rank(1, 5),
            ),
            (
                json!({ "promoted": { "rung": 3, "rank": 2, "of": 9, "first": 3, "until": null } }),
                "rank 2 of 9 at rung 3; 3 continue to the end",
                rank(3, 9),
            ),
            (
                json!({ "concluded": { "rung": 3 } }),
                "the best trial at rung 3, the highest that was reached, runs to its end: no \
                 other did",
                None,
            ),
            (json!({ "ready": { "rung": 3 } }), "ready at rung 3: waits for its population", None),
            (
                json!({ "ready": { "rung": 3, "at_once": true } }),
                "ready at rung 3: continues as the latest results of its population decide",
                None,
            ),
            (
                json!({ "survived": { "rung": 3, "rank": 2, "of": 8 } }),
                "rank 2 of 8 of its population at rung 3: continues",
                None,
            ),
            (
                json!({ "survived": { "rung": 3, "rank": 8, "of": 8, "no_donor": true } }),
                "rank 8 of 8 of its population at rung 3: continues, since no better one has a \
                 checkpoint there",
                None,
            ),
            (
                json!({ "survived": { "rung": 3, "rank": 2, "of": 5, "at_once": true } }),
                "rank 2 of 5 at rung 3, among the latest results of its population: continues",
                None,
            ),
            (
                json!({
                    "survived": {
                        "rung": 3, "rank": 5, "of": 5, "no_donor": true, "at_once": true,
                    },
                }),
                "rank 5 of 5 at rung 3, among the latest results of its population: continues, \
                 since no better one has a checkpoint as far on",
                None,
            ),
            (
                json!({
                    "exploited": {
                        "rung": 3, "rank": 5, "of": 5, "from": 2, "from_rank": 1, "from_step": 9,
                    },
                }),
                "rank 5 of 5 at rung 3, among the latest results of its population: continues \
                 from trial 2 at step 9, which has rank 1",
                None,
            ),
            (
                json!({
                    "exploited": { "rung": 3, "rank": 8, "of": 8, "from": 5, "from_rank": 1 },
                }),
                "rank 8 of 8 of its population at rung 3: continues from trial 5, which has rank 1",
                None,
            ),
            (
                json!({ "migrated": { "rung": 3, "rank": 3, "of": 4, "from": 5, "params_of": 2 } }),
                "rank 3 of 4 of its sub-population at rung 3: continues from trial 5 of another \
                 one, with the parameters of trial 2",
                None,
            ),
            (
                json!({
                    "percentile": {
                        "best": 0.45, "border": 0.4, "percentile": 50.0, "of": 3, "at": at,
                        "comparison": "worse",
                    },
                }),
                "best value 0.45 is worse than the median 0.4 of 3 completed trials at step 300",
                value(0.4),
            ),
            (
                json!({
                    "percentile": {
                        "best": -1e-9, "border": 1.75, "percentile": 25.0, "of": 3, "at": at,
                        "comparison": "not_worse",
                    },
                }),
                "best value -1e-9 is not worse than 1.75, percentile 25 of 3 completed trials at \
                 step 300",
                value(1.75),
            ),
            (
                json!({
                    "patience": {
                        "best": 0.5, "reports": 2, "before": "-Infinity", "min_delta": 1.0,
                        "at": at, "comparison": "worse",
                    },
                }),
                "the best value 0.5 of the last 2 reports up to step 300 is worse than -inf \
                 before them by more than 1",
                value(f64::NEG_INFINITY),
            ),
            (
                json!({
                    "patience": {
                        "best": "NaN", "reports": 2, "before": 0.5, "min_delta": 1.0, "at": at,
                        "comparison": "worse", "wrapped": { "only_nan": { "at": at } },
                    },
                }),
                "the last 2 reports up to step 300 are NaN, and every value up to step 300 is NaN",
                value(0.5),
            ),
            (
                json!({
                    "threshold": { "value": 2.5, "bound": "upper", "threshold": 2.0, "at": at },
                }),
                "value 2.5 at step 300 is above the threshold 2",
                value(2.0),
            ),
            (
                json!({
                    "wilcoxon": { "p": 0.2, "threshold": 0.1, "steps": 4, "at": at, "best": 3 },
                }),
                "p = 0.2000 at 4 steps in common with the best trial 3 is not below 0.1",
                None,
            ),
            (
                json!({ "wilcoxon": { "p": 0.01, "threshold": 0.1, "steps": 4, "at": at, "best": 3,
                    "means": { "own": 4.0, "best": 3.0, "comparison": "worse" } } }),
                "p = 0.0100 at 4 steps in common with the best trial 3 is below 0.1, and the mean \
                 4 is worse than its 3",
                None,
            ),
            (
                json!({
                    "forecast": {
                        "mean": 0.456, "deviation": 0.02, "best": 0.4, "probability": 0.01,
                        "threshold": 0.02, "at": at,
                    },
                }),
                "at step 300 expected to end at 0.456 +- 0.020: better than the best, 0.400, with \
                 probability 0.010, less than 0.02",
                None,
            ),
            (
                json!({
                    "forecast": {
                        "mean": 0.456, "deviation": 0.2, "best": 0.4, "probability": 0.01, "at": at,
                        "rank": { "rank": { "rank": 1, "of": 3, "first": 1, "at": at } },
                    },
                }),
                "rank 1 of 3 at step 300; 1 continues; at step 300 expected to end at 0.46 +- \
                 0.20: \
                 better than the best, 0.40, with probability 0.010",
                rank(1, 3),
            ),
            (json!({ "nan": { "at": at } }), "the value at step 300 is NaN", None),
            (json!({ "reached": { "clock": "epoch", "step": 9 } }), "epoch 9 is reached", None),
            (json!("rank 9 of 12; 4 continue"), "rank 9 of 12; 4 continue", None),
        ];
        for (stored, words, cut_off) in cases {
            let reason: Reason = serde_json::from_value(stored.clone()).unwrap();
            assert_eq!((reason.to_string().as_str(), reason.cut_off()), (words, cut_off));
            assert_eq!(serde_json::to_value(&reason).unwrap(), stored);
        }
    }

    #[test]
    fn a_decision_repeats_with_the_same_numbers_or_beside_a_sentence() {
        let nan = |step| Decision::Stop(Reason::Nan { at: StepUnit::Epoch.at(step) });
        let recorded = |text: &str| Reason::Recorded(text.to_owned());
        assert!(nan(3).repeats(&nan(3)) && nan(3).repeats(&Decision::Stop(recorded("NaN"))));
        assert!(!nan(3).repeats(&nan(4)) && !nan(3).repeats(&Decision::Pause(recorded("NaN"))));
        assert!(!Decision::CONTINUE.repeats(&Decision::continues(recorded("rank 1 of 3"))));
    }
}
