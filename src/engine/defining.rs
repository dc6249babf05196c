//! Parameters that a program names while its trial runs: the space grows by them, and the trial
//! gets a value.

use super::{Effect, Engine, EngineError};
use crate::samplers::{self, Ask};
use crate::study::event::{Event, TrialEvent};
use crate::study::history::History;
use crate::study::params::{Params, Value};
use crate::study::space::{Dimension, Distribution, Scale, Space, SpaceError};
use crate::study::spec::{AlgorithmSpec, StudySpec};
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, TrialNumber, TrialState};

/// A parameter of a running trial.
pub struct Defined {
    /// The trial's value.
    pub value: Value,
    /// Whether the trial had another one, or none.
    pub is_new: bool,
    /// The specification with the parameter, where its space lacks it or is narrower.
    pub widened: Option<Box<StudySpec>>,
}

/// Why a parameter cannot be added to a trial.
#[derive(Debug, thiserror::Error)]
pub enum DefineError {
    /// It is not running.
    #[error("trial {number} is not out: parameters are added while it runs")]
    NotOut {
        /// Its number.
        number: TrialNumber,
    },
    /// The space has a parameter of this name that is not only narrower.
    #[error(
        "parameter `{name}` is {known} in this study, and cannot become {asked}: only the bounds \
         of numbers without a step may change"
    )]
    Other {
        /// Its name.
        name: String,
        /// As the space has it.
        known: String,
        /// As it was asked for.
        asked: String,
    },
    /// The value that was given does not fit.
    #[error("parameter `{name}`: {value} is outside of {asked}")]
    Outside {
        /// Its name.
        name: String,
        /// The value.
        value: Value,
        /// What it may be.
        asked: String,
    },
    /// The value that was enqueued for a new parameter can be none.
    #[error("parameter `{name}` cannot be {value}")]
    NoParameter {
        /// Its name.
        name: String,
        /// The value.
        value: Value,
    },
    /// The space cannot have it.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// It cannot be drawn.
    #[error("parameter `{name}` cannot be drawn")]
    Draw {
        /// Its name.
        name: String,
    },
}

impl Engine {
    /// The value of a parameter that a running trial asks for: its own if it lies within `asked`,
    /// else one by chance. Nothing changes here.
    ///
    /// # Errors
    /// The trial is not out, or the parameter does not fit the space.
    pub fn defined(
        &self,
        number: TrialNumber,
        name: &str,
        asked: &Distribution,
        given: Option<&Value>,
    ) -> Result<Defined, DefineError> {
        let trial = self.view.trial(number).filter(|trial| trial.state == TrialState::Running);
        let trial = trial.ok_or(DefineError::NotOut { number })?;
        let known = self.spec.space.dimension(name).map(|dimension| &dimension.distribution);
        let wide = match known {
            None => asked.clone(),
            Some(known) => hull(known, asked).ok_or_else(|| DefineError::Other {
                name: name.to_owned(),
                known: known.to_string(),
                asked: asked.to_string(),
            })?,
        };
        let widened = if known == Some(&wide) { None } else { Some(self.with(name, wide)?) };
        let own = trial.params.get(name);
        // A parameter that only enqueued configurations have named so far has their one value:
        // whoever did not enqueue it had no choice.
        let is_provisional = widened.is_some() && known.is_some_and(has_one_value);
        let is_chosen = !is_provisional || trial.origin == Origin::Asked;
        let value = match (given, own.and_then(|own| asked.normalize(own))) {
            (Some(given), _) => asked.normalize(given).ok_or_else(|| DefineError::Outside {
                name: name.to_owned(),
                value: given.clone(),
                asked: asked.to_string(),
            })?,
            (None, Some(own)) if is_chosen => own,
            (None, _) => self
                .by_chance(number, name, asked)
                .ok_or_else(|| DefineError::Draw { name: name.to_owned() })?,
        };
        // The index of a choice is another one in a wider list.
        Ok(Defined { is_new: own != Some(&value) || is_provisional, value, widened })
    }

    /// The specification with the parameters of an enqueued configuration that its space lacks,
    /// each with this one value until a trial asks for it; `None` if it lacks none.
    ///
    /// # Errors
    /// The space cannot have them.
    pub fn with_parameters_of(
        &self,
        params: &Params,
    ) -> Result<Option<Box<StudySpec>>, DefineError> {
        let mut dimensions = self.spec.space.dimensions().to_vec();
        let known = dimensions.len();
        for (name, value) in params.iter() {
            if self.spec.space.dimension(name).is_none() {
                let only = only(value).ok_or_else(|| DefineError::NoParameter {
                    name: name.to_owned(),
                    value: value.clone(),
                })?;
                dimensions.push(Dimension::new(name, only));
            }
        }
        if dimensions.len() == known {
            return Ok(None);
        }
        let space = Space::new(dimensions)?;
        Ok(Some(Box::new(StudySpec { space, ..self.spec.clone() })))
    }

    /// The specification with a parameter, in the place of one of the same name.
    fn with(&self, name: &str, distribution: Distribution) -> Result<Box<StudySpec>, SpaceError> {
        let mut dimensions = self.spec.space.dimensions().to_vec();
        match dimensions.iter_mut().find(|dimension| dimension.name == name) {
            Some(dimension) => dimension.distribution = distribution,
            None => dimensions.push(Dimension::new(name, distribution)),
        }
        Ok(Box::new(StudySpec { space: Space::new(dimensions)?, ..self.spec.clone() }))
    }

    /// A value from a stream of its own: no other draw depends on it.
    fn by_chance(&self, number: TrialNumber, name: &str, asked: &Distribution) -> Option<Value> {
        let space = Space::new(vec![Dimension::new(name, asked.clone())]).ok()?;
        let (nothing, trials) = (Params::new(), []);
        let ask = Ask {
            constraints: &[],
            earlier: &[],
            space: &space,
            history: History::of(&trials, self.view.direction()),
            number,
            fixed: &nothing,
            budget: None,
            room: None,
            seeds: self.seeds,
        };
        let mut stream = self.seeds.stream(&format!("define/{number}/{name}"));
        let random = AlgorithmSpec::named("random");
        let random = (samplers::find(&random.name).ok()?.build)(&random, &space).ok()?;
        let drawn = random.suggest(&ask, &mut stream).ok()??;
        drawn.get(name).cloned()
    }

    /// Goes on with a wider space.
    ///
    /// # Errors
    /// The sampler does not fit it.
    pub fn widen(&mut self, spec: StudySpec) -> Result<(), EngineError> {
        self.sampler = (samplers::find(&spec.sampler.name)?.build)(&spec.sampler, &spec.space)?;
        self.proposals.exhausted = false;
        self.spec = spec;
        Ok(())
    }

    /// Takes down parameters of a trial that is out.
    pub fn record_params(
        &mut self,
        now: Timestamp,
        trial: TrialNumber,
        params: Params,
    ) -> Vec<Effect> {
        self.now = now;
        self.emit(Event::Trial(trial, TrialEvent::ParamsRecorded { params }));
        std::mem::take(&mut self.effects)
    }

    /// Takes down which parameters a trial that is out did not ask for.
    pub fn drop_params(
        &mut self,
        now: Timestamp,
        trial: TrialNumber,
        names: Vec<String>,
    ) -> Vec<Effect> {
        self.now = now;
        self.emit(Event::Trial(trial, TrialEvent::ParamsDropped { names }));
        std::mem::take(&mut self.effects)
    }
}

/// The distribution of one value.
fn only(value: &Value) -> Option<Distribution> {
    match value {
        Value::Float(value) => Distribution::float(*value, *value, Scale::Linear, None),
        Value::Int(value) => Distribution::int(*value, *value, Scale::Linear, 1),
        other => Distribution::choice(vec![other.clone()]),
    }
    .ok()
}

fn has_one_value(distribution: &Distribution) -> bool {
    distribution.cardinality() == Some(1)
}

/// The narrowest distribution with the values of both, if there is one of their kind. What has one
/// value only becomes whatever has it, too.
pub fn hull(known: &Distribution, asked: &Distribution) -> Option<Distribution> {
    if known == asked {
        return Some(known.clone());
    }
    let value = known.nth(0).filter(|_| has_one_value(known));
    if value.is_some_and(|value| asked.contains(&value)) {
        return Some(asked.clone());
    }
    match (known, asked) {
        (
            Distribution::Float { low, high, scale, step: None },
            Distribution::Float { low: least, high: most, scale: other, step: None },
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

    #[test]
    fn bounds_of_numbers_grow_and_nothing_else_changes() {
        let float = |low, high| Distribution::float(low, high, Scale::Linear, None).unwrap();
        let int = |low, high, step| Distribution::int(low, high, Scale::Linear, step).unwrap();
        assert_eq!(hull(&float(0.0, 1.0), &float(-1.0, 0.5)), Some(float(-1.0, 1.0)));
        assert_eq!(hull(&int(1, 3, 1), &int(2, 9, 1)), Some(int(1, 9, 1)));
        assert_eq!(hull(&int(0, 4, 2), &int(0, 4, 2)), Some(int(0, 4, 2)));
        assert_eq!(hull(&int(0, 4, 2), &int(0, 8, 2)), None);
        assert_eq!(hull(&int(0, 4, 1), &float(0.0, 4.0)), None);
        // One value, as an enqueued configuration leaves it.
        let log = Distribution::float(1.0, 9.0, Scale::Log, None).unwrap();
        assert_eq!(hull(&int(4, 4, 1), &float(0.0, 4.0)), Some(float(0.0, 4.0)));
        assert_eq!(hull(&float(4.0, 4.0), &log), Some(log));
        let choice = |of: &[&str]| {
            Distribution::choice(of.iter().map(|text| Value::from(*text)).collect()).unwrap()
        };
        assert_eq!(hull(&choice(&["b"]), &choice(&["a", "b"])), Some(choice(&["a", "b"])));
        assert_eq!(hull(&choice(&["c"]), &choice(&["a", "b"])), None);
    }
}
