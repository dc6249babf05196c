//! Files of trials on agents that share no directory with their runner.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::cluster::{FILE, in_parts, journal, reports, start, study};
use crate::harness::{Running, Site, assert_code, assert_done, assert_names, wait_until};

/// A checkpoint of several pieces and a report a step; two artifacts at its end.
const TRIAL: &str = "step=0\n[ -z \"$HPSEARCH_RESUME\" ] || step=$(cat \
    \"$HPSEARCH_RESUME/in/state\")\n\
    while [ $step -lt $2 ]; do step=$((step + 1))\n\
    at=\"$HPSEARCH_CHECKPOINT_DIR/step-$step\"\nmkdir -p \"$at/in\"\n\
    head -c 1200000 /dev/urandom > \"$at/weights\"\ncksum < \"$at/weights\" > \"$at/in/sum\"\n\
    echo $step > \"$at/in/state\"\n\
    echo \"@hpsearch {\\\"checkpoint\\\":\\\"step-$step\\\",\\\"step\\\":$step}\"\n\
    echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"\n\
    echo step $step done\nsleep 0.1\ndone\n\
    echo result > \"$HPSEARCH_CHECKPOINT_DIR/result.txt\"\n\
    echo '@hpsearch {\"artifact\":\"result.txt\"}'\n\
    echo made > \"$HPSEARCH_CHECKPOINT_DIR/.artifact-000000000001\"\n\
    echo '@hpsearch {\"artifact\":\".artifact-000000000001\",\"name\":\"made\",\
    \"moved\":true,\"of\":\"/a/b.txt\"}'\n";

/// An agent with a directory of its own, which sends files even though it sees the runner's.
fn agent(site: &Site, name: &str) -> Running {
    let mut command = site.command(&["agent", FILE, "--carry"]);
    command.env("XDG_CACHE_HOME", site.path(name));
    Running::start(command)
}

/// What is left of an agent's files.
fn left(site: &Site, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(site.path(&format!("{name}/hpsearch/agents/files")));
    entries.unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Checks that checkpoints that the runner lists are as their trials wrote them.
fn assert_intact(site: &Site) {
    let text = site.query::<String>("SELECT group_concat(path, char(10)) FROM checkpoint");
    for path in text.lines().map(|path| site.path(&format!("runs/files/{path}"))) {
        let path = path.display();
        let sum = std::process::Command::new("sh")
            .args(["-c", "cksum < \"$1/weights\"", "sh", &path.to_string()])
            .output()
            .unwrap();
        let expected = std::fs::read_to_string(format!("{path}/in/sum")).unwrap();
        assert_eq!(String::from_utf8(sum.stdout).unwrap(), expected, "{path}");
    }
    assert!(text.lines().count() >= 2, "{text}");
}

#[test]
fn a_trial_moves_with_its_checkpoint_where_no_directory_is_shared() {
    let site = Site::new(&study(2, 12, "[checkpoints]\nkeep = \"all\""), TRIAL);
    let runner = start(&site);
    let first = agent(&site, "first");
    wait_until("it has trials", || reports(&site).len() > 8);
    first.signal(rustix::process::Signal::TERM);
    assert_code(&first.end(), 143);
    assert_eq!(left(&site, "first"), Vec::<PathBuf>::new());
    let second = agent(&site, "second");
    assert_done(&runner.end());
    assert_done(&second.end());
    assert!(reports(&site).values().all(|times| *times == 1), "none was trained twice");
    assert_eq!(reports(&site).len(), 24);
    let resumed: BTreeSet<u64> = journal(&site)
        .iter()
        .filter(|event| event["type"] == "attempt_started" && !event["resume"].is_null())
        .map(|event| event["trial"].as_u64().unwrap())
        .collect();
    assert_eq!(resumed.len(), 2);
    assert_intact(&site);
    for trial in 0..2 {
        let log = |attempt| site.read(&format!("runs/files/s/trial-{trial}/attempt-{attempt}.log"));
        assert_names(&log(0), &["step 1 done"]);
        assert_names(&log(1), &["step 12 done"]);
    }
    let shown = site.run(&["artifacts", "s", "0", "--get", "result.txt", "-o", "out"]);
    assert_done(&shown);
    // As the Python client has it: a copy that is removed there.
    assert_done(&site.run(&["artifacts", "s", "1", "--get", "made", "-o", "out"]));
    assert_eq!(site.read("out/made.txt"), "made\n");
    assert!(!left(&site, "second").iter().any(|path| path.is_dir()), "nothing is left");
}

#[test]
fn files_arrive_whole_whenever_the_runner_is_killed() {
    let limits = "lost_after = \"60s\"\n[checkpoints]\nkeep = \"all\"";
    let site = Site::new(&study(3, 10, limits), &in_parts(TRIAL, 2));
    let mut runner = start(&site);
    let agents = [agent(&site, "first"), agent(&site, "second")];
    for round in 0..5 {
        let before = reports(&site).len();
        site.write(&format!("part.{round}"), "");
        wait_until("trials go on", || reports(&site).len() > before + round % 2);
        runner.kill();
        runner = start(&site);
    }
    assert_done(&runner.end());
    assert!(reports(&site).values().all(|times| *times == 1));
    assert_eq!(reports(&site).len(), 30);
    assert_eq!(site.query::<u32>("SELECT count(*) FROM checkpoint"), 30);
    assert_intact(&site);
    for agent in agents {
        assert_done(&agent.end());
    }
    let files = std::fs::read_dir(site.path("runs/files/s/trial-0/checkpoints")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with('.')).count(), 0, "nothing is left");
}

#[test]
fn a_directory_that_is_said_to_be_shared_and_is_not_is_an_error() {
    let site = Site::new("", TRIAL);
    std::fs::create_dir(site.path("shared")).unwrap();
    let cluster = format!("shared_dir = \"{}\"", site.path("shared").display());
    site.write("study.toml", study(1, 1, &cluster));
    let mut runner = Running::start(site.command(&["run", "study.toml", "--plain"]));
    site.wait_for("shared/s/agents.json");
    // As a machine sees it that has another disk there.
    let file = std::fs::read(site.path("shared/s/agents.json")).unwrap();
    std::fs::rename(site.path("shared"), site.path("elsewhere")).unwrap();
    site.write("file.json", file);
    let ended = Running::start(site.command(&["agent", "file.json"])).end();
    assert_code(&ended, 5);
    assert_names(&ended.err, &["are not on this machine", "leave out `shared_dir`"]);
    runner.kill();
}
