//! The order of dimensions, parents before children, where their conditions allow one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Dimension, SpaceError};

/// Longest chain of dependent parameters, which samplers walk recursively.
pub(super) const MOST_NESTED: usize = 100;

/// Again and again the first dimension whose parents are placed; all parents exist.
pub(super) fn order_by_dependency(given: Vec<Dimension>) -> Result<Vec<Dimension>, SpaceError> {
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

/// Rejects chains of conditions longer than [`MOST_NESTED`]. Parents come before their children.
pub(super) fn check_nesting(dimensions: &[Dimension]) -> Result<(), SpaceError> {
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

/// Rejects a prior outside its range, and conditions on what `all` lacks.
pub(super) fn check_references(
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
