//! Metrics in a program's printed lines, extracted by regular expressions.

use std::sync::Arc;

use regex_lite::{Captures, Regex, RegexBuilder};
use thiserror::Error;

use super::escape_sequence::without_escape_sequences;
use super::metric::Metrics;
use super::series::SeriesAxis;
use super::trial::LARGEST_STEP;

/// Memory limit of a compiled pattern.
const LARGEST_PATTERN: usize = 1 << 20;

/// Only this much of a line is matched.
const LONGEST_LINE: usize = 16 << 10;

/// Regular expressions with named groups: each group is a metric, or the line's step.
#[derive(Clone, Debug)]
pub struct Patterns {
    patterns: Vec<Regex>,
    /// Names of the group that holds the step: `step` and the study's unit.
    step_names: [&'static str; 2],
}

/// Why a pattern is rejected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatternError {
    /// A syntax error.
    #[error("is not a regular expression")]
    Syntax(String),
    /// It uses look-around or a back-reference.
    #[error("uses a feature that regular expressions in linear time do not have")]
    Unsupported(String),
    /// It has no named group.
    #[error("names no metric")]
    NoGroup,
}

impl PatternError {
    fn of_syntax(pattern: &str, why: String) -> Self {
        if is_backtracking(pattern) {
            PatternError::Unsupported(why)
        } else {
            PatternError::Syntax(why)
        }
    }

    /// The cause in a few words.
    #[must_use]
    pub fn cause(&self) -> &str {
        match self {
            PatternError::Syntax(why) | PatternError::Unsupported(why) => why,
            PatternError::NoGroup => "no named group",
        }
    }

    /// What to write instead in a study file.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            PatternError::Syntax(_) => {
                "write it in single quotes, where a backslash stands for itself"
            }
            other => other.help_for_shell(),
        }
    }

    /// What to write instead on a command line.
    #[must_use]
    pub fn help_for_shell(&self) -> &'static str {
        match self {
            PatternError::Syntax(_) => {
                "put it in single quotes, so that the shell leaves it as it is, and a backslash \
                 before a bracket that stands for itself"
            }
            PatternError::Unsupported(_) => {
                "there is no look-around and no back-reference: write what stands before the \
                 number and name only the number, as in 'val_loss: (?<val_loss>\\S+)'"
            }
            PatternError::NoGroup => {
                r"write for example 'epoch (?<epoch>\d+).* loss: (?<loss>\S+)'"
            }
        }
    }
}

/// Whether an invalid pattern uses look-around or a back-reference, outside escapes and classes.
fn is_backtracking(pattern: &str) -> bool {
    const LOOKS: [&str; 5] = ["(?=", "(?!", "(?<=", "(?<!", "(?P="];
    let mut rest = pattern;
    let mut is_class = false;
    while let Some(char) = rest.chars().next() {
        let behind = &rest[char.len_utf8()..];
        let escaped = behind.chars().next().filter(|_| char == '\\');
        let is_reference = escaped.is_some_and(|escaped| escaped.is_ascii_digit());
        if !is_class && (is_reference || LOOKS.iter().any(|look| rest.starts_with(look))) {
            return true;
        }
        rest = &behind[escaped.map_or(0, char::len_utf8)..];
        if !is_class && char == '[' {
            is_class = true;
            // A bracket that begins a class stands for itself.
            rest = rest.strip_prefix('^').unwrap_or(rest);
            rest = rest.strip_prefix(']').unwrap_or(rest);
        } else if char == ']' {
            is_class = false;
        }
    }
    false
}

impl Patterns {
    /// Compiles patterns for a study with the step unit `unit` (`epoch`, `step` or `samples`).
    ///
    /// # Errors
    /// The index of the first invalid pattern, and why.
    pub fn new(texts: &[String], unit: &'static str) -> Result<Self, (usize, PatternError)> {
        let patterns = texts.iter().enumerate().map(|(index, text)| {
            let regex = RegexBuilder::new(text).size_limit(LARGEST_PATTERN).build();
            let regex =
                regex.map_err(|error| (index, PatternError::of_syntax(text, error.to_string())))?;
            match regex.capture_names().flatten().next() {
                Some(_) => Ok(regex),
                None => Err((index, PatternError::NoGroup)),
            }
        });
        Ok(Patterns { patterns: patterns.collect::<Result<_, _>>()?, step_names: ["step", unit] })
    }

    /// The names of the metrics.
    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        let names = self.patterns.iter().flat_map(|regex| regex.capture_names().flatten());
        names.filter(|name| !self.step_names.contains(name) && self.other_axis(name).is_none())
    }

    /// The axis with this name, if it is not the study's.
    fn other_axis(&self, name: &str) -> Option<SeriesAxis> {
        let axes = [SeriesAxis::Epoch, SeriesAxis::Samples];
        let axis = axes.into_iter().find(|axis| axis.as_str() == name)?;
        (!self.step_names.contains(&name)).then_some(axis)
    }
}

/// The matches in a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineMatches {
    /// Its step.
    pub step: Option<u64>,
    /// Its position on another axis than the study's. In a line with a step of the study's axis
    /// it is a metric.
    pub other: Option<(SeriesAxis, f64)>,
    /// Its metrics.
    pub metrics: Metrics,
    /// Groups that matched text that is not a number: names and texts.
    pub not_numbers: Vec<(String, String)>,
}

/// The results of a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineReports {
    /// Reports that are complete now: steps and metrics.
    pub reports: Vec<(u64, Metrics)>,
    /// Metrics on another axis, with their positions.
    pub points: Vec<(SeriesAxis, f64, Metrics)>,
    /// Groups whose text is not a number: names and texts.
    pub not_numbers: Vec<(String, String)>,
}

/// Extracts metrics from the lines of one attempt, both streams together.
#[derive(Clone, Debug)]
pub struct PrintedMetrics {
    patterns: Arc<Patterns>,
    /// How often each pattern matched.
    matches: Vec<u64>,
    /// The last explicit step.
    named: Option<u64>,
    /// The implicit step, counted while none is given, with its metrics.
    counted: (u64, Metrics),
    /// The metrics of a line that ended with a carriage return, which a progress bar will
    /// overwrite.
    pending: Option<(u64, Metrics)>,
}

impl PrintedMetrics {
    /// For an attempt that continues after step `last`; 0: from the start.
    pub fn new(patterns: Arc<Patterns>, last: u64) -> Self {
        let matches = vec![0; patterns.patterns.len()];
        let counted = (last.saturating_add(1), Metrics::default());
        PrintedMetrics { patterns, matches, named: None, counted, pending: None }
    }

    /// Matches the patterns against one line, without context.
    pub fn find(patterns: &Patterns, line: &[u8]) -> LineMatches {
        find(patterns, line, |_| {})
    }

    /// Reads a line, including its terminator; returns its results.
    ///
    /// A line without a step belongs to the last explicit one; if there is none, steps are counted:
    /// a repeated metric begins the next one. A line that ends with a carriage return is pending
    /// until it is overwritten.
    pub fn read(&mut self, line: &[u8]) -> LineReports {
        let matches = &mut self.matches;
        let found = find(&self.patterns, line, |pattern| matches[pattern] += 1);
        let is_replaced = line.ends_with(b"\r");
        self.named = found.step.or(self.named);
        let (mut reports, mut points) = (Vec::new(), Vec::new());
        if let Some((axis, step)) = found.other {
            points.extend((!found.metrics.0.is_empty()).then_some((axis, step, found.metrics)));
        } else if !found.metrics.0.is_empty() {
            let step = self.named.unwrap_or_else(|| self.count(&found.metrics));
            match &mut self.pending {
                Some((pending, metrics)) if *pending == step => metrics.0.extend(found.metrics.0),
                _ => reports.extend(self.pending.replace((step, found.metrics))),
            }
        }
        if !is_replaced {
            reports.extend(self.end());
        }
        LineReports { reports, points, not_numbers: found.not_numbers }
    }

    /// The pending metrics when the attempt ends.
    pub fn end(&mut self) -> Option<(u64, Metrics)> {
        let (step, metrics) = self.pending.take()?;
        if self.named.is_none() {
            self.counted.1.0.extend(metrics.0.clone());
        }
        Some((step, metrics))
    }

    /// Indices of the patterns that have matched no line so far.
    pub fn unmatched(&self) -> impl Iterator<Item = usize> {
        self.matches.iter().enumerate().filter(|(_, count)| **count == 0).map(|(index, _)| index)
    }

    fn count(&mut self, metrics: &Metrics) -> u64 {
        let (step, seen) = &mut self.counted;
        if metrics.iter().any(|(name, _)| seen.get(name).is_some()) {
            *step = step.saturating_add(1).min(LARGEST_STEP);
            seen.0.clear();
        }
        *step
    }
}

fn find(patterns: &Patterns, line: &[u8], mut matched: impl FnMut(usize)) -> LineMatches {
    let mut found = LineMatches::default();
    let line = without_escape_sequences(&line[..line.len().min(LONGEST_LINE)]);
    let line = String::from_utf8_lossy(&line);
    let line = line.trim_end_matches(['\r', '\n']);
    for (index, regex) in patterns.patterns.iter().enumerate() {
        for captures in regex.captures_iter(line) {
            take(&captures, regex, patterns, &mut found);
            matched(index);
        }
    }
    if found.step.is_some()
        && let Some((axis, number)) = found.other.take()
    {
        found.metrics.0.insert(axis.as_str().to_owned(), number);
    }
    found
}

/// What a text that was found for a metric or a step is not.
pub fn not_what(text: &str) -> &'static str {
    // Metrics may be any number.
    match number(text) {
        Some(_) => "no step: steps are whole numbers from 0 on",
        None => "not a number",
    }
}

fn take(captures: &Captures<'_>, regex: &Regex, patterns: &Patterns, found: &mut LineMatches) {
    for name in regex.capture_names().flatten() {
        let Some(text) = captures.name(name).map(|group| group.as_str()) else { continue };
        let number = number(text);
        if patterns.step_names.contains(&name) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "integral, not negative and below 2^53"
            )]
            let step = number
                .filter(|step| step.fract() == 0.0 && (0.0..9e15).contains(step))
                .map(|step| step as u64);
            found.step = step.or(found.step);
            if step.is_none() {
                found.not_numbers.push((name.to_owned(), text.to_owned()));
            }
        } else if let (Some(axis), Some(number)) =
            (patterns.other_axis(name), number.filter(|number| number.is_finite()))
        {
            found.other = Some((axis, number));
        } else if let Some(number) = number {
            found.metrics.0.insert(name.to_owned(), number);
        } else {
            found.not_numbers.push((name.to_owned(), text.to_owned()));
        }
    }
}

/// Parses a number in common printed forms: `0.25`, `1e-3`, `1,024.5`, `97.2%`, `nan`, `-inf`, and
/// with a trailing comma or bracket.
fn number(text: &str) -> Option<f64> {
    let text = text.trim().trim_end_matches([',', ';', ':', ')', ']', '}', '%', 's']).trim_end();
    let text = text.trim_start_matches(['(', '[', '{']);
    let unsigned = text.trim_start_matches(['-', '+']);
    let is_finite = unsigned.starts_with(|char: char| char.is_ascii_digit() || char == '.');
    let is_word = ["nan", "inf", "infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word));
    match (is_finite, is_word) {
        (true, _) if text.contains(',') => grouped(text)?.parse().ok(),
        (true, _) | (_, true) => text.parse().ok(),
        _ => None,
    }
}

/// Removes valid thousands separators.
fn grouped(text: &str) -> Option<String> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.split(',');
    let first = groups.next()?.trim_start_matches(['-', '+']).len();
    ((1..=3).contains(&first) && groups.all(|group| group.len() == 3) && !rest.contains(','))
        .then(|| text.replace(',', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Arc<Patterns> {
        let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
        Arc::new(Patterns::new(&texts, "epoch").unwrap())
    }

    /// The reports of lines, as `step name=value ..`.
    fn reports(texts: &[&str], lines: &[&str]) -> Vec<String> {
        let mut reader = PrintedMetrics::new(patterns(texts), 0);
        let mut reports: Vec<_> =
            lines.iter().flat_map(|line| reader.read(line.as_bytes()).reports).collect();
        reports.extend(reader.end());
        let words = |metrics: Metrics| {
            metrics.iter().map(|(name, value)| format!(" {name}={value}")).collect::<String>()
        };
        reports.into_iter().map(|(step, metrics)| format!("{step}{}", words(metrics))).collect()
    }

    #[test]
    fn a_line_with_its_step_is_a_report() {
        let pattern = r"Epoch (?<epoch>\d+)/\d+.*val_loss: (?<val_loss>\S+)";
        let lines =
            ["Epoch 1/3 loss: 0.9 - val_loss: 0.5, \n", "other\n", "Epoch 3/3 val_loss: nan\n"];
        assert_eq!(reports(&[pattern], &lines), ["1 val_loss=0.5", "3 val_loss=NaN"]);
        assert_eq!(reports(&[r"(?<step>\d+) (?<a>\S+)"], &["7 1e-3\n"]), ["7 a=0.001"]);
    }

    #[test]
    fn a_step_of_its_own_line_holds_until_the_next() {
        let texts = [r"^Epoch (?<epoch>\d+)", r"train (?<train>\S+)", r"test (?<test>\S+)"];
        let lines = ["Epoch 1\n", "train 0.9\n", "test 0.8\n", "Epoch 2\n", "train 0.7 test 0.6\n"];
        let expected = ["1 train=0.9", "1 test=0.8", "2 test=0.6 train=0.7"];
        assert_eq!(reports(&texts, &lines), expected);
    }

    #[test]
    fn without_steps_a_metric_that_comes_again_begins_the_next_one() {
        let texts = [r"train (?<train>\S+)", r"test (?<test>\S+)"];
        let lines = ["train 1\n", "test 2\n", "train 3\n", "test 4\n", "test 5\n"];
        assert_eq!(
            reports(&texts, &lines),
            ["1 train=1", "1 test=2", "2 train=3", "2 test=4", "3 test=5"]
        );
        let mut resumed = PrintedMetrics::new(patterns(&texts), 4);
        assert_eq!(resumed.read(b"test 1\n").reports[0].0, 5);
    }

    #[test]
    fn a_progress_bar_is_one_report_with_its_last_values() {
        let texts = [r"(?<epoch>\d+): (?<loss>\S+)"];
        let lines = ["1: 0.9\r", "1: 0.8\r", "1: 0.7\n", "2: 0.6\r", "3: 0.5\r"];
        assert_eq!(reports(&texts, &lines), ["1 loss=0.7", "2 loss=0.6", "3 loss=0.5"]);
        let counted = [r"loss (?<loss>\S+)"];
        assert_eq!(
            reports(&counted, &["loss 3\r", "loss 2\r", "loss 1\n", "loss 0\n"]),
            ["1 loss=1", "2 loss=0"]
        );
    }

    #[test]
    fn another_axis_than_the_studys_makes_points_and_beside_it_a_metric() {
        let texts = [r"(?:step (?<step>\d+) )?(?:seen (?<samples>\S+) )?loss (?<loss>\S+)"];
        let mut reader = PrintedMetrics::new(patterns(&texts), 0);
        let read = reader.read(b"seen 64 loss 0.5\n");
        let loss: Metrics = [("loss".to_owned(), 0.5)].into_iter().collect();
        assert_eq!(read.points, [(SeriesAxis::Samples, 64.0, loss)]);
        assert!(read.reports.is_empty());
        let read = reader.read(b"step 3 seen 96 loss 0.25\n");
        assert!(read.points.is_empty());
        assert_eq!((read.reports[0].0, read.reports[0].1.get("samples")), (3, Some(96.0)));
        assert_eq!(patterns(&texts).metrics().collect::<Vec<_>>(), ["loss"]);
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for (text, expected) in [
            ("0.25,", Some(0.25)),
            ("97.2%", Some(97.2)),
            ("1,024.5", Some(1024.5)),
            ("(3)", Some(3.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            (".5", Some(0.5)),
            ("1e999", Some(f64::INFINITY)),
            ("1,02", None),
            ("", None),
            ("infinite", None),
            ("--3", None),
            ("abc", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
        assert!(number("NaN").unwrap().is_nan());
    }

    #[test]
    fn colors_are_left_out_and_what_is_no_number_is_said() {
        let patterns = patterns(&[r"loss (?<loss>\S+) (?<acc>\S+)"]);
        let found = PrintedMetrics::find(&patterns, b"\x1b[1;32mloss\x1b[0m 0.5 high\n");
        assert_eq!(found.metrics.get("loss"), Some(0.5));
        assert_eq!(found.not_numbers, [("acc".to_owned(), "high".to_owned())]);
    }

    #[test]
    fn patterns_that_match_nothing_are_known_and_wrong_ones_refused() {
        let mut reader = PrintedMetrics::new(patterns(&[r"a (?<a>\d)", r"b (?<b>\d)"]), 0);
        reader.read(b"a 1\n");
        assert_eq!(reader.unmatched().collect::<Vec<_>>(), [1]);
        let wrong = |text: &str| {
            Patterns::new(&["(?<a>x)".to_owned(), text.to_owned()], "step").unwrap_err()
        };
        assert_eq!(wrong("loss (.*)"), (1, PatternError::NoGroup));
        assert!(matches!(wrong("("), (1, PatternError::Syntax(_))));
        assert!(matches!(wrong("(?<a>.{1000}){1000}"), (1, PatternError::Syntax(_))));
        for text in [r"(?<=loss: )(?<a>\S+)", r"(?<a>\d+)(?! s)", r"(?<a>\d) \1", "(?<a>.)(?P=a)"] {
            assert!(matches!(wrong(text), (1, PatternError::Unsupported(_))), "{text}");
        }
        for text in [r"C:\\1 (loss", "[(?=](loss", r"[^](?!\1](loss", r"\(?=(loss", r"[\](?=](x"] {
            assert!(matches!(wrong(text), (1, PatternError::Syntax(_))), "{text}");
        }
        for text in [r"(?<a>x)\\\1", r"[\]](?=x)", "[]](?!x)", r"[x]\2"] {
            assert!(matches!(wrong(text), (1, PatternError::Unsupported(_))), "{text}");
        }
    }

    #[test]
    fn a_pattern_that_backtracks_elsewhere_ends() {
        let patterns = patterns(&[r"(?<a>(x+x+)+y)"]);
        let line = vec![b'x'; 1 << 20];
        assert_eq!(PrintedMetrics::find(&patterns, &line), LineMatches::default());
    }
}
