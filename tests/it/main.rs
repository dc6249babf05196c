//! Integration tests: one binary, because linking is what makes them slow.

mod config;
