//! Files in which a program writes metrics (`[command.metrics]`), followed while they grow.

mod event_files;
mod event_format;
mod growing_file;
mod json_lines;

use std::path::{Path, PathBuf};

use event_files::EventFiles;
pub use event_format::{
    Broken, Content, Event as RecordedEvent, EventReader, Fields, crc, crc_table, masked_crc,
};
use json_lines::JsonLines;

use super::protocol::{CHECKPOINTS, StepCounter};
use crate::config::trial_values::{TrialValues, names_something, path};
use crate::study::metric::Metrics;
use crate::study::params::Params;
use crate::study::program::MetricSources;
use crate::study::space::Space;

/// An item found in a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MetricFileItem {
    /// Metrics at a step.
    Report { step: u64, metrics: Metrics },
    /// A rejected item, and why.
    Remark(String),
}

/// Whether a file has more to read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Everything written so far was read.
    Nothing,
    /// There is more.
    More,
}

/// The metric files of one attempt.
#[derive(Debug)]
pub(super) struct MetricFiles {
    json: Option<JsonLines>,
    events: Option<EventFiles>,
}

/// The attempt they belong to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    /// The space of the study.
    pub space: &'a Space,
    /// The trial's parameters.
    pub params: &'a Params,
    /// The trial's values for paths.
    pub trial: TrialValues<'a>,
    /// Where the command runs.
    pub cwd: &'a Path,
    /// Counts its steps, from the checkpoint from which the attempt continues.
    pub step_counter: StepCounter,
}

impl MetricFiles {
    /// The files of an attempt that is about to start, if the study has any. Their present content
    /// is from earlier attempts, and is skipped.
    pub fn new(sources: &MetricSources, owner: Owner<'_>) -> Option<Self> {
        let json = sources.json.as_deref().map(|text| {
            JsonLines::new(text.to_owned(), possible_paths(text, owner), owner.step_counter)
        });
        let events = sources
            .tensorboard
            .as_deref()
            .map(|text| EventFiles::new(text.to_owned(), possible_paths(text, owner)));
        (json.is_some() || events.is_some()).then_some(MetricFiles { json, events })
    }

    /// Reads more, a limited amount at a time.
    pub fn poll(&mut self) -> (Vec<MetricFileItem>, Rest) {
        let mut found = Vec::new();
        let mut rest = Rest::Nothing;
        if let Some(json) = &mut self.json {
            rest = json.poll(&mut found);
        }
        if let Some(events) = &mut self.events
            && events.poll(&mut found) == Rest::More
        {
            rest = Rest::More;
        }
        (found, rest)
    }

    /// The rest after the program has ended: a last unterminated line, and a remark on each source
    /// without metrics.
    pub fn end(&mut self) -> (Vec<MetricFileItem>, Vec<String>) {
        let mut found = Vec::new();
        if let Some(json) = &mut self.json {
            json.end(&mut found);
        }
        let json = self.json.as_ref().and_then(JsonLines::emptiness);
        let events = self.events.as_ref().and_then(EventFiles::emptiness);
        (found, json.into_iter().chain(events).collect())
    }
}

/// The candidate paths for a path of the study file. One without a trial's value is resolved in the
/// trial's directory, or in that of its checkpoints, so that trials do not share it.
fn possible_paths(text: &str, owner: Owner<'_>) -> Vec<PathBuf> {
    let Owner { space, params, trial, cwd, .. } = owner;
    if names_something(text, space) {
        return vec![cwd.join(path(text, space, params, trial))];
    }
    let text = path(text, space, params, trial);
    if Path::new(&text).is_absolute() {
        return vec![text.into()];
    }
    vec![trial.directory.join(&text), trial.directory.join(CHECKPOINTS).join(text)]
}
