//! How the screens look on this terminal: characters and colours.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use crate::report::sparkline::Charset;
use crate::report::wording::{StudyStatus, shorten};
use crate::study::trial::TrialState;

/// Whether the screens are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// The terminal's sixteen colours, so that its theme decides.
    Colours,
    /// Bold, dim and reversed only (`NO_COLOR`).
    Monochrome,
}

/// What a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Its characters.
    pub charset: Charset,
    /// Its colours.
    pub palette: Palette,
}

impl Theme {
    /// Says something where there is nothing else to see.
    pub fn say(self, frame: &mut Frame<'_>, area: Rect, text: &str) {
        let middle = Rect { y: area.y + area.height / 3, height: area.height.min(1), ..area };
        frame.render_widget(Line::styled(text, self.dim()).centered(), middle.intersection(area));
    }

    /// The same on a screen that the loader draws.
    pub fn say_in(self, buffer: &mut Buffer, area: Rect, text: &str) {
        let room = usize::from(area.width.saturating_sub(2));
        let text = self.shorten(text, room);
        if !area.is_empty() {
            let x = area.x + 1.min(area.width - 1);
            buffer.set_stringn(x, area.y + area.height / 2, text, room, self.dim());
        }
    }

    /// The theme that the environment asks for: ASCII unless the locale says UTF-8, colours unless
    /// `NO_COLOR` is set.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let locale = given("LC_ALL")
            .or_else(|| given("LC_CTYPE"))
            .or_else(|| given("LANG"))
            .unwrap_or_default()
            .to_ascii_lowercase();
        let charset = if locale.contains("utf-8") || locale.contains("utf8") {
            Charset::Unicode
        } else {
            Charset::Ascii
        };
        let palette =
            if given("NO_COLOR").is_some() { Palette::Monochrome } else { Palette::Colours };
        Theme { charset, palette }
    }

    /// The colour of a trial's state; the word stands beside it.
    pub fn trial_state(self, state: TrialState) -> Style {
        match state {
            TrialState::Queued => self.dim(),
            TrialState::Running => self.colour(Color::Cyan),
            TrialState::Paused => self.colour(Color::Magenta),
            TrialState::Complete => self.colour(Color::Green),
            TrialState::Pruned => self.colour(Color::Yellow),
            TrialState::Failed => self.colour(Color::Red),
        }
    }

    /// The colour of a study's state.
    pub fn study_state(self, state: StudyStatus) -> Style {
        let colour = match state {
            StudyStatus::New | StudyStatus::Idle | StudyStatus::Paused | StudyStatus::Stopped => {
                return self.strong();
            }
            StudyStatus::Running => Color::Cyan,
            StudyStatus::Interrupted | StudyStatus::Failed => Color::Red,
            StudyStatus::Finished => Color::Green,
        };
        self.colour(colour).add_modifier(Modifier::BOLD)
    }

    /// The best value and the part of the bar that is done.
    pub fn good(self) -> Style {
        self.colour(Color::Green)
    }

    /// Questions and what went wrong.
    pub fn warning(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// A marked trial.
    pub fn marked(self) -> Style {
        self.colour(Color::Magenta).add_modifier(Modifier::BOLD)
    }

    /// Names and headings.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What matters less.
    pub fn dim(self) -> Style {
        // Not bright black: some themes (Solarized) give it the colour of the background. A
        // terminal without dim shows plain text.
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The selected row.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// `unicode` where the terminal can show it, else `ascii`.
    pub fn either(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self.charset {
            Charset::Unicode => unicode,
            Charset::Ascii => ascii,
        }
    }

    /// The text in at most `columns` columns, with a mark where it was cut off.
    pub fn shorten(self, text: &str, columns: usize) -> String {
        shorten(text, columns, self.charset.cut())
    }

    fn colour(self, colour: Color) -> Style {
        match self.palette {
            Palette::Colours => Style::new().fg(colour),
            Palette::Monochrome => Style::new(),
        }
    }
}

/// Lines cut into pieces of `room` columns, between words where there are any; the pieces after the
/// first are indented.
pub fn wrapped(lines: Vec<Line<'static>>, room: usize) -> Vec<Line<'static>> {
    let mut pieces = Vec::new();
    for line in lines {
        if line.width() <= room || room < 16 {
            pieces.push(line);
            continue;
        }
        let style = line.style;
        let mut rest: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        let mut indent = "";
        while !rest.is_empty() {
            let piece = shorten(&rest, room - indent.len(), "");
            let Some(left) = rest.get(piece.len()..).filter(|_| !piece.is_empty()) else {
                break;
            };
            // Back to the last space, unless that leaves half of the line empty.
            let space = piece
                .rfind(' ')
                .filter(|at| !left.is_empty() && !left.starts_with(' ') && at * 2 > piece.len());
            let (piece, left) = space.map_or((&*piece, left), |at| (&piece[..at], &rest[at..]));
            pieces.push(Line::styled(format!("{indent}{piece}"), style));
            rest = left.trim_start().to_owned();
            indent = "     ";
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theme(variables: &[(&str, &str)]) -> Theme {
        Theme::from_environment(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_first_locale_variable_that_is_set_decides_the_charset() {
        assert_eq!(theme(&[("LANG", "de_DE.UTF-8")]).charset, Charset::Unicode);
        assert_eq!(theme(&[("LANG", "C.utf8"), ("LC_ALL", "")]).charset, Charset::Unicode);
        assert_eq!(theme(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")]).charset, Charset::Ascii);
        assert_eq!(theme(&[]).charset, Charset::Ascii);
    }

    #[test]
    fn no_color_leaves_no_colour_anywhere() {
        let theme = theme(&[("NO_COLOR", "1")]);
        let styles = TrialState::ALL.map(|state| theme.trial_state(state));
        assert!(
            styles
                .iter()
                .chain(&[theme.good(), theme.dim(), theme.warning()])
                .all(|style| style.fg.is_none())
        );
    }

    #[test]
    fn long_lines_go_on_between_words_and_words_without_spaces_are_cut() {
        let wrap = |text: &str| {
            wrapped(vec![Line::raw(text.to_owned())], 20)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            wrap("rank 2 of 21 at step 3; 7 continue"),
            ["rank 2 of 21 at step", "     3; 7 continue"]
        );
        assert_eq!(wrap("the first of many words"), ["the first of many", "     words"]);
        assert_eq!(
            wrap("/data/runs/files/trial-0/step-8"),
            ["/data/runs/files/tri", "     al-0/step-8"]
        );
        assert_eq!(wrap("学習率学習率学習率学習率"), ["学習率学習率学習率学", "     習率"]);
    }
}
