//! The format of int8 weights: symmetric quantisation with a scale per channel.
//!
//! In `model.safetensors` a quantised tensor keeps its name and shape as I8, with its scales in
//! `<name>_scale`, F32, of shape `[rows, 1]` or `[1, columns]`; the weight is the product of the
//! two. Channels are the outputs of a linear layer and the entries of an embedding. Biases and
//! norms stay F32. `config.json` describes it under `quantization_config`, which also holds the
//! architecture: `model_type` is the method's name, which no other tool knows. transformers 5.23
//! refuses an unknown `model_type`, but only warns of an unknown method and would take the integers
//! for weights.

use burn::tensor::Tensor;
use safetensors::tensor::Dtype;
use serde_json::{Map, Value};

use super::TrainerError;
use super::parameters::Parameter;
use super::tensor_file::TensorEntry;

/// The largest integer: -128 is not used, so that the range is symmetric.
const MAX_LEVEL: f32 = 127.0;

/// The suffix of the names of scales.
pub(super) const SCALE_SUFFIX: &str = "_scale";

/// The key of `config.json`.
pub(super) const CONFIG_KEY: &str = "quantization_config";

/// Its `quant_method`.
pub(super) const METHOD: &str = "hpsearch-int8";

/// A `config.json` as before quantisation, since quantised weights are read as f32; other
/// quantisation methods are refused.
pub(super) fn without_quantization(
    mut config: Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let Some(mut quantization) =
        config.remove(CONFIG_KEY).filter(|quantization| !quantization.is_null())
    else {
        return Ok(config);
    };
    match quantization.get("quant_method").and_then(Value::as_str) {
        Some(METHOD) => {
            if let Some(model_type) = quantization.get_mut("model_type") {
                config.insert("model_type".to_owned(), model_type.take());
            }
            Ok(config)
        }
        method => Err(format!(
            "has weights quantised by `{}`, which is not supported: use the model from before \
             quantisation, or save the result of transformers' `model.dequantize()`",
            method.unwrap_or("an unknown method")
        )),
    }
}

/// The direction of a matrix's channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Rows,
    Columns,
}

/// The entries of a quantised matrix, in the layout of files: integers and scales.
pub(super) fn quantize_channels<'a>(
    parameter: &Parameter,
    value: &Tensor<2>,
    axis: Axis,
) -> Result<[TensorEntry<'a>; 2], TrainerError> {
    let shape = parameter.file_shape();
    let (rows, columns) = (shape[0], shape[1]);
    let channel =
        move |index: usize| if axis == Axis::Rows { index / columns } else { index % columns };
    let mut scales = vec![0.0_f32; if axis == Axis::Rows { rows } else { columns }];
    let mut index = 0;
    for piece in parameter.in_file(value) {
        for number in piece? {
            let scale = &mut scales[channel(index)];
            *scale = scale.max(number.abs());
            index += 1;
        }
    }
    scales.iter_mut().for_each(|scale| *scale /= MAX_LEVEL);
    let scale_shape = if axis == Axis::Rows { vec![rows, 1] } else { vec![1, columns] };
    let scale_bytes: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
    let mut index = 0;
    #[expect(clippy::cast_possible_truncation, reason = "rounded and within -127 to 127")]
    let mut quantized = move |number: f32| {
        let scale = scales[channel(index)];
        index += 1;
        // The scale of a channel of zeros is 0.
        let quantized = if scale > 0.0 {
            (number / scale).round().clamp(-MAX_LEVEL, MAX_LEVEL) as i8
        } else {
            0
        };
        quantized.cast_unsigned()
    };
    let chunks = parameter
        .in_file(value)
        .map(move |piece| Ok(piece?.into_iter().map(&mut quantized).collect()));
    let scales = TensorEntry {
        name: format!("{}{SCALE_SUFFIX}", parameter.name),
        dtype: Dtype::F32,
        shape: scale_shape,
        chunks: Box::new(std::iter::once(Ok(scale_bytes))),
    };
    Ok([
        TensorEntry {
            name: parameter.name.clone(),
            dtype: Dtype::I8,
            shape,
            chunks: Box::new(chunks),
        },
        scales,
    ])
}

/// The matrix that integers and scales represent; `None` where the scales have neither the shape of
/// a column nor of a row.
pub(super) fn dequantize(
    quantized: &[u8],
    shape: &[usize],
    scales: &[f32],
    scale_shape: &[usize],
) -> Option<Vec<f32>> {
    let [rows, columns] = *shape else { return None };
    let number = |byte: &u8| f32::from(byte.cast_signed());
    match *scale_shape {
        [count, 1] if count == rows && scales.len() == rows => Some(
            quantized
                .chunks_exact(columns)
                .zip(scales)
                .flat_map(|(row, scale)| row.iter().map(move |byte| number(byte) * scale))
                .collect(),
        ),
        [1, count] if count == columns && scales.len() == columns => Some(
            quantized
                .chunks_exact(columns)
                .flat_map(|row| row.iter().zip(scales).map(|(byte, scale)| number(byte) * scale))
                .collect(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameters::{Parameters, Role, tensor};
    use super::super::{device, tensor_file};
    use super::*;

    /// The integers and scales of a matrix that files hold as it is.
    fn entries_of(
        numbers: &[f32],
        shape: [usize; 2],
        axis: Axis,
    ) -> [(Dtype, String, Vec<usize>, Vec<u8>); 2] {
        let mut parameters = Parameters::new(None);
        parameters.add("w".to_owned(), shape, Role::Embedding);
        let value = tensor(numbers.to_vec(), shape, &device::open("cpu").unwrap());
        let entries = quantize_channels(parameters.iter().next().unwrap(), &value, axis).unwrap();
        entries.map(|entry| {
            (
                entry.dtype,
                entry.name,
                entry.shape,
                entry.chunks.map(Result::unwrap).collect::<Vec<_>>().concat(),
            )
        })
    }

    #[test]
    fn each_channel_is_within_half_a_step_of_its_own_scale() {
        let numbers: Vec<f32> = (0..12)
            .map(|index| ((index * 37 % 23) as f32 - 11.0) * 10f32.powi(index / 4 - 1))
            .collect();
        for axis in [Axis::Rows, Axis::Columns] {
            let [(kind, name, shape, quantized), (scale_kind, scale_name, scale_shape, scales)] =
                entries_of(&numbers, [3, 4], axis);
            assert_eq!(
                (kind, name.as_str(), &shape[..], quantized.len()),
                (Dtype::I8, "w", &[3, 4][..], 12)
            );
            assert_eq!((scale_kind, scale_name.as_str()), (Dtype::F32, "w_scale"));
            assert_eq!(scale_shape, if axis == Axis::Rows { [3, 1] } else { [1, 4] });
            let scales = tensor_file::f32_from_le_bytes(&scales);
            let read = dequantize(&quantized, &shape, &scales, &scale_shape).unwrap();
            for (index, (read, number)) in read.iter().zip(&numbers).enumerate() {
                let scale = scales[if axis == Axis::Rows { index / 4 } else { index % 4 }];
                assert!(
                    (read - number).abs() <= scale * 0.5001,
                    "{axis:?} {index}: {read} {number}"
                );
            }
        }
    }

    #[test]
    fn a_channel_of_zeros_stays_one_and_scales_of_another_shape_are_refused() {
        let [(_, _, shape, quantized), _] = entries_of(&[0.0, 0.0, 1.0, -2.0], [2, 2], Axis::Rows);
        assert_eq!(quantized[..2], [0, 0]);
        assert_eq!(quantized[2..], [64, 129]);
        assert_eq!(dequantize(&quantized, &shape, &[1.0, 1.0, 1.0], &[3, 1]), None);
    }
}
