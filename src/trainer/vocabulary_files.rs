//! The tokenizer of a model's directory without `tokenizer.json`, made of the files that families
//! had before it: SentencePiece models, `vocab.txt`, or `vocab.json` with `merges.txt`. The rules
//! are those of transformers 5 (`models/*/tokenization_*.py`).

mod sentencepiece;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
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

/// Before a token that a tokenizer knows by its number only: a private character, which texts do
/// not contain.
const UNREACHABLE: char = '\u{e000}';

/// The files of a directory that tokenizers are made of.
struct Files<'a> {
    directory: &'a Path,
    /// What `tokenizer_config.json` says, and `special_tokens_map.json` where that counts.
    settings: Map<String, Value>,
    /// Tokens that were added to the vocabulary, by their numbers.
    added: BTreeMap<u32, AddedToken>,
}

/// A token that is found in texts before the model sees them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct AddedToken {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

impl AddedToken {
    fn special(content: &str) -> Self {
        Self { special: true, ..Self::plain(content) }
    }

    /// One that is part of a text.
    fn plain(content: &str) -> Self {
        let content = content.to_owned();
        let [single_word, lstrip, rstrip, normalized, special] = [false; 5];
        Self { content, single_word, lstrip, rstrip, normalized, special }
    }
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
        let config: Value = fs::read(self.directory.join("config.json"))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
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

    /// Adds the tokens that the directory adds, then those with a meaning, which `defaults` name
    /// where the directory does not, then further special ones.
    fn add_tokens(
        &self,
        converted: &mut ConvertedTokenizer,
        defaults: &[(&str, &str)],
    ) -> Result<(), TrainerError> {
        for (id, token) in &self.added {
            let given = converted.add(token);
            if given != *id {
                let problem = format!("`{}` has the number {id}, not {given}", token.content);
                return Err(self.problem("the list of added tokens", problem));
            }
        }
        for name in NAMES {
            let default = defaults.iter().find(|(of, _)| *of == name);
            let default = default.map(|(_, token)| AddedToken::special(token));
            if let Some(token) = self.named(name).or(default) {
                converted.add(&token);
            }
        }
        for name in ["extra_special_tokens", "additional_special_tokens"] {
            for token in self.settings.get(name).and_then(Value::as_array).into_iter().flatten() {
                if let Some(content) = token.as_str().or_else(|| token["content"].as_str()) {
                    converted.add(&AddedToken::special(content));
                }
            }
        }
        Ok(())
    }

    /// Whether words are marked in a text: all, all but the first, or none.
    fn prepend(&self, without_prefix: &'static str) -> &'static str {
        if self.flag("add_prefix_space", true) { "always" } else { without_prefix }
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
            ConvertedTokenizer::unigram(unigram, self.precompiled(name, &pieces)?, "always");
        let defaults = [("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")];
        self.add_tokens(&mut converted, &defaults)?;
        converted.add_pieces(&pieces);
        for token in extra {
            converted.add(&AddedToken::special(&token));
        }
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
        let mut converted = ConvertedTokenizer::unigram(
            unigram,
            Some(sequence(normalizers)),
            self.prepend("never"),
        );
        self.add_bert_tokens(&mut converted, ["<unk>", "<pad>"])?;
        converted.add_pieces(&pieces);
        Ok(converted)
    }

    /// `XLMRobertaTokenizer`, which puts four tokens of its own before all but three pieces.
    fn xlm_roberta(&self) -> Result<ConvertedTokenizer, TrainerError> {
        let name = "sentencepiece.bpe.model";
        let pieces = self.pieces(name)?;
        const OWN: [(&str, &str); 4] = [
            ("bos_token", "<s>"),
            ("pad_token", "<pad>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
        ];
        let own = OWN.map(|(name, default)| self.token(name, default));
        let mask = self.token("mask_token", "<mask>");
        let vocabulary = own.iter().map(|token| (token.clone(), 0.0));
        let vocabulary = vocabulary.chain(pieces.scored().skip(3)).chain([(mask.clone(), 0.0)]);
        let unigram = Unigram { vocabulary: vocabulary.collect(), unknown: 3 };
        let [begin, _, end, _] = own.each_ref().map(String::as_str);
        let mut converted = ConvertedTokenizer::unigram(
            unigram,
            self.precompiled(name, &pieces)?,
            self.prepend("never"),
        );
        let defaults = [("sep_token", "</s>"), ("cls_token", "<s>"), ("mask_token", "<mask>")];
        self.add_tokens(&mut converted, &[&OWN[..], &defaults].concat())?;
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
        let prepend = self.prepend("first");
        pre_tokenizers.push(metaspace(prepend));
        let unknown = self.token("unk_token", "[UNK]");
        let named = pieces.scored().position(|(piece, _)| piece == unknown);
        let named = named.and_then(|id| u32::try_from(id).ok());
        let unigram = Unigram {
            vocabulary: pieces.scored().collect(),
            unknown: named.unwrap_or(pieces.unknown),
        };
        let mut converted =
            ConvertedTokenizer::unigram(unigram, Some(sequence(normalizers)), prepend);
        converted.pre_tokenizer = json!({"type": "Sequence", "pretokenizers": pre_tokenizers});
        self.add_bert_tokens(&mut converted, ["[UNK]", "[PAD]"])?;
        converted.add_pieces(&pieces);
        Ok(converted)
    }

    /// `MarianTokenizer` for one of the two texts: the pieces of a SentencePiece model under the
    /// numbers of `vocab.json`. Pieces without a number are left out, so that a text falls into
    /// smaller ones, where transformers makes them unknown tokens.
    fn marian(&self, name: &str) -> Result<ConvertedTokenizer, TrainerError> {
        let (pieces, ids) = (self.pieces(name)?, self.ids()?);
        let unknown = self.token("unk_token", "<unk>");
        let Some(unknown_id) = ids.get(&unknown).copied() else {
            return Err(self.problem(VOCABULARY, format!("it has no `{unknown}`")));
        };
        let end = ids.values().max().map_or(0, |id| *id as usize + 1);
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
        let of_languages: Vec<&String> =
            ids.keys().filter(|token| token.starts_with(">>") && token.ends_with("<<")).collect();
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
            ConvertedTokenizer::unigram(unigram, Some(sequence(normalizers)), "always");
        converted.decoder = json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": UNREACHABLE.to_string()}, "content": ""},
            metaspace("always"),
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]});
        let defaults = [("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")];
        self.add_tokens(&mut converted, &defaults)?;
        for token in of_languages {
            converted.add(&AddedToken::plain(token));
        }
        let end = &of_text[0];
        converted.template(&["$A", end], &[("$A", 0), ("$B", 0), (end, 0)]);
        Ok(converted)
    }

    /// `BertTokenizer`.
    fn word_pieces(&self) -> Result<ConvertedTokenizer, TrainerError> {
        let text = String::from_utf8(self.read(WORD_PIECES)?)
            .map_err(|error| self.problem(WORD_PIECES, error))?;
        let ids: Ids = text.lines().map(|line| line.trim_end().to_owned()).zip(0..).collect();
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
        self.add_bert_tokens(&mut converted, ["[UNK]", "[PAD]"])?;
        Ok(converted)
    }

    /// `GPT2Tokenizer`, and `RobertaTokenizer`, which puts tokens around texts.
    fn byte_pairs(&self, is_roberta: bool) -> Result<ConvertedTokenizer, TrainerError> {
        let ids = self.ids()?;
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
            for name in ["add_bos_token", "add_eos_token"] {
                if self.flag(name, false) {
                    let problem = format!("`{name}` is not supported without `tokenizer.json`");
                    return Err(self.problem("tokenizer_config.json", problem));
                }
            }
            let end = "<|endoftext|>";
            let defaults = [("bos_token", end), ("eos_token", end), ("unk_token", end)];
            self.add_tokens(&mut converted, &defaults)?;
            return Ok(converted);
        }
        let defaults = [
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
            ("sep_token", "</s>"),
            ("pad_token", "<pad>"),
            ("cls_token", "<s>"),
            ("mask_token", "<mask>"),
        ];
        self.add_tokens(&mut converted, &defaults)?;
        let (separator, class) = (self.token("sep_token", "</s>"), self.token("cls_token", "<s>"));
        let with_id = |token: &str| json!([token, converted.id(token)]);
        converted.post_processor = json!({
            "type": "RobertaProcessing",
            "sep": with_id(&separator),
            "cls": with_id(&class),
            "trim_offsets": self.flag("trim_offsets", true),
            "add_prefix_space": prefix_space,
        });
        Ok(converted)
    }

    /// BERT's tokens around texts, those for unknown words and for padding, and the mask.
    fn add_bert_tokens(
        &self,
        converted: &mut ConvertedTokenizer,
        [unknown, pad]: [&str; 2],
    ) -> Result<(), TrainerError> {
        let defaults = [
            ("unk_token", unknown),
            ("sep_token", "[SEP]"),
            ("pad_token", pad),
            ("cls_token", "[CLS]"),
            ("mask_token", "[MASK]"),
        ];
        self.add_tokens(converted, &defaults)?;
        let (class, separator) =
            (self.token("cls_token", "[CLS]"), self.token("sep_token", "[SEP]"));
        converted.template(
            &[&class, "$A", &separator],
            &[(&class, 0), ("$A", 0), (&separator, 0), ("$B", 1), (&separator, 1)],
        );
        Ok(())
    }

    /// The normalisation of a SentencePiece model, if it has one.
    fn precompiled(
        &self,
        name: &str,
        pieces: &SentencePieces,
    ) -> Result<Option<Value>, TrainerError> {
        let map = &pieces.character_map;
        let Some(size) = map.first_chunk() else {
            let cut = |_| Err(self.problem(name, "its normalisation is cut off"));
            return map.first().map_or(Ok(None), cut);
        };
        // The library reserves what the size says.
        let (size, rest) = (u32::from_le_bytes(*size) as usize, map.len() - 4);
        if size == 0 || size > rest || !size.is_multiple_of(4) {
            return Err(self.problem(name, "its normalisation is damaged"));
        }
        let precompiled = catch_panics(|| Ok(Precompiled::from(&pieces.character_map)?))
            .map_err(|error| self.problem(name, error))?;
        serde_json::to_value(NormalizerWrapper::Precompiled(precompiled))
            .map(Some)
            .map_err(|error| self.problem(name, error))
    }
}

fn metaspace(prepend: &str) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": prepend, "split": true})
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
    /// The size of the vocabulary, which further tokens are numbered from.
    next: u32,
    added: BTreeMap<u32, AddedToken>,
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    decoder: Value,
    model: Value,
}

impl ConvertedTokenizer {
    fn of(ids: Ids) -> Self {
        // The library, too, counts tokens.
        let next = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        Self { ids, next, ..Self::default() }
    }

    /// A Unigram model of words between white space, before which `prepend` puts marks.
    fn unigram(unigram: Unigram, normalizer: Option<Value>, prepend: &str) -> Self {
        let Unigram { vocabulary, unknown } = unigram;
        let pieces = vocabulary.len();
        let ids = vocabulary.iter().zip(0..).map(|((piece, _), id)| (piece.clone(), id)).collect();
        Self {
            normalizer: normalizer.unwrap_or_default(),
            pre_tokenizer: json!({
                "type": "Sequence",
                "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace(prepend)],
            }),
            decoder: metaspace(prepend),
            model: json!({
                "type": "Unigram",
                "unk_id": unknown,
                "vocab": vocabulary,
                "byte_fallback": false,
            }),
            next: u32::try_from(pieces).unwrap_or(u32::MAX),
            ..Self::of(ids)
        }
    }

    /// The number of a token.
    fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// The control tokens and those of users.
    fn add_pieces(&mut self, pieces: &SentencePieces) {
        for piece in &pieces.pieces {
            match piece.kind {
                PieceKind::Control => self.add(&AddedToken::special(&piece.text)),
                PieceKind::UserDefined => self.add(&AddedToken::plain(&piece.text)),
                PieceKind::Other => continue,
            };
        }
    }

    /// Adds a token, with the next number if the vocabulary does not have it; returns its number.
    fn add(&mut self, token: &AddedToken) -> u32 {
        let id = self.id(&token.content).unwrap_or_else(|| {
            self.ids.insert(token.content.clone(), self.next);
            self.next = self.next.saturating_add(1);
            self.next - 1
        });
        self.added.entry(id).or_insert_with(|| token.clone());
        id
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

    /// The bytes of `tokenizer.json`.
    fn bytes(self, directory: &Path) -> Result<Vec<u8>, TrainerError> {
        let added = self.added.into_iter().map(|(id, token)| {
            let mut added = json!(token);
            added["id"] = id.into();
            added
        });
        let file = json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": added.collect::<Vec<_>>(),
            "normalizer": self.normalizer,
            "pre_tokenizer": self.pre_tokenizer,
            "post_processor": self.post_processor,
            "decoder": self.decoder,
            "model": self.model,
        });
        serde_json::to_vec(&file).map_err(|error| TrainerError::model(directory, error.to_string()))
    }
}
