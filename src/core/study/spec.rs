//! The specification of a study: everything that is decided before the first trial, as plain data
//! that can be stored.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::study::budget::Budget;
use crate::study::cluster::ClusterSpec;
use crate::study::constraint::Constraint;
use crate::study::destination::Destination;
use crate::study::metric::{Direction, LastMetrics, Metrics};
use crate::study::notify::NotifySpec;
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::serialized::is_default;
use crate::study::space::Space;
use crate::study::step::StepUnit;
use crate::study::tracked::NO_SAMPLER;

/// What is optimised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// Name of the metric in reports.
    pub metric: String,
    /// Whether smaller or larger is better.
    pub direction: Direction,
    /// With several objectives, the worst value of interest: the hypervolume's reference point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}

impl Objective {
    /// An objective without threshold.
    pub fn new(metric: &str, direction: Direction) -> Self {
        Objective { metric: metric.to_owned(), direction, threshold: None }
    }
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
    /// The mean of all.
    Mean,
}

impl ValueRule {
    /// What a trial's value is.
    pub fn in_words(self) -> &'static str {
        match self {
            ValueRule::Best => "the best report of a trial",
            ValueRule::Last => "the last report of a trial",
            ValueRule::Mean => "the mean of a trial's reports",
        }
    }
}

/// Which trials take the priors of the space, and after them the best configurations of earlier
/// studies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriorRule {
    /// The first ones, unless they are enqueued: in studies that began before the other rule
    /// existed.
    #[default]
    FirstTrials,
    /// The first ones that the sampler proposes.
    FirstSampled,
}

/// How large the seeds of trials are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeedRule {
    /// Below 2^53: those of the built-in trainer, and of studies that began before the other rule
    /// existed.
    #[default]
    Wide,
    /// Below 2^32, since NumPy and scikit-learn take no larger ones.
    Narrow,
}

/// Whether pruners compare trials with hidden ones, and learn from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HiddenRule {
    /// As with all others: in studies that began before the other rules existed.
    #[default]
    Compared,
    /// They do not, but forecasts learn from them, and one that is complete keeps a search that
    /// paused all others from completing one of those: in studies that began before the last rule
    /// existed.
    LeftOut,
    /// None of these.
    Unseen,
}

/// Which parameters estimators see of a trial whose program defines and drops some while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamsRule {
    /// Those with which they first saw it, until the study is opened again: in studies that began
    /// before the other rule existed.
    #[default]
    FirstSeen,
    /// Its present ones.
    Present,
}

/// Whose metrics limits with `prune = true` see while an attempt runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PruningLimitRule {
    /// Those of all attempts of its trial: in studies that began before the other rule existed.
    #[default]
    AllAttempts,
    /// Those that still count: once it has started over, its own.
    CountingAttempts,
}

/// Steps at which a trial must evaluate and report, besides its last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Milestones {
    /// All multiples of this number of steps; `None`: none.
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
    #[serde(rename = "packed", default, skip_serializing_if = "is_default")]
    pub automatic_concurrency: bool,
    /// Memory limit in bytes for all trials on a device with automatic concurrency; `None`: all of
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Number of devices of each trial; `None`: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_trial: Option<PerTrial>,
    /// Number of machines (agents) of each trial.
    #[serde(default = "one_node", skip_serializing_if = "is_one_node")]
    pub nodes_per_trial: u32,
    /// Whether a command is started once per device, with its rank.
    #[serde(default, skip_serializing_if = "is_default")]
    pub per_device: bool,
    /// CPU threads of each trial, or of each process of a group.
    pub cpu_threads: u32,
}

/// Number of devices of each trial (`per_trial`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PerTrial {
    /// A fixed number of devices.
    Count(u32),
    /// All selected devices.
    Auto,
}

impl DevicesSpec {
    /// Whether a command gets the environment of a process group, even one of a single process.
    pub fn is_grouped(&self) -> bool {
        self.per_trial.is_some() || self.per_device || self.spans_nodes()
    }

    /// Whether a trial runs on several machines.
    pub fn spans_nodes(&self) -> bool {
        self.nodes_per_trial > 1
    }
}

fn one_node() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_one_node(nodes: &u32) -> bool {
    *nodes == 1
}

/// Most trials at a time on one device.
pub const MOST_SLOTS: u32 = 1_024;

impl Default for DevicesSpec {
    fn default() -> Self {
        DevicesSpec {
            select: vec!["auto".to_owned()],
            trials_per_device: None,
            automatic_concurrency: false,
            memory: None,
            per_trial: None,
            nodes_per_trial: 1,
            per_device: false,
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
    /// The causes that are retried; `Program` includes every exit status.
    pub on: Vec<FailureCause>,
}

impl RetrySpec {
    /// Whether failures of this cause are retried.
    pub fn includes(&self, cause: FailureCause) -> bool {
        let cause = match cause {
            FailureCause::Exit(_) => FailureCause::Program,
            cause => cause,
        };
        self.on.contains(&cause)
    }
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
    /// What of that which a command saved is kept until its trial has ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub while_running: WhileRunning,
}

/// Which checkpoints of a command's unfinished trial are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhileRunning {
    /// All: the program removes what it wants to.
    #[default]
    All,
    /// The one to continue from, the best one, and those not yet reported.
    Needed,
}

impl WhileRunning {
    /// Their names in files.
    pub const WORDS: &[&str] = &["all", "needed"];

    /// The one with this name.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "all" => Some(Self::All),
            "needed" => Some(Self::Needed),
            _ => None,
        }
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Needed => "needed",
        }
    }
}

impl Default for CheckpointsSpec {
    fn default() -> Self {
        CheckpointsSpec {
            keep_best: Some(3),
            dir: None,
            max_disk: None,
            while_running: WhileRunning::All,
        }
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
    /// The objectives, at least one.
    pub objectives: Vec<Objective>,
    /// Which report is a trial's value.
    pub value: ValueRule,
    /// Which values of other metrics limits, tables and filters read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub last_metrics: LastMetrics,
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
    /// The only configurations that are searched; all of the space, if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Params>,
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
    /// Which trials take the priors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prior_rule: PriorRule,
    /// How large the seeds of trials are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub seed_rule: SeedRule,
    /// Which parameters the sampler sees of trials whose parameters change.
    #[serde(default, skip_serializing_if = "is_default")]
    pub params_rule: ParamsRule,
    /// The pruner.
    pub pruner: AlgorithmSpec,
    /// Whether it sees hidden trials.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hidden_rule: HiddenRule,
    /// Whose metrics limits that prune see.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pruning_limit_rule: PruningLimitRule,
    /// What a trial runs.
    pub program: Program,
    /// The devices that trials run on.
    pub devices: DevicesSpec,
    /// The machines that trials run on, if not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterSpec>,
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
        let seed_rule = match program {
            Program::Trainer { .. } => SeedRule::Wide,
            Program::Command { .. } | Program::Inline => SeedRule::Narrow,
        };
        StudySpec {
            format: 1,
            name: name.to_owned(),
            description: None,
            tags: Vec::new(),
            objectives: vec![Objective::new(metric, direction)],
            value: ValueRule::default(),
            last_metrics: LastMetrics::OfEach,
            step: StepUnit::default(),
            seed: 0,
            duplicates: Duplicates::default(),
            deterministic: false,
            replicates: 1,
            race: 0,
            budget: Budget::default(),
            space,
            candidates: Vec::new(),
            enqueue: Vec::new(),
            constraints: Vec::new(),
            warm_start: Vec::new(),
            earlier: Vec::new(),
            sampler: AlgorithmSpec::named("random"),
            prior_rule: PriorRule::FirstSampled,
            seed_rule,
            params_rule: ParamsRule::Present,
            pruner: AlgorithmSpec::named("none"),
            hidden_rule: HiddenRule::Unseen,
            pruning_limit_rule: PruningLimitRule::CountingAttempts,
            program,
            devices: DevicesSpec::default(),
            cluster: None,
            retry: RetrySpec::default(),
            checkpoints: CheckpointsSpec::default(),
            export: ExportSpec::default(),
            track: TrackSpec::default(),
            notify: NotifySpec::default(),
        }
    }

    /// The first of several objectives without the threshold that `budget.target` needs.
    pub fn unmeasurable_objective(&self) -> Option<&Objective> {
        let needs = self.budget.target.is_some() && self.has_several_objectives();
        self.objectives.iter().find(|objective| needs && objective.threshold.is_none())
    }

    /// The keys that compare trials by one value, though the study has several objectives.
    pub fn keys_of_one_value(&self) -> Vec<&'static str> {
        let keys = [
            ("value", self.value != ValueRule::Last),
            ("replicates", self.replicates > 1),
            ("race", self.race > 0),
            ("duplicates", self.duplicates == Duplicates::Replicate),
        ];
        let is_several = self.has_several_objectives();
        keys.into_iter().filter(|(_, is_set)| is_several && *is_set).map(|(key, _)| key).collect()
    }

    /// The first objective that has the metric of one before it.
    pub fn repeated_objective(&self) -> Option<&Objective> {
        let objectives = self.objectives.iter().enumerate();
        let repeats = |(index, objective): &(usize, &Objective)| {
            self.objectives[..*index].iter().any(|one| one.metric == objective.metric)
        };
        objectives.into_iter().find(repeats).map(|(_, objective)| objective)
    }

    /// Whether it holds tracked runs only: it has no sampler.
    pub fn is_tracked(&self) -> bool {
        self.sampler.name == NO_SAMPLER
    }

    /// The only objective, or the first of several.
    pub fn objective(&self) -> &Objective {
        self.objectives.first().expect("a study has an objective: checked when it is resolved")
    }

    /// The metrics whose lines are reports rather than points of series: those of the objectives
    /// and of `limit`s.
    pub fn reported_metrics(&self) -> Vec<String> {
        let limits = self.constraints.iter().filter_map(Constraint::limit);
        let limits = limits.map(|expression| expression.names());
        let objectives = self.objectives.iter().map(|objective| objective.metric.as_str());
        let mut names: Vec<String> =
            objectives.chain(limits.flatten()).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What a trial's value is, in words.
    pub fn value_in_words(&self) -> String {
        let rule = self.value.in_words();
        match self.program {
            Program::Inline if !self.is_tracked() => {
                format!("the program's final value, or else {rule}")
            }
            _ => rule.to_owned(),
        }
    }

    /// Whether it has several objectives: trials have values instead of one value, and the best of
    /// them are a front.
    pub fn has_several_objectives(&self) -> bool {
        self.objectives.len() > 1
    }

    /// The metrics of its objectives.
    pub fn objective_names(&self) -> Vec<String> {
        self.objectives.iter().map(|objective| objective.metric.clone()).collect()
    }

    /// Whether a metric is one of its objectives.
    pub fn is_objective(&self, metric: &str) -> bool {
        self.objectives.iter().any(|objective| objective.metric == metric)
    }

    /// Whether a report decides: it has the value of an objective.
    pub fn counts(&self, metrics: &Metrics) -> bool {
        self.objectives.iter().any(|objective| metrics.get(&objective.metric).is_some())
    }

    /// Whether reports may end trials.
    pub fn stops_trials(&self) -> bool {
        self.pruner.name != "none"
            || self.has_pruning_limits()
            || self.budget.trial_patience.is_some()
    }

    /// Whether limits may end trials.
    pub fn has_pruning_limits(&self) -> bool {
        self.constraints.iter().any(|one| matches!(one, Constraint::PruningLimit(_)))
    }

    /// The direction of the only objective, or of the first of several.
    pub fn direction(&self) -> Direction {
        self.objective().direction
    }
}
