//! Metrics in a directory of TensorBoard's event files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::event_format::{Broken, Event, EventReader};
use super::growing_file::{FileChunk, GrowingFile};
use super::{MetricFileItem, Rest};
use crate::study::metric::Metrics;
use crate::study::trial::LARGEST_STEP;

/// Prefix of event files' names.
const NAME: &str = "events.out.tfevents.";

/// Maximum depth of directories.
const DEPTH: usize = 4;

/// Most files of one attempt.
const MOST_FILES: usize = 256;

/// A directory, and the event files below it.
#[derive(Debug)]
pub(super) struct EventFiles {
    /// As in the study file.
    name: String,
    directories: Vec<PathBuf>,
    files: BTreeMap<PathBuf, EventFile>,
    has_reports: bool,
}

#[derive(Debug)]
struct EventFile {
    /// Prefix of its tags: the subdirectory, such as `train/`.
    prefix: String,
    file: GrowingFile,
    reader: EventReader,
    /// Whether it is no longer read.
    is_left: bool,
}

impl EventFiles {
    /// The directory at one of `directories`; of existing files only what is appended is read.
    pub fn new(name: String, directories: Vec<PathBuf>) -> Self {
        let mut events =
            EventFiles { name, directories, files: BTreeMap::new(), has_reports: false };
        // Problems with the directory are reported when it is read again.
        let _said_later = events.discover(|path| GrowingFile::from_end(vec![path]));
        events
    }

    /// Reads more: reports in the order in which they were written, across files.
    pub fn poll(&mut self, found: &mut Vec<MetricFileItem>) -> Rest {
        found.extend(self.discover(GrowingFile::from_start).err().map(MetricFileItem::Remark));
        let mut rest = Rest::Nothing;
        let mut events: Vec<(String, Event)> = Vec::new();
        for (path, file) in self.files.iter_mut().filter(|(_, file)| !file.is_left) {
            let mut own = Vec::new();
            match file.read(&mut own) {
                Ok(Rest::More) => rest = Rest::More,
                Ok(Rest::Nothing) => {}
                Err(why) => {
                    let why = format!("`{}` is not read any further: {why}", path.display());
                    found.push(MetricFileItem::Remark(why));
                }
            }
            events.extend(own.into_iter().map(|event| (file.prefix.clone(), event)));
        }
        events.sort_by(|(_, a), (_, b)| a.wall_time.total_cmp(&b.wall_time));
        let before = found.len();
        reports(events, found);
        self.has_reports |= found.len() > before;
        rest
    }

    /// The remark if nothing was found.
    pub fn emptiness(&self) -> Option<String> {
        let name = &self.name;
        match (self.has_reports, self.files.is_empty()) {
            (true, _) => None,
            (false, false) => {
                Some(format!("the event files in `{name}` have no scalars of this trial"))
            }
            (false, true) => {
                let directories: Vec<_> =
                    self.directories.iter().map(|path| path.display().to_string()).collect();
                Some(format!(
                    "there is no event file in `{name}`: looked for `{NAME}*` in {}",
                    directories.join(" and ")
                ))
            }
        }
    }

    /// Finds new files.
    fn discover(&mut self, begin: impl Fn(PathBuf) -> GrowingFile) -> Result<(), String> {
        for place in &self.directories {
            let mut paths = Vec::new();
            match fs::metadata(place) {
                Ok(metadata) if metadata.is_dir() => event_files(place, DEPTH, &mut paths),
                Ok(_) => {
                    let place = place.display();
                    return Err(format!(
                        "`{place}` is not a directory, where event files are expected"
                    ));
                }
                Err(_) => continue,
            }
            paths.sort();
            for path in paths {
                if self.files.contains_key(&path) {
                    continue;
                }
                if self.files.len() >= MOST_FILES {
                    return Err(format!(
                        "`{}` has more than {MOST_FILES} event files: the others are not read",
                        place.display()
                    ));
                }
                let below = path.parent().and_then(|directory| directory.strip_prefix(place).ok());
                let prefix = match below.map(|below| below.to_string_lossy().into_owned()) {
                    Some(below) if !below.is_empty() => format!("{below}/"),
                    _ => String::new(),
                };
                let (file, reader) = (begin(path.clone()), EventReader::default());
                self.files.insert(path, EventFile { prefix, file, reader, is_left: false });
            }
        }
        Ok(())
    }
}

impl EventFile {
    /// # Errors
    /// Why it is no longer read.
    fn read(&mut self, events: &mut Vec<Event>) -> Result<Rest, String> {
        let FileChunk { is_beginning, bytes } = match self.file.read() {
            Ok(piece) => piece,
            Err(why) => {
                self.is_left = true;
                return Err(why);
            }
        };
        if is_beginning {
            self.reader = EventReader::default();
        }
        if bytes.is_empty() {
            return Ok(Rest::Nothing);
        }
        self.reader.read(&bytes, events).map(|()| Rest::More).map_err(|broken| {
            self.is_left = true;
            match broken {
                Broken::Checksum => "the checksum of a record is wrong".to_owned(),
                Broken::Event => "a record is not an event of TensorBoard".to_owned(),
            }
        })
    }
}

/// Collects the event files below a directory; does not follow links.
fn event_files(directory: &Path, depth: usize, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_file() && entry.file_name().to_string_lossy().starts_with(NAME) {
            paths.push(entry.path());
        } else if kind.is_dir() && depth > 0 && paths.len() <= MOST_FILES {
            event_files(&entry.path(), depth - 1, paths);
        }
    }
}

/// Converts events to reports: consecutive ones of one step are merged, unless a metric repeats.
fn reports(events: Vec<(String, Event)>, found: &mut Vec<MetricFileItem>) {
    let mut pending: Option<(u64, Metrics)> = None;
    let mut flush = |pending: Option<(u64, Metrics)>| {
        found.extend(pending.map(|(step, metrics)| MetricFileItem::Report { step, metrics }));
    };
    for (prefix, event) in events {
        let Some(step) = u64::try_from(event.step).ok().filter(|step| *step <= LARGEST_STEP) else {
            continue;
        };
        for (tag, number) in event.scalars {
            let name = format!("{prefix}{tag}");
            match &mut pending {
                Some((at, metrics)) if *at == step && metrics.get(&name).is_none() => {
                    metrics.0.insert(name, number);
                }
                _ => flush(pending.replace((step, [(name, number)].into_iter().collect()))),
            }
        }
    }
    flush(pending);
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::super::event_format::tests::simple;
    use super::*;

    fn append(path: &Path, bytes: &[u8]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(bytes).unwrap();
    }

    fn read(files: &mut EventFiles) -> Vec<String> {
        let mut found = Vec::new();
        while files.poll(&mut found) == Rest::More {}
        let words = |found| match found {
            MetricFileItem::Report { step, metrics } => {
                let metrics = metrics.iter().map(|(name, value)| format!(" {name}={value}"));
                format!("{step}{}", metrics.collect::<String>())
            }
            MetricFileItem::Remark(why) => why,
        };
        found.into_iter().map(words).collect()
    }

    #[test]
    fn files_in_subdirectories_are_followed_and_what_was_there_is_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let runs = directory.path().join("runs");
        let file = |name: &str| runs.join(name);
        append(&file("events.out.tfevents.1"), &simple(1.0, 1, "loss", 9.0));
        let mut files = EventFiles::new("runs".to_owned(), vec![runs.clone()]);
        assert_eq!(read(&mut files), [""; 0]);
        append(&file("events.out.tfevents.1"), &simple(2.0, 2, "loss", 0.5));
        append(&file("train/events.out.tfevents.2"), &simple(2.5, 2, "acc", 0.25));
        append(&file("notes.txt"), b"other");
        assert_eq!(read(&mut files), ["2 loss=0.5 train/acc=0.25"]);
        let next = [simple(4.0, 4, "acc", 1.0), simple(3.0, 3, "acc", 0.75)].concat();
        append(&file("train/events.out.tfevents.2"), &next[..next.len() - 3]);
        append(&file("events.out.tfevents.1"), &simple(5.0, 4, "acc", 2.0));
        assert_eq!(read(&mut files), ["4 acc=2 train/acc=1"]);
        append(&file("train/events.out.tfevents.2"), &next[next.len() - 3..]);
        assert_eq!(read(&mut files), ["3 train/acc=0.75"]);
        assert_eq!(files.emptiness(), None);
    }

    #[test]
    fn a_broken_file_is_left_with_a_remark_and_the_others_are_read_on() {
        let directory = tempfile::tempdir().unwrap();
        let (bad, good) = ("events.out.tfevents.1", "events.out.tfevents.2");
        let mut files = EventFiles::new("runs".to_owned(), vec![directory.path().to_owned()]);
        assert!(files.emptiness().unwrap().contains("no event file in `runs`"));
        append(&directory.path().join(bad), &[7; 40]);
        append(&directory.path().join(good), &simple(1.0, 1, "loss", 1.0));
        let said = read(&mut files);
        assert!(said[0].ends_with("is not read any further: the checksum of a record is wrong"));
        assert_eq!(said[1..], ["1 loss=1"]);
        append(&directory.path().join(bad), &simple(1.0, 1, "loss", 1.0));
        assert_eq!(read(&mut files), [""; 0]);
        let file = directory.path().join(good);
        let mut wrong = EventFiles::new("x".to_owned(), vec![file]);
        assert!(read(&mut wrong)[0].contains("is not a directory"));
    }
}
