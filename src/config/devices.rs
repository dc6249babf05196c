//! `[devices]`: where trials run, and how many at a time.

use std::str::FromStr;

use super::diagnostic::{Diagnostic, SourceSpan};
use super::placeholder::{ArgumentPiece, pieces};
use super::section::Section;
use super::syntax::Node;
use super::trial_values::GroupValues;
use crate::study::device::Device;
use crate::study::program::Program;
use crate::study::spec::{DevicesSpec, PerTrial, StudySpec};

/// Reads the table of a study of `program`, if that is valid.
pub(super) fn read(
    section: &Section<'_>,
    program: Option<&Program>,
    problems: &mut Vec<Diagnostic>,
) -> DevicesSpec {
    let select = section
        .node("use")
        .map_or_else(|| DevicesSpec::default().select, |node| selected(node, problems));
    let automatic_concurrency = section.text("trials_per_device") == Some("auto");
    if let Some(place) = section.place_of("memory").filter(|_| !automatic_concurrency) {
        let message = "`devices.memory` requires `trials_per_device = \"auto\"`";
        problems.push(
            Diagnostic::error(place, message)
                .help("write trials_per_device = \"auto\" beside it, or leave it out"),
        );
    }
    let per_trial = match section.text("per_trial") {
        Some(_) => Some(PerTrial::Auto),
        None => section.get::<Option<u32>>("per_trial").map(PerTrial::Count),
    };
    let is_group = per_trial.is_some_and(|per_trial| per_trial != PerTrial::Count(1));
    if let Some(place) = section.place_of("per_trial").filter(|_| is_group && automatic_concurrency)
    {
        let message = "`trials_per_device = \"auto\"` measures how many trials share one device, \
            and `per_trial` gives each trial a group of them";
        problems.push(
            Diagnostic::error(place, message)
                .help("leave one of the two out; with groups, trials_per_device may be a number"),
        );
    }
    let per_device: bool = section.get("per_device");
    let nodes_per_trial: u32 = section.get("nodes_per_trial");
    let nodes = section.place_of("nodes_per_trial").filter(|_| nodes_per_trial > 1);
    if let Some(place) = nodes.filter(|_| automatic_concurrency && !is_group) {
        let message = "`trials_per_device = \"auto\"` measures how many trials share one device, \
            and `nodes_per_trial` gives each trial devices of several machines";
        problems.push(
            Diagnostic::error(place, message)
                .help("leave one of the two out; with groups, trials_per_device may be a number"),
        );
    }
    if let Some(Program::Trainer { .. }) = program {
        let group = section.place_of("per_trial").filter(|_| is_group);
        let ranks = section.place_of("per_device").filter(|_| per_device);
        problems.extend(group.into_iter().chain(nodes).chain(ranks).map(|place| {
            Diagnostic::error(place, "a trial of the built-in trainer trains on one device")
                .help("leave it out: with several devices, several trials run at a time")
                .help("groups of devices or machines are for programs, in [command]")
        }));
    }
    DevicesSpec {
        select,
        trials_per_device: section.get("trials_per_device"),
        automatic_concurrency,
        memory: section.get("memory"),
        per_trial,
        nodes_per_trial,
        per_device,
        cpu_threads: section.get("cpu_threads"),
    }
}

/// Reports placeholders for values of a group in the command of a study without groups.
pub(super) fn check_placeholders(
    spec: &StudySpec,
    run: Option<SourceSpan>,
    problems: &mut Vec<Diagnostic>,
) {
    let Program::Command { run: words, .. } = &spec.program else { return };
    if spec.devices.is_grouped() {
        return;
    }
    let knows = |name: &str| spec.space.dimension(name).is_some();
    let placeholders = words.iter().flat_map(|word| pieces(word, knows));
    let mut names = placeholders.filter_map(|piece| match piece {
        ArgumentPiece::Placeholder(name, _) if !knows(name) => Some(name),
        _ => None,
    });
    if let Some(name) = names.find(|name| GroupValues::NAMES.contains(name)) {
        let message =
            format!("`{{{name}}}` is a value of a group of devices, and trials have none");
        problems.push(
            Diagnostic::error(run, message).help("write per_trial = 2, or \"auto\", in [devices]"),
        );
    }
}

fn selected(node: &Node, problems: &mut Vec<Diagnostic>) -> Vec<String> {
    const HELP: &str = "write \"auto\", or a list such as [\"cpu\"], [\"cuda:0\", \"cuda:1\"], \
        [\"cuda:*\"] or [\"wgpu:0\"]";
    if node.text() == Some("auto") {
        return vec!["auto".to_owned()];
    }
    let nodes: &[Node] = node.list().unwrap_or(std::slice::from_ref(node));
    if nodes.is_empty() {
        problems.push(
            Diagnostic::error(node.place, "`devices.use` is empty: no trial could run").help(HELP),
        );
    }
    let mut selected: Vec<String> = Vec::new();
    for element in nodes {
        let wrong = |message: String| Diagnostic::error(element.place, message);
        problems.push(match element.text() {
            Some(name) if selected.iter().any(|earlier| earlier == name) => {
                wrong(format!("the device `{name}` appears twice"))
                    .help("for several trials on one device write `trials_per_device = 2`")
            }
            Some(name) if is_device(name) => {
                selected.push(name.to_owned());
                continue;
            }
            Some("auto") => wrong("`auto` cannot be combined with others".to_owned())
                .help("write use = \"auto\""),
            Some(name) => {
                let is_any_of =
                    |words: &[&str]| words.iter().any(|word| name.to_lowercase().starts_with(word));
                wrong(format!("`{name}` is not a device"))
                    .label("expected cpu, cuda:N, cuda:*, wgpu:N or ndarray")
                    .help(match () {
                        () if is_any_of(&[
                            "wgpu", "vulkan", "metal", "mps", "amd", "rocm", "intel",
                        ]) =>
                        {
                            "write \"wgpu:0\" for the first GPU with a driver for Vulkan or Metal"
                        }
                        () if is_any_of(&["gpu", "cuda", "nvidia"]) => {
                            "write \"cuda:0\" for the first GPU, \"cuda:*\" for all"
                        }
                        () => HELP,
                    })
            }
            None => element.wrong("`devices.use` must be a list of device names").help(HELP),
        });
    }
    selected
}

/// A device, `cuda:*`, or a range of mock devices: `sim:0..3`.
pub(super) fn is_device(name: &str) -> bool {
    let range = name.strip_prefix("sim:").and_then(|range| range.split_once(".."));
    let index = |text: &str| text.parse::<u32>().ok();
    match range.map(|(from, to)| index(from).zip(index(to))) {
        Some(range) => range.is_some_and(|(from, to)| from <= to && to <= 1_023),
        None => {
            let is_local = !name.contains(['+', '/']);
            name == "cuda:*" || is_local && Device::from_str(name).is_ok()
        }
    }
}
