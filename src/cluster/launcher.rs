//! Starts attempts on agents; each goes to the agent of its device.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::Sender;

use super::frames::{FrameReader, FrameWriter, Token, accept};
use super::hub::{Hub, HubContext};
use super::message::{Act, AttemptOf, ToAgent, Welcome};
use super::rendezvous::Rendezvous;
use super::starter::Starter;
use super::transfer::{Location, is_arriving};
use crate::engine::{Assignment, Input, SlottedAttempt};
use crate::runner::launcher::{BegunRun, Job, LaunchError, Launcher};
use crate::runner::ownership::AGENTS_MARKER as MARKER;
use crate::runner::point_queue::PointQueue;
use crate::runner::{disk, processes, threads};
use crate::storage::paths::StudyFiles;
use crate::study::decision::Decision;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Longest wait for the first messages of a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that have not proved that they know the token, at a time.
const MOST_STRANGERS: usize = 256;

/// Interval at which the file for agents is touched, so that the next runner knows how long this
/// one is dead.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Interval between looks at agents that may be lost, and at what starts them.
const LOOK: Duration = Duration::from_millis(200);

/// Time for agents to end at the end of a run.
const SHUT_DOWN_PATIENCE: Duration = Duration::from_secs(5);

/// What is known before the run begins.
pub struct Plan {
    /// For agents; without what belongs to one of them.
    pub welcome: Welcome,
    /// `address:port` to listen at.
    pub listen: String,
    /// The study's files.
    pub files: StudyFiles,
    /// What the trainer reads.
    pub trainer_inputs: Vec<Location>,
    /// The directory that agents have to see at the same path, if there is one.
    pub shared_dir: Option<PathBuf>,
    /// The file by which agents find this runner.
    pub file: PathBuf,
    /// What starts agents.
    pub starter: Starter,
}

/// Starts attempts on agents.
pub struct ClusterLauncher {
    plan: Plan,
    points: Arc<PointQueue>,
    listening: Option<Listening>,
    looked: Instant,
    /// The agents of slots that were used.
    agents: HashMap<usize, Vec<String>>,
    is_resting: bool,
    /// How many more trials could run now.
    demand: u64,
}

/// A launcher whose run has begun.
struct Listening {
    hub: Hub,
    address: SocketAddr,
    rendezvous: Rendezvous,
}

impl ClusterLauncher {
    /// A launcher whose run has not begun.
    pub fn new(plan: Plan) -> Self {
        ClusterLauncher {
            plan,
            points: Arc::default(),
            listening: None,
            looked: Instant::now(),
            agents: HashMap::new(),
            is_resting: false,
            demand: 0,
        }
    }

    fn hub(&self) -> Option<&Hub> {
        self.listening.as_ref().map(|listening| &listening.hub)
    }
}

/// Touches the file now and then, and writes it again if somebody removed it.
fn beat(hub: &Hub, file: &Path, written: &Rendezvous) {
    while !hub.is_over() {
        threads::sleep(HEARTBEAT);
        if !hub.is_over() {
            let open = File::options().append(true).open(file);
            let touched = open.and_then(|file| file.set_modified(SystemTime::now()));
            let _tried_again = touched.or_else(|_| written.write(file));
        }
    }
}

/// Listens at the port of an earlier runner, if any port will do and that one is free.
fn listen(at: &str, port: Option<u16>) -> io::Result<TcpListener> {
    let earlier = at.strip_suffix(":0").zip(port);
    let again = earlier.and_then(|(host, port)| TcpListener::bind(format!("{host}:{port}")).ok());
    again.map_or_else(|| TcpListener::bind(at), Ok)
}

/// Makes a file by which agents know that they see this directory, in place of those of earlier
/// runners; returns its name. A new name for each run: other machines may remember old ones.
fn mark(directory: &Path, token: &Token) -> io::Result<String> {
    for path in disk::entries(directory) {
        if disk::name_of(&path).is_some_and(|name| name.starts_with(MARKER)) {
            let _gone_already = std::fs::remove_file(&path);
        }
    }
    let name = format!("{MARKER}{}", &blake3::hash(token).to_hex()[..16]);
    File::create(directory.join(&name))?;
    Ok(name)
}

/// Removes the marker, and what did not arrive completely from agents that are gone.
fn remove_unfinished(files: &StudyFiles) {
    let is = |path: &Path, of: fn(&str) -> bool| disk::name_of(path).is_some_and(of);
    for path in disk::entries(&files.directory()) {
        if is(&path, |name| name.starts_with(MARKER)) {
            let _gone_already = std::fs::remove_file(&path);
        } else if is(&path, |name| name.starts_with("trial-")) {
            let beside = disk::entries(&path).filter(|path| path.is_dir());
            let below = beside.flat_map(|path| disk::entries(&path).collect::<Vec<_>>());
            for path in disk::entries(&path).chain(below).filter(|path| is(path, is_arriving)) {
                let _removed_with_the_trial = disk::remove(&path);
            }
        }
    }
}

fn serve(listener: &TcpListener, hub: &Hub, token: Token) {
    let strangers = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of files: others end.
            threads::sleep(Duration::from_millis(100));
            continue;
        };
        if hub.is_over() {
            return;
        }
        if strangers.load(Ordering::Relaxed) >= MOST_STRANGERS {
            continue;
        }
        let (hub, strangers) = (hub.clone(), Arc::clone(&strangers));
        strangers.fetch_add(1, Ordering::Relaxed);
        // Out of threads: the agent tries again.
        let counter = Arc::clone(&strangers);
        let served = threads::spawn_small("agent", move || {
            let connected = admit(&stream, &token);
            strangers.fetch_sub(1, Ordering::Relaxed);
            if let Err(error) = &connected
                && error.kind() == io::ErrorKind::PermissionDenied
                && let Ok(peer) = stream.peer_addr()
            {
                let why = "what connects from there has another token: start agents with the \
                    file that this run has written";
                hub.tell_trouble(&peer.ip().to_string(), why);
            }
            // A stranger, or a link that breaks: the agent tries again.
            let _ended = connected.and_then(|(reader, writer)| {
                stream.set_read_timeout(Some(hub.silence()))?;
                hub.serve(reader, writer)
            });
        });
        if served.is_err() {
            counter.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn admit(stream: &TcpStream, token: &Token) -> io::Result<(FrameReader, FrameWriter)> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    accept(stream.try_clone()?, stream.try_clone()?, token)
}

impl Launcher for ClusterLauncher {
    fn log_to(&mut self, points: Arc<PointQueue>) {
        self.points = points;
    }

    fn begin(&mut self, run: &BegunRun<'_>) -> io::Result<()> {
        let BegunRun { epoch, inputs, clock, grace, surviving } = *run;
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        // That of a runner that was killed here: agents may have copies of it.
        let before = Rendezvous::read(&self.plan.file).ok();
        let before = before.filter(|before| before.host == processes::host());
        let listener = listen(&self.plan.listen, before.as_ref().and_then(Rendezvous::port))?;
        let address = listener.local_addr()?;
        let study = &self.plan.welcome.spec.name;
        let rendezvous = Rendezvous::new(study, address, &processes::host(), before.as_ref())?
            .sharing(self.plan.shared_dir.clone());
        let token = rendezvous.token().ok_or_else(|| io::Error::other("no token"))?;
        let marker = mark(&self.plan.files.directory(), &token)?;
        let grace_micros = micros(grace);
        let welcome = Welcome { epoch, grace_micros, marker, ..self.plan.welcome.clone() };
        let run = HubContext {
            runner: welcome.runner.clone(),
            clock,
            lost_after: Duration::from_micros(welcome.lost_after_micros),
            grace,
            inputs: inputs.clone(),
            points: Arc::clone(&self.points),
            files: self.plan.files.clone(),
            trainer_inputs: self.plan.trainer_inputs.clone(),
            listed_inputs: OnceLock::new(),
            welcome,
        };
        let awaited = surviving.iter().filter_map(|SlottedAttempt { trial, attempt, slot }| {
            let agents: Vec<String> =
                slot.devices.agents().into_iter().map(str::to_owned).collect();
            (!agents.is_empty()).then_some(((*trial, *attempt), agents))
        });
        // The file is touched while its runner lives; clocks of other machines mean nothing here.
        let is_ours = before.is_some();
        let touched = std::fs::metadata(&self.plan.file).and_then(|file| file.modified());
        let dead = touched.ok().filter(|_| is_ours).and_then(|at| at.elapsed().ok());
        let dead = dead.unwrap_or_default();
        let hub = Hub::new(run, awaited, dead.saturating_sub(HEARTBEAT * 2));
        let doors = hub.clone();
        threads::spawn("agents", move || serve(&listener, &doors, token))?;
        rendezvous.write(&self.plan.file)?;
        // On a thread: as long as this process answers agents, whatever else holds it up.
        let (pulse, file, written) = (hub.clone(), self.plan.file.clone(), rendezvous.clone());
        threads::spawn("heartbeat", move || beat(&pulse, &file, &written))?;
        self.listening = Some(Listening { hub, address, rendezvous });
        Ok(())
    }

    fn adopt(&mut self, trial: TrialNumber, attempt: AttemptNumber) -> Option<Box<dyn Job>> {
        Some(Box::new(AgentJob { hub: self.hub()?.clone(), attempt: (trial, attempt) }))
    }

    fn launch(
        &mut self,
        assignment: &Assignment,
        _: &Sender<Input>,
    ) -> Result<Box<dyn Job>, LaunchError> {
        let attempt = (assignment.trial, assignment.attempt);
        let agents = assignment.slot.devices.agents();
        let hub = self.hub().filter(|hub| hub.launch(assignment));
        let Some(hub) = hub.cloned() else {
            let why = match agents.as_slice() {
                [agent] => format!("the agent `{agent}` disconnected"),
                agents => format!("one of the agents `{}` disconnected", agents.join("`, `")),
            };
            return Err(LaunchError::Refused(why));
        };
        self.is_resting = false;
        let agents = agents.into_iter().map(str::to_owned).collect();
        self.agents.insert(assignment.slot.index, agents);
        Ok(Box::new(AgentJob { hub, attempt }))
    }

    fn hold_until(&mut self, end: Instant) {
        self.hub().into_iter().for_each(|hub| hub.hold_until(end));
    }

    fn stored(&mut self, sender: u64, number: u64) {
        self.hub().into_iter().for_each(|hub| hub.stored(sender, number));
    }

    fn look_after(&mut self) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        let Some(Listening { hub, .. }) = &self.listening else { return };
        hub.look_after();
        let nodes = self.plan.welcome.spec.devices.nodes_per_trial;
        self.plan.starter.look_after(hub, self.demand.saturating_mul(nodes.into()));
    }

    fn set_demand(&mut self, trials: u64) {
        self.demand = trials;
    }

    fn removed(&mut self, trial: TrialNumber, path: &Path) {
        self.hub().into_iter().for_each(|hub| hub.removed(trial, path));
    }

    fn vacate(&mut self, slot: usize) {
        if let (Some(agents), Some(hub)) = (self.agents.remove(&slot), self.hub()) {
            for agent in agents {
                hub.send_to_agent(&agent, &ToAgent::Vacate { slot });
            }
        }
    }

    fn rest(&mut self) {
        if !std::mem::replace(&mut self.is_resting, true) {
            self.hub().into_iter().for_each(|hub| hub.send_to_all(&ToAgent::Rest));
        }
    }

    fn hand_over(&mut self) -> bool {
        // Agents find the next runner by the file, which is its own now.
        self.listening.take().into_iter().for_each(|listening| listening.hub.abandon());
        true
    }

    fn shut_down(&mut self) {
        let Some(Listening { hub, address, rendezvous }) = &self.listening else { return };
        hub.end();
        let until = Instant::now() + SHUT_DOWN_PATIENCE;
        while hub.has_agents() && Instant::now() < until {
            threads::sleep(Duration::from_millis(10));
        }
        self.plan.starter.shut_down();
        remove_unfinished(&self.plan.files);
        // Another runner may have replaced it.
        if Rendezvous::read(&self.plan.file).is_ok_and(|found| found == *rendezvous) {
            let _gone_already = std::fs::remove_file(&self.plan.file);
        }
        // Wakes the thread that waits for connections.
        let _none_waits = TcpStream::connect_timeout(address, Duration::from_secs(1));
    }
}

/// An attempt on an agent.
struct AgentJob {
    hub: Hub,
    attempt: AttemptOf,
}

impl AgentJob {
    fn act(&self, act: Act) {
        self.hub.tell(self.attempt, act);
    }
}

impl Job for AgentJob {
    fn answer(&mut self, verdict: &Decision) {
        self.act(Act::Answer(verdict.clone()));
    }

    fn leave(&mut self) {
        self.act(Act::Leave);
    }

    fn examine(&mut self) {
        self.act(Act::Examine);
    }

    fn kill(&mut self) {
        self.act(Act::Kill);
    }

    fn give_up(&mut self) {
        self.act(Act::GiveUp);
    }
}
