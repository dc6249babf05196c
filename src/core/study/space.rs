//! The search space: dimensions in dependency order, some of them conditional.

pub mod distribution;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};

use crate::study::params::{Params, Value};
pub use distribution::{Distribution, DistributionError, Scale};

/// Longest chain of dependent parameters, which samplers walk recursively.
const MOST_NESTED: usize = 100;

/// Most combinations of parents' values that are distinguished to count a space.
const MOST_COUNTS: usize = 10_000;

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

    /// The number of points, conditions respected; `None` for a continuum, for more than fit in a
    /// `u64`, and where too many combinations of conditions would have to be counted.
    pub fn cardinality(&self) -> Option<u64> {
        self.count_from(0, Params::new(), &mut BTreeMap::new())
    }

    /// The points of the dimensions from `start` on, where `params` has the earlier values that
    /// their conditions name. `known` caches counts: of thirty flags with a parameter each, every
    /// one is counted twice instead of 2^30 times.
    fn count_from(
        &self,
        start: usize,
        params: Params,
        known: &mut BTreeMap<(usize, String), Option<u64>>,
    ) -> Option<u64> {
        let key = (start, params.to_string());
        if let Some(count) = known.get(&key) {
            return *count;
        }
        let count =
            if known.len() < MOST_COUNTS { self.count_active(start, &params, known) } else { None };
        known.insert(key, count);
        count
    }

    fn count_active(
        &self,
        start: usize,
        params: &Params,
        known: &mut BTreeMap<(usize, String), Option<u64>>,
    ) -> Option<u64> {
        let mut points = 1u64;
        for (index, dimension) in self.dimensions.iter().enumerate().skip(start) {
            if !dimension.is_active(params) {
                continue;
            }
            let values = dimension.distribution.cardinality()?;
            let named = self.named_from(index + 1, dimension);
            if !named.is_empty() {
                return points.checked_mul(self.count_branches(index, &named, params, known)?);
            }
            points = points.checked_mul(values)?;
        }
        Some(points)
    }

    /// Values of `dimension` that conditions of the dimensions from `start` on name: only these
    /// distinguish points there; all others are equivalent.
    fn named_from(&self, start: usize, dimension: &Dimension) -> Vec<Value> {
        let conditions = self.dimensions[start..]
            .iter()
            .flat_map(|child| child.when.iter().flat_map(|when| &when.0));
        let mut named: Vec<Value> = Vec::new();
        for value in conditions
            .filter(|(parent, _)| *parent == dimension.name)
            .flat_map(|(_, values)| values)
        {
            let value = dimension.distribution.normalize(value);
            named.extend(value.filter(|value| !named.iter().any(|known| known.same(value))));
        }
        named
    }

    fn count_branches(
        &self,
        index: usize,
        named: &[Value],
        params: &Params,
        known: &mut BTreeMap<(usize, String), Option<u64>>,
    ) -> Option<u64> {
        let dimension = &self.dimensions[index];
        let count = dimension.distribution.cardinality()?;
        let later = &self.dimensions[index + 1..];
        let is_asked_for = |name: &str| {
            later
                .iter()
                .flat_map(|child| &child.when)
                .flat_map(|when| &when.0)
                .any(|(parent, _)| parent == name)
        };
        let kept: Params = params
            .iter()
            .filter(|(name, _)| is_asked_for(name))
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        let mut with = |value: Value| {
            let mut with = kept.clone();
            with.insert(dimension.name.clone(), value);
            self.count_from(index + 1, with, known)
        };
        let others = count - (named.len() as u64).min(count);
        let mut total = 0u64;
        if others > 0 {
            let mut values = (0..count).filter_map(|nth| dimension.distribution.nth(nth));
            let other = values.find(|value| !named.iter().any(|known| known.same(value)))?;
            total = others.checked_mul(with(other)?)?;
        }
        for value in named {
            total = total.checked_add(with(value.clone())?)?;
        }
        Some(total)
    }
}

/// Rejects chains of conditions longer than [`MOST_NESTED`]. Parents come before their children.
fn check_nesting(dimensions: &[Dimension]) -> Result<(), SpaceError> {
    let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
    for dimension in dimensions {
        let parents = dimension.when.iter().flat_map(|when| &when.0);
        let above = parents
            .filter_map(|(parent, _)| depths.get(parent.as_str()))
            .max()
            .copied()
            .unwrap_or(0);
        depths.insert(&dimension.name, above + 1);
    }
    match depths.into_iter().max_by_key(|(_, depth)| *depth) {
        Some((name, depth)) if depth > MOST_NESTED => {
            Err(SpaceError::Nested { name: name.to_owned(), depth })
        }
        _ => Ok(()),
    }
}

fn check_references(
    dimension: &Dimension,
    all: &BTreeMap<&str, &Dimension>,
) -> Result<(), SpaceError> {
    let name = dimension.name.clone();
    if let Some(prior) = &dimension.prior
        && !dimension.distribution.contains(prior)
    {
        return Err(SpaceError::Prior { name, prior: prior.clone() });
    }
    for (parent, values) in dimension.when.iter().flat_map(|when| &when.0) {
        let Some(found) = all.get(parent.as_str()) else {
            return Err(SpaceError::UnknownParent { name, parent: parent.clone() });
        };
        if let Some(value) = values.iter().find(|value| !found.distribution.contains(value)) {
            return Err(SpaceError::ImpossibleParentValue {
                name,
                parent: parent.clone(),
                value: value.clone(),
            });
        }
    }
    Ok(())
}

/// Again and again the first dimension whose parents are placed; all parents exist.
fn order_by_dependency(given: Vec<Dimension>) -> Result<Vec<Dimension>, SpaceError> {
    let places: BTreeMap<String, usize> =
        given.iter().enumerate().map(|(place, one)| (one.name.clone(), place)).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); given.len()];
    let mut missing = vec![0usize; given.len()];
    for (place, dimension) in given.iter().enumerate() {
        for (parent, _) in dimension.when.iter().flat_map(|when| &when.0) {
            missing[place] += 1;
            if let Some(parent) = places.get(parent) {
                children[*parent].push(place);
            }
        }
    }
    let mut ready: BTreeSet<usize> =
        (0..given.len()).filter(|place| missing[*place] == 0).collect();
    let mut waiting: Vec<Option<Dimension>> = given.into_iter().map(Some).collect();
    let mut ordered: Vec<Dimension> = Vec::with_capacity(waiting.len());
    while let Some(place) = ready.pop_first() {
        ordered.extend(waiting[place].take());
        for child in &children[place] {
            missing[*child] -= 1;
            if missing[*child] == 0 {
                ready.insert(*child);
            }
        }
    }
    if ordered.len() < waiting.len() {
        let names = waiting.into_iter().flatten().map(|dimension| dimension.name).collect();
        return Err(SpaceError::Circle { names });
    }
    Ok(ordered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dimension(
        name: &str,
        distribution: Distribution,
        when: Option<(&str, Vec<Value>)>,
    ) -> Dimension {
        let when = when.map(|(parent, values)| Condition(vec![(parent.into(), values)]));
        Dimension { when, ..Dimension::new(name, distribution) }
    }

    fn int(low: i64, high: i64) -> Distribution {
        Distribution::int(low, high, Scale::Linear, 1).unwrap()
    }

    fn choice(choices: [&str; 2]) -> Distribution {
        Distribution::choice(choices.map(Value::from).into()).unwrap()
    }

    fn optimizer_space() -> Space {
        let momentum = Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap();
        Space::new(vec![
            dimension("momentum", momentum, Some(("optim", vec!["sgd".into()]))),
            dimension("optim", choice(["sgd", "adamw"]), None),
        ])
        .unwrap()
    }

    #[test]
    fn parents_come_before_children_whatever_the_order_given() {
        let names: Vec<_> =
            optimizer_space().dimensions().iter().map(|dimension| dimension.name.clone()).collect();
        assert_eq!(names, ["optim", "momentum"]);
    }

    #[test]
    fn a_point_holds_exactly_the_active_parameters() {
        let space = optimizer_space();
        let mut params = Params::new();
        params.insert("optim", "sgd");
        assert_eq!(space.check(&params), Err(PointError::Missing { name: "momentum".into() }));
        params.insert("momentum", 0.9);
        assert_eq!(space.check(&params), Ok(()));
        params.insert("optim", "adamw");
        assert_eq!(space.check(&params), Err(PointError::Inactive { name: "momentum".into() }));
    }

    #[test]
    fn all_that_is_wrong_with_a_part_of_a_point_is_found() {
        let space = optimizer_space();
        let params = |pairs: &[(&str, Value)]| -> Params {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
        };
        assert_eq!(space.problems(&params(&[("momentum", 0.5.into())])), []);
        assert_eq!(
            space.problems(&params(&[("optim", "sgd".into()), ("momentum", Value::Int(1))])),
            []
        );
        let wrong =
            params(&[("optim", "adamw".into()), ("momentum", 7.0.into()), ("rate", 1.0.into())]);
        let texts: Vec<String> = space.problems(&wrong).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "`7` is not a value of `momentum`",
                "`momentum` has a value although its condition does not hold",
                "`rate` is not a parameter of the space",
            ]
        );
    }

    #[test]
    fn circles_and_impossible_conditions_are_refused() {
        let choice = || choice(["a", "b"]);
        let circle = Space::new(vec![
            dimension("x", choice(), Some(("y", vec!["a".into()]))),
            dimension("y", choice(), Some(("x", vec!["a".into()]))),
        ]);
        assert!(matches!(circle, Err(SpaceError::Circle { .. })));
        let impossible = Space::new(vec![
            dimension("x", choice(), None),
            dimension("y", choice(), Some(("x", vec!["c".into()]))),
        ]);
        assert!(matches!(impossible, Err(SpaceError::ImpossibleParentValue { .. })));
    }

    #[test]
    fn the_number_of_points_respects_conditions() {
        let space = Space::new(vec![
            dimension("optim", choice(["sgd", "adamw"]), None),
            dimension("momentum", int(0, 2), Some(("optim", vec!["sgd".into()]))),
            dimension("layers", int(1, 4), None),
        ]);
        assert_eq!(space.unwrap().cardinality(), Some((3 + 1) * 4));
    }

    #[test]
    fn wide_parents_are_counted_without_going_through_their_values() {
        let space = Space::new(vec![
            dimension("wide", int(1, 4_000_000_000), None),
            dimension("child", int(1, 3), Some(("wide", vec![Value::Int(7)]))),
        ]);
        assert_eq!(space.unwrap().cardinality(), Some(4_000_000_000 - 1 + 3));
    }

    #[test]
    fn a_space_round_trips_through_json() {
        let space = optimizer_space();
        let text = serde_json::to_string(&space).unwrap();
        assert_eq!(serde_json::from_str::<Space>(&text).unwrap(), space);
    }

    /// A flag, active when another is on.
    fn flag(name: &str, when: Option<&str>) -> Dimension {
        dimension(name, int(0, 1), when.map(|parent| (parent, vec![1i64.into()])))
    }

    fn chain(length: usize) -> Result<Space, SpaceError> {
        let parameter = |index: usize| match index {
            0 => flag("p0", None),
            _ => flag(&format!("p{index}"), Some(&format!("p{}", index - 1))),
        };
        Space::new((0..length).map(parameter).collect())
    }

    #[test]
    fn a_hundred_conditions_in_a_row_are_a_space_and_more_are_not() {
        assert_eq!(chain(100).unwrap().cardinality(), Some(101));
        assert_eq!(chain(1000), Err(SpaceError::Nested { name: "p999".to_owned(), depth: 1000 }));
    }

    #[test]
    fn thirty_flags_with_a_parameter_each_are_counted_at_once() {
        let pairs = (0..30).flat_map(|index| {
            let (name, child) = (format!("flag{index}"), format!("with{index}"));
            [flag(&name, None), flag(&child, Some(&name))]
        });
        assert_eq!(Space::new(pairs.collect()).unwrap().cardinality(), Some(3u64.pow(30)));
    }

    #[test]
    fn a_space_that_would_take_ages_to_count_is_given_up() {
        let flags = (0..30).map(|index| flag(&format!("flag{index}"), None));
        let others =
            (0..30).map(|index| flag(&format!("with{index}"), Some(&format!("flag{index}"))));
        assert_eq!(Space::new(flags.chain(others).collect()).unwrap().cardinality(), None);
    }

    #[test]
    fn a_space_of_many_parameters_keeps_their_order_and_finds_each_by_its_name() {
        let int = || Distribution::int(0, 1, Scale::Linear, 1).unwrap();
        let when = |parent: String| Some(Condition(vec![(parent, vec![1i64.into()])]));
        let many: u32 = 50_000;
        let dimensions = (0..many).map(|index| Dimension {
            when: (index % 2 == 0).then(|| when(format!("p{}", index + 1))).flatten(),
            ..Dimension::new(format!("p{index}"), int())
        });
        let space = Space::new(dimensions.collect()).unwrap();
        let names: Vec<&str> =
            space.dimensions()[..4].iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["p1", "p0", "p3", "p2"], "a child as soon as its parent is there");
        for index in 0..many {
            let name = format!("p{index}");
            assert_eq!(space.dimension(&name).map(|one| &one.name), Some(&name));
        }
        assert_eq!(space.dimension("q"), None);
    }
}
