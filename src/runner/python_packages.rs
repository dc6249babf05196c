//! The Python packages of a command's interpreter, read from the names of their metadata
//! directories; the interpreter is not run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::disk::{entries, is_directory, name_of};

/// Most packages listed.
const MOST: usize = 10_000;

/// Bytes read of a script's first line, and of package metadata without a version in its name.
const BEGINNING: u64 = 4096;

/// Most words before the interpreter: `env A=b nice -n 5 python3 train.py`.
const WORDS: usize = 8;

/// Programs that select the interpreter by their own rules, or run it elsewhere, independently of
/// PATH.
const LAUNCHERS: [&str; 14] = [
    "conda",
    "mamba",
    "micromamba",
    "poetry",
    "pipenv",
    "pixi",
    "hatch",
    "rye",
    "pdm",
    "docker",
    "podman",
    "apptainer",
    "singularity",
    "ssh",
];

/// An interpreter and its package directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The executable.
    pub path: PathBuf,
    /// Package directories, in order of precedence.
    pub sites: Vec<PathBuf>,
}

impl Interpreter {
    /// The packages in its directories, one line each, `numpy 2.3.1`, sorted by name.
    pub fn packages(&self) -> Vec<String> {
        let mut packages = BTreeMap::new();
        for site in &self.sites {
            for (name, version) in entries(site).filter_map(|path| package(&path)) {
                if packages.len() < MOST {
                    packages.entry(name).or_insert(version);
                }
            }
        }
        packages.into_iter().map(|(name, version)| format!("{name} {version}")).collect()
    }
}

/// The interpreter that a command names, if it can be determined; `variable` reads its environment.
pub fn of_command(
    words: &[String],
    directory: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<Interpreter> {
    let first = words.first().map(|word| base(Path::new(word)).to_owned())?;
    if LAUNCHERS.contains(&first.as_str()) {
        return None;
    }
    if first == "uv" {
        return interpreter(&of_project(directory, variable)?, variable);
    }
    let named = words.iter().take(WORDS).find(|word| is_python(base(Path::new(word))));
    let path = match named {
        Some(word) => on_path(word, directory, variable)?,
        None => {
            let script = on_path(&words[0], directory, variable)?;
            let line = first_line(&script)?;
            let mut words = line.strip_prefix("#!")?.split_whitespace();
            let program = words.find(|word| is_python(base(Path::new(word))))?;
            on_path(program, directory, variable)?
        }
    };
    interpreter(&of_shim(&path, directory, variable)?, variable)
}

/// The environment of a project that `uv run` uses.
fn of_project(directory: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let own = variable("UV_PROJECT_ENVIRONMENT").map(|path| directory.join(path));
    let above = directory.ancestors().map(|directory| directory.join(".venv"));
    own.into_iter().chain(above).map(|path| path.join("bin/python")).find(|path| path.exists())
}

/// The interpreter behind a pyenv shim; itself, if it is not one.
fn of_shim(
    path: &Path,
    directory: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    if first_line(path).is_none_or(|line| !line.starts_with("#!")) {
        return Some(path.to_owned());
    }
    let shims = path.parent().filter(|parent| base(parent) == "shims")?;
    let root = shims.parent()?;
    let files = directory.ancestors().map(|directory| directory.join(".python-version"));
    let version = variable("PYENV_VERSION")
        .or_else(|| files.chain([root.join("version")]).find_map(|file| first_line(&file)))?;
    let version = version.split([':', '\n']).next()?.trim().to_owned();
    let found = root.join("versions").join(version).join("bin").join(base(path));
    found.exists().then_some(found)
}

fn interpreter(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Option<Interpreter> {
    let mut sites: Vec<PathBuf> = variable("PYTHONPATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    let bin = path.parent()?;
    let configured = [bin, bin.parent()?]
        .into_iter()
        .find_map(|prefix| Some((prefix, fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?)));
    let real = fs::canonicalize(path).ok()?;
    let version = base(&real).strip_prefix("python").filter(|version| version.contains('.'));
    match configured {
        Some((prefix, configuration)) => {
            sites.extend(sites_of(prefix, version));
            if setting(&configuration, "include-system-site-packages") == Some("true") {
                let home = setting(&configuration, "home").map(Path::new);
                sites.extend(user_site(version, variable));
                let base = home.and_then(Path::parent).into_iter();
                sites.extend(base.flat_map(|base| sites_of(base, version)));
            }
        }
        None => {
            sites.extend(user_site(version, variable));
            let prefix = real.parent().and_then(Path::parent)?;
            if prefix == Path::new("/usr") {
                // Debian keeps pip's packages separately.
                sites.extend(sites_of(Path::new("/usr/local"), version));
            }
            sites.extend(sites_of(prefix, version));
        }
    }
    Some(Interpreter { path: path.to_owned(), sites })
}

/// The package directories below a prefix, for this version of Python or any.
fn sites_of(prefix: &Path, version: Option<&str>) -> Vec<PathBuf> {
    let is_of = |name: &str| match (name.strip_prefix("python"), version) {
        (Some("3"), _) => true,
        (Some(found), Some(version)) => found == version,
        (Some(found), None) => found.starts_with('3'),
        (None, _) => false,
    };
    let mut sites = Vec::new();
    for library in ["lib", "lib64"] {
        let mut of_version: Vec<PathBuf> = entries(&prefix.join(library))
            .filter(|path| name_of(path).is_some_and(is_of))
            .flat_map(|path| ["site-packages", "dist-packages"].map(|name| path.join(name)))
            .filter(|path| path.is_dir())
            .collect();
        of_version.sort();
        // `lib64` is a link to `lib` in most environments.
        of_version.retain(|path| !sites.contains(&fs::canonicalize(path).unwrap_or_default()));
        sites.extend(of_version.iter().filter_map(|path| fs::canonicalize(path).ok()));
    }
    sites
}

fn user_site(version: Option<&str>, variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    if variable("PYTHONNOUSERSITE").is_some_and(|value| !value.is_empty()) {
        return None;
    }
    let home = || variable("HOME").map(|home| Path::new(&home).join(".local"));
    let user = variable("PYTHONUSERBASE").map(PathBuf::from).or_else(home)?;
    let site = user.join(format!("lib/python{}/site-packages", version?));
    site.is_dir().then_some(site)
}

/// The package of a metadata directory: its normalised name, and its version.
fn package(path: &Path) -> Option<(String, String)> {
    let name = name_of(path)?;
    let (package, version) = if let Some(stem) = name.strip_suffix(".dist-info") {
        let (package, version) = stem.rsplit_once('-')?;
        (package, version.to_owned())
    } else {
        let stem = name.strip_suffix(".egg-info")?;
        match stem.split_once('-') {
            Some((package, rest)) => (package, rest.split("-py").next().unwrap_or(rest).to_owned()),
            None => (stem, version_in(&path.join("PKG-INFO"))?),
        }
    };
    let is_sound = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    let normal = package.to_lowercase().replace(['_', '.'], "-");
    (is_sound(&normal) && is_sound(&version)).then_some((normal, version))
}

/// The version in the metadata.
fn version_in(path: &Path) -> Option<String> {
    let text = beginning(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Version:"))?;
    Some(line.trim().to_owned())
}

/// The path of a command line's program.
fn on_path(
    word: &str,
    directory: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.is_file() && !is_directory(path);
    if word.contains('/') {
        return Some(directory.join(word)).filter(is_program);
    }
    let path = variable("PATH")?;
    std::env::split_paths(&path).map(|place| directory.join(place).join(word)).find(is_program)
}

fn is_python(name: &str) -> bool {
    let version = name.strip_prefix("python");
    version.is_some_and(|rest| rest.chars().all(|char| char.is_ascii_digit() || char == '.'))
}

fn base(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn setting<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let mut values = pairs.filter(|(name, _)| name.trim() == key);
    values.next().map(|(_, value)| value.trim())
}

fn first_line(path: &Path) -> Option<String> {
    beginning(path)?.lines().next().map(str::to_owned)
}

/// The beginning of a file as text.
fn beginning(path: &Path) -> Option<String> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BEGINNING).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A base installation with a virtual environment, and `/bin/sh` as interpreter.
    struct Site(tempfile::TempDir);

    impl Site {
        fn new() -> Site {
            let site = Site(tempfile::tempdir().unwrap());
            site.write("base/bin/python3.11", "\x7fELF");
            site.package("base/lib/python3.11/site-packages/numpy-1.0.dist-info");
            site.package("base/lib/python3.10/site-packages/old-1.0.dist-info");
            fs::create_dir_all(site.path("venv/bin")).unwrap();
            symlink(site.path("base/bin/python3.11"), site.path("venv/bin/python3")).unwrap();
            site.configure("false");
            for name in ["Torch_Audio-2.9.0+cu128.dist-info", "PyYAML-6.0-py3.11.egg-info"] {
                site.package(&format!("venv/lib/python3.11/site-packages/{name}"));
            }
            site.write(
                "venv/lib/python3.11/site-packages/mine.egg-info/PKG-INFO",
                "Name: mine\nVersion: 0.3\n",
            );
            site.write(
                "venv/bin/torchrun",
                &format!("#!{}\n", site.path("venv/bin/python3").display()),
            );
            site
        }

        fn path(&self, below: &str) -> PathBuf {
            self.0.path().join(below)
        }

        fn write(&self, below: &str, text: &str) {
            fs::create_dir_all(self.path(below).parent().unwrap()).unwrap();
            fs::write(self.path(below), text).unwrap();
        }

        fn package(&self, below: &str) {
            fs::create_dir_all(self.path(below)).unwrap();
        }

        fn configure(&self, system: &str) {
            let home = self.path("base/bin").display().to_string();
            let text = format!("home = {home}\ninclude-system-site-packages = {system}\n");
            self.write("venv/pyvenv.cfg", &text);
        }

        fn packages(&self, words: &[&str]) -> Option<Vec<String>> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let path = format!("{}:/nowhere", self.path("venv/bin").display());
            let variable = |name: &str| (name == "PATH").then(|| path.clone());
            of_command(&words, self.0.path(), &variable).map(|found| found.packages())
        }
    }

    #[test]
    fn packages_of_an_environment_are_named_by_their_metadata() {
        let site = Site::new();
        let own = ["mine 0.3", "pyyaml 6.0", "torch-audio 2.9.0+cu128"].map(str::to_owned);
        for words in [
            &["python3", "train.py"][..],
            &["env", "A=b", "python3", "-m", "train"],
            &["venv/bin/python3"],
            &["torchrun", "--nproc", "2", "train.py"],
        ] {
            assert_eq!(site.packages(words).as_deref(), Some(&own[..]), "{words:?}");
        }
        site.configure("true");
        let all = site.packages(&["python3"]).unwrap();
        assert_eq!(all[1..3], ["numpy 1.0".to_owned(), own[1].clone()]);
        assert!(!all.contains(&"old 1.0".to_owned()), "{all:?}");
    }

    #[test]
    fn an_interpreter_without_an_environment_has_its_own_packages() {
        let site = Site::new();
        assert_eq!(site.packages(&["base/bin/python3.11"]), Some(vec!["numpy 1.0".to_owned()]));
    }

    #[test]
    fn where_the_interpreter_is_not_known_there_is_no_list() {
        let site = Site::new();
        site.write("venv/bin/train.sh", "#!/bin/sh\n");
        for words in [&["train.sh"][..], &["conda", "run", "python3"], &["missing"], &[]] {
            assert_eq!(site.packages(words), None, "{words:?}");
        }
    }
}
