//! Cells of typed columns.

use crate::study::params::Value;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Number,
    Flag,
    Text,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Nothing,
    Integer(i64),
    Number(f64),
    Flag(bool),
    Text(String),
}

impl Cell {
    /// A cell of an optional value.
    pub fn of<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Cell {
        value.map_or(Cell::Nothing, cell)
    }

    /// An integer, saturating.
    pub fn whole(value: u64) -> Cell {
        Cell::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// A parameter's value.
    pub fn value(value: &Value) -> Cell {
        match value {
            Value::Null => Cell::Nothing,
            Value::Bool(flag) => Cell::Flag(*flag),
            Value::Int(int) => Cell::Integer(*int),
            Value::Float(float) => Cell::Number(*float),
            other => Cell::Text(other.to_string()),
        }
    }

    pub fn integer(&self) -> Option<i64> {
        match self {
            Cell::Integer(integer) => Some(*integer),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a column of numbers of both kinds")]
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Integer(integer) => Some(*integer as f64),
            Cell::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub fn flag(&self) -> Option<bool> {
        match self {
            Cell::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The cell in a text column.
    pub fn text(&self) -> Option<String> {
        match self {
            Cell::Nothing => None,
            Cell::Integer(integer) => Some(integer.to_string()),
            Cell::Number(number) => Some(format!("{number:?}")),
            Cell::Flag(flag) => Some(flag.to_string()),
            Cell::Text(text) => Some(text.clone()),
        }
    }
}

/// The type of a column with values of these types.
pub(super) fn common(one: Option<Kind>, other: Option<Kind>) -> Option<Kind> {
    match (one, other) {
        (None, kind) | (kind, None) => kind,
        (Some(one), Some(other)) if one == other => Some(one),
        (Some(Kind::Integer | Kind::Number), Some(Kind::Integer | Kind::Number)) => {
            Some(Kind::Number)
        }
        _ => Some(Kind::Text),
    }
}

/// The type of column for a value; `None` for null.
pub(super) fn kind_of(value: &Value) -> Option<Kind> {
    match value {
        Value::Null => None,
        Value::Bool(_) => Some(Kind::Flag),
        Value::Int(_) => Some(Kind::Integer),
        Value::Float(_) => Some(Kind::Number),
        Value::Text(_) | Value::List(_) => Some(Kind::Text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_kinds_are_numbers_and_the_rest_texts() {
        let (integer, number, flag) = (Some(Kind::Integer), Some(Kind::Number), Some(Kind::Flag));
        assert_eq!(common(integer, number), number);
        assert_eq!(common(None, flag), flag);
        assert_eq!(common(flag, integer), Some(Kind::Text));
        assert_eq!(kind_of(&Value::Null), None);
        assert_eq!(Cell::value(&Value::Int(3)).number(), Some(3.0));
        assert_eq!(Cell::value(&Value::Bool(true)).text().as_deref(), Some("true"));
    }
}
