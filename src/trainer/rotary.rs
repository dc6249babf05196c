//! Rotary position embeddings (Su et al. 2021): the angles by which pairs of a head's numbers are
//! rotated at each position.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::families::ConfigReader;
use super::floats::{as_f32, real};

/// For each token as many cosines as each head has rotated pairs, then as many sines:
/// `[tokens, rotated]`.
pub(super) type RotaryAngles = Arc<[f32]>;

/// The angles of tokens at these positions.
pub(super) fn rotary_angles(
    inverse_frequencies: &[f64],
    positions: impl Iterator<Item = usize>,
) -> RotaryAngles {
    let positions: Vec<usize> = positions.collect();
    let end = positions.iter().max().map_or(0, |position| position + 1);
    let angle = |position: usize| {
        inverse_frequencies.iter().map(move |frequency| real(position) * frequency)
    };
    let row = |position: usize| -> Vec<f32> {
        let (cosines, sines) = (angle(position).map(f64::cos), angle(position).map(f64::sin));
        cosines.chain(sines).map(as_f32).collect()
    };
    // Texts of a batch share positions: each row is computed once.
    let mut rows: Vec<Option<Vec<f32>>> = vec![None; end];
    let mut angles = Vec::with_capacity(positions.len() * 2 * inverse_frequencies.len());
    for position in positions {
        angles.extend_from_slice(rows[position].get_or_insert_with(|| row(position)));
    }
    angles.into()
}

/// The share of each head that is rotated.
const PARTIAL_KEY: &str = "partial_rotary_factor";

/// What the angles depend on besides the position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rope {
    /// The base of the frequencies.
    pub(super) theta: f64,
    pub(super) scaling: Option<Llama3Scaling>,
    /// The share of each head that is rotated, its first numbers.
    pub(super) partial_factor: f64,
}

/// Llama 3.1's scaling to longer contexts: low frequencies are divided by `factor`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Llama3Scaling {
    factor: f64,
    low_freq_factor: f64,
    high_freq_factor: f64,
    /// Positions of the model before it was scaled.
    original_positions: f64,
}

impl Rope {
    /// Rotations of whole heads, for contexts as long as the model was trained on.
    pub(super) fn of(theta: f64) -> Self {
        Self { theta, scaling: None, partial_factor: 1.0 }
    }

    /// From `rope_parameters` (transformers 5), or from `rope_theta` and `rope_scaling`;
    /// `partial_factor` is the default of a family whose models may choose it.
    pub(super) fn read(config: ConfigReader, partial_factor: Option<f64>) -> Result<Self, String> {
        let nested = config.get("rope_parameters").or_else(|| config.get("rope_scaling"));
        let empty = Map::new();
        let nested = ConfigReader(nested.and_then(Value::as_object).unwrap_or(&empty));
        let partial_factor = match partial_factor {
            Some(default) => {
                nested.positive_or(PARTIAL_KEY, config.positive_or(PARTIAL_KEY, default)?)?
            }
            None => {
                for keys in [config, nested] {
                    keys.only(PARTIAL_KEY, &[1.into(), 1.0.into()])?;
                }
                1.0
            }
        };
        if partial_factor > 1.0 {
            return Err(format!("has `{PARTIAL_KEY}` = {partial_factor}, which is above 1"));
        }
        let theta = nested.positive_or("rope_theta", config.number_or("rope_theta", 10_000.0)?)?;
        let kind = nested.get("rope_type").or_else(|| nested.get("type")).and_then(Value::as_str);
        let scaling = match kind.unwrap_or("default") {
            "default" => None,
            "llama3" => Some(Llama3Scaling {
                factor: nested.positive_or("factor", 8.0)?,
                low_freq_factor: nested.positive_or("low_freq_factor", 1.0)?,
                high_freq_factor: nested.positive_or("high_freq_factor", 4.0)?,
                original_positions: nested
                    .positive_or("original_max_position_embeddings", 8_192.0)?,
            }),
            other => {
                return Err(format!(
                    "has `rope_type` = \"{other}\", which is not supported; supported are default \
                     and llama3"
                ));
            }
        };
        Ok(Self { theta, scaling, partial_factor })
    }

    /// Refuses heads of `head_dim` numbers of which no pairs are rotated.
    pub(super) fn check(&self, head_dim: usize) -> Result<(), String> {
        let rotated = self.rotated(head_dim);
        if rotated > 0 && rotated.is_multiple_of(2) {
            return Ok(());
        }
        let part = if rotated == head_dim {
            String::new()
        } else {
            format!(", {rotated} of them rotated (`{PARTIAL_KEY}`)")
        };
        Err(format!("has heads of {head_dim} elements{part}, which rotary positions cannot pair"))
    }

    /// How many of the `head_dim` numbers of a head are rotated.
    pub(super) fn rotated(&self, head_dim: usize) -> usize {
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of it")]
        let rotated = (head_dim as f64 * self.partial_factor) as usize;
        rotated
    }

    /// The angle between one position and the next of each of `pairs` pairs, in radians.
    pub(super) fn inverse_frequencies(&self, pairs: usize) -> Vec<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let unscaled = (0..pairs).map(|pair| self.theta.powf(-(pair as f64) / pairs as f64));
        unscaled
            .map(|frequency| self.scaling.map_or(frequency, |scaling| scaling.scaled(frequency)))
            .collect()
    }
}

impl Llama3Scaling {
    /// As transformers' `_compute_llama3_parameters`.
    fn scaled(&self, frequency: f64) -> f64 {
        let wavelength = 2.0 * std::f64::consts::PI / frequency;
        if wavelength > self.original_positions / self.low_freq_factor {
            frequency / self.factor
        } else if wavelength < self.original_positions / self.high_freq_factor {
            frequency
        } else {
            let smooth = (self.original_positions / wavelength - self.low_freq_factor)
                / (self.high_freq_factor - self.low_freq_factor);
            (1.0 - smooth) * frequency / self.factor + smooth * frequency
        }
    }
}
