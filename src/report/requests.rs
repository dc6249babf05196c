//! The wording of requests: the question before one that cannot be taken back, and what is said
//! once it is carried out.

use crate::study::request::{Request, Retried};
use crate::study::trial::TrialNumber;

/// What happens when a study stops.
pub const STOPS: &str = "running trials save a checkpoint; `hpsearch run` continues";

/// A question before a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub asks: String,
    /// What happens then.
    pub then: &'static str,
}

/// The question before a request of which something is lost, or that concerns many trials; `failed`
/// is the number of the study's failed trials.
pub fn question(request: &Request, failed: u64) -> Option<Question> {
    let question = |asks: String, then| Some(Question { asks, then });
    match request {
        Request::Stop => question("stop the study?".to_owned(), STOPS),
        Request::Kill { trial } => {
            question(format!("kill trial {trial}?"), "it ends at once and counts as failed")
        }
        Request::Hide { trial } => {
            question(format!("hide trial {trial}?"), "its checkpoints are removed")
        }
        Request::Retry { trials: Retried::AllFailed } if failed == 1 => question(
            "retry the failed trial?".to_owned(),
            "it is queued, and does not count twice in the budget",
        ),
        Request::Retry { trials: Retried::AllFailed } => question(
            format!("retry all {failed} failed trials?"),
            "they are queued, and do not count twice in the budget",
        ),
        _ => None,
    }
}

/// What a note or tag is said to have done; `None` of other requests, whose answers have words.
pub fn entered(request: &Request) -> Option<String> {
    match request {
        Request::Note { trial, .. } => Some(format!("noted on {}", subject(*trial))),
        Request::Tag { trial, tag, present } => {
            let is = if *present { "is" } else { "is no longer" };
            Some(format!("{} {is} tagged `{tag}`", subject(*trial)))
        }
        _ => None,
    }
}

fn subject(trial: Option<TrialNumber>) -> String {
    trial.map_or_else(|| "the study".to_owned(), |trial| format!("trial {trial}"))
}
