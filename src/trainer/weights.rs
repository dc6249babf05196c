//! Weights in a directory, in one safetensors file or in several with an index: every size is held against its file before memory is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::Dtype;
use serde::Deserialize;

use super::TrainerError;
use super::quantization::{self, SCALE};
use super::tensor_file::{Stored, TensorFile, singles};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Tensors by name, in files that are mapped and not read before they are asked for.
pub(super) struct Weights {
    directory: PathBuf,
    files: Vec<TensorFile>,
    /// In which file each tensor lies.
    places: BTreeMap<String, usize>,
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Weights {
    /// Opens `model.safetensors`, or the files that its index names.
    pub(super) fn open(directory: &Path) -> Result<Self, TrainerError> {
        let mut weights = Self { directory: directory.to_owned(), files: Vec::new(), places: BTreeMap::new() };
        if directory.join(SINGLE).is_file() {
            weights.map(SINGLE)?;
            return Ok(weights);
        }
        let path = directory.join(INDEX);
        if !path.is_file() {
            let other = ["pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"].into_iter().find(|name| directory.join(name).exists());
            let seen = other.map(|name| format!("; its `{name}` must be converted: `AutoModel.from_pretrained(..).save_pretrained(..)` does it"));
            return Err(weights.problem(&format!("has neither `{SINGLE}` nor `{INDEX}`{}", seen.unwrap_or_default())));
        }
        let text = fs::read(&path).map_err(TrainerError::io("read", &path))?;
        let index: Index = serde_json::from_slice(&text).map_err(|error| weights.problem(&format!("`{INDEX}` cannot be understood: {error}")))?;
        let files: BTreeSet<&String> = index.weight_map.values().collect();
        for name in &files {
            // A name from a file may point anywhere; a model's files lie side by side.
            if name.contains(['/', '\\']) || !directory.join(name).is_file() {
                return Err(weights.problem(&format!("`{INDEX}` names the file `{name}`, which is not there")));
            }
            weights.map(name)?;
        }
        match index.weight_map.iter().find(|(tensor, _)| !weights.places.contains_key(*tensor)) {
            Some((tensor, file)) => Err(weights.problem(&format!("`{INDEX}` says that `{file}` has the tensor `{tensor}`, and it has not"))),
            None => Ok(weights),
        }
    }

    /// Maps one file and notes its tensors.
    fn map(&mut self, name: &str) -> Result<(), TrainerError> {
        let file = TensorFile::open(&self.directory.join(name)).map_err(|problem| self.problem(&format!("`{name}` {problem}")))?;
        for tensor in file.names() {
            if self.places.insert(tensor.to_owned(), self.files.len()).is_some() {
                return Err(self.problem(&format!("has the tensor `{tensor}` twice, once of them in `{name}`")));
            }
        }
        self.files.push(file);
        Ok(())
    }

    /// A tensor with the file that it lies in.
    fn find(&self, name: &str) -> Option<(&TensorFile, &Stored)> {
        let file = &self.files[*self.places.get(name)?];
        Some((file, file.get(name)?))
    }

    /// The names of all tensors, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// The shape of a tensor, if it is there.
    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.find(name).map(|(_, stored)| &*stored.shape)
    }

    /// Whether a tensor's numbers are of a kind that can be read.
    pub(super) fn readable(&self, name: &str) -> Result<(), String> {
        match self.find(name).map(|(_, stored)| stored.kind) {
            Some(Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64) => Ok(()),
            Some(Dtype::I8) if self.scales(name).is_some() => Ok(()),
            Some(other) => Err(format!("{other:?}")),
            None => Err("nothing".to_owned()),
        }
    }

    /// A tensor's numbers as single floats, in row-major order.
    pub(super) fn numbers(&self, name: &str) -> Option<Vec<f32>> {
        let (file, stored) = self.find(name)?;
        let bytes = file.bytes(stored);
        let pairs = || bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        match stored.kind {
            Dtype::F32 => Some(singles(bytes)),
            // The upper half of a single float.
            Dtype::BF16 => Some(pairs().map(|bits| f32::from_bits(u32::from(bits) << 16)).collect()),
            Dtype::F16 => Some(pairs().map(half).collect()),
            #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
            Dtype::F64 => Some(bytes.chunks_exact(8).filter_map(|word| Some(f64::from_le_bytes(word.try_into().ok()?) as f32)).collect()),
            Dtype::I8 => {
                let (scales, shape) = self.scales(name)?;
                quantization::product(bytes, &stored.shape, &self.numbers(&scales)?, shape)
            }
            _ => None,
        }
    }

    /// The name and the shape of the scales of a tensor of eight bits.
    fn scales(&self, name: &str) -> Option<(String, &[usize])> {
        let [rows, columns] = *self.shape(name)? else { return None };
        let scales = format!("{name}{SCALE}");
        let (_, stored) = self.find(&scales).filter(|(_, stored)| stored.kind == Dtype::F32)?;
        [[rows, 1], [1, columns]].iter().any(|shape| stored.shape == shape).then_some((scales, &*stored.shape))
    }

    /// Whether a tensor holds the scales of another.
    pub(super) fn is_scale(&self, name: &str) -> bool {
        name.strip_suffix(SCALE).is_some_and(|of| self.find(of).is_some_and(|(_, stored)| stored.kind == Dtype::I8))
    }

    fn problem(&self, what: &str) -> TrainerError {
        TrainerError::model(&self.directory, what)
    }
}

/// A half-precision float (IEEE 754 binary16) by its bits.
fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (u32::from(bits >> 15) << 31, u32::from(bits >> 10) & 0x1f, u32::from(bits) & 0x3ff);
    match exponent {
        // Subnormal: so many times 2^-24, which is exact.
        0 => {
            #[expect(clippy::cast_precision_loss, reason = "ten bits")]
            let size = fraction as f32 / 16_777_216.0;
            if sign == 0 { size } else { -size }
        }
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_floats_are_ieee_754s() {
        // Of Python: struct.unpack("<e", ...).
        for (bits, number) in [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65_504.0), (0x0001, 5.960_464_5e-8), (0x8000, -0.0), (0x3555, 0.333_251_95)] {
            assert_eq!(half(bits).to_bits(), f32::to_bits(number), "{bits:x}");
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f32::NEG_INFINITY);
    }
}
