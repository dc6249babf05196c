//! Notifications about a study: their occasions, recipients and texts.

use serde::{Deserialize, Serialize};

/// An occasion for a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Occasion {
    /// A trial is the new best.
    Best,
    /// The run ended.
    Finished,
    /// A trial failed.
    Failed,
    /// A trial was ended because it reported nothing for `stall_time`, or ran for `trial_time`.
    Stalled,
    /// Nine tenths of the budget are used.
    Budget,
}

impl Occasion {
    /// All of them.
    pub const ALL: [Occasion; 5] =
        [Occasion::Best, Occasion::Finished, Occasion::Failed, Occasion::Stalled, Occasion::Budget];

    /// Their names in a study file.
    pub const WORDS: &'static [&'static str] = &["best", "finished", "failed", "stalled", "budget"];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Occasion::Best => "best",
            Occasion::Finished => "finished",
            Occasion::Failed => "failed",
            Occasion::Stalled => "stalled",
            Occasion::Budget => "budget",
        }
    }
}

/// `[notify]`: the recipients, and the occasions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NotifySpec {
    /// A command line; empty: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The environment variable with the address of a webhook: never the address itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// The occasions.
    pub on: Vec<Occasion>,
}

impl Default for NotifySpec {
    fn default() -> Self {
        NotifySpec { command: Vec::new(), webhook: None, on: Occasion::ALL.to_vec() }
    }
}

impl NotifySpec {
    /// Whether there is no recipient.
    pub fn has_no_recipient(&self) -> bool {
        self.command.is_empty() && self.webhook.is_none()
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Its occasion.
    pub occasion: Occasion,
    /// Name of the study.
    pub study: String,
    /// The number of the trial concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<u64>,
    /// One sentence.
    pub text: String,
}

impl Notice {
    /// Merges messages: the last of each occasion, with a count.
    pub fn together(notices: &[Notice]) -> Option<Notice> {
        let last = notices.last()?;
        if notices.len() == 1 {
            return Some(last.clone());
        }
        let sentences = Occasion::ALL.into_iter().filter_map(|occasion| {
            let of = || notices.iter().filter(|notice| notice.occasion == occasion);
            let text = &of().next_back()?.text;
            Some(match of().count() {
                1 => text.clone(),
                many => format!("{text} ({} more like it before)", many - 1),
            })
        });
        let text = sentences.collect::<Vec<_>>().join("; ");
        Some(Notice { text, ..last.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(occasion: Occasion, trial: u64) -> Notice {
        let text = format!("trial {trial} {}", occasion.as_str());
        Notice { occasion, study: "s".to_owned(), trial: Some(trial), text }
    }

    #[test]
    fn messages_of_one_kind_are_summed_up() {
        assert_eq!(Notice::together(&[]), None);
        let one = notice(Occasion::Best, 3);
        assert_eq!(Notice::together(std::slice::from_ref(&one)), Some(one.clone()));
        let many = [notice(Occasion::Failed, 1), one, notice(Occasion::Failed, 4)];
        let together = Notice::together(&many).unwrap();
        assert_eq!(together.text, "trial 3 best; trial 4 failed (1 more like it before)");
        assert_eq!((together.occasion, together.trial), (Occasion::Failed, Some(4)));
    }

    #[test]
    fn words_are_those_of_study_files() {
        for (occasion, word) in Occasion::ALL.into_iter().zip(Occasion::WORDS) {
            assert_eq!(occasion.as_str(), *word);
            assert_eq!(serde_json::to_value(occasion).unwrap(), *word);
        }
    }
}
