//! The README of an exported directory.

use std::fmt::Write;

use super::Exported;

/// What the model is, how it was found and how to use it.
pub(super) fn card(exported: &Exported<'_>) -> String {
    let Exported { spec, trial, metrics, recipe, .. } = exported;
    let mut text = String::new();
    let objective = spec.objective();
    let value = trial.value.map_or("no value".to_owned(), |value| format!("{value}"));
    let _infallible = writeln!(text, "# {}: trial {}\n", spec.name, trial.number);
    if let Some(description) = &spec.description {
        let _infallible = writeln!(text, "{description}\n");
    }
    let _infallible = writeln!(text, "Found by hpsearch with the sampler `{}` and the pruner `{}`.", spec.sampler.name, spec.pruner.name);
    let _infallible = writeln!(text, "It was chosen by `{}` ({}), where it reached {value}.\n", objective.metric, objective.direction.as_str());
    text.push_str("| metric | value |\n|---|---|\n");
    for (name, value) in metrics.iter() {
        let _infallible = writeln!(text, "| {name} | {value} |");
    }
    text.push_str("\n| parameter | value |\n|---|---|\n");
    for (name, value) in trial.params.iter() {
        let _infallible = writeln!(text, "| {name} | {value} |");
    }
    if !recipe.trainer.is_empty() {
        let _infallible = writeln!(text, "\n    {} . \"some text\"\n    hpsearch train best.toml -o again", recipe.verb());
    }
    text.push_str("\n`best.toml` holds every argument, the data's paths and digests and the seed; `metrics.json` the figures above.\n");
    text
}
