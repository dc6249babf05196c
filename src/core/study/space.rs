//! The search space: dimensions in dependency order, some of them conditional.

mod cardinality;
pub mod distribution;
mod order;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::study::params::{Params, Value};
pub use distribution::{Distribution, DistributionError, Scale};
use order::{MOST_NESTED, check_nesting, check_references, order_by_dependency};

/// A parameter is active when each of these parents is active and has one of the values listed for
/// it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Condition(pub Vec<(String, Vec<Value>)>);

impl Condition {
    /// Whether the condition holds under `params`.
    pub fn holds(&self, params: &Params) -> bool {
        self.0.iter().all(|(parent, accepted)| {
            params.get(parent).is_some_and(|value| accepted.iter().any(|accept| accept.same(value)))
        })
    }
}

/// One searched parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    /// The parameter's name.
    pub name: String,
    /// Its values.
    pub distribution: Distribution,
    /// The value that the user expects to be best.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub prior: Option<Value>,
    /// When it is active; `None`: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
}

/// A value that is present, null included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The rule for names of parameters in study files, for error messages.
pub const NAME_RULE: &str = "names have letters, digits, `_`, `-` and `.`";

/// Whether commands and the environment can name a parameter so, by [`NAME_RULE`].
pub fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|char| char.is_alphanumeric() || "_-.".contains(char))
}

impl Dimension {
    /// Whether it can be null.
    pub fn is_nullable(&self) -> bool {
        matches!(
            &self.distribution,
            Distribution::Choice { choices } if choices.contains(&Value::Null)
        )
    }

    /// A parameter that is always active.
    pub fn new(name: impl Into<String>, distribution: Distribution) -> Self {
        Dimension { name: name.into(), distribution, prior: None, when: None }
    }

    /// Whether the parameter is active, given the values of its parents.
    pub fn is_active(&self, params: &Params) -> bool {
        self.when.as_ref().is_none_or(|condition| condition.holds(params))
    }
}

/// Why dimensions do not form a space.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpaceError {
    /// A name used twice.
    #[error("the parameter `{name}` is defined twice")]
    Twice {
        /// The name.
        name: String,
    },
    /// A condition on a name that is not in the space.
    #[error("`{name}` depends on `{parent}`, which is not in the space")]
    UnknownParent {
        /// The dependent parameter.
        name: String,
        /// The unknown parent.
        parent: String,
    },
    /// A condition that can never hold.
    #[error("`{name}` is active when `{parent}` is `{value}`, which is not one of its values")]
    ImpossibleParentValue {
        /// The dependent parameter.
        name: String,
        /// Its parent.
        parent: String,
        /// The value that the parent cannot take.
        value: Value,
    },
    /// Circular conditions.
    #[error("the conditions of {} form a circle", names.join(", "))]
    Circle {
        /// The parameters concerned.
        names: Vec<String>,
    },
    /// A longer chain of conditions than samplers support.
    #[error("the conditions are nested {depth} deep; {MOST_NESTED} can be followed at most")]
    Nested {
        /// The parameter at the end of the chain.
        name: String,
        /// Length of the chain.
        depth: usize,
    },
    /// A prior outside the range.
    #[error("the prior `{prior}` of `{name}` is not one of its values")]
    Prior {
        /// The parameter.
        name: String,
        /// The prior as given.
        prior: Value,
    },
}

/// Why parameters are not a valid configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PointError {
    /// An active parameter without a value.
    #[error("`{name}` has no value")]
    Missing {
        /// The parameter.
        name: String,
    },
    /// A value for a name the space does not have.
    #[error("`{name}` is not a parameter of the space")]
    Unknown {
        /// The name.
        name: String,
    },
    /// A value for a parameter whose condition does not hold.
    #[error("`{name}` has a value although its condition does not hold")]
    Inactive {
        /// The parameter.
        name: String,
    },
    /// A value outside the distribution.
    #[error("`{value}` is not a value of `{name}`")]
    Outside {
        /// The parameter.
        name: String,
        /// The value.
        value: Value,
    },
}

/// Dimensions with every parent before its children.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Dimension>", into = "Vec<Dimension>")]
pub struct Space {
    dimensions: Vec<Dimension>,
    /// The places of the dimensions, in the order of their names.
    by_name: Vec<usize>,
}

impl TryFrom<Vec<Dimension>> for Space {
    type Error = SpaceError;

    fn try_from(dimensions: Vec<Dimension>) -> Result<Self, SpaceError> {
        Space::new(dimensions)
    }
}

impl From<Space> for Vec<Dimension> {
    fn from(space: Space) -> Self {
        space.dimensions
    }
}

impl Space {
    /// Checks the dimensions and sorts parents before children (otherwise keeps the order given).
    pub fn new(dimensions: Vec<Dimension>) -> Result<Self, SpaceError> {
        let mut known = BTreeMap::new();
        for dimension in &dimensions {
            if known.insert(dimension.name.as_str(), dimension).is_some() {
                return Err(SpaceError::Twice { name: dimension.name.clone() });
            }
        }
        for dimension in &dimensions {
            check_references(dimension, &known)?;
        }
        let dimensions = order_by_dependency(dimensions)?;
        check_nesting(&dimensions)?;
        let mut by_name: Vec<usize> = (0..dimensions.len()).collect();
        by_name.sort_by(|one, other| dimensions[*one].name.cmp(&dimensions[*other].name));
        Ok(Space { dimensions, by_name })
    }

    /// All dimensions, parents first.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// The dimension called `name`.
    pub fn dimension(&self, name: &str) -> Option<&Dimension> {
        let place =
            self.by_name.binary_search_by(|place| self.dimensions[*place].name.as_str().cmp(name));
        place.ok().map(|place| &self.dimensions[self.by_name[place]])
    }

    /// Gives each grid the rounding that it has in a stored space.
    pub fn keep_rounding(&mut self, known: &Space) {
        for dimension in &mut self.dimensions {
            if let Some(known) = known.dimension(&dimension.name) {
                dimension.distribution.keep_rounding(&known.distribution);
            }
        }
    }

    /// Whether there is nothing to search.
    pub fn is_empty(&self) -> bool {
        self.dimensions.is_empty()
    }

    /// Whether any parameter is conditional.
    pub fn is_conditional(&self) -> bool {
        self.dimensions.iter().any(|dimension| dimension.when.is_some())
    }

    /// Builds a point by asking for a value of each active parameter, parents first. `fixed` values
    /// are taken as they are where their parameter is active.
    pub fn assemble<E>(
        &self,
        fixed: &Params,
        mut value: impl FnMut(&Dimension, &Params) -> Result<Value, E>,
    ) -> Result<Params, E> {
        let mut params = Params::new();
        for dimension in &self.dimensions {
            if !dimension.is_active(&params) {
                continue;
            }
            let chosen = match fixed
                .get(&dimension.name)
                .and_then(|given| dimension.distribution.normalize(given))
            {
                Some(given) => given,
                None => value(dimension, &params)?,
            };
            params.insert(dimension.name.clone(), chosen);
        }
        Ok(params)
    }

    /// Point `index` of a sequence spread evenly over the space, with the `fixed` values: an
    /// additive recurrence with another irrational step in each dimension. The first is the middle.
    pub fn spread(&self, fixed: &Params, index: u32) -> Params {
        let mut dimension = 0u32;
        let Ok(point) = self.assemble::<std::convert::Infallible>(fixed, |searched, _| {
            dimension += 1;
            let step =
                (f64::from(dimension) * 0.618_033_988_749_894_9 + 0.414_213_562_373_095_05).fract();
            Ok(searched.distribution.from_unit((f64::from(index) * step + 0.5).fract()))
        });
        point
    }

    /// Checks that `params` is a point of this space: exactly the active parameters, each inside
    /// its range.
    pub fn check(&self, params: &Params) -> Result<(), PointError> {
        for (name, value) in params.iter() {
            let Some(dimension) = self.dimension(name) else {
                return Err(PointError::Unknown { name: name.to_owned() });
            };
            if !dimension.is_active(params) {
                return Err(PointError::Inactive { name: name.to_owned() });
            }
            if !dimension.distribution.contains(value) {
                return Err(PointError::Outside { name: name.to_owned(), value: value.clone() });
            }
        }
        match self
            .dimensions
            .iter()
            .find(|dimension| dimension.is_active(params) && params.get(&dimension.name).is_none())
        {
            Some(dimension) => Err(PointError::Missing { name: dimension.name.clone() }),
            None => Ok(()),
        }
    }

    /// The reasons why `fixed` cannot be part of a point: unknown names, values outside their
    /// ranges, and values of parameters that the others deactivate.
    pub fn problems(&self, fixed: &Params) -> Vec<PointError> {
        let mut problems = Vec::new();
        for (name, value) in fixed.iter() {
            let Some(dimension) = self.dimension(name) else {
                problems.push(PointError::Unknown { name: name.to_owned() });
                continue;
            };
            if dimension.distribution.normalize(value).is_none() {
                problems.push(PointError::Outside { name: name.to_owned(), value: value.clone() });
            }
            if !self.may_be_active(dimension, fixed) {
                problems.push(PointError::Inactive { name: name.to_owned() });
            }
        }
        problems
    }

    /// Whether some point with the values of `fixed` has the parameter: its parents have, or may be
    /// given, the values that its condition names.
    fn may_be_active(&self, dimension: &Dimension, fixed: &Params) -> bool {
        dimension.when.iter().flat_map(|when| &when.0).all(|(parent, accepted)| {
            let value_fits = fixed
                .get(parent)
                .is_none_or(|value| accepted.iter().any(|accept| accept.same(value)));
            value_fits
                && self.dimension(parent).is_some_and(|parent| self.may_be_active(parent, fixed))
        })
    }
}

#[cfg(test)]
mod tests;
