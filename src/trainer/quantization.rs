//! Weights of eight bits: each channel of a map or table as whole numbers from -127 to 127 and a scale.
//!
//! In `model.safetensors` a quantised tensor keeps its name and shape as I8; beside it lies `<name>_scale`, F32, of shape `[rows, 1]` or
//! `[1, columns]`, whichever the channels are, and the weight is the product of the two. Channels are the outputs of a map and the entries of a
//! table. Biases and norms stay F32. `config.json` says so under `quantization_config`, whose method no other tool knows: one that cannot read
//! this refuses it instead of taking whole numbers for weights.

use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

use super::checkpoint::ModelFiles;
use super::durable::{Draft, Existing};
use super::parameters::{Entry, Role};
use super::pretrained::TOKENIZER_EXTRAS;
use super::{TrainerError, device};

/// The greatest whole number: -128 is left out, so that the range is symmetric.
const MOST: f32 = 127.0;

/// What ends the name of a quantised tensor's scales.
pub(super) const SCALE: &str = "_scale";

/// The key of `config.json` that tells of quantised weights.
pub(super) const KEY: &str = "quantization_config";

/// Writes the model in `checkpoint` with weights of eight bits to the new directory `target`, with its configuration and tokenizer; its bytes
/// before and after.
///
/// # Errors
/// A missing or damaged file, one that cannot be written.
pub fn quantize(checkpoint: &Path, target: &Path) -> Result<[u64; 2], TrainerError> {
    let files = ModelFiles::load(checkpoint, &device::open("cpu")?)?;
    let parameters = files.model.parameters();
    let entries = parameters.to_entries("", &files.values)?;
    let before: usize = entries.iter().map(|(_, _, bytes)| bytes.len()).sum();
    let mut tensors: Vec<(Dtype, Entry)> = Vec::new();
    for (parameter, entry) in parameters.iter().zip(entries) {
        match parameter.role {
            Role::Weight | Role::Table => tensors.extend(channels(entry, Axis::Rows)),
            Role::Kernel { .. } => tensors.extend(channels(entry, Axis::Columns)),
            Role::Bias | Role::Scale | Role::Down | Role::Up => tensors.push((Dtype::F32, entry)),
        }
    }
    let after: usize = tensors.iter().map(|(_, (_, _, bytes))| bytes.len()).sum();
    let wrong = |error| TrainerError::checkpoint(checkpoint, format!("cannot be quantised: {error}"));
    let views = tensors.iter().map(|(dtype, (name, shape, bytes))| Ok((name.as_str(), TensorView::new(*dtype, shape.clone(), bytes)?)));
    let views = views.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let weights = safetensors::serialize(views, Some([("format".to_owned(), "pt".to_owned())].into())).map_err(wrong)?;
    let mut config = files.model.config();
    config[KEY] = json!({
        "quant_method": "hpsearch-int8", "bits": 8, "symmetric": true, "granularity": "channel",
        "layout": format!("weight = <name> (I8) * <name>{SCALE} (F32)"),
    });
    let draft = Draft::new(target)?;
    draft.write("model.safetensors", &weights)?;
    draft.write("config.json", format!("{config:#}\n").as_bytes())?;
    draft.write("tokenizer.json", &files.tokenizer)?;
    for name in TOKENIZER_EXTRAS {
        let path = checkpoint.join(name);
        if path.is_file() {
            draft.write(name, &fs::read(&path).map_err(TrainerError::io("read", &path))?)?;
        }
    }
    draft.publish(Existing::Replace)?;
    Ok([before, after].map(|bytes| bytes as u64))
}

/// Which way a matrix's channels lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// A row is a channel.
    Rows,
    /// A column is.
    Columns,
}

/// A matrix of single floats as its whole numbers and its scales.
fn channels((name, shape, bytes): Entry, axis: Axis) -> [(Dtype, Entry); 2] {
    let numbers: Vec<f32> = bytes.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    let (rows, columns) = (shape[0], shape[1]);
    let channel = |place: usize| if axis == Axis::Rows { place / columns } else { place % columns };
    let count = if axis == Axis::Rows { rows } else { columns };
    let mut scales = vec![0.0_f32; count];
    for (place, number) in numbers.iter().enumerate() {
        let scale = &mut scales[channel(place)];
        *scale = scale.max(number.abs());
    }
    scales.iter_mut().for_each(|scale| *scale /= MOST);
    #[expect(clippy::cast_possible_truncation, reason = "rounded and within -127 to 127")]
    let whole = |(place, number): (usize, &f32)| {
        let scale = scales[channel(place)];
        // A channel of zeros has no scale to divide by.
        if scale > 0.0 { (number / scale).round().clamp(-MOST, MOST) as i8 } else { 0 }
    };
    let bytes = numbers.iter().enumerate().map(whole).map(i8::cast_unsigned).collect();
    let scale_shape = if axis == Axis::Rows { vec![rows, 1] } else { vec![1, columns] };
    let scale_bytes = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
    let scale_name = format!("{name}{SCALE}");
    [(Dtype::I8, (name, shape, bytes)), (Dtype::F32, (scale_name, scale_shape, scale_bytes))]
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

/// Takes the word of eight bits out of a configuration whose weights are read as single floats.
pub(super) fn forget(config: &mut serde_json::Map<String, Value>) {
    config.remove(KEY);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(numbers: &[f32], shape: [usize; 2]) -> Entry {
        ("w".to_owned(), shape.to_vec(), numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    #[test]
    fn each_channel_is_within_half_a_step_of_its_own_scale() {
        let numbers: Vec<f32> = (0..12).map(|place| ((place * 37 % 23) as f32 - 11.0) * 10f32.powi(place / 4 - 1)).collect();
        for axis in [Axis::Rows, Axis::Columns] {
            let [(kind, (name, shape, whole)), (scale_kind, (scale_name, scale_shape, scales))] = channels(entry(&numbers, [3, 4]), axis);
            assert_eq!((kind, name.as_str(), &shape[..], whole.len()), (Dtype::I8, "w", &[3, 4][..], 12));
            assert_eq!((scale_kind, scale_name.as_str()), (Dtype::F32, "w_scale"));
            assert_eq!(scale_shape, if axis == Axis::Rows { [3, 1] } else { [1, 4] });
            let scales: Vec<f32> = scales.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect();
            let read = product(&whole, &shape, &scales, &scale_shape).unwrap();
            for (place, (read, number)) in read.iter().zip(&numbers).enumerate() {
                let scale = scales[if axis == Axis::Rows { place / 4 } else { place % 4 }];
                assert!((read - number).abs() <= scale * 0.5001, "{axis:?} {place}: {read} {number}");
            }
        }
    }

    #[test]
    fn a_channel_of_zeros_stays_one_and_scales_of_another_shape_are_refused() {
        let [(_, (_, shape, whole)), _] = channels(entry(&[0.0, 0.0, 1.0, -2.0], [2, 2]), Axis::Rows);
        assert_eq!(whole[..2], [0, 0]);
        assert_eq!(whole[2..], [64, 129]);
        assert_eq!(product(&whole, &shape, &[1.0, 1.0, 1.0], &[3, 1]), None);
    }
}
