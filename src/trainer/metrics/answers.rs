//! The metrics of question answering: answers as transformers' `utils_qa.py` finds them in the
//! logits of their windows, compared as SQuAD 2.0's script compares them.

use std::collections::BTreeMap;

use super::super::floats::real;
use super::log_softmax;

/// Starts and ends of a window that are tried, and answers of a question that are kept:
/// `run_qa.py`'s `n_best_size`.
const BEST: usize = 20;

/// A part of a context that may be an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Span {
    /// The sum of the logits of its start and its end.
    pub(in super::super) score: f64,
    /// The probability of its start times that of its end, among the tokens of the context in its
    /// window and the first one, which stands for no answer.
    pub(in super::super) probability: f64,
    /// The window that it is in.
    window: usize,
    /// Its characters within the context.
    pub(in super::super) begin: usize,
    pub(in super::super) end: usize,
}

/// What the windows of a question say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in super::super) struct FoundAnswers {
    /// The best ones first.
    spans: Vec<Span>,
    /// The least score, over windows, that there is no answer, with its probability.
    none: Option<[f64; 2]>,
}

impl FoundAnswers {
    /// Adds a window: for each token the logits of an answer's start and end there, and the
    /// characters of the context that it stands for, if it is of the context. An answer has at most
    /// `longest` tokens.
    pub(in super::super) fn add(
        &mut self,
        window: usize,
        [starts, ends]: [&[f32]; 2],
        places: &[Option<[usize; 2]>],
        longest: usize,
    ) {
        let may_be = |(token, number): (usize, &f32)| match places.get(token) {
            Some(Some(_)) => *number,
            _ if token == 0 => *number,
            _ => f32::NEG_INFINITY,
        };
        let [of_starts, of_ends] = [starts, ends]
            .map(|numbers| numbers.iter().enumerate().map(may_be).collect::<Vec<f32>>())
            .map(|numbers| log_softmax(&numbers));
        let score = |start: usize, end: usize| f64::from(starts[start]) + f64::from(ends[end]);
        let probability = |start: usize, end: usize| (of_starts[start] + of_ends[end]).exp();
        let none = [score(0, 0), probability(0, 0)];
        self.none = Some(self.none.filter(|known| known[0] <= none[0]).unwrap_or(none));
        let [best_starts, best_ends] = [starts, ends].map(best);
        for start in best_starts {
            for end in &best_ends {
                let (Some(Some(first)), Some(Some(last))) = (places.get(start), places.get(*end))
                else {
                    continue;
                };
                if *end < start || end - start + 1 > longest {
                    continue;
                }
                self.spans.push(Span {
                    score: score(start, *end),
                    probability: probability(start, *end),
                    window,
                    begin: first[0],
                    end: last[1],
                });
            }
        }
        // Among equals the earlier window's, as a stable sort of all windows in order has it.
        self.spans.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.window.cmp(&b.window)));
        self.spans.truncate(BEST);
    }

    /// The best answer; `None` if there is none, or if it is likelier that there is none where that
    /// `may_be`.
    pub(in super::super) fn best(&self, may_be_none: bool) -> Option<&Span> {
        let best = self.spans.iter().find(|span| span.end > span.begin)?;
        let none = self.none.filter(|none| may_be_none && none[0] > best.score);
        none.is_none().then_some(best)
    }

    /// The probability that there is no answer, by the window that doubts it most.
    pub(in super::super) fn probability_of_none(&self) -> f64 {
        self.none.map_or(1.0, |none| none[1])
    }
}

/// The indices of the greatest numbers, the greatest first.
fn best(numbers: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|a, b| numbers[*b].total_cmp(&numbers[*a]));
    order.truncate(BEST);
    order
}

/// Question answering: the shares of answers that match exactly, and of words that match, as SQuAD
/// 2.0's script counts them (there in percent).
#[derive(Debug, Default)]
pub(in super::super) struct AnswerMetrics {
    exact: f64,
    f1: f64,
    questions: usize,
}

impl AnswerMetrics {
    /// Adds a question: the answer that was found, empty if none, and those that are right, none if
    /// there is none.
    pub(in super::super) fn add(&mut self, found: &str, right: &[String]) {
        // An answer of nothing but articles and marks counts as none.
        let mut right: Vec<String> = right
            .iter()
            .map(|answer| normalized(answer))
            .filter(|answer| !answer.is_empty())
            .collect();
        if right.is_empty() {
            right.push(String::new());
        }
        let found = normalized(found);
        let best = |score: &dyn Fn(&String) -> f64| right.iter().map(score).fold(0.0, f64::max);
        self.exact += best(&|right| f64::from(u8::from(*right == found)));
        self.f1 += best(&|right| f1(&found, right));
        self.questions += 1;
    }

    /// The metrics over all questions; NaN where there were none.
    pub(in super::super) fn compute(&self) -> [(&'static str, f64); 2] {
        let questions = real(self.questions);
        [("exact_match", self.exact / questions), ("f1", self.f1 / questions)]
    }
}

/// SQuAD's `compute_f1` of normalised answers.
fn f1(found: &str, right: &str) -> f64 {
    let [found, right] = [found, right].map(|text| text.split(' ').filter(|word| !word.is_empty()));
    let (mut counts, mut all) = (BTreeMap::<&str, i64>::new(), 0_usize);
    for word in right {
        *counts.entry(word).or_default() += 1;
        all += 1;
    }
    let (mut both, mut words) = (0_usize, 0_usize);
    for word in found {
        words += 1;
        if let Some(left) = counts.get_mut(word).filter(|left| **left > 0) {
            *left -= 1;
            both += 1;
        }
    }
    if words == 0 || all == 0 {
        return f64::from(u8::from(words == all));
    }
    2.0 * real(both) / real(words + all)
}

/// SQuAD's `normalize_answer`: in lower case, without ASCII punctuation and articles, words between
/// single spaces.
fn normalized(answer: &str) -> String {
    let lower = answer.to_lowercase();
    let kept: String = lower.chars().filter(|one| !one.is_ascii_punctuation()).collect();
    let mut words = String::with_capacity(kept.len());
    let mut rest = kept.as_str();
    while let Some(first) = rest.chars().next() {
        let is_word = first.is_alphanumeric();
        let end = rest.find(|one: char| one.is_alphanumeric() != is_word).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        words.push_str(if matches!(run, "a" | "an" | "the") { " " } else { run });
        rest = after;
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Made by `tests/peers/answers_golden.py`.
    fn golden() -> Value {
        serde_json::from_str(include_str!("../tests/golden/answers.json")).unwrap()
    }

    fn text(value: &Value) -> String {
        value.as_str().unwrap().to_owned()
    }

    #[test]
    fn normalised_answers_are_squads() {
        for pair in golden()["normalized"].as_array().unwrap() {
            assert_eq!(normalized(&text(&pair[0])), text(&pair[1]), "{}", pair[0]);
        }
    }

    #[test]
    fn scores_are_squads() {
        let golden = golden();
        let questions = golden["questions"].as_array().unwrap();
        let mut all = AnswerMetrics::default();
        for question in questions {
            let right: Vec<String> =
                question["answers"].as_array().unwrap().iter().map(text).collect();
            let mut one = AnswerMetrics::default();
            for metrics in [&mut one, &mut all] {
                metrics.add(&text(&question["found"]), &right);
            }
            for (name, own) in one.compute() {
                let theirs = question[name].as_f64().unwrap();
                assert!((own - theirs).abs() < 1e-12, "{name} of {question}: {own}");
            }
        }
        for (name, own) in all.compute() {
            let theirs = golden[name].as_f64().unwrap() / 100.0;
            assert!((own - theirs).abs() < 1e-12, "{name}: {own}, {theirs}");
        }
    }

    #[test]
    fn answers_are_those_of_utils_qa() {
        for question in golden()["found"].as_array().unwrap() {
            let mut found = FoundAnswers::default();
            for (number, window) in question["windows"].as_array().unwrap().iter().enumerate() {
                let numbers = |key: &str| -> Vec<f32> {
                    window[key]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|one| one.as_f64().unwrap() as f32)
                        .collect()
                };
                let place = |place: &Value| {
                    let side =
                        |side: usize| usize::try_from(place[side].as_u64().unwrap()).unwrap();
                    (!place.is_null()).then(|| [side(0), side(1)])
                };
                let places: Vec<_> =
                    window["offset_mapping"].as_array().unwrap().iter().map(place).collect();
                found.add(number, [&numbers("start_logits"), &numbers("end_logits")], &places, 4);
            }
            let context: Vec<char> = text(&question["context"]).chars().collect();
            let answer = |may_be_none| {
                let span = found.best(may_be_none);
                span.map_or(String::new(), |span| context[span.begin..span.end].iter().collect())
            };
            assert_eq!(answer(false), text(&question["answer"]));
            assert_eq!(answer(true), text(&question["answer_or_none"]));
        }
    }

    #[test]
    fn where_no_token_is_of_the_context_there_is_no_answer() {
        let mut found = FoundAnswers::default();
        assert_eq!((found.best(false), found.probability_of_none()), (None, 1.0));
        found.add(0, [&[1.0, 2.0], &[1.0, 0.0]], &[None, None], 30);
        assert_eq!(found.best(false), None);
    }
}
