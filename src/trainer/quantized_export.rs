//! Export of a model with int8 weights, in the format of [`quantization`](super::quantization).

use std::fs;
use std::path::Path;

use serde_json::json;

use super::atomic_directory::{AtomicDirectory, IfExists};
use super::checkpoint::SavedModel;
use super::parameters::Role;
use super::quantization::{Axis, CONFIG_KEY, METHOD, SCALE_SUFFIX, quantize_channels};
use super::tensor_file::{self, TensorEntry};
use super::vocabulary_files::extras_in;
use super::{TrainerError, device};

/// Writes the model in `checkpoint` with int8 weights to the new directory `target`, with its
/// configuration and tokenizer; returns the bytes of its tensors before and after.
///
/// # Errors
/// A missing or damaged file, one that cannot be written.
pub fn quantize(checkpoint: &Path, target: &Path) -> Result<[u64; 2], TrainerError> {
    let files = SavedModel::load(checkpoint, &device::open("cpu")?)?;
    let parameters = files.model.parameters();
    let originals = parameters.to_entries("", &files.values);
    let [mut before, mut after] = [0; 2];
    let mut entries = Vec::new();
    for ((parameter, value), original) in parameters.iter().zip(&files.values.0).zip(originals) {
        before += bytes(&original);
        let written = match parameter.role {
            Role::Linear | Role::ScaledLinear { .. } | Role::Embedding => {
                quantize_channels(parameter, value, Axis::Rows)?.into()
            }
            Role::Conv1d { .. } => quantize_channels(parameter, value, Axis::Columns)?.into(),
            Role::Bias
            | Role::NormScale
            | Role::ScoreBias
            | Role::Buffer
            | Role::LoraA
            | Role::LoraB => vec![original],
        };
        after += written.iter().map(bytes).sum::<u64>();
        entries.extend(written);
    }
    let mut config = files.model.config();
    let model_type = std::mem::replace(&mut config["model_type"], METHOD.into());
    config[CONFIG_KEY] = json!({
        "quant_method": METHOD, "bits": 8, "symmetric": true, "granularity": "channel",
        "model_type": model_type,
        "layout": format!("weight = <name> (I8) * <name>{SCALE_SUFFIX} (F32)"),
    });
    let staged = AtomicDirectory::new(target)?;
    tensor_file::write(&staged, "model.safetensors", entries)?;
    staged.write("config.json", format!("{config:#}\n").as_bytes())?;
    staged.write("tokenizer.json", &files.tokenizer)?;
    for name in extras_in(checkpoint) {
        let path = checkpoint.join(name);
        staged.write(name, &fs::read(&path).map_err(TrainerError::io("read", &path))?)?;
    }
    staged.publish(IfExists::Replace)?;
    Ok([before, after])
}

/// The bytes of an entry in a file.
fn bytes(entry: &TensorEntry<'_>) -> u64 {
    (entry.shape.iter().product::<usize>() * entry.dtype.bitsize() / 8) as u64
}
