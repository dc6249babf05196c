//! Parses the text of a condition.

use serde::{Deserialize, Deserializer, de};

use super::check::check_comparison;
use super::dates::lower;
use super::expression::{Comparison, Expression, Function, Node, NodeKind, Operation};
use super::moment::Moment;
use super::names::Names;
use super::property::Statistic;
use super::short_form::short_form;
use super::syntax::{ExpressionError, FOREIGN, Scanner, Span, Token, is_name_char};

/// Longest text of a condition, in bytes; also the longest chain of operations in a filter.
pub const LONGEST: usize = 10_000;
/// Deepest nesting of parentheses, signs and `not`.
const DEEPEST: usize = 100;

fn error(span: Span, message: impl Into<String>) -> ExpressionError {
    ExpressionError::new(span, message)
}

impl Expression {
    /// Parses a condition.
    ///
    /// # Errors
    /// The syntax error and its span.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        if text.len() > LONGEST {
            return Err(error(
                LONGEST..LONGEST,
                format!("the condition has {} bytes, more than {LONGEST}", text.len()),
            ));
        }
        Ok(Expression::new(text, Parser::new(text, None).whole()?))
    }

    /// Parses a filter, which may use short forms.
    pub(crate) fn parse_filter(text: &str, names: &Names<'_>) -> Result<Self, ExpressionError> {
        Ok(Expression::new(text.trim(), Parser::new(text, Some(names)).whole()?))
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Expression::parse(&text)
            .map_err(|error| de::Error::custom(format!("`{text}` is not a condition: {error}")))
    }
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    text: &'a str,
    /// Present in a filter.
    names: Option<&'a Names<'a>>,
    depth: usize,
    /// Number of open groups of conditions.
    groups: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, names: Option<&'a Names<'a>>) -> Self {
        Parser { scanner: Scanner::new(text), text, names, depth: 0, groups: 0 }
    }

    fn whole(mut self) -> Result<Node, ExpressionError> {
        let root = self.either()?;
        if let Some((token, span)) = self.scanner.peek()? {
            return Err(match token {
                Token::Symbol("=") => error(span, "`=` compares nothing").help("write `==`"),
                Token::Symbol(")") => error(span, "this parenthesis was never opened"),
                token => error(span, format!("{} is not expected here", token.described()))
                    .help("put an operator, `and` or `or` before it"),
            });
        }
        if !root.is_condition() {
            return Err(error(root.span, "this is a value, not a condition")
                .help("compare it, for example with `<= 10`"));
        }
        Ok(root)
    }

    fn span(&mut self) -> Result<Span, ExpressionError> {
        let end = self.text.len();
        Ok(self.scanner.peek()?.map_or(end..end, |(_, span)| span))
    }

    /// In a filter, text that is not a token may be the next word.
    fn takes_symbol(&mut self, symbols: &[&str]) -> Result<Option<&'static str>, ExpressionError> {
        let symbol = match self.scanner.peek() {
            Ok(Some((Token::Symbol(symbol), _))) if symbols.contains(&symbol) => symbol,
            Err(error) if self.names.is_none() => return Err(error),
            _ => return Ok(None),
        };
        self.scanner.advance(symbol.len());
        Ok(Some(symbol))
    }

    fn is_at_word(&mut self, word: &str) -> bool {
        self.length_of_word(word).is_some()
    }

    /// The length of the operator that follows, if it does: in a filter also in capitals, or as
    /// `&&` and `||`.
    fn length_of_word(&mut self, word: &str) -> Option<usize> {
        self.scanner.start();
        let rest = self.scanner.rest();
        let ends = |length: usize| {
            let next = rest[length..].chars().next();
            next.is_none_or(|next| match self.names {
                Some(_) => next.is_whitespace() || "()".contains(next),
                None => !is_name_char(next),
            })
        };
        let capitals = word.to_uppercase();
        let symbol = FOREIGN.iter().find(|(_, meant)| *meant == word).map(|(symbol, _)| *symbol);
        let others = [Some(capitals.as_str()), symbol.filter(|symbol| *symbol != "!")];
        let others = others.into_iter().flatten().filter(|_| self.names.is_some());
        let mut spellings = std::iter::once(word).chain(others);
        let found = spellings.find(|spelling| rest.starts_with(spelling))?;
        ends(found.len()).then_some(found.len())
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let length = self.length_of_word(word);
        self.scanner.advance(length.unwrap_or(0));
        length.is_some()
    }

    /// Whether another term of a filter follows, joined by a space.
    fn is_at_term(&mut self) -> bool {
        let is_over = self.is_at_word("or") || self.scanner.rest().is_empty();
        let closes = self.groups > 0 && self.scanner.rest().starts_with(')');
        self.names.is_some() && !is_over && !closes
    }

    fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, ExpressionError>,
    ) -> Result<T, ExpressionError> {
        if self.depth == DEEPEST {
            let message = format!("the condition is nested more than {DEEPEST} deep");
            return Err(error(self.span()?, message));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// `a or b or c`.
    fn either(&mut self) -> Result<Node, ExpressionError> {
        self.several("or", Self::both, NodeKind::Or)
    }

    /// `a and b and c`.
    fn both(&mut self) -> Result<Node, ExpressionError> {
        self.several("and", Self::opposite, NodeKind::And)
    }

    fn several(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Node, ExpressionError>,
        whole: fn(Vec<Node>) -> NodeKind,
    ) -> Result<Node, ExpressionError> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.takes_word(word) || (word == "and" && self.is_at_term()) {
            parts.push(part(self)?);
        }
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0));
        }
        if let Some(value) = parts.iter().find(|part| !part.is_condition()) {
            return Err(error(
                value.span.clone(),
                format!("`{word}` joins conditions, and this is a value"),
            )
            .help("compare it, for example with `<= 10`"));
        }
        let span = parts[0].span.start..parts[parts.len() - 1].span.end;
        Ok(Node { kind: whole(parts), span })
    }

    fn opposite(&mut self) -> Result<Node, ExpressionError> {
        let start = self.scanner.start();
        if !self.takes_word("not") {
            return self.comparison();
        }
        let inner = self.deeper(Self::opposite)?;
        if !inner.is_condition() {
            return Err(error(inner.span, "`not` negates a condition, and this is a value"));
        }
        let span = start..inner.span.end;
        Ok(Node { kind: NodeKind::Not(Box::new(inner)), span })
    }

    fn comparison(&mut self) -> Result<Node, ExpressionError> {
        match self.names {
            Some(names) => self.term(names),
            None => {
                let left = self.sum()?;
                self.compared(left)
            }
        }
    }

    /// The comparison operators; a filter also accepts `=`.
    fn comparisons(&self) -> Vec<&'static str> {
        let equal = self.names.map(|_| "=");
        Comparison::SYMBOLS.iter().map(|(symbol, _)| *symbol).chain(equal).collect()
    }

    /// `a < b`, or the chain `a < b <= c`.
    fn compared(&mut self, mut left: Node) -> Result<Node, ExpressionError> {
        let mut found: Vec<Node> = Vec::new();
        let symbols = self.comparisons();
        while let Some(symbol) = self.takes_symbol(&symbols)? {
            let right = self.sum()?;
            let span = left.span.start..right.span.end;
            let pair = (Box::new(left), Box::new(right.clone()));
            let kind = NodeKind::Comparison(Comparison::of(symbol), pair.0, pair.1);
            found.push(Node { kind, span });
            left = right;
        }
        Ok(match found.len() {
            0 => left,
            1 => found.swap_remove(0),
            _ => {
                let span = found[0].span.start..found[found.len() - 1].span.end;
                Node { kind: NodeKind::And(found), span }
            }
        })
    }

    /// One condition of a filter: a short form, a comparison, or a group.
    fn term(&mut self, names: &Names<'_>) -> Result<Node, ExpressionError> {
        let start = self.scanner.start();
        if self.scanner.rest().is_empty() {
            return Err(error(start..start, "the filter ends where a condition is expected")
                .help("text to look for is written in double quotes: `\"or\"`"));
        }
        for word in ["and", "or"] {
            if self.is_at_word(word) {
                return Err(error(
                    start..start + word.len(),
                    format!(
                        "a condition is expected before `{word}`: write `\"{word}\"` to look for \
                         the text"
                    ),
                ));
            }
        }
        let before = self.scanner.clone();
        let word = self.scanner.word(self.groups > 0);
        let split = word.as_ref().ok().and_then(|word| word.unsigned().split());
        let is_short = split.as_ref().is_some_and(|(name, ..)| {
            name.is_name() || names.property(&name.text(), name.span.clone()).is_ok()
        });
        if !is_short {
            let after = std::mem::replace(&mut self.scanner, before.clone());
            // Without a space before the operator, the rest would be a separate word.
            if let Ok(left) = self.sum()
                && self.is_at_comparison(split.is_some())
            {
                let mut node = self.compared(left)?;
                resolve(&mut node, names, self.text)?;
                check_comparison(&node, names)?;
                lower(&mut node);
                return Ok(node);
            }
            self.scanner = before;
            let rest = self.scanner.rest();
            let unsigned = rest.trim_start_matches(['-', '!']);
            if unsigned.starts_with('(') && rest.len() - unsigned.len() <= 1 {
                self.scanner.advance(rest.len() - unsigned.len());
                let group = self.group()?;
                let span = start..group.span.end;
                return Ok(match rest.len() - unsigned.len() {
                    0 => group,
                    _ => Node { kind: NodeKind::Not(Box::new(group)), span },
                });
            }
            self.scanner = after;
        }
        short_form(&word?, names)
    }

    fn is_at_comparison(&mut self, may_adjoin: bool) -> bool {
        self.scanner.start();
        let rest = self.scanner.rest();
        (may_adjoin || self.scanner.is_after_space())
            && self.comparisons().iter().any(|symbol| rest.starts_with(symbol))
    }

    fn group(&mut self) -> Result<Node, ExpressionError> {
        let open = self.span()?;
        self.scanner.advance(1);
        self.groups += 1;
        let inner = self.deeper(Self::either)?;
        self.groups -= 1;
        self.closes(&open)?;
        Ok(inner)
    }

    fn sum(&mut self) -> Result<Node, ExpressionError> {
        self.chain(&["+", "-"], Self::product)
    }

    fn product(&mut self) -> Result<Node, ExpressionError> {
        self.chain(&["*", "/", "%"], Self::signed)
    }

    fn chain(
        &mut self,
        symbols: &[&str],
        part: fn(&mut Self) -> Result<Node, ExpressionError>,
    ) -> Result<Node, ExpressionError> {
        let mut left = part(self)?;
        let mut count = 0;
        while !self.is_at_signed_term()
            && let Some(symbol) = self.takes_symbol(symbols)?
        {
            count += 1;
            if count == LONGEST / 2 {
                return Err(error(self.span()?, format!("more than {count} operations follow")));
            }
            let operation = match symbol {
                "+" => Operation::Add,
                "-" => Operation::Subtract,
                "*" => Operation::Multiply,
                "%" => Operation::Remainder,
                _ => Operation::Divide,
            };
            let right = part(self)?;
            left = operation_node(operation, left, right)?;
        }
        Ok(left)
    }

    /// In a filter, `-` directly before a word negates a term: `lr < 0.1 -state:failed`.
    fn is_at_signed_term(&mut self) -> bool {
        self.scanner.start();
        let rest = self.scanner.rest().strip_prefix(['-', '+']);
        self.names.is_some()
            && self.scanner.is_after_space()
            && rest.is_some_and(|rest| !rest.starts_with(char::is_whitespace))
    }

    fn signed(&mut self) -> Result<Node, ExpressionError> {
        let start = self.scanner.start();
        match self.takes_symbol(&["-", "+"])? {
            None => self.power(),
            Some(sign) => {
                let inner = self.deeper(Self::signed)?;
                must_be_number(&inner)?;
                let span = start..inner.span.end;
                Ok(if sign == "-" {
                    Node { kind: NodeKind::Negative(Box::new(inner)), span }
                } else {
                    Node { span, ..inner }
                })
            }
        }
    }

    /// `a ** b ** c` is `a ** (b ** c)`, and `-a ** b` is `-(a ** b)`.
    fn power(&mut self) -> Result<Node, ExpressionError> {
        let base = self.atom()?;
        if self.takes_symbol(&["**"])?.is_none() {
            return Ok(base);
        }
        let exponent = self.deeper(Self::signed)?;
        operation_node(Operation::Power, base, exponent)
    }

    fn atom(&mut self) -> Result<Node, ExpressionError> {
        let at = self.scanner.start();
        if let Some(name) = self.names.and_then(|names| names.written_at(self.scanner.rest())) {
            self.scanner.advance(name.len());
            return Ok(Node { kind: NodeKind::Name(name.to_owned()), span: at..at + name.len() });
        }
        let moment = self.names.and_then(|_| Moment::written_at(self.scanner.rest()));
        if let Some((moment, length)) = moment {
            self.scanner.advance(length);
            return Ok(Node { kind: NodeKind::Moment(moment), span: at..at + length });
        }
        let Some((token, span)) = self.scanner.peek()? else {
            let what = if self.text.trim().is_empty() {
                "the condition is empty"
            } else {
                "the condition ends where a value is expected"
            };
            return Err(error(self.text.len()..self.text.len(), what));
        };
        self.scanner.advance(span.len());
        let kind = match token {
            Token::Number(number) => NodeKind::Number(number),
            Token::Named(name) => NodeKind::Name(name),
            Token::Text(text) => NodeKind::Text(text),
            Token::Symbol("(") => return self.grouped(span),
            Token::Word(word) if self.is_at_call() => return self.call(&word, span),
            Token::Word(word) => match word.as_str() {
                "true" => NodeKind::Flag(true),
                "false" => NodeKind::Flag(false),
                "and" | "or" | "not" => {
                    return Err(error(span, format!("a value is expected before `{word}`")));
                }
                _ => NodeKind::Name(word),
            },
            Token::Symbol("=") => {
                return Err(error(span, "`=` compares nothing").help("write `==`"));
            }
            token => {
                return Err(error(span, format!("a value is expected, not {}", token.described())));
            }
        };
        Ok(Node { kind, span })
    }

    fn is_at_call(&mut self) -> bool {
        if self.names.is_none() {
            self.scanner.start();
        }
        self.scanner.rest().starts_with('(')
    }

    /// The content of parentheses; in a filter, a group of conditions is a term.
    fn inner(&mut self) -> Result<Node, ExpressionError> {
        self.deeper(if self.names.is_some() { Self::sum } else { Self::either })
    }

    /// The span stays that of the content, so that messages underline it.
    fn grouped(&mut self, open: Span) -> Result<Node, ExpressionError> {
        let inner = self.inner()?;
        self.closes(&open)?;
        Ok(inner)
    }

    fn closes(&mut self, open: &Span) -> Result<(), ExpressionError> {
        if self.takes_symbol(&[")"])?.is_some() {
            return Ok(());
        }
        match self.scanner.peek()? {
            None => Err(error(open.clone(), "this parenthesis is never closed")),
            Some((token, span)) => {
                Err(error(span, format!("`)` is expected, not {}", token.described())))
            }
        }
    }

    fn call(&mut self, word: &str, span: Span) -> Result<Node, ExpressionError> {
        let Some((_, function)) = Function::ALL.into_iter().find(|(name, _)| *name == word) else {
            let names: Vec<String> =
                Function::ALL.iter().map(|(name, _)| format!("`{name}`")).collect();
            return Err(error(span, format!("there is no function `{word}`"))
                .help(format!("there are {}", names.join(", "))));
        };
        let open = self.span()?;
        self.scanner.advance(1);
        let mut arguments = Vec::new();
        loop {
            let argument = self.inner()?;
            must_be_number(&argument)?;
            arguments.push(argument);
            if self.takes_symbol(&[","])?.is_none() {
                break;
            }
        }
        let end = self.span()?.end;
        self.closes(&open)?;
        let (least, most) = function.arguments();
        // Of one metric, a filter knows the smallest and the largest value.
        let of_series = self.names.is_some()
            && statistic(function).is_some()
            && matches!(arguments.as_slice(), [Node { kind: NodeKind::Name(_), .. }]);
        if of_series {
            return Ok(Node { kind: NodeKind::Call(function, arguments), span: span.start..end });
        }
        if arguments.len() < least || arguments.len() > most {
            let wants = if least == 1 {
                "one number".to_owned()
            } else {
                format!("{least} numbers or more")
            };
            return Err(error(span, format!("`{word}` takes {wants}, not {}", arguments.len())));
        }
        Ok(Node { kind: NodeKind::Call(function, arguments), span: span.start..end })
    }
}

/// The statistic of a series that a function of one metric stands for.
fn statistic(function: Function) -> Option<Statistic> {
    match function {
        Function::Min => Some(Statistic::Min),
        Function::Max => Some(Statistic::Max),
        _ => None,
    }
}

/// Resolves the names of a filter, and lowercases its texts.
fn resolve(node: &mut Node, names: &Names<'_>, text: &str) -> Result<(), ExpressionError> {
    if let NodeKind::Call(function, arguments) = &node.kind
        && let Some(statistic) = statistic(*function)
        && let [Node { kind: NodeKind::Name(name), span }] = arguments.as_slice()
    {
        node.kind = NodeKind::Property(names.series(name, statistic, span.clone())?);
        return Ok(());
    }
    let parts: Vec<&mut Node> = match &mut node.kind {
        NodeKind::Name(name) => {
            node.kind = NodeKind::Property(names.property(name, node.span.clone())?);
            return Ok(());
        }
        NodeKind::Text(text) => {
            *text = text.to_lowercase();
            return Ok(());
        }
        NodeKind::Comparison(Comparison::Equal | Comparison::Unequal, left, right) => {
            // Double-quoted text that is not a name is a value to compare with.
            if let NodeKind::Name(word) = &right.kind
                && (text[right.span.clone()].starts_with('"') || is_text(left, names))
                && names.property(word, right.span.clone()).is_err()
            {
                right.kind = NodeKind::Text(word.to_lowercase());
            }
            vec![left.as_mut(), right.as_mut()]
        }
        NodeKind::Negative(inner) => vec![inner.as_mut()],
        NodeKind::Operation(_, left, right) | NodeKind::Comparison(_, left, right) => {
            vec![left.as_mut(), right.as_mut()]
        }
        NodeKind::Call(_, parts) | NodeKind::And(parts) => parts.iter_mut().collect(),
        _ => Vec::new(),
    };
    parts.into_iter().try_for_each(|part| resolve(part, names, text))
}

/// Whether a part is the name of a text.
fn is_text(node: &Node, names: &Names<'_>) -> bool {
    let NodeKind::Name(name) = &node.kind else { return false };
    names.property(name, node.span.clone()).is_ok_and(|property| names.is_text(&property))
}

fn operation_node(operation: Operation, left: Node, right: Node) -> Result<Node, ExpressionError> {
    must_be_number(&left)?;
    must_be_number(&right)?;
    let span = left.span.start..right.span.end;
    Ok(Node { kind: NodeKind::Operation(operation, Box::new(left), Box::new(right)), span })
}

fn must_be_number(node: &Node) -> Result<(), ExpressionError> {
    match node.kind {
        NodeKind::Comparison(..)
        | NodeKind::And(_)
        | NodeKind::Or(_)
        | NodeKind::Not(_)
        | NodeKind::Flag(_) => {
            Err(error(node.span.clone(), "a number is expected, and this is true or false"))
        }
        NodeKind::Text(_) => {
            Err(error(node.span.clone(), "a number is expected, and this is a text")
                .help("names are bare or in double quotes"))
        }
        _ => Ok(()),
    }
}

impl Node {
    /// Whether it is a condition, as far as known without resolving names.
    fn is_condition(&self) -> bool {
        !matches!(
            self.kind,
            NodeKind::Number(_)
                | NodeKind::Moment(_)
                | NodeKind::Text(_)
                | NodeKind::Negative(_)
                | NodeKind::Operation(..)
                | NodeKind::Call(..)
        )
    }
}
