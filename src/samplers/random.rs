//! Random search: every parameter uniform on its axis, parents before children.

use rand::RngExt as _;

use super::{Ask, Capabilities, Sampler, SamplerEntry, SamplerError};
use crate::params::Params;
use crate::seed::StreamRng;

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "random",
    aliases: &[],
    summary: "draws every parameter uniformly on its axis (logarithmic ones in the logarithm)",
    version: 1,
    options: &[],
    build: |_, _| Ok(Box::new(Random)),
};

/// Uniform draws from the stream it is given; the history plays no part.
#[derive(Clone, Copy, Debug)]
pub struct Random;

impl Sampler for Random {
    fn capabilities(&self) -> Capabilities {
        Capabilities { conditional: true, continuous: true, exhausts: false }
    }

    fn suggest(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Result<Option<Params>, SamplerError> {
        ask.space.assemble(ask.fixed, |dimension, _| Ok(dimension.distribution.from_unit(rng.random()))).map(Some)
    }
}
