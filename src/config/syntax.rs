//! TOML as a tree with the span of each key and value.

use toml::de::{DeArray, DeTable, DeValue};

use super::diagnostic::{Complaint, Diagnostic, SourceSpan};

/// A value with its span.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The span; the header of a table that has one.
    pub place: SourceSpan,
    /// The value, with spans.
    pub item: Item,
}

/// A TOML value.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A string.
    Text(String),
    /// An integer.
    Whole(i64),
    /// Any other number, `nan` and `inf` included.
    Number(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A date or time, which no key accepts.
    Date(String),
    /// An array, including arrays of tables.
    List(Vec<Node>),
    /// A table.
    Table(TomlTable),
}

/// The notation of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Under a `[header]`.
    Header,
    /// By dotted keys: `model.num_layers = 2`.
    Dotted,
    /// Inline, in braces.
    Inline,
}

/// Keys and values in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct TomlTable {
    /// How it was written.
    pub form: Form,
    /// Its entries.
    pub entries: Vec<TomlEntry>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct TomlEntry {
    /// The key, without quotes.
    pub key: String,
    /// The span of the key.
    pub place: SourceSpan,
    /// Its value.
    pub value: Node,
}

/// A value at the end of a path of tables, with its dotted name.
#[derive(Clone, Debug)]
pub(super) struct Leaf<'a> {
    /// `model.num_layers`, whether written dotted, quoted or nested.
    pub name: String,
    /// The span of the last component of the name.
    pub place: SourceSpan,
    /// The value.
    pub value: &'a Node,
}

impl TomlTable {
    /// The entry of `key`.
    pub fn get(&self, key: &str) -> Option<&TomlEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The representation of null, `{ none = true }`, with the span `place`.
    pub fn null(place: SourceSpan) -> Self {
        let value = Node { place, item: Item::Flag(true) };
        let entries = vec![TomlEntry { key: "none".to_owned(), place, value }];
        TomlTable { form: Form::Inline, entries }
    }

    /// Whether it represents null: `{ none = true }`.
    pub fn is_null(&self) -> bool {
        self.form == Form::Inline
            && matches!(self.entries.as_slice(), [TomlEntry { key, value, .. }]
                if key == "none" && matches!(value.item, Item::Flag(true)))
    }

    /// All values that are not tables, and nulls, by dotted names, in the order of the file.
    pub fn leaves(&self) -> Vec<Leaf<'_>> {
        let mut leaves = Vec::new();
        self.collect_leaves("", &mut leaves);
        leaves
    }

    fn collect_leaves<'a>(&'a self, prefix: &str, leaves: &mut Vec<Leaf<'a>>) {
        for entry in &self.entries {
            let name = dotted(prefix, &entry.key);
            match &entry.value.item {
                Item::Table(table) if !table.is_null() => table.collect_leaves(&name, leaves),
                _ => leaves.push(Leaf { name, place: entry.place, value: &entry.value }),
            }
        }
    }
}

/// `prefix.key`, or `key` without a prefix.
pub(super) fn dotted(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

impl Node {
    /// The table, mutable, if it is one.
    pub fn table_mut(&mut self) -> Option<&mut TomlTable> {
        match &mut self.item {
            Item::Table(table) => Some(table),
            _ => None,
        }
    }

    /// A description for messages, with short values: "`3`", "the string `abc`", "a table".
    pub fn describe(&self) -> String {
        match &self.item {
            Item::Text(text) if text.chars().count() <= 40 && !text.is_empty() => {
                format!("the string `{}`", text.escape_debug())
            }
            Item::Text(text) if text.is_empty() => "an empty string".to_owned(),
            Item::Text(_) => "a string".to_owned(),
            Item::Whole(int) => format!("`{int}`"),
            Item::Number(number) => format!("`{number}`"),
            Item::Flag(flag) => format!("`{flag}`"),
            Item::Date(date) => format!("the date `{date}`"),
            Item::List(_) => "a list".to_owned(),
            Item::Table(_) => "a table".to_owned(),
        }
    }

    /// An error about this value, labelled with its description.
    pub fn wrong(&self, message: impl Into<String>) -> Complaint {
        Diagnostic::error(self.place, message).label(format!("this is {}", self.describe()))
    }

    /// The string, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Item::Text(text) = &self.item { Some(text) } else { None }
    }

    /// The integer, if it is one.
    pub fn whole(&self) -> Option<i64> {
        if let Item::Whole(int) = self.item { Some(int) } else { None }
    }

    /// The finite number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self.item {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a number the user wrote as real; whole ones beyond 2^53 are rounded"
            )]
            Item::Whole(int) => Some(int as f64),
            Item::Number(number) => Some(number).filter(|number| number.is_finite()),
            _ => None,
        }
    }

    /// The elements, if it is a list.
    pub fn list(&self) -> Option<&[Node]> {
        if let Item::List(list) = &self.item { Some(list) } else { None }
    }

    /// The table, if it is one.
    pub fn table(&self) -> Option<&TomlTable> {
        if let Item::Table(table) = &self.item { Some(table) } else { None }
    }

    /// The value as JSON; non-finite numbers become null, dates strings.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.item {
            Item::Text(text) => text.as_str().into(),
            Item::Whole(int) => (*int).into(),
            Item::Number(number) => (*number).into(),
            Item::Flag(flag) => (*flag).into(),
            Item::Date(date) => date.as_str().into(),
            Item::List(list) => list.iter().map(Node::to_json).collect(),
            Item::Table(table) => serde_json::Value::Object(
                table
                    .entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.to_json()))
                    .collect(),
            ),
        }
    }
}

/// Parses a document; TOML errors are reported, at most one per line.
pub(super) fn parse(text: &str, source: usize, problems: &mut Vec<Diagnostic>) -> TomlTable {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut lines = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let line = line_of(text, span.start);
        // Further errors in a line mostly follow from the first.
        if !lines.contains(&line) {
            lines.push(line);
            let place = SourceSpan { source, start: span.start, end: span.end };
            problems.push(syntax_problem(error.message(), place, text));
        }
    }
    Reader { text, source, broken: lines, problems }.table(document.get_ref(), Form::Header)
}

/// The line of a place, counted from 0.
fn line_of(text: &str, place: usize) -> usize {
    text.get(..place).unwrap_or_default().matches('\n').count()
}

fn syntax_problem(message: &str, place: SourceSpan, text: &str) -> Diagnostic {
    if message == "duplicate key" {
        let key = text.get(place.start..place.end).unwrap_or_default();
        return Diagnostic::error(place, format!("`{key}` appears twice"))
            .label("second time")
            .help("keep one of the two");
    }
    let here = text.get(place.start..place.end).unwrap_or_default();
    if message.starts_with("string values must be quoted") && here.is_empty() {
        return Diagnostic::error(place, "this key has no value")
            .label("missing")
            .help("write a value after the equals sign");
    }
    if message.starts_with("string values must be quoted") {
        let problem =
            Diagnostic::error(place, format!("`{}` is not a TOML value", here.escape_debug()));
        return problem
            .help(format!("if it is a string, write it in quotes: \"{}\"", here.escape_debug()));
    }
    if let Some((word, help)) = of_another_language(word_at(text, place.start)) {
        return Diagnostic::error(place, format!("`{word}` is not a TOML value")).help(help);
    }
    Diagnostic::error(place, format!("this is not TOML: {message}"))
        .help("look for a missing quote, comma or bracket here and just before")
}

/// The word around a place.
fn word_at(text: &str, place: usize) -> &str {
    let is_outside = |char: char| !(char.is_ascii_alphanumeric() || "_.+-".contains(char));
    let (before, after) = text.split_at_checked(place).unwrap_or((text, ""));
    let start = before.rfind(is_outside).map_or(0, |at| at + 1);
    let end = after.find(is_outside).map_or(text.len(), |at| place + at);
    text.get(start..end).unwrap_or_default()
}

/// What to write instead of a value of Python or YAML.
fn of_another_language(word: &str) -> Option<(&str, String)> {
    let help = match word {
        "True" | "TRUE" => "write `true`".to_owned(),
        "False" | "FALSE" => "write `false`".to_owned(),
        "None" | "null" | "Null" | "NULL" => "TOML has no such value: leave the key out".to_owned(),
        _ => format!("write `{}`", toml_number(word).filter(|number| number != word)?),
    };
    Some((word, help))
}

/// A number as TOML has it, with a digit before and after the point and none before the first:
/// `0.1` for `.1`.
pub(super) fn toml_number(word: &str) -> Option<String> {
    let digits = word.trim_start_matches(['+', '-']);
    if !digits.starts_with(|char: char| char == '.' || char.is_ascii_digit())
        || word.parse::<f64>().is_err()
    {
        return None;
    }
    let sign = if word.starts_with('-') { "-" } else { "" };
    let (mantissa, exponent) = digits.split_at(digits.find(['e', 'E']).unwrap_or(digits.len()));
    let (whole, fraction) =
        mantissa.split_once('.').map_or((mantissa, None), |(whole, fraction)| {
            (whole, Some(if fraction.is_empty() { "0" } else { fraction }))
        });
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = fraction.map(|fraction| format!(".{fraction}")).unwrap_or_default();
    Some(format!("{sign}{whole}{fraction}{exponent}"))
}

struct Reader<'a> {
    text: &'a str,
    source: usize,
    /// The lines with an error, from 0: what follows from it is not reported.
    broken: Vec<usize>,
    problems: &'a mut Vec<Diagnostic>,
}

impl Reader<'_> {
    fn place(&self, span: std::ops::Range<usize>) -> SourceSpan {
        SourceSpan { source: self.source, start: span.start, end: span.end }
    }

    fn table(&mut self, table: &DeTable<'_>, form: Form) -> TomlTable {
        let mut entries: Vec<TomlEntry> = table
            .iter()
            .map(|(key, value)| TomlEntry {
                key: key.get_ref().to_string(),
                place: self.place(key.span()),
                value: self.node(value.get_ref(), value.span()),
            })
            .collect();
        // The parser sorts by name; the space and messages need the order of the file.
        entries.sort_by_key(|entry| entry.place);
        TomlTable { form, entries }
    }

    fn node(&mut self, value: &DeValue<'_>, span: std::ops::Range<usize>) -> Node {
        let place = self.place(span);
        let item = match value {
            DeValue::String(text) => Item::Text(text.to_string()),
            DeValue::Integer(int) => match i64::from_str_radix(int.as_str(), int.radix()) {
                Ok(int) => Item::Whole(int),
                Err(_) => self.too_large(place),
            },
            DeValue::Float(float) => match float.as_str().parse::<f64>() {
                Ok(number)
                    if number.is_finite()
                        || float.as_str().contains("inf")
                        || float.as_str().contains("nan") =>
                {
                    Item::Number(number)
                }
                _ => self.too_large(place),
            },
            DeValue::Boolean(flag) => Item::Flag(*flag),
            DeValue::Datetime(date) => Item::Date(date.to_string()),
            DeValue::Array(array) => Item::List(self.list(array)),
            DeValue::Table(table) => Item::Table(self.table(table, self.form(place))),
        };
        Node { place, item }
    }

    fn list(&mut self, array: &DeArray<'_>) -> Vec<Node> {
        array.iter().map(|element| self.node(element.get_ref(), element.span())).collect()
    }

    fn form(&self, place: SourceSpan) -> Form {
        match self.text.as_bytes().get(place.start) {
            Some(b'{') => Form::Inline,
            Some(b'[') => Form::Header,
            _ => Form::Dotted,
        }
    }

    fn too_large(&mut self, place: SourceSpan) -> Item {
        if self.broken.contains(&line_of(self.text, place.start)) {
            return Item::Whole(0);
        }
        let problem = Diagnostic::error(place, "this number is too large")
            .label("too large")
            .help("integers reach to 9223372036854775807, others to 1.8e308");
        self.problems.push(problem);
        Item::Whole(0)
    }
}
