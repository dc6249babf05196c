//! hpsearch.
pub mod arguments;
