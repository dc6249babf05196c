//! `warm_start`: reports what a new study takes from earlier ones.

use crate::app::warm_start::{WarmStartSource, own_direction};
use crate::report::wording::one_line;
use crate::study::counted::count;
use crate::study::spec::StudySpec;

/// A sentence on what `spec` takes from an earlier study.
pub fn in_words(found: &WarmStartSource, spec: &StudySpec) -> String {
    let WarmStartSource { study, taken } = found;
    let mut said = format!(
        "warm start: {} of `{}`",
        count(taken.trials.len() as u64, "trial"),
        one_line(&study.spec.name)
    );
    let (theirs, ours) = (study.spec.objective(), spec.objective());
    if let Some(own) = own_direction(&study.spec, spec) {
        said.push_str(&format!(
            ", ranked as here ({}), though they were searched to {}",
            own.as_str(),
            theirs.direction.as_str()
        ));
    } else if theirs != ours {
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
