//! Tables of samplers and pruners: what a line of them says, and how a written policy is checked against its table.

use std::collections::BTreeMap;

use crate::study::spec::PolicySpec;

/// A line of a table of policies: `SamplerEntry` and `PrunerEntry` differ only in what builds them.
#[derive(Clone, Copy, Debug)]
pub struct Entry<Build> {
    /// Its name in the study file.
    pub name: &'static str,
    /// Other words for it; the stored name is always `name`.
    pub aliases: &'static [&'static str],
    /// One sentence for `hpsearch list`.
    pub summary: &'static str,
    /// Version of its rules: raised when the same history gives other decisions.
    pub version: u32,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// Builds it from checked options.
    pub build: Build,
}

/// All policies of one kind, and the names that are promised but not built.
#[derive(Clone, Copy, Debug)]
pub struct Table<Build: 'static> {
    /// `sampler` or `pruner`, for messages.
    pub kind: &'static str,
    /// The lines.
    pub entries: &'static [Entry<Build>],
    /// Names that the study file reserves for policies that are not built yet.
    pub not_yet: &'static [&'static str],
}

/// A name that is in no line of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct UnknownPolicy {
    /// `sampler` or `pruner`.
    pub kind: &'static str,
    /// The name as written.
    pub name: String,
    /// The name that was probably meant.
    pub suggestion: Option<&'static str>,
    /// Whether the name is right, and the policy not built yet.
    pub not_yet: bool,
    /// The names that can be used.
    pub known: Vec<&'static str>,
}

impl UnknownPolicy {
    /// What is wrong.
    pub fn message(&self) -> String {
        let UnknownPolicy { kind, name, .. } = self;
        if self.not_yet {
            format!("the {kind} `{name}` is not built yet")
        } else {
            format!("there is no {kind} `{name}`")
        }
    }

    /// What to write instead.
    pub fn help(&self) -> String {
        let known = quoted(&self.known);
        match self.suggestion {
            Some(suggestion) => format!("did you mean `{suggestion}`? There are {known}"),
            None => format!("there are {known}"),
        }
    }
}

/// One thing that is wrong with a policy as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The option's key; `None`: the policy's name itself.
    pub key: Option<String>,
    /// Whether the option's value is at fault, and not its key.
    pub is_about_value: bool,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl<Build> Table<Build> {
    /// The line of `name`, which may be an alias.
    pub fn find(&self, name: &str) -> Result<&'static Entry<Build>, UnknownPolicy> {
        if let Some(entry) =
            self.entries.iter().find(|entry| entry.name == name || entry.aliases.contains(&name))
        {
            return Ok(entry);
        }
        let not_yet = self.not_yet.contains(&name);
        let names =
            self.entries.iter().flat_map(|entry| std::iter::once(&entry.name).chain(entry.aliases));
        Err(UnknownPolicy {
            kind: self.kind,
            name: name.to_owned(),
            suggestion: if not_yet { None } else { nearest(name, names.copied()) },
            not_yet,
            known: self.entries.iter().map(|entry| entry.name).collect(),
        })
    }

    /// A written policy as it is stored: its name resolved, its options checked. All problems at once.
    pub fn resolve(
        &self,
        name: &str,
        options: BTreeMap<String, serde_json::Value>,
    ) -> Result<PolicySpec, Vec<PolicyProblem>> {
        let entry = self.find(name).map_err(|unknown| {
            vec![PolicyProblem {
                key: None,
                is_about_value: false,
                message: unknown.message(),
                help: Some(unknown.help()),
            }]
        })?;
        let problems: Vec<PolicyProblem> =
            options.iter().filter_map(|(key, value)| entry.problem_with(key, value)).collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let alias = (name != entry.name).then(|| name.to_owned());
        Ok(PolicySpec { name: entry.name.to_owned(), alias, version: entry.version, options })
    }
}

impl<Build> Entry<Build> {
    /// The entry as a study without options stores it.
    pub fn defaults(&self) -> PolicySpec {
        PolicySpec { version: self.version, ..PolicySpec::named(self.name) }
    }

    fn problem_with(&self, key: &str, value: &serde_json::Value) -> Option<PolicyProblem> {
        let Some(option) = self.options.iter().find(|option| option.name == key) else {
            let names: Vec<&'static str> = self.options.iter().map(|option| option.name).collect();
            let help = match nearest(key, names.iter().copied()) {
                _ if names.is_empty() => format!("`{}` has no options", self.name),
                Some(suggestion) => format!("did you mean `{suggestion}`?"),
                None => format!("its options are {}", quoted(&names)),
            };
            return Some(PolicyProblem {
                key: Some(key.to_owned()),
                is_about_value: false,
                message: format!("`{}` has no option `{key}`", self.name),
                help: Some(help),
            });
        };
        let why = option.kind.check(value).err()?;
        Some(PolicyProblem {
            key: Some(key.to_owned()),
            is_about_value: true,
            message: format!("`{key}`: {why}"),
            help: Some(format!("{} (default: {})", option.summary, option.default)),
        })
    }
}

/// The candidate most like `name`, if any is like it at all. 0.75 keeps `tpee` and `halton` apart from unrelated words.
fn nearest(name: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let likeness = |candidate: &str| strsim::jaro_winkler(&name.to_lowercase(), candidate);
    candidates
        .map(|candidate| (likeness(candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

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

impl OptionSpec {
    /// The number that a policy has for it, or its default.
    pub fn float(&self, spec: &PolicySpec) -> f64 {
        spec.float(
            self.name,
            self.default.parse().expect("the default of an option with a number is one"),
        )
    }

    /// The same of a count.
    pub fn count(&self, spec: &PolicySpec) -> u64 {
        spec.count(
            self.name,
            self.default.parse().expect("the default of an option with a count is one"),
        )
    }
}

/// Why a policy cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// An option outside its limits, or options that contradict each other.
    #[error("option `{option}` of `{policy}`: {why}{}", consequence.map(|so| format!(", {so}")).unwrap_or_default())]
    Option {
        /// The policy's name.
        policy: String,
        /// The option's key.
        option: String,
        /// What is wrong.
        why: String,
        /// What it would lead to.
        consequence: Option<Consequence>,
    },
    /// The policy cannot serve this study.
    #[error("`{policy}` cannot serve this study: {why}; {advice}")]
    Unsuitable {
        /// The policy's name.
        policy: String,
        /// What is wrong.
        why: &'static str,
        /// What to do.
        advice: &'static str,
    },
}

/// What options would lead to that contradict each other or the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Consequence {
    /// No value is acceptable.
    #[error("so every trial is stopped")]
    EveryTrialStops,
    /// A full trial is too short.
    #[error("so nothing is ever stopped")]
    NothingStops,
}

impl OptionKind {
    /// Checks a value; the error says what is accepted.
    pub fn check(&self, value: &serde_json::Value) -> Result<(), String> {
        let accepted = match self {
            OptionKind::Int { min, max } => {
                value.as_i64().is_some_and(|int| (*min..=*max).contains(&int))
            }
            OptionKind::Float { min, max } => {
                value.as_f64().is_some_and(|float| (*min..=*max).contains(&float))
            }
            OptionKind::Bool => value.is_boolean(),
            OptionKind::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        };
        if accepted { Ok(()) } else { Err(format!("`{value}` is not {}", self.describe())) }
    }

    /// What is accepted, for messages: `a whole number from 1 to 100`.
    pub fn describe(&self) -> String {
        match self {
            OptionKind::Int { min, max } if *max == i64::MAX => {
                format!("a whole number of at least {min}")
            }
            OptionKind::Int { min, max } => format!("a whole number from {min} to {max}"),
            OptionKind::Float { min: f64::NEG_INFINITY, max: f64::INFINITY } => {
                "a number".to_owned()
            }
            OptionKind::Float { min, max: f64::INFINITY } => format!("a number of at least {min}"),
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

    /// The whole number called `key` as a count, or `default`.
    pub fn count(&self, key: &str, default: u64) -> u64 {
        self.options.get(key).and_then(serde_json::Value::as_u64).unwrap_or(default)
    }

    /// The word called `key`, or `default`.
    pub fn word<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.options.get(key).and_then(serde_json::Value::as_str).unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pruners, samplers};
    use serde_json::json;

    fn options(pairs: &[(&str, serde_json::Value)]) -> BTreeMap<String, serde_json::Value> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
    }

    #[test]
    fn an_alias_is_stored_under_the_name_it_stands_for() {
        static ENTRIES: &[Entry<()>] = &[Entry {
            name: "halving",
            aliases: &["sha"],
            summary: "",
            version: 3,
            options: &[],
            build: (),
        }];
        let spec = Table { kind: "pruner", entries: ENTRIES, not_yet: &[] }
            .resolve("sha", BTreeMap::new())
            .unwrap();
        assert_eq!(
            (spec.name.as_str(), spec.alias.as_deref(), spec.version),
            ("halving", Some("sha"), 3)
        );
        assert_eq!(samplers::resolve("random", BTreeMap::new()).unwrap().alias, None);
    }

    #[test]
    fn studies_stored_when_tpe_meant_the_independent_one_keep_it() {
        let stored =
            r#"{"name":"tpe-independent","alias":"tpe","version":1,"options":{"gamma":0.2}}"#;
        let spec: PolicySpec = serde_json::from_str(stored).unwrap();
        assert_eq!(samplers::find(&spec.name).unwrap().name, "tpe-independent");
        assert_eq!(samplers::resolve("tpe", BTreeMap::new()).unwrap().name, "tpe");
    }

    #[test]
    fn a_misspelt_name_gets_a_suggestion_and_a_planned_one_is_not_built_yet() {
        let unknown = samplers::find("randon").unwrap_err();
        assert_eq!((unknown.suggestion, unknown.not_yet), (Some("random"), false));
        assert_eq!(unknown.to_string(), "there is no sampler `randon`");
        let unknown = pruners::find("pbt").unwrap_err();
        assert!(unknown.not_yet);
        assert_eq!(unknown.to_string(), "the pruner `pbt` is not built yet");
        assert!(unknown.help().starts_with("there are `asha`, "));
    }

    #[test]
    fn all_problems_of_the_options_come_at_once_with_help() {
        let problems = pruners::resolve(
            "asha",
            options(&[
                ("reduction_facto", json!(3)),
                ("mode", json!("halt")),
                ("brackets", json!(1)),
            ]),
        )
        .unwrap_err();
        let said: Vec<_> = problems
            .iter()
            .map(|problem| (problem.key.as_deref().unwrap(), problem.message.as_str()))
            .collect();
        assert_eq!(
            said,
            [
                ("mode", "`mode`: `\"halt\"` is not one of `stop`, `promote`"),
                ("reduction_facto", "`asha` has no option `reduction_facto`")
            ]
        );
        assert_eq!(problems[1].help.as_deref(), Some("did you mean `reduction_factor`?"));
        let problems = samplers::resolve("random", options(&[("gamma", json!(0.1))])).unwrap_err();
        assert_eq!(problems[0].help.as_deref(), Some("`random` has no options"));
    }

    #[test]
    fn names_are_unique_and_written_defaults_pass_their_own_check() {
        fn check<Build>(entries: &[Entry<Build>], not_yet: &[&str]) {
            let mut names: Vec<&str> = entries
                .iter()
                .flat_map(|entry| std::iter::once(&entry.name).chain(entry.aliases))
                .copied()
                .collect();
            names.extend(not_yet);
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
            for option in entries.iter().flat_map(|entry| entry.options) {
                // A default that is no value is described in words.
                if let Ok(value) = serde_json::from_str::<serde_json::Value>(option.default) {
                    assert_eq!(option.kind.check(&value), Ok(()), "{}", option.name);
                }
            }
        }
        check(samplers::SAMPLERS, samplers::NOT_YET);
        check(pruners::PRUNERS, pruners::NOT_YET);
    }
}
