//! Files that travel between the runner and agents that share no directory with it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::{Agent, Hub};
use crate::cluster::message::{ToAgent, ToRunner, TrainerInput};
use crate::cluster::transfer::{Carried, Location, Sending, checked, complete, digest, take_piece};
use crate::engine::{Assignment, Input};
use crate::runner::threads;
use crate::storage::paths;
use crate::study::artifact::ArtifactKind;
use crate::study::event::{RecordEvent, TrialEvent};
use crate::study::remark::{Remark, RemarkKind};
use crate::study::trial::TrialNumber;

impl Hub {
    /// Writes what an agent sends of its files; returns what did not arrive as it was sent, and
    /// why.
    pub(super) fn store_file(&self, message: &ToRunner) -> Option<(PathBuf, String)> {
        match message {
            ToRunner::Log { trial, attempt, offset, bytes } => {
                let path = self.run.files.log(*trial, *attempt);
                // A full disk loses logs of trials of this machine, too.
                let _lost = write_at(&path, *offset, &bytes.0);
                None
            }
            ToRunner::Carried(Carried::Piece { of, file, offset, bytes }) => {
                let Location::Study(below) = of else { return None };
                let target = self.target(of);
                let written =
                    target.and_then(|path| take_piece((&path, ""), file, *offset, &bytes.0));
                Some((below.clone(), written.err()?.to_string()))
            }
            ToRunner::Carried(Carried::Complete { of: Location::Study(below), files }) => {
                let target = self.target(&Location::Study(below.clone()));
                let error = target.and_then(|path| complete((&path, ""), files)).err()?;
                Some((below.clone(), error.to_string()))
            }
            _ => None,
        }
    }

    /// Where something that an agent sends belongs.
    fn target(&self, of: &Location) -> io::Result<PathBuf> {
        match of {
            Location::Study(below) => Ok(self.run.files.directory().join(checked(below)?)),
            Location::Prepared(_) | Location::Input(_) => Err(not_here()),
        }
    }

    /// What an agent asks for.
    pub(super) fn find(&self, of: &Location) -> io::Result<Sending> {
        let path = match of {
            Location::Study(below) => self.run.files.directory().join(checked(below)?),
            _ if !self.run.trainer_inputs.contains(of) => return Err(not_here()),
            _ => self.input(of)?,
        };
        Sending::new(of.clone(), &path)
    }

    fn input(&self, of: &Location) -> io::Result<PathBuf> {
        match of {
            Location::Input(path) => Ok(path.clone()),
            Location::Prepared(name) => {
                Ok(self.run.files.root().join(paths::DATA_CACHE).join(checked(name)?))
            }
            Location::Study(_) => Err(not_here()),
        }
    }

    /// Tells an agent what the trainer reads. On a thread: the files are read for their digests.
    pub(super) fn list_inputs(&self, session: String) {
        let hub = self.clone();
        let listed = move || {
            let of = |of: &Location| {
                let digest = match of {
                    // Its name is the digest of all that it was made from.
                    Location::Prepared(name) => name.display().to_string(),
                    _ => digest(&hub.input(of).ok()?).ok()?,
                };
                Some(TrainerInput { of: of.clone(), digest })
            };
            let list = || hub.run.trainer_inputs.iter().filter_map(of).collect::<Vec<_>>();
            // Once for all agents. What cannot be read here, the trial that needs it names.
            let inputs = hub.run.listed_inputs.get_or_init(list).clone();
            if let Some(agent) = hub.lock().agents.get_mut(&session) {
                agent.put(&ToAgent::Inputs(inputs));
            }
        };
        // Out of threads: the agent waits, and is found to be idle.
        let _refused = threads::spawn("inputs", listed);
    }

    /// Tells agents that files of a trial are needed no more.
    pub fn removed(&self, trial: TrialNumber, path: &Path) {
        let Ok(below) = path.strip_prefix(self.run.files.directory()) else { return };
        let mut state = self.lock();
        let there = |agent: &&mut Agent| agent.carries && agent.trials.contains(&trial);
        for agent in state.agents.values_mut().filter(there) {
            agent.put(&ToAgent::Remove { trial, path: below.to_owned() });
        }
    }

    /// An input with the path of its checkpoint on this machine; a remark in its place if its files
    /// did not arrive.
    pub(super) fn absolute(&self, input: Input, agent: &mut Agent) -> Input {
        match input {
            Input::Checkpoint { trial, attempt, step, path, bytes, system, digest } => {
                let here = self.run.files.directory().join(&path);
                // An earlier runner may have been told why.
                let is_lost = agent.carries && path.is_relative() && !here.exists();
                let elsewhere = path.is_relative().then(|| checked(&path).err()).flatten();
                let why = agent.damaged.remove(&path);
                let why = why.or_else(|| elsewhere.map(|error| error.to_string()));
                let why = why.or_else(|| is_lost.then(|| "it is not there".to_owned()));
                if let Some(why) = why {
                    let why = format!("`{}` did not arrive from its agent: {why}", path.display());
                    let remark = Remark::new(RemarkKind::Checkpoint, why);
                    return Input::Remark { trial, attempt, remark };
                }
                Input::Checkpoint { trial, attempt, step, path: here, bytes, system, digest }
            }
            Input::Recorded {
                trial,
                attempt,
                event: TrialEvent::Record(RecordEvent::ArtifactSaved { artifact, content }),
            } => {
                let place = self.run.files.artifacts(trial).join(&artifact.digest);
                let below = place.strip_prefix(self.run.files.directory()).unwrap_or(&place);
                let is_file = matches!(artifact.kind, ArtifactKind::File | ArtifactKind::Image);
                let is_lost = agent.carries && artifact.copied && is_file && !place.exists();
                let why = agent.damaged.remove(below);
                if let Some(why) = why.or_else(|| is_lost.then(|| "it is not there".to_owned())) {
                    let why = format!("`{}` did not arrive from its agent: {why}", artifact.name);
                    let remark = Remark::new(RemarkKind::Artifact, why);
                    return Input::Remark { trial, attempt, remark };
                }
                let event = TrialEvent::Record(RecordEvent::ArtifactSaved { artifact, content });
                Input::Recorded { trial, attempt, event }
            }
            other => other,
        }
    }

    /// An assignment with the path of its checkpoint relative to the study's files.
    pub(super) fn relative(&self, mut assignment: Assignment) -> Assignment {
        if let Some(checkpoint) = &mut assignment.resume
            && let Ok(below) = checkpoint.path.strip_prefix(self.run.files.directory())
        {
            checkpoint.path = below.to_owned();
        }
        assignment
    }
}

fn write_at(path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    File::options().write(true).create(true).truncate(false).open(path)?.write_all_at(bytes, offset)
}

fn not_here() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "it is not one of the study's")
}
