//! All integration tests in one binary: linking is what makes them slow.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

mod ask_tell;
mod beginning;
mod budgets;
#[cfg(feature = "train")]
mod builtin;
mod changes;
mod chaos;
mod commands;
mod config;
mod constraints;
mod controls;
mod data_verbs;
mod devices;
mod doctor;
#[cfg(feature = "nvml")]
mod driver;
mod engine;
mod export_safety;
mod faults;
mod files;
mod footprints;
mod forecasts;
mod front_safety;
mod fuzz;
mod gc;
mod help;
mod honest;
mod importance;
mod insight;
mod layering;
mod library;
mod memory;
#[cfg(feature = "train")]
mod models;
#[cfg(feature = "train")]
mod packed_trials;
mod packing;
mod pictures;
mod readers;
mod replay;
mod requests;
mod retention;
mod runner_safety;
mod search_quality;
#[cfg(feature = "train")]
mod starved;
mod store_safety;
mod storms;
mod terminal;
#[cfg(feature = "train")]
mod trainer;
mod tui;
mod verbs;
