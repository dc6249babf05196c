//! Tokenises conditions and the words of filters; errors with spans.

use std::ops::Range;

/// A byte range of the text.
pub(super) type Span = Range<usize>;

/// Why a text is not a valid condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionError {
    /// One sentence.
    pub message: String,
    /// The byte range concerned; empty at the end of the text.
    pub span: Range<usize>,
    /// What to do.
    pub help: Option<String>,
}

impl ExpressionError {
    pub(super) fn new(span: Span, message: impl Into<String>) -> Self {
        ExpressionError { message: message.into(), span, help: None }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Word(String),
    /// A name in double quotes or backticks.
    Named(String),
    /// A text in single quotes.
    Text(String),
    Symbol(&'static str),
}

impl Token {
    pub fn described(&self) -> String {
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

/// Operators of other languages, and ours.
pub(super) const FOREIGN: [(&str, &str); 3] = [("&&", "and"), ("||", "or"), ("!", "not")];

/// Whether the character can be part of a name or a number.
pub(super) fn is_name_char(char: char) -> bool {
    char.is_alphanumeric() || char == '_' || char == '.'
}

fn name_length(text: &str) -> usize {
    text.find(|char| !is_name_char(char)).unwrap_or(text.len())
}

/// A position in the text from which tokens and words are read.
#[derive(Clone, Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Self {
        Scanner { text, at: 0 }
    }

    /// Skips white space; returns the position of the next character.
    pub fn start(&mut self) -> usize {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.at
    }

    /// The unread text.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn is_after_space(&self) -> bool {
        self.text[..self.at].ends_with(char::is_whitespace)
    }

    pub fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// The next token and its span, without consuming it.
    pub fn peek(&mut self) -> Result<Option<(Token, Span)>, ExpressionError> {
        let at = self.start();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(None) };
        let (token, length) = if first.is_ascii_digit() || first == '.' {
            number(rest, at)?
        } else if first.is_alphabetic() || first == '_' {
            let word = rest[..name_length(rest)].trim_end_matches('.');
            (Token::Word(word.to_owned()), word.len())
        } else if let '"' | '\'' | '`' = first {
            let Some(length) = rest[1..].find(first) else {
                return Err(ExpressionError::new(
                    at..self.text.len(),
                    "this quote is never closed",
                ));
            };
            let inner = rest[1..=length].to_owned();
            if inner.is_empty() && first != '\'' {
                let message = "there is no name between the quotes";
                return Err(ExpressionError::new(at..at + 2, message));
            }
            (if first == '\'' { Token::Text(inner) } else { Token::Named(inner) }, length + 2)
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            if let Some((_, word)) = FOREIGN.iter().find(|(foreign, _)| *foreign == symbol) {
                let message = format!("`{symbol}` is written `{word}`");
                return Err(ExpressionError::new(at..at + symbol.len(), message));
            }
            (Token::Symbol(symbol), symbol.len())
        } else {
            let problem = ExpressionError::new(
                at..at + first.len_utf8(),
                format!("`{}` means nothing in a condition", first.escape_debug()),
            );
            return Err(match first {
                '^' => problem.help("a power is written `**`"),
                _ => problem,
            });
        };
        Ok(Some((token, at..at + length)))
    }

    /// The next word: up to white space outside of quotes, or inside a group up to its
    /// parenthesis.
    pub fn word(&mut self, is_in_group: bool) -> Result<Word, ExpressionError> {
        let start = self.start();
        let (mut chars, mut depth) = (Vec::new(), 0_usize);
        let mut rest = self.rest().char_indices();
        let mut end = self.text.len();
        while let Some((offset, char)) = rest.next() {
            let at = start + offset;
            match char {
                // Only text directly after an operator can be in single quotes.
                '\'' if self.text[at + 1..].contains('\'')
                    && matches!(chars.last(), Some((_, '=' | ':' | '<' | '>' | ',', false))) =>
                {
                    for (offset, char) in rest.by_ref().take_while(|(_, char)| *char != '\'') {
                        chars.push((start + offset, char, true));
                    }
                }
                '"' => loop {
                    let quoted = match rest.next() {
                        Some((_, '"')) => break,
                        Some((_, '\\')) => rest.next(),
                        other => other,
                    };
                    let Some((offset, char)) = quoted else {
                        let open = &self.text[at..];
                        return Err(ExpressionError::new(
                            at..self.text.len(),
                            format!("a quote is not closed in `{open}`: write `\"` at its end too"),
                        ));
                    };
                    chars.push((start + offset, char, true));
                },
                ')' if is_in_group && depth == 0 => {
                    end = at;
                    break;
                }
                char if char.is_whitespace() => {
                    end = at;
                    break;
                }
                char => {
                    match char {
                        '(' => depth += 1,
                        ')' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    chars.push((at, char, false));
                }
            }
        }
        self.at = end;
        Ok(Word { chars, span: start..end })
    }
}

/// Digits with a point and an exponent; underscores between digits as in TOML.
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
    match rest[..length].replace('_', "").parse::<f64>() {
        Ok(number) if number.is_finite() && !rest[length..].starts_with(is_name_char) => {
            Ok((Token::Number(number), length))
        }
        _ => {
            let end = name_length(rest).max(1);
            let message = format!("`{}` is not a number", &rest[..end]);
            Err(ExpressionError::new(at..at + end, message)
                .help("a name that begins with a digit is written in double quotes"))
        }
    }
}

/// A word of a filter; quoted characters are literal.
#[derive(Clone, Debug)]
pub(super) struct Word {
    /// Each with its position, and whether it was quoted.
    chars: Vec<(usize, char, bool)>,
    pub span: Span,
}

impl Word {
    pub fn text(&self) -> String {
        self.chars.iter().map(|(_, char, _)| char).collect()
    }

    /// The character at an index, unless it was quoted.
    fn sign(&self, index: usize) -> Option<char> {
        self.chars.get(index).filter(|(.., quoted)| !quoted).map(|(_, char, _)| *char)
    }

    /// Whether it begins with `-` or `!`, which negates it.
    pub fn is_negated(&self) -> bool {
        matches!(self.sign(0), Some('-' | '!')) && self.chars.len() > 1 && self.sign(1) != Some('=')
    }

    /// The word without the sign that negates it.
    pub fn unsigned(&self) -> Word {
        let sign = usize::from(self.is_negated());
        Word { chars: self.chars[sign..].to_vec(), span: self.span.start + sign..self.span.end }
    }

    /// Whether it can only be a name.
    pub fn is_name(&self) -> bool {
        let is_number = matches!(self.sign(0), Some('0'..='9' | '.' | '-'))
            && self.text().parse::<f64>().is_ok();
        !is_number
            && self
                .chars
                .iter()
                .all(|(_, char, quoted)| *quoted || *char == '-' || is_name_char(*char))
    }

    /// The parts before and after its first operator.
    pub fn split(&self) -> Option<(Word, &'static str, Word)> {
        const OPERATORS: [&str; 8] = ["!=", "<=", ">=", "==", "<", ">", "=", ":"];
        (0..self.chars.len()).find_map(|index| {
            let is_here = |operator: &&str| {
                operator.chars().zip(index..).all(|(char, at)| self.sign(at) == Some(char))
            };
            let operator = OPERATORS.into_iter().find(|operator| is_here(operator))?;
            let (at, ..) = self.chars[index];
            let part = |chars: &[(usize, char, bool)], span| Word { chars: chars.to_vec(), span };
            let end = index + operator.len();
            Some((
                part(&self.chars[..index], self.span.start..at),
                operator,
                part(&self.chars[end..], at + operator.len()..self.span.end),
            ))
        })
    }

    /// The parts between commas, none of them empty.
    pub fn list(&self) -> Vec<String> {
        self.chars
            .split(|(_, char, quoted)| *char == ',' && !quoted)
            .map(|part| part.iter().map(|(_, char, _)| char).collect())
            .filter(|part: &String| !part.is_empty())
            .collect()
    }
}
