//! Metrics of several labels per text, and of a number per text.

use std::collections::BTreeMap;

/// Gathers rows whose labels are any number of several.
pub(super) struct LabelSets {
    loss: f64,
    rows: usize,
    /// Rows whose labels were all told, and no others.
    exact: usize,
    /// Of each label: told and true, told, true.
    counts: Vec<[usize; 3]>,
}

impl LabelSets {
    pub(super) fn new(labels: usize) -> Self {
        Self { loss: 0.0, rows: 0, exact: 0, counts: vec![[0; 3]; labels] }
    }

    /// Adds a row: its logits, and 1 or 0 for each label. A label is told where its probability is above a half.
    pub(super) fn add(&mut self, logits: &[f32], truth: &[f32]) {
        self.rows += 1;
        let mut exact = true;
        for ((logit, truth), counts) in logits.iter().zip(truth).zip(&mut self.counts) {
            let (logit, is_true) = (f64::from(*logit), *truth > 0.5);
            // log(1 + exp(-|x|)) + max(x, 0) - x y, which does not overflow.
            self.loss += (-logit.abs()).exp().ln_1p() + logit.max(0.0) - if is_true { logit } else { 0.0 };
            let is_told = logit > 0.0;
            exact &= is_told == is_true;
            for (count, applies) in counts.iter_mut().zip([is_told && is_true, is_told, is_true]) {
                *count += usize::from(applies);
            }
        }
        self.exact += usize::from(exact);
    }

    /// The metrics over all rows; a label that is neither told nor true counts as `sklearn.metrics.f1_score` counts it: 0.
    pub(super) fn metrics(&self) -> BTreeMap<&'static str, f64> {
        let f1 = |[both, told, truth]: [usize; 3]| if told + truth == 0 { 0.0 } else { 2.0 * real(both) / real(told + truth) };
        let all = self.counts.iter().fold([0; 3], |sum, counts| [sum[0] + counts[0], sum[1] + counts[1], sum[2] + counts[2]]);
        let labels = real(self.counts.len());
        [
            ("loss", self.loss / (real(self.rows) * labels)),
            ("micro_f1", f1(all)),
            ("macro_f1", self.counts.iter().map(|counts| f1(*counts)).sum::<f64>() / labels),
            ("exact_match", real(self.exact) / real(self.rows)),
        ]
        .into()
    }
}

/// Gathers rows that are numbers.
#[derive(Default)]
pub(super) struct Numbers {
    /// (told, true) of each row.
    rows: Vec<(f64, f64)>,
}

impl Numbers {
    pub(super) fn add(&mut self, told: f32, truth: f32) {
        self.rows.push((told.into(), truth.into()));
    }

    /// The metrics over all rows; where all true numbers are the same, there is nothing to explain and `r2` and `pearson` are NaN.
    pub(super) fn metrics(&self) -> BTreeMap<&'static str, f64> {
        let count = real(self.rows.len());
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| self.rows.iter().map(of).sum::<f64>() / count;
        let (told, truth) = (mean(&|row| row.0), mean(&|row| row.1));
        let error = mean(&|row| (row.0 - row.1).powi(2));
        let (told_spread, spread) = (mean(&|row| (row.0 - told).powi(2)), mean(&|row| (row.1 - truth).powi(2)));
        let together = mean(&|row| (row.0 - told) * (row.1 - truth));
        [
            ("loss", error),
            ("rmse", error.sqrt()),
            ("mae", mean(&|row| (row.0 - row.1).abs())),
            ("r2", if spread > 0.0 { 1.0 - error / spread } else { f64::NAN }),
            ("pearson", together / (told_spread * spread).sqrt()),
        ]
        .into()
    }
}

fn real(count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^53")]
    let count = count as f64;
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(metrics: &BTreeMap<&'static str, f64>, expected: &[(&str, f64)]) {
        for (name, value) in expected {
            assert!((metrics[name] - value).abs() < 1e-6, "{name}: {} instead of {value}", metrics[name]);
        }
    }

    #[test]
    fn several_labels_are_scored_as_sklearn_scores_them() {
        let mut sets = LabelSets::new(3);
        sets.add(&[2.0, -1.0, 0.5], &[1.0, 0.0, 0.0]);
        sets.add(&[-2.0, 1.0, -0.5], &[0.0, 1.0, 0.0]);
        sets.add(&[0.1, 0.2, -3.0], &[1.0, 0.0, 1.0]);
        // torch.nn.functional.binary_cross_entropy_with_logits; f1_score(average="micro" and "macro", zero_division=0); accuracy_score.
        close(&sets.metrics(), &[("loss", 0.757_739_58), ("micro_f1", 0.666_666_67), ("macro_f1", 0.555_555_56), ("exact_match", 1.0 / 3.0)]);
    }

    #[test]
    fn numbers_are_scored_as_sklearn_and_scipy_score_them() {
        let mut numbers = Numbers::default();
        for (told, truth) in [(2.5, 3.0), (0.0, -0.5), (2.0, 2.0), (8.0, 7.0)] {
            numbers.add(told, truth);
        }
        // mean_squared_error, mean_absolute_error, r2_score on scikit-learn's own example; pearsonr.
        close(&numbers.metrics(), &[("loss", 0.375), ("mae", 0.5), ("r2", 0.948_608_14), ("pearson", 0.984_869_62)]);
    }
}
