//! `warm_start`: says what a new study takes from earlier ones.

use super::console::Console;
use super::exit::Failure;
use super::named_study;
use crate::app::warm_start::{self, Found, WarmStartError};
use crate::report::wording::{count, one_line};
use crate::samplers::Taken;
use crate::storage::{StorageReader, StudySummary};
use crate::study::spec::StudySpec;

/// Fills in the trials of the studies that the study file names, and says what was found; see [`warm_start::take`].
pub fn settle(
    spec: &mut StudySpec,
    known: Option<&StudySpec>,
    store: &dyn StorageReader,
    console: &mut Console,
) -> Result<(), Failure> {
    let found =
        warm_start::take(spec, known, store, |reader, name| named_study::find(reader, Some(name)))?;
    for Found { study, taken } in &found {
        console.say(&told(study, taken, spec));
    }
    Ok(())
}

impl From<WarmStartError> for Failure {
    fn from(error: WarmStartError) -> Self {
        match error {
            WarmStartError::Store { entry, source } => Failure::from(*source).help(format!("`warm_start` names it: \"{}\"", one_line(&entry))),
            WarmStartError::Nothing { entry } => Failure::usage(format!("`warm_start` \"{}\" holds no trial that fits the space", one_line(&entry)))
                .help("take it out, or name a study with complete trials and parameters of the same names"),
            unknown @ WarmStartError::Unknown { .. } => Failure::usage(unknown.to_string()),
        }
    }
}

fn told(study: &StudySummary, taken: &Taken, spec: &StudySpec) -> String {
    let mut said = format!(
        "warm start: {} of `{}`",
        count(taken.trials.len() as u64, "trial"),
        one_line(&study.spec.name)
    );
    let (theirs, ours) = (study.spec.objective(), spec.objective());
    if theirs != ours {
        said.push_str(&format!(
            ", ranked by {} ({})",
            one_line(&theirs.metric),
            theirs.direction.as_str()
        ));
    }
    if taken.foreign > 0 {
        said.push_str(&format!("; {} more have no parameter in common", taken.foreign));
    }
    let mut left_out = Vec::new();
    for (name, values) in &taken.dropped {
        left_out.push(match spec.space.dimension(name) {
            None => format!("`{}`, which is not searched here", one_line(name)),
            Some(_) => {
                format!("{} of `{}` that do not fit", count(*values, "value"), one_line(name))
            }
        });
    }
    if !left_out.is_empty() {
        said.push_str(&format!("; left out: {}", left_out.join(", ")));
    }
    said
}
