//! The metrics of evaluations, from logits: as scikit-learn and SciPy compute them.

mod answers;
mod entities;
mod texts;

use std::collections::BTreeMap;

use super::floats::real;
use hpsearch_core::study::class_report::ClassReport;

pub(super) use answers::{AnswerMetrics, FoundAnswers};
pub(super) use entities::EntityMetrics;
pub(super) use texts::TextMetrics;

/// Metrics by name, without prefix.
pub(super) type Metrics = BTreeMap<&'static str, f64>;

/// Single-label classification: loss, accuracy, F1, macro-F1 and Matthews' correlation.
pub(super) struct ClassificationMetrics {
    loss: f64,
    /// (true label, predicted label) of each row.
    outcomes: Vec<(usize, usize)>,
    labels: usize,
}

impl ClassificationMetrics {
    pub(super) fn new(labels: usize) -> Self {
        Self { loss: 0.0, outcomes: Vec::new(), labels }
    }

    /// Adds one row: its logits and its true label. The loss is the plain cross-entropy, without
    /// label smoothing.
    pub(super) fn add(&mut self, logits: &[f32], label: usize) {
        self.loss -= log_softmax(logits)[label];
        self.outcomes.push((label, argmax(logits)));
    }

    /// The metrics over all rows; NaN where there were none.
    pub(super) fn compute(&self) -> Metrics {
        let correct = self.outcomes.iter().filter(|(label, predicted)| label == predicted).count();
        let rows = real(self.outcomes.len());
        let macro_f1 = macro_f1(&self.outcomes, self.labels);
        [
            ("loss", self.loss / rows),
            ("accuracy", real(correct) / rows),
            ("f1", if self.labels == 2 { f1_of_second(&self.outcomes) } else { macro_f1 }),
            ("macro_f1", macro_f1),
            ("matthews_correlation", matthews_correlation(&self.outcomes, self.labels)),
        ]
        .into()
    }

    /// The results by class.
    pub(super) fn by_class(&self, labels: &[String]) -> ClassReport {
        ClassReport::of_classes(labels, &self.outcomes)
    }
}

/// Multi-label classification: loss, micro-F1, macro-F1 and exact match.
pub(super) struct MultiLabelMetrics {
    loss: f64,
    rows: usize,
    /// Rows whose labels were predicted exactly.
    exact: usize,
    /// Of each label: predicted and true, predicted, true.
    counts: Vec<[usize; 3]>,
}

impl MultiLabelMetrics {
    pub(super) fn new(labels: usize) -> Self {
        Self { loss: 0.0, rows: 0, exact: 0, counts: vec![[0; 3]; labels] }
    }

    /// Adds a row: its logits, and 1 or 0 for each label. A label is predicted where its
    /// probability is above one half.
    pub(super) fn add(&mut self, logits: &[f32], truth: &[f32]) {
        self.rows += 1;
        let mut exact = true;
        for ((logit, truth), counts) in logits.iter().zip(truth).zip(&mut self.counts) {
            let (logit, is_true) = (f64::from(*logit), *truth > 0.5);
            // log(1 + exp(-|x|)) + max(x, 0) - x y, which does not overflow.
            self.loss +=
                (-logit.abs()).exp().ln_1p() + logit.max(0.0) - if is_true { logit } else { 0.0 };
            let is_predicted = logit > 0.0;
            exact &= is_predicted == is_true;
            for (count, applies) in
                counts.iter_mut().zip([is_predicted && is_true, is_predicted, is_true])
            {
                *count += usize::from(applies);
            }
        }
        self.exact += usize::from(exact);
    }

    /// The metrics over all rows; the F1 of a label that is neither predicted nor true is 0, as in
    /// `sklearn.metrics.f1_score`.
    pub(super) fn compute(&self) -> Metrics {
        let f1 = |[both, predicted, truth]: [usize; 3]| {
            if predicted + truth == 0 { 0.0 } else { 2.0 * real(both) / real(predicted + truth) }
        };
        let all = self.counts.iter().fold([0; 3], |sum, counts| {
            [sum[0] + counts[0], sum[1] + counts[1], sum[2] + counts[2]]
        });
        let labels = real(self.counts.len());
        [
            ("loss", self.loss / (real(self.rows) * labels)),
            ("micro_f1", f1(all)),
            ("macro_f1", self.counts.iter().map(|counts| f1(*counts)).sum::<f64>() / labels),
            ("exact_match", real(self.exact) / real(self.rows)),
        ]
        .into()
    }

    /// The results by label.
    pub(super) fn by_label(&self, labels: &[String]) -> ClassReport {
        ClassReport::of_labels(labels, &self.counts, self.rows)
    }
}

/// Regression: mean squared error, its root, mean absolute error, R², and Pearson's and Spearman's
/// correlations.
#[derive(Default)]
pub(super) struct RegressionMetrics {
    /// (predicted, true) of each row.
    rows: Vec<(f64, f64)>,
}

impl RegressionMetrics {
    pub(super) fn add(&mut self, predicted: f32, truth: f32) {
        self.rows.push((predicted.into(), truth.into()));
    }

    /// The metrics over all rows; `r2` is NaN where all true values are equal, and so are the
    /// correlations, also where all predictions are.
    pub(super) fn compute(&self) -> Metrics {
        let count = real(self.rows.len());
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| self.rows.iter().map(of).sum::<f64>() / count;
        let truth = mean(&|row| row.1);
        let error = mean(&|row| (row.0 - row.1).powi(2));
        let variance = mean(&|row| (row.1 - truth).powi(2));
        [
            ("loss", error),
            ("rmse", error.sqrt()),
            ("mae", mean(&|row| (row.0 - row.1).abs())),
            ("r2", if variance > 0.0 { 1.0 - error / variance } else { f64::NAN }),
            ("pearson", correlation(&self.rows)),
            ("spearmanr", rank_correlation(&self.rows)),
        ]
        .into()
    }
}

/// Pearson's correlation of pairs; NaN where one of the two does not vary.
fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let count = real(pairs.len());
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (first, second) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
    let covariance = mean(&|pair| (pair.0 - first) * (pair.1 - second));
    let variances =
        mean(&|pair| (pair.0 - first).powi(2)) * mean(&|pair| (pair.1 - second).powi(2));
    covariance / variances.sqrt()
}

/// Spearman's correlation of pairs, as `scipy.stats.spearmanr`; NaN where one of the two does not
/// vary, or is NaN.
fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let ranks: Vec<_> = average_ranks(&first).into_iter().zip(average_ranks(&second)).collect();
    correlation(&ranks)
}

/// The rank of each value, counted from 1; equal values share the mean of their ranks, as in
/// `scipy.stats.rankdata`. All ranks are NaN where a value is.
fn average_ranks(values: &[f64]) -> Vec<f64> {
    if values.iter().any(|value| value.is_nan()) {
        return vec![f64::NAN; values.len()];
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        for position in equal {
            ranks[*position] = real(before) + f64::midpoint(1.0, real(equal.len()));
        }
        before += equal.len();
    }
    ranks
}

/// The F1 of the second of two labels, as `sklearn.metrics.f1_score(average="binary")`; 0 where it
/// is neither true nor predicted.
fn f1_of_second(outcomes: &[(usize, usize)]) -> f64 {
    let both = outcomes.iter().filter(|outcome| **outcome == (1, 1)).count();
    let either: usize = outcomes.iter().map(|(label, predicted)| label + predicted).sum();
    if either == 0 { 0.0 } else { 2.0 * real(both) / real(either) }
}

/// Matthews' correlation for any number of labels (Gorodkin 2004), as
/// `sklearn.metrics.matthews_corrcoef`; 0 where all rows have one label, or one prediction.
fn matthews_correlation(outcomes: &[(usize, usize)], labels: usize) -> f64 {
    let (mut truths, mut predictions) = (vec![0; labels], vec![0; labels]);
    for (label, predicted) in outcomes {
        truths[*label] += 1;
        predictions[*predicted] += 1;
    }
    let product = |one: &[usize], other: &[usize]| -> f64 {
        one.iter().zip(other).map(|(one, other)| real(*one) * real(*other)).sum()
    };
    let (rows, right) = (
        real(outcomes.len()),
        real(outcomes.iter().filter(|(label, predicted)| label == predicted).count()),
    );
    let variance = |counts: &[usize]| rows * rows - product(counts, counts);
    let deviations = (variance(&truths) * variance(&predictions)).sqrt();
    if deviations > 0.0 {
        (right * rows - product(&truths, &predictions)) / deviations
    } else {
        0.0
    }
}

/// The number with the greatest logit, the first of several.
pub(super) fn argmax(logits: &[f32]) -> usize {
    let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]).then(b.cmp(a)));
    best.unwrap_or(0)
}

/// The mean of the labels' F1 over the labels that occur as truth or prediction; 0 for a label that
/// is never right. As `sklearn.metrics.f1_score(average="macro")`.
fn macro_f1(outcomes: &[(usize, usize)], labels: usize) -> f64 {
    let mut right = vec![0; labels];
    let mut occurrences = vec![0; labels];
    for (label, predicted) in outcomes {
        right[*label] += usize::from(label == predicted);
        occurrences[*label] += 1;
        occurrences[*predicted] += 1;
    }
    let scores: Vec<f64> = right
        .iter()
        .zip(&occurrences)
        .filter(|(_, occurrences)| **occurrences > 0)
        .map(|(right, all)| 2.0 * real(*right) / real(*all))
        .collect();
    scores.iter().sum::<f64>() / real(scores.len())
}

/// Logarithms of the labels' probabilities.
pub(super) fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let greatest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - greatest).exp()).sum();
    logits.iter().map(|logit| f64::from(*logit) - greatest - sum.ln()).collect()
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
    fn glues_metrics_are_sklearns() {
        // matthews_corrcoef([0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1]), ([1, 1, 0, 1], [1, 0, 0, 1]).
        assert_eq!(matthews_correlation(&[(0, 0), (1, 2), (2, 1), (0, 0), (1, 0), (2, 1)], 3), 0.0);
        let correlation = matthews_correlation(&[(1, 1), (1, 0), (0, 0), (1, 1)], 2);
        assert!((correlation - 0.577_350_269).abs() < 1e-9, "{correlation}");
        assert_eq!(matthews_correlation(&[(0, 0), (0, 1)], 2), 0.0);
        // f1_score([1, 1, 0, 1, 0], [1, 0, 0, 1, 1]).
        let f1 = f1_of_second(&[(1, 1), (1, 0), (0, 0), (1, 1), (0, 1)]);
        assert!((f1 - 2.0 / 3.0).abs() < 1e-12, "{f1}");
        assert_eq!(f1_of_second(&[(0, 0)]), 0.0);
    }

    #[test]
    fn loss_is_cross_entropy_and_survives_large_logits() {
        let mut classification = ClassificationMetrics::new(2);
        classification.add(&[1_000.0, 1_000.0], 0);
        classification.add(&[0.0, 0.0], 1);
        let metrics = classification.compute();
        assert!((metrics["loss"] - 2.0_f64.ln()).abs() < 1e-12);
        assert_eq!(metrics["accuracy"], 0.5);
    }

    fn close(metrics: &Metrics, expected: &[(&str, f64)]) {
        for (name, value) in expected {
            assert!(
                (metrics[name] - value).abs() < 1e-6,
                "{name}: {} instead of {value}",
                metrics[name]
            );
        }
    }

    #[test]
    fn several_labels_are_scored_as_sklearn_scores_them() {
        let mut sets = MultiLabelMetrics::new(3);
        sets.add(&[2.0, -1.0, 0.5], &[1.0, 0.0, 0.0]);
        sets.add(&[-2.0, 1.0, -0.5], &[0.0, 1.0, 0.0]);
        sets.add(&[0.1, 0.2, -3.0], &[1.0, 0.0, 1.0]);
        // torch.nn.functional.binary_cross_entropy_with_logits; f1_score(average="micro" and
        // "macro", zero_division=0); accuracy_score.
        close(
            &sets.compute(),
            &[
                ("loss", 0.757_739_58),
                ("micro_f1", 0.666_666_67),
                ("macro_f1", 0.555_555_56),
                ("exact_match", 1.0 / 3.0),
            ],
        );
    }

    #[test]
    fn numbers_are_scored_as_sklearn_and_scipy_score_them() {
        let mut numbers = RegressionMetrics::default();
        for (predicted, truth) in [(2.5, 3.0), (0.0, -0.5), (2.0, 2.0), (8.0, 7.0)] {
            numbers.add(predicted, truth);
        }
        // mean_squared_error, mean_absolute_error, r2_score on scikit-learn's own example;
        // pearsonr.
        close(
            &numbers.compute(),
            &[("loss", 0.375), ("mae", 0.5), ("r2", 0.948_608_14), ("pearson", 0.984_869_62)],
        );
    }

    #[test]
    fn ranks_with_ties_are_correlated_as_scipy_correlates_them() {
        let mut numbers = RegressionMetrics::default();
        for (predicted, truth) in [(1.0, 1.0), (2.0, 3.0), (2.0, 2.0), (5.0, 2.0), (4.0, 2.5)] {
            numbers.add(predicted, truth);
        }
        // spearmanr([1, 2, 2, 5, 4], [1, 3, 2, 2, 2.5]).
        close(&numbers.compute(), &[("spearmanr", 0.342_105_26)]);
        assert_eq!(average_ranks(&[2.0, -0.0, 0.0, 7.0]), [3.0, 1.5, 1.5, 4.0]);
    }

    #[test]
    fn ranks_of_equal_or_missing_numbers_are_not_correlated() {
        for predicted in [1.0, f32::NAN] {
            let mut numbers = RegressionMetrics::default();
            numbers.add(predicted, 1.0);
            numbers.add(1.0, 2.0);
            assert!(numbers.compute()["spearmanr"].is_nan());
        }
    }
}
