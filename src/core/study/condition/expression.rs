//! The syntax tree of a condition, and its evaluation: whether it holds, and by how much it is
//! violated.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use super::moment::Moment;
use super::property::{Measured, Needs, Property, Term, mentions};
use super::syntax::Span;
use crate::study::params::Value;
use crate::study::trial::{Trial, TrialState};

/// Relative tolerance for equality: steps of 0.1 do not add up exactly.
const EQUAL: f64 = 1e-12;

/// A condition over named values.
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
    pub(super) root: Node,
}

/// By how much a condition is violated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Violation {
    /// The amount; 0: it holds.
    By(f64),
    /// A missing value leaves it undecided.
    Unknown,
}

/// A node with its span in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub kind: NodeKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeKind {
    Number(f64),
    Flag(bool),
    /// A date, in a filter, until it is lowered to numbers.
    Moment(Moment),
    /// In single quotes.
    Text(String),
    /// Bare, in double quotes or in backticks.
    Name(String),
    /// A property of a trial, in a filter.
    Property(Property),
    /// A property contains the text, in lower case.
    Contains(Property, String),
    /// Any text of a trial contains this one, in lower case.
    Mentions(String),
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

    /// Minimum and maximum number of arguments.
    pub fn arguments(self) -> (usize, usize) {
        if matches!(self, Function::Min | Function::Max) { (2, usize::MAX) } else { (1, 1) }
    }

    fn of(self, numbers: &[f64]) -> f64 {
        let first = numbers.first().copied().unwrap_or(f64::NAN);
        // NaN must propagate.
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

/// The values of names.
type Values<'a, 'b> = &'b dyn Fn(&'a NodeKind) -> Option<Term<'a>>;

impl Expression {
    /// A condition from its text and tree.
    pub(super) fn new(text: &str, root: Node) -> Self {
        Expression { text: text.to_owned(), root }
    }

    /// The text as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names it uses, each once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut names = Vec::new();
        self.root.visit(&mut |node| {
            if let NodeKind::Name(name) = &node.kind
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
        });
        names.into_iter()
    }

    /// By how much values violate the condition. `value` returns `None` for missing values:
    /// conditions that depend on them are unknown, as in Kleene's three-valued logic. Comparisons
    /// with undefined results, such as the logarithm of a negative number, do not hold.
    ///
    /// The violation of a numeric comparison is the difference of its sides; of an equality of
    /// texts, 1. `and` adds violations, `or` takes the smallest.
    pub fn violation(&self, value: impl Fn(&str) -> Option<Value>) -> Violation {
        self.root.violation(&|kind| kind.named(&value), true)
    }

    /// The signed distance to the boundary of the condition, positive where it is violated: for
    /// models of limits, which use both sides. `and` takes the largest, `or` the smallest. `None`
    /// if a value is missing.
    pub fn margin(&self, value: impl Fn(&str) -> Option<Value>) -> Option<f64> {
        self.root.margin(&|kind| kind.named(&value))
    }

    /// Whether a filter's condition holds for a trial.
    pub fn holds(&self, trial: &Trial, measured: &Measured) -> bool {
        self.root.holds(trial, measured)
    }

    /// Whether it holds for all trials in a state; `None` if it depends on more.
    pub fn holds_in(&self, state: TrialState) -> Option<bool> {
        let known = |kind: &NodeKind| {
            (*kind == NodeKind::Property(Property::State))
                .then(|| Term::Text(Cow::Borrowed(state.as_str())))
        };
        match self.root.violation(&known, true) {
            Violation::By(over) => Some(over == 0.0),
            Violation::Unknown => None,
        }
    }

    /// The filter's free texts, each as its own condition.
    pub fn bare_words(&self) -> Vec<Expression> {
        let mut words = Vec::new();
        self.root.visit(&mut |node| {
            if let NodeKind::Mentions(text) = &node.kind {
                words.push(Expression::new(text, node.clone()));
            }
        });
        words
    }

    /// Adds the fields of a trial that the condition needs.
    pub fn add_needs(&self, needs: &mut Needs) {
        self.root.visit(&mut |node| match &node.kind {
            NodeKind::Property(property) | NodeKind::Contains(property, _) => {
                property.add_needs(needs)
            }
            NodeKind::Mentions(_) => needs.add_texts(),
            _ => {}
        });
    }
}

impl NodeKind {
    fn named<'a>(&'a self, value: &impl Fn(&str) -> Option<Value>) -> Option<Term<'a>> {
        match self {
            NodeKind::Name(name) => value(name).map(Term::of),
            _ => None,
        }
    }
}

impl Node {
    fn margin<'a>(&'a self, value: Values<'a, '_>) -> Option<f64> {
        let parts = |parts: &'a [Node], better: fn(f64, f64) -> f64| {
            let margins: Option<Vec<f64>> = parts.iter().map(|part| part.margin(value)).collect();
            margins?.into_iter().reduce(better)
        };
        match &self.kind {
            NodeKind::And(all) => parts(all, f64::max),
            NodeKind::Or(any) => parts(any, f64::min),
            NodeKind::Not(inner) => inner.margin(value).map(|margin| -margin),
            NodeKind::Comparison(comparison, left, right) => {
                use Comparison::{AtLeast, AtMost, Less, More};
                Some(match (left.term(value)?, right.term(value)?, comparison) {
                    (Term::Number(left), Term::Number(right), Less | AtMost) => left - right,
                    (Term::Number(left), Term::Number(right), More | AtLeast) => right - left,
                    (left, right, comparison) => comparison.over(&left, &right, true),
                })
            }
            _ => match self.violation(value, true) {
                Violation::By(over) => Some(over),
                Violation::Unknown => None,
            },
        }
    }

    /// Calls `look` for this node and all below it.
    pub fn visit<'a>(&'a self, look: &mut impl FnMut(&'a Node)) {
        look(self);
        match &self.kind {
            NodeKind::Negative(inner) | NodeKind::Not(inner) => inner.visit(look),
            NodeKind::Operation(_, left, right) | NodeKind::Comparison(_, left, right) => {
                left.visit(look);
                right.visit(look);
            }
            NodeKind::Call(_, parts) | NodeKind::And(parts) | NodeKind::Or(parts) => {
                parts.iter().for_each(|part| part.visit(look))
            }
            _ => {}
        }
    }

    /// A comparison with an absent value is false, and `not` makes it true: filters have two truth
    /// values.
    fn holds<'a>(&'a self, trial: &'a Trial, measured: &'a Measured) -> bool {
        match &self.kind {
            NodeKind::And(parts) => parts.iter().all(|part| part.holds(trial, measured)),
            NodeKind::Or(parts) => parts.iter().any(|part| part.holds(trial, measured)),
            NodeKind::Not(inner) => !inner.holds(trial, measured),
            NodeKind::Contains(property, text) => {
                property.has_text(trial, &mut |found| found.contains(text))
            }
            NodeKind::Mentions(text) => mentions(trial, text),
            kind => {
                let value = |kind: &'a NodeKind| match kind {
                    NodeKind::Property(property) => property.of(trial, measured),
                    _ => None,
                };
                match kind {
                    NodeKind::Comparison(comparison, left, right) => {
                        let terms = left.term(&value).zip(right.term(&value));
                        terms.is_some_and(|(left, right)| comparison.holds(&left, &right))
                    }
                    _ => self.term(&value) == Some(Term::Flag(true)),
                }
            }
        }
    }

    /// The violation of this condition, or with `wanted` false of its negation.
    fn violation<'a>(&'a self, value: Values<'a, '_>, wanted: bool) -> Violation {
        match &self.kind {
            NodeKind::And(parts) | NodeKind::Or(parts) => {
                let is_all = matches!(self.kind, NodeKind::And(_)) == wanted;
                let parts = parts.iter().map(|part| part.violation(value, wanted));
                if is_all { all(parts) } else { any(parts) }
            }
            NodeKind::Not(inner) => inner.violation(value, !wanted),
            NodeKind::Comparison(comparison, left, right) => {
                match (left.term(value), right.term(value)) {
                    (Some(left), Some(right)) => {
                        Violation::By(comparison.over(&left, &right, wanted))
                    }
                    _ => Violation::Unknown,
                }
            }
            _ => match self.term(value) {
                Some(Term::Flag(flag)) => Violation::By(f64::from(flag != wanted)),
                Some(_) => Violation::By(f64::MAX),
                None => Violation::Unknown,
            },
        }
    }

    /// The value of a node; `None` if a value it needs is missing.
    fn term<'a>(&'a self, value: Values<'a, '_>) -> Option<Term<'a>> {
        let number = |node: &'a Node| -> Option<f64> {
            Some(match node.term(value)? {
                Term::Number(number) => number,
                _ => f64::NAN,
            })
        };
        Some(match &self.kind {
            NodeKind::Number(number) => Term::Number(*number),
            NodeKind::Flag(flag) => Term::Flag(*flag),
            NodeKind::Text(text) => Term::Text(Cow::Borrowed(text)),
            NodeKind::Name(_) | NodeKind::Property(_) => value(&self.kind)?,
            NodeKind::Contains(..) | NodeKind::Mentions(_) | NodeKind::Moment(_) => return None,
            NodeKind::Negative(inner) => Term::Number(-number(inner)?),
            NodeKind::Operation(operation, left, right) => {
                Term::Number(operation.of(number(left)?, number(right)?))
            }
            NodeKind::Call(function, arguments) => {
                let numbers: Option<Vec<f64>> = arguments.iter().map(number).collect();
                Term::Number(function.of(&numbers?))
            }
            NodeKind::Comparison(..) | NodeKind::And(_) | NodeKind::Or(_) | NodeKind::Not(_) => {
                match self.violation(value, true) {
                    Violation::By(over) => Term::Flag(over == 0.0),
                    Violation::Unknown => return None,
                }
            }
        })
    }
}

/// The violation of a conjunction: the sum of its parts' violations.
fn all(parts: impl Iterator<Item = Violation>) -> Violation {
    let (mut total, mut unknown) = (0.0, false);
    for part in parts {
        match part {
            Violation::By(over) => total = f64::min(total + over, f64::MAX),
            Violation::Unknown => unknown = true,
        }
    }
    if total == 0.0 && unknown { Violation::Unknown } else { Violation::By(total) }
}

/// The violation of a disjunction: the smallest of its parts' violations.
fn any(parts: impl Iterator<Item = Violation>) -> Violation {
    let (mut least, mut unknown) = (f64::MAX, false);
    for part in parts {
        match part {
            Violation::By(over) => least = least.min(over),
            Violation::Unknown => unknown = true,
        }
    }
    if least > 0.0 && unknown { Violation::Unknown } else { Violation::By(least) }
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
    pub const SYMBOLS: [(&'static str, Comparison); 6] = [
        ("<", Comparison::Less),
        ("<=", Comparison::AtMost),
        (">", Comparison::More),
        (">=", Comparison::AtLeast),
        ("==", Comparison::Equal),
        ("!=", Comparison::Unequal),
    ];

    /// The comparison of a symbol; in short forms `=` and `:` also mean equality.
    pub fn of(symbol: &str) -> Comparison {
        let known = Self::SYMBOLS.into_iter().find(|(known, _)| *known == symbol);
        known.map_or(Comparison::Equal, |(_, comparison)| comparison)
    }

    /// The comparison with its sides exchanged.
    pub fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::More,
            Comparison::AtMost => Comparison::AtLeast,
            Comparison::More => Comparison::Less,
            Comparison::AtLeast => Comparison::AtMost,
            Comparison::Equal | Comparison::Unequal => self,
        }
    }

    /// Comparison in filters: exact, and NaN equals only itself.
    fn holds(self, left: &Term<'_>, right: &Term<'_>) -> bool {
        let is_nan = |term: &Term<'_>| matches!(term, Term::Number(number) if number.is_nan());
        match (self, left, right) {
            (Comparison::Equal, ..) => left.equals(right) || (is_nan(left) && is_nan(right)),
            (Comparison::Unequal, ..) => !is_nan(left) && !left.equals(right),
            (_, Term::Number(left), Term::Number(right)) => self.orders(*left, *right),
            _ => false,
        }
    }

    /// By how much two values violate the comparison, or with `wanted` false its negation.
    fn over(self, left: &Term<'_>, right: &Term<'_>, wanted: bool) -> f64 {
        if let (Term::Number(left), Term::Number(right)) = (left, right) {
            return self.over_numbers(*left, *right, wanted);
        }
        match self {
            Comparison::Equal => f64::from(left.equals(right) != wanted),
            Comparison::Unequal => f64::from(left.equals(right) == wanted),
            // Texts have no order; the check against a space prevents this.
            _ => f64::MAX,
        }
    }

    fn over_numbers(self, left: f64, right: f64, wanted: bool) -> f64 {
        let comparison = if wanted { self } else { self.opposite() };
        // NaN violates the comparison and its negation.
        if left.is_nan() || right.is_nan() {
            return f64::MAX;
        }
        // The difference of equal infinities is NaN.
        let distance = if left == right {
            0.0
        } else {
            (left - right).abs().clamp(f64::MIN_POSITIVE, f64::MAX)
        };
        let equal = distance <= EQUAL * left.abs().max(right.abs());
        let holds = match comparison {
            Comparison::Equal => equal,
            Comparison::Unequal => !equal,
            _ => comparison.orders(left, right),
        };
        match comparison {
            _ if holds => 0.0,
            Comparison::Unequal => 1.0,
            _ => distance.max(f64::MIN_POSITIVE),
        }
    }

    /// Whether two numbers are in this order; equality is ignored.
    fn orders(self, left: f64, right: f64) -> bool {
        match self {
            Comparison::Less => left < right,
            Comparison::AtMost => left <= right,
            Comparison::More => left > right,
            Comparison::AtLeast => left >= right,
            Comparison::Equal | Comparison::Unequal => false,
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
