//! The elements of a panel: texts, rules, lines and marks.

use crate::report::figure::Mark;
use crate::report::figure::svg::colours::Colours;
use crate::report::figure::svg::escaped;

/// How a text is written.
#[derive(Clone, Copy)]
pub(super) struct Style<'a> {
    pub colour: &'a str,
    pub anchor: &'static str,
    pub is_bold: bool,
    /// Written upwards around this place.
    pub turn: Option<(f64, f64)>,
    /// Written aslant, ending at this place.
    pub slant: Option<(f64, f64)>,
}

impl<'a> Style<'a> {
    pub fn text(colours: &'a Colours) -> Self {
        Style { colour: colours.text, anchor: "start", is_bold: false, turn: None, slant: None }
    }

    pub fn label(colours: &'a Colours) -> Self {
        Style { colour: colours.dim, ..Style::text(colours) }
    }

    pub fn title(colours: &'a Colours) -> Self {
        Style { is_bold: true, ..Style::text(colours) }
    }
}

pub(super) fn text(out: &mut String, x: f64, y: f64, words: &str, style: Style<'_>) {
    let mut attributes = String::new();
    if style.anchor != "start" {
        attributes.push_str(&format!(" text-anchor=\"{}\"", style.anchor));
    }
    if style.is_bold {
        attributes.push_str(" font-weight=\"600\" font-size=\"14\"");
    }
    if let Some((x, y)) = style.turn {
        attributes.push_str(&format!(
            " transform=\"rotate(-90 {} {})\"",
            short_number(x),
            short_number(y)
        ));
    }
    if let Some((x, y)) = style.slant {
        attributes.push_str(&format!(
            " transform=\"rotate(-32 {} {})\"",
            short_number(x),
            short_number(y)
        ));
    }
    out.push_str(&format!(
        "<text x=\"{}\" y=\"{}\" fill=\"{}\"{attributes}>{}</text>\n",
        short_number(x),
        short_number(y),
        style.colour,
        escaped(words)
    ));
}

pub(super) fn rule(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    out.push_str(&format!(
        "<path d=\"M{} {}L{} {}\" stroke=\"{colour}\"/>\n",
        short_number(from.0),
        short_number(from.1),
        short_number(to.0),
        short_number(to.1)
    ));
}

/// The path of a line; a point without a place leaves a gap.
pub(super) fn line(places: &[Option<(f64, f64)>], mark: Mark) -> String {
    let mut path = String::new();
    let mut is_joined = false;
    for (index, place) in places.iter().enumerate() {
        let Some((x, y)) = place else {
            is_joined = false;
            continue;
        };
        let (x, y) = (short_number(*x), short_number(*y));
        match (is_joined, mark) {
            (true, Mark::Steps) => path.push_str(&format!("H{x}V{y}")),
            (true, _) => path.push_str(&format!("L{x} {y}")),
            (false, _) => {
                path.push_str(&format!("M{x} {y}"));
                // A point alone is drawn as a dot.
                if !matches!(places.get(index + 1), Some(Some(_))) {
                    path.push_str("h0");
                }
            }
        }
        is_joined = true;
    }
    path
}

/// The outline of an area whose lower and upper ends alternate; ends without a place leave a gap.
pub(super) fn area(places: &[Option<(f64, f64)>]) -> String {
    let ends: Vec<_> = places.chunks_exact(2).map(|pair| pair[0].zip(pair[1])).collect();
    let mut path = String::new();
    for part in ends.split(Option::is_none) {
        let lower = part.iter().flatten().map(|(low, _)| low);
        let upper = part.iter().rev().flatten().map(|(_, high)| high);
        for (index, (x, y)) in lower.chain(upper).enumerate() {
            let command = if index == 0 { "M" } else { "L" };
            path.push_str(&format!("{command}{} {}", short_number(*x), short_number(*y)));
        }
        if !part.is_empty() {
            path.push('z');
        }
    }
    path
}

/// Dots as lines of no length with round ends; those at the same place are drawn once.
pub(super) fn dots(places: &[Option<(f64, f64)>]) -> String {
    let mut drawn = std::collections::BTreeSet::new();
    let mut path = String::new();
    for (x, y) in places.iter().flatten() {
        let dot = format!("M{} {}h0", short_number(*x), short_number(*y));
        if drawn.insert(dot.clone()) {
            path.push_str(&dot);
        }
    }
    path
}

/// A diamond around a place.
pub(super) fn star(x: f64, y: f64) -> String {
    format!("M{} {}l6 6l-6 6l-6 -6z", short_number(x), short_number(y - 6.0))
}

/// A coordinate with one decimal, without a trailing zero.
pub(super) fn short_number(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
