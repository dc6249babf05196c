//! The files of a directory's tokenizer: what stands beside `tokenizer.json`, and what it is made
//! of where it is not there. That is what families had before it: SentencePiece models,
//! `vocab.txt`, or `vocab.json` with `merges.txt`. The rules are those of transformers 5
//! (`models/*/tokenization_*.py`).

mod converted;
mod families;
mod sentencepiece;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};
use tokenizers::TruncationDirection;

use super::TrainerError;
use converted::{AddedToken, Ids};
use hpsearch_core::arguments::vocabulary_files;
use sentencepiece::SentencePieces;

/// Marian's pieces of sources and of targets.
const SOURCE_PIECES: &str = "source.spm";
const TARGET_PIECES: &str = "target.spm";
const VOCABULARY: &str = "vocab.json";

/// Files that Hugging Face keeps beside `tokenizer.json`.
pub(super) const TOKENIZER_EXTRAS: [&str; 3] =
    ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"];

/// The files of a directory that a copy of its `tokenizer.json` takes along.
pub(super) fn extras_in(directory: &Path) -> impl Iterator<Item = &'static str> {
    let of_targets = of_targets(directory).iter().copied();
    let there = |name: &&str| directory.join(name).is_file();
    TOKENIZER_EXTRAS.into_iter().filter(there).chain(of_targets)
}

/// Whether a directory has a `tokenizer.json`, or the files to make it of.
pub(super) fn has_tokenizer(directory: &Path) -> bool {
    directory.join("tokenizer.json").is_file() || are_there(directory, &model_type(directory))
}

/// `model_type` in `config.json`; empty where there is none.
pub(super) fn model_type(directory: &Path) -> String {
    config(directory)["model_type"].as_str().unwrap_or_default().to_owned()
}

fn config(directory: &Path) -> Value {
    object(directory, "config.json")
}

fn object(directory: &Path, name: &str) -> Value {
    let bytes = fs::read(directory.join(name)).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Which end of long texts `tokenizer_config.json` cuts off, if it says so.
pub(super) fn truncation_side(directory: &Path) -> Option<TruncationDirection> {
    match object(directory, "tokenizer_config.json")["truncation_side"].as_str()? {
        "left" => Some(TruncationDirection::Left),
        "right" => Some(TruncationDirection::Right),
        _ => None,
    }
}

/// The mask token, where a directory names it.
///
/// # Errors
/// A file cannot be read or understood.
pub(super) fn mask_token(directory: &Path) -> Result<Option<String>, TrainerError> {
    let token = Files::of(directory)?.named("mask_token");
    Ok(token.map(|token| token.content))
}

/// Whether the directory of a model of `model_type` has all of these files.
pub(super) fn are_there(directory: &Path, model_type: &str) -> bool {
    let files = vocabulary_files(model_type);
    !files.is_empty() && files.iter().all(|name| directory.join(name).is_file())
}

/// What `tokenizer.json` would be for the directory of a model of `model_type`; `None` where files
/// are missing.
///
/// # Errors
/// A file cannot be read or understood.
pub(super) fn tokenizer_json(
    directory: &Path,
    model_type: &str,
) -> Result<Option<Vec<u8>>, TrainerError> {
    if !are_there(directory, model_type) {
        return Ok(None);
    }
    let files = Files::of(directory)?;
    let usual = match model_type {
        "t5" | "mt5" => "T5Tokenizer",
        "albert" => "AlbertTokenizer",
        "xlm-roberta" => "XLMRobertaTokenizer",
        "deberta-v2" => "DebertaV2Tokenizer",
        "marian" => "MarianTokenizer",
        "gpt2" => "GPT2Tokenizer",
        "roberta" | "bart" => "RobertaTokenizer",
        _ => "BertTokenizer",
    };
    let tokenizer = match (files.class(usual).as_str(), usual) {
        ("T5Tokenizer" | "MT5Tokenizer", "T5Tokenizer") => files.t5(),
        ("AlbertTokenizer", "AlbertTokenizer") => files.albert(),
        ("XLMRobertaTokenizer", "XLMRobertaTokenizer") => files.xlm_roberta(),
        ("DebertaV2Tokenizer", "DebertaV2Tokenizer") => files.deberta_v2(),
        ("MarianTokenizer", "MarianTokenizer") => files.marian(SOURCE_PIECES),
        ("BertTokenizer" | "DistilBertTokenizer" | "ElectraTokenizer", "BertTokenizer") => {
            files.word_pieces()
        }
        ("GPT2Tokenizer", "GPT2Tokenizer" | "RobertaTokenizer") => files.byte_pairs(false),
        ("RobertaTokenizer" | "BartTokenizer", "GPT2Tokenizer" | "RobertaTokenizer") => {
            files.byte_pairs(true)
        }
        (class, _) => Err(TrainerError::model(
            directory,
            format!(
                "has no `tokenizer.json`, and its `tokenizer_class` is `{class}`, which is not \
                 supported without one (`{usual}` is)"
            ),
        )),
    }?;
    tokenizer.bytes(directory).map(Some)
}

/// The files with which the texts to write have a tokenizer of their own, where they are there.
pub(super) fn of_targets(directory: &Path) -> &'static [&'static str] {
    if are_there(directory, "marian") { vocabulary_files("marian") } else { &[] }
}

/// The `tokenizer.json` of the texts to write, where they have one of their own.
///
/// # Errors
/// A file cannot be read or understood.
pub(super) fn target_tokenizer_json(directory: &Path) -> Result<Option<Vec<u8>>, TrainerError> {
    if of_targets(directory).is_empty() {
        return Ok(None);
    }
    Files::of(directory)?.marian(TARGET_PIECES)?.bytes(directory).map(Some)
}

/// The files of a directory that tokenizers are made of.
struct Files<'a> {
    directory: &'a Path,
    /// What `tokenizer_config.json` says, and `special_tokens_map.json` where that counts.
    settings: Map<String, Value>,
    /// Tokens that were added to the vocabulary, by their numbers.
    added: BTreeMap<u32, AddedToken>,
}

/// The names of tokens with a meaning, in the order in which transformers adds them.
const NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The largest number of a vocabulary with `tokens` tokens: holes cost memory.
fn largest_id(tokens: usize) -> usize {
    2 * tokens + 1_000
}

impl<'a> Files<'a> {
    fn of(directory: &'a Path) -> Result<Self, TrainerError> {
        let mut files = Self { directory, settings: Map::new(), added: BTreeMap::new() };
        files.settings = files.object("tokenizer_config.json")?;
        if let Some(decoder) = files.settings.remove("added_tokens_decoder") {
            files.added = serde_json::from_value(decoder).map_err(|error| {
                files.problem("tokenizer_config.json", format!("`added_tokens_decoder`: {error}"))
            })?;
        } else {
            let map = files.object("special_tokens_map.json")?;
            files.settings.extend(map);
            let added = files.object("added_tokens.json")?;
            let special: Vec<String> =
                NAMES.iter().filter_map(|name| files.named(name)).map(|one| one.content).collect();
            for (content, id) in added {
                let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
                let id = id.ok_or_else(|| {
                    files.problem("added_tokens.json", format!("`{content}` has no number"))
                })?;
                let special = special.contains(&content);
                let token =
                    AddedToken { special, normalized: !special, ..AddedToken::plain(&content) };
                files.added.insert(id, token);
            }
        }
        Ok(files)
    }

    /// The keys of a JSON file that have values; none where it is not there.
    fn object(&self, name: &str) -> Result<Map<String, Value>, TrainerError> {
        let bytes = match fs::read(self.directory.join(name)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
            Err(error) => return Err(self.problem(name, error)),
        };
        let object: Map<String, Value> =
            serde_json::from_slice(&bytes).map_err(|error| self.problem(name, error))?;
        Ok(object.into_iter().filter(|(_, value)| !value.is_null()).collect())
    }

    /// The class of transformers' tokenizer, `usual` unless the directory says another.
    fn class(&self, usual: &str) -> String {
        let config = config(self.directory);
        let named = self.settings.get("tokenizer_class").unwrap_or(&config["tokenizer_class"]);
        let named = named.as_str().unwrap_or(usual);
        named.strip_suffix("Fast").unwrap_or(named).to_owned()
    }

    fn problem(&self, name: &str, problem: impl std::fmt::Display) -> TrainerError {
        TrainerError::model(self.directory, format!("`{name}` cannot be used: {problem}"))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, TrainerError> {
        fs::read(self.directory.join(name)).map_err(|error| self.problem(name, error))
    }

    fn pieces(&self, name: &str) -> Result<SentencePieces, TrainerError> {
        let pieces = SentencePieces::read(&self.read(name)?);
        pieces.map_err(|problem| self.problem(name, problem))
    }

    /// The tokens of `vocab.json`.
    fn ids(&self) -> Result<Ids, TrainerError> {
        let ids: Ids = serde_json::from_slice(&self.read(VOCABULARY)?)
            .map_err(|error| self.problem(VOCABULARY, error))?;
        let largest = ids.iter().max_by_key(|(_, id)| **id);
        if let Some((token, id)) = largest.filter(|(_, id)| **id as usize > largest_id(ids.len())) {
            let problem =
                format!("`{token}` has the number {id}, with {} tokens in all", ids.len());
            return Err(self.problem(VOCABULARY, problem));
        }
        let mut tokens = HashMap::new();
        for (token, id) in &ids {
            if let Some(other) = tokens.insert(*id, token) {
                let problem = format!("`{other}` and `{token}` both have the number {id}");
                return Err(self.problem(VOCABULARY, problem));
            }
        }
        Ok(ids)
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.settings.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    /// The token that `name`, such as `eos_token`, stands for, where the directory says so.
    fn named(&self, name: &str) -> Option<AddedToken> {
        let value = self.settings.get(name)?;
        match value.as_str() {
            Some(content) => {
                let added = self.added.values().find(|token| token.content == content);
                Some(added.cloned().unwrap_or_else(|| AddedToken::special(content)))
            }
            None => serde_json::from_value(value.clone())
                .ok()
                .map(|token| AddedToken { special: true, ..token }),
        }
    }

    /// The same as text, or a default.
    fn token(&self, name: &str, default: &str) -> String {
        self.named(name).map_or_else(|| default.to_owned(), |token| token.content)
    }
}
