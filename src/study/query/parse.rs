//! Reads filters and sort keys, and says what is wrong with them.

use super::filter::{
    Comparison, Equality, Filter, Likeness, Literal, Quantity, Sign, Term, Test, Text,
};
use super::sort::SortKey;
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;
use crate::study::suggestion::nearest;
use crate::study::trial::TrialState;

/// What is wrong with a filter or a sort key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A name that means nothing here.
    #[error("`{name}` is no parameter or metric{}", did_you_mean(suggestion.as_deref()))]
    UnknownName {
        /// As written.
        name: String,
        /// What was probably meant.
        suggestion: Option<String>,
    },
    /// A word for a state that is none.
    #[error("`{word}` is no state; {}there are queued, running, paused, complete, pruned, failed and finished", perhaps(suggestion.as_deref()))]
    UnknownState {
        /// As written.
        word: String,
        /// What was probably meant.
        suggestion: Option<String>,
    },
    /// A comparison without a number.
    #[error(
        "`{name}` is compared with a number, not with `{text}`: write for example `{name}>0.5`"
    )]
    NotANumber {
        /// What is compared.
        name: String,
        /// As written.
        text: String,
    },
    /// An operator without anything behind it.
    #[error("`{term}` lacks its value: write `{term}VALUE`")]
    NoValue {
        /// As written.
        term: String,
    },
    /// An operator without anything before it.
    #[error("`{term}` lacks the name of a parameter or metric: write `NAME{term}`")]
    NoName {
        /// As written.
        term: String,
    },
    /// Smaller or larger, of things without an order.
    #[error("`{name}` has no order: write `{name}={value}` or `{name}!={value}`")]
    NoOrder {
        /// What is compared.
        name: String,
        /// With what.
        value: String,
    },
    /// A quote that does not end.
    #[error("a quote is not closed in `{term}`: write `\"` at its end too")]
    OpenQuote {
        /// The rest of the filter.
        term: String,
    },
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

fn perhaps(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |word| format!("did you mean `{word}`? "))
}

impl Filter {
    /// Reads a filter; the empty one lets every trial through.
    pub fn parse(text: &str, spec: &StudySpec) -> Result<Filter, FilterError> {
        Self::parse_with(text, spec, &[])
    }

    /// The same where these metrics were reported, too ([`StorageReader::metrics`](crate::storage::StorageReader::metrics)).
    pub fn parse_with(
        text: &str,
        spec: &StudySpec,
        metrics: &[String],
    ) -> Result<Filter, FilterError> {
        let names = Names::new(spec, metrics);
        let terms = words(text)?
            .into_iter()
            .map(|word| term(&word, &names))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Filter { text: text.trim().to_owned(), terms })
    }
}

impl SortKey {
    /// The key of a word, and whether it is turned round: `value`, `number`, `step`, `seconds`, `state`, `started`, a
    /// parameter, a metric, each with `-` before it to turn it round.
    pub fn parse(text: &str, spec: &StudySpec) -> Result<(SortKey, bool), FilterError> {
        Self::parse_with(text, spec, &[])
    }

    /// The same where these metrics were reported, too.
    pub fn parse_with(
        text: &str,
        spec: &StudySpec,
        metrics: &[String],
    ) -> Result<(SortKey, bool), FilterError> {
        let text = text.trim();
        let (name, reverse) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
        Ok((Names::new(spec, metrics).sort_key(name)?, reverse))
    }
}

/// A part of a filter between spaces; what stood in quotes is text and nothing else.
#[derive(Clone, Debug, Default)]
struct Word {
    chars: Vec<(char, bool)>,
}

impl Word {
    fn part(&self, begin: usize, end: usize) -> Word {
        Word { chars: self.chars[begin..end].to_vec() }
    }

    fn text(&self) -> String {
        self.chars.iter().map(|(char, _)| char).collect()
    }

    /// What stands at `at`, unless it stood in quotes.
    fn sign(&self, at: usize) -> Option<char> {
        self.chars.get(at).filter(|(_, quoted)| !quoted).map(|(char, _)| *char)
    }

    /// The parts between commas, none of them empty.
    fn list(&self) -> Vec<String> {
        let mut parts = vec![String::new()];
        for (char, quoted) in &self.chars {
            match parts.last_mut() {
                Some(part) if *char != ',' || *quoted => part.push(*char),
                _ => parts.push(String::new()),
            }
        }
        parts.retain(|part| !part.is_empty());
        parts
    }
}

fn words(text: &str) -> Result<Vec<Word>, FilterError> {
    let mut words = Vec::new();
    // A pair of quotes with nothing in between makes a word, too.
    let mut word: Option<Word> = None;
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => {
                let word = word.get_or_insert_with(Word::default);
                loop {
                    match chars.next() {
                        None => return Err(FilterError::OpenQuote { term: text[at..].to_owned() }),
                        Some((_, '"')) => break,
                        Some((_, '\\')) => {
                            word.chars.extend(chars.next().map(|(_, char)| (char, true)))
                        }
                        Some((_, char)) => word.chars.push((char, true)),
                    }
                }
            }
            char if char.is_whitespace() => words.extend(word.take()),
            char => word.get_or_insert_with(Word::default).chars.push((char, false)),
        }
    }
    words.extend(word);
    Ok(words)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Holds,
    Compare(Comparison),
}

/// The first operator of a word: where it begins and ends.
fn operator(word: &Word) -> Option<(usize, Operator, usize)> {
    (0..word.chars.len()).find_map(|at| {
        let next = word.sign(at + 1);
        let (operator, length) = match (word.sign(at)?, next) {
            ('!', Some('=')) => (Operator::Compare(Comparison::Unequal), 2),
            ('<', Some('=')) => (Operator::Compare(Comparison::AtMost), 2),
            ('>', Some('=')) => (Operator::Compare(Comparison::AtLeast), 2),
            ('=', Some('=')) => (Operator::Compare(Comparison::Equal), 2),
            ('<', _) => (Operator::Compare(Comparison::Less), 1),
            ('>', _) => (Operator::Compare(Comparison::More), 1),
            ('=', _) => (Operator::Compare(Comparison::Equal), 1),
            (':', _) => (Operator::Holds, 1),
            _ => return None,
        };
        Some((at, operator, at + length))
    })
}

fn term(word: &Word, names: &Names<'_>) -> Result<Term, FilterError> {
    let negated = matches!(word.sign(0), Some('-' | '!'))
        && word.chars.len() > 1
        && word.sign(1) != Some('=');
    let (sign, word) = if negated {
        (Sign::Fails, word.part(1, word.chars.len()))
    } else {
        (Sign::Holds, word.clone())
    };
    let Some((at, operator, end)) = operator(&word) else {
        return Ok(Term { sign, test: Test::Anywhere(word.text().to_lowercase()) });
    };
    let name = word.part(0, at).text();
    if name.is_empty() {
        return Err(FilterError::NoName { term: word.text() });
    }
    let subject = names.subject(&name)?;
    let list = word.part(end, word.chars.len()).list();
    if list.is_empty() {
        return Err(FilterError::NoValue { term: word.text() });
    }
    Ok(Term { sign, test: test(&name, subject, operator, list)? })
}

/// What a name stands for.
#[derive(Clone, Debug)]
enum Subject {
    State,
    Text(Text),
    Amount(Quantity),
    /// A parameter, and whether it has an order.
    Param(String, bool),
}

fn test(
    name: &str,
    subject: Subject,
    operator: Operator,
    list: Vec<String>,
) -> Result<Test, FilterError> {
    let lower =
        |list: Vec<String>| list.into_iter().map(|text| text.to_lowercase()).collect::<Vec<_>>();
    let no_order =
        |list: &[String]| FilterError::NoOrder { name: name.to_owned(), value: list.join(",") };
    match (subject, operator) {
        (Subject::State, Operator::Holds | Operator::Compare(Comparison::Equal)) => {
            Ok(Test::State(states(&list)?))
        }
        (Subject::State, Operator::Compare(Comparison::Unequal)) => {
            let listed = states(&list)?;
            Ok(Test::State(
                TrialState::ALL.into_iter().filter(|state| !listed.contains(state)).collect(),
            ))
        }
        // A tag is one word, not a text to look into.
        (Subject::Text(Text::Tag), Operator::Holds) => {
            Ok(Test::Word(Text::Tag, Likeness::Equals, lower(list)))
        }
        (Subject::Text(text), Operator::Holds) => {
            Ok(Test::Word(text, Likeness::Holds, lower(list)))
        }
        (Subject::Text(text), Operator::Compare(Comparison::Equal)) => {
            Ok(Test::Word(text, Likeness::Equals, lower(list)))
        }
        (Subject::Text(text), Operator::Compare(Comparison::Unequal)) => {
            Ok(Test::Word(text, Likeness::Differs, lower(list)))
        }
        (Subject::State | Subject::Text(_), Operator::Compare(_)) => Err(no_order(&list)),
        (Subject::Param(param, _), Operator::Holds) => Ok(Test::ParamHolds(param, lower(list))),
        (
            Subject::Param(param, _),
            Operator::Compare(comparison @ (Comparison::Equal | Comparison::Unequal)),
        ) => {
            let literals = list
                .iter()
                .map(|text| Literal { text: text.to_lowercase(), number: text.parse().ok() })
                .collect();
            let equality =
                if comparison == Comparison::Equal { Equality::Equal } else { Equality::Unequal };
            Ok(Test::Param(param, equality, literals))
        }
        (Subject::Param(_, false), Operator::Compare(_)) => Err(no_order(&list)),
        (Subject::Param(param, true), Operator::Compare(comparison)) => {
            amount(name, Quantity::Param(param), comparison, &list)
        }
        (Subject::Amount(quantity), Operator::Compare(comparison)) => {
            amount(name, quantity, comparison, &list)
        }
        (Subject::Amount(quantity), Operator::Holds) => {
            amount(name, quantity, Comparison::Equal, &list)
        }
    }
}

fn amount(
    name: &str,
    quantity: Quantity,
    comparison: Comparison,
    list: &[String],
) -> Result<Test, FilterError> {
    let not_a_number =
        |text: &str| FilterError::NotANumber { name: name.to_owned(), text: text.to_owned() };
    if list.len() > 1 && !matches!(comparison, Comparison::Equal | Comparison::Unequal) {
        return Err(not_a_number(&list.join(",")));
    }
    let numbers = list
        .iter()
        .map(|text| text.parse().map_err(|_| not_a_number(text)))
        .collect::<Result<Vec<f64>, _>>()?;
    Ok(Test::Amount(quantity, comparison, numbers))
}

fn states(words: &[String]) -> Result<Vec<TrialState>, FilterError> {
    let mut states = Vec::new();
    for word in words {
        let plain = word.to_lowercase();
        match TrialState::from_word(&plain) {
            Some(state) => states.push(state),
            None if plain == "finished" => {
                states.extend(TrialState::ALL.into_iter().filter(|state| state.is_finished()))
            }
            None => {
                let suggestion = nearest(word, TrialState::ALL.iter().map(|state| state.as_str()))
                    .map(str::to_owned);
                return Err(FilterError::UnknownState { word: word.clone(), suggestion });
            }
        }
    }
    Ok(states)
}

/// Words that mean the same in every study.
const FIELDS: &[&str] = &[
    "state",
    "device",
    "reason",
    "note",
    "tag",
    "number",
    "value",
    "last_value",
    "step",
    "seconds",
    "attempts",
    "failures",
];

/// Words for orders that are no fields.
const ORDERS: &[&str] = &["started"];

/// The names that mean something in a study.
struct Names<'a> {
    spec: &'a StudySpec,
    metrics: &'a [String],
}

impl<'a> Names<'a> {
    pub(super) fn new(spec: &'a StudySpec, metrics: &'a [String]) -> Self {
        Names { spec, metrics }
    }

    fn subject(&self, name: &str) -> Result<Subject, FilterError> {
        let field = match name {
            "state" => Some(Subject::State),
            "device" => Some(Subject::Text(Text::Device)),
            "reason" => Some(Subject::Text(Text::Reason)),
            "note" => Some(Subject::Text(Text::Note)),
            "tag" => Some(Subject::Text(Text::Tag)),
            "number" | "trial" => Some(Subject::Amount(Quantity::Number)),
            "value" => Some(Subject::Amount(Quantity::Value)),
            "last_value" => Some(Subject::Amount(Quantity::LastValue)),
            "step" | "last_step" => Some(Subject::Amount(Quantity::Step)),
            "seconds" => Some(Subject::Amount(Quantity::Seconds)),
            "attempts" => Some(Subject::Amount(Quantity::Attempts)),
            "failures" => Some(Subject::Amount(Quantity::Failures)),
            _ => None,
        };
        if let Some(subject) = field {
            return Ok(subject);
        }
        match self.variable(name)? {
            Variable::Param(param) => {
                let ordered = self.spec.space.dimension(&param).is_none_or(|dimension| {
                    match &dimension.distribution {
                        Distribution::Float { .. } | Distribution::Int { .. } => true,
                        Distribution::Choice { choices } => {
                            choices.iter().any(|choice| choice.as_number().is_some())
                        }
                    }
                });
                Ok(Subject::Param(param, ordered))
            }
            Variable::Clock => Ok(Subject::Amount(Quantity::Step)),
            Variable::Metric(metric) if metric == self.spec.objective().metric => {
                Ok(Subject::Amount(Quantity::Objective))
            }
            Variable::Metric(metric) => Ok(Subject::Amount(Quantity::Metric(metric))),
        }
    }

    pub(super) fn sort_key(&self, name: &str) -> Result<SortKey, FilterError> {
        match name {
            "value" => return Ok(SortKey::Value),
            "number" | "trial" => return Ok(SortKey::Number),
            "step" | "last_step" => return Ok(SortKey::Step),
            "seconds" | "time" => return Ok(SortKey::Seconds),
            "state" => return Ok(SortKey::State),
            "started" => return Ok(SortKey::Started),
            _ => {}
        }
        match self.variable(name)? {
            Variable::Param(param) => Ok(SortKey::Param(param)),
            Variable::Clock => Ok(SortKey::Step),
            Variable::Metric(metric) if metric == self.spec.objective().metric => {
                Ok(SortKey::Value)
            }
            Variable::Metric(metric) => Ok(SortKey::Metric(metric)),
        }
    }

    fn params(&self) -> impl Iterator<Item = &'a str> {
        self.spec.space.dimensions().iter().map(|dimension| dimension.name.as_str())
    }

    fn known_metrics(&self) -> impl Iterator<Item = &'a str> {
        self.spec
            .objectives
            .iter()
            .map(|objective| objective.metric.as_str())
            .chain(self.metrics.iter().map(String::as_str))
    }

    fn variable(&self, name: &str) -> Result<Variable, FilterError> {
        if let Some(param) = name.strip_prefix("params.").and_then(|name| self.param(name)) {
            return Ok(Variable::Param(param));
        }
        if let Some(metric) = name.strip_prefix("metrics.") {
            return Ok(Variable::Metric(metric.to_owned()));
        }
        if let Some(param) = self.param(name) {
            return Ok(Variable::Param(param));
        }
        if self.known_metrics().any(|metric| metric == name) {
            return Ok(Variable::Metric(name.to_owned()));
        }
        if name == self.spec.step.as_str() {
            return Ok(Variable::Clock);
        }
        // The names of this study first: of equals, the first is taken.
        let known =
            self.params().chain(self.known_metrics()).chain(FIELDS.iter().chain(ORDERS).copied());
        Err(FilterError::UnknownName {
            name: name.to_owned(),
            suggestion: nearest(name, known).map(str::to_owned),
        })
    }

    /// A parameter by its name, or by the last part of it where no other ends so.
    fn param(&self, name: &str) -> Option<String> {
        if let Some(same) = self.params().find(|param| *param == name) {
            return Some(same.to_owned());
        }
        let mut ending = self.params().filter(|param| param.rsplit('.').next() == Some(name));
        match (ending.next(), ending.next()) {
            (Some(only), None) => Some(only.to_owned()),
            _ => None,
        }
    }
}

enum Variable {
    Param(String),
    Metric(String),
    /// The study's name for steps.
    Clock,
}
