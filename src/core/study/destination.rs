//! Export destinations of runs besides the store: a tool and a location, such as
//! `tensorboard:runs`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::suggestion::nearest;

/// A tool to whose format runs are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tool {
    /// Event files with scalars and the HParams plugin's summaries.
    TensorBoard,
    /// Offline runs of Weights & Biases.
    Wandb,
    /// Runs on an MLflow tracking server.
    MlFlow,
}

impl Tool {
    /// All of them.
    pub const ALL: [Tool; 3] = [Tool::TensorBoard, Tool::Wandb, Tool::MlFlow];

    /// Its name in a destination.
    pub fn as_str(self) -> &'static str {
        match self {
            Tool::TensorBoard => "tensorboard",
            Tool::Wandb => "wandb",
            Tool::MlFlow => "mlflow",
        }
    }

    /// The syntax of its destinations.
    fn shape(self) -> &'static str {
        match self {
            Tool::TensorBoard => "`tensorboard:DIR`",
            Tool::Wandb => "`wandb:DIR`",
            Tool::MlFlow => "`mlflow:URL`",
        }
    }
}

/// A tool and the location of its runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// The tool.
    pub tool: Tool,
    /// The directory; for MLflow, the address of the server.
    pub place: PathBuf,
}

impl Destination {
    /// Resolves a relative directory against `base`.
    pub fn below(self, base: &Path) -> Destination {
        match self.tool {
            Tool::TensorBoard | Tool::Wandb => {
                Destination { place: base.join(&self.place), ..self }
            }
            Tool::MlFlow => self,
        }
    }
}

/// Why a text is not a destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DestinationError(String);

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let names = || Tool::ALL.map(Tool::as_str);
        let shape = Tool::ALL.map(Tool::shape).join(" or ");
        let Some((tool, place)) = text.split_once(':') else {
            return Err(DestinationError(format!("it is not {shape}")));
        };
        let Some(known) = Tool::ALL.into_iter().find(|known| known.as_str() == tool) else {
            let near = nearest(tool, names());
            let meant = near.map_or(String::new(), |near| format!(", perhaps `{near}`"));
            return Err(DestinationError(format!(
                "there is no tool `{tool}`{meant}: it is {shape}"
            )));
        };
        if place.is_empty() || place.contains('\0') {
            let what = if known == Tool::MlFlow { "server" } else { "directory" };
            return Err(DestinationError(format!("it names no {what}: {}", known.shape())));
        }
        if known == Tool::MlFlow {
            is_address(place).map_err(|why| DestinationError(why.to_owned()))?;
        }
        let place = place.trim_end_matches('/');
        let place = if place.is_empty() { "/" } else { place };
        Ok(Destination { tool: known, place: PathBuf::from(place) })
    }
}

/// Whether a text is the address of a server; rejects addresses with secrets.
fn is_address(text: &str) -> Result<(), &'static str> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        None | Some("") => Err("an address begins with `http://` or `https://`"),
        // A password may hold any character, `/` too.
        Some(_) if text.contains('@') => {
            Err("an address cannot contain a name and password: they are read from \
             MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD")
        }
        Some(_) if text.contains(['?', '#']) => {
            Err("an address has no `?` and no `#`: a token is read from MLFLOW_TRACKING_TOKEN")
        }
        Some(_) if text.contains(char::is_whitespace) => Err("an address has no spaces"),
        Some(_) => Ok(()),
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.tool.as_str(), self.place.display())
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
        assert_eq!((read.tool, read.place.to_str()), (Tool::TensorBoard, Some("/tmp/a:b")));
        assert_eq!(read.to_string(), "tensorboard:/tmp/a:b");
        assert_eq!(
            "wandb:runs".parse::<Destination>().unwrap().below(Path::new("/p")).place,
            Path::new("/p/runs")
        );
        let server: Destination = "mlflow:http://127.0.0.1:5000/".parse().unwrap();
        assert_eq!(server.below(Path::new("/p")).to_string(), "mlflow:http://127.0.0.1:5000");
        for (wrong, word) in [
            ("runs", "is not `tensorboard:DIR`"),
            ("tensorbord:runs", "`tensorboard`"),
            ("wandb:", "no directory"),
            ("mlflow:", "no server"),
            ("mlflow:127.0.0.1:5000", "begins with `http://`"),
            ("mlflow:http://me:secret@host", "MLFLOW_TRACKING_PASSWORD"),
            ("mlflow:http://me:pa/ss@host", "MLFLOW_TRACKING_PASSWORD"),
            ("mlflow:http://me:pa#ss@host", "MLFLOW_TRACKING_PASSWORD"),
            ("mlflow:http://host?token=secret", "MLFLOW_TRACKING_TOKEN"),
        ] {
            let error = wrong.parse::<Destination>().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
