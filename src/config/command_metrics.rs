//! `[command.metrics]`: the sources of metrics of a program that does not print `@hpsearch` lines.

use std::path::Path;

use super::diagnostic::{Diagnostic, SourceSpan};
use super::placeholder::names;
use super::section::Section;
use super::syntax::{Node, TomlTable};
use super::trial_values::TrialValues;
use crate::study::condition::Expression;
use crate::study::constraint::Constraint;
use crate::study::field::COMMAND_METRICS;
use crate::study::printed_metrics::Patterns;
use crate::study::program::{MetricSources, Program};
use crate::study::space::Dimension;
use crate::study::spec::StudySpec;
use crate::study::suggestion::{nearest, quoted};

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
    MetricSources { pattern, json: section.get("json"), tensorboard: section.get("tensorboard") }
}

/// Checks the table, and that the patterns extract the metrics of the study.
pub(super) fn check(spec: &StudySpec, tree: &TomlTable, problems: &mut Vec<Diagnostic>) {
    let Program::Command { metrics, .. } = &spec.program else { return };
    let MetricSources { pattern, .. } = metrics;
    let table = tree.get("command").and_then(|command| command.value.table()?.get("metrics"));
    let node = |key| table.and_then(|metrics| Some(&metrics.value.table()?.get(key)?.value));
    for (key, text) in metrics.files() {
        check_path(spec, key, text, node(key).map(|node| node.place), problems);
    }
    let (Some(node), false) = (node("pattern"), pattern.is_empty()) else { return };
    match Patterns::new(pattern, spec.step.as_str()) {
        Err((index, error)) => {
            let place = patterns(node).get(index).map(|node| node.place);
            let problem = Diagnostic::error(place, format!("`command.metrics.pattern` {error}"));
            problems.push(problem.label(error.cause()).help(error.help()));
        }
        // Files may have any metric.
        Ok(_) if metrics.files().next().is_some() => {}
        Ok(patterns) => check_groups(spec, &patterns, node.place, problems),
    }
}

/// Warns of metrics of the study that no pattern finds.
fn check_groups(
    spec: &StudySpec,
    patterns: &Patterns,
    place: SourceSpan,
    problems: &mut Vec<Diagnostic>,
) {
    let objectives = spec.objective_names().into_iter().map(|name| ("the study's metric", name));
    let limits = spec.constraints.iter().filter_map(Constraint::limit);
    let limited =
        limits.flat_map(Expression::names).map(|name| ("a limit's metric", name.to_owned()));
    let mut told: Vec<String> = Vec::new();
    for (whose, metric) in objectives.chain(limited) {
        if patterns.metrics().any(|name| *name == metric) || told.contains(&metric) {
            continue;
        }
        let message = format!("no pattern has a group for {whose} `{metric}`");
        let is_name = |char: char| char.is_alphanumeric() || "_.[]".contains(char);
        let help = match metric.chars().all(is_name) {
            true => format!(
                "name a group `(?<{metric}>..)`, or have the program print `@hpsearch` lines with \
                 it"
            ),
            false => {
                "the name of a group consists of letters, digits, `_` and `.`: give the metric \
                such a name"
                    .to_owned()
            }
        };
        problems.push(Diagnostic::warning(place, message).help(help));
        told.push(metric);
    }
}

/// A path must use values that every trial has, and differ between trials.
fn check_path(
    spec: &StudySpec,
    key: &str,
    text: &str,
    place: Option<SourceSpan>,
    problems: &mut Vec<Diagnostic>,
) {
    let is_absent = |dimension: &Dimension| dimension.when.is_some() || dimension.is_nullable();
    let dimension = |name: &str| spec.space.dimension(name);
    let mut names = names(text, |name| dimension(name).is_some()).peekable();
    if names.peek().is_none() && Path::new(text).is_absolute() {
        let message = format!(
            "all trials write to the same `command.metrics.{key}`: trials that run at the same \
             time may receive each other's results"
        );
        let problem = Diagnostic::warning(place, message).label("names no trial");
        problems.push(problem.help(
            "put `{trial}` into it, or use a relative path, which lies in the trial's directory; \
             with one device and `trials_per_device = 1` under [devices] only one trial runs at a \
             time",
        ));
    }
    for name in names {
        if TrialValues::NAMES.contains(&name) || dimension(name).is_some_and(|of| !is_absent(of)) {
            continue;
        }
        if dimension(name).is_some() {
            let message = format!("`{{{name}}}` has no value in some configurations");
            let problem = Diagnostic::error(place, message);
            problems.push(problem.help("name `{trial}` instead"));
            continue;
        }
        let message = format!("`{{{name}}}` is not a value of a trial");
        let problem = Diagnostic::error(place, message);
        let known = || {
            let dimensions = spec.space.dimensions().iter().map(|known| known.name.as_str());
            TrialValues::NAMES.into_iter().chain(dimensions)
        };
        problems.push(match nearest(name, known()) {
            Some(near) => problem.help(format!("did you mean `{{{near}}}`?")),
            None => problem.help(format!("the names are {}", quoted(known()))),
        });
    }
}

fn patterns(node: &Node) -> Vec<&Node> {
    match node.list() {
        Some(list) => list.iter().collect(),
        None => vec![node],
    }
}
