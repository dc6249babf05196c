//! Options of samplers and pruners: how tables describe them, and how a written one is checked against its table.

use crate::study::PolicySpec;

/// The kind of an option's value, with its limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionKind {
    /// A whole number within inclusive bounds.
    Int {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// A real number within inclusive bounds.
    Float {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// `true` or `false`.
    Bool,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// One option of a sampler or pruner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionSpec {
    /// Its key in the study file.
    pub name: &'static str,
    /// Its kind.
    pub kind: OptionKind,
    /// Its default as it would be written, for the help text.
    pub default: &'static str,
    /// One sentence.
    pub summary: &'static str,
}

/// Why a policy cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// An option outside its limits, or options that contradict each other.
    #[error("option `{option}` of `{policy}`: {why}")]
    Option {
        /// The policy's name.
        policy: String,
        /// The option's key.
        option: String,
        /// What is wrong.
        why: String,
    },
    /// The policy cannot serve this study.
    #[error("`{policy}` cannot serve this study: {why}")]
    Unsuitable {
        /// The policy's name.
        policy: String,
        /// What is wrong, and what to do.
        why: String,
    },
}

impl OptionKind {
    /// Checks a value; the error says what is accepted.
    pub fn check(&self, value: &serde_json::Value) -> Result<(), String> {
        let accepted = match self {
            OptionKind::Int { min, max } => value.as_i64().is_some_and(|int| (*min..=*max).contains(&int)),
            OptionKind::Float { min, max } => value.as_f64().is_some_and(|float| (*min..=*max).contains(&float)),
            OptionKind::Bool => value.is_boolean(),
            OptionKind::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        };
        if accepted { Ok(()) } else { Err(format!("`{value}` is not {}", self.describe())) }
    }

    /// What is accepted, for messages: `a whole number from 1 to 100`.
    pub fn describe(&self) -> String {
        match self {
            OptionKind::Int { min, max } if *max == i64::MAX => format!("a whole number of at least {min}"),
            OptionKind::Int { min, max } => format!("a whole number from {min} to {max}"),
            OptionKind::Float { min, max } => format!("a number from {min} to {max}"),
            OptionKind::Bool => "`true` or `false`".to_owned(),
            OptionKind::Word(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                format!("one of {}", quoted.join(", "))
            }
        }
    }
}

impl PolicySpec {
    /// The whole number called `key`, or `default`.
    pub fn int(&self, key: &str, default: i64) -> i64 {
        self.options.get(key).and_then(serde_json::Value::as_i64).unwrap_or(default)
    }

    /// The number called `key`, or `default`.
    pub fn float(&self, key: &str, default: f64) -> f64 {
        self.options.get(key).and_then(serde_json::Value::as_f64).unwrap_or(default)
    }

    /// The word called `key`, or `default`.
    pub fn word<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.options.get(key).and_then(serde_json::Value::as_str).unwrap_or(default)
    }
}
