//! How many points a space has.

use std::collections::BTreeMap;

use super::{Dimension, Space};
use crate::study::params::{Params, Value};

/// Most combinations of parents' values that are distinguished to count a space.
const MOST_COUNTS: usize = 10_000;

impl Space {
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
