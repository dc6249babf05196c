//! What hpsearch decides with, as functions of plain data: no clock, no draws of its own, no thread
//! and, apart from reading a data file's head, no disk. The package `hpsearch` re-exports it; its
//! page is the plan of the house.

pub mod analysis;
pub mod arguments;
pub mod pruners;
pub mod samplers;
pub mod study;
