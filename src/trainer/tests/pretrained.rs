//! Fine-tuning from a directory, and what is said about directories that cannot be used.

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::super::progress::Progress;
use super::super::vocabulary::train_tokenizer;
use super::super::weights::Weights;
use super::*;

/// A tiny BERT with a tokenizer for the fixture's words, and a study's directory around it.
struct Study {
    directory: TempDir,
}

impl Study {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("train.csv"), keyword_csv(120)).unwrap();
        let model = directory.path().join("bert");
        fs::create_dir(&model).unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/trainer/tests/golden/bert");
        for file in ["config.json", "model.safetensors"] {
            fs::copy(golden.join(file), model.join(file)).unwrap();
        }
        let texts = keyword_csv(120);
        let texts: Vec<&str> =
            texts.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
        let words =
            TokenizerArguments { kind: TokenizerKind::Word, vocab_size: 40, lowercase: true };
        fs::write(
            model.join("tokenizer.json"),
            train_tokenizer(&texts, &words, 12, &Progress::new(&|_, _, _| {}, 0))
                .unwrap()
                .to_string(false)
                .unwrap(),
        )
        .unwrap();
        fs::write(model.join("tokenizer_config.json"), "{\"model_max_length\": 12}").unwrap();
        Self { directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn model(&self) -> PathBuf {
        self.path().join("bert")
    }

    fn prepare(&self, data: Value) -> Result<PreparedData, TrainerError> {
        self.prepare_for(TaskKind::TextClassification, data)
    }

    fn prepare_for(&self, kind: TaskKind, data: Value) -> Result<PreparedData, TrainerError> {
        let mut all = json!({"train": "train.csv", "validation_split": 0.2, "max_length": 12});
        all.as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
        let data = arguments_of_data(self.path(), all);
        prepare(
            kind,
            &data,
            &TokenizerSource::Pretrained(self.model()),
            &self.path().join("cache"),
            &mut |_| {},
            &|_, _, _| {},
        )
    }

    /// What is wrong with the model as it is now.
    fn problem(&self) -> String {
        self.prepare(json!({})).unwrap_err().to_string()
    }

    fn edit_config(&self, edit: impl Fn(&mut Value)) {
        let path = self.model().join("config.json");
        let mut config = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        edit(&mut config);
        fs::write(path, config.to_string()).unwrap();
    }

    /// Rewrites the weights: what `edit` makes of each name, kind, shape and bytes.
    fn edit_weights(
        &self,
        edit: impl Fn(&str, &[usize], &[u8]) -> Option<(Dtype, Vec<usize>, Vec<u8>)>,
    ) {
        let path = self.model().join("model.safetensors");
        let bytes = fs::read(&path).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let edited: Vec<_> = tensors
            .iter()
            .filter_map(|(name, view)| {
                Some((name.to_owned(), edit(name, view.shape(), view.data())?))
            })
            .collect();
        let views = edited.iter().map(|(name, (kind, shape, bytes))| {
            (name, TensorView::new(*kind, shape.clone(), bytes).unwrap())
        });
        fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
    }
}

fn fine_tuning(study: &Study, values: Value) -> TrainerArguments {
    let mut all = json!({"model": study.model(), "learning_rate": 0.01, "num_train_epochs": 3, "per_device_train_batch_size": 8, "warmup_steps": 2});
    all.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
    TrainerArguments::resolve(&serde_json::from_value(all).unwrap()).unwrap()
}

fn job<'a>(
    arguments: &'a TrainerArguments,
    data: &'a PreparedData,
    directory: &'a Path,
) -> Job<'a> {
    Job {
        arguments,
        data,
        device: "cpu",
        seed: 7,
        step_unit: StepUnit::Epoch,
        milestones: Milestones { every: Some(1), at: vec![] },
        directory,
        start: Start::Fresh,
        until: None,
        reported: None,
        objective: Objective { metric: "eval_loss".to_owned(), maximize: false },
        rows_at_once: None,
    }
}

#[test]
fn a_pretrained_model_gets_a_new_head_learns_and_serves_again_as_a_model() {
    let study = Study::new();
    study.edit_config(|config| config["id2label"] = json!({"0": "joy", "1": "anger", "2": "fear"}));
    let data = study.prepare(json!({})).unwrap();
    assert!(
        data.findings().iter().any(|finding| finding.code == "new_head"),
        "labels of other names"
    );
    let arguments = fine_tuning(&study, json!({"num_train_epochs": 8}));
    let mut runner = Runner::default();
    assert_eq!(
        train(&job(&arguments, &data, &study.path().join("trial")), &mut runner).unwrap(),
        RunEnd::Finished
    );
    assert!(
        runner.logs.iter().any(|line| line.contains("a new head for 3 labels")),
        "{:?}",
        runner.logs
    );
    let last = &runner.reports.last().unwrap().1;
    assert!(last["eval_accuracy"] > 0.9, "{last:?}");

    let (_, checkpoint) = runner.checkpoints.last().unwrap();
    assert!(checkpoint.join("tokenizer_config.json").is_file());
    let config: Value =
        serde_json::from_slice(&fs::read(checkpoint.join("config.json")).unwrap()).unwrap();
    assert_eq!(
        (&config["architectures"][0], &config["problem_type"]),
        (&json!("BertForSequenceClassification"), &json!("single_label_classification"))
    );
    assert_eq!(config["id2label"], json!({"0": "negative", "1": "neutral", "2": "positive"}));

    // The same labels: the head is kept, and the first evaluation is as good as the last was.
    let (again, from) = (Study::new(), study.path().join("again"));
    fs::create_dir(&from).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(checkpoint.join(file), from.join(file)).unwrap();
        fs::copy(checkpoint.join(file), again.model().join(file)).unwrap();
    }
    let data = again.prepare(json!({})).unwrap();
    assert!(data.findings().iter().all(|finding| finding.code != "new_head"));
    let predicted = predict(
        &from,
        &["the good film".to_owned(), "a bad book".to_owned()],
        8,
        "cpu",
        &|_, _, _| {},
    )
    .unwrap();
    assert_eq!(
        predicted.iter().map(|text| text.labels[0].label.as_str()).collect::<Vec<_>>(),
        ["positive", "negative"]
    );
}

#[test]
fn fine_tuning_that_was_interrupted_goes_on_bit_for_bit_even_without_the_pretrained_weights() {
    let study = Study::new();
    let data = study.prepare(json!({})).unwrap();
    let arguments = fine_tuning(&study, json!({}));
    let mut whole = Runner::default();
    train(&job(&arguments, &data, &study.path().join("whole")), &mut whole).unwrap();
    let mut first = Runner { stop_after: Some(17), ..Runner::default() };
    let directory = study.path().join("parts");
    assert_eq!(
        train(&job(&arguments, &data, &directory), &mut first).unwrap(),
        RunEnd::Interrupted
    );
    fs::remove_dir_all(study.model()).unwrap();
    let (_, checkpoint) = first.checkpoints.last().unwrap().clone();
    let mut second = Runner::default();
    let resumed = Job { start: Start::Resume(&checkpoint), ..job(&arguments, &data, &directory) };
    assert_eq!(train(&resumed, &mut second).unwrap(), RunEnd::Finished);
    let weights = |runner: &Runner| {
        fs::read(runner.checkpoints.last().unwrap().1.join("model.safetensors")).unwrap()
    };
    assert!(weights(&whole) == weights(&second), "the same weights");
}

#[test]
fn half_precision_and_several_files_are_read() {
    let study = Study::new();
    let numbers = |study: &Study| {
        let weights = Weights::open(&study.model()).unwrap();
        weights
            .names()
            .map(|name| (name.to_owned(), weights.values(name).unwrap()))
            .collect::<Vec<_>>()
    };
    let whole = numbers(&study);
    study.edit_weights(|_, shape, bytes| {
        Some((
            Dtype::BF16,
            shape.to_vec(),
            bytes.chunks(4).flat_map(|word| [word[2], word[3]]).collect(),
        ))
    });
    for ((name, rounded), (_, exact)) in numbers(&study).iter().zip(&whole) {
        assert!(rounded.iter().zip(exact).all(|(a, b)| (a - b).abs() <= b.abs() / 128.0), "{name}");
    }
    study.prepare(json!({})).unwrap();

    let path = study.model().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut index = serde_json::Map::new();
    for (number, file) in ["one.safetensors", "two.safetensors"].into_iter().enumerate() {
        let half: Vec<_> = tensors.iter().filter(|(name, _)| name.len() % 2 == number).collect();
        index.extend(half.iter().map(|(name, _)| ((*name).to_owned(), json!(file))));
        fs::write(study.model().join(file), safetensors::serialize(half, None).unwrap()).unwrap();
    }
    fs::remove_file(&path).unwrap();
    fs::write(
        study.model().join("model.safetensors.index.json"),
        json!({"weight_map": index}).to_string(),
    )
    .unwrap();
    study.prepare(json!({"seed": 1})).unwrap();
    index.insert("classifier.bias".to_owned(), json!("../../elsewhere"));
    fs::write(
        study.model().join("model.safetensors.index.json"),
        json!({"weight_map": index}).to_string(),
    )
    .unwrap();
    assert!(
        study.problem().contains("`../../elsewhere`, which is not there"),
        "{}",
        study.problem()
    );
}

#[test]
fn tensors_that_are_missing_misshapen_or_of_unknown_layers_are_named() {
    let study = Study::new();
    study.edit_weights(|name, shape, bytes| {
        (!name.contains("layer.1.output.dense"))
            .then(|| (Dtype::F32, shape.to_vec(), bytes.to_vec()))
    });
    assert!(study.problem().contains("lacks tensors: `bert.encoder.layer.1.output.dense.weight`, `bert.encoder.layer.1.output.dense.bias`"));

    let study = Study::new();
    study.edit_config(|config| config["intermediate_size"] = json!(25));
    let problem = study.problem();
    assert!(
        problem.contains(
            "`bert.encoder.layer.0.intermediate.dense.weight` is [24, 16] and must be [25, 16]"
        ),
        "{problem}"
    );
    assert!(problem.contains("and 1 more"), "{problem}");

    let study = Study::new();
    study.edit_config(|config| config["num_hidden_layers"] = json!(1));
    assert!(
        study
            .problem()
            .contains("layers that its config.json does not describe: `bert.encoder.layer.1."),
        "{}",
        study.problem()
    );
}

#[test]
fn a_truncated_or_hostile_file_is_refused_before_memory_is_taken() {
    let study = Study::new();
    let path = study.model().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    assert!(
        study.problem().contains("`model.safetensors` is truncated or damaged"),
        "{}",
        study.problem()
    );
    let mut hostile = (1_u64 << 60).to_le_bytes().to_vec();
    hostile.extend(b"{}");
    fs::write(&path, hostile).unwrap();
    assert!(study.problem().contains("is truncated or damaged"));
    let header = br#"{"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,0]}}"#;
    let mut hostile = (header.len() as u64).to_le_bytes().to_vec();
    hostile.extend(header);
    fs::write(&path, hostile).unwrap();
    assert!(study.problem().contains("is truncated or damaged"));
    fs::remove_file(&path).unwrap();
    fs::write(study.model().join("pytorch_model.bin"), "").unwrap();
    assert!(study.problem().contains("its `pytorch_model.bin` must be converted"));
}

#[test]
fn what_does_not_fit_the_data_is_said_before_training() {
    let study = Study::new();
    study.edit_config(|config| config["model_type"] = json!("t5"));
    assert!(
        study.problem().contains(
            "`model_type` = \"t5\"; supported encoders are `hpsearch-encoder`, `modernbert`, `bert`"
        ),
        "{}",
        study.problem()
    );

    let study = Study::new();
    let problem = study.prepare(json!({"max_length": 13})).unwrap_err().to_string();
    assert!(
        problem.contains("reads at most 12 tokens, and `[data] max_length` is 13"),
        "{problem}"
    );

    let study = Study::new();
    study.edit_config(|config| config["model_type"] = json!("gpt2"));
    assert!(
        study.problem().contains("a decoder: `task = \"language-modeling\"` trains it"),
        "{}",
        study.problem()
    );
    study.edit_config(|config| {
        config.as_object_mut().unwrap().remove("model_type");
    });
    assert!(
        study.problem().contains("has no `model_type`; supported encoders are"),
        "{}",
        study.problem()
    );

    let study = Study::new();
    study.edit_config(|config| {
        config["quantization_config"] = json!({"quant_method": "gptq", "bits": 4})
    });
    assert!(
        study.problem().contains("has weights quantised by `gptq`, which is not supported"),
        "{}",
        study.problem()
    );

    let study = Study::new();
    study.edit_config(|config| config["layer_norm_eps"] = json!(-1));
    assert!(
        study.problem().contains("`layer_norm_eps` = -1, which is not in [0, 1)"),
        "{}",
        study.problem()
    );

    let study = Study::new();
    study.edit_config(|config| config["vocab_size"] = json!(10));
    assert!(study.problem().contains("`tokenizer.json` does not fit"), "{}", study.problem());

    study.edit_config(|config| config["hidden_act"] = json!("mish"));
    assert!(study.problem().contains("`hidden_act` = \"mish\""), "{}", study.problem());

    study.edit_config(|config| config["num_hidden_layers"] = json!(4_000_000_000_u64));
    assert!(study.problem().contains("`num_hidden_layers`"), "{}", study.problem());

    fs::remove_file(study.model().join("tokenizer.json")).unwrap();
    assert!(study.problem().contains("has no `tokenizer.json`"), "{}", study.problem());
    fs::remove_dir_all(study.model()).unwrap();
    assert!(study.problem().contains("there is no such directory"), "{}", study.problem());
}

#[test]
fn several_labels_and_numbers_are_learnt() {
    let study = Study::new();
    let rows = keyword_csv(120)
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').unwrap())
        .map(|(text, label)| (text.to_owned(), label.to_owned()))
        .collect::<Vec<_>>();
    let several: String = rows
        .iter()
        .map(|(text, label)| {
            let mut labels = vec![label.as_str()];
            labels.extend(text.contains("film").then_some("film"));
            labels.retain(|label| *label != "neutral");
            json!({"text": text, "label": labels}).to_string() + "\n"
        })
        .collect();
    fs::write(study.path().join("several.jsonl"), several).unwrap();
    let data = study
        .prepare_for(TaskKind::MultiLabelClassification, json!({"train": "several.jsonl"}))
        .unwrap();
    assert_eq!(data.labels(), ["film", "negative", "positive"]);
    assert!(data.label_counts(Split::Train).iter().all(|count| *count > 10));
    let arguments =
        fine_tuning(&study, json!({"task": "multi-label-classification", "num_train_epochs": 12}));
    let mut runner = Runner::default();
    train(&job(&arguments, &data, &study.path().join("several")), &mut runner).unwrap();
    let last = &runner.reports.last().unwrap().1;
    assert!(last["eval_micro_f1"] > 0.9 && last["eval_exact_match"] > 0.8, "{last:?}");

    let numbers: String = rows
        .iter()
        .map(|(text, label)| {
            format!(
                "{text},{}\n",
                ["negative", "neutral", "positive"].iter().position(|one| one == label).unwrap()
            )
        })
        .collect();
    fs::write(study.path().join("numbers.csv"), format!("text,label\n{numbers}")).unwrap();
    let data =
        study.prepare_for(TaskKind::TextRegression, json!({"train": "numbers.csv"})).unwrap();
    let arguments = fine_tuning(&study, json!({"task": "text-regression", "num_train_epochs": 12}));
    let mut runner = Runner::default();
    train(&job(&arguments, &data, &study.path().join("numbers")), &mut runner).unwrap();
    let last = &runner.reports.last().unwrap().1;
    assert!(last["eval_r2"] > 0.7 && last["eval_pearson"] > 0.8, "{last:?}");
    let (_, checkpoint) = runner.checkpoints.last().unwrap();
    let told = predict(
        checkpoint,
        &["the good film".to_owned(), "a bad book".to_owned()],
        8,
        "cpu",
        &|_, _, _| {},
    )
    .unwrap();
    assert!(told[0].labels[0].score > told[1].labels[0].score + 0.5);

    let problem = study.prepare_for(TaskKind::TextRegression, json!({})).unwrap_err().to_string();
    assert!(problem.contains("is no number"), "{problem}");
}

#[test]
fn trials_share_the_cached_outputs_of_frozen_layers_of_a_pretrained_model() {
    let study = Study::new();
    let data = study.prepare(json!({})).unwrap();
    let run = |values: Value, name: &str| {
        let (arguments, mut runner) = (fine_tuning(&study, values), Runner::default());
        train(&job(&arguments, &data, &study.path().join(name)), &mut runner).unwrap();
        let kept = runner.logs.iter().any(|line| line.contains("frozen layers are cached"));
        (kept, fs::read(runner.checkpoints.last().unwrap().1.join("model.safetensors")).unwrap())
    };
    let features = || {
        fs::read_dir(data.directory())
            .unwrap()
            .filter(|entry| {
                entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("features-")
            })
            .count()
    };
    let (first, weights) = run(json!({"freeze_layers": 1}), "first");
    assert!(first && features() == 1);
    assert_eq!(
        run(json!({"freeze_layers": 1}), "again"),
        (false, weights),
        "read from the disk, to the same weights"
    );
    assert!(run(json!({"freeze_layers": 2}), "deeper").0 && features() == 2, "of another depth");
    // A file that is not whole is made anew.
    let directory = fs::read_dir(data.directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.join("rows.f32").exists())
        .unwrap();
    fs::write(directory.join("rows.f32"), "torn").unwrap();
    let (one, other) =
        (run(json!({"freeze_layers": 1}), "one"), run(json!({"freeze_layers": 2}), "other"));
    assert!(one.0 != other.0, "one of them was made again");
    assert!(
        !run(json!({"freeze_layers": 1}), "one").0 && !run(json!({"freeze_layers": 2}), "other").0,
        "and kept"
    );
}

#[test]
fn a_model_whose_tokenizer_knows_more_than_it_does_labels_nothing() {
    let study = Study::new();
    let tokenizer = study.model().join("tokenizer.json");
    let mut larger: Value = serde_json::from_slice(&fs::read(&tokenizer).unwrap()).unwrap();
    larger["model"]["vocab"]["beyond"] = json!(40);
    fs::write(&tokenizer, larger.to_string()).unwrap();
    let problem = predict(&study.model(), &["beyond".to_owned()], 8, "cpu", &|_, _, _| {})
        .unwrap_err()
        .to_string();
    assert!(problem.contains("it has the token `beyond` with the number 40"), "{problem}");
}

#[test]
fn a_tokenizer_that_the_library_panics_over_is_an_error_that_names_its_file() {
    let study = Study::new();
    let path = study.model().join("tokenizer.json");
    let sound: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let hostile = [
        ("decoder", json!(5)),
        ("decoder", json!([])),
        ("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"})),
        ("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="})),
        ("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": 5})),
        ("normalizer", json!({"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"})),
        (
            "truncation",
            json!({"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 3}),
        ),
        (
            "truncation",
            json!({"direction": "Right", "max_length": 0, "strategy": "OnlySecond", "stride": 9}),
        ),
        (
            "post_processor",
            json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}], "pair": [], "special_tokens": {}}),
        ),
        (
            "added_tokens",
            json!([{"id": 4_000_000_000_u32, "content": "", "single_word": true, "lstrip": true, "rstrip": true, "normalized": true, "special": true}]),
        ),
        ("model", json!({"type": "Unigram", "unk_id": 7, "vocab": [["a", -1.0]]})),
        ("model", json!({"type": "Unigram", "unk_id": 0, "vocab": [["", "x"]]})),
        ("model", json!({"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]})),
    ];
    for (key, value) in hostile {
        let mut tokenizer = sound.clone();
        tokenizer[key] = value.clone();
        fs::write(&path, tokenizer.to_string()).unwrap();
        let texts = [
            "a good film of many words, longer than twelve of them are, so that it is cut"
                .to_owned(),
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac".to_owned(),
        ];
        let told = |what: &str, done: std::thread::Result<Result<(), String>>| {
            let done = done.unwrap_or_else(|_| panic!("{what} panics: {key} {value}"));
            if let Err(message) = done {
                assert!(message.contains("okenizer"), "{what}: {message}");
            }
        };
        told(
            "prepare",
            std::panic::catch_unwind(|| {
                study.prepare(json!({})).map(|_| ()).map_err(|error| error.to_string())
            }),
        );
        told(
            "predict",
            std::panic::catch_unwind(|| {
                predict(&study.model(), &texts, 8, "cpu", &|_, _, _| {})
                    .map(|_| ())
                    .map_err(|error| error.to_string())
            }),
        );
    }
}
