//! `--all`, `--study`, `--where` and `--sort`: selection and order of studies and trials, with
//! their help.

use clap::Args;

use super::console::Console;
use super::exit::{Exit, Failure};
use crate::app::AppError;
use crate::app::absent_terms;
use crate::app::find::{self, Archived, FoundStudies, TrialsOf};
use crate::app::several::StudySelection;
use crate::app::study_state::with_open_attempts;
use crate::report::wording::{one_line, width};
use crate::storage::{StorageReader, StudySummary};
use crate::study::condition::ExpressionError;
use crate::study::counted::count;
use crate::study::query::{Filter, SortKey, TrialQuery};

/// The help on filters, at the end of a verb's help.
const FILTERS: &str = "\
A FILTER is a list of terms that must all hold:
  adamw, \"out of memory\"        parameters, state, device, tags, notes, reason
  state:running,queued          one of these states; state:finished: any end
  device:cuda reason:rank note:odd tag:baseline
  optim=adamw  num_layers=2,4   a parameter is one of these; != is none of these
  learning_rate>1e-3  value<=0.5  eval_accuracy>0.8
                                parameters, the value, last reported metrics
  train/loss<0.3  min(train/loss)<0.1  max(grad_norm)<10
                                series: the last, smallest or largest value
  study=sms  name:base group=b  summary.accuracy>0.9
                                the study; names and summaries of tracked runs
  number step seconds attempts failures
                                numbers of the trial, compared in the same way
  -term  -(a or b)              the term, or the group, does not hold
  layers * width < 64 and not (optim == 'sgd' or state:failed)
                                arithmetic between spaces, and, or, not
Comparisons with NaN, or with what a trial does not have, never hold.";

/// Several studies at once.
#[derive(Clone, Debug, Default, Args)]
pub struct SeveralArguments {
    /// All studies of the store that are not archived
    #[arg(long, conflicts_with = "patterns")]
    pub all: bool,
    /// Studies by a pattern of their names, such as 'sms*', as often as needed
    #[arg(id = "patterns", long = "study", value_name = "PATTERN")]
    pub patterns: Vec<String>,
}

impl SeveralArguments {
    /// Whether several studies are selected.
    pub fn is_given(&self) -> bool {
        self.all || !self.patterns.is_empty()
    }

    /// The selected studies; reports those that cannot be read. `named`: an additional name.
    pub fn studies(
        &self,
        reader: &dyn StorageReader,
        named: Option<&str>,
        console: &Console,
    ) -> Result<Vec<StudySummary>, Failure> {
        if let Some(named) = named {
            let option = if self.all { "--all" } else { "--study" };
            let message = format!("`{}` and `{option}` both say which studies", one_line(named));
            return Err(Failure::usage(message).help("leave out one of the two"));
        }
        let found = if self.patterns.is_empty() {
            find::all(reader, Archived::LeftOut)?
        } else {
            find::matching(reader, &self.patterns)?
        };
        Ok(readable(found, console))
    }
}

/// The studies that several words, `--all` or `--study` select; `None` for one study or none. A
/// word is a study's name or file, or a pattern.
pub fn watched(
    reader: &dyn StorageReader,
    words: &[String],
    several: &SeveralArguments,
    console: &Console,
) -> Result<Option<StudySelection>, Failure> {
    if several.is_given() {
        let found = several.studies(reader, words.first().map(String::as_str), console)?;
        if found.is_empty() {
            return Err(AppError::EmptyStore.into());
        }
        return Ok(Some(match several.all {
            true => StudySelection::All,
            false => StudySelection::Matching(several.patterns.clone()),
        }));
    }
    let is_pattern = |word: &String| word.contains(['*', '?']);
    if words.len() < 2 && !words.iter().any(is_pattern) {
        return Ok(None);
    }
    let mut patterns = Vec::new();
    for word in words {
        patterns.push(match is_pattern(word) {
            true => word.clone(),
            false => find::study(reader, Some(word))?.spec.name,
        });
    }
    readable(find::matching(reader, &patterns)?, console);
    Ok(Some(StudySelection::Matching(patterns)))
}

/// The readable studies; reports why the others are left out.
pub fn readable(found: FoundStudies, console: &Console) -> Vec<StudySummary> {
    for (name, error) in &found.skipped {
        console.complain(&format!("`{}` is left out: {error}", one_line(name)));
    }
    found.studies
}

/// A verb's examples, with the help on filters.
pub fn with_filters(examples: &str) -> String {
    format!("{examples}\n\n{FILTERS}")
}

/// The given filter; all trials without one. Warns about a bare word that no trial contains, and of
/// values and names that no trial has.
pub fn filter(
    reader: &dyn StorageReader,
    study: &StudySummary,
    text: Option<&str>,
    console: &Console,
) -> Result<Filter, Failure> {
    let Some(text) = text else { return Ok(Filter::all()) };
    let filter = filter_of(reader, study, text)?;
    warn_of_absent(reader, [(study, &filter)], console)?;
    Ok(filter)
}

/// The visible trials that match `--where` of a verb that changes trials, of the study named by
/// `words`; says so if none does.
pub fn changed_trials(
    reader: &dyn StorageReader,
    words: &[String],
    text: &str,
    console: &Console,
) -> Result<TrialsOf, Failure> {
    let named = match words {
        [] => None,
        [study] => Some(study.as_str()),
        _ => {
            let message = "`--where` selects trials of one study";
            return Err(Failure::usage(message).help("name only the study beside it"));
        }
    };
    let study = find::study(reader, named)?;
    let filter = study.visible(filter(reader, &study, Some(text), console)?);
    let numbers = reader.numbers(study.id, &TrialQuery::all(SortKey::Number).filtered(filter))?;
    if numbers.is_empty() {
        let what = if study.spec.is_tracked() { "run" } else { "trial" };
        console.say(&format!("none of {} passes", count(study.counts.total(), what)));
    }
    Ok((study, numbers))
}

/// Warns about what filters look for and no trial of their studies has.
pub fn warn_of_absent<'a>(
    reader: &dyn StorageReader,
    filters: impl IntoIterator<Item = (&'a StudySummary, &'a Filter)>,
    console: &Console,
) -> Result<(), Failure> {
    for warning in absent_terms::warnings(reader, filters)? {
        console.say(&format!("warning: {warning}"));
    }
    Ok(())
}

/// The given filter.
pub fn filter_of(
    reader: &dyn StorageReader,
    study: &StudySummary,
    text: &str,
) -> Result<Filter, Failure> {
    let filter = Filter::parse_with(text, &study.spec, &reader.trial_names(study.id)?)
        .map_err(|error| refused(error, text))?;
    let query = TrialQuery::all(SortKey::Number).filtered(filter);
    Ok(with_open_attempts(reader, study, query)?.filter)
}

/// Reads something of each of several studies. One that lacks a name in the filter or order is left
/// out with a message, unless none is left.
pub fn of_each<T>(
    studies: Vec<StudySummary>,
    console: &Console,
    mut read: impl FnMut(&StudySummary) -> Result<T, Failure>,
) -> Result<Vec<(StudySummary, T)>, Failure> {
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    for study in studies {
        match read(&study) {
            Ok(read) => taken.push((study, read)),
            Err(failure) if failure.exit() == Exit::Usage => refused.push((study, failure)),
            Err(failure) => return Err(failure),
        }
    }
    if taken.is_empty()
        && let Some((_, failure)) = refused.pop()
    {
        return Err(failure);
    }
    for (study, failure) in refused {
        let why = one_line(&failure.what());
        console.say(&format!("`{}` is left out: {why}", one_line(&study.spec.name)));
    }
    Ok(taken)
}

/// The given order, and whether it is reversed.
pub fn sort_key(
    reader: &dyn StorageReader,
    study: &StudySummary,
    text: &str,
) -> Result<(SortKey, bool), Failure> {
    SortKey::parse_with(text, &study.spec, &reader.trial_names(study.id)?)
        .map_err(|error| refused(error, text))
}

/// Characters of a long text that are shown before, in and after the location of an error.
const AROUND: usize = 40;

/// The error with the given text, and marks under its location.
fn refused(error: ExpressionError, text: &str) -> Failure {
    let (start, end) = (error.span.start, error.span.end);
    let from = text[..start].char_indices().rev().nth(AROUND - 1).map_or(0, |(at, _)| at);
    let after =
        |at: usize| text[at..].char_indices().nth(AROUND).map_or(text.len(), |it| at + it.0);
    let (end, to) = (end.min(after(start)), after(end.min(after(start))));
    let [left, right] = [from > 0, to < text.len()].map(|is_cut| if is_cut { ".." } else { "" });
    let before = " ".repeat(left.len() + width(&text[from..start]));
    let marks = "^".repeat(width(&text[start..end]).max(1));
    let shown = format!("{left}{}{right}", &text[from..to]);
    let failure = Failure::usage(format!("{}\n  {shown}\n  {before}{marks}", error.message));
    match error.help {
        Some(help) => failure.help(help),
        None => failure,
    }
}
