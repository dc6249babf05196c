//! Where runs are written besides the store: a tool, and a place of its kind, as `tensorboard:runs`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::suggestion::nearest;

/// A tool whose form runs can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tool {
    /// Event files with scalars and the HParams plugin's summaries.
    TensorBoard,
    /// Offline runs of Weights & Biases.
    Wandb,
}

impl Tool {
    /// All of them.
    pub const ALL: [Tool; 2] = [Tool::TensorBoard, Tool::Wandb];

    /// Its name in a destination.
    pub fn as_str(self) -> &'static str {
        match self {
            Tool::TensorBoard => "tensorboard",
            Tool::Wandb => "wandb",
        }
    }
}

/// A tool and the directory that its runs are written to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// The tool.
    pub tool: Tool,
    /// The directory.
    pub directory: PathBuf,
}

impl Destination {
    /// The same with its directory below `base` if it is relative.
    pub fn below(self, base: &Path) -> Destination {
        Destination { directory: base.join(&self.directory), ..self }
    }
}

/// Why words name no destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DestinationError(String);

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let names = || Tool::ALL.map(Tool::as_str);
        let shape = names().map(|name| format!("`{name}:DIR`")).join(" or ");
        let Some((tool, directory)) = text.split_once(':') else {
            return Err(DestinationError(format!("it is not {shape}")));
        };
        let Some(known) = Tool::ALL.into_iter().find(|known| known.as_str() == tool) else {
            let near = nearest(tool, names());
            let meant = near.map_or(String::new(), |near| format!(", perhaps `{near}`"));
            return Err(DestinationError(format!(
                "there is no tool `{tool}`{meant}: it is {shape}"
            )));
        };
        if directory.is_empty() || directory.contains('\0') {
            return Err(DestinationError(format!("it names no directory: `{tool}:DIR`")));
        }
        Ok(Destination { tool: known, directory: PathBuf::from(directory) })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.tool.as_str(), self.directory.display())
    }
}

impl Serialize for Destination {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Destination {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_tool_and_a_directory() {
        let read: Destination = "tensorboard:/tmp/a:b".parse().unwrap();
        assert_eq!((read.tool, read.directory.to_str()), (Tool::TensorBoard, Some("/tmp/a:b")));
        assert_eq!(read.to_string(), "tensorboard:/tmp/a:b");
        assert_eq!(
            "wandb:runs".parse::<Destination>().unwrap().below(Path::new("/p")).directory,
            Path::new("/p/runs")
        );
        for (wrong, word) in [
            ("runs", "is not `tensorboard:DIR`"),
            ("tensorbord:runs", "`tensorboard`"),
            ("wandb:", "no directory"),
        ] {
            let error = wrong.parse::<Destination>().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
