//! One line of text being typed: for filters, searches, notes, tags and the fields of a form.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A line and where the cursor is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineEdit {
    text: String,
    /// In bytes, on a boundary between characters.
    cursor: usize,
}

/// What a key did to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edited {
    /// The text is another.
    Changed,
    /// The cursor moved, or nothing happened.
    Same,
    /// The key is none of the line's business.
    NotMine,
}

impl LineEdit {
    /// A line with `text`, the cursor behind it.
    pub fn new(text: impl Into<String>) -> Self {
        let text: String = text.into();
        LineEdit { cursor: text.len(), text }
    }

    /// What was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What stands before the cursor.
    pub fn before_cursor(&self) -> &str {
        &self.text[..self.cursor]
    }

    /// Takes pasted text in, its line breaks and other control characters as spaces.
    pub fn paste(&mut self, pasted: &str) {
        let cleaned: String = pasted
            .trim_end_matches(['\r', '\n'])
            .chars()
            .map(|char| if char.is_control() { ' ' } else { char })
            .collect();
        self.text.insert_str(self.cursor, &cleaned);
        self.cursor += cleaned.len();
    }

    /// Takes a key in: letters, and the keys that shells know.
    pub fn press(&mut self, key: KeyEvent) -> Edited {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let before = self.text.len();
        match key.code {
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.text.len(),
            KeyCode::Char('u') if control => self.remove(0, self.cursor),
            KeyCode::Char('k') if control => self.remove(self.cursor, self.text.len()),
            KeyCode::Char('w') if control => self.remove(self.word_start(), self.cursor),
            KeyCode::Backspace if alt => self.remove(self.word_start(), self.cursor),
            KeyCode::Char('d') if control => self.remove(self.cursor, self.next()),
            KeyCode::Char('b') if control => self.cursor = self.previous(),
            KeyCode::Char('f') if control => self.cursor = self.next(),
            KeyCode::Char('h') if control => self.remove(self.previous(), self.cursor),
            KeyCode::Char(char) if !control && !alt && !char.is_control() => {
                self.text.insert(self.cursor, char);
                self.cursor += char.len_utf8();
            }
            KeyCode::Backspace => self.remove(self.previous(), self.cursor),
            KeyCode::Delete => self.remove(self.cursor, self.next()),
            KeyCode::Left => self.cursor = self.previous(),
            KeyCode::Right => self.cursor = self.next(),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            _ => return Edited::NotMine,
        }
        if self.text.len() == before { Edited::Same } else { Edited::Changed }
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn previous(&self) -> usize {
        self.text[..self.cursor].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn next(&self) -> usize {
        self.text[self.cursor..]
            .chars()
            .next()
            .map_or(self.cursor, |char| self.cursor + char.len_utf8())
    }

    fn word_start(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(line: &mut LineEdit, code: KeyCode, modifiers: KeyModifiers) -> Edited {
        line.press(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn letters_of_any_script_are_typed_and_taken_back() {
        let mut line = LineEdit::new("lr>1");
        for char in "学é".chars() {
            assert_eq!(press(&mut line, KeyCode::Char(char), KeyModifiers::NONE), Edited::Changed);
        }
        press(&mut line, KeyCode::Left, KeyModifiers::NONE);
        press(&mut line, KeyCode::Backspace, KeyModifiers::NONE);
        assert_eq!((line.text(), line.before_cursor()), ("lr>1é", "lr>1"));
    }

    #[test]
    fn the_keys_of_shells_work() {
        let mut line = LineEdit::new("state:pruned  lr>1e-3");
        press(&mut line, KeyCode::Char('w'), KeyModifiers::CONTROL);
        assert_eq!(line.text(), "state:pruned  ");
        press(&mut line, KeyCode::Char('u'), KeyModifiers::CONTROL);
        assert_eq!(line.text(), "");
        assert_eq!(press(&mut line, KeyCode::Backspace, KeyModifiers::NONE), Edited::Same);
        assert_eq!(press(&mut line, KeyCode::Enter, KeyModifiers::NONE), Edited::NotMine);
    }

    #[test]
    fn pasted_lines_become_one_line_without_escapes() {
        let mut line = LineEdit::new("");
        line.paste("a\nb\u{1b}[31m\n");
        assert_eq!(line.text(), "a b [31m");
    }
}
