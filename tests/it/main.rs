//! All integration tests in one binary: linking is what makes them slow.

#![expect(clippy::disallowed_methods, reason = "tests are programs of their own")]
#![expect(clippy::unwrap_used, reason = "a test that cannot continue ends there")]

mod artifacts;
mod ask_tell;
mod budgets;
#[cfg(feature = "train")]
mod builtin;
mod candidates;
mod changes;
mod chaos;
mod checkpoint_copies;
mod cluster;
mod cluster_files;
mod command_lines;
mod commands;
mod concurrency;
#[cfg(feature = "train")]
mod concurrent_trials;
mod config;
mod constraints;
mod controls;
mod copy;
mod data_files;
mod data_verbs;
mod devices;
mod doctor;
mod documentation;
#[cfg(feature = "nvml")]
mod driver;
mod early_stopping;
mod engine;
mod environment;
#[cfg(feature = "train")]
mod evaluation_steps;
mod export_safety;
mod fault_injection;
mod faults;
mod files;
mod first_day;
mod forecasts;
mod front_safety;
mod fuzz;
mod gc;
mod goals;
mod grouped_runs;
mod groups;
mod harness;
mod help;
mod hints;
mod hostile;
mod import;
mod importance;
mod init;
mod inspect;
mod interrupted_checkpoint;
mod layering;
mod library;
mod memory;
mod memory_model;
mod metric_files;
#[cfg(feature = "mlflow")]
mod mlflow;
#[cfg(feature = "train")]
mod model_costs;
#[cfg(feature = "train")]
mod models;
mod nodes;
mod notify;
#[cfg(feature = "train")]
mod one_training;
#[cfg(feature = "train")]
mod out_of_memory;
mod own_checkpoints;
#[cfg(feature = "parquet")]
mod parquet;
mod pauses;
mod pictures;
mod populations;
mod printed_metrics;
mod programs;
mod python;
mod readers;
mod replay;
mod report;
mod reports;
mod reproducibility;
mod requests;
mod retention;
mod rm_files;
mod rm_mv;
mod rm_runs;
mod runner_safety;
mod search_quality;
mod series;
mod serve;
mod several_objectives;
mod several_studies;
mod shipped_studies;
mod store_safety;
mod stored_ask_tell;
mod sweeps;
mod sync;
mod terminal;
#[cfg(feature = "train")]
mod token_tasks;
mod track;
mod tracked_params;
#[cfg(feature = "train")]
mod trainer;
mod trial_columns;
mod tui;
mod verbs;
mod verbs_first_day;
