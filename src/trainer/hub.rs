//! Models by their names on the Hugging Face Hub: found in the cache that huggingface_hub keeps, or downloaded into it.
//!
//! A model that the cache has is not asked for again, so that a study keeps the one it began with; `name@revision` takes another. Everything
//! is taken from one commit.

mod cache;
mod client;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::pace::Ticker;
use super::pretrained::TOKENIZER_EXTRAS;
use cache::Cache;
use client::Client;

/// Where models are looked for: what huggingface_hub's variables say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// The directory of all repositories.
    cache: PathBuf,
    /// The server, without a slash at its end.
    endpoint: String,
    token: Option<String>,
    /// Whether the network is left alone.
    offline: bool,
}

impl Settings {
    /// `HF_HUB_CACHE`, `HF_HOME`, `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE` and `TRANSFORMERS_OFFLINE`.
    pub(super) fn of(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let user_cache = || given("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(PathBuf::from(given("HOME")?).join(".cache")));
        let home = given("HF_HOME").map_or_else(|| user_cache().unwrap_or_else(|| ".cache".into()).join("huggingface"), PathBuf::from);
        let token_file = given("HF_TOKEN_PATH").map_or_else(|| home.join("token"), PathBuf::from);
        let token = given("HF_TOKEN").or_else(|| given("HUGGING_FACE_HUB_TOKEN")).or_else(|| std::fs::read_to_string(token_file).ok());
        let is_set = |name: &str| given(name).is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&value.trim().to_uppercase().as_str()));
        Self {
            cache: given("HF_HUB_CACHE").or_else(|| given("HUGGINGFACE_HUB_CACHE")).map_or_else(|| home.join("hub"), PathBuf::from),
            endpoint: given("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned()).trim_end_matches('/').to_owned(),
            token: token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()),
            offline: is_set("HF_HUB_OFFLINE") || is_set("TRANSFORMERS_OFFLINE"),
        }
    }

    fn of_this_process() -> Self {
        Self::of(&|name| std::env::var(name).ok())
    }
}

/// A model's name and its revision: a branch, a tag or a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted<'a> {
    repository: &'a str,
    revision: &'a str,
}

impl<'a> Wanted<'a> {
    fn parse(name: &'a str) -> Self {
        let (repository, revision) = name.split_once('@').unwrap_or((name, "main"));
        Self { repository, revision }
    }
}

/// The directory of a model that the cache has whole.
pub(super) fn cached(name: &str) -> Option<PathBuf> {
    let (settings, wanted) = (Settings::of_this_process(), Wanted::parse(name));
    whole(&Cache::of(&settings.cache, wanted.repository), wanted.revision)
}

/// The directory of a model, downloaded if the cache lacks something of it; or a sentence about why there is none.
pub(super) fn model(name: &str, ticker: Ticker<'_>) -> Result<PathBuf, String> {
    model_by(&Settings::of_this_process(), name, ticker)
}

fn model_by(settings: &Settings, name: &str, ticker: Ticker<'_>) -> Result<PathBuf, String> {
    let wanted = Wanted::parse(name);
    let cache = Cache::of(&settings.cache, wanted.repository);
    if let Some(directory) = whole(&cache, wanted.revision) {
        return Ok(directory);
    }
    if settings.offline {
        return Err(format!(
            "is not whole in the cache {}, and HF_HUB_OFFLINE keeps it from being downloaded: unset it, or give a directory",
            settings.cache.display()
        ));
    }
    download(settings, &cache, &wanted, ticker)
}

/// The snapshot of a revision, if everything that the trainer reads is there.
fn whole(cache: &Cache, revision: &str) -> Option<PathBuf> {
    let directory = cache.snapshot(&cache.commit(revision)?);
    let has = |name: &str| directory.join(name).is_file();
    let weights = match shards(&directory) {
        Some(shards) => shards.iter().all(|name| has(name)),
        None => has(SINGLE),
    };
    (has(CONFIG) && has(TOKENIZER) && weights).then_some(directory)
}

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The files that an index of weights names.
fn shards(directory: &Path) -> Option<BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: std::collections::BTreeMap<String, String>,
    }
    let index: Index = serde_json::from_slice(&std::fs::read(directory.join(INDEX)).ok()?).ok()?;
    // A name from the network may point anywhere; a model's files lie side by side.
    Some(index.weight_map.into_values().filter(|name| !name.contains(['/', '\\'])).collect())
}

/// Takes everything that the trainer reads from one commit.
fn download(settings: &Settings, cache: &Cache, wanted: &Wanted<'_>, ticker: Ticker<'_>) -> Result<PathBuf, String> {
    let client = Client::new(settings, wanted.repository);
    let first = client.look(wanted.revision, CONFIG)?.ok_or_else(|| lacks(CONFIG))?;
    let commit = first.commit.clone().unwrap_or_else(|| wanted.revision.to_owned());
    if !cache::is_name(&commit) {
        return Err(format!("got the commit `{commit}`, which is none, from {}", settings.endpoint));
    }
    let take = |name: &str| -> Result<bool, String> {
        if cache.has(&commit, name) {
            return Ok(true);
        }
        let Some(found) = client.look(&commit, name)? else {
            cache.note_missing(&commit, name);
            return Ok(false);
        };
        cache.store(&client, &found, &commit, name, ticker)?;
        Ok(true)
    };
    for name in [CONFIG, TOKENIZER] {
        if !take(name)? {
            return Err(lacks(name));
        }
    }
    for name in TOKENIZER_EXTRAS {
        take(name)?;
    }
    let directory = cache.snapshot(&commit);
    if !take(SINGLE)? {
        if !take(INDEX)? {
            return Err(format!("{}; weights must be safetensors: convert them, and give the directory", lacks(SINGLE)));
        }
        for name in shards(&directory).ok_or_else(|| format!("has a `{INDEX}` that cannot be understood"))? {
            if !take(&name)? {
                return Err(lacks(&name));
            }
        }
    }
    cache.point(wanted.revision, &commit)?;
    Ok(directory)
}

fn lacks(name: &str) -> String {
    format!("has no `{name}` on the Hub")
}
