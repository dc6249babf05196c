//! Weights of eight bits: each channel of a map or table as whole numbers from -127 to 127 and a scale.
//!
//! In `model.safetensors` a quantised tensor keeps its name and shape as I8; beside it lies `<name>_scale`, F32, of shape `[rows, 1]` or
//! `[1, columns]`, whichever the channels are, and the weight is the product of the two. Channels are the outputs of a map and the entries of a
//! table. Biases and norms stay F32. `config.json` says so under `quantization_config`, and the architecture with it: `model_type` is the
//! method's name, which no other tool knows. transformers 5.23 only warns of a method that it does not know, and takes whole numbers for
//! weights; a `model_type` that it does not know it refuses.

use std::fs;
use std::path::Path;

use burn::tensor::Tensor;
use safetensors::tensor::Dtype;
use serde_json::{Map, Value, json};

use super::checkpoint::ModelFiles;
use super::durable::{Draft, Existing};
use super::parameters::{Parameter, Role};
use super::pretrained::TOKENIZER_EXTRAS;
use super::tensor_file::{self, Entry};
use super::{TrainerError, device};

/// The greatest whole number: -128 is left out, so that the range is symmetric.
const MOST: f32 = 127.0;

/// What ends the name of a quantised tensor's scales.
pub(super) const SCALE: &str = "_scale";

/// The key of `config.json` that tells of quantised weights.
pub(super) const KEY: &str = "quantization_config";

/// What it says of the method.
const METHOD: &str = "hpsearch-int8";

/// A `config.json` without a word of quantised weights, which are read as single floats; weights quantised in another way are refused.
pub(super) fn plain(mut config: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let Some(mut about) = config.remove(KEY).filter(|about| !about.is_null()) else { return Ok(config) };
    match about.get("quant_method").and_then(Value::as_str) {
        Some(METHOD) => {
            if let Some(model_type) = about.get_mut("model_type") {
                config.insert("model_type".to_owned(), model_type.take());
            }
            Ok(config)
        }
        method => Err(format!(
            "has weights quantised by `{}`, which cannot be trained: take the model as it was before that, or save what transformers' `model.dequantize()` makes of it",
            method.unwrap_or("an unknown method")
        )),
    }
}

/// Writes the model in `checkpoint` with weights of eight bits to the new directory `target`, with its configuration and tokenizer; its bytes
/// before and after.
///
/// # Errors
/// A missing or damaged file, one that cannot be written.
pub fn quantize(checkpoint: &Path, target: &Path) -> Result<[u64; 2], TrainerError> {
    let files = ModelFiles::load(checkpoint, &device::open("cpu")?)?;
    let parameters = files.model.parameters();
    let plain = parameters.to_entries("", &files.values);
    let [mut before, mut after] = [0; 2];
    let mut entries = Vec::new();
    for ((parameter, value), plain) in parameters.iter().zip(&files.values.0).zip(plain) {
        before += bytes(&plain);
        let written = match parameter.role {
            Role::Weight | Role::Table => channels(parameter, value, Axis::Rows)?.into(),
            Role::Kernel { .. } => channels(parameter, value, Axis::Columns)?.into(),
            Role::Bias | Role::Scale | Role::Down | Role::Up => vec![plain],
        };
        after += written.iter().map(bytes).sum::<u64>();
        entries.extend(written);
    }
    let mut config = files.model.config();
    let model_type = std::mem::replace(&mut config["model_type"], METHOD.into());
    config[KEY] = json!({
        "quant_method": METHOD, "bits": 8, "symmetric": true, "granularity": "channel", "model_type": model_type,
        "layout": format!("weight = <name> (I8) * <name>{SCALE} (F32)"),
    });
    let draft = Draft::new(target)?;
    tensor_file::write(&draft, "model.safetensors", entries)?;
    draft.write("config.json", format!("{config:#}\n").as_bytes())?;
    draft.write("tokenizer.json", &files.tokenizer)?;
    for name in TOKENIZER_EXTRAS {
        let path = checkpoint.join(name);
        if path.is_file() {
            draft.write(name, &fs::read(&path).map_err(TrainerError::io("read", &path))?)?;
        }
    }
    draft.publish(Existing::Replace)?;
    Ok([before, after])
}

/// What an entry takes in a file.
fn bytes(entry: &Entry<'_>) -> u64 {
    (entry.shape.iter().product::<usize>() * entry.kind.bitsize() / 8) as u64
}

/// Which way a matrix's channels lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// A row is a channel.
    Rows,
    /// A column is.
    Columns,
}

/// A matrix as it lies in a file, by its whole numbers and its scales.
fn channels<'a>(parameter: &Parameter, value: &Tensor<2>, axis: Axis) -> Result<[Entry<'a>; 2], TrainerError> {
    let shape = parameter.file_shape();
    let (rows, columns) = (shape[0], shape[1]);
    let channel = move |place: usize| if axis == Axis::Rows { place / columns } else { place % columns };
    let mut scales = vec![0.0_f32; if axis == Axis::Rows { rows } else { columns }];
    let mut place = 0;
    for piece in parameter.in_file(value) {
        for number in piece? {
            let scale = &mut scales[channel(place)];
            *scale = scale.max(number.abs());
            place += 1;
        }
    }
    scales.iter_mut().for_each(|scale| *scale /= MOST);
    let scale_shape = if axis == Axis::Rows { vec![rows, 1] } else { vec![1, columns] };
    let scale_bytes: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
    let mut place = 0;
    #[expect(clippy::cast_possible_truncation, reason = "rounded and within -127 to 127")]
    let mut whole = move |number: f32| {
        let scale = scales[channel(place)];
        place += 1;
        // A channel of zeros has no scale to divide by.
        let whole = if scale > 0.0 { (number / scale).round().clamp(-MOST, MOST) as i8 } else { 0 };
        whole.cast_unsigned()
    };
    let pieces = parameter.in_file(value).map(move |piece| Ok(piece?.into_iter().map(&mut whole).collect()));
    let scales = Entry {
        name: format!("{}{SCALE}", parameter.name),
        kind: Dtype::F32,
        shape: scale_shape,
        pieces: Box::new(std::iter::once(Ok(scale_bytes))),
    };
    Ok([Entry { name: parameter.name.clone(), kind: Dtype::I8, shape, pieces: Box::new(pieces) }, scales])
}

/// The matrix that whole numbers and scales mean; `None` where the scales' shape is neither a column's nor a row's.
pub(super) fn product(whole: &[u8], shape: &[usize], scales: &[f32], scale_shape: &[usize]) -> Option<Vec<f32>> {
    let [rows, columns] = *shape else { return None };
    let number = |byte: &u8| f32::from(byte.cast_signed());
    match *scale_shape {
        [count, 1] if count == rows && scales.len() == rows => {
            Some(whole.chunks_exact(columns).zip(scales).flat_map(|(row, scale)| row.iter().map(move |byte| number(byte) * scale)).collect())
        }
        [1, count] if count == columns && scales.len() == columns => {
            Some(whole.chunks_exact(columns).flat_map(|row| row.iter().zip(scales).map(|(byte, scale)| number(byte) * scale)).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameters::{Parameters, tensor};
    use super::*;

    /// The whole numbers and the scales of a matrix that lies in files as it is.
    fn written(numbers: &[f32], shape: [usize; 2], axis: Axis) -> [(Dtype, String, Vec<usize>, Vec<u8>); 2] {
        let mut parameters = Parameters::new(None);
        parameters.add("w".to_owned(), shape, Role::Table);
        let value = tensor(numbers.to_vec(), shape, &device::open("cpu").unwrap());
        let entries = channels(parameters.iter().next().unwrap(), &value, axis).unwrap();
        entries.map(|entry| (entry.kind, entry.name, entry.shape, entry.pieces.map(Result::unwrap).collect::<Vec<_>>().concat()))
    }

    #[test]
    fn each_channel_is_within_half_a_step_of_its_own_scale() {
        let numbers: Vec<f32> = (0..12).map(|place| ((place * 37 % 23) as f32 - 11.0) * 10f32.powi(place / 4 - 1)).collect();
        for axis in [Axis::Rows, Axis::Columns] {
            let [(kind, name, shape, whole), (scale_kind, scale_name, scale_shape, scales)] = written(&numbers, [3, 4], axis);
            assert_eq!((kind, name.as_str(), &shape[..], whole.len()), (Dtype::I8, "w", &[3, 4][..], 12));
            assert_eq!((scale_kind, scale_name.as_str()), (Dtype::F32, "w_scale"));
            assert_eq!(scale_shape, if axis == Axis::Rows { [3, 1] } else { [1, 4] });
            let scales = tensor_file::singles(&scales);
            let read = product(&whole, &shape, &scales, &scale_shape).unwrap();
            for (place, (read, number)) in read.iter().zip(&numbers).enumerate() {
                let scale = scales[if axis == Axis::Rows { place / 4 } else { place % 4 }];
                assert!((read - number).abs() <= scale * 0.5001, "{axis:?} {place}: {read} {number}");
            }
        }
    }

    #[test]
    fn a_channel_of_zeros_stays_one_and_scales_of_another_shape_are_refused() {
        let [(_, _, shape, whole), _] = written(&[0.0, 0.0, 1.0, -2.0], [2, 2], Axis::Rows);
        assert_eq!(whole[..2], [0, 0]);
        assert_eq!(whole[2..], [64, 129]);
        assert_eq!(product(&whole, &shape, &[1.0, 1.0, 1.0], &[3, 1]), None);
    }
}
