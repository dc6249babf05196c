//! Running a study of a file: everything between the file and a runner that is ready to start.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::check_study::{self, CheckNotice, CheckedStudy, FileOptions, Problems, ReadStudyFile};
use super::reconcile::{self, JudgedAgain};
use super::worker_job::Progress;
use super::{AppError, cluster};
use crate::config::Checked;
use crate::runner::inputs::KnownInputs;
use crate::runner::launcher::Launcher;
use crate::runner::ownership::{self, Taken, Unreachable};
use crate::runner::process::ProcessLauncher;
use crate::runner::processes::own_program;
use crate::runner::provenance::{CollectedProvenance, look_around};
use crate::runner::removal::is_missing;
use crate::runner::slots::tried;
use crate::runner::{self, Runner, RunnerError};
use crate::storage::address::is_on_server;
use crate::storage::any::AnyStore;
use crate::storage::paths::component;
use crate::storage::sqlite::{Migrated, OtherName, other_name};
use crate::storage::{Holder, Storage, StorageReader, StoredStudy};
use crate::study::checkpoint::Checkpoint;
use crate::study::cluster::AgentStart;
use crate::study::device::Slot;
use crate::study::request::Request;
use crate::study::trial::TrialNumber;

/// The user's wishes about a run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// The study file.
    pub file: FileOptions<'a>,
    /// Whether a paused study is resumed.
    pub resume: bool,
    /// Whether the study is taken from a runner on another host that is gone.
    pub take_over: bool,
    /// What happens if checkpoints cannot be reached.
    pub unreachable: Unreachable,
}

/// Something that the user should know before the runner starts, and how far the preparation is.
#[derive(Debug)]
pub enum RunNotice<'a> {
    /// Something about the study file.
    File(CheckNotice<'a>),
    /// A device does not work, and is left out.
    BrokenDevice(&'a str),
    /// The store was opened.
    Store {
        /// Its path.
        path: &'a Path,
        /// Whether it was created.
        is_new: bool,
        /// How its file has another name, which must not be used to open it.
        other_name: Option<OtherName>,
        /// Whether it had an older schema.
        migrated: Option<&'a Migrated>,
    },
    /// Complete trials were compared with changed limits.
    Judged(JudgedAgain),
    /// The study was taken from a holder of another host, if there was one.
    TakenOver(Option<&'a Holder>),
    /// Files of the command changed since the last run.
    ChangedProgram {
        /// Their paths.
        files: &'a [&'a str],
        /// The number of complete trials.
        complete: u64,
    },
    /// The usual directory of the trials' files is taken.
    OtherDirectory {
        /// The directory in its place.
        directory: &'a Path,
        /// The name of the usual one.
        usual: &'a str,
        /// Whose it is.
        taken: &'a Taken,
    },
    /// Checkpoints are gone: how many, and of which trials.
    MissingCheckpoints(u64, &'a BTreeSet<TrialNumber>),
    /// Agents are to be started by hand, with this file.
    StartAgents(&'a Path),
}

/// What becomes of a study file.
pub enum Prepared {
    /// It can run.
    Ready(Box<ReadyStudy>),
    /// Its changes need consent; nothing was written.
    Refused,
}

/// A study whose runner can start.
pub struct ReadyStudy {
    /// The study as it is stored, with the values of `[command] env`.
    pub study: StoredStudy,
    /// Its store.
    pub store: AnyStore,
    /// What its runner needs besides.
    pub start: RunnerStart,
}

/// What a runner needs besides the study and its store.
pub struct RunnerStart {
    path: PathBuf,
    slots: Vec<Slot>,
    launcher: Box<dyn Launcher + Send>,
    provenance: CollectedProvenance,
}

impl RunnerStart {
    /// Starts the runner: takes the study's lease, and recovers what the last runner left.
    ///
    /// # Errors
    /// The store failed, or another process runs the study.
    pub fn runner<'a>(
        self,
        store: &'a mut dyn Storage,
        study: &StoredStudy,
    ) -> Result<Runner<'a>, RunnerError> {
        let RunnerStart { path, slots, launcher, provenance } = self;
        Runner::start(store, study, slots, launcher, &path)?.describe(provenance)
    }
}

/// Reads a study file, and finds the slots that it asks for. `store`: the store's absolute path.
///
/// # Errors
/// The file is invalid, or there is no such device.
pub fn read(
    options: &RunOptions<'_>,
    store: &Path,
    tell: &mut dyn FnMut(RunNotice<'_>),
) -> Result<ReadStudyFile, AppError> {
    let mut notice = |notice: CheckNotice<'_>| tell(RunNotice::File(notice));
    check_study::read(options.file, store, &mut Problems::First, &mut notice)
}

/// Opens the store, compares the file with the stored study, reads the data, stores the study, and
/// claims its files. `command`: the command line of the run, for its provenance.
///
/// # Errors
/// The study cannot be run: each error names what to do.
pub fn prepare(
    read: ReadStudyFile,
    options: &RunOptions<'_>,
    path: &Path,
    command: Vec<OsString>,
    tell: &mut dyn FnMut(RunNotice<'_>),
) -> Result<Prepared, AppError> {
    let mut store = open(&read.checked, path, tell)?;
    let mut notice = |notice: CheckNotice<'_>| tell(RunNotice::File(notice));
    let problems = &mut Problems::First;
    let checked = check_study::check(read, options.file, (&store, path), problems, &mut notice)?;
    if checked.refused.is_some() {
        return Ok(Prepared::Refused);
    }
    let CheckedStudy { spec, slots, known, inputs, data, .. } = checked;
    let known_inputs = KnownInputs::of(&inputs);
    if let Some(known) = known.as_ref().filter(|_| options.take_over) {
        let holder = runner::take_over(&mut store, known)?;
        tell(RunNotice::TakenOver(holder.as_ref()));
    }
    let (study, judged) = reconcile::settle(&mut store, known, &spec)?;
    if let Some(judged) = judged {
        tell(RunNotice::Judged(judged));
    }
    if options.resume && store.summary(study.id)?.paused.is_some() {
        store.request(study.id, runner::now(), &Request::ResumeStudy)?;
    }
    let directory = data.directory.as_deref();
    let provenance = look_around(&spec, inputs, command, directory, &store.salt()?);
    tell_changed_program(&store, &study, &provenance, tell)?;
    // If another process runs the study, that is reported, without disturbing its trials.
    let slots = if spec.cluster.is_none() && store.summary(study.id)?.held.is_none() {
        tell(RunNotice::File(CheckNotice::Progress(Progress::Began("trying the devices"))));
        let (slots, broken) = tried(slots, &spec.devices, &spec.program)?;
        broken.iter().for_each(|trouble| tell(RunNotice::BrokenDevice(trouble)));
        slots
    } else {
        slots
    };
    let study = claim_files(&mut store, study, options, path, tell)?;
    let protected = vec![path.to_owned(), std::path::absolute(options.file.file)?];
    let launcher: Box<dyn Launcher + Send> = match &spec.cluster {
        Some(cluster) => {
            if cluster.start == AgentStart::Manual {
                let file = std::path::absolute(cluster::file(&study, path))?;
                tell(RunNotice::StartAgents(&file));
            }
            Box::new(cluster::launcher(&study, (&spec, cluster), path, directory, protected))
        }
        None => {
            let (program, files) = (own_program(), study.files(path));
            let spec = Arc::new(spec.clone());
            let launcher = ProcessLauncher::new(program, spec, path.to_owned(), files, protected);
            Box::new(launcher.with_inputs(known_inputs))
        }
    };
    let start = RunnerStart { path: path.to_owned(), slots, launcher, provenance };
    Ok(Prepared::Ready(Box::new(ReadyStudy { study, store, start })))
}

/// Opens the store, or creates it for a study that may begin.
fn open(
    checked: &Checked,
    path: &Path,
    tell: &mut dyn FnMut(RunNotice<'_>),
) -> Result<AnyStore, AppError> {
    let is_new = !is_on_server(path) && !path.exists();
    if is_new {
        checked.begins()?;
    }
    let store = AnyStore::open(path)?;
    let other_name = other_name(path);
    tell(RunNotice::Store { path, is_new, other_name, migrated: store.migrated() });
    Ok(store)
}

/// Tells of the command's own files that changed since the last run.
fn tell_changed_program(
    store: &AnyStore,
    study: &StoredStudy,
    now: &CollectedProvenance,
    tell: &mut dyn FnMut(RunNotice<'_>),
) -> Result<(), AppError> {
    let runners = store.runners(study.id)?;
    let Some(before) = runners.iter().rev().find_map(|runner| runner.provenance.as_ref()) else {
        return Ok(());
    };
    let files = now.provenance.changed_programs(before);
    if !files.is_empty() {
        let complete = store.summary(study.id)?.counts.complete;
        tell(RunNotice::ChangedProgram { files: &files, complete });
    }
    Ok(())
}

/// Claims the directory of the trials' files.
fn claim_files(
    store: &mut AnyStore,
    study: StoredStudy,
    options: &RunOptions<'_>,
    path: &Path,
    tell: &mut dyn FnMut(RunNotice<'_>),
) -> Result<StoredStudy, AppError> {
    let before = study.directory.clone();
    let study = ownership::claim(store, study, path, options.unreachable)?;
    let usual = component(&study.spec.name);
    if study.directory != before && study.directory.as_ref() != Some(&usual) {
        let directory = study.files(path).directory();
        let taken = ownership::taken(&*store, &study, path)?;
        tell(RunNotice::OtherDirectory { directory: &directory, usual: &usual, taken: &taken });
    }
    let is_gone = |checkpoint: &Checkpoint| is_missing(&checkpoint.path);
    let checkpoints = store.checkpoints(study.id)?;
    let gone = || checkpoints.iter().filter(|(_, checkpoint)| is_gone(checkpoint));
    let of: BTreeSet<TrialNumber> = gone().map(|(trial, _)| *trial).collect();
    if !of.is_empty() {
        tell(RunNotice::MissingCheckpoints(gone().count() as u64, &of));
    }
    Ok(study)
}
