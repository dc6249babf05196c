//! Cached outputs of frozen first layers for the training rows: computed once for all epochs, and
//! shared by trials of a pretrained model.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use memmap2::Mmap;

use super::atomic_directory::{AtomicDirectory, IfExists};
use super::floats::real;
use super::layers::{ForwardContext, HiddenStates};
use super::parameters::{Depth, Values, host as numbers_of, tensor};
use super::task::{MicroBatch, Model};
use super::tensor_file::f32_from_le_bytes;
use super::{Host, PreparedData, Split, TrainerError, mapped_file};
use hpsearch_core::study::counted::count;

/// Most bytes cached for a model and its data. Beyond them, first layers are computed in every
/// step, with the same result up to rounding.
const MAX_BYTES: usize = 1 << 30;

/// Most bytes on disk for the prepared data, of all models and depths.
const MAX_BYTES_ON_DISK: u64 = 4 << 30;

/// Rows of a batch: always the same ones, so that the result does not depend on where a run was
/// interrupted.
const BATCH_ROWS: usize = 64;

/// Values per write.
const CHUNK: usize = 1 << 18;

const FILE: &str = "rows.f32";

/// The hidden states of all tokens of the training rows after the frozen layers.
pub(super) struct FrozenFeatures {
    width: usize,
    /// The first token of each row, and the end.
    offsets: Vec<usize>,
    storage: Storage,
}

enum Storage {
    Memory(Vec<f32>),
    Mapped(Mmap),
}

/// Computes and caches features.
pub(super) struct FeatureExtractor<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) values: &'a Values,
    pub(super) data: &'a PreparedData,
    pub(super) device: &'a Device,
    /// Number of frozen layers.
    pub(super) layers: usize,
    /// Whether other trials on the same data have the same first layers.
    pub(super) shared: bool,
}

impl FeatureExtractor<'_> {
    /// The features, from disk if they exist; `None` if they are too large, or the runner requests
    /// a stop meanwhile.
    pub(super) fn extract(
        &self,
        host: &mut dyn Host,
    ) -> Result<Option<FrozenFeatures>, TrainerError> {
        let (is_fixed, are_apart) =
            (self.model.examples_are_fixed(), self.model.examples_are_apart());
        if self.layers == 0 || !is_fixed || !are_apart {
            return Ok(None);
        }
        let rows = self.model.examples(self.data, Split::Train);
        let mut offsets = vec![0];
        offsets.extend((0..rows).scan(0, |end, row| {
            *end += self.model.length(self.data, row);
            Some(*end)
        }));
        let width = self.compute(&[0])?.dims()[1];
        let bytes = 4 * offsets[rows] * width;
        let size = real(bytes) / f64::from(1 << 20);
        if bytes > MAX_BYTES {
            host.log(&format!(
                "the outputs of {} take {size:.0} MiB, too much to cache: they are computed in \
                 every step",
                count(self.layers as u64, "frozen layer")
            ));
            return Ok(None);
        }
        let directory = self.directory()?;
        if self.shared
            && let Some(storage) = mapped(&directory.join(FILE), bytes)
        {
            return Ok(Some(FrozenFeatures { width, offsets, storage }));
        }
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by_key(|row| self.model.length(self.data, *row));
        let mut numbers = vec![0.0; bytes / 4];
        for chosen in order.chunks(BATCH_ROWS) {
            if host.stop_requested() {
                return Ok(None);
            }
            let found = numbers_of(self.compute(chosen)?)?;
            let mut found = &found[..];
            for row in chosen {
                let (own, rest) = found.split_at((offsets[row + 1] - offsets[*row]) * width);
                numbers[offsets[*row] * width..offsets[row + 1] * width].copy_from_slice(own);
                found = rest;
            }
        }
        let layers = count(self.layers as u64, "frozen layer");
        host.log(&format!("the outputs of {layers} are cached: {size:.1} MiB"));
        if !self.shared {
            return Ok(Some(FrozenFeatures { width, offsets, storage: Storage::Memory(numbers) }));
        }
        let stored = self.store(&directory, &numbers);
        if let Err(error) = &stored {
            host.log(&format!(
                "they stay in memory and cannot be shared with other trials: {error}"
            ));
        }
        let mapped = stored.ok().and_then(|()| mapped(&directory.join(FILE), bytes));
        let storage = mapped.unwrap_or(Storage::Memory(numbers));
        Ok(Some(FrozenFeatures { width, offsets, storage }))
    }

    /// The outputs of the frozen layers for some rows.
    fn compute(&self, chosen: &[usize]) -> Result<HiddenStates, TrainerError> {
        let input = self.model.input(&MicroBatch::whole_step(self.model, self.data, chosen));
        let context = ForwardContext::evaluation(self.values, self.device);
        let x = self.model.embed(&context, &input);
        Ok((0..self.layers).fold(x, |x, number| self.model.layer(&context, number, x, &input)))
    }

    /// Their directory, named after everything that they depend on besides the data.
    fn directory(&self) -> Result<PathBuf, TrainerError> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.model.config().to_string().as_bytes());
        hasher.update(&(self.layers as u64).to_le_bytes());
        let all = self.model.parameters().iter().zip(&self.values.0);
        for (parameter, value) in all.filter(|(one, _)| one.depth < Depth::Layer(self.layers)) {
            hasher.update(parameter.name.as_bytes());
            numbers_of(value.clone())?.iter().for_each(|number| {
                hasher.update(&number.to_le_bytes());
            });
        }
        Ok(self.data.directory().join(format!("features-{}", &hasher.finalize().to_hex()[..16])))
    }

    fn store(&self, directory: &Path, numbers: &[f32]) -> Result<(), TrainerError> {
        let entries = fs::read_dir(self.data.directory()).into_iter().flatten().flatten();
        let others = entries.map(|entry| entry.path().join(FILE));
        let taken: u64 = others.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        if taken + 4 * numbers.len() as u64 > MAX_BYTES_ON_DISK {
            let message = format!("{taken} bytes of other features are on the disk already");
            return Err(TrainerError::arguments(message));
        }
        let staged = AtomicDirectory::new(directory)?;
        staged.write_chunks(
            FILE,
            numbers.chunks(CHUNK).map(|chunk| {
                Ok(chunk.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())
            }),
        )?;
        // An existing file is damaged, or was just written by another process with the same
        // content.
        staged.publish(IfExists::Replace)
    }
}

/// The file, if it exists with the expected size.
fn mapped(path: &Path, bytes: usize) -> Option<Storage> {
    let map = mapped_file::map(path).ok()?;
    (map.len() == bytes).then_some(Storage::Mapped(map))
}

impl FrozenFeatures {
    /// The hidden states of some rows, `[tokens, width]`.
    pub(super) fn of(&self, chosen: &[usize], device: &Device) -> HiddenStates {
        let mut numbers = Vec::new();
        for row in chosen {
            let range = self.offsets[*row] * self.width..self.offsets[row + 1] * self.width;
            match &self.storage {
                Storage::Memory(values) => numbers.extend_from_slice(&values[range]),
                Storage::Mapped(map) => {
                    numbers.extend(f32_from_le_bytes(&map[4 * range.start..4 * range.end]))
                }
            }
        }
        let tokens = numbers.len() / self.width.max(1);
        tensor(numbers, [tokens, self.width], device)
    }
}
