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
    "rouge",
    "map",
    "ndcg",
    "mrr",
    "iou",
    "psnr",
    "reward",
];

/// Words that turn the others around, as in scikit-learn's `neg_mean_squared_error`.
const NEGATED: &[&str] = &["neg", "negative"];

/// The usual direction of a metric; `None` if the whole words of its name do not say, or contradict
/// each other.
///
/// ```
/// use hpsearch_core::study::metric::Direction;
/// use hpsearch_core::study::usual_direction::usual_direction;
///
/// assert_eq!(usual_direction("val_accuracy"), Some(Direction::Maximize));
/// assert_eq!(usual_direction("valLoss"), Some(Direction::Minimize));
/// assert_eq!(usual_direction("neg_mean_squared_error"), Some(Direction::Maximize));
/// assert_eq!(usual_direction("glossary_size"), None);
/// ```
#[must_use]
pub fn usual_direction(metric: &str) -> Option<Direction> {
    let words = words(metric);
    let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    match (has(SMALLER), has(LARGER), has(NEGATED)) {
        (true, false, false) | (false, true, true) => Some(Direction::Minimize),
        (false, true, false) | (true, false, true) => Some(Direction::Maximize),
        (true, true, _) | (false, false, _) => None,
    }
}

/// The words of a name, in lower case: `val/top1_acc` and `valTop1Acc` have `val`, `top1` and
/// `acc`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for char in name.chars() {
        let is_new = char.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit());
        if is_new || !char.is_alphanumeric() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (char.is_alphanumeric(), words.last_mut()) {
            word.extend(char.to_lowercase());
        }
        before = char;
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
    fn a_negated_metric_has_the_other_direction() {
        assert_eq!(usual_direction("neg_root_mean_squared_error"), Some(Direction::Maximize));
        assert_eq!(usual_direction("neg_accuracy"), Some(Direction::Minimize));
        assert_eq!(usual_direction("negative"), None);
    }
}
