//! The decision logic of hpsearch as functions of plain data: no clock, no global randomness, no
//! threads and, apart from reading the head of a data file, no I/O. The package `hpsearch`
//! re-exports it; its crate documentation describes the architecture.

pub mod analysis;
pub mod arguments;
pub mod pruners;
pub mod samplers;
pub mod simd;
pub mod study;
