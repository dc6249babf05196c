//! The metrics of token classification: entities in rows of tags, as seqeval finds and counts them.

use std::collections::{BTreeMap, HashSet};

use super::super::floats::real;
use super::{Metrics, argmax, log_softmax};

/// Token classification: loss and accuracy over labelled tokens, and precision, recall and F1 of
/// entities as seqeval 1.2.2 counts them (its default mode, the CoNLL script's): over all rows at
/// once, an `O` behind each.
pub(in super::super) struct EntityMetrics<'a> {
    /// By id.
    labels: &'a [String],
    loss: f64,
    /// The true and the predicted label of each token, by the number of the row.
    rows: BTreeMap<usize, Vec<[usize; 2]>>,
}

impl<'a> EntityMetrics<'a> {
    pub(in super::super) fn new(labels: &'a [String]) -> Self {
        Self { labels, loss: 0.0, rows: BTreeMap::new() }
    }

    /// Adds the labelled tokens of a row: the logits of each, and its label.
    pub(in super::super) fn add(&mut self, row: usize, tokens: &[(&[f32], usize)]) {
        let found = self.rows.entry(row).or_default();
        for (logits, label) in tokens {
            self.loss -= log_softmax(logits)[*label];
            found.push([*label, argmax(logits)]);
        }
    }

    /// The metrics over all rows; 0 where there is no entity.
    pub(in super::super) fn compute(&self) -> Metrics {
        let tokens = self.rows.values().flatten();
        let right = tokens.clone().filter(|[label, predicted]| label == predicted).count();
        let tokens = real(tokens.count());
        let [truth, found] = [0, 1].map(|which| {
            let tag = |labels: &[usize; 2]| self.labels[labels[which]].as_str();
            let rows = self.rows.values().map(|row| row.iter().map(tag).chain(["O"]));
            entities(&rows.flatten().collect::<Vec<&str>>()).into_iter().collect::<HashSet<_>>()
        });
        let both = real(truth.intersection(&found).count());
        let [predicted, truth] = [found.len(), truth.len()].map(real);
        let share = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
        [
            ("loss", self.loss / tokens),
            ("precision", share(both, predicted)),
            ("recall", share(both, truth)),
            ("f1", share(2.0 * both, predicted + truth)),
            ("accuracy", real(right) / tokens),
        ]
        .into()
    }
}

/// An entity: its type, its first token and the one after its last.
pub(in super::super) type Entity<'t> = (&'t str, usize, usize);

/// The entities in a row of tags, as seqeval's `get_entities`.
pub(in super::super) fn entities<'t>(tags: &[&'t str]) -> Vec<Entity<'t>> {
    let split = |tag: &'t str| {
        let mut letters = tag.chars();
        let first = letters.next().unwrap_or('O');
        let rest = letters.as_str();
        let kind = rest.split_once('-').map_or(rest, |(_, kind)| kind);
        (first, if kind.is_empty() { "_" } else { kind })
    };
    let (mut found, mut begin, mut last) = (Vec::new(), 0, ('O', ""));
    for (index, tag) in tags.iter().chain([&"O"]).enumerate() {
        let tag = split(tag);
        if ends(last, tag) {
            found.push((last.1, begin, index));
        }
        if begins(last, tag) {
            begin = index;
        }
        last = tag;
    }
    found
}

/// Whether an entity ends between two tags.
fn ends((before, kind_before): (char, &str), (tag, kind): (char, &str)) -> bool {
    match (before, tag) {
        ('E' | 'S', _) | ('B' | 'I', 'B' | 'S' | 'O') => true,
        ('O' | '.', _) => false,
        _ => kind_before != kind,
    }
}

/// Whether an entity begins with the second of two tags.
fn begins((before, kind_before): (char, &str), (tag, kind): (char, &str)) -> bool {
    match (before, tag) {
        (_, 'B' | 'S') | ('E' | 'S' | 'O', 'E' | 'I') => true,
        (_, 'O' | '.') => false,
        _ => kind_before != kind,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Made by `tests/peers/seqeval_golden.py`.
    fn golden() -> Value {
        serde_json::from_str(include_str!("../tests/golden/seqeval.json")).unwrap()
    }

    fn tags(row: &Value) -> Vec<&str> {
        row.as_array().unwrap().iter().map(|tag| tag.as_str().unwrap()).collect()
    }

    #[test]
    fn entities_are_seqevals() {
        let golden = golden();
        for row in golden["rows"].as_array().unwrap() {
            let found: Vec<Value> = entities(&tags(&row["tags"]))
                .into_iter()
                .map(|(kind, begin, end)| serde_json::json!([kind, begin, end - 1]))
                .collect();
            assert_eq!(Value::from(found), row["entities"], "{}", row["tags"]);
        }
    }

    #[test]
    fn scores_are_seqevals() {
        let golden = golden();
        let labels: Vec<String> = tags(&golden["labels"]).into_iter().map(str::to_owned).collect();
        let id = |tag: &str| labels.iter().position(|label| label == tag).unwrap();
        let mut metrics = EntityMetrics::new(&labels);
        let [truth, predicted] = ["truth", "predicted"].map(|key| golden[key].as_array().unwrap());
        for (row, (truth, predicted)) in truth.iter().zip(predicted).enumerate() {
            let logits: Vec<Vec<f32>> = tags(predicted)
                .into_iter()
                .map(|tag| {
                    (0..labels.len()).map(|other| f32::from(u8::from(other == id(tag)))).collect()
                })
                .collect();
            let tokens: Vec<_> = logits
                .iter()
                .zip(tags(truth))
                .map(|(logits, tag)| (&logits[..], id(tag)))
                .collect();
            metrics.add(row, &tokens);
        }
        let metrics = metrics.compute();
        for name in ["precision", "recall", "f1", "accuracy"] {
            let (own, theirs) = (metrics[name], golden[name].as_f64().unwrap());
            assert!((own - theirs).abs() < 1e-12, "{name}: {own}, {theirs}");
        }
    }

    #[test]
    fn without_entities_scores_are_0() {
        let labels = ["O".to_owned()];
        let mut metrics = EntityMetrics::new(&labels);
        metrics.add(0, &[(&[0.5], 0)]);
        let metrics = metrics.compute();
        assert_eq!([metrics["f1"], metrics["precision"], metrics["accuracy"]], [0.0, 0.0, 1.0]);
    }
}
