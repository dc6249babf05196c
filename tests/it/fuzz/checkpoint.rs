//! A trained model's files, one of them with other bytes and, so that they are read at all, the
//! digest of those bytes.

use std::fs;
use std::path::Path;

use hpsearch::arguments::WritingOptions;
use hpsearch::trainer::PredictionInputs;
use serde_json::Value as Json;

use crate::harness::{Site, assert_done};

const STUDY: &str = r#"
[study]
name = "s"
metric = "eval_loss"
direction = "minimize"
[budget]
trials = 1
[data]
train = "train.csv"
validation = "train.csv"
[trainer]
task = "text-classification"
num_train_epochs = 1
per_device_train_batch_size = 8
"model.hidden_size" = 8
"model.num_layers" = 1
"model.num_heads" = 1
"model.max_position_embeddings" = 16
[space]
learning_rate = { float = [1e-4, 1e-1], log = true }
[devices]
use = ["cpu"]
trials_per_device = 1
"#;

/// The files that a model is read from.
const FILES: &[&str] =
    &["config.json", "model.safetensors", "tokenizer.json", "digests.json", "training_args.json"];

pub struct Checkpoint {
    site: Site,
    sound: Vec<Vec<u8>>,
}

impl Checkpoint {
    /// Trains the smallest model there is.
    pub fn new() -> Self {
        let site = Site::new(STUDY, "");
        let rows: String = (0..24)
            .map(|row| if row % 2 == 0 { "the bus is late,a\n" } else { "the lamp is dark,b\n" })
            .collect();
        site.write("train.csv", format!("text,label\n{rows}"));
        assert_done(&site.run_study());
        assert_done(&site.run(&["export", "s", "-o", "model"]));
        let sound = FILES
            .iter()
            .map(|file| fs::read(site.path("model").join(file)).unwrap_or_default())
            .collect();
        Checkpoint { site, sound }
    }

    /// The first byte chooses the file, and whether the second to the fourth say where in it the
    /// rest is written; the rest is all of it otherwise.
    pub fn read(&self, input: &[u8]) -> String {
        let Some((&[choice, high, middle, low], rest)) = input.split_first_chunk() else {
            return "short".to_owned();
        };
        let index = usize::from(choice) % FILES.len();
        let (directory, file) = (self.site.path("model"), FILES[index]);
        let mut bytes = if choice < 128 { self.sound[index].clone() } else { Vec::new() };
        let place = if choice < 128 {
            u32::from_be_bytes([0, high, middle, low]) as usize % (bytes.len() + 1)
        } else {
            0
        };
        let end = (place + rest.len()).min(bytes.len());
        bytes.splice(place..end, rest.iter().copied());
        fs::write(directory.join(file), &bytes).unwrap();
        if file != "digests.json" {
            with_digest(&directory, file, &bytes);
        }
        let said = hpsearch::trainer::predict(
            &directory,
            PredictionInputs {
                texts: &["the bus".to_owned(), String::new()],
                pairs: None,
                writing: WritingOptions::default(),
            },
            8,
            "cpu",
            &|_, _, _| {},
        );
        fs::write(directory.join(file), &self.sound[index]).unwrap();
        fs::write(directory.join("digests.json"), &self.sound[3]).unwrap();
        match said {
            Ok(predictions) => format!("{} labels", predictions.predictions.len()),
            Err(error) => super::kind(&error.to_string()),
        }
    }
}

fn with_digest(directory: &Path, file: &str, bytes: &[u8]) {
    let path = directory.join("digests.json");
    let Ok(mut digests) = serde_json::from_slice::<Json>(&fs::read(&path).unwrap_or_default())
    else {
        return;
    };
    digests[file] = blake3::hash(bytes).to_hex().to_string().into();
    fs::write(path, digests.to_string()).unwrap();
}

#[test]
fn a_hostile_tokenizer_is_refused_with_one_clean_message() {
    let Checkpoint { site, .. } = Checkpoint::new();
    let hostile: Vec<_> = super::corpus("checkpoint")
        .into_iter()
        .filter(|(file, _)| file.to_string_lossy().contains("tokenizer-"))
        .collect();
    assert!(hostile.len() >= 3);
    for (file, input) in hostile {
        site.write("model/tokenizer.json", &input[4..]);
        let ended = site.run(&["predict", "model", "the bus is late, and the lamp is dark"]);
        assert_eq!(ended.code, 2, "{}: {}\n{}", file.display(), ended.out, ended.err);
        assert!(
            ended.err.contains("`tokenizer.json` cannot be used")
                && !ended.err.contains("panicked at"),
            "{}: {}",
            file.display(),
            ended.err
        );
        assert!(
            !ended.err.contains("report it") && !ended.err.contains("device"),
            "{}: {}",
            file.display(),
            ended.err
        );
    }
}
