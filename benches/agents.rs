//! What a thousand agents cost their runner: `cargo bench --no-default-features --bench agents --
//! [AGENTS] [SECONDS]`.
//!
//! A real `hpsearch run` with `[cluster]`, and simulated agents in this process, each with one slot
//! and a trial that reports once a second, over real encrypted connections. Printed are the
//! runner's processor time and memory while they report, and how long all take to be greeted again
//! after all connections are cut at once.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark may fail loudly")]

use std::fs;
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

use hpsearch::cluster::frames::{FrameReader, FrameWriter, connect};
use hpsearch::cluster::message::{
    AttemptOf, Envelope, Greeting, Hello, PROTOCOL, ToAgent, ToRunner, Welcome,
};
use hpsearch::cluster::rendezvous::Rendezvous;
use hpsearch::engine::Input;
use hpsearch::study::device::Device;

const STUDY: &str = "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"\nstep = \"step\"\n\
    [space]\nx = { float = [0.0, 1.0] }\n[sampler]\ntype = \"random\"\n[track]\nsystem = \"off\"\n\
    [command]\nrun = [\"true\", \"{x}\"]\n[cluster]\nlisten = \"127.0.0.1:0\"\n";

/// Longest pause of an agent before it connects again, as real ones begin with.
const PAUSE: Duration = Duration::from_millis(300);

/// What agents share.
#[derive(Default)]
struct Shared {
    reports: AtomicU64,
    answers: AtomicU64,
    is_over: AtomicBool,
}

struct Agent {
    hello: Hello,
    file: PathBuf,
    shared: Arc<Shared>,
    /// To be cut.
    stream: Arc<Mutex<Option<TcpStream>>>,
    /// Messages without an acknowledgement.
    kept: Vec<(u64, Vec<u8>)>,
    last: u64,
    running: Option<AttemptOf>,
    step: u64,
}

impl Agent {
    fn new(index: usize, file: &Path, shared: &Arc<Shared>) -> Self {
        let hello = Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session: format!("simulated-{index}"),
            name: None,
            host: format!("node{index}"),
            pid: 1,
            runner: None,
            received: 0,
            first: 1,
            attempts: Vec::new(),
            can_return: true,
        };
        Agent {
            hello,
            file: file.to_owned(),
            shared: Arc::clone(shared),
            stream: Arc::default(),
            kept: Vec::new(),
            last: 0,
            running: None,
            step: 0,
        }
    }

    fn open(&mut self) -> Option<(FrameReader, FrameWriter, Welcome)> {
        let rendezvous = Rendezvous::read(&self.file).ok()?;
        let stream = TcpStream::connect(&rendezvous.addresses[0]).ok()?;
        stream.set_nodelay(true).ok()?;
        *self.stream.lock().unwrap() = Some(stream.try_clone().ok()?);
        let halves = (stream.try_clone().ok()?, stream);
        let (mut reader, mut writer) = connect(halves.0, halves.1, &rendezvous.token()?).ok()?;
        self.hello.attempts = self.running.into_iter().collect();
        self.hello.first = self.kept.first().map_or(self.last + 1, |(number, _)| *number);
        writer.write(&serde_json::to_vec(&self.hello).ok()?).ok()?;
        match serde_json::from_slice(&reader.read().ok()??).ok()? {
            Greeting::Welcome(welcome) => Some((reader, writer, *welcome)),
            Greeting::Refused { why } => panic!("{why}"),
        }
    }

    fn put(&mut self, message: &ToRunner) -> Vec<u8> {
        self.last += 1;
        let message = serde_json::to_vec(message).unwrap();
        self.kept.push((self.last, message.clone()));
        self.frame(Some(self.last), &message)
    }

    fn frame(&self, number: Option<u64>, message: &[u8]) -> Vec<u8> {
        let number = number.map_or_else(|| "null".to_owned(), |number| number.to_string());
        let received = self.hello.received;
        let head = format!("{{\"number\":{number},\"received\":{received},\"message\":");
        [head.as_bytes(), message, b"}"].concat()
    }

    /// Connects again and again; tells each greeting.
    fn run(mut self, index: usize, greeted: &(impl Fn() + ?Sized)) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            if let Some((reader, writer, welcome)) = self.open() {
                greeted();
                let _cut = self.serve(reader, writer, welcome, index);
            }
            let share = u32::try_from(index * 7 % 10).unwrap();
            std::thread::sleep(PAUSE * share / 10);
        }
    }

    fn serve(
        &mut self,
        mut reader: FrameReader,
        mut writer: FrameWriter,
        welcome: Welcome,
        index: usize,
    ) -> Option<()> {
        let is_new = self.hello.runner.as_ref() != Some(&welcome.runner);
        self.hello.name = Some(welcome.name);
        self.hello.runner = Some(welcome.runner);
        let frames = (!is_new).then(|| {
            let kept = self.kept.iter().filter(|(number, _)| *number > welcome.received);
            kept.map(|(number, message)| self.frame(Some(*number), message)).collect::<Vec<_>>()
        });
        for frame in frames.into_iter().flatten() {
            writer.write(&frame).ok()?;
        }
        if is_new {
            self.hello.received = 0;
            let frame = self.put(&ToRunner::Slots(vec![Device::Sim(0).into()]));
            writer.write(&frame).ok()?;
        }
        // The clock of this agent: a report and a ping a second, at a moment of its own.
        let (tick, ticks) = crossbeam_channel::bounded(8);
        let over = Arc::clone(&self.shared);
        let offset = Duration::from_millis(u64::try_from(index % 1_000).unwrap());
        let reading = Builder::new().stack_size(128 << 10).spawn(move || {
            while let Ok(Some(frame)) = reader.read() {
                if tick.send(Some(frame)).is_err() {
                    return;
                }
            }
            let _gone = tick.send(None);
        });
        reading.ok()?;
        let mut next = Instant::now() + offset;
        loop {
            match ticks.recv_deadline(next) {
                Ok(Some(frame)) => {
                    let envelope: Envelope<ToAgent> = serde_json::from_slice(&frame).ok()?;
                    self.kept.retain(|(number, _)| *number > envelope.received);
                    match envelope.number {
                        Some(number) if number == self.hello.received + 1 => {
                            self.hello.received = number;
                        }
                        Some(_) => continue,
                        None => {}
                    }
                    match envelope.message {
                        ToAgent::Launch { assignment } => {
                            let (trial, attempt) = (assignment.trial, assignment.attempt);
                            self.running = Some((trial, attempt));
                            self.step = 0;
                            let launched =
                                Input::Launched { trial, attempt, pid: 1, pid_started: 1 };
                            let frame = self.put(&ToRunner::Input(launched));
                            writer.write(&frame).ok()?;
                        }
                        ToAgent::Attempt { .. } => {
                            self.shared.answers.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => {}
                    }
                }
                Ok(None) | Err(crossbeam_channel::RecvTimeoutError::Disconnected) => return None,
                Err(crossbeam_channel::RecvTimeoutError::Timeout) => {
                    if over.is_over.load(Ordering::Relaxed) {
                        return None;
                    }
                    next += Duration::from_secs(1);
                    let ping = serde_json::to_vec(&ToRunner::Ping { ping: self.step }).ok()?;
                    writer.write(&self.frame(None, &ping)).ok()?;
                    if let Some((trial, attempt)) = self.running {
                        self.step += 1;
                        let metrics = [("loss".to_owned(), 0.5)].into_iter().collect();
                        let report = Input::Report { trial, attempt, step: self.step, metrics };
                        let frame = self.put(&ToRunner::Input(report));
                        writer.write(&frame).ok()?;
                        self.shared.reports.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
    }
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
    fs::write(directory.join("study.toml"), STUDY).unwrap();
    Command::new(env!("CARGO_BIN_EXE_hpsearch"))
        .args(["run", "study.toml", "--events"])
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn main() {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let agents = usize::try_from(words.next().unwrap_or(1_000)).unwrap();
    let seconds = words.next().unwrap_or(30);
    let directory = tempfile::tempdir().unwrap();
    let mut runner = runner(directory.path());
    let file = directory.path().join("runs/files/s/agents.json");
    while !file.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let shared = Arc::new(Shared::default());
    let greetings: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let mut streams = Vec::new();
    let begun = Instant::now();
    for index in 0..agents {
        let agent = Agent::new(index, &file, &shared);
        streams.push(Arc::clone(&agent.stream));
        let greetings = Arc::clone(&greetings);
        let greeted = move || greetings.lock().unwrap().push(Instant::now());
        Builder::new().stack_size(256 << 10).spawn(move || agent.run(index, &greeted)).unwrap();
    }
    let all_greeted = |since: Instant| {
        loop {
            let found = greetings.lock().unwrap().clone();
            if found.len() >= agents {
                let mut waits: Vec<f64> = found
                    .iter()
                    .map(|at| at.saturating_duration_since(since).as_secs_f64())
                    .collect();
                waits.sort_by(f64::total_cmp);
                return waits;
            }
            assert!(since.elapsed() < Duration::from_secs(120), "{} of {agents}", found.len());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let quantile =
        |waits: &[f64], share: usize| waits[(waits.len() * share / 100).min(waits.len() - 1)];
    let waits = all_greeted(begun);
    println!(
        "{agents} agents connected: half after {:.2} s, 99 % after {:.2} s",
        quantile(&waits, 50),
        quantile(&waits, 99)
    );
    std::thread::sleep(Duration::from_secs(5));
    let (before, _) = usage(runner.id());
    let (reports, answers) =
        (shared.reports.load(Ordering::Relaxed), shared.answers.load(Ordering::Relaxed));
    let measured = Instant::now();
    std::thread::sleep(Duration::from_secs(seconds));
    let (after, memory) = usage(runner.id());
    let passed = measured.elapsed().as_secs_f64();
    println!(
        "runner: {:.2} of a core, {} MB; {:.0} reports/s, {:.0} answers/s",
        (after - before) / passed,
        memory / 1_000_000,
        (shared.reports.load(Ordering::Relaxed) - reports) as f64 / passed,
        (shared.answers.load(Ordering::Relaxed) - answers) as f64 / passed,
    );
    greetings.lock().unwrap().clear();
    let cut = Instant::now();
    for stream in &streams {
        if let Some(stream) = stream.lock().unwrap().take() {
            let _closed_already = stream.shutdown(Shutdown::Both);
        }
    }
    let waits = all_greeted(cut);
    println!(
        "all cut: half are back after {:.2} s, 99 % after {:.2} s",
        quantile(&waits, 50),
        quantile(&waits, 99)
    );
    shared.is_over.store(true, Ordering::Relaxed);
    runner.kill().unwrap();
    runner.wait().unwrap();
}
