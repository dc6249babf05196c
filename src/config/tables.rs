//! The tables of a study file and their fields: the source for parsing, suggestions, the schema and
//! the reference.

use std::time::Duration;

use serde_json::json;

use crate::study::budget::Count;
use crate::study::cluster::{LISTEN, LOST_AFTER};
use crate::study::duration;
use crate::study::field::FieldDefault::{Absent, Derived, Flag, Int, Of, Text};
use crate::study::field::{
    self, COUNT, Field, FieldKind, NATURAL, NOT_NEGATIVE, NUMBER, OBJECTIVE, POSITIVE, key,
};
use crate::study::notify::Occasion;
use crate::study::program::ArgsStyle;
use crate::study::spec::{
    CheckpointsSpec, DevicesSpec, Duplicates, Quantize, RetrySpec, TrackSpec, ValueRule,
    WhileRunning,
};
use crate::study::step::StepUnit;

/// The contents of a table besides [`TableSchema::fields`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Nothing: only those keys.
    Keys,
    /// Parameters by name.
    Space,
    /// Tables of parameter values.
    Configurations,
    /// Tables of one condition each.
    Constraints,
    /// Options of the named sampler.
    Sampler,
    /// Options of the named pruner.
    Pruner,
    /// Training arguments.
    Trainer,
    /// Arguments of the data.
    Data,
}

/// One table of the study file.
#[derive(Clone, Copy, Debug)]
pub struct TableSchema {
    /// Its name in brackets.
    pub name: &'static str,
    /// Its fixed keys.
    pub fields: &'static [Field],
    /// Its other contents.
    pub contents: Contents,
    /// A one-sentence description.
    pub doc: &'static str,
}

/// The default sampler.
pub(super) const DEFAULT_SAMPLER: &str = "auto";
/// The default pruner.
pub(super) const DEFAULT_PRUNER: &str = "none";

/// Causes in `[retry] on`.
pub(super) const CAUSES: &[&str] = &["oom", "device_lost", "worker_lost", "timeout", "program"];

const STUDY: &[Field] = &[
    key("name", FieldKind::Text, Derived("the file's name"))
        .doc("the study's name, its key in the store"),
    key("description", FieldKind::Text, Absent).doc("one sentence about the study"),
    key("tags", FieldKind::Texts, Of(|| json!([]))).doc("words by which to find the study"),
    OBJECTIVE[0],
    OBJECTIVE[1],
    key("value", FieldKind::Choice(&["best", "last", "mean"]), Of(|| json!(ValueRule::default())))
        .doc(
            "which report of a trial is its value; `mean`: their mean, as for the folds of a \
             cross-validation",
        ),
    key(
        "step",
        FieldKind::Choice(&["epoch", "step", "samples"]),
        Of(|| json!(StepUnit::default())),
    )
    .doc(
        "the unit of steps in reports and rungs; with eval_strategy = \"steps\", a new study that \
         does not set it counts optimiser steps",
    ),
    key("seed", NATURAL, Int(0)).doc("root of all random streams"),
    key(
        "duplicates",
        FieldKind::Choice(&["skip", "replicate", "allow"]),
        Of(|| json!(Duplicates::default())),
    )
    .doc("what to do with a repeated proposal"),
    key("deterministic", FieldKind::Flag, Flag(false))
        .doc("whether a study with several slots is reproducible"),
    key("replicates", FieldKind::Integer { min: 1, max: 1_000 }, Int(1))
        .doc("runs of each configuration that completes, each with a different seed"),
    key("race", FieldKind::Integer { min: 0, max: 1_000 }, Int(0))
        .doc("how many of the best run again on fresh seeds at the end, in addition to the budget"),
    key("objective", FieldKind::Objectives, Absent)
        .doc("`[[study.objective]]`, one table for each, instead of `metric` and `direction`"),
];

const BUDGET: &[Field] = &[
    key("trials", COUNT, Absent).doc("the study ends after this many trials"),
    key(
        "count",
        FieldKind::Choice(&["finished", "completed", "all"]),
        Of(|| json!(Count::default())),
    )
    .doc("which trials count: completed and pruned, completed, or failed ones too"),
    key("time", FieldKind::Duration, Absent)
        .doc("the study ends after this running time, summed over all runs of the runner"),
    key("target", NUMBER, Absent).doc(
        "the study ends when a trial reaches this value, or the front of several objectives this \
         hypervolume",
    ),
    key("failures", COUNT, Absent)
        .doc("the study ends, with exit code 4, after this many failed trials"),
    key("trial_time", FieldKind::Duration, Absent)
        .doc("longest running time of one attempt of a trial; a longer attempt is ended and fails"),
    key("stall_time", FieldKind::Duration, Absent)
        .doc("longest time without a metric or a checkpoint, after which the attempt is killed"),
    key("trial_patience", COUNT, Absent)
        .doc("a trial is complete after this many reports without an improvement: early stopping"),
    key("trial_min_delta", NOT_NEGATIVE, Absent)
        .doc("an improvement for `trial_patience` is better than the best by more than this"),
    key("patience", COUNT, Absent)
        .doc("the study ends after this many complete and pruned trials without a better one"),
    key("device_hours", POSITIVE, Absent).doc(
        "the study ends after this many device-hours; a device counts once, however many trials \
        share it",
    ),
    key("cost", POSITIVE, Absent)
        .doc("the study ends when device-hours times `price_per_hour` reach this"),
    key("price_per_hour", POSITIVE, Absent).doc("price of a device-hour"),
];

const DEVICES: &[Field] = &[
    key("use", FieldKind::Devices, Of(|| json!("auto")))
        .doc("where trials run: cpu, cuda:0, cuda:*, wgpu:0, ndarray"),
    key("trials_per_device", FieldKind::IntegerOrAuto { min: 1, max: 1_024 }, Absent)
        .doc("trials at a time on each device; \"auto\" measures how many raise the throughput"),
    key("memory", FieldKind::Size, Absent)
        .doc("memory limit of all trials on each device, with trials_per_device = \"auto\""),
    key("per_trial", FieldKind::IntegerOrAuto { min: 1, max: 1_024 }, Absent)
        .doc("devices of each trial, for programs that train on several; \"auto\": all selected"),
    key(
        "nodes_per_trial",
        FieldKind::Integer { min: 1, max: 1_024 },
        Of(|| json!(DevicesSpec::default().nodes_per_trial)),
    )
    .doc("machines (agents) of each trial, for programs that train on several, with [cluster]"),
    key("per_device", FieldKind::Flag, Of(|| json!(DevicesSpec::default().per_device))).doc(
        "starts the command once per device, with RANK and LOCAL_RANK; for programs that need no \
        torchrun",
    ),
    key(
        "cpu_threads",
        FieldKind::Integer { min: 1, max: 1_024 },
        Of(|| json!(DevicesSpec::default().cpu_threads)),
    )
    .doc("threads of each trial on the CPU, or of each of its processes"),
];

const CLUSTER: &[Field] = &[
    key(
        "type",
        FieldKind::Choice(&["slurm", "ssh", "command"]),
        Derived("agents are started by hand"),
    )
    .doc("how agents are started on other machines"),
    key("shared_dir", FieldKind::Path, Derived("`checkpoints.dir`"))
        .doc("a directory that all machines see at this path, for the files of trials"),
    key("listen", FieldKind::Text, Text(LISTEN))
        .doc("the address at which agents reach the runner; port 0: any free port"),
    key("lost_after", FieldKind::Duration, Of(|| json!(duration::format(LOST_AFTER))))
        .doc("time without an answer after which an agent stops its trials"),
    key("partition", FieldKind::Text, Absent).doc("slurm: `--partition`"),
    key("account", FieldKind::Text, Absent).doc("slurm: `--account`"),
    key("time", FieldKind::Text, Absent).doc("slurm: `--time` of a job"),
    key("gres", FieldKind::Text, Absent).doc("slurm: `--gres` of a job, such as `gpu:1`"),
    key("cpus", COUNT, Absent).doc("slurm: `--cpus-per-task`"),
    key("memory", FieldKind::Text, Absent).doc("slurm: `--mem` of a job"),
    key("max_jobs", FieldKind::Integer { min: 1, max: 10_000 }, Int(1))
        .doc("slurm, command: maximum number of agents at a time"),
    key("extra", FieldKind::Texts, Of(|| json!([]))).doc("slurm: more options of `sbatch`"),
    key("host", FieldKind::List, Absent).doc("ssh: tables of `name` and `devices`"),
    key("run", FieldKind::Texts, Of(|| json!([]))).doc(
        "command: program and arguments that start an agent; `{file}` is the file \
         from which the agent learns where the runner is",
    ),
];

/// The fields of `[[cluster.host]]`.
pub(super) const CLUSTER_HOST: &[Field] = &[
    key("name", FieldKind::Text, Absent).doc("the host as `ssh` takes it"),
    key("devices", FieldKind::Texts, Of(|| json!([]))).doc("its devices, instead of `devices.use`"),
];

const RETRY: &[Field] = &[
    key("max", FieldKind::Integer { min: 0, max: 1_000 }, Of(|| json!(RetrySpec::default().max)))
        .doc("maximum number of retries of a trial"),
    key("on", FieldKind::Words(CAUSES), Of(|| json!(RetrySpec::default().on))).doc(
        "causes that are retried; `program`: its own failure, such as a non-zero exit status; a \
         built-in trial that runs out of memory first continues with a smaller batch size, which \
         is not a retry",
    ),
];

const CHECKPOINTS: &[Field] = &[
    key("keep", FieldKind::Keep, Of(|| json!(keep_word(CheckpointsSpec::default().keep_best))))
        .doc("how many of the best trials keep their checkpoints"),
    key("dir", FieldKind::Path, Derived("beside the store")).doc("directory of the trials' files"),
    key("max_disk", FieldKind::Size, Absent).doc("maximum size of the study's checkpoints"),
    key("while_running", FieldKind::Choice(WhileRunning::WORDS), Of(|| json!("all"))).doc(
        "which of a command's checkpoints are kept until its trial has ended: `all`, or those \
         `needed` to continue and to export",
    ),
];

const EXPORT: &[Field] = &[
    key("dir", FieldKind::Path, Absent).doc("directory of the export"),
    key("on_finish", FieldKind::Flag, Flag(false)).doc("whether to export when the study ends"),
    key("quantize", FieldKind::Choice(Quantize::WORDS), Absent)
        .doc("number format of the exported weights; f32 by default"),
];

const TRACK: &[Field] = &[
    key("system", FieldKind::Period, Of(|| json!(period_word(TrackSpec::default().system)))).doc(
        "how often CPU, memory and GPUs of each trial are measured and kept as series; \"off\": \
         never",
    ),
    key("to", FieldKind::Texts, Of(|| json!([])))
        .doc("export destinations while the study runs: `\"tensorboard:DIR\"`, `\"wandb:DIR\"`"),
];

const NOTIFY: &[Field] = &[
    key("command", FieldKind::Texts, Of(|| json!([]))).doc(
        "a program that is run with each message: on its standard input as JSON, in \
         HPSEARCH_NOTICE, and for `{text}` in its arguments",
    ),
    key("webhook", FieldKind::Text, Absent).doc(
        "`\"env:NAME\"`: the variable with the address that messages are posted to (Slack, \
         Discord, ntfy, or JSON); needs a build with `--features webhook`",
    ),
    key("on", FieldKind::Words(Occasion::WORDS), Of(|| json!(Occasion::ALL)))
        .doc("the occasions for a message"),
];

const COMMAND: &[Field] = &[
    key("run", FieldKind::Texts, Absent)
        .doc("program and arguments, with {name} for a parameter, {args} for all others"),
    key("cwd", FieldKind::Path, Derived("the study file's directory")).doc("working directory"),
    key("env", FieldKind::Environment, Absent).doc("variables added to the environment"),
    key("args_style", FieldKind::Choice(ArgsStyle::WORDS), Absent).doc(
        "how the program takes parameters: `--lr 0.1` (dashes, the default of {args}), `--lr=0.1` \
             (equals), both with booleans as flags; or `lr=0.1` (hydra)",
    ),
    key("metrics", FieldKind::CommandMetrics, Absent).doc(
        "where its metrics are found if it prints no `@hpsearch` lines: `pattern`, `json`, \
         `tensorboard`",
    ),
];

const SAMPLER: &[Field] = &[
    key("type", FieldKind::Text, Text(DEFAULT_SAMPLER))
        .doc("the sampler's name: see `hpsearch list samplers`"),
    key("warm_start", FieldKind::Texts, Of(|| json!([])))
        .doc("earlier studies to learn from: their names, `store.db`, or `store.db:study`"),
];

const CONSTRAINT: &[Field] = &[
    key("require", FieldKind::Text, Absent)
        .doc("a condition over parameters: configurations that violate it are never proposed"),
    key("limit", FieldKind::Text, Absent).doc(
        "a condition over the last values of a trial's metrics: trials that violate it rank below \
             all others",
    ),
    key("prune", FieldKind::Flag, Flag(false)).doc(
        "whether the first report that violates `limit` ends its trial: for metrics that do not \
             get better, such as sizes",
    ),
];

const PRUNER: &[Field] = &[key("type", FieldKind::Text, Text(DEFAULT_PRUNER))
    .doc("the pruner's name: see `hpsearch list pruners`")];

const fn table(
    name: &'static str,
    fields: &'static [Field],
    contents: Contents,
    doc: &'static str,
) -> TableSchema {
    TableSchema { name, fields, contents, doc }
}

/// Every table of a study file.
pub static TABLES: &[TableSchema] = &[
    table("study", STUDY, Contents::Keys, "what is optimised"),
    table("budget", BUDGET, Contents::Keys, "when the study ends"),
    table("space", &[], Contents::Space, "the parameters that are searched"),
    table(
        "constraint",
        CONSTRAINT,
        Contents::Constraints,
        "conditions on configurations before they run, and on metrics afterwards",
    ),
    table(
        "enqueue",
        &[],
        Contents::Configurations,
        "configurations to run first; missing parameters are sampled",
    ),
    table("sampler", SAMPLER, Contents::Sampler, "the algorithm that proposes configurations"),
    table("pruner", PRUNER, Contents::Pruner, "the algorithm that stops trials early"),
    table("trainer", &[], Contents::Trainer, "fixed arguments of the built-in trainer"),
    table("command", COMMAND, Contents::Keys, "a program in any language, instead of [trainer]"),
    table("data", &[], Contents::Data, "the rows the built-in trainer learns from"),
    table("devices", DEVICES, Contents::Keys, "where trials run"),
    table("cluster", CLUSTER, Contents::Keys, "other machines that run the trials"),
    table("retry", RETRY, Contents::Keys, "which failed attempts are retried"),
    table("checkpoints", CHECKPOINTS, Contents::Keys, "which checkpoints stay on disk"),
    table("export", EXPORT, Contents::Keys, "what is exported at the end"),
    table("track", TRACK, Contents::Keys, "what is recorded of trials besides their reports"),
    table("notify", NOTIFY, Contents::Keys, "who is notified of what"),
];

/// The value of `[checkpoints] keep` for this many of the best; `None`: all.
pub(super) fn keep_word(keep_best: Option<u32>) -> String {
    match keep_best {
        None => "all".to_owned(),
        Some(0) => "none".to_owned(),
        Some(count) => format!("best-{count}"),
    }
}

/// An interval as it is written.
pub(super) fn period_word(period: Option<Duration>) -> String {
    period.map_or_else(|| "off".to_owned(), duration::format)
}

/// The fields of the table called `name`.
pub(super) fn fields_of(name: &str) -> &'static [Field] {
    find(name).map_or(&[], |table| table.fields)
}

/// The table called `name`.
pub fn find(name: &str) -> Option<&'static TableSchema> {
    TABLES.iter().find(|table| table.name == name)
}

/// The tables with a key `name`, for misplaced keys.
pub(super) fn owners(name: &str) -> impl Iterator<Item = &'static TableSchema> {
    TABLES.iter().filter(move |table| field::find(table.fields, name).is_some())
}
