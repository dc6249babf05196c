//! Collects the provenance of a run: code, command line, program, machine, files.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use crate::runner::inputs;
use crate::runner::monitor;
use crate::runner::processes::own_program;
use crate::runner::python_packages::{self, Interpreter};
use crate::runner::untracked_sources;
use crate::runner::{processes, threads};
use crate::study::program::Program;
use crate::study::provenance::{
    AgentProvenance, Build, Changes, ClusterJob, Code, GpuKind, Machine, Masked, Packages,
    Provenance, SourceFile, Variable, masked_command,
};
use crate::study::spec::StudySpec;

/// Most bytes kept of the diff to the commit.
pub const MOST_CHANGES: usize = 256 * 1024;
/// Most untracked files and directories listed.
const MOST_UNTRACKED: usize = 20;
/// Time limit for all git commands together.
const PATIENCE: Duration = Duration::from_secs(5);

/// The provenance of a run, and the documents it refers to by digest.
#[derive(Clone, Debug)]
pub struct CollectedProvenance {
    /// The provenance.
    pub provenance: Provenance,
    /// The documents by digest: diff, packages, untracked source files.
    pub documents: Vec<(String, String)>,
}

/// A Python program that describes its own interpreter.
#[derive(Clone, Copy, Debug)]
pub struct PythonProgram<'a> {
    /// The interpreter.
    pub interpreter: &'a Path,
    /// Its package directories.
    pub sites: &'a [PathBuf],
}

/// Collects the provenance of a run of `spec`, started by `command`. `inputs` are the files that
/// its trials read, `prepared` is the directory of its prepared data, `salt` the store's.
pub fn look_around(
    spec: &StudySpec,
    inputs: Vec<SourceFile>,
    command: Vec<OsString>,
    prepared: Option<&Path>,
    salt: &str,
) -> CollectedProvenance {
    look_around_python(spec, inputs, command, prepared, salt, None)
}

/// The same for a running program; `python` is its own description.
pub fn look_around_python(
    spec: &StudySpec,
    inputs: Vec<SourceFile>,
    command: Vec<OsString>,
    prepared: Option<&Path>,
    salt: &str,
    python: Option<PythonProgram<'_>>,
) -> CollectedProvenance {
    let directory = match &spec.program {
        Program::Command { cwd, .. } => cwd.clone(),
        Program::Trainer { .. } | Program::Inline => std::env::current_dir().unwrap_or_default(),
    };
    let masked = Masked::new(variables(spec));
    let (code, changes) = code_in(&directory, &masked);
    let mut documents: Vec<(String, String)> = Vec::new();
    if let (Code::Commit { changes: Some(known), .. }, Some(text)) = (&code, changes) {
        documents.push((known.digest.clone(), text));
    }
    let mut files = inputs;
    let tokenizer = prepared.map(|prepared| prepared.join("tokenizer.json"));
    let tokenizer = tokenizer.filter(|path| path.is_file());
    files.extend(tokenizer.map(|path| inputs::described("tokenizer", &path)));
    if matches!(code, Code::Commit { .. }) {
        for (file, text) in untracked_in(&directory, &masked) {
            documents.extend(file.digest.clone().zip(text));
            files.push(file);
        }
    }
    let packages = packages_of(spec, &directory, python).map(|(packages, list)| {
        documents.push((packages.digest.clone(), list));
        packages
    });
    let provenance = Provenance {
        command: masked_command(&command.into_iter().map(as_text).collect::<Vec<_>>()),
        directory: as_text(match python {
            Some(_) => directory.clone().into_os_string(),
            None => std::env::current_dir().unwrap_or_default().into_os_string(),
        }),
        code,
        hpsearch: own_program_build(),
        machine: machine_of(seen()),
        files,
        packages,
        environment: environment(spec, salt),
    };
    CollectedProvenance { provenance, documents }
}

/// The packages of the command's interpreter, and their list.
fn packages_of(
    spec: &StudySpec,
    directory: &Path,
    python: Option<PythonProgram<'_>>,
) -> Option<(Packages, String)> {
    let found = match (python, &spec.program) {
        (Some(PythonProgram { interpreter, sites }), _) => {
            let sites = sites.iter().map(|site| directory.join(site)).collect();
            Interpreter { path: interpreter.to_owned(), sites }
        }
        (None, Program::Command { run, env, .. }) => {
            let of_study = |name: &str| env.get(name)?.get().map(str::to_owned);
            let variable = |name: &str| of_study(name).or_else(|| std::env::var(name).ok());
            python_packages::of_command(run, directory, &variable)?
        }
        (None, Program::Trainer { .. } | Program::Inline) => return None,
    };
    let packages = found.packages();
    let list: String = packages.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    let packages = Packages {
        interpreter: as_text(found.path.into_os_string()),
        count: packages.len() as u64,
        digest: blake3::hash(list.as_bytes()).to_hex().to_string(),
    };
    Some((packages, list))
}

/// The untracked source files below a directory; paths are relative to the repository.
fn untracked_in(directory: &Path, masked: &Masked<'_>) -> Vec<untracked_sources::Source> {
    let until = Instant::now() + PATIENCE;
    let ask = |words: &[&str], most: usize| Git::ask(directory, words, most, until);
    let root = ask(&["rev-parse", "--show-toplevel"], 4096);
    let words = ["ls-files", "--others", "--exclude-standard", "--full-name", "-z"];
    let paths = ask(&words, 1024 * 1024);
    let Ok(root) = root.and_then(Git::answer) else { return Vec::new() };
    let Ok(paths) = paths.and_then(Git::answer) else { return Vec::new() };
    let root = PathBuf::from(root.text.trim_end_matches('\n'));
    let end = paths.text.rfind('\0').unwrap_or(0);
    let paths = paths.text[..end].split('\0').filter(|path| !path.is_empty());
    untracked_sources::of_paths(&root, paths, masked)
}

/// An argument as text; quoted, with invalid bytes as `\xFF`, if it is not UTF-8.
fn as_text(word: OsString) -> String {
    word.into_string().unwrap_or_else(|word| format!("{word:?}"))
}

/// The variables of `[command] env` whose values are known.
fn variables(spec: &StudySpec) -> impl Iterator<Item = (&str, &str)> {
    let env = match &spec.program {
        Program::Command { env, .. } => Some(env),
        Program::Trainer { .. } | Program::Inline => None,
    };
    env.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), value.get()?)))
}

/// The variables of `[command] env` with salted digests of their values.
pub fn environment(spec: &StudySpec, salt: &str) -> Vec<Variable> {
    let digest = |name: &str, value: &str| {
        blake3::hash(format!("{salt}\0{name}\0{value}").as_bytes()).to_hex().to_string()
    };
    variables(spec)
        .map(|(name, value)| Variable { name: name.to_owned(), digest: digest(name, value) })
        .collect()
}

/// The provenance of an agent of this process.
pub fn of_agent() -> AgentProvenance {
    let seen = seen();
    let memory = seen.cpu.memory.total;
    AgentProvenance {
        machine: machine_of(seen),
        memory: (memory > 0).then_some(memory),
        hpsearch: own_program_build(),
        job: ClusterJob::of(|name| std::env::var(name).ok()),
    }
}

fn own_program_build() -> Build {
    Build { version: env!("CARGO_PKG_VERSION").to_owned(), digest: own_build() }
}

fn seen() -> monitor::MachineSample {
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    monitor::glance(visible.as_deref())
}

fn machine_of(seen: monitor::MachineSample) -> Machine {
    let uname = rustix::system::uname();
    let word = |word: &std::ffi::CStr| word.to_string_lossy().into_owned();
    Machine {
        host: processes::host(),
        system: [uname.sysname(), uname.release(), uname.machine()].map(word).join(" "),
        processor: seen.cpu.name,
        cores: seen.cpu.cores as u64,
        gpus: seen
            .gpus
            .unwrap_or_default()
            .into_iter()
            .map(|gpu| GpuKind { name: gpu.name, driver: gpu.driver })
            .collect(),
    }
}

/// The state of a directory according to git. Read-only: no hooks, helpers, locks or prompts.
fn code_in(directory: &Path, masked: &Masked<'_>) -> (Code, Option<String>) {
    let until = Instant::now() + PATIENCE;
    // All at once: each is mostly the start of a program.
    let ask = |words: &[&str], most: usize| Git::ask(directory, words, most, until);
    let commit = ask(&["rev-parse", "--verify", "HEAD"], 4096);
    let branch = ask(&["symbolic-ref", "--quiet", "--short", "HEAD"], 4096);
    let difference = ask(
        &["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short", "HEAD"],
        MOST_CHANGES,
    );
    let untracked = ask(
        &["ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory"],
        64 * 1024,
    );
    let commit = match commit.and_then(Git::answer) {
        Ok(answer) => answer.text.trim().to_owned(),
        Err(why) => return (Code::Unknown(why), None),
    };
    let branch = branch.and_then(Git::answer).ok();
    let branch = branch.map(|answer| answer.text.trim().to_owned());
    let difference = match difference.and_then(Git::answer) {
        Ok(GitOutput { text, cut }) => GitOutput { text: masked.text(&text), cut },
        Err(why) => return (Code::Unknown(format!("{why} (commit {commit})")), None),
    };
    let untracked = untracked.and_then(Git::answer).map(|answer| answer.text).unwrap_or_default();
    let changes = (!difference.text.is_empty()).then(|| Changes {
        digest: blake3::hash(difference.text.as_bytes()).to_hex().to_string(),
        bytes: difference.text.len() as u64,
        cut: difference.cut,
        files: difference.text.lines().filter(|line| line.starts_with("diff --git ")).count()
            as u64,
    });
    let untracked = untracked.lines().take(MOST_UNTRACKED).map(str::to_owned).collect();
    let text = changes.as_ref().map(|_| difference.text);
    (Code::Commit { commit, branch, changes, untracked }, text)
}

struct GitOutput {
    text: String,
    cut: bool,
}

/// A git command that was started.
struct Git {
    child: Child,
    output: Receiver<Option<Vec<u8>>>,
    most: usize,
    until: Instant,
}

impl Git {
    /// Starts a git command; else why it cannot be started.
    fn ask(directory: &Path, words: &[&str], most: usize, until: Instant) -> Result<Self, String> {
        let mut command = Command::new("git");
        for setting in ["core.fsmonitor=false", "core.hooksPath=/dev/null", "core.quotePath=false"]
        {
            command.args(["-c", setting]);
        }
        command
            .args(words)
            .current_dir(directory)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "there is no git here".to_owned(),
            _ => format!("git cannot be started: {error}"),
        })?;
        let stdout = child.stdout.take();
        let (tx, output) = crossbeam_channel::bounded(1);
        // Without a thread nothing is read, and git is killed below.
        let _unread = threads::spawn("git", move || {
            let mut bytes = Vec::new();
            let read = stdout.map(|stdout| stdout.take(most as u64 + 1).read_to_end(&mut bytes));
            // The receiver may have timed out.
            let _gone = tx.send(read.is_some_and(|read| read.is_ok()).then_some(bytes));
        });
        Ok(Git { child, output, most, until })
    }

    /// Its output, limited in size; else why there is none.
    fn answer(mut self) -> Result<GitOutput, String> {
        let left = self.until.saturating_duration_since(Instant::now());
        let bytes = self.output.recv_timeout(left).ok().flatten();
        let is_whole = bytes.as_ref().is_some_and(|bytes| bytes.len() <= self.most);
        if !is_whole {
            processes::kill(self.child.id());
        }
        let status =
            self.child.wait().map_err(|error| format!("git cannot be waited for: {error}"))?;
        let mut bytes =
            bytes.ok_or_else(|| format!("git did not answer within {} s", PATIENCE.as_secs()))?;
        if is_whole && !status.success() {
            return Err("it is not in a git repository with a commit".to_owned());
        }
        bytes.truncate(self.most);
        Ok(GitOutput { text: String::from_utf8_lossy(&bytes).into_owned(), cut: !is_whole })
    }
}

impl Drop for Git {
    /// Ends a command whose answer is not wanted any more.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            processes::kill(self.child.id());
            let _reaped = self.child.wait();
        }
    }
}

/// Which build of hpsearch this is, hexadecimal: the linker's build id, which differs whenever the
/// code does; without one, the digest of the program's file, which takes longer.
fn own_build() -> Option<String> {
    let by_linker = buildid::build_id().filter(|id| id.len() >= 8);
    by_linker
        .map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect())
        .or_else(|| Some(inputs::file_digest(&own_program()).ok()?.to_hex().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_git(directory: &Path, words: &[&str]) {
        let status = Command::new("git")
            .current_dir(directory)
            .args(["-c", "user.name=n", "-c", "user.email=e@x"])
            .args(words)
            .output()
            .unwrap();
        assert!(status.status.success(), "{words:?}: {}", String::from_utf8_lossy(&status.stderr));
    }

    fn commits_in(directory: &Path) -> (String, Option<Changes>, Vec<String>, Option<String>) {
        match code_in(directory, &Masked::default()) {
            (Code::Commit { commit, changes, untracked, .. }, text) => {
                (commit, changes, untracked, text)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_directory_outside_of_a_repository_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let (code, text) = code_in(directory.path(), &Masked::default());
        let Code::Unknown(why) = code else { panic!("{code:?}") };
        assert!(why.contains("git"), "{why}");
        assert_eq!(text, None);
    }

    #[test]
    fn commit_changes_and_unknown_files_are_found_and_long_changes_are_cut() {
        if Command::new("git").arg("--version").output().is_err() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        run_git(path, &["init", "--quiet"]);
        std::fs::write(path.join("train.py"), "one\n").unwrap();
        run_git(path, &["add", "train.py"]);
        run_git(path, &["commit", "--quiet", "-m", "first"]);
        let (commit, changes, untracked, text) = commits_in(path);
        assert_eq!((commit.len(), changes, untracked.len(), text), (40, None, 0, None));
        std::fs::write(path.join("train.py"), "two\n").unwrap();
        std::fs::write(path.join("new.py"), "secret\n").unwrap();
        std::fs::create_dir(path.join("runs")).unwrap();
        for number in 0..30 {
            std::fs::write(path.join(format!("runs/{number}.log")), "").unwrap();
        }
        let (again, changes, untracked, text) = commits_in(path);
        let (changes, text) = (changes.unwrap(), text.unwrap());
        assert_eq!((again, untracked), (commit, vec!["new.py".to_owned(), "runs/".to_owned()]));
        assert!(text.contains("+two") && !text.contains("secret"), "{text}");
        assert_eq!((changes.files, changes.cut, changes.bytes), (1, false, text.len() as u64));
        assert_eq!(changes.digest, blake3::hash(text.as_bytes()).to_hex().to_string());
        std::fs::write(path.join("train.py"), "a long line of code\n".repeat(MOST_CHANGES / 10))
            .unwrap();
        let (_, changes, _, text) = commits_in(path);
        assert_eq!((changes.unwrap().cut, text.unwrap().len()), (true, MOST_CHANGES));
    }
}
