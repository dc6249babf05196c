//! A report as one HTML file without any outside reference.
//!
//! What is read first is in the file as markup: question, answer, figures. The table of trials and
//! their pages are data, which the one script makes elements of. Its policy lets a browser load
//! nothing, and run no other script.

use std::fmt::Write as _;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::privacy::{PublicJson, PublicText};
use super::{BestResult, Document, FrontTable, ReportFigure, StudySection};
use crate::report::figure::Figure;
use crate::report::figure::svg::{self, Palette, Size, escaped};
use crate::report::page::{self, one_script};
use crate::study::counted::count;

const TEMPLATE: &str = include_str!("page/report.html");
const STYLE: &str = concat!(
    include_str!("../page/uplot/uplot.css"),
    include_str!("../page/shared.css"),
    include_str!("page/report.css")
);
/// The filter of trials, which is also run by itself to hold it to the program's own.
pub const FILTER: &str = include_str!("page/filter.js");
const SCRIPT: &str = include_str!("page/report.js");
/// Its one script, each module after those that it uses.
const MODULES: [&str; 6] = [page::ELEMENTS, page::FORMAT, page::UPLOT, page::CHART, FILTER, SCRIPT];

/// Begins every report, so that no other file is overwritten.
pub const MARKER: &str = "<!doctype html>\n<!-- a report of hpsearch -->\n";

const FIGURE: Size = Size { width: 720, height: 380 };

/// What the script reads.
#[derive(Serialize)]
struct Data<'a, I: Serialize> {
    studies: Vec<&'a PublicJson>,
    /// By their digests.
    images: &'a I,
    /// Figures with their points, in the order of the page.
    charts: Vec<Figure<'static>>,
}

/// The file's content.
pub fn document(document: &Document) -> String {
    let names: Vec<&str> = document.studies.iter().map(|study| &*study.name).collect();
    let script = one_script(&MODULES);
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'{}",
        digest(&script),
        digest(STYLE),
        // Images are in the file: no other place can be named.
        if document.images.has_any() { "; img-src data:" } else { "" }
    );
    let data = Data {
        studies: document.studies.iter().map(|study| &study.table).collect(),
        images: document.images.by_digest(),
        charts: all_figures(document).filter(|figure| figure.has_points).map(rounded).collect(),
    };
    let page = filled(TEMPLATE, &|name| match name {
        "title" => escaped(&format!("{} – hpsearch report", names.join(", "))),
        "policy" => policy.clone(),
        "style" => STYLE.to_owned(),
        "script" => script.clone(),
        "data" => in_script(&data),
        "contents" => contents(document),
        "body" => body(document),
        "written" => escaped(&document.written),
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        "left_out" => left_out(document),
        _ => String::new(),
    });
    format!("{MARKER}{page}")
}

/// The figures in the order of the page.
fn all_figures(document: &Document) -> impl Iterator<Item = &ReportFigure> {
    let of_studies = document.studies.iter().flat_map(|study| &study.figures);
    document.shared.iter().chain(of_studies)
}

/// A figure with six digits of each number: a pixel is wider than the rest.
fn rounded(figure: &ReportFigure) -> Figure<'static> {
    let mut figure = Figure::clone(&figure.figure);
    let round = |value: f64| format!("{value:.5e}").parse().unwrap_or(value);
    for series in &mut figure.series {
        series.points = series.points.iter().map(|(x, y)| (round(*x), round(*y))).collect();
    }
    figure
}

/// A template with the values of its `{{names}}`; values are not looked at again.
fn filled(template: &str, value: &dyn Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, behind) = after.split_once("}}").unwrap_or((after, ""));
        out.push_str(before);
        out.push_str(&value(name));
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// SHA-256 as a policy has it, in base64.
fn digest(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = Sha256::digest(text.as_bytes());
    let mut out = String::new();
    for three in digest.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = usize::try_from(bits >> (18 - 6 * index) & 63).unwrap_or(0);
            let is_there = index <= three.len();
            out.push(if is_there { char::from(LETTERS[letter]) } else { '=' });
        }
    }
    out
}

/// JSON that ends no script element and is no markup.
fn in_script(data: &impl Serialize) -> String {
    let json = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    let mut out = String::with_capacity(json.len());
    for char in json.chars() {
        match char {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(char)));
            }
            char => out.push(char),
        }
    }
    out
}

fn contents(document: &Document) -> String {
    let mut out = String::new();
    for (index, study) in document.studies.iter().enumerate() {
        let name = escaped(&study.name);
        let _ = writeln!(out, "<li><a href=\"#study-{index}\">{name}</a></li>");
    }
    out
}

fn left_out(document: &Document) -> String {
    let parts = document.left_out.iter();
    let parts =
        parts.map(|part| (part.summary().to_owned(), format!("--include {}", part.as_str())));
    let images = document.images.left_out_in_words();
    let images = images.map(|(text, option)| (text, option.to_owned()));
    let mut left_out = parts.chain(images).peekable();
    if left_out.peek().is_none() {
        return "<p>Nothing was left out: this report has logs, uncommitted changes, host names, \
                paths and command lines.</p>"
            .to_owned();
    }
    let mut out = String::from("<p>Left out of this report:</p>\n<ul>\n");
    for (text, option) in left_out {
        let _ = writeln!(out, "<li>{} (<code>{option}</code>)</li>", escaped(&text));
    }
    out.push_str("</ul>");
    out
}

fn body(document: &Document) -> String {
    let mut out = String::new();
    if !document.shared.is_empty() {
        out.push_str("<section aria-labelledby=\"together\">\n<h2 id=\"together\">Together</h2>\n");
        figures(&document.shared, &mut out);
        out.push_str("</section>\n");
    }
    for (index, study) in document.studies.iter().enumerate() {
        section(index, study, &mut out);
    }
    out
}

fn section(index: usize, study: &StudySection, out: &mut String) {
    let name = escaped(&study.name);
    let _ = write!(
        out,
        "<article class=\"study\" id=\"study-{index}\" aria-labelledby=\"name-{index}\">\n\
         <h2 id=\"name-{index}\">{name} <span class=\"state {state}\">{state}</span></h2>\n\
         <p class=\"question\">{}</p>\n",
        escaped(&study.question),
        state = study.state
    );
    if let Some(description) = &study.description {
        let _ = writeln!(out, "<p class=\"text\">{}</p>", lines(description));
    }
    if !study.tags.is_empty() {
        out.push_str("<p class=\"tags\"><span class=\"unseen\">Tags: </span>");
        for tag in &study.tags {
            let _ = write!(out, "<span class=\"tag\">{}</span> ", escaped(tag));
        }
        out.push_str("</p>\n");
    }
    match &study.answer {
        Ok(answer) => self::answer(index, answer, out),
        Err(why) => {
            let _ = writeln!(out, "<p class=\"none\">No answer yet: {}.</p>", escaped(why));
        }
    }
    out.push_str("<h3>Budget and use</h3>\n");
    facts(&study.spent, out);
    if let Some(reason) = &study.reason {
        let _ = writeln!(out, "<p class=\"dim\">{}: {}</p>", study.state, escaped(reason));
    }
    if !study.notes.is_empty() {
        out.push_str("<h3>Notes</h3>\n<ul class=\"notes\">\n");
        for (at, text) in &study.notes {
            let _ = writeln!(out, "<li><time>{}</time> {}</li>", escaped(at), lines(text));
        }
        out.push_str("</ul>\n");
    }
    if !study.figures.is_empty() {
        out.push_str("<h3>Figures</h3>\n");
        figures(&study.figures, out);
    }
    let _ = write!(
        out,
        "<h3 id=\"trials-{index}\">Trials</h3>\n\
         <div class=\"trials\" data-study=\"{index}\"><noscript><p>{} in this file; a browser with \
         scripts shows, sorts and filters them.</p></noscript></div>\n",
        count(study.trials, "trial")
    );
    if !study.stopped.is_empty() {
        let rows = study.stopped.iter().map(|row| {
            let (state, trials) = (row.state.to_owned(), row.trials.to_string());
            vec![state, escaped(&row.why), trials, escaped(&row.example)]
        });
        out.push_str("<h3>Stopped, and why</h3>\n");
        let heads = &["state", "why", "trials", "the newest"];
        table("Trials that ended early, by reason", heads, rows, out);
    }
    if !study.space.is_empty() {
        let rows = study.space.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect());
        let heads: &[&str] = match study.space.iter().any(|row| !row[3].is_empty()) {
            true => &["parameter", "kind", "values", "active if"],
            false => &["parameter", "kind", "values"],
        };
        out.push_str("<h3>Search space</h3>\n");
        table("Parameters", heads, rows, out);
    }
    out.push_str("<h3>Reproducibility</h3>\n");
    facts(&study.reproducibility, out);
    out.push_str("</article>\n");
}

fn answer(index: usize, answer: &BestResult, out: &mut String) {
    let name = answer.name.as_ref().map(|name| format!(" {}", escaped(name))).unwrap_or_default();
    let _ = write!(
        out,
        "<section class=\"answer\" aria-label=\"Best configuration\">\n\
         <p class=\"value{several}\"><span>{metric}</span> <strong>{value}</strong> \
         <a href=\"#study-{index}-trial-{trial}\">{what} {trial}{name}</a></p>\n",
        metric = escaped(&answer.metric),
        value = escaped(&answer.value),
        trial = answer.trial,
        what = if answer.is_run { "run" } else { "trial" },
        several = if answer.front.is_some() { " several" } else { "" },
    );
    for runs in &answer.runs {
        let _ = writeln!(out, "<p>{}</p>", escaped(runs));
    }
    if !answer.compared.is_empty() {
        out.push_str("<ul class=\"compared\">\n");
        for line in &answer.compared {
            let _ = writeln!(out, "<li>{}</li>", escaped(line));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("<div class=\"recipe\">\n");
    if !answer.toml.is_empty() {
        code("Parameters as TOML", &answer.toml, out);
    }
    if let Some(command) = &answer.command {
        code("Command line", command, out);
    }
    out.push_str("</div>\n</section>\n");
    if let Some(front) = &answer.front {
        self::front(index, front, out);
    }
}

fn front(index: usize, front: &FrontTable, out: &mut String) {
    out.push_str("<h3>Front</h3>\n");
    let mut heads = vec!["trial".to_owned()];
    heads.extend(front.heads.iter().map(|head| escaped(head)));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = front.rows.iter().enumerate().map(|(place, (trial, cells))| {
        let what = if place == 0 { ", the compromise" } else { "" };
        let link = format!("<a href=\"#study-{index}-trial-{trial}\">{trial}</a>{what}");
        std::iter::once(link).chain(cells.iter().map(|cell| escaped(cell))).collect()
    });
    table("Trials on the front", &heads, rows, out);
    if front.others > 0 {
        let _ = writeln!(out, "<p class=\"dim\">{} more are on the front.</p>", front.others);
    }
}

fn code(caption: &'static str, text: &PublicText, out: &mut String) {
    let _ = writeln!(
        out,
        "<figure class=\"code\"><figcaption>{caption}</figcaption>\
         <pre tabindex=\"0\"><code>{}</code></pre></figure>",
        lines(text)
    );
}

fn facts(facts: &[(PublicText, PublicText)], out: &mut String) {
    out.push_str("<dl class=\"facts\">\n");
    for (title, text) in facts {
        let (title, text) = (escaped(title), lines(text));
        let _ = writeln!(out, "<div><dt>{title}</dt><dd>{text}</dd></div>");
    }
    out.push_str("</dl>\n");
}

fn figures(figures: &[ReportFigure], out: &mut String) {
    out.push_str("<div class=\"figures\">\n");
    for ReportFigure { figure, has_points } in figures {
        let drawn = svg::document(std::slice::from_ref(&**figure), Palette::Page, Some(FIGURE));
        let class = if *has_points { " class=\"with-points\"" } else { "" };
        let _ = writeln!(out, "<figure tabindex=\"0\"{class}>{drawn}</figure>");
    }
    out.push_str("</div>\n");
}

/// A table of cells that are escaped already.
fn table(caption: &str, heads: &[&str], rows: impl Iterator<Item = Vec<String>>, out: &mut String) {
    let _ = write!(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\n<table>\n\
         <caption class=\"unseen\">{caption}</caption>\n<thead><tr>"
    );
    for head in heads {
        let _ = write!(out, "<th scope=\"col\">{head}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row.iter().take(heads.len()) {
            let _ = write!(out, "<td>{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
}

/// A text of several lines.
fn lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn digests_are_those_that_browsers_compute() {
        // `printf abc | openssl dgst -sha256 -binary | base64`
        assert_eq!(digest("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
        assert_eq!(digest("").len(), 44);
    }

    #[test]
    fn values_of_a_template_are_not_looked_at_again() {
        let value = |name: &str| format!("<{{{{{name}}}}}>");
        assert_eq!(filled("a{{b}}c{{d}}", &value), "a<{{b}}>c<{{d}}>");
    }

    #[test]
    fn data_closes_no_script() {
        let json = in_script(&"</script><!--&\u{2028}");
        assert_eq!(json, "\"\\u003c/script\\u003e\\u003c!--\\u0026\\u2028\"");
    }

    #[test]
    fn the_files_of_the_page_name_nothing_outside_and_make_no_markup_of_data() {
        for text in [TEMPLATE, STYLE].into_iter().chain(MODULES) {
            let text = match text {
                TEMPLATE => text.replace("<style>", ""),
                // An XML namespace: nothing is loaded from it.
                text => text.replace("http://www.w3.org/2000/svg", ""),
            };
            for forbidden in page::FORBIDDEN.iter().chain(&["fetch(", "import("]) {
                assert!(!text.contains(forbidden), "{forbidden}");
            }
        }
        let script = one_script(&MODULES);
        assert!(!script.contains("</script") && !script.contains("<!--"));
        assert!(!STYLE.contains("</style"));
    }

    #[test]
    fn names_of_modules_differ_where_they_are_one_script() {
        let script = one_script(&MODULES);
        let mut names = HashSet::new();
        for line in script.lines() {
            let line = line.strip_prefix("async ").unwrap_or(line);
            let Some((kind, rest)) = line.split_once(' ') else { continue };
            if ["function", "const", "let", "class", "var"].contains(&kind) {
                let is_of_name = |char: char| char.is_alphanumeric() || char == '_';
                let name = rest.split(|char| !is_of_name(char)).next().unwrap();
                assert!(name.is_empty() || names.insert(name.to_owned()), "{name} twice");
            }
        }
        assert!(names.contains("element") && names.contains("parseFilter"), "{names:?}");
    }
}
