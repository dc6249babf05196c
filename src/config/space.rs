//! `[space]`: the searched parameters, checked individually and against each other.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use super::diagnostic::{Diagnostic, SourceSpan};
use super::section::nul;
use super::space_file::{self, Rows};
use super::syntax::{Form, Item, Node, TomlEntry, TomlTable, dotted};
use crate::study::field::FieldKind;
use crate::study::params::{Params, Value};
use crate::study::space::{
    Condition, Dimension, Distribution, DistributionError, Scale, Space, SpaceError,
};
use crate::study::suggestion::{nearest, quoted};

/// The three kinds of ranges.
pub(super) const KINDS: [&str; 3] = ["float", "int", "choice"];
/// Every key of a parameter.
pub(super) const KEYS: [&str; 7] = ["float", "int", "choice", "log", "step", "prior", "when"];

const EXAMPLE: &str = "write `learning_rate = { float = [1e-5, 1e-1], log = true }`, `{ int = [1, \
    8] }` or a list of choices";

/// A parameter with spans for messages.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// The parameter and its distribution.
    pub dimension: Dimension,
    /// The span of its name.
    pub place: SourceSpan,
    /// The span of its range.
    pub range: SourceSpan,
    prior: Option<SourceSpan>,
    /// For each condition, the span of the parent and those of its values.
    when: Vec<(SourceSpan, Vec<SourceSpan>)>,
}

/// The searched parameters, as far as they are valid.
#[derive(Clone, Debug, Default)]
pub(super) struct Searched {
    /// In the order of the file.
    pub parameters: Vec<Parameter>,
    /// The places of the parameters by their names.
    pub places: HashMap<String, usize>,
    /// The space; `None` if it is invalid.
    pub space: Option<Space>,
    /// Names of invalid parameters.
    pub refused: Vec<String>,
    /// The only configurations to search, from a file.
    pub candidates: Vec<Params>,
    /// Whether that file cannot be used: any name may be one of its columns.
    pub lacks_columns: bool,
}

impl Searched {
    /// The parameter called `name`.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.places.get(name).map(|place| &self.parameters[*place])
    }

    fn add(&mut self, parameter: Parameter) {
        self.places.insert(parameter.dimension.name.clone(), self.parameters.len());
        self.parameters.push(parameter);
    }

    /// Names of all parameters present, valid or not.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parameters
            .iter()
            .map(|parameter| parameter.dimension.name.as_str())
            .chain(self.refused.iter().map(String::as_str))
    }

    /// Whether the parameter `name` has no value in some configurations: it is conditional, or may
    /// be null.
    pub fn may_be_absent(&self, name: &str) -> bool {
        self.get(name).is_some_and(|parameter| {
            parameter.dimension.when.is_some() || parameter.dimension.is_nullable()
        })
    }

    /// Whether `name` is present, valid or not, as far as is known.
    pub fn mentions(&self, name: &str) -> bool {
        self.lacks_columns
            || self.get(name).is_some()
            || self.refused.iter().any(|refused| refused == name)
    }
}

/// The rule for names of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// As commands and the environment can name them.
    Plain,
    /// Any name, as JSON can quote it.
    Any,
}

/// Reads `[space]`; `base`: the directory to which its file is relative, if it may have one.
pub(super) fn read(
    table: &TomlTable,
    place: SourceSpan,
    names: Names,
    base: Option<&Path>,
    problems: &mut Vec<Diagnostic>,
) -> Searched {
    let before = problems.len();
    let mut searched = Searched::default();
    let mut written: BTreeMap<String, SourceSpan> = BTreeMap::new();
    let names_file =
        |entry: &&TomlEntry| entry.key == space_file::KEY && entry.value.text().is_some();
    let file = base.and_then(|base| Some((base, table.entries.iter().find(names_file)?)));
    for (name, entry) in definitions("", table) {
        if file.is_some_and(|(_, file)| file.place == entry.place) {
            continue;
        }
        if let Some(first) = written.get(&name) {
            let problem =
                Diagnostic::error(entry.place, format!("the parameter `{name}` is defined twice"))
                    .label("second time");
            problems.push(problem.related(*first, "first time").help("keep one of them"));
            continue;
        }
        written.insert(name.clone(), entry.place);
        match parameter(&name, entry, names, problems) {
            Some(parameter) => searched.add(parameter),
            None => searched.refused.push(name),
        }
    }
    let rows = file.and_then(|(base, entry)| Rows::read(entry, base, problems));
    searched.lacks_columns = file.is_some() && rows.is_none();
    if let (Some(rows), Some((_, entry))) = (&rows, file) {
        for dimension in rows.inferred(|name| written.contains_key(name)) {
            let (place, range) = (entry.place, entry.value.place);
            let when = Vec::new();
            searched.add(Parameter { dimension, place, range, prior: None, when });
        }
    }
    if written.is_empty() && file.is_none() && problems.len() == before {
        problems.push(
            Diagnostic::error(place, "[space] has no parameters")
                .label("nothing to search")
                .help(EXAMPLE),
        );
    }
    for parameter in &searched.parameters {
        check_references(parameter, &searched, problems);
    }
    if problems[before..].iter().all(|problem| problem.severity != super::Severity::Error) {
        searched.space = build(&searched, problems);
        if let (Some(rows), Some(space)) = (&rows, &searched.space) {
            searched.candidates = rows.candidates(space, problems);
        }
    }
    searched
}

/// Parameters by their dotted names, including nested tables.
fn definitions<'a>(prefix: &str, table: &'a TomlTable) -> Vec<(String, &'a TomlEntry)> {
    let mut definitions = Vec::new();
    for entry in &table.entries {
        let name = dotted(prefix, &entry.key);
        match &entry.value.item {
            Item::Table(nested) if is_group(nested) => {
                definitions.extend(self::definitions(&name, nested))
            }
            _ => definitions.push((name, entry)),
        }
    }
    definitions.sort_by_key(|(_, entry)| entry.place);
    definitions
}

/// Whether a table is a group of parameters. Invalid parameters must not count as groups.
fn is_group(table: &TomlTable) -> bool {
    let defines = |entry: &TomlEntry| {
        let nested = matches!(entry.value.item, Item::Table(_));
        (KEYS.contains(&entry.key.as_str()) && (!nested || entry.key == "when"))
            || (!nested && nearest(&entry.key, KINDS).is_some())
    };
    let all_tables = table.entries.iter().all(|entry| matches!(entry.value.item, Item::Table(_)));
    let all_ranges = table
        .entries
        .iter()
        .all(|entry| matches!(entry.value.item, Item::Table(_) | Item::List(_)));
    !table.entries.is_empty()
        && !table.entries.iter().any(defines)
        && if table.form == Form::Inline { all_tables } else { all_ranges }
}

fn parameter(
    name: &str,
    entry: &TomlEntry,
    names: Names,
    problems: &mut Vec<Diagnostic>,
) -> Option<Parameter> {
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
    if names == Names::Plain && !is_plain || name.is_empty() {
        let problem = Diagnostic::error(
            entry.place,
            format!("`{}` cannot be the name of a parameter", name.escape_debug()),
        );
        problems.push(problem.help("names have letters, digits, `_`, `-` and `.`"));
        return None;
    }
    let mut parameter = Parameter {
        dimension: Dimension::new(name, Distribution::Choice { choices: Vec::new() }),
        place: entry.place,
        range: entry.value.place,
        prior: None,
        when: Vec::new(),
    };
    match &entry.value.item {
        Item::List(list) => {
            parameter.dimension.distribution = choices(name, entry.value.place, list, problems)?
        }
        Item::Table(table) => defined(&mut parameter, table, entry.place, problems)?,
        _ => {
            let what = format!("`space.{name}` must be a range or a list of choices");
            problems.push(
                entry
                    .value
                    .wrong(what)
                    .help(EXAMPLE)
                    .help("a fixed value belongs in [trainer], or into the command itself"),
            );
            return None;
        }
    }
    Some(parameter)
}

/// `{ float = [low, high], log = true, prior = x, when = {..} }`.
fn defined(
    parameter: &mut Parameter,
    table: &TomlTable,
    place: SourceSpan,
    problems: &mut Vec<Diagnostic>,
) -> Option<()> {
    let before = problems.len();
    let name = parameter.dimension.name.clone();
    let unknown: Vec<&TomlEntry> =
        table.entries.iter().filter(|entry| !KEYS.contains(&entry.key.as_str())).collect();
    let mut bounds = 0;
    for entry in &unknown {
        let problem =
            Diagnostic::error(entry.place, format!("a parameter has no key `{}`", entry.key))
                .label("unknown key");
        if ["low", "high", "min", "max", "lower", "upper"].contains(&entry.key.as_str()) {
            bounds += 1;
            if bounds == 1 {
                problems.push(
                    problem
                        .help("write both bounds as `float = [low, high]` or `int = [low, high]`"),
                );
            }
            continue;
        }
        problems.push(match nearest(&entry.key, KEYS) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!("its keys are {}", quoted(KEYS))),
        });
    }
    let kinds: Vec<&TomlEntry> =
        table.entries.iter().filter(|entry| KINDS.contains(&entry.key.as_str())).collect();
    match kinds[..] {
        [] if unknown.is_empty() => problems
            .push(Diagnostic::error(place, format!("`space.{name}` has no range")).help(EXAMPLE)),
        [] => {}
        [kind] => {
            parameter.range = kind.value.place;
            parameter.dimension.distribution = distribution(&name, kind, table, problems)?;
        }
        [first, second, ..] => {
            let problem = Diagnostic::error(second.place, format!("`space.{name}` has two ranges"))
                .label("second");
            problems.push(problem.related(first.place, "first").help("keep one of them"));
        }
    }
    if let Some(entry) = table.get("prior") {
        parameter.prior = Some(entry.value.place);
        parameter.dimension.prior = scalar(&entry.value, ScalarOf::Prior(&name), problems);
    }
    if let Some(entry) = table.get("when") {
        let (condition, places) = condition(&name, &entry.value, problems);
        parameter.dimension.when = Some(condition);
        parameter.when = places;
    }
    (problems.len() == before).then_some(())
}

fn distribution(
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
        Ok(distribution) => Some(distribution),
        Err(error) => {
            problems.push(range_problem(name, &error, kind, (low, high), log, step));
            None
        }
    }
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
        DistributionError::TooWide { .. } => {
            let problem =
                Diagnostic::error(range, format!("`space.{name}`: the range is too wide"));
            problem.help(if kind.key == "int" {
                "bounds lie between -4503599627370496 and 4503599627370496 (2^52)"
            } else {
                "bring the bounds closer together, or search the logarithm of the parameter"
            })
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

fn choices(
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

/// The purpose of a scalar, with the parameter's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarOf<'a> {
    /// One of its choices.
    Choice(&'a str),
    /// Its prior.
    Prior(&'a str),
    /// A value of the parent in its condition.
    When(&'a str),
    /// Its value in an enqueued configuration.
    Enqueued(&'a str),
}

impl fmt::Display for ScalarOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScalarOf::Choice(name) => write!(f, "a choice of `space.{name}`"),
            ScalarOf::Prior(name) => write!(f, "`space.{name}.prior`"),
            ScalarOf::When(name) => write!(f, "`space.{name}.when`"),
            ScalarOf::Enqueued(name) => write!(f, "`enqueue.{name}`"),
        }
    }
}

/// A value of a parameter: a scalar, a list of scalars, or null (`{ none = true }`).
pub(super) fn scalar(
    node: &Node,
    of: ScalarOf<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Option<Value> {
    let elements = node.list().unwrap_or(std::slice::from_ref(node));
    if let Some(node) = elements.iter().find(|node| node.text().is_some_and(|t| t.contains('\0'))) {
        problems.push(nul(of, node));
        return None;
    }
    let value = of_node(node);
    if value.is_none() {
        let problem = node.wrong(format!("{of} must be {}", FieldKind::Scalar));
        problems.push(match (&node.item, of) {
            (Item::Date(date), _) => problem.help(format!("write it in quotes: \"{date}\"")),
            (_, ScalarOf::Enqueued(_)) => {
                problem.help("give one value; other configurations are [[enqueue]]s of their own")
            }
            (Item::List(_), _) => problem.help(
                "a choice that is a list has numbers, strings and booleans in it: `[64, 32]`",
            ),
            (Item::Table(_), _) => problem.help("for no value write `{ none = true }`"),
            _ => problem.help("write for example 0.1, \"adamw\" or true"),
        });
    }
    value
}

fn of_node(node: &Node) -> Option<Value> {
    let scalar = |node: &Node| match node.item {
        Item::Date(_) | Item::List(_) | Item::Table(_) => None,
        Item::Number(number) if !number.is_finite() => None,
        _ => Value::from_json(&node.to_json()),
    };
    match &node.item {
        Item::Table(table) => table.is_null().then_some(Value::Null),
        Item::List(list) => list.iter().map(scalar).collect::<Option<_>>().map(Value::List),
        _ => scalar(node),
    }
}

/// `when = { other = value }` or `{ other = [values] }`; the parent's name may be dotted or quoted.
fn condition(
    name: &str,
    node: &Node,
    problems: &mut Vec<Diagnostic>,
) -> (Condition, Vec<(SourceSpan, Vec<SourceSpan>)>) {
    let what = format!("space.{name}.when");
    let Some(table) = node.table() else {
        let problem = node.wrong(format!("`{what}` must be a table"));
        problems.push(problem.help(
            "write `when = { optimizer = \"sgd\" }` or `when = { optimizer \
            = [\"sgd\", \"adam\"] }`",
        ));
        return Default::default();
    };
    let mut condition = Condition::default();
    let mut places = Vec::new();
    for leaf in table.leaves() {
        let nodes: &[Node] = leaf.value.list().unwrap_or(std::slice::from_ref(leaf.value));
        if nodes.is_empty() {
            problems.push(
                Diagnostic::error(leaf.value.place, format!("`{what}` can never hold"))
                    .label("no values")
                    .help("give at least one value"),
            );
        }
        let values: Vec<Value> =
            nodes.iter().filter_map(|node| scalar(node, ScalarOf::When(name), problems)).collect();
        if values.len() == nodes.len() {
            condition.0.push((leaf.name, values));
            places.push((leaf.place, nodes.iter().map(|node| node.place).collect()));
        }
    }
    if table.leaves().is_empty() {
        problems.push(
            Diagnostic::error(node.place, format!("`{what}` names no parameter"))
                .help("leave it out, or write `when = { optimizer = \"sgd\" }`"),
        );
    }
    (condition, places)
}

fn check_references(parameter: &Parameter, searched: &Searched, problems: &mut Vec<Diagnostic>) {
    let Dimension { name, distribution, prior, when } = &parameter.dimension;
    if let (Some(prior), Some(place)) = (prior, parameter.prior)
        && !distribution.contains(prior)
    {
        let problem = Diagnostic::error(
            place,
            SpaceError::Prior { name: name.clone(), prior: prior.clone() }.to_string(),
        );
        let problem =
            problem.label(format!("not {distribution}")).related(parameter.range, "the range");
        problems.push(problem.help("give a value of the range, or leave `prior` out"));
    }
    for ((parent, values), (place, value_places)) in
        when.iter().flat_map(|when| &when.0).zip(&parameter.when)
    {
        let Some(found) = searched.get(parent) else {
            if !searched.mentions(parent) {
                let error =
                    SpaceError::UnknownParent { name: name.clone(), parent: parent.clone() };
                let problem = Diagnostic::error(*place, error.to_string()).label("not a parameter");
                let near = nearest(parent, searched.names().filter(|other| other != name));
                problems.push(match near {
                    Some(near) => problem.help(format!("did you mean `{near}`?")),
                    None => problem.help("a condition names another parameter of [space]"),
                });
            }
            continue;
        };
        for (value, place) in values.iter().zip(value_places) {
            if !found.dimension.distribution.contains(value) {
                let error = SpaceError::ImpossibleParentValue {
                    name: name.clone(),
                    parent: parent.clone(),
                    value: value.clone(),
                };
                let problem = Diagnostic::error(*place, error.to_string())
                    .label(format!("not {}", found.dimension.distribution))
                    .related(found.range, format!("the values of `{parent}`"));
                problems.push(problem.help("name one of its values, or add this one to them"));
            }
        }
    }
}

fn build(searched: &Searched, problems: &mut Vec<Diagnostic>) -> Option<Space> {
    let dimensions =
        searched.parameters.iter().map(|parameter| parameter.dimension.clone()).collect();
    let error = match Space::new(dimensions) {
        Ok(space) => return Some(space),
        Err(error) => error,
    };
    let concerned = match &error {
        SpaceError::Circle { names } => names.as_slice(),
        SpaceError::Nested { name, .. } => std::slice::from_ref(name),
        _ => &[],
    };
    let mut places = concerned.iter().filter_map(|name| {
        let Parameter { place, when, .. } = searched.get(name)?;
        Some(when.first().map_or(*place, |(place, _)| *place))
    });
    let problem = Diagnostic::error(places.next(), error.to_string());
    let problem = places.fold(problem, |problem, place| problem.related(place, "and this"));
    problems.push(problem.help("take one of the conditions away"));
    None
}
