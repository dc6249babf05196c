//! An agent without processes: it reports at a steady pace over a real link.

use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use hpsearch::cluster::frames::{FrameReader, FrameWriter, connect};
use hpsearch::cluster::message::{
    AttemptOf, Envelope, Greeting, Hello, ToAgent, ToRunner, Welcome, bytes, envelope,
};
use hpsearch::cluster::outbox::Outbox;
use hpsearch::cluster::rendezvous::Rendezvous;
use hpsearch::engine::Input;
use hpsearch::study::device::Device;
use hpsearch::study::event::AttemptEnd;
use hpsearch::study::provenance::{AgentProvenance, Build, ClusterJob, Machine, Scheduler};

/// First and longest pause before an agent connects again, as real ones have them.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// What simulated agents share.
#[derive(Default)]
pub struct Shared {
    pub reports: AtomicU64,
    pub answers: AtomicU64,
    /// When each was greeted.
    pub greetings: Mutex<Vec<Instant>>,
    pub is_over: AtomicBool,
}

/// What a test does to the connection of an agent.
#[derive(Default)]
pub struct Cable {
    stream: Mutex<Option<TcpStream>>,
    is_out: AtomicBool,
}

impl Cable {
    /// Breaks the connection; the agent connects again at once, unless it is pulled out.
    pub fn cut(&self) {
        if let Some(stream) = self.stream.lock().unwrap().take() {
            let _closed_already = stream.shutdown(Shutdown::Both);
        }
    }

    /// Whether no connection can be made.
    pub fn pull_out(&self, is_out: bool) {
        self.is_out.store(is_out, Ordering::Relaxed);
        if is_out {
            self.cut();
        }
    }
}

/// The machine of an agent.
pub fn machine(host: &str) -> AgentProvenance {
    let machine = Machine {
        host: host.to_owned(),
        system: "Linux 6.1 x86_64".to_owned(),
        processor: "simulated".to_owned(),
        cores: 4,
        gpus: Vec::new(),
    };
    let hpsearch = Build { version: env!("CARGO_PKG_VERSION").to_owned(), digest: None };
    let job = Some(ClusterJob { scheduler: Scheduler::Slurm, id: "17_2".to_owned() });
    AgentProvenance { machine, memory: Some(3 << 29), hpsearch, job }
}

/// An agent of one slot.
pub struct SimulatedAgent {
    hello: Hello,
    epoch: i64,
    index: usize,
    file: PathBuf,
    /// Steps of a trial.
    steps: u64,
    interval: Duration,
    shared: Arc<Shared>,
    link: Arc<Cable>,
    outbox: Outbox,
    running: Option<(AttemptOf, u64)>,
    /// Attempts whose end is not acknowledged: the number of that message, once it has ended.
    open: Vec<(AttemptOf, Option<u64>)>,
}

impl SimulatedAgent {
    pub fn new(
        index: usize,
        file: &Path,
        steps: u64,
        interval: Duration,
        shared: &Arc<Shared>,
    ) -> Self {
        let hello = Hello {
            host: format!("node{index}"),
            can_return: true,
            ..Hello::of_session(format!("simulated-{index}"))
        };
        SimulatedAgent {
            hello,
            epoch: 0,
            index,
            file: file.to_owned(),
            steps,
            interval,
            shared: Arc::clone(shared),
            link: Arc::default(),
            outbox: Outbox::default(),
            running: None,
            open: Vec::new(),
        }
    }

    pub fn cable(&self) -> Arc<Cable> {
        Arc::clone(&self.link)
    }

    /// Connects again and again, on a thread.
    pub fn start(mut self) -> JoinHandle<()> {
        let run = move || {
            let (first, longest) = PAUSES;
            let mut pause = first;
            while !self.shared.is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                if let Some((reader, writer, welcome)) = self.open() {
                    self.shared.greetings.lock().unwrap().push(Instant::now());
                    let _cut = self.serve(reader, writer, welcome);
                }
                if begun.elapsed() > longest {
                    pause = first;
                }
                let share = u32::try_from(self.index * 7 % 10).unwrap();
                std::thread::sleep(pause * (5 + share) / 10);
                pause = (pause * 2).min(longest);
            }
        };
        Builder::new().stack_size(256 << 10).spawn(run).unwrap()
    }

    fn open(&mut self) -> Option<(FrameReader, FrameWriter, Welcome)> {
        if self.link.is_out.load(Ordering::Relaxed) {
            return None;
        }
        let rendezvous = Rendezvous::read(&self.file).ok()?;
        let stream = TcpStream::connect(&rendezvous.addresses[0]).ok()?;
        stream.set_nodelay(true).ok()?;
        *self.link.stream.lock().unwrap() = Some(stream.try_clone().ok()?);
        let halves = (stream.try_clone().ok()?, stream);
        let (mut reader, mut writer) = connect(halves.0, halves.1, &rendezvous.token()?).ok()?;
        self.hello.attempts = self.open.iter().map(|(attempt, _)| *attempt).collect();
        self.hello.first = self.outbox.first();
        writer.write(&bytes(&self.hello)).ok()?;
        match serde_json::from_slice(&reader.read().ok()??).ok()? {
            Greeting::Welcome(welcome) => Some((reader, writer, *welcome)),
            Greeting::Refused { why } => panic!("{why}"),
        }
    }

    fn send(&mut self, writer: &mut FrameWriter) -> Option<()> {
        while let Some((number, message)) = self.outbox.next_to_send().unwrap() {
            writer
                .write(&envelope(self.epoch, Some(number), self.hello.received, &message))
                .ok()?;
        }
        Some(())
    }

    fn put(&mut self, message: &ToRunner) -> u64 {
        self.outbox.put(&bytes(message))
    }

    fn serve(
        &mut self,
        mut reader: FrameReader,
        mut writer: FrameWriter,
        welcome: Welcome,
    ) -> Option<()> {
        let is_new = self.hello.runner.as_ref() != Some(&welcome.runner);
        self.epoch = welcome.epoch;
        self.hello.name = Some(welcome.name);
        self.hello.runner = Some(welcome.runner);
        self.outbox.resume(welcome.received);
        if self.running.is_some_and(|(attempt, _)| !welcome.attempts.contains(&attempt)) {
            // It runs elsewhere by now.
            self.running = None;
        }
        // One that has ended is open until that is stored.
        self.open.retain(|(attempt, end)| end.is_some() || welcome.attempts.contains(attempt));
        if is_new {
            self.hello.received = 0;
            let devices = vec![Device::Sim(0).into()];
            let provenance = Box::new(machine(&self.hello.host));
            self.put(&ToRunner::Slots { devices, provenance });
        }
        self.send(&mut writer)?;
        let (tick, ticks) = crossbeam_channel::bounded(8);
        let reading = Builder::new().stack_size(128 << 10).spawn(move || {
            while let Ok(Some(frame)) = reader.read() {
                if tick.send(frame).is_err() {
                    return;
                }
            }
        });
        reading.ok()?;
        // Each at a moment of its own.
        let phase = u32::try_from(self.index % 1_000).unwrap();
        let mut next = Instant::now() + self.interval * phase / 1_000;
        loop {
            match ticks.recv_deadline(next) {
                Ok(frame) => self.hear(&frame)?,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    if self.shared.is_over.load(Ordering::Relaxed) {
                        return None;
                    }
                    next += self.interval;
                    let ping = bytes(&ToRunner::Ping { ping: 1 });
                    writer.write(&envelope(self.epoch, None, self.hello.received, &ping)).ok()?;
                    self.step();
                }
            }
            self.send(&mut writer)?;
        }
    }

    fn hear(&mut self, frame: &[u8]) -> Option<()> {
        let envelope: Envelope<ToAgent> = serde_json::from_slice(frame).ok()?;
        assert_eq!(envelope.epoch, self.epoch);
        let stored = envelope.received;
        self.outbox.acknowledge(stored);
        self.open.retain(|(_, end)| end.is_none_or(|number| number > stored));
        match envelope.number {
            Some(number) if number == self.hello.received + 1 => self.hello.received = number,
            Some(number) if number <= self.hello.received => return Some(()),
            Some(number) => panic!("{number} after {}", self.hello.received),
            None => {}
        }
        match envelope.message {
            ToAgent::Launch { assignment } => {
                let (trial, attempt) = (assignment.trial, assignment.attempt);
                self.running = Some(((trial, attempt), 0));
                self.open.push(((trial, attempt), None));
                let launched = Input::Launched { trial, attempt, pid: 1, pid_started: 1 };
                self.put(&ToRunner::Input(launched));
            }
            ToAgent::Attempt { .. } => {
                self.shared.answers.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        Some(())
    }

    /// A report, or after the last one the end.
    fn step(&mut self) {
        let Some(((trial, attempt), step)) = &mut self.running else { return };
        let (trial, attempt) = (*trial, *attempt);
        *step += 1;
        let step = *step;
        if step <= self.steps {
            let metrics = [("loss".to_owned(), 0.5)].into_iter().collect();
            self.put(&ToRunner::Input(Input::Report { trial, attempt, step, metrics }));
            self.shared.reports.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.running = None;
        let end = AttemptEnd::Completed;
        let number =
            self.put(&ToRunner::Input(Input::Ended { trial, attempt, end, message: None }));
        let open = self.open.iter_mut().find(|(open, _)| *open == (trial, attempt));
        open.into_iter().for_each(|(_, end)| *end = Some(number));
    }
}
