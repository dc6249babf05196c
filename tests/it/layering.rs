//! The layers of the plan (the page in src/lib.rs) held against the sources: who may use whom, and
//! what a layer must not touch.
//!
//! The tables below are the plan; a permission that nobody uses is an error too, so that they stay
//! true. Code under `#[cfg(test)]` may do what it likes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The layers, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    /// 0: plain data.
    Study,
    /// 1: functions of it, and where it is kept.
    Algorithms,
    /// 2: the search.
    Engine,
    /// 3: processes, threads, files.
    Runner,
    /// 3': the child process; of what is below it sees the study and what it names as friends.
    Worker,
    /// 4: use cases, without a console.
    UseCases,
    /// 5: what people and programs call.
    Fronts,
}

use Layer::{Algorithms, Engine, Fronts, Runner, Study, UseCases, Worker};

/// A module at the root of the crate, its layer, and the modules it may use besides those of the
/// layers below: friends of its own layer; for the worker, everything but the study.
type Module = (&'static str, Layer, &'static [&'static str]);

const MODULES: &[Module] = &[
    ("study", Study, &[]),
    ("simd", Study, &[]),
    ("arguments", Algorithms, &[]),
    ("storage", Algorithms, &[]),
    ("analysis", Algorithms, &["arguments"]),
    ("samplers", Algorithms, &["analysis"]),
    // Its conformance suite draws points as the random sampler does.
    ("pruners", Algorithms, &["analysis", "samplers"]),
    ("config", Algorithms, &["arguments", "pruners", "samplers", "storage"]),
    ("engine", Engine, &[]),
    ("report", Runner, &[]),
    ("export", Runner, &["runner"]),
    ("runner", Runner, &["report"]),
    ("cluster", Runner, &["runner"]),
    ("tracking", Runner, &["report", "runner"]),
    ("trainer", Worker, &["arguments"]),
    ("worker", Worker, &["arguments", "runner", "storage", "trainer"]),
    ("app", UseCases, &[]),
    ("ask_tell", Fronts, &[]),
    ("tui", Fronts, &[]),
    ("server", Fronts, &[]),
    ("library", Fronts, &[]),
    // It starts the child side; nobody else sees it.
    ("cli", Fronts, &["ask_tell", "server", "tui", "worker"]),
];

/// Where outside crates may be used: module or file paths below src, without `.rs`. Crates of
/// `ANYWHERE` have no line.
const CRATES: &[(&str, &[&str])] = &[
    ("burn", &["trainer"]),
    ("burn_backend", &["trainer/device_kernels"]),
    ("burn_cubecl", &["trainer/device_kernels"]),
    ("cubek", &["trainer/device_kernels"]),
    ("tokenizers", &["trainer"]),
    // The products that burn-flex computes with, on slices: for fused operations.
    ("gemm", &["trainer/fused"]),
    ("rayon", &["trainer/fused"]),
    ("safetensors", &["trainer"]),
    ("saphyr_parser", &["app/sweep/yaml"]),
    ("memmap2", &["trainer"]),
    (
        "csv",
        &[
            "arguments/data_file",
            "cli/init",
            "cli/export_data",
            "cli/predict",
            "config/space_file",
            "tracking/import",
        ],
    ),
    // mallopt, in a training process.
    ("libc", &["trainer/allocator"]),
    ("rusqlite", &["storage"]),
    ("postgres", &["storage"]),
    // Terminals count the columns of a text in one way: tables for pipes count as the screens do.
    ("ratatui", &["tui", "report/wording", "cli/drawing"]),
    // The command line asks for the terminal's width; the screens take it through ratatui.
    ("crossterm", &["cli/console"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli/completions"]),
    ("clap_mangen", &["cli/man"]),
    ("sysinfo", &["runner/monitor"]),
    ("nvml_wrapper", &["runner/monitor"]),
    // The journal tells the time of day.
    ("jiff", &["cli", "tui", "tracking/sync/wandb", "app/study_report"]),
    // The screen notices a signal that ends the program, so that the terminal is put back first.
    ("nix", &["runner/signals"]),
    (
        "signal_hook",
        &["runner/signals", "cli/agent", "cli/output", "cli/run", "cli/foreground", "tui"],
    ),
    (
        "crossbeam_channel",
        &["cluster", "runner", "worker", "tracking/process", "cli/run", "cli/foreground", "server"],
    ),
    ("snow", &["cluster/frames"]),
    ("base64", &["cluster/transfer", "report/document/images"]),
    ("httparse", &["server/http"]),
    // Storage asks what file system a directory is on.
    (
        "rustix",
        &[
            "cli/console",
            "runner/processes",
            "worker",
            "runner/artifacts",
            "runner/copies",
            "runner/lease",
            "runner/lines",
            "runner/metric_files",
            "storage/disk",
            "storage/sqlite/filesystem",
            "storage/sqlite/files",
            "tui",
            // Its sockets are polled.
            "server",
            "cluster",
            "cli/agent",
            "cli/run",
            "cli/track",
            "cli/foreground",
            "cli/doctor",
            "export",
            "runner/provenance",
            "trainer/hub/cache",
            // The lock of a spool, by which its program is seen to live.
            "tracking/spool",
            // Files at a destination are opened without following a link or waiting for a pipe.
            "tracking/sync",
        ],
    ),
    ("ureq", &["trainer/hub/client", "runner/notifier/webhook", "tracking/mlflow"]),
    ("resvg", &["report/figure/png"]),
    ("buildid", &["runner/provenance"]),
    // Policies of pages name scripts by this digest.
    ("sha2", &["cluster/starter", "trainer/hub", "runner/artifacts", "report/document/html"]),
    (
        "toml",
        &["config", "report/wording", "export/recipe", "export/card", "cli/train", "cli/enqueue"],
    ),
    ("parquet", &["cli/export_data", "arguments/data_file/columns"]),
    ("bytes", &["arguments/data_file/columns"]),
    ("arrow_array", &["arguments/data_file/columns"]),
    ("arrow_ipc", &["arguments/data_file/columns"]),
    ("arrow_schema", &["arguments/data_file/columns"]),
    ("flate2", &["arguments/data_file/contents"]),
    ("ruzstd", &["arguments/data_file/contents"]),
    ("annotate_snippets", &["config/diagnostic"]),
    ("regex_lite", &["study/printed_metrics"]),
    ("strsim", &["study/suggestion"]),
    (
        "blake3",
        &[
            "cluster",
            "study/seed",
            "config/difference",
            "samplers/start",
            "arguments/data_file/folder",
            "trainer",
            "export",
            "runner/provenance",
            "runner/inputs",
            "runner/checkpoint_digest",
            "runner/checkpoint_recovery",
            "runner/untracked_sources",
            "tracking/sync/wandb",
            "tracking/sync/beside",
            // Tokens are compared by digests; assets are known by them.
            "server",
        ],
    ),
    ("tpe", &["samplers/tpe_independent"]),
    (
        "libm",
        &[
            "samplers/normal",
            "samplers/cmaes/evolution",
            "analysis/importance/ped_anova",
            "pruners/curve",
            "pruners/wilcoxon",
            "study/statistics",
        ],
    ),
    // Storage's suite makes journals at random, from fixed seeds.
    (
        "rand",
        &["study/seed", "analysis/importance", "samplers", "pruners/pbt", "storage/conformance"],
    ),
    ("rand_chacha", &["study/seed"]),
];

/// Plain data in and out, and errors.
const ANYWHERE: &[&str] = &["serde", "serde_json", "thiserror"];

/// The side effects that layers 0 to 2 do without, and the words that give them away; clocks,
/// threads and random numbers are clippy's (`.clippy.toml`).
const SIDE_EFFECTS: &[(&str, &[&str])] = &[
    ("runner/processes", &["std::process", "process::id("]),
    (
        "files",
        &[
            "std::fs",
            "fs::",
            "File::",
            ".exists()",
            ".is_file()",
            ".is_dir()",
            ".read_dir()",
            ".canonicalize()",
            "path::absolute",
        ],
    ),
    ("terminal", &["println!", "print!", "io::stdin", "io::stdout", "io::stderr", "IsTerminal"]),
    ("network", &["std::net"]),
];

/// The files of layers 0 to 2 that have side effects all the same; each file by its own name.
const EXCEPTIONS: &[(&str, &[&str])] = &[
    // It reads the study file, and makes its directory absolute.
    ("config", &["files"]),
    // Whether what the study file names is there: the working directory of a command, the files of
    // the data.
    ("config/command", &["files"]),
    // Whether what people name as a file is one.
    ("config/file", &["files"]),
    ("config/trainer", &["files"]),
    // Whether the messages on standard error may have colours.
    ("config/diagnostic", &["terminal"]),
    // A store is a file, and waits for one that another process is about to create.
    ("storage/sqlite", &["files"]),
    // The copy that is kept before a migration.
    ("storage/sqlite/backup", &["files"]),
    // Where the files lie that a network file system would damage.
    ("storage/sqlite/filesystem", &["files"]),
    // What lies at a path, and which of several a stored path leads to.
    ("storage/sqlite/at", &["files"]),
    ("storage/sql/located", &["files"]),
    ("storage/sqlite/place", &["files"]),
    // The address of a file is made absolute.
    ("storage/address", &["files"]),
    // The file of passwords of users of PostgreSQL.
    ("storage/postgres/login", &["files"]),
    // Locks belong to files, and to the process: which ones it has open, and whether they still are
    // where they were.
    ("storage/sqlite/files", &["files"]),
    // Whether others have written to a store that is read without its index.
    ("storage/sqlite/without_index", &["files"]),
    // Why a store cannot be written.
    ("storage/disk", &["files"]),
    // The log of a store is read beside SQLite, and put aside if it was damaged.
    ("storage/sqlite/log", &["files"]),
];

/// Modules above layer 2 that keep its rules: times come with what they are told, and they write
/// where they are told.
const AS_PURE: &[&str] = &["ask_tell", "report"];

/// What is left unsaid or unfinished, anywhere, tests included.
const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[allow", "#![allow"];

/// Names that say nothing about what a file is for.
const EMPTY_NAMES: &[&str] = &[
    "mod.rs",
    "utils.rs",
    "util.rs",
    "helpers.rs",
    "common.rs",
    "types.rs",
    "traits.rs",
    "imp.rs",
];

/// A source file: its path below src with `/`, its text, its code without tests, and the names of
/// its modules of tests.
struct Source {
    path: String,
    text: String,
    code: String,
    tests: Vec<String>,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        let (code, tests) = without_tests(&code(text));
        Source { path: path.to_owned(), text: text.to_owned(), code, tests }
    }

    /// The module of the crate it belongs to.
    fn module(&self) -> &str {
        self.path.split('/').next().unwrap_or_default().trim_end_matches(".rs")
    }

    /// How many modules it is below the crate: `src/a/b.rs` is two.
    fn depth(&self) -> usize {
        self.path.split('/').count()
    }

    /// Whether it is the file of the module at `path`, or below it.
    fn is_in(&self, path: &str) -> bool {
        self.path.strip_prefix(path).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }
}

/// All of them, each read once.
fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(read_sources);
    &SOURCES
}

fn read_sources() -> Vec<Source> {
    let mut found: Vec<Source> = rust_files("src")
        .iter()
        .filter_map(|(path, text)| as_of_one_package(path.strip_prefix("src/")?, text))
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The `.rs` files of a directory of the repository, each as its path and its text.
fn rust_files(directory: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut directories = vec![root.join(directory)];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("the sources can be listed") {
            let path: PathBuf = entry.expect("the sources can be listed").path();
            if path.is_dir() {
                // A benchmark of its own package may have been built in its place.
                directories.extend(Some(path).filter(|path| !path.ends_with("target")));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let below = path
                    .strip_prefix(root)
                    .ok()
                    .and_then(Path::to_str)
                    .expect("it was found below the root");
                let text = fs::read_to_string(&path).expect("a source can be read");
                found.push((below.to_owned(), text));
            }
        }
    }
    found
}

/// A file with the path and the names that it would have if the packages were one.
fn as_of_one_package(path: &str, text: &str) -> Option<Source> {
    match path.strip_prefix("core/") {
        Some("lib.rs") => None,
        Some(path) => Some(Source::new(path, text)),
        None if path.starts_with("trainer/") => {
            let text = text.replace("crate::", "crate::trainer::");
            let text = text.replace("hpsearch_core::", "crate::");
            Some(Source::new(&path.replace("trainer/lib.rs", "trainer.rs"), &text))
        }
        None => Some(Source::new(path, text)),
    }
}

/// The text with comments and the insides of strings as spaces: every character left is code, on
/// its line.
fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|char| if *char == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Where the comment or literal that begins at `at` ends; `at` itself, if none begins.
fn skipped(chars: &[char], at: usize) -> usize {
    if !matches!(chars[at], '/' | 'r' | '"' | '\'') {
        return at;
    }
    let starts = |from: usize, text: &str| {
        text.chars().enumerate().all(|(index, char)| chars.get(from + index) == Some(&char))
    };
    let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if starts(at, "//") {
        return (at..chars.len()).find(|index| chars[*index] == '\n').unwrap_or(chars.len());
    }
    if starts(at, "/*") {
        let (mut depth, mut index) = (0, at);
        while index < chars.len() {
            if starts(index, "/*") {
                (depth, index) = (depth + 1, index + 2);
            } else if starts(index, "*/") {
                (depth, index) = (depth - 1, index + 2);
                if depth == 0 {
                    return index;
                }
            } else {
                index += 1;
            }
        }
        return chars.len();
    }
    let hashes = if chars[at] == 'r' && !after_word {
        chars[at + 1..].iter().take_while(|char| **char == '#').count()
    } else {
        0
    };
    if chars[at] == 'r' && !after_word && chars.get(at + 1 + hashes) == Some(&'"') {
        let close: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
        let begin = at + hashes + 2;
        return (begin..chars.len())
            .find(|index| starts(*index, &close))
            .map_or(chars.len(), |index| index + 1 + hashes);
    }
    if chars[at] == '"' {
        return after_quote(chars, at + 1, '"');
    }
    // A lifetime has no closing quote: `'a,` against `'a'` and `'\n'`.
    if chars[at] == '\'' && (chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\'')) {
        return after_quote(chars, at + 1, '\'');
    }
    at
}

fn after_quote(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// The code without what stands under `#[cfg(test)]`, and the names of the modules that stand there
/// without a body.
fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let mut kept = code.to_owned();
    let mut modules = Vec::new();
    while let Some(begin) = kept.find(MARK) {
        let rest = &kept[begin..];
        let body = rest.find('{').unwrap_or(usize::MAX);
        let semicolon = rest.find(';').unwrap_or(rest.len() - 1);
        let end = if semicolon < body {
            let words: Vec<&str> = rest[MARK.len()..semicolon].split_whitespace().collect();
            if let [.., "mod", name] = words[..] {
                modules.push(name.to_owned());
            }
            semicolon + 1
        } else {
            after_braces(rest, body)
        };
        let blank: String =
            rest[..end].chars().map(|char| if char == '\n' { '\n' } else { ' ' }).collect();
        kept.replace_range(begin..begin + end, &blank);
    }
    (kept, modules)
}

/// The place after the brace that closes the one at `open`.
fn after_braces(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (index, char) in code.char_indices().skip_while(|(index, _)| *index < open) {
        match char {
            '{' => depth += 1,
            '}' if depth == 1 => return index + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// In how many modules with a body in this file the place lies.
fn enclosing_modules(code: &str, at: usize) -> usize {
    let begins = places(&code[..at], "mod ").filter(|begin| {
        code[*begin..].find(['{', ';']).is_some_and(|end| code[begin + end..].starts_with('{'))
    });
    begins
        .filter(|begin| {
            begin + after_braces(&code[*begin..], code[*begin..].find('{').unwrap_or(0)) > at
        })
        .count()
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// The places of `word` in `code` where no longer word holds it.
fn places<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let begins_word = word.starts_with(is_word);
    let ends_word = word.ends_with(is_word);
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let is_longer =
            begins_word && before.is_some_and(is_word) || ends_word && after.is_some_and(is_word);
        !is_longer
    })
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// The first names after `root::`, braces opened, with their places.
fn heads<'a>(code: &'a str, root: &'a str) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for at in places(code, root) {
        let begin = at + root.len();
        let rest = &code[begin..];
        if !rest.starts_with('{') {
            let end = rest.find(|char| !is_word(char)).unwrap_or(rest.len());
            found.push((at, &rest[..end]));
            continue;
        }
        let inside = &rest[1..after_braces(rest, 0) - 1];
        let (mut depth, mut start) = (0, 0);
        for (index, char) in inside.char_indices().chain([(inside.len(), ',')]) {
            match char {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    let item = inside[start..index].trim();
                    let end = item.find(|char| !is_word(char)).unwrap_or(item.len());
                    if end > 0 {
                        found.push((at, &item[..end]));
                    }
                    start = index + 1;
                }
                _ => {}
            }
        }
    }
    found
}

/// The names of the crates that the manifests give the packages, which are one here.
fn dependencies() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = ["Cargo.toml", "src/core/Cargo.toml", "src/trainer/Cargo.toml"].map(|manifest| {
        let text = fs::read_to_string(root.join(manifest)).expect("there is a manifest");
        let manifest: toml::Table = text.parse().expect("cargo has read the manifest");
        let dependencies = manifest["dependencies"].as_table().expect("the table of dependencies");
        dependencies.keys().map(|name| name.replace('-', "_")).collect::<Vec<_>>()
    });
    named.into_iter().flatten().filter(|name| !name.starts_with("hpsearch_")).collect()
}

/// What was used of the tables, so that what was not can be told.
#[derive(Default)]
struct Used {
    friends: BTreeSet<(String, String)>,
    homes: BTreeSet<(&'static str, &'static str)>,
    exceptions: BTreeSet<(&'static str, &'static str)>,
}

/// Everything that breaks the plan, as `file:line: what`.
fn violations(sources: &[Source], dependencies: &BTreeSet<String>) -> (Vec<String>, Used) {
    let tests: BTreeSet<String> = sources
        .iter()
        .flat_map(|source| {
            let path = source.path.trim_end_matches(".rs");
            source.tests.iter().map(move |module| format!("{path}/{module}"))
        })
        .collect();
    let mut found = Vec::new();
    let mut used = Used::default();
    for source in sources {
        let code = &source.code;
        check_form(source, &mut found);
        if tests.iter().any(|test| source.is_in(test)) {
            continue;
        }
        let mut say = |at: usize, what: String| {
            found.push(format!("src/{}:{}: {what}", source.path, line_of(code, at)))
        };
        check_crates(source, code, dependencies, &mut used, &mut say);
        match source.path.as_str() {
            // Declares the modules and hands on their names.
            "lib.rs" => {}
            "main.rs" => {
                for (at, head) in heads(code, "hpsearch::")
                    .into_iter()
                    .filter(|(_, head)| !["cli", "trainer"].contains(head))
                {
                    say(
                        at,
                        format!(
                            "the program uses `{head}`: everything is in `cli`, except the \
                             allocator of training processes"
                        ),
                    );
                }
            }
            _ => match MODULES.iter().find(|(name, ..)| *name == source.module()) {
                Some(module) => {
                    check_uses(source, code, *module, &mut used, &mut say);
                    check_side_effects(source, code, *module, &mut used, &mut say);
                }
                None => say(
                    0,
                    format!(
                        "module `{}` has no layer: give it a line in tests/it/layering.rs and in \
                         src/lib.rs",
                        source.module()
                    ),
                ),
            },
        }
    }
    (found, used)
}

/// Names and first lines of files, and what no file holds.
fn check_form(source: &Source, found: &mut Vec<String>) {
    let Source { path, text, .. } = source;
    let name = path.rsplit('/').next().unwrap_or_default();
    if EMPTY_NAMES.contains(&name) {
        found.push(format!("src/{path}: `{name}` says nothing: name the file by what is in it"));
    }
    let first = text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .take_while(|line| line.len() > 3)
        .collect::<Vec<_>>()
        .join(" ");
    if !first.ends_with(['.', ')', ':', '?']) || first.len() < 8 {
        found.push(format!(
            "src/{path}:1: a file starts with a sentence in `//!` that says what it is for"
        ));
    }
    let code = code(text);
    for word in UNFINISHED {
        found.extend(places(&code, word).map(|at| {
            format!(
                "src/{path}:{}: `{word}` (an exception is `#[expect(.., reason = ..)]`)",
                line_of(&code, at)
            )
        }));
    }
}

/// The columns of a line, as for rustfmt, which breaks neither comments nor texts nor most macros.
const COLUMNS: usize = 100;

/// Lines that are too wide. Raw texts of several lines do not count: a break would change them.
fn wide_lines(path: &str, text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let (mut counted, mut at) = (String::with_capacity(text.len()), 0);
    while at < chars.len() {
        let part = &chars[at..skipped(&chars, at).max(at + 1)];
        let is_fixed = part[0] == 'r' && part.contains(&'\n');
        counted.extend(part.iter().filter(|char| !is_fixed || **char == '\n'));
        at += part.len();
    }
    let wide = counted.lines().enumerate().filter(|(_, line)| line.chars().count() > COLUMNS);
    wide.map(|(index, _)| format!("{path}:{}: more than {COLUMNS} columns", index + 1)).collect()
}

#[test]
fn no_line_is_too_wide() {
    let build = ("build.rs".to_owned(), include_str!("../../build.rs").to_owned());
    let files = ["src", "tests", "benches"].into_iter().flat_map(rust_files).chain([build]);
    report(&files.flat_map(|(path, text)| wide_lines(&path, &text)).collect::<Vec<_>>());
    let (most, more) = ("é".repeat(97), "é".repeat(98));
    let planted =
        format!("// {most}\n// {more}\nf(r\"\n{most}{more}\n\", r\"{more}\");\n\"{more}.\"");
    let expected = [2, 5, 6].map(|line| format!("a.rs:{line}: more than 100 columns"));
    assert_eq!(wide_lines("a.rs", &planted), expected);
}

/// Outside crates in their homes only.
fn check_crates(
    source: &Source,
    code: &str,
    dependencies: &BTreeSet<String>,
    used: &mut Used,
    say: &mut impl FnMut(usize, String),
) {
    for dependency in dependencies.iter().filter(|name| !ANYWHERE.contains(&name.as_str())) {
        let path = format!("{dependency}::");
        // `crate::policy` and `self::toml` are ours, whatever they are called.
        let uses: Vec<usize> =
            places(code, &path).filter(|at| !code[..*at].ends_with("::")).collect();
        let Some(first) = uses.first() else { continue };
        let Some((name, homes)) = CRATES.iter().find(|(name, _)| name == dependency) else {
            say(
                *first,
                format!("crate `{dependency}` has no home: give it a line in tests/it/layering.rs"),
            );
            continue;
        };
        match homes.iter().find(|home| source.is_in(home)) {
            Some(home) => drop(used.homes.insert((name, home))),
            None => uses.iter().for_each(|at| {
                say(*at, format!("crate `{dependency}` is used in {} only", homes.join(", ")))
            }),
        }
    }
}

/// Modules below and friends only.
fn check_uses(
    source: &Source,
    code: &str,
    (name, layer, friends): Module,
    used: &mut Used,
    say: &mut impl FnMut(usize, String),
) {
    for at in places(code, "super::").filter(|at| !code[..*at].ends_with("super::")) {
        let climbs = code[at..].split("super::").take_while(|between| between.is_empty()).count();
        if climbs >= source.depth() + enclosing_modules(code, at) {
            say(at, "a path to another module begins with `crate::`".to_owned());
        }
    }
    for (at, head) in heads(code, "crate::").into_iter().filter(|(_, head)| *head != name) {
        let Some((_, other, _)) = MODULES.iter().find(|(module, ..)| *module == head) else {
            say(at, format!("`crate::{head}` is no module of the plan"));
            continue;
        };
        let below =
            if layer == Worker { *other == Study } else { *other < layer && *other != Worker };
        if below {
            continue;
        }
        if friends.contains(&head) {
            used.friends.insert((name.to_owned(), head.to_owned()));
        } else {
            say(at, format!("`{name}` ({layer:?}) must not use `{head}` ({other:?})"));
        }
    }
}

/// Clock, files, threads and the like where they belong only.
fn check_side_effects(
    source: &Source,
    code: &str,
    (name, layer, _): Module,
    used: &mut Used,
    say: &mut impl FnMut(usize, String),
) {
    if layer > Engine && !AS_PURE.contains(&name) {
        return;
    }
    for (kind, words) in SIDE_EFFECTS {
        let from_braces = heads(code, "std::")
            .into_iter()
            .filter(|(_, head)| words.contains(&format!("std::{head}").as_str()))
            .map(|(at, _)| at);
        let mut places: Vec<usize> =
            words.iter().flat_map(|word| places(code, word)).chain(from_braces).collect();
        places.sort_unstable();
        places.dedup();
        let Some(first) = places.first() else { continue };
        let exception = EXCEPTIONS.iter().find(|(path, kinds)| {
            source.path.strip_suffix(".rs") == Some(path) && kinds.contains(kind)
        });
        match exception {
            Some((path, _)) => drop(used.exceptions.insert((path, kind))),
            None => say(
                *first,
                format!(
                    "`{name}` ({layer:?}) touches the {kind}: it is handed in, or done in `runner`"
                ),
            ),
        }
    }
}

fn report(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "the plan (src/lib.rs, tests/it/layering.rs) is broken:\n  {}\n",
        problems.join("\n  ")
    );
}

#[test]
fn modules_use_the_layers_below_and_their_friends_only() {
    let (problems, _) = violations(sources(), &dependencies());
    report(&problems);
}

#[test]
fn the_tables_allow_nothing_that_nobody_uses() {
    let (_, used) = violations(sources(), &dependencies());
    let friends = MODULES
        .iter()
        .flat_map(|(name, _, friends)| friends.iter().map(move |friend| (*name, *friend)));
    let stale_friends = friends
        .filter(|(name, friend)| {
            !used.friends.contains(&((*name).to_owned(), (*friend).to_owned()))
        })
        .map(|(a, b)| format!("`{a}` uses `{b}`"));
    let homes =
        CRATES.iter().flat_map(|(name, homes)| homes.iter().map(move |home| (*name, *home)));
    let stale_homes = homes
        .filter(|home| !used.homes.contains(home))
        .map(|(name, home)| format!("`{name}` in src/{home}"));
    let exceptions =
        EXCEPTIONS.iter().flat_map(|(path, kinds)| kinds.iter().map(move |kind| (*path, *kind)));
    let stale_exceptions = exceptions
        .filter(|line| !used.exceptions.contains(line))
        .map(|(path, kind)| format!("src/{path} and the {kind}"));
    report(
        &stale_friends
            .chain(stale_homes)
            .chain(stale_exceptions)
            .map(|line| format!("no longer used: {line}"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn friends_use_each_other_in_one_direction() {
    // Kahn's order: what uses nothing that is left is taken away, until nothing is left.
    let mut left: Vec<Module> = MODULES.to_vec();
    loop {
        let names: BTreeSet<&str> = left.iter().map(|(name, ..)| *name).collect();
        let before = left.len();
        left.retain(|(_, _, friends)| friends.iter().any(|friend| names.contains(friend)));
        if left.len() == before {
            break;
        }
    }
    report(
        &left
            .iter()
            .map(|(name, ..)| format!("`{name}` is in a circle of friends"))
            .collect::<Vec<_>>(),
    );
}

/// Files that still use each other both ways; the list only gets shorter.
const CIRCLES: &[&[&str]] = &[];

/// The module of a file: `engine::tell` of `engine/tell.rs`.
fn module_path(source: &Source) -> String {
    source.path.trim_end_matches(".rs").replace('/', "::")
}

/// All paths in a `use` tree: `a::{b, c::{d, e}}` has `a::b`, `a::c::d` and `a::c::e`.
fn leaves(before: &str, tree: &str, out: &mut Vec<String>) {
    let (mut depth, mut start) = (0, 0);
    for (index, char) in tree.char_indices().chain([(tree.len(), ',')]) {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let item = tree[start..index].trim();
                match item.find('{') {
                    Some(open) => leaves(
                        &format!("{before}{}", &item[..open]),
                        &item[open + 1..item.len() - 1],
                        out,
                    ),
                    None if item.is_empty() => {}
                    None => out.push(format!(
                        "{before}{}",
                        item.split(" as ").next().unwrap_or(item).trim()
                    )),
                }
                start = index + 1;
            }
            _ => {}
        }
    }
}

/// Every path that a file names, with whether it stands in a `pub use`.
fn paths_of(code: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for at in places(code, "use ") {
        let rest = &code[at + "use ".len()..];
        let Some(end) = rest.find(';') else { continue };
        let line = code[..at].rfind('\n').map_or(0, |line| line + 1);
        let mut trees = Vec::new();
        leaves("", &rest[..end], &mut trees);
        found.extend(
            trees.into_iter().map(|tree| (tree, code[line..at].trim_start().starts_with("pub"))),
        );
    }
    let words =
        code.split(|char: char| !is_word(char) && char != ':').filter(|word| word.contains("::"));
    found.extend(words.map(|word| (word.trim_matches(':').to_owned(), false)));
    found
}

/// The path from the crate's root of what `path` names in `module`, if it is of this crate.
fn from_root(module: &str, path: &str, files: &BTreeSet<String>) -> Option<Vec<String>> {
    let own: Vec<&str> = module.split("::").collect();
    let named: Vec<&str> = path.split("::").collect();
    let whole = match named[0] {
        "crate" => named[1..].to_vec(),
        "self" => [&own[..], &named[1..]].concat(),
        "super" => {
            let climbs = named.iter().take_while(|word| **word == "super").count();
            [own.get(..own.len().checked_sub(climbs)?)?, &named[climbs..]].concat()
        }
        child if files.contains(&format!("{module}::{child}")) => [&own[..], &named[..]].concat(),
        _ => return None,
    };
    Some(whole.into_iter().map(str::to_owned).collect())
}

/// Which file uses which: names that a room hands on are those of the file that has them, and what
/// a file takes from the file of its own room is no use of it.
fn uses_of_files(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let stripped: Vec<(String, &str, &[String])> = sources
        .iter()
        .map(|source| (module_path(source), source.code.as_str(), source.tests.as_slice()))
        .collect();
    let tests: BTreeSet<String> = stripped
        .iter()
        .flat_map(|(module, _, tests)| tests.iter().map(move |test| format!("{module}::{test}")))
        .collect();
    let is_test = |module: &str| {
        tests.iter().any(|test| module == test || module.starts_with(&format!("{test}::")))
    };
    let files: BTreeSet<String> = stripped.iter().map(|(module, ..)| module.clone()).collect();
    let longest = |path: &[String]| {
        (1..=path.len())
            .rev()
            .map(|length| path[..length].join("::"))
            .find(|file| files.contains(file))
    };
    let mut handed_on = BTreeMap::new();
    for (module, code, _) in &stripped {
        for path in paths_of(code)
            .into_iter()
            .filter(|(_, public)| *public)
            .filter_map(|(path, _)| from_root(module, &path, &files))
        {
            if let (Some(home), Some(name)) = (longest(&path), path.last()) {
                handed_on.insert(format!("{module}::{name}"), home);
            }
        }
    }
    let mut uses = BTreeMap::new();
    for (module, code, _) in stripped
        .iter()
        .filter(|(module, ..)| !["lib", "main"].contains(&module.as_str()) && !is_test(module))
    {
        let homes = paths_of(code)
            .into_iter()
            .filter_map(|(path, _)| from_root(module, &path, &files))
            .filter_map(|path| {
                let named = (1..=path.len()).rev().map(|length| path[..length].join("::"));
                named.into_iter().find_map(|name| {
                    handed_on
                        .get(&name)
                        .cloned()
                        .filter(|_| !files.contains(&name))
                        .or_else(|| files.contains(&name).then_some(name))
                })
            });
        let others = homes
            .filter(|home| home != module && !module.starts_with(&format!("{home}::")))
            .collect();
        uses.insert(module.clone(), others);
    }
    uses
}

/// The verbs: what `dispatch` in the command line calls.
fn verbs(sources: &[Source]) -> BTreeSet<String> {
    let cli =
        sources.iter().find(|source| source.path == "cli.rs").expect("there is a command line");
    let (_, dispatch) = cli.text.split_once("fn dispatch(").expect("it calls its verbs");
    let body = dispatch.split("\n}\n").next().unwrap_or_default();
    let called = body.split(|char: char| !is_word(char) && char != ':');
    called
        .filter_map(|word| word.split_once("::").filter(|(verb, _)| !verb.is_empty()))
        .filter(|(verb, _)| verb.starts_with(char::is_lowercase))
        .map(|(verb, _)| format!("cli::{verb}"))
        .collect()
}

/// Files of the command line that use a verb which they are no part of: what two verbs do is in
/// `app`, what they print in a file that is no verb.
fn uses_of_other_verbs(sources: &[Source]) -> Vec<String> {
    let verbs = verbs(sources);
    let verb_of = |file: &str| {
        verbs
            .iter()
            .find(|verb| file == **verb || file.starts_with(&format!("{verb}::")))
            .map(String::as_str)
    };
    let uses = uses_of_files(sources);
    let of_the_command_line = uses.iter().filter(|(file, _)| file.starts_with("cli::"));
    of_the_command_line
        .flat_map(|(file, used)| used.iter().map(move |used| (file, used)))
        .filter(|(file, used)| verb_of(used).is_some_and(|verb| verb_of(file) != Some(verb)))
        .map(|(file, used)| format!("`{file}` uses `{used}`, which is another verb's"))
        .collect()
}

#[test]
fn no_verb_uses_another_verbs_file() {
    report(&uses_of_other_verbs(sources()));
    let planted = [
        Source::new(
            "cli.rs",
            "//! .\nmod ls;\nmod run;\nmod shared;\n\
             fn dispatch() {\n    ls::ls();\n    run::run()\n}\n",
        ),
        Source::new("cli/ls.rs", "//! .\nuse super::shared::say;\n"),
        Source::new("cli/run.rs", "//! .\nuse super::ls::columns;\n"),
        Source::new("cli/run/part.rs", "//! .\nuse crate::cli::run::go;\n"),
        Source::new("cli/shared.rs", "//! .\nuse super::run::go;\n"),
    ];
    assert_eq!(
        uses_of_other_verbs(&planted),
        [
            "`cli::run` uses `cli::ls`, which is another verb's",
            "`cli::shared` uses `cli::run`, which is another verb's"
        ]
    );
}

/// What `from` reaches.
fn reached(uses: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(module) = next.pop() {
        for used in uses.get(&module).into_iter().flatten() {
            if found.insert(used.clone()) {
                next.push(used.clone());
            }
        }
    }
    found
}

#[test]
fn files_use_each_other_in_one_direction() {
    let uses = uses_of_files(sources());
    let reach: BTreeMap<&String, BTreeSet<String>> =
        uses.keys().map(|file| (file, reached(&uses, file))).collect();
    let circles: BTreeSet<Vec<&str>> = reach
        .iter()
        .filter(|(file, reached)| reached.contains(**file))
        .map(|(file, reached)| {
            reached
                .iter()
                .filter(|other| reach.get(other).is_some_and(|back| back.contains(*file)))
                .map(String::as_str)
                .collect()
        })
        .collect();
    let known: BTreeSet<Vec<&str>> = CIRCLES.iter().map(|circle| circle.to_vec()).collect();
    report(
        &circles
            .difference(&known)
            .map(|circle| format!("files in a circle: {}", circle.join(", ")))
            .collect::<Vec<_>>(),
    );
    report(
        &known
            .difference(&circles)
            .map(|circle| format!("no circle any more: {}", circle.join(", ")))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn a_circle_of_files_is_found() {
    let planted = [
        Source::new(
            "room.rs",
            "//! .\npub mod a;\npub mod b;\npub use a::Thing;\npub struct Own;\n",
        ),
        Source::new("room/a.rs", "//! .\nuse super::{Own, b::{self, Other}};\npub struct Thing;\n"),
        Source::new("room/b.rs", "//! .\nuse crate::room::Thing;\npub struct Other;\n"),
        Source::new(
            "room/c.rs",
            "//! .\nuse super::Own;\n#[cfg(test)]\nmod tests { use crate::room::c; }\n",
        ),
    ];
    let uses = uses_of_files(&planted);
    assert_eq!(
        reached(&uses, "room::a"),
        BTreeSet::from(["room::a".to_owned(), "room::b".to_owned()])
    );
    assert_eq!(reached(&uses, "room::c"), BTreeSet::new());
}

#[test]
fn every_module_of_the_plan_exists_and_is_on_its_page() {
    let sources = sources();
    let page = &sources.iter().find(|source| source.path == "lib.rs").unwrap().text;
    let absent =
        MODULES.iter().filter(|(name, ..)| !sources.iter().any(|source| source.module() == *name));
    let unsaid = MODULES.iter().filter(|(name, ..)| {
        !page.lines().any(|line| line.starts_with("//! |") && line.contains(&format!("[`{name}`]")))
    });
    let absent = absent.map(|(name, ..)| format!("there is no module `{name}`"));
    report(
        &absent
            .chain(unsaid.map(|(name, ..)| format!("src/lib.rs has no line for `{name}`")))
            .collect::<Vec<_>>(),
    );
}

/// What is said about one file with this text.
fn said_about(path: &str, text: &str) -> Vec<String> {
    let dependencies = ["burn", "clap", "rusqlite", "fancy"].map(str::to_owned).into();
    violations(&[Source::new(path, &format!("//! A file for this test.\n{text}"))], &dependencies).0
}

#[test]
fn planted_violations_are_found() {
    let planted = [
        (
            "engine.rs",
            "use crate::runner::Runner;",
            "`engine` (Engine) must not use `runner` (Runner)",
        ),
        (
            "samplers/new.rs",
            "use crate::{study::space::Space, engine::{self, Input}};",
            "must not use `engine`",
        ),
        (
            "analysis/new.rs",
            "use crate::samplers::Sampler;",
            "`analysis` (Algorithms) must not use `samplers` (Algorithms)",
        ),
        (
            "trainer/new.rs",
            "fn f() { crate::study::f() }\nuse crate::storage::Storage;",
            "src/trainer/new.rs:3: `trainer` (Worker) must not use `storage`",
        ),
        ("runner/new.rs", "use crate::cli::Console;", "must not use `cli`"),
        ("tui/new.rs", "use crate::worker::serve;", "must not use `worker`"),
        ("engine/new.rs", "use super::super::runner;", "begins with `crate::`"),
        ("engine.rs", "mod inner { use super::super::runner; }", "begins with `crate::`"),
        ("wholly_new.rs", "", "has no layer"),
        ("main.rs", "use hpsearch::engine::Engine;", "the program uses `engine`"),
        ("worker.rs", "use burn::tensor::Tensor;", "crate `burn` is used in trainer only"),
        (
            "cli/run.rs",
            "fn f(error: rusqlite::Error) {}",
            "crate `rusqlite` is used in storage only",
        ),
        ("cli/run.rs", "use fancy::Thing;", "crate `fancy` has no home"),
        ("study/space.rs", "fn f(path: &Path) -> bool { path.exists() }", "touches the files"),
        ("report/new.rs", "fn f() { println!(\"x\") }", "touches the terminal"),
        ("cli/utils.rs", "", "says nothing"),
        ("cli/new.rs", "#[allow(dead_code)] fn f() { todo!() }", "`#[allow`"),
        ("cli/new.rs", "#[cfg(test)] mod tests { fn f() { todo!() } }", "`todo!`"),
    ];
    for (path, text, expected) in planted {
        let said = said_about(path, text);
        assert!(said.iter().any(|line| line.contains(expected)), "{path}: {text}: {said:?}");
    }
    let bare = violations(&[Source::new("cli/new.rs", "use std::fmt;\n")], &BTreeSet::new()).0;
    assert_eq!(
        bare,
        ["src/cli/new.rs:1: a file starts with a sentence in `//!` that says what it is for"]
    );
}

#[test]
fn comments_strings_and_tests_are_no_code() {
    let innocent = [
        (
            "engine.rs",
            "/// See [`crate::runner::Runner`].\nfn f() -> &'static str { \"crate::cli::main, \
             std::fs\" }",
        ),
        (
            "engine.rs",
            "fn f<'a>(x: &'a str) -> char { let r = r#\"std::fs \" \"#; /* crate::cli /* */ \
             std::fs */ '\"' }",
        ),
        (
            "engine.rs",
            "#[cfg(test)]\nmod tests {\n    use crate::runner::now;\n    fn f() { if true { \
             std::fs::read(\"{\"); } }\n}\nfn g() {}",
        ),
        (
            "engine/ask.rs",
            "use super::{Effect, Engine};\nuse crate::study::{history::History, params::Params};",
        ),
        ("engine.rs", "mod inner { use super::Engine; }"),
        ("worker/new.rs", "use crate::trainer::Host;\nuse crate::study::metric::Metrics;"),
    ];
    for (path, text) in innocent {
        assert_eq!(said_about(path, text), Vec::<String>::new(), "{text}");
    }
    let with_tests = [
        Source::new("engine.rs", "//! A file for this test.\n#[cfg(test)]\nmod tests;\n"),
        Source::new("engine/tests.rs", "//! A file for this test.\nuse crate::runner::now;\n"),
    ];
    assert_eq!(violations(&with_tests, &BTreeSet::new()).0, Vec::<String>::new());
}

/// `.ci/run` runs again, with other features, the tests that these features change.
#[test]
fn the_gate_names_the_tests_that_depend_on_features() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let gate = fs::read_to_string(root.join(".ci/run")).unwrap();
    let (_, list) = gate.split_once("\nchanged=(").unwrap();
    let named: BTreeSet<&str> = list.split_once(')').unwrap().0.split(' ').collect();
    let depends = |text: &str| {
        ["mlflow", "parquet", "arrow", "webhook", "postgres"]
            .iter()
            .map(|name| format!("feature = \"{name}\""))
            .chain(["not(feature = \"train\")".to_owned()])
            .any(|condition| text.contains(&condition))
    };
    let tests = root.join("tests/it");
    let main = fs::read_to_string(tests.join("main.rs")).unwrap();
    let lines: Vec<&str> = main.lines().collect();
    let module = |line: &&str| Some((*line).strip_prefix("mod ")?.strip_suffix(';')?.to_owned());
    let all: BTreeSet<String> = lines.iter().filter_map(module).collect();
    let with_feature = lines.windows(2).filter(|pair| depends(pair[0]));
    let mut needed: BTreeSet<String> = with_feature.filter_map(|pair| module(&pair[1])).collect();
    for (path, text) in crate::harness::files_below(&tests) {
        let below = path.strip_prefix(&tests).unwrap().with_extension("");
        let of = below.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        if of != "layering" && all.contains(&of) && depends(&String::from_utf8_lossy(&text)) {
            needed.insert(of);
        }
    }
    let lacking: Vec<_> = needed.iter().filter(|name| !named.contains(name.as_str())).collect();
    assert!(lacking.is_empty(), "`changed` in .ci/run lacks {lacking:?}");
    let gone: Vec<_> = named.iter().filter(|name| !all.contains(**name)).collect();
    assert!(gone.is_empty(), "`changed` in .ci/run names {gone:?}, which are no tests");
}
