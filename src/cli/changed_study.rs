//! How a study file differs from the study that is stored, and what the difference requires.

use std::path::Path;

use super::console::{Console, shown};
use super::overrides::sets;
use crate::config::{Change, ChangeClass};
use crate::report::wording::one_line;

/// A study whose file has changed.
#[derive(Clone, Copy)]
pub struct ChangedStudy<'a> {
    /// Its name.
    pub study: &'a str,
    /// Its file.
    pub file: &'a Path,
    /// Overrides of the file's keys.
    pub set: &'a [String],
    /// All changes.
    pub changes: &'a [Change],
    /// The consent that is missing.
    pub refused: Option<ChangeClass>,
}

impl ChangedStudy<'_> {
    /// A line for what has changed, one for each change, and one for what to do.
    pub fn lines(&self, console: &Console) -> Vec<String> {
        if self.changes.is_empty() {
            return Vec::new();
        }
        let study = one_line(self.study);
        let mut lines = vec![format!("study `{study}` changed since it was last run:")];
        lines.extend(self.changes.iter().map(|change| format!("  {change}")));
        let run = format!("run {}{}", shown(self.file), sets(self.set));
        let [accept, fork] =
            ["--accept", "--fork NAME"].map(|option| console.next(&format!("{run} {option}")));
        let is_of_data =
            |change: &Change| change.class != ChangeClass::Free && change.path.starts_with("data.");
        let is_data = self.changes.iter().any(is_of_data);
        match self.refused {
            None => {}
            Some(ChangeClass::NeedsFork) => {
                let why = match is_data {
                    true => {
                        "it cannot continue: its trials were trained and measured on other data, \
                         so values of further trials would not be comparable with theirs"
                    }
                    false => "its trials would no longer be comparable with new ones",
                };
                lines.push(format!(
                    "{why}: {fork} starts a new study without them (`warm_start = [\"{study}\"]` \
                     under [sampler] learns from them); or undo the change"
                ));
            }
            Some(_) => {
                let began =
                    if is_data { " (those that began continue with the new data)" } else { "" };
                lines.push(format!(
                    "{accept} continues with the change and keeps the trials{began}; {fork} starts \
                     a new study without them; or undo the change"
                ));
            }
        }
        lines
    }

    /// Prints them: the reason why nothing runs is an error, printed also with `-q`.
    pub fn print(&self, console: &Console) {
        for line in self.lines(console) {
            match self.refused {
                Some(_) => console.complain(&line),
                None => console.say(&line),
            }
        }
    }
}
