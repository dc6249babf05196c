//! The directory of a model in Hugging Face's layout: found or downloaded, its `config.json` and
//! its tokenizer.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::{Tokenizer, TruncationDirection, TruncationParams};

use super::progress::ProgressCallback;
use super::{TrainerError, tokenizer_file, vocabulary_files};
use hpsearch_core::arguments::vocabulary_files;

/// Whether a model is given by its name on the Hugging Face Hub, not as a directory: study files
/// have absolute paths.
fn is_hub_name(model: &Path) -> bool {
    !model.is_absolute() && !model.is_dir()
}

/// The directory of a model given as a directory or a name on the Hub; it is downloaded if
/// necessary.
///
/// # Errors
/// There is no such model, or it cannot be downloaded.
pub fn locate(model: &Path, on_progress: ProgressCallback<'_>) -> Result<PathBuf, TrainerError> {
    if !is_hub_name(model) {
        return Ok(model.to_owned());
    }
    #[cfg(feature = "hub")]
    return super::hub::model(&model.to_string_lossy(), on_progress)
        .map_err(|problem| TrainerError::model(model, problem));
    #[cfg(not(feature = "hub"))]
    {
        let _only_for_downloads = on_progress;
        Err(TrainerError::model(
            model,
            "names a model of the Hub, and this hpsearch was built without the feature `hub`: \
             give its directory",
        ))
    }
}

/// The same without the network.
#[must_use]
pub fn find_local(model: &Path) -> Option<PathBuf> {
    if !is_hub_name(model) {
        return vocabulary_files::has_tokenizer(model).then(|| model.to_owned());
    }
    #[cfg(feature = "hub")]
    return super::hub::cached(&model.to_string_lossy());
    #[cfg(not(feature = "hub"))]
    None
}

/// The `config.json` of a directory.
pub(super) fn config(directory: &Path) -> Result<Map<String, Value>, TrainerError> {
    if !directory.is_dir() {
        return Err(TrainerError::model(
            directory,
            "there is no such directory: a pretrained model is one with config.json, \
             model.safetensors and tokenizer.json",
        ));
    }
    let bytes = file(directory, "config.json").map_err(|error| match instead(directory) {
        Some(instead) => TrainerError::model(directory, format!("has no `config.json`: {instead}")),
        None => error,
    })?;
    serde_json::from_slice(&bytes)
        .map(|config| with_generation(directory, config))
        .map_err(|error| TrainerError::config(directory, &format!("cannot be parsed: {error}")))
}

/// What a directory without `config.json` is instead of a model.
fn instead(directory: &Path) -> Option<String> {
    if directory.join("config.json").exists() {
        return None;
    }
    if directory.join("adapter_config.json").is_file() {
        return Some(
            "it has an adapter of PEFT; `merge_and_unload()` and `save_pretrained(DIR)` of \
             transformers write the model with it into DIR"
                .to_owned(),
        );
    }
    let step = |name: &str| name.strip_prefix("checkpoint-")?.parse::<u64>().ok();
    let names = fs::read_dir(directory).ok()?.flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let is_model = |name: &String| directory.join(name).join("config.json").is_file();
    let last = names.filter(is_model).filter_map(|name| Some((step(&name)?, name))).max()?.1;
    Some(format!("did you mean `{}`?", directory.join(last).display()))
}

/// What `generation_config.json` says about writing texts, which `config.json` said in earlier
/// versions of transformers.
const OF_GENERATION: [&str; 12] = [
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "max_length",
    "max_new_tokens",
    "min_length",
    "num_beams",
    "length_penalty",
    "no_repeat_ngram_size",
    "early_stopping",
    "bad_words_ids",
    "suppress_tokens",
];

/// The configuration of a model in `directory`, of one that writes a text for a text with how it
/// does.
pub(super) fn with_generation(
    directory: &Path,
    mut config: Map<String, Value>,
) -> Map<String, Value> {
    if config.get("is_encoder_decoder") != Some(&Value::Bool(true)) {
        return config;
    }
    let bytes = fs::read(directory.join("generation_config.json")).unwrap_or_default();
    if let Ok(Value::Object(mut generation)) = serde_json::from_slice(&bytes) {
        for key in OF_GENERATION {
            if let Some(value) = generation.remove(key).filter(|value| !value.is_null()) {
                config.insert(key.to_owned(), value);
            }
        }
    }
    config
}

/// The bytes of `config.json`, of a model that writes a text for a text with how it does.
pub(super) fn config_bytes(directory: &Path) -> Result<Vec<u8>, TrainerError> {
    if directory.join("generation_config.json").exists() {
        let config = serde_json::to_string_pretty(&config(directory)?);
        return Ok(config.expect("a map of plain values").into_bytes());
    }
    file(directory, "config.json")
}

/// The bytes of a file that must be there.
pub(super) fn file(directory: &Path, name: &str) -> Result<Vec<u8>, TrainerError> {
    let path = directory.join(name);
    // A pipe would be waited for.
    if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Err(TrainerError::model(directory, format!("has no file `{name}`")));
    }
    fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => TrainerError::model(directory, format!("has no `{name}`")),
        _ => TrainerError::model(directory, format!("`{name}` cannot be read: {error}")),
    })
}

/// The bytes of `tokenizer.json`, made of other files where it is not there.
pub(super) fn tokenizer_json(directory: &Path) -> Result<Vec<u8>, TrainerError> {
    let path = directory.join("tokenizer.json");
    match fs::read(&path) {
        Ok(bytes) => return Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(TrainerError::io("read", &path)(error)),
    }
    let model_type = vocabulary_files::model_type(directory);
    if let Some(bytes) = vocabulary_files::tokenizer_json(directory, &model_type)? {
        return Ok(bytes);
    }
    let files = vocabulary_files(&model_type);
    let others = if files.is_empty() {
        String::new()
    } else {
        format!(", nor all of what it could be made of (`{}`)", files.join("`, `"))
    };
    Err(TrainerError::model(
        directory,
        format!(
            "has no `tokenizer.json`{others}: \
             `AutoTokenizer.from_pretrained(..).save_pretrained(..)` of transformers writes it"
        ),
    ))
}

/// The tokenizer of a directory, truncating to `max_length` tokens where given, and never padding.
pub(super) fn tokenizer(
    directory: &Path,
    max_length: Option<usize>,
) -> Result<Tokenizer, TrainerError> {
    usable(directory, &tokenizer_json(directory)?, max_length)
}

/// The tokenizer of the texts to write, without a limit, where they have one of their own.
pub(super) fn target_tokenizer(directory: &Path) -> Result<Option<Tokenizer>, TrainerError> {
    let bytes = vocabulary_files::target_tokenizer_json(directory)?;
    bytes.map(|bytes| usable(directory, &bytes, None)).transpose()
}

/// What a message calls the tokenizer: by the files that it is read from.
fn name_of_tokenizer(directory: &Path) -> String {
    let made_of = vocabulary_files(&vocabulary_files::model_type(directory));
    if made_of.is_empty() || directory.join("tokenizer.json").is_file() {
        "`tokenizer.json`".to_owned()
    } else {
        format!("the tokenizer in `{}`", made_of.join("` and `"))
    }
}

fn usable(
    directory: &Path,
    bytes: &[u8],
    max_length: Option<usize>,
) -> Result<Tokenizer, TrainerError> {
    let unusable = |error: tokenizers::Error| {
        let name = name_of_tokenizer(directory);
        TrainerError::model(directory, format!("{name} cannot be used: {error}"))
    };
    let mut tokenizer = tokenizer_file::read(bytes).map_err(unusable)?;
    tokenizer.with_padding(None);
    let direction = direction(directory, bytes);
    let truncation = max_length.map(|max_length| TruncationParams {
        max_length,
        direction,
        ..TruncationParams::default()
    });
    tokenizer.with_truncation(truncation).map_err(unusable)?;
    Ok(tokenizer)
}

/// Which end of long texts is cut off: that of `tokenizer_config.json`, else that of the tokenizer
/// itself.
///
/// Source: `tokenization_utils_tokenizers.py` of transformers, `truncation_side`.
pub(super) fn truncation_direction(directory: &Path) -> Result<TruncationDirection, TrainerError> {
    Ok(direction(directory, &tokenizer_json(directory)?))
}

fn direction(directory: &Path, tokenizer: &[u8]) -> TruncationDirection {
    #[derive(Deserialize)]
    struct Stored {
        truncation: Option<TruncationParams>,
    }
    let own = || serde_json::from_slice::<Stored>(tokenizer).ok()?.truncation;
    vocabulary_files::truncation_side(directory)
        .or_else(|| own().map(|truncation| truncation.direction))
        .unwrap_or(TruncationDirection::Right)
}

/// The id of the unknown token, if the tokenizer has one.
pub(super) fn unknown_token(tokenizer: &Tokenizer) -> Option<u32> {
    let model = serde_json::to_value(tokenizer.get_model()).ok()?;
    match model.get("unk_token").and_then(Value::as_str) {
        Some(token) => tokenizer.token_to_id(token),
        None => model.get("unk_id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok()),
    }
}

/// The id of a model's mask token.
pub(super) fn mask_token(directory: &Path, tokenizer: &Tokenizer) -> Result<u32, TrainerError> {
    let named = vocabulary_files::mask_token(directory)?;
    let usual = ["[MASK]", "<mask>"].map(str::to_owned);
    named.into_iter().chain(usual).find_map(|token| tokenizer.token_to_id(&token)).ok_or_else(
        || {
            TrainerError::model(
                directory,
                "has a tokenizer without a mask token: it was not pretrained on masked tokens",
            )
        },
    )
}

/// Checks that every token has an embedding.
pub(super) fn check_tokens(
    directory: &Path,
    tokenizer: &Tokenizer,
    vocabulary: usize,
) -> Result<(), TrainerError> {
    let last = tokenizer.get_vocab(true).into_iter().max_by_key(|(_, id)| *id);
    match last.filter(|(_, id)| *id as usize >= vocabulary) {
        Some((token, id)) => Err(TrainerError::model(
            directory,
            format!(
                "{} does not fit: it has the token `{token}` with the number {id}, \
                 and the model (`vocab_size` in config.json) knows those below {vocabulary}; copy \
                 the tokenizer that the model was trained with",
                name_of_tokenizer(directory)
            ),
        )),
        None => Ok(()),
    }
}
