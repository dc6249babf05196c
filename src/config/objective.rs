//! `[study] metric` and `direction`, or `[[study.objective]]` instead.

use super::diagnostic::{Diagnostic, SourceSpan};
use super::section::Section;
use super::syntax::{Node, TomlEntry, TomlTable};
use crate::arguments::{TRAINER_TASKS, TaskKind, is_smaller_better};
use crate::study::condition::nearest_metric;
use crate::study::field::{MOST_OBJECTIVES, OBJECTIVE};
use crate::study::metric::Direction;
use crate::study::pareto::measurable_points;
use crate::study::spec::{Objective, StudySpec};
use crate::study::suggestion::quoted;
use crate::study::usual_direction::usual_direction;

const METRIC_HELP: &str = "write `metric = \"eval_loss\"`, the name your reports give it,";
const DIRECTION_HELP: &str = "write `direction = \"minimize\"` or `direction = \"maximize\"`";

/// Reads the objectives of `[study]`: at least one.
pub(super) fn read(study: &Section<'_>, problems: &mut Vec<Diagnostic>) -> Option<Vec<Objective>> {
    match study.entry("objective") {
        Some(entry) => listed(study, entry, problems),
        None => one(study, "the study", "[study]", problems).map(|objective| vec![objective]),
    }
}

fn one(
    section: &Section<'_>,
    owner: &str,
    table: &str,
    problems: &mut Vec<Diagnostic>,
) -> Option<Objective> {
    for (key, help) in [("metric", METRIC_HELP), ("direction", DIRECTION_HELP)] {
        if section.lacks(key) {
            problems.push(
                Diagnostic::error(section.place, format!("{owner} has no `{key}`"))
                    .help(format!("{help} under {table}")),
            );
        }
    }
    let node = section.node("direction");
    let direction = match node.and_then(Node::text) {
        Some("minimize" | "min") => Direction::Minimize,
        Some("maximize" | "max") => Direction::Maximize,
        _ => return None,
    };
    if let Some(node) = node.filter(|node| node.text() != Some(direction.as_str())) {
        let message =
            format!("`{}` is taken as `{}`", node.text().unwrap_or_default(), direction.as_str());
        problems.push(
            Diagnostic::warning(node.place, message)
                .help(format!("write direction = \"{}\"", direction.as_str())),
        );
    }
    let metric = section.text("metric")?;
    Some(Objective::new(metric, direction))
}

/// `[[study.objective]]`: one is equivalent to `metric` and `direction`.
fn listed(
    study: &Section<'_>,
    entry: &TomlEntry,
    problems: &mut Vec<Diagnostic>,
) -> Option<Vec<Objective>> {
    for other in ["metric", "direction"].into_iter().filter_map(|key| study.entry(key)) {
        let problem = Diagnostic::error(
            other.place,
            format!("`{}` is given here and in [[study.objective]]", other.key),
        );
        problems.push(problem.related(entry.place, "objectives").help("keep one of the two"));
    }
    let tables: Option<Vec<(&TomlTable, SourceSpan)>> = entry.value.list().and_then(|list| {
        list.iter().map(|node| node.table().map(|table| (table, node.place))).collect()
    });
    let Some(tables) = tables.filter(|tables| !tables.is_empty()) else {
        let problem = Diagnostic::error(entry.place, "`study.objective` must be a list of tables");
        problems
            .push(problem.help("leave it out and write `metric` and `direction` under [study]"));
        return None;
    };
    if tables.len() > MOST_OBJECTIVES {
        let problem = Diagnostic::error(
            entry.place,
            format!("{} objectives: {MOST_OBJECTIVES} are the limit", tables.len()),
        );
        problems.push(problem.help("others are recorded as metrics, and `limit` restricts them"));
    }
    let mut objectives: Vec<Objective> = Vec::new();
    let mut places: Vec<SourceSpan> = Vec::new();
    for (table, place) in &tables {
        let section = Section::read("study.objective", *place, table, OBJECTIVE, problems);
        // The others are read all the same: all problems are told at once.
        let Some(objective) = one(&section, "the objective", "[[study.objective]]", problems)
        else {
            continue;
        };
        let same = |other: &Objective| other.metric == objective.metric;
        if let Some(index) = objectives.iter().position(same) {
            let problem = Diagnostic::error(
                section.place_of("metric"),
                format!("`{}` is already an objective", objective.metric),
            );
            problems.push(problem.related(Some(places[index]), "the other").help("remove one"));
        }
        if tables.len() == 1
            && let Some(threshold) = section.node("threshold")
        {
            let problem =
                Diagnostic::error(threshold.place, "`threshold` is for several objectives");
            problems.push(problem.help("a study of one ends at `target` under [budget]"));
        }
        objectives.push(Objective { threshold: section.get("threshold"), ..objective });
        places.push(*place);
    }
    (objectives.len() == tables.len()).then_some(objectives)
}

/// Refuses metrics that no report can have: beside them the key is the step.
pub(super) fn check_names(spec: &StudySpec, study: &Section<'_>, problems: &mut Vec<Diagnostic>) {
    let is_step = |metric: &str| metric == "step" || metric == spec.step.as_str();
    for objective in spec.objectives.iter().filter(|objective| is_step(&objective.metric)) {
        let place = study.node("metric").map(|node| node.place);
        let place = place.or(study.node("objective").map(|node| node.place));
        let message = format!("no report has a metric `{}`: it is the step", objective.metric);
        problems.push(Diagnostic::error(place, message).help("give the metric another name"));
    }
}

/// Checks the rest of the file against several objectives: refuses what has no meaning with them.
pub(super) fn check_several(
    spec: &StudySpec,
    study: &Section<'_>,
    budget: &Section<'_>,
    problems: &mut Vec<Diagnostic>,
) {
    if !spec.has_several_objectives() {
        return;
    }
    let mut refuse = |place: Option<SourceSpan>, what: &str, help: &str| {
        let message = format!("{what}: this study has {} objectives", spec.objectives.len());
        problems.push(Diagnostic::error(place, message).help(help));
    };
    if study.node("value").is_some_and(|node| node.text() == Some("best")) {
        refuse(
            study.place_of("value"),
            "`value = \"best\"` requires a single objective",
            "a trial's values are those of its last reports, all of one model; leave `value` out",
        );
    }
    if study.node("value").is_some_and(|node| node.text() == Some("mean")) {
        refuse(
            study.place_of("value"),
            "`value = \"mean\"` requires a single objective",
            "a trial's values are those of its last reports; leave `value` out, and let the \
             program report the means of its folds so far",
        );
    }
    if budget.entry("trial_patience").is_some() {
        refuse(
            budget.place_of("trial_patience"),
            "`trial_patience` looks at one metric",
            "leave it out, and let the program end when it no longer improves",
        );
    }
    let of_one_value = spec.keys_of_one_value();
    if of_one_value.contains(&"replicates") {
        refuse(
            study.place_of("replicates"),
            "`replicates` compares configurations by the mean of one value",
            "leave it out, and run the trials of the front again with `hpsearch enqueue`",
        );
    }
    if of_one_value.contains(&"race") {
        refuse(
            study.place_of("race"),
            "`race` finds one winner",
            "leave it out, and run the trials of the front again with `hpsearch enqueue`",
        );
    }
    if of_one_value.contains(&"duplicates") {
        refuse(
            study.place_of("duplicates"),
            "`duplicates = \"replicate\"` takes the mean of one value",
            "write duplicates = \"skip\" or duplicates = \"allow\"",
        );
    }
    if let Some(objective) = spec.unmeasurable_objective() {
        let message = format!(
            "`target` is the front's hypervolume, and `{}` has no `threshold` to measure it from",
            objective.metric
        );
        problems.push(
            Diagnostic::error(budget.place_of("target"), message)
                .help("give each [[study.objective]] a `threshold`, the worst value of interest"),
        );
    }
    check_target(spec, budget, problems);
}

/// Warns of a target that the first trial reaches, and of one that may not be measured.
fn check_target(spec: &StudySpec, budget: &Section<'_>, problems: &mut Vec<Diagnostic>) {
    let Some(target) = spec.budget.target else { return };
    let place = budget.place_of("target");
    if target <= 0.0 {
        let message = format!(
            "`target = {target}` ends the study at its first complete trial: no hypervolume is \
             below 0"
        );
        let help = "write the hypervolume to reach; `hpsearch best` prints the current front's";
        problems.push(Diagnostic::warning(place, message).help(help));
    }
    let objectives = spec.objectives.len();
    if let Some(points) = measurable_points(objectives)
        && spec.budget.trials.is_none_or(|trials| trials > points)
    {
        let message = format!(
            "`target` is not measured with {objectives} objectives and more than about {points} \
             trials on the front"
        );
        let help = "their hypervolume takes too long: set `trials` or `patience` as well";
        problems.push(Diagnostic::warning(place, message).help(help));
    }
}

/// What decides about the built-in trainer's metrics.
#[derive(Clone, Copy)]
pub(super) struct Reports {
    pub(super) task: TaskKind,
    /// Whether pairs have similarities.
    pub(super) has_scores: bool,
    /// Whether evaluations write texts, of tasks that can.
    pub(super) writes: bool,
    /// Whether there are rows to evaluate on, which one training can do without.
    pub(super) evaluates: bool,
}

/// The built-in trainer's metrics are known: a misspelt one would make every trial fail.
pub(super) fn check_metric(
    study: &Section<'_>,
    index: usize,
    objective: &Objective,
    Reports { task, has_scores, writes, evaluates }: Reports,
    problems: &mut Vec<Diagnostic>,
) {
    let place = |key: &str| place_of(study, index, key);
    let known = task.objectives_of(has_scores);
    let metric = objective.metric.as_str();
    if !known.contains(&metric) {
        // A metric of other tasks is no slip of the pen.
        let is_of_another = !task.reported().contains(&metric)
            && TRAINER_TASKS.iter().any(|other| other.metrics.contains(&metric));
        let message = match task.reported().contains(&metric) {
            true if task.objectives().contains(&metric) => {
                let without = if has_scores { "with" } else { "without" };
                format!("`{metric}` is not reported for pairs {without} `[data] score`")
            }
            true => format!("`{metric}` cannot be an objective: it does not measure the model"),
            false if is_of_another => {
                format!("`{}` reports no metric `{metric}`", task.line().name)
            }
            false => format!("the trainer reports no metric `{metric}`"),
        };
        let problem = Diagnostic::error(place("metric"), message);
        problems.push(match nearest_metric(metric, &known).filter(|_| !is_of_another) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!("it reports {}", quoted(known))),
        });
        return;
    }
    if !writes && task.metrics_of_texts().contains(&metric) {
        let message = format!(
            "`{metric}` measures generated texts, which `predict_with_generate = false` does not \
             write"
        );
        let problem = Diagnostic::error(place("metric"), message);
        problems.push(problem.help("leave that out of [trainer], or search for `eval_loss`"));
        return;
    }
    if !evaluates && task.line().metrics.contains(&metric) {
        let message = format!(
            "`{metric}` would never be reported: `validation_split = 0` leaves no rows to evaluate \
             on"
        );
        let problem = Diagnostic::error(place("metric"), message);
        problems.push(problem.help(
            "a search needs validation rows: leave `validation_split` out of [data]; `hpsearch \
             train FILE.toml --set data.validation_split=0` trains one model on all rows",
        ));
        return;
    }
    let better = match is_smaller_better(metric) {
        true => Direction::Minimize,
        false => Direction::Maximize,
    };
    if objective.direction != better {
        let message = format!(
            "`{metric}` is searched for its worst value: `direction = \"{}\"`",
            objective.direction.as_str()
        );
        let problem = Diagnostic::warning(place("direction"), message);
        problems.push(problem.help(format!("did you mean \"{}\"?", better.as_str())));
    }
}

/// Warns of a program's metric that is searched for what its name says is worse.
pub(super) fn check_direction(
    study: &Section<'_>,
    index: usize,
    objective: &Objective,
    problems: &mut Vec<Diagnostic>,
) {
    let Some(usual) = usual_direction(&objective.metric) else { return };
    if objective.direction != usual {
        let (sought, usually) = match objective.direction {
            Direction::Minimize => ("smallest", "larger"),
            Direction::Maximize => ("largest", "smaller"),
        };
        let message = format!(
            "the study searches for the {sought} `{}`, whose {usually} values are usually better",
            objective.metric
        );
        let problem = Diagnostic::warning(place_of(study, index, "direction"), message);
        problems.push(problem.help(format!("did you mean \"{}\"?", usual.as_str())));
    }
}

/// The place of a key of an objective.
fn place_of(study: &Section<'_>, index: usize, key: &str) -> Option<SourceSpan> {
    let listed = study.node("objective").and_then(Node::list).and_then(|list| list.get(index));
    let entry = listed.and_then(Node::table).and_then(|table| table.get(key));
    entry.map(|entry| entry.value.place).or_else(|| study.place_of(key))
}
