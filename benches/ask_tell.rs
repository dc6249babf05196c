//! How many trials a second `hpsearch ask-tell` gets through its pipes:
//! `cargo bench --bench ask_tell`.
//!
//! The program itself is started; this driver writes a line and waits for its answer, as any other
//! would. A trial is an ask and a tell, and with a pruner three reports between them. Figures are
//! of the first and of the last thousand trials of a session, so that what grows with the session
//! shows. `cargo bench --bench ask_tell -- SAMPLER TRIALS` measures another.
//!
//! Then the same through the library, in memory and with a store, where an ask and a tell are a
//! transaction each (`-- library` for these alone).

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark may fail loudly")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use hpsearch::Study;
use hpsearch::study::spec::AlgorithmSpec;

const BLOCK: usize = 1000;

struct Case {
    name: &'static str,
    init: &'static str,
    trials: usize,
    reports: u64,
}

const CASES: &[Case] = &[
    Case { name: "random", init: r#""sampler":{"type":"random"}"#, trials: 20_000, reports: 0 },
    Case {
        name: "random, asha",
        init: concat!(
            r#""sampler":{"type":"random"},"#,
            r#""pruner":{"type":"asha","min_resource":1,"max_resource":9}"#
        ),
        trials: 20_000,
        reports: 3,
    },
    Case { name: "tpe", init: r#""sampler":{"type":"tpe"}"#, trials: 10_000, reports: 0 },
    Case {
        name: "tpe-independent",
        init: r#""sampler":{"type":"tpe-independent"}"#,
        trials: 3_000,
        reports: 0,
    },
];

/// Ten parameters of every kind.
const SPACE: &str = r#"[{"name":"a","type":"float","low":1e-5,"high":1,"log":true},{"name":"b","type":"float","low":0,"high":1},
{"name":"c","type":"float","low":-5,"high":5},{"name":"d","type":"float","low":1e-6,"high":1,"log":true},
{"name":"e","type":"int","low":1,"high":64,"log":true},{"name":"f","type":"int","low":0,"high":100},
{"name":"g","type":"cat","choices":["sgd","adam","lion"]},{"name":"h","type":"float","low":0,"high":1,"when":{"param":"g","in":["sgd"]}},
{"name":"i","type":"float","low":0,"high":0.5},{"name":"j","type":"cat","choices":[true,false]}]"#;

/// The program with its two pipes.
struct Conversation {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    answer: String,
}

impl Conversation {
    fn begin(init: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hpsearch"));
        let mut child =
            command.arg("ask-tell").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut conversation = Conversation { child, input, output, answer: String::new() };
        let line = format!("{{\"cmd\":\"init\",\"space\":{},{init}}}\n", SPACE.replace('\n', ""));
        conversation.say(&line);
        conversation
    }

    fn say(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).unwrap();
        self.answer.clear();
        self.output.read_line(&mut self.answer).unwrap();
        assert!(!self.answer.contains("\"error\""), "{line}{}", self.answer);
    }

    fn trial(&mut self, id: usize, reports: u64) {
        self.say("{\"cmd\":\"ask\"}\n");
        // A cheap objective that differs from trial to trial: the sampler's time is what is
        // measured.
        let value = (id * 7919 % 10_007) as f64;
        for step in 1..=reports {
            self.say(&format!(
                "{{\"cmd\":\"report\",\"id\":{id},\"step\":{step},\"value\":{}}}\n",
                value / step as f64
            ));
            if self.answer.contains("stop") {
                self.say(&format!("{{\"cmd\":\"tell\",\"id\":{id},\"state\":\"pruned\"}}\n"));
                return;
            }
        }
        self.say(&format!("{{\"cmd\":\"tell\",\"id\":{id},\"value\":{value}}}\n"));
    }

    /// Peak memory in megabytes, where the system tells.
    fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<f64>().ok())
            .map_or(f64::NAN, |kilobytes| kilobytes / 1024.0)
    }
}

fn measure(name: &str, init: &str, trials: usize, reports: u64) {
    let mut conversation = Conversation::begin(init);
    let begun = Instant::now();
    let mut blocks = Vec::new();
    for block in 0..trials.div_ceil(BLOCK) {
        let since = Instant::now();
        (block * BLOCK..(block + 1) * BLOCK).for_each(|id| conversation.trial(id, reports));
        blocks.push(BLOCK as f64 / since.elapsed().as_secs_f64());
    }
    let (all, memory) =
        ((blocks.len() * BLOCK) as f64 / begun.elapsed().as_secs_f64(), conversation.memory());
    let (first, last) = (blocks[0], blocks[blocks.len() - 1]);
    println!(
        "{name:18} {trials:6} trials: {all:7.0} trials/s; first thousand {first:7.0}, last \
         {last:7.0}; peak {memory:.0} MB"
    );
    conversation.say("{\"cmd\":\"quit\"}\n");
    conversation.child.wait().unwrap();
}

/// Seconds that this thread was on a processor, where the system tells: others on the machine count
/// little.
fn used() -> f64 {
    let status = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    status
        .split(' ')
        .next()
        .and_then(|nanos| nanos.parse::<f64>().ok())
        .map_or(f64::NAN, |nanos| nanos / 1e9)
}

/// Trials asked for and told in this process; `store`: into a file of a directory of its own.
fn library(sampler: &str, trials: usize, store: bool) {
    let directory = tempfile::tempdir().unwrap();
    let mut study = Study::minimize("bench", "loss")
        .sampler(AlgorithmSpec::named(sampler))
        .trials(trials as u64 + 1);
    for axis in 0..4 {
        study = study.log_float(&format!("log{axis}"), 1e-6, 1.0);
    }
    for axis in 0..3 {
        study = study.float(&format!("linear{axis}"), 0.0, 1.0);
    }
    study = study
        .int("whole0", 1, 64)
        .int("whole1", 1, 64)
        .choice("optimizer", ["sgd", "adamw", "lion", "adagrad"]);
    let study = if store { study.store(directory.path().join("hpsearch.db")) } else { study }
        .open()
        .unwrap();
    let mut blocks = Vec::new();
    for block in 0..trials / BLOCK {
        let before = used();
        for number in block * BLOCK..(block + 1) * BLOCK {
            let trial = study.ask().unwrap().unwrap();
            study.tell(trial, (number * 7919 % 10_007) as f64).unwrap();
        }
        blocks.push((used() - before) / BLOCK as f64 * 1e3);
    }
    let (place, last) = (if store { "a store" } else { "memory" }, blocks[blocks.len() - 1]);
    println!(
        "library, {place:8} {sampler:8} {trials:6} trials: processor time of the first thousand \
         {:.3} ms a trial, last {last:.3}",
        blocks[0]
    );
}

fn libraries() {
    for sampler in ["random", "tpe"] {
        [false, true].into_iter().for_each(|store| library(sampler, 5_000, store));
    }
}

fn main() {
    // cargo adds `--bench`.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    match &arguments[..] {
        [] => {
            CASES.iter().for_each(|case| measure(case.name, case.init, case.trials, case.reports));
            libraries();
        }
        [which] if which == "library" => libraries(),
        [sampler, trials] => measure(
            sampler,
            &format!("\"sampler\":{{\"type\":\"{sampler}\"}}"),
            trials.parse().unwrap(),
            0,
        ),
        _ => panic!("cargo bench --bench ask_tell -- [library | SAMPLER TRIALS]"),
    }
}
