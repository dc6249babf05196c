//! hpsearch.
pub mod arguments;
#[cfg(feature = "train")]
pub mod trainer;
