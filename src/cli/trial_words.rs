//! `[STUDY] [TRIALS..]`: words of which the first may name a study and the others are numbers of
//! trials.

use super::exit::Failure;
use crate::study::trial::TrialNumber;

/// A study and some of its trials, as the command line names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The study's name or file; `None`: the only one of the store.
    pub study: Option<String>,
    /// The trials, in the order given.
    pub trials: Vec<TrialNumber>,
}

/// No list of trials is longer.
const MOST: usize = 1_000;

/// Reads the words. A first word that is no trial number is a study.
pub fn read(words: &[String]) -> Result<Named, Failure> {
    let mut named = Named::default();
    let mut rest = words;
    if let Some((first, others)) = words.split_first()
        && numbers(first).is_none()
    {
        named.study = Some(first.clone());
        rest = others;
    }
    for word in rest {
        let numbers = numbers(word).ok_or_else(|| {
            Failure::usage(format!("`{word}` is no trial number"))
                .help("trials are written like `7`, `3,5` or `0-4`; the study comes before them")
        })?;
        named.trials.extend(
            numbers.into_iter().filter(|number| !named.trials.contains(number)).collect::<Vec<_>>(),
        );
        if named.trials.len() > MOST {
            return Err(
                Failure::usage(format!("more than {MOST} trials are named")).help("name fewer")
            );
        }
    }
    Ok(named)
}

/// Trials of several studies, `sms/3 digits/7`; `None` if a word is none. A study whose name has a
/// slash is named by what is before the last one.
pub fn of_studies(words: &[String]) -> Option<Vec<(String, TrialNumber)>> {
    let mut found = Vec::new();
    for word in words {
        let (study, trials) = word.rsplit_once('/').filter(|(study, _)| !study.is_empty())?;
        found.extend(numbers(trials)?.into_iter().map(|trial| (study.to_owned(), trial)));
    }
    (!found.is_empty() && found.len() <= MOST).then_some(found)
}

/// One trial number, where a command line takes no other.
pub fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| {
        "this is no trial number; a trial comes after the study, like `digits 7`".to_owned()
    })
}

/// `7`, `3,5` or `0-4`.
pub fn numbers(word: &str) -> Option<Vec<TrialNumber>> {
    let mut found = Vec::new();
    for part in word.split(',') {
        match part.split_once('-') {
            None => found.push(TrialNumber(part.parse().ok()?)),
            Some((first, last)) => {
                let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
                found.extend((first..=last).take(MOST + 1).map(TrialNumber));
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &[&str]) -> Named {
        read(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn numbers_lists_and_ranges_are_trials_and_another_first_word_is_the_study() {
        let trials = |numbers: &[u64]| numbers.iter().copied().map(TrialNumber).collect::<Vec<_>>();
        assert_eq!(
            named(&["digits", "7", "2-4", "3,9"]),
            Named { study: Some("digits".into()), trials: trials(&[7, 2, 3, 4, 9]) }
        );
        assert_eq!(named(&["1"]), Named { study: None, trials: trials(&[1]) });
        assert_eq!(
            named(&["study.toml"]),
            Named { study: Some("study.toml".into()), trials: Vec::new() }
        );
        assert_eq!(named(&[]), Named::default());
    }

    #[test]
    fn a_slash_is_between_a_study_and_its_trials() {
        let words = |words: &[&str]| {
            of_studies(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        let trial = |study: &str, number| (study.to_owned(), TrialNumber(number));
        assert_eq!(
            words(&["sms/3", "a/b/1-2"]),
            Some(vec![trial("sms", 3), trial("a/b", 1), trial("a/b", 2)])
        );
        for other in
            [&["sms", "3"][..], &["sms/3", "7"], &["/3"], &["sms/x"], &["runs/a.toml"], &[]]
        {
            assert_eq!(words(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_later_word_that_is_no_number_is_refused() {
        let failure = read(&["digits".to_owned(), "best".to_owned()]).unwrap_err();
        assert!(
            failure.to_string().starts_with("error: `best` is no trial number\nhelp: "),
            "{failure}"
        );
    }
}
