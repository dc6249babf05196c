//! The tokenizers of families, each by the rules of its class in transformers.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokenizers::NormalizerWrapper;
use tokenizers::normalizers::Precompiled;

use super::super::TrainerError;
use super::super::tokenizer_file::catch_panics;
use super::converted::{AddedToken, ConvertedTokenizer, Ids, Unigram, metaspace, sequence};
use super::sentencepiece::SentencePieces;
use super::{Files, NAMES, VOCABULARY};

const MERGES: &str = "merges.txt";
const WORD_PIECES: &str = "vocab.txt";

/// Before a token that a tokenizer knows by its number only: a private character, which texts do
/// not contain.
const UNREACHABLE: char = '\u{e000}';

/// Most of T5's tokens for gaps.
const MOST_EXTRA_IDS: u64 = 10_000;

impl Files<'_> {
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

    /// Before which words of a text marks are put, `without_prefix` if texts get no space in front.
    fn prepend(&self, without_prefix: &'static str) -> &'static str {
        if self.flag("add_prefix_space", true) { "always" } else { without_prefix }
    }

    /// `T5Tokenizer`.
    pub(super) fn t5(&self) -> Result<ConvertedTokenizer, TrainerError> {
        let name = "spiece.model";
        let pieces = self.pieces(name)?;
        let extra = self.settings.get("extra_ids").and_then(Value::as_u64).unwrap_or(100);
        if extra > MOST_EXTRA_IDS {
            let problem = format!("`extra_ids` = {extra} is above {MOST_EXTRA_IDS}");
            return Err(self.problem("tokenizer_config.json", problem));
        }
        let extra: Vec<String> = (0..extra).rev().map(|id| format!("<extra_id_{id}>")).collect();
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
    pub(super) fn albert(&self) -> Result<ConvertedTokenizer, TrainerError> {
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

    /// `XLMRobertaTokenizer`, which puts four special tokens before all but three pieces.
    pub(super) fn xlm_roberta(&self) -> Result<ConvertedTokenizer, TrainerError> {
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
    pub(super) fn deberta_v2(&self) -> Result<ConvertedTokenizer, TrainerError> {
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
    pub(super) fn marian(&self, name: &str) -> Result<ConvertedTokenizer, TrainerError> {
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
    pub(super) fn word_pieces(&self) -> Result<ConvertedTokenizer, TrainerError> {
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
    pub(super) fn byte_pairs(&self, is_roberta: bool) -> Result<ConvertedTokenizer, TrainerError> {
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
