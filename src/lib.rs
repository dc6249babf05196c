//! hpsearch: hyperparameter search and experiment tracking. (The architecture page is written with the runner.)

pub mod checkpoint;
pub mod device;
pub mod event;
pub mod history;
pub mod metric;
pub mod params;
pub mod paths;
pub mod policy;
pub mod pruners;
pub mod reporters;
pub mod samplers;
pub mod seed;
pub mod space;
pub mod storage;
pub mod study;
pub mod time;
pub mod trial;
pub mod tui;
pub mod verdict;
pub mod view;
pub mod wire;
