//! The tables and keys of a study file, each one line: parsing, suggestions and the schema all read them here.

use crate::study::spec::{ArgsStyle, Quantize};

/// What a key's value must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyKind {
    /// A string that is not empty.
    Text,
    /// A file or directory, relative to the study file.
    Path,
    /// One of these words.
    Word {
        /// Those that work.
        accepted: &'static [&'static str],
        /// Those that are promised.
        later: &'static [&'static str],
    },
    /// `minimize` or `maximize`; `min` and `max` with a warning.
    Direction,
    /// A whole number within inclusive bounds.
    Whole {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// A whole number within inclusive bounds, or `"auto"`.
    WholeOrAuto {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// Any finite number.
    Number,
    /// A finite number above zero.
    Amount,
    /// `true` or `false`.
    Flag,
    /// A duration as a string.
    Duration,
    /// A size in bytes as a string.
    Size,
    /// A list of strings.
    Texts,
    /// A list of these words.
    Words(&'static [&'static str]),
    /// `"auto"`, a device, or a list of devices.
    Devices,
    /// `"best-3"`, `"all"` or `"none"`.
    Keep,
    /// A table of strings.
    Environment,
    /// Tables, one for each objective.
    Objectives,
    /// The table of [`COMMAND_METRICS`].
    CommandMetrics,
    /// A string or a list of strings.
    TextOrTexts,
}

/// One key of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What its value must be.
    pub kind: KeyKind,
    /// Its default as it would be written; empty: none.
    pub default: &'static str,
    /// One sentence.
    pub summary: &'static str,
}

/// What a table holds besides [`TableKeys::keys`].
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableKeys {
    /// As it is written in brackets.
    pub name: &'static str,
    /// Its fixed keys.
    pub keys: &'static [Key],
    /// What else it holds.
    pub contents: Contents,
    /// One sentence.
    pub summary: &'static str,
}

const fn key(
    name: &'static str,
    kind: KeyKind,
    default: &'static str,
    summary: &'static str,
) -> Key {
    Key { name, kind, default, summary }
}

const fn word(accepted: &'static [&'static str]) -> KeyKind {
    KeyKind::Word { accepted, later: &[] }
}

const COUNT: KeyKind = KeyKind::Whole { min: 1, max: i64::MAX };

/// Words for the direction.
pub(super) const DIRECTIONS: &[&str] = &["minimize", "maximize"];
/// Words for the direction that are taken with a warning.
pub(super) const SHORT_DIRECTIONS: &[&str] = &["min", "max"];
/// Causes in `[retry] on`.
pub(super) const CAUSES: &[&str] = &["oom", "device_lost", "worker_lost", "timeout"];

const STUDY: &[Key] = &[
    key("name", KeyKind::Text, "the file's name", "the study's name, its key in the store"),
    key("description", KeyKind::Text, "", "a sentence for people"),
    key("tags", KeyKind::Texts, "[]", "words to find the study by"),
    key("metric", KeyKind::Text, "", "the reported metric that is optimised"),
    key("direction", KeyKind::Direction, "", "which way the metric gets better"),
    key("value", word(&["best", "last"]), "\"best\"", "which report of a trial is its value"),
    key("step", word(&["epoch", "step", "samples"]), "\"epoch\"", "the clock of reports and rungs"),
    key("seed", KeyKind::Whole { min: 0, max: i64::MAX }, "0", "root of all random streams"),
    key(
        "duplicates",
        word(&["skip", "replicate", "allow"]),
        "\"skip\"",
        "what to do with a proposal that was tried",
    ),
    key(
        "deterministic",
        KeyKind::Flag,
        "false",
        "whether several slots give the same study every time",
    ),
    key(
        "replicates",
        KeyKind::Whole { min: 1, max: 1_000 },
        "1",
        "runs of each configuration that completes, each on a seed of its own",
    ),
    key(
        "race",
        KeyKind::Whole { min: 0, max: 1_000 },
        "0",
        "how many of the best are run again on fresh seeds at the end, on top of the budget",
    ),
    key("objective", KeyKind::Objectives, "", "objectives, instead of `metric` and `direction`"),
];

/// Keys of one `[[study.objective]]`.
pub(super) const OBJECTIVE: &[Key] = &[
    key("metric", KeyKind::Text, "", "the reported metric that is optimised"),
    key("direction", KeyKind::Direction, "", "which way the metric gets better"),
];

const BUDGET: &[Key] = &[
    key("trials", COUNT, "", "the study ends after so many trials"),
    key(
        "count",
        word(&["finished", "completed", "all"]),
        "\"finished\"",
        "which trials count: completed and pruned, completed, or failed ones too",
    ),
    key(
        "time",
        KeyKind::Duration,
        "",
        "the study ends after this time, all runs of the runner together",
    ),
    key("target", KeyKind::Number, "", "the study ends when a trial reaches this value"),
    key("failures", COUNT, "", "the study ends, with exit code 4, after so many failed trials"),
    key("trial_time", KeyKind::Duration, "", "longest running time of one attempt at a trial"),
    key(
        "stall_time",
        KeyKind::Duration,
        "",
        "longest time without a report or a checkpoint; then the attempt is killed",
    ),
    key(
        "patience",
        COUNT,
        "",
        "the study ends after so many complete and pruned trials without a better one",
    ),
    key(
        "device_hours",
        KeyKind::Amount,
        "",
        "the study ends after so many hours of devices in use; several trials on one count once",
    ),
    key(
        "cost",
        KeyKind::Amount,
        "",
        "the study ends when device-hours times `price_per_hour` reach this",
    ),
    key("price_per_hour", KeyKind::Amount, "", "what an hour of one device costs"),
];

const DEVICES: &[Key] = &[
    key(
        "use",
        KeyKind::Devices,
        "\"auto\"",
        "where trials run: cpu, cuda:0, cuda:*, wgpu:0, ndarray",
    ),
    key(
        "trials_per_device",
        KeyKind::WholeOrAuto { min: 1, max: 1_024 },
        "",
        "trials at a time on each device; \"auto\" measures how many are good",
    ),
    key(
        "memory",
        KeyKind::Size,
        "",
        "most bytes that trials take together on each device, with trials_per_device = \"auto\"",
    ),
    key(
        "cpu_threads",
        KeyKind::Whole { min: 1, max: 1_024 },
        "1",
        "threads of each trial on the CPU",
    ),
];

const RETRY: &[Key] = &[
    key(
        "max",
        KeyKind::Whole { min: 0, max: 1_000 },
        "2",
        "how many times a trial may be started again",
    ),
    key(
        "on",
        KeyKind::Words(CAUSES),
        "[\"worker_lost\"]",
        "for which causes; a built-in trial out of memory has its rows at once halved first, which is no retry",
    ),
];

const CHECKPOINTS: &[Key] = &[
    key("keep", KeyKind::Keep, "\"best-3\"", "whose checkpoints stay on disk"),
    key("dir", KeyKind::Path, "beside the store", "directory of the trials' files"),
    key("max_disk", KeyKind::Size, "", "most bytes that the study's checkpoints may take"),
];

const EXPORT: &[Key] = &[
    key("dir", KeyKind::Path, "", "where the best checkpoint is exported to"),
    key("on_finish", KeyKind::Flag, "false", "whether to export when the study ends"),
    key(
        "quantize",
        word(Quantize::WORDS),
        "",
        "number format of the exported weights; single floats when not given",
    ),
];

const COMMAND: &[Key] = &[
    key("run", KeyKind::Texts, "", "program and arguments, with {name} for parameters"),
    key("cwd", KeyKind::Path, "the study file's directory", "working directory"),
    key("env", KeyKind::Environment, "", "variables added to the environment"),
    key(
        "args_style",
        word(ArgsStyle::WORDS),
        "",
        "how the program takes booleans: dashes and equals, as a flag or nothing; else as true and false",
    ),
    key(
        "metrics",
        KeyKind::CommandMetrics,
        "",
        "where its metrics are found if it prints no `@hpsearch` lines: `pattern`",
    ),
];

/// The keys of `[command.metrics]`.
pub(super) const COMMAND_METRICS: &[Key] = &[key(
    "pattern",
    KeyKind::TextOrTexts,
    "",
    "regular expressions over its lines; each named group is a metric, or the step",
)];

const SAMPLER: &[Key] = &[
    key("type", KeyKind::Text, "\"tpe\"", "the sampler's name: see `hpsearch list samplers`"),
    key(
        "warm_start",
        KeyKind::Texts,
        "[]",
        "earlier studies to learn from: their names, `store.db`, or `store.db:study`",
    ),
];

const CONSTRAINT: &[Key] = &[
    key(
        "require",
        KeyKind::Text,
        "",
        "a condition over parameters: configurations that break it are never proposed",
    ),
    key(
        "limit",
        KeyKind::Text,
        "",
        "a condition over the metrics of a trial's last report: trials that break it rank below all others",
    ),
];

const PRUNER: &[Key] =
    &[key("type", KeyKind::Text, "\"none\"", "the pruner's name: see `hpsearch list pruners`")];

const fn table(
    name: &'static str,
    keys: &'static [Key],
    contents: Contents,
    summary: &'static str,
) -> TableKeys {
    TableKeys { name, keys, contents, summary }
}

/// Every table of a study file.
pub static TABLES: &[TableKeys] = &[
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

/// The table called `name`.
pub fn find(name: &str) -> Option<&'static TableKeys> {
    TABLES.iter().find(|table| table.name == name)
}

/// The tables that have a key called `name`, for keys written in the wrong place.
pub(super) fn owners(name: &str) -> impl Iterator<Item = &'static TableKeys> {
    TABLES.iter().filter(move |table| table.keys.iter().any(|key| key.name == name))
}
