//! A table with a drawing at the end of each row.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::report::table::Column;
use crate::tui::theme::Theme;

pub(super) struct ScrolledTable {
    pub heading: String,
    pub columns: Vec<Column>,
    pub rows: usize,
}

impl ScrolledTable {
    /// Draws as many rows as fit; `end` draws what follows a row in so many columns.
    /// How far it is scrolled.
    pub fn draw(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        scroll: usize,
        theme: Theme,
        end: impl Fn(usize, usize) -> Vec<Span<'static>>,
    ) -> usize {
        let cut = theme.charset.cut();
        let row = |cell: &dyn Fn(&Column) -> String| {
            self.columns.iter().map(|column| format!(" {} ", cell(column))).collect::<String>()
        };
        let titles = row(&|column| column.title(column.width(), cut));
        let heading = Line::styled(self.heading.clone(), theme.strong());
        let mut lines = vec![heading, Line::styled(titles, theme.dim())];
        let visible = usize::from(area.height.saturating_sub(2));
        let scroll = scroll.min(self.rows.saturating_sub(visible));
        for index in (scroll..self.rows).take(visible) {
            let mut line = Line::raw(row(&|column| column.cell(index, column.width(), cut)) + " ");
            let room = usize::from(area.width).saturating_sub(line.width() + 1);
            line.extend(end(index, room));
            lines.push(line);
        }
        for (y, line) in (area.top()..area.bottom()).zip(&lines) {
            buffer.set_line(area.x, y, line, area.width);
        }
        scroll
    }
}
