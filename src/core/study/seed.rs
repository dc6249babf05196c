//! Named random streams derived from the study's seed, so that no draw depends on any other stream.

use rand::SeedableRng as _;
use rand_chacha::ChaCha12Rng;

/// The random number generator of a stream.
pub type StreamRng = ChaCha12Rng;

/// The root of all random streams of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedTree {
    seed: u64,
}

impl SeedTree {
    /// The tree of this seed.
    pub fn new(seed: u64) -> Self {
        SeedTree { seed }
    }

    /// The stream called `name`, such as `sampler/17`: the same name gives the same stream,
    /// different names independent ones (the key is BLAKE3 of seed and name).
    pub fn stream(&self, name: &str) -> StreamRng {
        StreamRng::from_seed(*self.digest(name).as_bytes())
    }

    /// A seed for a program, such as trial 3's: 53 bits, exact in every language's numbers.
    pub fn number(&self, name: &str) -> u64 {
        let bytes = self.digest(name);
        let mut eight = [0; 8];
        eight.copy_from_slice(&bytes.as_bytes()[..8]);
        u64::from_le_bytes(eight) >> 11
    }

    fn digest(&self, name: &str) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"hpsearch seed 1");
        hasher.update(&self.seed.to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng as _;

    #[test]
    fn streams_depend_on_seed_and_name_only() {
        let draw = |seed, name: &str| SeedTree::new(seed).stream(name).next_u64();
        assert_eq!(draw(1, "sampler/0"), draw(1, "sampler/0"));
        assert_ne!(draw(1, "sampler/0"), draw(1, "sampler/1"));
        assert_ne!(draw(1, "sampler/0"), draw(2, "sampler/0"));
    }
}
