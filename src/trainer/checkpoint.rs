//! Checkpoint directories: the model, the optimiser's state, where the run was, and the digests that tell whether all of it is whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use safetensors::tensor::Dtype;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::adapters::Adapters;
use super::durable::{Draft, Existing};
use super::optimiser::Optimiser;
use super::parameters::{Parameters, Values};
use super::precision::Scaling;
use super::schedule::Plateau;
use super::task::{Model, read_model};
use super::tensor_file::{self, TensorFile, singles};
use super::{TrainerError, pretrained};
use crate::arguments::TrainerArguments;

/// The version of `trainer_state.json` and `training_args.json`.
pub(super) const VERSION: u32 = 1;

const MODEL: &str = "model.safetensors";
const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const OPTIMISER: &str = "optimizer.safetensors";
/// Adapters, and the maps beside which they stand as they were: `model.safetensors` holds these merged.
const ADAPTERS: &str = "adapters.safetensors";
const STATE: &str = "trainer_state.json";
const ARGUMENTS: &str = "training_args.json";
const DIGESTS: &str = "digests.json";

/// Where a run was: `trainer_state.json`, with Hugging Face's keys where there are some.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub(super) version: u32,
    /// Optimiser steps made.
    pub(super) global_step: u64,
    /// Passes over the training rows.
    pub(super) epoch: f64,
    /// The lowest `eval_loss` so far.
    pub(super) best_metric: Option<f64>,
    pub(super) best_global_step: Option<u64>,
    /// The optimiser step whose evaluation is done.
    pub(super) evaluated_step: u64,
    /// The last report, which the runner may not have received.
    pub(super) last_report: Option<Report>,
    /// Training loss since the last report.
    pub(super) since_report: Mean,
    /// Training loss since the last log line.
    pub(super) since_log: Mean,
    /// What `reduce_lr_on_plateau` remembers.
    #[serde(default)]
    pub(super) plateau: Plateau,
    /// What early stopping remembers.
    #[serde(default)]
    pub(super) patience: Patience,
    /// The scale of losses with `fp16`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scaling: Option<Scaling>,
    pub(super) log_history: Vec<BTreeMap<String, Value>>,
}

/// The best of the study's metric in evaluations that `eval_strategy` asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Patience {
    best: Option<f64>,
    /// Evaluations since that were no better.
    pub(super) worse: u64,
}

impl Patience {
    /// Takes note of an evaluation, as transformers' `EarlyStoppingCallback` does; NaN is no better than anything.
    pub(super) fn evaluated(&mut self, value: f64, maximize: bool, threshold: f64) {
        let gain = |best: f64| if maximize { value - best } else { best - value };
        if !value.is_nan() && self.best.is_none_or(|best| gain(best) > threshold) {
            *self = Self { best: Some(value), worse: 0 };
        } else {
            self.worse += 1;
        }
    }
}

/// Metrics at a clock value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Report {
    pub(super) clock: u64,
    /// Null stands for NaN.
    pub(super) metrics: BTreeMap<String, Option<f64>>,
}

/// A running mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    pub(super) fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// The mean since the last call, NaN if nothing was added.
    pub(super) fn take(&mut self) -> f64 {
        let Self { sum, count } = std::mem::take(self);
        sum / f64::from(count)
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            version: VERSION,
            global_step: 0,
            epoch: 0.0,
            best_metric: None,
            best_global_step: None,
            evaluated_step: 0,
            last_report: None,
            since_report: Mean::default(),
            since_log: Mean::default(),
            plateau: Plateau::default(),
            patience: Patience::default(),
            scaling: None,
            log_history: Vec::new(),
        }
    }
}

/// What a run was told: `training_args.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Told {
    pub(super) version: u32,
    pub(super) arguments: TrainerArguments,
    pub(super) seed: u64,
    /// The prepared data's digest.
    pub(super) data: String,
}

/// Everything a checkpoint is made of.
pub(super) struct Contents<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) values: &'a Values,
    pub(super) adapters: Option<&'a Adapters>,
    pub(super) tokenizer: &'a [u8],
    /// Other files about the tokenizer.
    pub(super) extras: &'a [(&'static str, Vec<u8>)],
    pub(super) optimiser: &'a Optimiser,
    pub(super) state: &'a State,
    pub(super) told: &'a Told,
}

/// Writes the checkpoint `directory`: complete and on the disk when it appears.
pub(super) fn write(directory: &Path, contents: &Contents) -> Result<(), TrainerError> {
    let parameters = contents.model.parameters();
    let draft = Draft::new(directory)?;
    let mut digests = BTreeMap::new();
    let mut note = |name: &'static str, digest: blake3::Hash| digests.insert(name, digest.to_hex().to_string());
    let merged = contents.adapters.map(|adapters| adapters.merged(contents.values));
    // The list ends with the adapters, which the merged values do not have.
    note(MODEL, tensor_file::write(&draft, MODEL, parameters.to_entries("", merged.as_ref().unwrap_or(contents.values)))?);
    drop(merged);
    let learnt = parameters.learnt();
    let optimiser = contents.optimiser.state.iter().flat_map(|(name, values)| learnt.to_entries(&format!("{name}."), values)).collect();
    note(OPTIMISER, tensor_file::write(&draft, OPTIMISER, optimiser)?);
    if let Some(adapters) = contents.adapters {
        let (apart, values) = (adapters.apart(parameters), adapters.values_apart(contents.values));
        note(ADAPTERS, tensor_file::write(&draft, ADAPTERS, apart.to_entries("", &values))?);
    }
    let words = [(CONFIG, json(&contents.model.config())), (STATE, json(contents.state)), (ARGUMENTS, json(contents.told))];
    let borrowed = words.iter().chain(contents.extras).map(|(name, bytes)| (*name, &bytes[..]));
    for (name, bytes) in borrowed.chain([(TOKENIZER, contents.tokenizer)]) {
        note(name, draft.write(name, bytes)?);
    }
    draft.write(DIGESTS, &json(&digests))?;
    draft.publish(Existing::Replace)
}

/// Removes what a killed process left half-written in `directory`.
pub(super) fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(".checkpoint-") && (name.ends_with(".tmp") || name.ends_with(".old")) {
            // What cannot be removed is only space.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A model as it lies in a checkpoint or an export.
pub(super) struct ModelFiles {
    pub(super) model: Box<dyn Model>,
    pub(super) values: Values,
    pub(super) tokenizer: Vec<u8>,
}

impl ModelFiles {
    /// Reads a model; digests are verified where the directory has them.
    pub(super) fn load(directory: &Path, device: &Device) -> Result<Self, TrainerError> {
        let files = Files::open(directory)?;
        let model = read_model(files.json(CONFIG)?).map_err(|problem| files.problem(CONFIG, &problem))?;
        let values = match files.digests {
            Some(_) => files.tensors(MODEL)?.values(model.parameters(), "", device)?,
            // Not of this trainer, or exported: it may lie in several files, or in half precision.
            None => pretrained::trained_values(directory, &*model, device)?,
        };
        Ok(Self { values, tokenizer: files.read(TOKENIZER)?, model })
    }
}

/// What a checkpoint holds besides its model.
pub(super) struct RunFiles {
    pub(super) state: State,
    pub(super) told: Told,
    /// The values of adapters and of the maps beside which they stand, where there are any.
    pub(super) apart: Option<Values>,
}

impl RunFiles {
    /// Reads where the run was and what it was told, and fills in `optimiser`'s state if `arguments` ask for the same kind and train the same
    /// parameters; otherwise it begins anew.
    pub(super) fn load(
        directory: &Path,
        arguments: &TrainerArguments,
        parameters: &Parameters,
        adapters: Option<&Adapters>,
        optimiser: &mut Optimiser,
        device: &Device,
    ) -> Result<Self, TrainerError> {
        let files = Files::open(directory)?;
        if files.digests.is_none() {
            return Err(TrainerError::checkpoint(directory, format!("`{DIGESTS}` is missing: it is no complete checkpoint")));
        }
        let (state, told): (State, Told) = (files.json(STATE)?, files.json(ARGUMENTS)?);
        if state.version != VERSION || told.version != VERSION {
            return Err(TrainerError::checkpoint(directory, format!("version {} where this binary reads {VERSION}", state.version)));
        }
        if told.arguments.optim == arguments.optim && told.arguments.trains_what(arguments) {
            let (tensors, learnt) = (files.tensors(OPTIMISER)?, parameters.learnt());
            for (name, values) in &mut optimiser.state {
                // The zeros that it began with are given back before others take their place.
                values.0.clear();
                *values = tensors.values(&learnt, &format!("{name}."), device)?;
            }
        }
        // A clone with other adapters begins with fresh ones beside the merged maps.
        let apart = match adapters {
            Some(adapters) if told.arguments.trains_what(arguments) => {
                Some(files.tensors(ADAPTERS)?.values(&adapters.apart(parameters), "", device)?)
            }
            _ => None,
        };
        Ok(Self { state, told, apart })
    }
}

/// The files of a directory, checked against its digests as they are read.
struct Files {
    directory: PathBuf,
    digests: Option<BTreeMap<String, String>>,
}

impl Files {
    fn open(directory: &Path) -> Result<Self, TrainerError> {
        if !directory.is_dir() {
            return Err(TrainerError::checkpoint(directory, "there is no such directory"));
        }
        let mut files = Self { directory: directory.to_owned(), digests: None };
        if directory.join(DIGESTS).exists() {
            files.digests = Some(files.json(DIGESTS)?);
        }
        Ok(files)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, TrainerError> {
        let bytes = fs::read(self.directory.join(name)).map_err(|error| self.unread(name, error))?;
        match self.digests.as_ref().and_then(|digests| digests.get(name)) {
            Some(digest) if *digest != blake3::hash(&bytes).to_hex().as_str() => Err(self.problem(name, DAMAGED)),
            _ => Ok(bytes),
        }
    }

    fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, TrainerError> {
        serde_json::from_slice(&self.read(name)?).map_err(|error| self.problem(name, &format!("cannot be understood: {error}")))
    }

    /// A file of tensors, whose digest is checked without the file in memory.
    fn tensors<'a>(&'a self, name: &'a str) -> Result<Tensors<'a>, TrainerError> {
        let path = self.directory.join(name);
        if let Some(digest) = self.digests.as_ref().and_then(|digests| digests.get(name)) {
            let mut hasher = blake3::Hasher::new();
            let read = File::open(&path).and_then(|file| hasher.update_reader(file).map(|_| ()));
            read.map_err(|error| self.unread(name, error))?;
            if *digest != hasher.finalize().to_hex().as_str() {
                return Err(self.problem(name, DAMAGED));
            }
        }
        Ok(Tensors { file: TensorFile::open(&path).map_err(|problem| self.problem(name, &problem))?, name, of: self })
    }

    /// A checkpoint that cannot be read now because the machine refuses it is none that cannot be read at all: whoever finds one
    /// like that starts from the beginning.
    fn unread(&self, name: &str, error: io::Error) -> TrainerError {
        let what = format!("cannot be read: {error}");
        let read = TrainerError::io("read", &self.directory.join(name))(error);
        if read.is_refused_by_the_machine() { read } else { self.problem(name, &what) }
    }

    fn problem(&self, name: &str, what: &str) -> TrainerError {
        TrainerError::checkpoint(&self.directory, format!("`{name}` {what}"))
    }
}

/// Said of a file that is not what was written.
const DAMAGED: &str = "is damaged: it is not what was written (its digest differs)";

/// A file of tensors that was written by [`write`].
struct Tensors<'a> {
    file: TensorFile,
    name: &'a str,
    of: &'a Files,
}

impl Tensors<'_> {
    fn values(&self, parameters: &Parameters, prefix: &str, device: &Device) -> Result<Values, TrainerError> {
        let problem = |what: String| self.of.problem(self.name, &what);
        parameters.read_entries(prefix, device, |entry, shape| {
            let stored = self.file.get(entry).ok_or_else(|| problem(format!("has no tensor `{entry}`")))?;
            if stored.kind != Dtype::F32 || stored.shape != shape {
                let found = format!("{:?} {:?}", stored.kind, stored.shape);
                return Err(problem(format!("has `{entry}` as {found}, where the model needs F32 {shape:?}")));
            }
            Ok(singles(self.file.bytes(stored)))
        })
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data with string keys");
    text.push(b'\n');
    text
}
