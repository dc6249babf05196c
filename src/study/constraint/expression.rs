//! A condition as a tree: what it says of given values, and by how much they break it.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::study::params::Value;

/// A stretch of the expression's text, in bytes.
pub(super) type Span = std::ops::Range<usize>;

/// Numbers closer than this share of the larger count as equal: steps of 0.1 do not add up exactly.
const EQUAL: f64 = 1e-12;

/// A condition over named values.
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
    pub(super) root: Node,
}

/// Whether values keep a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kept {
    /// By how much they break it; 0: they keep it.
    By(f64),
    /// A value is missing, and without it nothing is certain.
    Unknown,
}

/// A part of the tree with its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub part: Part,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Number(f64),
    Flag(bool),
    /// In single quotes.
    Text(String),
    /// Bare, in double quotes or in backticks.
    Name(String),
    Negative(Box<Node>),
    Operation(Operation, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    Comparison(Comparison, Box<Node>, Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

/// Functions by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Min,
    Max,
    Abs,
    Log,
    Log2,
    Log10,
    Exp,
    Sqrt,
}

impl Function {
    pub const ALL: [(&'static str, Function); 8] = [
        ("min", Function::Min),
        ("max", Function::Max),
        ("abs", Function::Abs),
        ("log", Function::Log),
        ("log2", Function::Log2),
        ("log10", Function::Log10),
        ("exp", Function::Exp),
        ("sqrt", Function::Sqrt),
    ];

    /// How many arguments it takes: at least, at most.
    pub fn arguments(self) -> (usize, usize) {
        if matches!(self, Function::Min | Function::Max) { (2, usize::MAX) } else { (1, 1) }
    }

    fn of(self, numbers: &[f64]) -> f64 {
        let first = numbers.first().copied().unwrap_or(f64::NAN);
        // NaN is no number that could be left out.
        let fold = |better: fn(f64, f64) -> f64| {
            numbers.iter().skip(1).fold(first, |best, next| {
                if best.is_nan() || next.is_nan() { f64::NAN } else { better(best, *next) }
            })
        };
        match self {
            Function::Min => fold(f64::min),
            Function::Max => fold(f64::max),
            Function::Abs => first.abs(),
            Function::Log => first.ln(),
            Function::Log2 => first.log2(),
            Function::Log10 => first.log10(),
            Function::Exp => first.exp(),
            Function::Sqrt => first.sqrt(),
        }
    }
}

/// A value inside a condition.
#[derive(Clone, Debug, PartialEq)]
enum Term {
    Number(f64),
    Flag(bool),
    Text(String),
}

impl Term {
    fn of(value: Value) -> Self {
        match value.as_number() {
            Some(number) => Term::Number(number),
            None => match value {
                Value::Bool(flag) => Term::Flag(flag),
                other => Term::Text(other.to_string()),
            },
        }
    }
}

impl Expression {
    /// A condition as it was written, and its tree.
    pub(super) fn new(text: &str, root: Node) -> Self {
        Expression { text: text.to_owned(), root }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names of the values it speaks of, each once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut names = Vec::new();
        self.root.visit(&mut |node| {
            if let Part::Name(name) = &node.part
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
        });
        names.into_iter()
    }

    /// Whether the values that `value` gives keep the condition. `None` is a value that is not there: what depends on it is
    /// unknown, and `and`, `or` and `not` know what they can (Kleene's logic). Of what is undefined, such as the logarithm of a
    /// negative number, no comparison is kept.
    ///
    /// How far a comparison of numbers is from being kept is their difference; texts that should be equal are 1 apart. `and`
    /// adds up, `or` takes the least.
    pub fn kept(&self, value: impl Fn(&str) -> Option<Value>) -> Kept {
        self.root.kept(&|name| value(name).map(Term::of), true)
    }
}

impl Expression {
    /// How far the values are on the wrong side of the condition, or below 0 how far on the right one: for models of limits, where
    /// both sides count. `and` has the largest of its parts, `or` the least. Nothing if a value is missing.
    pub fn margin(&self, value: impl Fn(&str) -> Option<Value>) -> Option<f64> {
        self.root.margin(&|name| value(name).map(Term::of))
    }
}

impl Node {
    fn margin(&self, value: &dyn Fn(&str) -> Option<Term>) -> Option<f64> {
        let parts = |parts: &[Node], better: fn(f64, f64) -> f64| {
            let margins: Option<Vec<f64>> = parts.iter().map(|part| part.margin(value)).collect();
            margins?.into_iter().reduce(better)
        };
        match &self.part {
            Part::And(all) => parts(all, f64::max),
            Part::Or(any) => parts(any, f64::min),
            Part::Not(inner) => inner.margin(value).map(|margin| -margin),
            Part::Comparison(comparison, left, right) => {
                match (left.term(value)?, right.term(value)?, comparison) {
                    (
                        Term::Number(left),
                        Term::Number(right),
                        Comparison::Less | Comparison::AtMost,
                    ) => Some(left - right),
                    (
                        Term::Number(left),
                        Term::Number(right),
                        Comparison::More | Comparison::AtLeast,
                    ) => Some(right - left),
                    (left, right, comparison) => Some(comparison.over(&left, &right, true)),
                }
            }
            _ => match self.kept(value, true) {
                Kept::By(over) => Some(over),
                Kept::Unknown => None,
            },
        }
    }

    /// Calls `look` for this part and all below it.
    pub fn visit<'a>(&'a self, look: &mut impl FnMut(&'a Node)) {
        look(self);
        match &self.part {
            Part::Number(_) | Part::Flag(_) | Part::Text(_) | Part::Name(_) => {}
            Part::Negative(inner) | Part::Not(inner) => inner.visit(look),
            Part::Operation(_, left, right) | Part::Comparison(_, left, right) => {
                left.visit(look);
                right.visit(look);
            }
            Part::Call(_, parts) | Part::And(parts) | Part::Or(parts) => {
                parts.iter().for_each(|part| part.visit(look))
            }
        }
    }

    /// Whether the part, which is a condition, is kept; with `wanted` false, whether its opposite is.
    fn kept(&self, value: &dyn Fn(&str) -> Option<Term>, wanted: bool) -> Kept {
        match &self.part {
            Part::And(parts) if wanted => all(parts.iter().map(|part| part.kept(value, wanted))),
            Part::Or(parts) if !wanted => all(parts.iter().map(|part| part.kept(value, wanted))),
            Part::And(parts) | Part::Or(parts) => {
                any(parts.iter().map(|part| part.kept(value, wanted)))
            }
            Part::Not(inner) => inner.kept(value, !wanted),
            Part::Comparison(comparison, left, right) => {
                match (left.term(value), right.term(value)) {
                    (Some(left), Some(right)) => Kept::By(comparison.over(&left, &right, wanted)),
                    _ => Kept::Unknown,
                }
            }
            _ => match self.term(value) {
                Some(Term::Flag(flag)) => Kept::By(f64::from(flag != wanted)),
                Some(_) => Kept::By(f64::MAX),
                None => Kept::Unknown,
            },
        }
    }

    /// The value of a part; nothing if one that it needs is missing.
    fn term(&self, value: &dyn Fn(&str) -> Option<Term>) -> Option<Term> {
        let number = |node: &Node| -> Option<f64> {
            Some(match node.term(value)? {
                Term::Number(number) => number,
                Term::Flag(_) | Term::Text(_) => f64::NAN,
            })
        };
        Some(match &self.part {
            Part::Number(number) => Term::Number(*number),
            Part::Flag(flag) => Term::Flag(*flag),
            Part::Text(text) => Term::Text(text.clone()),
            Part::Name(name) => value(name)?,
            Part::Negative(inner) => Term::Number(-number(inner)?),
            Part::Operation(operation, left, right) => {
                Term::Number(operation.of(number(left)?, number(right)?))
            }
            Part::Call(function, arguments) => {
                let numbers: Option<Vec<f64>> = arguments.iter().map(number).collect();
                Term::Number(function.of(&numbers?))
            }
            Part::Comparison(..) | Part::And(_) | Part::Or(_) | Part::Not(_) => {
                match self.kept(value, true) {
                    Kept::By(over) => Term::Flag(over == 0.0),
                    Kept::Unknown => return None,
                }
            }
        })
    }
}

/// Every one must be kept.
fn all(parts: impl Iterator<Item = Kept>) -> Kept {
    let (mut total, mut unknown) = (0.0, false);
    for part in parts {
        match part {
            Kept::By(over) => total = f64::min(total + over, f64::MAX),
            Kept::Unknown => unknown = true,
        }
    }
    if total == 0.0 && unknown { Kept::Unknown } else { Kept::By(total) }
}

/// One of them must be kept.
fn any(parts: impl Iterator<Item = Kept>) -> Kept {
    let (mut least, mut unknown) = (f64::MAX, false);
    for part in parts {
        match part {
            Kept::By(over) => least = least.min(over),
            Kept::Unknown => unknown = true,
        }
    }
    if least > 0.0 && unknown { Kept::Unknown } else { Kept::By(least) }
}

impl Operation {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Operation::Add => left + right,
            Operation::Subtract => left - right,
            Operation::Multiply => left * right,
            Operation::Divide => left / right,
            // Never negative, and NaN of a division by zero.
            Operation::Remainder => left.rem_euclid(right),
            Operation::Power => left.powf(right),
        }
    }
}

impl Comparison {
    /// By how much two values break the comparison, or with `wanted` false its opposite.
    fn over(self, left: &Term, right: &Term, wanted: bool) -> f64 {
        if let (Term::Number(left), Term::Number(right)) = (left, right) {
            return self.over_numbers(*left, *right, wanted);
        }
        match self {
            Comparison::Equal => f64::from((left == right) != wanted),
            Comparison::Unequal => f64::from((left != right) != wanted),
            // Texts have no order; what is checked with a space never gets here.
            _ => f64::MAX,
        }
    }

    fn over_numbers(self, left: f64, right: f64, wanted: bool) -> f64 {
        let comparison = if wanted { self } else { self.opposite() };
        // What is not a number keeps nothing, nor its opposite.
        if left.is_nan() || right.is_nan() {
            return f64::MAX;
        }
        // Infinities of one sign have no difference.
        let distance = if left == right {
            0.0
        } else {
            (left - right).abs().clamp(f64::MIN_POSITIVE, f64::MAX)
        };
        let equal = distance <= EQUAL * left.abs().max(right.abs());
        let kept = match comparison {
            Comparison::Less => left < right,
            Comparison::AtMost => left <= right,
            Comparison::More => left > right,
            Comparison::AtLeast => left >= right,
            Comparison::Equal => equal,
            Comparison::Unequal => !equal,
        };
        match comparison {
            _ if kept => 0.0,
            Comparison::Unequal => 1.0,
            _ => distance.max(f64::MIN_POSITIVE),
        }
    }

    fn opposite(self) -> Self {
        match self {
            Comparison::Less => Comparison::AtLeast,
            Comparison::AtMost => Comparison::More,
            Comparison::More => Comparison::AtMost,
            Comparison::AtLeast => Comparison::Less,
            Comparison::Equal => Comparison::Unequal,
            Comparison::Unequal => Comparison::Equal,
        }
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}
