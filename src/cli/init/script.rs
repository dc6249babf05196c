//! A look at a command: its words, and what its script says about its options and its metric.

use std::path::Path;

use super::ranges;
use crate::config::{self, placeholder};
use crate::study::metric::Direction;

/// One option that may be searched.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// The parameter's name.
    pub name: String,
    /// How it is written in the study file: `{ float = [1e-4, 1e-2], log = true }`.
    pub range: String,
    /// What the program takes without it, for a comment.
    pub default: Option<String>,
}

/// What was found out about a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Program and arguments, with `{name}` for what is searched.
    pub run: Vec<String>,
    /// What is searched.
    pub space: Vec<Searched>,
    /// The metric that it prints, if that was found.
    pub metric: Option<String>,
    /// The script that was read.
    pub file: Option<String>,
}

/// A command line's words: quotes keep spaces together, a backslash the next character.
pub fn words(command: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = command.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, _) if char.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    match quote {
        Some(_) => Err("a quote is opened and never closed"),
        None if words.is_empty() => Err("there is no program"),
        None => Ok(words),
    }
}

/// The same command with nothing to search in it.
pub fn plain(words: &[String], script: &Script) -> Script {
    Script {
        run: words.iter().map(|word| as_it_is(word)).collect(),
        space: Vec::new(),
        ..script.clone()
    }
}

/// A word that the program gets as it stands, whatever braces it has.
fn as_it_is(word: &str) -> String {
    placeholder::escaped(word, |_| false)
}

/// Looks at a command: its own options with numbers become parameters, and those that its Python
/// script declares beside them.
pub fn look(words: &[String], directory: &Path) -> Script {
    let file = words
        .iter()
        .find(|word| [".py", ".sh", ".R", ".jl"].iter().any(|ending| word.ends_with(ending)))
        .cloned();
    let source = file
        .as_ref()
        .and_then(|file| config::file::read_to_string(&directory.join(file)).ok())
        .unwrap_or_default();
    let metric = metric(&source);
    let declared = declared(&source);
    let (mut run, mut space) = given(words, &declared);
    let option =
        |word: &String| word.split_once('=').map_or(word.as_str(), |(option, _)| option).to_owned();
    let mentioned: Vec<String> = words.iter().map(option).collect();
    for Declared { flags, searched, .. } in declared {
        let (Some(searched), Some(flag)) =
            (searched, flags.iter().find(|flag| flag.starts_with("--")))
        else {
            continue;
        };
        if flags.iter().any(|flag| mentioned.contains(flag))
            || space.iter().any(|earlier| earlier.name == searched.name)
        {
            continue;
        }
        run.extend([as_it_is(flag), format!("{{{}}}", searched.name)]);
        space.push(searched);
    }
    Script { run, space, metric, file }
}

/// Which way a metric of this name gets better; most losses have a telling name.
pub fn direction(metric: &str) -> Direction {
    const UP: &str = "\
    acc f1 auc score reward bleu rouge precision recall r2 map ndcg return psnr iou";
    let metric = metric.to_ascii_lowercase();
    if UP.split(' ').any(|word| metric.contains(word)) {
        Direction::Maximize
    } else {
        Direction::Minimize
    }
}

/// Options of the command line itself that have numbers, or values of which the script declares
/// choices: `--lr 0.01`, `--layers=2`.
fn given(words: &[String], declared: &[Declared]) -> (Vec<String>, Vec<Searched>) {
    let declaration = |option: &str| {
        declared.iter().find(|declared| declared.flags.iter().any(|flag| flag == option))
    };
    let range = |option: &str, value: &str| match declaration(option) {
        Some(Declared { choices: Some((list, values)), .. }) => {
            values.iter().any(|choice| choice == value).then(|| list.clone())
        }
        Some(Declared { kind, .. }) => ranges::around(option, value, kind.as_deref()),
        None => ranges::around(option, value, None),
    };
    let is_searched = |option: &str| {
        let is_option = option.starts_with("--") || declaration(option).is_some();
        is_option && ranges::is_hyperparameter(option) && placeholder::is_name(&name_of(option))
    };
    let (mut run, mut space) = (Vec::new(), Vec::new());
    let mut before: Option<&str> = None;
    for word in words {
        let behind = before.take().map(|option| (option, word.as_str(), String::new()));
        let within = word.split_once('=').filter(|(option, _)| is_searched(option));
        let within = within.map(|(option, value)| (option, value, format!("{option}=")));
        let found = [behind, within]
            .into_iter()
            .flatten()
            .find_map(|(option, value, begin)| Some((option, value, begin, range(option, value)?)));
        if let Some((option, value, begin, range)) = found {
            let name = another(name_of(option), &space);
            run.push(format!("{begin}{{{name}}}"));
            space.push(Searched { name, range, default: Some(value.to_owned()) });
        } else {
            run.push(as_it_is(word));
            before = Some(word.as_str()).filter(|word| is_searched(word));
        }
    }
    (run, space)
}

/// The name, or one beside it where an option is given several times.
fn another(name: String, space: &[Searched]) -> String {
    let is_free = |name: &String| space.iter().all(|searched| searched.name != *name);
    if is_free(&name) {
        return name;
    }
    (2..).map(|number: u64| format!("{name}_{number}")).find(is_free).unwrap_or(name)
}

fn name_of(option: &str) -> String {
    option.trim_start_matches('-').replace('-', "_")
}

/// The choices of a Python list, if TOML can say them too: as a list, and one by one as they are
/// typed.
fn choices(list: &str) -> Option<(String, Vec<String>)> {
    let list = list.replace('\'', "\"");
    let values: Vec<serde_json::Value> = serde_json::from_str(&list).ok()?;
    let typed = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let typed: Option<Vec<String>> = values.iter().map(typed).collect();
    Some((list, typed?))
}

/// An option that a Python script declares with `add_argument`.
struct Declared {
    /// Its names: `--learning-rate`, `-r`.
    flags: Vec<String>,
    /// What it takes: a list for the study file, and each as it is typed.
    choices: Option<(String, Vec<String>)>,
    /// `int`, `float` and the like.
    kind: Option<String>,
    /// How it may be searched; `None`: it is no hyperparameter, or nothing tells a range.
    searched: Option<Searched>,
}

/// The options that a Python script declares.
fn declared(source: &str) -> Vec<Declared> {
    source
        .split("add_argument(")
        .skip(1)
        .map(arguments_of)
        .map(declaration)
        .filter(|declared| !declared.flags.is_empty())
        .collect()
}

fn declaration(call: &str) -> Declared {
    let flags: Vec<String> =
        strings(call).into_iter().take_while(|word| word.starts_with('-')).collect();
    let (default, kind) = (keyword(call, "default"), keyword(call, "type"));
    let listed = keyword(call, "choices");
    let choices = listed.and_then(choices);
    let searched = flags.iter().find(|flag| flag.starts_with("--")).and_then(|flag| {
        let range = match (listed, default) {
            (Some(_), _) => choices.as_ref().map(|(list, _)| list.clone())?,
            (None, Some(default)) => ranges::around(flag, default, kind)?,
            (None, None) => ranges::of_kind(flag, kind?)?,
        };
        let name = name_of(flag);
        let is_searched = ranges::is_hyperparameter(flag) && placeholder::is_name(&name);
        is_searched.then(|| Searched { name, range, default: default.map(str::to_owned) })
    });
    Declared { flags, choices, kind: kind.map(str::to_owned), searched }
}

/// What stands between the parentheses of a call.
fn arguments_of(rest: &str) -> &str {
    let mut depth = 1;
    let mut quote = None;
    for (at, char) in rest.char_indices() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(char),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &rest[..at];
        }
    }
    ""
}

/// The quoted words of a call.
fn strings(call: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = call;
    while let Some(at) = rest.find(['"', '\'']) {
        let open = &rest[at..=at];
        let Some(end) = rest[at + 1..].find(open) else { break };
        found.push(rest[at + 1..at + 1 + end].to_owned());
        rest = &rest[at + 2 + end..];
    }
    found
}

/// The value of `name=` in a call: up to the comma outside of brackets.
fn keyword<'a>(call: &'a str, name: &str) -> Option<&'a str> {
    let at = call.match_indices(name).map(|(at, _)| at).find(|at| {
        let before = call[..*at].chars().next_back();
        !before.is_some_and(|char| char.is_alphanumeric() || char == '_')
            && call[at + name.len()..].trim_start().starts_with('=')
    })?;
    let value = call[at + name.len()..].trim_start().strip_prefix('=')?.trim_start();
    let mut depth = 0;
    let end = value.char_indices().find(|(_, char)| {
        depth += match char {
            '[' | '(' => 1,
            ']' | ')' => -1,
            _ => 0,
        };
        *char == ',' && depth == 0
    });
    Some(value[..end.map_or(value.len(), |(at, _)| at)].trim())
}

/// The first metric after an `@hpsearch` in a script: a quoted key before a colon.
fn metric(source: &str) -> Option<String> {
    let mut names = source
        .split("@hpsearch")
        .skip(1)
        .flat_map(|rest| keys(&rest.lines().take(3).collect::<Vec<_>>().join(" ")));
    let is_name = |name: &String| {
        !name.is_empty()
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '/')
    };
    names.find(|name| {
        is_name(name) && !["step", "epoch", "checkpoint", "path"].contains(&name.as_str())
    })
}

/// The words that stand in quotes before a colon.
fn keys(line: &str) -> Vec<String> {
    let line = line.replace('\\', "");
    let before_colons = line.match_indices(':').filter_map(|(at, _)| {
        let before = line[..at].trim_end();
        let word = before.strip_suffix(['"', '\''])?;
        word.rfind(['"', '\'']).map(|open| word[open + 1..].to_owned())
    });
    before_colons.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(command: &str, source: &str) -> Script {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("train.py"), source).unwrap();
        look(&words(command).unwrap(), directory.path())
    }

    fn ranges(script: &Script) -> Vec<(&str, &str)> {
        let searched = script.space.iter();
        searched.map(|searched| (searched.name.as_str(), searched.range.as_str())).collect()
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        assert_eq!(
            words("python 'my train.py' --name \"a b\"\\ c").unwrap(),
            ["python", "my train.py", "--name", "a b c"]
        );
        assert!(words("echo 'open").is_err() && words("  ").is_err());
    }

    #[test]
    fn numbers_on_the_command_line_become_parameters() {
        let command = "python train.py --lr 0.01 --num-layers=2 --epochs 9 --name x --dropout 0.0";
        let script = looked(command, "");
        assert_eq!(
            script.run.join(" "),
            "python train.py --lr {lr} --num-layers={num_layers} --epochs 9 --name x --dropout \
             {dropout}"
        );
        let expected = [
            ("lr", "{ float = [1e-3, 1e-1], log = true }"),
            ("num_layers", "{ int = [1, 8] }"),
            ("dropout", "{ float = [0.0, 0.5] }"),
        ];
        assert_eq!(ranges(&script), expected);
    }

    #[test]
    fn options_that_a_script_declares_become_parameters() {
        let source = r#"
parser.add_argument("--learning-rate", "-r", type=float, default=3e-4, help="the (initial) rate")
parser.add_argument('--optimizer', choices=['sgd', 'adamw'], default='sgd')
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--data", required=True)
parser.add_argument("--beta", type=float, required=True)
parser.add_argument("--weight", type=float, default=1)
print(f'@hpsearch {{"step": {step}, "val_acc": {acc}}}')
"#;
        let script = looked("python3 train.py", source);
        assert_eq!(
            ranges(&script),
            [
                ("learning_rate", "{ float = [3e-5, 3e-3], log = true }"),
                ("optimizer", "[\"sgd\", \"adamw\"]"),
                ("momentum", "{ float = [0.5, 0.999] }"),
                ("beta", "{ float = [0.0, 0.99] }"),
                ("weight", "{ float = [1e-1, 1e1], log = true }"),
            ]
        );
        assert_eq!(script.run[2..4], ["--learning-rate", "{learning_rate}"]);
        assert_eq!(script.metric.as_deref(), Some("val_acc"));
        assert_eq!(direction("val_acc"), Direction::Maximize);
    }

    #[test]
    fn options_of_the_command_line_keep_those_that_its_script_declares() {
        let source = r#"
parser.add_argument("--lr", "-l", type=float, default=0.1)
parser.add_argument("--optimizer", choices=["sgd", "adamw"], default="sgd")
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--batch-size", type=int, choices=[16, 32])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--data-dir", default="data")
"#;
        let command = "python3 train.py -l 0.01 --optimizer sgd --momentum 0.8 --batch-size=32 \
            --epochs 5 --data-dir d";
        let script = looked(command, source);
        assert_eq!(
            script.run[2..].join(" "),
            "-l {l} --optimizer {optimizer} --momentum {momentum} --batch-size={batch_size} \
             --epochs 5 --data-dir d --dropout {dropout}"
        );
        let expected = [
            ("l", "{ float = [1e-3, 1e-1], log = true }"),
            ("optimizer", "[\"sgd\", \"adamw\"]"),
            ("momentum", "{ float = [0.5, 0.999] }"),
            ("batch_size", "[16, 32]"),
            ("dropout", "{ float = [0.0, 0.5] }"),
        ];
        assert_eq!(ranges(&script), expected);
        // A value that is none of the choices is the program's own affair.
        assert_eq!(
            looked("python3 train.py --optimizer lion", source).run[2..4],
            ["--optimizer", "lion"]
        );
    }

    #[test]
    fn the_metric_is_the_first_key_that_is_no_step() {
        for (line, found) in [
            ("print('@hpsearch', json.dumps({'step': n, 'loss': loss}))", Some("loss")),
            ("echo \"@hpsearch {\\\"step\\\": 1, \\\"score\\\": $s}\"", Some("score")),
            ("print('step:', 1)", None),
        ] {
            assert_eq!(metric(line).as_deref(), found, "{line}");
        }
    }

    #[test]
    fn a_script_that_says_nothing_leaves_everything_open() {
        let script = looked("python3 train.py", "print('hello')");
        assert!(script.space.is_empty() && script.metric.is_none());
        assert_eq!(script.run, ["python3", "train.py"]);
        assert_eq!(direction("eval_loss"), Direction::Minimize);
    }
}
