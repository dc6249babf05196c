//! Untried points, for samplers that keep proposing the same ones.

use rand::RngExt as _;

use super::Ask;
use super::finite_space::FiniteSpace;
use crate::study::params::Params;
use crate::study::seed::StreamRng;

/// Cells tried at random, and in sequence.
const BY_CHANCE: u64 = 1_000;
const IN_A_ROW: u64 = 200_000;

/// A point of a finite space that `is_new` and satisfies the constraints: random draws, then a scan
/// from a random position. `None`: none was found, which is certain in spaces of up to 200,000
/// points.
pub fn untried(
    ask: &Ask<'_>,
    is_new: impl Fn(&Params) -> bool,
    rng: &mut StreamRng,
) -> Option<Params> {
    ask.space.cardinality()?;
    let finite_space = FiniteSpace::new(ask.space, ask.fixed, 1)?;
    let cells = finite_space.cells();
    let fits =
        |cell: u64| finite_space.cell(cell).filter(|params| is_new(params) && ask.allows(params));
    let by_chance = (0..BY_CHANCE.min(cells)).find_map(|_| fits(rng.random_range(0..cells)));
    by_chance.or_else(|| {
        let start = rng.random_range(0..cells);
        (0..IN_A_ROW.min(cells)).find_map(|step| fits((start + step) % cells))
    })
}
