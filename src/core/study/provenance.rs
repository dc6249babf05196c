//! Provenance: the code, command, machine, program and data behind the results of one run, as plain
//! data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::database_url::masked_word;
use crate::study::counted::count;
use crate::study::secret::MASK;

/// Everything about a runner that results may depend on. The environment is excluded because it
/// holds secrets; for variables set by the study file there are names, and digests to detect
/// changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The command line, word by word.
    pub command: Vec<String>,
    /// Its working directory.
    pub directory: String,
    /// The state of the code, if the program is in a git repository.
    pub code: Code,
    /// The program that runs the study.
    pub hpsearch: Build,
    /// The machine.
    pub machine: Machine,
    /// Files that trials read, by role: program, data, model, tokenizer; untracked source files.
    pub files: Vec<SourceFile>,
    /// The Python packages of the command's interpreter, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<Packages>,
    /// The variables of `[command] env`, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<Variable>,
}

/// The packages of a Python interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packages {
    /// The interpreter.
    pub interpreter: String,
    /// How many packages there are.
    pub count: u64,
    /// BLAKE3 of the list, one line `name version` each, hexadecimal: its key in the store.
    pub digest: String,
}

impl Packages {
    fn in_words(&self, digests: Digests) -> String {
        let Packages { interpreter, count, digest } = self;
        let s = if *count == 1 { "" } else { "s" };
        format!("{count} package{s} ({}) of {interpreter}", digests.shown(digest))
    }

    /// The differences between two lists of packages, by name: the version in each.
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

/// A variable of `[command] env`, whose value is never stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// BLAKE3 of the store's salt, the name and the value, hexadecimal: comparable within one
    /// store.
    pub digest: String,
}

/// The state of the code according to git.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Unknown, and why.
    Unknown(String),
    /// A commit, and the changes since.
    Commit {
        /// Its full hash.
        commit: String,
        /// The branch, if one is checked out.
        branch: Option<String>,
        /// Changes to tracked files; `None`: none.
        changes: Option<Changes>,
        /// Untracked files that are not ignored, whole directories by their names; the first
        /// twenty.
        untracked: Vec<String>,
    },
}

/// Uncommitted changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// BLAKE3 of the diff as stored, hexadecimal: its key in the store.
    pub digest: String,
    /// Stored bytes.
    pub bytes: u64,
    /// Whether the diff was truncated.
    pub cut: bool,
    /// Number of changed files in the stored part.
    pub files: u64,
}

/// A build of hpsearch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Its version.
    pub version: String,
    /// Which build, hexadecimal: the linker's build id, or BLAKE3 of the executable (always, before
    /// version 0.2), if readable.
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
    /// The CPU model; empty if unknown.
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

/// The machine of an agent, and the agent's own program there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentProvenance {
    /// The machine.
    pub machine: Machine,
    /// Bytes of memory, if known; a job of a cluster may use less.
    pub memory: Option<u64>,
    /// The program that runs the agent.
    pub hpsearch: Build,
    /// The job that the agent is part of, if a scheduler started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<ClusterJob>,
}

/// A job of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterJob {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The job's id, as the scheduler's tools take it.
    pub id: String,
}

/// What starts agents on machines of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// Slurm; ids are `JOB` or `ARRAY_TASK`.
    Slurm,
    /// Kubernetes; ids are names of pods.
    Kubernetes,
    /// PBS and its descendants.
    Pbs,
    /// LSF.
    Lsf,
}

impl ClusterJob {
    /// The job of a process with these environment variables.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Option<ClusterJob> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let array = || {
            let (array, task) = (given("SLURM_ARRAY_JOB_ID")?, given("SLURM_ARRAY_TASK_ID")?);
            Some(format!("{array}_{task}"))
        };
        let slurm = || given("SLURM_JOB_ID").map(|id| array().unwrap_or(id));
        // The name of a pod is its host name.
        let pod = || given("KUBERNETES_SERVICE_HOST").and_then(|_| given("HOSTNAME"));
        let job = |scheduler| move |id| ClusterJob { scheduler, id };
        None.or_else(|| slurm().map(job(Scheduler::Slurm)))
            .or_else(|| given("PBS_JOBID").map(job(Scheduler::Pbs)))
            .or_else(|| given("LSB_JOBID").map(job(Scheduler::Lsf)))
            .or_else(|| pod().map(job(Scheduler::Kubernetes)))
    }

    fn in_words(&self) -> String {
        let ClusterJob { scheduler, id } = self;
        match scheduler {
            Scheduler::Slurm => format!("Slurm job {id}"),
            Scheduler::Kubernetes => format!("Kubernetes pod {id}"),
            Scheduler::Pbs => format!("PBS job {id}"),
            Scheduler::Lsf => format!("LSF job {id}"),
        }
    }
}

impl AgentProvenance {
    /// Its facts by title, with abbreviated digests.
    pub fn short_facts(&self) -> Vec<(String, String)> {
        self.facts_with(Digests::Short)
    }

    /// One line.
    pub fn in_words(&self) -> String {
        let word = |(title, text): (String, String)| match title.as_str() {
            "host" | "system" | "cpu" | "job" => text,
            title => format!("{title} {text}"),
        };
        let facts = self.plain_facts(Digests::Short).into_iter();
        facts.map(word).collect::<Vec<_>>().join("; ")
    }

    /// The same as [`AgentProvenance::short_facts`] with full digests.
    pub fn facts(&self) -> Vec<(String, String)> {
        self.facts_with(Digests::Whole)
    }

    fn facts_with(&self, digests: Digests) -> Vec<(String, String)> {
        let facts = self.plain_facts(digests).into_iter();
        facts.map(|(title, text)| (format!("agent's {title}"), text)).collect()
    }

    fn plain_facts(&self, digests: Digests) -> Vec<(String, String)> {
        let mut facts = self.machine.facts();
        let gibibytes = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
        let memory = self.memory.map_or_else(|| "unknown".to_owned(), gibibytes);
        facts.push(("memory".to_owned(), memory));
        facts.push(("hpsearch".to_owned(), self.hpsearch.in_words(digests)));
        facts.extend(self.job.iter().map(|job| ("job".to_owned(), job.in_words())));
        facts
    }
}

/// A file on whose content results depend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFile {
    /// Its role: `program`, `model`, `tokenizer`, or the split of the data: `train`, `validation`,
    /// `test`.
    pub role: String,
    /// Its path.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// BLAKE3, hexadecimal; `None`: not read, too large or unreadable. For an untracked file also
    /// the key of its text in the store.
    pub digest: Option<String>,
    /// Why it has no digest, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Untracked files shown to users.
const SHOWN_FILES: usize = 5;

/// Characters of a digest shown to users.
const SHOWN: usize = 12;

/// An abbreviated digest.
pub fn short(digest: &str) -> &str {
    digest.get(..SHOWN).unwrap_or(digest)
}

/// How digests are displayed.
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
    /// Its facts by title, with full digests: provenances with equal facts are equal.
    pub fn facts(&self) -> Vec<(String, String)> {
        self.facts_with(Digests::Whole)
    }

    /// The same with abbreviated digests.
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
            facts.push(fact(
                "",
                format!("and {} more", count((untracked.len() - most) as u64, "untracked file")),
            ));
        }
        facts
    }

    /// Untracked source files that are stored: paths, and the keys of their texts.
    pub fn untracked(&self) -> impl Iterator<Item = (&str, &str)> {
        let untracked = self.files.iter().filter(|file| file.role == SourceFile::UNTRACKED);
        untracked.filter_map(|file| Some((file.path.as_str(), file.digest.as_deref()?)))
    }

    /// Paths of the program's files whose content differs from `before`, if both were read.
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

    /// The key of the diff, if one is stored.
    pub fn diff(&self) -> Option<&Changes> {
        match &self.code {
            Code::Commit { changes, .. } => changes.as_ref(),
            Code::Unknown(_) => None,
        }
    }
}

/// Shorter values are not secret and occur in any text.
const SHORTEST: usize = 8;

/// The values of `[command] env`, to be masked in stored texts.
#[derive(Clone, Debug, Default)]
pub struct Masked<'a> {
    variables: Vec<(&'a str, &'a str)>,
}

impl<'a> Masked<'a> {
    /// Masks these variables, by name and value.
    pub fn new(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut variables: Vec<_> = variables.into_iter().collect();
        // A value may be a prefix of another.
        variables.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Masked { variables }
    }

    /// Masks the values, and any value that a line assigns to one of the variables: it may be an
    /// earlier one.
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

/// Where the assigned value begins: `NAME = `, `"NAME": `, `export NAME=`.
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

/// A command line without the values that `--set` assigns to environment variables, and without
/// the passwords of databases.
pub fn masked_command(words: &[String]) -> Vec<String> {
    words.iter().map(|word| masked_word(&masked_override(word))).collect()
}

/// An override of `--set` (`command.env.NAME=VALUE`, perhaps with a leading `--set=`) with its
/// value masked.
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
            ("cpu".to_owned(), format!("{processor}, {cores}")),
            ("gpu".to_owned(), gpus),
        ]
    }
}

impl SourceFile {
    /// The role of files named by a command.
    pub const PROGRAM: &'static str = "program";
    /// The role of pretrained models' directories.
    pub const MODEL: &'static str = "model";
    /// The roles of the data's files, or folders or patterns of them.
    pub const DATA: [&'static str; 3] = ["train", "validation", Self::TEST];
    /// The role of the test split's file, which trials do not read.
    pub const TEST: &'static str = "test";
    /// The role of untracked source files; paths are relative to the repository.
    pub const UNTRACKED: &'static str = "untracked";

    /// Whether it is data or a pretrained model.
    pub fn is_data_or_model(&self) -> bool {
        self.role == SourceFile::MODEL || SourceFile::DATA.contains(&&*self.role)
    }

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
    fn the_job_of_an_agent_is_that_of_its_scheduler() {
        let job = |variables: &[(&str, &str)]| {
            let of = |name: &str| variables.iter().find(|(known, _)| *known == name);
            ClusterJob::of(|name| of(name).map(|(_, value)| (*value).to_owned()))
                .map(|job| job.in_words())
        };
        let slurm = [("SLURM_JOB_ID", "17"), ("HOSTNAME", "node7")];
        let array = [("SLURM_ARRAY_JOB_ID", "15"), ("SLURM_ARRAY_TASK_ID", "2")];
        assert_eq!(job(&slurm).as_deref(), Some("Slurm job 17"));
        assert_eq!(job(&[slurm, array].concat()).as_deref(), Some("Slurm job 15_2"));
        let pod = [("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("HOSTNAME", "hpsearch-x7")];
        assert_eq!(job(&pod).as_deref(), Some("Kubernetes pod hpsearch-x7"));
        assert_eq!(job(&[("PBS_JOBID", "9.server")]).as_deref(), Some("PBS job 9.server"));
        assert_eq!(job(&[("LSB_JOBID", "9")]).as_deref(), Some("LSF job 9"));
        assert_eq!(job(&[("HOSTNAME", "node7"), ("SLURM_JOB_ID", "")]), None);
    }

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
