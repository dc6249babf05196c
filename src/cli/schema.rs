//! `hpsearch schema`: the JSON Schema of the study file, for editors.

use std::io::Write;

use super::{Console, Exit, Failure};
use crate::config;

/// Prints it.
pub fn schema(console: &mut Console) -> Result<Exit, Failure> {
    let text = serde_json::to_string_pretty(&config::schema())?;
    writeln!(console.out, "{text}")?;
    Ok(Exit::Done)
}
