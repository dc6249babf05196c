//! Ships custom code with the weights, so that transformers can load a model of the trainer's own
//! architecture.
//!
//! See "Building custom models", <https://huggingface.co/docs/transformers/custom_models>.
//! `auto_map` in `config.json` names the classes of a module beside it; `from_pretrained(DIR,
//! trust_remote_code=True)` runs it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::ExportError;
use super::draft::save;
use super::marker::ExportedFile;
use crate::arguments::ENCODER_TYPES;

/// The trainer's own architecture in `config.json`.
const OWN: &str = ENCODER_TYPES[0];

/// The class of a file that names none.
const CLASSIFIER: &str = "HpsearchEncoderForSequenceClassification";

/// The module, without its `.py`.
const MODULE: &str = "modeling_hpsearch";

/// Writes the code beside `config.json` in `directory`, if that describes the trainer's own
/// architecture; returns the files written.
pub(super) fn add(directory: &Path) -> Result<Vec<(PathBuf, ExportedFile)>, ExportError> {
    let Ok(bytes) = std::fs::read(directory.join("config.json")) else { return Ok(Vec::new()) };
    let Ok(mut config) = serde_json::from_slice::<Value>(&bytes) else { return Ok(Vec::new()) };
    // A quantized model has another type.
    if config["model_type"] != OWN {
        return Ok(Vec::new());
    }
    let class = config["architectures"][0].as_str().unwrap_or(CLASSIFIER).to_owned();
    let kind = class.trim_start_matches("HpsearchEncoder");
    let auto = if kind == "Model" { "AutoModel".to_owned() } else { format!("AutoModel{kind}") };
    config["auto_map"] = json!({"AutoConfig": format!("{MODULE}.HpsearchEncoderConfig")});
    config["auto_map"][auto] = format!("{MODULE}.{class}").into();
    let config = save(directory, "config.json", format!("{config:#}\n").as_bytes())?;
    Ok(vec![
        config,
        save(directory, &format!("{MODULE}.py"), include_bytes!("modeling_hpsearch.py"))?,
    ])
}
