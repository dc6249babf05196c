//! What people chose on the screens, kept from one session to the next in one small file for all
//! studies.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::columns::TableSettings;
use crate::storage::address::absolute;

/// Where the settings for one study are kept.
#[derive(Clone, Debug)]
pub struct Preferences {
    file: Option<PathBuf>,
    /// Which study, or studies: the store's real path, and the name or the patterns, a line each.
    /// Studies of different stores often have one name.
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
            .or_else(|_| absolute(store))
            .unwrap_or_else(|_| store.to_owned());
        let key = format!("{}\n{study}", store.display());
        Preferences { file: state.map(|state| state.join("hpsearch/screens.json")), key }
    }

    /// What was kept; nothing if the file is missing or is none of ours.
    pub fn load(&self) -> TableSettings {
        self.all().remove(&self.key).unwrap_or_default()
    }

    /// Keeps `settings` for the next time.
    pub fn keep(&self, settings: &TableSettings) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut all = self.all();
        all.insert(self.key.clone(), settings.clone());
        let text = serde_json::to_string_pretty(&all)?;
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
        // Whole or not at all: two screens may write at once.
        let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, file))
    }

    fn all(&self) -> BTreeMap<String, TableSettings> {
        let text = self.file.as_ref().and_then(|file| fs::read_to_string(file).ok());
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::columns::ColumnKey;

    fn preferences(variable: &str, home: &Path, store: &Path, study: &str) -> Preferences {
        let home = home.display().to_string();
        let variable = |name: &str| (name == variable).then(|| home.clone());
        Preferences::from_environment(variable, store, study)
    }

    #[test]
    fn settings_come_back_for_their_study_of_their_store_only() {
        let directory = tempfile::tempdir().unwrap();
        let of = |store: &str, study| {
            preferences("XDG_STATE_HOME", directory.path(), &directory.path().join(store), study)
        };
        fs::write(directory.path().join("hpsearch.db"), "").unwrap();
        let mut settings = TableSettings::default();
        settings.toggle(&ColumnKey::Curve);
        of("hpsearch.db", "digits").keep(&settings).unwrap();
        of("hpsearch.db", "other").keep(&TableSettings::default()).unwrap();
        assert_eq!(of("hpsearch.db", "digits").load(), settings);
        assert_eq!(of("hpsearch.db", "other").load(), TableSettings::default());
        assert_eq!(of("other.db", "digits").load(), TableSettings::default());
        std::os::unix::fs::symlink("hpsearch.db", directory.path().join("link.db")).unwrap();
        assert_eq!(of("link.db", "digits").load(), settings, "one store by two names");
    }

    #[test]
    fn a_damaged_file_and_a_missing_home_are_no_obstacle() {
        let directory = tempfile::tempdir().unwrap();
        let store = Path::new("hpsearch.db");
        let file = directory.path().join(".local/state/hpsearch/screens.json");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "{").unwrap();
        for variable in ["HOME", "NO_HOME"] {
            let preferences = preferences(variable, directory.path(), store, "digits");
            assert_eq!(preferences.load(), TableSettings::default());
            preferences.keep(&TableSettings::default()).unwrap();
        }
    }
}
