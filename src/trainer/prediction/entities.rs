//! Entities of texts, by the labels of their words: as transformers' pipeline with
//! `aggregation_strategy="first"`.

use tokenizers::Encoding;

use super::super::TrainerError;
use super::super::batch::{Batch, truncate};
use super::super::encoder_model::EncoderModel;
use super::super::floats::real;
use super::super::metrics::{argmax, log_softmax};
use super::super::parameters::host;
use super::super::token_classification::TokenClassification;
use super::super::tokenizer_file::{SpecialTokens, encode_inputs};
use super::{Entity, Prediction, PredictionInputs, Predictor, Tools};

/// A word of a text with its likeliest label.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LabelledWord<'a> {
    label: &'a str,
    score: f64,
    /// Its characters within the text.
    start: usize,
    end: usize,
}

impl Predictor for EncoderModel<TokenClassification> {
    fn predict(
        &self,
        tools: &Tools<'_>,
        inputs: PredictionInputs<'_>,
    ) -> Result<Vec<Prediction>, TrainerError> {
        inputs.check_single(tools)?;
        let (texts, longest) = (inputs.texts(), self.architecture.max_tokens());
        let length = |text: &&str| text.len();
        let encodings =
            encode_inputs(tools.tokenizer, &texts, SpecialTokens::Add, length, &mut |_| {})
                .map_err(|error| tools.unusable(error))?;
        let ids = encodings.iter().map(|encoding| encoding.get_ids().to_vec());
        let batch = Batch::truncated(ids, longest);
        let words: Vec<Vec<Word>> = encodings
            .iter()
            .zip(&texts)
            .map(|(encoding, text)| words(encoding, text, longest))
            .collect();
        let (mut begin, mut tokens) = (0, Vec::new());
        for (words, length) in words.iter().zip(&*batch.lengths()) {
            tokens.extend(words.iter().map(|word| begin + word.token));
            begin += length;
        }
        let labels = &self.architecture.shape.labels;
        if tokens.is_empty() {
            return Ok(texts.iter().map(|_| Prediction::Entities(Vec::new())).collect());
        }
        let logits = host(self.logits(&tools.context(), &batch, &tokens))?;
        let mut logits = logits.chunks(labels.len());
        let has_outside = labels.iter().any(|label| label == OUTSIDE);
        let of_text = |(words, text): (Vec<Word>, &&str)| {
            let labelled: Vec<LabelledWord<'_>> = words
                .iter()
                .zip(logits.by_ref())
                .map(|(word, logits)| {
                    let best = argmax(logits);
                    let score = log_softmax(logits)[best].exp();
                    LabelledWord { label: &labels[best], score, start: word.start, end: word.end }
                })
                .collect();
            Prediction::Entities(grouped(&labelled, text, has_outside))
        };
        Ok(words.into_iter().zip(&texts).map(of_text).collect())
    }
}

/// The label of words that are of no entity.
const OUTSIDE: &str = "O";

/// A word of a text.
struct Word {
    /// Its first token.
    token: usize,
    /// Its characters within the text, without white space around them.
    start: usize,
    end: usize,
}

/// The words of a text that is cut to `longest` tokens.
fn words(encoding: &Encoding, text: &str, longest: usize) -> Vec<Word> {
    let kept = truncate((0..encoding.len()).collect(), longest);
    let space: Vec<bool> = text.chars().map(char::is_whitespace).collect();
    let (mut found, mut last): (Vec<Word>, _) = (Vec::new(), None);
    for (token, original) in kept.into_iter().enumerate() {
        let Some(word) = encoding.get_word_ids()[original] else { continue };
        let (mut start, end) = encoding.get_offsets()[original];
        while start < end && space.get(start) == Some(&true) {
            start += 1;
        }
        if last == Some(word)
            && let Some(word) = found.last_mut()
        {
            word.end = end;
        } else {
            found.push(Word { token, start, end });
            last = Some(word);
        }
    }
    found
}

/// Neighbours with labels of one entity together. A label without `B-` or `I-` continues one of its
/// kind where labels say what is outside of all entities; else each word has its own, as with parts
/// of speech.
fn grouped(words: &[LabelledWord<'_>], text: &str, has_outside: bool) -> Vec<Entity> {
    let mut groups: Vec<(&str, Vec<LabelledWord<'_>>)> = Vec::new();
    let mut last = None;
    for word in words {
        let (begins, kind) = match word.label.split_once('-') {
            Some(("B", kind)) => (true, kind),
            Some(("I", kind)) => (false, kind),
            _ => (!has_outside, word.label),
        };
        if word.label == OUTSIDE {
            last = None;
            continue;
        }
        match groups.last_mut().filter(|_| !begins && last == Some(kind)) {
            Some((_, members)) => members.push(*word),
            None => groups.push((kind, vec![*word])),
        }
        last = Some(kind);
    }
    let characters: Vec<char> = text.chars().collect();
    let entity = |(kind, words): (&str, Vec<LabelledWord<'_>>)| {
        let start = words.first().map_or(0, |word| word.start);
        let end = words.last().map_or(start, |word| word.end);
        Entity {
            entity_group: kind.to_owned(),
            score: words.iter().map(|word| word.score).sum::<f64>() / real(words.len()),
            word: characters.get(start..end).unwrap_or_default().iter().collect(),
            start,
            end,
        }
    };
    groups.into_iter().map(entity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'a>(text: &str, labels: &[&'a str]) -> Vec<LabelledWord<'a>> {
        let mut start = 0;
        text.split(' ')
            .zip(labels)
            .map(|(word, label)| {
                let end = start + word.chars().count();
                let labelled = LabelledWord { label, score: 0.5, start, end };
                start = end + 1;
                labelled
            })
            .collect()
    }

    fn found(text: &str, labels: &[&str], has_outside: bool) -> Vec<String> {
        let entities = grouped(&words(text, labels), text, has_outside);
        entities.iter().map(|one| format!("{} {}", one.entity_group, one.word)).collect()
    }

    #[test]
    fn neighbours_of_one_entity_are_together() {
        let text = "Ada Lovelace met Zoë Bär in Köln";
        let labels = ["B-PER", "I-PER", "O", "B-PER", "I-PER", "O", "B-LOC"];
        assert_eq!(found(text, &labels, true), ["PER Ada Lovelace", "PER Zoë Bär", "LOC Köln"]);
        let labels = ["B-PER", "B-PER", "O", "I-PER", "I-LOC", "O", "I-LOC"];
        let expected = ["PER Ada", "PER Lovelace", "PER Zoë", "LOC Bär", "LOC Köln"];
        assert_eq!(found(text, &labels, true), expected);
    }

    #[test]
    fn labels_without_a_prefix_go_together_only_beside_an_outside() {
        assert_eq!(found("Ada Lovelace met", &["PER", "PER", "O"], true), ["PER Ada Lovelace"]);
        let expected = ["NOUN tea", "NOUN time", "VERB is"];
        assert_eq!(found("tea time is", &["NOUN", "NOUN", "VERB"], false), expected);
    }
}
