//! The metrics of token classification: entities in rows of tags, as seqeval finds and counts them.

use std::collections::{BTreeMap, HashSet};

use super::super::floats::real;
use super::{Metrics, argmax, log_softmax};
use hpsearch_core::study::class_report::ClassReport;

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
        let [truth, found] = self.true_and_found();
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

    /// The results by type of entity; by label where labels are not those of entities, as those of
    /// parts of speech.
    pub(in super::super) fn by_class(&self) -> ClassReport {
        let is_of_entities = |label: &String| {
            label == "O" || label.split_once('-').is_some_and(|(tag, _)| "BIES".contains(tag))
        };
        if !self.labels.iter().all(is_of_entities) {
            let tokens = self.rows.values().flatten();
            let outcomes: Vec<_> = tokens.map(|[label, predicted]| (*label, *predicted)).collect();
            return ClassReport::of_classes(self.labels, &outcomes);
        }
        let by_type = self.counts().into_iter().map(|(kind, counts)| (kind.to_owned(), counts));
        let (types, counts): (Vec<String>, Vec<[usize; 3]>) = by_type.unzip();
        ClassReport::of_entities(&types, &counts)
    }

    /// Of each type: the entities found where they are, those found, and those there are.
    fn counts(&self) -> BTreeMap<&str, [usize; 3]> {
        let [truth, found] = self.true_and_found();
        let both: HashSet<Entity<'_>> = truth.intersection(&found).copied().collect();
        let mut counts = BTreeMap::<&str, [usize; 3]>::new();
        for (which, entities) in [&both, &found, &truth].into_iter().enumerate() {
            for (kind, ..) in entities {
                counts.entry(kind).or_default()[which] += 1;
            }
        }
        counts
    }

    /// The entities that there are, and those that were found.
    fn true_and_found(&self) -> [HashSet<Entity<'_>>; 2] {
        [0, 1].map(|which| {
            let tag = |labels: &[usize; 2]| self.labels[labels[which]].as_str();
            let rows = self.rows.values().map(|row| row.iter().map(tag).chain(["O"]));
            entities(&rows.flatten().collect::<Vec<&str>>()).into_iter().collect()
        })
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

    /// The metrics of the golden rows.
    fn measured<'l>(golden: &Value, labels: &'l [String]) -> EntityMetrics<'l> {
        let id = |tag: &str| labels.iter().position(|label| label == tag).unwrap();
        let mut metrics = EntityMetrics::new(labels);
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
        metrics
    }

    fn labels(golden: &Value) -> Vec<String> {
        tags(&golden["labels"]).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn scores_are_seqevals() {
        let golden = golden();
        let labels = labels(&golden);
        let metrics = measured(&golden, &labels).compute();
        for name in ["precision", "recall", "f1", "accuracy"] {
            let (own, theirs) = (metrics[name], golden[name].as_f64().unwrap());
            assert!((own - theirs).abs() < 1e-12, "{name}: {own}, {theirs}");
        }
    }

    #[test]
    fn scores_by_type_are_seqevals() {
        let golden = golden();
        let labels = labels(&golden);
        let metrics = measured(&golden, &labels);
        let (types, counts): (Vec<String>, Vec<_>) =
            metrics.counts().into_iter().map(|(kind, counts)| (kind.to_owned(), counts)).unzip();
        let report = ClassReport::of_entities(&types, &counts);
        // classification_report(truth, predicted, output_dict=True, zero_division=0) of seqeval
        // 1.2.2: precision, recall, f1-score and support.
        let expected = [
            ("A", 0.869_565_217_391_304_3, 0.8, 0.833_333_333_333_333_3, 25),
            ("A-C", 0.666_666_666_666_666_6, 0.857_142_857_142_857_1, 0.75, 7),
            ("B", 0.8, 0.8, 0.800_000_000_000_000_2, 15),
            ("_", 0.692_307_692_307_692_3, 0.6, 0.642_857_142_857_142_9, 15),
            (
                "micro avg",
                0.783_333_333_333_333_3,
                0.758_064_516_129_032_3,
                0.770_491_803_278_688_4,
                62,
            ),
            (
                "macro avg",
                0.757_134_894_091_415_8,
                0.764_285_714_285_714_3,
                0.756_547_619_047_619,
                62,
            ),
            (
                "weighted avg",
                0.786_942_136_872_010_6,
                0.758_064_516_129_032_3,
                0.769_777_265_745_007_8,
                62,
            ),
        ];
        let found: Vec<_> = report.classes.iter().chain(&report.averages).collect();
        assert_eq!(found.len(), expected.len());
        for (found, (label, precision, recall, f1, support)) in found.into_iter().zip(expected) {
            assert_eq!((found.label.as_str(), found.support), (label, support));
            for (one, other) in
                [(found.precision, precision), (found.recall, recall), (found.f1, f1)]
            {
                assert!((one - other).abs() < 1e-12, "{label}: {one} instead of {other}");
            }
        }
    }

    #[test]
    fn labels_of_no_entities_are_scored_by_token() {
        let labels = ["NOUN".to_owned(), "VERB".to_owned()];
        let mut metrics = EntityMetrics::new(&labels);
        metrics.add(0, &[(&[0.5, 0.0], 0), (&[0.5, 0.0], 1)]);
        let report = metrics.by_class();
        assert_eq!(report.confusion_matrix, Some(vec![vec![1, 0], vec![1, 0]]));
        let labels = ["O".to_owned(), "B-PER".to_owned()];
        let mut metrics = EntityMetrics::new(&labels);
        metrics.add(0, &[(&[0.5, 0.0], 0), (&[0.0, 0.5], 1)]);
        let report = metrics.by_class();
        assert_eq!((report.classes.len(), &*report.classes[0].label), (1, "PER"));
        assert_eq!(report.confusion_matrix, None);
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
