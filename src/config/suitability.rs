//! Whether the chosen sampler and pruner suit the rest of the study.

use super::diagnostic::{Diagnostic, SourceSpan};
use super::sampler_pruner::Chosen;
use super::section::Section;
use crate::samplers::{Ask, OfEarlier, Sampler, SamplerError};
use crate::study::history::History;
use crate::study::program::Program;
use crate::study::seed::SeedTree;
use crate::study::spec::{Duplicates, StudySpec};
use crate::study::step::StepUnit;
use crate::study::trial::TrialNumber;
use crate::{pruners, samplers};

/// Spaces of more configurations are hardly ever tried as a whole.
const FEW_CONFIGURATIONS: u64 = 1_000;

/// Builds the sampler to validate it. A study without a limit needs a sampler that exhausts, or
/// candidates.
pub(super) fn check_sampler(
    spec: &StudySpec,
    sampler: &Chosen,
    (budget, is_unlimited): (&Section<'_>, bool),
    of_constraints: Option<SourceSpan>,
    problems: &mut Vec<Diagnostic>,
) {
    let built = samplers::find(&spec.sampler.name).map(|entry| {
        samplers::check_objectives(&spec.sampler, spec.objectives.len())?;
        (entry.build)(&spec.sampler, &spec.space)
    });
    let Some(built) = sampler.built(built, None, problems) else { return };
    check_warm_start(spec, sampler, built.as_ref(), problems);
    if is_unlimited && spec.candidates.is_empty() && !built.exhausts() {
        let problem = Diagnostic::error(budget.place, "the study has no limit: it would never end");
        problems.push(problem.help("write `trials = 48` or `time = \"8h\"` under [budget]"));
    } else if spec.budget.trials.is_none()
        && spec.duplicates == Duplicates::Skip
        && spec.candidates.is_empty()
        && !built.exhausts()
        && let Some(points) =
            spec.space.cardinality().filter(|points| *points <= FEW_CONFIGURATIONS)
    {
        let message = format!(
            "once all {points} configurations of the space were tried, they are repeated until \
             another limit is reached"
        );
        let problem = Diagnostic::warning(budget.place, message);
        problems
            .push(problem.help(format!("write `trials = {points}` under [budget] to end then")));
    }
    check_requirements(spec, built.as_ref(), of_constraints, problems);
}

/// Warns of a sampler that does not learn from the earlier studies.
fn check_warm_start(
    spec: &StudySpec,
    sampler: &Chosen,
    built: &dyn Sampler,
    problems: &mut Vec<Diagnostic>,
) {
    if spec.warm_start.is_empty() {
        return;
    }
    let (name, objectives) = (&spec.sampler.name, spec.objectives.len());
    let (message, help) = match built.takes_of_earlier(&spec.space, objectives) {
        OfEarlier::Results => return,
        OfEarlier::Best => {
            let one = built.takes_of_earlier(&spec.space, 1);
            let here = match one {
                OfEarlier::Results => format!(" with {objectives} objectives"),
                _ => String::new(),
            };
            let help = "it only begins with the best configurations of these studies; `type = \
                        \"tpe\"` learns from all of their results";
            (format!("`{name}` does not learn from `warm_start`{here}"), help)
        }
        OfEarlier::Nothing => {
            let help = "`type = \"tpe\"` learns from the results of these studies";
            (format!("`{name}` ignores `warm_start`"), help)
        }
    };
    let problem = Diagnostic::warning(sampler.section.place_of("warm_start"), message);
    problems.push(problem.help(help));
}

/// Requirements that no configuration satisfies.
fn check_requirements(
    spec: &StudySpec,
    sampler: &dyn Sampler,
    of_constraints: Option<SourceSpan>,
    problems: &mut Vec<Diagnostic>,
) {
    let seeds = SeedTree::new(spec.seed);
    let history = History::of(&[], spec.objective().direction);
    let ask = Ask {
        constraints: &spec.constraints,
        ..Ask::new(&spec.space, history, TrialNumber(0), seeds)
    };
    // Enqueued configurations may be all that is run.
    if ask.is_restricted()
        && spec.candidates.is_empty()
        && spec.enqueue.is_empty()
        && let Err(SamplerError::Constraints { draws, rejected }) =
            samplers::propose(sampler, &ask, &mut seeds.stream("sampler/0"))
    {
        let message =
            format!("none of {draws} random points satisfies the constraints: {rejected}");
        let problem = Diagnostic::error(of_constraints, message);
        problems.push(
            problem.help("loosen a `[[constraint]]`, or narrow `[space]` to where they hold"),
        );
    }
}

/// Builds the pruner to validate it. `length`: the span of the length of a full trial.
pub(super) fn check_pruner(
    spec: &StudySpec,
    pruner: &Chosen,
    length: Option<SourceSpan>,
    problems: &mut Vec<Diagnostic>,
) {
    let budget = super::full_trial(spec);
    let needs_end = matches!(spec.pruner.name.as_str(), "asha" | "curve" | "hyperband");
    if needs_end && budget.is_none() && !spec.pruner.options.contains_key("max_resource") {
        let unit = spec.step.plural();
        let problem = Diagnostic::error(
            pruner.place,
            format!("{} needs `max_resource`: how many {unit} a full trial has", spec.pruner.name),
        );
        let help = match (&spec.program, spec.step) {
            (Program::Trainer { .. }, StepUnit::Step) => {
                "fix `max_steps` under [trainer], or write `max_resource = 1000` under [pruner]"
            }
            (_, StepUnit::Epoch) => "write for example `max_resource = 27` under [pruner]",
            _ => "write for example `max_resource = 10000` under [pruner]",
        };
        problems.push(problem.help(help));
        return;
    }
    let is_given = |key: &str| spec.pruner.options.contains_key(key);
    if pruners::is_population(&spec.pruner)
        && budget.is_none()
        && !is_given(pruners::INTERVAL.name)
        && !is_given("max_resource")
    {
        let unit = spec.step.plural();
        let message = format!("pbt needs `interval`: how many {unit} lie between two decisions");
        let problem = Diagnostic::error(pruner.place, message);
        problems.push(problem.help("write for example `interval = 2` under [pruner]"));
        return;
    }
    let built = pruners::find(&spec.pruner.name).map(|entry| {
        pruners::check_objectives(&spec.pruner, spec.objectives.len())?;
        (entry.build)(&spec.pruner, budget)
    });
    pruner.built(built, length, problems);
}
