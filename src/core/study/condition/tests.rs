//! Conditions: their meaning, their errors, and a parser that no input crashes.

use proptest::prelude::*;

use super::expression::{Comparison, Expression, Function, Node, NodeKind, Operation, Violation};
use super::*;
use crate::study::constraint::{Constraint, broken, exceeded, violation};
use crate::study::metric::{LastMetrics, Metrics};
use crate::study::params::{Params, Value};
use crate::study::space::{Dimension, Distribution, Scale, Space};

fn of(text: &str) -> Expression {
    Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error} at {:?}", error.span))
}

fn params(pairs: &[(&str, f64)]) -> Params {
    pairs.iter().map(|(name, number)| ((*name).to_owned(), Value::Float(*number))).collect()
}

fn violation_of(text: &str, pairs: &[(&str, f64)]) -> Violation {
    let params = params(pairs);
    of(text).violation(|name| params.get(name).cloned())
}

fn wrong(text: &str) -> (String, std::ops::Range<usize>) {
    let error = Expression::parse(text).unwrap_err();
    (error.message, error.span)
}

#[test]
fn arithmetic_binds_as_in_other_languages() {
    for (text, value) in [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("2 ** 3 ** 2", 512.0),
        ("-2 ** 2", -4.0),
        ("2 ** -1", 0.5),
        ("7 - 2 - 1", 4.0),
        ("8 / 4 / 2", 1.0),
        ("max(1, 2, 3) - min(1, 2) + abs(-4)", 6.0),
        ("log(exp(2)) + log2(8) + log10(1e3) + sqrt(9)", 11.0),
        ("1_000 + .5 - 1.5e-1", 1000.35),
    ] {
        let equal = format!("{text} == x");
        assert_eq!(violation_of(&equal, &[("x", value)]), Violation::By(0.0), "{text}");
    }
}

#[test]
fn a_broken_condition_says_by_how_much() {
    assert_eq!(violation_of("a * b <= 12", &[("a", 5.0), ("b", 3.0)]), Violation::By(3.0));
    assert_eq!(violation_of("a <= 1 and b <= 1", &[("a", 2.0), ("b", 3.0)]), Violation::By(3.0));
    assert_eq!(violation_of("a <= 1 or b <= 1", &[("a", 2.0), ("b", 3.0)]), Violation::By(1.0));
    let neither = "not (a <= 1 or b <= 1)";
    assert_eq!(violation_of(neither, &[("a", 2.0), ("b", 3.0)]), Violation::By(0.0));
    assert_eq!(violation_of("0 < a <= 4 < b", &[("a", 6.0), ("b", 3.0)]), Violation::By(3.0));
    assert_eq!(violation_of("a < 2", &[("a", 2.0)]), Violation::By(f64::MIN_POSITIVE));
    assert_eq!(violation_of("a != 2", &[("a", 2.0)]), Violation::By(1.0));
    assert_eq!(violation_of("0.1 * a == 0.3", &[("a", 3.0)]), Violation::By(0.0));
    // An undefined number violates the comparison and its negation.
    assert_eq!(violation_of("log(a) < 0", &[("a", -1.0)]), Violation::By(f64::MAX));
    assert_eq!(violation_of("not log(a) < 0", &[("a", -1.0)]), Violation::By(f64::MAX));
    assert_eq!(violation_of("1 / a > 5 and 1 / a > 6", &[("a", 0.0)]), Violation::By(0.0));
}

#[test]
fn what_depends_on_an_inactive_parameter_is_unknown_and_the_rest_still_counts() {
    assert_eq!(violation_of("momentum < 0.9", &[]), Violation::Unknown);
    assert_eq!(violation_of("not momentum < 0.9", &[]), Violation::Unknown);
    assert_eq!(violation_of("a < 1 and momentum < 0.9", &[("a", 3.0)]), Violation::By(2.0));
    assert_eq!(violation_of("a < 1 and momentum < 0.9", &[("a", 0.0)]), Violation::Unknown);
    assert_eq!(violation_of("a < 1 or momentum < 0.9", &[("a", 0.0)]), Violation::By(0.0));
    assert_eq!(violation_of("a < 1 or momentum < 0.9", &[("a", 3.0)]), Violation::Unknown);
    let constraints = [Constraint::Require(of("momentum < 0.9")), Constraint::Require(of("a < 1"))];
    assert_eq!(
        broken(&constraints, &params(&[("a", 2.0)])).map(Constraint::to_string),
        Some("require = \"a < 1\"".to_owned())
    );
    assert_eq!(broken(&constraints, &params(&[("a", 0.0)])), None);
    assert_eq!(broken(&constraints, &params(&[])), None);
}

#[test]
fn limits_add_up_and_a_metric_that_is_missing_breaks_its_own() {
    let constraints = [
        Constraint::Limit(of("latency <= 20")),
        Constraint::Require(of("a < 1")),
        Constraint::Limit(of("\"eval size\" < 3")),
    ];
    let metrics = |pairs: &[(&str, f64)]| -> Metrics {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    assert_eq!(violation(&constraints[1..2], &metrics(&[])), None);
    assert_eq!(
        violation(&constraints, &metrics(&[("latency", 20.0), ("eval size", 2.0)])),
        Some(0.0)
    );
    let over = metrics(&[("latency", 23.5), ("eval size", 4.0)]);
    assert_eq!(violation(&constraints, &over), Some(4.5));
    assert_eq!(
        exceeded(&constraints, &over, LastMetrics::OfEach),
        "`latency <= 20` is violated by 3.5; `\"eval size\" < 3` is violated by 1"
    );
    for (missing, why) in [
        (metrics(&[("eval size", 2.0)]), "was never reported"),
        (metrics(&[("latency", f64::NAN), ("eval size", 2.0)]), "is NaN"),
    ] {
        assert_eq!(violation(&constraints, &missing), Some(f64::MAX));
        assert_eq!(
            exceeded(&constraints, &missing, LastMetrics::OfEach),
            format!("`latency <= 20` has no value: `latency` {why}")
        );
    }
    assert_eq!(
        exceeded(&constraints, &metrics(&[("eval size", 2.0)]), LastMetrics::OfLastReport),
        "`latency <= 20` has no value: `latency` is not in the trial's last report"
    );
}

#[test]
fn errors_point_at_what_is_wrong() {
    assert_eq!(wrong("a < "), ("the condition ends where a value is expected".to_owned(), 4..4));
    assert_eq!(wrong(""), ("the condition is empty".to_owned(), 0..0));
    assert_eq!(wrong("a = 3"), ("`=` compares nothing".to_owned(), 2..3));
    assert_eq!(wrong("(a < 3"), ("this parenthesis is never closed".to_owned(), 0..1));
    assert_eq!(wrong("a < 3)"), ("this parenthesis was never opened".to_owned(), 5..6));
    assert_eq!(wrong("a < 3 b"), ("`b` is not expected here".to_owned(), 6..7));
    assert_eq!(wrong("a + 3"), ("this is a value, not a condition".to_owned(), 0..5));
    assert_eq!(
        wrong("(a < 3) + 1 < 2"),
        ("a number is expected, and this is true or false".to_owned(), 1..6)
    );
    assert_eq!(wrong("sin(a) < 3"), ("there is no function `sin`".to_owned(), 0..3));
    assert_eq!(wrong("max(a) < 3"), ("`max` takes 2 numbers or more, not 1".to_owned(), 0..3));
    assert_eq!(wrong("a < 3 && b < 2"), ("`&&` is written `and`".to_owned(), 6..8));
    assert_eq!(wrong("a < 'x"), ("this quote is never closed".to_owned(), 4..6));
    assert_eq!(wrong("a < 3x"), ("`3x` is not a number".to_owned(), 4..6));
    assert_eq!(wrong("ä ^ 2 < 3"), ("`^` means nothing in a condition".to_owned(), 3..4));
    assert!(wrong(&format!("{}a < 3", "(".repeat(5_000))).0.contains("nested more than 100 deep"));
    assert!(wrong(&"a < 3 or ".repeat(2_000)).0.contains("more than 10000"));
}

fn space() -> Space {
    Space::new(vec![
        Dimension::new("model.width", Distribution::int(1, 64, Scale::Linear, 1).unwrap()),
        Dimension::new("rate", Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap()),
        Dimension::new("optim", Distribution::choice(vec!["sgd".into(), "adamw".into()]).unwrap()),
        Dimension::new("bias", Distribution::choice(vec![true.into(), false.into()]).unwrap()),
        Dimension::new("size", Distribution::choice(vec![1i64.into(), "large".into()]).unwrap()),
    ])
    .unwrap()
}

#[test]
fn names_and_kinds_are_held_against_the_space() {
    let space = space();
    let said = |text: &str| -> Vec<String> {
        let problems = check(&of(text), KnownNames::Parameters(&space));
        problems
            .into_iter()
            .map(|problem| {
                format!(
                    "{} [{}] {}",
                    problem.message,
                    &text[problem.span],
                    problem.help.unwrap_or_default()
                )
            })
            .collect()
    };
    for sound in [
        "model.width * rate <= 3",
        "\"model.width\" < 8",
        "optim != 'sgd' or rate < 0.1",
        "bias or rate < 0.5",
        "not bias",
        "size == 'large' or size == 1",
    ] {
        assert_eq!(said(sound), Vec::<String>::new(), "{sound}");
    }
    assert_eq!(
        said("width < 3"),
        ["there is no parameter `width` [width] did you mean `model.width`?"]
    );
    assert_eq!(
        said("optim != \"sgd\""),
        ["there is no parameter `sgd` [\"sgd\"] texts are in single quotes: 'sgd'"]
    );
    assert_eq!(
        said("optim == 'adam'"),
        ["`adam` is not a choice of `optim` ['adam'] its choices are `sgd`, `adamw`"]
    );
    assert_eq!(said("optim < 3"), ["only numbers have an order, and this is a text [optim] "]);
    assert_eq!(
        said("rate == 'x'"),
        ["a number is compared with a text: they are never equal [rate == 'x'] "]
    );
    assert_eq!(said("bias * 2 < 3"), ["a number is expected, and this is true or false [bias] "]);
    assert_eq!(said("1 < 2"), ["the condition names no parameter: it is always the same [1 < 2] "]);
    assert_eq!(said("rate"), ["this is a number, not a condition [rate] "]);
    assert_eq!(check(&of("anything < 3"), KnownNames::Metrics), Vec::new());
}

#[test]
fn a_remainder_says_what_divides_and_by_nothing_it_is_none() {
    let of = |text: &str, x: f64, y: f64| {
        Expression::parse(text)
            .unwrap()
            .violation(|name| Some(Value::Float(if name == "x" { x } else { y })))
            == Violation::By(0.0)
    };
    assert!(of("x % y == 0", 128.0, 4.0) && !of("x % y == 0", 144.0, 5.0));
    // With the precedence of a product, and never negative.
    assert!(of("1 + x % y * 2 == 3", 9.0, 8.0) && of("x % y == 2", -1.0, 3.0));
    assert!(!of("x % y == 0", 3.0, 0.0) && !of("x % y != 0", 3.0, 0.0));
}

/// A tree as fully parenthesised text.
fn written(node: &Node) -> String {
    let list = |parts: &[Node], separator: &str| {
        parts.iter().map(written).collect::<Vec<_>>().join(separator)
    };
    match &node.kind {
        NodeKind::Number(number) => format!("{number:?}"),
        NodeKind::Flag(flag) => flag.to_string(),
        NodeKind::Text(text) => format!("'{text}'"),
        NodeKind::Name(name) => format!("\"{name}\""),
        NodeKind::Negative(inner) => format!("(-{})", written(inner)),
        NodeKind::Operation(operation, left, right) => {
            let symbol = match operation {
                Operation::Add => "+",
                Operation::Subtract => "-",
                Operation::Multiply => "*",
                Operation::Divide => "/",
                Operation::Remainder => "%",
                Operation::Power => "**",
            };
            format!("({} {symbol} {})", written(left), written(right))
        }
        NodeKind::Call(function, arguments) => {
            let name = Function::ALL.into_iter().find(|(_, known)| known == function).unwrap().0;
            format!("{name}({})", list(arguments, ", "))
        }
        NodeKind::Comparison(comparison, left, right) => {
            let known = |(_, known): &(&str, Comparison)| known == comparison;
            let symbol = Comparison::SYMBOLS.into_iter().find(known).unwrap().0;
            format!("({} {symbol} {})", written(left), written(right))
        }
        NodeKind::And(parts) => format!("({})", list(parts, " and ")),
        NodeKind::Or(parts) => format!("({})", list(parts, " or ")),
        NodeKind::Not(inner) => format!("(not {})", written(inner)),
        other => panic!("a part of a filter: {other:?}"),
    }
}

fn node(kind: NodeKind) -> Node {
    Node { kind, span: 0..0 }
}

fn numbers() -> BoxedStrategy<Node> {
    let leaf = prop_oneof![
        (0.0..100.0f64).prop_map(|number| node(NodeKind::Number(number))),
        prop_oneof![Just("a"), Just("b"), Just("model.c")]
            .prop_map(|name| node(NodeKind::Name(name.to_owned()))),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        let operation = prop_oneof![
            Just(Operation::Add),
            Just(Operation::Subtract),
            Just(Operation::Multiply),
            Just(Operation::Divide)
        ];
        prop_oneof![
            inner.clone().prop_map(|inner| node(NodeKind::Negative(Box::new(inner)))),
            (operation, inner.clone(), inner.clone()).prop_map(|(operation, left, right)| node(
                NodeKind::Operation(operation, Box::new(left), Box::new(right))
            )),
            prop::collection::vec(inner, 2..4)
                .prop_map(|parts| node(NodeKind::Call(Function::Max, parts))),
        ]
    })
    .boxed()
}

fn conditions() -> BoxedStrategy<Node> {
    let comparison = prop_oneof![
        Just(Comparison::Less),
        Just(Comparison::AtMost),
        Just(Comparison::More),
        Just(Comparison::AtLeast),
        Just(Comparison::Equal),
        Just(Comparison::Unequal)
    ];
    let leaf = (comparison, numbers(), numbers()).prop_map(|(comparison, left, right)| {
        node(NodeKind::Comparison(comparison, Box::new(left), Box::new(right)))
    });
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| node(NodeKind::And(parts))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| node(NodeKind::Or(parts))),
            inner.prop_map(|inner| node(NodeKind::Not(Box::new(inner)))),
        ]
    })
    .boxed()
}

/// The truth value of a tree whose names all have values; `None` if undefined.
fn is_true(node: &Node, value: &dyn Fn(&str) -> f64) -> Option<bool> {
    fn number(node: &Node, value: &dyn Fn(&str) -> f64) -> f64 {
        match &node.kind {
            NodeKind::Number(number) => *number,
            NodeKind::Name(name) => value(name),
            NodeKind::Negative(inner) => -number(inner, value),
            NodeKind::Operation(Operation::Add, left, right) => {
                number(left, value) + number(right, value)
            }
            NodeKind::Operation(Operation::Subtract, left, right) => {
                number(left, value) - number(right, value)
            }
            NodeKind::Operation(Operation::Multiply, left, right) => {
                number(left, value) * number(right, value)
            }
            NodeKind::Operation(_, left, right) => number(left, value) / number(right, value),
            NodeKind::Call(_, parts) => parts
                .iter()
                .map(|part| number(part, value))
                .reduce(|a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) })
                .unwrap(),
            other => panic!("{other:?}"),
        }
    }
    match &node.kind {
        NodeKind::And(parts) => {
            parts.iter().try_fold(true, |all, part| Some(all & is_true(part, value)?))
        }
        NodeKind::Or(parts) => {
            parts.iter().try_fold(false, |any, part| Some(any | is_true(part, value)?))
        }
        NodeKind::Not(inner) => is_true(inner, value).map(|inner| !inner),
        NodeKind::Comparison(comparison, left, right) => {
            let (left, right) = (number(left, value), number(right, value));
            let equal =
                left == right || (left - right).abs() <= 1e-12 * left.abs().max(right.abs());
            (!left.is_nan() && !right.is_nan()).then_some(match comparison {
                Comparison::Less => left < right,
                Comparison::AtMost => left <= right,
                Comparison::More => left > right,
                Comparison::AtLeast => left >= right,
                Comparison::Equal => equal,
                Comparison::Unequal => !equal,
            })
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn a_tree_is_read_back_from_its_text(tree in conditions()) {
        let text = written(&tree);
        prop_assert_eq!(written(&of(&text).root), text);
    }

    #[test]
    fn a_condition_is_broken_by_nothing_exactly_when_it_is_true(
        tree in conditions(),
        a in -5.0..5.0f64,
        b in -5.0..5.0f64,
        c in -5.0..5.0f64,
    ) {
        let value = |name: &str| match name {
            "a" => a,
            "b" => b,
            _ => c,
        };
        let Violation::By(over) =
            of(&written(&tree)).violation(|name| Some(Value::Float(value(name))))
        else {
            panic!("all is known")
        };
        prop_assert!(over >= 0.0 && over.is_finite());
        if let Some(truth) = is_true(&tree, &value) {
            prop_assert_eq!(over == 0.0, truth);
        }
    }

    #[test]
    fn what_is_certain_without_a_value_stays_so_with_any(
        tree in conditions(),
        a in -5.0..5.0f64,
        b in -5.0..5.0f64,
        c in -5.0..5.0f64,
    ) {
        let condition = of(&written(&tree));
        let known = |name: &str| match name {
            "a" => Some(Value::Float(a)),
            "b" => Some(Value::Float(b)),
            _ => None,
        };
        if let Violation::By(over) = condition.violation(known)
            && is_true(&tree, &|name| match name {
                "a" => a,
                "b" => b,
                _ => c,
            })
            .is_some()
        {
            let with = condition.violation(|name| known(name).or(Some(Value::Float(c))));
            prop_assert_eq!(Violation::By(0.0) == with, over == 0.0);
        }
    }

    #[test]
    fn no_text_brings_the_parser_down(text in "[ -~äλ]{0,60}") {
        if let Err(error) = Expression::parse(&text) {
            prop_assert!(text.get(error.span).is_some());
        }
    }

    #[test]
    fn no_sequence_of_its_own_words_brings_the_parser_or_the_check_down(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "a", "rate", "optim", "'sgd'", "3", "1e9", "(", ")", "+", "-", "**", "<", "<=",
                "==", "and", "or", "not", "max(", ",", "true", "\"model.width\"",
            ]),
            0..24,
        ),
    ) {
        let text = words.join(" ");
        match Expression::parse(&text) {
            Ok(condition) => {
                check(&condition, KnownNames::Parameters(&space()))
                    .iter()
                    .for_each(|problem| assert!(text.get(problem.span.clone()).is_some()));
                condition.violation(|_| None);
                condition.violation(|_| Some(Value::Float(0.5)));
                let json = serde_json::to_string(&condition).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Expression>(&json).unwrap(), &condition);
            }
            Err(error) => prop_assert!(text.get(error.span).is_some()),
        }
    }
}
