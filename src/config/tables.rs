//! The tables of a study file with their fields: parsing, suggestions, the schema and the reference
//! all read them here.

use serde_json::json;

use crate::study::field::FieldDefault::{Absent, Derived, Flag, Int, Of, Text};
use crate::study::field::{
    self, COUNT, Field, FieldKind, NATURAL, NUMBER, OBJECTIVE, POSITIVE, field,
};
use crate::study::spec::{
    ArgsStyle, CheckpointsSpec, Count, DevicesSpec, Duplicates, Quantize, RetrySpec, ValueRule,
};
use crate::study::step::StepUnit;

/// What a table holds besides [`TableSchema::fields`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Nothing: only those keys.
    Keys,
    /// Parameters by their names.
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
    /// Promised; the whole table is refused.
    NotYet,
}

/// One table of the study file.
#[derive(Clone, Copy, Debug)]
pub struct TableSchema {
    /// As it is written in brackets.
    pub name: &'static str,
    /// Its fixed keys.
    pub fields: &'static [Field],
    /// What else it holds.
    pub contents: Contents,
    /// What it says, in one sentence.
    pub doc: &'static str,
}

/// The sampler of a study that names none.
pub(super) const DEFAULT_SAMPLER: &str = "auto";
/// The pruner of a study that names none.
pub(super) const DEFAULT_PRUNER: &str = "none";

/// Causes in `[retry] on`.
pub(super) const CAUSES: &[&str] = &["oom", "device_lost", "worker_lost", "timeout"];

const STUDY: &[Field] = &[
    field(
        "name",
        FieldKind::Text,
        Derived("the file's name"),
        "the study's name, its key in the store",
    ),
    field("description", FieldKind::Text, Absent, "a sentence for people"),
    field("tags", FieldKind::Texts, Of(|| json!([])), "words to find the study by"),
    OBJECTIVE[0],
    OBJECTIVE[1],
    field(
        "value",
        FieldKind::Choice(&["best", "last"]),
        Of(|| json!(ValueRule::default())),
        "which report of a trial is its value",
    ),
    field(
        "step",
        FieldKind::Choice(&["epoch", "step", "samples"]),
        Of(|| json!(StepUnit::default())),
        "the clock of reports and rungs",
    ),
    field("seed", NATURAL, Int(0), "root of all random streams"),
    field(
        "duplicates",
        FieldKind::Choice(&["skip", "replicate", "allow"]),
        Of(|| json!(Duplicates::default())),
        "what to do with a proposal that was tried",
    ),
    field(
        "deterministic",
        FieldKind::Flag,
        Flag(false),
        "whether several slots give the same study every time",
    ),
    field(
        "replicates",
        FieldKind::Integer { min: 1, max: 1_000 },
        Int(1),
        "runs of each configuration that completes, each on a seed of its own",
    ),
    field(
        "race",
        FieldKind::Integer { min: 0, max: 1_000 },
        Int(0),
        "how many of the best are run again on fresh seeds at the end, on top of the budget",
    ),
    field(
        "objective",
        FieldKind::Objectives,
        Absent,
        "objectives, instead of `metric` and `direction`",
    ),
];

const BUDGET: &[Field] = &[
    field("trials", COUNT, Absent, "the study ends after so many trials"),
    field(
        "count",
        FieldKind::Choice(&["finished", "completed", "all"]),
        Of(|| json!(Count::default())),
        "which trials count: completed and pruned, completed, or failed ones too",
    ),
    field(
        "time",
        FieldKind::Duration,
        Absent,
        "the study ends after this time, all runs of the runner together",
    ),
    field("target", NUMBER, Absent, "the study ends when a trial reaches this value"),
    field(
        "failures",
        COUNT,
        Absent,
        "the study ends, with exit code 4, after so many failed trials",
    ),
    field(
        "trial_time",
        FieldKind::Duration,
        Absent,
        "longest running time of one attempt at a trial",
    ),
    field(
        "stall_time",
        FieldKind::Duration,
        Absent,
        "longest time without a report or a checkpoint; then the attempt is killed",
    ),
    field(
        "patience",
        COUNT,
        Absent,
        "the study ends after so many complete and pruned trials without a better one",
    ),
    field(
        "device_hours",
        POSITIVE,
        Absent,
        "the study ends after so many hours of devices in use; several trials on one count once",
    ),
    field(
        "cost",
        POSITIVE,
        Absent,
        "the study ends when device-hours times `price_per_hour` reach this",
    ),
    field("price_per_hour", POSITIVE, Absent, "what an hour of one device costs"),
];

const DEVICES: &[Field] = &[
    field(
        "use",
        FieldKind::Devices,
        Of(|| json!("auto")),
        "where trials run: cpu, cuda:0, cuda:*, wgpu:0, ndarray",
    ),
    field(
        "trials_per_device",
        FieldKind::IntegerOrAuto { min: 1, max: 1_024 },
        Absent,
        "trials at a time on each device; \"auto\" measures how many are good",
    ),
    field(
        "memory",
        FieldKind::Size,
        Absent,
        "most bytes that trials take together on each device, with trials_per_device = \"auto\"",
    ),
    field(
        "cpu_threads",
        FieldKind::Integer { min: 1, max: 1_024 },
        Of(|| json!(DevicesSpec::default().cpu_threads)),
        "threads of each trial on the CPU",
    ),
];

const RETRY: &[Field] = &[
    field(
        "max",
        FieldKind::Integer { min: 0, max: 1_000 },
        Of(|| json!(RetrySpec::default().max)),
        "how many times a trial may be started again",
    ),
    field(
        "on",
        FieldKind::Words(CAUSES),
        Of(|| json!(RetrySpec::default().on)),
        "for which causes; a built-in trial out of memory has its rows at once halved first, \
         which is no retry",
    ),
];

const CHECKPOINTS: &[Field] = &[
    field(
        "keep",
        FieldKind::Keep,
        Of(|| json!(keep_word(CheckpointsSpec::default().keep_best))),
        "whose checkpoints stay on disk",
    ),
    field("dir", FieldKind::Path, Derived("beside the store"), "directory of the trials' files"),
    field("max_disk", FieldKind::Size, Absent, "most bytes that the study's checkpoints may take"),
];

const EXPORT: &[Field] = &[
    field("dir", FieldKind::Path, Absent, "where the best checkpoint is exported to"),
    field("on_finish", FieldKind::Flag, Flag(false), "whether to export when the study ends"),
    field(
        "quantize",
        FieldKind::Choice(Quantize::WORDS),
        Absent,
        "number format of the exported weights; single floats when not given",
    ),
];

const COMMAND: &[Field] = &[
    field("run", FieldKind::Texts, Absent, "program and arguments, with {name} for parameters"),
    field("cwd", FieldKind::Path, Derived("the study file's directory"), "working directory"),
    field("env", FieldKind::Environment, Absent, "variables added to the environment"),
    field(
        "args_style",
        FieldKind::Choice(ArgsStyle::WORDS),
        Absent,
        "how the program takes booleans: dashes and equals, as a flag or nothing; else as true \
         and false",
    ),
    field(
        "metrics",
        FieldKind::CommandMetrics,
        Absent,
        "where its metrics are found if it prints no `@hpsearch` lines: `pattern`",
    ),
];

const SAMPLER: &[Field] = &[
    field(
        "type",
        FieldKind::Text,
        Text(DEFAULT_SAMPLER),
        "the sampler's name: see `hpsearch list samplers`",
    ),
    field(
        "warm_start",
        FieldKind::Texts,
        Of(|| json!([])),
        "earlier studies to learn from: their names, `store.db`, or `store.db:study`",
    ),
];

const CONSTRAINT: &[Field] = &[
    field(
        "require",
        FieldKind::Text,
        Absent,
        "a condition over parameters: configurations that break it are never proposed",
    ),
    field(
        "limit",
        FieldKind::Text,
        Absent,
        "a condition over the metrics of a trial's last report: trials that break it rank below \
         all others",
    ),
];

const PRUNER: &[Field] = &[field(
    "type",
    FieldKind::Text,
    Text(DEFAULT_PRUNER),
    "the pruner's name: see `hpsearch list pruners`",
)];

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
    table("sampler", SAMPLER, Contents::Sampler, "who proposes configurations"),
    table("pruner", PRUNER, Contents::Pruner, "who stops trials early"),
    table("trainer", &[], Contents::Trainer, "fixed arguments of the built-in trainer"),
    table("command", COMMAND, Contents::Keys, "a program in any language, instead of [trainer]"),
    table("data", &[], Contents::Data, "the rows the built-in trainer learns from"),
    table("devices", DEVICES, Contents::Keys, "where trials run"),
    table("retry", RETRY, Contents::Keys, "which failed attempts are started again"),
    table("checkpoints", CHECKPOINTS, Contents::Keys, "which checkpoints stay on disk"),
    table("export", EXPORT, Contents::Keys, "what is exported at the end"),
    table("notify", &[], Contents::NotYet, "who is told"),
];

/// `[checkpoints] keep` for so many of the best; `None`: all.
pub(super) fn keep_word(keep_best: Option<u32>) -> String {
    match keep_best {
        None => "all".to_owned(),
        Some(0) => "none".to_owned(),
        Some(count) => format!("best-{count}"),
    }
}

/// The fields of the table called `name`.
pub(super) fn fields_of(name: &str) -> &'static [Field] {
    find(name).map_or(&[], |table| table.fields)
}

/// The table called `name`.
pub fn find(name: &str) -> Option<&'static TableSchema> {
    TABLES.iter().find(|table| table.name == name)
}

/// The tables that have a key called `name`, for keys written in the wrong place.
pub(super) fn owners(name: &str) -> impl Iterator<Item = &'static TableSchema> {
    TABLES.iter().filter(move |table| field::find(table.fields, name).is_some())
}
