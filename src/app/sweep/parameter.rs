//! The parameters of a sweep as those of a study: fixed values, ranges and choices.

use super::Findings;
use super::python;
use super::yaml::{Entry, Item, Node, Or};
use crate::config::{Diagnostic, SourceSpan};
use crate::report::wording::toml_value;
use crate::study::params::Value;
use crate::study::space::{Distribution, NAME_RULE, Scale, is_plain_name};
use crate::study::suggestion::{nearest, quoted};

/// A parameter.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name; that of a nested one is joined with dots.
    pub name: String,
    /// The name's parts.
    pub path: Vec<String>,
    /// Its values.
    pub values: Values,
}

/// The values of a parameter.
#[derive(Clone, Debug)]
pub enum Values {
    /// One value, which is not searched.
    Fixed(Node),
    /// Searched.
    Searched(Searched),
}

/// The values of a searched parameter.
#[derive(Clone, Debug)]
pub struct Searched {
    /// Its set of values.
    pub distribution: Distribution,
    /// Where the best value is expected.
    pub prior: Option<Value>,
    /// A comment on it in the study file.
    pub comment: Option<String>,
}

impl Parameter {
    /// Its values as a study file has them.
    pub fn toml(searched: &Searched, with_prior: bool) -> String {
        let number = |value: f64| toml_value(&Value::Float(value));
        let mut keys = Vec::new();
        match &searched.distribution {
            Distribution::Float { low, high, scale, step, .. } => {
                keys.push(format!("float = [{}, {}]", number(*low), number(*high)));
                keys.extend((*scale == Scale::Log).then(|| "log = true".to_owned()));
                keys.extend(step.map(|step| format!("step = {}", number(step))));
            }
            Distribution::Int { low, high, scale, step } => {
                keys.push(format!("int = [{low}, {high}]"));
                keys.extend((*scale == Scale::Log).then(|| "log = true".to_owned()));
                keys.extend((*step != 1).then(|| format!("step = {step}")));
            }
            Distribution::Choice { choices } => {
                let list: Vec<String> = choices.iter().map(toml_value).collect();
                keys.push(format!("choice = [{}]", list.join(", ")));
            }
        }
        keys.extend(
            searched
                .prior
                .as_ref()
                .filter(|_| with_prior)
                .map(|prior| format!("prior = {}", toml_value(prior))),
        );
        match (&searched.distribution, &keys[..]) {
            (Distribution::Choice { .. }, [choice]) => choice["choice = ".len()..].to_owned(),
            _ => format!("{{ {} }}", keys.join(", ")),
        }
    }
}

/// The distributions, the keys that each needs, and those that it may have.
const DISTRIBUTIONS: &[(&str, &[&str], &[&str])] = &[
    ("constant", &["value"], &[]),
    ("categorical", &["values"], &[]),
    ("categorical_w_probabilities", &["values", "probabilities"], &[]),
    ("int_uniform", &["min", "max"], &[]),
    ("uniform", &["min", "max"], &[]),
    ("q_uniform", &["min", "max"], &["q"]),
    ("log_uniform", &["min", "max"], &[]),
    ("log_uniform_values", &["min", "max"], &[]),
    ("q_log_uniform", &["min", "max"], &["q"]),
    ("q_log_uniform_values", &["min", "max"], &["q"]),
    ("inv_log_uniform", &["min", "max"], &[]),
    ("inv_log_uniform_values", &["min", "max"], &[]),
    ("normal", &[], &["mu", "sigma"]),
    ("q_normal", &[], &["mu", "sigma", "q"]),
    ("log_normal", &[], &["mu", "sigma"]),
    ("q_log_normal", &[], &["mu", "sigma", "q"]),
    ("beta", &[], &["a", "b"]),
    ("q_beta", &[], &["a", "b", "q"]),
];

/// Reads the mapping `parameters`, and those nested in it.
pub fn read(map: &Entry, path: &[String], is_grid: bool, found: &mut Findings) -> Vec<Parameter> {
    let Some(entries) = map.value.entries().filter(|entries| !entries.is_empty()) else {
        let message = format!("`parameters` must be a mapping, not {}", map.value.kind());
        found.problem(
            Diagnostic::error(map.place, message).help("write `lr: { min: 0.001, max: 0.1 }`"),
        );
        return Vec::new();
    };
    let mut parameters = Vec::new();
    for entry in entries {
        let path = [path, std::slice::from_ref(&entry.key)].concat();
        let name = path.join(".");
        if !is_plain_name(&entry.key) {
            let message = format!("`{}` cannot be the name of a parameter", entry.key);
            found.problem(Diagnostic::error(entry.place, message).help(NAME_RULE));
            continue;
        }
        let Some(keys) = entry.value.entries() else {
            let message = format!("`{name}` must be a mapping, not {}", entry.value.kind());
            let help = format!(
                "write `{}: {{ value: .. }}`, `values: [..]`, or `min` and `max`",
                entry.key
            );
            found.problem(Diagnostic::error(entry.place, message).help(help));
            continue;
        };
        let nested = keys.iter().find(|key| key.key == "parameters");
        if let Some(nested) = nested.filter(|_| keys.len() == 1) {
            parameters.extend(read(nested, &path, is_grid, found));
            continue;
        }
        let definition = Definition { name: &name, place: entry.place, keys, is_grid };
        match definition.values(found) {
            Ok(values) => parameters.push(Parameter { name, path, values }),
            Err(problem) => found.problem(*problem),
        }
    }
    parameters
}

/// The keys of a parameter.
struct Definition<'a> {
    name: &'a str,
    place: SourceSpan,
    keys: &'a [Entry],
    is_grid: bool,
}

impl Definition<'_> {
    fn get(&self, key: &str) -> Option<&Entry> {
        self.keys.iter().find(|entry| entry.key == key)
    }

    fn error(
        &self,
        place: impl Into<Option<SourceSpan>>,
        what: impl std::fmt::Display,
        help: impl Into<String>,
    ) -> Box<Diagnostic> {
        let place = place.into().unwrap_or(self.place);
        Box::new(Diagnostic::error(place, format!("`{}`: {what}", self.name)).help(help))
    }

    /// The distribution's name: the given one, or by the keys, as W&B infers it.
    fn kind(&self) -> Or<&'static str> {
        let known = || DISTRIBUTIONS.iter().map(|(name, ..)| *name);
        if let Some(entry) = self.get("distribution") {
            let given = entry.value.text().unwrap_or_default();
            return known().find(|name| *name == given).ok_or_else(|| {
                let help = match nearest(given, known()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("W&B's are {}", quoted(known())),
                };
                self.error(entry.place, format!("there is no distribution `{given}`"), help)
            });
        }
        let has = |key: &str| self.get(key).is_some();
        let is_int = |key: &str| matches!(self.get(key).map(|e| &e.value.item), Some(Item::Int(_)));
        match () {
            () if has("value") => Ok("constant"),
            () if has("probabilities") => Ok("categorical_w_probabilities"),
            () if has("values") => Ok("categorical"),
            () if is_int("min") && is_int("max") => Ok("int_uniform"),
            () if has("min") || has("max") => Ok("uniform"),
            () => {
                let near = self.keys.iter().find_map(|entry| {
                    let known = match entry.value.item {
                        Item::List(_) => &["values", "probabilities"][..],
                        _ => &["value", "min", "max", "distribution"],
                    };
                    let near = nearest(&entry.key, known.iter().copied())?;
                    Some(format!("did you mean `{near}`?"))
                });
                let help = near.unwrap_or_else(|| {
                    "write `value`, `values`, `min` and `max`, a `distribution`, or nested \
                     `parameters` alone"
                        .to_owned()
                });
                Err(self.error(None, "it has no values", help))
            }
        }
    }

    fn values(&self, found: &mut Findings) -> Or<Values> {
        let kind = self.kind()?;
        let (_, needed, optional) =
            DISTRIBUTIONS.iter().find(|(name, ..)| *name == kind).expect("it is one of them");
        let of_it = || needed.iter().chain(*optional).copied();
        for entry in self.keys.iter().filter(|entry| entry.key != "distribution") {
            if !of_it().any(|key| key == entry.key) {
                let what = format!("`{kind}` has no key `{}`", entry.key);
                let help = format!("its keys are {}", quoted(of_it()));
                return Err(self.error(entry.place, what, help));
            }
        }
        if let Some(missing) = needed.iter().find(|key| self.get(key).is_none()) {
            let what = format!("`{kind}` needs `{missing}`");
            return Err(self.error(None, what, format!("add a line `{missing}: ..`")));
        }
        if kind == "constant" {
            let value = self.get("value").expect("it is needed").value.clone();
            return Ok(Values::Fixed(value));
        }
        let continuous = !["categorical", "int_uniform", "q_uniform"].contains(&kind);
        if self.is_grid && continuous {
            found.note(format!(
                "`{}`: W&B's grid takes no `{kind}`; here a grid has 5 points of a continuous \
                 range ([sampler] points)",
                self.name
            ));
        }
        let searched = match kind {
            "categorical" | "categorical_w_probabilities" => self.choice(found)?,
            "int_uniform" => self.integers()?,
            "uniform" => {
                let (low, high) = self.bounds()?;
                self.made(Distribution::float(low, high, Scale::Linear, None))?
            }
            "q_uniform" => self.multiples()?,
            "beta" | "q_beta" => self.beta(kind, found)?,
            "normal" | "q_normal" | "log_normal" | "q_log_normal" => self.normal(kind, found)?,
            _ => self.logarithmic(kind, found)?,
        };
        Ok(Values::Searched(searched))
    }

    fn made(&self, distribution: Result<Distribution, impl std::fmt::Display>) -> Or<Searched> {
        let distribution = distribution
            .map_err(|error| self.error(None, error, "change the bounds, or the step `q`"))?;
        Ok(Searched { distribution, prior: None, comment: None })
    }

    fn number(&self, key: &str, default: f64) -> Or<f64> {
        let Some(entry) = self.get(key) else { return Ok(default) };
        entry.value.number().ok_or_else(|| {
            let what = format!("`{key}` must be a number, not {}", entry.value.kind());
            self.error(entry.place, what, "write it without quotes, such as 0.1 or 1e-5")
        })
    }

    fn bounds(&self) -> Or<(f64, f64)> {
        let (low, high) = (self.number("min", f64::NAN)?, self.number("max", f64::NAN)?);
        self.in_order(low, high, low < high)?;
        Ok((low, high))
    }

    fn in_order(&self, low: impl ToString, high: impl ToString, is_so: bool) -> Or<()> {
        let what = format!("`min: {}` is not below `max: {}`", low.to_string(), high.to_string());
        if is_so { Ok(()) } else { Err(self.error(None, what, "write one value as `value: ..`")) }
    }

    fn integers(&self) -> Or<Searched> {
        let bound = |key: &str| match self.get(key).map(|entry| (&entry.value.item, entry)) {
            Some((Item::Int(int), _)) => Ok(*int),
            Some((_, entry)) => {
                let what = format!("`{key}` must be an integer, not {}", entry.value.kind());
                Err(self.error(entry.place, what, "for real numbers write `distribution: uniform`"))
            }
            None => Err(self.error(None, format!("`{key}` is missing"), "give both bounds")),
        };
        let (low, high) = (bound("min")?, bound("max")?);
        self.in_order(low, high, low < high)?;
        self.made(Distribution::int(low, high, Scale::Linear, 1))
    }

    /// The distance between values, and whether they are integers: W&B's are if `q` is one.
    fn step(&self) -> Or<(f64, bool)> {
        let q = self.number("q", 1.0)?;
        let is_int = matches!(self.get("q").map(|entry| &entry.value.item), Some(Item::Int(_)));
        if q > 0.0 {
            return Ok((q, is_int));
        }
        Err(self.error(self.get("q").map(|entry| entry.place), "`q` must be above 0", "such as 1"))
    }

    /// The multiples of `q` from that nearest to `low` to that nearest to `high`, as W&B rounds.
    fn stepped(&self, low: f64, high: f64) -> Or<Searched> {
        let (q, is_int) = self.step()?;
        let (first, last) = ((low / q).round_ties_even(), (high / q).round_ties_even());
        if is_int {
            let multiple = |times: f64| self.integer(times * q);
            let step = self.integer(q)?;
            return self.made(Distribution::int(
                multiple(first)?,
                multiple(last)?,
                Scale::Linear,
                step,
            ));
        }
        let multiple = |times: f64| rounded(times * q);
        self.made(Distribution::float(multiple(first), multiple(last), Scale::Linear, Some(q)))
    }

    #[expect(clippy::cast_possible_truncation, reason = "checked")]
    fn integer(&self, value: f64) -> Or<i64> {
        if value.abs() < 9e15 {
            return Ok(value.round() as i64);
        }
        Err(self.error(None, "its integers are too large", "give smaller bounds"))
    }

    fn multiples(&self) -> Or<Searched> {
        let (low, high) = self.bounds()?;
        let (q, _) = self.step()?;
        if self.is_grid {
            // W&B's grid counts from the lower bound, and leaves out the upper one.
            let last = low + q * (((high - low) / q - 1e-9).ceil() - 1.0).max(0.0);
            let is_int = |key: &str| {
                self.get(key).is_some_and(|entry| matches!(entry.value.item, Item::Int(_)))
            };
            let mut made = if ["min", "max", "q"].into_iter().all(is_int) {
                let (low, last, q) = (self.integer(low)?, self.integer(last)?, self.integer(q)?);
                self.made(Distribution::int(low, last, Scale::Linear, q))?
            } else {
                self.made(Distribution::float(low, rounded(last), Scale::Linear, Some(q)))?
            };
            made.comment = Some("W&B's grid leaves out `max`".to_owned());
            return Ok(made);
        }
        let mut made = self.stepped(low, high)?;
        let is_same = |bound: f64| (bound / q - (bound / q).round()).abs() < 1e-9;
        if !is_same(low) || !is_same(high) {
            made.comment = Some(format!("W&B rounds {low} to {high} to multiples of {q}"));
        }
        Ok(made)
    }

    fn logarithmic(&self, kind: &str, found: &mut Findings) -> Or<Searched> {
        let (min, max) = self.bounds()?;
        let (low, high) = if kind.ends_with("_values") {
            (min, max)
        } else {
            if 0.0 < min && max <= 1.0 {
                found.note(format!(
                    "`{}`: `min` and `max` of `{kind}` are exponents of e; if values are meant, \
                     write `{kind}_values`",
                    self.name
                ));
            }
            // The inverse of X is uniform in its logarithm: so is X, between the inverse bounds.
            if kind.starts_with("inv_") {
                ((-max).exp(), (-min).exp())
            } else {
                (min.exp(), max.exp())
            }
        };
        if low <= 0.0 || !high.is_finite() {
            let help = if kind.ends_with("_values") {
                "a logarithmic range needs bounds above 0".to_owned()
            } else {
                format!("its bounds are exponents of e: for values write `{kind}_values`")
            };
            return Err(self.error(None, format!("the range is {low} to {high}"), help));
        }
        let mut made = if kind.starts_with("q_") {
            self.stepped_logarithmic(low, high, found)?
        } else {
            self.made(Distribution::float(low, high, Scale::Log, None))?
        };
        if !kind.ends_with("_values") {
            let sign = if kind.starts_with("inv_") { "-" } else { "" };
            let (first, last) = if sign.is_empty() { (min, max) } else { (max, min) };
            let is = format!("exp({sign}{first}) to exp({sign}{last})").replace("--", "");
            made.comment = Some(match made.comment {
                Some(comment) => format!("{is}; {comment}"),
                None => is,
            });
        }
        Ok(made)
    }

    /// Multiples of `q` on a logarithmic axis, which is exact for 1; otherwise either the axis or
    /// the multiples are kept, by how wide the range is.
    fn stepped_logarithmic(&self, low: f64, high: f64, found: &mut Findings) -> Or<Searched> {
        const WIDE: f64 = 100.0;
        let (q, is_int) = self.step()?;
        let (first, last) = ((low / q).round_ties_even() * q, (high / q).round_ties_even() * q);
        if (is_int || q == 1.0) && first >= 1.0 && (q == 1.0 || last / first >= WIDE) {
            let (first, last) = (self.integer(first)?, self.integer(last)?);
            let mut made = self.made(Distribution::int(first, last, Scale::Log, 1))?;
            if q != 1.0 {
                self.lost(&mut made, &format!("not only multiples of {q}"), found);
            }
            return Ok(made);
        }
        if first > 0.0 && last / first >= WIDE {
            let mut made = self.made(Distribution::float(low, high, Scale::Log, None))?;
            self.lost(&mut made, &format!("not only multiples of {q}"), found);
            return Ok(made);
        }
        let mut made = self.stepped(low, high)?;
        self.lost(&mut made, "on a linear axis: a logarithmic one has no steps", found);
        Ok(made)
    }

    /// Says what of the sweep the study has not.
    fn lost(&self, made: &mut Searched, what: &str, found: &mut Findings) {
        found.note(format!("`{}`: {what}", self.name));
        made.comment = Some(what.to_owned());
    }

    fn normal(&self, kind: &str, found: &mut Findings) -> Or<Searched> {
        const DEVIATIONS: f64 = 3.0;
        let (mu, sigma) = (self.number("mu", 0.0)?, self.number("sigma", 1.0)?);
        if sigma <= 0.0 {
            let place = self.get("sigma").map(|entry| entry.place);
            return Err(self.error(place, "`sigma` must be above 0", "write one value as `value`"));
        }
        let (low, high) = (mu - DEVIATIONS * sigma, mu + DEVIATIONS * sigma);
        let is_log = kind.ends_with("log_normal");
        let (low, high, middle) =
            if is_log { (low.exp(), high.exp(), mu.exp()) } else { (low, high, mu) };
        let mut made = match (kind.starts_with("q_"), is_log) {
            (true, true) => {
                if low <= 0.0 || !high.is_finite() {
                    let what = format!("the range is {low} to {high}");
                    return Err(self.error(
                        None,
                        what,
                        "`mu` and `sigma` are those of the logarithm",
                    ));
                }
                self.stepped_logarithmic(low, high, &mut Findings::default())?
            }
            (true, false) => self.stepped(low, high)?,
            (false, true) => self.made(Distribution::float(low, high, Scale::Log, None))?,
            (false, false) => self.made(Distribution::float(low, high, Scale::Linear, None))?,
        };
        self.expect(&mut made, middle);
        let what = format!("W&B's is {kind}, without bounds: here mu \u{b1} 3 sigma and a prior");
        self.lost(&mut made, &what, found);
        Ok(made)
    }

    fn beta(&self, kind: &str, found: &mut Findings) -> Or<Searched> {
        let (a, b) = (self.number("a", 1.0)?, self.number("b", 1.0)?);
        if a <= 0.0 || b <= 0.0 {
            return Err(self.error(None, "`a` and `b` must be above 0", "such as 2 and 5"));
        }
        let mut made = if kind == "q_beta" {
            self.stepped(0.0, 1.0)?
        } else {
            self.made(Distribution::float(0.0, 1.0, Scale::Linear, None))?
        };
        if (a, b) != (1.0, 1.0) {
            self.expect(&mut made, a / (a + b));
            let what = format!("W&B's is {kind} with a = {a}, b = {b}: here a prior at its mean");
            self.lost(&mut made, &what, found);
        }
        Ok(made)
    }

    /// Sets the prior to the nearest value.
    fn expect(&self, made: &mut Searched, value: f64) {
        let nearest = match &made.distribution {
            Distribution::Float { low, high, step: Some(step), .. } => {
                let steps = ((value - low) / step).round_ties_even();
                Value::Float(rounded(low + steps * step).clamp(*low, *high))
            }
            Distribution::Float { .. } => Value::Float(value),
            Distribution::Int { low, high, step, .. } => {
                let Ok(value) = self.integer(value) else { return };
                let steps = (value.clamp(*low, *high) - low) / step;
                Value::Int(low + steps * step)
            }
            Distribution::Choice { .. } => return,
        };
        made.prior = Some(nearest).filter(|prior| made.distribution.contains(prior));
    }

    fn choice(&self, found: &mut Findings) -> Or<Searched> {
        let entry = self.get("values").expect("it is needed");
        let Item::List(nodes) = &entry.value.item else {
            let what = format!("`values` must be a list, not {}", entry.value.kind());
            return Err(self.error(entry.place, what, "write `values: [a, b]`"));
        };
        let probabilities = self.probabilities(nodes)?;
        let mut choices: Vec<(Value, f64)> = Vec::new();
        let mut twice = Vec::new();
        for (node, probability) in nodes.iter().zip(probabilities) {
            let value = match value_of(node) {
                Some(value) => value,
                None => {
                    found.note(format!(
                        "`{}`: a choice is a scalar or a list of scalars, so that {} becomes a \
                         string of JSON: decode it with `json.loads`",
                        self.name,
                        node.kind()
                    ));
                    Value::Text(python::json(node).to_string())
                }
            };
            match choices.iter_mut().find(|(known, _)| known.same(&value)) {
                Some((_, sum)) => {
                    *sum += probability;
                    twice.push(value.shown());
                }
                None => choices.push((value, probability)),
            }
        }
        if !twice.is_empty() {
            let (name, twice) = (self.name, quoted(twice.iter().map(String::as_str)));
            found.note(format!("`{name}`: {twice} stands there several times; here once"));
        }
        choices.retain(|(_, probability)| *probability > 0.0);
        let most = choices.iter().map(|(_, probability)| *probability).fold(0.0, f64::max);
        let mut likely = choices.iter().filter(|(_, probability)| *probability > most - 1e-9);
        let prior = match (likely.next(), likely.next()) {
            (Some((value, _)), None) if choices.len() > 1 => Some(value.clone()),
            _ => None,
        };
        let is_even = choices.iter().all(|(_, probability)| *probability > most - 1e-9);
        let is_scalar = |value: &Value| !matches!(value, Value::List(_) | Value::Null);
        let distribution =
            Distribution::choice(choices.into_iter().map(|(value, _)| value).collect());
        let distribution = distribution
            .map_err(|error| self.error(entry.place, error, "give at least one value"))?;
        let mut made = Searched { distribution, prior: prior.filter(is_scalar), comment: None };
        if self.get("probabilities").is_some() && !is_even {
            self.lost(&mut made, "without W&B's `probabilities`: a prior at the likeliest", found);
        } else {
            made.prior = None;
        }
        Ok(made)
    }

    /// The probability of each value: as given, or equal.
    fn probabilities(&self, nodes: &[Node]) -> Or<Vec<f64>> {
        let Some(entry) = self.get("probabilities") else { return Ok(vec![1.0; nodes.len()]) };
        let Item::List(list) = &entry.value.item else {
            let what = format!("`probabilities` must be a list, not {}", entry.value.kind());
            return Err(self.error(entry.place, what, "one number for each of `values`"));
        };
        let numbers: Option<Vec<f64>> =
            list.iter().map(|node| node.number().filter(|number| *number >= 0.0)).collect();
        let sums_to_one = |numbers: &Vec<f64>| (numbers.iter().sum::<f64>() - 1.0).abs() < 1e-5;
        numbers.filter(|numbers| numbers.len() == nodes.len() && sums_to_one(numbers)).ok_or_else(
            || {
                let what =
                    "`probabilities` must be one number for each of `values`, with the sum 1";
                self.error(entry.place, what, "such as [0.2, 0.8]")
            },
        )
    }
}

/// A number without the noise of binary multiples: 3 * 0.1 is 0.3.
fn rounded(value: f64) -> f64 {
    format!("{value:.12e}").parse().unwrap_or(value)
}

/// A value that a choice can be.
pub fn value_of(node: &Node) -> Option<Value> {
    Some(match &node.item {
        Item::Null => Value::Null,
        Item::Bool(flag) => Value::Bool(*flag),
        Item::Int(int) => Value::Int(*int),
        Item::Float(float) if float.is_finite() => Value::Float(*float),
        Item::Float(_) => Value::Text(python::text(node)),
        Item::Text(text) => Value::Text(text.clone()),
        Item::List(list) => {
            let scalar = |node: &Node| {
                value_of(node).filter(|value| !matches!(value, Value::List(_) | Value::Null))
            };
            Value::List(list.iter().map(scalar).collect::<Option<_>>()?)
        }
        Item::Map(_) => return None,
    })
}
