//! The results of a classifier by class, as scikit-learn's `classification_report` computes them.

use serde::{Deserialize, Serialize};

/// Precision, recall and F1 of each class, their averages, and what is taken for what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// The classes in the order of their ids: with one label per row those that are true or
    /// predicted, with several all; types of entities in alphabetical order.
    pub classes: Vec<ClassScores>,
    /// `macro avg` and `weighted avg`; before them `micro avg` of rows with several labels and of
    /// entities.
    pub averages: Vec<ClassScores>,
    /// Numbers of rows, by true class and, in each row, by predicted class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confusion_matrix: Option<Vec<Vec<usize>>>,
    /// Of rows with several labels: for each label `[[tn, fp], [fn, tp]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confusion_matrices: Option<Vec<[[usize; 2]; 2]>>,
}

/// The scores of a class, or averages; 0 where there is nothing to divide by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassScores {
    /// The class, or the name of the average.
    pub label: String,
    /// The share of rows that have the class among those predicted to have it.
    pub precision: f64,
    /// The share of rows predicted to have the class among those that have it.
    pub recall: f64,
    /// The harmonic mean of the two.
    pub f1: f64,
    /// The number of rows that have the class.
    pub support: usize,
}

impl ClassReport {
    /// Of rows with one label each: their true and their predicted class.
    #[must_use]
    pub fn of_classes(labels: &[String], outcomes: &[(usize, usize)]) -> Self {
        let mut all = vec![vec![0; labels.len()]; labels.len()];
        for (truth, predicted) in outcomes {
            all[*truth][*predicted] += 1;
        }
        let predicted = |class: usize| all.iter().map(|row| row[class]).sum::<usize>();
        let truth = |class: usize| all[class].iter().sum::<usize>();
        let kept: Vec<usize> =
            (0..labels.len()).filter(|class| truth(*class) + predicted(*class) > 0).collect();
        let classes: Vec<ClassScores> = kept
            .iter()
            .map(|class| {
                scores(&labels[*class], [all[*class][*class], predicted(*class), truth(*class)])
            })
            .collect();
        let row = |class: &usize| kept.iter().map(|other| all[*class][*other]).collect();
        Self {
            averages: averages(&classes).to_vec(),
            confusion_matrix: Some(kept.iter().map(row).collect()),
            confusion_matrices: None,
            classes,
        }
    }

    /// Of `rows` with any number of labels: for each label the rows that have it and are predicted
    /// to, that are predicted to, and that have it.
    #[must_use]
    pub fn of_labels(labels: &[String], counts: &[[usize; 3]], rows: usize) -> Self {
        let matrix = |[both, predicted, truth]: &[usize; 3]| {
            [[rows + both - predicted - truth, predicted - both], [truth - both, *both]]
        };
        let matrices = Some(counts.iter().map(matrix).collect());
        Self { confusion_matrices: matrices, ..Self::of_entities(labels, counts) }
    }

    /// Of entities of several types: of each the entities that are found where they are, those that
    /// are found, and those that there are. As seqeval's `classification_report`.
    #[must_use]
    pub fn of_entities(types: &[String], counts: &[[usize; 3]]) -> Self {
        let classes: Vec<ClassScores> =
            types.iter().zip(counts).map(|(label, counts)| scores(label, *counts)).collect();
        let sum = |of: usize| counts.iter().map(|counts| counts[of]).sum();
        let micro = scores("micro avg", [sum(0), sum(1), sum(2)]);
        Self {
            averages: std::iter::once(micro).chain(averages(&classes)).collect(),
            confusion_matrix: None,
            confusion_matrices: None,
            classes,
        }
    }
}

fn scores(label: &str, [both, predicted, truth]: [usize; 3]) -> ClassScores {
    ClassScores {
        label: label.to_owned(),
        precision: share(both, predicted),
        recall: share(both, truth),
        f1: share(2 * both, predicted + truth),
        support: truth,
    }
}

/// The mean over classes, and the mean weighted by their support.
fn averages(classes: &[ClassScores]) -> [ClassScores; 2] {
    let support = classes.iter().map(|class| class.support).sum();
    let mean = |label: &str, weight: &dyn Fn(&ClassScores) -> usize| {
        let all = real(classes.iter().map(weight).sum());
        let mean = |of: &dyn Fn(&ClassScores) -> f64| {
            let sum: f64 = classes.iter().map(|class| real(weight(class)) * of(class)).sum();
            if all > 0.0 { sum / all } else { 0.0 }
        };
        ClassScores {
            label: label.to_owned(),
            precision: mean(&|class| class.precision),
            recall: mean(&|class| class.recall),
            f1: mean(&|class| class.f1),
            support,
        }
    };
    [mean("macro avg", &|_| 1), mean("weighted avg", &|class| class.support)]
}

fn share(part: usize, all: usize) -> f64 {
    if all == 0 { 0.0 } else { real(part) / real(all) }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of rows stay far below 2^53")]
fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[track_caller]
    fn assert_scores(found: &[ClassScores], expected: &[(&str, [f64; 3], usize)]) {
        assert_eq!(found.len(), expected.len());
        for (found, (label, scores, support)) in found.iter().zip(expected) {
            assert_eq!((found.label.as_str(), found.support), (*label, *support));
            for (one, other) in [found.precision, found.recall, found.f1].iter().zip(scores) {
                assert!((one - other).abs() < 1e-12, "{label}: {one} instead of {other}");
            }
        }
    }

    #[test]
    fn one_label_per_row_is_scored_as_sklearn_scores_it() {
        // classification_report(t, p, output_dict=True, zero_division=0) and confusion_matrix(t, p)
        // of scikit-learn 1.9.1.
        let truth = [0, 1, 2, 0, 1, 2, 2, 2, 0, 3, 3];
        let predicted = [0, 2, 1, 0, 0, 1, 2, 2, 2, 3, 0];
        let outcomes: Vec<_> = truth.into_iter().zip(predicted).collect();
        let report = ClassReport::of_classes(&labels(&["0", "1", "2", "3"]), &outcomes);
        assert_scores(
            &report.classes,
            &[
                ("0", [0.5, 0.666_666_666_666_666_6, 0.571_428_571_428_571_4], 3),
                ("1", [0.0, 0.0, 0.0], 2),
                ("2", [0.5, 0.5, 0.5], 4),
                ("3", [1.0, 0.5, 0.666_666_666_666_666_6], 2),
            ],
        );
        assert_scores(
            &report.averages,
            &[
                ("macro avg", [0.5, 0.416_666_666_666_666_63, 0.434_523_809_523_809_53], 11),
                ("weighted avg", [0.5, 0.454_545_454_545_454_53, 0.458_874_458_874_458_9], 11),
            ],
        );
        let matrix = [[2, 0, 1, 0], [1, 0, 1, 0], [0, 2, 2, 0], [1, 0, 0, 1]];
        assert_eq!(report.confusion_matrix, Some(matrix.map(|row| row.to_vec()).to_vec()));
    }

    #[test]
    fn classes_that_do_not_occur_are_left_out_as_sklearn_leaves_them_out() {
        // The same of t = [0, 2, 2, 3, 0], p = [0, 2, 0, 0, 0].
        let outcomes = [(0, 0), (2, 2), (2, 0), (3, 0), (0, 0)];
        let report = ClassReport::of_classes(&labels(&["0", "1", "2", "3"]), &outcomes);
        assert_scores(
            &report.classes,
            &[
                ("0", [0.5, 1.0, 0.666_666_666_666_666_6], 2),
                ("2", [1.0, 0.5, 0.666_666_666_666_666_6], 2),
                ("3", [0.0, 0.0, 0.0], 1),
            ],
        );
        assert_scores(
            &report.averages,
            &[
                ("macro avg", [0.5, 0.5, 0.444_444_444_444_444_4], 5),
                ("weighted avg", [0.6, 0.6, 0.533_333_333_333_333_3], 5),
            ],
        );
        let matrix = [[2, 0, 0], [1, 1, 0], [1, 0, 0]];
        assert_eq!(report.confusion_matrix, Some(matrix.map(|row| row.to_vec()).to_vec()));
        let none = ClassReport::of_classes(&labels(&["0"]), &[]);
        assert_scores(&none.averages[1..], &[("weighted avg", [0.0; 3], 0)]);
    }

    #[test]
    fn several_labels_are_scored_one_by_one_as_sklearn_scores_them() {
        // classification_report(T, P, ..) and multilabel_confusion_matrix(T, P) of
        // T = [[1,0,0],[0,1,0],[1,0,1],[0,0,0],[1,1,0]], P = [[1,0,1],[0,1,0],[1,1,0],[0,0,0],
        // [0,1,0]].
        let counts = [[2, 2, 3], [2, 3, 2], [0, 1, 1]];
        let report = ClassReport::of_labels(&labels(&["0", "1", "2"]), &counts, 5);
        assert_scores(
            &report.classes,
            &[
                ("0", [1.0, 0.666_666_666_666_666_6, 0.8], 3),
                ("1", [0.666_666_666_666_666_6, 1.0, 0.8], 2),
                ("2", [0.0, 0.0, 0.0], 1),
            ],
        );
        assert_scores(
            &report.averages,
            &[
                ("micro avg", [0.666_666_666_666_666_6; 3], 6),
                (
                    "macro avg",
                    [0.555_555_555_555_555_5, 0.555_555_555_555_555_5, 0.533_333_333_333_333_3],
                    6,
                ),
                (
                    "weighted avg",
                    [0.722_222_222_222_222_2, 0.666_666_666_666_666_6, 0.666_666_666_666_666_6],
                    6,
                ),
            ],
        );
        let matrices = vec![[[2, 0], [1, 2]], [[2, 1], [0, 2]], [[3, 1], [1, 0]]];
        assert_eq!(report.confusion_matrices, Some(matrices));
    }
}
