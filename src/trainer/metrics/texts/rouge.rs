//! ROUGE (Lin 2004), as the Python package rouge-score computes it, without stemming.

use std::collections::BTreeMap;

use super::super::super::floats::real;
use super::{counted, shared};

/// The F-measures of ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum, each in [0, 1].
pub(super) fn scores(written: &str, truth: &str) -> [f64; 4] {
    let both = [written, truth].map(words);
    let of_size = |size: usize| {
        let [written, truth] = both.each_ref().map(|words| counted(words, size));
        let [all, wanted] = [&written, &truth].map(|counts| counts.values().sum());
        f_measure(shared(&written, &truth), all, wanted)
    };
    let [own, wanted] = &both;
    let longest = table(wanted, own)[wanted.len()][own.len()];
    let of_lines = |text: &str| -> Vec<Vec<String>> {
        text.split('\n').filter(|line| !line.is_empty()).map(words).collect()
    };
    [
        of_size(1),
        of_size(2),
        f_measure(longest, own.len(), wanted.len()),
        summary(&of_lines(written), &of_lines(truth)),
    ]
}

/// Lowercase runs of ASCII letters and digits.
fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let words = text.split(|character: char| !character.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn f_measure(both: usize, written: usize, truth: usize) -> f64 {
    if both == 0 { 0.0 } else { 2.0 * real(both) / real(written + truth) }
}

/// The longest common subsequence of all beginnings of two texts.
fn table(one: &[String], other: &[String]) -> Vec<Vec<usize>> {
    let mut table = vec![vec![0; other.len() + 1]; one.len() + 1];
    for (i, word) in (1..).zip(one) {
        for (j, its) in (1..).zip(other) {
            table[i][j] = if word == its {
                table[i - 1][j - 1] + 1
            } else {
                table[i - 1][j].max(table[i][j - 1])
            };
        }
    }
    table
}

/// ROUGE-L of summaries of several lines: for each true line the union of its longest common
/// subsequences with all that were written.
fn summary(written: &[Vec<String>], truth: &[Vec<String>]) -> f64 {
    let count = |lines: &[Vec<String>]| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for word in lines.iter().flatten() {
            *counts.entry(word.clone()).or_default() += 1;
        }
        counts
    };
    let (mut left, mut wanted) = (count(written), count(truth));
    let mut hits = 0;
    for line in truth {
        let mut in_any = vec![false; line.len()];
        for own in written {
            mark_common(line, own, &mut in_any);
        }
        for (word, _) in line.iter().zip(in_any).filter(|(_, is_common)| *is_common) {
            if let (Some(left), Some(wanted)) = (left.get_mut(word), wanted.get_mut(word))
                && *left > 0
                && *wanted > 0
            {
                hits += 1;
                *left -= 1;
                *wanted -= 1;
            }
        }
    }
    let total = |lines: &[Vec<String>]| lines.iter().map(Vec::len).sum();
    f_measure(hits, total(written), total(truth))
}

/// Marks the words of `line` that belong to its longest common subsequence with `other`.
fn mark_common(line: &[String], other: &[String], marks: &mut [bool]) {
    let table = table(line, other);
    let (mut i, mut j) = (line.len(), other.len());
    while i > 0 && j > 0 {
        if line[i - 1] == other[j - 1] {
            marks[i - 1] = true;
            (i, j) = (i - 1, j - 1);
        } else if table[i][j - 1] > table[i - 1][j] {
            j -= 1;
        } else {
            i -= 1;
        }
    }
}
