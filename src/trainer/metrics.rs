//! Loss, accuracy and macro-F1 from logits.

/// What an evaluation measures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Metrics {
    pub(super) loss: f64,
    pub(super) accuracy: f64,
    pub(super) macro_f1: f64,
}

/// Gathers rows, then sums up.
pub(super) struct Tally {
    loss: f64,
    /// (true label, predicted label) of each row.
    outcomes: Vec<(usize, usize)>,
    labels: usize,
}

impl Tally {
    pub(super) fn new(labels: usize) -> Self {
        Self { loss: 0.0, outcomes: Vec::new(), labels }
    }

    /// Adds one row: its logits and its true label. The loss is the plain cross-entropy, without label smoothing.
    pub(super) fn add(&mut self, logits: &[f32], label: usize) {
        self.loss -= log_softmax(logits)[label];
        let predicted = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]).then(b.cmp(a)));
        self.outcomes.push((label, predicted.unwrap_or(0)));
    }

    /// The metrics over all rows; NaN where there were none.
    pub(super) fn metrics(&self) -> Metrics {
        let correct = self.outcomes.iter().filter(|(label, predicted)| label == predicted).count();
        let rows = real(self.outcomes.len());
        Metrics { loss: self.loss / rows, accuracy: real(correct) / rows, macro_f1: macro_f1(&self.outcomes, self.labels) }
    }
}

/// The mean of the labels' F1 over the labels that occur as truth or prediction; 0 for a label that is never right. As
/// `sklearn.metrics.f1_score(average="macro")`.
fn macro_f1(outcomes: &[(usize, usize)], labels: usize) -> f64 {
    let mut right = vec![0; labels];
    let mut occurrences = vec![0; labels];
    for (label, predicted) in outcomes {
        right[*label] += usize::from(label == predicted);
        occurrences[*label] += 1;
        occurrences[*predicted] += 1;
    }
    let scores: Vec<f64> =
        right.iter().zip(&occurrences).filter(|(_, occurrences)| **occurrences > 0).map(|(right, all)| 2.0 * real(*right) / real(*all)).collect();
    scores.iter().sum::<f64>() / real(scores.len())
}

/// Logarithms of the labels' probabilities.
pub(super) fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let greatest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - greatest).exp()).sum();
    logits.iter().map(|logit| f64::from(*logit) - greatest - sum.ln()).collect()
}

fn real(count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^53")]
    let count = count as f64;
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macro_f1_is_sklearns() {
        // f1_score([0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], average="macro") = 0.26666...
        let outcomes = [(0, 0), (1, 2), (2, 1), (0, 0), (1, 0), (2, 1)];
        assert!((macro_f1(&outcomes, 3) - 0.266_666_666).abs() < 1e-8);
    }

    #[test]
    fn labels_that_never_occur_do_not_count() {
        assert_eq!(macro_f1(&[(0, 0), (1, 1)], 5), 1.0);
        // f1_score([0, 0], [0, 1], average="macro") = 0.3333...
        assert!((macro_f1(&[(0, 0), (0, 1)], 5) - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn loss_is_cross_entropy_and_survives_large_logits() {
        let mut tally = Tally::new(2);
        tally.add(&[1_000.0, 1_000.0], 0);
        tally.add(&[0.0, 0.0], 1);
        let metrics = tally.metrics();
        assert!((metrics.loss - 2.0_f64.ln()).abs() < 1e-12);
        assert_eq!(metrics.accuracy, 0.5);
    }
}
