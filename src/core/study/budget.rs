//! The budget of a study: when it ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::study::serialized::is_default;

/// The largest integer in a store, for trials and microseconds.
pub const LARGEST_INTEGER: u64 = i64::MAX.unsigned_abs();

/// Which trials count towards `budget.trials`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Count {
    /// Complete and pruned.
    #[default]
    Finished,
    /// Complete only.
    Completed,
    /// Every trial that ended, failed ones too.
    All,
}

/// When the study ends. Absent keys do not limit it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Number of trials.
    pub trials: Option<u64>,
    /// Which trials count.
    pub count: Count,
    /// Running time of the runner, over all its runs.
    pub time: Option<Duration>,
    /// Ends as soon as a trial reaches this value.
    pub target: Option<f64>,
    /// Ends after this many failed trials (exit code 4).
    pub failures: Option<u64>,
    /// Longest running time of one attempt.
    pub trial_time: Option<Duration>,
    /// Longest time of an attempt without a report or a checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_time: Option<Duration>,
    /// Completes a trial after this many reports without an improvement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_patience: Option<u64>,
    /// What its reports must improve by to count as an improvement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_min_delta: Option<f64>,
    /// Ends after this many complete and pruned trials without a better one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<u64>,
    /// Device-hours of all devices and runs: a device counts once, however many trials share it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_hours: Option<f64>,
    /// Money: device-hours times `price_per_hour`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Price of a device-hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
}

impl Budget {
    /// Adds `extension` to the budget; absent limits stay absent.
    pub fn extend(&mut self, extension: Extension) {
        self.trials = self.trials.map(|trials| trials.saturating_add(extension.trials));
        self.time = self.time.map(|time| time.saturating_add(extension.time));
        self.device_hours = self.device_hours.map(|hours| hours + extension.device_hours);
        self.cost = self.cost.map(|cost| cost + extension.cost);
    }

    /// The keys whose values no store can represent: more than [`LARGEST_INTEGER`] trials or
    /// microseconds, and non-finite numbers, which JSON lacks.
    pub fn beyond_a_store(&self) -> Vec<&'static str> {
        let whole = |limit: Option<u64>| limit.is_some_and(|limit| limit > LARGEST_INTEGER);
        let time = |limit: Option<Duration>| {
            limit.is_some_and(|limit| limit.as_micros() > u128::from(LARGEST_INTEGER))
        };
        let amount = |limit: Option<f64>| limit.is_some_and(|limit| !limit.is_finite());
        let keys = [
            ("trials", whole(self.trials)),
            ("time", time(self.time)),
            ("target", amount(self.target)),
            ("failures", whole(self.failures)),
            ("trial_time", time(self.trial_time)),
            ("stall_time", time(self.stall_time)),
            ("trial_patience", whole(self.trial_patience)),
            ("trial_min_delta", amount(self.trial_min_delta)),
            ("patience", whole(self.patience)),
            ("device_hours", amount(self.device_hours)),
            ("cost", amount(self.cost)),
            ("price_per_hour", amount(self.price_per_hour)),
        ];
        keys.into_iter().filter(|(_, beyond)| *beyond).map(|(key, _)| key).collect()
    }

    /// The rule that completes a trial whose reports no longer improve: after how many of them, and
    /// by how much they must improve.
    pub fn plateau_rule(&self) -> Option<(u64, f64)> {
        Some((self.trial_patience?, self.trial_min_delta.unwrap_or(0.0)))
    }

    /// The tighter one of `device_hours` and `cost`, if one of them is set.
    pub fn device_limit(&self) -> Option<DeviceLimit> {
        let hours = self.device_hours.map(DeviceLimit::Hours);
        let cost = self
            .cost
            .zip(self.price_per_hour)
            .map(|(cost, price)| DeviceLimit::Cost { cost, price });
        hours.into_iter().chain(cost).min_by_key(|limit| limit.time())
    }

    /// The price of device time; `None` without `price_per_hour`.
    pub fn price_of(&self, device_time: Duration) -> Option<f64> {
        Some(device_time.as_secs_f64() / 3600.0 * self.price_per_hour?)
    }
}

/// What `hpsearch extend` added to the study file's budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Extension {
    /// Additional trials.
    pub trials: u64,
    /// Additional running time.
    pub time: Duration,
    /// Additional device-hours.
    #[serde(skip_serializing_if = "is_default")]
    pub device_hours: f64,
    /// Additional money.
    #[serde(skip_serializing_if = "is_default")]
    pub cost: f64,
}

impl Extension {
    /// Parses `+50` and `50` as a number of trials, from one to [`LARGEST_INTEGER`].
    pub fn trials_of(text: &str) -> Option<u64> {
        let number = text.strip_prefix('+').unwrap_or(text);
        number.parse().ok().filter(|trials| (1..=LARGEST_INTEGER).contains(trials))
    }

    /// Whether it adds nothing.
    pub fn is_nothing(self) -> bool {
        self == Extension::default()
    }

    /// The sum of both.
    #[must_use]
    pub fn and(self, more: Extension) -> Extension {
        Extension {
            trials: self.trials.saturating_add(more.trials),
            time: self.time.saturating_add(more.time),
            device_hours: self.device_hours + more.device_hours,
            cost: self.cost + more.cost,
        }
    }
}

/// The limit on device time that applies first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviceLimit {
    /// `budget.device_hours`.
    Hours(f64),
    /// `budget.cost`, at a price per hour.
    Cost {
        /// The limit.
        cost: f64,
        /// `budget.price_per_hour`.
        price: f64,
    },
}

impl DeviceLimit {
    /// The limit as device time.
    pub fn time(self) -> Duration {
        let hours = match self {
            DeviceLimit::Hours(hours) => hours,
            DeviceLimit::Cost { cost, price } => cost / price,
        };
        Duration::try_from_secs_f64(hours * 3600.0).unwrap_or(Duration::MAX)
    }
}
