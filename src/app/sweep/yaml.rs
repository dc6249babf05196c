//! YAML as a bounded tree with positions; plain scalars mean what they mean to PyYAML and to W&B.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use crate::config::{Diagnostic, SourceSpan};

/// The largest file that is read.
pub const LARGEST_FILE: usize = 1 << 20;
/// The deepest nesting.
const DEEPEST: usize = 64;
/// The largest mapping.
const MOST_KEYS: usize = 2_000;
/// The weight of a tree with its aliases expanded: bytes of texts and [`NODE`] for each node.
const HEAVIEST: usize = 16 << 20;
const NODE: usize = 32;

/// Something, or why not.
pub type Or<T> = Result<T, Box<Diagnostic>>;

/// A value and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub item: Item,
    /// Its span; of a list or mapping, its beginning.
    pub place: SourceSpan,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Nothing, `~` or `null`.
    Null,
    /// Also `yes`, `no`, `on` and `off`, as in YAML 1.1.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number, possibly infinite or NaN; also `1e-5`, which PyYAML alone reads as a string.
    Float(f64),
    /// A string.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key as it is written.
    pub key: String,
    /// The key's span.
    pub place: SourceSpan,
    /// Its value.
    pub value: Node,
}

impl Node {
    /// The entries of a mapping.
    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.item {
            Item::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The string.
    pub fn text(&self) -> Option<&str> {
        match &self.item {
            Item::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The finite number.
    pub fn number(&self) -> Option<f64> {
        match self.item {
            #[expect(clippy::cast_precision_loss, reason = "the nearest number is what is meant")]
            Item::Int(int) => Some(int as f64),
            Item::Float(float) => Some(float).filter(|float| float.is_finite()),
            _ => None,
        }
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self.item {
            Item::Null => "nothing",
            Item::Bool(_) => "a boolean",
            Item::Int(_) => "an integer",
            Item::Float(_) => "a number",
            Item::Text(_) => "a string",
            Item::List(_) => "a list",
            Item::Map(_) => "a mapping",
        }
    }

    fn weight(&self) -> usize {
        NODE + match &self.item {
            Item::Text(text) => text.len(),
            Item::List(list) => list.iter().map(Node::weight).sum(),
            Item::Map(entries) => {
                entries.iter().map(|entry| NODE + entry.key.len() + entry.value.weight()).sum()
            }
            _ => 0,
        }
    }
}

/// The only document of `text`.
pub fn read(text: &str) -> Or<Node> {
    if text.len() > LARGEST_FILE {
        return Err(refused(
            None,
            "the file is larger than 1 MiB",
            "a sweep is a short list of parameters: is this the right file?",
        ));
    }
    let mut tree = Tree::new(text);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => tree.take(event, span)?,
            Err(error) => {
                let at = error.marker().index();
                let place = tree.span(at, at + 1);
                return Err(refused(
                    place,
                    format!("not valid YAML: {}", error.info()),
                    "correct the line, or write the file with `yaml.safe_dump`",
                ));
            }
        }
    }
    let start = tree.span(0, 0);
    tree.document.ok_or_else(|| {
        refused(start, "the file is empty", "give the file that `wandb sweep` takes")
    })
}

/// A list or mapping that has not ended.
struct Open {
    anchor: usize,
    place: SourceSpan,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, merged: Vec<Node>, key: Option<(String, SourceSpan, bool)> },
}

/// The tree while it is built.
struct Tree {
    /// The byte of each character.
    bytes: Vec<usize>,
    open: Vec<Open>,
    anchored: BTreeMap<usize, Node>,
    weight: usize,
    document: Option<Node>,
}

impl Tree {
    fn new(text: &str) -> Self {
        let bytes = text.char_indices().map(|(byte, _)| byte).chain([text.len()]).collect();
        Tree { bytes, open: Vec::new(), anchored: BTreeMap::new(), weight: 0, document: None }
    }

    /// The span between two characters.
    fn span(&self, start: usize, end: usize) -> SourceSpan {
        let last = self.bytes.len() - 1;
        let byte = |char: usize| self.bytes[char.min(last)];
        SourceSpan { source: 0, start: byte(start), end: byte(end.max(start)) }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Or<()> {
        let (start, end) = (span.start.index(), span.end.index());
        let place = self.span(start, end);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                if let Some(Content::Map { key: key @ None, .. }) =
                    self.open.last_mut().map(|open| &mut open.content)
                {
                    *key = Some((text.into_owned(), place, plain));
                    return Ok(());
                }
                let item = scalar(&text, plain, tag.as_deref(), place)?;
                self.add(Node { item, place }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(anchor, tag.as_deref(), start, Content::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                let content = Content::Map { entries: Vec::new(), merged: Vec::new(), key: None };
                self.begin(anchor, tag.as_deref(), start, content)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let Some(node) = self.anchored.get(&anchor).cloned() else {
                    return Err(refused(
                        place,
                        "the alias stands within its own anchor",
                        "write what it stands for",
                    ));
                };
                self.add(node, 0)
            }
            Event::DocumentStart(_) if self.document.is_some() => Err(refused(
                place,
                "a second document begins here",
                "write each sweep into a file of its own",
            )),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn begin(
        &mut self,
        anchor: usize,
        tag: Option<&Tag>,
        start: usize,
        content: Content,
    ) -> Or<()> {
        let place = self.span(start, start + 1);
        if let Some(tag) = tag.filter(|tag| !is_core(tag, &["map", "seq"])) {
            return Err(unknown_tag(tag, place));
        }
        if self.open.len() >= DEEPEST {
            return Err(refused(
                place,
                format!("more than {DEEPEST} levels are nested"),
                "a sweep nests `parameters` and values, a few levels deep",
            ));
        }
        self.open.push(Open { anchor, place, content });
        Ok(())
    }

    fn end(&mut self) -> Or<()> {
        let Some(Open { anchor, place, content }) = self.open.pop() else { return Ok(()) };
        let item = match content {
            Content::List(list) => Item::List(list),
            Content::Map { mut entries, merged, .. } => {
                // What stands in the mapping wins over what is merged, and the first of several.
                for node in merged {
                    for entry in node.entries().unwrap_or_default() {
                        if !entries.iter().any(|known| known.key == entry.key) {
                            entries.push(entry.clone());
                        }
                    }
                }
                if entries.len() > MOST_KEYS {
                    return Err(too_many_keys(place));
                }
                Item::Map(entries)
            }
        };
        // Its parts have been counted.
        self.weight -= item_parts(&item);
        self.add(Node { item, place }, anchor)
    }

    /// Puts a node where it belongs, and counts it.
    fn add(&mut self, node: Node, anchor: usize) -> Or<()> {
        let copies = 1 + usize::from(anchor != 0);
        self.weight += node.weight() * copies;
        if self.weight > HEAVIEST {
            return Err(refused(
                node.place,
                "the file is too large with its aliases",
                "write out what the aliases stand for",
            ));
        }
        if anchor != 0 {
            self.anchored.insert(anchor, node.clone());
        }
        let Some(Open { content, .. }) = self.open.last_mut() else {
            self.document = Some(node);
            return Ok(());
        };
        match content {
            Content::List(list) => list.push(node),
            Content::Map { entries, merged, key } => {
                let Some((name, place, plain)) = key.take() else {
                    return Err(refused(
                        node.place,
                        format!("{} is a key", node.kind()),
                        "keys of a sweep are names",
                    ));
                };
                if plain && name == "<<" {
                    return merge(node, merged);
                }
                if let Some(first) = entries.iter().find(|entry| entry.key == name) {
                    return Err(Diagnostic::error(place, format!("`{name}` is given twice"))
                        .label("second time")
                        .related(first.place, "first time")
                        .help("keep one of them: W&B takes the last")
                        .into());
                }
                if entries.len() >= MOST_KEYS {
                    return Err(too_many_keys(place));
                }
                entries.push(Entry { key: name, place, value: node });
            }
        }
        Ok(())
    }
}

/// The weight of what a list or mapping has.
fn item_parts(item: &Item) -> usize {
    match item {
        Item::List(list) => list.iter().map(Node::weight).sum(),
        Item::Map(entries) => entries.iter().map(|entry| entry.value.weight()).sum(),
        _ => 0,
    }
}

/// The mappings of `<<: *defaults` or `<<: [*a, *b]`.
fn merge(node: Node, merged: &mut Vec<Node>) -> Or<()> {
    let nodes = match node.item {
        Item::List(list) => list,
        item => vec![Node { item, place: node.place }],
    };
    for node in nodes {
        if node.entries().is_none() {
            return Err(refused(
                node.place,
                format!("`<<` merges mappings, not {}", node.kind()),
                "write `<<: *name` with the anchor `&name` at a mapping",
            ));
        }
        merged.push(node);
    }
    Ok(())
}

fn is_core(tag: &Tag, names: &[&str]) -> bool {
    tag.is_yaml_core_schema() && names.contains(&tag.suffix.as_str())
}

fn unknown_tag(tag: &Tag, place: SourceSpan) -> Box<Diagnostic> {
    refused(
        place,
        format!("the tag `{tag}` is not one that W&B reads"),
        "write the value without it",
    )
}

fn scalar(text: &str, is_plain: bool, tag: Option<&Tag>, place: SourceSpan) -> Or<Item> {
    match tag {
        None if is_plain => Ok(plain(text)),
        None => Ok(Item::Text(text.to_owned())),
        Some(tag) if is_core(tag, &["str"]) => Ok(Item::Text(text.to_owned())),
        Some(tag) if is_core(tag, &["int", "float", "bool", "null"]) => Ok(plain(text)),
        Some(tag) => Err(unknown_tag(tag, place)),
    }
}

/// The meaning of a scalar without quotes.
fn plain(text: &str) -> Item {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Item::Null,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Item::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Item::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return Item::Float(f64::NAN),
        _ => {}
    }
    let lower = text.to_ascii_lowercase();
    let capital = || {
        let mut chars = lower.chars();
        chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str())
    };
    let is_word =
        text == lower || text == lower.to_ascii_uppercase() || capital().as_deref() == Some(text);
    match lower.as_str() {
        "true" | "yes" | "on" if is_word => return Item::Bool(true),
        "false" | "no" | "off" if is_word => return Item::Bool(false),
        _ => {}
    }
    number(text).unwrap_or_else(|| Item::Text(text.to_owned()))
}

fn number(text: &str) -> Option<Item> {
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    if !magnitude.starts_with(|char: char| char.is_ascii_digit() || char == '.') {
        return None;
    }
    let digits = magnitude.replace('_', "");
    let based = |prefix: &str, base| {
        let digits = digits.strip_prefix(prefix).filter(|digits| !digits.starts_with(['+', '-']));
        i64::from_str_radix(&format!("{sign}{}", digits?), base).ok()
    };
    if let Some(int) = based("0x", 16).or_else(|| based("0b", 2)) {
        return Some(Item::Int(int));
    }
    if digits.chars().all(|char| char.is_ascii_digit()) {
        let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
        let int = if has_leading_zero { based("0", 8) } else { based("", 10) };
        return int.map(Item::Int);
    }
    let is_decimal = digits.chars().all(|char| char.is_ascii_digit() || ".eE+-".contains(char));
    let float = format!("{sign}{digits}").parse().ok().filter(|_| is_decimal)?;
    Some(Item::Float(float))
}

fn too_many_keys(place: SourceSpan) -> Box<Diagnostic> {
    refused(
        place,
        format!("a mapping has more than {MOST_KEYS} keys"),
        "a sweep has a few dozen parameters: is this the right file?",
    )
}

fn refused(
    place: impl Into<Option<SourceSpan>>,
    message: impl Into<String>,
    help: impl Into<String>,
) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(place, message).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn problem(text: &str) -> String {
        read(text).unwrap_err().message
    }

    fn json(node: &Node) -> String {
        match &node.item {
            Item::Null => "null".to_owned(),
            Item::Bool(flag) => flag.to_string(),
            Item::Int(int) => int.to_string(),
            Item::Float(float) => format!("{float:?}"),
            Item::Text(text) => format!("{text:?}"),
            Item::List(list) => {
                format!("[{}]", list.iter().map(json).collect::<Vec<_>>().join(","))
            }
            Item::Map(entries) => {
                let entry = |entry: &Entry| format!("{}:{}", entry.key, json(&entry.value));
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(","))
            }
        }
    }

    #[test]
    fn plain_scalars_are_those_of_yaml_1_1_and_numbers_with_bare_exponents() {
        let text = "[1, -2, 1e-5, 3E+4, .5, 1., 1_000, 0x1F, 010, yes, Off, TRUE, yEs, ~, null, \
                    '1', \"no\", !!str 3, !!float 4, 1:30, 1.2.3, .inf, -.INF, 08, 0o17, e5, .]";
        assert_eq!(
            json(&read(text).unwrap()),
            "[1,-2,1e-5,30000.0,0.5,1.0,1000,31,8,true,false,true,\"yEs\",null,null,\"1\",\"no\",\
             \"3\",4,\"1:30\",\"1.2.3\",inf,-inf,\"08\",\"0o17\",\"e5\",\".\"]"
        );
    }

    #[test]
    fn anchors_and_merges_are_expanded_and_what_is_written_wins() {
        let text = "base: &base {a: 1, b: 2}\nmore: &more {b: 7, c: 3}\nx:\n  <<: [*base, *more]\n\
                    \x20 a: 9\ny: *base\n";
        assert_eq!(
            json(&read(text).unwrap()),
            "{base:{a:1,b:2},more:{b:7,c:3},x:{a:9,b:2,c:3},y:{a:1,b:2}}"
        );
        assert_eq!(problem("x:\n  <<: 3\n"), "`<<` merges mappings, not an integer");
    }

    #[test]
    fn positions_are_bytes_of_the_text() {
        let text = "# ü\r\nname: \"gü\"\r\nmethod: [grid]\r\n";
        let node = read(text).unwrap();
        let entries = node.entries().unwrap();
        let at = |place: SourceSpan| &text[place.start..place.end];
        assert_eq!(at(entries[0].place), "name");
        assert_eq!(at(entries[0].value.place), "\"gü\"");
        let Item::List(list) = &entries[1].value.item else { panic!("{entries:?}") };
        assert_eq!((at(entries[1].place), at(list[0].place)), ("method", "grid"));
    }

    #[test]
    fn hostile_files_are_refused_without_being_expanded() {
        let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}", level - 1);
            laughs += &format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", "));
        }
        assert_eq!(problem(&laughs), "the file is too large with its aliases");
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 19), vec!["*a"; 99].join(", "));
        assert_eq!(problem(&long), "the file is too large with its aliases");
        for deep in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000)] {
            let problem = problem(&deep);
            assert!(
                problem.contains("nested") || problem.starts_with("not valid YAML"),
                "{problem}"
            );
        }
        assert_eq!(problem(&" ".repeat(10 << 20)), "the file is larger than 1 MiB");
        let keys: String = (0..3_000).map(|at| format!("k{at}: 1\n")).collect();
        assert_eq!(problem(&keys), "a mapping has more than 2000 keys");
        assert_eq!(problem("a: &a [*a]\n"), "the alias stands within its own anchor");
        assert_eq!(problem("a: 1\na: 2\n"), "`a` is given twice");
        assert_eq!(problem("a: 1\n---\nb: 2\n"), "a second document begins here");
        assert_eq!(problem("? [a, b]\n: 1\n"), "a list is a key");
        assert!(problem("a: !!python/tuple [1]").contains("the tag `"));
        assert_eq!(problem("# nothing\n"), "the file is empty");
        assert!(problem("a: [1, 2").starts_with("not valid YAML"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            text in r#"([\[\]{}:,&*!?|>'"%@#~\n \t-]|a|<<|!!str |\*a |&a |é|: |- |\n  ){0,60}"#,
        ) {
            let _ = read(&text);
        }
    }
}
