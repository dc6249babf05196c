//! `hpsearch list`: the available samplers, pruners or tasks, from their tables.

use std::collections::BTreeMap;
use std::io::Write;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{Console, Exit, Failure};
use crate::arguments::{TRAINER_TASKS, TrainerTask};
use crate::pruners::{self, PRUNERS};
use crate::samplers::{self, SAMPLERS};
use crate::study::field::Field;
use crate::study::registry::RegistryEntry;

/// The listed table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Listed {
    /// Algorithms that propose configurations
    Samplers,
    /// Algorithms that stop trials early
    Pruners,
    /// Tasks of the built-in trainer
    Tasks,
}

/// Arguments of `hpsearch list`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch list samplers\n  hpsearch list pruners")]
pub struct ListArguments {
    /// What to list: samplers, pruners or tasks
    #[arg(hide_possible_values = true)]
    pub what: Listed,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ListEntryJson {
    name: &'static str,
    aliases: &'static [&'static str],
    summary: &'static str,
    options: Vec<OptionJson>,
    metrics: Vec<&'static str>,
    /// Of samplers and pruners: whether they serve studies of several objectives.
    #[serde(skip_serializing_if = "Option::is_none")]
    several_objectives: Option<bool>,
}

#[derive(Serialize)]
struct OptionJson {
    name: &'static str,
    values: String,
    default: String,
    summary: &'static str,
}

/// Lists them.
pub fn list(arguments: &ListArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (entries, later): (Vec<ListEntryJson>, &[&str]) = match arguments.what {
        Listed::Samplers => (
            SAMPLERS.iter().map(RegistryEntry::described).map(registered).collect(),
            samplers::NOT_YET,
        ),
        Listed::Pruners => (
            PRUNERS.iter().map(RegistryEntry::described).map(registered).collect(),
            pruners::NOT_YET,
        ),
        Listed::Tasks => (TRAINER_TASKS.iter().map(task).collect(), &[]),
    };
    if arguments.json {
        return console.json(None, &BTreeMap::from([("entries", entries)]));
    }
    print(&entries, later, console)?;
    Ok(Exit::Done)
}

fn registered(
    RegistryEntry { name, aliases, summary, options, several, .. }: RegistryEntry<()>,
) -> ListEntryJson {
    let option = |option: &Field| OptionJson {
        name: option.name,
        values: option.kind.to_string(),
        default: option.default.to_string(),
        summary: option.doc,
    };
    ListEntryJson {
        name,
        aliases,
        summary,
        options: options.iter().map(option).collect(),
        metrics: Vec::new(),
        several_objectives: Some(several),
    }
}

fn task(task: &TrainerTask) -> ListEntryJson {
    let TrainerTask { kind, name, doc: summary, .. } = *task;
    let metrics = kind.objectives();
    let several_objectives = None;
    ListEntryJson { name, aliases: &[], summary, options: Vec::new(), metrics, several_objectives }
}

fn print(entries: &[ListEntryJson], later: &[&str], console: &mut Console) -> Result<(), Failure> {
    for entry in entries {
        let aliases = if entry.aliases.is_empty() {
            String::new()
        } else {
            format!(" (also {})", entry.aliases.join(", "))
        };
        writeln!(console.out, "{}{aliases}", entry.name)?;
        console.hanging("  ", 2, entry.summary)?;
        if entry.several_objectives == Some(true) {
            writeln!(console.out, "  supports several objectives")?;
        }
        for option in &entry.options {
            console.hanging(
                "    ",
                6,
                &format!(
                    "{} = {}: {}; {}",
                    option.name, option.default, option.summary, option.values
                ),
            )?;
        }
        if !entry.metrics.is_empty() {
            writeln!(console.out, "  metrics: {}", entry.metrics.join(", "))?;
        }
    }
    if !later.is_empty() {
        console.hanging("", 2, &format!("not implemented yet: {}", later.join(", ")))?;
    }
    Ok(())
}
