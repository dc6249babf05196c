//! Figures as SVG: for print and pages, without scripts, fonts or other files.

mod colours;
mod panel;
#[cfg(test)]
mod tests;

use super::Figure;
use crate::config::shown::{drives_a_terminal, escape};
pub use colours::Palette;

/// A size in pixels (CSS pixels, 1/96 inch in print).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
}

/// The usual size of one figure.
pub const FIGURE: Size = Size { width: 760, height: 440 };
/// The usual size of one of several figures beside each other.
const PANEL: Size = Size { width: 460, height: 320 };
/// The usual size of each figure of a file with this many.
pub fn usual_size(figures: usize) -> Size {
    if figures > 1 { PANEL } else { FIGURE }
}

/// Height of a name at the left, and of the highest figure that names make higher than usual.
const NAME_ROW: u32 = 18;
const HIGHEST: u32 = 2_000;

/// Maximum number of figures beside each other.
const COLUMNS: usize = 3;

/// The figures as one SVG document: one fills it, several are panels of a grid. `size` is that of
/// each figure.
pub fn document(figures: &[Figure<'_>], palette: Palette, size: Option<Size>) -> String {
    let columns = figures.len().clamp(1, COLUMNS);
    let size = size.unwrap_or_else(|| {
        let usual = usual_size(figures.len());
        let names = figures.iter().map(|figure| figure.y.names.len()).max().unwrap_or(0);
        let needed = u32::try_from(names).unwrap_or(u32::MAX).saturating_mul(NAME_ROW);
        Size { height: needed.saturating_add(110).clamp(usual.height, HIGHEST), ..usual }
    });
    let rows = figures.len().div_ceil(columns).max(1);
    let times = |one: u32, count: usize| one.saturating_mul(u32::try_from(count).unwrap_or(1));
    let (width, height) = (times(size.width, columns), times(size.height, rows));
    let colours = palette.colours();
    let title: Vec<&str> = figures.iter().map(|figure| figure.title.as_str()).collect();
    let title = escaped(&title.join("; "));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\" \
         font-family=\"{FONTS}\" font-size=\"12\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n",
        colours.background
    );
    for (index, figure) in figures.iter().enumerate() {
        let (x, y) = (times(size.width, index % columns), times(size.height, index / columns));
        svg.push_str(&format!("<g transform=\"translate({x} {y})\">\n"));
        panel::draw(figure, &colours, size, &mut svg);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// Fonts that most systems have, and in files for print the generic one.
const FONTS: &str = "Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";

/// Text for XML content and attributes: markup is escaped, and control characters and those that
/// reorder text are visible escapes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            // XML 1.0 forbids them.
            '\u{fffe}' | '\u{ffff}' => {}
            char if drives_a_terminal(char) => out.push_str(&escape(char)),
            char => out.push(char),
        }
    }
    out
}
