//! hpsearch.
