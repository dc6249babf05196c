//! Samplers propose the next point of the search space; each is one file and one line of [`SAMPLERS`].

pub mod conformance;
mod grid;
mod random;
mod tpe_independent;

use crate::history::History;
use crate::params::Params;
use crate::policy::{OptionSpec, PolicyError};
use crate::seed::StreamRng;
use crate::space::Space;
use crate::study::PolicySpec;
use crate::trial::TrialNumber;

/// What a sampler is asked.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The space to draw from.
    pub space: &'a Space,
    /// All trials so far, running ones too.
    pub history: History<'a>,
    /// The number of the trial that will be created.
    pub number: TrialNumber,
    /// Values that are already decided (an enqueued configuration); the sampler draws the rest.
    pub fixed: &'a Params,
}

/// What a sampler can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Proposes points of conditional spaces.
    pub conditional: bool,
    /// Proposes points of spaces with continuous parameters.
    pub continuous: bool,
    /// May say that there is nothing left to propose.
    pub exhausts: bool,
}

/// Why a sampler cannot propose.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// The space is not one this sampler can draw from.
    #[error("sampler `{sampler}` cannot search this space: {why}")]
    Space {
        /// Its name.
        sampler: &'static str,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Its arithmetic failed.
    #[error("sampler `{sampler}` failed: {why}")]
    Internal {
        /// Its name.
        sampler: &'static str,
        /// What happened.
        why: String,
    },
}

/// Proposes points.
pub trait Sampler: Send {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// A point of `ask.space` that keeps `ask.fixed`. A function of its arguments: the same space, history, number and
    /// stream give the same point. `None`: every point was proposed.
    fn suggest(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Result<Option<Params>, SamplerError>;
}

/// A line of the table of samplers.
pub struct SamplerEntry {
    /// Its name in the study file.
    pub name: &'static str,
    /// One sentence for `hpsearch list samplers`.
    pub summary: &'static str,
    /// Version of its rules: raised when the same history gives other points.
    pub version: u32,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// Builds it for a space from checked options.
    pub build: fn(&PolicySpec, &Space) -> Result<Box<dyn Sampler>, PolicyError>,
}

/// All samplers.
pub static SAMPLERS: &[SamplerEntry] = &[];
