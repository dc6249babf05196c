//! Trials on groups of several agents: what their processes find in their environment, how they end
//! together, and what outlives what.

use std::collections::BTreeMap;
use std::fs;
use std::thread;

use hpsearch::runner::processes;
use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::cluster::{FILE, LOST_AFTER, journal, start, start_with_grace};
use crate::harness::{
    Ended, REPORT_X, Running, Site, assert_done, assert_names, assert_refused, wait_until,
};

/// A study of `trials` on two agents at a time, with the keys of [devices] and [cluster].
fn study(trials: u64, devices: &str, cluster: &str) -> String {
    format!(
        "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"\nstep = \"step\"\n\
         [space]\nx = {{ float = [0.0, 1.0] }}\n[sampler]\ntype = \"random\"\n\
         [command]\nrun = [\"sh\", \"trial.sh\", \"{{x}}\"]\n[pruner]\ntype = \"none\"\n\
         [devices]\nuse = [\"sim:0..1\"]\nper_trial = 2\nnodes_per_trial = 2\n{devices}\n\
         [track]\nsystem = \"off\"\n[budget]\ntrials = {trials}\n\
         [cluster]\nlisten = \"127.0.0.1:0\"\n{cluster}\n"
    )
}

const PER_DEVICE: &str = "per_device = true";

/// Each process names itself by its attempt and rank, and goes on once all four have done so.
const TELL_PID: &str = "name=pid.$HPSEARCH_ATTEMPT\n\
    echo $$ > part.$$; mv part.$$ $name.$RANK\n\
    for rank in 0 1 2 3; do while [ ! -e $name.$rank ]; do sleep 0.02; done; done\n";

/// Ranks that live until they are killed in the first attempt, and report in the second.
fn second_attempt_reports() -> String {
    format!("{TELL_PID}[ $HPSEARCH_ATTEMPT != 0 ] || while true; do sleep 0.05; done\n{REPORT_X}")
}

fn agent(site: &Site, more: &[&str]) -> Running {
    Running::start(site.command(&[&["agent", FILE], more].concat()))
}

fn pids(site: &Site, attempt: u32) -> Vec<u32> {
    let read = |rank| {
        let name = format!("pid.{attempt}.{rank}");
        site.wait_for(&name);
        site.read(&name).trim().parse().unwrap()
    };
    (0..4).map(read).collect()
}

fn environment(site: &Site, name: &str) -> BTreeMap<String, String> {
    let lines = site.lines(name).into_iter();
    lines.filter_map(|line| line.split_once('=').map(|(k, v)| (k.into(), v.into()))).collect()
}

/// How the attempts of the first trial ended, with their reasons.
fn ends(site: &Site) -> Vec<(Json, String)> {
    let events = journal(site).into_iter().filter(|event| event["type"] == "attempt_ended");
    events
        .map(|event| (event["end"].clone(), event["reason"].as_str().unwrap_or("").to_owned()))
        .collect()
}

fn assert_all_done(runner: Running, agents: Vec<Running>) -> Ended {
    let ended = runner.end();
    assert_done(&ended);
    agents.into_iter().for_each(|agent| assert_done(&agent.end()));
    ended
}

#[test]
fn each_process_knows_its_rank_and_only_the_first_speaks() {
    let script = "env > part.$RANK; mv part.$RANK env.$RANK\n\
        echo \"from $RANK\"\necho \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$RANK}\"\n\
        [ $RANK != 0 ] || { read -r answer; echo \"$answer\" > answer; }\n";
    let site = Site::new(&study(1, PER_DEVICE, ""), script);
    let runner = start(&site);
    let agents = vec![agent(&site, &[]), agent(&site, &["--carry"])];
    assert_all_done(runner, agents);
    let seen: Vec<_> = (0..4).map(|rank| environment(&site, &format!("env.{rank}"))).collect();
    for (rank, seen) in seen.iter().enumerate() {
        let of = |name: &str| seen[name].as_str();
        let (local, node) = (rank % 2, rank / 2);
        assert_eq!([of("RANK"), of("LOCAL_RANK")], [rank.to_string(), local.to_string()]);
        assert_eq!([of("WORLD_SIZE"), of("LOCAL_WORLD_SIZE"), of("NNODES")], ["4", "2", "2"]);
        assert_eq!([of("NODE_RANK"), of("GROUP_RANK")], [node.to_string(), node.to_string()]);
        assert_eq!([of("PET_NODE_RANK"), of("PET_NNODES")], [of("NODE_RANK"), "2"]);
        assert_eq!([of("PET_NPROC_PER_NODE"), of("MASTER_ADDR")], ["2", "127.0.0.1"]);
        assert_eq!(of("HPSEARCH_DEVICE"), format!("sim:{local}"));
        for name in ["MASTER_PORT", "PET_MASTER_PORT"] {
            assert_eq!(of(name), seen["MASTER_PORT"]);
        }
        assert_eq!(of("MASTER_PORT"), seen["PET_MASTER_PORT"]);
    }
    assert_eq!(seen[0]["MASTER_PORT"], seen[3]["MASTER_PORT"]);
    let trial = &site.trials()[0];
    let device = trial["device"].as_str().unwrap();
    assert_eq!((&trial["value"], device.matches('+').count()), (&json!(0.0), 3), "{device}");
    assert_names(&site.read("answer"), &["\"verdict\":"]);
    let log = site.log(0, 0);
    for line in ["from 0", "[rank 1] from 1", "[rank 2] from 2", "[rank 3] from 3"] {
        assert!(log.lines().any(|found| found == line), "{line}: {log}");
    }
    let left = fs::read_dir(site.path("runs/files/s/trial-0")).unwrap();
    let names: Vec<String> =
        left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("node-")), "{names:?}");
}

#[test]
fn what_others_print_after_the_first_node_has_ended_is_in_the_log() {
    let script = format!("[ $NODE_RANK = 0 ] || {{ sleep 2; echo late; exit; }}\n{REPORT_X}");
    for way in [&[][..], &["--carry"]] {
        let site = Site::new(&study(1, "", ""), &script);
        let runner = start(&site);
        assert_all_done(runner, vec![agent(&site, way), agent(&site, way)]);
        let log = site.log(0, 0);
        assert!(log.lines().any(|line| line == "[node 1] late"), "{way:?}: {log}");
    }
}

#[test]
fn a_launcher_on_each_node_takes_its_rank_and_where_to_meet_from_the_command_line() {
    let words = "\"{nodes}:{node_rank}:{world_size}:{master_addr}:{master_port}\"";
    let text = study(2, "", "").replace("\"{x}\"", &format!("\"{{x}}\", {words}"));
    let script = format!(
        "[ -z \"$RANK$LOCAL_RANK\" ] || exit 9\n\
         echo \"$2 $HPSEARCH_DEVICE\" > words.$HPSEARCH_TRIAL.$NODE_RANK\n{REPORT_X}"
    );
    let site = Site::new(&text, &script);
    let runner = start(&site);
    let agents = vec![agent(&site, &[]), agent(&site, &[])];
    assert_all_done(runner, agents);
    let mut ports = Vec::new();
    for trial in 0..2 {
        let words = [0, 1].map(|node| site.read(&format!("words.{trial}.{node}")));
        let port = words[0].split([':', ' ']).nth(4).unwrap().to_owned();
        for (node, words) in words.iter().enumerate() {
            assert_eq!(words.trim(), format!("2:{node}:4:127.0.0.1:{port} sim:0+sim:1"));
        }
        ports.push(port);
    }
    assert_ne!(ports[0], ports[1]);
    assert_names(&site.log(0, 0), &["[node 1] @hpsearch"]);
    assert_names(&site.run(&["show", "s"]).out, &["2 for each trial, on 2 machines"]);
}

#[test]
fn the_first_process_that_fails_ends_all_and_is_the_reason() {
    let script = format!(
        "{TELL_PID}[ $RANK != 3 ] || {{ echo 'ValueError: wrong shape' >&2; exit 3; }}\n\
         while true; do sleep 0.05; done\n"
    );
    let site = Site::new(&study(1, PER_DEVICE, "[retry]\nmax = 0"), &script);
    let runner = start(&site);
    let agents = [agent(&site, &[]), agent(&site, &[])];
    runner.end();
    agents.into_iter().for_each(|agent| drop(agent.end()));
    let reason = "rank 3: exit status 3: ValueError: wrong shape";
    assert_names(&ends(&site)[0].1, &[reason]);
    assert!(pids(&site, 0).into_iter().all(|pid| !processes::exists(pid)));
}

#[test]
fn a_process_that_is_killed_on_one_node_ends_all_and_the_trial_is_retried() {
    let site = Site::new(&study(1, PER_DEVICE, ""), &second_attempt_reports());
    let runner = start(&site);
    let agents = vec![agent(&site, &[]), agent(&site, &["--carry"])];
    let first = pids(&site, 0);
    processes::signal(first[2], Signal::KILL);
    assert_all_done(runner, agents);
    assert!(first.into_iter().all(|pid| !processes::exists(pid)));
    let ends = ends(&site);
    assert_eq!((ends.len(), &ends[1].0), (2, &json!("completed")), "{ends:?}");
    assert_names(&ends[0].1, &["rank 2: killed by signal 9"]);
    assert_eq!(site.trials()[0]["state"], "complete");
}

#[test]
fn an_agent_that_is_killed_ends_the_processes_of_the_others_and_the_trial_is_retried() {
    let lose = |lost: usize| {
        let site = Site::new(&study(1, PER_DEVICE, LOST_AFTER), &second_attempt_reports());
        let runner = start(&site);
        let mut agents = vec![agent(&site, &[]), agent(&site, &[])];
        let first = pids(&site, 0);
        let mut gone = agents.remove(lost);
        gone.kill();
        agents.push(agent(&site, &[]));
        assert_all_done(runner, agents);
        assert!(first.into_iter().all(|pid| !processes::exists(pid)));
        let ends = ends(&site);
        assert_eq!(ends.last().unwrap().0, json!("completed"), "{ends:?}");
        assert_names(&ends[0].1, &["was lost: it has not answered for"]);
    };
    // Both wait most of the time.
    thread::scope(|scope| (0..2).for_each(|lost| drop(scope.spawn(move || lose(lost)))));
}

#[test]
fn a_group_goes_on_while_its_runner_is_killed_and_run_again() {
    let script = format!(
        "{TELL_PID}while [ ! -e go ]; do sleep 0.02; done\n\
         [ $RANK != 0 ] || {REPORT_X}[ $RANK != 0 ] || read -r answer\n"
    );
    let site = Site::new(&study(1, PER_DEVICE, ""), &script);
    let mut runner = start(&site);
    let agents = vec![agent(&site, &[]), agent(&site, &[])];
    let first = pids(&site, 0);
    runner.kill();
    let runner = start(&site);
    wait_until("both are back", || runner.said_so_far().matches("connected, with").count() == 2);
    fs::write(site.path("go"), "").unwrap();
    assert_all_done(runner, agents);
    assert!(first.into_iter().all(|pid| !processes::exists(pid)));
    let ends = ends(&site);
    assert_eq!((ends.len(), &ends[0].0), (1, &json!("completed")), "{ends:?}");
}

#[test]
fn when_one_agent_leaves_the_trial_saves_and_goes_on_with_another() {
    let script = format!(
        "save() {{ [ $RANK != 0 ] || {{ echo 7 > $HPSEARCH_CHECKPOINT_DIR/c; \
         echo \"@hpsearch {{\\\"step\\\":7,\\\"loss\\\":1}}\"; \
         echo \"@hpsearch {{\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/c\\\",\
         \\\"step\\\":7}}\"; \
         }}; exit 0; }}\ntrap save TERM\n{TELL_PID}\
         [ $HPSEARCH_ATTEMPT != 0 ] || while true; do sleep 0.05; done\n\
         cat $HPSEARCH_RESUME > resumed.$RANK\n{}",
        REPORT_X.replace(":1,", ":8,")
    );
    let site = Site::new(&study(1, PER_DEVICE, "[retry]\nmax = 0"), &script);
    // Longer than a busy machine takes to save: none of it is waited for.
    let runner = start_with_grace(&site, "30");
    let mut agents = vec![agent(&site, &["--carry"]), agent(&site, &["--carry"])];
    let first = pids(&site, 0);
    let leaving = agents.remove(1);
    leaving.signal(Signal::TERM);
    agents.push(agent(&site, &["--carry"]));
    let ended = runner.end();
    assert_done(&ended);
    drop(leaving.end());
    assert_names(
        &ended.out,
        &["disconnected: its machine asks it to leave", "queued again: left "],
    );
    assert!(first.into_iter().all(|pid| !processes::exists(pid)));
    for rank in 0..4 {
        assert_eq!(site.read(&format!("resumed.{rank}")).trim(), "7", "rank {rank}");
    }
    assert_eq!(site.trials()[0]["state"], "complete");
    agents.into_iter().for_each(|agent| drop(agent.end()));
}

#[test]
fn groups_of_agents_that_cannot_be_are_refused_with_what_to_do() {
    let text = study(1, "", "");
    let alone = text.split("[cluster]").next().unwrap();
    let slurm = "[cluster]\ntype = \"slurm\"\nmax_jobs = 1\n";
    let refusals = [
        (alone.to_owned(), "needs 2 agents on other machines, and there is no [cluster]"),
        (format!("{alone}{slurm}"), "[cluster] starts at most 1"),
    ];
    for (text, words) in refusals {
        let ended = Site::new(&text, REPORT_X).run(&["check", "study.toml"]);
        assert_refused(&ended, &[words]);
    }
    let placeholder = text.replace("nodes_per_trial = 2", "").replace("per_trial = 2", "");
    let placeholder = placeholder.replace("\"{x}\"", "\"{x}\", \"{node_rank}\"");
    let ended = Site::new(&placeholder, REPORT_X).run(&["check", "study.toml"]);
    assert_refused(&ended, &["`{node_rank}` is a value of a group of devices"]);
}
