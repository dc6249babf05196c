//! Memory-mapped files: processes share their pages.

use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::Mmap;

/// Maps a file that nothing writes to any more: such files are published by a rename when they are
/// complete.
pub(super) fn map(path: &Path) -> io::Result<Mmap> {
    let file = File::open(path)?;
    #[expect(unsafe_code, reason = "every map of a file is unsafe in Rust")]
    // SAFETY: the map is only read. If someone truncates the file from outside, reading it raises
    // SIGBUS in this worker process, which the runner survives.
    unsafe {
        Mmap::map(&file)
    }
}
