//! Prints charts: a screen's cells as text, with colours if the terminal supports them.

use std::io::{self, Write};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use crate::report::figure::Figure;
use crate::report::wording::width;
use crate::tui::{Palette, Theme};

/// Columns and rows of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// Prints a chart of this size.
pub fn print(out: &mut dyn Write, chart: &Figure<'_>, size: Size, look: Theme) -> io::Result<()> {
    let area = Rect::new(0, 0, size.width, size.height);
    let mut buffer = Buffer::empty(area);
    chart.draw(&mut buffer, area, look);
    for row in 0..size.height {
        writeln!(out, "{}", line(&buffer, row, look.palette))?;
    }
    Ok(())
}

/// A row without the empty cells at its end.
fn line(buffer: &Buffer, row: u16, palette: Palette) -> String {
    let mut text = String::new();
    let mut drawn = 0;
    let mut before = String::new();
    let mut covered = 0;
    for column in 0..buffer.area.width {
        // The cells behind a wide character are part of it.
        if covered > 0 {
            covered -= 1;
            continue;
        }
        let cell = &buffer[(column, row)];
        let codes = match palette {
            Palette::Colours => codes(cell.fg, cell.modifier),
            Palette::Monochrome => String::new(),
        };
        if codes != before {
            // Colours are reset before others are set: terminals combine them.
            text.push_str("\x1b[0m");
            if !codes.is_empty() {
                text.push_str(&format!("\x1b[{codes}m"));
            }
            before = codes;
        }
        text.push_str(cell.symbol());
        covered = width(cell.symbol()).saturating_sub(1);
        if cell.symbol() != " " {
            drawn = text.len();
        }
    }
    text.truncate(drawn);
    if palette == Palette::Colours && text.contains('\x1b') {
        text.push_str("\x1b[0m");
    }
    text
}

fn codes(colour: Color, modifier: Modifier) -> String {
    let colour = match colour {
        Color::Red => Some("31"),
        Color::Green => Some("32"),
        Color::Yellow => Some("33"),
        Color::Blue => Some("34"),
        Color::Magenta => Some("35"),
        Color::Cyan => Some("36"),
        _ => None,
    };
    let bold = modifier.contains(Modifier::BOLD).then_some("1");
    let dim = modifier.contains(Modifier::DIM).then_some("2");
    [bold, dim, colour].into_iter().flatten().collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Style;

    fn drawn(palette: Palette) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 1));
        buffer.set_string(0, 0, "ab", Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD));
        buffer.set_string(3, 0, "c", Style::new());
        line(&buffer, 0, palette)
    }

    #[test]
    fn colours_are_escape_sequences_and_none_are_left_on() {
        assert_eq!(drawn(Palette::Colours), "\x1b[0m\x1b[1;36mab\x1b[0m c\x1b[0m");
    }

    #[test]
    fn wide_characters_stand_side_by_side() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        buffer.set_string(1, 0, "日本語 x", Style::new());
        assert_eq!(line(&buffer, 0, Palette::Monochrome), " 日本語 x");
    }

    #[test]
    fn without_colours_there_is_text_only() {
        assert_eq!(drawn(Palette::Monochrome), "ab c");
    }
}
