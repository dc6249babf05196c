//! Verbs that are promised and not built yet: the names that are refused, and the arms that wait for their rooms.

use super::console::Console;
use super::exit::{Exit, Failure};
use super::{CheckArguments, ExportArguments, PredictArguments, RunArguments, TrainArguments, WorkerArguments};

/// Verbs of later steps. The command line does not know them; asked for one, it says so.
pub const LATER: &[&str] = &[
    "init",
    "curves",
    "importance",
    "explain",
    "diff",
    "plot",
    "report",
    "export-data",
    "generate",
    "enqueue",
    "pause",
    "resume",
    "retry",
    "extend",
    "continue",
    "note",
    "track",
    "ask-tell",
    "doctor",
    "du",
    "gc",
    "verify",
    "completions",
    "man",
];

/// The refusal.
pub fn refusal(verb: &str) -> Failure {
    Failure::usage(format!("`hpsearch {verb}` is not built yet")).help("`hpsearch --help` lists what is")
}

/// `hpsearch check`.
pub fn check(_: &CheckArguments, _: &mut Console) -> Result<Exit, Failure> {
    Err(refusal("check"))
}

/// `hpsearch run`.
pub fn run(_: &RunArguments, _: &mut Console) -> Result<Exit, Failure> {
    Err(refusal("run"))
}

/// `hpsearch export`.
pub fn export(_: &ExportArguments, _: &mut Console) -> Result<Exit, Failure> {
    Err(refusal("export"))
}

/// `hpsearch train`.
pub fn train(_: &TrainArguments, _: &mut Console) -> Result<Exit, Failure> {
    Err(refusal("train"))
}

/// `hpsearch predict`.
pub fn predict(_: &PredictArguments, _: &mut Console) -> Result<Exit, Failure> {
    Err(refusal("predict"))
}

/// `hpsearch worker`.
pub fn worker(_: &WorkerArguments, _: &mut Console) -> Result<Exit, Failure> {
    Err(refusal("worker"))
}
