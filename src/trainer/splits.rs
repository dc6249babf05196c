//! Holds rows out for validation and testing, by seed, with stratification by label.

use std::collections::BTreeMap;

use super::floats::real;
use super::rng::{Rng, key};
use hpsearch_core::arguments::DataArguments;
use hpsearch_core::arguments::data_file::DataRow;

/// Cuts the test and the validation split from the training rows, as far as the arguments ask for
/// it: shares are of all rows.
pub(super) fn hold_out_splits(
    splits: &mut [Vec<DataRow>; 3],
    data: &DataArguments,
    stratify: bool,
) {
    let [train, validation, test] = splits;
    let all = real(train.len());
    if let Some(share) = data.test_split {
        *test = hold_out(train, share, stratify, data.seed, "test");
    }
    if let Some(share) = data.validation_split.filter(|share| *share > 0.0) {
        let share = (share * all / real(train.len())).min(1.0);
        *validation = hold_out(train, share, stratify, data.seed, "validation");
    }
}

/// A share of a count, rounded.
pub(super) fn share_of(count: usize, share: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the count")]
    let part = (real(count) * share).round() as usize;
    part
}

/// Takes `share` of `rows` out and returns them; both parts keep their order. `name` tells splits
/// of one seed apart.
///
/// Stratified: of each label with at least two rows at least one is taken and at least one stays.
fn hold_out(
    rows: &mut Vec<DataRow>,
    share: f64,
    stratify: bool,
    seed: u64,
    name: &str,
) -> Vec<DataRow> {
    let mut strata: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        strata.entry(if stratify { &row.label } else { "" }).or_default().push(index);
    }
    let mut taken = vec![false; rows.len()];
    for (label, indices) in &strata {
        if indices.len() < 2 {
            continue;
        }
        let count = share_of(indices.len(), share).clamp(1, indices.len() - 1);
        let order =
            Rng::new(key(seed, &format!("split/{name}/{label}"), &[])).permutation(indices.len());
        for chosen in &order[..count] {
            taken[indices[*chosen]] = true;
        }
    }
    let mut index = 0;
    rows.extract_if(.., |_| {
        index += 1;
        taken[index - 1]
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(counts: &[(&str, usize)]) -> Vec<DataRow> {
        let labelled = counts.iter().flat_map(|(label, count)| vec![*label; *count]);
        labelled
            .zip(0..)
            .map(|(label, line)| DataRow {
                text: format!("text {line}"),
                text_pair: String::new(),
                label: label.to_owned(),
                line,
            })
            .collect()
    }

    fn count(rows: &[DataRow], label: &str) -> usize {
        rows.iter().filter(|row| row.label == label).count()
    }

    #[test]
    fn each_label_keeps_its_proportion_and_rare_ones_are_on_both_sides() {
        let mut train = rows(&[("a", 100), ("b", 50), ("c", 2), ("d", 1)]);
        let held_out = hold_out(&mut train, 0.1, true, 0, "validation");
        let counts: Vec<usize> = ["a", "b", "c", "d"].map(|label| count(&held_out, label)).to_vec();
        assert_eq!(counts, [10, 5, 1, 0]);
        assert_eq!(train.len() + held_out.len(), 153);
    }

    #[test]
    fn the_seed_decides_which_rows_are_held_out() {
        let split =
            |seed| hold_out(&mut rows(&[("a", 50), ("b", 50)]), 0.2, true, seed, "validation");
        assert_eq!(split(1), split(1));
        assert_ne!(split(1), split(2));
    }
}
