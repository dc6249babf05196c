//! `hpsearch tag`: adds or removes tags of trials and studies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::request::{ask_all, named_or, subjects};
use super::selection::{changed_trials, with_filters};
use super::{Console, Exit, Failure};
use crate::app::find;
use crate::report::wording::one_line;
use crate::storage::StudySummary;
use crate::study::request::Request;
use crate::study::tag::{TAG_RULE, is_tag};
use crate::study::trial::{Trial, TrialNumber};

const EXAMPLES: &str = "\
Examples:
  hpsearch tag digits 7 +keep +paper
  hpsearch tag digits 7 -paper
  hpsearch tag digits +second-round      the study itself
  hpsearch tag digits 7                  its tags
  hpsearch tag digits --where 'value<0.3' +good
  hpsearch tag digits 7 -- -q            removes a tag that is an option's name

Tags are written at once, whether or not the study runs. They are letters,
digits and any of `._/-`, up to 64.";

/// Arguments of `hpsearch tag`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = with_filters(EXAMPLES),
    override_usage = "hpsearch tag [OPTIONS] [STUDY] [TRIALS] [+TAG | -TAG]..\n       \
                      hpsearch tag [OPTIONS] [STUDY] --where <FILTER> [+TAG | -TAG].."
)]
pub struct TagArguments {
    /// The study's name or file, trials of it, and tags to add (+) or remove (-)
    #[arg(value_name = "STUDY, TRIALS, TAGS")]
    pub words: Vec<String>,
    /// The trials or runs of one study that match the filter (see below)
    #[arg(long = "where", value_name = "FILTER", allow_hyphen_values = true)]
    pub filter: Option<String>,
    /// Print JSON: the resulting tags
    #[arg(long)]
    pub json: bool,
}

/// Stands for the hyphen before a tag to remove: clap takes words with a hyphen for options, or all
/// words after the first of them for values.
const REMOVES: char = '\u{1}';

/// The short options of this verb.
const SHORT_OPTIONS: [char; 3] = ['q', 'v', 'h'];

/// A command line of this verb in which tags to remove do not begin with a hyphen; others as they
/// are. Words of short options only (`-q`, `-vv`) are options before `--`.
pub fn without_hyphens(mut words: Vec<OsString>) -> Vec<OsString> {
    let mut is_value = false;
    let mut is_tag_verb = false;
    for word in words.iter_mut().skip(1) {
        let Some(text) = word.to_str() else { continue };
        if std::mem::take(&mut is_value) {
            continue;
        }
        is_value = matches!(text, "--store" | "--where");
        match text.strip_prefix('-') {
            Some("-") => break,
            Some(tag) if is_tag_verb && is_removed(tag) => {
                *word = format!("{REMOVES}{tag}").into();
            }
            Some(_) => {}
            None if is_tag_verb => {}
            None if text == "tag" => is_tag_verb = true,
            None => break,
        }
    }
    words
}

fn is_removed(tag: &str) -> bool {
    !tag.is_empty()
        && !tag.starts_with('-')
        && !tag.chars().all(|char| SHORT_OPTIONS.contains(&char))
}

#[derive(Serialize)]
struct TagJson<'a> {
    /// Null for a tag of the study.
    trial: Option<TrialNumber>,
    tag: &'a str,
}

/// Adds, removes or shows tags.
pub fn tag(arguments: &TagArguments, console: &mut Console) -> Result<Exit, Failure> {
    let is_json = arguments.json;
    let signed = |word: &&String| word.starts_with(['+', '-', REMOVES]);
    let (tags, words): (Vec<&String>, Vec<&String>) = arguments.words.iter().partition(signed);
    let words: Vec<String> = words.into_iter().cloned().collect();
    let tags: Vec<(String, bool)> =
        tags.into_iter().map(|word| read(word)).collect::<Result<_, _>>()?;
    let (study, trials) = match &arguments.filter {
        Some(filter) => {
            let reader = console.reader()?;
            let (study, numbers) = changed_trials(&reader, &words, filter, console)?;
            let trials = find::trials(&reader, &study, &numbers)?;
            if trials.is_empty() {
                let none: [TagJson; 0] = [];
                return match is_json {
                    true => console.json(Some(&study.spec.name), &BTreeMap::from([("tags", none)])),
                    false => Ok(Exit::Done),
                };
            }
            (study, trials)
        }
        None => named_or(&words, console, |word| {
            format!("write a sign before the tag: `+{word}` adds it, `-{word}` removes it")
        })?,
    };
    if tags.is_empty() && is_json {
        return print_json(&study, &trials, console);
    }
    if tags.is_empty() {
        if trials.is_empty() {
            writeln!(console.out, "{}", one_line(&study.all_tags().join(" ")))?;
        }
        for trial in &trials {
            writeln!(console.out, "trial {}: {}", trial.number, one_line(&trial.tags.join(" ")))?;
        }
        return Ok(Exit::Done);
    }
    let mut requests = Vec::new();
    for (tag, present) in &tags {
        requests.extend(subjects(&trials).into_iter().map(|trial| Request::Tag {
            trial,
            tag: tag.clone(),
            present: *present,
        }));
    }
    let exit = ask_all(&study, requests, console)?;
    console.say(if tags.iter().any(|(_, present)| *present) { "tagged" } else { "untagged" });
    if is_json {
        let reader = console.reader()?;
        let study = find::study(&reader, Some(&study.spec.name))?;
        let numbers: Vec<TrialNumber> = trials.iter().map(|trial| trial.number).collect();
        let trials = find::trials(&reader, &study, &numbers)?;
        return print_json(&study, &trials, console);
    }
    Ok(exit)
}

/// Prints the tags of these trials; of the study, if none is named.
fn print_json(
    study: &StudySummary,
    trials: &[Trial],
    console: &mut Console,
) -> Result<Exit, Failure> {
    let all = study.all_tags();
    let of_study = all.iter().filter(|_| trials.is_empty());
    let mut tags: Vec<TagJson> = of_study.map(|tag| TagJson { trial: None, tag }).collect();
    for trial in trials {
        tags.extend(trial.tags.iter().map(|tag| TagJson { trial: Some(trial.number), tag }));
    }
    console.json(Some(&study.spec.name), &BTreeMap::from([("tags", tags)]))
}

/// Parses `+x` or `-x`: the tag, and whether it is added.
fn read(word: &str) -> Result<(String, bool), Failure> {
    let tag = &word[1..];
    if !is_tag(tag) {
        let word = word.replace(REMOVES, "-");
        return Err(Failure::usage(format!("`{}` is not a tag", one_line(&word)))
            .help(format!("tags are {TAG_RULE}: +keep, -draft")));
    }
    Ok((tag.to_owned(), word.starts_with('+')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_after_tags_are_options_and_other_words_with_a_hyphen_are_tags() {
        let of = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            let words: Vec<_> = without_hyphens(words).into_iter().collect();
            let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
            words.join(" ").replace(REMOVES, "^")
        };
        for (line, parsed) in [
            ("h tag d -x +y --store -a.db -q", "h tag d ^x +y --store -a.db -q"),
            ("h tag d -old -vq -qx --json", "h tag d ^old -vq ^qx --json"),
            ("h --store tag tag -- -q", "h --store tag tag -- -q"),
            ("h -q --store=a tag 3 -x -- -y", "h -q --store=a tag 3 ^x -- -y"),
            ("h note tag -m", "h note tag -m"),
            ("h run --store tag -x", "h run --store tag -x"),
        ] {
            assert_eq!(of(line), parsed);
        }
    }

    #[test]
    fn a_sign_says_whether_a_tag_is_given_or_taken() {
        assert_eq!(read("+keep").unwrap(), ("keep".to_owned(), true));
        assert_eq!(read("-zwölf/2.1").unwrap(), ("zwölf/2.1".to_owned(), false));
        for word in ["+", "-", "+a b", "+a,b", "+a:b"] {
            assert!(read(word).is_err(), "{word}");
        }
    }
}
