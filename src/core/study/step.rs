//! The unit of a study's steps, and a step with its unit.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The unit of `step` in reports and rungs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepUnit {
    /// Passes over the training data.
    #[default]
    Epoch,
    /// Optimiser steps.
    Step,
    /// Training rows seen.
    Samples,
}

impl StepUnit {
    /// The word of the study file.
    pub fn as_str(self) -> &'static str {
        match self {
            StepUnit::Epoch => "epoch",
            StepUnit::Step => "step",
            StepUnit::Samples => "samples",
        }
    }

    /// The plural: `epochs`, `steps`, `samples`.
    pub fn plural(self) -> &'static str {
        match self {
            StepUnit::Epoch => "epochs",
            StepUnit::Step => "steps",
            StepUnit::Samples => "samples",
        }
    }

    /// Where a trial continues, given the step of its checkpoint.
    pub fn resume_point(self, checkpoint: Option<u64>) -> String {
        match checkpoint {
            None => "the start".to_owned(),
            Some(0) => "its checkpoint, before its first report".to_owned(),
            Some(step) => self.at(step).to_string(),
        }
    }

    /// A step in this unit.
    pub const fn at(self, step: u64) -> UnitStep {
        UnitStep { unit: self, step }
    }
}

/// A step with its unit: `epoch 3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitStep {
    /// Its unit.
    #[serde(rename = "clock")]
    pub unit: StepUnit,
    /// The number of units.
    pub step: u64,
}

impl fmt::Display for UnitStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.unit.as_str(), self.step)
    }
}
