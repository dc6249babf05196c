//! Which values of a metric are usually better, by its name.

use crate::study::metric::Direction;

/// Words of metrics of which smaller values are better.
const SMALLER: &[&str] = &[
    "loss",
    "losses",
    "logloss",
    "error",
    "errors",
    "err",
    "mse",
    "rmse",
    "mae",
    "mape",
    "smape",
    "rmsle",
    "nll",
    "perplexity",
    "ppl",
    "wer",
    "cer",
    "fid",
    "brier",
];

/// Words of metrics of which larger values are better.
const LARGER: &[&str] = &[
    "accuracy",
    "acc",
    "auc",
    "auroc",
    "auprc",
    "f1",
    "precision",
    "recall",
    "r2",
    "bleu",
    "sacrebleu",
    "rouge",
    "map",
    "ndcg",
    "mrr",
    "iou",
    "miou",
    "psnr",
    "reward",
];

/// Words of metrics of which larger values may be better, unless another word says otherwise.
const PERHAPS_LARGER: &[&str] = &["score", "scores", "return", "returns"];

/// Words that negate an error or a loss behind them, as in scikit-learn's
/// `neg_mean_squared_error`.
const NEGATIONS: &[&str] = &["neg", "negative"];

/// Words with which `negative` is part of a term: negative log-likelihood, negative sampling and
/// false negatives.
const TERMS: &[&str] = &["likelihood", "sampling", "false"];

/// The usual direction of a metric; `None` if the whole words of its name do not say, or contradict
/// each other.
///
/// ```
/// use hpsearch_core::study::metric::Direction;
/// use hpsearch_core::study::usual_direction::usual_direction;
///
/// assert_eq!(usual_direction("val_accuracy"), Some(Direction::Maximize));
/// assert_eq!(usual_direction("valLoss"), Some(Direction::Minimize));
/// assert_eq!(usual_direction("mAP50"), Some(Direction::Maximize));
/// assert_eq!(usual_direction("neg_mean_squared_error"), Some(Direction::Maximize));
/// assert_eq!(usual_direction("glossary_size"), None);
/// ```
#[must_use]
pub fn usual_direction(metric: &str) -> Option<Direction> {
    let words = words(metric);
    let first = |known: &[&str]| words.iter().position(|word| is_one_of(word, known));
    let is_term = first(TERMS).is_some();
    let is_before = |words: &[&str], at| first(words).is_some_and(|negation| negation < at);
    match (first(SMALLER), first(LARGER)) {
        (Some(at), None) if is_before(NEGATIONS, at) && !is_term => Some(Direction::Maximize),
        (Some(_), None) => Some(Direction::Minimize),
        // Either the negated metric, or that of the negative class.
        (None, Some(at)) if is_before(&["neg"], at) => None,
        (None, Some(_)) => Some(Direction::Maximize),
        (None, None) => first(&["likelihood"])
            .filter(|at| is_before(NEGATIONS, *at))
            .map(|_| Direction::Minimize),
        (Some(_), Some(_)) => None,
    }
}

/// The direction to propose for a metric: the usual one, or else to maximize scores and returns and
/// to minimize all others.
#[must_use]
pub fn proposed_direction(metric: &str) -> Direction {
    let may_be_larger = || words(metric).iter().any(|word| is_one_of(word, PERHAPS_LARGER));
    usual_direction(metric).unwrap_or_else(|| match may_be_larger() {
        true => Direction::Maximize,
        false => Direction::Minimize,
    })
}

/// Whether it is one of the known words, perhaps with a number: `acc1`.
fn is_one_of(word: &str, known: &[&str]) -> bool {
    let without_number = word.trim_end_matches(|char: char| char.is_ascii_digit());
    known.contains(&word) || known.contains(&without_number)
}

/// The words of a name in lower case, each followed by the undivided rest of its part between
/// separators: `val/top1_acc` and `valTop1Acc` have `val`, `top1` and `acc`, and `mIoU` has `iou`.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split(|char: char| !char.is_alphanumeric()) {
        let mut before = None;
        let starts: Vec<usize> = part
            .char_indices()
            .filter_map(|(at, char)| {
                let before: Option<char> = before.replace(char);
                let is_new = before.is_none_or(|before| {
                    (char.is_uppercase() && before.is_lowercase())
                        || (char.is_alphabetic() && before.is_ascii_digit())
                });
                is_new.then_some(at)
            })
            .collect();
        let ends = starts.iter().skip(1).copied().chain([part.len()]);
        for (start, end) in starts.iter().zip(ends) {
            words.extend([&part[*start..end], &part[*start..]].map(str::to_lowercase));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_words_of_a_name_tell_which_values_are_better() {
        let larger = ["accuracy", "val/acc", "ROC AUC", "valAcc", "F1Score", "top1_acc", "R2"];
        for name in larger {
            assert_eq!(usual_direction(name), Some(Direction::Maximize), "{name}");
        }
        for name in ["loss", "train.loss", "valLoss", "RMSE", "error_rate", "test-WER", "LogLoss"] {
            assert_eq!(usual_direction(name), Some(Direction::Minimize), "{name}");
        }
        for name in ["glossary", "terror", "accept", "mapping", "score", "", "accuracy_loss", "x"] {
            assert_eq!(usual_direction(name), None, "{name}");
        }
    }

    #[test]
    fn numbers_and_capitals_within_the_name_of_a_metric_hide_it_from_nobody() {
        let names = "mAP mAP50 metrics/mAP50-95(B) mIoU miou meanIoU val_mIoU acc1 val/acc5 \
            top1acc rouge1 rougeL eval_rouge2 bleu4 BLEU-4 sacrebleu f1score auc0";
        for name in names.split(' ') {
            assert_eq!(usual_direction(name), Some(Direction::Maximize), "{name}");
        }
        for name in ["loss1", "val_mae2", "RMSE24h", "l2loss"] {
            assert_eq!(usual_direction(name), Some(Direction::Minimize), "{name}");
        }
        for name in ["accs50x", "f12", "r20", "50"] {
            assert_eq!(usual_direction(name), None, "{name}");
        }
    }

    #[test]
    fn only_an_error_or_a_loss_is_negated_and_only_by_a_word_before_it() {
        let negated = "neg_root_mean_squared_error neg_log_loss test_neg_brier_score negMSE \
            negative_mean_absolute_error neg_nll";
        for name in negated.split(' ') {
            assert_eq!(usual_direction(name), Some(Direction::Maximize), "{name}");
        }
        for name in ["f1_negative", "recall_negative", "negative_precision", "acc/neg"] {
            assert_eq!(usual_direction(name), Some(Direction::Maximize), "{name}");
        }
        let losses = "negative_log_likelihood neg_log_likelihood negative_log_likelihood_loss \
            negative_sampling_loss false_negative_error loss_negative";
        for name in losses.split(' ') {
            assert_eq!(usual_direction(name), Some(Direction::Minimize), "{name}");
        }
        for name in ["negative", "neg_accuracy", "log_likelihood", "negative_samples"] {
            assert_eq!(usual_direction(name), None, "{name}");
        }
    }

    #[test]
    fn scores_and_returns_are_proposed_to_be_maximized_unless_their_name_says_otherwise() {
        for name in ["score", "episode_return", "meanReturns", "score2", "val_acc"] {
            assert_eq!(proposed_direction(name), Direction::Maximize, "{name}");
        }
        for name in ["brier_score", "fid-score", "underscored", "x", "", "neg_accuracy"] {
            assert_eq!(proposed_direction(name), Direction::Minimize, "{name}");
        }
    }
}
