//! Data of sentence similarity: pairs of texts, each text tokenised by itself, with a similarity or
//! without.

use super::atomic_directory::AtomicDirectory;
use super::findings::in_splits;
use super::labelled::{
    both_texts, note_contradictions, note_overlap, note_tokens, texts, tokenizer_of,
};
use super::prepared::{Description, Extra, Split};
use super::progress::{PARSE, TOKENISE, bytes};
use super::sources::{Sources, clean};
use super::targets::number;
use super::tokenizer_file::{self, SpecialTokens, encode_portions};
use super::{Finding, TrainerError};
use hpsearch_core::arguments::data_file::DataRow;

/// Pairs of texts, tokenised and written to `staged`.
pub(super) fn prepare(
    sources: &Sources,
    staged: &AtomicDirectory,
) -> Result<Description, TrainerError> {
    let data = sources.data;
    let mut findings = Vec::new();
    sources.progress.begin_stage("reading the rows", sources.bytes * PARSE);
    let splits = read(sources, &mut findings)?;
    note_overlap(&splits, data, &mut findings);
    note_contradictions(&splits, &mut findings);
    let of = if data.score.is_some() { "pairs with similarities" } else { "pairs" };
    let counted = in_splits(splits.each_ref().map(Vec::len));
    findings.push(Finding::note("rows", format!("{counted} {of}")));

    let (tokenizer, unknown) = tokenizer_of(sources, staged, &texts(&splits[0]), &[])?;
    sources.progress.begin_stage("tokenising the texts", sources.bytes * TOKENISE);
    let (mut done, all) = (0, splits.iter().map(|rows| bytes(&texts(rows))).sum());
    let mut on_bytes = |bytes| {
        done += bytes;
        sources.progress.update(done, all);
    };
    for (split, rows) in Split::ALL.into_iter().zip(&splits) {
        let (first, second): (Vec<&str>, Vec<&str>) = rows.iter().map(both_texts).unzip();
        let mut encode =
            |texts: &[&str]| encode_portions(&tokenizer, texts, SpecialTokens::Add, &mut on_bytes);
        let (first, second) = (encode(&first)?, encode(&second)?);
        let both: Vec<Vec<u32>> = first.iter().chain(&second).cloned().collect();
        note_tokens(split, &both, ("max_length", data.max_length), unknown, &mut findings);
        let empty = first
            .iter()
            .zip(&second)
            .position(|(first, second)| first.is_empty() || second.is_empty());
        if let Some(row) = empty.and_then(|row| rows.get(row)) {
            let message = format!("the tokenizer produces no tokens for a {} text", split.name());
            let problem = sources.problem_of(split, Some(row.line), message);
            return Err(problem.with_help("remove the row").into());
        }
        // Without similarities all are the same.
        let score = |row: &DataRow| number(&row.label).unwrap_or(1.0).to_bits();
        let encoded: Vec<_> = first.into_iter().zip(rows.iter().map(score)).collect();
        let remedy = "give fewer rows, or a smaller `max_length`";
        sources.write_rows(staged, split, &encoded, remedy)?;
        sources.write_extra(staged, split, Extra::SecondTexts, &second)?;
    }
    tokenizer_file::write(staged, &tokenizer)?;
    let rows = splits.each_ref().map(Vec::len);
    Ok(Description {
        extras: vec![Extra::SecondTexts],
        has_scores: data.score.is_some(),
        ..sources.describe(rows, tokenizer.get_vocab_size(true), findings)
    })
}

/// Reads and cleans every file and cuts the splits.
fn read(sources: &Sources, findings: &mut Vec<Finding>) -> Result<[Vec<DataRow>; 3], TrainerError> {
    let data = sources.data;
    let mut splits: [Vec<DataRow>; 3] = Default::default();
    for ((file, split), rows) in sources.files.iter().zip(Split::ALL).zip(&mut splits) {
        if let Some((path, file)) = file {
            *rows = clean(file.scored_rows(data)?, path, split, data, findings)?;
        }
    }
    for (split, rows) in Split::ALL.into_iter().zip(&splits) {
        let is_wrong = |row: &&DataRow| {
            data.score.is_some()
                && number(&row.label).is_none_or(|score| !(-1.0..=1.0).contains(&score))
        };
        if let Some(row) = rows.iter().find(is_wrong) {
            let message = format!("similarity `{}` is not a number from -1 to 1", row.label);
            return Err(sources
                .problem_of(split, Some(row.line), message)
                .with_help("divide similarities by the largest, so that identical texts have 1")
                .into());
        }
    }
    sources.hold_out(&mut splits)?;
    Ok(splits)
}
