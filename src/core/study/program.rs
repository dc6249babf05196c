//! The program of a study's trials: the built-in trainer, a command, or a closure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::study::serialized::is_default;

/// The program of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// The built-in trainer.
    Trainer {
        /// Fixed arguments by their (dotted) names; searched ones are in the space.
        arguments: BTreeMap<String, serde_json::Value>,
        /// The `[data]` table; paths absolute.
        data: BTreeMap<String, serde_json::Value>,
    },
    /// A program in any language.
    Command {
        /// Command line, with `{name}` for parameters.
        run: Vec<String>,
        /// Working directory; absolute.
        cwd: PathBuf,
        /// Variables added to the environment.
        env: BTreeMap<String, EnvironmentValue>,
        /// How parameters become arguments.
        #[serde(default, skip_serializing_if = "is_default")]
        args: ArgsRules,
        /// Sources of metrics besides its reports.
        #[serde(default, skip_serializing_if = "is_default")]
        metrics: MetricSources,
    },
    /// A Rust closure of the program that links the library.
    Inline,
}

impl Program {
    /// The sources of metrics besides reports, if it has any.
    pub fn metric_sources(&self) -> Option<&MetricSources> {
        match self {
            Program::Command { metrics, .. } if *metrics != MetricSources::default() => {
                Some(metrics)
            }
            _ => None,
        }
    }
}

/// The value of a variable of `[command] env`, which may be a secret: only the reader of the study
/// file has it, and it is never written. A stored specification has the names only, and all values
/// compare equal.
#[derive(Clone, Default)]
pub struct EnvironmentValue(Option<String>);

impl EnvironmentValue {
    /// A value from the study file.
    pub fn new(text: impl Into<String>) -> Self {
        EnvironmentValue(Some(text.into()))
    }

    /// The value; `None` in a specification read from a store.
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl std::fmt::Debug for EnvironmentValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("...")
    }
}

impl PartialEq for EnvironmentValue {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Serialize for EnvironmentValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_none()
    }
}

impl<'de> Deserialize<'de> for EnvironmentValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| EnvironmentValue::default())
    }
}

/// The style of a program's command-line parser, which decides how booleans are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArgsStyle {
    /// `--name value`; a true boolean is the flag `--name`.
    Dashes,
    /// `--name=value`; a true boolean is the flag `--name`.
    Equals,
    /// `name=value`, booleans included: `name=true`.
    Hydra,
}

impl ArgsStyle {
    /// Their names in the study file.
    pub const WORDS: &'static [&'static str] = &["dashes", "equals", "hydra"];

    /// Whether a boolean is a flag rather than `true` or `false`.
    pub fn has_flags(self) -> bool {
        matches!(self, ArgsStyle::Dashes | ArgsStyle::Equals)
    }
}

/// The treatment of a command's arguments that name an inactive parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inactive {
    /// The placeholder becomes the empty string: for studies older than the other rule, and those
    /// for which both are equal.
    #[default]
    Empty,
    /// The argument is dropped, and the option before it.
    Dropped,
}

/// How parameters become arguments of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgsRules {
    /// How booleans are passed; `None`: as `true` and `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<ArgsStyle>,
    /// How inactive parameters are passed.
    #[serde(default)]
    pub inactive: Inactive,
}

/// The sources of a program's metrics besides `@hpsearch` lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricSources {
    /// Regular expressions over its printed lines; see [`super::printed_metrics`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pattern: Vec<String>,
    /// A file of JSON lines that it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// A directory of TensorBoard's event files that it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensorboard: Option<String>,
}

impl MetricSources {
    /// The keys that name files, with their values.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let files = [("json", &self.json), ("tensorboard", &self.tensorboard)];
        files.into_iter().filter_map(|(key, text)| Some((key, text.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_environment_is_neither_written_nor_compared() {
        let of = |value: &str| Program::Command {
            run: vec!["train".to_owned()],
            cwd: "/".into(),
            env: BTreeMap::from([("KEY".to_owned(), EnvironmentValue::new(value))]),
            args: ArgsRules::default(),
            metrics: Default::default(),
        };
        let stored = serde_json::to_string(&of("secret")).unwrap();
        assert_eq!(stored, r#"{"command":{"run":["train"],"cwd":"/","env":{"KEY":null}}}"#);
        assert!(!format!("{:?}", of("secret")).contains("secret"));
        assert_eq!(of("secret"), of("other"));
        let read: Program =
            serde_json::from_str(&stored.replace("null", "\"of an older version\"")).unwrap();
        let Program::Command { env, .. } = read else { panic!() };
        assert_eq!(env["KEY"].get(), None);
    }
}
