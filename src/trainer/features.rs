//! What frozen first layers make of each training row: computed once, and shared by epochs and, where the model is a pretrained one, by trials.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use memmap2::Mmap;

use super::durable::{Draft, Existing};
use super::layers::{Pass, Rows};
use super::parameters::{Depth, Values, host as numbers_of, tensor};
use super::task::{Model, Part};
use super::{Host, PreparedData, Split, TrainerError};

/// Most bytes that are kept of a model and its data. Beyond them first layers are computed in every step, with the same result but for
/// rounding.
const MOST: usize = 1 << 30;

/// Most bytes on the disk beside prepared data, of all models and depths together.
const MOST_ON_DISK: u64 = 4 << 30;

/// Rows that are computed together: always the same ones, so that their numbers do not depend on where a run was interrupted.
const TOGETHER: usize = 64;

/// Numbers that are written at once.
const PIECE: usize = 1 << 18;

const FILE: &str = "rows.f32";

/// The vectors of all tokens of the training rows after some layers.
pub(super) struct Features {
    width: usize,
    /// Where each row's tokens begin, and the end.
    starts: Vec<usize>,
    numbers: Numbers,
}

enum Numbers {
    Memory(Vec<f32>),
    Mapped(Mmap),
}

/// What features are made with.
pub(super) struct Maker<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) values: &'a Values,
    pub(super) data: &'a PreparedData,
    pub(super) device: &'a Device,
    /// How many layers are frozen.
    pub(super) layers: usize,
    /// Whether other trials of the same data have the same first layers.
    pub(super) shared: bool,
}

impl Maker<'_> {
    /// The features, from the disk where they are there; `None` where they are too many, or the runner wants the run to leave meanwhile.
    pub(super) fn features(&self, host: &mut dyn Host) -> Result<Option<Features>, TrainerError> {
        if self.layers == 0 || !self.model.repeats() {
            return Ok(None);
        }
        let rows = self.model.examples(self.data, Split::Train);
        let mut starts = vec![0];
        starts.extend((0..rows).scan(0, |end, row| {
            *end += self.model.length(self.data, row);
            Some(*end)
        }));
        let width = self.layer(&[0])?.dims()[1];
        let bytes = 4 * starts[rows] * width;
        #[expect(clippy::cast_precision_loss, reason = "a size to show")]
        let size = bytes as f64 / f64::from(1 << 20);
        if bytes > MOST {
            host.log(&format!(
                "what {} frozen layers make of the rows takes {size:.0} MiB, more than is kept: it is computed in every step",
                self.layers
            ));
            return Ok(None);
        }
        let directory = self.directory()?;
        if self.shared
            && let Some(numbers) = mapped(&directory.join(FILE), bytes)
        {
            return Ok(Some(Features { width, starts, numbers }));
        }
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by_key(|row| self.model.length(self.data, *row));
        let mut numbers = vec![0.0; bytes / 4];
        for chosen in order.chunks(TOGETHER) {
            if host.stop_requested() {
                return Ok(None);
            }
            let found = numbers_of(self.layer(chosen)?)?;
            let mut found = &found[..];
            for row in chosen {
                let (own, rest) = found.split_at((starts[row + 1] - starts[*row]) * width);
                numbers[starts[*row] * width..starts[row + 1] * width].copy_from_slice(own);
                found = rest;
            }
        }
        host.log(&format!("what {} frozen layers make of the rows is computed once and kept: {size:.1} MiB", self.layers));
        if !self.shared {
            return Ok(Some(Features { width, starts, numbers: Numbers::Memory(numbers) }));
        }
        let kept = self.store(&directory, &numbers);
        if let Err(error) = &kept {
            host.log(&format!("it stays in memory, for it cannot be kept for other trials: {error}"));
        }
        let kept = kept.ok().and_then(|()| mapped(&directory.join(FILE), bytes));
        Ok(Some(Features { width, starts, numbers: kept.unwrap_or(Numbers::Memory(numbers)) }))
    }

    /// What the frozen layers make of some rows.
    fn layer(&self, chosen: &[usize]) -> Result<Rows, TrainerError> {
        let part = Part { data: self.data, chosen, step_examples: chosen.len(), weights: None, seed: 0, epoch: 0, smoothing: 0.0 };
        let (reading, pass) = (self.model.reading(&part), Pass::inference(self.values, self.device));
        let x = self.model.begin(&pass, &reading);
        Ok((0..self.layers).fold(x, |x, number| self.model.layer(&pass, number, x, &reading)))
    }

    /// Where they lie on the disk: named after everything they depend on beside the data.
    fn directory(&self) -> Result<PathBuf, TrainerError> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.model.config().to_string().as_bytes());
        hasher.update(&(self.layers as u64).to_le_bytes());
        for (parameter, value) in self.model.parameters().iter().zip(&self.values.0).filter(|(one, _)| one.depth < Depth::Layer(self.layers)) {
            hasher.update(parameter.name.as_bytes());
            numbers_of(value.clone())?.iter().for_each(|number| {
                hasher.update(&number.to_le_bytes());
            });
        }
        Ok(self.data.directory().join(format!("features-{}", &hasher.finalize().to_hex()[..16])))
    }

    fn store(&self, directory: &Path, numbers: &[f32]) -> Result<(), TrainerError> {
        let others = fs::read_dir(self.data.directory()).into_iter().flatten().flatten().map(|entry| entry.path().join(FILE));
        let taken: u64 = others.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        if taken + 4 * numbers.len() as u64 > MOST_ON_DISK {
            return Err(TrainerError::Arguments { message: format!("{taken} bytes of other layers lie there") });
        }
        let draft = Draft::new(directory)?;
        draft.write_pieces(FILE, numbers.chunks(PIECE).map(|piece| Ok(piece.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())))?;
        // What is there is not whole, or another process was a moment faster with the same.
        draft.publish(Existing::Replace)
    }
}

/// The file, if it is there and whole.
fn mapped(path: &Path, bytes: usize) -> Option<Numbers> {
    let file = File::open(path).ok()?;
    #[expect(unsafe_code, reason = "trials share the pages of a map, and every map of a file is unsafe in Rust")]
    // SAFETY: the directory is named after what is in it and appeared by a rename; nothing writes to its file afterwards. Should someone
    // truncate it from outside, reading it raises SIGBUS in this worker process, which the runner survives.
    let map = unsafe { Mmap::map(&file) }.ok()?;
    (map.len() == bytes).then_some(Numbers::Mapped(map))
}

impl Features {
    /// The vectors of some rows' tokens one after another, `[tokens, width]`.
    pub(super) fn of(&self, chosen: &[usize], device: &Device) -> Rows {
        let mut numbers = Vec::new();
        for row in chosen {
            let range = self.starts[*row] * self.width..self.starts[row + 1] * self.width;
            match &self.numbers {
                Numbers::Memory(all) => numbers.extend_from_slice(&all[range]),
                Numbers::Mapped(map) => {
                    let words = map[4 * range.start..4 * range.end].chunks_exact(4);
                    numbers.extend(words.map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])));
                }
            }
        }
        let tokens = numbers.len() / self.width.max(1);
        tensor(numbers, [tokens, self.width], device)
    }
}
