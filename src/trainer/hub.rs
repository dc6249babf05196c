//! Models and data sets of the Hugging Face Hub: found in huggingface_hub's cache, or downloaded
//! into it.
//!
//! A cached model is not looked up again, so that a study keeps its model; `name@revision` selects
//! another revision. All files are of one commit.

mod cache;
mod client;
mod dataset;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::progress::ProgressCallback;
use super::vocabulary_files::{TOKENIZER_EXTRAS, has_tokenizer, model_type};
use super::weights::{INDEX, SINGLE, WeightIndex};
use cache::Cache;
use client::Client;
use hpsearch_core::arguments::vocabulary_files;

/// huggingface_hub's settings, from its environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HubSettings {
    /// The cache directory.
    cache: PathBuf,
    /// The server, without a trailing slash.
    endpoint: String,
    token: Option<String>,
    /// Whether the network must not be used.
    offline: bool,
}

impl HubSettings {
    /// `HF_HUB_CACHE`, `HF_HOME`, `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE` and
    /// `TRANSFORMERS_OFFLINE`.
    pub(super) fn of(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let user_cache = || {
            given("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(PathBuf::from(given("HOME")?).join(".cache")))
        };
        let home = given("HF_HOME").map_or_else(
            || user_cache().unwrap_or_else(|| ".cache".into()).join("huggingface"),
            PathBuf::from,
        );
        let token_file = given("HF_TOKEN_PATH").map_or_else(|| home.join("token"), PathBuf::from);
        let token = given("HF_TOKEN")
            .or_else(|| given("HUGGING_FACE_HUB_TOKEN"))
            .or_else(|| std::fs::read_to_string(token_file).ok());
        let is_set = |name: &str| {
            given(name).is_some_and(|value| {
                ["1", "ON", "YES", "TRUE"].contains(&value.trim().to_uppercase().as_str())
            })
        };
        Self {
            cache: given("HF_HUB_CACHE")
                .or_else(|| given("HUGGINGFACE_HUB_CACHE"))
                .map_or_else(|| home.join("hub"), PathBuf::from),
            endpoint: given("HF_ENDPOINT")
                .unwrap_or_else(|| "https://huggingface.co".to_owned())
                .trim_end_matches('/')
                .to_owned(),
            token: token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()),
            offline: is_set("HF_HUB_OFFLINE") || is_set("TRANSFORMERS_OFFLINE"),
        }
    }

    fn of_this_process() -> Self {
        Self::of(&|name| std::env::var(name).ok())
    }
}

/// A model's repository and revision: a branch, a tag or a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelReference<'a> {
    repository: &'a str,
    revision: &'a str,
}

impl<'a> ModelReference<'a> {
    fn parse(name: &'a str) -> Self {
        let (repository, revision) = name.split_once('@').unwrap_or((name, "main"));
        Self { repository, revision }
    }
}

/// The directory of a model, if the cache has all of it.
pub(super) fn cached(name: &str) -> Option<PathBuf> {
    let (settings, model) = (HubSettings::of_this_process(), ModelReference::parse(name));
    complete_snapshot(&Cache::of(&settings.cache, "models", model.repository), model.revision)
}

/// The directory of a model, downloaded if necessary, or the end of a sentence about why that
/// failed.
pub(super) fn model(name: &str, on_progress: ProgressCallback<'_>) -> Result<PathBuf, String> {
    download_or_find(&HubSettings::of_this_process(), name, on_progress)
}

/// The file or folder of a data set's URI, downloaded if necessary, or the end of a sentence about
/// why that failed.
pub(super) fn data(uri: &str, on_progress: ProgressCallback<'_>) -> Result<PathBuf, String> {
    dataset::data(&HubSettings::of_this_process(), uri, on_progress)
}

fn download_or_find(
    settings: &HubSettings,
    name: &str,
    on_progress: ProgressCallback<'_>,
) -> Result<PathBuf, String> {
    let model = ModelReference::parse(name);
    let cache = Cache::of(&settings.cache, "models", model.repository);
    if let Some(directory) = complete_snapshot(&cache, model.revision) {
        return Ok(directory);
    }
    if settings.offline {
        return Err(format!(
            "is not complete in the cache {}, and HF_HUB_OFFLINE forbids downloads: unset it, or \
             give a directory",
            settings.cache.display()
        ));
    }
    download(settings, &cache, &model, on_progress)
}

/// The snapshot of a revision, if it has all files that the trainer reads.
fn complete_snapshot(cache: &Cache, revision: &str) -> Option<PathBuf> {
    let commit = cache.commit(revision)?;
    let directory = cache.snapshot(&commit);
    let has = |name: &str| directory.join(name).is_file();
    let weights = match shards(&directory) {
        Some(shards) => shards.iter().all(|name| has(name)),
        None => has(SINGLE),
    };
    // Without it, the settings beside it count.
    let settings = TOKENIZER_EXTRAS.iter().all(|name| cache.knows(&commit, name));
    let tokenizer = has(TOKENIZER) || settings && has_tokenizer(&directory);
    (has(CONFIG) && tokenizer && weights).then_some(directory)
}

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
/// How texts are written.
const GENERATION_CONFIG: &str = "generation_config.json";
/// The files of sharded weights.
fn shards(directory: &Path) -> Option<BTreeSet<String>> {
    let index: WeightIndex =
        serde_json::from_slice(&std::fs::read(directory.join(INDEX)).ok()?).ok()?;
    // A name from the network must not lead out of the directory.
    Some(index.weight_map.into_values().filter(|name| !name.contains(['/', '\\'])).collect())
}

/// Downloads all files that the trainer reads, of one commit.
fn download(
    settings: &HubSettings,
    cache: &Cache,
    model: &ModelReference<'_>,
    on_progress: ProgressCallback<'_>,
) -> Result<PathBuf, String> {
    let client = Client::new(settings, model.repository);
    let first = client.metadata(model.revision, CONFIG)?.ok_or_else(|| lacks(CONFIG))?;
    let commit = first.commit.clone().unwrap_or_else(|| model.revision.to_owned());
    if !cache::is_name(&commit) {
        return Err(format!("got the invalid commit `{commit}` from {}", settings.endpoint));
    }
    let fetch = |name: &str| -> Result<bool, String> {
        if cache.has(&commit, name) {
            return Ok(true);
        }
        let Some(file) = client.metadata(&commit, name)? else {
            cache.mark_missing(&commit, name);
            return Ok(false);
        };
        cache.store(&client, &file, &commit, name, on_progress)?;
        Ok(true)
    };
    if !fetch(CONFIG)? {
        return Err(lacks(CONFIG));
    }
    let directory = cache.snapshot(&commit);
    let model_type = model_type(&directory);
    // Marian's two texts have a tokenizer each.
    if !fetch(TOKENIZER)? || model_type == "marian" {
        for name in vocabulary_files(&model_type) {
            fetch(name)?;
        }
    }
    if !has_tokenizer(&directory) {
        return Err(match vocabulary_files(&model_type) {
            [] => lacks(TOKENIZER),
            files => format!("{}, nor all of `{}`", lacks(TOKENIZER), files.join("`, `")),
        });
    }
    for name in TOKENIZER_EXTRAS.into_iter().chain([GENERATION_CONFIG]) {
        fetch(name)?;
    }
    if !fetch(SINGLE)? {
        if !fetch(INDEX)? {
            return Err(format!(
                "{}; weights must be safetensors: convert them, and give the directory",
                lacks(SINGLE)
            ));
        }
        for name in
            shards(&directory).ok_or_else(|| format!("has a `{INDEX}` that cannot be parsed"))?
        {
            if !fetch(&name)? {
                return Err(lacks(&name));
            }
        }
    }
    cache.set_ref(model.revision, &commit)?;
    Ok(directory)
}

fn lacks(name: &str) -> String {
    format!("has no `{name}` on the Hub")
}
