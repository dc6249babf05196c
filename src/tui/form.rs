//! The form for a new configuration: a trial's values to be edited, each checked against the space
//! as it is typed.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::line::{Edited, LineEdit};
use crate::report::wording::one_line;
use crate::study::params::{Params, Value};
use crate::study::space::{Dimension, Distribution, Scale, Space};
use crate::study::trial::{Trial, TrialNumber};

/// A parameter's line.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    dimension: Dimension,
    /// What is typed.
    pub line: LineEdit,
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
    pub fn new(space: &Space, trial: &Trial) -> Self {
        let text = |dimension: &Dimension| {
            trial.params.get(&dimension.name).map_or_else(String::new, Value::to_string)
        };
        let field = |dimension: &Dimension| Field {
            dimension: dimension.clone(),
            line: LineEdit::new(text(dimension)),
        };
        Form {
            trial: trial.number,
            fields: space.dimensions().iter().map(field).collect(),
            selected: 0,
        }
    }

    /// The fields as they are shown.
    pub fn shown(&self) -> Vec<FieldView<'_>> {
        let params = self.params();
        let shown = |(index, field): (usize, &'_ Field)| {
            let active = field.dimension.is_active(&params);
            (index == self.selected, active, if active { field.value().err() } else { None })
        };
        let states: Vec<_> = self.fields.iter().enumerate().map(shown).collect();
        let fields = self.fields.iter().zip(states);
        fields
            .map(|(field, (selected, active, problem))| FieldView {
                name: one_line(&field.dimension.name),
                line: &field.line,
                range: range(&field.dimension.distribution),
                problem,
                active,
                selected,
            })
            .collect()
    }

    /// Takes a key in.
    pub fn press(&mut self, key: KeyEvent) -> Filled {
        match key.code {
            KeyCode::Esc => return Filled::Cancelled,
            KeyCode::Enter => return self.finish(),
            KeyCode::Char('s') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return self.finish();
            }
            KeyCode::Up | KeyCode::BackTab => self.step(false),
            KeyCode::Down | KeyCode::Tab => self.step(true),
            KeyCode::Left | KeyCode::Right if self.is_choice() => {
                self.turn_choice(key.code == KeyCode::Right)
            }
            _ => {
                if let Some(field) = self.fields.get_mut(self.selected) {
                    let _same_or_changed: Edited = field.line.press(key);
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

    fn is_choice(&self) -> bool {
        self.fields.get(self.selected).is_some_and(|field| {
            matches!(field.dimension.distribution, Distribution::Choice { .. })
        })
    }

    fn turn_choice(&mut self, forward: bool) {
        let Some(field) = self.fields.get_mut(self.selected) else {
            return;
        };
        let Distribution::Choice { choices } = &field.dimension.distribution else {
            return;
        };
        let at = choices.iter().position(|choice| choice.to_string() == field.line.text());
        let next = match (at, forward) {
            (None, _) => 0,
            (Some(at), true) => (at + 1) % choices.len(),
            (Some(at), false) => (at + choices.len() - 1) % choices.len(),
        };
        field.line = LineEdit::new(choices[next].to_string());
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
    fn value(&self) -> Result<Value, String> {
        let text = self.line.text().trim();
        let distribution = &self.dimension.distribution;
        let typed = match distribution {
            Distribution::Float { .. } => text.parse().map(Value::Float).ok(),
            Distribution::Int { .. } => text.parse().map(Value::Int).ok(),
            Distribution::Choice { choices } => {
                choices.iter().find(|choice| choice.to_string() == text).cloned()
            }
        };
        match (typed, distribution) {
            (None, _) if text.is_empty() => Err("has no value yet".to_owned()),
            (None, Distribution::Float { .. }) => {
                Err(format!("`{}` is not a number", one_line(text)))
            }
            (None, Distribution::Int { .. }) => {
                Err(format!("`{}` is not an integer", one_line(text)))
            }
            (None, Distribution::Choice { .. }) => {
                Err(format!("`{}` is none of its values", one_line(text)))
            }
            (Some(value), _) => distribution
                .normalize(&value)
                .ok_or_else(|| format!("is not in {}", range(distribution))),
        }
    }
}

/// The values of a distribution in a few words.
fn range(distribution: &Distribution) -> String {
    let log = |scale: &Scale| if *scale == Scale::Log { ", log" } else { "" };
    match distribution {
        Distribution::Float { low, high, scale, step } => {
            let step =
                step.map(|step| format!(", step {}", Value::Float(step))).unwrap_or_default();
            format!("{} .. {}{}{step}", Value::Float(*low), Value::Float(*high), log(scale))
        }
        Distribution::Int { low, high, scale, step } => {
            let step = if *step == 1 { String::new() } else { format!(", step {step}") };
            format!("{low} .. {high}{}{step}", log(scale))
        }
        Distribution::Choice { choices } => {
            let words: Vec<String> =
                choices.iter().map(|choice| one_line(&choice.to_string())).collect();
            words.join(" | ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::space::Condition;
    use crate::tui::tests::dimension;

    fn space() -> Space {
        let mut momentum =
            dimension("momentum", Distribution::float(0.0, 0.99, Scale::Linear, None).unwrap());
        momentum.when = Some(Condition(vec![("optim".into(), vec!["sgd".into()])]));
        Space::new(vec![
            dimension("rate", Distribution::float(1e-5, 0.1, Scale::Log, None).unwrap()),
            dimension("layers", Distribution::int(1, 8, Scale::Linear, 1).unwrap()),
            dimension("optim", Distribution::choice(vec!["adamw".into(), "sgd".into()]).unwrap()),
            momentum,
        ])
        .unwrap()
    }

    fn form() -> Form {
        let params: Params = [
            ("rate".to_owned(), Value::from(0.001)),
            ("layers".into(), 2.into()),
            ("optim".into(), "adamw".into()),
        ]
        .into_iter()
        .collect();
        Form::new(&space(), &crate::tui::tests::trial(7, params))
    }

    fn press(form: &mut Form, codes: &[KeyCode]) -> Filled {
        codes
            .iter()
            .fold(Filled::Nothing, |_, code| form.press(KeyEvent::new(*code, KeyModifiers::NONE)))
    }

    #[test]
    fn an_unchanged_form_is_the_trials_configuration() {
        let Filled::Done(params) = press(&mut form(), &[KeyCode::Enter]) else {
            panic!("it is right as it is")
        };
        assert_eq!(
            (params.get("rate"), params.get("momentum"), params.len()),
            (Some(&0.001.into()), None, 3)
        );
    }

    #[test]
    fn a_wrong_value_is_said_in_place_and_keeps_the_form_open() {
        let mut form = form();
        press(&mut form, &[KeyCode::Char('9'), KeyCode::Down, KeyCode::Char('0')]);
        assert_eq!(press(&mut form, &[KeyCode::Enter]), Filled::Nothing);
        let shown = form.shown();
        assert_eq!(shown[0].problem, None);
        assert_eq!(shown[1].problem.as_deref(), Some("is not in 1 .. 8"));
        assert!(shown[1].selected);
        press(&mut form, &[KeyCode::Backspace, KeyCode::Char('x')]);
        assert_eq!(form.shown()[1].problem.as_deref(), Some("`2x` is not an integer"));
    }

    #[test]
    fn a_choice_turns_and_what_depends_on_it_asks_for_a_value() {
        let mut form = form();
        assert!(!form.shown()[3].active);
        press(&mut form, &[KeyCode::Up]);
        assert!(form.shown()[2].selected, "a field that is not active is left out");
        press(&mut form, &[KeyCode::Right]);
        assert_eq!(form.shown()[3].problem.as_deref(), Some("has no value yet"));
        press(
            &mut form,
            &[KeyCode::Enter, KeyCode::Char('0'), KeyCode::Char('.'), KeyCode::Char('9')],
        );
        let Filled::Done(params) = press(&mut form, &[KeyCode::Enter]) else {
            panic!("it is right now")
        };
        assert_eq!(params.get("momentum"), Some(&0.9.into()));
    }
}
