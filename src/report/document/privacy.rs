//! The private parts of a report, which are left out unless asked for.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;

use serde::Serialize;
use serde_json::Value as Json;

use crate::report::figure::Figure;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::provenance::{Code, Provenance};

/// A part of a report that is private.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PrivatePart {
    /// The ends of trials' logs.
    Logs,
    /// Uncommitted changes of the code, and the names of untracked files.
    Changes,
    /// Host names, absolute paths, command lines, and names of environment variables.
    Host,
}

impl PrivatePart {
    /// All of them.
    pub const ALL: [PrivatePart; 3] = [PrivatePart::Logs, PrivatePart::Changes, PrivatePart::Host];

    /// Its name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            PrivatePart::Logs => "logs",
            PrivatePart::Changes => "changes",
            PrivatePart::Host => "host",
        }
    }

    /// What is left out without it, for people.
    pub fn summary(self) -> &'static str {
        match self {
            PrivatePart::Logs => "logs of trials",
            PrivatePart::Changes => "uncommitted changes of the code, names of untracked files",
            PrivatePart::Host => {
                "host names, absolute paths, command lines, names of environment variables"
            }
        }
    }
}

/// A text that a report may contain: made by [`Privacy::public`] alone, so that no other can reach
/// a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PublicText(String);

impl PublicText {
    /// Words of the program itself.
    pub fn own_words(text: &'static str) -> Self {
        PublicText(text.to_owned())
    }
}

impl Deref for PublicText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PublicText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A figure whose texts a report may contain.
#[derive(Clone, Debug)]
pub struct PublicFigure(Figure<'static>);

impl Deref for PublicFigure {
    type Target = Figure<'static>;

    fn deref(&self) -> &Figure<'static> {
        &self.0
    }
}

/// Data whose texts a report may contain.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct PublicJson(Json);

impl Deref for PublicJson {
    type Target = Json;

    fn deref(&self) -> &Json {
        &self.0
    }
}

/// Stands for an absolute path.
const PATH: &str = "[path]";
/// Stands for a host name.
const HOST: &str = "[host]";

/// Which private parts are included, and what to look for in texts where they are not.
#[derive(Clone, Debug, Default)]
pub struct Privacy {
    included: BTreeSet<PrivatePart>,
    hosts: BTreeSet<String>,
    /// Longest first.
    directories: Vec<String>,
}

impl Privacy {
    /// Everything is shown: to the user of the machine itself.
    pub fn everything() -> Self {
        Privacy { included: PrivatePart::ALL.into_iter().collect(), ..Privacy::default() }
    }

    /// Only these private parts. `hosts` and `directories` are those of this machine; those of the
    /// studies' runs are looked up.
    ///
    /// # Errors
    /// The store failed.
    pub fn new(
        included: impl IntoIterator<Item = PrivatePart>,
        (hosts, directories): (Vec<String>, Vec<String>),
        reader: &dyn StorageReader,
        studies: &[StudySummary],
    ) -> Result<Self, StorageError> {
        let mut privacy = Privacy { included: included.into_iter().collect(), ..Self::default() };
        privacy.hosts.extend(hosts);
        let mut found: BTreeSet<String> = directories.into_iter().collect();
        for study in studies {
            privacy.hosts.extend(study.held.iter().map(|held| held.holder.host.clone()));
            let agents = reader.agents(study.id)?.into_iter();
            privacy.hosts.extend(agents.map(|agent| agent.provenance.machine.host));
            for runner in reader.runners(study.id)? {
                privacy.hosts.insert(runner.host);
                if let Some(provenance) = runner.provenance {
                    privacy.hosts.insert(provenance.machine.host);
                    found.insert(provenance.directory);
                }
            }
        }
        // `localhost` identifies no machine, and one letter occurs in any text.
        privacy.hosts.retain(|host| host.len() > 1 && host != "localhost");
        found.retain(|directory| directory.len() > 1 && directory.starts_with('/'));
        privacy.directories = found.into_iter().collect();
        privacy.directories.sort_by_key(|directory| std::cmp::Reverse(directory.len()));
        Ok(privacy)
    }

    /// Whether a part is included.
    pub fn includes(&self, part: PrivatePart) -> bool {
        self.included.contains(&part)
    }

    /// The parts that are left out.
    pub fn left_out(&self) -> impl Iterator<Item = PrivatePart> {
        PrivatePart::ALL.into_iter().filter(|part| !self.includes(*part))
    }

    /// A text without private parts.
    pub fn public(&self, text: impl AsRef<str>) -> PublicText {
        PublicText(self.text(text.as_ref()))
    }

    /// A figure without private parts in its texts.
    pub fn figure(&self, mut figure: Figure<'static>) -> PublicFigure {
        figure.title = self.text(&figure.title);
        for axis in [&mut figure.x, &mut figure.y] {
            axis.label = self.text(&axis.label);
            for (_, name) in &mut axis.names {
                *name = self.text(name);
            }
        }
        for series in &mut figure.series {
            series.name = self.text(&series.name);
        }
        if let Some(cells) = &mut figure.cells {
            cells.label = self.text(&cells.label);
        }
        PublicFigure(figure)
    }

    /// The facts of a run's provenance without private parts, by title.
    pub fn facts(&self, provenance: &Provenance) -> Vec<(String, String)> {
        let mut public = provenance.clone();
        if !self.includes(PrivatePart::Host) {
            public.command.clear();
            public.directory.clear();
            public.machine.host.clear();
            public.environment.clear();
            for file in &mut public.files {
                let name = file.path.rsplit('/').next().unwrap_or_default().to_owned();
                file.path = name;
            }
            if let Some(packages) = &mut public.packages {
                "Python".clone_into(&mut packages.interpreter);
            }
        }
        if !self.includes(PrivatePart::Changes) {
            public.files.retain(|file| file.role != "untracked");
            if let Code::Commit { untracked, .. } = &mut public.code {
                untracked.clear();
            }
        }
        let mut facts = public.short_facts();
        facts.retain(|(_, text)| !text.is_empty());
        facts
    }

    /// A text without host names and absolute paths, unless they are included.
    fn text(&self, text: &str) -> String {
        if self.includes(PrivatePart::Host) {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut before: Option<char> = None;
        while let Some(char) = rest.chars().next() {
            let length = self.private(rest, before);
            if let Some((length, stands_in)) = length {
                out.push_str(stands_in);
                before = rest[..length].chars().next_back();
                rest = &rest[length..];
            } else {
                out.push(char);
                before = Some(char);
                rest = &rest[char.len_utf8()..];
            }
        }
        out
    }

    /// How much of the beginning of a text is private, and what stands in for it.
    fn private(&self, rest: &str, before: Option<char>) -> Option<(usize, &'static str)> {
        let is_word = |char: char| char.is_alphanumeric() || char == '_' || char == '-';
        if let Some(directory) =
            self.directories.iter().find(|directory| rest.starts_with(directory.as_str()))
        {
            let after = &rest[directory.len()..];
            let end = if after.starts_with('/') { path_length(after) } else { 0 };
            return Some((directory.len() + end, PATH));
        }
        if !before.is_some_and(is_word)
            && let Some(host) = self
                .hosts
                .iter()
                .filter(|host| {
                    rest.starts_with(host.as_str()) && !rest[host.len()..].starts_with(is_word)
                })
                .max_by_key(|host| host.len())
        {
            return Some((host.len(), HOST));
        }
        let begins =
            before.is_none_or(|char| !char.is_alphanumeric() && !"/._~-])<".contains(char));
        let is_path = |char: char| char.is_alphanumeric() || "._~-".contains(char);
        if begins && rest.starts_with('/') && rest[1..].starts_with(is_path) {
            return Some((path_length(rest), PATH));
        }
        if rest.starts_with("file:///") {
            return Some((path_length(rest), PATH));
        }
        None
    }

    /// Data without private parts in its texts. Names of members are the program's own words.
    pub fn json(&self, mut json: Json) -> PublicJson {
        self.look_at(&mut json);
        PublicJson(json)
    }

    fn look_at(&self, json: &mut Json) {
        if self.includes(PrivatePart::Host) {
            return;
        }
        match json {
            Json::String(text) => *text = self.text(text),
            Json::Array(values) => values.iter_mut().for_each(|value| self.look_at(value)),
            Json::Object(members) => members.values_mut().for_each(|value| self.look_at(value)),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
}

/// The length of a path: it ends at a space, a quotation mark, punctuation or markup.
fn path_length(text: &str) -> usize {
    let from = if text.starts_with("file://") { "file://".len() } else { 0 };
    let ends = |char: char| char.is_whitespace() || "\"'`<>()[]{},;:|&".contains(char);
    text[from..].find(ends).map_or(text.len(), |end| from + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn privacy() -> Privacy {
        Privacy {
            hosts: ["gpu-7.lab".to_owned(), "gpu-7".to_owned()].into_iter().collect(),
            directories: vec!["/home/ada/my project".to_owned(), "/home/ada".to_owned()],
            ..Privacy::default()
        }
    }

    #[test]
    fn paths_and_hosts_are_taken_out_of_texts_and_nothing_else_is() {
        for (text, told) in [
            ("exit status 1: no file /home/ada/train.py", "exit status 1: no file [path]"),
            ("File \"/srv/x/train.py\", line 12", "File \"[path]\", line 12"),
            ("in /home/ada/my project/data/a.csv now", "in [path] now"),
            ("PYTHONPATH=/opt/a:/opt/b", "PYTHONPATH=[path]:[path]"),
            ("file:///srv/a.txt", "[path]"),
            ("lost on gpu-7.lab, then gpu-7", "lost on [host], then [host]"),
            ("gpu-77 and mygpu-7", "gpu-77 and mygpu-7"),
            ("<text>/tmp</text>", "<text>[path]</text>"),
            ("train/loss 3/4, 1 / 2, and/or", "train/loss 3/4, 1 / 2, and/or"),
            ("see https://example.org/a/b", "see https://example.org/a/b"),
            ("rank 9 of 12 at step 300; 4 continue", "rank 9 of 12 at step 300; 4 continue"),
            ("ä /ö/ü", "ä [path]"),
        ] {
            assert_eq!(privacy().text(text), told, "{text}");
            assert_eq!(Privacy::everything().text(text), text);
        }
    }

    #[test]
    fn every_text_of_a_json_value_is_looked_at() {
        let json = serde_json::json!({"a": ["/etc/x", 1], "c": {"b": "on gpu-7"}});
        let told = serde_json::json!({"a": ["[path]", 1], "c": {"b": "on [host]"}});
        assert_eq!(*privacy().json(json), told);
    }
}
