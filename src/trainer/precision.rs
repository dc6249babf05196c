//! The numbers that products are made of in training, and the scale of losses that keeps half floats' gradients from vanishing.

use burn::tensor::{Device, FloatDType};
use serde::{Deserialize, Serialize};

use super::TrainerError;
use crate::arguments::TrainerArguments;

/// What `bf16` and `fp16` ask for; `None`: single floats.
///
/// # Errors
/// A device that cannot compute with such numbers.
pub(super) fn of(arguments: &TrainerArguments, name: &str, device: &Device) -> Result<Option<FloatDType>, TrainerError> {
    let (argument, precision) = match (arguments.bf16, arguments.fp16) {
        (true, _) => ("bf16", FloatDType::BF16),
        (false, true) => ("fp16", FloatDType::F16),
        (false, false) => return Ok(None),
    };
    if device.supports_dtype(precision) {
        return Ok(Some(precision));
    }
    let other = if arguments.bf16 { "fp16" } else { "bf16" };
    let message = format!("device `{name}` cannot compute with the numbers of `{argument}`: leave it out, or try `{other}`");
    Err(TrainerError::Arguments { message })
}

/// What the loss is multiplied with before the way down, and gradients divided by after it: PyTorch's `GradScaler` with its defaults, but
/// that a scale of 1 is not halved: then the training has diverged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scaling {
    pub(super) scale: f64,
    /// Steps since it was last changed.
    sound: u32,
    /// Steps that were not made, since a gradient was not finite.
    pub(super) skipped: u64,
}

/// Sound steps after which the scale is doubled.
const GROWTH_INTERVAL: u32 = 2_000;

/// Below it the scale is not to blame.
const LEAST: f64 = 1.0;

impl Scaling {
    /// At the first step.
    pub(super) fn begin(precision: Option<FloatDType>) -> Option<Self> {
        (precision == Some(FloatDType::F16)).then_some(Self { scale: 65_536.0, sound: 0, skipped: 0 })
    }

    /// A step was made.
    pub(super) fn was_sound(&mut self) {
        self.sound += 1;
        if self.sound == GROWTH_INTERVAL {
            (self.scale, self.sound) = (self.scale * 2.0, 0);
        }
    }

    /// A gradient was not finite: whether a smaller scale may help, which it has from now on.
    pub(super) fn overflowed(&mut self) -> bool {
        let helps = self.scale > LEAST;
        if helps {
            (self.scale, self.sound, self.skipped) = (self.scale / 2.0, 0, self.skipped + 1);
        }
        helps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_halved_at_once_and_doubled_in_time() {
        assert_eq!(Scaling::begin(Some(FloatDType::BF16)), None);
        let mut scaling = Scaling::begin(Some(FloatDType::F16)).unwrap();
        assert!(scaling.overflowed() && scaling.scale == 32_768.0 && scaling.skipped == 1);
        for _ in 0..1_999 {
            scaling.was_sound();
        }
        assert_eq!(scaling.scale, 32_768.0);
        scaling.was_sound();
        assert_eq!(scaling.scale, 65_536.0);
        for _ in 0..16 {
            assert!(scaling.overflowed());
        }
        assert!(!scaling.overflowed() && scaling.scale == 1.0);
    }
}
