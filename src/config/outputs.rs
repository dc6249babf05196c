//! `[checkpoints]`, `[export]`, `[track]` and `[notify]`: what a study writes, and whom it tells.

use std::path::Path;

use super::diagnostic::Diagnostic;
use super::file;
use super::section::{Section, nul};
use crate::study::destination::Destination;
use crate::study::field::{self, keep_best};
use crate::study::notify::NotifySpec;
use crate::study::spec::{CheckpointsSpec, ExportSpec, TrackSpec, WhileRunning};

pub(super) fn checkpoints(
    section: &Section<'_>,
    base: &Path,
    problems: &mut Vec<Diagnostic>,
) -> CheckpointsSpec {
    let dir = section.text("dir").map(|dir| super::absolute(base, dir));
    if let Some(file) = dir.as_deref().and_then(file::in_the_way) {
        let what = if Some(file) == dir.as_deref() {
            "this is a file, not a directory"
        } else {
            "this lies below a file"
        };
        let place = section.place_of("dir");
        problems.push(
            Diagnostic::error(place, format!("`checkpoints.dir`: {what}"))
                .label(what)
                .help(format!("`{}` is not a directory: name another", file.display())),
        );
    }
    let keep_best = keep_best(&section.get::<String>("keep")).unwrap_or_default();
    let while_running = WhileRunning::parse(&section.get::<String>("while_running"));
    let while_running = while_running.unwrap_or_default();
    CheckpointsSpec { keep_best, dir, max_disk: section.get("max_disk"), while_running }
}

pub(super) fn export(
    section: &Section<'_>,
    base: &Path,
    problems: &mut Vec<Diagnostic>,
) -> ExportSpec {
    let export: ExportSpec = section.read_as();
    if export.on_finish && section.lacks("dir") {
        let place = section.place_of("on_finish");
        let problem = Diagnostic::error(place, "`export.on_finish` needs `dir`");
        problems.push(problem.help("write `dir = \"exported\"` under [export]"));
    }
    let dir = section.text("dir").map(|dir| super::absolute(base, dir));
    ExportSpec { dir, ..export }
}

pub(super) fn track(
    section: &Section<'_>,
    base: &Path,
    problems: &mut Vec<Diagnostic>,
) -> TrackSpec {
    let system = section.text("system").and_then(|text| field::period(text).ok());
    let mut to: Vec<Destination> = Vec::new();
    for text in section.get::<Vec<String>>("to") {
        match text.parse::<Destination>() {
            Ok(destination) => {
                let destination = destination.below(base);
                if !to.contains(&destination) {
                    to.push(destination);
                }
            }
            Err(error) => {
                let message = format!("`track.to`: `{text}`: {error}");
                let problem = Diagnostic::error(section.place_of("to"), message);
                problems.push(problem.help("write `to = [\"tensorboard:DIR\"]` under [track]"));
            }
        }
    }
    TrackSpec { system: system.unwrap_or(TrackSpec::default().system), to }
}

pub(super) fn notify(section: &Section<'_>, problems: &mut Vec<Diagnostic>) -> NotifySpec {
    let mut notify: NotifySpec = section.read_as();
    notify.on.sort_unstable();
    notify.on.dedup();
    if let Some(node) = section.node("command")
        && notify.command.iter().any(|word| word.contains('\0'))
    {
        problems.push(nul("`notify.command`", node));
    }
    // A URL is a secret: the file must name the variable that holds it.
    if let Some(text) = notify.webhook.take() {
        let name = text.strip_prefix("env:").filter(|name| is_variable(name));
        match name {
            Some(name) => notify.webhook = Some(name.to_owned()),
            None => {
                let message = "`notify.webhook` is the name of an environment variable, `env:NAME`";
                let problem = Diagnostic::error(section.place_of("webhook"), message);
                problems.push(problem.help(
                    "an address is a secret, and this file is stored: put it into a variable, and \
                     write `webhook = \"env:HPSEARCH_WEBHOOK\"`",
                ));
            }
        }
    }
    notify
}

fn is_variable(name: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    !name.is_empty() && name.chars().all(is_part)
}
