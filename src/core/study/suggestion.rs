//! "Did you mean": the known word most similar to a written one, by one rule for the whole program.

/// Terms of other programs, and ours.
const SYNONYMS: &[(&str, &str)] = &[
    ("n_trials", "trials"),
    ("num_trials", "trials"),
    ("max_trials", "trials"),
    ("timeout", "time"),
    ("max_time", "time"),
    ("goal", "direction"),
    ("mode", "direction"),
    ("objective", "metric"),
    ("parameters", "space"),
    ("params", "space"),
    ("search_space", "space"),
    ("dataset", "data"),
    ("device", "devices"),
    ("scheduler", "pruner"),
    ("program", "command"),
    ("args", "run"),
    ("concurrency", "trials_per_device"),
    ("values", "choice"),
    ("categorical", "choice"),
    ("uniform", "float"),
    ("loguniform", "float"),
    ("log_uniform", "float"),
    ("quniform", "float"),
    ("randint", "int"),
    ("integer", "int"),
    ("default", "prior"),
    ("condition", "when"),
    ("if", "when"),
    ("method", "type"),
    ("name", "type"),
    ("number", "trial"),
    ("output_dir", "trial_dir"),
    ("gradient_clipping", "max_grad_norm"),
    ("gradient_clip_val", "max_grad_norm"),
    ("clip_grad_norm", "max_grad_norm"),
    ("grad_clip", "max_grad_norm"),
    ("clip_grad", "max_grad_norm"),
    ("clip", "max_grad_norm"),
    ("truncation", "max_length"),
    ("max_epochs", "num_train_epochs"),
    ("steps", "max_steps"),
    ("accumulate_grad_batches", "gradient_accumulation_steps"),
    ("val_check_interval", "eval_steps"),
    ("eval_batch_size", "per_device_eval_batch_size"),
    ("scheduler", "lr_scheduler_type"),
    ("schedule", "lr_scheduler_type"),
    ("warmup", "warmup_steps"),
    ("betas", "adam_beta1"),
    ("beta1", "adam_beta1"),
    ("beta2", "adam_beta2"),
    ("eps", "adam_epsilon"),
    ("use_lora", "lora_r"),
    ("lora_rank", "lora_r"),
    ("rank", "lora_r"),
    ("peft", "lora_r"),
    ("adapter", "lora_r"),
    ("embedding_dim", "model.hidden_size"),
    // Tasks of transformers' pipelines.
    ("text_generation", "language-modeling"),
    ("causal_lm", "language-modeling"),
    ("fill_mask", "masked-language-modeling"),
    ("mlm", "masked-language-modeling"),
    ("sequence_classification", "text-classification"),
    ("sentiment_analysis", "text-classification"),
    ("ner", "token-classification"),
    ("feature_extraction", "sentence-similarity"),
];

/// Least Jaro-Winkler similarity of a suggestion: one slip in a short word, two in a long one.
const LEAST_SIMILARITY: f64 = 0.8;

/// The one of `candidates` most similar to `word`, if any is close: by spelling, synonym, initials
/// or prefix (`lr`), transposition, or a typo. The last component of a dotted name stands for the
/// whole; ties go to the first.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = similarity_to(word);
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        let similarity = similarity(candidate);
        if similarity > best.map_or(LEAST_SIMILARITY, |(similarity, _)| similarity) {
            best = Some((similarity, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The `most` of `candidates` that are most similar to `word` by the same rule, close or not; ties
/// in their order.
pub fn nearest_few<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let similarity = similarity_to(word);
    let mut candidates: Vec<(f64, &str)> =
        candidates.into_iter().map(|candidate| (similarity(candidate), candidate)).collect();
    candidates.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    candidates.into_iter().take(most).map(|(_, candidate)| candidate).collect()
}

/// The similarity of candidates to `word`.
fn similarity_to(word: &str) -> impl Fn(&str) -> f64 {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    let word = plain(word);
    let synonyms: Vec<&str> =
        SYNONYMS.iter().filter(|(from, _)| *from == word).map(|(_, to)| *to).collect();
    move |candidate| {
        let lower = plain(candidate);
        let last = lower.rsplit('.').next().unwrap_or(&lower);
        let initials: String = last.split('_').filter_map(|part| part.chars().next()).collect();
        if lower == word {
            4.0
        } else if last == word {
            3.0
        } else if synonyms.contains(&candidate) {
            2.0
        } else if word.len() > 1 && (initials == word || last.starts_with(&word)) {
            0.95
        } else if word.len() > 2 && sorted(&word) == sorted(last) {
            0.9
        } else {
            strsim::jaro_winkler(&word, &lower).max(strsim::jaro_winkler(&word, last))
        }
    }
}

/// `a`, `b` and `c` in backticks.
pub fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_synonyms_and_other_spellings_find_their_word() {
        let keys = ["trials", "time", "target", "trial_time"];
        assert_eq!(nearest("trails", keys), Some("trials"));
        assert_eq!(nearest("tmie", keys), Some("time"));
        assert_eq!(nearest("n_trials", keys), Some("trials"));
        assert_eq!(nearest("Trial-Time", keys), Some("trial_time"));
        assert_eq!(nearest("quantize", keys), None);
        let of_trainer = ["gradient_checkpointing", "max_grad_norm", "grad_norm", "train"];
        for other in ["gradient_clipping", "gradient_clip_val", "clip_grad_norm"] {
            assert_eq!(nearest(other, of_trainer), Some("max_grad_norm"), "{other}");
        }
        assert_eq!(nearest("truncation", ["train", "max_length"]), Some("max_length"));
        let warmups = ["lr_scheduler_kwargs.warmup_type", "warmup_steps", "warmup_ratio"];
        assert_eq!(nearest("warmup", warmups), Some("warmup_steps"));
        assert_eq!(nearest("use_lora", ["use_rslora", "lora_r"]), Some("lora_r"));
        assert_eq!(nearest("hidden_size", ["model.hidden_size"]), Some("model.hidden_size"));
        assert_eq!(nearest_few("tiral", keys, 2), ["trials", "trial_time"]);
    }
}
