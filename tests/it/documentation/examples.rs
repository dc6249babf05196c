//! The examples of the pages run as they are printed: programs in Python, scripts of a shell, and
//! sessions of `ask-tell`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value as Json;

use super::{blocks, pages, root};
use crate::harness::{
    Ended, ONE_SLOT, PROGRAM, REPORT_X, Running, Site, assert_done, held, says, study,
};

/// A block of a page, and how it is run.
#[derive(Clone, Copy)]
struct Example {
    page: &'static str,
    /// Words by which it is found: no other block of the page has them.
    words: &'static str,
    /// Modules of Python without which it is skipped.
    needs: &'static str,
    prepare: fn(&Site),
    /// What the page takes for granted, in the language of the block, and what shows its results.
    before: &'static str,
    after: &'static str,
    /// Line of a shell that runs it.
    line: &'static str,
    /// What is printed.
    shows: &'static [&'static str],
}

const PYTHON: Example = Example {
    page: "",
    words: "",
    needs: "sys",
    prepare: |_| {},
    before: "",
    after: "",
    line: "python3 train.py",
    shows: &[],
};

const SHELL: Example = Example { line: "sh -e train.sh", ..PYTHON };

const EXAMPLES: &[Example] = &[
    Example {
        page: "README.md",
        words: "print('@hpsearch",
        prepare: |site| site.write("study.toml", block("README.md", "toml", "trials = 50")),
        line: "hpsearch run study.toml --plain --set budget.trials=1",
        shows: &["trial 0 with 0.41"],
        ..PYTHON
    },
    Example { page: "README.md", words: "import optuna", ..OPTUNA },
    Example { page: "docs/store.md", words: "import optuna", ..OPTUNA },
    Example {
        page: "docs/python.md",
        words: "name=\"baseline\"",
        before: "open('model.pt', 'w').close()\ndef train(lr): return lr",
        line: "python3 train.py && show_run digits baseline",
        shows: &["complete with loss 0.1", "lr=0.1", "100 points", "test accuracy=0.97"],
        ..PYTHON
    },
    Example {
        page: "docs/python.md",
        words: "if run.should_stop",
        prepare: |site| site.write("study.toml", SEARCHED),
        before: "import hpsearch\nfactors = iter(range(10, 0, -1))\n\
            def train(lr): return lr * next(factors)",
        line: "hpsearch run study.toml --plain",
        shows: &["complete with 0.5 at epoch 10"],
        ..PYTHON
    },
    Example {
        page: "docs/python.md",
        words: "for trial in search",
        before: "import hpsearch\ndef train(params): return params['lr'] + params['layers']",
        shows: &["'layers': 1"],
        ..PYTHON
    },
    Example {
        page: "docs/python.md",
        words: "set_user_attr",
        shows: &["{'x': ", "{'data': 'v2'}"],
        ..PYTHON
    },
    Example {
        page: "docs/python.md",
        words: "import pandas",
        needs: "pandas, matplotlib",
        prepare: |site| {
            let lines = [r#"{"step":1,"acc":0.25}"#, r#"{"step":2,"acc":0.5,"loss":1}"#];
            site.write("run.sh", says(&lines));
            let track = ["track", "--study", "digits", "--param", "lr=0.1", "--", "sh", "run.sh"];
            assert_done(&site.run(&track));
        },
        before: "import hpsearch, matplotlib\nmatplotlib.use('Agg')",
        after: "print(trials.params_lr.tolist(), points[points.metric == 'acc'].value.tolist())",
        shows: &["[0.1] [0.25, 0.5]"],
        ..PYTHON
    },
    Example {
        page: "docs/distributed.md",
        words: "torch.distributed.broadcast",
        before: "import hpsearch\nbegin, steps, device = 1, 4, 'cpu'\n\
            def train(step): return 1 / step\n\
            class torch:\n  \
            class tensor:\n    \
            def __init__(self, value, device): self.item = lambda: value\n  \
            class distributed:\n    \
            broadcast = staticmethod(lambda tensor, rank: None)",
        line: "python3 train.py && show_run runs 0",
        shows: &["complete with loss 0.33333", "3 points"],
        ..PYTHON
    },
    Example {
        page: "docs/import.md",
        words: "objective, n_trials=20",
        prepare: |site| {
            crate::import::database(site);
            assert_done(&site.run(&["import", "optuna.db"]));
        },
        before: "def objective(trial): return trial.suggest_float('lr', 1e-5, 0.1, log=True)",
        after: "print(len(study.trials), 'trials')",
        shows: &["32 trials"],
        ..PYTHON
    },
    Example {
        page: "docs/values.md",
        words: "search.optimize",
        line: "python3 train.py && hpsearch importance paraboloid && \
            hpsearch importance paraboloid --evaluator fanova",
        shows: &["ped-anova of 40", "x               0.99", "fanova of 40"],
        ..PYTHON
    },
    Example {
        page: "docs/tracking.md",
        words: "--name baseline",
        prepare: |site| site.write("train.py", TRACKED),
        shows: &["0.1", "baseline", "trial 1"],
        ..SHELL
    },
    Example {
        page: "docs/tracking.md",
        words: "--resume baseline",
        prepare: |site| site.write("train.py", TRACKED),
        before: "hpsearch track --name baseline -- python train.py --lr 0.1",
        after: "hpsearch show runs baseline",
        shows: &["attempt 1"],
        ..SHELL
    },
    Example {
        page: "docs/exit-codes.md",
        words: "until hpsearch run",
        prepare: |site| {
            site.write("study.toml", study("trials = 1", ONE_SLOT));
            site.write("trial.sh", held(REPORT_X));
        },
        // Busy, until somebody sleeps.
        before: "hpsearch run study.toml --plain &\n\
            while [ ! -e started ]; do sleep 0.02; done\n\
            sleep() { touch go; wait; }",
        shows: &["is being run by process", "# trial 0 of s"],
        ..SHELL
    },
    Example {
        page: "docs/files.md",
        words: "hpsearch gc --dry-run",
        prepare: |site| {
            finished("digits", site);
            // Of no trial.
            fs::create_dir_all(site.path("runs/files/digits/trial-9/checkpoints")).unwrap();
        },
        shows: &["digits ", "runs/files/digits/trial-9", "removed 1 orphaned file"],
        ..SHELL
    },
];

/// The page, words of the block, and why it is not run here. It gets no longer.
const LEFT_OUT: [(&str, &str, &str); 6] = [
    ("docs/commands.md", "argparse", "`programs` runs it"),
    ("docs/commands.md", "click", "`programs` runs it"),
    ("docs/commands.md", "hydra", "`programs` runs it"),
    ("docs/import.md", "optuna.copy_study", "a database on a server"),
    ("docs/postgres.md", "psycopg2", "a database on a server"),
    ("docs/postgres.md", "createdb", "a database on a server"),
];

const OPTUNA: Example = Example {
    needs: "optuna",
    prepare: |site| finished("quickstart", site),
    shows: &["{'x': "],
    ..PYTHON
};

const SEARCHED: &str = "[study]\nname = \"inside\"\nmetric = \"eval_loss\"\n\
    direction = \"minimize\"\n[budget]\ntrials = 1\n[space]\nlr = [0.5]\n\
    [command]\nrun = [\"python3\", \"train.py\"]\n";

const TRACKED: &str = "print('@hpsearch {\"step\": 1, \"loss\": 0.5}')\n";

/// A finished study of this name.
fn finished(name: &str, site: &Site) {
    let text = study("trials = 2", ONE_SLOT);
    site.write("study.toml", text.replace("name = \"s\"", &format!("name = \"{name}\"")));
    site.write("trial.sh", REPORT_X);
    assert_done(&site.run_study());
}

/// The only block of a page with these words.
fn block(page: &str, language: &str, words: &str) -> String {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let mut found = blocks(&text, language).into_iter().filter(|block| block.contains(words));
    let block = found.next().unwrap_or_else(|| panic!("{page}: no {language} with {words:?}"));
    assert!(found.next().is_none(), "{page}: {words:?} is in several blocks");
    block.to_owned()
}

/// Functions of the shell in which an example runs. A program waits some seconds at most until the
/// store has the end of its run, which may be longer on a busy machine.
const FUNCTIONS: &str = "show_run() {\n  \
    until hpsearch show \"$@\" > shown && grep -q complete shown; do sleep 0.05; done\n  \
    cat shown\n}";

impl Example {
    fn language(&self) -> &'static str {
        if self.line == SHELL.line { "sh" } else { "python" }
    }

    /// Starts it in a directory of its own, with `hpsearch`, `python` and the client there.
    fn start(&self, site: &Site) -> Running {
        let block = block(self.page, self.language(), self.words);
        (self.prepare)(site);
        let file = if self.language() == "sh" { "train.sh" } else { "train.py" };
        site.write(file, [self.before, &block, self.after].join("\n"));
        fs::create_dir(site.path("bin")).unwrap();
        symlink(PROGRAM, site.path("bin/hpsearch")).unwrap();
        let client = root().join("python");
        site.start_shell(&format!(
            "ln -s \"$(command -v python3)\" bin/python\n\
             export PATH=\"$PWD/bin:$PATH\" PYTHONPATH='{}' HPSEARCH_BINARY=\"$0\"\n\
             {FUNCTIONS}\n{}",
            client.display(),
            self.line
        ))
    }
}

/// Whether Python has these modules.
fn has_modules(names: &str) -> bool {
    let import = format!("import {names}");
    let has = Command::new("python3").args(["-c", &import]).output();
    has.is_ok_and(|output| output.status.success())
}

#[test]
fn each_program_and_script_of_the_pages_is_run_or_left_out_for_a_reason() {
    let listed: Vec<(&str, &str)> = EXAMPLES
        .iter()
        .map(|example| (example.page, example.words))
        .chain(LEFT_OUT.iter().map(|(page, words, _)| (*page, *words)))
        .collect();
    for (page, text) in pages() {
        for block in ["python", "sh"].into_iter().flat_map(|language| blocks(&text, language)) {
            let is_it = |(listed, words): &&(&str, &str)| {
                page == Path::new(listed) && block.contains(words)
            };
            let count = listed.iter().filter(is_it).count();
            assert_eq!(
                count,
                1,
                "{}: EXAMPLES or LEFT_OUT must name it once\n{block}",
                page.display()
            );
        }
    }
}

#[test]
fn the_programs_and_scripts_of_the_pages_run() {
    if !has_modules("sys") {
        eprintln!("skipped: no python3");
        return;
    }
    let (there, missing): (Vec<&Example>, Vec<_>) = EXAMPLES
        .iter()
        .partition(|example| example.needs == PYTHON.needs || has_modules(example.needs));
    for Example { page, needs, .. } in missing {
        eprintln!("skipped: {page}: python3 has no `{needs}`");
    }
    let sites: Vec<Site> = there.iter().map(|_| Site::empty()).collect();
    let running: Vec<Running> =
        there.iter().zip(&sites).map(|(example, site)| example.start(site)).collect();
    let mut wrong = Vec::new();
    for (example, running) in there.iter().zip(running) {
        let Ended { code, out, err } = running.end();
        let said = format!("{out}\n{err}");
        let missing: Vec<_> =
            example.shows.iter().filter(|shown| !said.contains(**shown)).collect();
        if code != 0 || !missing.is_empty() {
            wrong.push(format!("{}: code {code}, without {missing:?}\n{said}", example.page));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What was sent before the lines that a page shows.
struct Before {
    /// Words of the first of these lines.
    words: &'static str,
    arguments: &'static [&'static str],
    /// To a session that then ended.
    earlier: &'static [&'static str],
    lines: &'static [&'static str],
}

const INIT: &str = concat!(
    r#"{"cmd":"init","space":[{"name":"lr","type":"float","low":1e-5,"high":1,"log":true}],"#,
    r#""n_trials":50}"#
);
const ASK: &str = r#"{"cmd":"ask"}"#;
const REPORT: &str = r#"{"cmd":"report","id":0,"step":1,"value":0.5}"#;

const SESSIONS: [Before; 4] = [
    Before { words: "\"init\"", arguments: &[], earlier: &[], lines: &[] },
    Before { words: "\"candidates\"", arguments: &[], earlier: &[], lines: &[INIT] },
    Before {
        words: "\"open\":[{",
        arguments: &["--study", "digits"],
        earlier: &[INIT, ASK, REPORT],
        lines: &[INIT],
    },
    Before {
        words: "\"suggest\"",
        arguments: &[],
        earlier: &[],
        lines: &[r#"{"cmd":"init","space":[],"define":true}"#, ASK],
    },
];

/// What `ask-tell` answers to these lines.
fn answers(site: &Site, arguments: &[&str], lines: &[&str]) -> Vec<Json> {
    let mut command = site.command(&[&["ask-tell"], arguments].concat());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let sent = lines.iter().fold(String::new(), |sent, line| sent + line + "\n");
    child.stdin.take().unwrap().write_all(sent.as_bytes()).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_done(&ended);
    let answers = ended.json_lines();
    assert_eq!(answers.len(), lines.len(), "{}", ended.out);
    answers
}

/// Whether a value is as one that a page shows: of the same shape, and with the same words, where
/// `..` is any.
fn is_like(shown: &Json, value: &Json) -> bool {
    match (shown, value) {
        (Json::Number(_), Json::Number(_)) => true,
        (Json::String(shown), Json::String(_)) if shown == ".." => true,
        (Json::Array(shown), Json::Array(values)) => {
            shown.len() == values.len()
                && shown.iter().zip(values).all(|(shown, value)| is_like(shown, value))
        }
        (Json::Object(shown), Json::Object(values)) => {
            shown.len() == values.len()
                && shown.iter().all(|(name, shown)| {
                    values.get(name).is_some_and(|value| is_like(shown, value))
                })
        }
        _ => shown == value,
    }
}

#[test]
fn the_lines_of_ask_and_tell_are_answered_as_the_page_shows() {
    let page = fs::read_to_string(root().join("docs/ask-tell.md")).unwrap();
    let lines: Vec<&str> =
        page.lines().map(|line| line.strip_prefix("    ").unwrap_or("")).collect();
    let mut sessions: Vec<&[&str]> = lines.split(|line| !line.starts_with('{')).collect();
    sessions.retain(|session| !session.is_empty());
    assert_eq!(sessions.len(), SESSIONS.len(), "{sessions:?}");
    for (shown, before) in sessions.into_iter().zip(&SESSIONS) {
        assert!(shown[0].contains(before.words), "{shown:?}");
        let site = Site::empty();
        if !before.earlier.is_empty() {
            answers(&site, before.arguments, before.earlier);
        }
        let (sent, expected): (Vec<&str>, Vec<&str>) =
            shown.iter().partition(|line| line.starts_with("{\"cmd\""));
        let answers = answers(&site, before.arguments, &[before.lines, &sent].concat());
        for (expected, answer) in expected.iter().rev().zip(answers.iter().rev()) {
            let shown = serde_json::from_str(expected).unwrap();
            assert!(is_like(&shown, answer), "{expected}: {answer}");
        }
    }
}

#[test]
fn the_commands_within_the_text_of_ask_and_tell_are_accepted() {
    let page = fs::read_to_string(root().join("docs/ask-tell.md")).unwrap();
    let spans = page.split('`').skip(1).step_by(2);
    let commands: Vec<&str> = spans.filter(|span| span.starts_with("{\"cmd\"")).collect();
    assert!(commands.len() >= 2, "{commands:?}");
    // They are about trial 0, which is open.
    let before = [INIT, "{\"cmd\":\"ask\"}"];
    for answer in answers(&Site::empty(), &[], &[&before, &commands[..]].concat()) {
        assert!(answer.get("error").is_none(), "{answer}");
    }
}
