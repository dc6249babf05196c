//! The unit of a study's steps where the trainer evaluates by optimiser steps.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::Purpose;
use super::diagnostic::{Diagnostic, Severity, SourceSpan};
use super::sampler_pruner::Chosen;
use super::section::Section;
use super::trainer::canonical;
use crate::arguments::ARGUMENTS;
use crate::pruners;
use crate::study::program::Program;
use crate::study::space::{Distribution, Space};
use crate::study::spec::{AlgorithmSpec, StudySpec};
use crate::study::step::StepUnit;

const EVAL_STRATEGY: &str = "eval_strategy";
const BY_STEPS: &str = "steps";

/// Whether trials evaluate between whole epochs (`eval_strategy = "steps"`), or some of them, if it
/// is searched.
pub(super) fn evaluates_by_steps(program: &Program, space: &Space) -> bool {
    let Program::Trainer { arguments, .. } = program else { return false };
    let is_by_steps = |value: &Json| value.as_str() == Some(BY_STEPS);
    arguments.get(EVAL_STRATEGY).is_some_and(is_by_steps)
        || space.dimensions().iter().any(|dimension| {
            canonical(ARGUMENTS, &dimension.name) == EVAL_STRATEGY
                && matches!(&dimension.distribution, Distribution::Choice { choices }
                    if choices.iter().any(|choice| is_by_steps(&choice.to_json())))
        })
}

/// Whether evaluations between whole epochs are only logged: they are no steps of the study.
pub fn loses_evaluations(spec: &StudySpec) -> bool {
    spec.step == StepUnit::Epoch && evaluates_by_steps(&spec.program, &spec.space)
}

/// Why a training of the built-in trainer may end without a report, as a clause.
pub fn without_report(spec: &StudySpec) -> &'static str {
    match loses_evaluations(spec) {
        true => {
            "the training ended before a whole epoch was evaluated, and since steps are epochs, \
             other evaluations are only logged; `step = \"step\"` under [study] reports those of \
             `eval_strategy = \"steps\"`, too (in a new study: `--fork NAME`)"
        }
        false => "the training ended without an evaluation",
    }
}

/// The unit of a study's steps: `step` under [study], or optimiser steps if evaluation is by them.
///
/// A pruner's options may be meant in either unit, so that a new study then needs `step`; one that
/// is stored goes on with epochs. One training, of which nothing is pruned, drops such a pruner.
pub(super) fn of_study(
    study: &Section<'_>,
    (program, space): (&Program, &Space),
    pruner: &mut AlgorithmSpec,
    (chosen, purpose): (&Chosen<'_>, Purpose),
    problems: &mut Vec<Diagnostic>,
) -> StepUnit {
    let unit: StepUnit = study.get("step");
    if !evaluates_by_steps(program, space) {
        return unit;
    }
    if !study.lacks("step") {
        if unit == StepUnit::Epoch {
            problems.push(
                Diagnostic::warning(
                    study.place_of("step"),
                    "evaluations between whole epochs are only logged, since steps are epochs",
                )
                .label("`eval_strategy = \"steps\"` evaluates between them, too")
                .help(
                    "the best value, `value = \"best\"`, the export and the pruner know whole \
                     epochs only",
                )
                .help("`step = \"step\"` reports every evaluation"),
            );
        }
        return unit;
    }
    if !pruners::counts_steps(pruner) {
        return StepUnit::Step;
    }
    if purpose == Purpose::OneTraining {
        *pruner = AlgorithmSpec::named("none");
        return StepUnit::Step;
    }
    let Program::Trainer { arguments, .. } = program else { return unit };
    problems.push(undecided(&pruner.name, arguments, chosen));
    StepUnit::Epoch
}

/// The error that the unit of a pruner's steps must be given.
fn undecided(name: &str, arguments: &BTreeMap<String, Json>, chosen: &Chosen<'_>) -> Diagnostic {
    let message = format!(
        "`step` under [study] is needed: `{name}` counts epochs or optimiser steps, and \
         `eval_strategy = \"steps\"` evaluates between whole epochs"
    );
    let given = |name: &str| arguments.get(name).and_then(Json::as_u64);
    let every = given("eval_steps").or(given("logging_steps")).filter(|every| *every > 0);
    let every = every.unwrap_or(100);
    let is_length_known = given("max_steps").is_some_and(|steps| steps > 0);
    let first = match name {
        "pbt" => format!("`interval = {every}`"),
        "median" | "percentile" | "threshold" => format!("`n_warmup_steps = {every}`"),
        _ => format!("`min_resource = {every}`"),
    };
    let length = match name {
        "asha" | "curve" | "hyperband" if !is_length_known => {
            ", and `max_resource`, the optimiser steps of a full trial"
        }
        _ => "",
    };
    let problem = Diagnostic::error(chosen.place, message)
        .help(format!(
            "write `step = \"step\"` under [study] to report every evaluation, and under [pruner] \
             optimiser steps: for example {first}{length}"
        ))
        .help(
            "or write `step = \"epoch\"`: the numbers under [pruner] are epochs, and evaluations \
             between whole epochs are only logged",
        );
    Diagnostic { severity: Severity::ErrorIfNew, ..problem }
}

/// Warns of trials that end within an epoch where steps are epochs: their last report counts as a
/// whole one, since it must not have the number of the epoch before.
pub(super) fn check_parts(
    spec: &StudySpec,
    of_argument: impl Fn(&str) -> Option<SourceSpan>,
    problems: &mut Vec<Diagnostic>,
) {
    let Program::Trainer { arguments, .. } = &spec.program else { return };
    if spec.step != StepUnit::Epoch {
        return;
    }
    let values = |name: &str| -> Vec<f64> {
        let fixed = arguments.get(name).and_then(Json::as_f64);
        let searched = spec.space.dimensions().iter();
        let searched = searched.filter(|one| canonical(ARGUMENTS, &one.name) == name);
        let searched = searched.flat_map(|one| match &one.distribution {
            Distribution::Choice { choices } => {
                choices.iter().filter_map(|choice| choice.to_json().as_f64()).collect()
            }
            range => {
                let some = [0.0, 0.11, 0.37, 0.53, 0.79, 1.0];
                let value = |unit| range.from_unit(unit).to_json().as_f64();
                some.into_iter().filter_map(value).collect::<Vec<_>>()
            }
        });
        fixed.into_iter().chain(searched).collect()
    };
    let steps = values("max_steps").into_iter().find(|steps| *steps > 0.0);
    let part = values("num_train_epochs").into_iter().find(|epochs| epochs.fract() != 0.0);
    let (name, message) = match (steps, part) {
        (Some(_), _) => (
            "max_steps",
            "`max_steps` may end a trial within an epoch, and steps are epochs: its last report \
             counts as a whole one"
                .to_owned(),
        ),
        (None, Some(epochs)) => (
            "num_train_epochs",
            format!(
                "a trial of {epochs} epochs ends within an epoch, and steps are epochs: its last \
                 report counts as epoch {}",
                epochs.ceil()
            ),
        ),
        (None, None) => return,
    };
    problems.push(
        Diagnostic::warning(of_argument(name), message)
            .help("rungs and tables treat it as one; the metric `epoch` of a report is exact")
            .help("`step = \"step\"` under [study] counts optimiser steps"),
    );
}

/// A note on a unit that the study file does not set. `stored`: the unit of the stored study, which
/// stays.
pub fn note(stored: Option<StepUnit>) -> Option<&'static str> {
    match stored {
        None => Some(
            "steps are optimiser steps, since `eval_strategy = \"steps\"` evaluates between whole \
             epochs; `step = \"epoch\"` under [study] counts epochs",
        ),
        Some(StepUnit::Epoch) => Some(
            "the study started with epochs as its steps, and keeps them: evaluations between whole \
             epochs are only logged; `--fork NAME` starts a study that reports them",
        ),
        Some(StepUnit::Step | StepUnit::Samples) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Checked, parse_with_warnings};

    fn checked(step: &str, trainer: &str, space: &str, pruner: &str) -> Checked {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("t.csv"), "text,label\na,b\n").unwrap();
        let text = format!(
            "[study]\nmetric = \"eval_loss\"\ndirection = \"minimize\"\n{step}\n[budget]\ntrials \
             = 3\n[data]\ntrain = \"t.csv\"\ntext = \"text\"\nlabel = \"label\"\n[trainer]\n\
             {trainer}\n[space]\nlearning_rate = [1e-4, 1e-3]\n{space}\n\
             {pruner}\n"
        );
        parse_with_warnings(&text, Path::new("s.toml"), directory.path(), &[])
            .unwrap_or_else(|problems| panic!("{problems}"))
    }

    const STEPS: &str = "evaluation_strategy = \"steps\"\nlogging_steps = 20\nnum_train_epochs = 9";
    const SEARCHED: &str = "evaluation_strategy = [\"epoch\", \"steps\"]";

    #[test]
    fn steps_are_optimiser_steps_where_evaluation_is_by_them() {
        let unit = |step, trainer, space, pruner| {
            let checked = checked(step, trainer, space, pruner);
            assert!(checked.begins().is_ok());
            (checked.spec.step, checked.step_is_derived)
        };
        assert_eq!(unit("", "", "", ""), (StepUnit::Epoch, false));
        assert_eq!(unit("", "eval_strategy = \"epoch\"", "", ""), (StepUnit::Epoch, false));
        assert_eq!(unit("", STEPS, "", ""), (StepUnit::Step, true));
        assert_eq!(unit("", "", SEARCHED, ""), (StepUnit::Step, true));
        let median = "[pruner]\ntype = \"median\"";
        assert_eq!(unit("", STEPS, "", median), (StepUnit::Step, true));
        assert_eq!(unit("step = \"samples\"", STEPS, "", ""), (StepUnit::Samples, false));
        assert_eq!(unit("step = \"epoch\"", STEPS, "", ""), (StepUnit::Epoch, false));
        let asha = "[pruner]\ntype = \"asha\"\nmin_resource = 20\nmax_resource = 900";
        assert_eq!(unit("step = \"step\"", STEPS, "", asha), (StepUnit::Step, false));
    }

    #[test]
    fn a_new_study_whose_pruner_counts_steps_must_name_their_unit() {
        let pruners = [
            ("asha\"\nmin_resource = 3", "min_resource = 20`, and `max_resource`"),
            ("hyperband\"", "min_resource = 20`, and `max_resource`"),
            ("median\"\nn_warmup_steps = 3", "`n_warmup_steps = 20`"),
            ("pbt\"\npopulation = 3", "`interval = 20`"),
        ];
        for (pruner, numbers) in pruners {
            let checked = checked("", STEPS, "", &format!("[pruner]\ntype = \"{pruner}"));
            // A stored study goes on with epochs.
            assert_eq!((checked.spec.step, checked.step_is_derived), (StepUnit::Epoch, true));
            let refused = checked.begins().unwrap_err().to_string();
            assert!(refused.contains("`step` under [study] is needed"), "{refused}");
            assert!(refused.contains("write `step = \"step\"` under [study]"), "{refused}");
            assert!(refused.contains(numbers), "{refused}");
            assert!(refused.contains("or write `step = \"epoch\"`"), "{refused}");
        }
    }

    #[test]
    fn trials_that_end_within_an_epoch_are_warned_of() {
        let warnings =
            |step, trainer, space| checked(step, trainer, space, "").warnings.to_string();
        let some = |trainer, space, said: &str| {
            let warned = warnings("", trainer, space);
            assert!(warned.contains(said), "{warned}");
            let steps = warnings("step = \"step\"", trainer, space);
            assert!(!steps.contains("within an epoch"), "{steps}");
        };
        some("num_train_epochs = 0.5", "", "0.5 epochs ends within an epoch, and steps are epoch");
        some("num_train_epochs = 0.5", "", "counts as epoch 1");
        some("max_steps = 10", "", "`max_steps` may end a trial within an epoch");
        some("", "epochs = [1, 1.5]", "a trial of 1.5 epochs ends within an epoch");
        some("", "num_train_epochs = { float = [1, 3] }", "epochs ends within an epoch");
        for space in ["num_train_epochs = { int = [1, 3] }", "num_train_epochs = [1.0, 2.0]"] {
            assert!(!warnings("", "", space).contains("within an epoch"));
        }
        assert!(!warnings("", "num_train_epochs = 3.0", "").contains("within an epoch"));
    }

    #[test]
    fn epochs_with_evaluations_between_them_are_warned_of() {
        let warnings = |step, trainer| checked(step, trainer, "", "").warnings.to_string();
        let said = warnings("step = \"epoch\"", "eval_strategy = \"steps\"");
        assert!(said.contains("evaluations between whole epochs are only logged"), "{said}");
        assert!(said.contains("`step = \"step\"` reports every evaluation"), "{said}");
        assert!(!warnings("step = \"epoch\"", "eval_strategy = \"epoch\"").contains("logged"));
        assert!(!warnings("", "eval_strategy = \"steps\"").contains("logged"));
    }
}
