//! Reads SentencePiece models (Kudo and Richardson 2018): those fields of
//! `sentencepiece_model.proto` that a tokenizer is made of.

/// What a model says.
#[derive(Debug, Default)]
pub(super) struct SentencePieces {
    pub(super) pieces: Vec<SentencePiece>,
    /// The number of the unknown token.
    pub(super) unknown: u32,
    /// How characters are normalised, as a compiled trie; empty: they stay as they are.
    pub(super) character_map: Vec<u8>,
}

/// A piece with its log probability.
#[derive(Debug)]
pub(super) struct SentencePiece {
    pub(super) text: String,
    score: f32,
    pub(super) kind: PieceKind,
}

/// What a piece is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    /// A token that no text contains.
    Control,
    /// A token that is always one piece.
    UserDefined,
    Other,
}

/// Trained by Unigram, the only algorithm whose pieces can be found by their scores alone.
const UNIGRAM: u64 = 1;

impl SentencePieces {
    /// The model that a file holds; an error is the end of a sentence about it.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut model = Self::default();
        let mut algorithm = UNIGRAM;
        // They come after the pieces.
        let [mut has_trainer, mut has_normalizer] = [false; 2];
        for field in Fields(bytes) {
            match field? {
                (1, FieldValue::Bytes(piece)) => model.pieces.push(SentencePiece::read(piece)?),
                (2, FieldValue::Bytes(trainer)) => {
                    has_trainer = true;
                    for field in Fields(trainer) {
                        match field? {
                            (3, FieldValue::Integer(which)) => algorithm = which,
                            (40, FieldValue::Integer(id)) => {
                                model.unknown = u32::try_from(id).unwrap_or(0);
                            }
                            _ => {}
                        }
                    }
                }
                (3, FieldValue::Bytes(normalizer)) => {
                    has_normalizer = true;
                    for field in Fields(normalizer) {
                        if let (2, FieldValue::Bytes(map)) = field? {
                            model.character_map = map.to_vec();
                        }
                    }
                }
                _ => {}
            }
        }
        if algorithm != UNIGRAM {
            return Err("it was not trained by Unigram, the only supported algorithm".into());
        }
        if !has_trainer || !has_normalizer {
            return Err("it is not a SentencePiece model, or it is cut off".into());
        }
        if model.unknown as usize >= model.pieces.len() {
            return Err("it has no piece for unknown characters".into());
        }
        Ok(model)
    }

    /// Pieces and their log probabilities, by their numbers.
    pub(super) fn scored(&self) -> impl Iterator<Item = (String, f64)> {
        self.pieces.iter().map(|piece| (piece.text.clone(), f64::from(piece.score)))
    }
}

impl SentencePiece {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut piece = Self { text: String::new(), score: 0.0, kind: PieceKind::Other };
        for field in Fields(bytes) {
            match field? {
                (1, FieldValue::Bytes(text)) => {
                    let text = std::str::from_utf8(text).map_err(|_| "a piece is not UTF-8")?;
                    text.clone_into(&mut piece.text);
                }
                (2, FieldValue::Fixed32(bits)) => piece.score = f32::from_bits(bits),
                (3, FieldValue::Integer(3)) => piece.kind = PieceKind::Control,
                (3, FieldValue::Integer(4)) => piece.kind = PieceKind::UserDefined,
                _ => {}
            }
        }
        if piece.score.is_finite() { Ok(piece) } else { Err("a piece has no finite score".into()) }
    }
}

/// The value of a field in the wire format of protocol buffers.
enum FieldValue<'a> {
    Integer(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message and their numbers.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn integer(&mut self) -> Option<u64> {
        let mut integer = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            integer |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(integer);
            }
        }
        None
    }

    fn field(&mut self) -> Option<(u64, FieldValue<'a>)> {
        let tag = self.integer()?;
        let value = match tag & 7 {
            0 => FieldValue::Integer(self.integer()?),
            1 => self.take(8).map(|_| FieldValue::Other)?,
            2 => {
                let bytes = usize::try_from(self.integer()?).ok()?;
                FieldValue::Bytes(self.take(bytes)?)
            }
            5 => FieldValue::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, FieldValue<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        Some(self.field().ok_or_else(|| {
            self.0 = &[];
            "it is not a SentencePiece model, or it is cut off".to_owned()
        }))
    }
}
