//! The remedies for errors of use cases.

use super::{AppError, Standing};
use crate::config::{STUDY_NAME_RULE, shell};
use crate::report::wording::{exportable, one_line};
use crate::runner::RunnerError;
use crate::study::counted::count;
use crate::study::suggestion::{nearest_few, quoted};
use crate::study::tag::TAG_RULE;
use crate::study::tracked::MovedRun;

/// The remedy for an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A sentence.
    Text(String),
    /// A command to type next.
    Command {
        /// Its words, without the program and the store.
        words: String,
        /// What it does.
        does: &'static str,
    },
}

impl Remedy {
    /// The text, with the option that names the store, ` --store PATH`, or nothing.
    pub fn in_words(&self, store: &str) -> String {
        match self {
            Remedy::Text(text) => text.clone(),
            Remedy::Command { words, does } => format!("`hpsearch {words}{store}` {does}"),
        }
    }
}

impl AppError {
    /// The remedy, unless the message or its cause includes it.
    pub fn remedy(&self) -> Option<Remedy> {
        let text = |text: &str| Some(Remedy::Text(text.to_owned()));
        let said = |text: String| Some(Remedy::Text(text));
        match self {
            AppError::UnknownStudy { names, .. } if names.is_empty() => {
                text("the store holds no study yet: `hpsearch run study.toml` starts one")
            }
            AppError::UnknownStudy { name, near: Some(near), names } => {
                let others = match names.len() {
                    1 => String::new(),
                    _ => format!(" There are {}", listed(name, names)),
                };
                said(format!("did you mean `{}`?{others}", one_line(near)))
            }
            AppError::UnknownStudy { names, .. } if names.len() == 1 => {
                said(format!("there is `{}`", one_line(&names[0])))
            }
            AppError::UnknownStudy { name, names, .. } => {
                said(format!("there are {}", listed(name, names)))
            }
            AppError::NeverRun { name, file, names } => {
                let others = match names.as_slice() {
                    [] => String::new(),
                    names => format!("; the store {}", held(name, names)),
                };
                let file = shell::quoted(&[file.display().to_string()]);
                said(format!("`hpsearch run {file}` starts it{others}"))
            }
            AppError::UnfitNote { .. } => {
                text("write for example `hpsearch note digits 7 -m \"best so far\"`")
            }
            AppError::NoTag { .. } => said(format!("tags are {TAG_RULE}")),
            AppError::EndedAlready { study, trial, .. } => Some(Remedy::Command {
                words: format!("explain {} {trial}", one_line(study)),
                does: "says how it ended",
            }),
            AppError::NoRunRuns { .. } => None,
            AppError::EmptyStore => text("`hpsearch run study.toml` starts one"),
            AppError::SeveralStudies { names } => {
                said(format!("there are {}: name one after the verb", listed("", names)))
            }
            AppError::StoreAsFile { .. } => text("name a study, or the file it is run from"),
            AppError::NoTrialWord { near: Some(near), .. } => {
                said(format!("did you mean `{}`?", one_line(near)))
            }
            AppError::NoTrialWord { has_names: true, study, .. } => {
                said(format!("`hpsearch trials {}` lists its runs", one_line(study)))
            }
            AppError::NoTrialWord { .. } => {
                text("trials are written like `7`, `3,5` or `0-4`; the study comes before them")
            }
            AppError::TooManyTrials { .. } => text("name fewer"),
            AppError::UnknownTrial { moved: Some(MovedRun { study, run }), .. } => said(format!(
                "it was moved to `{0}`, where it became run {run}: `{0}/{run}`",
                one_line(study)
            )),
            AppError::UnknownTrial { is_removed: true, .. } => {
                text("it was removed; run numbers are not reused")
            }
            AppError::UnknownTrial { last: None, .. } => text("the study has no trials"),
            AppError::UnknownTrial { trials, last: Some(last), .. } => {
                said(format!("it has {}, the last is {last}", count(*trials, "trial")))
            }
            AppError::StudyOrRun { study, word } => {
                said(format!("write `{}/{}` for the latter", one_line(study), one_line(word)))
            }
            AppError::RunNeeded { by, trial, .. } => said(format!(
                "wait until that trial has ended and no longer needs it, or remove trial {trial} \
                 of `{}` first",
                one_line(by)
            )),
            AppError::SearchNotMoved { .. } => text(
                "`hpsearch rm STUDY TRIAL` hides a trial; `hpsearch mv STUDY NEW` renames a study",
            ),
            AppError::MovedToItself { .. } => text("name another study with `--to`"),
            AppError::OtherGoal { .. } => {
                text("name another study with `--to`; it is created if it does not exist")
            }
            AppError::ForeignFiles { .. } => text(
                "the marker `.hpsearch-store` of its study's directory is missing or names another \
                 store, as after a backup was restored: move them aside by hand, and try again",
            ),
            AppError::NotMoved { .. } => {
                text("make both directories writable; `hpsearch gc` then tries again")
            }
            AppError::NotRunning { .. } => {
                Some(Remedy::Command { words: "ls".to_owned(), does: "shows which studies run" })
            }
            AppError::NoBestTrial { nearest: Some((trial, reason)), .. } => {
                said(format!("trial {trial} comes nearest: {}", one_line(reason)))
            }
            AppError::NoBestTrial { unreported: Some(_), .. } => text(
                "`--metric` of the study's first run sets its metric; track runs with another \
                 metric in a separate study",
            ),
            AppError::NoBestTrial { study, standing: Some(standing), .. } => {
                let Standing { trial, stands } = standing.as_ref();
                said(format!(
                    "trial {trial} is ahead, with {}; `hpsearch show {} {trial}` shows it",
                    one_line(stands),
                    one_line(study)
                ))
            }
            AppError::NoBestTrial { study, .. } => {
                let words = format!("trials {}", one_line(study));
                Some(Remedy::Command { words, does: "shows where they stand" })
            }
            AppError::NoCheckpoint { others, .. } => match exportable(others) {
                Some(others) => said(others),
                None => text("export the best trial, or set keep = \"all\" before the study runs"),
            },
            AppError::NotQuantizable { .. } => text("export it without `quantize`"),
            AppError::NotOfTheTrainer => text("`hpsearch run` runs it"),
            AppError::NoReport { between_epochs: true } => text(
                "`step = \"step\"` under [study] (in a best.toml: `clock = \"step\"`) reports all \
                 evaluations of `eval_strategy = \"steps\"`",
            ),
            AppError::NoReport { between_epochs: false } => text(
                "its `[trainer]` arguments must allow at least one evaluation: check \
                 num_train_epochs, max_steps and eval_strategy",
            ),
            AppError::NoConfiguration { .. } => {
                text("`hpsearch show` lists the parameters with their ranges; nothing was enqueued")
            }
            AppError::Tried { .. } => text("`--again` runs them once more"),
            AppError::ExportAtTheEnd(_) => {
                text("`[export] dir` in the study file sets the directory of the export at the end")
            }
            AppError::NotServed(RunnerError::Storage(error)) => said(format!(
                "the request is kept, and served when the study runs; {}",
                error.remedy()
            )),
            AppError::NotServed(_) => text("the request is kept, and served when the study runs"),
            AppError::Storage(error) | AppError::Runner(RunnerError::Storage(error)) => {
                said(error.remedy())
            }
            AppError::WarmStartUnreadable { .. } => {
                text("name a store of hpsearch, or remove the entry")
            }
            AppError::WarmStartUnknown { .. } => {
                text("write the name of a study, `store.db`, or `store.db:study`")
            }
            AppError::WarmStartEmpty { .. } => text(
                "remove it, or name a study with complete trials and parameters of the same names",
            ),
            AppError::Tracking(error) => said(error.remedy()),
            AppError::Sync(error) => said(error.remedy().to_owned()),
            AppError::Import(error) => text(error.remedy()),
            AppError::Conversion(error) => said(error.remedy()),
            AppError::OptunaDatabase(_) => text(
                "name the file of an `RDBStorage`, as in `sqlite:///optuna.db`, `optuna.db` or \
                 `optuna:optuna.db#study`",
            ),
            AppError::OptunaStudies { .. } => text(
                "name one of its studies, as in `optuna:optuna.db#study`; without a name, all of \
                 them are imported, each under its own name",
            ),
            AppError::NoStudyName { .. } => text(STUDY_NAME_RULE),
            AppError::SameName { .. } => text("write a different name after it"),
            AppError::CopyOfRemoved { .. } => text(
                "`hpsearch mv STUDY RUN.. --to OTHER` moves its runs to a new study, which can be \
                 copied",
            ),
            AppError::CopyExists { study, store, .. } => said(format!(
                "`hpsearch mv {} --store {}` renames that one: then copy this one again",
                shell::quoted(&[study.clone(), "NEW-NAME".to_owned()]),
                shell::quoted(&[store.display().to_string()])
            )),
            AppError::CopyDiffers { .. } => text(
                "check both stores with `hpsearch doctor`; if it finds no fault, please report \
                 this as a bug",
            ),
            AppError::NoMatch { names, .. } if names.is_empty() => {
                text("the store holds no study yet: `hpsearch run study.toml` starts one")
            }
            AppError::NoMatch { patterns, names } => said(format!(
                "there are {}; in a pattern `*` stands for any characters, `?` for one",
                listed(patterns.first().map_or("", String::as_str), names)
            )),
            AppError::StudyFile(_)
            | AppError::Runner(_)
            | AppError::Export(_)
            | AppError::Job(_)
            | AppError::Slots(_)
            | AppError::Io(_)
            | AppError::Json(_) => None,
        }
    }

    /// The message with its remedy.
    pub fn with_remedy(&self) -> String {
        let remedy = self.remedy().map(|remedy| remedy.in_words(""));
        remedy.map_or_else(|| self.to_string(), |remedy| format!("{self}: {remedy}"))
    }
}

/// Maximum number of studies that a message names.
const NAMED: usize = 10;

/// The names, or the most similar ones to `name` of many.
fn listed(name: &str, names: &[String]) -> String {
    let all = names.iter().map(String::as_str);
    let Some(more) = names.len().checked_sub(NAMED).filter(|more| *more > 0) else {
        return one_line(&quoted(all));
    };
    let few = one_line(&quoted(nearest_few(name, all, NAMED)));
    format!("{few} and {more} more, which `hpsearch ls --all` lists")
}

pub(super) fn held(name: &str, names: &[String]) -> String {
    if names.is_empty() {
        "holds no study yet".to_owned()
    } else {
        format!("holds {}", listed(name, names))
    }
}
