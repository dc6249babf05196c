//! hpsearch: hyperparameter search and experiment tracking. (The architecture page is written with the runner.)

pub mod arguments;
pub mod checkpoint;
pub mod config;
pub mod device;
pub mod engine;
pub mod event;
pub mod history;
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
pub mod trial;
pub mod verdict;
pub mod view;
pub mod wire;
pub mod worker;
