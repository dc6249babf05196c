//! The tokenizer of a model's directory without `tokenizer.json`, made of the files that families
//! had before it: SentencePiece models, `vocab.txt`, or `vocab.json` with `merges.txt`. The rules
//! are those of transformers 5 (`models/*/tokenization_*.py`).

mod sentencepiece;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use tokenizers::NormalizerWrapper;
use tokenizers::normalizers::Precompiled;

use super::TrainerError;
use super::tokenizer_file::catch_panics;
use hpsearch_core::arguments::vocabulary_files;
use sentencepiece::{PieceKind, SentencePieces};

/// The pieces of texts, of which the first two belong to Marian, whose two texts differ in them.
const SOURCE_PIECES: &str = "source.spm";
const TARGET_PIECES: &str = "target.spm";
const VOCABULARY: &str = "vocab.json";
const MERGES: &str = "merges.txt";
const WORD_PIECES: &str = "vocab.txt";

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
    let config = fs::read(directory.join("config.json")).unwrap_or_default();
    let config: Value = serde_json::from_slice(&config).unwrap_or_default();
    config["model_type"].as_str().unwrap_or_default().to_owned()
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
    let files = Files { directory, settings: settings(directory) };
    let tokenizer = match model_type {
        "t5" | "mt5" => files.t5(),
        "albert" => files.albert(),
        "xlm-roberta" => files.xlm_roberta(),
        "deberta-v2" => files.deberta_v2(),
        "marian" => files.marian(SOURCE_PIECES),
        "bert" | "distilbert" | "electra" => files.word_pieces(),
        _ => files.byte_pairs(model_type != "gpt2"),
    }?;
    Ok(Some(tokenizer.json().to_string().into_bytes()))
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
    let files = Files { directory, settings: settings(directory) };
    Ok(Some(files.marian(TARGET_PIECES)?.json().to_string().into_bytes()))
}

/// What `tokenizer_config.json` and `special_tokens_map.json` say.
fn settings(directory: &Path) -> Map<String, Value> {
    let mut settings = Map::new();
    for name in ["special_tokens_map.json", "tokenizer_config.json"] {
        let bytes = fs::read(directory.join(name)).unwrap_or_default();
        if let Ok(Value::Object(of_file)) = serde_json::from_slice(&bytes) {
            settings.extend(of_file.into_iter().filter(|(_, value)| !value.is_null()));
        }
    }
    settings
}

/// Before a token that a tokenizer knows by its number only: no text contains it.
const UNREACHABLE: char = '\u{e000}';

/// The files of a directory that tokenizers are made of.
struct Files<'a> {
    directory: &'a Path,
    settings: Map<String, Value>,
}

impl Files<'_> {
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

    fn ids(&self, name: &str) -> Result<HashMap<String, u32>, TrainerError> {
        serde_json::from_slice(&self.read(name)?).map_err(|error| self.problem(name, error))
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.settings.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    /// The token that `name`, such as `eos_token`, stands for.
    fn token(&self, name: &str, default: &str) -> String {
        let value = self.settings.get(name);
        let value = value.and_then(|value| value.as_str().or_else(|| value["content"].as_str()));
        value.unwrap_or(default).to_owned()
    }

    /// `T5Tokenizer`.
    fn t5(&self) -> Result<ConvertedTokenizer, TrainerError> {
        let name = "spiece.model";
        let pieces = self.pieces(name)?;
        let extra = self.settings.get("extra_ids").and_then(Value::as_u64).unwrap_or(100);
        let extra: Vec<String> =
            (0..extra.min(10_000)).rev().map(|id| format!("<extra_id_{id}>")).collect();
        let unigram = Unigram {
            vocabulary: pieces.scored().chain(extra.iter().map(|id| (id.clone(), 0.0))).collect(),
            unknown: pieces.unknown,
        };
        let end = self.token("eos_token", "</s>");
        let mut converted =
            ConvertedTokenizer::unigram(unigram, self.precompiled(name, &pieces)?, split_words());
        for token in [&end, &self.token("unk_token", "<unk>"), &self.token("pad_token", "<pad>")] {
            converted.add_special(token);
        }
        converted.add_pieces(&pieces);
        extra.iter().for_each(|token| converted.add_special(token));
        converted.template(&["$A", &end], &[("$A", 0), (&end, 0), ("$B", 0), (&end, 0)]);
        Ok(converted)
    }

    /// `AlbertTokenizer`.
    fn albert(&self) -> Result<ConvertedTokenizer, TrainerError> {
        let name = "spiece.model";
        let pieces = self.pieces(name)?;
        let mut normalizers = vec![
            json!({"type": "Replace", "pattern": {"String": "``"}, "content": "\""}),
            json!({"type": "Replace", "pattern": {"String": "''"}, "content": "\""}),
        ];
        if !self.flag("keep_accents", false) {
            normalizers.extend([json!({"type": "NFKD"}), json!({"type": "StripAccents"})]);
        }
        if self.flag("do_lower_case", true) {
            normalizers.push(json!({"type": "Lowercase"}));
        }
        normalizers.extend(self.precompiled(name, &pieces)?);
        let unigram = Unigram { vocabulary: pieces.scored().collect(), unknown: pieces.unknown };
        let mut converted =
            ConvertedTokenizer::unigram(unigram, Some(sequence(normalizers)), split_words());
        self.add_bert_tokens(&mut converted, ["<unk>", "<pad>"]);
        converted.add_pieces(&pieces);
        Ok(converted)
    }

    /// `XLMRobertaTokenizer`, which puts four tokens of its own before all but three pieces.
    fn xlm_roberta(&self) -> Result<ConvertedTokenizer, TrainerError> {
        let name = "sentencepiece.bpe.model";
        let pieces = self.pieces(name)?;
        let own = [
            ("bos_token", "<s>"),
            ("pad_token", "<pad>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
        ]
        .map(|(name, default)| self.token(name, default));
        let mask = self.token("mask_token", "<mask>");
        let vocabulary = own.iter().map(|token| (token.clone(), 0.0));
        let vocabulary = vocabulary.chain(pieces.scored().skip(3)).chain([(mask.clone(), 0.0)]);
        let unigram = Unigram { vocabulary: vocabulary.collect(), unknown: 3 };
        let [begin, _, end, _] = own.each_ref().map(String::as_str);
        let mut converted =
            ConvertedTokenizer::unigram(unigram, self.precompiled(name, &pieces)?, split_words());
        own.iter().chain([&mask]).for_each(|token| converted.add_special(token));
        converted.add_pieces(&pieces);
        let pair = [begin, "$A", end, end, "$B", end].map(|part| (part, 0));
        converted.template(&[begin, "$A", end], &pair);
        Ok(converted)
    }

    /// `DebertaV2Tokenizer`, which does not use the normalisation of its SentencePiece model.
    fn deberta_v2(&self) -> Result<ConvertedTokenizer, TrainerError> {
        let pieces = self.pieces("spm.model")?;
        let mut normalizers = Vec::new();
        if self.flag("do_lower_case", false) {
            normalizers.push(json!({"type": "Lowercase"}));
        }
        normalizers.extend([
            json!({"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "}),
            json!({"type": "NFC"}),
            json!({"type": "Strip", "strip_left": false, "strip_right": true}),
        ]);
        let mut pre_tokenizers = Vec::new();
        if self.flag("split_by_punct", false) {
            pre_tokenizers.push(json!({"type": "Punctuation", "behavior": "Isolated"}));
        }
        pre_tokenizers.push(metaspace());
        let unknown = self.token("unk_token", "[UNK]");
        let named = pieces.scored().position(|(piece, _)| piece == unknown);
        let named = named.and_then(|id| u32::try_from(id).ok());
        let unigram = Unigram {
            vocabulary: pieces.scored().collect(),
            unknown: named.unwrap_or(pieces.unknown),
        };
        let mut converted = ConvertedTokenizer::unigram(
            unigram,
            Some(sequence(normalizers)),
            json!({"type": "Sequence", "pretokenizers": pre_tokenizers}),
        );
        self.add_bert_tokens(&mut converted, ["[UNK]", "[PAD]"]);
        converted.add_pieces(&pieces);
        Ok(converted)
    }

    /// `MarianTokenizer` for one of the two texts: the pieces of a SentencePiece model under the
    /// numbers of `vocab.json`. Pieces without a number are left out, so that a text falls into
    /// smaller ones, where transformers makes them unknown tokens.
    fn marian(&self, name: &str) -> Result<ConvertedTokenizer, TrainerError> {
        let (pieces, ids) = (self.pieces(name)?, self.ids(VOCABULARY)?);
        let unknown = self.token("unk_token", "<unk>");
        let Some(unknown_id) = ids.get(&unknown).copied() else {
            return Err(self.problem(VOCABULARY, format!("it has no `{unknown}`")));
        };
        let end = ids.values().max().map_or(0, |id| *id as usize + 1);
        if end > 2 * ids.len() + 1_000 {
            return Err(
                self.problem(VOCABULARY, format!("it has a token with the number {}", end - 1))
            );
        }
        let scores: HashMap<String, f64> = pieces.scored().collect();
        let mut vocabulary: Vec<(String, f64)> =
            (0..end).map(|id| (format!("{UNREACHABLE}{id}"), 0.0)).collect();
        for (token, id) in &ids {
            vocabulary[*id as usize] = match scores.get(token) {
                Some(score) => (token.clone(), *score),
                None => (format!("{UNREACHABLE}{token}"), 0.0),
            };
        }
        let of_text = [self.token("eos_token", "</s>"), self.token("pad_token", "<pad>"), unknown];
        let mut of_languages: Vec<&String> =
            ids.keys().filter(|token| token.starts_with(">>") && token.ends_with("<<")).collect();
        of_languages.sort();
        for token in of_text.iter().chain(of_languages.iter().copied()) {
            if let Some(id) = ids.get(token) {
                vocabulary[*id as usize].0.clone_from(token);
            }
        }
        let unigram = Unigram { vocabulary, unknown: unknown_id };
        // SentencePiece puts a mark before each word, even before one that begins with a mark.
        let marked = json!({"type": "Replace", "pattern": {"Regex": r"(?<!\S)▁"}, "content": "▁▁"});
        let normalizers = self.precompiled(name, &pieces)?.into_iter().chain([marked]).collect();
        let mut converted =
            ConvertedTokenizer::unigram(unigram, Some(sequence(normalizers)), split_words());
        converted.decoder = json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": UNREACHABLE.to_string()}, "content": ""},
            metaspace(),
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]});
        of_text.iter().for_each(|token| converted.add_special(token));
        for token in of_languages {
            converted.add(token, false);
        }
        let end = &of_text[0];
        converted.template(&["$A", end], &[("$A", 0), ("$B", 0), (end, 0)]);
        Ok(converted)
    }

    /// `BertTokenizer`.
    fn word_pieces(&self) -> Result<ConvertedTokenizer, TrainerError> {
        let text = String::from_utf8(self.read(WORD_PIECES)?)
            .map_err(|error| self.problem(WORD_PIECES, error))?;
        let ids: Ids = text
            .trim_end_matches(['\n', '\r'])
            .split('\n')
            .zip(0..)
            .map(|(line, id)| (line.trim_end_matches('\r').to_owned(), id))
            .collect();
        let unknown = self.token("unk_token", "[UNK]");
        let mut converted = ConvertedTokenizer {
            normalizer: json!({
                "type": "BertNormalizer",
                "clean_text": true,
                "handle_chinese_chars": self.flag("tokenize_chinese_chars", true),
                "strip_accents": self.settings.get("strip_accents"),
                "lowercase": self.flag("do_lower_case", true),
            }),
            pre_tokenizer: json!({"type": "BertPreTokenizer"}),
            decoder: json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
            model: json!({
                "type": "WordPiece",
                "unk_token": unknown,
                "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100,
                "vocab": ids,
            }),
            ..ConvertedTokenizer::of(ids)
        };
        self.add_bert_tokens(&mut converted, ["[UNK]", "[PAD]"]);
        Ok(converted)
    }

    /// `GPT2Tokenizer`, and `RobertaTokenizer`, which puts tokens around texts.
    fn byte_pairs(&self, is_roberta: bool) -> Result<ConvertedTokenizer, TrainerError> {
        let ids: Ids = self.ids(VOCABULARY)?.into_iter().collect();
        let merges =
            String::from_utf8(self.read(MERGES)?).map_err(|error| self.problem(MERGES, error))?;
        let merges: Vec<&str> = merges
            .lines()
            .filter(|line| !line.starts_with("#version") && !line.trim().is_empty())
            .collect();
        let prefix_space = self.flag("add_prefix_space", false);
        let byte_level = |add_prefix_space: bool| {
            json!({
                "type": "ByteLevel",
                "add_prefix_space": add_prefix_space,
                "trim_offsets": true,
                "use_regex": true,
            })
        };
        let mut converted = ConvertedTokenizer {
            pre_tokenizer: byte_level(prefix_space),
            decoder: byte_level(true),
            model: json!({
                "type": "BPE",
                "dropout": null,
                "unk_token": null,
                "continuing_subword_prefix": "",
                "end_of_word_suffix": "",
                "fuse_unk": false,
                "byte_fallback": false,
                "vocab": ids,
                "merges": merges,
            }),
            ..ConvertedTokenizer::of(ids)
        };
        if !is_roberta {
            for name in ["bos_token", "eos_token", "unk_token"] {
                converted.add_special(&self.token(name, "<|endoftext|>"));
            }
            return Ok(converted);
        }
        let tokens = [
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
            ("sep_token", "</s>"),
            ("pad_token", "<pad>"),
            ("cls_token", "<s>"),
            ("mask_token", "<mask>"),
        ]
        .map(|(name, default)| self.token(name, default));
        tokens.iter().for_each(|token| converted.add_special(token));
        let [.., separator, _, class, _] = &tokens;
        let with_id = |token: &str| json!([token, converted.id(token)]);
        converted.post_processor = json!({
            "type": "RobertaProcessing",
            "sep": with_id(separator),
            "cls": with_id(class),
            "trim_offsets": self.flag("trim_offsets", true),
            "add_prefix_space": prefix_space,
        });
        Ok(converted)
    }

    /// BERT's tokens around texts, those for unknown words and for padding, and the mask.
    fn add_bert_tokens(&self, converted: &mut ConvertedTokenizer, defaults: [&str; 2]) {
        let [unknown, pad] = defaults;
        let (class, separator) =
            (self.token("cls_token", "[CLS]"), self.token("sep_token", "[SEP]"));
        let others = [("unk_token", unknown), ("pad_token", pad), ("mask_token", "[MASK]")]
            .map(|(name, default)| self.token(name, default));
        let [unknown, pad, mask] = &others;
        for token in [unknown, &separator, pad, &class, mask] {
            converted.add_special(token);
        }
        converted.template(
            &[&class, "$A", &separator],
            &[(&class, 0), ("$A", 0), (&separator, 0), ("$B", 1), (&separator, 1)],
        );
    }

    /// The normalisation of a SentencePiece model, if it has one.
    fn precompiled(
        &self,
        name: &str,
        pieces: &SentencePieces,
    ) -> Result<Option<Value>, TrainerError> {
        if pieces.character_map.is_empty() {
            return Ok(None);
        }
        let precompiled = catch_panics(|| Ok(Precompiled::from(&pieces.character_map)?))
            .map_err(|error| self.problem(name, error))?;
        serde_json::to_value(NormalizerWrapper::Precompiled(precompiled))
            .map(Some)
            .map_err(|error| self.problem(name, error))
    }
}

/// Words between white space, each with a mark before it.
fn split_words() -> Value {
    json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace()]})
}

fn metaspace() -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})
}

fn sequence(normalizers: Vec<Value>) -> Value {
    json!({"type": "Sequence", "normalizers": normalizers})
}

/// Tokens and their numbers.
type Ids = BTreeMap<String, u32>;

/// A Unigram model.
struct Unigram {
    /// Pieces and their log probabilities, by their numbers.
    vocabulary: Vec<(String, f64)>,
    /// The number of the unknown token.
    unknown: u32,
}

/// The parts of a `tokenizer.json`.
#[derive(Default)]
struct ConvertedTokenizer {
    ids: Ids,
    /// Tokens that are found in texts before the model sees them.
    added: BTreeMap<u32, Value>,
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    decoder: Value,
    model: Value,
}

impl ConvertedTokenizer {
    fn of(ids: Ids) -> Self {
        Self { ids, ..Self::default() }
    }

    fn unigram(unigram: Unigram, normalizer: Option<Value>, pre_tokenizer: Value) -> Self {
        let Unigram { vocabulary, unknown } = unigram;
        let ids = vocabulary.iter().zip(0..).map(|((piece, _), id)| (piece.clone(), id)).collect();
        Self {
            normalizer: normalizer.unwrap_or_default(),
            pre_tokenizer,
            decoder: metaspace(),
            model: json!({
                "type": "Unigram",
                "unk_id": unknown,
                "vocab": vocabulary,
                "byte_fallback": false,
            }),
            ..Self::of(ids)
        }
    }

    /// The number of a token.
    fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// A special token, with the next number if the vocabulary does not have it.
    fn add_special(&mut self, token: &str) {
        self.add(token, true);
    }

    /// The control tokens and those of users.
    fn add_pieces(&mut self, pieces: &SentencePieces) {
        for piece in &pieces.pieces {
            match piece.kind {
                PieceKind::Control => self.add(&piece.text, true),
                PieceKind::UserDefined => self.add(&piece.text, false),
                PieceKind::Other => {}
            }
        }
    }

    fn add(&mut self, token: &str, special: bool) {
        let next = self.ids.values().max().map_or(0, |last| last + 1);
        let id = *self.ids.entry(token.to_owned()).or_insert(next);
        self.added.entry(id).or_insert_with(|| {
            json!({
                "id": id,
                "content": token,
                "single_word": false,
                "lstrip": false,
                "rstrip": false,
                "normalized": false,
                "special": special,
            })
        });
    }

    /// The tokens around a text `$A`, and around that and a second one `$B`, there with the types
    /// of all.
    fn template(&mut self, single: &[&str], pair: &[(&str, u32)]) {
        let mut special = Map::new();
        let mut part = |(token, kind): (&str, u32)| match token {
            "$A" | "$B" => json!({"Sequence": {"id": &token[1..], "type_id": kind}}),
            token => {
                let known = json!({"id": token, "ids": [self.id(token)], "tokens": [token]});
                special.insert(token.to_owned(), known);
                json!({"SpecialToken": {"id": token, "type_id": kind}})
            }
        };
        let single: Vec<Value> = single.iter().map(|token| part((token, 0))).collect();
        let pair: Vec<Value> = pair.iter().map(|typed| part(*typed)).collect();
        self.post_processor = json!({
            "type": "TemplateProcessing",
            "single": single,
            "pair": pair,
            "special_tokens": special,
        });
    }

    fn json(self) -> Value {
        json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": self.added.into_values().collect::<Vec<_>>(),
            "normalizer": self.normalizer,
            "pre_tokenizer": self.pre_tokenizer,
            "post_processor": self.post_processor,
            "decoder": self.decoder,
            "model": self.model,
        })
    }
}
