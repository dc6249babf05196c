//! `[command.metrics]`: where the metrics of a program are found that prints them in its own words.

use super::diagnostic::Diagnostic;
use super::section::Section;
use super::syntax::{Node, Table};
use crate::study::field::COMMAND_METRICS;
use crate::study::printed_metrics::{PatternError, Patterns};
use crate::study::spec::{MetricSources, Program, StudySpec};

/// How a pattern is written.
const EXAMPLE: &str = r"write for example `pattern = 'epoch (?<epoch>\d+).* loss: (?<loss>\S+)'`";

/// Reads the table.
pub(super) fn read(command: &Section<'_>, problems: &mut Vec<Diagnostic>) -> MetricSources {
    let Some((place, table)) =
        command.entry("metrics").and_then(|entry| Some((entry.place, entry.value.table()?)))
    else {
        return MetricSources::default();
    };
    let section = Section::read("command.metrics", place, table, COMMAND_METRICS, problems);
    let nodes = section.node("pattern").map(patterns).unwrap_or_default();
    let pattern = nodes.iter().filter_map(|node| node.text()).map(str::to_owned).collect();
    MetricSources { pattern }
}

/// Whether the patterns can be used, and whether one of them finds the study's metric.
pub(super) fn check(spec: &StudySpec, tree: &Table, problems: &mut Vec<Diagnostic>) {
    let Program::Command { metrics: MetricSources { pattern }, .. } = &spec.program else { return };
    let node = tree.get("command").and_then(|command| command.value.table()?.get("metrics"));
    let node = node.and_then(|metrics| Some(&metrics.value.table()?.get("pattern")?.value));
    let (Some(node), false) = (node, pattern.is_empty()) else { return };
    match Patterns::new(pattern, spec.step.as_str()) {
        Err((index, error)) => {
            let place = patterns(node).get(index).map(|node| node.place);
            let problem = match error {
                PatternError::Syntax(why) => {
                    let message = "`command.metrics.pattern` is not a regular expression";
                    Diagnostic::error(place, message)
                        .label(why)
                        .help("write it in single quotes, where a backslash stands for itself")
                }
                PatternError::NoGroup => {
                    let message = "`command.metrics.pattern` names no metric";
                    let problem = Diagnostic::error(place, message).label("no named group");
                    problem.help(EXAMPLE)
                }
            };
            problems.push(problem);
        }
        Ok(patterns) if !patterns.metrics().any(|name| *name == spec.objective().metric) => {
            let metric = &spec.objective().metric;
            let message = format!("no pattern has a group for the study's metric `{metric}`");
            let problem = Diagnostic::warning(node.place, message);
            problems.push(problem.help(format!(
                "name a group `(?<{metric}>..)`, or have the program print `@hpsearch` lines with \
                 it"
            )));
        }
        Ok(_) => {}
    }
}

fn patterns(node: &Node) -> Vec<&Node> {
    match node.list() {
        Some(list) => list.iter().collect(),
        None => vec![node],
    }
}
