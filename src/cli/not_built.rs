//! Verbs that are promised and not built yet, and how they are refused.

use super::exit::Failure;

/// Verbs of later steps. The command line does not know them; asked for one, it says so.
pub const LATER: &[&str] = &["report", "track"];

/// The refusal.
pub fn refusal(verb: &str) -> Failure {
    Failure::usage(format!("`hpsearch {verb}` is not built yet"))
        .help("`hpsearch --help` lists what is")
}
