//! Entities of texts, by the labels of their words: grouped as transformers' pipeline does with
//! `aggregation_strategy="first"`.

use std::ops::Range;

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
    fn most_tokens(&self) -> Option<usize> {
        Some(self.architecture.max_tokens())
    }

    fn predict(
        &self,
        tools: &Tools<'_>,
        inputs: PredictionInputs<'_>,
    ) -> Result<Vec<Prediction>, TrainerError> {
        inputs.check_single(tools)?;
        let (texts, longest) = (inputs.texts(), self.architecture.max_tokens());
        let places: Vec<Vec<Range<usize>>> = texts.iter().map(|text| words(text)).collect();
        let split = |(text, places): (&&str, &Vec<Range<usize>>)| -> Vec<String> {
            let characters: Vec<char> = text.chars().collect();
            places.iter().map(|place| characters[place.clone()].iter().collect()).collect()
        };
        let split: Vec<Vec<String>> = texts.iter().zip(&places).map(split).collect();
        let length = |words: &Vec<String>| words.iter().map(String::len).sum();
        let encodings =
            encode_inputs(tools.tokenizer, &split, SpecialTokens::Add, length, &mut |_| {})
                .map_err(|error| tools.unusable(error))?;
        let ids = encodings.iter().map(|encoding| encoding.get_ids().to_vec());
        let batch = Batch::truncated(ids, longest);
        let words: Vec<Vec<Word>> = encodings
            .iter()
            .zip(&places)
            .map(|(encoding, places)| first_tokens(encoding, places, longest))
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
    /// Its characters within the text.
    start: usize,
    end: usize,
}

/// The words of a text, by their characters: what stands between spaces, without the punctuation
/// before and after it, as in most labelled data. Marks of punctuation are words, and so are the
/// characters of scripts without spaces.
fn words(text: &str) -> Vec<Range<usize>> {
    let characters: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut begin = 0;
    for end in 0..=characters.len() {
        let is_end = characters.get(end).is_none_or(|one| one.is_whitespace());
        let is_alone = |index: usize| characters.get(index).is_some_and(|one| stands_alone(*one));
        let is_boundary = is_end || is_alone(end) || end > begin && is_alone(end - 1);
        if !is_boundary {
            continue;
        }
        let (mut start, mut stop) = (begin, end);
        while start < stop && OPENING.contains(&characters[start]) {
            found.push(start..start + 1);
            start += 1;
        }
        while stop > start + 1 && CLOSING.contains(&characters[stop - 1]) {
            stop -= 1;
        }
        found.extend((start < stop).then_some(start..stop));
        found.extend((stop..end).map(|mark| mark..mark + 1));
        begin = if is_end { end + 1 } else { end };
    }
    found
}

const OPENING: [char; 8] = ['(', '[', '{', '"', '\'', '“', '‘', '«'];
const CLOSING: [char; 14] = [')', ']', '}', '"', '\'', '”', '’', '»', ',', '.', ';', ':', '!', '?'];

/// Whether a character is of a script without spaces between words: Chinese and Japanese
/// characters, as BERT's tokenizer tells them.
fn stands_alone(character: char) -> bool {
    matches!(
        u32::from(character),
        0x3040..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x2_0000..=0x2_FA1F
    )
}

/// The words that have a token, of a text that is cut to `longest` tokens.
fn first_tokens(encoding: &Encoding, places: &[Range<usize>], longest: usize) -> Vec<Word> {
    let kept = truncate(encoding.get_word_ids().to_vec(), longest);
    let (mut found, mut last) = (Vec::new(), None);
    for (token, word) in kept.into_iter().enumerate() {
        let Some(word) = word else { continue };
        if last.replace(word) != Some(word)
            && let Some(place) = places.get(word as usize)
        {
            found.push(Word { token, start: place.start, end: place.end });
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

    #[test]
    fn words_stand_between_spaces_without_the_marks_around_them() {
        let split = |text: &str| -> Vec<String> {
            let characters: Vec<char> = text.chars().collect();
            words(text).into_iter().map(|place| characters[place].iter().collect()).collect()
        };
        assert_eq!(split("  Ada, (of\tLondon)!"), ["Ada", ",", "(", "of", "London", ")", "!"]);
        assert_eq!(
            split("in /home/ada: \"a.txt\"."),
            ["in", "/home/ada", ":", "\"", "a.txt", "\"", "."]
        );
        assert_eq!(split("Zoë 東京で x"), ["Zoë", "東", "京", "で", "x"]);
        assert_eq!(split("... ("), [".", ".", ".", "("]);
        assert!(split(" \n").is_empty() && split("").is_empty());
    }

    fn labelled<'a>(text: &str, labels: &[&'a str]) -> Vec<LabelledWord<'a>> {
        let mut start = 0;
        text.split(' ')
            .zip(labels)
            .map(|(word, label)| {
                let end = start + word.chars().count();
                let one = LabelledWord { label, score: 0.5, start, end };
                start = end + 1;
                one
            })
            .collect()
    }

    fn found(text: &str, labels: &[&str], has_outside: bool) -> Vec<String> {
        let entities = grouped(&labelled(text, labels), text, has_outside);
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
