//! A `tokenizer.json` in the making: its parts, and the numbers of its tokens.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::TrainerError;
use super::sentencepiece::{PieceKind, SentencePieces};

/// Tokens and their numbers.
pub(super) type Ids = BTreeMap<String, u32>;

/// A Unigram model.
pub(super) struct Unigram {
    /// Pieces and their log probabilities, by their numbers.
    pub(super) vocabulary: Vec<(String, f64)>,
    /// The number of the unknown token.
    pub(super) unknown: u32,
}

/// The parts of a `tokenizer.json`.
#[derive(Default)]
pub(super) struct ConvertedTokenizer {
    pub(super) ids: Ids,
    /// The size of the vocabulary, which further tokens are numbered from.
    pub(super) next: u32,
    pub(super) added: BTreeMap<u32, AddedToken>,
    pub(super) normalizer: Value,
    pub(super) pre_tokenizer: Value,
    pub(super) post_processor: Value,
    pub(super) decoder: Value,
    pub(super) model: Value,
}

impl ConvertedTokenizer {
    pub(super) fn of(ids: Ids) -> Self {
        // The library, too, counts tokens.
        let next = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        Self { ids, next, ..Self::default() }
    }

    /// A Unigram model of words between white space, before which `prepend` puts marks.
    pub(super) fn unigram(unigram: Unigram, normalizer: Option<Value>, prepend: &str) -> Self {
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
    pub(super) fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// The control tokens and those of users.
    pub(super) fn add_pieces(&mut self, pieces: &SentencePieces) {
        for piece in &pieces.pieces {
            match piece.kind {
                PieceKind::Control => self.add(&AddedToken::special(&piece.text)),
                PieceKind::UserDefined => self.add(&AddedToken::plain(&piece.text)),
                PieceKind::Other => continue,
            };
        }
    }

    /// Adds a token, with the next number if the vocabulary does not have it; returns its number.
    pub(super) fn add(&mut self, token: &AddedToken) -> u32 {
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
    pub(super) fn template(&mut self, single: &[&str], pair: &[(&str, u32)]) {
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
    pub(super) fn bytes(self, directory: &Path) -> Result<Vec<u8>, TrainerError> {
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

/// A token that is found in texts before the model sees them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct AddedToken {
    pub(super) content: String,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default)]
    pub(super) normalized: bool,
    #[serde(default)]
    pub(super) special: bool,
}

impl AddedToken {
    pub(super) fn special(content: &str) -> Self {
        Self { special: true, ..Self::plain(content) }
    }

    /// One that is part of a text.
    pub(super) fn plain(content: &str) -> Self {
        let content = content.to_owned();
        let [single_word, lstrip, rstrip, normalized, special] = [false; 5];
        Self { content, single_word, lstrip, rstrip, normalized, special }
    }
}

/// Marks in place of spaces; `prepend` says before which words of a text without one.
pub(super) fn metaspace(prepend: &str) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": prepend, "split": true})
}

/// One normalizer after the other.
pub(super) fn sequence(normalizers: Vec<Value>) -> Value {
    json!({"type": "Sequence", "normalizers": normalizers})
}
