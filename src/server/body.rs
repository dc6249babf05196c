//! Bodies that are files, which are read in parts: a large one takes no more memory than a small
//! one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Bytes of a part.
const PART: u64 = 256 * 1024;

/// What is left to be sent of a file.
#[derive(Clone, Debug)]
pub struct FileBody {
    file: Arc<File>,
    sent: u64,
    length: u64,
}

impl PartialEq for FileBody {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
            && (self.sent, self.length) == (other.sent, other.length)
    }
}

impl FileBody {
    /// The first `length` bytes of a file.
    pub fn new(file: File, length: u64) -> Self {
        FileBody { file: Arc::new(file), sent: 0, length }
    }

    /// How long it is in all.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The next part, which counts as sent.
    pub fn next_part(&mut self) -> Option<FilePart> {
        let (from, length) = (self.sent, PART.min(self.length - self.sent));
        self.sent += length;
        (length > 0).then(|| FilePart { file: Arc::clone(&self.file), from, length })
    }
}

/// A part of a file.
#[derive(Debug)]
pub struct FilePart {
    file: Arc<File>,
    from: u64,
    length: u64,
}

impl FilePart {
    /// Reads it.
    ///
    /// # Errors
    /// The system's, and `UnexpectedEof` if the file has become shorter.
    pub fn read(&self) -> io::Result<Arc<[u8]>> {
        let length = usize::try_from(self.length).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, self.from)?;
        Ok(bytes.into())
    }
}
