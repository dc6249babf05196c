//! What an agent needs to run the trials of its study.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::carrying::Carrying;
use super::node_log::NodeLog;
use crate::cluster::message::{AttemptOf, Welcome};
use crate::engine::{Assignment, Input};
use crate::runner::clock::Clock;
use crate::runner::launcher::{Job, Launcher as _};
use crate::runner::loads::Loads;
use crate::runner::now;
use crate::runner::point_queue::PointQueue;
use crate::runner::process::ProcessLauncher;
use crate::runner::slots::{MachineDevices, slots};
use crate::runner::system_metrics::SystemMetrics;
use crate::storage::paths::StudyFiles;
use crate::study::device::Slot;
use crate::study::program::{EnvironmentValue, Program};
use crate::study::space::Space;
use crate::study::spec::{CheckpointsSpec, DevicesSpec, Objective, StudySpec};
use crate::study::step::StepUnit;

/// The study, and its trials that run here.
pub(super) struct Work {
    program: PathBuf,
    store: PathBuf,
    protected: Vec<PathBuf>,
    /// As the runner knows it, with the devices of this machine.
    spec: StudySpec,
    /// What its programs depend on, as the first runner said it.
    settings: LaunchSettings,
    /// The time for which this agent may be stopped before its trials run elsewhere.
    patience: Duration,
    pub files: StudyFiles,
    pub launcher: ProcessLauncher,
    pub jobs: BTreeMap<AttemptOf, Box<dyn Job>>,
    /// Attempts that wait for the end of another one of their trial.
    pub deferred: Vec<Assignment>,
    pub points: Arc<PointQueue>,
    pub clock: Clock,
    /// Microseconds by which the runner's clock is ahead. Never less than before: series are in the
    /// order of their times.
    pub ahead: i64,
    pub system_metrics: Option<SystemMetrics>,
    /// Set with automatic concurrency.
    pub loads: Option<Loads>,
    /// Where this agent and the runner share no directory.
    pub carrying: Option<Carrying>,
    /// The attempts that another agent leads, and what they have printed.
    pub following: BTreeMap<AttemptOf, NodeLog>,
}

/// What programs of a study, and what is recorded of them, depend on.
#[derive(PartialEq)]
struct LaunchSettings {
    program: Program,
    env: BTreeMap<String, String>,
    space: Space,
    objectives: Vec<Objective>,
    step: StepUnit,
    devices: DevicesSpec,
    checkpoints: CheckpointsSpec,
    system_metrics: Option<Duration>,
}

impl LaunchSettings {
    fn of(Welcome { spec, env, .. }: &Welcome) -> Self {
        LaunchSettings {
            program: spec.program.clone(),
            env: env.clone(),
            space: spec.space.clone(),
            objectives: spec.objectives.clone(),
            step: spec.step,
            devices: spec.devices.clone(),
            checkpoints: spec.checkpoints.clone(),
            system_metrics: spec.track.system,
        }
    }
}

impl Work {
    /// The unit of the study's steps.
    pub fn step_unit(&self) -> StepUnit {
        self.spec.step
    }

    /// Prepares for the study of a runner. `session` identifies the agent; `always_carries`: its
    /// files travel even if it sees the runner's directory.
    ///
    /// # Errors
    /// The study cannot run here.
    pub fn begin(
        program: PathBuf,
        welcome: Welcome,
        session: &str,
        always_carries: bool,
    ) -> Result<Self, String> {
        let settings = LaunchSettings::of(&welcome);
        let [lost_after, grace] =
            [welcome.lost_after_micros, welcome.grace_micros].map(Duration::from_micros);
        let patience = lost_after + grace;
        let Welcome { mut spec, env, store, directory, protected, now: runners, .. } = welcome;
        if let Program::Command { env: named, cwd, .. } = &mut spec.program {
            for (name, value) in env {
                named.insert(name, EnvironmentValue::new(value));
            }
            if !cwd.is_dir() {
                return Err(format!(
                    "the working directory of the study's command, `{}`, is not on this machine: \
                     create it there, with what the command needs",
                    cwd.display()
                ));
            }
        }
        let mut files = StudyFiles::of(&spec, Some(&directory), &store);
        let sees = files.directory().join(&welcome.marker).exists();
        if welcome.is_shared && !sees {
            return Err(format!(
                "the study's files at `{}` are not on this machine: mount them at the same path, \
                 or leave out `shared_dir` under [cluster], so that files travel over the link",
                files.directory().display()
            ));
        }
        let mut carrying = None;
        if !sees || always_carries {
            let refused = |error: io::Error| format!("it has no place for files: {error}");
            let (begun, root) = Carrying::begin(session).map_err(refused)?;
            files = begun.files().clone();
            spec.checkpoints.dir = Some(root);
            carrying = Some(begun);
        }
        slots_here(&spec)?;
        let points = Arc::new(PointQueue::default());
        let system_metrics = match spec.track.system {
            // Series without it are better than no trial.
            Some(period) => SystemMetrics::start(period, Arc::clone(&points)).ok(),
            None => None,
        };
        let clock = Clock::start(now(), None);
        let loads = spec.devices.automatic_concurrency.then(Loads::default);
        let mut work = Work {
            launcher: ProcessLauncher::new(
                program.clone(),
                Arc::new(spec.clone()),
                store.clone(),
                files.clone(),
                protected.clone(),
            )
            .of_agent(patience),
            program,
            store,
            protected,
            spec,
            settings,
            patience,
            files,
            jobs: BTreeMap::new(),
            deferred: Vec::new(),
            points,
            clock,
            ahead: runners.0 - clock.now().0,
            system_metrics,
            loads,
            carrying,
            following: BTreeMap::new(),
        };
        work.launcher.log_to(Arc::clone(&work.points));
        Ok(work)
    }

    /// Whether its program is the built-in trainer, which reads files.
    pub fn reads_files(&self) -> bool {
        matches!(self.spec.program, Program::Trainer { .. })
    }

    /// Whether a runner has the same study, with programs that are started in the same way, on
    /// these devices if they replace those of the study.
    pub fn is_for(&self, welcome: &Welcome, devices: &[String]) -> bool {
        let mut settings = LaunchSettings::of(welcome);
        if !devices.is_empty() {
            settings.devices.select = devices.to_vec();
        }
        settings == self.settings
    }

    /// The trainer's inputs are here: its trials are told where.
    ///
    /// # Errors
    /// Trials run with others.
    pub fn take_inputs(&mut self) -> Result<(), String> {
        let Some(carrying) = &self.carrying else { return Ok(()) };
        let mut spec = self.spec.clone();
        carrying.rewrite(&mut spec);
        if spec == *self.launcher.spec() {
            return Ok(());
        }
        if !self.jobs.is_empty() {
            return Err("the files that the trainer reads have changed".to_owned());
        }
        let (store, protected) = (self.store.clone(), self.protected.clone());
        let files = self.files.clone();
        self.launcher =
            ProcessLauncher::new(self.program.clone(), Arc::new(spec), store, files, protected)
                .of_agent(self.patience);
        self.launcher.log_to(Arc::clone(&self.points));
        Ok(())
    }

    /// The slots of the study on this machine.
    ///
    /// # Errors
    /// It has not the devices.
    pub fn slots(&self) -> Result<Vec<Slot>, String> {
        slots_here(&self.spec)
    }

    /// Whether an attempt of the trial of this one is still being killed.
    pub fn is_busy_with(&self, assignment: &Assignment) -> bool {
        self.jobs.keys().any(|(trial, _)| *trial == assignment.trial)
    }

    /// An input whose path of a checkpoint is relative to the study's files, as the runner has them
    /// elsewhere.
    pub fn relative(&self, input: Input) -> Input {
        match input {
            Input::Checkpoint { trial, attempt, step, path, bytes, system, digest } => {
                let below = path.strip_prefix(self.files.directory()).map(PathBuf::from);
                let path = below.unwrap_or(path);
                Input::Checkpoint { trial, attempt, step, path, bytes, system, digest }
            }
            other => other,
        }
    }

    /// An assignment with the path of its checkpoint here.
    pub fn here(&self, mut assignment: Assignment) -> Assignment {
        if let Some(checkpoint) = &mut assignment.resume {
            // An absolute path stays as it is.
            checkpoint.path = self.files.directory().join(&checkpoint.path);
        }
        let slot = Slot::on(assignment.slot.index, assignment.slot.devices.local());
        Assignment { slot, ..assignment }
    }
}

fn slots_here(spec: &StudySpec) -> Result<Vec<Slot>, String> {
    let machine = MachineDevices::detect(&spec.devices.select);
    slots(&spec.devices, &spec.program, &machine).map_err(|error| error.to_string())
}
