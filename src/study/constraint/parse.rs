//! The text of a condition to its tree, or what is wrong with it and where.

use serde::{Deserialize, Deserializer, de};

use super::expression::{Comparison, Expression, Function, Node, Operation, Part, Span};

/// Longest text of a condition, in bytes.
pub const LONGEST: usize = 10_000;
/// Deepest nesting of parentheses, signs and `not`.
const DEEPEST: usize = 100;

/// Why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionError {
    /// What is wrong, one sentence.
    pub message: String,
    /// Where in the text, in bytes; empty at its end.
    pub span: std::ops::Range<usize>,
    /// What to do.
    pub help: Option<String>,
}

fn error(span: Span, message: impl Into<String>) -> ExpressionError {
    ExpressionError { message: message.into(), span, help: None }
}

impl ExpressionError {
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl Expression {
    /// Reads a condition.
    ///
    /// # Errors
    /// It is no condition: what is wrong, and where.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Ok(Expression::new(text, parse(text)?))
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Expression::parse(&text)
            .map_err(|error| de::Error::custom(format!("`{text}` is no condition: {error}")))
    }
}

/// The tree of a condition.
fn parse(text: &str) -> Result<Node, ExpressionError> {
    if text.len() > LONGEST {
        return Err(error(
            LONGEST..LONGEST,
            format!("the condition has {} bytes, more than {LONGEST}", text.len()),
        ));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens, at: 0, end: text.len(), depth: 0 };
    let root = parser.either()?;
    if let Some((token, span)) = parser.tokens.get(parser.at) {
        return Err(match token {
            Token::Symbol("=") => error(span.clone(), "`=` compares nothing").help("write `==`"),
            Token::Symbol(")") => error(span.clone(), "this parenthesis was never opened"),
            token => error(span.clone(), format!("{} is not expected here", token.described()))
                .help("put an operator, `and` or `or` before it"),
        });
    }
    if !root.is_condition() {
        return Err(error(root.span.clone(), "this is a value, not a condition")
            .help("compare it, for example with `<= 10`"));
    }
    Ok(root)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Word(String),
    /// A name in double quotes or backticks.
    Named(String),
    /// A text in single quotes.
    Text(String),
    Symbol(&'static str),
}

impl Token {
    fn described(&self) -> String {
        match self {
            Token::Number(number) => format!("the number `{number}`"),
            Token::Word(word) | Token::Named(word) => format!("`{word}`"),
            Token::Text(text) => format!("'{text}'"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
        }
    }
}

/// Longer ones first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 19] = [
    "**", "<=", ">=", "==", "!=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "(", ")", ",",
    "=", "!",
];

fn tokens(text: &str) -> Result<Vec<(Token, Span)>, ExpressionError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, length) = if first.is_ascii_digit() || first == '.' {
            number(rest, at)?
        } else if first.is_alphabetic() || first == '_' {
            let length = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
                .unwrap_or(rest.len());
            let word = rest[..length].trim_end_matches('.');
            (Token::Word(word.to_owned()), word.len())
        } else if let '"' | '\'' | '`' = first {
            let Some(length) = rest[1..].find(first) else {
                return Err(error(at..text.len(), "this quote is never closed"));
            };
            let inner = rest[1..=length].to_owned();
            if inner.is_empty() && first != '\'' {
                return Err(error(at..at + 2, "there is no name between the quotes"));
            }
            (if first == '\'' { Token::Text(inner) } else { Token::Named(inner) }, length + 2)
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            let problem = error(
                at..at + first.len_utf8(),
                format!("`{}` means nothing in a condition", first.escape_debug()),
            );
            return Err(if first == '^' {
                problem.help("a power is written `**`")
            } else {
                problem
            });
        };
        let span = at..at + length;
        at = span.end;
        match token {
            Token::Symbol("&&") => return Err(error(span, "`&&` is written `and`")),
            Token::Symbol("||") => return Err(error(span, "`||` is written `or`")),
            Token::Symbol("!") => return Err(error(span, "`!` is written `not`")),
            token => tokens.push((token, span)),
        }
    }
    Ok(tokens)
}

/// Digits with a point and an exponent; underlines between digits as in TOML.
fn number(rest: &str, at: usize) -> Result<(Token, usize), ExpressionError> {
    let bytes = rest.as_bytes();
    let digits = |mut from: usize| {
        while from < bytes.len() && (bytes[from].is_ascii_digit() || bytes[from] == b'_') {
            from += 1;
        }
        from
    };
    let mut length = digits(0);
    if bytes.get(length) == Some(&b'.') {
        length = digits(length + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(length) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let end = digits(length + 1 + sign);
        if end > length + 1 + sign {
            length = end;
        }
    }
    let written = &rest[..length];
    let followed = rest[length..]
        .chars()
        .next()
        .is_some_and(|next| next.is_alphanumeric() || next == '_' || next == '.');
    match written.replace('_', "").parse::<f64>() {
        Ok(number) if number.is_finite() && !followed => Ok((Token::Number(number), length)),
        _ => {
            let end = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
                .unwrap_or(rest.len())
                .max(1);
            Err(error(at..at + end, format!("`{}` is not a number", &rest[..end]))
                .help("a name that begins with a digit is written in double quotes"))
        }
    }
}

struct Parser {
    tokens: Vec<(Token, Span)>,
    at: usize,
    end: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn span(&self) -> Span {
        self.tokens.get(self.at).map_or(self.end..self.end, |(_, span)| span.clone())
    }

    fn takes_symbol(&mut self, symbols: &[&str]) -> Option<&'static str> {
        let Some(Token::Symbol(symbol)) = self.peek() else { return None };
        let symbol = *symbol;
        symbols.contains(&symbol).then(|| {
            self.at += 1;
            symbol
        })
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Word(own)) if own == word);
        self.at += usize::from(is);
        is
    }

    fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, ExpressionError>,
    ) -> Result<T, ExpressionError> {
        if self.depth == DEEPEST {
            return Err(error(
                self.span(),
                format!("the condition is nested more than {DEEPEST} deep"),
            ));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// `a or b or c`.
    fn either(&mut self) -> Result<Node, ExpressionError> {
        self.several("or", Self::both, Part::Or)
    }

    /// `a and b and c`.
    fn both(&mut self) -> Result<Node, ExpressionError> {
        self.several("and", Self::opposite, Part::And)
    }

    fn several(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Node, ExpressionError>,
        whole: fn(Vec<Node>) -> Part,
    ) -> Result<Node, ExpressionError> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.takes_word(word) {
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
        Ok(Node { part: whole(parts), span })
    }

    fn opposite(&mut self) -> Result<Node, ExpressionError> {
        let start = self.span().start;
        if !self.takes_word("not") {
            return self.comparison();
        }
        let inner = self.deeper(Self::opposite)?;
        if !inner.is_condition() {
            return Err(error(inner.span, "`not` turns a condition round, and this is a value"));
        }
        let span = start..inner.span.end;
        Ok(Node { part: Part::Not(Box::new(inner)), span })
    }

    /// `a < b`, and `a < b <= c` for both at once.
    fn comparison(&mut self) -> Result<Node, ExpressionError> {
        let mut left = self.sum()?;
        let mut found: Vec<Node> = Vec::new();
        while let Some(symbol) = self.takes_symbol(&["<", "<=", ">", ">=", "==", "!="]) {
            let comparison = match symbol {
                "<" => Comparison::Less,
                "<=" => Comparison::AtMost,
                ">" => Comparison::More,
                ">=" => Comparison::AtLeast,
                "==" => Comparison::Equal,
                _ => Comparison::Unequal,
            };
            let right = self.sum()?;
            let span = left.span.start..right.span.end;
            found.push(Node {
                part: Part::Comparison(comparison, Box::new(left), Box::new(right.clone())),
                span,
            });
            left = right;
        }
        Ok(match found.len() {
            0 => left,
            1 => found.swap_remove(0),
            _ => {
                let span = found[0].span.start..found[found.len() - 1].span.end;
                Node { part: Part::And(found), span }
            }
        })
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
        while let Some(symbol) = self.takes_symbol(symbols) {
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

    fn signed(&mut self) -> Result<Node, ExpressionError> {
        let start = self.span().start;
        match self.takes_symbol(&["-", "+"]) {
            None => self.power(),
            Some(sign) => {
                let inner = self.deeper(Self::signed)?;
                must_be_number(&inner)?;
                let span = start..inner.span.end;
                Ok(if sign == "-" {
                    Node { part: Part::Negative(Box::new(inner)), span }
                } else {
                    Node { span, ..inner }
                })
            }
        }
    }

    /// `a ** b ** c` is `a ** (b ** c)`, and `-a ** b` is `-(a ** b)`.
    fn power(&mut self) -> Result<Node, ExpressionError> {
        let base = self.atom()?;
        if self.takes_symbol(&["**"]).is_none() {
            return Ok(base);
        }
        let exponent = self.deeper(Self::signed)?;
        operation_node(Operation::Power, base, exponent)
    }

    fn atom(&mut self) -> Result<Node, ExpressionError> {
        let Some((token, span)) = self.tokens.get(self.at).cloned() else {
            let what = if self.tokens.is_empty() {
                "the condition is empty"
            } else {
                "the condition ends where a value is expected"
            };
            return Err(error(self.end..self.end, what));
        };
        self.at += 1;
        let part = match token {
            Token::Number(number) => Part::Number(number),
            Token::Named(name) => Part::Name(name),
            Token::Text(text) => Part::Text(text),
            Token::Symbol("(") => return self.grouped(span),
            Token::Word(word) if matches!(self.peek(), Some(Token::Symbol("("))) => {
                return self.call(&word, span);
            }
            Token::Word(word) => match word.as_str() {
                "true" => Part::Flag(true),
                "false" => Part::Flag(false),
                "and" | "or" | "not" => {
                    return Err(error(span, format!("a value is expected before `{word}`")));
                }
                _ => Part::Name(word),
            },
            Token::Symbol("=") => {
                return Err(error(span, "`=` compares nothing").help("write `==`"));
            }
            token => {
                return Err(error(span, format!("a value is expected, not {}", token.described())));
            }
        };
        Ok(Node { part, span })
    }

    fn grouped(&mut self, open: Span) -> Result<Node, ExpressionError> {
        let inner = self.deeper(Self::either)?;
        self.closes(&open)?;
        // Its own span, so that messages underline what is meant.
        Ok(inner)
    }

    fn closes(&mut self, open: &Span) -> Result<(), ExpressionError> {
        if self.takes_symbol(&[")"]).is_some() {
            return Ok(());
        }
        match self.peek() {
            None => Err(error(open.clone(), "this parenthesis is never closed")),
            Some(token) => {
                Err(error(self.span(), format!("`)` is expected, not {}", token.described())))
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
        let open = self.span();
        self.at += 1;
        let mut arguments = Vec::new();
        loop {
            let argument = self.deeper(Self::either)?;
            must_be_number(&argument)?;
            arguments.push(argument);
            if self.takes_symbol(&[","]).is_none() {
                break;
            }
        }
        let end = self.span().end;
        self.closes(&open)?;
        let (least, most) = function.arguments();
        if arguments.len() < least || arguments.len() > most {
            let wants = if least == 1 {
                "one number".to_owned()
            } else {
                format!("{least} numbers or more")
            };
            return Err(error(span, format!("`{word}` takes {wants}, not {}", arguments.len())));
        }
        Ok(Node { part: Part::Call(function, arguments), span: span.start..end })
    }
}

fn operation_node(operation: Operation, left: Node, right: Node) -> Result<Node, ExpressionError> {
    must_be_number(&left)?;
    must_be_number(&right)?;
    let span = left.span.start..right.span.end;
    Ok(Node { part: Part::Operation(operation, Box::new(left), Box::new(right)), span })
}

fn must_be_number(node: &Node) -> Result<(), ExpressionError> {
    match node.part {
        Part::Comparison(..) | Part::And(_) | Part::Or(_) | Part::Not(_) | Part::Flag(_) => {
            Err(error(node.span.clone(), "a number is expected, and this is true or false"))
        }
        Part::Text(_) => Err(error(node.span.clone(), "a number is expected, and this is a text")
            .help("names are bare or in double quotes")),
        _ => Ok(()),
    }
}

impl Node {
    /// Whether it is true or false, as far as can be told without knowing what names stand for.
    fn is_condition(&self) -> bool {
        !matches!(
            self.part,
            Part::Number(_)
                | Part::Text(_)
                | Part::Negative(_)
                | Part::Operation(..)
                | Part::Call(..)
        )
    }
}
