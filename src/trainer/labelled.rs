//! Data of encoders: rows with labels, checked, cut into splits and tokenised.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::atomic_directory::AtomicDirectory;
use super::prepared::{Description, Split, TokenRows};
use super::progress::{PARSE, TOKENISE};
use super::progress::{bytes, portions};
use super::sources::{Sources, clean, note_header};
use super::splits::hold_out;
use super::targets::Targets;
use super::vocabulary::{UNKNOWN, about, encode, train_tokenizer};
use super::{DataProblem, Finding, TrainerError, model_directory};
use crate::arguments::data_file::Row;
use crate::arguments::{TaskKind, TokenizerSource};

/// Labelled rows, tokenised and written to `draft`.
pub(super) fn prepare(
    sources: &Sources,
    kind: TaskKind,
    draft: &AtomicDirectory,
) -> Result<Description, TrainerError> {
    let data = sources.data;
    let mut findings = Vec::new();
    sources.progress.begin_stage("reading the rows", sources.bytes * PARSE);
    let splits = split(sources, kind, &mut findings)?;
    let targets = Targets::of(kind, &splits, data)?;
    note_overlap(&splits, &mut findings);
    targets.note(&splits, &mut findings);

    let (trained, unknown) = match sources.tokenizer {
        TokenizerSource::Trained(arguments) => {
            let trained =
                train_tokenizer(&texts(&splits[0]), arguments, data.max_length, &sources.progress)?;
            for (name, bytes) in about(data.max_length) {
                draft.write(name, &bytes)?;
            }
            (trained, Some(UNKNOWN))
        }
        TokenizerSource::Pretrained(directory) => {
            let tokenizer = model_directory::tokenizer(directory, Some(data.max_length))?;
            let unknown = model_directory::unknown_token(&tokenizer);
            (tokenizer, unknown)
        }
    };
    sources.progress.begin_stage("tokenising the texts", sources.bytes * TOKENISE);
    let (mut done, all) = (0, splits.iter().map(|rows| bytes(&texts(rows))).sum());
    for (split, rows) in Split::ALL.into_iter().zip(&splits) {
        let mut ids = Vec::with_capacity(rows.len());
        for portion in portions(&texts(rows)) {
            ids.extend(encode(&trained, portion)?);
            done += bytes(portion);
            sources.progress.update(done, all);
        }
        note_tokens(split, &ids, data.max_length, unknown, &mut findings);
        if let Some((_, row)) = ids.iter().zip(rows).find(|(ids, _)| ids.is_empty()) {
            let message =
                format!("the tokenizer makes nothing of the {} text `{}`", split.name(), row.text);
            return Err(DataProblem::new(&data.train, Some(row.line), message)
                .with_help("take the row out")
                .into());
        }
        let tokens: usize = ids.iter().map(Vec::len).sum();
        if u32::try_from(tokens).is_err() {
            return Err(DataProblem::new(
                &data.train,
                None,
                format!("{tokens} tokens are more than 2^32"),
            )
            .with_help("give fewer rows, or a smaller `max_length`")
            .into());
        }
        let encoded: Vec<_> = ids
            .into_iter()
            .zip(rows)
            .filter_map(|(ids, row)| Some((ids, targets.encode(row)?)))
            .collect();
        draft.write(&format!("{}.rows", split.name()), &TokenRows::encode(&encoded))?;
    }
    draft.write(
        "tokenizer.json",
        trained.to_string(false).map_err(TrainerError::tokenizer)?.as_bytes(),
    )?;
    let rows = [splits[0].len(), splits[1].len(), splits[2].len()];
    Ok(Description {
        labels: targets.labels,
        label_sets: targets.sets,
        ..sources.describe(rows, trained.get_vocab_size(true), findings)
    })
}

/// Reads and cleans every file and cuts the splits.
fn split(
    sources: &Sources,
    kind: TaskKind,
    findings: &mut Vec<Finding>,
) -> Result<[Vec<Row>; 3], TrainerError> {
    let data = sources.data;
    let mut splits: [Vec<Row>; 3] = Default::default();
    let stratify = data.stratify && kind == TaskKind::TextClassification;
    for ((file, split), rows) in sources.files.iter().zip(Split::ALL).zip(&mut splits) {
        if let Some((path, file)) = file {
            let read =
                file.labelled_rows(path, data, kind == TaskKind::MultiLabelClassification)?;
            note_header(&read, path, data, findings);
            *rows = clean(read, path, split, data, findings)?;
        }
    }
    let distinct = splits[0].iter().map(|row| &row.label).collect::<BTreeSet<_>>().len();
    if distinct < 2 && kind == TaskKind::TextClassification {
        let only = &splits[0][0].label;
        return Err(DataProblem::new(
            &data.train,
            None,
            format!("all {} rows have the label `{only}`", splits[0].len()),
        )
        .with_help(format!(
            "a classifier needs at least two; is `{}` the right column?",
            data.label
        ))
        .into());
    }
    let all = splits[0].len();
    // Both shares are of the whole file, so the second is taken from what the first left.
    if let Some(share) = data.test_split {
        splits[2] = hold_out(&mut splits[0], share, stratify, data.seed, "test");
    }
    if let Some(share) = data.validation_split {
        #[expect(clippy::cast_precision_loss, reason = "row counts")]
        let share = (share * all as f64 / splits[0].len() as f64).min(1.0);
        splits[1] = hold_out(&mut splits[0], share, stratify, data.seed, "validation");
    }
    let wanted = [true, true, data.test.is_some() || data.test_split.is_some()];
    if splits.iter().zip(wanted).any(|(rows, wanted)| wanted && rows.is_empty()) {
        return Err(DataProblem::new(
            &data.train,
            None,
            format!("{all} rows with {distinct} labels are too few to split"),
        )
        .with_help(format!(
            "each label needs at least two rows; is `{}` the right column?",
            data.label
        ))
        .into());
    }
    Ok(splits)
}

fn note_overlap(splits: &[Vec<Row>; 3], findings: &mut Vec<Finding>) {
    let train: HashSet<&str> = splits[0].iter().map(|row| row.text.as_str()).collect();
    for (rows, split) in splits.iter().zip(Split::ALL).skip(1) {
        let shared = rows.iter().filter(|row| train.contains(row.text.as_str())).count();
        if shared > 0 {
            findings.push(Finding::warning(
                "overlap",
                format!("{shared} of {} {} texts also occur in train", rows.len(), split.name()),
            ));
        }
    }
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    let mut count = 0;
    for row in &splits[0] {
        count += usize::from(*first.entry(row.text.as_str()).or_insert(&row.label) != row.label);
    }
    if count > 0 {
        findings.push(Finding::warning(
            "contradictions",
            format!("{count} training rows repeat a text with another label"),
        ));
    }
}

fn note_tokens(
    split: Split,
    ids: &[Vec<u32>],
    max_length: usize,
    unknown: Option<u32>,
    findings: &mut Vec<Finding>,
) {
    let cut = ids.iter().filter(|ids| ids.len() >= max_length).count();
    if cut > 0 {
        findings.push(Finding::note(
            "truncated",
            format!(
                "{cut} of {} {} texts reach `max_length` = {max_length} tokens and may be cut",
                ids.len(),
                split.name()
            ),
        ));
    }
    let tokens: usize = ids.iter().map(|ids| ids.len().saturating_sub(2)).sum();
    let unknown = ids.iter().flatten().filter(|id| Some(**id) == unknown).count();
    if 20 * unknown > tokens {
        findings.push(Finding::warning(
            "unknown",
            format!("{unknown} of {tokens} {} tokens are unknown to the tokenizer", split.name()),
        ));
    }
}

fn texts(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.text.as_str()).collect()
}
