//! Which rules a study has: those that began under older ones keep them.

use crate::arguments::LabelFormat;
use crate::config::placeholder::names;
use crate::study::program::{Inactive, Program};
use crate::study::spec::StudySpec;

/// Whether a command names parameters that may be inactive.
pub fn names_inactive(
    run: &[String],
    is_conditional: impl Fn(&str) -> bool,
    knows: impl Fn(&str) -> bool + Copy,
) -> bool {
    run.iter().any(|word| names(word, knows).any(&is_conditional))
}

/// Whether a stored study began under the older rule for inactive parameters, which become empty,
/// and `spec` still has its command: its trials keep their arguments.
pub fn has_earlier_rules(known: &StudySpec, spec: &StudySpec) -> bool {
    let (Program::Command { run: before, args, .. }, Program::Command { run, .. }) =
        (&known.program, &spec.program)
    else {
        return false;
    };
    let knows = |name: &str| known.space.dimension(name).is_some();
    let is_conditional =
        |name: &str| known.space.dimension(name).is_some_and(|dimension| dimension.when.is_some());
    args.inactive == Inactive::Empty
        && before == run
        && names_inactive(before, is_conditional, knows)
}

/// Studies that began without `[data] label_format` continue to read labels as names.
fn keep_label_format(known: &StudySpec, spec: &mut StudySpec) {
    let (
        Program::Trainer { arguments: before, data: data_before },
        Program::Trainer { arguments, data },
    ) = (&known.program, &mut spec.program)
    else {
        return;
    };
    let is_default = data.get(LabelFormat::KEY).is_some_and(|format| format == "auto");
    if is_default
        && !data_before.contains_key(LabelFormat::KEY)
        && before.get("task") == arguments.get("task")
    {
        data.remove(LabelFormat::KEY);
    }
}

/// Gives `spec`, read from a file, the rules of the stored study.
pub fn keep_rules(known: &StudySpec, spec: &mut StudySpec) {
    crate::samplers::keep_version(&known.sampler, &mut spec.sampler);
    crate::pruners::keep_version(&known.pruner, &mut spec.pruner);
    spec.last_metrics = known.last_metrics;
    spec.prior_rule = known.prior_rule;
    spec.seed_rule = known.seed_rule;
    spec.params_rule = known.params_rule;
    spec.space.keep_rounding(&known.space);
    spec.hidden_rule = known.hidden_rule;
    spec.pruning_limit_rule = known.pruning_limit_rule;
    keep_label_format(known, spec);
    let is_earlier = has_earlier_rules(known, spec);
    let (Program::Command { args: before, .. }, Program::Command { args, .. }) =
        (&known.program, &mut spec.program)
    else {
        return;
    };
    if is_earlier {
        args.inactive = Inactive::Empty;
    } else if before.inactive == Inactive::Dropped {
        // Trials of a conditional space may still be queued.
        args.inactive = Inactive::Dropped;
    }
}
