//! Use cases on studies, independent of a console: called by verbs, screens and the library.

#![expect(
    clippy::disallowed_methods,
    reason = "callers wait for an answer, and a command's program is looked up on PATH"
)]

pub mod absent_terms;
pub mod artifacts;
pub mod best;
pub mod best_runs;
pub mod check_study;
pub mod checkpoint_step;
pub mod cluster;
pub mod collect_garbage;
pub mod compared;
pub mod control;
pub mod conversion_error;
pub mod copy_study;
pub mod curves;
pub mod devices;
pub mod enqueue;
mod error;
pub mod evaluate;
pub mod exact_points;
pub mod export;
pub mod figures;
pub mod find;
pub mod groups;
pub mod held_study;
pub mod images;
pub mod import;
pub mod import_optuna;
pub mod inputs;
pub mod last_values;
pub mod left_files;
pub mod log_tail;
pub mod missing_files;
mod named_after;
pub mod page;
pub mod populations;
pub mod prepare_data;
pub mod reconcile;
pub mod remove_runs;
pub mod remove_study;
pub mod rename_study;
pub mod request;
pub mod run_study;
pub mod several;
pub mod spools;
pub mod study_clients;
pub mod study_report;
pub mod study_state;
pub mod sweep;
pub mod sync;
pub mod track;
pub mod train_once;
pub mod verify;
pub mod warm_start;
pub mod worker_job;

pub use error::{AppError, Remedy};
