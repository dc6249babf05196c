//! `[devices]`: where trials run, and how many at a time.

use std::str::FromStr;

use super::diagnostic::Diagnostic;
use super::section::Section;
use super::syntax::Node;
use crate::study::device::Device;
use crate::study::spec::DevicesSpec;

/// Reads the table.
pub(super) fn read(section: &Section<'_>, problems: &mut Vec<Diagnostic>) -> DevicesSpec {
    let select = section
        .node("use")
        .map_or_else(|| DevicesSpec::default().select, |node| selected(node, problems));
    let packed = section.text("trials_per_device") == Some("auto");
    if let Some(place) = section.place_of("memory").filter(|_| !packed) {
        let message =
            "`devices.memory` is kept where devices share themselves out, and nowhere else";
        problems.push(
            Diagnostic::error(place, message)
                .help("write trials_per_device = \"auto\" beside it, or leave it out"),
        );
    }
    DevicesSpec {
        select,
        trials_per_device: section.get("trials_per_device"),
        packed,
        memory: section.get("memory"),
        cpu_threads: section.get("cpu_threads"),
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
