//! `--where` and `--sort`: which trials are meant, in what order, and how that is explained.

use super::console::Console;
use super::exit::Failure;
use crate::report::wording::width;
use crate::storage::{StorageReader, StudySummary};
use crate::study::condition::ExpressionError;
use crate::study::query::{Filter, SortKey};

/// How filters are written, for the end of a verb's help.
const FILTERS: &str = "\
A FILTER is a list of terms that must all hold:
  adamw, \"out of memory\"        parameters, state, device, tags, notes, reason
  state:running,queued          one of these states; state:finished: any end
  device:cuda reason:rank note:odd tag:baseline
  optim=adamw  num_layers=2,4   a parameter is one of these; != is none of these
  learning_rate>1e-3  value<=0.5  eval_accuracy>0.8
                                parameters, the value, last reported metrics
  number step seconds attempts failures
                                numbers of the trial, compared in the same way
  -term  -(a or b)              the term, or the group, does not hold
  layers * width < 64 and not (optim == 'sgd' or state:failed)
                                arithmetic between spaces, and, or, not
What a trial lacks, and NaN, is never larger, smaller, equal or unequal.";

/// A verb's examples, and how filters are written.
pub fn with_filters(examples: &str) -> String {
    format!("{examples}\n\n{FILTERS}")
}

/// The filter that was written; all trials if none was. Warns of a bare word that no trial holds.
pub fn filter(
    reader: &dyn StorageReader,
    study: &StudySummary,
    text: Option<&str>,
    console: &Console,
) -> Result<Filter, Failure> {
    let Some(text) = text else { return Ok(Filter::all()) };
    let filter = Filter::parse_with(text, &study.spec, &reader.metrics(study.id)?)
        .map_err(|error| refused(error, text))?;
    for word in filter.bare_words().filter(|_| study.counts.total() > 0) {
        if reader.count(study.id, &word)? == 0 {
            console.say(&format!(
                "warning: no trial holds the text `{}`; a bare word is looked for in parameters, \
                 the state, the device, tags, notes and the reason",
                word.text()
            ));
        }
    }
    Ok(filter)
}

/// The order that was written, and whether it is turned round.
pub fn sort_key(
    reader: &dyn StorageReader,
    study: &StudySummary,
    text: &str,
) -> Result<(SortKey, bool), Failure> {
    SortKey::parse_with(text, &study.spec, &reader.metrics(study.id)?)
        .map_err(|error| refused(error, text))
}

/// The error with what was written, and marks under what is wrong there.
fn refused(error: ExpressionError, text: &str) -> Failure {
    let before = width(&text[..error.span.start]);
    let marks = "^".repeat(width(&text[error.span]).max(1));
    let failure = Failure::usage(format!("{}\n  {text}\n  {:before$}{marks}", error.message, ""));
    match error.help {
        Some(help) => failure.help(help),
        None => failure,
    }
}
