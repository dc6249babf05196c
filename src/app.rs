//! What is done to studies, without a console: verbs, screens and the library call it.

pub mod warm_start;
