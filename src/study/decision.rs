//! What a pruner decides about a running trial, always with its reason and numbers.

use serde::{Deserialize, Serialize};

/// One sentence with its numbers, such as `rank 9 of 12 at step 300; 4 go on`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reason(pub String);

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a trial had to reach, as its verdict's sentence says it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CutOff {
    /// Of so many reports the best `first` go on.
    Rank {
        /// How many go on.
        first: usize,
        /// How many were compared.
        of: usize,
    },
    /// This value.
    Value(f64),
}

impl Reason {
    /// What the trial had to reach. The sentence is read, since the journal keeps nothing else: running the pruner again over
    /// the history would not give it, as it is asked in the order of reports and requests, and may have been another one before
    /// `--accept`. A test holds this against the sentences of every pruner; one of another form gives nothing, never a wrong
    /// number.
    pub fn cut_off(&self) -> Option<CutOff> {
        let text = self.0.as_str();
        if let Some((before, _)) = text.split_once(" go on").or_else(|| text.split_once(" goes on"))
        {
            let (_, rank) = before.split_once("rank ")?;
            let of = rank.split_once(" of ").and_then(|(_, of)| number(of))?;
            return Some(CutOff::Rank { first: number(before.rsplit(' ').next()?)?, of });
        }
        let (_, border) =
            text.split_once("worse than ").or_else(|| text.split_once(" the threshold "))?;
        number(border.strip_prefix("the median ").unwrap_or(border)).map(CutOff::Value)
    }
}

/// The number that a text begins with, up to a space or a mark between words.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.split([' ', ',', ';']).next()?.parse().ok()
}

/// The answer to a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Go on; a reason only where something was decided (a rung was passed).
    Continue(Option<Reason>),
    /// Save a checkpoint and leave; the trial may be resumed later.
    Pause(Reason),
    /// Leave for good: the trial is pruned.
    Stop(Reason),
}

impl Verdict {
    /// Nothing to decide at this report.
    pub const GO_ON: Verdict = Verdict::Continue(None);

    /// The word of the wire and the store: `continue`, `pause` or `stop`.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Continue(_) => "continue",
            Verdict::Pause(_) => "pause",
            Verdict::Stop(_) => "stop",
        }
    }

    /// The reason, where there is one.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Verdict::Continue(reason) => reason.as_ref(),
            Verdict::Pause(reason) | Verdict::Stop(reason) => Some(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_off_is_read_from_the_sentences_of_pruners() {
        let rank = |first, of| Some(CutOff::Rank { first, of });
        let value = |value| Some(CutOff::Value(value));
        let sentences = [
            ("rank 9 of 12 at step 300; 4 go on", rank(4, 12)),
            ("rank 2 of 3 at step 1; 1 goes on", rank(1, 3)),
            ("rank 1 of 1 at step 1; the first 2 go on", rank(2, 1)),
            ("rung 3 reached with rank 2 of 5; the best 1 go on", rank(1, 5)),
            (
                "best value 0.45 is worse than the median 0.4 of 3 completed trials at step 2",
                value(0.4),
            ),
            (
                "best value -1e-9 is not worse than 1.75, percentile 25 of 4 completed trials at step 1",
                value(1.75),
            ),
            (
                "the best value 0.5 of the last 2 reports up to step 4 is worse than -inf before them by more than 1",
                value(f64::NEG_INFINITY),
            ),
            ("value 2.5 at step 2 is above the threshold 2", value(2.0)),
            ("the value at step 3 is NaN", None),
            (
                "p = 0.01 at 4 steps in common with the best trial 3 is below 0.1, and the mean 4 is worse than its 3",
                None,
            ),
            ("", None),
            ("it goes on", None),
        ];
        for (sentence, expected) in sentences {
            assert_eq!(Reason(sentence.to_owned()).cut_off(), expected, "{sentence}");
        }
    }
}
