//! Which columns of a data file hold what, guessed by their names and contents.

use super::columns::{Column, DataTable};

/// Names that columns of texts and labels often have, the likeliest first.
const TEXTS: &str = "\
    text sentence content message review body comment document utterance question tweet title";
const LABELS: &str = "\
    label labels class category target sentiment intent topic department rating stars y";
/// Names that columns of numbers to learn have besides, and those of several labels.
const NUMBERS: &str = "score similarity similarity_score value price";
const SEVERAL: &str = "tags categories topics genres";

/// Names that the columns of pairs of texts have, most of them in GLUE.
const PAIRS: [[&str; 2]; 9] = [
    ["sentence1", "sentence2"],
    ["premise", "hypothesis"],
    ["question1", "question2"],
    ["question", "sentence"],
    ["text", "text_pair"],
    ["text_a", "text_b"],
    ["text1", "text2"],
    ["anchor", "positive"],
    ["query", "positive"],
];

/// Names that the columns of questions, contexts and answers have in SQuAD and its like.
const QUESTIONS: [&[&str]; 3] =
    [&["question", "query"], &["context", "passage"], &["answers", "answer", "answer_text"]];

/// Names that columns of texts and of the texts to write for them have.
const TARGETS: [[&str; 2]; 18] = [
    ["article", "highlights"],
    ["article", "summary"],
    ["document", "summary"],
    ["dialogue", "summary"],
    ["text", "summary"],
    ["source", "target"],
    ["src", "tgt"],
    ["source_text", "target_text"],
    ["input_text", "target_text"],
    ["instruction", "output"],
    ["instruction", "response"],
    ["input", "output"],
    ["input", "target"],
    ["prompt", "completion"],
    ["prompt", "response"],
    ["question", "answer"],
    ["request", "command"],
    ["nl", "cmd"],
];

/// Languages by their codes (ISO 639-1), the names of columns of translations.
const LANGUAGES: &str = "en de fr es it pt nl da sv no fi is pl cs sk sl hr sr bg ru uk ro hu el \
    tr ar he fa hi bn ta te ur zh ja ko vi th id ms sw";
/// Those that are no languages as names of columns.
const OTHER_WORDS: &str = "id is no he hi ms";

/// Names of columns of lists of words, and of lists with a label for each.
const WORDS: &str = "tokens words";
const TAGS: &str = "ner_tags tags pos_tags labels";

/// A candidate column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess<'a> {
    /// The column.
    pub column: &'a Column,
    /// Why it was chosen.
    pub why: Why,
}

/// The basis of a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its name is usual for it.
    Name,
    /// It has the longest values.
    Longest,
    /// It has the fewest different values.
    Fewest,
    /// No other column has decimal numbers.
    Numbers,
    /// There are two columns, both of texts.
    Only,
}

impl Why {
    /// As the end of a sentence about the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Why::Name => "guessed by its name",
            Why::Longest => "guessed: it has the longest values",
            Why::Fewest => "guessed: it has the fewest different values",
            Why::Numbers => "guessed: no other column has decimal numbers",
            Why::Only => "guessed: both columns hold texts",
        }
    }
}

/// The columns with these names, in the order of the names.
fn named<'a>(table: &'a DataTable, names: &str) -> impl Iterator<Item = &'a Column> {
    let find =
        |name: &str| table.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
    names.split(' ').filter_map(find).collect::<Vec<_>>().into_iter()
}

/// The first of some pairs of names that are both there.
fn named_pairs<'a>(
    table: &'a DataTable,
    pairs: &[[&str; 2]],
) -> impl Iterator<Item = [&'a Column; 2]> {
    let pair = |[first, second]: &[&str; 2]| {
        Some([named(table, first).next()?, named(table, second).next()?])
    };
    pairs.iter().filter_map(pair).collect::<Vec<_>>().into_iter()
}

/// The columns of texts and labels; `None` if nothing fits.
pub fn texts_and_labels(table: &DataTable) -> (Option<Guess<'_>>, Option<Guess<'_>>) {
    let of = |why: Why| move |column| Guess { column, why };
    let label = labels(table);
    let is_free = |column: &&Column| label.is_none_or(|label| label.column.name != column.name);
    let longest = table
        .columns
        .iter()
        .filter(is_free)
        .max_by(|one, other| one.mean_characters().total_cmp(&other.mean_characters()));
    let text = named(table, TEXTS).find(is_free).map(of(Why::Name));
    (text.or(longest.map(of(Why::Longest))), label)
}

/// The column of labels or numbers.
fn labels(table: &DataTable) -> Option<Guess<'_>> {
    let of = |why: Why| move |column| Guess { column, why };
    let has_several =
        |column: &&Column| is_of_several(column) || column.separator_of_labels().is_some();
    let is_learned = |column: &&Column| table.is_label(column) || column.is_of_numbers();
    let by_name = named(table, LABELS).find(|column| table.is_label(column));
    let by_name = by_name.or_else(|| {
        let of_labels = named(table, LABELS).chain(named(table, NUMBERS));
        of_labels
            .chain(named(table, SEVERAL))
            .find(|column| is_learned(column) && !column.is_of_lists() || has_several(column))
    });
    let fewest = || {
        let likely = table.columns.iter().filter(|column| table.is_label(column));
        let pair = pair(table);
        let likely = likely.filter(|column| {
            !is_of_texts(column) && !pair.is_some_and(|pair| pair.contains(column))
        });
        likely.min_by_key(|column| column.labels().map_or(usize::MAX, |values| values.len()))
    };
    let fractions = || {
        let mut those = table.columns.iter().filter(|column| column.is_of_fractions());
        those.next().filter(|_| those.next().is_none())
    };
    (by_name.map(of(Why::Name)))
        .or_else(|| fewest().map(of(Why::Fewest)))
        .or_else(|| fractions().map(of(Why::Numbers)))
}

/// Whether a column has lists of labels.
pub fn is_of_several(column: &Column) -> bool {
    column.is_of_lists() && column.labels().is_some()
}

/// The columns of pairs of texts, if both are there under names that are usual for them.
pub fn pair(table: &DataTable) -> Option<[&Column; 2]> {
    named_pairs(table, &PAIRS).next()
}

/// The columns of questions, contexts and answers, if all are there under their usual names.
pub fn questions(table: &DataTable) -> Option<[&Column; 3]> {
    let [question, context, answers] = QUESTIONS.map(|names| named(table, &names.join(" ")).next());
    Some([question?, context?, answers?])
}

/// The columns of texts and of texts to write: under names that are usual for them, the second one
/// without labels.
pub fn target(table: &DataTable) -> Option<[&Column; 2]> {
    let is_written =
        |[_, target]: &[&Column; 2]| !table.is_label(target) && !target.is_of_numbers();
    named_pairs(table, &TARGETS).find(is_written).or_else(|| languages(table))
}

/// Two columns that are named after languages: `en` and `de`, or `translation.en` and
/// `translation.de`.
fn languages(table: &DataTable) -> Option<[&Column; 2]> {
    let of_languages: Vec<&Column> =
        table.columns.iter().filter(|column| is_language(&column.name)).collect();
    <[&Column; 2]>::try_from(of_languages).ok()
}

/// Whether a column is named after a language.
pub fn is_language(column: &str) -> bool {
    let (inside, name) = column.rsplit_once('.').unwrap_or(("", column));
    let name = name.to_ascii_lowercase();
    let code = name.split(['-', '_']).next().unwrap_or(&name);
    let is_among = |words: &str| words.split(' ').any(|word| word == code);
    is_among(LANGUAGES) && !(inside.is_empty() && is_among(OTHER_WORDS))
}

/// The columns of a table that has two, both of texts.
pub fn two_texts(table: &DataTable) -> Option<[&Column; 2]> {
    match table.columns.as_slice() {
        [first, second] if first.is_of_texts() && second.is_of_texts() => Some([first, second]),
        _ => None,
    }
}

/// The columns of words and of their labels: lists of equal lengths, or as many words in each cell;
/// under their usual names, or with labels of entities.
pub fn words(table: &DataTable) -> Option<[&Column; 2]> {
    let by_name = || {
        let words = named(table, WORDS).next()?;
        named(table, TAGS).find(|tags| tags.has_words_as(words)).map(|tags| [words, tags])
    };
    let by_tags = |is_of_tags: &dyn Fn(&Column) -> bool| {
        let tags = table.columns.iter().find(|column| is_of_tags(column))?;
        let is_of_words = |column: &&Column| *column != tags && column.has_words_as(tags);
        Some([table.columns.iter().find(is_of_words)?, tags])
    };
    by_name()
        .or_else(|| by_tags(&Column::has_entities))
        .or_else(|| by_tags(&|column| column.has_few_words() && !is_of_texts(column)))
}

/// Texts, and labels of entities for the words of nearly all of them: some row lacks one.
pub fn nearly_words(table: &DataTable) -> Option<[&Column; 2]> {
    let tags = table.columns.iter().find(|column| column.has_entities())?;
    let is_of_words = |column: &&Column| *column != tags && column.has_nearly_words_as(tags);
    Some([table.columns.iter().find(is_of_words)?, tags])
}

/// Whether a column is called like one of texts.
fn is_of_texts(column: &Column) -> bool {
    TEXTS.split(' ').any(|name| column.name.eq_ignore_ascii_case(name))
}

/// Columns of lists that are called like words and their labels, whatever their lengths.
pub fn lists_of_words(table: &DataTable) -> Option<[&Column; 2]> {
    let words = named(table, WORDS).find(|column| column.is_of_lists())?;
    let tags = named(table, TAGS).find(|column| column.is_of_lists() && *column != words)?;
    Some([words, tags])
}

/// A column that is called like one of labels or numbers, whatever is in it.
pub fn called_like_labels(table: &DataTable) -> Option<&Column> {
    named(table, LABELS).chain(named(table, NUMBERS)).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::init::columns::tests::{rows, table};

    #[test]
    fn columns_are_guessed_by_their_names_else_by_their_contents() {
        let reviews = rows(|index| {
            format!("{index},\"a text, number {index}\",{},web", ["good", "bad"][index % 2])
        });
        let messages =
            rows(|index| format!("{index}\tthis is \"message\" number {index}\t{}", index % 3));
        let json = rows(|index| {
            format!("{{\"review\": \"number {index} of them\", \"stars\": {}}}", index % 5)
        });
        let json_list = format!("[{}]", json.trim_end().replace('\n', ",\n"));
        let plain = rows(|index| format!("only text {index}"));
        for (name, content, text, label) in [
            ("reviews.csv", format!("id,Text,Label,source\n{reviews}"), "Text", Some("Label")),
            ("messages.tsv", format!("a\tb\tc\n{messages}"), "b", Some("c")),
            ("reviews.jsonl", json, "review", Some("stars")),
            ("reviews.json", json_list, "review", Some("stars")),
            ("plain.csv", format!("text\n{plain}"), "text", None),
        ] {
            let table = table(name, content.as_bytes()).unwrap();
            let guessed = texts_and_labels(&table);
            assert_eq!(guessed.0.map(|guess| guess.column.name.as_str()), Some(text), "{name}");
            assert_eq!(guessed.1.map(|guess| guess.column.name.as_str()), label, "{name}");
        }
    }

    #[test]
    fn words_with_their_labels_and_pairs_are_known_by_their_columns() {
        let content = rows(|index| {
            let tags = if index == 7 { "[\"O\"]" } else { "[\"B-X\", 3]" };
            format!("{{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [1, 2], \"tags\": {tags}}}")
        });
        let found = table("a.jsonl", content.as_bytes()).unwrap();
        let [of_words, of_tags] = words(&found).unwrap();
        assert_eq!((of_words.name.as_str(), of_tags.name.as_str()), ("tokens", "ner_tags"));
        assert_eq!((of_words.words_at(0.5), of_tags.values.as_ref().unwrap().len()), (2, 2));
        let tags = found.column("tags").unwrap();
        assert!(!tags.has_words_as(of_words), "one row has another length");
        assert!(pair(&found).is_none());
        let pairs = rows(|index| format!("first {index},second {index},{}", index % 2));
        let found =
            table("a.csv", format!("premise,hypothesis,label\n{pairs}").as_bytes()).unwrap();
        assert_eq!(
            pair(&found).unwrap().map(|column| column.name.as_str()),
            ["premise", "hypothesis"]
        );
        assert!(words(&found).is_none());
    }
}
