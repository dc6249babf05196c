//! Where results come from: the code, command, machine, program and data of one run, as plain data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything about a runner that results may depend on. The environment is not among it, for it
/// holds secrets; of the variables that the study file sets there are the names, and digests by
/// which a change is noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The command line, word by word.
    pub command: Vec<String>,
    /// Where it was given.
    pub directory: String,
    /// The state of the code, where the program is in a repository.
    pub code: Code,
    /// The program that runs the study.
    pub hpsearch: Build,
    /// The machine.
    pub machine: Machine,
    /// Files that trials read, by what they are: program, data, tokenizer; and source files that
    /// git does not know.
    pub files: Vec<SourceFile>,
    /// The Python packages of the command's interpreter, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<Packages>,
    /// The variables of `[command] env`, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<Variable>,
}

/// The packages that a Python interpreter has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packages {
    /// The interpreter.
    pub interpreter: String,
    /// How many packages there are.
    pub count: u64,
    /// BLAKE3 of the list, a line `name version` for each, hexadecimal: its key in the store.
    pub digest: String,
}

impl Packages {
    fn in_words(&self, digests: Digests) -> String {
        let Packages { interpreter, count, digest } = self;
        let s = if *count == 1 { "" } else { "s" };
        format!("{count} package{s} ({}) of {interpreter}", digests.shown(digest))
    }

    /// What two lists of packages do not have in common, by name: the version in each.
    pub fn differences(one: &str, other: &str) -> BTreeMap<String, [Option<String>; 2]> {
        let mut versions: BTreeMap<String, [Option<String>; 2]> = BTreeMap::new();
        for (side, list) in [one, other].into_iter().enumerate() {
            for (name, version) in list.lines().filter_map(|line| line.split_once(' ')) {
                versions.entry(name.to_owned()).or_default()[side] = Some(version.to_owned());
            }
        }
        versions.retain(|_, [one, other]| one != other);
        versions
    }
}

/// A variable of `[command] env`, whose value is written nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// BLAKE3 of the store's salt, the name and the value, hexadecimal: comparable within one
    /// store.
    pub digest: String,
}

/// What git says about the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Nothing, and why.
    Unknown(String),
    /// A commit, and what was changed since.
    Commit {
        /// Its full name.
        commit: String,
        /// The branch, if one is checked out.
        branch: Option<String>,
        /// Changes to files that git knows; `None`: none.
        changes: Option<Changes>,
        /// Files that git does not know, and that it is not told to ignore, whole directories by
        /// their names; the first twenty.
        untracked: Vec<String>,
    },
}

/// Changes that are not committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// BLAKE3 of the difference as kept, hexadecimal: its key in the store.
    pub digest: String,
    /// Bytes that are kept.
    pub bytes: u64,
    /// Whether there was more than is kept.
    pub cut: bool,
    /// How many files changed, as far as kept.
    pub files: u64,
}

/// An hpsearch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Its version.
    pub version: String,
    /// BLAKE3 of the program file, hexadecimal, where it can be read.
    pub digest: Option<String>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// Operating system, kernel and architecture.
    pub system: String,
    /// What the maker calls the processor; empty where the system does not say.
    pub processor: String,
    /// Cores that the runner may use.
    pub cores: u64,
    /// Its GPUs in the driver's order.
    pub gpus: Vec<GpuKind>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuKind {
    /// Its name.
    pub name: String,
    /// The driver's version.
    pub driver: String,
}

/// A file whose content results depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFile {
    /// What it is to the study: `program`, `tokenizer`, or the split of the data: `train`,
    /// `validation`, `test`.
    pub role: String,
    /// Where it lies.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3, hexadecimal; `None`: it was not read, being too long or unreadable. Of one that git
    /// does not know also the key of its text in the store.
    pub digest: Option<String>,
    /// Why it has no digest, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// So many untracked files people are shown.
const SHOWN_FILES: usize = 5;

/// Characters of a digest that people are shown.
const SHOWN: usize = 12;

/// The beginning of a digest, for people.
pub fn short(digest: &str) -> &str {
    digest.get(..SHOWN).unwrap_or(digest)
}

/// How digests are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digests {
    Whole,
    Short,
}

impl Digests {
    fn shown(self, digest: &str) -> &str {
        if self == Digests::Short { short(digest) } else { digest }
    }
}

impl Provenance {
    /// What is to be said of it, by title, whole digests included: two lineages with the same facts
    /// are the same.
    pub fn facts(&self) -> Vec<(String, String)> {
        self.facts_with(Digests::Whole)
    }

    /// The same, with the beginnings of digests.
    pub fn short_facts(&self) -> Vec<(String, String)> {
        self.facts_with(Digests::Short)
    }

    fn facts_with(&self, digests: Digests) -> Vec<(String, String)> {
        let fact = |title: &str, text: String| (title.to_owned(), text);
        let mut facts = vec![
            fact("code", self.code.in_words(digests)),
            fact("command", self.command.join(" ")),
            fact("directory", self.directory.clone()),
            fact("hpsearch", self.hpsearch.in_words(digests)),
        ];
        facts.extend(self.machine.facts());
        if !self.environment.is_empty() {
            let variables: Vec<String> = self
                .environment
                .iter()
                .map(|variable| format!("{} {}", variable.name, short(&variable.digest)))
                .collect();
            facts.push(fact("environment", variables.join(", ")));
        }
        if let Some(packages) = &self.packages {
            facts.push(fact("packages", packages.in_words(digests)));
        }
        let (untracked, others): (Vec<&SourceFile>, Vec<&SourceFile>) =
            self.files.iter().partition(|file| file.role == SourceFile::UNTRACKED);
        facts.extend(others.iter().map(|file| fact(&file.role, file.in_words(digests))));
        let most = if digests == Digests::Short { SHOWN_FILES } else { usize::MAX };
        let shown = untracked.iter().take(most);
        facts.extend(shown.map(|file| fact(&file.role, file.in_words(digests))));
        if untracked.len() > most {
            facts.push(fact("", format!("and {} more untracked files", untracked.len() - most)));
        }
        facts
    }

    /// Source files that git does not know and that are kept: their paths, and the keys of their
    /// texts.
    pub fn untracked(&self) -> impl Iterator<Item = (&str, &str)> {
        let untracked = self.files.iter().filter(|file| file.role == SourceFile::UNTRACKED);
        untracked.filter_map(|file| Some((file.path.as_str(), file.digest.as_deref()?)))
    }

    /// Paths of the program's files that have another content than `before`; files that were not
    /// read then or now are not among them.
    pub fn changed_programs<'a>(&'a self, before: &Provenance) -> Vec<&'a str> {
        let is_other = |file: &&SourceFile, then: &SourceFile| {
            then.role == file.role
                && then.path == file.path
                && then.digest.is_some()
                && file.digest.is_some()
                && then.digest != file.digest
        };
        let programs = self.files.iter().filter(|file| file.role == SourceFile::PROGRAM);
        programs
            .filter(|file| before.files.iter().any(|then| is_other(file, then)))
            .map(|file| file.path.as_str())
            .collect()
    }

    /// The key of the difference to the commit, if one is kept.
    pub fn diff(&self) -> Option<&Changes> {
        match &self.code {
            Code::Commit { changes, .. } => changes.as_ref(),
            Code::Unknown(_) => None,
        }
    }
}

/// What stands where a value stood.
const MASK: &str = "...";

/// Shorter values are no secrets, and stand in every text.
const SHORTEST: usize = 8;

/// The values of `[command] env`, to be kept out of texts that are stored.
#[derive(Clone, Debug, Default)]
pub struct Masked<'a> {
    variables: Vec<(&'a str, &'a str)>,
}

impl<'a> Masked<'a> {
    /// Masks these variables, by name and value.
    pub fn new(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut variables: Vec<_> = variables.into_iter().collect();
        // One value may be the beginning of another.
        variables.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Masked { variables }
    }

    /// The text without the values, and without what a line sets one of the variables to: an
    /// earlier value may stand there.
    pub fn text(&self, text: &str) -> String {
        let lines = text.split_inclusive('\n').map(|line| {
            match self.variables.iter().filter_map(|(name, _)| after_name(line, name)).min() {
                Some(end) => format!(
                    "{}{MASK}{}",
                    &line[..end],
                    if line.ends_with('\n') { "\n" } else { "" }
                ),
                None => line.to_owned(),
            }
        });
        let mut text: String = lines.collect();
        for (_, value) in self.variables.iter().filter(|(_, value)| value.len() >= SHORTEST) {
            text = text.replace(value, MASK);
        }
        text
    }
}

/// Where the value begins that a line sets the variable to: `NAME = `, `"NAME": `, `export NAME=`.
fn after_name(line: &str, name: &str) -> Option<usize> {
    if name.is_empty() {
        return None;
    }
    line.match_indices(name).find_map(|(at, _)| {
        let is_part = |char: char| char.is_alphanumeric() || char == '_';
        let rest = &line[at + name.len()..];
        let sign = rest.trim_start_matches(['"', '\'', ' ', '\t']);
        let is_whole = !line[..at].ends_with(is_part) && !rest.starts_with(is_part);
        (is_whole && sign.starts_with(['=', ':'])).then(|| line.len() - sign.len() + 1)
    })
}

/// The words of a command line, without the values that `--set` gives to variables of the
/// environment.
pub fn masked_command(words: &[String]) -> Vec<String> {
    words.iter().map(|word| masked_override(word)).collect()
}

/// An override of `--set` (`command.env.NAME=VALUE`, perhaps with `--set=` before it) without the
/// value of a variable.
pub fn masked_override(word: &str) -> String {
    let start = if word.starts_with("--set=") { "--set=".len() } else { 0 };
    let key: String =
        word[start..].chars().filter(|char| !matches!(char, '"' | '\'' | ' ' | '\t')).collect();
    let is_environment = key.starts_with("command.env.")
        || key.starts_with("command.env=")
        || (key.starts_with("command=") && key.contains("env"));
    match word[start..].find('=').filter(|_| is_environment) {
        Some(sign) => format!("{}{MASK}", &word[..=start + sign]),
        None => word.to_owned(),
    }
}

impl Code {
    fn in_words(&self, digests: Digests) -> String {
        let (commit, branch, changes, untracked) = match self {
            Code::Unknown(why) => return format!("unknown: {why}"),
            Code::Commit { commit, branch, changes, untracked } => {
                (digests.shown(commit), branch, changes, untracked)
            }
        };
        let branch = branch.as_ref().map(|branch| format!(" on {branch}")).unwrap_or_default();
        let changes = match changes {
            None => ", no changes".to_owned(),
            Some(Changes { digest, bytes, cut, files }) => format!(
                ", {files} file{} changed (difference {}, {bytes} bytes{})",
                if *files == 1 { "" } else { "s" },
                digests.shown(digest),
                if *cut { ", cut" } else { "" }
            ),
        };
        let untracked = match untracked.len() {
            0 => String::new(),
            1 => format!(", {} unknown to git", untracked[0]),
            more if digests == Digests::Short => format!(", {more} files unknown to git"),
            _ => format!(", unknown to git: {}", untracked.join(" ")),
        };
        format!("commit {commit}{branch}{changes}{untracked}")
    }
}

impl Build {
    fn in_words(&self, digests: Digests) -> String {
        match &self.digest {
            Some(digest) => format!("{}, program {}", self.version, digests.shown(digest)),
            None => self.version.clone(),
        }
    }
}

impl Machine {
    fn facts(&self) -> Vec<(String, String)> {
        let gpu = |gpu: &GpuKind| format!("{}, driver {}", gpu.name, gpu.driver);
        let gpus = match self.gpus.as_slice() {
            [] => "none".to_owned(),
            gpus => gpus.iter().map(gpu).collect::<Vec<_>>().join("; "),
        };
        let processor = if self.processor.is_empty() { "unknown" } else { &self.processor };
        let cores = format!("{} core{}", self.cores, if self.cores == 1 { "" } else { "s" });
        vec![
            ("host".to_owned(), self.host.clone()),
            ("system".to_owned(), self.system.clone()),
            ("processor".to_owned(), format!("{processor}, {cores}")),
            ("gpu".to_owned(), gpus),
        ]
    }
}

impl SourceFile {
    /// What files are that a command names.
    pub const PROGRAM: &'static str = "program";
    /// What source files are that git does not know; their paths are relative to the repository.
    pub const UNTRACKED: &'static str = "untracked";

    fn in_words(&self, digests: Digests) -> String {
        let why = self.why.as_deref().unwrap_or("not read");
        let digest = self.digest.as_deref().map_or(why, |digest| digests.shown(digest));
        format!("{}, {} bytes, {digest}", self.path, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_what_a_line_sets_a_variable_to_are_masked_and_nothing_else() {
        let masked = Masked::new([("API_KEY", "sk-0123456789"), ("MODE", "fast")]);
        let text = "-env = { API_KEY = \"an older one\" }\n+env = { MODE = 'x' }\n API_KEY_FILE = \
            a\nsend(\"sk-0123456789\")\nfast\n\"API_KEY\": 1";
        let expected = "-env = { API_KEY =...\n+env = { MODE =...\n API_KEY_FILE = \
            a\nsend(\"...\")\nfast\n\"API_KEY\":...";
        assert_eq!(masked.text(text), expected);
        assert_eq!(Masked::default().text(text), text);
    }

    #[test]
    fn packages_are_compared_by_name() {
        let differences = Packages::differences(
            "numpy 2.0\ntorch 2.9.0\nold 1.0\n",
            "new 3\nnumpy 2.0\ntorch 2.9.1\n",
        );
        let version = |text: &str| Some(text.to_owned());
        let expected = [
            ("new", [None, version("3")]),
            ("old", [version("1.0"), None]),
            ("torch", [version("2.9.0"), version("2.9.1")]),
        ];
        let expected = expected.map(|(name, versions)| (name.to_owned(), versions));
        assert_eq!(differences, expected.into());
    }

    #[test]
    fn overrides_of_the_environment_lose_their_values() {
        let env = ["command.env.A=b", "--set=command.env.A=b", "\"command\".'env'.A = b"];
        let [words, masked] = [
            [&["run", "--set"], &env[..], &["command={env={A=1}}", "budget.trials=3"]].concat(),
            [
                &["run", "--set", "command.env.A=...", "--set=command.env.A=..."][..],
                &["\"command\".'env'.A =...", "command=...", "budget.trials=3"],
            ]
            .concat(),
        ];
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        assert_eq!(masked_command(&words), masked);
    }
}
