//! Parses a line of a trial: reports and checkpoints, with remarks on what is rejected.

mod step;

use std::path::PathBuf;

use serde_json::{Map, Value};

pub use self::step::{StepCounter, step_of};
use self::step::{StepKey, any, range_beside, whole};
use super::kept::{cut, kept};
use super::{MessageToRunner, WireError, quote_non_finite};
use crate::study::escape_sequence::without_escape_sequences;
use crate::study::metric::{Metrics, Number};
use crate::study::params::Value as Scalar;
use crate::study::remark::{Remark, RemarkKind};
use crate::study::series::SeriesAxis;
use crate::study::step::StepUnit;
use crate::study::tag::{TAG_RULE, is_tag};
use crate::study::trial::LARGEST_STEP;

/// Prefix of a line for the runner, without the space.
const TAG: &[u8] = b"@hpsearch";

/// Bytes of an overlong line in which the prefix is looked for.
const LONGEST_BEGIN: usize = 1024;

/// The kind of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Spoken {
    /// Log text.
    Log,
    /// Log text that resembles a message but is not one.
    Missed(Remark),
    /// For the runner: its messages in order, and remarks on the rest.
    Message(Vec<MessageToRunner>, Vec<Remark>),
}

impl Spoken {
    /// Parses a complete line, with or without terminator. A report without a step is counted: one
    /// after the last.
    pub fn read(line: &[u8], step_counter: &mut StepCounter, reported: Reported<'_>) -> Spoken {
        if find(line, TAG).is_none() {
            return Spoken::Log;
        }
        let line = &*without_escape_sequences(line);
        let Some(at) = find(line, TAG) else { return Spoken::Log };
        let text = String::from_utf8_lossy(&line[at + TAG.len()..]);
        let (begins, text) = (text.starts_with([' ', '\t', '{']), text.trim());
        if line[..at].iter().any(|byte| !matches!(byte, b' ' | b'\t')) {
            // An echoed command, or a sentence about messages, ends differently.
            let is_object = begins
                && matches!(serde_json::from_str(&quote_non_finite(text)), Ok(Value::Object(_)));
            let why = "`@hpsearch` follows other text on its line, and is ignored there";
            return if is_object {
                Spoken::Missed(Remark::new(RemarkKind::Misplaced, why))
            } else {
                Spoken::Log
            };
        }
        if !begins || text.is_empty() {
            return Spoken::Log;
        }
        let refused = |kind, why| Spoken::Message(Vec::new(), vec![Remark::new(kind, why)]);
        let object: Map<String, Value> = match serde_json::from_str(&quote_non_finite(text)) {
            Ok(Value::Object(object)) => object,
            Ok(other) => {
                let why = format!("`{}` is not an object", cut(&other.to_string()));
                return refused(RemarkKind::NotJson, why);
            }
            Err(error) => {
                let why = format!("`{}` is not JSON: {error}", cut(text));
                return refused(RemarkKind::NotJson, why);
            }
        };
        let own = object.keys().find(|key| key.starts_with(super::OWN));
        if let Some(key) = own.filter(|_| object.len() > 1) {
            let why =
                format!("`{}`: names that begin with `{}` are reserved", cut(key), super::OWN);
            return refused(RemarkKind::Reserved, why);
        }
        if own.is_some() {
            return match MessageToRunner::of(object) {
                Ok(up) => Spoken::Message(vec![up], Vec::new()),
                Err(error) => refused(RemarkKind::Reserved, error.to_string()),
            };
        }
        let mut object = object;
        let (mut taken, mut remarks) = recorded(&mut object);
        let (artifacts, refused) = kept(&mut object);
        taken.extend(artifacts);
        remarks.extend(refused);
        if taken.is_empty() && remarks.is_empty() || !object.is_empty() {
            taken.extend(take(object, step_counter, reported, &mut remarks));
        }
        for up in &mut taken {
            if let MessageToRunner::Artifact { artifact } = up {
                artifact.step = artifact.step.or(step_counter.reached());
            }
        }
        Spoken::Message(taken, remarks)
    }

    /// An overlong line, by its first piece.
    pub fn of_long(piece: &[u8]) -> Spoken {
        let begin = without_escape_sequences(&piece[..piece.len().min(LONGEST_BEGIN)]);
        match begin.trim_ascii_start().strip_prefix(TAG).and_then(<[u8]>::first) {
            Some(b' ' | b'\t' | b'{') => Spoken::Missed(Remark::new(
                RemarkKind::TooLong,
                format!("a line of more than {} bytes is not a message", super::LONGEST_LINE),
            )),
            _ => Spoken::Log,
        }
    }

    /// A line on standard error, where messages are rejected.
    pub fn on_standard_error(line: &[u8], step_counter: StepCounter) -> Option<Remark> {
        match Spoken::read(line, &mut step_counter.clone(), Reported::All) {
            Spoken::Message(taken, _) if !taken.is_empty() => Some(Remark::new(
                RemarkKind::StandardError,
                "a line after `@hpsearch` was printed on standard error, and is ignored there",
            )),
            _ => None,
        }
    }
}

/// Which lines are reports.
#[derive(Clone, Copy, Debug)]
pub enum Reported<'a> {
    /// Those with one of these metrics, at a step of the study's unit.
    With(&'a [String]),
    /// All of them.
    All,
}

impl Reported<'_> {
    fn holds(self, object: &Map<String, Value>) -> bool {
        match self {
            Reported::With(names) => names.iter().any(|name| object.contains_key(name)),
            Reported::All => true,
        }
    }
}

/// A run's own parameters, summary and tags, removed from the object.
fn recorded(object: &mut Map<String, Value>) -> (Vec<MessageToRunner>, Vec<Remark>) {
    let (mut taken, mut remarks) = (Vec::new(), Vec::new());
    for name in ["params", "summary"] {
        let Some(Value::Object(said)) = object.get(name) else { continue };
        let is_scalar = |value: &Value| Scalar::from_json(value).is_some();
        for (key, value) in said.iter().filter(|(_, value)| !is_scalar(value)) {
            let value = cut(&value.to_string());
            let why = format!(
                "`{}` of `{name}` must be a string, a number or a boolean, not `{value}`",
                cut(key)
            );
            remarks.push(Remark::new(RemarkKind::Value, why));
        }
        let scalars = said.iter().filter(|(_, value)| is_scalar(value));
        let scalars = scalars.map(|(key, value)| (key.clone(), value.clone()));
        taken.push(if name == "params" {
            let params = scalars.filter_map(|(key, value)| Some((key, Scalar::from_json(&value)?)));
            MessageToRunner::Params { params: params.collect() }
        } else {
            MessageToRunner::Summary { summary: scalars.collect() }
        });
        object.remove(name);
    }
    if let Some(Value::Array(said)) = object.get("tags") {
        let (tags, others): (Vec<&Value>, Vec<&Value>) =
            said.iter().partition(|tag| tag.as_str().is_some_and(is_tag));
        remarks.extend(others.into_iter().map(|other| {
            let why = format!("`{}` cannot be a tag: {TAG_RULE}", cut(&other.to_string()));
            Remark::new(RemarkKind::Value, why)
        }));
        let tags = tags.into_iter().filter_map(Value::as_str).map(str::to_owned).collect();
        taken.push(MessageToRunner::Tags { tags });
        object.remove("tags");
    }
    (taken, remarks)
}

/// Reports, points and checkpoints of an object, a report before the checkpoint of the same line:
/// no trial continues from an unreported step.
fn take(
    mut object: Map<String, Value>,
    step_counter: &mut StepCounter,
    reported: Reported<'_>,
    remarks: &mut Vec<Remark>,
) -> Vec<MessageToRunner> {
    let is_report = reported.holds(&object);
    let key = match reported {
        Reported::All => {
            let names = [SeriesAxis::Step, SeriesAxis::from(step_counter.unit)];
            let given =
                |name: &SeriesAxis| object.get(name.as_str()).is_some_and(|value| !value.is_null());
            let axis = names.into_iter().find(given);
            axis.map(|axis| StepKey { name: axis.as_str(), axis, is_study: true })
        }
        Reported::With(_) => StepKey::of(&object, step_counter.unit, is_report),
    };
    let mut remark = |kind, why: String| remarks.push(Remark::new(kind, why));
    let value = key.and_then(|key| object.remove(key.name));
    let (whole, any) = (value.as_ref().and_then(whole), value.as_ref().and_then(any));
    // Only epochs may be fractional, and only in lines without a decision.
    let takes_fractions =
        key.is_some_and(|key| key.axis == SeriesAxis::Epoch && !(key.is_study && is_report));
    if let (Some(value), Some(key)) = (&value, key)
        && (if takes_fractions { any.is_none() } else { whole.is_none() })
    {
        let what = if takes_fractions { "a number" } else { "an integer" };
        let range = range_beside(value);
        let (name, value) = (key.name, cut(&value.to_string()));
        remark(RemarkKind::Step, format!("`{name}` must be {what} {range}, not `{value}`"));
        return Vec::new();
    }
    let axes = [SeriesAxis::Step, SeriesAxis::Epoch, SeriesAxis::Samples];
    object
        .retain(|name, value| !(value.is_null() && axes.iter().any(|axis| axis.as_str() == name)));
    let checkpoint = object.remove("checkpoint");
    let (mut metrics, mut is_odd) = (Metrics::default(), false);
    for (name, value) in object {
        if let Some(Number(number)) = Number::from_json(&value) {
            metrics.0.insert(name, number);
            continue;
        }
        let (name, value) = (cut(&name), cut(&value.to_string()));
        remark(RemarkKind::Value, format!("`{name}` must be a number, not `{value}`"));
        is_odd = true;
    }
    let mut taken = Vec::new();
    // A value that is not a number does not report its metric.
    let is_report = is_report
        && key.is_none_or(|key| key.is_study)
        && match reported {
            Reported::With(names) => names.iter().any(|name| metrics.get(name).is_some()),
            Reported::All => true,
        };
    if metrics.0.is_empty() {
        if checkpoint.is_none() && !is_odd {
            let name = key.map_or("step", |key| key.name);
            remark(
                RemarkKind::Empty,
                format!("a report needs at least one metric beside `{name}`"),
            );
        }
    } else if is_report {
        let step = whole.unwrap_or(step_counter.last.saturating_add(1)).min(LARGEST_STEP);
        step_counter.last = step;
        taken.push(MessageToRunner::Report { step, metrics });
    } else {
        let axis = key.map_or(SeriesAxis::Step, |key| key.axis);
        step_counter.points += u64::from(key.is_none());
        taken.push(MessageToRunner::Points { axis, step: any, metrics });
    }
    // For a checkpoint, `step` is the study's step; without one, that of the last report.
    let own = SeriesAxis::from(step_counter.unit);
    let is_own = |key: StepKey| key.axis == own || key.axis == SeriesAxis::Step;
    let step = match key {
        None => step_counter.reached(),
        Some(key) => whole.filter(|_| is_own(key)),
    };
    match (checkpoint, step) {
        (None, _) => {}
        (Some(Value::String(path)), Some(step)) => {
            taken.push(MessageToRunner::Checkpoint { path: PathBuf::from(path), step })
        }
        (Some(Value::String(path)), None) => {
            let why = format!(
                "the checkpoint `{}` comes without its `step`, and no step was counted yet: add \
                 `\"step\"` to its line",
                cut(&path)
            );
            remark(RemarkKind::Checkpoint, why);
        }
        (Some(other), _) => {
            let why = format!("`checkpoint` must be a path, not `{}`", cut(&other.to_string()));
            remark(RemarkKind::Checkpoint, why);
        }
    }
    taken
}

/// The single message of a worker's line; unknown keys are errors.
pub(super) fn only(object: Map<String, Value>) -> Result<MessageToRunner, WireError> {
    let mut remarks = Vec::new();
    let mut step_counter = StepCounter::after(StepUnit::Step, 0);
    let taken = take(object, &mut step_counter, Reported::All, &mut remarks);
    match (remarks.into_iter().next(), taken.into_iter().next()) {
        (None, Some(up)) => Ok(up),
        (remark, _) => Err(WireError::Shape {
            why: remark.map_or_else(|| "it is empty".to_owned(), |remark| remark.why),
        }),
    }
}

fn find(line: &[u8], wanted: &[u8]) -> Option<usize> {
    line.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, unit: StepUnit, last: u64) -> (Vec<(u64, String)>, Vec<String>) {
        let reported = ["loss".to_owned()];
        let said = Spoken::read(
            line.as_bytes(),
            &mut StepCounter::after(unit, last),
            Reported::With(&reported),
        );
        let (taken, remarks) = match said {
            Spoken::Log => return (Vec::new(), vec!["log".to_owned()]),
            Spoken::Missed(remark) => (Vec::new(), vec![remark]),
            Spoken::Message(taken, remarks) => (taken, remarks),
        };
        let words = |up: MessageToRunner| match up {
            MessageToRunner::Report { step, metrics } => {
                let metrics = metrics.iter().map(|(name, value)| format!("{name}={value}"));
                (step, metrics.collect::<Vec<_>>().join(" "))
            }
            MessageToRunner::Checkpoint { path, step } => (step, path.display().to_string()),
            MessageToRunner::Points { axis, step, metrics } => {
                let step = step.map_or_else(|| "counted".to_owned(), |step| step.to_string());
                let metrics = metrics.iter().map(|(name, value)| format!(" {name}={value}"));
                (0, format!("{axis} {step}{}", metrics.collect::<String>()))
            }
            other => (0, format!("{other:?}")),
        };
        let remarks = remarks.into_iter().map(|remark| remark.why).collect();
        (taken.into_iter().map(words).collect(), remarks)
    }

    #[test]
    fn the_step_is_step_or_else_what_has_its_units_name_or_else_counted() {
        use StepUnit::{Epoch, Samples, Step};
        for (line, unit, step, metrics) in [
            (r#"{"step":2,"loss":0.5}"#, Epoch, 2, "loss=0.5"),
            (r#"{"epoch":2,"loss":0.5}"#, Epoch, 2, "loss=0.5"),
            (r#"{"samples":512,"loss":0.5}"#, Samples, 512, "loss=0.5"),
            (r#"{"epoch":1.5,"step":30,"loss":0.5}"#, Step, 30, "epoch=1.5 loss=0.5"),
            (r#"{"epoch":1.5,"step":30,"loss":0.5}"#, Epoch, 30, "epoch=1.5 loss=0.5"),
            (r#"{"loss":0.5}"#, Epoch, 7, "loss=0.5"),
            (r#"{"step":null,"loss":NaN}"#, Epoch, 7, "loss=NaN"),
            (r#"{"step":2.0,"loss":1}"#, Step, 2, "loss=1"),
            (r#"{"step":"3","loss":1}"#, Step, 3, "loss=1"),
        ] {
            let said = read(&format!("@hpsearch {line}"), unit, 6);
            assert_eq!(said, (vec![(step, metrics.to_owned())], vec![]), "{line} in {unit:?}");
        }
    }

    #[test]
    fn what_is_no_report_is_a_point_on_the_axis_that_it_names() {
        use StepUnit::{Epoch, Samples, Step};
        for (line, unit, point) in [
            (r#"{"step":120,"train/loss":0.3}"#, Epoch, "step 120 train/loss=0.3"),
            (r#"{"step":120,"train/loss":0.3}"#, Step, "step 120 train/loss=0.3"),
            (r#"{"epoch":1.5,"a":1,"b":NaN}"#, Epoch, "epoch 1.5 a=1 b=NaN"),
            (r#"{"epoch":1.5,"step":30,"a":1}"#, Epoch, "step 30 a=1 epoch=1.5"),
            (r#"{"samples":"512","a":1}"#, Step, "samples 512 a=1"),
            (r#"{"a":1}"#, Samples, "step counted a=1"),
            (r#"{"step":null,"epoch":null,"a":1}"#, Samples, "step counted a=1"),
            // The study's metric on another axis than the study's.
            (r#"{"epoch":2,"loss":0.5}"#, Step, "epoch 2 loss=0.5"),
            (r#"{"samples":64,"loss":0.5}"#, Epoch, "samples 64 loss=0.5"),
            // Its value is not a number: the other metrics are kept.
            (r#"{"step":2,"loss":"low","a":1}"#, Step, "step 2 a=1"),
        ] {
            let (taken, _) = read(&format!("@hpsearch {line}"), unit, 6);
            assert_eq!(taken, [(0, point.to_owned())], "{line} in {unit:?}");
        }
        let (_, remarks) = read(r#"@hpsearch {"epoch":"two","a":1}"#, Step, 0);
        assert_eq!(remarks, [r#"`epoch` must be a number of at least 0, not `"two"`"#]);
        let (taken, _) = read(r#"@hpsearch {"step":3,"a":2,"checkpoint":"c"}"#, Epoch, 0);
        assert_eq!(taken, [(0, "step 3 a=2".to_owned()), (3, "c".to_owned())]);
    }

    #[test]
    fn what_is_counted_goes_on_from_the_last_step() {
        let mut step_counter = StepCounter::after(StepUnit::Step, 4);
        let reported = ["a".to_owned()];
        let mut step = |line: &str| match Spoken::read(
            line.as_bytes(),
            &mut step_counter,
            Reported::With(&reported),
        ) {
            Spoken::Message(taken, _) => taken.first().and_then(|up| {
                if let MessageToRunner::Report { step, .. } = up { Some(*step) } else { None }
            }),
            other => panic!("{other:?}"),
        };
        let lines = [
            "{\"a\":1}",
            "{\"a\":2}",
            "{\"step\":20,\"a\":3}",
            "{\"a\":4}",
            "{\"a\":\"x\"}",
            "{\"a\":5}",
        ];
        let steps: Vec<_> = lines.iter().map(|line| step(&format!("@hpsearch {line}\n"))).collect();
        assert_eq!(steps, [Some(5), Some(6), Some(20), Some(21), None, Some(22)]);
    }

    #[test]
    fn a_checkpoint_and_an_artifact_without_a_step_have_that_of_the_last_report() {
        let mut step_counter = StepCounter::after(StepUnit::Step, 0);
        let reported = ["a".to_owned()];
        let mut steps = |line: &str| {
            let line = format!("@hpsearch {line}");
            let reported = Reported::With(&reported);
            let Spoken::Message(taken, _) =
                Spoken::read(line.as_bytes(), &mut step_counter, reported)
            else {
                panic!("{line}")
            };
            let step = |up| match up {
                MessageToRunner::Checkpoint { step, .. } => Some(step),
                MessageToRunner::Artifact { artifact } => artifact.step,
                _ => None,
            };
            taken.into_iter().filter_map(step).collect::<Vec<_>>()
        };
        // Points are counted as long as nothing else is.
        assert_eq!([steps(r#"{"b":1}"#), steps(r#"{"checkpoint":"c"}"#)].concat(), [1]);
        assert_eq!([steps(r#"{"a":1,"step":7}"#), steps(r#"{"checkpoint":"c"}"#)].concat(), [7]);
        assert_eq!([steps(r#"{"a":1}"#), steps(r#"{"checkpoint":"c"}"#)].concat(), [8]);
        assert_eq!(steps(r#"{"a":1,"checkpoint":"c","artifact":"d"}"#), [9, 9]);
        assert_eq!(steps(r#"{"artifact":"d"}"#), [9]);
        assert_eq!(steps(r#"{"checkpoint":"c","step":2}"#), [2]);
        // An epoch is no step of this study.
        assert!(steps(r#"{"checkpoint":"c","epoch":2}"#).is_empty());
    }

    #[test]
    fn tags_are_words() {
        let (taken, remarks) = read(r#"@hpsearch {"tags":["v2","a b",3]}"#, StepUnit::Step, 0);
        assert!(taken.len() == 1 && taken[0].1.contains(r#"["v2"]"#), "{taken:?}");
        assert!(remarks[0].starts_with("`\"a b\"` cannot be a tag: "), "{remarks:?}");
        assert_eq!(remarks.len(), 2);
    }

    #[test]
    fn what_can_be_taken_of_a_line_is_taken() {
        let words = ["`lr` must be a number, not `\"low\"`", "`ok` must be a number, not `true`"];
        for (line, taken, remarks) in [
            (r#"@hpsearch {"step":3,"loss":2,"lr":"low","ok":true}"#, &["loss=2"][..], &words[..]),
            ("@hpsearch {\"step\":3,\"checkpoint\":\"a\",\"loss\":2}\r\n", &["loss=2", "a"], &[]),
            ("\t @hpsearch {\"step\":3,\"loss\":nan,\"a\":-inf}", &["a=-inf loss=NaN"], &[]),
            ("\x1b[32m@hpsearch \x1b[1m{\"step\":3,\"loss\":2}\x1b[0m\n", &["loss=2"], &[]),
            (" \x1b[2K@hpsearch {\"step\":3,\"loss\":2}\x1b(B\x1b[m\r\n", &["loss=2"], &[]),
            // The space is optional.
            (r#"@hpsearch{"step":3,"loss":2}"#, &["loss=2"], &[]),
        ] {
            let said = read(line, StepUnit::Step, 0);
            let taken: Vec<_> = taken.iter().map(|words| (3, (*words).to_owned())).collect();
            assert_eq!(said, (taken, remarks.iter().map(ToString::to_string).collect()), "{line}");
        }
    }

    #[test]
    fn a_step_may_be_written_as_any_float_that_is_exactly_one_integer() {
        for (written, step) in [("3.0", 3), ("1e15", 1_000_000_000_000_000), ("2e0", 2)]
            .into_iter()
            .chain([("9007199254740992.0", 1 << 53), ("\"9.007199254740992e15\"", 1 << 53)])
        {
            let line = format!("@hpsearch {{\"step\":{written},\"loss\":2}}");
            let said = read(&line, StepUnit::Step, 0);
            assert_eq!(said, (vec![(step, "loss=2".to_owned())], Vec::new()), "{line}");
        }
    }

    #[test]
    fn what_is_not_taken_says_why() {
        let beyond = format!("`step` must be an integer from 0 to {LARGEST_STEP}, not `9");
        let long = format!("@hpsearch {}", "x".repeat(1000));
        let nothing = "a report needs at least one metric beside `step`";
        for (line, why) in [
            (
                r#"@hpsearch {"step":1.5,"loss":2}"#,
                "`step` must be an integer of at least 0, not `1.5`",
            ),
            (r#"@hpsearch {"step":9223372036854775808,"loss":2}"#, &beyond),
            (
                r#"@hpsearch {"step":1e18,"a":1}"#,
                "`step` must be an integer from 0 to 9223372036854775807, beyond 9007199254740992 \
                 without a point or an exponent, not `1e",
            ),
            (r#"@hpsearch {"step":-1,"a":1}"#, "`step` must be an integer"),
            (r#"@hpsearch {"step":"one","a":1}"#, "`step` must be an integer"),
            (r#"@hpsearch {"step":true,"a":1}"#, "`step` must be an integer"),
            (r#"@hpsearch {"step":1e300,"a":1}"#, "`step` must be an integer"),
            (r#"@hpsearch {"step":1}"#, nothing),
            ("@hpsearch {}", nothing),
            ("@hpsearch 5", "`5` is not an object"),
            ("@hpsearch nonsense", "`nonsense` is not JSON: "),
            ("\x1b[32m@hpsearch nonsense\x1b[0m", "`nonsense` is not JSON: "),
            (&long, "`xxx"),
            (r#"@hpsearch {"step":1,"checkpoint":7}"#, "`checkpoint` must be a path, not `7`"),
            (r#"10%|## | 1/10@hpsearch {"loss":NaN}"#, "`@hpsearch` follows other text"),
        ] {
            let (taken, remarks) = read(line, StepUnit::Step, 6);
            assert!(taken.is_empty() && remarks.len() == 1, "{line}: {taken:?} {remarks:?}");
            assert!(remarks[0].starts_with(why) && remarks[0].len() < 200, "{line}: {remarks:?}");
        }
        let (taken, remarks) = read(r#"@hpsearch {"checkpoint":"a"}"#, StepUnit::Step, 0);
        assert!(taken.is_empty(), "{taken:?}");
        assert!(remarks[0].starts_with("the checkpoint `a` comes without its `step`"));
    }

    #[test]
    fn parameters_and_a_summary_are_objects_of_scalars() {
        let line = r#"@hpsearch {"params":{"lr":0.1,"deep":{"a":1}},"summary":{"best":"yes"}}"#;
        let (taken, remarks) = read(line, StepUnit::Step, 0);
        let taken: Vec<_> = taken.into_iter().map(|(_, words)| words).collect();
        assert!(taken[0].contains("Float(0.1)") && taken[1].contains("yes"), "{taken:?}");
        assert_eq!((taken.len(), remarks.len()), (2, 1), "{remarks:?}");
        let line = r#"@hpsearch {"params":{"a":1},"step":2,"loss":3}"#;
        let (taken, remarks) = read(line, StepUnit::Step, 0);
        assert_eq!((taken.len(), taken[1].0, remarks.len()), (2, 2, 0), "{taken:?}");
        // A metric may have any name.
        let metric = read(r#"@hpsearch {"params":7}"#, StepUnit::Step, 0);
        assert_eq!(metric, (vec![(0, "step counted params=7".to_owned())], vec![]));
    }

    #[test]
    fn what_is_no_message_is_log() {
        for line in [
            "",
            "@hpsearch",
            "@hpsearch\n",
            "@hpsearch-like",
            "see @hpsearch {step}",
            "+ echo '@hpsearch {\"step\":1}'",
            "@hpsearc {}",
        ] {
            assert_eq!(read(line, StepUnit::Step, 0), (vec![], vec!["log".to_owned()]), "{line}");
        }
    }
}
