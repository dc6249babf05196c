//! "Did you mean": the known word that a written one is most like.

/// Words of other programs, and what this one says.
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
];

/// The one of `candidates` that `word` most likely means, if any is near.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let plain = word.to_lowercase().replace(['-', ' '], "_");
    if let Some(same) =
        candidates.iter().find(|candidate| candidate.to_lowercase().replace('-', "_") == plain)
    {
        return Some(same);
    }
    let synonyms = SYNONYMS.iter().filter(|(from, _)| *from == plain);
    if let Some(candidate) =
        synonyms.flat_map(|(_, to)| candidates.iter().find(|candidate| *candidate == to)).next()
    {
        return Some(candidate);
    }
    // 0.8 takes one slip in a short word and two in a long one.
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&plain, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(mine, _), (theirs, _)| mine.total_cmp(theirs))
        .map(|(_, candidate)| candidate)
}

/// `a`, `b` and `c` in backticks.
pub(crate) fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_synonyms_and_other_spellings_find_their_word() {
        let keys = ["trials", "time", "target", "trial_time"];
        assert_eq!(nearest("trails", keys), Some("trials"));
        assert_eq!(nearest("n_trials", keys), Some("trials"));
        assert_eq!(nearest("Trial-Time", keys), Some("trial_time"));
        assert_eq!(nearest("quantize", keys), None);
    }
}
