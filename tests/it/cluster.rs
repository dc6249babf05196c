//! Trials on agents: links that break, agents and runners that are killed, strangers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hpsearch::cluster::frames::{FrameReader, FrameWriter, connect};
use hpsearch::cluster::message::{
    Envelope, Greeting, Hello, SentSeries, ToAgent, ToRunner, Welcome,
};
use hpsearch::cluster::rendezvous::Rendezvous;
use hpsearch::engine::{Assignment, Input};
use hpsearch::runner::processes;
use hpsearch::storage::StorageReader as _;
use hpsearch::study::device::Device;
use hpsearch::study::event::AttemptEnd;
use hpsearch::study::series::{LoggedPoint, LoggedSeries, SeriesAxis};
use hpsearch::study::spec::FailureCause;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{AttemptNumber, TrialNumber};
use serde_json::{Value as Json, json};

use crate::harness::simulated_agent::{Shared, SimulatedAgent, machine};
use crate::harness::{Running, Site, assert_code, assert_done, assert_names, wait_until};

/// A report and a point a step, with a pause.
const TRIAL: &str = "step=0\nwhile [ $step -lt $2 ]; do step=$((step + 1))\n\
    echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"\n\
    echo \"@hpsearch {\\\"other\\\":$step}\"\n\
    echo step $step done\nsleep 0.05\ndone\n";

/// Steps of trials in parts, each of which begins once the file `part.N` is there: however much
/// slower than its trials a test is, they are not over before it has done what it does meanwhile.
pub fn in_parts(script: &str, steps: u64) -> String {
    let begin = "step=$((step + 1))\n";
    let wait = format!("while [ ! -e part.$(((step - 1) / {steps})) ]; do sleep 0.02; done\n");
    assert!(script.contains(begin), "{script}");
    script.replacen(begin, &format!("{begin}{wait}"), 1)
}

pub const FILE: &str = "runs/files/s/agents.json";

pub fn study(trials: u64, steps: u64, cluster: &str) -> String {
    format!(
        "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"\nstep = \"step\"\n\
         [space]\nx = {{ float = [0.0, 1.0] }}\n\
         [command]\nrun = [\"sh\", \"trial.sh\", \"{{x}}\", \"{steps}\"]\n\
         [devices]\nuse = [\"sim:0..1\"]\n[track]\nsystem = \"off\"\n\
         [budget]\ntrials = {trials}\n[cluster]\nlisten = \"127.0.0.1:0\"\n{cluster}"
    )
}

/// The limit of studies whose agents are lost. Agents, too, give up a runner from which they have
/// not heard for so long: with less, a busy machine loses those that live.
pub const LOST_AFTER: &str = "lost_after = \"15s\"";

pub fn start(site: &Site) -> Running {
    start_with_grace(site, "0.5")
}

/// Starts the study; trials that are to leave are killed after so many seconds.
pub fn start_with_grace(site: &Site, seconds: &str) -> Running {
    let running = site.start_study_with(&[("HPSEARCH_GRACE", seconds)]);
    site.wait_for(FILE);
    running
}

fn agent(site: &Site, file: &str) -> Running {
    let mut command = site.command(&["agent", file]);
    command.env("PBS_JOBID", "17.test");
    Running::start(command)
}

pub fn journal(site: &Site) -> Vec<Json> {
    site.events().iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

/// How often each step of each trial is in the journal.
pub fn reports(site: &Site) -> BTreeMap<(u64, u64), usize> {
    let mut counts = BTreeMap::new();
    for event in journal(site).iter().filter(|event| event["type"] == "reported") {
        let key = (event["trial"].as_u64().unwrap(), event["step"].as_u64().unwrap());
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// Checks that each trial has each report and each point once, of one attempt. Another attempt may
/// have been started for an agent that its runner could not tell any more: it did not begin.
fn assert_complete(site: &Site, trials: u64, steps: u64) {
    let mut attempts: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for event in journal(site).iter().filter(|event| event["type"] == "reported") {
        let trial = attempts.entry(event["trial"].as_u64().unwrap()).or_default();
        trial.insert(event["attempt"].as_u64().unwrap());
    }
    assert!(attempts.values().all(|attempts| attempts.len() == 1), "{attempts:?}");
    for trial in site.trials() {
        assert_eq!(trial["state"], "complete", "{trial}");
        let number = TrialNumber(trial["number"].as_u64().unwrap());
        let store = site.store();
        let study = store.study("s").unwrap().unwrap().id;
        let all = f64::MIN..=f64::MAX;
        let points = store.series_points(study, number, "other", SeriesAxis::Step, all).unwrap();
        let found: Vec<f64> = points.iter().map(|point| point.step).collect();
        let wanted: Vec<f64> = (1..=u32::try_from(steps).unwrap()).map(f64::from).collect();
        assert_eq!(found, wanted, "{points:?}");
    }
    let reports = reports(site);
    let expected = (0..trials).flat_map(|trial| (1..=steps).map(move |step| ((trial, step), 1)));
    assert_eq!(reports, expected.collect(), "each once");
}

/// A link between agents and their runner that can be cut.
struct Proxy {
    open: Arc<Mutex<Vec<TcpStream>>>,
    connections: Arc<AtomicUsize>,
    is_down: Arc<AtomicBool>,
}

impl Proxy {
    /// Listens, and writes a file for agents that names it.
    fn start(site: &Site, file: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut rendezvous = site.read_json(FILE);
        let runner = rendezvous["addresses"][0].as_str().unwrap().to_owned();
        rendezvous["addresses"] = json!([listener.local_addr().unwrap().to_string()]);
        site.write(file, rendezvous.to_string());
        let proxy =
            Proxy { open: Arc::default(), connections: Arc::default(), is_down: Arc::default() };
        let (open, connections) = (Arc::clone(&proxy.open), Arc::clone(&proxy.connections));
        let is_down = Arc::clone(&proxy.is_down);
        std::thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                if is_down.load(Ordering::Relaxed) {
                    continue;
                }
                connections.fetch_add(1, Ordering::Relaxed);
                let Ok(to) = TcpStream::connect(&runner) else { continue };
                for (mut one, mut other) in [
                    (from.try_clone().unwrap(), to.try_clone().unwrap()),
                    (to.try_clone().unwrap(), from.try_clone().unwrap()),
                ] {
                    std::thread::spawn(move || {
                        let _cut = std::io::copy(&mut one, &mut other);
                        let _cut = other.shutdown(Shutdown::Both);
                    });
                }
                open.lock().unwrap().extend([from, to]);
            }
        });
        proxy
    }

    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _closed_already = stream.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn trials_run_on_agents_that_come_while_the_study_runs() {
    let site = Site::new(&study(9, 4, ""), TRIAL);
    let runner = start(&site);
    let first = agent(&site, FILE);
    wait_until("the first agent has trials", || !reports(&site).is_empty());
    let second = agent(&site, FILE);
    let ended = runner.end();
    assert_done(&ended);
    assert_names(&ended.out, &["waiting for agents", "connected, with 2 slots"]);
    assert_complete(&site, 9, 4);
    for agent in [first, second] {
        let ended = agent.end();
        assert_done(&ended);
        assert_names(&ended.err, &["works for study s as ", "started on sim:0", " completed"]);
    }
    let log = site.json(&["trials", "s", "--json"]);
    let devices: BTreeSet<&str> = log["trials"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|trial| trial["device"].as_str())
        .collect();
    assert_eq!(devices.len(), 4, "two devices of two agents: {devices:?}");
    assert_tells_machine(&site);
    assert!(site.read("runs/files/s/trial-0/attempt-0.log").contains("step 4 done"));
    assert!(!site.exists(FILE), "no runner is there to be found");
}

/// Checks that the machine of a trial's agent is known.
fn assert_tells_machine(site: &Site) {
    for verb in ["show", "explain"] {
        let told = site.json(&[verb, "s", "0", "--json"]);
        let agent = &told["attempts"][0]["agent"];
        assert_eq!(agent["machine"]["host"], hpsearch::runner::processes::host(), "{verb}");
        assert_eq!(agent["hpsearch"]["version"], env!("CARGO_PKG_VERSION"), "{verb}");
        assert!(agent["memory"].as_u64().unwrap() > 1 << 20, "{verb}: {agent}");
        assert_eq!(agent["job"], serde_json::json!({ "scheduler": "pbs", "id": "17.test" }));
    }
    assert_names(&site.run(&["show", "s", "0"]).out, &["agent's cpu", "PBS job 17.test"]);
    assert_names(&site.run(&["explain", "s", "0"]).out, &["attempt 0 ran on", "PBS job 17.test"]);
}

#[test]
fn a_link_that_is_cut_again_and_again_loses_and_doubles_nothing() {
    let site = Site::new(&study(8, 12, "lost_after = \"60s\""), TRIAL);
    let runner = start(&site);
    let proxy = Proxy::start(&site, "through.json");
    let agents = [agent(&site, "through.json"), agent(&site, "through.json")];
    let mut pause = 0;
    let ended = runner.end_watched(|| {
        pause = (pause * 7 + 3) % 11;
        std::thread::sleep(Duration::from_millis(40 * pause));
        proxy.cut();
    });
    assert_done(&ended);
    assert_complete(&site, 8, 12);
    assert!(proxy.connections.load(Ordering::Relaxed) > 6, "it was cut");
    // As the runner does with its own: the last words may be lost with the link.
    std::fs::remove_file(site.path("through.json")).unwrap();
    for agent in agents {
        assert_done(&agent.end());
    }
}

#[test]
fn a_runner_that_is_killed_and_run_again_finds_its_trials_still_running() {
    // Each trial waits for the answer to its report.
    let trial = in_parts(TRIAL, 6).replace("echo step", "read answer || exit 3\necho step");
    let site = Site::new(&study(4, 40, "lost_after = \"60s\""), &trial);
    site.write("part.0", "");
    let agents = {
        let mut runner = start(&site);
        let agents = [agent(&site, FILE), agent(&site, FILE)];
        wait_until("all run", || reports(&site).keys().filter(|(_, step)| *step > 2).count() >= 4);
        runner.kill();
        agents
    };
    for round in 0..6 {
        let before = reports(&site).len();
        let mut runner = start(&site);
        site.write(&format!("part.{}", round + 1), "");
        wait_until("they are heard again", || reports(&site).len() > before + round % 3);
        if round < 5 {
            runner.kill();
        } else {
            assert_done(&runner.end());
        }
    }
    assert_complete(&site, 4, 40);
    for agent in agents {
        assert_done(&agent.end());
    }
}

#[test]
fn the_trials_of_an_agent_that_is_killed_run_elsewhere() {
    let site = Site::new(&study(3, 30, LOST_AFTER), TRIAL);
    let runner = start(&site);
    let mut first = agent(&site, FILE);
    wait_until("it has trials", || reports(&site).len() > 4);
    first.kill();
    let second = agent(&site, FILE);
    let ended = runner.end();
    assert_done(&ended);
    assert_names(&ended.out, &["disconnected: it has not answered for"]);
    assert_done(&second.end());
    assert!(site.trials().iter().all(|trial| trial["state"] == "complete"));
}

#[test]
fn the_trials_of_an_agent_that_is_stopped_are_ended_before_they_run_elsewhere() {
    let site = Site::new(&study(2, 3, LOST_AFTER), &in_parts(TRIAL, 1));
    let runner = start(&site);
    let stopped = agent(&site, FILE);
    site.write("part.0", "");
    wait_until("its trials report", || reports(&site).len() == 2);
    stopped.stop();
    // The runner has no slots: its processes are those of the agent.
    wait_until("its trials are gone", || site.processes().is_empty());
    assert!(!runner.said_so_far().contains("disconnected"), "{}", runner.said_so_far());
    let second = agent(&site, FILE);
    ["part.1", "part.2"].iter().for_each(|part| site.write(part, ""));
    let ended = runner.end();
    assert_done(&ended);
    assert_names(&ended.out, &["disconnected: it has not answered for"]);
    assert_done(&second.end());
    assert!(site.trials().iter().all(|trial| trial["state"] == "complete"));
}

#[test]
fn an_agent_that_is_told_to_leave_hands_its_trials_over() {
    // A command that ends by the signal has not failed.
    let site = Site::new(&study(2, 60, "[retry]\nmax = 0"), TRIAL);
    let runner = start(&site);
    let first = agent(&site, FILE);
    wait_until("it has trials", || reports(&site).len() > 4);
    first.signal(rustix::process::Signal::TERM);
    let second = agent(&site, FILE);
    assert_code(&first.end(), 143);
    let ended = runner.end();
    assert_done(&ended);
    assert_names(
        &ended.out,
        &["disconnected: its machine asks it to leave", "queued again: left "],
    );
    assert_done(&second.end());
    assert!(site.trials().iter().all(|trial| trial["state"] == "complete"));
}

#[test]
fn what_ends_by_a_signal_to_all_processes_of_a_job_has_not_finished() {
    // A scheduler's signal may reach an agent later than the trials: it looks as if they had ended.
    let script = "trap 'exit 0' TERM\n[ $HPSEARCH_ATTEMPT != 0 ] || while true; do sleep 0.02; \
        done\n\
        echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\n";
    let site = Site::new(&study(1, 1, "[retry]\nmax = 0"), script);
    let runner = start(&site);
    let agent = agent(&site, FILE);
    let launched = || journal(&site).into_iter().find(|event| event["type"] == "attempt_launched");
    wait_until("it runs", || launched().is_some());
    let supervisor = u32::try_from(launched().unwrap()["pid"].as_u64().unwrap()).unwrap();
    wait_until("its program runs", || !processes::descendants(supervisor).is_empty());
    let program = *processes::descendants(supervisor).first().unwrap();
    // Before it is executed, the handlers are its supervisor's.
    wait_until("it is the script's shell", || {
        std::fs::read_to_string(format!("/proc/{program}/comm")).unwrap().trim() == "sh"
    });
    wait_until("it handles the signal", || {
        let status = std::fs::read_to_string(format!("/proc/{program}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(caught, 16).unwrap() >> 14 & 1 == 1
    });
    for pid in [supervisor, program] {
        processes::signal(pid, rustix::process::Signal::TERM);
    }
    assert_done(&runner.end());
    assert_done(&agent.end());
    let ends: Vec<Json> = journal(&site)
        .into_iter()
        .filter(|event| event["type"] == "attempt_ended")
        .map(|event| event["end"].clone())
        .collect();
    assert_eq!(ends.len(), 2, "{ends:?}");
    assert_eq!(site.trials()[0]["state"], "complete");
}

#[test]
fn check_says_what_starts_agents_and_needs_no_device_of_theirs() {
    let here = "[devices]\nuse = [\"sim:0..1\"]";
    let check = |devices: &str, cluster: &str| {
        let text = study(2, 2, cluster).replace(here, devices);
        let checked = Site::new(&text, TRIAL).run(&["check", "study.toml"]);
        assert_done(&checked);
        checked.out
    };
    assert_names(&check(here, ""), &["on        agents that are started by hand", "uses sim:0..1"]);
    let gpus = "[devices]\nuse = [\"cuda:0\", \"cuda:1\"]";
    let slurm = "type = \"slurm\"\nmax_jobs = 3\npartition = \"gpu\"";
    let expected = "agents of Slurm, at most 3 at a time, partition gpu; each uses cuda:0, cuda:1";
    assert_names(&check(gpus, slurm), &[expected]);
    let hosts = "type = \"ssh\"\n[[cluster.host]]\nname = \"a\"\n[[cluster.host]]\nname = \"b\"\n\
        devices = [\"cuda:7\"]";
    assert_names(&check(gpus, hosts), &["agents of 2 hosts by ssh: a, b (cuda:7)"]);
    let command = "type = \"command\"\nrun = [\"docker\", \"run\"]\nmax_jobs = 2";
    assert_names(&check(gpus, command), &["agents of `docker`, 2 at a time"]);
}

#[test]
fn a_job_of_kubernetes_says_that_its_pods_need_the_shared_directory() {
    for (shared, is_said) in [("", false), ("shared_dir = \"shared\"", true)] {
        let site = Site::new(&study(2, 2, shared), TRIAL);
        let file = if is_said { "shared/s/agents.json" } else { FILE };
        let runner = Running::start(site.command(&["run", "study.toml", "--plain"]));
        site.wait_for(file);
        let job = site.run(&["agent", file, "--kubernetes", "image:1"]);
        assert_done(&job);
        assert_eq!(job.err.contains("the pods do not mount"), is_said, "{}", job.err);
        runner.signal(rustix::process::Signal::TERM);
        assert_code(&runner.end(), 143);
    }
}

#[test]
fn the_lines_that_start_agents_are_printed_and_nothing_runs() {
    let cases = [
        ("type = \"slurm\"\npartition = \"gpu\"\nmax_jobs = 3", "sbatch --parsable", "--array=1-3"),
        ("type = \"ssh\"\n[[cluster.host]]\nname = \"node1\"", "ssh -oBatchMode=yes", "-- node1"),
        ("type = \"command\"\nrun = [\"start\", \"{file}\"]", "start ", "agents.json"),
    ];
    for (cluster, program, words) in cases {
        let site = Site::new(&study(1, 1, cluster), TRIAL);
        let ended = site.run(&["run", "study.toml", "--dry-run"]);
        assert_done(&ended);
        assert_names(&ended.out, &[program, words]);
        assert!(!site.exists("runs"), "nothing is made");
    }
}

#[test]
fn an_agent_whose_runner_is_gone_stops_its_trials_and_ends() {
    let site = Site::new(&study(2, 1200, LOST_AFTER), TRIAL);
    let mut runner = start(&site);
    let agent = agent(&site, FILE);
    wait_until("it has trials", || reports(&site).len() > 4);
    runner.kill();
    let ended = agent.end();
    assert_code(&ended, 5);
    assert_names(&ended.err, &["its runner has not answered for 15 s"]);
    assert_eq!(site.processes(), Vec::<u32>::new());
}

#[test]
fn strangers_are_not_let_in() {
    let site = Site::new(&study(2, 10, ""), TRIAL);
    let runner = start(&site);
    let mut rendezvous = site.read_json(FILE);
    let address = rendezvous["addresses"][0].as_str().unwrap().to_owned();
    rendezvous["token"] = json!("00".repeat(32));
    site.write("wrong.json", rendezvous.to_string());
    let mut wrong = agent(&site, "wrong.json");
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 70_000], b"", b"\0\x30"] {
        let mut stranger = TcpStream::connect(&address).unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _refused = stranger.write_all(words);
        let _refused = stranger.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _closed = stranger.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    let mut homeless = site.command(&["agent", "--carry", FILE]);
    homeless.env("HOME", "/proc/1").env_remove("XDG_CACHE_HOME");
    let homeless = Running::start(homeless).end();
    assert_code(&homeless, 5);
    assert_names(&homeless.err, &["`/proc/1/.cache/hpsearch/agents` cannot be created"]);
    let right = agent(&site, FILE);
    let ended = runner.end();
    assert_done(&ended);
    assert_names(&ended.out, &["127.0.0.1", "has another token"]);
    assert_complete(&site, 2, 10);
    assert_done(&right.end());
    assert!(!wrong.has_ended());
    wrong.kill();
    let refused = wrong.end();
    assert_names(&refused.err, &["cannot reach its runner", "the token in the file is not that"]);
}

#[test]
fn an_agent_says_at_once_that_it_cannot_reach_its_runner() {
    let site = Site::new(&study(2, 10, ""), TRIAL);
    let mut runner = start(&site);
    let file = site.read(FILE);
    runner.kill();
    let address = site.read_json(FILE)["addresses"][0].as_str().unwrap().to_owned();
    site.write("old.json", file);
    let mut lost = agent(&site, "old.json");
    wait_until("it says so", || {
        let said = lost.complained_so_far();
        ["cannot reach its runner", &address, "retrying for another 1"]
            .iter()
            .all(|words| said.contains(words))
    });
    lost.kill();
}

#[test]
fn a_command_starts_agents_by_a_pipe_or_by_the_file() {
    let program = env!("CARGO_BIN_EXE_hpsearch");
    for how in ["\"--stdio\"", "\"{file}\""] {
        let cluster =
            format!("type = \"command\"\nrun = [\"{program}\", \"agent\", {how}]\nmax_jobs = 2\n");
        let site = Site::new(&study(5, 3, &cluster), TRIAL);
        let ended = start(&site).end();
        assert_done(&ended);
        assert_complete(&site, 5, 3);
    }
}

#[test]
fn an_agent_outlives_the_relays_that_connect_it() {
    let program = env!("CARGO_BIN_EXE_hpsearch");
    let site = Site::new("", &in_parts(TRIAL, 10));
    let cache = site.path("cache");
    let cluster = format!(
        "type = \"command\"\nlost_after = \"60s\"\n\
         run = [\"env\", \"XDG_CACHE_HOME={}\", \"{program}\", \"agent\", \"--stdio\", \"--keep\", \
         \"here\"]\n",
        cache.display()
    );
    site.write("study.toml", study(4, 40, &cluster));
    let mut runner = start(&site);
    let relays = || {
        let marks = [format!("XDG_CACHE_HOME={}", cache.display())];
        let found = hpsearch::runner::processes::with_environment(&marks).into_iter();
        found.filter(|pid| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains("--stdio")
        })
    };
    for round in 0..4 {
        let before = reports(&site).len();
        site.write(&format!("part.{round}"), "");
        wait_until("trials go on", || reports(&site).len() > before);
        if round == 2 {
            runner.kill();
            runner = start(&site);
        } else {
            relays().for_each(hpsearch::runner::processes::kill);
        }
    }
    assert_done(&runner.end());
    assert_complete(&site, 4, 40);
    wait_until("the agent has ended", || !site.exists("cache/hpsearch/agents/here.socket"));
}

/// Numbers that look random, the same in each run.
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

#[test]
fn two_hundred_agents_lose_double_and_reorder_nothing_whatever_breaks() {
    let rounds = std::env::var("HPSEARCH_CHAOS_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: u32 = rounds.unwrap_or(3);
    let (agents, trials, steps) = (200, 500, 12);
    let site = Site::new(&study(trials, 0, "lost_after = \"60s\""), TRIAL);
    let mut runner = start(&site);
    let shared = Arc::new(Shared::default());
    let mut cables = Vec::new();
    let mut threads = Vec::new();
    for index in 0..agents {
        let pace = Duration::from_millis(250);
        let agent = SimulatedAgent::new(index, &site.path(FILE), steps, pace, &shared);
        cables.push(agent.cable());
        threads.push(agent.start());
    }
    let mut rng = Rng(7);
    for _ in 0..rounds {
        let before = reports(&site).len();
        wait_until("reports arrive", || {
            // Some links break, some are down for a while.
            for cable in &cables {
                match rng.below(40) {
                    0 => cable.cut(),
                    1 => cable.pull_out(true),
                    2..=9 => cable.pull_out(false),
                    _ => {}
                }
            }
            reports(&site).len() > before + 400
        });
        runner.kill();
        runner = start(&site);
    }
    cables.iter().for_each(|cable| cable.pull_out(false));
    assert_done(&runner.end());
    shared.is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let counted = reports(&site);
    let expected = (0..trials).flat_map(|trial| (1..=steps).map(move |step| (trial, step)));
    let count = |key: (u64, u64)| (key, counted.get(&key).copied().unwrap_or(0));
    let wrong: Vec<_> = expected.map(count).filter(|(_, times)| *times != 1).collect();
    assert!(wrong.is_empty(), "lost or doubled: {wrong:?}");
    let mut last = BTreeMap::new();
    for event in journal(&site).iter().filter(|event| event["type"] == "reported") {
        let (trial, step) = (event["trial"].as_u64().unwrap(), event["step"].as_u64().unwrap());
        assert_eq!(last.insert(trial, step).unwrap_or(0) + 1, step, "trial {trial}");
    }
    assert_eq!(shared.reports.load(Ordering::Relaxed), trials * steps);
}

#[test]
fn an_agent_that_cannot_be_used_says_why_on_both_sides() {
    let site = Site::new(&study(1, 1, ""), TRIAL);
    let mut runner = start(&site);
    let ended = Running::start(site.command(&["agent", FILE, "--devices", "cuda:77"])).end();
    assert_code(&ended, 5);
    assert_names(&ended.err, &["`cuda:77` is not on this machine"]);
    wait_until("the runner says it", || {
        runner.said_so_far().contains("disconnected: `cuda:77` is not on this machine")
    });
    runner.kill();
}

#[test]
fn what_agents_cannot_do_is_an_error_of_the_study_file() {
    let base = study(1, 1, "");
    for (from, to, words) in [
        ("step = \"step\"", "step = \"step\"\ndeterministic = true", "cannot hold"),
        (
            "use = [\"sim:0..1\"]",
            "trials_per_device = \"auto\"\nnodes_per_trial = 2",
            "devices of several machines",
        ),
        ("[cluster]\n", "[cluster]\ntype = \"ssh\"\n", "[cluster] names no host"),
        ("[cluster]\n", "[cluster]\ntype = \"command\"\n", "no command that starts an agent"),
        ("[cluster]\n", "[cluster]\npartition = \"gpu\"\n", "it belongs to type = \"slurm\""),
        ("127.0.0.1:0", "127.0.0.1", "is not an address"),
    ] {
        let site = Site::new(&base.replace(from, to), TRIAL);
        let ended = site.run(&["check", "study.toml"]);
        assert_code(&ended, 2);
        assert_names(&ended.err, &[words]);
    }
}

/// An agent that speaks for itself, so that nothing is left to chance.
struct Scripted {
    hello: Hello,
    epoch: i64,
    reader: FrameReader,
    writer: FrameWriter,
    /// Messages that no runner has acknowledged, as this test wants it.
    sent: Vec<(u64, String)>,
}

impl Scripted {
    fn hello() -> Hello {
        let host = "scripted".to_owned();
        Hello { host, can_return: true, ..Hello::of_session("scripted") }
    }

    /// Connects, and sends again what was sent before.
    fn connect(site: &Site, hello: Hello, sent: Vec<(u64, String)>) -> (Self, Welcome) {
        let rendezvous = Rendezvous::read(&site.path(FILE)).unwrap();
        let stream = TcpStream::connect(&rendezvous.addresses[0]).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let halves = (stream.try_clone().unwrap(), stream);
        let (mut reader, mut writer) =
            connect(halves.0, halves.1, &rendezvous.token().unwrap()).unwrap();
        writer.write(&serde_json::to_vec(&hello).unwrap()).unwrap();
        let greeting = serde_json::from_slice(&reader.read().unwrap().unwrap()).unwrap();
        let Greeting::Welcome(welcome) = greeting else { panic!("{greeting:?}") };
        let epoch = welcome.epoch;
        let mut agent = Scripted { hello, epoch, reader, writer, sent };
        for (number, message) in agent.sent.clone() {
            agent.write(number, &message);
        }
        (agent, *welcome)
    }

    fn send(&mut self, message: &ToRunner) {
        let number = self.hello.first + self.sent.len() as u64;
        let message = serde_json::to_string(message).unwrap();
        self.write(number, &message);
        self.sent.push((number, message));
    }

    fn write(&mut self, number: u64, message: &str) {
        let epoch = self.epoch;
        let text = format!(
            "{{\"epoch\":{epoch},\"number\":{number},\"received\":0,\"message\":{message}}}"
        );
        self.writer.write(text.as_bytes()).unwrap();
    }

    /// The next attempt that it is to start.
    fn launched(&mut self) -> Assignment {
        loop {
            let frame = self.reader.read().unwrap().unwrap();
            let envelope: Envelope<ToAgent> = serde_json::from_slice(&frame).unwrap();
            if let ToAgent::Launch { assignment } = envelope.message {
                return *assignment;
            }
        }
    }
}

/// Points of a series without steps, whose values count from 0.
fn points((trial, attempt): (TrialNumber, AttemptNumber), count: u32, from: i64) -> ToRunner {
    let point = |index: u32| LoggedPoint {
        step: None,
        value: f64::from(index),
        at: Timestamp(from + i64::from(index)),
    };
    let series = LoggedSeries {
        trial,
        attempt,
        metric: "other".to_owned(),
        axis: SeriesAxis::Step,
        points: (0..count).map(point).collect(),
    };
    ToRunner::Points(vec![SentSeries::of(series, 0)])
}

#[test]
fn what_a_killed_runner_stored_and_could_not_acknowledge_is_stored_once() {
    let site = Site::new(&study(2, 0, "lost_after = \"60s\""), TRIAL);
    let mut runner = start(&site);
    let (mut agent, first) = Scripted::connect(&site, Scripted::hello(), Vec::new());
    let provenance = Box::new(machine("node7"));
    agent.send(&ToRunner::Slots { devices: vec![Device::Cpu.into()], provenance });
    // The first trial has ended by then, the second has not.
    let Assignment { trial, attempt, .. } = agent.launched();
    let ended = (trial, attempt);
    let metrics = || [("loss".to_owned(), 0.5)].into_iter().collect();
    agent.send(&points(ended, 4, 500_000));
    let report = Input::Report { trial, attempt, step: 1, metrics: metrics() };
    let end = Input::Ended { trial, attempt, end: AttemptEnd::Completed, message: None };
    [report, end].into_iter().for_each(|input| agent.send(&ToRunner::Input(input)));
    let Assignment { trial, attempt, .. } = agent.launched();
    let point = |count: u32, from: i64| points((trial, attempt), count, from);
    let path = site.path("saved");
    site.write("saved", "state");
    let inputs = |step| {
        [
            Input::Report { trial, attempt, step, metrics: metrics() },
            Input::Checkpoint {
                trial,
                attempt,
                step,
                path: path.clone(),
                bytes: None,
                system: None,
                digest: None,
            },
        ]
    };
    agent.send(&ToRunner::Input(Input::Launched { trial, attempt, pid: 1, pid_started: 1 }));
    agent.send(&point(7, 1_000_000));
    inputs(1).into_iter().for_each(|input| agent.send(&ToRunner::Input(input)));
    let checkpoints = || site.query::<u32>("SELECT count(*) FROM checkpoint");
    wait_until("all is stored", || checkpoints() == 1);
    runner.kill();
    std::fs::remove_file(site.path(FILE)).unwrap();
    let runner = start(&site);
    // No acknowledgement came.
    let hello = Hello { name: Some(first.name), attempts: vec![(trial, attempt)], ..agent.hello };
    let (mut agent, welcome) = Scripted::connect(&site, hello, agent.sent);
    assert_eq!(welcome.attempts, [(trial, attempt)]);
    agent.send(&point(3, 2_000_000));
    inputs(2).into_iter().for_each(|input| agent.send(&ToRunner::Input(input)));
    let end = Input::Ended { trial, attempt, end: AttemptEnd::Completed, message: None };
    agent.send(&ToRunner::Input(end));
    assert_done(&runner.end());
    let store = site.store();
    let study = store.study("s").unwrap().unwrap().id;
    let all = f64::MIN..=f64::MAX;
    let values = |trial| -> Vec<f64> {
        let all = all.clone();
        let points = store.series_points(study, trial, "other", SeriesAxis::Step, all).unwrap();
        points.iter().map(|point| point.value).collect()
    };
    assert_eq!(values(ended.0), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(values(trial), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0, 1.0, 2.0]);
    assert_eq!(reports(&site), BTreeMap::from([((0, 1), 1), ((1, 1), 1), ((1, 2), 1)]));
    let saved = journal(&site);
    let saved = saved.iter().filter(|event| event["type"] == "checkpoint_saved");
    assert_eq!(saved.count(), 2, "one for each step");
}

#[test]
fn an_attempt_that_outlived_its_runner_supersedes_what_it_did_not_repeat() {
    let retry = "lost_after = \"60s\"\n[retry]\nmax = 1\non = [\"worker_lost\"]";
    let site = Site::new(&study(1, 0, retry), TRIAL);
    let mut runner = start(&site);
    let (mut agent, before) = Scripted::connect(&site, Scripted::hello(), Vec::new());
    let provenance = Box::new(machine("node7"));
    agent.send(&ToRunner::Slots { devices: vec![Device::Cpu.into()], provenance });
    let Assignment { trial, attempt: first, .. } = agent.launched();
    let report = |attempt, step, loss| {
        let metrics = [("loss".to_owned(), loss)].into_iter().collect();
        ToRunner::Input(Input::Report { trial, attempt, step, metrics })
    };
    [0.1, 0.2, 0.3, 0.4]
        .into_iter()
        .zip(1..)
        .for_each(|(loss, step)| agent.send(&report(first, step, loss)));
    let end = AttemptEnd::Failed(FailureCause::WorkerLost);
    let message = Some("it was killed".to_owned());
    agent.send(&ToRunner::Input(Input::Ended { trial, attempt: first, end, message }));
    let Assignment { attempt, .. } = agent.launched();
    assert_ne!(attempt, first);
    agent.send(&ToRunner::Input(Input::Launched { trial, attempt, pid: 1, pid_started: 1 }));
    agent.send(&report(attempt, 1, 0.9));
    wait_until("it is stored", || reports(&site).get(&(0, 1)) == Some(&2));
    runner.kill();
    std::fs::remove_file(site.path(FILE)).unwrap();
    let runner = start(&site);
    let hello = Hello { name: Some(before.name), attempts: vec![(trial, attempt)], ..agent.hello };
    let (mut agent, welcome) = Scripted::connect(&site, hello, agent.sent);
    assert_eq!(welcome.attempts, [(trial, attempt)]);
    // The first attempt had reported this step, too, and got further.
    agent.send(&report(attempt, 2, 0.8));
    let end = Input::Ended { trial, attempt, end: AttemptEnd::Completed, message: None };
    agent.send(&ToRunner::Input(end));
    assert_done(&runner.end());
    let store = site.store();
    let id = store.study("s").unwrap().unwrap().id;
    let loss = |step, value| ("loss".to_owned(), step, value);
    assert_eq!(store.reports(id, trial).unwrap(), [loss(1, 0.9), loss(2, 0.8)]);
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn an_agent_of_another_study_is_not_taken_on() {
    let site = Site::new(&study(2, 400, "lost_after = \"60s\""), TRIAL);
    let mut runner = start(&site);
    let agent = agent(&site, FILE);
    wait_until("it has trials", || reports(&site).len() > 4);
    runner.kill();
    // As a user does who begins anew.
    std::fs::remove_dir_all(site.path("runs")).unwrap();
    let mut runner = start(&site);
    let ended = agent.end();
    assert_code(&ended, 5);
    assert_names(&ended.err, &["it has worked for another study"]);
    assert_eq!(reports(&site).len(), 0, "nothing of the other study");
    runner.kill();
}

#[test]
fn an_agent_whose_study_was_changed_hands_its_trials_over() {
    let site = Site::new(&study(2, 60, "lost_after = \"60s\""), TRIAL);
    let mut runner = start(&site);
    let first = agent(&site, FILE);
    wait_until("it has trials", || reports(&site).len() > 4);
    runner.kill();
    let changed = study(2, 60, "lost_after = \"60s\"")
        .replace("[devices]\n", "[command.env]\nFOO = \"new\"\n[devices]\n");
    site.write("study.toml", changed);
    let runner = start(&site);
    let ended = first.end();
    assert_code(&ended, 5);
    assert_names(&ended.err, &["the study was changed: start the agent again"]);
    let second = agent(&site, FILE);
    assert_done(&runner.end());
    assert_done(&second.end());
}
