//! What a study's results say: functions of them that decide nothing.

pub mod forecast;
pub mod importance;
pub mod learning_curve;
pub mod linalg;
pub mod memory_model;
