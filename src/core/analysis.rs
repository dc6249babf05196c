//! Analyses of a study's results: pure functions that decide nothing.

pub mod forecast;
pub mod importance;
pub mod learning_curve;
pub mod linalg;
pub mod memory_model;
pub mod runs_space;
