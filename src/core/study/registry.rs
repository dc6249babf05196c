//! Registries of samplers and pruners: their entries, and the check of a study's tables against
//! them.

use std::collections::BTreeMap;

use crate::study::field::{self, Field};
use crate::study::spec::AlgorithmSpec;
use crate::study::suggestion::{nearest, quoted};

/// An entry of a registry: `SamplerEntry` and `PrunerEntry` differ only in what they build.
#[derive(Clone, Copy, Debug)]
pub struct RegistryEntry<Build> {
    /// Its name in the study file.
    pub name: &'static str,
    /// Aliases; the stored name is always `name`.
    pub aliases: &'static [&'static str],
    /// One sentence for `hpsearch list`.
    pub summary: &'static str,
    /// Version of its rules: raised whenever the same history gives other decisions.
    pub version: u32,
    /// The oldest version whose rules it still has: a stored study continues with its own.
    pub oldest: u32,
    /// Its options.
    pub options: &'static [Field],
    /// Whether it serves studies of several objectives.
    pub several: bool,
    /// Builds it from checked options.
    pub build: Build,
}

/// A registry, and the names reserved for algorithms that are not implemented yet.
#[derive(Clone, Copy, Debug)]
pub struct Registry<Build: 'static> {
    /// `sampler` or `pruner`, for messages.
    pub kind: &'static str,
    /// The entries.
    pub entries: &'static [RegistryEntry<Build>],
    /// Reserved names.
    pub not_yet: &'static [&'static str],
    /// What to take for several objectives.
    pub for_several: &'static str,
}

/// A name that the registry does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct UnknownName {
    /// `sampler` or `pruner`.
    pub kind: &'static str,
    /// The name as written.
    pub name: String,
    /// The most similar name.
    pub suggestion: Option<&'static str>,
    /// Whether the name is reserved.
    pub not_yet: bool,
    /// The available names.
    pub known: Vec<&'static str>,
}

impl UnknownName {
    /// What is wrong.
    pub fn message(&self) -> String {
        let UnknownName { kind, name, .. } = self;
        if self.not_yet {
            format!("the {kind} `{name}` is not implemented yet")
        } else {
            format!("there is no {kind} `{name}`")
        }
    }

    /// What to write instead.
    pub fn help(&self) -> String {
        let known = quoted(self.known.iter().copied());
        match self.suggestion {
            Some(suggestion) => format!("did you mean `{suggestion}`? There are {known}"),
            None => format!("there are {known}"),
        }
    }
}

/// A problem with an algorithm's table in the study file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionProblem {
    /// The option's key; `None`: the algorithm's name itself.
    pub key: Option<String>,
    /// Whether the value is wrong, and not the key.
    pub is_about_value: bool,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl<Build> Registry<Build> {
    /// The entry with this name or alias.
    pub fn find(&self, name: &str) -> Result<&'static RegistryEntry<Build>, UnknownName> {
        if let Some(entry) =
            self.entries.iter().find(|entry| entry.name == name || entry.aliases.contains(&name))
        {
            return Ok(entry);
        }
        let not_yet = self.not_yet.contains(&name);
        let names =
            self.entries.iter().flat_map(|entry| std::iter::once(&entry.name).chain(entry.aliases));
        Err(UnknownName {
            kind: self.kind,
            name: name.to_owned(),
            suggestion: if not_yet { None } else { nearest(name, names.copied()) },
            not_yet,
            known: self.entries.iter().map(|entry| entry.name).collect(),
        })
    }

    /// Whether the algorithm called `name` serves a study of that many objectives.
    ///
    /// # Errors
    /// [`RegistryError::Unsuitable`] if it serves one only. Unknown names are no error here.
    pub fn check_objectives(&self, name: &str, objectives: usize) -> Result<(), RegistryError> {
        match self.find(name) {
            Ok(entry) if objectives > 1 && !entry.several => Err(RegistryError::Unsuitable {
                algorithm: entry.name.to_owned(),
                why: "it has several objectives, and this serves one",
                advice: self.for_several,
            }),
            _ => Ok(()),
        }
    }

    /// Whether this program has the rules of the version that `spec` names.
    pub fn has_rules_of(&self, spec: &AlgorithmSpec) -> bool {
        let has =
            |entry: &RegistryEntry<Build>| (entry.oldest..=entry.version).contains(&spec.version);
        self.find(&spec.name).is_ok_and(has)
    }

    /// Gives `new`, an unchanged table, the version of the stored one, if its rules are still here:
    /// an update of this program does not change how a study is decided.
    pub fn keep_version(&self, stored: &AlgorithmSpec, new: &mut AlgorithmSpec) {
        let is_unchanged = stored.name == new.name && stored.options == new.options;
        if is_unchanged && self.has_rules_of(stored) {
            new.version = stored.version;
        }
    }

    /// The stored form of a table: name resolved, options checked. All problems at once.
    pub fn resolve(
        &self,
        name: &str,
        options: BTreeMap<String, serde_json::Value>,
    ) -> Result<AlgorithmSpec, Vec<OptionProblem>> {
        let entry = self.find(name).map_err(|unknown| {
            vec![OptionProblem {
                key: None,
                is_about_value: false,
                message: unknown.message(),
                help: Some(unknown.help()),
            }]
        })?;
        let mut problems = Vec::new();
        let mut checked = BTreeMap::new();
        for (key, value) in options {
            match entry.check(&key, &value) {
                Ok(value) => drop(checked.insert(key, value)),
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let alias = (name != entry.name).then(|| name.to_owned());
        Ok(AlgorithmSpec {
            name: entry.name.to_owned(),
            alias,
            version: entry.version,
            options: checked,
        })
    }
}

impl<Build> RegistryEntry<Build> {
    /// The entry without its builder.
    pub fn described(&self) -> RegistryEntry<()> {
        RegistryEntry {
            name: self.name,
            aliases: self.aliases,
            summary: self.summary,
            version: self.version,
            oldest: self.oldest,
            options: self.options,
            several: self.several,
            build: (),
        }
    }

    /// The specification with default options.
    pub fn defaults(&self) -> AlgorithmSpec {
        AlgorithmSpec { version: self.version, ..AlgorithmSpec::named(self.name) }
    }

    /// The stored form of a value, or what is wrong with it.
    fn check(
        &self,
        key: &str,
        value: &serde_json::Value,
    ) -> Result<serde_json::Value, OptionProblem> {
        let problem = |is_about_value, message, help| OptionProblem {
            key: Some(key.to_owned()),
            is_about_value,
            message,
            help: Some(help),
        };
        let Some(option) = field::find(self.options, key) else {
            let help = match self.options {
                [] => format!("`{}` has no options", self.name),
                options => field::unknown_help(key, options),
            };
            return Err(problem(false, format!("`{}` has no option `{key}`", self.name), help));
        };
        option
            .kind
            .check(value)
            .map_err(|why| problem(true, format!("`{key}` {why}"), option.remedy(value)))
    }
}

/// Why an algorithm cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RegistryError {
    /// An option out of range, or contradictory options.
    #[error("option `{option}` of `{algorithm}`: \
        {why}{}", consequence.map(|so| format!(", {so}")).unwrap_or_default())]
    Option {
        /// The algorithm's name.
        algorithm: String,
        /// The option's key.
        option: String,
        /// What is wrong.
        why: String,
        /// The consequence.
        consequence: Option<Consequence>,
    },
    /// The algorithm does not support this study.
    #[error("`{algorithm}` cannot serve this study: {why}; {advice}")]
    Unsuitable {
        /// The algorithm's name.
        algorithm: String,
        /// What is wrong.
        why: &'static str,
        /// What to do.
        advice: &'static str,
    },
}

/// The consequence of contradictory options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Consequence {
    /// No value is accepted.
    #[error("so every trial is stopped")]
    EveryTrialStops,
    /// A full trial is too short.
    #[error("so nothing is ever stopped")]
    NothingStops,
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
        static ENTRIES: &[RegistryEntry<()>] = &[RegistryEntry {
            name: "halving",
            aliases: &["sha"],
            summary: "",
            version: 3,
            oldest: 2,
            options: &[],
            several: false,
            build: (),
        }];
        let spec = Registry { kind: "pruner", entries: ENTRIES, not_yet: &[], for_several: "" }
            .resolve("sha", BTreeMap::new())
            .unwrap();
        assert_eq!(
            (spec.name.as_str(), spec.alias.as_deref(), spec.version),
            ("halving", Some("sha"), 3)
        );
        assert_eq!(samplers::resolve("random", BTreeMap::new()).unwrap().alias, None);
    }

    #[test]
    fn an_unchanged_table_keeps_the_stored_version_while_its_rules_are_here() {
        let version_after = |stored: AlgorithmSpec, new: AlgorithmSpec| {
            let mut new = new;
            samplers::REGISTRY.keep_version(&stored, &mut new);
            new.version
        };
        let entry = samplers::find("gp").unwrap();
        let of = |version| AlgorithmSpec { version, ..entry.defaults() };
        let newest = entry.version;
        assert_eq!(version_after(of(newest - 1), of(newest)), newest - 1);
        assert_eq!(version_after(of(entry.oldest), of(newest)), entry.oldest);
        // Rules that are gone, of a newer program, of another table, and of another sampler.
        assert_eq!(version_after(of(entry.oldest - 1), of(newest)), newest);
        assert_eq!(version_after(of(newest + 1), of(newest)), newest);
        let changed = of(newest).with("n_startup_trials", 5);
        assert_eq!(version_after(of(newest - 1), changed), newest);
        let other = AlgorithmSpec { version: 5, ..samplers::find("auto").unwrap().defaults() };
        assert_eq!(version_after(other, of(newest)), newest);
    }

    #[test]
    fn studies_stored_when_tpe_meant_the_independent_one_keep_it() {
        let stored =
            r#"{"name":"tpe-independent","alias":"tpe","version":1,"options":{"gamma":0.2}}"#;
        let spec: AlgorithmSpec = serde_json::from_str(stored).unwrap();
        assert_eq!(samplers::find(&spec.name).unwrap().name, "tpe-independent");
        assert_eq!(samplers::resolve("tpe", BTreeMap::new()).unwrap().name, "tpe");
    }

    #[test]
    fn a_misspelt_name_gets_a_suggestion_and_a_planned_one_is_not_built_yet() {
        let unknown = samplers::find("randon").unwrap_err();
        assert_eq!((unknown.suggestion, unknown.not_yet), (Some("random"), false));
        assert_eq!(unknown.to_string(), "there is no sampler `randon`");
        let planned = Registry { not_yet: &["planned"], ..pruners::REGISTRY };
        let unknown = planned.find("planned").unwrap_err();
        assert!(unknown.not_yet);
        assert_eq!(unknown.to_string(), "the pruner `planned` is not implemented yet");
        assert!(unknown.help().starts_with("there are `asha`, "));
    }

    #[test]
    fn an_algorithm_for_one_objective_is_refused_with_the_names_of_the_others() {
        fn check<Build>(table: &Registry<Build>) {
            for entry in table.entries {
                assert_eq!(table.check_objectives(entry.name, 1), Ok(()));
                let refused = table.check_objectives(entry.name, 2);
                assert_eq!(refused.is_ok(), entry.several, "{}", entry.name);
                let named = table.for_several.contains(&format!("`{}`", entry.name));
                assert!(!named || entry.several, "{}", entry.name);
            }
        }
        check(&samplers::REGISTRY);
        check(&pruners::REGISTRY);
        assert_eq!(
            samplers::check_objectives(&AlgorithmSpec::named("cmaes"), 2).unwrap_err().to_string(),
            "`cmaes` cannot serve this study: it has several objectives, and this serves one; use \
             `auto`, `tpe`, `gp`, `nsga2` or `nsga3`"
        );
        let forecast = AlgorithmSpec::named("hyperband").with("rank_by", "forecast");
        assert!(pruners::check_objectives(&forecast, 2).is_err());
        assert_eq!(pruners::check_objectives(&forecast, 1), Ok(()));
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
                ("mode", "`mode` cannot be `halt`"),
                ("reduction_facto", "`asha` has no option `reduction_facto`")
            ]
        );
        assert_eq!(problems[1].help.as_deref(), Some("did you mean `reduction_factor`?"));
        let problems = samplers::resolve("random", options(&[("gamma", json!(0.1))])).unwrap_err();
        assert_eq!(problems[0].help.as_deref(), Some("`random` has no options"));
    }

    #[test]
    fn names_are_unique_and_written_defaults_pass_their_own_check() {
        fn check<Build>(entries: &[RegistryEntry<Build>], not_yet: &[&str]) {
            for RegistryEntry { name, oldest, version, .. } in entries {
                assert!((1..=*version).contains(oldest), "{name}");
            }
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
                let default = option.default.json();
                assert!(
                    default.is_null() || option.kind.check(&default).is_ok(),
                    "{}",
                    option.name
                );
            }
        }
        check(samplers::SAMPLERS, samplers::NOT_YET);
        check(pruners::PRUNERS, pruners::NOT_YET);
    }
}
