//! Examines a command: its words, and its script's options and metric.

use std::path::Path;

use super::declared::{Declared, Searched, as_it_is, declared, name_of};
use super::{args, ranges};
use crate::config::{self, placeholder};

/// The analysis of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Variable assignments before the program: `OMP_NUM_THREADS=1`.
    pub env: Vec<(String, String)>,
    /// Program and arguments, with `{name}` for searched parameters, or `{args}` for all of them.
    pub run: Vec<String>,
    /// The style of `{args}`, if `run` contains it.
    pub args_style: Option<&'static str>,
    /// The searched parameters.
    pub space: Vec<Searched>,
    /// Flags that its script declares and the command does not use.
    pub flags: Vec<String>,
    /// The metric that it prints, if found.
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

/// The same command without parameters.
pub fn plain(words: &[String], script: &Script) -> Script {
    Script {
        run: words[script.env.len()..].iter().map(|word| as_it_is(word)).collect(),
        args_style: None,
        space: Vec::new(),
        flags: Vec::new(),
        ..script.clone()
    }
}

/// The first thing in a command line that only a shell understands: an operator outside of quotes,
/// or a variable.
pub fn shell_syntax(command: &str) -> Option<String> {
    let mut quote = None;
    let mut chars = command.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (None, '"' | '\'') => quote = Some(char),
            (None | Some('"'), '\\') => drop(chars.next()),
            (None, '|' | '&' | ';' | '<' | '>') => {
                let rest = &command[at..];
                let end = rest.find(|next| next != char).unwrap_or(rest.len());
                return Some(rest[..end].to_owned());
            }
            (None | Some('"'), '`') => return Some("`".to_owned()),
            (None | Some('"'), '$') => {
                let names = |(_, next): &(usize, char)| {
                    next.is_ascii_alphanumeric() || matches!(next, '_' | '{' | '(')
                };
                if chars.peek().is_some_and(names) {
                    let word = command[at..].split_whitespace().next().unwrap_or("$");
                    return Some(word.trim_matches(['"', '\'']).to_owned());
                }
            }
            _ => {}
        }
    }
    None
}

/// The variable assignments before a program, as in a shell.
fn variables(words: &[String]) -> Vec<(String, String)> {
    let variable = |word: &String| {
        let (name, value) = word.split_once('=')?;
        let mut chars = name.chars();
        let begins = chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        let is_name = begins && chars.all(|char| char.is_ascii_alphanumeric() || char == '_');
        is_name.then(|| (name.to_owned(), value.to_owned()))
    };
    let found: Vec<_> = words.iter().map_while(variable).collect();
    // Without a program after them they are words.
    if found.len() == words.len() { Vec::new() } else { found }
}

/// Examines a command: its numeric options become parameters, and so do further ones that its
/// Python script declares. A script that parses its options gets all of them by `{args}`.
pub fn look(words: &[String], directory: &Path) -> Script {
    let env = variables(words);
    let words = &words[env.len()..];
    let at = words.iter().position(|word| is_script(word));
    let file = at.map(|at| words[at].clone());
    let source = file.as_ref().map(|file| source_of(file, directory)).unwrap_or_default();
    let metric = metric(&source);
    let script = Script {
        env,
        run: Vec::new(),
        args_style: None,
        space: Vec::new(),
        flags: Vec::new(),
        metric,
        file,
    };
    if let Some(at) = at
        && source.contains("hydra.main")
        && let Some(found) = args::of_hydra(words, at)
    {
        return Script { run: found.run, args_style: Some("hydra"), space: found.space, ..script };
    }
    let declared = declared(&source);
    let (run, space) = given(words, &declared);
    let mentioned: Vec<&str> = words
        .iter()
        .map(|word| word.split_once('=').map_or(word.as_str(), |(name, _)| name))
        .collect();
    let is_free = |flags: &[String]| !flags.iter().any(|flag| mentioned.contains(&flag.as_str()));
    let others: Vec<(String, Searched)> = declared
        .iter()
        .filter(|declared| is_free(&declared.flags))
        .filter_map(|declared| Some((declared.long()?.to_owned(), declared.searched.clone()?)))
        .filter(|(_, searched)| space.iter().all(|known| known.name != searched.name))
        .collect();
    let flags = declared.iter().filter(|declared| declared.is_flag && is_free(&declared.flags));
    let flags = flags.filter_map(Declared::long).filter(|flag| ranges::is_hyperparameter(flag));
    let flags: Vec<String> = flags
        .map(|flag| flag.trim_start_matches('-').to_owned())
        .filter(|flag| is_name(flag))
        .collect();
    if let Some(at) = at
        && !declared.is_empty()
        && let Some(found) = args::of_options(words, at, &run, &space, &others, &declared)
    {
        let (run, style, space) = (found.run, found.style, found.space);
        return Script { run, args_style: Some(style), space, flags, ..script };
    }
    let (mut run, mut space) = (run, space);
    for (flag, searched) in others {
        run.extend([as_it_is(&flag), format!("{{{}}}", searched.name)]);
        space.push(searched);
    }
    Script { run, space, ..script }
}

fn is_script(word: &str) -> bool {
    [".py", ".sh", ".R", ".jl"].iter().any(|ending| word.ends_with(ending))
}

/// The text of a script; empty if it cannot be read.
fn source_of(file: &str, directory: &Path) -> String {
    config::file::read_to_string(&directory.join(file)).unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    placeholder::is_name(name)
}

/// Words that give each trial a place of its own where a script writes to the same one by default:
/// `--output_dir {trial_dir}/out`. They belong behind the script, whose index is returned, too.
pub fn own_outputs(words: &[String], directory: &Path) -> Option<(usize, Vec<String>)> {
    let script = words.iter().position(|word| is_script(word))?;
    let declared = declared(&source_of(&words[script], directory));
    let is_given = |declared: &Declared| {
        let name =
            |word: &String| word.split_once('=').map_or(word.clone(), |(name, _)| name.into());
        words.iter().any(|word| declared.is_called(&name(word)))
    };
    let shared = declared.iter().filter(|declared| !is_given(declared)).filter_map(|declared| {
        let option = declared.long().filter(|option| is_output(option))?;
        let name = Path::new(declared.text.as_deref()?).file_name();
        let name = name.and_then(|name| name.to_str()).unwrap_or_default();
        let place = format!("{{trial_dir}}/{name}");
        Some([option.to_owned(), place.trim_end_matches('/').to_owned()])
    });
    let added: Vec<String> = shared.flatten().collect();
    (!added.is_empty()).then_some((script, added))
}

/// Whether an option names where a program writes to.
fn is_output(option: &str) -> bool {
    const NAMES: &str = "\
    out output outdir output_dir out_dir output_path output_file save save_dir save_path logdir \
    log_dir logging_dir checkpoint_dir ckpt_dir result_dir results_dir run_dir";
    option.starts_with("--") && NAMES.split(' ').any(|name| name == name_of(option))
}

/// An option with a path that the program writes to, if all trials would write to the same one:
/// `--output_dir /tmp/x`.
pub fn shared_output(words: &[String]) -> Option<String> {
    let of_trial = ["{trial}", "{trial_dir}", "{checkpoint_dir}"];
    let is_shared = |value: &str| {
        !value.is_empty()
            && !value.starts_with('-')
            && !of_trial.iter().any(|name| value.contains(name))
    };
    words.iter().enumerate().find_map(|(at, word)| match word.split_once('=') {
        Some((option, value)) => (is_output(option) && is_shared(value)).then(|| word.clone()),
        None => {
            let value = words.get(at + 1).filter(|value| is_output(word) && is_shared(value))?;
            Some(format!("{word} {value}"))
        }
    })
}

/// Options of the command line with numbers, or with values for which the script declares choices:
/// `--lr 0.01`, `--layers=2`.
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

/// The name, made unique if an option occurs several times.
fn another(name: String, space: &[Searched]) -> String {
    let is_free = |name: &String| space.iter().all(|searched| searched.name != *name);
    if is_free(&name) {
        return name;
    }
    (2..).map(|number: u64| format!("{name}_{number}")).find(is_free).unwrap_or(name)
}

/// The first metric that a script reports with `@hpsearch`: a quoted key before a colon, in the
/// same call or in the dictionary that the call names.
fn metric(source: &str) -> Option<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with('#');
    let code = source.lines().filter(is_code).collect::<Vec<_>>().join("\n");
    let mut names = code.split("@hpsearch").skip(1).flat_map(|rest| {
        let call = rest_of_call(rest);
        match keys(&call) {
            found if found.is_empty() => dictionary(&code, &call).map(keys).unwrap_or_default(),
            found => found,
        }
    });
    let is_name = |name: &String| {
        !name.is_empty()
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '/')
    };
    names.find(|name| {
        is_name(name) && !["step", "epoch", "checkpoint", "path"].contains(&name.as_str())
    })
}

/// What follows in the same call, at most two lines further.
fn rest_of_call(rest: &str) -> String {
    let mut open = 1_i32;
    let is_within = |char: &char| {
        open += i32::from(*char == '(') - i32::from(*char == ')');
        open > 0
    };
    let lines = rest.lines().take(3).collect::<Vec<_>>().join(" ");
    lines.chars().take_while(is_within).collect()
}

/// The text of the dictionary that a call passes by its name: `json.dumps(report)`.
fn dictionary<'a>(code: &'a str, call: &str) -> Option<&'a str> {
    let (_, passed) = call.split_once("dumps(")?;
    let name: String =
        passed.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
    let begin = format!("{name} = {{");
    let (_, rest) = code.split_once(&begin).filter(|_| !name.is_empty())?;
    rest.split('}').next()
}

/// The quoted words before a colon.
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
    fn paths_that_all_trials_write_to_are_found() {
        let found = |command: &str| shared_output(&words(command).unwrap());
        for (command, expected) in [
            ("python t.py --lr 1 --output_dir /tmp/x --fp16", Some("--output_dir /tmp/x")),
            ("python t.py --save-dir=out", Some("--save-dir=out")),
            ("python t.py --output_dir {trial_dir}/hf --logdir runs/{trial}", None),
            ("python t.py --output_dir", None),
            ("python t.py --save --lr 1", None),
            ("python t.py --data x", None),
        ] {
            assert_eq!(found(command).as_deref(), expected, "{command}");
        }
    }

    #[test]
    fn a_default_that_all_trials_would_write_to_becomes_a_place_of_each() {
        const SOURCE: &str = "parser.add_argument(\"--output_dir\", \"-o\", default=\"./out\")\n\
            parser.add_argument(\"--save-path\", type=str, default='runs/model.pt')\n\
            parser.add_argument(\"--logdir\", default=\".\")\n\
            parser.add_argument(\"--save\", action=\"store_true\")\n\
            parser.add_argument(\"--results_dir\", default=os.path.join(\"a\", \"b\"))\n\
            parser.add_argument(\"--data\", default=\"data.csv\")\n";
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("train.py"), SOURCE).unwrap();
        let added = |command: &str| {
            let found = own_outputs(&words(command).unwrap(), directory.path());
            found.map(|(at, added)| (at, added.join(" ")))
        };
        let all =
            "--output_dir {trial_dir}/out --save-path {trial_dir}/model.pt --logdir {trial_dir}";
        assert_eq!(added("python train.py --lr 1"), Some((1, all.to_owned())));
        let given = "A=1 python train.py -o x --logdir=y";
        let rest = "--save-path {trial_dir}/model.pt";
        assert_eq!(added(given), Some((2, rest.to_owned())));
        assert_eq!(added("python other.py"), None);
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
                ("learning-rate", "{ float = [3e-5, 3e-3], log = true }"),
                ("optimizer", "[\"sgd\", \"adamw\"]"),
                ("momentum", "{ float = [0.5, 0.999] }"),
                ("beta", "{ float = [0.0, 0.99] }"),
                ("weight", "{ float = [1e-1, 1e1], log = true }"),
            ]
        );
        // It parses them by name: `{args}` stands for all of them.
        assert_eq!(script.run, ["python3", "train.py", "{args}"]);
        assert_eq!(script.args_style, Some("dashes"));
        assert_eq!(script.metric.as_deref(), Some("val_acc"));
    }

    #[test]
    fn options_whose_values_argparse_passes_on_as_text_are_left_as_they_are() {
        let source = r#"
parser.add_argument("--hidden-size", default=64)
parser.add_argument("--momentum", default="0.9", type=str)
parser.add_argument("--heads", choices=[2, 4, 8])
parser.add_argument("--activation", choices=["relu", "gelu"])
parser.add_argument("--betas", nargs=2, type=float, default=0.9)
parser.add_argument("--level", action="count", default=0)
parser.add_argument("--lr", type=float, default=0.1)
"#;
        let script = looked("python3 train.py", source);
        let expected =
            [("activation", "[\"relu\", \"gelu\"]"), ("lr", "{ float = [1e-2, 1e0], log = true }")];
        assert_eq!(ranges(&script), expected);
        // What the command line has is text already.
        let script = looked("python3 train.py --hidden-size 64", source);
        assert!(ranges(&script).contains(&("hidden-size", "{ int = [16, 256], log = true }")));
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
        assert_eq!(script.run[2..].join(" "), "{args} --epochs 5 --data-dir d");
        assert_eq!(script.args_style, Some("dashes"));
        let expected = [
            ("lr", "{ float = [1e-3, 1e-1], log = true }"),
            ("optimizer", "[\"sgd\", \"adamw\"]"),
            ("momentum", "{ float = [0.5, 0.999] }"),
            ("batch-size", "[16, 32]"),
            ("dropout", "{ float = [0.0, 0.5] }"),
        ];
        assert_eq!(ranges(&script), expected);
        // A value outside the choices is left alone.
        assert_eq!(
            looked("python3 train.py --optimizer lion", source).run[2..4],
            ["--optimizer", "lion"]
        );
    }

    const PARSER: &str = r#"
parser.add_argument("data")
parser.add_argument("--lr", "-l", type=float, default=0.1)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--nesterov", action="store_true")
parser.add_argument("--verbose", action="store_true")
parser.add_argument("--amp", action="store_true")
"#;

    #[test]
    fn all_parameters_stand_where_the_first_stood_and_everything_else_stays() {
        for (command, run, style) in [
            ("python3 train.py x.csv --lr 0.2", "x.csv {args}", Some("dashes")),
            ("python3 train.py --lr 0.2 x.csv", "{args} x.csv", Some("dashes")),
            ("python3 train.py --lr=0.2 x.csv", "{args} x.csv", Some("equals")),
            ("python3 train.py x.csv --amp", "x.csv --amp {args}", Some("dashes")),
            ("python3 train.py --seed 3 -- x.csv", "--seed 3 {args} -- x.csv", Some("dashes")),
            (
                "python3 train.py --lr 1 --seed 3 --momentum 0.5 x.csv",
                "{args} --seed 3 x.csv",
                Some("dashes"),
            ),
            // Positional arguments would move.
            (
                "python3 train.py --lr 0.2 x.csv --momentum 0.5",
                "--lr {lr} x.csv --momentum {momentum}",
                None,
            ),
            // One of them is not the script's, or both have one name.
            ("torchrun --lr 1 train.py --momentum 0.5", "train.py --momentum {momentum}", None),
            ("python3 train.py --lr 1 --lr 2", "--lr {lr} --lr {lr_2} --momentum {momentum}", None),
        ] {
            let script = looked(command, PARSER);
            let after = if command.starts_with("torchrun") { 3 } else { 2 };
            assert_eq!(script.run[after..].join(" "), run, "{command}");
            assert_eq!(script.args_style, style, "{command}");
        }
    }

    #[test]
    fn flags_are_offered_where_they_may_make_a_difference() {
        let script = looked("python3 train.py x.csv --amp", PARSER);
        assert_eq!(script.flags, ["nesterov"]);
        assert_eq!(ranges(&script).len(), 2, "and are not searched by themselves");
    }

    #[test]
    fn options_of_click_and_overrides_of_hydra_are_found() {
        let source = r#"
@click.option("--lr", default=0.01)
@click.option("--optimizer", type=click.Choice(["sgd", "adamw"]), default="sgd")
@click.option("--nesterov", is_flag=True)
"#;
        let script = looked("python3 train.py", source);
        assert_eq!(script.run, ["python3", "train.py", "{args}"]);
        let expected =
            [("lr", "{ float = [1e-3, 1e-1], log = true }"), ("optimizer", "[\"sgd\", \"adamw\"]")];
        assert_eq!(ranges(&script), expected);
        assert_eq!(script.flags, ["nesterov"]);
        let source = "@hydra.main(config_path='conf')\ndef main(config): ...\n";
        let script =
            looked("python3 train.py data=mnist optimizer.lr=0.1 seed=3 model.layers=2", source);
        assert_eq!(script.run[2..], ["data=mnist", "{args}", "seed=3"]);
        assert_eq!(script.args_style, Some("hydra"));
        let names: Vec<&str> = script.space.iter().map(|searched| searched.name.as_str()).collect();
        assert_eq!(names, ["optimizer.lr", "model.layers"]);
        let untouched = looked("python3 train.py data=mnist", source);
        assert_eq!((untouched.run.len(), untouched.args_style), (3, None));
    }

    #[test]
    fn braces_are_kept_but_for_what_stands_for_the_trial() {
        let script = looked("python3 train.py --out {trial_dir}/m --format {name} --lr 0.1", "");
        let words = script.run.join(" ");
        assert_eq!(words, "python3 train.py --out {trial_dir}/m --format {{name}} --lr {lr}");
    }

    #[test]
    fn variables_before_the_program_are_its_environment() {
        let script = looked("OMP_NUM_THREADS=1 MODE= python3 train.py --lr 0.1", PARSER);
        let env = [("OMP_NUM_THREADS", "1"), ("MODE", "")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(script.env, env);
        assert_eq!(script.run, ["python3", "train.py", "{args}"]);
    }

    #[test]
    fn what_only_a_shell_understands_is_found_outside_of_quotes() {
        for (command, found) in [
            ("python train.py | tee log", Some("|")),
            ("python train.py >> log 2>&1", Some(">>")),
            ("cd x && python train.py", Some("&&")),
            ("python train.py; true", Some(";")),
            ("python train.py --data $HOME/x", Some("$HOME/x")),
            ("python train.py --data \"${HOME}\"", Some("${HOME}")),
            ("python train.py `date`", Some("`")),
            ("python train.py --price 5$ --name 'a | b' \"c > d\" e\\;", None),
            ("sh -c 'python train.py | tee log'", None),
        ] {
            assert_eq!(shell_syntax(command).as_deref(), found, "{command}");
        }
    }

    #[test]
    fn the_metric_is_the_first_key_that_is_no_step() {
        for (line, found) in [
            ("print('@hpsearch', json.dumps({'step': n, 'loss': loss}))", Some("loss")),
            ("echo \"@hpsearch {\\\"step\\\": 1, \\\"score\\\": $s}\"", Some("score")),
            ("print('step:', 1)", None),
            (
                "report = {'step': 1, 'log_loss': x}\n# print('@hpsearch', {'old': 1})\n\
                print('@hpsearch', json.dumps(report)); log.write(json.dumps({'fold': 1}))",
                Some("log_loss"),
            ),
            ("print('@hpsearch', json.dumps(report))\nlog = {'fold': 1}", None),
        ] {
            assert_eq!(metric(line).as_deref(), found, "{line}");
        }
    }

    #[test]
    fn a_script_that_says_nothing_leaves_everything_open() {
        let script = looked("python3 train.py", "print('hello')");
        assert!(script.space.is_empty() && script.metric.is_none());
        assert_eq!(script.run, ["python3", "train.py"]);
    }
}
