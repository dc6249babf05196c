//! The program `hpsearch`; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    hpsearch::cli::main()
}
