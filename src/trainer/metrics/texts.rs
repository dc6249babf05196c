//! Metrics of texts that were written, beside those that should have been: BLEU and chrF as
//! sacrebleu, ROUGE as rouge-score, the share of exact matches.

use std::collections::BTreeMap;

use super::super::floats::real;
use super::Metrics;

mod rouge;

/// Longest n-grams of BLEU and of chrF.
const WORDS: usize = 4;
const CHARACTERS: usize = 6;
/// How much more recall counts than precision in chrF.
const BETA: f64 = 2.0;

/// Counts over all texts.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct TextMetrics {
    texts: usize,
    /// Texts that were written exactly.
    exact: usize,
    tokens: usize,
    /// Tokens of written and of true texts, as BLEU counts them.
    lengths: [usize; 2],
    /// Of each length of n-grams: those of both, and all that were written.
    words: [[usize; 2]; WORDS],
    /// Of each length of n-grams of characters: written, true, and both.
    characters: [[usize; 3]; CHARACTERS],
    /// The sums of ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum.
    rouge: [f64; 4],
}

impl TextMetrics {
    /// Adds a text of `tokens` tokens, and what it should have been.
    pub(in super::super) fn add(&mut self, written: &str, truth: &str, tokens: usize) {
        self.texts += 1;
        self.tokens += tokens;
        self.exact += usize::from(written.trim() == truth.trim());
        let both = [written, truth].map(tokens_of);
        for (length, tokens) in self.lengths.iter_mut().zip(&both) {
            *length += tokens.len();
        }
        for (size, counts) in (1..).zip(&mut self.words) {
            let [written, truth] = both.each_ref().map(|tokens| counted(tokens, size));
            counts[0] += shared(&written, &truth);
            counts[1] += written.values().sum::<usize>();
        }
        let both = [written, truth].map(|text| {
            text.chars().filter(|character| !character.is_whitespace()).collect::<Vec<char>>()
        });
        for (size, counts) in (1..).zip(&mut self.characters) {
            let [written, truth] = both.each_ref().map(|characters| counted(characters, size));
            // Nothing is compared where the true text is too short.
            counts[0] += if truth.is_empty() { 0 } else { written.values().sum() };
            counts[1] += truth.values().sum::<usize>();
            counts[2] += shared(&written, &truth);
        }
        for (sum, score) in self.rouge.iter_mut().zip(rouge::scores(written, truth)) {
            *sum += score;
        }
    }

    /// The metrics over all texts; BLEU and chrF in [0, 100], the others in [0, 1].
    pub(in super::super) fn compute(&self) -> Metrics {
        let share = |count: f64| count / real(self.texts);
        let [rouge1, rouge2, rouge_l, rouge_lsum] = self.rouge.map(share);
        [
            ("bleu", self.bleu()),
            ("chrf", self.chrf()),
            ("rouge1", rouge1),
            ("rouge2", rouge2),
            ("rougeL", rouge_l),
            ("rougeLsum", rouge_lsum),
            ("exact_match", share(real(self.exact))),
            ("gen_len", share(real(self.tokens))),
        ]
        .into()
    }

    /// sacrebleu's `corpus_bleu` (Papineni et al. 2002; Post 2018), with exponential smoothing.
    fn bleu(&self) -> f64 {
        if self.words.iter().all(|[both, _]| *both == 0) {
            return 0.0;
        }
        let mut doubled = 1.0;
        let mut logarithms = 0.0;
        for [both, all] in self.words {
            if all == 0 {
                return 0.0;
            }
            let precision = if both == 0 {
                doubled *= 2.0;
                100.0 / (doubled * real(all))
            } else {
                100.0 * real(both) / real(all)
            };
            logarithms += precision.ln();
        }
        let [written, truth] = self.lengths.map(real);
        let brevity = if written < truth { (1.0 - truth / written).exp() } else { 1.0 };
        brevity * (logarithms / real(WORDS)).exp()
    }

    /// sacrebleu's `corpus_chrf` (Popović 2015): chrF2, without words.
    fn chrf(&self) -> f64 {
        let (mut precision, mut recall, mut sizes) = (0.0, 0.0, 0.0);
        for [written, truth, both] in self.characters {
            if written > 0 && truth > 0 {
                precision += real(both) / real(written);
                recall += real(both) / real(truth);
                sizes += 1.0;
            }
        }
        if precision + recall == 0.0 {
            return 0.0;
        }
        let (precision, recall) = (precision / sizes, recall / sizes);
        let factor = BETA * BETA;
        100.0 * (1.0 + factor) * precision * recall / (factor * precision + recall)
    }
}

/// How often each n-gram of `size` items occurs.
fn counted<T: Ord>(items: &[T], size: usize) -> BTreeMap<&[T], usize> {
    let mut counts = BTreeMap::new();
    for sequence in items.windows(size) {
        *counts.entry(sequence).or_default() += 1;
    }
    counts
}

/// N-grams that occur in both.
fn shared<T: Ord>(one: &BTreeMap<&[T], usize>, other: &BTreeMap<&[T], usize>) -> usize {
    let both = one.iter().map(|(key, count)| (*count).min(other.get(key).copied().unwrap_or(0)));
    both.sum()
}

/// The tokens of BLEU's tokenizer `13a`, that of `mteval-v13a.pl`.
fn tokens_of(text: &str) -> Vec<String> {
    let mut text = text.trim_end().replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    if text.contains('&') {
        for (name, character) in [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")] {
            text = text.replace(name, character);
        }
    }
    let is_apart = |character: char| {
        matches!(
            character,
            '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/'
        )
    };
    let mut spaced: Vec<char> = vec![' '];
    for character in text.chars() {
        if is_apart(character) {
            spaced.extend([' ', character, ' ']);
        } else {
            spaced.push(character);
        }
    }
    spaced.push(' ');
    let is_point = |character: char| matches!(character, '.' | ',');
    let is_digit = |character: char| character.is_ascii_digit();
    let spaced = each_pair(&spaced, |one, other| {
        (!is_digit(one) && is_point(other)).then(|| vec![one, ' ', other, ' '])
    });
    let spaced = each_pair(&spaced, |one, other| {
        (is_point(one) && !is_digit(other)).then(|| vec![' ', one, ' ', other])
    });
    let spaced = each_pair(&spaced, |one, other| {
        (is_digit(one) && other == '-').then(|| vec![one, ' ', other, ' '])
    });
    let text: String = spaced.into_iter().collect();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Replaces pairs of neighbours, none of which overlap, from left to right.
fn each_pair(
    characters: &[char],
    replacement: impl Fn(char, char) -> Option<Vec<char>>,
) -> Vec<char> {
    let mut replaced = Vec::with_capacity(characters.len());
    let mut at = 0;
    while at < characters.len() {
        match characters.get(at + 1).and_then(|other| replacement(characters[at], *other)) {
            Some(both) => {
                replaced.extend(both);
                at += 2;
            }
            None => {
                replaced.push(characters[at]);
                at += 1;
            }
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_scored_as_by_sacrebleu_and_rouge_score() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../tests/golden/texts.json")).unwrap();
        for (name, group) in golden.as_object().unwrap() {
            let mut metrics = TextMetrics::default();
            for pair in group["pairs"].as_array().unwrap() {
                let [written, truth] = [0, 1].map(|index| pair[index].as_str().unwrap());
                metrics.add(written, truth, 3);
            }
            let computed = metrics.compute();
            for metric in ["bleu", "chrf", "rouge1", "rouge2", "rougeL", "rougeLsum"] {
                let (own, theirs) = (computed[metric], group[metric].as_f64().unwrap());
                assert!((own - theirs).abs() < 1e-9, "{name} {metric}: {own}, not {theirs}");
            }
            assert_eq!(computed["gen_len"], 3.0);
        }
    }
}
