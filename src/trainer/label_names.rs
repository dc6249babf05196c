//! Findings about the names of labels, which may not be the classes that were meant.

use std::collections::BTreeMap;

use super::Finding;
use hpsearch_core::study::counted::count;

/// Missing values as tables are written with them, in lower case.
const MISSING: [&str; 6] = ["nan", "<na>", "nat", "null", "n/a", "#n/a"];

/// The same as R and Python write them, where lower case may be a class.
const MISSING_AS_WRITTEN: [&str; 2] = ["NA", "None"];

/// Most groups of labels that are named.
const NAMED: usize = 3;

/// Labels that are nearly the same, that are missing values, and numbers ordered as text; `labels`
/// are in the order of their ids.
pub(super) fn findings(labels: &[String]) -> Vec<Finding> {
    [alike(labels), missing(labels), ordered_as_text(labels)].into_iter().flatten().collect()
}

/// A finite number.
fn number(label: &str) -> Option<f64> {
    label.trim().parse::<f64>().ok().filter(|number| number.is_finite())
}

fn alike(labels: &[String]) -> Option<Finding> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for label in labels {
        let folded = number(label)
            .map_or_else(|| label.trim().to_lowercase(), |number| (number + 0.0).to_string());
        groups.entry(folded).or_default().push(label);
    }
    let groups: Vec<String> =
        groups.into_values().filter(|group| group.len() > 1).map(|group| quoted(&group)).collect();
    if groups.is_empty() {
        return None;
    }
    let more = match groups.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {}", count(more as u64, "more group")),
    };
    let named = groups.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    Some(Finding::warning(
        "alike_labels",
        format!(
            "labels that differ only in case, in spaces around them or in how a number is written \
             are separate classes: {named}{more}"
        ),
    ))
}

fn missing(labels: &[String]) -> Option<Finding> {
    let is_missing = |label: &&String| {
        let label = label.trim();
        MISSING_AS_WRITTEN.contains(&label) || MISSING.contains(&label.to_lowercase().as_str())
    };
    let found: Vec<&str> = labels.iter().filter(is_missing).map(String::as_str).collect();
    let (first, verb) = (found.first()?, if found.len() == 1 { "is" } else { "are" });
    Some(Finding::warning(
        "missing_labels",
        format!(
            "{} {verb} taken for a label, though tables write missing values this way: if it is \
             one, leave these rows out of the data (with pandas, `dropna` before `to_csv`), or \
             `{first}` is a class that the model learns",
            quoted(&found)
        ),
    ))
}

/// pandas writes integers with a decimal point if one of them is missing.
fn ordered_as_text(labels: &[String]) -> Option<Finding> {
    let numbers: Vec<f64> = labels.iter().map(|label| number(label)).collect::<Option<_>>()?;
    let is_sorted_as_text = labels.is_sorted();
    if numbers.is_sorted() || !is_sorted_as_text {
        return None;
    }
    let first: Vec<&str> = labels.iter().take(4).map(String::as_str).collect();
    Some(Finding::warning(
        "label_order",
        format!(
            "labels are numbers, but not all integers, and are ordered as text: classes 0, 1, .. \
             are {}, ..; with integers in the data they are in the order of numbers",
            quoted(&first)
        ),
    ))
}

fn quoted(labels: &[&str]) -> String {
    let quoted: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(labels: &[&str]) -> Vec<String> {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        findings(&labels).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn labels_that_are_nearly_the_same_are_found() {
        let alike = "labels that differ only in case, in spaces around them or in how a number is \
                     written are separate classes: ";
        assert_eq!(found(&[" spam", "Spam", "ham"]), [format!("{alike}` spam`, `Spam`")]);
        assert_eq!(found(&["1", "1.0", "2"]), [format!("{alike}`1`, `1.0`")]);
        let many = ["A", "B", "C", "D", "E", "a", "b", "c", "d", "e"];
        let said = "`A`, `a`; `B`, `b`; `C`, `c`; and 2 more groups";
        assert_eq!(found(&many), [format!("{alike}{said}")]);
        assert_eq!(found(&["ham", "spam", "-1", "1"]), Vec::<String>::new());
        assert_eq!(found(&[]), Vec::<String>::new());
    }

    #[test]
    fn missing_values_that_became_a_class_are_found() {
        let said = found(&["nan", "neg", "pos"]);
        assert!(said[0].starts_with("`nan` is taken for a label"), "{said:?}");
        assert_eq!(said.len(), 1);
        assert_eq!(found(&["none", "some"]), Vec::<String>::new(), "may well be meant");
    }

    #[test]
    fn numbers_that_are_ordered_as_text_are_found() {
        let said = found(&["0.0", "1.0", "10.0", "11.0", "2.0"]);
        assert!(said[0].contains("classes 0, 1, .. are `0.0`, `1.0`, `10.0`, `11.0`, .."));
        assert_eq!(found(&["0.0", "1.0", "2.0"]), Vec::<String>::new());
        assert_eq!(found(&["2.0", "10.0", "1.0"]), Vec::<String>::new(), "the model's own order");
        assert_eq!(found(&["2", "10", "11"]), Vec::<String>::new());
    }
}
