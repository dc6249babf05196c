//! The form for a new configuration: a trial's values to be edited, each checked against the space
//! as it is typed.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::line::LineEdit;
use crate::app::enqueue::{range, typed};
use crate::report::wording::one_line;
use crate::study::params::{Params, Value};
use crate::study::space::{Dimension, Distribution};
use crate::study::spec::StudySpec;
use crate::study::state::shown_params;
use crate::study::trial::{Trial, TrialNumber};

/// A parameter's line.
#[derive(Clone, Debug, PartialEq)]
struct Field {
    dimension: Dimension,
    line: LineEdit,
}

/// The form.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// Whose values it began with.
    pub trial: TrialNumber,
    fields: Vec<Field>,
    selected: usize,
}

/// What is to be seen of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldView<'a> {
    /// The parameter's name.
    pub name: String,
    /// What is typed.
    pub line: &'a LineEdit,
    /// Its values.
    pub range: String,
    /// What is wrong with what is typed.
    pub problem: Option<String>,
    /// Whether its condition holds; a parameter that is not active has no value.
    pub active: bool,
    /// Whether it is the one that is edited.
    pub selected: bool,
}

/// What a key means for the form.
#[derive(Clone, Debug, PartialEq)]
pub enum Filled {
    /// It is not finished.
    Nothing,
    /// It was left.
    Cancelled,
    /// It was finished, with these values.
    Done(Params),
}

impl Form {
    /// A form with the values of `trial`; what it lacks is empty.
    pub fn new(spec: &StudySpec, trial: &Trial) -> Self {
        let params = shown_params(spec, trial);
        let text = |dimension: &Dimension| {
            params.get(&dimension.name).map_or_else(String::new, Value::to_string)
        };
        let field = |dimension: &Dimension| Field {
            dimension: dimension.clone(),
            line: LineEdit::new(text(dimension)),
        };
        Form {
            trial: trial.number,
            fields: spec.space.dimensions().iter().map(field).collect(),
            selected: 0,
        }
    }

    /// The fields as they are shown.
    pub fn shown<'a>(&'a self) -> Vec<FieldView<'a>> {
        let params = self.params();
        let shown = |(index, field): (usize, &'a Field)| {
            let active = field.dimension.is_active(&params);
            FieldView {
                name: one_line(&field.dimension.name),
                line: &field.line,
                range: range(&field.dimension.distribution),
                problem: field.value().err().filter(|_| active),
                active,
                selected: index == self.selected,
            }
        };
        self.fields.iter().enumerate().map(shown).collect()
    }

    /// Takes a key in.
    pub fn press(&mut self, key: KeyEvent) -> Filled {
        match key.code {
            KeyCode::Esc => return Filled::Cancelled,
            KeyCode::Enter => return self.finish(),
            KeyCode::Char('s') if key.modifiers == KeyModifiers::CONTROL => return self.finish(),
            KeyCode::Up | KeyCode::BackTab => self.step(false),
            KeyCode::Down | KeyCode::Tab => self.step(true),
            _ => {
                if let Some(field) = self.fields.get_mut(self.selected) {
                    field.press(key);
                }
            }
        }
        Filled::Nothing
    }

    /// Takes pasted text in.
    pub fn paste(&mut self, pasted: &str) {
        if let Some(field) = self.fields.get_mut(self.selected) {
            field.line.paste(pasted);
        }
    }

    /// Done if nothing is wrong; else the first wrong field is selected.
    fn finish(&mut self) -> Filled {
        match self.shown().iter().position(|field| field.problem.is_some()) {
            Some(wrong) => {
                self.selected = wrong;
                Filled::Nothing
            }
            None => Filled::Done(self.params()),
        }
    }

    /// To the next active field, round and round.
    fn step(&mut self, forward: bool) {
        let active: Vec<bool> = self.shown().iter().map(|field| field.active).collect();
        let count = active.len();
        for _ in 0..count {
            self.selected = (self.selected + if forward { 1 } else { count - 1 }) % count;
            if active[self.selected] {
                return;
            }
        }
    }

    /// The values that are right, of the parameters that are active; parents come first, so that
    /// children know.
    fn params(&self) -> Params {
        let mut params = Params::new();
        for field in &self.fields {
            if let (true, Ok(value)) = (field.dimension.is_active(&params), field.value()) {
                params.insert(field.dimension.name.clone(), value);
            }
        }
        params
    }
}

impl Field {
    /// Takes a key in: Left and Right turn a choice, and edit everything else.
    fn press(&mut self, key: KeyEvent) {
        let (Distribution::Choice { choices }, KeyCode::Left | KeyCode::Right) =
            (&self.dimension.distribution, key.code)
        else {
            self.line.press(key);
            return;
        };
        let step = if key.code == KeyCode::Right { 1 } else { choices.len() - 1 };
        let at = choices.iter().position(|choice| choice.to_string() == self.line.text());
        let next = at.map_or(0, |at| (at + step) % choices.len());
        self.line = LineEdit::new(choices[next].to_string());
    }

    fn value(&self) -> Result<Value, String> {
        typed(&self.dimension.distribution, self.line.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::time::Timestamp;
    use crate::study::trial::Origin;
    use crate::tui::tests::{key_of, params, spec};

    fn form() -> Form {
        let (params, created) = (params(0.001, 2, "adamw"), Timestamp::default());
        Form::new(&spec(), &Trial::new(TrialNumber(7), params, Origin::Asked, created))
    }

    fn press(form: &mut Form, keys: &str) -> Filled {
        keys.chars().fold(Filled::Nothing, |_, char| form.press(key_of(char)))
    }

    #[test]
    fn an_unchanged_form_is_the_trials_configuration() {
        let Filled::Done(params) = press(&mut form(), "\n") else { panic!("it is right as it is") };
        assert_eq!(
            (params.get("learning_rate"), params.get("momentum"), params.len()),
            (Some(&0.001.into()), None, 3)
        );
    }

    #[test]
    fn a_wrong_value_is_said_in_place_and_keeps_the_form_open() {
        let mut form = form();
        press(&mut form, "9↓0");
        assert_eq!(press(&mut form, "\n"), Filled::Nothing);
        let shown = form.shown();
        assert_eq!(shown[0].problem, None);
        assert_eq!(shown[1].problem.as_deref(), Some("is not in 1 .. 8"));
        assert!(shown[1].selected);
        press(&mut form, "\u{8}x");
        assert_eq!(form.shown()[1].problem.as_deref(), Some("`2x` is not an integer"));
    }

    #[test]
    fn a_choice_turns_and_what_depends_on_it_asks_for_a_value() {
        let mut form = form();
        assert!(!form.shown()[3].active);
        press(&mut form, "↑");
        assert!(form.shown()[2].selected, "a field that is not active is left out");
        press(&mut form, "→");
        assert_eq!(form.shown()[3].problem.as_deref(), Some("has no value yet"));
        press(&mut form, "\n0.9");
        let Filled::Done(params) = press(&mut form, "\n") else { panic!("it is right now") };
        assert_eq!(params.get("momentum"), Some(&0.9.into()));
    }
}
