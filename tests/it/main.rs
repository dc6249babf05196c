//! All integration tests in one binary: linking is what makes them slow.

mod config;
mod engine;
mod layering;
mod library;
mod tui;
mod verbs;
#[cfg(feature = "train")]
mod trainer;
