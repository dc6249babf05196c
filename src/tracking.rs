//! Runs without a search: their study has no sampler and no budget, and every process that tracks a
//! run writes to the store, fenced by the run's newest attempt.

pub mod arguments;
mod credentials;
mod error;
pub mod import;
mod life;
mod measuring;
#[cfg(feature = "mlflow")]
mod mlflow;
pub mod process;
pub mod requests;
mod run;
mod spool;
mod study;
mod sync;
mod writer;

pub use credentials::Credentials;
pub use error::TrackingError;
pub use life::{Tracked, last_sign, life_of, settle_dead};
pub use run::{NewRun, ResumedRun, Rival, Run, RunEnd, check_new};
pub use spool::SpoolError;
pub use study::{
    AssumedDirection, DEFAULT_METRIC, DEFAULT_STUDY, Goal, find_run, open_described, open_study,
    run_of_job, study_named_for,
};
pub use sync::{
    Behind, Follower, Listener, Mirror, SyncError, SyncResult, behind, forget, write_lag,
};
pub use writer::{
    Notice, Program, SpoolWriter, adopt_spools, names_a_run, orphaned_spools, write_spool,
};
