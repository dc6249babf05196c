//! The default sampler: a fixed rule that chooses another one by the space, the budget and the history.

use super::grid::Grid;
use super::tpe::Tpe;
use super::{Ask, Capabilities, Choice, Sampler, SamplerEntry, SamplerError};
use crate::params::Params;
use crate::seed::StreamRng;
use crate::space::Space;
use crate::study::PolicySpec;

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "auto",
    aliases: &[],
    summary: "chooses a sampler by the space, the budget and the trials so far; each trial says which one drew it",
    version: 1,
    options: &[],
    build: |_, space| Ok(Box::new(Auto::new(space))),
};

/// Chooses anew for every trial; nothing is remembered between them.
pub struct Auto {
    /// Where the points can be counted.
    grid: Option<Grid>,
    tpe: Tpe,
}

impl Auto {
    /// For a space.
    pub fn new(space: &Space) -> Self {
        let finite = space.cardinality().is_some();
        let grid = finite.then(|| Grid::new(&PolicySpec::named("grid").with("order", "random"), space).ok()).flatten();
        Auto { grid, tpe: Tpe::new(&PolicySpec::named("tpe")) }
    }

    /// The rule.
    fn decide(&self, ask: &Ask<'_>) -> (&dyn Sampler, Choice) {
        let points = ask.space.cardinality();
        if let (Some(grid), Some(points), Some(budget)) = (&self.grid, points, ask.budget)
            && points <= budget
        {
            let reason = format!("all {points} points of the space fit the budget of {budget} trials");
            return (grid, Choice { sampler: "grid", reason });
        }
        (&self.tpe, Choice { sampler: "tpe", reason: "it serves every space".to_owned() })
    }
}

impl Sampler for Auto {
    fn capabilities(&self) -> Capabilities {
        Capabilities { conditional: true, continuous: true, exhausts: false }
    }

    fn suggest(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Result<Option<Params>, SamplerError> {
        self.decide(ask).0.suggest(ask, rng)
    }

    fn choice(&self, ask: &Ask<'_>) -> Option<Choice> {
        Some(self.decide(ask).1)
    }
}
