//! Warnings about files that a study's command needs and that are missing.

use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::placeholder::{ArgumentPiece, fill_in, pieces};
use crate::config::shown::one_line;
use crate::study::program::Program;
use crate::study::spec::StudySpec;
use crate::study::suggestion::nearest;

/// Suffixes of scripts.
const SCRIPTS: [&str; 11] =
    [".py", ".sh", ".bash", ".R", ".r", ".jl", ".js", ".mjs", ".pl", ".rb", ".lua"];
/// Suffixes of input files.
const INPUTS: [&str; 14] = [
    ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".txt",
    ".parquet", ".npz", ".npy", ".h5",
];
/// Programs whose first argument is a script, whatever its name.
const INTERPRETERS: [&str; 10] =
    ["python", "pypy", "sh", "bash", "dash", "zsh", "Rscript", "julia", "node", "perl"];
/// Options before an argument that is program text or a module's name rather than a file.
const TEXTS: [&str; 4] = ["-c", "-e", "-m", "--eval"];
/// Parts of the names of options for output files.
const OUTPUTS: [&str; 8] = ["out", "save", "log", "result", "write", "dump", "export", "to"];

/// A warning about a missing file of a command.
#[derive(Clone, Debug)]
pub struct MissingFile {
    /// Which file, and the directory.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl fmt::Display for MissingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warning: {}\nhelp: {}", self.message, self.help)
    }
}

/// Warnings about missing files of a command: its program, its script, and arguments similar to an
/// existing file's name.
pub fn missing_files(spec: &StudySpec) -> Vec<MissingFile> {
    let Program::Command { run, cwd, .. } = &spec.program else { return Vec::new() };
    let knows = |name: &str| spec.space.dimension(name).is_some();
    // Values of parameters are not known yet.
    let fixed = |word: &String| {
        let is_fixed =
            pieces(word, knows).iter().all(|piece| matches!(piece, ArgumentPiece::Text(_)));
        is_fixed.then(|| fill_in(word, knows, str::to_owned))
    };
    let words: Vec<Option<String>> = run.iter().map(fixed).collect();
    let mut warnings: Vec<MissingFile> =
        missing_program(spec, words.first().and_then(Option::as_deref)).into_iter().collect();
    let script = script(&words);
    if let Some(script) =
        script.and_then(|index| words[index].as_deref()).filter(|script| !cwd.join(script).exists())
    {
        let help = match neighbour(cwd, script) {
            Some(near) => format!("did you mean `{}`?", one_line(&near)),
            None => where_to_look(cwd, script),
        };
        let message = format!(
            "there is no `{}` in {}, so every trial would fail",
            one_line(script),
            cwd.display()
        );
        warnings.push(MissingFile { message, help });
    }
    for (index, word) in
        words.iter().enumerate().filter(|(index, _)| *index > 0 && Some(*index) != script)
    {
        let Some(word) = word else { continue };
        let before = words[index - 1].as_deref().unwrap_or_default();
        let (option, file) = word
            .split_once('=')
            .filter(|(option, _)| option.starts_with('-'))
            .unwrap_or((before, word));
        let is_output = option.starts_with('-')
            && option
                .split(['-', '_'])
                .any(|part| OUTPUTS.iter().any(|output| part.starts_with(output)));
        if is_output
            || TEXTS.contains(&option)
            || file.contains("://")
            || !INPUTS.iter().any(|end| file.ends_with(end))
            || cwd.join(file).exists()
        {
            continue;
        }
        // Programs write files too: only probable typos are reported.
        if let Some(near) = neighbour(cwd, file) {
            let (file, near) = (one_line(file), one_line(&near));
            let message = format!("there is no `{file}` in {}", cwd.display());
            warnings.push(MissingFile { message, help: format!("did you mean `{near}`?") });
        }
    }
    warnings
}

/// The script argument: the first one named like a script, or the first of an interpreter.
fn script(words: &[Option<String>]) -> Option<usize> {
    let word = |index: usize| words.get(index).and_then(|word| word.as_deref());
    let program = word(0).and_then(|program| Path::new(program).file_name()?.to_str());
    let interprets = program.is_some_and(|program| {
        INTERPRETERS
            .contains(&program.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.'))
    });
    if interprets
        && word(1)
            .is_some_and(|first| !first.starts_with('-') && !first.contains(char::is_whitespace))
    {
        return Some(1);
    }
    (1..words.len())
        .take_while(|index| !word(index - 1).is_some_and(|before| TEXTS.contains(&before)))
        .find(|index| {
            word(*index).is_some_and(|word| {
                !word.starts_with('-') && SCRIPTS.iter().any(|end| word.ends_with(end))
            })
        })
}

/// An existing file whose name is almost that of a missing one; different numbers are not typos.
fn neighbour(cwd: &Path, missing: &str) -> Option<String> {
    const MOST_FILES: usize = 10_000;
    let path = Path::new(missing);
    let name = path.file_name()?.to_str()?;
    let letters =
        |name: &str| name.chars().filter(|char| !char.is_ascii_digit()).collect::<String>();
    let files = cwd.join(path).parent()?.read_dir().ok()?.take(MOST_FILES).flatten();
    let mut names: Vec<String> =
        files.filter_map(|file| file.file_name().into_string().ok()).collect();
    names.retain(|other| {
        Path::new(other).extension() == path.extension() && letters(other) != letters(name)
    });
    names.sort();
    let near = nearest(name, names.iter().map(String::as_str))?;
    Some(path.with_file_name(near).display().to_string())
}

/// The advice about a relative path that leads nowhere: the `cwd` in which it is a file, if one of
/// the directories above is.
fn where_to_look(cwd: &Path, missing: &str) -> String {
    const MOST_LEVELS: usize = 3;
    let mut above = (1..=MOST_LEVELS).zip(cwd.ancestors().skip(1));
    let found = above.find(|(_, directory)| directory.join(missing).is_file());
    match found.filter(|_| Path::new(missing).is_relative()) {
        Some((levels, directory)) => format!(
            "there is one in {}: write `cwd = \"{}\"` under [command]",
            directory.display(),
            vec![".."; levels].join("/")
        ),
        None => {
            "check `run` and `cwd` in [command]; without `cwd`, it is the study file's directory"
                .to_owned()
        }
    }
}

/// The warning about a missing program, with which every trial would fail.
fn missing_program(spec: &StudySpec, program: Option<&str>) -> Option<MissingFile> {
    let Program::Command { cwd, env, .. } = &spec.program else { return None };
    let program = program?;
    let runs = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let warning = |where_: &str, help: &str| {
        let message =
            format!("there is no program `{program}` {where_}, so every trial would fail");
        Some(MissingFile { message, help: help.to_owned() })
    };
    let not_executable = |path: &Path| {
        let path = path.display();
        Some(MissingFile {
            message: format!("`{path}` is not executable, so every trial would fail"),
            help: format!(
                "`chmod +x {path}`, or name the interpreter first: run = [\"python3\", \
                 \"{program}\"]"
            ),
        })
    };
    if program.contains('/') {
        let path = cwd.join(program);
        if runs(&path) {
            return None;
        }
        if path.is_file() {
            return not_executable(&path);
        }
        if let Err(error) = path.metadata()
            && error.kind() == ErrorKind::PermissionDenied
        {
            let message =
                format!("`{}` cannot be used, so every trial would fail: {error}", path.display());
            let help = "`namei -l` shows the owners and modes of its directories".to_owned();
            return Some(MissingFile { message, help });
        }
        return warning(&format!("in {}", cwd.display()), &where_to_look(cwd, program));
    }
    let search = env
        .get("PATH")
        .and_then(|path| path.get())
        .map(OsString::from)
        .or_else(|| std::env::var_os("PATH"))?;
    let places: Vec<PathBuf> =
        std::env::split_paths(&search).map(|directory| cwd.join(directory).join(program)).collect();
    if places.iter().any(|path| runs(path)) {
        return None;
    }
    if let Some(path) = places.iter().find(|path| path.is_file()) {
        return not_executable(path);
    }
    let beside = cwd.join(program);
    let help = if runs(&beside) {
        format!("write \"./{program}\" for the one beside the study")
    } else if beside.is_file() {
        format!(
            "`chmod +x {}`, and write \"./{program}\" for this one beside the study",
            beside.display()
        )
    } else {
        "install it, or check `run` in [command]".to_owned()
    };
    warning("on PATH", &help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn study(directory: &Path, run: &str, space: &str) -> StudySpec {
        let text = format!(
            "[study]\nmetric = \"loss\"\ndirection = \"minimize\"\n[budget]\ntrials = \
             3\n[command]\nrun = [{run}]\n[space]\n{space}\n"
        );
        config::parse(&text, Path::new("s.toml"), directory, &[])
            .unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn a_script_that_is_not_there_is_told_with_the_one_that_was_meant() {
        let directory = tempfile::tempdir().unwrap();
        for file in ["train.py", "conf.yaml", "part-1.csv", "search"] {
            std::fs::write(directory.path().join(file), "").unwrap();
        }
        let warnings = |run: &str| {
            missing_files(&study(directory.path(), run, "x = { float = [0, 1] }"))
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n")
        };
        let train = "so every trial would fail\nhelp: did you mean `train.py`?";
        for (run, end) in [
            (r#""sh", "trian.py", "{x}""#, train),
            (r#""sh", "-u", "trian.py", "{x}""#, train),
            (r#""env", "A=1", "sh", "trian.py", "{x}""#, train),
            (r#""sh", "serach""#, "help: did you mean `search`?"),
            (
                r#""sh", "elsewhere/other.py""#,
                "help: check `run` and `cwd` in [command]; without `cwd`, it is the study file's \
                 directory",
            ),
            (r#""sh", "train.py", "--config=cnof.yaml""#, "help: did you mean `conf.yaml`?"),
            (r#""sh", "train.py", "--config", "cnof.yaml""#, "help: did you mean `conf.yaml`?"),
        ] {
            let said = warnings(run);
            assert!(said.contains("there is no `") && said.ends_with(end), "{run}: {said}");
        }
        // A study file that was moved away from its script.
        let moved = directory.path().join("studies/new");
        std::fs::create_dir_all(&moved).unwrap();
        let moved = study(&moved, r#""sh", "train.py""#, "x = { float = [0, 1] }");
        let said = missing_files(&moved).iter().map(ToString::to_string).collect::<String>();
        assert!(said.ends_with("write `cwd = \"../..\"` under [command]"), "{said}");
        // A program on PATH that may not be executed.
        let path = directory.path().display();
        let spec = format!("x = {{ float = [0, 1] }}\n[command.env]\nPATH = \"{path}\"");
        let said = missing_files(&study(directory.path(), r#""search""#, &spec));
        let said = said.iter().map(ToString::to_string).collect::<String>();
        let wanted = ["search` is not executable", "`chmod +x "];
        assert!(wanted.iter().all(|part| said.contains(part)), "{said}");
        let fine = [
            r#""sh", "train.py", "--config", "conf.yaml""#,
            r#""sh", "search""#,
            // Output files, parameters, program text, and the next file of a series.
            r#""sh", "train.py", "--save-config", "cnof.yaml""#,
            r#""sh", "train{x}.py""#,
            r#""sh", "-c", "python trian.py""#,
            r#""sh", "-m", "trian.py""#,
            r#""sh", "train.py", "part-2.csv""#,
            r#""sh", "train.py", "https://example.org/conv.yaml""#,
        ];
        for run in fine {
            assert_eq!(warnings(run), "", "{run}");
        }
    }
}
