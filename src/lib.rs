//! hpsearch: hyperparameter search and experiment tracking. (The architecture page is written with the runner.)

pub mod arguments;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod device;
pub mod engine;
pub mod event;
pub mod export;
pub mod history;
pub mod library;
pub mod metric;
pub mod params;
pub mod paths;
pub mod policy;
pub mod processes;
pub mod pruners;
pub mod reporters;
pub mod runner;
pub mod samplers;
pub mod seed;
pub mod space;
pub mod storage;
pub mod study;
pub mod time;
#[cfg(feature = "train")]
pub mod trainer;
pub mod trial;
pub mod tui;
pub mod verdict;
pub mod view;
pub mod wire;
pub mod worker;

pub use library::{Finished, Study, StudyError};
pub use runner::inline::{GoOn, TrialContext, TrialEnd, TrialError};
