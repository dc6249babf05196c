//! What `run` and `check` say of a study file, and `run` before its runner starts.

use std::path::Path;

use crate::app::check_study::CheckNotice;
use crate::app::reconcile::JudgedAgain;
use crate::app::run_study::RunNotice;
use crate::cli::changed_study::ChangedStudy;
use crate::cli::console::{Console, Talk, shown};
use crate::cli::exported;
use crate::cli::waiting::listener;
use crate::cli::warm_start;
use crate::config::Moved;
use crate::report::wording::{extension, named_trials, one_line};
use crate::runner::ownership::Taken;
use crate::storage::Holder;
use crate::study::budget::Extension;
use crate::study::counted::count;

/// Prints notices, and shows progress between them.
pub struct Notices<'a> {
    file: &'a Path,
    set: &'a [String],
    console: &'a Console,
}

impl<'a> Notices<'a> {
    /// Of the study of a file with overrides.
    pub fn new(file: &'a Path, set: &'a [String], console: &'a Console) -> Self {
        Notices { file, set, console }
    }

    /// Prints each notice that it is given.
    pub fn teller(&self) -> impl FnMut(RunNotice<'_>) {
        let mut progress = None;
        move |notice| match notice {
            RunNotice::File(CheckNotice::Progress(step)) => {
                progress.get_or_insert_with(|| listener(self.console))(step)
            }
            other => {
                // Removes the line of the step before.
                drop(progress.take());
                self.tell(other);
            }
        }
    }

    fn tell(&self, notice: RunNotice<'_>) {
        let console = self.console;
        match notice {
            RunNotice::File(notice) => self.tell_of_file(notice),
            RunNotice::BrokenDevice(trouble) => console.say(&format!("warning: {trouble}")),
            RunNotice::Store { path, is_new, other_name, migrated } => {
                let path = one_line(&path.display().to_string());
                console.mention(&format!("store: {path}{}", if is_new { " (new)" } else { "" }));
                console.warn_of_other_name(other_name);
                console.print_migration(migrated);
            }
            RunNotice::Judged(changed) => console.say(&judged(changed)),
            RunNotice::TakenOver(Some(Holder { pid, host, .. })) => {
                console.say(&format!("taken over from process {pid} on `{}`", one_line(host)))
            }
            RunNotice::TakenOver(None) => {
                console.say("--take-over: no process of another host holds the study")
            }
            RunNotice::ChangedProgram { files, complete } => self.changed_program(files, complete),
            RunNotice::OtherDirectory { directory, usual, taken } => console.say(&format!(
                "files of trials go to {}: `{usual}` beside it {}",
                shown(directory),
                self.in_words(taken)
            )),
            RunNotice::MissingCheckpoints(gone, of) => console.say(&format!(
                "{} of {} missing, and forgotten: a trial that needs one begins again",
                count(gone, "checkpoint"),
                named_trials(of)
            )),
            RunNotice::StartAgents(file) => console.say(&format!(
                "start agents on other machines with `hpsearch agent {}`",
                file.display()
            )),
        }
    }

    /// Prints a notice about a study file.
    pub fn tell_of_file(&self, notice: CheckNotice<'_>) {
        let console = self.console;
        match notice {
            CheckNotice::Warnings(warnings) => console.warn(warnings),
            CheckNotice::Device(remark) => console.say(remark),
            CheckNotice::UnnamedParameters(note) => console.mention(&format!("note: {note}")),
            CheckNotice::Steps(note) => console.say(&format!("note: {note}")),
            CheckNotice::Extended(by) => self.extended(by),
            CheckNotice::Relocated(Moved { from, to }) => {
                let how = if from.exists() { "copied" } else { "moved" };
                let (from, to) = (from.display(), to.display());
                console.say(&format!("the project was {how} from {from} to {to}"));
            }
            CheckNotice::Changed { changes, refused, spec } => {
                let Notices { file, set, .. } = *self;
                ChangedStudy { study: &spec.name, file, set, changes, refused }.print(console);
            }
            CheckNotice::EditedExport(edited) => exported::warn_edited_export(edited, console),
            CheckNotice::WarmStart(found, spec) => console.say(&warm_start::in_words(found, spec)),
            CheckNotice::MissingFile(missing) => console.say(&missing.to_string()),
            CheckNotice::Data { finding, is_known } => {
                if !is_known || console.talk == Talk::Verbose {
                    console.say(&format!("data: {finding}"));
                }
            }
            CheckNotice::Progress(_) => {}
        }
    }

    /// Whose the usual directory is, and what to do where that is anything.
    fn in_words(&self, taken: &Taken) -> String {
        match taken {
            Taken::ByRemoved { study } => format!(
                "still has files of the study `{}`, which was removed: {} removes them",
                one_line(study),
                self.console.next("gc")
            ),
            Taken::ByStudy { study } => {
                format!("has the files of the study `{}`", one_line(study))
            }
            Taken::ByStore { path } => {
                let path = one_line(&path.display().to_string());
                format!("belongs to another store, which was last run as `{path}`")
            }
            Taken::ByCopyOf { name } => {
                format!("is a copy of the directory `{}`, or was renamed", one_line(name))
            }
            Taken::Unreadable => "has a store's marker that cannot be read".to_owned(),
            Taken::ByData => "holds tokenised data".to_owned(),
            Taken::Unmarked => {
                "has files and no store's marker, so their owner is unknown".to_owned()
            }
        }
    }

    fn extended(&self, by: Extension) {
        if by.is_nothing() {
            return;
        }
        let more = extension(by);
        let set = self.set;
        let take_back = if set.iter().any(|word| word.trim_start().starts_with("budget.")) {
            format!("; `--set` is raised by it too: set {more} less to take it back")
        } else {
            String::new()
        };
        self.console.say(&format!(
            "budget: {more} more than the file says, by `hpsearch extend`{take_back}"
        ));
    }

    fn changed_program(&self, files: &[&str], complete: u64) {
        let names: Vec<String> =
            files.iter().map(|file| format!("`{}`", one_line(&shown(Path::new(file))))).collect();
        let earlier = match complete {
            0 => String::new(),
            _ => format!(
                ": {} may be of an earlier version; `--fork NAME` starts a new study",
                count(complete, "complete trial"),
            ),
        };
        self.console.say(&format!("{} changed since the last run{earlier}", names.join(", ")));
    }
}

/// What changed limits change for complete trials.
fn judged(JudgedAgain { keep, violate }: JudgedAgain) -> String {
    let verb = |number: u64, one: &str, several: &str| {
        format!(
            "{} now {}",
            count(number, "complete trial"),
            if number == 1 { one } else { several }
        )
    };
    let kept = (keep > 0).then(|| verb(keep, "keeps them", "keep them"));
    let violated = (violate > 0).then(|| verb(violate, "violates them", "violate them"));
    match (kept, violated) {
        (None, None) => {
            "limits changed: every complete trial satisfies or violates them as before".to_owned()
        }
        (kept, violated) => {
            let both: Vec<String> = kept.into_iter().chain(violated).collect();
            format!("limits changed: {}", both.join(", "))
        }
    }
}
