//! Loads the weights of a pretrained model: the tensor behind each parameter, and what is missing
//! or unused.

use std::collections::BTreeSet;
use std::path::Path;

use burn::tensor::Device;

use super::families::decoders::LM_HEAD;
use super::parameters::{ModelPart, Parameter, Parameters, Values};
use super::task::{Model, TensorNames};
use super::weights::Weights;
use super::{Finding, TrainerError};

/// The initial values of a model: those of a pretrained directory, with a new head drawn from
/// `seed` where it has none.
pub(super) fn load_pretrained(
    directory: &Path,
    model: &dyn Model,
    seed: u64,
    device: &Device,
    log: &mut dyn FnMut(&str),
) -> Result<Values, TrainerError> {
    let weights = Weights::open(directory)?;
    let mapping = TensorMapping::of(directory, model, &weights)?;
    for finding in &mapping.findings {
        log(&finding.message);
    }
    read(directory, model, &weights, mapping, seed, device)
}

/// The values of a complete model.
pub(super) fn load_trained(
    directory: &Path,
    model: &dyn Model,
    device: &Device,
) -> Result<Values, TrainerError> {
    let weights = Weights::open(directory)?;
    let mapping = TensorMapping::of(directory, model, &weights)?;
    let pairs = model.parameters().iter().zip(&mapping.sources);
    let missing = pairs.filter(|(_, source)| source.is_none()).map(|(parameter, _)| parameter);
    let lacks = quoted(missing.map(|parameter| &*parameter.name));
    if !lacks.is_empty() {
        return Err(TrainerError::model(
            directory,
            format!("has no trained head: {} are missing; fine-tune it first", abbreviated(&lacks)),
        ));
    }
    read(directory, model, &weights, mapping, 0, device)
}

/// Findings about the weights that a pretrained directory has for `model`.
pub(super) fn findings(directory: &Path, model: &dyn Model) -> Result<Vec<Finding>, TrainerError> {
    Ok(TensorMapping::of(directory, model, &Weights::open(directory)?)?.findings)
}

/// Checks that the weights that a pretrained directory has for `model` are numbers.
pub(super) fn check_finite(directory: &Path, model: &dyn Model) -> Result<(), TrainerError> {
    let weights = Weights::open(directory)?;
    let sources = TensorMapping::of(directory, model, &weights)?.sources;
    let is_finite = |name: &String| {
        weights.values(name).is_none_or(|values| values.iter().all(|value| value.is_finite()))
    };
    match sources.iter().flatten().find(|name| !is_finite(name)) {
        None => Ok(()),
        Some(name) => Err(not_finite(directory, name)),
    }
}

fn not_finite(directory: &Path, name: &str) -> TrainerError {
    let message = format!(
        "has values in `{name}` that are infinite or NaN: it was saved by a training that \
         diverged, or is damaged; use an earlier checkpoint, or download it again"
    );
    TrainerError::model(directory, message)
}

fn read(
    directory: &Path,
    model: &dyn Model,
    weights: &Weights,
    mapping: TensorMapping,
    seed: u64,
    device: &Device,
) -> Result<Values, TrainerError> {
    let parameters = model.parameters();
    let mut sources = mapping.sources.into_iter().zip(parameters.iter());
    parameters.read_entries("", device, |name, _| {
        let (source, parameter) = sources.next().expect("a source for each parameter");
        match source {
            Some(source) => match weights.values(&source) {
                Some(values) if values.iter().all(|value| value.is_finite()) => Ok(values),
                Some(_) => Err(not_finite(directory, &source)),
                None => Err(TrainerError::model(directory, format!("`{name}` cannot be read"))),
            },
            None => Ok(parameters.initial_in_file_order(parameter, seed)),
        }
    })
}

/// The remedy if weights and configuration differ.
const ONE_MODEL: &str =
    "config.json and the weights must be of one model: copy or download both again";

/// The tensor of a file that each parameter is read from.
struct TensorMapping {
    /// The tensor of each parameter; `None`: it is newly initialised.
    sources: Vec<Option<String>>,
    findings: Vec<Finding>,
}

impl TensorMapping {
    fn of(directory: &Path, model: &dyn Model, weights: &Weights) -> Result<Self, TrainerError> {
        let (parameters, tensor_names) = (model.parameters(), model.tensor_names());
        let (mut sources, mut missing, mut mismatched, mut new) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for parameter in parameters.iter() {
            let found = candidates(&parameter.name, tensor_names.prefix)
                .into_iter()
                .find(|name| weights.shape(name).is_some());
            let wanted = parameter.file_shape();
            let fits = |name: &String| weights.shape(name) == Some(&wanted[..]);
            let source = match found {
                Some(name)
                    if parameter.part == ModelPart::Labels
                        && !(tensor_names.keeps_labels && fits(&name)) =>
                {
                    None
                }
                Some(name) if fits(&name) => match weights.readable(&name) {
                    Ok(()) => Some(name),
                    Err(kind) => {
                        return Err(TrainerError::model(
                            directory,
                            format!(
                                "has `{name}` as {kind}; F32, F16, BF16, F64 and I8 with its \
                                 scales in `{name}_scale` can be read; load and save it with \
                                 transformers as one of them, `from_pretrained(.., \
                                 dtype=torch.float32)`"
                            ),
                        ));
                    }
                },
                Some(name) => {
                    let shape = weights.shape(&name).unwrap_or_default();
                    mismatched.push(format!("`{name}` is {shape:?} and must be {wanted:?}"));
                    None
                }
                None if parameter.part == ModelPart::Body => {
                    missing.push(format!("`{}`", parameter.name));
                    None
                }
                None => None,
            };
            if source.is_none() {
                new.push(parameter);
            }
            sources.push(source);
        }
        let wrong: Vec<String> = [
            ("lacks tensors", missing),
            ("has tensors of other shapes than config.json says", mismatched),
        ]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}", abbreviated(&names)))
        .collect();
        if !wrong.is_empty() {
            let message = format!("{}; {ONE_MODEL}", wrong.join("; "));
            return Err(TrainerError::model(directory, message));
        }
        let used: BTreeSet<&str> = sources.iter().flatten().map(String::as_str).collect();
        let extra: Vec<&str> = weights
            .names()
            .filter(|name| !used.contains(name) && !is_buffer(name) && !weights.is_scale(name))
            .collect();
        let of_layers = extra.iter().copied().filter(|name| is_of_layer(name, &tensor_names));
        let unknown = quoted(of_layers);
        if !unknown.is_empty() {
            let message = format!(
                "has tensors of layers that its config.json does not describe: {}; {ONE_MODEL}",
                abbreviated(&unknown)
            );
            return Err(TrainerError::model(directory, message));
        }
        let mut findings = Vec::new();
        note_new_head(&new, &tensor_names, parameters, &mut findings);
        let replaced = |name: &&str| {
            parameters.iter().any(|parameter| {
                candidates(&parameter.name, tensor_names.prefix).iter().any(|own| own == name)
            })
        };
        let unused = quoted(extra.into_iter().filter(|name| !replaced(name)));
        if !unused.is_empty() {
            let message = format!(
                "the pretrained model has tensors that this task does not use: {}",
                abbreviated(&unused)
            );
            findings.push(Finding::note("unused_tensors", message));
        }
        Ok(Self { sources, findings })
    }
}

fn note_new_head(
    new: &[&Parameter],
    tensor_names: &TensorNames,
    parameters: &Parameters,
    findings: &mut Vec<Finding>,
) {
    if new.is_empty() {
        return;
    }
    let names = quoted(new.iter().map(|parameter| &*parameter.name));
    let of_labels = parameters.iter().filter(|parameter| parameter.part == ModelPart::Labels);
    let labels = of_labels.map(|parameter| parameter.shape[1]).max().unwrap_or(0);
    let why = if tensor_names.keeps_labels || tensor_names.labels.is_empty() {
        String::new()
    } else {
        format!(
            " (the pretrained model was trained for {} labels, {})",
            tensor_names.labels.len(),
            abbreviated(&tensor_names.labels)
        )
    };
    let names = abbreviated(&names);
    let of = if labels > 0 { format!(" for {labels} labels") } else { String::new() };
    let message = format!("a new head{of} is trained from scratch: {names}{why}");
    findings.push(Finding::note("new_head", message));
}

/// The names that a parameter's tensor may have.
fn candidates(name: &str, prefix: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    if let Some(bare) = name.strip_prefix(prefix).filter(|_| !prefix.is_empty()) {
        names.push(bare.to_owned());
    }
    // An output embedding that was tied, and is not here.
    if name == LM_HEAD {
        names.push("shared.weight".to_owned());
    }
    // TensorFlow's names, in BERT's first checkpoints.
    if let Some(norm) = name.strip_suffix("LayerNorm.weight") {
        names.push(format!("{norm}LayerNorm.gamma"));
    } else if let Some(norm) = name.strip_suffix("LayerNorm.bias") {
        names.push(format!("{norm}LayerNorm.beta"));
    }
    names
}

/// Whether a tensor is a buffer, computed from the shape.
fn is_buffer(name: &str) -> bool {
    [".position_ids", ".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq", ".token_type_ids"]
        .iter()
        .any(|end| name.ends_with(end))
        || name == "position_ids"
}

fn is_of_layer(name: &str, tensor_names: &TensorNames) -> bool {
    let bare = name.strip_prefix(tensor_names.prefix).unwrap_or(name);
    let rest = bare.strip_prefix(tensor_names.layers).and_then(|rest| rest.strip_prefix('.'));
    rest.and_then(|rest| rest.split('.').next()).is_some_and(|number| number.parse::<u32>().is_ok())
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(|name| format!("`{name}`")).collect()
}

/// The first few of `names`, and how many more there are.
fn abbreviated(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}
