//! The documentation is true: generated pages are current, links lead somewhere, examples are
//! accepted, and run.
//!
//! `HPSEARCH_WRITE_DOCS=1 cargo test --test it documentation` writes the generated pages anew.

mod examples;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use hpsearch::arguments::{ARGUMENTS, DATA_ARGUMENTS, DECODER_TYPES, ENCODER_TYPES, SEQ2SEQ_TYPES};
use hpsearch::cli::CommandLine;
use hpsearch::config::{Contents, TABLES, TableSchema};
use hpsearch::pruners::PRUNERS;
use hpsearch::samplers::SAMPLERS;
use hpsearch::study::field::{Field, FieldDefault, OBJECTIVE};
use hpsearch::study::registry::RegistryEntry;
use hpsearch::study::remark::RemarkKind;

use crate::harness::{Ended, Site};

/// The longest that the README may be: a newcomer reads it in five minutes.
const README_LINES: usize = 250;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every page that is written for people: relative path and text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::from("docs"), PathBuf::from("benches")];
    let mut files: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from).into();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(root().join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => directories.push(path),
                false if path.extension().is_some_and(|extension| extension == "md") => {
                    files.push(path)
                }
                false => {}
            }
        }
    }
    for file in files {
        let text = fs::read_to_string(root().join(&file)).unwrap();
        found.push((file, text));
    }
    found.sort();
    found
}

/// The fenced blocks of a page in one language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| Some(rest.split_once("\n```")?.0)).collect()
}

/// The anchor that a heading has on GitHub.
fn anchor(heading: &str) -> String {
    let letters = heading.trim_start_matches('#').trim().to_lowercase();
    letters
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// Where the links and pictures of a page lead.
fn links(text: &str) -> Vec<&str> {
    let in_brackets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let attributes = ["srcset=\"", "src=\""]
        .into_iter()
        .flat_map(|name| text.split(name).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)));
    in_brackets
        .chain(attributes)
        .filter(|link| !link.contains("://") && !link.contains(['\n', ' ']))
        .collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let pages = pages();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for link in links(text) {
            let (file, heading) =
                link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
            let target = if file.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap_or(Path::new("")).join(file)
            };
            let Ok(whole) = root().join(&target).canonicalize() else {
                broken.push(format!("{}: {link}", page.display()));
                continue;
            };
            if let Some(heading) = heading
                && !anchors(&fs::read_to_string(whole).unwrap()).contains(heading)
            {
                broken.push(format!("{}: {link} (no such heading)", page.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_page_of_docs_is_linked_from_the_readme() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let linked: BTreeSet<&str> = links(&readme).into_iter().collect();
    let missing: Vec<String> = pages()
        .into_iter()
        .map(|(page, _)| page.display().to_string())
        .filter(|page| page.starts_with("docs/") && !linked.contains(page.as_str()))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_readme_is_read_in_five_minutes() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(
        lines <= README_LINES,
        "README.md has {lines} lines, {README_LINES} at most: the rest belongs into docs/"
    );
}

#[test]
fn toml_of_the_pages_is_toml_whose_tables_and_keys_exist() {
    let tables: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    let mut seen = 0;
    for (page, text) in pages().into_iter().filter(|(page, _)| !page.starts_with("benches")) {
        for block in blocks(&text, "toml") {
            let parsed: toml::Table = block
                .parse()
                .unwrap_or_else(|error| panic!("{}: {error}\n{block}", page.display()));
            for (name, table) in parsed {
                let known = TABLES.iter().find(|table| table.name == name);
                let known = known.unwrap_or_else(|| {
                    panic!("{}: [{name}] is none of {tables:?}", page.display())
                });
                let fields = match known.contents {
                    Contents::Keys => known.fields,
                    Contents::Trainer => ARGUMENTS,
                    Contents::Data => DATA_ARGUMENTS,
                    _ => continue,
                };
                let names = |field: &Field| [&[field.name], field.aliases].concat();
                let keys: Vec<&str> = fields.iter().flat_map(names).collect();
                let Some(table) = table.as_table() else { continue };
                table.keys().for_each(|key| {
                    assert!(keys.contains(&key.as_str()), "{}: [{name}] {key}", page.display())
                });
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "only {seen} tables were looked at");
}

/// What a command line may hold besides parameters.
const PLACEHOLDERS: [&str; 5] = ["trial", "trial_dir", "checkpoint_dir", "seed", "args"];

/// Examples that leave tables out, completed by a small study of a command, pass `check`. What the
/// built-in trainer reads is checked for its keys above.
#[test]
fn study_files_of_the_pages_pass_check() {
    let base: toml::Table = "[study]\nname = \"example\"\nmetric = \"loss\"\n\
         direction = \"minimize\"\n[budget]\ntrials = 48\n\
         [space]\nlr = { float = [0.1, 1.0] }\n\
         [command]\nrun = [\"python3\", \"train.py\", \"{args}\"]"
        .parse()
        .unwrap();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (page, text) in pages().into_iter().filter(|(page, _)| !page.starts_with("benches")) {
        for block in blocks(&text, "toml") {
            let mut study: toml::Table = block.parse().unwrap();
            if study.contains_key("data") || study.contains_key("trainer") {
                continue;
            }
            for (name, table) in &base {
                let own = study.entry(name).or_insert_with(|| toml::Table::new().into());
                let own = own.as_table_mut().unwrap();
                let is_given = |key: &String| match (name.as_str(), key.as_str()) {
                    ("space", _) => !own.is_empty(),
                    ("study", "metric" | "direction") => own.contains_key("objective"),
                    _ => own.contains_key(key),
                };
                let missing: Vec<_> = table.as_table().unwrap().iter().collect();
                let missing: Vec<_> =
                    missing.into_iter().filter(|(key, _)| !is_given(key)).collect();
                own.extend(missing.into_iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            let names = block.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
            for (name, _) in names.filter(|(name, _)| !PLACEHOLDERS.contains(name)) {
                if name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_') {
                    let range: toml::Table = "float = [0.1, 1.0]".parse().unwrap();
                    let space = study.get_mut("space").and_then(toml::Value::as_table_mut);
                    space.unwrap().entry(name).or_insert(range.into());
                }
            }
            // Simulated devices stand for GPUs.
            let devices = (0..8).map(|index| format!("\"sim:{index}\"")).collect::<Vec<_>>();
            let study = study.to_string().replace("\"cuda:*\"", &devices.join(", "));
            let site = Site::new(&study, "");
            site.write("train.py", "");
            site.write("candidates.csv", "learning_rate\n0.001\n0.01\n");
            let checked = site.run(&["check", "study.toml"]);
            if checked.code != 0 {
                wrong.push(format!("{}:\n{study}\n{}", page.display(), checked.err));
            }
            seen += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 25, "only {seen} were checked");
}

/// The example is compiled with the tests.
#[test]
fn the_page_of_reports_has_every_kind_of_remark() {
    let source = fs::read_to_string(root().join("src/core/study/remark.rs")).unwrap();
    let (_, kinds) = source.split_once("pub enum RemarkKind {").unwrap();
    let (kinds, _) = kinds.split_once("\n}").unwrap();
    let names = kinds.lines().map(str::trim).filter_map(|line| line.strip_suffix(','));
    let mut kinds: BTreeSet<String> = names
        .map(|name| serde_json::from_value::<RemarkKind>(snake_case(name).into()).unwrap())
        // Those of a superseded copy are only in the log.
        .filter(|kind| *kind != RemarkKind::Superseded)
        .map(|kind| serde_json::to_value(kind).unwrap().as_str().unwrap().to_owned())
        .collect();
    assert!(kinds.len() > 15, "{kinds:?}");
    let page = fs::read_to_string(root().join("docs/reports.md")).unwrap();
    let (_, table) = page.split_once("## Rejected lines").unwrap();
    for row in table.lines().filter_map(|line| line.strip_prefix("| `")) {
        let kind = row.split_once('`').unwrap().0;
        assert!(kinds.remove(kind), "`{kind}` is not a kind of remark, or is there twice");
    }
    assert!(kinds.is_empty(), "docs/reports.md lacks {kinds:?}");
}

#[test]
fn the_pages_count_and_list_the_architectures_of_the_trainer() {
    let types: BTreeSet<&str> =
        ENCODER_TYPES.into_iter().chain(DECODER_TYPES).chain(SEQ2SEQ_TYPES).collect();
    let count = format!("{} architectures", types.len());
    for page in ["README.md", "docs/comparison.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        assert!(text.contains(&count), "{page} does not say \"{count}\"");
    }
    let page = fs::read_to_string(root().join("docs/architectures.md")).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with("| `model_type` | is |")).skip(2);
    let listed: BTreeSet<&str> = rows
        .map_while(|row| row.strip_prefix("| ")?.split_once(" | "))
        .flat_map(|(names, _)| names.split(", "))
        .map(|name| name.trim_matches('`'))
        .collect();
    assert_eq!(listed, types);
}

fn snake_case(name: &str) -> String {
    let letters = name.char_indices().flat_map(|(at, letter)| {
        let bar = (at > 0 && letter.is_uppercase()).then_some('_');
        bar.into_iter().chain(letter.to_lowercase())
    });
    letters.collect()
}

#[test]
fn rust_of_the_pages_is_that_of_the_example() {
    let trimmed = |text: &str| -> String {
        text.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .fold(String::new(), |text, line| text + line + "\n")
    };
    let example = trimmed(&fs::read_to_string(root().join("studies/parabola.rs")).unwrap());
    let mut seen = 0;
    for (page, text) in pages() {
        for block in blocks(&text, "rust") {
            let shown = trimmed(block);
            assert!(example.contains(&shown), "{}:\n{shown}", page.display());
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen}");
}

/// The words of a line of a shell up to a pipe, a redirection or a comment; `None` with what only a
/// shell resolves.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in line.chars() {
        match (character, quote) {
            (_, Some(end)) if character == end => quote = None,
            ('\'' | '"', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            ('$' | '`', None | Some('"')) | ('\\', _) => return None,
            ('|' | '>' | '<' | '&' | ';' | '#', None) => break,
            (_, None) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// The lines that begin with `hpsearch`, up to two spaces: what follows explains them.
#[test]
fn the_command_lines_of_the_pages_are_accepted() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (page, text) in pages().into_iter().filter(|(page, _)| !page.starts_with("benches")) {
        let typed = text.lines().filter_map(|line| {
            line.strip_prefix("    hpsearch ").or_else(|| line.strip_prefix("    $ hpsearch "))
        });
        for typed in typed {
            let line = typed.split("  ").next().unwrap_or_default();
            // Synopses.
            let Some(words) = words(line).filter(|_| !line.contains("..") && !line.contains('['))
            else {
                continue;
            };
            seen += 1;
            let words = std::iter::once("hpsearch".to_owned()).chain(words);
            if let Err(error) = CommandLine::try_parse_from(words)
                && !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
            {
                let error = error.to_string();
                let why = error.lines().next().unwrap_or_default();
                wrong.push(format!("{}: hpsearch {line}: {why}", page.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(seen > 60, "only {seen} were parsed");
}

#[test]
fn the_reference_of_the_study_file_is_current() {
    is_current("docs/reference/study-file.md", &study_file());
}

#[test]
fn the_reference_of_the_command_line_is_current() {
    is_current("docs/reference/command-line.md", &command_line());
}

/// Compares a generated page with what it should be, or writes it where that is asked for.
fn is_current(page: &str, text: &str) {
    let path = root().join(page);
    if std::env::var_os("HPSEARCH_WRITE_DOCS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let first = written.lines().zip(text.lines()).enumerate().find(|(_, (old, new))| old != new);
    assert!(
        written == text,
        "{page} is not current (first difference: {first:?}): run `HPSEARCH_WRITE_DOCS=1 cargo \
         test --test it documentation`"
    );
}

const GENERATED: &str = "<!-- Generated by `HPSEARCH_WRITE_DOCS=1 cargo test --test it \
    documentation`; do not edit. -->";

fn study_file() -> String {
    let mut page = format!(
        "{GENERATED}\n\n# Reference: the study file\n\nEvery table and key, from the tables that \
         parse them. [The study file](../study-file.md) is the introduction;\n`hpsearch schema` \
         prints the same as a JSON Schema.\n"
    );
    for table in TABLES {
        write!(page, "\n## `[{}]`\n\n{}.\n", table.name, sentence(table.doc)).unwrap();
        contents(&mut page, table);
        if table.name == "study" {
            page.push_str(
                "\n### `[[study.objective]]`\n\nOne of [several \
                objectives](../objectives.md).\n",
            );
            fields(&mut page, OBJECTIVE);
        }
    }
    page
}

fn contents(page: &mut String, table: &TableSchema) {
    match table.contents {
        Contents::Space => page.push_str(concat!(
            "\n| form | samples |\n|---|---|\n",
            "| `name = { float = [low, high] }` | a number; `log = true` on a logarithmic scale, \
             `step = 0.1` on a grid |\n",
            "| `name = { int = [low, high] }` | an integer; `log = true`, `step = 16` |\n",
            "| `name = [a, b, c]`, `{ choice = [a, b, c] }` | one of the strings, numbers or \
             booleans |\n",
            "| `..., when = { other = value }` | only where another parameter has that value, or \
             one of a list |\n",
            "| `..., prior = value` | the same, with the value where the best is expected |\n",
            "| `group.name`, `[space.group]` | a parameter with a dotted name |\n",
            "| `file = \"candidates.csv\"` | only the rows of a CSV or TSV file, whose columns are \
             parameters; columns that are not defined beside it are integers, numbers \
             (logarithmic where they are positive and span a factor of 100) or choices |\n",
        )),
        Contents::Configurations => page.push_str(
            "\nEach table gives values to parameters of \
            `[space]`.\n",
        ),
        Contents::Sampler => registered(page, table, SAMPLERS.iter().map(RegistryEntry::described)),
        Contents::Pruner => registered(page, table, PRUNERS.iter().map(RegistryEntry::described)),
        Contents::Trainer => fields(page, ARGUMENTS),
        Contents::Data => fields(page, DATA_ARGUMENTS),
        Contents::Keys | Contents::Constraints => fields(page, table.fields),
    }
}

fn fields(page: &mut String, fields: &[Field]) {
    if fields.is_empty() {
        return;
    }
    page.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
    for field in fields {
        let aliases: String =
            field.aliases.iter().fold(String::new(), |all, alias| format!("{all}, `{alias}`"));
        let default = match field.default {
            FieldDefault::Absent | FieldDefault::Required | FieldDefault::Derived(_) => {
                field.default.to_string()
            }
            default => format!("`{default}`"),
        };
        let (kind, default) = (in_cell(&field.kind.to_string()), in_cell(&default));
        writeln!(
            page,
            "| `{}`{aliases} | {kind} | {default} | {} |",
            field.name,
            in_cell(field.doc)
        )
        .unwrap();
    }
}

fn registered(
    page: &mut String,
    table: &TableSchema,
    entries: impl Iterator<Item = RegistryEntry<()>>,
) {
    fields(page, table.fields);
    for RegistryEntry { name, aliases, summary, options, .. } in entries {
        let also =
            if aliases.is_empty() { String::new() } else { format!(" (also {})", quoted(aliases)) };
        write!(page, "\n### `type = \"{name}\"`{also}\n\n{}.\n", sentence(summary)).unwrap();
        fields(page, options);
    }
}

fn in_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
}

fn command_line() -> String {
    let mut page = format!(
        "{GENERATED}\n\n# Reference: the command line\n\nThe help of every verb, as `hpsearch \
         VERB --help` prints it. [Command line](../command-line.md) is the introduction.\n"
    );
    let line = CommandLine::command();
    for verb in
        line.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name)
    {
        let site = Site::empty();
        let ran = Ended::of(site.command(&[verb, "--help"]).env("COLUMNS", "80").output().unwrap());
        let (own, rest) = ran.out.split_once("Global options:").unwrap();
        let examples = rest.find("Examples:").map_or("", |at| &rest[at..]);
        write!(page, "\n## hpsearch {verb}\n\n```text\n{}\n", own.trim_end()).unwrap();
        if !examples.is_empty() {
            write!(page, "\n{}\n", examples.trim_end()).unwrap();
        }
        page.push_str("```\n");
    }
    page
}
