//! The specification of a study: everything that is decided before the first trial, as plain data
//! that can be stored.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::study::constraint::Constraint;
use crate::study::destination::Destination;
use crate::study::metric::Direction;
pub use crate::study::notify::NotifySpec;
use crate::study::params::Params;
use crate::study::space::Space;
use crate::study::step::StepUnit;
use crate::study::tracked::NO_SAMPLER;

/// What is optimised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// Name of the metric in reports.
    pub metric: String,
    /// Whether smaller or larger is better.
    pub direction: Direction,
}

/// Which report is a trial's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueRule {
    /// The best one.
    #[default]
    Best,
    /// The last one.
    Last,
}

/// Steps at which a trial must evaluate and report, besides its last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Milestones {
    /// Interval.
    pub every: Option<u64>,
    /// Individual steps, ascending.
    pub at: Vec<u64>,
}

/// What to do when the sampler proposes a configuration that was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// Draw again (a bounded number of times).
    #[default]
    Skip,
    /// Run it again on another seed; samplers see one configuration with the mean of its runs.
    Replicate,
    /// Run it again as a trial of its own.
    Allow,
}

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

/// The largest integer in a store, for trials and microseconds.
pub const LARGEST_WHOLE: u64 = i64::MAX.unsigned_abs();

/// Whether a field that older versions lack is at its default, and therefore not written.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Extension {
    /// Parses `+50` and `50` as a number of trials, from one to [`LARGEST_WHOLE`].
    pub fn trials_of(text: &str) -> Option<u64> {
        let number = text.strip_prefix('+').unwrap_or(text);
        number.parse().ok().filter(|trials| (1..=LARGEST_WHOLE).contains(trials))
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

impl Budget {
    /// Adds `extension` to the budget; absent limits stay absent.
    pub fn extend(&mut self, extension: Extension) {
        self.trials = self.trials.map(|trials| trials.saturating_add(extension.trials));
        self.time = self.time.map(|time| time.saturating_add(extension.time));
        self.device_hours = self.device_hours.map(|hours| hours + extension.device_hours);
        self.cost = self.cost.map(|cost| cost + extension.cost);
    }

    /// The keys whose values no store can represent: more than [`LARGEST_WHOLE`] trials or
    /// microseconds, and non-finite numbers, which JSON lacks.
    pub fn beyond_a_store(&self) -> Vec<&'static str> {
        let whole = |limit: Option<u64>| limit.is_some_and(|limit| limit > LARGEST_WHOLE);
        let time = |limit: Option<Duration>| {
            limit.is_some_and(|limit| limit.as_micros() > u128::from(LARGEST_WHOLE))
        };
        let amount = |limit: Option<f64>| limit.is_some_and(|limit| !limit.is_finite());
        let keys = [
            ("trials", whole(self.trials)),
            ("time", time(self.time)),
            ("target", amount(self.target)),
            ("failures", whole(self.failures)),
            ("trial_time", time(self.trial_time)),
            ("stall_time", time(self.stall_time)),
            ("patience", whole(self.patience)),
            ("device_hours", amount(self.device_hours)),
            ("cost", amount(self.cost)),
            ("price_per_hour", amount(self.price_per_hour)),
        ];
        keys.into_iter().filter(|(_, beyond)| *beyond).map(|(key, _)| key).collect()
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

/// A sampler or pruner by name, with its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlgorithmSpec {
    /// Name in the table of samplers or pruners.
    pub name: String,
    /// The alias that the user wrote, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Version of its rules; raised whenever the same history gives other decisions.
    pub version: u32,
    /// Options as given, checked.
    #[serde(default)]
    pub options: BTreeMap<String, serde_json::Value>,
}

impl AlgorithmSpec {
    /// An algorithm without options.
    pub fn named(name: &str) -> Self {
        AlgorithmSpec { name: name.to_owned(), alias: None, version: 1, options: BTreeMap::new() }
    }

    /// The same with an option set.
    pub fn with(mut self, key: &str, value: impl Into<serde_json::Value>) -> Self {
        self.options.insert(key.to_owned(), value.into());
        self
    }
}

/// A trial of an earlier study, for a warm start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Earlier {
    /// Its values of the parameters that both studies have.
    pub params: Params,
    /// The share of its study's trials that were better, from 0: comparable between studies.
    pub rank: f64,
}

/// The value of a variable of `[command] env`, which may be a secret: only the reader of the study
/// file has it, and it is never written. A stored specification has the names only, and all values
/// compare equal.
#[derive(Clone, Default)]
pub struct EnvironmentValue(Option<String>);

impl EnvironmentValue {
    /// A value from the study file.
    pub fn new(text: impl Into<String>) -> Self {
        EnvironmentValue(Some(text.into()))
    }

    /// The value; `None` in a specification read from a store.
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl std::fmt::Debug for EnvironmentValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("...")
    }
}

impl PartialEq for EnvironmentValue {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Serialize for EnvironmentValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_none()
    }
}

impl<'de> Deserialize<'de> for EnvironmentValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| EnvironmentValue::default())
    }
}

/// The style of a program's command-line parser, which decides how booleans are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArgsStyle {
    /// `--name value`; a true boolean is the flag `--name`.
    Dashes,
    /// `--name=value`; a true boolean is the flag `--name`.
    Equals,
    /// `name=value`, booleans included: `name=true`.
    Hydra,
}

impl ArgsStyle {
    /// Their names in the study file.
    pub const WORDS: &'static [&'static str] = &["dashes", "equals", "hydra"];

    /// Whether a boolean is a flag rather than `true` or `false`.
    pub fn has_flags(self) -> bool {
        matches!(self, ArgsStyle::Dashes | ArgsStyle::Equals)
    }
}

/// What becomes of a command's arguments that name an inactive parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inactive {
    /// The placeholder becomes the empty string: for studies older than the other rule, and those
    /// without a difference.
    #[default]
    Empty,
    /// The argument is dropped, and the option before it.
    Dropped,
}

/// How parameters become arguments of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgsRules {
    /// How booleans are passed; `None`: as `true` and `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<ArgsStyle>,
    /// How inactive parameters are passed.
    #[serde(default)]
    pub inactive: Inactive,
}

/// The sources of a program's metrics besides `@hpsearch` lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricSources {
    /// Regular expressions over its printed lines; see [`super::printed_metrics`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pattern: Vec<String>,
    /// A file of JSON lines that it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// A directory of TensorBoard's event files that it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensorboard: Option<String>,
}

impl MetricSources {
    /// The keys that name files, with their values.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let files = [("json", &self.json), ("tensorboard", &self.tensorboard)];
        files.into_iter().filter_map(|(key, text)| Some((key, text.as_deref()?)))
    }
}

/// What a trial runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// The built-in trainer.
    Trainer {
        /// Fixed arguments by their (dotted) names; searched ones are in the space.
        arguments: BTreeMap<String, serde_json::Value>,
        /// The `[data]` table; paths absolute.
        data: BTreeMap<String, serde_json::Value>,
    },
    /// A program in any language.
    Command {
        /// Command line, with `{name}` for parameters.
        run: Vec<String>,
        /// Working directory; absolute.
        cwd: PathBuf,
        /// Variables added to the environment.
        env: BTreeMap<String, EnvironmentValue>,
        /// How parameters become arguments.
        #[serde(default, skip_serializing_if = "is_default")]
        args: ArgsRules,
        /// Sources of metrics besides its reports.
        #[serde(default, skip_serializing_if = "is_default")]
        metrics: MetricSources,
    },
    /// A Rust closure of the program that links the library.
    Inline,
}

impl Program {
    /// The sources of metrics besides reports, if it has any.
    pub fn metric_sources(&self) -> Option<&MetricSources> {
        match self {
            Program::Command { metrics, .. } if *metrics != MetricSources::default() => {
                Some(metrics)
            }
            _ => None,
        }
    }
}

/// Where trials run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevicesSpec {
    /// Device names and patterns as written; `["auto"]` by default.
    #[serde(rename = "use")]
    pub select: Vec<String>,
    /// Trials at a time on each device; `None`: one per GPU, and on the CPU as many as its cores
    /// allow.
    pub trials_per_device: Option<u32>,
    /// Whether concurrency is decided at run time (`trials_per_device = "auto"`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub packed: bool,
    /// Memory limit in bytes for all trials on a device with automatic concurrency; `None`: all of
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// CPU threads of each trial.
    pub cpu_threads: u32,
}

/// Most trials at a time on one device.
pub const MOST_SLOTS: u32 = 1_024;

impl Default for DevicesSpec {
    fn default() -> Self {
        DevicesSpec {
            select: vec!["auto".to_owned()],
            trials_per_device: None,
            packed: false,
            memory: None,
            cpu_threads: 1,
        }
    }
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// Out of memory.
    Oom,
    /// The device was lost.
    DeviceLost,
    /// The process died without a message, or was killed from outside.
    WorkerLost,
    /// `trial_time` or `stall_time` passed.
    Timeout,
    /// The program reported it: an exception, no value.
    Program,
    /// A command's exit status: 128 plus the signal number if a signal ended it, as in shells.
    /// Older versions stored `Program` instead.
    Exit(i32),
}

/// Which failed attempts are retried.
///
/// A trial of the built-in trainer that runs out of memory first continues with smaller batches,
/// down to one row: that needs no `"oom"` in `on` and does not count towards `max`
/// (`engine::batch_halving`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySpec {
    /// Most retries of a trial.
    pub max: u32,
    /// The causes that are retried.
    pub on: Vec<FailureCause>,
}

impl Default for RetrySpec {
    fn default() -> Self {
        RetrySpec { max: 2, on: vec![FailureCause::WorkerLost] }
    }
}

/// Which checkpoints are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointsSpec {
    /// How many of the best trials keep their best checkpoint; `None`: all are kept.
    pub keep_best: Option<u32>,
    /// Directory for trials' files; absolute. `None`: beside the store.
    pub dir: Option<PathBuf>,
    /// Most bytes of all checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_disk: Option<u64>,
}

impl Default for CheckpointsSpec {
    fn default() -> Self {
        CheckpointsSpec { keep_best: Some(3), dir: None, max_disk: None }
    }
}

/// The export at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExportSpec {
    /// Its absolute directory.
    pub dir: Option<PathBuf>,
    /// Whether to export when the study ends.
    pub on_finish: bool,
    /// Quantization of the weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantize: Option<Quantize>,
}

/// A quantized format of exported weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantize {
    /// 8-bit integers with a scale per channel.
    Int8,
}

impl Quantize {
    /// Their names in files and on the command line.
    pub const WORDS: &[&str] = &["int8"];

    /// The format with this name.
    pub fn parse(word: &str) -> Option<Self> {
        (word == "int8").then_some(Self::Int8)
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
        }
    }
}

/// What is recorded of trials besides their reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrackSpec {
    /// Interval at which CPU, memory and GPUs of each trial are sampled; `None`: never.
    pub system: Option<Duration>,
    /// Export destinations while the study runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<Destination>,
}

impl Default for TrackSpec {
    fn default() -> Self {
        TrackSpec { system: Some(Duration::from_secs(10)), to: Vec::new() }
    }
}

/// The specification of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudySpec {
    /// Version of this format.
    pub format: u32,
    /// The study's name, its key in the store.
    pub name: String,
    /// A description for users.
    #[serde(default)]
    pub description: Option<String>,
    /// Tags to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The objectives; currently exactly one.
    pub objectives: Vec<Objective>,
    /// Which report is a trial's value.
    pub value: ValueRule,
    /// Unit of steps.
    pub step: StepUnit,
    /// Root of all random streams.
    pub seed: u64,
    /// What to do with repeated proposals.
    pub duplicates: Duplicates,
    /// Whether decisions must not depend on timing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deterministic: bool,
    /// Runs of each completed configuration.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub replicates: u32,
    /// How many of the best configurations run again on fresh seeds at the end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub race: u32,
    /// The budget.
    pub budget: Budget,
    /// The search space.
    pub space: Space,
    /// Configurations to run first; missing parameters are sampled.
    #[serde(default)]
    pub enqueue: Vec<Params>,
    /// Constraints on parameters and metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Constraint>,
    /// Stores and studies for the warm start, as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warm_start: Vec<String>,
    /// Their trials when this study was created: later changes there have no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
    /// The sampler.
    pub sampler: AlgorithmSpec,
    /// The pruner.
    pub pruner: AlgorithmSpec,
    /// What a trial runs.
    pub program: Program,
    /// The devices that trials run on.
    pub devices: DevicesSpec,
    /// Which failures are retried.
    pub retry: RetrySpec,
    /// Which checkpoints are kept.
    pub checkpoints: CheckpointsSpec,
    /// The export at the end.
    pub export: ExportSpec,
    /// What is recorded besides reports.
    #[serde(default, skip_serializing_if = "is_default")]
    pub track: TrackSpec,
    /// Who is notified.
    #[serde(default, skip_serializing_if = "is_default")]
    pub notify: NotifySpec,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

impl StudySpec {
    /// A study of `space` with the study file's defaults: no options, no pruner, unlimited trials.
    pub fn new(
        name: &str,
        metric: &str,
        direction: Direction,
        space: Space,
        program: Program,
    ) -> Self {
        StudySpec {
            format: 1,
            name: name.to_owned(),
            description: None,
            tags: Vec::new(),
            objectives: vec![Objective { metric: metric.to_owned(), direction }],
            value: ValueRule::default(),
            step: StepUnit::default(),
            seed: 0,
            duplicates: Duplicates::default(),
            deterministic: false,
            replicates: 1,
            race: 0,
            budget: Budget::default(),
            space,
            enqueue: Vec::new(),
            constraints: Vec::new(),
            warm_start: Vec::new(),
            earlier: Vec::new(),
            sampler: AlgorithmSpec::named("random"),
            pruner: AlgorithmSpec::named("none"),
            program,
            devices: DevicesSpec::default(),
            retry: RetrySpec::default(),
            checkpoints: CheckpointsSpec::default(),
            export: ExportSpec::default(),
            track: TrackSpec::default(),
            notify: NotifySpec::default(),
        }
    }

    /// Whether it holds tracked runs only: it has no sampler.
    pub fn is_tracked(&self) -> bool {
        self.sampler.name == NO_SAMPLER
    }

    /// The single objective.
    pub fn objective(&self) -> &Objective {
        self.objectives.first().expect("a study has an objective: checked when it is resolved")
    }

    /// The metrics whose lines are reports rather than points of series: those of the objectives
    /// and of `limit`s.
    pub fn reported_metrics(&self) -> Vec<String> {
        let limits = self.constraints.iter().filter_map(|constraint| match constraint {
            Constraint::Limit(expression) => Some(expression.names()),
            Constraint::Require(_) => None,
        });
        let objectives = self.objectives.iter().map(|objective| objective.metric.as_str());
        let mut names: Vec<String> =
            objectives.chain(limits.flatten()).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The study's direction.
    pub fn direction(&self) -> Direction {
        self.objective().direction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_environment_is_neither_written_nor_compared() {
        let of = |value: &str| Program::Command {
            run: vec!["train".to_owned()],
            cwd: "/".into(),
            env: BTreeMap::from([("KEY".to_owned(), EnvironmentValue::new(value))]),
            args: ArgsRules::default(),
            metrics: Default::default(),
        };
        let stored = serde_json::to_string(&of("secret")).unwrap();
        assert_eq!(stored, r#"{"command":{"run":["train"],"cwd":"/","env":{"KEY":null}}}"#);
        assert!(!format!("{:?}", of("secret")).contains("secret"));
        assert_eq!(of("secret"), of("other"));
        let read: Program =
            serde_json::from_str(&stored.replace("null", "\"of an older version\"")).unwrap();
        let Program::Command { env, .. } = read else { panic!() };
        assert_eq!(env["KEY"].get(), None);
    }
}
