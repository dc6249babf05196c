//! Reporters write the events of a run to a stream; each is one file and one line of [`REPORTERS`].

pub mod ahead;
pub mod aligned_comments;
pub mod bar;
pub mod document;
mod events;
pub mod fate;
pub mod figure;
pub mod interval;
pub mod journal;
pub mod journal_entry;
mod notices;
pub mod page;
mod plain;
pub mod populations;
pub mod progress;
pub mod requests;
mod run_clock;
pub mod sparkline;
pub mod specification;
pub mod table;
pub mod wording;
pub mod yaml;

use std::io;

pub use notices::notices;

use crate::study::event::{Event, Seq};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;

/// An event that is durable.
#[derive(Clone, Copy, Debug)]
pub struct Happening<'a> {
    /// Its position in the journal.
    pub seq: Seq,
    /// Its time.
    pub at: Timestamp,
    /// The event.
    pub event: &'a Event,
    /// The study, with the event applied.
    pub state: &'a StudyState,
}

/// Output that was dropped because a reader stalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The last event that was reported.
    pub after: Seq,
    /// Number of events dropped.
    pub events: u64,
    /// Number of lines dropped.
    pub lines: u64,
}

/// Writes events to a stream. It reads no clock: times come with the events.
pub trait Reporter: Send {
    /// A runner starts at `at`; `state` is the present state.
    fn study_started(
        &mut self,
        out: &mut dyn io::Write,
        at: Timestamp,
        spec: &StudySpec,
        state: &StudyState,
    ) -> io::Result<()>;

    /// An event.
    fn event(&mut self, out: &mut dyn io::Write, happening: &Happening<'_>) -> io::Result<()>;

    /// Output was dropped here.
    fn left_out(&mut self, out: &mut dyn io::Write, left_out: &LeftOut) -> io::Result<()>;

    /// The store failed because of `why`: the running trials, this many, save and exit, and nothing
    /// can be recorded.
    fn store_failed(
        &mut self,
        _out: &mut dyn io::Write,
        _why: &str,
        _trials: usize,
    ) -> io::Result<()> {
        Ok(())
    }

    /// The runner exits for `reason`.
    fn study_ended(
        &mut self,
        out: &mut dyn io::Write,
        at: Timestamp,
        reason: &str,
        state: &StudyState,
    ) -> io::Result<()>;
}

/// An entry of the table of reporters.
pub struct ReporterEntry {
    /// Its name: `hpsearch run --<name>`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Builds one.
    pub build: fn() -> Box<dyn Reporter>,
}

/// All reporters.
pub static REPORTERS: &[ReporterEntry] = &[
    ReporterEntry {
        name: "plain",
        summary: "one line for each thing that matters",
        build: || Box::<plain::Plain>::default(),
    },
    ReporterEntry {
        name: "events",
        summary: "the journal as JSON lines",
        build: || Box::new(events::Events),
    },
];

/// The reporter `plain` of a run whose store was given by `store_option` (` --store PATH`, or
/// empty), which suggested commands repeat.
pub fn plain(store_option: String) -> Box<dyn Reporter> {
    Box::new(plain::Plain::of_store(store_option))
}

/// The reporter called `name`.
pub fn reporter(name: &str) -> Option<Box<dyn Reporter>> {
    REPORTERS.iter().find(|entry| entry.name == name).map(|entry| (entry.build)())
}
