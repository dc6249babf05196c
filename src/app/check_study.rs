//! A study file beside the store and its data: what `run` and `check` find before anything is
//! written.

use std::path::Path;

use super::missing_files::{MissingFile, missing_files};
use super::prepare_data::{DataPreparation, prepare_data};
use super::reconcile::{self, Consent};
use super::study_state::{elapsed, state};
use super::warm_start::{self, WarmStartSource};
use super::worker_job::Progress;
use super::{AppError, export};
use crate::analysis::forecast::Forecast;
use crate::config::{self, Change, ChangeClass, Checked, Moved, command_line};
use crate::export::ExportError;
use crate::report::ahead::{Running, before_the_first, look_ahead, parts};
use crate::report::wording::StudyStatus;
use crate::runner;
use crate::runner::inputs;
use crate::runner::slots::{MachineDevices, left_over, remarks, slots};
use crate::storage::{StorageError, StorageReader, StoredStudy};
use crate::study::budget::Extension;
use crate::study::device::Slot;
use crate::study::provenance::SourceFile;
use crate::study::spec::StudySpec;
use crate::study::usage::{Used, devices_of};

/// A study file, and what the user wants of it.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions<'a> {
    /// The study file.
    pub file: &'a Path,
    /// Overrides of its keys.
    pub set: &'a [String],
    /// The name of a new study made from it.
    pub fork: Option<&'a str>,
    /// Whether a changed search was agreed to.
    pub consent: Consent,
}

/// Something that the user should know about a study file.
#[derive(Debug)]
pub enum CheckNotice<'a> {
    /// The study file has oddities.
    Warnings(&'a config::Diagnostics),
    /// A device is used by others, small, or idle.
    Device(&'a str),
    /// The command's placeholders leave parameters out.
    UnnamedParameters(&'a str),
    /// The unit of steps is not that of the file.
    Steps(&'a str),
    /// The budget is larger than the file's.
    Extended(Extension),
    /// The project has another place than in the store.
    Relocated(&'a Moved),
    /// The study differs from the stored one; `refused`: the consent that is missing.
    Changed {
        /// All changes.
        changes: &'a [Change],
        /// The most important one without consent.
        refused: Option<ChangeClass>,
        /// The study as it is now.
        spec: &'a StudySpec,
    },
    /// The export of an earlier run was edited.
    EditedExport(&'a ExportError),
    /// Trials of an earlier study were taken.
    WarmStart(&'a WarmStartSource, &'a StudySpec),
    /// A file that the command names is missing.
    MissingFile(&'a MissingFile),
    /// A finding about the data; `is_known`: the study ran before.
    Data {
        /// One sentence.
        finding: &'a str,
        /// Whether the study is stored.
        is_known: bool,
    },
    /// A longer step of the check.
    Progress(Progress<'a>),
}

/// What becomes of problems.
#[derive(Debug)]
pub enum Problems {
    /// The first one ends the check: `run`.
    First,
    /// They are collected, and the check continues without what failed: `check`.
    All(Vec<AppError>),
}

impl Problems {
    /// The result; of a failure that is collected, nothing.
    fn collect<T: Default>(&mut self, result: Result<T, AppError>) -> Result<T, AppError> {
        match (self, result) {
            (Problems::All(problems), Err(error)) => {
                problems.push(error);
                Ok(T::default())
            }
            (_, result) => result,
        }
    }
}

/// A study file that was read.
pub struct ReadStudyFile {
    /// The study, with its overrides.
    pub spec: StudySpec,
    /// What was found while it was read.
    pub checked: Checked,
    /// The slots of this machine; none of a study whose trials run on agents.
    pub slots: Vec<Slot>,
}

/// A study file that was compared with the store.
pub struct CheckedStudy {
    /// The study, with what the stored one has beyond the file.
    pub spec: StudySpec,
    /// The warnings about the file.
    pub warnings: config::Diagnostics,
    /// The slots of this machine; none of a study whose trials run on agents.
    pub slots: Vec<Slot>,
    /// The stored study, if the file continues one.
    pub known: Option<StoredStudy>,
    /// The consent that is missing for the file's changes.
    pub refused: Option<ChangeClass>,
    /// The files that its trials read.
    pub inputs: Vec<SourceFile>,
    /// Its data.
    pub data: DataPreparation,
}

/// Reads a study file, and finds the slots that it asks for. `store`: the store's absolute path.
///
/// # Errors
/// The file is invalid, or there is no such device.
pub fn read(
    options: FileOptions<'_>,
    store: &Path,
    problems: &mut Problems,
    notice: &mut dyn FnMut(CheckNotice<'_>),
) -> Result<ReadStudyFile, AppError> {
    let checked = config::load_with_warnings(options.file, options.set)?;
    notice(CheckNotice::Warnings(&checked.warnings));
    let mut spec = checked.spec.clone();
    if let Some(name) = options.fork {
        name.clone_into(&mut spec.name);
    }
    let mut found = Vec::new();
    // Agents have the slots of their own machines.
    if spec.cluster.is_none() {
        let machine = MachineDevices::detect(&spec.devices.select);
        let wanted = slots(&spec.devices, &spec.program, &machine).map_err(AppError::from);
        found = problems.collect(wanted)?;
        remarks(&found).iter().for_each(|remark| notice(CheckNotice::Device(remark)));
        if let Some(idle) = left_over(&spec.devices, &spec.program, &machine) {
            notice(CheckNotice::Device(&idle));
        }
    }
    reconcile::place_files(&mut spec, options.file, store)?;
    Ok(ReadStudyFile { spec, checked, slots: found })
}

/// Compares a file with the stored study, checks the target of the export, takes the trials of
/// earlier studies, and reads the data. With [`Problems::First`], a file whose changes need consent
/// is not looked at further. `path`: the store's.
///
/// # Errors
/// The study cannot be run: each error names what to do.
pub fn check(
    read: ReadStudyFile,
    options: FileOptions<'_>,
    (store, path): (&dyn StorageReader, &Path),
    problems: &mut Problems,
    notice: &mut dyn FnMut(CheckNotice<'_>),
) -> Result<CheckedStudy, AppError> {
    let ReadStudyFile { mut spec, checked, slots } = read;
    let known = store.study(&spec.name)?;
    let begins = reconcile::check_new(known.as_ref(), &checked, &spec).map_err(AppError::from);
    problems.collect(begins)?;
    match &known {
        None => {
            if let Some(note) = command_line::unnamed_parameters(&spec) {
                notice(CheckNotice::UnnamedParameters(&note));
            }
        }
        Some(known) if known.spec.is_tracked() => {
            return Err(StorageError::Tracked { study: known.spec.name.clone() }.into());
        }
        Some(known) => {
            reconcile::continue_file(known, &checked, &mut spec);
            notice(CheckNotice::Extended(known.extension));
        }
    }
    if let Some(note) = reconcile::note_on_steps(known.as_ref(), &checked) {
        notice(CheckNotice::Steps(note));
    }
    let inputs = inputs::of_study(&spec);
    let mut refused = None;
    if let Some(known) = &known {
        let (moved, changes) = reconcile::changes_by_file(store, known, &spec, path, &inputs)?;
        if let Some(moved) = moved.as_ref().filter(|moved| !reconcile::is_same_directory(moved)) {
            notice(CheckNotice::Relocated(moved));
        }
        refused = reconcile::refusal(&changes, options.consent);
        notice(CheckNotice::Changed { changes: &changes, refused, spec: &spec });
    }
    let data = match (refused, &problems) {
        (Some(_), Problems::First) => DataPreparation::default(),
        _ => read_inputs(&mut spec, options.file, known.as_ref(), (store, path), problems, notice)?,
    };
    let warnings = checked.warnings;
    Ok(CheckedStudy { spec, warnings, slots, known, refused, inputs, data })
}

/// Checks the target of the export, takes the trials of earlier studies, and prepares the data.
fn read_inputs(
    spec: &mut StudySpec,
    file: &Path,
    known: Option<&StoredStudy>,
    (store, path): (&dyn StorageReader, &Path),
    problems: &mut Problems,
    notice: &mut dyn FnMut(CheckNotice<'_>),
) -> Result<DataPreparation, AppError> {
    let stored = known.map(|known| (store, known.id));
    if let Some(edited) = problems.collect(export::check_target(spec, file, stored, path))? {
        notice(CheckNotice::EditedExport(&edited));
    }
    let earlier = warm_start::take(spec, known.map(|known| &known.spec), store);
    for found in problems.collect(earlier)? {
        notice(CheckNotice::WarmStart(&found, spec));
    }
    for missing in missing_files(spec) {
        notice(CheckNotice::MissingFile(&missing));
    }
    let mut progress = |progress: Progress<'_>| notice(CheckNotice::Progress(progress));
    let prepared = prepare_data(spec, path, &mut progress).map_err(AppError::from);
    let prepared = problems.collect(prepared)?;
    for finding in &prepared.findings {
        notice(CheckNotice::Data { finding, is_known: known.is_some() });
    }
    Ok(prepared)
}

/// The forecast of a study that does not run yet.
pub enum StudyForecast {
    /// From this number of its trials in the store.
    OfTrials(Forecast, u64),
    /// From its file.
    OfFile(String),
    /// None: this number of trials ended, without a result.
    OnlyFailures(u64),
}

/// The forecast of a study: from its own trials, if the store has some, else from its file.
///
/// # Errors
/// The store failed.
pub fn forecast(
    CheckedStudy { spec, slots, known, .. }: &CheckedStudy,
    store: &dyn StorageReader,
) -> Result<StudyForecast, StorageError> {
    let Some(known) = known else {
        return Ok(StudyForecast::OfFile(before_the_first(spec)));
    };
    let summary = store.summary(known.id)?;
    // It may run on other slots than before.
    let used = match spec.cluster {
        Some(_) => store.used(known.id)?,
        None => Used { slots: slots.len(), devices: devices_of(slots), ..store.used(known.id)? },
    };
    let running = if state(&summary) == StudyStatus::Running { Running::Yes } else { Running::No };
    let forecast = look_ahead(
        spec,
        summary.search_counts(),
        elapsed(store, &summary)?,
        used,
        runner::now(),
        running,
    );
    if summary.counts.only_fail() {
        return Ok(StudyForecast::OnlyFailures(summary.counts.total()));
    }
    Ok(match parts(&forecast).is_empty() {
        true => StudyForecast::OfFile(before_the_first(spec)),
        false => StudyForecast::OfTrials(forecast, summary.counts.total()),
    })
}
