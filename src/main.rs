//! The program `hpsearch`; everything is in the library.

use std::process::ExitCode;

/// Trials of the built-in trainer run in processes of this program.
#[cfg(feature = "train")]
#[global_allocator]
static ALLOCATOR: hpsearch::trainer::AlignedAllocator = hpsearch::trainer::AlignedAllocator;

fn main() -> ExitCode {
    hpsearch::cli::main()
}
