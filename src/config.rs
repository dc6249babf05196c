//! The study file: resolves `study.toml` to a specification, or reports all problems at once.

mod cluster;
mod command;
pub mod command_line;
mod command_metrics;
mod constraint;
mod data_overrides;
mod devices;
mod diagnostic;
mod difference;
mod enqueue;
pub mod file;
mod json;
mod objective;
mod one_training;
mod outputs;
mod overrides;
pub mod placeholder;
mod populations;
mod relocation;
mod reproducibility;
mod resolve;
mod sampler_pruner;
mod scalar;
mod schema;
mod section;
pub mod shell;
pub mod shown;
mod space;
mod space_file;
pub mod step_unit;
mod strategies;
mod suitability;
mod syntax;
mod tables;
mod trainer;
mod training_overrides;
pub mod trial_values;
mod unknown_tables;
mod yaml;

use std::io;
use std::path::{Component, Path, PathBuf};

pub use data_overrides::data_overrides;
pub use diagnostic::{Diagnostic, Diagnostics, Look, Severity, Source, SourceSpan};
pub use difference::{Change, ChangeClass, Measured, difference, difference_to_stored};
pub use json::{JsonSearch, Search};
pub use relocation::{Moved, moved};
pub use sampler_pruner::default_sampler;
pub use schema::schema;
pub use tables::{Contents, TABLES, TableSchema};
pub(crate) use trainer::{is_of_hub, of_hub};
pub use training_overrides::{TrainingOverrides, training_overrides};

use crate::arguments::data_format::format_of;
use crate::arguments::default_of;
use crate::pruners::MAX_RESOURCE;
use crate::study::program::Program;
use crate::study::spec::StudySpec;
use crate::study::step::StepUnit;
use crate::study::word::{is_composed, is_of_word};

/// The rule for names of studies, for error messages.
pub const STUDY_NAME_RULE: &str =
    "a name has up to 100 letters, digits, `-`, `_` and `.`, and begins with a letter or digit";

/// Whether `text` is valid, by [`STUDY_NAME_RULE`].
pub fn is_study_name(text: &str) -> bool {
    let fits = |char: char| is_of_word(char) || "-_.".contains(char);
    text.chars().count() <= 100
        && text.starts_with(char::is_alphanumeric)
        && text.chars().all(fits)
        && is_composed(text)
}

/// Why a study file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{}\nhelp: {}", self.message(), self.help())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is a data file, by its extension.
    #[error("{}\nhelp: {}", self.message(), self.help())]
    DataFile {
        /// The file.
        path: PathBuf,
    },
    /// It is one configuration, as `hpsearch best` prints it.
    #[error("{}\nhelp: {}", self.message(), self.help())]
    Configuration {
        /// The file.
        path: PathBuf,
    },
    /// It is not UTF-8 text.
    #[error("{}\nhelp: {}", self.message(), self.help())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Line of the first invalid byte, from 1.
        line: usize,
        /// Its position in the line in bytes, from 1.
        byte: usize,
    },
    /// It is not a valid study.
    #[error("{0}")]
    Invalid(Diagnostics),
}

impl ConfigError {
    /// The message for a terminal or a file.
    pub fn render(&self, look: Look) -> String {
        match self {
            ConfigError::Invalid(diagnostics) => diagnostics.render(look),
            other => format!("error: {}\n", shown::lines(&other.to_string())),
        }
    }

    /// The same as diagnostics.
    pub fn into_diagnostics(self) -> Diagnostics {
        let (message, help) = (self.message(), self.help());
        match self {
            ConfigError::Invalid(diagnostics) => diagnostics,
            ConfigError::Unreadable { path, .. }
            | ConfigError::DataFile { path }
            | ConfigError::Configuration { path }
            | ConfigError::NotText { path, .. } => {
                let file = Source { name: path.display().to_string(), text: String::new() };
                let start = SourceSpan { source: 0, start: 0, end: 0 };
                let problem = Diagnostic::error(start, message).help(help);
                Diagnostics::new(vec![file], vec![problem])
            }
        }
    }

    fn message(&self) -> String {
        match self {
            ConfigError::Unreadable { path, source } => {
                format!("cannot read the study file `{}`: {source}", path.display())
            }
            ConfigError::DataFile { path } => {
                format!("`{}` is a data file, not a study file", path.display())
            }
            ConfigError::Configuration { path } => format!(
                "`{}` has the values of one configuration, as `hpsearch best` prints them, and is \
                 not a study file",
                path.display()
            ),
            ConfigError::NotText { path, line, byte } => format!(
                "the study file `{}` is not UTF-8 text: byte {byte} of line {line} is not a \
                 character",
                path.display()
            ),
            ConfigError::Invalid(diagnostics) => diagnostics.summary(),
        }
    }

    fn help(&self) -> String {
        let help = match self {
            ConfigError::DataFile { path } => {
                return format!("`hpsearch init {}` writes a study file for it", path.display());
            }
            ConfigError::Configuration { .. } => {
                "`hpsearch export STUDY -o DIR` writes DIR/best.toml, which `hpsearch train` \
                 takes; or put these lines under a first [[enqueue]] of the study file, and \
                 `hpsearch train study.toml`"
            }
            ConfigError::NotText { .. } => "save it as UTF-8",
            ConfigError::Invalid(_) => "",
            ConfigError::Unreadable { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    "`hpsearch run` without a file offers to write an example"
                }
                io::ErrorKind::InvalidInput => {
                    "give the path of a study file; `/dev/stdin` reads one from a pipe"
                }
                io::ErrorKind::IsADirectory => {
                    "give the study file itself, for example `hpsearch run studies/mine.toml`"
                }
                _ => "check the file's permissions",
            },
        };
        help.to_owned()
    }
}

/// Whether a text is the output of `hpsearch best`: values outside of a study file's tables.
fn is_configuration(text: &str) -> bool {
    fn is_plain(value: &toml::Value) -> bool {
        match value {
            toml::Value::Table(nested) => nested.values().all(is_plain),
            toml::Value::Array(_) | toml::Value::Datetime(_) => false,
            _ => true,
        }
    }
    let Ok(table) = text.parse::<toml::Table>() else { return false };
    let is_of_study_file = |key: &String| tables::find(key).is_some();
    let is_printed = text.starts_with("# trial ");
    let is_misplaced = |key: &String| !is_printed && tables::owners(key).next().is_some();
    let has_scalar = table.values().any(|value| !value.is_table());
    (is_printed || has_scalar)
        && !table.is_empty()
        && table.values().all(is_plain)
        && !table.keys().any(|key| is_of_study_file(key) || is_misplaced(key))
}

/// A valid study with warnings.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The study.
    pub spec: StudySpec,
    /// Warnings, if any.
    pub warnings: Diagnostics,
    /// Problems that prevent a new study, but not the continuation of a stored one.
    pub refusals: Diagnostics,
    /// Whether the unit of steps is not the user's: a stored study keeps its own.
    pub step_is_derived: bool,
}

impl Checked {
    /// Treats the study as a new one.
    ///
    /// # Errors
    /// The problems that prevent a new study.
    pub fn begins(&self) -> Result<(), ConfigError> {
        match self.refusals.is_empty() {
            true => Ok(()),
            false => Err(ConfigError::Invalid(self.refusals.clone())),
        }
    }
}

/// Loads the study file at `path` with `overrides` (`table.key=value`). Warnings are dropped: see
/// [`load_with_warnings`].
pub fn load(path: &Path, overrides: &[String]) -> Result<StudySpec, ConfigError> {
    load_with_warnings(path, overrides).map(|checked| checked.spec)
}

/// The same with its warnings.
pub fn load_with_warnings(path: &Path, overrides: &[String]) -> Result<Checked, ConfigError> {
    load_for(path, overrides, Purpose::Search)
}

/// The same for the training of one of its configurations: what `[trainer]` fixes is not searched,
/// and there may be no `[space]`.
pub fn load_for_training(path: &Path, overrides: &[String]) -> Result<Checked, ConfigError> {
    load_for(path, overrides, Purpose::OneTraining)
}

/// What a study file is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Search,
    OneTraining,
}

fn load_for(path: &Path, overrides: &[String], purpose: Purpose) -> Result<Checked, ConfigError> {
    let refused = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let bytes = file::read(path).map_err(refused)?;
    if format_of(path).is_some_and(|(format, _)| format.has_rows()) {
        return Err(ConfigError::DataFile { path: path.to_owned() });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line_start =
            before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        ConfigError::NotText { path: path.to_owned(), line, byte: before.len() - line_start + 1 }
    })?;
    if is_configuration(&text) {
        return Err(ConfigError::Configuration { path: path.to_owned() });
    }
    let base = std::path::absolute(path).map_err(refused)?;
    let base = base.parent().unwrap_or(Path::new("/"));
    parse_for(&text, path, base, overrides, purpose).map_err(ConfigError::Invalid)
}

/// Parses a study file. `origin`: its name in messages, whose stem is the default name of the
/// study; `base_dir`: the directory to which its paths are relative. Accesses the file system only
/// to check that named files exist.
pub fn parse(
    text: &str,
    origin: &Path,
    base_dir: &Path,
    overrides: &[String],
) -> Result<StudySpec, Diagnostics> {
    parse_with_warnings(text, origin, base_dir, overrides).map(|checked| checked.spec)
}

/// The same with its warnings.
pub fn parse_with_warnings(
    text: &str,
    origin: &Path,
    base_dir: &Path,
    overrides: &[String],
) -> Result<Checked, Diagnostics> {
    parse_for(text, origin, base_dir, overrides, Purpose::Search)
}

fn parse_for(
    text: &str,
    origin: &Path,
    base_dir: &Path,
    overrides: &[String],
    purpose: Purpose,
) -> Result<Checked, Diagnostics> {
    // Editors on Windows may write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut sources = vec![Source { name: origin.display().to_string(), text: text.to_owned() }];
    let mut problems = Vec::new();
    if base_dir.to_str().is_none() {
        let name = base_dir.display();
        let problem = Diagnostic::error(
            None,
            format!("the name of the study file's directory is not UTF-8: `{name}`"),
        );
        let help = "a study keeps its paths as text: rename the directory, or reach it by a link \
            with another name";
        return Err(Diagnostics::new(sources, vec![problem.help(help)]));
    }
    let mut tree = syntax::parse(text, 0, &mut problems);
    if !problems.is_empty()
        && let Some(problem) = yaml::problem(text, &sources[0].name)
    {
        return Err(Diagnostics::new(sources, vec![problem]));
    }
    for set in overrides {
        let source = overrides::apply(&mut tree, set, sources.len(), &mut problems);
        sources.push(source);
    }
    if !problems.is_empty() {
        // If the TOML is invalid, there is nothing further to check.
        return Err(Diagnostics::new(sources, problems));
    }
    let stem = origin
        .file_stem()
        .map_or_else(|| "study".to_owned(), |stem| stem.to_string_lossy().into_owned());
    if purpose == Purpose::OneTraining {
        one_training::fix_arguments(&mut tree);
    }
    let has_failed = |problems: &[Diagnostic]| {
        problems.iter().any(|problem| problem.severity == Severity::Error)
    };
    let mut spec = resolve::resolve(&tree, &stem, base_dir, purpose, &mut problems);
    // One training may be shorter than its pruner's first rung.
    if purpose == Purpose::OneTraining
        && has_failed(&problems)
        && one_training::remove_pruner(&mut tree)
    {
        let mut others = Vec::new();
        let without = resolve::resolve(&tree, &stem, base_dir, purpose, &mut others);
        if !has_failed(&others) {
            (spec, problems) = (without, others);
        }
    }
    let failed = has_failed(&problems);
    match spec {
        Some(spec) if !failed => {
            let (warnings, refusals) =
                problems.into_iter().partition(|problem| problem.severity == Severity::Warning);
            let of_study = tree.get("study").and_then(|entry| entry.value.table());
            let is_given = of_study.is_some_and(|table| table.get("step").is_some());
            Ok(Checked {
                step_is_derived: !is_given
                    && step_unit::evaluates_by_steps(&spec.program, &spec.space),
                spec,
                warnings: Diagnostics::new(sources.clone(), warnings),
                refusals: Diagnostics::new(sources, refusals),
            })
        }
        _ => {
            if !failed {
                problems.push(
                    Diagnostic::error(None, "the study cannot be resolved")
                        .help("this is a mistake in hpsearch: please report it with the file"),
                );
            }
            Err(Diagnostics::new(sources, problems))
        }
    }
}

/// Steps of a full trial, as far as the specification says: the pruner's `max_resource`, or those
/// of the trainer.
pub fn max_resource(spec: &StudySpec) -> Option<u64> {
    let of_pruner = spec.pruner.options.get(MAX_RESOURCE.name);
    let of_pruner = of_pruner.and_then(serde_json::Value::as_u64);
    of_pruner.into_iter().chain(full_trial(spec)).min()
}

/// Steps of a full trial, if the study fixes them: the trainer's epochs or steps, in the study's
/// unit.
pub fn full_trial(spec: &StudySpec) -> Option<u64> {
    let Program::Trainer { arguments, .. } = &spec.program else { return None };
    let searched = |key: &str| spec.space.dimension(key).is_some();
    match spec.step {
        StepUnit::Epoch => {
            let stops_early = searched("max_steps")
                || arguments
                    .get("max_steps")
                    .and_then(serde_json::Value::as_i64)
                    .is_some_and(|steps| steps > 0);
            if stops_early || searched("num_train_epochs") || searched("epochs") {
                return None;
            }
            let epochs = match arguments.get("num_train_epochs") {
                Some(epochs) => epochs.as_f64()?.ceil(),
                None => default_of::<f64>("num_train_epochs").ceil(),
            };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a checked positive number, saturating"
            )]
            Some(epochs as u64)
        }
        StepUnit::Step => arguments.get("max_steps")?.as_u64().filter(|steps| *steps > 0),
        StepUnit::Samples => None,
    }
}

/// Resolves `path` against `base` and removes `.` components; `..` stays, since links may change
/// its meaning.
fn absolute(base: &Path, path: &str) -> PathBuf {
    base.join(path).components().filter(|component| *component != Component::CurDir).collect()
}
