//! Data of encoders: rows with labels, checked, cut into splits and tokenised.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tokenizers::{PostProcessor as _, Tokenizer};

use super::atomic_directory::AtomicDirectory;
use super::prepared::{Description, Extra, Split};
use super::progress::{PARSE, TOKENISE, bytes};
use super::sources::{Sources, clean, note_header};
use super::splits::hold_out_splits;
use super::targets::Targets;
use super::tokenizer_file::{self, SpecialTokens, encode_pairs, encode_portions};
use super::vocabulary::{UNKNOWN, about, train_tokenizer};
use super::{DataProblem, Finding, TrainerError, model_directory};
use hpsearch_core::arguments::data_file::{
    DataRow, are_multi_hot, multi_hot_labels, name_multi_hot,
};
use hpsearch_core::arguments::{DataArguments, LabelFormat, TaskKind, TokenizerSource};
use hpsearch_core::study::counted::count;

/// Labelled rows, tokenised and written to `staged`.
pub(super) fn prepare(
    sources: &Sources,
    kind: TaskKind,
    staged: &AtomicDirectory,
) -> Result<Description, TrainerError> {
    let data = sources.data;
    let mut findings = Vec::new();
    sources.progress.begin_stage("reading the rows", sources.bytes * PARSE);
    let known = sources.labels_of_model()?;
    let (splits, all) = split(sources, kind, &known, &mut findings)?;
    let targets = Targets::of(kind, &splits, data, &known, all)?;
    note_overlap(&splits, data, &mut findings);
    note_contradictions(&splits, &mut findings);
    targets.note(&splits, data, &mut findings);

    let (trained, unknown) = tokenizer_of(sources, staged, &texts(&splits[0]), &[])?;
    sources.progress.begin_stage("tokenising the texts", sources.bytes * TOKENISE);
    let (mut done, all) = (0, splits.iter().map(|rows| bytes(&texts(rows))).sum());
    let mut on_bytes = |bytes| {
        done += bytes;
        sources.progress.update(done, all);
    };
    let mut extras = Vec::new();
    for (split, rows) in Split::ALL.into_iter().zip(&splits) {
        let ids = if data.text_pair.is_some() {
            let pairs: Vec<_> = rows.iter().map(|row| (&*row.text, &*row.text_pair)).collect();
            let [ids, types] = encode_pairs(&trained, &pairs, &mut on_bytes)?;
            sources.write_extra(staged, split, Extra::TokenTypes, &types)?;
            extras = vec![Extra::TokenTypes];
            ids
        } else {
            encode_portions(&trained, &texts(rows), SpecialTokens::Add, &mut on_bytes)?
        };
        note_tokens(split, &ids, ("max_length", data.max_length), unknown, &mut findings);
        note_blank(&trained, (split, rows), &ids, &mut findings);
        if let Some((_, row)) = ids.iter().zip(rows).find(|(ids, _)| ids.is_empty()) {
            let message = format!(
                "the tokenizer produces no tokens for the {} text `{}`",
                split.name(),
                row.text
            );
            let problem = sources.problem_of(split, Some(row.line), message);
            return Err(problem.with_help("remove the row").into());
        }
        let pairs = ids.into_iter().zip(rows);
        let encoded: Vec<_> =
            pairs.filter_map(|(ids, row)| Some((ids, targets.encode(row)?))).collect();
        let remedy = "give fewer rows, or a smaller `max_length`";
        sources.write_rows(staged, split, &encoded, remedy)?;
    }
    tokenizer_file::write(staged, &trained)?;
    let rows = splits.each_ref().map(Vec::len);
    Ok(Description {
        labels: targets.labels,
        label_sets: targets.sets,
        extras,
        ..sources.describe(rows, trained.get_vocab_size(true), findings)
    })
}

/// The tokenizer that `sources` ask for, trained on `texts` with these further special tokens or
/// pretrained, and its unknown token.
pub(super) fn tokenizer_of(
    sources: &Sources,
    staged: &AtomicDirectory,
    texts: &[&str],
    special: &[&str],
) -> Result<(Tokenizer, Option<u32>), TrainerError> {
    let max_length = sources.data.max_length;
    let (tokenizer, unknown) = match sources.tokenizer {
        TokenizerSource::Trained(arguments) => {
            let trained =
                train_tokenizer(texts, arguments, max_length, special, &sources.progress)?;
            for (name, bytes) in about(max_length, special) {
                staged.write(name, &bytes)?;
            }
            (trained, Some(UNKNOWN))
        }
        TokenizerSource::Pretrained(directory) => {
            let tokenizer = model_directory::tokenizer(directory, Some(max_length))?;
            let unknown = model_directory::unknown_token(&tokenizer);
            (tokenizer, unknown)
        }
    };
    // Each text has a token besides the special ones.
    let texts = if sources.data.text_pair.is_some() { 2 } else { 1 };
    let special =
        tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(texts == 2));
    if max_length < special + texts {
        let message = format!(
            "`[data] max_length` = {max_length} leaves no room for a token of each text beside the \
             {special} special ones"
        );
        let least = format!("give at least {}", special + texts);
        return Err(sources.problem(None, message).with_help(least).into());
    }
    Ok((tokenizer, unknown))
}

/// The rows of the training, validation and test split.
type Splits = [Vec<DataRow>; 3];

/// Reads and cleans every file and cuts the splits; of multi-hot labels also all that there are.
fn split(
    sources: &Sources,
    kind: TaskKind,
    known: &[String],
    findings: &mut Vec<Finding>,
) -> Result<(Splits, Option<Vec<String>>), TrainerError> {
    let data = sources.data;
    let mut splits = Splits::default();
    let mut multi_hot = None;
    let stratify = data.stratify && kind == TaskKind::TextClassification;
    for ((file, split), rows) in sources.files.iter().zip(Split::ALL).zip(&mut splits) {
        if let Some((path, file)) = file {
            let mut read = file.labelled_rows(path, data, kind)?;
            if split == Split::Train && has_multi_hot(kind, data, &read) {
                multi_hot = Some(multi_hot_labels(path, &read, known)?);
            }
            if multi_hot.is_none() && has_multi_hot(kind, data, &read) {
                let message = "the labels are lists of 0 and 1, and those of training rows are not";
                return Err(DataProblem::new(path, read.first().map(|row| row.line), message)
                    .with_help(
                        "give them alike in all files; or `label_format = \"multi-hot\"` of \
                         `[data]` reads a 0 or 1 for each label, \"names\" lists of names",
                    )
                    .into());
            }
            if let Some(labels) = &multi_hot {
                name_multi_hot(path, &mut read, labels)?;
            }
            note_header(&read, path, data, findings);
            *rows = clean(read, path, split, data, findings)?;
        }
    }
    let distinct = splits[0].iter().map(|row| &row.label).collect::<BTreeSet<_>>().len();
    if distinct < 2 && kind == TaskKind::TextClassification {
        let only = &splits[0][0].label;
        let message = format!("all {} rows have the label `{only}`", splits[0].len());
        let remedy =
            format!("a classifier needs at least two; is `{}` the right column?", data.label);
        return Err(sources.problem(None, message).with_help(remedy).into());
    }
    let all = splits[0].len();
    hold_out_splits(&mut splits, data, stratify);
    if splits.iter().zip(data.has_splits()).any(|(rows, wanted)| wanted && rows.is_empty()) {
        let message = format!("{all} rows with {distinct} labels are too few to split");
        let remedy =
            format!("each label needs at least two rows; is `{}` the right column?", data.label);
        return Err(sources.problem(None, message).with_help(remedy).into());
    }
    if let Some(labels) = &multi_hot {
        findings.push(Finding::note(
            "multi_hot",
            format!(
                "labels are multi-hot, a 0 or 1 for each of {}",
                count(labels.len() as u64, "label")
            ),
        ));
    }
    Ok((splits, multi_hot))
}

/// Whether the labels of training rows are a 0 or 1 for each label.
fn has_multi_hot(kind: TaskKind, data: &DataArguments, rows: &[DataRow]) -> bool {
    kind == TaskKind::MultiLabelClassification
        && match data.label_format {
            None | Some(LabelFormat::Names) => false,
            Some(LabelFormat::Auto) => are_multi_hot(rows),
            Some(LabelFormat::MultiHot) => true,
        }
}

/// A finding about texts that are in the training rows and others.
pub(super) fn note_overlap(
    splits: &[Vec<DataRow>; 3],
    data: &DataArguments,
    findings: &mut Vec<Finding>,
) {
    let train: HashSet<_> = splits[0].iter().map(both_texts).collect();
    let whole: HashSet<_> = splits[0].iter().map(|row| (both_texts(row), &row.label)).collect();
    for (rows, split) in splits.iter().zip(Split::ALL).skip(1) {
        let is_of_train = match split {
            Split::Test => data.test.is_none(),
            _ => data.validation.is_none(),
        };
        let repeats = rows.iter().any(|row| whole.contains(&(both_texts(row), &row.label)));
        let remedy = match (is_of_train, repeats) {
            (true, true) => "`[data] clean.deduplicate = true` leaves out rows that repeat another",
            (true, false) => {
                "they repeat no row, since their labels or targets differ: correct these"
            }
            (false, _) => "remove them from one of the two files",
        };
        let shared = rows.iter().filter(|row| train.contains(&both_texts(row))).count();
        if shared > 0 {
            findings.push(Finding::warning(
                "overlap",
                format!(
                    "{shared} of {} {} texts also occur in train, so that metrics are too good: \
                     {remedy}",
                    rows.len(),
                    split.name()
                ),
            ));
        }
    }
}

/// A finding about training rows that repeat a text with another label.
pub(super) fn note_contradictions(splits: &[Vec<DataRow>; 3], findings: &mut Vec<Finding>) {
    let mut first: BTreeMap<_, &str> = BTreeMap::new();
    let mut count = 0;
    for row in &splits[0] {
        count += usize::from(*first.entry(both_texts(row)).or_insert(&row.label) != row.label);
    }
    if count > 0 {
        let rows = if count == 1 { "row repeats" } else { "rows repeat" };
        findings.push(Finding::warning(
            "contradictions",
            format!(
                "{count} training {rows} a text with another label: correct or remove them, since \
                 a model cannot learn both"
            ),
        ));
    }
}

pub(super) fn note_tokens(
    split: Split,
    ids: &[Vec<u32>],
    (key, max_length): (&str, usize),
    unknown: Option<u32>,
    findings: &mut Vec<Finding>,
) {
    let cut = ids.iter().filter(|ids| ids.len() >= max_length).count();
    if cut > 0 {
        let message = format!(
            "{cut} of {} {} texts reach `{key}` = {max_length} tokens and may be cut",
            ids.len(),
            split.name()
        );
        findings.push(Finding::note("truncated", message).of(split.name()));
    }
    note_unknown(split, ids.iter(), unknown, findings);
}

/// A finding about texts in which the tokenizer finds nothing, such as those of characters without
/// width.
fn note_blank(
    tokenizer: &Tokenizer,
    (split, rows): (Split, &[DataRow]),
    ids: &[Vec<u32>],
    findings: &mut Vec<Finding>,
) {
    let is_pair = rows.first().is_some_and(|row| !row.text_pair.is_empty());
    let processor = tokenizer.get_post_processor();
    let special = processor.map_or(0, |processor| processor.added_tokens(is_pair));
    let blank = ids.iter().zip(rows).filter(|(ids, _)| ids.len() <= special);
    let lines: Vec<u64> = blank.map(|(_, row)| row.line).collect();
    if let Some(first) = lines.first() {
        findings.push(Finding::warning(
            "blank",
            format!(
                "{} of {} {} texts have no token besides special ones, so that all of them look \
                 alike (the first is on line {first})",
                lines.len(),
                rows.len(),
                split.name()
            ),
        ));
    }
}

/// A finding if more than one in twenty tokens is unknown.
pub(super) fn note_unknown<'i>(
    split: Split,
    ids: impl Iterator<Item = &'i Vec<u32>> + Clone,
    unknown: Option<u32>,
    findings: &mut Vec<Finding>,
) {
    let tokens: usize = ids.clone().map(|ids| ids.len().saturating_sub(2)).sum();
    let unknown = ids.flatten().filter(|id| Some(**id) == unknown).count();
    if 20 * unknown > tokens {
        findings.push(Finding::warning(
            "unknown",
            format!("{unknown} of {tokens} {} tokens are unknown to the tokenizer", split.name()),
        ));
    }
}

/// All texts, of pairs both.
pub(super) fn texts(rows: &[DataRow]) -> Vec<&str> {
    let both = rows.iter().flat_map(|row| [row.text.as_str(), row.text_pair.as_str()]);
    both.filter(|text| !text.is_empty()).collect()
}

pub(super) fn both_texts(row: &DataRow) -> (&str, &str) {
    (&row.text, &row.text_pair)
}
