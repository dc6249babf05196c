//! What a thousand agents cost their runner: `cargo bench --no-default-features --bench agents --
//! [AGENTS] [SECONDS]`.
//!
//! A real `hpsearch run` with `[cluster]`, and simulated agents in this process, each with one slot
//! and a trial that reports once a second, over real encrypted connections. Printed are the
//! runner's processor time and memory while they report, and how long all take to be greeted again
//! after all connections are cut at once, and after the runner is killed and run again.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark may fail loudly")]

#[path = "../tests/it/harness/simulated_agent.rs"]
mod simulated_agent;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use simulated_agent::{Shared, SimulatedAgent};

/// Time after which an agent that loses its connection tries again at once.
const SETTLED: Duration = Duration::from_secs(11);

fn study(agents: usize) -> String {
    format!(
        "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"\nstep = \"step\"\n\
         [space]\nx = {{ float = [0.0, 1.0] }}\n[sampler]\ntype = \"random\"\n\
         [track]\nsystem = \"off\"\n[command]\nrun = [\"true\", \"{{x}}\"]\n\
         [budget]\ntrials = {}\n[cluster]\nlisten = \"127.0.0.1:0\"\n",
        agents * 10
    )
}

/// Seconds of processor time, and bytes of memory, of a process.
fn usage(pid: u32) -> (f64, u64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    let pages: u64 = fields[21].parse().unwrap();
    (ticks / 100.0, pages * 4096)
}

fn runner(directory: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_hpsearch"))
        .args(["run", "study.toml", "--events"])
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until all are greeted; seconds of each since then, in order.
fn all_greeted(shared: &Shared, agents: usize, since: Instant) -> Vec<f64> {
    loop {
        let found = shared.greetings.lock().unwrap().clone();
        if found.len() >= agents {
            let seconds = |at: &Instant| at.saturating_duration_since(since).as_secs_f64();
            let mut waits: Vec<f64> = found.iter().map(seconds).collect();
            waits.sort_by(f64::total_cmp);
            return waits;
        }
        assert!(since.elapsed() < Duration::from_secs(120), "{} of {agents}", found.len());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn print_waits(what: &str, waits: &[f64]) {
    let quantile = |share: usize| waits[(waits.len() * share / 100).min(waits.len() - 1)];
    let [first, half, most] = [0, 50, 99].map(quantile);
    println!(
        "{what}: the first after {first:.2} s, half after {half:.2} s, 99 % after {most:.2} s"
    );
}

fn main() {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let agents = usize::try_from(words.next().unwrap_or(1_000)).unwrap();
    let seconds = words.next().unwrap_or(30);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("study.toml"), study(agents)).unwrap();
    let mut running = runner(directory.path());
    let file = directory.path().join("runs/files/s/agents.json");
    while !file.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let shared = Arc::new(Shared::default());
    let begun = Instant::now();
    let made = (0..agents)
        .map(|index| SimulatedAgent::new(index, &file, u64::MAX, Duration::from_secs(1), &shared));
    let cables: Vec<_> = made
        .map(|agent| {
            let cable = agent.cable();
            agent.start();
            cable
        })
        .collect();
    let waits = all_greeted(&shared, agents, begun);
    print_waits(&format!("{agents} agents connected"), &waits);
    std::thread::sleep(SETTLED);
    let (before, _) = usage(running.id());
    let counted =
        || (shared.reports.load(Ordering::Relaxed), shared.answers.load(Ordering::Relaxed));
    let (reports, answers) = counted();
    let measured = Instant::now();
    std::thread::sleep(Duration::from_secs(seconds));
    let (after, memory) = usage(running.id());
    let passed = measured.elapsed().as_secs_f64();
    let (more_reports, more_answers) = counted();
    println!(
        "runner: {:.2} of a core, {} MB; {:.0} reports/s, {:.0} answers/s",
        (after - before) / passed,
        memory / 1_000_000,
        (more_reports - reports) as f64 / passed,
        (more_answers - answers) as f64 / passed,
    );
    shared.greetings.lock().unwrap().clear();
    let cut = Instant::now();
    cables.iter().for_each(|cable| cable.cut());
    print_waits("all cut, and back", &all_greeted(&shared, agents, cut));
    std::thread::sleep(SETTLED);
    shared.greetings.lock().unwrap().clear();
    cables.iter().for_each(|cable| cable.pull_out(true));
    std::thread::sleep(Duration::from_secs(5));
    cables.iter().for_each(|cable| cable.pull_out(false));
    print_waits("all down for 5 s, and back", &all_greeted(&shared, agents, Instant::now()));
    std::thread::sleep(SETTLED);
    shared.greetings.lock().unwrap().clear();
    running.kill().unwrap();
    running.wait().unwrap();
    let killed = Instant::now();
    let mut running = runner(directory.path());
    print_waits("runner killed and run again", &all_greeted(&shared, agents, killed));
    println!("its processor time until then: {:.2} s", usage(running.id()).0);
    shared.is_over.store(true, Ordering::Relaxed);
    running.kill().unwrap();
    running.wait().unwrap();
}
