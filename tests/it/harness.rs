//! What the tests share, each thing once.
//!
//! A test that needs the program has a [`Site`]: a directory of its own with a study file, its
//! script and its store. [`Scene`] is a site whose store was written by the test. [`OnTerminal`] is
//! a program on a pseudo-terminal, [`Browser`] a client of `hpsearch serve`, and `simulated` has
//! studies for the engine's simulator. Tests wait for conditions ([`wait_until`]), not for a time.

mod browser;
mod process;
mod scene;
mod scripts;
mod simulated;
pub mod simulated_agent;
mod site;
mod terminal;
#[cfg(feature = "train")]
pub mod training;

pub use browser::Browser;
pub use process::{
    Ended, PROGRAM, Running, assert_code, assert_done, assert_names, assert_refused, assert_says,
    command, processor_time, run, wait_at_most, wait_until,
};
pub use scene::Scene;
pub use scripts::{
    KEEP_ALL, ONE_SLOT, REPORT_X, RESUMABLE, TWO_SLOTS, announces, answered_steps, held, says,
    study,
};
pub use simulated::{
    answers, asha, decisions, events, journal, loss, number, on_pairs_of_agents, policies,
    pruner_named, sampler_named, seconds, spec, studies, verified, with_agents, with_requests,
};
pub use site::{STORE, Site, files_below, paths_below};
pub use terminal::{OnTerminal, on_terminal, on_unread_terminal};

/// How many cases a test with random ones has: `few`, or `many` where HPSEARCH_THOROUGH is set.
pub fn cases<T>(few: T, many: T) -> T {
    if std::env::var_os("HPSEARCH_THOROUGH").is_some() { many } else { few }
}
