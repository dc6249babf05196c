//! Makes transformers load a classifier of the trainer's own architecture: its code goes with the weights.
//!
//! How: "Building custom models", <https://huggingface.co/docs/transformers/custom_models>. `auto_map` in `config.json` names the
//! classes of a module that lies beside it; `from_pretrained(DIR, trust_remote_code=True)` runs it.

use std::path::Path;

use serde_json::{Value, json};

use super::ExportError;
use super::bundle::save;
use crate::arguments::ENCODER_TYPES;

/// The trainer's own architecture, as `config.json` names it.
const OWN: &str = ENCODER_TYPES[0];

/// The module, without its `.py`.
const MODULE: &str = "modeling_hpsearch";

/// Puts the code beside `config.json` in `directory`, if that describes the trainer's own architecture.
pub(super) fn add(directory: &Path) -> Result<(), ExportError> {
    let path = directory.join("config.json");
    let Ok(bytes) = std::fs::read(&path) else { return Ok(()) };
    let Ok(mut config) = serde_json::from_slice::<Value>(&bytes) else { return Ok(()) };
    // A model with weights of eight bits is of another type.
    if config["model_type"] != OWN {
        return Ok(());
    }
    config["auto_map"] = json!({
        "AutoConfig": format!("{MODULE}.HpsearchEncoderConfig"),
        "AutoModelForSequenceClassification": format!("{MODULE}.HpsearchEncoderForSequenceClassification"),
    });
    save(&path, format!("{config:#}\n").as_bytes())?;
    save(&directory.join(format!("{MODULE}.py")), include_bytes!("modeling_hpsearch.py"))
}
