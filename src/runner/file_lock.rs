//! A locked file that is free as soon as its holder lets go of it.

use std::fs::File;
use std::ops::Deref;

/// A locked file, which is unlocked on drop.
///
/// Closing it is not enough: a process that another thread forked at that moment has the file open
/// as well, and with it the lock, until it executes its program.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Takes over a lock on `file`; one that could not be locked is only closed.
    pub fn held_on(file: File) -> Self {
        FileLock(file)
    }
}

impl Deref for FileLock {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let _freed_when_all_have_closed_it = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_descriptor_of_the_file_does_not_keep_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let file = File::create(&path).unwrap();
        file.try_lock().unwrap();
        // A forked process has such a descriptor.
        let inherited = file.try_clone().unwrap();
        let lock = FileLock::held_on(file);
        let other = File::open(&path).unwrap();
        assert!(other.try_lock().is_err());
        drop(lock);
        other.try_lock().unwrap();
        drop(inherited);
    }
}
