//! The layers of the plan (the page in src/lib.rs) held against the sources: who may use whom, and
//! what a layer must not touch. The packages hold the rest: the core sees nothing that is above it,
//! and the trainer only the core.
//!
//! The tables below are the plan; a permission that nothing uses is an error too, so that they stay
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

/// The crates of a seam, and where they may be used: module or file paths below src, without `.rs`.
const CRATES: &[(&str, &[&str])] = &[
    ("rusqlite", &["storage"]),
    ("postgres", &["storage"]),
    ("clap", &["cli"]),
    // Terminals count the columns of a text in one way: tables for pipes count as the screens do.
    ("ratatui", &["tui", "report/wording", "cli/drawing"]),
    // The command line asks for the terminal's width; the screens take it through ratatui.
    ("crossterm", &["cli/console"]),
    ("ureq", &["trainer/hub/client", "runner/notifier/webhook", "tracking/mlflow"]),
];

/// The side effects that layers 0 to 2 do without, and the words that give them away; clocks,
/// threads and random numbers are clippy's (`.clippy.toml`).
const SIDE_EFFECTS: &[(&str, &[&str])] = &[
    ("processes", &["std::process", "process::id("]),
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

/// The modules of layers 0 to 2 that have side effects all the same: a store is files, and the
/// study file names files, whose problems go to a terminal that may have colours.
const EXCEPTIONS: &[(&str, &[&str])] =
    &[("config", &["files", "terminal"]), ("storage", &["files"])];

/// Modules above layer 2 that keep its rules: times come with what they are told, and they write
/// where they are told.
const AS_PURE: &[&str] = &["ask_tell", "report"];

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

/// The modules that are files.
fn files_of(sources: &[Source]) -> BTreeSet<String> {
    sources.iter().map(module_path).collect()
}

/// The files that the plan is about: neither tests, nor those that only declare the modules.
fn without_tests_and_roots(sources: &[Source]) -> impl Iterator<Item = &Source> {
    let path = |source: &Source| source.path.trim_end_matches(".rs").to_owned();
    let tests: BTreeSet<String> = sources
        .iter()
        .flat_map(|source| source.tests.iter().map(move |test| format!("{}/{test}", path(source))))
        .collect();
    let is_test = move |source: &Source| tests.iter().any(|test| source.is_in(test));
    let is_root = |source: &Source| ["lib.rs", "main.rs"].contains(&source.path.as_str());
    sources.iter().filter(move |source| !is_root(source) && !is_test(source))
}

/// Which file uses which: names that a room hands on are those of the file that has them, and what
/// a file takes from the file of its own room is no use of it.
fn uses_of_files(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let files = files_of(sources);
    let longest = |path: &[String]| {
        (1..=path.len())
            .rev()
            .map(|length| path[..length].join("::"))
            .find(|file| files.contains(file))
    };
    let mut handed_on = BTreeMap::new();
    for source in sources {
        let module = module_path(source);
        for path in paths_of(&source.code)
            .into_iter()
            .filter(|(_, public)| *public)
            .filter_map(|(path, _)| from_root(&module, &path, &files))
        {
            if let (Some(home), Some(name)) = (longest(&path), path.last()) {
                handed_on.insert(format!("{module}::{name}"), home);
            }
        }
    }
    let mut uses = BTreeMap::new();
    for source in without_tests_and_roots(sources) {
        let module = &module_path(source);
        let homes = paths_of(&source.code)
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

/// Everything that breaks the plan, and the friends that use each other.
fn violations(sources: &[Source]) -> (Vec<String>, BTreeSet<(&'static str, &'static str)>) {
    let files = files_of(sources);
    let (mut found, mut friendships) = (Vec::new(), BTreeSet::new());
    for source in sources {
        check_first_sentence(source, &mut found);
    }
    for source in without_tests_and_roots(sources) {
        let path = &source.path;
        let Some(own) = module_named(source.module()) else {
            found.push(format!("src/{path} has no layer: give it a line here and in src/lib.rs"));
            continue;
        };
        let paths: BTreeSet<String> =
            paths_of(&source.code).into_iter().map(|(path, _)| path).collect();
        check_side_effects_and_crates(source, own, &paths, &mut found);
        let own_path = module_path(source);
        for written in &paths {
            let used = from_root(&own_path, written, &files).unwrap_or_default();
            // A block of code has modules that are no files.
            let is_known =
                |head: &&String| written.starts_with("crate::") || module_named(head).is_some();
            let Some(head) = used.first().filter(is_known) else { continue };
            match use_of(own, head) {
                Use::Allowed => {}
                Use::Friend(friend) => drop(friendships.insert((own.0, friend))),
                Use::Wrong(why) => found.push(format!("src/{path}: `{written}` {why}")),
            }
        }
    }
    (found, friendships)
}

enum Use {
    Allowed,
    Friend(&'static str),
    Wrong(String),
}

fn module_named(name: &str) -> Option<&'static Module> {
    MODULES.iter().find(|(module, ..)| *module == name)
}

/// Whether a module may use the one of this name.
fn use_of((name, layer, friends): &Module, used: &str) -> Use {
    let Some((other, below, _)) = module_named(used) else {
        return Use::Wrong("is in no module of the plan".to_owned());
    };
    let is_below =
        if *layer == Worker { *below == Study } else { below < layer && *below != Worker };
    if other == name || is_below {
        return Use::Allowed;
    }
    match friends.iter().copied().find(|friend| friend == other) {
        Some(friend) => Use::Friend(friend),
        None => Use::Wrong(format!("is of {below:?}: `{name}` ({layer:?}) must not use `{other}`")),
    }
}

/// What a file is for, in its first line.
fn check_first_sentence(Source { path, text, .. }: &Source, found: &mut Vec<String>) {
    let lines = text.lines().take_while(|line| line.starts_with("//!") && line.len() > 3);
    let first = lines.collect::<Vec<_>>().join(" ");
    if !first.ends_with(['.', ')', ':', '?']) || first.len() < 8 {
        found.push(format!("src/{path}: a file starts with a sentence that says what it is for"));
    }
}

/// Side effects and crates where they belong only.
fn check_side_effects_and_crates(
    source: &Source,
    (name, layer, _): &Module,
    paths: &BTreeSet<String>,
    found: &mut Vec<String>,
) {
    let Source { path: file, code, .. } = source;
    let names = |prefix: &str| {
        let is_it = |path: &String| path.strip_prefix(prefix).is_some_and(is_end_of_name);
        paths.iter().any(is_it)
    };
    for (dependency, homes) in CRATES {
        if names(dependency) && !homes.iter().any(|home| source.is_in(home)) {
            found.push(format!("src/{file}: `{dependency}` is used in {} only", homes.join(", ")));
        }
    }
    if *layer > Engine && !AS_PURE.contains(name) {
        return;
    }
    let may = EXCEPTIONS.iter().find(|(module, _)| module == name).map_or(&[][..], |(_, may)| *may);
    for (kind, words) in SIDE_EFFECTS.iter().filter(|(kind, _)| !may.contains(kind)) {
        if words.iter().any(|word| names(word) || places(code, word).next().is_some()) {
            found.push(format!("src/{file}: `{name}` ({layer:?}) touches the {kind}"));
        }
    }
}

/// Whether a path that continues like this continues with another name.
fn is_end_of_name(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with("::")
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

fn report(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "the plan (src/lib.rs, tests/it/layering.rs) is broken:\n  {}\n",
        problems.join("\n  ")
    );
}

#[test]
fn modules_use_the_layers_below_and_their_friends_only() {
    let (mut problems, friendships) = violations(sources());
    let friends = MODULES
        .iter()
        .flat_map(|(name, _, friends)| friends.iter().map(move |friend| (*name, *friend)));
    let unused = friends.filter(|pair| !friendships.contains(pair));
    problems.extend(unused.map(|(name, friend)| format!("`{name}` no longer uses `{friend}`")));
    report(&problems);
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
    let circles = uses.keys().filter(|file| reached(&uses, file).contains(*file));
    report(&circles.map(|file| format!("`{file}` is in a circle of files")).collect::<Vec<_>>());
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

/// What is said about one file with this text, among files of other modules.
fn said_about(path: &str, text: &str) -> Vec<String> {
    let first = "//! A file for this test.\n";
    let others = ["study.rs", "storage.rs", "samplers.rs", "runner.rs", "worker.rs", "trainer.rs"];
    let others = others.iter().filter(|other| **other != path);
    let mut sources: Vec<Source> = others.map(|other| Source::new(other, first)).collect();
    sources.push(Source::new(path, &format!("{first}{text}")));
    violations(&sources).0
}

#[test]
fn planted_violations_are_found() {
    let planted = [
        ("engine.rs", "use crate::runner::Runner;", "`engine` (Engine) must not use `runner`"),
        ("engine/ask.rs", "use super::super::runner;", "must not use `runner`"),
        (
            "samplers/new.rs",
            "use crate::{study::space::Space, runner::{self, Input}};",
            "must not use `runner`",
        ),
        ("analysis/new.rs", "use crate::samplers::Sampler;", "must not use `samplers`"),
        ("trainer/new.rs", "fn f() { crate::storage::f() }", "(Worker) must not use `storage`"),
        ("tui/new.rs", "use crate::worker::serve;", "must not use `worker`"),
        ("wholly_new.rs", "", "has no layer"),
        ("cli/run.rs", "use crate::Study;", "`crate::Study` is in no module"),
        ("cli/run.rs", "fn f(error: rusqlite::Error) {}", "`rusqlite` is used in storage only"),
        ("study/space.rs", "fn f(path: &Path) -> bool { path.exists() }", "touches the files"),
        ("study/space.rs", "use std::{fs, io};", "touches the files"),
        ("report/new.rs", "fn f() { println!(\"x\") }", "touches the terminal"),
    ];
    for (path, text, expected) in planted {
        let said = said_about(path, text);
        assert!(said.iter().any(|line| line.contains(expected)), "{path}: {text}: {said:?}");
    }
    let bare = violations(&[Source::new("cli/new.rs", "use std::fmt;\n")]).0;
    assert!(bare[0].contains("a file starts with a sentence"), "{bare:?}");
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
        Source::new("runner.rs", "//! A file for this test.\n"),
    ];
    assert_eq!(violations(&with_tests).0, Vec::<String>::new());
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
