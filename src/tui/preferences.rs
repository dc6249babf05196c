//! What people chose on the screens, kept from one session to the next in one small file for all
//! studies.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::columns::Choices;

/// Where the choices for one study are kept.
#[derive(Clone, Debug)]
pub struct Preferences {
    file: Option<PathBuf>,
    /// Which study: its store's real path and its name, a line each. Studies of different stores
    /// often have one name.
    key: String,
}

impl Preferences {
    /// `$XDG_STATE_HOME/hpsearch/screens.json`, by default below `~/.local/state`; without a home
    /// nothing is kept.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
        store: &Path,
        study: &str,
    ) -> Self {
        let given =
            |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")));
        let store = fs::canonicalize(store)
            .or_else(|_| std::path::absolute(store))
            .unwrap_or_else(|_| store.to_owned());
        let key = format!("{}\n{study}", store.display());
        Preferences { file: state.map(|state| state.join("hpsearch/screens.json")), key }
    }

    /// What was kept; nothing if the file is missing or is none of ours.
    pub fn load(&self) -> Choices {
        self.all().remove(&self.key).unwrap_or_default()
    }

    /// Keeps `choices` for the next time.
    pub fn keep(&self, choices: &Choices) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut all = self.all();
        all.insert(self.key.clone(), choices.clone());
        let text = serde_json::to_string_pretty(&all)?;
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
        // Whole or not at all: two screens may write at once.
        let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, file))
    }

    fn all(&self) -> BTreeMap<String, Choices> {
        let text = self.file.as_ref().and_then(|file| fs::read_to_string(file).ok());
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::columns::ColumnKey;

    #[test]
    fn choices_come_back_for_their_study_of_their_store_only() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().display().to_string();
        let of = |store: &Path, study: &str| {
            Preferences::from_environment(
                |name| (name == "XDG_STATE_HOME").then(|| home.clone()),
                store,
                study,
            )
        };
        let store = directory.path().join("hpsearch.db");
        fs::write(&store, "").unwrap();
        let preferences = |study: &str| of(&store, study);
        let mut choices = Choices::default();
        choices.toggle(&ColumnKey::Curve);
        preferences("digits").keep(&choices).unwrap();
        preferences("other").keep(&Choices::default()).unwrap();
        assert_eq!(preferences("digits").load(), choices);
        assert_eq!(preferences("other").load(), Choices::default());
        assert_eq!(of(&directory.path().join("other.db"), "digits").load(), Choices::default());
        let link = directory.path().join("link.db");
        std::os::unix::fs::symlink(&store, &link).unwrap();
        assert_eq!(of(&link, "digits").load(), choices, "one store by two names");
    }

    #[test]
    fn a_damaged_file_and_a_missing_home_are_no_obstacle() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().display().to_string();
        let preferences = Preferences::from_environment(
            |name| (name == "HOME").then(|| home.clone()),
            Path::new("hpsearch.db"),
            "digits",
        );
        let file = directory.path().join(".local/state/hpsearch/screens.json");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "{").unwrap();
        assert_eq!(preferences.load(), Choices::default());
        preferences.keep(&Choices::default()).unwrap();
        let homeless = Preferences::from_environment(|_| None, Path::new("hpsearch.db"), "digits");
        homeless.keep(&Choices::default()).unwrap();
        assert_eq!(homeless.load(), Choices::default());
    }
}
