//! Arguments of the trainer that its strategies (`eval_strategy`, `logging_strategy`) and its
//! learning-rate schedule do not read.

use serde_json::Value as Json;

use super::diagnostic::{Diagnostic, SourceSpan};
use super::step_unit::evaluates_by_steps;
use super::trainer::canonical;
use crate::arguments::{ARGUMENTS, SchedulerType};
use crate::study::field::{self, FieldDefault};
use crate::study::program::Program;
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;

/// Warns of `eval_steps`, `eval_delay`, `logging_steps` and warm-up where no trial reads them.
pub(super) fn check(
    spec: &StudySpec,
    of_argument: impl Fn(&str) -> Option<SourceSpan>,
    problems: &mut Vec<Diagnostic>,
) {
    let by_steps = evaluates_by_steps(&spec.program, &spec.space);
    let evaluates = by_steps || may_be(spec, "eval_strategy", "epoch");
    let logs_by_steps = may_be(spec, "logging_strategy", "steps")
        || by_steps && of_argument("eval_steps").is_none();
    let instead = match evaluates {
        true => "trials evaluate after each epoch",
        false => "trials evaluate at the pruner's rungs and at their end only",
    };
    let warms_up = may_be(spec, "optim", "schedule_free_adamw")
        || SchedulerType::names_with_warmup().any(|name| may_be(spec, "lr_scheduler_type", name));
    const SCHEDULE: &str = "lr_scheduler_type = \"constant_with_warmup\"";
    const NO_WARMUP: &str = "the learning rate is constant from the first step on";
    let unread = [
        ("eval_steps", by_steps, "eval_strategy = \"steps\"", instead),
        ("eval_delay", evaluates, "eval_strategy = \"epoch\"", instead),
        (
            "logging_steps",
            logs_by_steps,
            "logging_strategy = \"steps\"",
            "`logging_strategy` asks for no log lines by steps",
        ),
        ("warmup_steps", warms_up || is_zero(spec, "warmup_steps"), SCHEDULE, NO_WARMUP),
        ("warmup_ratio", warms_up || is_zero(spec, "warmup_ratio"), SCHEDULE, NO_WARMUP),
    ];
    for (name, is_read, needed, instead) in unread {
        let Some(place) = of_argument(name).filter(|_| !is_read) else { continue };
        let message = format!("`{name}` has no effect without `{needed}`");
        problems.push(
            Diagnostic::warning(place, message)
                .label(instead)
                .help(format!("write `{needed}`, or leave `{name}` out")),
        );
    }
}

/// Whether an argument is fixed to 0.
fn is_zero(spec: &StudySpec, name: &str) -> bool {
    let Program::Trainer { arguments, .. } = &spec.program else { return false };
    arguments.get(name).and_then(Json::as_f64) == Some(0.0)
}

/// Whether an argument has this value in some trial: it is fixed to it, searched among others, or
/// left at this default.
fn may_be(spec: &StudySpec, name: &str, value: &str) -> bool {
    let Program::Trainer { arguments, .. } = &spec.program else { return false };
    let is_it = |other: &Json| other.as_str() == Some(value);
    if let Some(fixed) = arguments.get(name) {
        return is_it(fixed);
    }
    let mut searched = spec.space.dimensions().iter();
    match searched.find(|one| canonical(ARGUMENTS, &one.name) == name) {
        Some(dimension) => matches!(&dimension.distribution, Distribution::Choice { choices }
            if choices.iter().any(|choice| is_it(&choice.to_json()))),
        None => field::find(ARGUMENTS, name).is_some_and(
            |found| matches!(found.default, FieldDefault::Text(text) if text == value),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::parse_with_warnings;

    fn warnings(trainer: &str, space: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("t.csv"), "text,label\na,b\n").unwrap();
        let text = format!(
            "[study]\nmetric = \"eval_loss\"\ndirection = \"minimize\"\nstep = \"step\"\n\
             [budget]\ntrials = 3\n[data]\ntrain = \"t.csv\"\ntext = \"text\"\nlabel = \"label\"\n\
             [trainer]\n{trainer}\n[space]\nlearning_rate = [1e-4, 1e-3]\n{space}\n"
        );
        let checked = parse_with_warnings(&text, Path::new("s.toml"), directory.path(), &[])
            .unwrap_or_else(|problems| panic!("{problems}"));
        checked
            .warnings
            .iter()
            .map(|found| format!("{}; {}", found.message, found.help.join("; ")))
            .collect()
    }

    #[test]
    fn steps_that_a_strategy_does_not_read_are_warned_of() {
        const EVAL: &str = "eval_strategy = \"steps\"";
        const WARMUP: &str = "lr_scheduler_type = \"constant_with_warmup\"";
        for (trainer, space, name, needed) in [
            ("eval_steps = 50", "", "eval_steps", EVAL),
            ("eval_strategy = \"epoch\"\neval_steps = 50", "", "eval_steps", EVAL),
            ("", "eval_steps = [50, 100]", "eval_steps", EVAL),
            ("eval_steps = 50", "eval_strategy = [\"no\", \"epoch\"]", "eval_steps", EVAL),
            ("eval_delay = 2", "", "eval_delay", "eval_strategy = \"epoch\""),
            (
                "logging_strategy = \"epoch\"\nlogging_steps = 50",
                "",
                "logging_steps",
                "logging_strategy = \"steps\"",
            ),
            ("lr_scheduler_type = \"constant\"\nwarmup_steps = 50", "", "warmup_steps", WARMUP),
            (
                "lr_scheduler_type = \"reduce_lr_on_plateau\"\neval_strategy = \"epoch\"\n\
                 warmup_ratio = 0.1",
                "",
                "warmup_ratio",
                WARMUP,
            ),
            (
                "lr_scheduler_type = \"constant\"",
                "warmup_ratio = [0.0, 0.1]",
                "warmup_ratio",
                WARMUP,
            ),
        ] {
            let found = warnings(trainer, space);
            let said = format!("`{name}` has no effect without `{needed}`");
            let advice = format!("write `{needed}`, or leave `{name}` out");
            let is_it = |one: &&String| one.contains(&said) && one.contains(&advice);
            assert_eq!(found.iter().filter(is_it).count(), 1, "{trainer} {space}: {found:?}");
            assert_eq!(found.iter().filter(|one| one.contains("no effect")).count(), 1);
        }
    }

    #[test]
    fn steps_that_a_strategy_reads_are_not() {
        for (trainer, space) in [
            ("eval_strategy = \"steps\"\neval_steps = 50\neval_delay = 100", ""),
            ("eval_steps = 50", "evaluation_strategy = [\"no\", \"steps\"]"),
            ("eval_strategy = \"epoch\"\neval_delay = 2", ""),
            ("logging_steps = 50", ""),
            // `eval_steps` is `logging_steps` where it is not given.
            ("eval_strategy = \"steps\"\nlogging_strategy = \"no\"\nlogging_steps = 50", ""),
            ("warmup_steps = 50", ""),
            ("warmup_steps = 50", "lr_scheduler_type = [\"constant\", \"cosine\"]"),
            ("optim = \"schedule_free_adamw\"\nwarmup_steps = 50", ""),
            ("lr_scheduler_type = \"constant\"\nwarmup_steps = 0", ""),
        ] {
            let found = warnings(trainer, space);
            assert!(found.iter().all(|one| !one.contains("no effect")), "{trainer}: {found:?}");
        }
    }
}
