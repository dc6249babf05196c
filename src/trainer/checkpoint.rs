//! Checkpoint directories: model, optimiser, trainer state, and the digests of all files.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use safetensors::tensor::Dtype;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokenizers::Tokenizer;

use super::adapters::LoraAdapters;
use super::atomic_directory::{AtomicDirectory, IfExists};
use super::averaging::trainable;
use super::model_directory::{check_tokens, tokenizer_json, with_generation};
use super::optimiser::Optimiser;
use super::parameters::{Parameters, Values};
use super::pretrained_weights::load_trained;
use super::task::Model;
use super::tasks::read_model;
use super::tensor_file::{self, TensorFile, f32_from_le_bytes};
use super::trainer_state::{RunArguments, TrainerState, VERSION};
use super::vocabulary_files::of_targets;
use super::{TrainerError, tokenizer_file};
use hpsearch_core::arguments::TrainerArguments;

const MODEL: &str = "model.safetensors";
const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const OPTIMISER: &str = "optimizer.safetensors";
/// LoRA adapters and the weights they adapt; `model.safetensors` has them merged.
const ADAPTERS: &str = "adapters.safetensors";
/// The prefix of weights in training in `optimizer.safetensors`, where the model is their average.
const IN_TRAINING: &str = "weights.";
const STATE: &str = "trainer_state.json";
const ARGUMENTS: &str = "training_args.json";
const DIGESTS: &str = "digests.json";

/// The contents of a checkpoint.
pub(super) struct CheckpointContents<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) values: &'a Values,
    /// The averages that are the model, if weights are averaged.
    pub(super) averaged: Option<&'a Values>,
    pub(super) adapters: Option<&'a LoraAdapters>,
    pub(super) tokenizer: &'a [u8],
    pub(super) tokenizer_extras: &'a [(&'static str, Vec<u8>)],
    pub(super) optimiser: &'a Optimiser,
    pub(super) state: &'a TrainerState,
    pub(super) run_arguments: &'a RunArguments,
}

/// Writes the checkpoint `directory` atomically and durably.
pub(super) fn write(directory: &Path, contents: &CheckpointContents) -> Result<(), TrainerError> {
    let parameters = contents.model.parameters();
    let staged = AtomicDirectory::new(directory)?;
    let mut digests = BTreeMap::new();
    let mut record = |name: &'static str, digest: blake3::Hash| {
        digests.insert(name, digest.to_hex().to_string())
    };
    let values = contents.averaged.unwrap_or(contents.values);
    let merged = contents.adapters.map(|adapters| adapters.merged(values));
    // The parameter list ends with the adapters, which merged values do not have.
    let weights = parameters.to_entries("", merged.as_ref().unwrap_or(values));
    record(MODEL, tensor_file::write(&staged, MODEL, weights)?);
    drop(merged);
    let in_training = (parameters.trainable(), trainable(parameters, contents.values));
    let state = contents.optimiser.state.iter();
    let mut optimiser: Vec<_> = state
        .flat_map(|state| state.layout.to_entries(&format!("{}.", state.name), &state.values))
        .collect();
    optimiser.extend(contents.optimiser.quantised_entries(parameters));
    if contents.averaged.is_some() {
        optimiser.extend(in_training.0.to_entries(IN_TRAINING, &in_training.1));
    }
    record(OPTIMISER, tensor_file::write(&staged, OPTIMISER, optimiser)?);
    if let Some(adapters) = contents.adapters {
        let (apart, values) =
            (adapters.adapter_parameters(parameters), adapters.adapter_values(values));
        record(ADAPTERS, tensor_file::write(&staged, ADAPTERS, apart.to_entries("", &values))?);
    }
    let json_files = [
        (CONFIG, json(&contents.model.config())),
        (STATE, json(contents.state)),
        (ARGUMENTS, json(contents.run_arguments)),
    ];
    let files =
        json_files.iter().chain(contents.tokenizer_extras).map(|(name, bytes)| (*name, &bytes[..]));
    for (name, bytes) in files.chain([(TOKENIZER, contents.tokenizer)]) {
        record(name, staged.write(name, bytes)?);
    }
    staged.write(DIGESTS, &json(&digests))?;
    staged.publish(IfExists::Replace)
}

/// Removes incomplete checkpoints of killed processes from `directory`.
pub(super) fn remove_incomplete(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(".checkpoint-") && (name.ends_with(".tmp") || name.ends_with(".old")) {
            let _only_wastes_space = fs::remove_dir_all(entry.path());
        }
    }
}

/// The model of a checkpoint or an export.
pub(super) struct SavedModel {
    pub(super) model: Box<dyn Model>,
    pub(super) values: Values,
    pub(super) tokenizer: Vec<u8>,
}

impl SavedModel {
    /// Reads a model, verifying digests where the directory has them.
    pub(super) fn load(directory: &Path, device: &Device) -> Result<Self, TrainerError> {
        let files = VerifiedDirectory::open(directory)?;
        let config = with_generation(directory, files.json(CONFIG)?);
        let model = read_model(config).map_err(|problem| files.problem(CONFIG, &problem))?;
        let values = match files.digests {
            Some(_) => files.tensors(MODEL)?.values(model.parameters(), "", device)?,
            // Exported, or not of this trainer: it may be in several files, or in 16-bit floats.
            None => load_trained(directory, &*model, device)?,
        };
        let tokenizer = match files.digests {
            Some(_) => {
                // Where texts to write have pieces of their own, their files are verified, too.
                for name in of_targets(directory) {
                    files.read(name)?;
                }
                files.read(TOKENIZER)?
            }
            None => tokenizer_json(directory)?,
        };
        Ok(Self { values, tokenizer, model })
    }

    /// The same with the model as the task's type `M`, or `otherwise` as the problem.
    pub(super) fn load_as<M: Model>(
        directory: &Path,
        device: &Device,
        otherwise: &str,
    ) -> Result<(Box<M>, Values, Tokenizer), TrainerError> {
        let (model, values, tokenizer) = Self::load_with_tokenizer(directory, device)?;
        let model: Box<dyn Any> = model;
        let model =
            model.downcast::<M>().map_err(|_| TrainerError::checkpoint(directory, otherwise))?;
        Ok((model, values, tokenizer))
    }

    /// The same with a tokenizer that fits the model, without padding.
    pub(super) fn load_with_tokenizer(
        directory: &Path,
        device: &Device,
    ) -> Result<(Box<dyn Model>, Values, Tokenizer), TrainerError> {
        let Self { model, values, tokenizer } = Self::load(directory, device)?;
        let mut tokenizer =
            tokenizer_file::read(&tokenizer).map_err(unusable_tokenizer(directory))?;
        let (vocabulary, _) = model.limits();
        check_tokens(directory, &tokenizer, vocabulary)?;
        // The tokenizer of a pretrained model may pad.
        tokenizer.with_padding(None);
        Ok((model, values, tokenizer))
    }
}

/// The error of a directory whose tokenizer cannot be used.
pub(super) fn unusable_tokenizer(
    directory: &Path,
) -> impl Fn(tokenizers::Error) -> TrainerError + Copy {
    move |error| {
        TrainerError::checkpoint(directory, format!("`{TOKENIZER}` cannot be used: {error}"))
    }
}

/// The parts of a checkpoint besides its model.
pub(super) struct SavedRun {
    pub(super) state: TrainerState,
    pub(super) run_arguments: RunArguments,
    /// The values of LoRA adapters and the weights they adapt, if there are any.
    pub(super) adapters: Option<Values>,
    /// The trainable weights in training, if the model is their average and they are to be trained
    /// further.
    pub(super) in_training: Option<Values>,
}

impl SavedRun {
    /// Reads the state and the arguments of a run, and restores `optimiser` if `arguments` ask for
    /// the same optimiser and train the same parameters; otherwise it stays fresh.
    pub(super) fn load(
        directory: &Path,
        arguments: &TrainerArguments,
        parameters: &Parameters,
        adapters: Option<&LoraAdapters>,
        optimiser: &mut Optimiser,
        device: &Device,
    ) -> Result<Self, TrainerError> {
        let files = VerifiedDirectory::open(directory)?;
        if files.digests.is_none() {
            return Err(files.problem(DIGESTS, "is missing: the checkpoint is incomplete"));
        }
        let (state, run_arguments): (TrainerState, RunArguments) =
            (files.json(STATE)?, files.json(ARGUMENTS)?);
        if state.version != VERSION || run_arguments.version != VERSION {
            let message = format!("version {} where this binary reads {VERSION}", state.version);
            return Err(TrainerError::checkpoint(directory, message));
        }
        let mut in_training = None;
        if run_arguments.arguments.optim == arguments.optim
            && run_arguments.arguments.same_trainable_parameters(arguments)
        {
            let tensors = files.tensors(OPTIMISER)?;
            for state in &mut optimiser.state {
                // Frees the initial zeros before their replacement is allocated.
                state.values.0.clear();
                state.values =
                    tensors.values(&state.layout, &format!("{}.", state.name), device)?;
            }
            optimiser.restore_quantised(parameters, |name, dtype, shape| {
                tensors.bytes(name, dtype, shape).map(<[u8]>::to_vec)
            })?;
            optimiser.schedule_free = state.schedule_free;
            if run_arguments.arguments.averages_weights() && arguments.averages_weights() {
                let own = parameters.trainable();
                in_training = Some(tensors.values(&own, IN_TRAINING, device)?);
            }
        }
        // A clone with other adapters starts with fresh ones on the merged weights.
        let adapters = match adapters {
            Some(adapters) if run_arguments.arguments.same_trainable_parameters(arguments) => {
                let own = adapters.adapter_parameters(parameters);
                Some(files.tensors(ADAPTERS)?.values(&own, "", device)?)
            }
            _ => None,
        };
        Ok(Self { state, run_arguments, adapters, in_training })
    }
}

/// A directory whose files are verified against its digests as they are read.
struct VerifiedDirectory {
    directory: PathBuf,
    digests: Option<BTreeMap<String, String>>,
}

impl VerifiedDirectory {
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
        let bytes =
            fs::read(self.directory.join(name)).map_err(|error| self.unreadable(name, error))?;
        self.verify(name, || Ok(blake3::hash(&bytes)))?;
        Ok(bytes)
    }

    /// Compares the digest of a file with what was written, where that is known.
    fn verify(
        &self,
        name: &str,
        digest: impl FnOnce() -> io::Result<blake3::Hash>,
    ) -> Result<(), TrainerError> {
        let Some(written) = self.digests.as_ref().and_then(|digests| digests.get(name)) else {
            return Ok(());
        };
        let digest = digest().map_err(|error| self.unreadable(name, error))?;
        if written == digest.to_hex().as_str() {
            return Ok(());
        }
        Err(self.problem(name, "is damaged: its digest differs from what was written"))
    }

    fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, TrainerError> {
        serde_json::from_slice(&self.read(name)?)
            .map_err(|error| self.problem(name, &format!("cannot be parsed: {error}")))
    }

    /// Opens a file of tensors, whose digest is verified without reading the file into memory.
    fn tensors<'a>(&'a self, name: &'a str) -> Result<VerifiedTensors<'a>, TrainerError> {
        let path = self.directory.join(name);
        self.verify(name, || {
            Ok(blake3::Hasher::new().update_reader(File::open(&path)?)?.finalize())
        })?;
        let file = TensorFile::open(&path).map_err(|problem| self.problem(name, &problem))?;
        Ok(VerifiedTensors { file, name, directory: self })
    }

    /// Keeps a transient failure of the machine apart from a damaged checkpoint: after the latter,
    /// training starts over.
    fn unreadable(&self, name: &str, error: io::Error) -> TrainerError {
        let what = format!("cannot be read: {error}");
        let read = TrainerError::io("read", &self.directory.join(name))(error);
        if read.is_refused_by_the_machine() { read } else { self.problem(name, &what) }
    }

    fn problem(&self, name: &str, what: &str) -> TrainerError {
        TrainerError::checkpoint(&self.directory, format!("`{name}` {what}"))
    }
}

/// A verified file of tensors, as [`write`] writes them.
struct VerifiedTensors<'a> {
    file: TensorFile,
    name: &'a str,
    directory: &'a VerifiedDirectory,
}

impl VerifiedTensors<'_> {
    fn values(
        &self,
        parameters: &Parameters,
        prefix: &str,
        device: &Device,
    ) -> Result<Values, TrainerError> {
        parameters.read_entries(prefix, device, |entry, shape| {
            self.bytes(entry, Dtype::F32, shape).map(f32_from_le_bytes)
        })
    }

    /// The bytes of a tensor, which must have this dtype and shape.
    fn bytes(&self, entry: &str, dtype: Dtype, shape: &[usize]) -> Result<&[u8], TrainerError> {
        let problem = |what: String| self.directory.problem(self.name, &what);
        let stored =
            self.file.get(entry).ok_or_else(|| problem(format!("has no tensor `{entry}`")))?;
        if stored.dtype != dtype || stored.shape != shape {
            let found = format!("{:?} {:?}", stored.dtype, stored.shape);
            return Err(problem(format!(
                "has `{entry}` as {found}, where the model needs {dtype:?} {shape:?}"
            )));
        }
        Ok(self.file.bytes(stored))
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data with string keys");
    text.push(b'\n');
    text
}
