//! Quasi-random search: Owen-scrambled Sobol points, which fill the space more evenly than
//! independent draws.

mod directions;

use self::directions::DIRECTIONS;
use super::{Ask, Proposal, Sampler, SamplerEntry, SamplerError};
use crate::study::seed::{SeedTree, StreamRng};

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "qmc",
    aliases: &["sobol"],
    summary: "spreads points evenly over the space, regardless of results (scrambled Sobol \
        sequence)",
    version: 1,
    oldest: 1,
    options: &[],
    several: true,
    build: |_, _| Ok(Box::new(Qmc)),
};

/// Coordinates of the table, the first of which needs no direction numbers. Spaces with more
/// parameters reuse it in another order (see [`Sequence`]).
const COORDINATES: usize = 128;

/// Trial n takes point n of a sequence determined by the study's seed. The history is ignored, so
/// lost, resumed and parallel trials change nothing.
///
/// Each parameter has its own coordinate, including conditional ones; the coordinate of an inactive
/// parameter is unused. Integers, steps and choices are equal parts of the unit interval. In a
/// small space a point may repeat; `grid` tries each once.
#[derive(Clone, Copy, Debug)]
pub struct Qmc;

impl Sampler for Qmc {
    fn suggest(&self, ask: &Ask<'_>, _: &mut StreamRng) -> Result<Option<Proposal>, SamplerError> {
        let sequence = Sequence { seeds: ask.seeds };
        let place = |name: &str| {
            ask.space.dimensions().iter().position(|dimension| dimension.name == name).unwrap_or(0)
        };
        let point = ask.assemble(ask.fixed, |dimension| {
            let unit = sequence.unit(ask.number.0, place(&dimension.name));
            dimension.distribution.from_unit(unit)
        });
        Ok(Some(point.into()))
    }
}

/// A scrambled Sobol sequence.
///
/// Scrambling is Owen's (nested uniform), by hashes: B. Burley, "Practical Hash-based Owen
/// Scrambling", Journal of Computer Graphics Techniques 9 (4), 2020, which also describes the
/// padding beyond the table (section 5): the table is reused with its points shuffled. Each set of
/// 128 coordinates is as even as the first, and the sets are paired at random.
struct Sequence {
    seeds: SeedTree,
}

impl Sequence {
    /// Point `index` on a coordinate, in `(0, 1)`: the middle of one of 2^32 equal parts. The
    /// sequence has a period of 2^32.
    #[expect(clippy::cast_possible_truncation, reason = "the sequence's period is 2^32")]
    fn unit(&self, index: u64, coordinate: usize) -> f64 {
        let mut index = index as u32;
        let (set, inside) = (coordinate / COORDINATES, coordinate % COORDINATES);
        if set > 0 {
            // A bit of the index flips depending on higher bits only, so that aligned blocks of 2^m
            // points stay together.
            index = scrambled(index, self.seed("shuffle", set));
        }
        let bits = scrambled(sobol(index, inside), self.seed("scramble", coordinate));
        (f64::from(bits) + 0.5) / 4_294_967_296.0
    }

    #[expect(clippy::cast_possible_truncation, reason = "32 bits of a hash")]
    fn seed(&self, what: &str, number: usize) -> u32 {
        self.seeds.number(&format!("sampler/qmc/{what}/{number}")) as u32
    }
}

/// Point `index` of the Sobol sequence on a coordinate, in units of 2^-32.
fn sobol(index: u32, coordinate: usize) -> u32 {
    let directions = directions(coordinate);
    (0..32).filter(|bit| index >> bit & 1 == 1).fold(0, |point, bit| point ^ directions[bit])
}

/// The direction number of each bit: `m_k 2^(32-k)`, the later `m_k` by the recurrence of the
/// primitive polynomial (S. Joe and F. Y. Kuo, "Notes on generating Sobol sequences", 2008,
/// equation 2).
fn directions(coordinate: usize) -> [u32; 32] {
    let mut directions = [0; 32];
    let Some(&(polynomial, initial)) = coordinate.checked_sub(1).map(|row| &DIRECTIONS[row]) else {
        // The first coordinate is the van der Corput sequence: reversed bits.
        return std::array::from_fn(|bit| 1 << (31 - bit));
    };
    let degree = initial.len();
    for bit in 0..32 {
        directions[bit] = match initial.get(bit) {
            Some(number) => number << (31 - bit),
            None => {
                let last = directions[bit - degree];
                let terms = (1..degree).filter(|term| polynomial >> (degree - 1 - term) & 1 == 1);
                terms.fold(last ^ (last >> degree), |sum, term| sum ^ directions[bit - term])
            }
        };
    }
    directions
}

/// Owen scrambling in base 2: flips each bit depending on the seed and all higher bits.
///
/// A Laine-Karras hash of the reversed bits, with the constants of N. Vegdahl, "Building a Better
/// LK Hash" (2021): each step lets a bit depend on lower ones only.
fn scrambled(bits: u32, seed: u32) -> u32 {
    let mut hash = bits.reverse_bits();
    hash ^= hash.wrapping_mul(0x3d20_adea);
    hash = hash.wrapping_add(seed);
    hash = hash.wrapping_mul((seed >> 16) | 1);
    hash ^= hash.wrapping_mul(0x0552_6c56);
    hash ^= hash.wrapping_mul(0x53a2_2864);
    hash.reverse_bits()
}

#[cfg(test)]
mod tests;
