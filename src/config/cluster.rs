//! `[cluster]`: other machines that run the trials.

use std::path::Path;

use super::devices::is_device;
use super::diagnostic::Diagnostic;
use super::section::Section;
use super::syntax::{Node, TomlTable};
use super::tables::CLUSTER_HOST;
use crate::study::cluster::{AgentStart, ClusterSpec, LOST_AFTER, SlurmSpec, SshHost};
use crate::study::duration;
use crate::study::program::Program;
use crate::study::spec::StudySpec;

/// The keys that belong to one type.
const OF_TYPES: &[(&str, &[&str])] = &[
    ("slurm", &["partition", "account", "time", "gres", "cpus", "memory", "max_jobs", "extra"]),
    ("ssh", &["host"]),
    ("command", &["run", "max_jobs"]),
];

/// Options of `sbatch` that must be as the runner gives them, with their letters, and what to do
/// instead.
const OWN_OPTIONS: &[(&str, Option<char>, &str)] = &[
    ("job-name", Some('J'), "the runner finds its jobs by their name; `--comment=..` labels them"),
    ("array", Some('a'), "`max_jobs` is the number of jobs at a time"),
    ("output", Some('o'), "the logs are `agent-*.log` beside `agents.json`"),
    ("clusters", Some('M'), "name it in SLURM_CLUSTERS, which `squeue` and `scancel` read, too"),
    ("wait", Some('W'), "the runner does not wait for the end of a job"),
    ("parsable", None, "leave it out"),
    ("wrap", None, "a job runs an agent; [command] is what a trial runs"),
    ("test-only", None, "`hpsearch run --dry-run` prints the command line"),
    ("help", Some('h'), "leave it out"),
    ("usage", None, "leave it out"),
    ("version", Some('V'), "leave it out"),
];

/// Reads the table; `None` if it is absent. `base`: the study file's directory.
pub(super) fn read(
    section: &Section<'_>,
    base: &Path,
    problems: &mut Vec<Diagnostic>,
) -> Option<ClusterSpec> {
    section.place?;
    let kind = section.text("type");
    check_keys(section, kind, problems);
    check_extra(section, problems);
    let start = match kind {
        Some("command") => command(section, problems),
        Some("ssh") => AgentStart::Ssh { hosts: hosts(section, problems) },
        Some("slurm") => AgentStart::Slurm(SlurmSpec {
            partition: section.get("partition"),
            account: section.get("account"),
            time: section.get("time"),
            gres: section.get("gres"),
            cpus: section.get("cpus"),
            memory: section.get("memory"),
            max_jobs: section.get("max_jobs"),
            extra: section.get("extra"),
        }),
        _ => AgentStart::Manual,
    };
    let listen: String = section.get("listen");
    if let Some(node) = section.node("listen").filter(|_| !is_address(&listen)) {
        let problem = Diagnostic::error(node.place, format!("`{listen}` is not an address"));
        problems.push(problem.help("write `\"0.0.0.0:0\"` for any port of all networks"));
    }
    let shared_dir = section.get::<Option<std::path::PathBuf>>("shared_dir");
    let lost_after = section.text("lost_after");
    Some(ClusterSpec {
        start,
        shared_dir: shared_dir.map(|directory| base.join(directory)),
        listen,
        lost_after: lost_after.and_then(|text| duration::parse(text).ok()).unwrap_or(LOST_AFTER),
    })
}

/// Reports options of `sbatch` that are the runner's own.
fn check_extra(section: &Section<'_>, problems: &mut Vec<Diagnostic>) {
    let Some(node) = section.node("extra") else { return };
    for word in section.get::<Vec<String>>("extra") {
        let Some((option, _, instead)) = own_option(&word) else { continue };
        problems.push(
            Diagnostic::error(node.place, format!("hpsearch itself sets `--{option}` of `sbatch`"))
                .help(format!("remove it from `extra`: {instead}")),
        );
    }
}

/// The runner's own option that a word gives; long ones may be abbreviated.
fn own_option(word: &str) -> Option<&'static (&'static str, Option<char>, &'static str)> {
    let body = word.trim().strip_prefix('-')?;
    OWN_OPTIONS.iter().find(|(name, letter, _)| match body.strip_prefix('-') {
        Some(long) => {
            let given = long.split(|char: char| char == '=' || char.is_whitespace()).next();
            given.is_some_and(|given| !given.is_empty() && name.starts_with(given))
        }
        None => body.chars().next().is_some_and(|given| Some(given) == *letter),
    })
}

/// Reports keys of another type.
fn check_keys(section: &Section<'_>, kind: Option<&str>, problems: &mut Vec<Diagnostic>) {
    let own =
        OF_TYPES.iter().find(|(name, _)| Some(*name) == kind).map_or(&[][..], |(_, keys)| keys);
    let all =
        OF_TYPES.iter().flat_map(|(_, keys)| *keys).collect::<std::collections::BTreeSet<_>>();
    for key in all.into_iter().filter(|key| !own.contains(key)) {
        let Some(entry) = section.entry(key) else { continue };
        let types = OF_TYPES.iter().filter(|(_, keys)| keys.contains(key));
        let types: Vec<String> = types.map(|(name, _)| format!("type = \"{name}\"")).collect();
        problems.push(
            Diagnostic::error(entry.place, format!("`cluster.{key}` has no meaning here"))
                .help(format!("it belongs to {}", types.join(" and "))),
        );
    }
}

fn command(section: &Section<'_>, problems: &mut Vec<Diagnostic>) -> AgentStart {
    let run: Vec<String> = section.get("run");
    if run.is_empty() {
        let problem = Diagnostic::error(
            section.place_of("run").or(section.place),
            "[cluster] has no command that starts an agent",
        );
        problems.push(problem.help(
            "write for example `run = [\"docker\", \"run\", \"-i\", \"image\", \"hpsearch\", \
             \"agent\", \"--stdio\"]`",
        ));
    }
    AgentStart::Command { run, max_jobs: section.get("max_jobs") }
}

fn hosts(section: &Section<'_>, problems: &mut Vec<Diagnostic>) -> Vec<SshHost> {
    const HELP: &str = "write [[cluster.host]] and below it `name = \"node1\"`";
    let tables: Option<Vec<(&TomlTable, _)>> =
        section.node("host").and_then(Node::list).and_then(|list| {
            list.iter().map(|node| node.table().map(|table| (table, node.place))).collect()
        });
    let Some(tables) = tables.filter(|tables| !tables.is_empty()) else {
        let place = section.place_of("host").or(section.place);
        problems.push(Diagnostic::error(place, "[cluster] names no host").help(HELP));
        return Vec::new();
    };
    let mut hosts: Vec<SshHost> = Vec::new();
    for (table, place) in tables {
        let one = Section::read("cluster.host", place, table, CLUSTER_HOST, problems);
        let Some(name) = one.text("name") else {
            if one.lacks("name") {
                problems.push(Diagnostic::error(place, "this host has no name").help(HELP));
            }
            continue;
        };
        // `ssh` would take it for an option.
        if name.starts_with('-')
            || name.chars().any(|char| char.is_whitespace() || char.is_control())
        {
            let problem = Diagnostic::error(
                one.place_of("name"),
                format!("`{}` is not a host", name.escape_debug()),
            );
            problems.push(problem.help("write a name as `ssh NAME` takes it"));
        }
        if hosts.iter().any(|host| host.name == name) {
            let problem =
                Diagnostic::error(one.place_of("name"), format!("`{name}` appears twice"));
            problems.push(problem.help("for several trials at a time write trials_per_device"));
        }
        let devices: Vec<String> = one.get("devices");
        for device in devices.iter().filter(|device| !is_device(device)) {
            let place = one.place_of("devices");
            let problem = Diagnostic::error(place, format!("`{device}` is not a device"));
            problems.push(problem.help("write for example devices = [\"cuda:0\", \"cuda:1\"]"));
        }
        hosts.push(SshHost { name: name.to_owned(), devices });
    }
    hosts
}

fn is_address(text: &str) -> bool {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// Reports what cannot be combined with agents.
pub(super) fn check(
    spec: &StudySpec,
    (section, devices): (&Section<'_>, &Section<'_>),
    problems: &mut Vec<Diagnostic>,
) {
    let nodes = devices.place_of("nodes_per_trial").filter(|_| spec.devices.spans_nodes());
    let Some(cluster) = &spec.cluster else {
        let is_command = matches!(spec.program, Program::Command { .. });
        problems.extend(nodes.filter(|_| is_command).map(|place| {
            let wanted = spec.devices.nodes_per_trial;
            let message = format!(
                "`nodes_per_trial = {wanted}` needs {wanted} agents on other machines, and there \
                 is no [cluster]"
            );
            Diagnostic::error(place, message)
                .help("write [cluster], for example with type = \"slurm\"; see docs/cluster.md")
                .help("for several devices of this machine write per_trial")
        }));
        return;
    };
    let most = match &cluster.start {
        AgentStart::Manual => None,
        AgentStart::Command { max_jobs, .. } => Some((*max_jobs, "max_jobs")),
        AgentStart::Slurm(slurm) => Some((slurm.max_jobs, "max_jobs")),
        AgentStart::Ssh { hosts } => {
            Some((u32::try_from(hosts.len()).unwrap_or(u32::MAX), "[[cluster.host]]"))
        }
    };
    if let Some((most, key)) = most.filter(|(most, _)| *most < spec.devices.nodes_per_trial) {
        let wanted = spec.devices.nodes_per_trial;
        let message = format!(
            "`nodes_per_trial = {wanted}` needs {wanted} agents, and [cluster] starts at most \
             {most}"
        );
        problems.push(Diagnostic::error(nodes, message).help(format!("give more of them: {key}")));
    }
    if spec.deterministic {
        let message = "with [cluster] the number of slots is unknown, so `deterministic = true` \
             cannot hold";
        problems.push(Diagnostic::error(section.place, message).help("leave one of the two out"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_runner_are_recognised_in_all_spellings() {
        for (word, option) in [
            ("--job-name=my experiment", "job-name"),
            ("--job-name", "job-name"),
            ("--job=x", "job-name"),
            ("-Jx", "job-name"),
            ("-J", "job-name"),
            ("-a 1-9", "array"),
            ("--wait", "wait"),
        ] {
            assert_eq!(own_option(word).map(|own| own.0), Some(option), "{word}");
        }
        for word in ["--qos=low", "--wait-all-nodes=1", "-A", "lab", "--", "-", "", "--mem=4G"] {
            assert_eq!(own_option(word), None, "{word}");
        }
    }
}
