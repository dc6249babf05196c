//! What a model said about texts, as `predict` prints and writes it.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::output_file::whole_file;
use crate::config::shown::one_line;

/// How much is shown.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DisplayOptions {
    pub(super) top_k: Option<u32>,
    pub(super) to_file: bool,
    pub(super) as_json: bool,
    /// Whether a text has any number of labels.
    pub(super) has_several: bool,
}

/// What a model said about one text, as far as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shown {
    /// Labels with their scores, best first.
    Labels(Labels),
    /// Entities in the order of the text.
    Entities(Vec<Entity>),
    /// For each mask, tokens with their scores, best first.
    Masks(Vec<Labels>),
    /// The vector of a text.
    Vector(Vec<f64>),
    /// The part of its context that answers it.
    Answer(ShownAnswer),
    /// The text written for it.
    Text(String),
    /// A score is not finite, which JSON represents as null.
    NotFinite,
}

type Labels = Vec<(String, f64)>;

/// Words with a label.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entity {
    label: String,
    score: f64,
    word: String,
    /// Characters within the text.
    start: u64,
    end: u64,
}

/// A part of a context.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ShownAnswer {
    /// Empty where there is no answer.
    answer: String,
    score: f64,
    /// Characters within the context.
    start: u64,
    end: u64,
}

/// Minimum probability of displayed labels besides the first.
const SHOWN: f64 = 0.05;

/// The probability from which a text has one of several labels, as evaluations count them.
const HAS_LABEL: f64 = 0.5;

/// Numbers displayed of a vector.
const FIRST: usize = 6;

/// Tokens displayed of a mask.
const TOKENS: usize = 5;

impl DisplayOptions {
    fn of_labels(self, all: Labels) -> Labels {
        let shown = |(index, (_, score)): (usize, &(String, f64))| match self.top_k {
            Some(count) => index < count as usize,
            None if self.to_file && self.has_several => *score >= HAS_LABEL,
            None if self.to_file => index == 0,
            None => self.as_json || index == 0 || *score >= SHOWN,
        };
        let count = all.iter().enumerate().filter(|one| shown(*one)).count();
        all.into_iter().take(count).collect()
    }

    fn of_tokens(self, all: Labels) -> Labels {
        let usual = if self.to_file { 1 } else { TOKENS };
        all.into_iter().take(self.top_k.map_or(usual, |count| count as usize)).collect()
    }
}

impl Shown {
    /// From the answer about a text.
    pub(super) fn of(prediction: &Value, wanted: DisplayOptions) -> Self {
        let list = |key: &str| prediction.get(key).and_then(Value::as_array);
        if let Some(entities) = list("entities") {
            let all: Option<Vec<Entity>> = entities.iter().map(Entity::of).collect();
            return all.map_or(Self::NotFinite, Self::Entities);
        }
        if let Some(masks) = list("masks") {
            let told = masks.iter().map(|mask| labels(mask).map(|all| wanted.of_tokens(all)));
            return told.collect::<Option<_>>().map_or(Self::NotFinite, Self::Masks);
        }
        if let Some(numbers) = list("vector") {
            let numbers: Option<Vec<f64>> = numbers.iter().map(Value::as_f64).collect();
            return numbers.map_or(Self::NotFinite, Self::Vector);
        }
        if let Some(answer) = prediction.get("answer") {
            return ShownAnswer::of(answer).map_or(Self::NotFinite, Self::Answer);
        }
        if let Some(text) = prediction.get("text").and_then(Value::as_str) {
            return Self::Text(text.to_owned());
        }
        labels(&prediction["labels"])
            .map_or(Self::NotFinite, |all| Self::Labels(wanted.of_labels(all)))
    }

    /// Their name.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Self::Labels(_) | Self::NotFinite => "labels",
            Self::Entities(_) => "entities",
            Self::Masks(_) => "hidden tokens",
            Self::Vector(_) => "vectors",
            Self::Answer(_) => "answers",
            Self::Text(_) => "written texts",
        }
    }

    /// The lines of the screen.
    pub(super) fn lines(&self) -> Vec<String> {
        let scored = |(label, score): &(String, f64)| format!("{score:.3}  {}", one_line(label));
        match self {
            Self::Labels(labels) => labels.iter().map(scored).collect(),
            Self::Entities(entities) if entities.is_empty() => vec!["       no entity".to_owned()],
            Self::Entities(entities) => {
                let width = entities.iter().map(|one| one.label.chars().count()).max().unwrap_or(0);
                let line = |one: &Entity| {
                    let (label, word) = (one_line(&one.label), one_line(&one.word));
                    format!("{:.3}  {label:width$}  {word}", one.score)
                };
                entities.iter().map(line).collect()
            }
            Self::Masks(masks) if masks.is_empty() => vec!["       no mask".to_owned()],
            Self::Masks(masks) => {
                let of_mask = |(number, told): (usize, &Labels)| {
                    let several = (masks.len() > 1).then(|| format!("mask {number}"));
                    several.into_iter().chain(told.iter().map(scored)).collect::<Vec<_>>()
                };
                (1..).zip(masks).flat_map(of_mask).collect()
            }
            Self::Vector(numbers) => {
                let first: Vec<String> =
                    numbers.iter().take(FIRST).map(|number| format!("{number:.4}")).collect();
                let more = if numbers.len() > FIRST { " .." } else { "" };
                vec![format!("{} numbers: {}{more}", numbers.len(), first.join(" "))]
            }
            Self::Answer(one) if one.answer.is_empty() => {
                vec![format!("{:.3}  no answer", one.score)]
            }
            Self::Answer(one) => vec![format!("{:.3}  {}", one.score, one_line(&one.answer))],
            // A text that is empty is a line, too.
            Self::Text(text) if text.is_empty() => vec![String::new()],
            Self::Text(text) => text.lines().map(str::to_owned).collect(),
            Self::NotFinite => vec!["NaN    no label".to_owned()],
        }
    }

    /// The object of a text, or of a pair.
    pub(super) fn json(&self, (text, pair): (&str, Option<&str>)) -> Value {
        let mut one = json!({"text": text});
        if let Some(pair) = pair {
            one["text_pair"] = pair.into();
        }
        let scored = |name: &'static str| {
            move |(label, score): &(String, f64)| {
                json!({
                    name: label, "score": score,
                })
            }
        };
        match self {
            Self::Labels(labels) => one["labels"] = labels.iter().map(scored("label")).collect(),
            Self::Entities(entities) => {
                one["entities"] = entities.iter().map(Entity::json).collect();
            }
            Self::Masks(masks) => {
                let of_mask = |told: &Labels| told.iter().map(scored("token")).collect::<Value>();
                one["masks"] = masks.iter().map(of_mask).collect();
            }
            Self::Vector(numbers) => one["vector"] = numbers.iter().copied().collect(),
            Self::Answer(answer) => {
                one["answer"] = answer.answer.as_str().into();
                one["score"] = answer.score.into();
                one["start"] = answer.start.into();
                one["end"] = answer.end.into();
            }
            Self::Text(text) => one["generated_text"] = text.as_str().into(),
            Self::NotFinite => {
                one["labels"] = json!([]);
                one["problem"] = "nan".into();
            }
        }
        one
    }
}

/// Labels of the answer; `None` if a score is not finite.
fn labels(all: &Value) -> Option<Labels> {
    let each = all.as_array().into_iter().flatten().map(|label| {
        Some((label.get("label")?.as_str()?.to_owned(), label.get("score")?.as_f64()?))
    });
    each.collect()
}

impl ShownAnswer {
    /// `None` if its score is not finite.
    fn of(answer: &Value) -> Option<Self> {
        Some(Self {
            answer: answer.get("answer")?.as_str()?.to_owned(),
            score: answer.get("score")?.as_f64()?,
            start: answer.get("start")?.as_u64()?,
            end: answer.get("end")?.as_u64()?,
        })
    }
}

impl Entity {
    /// `None` if its score is not finite.
    fn of(entity: &Value) -> Option<Self> {
        Some(Self {
            label: entity.get("entity_group")?.as_str()?.to_owned(),
            score: entity.get("score")?.as_f64()?,
            word: entity.get("word")?.as_str()?.to_owned(),
            start: entity.get("start")?.as_u64()?,
            end: entity.get("end")?.as_u64()?,
        })
    }

    /// With the keys of transformers' pipeline.
    fn json(&self) -> Value {
        json!({
            "entity_group": self.label, "score": self.score, "word": self.word, "start": self.start,
            "end": self.end,
        })
    }
}

/// The error about texts of which none has a mask.
pub(super) fn without_masks(predictions: &[Shown]) -> Option<Failure> {
    let has_none = |shown: &Shown| matches!(shown, Shown::Masks(masks) if masks.is_empty());
    let failure = Failure::usage("no text has a mask token for the model to predict");
    (!predictions.is_empty() && predictions.iter().all(has_none)).then(|| {
        failure
            .help("write `[MASK]`, or the model's own mask token, where a token is to be predicted")
    })
}

/// The error about texts with non-finite scores.
pub(super) fn unlabelled(predictions: &[Shown]) -> Option<Failure> {
    let is_unlabelled = |shown: &&Shown| **shown == Shown::NotFinite;
    let first = predictions.iter().position(|shown| is_unlabelled(&shown))? + 1;
    let (count, all) = (predictions.iter().filter(is_unlabelled).count(), predictions.len());
    let which = if all == 1 {
        "the text".to_owned()
    } else {
        format!("{count} of {all} texts (the first is text {first})")
    };
    let failure = Failure::usage(format!(
        "the model gives {which} scores that are not numbers (NaN or infinite), so there is no \
        label"
    ));
    Some(failure.help(
        "its weights or their products overflow: export another trial (`hpsearch \
        export STUDY --trial N -o DIR`), or train it again with a lower learning rate",
    ))
}

/// A column of the file of texts that is written beside what was said: its name and its cells.
pub(super) type Kept = (String, Vec<String>);

/// Writes each text with what was said about it: `label,score`, and `label_2,score_2` and so on for
/// several, an empty label and the score NaN if there is none; or a row for each entity
/// (`entity_group,word,start,end,score`) or token (`mask,token,score`); or an answer
/// (`answer,start,end,score`), the numbers of a vector, or the text that was written
/// (`generated_text`). Of pairs `text_pair` follows `text`. Kept columns come first, with
/// `_in_file` behind a name that is also one of these.
pub(super) fn write_csv<'t>(
    output: &Path,
    of_text: impl Fn(usize) -> (&'t str, Option<&'t str>),
    kept: &[Kept],
    predictions: &[Shown],
) -> Result<(), Failure> {
    let wrong = |error: csv::Error| {
        Failure::usage(format!("`{}` cannot be written: {error}", output.display()))
            .help("give another file to -o")
    };
    let mut head = vec!["text".to_owned()];
    let has_pairs = !predictions.is_empty() && of_text(0).1.is_some();
    head.extend(has_pairs.then(|| "text_pair".to_owned()));
    let own = head.len();
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let known = predictions.iter().find(|shown| **shown != Shown::NotFinite);
    head.extend(match known {
        Some(Shown::Entities(_)) => texts(&["entity_group", "word", "start", "end", "score"]),
        Some(Shown::Masks(_)) => texts(&["mask", "token", "score"]),
        Some(Shown::Vector(numbers)) => {
            (1..=numbers.len()).map(|number| format!("vector_{number}")).collect()
        }
        Some(Shown::Answer(_)) => texts(&["answer", "start", "end", "score"]),
        Some(Shown::Text(_)) => texts(&["generated_text"]),
        _ => {
            let count = |shown: &Shown| {
                if let Shown::Labels(labels) = shown { labels.len() } else { 0 }
            };
            let width = predictions.iter().map(count).max().unwrap_or(1).max(1);
            let further = |number| [format!("label_{number}"), format!("score_{number}")];
            let first = texts(&["label", "score"]);
            first.into_iter().chain((2..=width).flat_map(further)).collect()
        }
    });
    let mut names: Vec<String> = Vec::new();
    for (name, _) in kept {
        let mut name = name.clone();
        while head.contains(&name) || names.contains(&name) {
            name.push_str("_in_file");
        }
        names.push(name);
    }
    whole_file(output, |out| {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(names.iter().chain(&head)).map_err(wrong)?;
        for (number, shown) in predictions.iter().enumerate() {
            let (text, pair) = of_text(number);
            for cells in rows(shown) {
                let mut row: Vec<String> =
                    std::iter::once(text).chain(pair).map(str::to_owned).collect();
                row.truncate(own);
                row.extend(cells);
                row.resize(head.len(), String::new());
                let cells = kept.iter().map(|(_, cells)| &cells[number]);
                writer.write_record(cells.chain(&row)).map_err(wrong)?;
            }
        }
        Ok(writer.flush()?)
    })
}

/// The cells of each row about a text.
fn rows(shown: &Shown) -> Vec<Vec<String>> {
    let rows: Vec<Vec<String>> = match shown {
        Shown::Labels(labels) => {
            let cells = labels.iter().flat_map(|(label, score)| [label.clone(), score.to_string()]);
            vec![cells.collect()]
        }
        Shown::Entities(entities) => entities
            .iter()
            .map(|one| {
                let [start, end] = [one.start, one.end].map(|at| at.to_string());
                vec![one.label.clone(), one.word.clone(), start, end, one.score.to_string()]
            })
            .collect(),
        Shown::Masks(masks) => {
            let of_mask = |(number, told): (usize, &Labels)| -> Vec<Vec<String>> {
                let row = |(token, score): &(String, f64)| {
                    vec![number.to_string(), token.clone(), score.to_string()]
                };
                told.iter().map(row).collect()
            };
            (1..).zip(masks).flat_map(of_mask).collect()
        }
        Shown::Vector(numbers) => vec![numbers.iter().map(f64::to_string).collect()],
        Shown::Answer(one) => {
            let [start, end] = [one.start, one.end].map(|at| at.to_string());
            vec![vec![one.answer.clone(), start, end, one.score.to_string()]]
        }
        Shown::Text(text) => vec![vec![text.clone()]],
        Shown::NotFinite => vec![vec![String::new(), "NaN".to_owned()]],
    };
    if rows.is_empty() { vec![Vec::new()] } else { rows }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cli::Exit;

    fn labelled(scores: &[f64], wanted: DisplayOptions) -> Shown {
        let labels: Vec<Value> = ["good", "bad"]
            .iter()
            .zip(scores)
            .map(|(label, score)| json!({"label": label, "score": score}))
            .collect();
        Shown::of(&json!({"labels": labels}), wanted)
    }

    fn top(count: u32) -> DisplayOptions {
        DisplayOptions { top_k: Some(count), ..DisplayOptions::default() }
    }

    #[test]
    fn a_text_whose_scores_are_no_numbers_has_no_label() {
        for (scores, wanted, expected) in [
            (&[f64::NAN, f64::NAN], DisplayOptions::default(), None),
            (&[0.5, f64::NAN], DisplayOptions::default(), None),
            (&[f64::INFINITY, 0.5], DisplayOptions::default(), None),
            (&[0.99, 0.01], DisplayOptions::default(), Some(1)),
            (&[0.99, 0.01], top(2), Some(2)),
        ] {
            let shown = labelled(scores, wanted);
            let Shown::Labels(labels) = &shown else {
                assert_eq!((&shown, expected), (&Shown::NotFinite, None));
                continue;
            };
            assert_eq!(Some(labels.len()), expected, "{scores:?}");
            assert_eq!(labels[0], ("good".to_owned(), 0.99));
        }
    }

    #[test]
    fn texts_without_a_label_are_an_error_that_names_the_first() {
        let labelled = Shown::Labels(vec![("good".to_owned(), 0.9)]);
        assert!(unlabelled(std::slice::from_ref(&labelled)).is_none() && unlabelled(&[]).is_none());
        let failure = unlabelled(&[labelled.clone(), Shown::NotFinite, Shown::NotFinite]).unwrap();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.to_string().contains("2 of 3 texts (the first is text 2)"), "{failure}");
        assert_eq!(
            written(&[labelled, Shown::NotFinite], None),
            "text,label,score\na,good,0.9\nb,,NaN\n"
        );
    }

    /// The file about the texts `a` and `b`.
    fn written(predictions: &[Shown], pair: Option<&'static str>) -> String {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out.csv");
        write_csv(&file, |number| (["a", "b"][number], pair), &[], predictions).unwrap();
        fs::read_to_string(&file).unwrap()
    }

    #[test]
    fn a_text_has_those_of_several_labels_that_are_likelier_than_not() {
        let wanted =
            DisplayOptions { to_file: true, has_several: true, ..DisplayOptions::default() };
        let shown = [labelled(&[0.9, 0.5], wanted), labelled(&[0.4, 0.3], wanted)];
        assert_eq!(
            written(&shown, None),
            "text,label,score,label_2,score_2\na,good,0.9,bad,0.5\nb,,,,\n"
        );
        let one = DisplayOptions { has_several: false, ..wanted };
        assert_eq!(written(&[labelled(&[0.4, 0.3], one)], None), "text,label,score\na,good,0.4\n");
    }

    #[test]
    fn kept_columns_come_first_under_names_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out.csv");
        let shown = [labelled(&[0.9, 0.1], top(1)), labelled(&[0.8, 0.2], top(1))];
        let kept = [("id", ["7", "8"]), ("label", ["x", "y"])]
            .map(|(name, cells)| (name.to_owned(), cells.map(str::to_owned).to_vec()));
        write_csv(&file, |number| (["a", "b"][number], None), &kept, &shown).unwrap();
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "id,label_in_file,text,label,score\n7,x,a,good,0.9\n8,y,b,good,0.8\n"
        );
    }

    #[test]
    fn pairs_have_both_texts() {
        let shown = labelled(&[0.9, 0.1], top(2));
        assert_eq!(
            written(std::slice::from_ref(&shown), Some("p")),
            "text,text_pair,label,score,label_2,score_2\na,p,good,0.9,bad,0.1\n"
        );
        assert_eq!(shown.json(("a", Some("p")))["text_pair"], "p");
    }

    #[test]
    fn entities_have_a_row_each_and_a_text_without_one_has_an_empty_row() {
        let entity =
            json!({"entity_group": "PER", "score": 0.75, "word": "Ada L.", "start": 3, "end": 9});
        let shown = Shown::of(&json!({"entities": [entity]}), DisplayOptions::default());
        let none = Shown::of(&json!({"entities": []}), DisplayOptions::default());
        assert_eq!(shown.lines(), ["0.750  PER  Ada L."]);
        assert_eq!(none.lines(), ["       no entity"]);
        assert_eq!(shown.json(("a", None))["entities"][0], entity);
        assert_eq!(
            written(&[shown, none], None),
            "text,entity_group,word,start,end,score\na,PER,Ada L.,3,9,0.75\nb,,,,,\n"
        );
        let broken =
            json!({"entity_group": "PER", "score": null, "word": "A", "start": 0, "end": 1});
        assert_eq!(
            Shown::of(&json!({"entities": [broken]}), DisplayOptions::default()),
            Shown::NotFinite
        );
    }

    #[test]
    fn an_answer_has_its_place_and_none_is_said() {
        let of = |answer: &str, end: u64| {
            let answer = json!({"answer": answer, "score": 0.75, "start": 0, "end": end});
            Shown::of(&json!({"answer": answer}), DisplayOptions::default())
        };
        let (shown, none) = (of("Ada L.", 6), of("", 0));
        assert_eq!([shown.lines(), none.lines()], [["0.750  Ada L."], ["0.750  no answer"]]);
        assert_eq!(
            shown.json(("who", Some("Ada L. is"))),
            json!({
                "text": "who", "text_pair": "Ada L. is", "answer": "Ada L.", "score": 0.75,
                "start": 0,
                "end": 6,
            })
        );
        assert_eq!(
            written(&[shown, none], Some("Ada L.")),
            "text,text_pair,answer,start,end,score\na,Ada L.,Ada L.,0,6,0.75\nb,Ada L.,,0,0,0.75\n"
        );
    }

    #[test]
    fn each_mask_has_its_tokens() {
        let token = |token: &str, score: f64| json!({"label": token, "score": score});
        let masks =
            json!({"masks": [[token("sun", 0.5), token("snow", 0.25)], [token("up", 0.125)]]});
        let shown = Shown::of(&masks, DisplayOptions::default());
        assert_eq!(shown.lines(), ["mask 1", "0.500  sun", "0.250  snow", "mask 2", "0.125  up"]);
        assert_eq!(shown.json(("a", None))["masks"][1][0]["token"], "up");
        let none = Shown::of(&json!({"masks": []}), DisplayOptions::default());
        assert_eq!(none.lines(), ["       no mask"]);
        assert!(without_masks(std::slice::from_ref(&none)).is_some());
        assert!(without_masks(&[none, shown.clone()]).is_none() && without_masks(&[]).is_none());
        let first =
            Shown::of(&masks, DisplayOptions { to_file: true, ..DisplayOptions::default() });
        assert_eq!(written(&[first], None), "text,mask,token,score\na,1,sun,0.5\na,2,up,0.125\n");
    }
}
