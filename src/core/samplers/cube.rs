//! A space as axes of the unit cube, for samplers that compute distances: numbers on `[0, 1]`,
//! choices by index.

use std::collections::HashMap;

use rand::RngExt as _;

use super::Ask;
use crate::study::params::{Params, Value};
use crate::study::seed::StreamRng;
use crate::study::space::{Dimension, Distribution, Scale, Space};

/// Position of an axis that is inactive in a point.
pub(super) const INACTIVE: f64 = f64::NAN;

/// A point: one position per axis, [`INACTIVE`] where the axis is inactive.
pub(super) type Point = Vec<f64>;

/// The axes of a space, parents first.
#[derive(Debug)]
pub(super) struct Cube {
    /// In the order of the space.
    pub axes: Vec<Axis>,
    /// Indices of the axes in the order of their names, which is that of `Params`.
    by_name: Vec<usize>,
}

/// One dimension of the cube.
#[derive(Debug)]
pub(super) struct Axis {
    name: String,
    /// How positions are laid out.
    pub kind: AxisKind,
    distribution: Distribution,
    /// Parents by index, each with the positions that activate this axis.
    parents: Vec<(usize, Vec<f64>)>,
    /// Index of each choice, for lists too long for a linear search.
    indices: HashMap<ChoiceKey, usize>,
}

/// How positions are laid out on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AxisKind {
    /// One value.
    Single,
    /// A continuum.
    Continuous,
    /// This number of equal cells; a position is the middle of one.
    Cells(f64),
    /// Integers on a log axis from `low - 1/2`, whose logarithm is `bottom`, over `width` in
    /// the logarithm.
    LogCells {
        /// Logarithm of the lower end.
        bottom: f64,
        /// Length in the logarithm.
        width: f64,
    },
    /// Positions are indices of this many choices.
    Choice(usize),
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum ChoiceKey {
    Bool(bool),
    Number(u64),
    Text(String),
    List(Vec<ChoiceKey>),
    Null,
}

impl ChoiceKey {
    fn of(value: &Value) -> Self {
        match (value, value.as_number()) {
            // `1` and `1.0` are the same choice, and so are `0.0` and `-0.0`.
            (_, Some(number)) => ChoiceKey::Number((number + 0.0).to_bits()),
            (Value::Bool(flag), _) => ChoiceKey::Bool(*flag),
            (Value::List(list), _) => ChoiceKey::List(list.iter().map(ChoiceKey::of).collect()),
            (Value::Null, _) => ChoiceKey::Null,
            (other, _) => ChoiceKey::Text(other.to_string()),
        }
    }
}

/// Lists up to this long are searched linearly.
const SHORT_LIST: usize = 16;

impl Cube {
    /// The cube of a space.
    pub fn new(space: &Space) -> Self {
        let mut axes: Vec<Axis> = Vec::with_capacity(space.dimensions().len());
        for dimension in space.dimensions() {
            let axis = Axis::new(dimension, &axes);
            axes.push(axis);
        }
        let mut by_name: Vec<usize> = (0..axes.len()).collect();
        by_name.sort_by(|a, b| axes[*a].name.cmp(&axes[*b].name));
        Cube { axes, by_name }
    }

    /// The point of `params`. Axes whose value is not in the space are inactive.
    pub fn encode(&self, params: &Params) -> Point {
        let mut point = vec![INACTIVE; self.axes.len()];
        let mut names = self.by_name.iter().copied().peekable();
        for (name, value) in params.iter() {
            while names.next_if(|index| self.axes[*index].name.as_str() < name).is_some() {}
            if let Some(index) = names.next_if(|index| self.axes[*index].name == name) {
                point[index] = self.axes[index].position(value);
            }
        }
        point
    }

    /// The parameters of a point; fixed values are kept as they are.
    pub fn decode(&self, point: &[f64], ask: &Ask<'_>) -> Params {
        ask.assemble(ask.fixed, |dimension| {
            let axis = self.axes.iter().zip(point).find(|(axis, _)| axis.name == dimension.name);
            match axis {
                Some((axis, position)) => axis.value(*position),
                None => dimension.distribution.from_unit(0.5),
            }
        })
    }

    /// Builds a point, parents first: calls `position` for every active axis that `fixed` leaves
    /// open.
    pub fn walk(&self, fixed: &[f64], mut position: impl FnMut(usize) -> f64) -> Point {
        let mut point = vec![INACTIVE; self.axes.len()];
        for (index, axis) in self.axes.iter().enumerate() {
            if axis.is_active(&point) {
                point[index] =
                    if fixed[index].is_nan() { axis.snap(position(index)) } else { fixed[index] };
            }
        }
        point
    }
}

impl Axis {
    #[expect(
        clippy::cast_precision_loss,
        reason = "cells of an axis; beyond 2^53 of them a cell is a point"
    )]
    fn new(dimension: &Dimension, earlier: &[Axis]) -> Self {
        let distribution = &dimension.distribution;
        let kind = match distribution {
            _ if distribution.cardinality() == Some(1) => AxisKind::Single,
            Distribution::Choice { choices } => AxisKind::Choice(choices.len()),
            Distribution::Int { low, high, scale: Scale::Log, .. } => {
                let (bottom, top) = ((*low as f64 - 0.5).ln(), (*high as f64 + 0.5).ln());
                AxisKind::LogCells { bottom, width: top - bottom }
            }
            _ => distribution
                .cardinality()
                .map_or(AxisKind::Continuous, |count| AxisKind::Cells(count as f64)),
        };
        let indices = match distribution {
            Distribution::Choice { choices } if choices.len() > SHORT_LIST => choices
                .iter()
                .enumerate()
                .map(|(index, choice)| (ChoiceKey::of(choice), index))
                .collect(),
            _ => HashMap::new(),
        };
        let parents =
            dimension.when.iter().flat_map(|when| &when.0).filter_map(|(parent, values)| {
                let index = earlier.iter().position(|axis| axis.name == *parent)?;
                Some((index, values.iter().map(|value| earlier[index].position(value)).collect()))
            });
        Axis {
            name: dimension.name.clone(),
            kind,
            distribution: distribution.clone(),
            parents: parents.collect(),
            indices,
        }
    }

    /// Whether the axis is active, given the earlier positions.
    pub fn is_active(&self, point: &[f64]) -> bool {
        self.parents.iter().all(|(parent, accepted)| accepted.contains(&point[*parent]))
    }

    /// Whether the axis is active in every point.
    pub fn is_always_active(&self) -> bool {
        self.parents.is_empty()
    }

    /// The position of a value; [`INACTIVE`] if the axis does not have it.
    #[expect(clippy::cast_precision_loss, reason = "an index of a list")]
    pub fn position(&self, value: &Value) -> f64 {
        match (&self.distribution, self.kind) {
            (_, AxisKind::Single) if self.distribution.contains(value) => 0.5,
            (_, AxisKind::Single) => INACTIVE,
            (Distribution::Choice { .. }, _) if !self.indices.is_empty() => {
                self.indices.get(&ChoiceKey::of(value)).map_or(INACTIVE, |index| *index as f64)
            }
            (Distribution::Choice { .. }, _) => {
                self.distribution.to_internal(value).unwrap_or(INACTIVE)
            }
            (distribution, _) => distribution.to_unit(value).unwrap_or(INACTIVE),
        }
    }

    /// The value at a position.
    fn value(&self, position: f64) -> Value {
        value_at(&self.distribution, position)
    }

    /// Snaps a position to that of a value.
    pub fn snap(&self, position: f64) -> f64 {
        match self.kind {
            AxisKind::Single => 0.5,
            AxisKind::Continuous => position.clamp(0.0, 1.0),
            AxisKind::Cells(count) => {
                ((position * count).floor().clamp(0.0, count - 1.0) + 0.5) / count
            }
            AxisKind::LogCells { bottom, width } => {
                let value = self.value(position).as_number().unwrap_or(1.0);
                (value.ln() - bottom) / width
            }
            AxisKind::Choice(_) => position,
        }
    }

    /// The bounds of the cell around a position; `None` on a continuous axis.
    pub fn cell(&self, position: f64) -> Option<(f64, f64)> {
        match self.kind {
            AxisKind::Cells(count) => Some((position - 0.5 / count, position + 0.5 / count)),
            AxisKind::LogCells { bottom, width } => {
                let value = (bottom + position * width).exp().round();
                Some((((value - 0.5).ln() - bottom) / width, ((value + 0.5).ln() - bottom) / width))
            }
            AxisKind::Single | AxisKind::Continuous | AxisKind::Choice(_) => None,
        }
    }
}

/// The value at a position: an index of a choice, or a number on `[0, 1]`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index of a list, clamped"
)]
pub(super) fn value_at(distribution: &Distribution, position: f64) -> Value {
    match distribution {
        Distribution::Choice { choices } => {
            choices[(position.max(0.0) as usize).min(choices.len() - 1)].clone()
        }
        _ => distribution.from_unit(position),
    }
}

/// Points as slices.
pub(super) fn slices(points: &[Point]) -> Vec<&[f64]> {
    points.iter().map(Vec::as_slice).collect()
}

/// `count` of the items, evenly spaced.
pub(super) fn evenly<T: Clone>(items: &[T], count: usize) -> impl Iterator<Item = T> {
    (0..count).map(move |place| items[place * items.len() / count].clone())
}

/// A point as a hash key.
pub(super) fn key(point: &[f64]) -> Vec<u64> {
    point
        .iter()
        .map(|position| if position.is_nan() { u64::MAX } else { position.to_bits() })
        .collect()
}

/// An even draw on an axis.
#[expect(clippy::cast_precision_loss, reason = "an index of a list")]
pub(super) fn random_position(kind: AxisKind, rng: &mut StreamRng) -> f64 {
    match kind {
        AxisKind::Choice(count) => rng.random_range(0..count) as f64,
        _ => rng.random(),
    }
}
