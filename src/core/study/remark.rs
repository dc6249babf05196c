//! Remarks about a trial's printed lines, and the merging of its reports by step.

use serde::{Deserialize, Serialize};

use crate::study::metric::Metrics;
use crate::study::step::StepUnit;

/// The kind of a remark: the first of each kind is reported, and the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemarkKind {
    /// The rest of the line is not a JSON object.
    NotJson,
    /// A key or message reserved by hpsearch.
    Reserved,
    /// The step is not an integer.
    Step,
    /// A value is not a number.
    Value,
    /// The line contains nothing to record.
    Empty,
    /// The prefix is not at the beginning of the line.
    Misplaced,
    /// It was printed to standard error.
    StandardError,
    /// It is longer than a message may be.
    TooLong,
    /// A rejected checkpoint.
    Checkpoint,
    /// A checkpoint that may be overwritten and is not copied.
    Uncopied,
    /// A checkpoint that was overwritten before it was copied; only in the trial's log.
    Superseded,
    /// A pattern of `[command.metrics]` that matched nothing, or text that is not a number.
    Pattern,
    /// A file of `[command.metrics]` that is unreadable or empty.
    MetricFile,
    /// A rejected artifact, image, text or table.
    Artifact,
    /// A truncated text.
    Cut,
    /// A checkpoint from which the trainer could not resume.
    StartedOver,
    /// The same, if it resumed from an earlier one.
    WentBackTo,
    /// It ran on after it was asked to pause.
    RanOn,
    /// It lost checkpoints while it ran.
    Removed,
    /// Two values for the same step.
    Repeated,
    /// A step after a later one.
    WentBack,
    /// The command's own files are not what they were when the run began.
    ChangedProgram,
}

impl RemarkKind {
    /// Whether printed data was lost.
    pub fn is_loss(self) -> bool {
        !matches!(
            self,
            RemarkKind::WentBack
                | RemarkKind::Uncopied
                | RemarkKind::Superseded
                | RemarkKind::Pattern
                | RemarkKind::MetricFile
                | RemarkKind::StartedOver
                | RemarkKind::WentBackTo
                | RemarkKind::RanOn
                | RemarkKind::Removed
                | RemarkKind::ChangedProgram
        )
    }

    /// The consequence, and what to print instead.
    fn consequence(self) -> &'static str {
        match self {
            RemarkKind::NotJson => {
                "the line is ignored; print one object, such as `@hpsearch {\"step\": 1, \"loss\": \
                 0.5}`"
            }
            RemarkKind::Reserved => "the line is ignored; print metrics with names of your own",
            RemarkKind::Step => {
                "the line is ignored; print integers, or leave it out to have reports \
                 counted"
            }
            RemarkKind::Value => "this value is ignored; print a number, NaN or Infinity",
            RemarkKind::Empty => {
                "the line is ignored; print for example `@hpsearch {\"step\": 1, \"loss\": 0.5}`"
            }
            RemarkKind::Misplaced => {
                "the line is ignored; end the line before it, or begin with a newline"
            }
            RemarkKind::StandardError => "the line is ignored; print it on standard output",
            RemarkKind::TooLong => "the line is ignored; print less in one line",
            RemarkKind::Checkpoint => {
                "the trial cannot continue from it; save it before its path is printed, and give \
                 each trial its own path, such as one in HPSEARCH_CHECKPOINT_DIR"
            }
            RemarkKind::Uncopied => {
                "once it is written again its step is lost; write each step to its own path, with \
                 the step in its name"
            }
            RemarkKind::Superseded => {
                "the later one is used; to keep each, read the answer to the report of its step \
                 before writing again, or put the step into its name"
            }
            RemarkKind::Pattern => {
                "repair the pattern; `hpsearch check STUDY.toml --try 'a line'` shows what those \
                 of a study file find"
            }
            RemarkKind::MetricFile => "see `json` and `tensorboard` in [command.metrics]",
            RemarkKind::Artifact => "it is not kept",
            RemarkKind::StartedOver => "the trial starts over",
            RemarkKind::WentBackTo => "the trial continues from that one",
            RemarkKind::RanOn => "its pauses save no time",
            RemarkKind::Removed => {
                "a program that reads them again may fail; raise it, or let the program save less"
            }
            RemarkKind::ChangedProgram => {
                "if trials read it, those before are of another version; `--fork NAME` starts a \
                 new study"
            }
            RemarkKind::Cut | RemarkKind::Repeated | RemarkKind::WentBack => "",
        }
    }
}

/// A remark about a line of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Its kind.
    pub kind: RemarkKind,
    /// What is wrong, without the consequence.
    pub why: String,
}

impl Remark {
    /// A remark.
    pub fn new(kind: RemarkKind, why: impl Into<String>) -> Self {
        Remark { kind, why: why.into() }
    }

    /// One sentence: what was rejected, why, and what to print instead.
    pub fn text(&self) -> String {
        match self.kind.consequence() {
            "" => self.why.clone(),
            consequence => format!("{}: {consequence}", self.why),
        }
    }
}

/// One sentence about a trial that reported other metrics than the study's.
pub fn without_metric(others: &[&str], metric: &str) -> String {
    let others: Vec<String> = others.iter().map(|name| format!("`{name}`")).collect();
    format!(
        "it reported {} but never `{metric}`, the study's metric; let the program print that too, \
         or name another in [study]",
        others.join(", ")
    )
}

/// The reports of one attempt so far, merged by step; of repeated values the last counts.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    last: Option<(u64, Metrics)>,
}

impl Reports {
    /// The step of the last report.
    pub fn last_step(&self) -> Option<u64> {
        self.last.as_ref().map(|(step, _)| *step)
    }

    /// Adds a report; returns all metrics of its step reported consecutively, and remarks.
    pub fn take(
        &mut self,
        unit: StepUnit,
        step: u64,
        metrics: Metrics,
    ) -> (Metrics, Option<Remark>) {
        let (unit, units) = (unit.as_str(), unit.plural());
        let (merged, remark) = match self.last.take() {
            Some((at, mut merged)) if at == step => {
                let differs = |(name, value): (&str, f64)| {
                    merged.get(name).is_some_and(|before| before.to_bits() != value.to_bits())
                };
                let overwrites = metrics.iter().any(differs);
                let why = || {
                    format!(
                        "{unit} {step} was reported twice: the later values count, the verdict \
                         stays"
                    )
                };
                let remark = overwrites.then(|| Remark::new(RemarkKind::Repeated, why()));
                merged.0.extend(metrics.0);
                (merged, remark)
            }
            Some((at, _)) if step < at => {
                let why = format!(
                    "{unit} {step} came after {unit} {at}: reports are kept by their {units}, \
                     whatever their order"
                );
                (metrics, Some(Remark::new(RemarkKind::WentBack, why)))
            }
            _ => (metrics, None),
        };
        self.last = Some((step, merged.clone()));
        (merged, remark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(pairs: &[(&str, f64)]) -> Metrics {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn metrics_of_one_step_are_merged_and_only_what_is_overwritten_is_remarked() {
        let mut reports = Reports::default();
        let mut take = |step, pairs: &[(&str, f64)]| {
            let (merged, remark) = reports.take(StepUnit::Epoch, step, metrics(pairs));
            (merged, remark.map(|remark| (remark.kind, remark.text())))
        };
        assert_eq!(take(1, &[("loss", 0.5)]), (metrics(&[("loss", 0.5)]), None));
        assert_eq!(
            take(1, &[("eval_loss", 0.7)]),
            (metrics(&[("loss", 0.5), ("eval_loss", 0.7)]), None)
        );
        let twice =
            "epoch 1 was reported twice: the later values count, the verdict stays".to_owned();
        assert_eq!(
            take(1, &[("loss", 0.4)]),
            (metrics(&[("loss", 0.4), ("eval_loss", 0.7)]), Some((RemarkKind::Repeated, twice)))
        );
        assert_eq!(take(1, &[("loss", 0.4)]).1, None, "the same once more is nothing to speak of");
        assert_eq!(take(3, &[("loss", 0.3)]), (metrics(&[("loss", 0.3)]), None));
        let back =
            "epoch 2 came after epoch 3: reports are kept by their epochs, whatever their order"
                .to_owned();
        assert_eq!(
            take(2, &[("loss", f64::NAN)]),
            (metrics(&[("loss", f64::NAN)]), Some((RemarkKind::WentBack, back)))
        );
        assert_eq!(take(2, &[("loss", f64::NAN)]).1, None, "NaN is NaN");
    }

    #[test]
    fn a_checkpoint_that_is_refused_is_told_with_what_helps_whoever_wrote_it() {
        let why = "`last.pt` was written to while it was copied";
        let text = Remark::new(RemarkKind::Checkpoint, why).text();
        assert!(text.starts_with(why) && text.contains(": the trial cannot continue from it; "));
        assert!(text.ends_with("its own path, such as one in HPSEARCH_CHECKPOINT_DIR"));
    }
}
