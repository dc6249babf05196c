//! A run of Weights & Biases: its log of records (see `tracking/sync/wandb.rs` for the format).
//!
//! `Record` 2 history, 3 summary, 5 config, 7 system metrics, 17 run, 18 exit; items have the key
//! in 1, or its parts in 2, and the value as JSON in 16 (wandb/proto/wandb_internal.proto).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;

use super::recorded_run::moment;
use super::{Format, ImportError, RecordedEnd, RecordedPoint, RecordedRun};
use crate::runner::metric_files::{Content, Fields, crc};
use crate::study::counted;
use crate::study::params::Value;
use crate::study::series::SeriesAxis;
use crate::study::time::Timestamp;
use crate::tracking::sync::wandb::{BEGIN, BLOCK, HEADER, IEEE, JOB_TYPE};

/// So much of a file is looked at for when its run began.
const BEGINNING: u64 = 1 << 20;

/// The run of a file.
pub(super) fn read(path: &Path) -> Result<RecordedRun, ImportError> {
    let bytes = fs::read(path).map_err(ImportError::io(path))?;
    if !bytes.starts_with(&BEGIN) {
        return Err(ImportError::malformed(path, "it does not have the header of a W&B file"));
    }
    let mut run = Reading::default();
    let mut log = Log { bytes: &bytes, at: BEGIN.len() };
    let mut record = Vec::new();
    let broken = loop {
        match log.next(&mut record) {
            Ok(true) => {}
            Ok(false) => break None,
            Err(what) => break Some(what),
        }
        if run.record(&record).is_none() {
            break Some("a record is malformed");
        }
    };
    let mut run = run.finish();
    if let Some(what) = broken {
        let path = path.display();
        run.remarks.push(format!("`{path}` is read up to byte {}: {what}", log.at));
    }
    if run.source.is_empty() {
        return Err(ImportError::malformed(path, "it does not name its run"));
    }
    Ok(run)
}

/// The start of a file's run, from its first records.
pub(super) fn began(path: &Path) -> Option<Timestamp> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(BEGINNING).read_to_end(&mut bytes).ok()?;
    let (mut run, mut record) = (Reading::default(), Vec::new());
    let mut log = Log { bytes: &bytes, at: BEGIN.len() };
    while run.run.began.is_none() && log.next(&mut record).ok()? {
        run.record(&record)?;
    }
    run.run.began
}

/// A LevelDB log after the file's own header, which is part of the first block.
struct Log<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Log<'_> {
    /// Reads a record whole; `false` at the end.
    fn next(&mut self, record: &mut Vec<u8>) -> Result<bool, &'static str> {
        const BLOCK_LENGTH: usize = BLOCK as usize;
        const HEADER_LENGTH: usize = HEADER as usize;
        const CUT: &str = "it ends within a record";
        record.clear();
        let mut at = self.at;
        let mut is_first = true;
        loop {
            let left = BLOCK_LENGTH - at % BLOCK_LENGTH;
            if left < HEADER_LENGTH {
                at += left;
            }
            let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) else {
                return if is_first { Ok(false) } else { Err(CUT) };
            };
            let Some((header, rest)) = rest.split_first_chunk::<7>() else { return Err(CUT) };
            let [a, b, c, d, low, high, kind] = *header;
            let length = usize::from(u16::from_le_bytes([low, high]));
            if *header == [0; 7] {
                // The writer left the rest of the block empty.
                at += BLOCK_LENGTH - at % BLOCK_LENGTH;
                continue;
            }
            if rest.len() < length {
                return Err(CUT);
            }
            let start = at + HEADER_LENGTH - 1;
            let checked = &self.bytes[start..=start + length];
            if crc(&IEEE, checked) != u32::from_le_bytes([a, b, c, d]) {
                return Err("a checksum does not match");
            }
            record.extend(&rest[..length]);
            at += HEADER_LENGTH + length;
            match (kind, is_first) {
                (1, true) | (4, false) => {
                    self.at = at;
                    return Ok(true);
                }
                (2, true) | (3, false) => is_first = false,
                _ => return Err("its pieces are out of order"),
            }
        }
    }
}

/// An item of a record: a key and a value as JSON.
struct Item<'a> {
    key: String,
    json: &'a [u8],
}

impl Item<'_> {
    /// The value as a number, with NaN and infinities as Python writes them.
    fn number(&self) -> Option<f64> {
        let text = std::str::from_utf8(self.json).ok()?;
        match text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            // Texts that Rust but not JSON parses as numbers begin with a letter.
            _ if !text.starts_with(|char: char| char == '-' || char.is_ascii_digit()) => None,
            _ => text.parse().ok(),
        }
    }

    fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(self.json).ok()
    }
}

fn item(data: &[u8]) -> Option<Item<'_>> {
    let mut item = Item { key: String::new(), json: &[] };
    for field in Fields(data) {
        match field? {
            (1 | 2, Content::Bytes(part)) if !part.is_empty() => {
                if !item.key.is_empty() {
                    item.key.push('.');
                }
                item.key.push_str(&String::from_utf8_lossy(part));
            }
            (16, Content::Bytes(json)) => item.json = json,
            _ => {}
        }
    }
    Some(item)
}

/// The media among items, by key, with their kind: objects with `_type`, whole or in parts.
fn media_of(items: &[Item<'_>]) -> BTreeMap<String, String> {
    let mut media = BTreeMap::new();
    for item in items {
        let json = || item.json();
        let (name, kind) = match item.key.strip_suffix("._type") {
            Some(name) => (name, json()),
            None if item.json.starts_with(b"{") => {
                (item.key.as_str(), json().and_then(|json| json.get("_type").cloned()))
            }
            None => continue,
        };
        if let Some(serde_json::Value::String(kind)) = kind {
            media.insert(name.to_owned(), kind);
        }
    }
    media
}

/// Whether a key is that of a medium, or of a part of one.
fn is_part(key: &str, media: &BTreeMap<String, String>) -> bool {
    media.contains_key(key) || key.match_indices('.').any(|(at, _)| media.contains_key(&key[..at]))
}

/// Calls `take` for each value in objects of objects, with its dotted name.
fn leaves(name: &str, json: &serde_json::Value, take: &mut dyn FnMut(&str, &serde_json::Value)) {
    match json {
        serde_json::Value::Object(parts) => {
            for (part, json) in parts {
                leaves(&format!("{name}.{part}"), json, take);
            }
        }
        leaf => take(name, leaf),
    }
}

#[derive(Default)]
struct Reading {
    run: RecordedRun,
    /// Whether hpsearch wrote it: rows name their axis.
    is_own: bool,
    runtime: u64,
    /// The latest time in the run.
    last: Option<Timestamp>,
    /// Keys whose values are neither numbers nor, outside the history, texts or flags.
    left: BTreeSet<String>,
    /// Media by key: the kind, and how often the history has it.
    media: BTreeMap<String, (String, u64)>,
}

impl Reading {
    /// Applies a record; `None` if it is malformed.
    fn record(&mut self, data: &[u8]) -> Option<()> {
        for field in Fields(data) {
            match field? {
                (2, Content::Bytes(history)) => self.history(history)?,
                (3, Content::Bytes(summary)) => self.summary(summary)?,
                (5, Content::Bytes(config)) => self.config(config)?,
                (7, Content::Bytes(stats)) => self.stats(stats)?,
                (17, Content::Bytes(run)) => self.run(run)?,
                (18, Content::Bytes(exit)) => self.exit(exit)?,
                _ => {}
            }
        }
        Some(())
    }

    fn run(&mut self, data: &[u8]) -> Option<()> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut tags = Vec::new();
        for field in Fields(data) {
            match field? {
                (1, Content::Bytes(id)) => {
                    self.run.source = format!("{}:{}", Format::Wandb.as_str(), text(id));
                }
                (3, Content::Bytes(project)) => self.run.project = Some(text(project)),
                (4, Content::Bytes(config)) => self.config_of(config)?,
                (6, Content::Bytes(group)) => {
                    self.run.group = Some(text(group)).filter(|group| !group.is_empty());
                }
                (7, Content::Bytes(job)) => self.is_own = job == JOB_TYPE.as_bytes(),
                (8, Content::Bytes(name)) => self.run.name = Some(text(name)),
                (9, Content::Bytes(note)) => {
                    self.run.note = Some(text(note)).filter(|note| !note.trim().is_empty());
                }
                (10, Content::Bytes(tag)) => tags.push(text(tag)),
                (17, Content::Bytes(start)) => {
                    let (mut seconds, mut nanos) = (0i64, 0i64);
                    for field in Fields(start) {
                        match field? {
                            (1, Content::Varint(whole)) => seconds = whole.cast_signed(),
                            (2, Content::Varint(rest)) => nanos = rest.cast_signed(),
                            _ => {}
                        }
                    }
                    let micros = seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000);
                    self.run.began = Some(Timestamp(micros));
                }
                _ => {}
            }
        }
        self.run.tags = tags;
        Some(())
    }

    /// The parameters of a run's record.
    fn config_of(&mut self, data: &[u8]) -> Option<()> {
        for field in Fields(data) {
            if let (1, Content::Bytes(update)) = field? {
                let item = item(update)?;
                // The tool stores its own metadata there.
                if let Some(json) = item.json().filter(|_| item.key != "_wandb") {
                    self.parameter(&item.key, &json);
                }
            }
        }
        Some(())
    }

    /// Parameters that were set later.
    fn config(&mut self, data: &[u8]) -> Option<()> {
        self.config_of(data)
    }

    /// Objects become parameters with dotted names.
    fn parameter(&mut self, name: &str, json: &serde_json::Value) {
        match (Value::from_json(json), json) {
            (Some(value), _) if !name.is_empty() => self.run.params.insert(name.to_owned(), value),
            (None, serde_json::Value::Object(parts)) => {
                for (part, json) in parts {
                    self.parameter(&format!("{name}.{part}"), json);
                }
            }
            _ => drop(self.left.insert(name.to_owned())),
        }
    }

    fn history(&mut self, data: &[u8]) -> Option<()> {
        let (mut items, mut own_step) = (Vec::new(), None);
        for field in Fields(data) {
            match field? {
                (1, Content::Bytes(data)) => items.push(item(data)?),
                (2, Content::Bytes(step)) => {
                    own_step = Some(0.0);
                    for field in Fields(step) {
                        if let (1, Content::Varint(step)) = field? {
                            #[expect(clippy::cast_precision_loss, reason = "steps below 2^53")]
                            let step = step.cast_signed() as f64;
                            own_step = Some(step);
                        }
                    }
                }
                _ => {}
            }
        }
        let of = |key: &str| items.iter().rfind(|item| item.key == key).and_then(Item::number);
        let at = of("_timestamp").and_then(moment);
        self.last = self.last.max(at);
        // hpsearch writes the row's axis after its values, and before the tool's own items.
        let axis = items.iter().rposition(|item| item.key == "_step").and_then(|index| {
            let axis = index.checked_sub(1).filter(|_| self.is_own)?;
            Some((axis, SeriesAxis::from_word(&items[axis].key)?))
        });
        let (axis_item, axis) = match axis {
            Some((index, axis)) => (Some(index), axis),
            None => (None, SeriesAxis::Step),
        };
        let step = match axis_item {
            Some(index) => items[index].number(),
            None => of("_step").or(own_step),
        };
        let Some(step) = step else { return Some(()) };
        let at = at.or(self.last).or(self.run.began).unwrap_or_default();
        let media = media_of(&items);
        for (name, kind) in &media {
            let (_, count) = self.media.entry(name.clone()).or_insert((kind.clone(), 0));
            *count += 1;
        }
        for (index, item) in items.iter().enumerate() {
            let is_own = item.key.starts_with('_') || Some(index) == axis_item;
            if is_own || is_part(&item.key, &media) {
                continue;
            }
            if let Some(value) = item.number() {
                self.run.log(&item.key, axis, RecordedPoint { step, value, at });
                continue;
            }
            let (mut numbers, mut left) = (Vec::new(), Vec::new());
            if let Some(json) = item.json() {
                leaves(&item.key, &json, &mut |name, leaf| match leaf.as_f64() {
                    Some(value) => numbers.push((name.to_owned(), value)),
                    None => left.push(name.to_owned()),
                });
            } else {
                left.push(item.key.clone());
            }
            for (name, value) in numbers {
                self.run.log(&name, axis, RecordedPoint { step, value, at });
            }
            self.left.extend(left);
        }
        Some(())
    }

    /// Numbers, texts and flags; objects become values with dotted names.
    fn summary(&mut self, data: &[u8]) -> Option<()> {
        let mut items = Vec::new();
        for field in Fields(data) {
            if let (1, Content::Bytes(update)) = field? {
                items.push(item(update)?);
            }
        }
        let media = media_of(&items);
        for item in &items {
            match item.key.as_str() {
                "_timestamp" => self.last = self.last.max(item.number().and_then(moment)),
                key if key.starts_with('_') || is_part(key, &media) => {}
                key => {
                    let Some(json) = item.json() else { continue };
                    let (summary, left) = (&mut self.run.summary, &mut self.left);
                    leaves(key, &json, &mut |name, leaf| match leaf {
                        serde_json::Value::Array(_) => drop(left.insert(name.to_owned())),
                        serde_json::Value::Null => {}
                        leaf => drop(summary.insert(name.to_owned(), leaf.clone())),
                    });
                }
            }
        }
        // Those that were logged are counted in the history.
        for (name, kind) in media {
            self.media.entry(name).or_insert((kind, 0));
        }
        Some(())
    }

    /// Measurements of the machine, by the second.
    fn stats(&mut self, data: &[u8]) -> Option<()> {
        let (mut items, mut at) = (Vec::new(), None);
        for field in Fields(data) {
            match field? {
                (2, Content::Bytes(moment)) => {
                    let mut micros = 0;
                    for field in Fields(moment) {
                        match field? {
                            (1, Content::Varint(whole)) => {
                                micros += whole.cast_signed().saturating_mul(1_000_000);
                            }
                            (2, Content::Varint(nanos)) => micros += nanos.cast_signed() / 1_000,
                            _ => {}
                        }
                    }
                    at = Some(Timestamp(micros));
                }
                (3, Content::Bytes(data)) => items.push(item(data)?),
                _ => {}
            }
        }
        let (Some(at), Some(began)) = (at, self.run.began) else { return Some(()) };
        #[expect(clippy::cast_precision_loss, reason = "microseconds of a run")]
        let step = at.0.saturating_sub(began.0) as f64 / 1e6;
        for item in items {
            if let Some(value) = item.number() {
                let metric = format!("system/{}", item.key);
                self.run.log(&metric, SeriesAxis::Seconds, RecordedPoint { step, value, at });
            }
        }
        Some(())
    }

    fn exit(&mut self, data: &[u8]) -> Option<()> {
        let mut code = 0;
        for field in Fields(data) {
            match field? {
                (1, Content::Varint(status)) => code = status.cast_signed(),
                (2, Content::Varint(seconds)) => self.runtime = seconds,
                _ => {}
            }
        }
        self.run.end = Some(match i32::try_from(code) {
            Ok(0) => RecordedEnd::Complete,
            code => RecordedEnd::Failed(code.ok()),
        });
        Some(())
    }

    fn finish(self) -> RecordedRun {
        let Reading { mut run, runtime, last, left, is_own, media } = self;
        let end = run.began.map(|began| {
            let micros = i64::try_from(runtime.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
            Timestamp(began.0.saturating_add(micros))
        });
        run.ended = last.max(end);
        // A run without a name has its number there.
        let is_number = |name: &String| {
            let number = ["run-", "trial-"].iter().find_map(|kind| name.strip_prefix(kind));
            number.is_some_and(|number| number.chars().all(|char| char.is_ascii_digit()))
        };
        run.name = run.name.filter(|name| !is_own || !is_number(name));
        // The tool's summary has the last value of each metric, which the series have.
        let series = &run.series;
        let is_series = |name: &String| series.keys().any(|(metric, _)| metric == name);
        run.summary.retain(|name, _| !is_series(name));
        if !left.is_empty() {
            let names: Vec<&str> = left.iter().take(5).map(String::as_str).collect();
            let more = left.len().saturating_sub(names.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let names = names.join("`, `");
            run.remarks.push(format!("skipped, since they are not numbers: `{names}`{more}"));
        }
        if !media.is_empty() {
            let names = media.iter().take(5).map(|(name, (kind, count))| {
                let times = if *count > 1 { format!("{count} of ") } else { String::new() };
                format!("{times}`{name}` ({kind})")
            });
            let names: Vec<String> = names.collect();
            let more = media.len().saturating_sub(names.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let all =
                counted::count(media.values().map(|(_, count)| *count.max(&1)).sum(), "object");
            run.remarks.push(format!("skipped {all} of media: {}{more}", names.join(", ")));
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_json_and_what_python_writes_besides() {
        let number = |json: &str| Item { key: String::new(), json: json.as_bytes() }.number();
        assert_eq!(number("0.25"), Some(0.25));
        assert_eq!(number("-1e-3"), Some(-1e-3));
        assert_eq!(number("Infinity"), Some(f64::INFINITY));
        assert!(number("NaN").is_some_and(f64::is_nan));
        for none in ["\"1\"", "inf", "null", "[1]", "", "-", "true"] {
            assert_eq!(number(none), None, "{none}");
        }
    }

    #[test]
    fn a_file_that_is_cut_anywhere_gives_what_comes_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run-a.wandb");
        for bytes in [&b""[..], b":W&", b"hello, world", &[0; 4096]] {
            fs::write(&path, bytes).unwrap();
            let error = read(&path).unwrap_err();
            assert!(matches!(error, ImportError::Malformed { .. }), "{error}");
        }
        fs::write(&path, BEGIN).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("name its run"));
    }
}
