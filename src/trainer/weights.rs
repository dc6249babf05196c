//! The weights of a model directory: one safetensors file, or several with an index.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{bf16, f16};
use safetensors::tensor::Dtype;
use serde::Deserialize;

use super::TrainerError;
use super::quantization::{self, SCALE_SUFFIX};
use super::tensor_file::{StoredTensor, TensorFile, f32_from_le_bytes};

pub(super) const SINGLE: &str = "model.safetensors";
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// Tensors by name in memory-mapped files, validated when opened and read on demand.
pub(super) struct Weights {
    directory: PathBuf,
    files: Vec<TensorFile>,
    /// The file of each tensor.
    file_of: BTreeMap<String, usize>,
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
pub(super) struct WeightIndex {
    pub(super) weight_map: BTreeMap<String, String>,
}

impl Weights {
    /// Opens `model.safetensors`, or the files that its index names.
    pub(super) fn open(directory: &Path) -> Result<Self, TrainerError> {
        let mut weights =
            Self { directory: directory.to_owned(), files: Vec::new(), file_of: BTreeMap::new() };
        if directory.join(SINGLE).is_file() {
            weights.map(SINGLE)?;
            return Ok(weights);
        }
        let path = directory.join(INDEX);
        if !path.is_file() {
            let other = ["pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"]
                .into_iter()
                .find(|name| directory.join(name).exists());
            let seen = other.map(|name| {
                format!(
                    "; its `{name}` must be converted: \
                `AutoModel.from_pretrained(..).save_pretrained(..)` does it"
                )
            });
            return Err(weights.problem(&format!(
                "has neither `{SINGLE}` nor `{INDEX}`{}",
                seen.unwrap_or_default()
            )));
        }
        let text = fs::read(&path).map_err(TrainerError::io("read", &path))?;
        let index: WeightIndex = serde_json::from_slice(&text)
            .map_err(|error| weights.problem(&format!("`{INDEX}` cannot be parsed: {error}")))?;
        let files: BTreeSet<&String> = index.weight_map.values().collect();
        for name in &files {
            // A name from a file must not lead out of the directory.
            if name.contains(['/', '\\']) || !directory.join(name).is_file() {
                return Err(weights
                    .problem(&format!("`{INDEX}` names the file `{name}`, which does not exist")));
            }
            weights.map(name)?;
        }
        match index.weight_map.iter().find(|(tensor, _)| !weights.file_of.contains_key(*tensor)) {
            Some((tensor, file)) => Err(weights.problem(&format!(
                "`{INDEX}` says that `{file}` has the tensor `{tensor}`, but it does not"
            ))),
            None => Ok(weights),
        }
    }

    /// Maps one file and indexes its tensors.
    fn map(&mut self, name: &str) -> Result<(), TrainerError> {
        let file = TensorFile::open(&self.directory.join(name))
            .map_err(|problem| self.problem(&format!("`{name}` {problem}")))?;
        for tensor in file.names() {
            if self.file_of.insert(tensor.to_owned(), self.files.len()).is_some() {
                return Err(self.problem(&format!(
                    "has the tensor `{tensor}` twice, one of them in `{name}`"
                )));
            }
        }
        self.files.push(file);
        Ok(())
    }

    /// A tensor and its file.
    fn find(&self, name: &str) -> Option<(&TensorFile, &StoredTensor)> {
        let file = &self.files[*self.file_of.get(name)?];
        Some((file, file.get(name)?))
    }

    /// The names of all tensors, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.file_of.keys().map(String::as_str)
    }

    /// The shape of a tensor, if it is there.
    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.find(name).map(|(_, stored)| &*stored.shape)
    }

    /// Checks that a tensor exists with a supported dtype; the error names what there is.
    pub(super) fn readable(&self, name: &str) -> Result<(), String> {
        match self.find(name).map(|(_, stored)| stored.dtype) {
            Some(Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64) => Ok(()),
            Some(Dtype::I8) if self.scales(name).is_some() => Ok(()),
            Some(other) => Err(format!("{other:?}")),
            None => Err("nothing".to_owned()),
        }
    }

    /// A tensor's values as f32, in row-major order.
    pub(super) fn values(&self, name: &str) -> Option<Vec<f32>> {
        let (file, stored) = self.find(name)?;
        let bytes = file.bytes(stored);
        let halves = || bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        match stored.dtype {
            Dtype::F32 => Some(f32_from_le_bytes(bytes)),
            Dtype::BF16 => Some(halves().map(|bits| bf16::from_bits(bits).to_f32()).collect()),
            Dtype::F16 => Some(halves().map(|bits| f16::from_bits(bits).to_f32()).collect()),
            #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
            Dtype::F64 => Some(
                bytes
                    .chunks_exact(8)
                    .filter_map(|word| Some(f64::from_le_bytes(word.try_into().ok()?) as f32))
                    .collect(),
            ),
            Dtype::I8 => {
                let (scales, shape) = self.scales(name)?;
                quantization::dequantize(bytes, &stored.shape, &self.values(&scales)?, shape)
            }
            _ => None,
        }
    }

    /// The scales of an int8 tensor: their name and shape.
    fn scales(&self, name: &str) -> Option<(String, &[usize])> {
        let [rows, columns] = *self.shape(name)? else { return None };
        let scales = format!("{name}{SCALE_SUFFIX}");
        let (_, stored) = self.find(&scales).filter(|(_, stored)| stored.dtype == Dtype::F32)?;
        [[rows, 1], [1, columns]]
            .iter()
            .any(|shape| stored.shape == shape)
            .then_some((scales, &*stored.shape))
    }

    /// Whether a tensor has the scales of another one.
    pub(super) fn is_scale(&self, name: &str) -> bool {
        name.strip_suffix(SCALE_SUFFIX)
            .is_some_and(|of| self.find(of).is_some_and(|(_, stored)| stored.dtype == Dtype::I8))
    }

    fn problem(&self, what: &str) -> TrainerError {
        TrainerError::model(&self.directory, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fp16_is_ieee_754s_binary16() {
        // Python: struct.unpack("<e", ...).
        for (bits, number) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (0x0001, 5.960_464_5e-8),
            (0x8000, -0.0),
            (0x3555, 0.333_251_95),
        ] {
            assert_eq!(f16::from_bits(bits).to_f32().to_bits(), f32::to_bits(number), "{bits:x}");
        }
        assert!(
            f16::from_bits(0x7e00).to_f32().is_nan()
                && f16::from_bits(0xfc00).to_f32() == f32::NEG_INFINITY
        );
    }
}
