//! Counter-based random numbers: streams are functions of a key, so that there is no state to save.

use super::floats::{as_f32, real};

/// The key of a stream, a hash of seed, name and counters.
pub(super) fn key(seed: u64, name: &str, counters: &[u64]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    for counter in counters {
        hasher.update(&counter.to_le_bytes());
    }
    hasher.update(name.as_bytes());
    let digest = hasher.finalize();
    let mut word = [0; 8];
    word.copy_from_slice(&digest.as_bytes()[..8]);
    u64::from_le_bytes(word)
}

/// A stream of random numbers: SplitMix64 (Steele, Lea, Flood 2014).
pub(super) struct Rng {
    state: u64,
}

impl Rng {
    pub(super) fn new(key: u64) -> Self {
        Self { state: key }
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1].
    pub(super) fn uniform(&mut self) -> f64 {
        // 53 bits fit exactly.
        real((self.next_u64() >> 11) + 1) / 9_007_199_254_740_992.0
    }

    /// `len` values from the normal distribution with mean 0 (Box and Muller 1958).
    pub(super) fn normal(&mut self, len: usize, deviation: f64) -> Vec<f32> {
        let mut values = Vec::with_capacity(len + 1);
        while values.len() < len {
            let radius = deviation * (-2.0 * self.uniform().ln()).sqrt();
            let angle = std::f64::consts::TAU * self.uniform();
            values.extend([radius * angle.cos(), radius * angle.sin()].map(as_f32));
        }
        values.truncate(len);
        values
    }

    /// `len` values, uniform in [-bound, bound].
    pub(super) fn uniform_within(&mut self, len: usize, bound: f64) -> Vec<f32> {
        (0..len).map(|_| as_f32(bound * (2.0 * self.uniform() - 1.0))).collect()
    }

    /// A number below `bound`, which is at least 1 (Lemire 2019, without rejection: the bias is
    /// below 2^-64 times `bound`).
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next_u64()) * bound as u128;
        #[expect(clippy::cast_possible_truncation, reason = "the high half is below `bound`")]
        let number = (product >> 64) as usize;
        number
    }

    /// The numbers below `len` in random order (Fisher and Yates).
    pub(super) fn permutation(&mut self, len: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..len).collect();
        for last in (1..len).rev() {
            order.swap(last, self.below(last + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_number_once() {
        let mut order = Rng::new(7).permutation(1_000);
        assert_ne!(order, (0..1_000).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn normal_values_have_their_deviation() {
        let values = Rng::new(3).normal(100_000, 0.5);
        let mean = values.iter().sum::<f32>() / 100_000.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / 100_000.0;
        assert!(mean.abs() < 0.01 && (variance - 0.25).abs() < 0.01);
    }
}
