//! A column of a data file: what its values are like.

use std::collections::{BTreeMap, BTreeSet};

use crate::arguments::data_file::{MultiHot, is_ignored};

/// Maximum number of distinct values that are counted of a column.
const MOST_COUNTED: usize = 20_000;

/// Maximum number of distinct values of a label column.
const MOST_LABELS: usize = 1_000;

/// Maximum number of characters of one of several labels in a cell.
const LONGEST_LABEL: usize = 40;

/// A column, as far as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name in the header; of an object in JSON, as in `translation.en`.
    pub name: String,
    /// Rows by value; of lists in JSON, rows by element; `None` if there are too many.
    pub values: Option<BTreeMap<String, u64>>,
    /// Words of each text, by row.
    words: Vec<u32>,
    characters: u64,
    /// Number of numeric values.
    numbers: usize,
    /// How many of these are no integers.
    fractions: usize,
    /// The smallest and the largest of these.
    pub range: [f64; 2],
    /// Number of lists, in JSON.
    lists: usize,
    /// Whether its lists are numbers 0 and 1 for each label.
    pub multi_hot: MultiHot,
    /// Number of texts between brackets, as Python writes lists.
    bracketed: usize,
}

impl Column {
    /// A column without rows.
    pub(super) fn new(name: &str) -> Self {
        Column {
            name: name.to_owned(),
            values: Some(BTreeMap::new()),
            words: Vec::new(),
            characters: 0,
            numbers: 0,
            fractions: 0,
            range: [f64::INFINITY, f64::NEG_INFINITY],
            lists: 0,
            multi_hot: MultiHot::default(),
            bracketed: 0,
        }
    }

    /// Whether each row has as many words, or elements of a list, as in `other`; at least one row
    /// has several.
    pub fn has_words_as(&self, other: &Self) -> bool {
        self.is_of_lists() == other.is_of_lists()
            && self.words == other.words
            && self.words.iter().any(|words| *words > 1)
    }

    /// Whether each value is a list.
    pub fn is_of_lists(&self) -> bool {
        self.lists > 0 && self.lists == self.words.len()
    }

    /// The first row, counted from 1, that has not as many words or elements as in `other`.
    pub fn first_unequal(&self, other: &Self) -> Option<usize> {
        let mut pairs = self.words.iter().zip(&other.words);
        pairs.position(|(words, others)| words != others).map(|row| row + 1)
    }

    /// Whether no row has a value.
    pub fn is_empty(&self) -> bool {
        self.characters == 0
    }

    /// Whether its texts are lists as Python writes them.
    pub fn is_of_written_lists(&self) -> bool {
        self.bracketed > 0 && self.bracketed == self.words.len()
    }

    /// Whether it has labels of entities for words, such as `B-PER` and `O`, in lists or between
    /// spaces.
    pub fn has_entities(&self) -> bool {
        let is_tag = |label: &String| {
            label == "O"
                || label.split_once('-').is_some_and(|(place, kind)| {
                    place.len() == 1 && "BIOESLU".contains(place) && !kind.is_empty()
                })
        };
        let labels = self.by_label(Some(' ').filter(|_| self.lists == 0));
        let is_entity = |label: &String| is_ignored(label) || is_tag(label);
        labels.is_some_and(|labels| labels.len() > 1 && labels.keys().all(is_entity))
    }

    /// Whether its cells have several words each, which are few and short over all rows: labels of
    /// words.
    pub fn has_few_words(&self) -> bool {
        const MOST: usize = 60;
        const LONGEST: usize = 12;
        let words = self.by_label(Some(' ').filter(|_| self.lists == 0));
        let is_varied = self.words.iter().any(|words| *words != self.words[0]);
        self.lists == 0
            && is_varied
            && self.words_at(0.5) > 1
            && words.is_some_and(|words| {
                (2..=MOST.min(self.words.len() / 2)).contains(&words.len())
                    && words.keys().all(|word| word.chars().count() <= LONGEST)
            })
    }

    /// Whether nine in ten rows have as many words as in `other`, and not all.
    pub fn has_nearly_words_as(&self, other: &Self) -> bool {
        let pairs = || self.words.iter().zip(&other.words);
        let same = pairs().filter(|(words, others)| words == others).count();
        self.is_of_lists() == other.is_of_lists()
            && self.words_at(0.5) > 1
            && same < self.words.len()
            && same * 10 >= self.words.len() * 9
    }

    /// Adds the rows of the same column of another part of a set.
    pub(super) fn extend(&mut self, other: Column) {
        self.words.extend(other.words);
        self.characters += other.characters;
        self.numbers += other.numbers;
        self.fractions += other.fractions;
        self.range = [self.range[0].min(other.range[0]), self.range[1].max(other.range[1])];
        self.lists += other.lists;
        self.multi_hot.extend(other.multi_hot);
        self.bracketed += other.bracketed;
        self.values = self.values.take().zip(other.values).map(|(mut values, others)| {
            for (value, rows) in others {
                *values.entry(value).or_default() += rows;
            }
            values
        });
        self.values.take_if(|values| values.len() > MOST_COUNTED);
    }

    /// The first value that is no number, if others are.
    pub fn first_that_is_no_number(&self) -> Option<&str> {
        let is_number = |value: &&String| value.trim().parse::<f64>().is_ok_and(f64::is_finite);
        let values = self.values.as_ref().filter(|_| self.lists == 0)?;
        values.keys().find(|value| !is_number(value)).map(String::as_str)
    }

    /// Whether some values are numbers.
    pub fn has_numbers(&self) -> bool {
        self.numbers > 0
    }

    /// Whether each value is a number.
    pub fn is_of_numbers(&self) -> bool {
        self.numbers > 0 && self.numbers == self.words.len()
    }

    /// Whether each value is a number, and some are no integers.
    pub fn is_of_fractions(&self) -> bool {
        self.is_of_numbers() && self.fractions > 0
    }

    /// Whether each value is a number from -1 to 1.
    pub fn is_of_similarities(&self) -> bool {
        self.is_of_numbers() && self.range[0] >= -1.0 && self.range[1] <= 1.0
    }

    /// Whether its rows are texts of several words that hardly repeat.
    pub fn is_of_texts(&self) -> bool {
        let is_varied = |values: &BTreeMap<_, _>| values.len() * 2 >= self.words.len();
        !self.is_of_lists()
            && !self.is_of_numbers()
            && self.words_at(0.5) > 1
            && self.values.as_ref().is_none_or(is_varied)
    }

    /// Adds a row with a text.
    pub(super) fn add(&mut self, text: &str) {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        if let Some(number) = number {
            self.numbers += 1;
            self.fractions += usize::from(number.fract() != 0.0);
            self.range = [self.range[0].min(number), self.range[1].max(number)];
        }
        self.bracketed += usize::from(text.starts_with('[') && text.ends_with(']'));
        self.characters += text.chars().count() as u64;
        self.words.push(u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX));
        self.count(text);
    }

    /// Adds a row with a list of texts.
    pub(super) fn add_list(&mut self, all: &[String]) {
        self.characters += all.iter().map(|one| one.chars().count() as u64).sum::<u64>();
        self.words.push(u32::try_from(all.len()).unwrap_or(u32::MAX));
        self.lists += 1;
        self.multi_hot.add(all.iter().map(String::as_str));
        all.iter().for_each(|one| self.count(one));
    }

    fn count(&mut self, value: &str) {
        if let Some(values) = &mut self.values {
            *values.entry(value.to_owned()).or_default() += 1;
            if values.len() > MOST_COUNTED {
                self.values = None;
            }
        }
    }

    /// Its values, if there are few enough for labels.
    pub fn labels(&self) -> Option<&BTreeMap<String, u64>> {
        self.values.as_ref().filter(|values| (2..=MOST_LABELS).contains(&values.len()))
    }

    /// Rows by label, of several in each list or, between `separator`, in each cell.
    pub fn by_label(&self, separator: Option<char>) -> Option<BTreeMap<String, u64>> {
        let Some(separator) = separator else { return self.labels().cloned() };
        let mut rows_of = BTreeMap::new();
        for (cell, rows) in self.values.as_ref()? {
            for label in cell.split(separator).map(str::trim).filter(|label| !label.is_empty()) {
                *rows_of.entry(label.to_owned()).or_default() += rows;
            }
        }
        Some(rows_of)
    }

    /// What separates several labels in a cell: some cells have several, which also occur in other
    /// combinations or alone.
    pub fn separator_of_labels(&self) -> Option<char> {
        let values = self.values.as_ref().filter(|_| self.lists == 0)?;
        let is_separator = |mark: &char| {
            let (mut labels, mut several) = (BTreeSet::new(), 0);
            for (cell, rows) in values {
                let of_cell: Vec<&str> = cell.split(*mark).map(str::trim).collect();
                several += if of_cell.len() > 1 { *rows } else { 0 };
                labels.extend(of_cell);
            }
            labels.iter().all(|label| label.chars().count() <= LONGEST_LABEL)
                && several * 20 >= self.words.len() as u64
                && (2..values.len()).contains(&labels.len())
                && labels.len() * 4 <= self.words.len()
        };
        [',', ';', '|'].into_iter().find(is_separator)
    }

    /// The number of words at this quantile of text lengths.
    pub fn words_at(&self, share: f64) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index of at most 100,000 rows"
        )]
        let index = (share * self.words.len().saturating_sub(1) as f64) as usize;
        let mut words = self.words.clone();
        words.sort_unstable();
        words.get(index).copied().unwrap_or(0)
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean for a guess")]
    pub fn mean_characters(&self) -> f64 {
        self.characters as f64 / self.words.len().max(1) as f64
    }
}
