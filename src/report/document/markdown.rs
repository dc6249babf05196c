//! A report as GitHub-flavoured Markdown, for pull requests and wikis.

use std::fmt::Write as _;

use super::privacy::PublicText;
use super::{BestResult, Document, StudySection};
use crate::config::shown::{drives_a_terminal, escape};
use crate::study::counted::count;

/// Begins every report, so that no other file is overwritten.
pub const MARKER: &str = "<!-- a report of hpsearch -->\n";

/// The text.
pub fn text(document: &Document) -> String {
    let mut out = MARKER.to_owned();
    for study in &document.studies {
        section(study, &mut out);
    }
    out.push_str("\n---\n\n");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(out, "Written by hpsearch {version} on {}.", escaped(&document.written));
    for part in &document.left_out {
        let _ = writeln!(out, "Left out: {} (`--include {}`).", part.summary(), part.as_str());
    }
    if document.images.left_out() > 0 {
        let images = count(document.images.left_out(), "image");
        let _ = writeln!(out, "Left out: {images}, which only an HTML report shows.");
    }
    out
}

fn section(study: &StudySection, out: &mut String) {
    let _ = write!(out, "\n# {}\n\n{}\n\n", escaped(&study.name), escaped(&study.question));
    if let Some(description) = &study.description {
        let _ = write!(out, "{}\n\n", quoted(description));
    }
    match &study.answer {
        Ok(answer) => self::answer(answer, out),
        Err(why) => {
            let _ = write!(out, "No answer yet: {}.\n\n", escaped(why));
        }
    }
    if !study.best.is_empty() {
        out.push_str("## Best trials\n\n");
        let params = study.best_params.iter().map(|name| escaped(name));
        let values = study.metrics.iter().map(|metric| escaped(metric));
        let has_names = study.best.iter().any(|row| row.name.is_some());
        let heads = ["trial", "name", "state"].into_iter();
        let heads = heads.filter(|head| has_names || *head != "name").map(str::to_owned);
        let heads: Vec<String> = heads.chain(values).chain(params).collect();
        let rows = study.best.iter().map(|row| {
            let name = row.name.as_ref().map(|name| escaped(name)).unwrap_or_default();
            let cells = std::iter::once(row.number.to_string());
            let cells = cells.chain(has_names.then_some(name)).chain([row.state.to_owned()]);
            let cells = cells.chain(row.values.iter().cloned());
            cells.chain(row.params.iter().map(|cell| escaped(cell))).collect()
        });
        table(&heads, rows, out);
        let shown = u64::try_from(study.best.len()).unwrap_or(u64::MAX);
        if study.trials > shown {
            let _ = write!(out, "The best {shown} of {} trials.\n\n", study.trials);
        }
    }
    facts("Budget and use", &study.spent, out);
    if !study.stopped.is_empty() {
        out.push_str("## Stopped, and why\n\n");
        let heads = ["state", "why", "trials", "the newest"].map(str::to_owned);
        let rows = study.stopped.iter().map(|row| {
            let (state, trials) = (row.state.to_owned(), row.trials.to_string());
            vec![state, escaped(&row.why), trials, escaped(&row.example)]
        });
        table(&heads, rows, out);
    }
    if !study.space.is_empty() {
        out.push_str("## Search space\n\n");
        let heads = ["parameter", "kind", "values", "active if"].map(str::to_owned);
        let rows = study.space.iter();
        table(&heads, rows.map(|row| row.iter().map(|cell| escaped(cell)).collect()), out);
    }
    facts("Reproducibility", &study.reproducibility, out);
    if !study.notes.is_empty() {
        out.push_str("## Notes\n\n");
        for (at, text) in &study.notes {
            let _ = write!(out, "{}:\n\n{}\n\n", escaped(at), quoted(text));
        }
    }
}

fn answer(answer: &BestResult, out: &mut String) {
    let name = answer.name.as_ref().map(|name| format!(" ({})", escaped(name))).unwrap_or_default();
    let _ = write!(
        out,
        "**{} {}** by trial {}{name}\n\n",
        escaped(&answer.metric),
        escaped(&answer.value),
        answer.trial
    );
    for line in answer.runs.iter().chain(&answer.compared) {
        let _ = writeln!(out, "- {}", escaped(line));
    }
    out.push('\n');
    if !answer.toml.is_empty() {
        fenced("toml", &answer.toml, out);
    }
    if let Some(command) = &answer.command {
        fenced("sh", command, out);
    }
    if let Some(front) = &answer.front {
        out.push_str("## Front\n\n");
        let heads = front.heads.iter().map(|head| escaped(head));
        let heads: Vec<String> = std::iter::once("trial".to_owned()).chain(heads).collect();
        let rows = front.rows.iter().map(|(trial, cells)| {
            let cells = cells.iter().map(|cell| escaped(cell));
            std::iter::once(trial.to_string()).chain(cells).collect()
        });
        table(&heads, rows, out);
        if front.others > 0 {
            let _ = write!(out, "{} more are on the front.\n\n", front.others);
        }
    }
}

fn facts(title: &str, facts: &[(PublicText, PublicText)], out: &mut String) {
    if facts.is_empty() {
        return;
    }
    let _ = write!(out, "## {title}\n\n");
    let heads = ["", ""].map(str::to_owned);
    table(&heads, facts.iter().map(|(title, text)| vec![escaped(title), escaped(text)]), out);
}

fn table(heads: &[String], rows: impl Iterator<Item = Vec<String>>, out: &mut String) {
    let _ = writeln!(out, "| {} |", heads.join(" | "));
    let _ = writeln!(out, "|{}", " --- |".repeat(heads.len()));
    for row in rows {
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
    out.push('\n');
}

/// A block of code whose fence is longer than any in the text.
fn fenced(language: &str, text: &str, out: &mut String) {
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = write!(out, "{fence}{language}\n{text}\n{fence}\n\n");
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {}", escaped(line))).collect::<Vec<_>>().join("\n")
}

/// Text on one line, in which nothing is markup: not of Markdown, of HTML, a link, a mention or an
/// issue.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // `@name` would notify a person, and `#3` become a link.
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            // So does what begins like an address.
            ':' if next == '/' => out.push_str("&#58;"),
            '.' if before == 'w' => out.push_str("&#46;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '|' | '~' | '$' | '!' => {
                out.extend(['\\', char]);
            }
            '-' | '+' | '=' if out.is_empty() && next.is_whitespace() => out.extend(['\\', char]),
            '\t' | '\n' | '\r' => out.push(' '),
            char if drives_a_terminal(char) => {
                out.push('\\');
                out.push_str(&escape(char));
            }
            // `1. ` begins a list.
            '.' if next.is_whitespace() && is_number(&out) => out.push_str("\\."),
            char => out.push(char),
        }
        before = char;
    }
    out
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|char| char.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        for (text, written) in [
            ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
            ("[a](javascript:x) | b", "\\[a\\](javascript:x) \\| b"),
            ("@ada fixes #12", "&#64;ada fixes &#35;12"),
            ("http://a.b www.c.d", "http&#58;//a.b www&#46;c.d"),
            ("1. one", "1\\. one"),
            ("- one\n# two", "\\- one &#35; two"),
            ("learning_rate", "learning\\_rate"),
            ("0.184: -1", "0.184: -1"),
            ("a\u{202e}b\u{1b}", "a\\\\u202eb\\\\u001b"),
        ] {
            assert_eq!(escaped(text), written);
        }
    }

    #[test]
    fn no_text_ends_its_block_of_code() {
        let mut out = String::new();
        fenced("toml", "a = \"````\"", &mut out);
        assert_eq!(out, "`````toml\na = \"````\"\n`````\n\n");
    }
}
