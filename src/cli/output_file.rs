//! The file of `-o`: never an input of the verb, and written atomically.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::exit::{Exit, Failure};
use crate::report::wording::one_line;
use crate::runner::disk::entries;
use crate::runner::drafts::{draft_of, is_of_dead_process};
use crate::storage::disk::is_of_space;
use crate::storage::sqlite::{is_open_here, open_file};

/// Rejects an output that is an input, by whatever path or link.
pub fn refuse_inputs(
    output: &Path,
    inputs: impl IntoIterator<Item = PathBuf>,
) -> Result<(), Failure> {
    let file = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    let Ok(output_file) = fs::metadata(output) else { return Ok(()) };
    let same = inputs
        .into_iter()
        .find(|input| fs::metadata(input).is_ok_and(|input| file(&input) == file(&output_file)));
    let Some(input) = same else { return Ok(()) };
    let which = if input == output { String::new() } else { format!(" (`{}`)", input.display()) };
    Err(Failure::usage(format!(
        "`{}` is read here{which}, and would be overwritten",
        output.display()
    ))
    .help("give another file to `-o`"))
}

/// Rejects an existing output file. Other kinds of files are written to, and files with standard
/// stream names were opened by the shell.
pub fn refuse_existing(output: &Path) -> Result<(), Failure> {
    let opened = ["-", "/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"];
    if opened.iter().any(|name| output.starts_with(name)) || !output.is_file() {
        return Ok(());
    }
    let message = format!("`{}` already exists, and is not overwritten", output.display());
    Err(Failure::usage(message).help("give another file to `-o`, or pass `--overwrite`"))
}

/// Rejects an existing file that has none of the `markers` of `what` hpsearch writes (`a report`),
/// each with its offset. Empty files and other kinds of files are written to.
pub fn refuse_others(output: &Path, markers: &[(usize, &[u8])], what: &str) -> Result<(), Failure> {
    if !output.is_file() {
        return Ok(());
    }
    let mut begin = Vec::new();
    let longest = markers.iter().map(|(offset, marker)| offset + marker.len()).max().unwrap_or(0);
    let read = open_file(output).and_then(|file| file.take(longest as u64).read_to_end(&mut begin));
    let is_marked = |(offset, marker): &(usize, &[u8])| {
        begin.get(*offset..).is_some_and(|rest| rest.starts_with(marker))
    };
    if matches!(read, Ok(0)) || markers.iter().any(is_marked) {
        return Ok(());
    }
    let output = one_line(&output.display().to_string());
    Err(Failure::usage(format!("`{output}` exists, and is not {what} of hpsearch"))
        .help("give another file to `-o`, or pass `--overwrite`"))
}

/// Writes a file atomically: a temporary sibling is renamed when complete, and a failure keeps the
/// old content. Other kinds of files, such as `/dev/stdout` or a FIFO, are written to directly, and
/// `-` is standard output.
pub fn whole_file<T>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if path == Path::new("-") {
        return written_to(io::stdout(), "standard output", write).map(|(written, _)| written);
    }
    let name = path.display().to_string();
    let refused = |what: &str| {
        Failure::usage(format!("`{}` {what}", path.display()))
            .help("name the file itself: `-o trials.csv`")
    };
    let name = format!("`{name}`");
    let unwritten = |error: io::Error| unwritten(&name, error);
    if is_open_here(path) {
        return Err(refused("belongs to the store, which is not overwritten"));
    }
    let existing = fs::metadata(path).ok();
    if existing.as_ref().is_some_and(Metadata::is_dir) {
        return Err(refused("is a directory"));
    }
    if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
        let out = OpenOptions::new().write(true).open(path).map_err(unwritten)?;
        return written_to(out, &name, write).map(|(written, _)| written);
    }
    if existing.as_ref().is_some_and(|existing| existing.permissions().readonly()) {
        return Err(unwritten(io::ErrorKind::PermissionDenied.into()));
    }
    if existing.is_none() && path.is_symlink() {
        return Err(refused("is a dangling link"));
    }
    // Replaces the target of a link, not the link.
    let place = if existing.is_some() {
        fs::canonicalize(path).map_err(unwritten)?
    } else {
        path.to_owned()
    };
    let file_name = place.file_name().ok_or_else(|| refused("is not a file name"))?;
    remove_left_drafts(&place, file_name);
    let mut number = 0;
    let (beside, file) = loop {
        // Avoids a leftover of a killed process: in containers process ids repeat.
        let mut beside = OsString::from(".");
        beside.push(file_name);
        beside.push(format!(".{}-{number}.tmp", std::process::id()));
        let beside = place.with_file_name(beside);
        match File::create_new(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => break (beside, made.map_err(unwritten)?),
        }
    };
    let done = || {
        let (written, file) = written_to(file, &name, write)?;
        if let Some(existing) = &existing {
            file.set_permissions(existing.permissions()).map_err(unwritten)?;
        }
        file.sync_all().map_err(unwritten)?;
        fs::rename(&beside, &place).map_err(unwritten)?;
        Ok(written)
    };
    done().inspect_err(|_: &Failure| drop(fs::remove_file(&beside)))
}

/// Removes what processes that died have left of this file.
fn remove_left_drafts(place: &Path, file_name: &OsStr) {
    let Some(name) = file_name.to_str() else { return };
    let directory = place.parent().filter(|parent| !parent.as_os_str().is_empty());
    for path in entries(directory.unwrap_or(Path::new("."))) {
        if draft_of(&path) == Some(name) && is_of_dead_process(&path) {
            // One that stays does no harm.
            let _ = fs::remove_file(path);
        }
    }
}

/// What `write` returns, and `out` after everything has been written to it.
fn written_to<T, W: Write>(
    out: W,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<(T, W), Failure> {
    let mut out = Noted { out: BufWriter::new(out), refused: None };
    let written = write(&mut out).and_then(|written| Ok((written, out.flush()?)));
    match (written, out.refused) {
        // The writer's own error does not name the file.
        (Err(_), Some(error)) => Err(unwritten(name, error)),
        (Err(failure), None) => Err(failure),
        (Ok((written, ())), _) => match out.out.into_inner() {
            Ok(out) => Ok((written, out)),
            Err(error) => Err(unwritten(name, error.into_error())),
        },
    }
}

/// Notes the error of a write.
struct Noted<W: Write> {
    out: BufWriter<W>,
    refused: Option<io::Error>,
}

impl<W: Write> Noted<W> {
    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.inspect_err(|error| {
            let copy = error.raw_os_error().map(io::Error::from_raw_os_error);
            self.refused = Some(copy.unwrap_or_else(|| error.kind().into()));
        })
    }
}

impl<W: Write> Write for Noted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.noted(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.noted(done)
    }
}

/// The failure to write an output.
fn unwritten(name: &str, error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return error.into();
    }
    let message = format!("{name} cannot be written: {error}");
    if is_of_space(&error) {
        return Failure::new(Exit::Store, message).help(
            "what was there before is unchanged: free some space (`hpsearch gc --yes` removes \
             files that no study needs), or name a file on another disk with `-o FILE`, then run \
             the same command again",
        );
    }
    Failure::usage(message).help("name a file in an existing, writable directory, with `-o FILE`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn written(path: &Path) -> Result<(), String> {
        whole_file(path, |out| Ok(out.write_all(b"new")?)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_file_that_is_read_is_known_by_every_name_it_has() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("a.csv"), "text").unwrap();
        fs::hard_link(path("a.csv"), path("hard.csv")).unwrap();
        symlink("a.csv", path("soft.csv")).unwrap();
        fs::write(path("b.csv"), "text").unwrap();
        for output in ["a.csv", "hard.csv", "soft.csv", "./a.csv"] {
            let refused = refuse_inputs(&path(output), [path("b.csv"), path("a.csv")]).unwrap_err();
            assert!(refused.to_string().contains("would be overwritten\nhelp: "), "{refused}");
        }
        assert!(refuse_inputs(&path("b.csv"), [path("a.csv"), path("missing")]).is_ok());
        assert!(refuse_inputs(&path("new.csv"), [path("a.csv")]).is_ok());
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_links_and_permissions_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("a"), "old").unwrap();
        fs::set_permissions(path("a"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("a", path("link")).unwrap();
        written(&path("link")).unwrap();
        assert!(path("link").is_symlink());
        assert_eq!(fs::read_to_string(path("a")).unwrap(), "new");
        assert_eq!(fs::metadata(path("a")).unwrap().mode() & 0o777, 0o640);
        let of_same_process_id = path(&format!(".a.{}-0.tmp", std::process::id()));
        fs::write(&of_same_process_id, "").unwrap();
        written(&path("a")).unwrap();
        fs::remove_file(of_same_process_id).unwrap();
        let failed = whole_file(&path("a"), |out| -> Result<(), Failure> {
            out.write_all(b"half")?;
            Err(Failure::usage("broken"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(path("a")).unwrap(), "new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn drafts_of_dead_processes_are_removed_with_the_next_file_of_their_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let kept = [
            format!(".a.csv.{}-7.tmp", std::process::id()),
            format!(".a.csv.b.{dead}-0.tmp"),
            format!(".b.csv.{dead}-0.tmp"),
            ".a.csv.tmp".to_owned(),
        ];
        let left = [format!(".a.csv.{dead}-0.tmp"), format!(".a.csv.{dead}-1.tmp")];
        for name in kept.iter().chain(&left) {
            fs::write(path(name), "half").unwrap();
        }
        written(&path("a.csv")).unwrap();
        assert!(kept.iter().all(|name| path(name).exists()));
        assert!(left.iter().all(|name| !path(name).exists()));
    }

    #[test]
    fn a_full_disk_is_told_with_the_file_however_much_was_written() {
        for length in [1, 100_000] {
            let full = Path::new("/dev/full");
            let failed = whole_file(full, |out| Ok(out.write_all(&vec![b'x'; length])?));
            let failure = failed.unwrap_err();
            assert_eq!(failure.exit(), Exit::Store);
            let said = failure.to_string();
            for words in ["`/dev/full` cannot be written: No space left", "free some space"] {
                assert!(said.contains(words), "{said}");
            }
        }
    }

    #[test]
    fn what_is_no_file_is_not_replaced_by_one() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        let (directory_of_paths, kind) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(directory_of_paths, &fifo, kind, 0o600.into(), 0).unwrap();
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read_to_string(fifo).unwrap()
        });
        written(&fifo).unwrap();
        assert_eq!(reader.join().unwrap(), "new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        symlink("nowhere", directory.path().join("dangling")).unwrap();
        for (name, said) in [("", "is a directory"), ("dangling", "is a dangling link")] {
            assert!(written(&directory.path().join(name)).unwrap_err().contains(said));
        }
    }

    #[test]
    fn a_file_that_may_not_be_written_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(written(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }
}
