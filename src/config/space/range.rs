//! The values that a parameter may have: a range of numbers, or choices.

use super::EXAMPLE;
use crate::config::diagnostic::{Diagnostic, SourceSpan};
use crate::config::scalar::{ScalarOf, scalar};
use crate::config::syntax::{Item, Node, TomlEntry, TomlTable};
use crate::study::params::Value;
use crate::study::space::{Distribution, DistributionError, Scale};

pub(super) fn distribution(
    name: &str,
    kind: &TomlEntry,
    table: &TomlTable,
    problems: &mut Vec<Diagnostic>,
) -> Option<Distribution> {
    let (log, step) = (table.get("log"), table.get("step"));
    if kind.key == "choice" {
        for entry in [log, step].into_iter().flatten() {
            problems.push(
                Diagnostic::error(entry.place, format!("a list of choices has no `{}`", entry.key))
                    .help("leave it out"),
            );
        }
        let Some(list) = kind.value.list() else {
            let problem = kind.value.wrong(format!("`space.{name}.choice` must be a list"));
            problems.push(problem.help("write `choice = [\"adamw\", \"sgd\"]`"));
            return None;
        };
        return choices(name, kind.value.place, list, problems);
    }
    let scale = match log.map(|entry| (&entry.value.item, entry)) {
        None | Some((Item::Flag(false), _)) => Scale::Linear,
        Some((Item::Flag(true), _)) => Scale::Log,
        Some((_, entry)) => {
            let problem = entry.value.wrong(format!("`space.{name}.log` must be true or false"));
            problems.push(problem.help("write `log = true`, without quotes, or leave it out"));
            return None;
        }
    };
    let Some([low, high]) = kind.value.list() else {
        let problem = Diagnostic::error(
            kind.value.place,
            format!("`space.{name}.{}` must be a list of two numbers", kind.key),
        );
        let example = if kind.key == "int" { "int = [1, 8]" } else { "float = [1e-5, 1e-1]" };
        problems.push(
            problem
                .label("expected [low, high]")
                .help(format!("write `{example}`; a list of values is a `choice`")),
        );
        return None;
    };
    let numbers = [
        ("the lower bound", Some(low)),
        ("the upper bound", Some(high)),
        ("the step", step.map(|entry| &entry.value)),
    ];
    let made = if kind.key == "int" {
        let help = |node: &Node| match node.number() {
            Some(_) => "for real numbers write `float = [..]`",
            None => "write an integer without quotes, such as 8",
        };
        let [low, high, step] =
            numbers_of(numbers, name, ("an integer", &help), Node::whole, problems)?;
        match step {
            Some(_) if scale == Scale::Log => Err(DistributionError::LogAndStep),
            step => Distribution::int(low?, high?, scale, step.unwrap_or(1)),
        }
    } else {
        let read = |node: &Node| match node.item {
            Item::Number(number) => Some(number),
            _ => node.number(),
        };
        let help = |_: &Node| "write a number without quotes, such as 0.1 or 1e-5";
        let [low, high, step] = numbers_of(numbers, name, ("a number", &help), read, problems)?;
        Distribution::float(low?, high?, scale, step)
    };
    match made {
        Ok(distribution) => {
            problems.extend(unreached_bound(name, &distribution, high, step));
            Some(distribution)
        }
        Err(error) => {
            problems.push(range_problem(name, &error, kind, (low, high), log, step));
            None
        }
    }
}

/// A warning about an upper bound that the steps do not reach.
fn unreached_bound(
    name: &str,
    distribution: &Distribution,
    high: &Node,
    step: Option<&TomlEntry>,
) -> Option<Diagnostic> {
    let step = step?;
    let largest = distribution.nth(distribution.cardinality()?.checked_sub(1)?)?;
    let bound = high.number()?;
    // Rounding leaves a grid a little off its bound.
    let is_reached = distribution.contains(&Value::Float(bound));
    let message =
        format!("`space.{name}` never has its upper bound: its largest value is {largest}");
    let problem = Diagnostic::warning(high.place, message)
        .related(step.value.place, "the steps are counted from the lower bound")
        .help(format!("write {largest} as the upper bound, or another step"));
    (!is_reached).then_some(problem)
}

pub(super) fn choices(
    name: &str,
    place: SourceSpan,
    list: &[Node],
    problems: &mut Vec<Diagnostic>,
) -> Option<Distribution> {
    let before = problems.len();
    let values: Vec<Value> =
        list.iter().filter_map(|node| scalar(node, ScalarOf::Choice(name), problems)).collect();
    if problems.len() != before {
        return None;
    }
    match Distribution::choice(values.clone()) {
        Ok(distribution) => return Some(distribution),
        Err(DistributionError::Twice { choice }) => {
            let mut places = list.iter().zip(&values).filter(|(_, value)| value.same(&choice));
            let (first, second) = (places.next(), places.next());
            let message = format!("the choice `{choice}` of `space.{name}` appears twice");
            problems.push(
                Diagnostic::error(second.map(|(node, _)| node.place), message)
                    .label("second time")
                    .related(first.map(|(node, _)| node.place), "first time")
                    .help("keep one of them"),
            );
        }
        Err(error) => problems.push(
            Diagnostic::error(place, format!("`space.{name}`: {error}")).help("give at least one"),
        ),
    }
    None
}

/// The numbers of a range, unless one of them is invalid.
fn numbers_of<T: Copy>(
    nodes: [(&str, Option<&Node>); 3],
    name: &str,
    (kind, help): (&str, &dyn Fn(&Node) -> &'static str),
    read: impl Fn(&Node) -> Option<T>,
    problems: &mut Vec<Diagnostic>,
) -> Option<[Option<T>; 3]> {
    let before = problems.len();
    let numbers = nodes.map(|(what, node)| {
        let node = node?;
        let number = read(node);
        if number.is_none() {
            let problem = node.wrong(format!("{what} of `space.{name}` must be {kind}"));
            problems.push(problem.help(help(node)));
        }
        number
    });
    (problems.len() == before).then_some(numbers)
}

/// The exact location of a problem of a range, and the remedy.
fn range_problem(
    name: &str,
    error: &DistributionError,
    kind: &TomlEntry,
    (low, high): (&Node, &Node),
    log: Option<&TomlEntry>,
    step: Option<&TomlEntry>,
) -> Diagnostic {
    let message = format!("`space.{name}`: {error}");
    let range = kind.value.place;
    match error {
        DistributionError::Reversed { .. } => {
            let (low, high) = (low.describe(), high.describe());
            let message =
                format!("`space.{name}`: the lower bound {low} is above the upper bound {high}");
            Diagnostic::error(range, message).help("write the smaller bound first")
        }
        DistributionError::IntegersTooWide { .. } => {
            Diagnostic::error(range, format!("`space.{name}`: the range is too wide"))
                .help("bounds lie between -4503599627370496 and 4503599627370496 (2^52)")
        }
        DistributionError::TooWide { .. } => {
            Diagnostic::error(range, format!("`space.{name}`: the range is too wide"))
                .help("bring the bounds closer together, or search the logarithm of the parameter")
        }
        DistributionError::LogNeedsPositive { .. } => Diagnostic::error(low.place, message)
            .label("must be above 0")
            .related(log.map(|entry| entry.place), "because of this")
            .help("raise the lower bound, or leave out `log`"),
        DistributionError::LogAndStep => Diagnostic::error(step.unwrap_or(kind).place, message)
            .related(log.map(|entry| entry.place), "the logarithmic axis")
            .help("leave one of them out"),
        DistributionError::Step { .. } => {
            Diagnostic::error(step.unwrap_or(kind).value.place, message)
                .help("write a step above 0 and at most as wide as the range")
        }
        DistributionError::TooFine { .. } => {
            Diagnostic::error(step.unwrap_or(kind).value.place, message)
                .help("write a wider step, or none for a continuous range")
        }
        DistributionError::NotFinite => {
            let infinite = if low.number().is_none() { low } else { high };
            Diagnostic::error(infinite.place, message)
                .help("write finite bounds, such as [1e-6, 1.0]")
        }
        _ => Diagnostic::error(range, message).help(EXAMPLE),
    }
}
