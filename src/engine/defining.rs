//! Parameters that a program defines while its trial runs (define-by-run): the space grows, and the
//! trial gets a value.

use super::{Effect, Engine, EngineError};
use crate::samplers::{self, Ask};
use crate::study::event::{Event, RecordEvent};
use crate::study::history::History;
use crate::study::params::{Params, Value};
use crate::study::space::{Dimension, Distribution, Space, SpaceError};
use crate::study::spec::{AlgorithmSpec, StudySpec};
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, TrialNumber, TrialState};

/// A parameter of a running trial.
pub struct Defined {
    /// The trial's value.
    pub value: Value,
    /// Whether the trial had another value, or none.
    pub is_new: bool,
    /// The specification with the wider space, if this changes it.
    pub widened: Option<Box<StudySpec>>,
}

/// Why a parameter cannot be defined.
#[derive(Debug, thiserror::Error)]
pub enum DefineError {
    /// The trial is not running.
    #[error("trial {number} is not running: parameters are added while it runs")]
    NotOut {
        /// Its number.
        number: TrialNumber,
    },
    /// The space has an incompatible parameter with this name.
    #[error(
        "parameter `{name}` is {known} in this study, and cannot become {asked}: only the bounds \
         of numbers without a step may change"
    )]
    Other {
        /// Its name.
        name: String,
        /// The distribution in the space.
        known: String,
        /// The requested distribution.
        asked: String,
    },
    /// The given value is out of range.
    #[error("parameter `{name}`: {value} is outside of {asked}")]
    Outside {
        /// Its name.
        name: String,
        /// The value.
        value: Value,
        /// The requested distribution.
        asked: String,
    },
    /// The space rejects it.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// No value can be drawn.
    #[error("parameter `{name}` cannot be drawn")]
    Draw {
        /// Its name.
        name: String,
    },
}

impl Engine {
    /// The value of a parameter that a running trial asks for: its own if it lies within `asked`,
    /// else a random one. Changes no state.
    ///
    /// # Errors
    /// The trial is not running, or the parameter does not fit the space.
    pub fn defined(
        &self,
        number: TrialNumber,
        name: &str,
        asked: &Distribution,
        given: Option<&Value>,
    ) -> Result<Defined, DefineError> {
        let trial = self.state.trial(number).filter(|trial| trial.state == TrialState::Running);
        let trial = trial.ok_or(DefineError::NotOut { number })?;
        let known = self.spec.space.dimension(name).map(|dimension| &dimension.distribution);
        let is_provisional = known != Some(asked) && self.is_provisional(name);
        let wide = match known {
            Some(known) if !is_provisional => {
                hull(known, asked).ok_or_else(|| DefineError::Other {
                    name: name.to_owned(),
                    known: known.to_string(),
                    asked: asked.to_string(),
                })?
            }
            _ => asked.clone(),
        };
        let widened = if known == Some(&wide) { None } else { Some(self.with(name, wide)?) };
        let own = trial.params.get(name);
        let is_enqueued = trial.origin == Origin::Asked;
        let outside = |value: &Value| DefineError::Outside {
            name: name.to_owned(),
            value: value.clone(),
            asked: asked.to_string(),
        };
        let value = match (given, own) {
            (Some(given), _) => asked.normalize(given).ok_or_else(|| outside(given))?,
            // A value enqueued before the parameter's range was known.
            (None, Some(own)) if is_provisional && is_enqueued => {
                asked.normalize(own).ok_or_else(|| outside(own))?
            }
            // A value drawn from the provisional choices only.
            (None, Some(own)) if !is_provisional && asked.contains(own) => {
                asked.normalize(own).unwrap_or_else(|| own.clone())
            }
            (None, _) => self
                .by_chance(number, name, asked)
                .ok_or_else(|| DefineError::Draw { name: name.to_owned() })?,
        };
        // The index of a choice was another one when it was enqueued.
        Ok(Defined { is_new: own != Some(&value) || is_enqueued, value, widened })
    }

    /// Whether a parameter is known from enqueued configurations only: the space has their values
    /// as choices, until a trial defines it. Ended trials have what they defined.
    fn is_provisional(&self, name: &str) -> bool {
        let dimension = self.spec.space.dimension(name);
        let is_choice = dimension
            .is_some_and(|dimension| matches!(dimension.distribution, Distribution::Choice { .. }));
        let mut ended = self.state.trials.iter().filter(|trial| trial.state.is_finished());
        is_choice && !ended.any(|trial| trial.params.get(name).is_some())
    }

    /// The specification extended by the parameters of an enqueued configuration that no trial has
    /// defined, with the enqueued values as choices; `None` if nothing changes.
    ///
    /// # Errors
    /// The space cannot have them.
    pub fn with_parameters_of(
        &self,
        params: &Params,
    ) -> Result<Option<Box<StudySpec>>, DefineError> {
        let mut dimensions = self.spec.space.dimensions().to_vec();
        let mut has_changed = false;
        for (name, value) in params.iter() {
            let known = dimensions.iter_mut().find(|dimension| dimension.name == name);
            let choices = match known.as_ref().map(|dimension| &dimension.distribution) {
                None => vec![value.clone()],
                Some(Distribution::Choice { choices })
                    if self.is_provisional(name) && !choices.contains(value) =>
                {
                    choices.iter().chain([value]).cloned().collect()
                }
                Some(_) => continue,
            };
            let Ok(distribution) = Distribution::choice(choices) else { continue };
            has_changed = true;
            match known {
                Some(dimension) => dimension.distribution = distribution,
                None => dimensions.push(Dimension::new(name, distribution)),
            }
        }
        if !has_changed {
            return Ok(None);
        }
        let space = Space::new(dimensions)?;
        Ok(Some(Box::new(StudySpec { space, ..self.spec.clone() })))
    }

    /// The specification with a parameter added or replaced.
    fn with(&self, name: &str, distribution: Distribution) -> Result<Box<StudySpec>, SpaceError> {
        let mut dimensions = self.spec.space.dimensions().to_vec();
        match dimensions.iter_mut().find(|dimension| dimension.name == name) {
            Some(dimension) => dimension.distribution = distribution,
            None => dimensions.push(Dimension::new(name, distribution)),
        }
        Ok(Box::new(StudySpec { space: Space::new(dimensions)?, ..self.spec.clone() }))
    }

    /// A value from a separate random stream.
    fn by_chance(&self, number: TrialNumber, name: &str, asked: &Distribution) -> Option<Value> {
        let space = Space::new(vec![Dimension::new(name, asked.clone())]).ok()?;
        let (nothing, trials) = (Params::new(), []);
        let ask = Ask {
            constraints: &[],
            earlier: &[],
            space: &space,
            history: History::of(&trials, self.state.direction()),
            number,
            place: number.0,
            fixed: &nothing,
            budget: None,
            max_resource: None,
            room: None,
            seeds: self.seeds,
        };
        let mut stream = self.seeds.stream(&format!("define/{number}/{name}"));
        let random = AlgorithmSpec::named("random");
        let random = (samplers::find(&random.name).ok()?.build)(&random, &space).ok()?;
        let drawn = random.suggest(&ask, &mut stream).ok()??;
        drawn.params.get(name).cloned()
    }

    /// Continues with a wider space.
    ///
    /// # Errors
    /// The sampler does not support it.
    pub fn widen(&mut self, spec: StudySpec) -> Result<(), EngineError> {
        self.sampler = (samplers::find(&spec.sampler.name)?.build)(&spec.sampler, &spec.space)?;
        self.proposals.exhausted = false;
        self.spec = spec;
        Ok(())
    }

    /// Records parameters of a running trial.
    pub fn record_params(
        &mut self,
        now: Timestamp,
        trial: TrialNumber,
        params: Params,
    ) -> Vec<Effect> {
        self.now = now;
        self.emit(Event::of(trial, RecordEvent::ParamsRecorded { params }));
        std::mem::take(&mut self.effects)
    }

    /// Records which parameters a running trial did not use.
    pub fn drop_params(
        &mut self,
        now: Timestamp,
        trial: TrialNumber,
        names: Vec<String>,
    ) -> Vec<Effect> {
        self.now = now;
        self.emit(Event::of(trial, RecordEvent::ParamsDropped { names }));
        std::mem::take(&mut self.effects)
    }
}

/// The narrowest distribution that contains both, if they are of one kind.
pub fn hull(known: &Distribution, asked: &Distribution) -> Option<Distribution> {
    let mut same = asked.clone();
    same.keep_rounding(known);
    if *known == same {
        return Some(same);
    }
    match (known, asked) {
        (
            Distribution::Float { low, high, scale, step: None, .. },
            Distribution::Float { low: least, high: most, scale: other, step: None, .. },
        ) if scale == other => {
            Distribution::float(low.min(*least), high.max(*most), *scale, None).ok()
        }
        (
            Distribution::Int { low, high, scale, step: 1 },
            Distribution::Int { low: least, high: most, scale: other, step: 1 },
        ) if scale == other => Distribution::int(*low.min(least), *high.max(most), *scale, 1).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::space::Scale;

    #[test]
    fn bounds_of_numbers_grow_and_nothing_else_changes() {
        let float = |low, high| Distribution::float(low, high, Scale::Linear, None).unwrap();
        let int = |low, high, step| Distribution::int(low, high, Scale::Linear, step).unwrap();
        assert_eq!(hull(&float(0.0, 1.0), &float(-1.0, 0.5)), Some(float(-1.0, 1.0)));
        assert_eq!(hull(&int(1, 3, 1), &int(2, 9, 1)), Some(int(1, 9, 1)));
        assert_eq!(hull(&int(0, 4, 2), &int(0, 4, 2)), Some(int(0, 4, 2)));
        assert_eq!(hull(&int(0, 4, 2), &int(0, 8, 2)), None);
        assert_eq!(hull(&int(0, 4, 1), &float(0.0, 4.0)), None);
    }
}
