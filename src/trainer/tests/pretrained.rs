//! Fine-tuning of a pretrained model in a directory, and the errors about directories that cannot
//! be used.

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::super::prepared::Extra;
use super::super::progress::Progress;
use super::super::vocabulary::train_tokenizer;
use super::super::weights::Weights;
use super::golden::golden_directory;
use super::*;

/// A tiny BERT with a tokenizer for the fixture's words, and a study's directory around it.
struct Study {
    directory: TempDir,
}

impl Study {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let (csv, model) = (keyword_csv(120), directory.path().join("bert"));
        fs::write(directory.path().join("train.csv"), &csv).unwrap();
        fs::create_dir(&model).unwrap();
        for file in ["config.json", "model.safetensors"] {
            fs::copy(golden_directory("bert").join(file), model.join(file)).unwrap();
        }
        let texts: Vec<&str> = rows_of(&csv).map(|(text, _)| text).collect();
        let words =
            TokenizerArguments { kind: TokenizerKind::Word, vocab_size: 40, lowercase: true };
        let progress = Progress::new(&|_, _, _| {}, 0);
        let tokenizer = train_tokenizer(&texts, &words, 12, &[], &progress).unwrap();
        fs::write(model.join("tokenizer.json"), tokenizer.to_string(false).unwrap()).unwrap();
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
        let base = json!({"train": "train.csv", "validation_split": 0.2, "max_length": 12});
        let tokenizer = TokenizerSource::Pretrained(self.model());
        prepare_logged(self.path(), kind, merged(base, data), &tokenizer).0
    }

    #[track_caller]
    fn assert_problem(&self, part: &str) {
        assert_contains(&self.prepare(json!({})).unwrap_err().to_string(), part);
    }

    /// Replaces keys of `config.json`; null removes one.
    fn edit_config(&self, values: Value) {
        let path = self.model().join("config.json");
        fs::write(&path, merged(json_of(&path), values).to_string()).unwrap();
    }

    /// Rewrites the weights: `edit` gives dtype, shape and bytes of each tensor, or drops it.
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

/// Text and label of each row.
fn rows_of(csv: &str) -> impl Iterator<Item = (&str, &str)> {
    csv.lines().skip(1).map(|line| line.split_once(',').unwrap())
}

fn fine_tuning(study: &Study, values: Value) -> TrainerArguments {
    let base = json!({
        "model": study.model(), "learning_rate": 0.01, "num_train_epochs": 3,
        "per_device_train_batch_size": 8, "warmup_steps": 2,
    });
    resolve(merged(base, values))
}

#[test]
fn a_pretrained_model_gets_a_new_head_learns_and_serves_again_as_a_model() {
    let has_new_head =
        |data: &PreparedData| data.findings().iter().any(|finding| finding.code == "new_head");
    let study = Study::new();
    study.edit_config(json!({"id2label": {"0": "joy", "1": "anger", "2": "fear"}}));
    let data = study.prepare(json!({})).unwrap();
    assert!(has_new_head(&data), "labels of other names");
    let arguments = fine_tuning(&study, json!({"num_train_epochs": 8}));
    let runner = trained(&job(&arguments, &data, &study.path().join("trial")));
    assert!(runner.has_logged("a new head for 3 labels"), "{:?}", runner.logs);
    assert!(runner.last_report()["eval_accuracy"] > 0.9, "{:?}", runner.last_report());

    let checkpoint = runner.last_checkpoint();
    assert!(checkpoint.join("tokenizer_config.json").is_file());
    let config = json_of(&checkpoint.join("config.json"));
    assert_eq!(config["architectures"][0], "BertForSequenceClassification");
    assert_eq!(config["problem_type"], "single_label_classification");
    assert_eq!(config["id2label"], json!({"0": "negative", "1": "neutral", "2": "positive"}));

    // The same labels: the head is kept.
    let (again, from) = (Study::new(), study.path().join("again"));
    fs::create_dir(&from).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(checkpoint.join(file), from.join(file)).unwrap();
        fs::copy(checkpoint.join(file), again.model().join(file)).unwrap();
    }
    assert!(!has_new_head(&again.prepare(json!({})).unwrap()));
    assert_eq!(best_labels(&from, &["the good film", "a bad book"]), ["positive", "negative"]);
}

#[test]
fn interrupted_fine_tuning_resumes_bit_for_bit_even_without_the_pretrained_weights() {
    let study = Study::new();
    let data = study.prepare(json!({})).unwrap();
    let arguments = fine_tuning(&study, json!({}));
    let whole = trained(&job(&arguments, &data, &study.path().join("whole")));
    let directory = study.path().join("parts");
    let first = interrupted(&job(&arguments, &data, &directory), 17);
    fs::remove_dir_all(study.model()).unwrap();
    let start = Start::Resume(first.last_checkpoint());
    let second = trained(&TrainingJob { start, ..job(&arguments, &data, &directory) });
    assert!(whole.weights() == second.weights(), "the same weights");
}

#[test]
fn half_precision_and_several_files_are_read() {
    let study = Study::new();
    let numbers = || -> Vec<(String, Vec<f32>)> {
        let weights = Weights::open(&study.model()).unwrap();
        weights.names().map(|name| (name.to_owned(), weights.values(name).unwrap())).collect()
    };
    let whole = numbers();
    study.edit_weights(|_, shape, bytes| {
        let halves = bytes.chunks(4).flat_map(|word| [word[2], word[3]]).collect();
        Some((Dtype::BF16, shape.to_vec(), halves))
    });
    for ((name, rounded), (_, exact)) in numbers().iter().zip(&whole) {
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
    let path = study.model().join("model.safetensors.index.json");
    fs::write(&path, json!({"weight_map": index}).to_string()).unwrap();
    study.prepare(json!({"seed": 1})).unwrap();
    index.insert("classifier.bias".to_owned(), json!("../../elsewhere"));
    fs::write(&path, json!({"weight_map": index}).to_string()).unwrap();
    study.assert_problem("`../../elsewhere`, which does not exist");
}

#[test]
fn tensors_that_are_missing_misshapen_or_of_unknown_layers_are_named() {
    let study = Study::new();
    study.edit_weights(|name, shape, bytes| {
        (!name.contains("layer.1.output.dense"))
            .then(|| (Dtype::F32, shape.to_vec(), bytes.to_vec()))
    });
    study.assert_problem(
        "lacks tensors: `bert.encoder.layer.1.output.dense.weight`, \
        `bert.encoder.layer.1.output.dense.bias`",
    );

    let study = Study::new();
    study.edit_config(json!({"intermediate_size": 25}));
    study.assert_problem(
        "`bert.encoder.layer.0.intermediate.dense.weight` is [24, 16] and must be [25, 16]",
    );
    study.assert_problem("and 1 more");

    let study = Study::new();
    study.edit_config(json!({"num_hidden_layers": 1}));
    study.assert_problem("layers that its config.json does not describe: `bert.encoder.layer.1.");
}

#[test]
fn long_texts_are_cut_on_the_side_that_the_tokenizer_names() {
    let study = Study::new();
    let ids = |max_length: usize| -> Vec<Vec<u32>> {
        let data = study.prepare(json!({"max_length": max_length})).unwrap();
        let rows = data.split(Split::Train);
        (0..rows.len()).map(|row| rows.ids(row).collect()).collect()
    };
    let (whole, right) = (ids(12), ids(4));
    let settings = study.model().join("tokenizer_config.json");
    fs::write(settings, "{\"truncation_side\": \"left\"}").unwrap();
    let left = ids(4);
    assert!(whole.iter().all(|row| row.len() > 4));
    for (row, whole) in whole.iter().enumerate() {
        let (begin, end) = (whole[0], whole.len() - 1);
        assert_eq!(right[row], [begin, whole[1], whole[2], whole[end]]);
        assert_eq!(left[row], [begin, whole[end - 2], whole[end - 1], whole[end]]);
    }
}

#[test]
fn a_truncated_or_hostile_file_is_refused_before_memory_is_taken() {
    let study = Study::new();
    let path = study.model().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let header = concat!(
        r#"{"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"#,
        r#""data_offsets":[0,0]}}"#
    )
    .as_bytes();
    for hostile in [
        bytes[..bytes.len() - 100].to_vec(),
        [&(1_u64 << 60).to_le_bytes()[..], b"{}"].concat(),
        [&(header.len() as u64).to_le_bytes()[..], header].concat(),
    ] {
        fs::write(&path, hostile).unwrap();
        study.assert_problem("`model.safetensors` is truncated or damaged");
    }
    fs::remove_file(&path).unwrap();
    fs::write(study.model().join("pytorch_model.bin"), "").unwrap();
    study.assert_problem("its `pytorch_model.bin` must be converted");
}

#[test]
fn a_model_that_does_not_fit_the_data_is_refused_before_training() {
    for (values, expected) in [
        (
            json!({"model_type": "t5"}),
            "`model_type` = \"t5\"; supported encoders are `hpsearch-encoder`, `modernbert`, \
             `bert`",
        ),
        (json!({"model_type": "gpt2"}), "a decoder: `task = \"language-modeling\"` trains it"),
        (json!({"model_type": null}), "has no `model_type`; supported encoders are"),
        (
            json!({"quantization_config": {"quant_method": "gptq", "bits": 4}}),
            "has weights quantised by `gptq`, which is not supported",
        ),
        (json!({"layer_norm_eps": -1}), "`layer_norm_eps` = -1, which is not in [0, 1)"),
        (json!({"vocab_size": 10}), "`tokenizer.json` does not fit"),
        (json!({"hidden_act": "mish"}), "`hidden_act` = \"mish\""),
        (json!({"num_hidden_layers": 4_000_000_000_u64}), "`num_hidden_layers`"),
    ] {
        let study = Study::new();
        study.edit_config(values);
        study.assert_problem(expected);
    }
    let study = Study::new();
    let problem = study.prepare(json!({"max_length": 13})).unwrap_err().to_string();
    assert_contains(&problem, "reads at most 12 tokens, and `[data] max_length` is 13");
    fs::remove_file(study.model().join("tokenizer.json")).unwrap();
    study.assert_problem("has no `tokenizer.json`");
    let tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "e", "f"];
    fs::write(study.model().join("vocab.txt"), tokens.join("\n")).unwrap();
    study.edit_config(json!({"vocab_size": 10}));
    study.assert_problem("the tokenizer in `vocab.txt` does not fit: it has the token `f`");
    fs::remove_dir_all(study.model()).unwrap();
    study.assert_problem("there is no such directory");
}

#[test]
fn a_head_is_kept_for_the_same_labels_in_its_order_and_not_for_another_task() {
    let has_new_head =
        |data: &PreparedData| data.findings().iter().any(|finding| finding.code == "new_head");
    let study = Study::new();
    let names = ["positive", "negative", "neutral"];
    study.edit_config(json!({"id2label": {"0": names[0], "1": names[1], "2": names[2]}}));
    let data = study.prepare(json!({})).unwrap();
    assert_eq!(data.labels(), names, "in the model's order");
    assert!(!has_new_head(&data));
    let counts = data.label_counts(Split::Train);
    assert!(counts.iter().all(|count| *count > 30), "{counts:?}");
    // Weights of the same names and shapes that tell tokens apart.
    study.edit_config(json!({"architectures": ["BertForTokenClassification"]}));
    assert!(has_new_head(&study.prepare(json!({})).unwrap()));
}

#[test]
fn several_labels_and_numbers_are_learnt() {
    let (study, csv) = (Study::new(), keyword_csv(120));
    let run = |kind: TaskKind, task: &str, file: &str, content: String| {
        fs::write(study.path().join(file), content).unwrap();
        let data = study.prepare_for(kind, json!({"train": file})).unwrap();
        let arguments = fine_tuning(&study, json!({"task": task, "num_train_epochs": 12}));
        (trained(&job(&arguments, &data, &study.path().join(task))), data)
    };
    let several = rows_of(&csv).map(|(text, label)| {
        let mut labels = vec![label];
        labels.extend(text.contains("film").then_some("film, new"));
        labels.retain(|label| *label != "neutral");
        json!({"text": text, "label": labels}).to_string() + "\n"
    });
    let kind = TaskKind::MultiLabelClassification;
    let (runner, data) =
        run(kind, "multi-label-classification", "several.jsonl", several.collect());
    assert_eq!(data.labels(), ["film, new", "negative", "positive"], "lists are not cut at commas");
    assert!(data.label_counts(Split::Train).iter().all(|count| *count > 10));
    let last = runner.last_report();
    assert!(last["eval_micro_f1"] > 0.9 && last["eval_exact_match"] > 0.8, "{last:?}");

    let numbers: String = rows_of(&csv)
        .map(|(text, label)| {
            let labels = ["negative", "neutral", "positive"];
            format!("{text},{}\n", labels.iter().position(|one| *one == label).unwrap())
        })
        .collect();
    let numbers = format!("text,label\n{numbers}");
    let (runner, _) = run(TaskKind::TextRegression, "text-regression", "numbers.csv", numbers);
    let last = runner.last_report();
    assert!(last["eval_r2"] > 0.7 && last["eval_pearson"] > 0.8, "{last:?}");
    let predictions =
        predicted(runner.last_checkpoint(), &["the good film", "a bad book"]).unwrap();
    assert!(predictions[0].labels()[0].score > predictions[1].labels()[0].score + 0.5);

    let problem = study.prepare_for(TaskKind::TextRegression, json!({})).unwrap_err().to_string();
    assert_contains(&problem, "is not a number");
}

#[test]
fn pairs_of_texts_are_told_apart_by_their_token_types() {
    let directory = TempDir::new().unwrap();
    // The label says which of the two texts has the word "good".
    let fillers = ["the", "a", "film", "book", "was"];
    let rows = (0..200).map(|row| {
        let text = |number: usize| {
            let words = (0..1 + (row + number) % 4).map(|word| fillers[(row * 3 + word) % 5]);
            let keyword = (row % 2 == number).then_some("good");
            words.chain(keyword).collect::<Vec<_>>().join(" ")
        };
        let label = ["first", "second"][row % 2];
        json!({"premise": text(0), "hypothesis": text(1), "label": label}).to_string()
    });
    let rows = rows.collect::<Vec<_>>().join("\n");
    fs::write(directory.path().join("train.jsonl"), rows).unwrap();
    let values = json!({
        "train": "train.jsonl", "text": "premise", "text_pair": "hypothesis",
        "validation_split": 0.2, "max_length": 12,
    });
    let data = prepare_rows(directory.path(), values).unwrap();
    let types = data.extras(Extra::TokenTypes, Split::Train).unwrap();
    // [CLS] the good [SEP] the a [SEP]
    assert_eq!(types.ids(0).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1]);
    let arguments = arguments(json!({"model.model_type": "bert", "num_train_epochs": 10}));
    let runner = trained(&job(&arguments, &data, &directory.path().join("run")));
    let last = runner.last_report();
    assert!(last["eval_accuracy"] > 0.95 && last["eval_matthews_correlation"] > 0.9, "{last:?}");
    let checkpoint = runner.last_checkpoint();
    let inputs = &json_of(&checkpoint.join("tokenizer_config.json"))["model_input_names"];
    assert_eq!(inputs, &json!(["input_ids", "token_type_ids", "attention_mask"]));
    let [texts, pairs] = [["a good film", "a book"], ["the book", "the good film"]]
        .map(|texts| texts.map(str::to_owned));
    let inputs =
        PredictionInputs { texts: &texts, pairs: Some(&pairs), writing: WritingOptions::default() };
    let predictions = predict(checkpoint, inputs, 1, "cpu", &|_, _, _| {}).unwrap().predictions;
    let best = predictions.iter().map(|one| one.labels()[0].label.as_str());
    assert_eq!(best.collect::<Vec<_>>(), ["first", "second"]);
    // With [CLS] and two [SEP], nine tokens are looked at, and one more is not.
    let longer = ["a a a a a", "a a a a"].map(str::to_owned);
    let pairs = ["a a a a a", "a a a a a"].map(str::to_owned);
    let inputs = PredictionInputs { texts: &longer, pairs: Some(&pairs), ..inputs };
    let said = predict(checkpoint, inputs, 2, "cpu", &|_, _, _| {}).unwrap();
    assert_eq!((said.predictions.len(), said.truncated, said.max_length), (2, 1, 12));
}

#[test]
fn trials_share_the_cached_outputs_of_frozen_layers_of_a_pretrained_model() {
    let study = Study::new();
    let data = study.prepare(json!({})).unwrap();
    let run = |layers: usize, name: &str| {
        let arguments = fine_tuning(&study, json!({"freeze_layers": layers}));
        let runner = trained(&job(&arguments, &data, &study.path().join(name)));
        (runner.has_logged(" are cached: "), runner.weights())
    };
    let features = || -> Vec<PathBuf> {
        let entries = fs::read_dir(data.directory()).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| path.join("rows.f32")).filter(|path| path.exists()).collect()
    };
    let (is_computed, weights) = run(1, "first");
    assert!(is_computed && features().len() == 1);
    assert!(run(1, "again") == (false, weights), "read from the disk, to the same weights");
    assert!(run(2, "deeper").0 && features().len() == 2, "of another depth");
    // A damaged file is computed again.
    fs::write(&features()[0], "torn").unwrap();
    assert!(run(1, "one").0 != run(2, "other").0, "one of them was computed again");
    assert!(!run(1, "one").0 && !run(2, "other").0, "and kept");
}

#[test]
fn weights_that_are_no_numbers_are_refused_before_anything_is_trained() {
    let study = Study::new();
    let data = study.prepare(json!({})).unwrap();
    let arguments = fine_tuning(&study, json!({}));
    check_training(&arguments, &data).unwrap();
    let damaged = "bert.encoder.layer.0.output.dense.weight";
    study.edit_weights(|name, shape, bytes| {
        let mut bytes = bytes.to_vec();
        if name == damaged {
            bytes[4..8].copy_from_slice(&f32::NAN.to_le_bytes());
        }
        Some((Dtype::F32, shape.to_vec(), bytes))
    });
    let problem = check_training(&arguments, &data).unwrap_err().to_string();
    assert_contains(&problem, &format!("`{damaged}` that are infinite or NaN"));
}

#[test]
fn texts_without_a_token_of_their_own_are_found() {
    let study = Study::new();
    let csv = fs::read_to_string(study.path().join("train.csv")).unwrap();
    let blank = format!("{csv}\u{200b},neutral\n");
    fs::write(study.path().join("train.csv"), blank).unwrap();
    let data = study.prepare(json!({"validation": "train.csv", "validation_split": null})).unwrap();
    let messages: Vec<&str> =
        data.findings().iter().map(|finding| finding.message.as_str()).collect();
    let expected = "1 of 121 train texts have no token besides special ones";
    assert!(messages.iter().any(|message| message.starts_with(expected)), "{messages:?}");
}

#[test]
fn a_tokenizer_with_more_tokens_than_the_model_is_refused() {
    let study = Study::new();
    let tokenizer = study.model().join("tokenizer.json");
    let mut larger = json_of(&tokenizer);
    larger["model"]["vocab"]["beyond"] = json!(40);
    fs::write(&tokenizer, larger.to_string()).unwrap();
    let problem = predicted(&study.model(), &["beyond"]).unwrap_err().to_string();
    assert_contains(&problem, "it has the token `beyond` with the number 40");
}

#[test]
fn a_tokenizer_that_the_library_panics_over_is_an_error_that_names_its_file() {
    let study = Study::new();
    let path = study.model().join("tokenizer.json");
    let sound = json_of(&path);
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
            json!({
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}], "pair": [],
                "special_tokens": {},
            }),
        ),
        (
            "added_tokens",
            json!([
                {
                    "id": 4_000_000_000_u32, "content": "", "single_word": true, "lstrip": true,
                    "rstrip": true, "normalized": true, "special": true,
                },
            ]),
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
            "a good film of many words, longer than twelve of them are, so that it is cut",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac",
        ];
        let no_panic = |what: &str, call: &dyn Fn() -> Result<(), TrainerError>| {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
            let done = done.unwrap_or_else(|_| panic!("{what} panics: {key} {value}"));
            if let Err(error) = done {
                assert_contains(&error.to_string(), "okenizer");
            }
        };
        no_panic("prepare", &|| study.prepare(json!({})).map(|_| ()));
        no_panic("predict", &|| predicted(&study.model(), &texts).map(|_| ()));
    }
}
