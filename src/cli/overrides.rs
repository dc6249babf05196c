//! Overrides of a study file (`--set`), quoted to be typed again.

use crate::config::shell;
use crate::study::provenance::masked_override;

/// The overrides as options.
pub fn sets(set: &[String]) -> String {
    set.iter()
        .map(|set| format!(" --set {}", shell::quoted(&[masked_override(set).to_string()])))
        .collect()
}
