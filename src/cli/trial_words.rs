//! Parses `[STUDY] [TRIALS..]`: the first word may name a study, the others its trials.

use crate::app::find::{self, numbers};
use crate::storage::StorageReader;
use crate::study::trial::TrialNumber;

/// A study and some of its trials, as the command line names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The study's name or file; `None`: the only one of the store.
    pub study: Option<String>,
    /// Words for trials, in the order given: see [`find::trials_named`].
    pub trials: Vec<String>,
}

/// Parses the words. A first word that is not a trial number is a study.
pub fn read(words: &[String]) -> Named {
    match words.split_first() {
        Some((first, others)) if numbers(first).is_none() => {
            Named { study: Some(first.clone()), trials: others.to_vec() }
        }
        _ => Named { study: None, trials: words.to_vec() },
    }
}

/// Trials of several studies, `sms/3 digits/7 runs/baseline`; `None` if a word is invalid. The
/// study's name is what precedes the last slash.
pub fn of_studies(
    reader: &dyn StorageReader,
    words: &[String],
) -> Option<Vec<(String, TrialNumber)>> {
    let mut found = Vec::new();
    for word in words {
        let (study, trials) = word.rsplit_once('/').filter(|(study, _)| !study.is_empty())?;
        let trials = match numbers(trials) {
            Some(trials) => trials,
            // The name of a study or of a file is not a run.
            None if reader.study(word).ok()?.is_some() => return None,
            None => {
                let id = reader.study(study).ok()??.id;
                let known = reader.summary(id).ok()?;
                find::trials_named(reader, &known, &[trials.to_owned()]).ok()?
            }
        };
        found.extend(trials.into_iter().map(|trial| (study.to_owned(), trial)));
    }
    (!found.is_empty() && found.len() <= find::MOST_TRIALS).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::memory::MemoryStore;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_first_word_that_is_no_number_is_the_study() {
        let named = |study: Option<&str>, trials: &[&str]| Named {
            study: study.map(str::to_owned),
            trials: words(trials),
        };
        assert_eq!(read(&words(&["digits", "7", "2-4"])), named(Some("digits"), &["7", "2-4"]));
        assert_eq!(read(&words(&["1"])), named(None, &["1"]));
        assert_eq!(read(&words(&["study.toml"])), named(Some("study.toml"), &[]));
        assert_eq!(read(&[]), Named::default());
    }

    #[test]
    fn a_slash_is_between_a_study_and_its_trials() {
        let of_studies = |of: &[&str]| of_studies(&MemoryStore::new(), &words(of));
        let trial = |study: &str, number| (study.to_owned(), TrialNumber(number));
        assert_eq!(
            of_studies(&["sms/3", "a/b/1-2"]),
            Some(vec![trial("sms", 3), trial("a/b", 1), trial("a/b", 2)])
        );
        for other in
            [&["sms", "3"][..], &["sms/3", "7"], &["/3"], &["sms/x"], &["runs/a.toml"], &[]]
        {
            assert_eq!(of_studies(other), None, "{other:?}");
        }
    }
}
