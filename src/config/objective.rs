//! `[study] metric` and `direction`, or a single `[[study.objective]]` instead.

use super::diagnostic::{Diagnostic, Place};
use super::section::{Section, not_yet};
use super::syntax::{Entry, Node, Table};
use crate::arguments::TaskKind;
use crate::study::field::OBJECTIVE;
use crate::study::metric::Direction;
use crate::study::spec::Objective;
use crate::study::suggestion::{nearest, quoted};

const METRIC_HELP: &str = "write `metric = \"eval_loss\"`, the name your reports give it,";
const DIRECTION_HELP: &str = "write `direction = \"minimize\"` or `direction = \"maximize\"`";

/// Reads the objective of `[study]`.
pub(super) fn read(study: &Section<'_>, problems: &mut Vec<Diagnostic>) -> Option<Objective> {
    if let Some(entry) = study.entry("objective") {
        return listed(study, entry, problems);
    }
    one(study, "the study", "[study]", problems)
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
    Some(Objective { metric: section.text("metric")?.to_owned(), direction })
}

/// `[[study.objective]]`: one is equivalent to `metric` and `direction`; several are not supported
/// yet.
fn listed(study: &Section<'_>, entry: &Entry, problems: &mut Vec<Diagnostic>) -> Option<Objective> {
    for other in ["metric", "direction"].into_iter().filter_map(|key| study.entry(key)) {
        let problem = Diagnostic::error(
            other.place,
            format!("`{}` is given here and in [[study.objective]]", other.key),
        );
        problems.push(problem.related(entry.place, "objectives").help("keep one of the two"));
    }
    let tables: Option<Vec<(&Table, Place)>> = entry.value.list().and_then(|list| {
        list.iter().map(|node| node.table().map(|table| (table, node.place))).collect()
    });
    match tables.as_deref() {
        Some([(table, place)]) => {
            let section = Section::read("study.objective", *place, table, OBJECTIVE, problems);
            one(&section, "the objective", "[[study.objective]]", problems)
        }
        Some([_, (_, second), ..]) => {
            problems.push(not_yet(
                *second,
                "searching several objectives",
                "keep the most important one; other metrics are recorded all the same",
            ));
            None
        }
        _ => {
            let problem =
                Diagnostic::error(entry.place, "`study.objective` must be a list of tables");
            problems.push(
                problem.help("leave it out and write `metric` and `direction` under [study]"),
            );
            None
        }
    }
}

/// The built-in trainer's metrics are known: a misspelt one would make every trial fail.
pub(super) fn check_metric(
    study: &Section<'_>,
    objective: Option<&Objective>,
    task: TaskKind,
    problems: &mut Vec<Diagnostic>,
) {
    let Some(objective) = objective else { return };
    let known: Vec<&str> = task.line().metrics.iter().copied().chain(["train_loss"]).collect();
    let metric = objective.metric.as_str();
    if !known.contains(&metric) {
        let problem = Diagnostic::error(
            study.place_of("metric"),
            format!("the trainer reports no metric `{metric}`"),
        );
        let suffix = known
            .iter()
            .copied()
            .find(|name| name.strip_prefix("eval_").is_some_and(|rest| rest == metric));
        problems.push(match suffix.or_else(|| nearest(metric, known.iter().copied())) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!("it reports {}", quoted(known))),
        });
        return;
    }
    let smaller = ["loss", "perplexity", "bits_per_byte"].iter().any(|end| metric.ends_with(end));
    let better = if smaller { Direction::Minimize } else { Direction::Maximize };
    if objective.direction != better {
        let message = format!(
            "`{metric}` is searched for its worst value: `direction = \"{}\"`",
            objective.direction.as_str()
        );
        let problem = Diagnostic::warning(study.place_of("direction"), message);
        problems.push(problem.help(format!("did you mean \"{}\"?", better.as_str())));
    }
}
