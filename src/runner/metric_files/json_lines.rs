//! Metrics in a file of JSON lines: each line is a report.

use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use super::growing_file::{FileChunk, GrowingFile};
use super::{MetricFileItem, Rest};
use crate::runner::protocol::{LONGEST_LINE, StepCounter, quote_non_finite, step_of};
use crate::study::metric::{Metrics, Number};
use crate::study::trial::LARGEST_STEP;

/// Longest quotation of a line in a remark.
const QUOTED: usize = 60;

/// A file of JSON lines.
#[derive(Debug)]
pub(super) struct JsonLines {
    /// As in the study file.
    name: String,
    file: GrowingFile,
    /// An unterminated line.
    line: Vec<u8>,
    /// Whether that line is too long, and its beginning dropped.
    is_too_long: bool,
    step_counter: StepCounter,
    has_reports: bool,
}

impl JsonLines {
    /// The file at the first of `paths` that exists; only what is written from now on is read.
    pub fn new(name: String, paths: Vec<PathBuf>, step_counter: StepCounter) -> Self {
        JsonLines {
            name,
            file: GrowingFile::from_end(paths),
            line: Vec::new(),
            is_too_long: false,
            step_counter,
            has_reports: false,
        }
    }

    /// Reads more.
    pub fn poll(&mut self, found: &mut Vec<MetricFileItem>) -> Rest {
        let FileChunk { is_beginning, bytes } = match self.file.read() {
            Ok(piece) => piece,
            Err(why) => {
                found.push(MetricFileItem::Remark(why));
                return Rest::Nothing;
            }
        };
        if is_beginning {
            self.line.clear();
            self.is_too_long = false;
        }
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        // After the last newline the next line begins.
        let last = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            self.extend(piece);
            self.end_line(found);
        }
        self.extend(last);
        if bytes.is_empty() { Rest::Nothing } else { Rest::More }
    }

    /// Reads a last line without a newline, if it is complete.
    pub fn end(&mut self, found: &mut Vec<MetricFileItem>) {
        let text = String::from_utf8_lossy(&self.line);
        let json = serde_json::from_str::<Json>(&quote_non_finite(&text));
        if json.is_ok_and(|json| json.is_object()) {
            self.end_line(found);
        }
    }

    /// The remark if nothing was found.
    pub fn emptiness(&self) -> Option<String> {
        let (name, path) = (&self.name, &self.file);
        match (self.has_reports, path.exists()) {
            (true, _) => None,
            (false, true) => Some(format!("the file `{name}` has no metrics of this trial")),
            (false, false) => {
                Some(format!("the file `{name}` is not there: looked for {}", path.looked_for()))
            }
        }
    }

    fn extend(&mut self, piece: &[u8]) {
        if self.is_too_long || self.line.len() + piece.len() > LONGEST_LINE {
            self.is_too_long = true;
            self.line = Vec::new();
        } else {
            self.line.extend(piece);
        }
    }

    fn end_line(&mut self, found: &mut Vec<MetricFileItem>) {
        let line = std::mem::take(&mut self.line);
        let read = match std::mem::take(&mut self.is_too_long) {
            true => Err(format!("a line of more than {LONGEST_LINE} bytes")),
            false => self.read(&line),
        };
        match read {
            Ok(report) => {
                self.has_reports |= report.is_some();
                found.extend(report);
            }
            Err(why) => found.push(MetricFileItem::Remark(format!(
                "a line of `{}` is ignored: {why}",
                self.name
            ))),
        }
    }

    fn read(&mut self, line: &[u8]) -> Result<Option<MetricFileItem>, String> {
        let line = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?.trim();
        if line.is_empty() {
            return Ok(None);
        }
        let json = serde_json::from_str(&quote_non_finite(line));
        let Ok(Json::Object(mut object)) = json else {
            let quoted: String = line.chars().take(QUOTED).collect();
            let is_laid_out = ["{", "["].contains(&line);
            let how = match is_laid_out {
                true => {
                    ": each stands on a line of its own (in Python `json.dump` without `indent`)"
                }
                false => "",
            };
            return Err(format!("`{quoted}` is not a JSON object{how}"));
        };
        let said = step_of(&mut object, self.step_counter.unit).map_err(|remark| remark.why)?;
        let mut metrics = Metrics::default();
        flatten("", object, &mut metrics);
        if metrics.0.is_empty() {
            return Ok(None);
        }
        let step = said.unwrap_or(self.step_counter.last.saturating_add(1)).min(LARGEST_STEP);
        self.step_counter.last = step;
        Ok(Some(MetricFileItem::Report { step, metrics }))
    }
}

/// The numbers of an object, nested ones as `outer/inner`. Null is not NaN here: programs write it
/// for metrics that they did not measure.
fn flatten(prefix: &str, object: Map<String, Json>, metrics: &mut Metrics) {
    for (name, value) in object {
        let name = format!("{prefix}{name}");
        match value {
            Json::Object(inner) => flatten(&format!("{name}/"), inner, metrics),
            Json::Null => {}
            value => {
                metrics.0.extend(Number::from_json(&value).map(|Number(number)| (name, number)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::path::Path;

    use super::*;
    use crate::study::step::StepUnit;

    fn follow(path: &Path, last: u64) -> JsonLines {
        let step_counter = StepCounter::after(StepUnit::Epoch, last);
        JsonLines::new("m.jsonl".to_owned(), vec![path.to_owned()], step_counter)
    }

    fn append(path: &Path, bytes: &[u8]) {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(bytes).unwrap();
    }

    /// Everything available, as `step name=value ..`, and remarks.
    fn read(lines: &mut JsonLines) -> Vec<String> {
        let mut found = Vec::new();
        while lines.poll(&mut found) == Rest::More {}
        found.into_iter().map(words).collect()
    }

    fn words(found: MetricFileItem) -> String {
        match found {
            MetricFileItem::Report { step, metrics } => {
                let metrics = metrics.iter().map(|(name, value)| format!(" {name}={value}"));
                format!("{step}{}", metrics.collect::<String>())
            }
            MetricFileItem::Remark(why) => why,
        }
    }

    #[test]
    fn each_whole_line_is_a_report() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.jsonl");
        let mut lines = follow(&path, 0);
        assert_eq!(read(&mut lines), [""; 0]);
        assert!(lines.emptiness().unwrap().contains("is not there: looked for /"));
        append(&path, b"{\"epoch\": 1, \"loss\": 0.5, \"note\": \"warm\", \"ok\": true}\n{\"ep");
        assert_eq!(read(&mut lines), ["1 loss=0.5"]);
        append(
            &path,
            b"och\": \"2\", \"loss\": NaN, \"val\": {\"acc\": 0.5, \"f\": {\"1\": 1}}}\r\n",
        );
        assert_eq!(read(&mut lines), ["2 loss=NaN val/acc=0.5 val/f/1=1"]);
        append(&path, b"\n{\"event\": \"saved\"}\n{\"loss\": \"Infinity\", \"lr\": null}\n");
        assert_eq!(read(&mut lines), ["3 loss=inf"]);
        append(&path, b"{\"step\": 7, \"epoch\": 0.5, \"loss\": 1}");
        assert_eq!(read(&mut lines), [""; 0]);
        let mut found = Vec::new();
        lines.end(&mut found);
        assert_eq!(found.into_iter().map(words).collect::<Vec<_>>(), ["7 epoch=0.5 loss=1"]);
        assert_eq!(lines.emptiness(), None);
    }

    #[test]
    fn a_line_that_an_earlier_attempt_began_is_not_part_of_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.jsonl");
        append(&path, b"{\"epoch\": 1, \"loss\": 1}\n{\"epoch\": 2, \"lo");
        let mut lines = follow(&path, 4);
        append(&path, b"{\"loss\": 2}\n");
        assert_eq!(read(&mut lines), ["5 loss=2"]);
        fs::write(&path, "{\"epoch\": 1, \"loss\": 3}\n").unwrap();
        assert_eq!(read(&mut lines), ["1 loss=3"]);
    }

    #[test]
    fn what_is_no_report_is_remarked_and_the_next_line_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.jsonl");
        let mut lines = follow(&path, 0);
        for (line, why) in [
            (&b"[1, 2]"[..], "`[1, 2]` is not a JSON object"),
            (b"{\"epoch\": 1", "`{\"epoch\": 1` is not a JSON object"),
            (b"\xff\xfe", "it is not UTF-8"),
            (b"{\"epoch\": -1, \"a\": 1}", "`epoch` must be an integer of at least 0, not `-1`"),
            (&vec![b'x'; LONGEST_LINE + 1], "a line of more than 1048576 bytes"),
            (&[&b"{\"a\":"[..], &[b'['; 9000], b"\n"].concat(), "is not a JSON object"),
        ] {
            append(&path, &[line, b"\n{\"epoch\": 3, \"a\": 1}\n"].concat());
            let read = read(&mut lines);
            assert!(
                read[0].contains(why) && read[0].starts_with("a line of `m.jsonl`"),
                "{read:?}"
            );
            assert_eq!(read[1..], ["3 a=1"]);
        }
    }
}
