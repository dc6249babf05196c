//! A configuration as the features of a regression.

use crate::study::params::{Params, Value};
use crate::study::space::{Distribution, Space};

/// Maximum number of columns: a regression costs O(n^3).
const MOST: usize = 40;
/// Longer lists of choices are ignored.
const MOST_CHOICES: usize = 8;

/// The features of a configuration.
#[derive(Clone, Debug)]
pub(super) struct Columns<'a> {
    space: &'a Space,
    columns: Vec<(usize, Column)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    /// Position of a number on its axis.
    Place,
    /// Its centred square.
    Square,
    /// Indicator of this choice (first), among this number of choices.
    Choice(usize, usize),
}

impl<'a> Columns<'a> {
    /// A column for every number and one for every choice of a short list, then squares of the
    /// numbers, as many as fit.
    pub fn of(space: &'a Space) -> Self {
        let dimensions = || {
            space
                .dimensions()
                .iter()
                .enumerate()
                .filter(|(_, dimension)| dimension.distribution.cardinality() != Some(1))
        };
        let first = dimensions().flat_map(|(index, dimension)| match &dimension.distribution {
            Distribution::Choice { choices } if choices.len() > MOST_CHOICES => Vec::new(),
            Distribution::Choice { choices } => (0..choices.len())
                .map(|choice| (index, Column::Choice(choice, choices.len())))
                .collect(),
            Distribution::Float { .. } | Distribution::Int { .. } => vec![(index, Column::Place)],
        });
        let squares = dimensions()
            .filter(|(_, dimension)| !matches!(dimension.distribution, Distribution::Choice { .. }))
            .map(|(index, _)| (index, Column::Square));
        Columns { space, columns: first.chain(squares).take(MOST).collect() }
    }

    /// Centred; 0 where a parameter is inactive.
    pub fn encode(&self, params: &Params) -> Vec<f64> {
        let places: Vec<Option<f64>> = self
            .space
            .dimensions()
            .iter()
            .map(|dimension| place(&dimension.distribution, params.get(&dimension.name)?))
            .collect();
        self.columns
            .iter()
            .map(|(index, column)| places[*index].map_or(0.0, |place| column.of(place)))
            .collect()
    }
}

/// A position on `[0, 1]`, or the index of a choice.
fn place(distribution: &Distribution, value: &Value) -> Option<f64> {
    match distribution {
        Distribution::Choice { .. } => distribution.to_internal(value),
        _ => distribution.to_unit(value),
    }
}

impl Column {
    #[expect(clippy::cast_precision_loss, reason = "an index of a list")]
    fn of(self, place: f64) -> f64 {
        match self {
            Column::Place => place - 0.5,
            // The mean of the square over the axis is a twelfth.
            Column::Square => (place - 0.5).powi(2) - 1.0 / 12.0,
            Column::Choice(choice, of) => {
                f64::from(u8::from(place == choice as f64)) - 1.0 / of as f64
            }
        }
    }
}
