//! A terminal's screen as an SVG: text as text, lines, blocks and braille as shapes, so that no
//! font can tear them apart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use vt100::Color;

/// The colours of a picture.
pub struct Theme {
    /// Part of the file's name.
    pub name: &'static str,
    background: &'static str,
    bar: &'static str,
    border: &'static str,
    foreground: &'static str,
    /// The terminal's sixteen.
    colours: [&'static str; 16],
}

/// Colours for dark pages.
pub const DARK: Theme = Theme {
    name: "dark",
    background: "#0f141b",
    bar: "#1b222c",
    border: "#303a47",
    foreground: "#d5dce5",
    colours: [
        "#484f58", "#ff7b72", "#56d364", "#e3b341", "#79b8ff", "#d2a8ff", "#56d4dd", "#d5dce5",
        "#6e7681", "#ffa198", "#7ee787", "#f2cc60", "#a5d6ff", "#e2c5ff", "#a0edf2", "#ffffff",
    ],
};

/// Colours for light pages.
pub const LIGHT: Theme = Theme {
    name: "light",
    background: "#ffffff",
    bar: "#f3f5f8",
    border: "#d0d7de",
    foreground: "#1f2328",
    colours: [
        "#24292f", "#cf222e", "#1a7f37", "#9a6700", "#0969da", "#8250df", "#0b7a8a", "#57606a",
        "#6e7781", "#a40e26", "#2da44e", "#7d4e00", "#218bff", "#a475f9", "#3192aa", "#8c959f",
    ],
};

/// Width and height of a character.
const CELL: (f64, f64) = (8.6, 18.0);
const FONT: f64 = 14.0;
/// Around the text.
const MARGIN: f64 = 14.0;
/// The window's title bar.
const BAR: f64 = 34.0;

/// How a character is painted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ink {
    colour: String,
    bold: bool,
}

/// The picture of a screen in a window called `title`.
pub fn picture(screen: &vt100::Screen, title: &str, theme: &Theme) -> String {
    let (rows, columns) = screen.size();
    let (width, height) =
        (f64::from(columns) * CELL.0 + 2.0 * MARGIN, f64::from(rows) * CELL.1 + BAR + 1.6 * MARGIN);
    let mut svg = String::new();
    let mut shapes = Shapes::default();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.1} {height:.1}\">"
    );
    let _ = writeln!(
        svg,
        "<style>text{{font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans \
         Mono',monospace;white-space:pre}}.b{{font-weight:700}}</style>"
    );
    let (w, h) = (width - 1.0, height - 1.0);
    let _ = writeln!(
        svg,
        r##"<rect x=".5" y=".5" width="{w:.1}" height="{h:.1}" rx="9" fill="{}" stroke="{}"/>"##,
        theme.background, theme.border
    );
    let _ = writeln!(
        svg,
        r##"<path d="M1 {BAR}V10a9 9 0 0 1 9-9H{:.1}a9 9 0 0 1 9 9V{BAR}z" fill="{}"/>"##,
        width - 10.0,
        theme.bar
    );
    for (x, colour) in [(20, "#ff5f57"), (40, "#febc2e"), (60, "#28c840")] {
        let _ = writeln!(svg, r##"<circle cx="{x}" cy="17.5" r="6" fill="{colour}"/>"##);
    }
    let middle = width / 2.0;
    let _ = writeln!(
        svg,
        r##"<text x="{middle:.1}" y="22" text-anchor="middle" fill="{}" opacity=".75">{}</text>"##,
        theme.foreground,
        escaped(title)
    );
    for row in 0..rows {
        draw_row(&mut svg, &mut shapes, screen, row, columns, theme);
    }
    shapes.write(&mut svg);
    svg.push_str("</svg>\n");
    svg
}

fn draw_row(
    svg: &mut String,
    shapes: &mut Shapes,
    screen: &vt100::Screen,
    row: u16,
    columns: u16,
    theme: &Theme,
) {
    let y = BAR + 0.6 * MARGIN + f64::from(row) * CELL.1;
    let mut run = Run::default();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation())
        else {
            continue;
        };
        let x = MARGIN + f64::from(column) * CELL.0;
        let (mut front, mut back) = (
            colour(cell.fgcolor(), theme, theme.foreground),
            colour(cell.bgcolor(), theme, theme.background),
        );
        if cell.inverse() {
            (front, back) = (back, front);
        }
        let width = CELL.0 * if cell.is_wide() { 2.0 } else { 1.0 };
        if back != theme.background {
            let path = shapes.backs.entry(back.clone()).or_default();
            let _ = write!(path, "M{x:.1} {y:.1}h{width:.1}v{:.1}h-{width:.1}z", CELL.1);
        }
        if cell.dim() {
            front = mixed(&front, &back, 0.55);
        }
        let ink = Ink { colour: front, bold: cell.bold() };
        let char = cell.contents().chars().next().unwrap_or(' ');
        if shapes.draw(char, &ink, x, y) {
            run.end(svg, y);
        } else if cell.is_wide()
            || run.ink.as_ref() != Some(&ink)
            || char == ' ' && run.text.ends_with(' ')
        {
            run.end(svg, y);
            if char != ' ' {
                run = Run {
                    ink: Some(ink),
                    text: cell.contents().to_owned(),
                    x,
                    cells: if cell.is_wide() { 2 } else { 1 },
                };
            }
            if cell.is_wide() {
                run.end(svg, y);
            }
        } else {
            run.text.push_str(if cell.has_contents() { cell.contents() } else { " " });
            run.cells += 1;
        }
    }
    run.end(svg, y);
}

/// Characters painted alike, side by side.
#[derive(Default)]
struct Run {
    ink: Option<Ink>,
    text: String,
    x: f64,
    cells: u16,
}

impl Run {
    fn end(&mut self, svg: &mut String, y: f64) {
        let run = std::mem::take(self);
        let text = run.text.trim_end();
        let Some(ink) = run.ink.filter(|_| !text.is_empty()) else { return };
        let cells = usize::from(run.cells) - (run.text.chars().count() - text.chars().count());
        let length = f64::from(u16::try_from(cells).unwrap()) * CELL.0;
        let (x, baseline, bold) =
            (run.x, y + CELL.1 * 0.74, if ink.bold { r#" class="b""# } else { "" });
        // A fixed length: fonts of other widths keep their columns.
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{baseline:.1}\" textLength=\"{length:.1}\" \
             lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{bold}>{}</text>",
            ink.colour,
            escaped(text)
        );
    }
}

/// Shapes by colour, each colour one path.
#[derive(Default)]
struct Shapes {
    /// Backgrounds of characters, behind everything else.
    backs: BTreeMap<String, String>,
    fills: BTreeMap<(String, &'static str), String>,
    dots: BTreeMap<String, String>,
    lines: BTreeMap<(String, bool), String>,
}

impl Shapes {
    fn rect(
        &mut self,
        colour: &str,
        opacity: &'static str,
        x: f64,
        y: f64,
        width: f64,
        height: f64,
    ) {
        let path = self.fills.entry((colour.to_owned(), opacity)).or_default();
        let _ = write!(path, "M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z");
    }

    /// Draws a character that is a shape; whether it is one.
    fn draw(&mut self, char: char, ink: &Ink, x: f64, y: f64) -> bool {
        let (width, height) = CELL;
        match char {
            '\u{2800}'..='\u{28ff}' => self.braille(u32::from(char) - 0x2800, ink, x, y),
            '▁'..='█' => {
                let part = f64::from(u32::from(char) - u32::from('▁') + 1) / 8.0;
                // Blocks leave a line free at the top and bottom of their row, as bars in a row of
                // text do.
                let full = height - 4.0;
                self.rect(&ink.colour, "", x, y + 2.0 + full * (1.0 - part), width, full * part);
            }
            '░' => self.rect(&ink.colour, ".3", x, y + 2.0, width, height - 4.0),
            '▒' => self.rect(&ink.colour, ".55", x, y + 2.0, width, height - 4.0),
            '▓' => self.rect(&ink.colour, ".8", x, y + 2.0, width, height - 4.0),
            _ => return self.line(char, ink, x, y),
        }
        true
    }

    fn braille(&mut self, dots: u32, ink: &Ink, x: f64, y: f64) {
        const PLACES: [(f64, f64); 8] = [
            (0.0, 0.0),
            (0.0, 1.0),
            (0.0, 2.0),
            (1.0, 0.0),
            (1.0, 1.0),
            (1.0, 2.0),
            (0.0, 3.0),
            (1.0, 3.0),
        ];
        let path = self.dots.entry(ink.colour.clone()).or_default();
        for (bit, (across, down)) in PLACES.iter().enumerate() {
            if dots & (1 << bit) != 0 {
                let _ = write!(
                    path,
                    "M{:.1} {:.1}h0",
                    x + CELL.0 * (0.25 + across / 2.0),
                    y + CELL.1 * (0.125 + down / 4.0)
                );
            }
        }
    }

    fn line(&mut self, char: char, ink: &Ink, x: f64, y: f64) -> bool {
        let (width, height) = CELL;
        let (middle, centre) = (x + width / 2.0, y + height / 2.0);
        // Which of the four arms a character has: left, right, up, down.
        let (arms, heavy) = match char {
            '─' => ("lr", false),
            '│' => ("ud", false),
            '┌' | '╭' => ("rd", false),
            '┐' | '╮' => ("ld", false),
            '└' | '╰' => ("ru", false),
            '┘' | '╯' => ("lu", false),
            '├' => ("rud", false),
            '┤' => ("lud", false),
            '┬' => ("lrd", false),
            '┴' => ("lru", false),
            '┼' => ("lrud", false),
            '━' => ("lr", true),
            '┃' => ("ud", true),
            _ => return false,
        };
        let path = self.lines.entry((ink.colour.clone(), heavy)).or_default();
        for arm in arms.chars() {
            let _ = match arm {
                'l' => write!(path, "M{middle:.1} {centre:.1}H{x:.1}"),
                'r' => write!(path, "M{middle:.1} {centre:.1}H{:.1}", x + width),
                'u' => write!(path, "M{middle:.1} {centre:.1}V{y:.1}"),
                _ => write!(path, "M{middle:.1} {centre:.1}V{:.1}", y + height),
            };
        }
        true
    }

    /// Backgrounds and blocks lie behind everything else: they are put before the first text.
    fn write(&self, svg: &mut String) {
        let mut behind = String::new();
        for (colour, path) in &self.backs {
            let _ = writeln!(behind, r#"<path d="{path}" fill="{colour}"/>"#);
        }
        for ((colour, opacity), path) in &self.fills {
            let opacity = if opacity.is_empty() {
                String::new()
            } else {
                format!(r#" fill-opacity="{opacity}""#)
            };
            let _ = writeln!(behind, r#"<path d="{path}" fill="{colour}"{opacity}/>"#);
        }
        for ((colour, heavy), path) in &self.lines {
            let width = if *heavy { 3.0 } else { 1.0 };
            let _ = writeln!(
                behind,
                r#"<path d="{path}" stroke="{colour}" stroke-width="{width}" fill="none"/>"#
            );
        }
        for (colour, path) in &self.dots {
            let _ = writeln!(
                behind,
                "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"2.9\" \
                 stroke-linecap=\"round\" fill=\"none\"/>"
            );
        }
        let at = svg.find("</text>\n").map_or(svg.len(), |end| end + "</text>\n".len());
        svg.insert_str(at, &behind);
    }
}

fn colour(colour: Color, theme: &Theme, default: &str) -> String {
    match colour {
        Color::Default => default.to_owned(),
        Color::Idx(index) => {
            theme.colours.get(usize::from(index)).copied().unwrap_or(default).to_owned()
        }
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    }
}

/// `share` of `front`, the rest of `back`.
fn mixed(front: &str, back: &str, share: f64) -> String {
    let part =
        |colour: &str, at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap());
    let mix = |at: usize| part(front, at) * share + part(back, at) * (1.0 - share);
    format!("#{:02x}{:02x}{:02x}", mix(1).round() as u8, mix(3).round() as u8, mix(5).round() as u8)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn a_screen_is_drawn_as_text_and_shapes() {
    let mut terminal = vt100::Parser::new(2, 12, 0);
    terminal.process("\x1b[1;32mbest\x1b[0m <1> ⡇\r\n\x1b[2m─\x1b[0m█".as_bytes());
    let svg = picture(terminal.screen(), "a & b", &DARK);
    for part in [
        ">best</text>",
        ">&lt;1&gt;</text>",
        "a &amp; b",
        r##"fill="#56d364" class="b""##,
        "h0M",
        "stroke-width=\"1\"",
    ] {
        assert!(svg.contains(part), "{part} is not in {svg}");
    }
    assert!(!svg.contains('⡇') && !svg.contains('─'), "shapes are no text: {svg}");
}
