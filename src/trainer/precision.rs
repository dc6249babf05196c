//! Mixed precision: the dtype of products in training, and the loss scaling that keeps fp16
//! gradients from underflowing.

use burn::tensor::{Device, FloatDType};
use serde::{Deserialize, Serialize};

use super::TrainerError;
use hpsearch_core::arguments::TrainerArguments;

/// The dtype that `bf16` and `fp16` ask for; `None`: f32.
///
/// # Errors
/// The device does not support the dtype.
pub(super) fn compute_dtype(
    arguments: &TrainerArguments,
    name: &str,
    device: &Device,
) -> Result<Option<FloatDType>, TrainerError> {
    let (argument, precision) = match (arguments.bf16, arguments.fp16) {
        (true, _) => ("bf16", FloatDType::BF16),
        (false, true) => ("fp16", FloatDType::F16),
        (false, false) => return Ok(None),
    };
    if device.supports_dtype(precision) {
        return Ok(Some(precision));
    }
    let other = if arguments.bf16 { "fp16" } else { "bf16" };
    Err(TrainerError::arguments(format!(
        "device `{name}` does not support {argument}: leave `{argument}` out, or try `{other}`"
    )))
}

/// Dynamic loss scaling, as PyTorch's `GradScaler` with its defaults, except that a scale of 1 is
/// not halved: then the training has diverged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GradScaler {
    pub(super) scale: f64,
    /// Steps since the scale was last changed.
    #[serde(rename = "sound")]
    growth_tracker: u32,
    /// Steps that were skipped, since a gradient was not finite.
    pub(super) skipped: u64,
}

/// Steps without overflow after which the scale is doubled.
const GROWTH_INTERVAL: u32 = 2_000;

const MIN_SCALE: f64 = 1.0;

impl GradScaler {
    /// At the first step; only fp16 needs it.
    pub(super) fn new(precision: Option<FloatDType>) -> Option<Self> {
        (precision == Some(FloatDType::F16)).then_some(Self {
            scale: 65_536.0,
            growth_tracker: 0,
            skipped: 0,
        })
    }

    /// A step was made without overflow.
    pub(super) fn step_succeeded(&mut self) {
        self.growth_tracker += 1;
        if self.growth_tracker == GROWTH_INTERVAL {
            (self.scale, self.growth_tracker) = (self.scale * 2.0, 0);
        }
    }

    /// A gradient was not finite: halves the scale, and returns whether that may help.
    pub(super) fn overflowed(&mut self) -> bool {
        let can_shrink = self.scale > MIN_SCALE;
        if can_shrink {
            (self.scale, self.growth_tracker, self.skipped) =
                (self.scale / 2.0, 0, self.skipped + 1);
        }
        can_shrink
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_halved_at_once_and_doubled_in_time() {
        assert_eq!(GradScaler::new(Some(FloatDType::BF16)), None);
        let mut scaling = GradScaler::new(Some(FloatDType::F16)).unwrap();
        assert!(scaling.overflowed() && scaling.scale == 32_768.0 && scaling.skipped == 1);
        for _ in 0..1_999 {
            scaling.step_succeeded();
        }
        assert_eq!(scaling.scale, 32_768.0);
        scaling.step_succeeded();
        assert_eq!(scaling.scale, 65_536.0);
        for _ in 0..16 {
            assert!(scaling.overflowed());
        }
        assert!(!scaling.overflowed() && scaling.scale == 1.0);
    }
}
