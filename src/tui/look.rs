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
pub struct Look {
    /// Its characters.
    pub charset: Charset,
    /// Its colours.
    pub palette: Palette,
}

impl Look {
    /// Says something where there is nothing else to see.
    pub fn say(self, frame: &mut Frame<'_>, area: Rect, text: &str) {
        let middle = Rect { y: area.y + area.height / 3, height: area.height.min(1), ..area };
        frame.render_widget(Line::styled(text, self.dim()).centered(), middle.intersection(area));
    }

    /// The same on a screen that the loader draws.
    pub fn say_in(self, buffer: &mut Buffer, area: Rect, text: &str) {
        let room = usize::from(area.width.saturating_sub(2));
        let text = shorten(text, room, self.charset.cut());
        if !area.is_empty() {
            let x = area.x + 1.min(area.width - 1);
            buffer.set_stringn(x, area.y + area.height / 2, text, room, self.dim());
        }
    }

    /// The look that the environment asks for: ASCII unless the locale says UTF-8, colours unless
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
        Look { charset, palette }
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
            StudyStatus::New | StudyStatus::Paused | StudyStatus::Stopped => return self.strong(),
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

    fn colour(self, colour: Color) -> Style {
        match self.palette {
            Palette::Colours => Style::new().fg(colour),
            Palette::Monochrome => Style::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(variables: &[(&str, &str)]) -> Look {
        Look::from_environment(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_first_locale_variable_that_is_set_decides_the_charset() {
        assert_eq!(look(&[("LANG", "de_DE.UTF-8")]).charset, Charset::Unicode);
        assert_eq!(look(&[("LANG", "C.utf8"), ("LC_ALL", "")]).charset, Charset::Unicode);
        assert_eq!(look(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")]).charset, Charset::Ascii);
        assert_eq!(look(&[]).charset, Charset::Ascii);
    }

    #[test]
    fn no_color_leaves_no_colour_anywhere() {
        let look = look(&[("NO_COLOR", "1")]);
        let styles = TrialState::ALL.map(|state| look.trial_state(state));
        assert!(
            styles
                .iter()
                .chain(&[look.good(), look.dim(), look.warning()])
                .all(|style| style.fg.is_none())
        );
    }
}
