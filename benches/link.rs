//! Reports a second over the link of an agent, beside those of a runner of the same machine:
//! `cargo bench --no-default-features --bench link -- [REPORTS] [ROUNDS] [turns]`.
//!
//! Two trials of a command at a time, which print their reports as fast as they can, or, with
//! `turns`, each after the answer to the one before; by `hpsearch run` alone, and by `hpsearch run`
//! and one `hpsearch agent`, over an encrypted connection. The two alternate. Counted from the
//! first to the last report in the store.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark may fail loudly")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TRIALS: u64 = 2;

/// A report a line, without waiting for answers.
const STREAM: &str = "exec awk -v n=\"$1\" 'BEGIN { for (i = 1; i <= n; i++) \
    printf \"@hpsearch {\\\"step\\\":%d,\\\"loss\\\":0.5}\\n\", i }'\n";

/// The same, each after the answer to the one before.
const TURNS: &str = "i=0\nwhile [ $i -lt $1 ]; do i=$((i + 1))\n\
    echo \"@hpsearch {\\\"step\\\":$i,\\\"loss\\\":0.5}\"\nread answer || exit 3\ndone\n";

fn study(reports: u64, cluster: &str) -> String {
    format!(
        "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"\nstep = \"step\"\n\
         [space]\nx = {{ float = [0.0, 1.0] }}\n[sampler]\ntype = \"random\"\n\
         [track]\nsystem = \"off\"\n[devices]\nuse = [\"sim:0..1\"]\n\
         [command]\nrun = [\"sh\", \"trial.sh\", \"{reports}\"]\n[budget]\ntrials = {TRIALS}\n\
         {cluster}"
    )
}

fn start(directory: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpsearch"));
    command.args(arguments).current_dir(directory);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Reports a second.
fn measure(script: &str, reports: u64, is_link: bool) -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let cluster = if is_link { "[cluster]\nlisten = \"127.0.0.1:0\"\n" } else { "" };
    fs::write(directory.path().join("study.toml"), study(reports, cluster)).unwrap();
    fs::write(directory.path().join("trial.sh"), script).unwrap();
    let mut runner = start(directory.path(), &["run", "study.toml", "--events"]);
    let mut agent = is_link.then(|| {
        let file = "runs/files/s/agents.json";
        let begun = Instant::now();
        while !directory.path().join(file).exists() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        start(directory.path(), &["agent", file])
    });
    assert!(runner.wait().unwrap().success());
    agent.as_mut().into_iter().for_each(|agent| assert!(agent.wait().unwrap().success()));
    let store = rusqlite::Connection::open(directory.path().join("runs/hpsearch.db")).unwrap();
    let sql = "SELECT count(*), max(at) - min(at) FROM event WHERE type = 'reported'";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?));
    let (count, micros) = store.query_row(sql, [], read).unwrap();
    assert_eq!(u64::from(count), TRIALS * reports);
    f64::from(count) / (micros as f64 / 1e6)
}

fn main() {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let reports = words.next().unwrap_or(20_000);
    let rounds = words.next().unwrap_or(5);
    let in_turns = std::env::args().any(|word| word == "turns");
    let script = if in_turns { TURNS } else { STREAM };
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let [here, link] = [false, true].map(|is_link| measure(script, reports, is_link));
        println!("{here:.0} reports/s here, {link:.0} over the link: {:.2}", link / here);
        ratios.push(link / here);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.2}", ratios[ratios.len() / 2]);
}
