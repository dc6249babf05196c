//! Diagnostics about a study file: what is wrong, where, and what to do, rendered like rustc's.

#![expect(
    clippy::disallowed_methods,
    reason = "whether messages have colours is up to the environment"
)]

use std::env;
use std::fmt;
use std::io::{self, IsTerminal};

use annotate_snippets::{
    Annotation, AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet,
};

use super::shown::{one_line, same_length};
use crate::study::counted::count;

/// Whether a problem prevents the study from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The study is invalid.
    Error,
    /// A new study is invalid; a stored one that began before this was an error continues.
    ErrorIfNew,
    /// The study runs; the user should know.
    Warning,
}

/// A span in one of a study's source texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceSpan {
    /// Index into [`Diagnostics::sources`].
    pub source: usize,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A source text of a study: the file, or an override on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in messages: the file's path, or `--set`.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where; `None`: no particular location.
    pub place: Option<SourceSpan>,
    /// A label below the span.
    pub label: Option<String>,
    /// Related spans with labels.
    pub related: Vec<(SourceSpan, String)>,
    /// What to do, one line each.
    pub help: Vec<String>,
}

/// A problem without advice: [`help`](Complaint::help) makes it a [`Diagnostic`], so that none is
/// shown without.
#[derive(Clone, Debug)]
#[must_use]
pub struct Complaint(Diagnostic);

impl Complaint {
    /// Adds a label.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.0.label = Some(one_line(&label.into()));
        self
    }

    /// Adds a related span.
    pub fn related(self, place: impl Into<Option<SourceSpan>>, label: impl Into<String>) -> Self {
        Complaint(self.0.related(place, label))
    }

    /// Adds advice.
    pub fn help(self, help: impl Into<String>) -> Diagnostic {
        self.0.help(help)
    }
}

/// Whether one of these prevents the study from running.
pub fn has_errors(problems: &[Diagnostic]) -> bool {
    problems.iter().any(|problem| problem.severity == Severity::Error)
}

impl Diagnostic {
    /// An error at `place`.
    pub fn error(place: impl Into<Option<SourceSpan>>, message: impl Into<String>) -> Complaint {
        let (place, message) = (place.into(), message.into());
        Complaint(Diagnostic {
            severity: Severity::Error,
            message,
            place,
            label: None,
            related: Vec::new(),
            help: Vec::new(),
        })
    }

    /// A warning at `place`.
    pub fn warning(place: impl Into<Option<SourceSpan>>, message: impl Into<String>) -> Complaint {
        Complaint(Diagnostic { severity: Severity::Warning, ..Diagnostic::error(place, message).0 })
    }

    /// Adds a related span.
    #[must_use]
    pub fn related(
        mut self,
        place: impl Into<Option<SourceSpan>>,
        label: impl Into<String>,
    ) -> Self {
        self.related.extend(place.into().map(|place| (place, one_line(&label.into()))));
        self
    }

    /// Adds advice; several calls give several lines.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }
}

/// With or without colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// For files, pipes and `NO_COLOR`.
    #[default]
    Plain,
    /// For terminals.
    Styled,
}

impl Look {
    /// The look for standard error: colours on a terminal unless `NO_COLOR` is set
    /// (<https://no-color.org>) or `TERM` is `dumb`.
    pub fn of_stderr() -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || env::var_os("TERM").is_some_and(|term| term == "dumb");
        if !refused && io::stderr().is_terminal() { Look::Styled } else { Look::Plain }
    }
}

/// All problems of a study, in the order of the file, with their source texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    sources: Vec<Source>,
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// The problems of `sources`; the first source is the study file.
    pub fn new(sources: Vec<Source>, mut list: Vec<Diagnostic>) -> Self {
        let shown = |source: Source| Source {
            name: one_line(&source.name),
            text: same_length(&source.text),
        };
        let sources = sources.into_iter().map(shown).collect();
        list.sort_by_key(|diagnostic| (diagnostic.place.is_none(), diagnostic.place));
        Diagnostics { sources, list }
    }

    /// The source texts.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Number of problems.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// In the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Whether any of them prevents the study from running.
    pub fn has_errors(&self) -> bool {
        has_errors(&self.list)
    }

    /// Renders all problems with their snippets, separated by empty lines, and a summary.
    pub fn render(&self, look: Look) -> String {
        let renderer = match look {
            Look::Plain => Renderer::plain(),
            Look::Styled => Renderer::styled().hyperlink(false),
        };
        let mut text = String::new();
        for diagnostic in &self.list {
            text.push_str(&renderer.render(&[self.group(diagnostic)]));
            text.push_str("\n\n");
        }
        text.push_str(&self.summary());
        text.push('\n');
        text
    }

    /// How many problems there are: `2 problems and 1 warning in study.toml`.
    pub fn summary(&self) -> String {
        let errors =
            self.list.iter().filter(|diagnostic| diagnostic.severity != Severity::Warning).count();
        let warnings = self.list.len() - errors;
        let counts: Vec<String> = [(errors, "problem"), (warnings, "warning")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(number, noun)| count(number as u64, noun))
            .collect();
        let name = self.sources.first().map_or("the study", |source| source.name.as_str());
        let counts =
            if counts.is_empty() { "no problems".to_owned() } else { counts.join(" and ") };
        let overridden = self
            .list
            .iter()
            .any(|diagnostic| diagnostic.place.is_some_and(|place| place.source > 0));
        format!("{counts} in {}{}", name, if overridden { " and its --set overrides" } else { "" })
    }

    fn group<'a>(&'a self, diagnostic: &'a Diagnostic) -> Group<'a> {
        let level = match diagnostic.severity {
            Severity::Error | Severity::ErrorIfNew => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut elements: Vec<Element<'a>> = Vec::new();
        match diagnostic.place {
            Some(place) => elements.extend(self.snippets(diagnostic, place)),
            None => elements.extend(
                self.sources.first().map(|source| Element::Origin(Origin::path(&source.name))),
            ),
        }
        elements.extend(
            diagnostic
                .help
                .iter()
                .map(|help| Element::Message(Level::HELP.message(wrapped(&one_line(help))))),
        );
        Group::with_title(level.primary_title(one_line(&diagnostic.message))).elements(elements)
    }

    /// One snippet per source, the primary span's first.
    fn snippets<'a>(&'a self, diagnostic: &'a Diagnostic, place: SourceSpan) -> Vec<Element<'a>> {
        let mut sources = vec![place.source];
        sources.extend(diagnostic.related.iter().map(|(place, _)| place.source));
        let mut seen = Vec::new();
        for source in sources {
            if !seen.contains(&source) {
                seen.push(source);
            }
        }
        seen.into_iter()
            .filter_map(|index| self.sources.get(index).map(|source| (index, source)))
            .map(|(index, source)| {
                let mut annotations = Vec::new();
                if index == place.source {
                    annotations.push(annotation(
                        source,
                        place,
                        AnnotationKind::Primary,
                        diagnostic.label.as_deref(),
                    ));
                }
                for (other, label) in
                    diagnostic.related.iter().filter(|(other, _)| other.source == index)
                {
                    annotations.push(annotation(
                        source,
                        *other,
                        AnnotationKind::Context,
                        Some(label),
                    ));
                }
                Element::Cause(
                    Snippet::source(&source.text).path(&source.name).annotations(annotations),
                )
            })
            .collect()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(Look::Plain).trim_end())
    }
}

/// A span clamped to the text, to character boundaries and to one line.
fn annotation<'a>(
    source: &'a Source,
    place: SourceSpan,
    kind: AnnotationKind,
    label: Option<&'a str>,
) -> Annotation<'a> {
    let text = &source.text;
    let start = text.floor_char_boundary(place.start.min(text.len()));
    let end = text.floor_char_boundary(place.end.min(text.len())).max(start);
    let end = text[start..end].find('\n').map_or(end, |newline| start + newline);
    kind.span(start..end).label(label)
}

/// Wraps advice for a narrow terminal, outside of backticks; the renderer indents continuation
/// lines.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 66;
    let mut lines = String::new();
    let mut column = 0;
    let mut quoted = false;
    let breakable = |c: char| {
        quoted ^= c == '`';
        c == ' ' && !quoted
    };
    for word in text.split(breakable) {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > WIDTH {
            lines.push('\n');
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += width;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Vec<Source> {
        vec![Source { name: "study.toml".into(), text: text.into() }]
    }

    #[test]
    fn the_count_names_problems_and_warnings() {
        let diagnostics = Diagnostics::new(
            source(""),
            vec![
                Diagnostic::error(None, "a").help("x"),
                Diagnostic::warning(None, "b").help("y"),
                Diagnostic::error(None, "c").help("z"),
            ],
        );
        assert_eq!(diagnostics.summary(), "2 problems and 1 warning in study.toml");
    }

    #[test]
    fn places_outside_the_text_render_all_the_same() {
        let place = SourceSpan { source: 0, start: 3, end: 99 };
        let diagnostics = Diagnostics::new(
            source("äß\n"),
            vec![
                Diagnostic::error(place, "bad")
                    .related(SourceSpan { source: 7, ..place }, "gone")
                    .help("repair it"),
            ],
        );
        assert!(diagnostics.render(Look::Plain).contains("study.toml"));
    }

    #[test]
    fn only_the_styled_look_has_escape_sequences() {
        let diagnostics = Diagnostics::new(
            source("a = 1\n"),
            vec![
                Diagnostic::error(SourceSpan { source: 0, start: 0, end: 1 }, "bad")
                    .help("repair it"),
            ],
        );
        assert!(diagnostics.render(Look::Styled).contains('\u{1b}'));
        assert!(!diagnostics.render(Look::Plain).contains('\u{1b}'));
    }
}
