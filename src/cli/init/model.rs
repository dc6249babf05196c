//! Examines a pretrained model: whether it can be fine-tuned, and on which tasks.

use std::path::Path;

use serde_json::{Map, Value};

use super::as_named;
use super::study_file::TrainerStudy;
use crate::arguments::{DECODER_TYPES, ENCODER_TYPES, SEQ2SEQ_TYPES, TaskKind, vocabulary_files};
use crate::cli::exit::Failure;
use crate::config;
use crate::export::holds_weights;
use crate::report::wording::one_line;

/// The kind of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// It classifies texts.
    Encoder,
    /// It generates text.
    Decoder,
    /// It writes a text for each text.
    EncoderDecoder,
}

/// A pretrained model to fine-tune.
#[derive(Clone, Debug, PartialEq)]
pub struct Pretrained {
    /// Its name in the study file.
    pub named: String,
    /// From `config.json`; unknown for a model on the Hub.
    pub family: Option<Family>,
    /// `model_type` of `config.json`.
    pub model_type: String,
    /// Its maximum number of tokens.
    longest: Option<u32>,
}

const IS_A_DIRECTORY: &str =
    "a pretrained model is a directory with config.json, model.safetensors and tokenizer.json";

/// Whether a directory holds a model.
pub fn is_one(directory: &Path) -> bool {
    directory.join("config.json").is_file() || holds_weights(directory)
}

/// Examines the model given by `--model`: a directory, or a name on the Hub if this binary supports
/// it.
pub fn look(model: &str, output: &Path) -> Result<Pretrained, Failure> {
    let directory = Path::new(model);
    if !directory.is_dir() {
        if cfg!(feature = "hub") && config::is_of_hub(model) && !directory.exists() {
            return Ok(Pretrained {
                named: model.to_owned(),
                family: None,
                model_type: String::new(),
                longest: None,
            });
        }
        let what = if directory.exists() {
            "is a file, not the directory of a model"
        } else {
            "is not a directory"
        };
        let help = if config::is_of_hub(model) && !directory.exists() {
            config::of_hub(model)
        } else {
            IS_A_DIRECTORY.to_owned()
        };
        return Err(Failure::usage(format!("`{}` {what}", one_line(model))).help(help));
    }
    let lacks = |what: &str, help: &str| {
        Failure::usage(format!("`{}` has no {what}", directory.display())).help(help)
    };
    let text = config::file::read_to_string(&directory.join("config.json")).map_err(|error| {
        let file = directory.join("config.json");
        Failure::usage(format!("`{}` cannot be read: {error}", file.display())).help(IS_A_DIRECTORY)
    })?;
    let described: Map<String, Value> = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!(
            "`{}` cannot be parsed: {error}",
            directory.join("config.json").display()
        ))
        .help("copy the model again")
    })?;
    if !holds_weights(directory) {
        return Err(lacks(
            "model.safetensors",
            "`AutoModel.from_pretrained(DIR).save_pretrained(DIR)` of transformers writes it from \
             other weights",
        ));
    }
    let model_type =
        described.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let files = vocabulary_files(&model_type);
    let there = |name: &str| directory.join(name).is_file();
    if !there("tokenizer.json") && (files.is_empty() || !files.iter().all(|name| there(name))) {
        return Err(lacks(
            "tokenizer.json",
            "`AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)` of transformers writes it \
             from the other tokenizer files",
        ));
    }
    let family = match model_type.as_str() {
        known if ENCODER_TYPES.contains(&known) => Family::Encoder,
        known if DECODER_TYPES.contains(&known) => Family::Decoder,
        known if SEQ2SEQ_TYPES.contains(&known) => Family::EncoderDecoder,
        other => {
            let known: Vec<&str> =
                ENCODER_TYPES.into_iter().chain(DECODER_TYPES).chain(SEQ2SEQ_TYPES).collect();
            let message = format!(
                "`{}` is of the architecture `{}` (`model_type`), which is not supported",
                directory.display(),
                one_line(other)
            );
            return Err(Failure::usage(message)
                .help(format!("supported architectures are {}", known.join(", "))));
        }
    };
    let number = |key: &str| {
        described.get(key).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok())
    };
    let longest = number("max_position_embeddings").or_else(|| number("n_positions"));
    // Its first two positions are those of padding.
    let longest = if model_type == "roberta" {
        longest.map(|longest| longest.saturating_sub(2))
    } else {
        longest
    };
    Ok(Pretrained {
        named: as_named(directory, output)?,
        family: Some(family),
        model_type,
        longest,
    })
}

impl TrainerStudy {
    /// Adapts the study to the model, and reports it.
    pub fn take_model(&mut self, model: &Pretrained) -> Result<(), Failure> {
        let writes = self.task.is_sequence_to_sequence();
        if let Some(family) = model.family
            && writes != (family == Family::EncoderDecoder)
        {
            let (is, help) = if writes {
                (
                    "writes no text for each text",
                    "give a t5, bart or marian, or leave out `--target`",
                )
            } else {
                ("writes a text for each text", "`--target COLUMN` names the texts to write")
            };
            let message = format!("the model (`{}`) {is}", model.model_type);
            return Err(Failure::usage(message).help(help));
        }
        if writes {
            self.max_length = self.max_length.max(64);
        } else if self.task == TaskKind::LanguageModeling {
            if model.family == Some(Family::Encoder) {
                let message = format!(
                    "the model is an encoder (`{}`), which learns labels, and this data has none",
                    model.model_type
                );
                return Err(Failure::usage(message).help(
                    "`--label COLUMN` names the column of labels; `--task \
                     masked-language-modeling` adapts the model to the texts",
                ));
            }
            self.max_length = self.max_length.max(128);
        } else if model.family == Some(Family::Decoder) {
            let message = format!(
                "the model is a decoder (`{}`), which learns texts and no labels",
                model.model_type
            );
            return Err(Failure::usage(message).help(
                "leave out `--label`, or give an encoder, such as a bert, roberta or modernbert",
            ));
        }
        self.max_length = self.max_length.min(model.longest.unwrap_or(u32::MAX)).max(3);
        let what = if model.model_type.is_empty() {
            "on the Hugging Face Hub".to_owned()
        } else {
            model.model_type.clone()
        };
        self.findings
            .push(format!("model: {} ({what}), fine-tuned with its own tokenizer", model.named));
        Ok(())
    }
}
