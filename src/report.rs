//! Reporters say on a stream what happens to a study; each is one file and one line of
//! [`REPORTERS`].

pub mod ahead;
pub mod bar;
mod events;
pub mod journal;
mod notices;
mod plain;
pub mod progress;
pub mod sparkline;
pub mod table;
pub mod wording;

use std::io;

pub use notices::notices;

use crate::study::event::{Event, Seq};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;

/// Something that happened and was made durable.
#[derive(Clone, Copy, Debug)]
pub struct Happening<'a> {
    /// Its place in the journal.
    pub seq: Seq,
    /// Time of it.
    pub at: Timestamp,
    /// The event.
    pub event: &'a Event,
    /// The study with the event taken in.
    pub view: &'a StudyState,
}

/// What was not said, because nobody read what was said before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The last event that was told.
    pub after: Seq,
    /// Events.
    pub events: u64,
    /// Lines.
    pub lines: u64,
}

/// Says what happens, on the stream it is given. It reads no clock: times come with what it is
/// told.
pub trait Reporter: Send {
    /// A runner takes the study up at `at`; `view` is what there is already.
    fn study_started(
        &mut self,
        out: &mut dyn io::Write,
        at: Timestamp,
        spec: &StudySpec,
        view: &StudyState,
    ) -> io::Result<()>;

    /// Something happened.
    fn event(&mut self, out: &mut dyn io::Write, happening: &Happening<'_>) -> io::Result<()>;

    /// So much was left out at this place.
    fn left_out(&mut self, out: &mut dyn io::Write, left_out: &LeftOut) -> io::Result<()>;

    /// The store failed, `why` says how: the trials that run, so many, save and leave, and nothing
    /// of it can be written.
    fn store_failed(
        &mut self,
        _out: &mut dyn io::Write,
        _why: &str,
        _trials: usize,
    ) -> io::Result<()> {
        Ok(())
    }

    /// The runner leaves the study for `reason`.
    fn study_ended(
        &mut self,
        out: &mut dyn io::Write,
        at: Timestamp,
        reason: &str,
        view: &StudyState,
    ) -> io::Result<()>;
}

/// A line of the table of reporters.
pub struct ReporterEntry {
    /// Its name: `hpsearch run --<name>`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Makes one.
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

/// The reporter `plain` of a run that found its store by `store_option` (` --store PATH`, or
/// nothing): commands that it names next have that behind them.
pub fn plain(store_option: String) -> Box<dyn Reporter> {
    Box::new(plain::Plain::of_store(store_option))
}

/// The reporter called `name`.
pub fn reporter(name: &str) -> Option<Box<dyn Reporter>> {
    REPORTERS.iter().find(|entry| entry.name == name).map(|entry| (entry.build)())
}
