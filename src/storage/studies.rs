//! Studies as a store has them, and who holds them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::storage::paths::StudyFiles;
use crate::study::budget::Extension;
use crate::study::device::Device;
use crate::study::finalists::Race;
use crate::study::front::Front;
use crate::study::query::Filter;
use crate::study::spec::StudySpec;
use crate::study::state::Counts;
use crate::study::time::Timestamp;
use crate::study::trial::{Note, TrialNumber};

/// A study's key in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StudyId(pub i64);

/// A process that runs a study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// The system's start time of that process, which distinguishes it from a later process with
    /// the same id.
    pub pid_started: u64,
    /// Host name.
    pub host: String,
    /// Identifies the boot of the machine and the container (see `runner::lease`); set only if the
    /// process keeps the study's lock file locked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

/// The right to write to a study, until another process takes it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Which study.
    pub study: StudyId,
    /// Fencing token: writes with an older one are rejected.
    pub epoch: i64,
}

/// Whether a lease may be taken from a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// Only if it is free.
    IfFree,
    /// From this epoch's holder, which is dead; rejected if the epoch has changed meanwhile.
    From(i64),
}

/// The holder of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// Its fencing token.
    pub epoch: i64,
    /// The process that holds the study.
    pub holder: Holder,
    /// When the lease was acquired.
    pub acquired: Timestamp,
    /// The file that its holder keeps locked, if the store has one.
    pub lock_file: Option<PathBuf>,
    /// The time after which it ends unless it is renewed, in stores where leases end: as long as it
    /// is held, its holder lives, or did so that short a time ago.
    pub lease_time: Option<Duration>,
}

/// A study in a store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredStudy {
    /// Its key.
    pub id: StudyId,
    /// The resolved specification, with later changes; its budget includes the extension.
    pub spec: StudySpec,
    /// What `hpsearch extend` added to the study file's budget.
    pub extension: Extension,
    /// When it was created.
    pub created: Timestamp,
    /// The name of the directory with its trials' files, once it is claimed; see
    /// [`StoredStudy::files`].
    pub directory: Option<String>,
}

impl StoredStudy {
    /// The locations of its trials' files, for a store at `store`.
    pub fn files(&self, store: &Path) -> StudyFiles {
        StudyFiles::of(&self.spec, self.directory.as_deref(), store)
    }
}

/// A removed study whose files may not all be deleted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedStudy {
    /// The key that it had.
    pub id: StudyId,
    /// Its last name.
    pub name: String,
    /// The directories of its files.
    pub directories: Vec<PathBuf>,
}

/// A line of `hpsearch ls`.
#[derive(Clone, Debug, PartialEq)]
pub struct StudySummary {
    /// Its key.
    pub id: StudyId,
    /// The resolved specification.
    pub spec: StudySpec,
    /// Trials by state.
    pub counts: Counts,
    /// The best complete trial and its value, or the mean if its configuration ran several times.
    pub best: Option<(TrialNumber, f64)>,
    /// The best trials of a study of several objectives.
    pub front: Option<Front>,
    /// Number of hidden trials.
    pub hidden: u64,
    /// The last race of its best configurations.
    pub race: Option<Race>,
    /// Trials that are runs of races, which do not count towards the budget.
    pub race_counts: Counts,
    /// Why it is finished, if it is.
    pub finished: Option<String>,
    /// Whether it is finished because too many trials failed.
    pub too_many_failures: bool,
    /// Why nothing is started, if the user paused it.
    pub paused: Option<String>,
    /// Devices that the user paused.
    pub paused_devices: BTreeSet<Device>,
    /// Additions to the study file's budget; `spec` includes them.
    pub extension: Extension,
    /// The user's notes.
    pub notes: Vec<Note>,
    /// The user's tags, sorted; those of the study file are in `spec`.
    pub tags: Vec<String>,
    /// The process that runs it, which may be dead.
    pub held: Option<HeldLease>,
    /// Whether its last holder let the lease end without releasing it, as one that died. Only in a
    /// store whose leases end.
    pub has_lapsed: bool,
    /// When it was created.
    pub created: Timestamp,
    /// The name of the directory with its trials' files, once it is claimed.
    pub directory: Option<String>,
}

impl StudySummary {
    /// Its tags: those of the study file, then the user's others.
    pub fn all_tags(&self) -> Vec<String> {
        let own = self.tags.iter().filter(|tag| !self.spec.tags.contains(tag));
        self.spec.tags.iter().chain(own).cloned().collect()
    }

    /// The locations of its trials' files, for a store at `store`.
    pub fn files(&self, store: &Path) -> StudyFiles {
        StudyFiles::of(&self.spec, self.directory.as_deref(), store)
    }

    /// The study as [`StorageReader::study`](super::StorageReader::study) returns it.
    pub fn stored(self) -> StoredStudy {
        StoredStudy {
            id: self.id,
            spec: self.spec,
            extension: self.extension,
            created: self.created,
            directory: self.directory,
        }
    }

    /// The filter, which also excludes hidden trials if there are any.
    pub fn visible(&self, filter: Filter) -> Filter {
        if self.hidden > 0 { filter.visible() } else { filter }
    }

    /// The best trial, or the compromise on the front of several objectives.
    pub fn best_trial(&self) -> Option<TrialNumber> {
        let knee = self.front.as_ref().and_then(|front| front.knee);
        self.best.map(|(best, _)| best).or(knee)
    }

    /// Whether a trial is the best one, or on the front of several objectives.
    pub fn is_best(&self, trial: TrialNumber) -> bool {
        let is_on = self.front.as_ref().is_some_and(|front| front.contains(trial));
        is_on || self.best.is_some_and(|(best, _)| best == trial)
    }

    /// Trials of the search by state: those that count towards the budget.
    pub fn search_counts(&self) -> Counts {
        self.counts.without(self.race_counts)
    }
}
