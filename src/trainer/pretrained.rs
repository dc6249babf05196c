//! Models to start from: a directory's `config.json`, tokenizer and weights, held against each other before anything is trained.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde_json::{Map, Value};
use tokenizers::{Tokenizer, TruncationParams};

use super::pace::Ticker;
use super::parameters::{Parameter, Parameters, Part, Values};
use super::task::{Model, task};
use super::weights::Weights;
use super::{Finding, PreparedData, TrainerError, tokenizer_file};
use crate::arguments::{ModelArguments, TaskKind};

/// Files about the tokenizer that are handed on beside `tokenizer.json`, where they are there.
pub(super) const TOKENIZER_EXTRAS: [&str; 3] = ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"];

/// How names of tensors in files may differ from those of parameters, and which of them a model has a use for.
pub(super) struct Naming {
    /// What names begin with; files of models without a head leave it out.
    pub(super) prefix: &'static str,
    /// What names of layers begin with after the prefix: one that no parameter has is of a layer that `config.json` does not know of.
    pub(super) layers: &'static str,
    /// Whether the labels that the weights were trained for are those of the data.
    pub(super) keeps_labels: bool,
    /// The labels that the weights were trained for.
    pub(super) labels: Vec<String>,
}

/// Whether a model is named as on the Hugging Face Hub, and not by a directory's path: study files give those whole.
fn is_named(model: &Path) -> bool {
    !model.is_absolute() && !model.is_dir()
}

/// The directory of a model, which may be one of the Hub's by its name: downloaded if it must be.
///
/// # Errors
/// There is no such model, or it cannot be downloaded.
pub fn locate(model: &Path, ticker: Ticker<'_>) -> Result<PathBuf, TrainerError> {
    if !is_named(model) {
        return Ok(model.to_owned());
    }
    #[cfg(feature = "hub")]
    return super::hub::model(&model.to_string_lossy(), ticker).map_err(|problem| TrainerError::model(model, problem));
    #[cfg(not(feature = "hub"))]
    {
        let _only_downloads_take_long = ticker;
        Err(TrainerError::model(model, "names a model of the Hub, and this hpsearch was built without the feature `hub`: give its directory"))
    }
}

/// The same without a look at the network.
#[must_use]
pub fn at_hand(model: &Path) -> Option<PathBuf> {
    if !is_named(model) {
        return model.join("tokenizer.json").is_file().then(|| model.to_owned());
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
            "there is no such directory: a pretrained model is one with config.json, model.safetensors and tokenizer.json",
        ));
    }
    let bytes = file(directory, "config.json")?;
    serde_json::from_slice(&bytes).map_err(|error| TrainerError::model(directory, format!("`config.json` cannot be understood: {error}")))
}

/// The bytes of a file that must be there.
pub(super) fn file(directory: &Path, name: &str) -> Result<Vec<u8>, TrainerError> {
    fs::read(directory.join(name)).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound if name == "tokenizer.json" => TrainerError::model(
            directory,
            "has no `tokenizer.json`: `AutoTokenizer.from_pretrained(..).save_pretrained(..)` of transformers makes it of what else there is",
        ),
        std::io::ErrorKind::NotFound => TrainerError::model(directory, format!("has no `{name}`")),
        _ => TrainerError::model(directory, format!("`{name}` cannot be read: {error}")),
    })
}

/// The tokenizer of a directory, cutting texts to `max_length` tokens where there is one, and never padding.
pub(super) fn tokenizer(directory: &Path, max_length: Option<usize>) -> Result<Tokenizer, TrainerError> {
    let bytes = file(directory, "tokenizer.json")?;
    let wrong = |error: tokenizers::Error| TrainerError::model(directory, format!("`tokenizer.json` cannot be used: {error}"));
    let mut tokenizer = tokenizer_file::read(&bytes).map_err(wrong)?;
    tokenizer.with_padding(None);
    let truncation = max_length.map(|max_length| TruncationParams { max_length, ..TruncationParams::default() });
    tokenizer.with_truncation(truncation).map_err(wrong)?;
    Ok(tokenizer)
}

/// The number of what the tokenizer puts for what it does not know, if it has such a token.
pub(super) fn unknown_token(tokenizer: &Tokenizer) -> Option<u32> {
    let model = serde_json::to_value(tokenizer.get_model()).ok()?;
    match model.get("unk_token").and_then(Value::as_str) {
        Some(token) => tokenizer.token_to_id(token),
        None => model.get("unk_id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok()),
    }
}

/// Whether a directory has a model of a kind that is known, and weights that can be read at all.
pub(super) fn look_at(directory: &Path, kind: TaskKind) -> Result<(), TrainerError> {
    let described = config(directory)?;
    task(kind).read(described).map_err(|problem| TrainerError::model(directory, format!("`config.json` {problem}")))?;
    Weights::open(directory).map(|_| ())
}

/// Holds a directory's model against the data that it shall be trained on: what would end every trial is an error, what one should know a finding.
pub(super) fn check(directory: &Path, kind: TaskKind, data: &PreparedData) -> Result<Vec<Finding>, TrainerError> {
    let arguments = ModelArguments { pretrained: Some(directory.to_string_lossy().into_owned()), ..ModelArguments::default() };
    let model = task(kind).model(&arguments, data)?;
    check_tokenizer(directory, &*model, data)?;
    let weights = Weights::open(directory)?;
    Ok(Match::of(directory, &*model, &weights)?.findings)
}

/// Every token must have a row in the table of words, and every text must fit.
fn check_tokenizer(directory: &Path, model: &dyn Model, data: &PreparedData) -> Result<(), TrainerError> {
    let (vocabulary, longest) = model.limits();
    check_tokens(directory, &tokenizer_file::read(&data.tokenizer_file()?).map_err(TrainerError::tokenizer)?, vocabulary)?;
    if data.max_length() > longest {
        let message = format!("reads at most {longest} tokens, and `[data] max_length` is {}: set it to {longest} or less", data.max_length());
        return Err(TrainerError::model(directory, message));
    }
    Ok(())
}

/// Every token must have a row in the table of words.
pub(super) fn check_tokens(directory: &Path, tokenizer: &Tokenizer, vocabulary: usize) -> Result<(), TrainerError> {
    let last = tokenizer.get_vocab(true).into_iter().max_by_key(|(_, id)| *id);
    match last.filter(|(_, id)| *id as usize >= vocabulary) {
        Some((token, id)) => Err(TrainerError::model(
            directory,
            format!(
                "`tokenizer.json` does not fit: it has the token `{token}` with the number {id}, and the model (`vocab_size` in config.json) knows those below {vocabulary}; copy the tokenizer that the model was trained with"
            ),
        )),
        None => Ok(()),
    }
}

/// The values that a model starts from: the directory's, fresh ones (a function of the seed) for what it lacks.
pub(super) fn values(directory: &Path, model: &dyn Model, seed: u64, device: &Device, log: &mut dyn FnMut(&str)) -> Result<Values, TrainerError> {
    let weights = Weights::open(directory)?;
    let matched = Match::of(directory, model, &weights)?;
    for finding in &matched.findings {
        log(&finding.message);
    }
    read(directory, model, &weights, matched, seed, device)
}

/// The values of a model that is complete.
pub(super) fn trained_values(directory: &Path, model: &dyn Model, device: &Device) -> Result<Values, TrainerError> {
    let weights = Weights::open(directory)?;
    let matched = Match::of(directory, model, &weights)?;
    let lacks: Vec<String> = model
        .parameters()
        .iter()
        .zip(&matched.sources)
        .filter(|(_, source)| source.is_none())
        .map(|(parameter, _)| format!("`{}`", parameter.name))
        .collect();
    if !lacks.is_empty() {
        return Err(TrainerError::model(directory, format!("has no trained head: {} are missing; fine-tune it first", some(&lacks))));
    }
    read(directory, model, &weights, matched, 0, device)
}

fn read(directory: &Path, model: &dyn Model, weights: &Weights, matched: Match, seed: u64, device: &Device) -> Result<Values, TrainerError> {
    let parameters = model.parameters();
    let mut sources = matched.sources.into_iter().zip(parameters.iter());
    parameters.read_entries("", device, |name, _| {
        let (source, parameter) = sources.next().expect("a source for each parameter");
        match source {
            Some(source) => weights.numbers(&source).ok_or_else(|| TrainerError::model(directory, format!("`{name}` cannot be read"))),
            None => Ok(parameters.fresh_in_file(parameter, seed)),
        }
    })
}

/// What to do where weights and configuration differ.
const ONE_MODEL: &str = "config.json and the weights must be of one model: copy or download both again";

/// Where each parameter's values come from.
struct Match {
    /// The tensor of each parameter; `None`: it begins anew.
    sources: Vec<Option<String>>,
    findings: Vec<Finding>,
}

impl Match {
    fn of(directory: &Path, model: &dyn Model, weights: &Weights) -> Result<Self, TrainerError> {
        let (parameters, naming) = (model.parameters(), model.naming());
        let (mut sources, mut missing, mut misshapen, mut anew) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for parameter in parameters.iter() {
            let found = candidates(&parameter.name, naming.prefix).into_iter().find(|name| weights.shape(name).is_some());
            let wanted = parameter.file_shape();
            let fits = |name: &String| weights.shape(name) == Some(&wanted[..]);
            let source = match found {
                Some(name) if parameter.part == Part::Labels && (!naming.keeps_labels || !fits(&name)) => None,
                Some(name) if fits(&name) => match weights.readable(&name) {
                    Ok(()) => Some(name),
                    Err(kind) => {
                        return Err(TrainerError::model(
                            directory,
                            format!(
                                "has `{name}` as {kind}; F32, F16, BF16, F64 and I8 with its scales in `{name}_scale` can be read; load and save it with transformers as one of them, `from_pretrained(.., dtype=torch.float32)`"
                            ),
                        ));
                    }
                },
                Some(name) => {
                    let shape = weights.shape(&name).unwrap_or_default();
                    misshapen.push(format!("`{name}` is {shape:?} and must be {wanted:?}"));
                    None
                }
                None if parameter.part == Part::Body => {
                    missing.push(format!("`{}`", parameter.name));
                    None
                }
                None => None,
            };
            if source.is_none() {
                anew.push(parameter);
            }
            sources.push(source);
        }
        let wrong: Vec<String> = [("lacks tensors", missing), ("has tensors of other shapes than config.json says", misshapen)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {}", some(&names)))
            .collect();
        if !wrong.is_empty() {
            return Err(TrainerError::model(directory, format!("{}; {ONE_MODEL}", wrong.join("; "))));
        }
        let used: BTreeSet<&str> = sources.iter().flatten().map(String::as_str).collect();
        let extra: Vec<&str> = weights.names().filter(|name| !used.contains(name) && !is_buffer(name) && !weights.is_scale(name)).collect();
        let unknown: Vec<String> = extra.iter().filter(|name| is_of_layer(name, &naming)).map(|name| format!("`{name}`")).collect();
        if !unknown.is_empty() {
            let message = format!("has tensors of layers that its config.json does not describe: {}; {ONE_MODEL}", some(&unknown));
            return Err(TrainerError::model(directory, message));
        }
        let mut findings = Vec::new();
        note_new_head(&anew, &naming, parameters, &mut findings);
        let replaced = |name: &&str| parameters.iter().any(|parameter| candidates(&parameter.name, naming.prefix).iter().any(|own| own == name));
        let unused: Vec<String> = extra.into_iter().filter(|name| !replaced(name)).map(|name| format!("`{name}`")).collect();
        if !unused.is_empty() {
            findings
                .push(Finding::note("unused_tensors", format!("the pretrained model has tensors that this task does not use: {}", some(&unused))));
        }
        Ok(Self { sources, findings })
    }
}

fn note_new_head(anew: &[&Parameter], naming: &Naming, parameters: &Parameters, findings: &mut Vec<Finding>) {
    if anew.is_empty() {
        return;
    }
    let names: Vec<String> = anew.iter().map(|parameter| format!("`{}`", parameter.name)).collect();
    let labels = parameters.iter().filter(|parameter| parameter.part == Part::Labels).map(|parameter| parameter.shape[1]).max().unwrap_or(0);
    let why = if naming.keeps_labels || naming.labels.is_empty() {
        String::new()
    } else {
        format!(" (the pretrained model was trained for {} labels, {})", naming.labels.len(), some(&naming.labels))
    };
    findings.push(Finding::note("new_head", format!("a new head for {labels} labels is trained from the start: {}{why}", some(&names))));
}

/// Names under which a parameter's tensor may lie.
fn candidates(name: &str, prefix: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    if let Some(bare) = name.strip_prefix(prefix).filter(|_| !prefix.is_empty()) {
        names.push(bare.to_owned());
    }
    // TensorFlow's names, in BERT's first checkpoints.
    if let Some(norm) = name.strip_suffix("LayerNorm.weight") {
        names.push(format!("{norm}LayerNorm.gamma"));
    } else if let Some(norm) = name.strip_suffix("LayerNorm.bias") {
        names.push(format!("{norm}LayerNorm.beta"));
    }
    names
}

/// Tensors that are functions of the shape.
fn is_buffer(name: &str) -> bool {
    [".position_ids", ".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq", ".token_type_ids"].iter().any(|end| name.ends_with(end))
        || name == "position_ids"
}

fn is_of_layer(name: &str, naming: &Naming) -> bool {
    let bare = name.strip_prefix(naming.prefix).unwrap_or(name);
    let rest = bare.strip_prefix(naming.layers).and_then(|rest| rest.strip_prefix('.'));
    rest.and_then(|rest| rest.split('.').next()).is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The first few of many, and how many more there are.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}
