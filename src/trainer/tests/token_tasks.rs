//! Token classification and masked language modeling: their data, and runs from scratch.

use super::super::prepared::{Extra, NO_LABEL};
use super::super::tagged_words::spaced;
use super::super::task::{Draw, MicroBatch, step_targets};
use super::super::tasks::new_model;
use super::data::problem_with;
use super::*;

const KIND: TaskKind = TaskKind::TokenClassification;

/// Rows in which names follow titles, as lists of JSON.
fn names(rows: usize) -> String {
    let (firsts, lasts) = (["Ada", "Grace", "Alan"], ["Lovelace", "Hopper", "Turing"]);
    let row = |row: usize| {
        let mut words = vec![["yesterday", "today"][row % 2]];
        let mut tags = vec!["O"];
        words.extend(["Dr", firsts[row % 3], lasts[row / 3 % 3], "went", "to"]);
        tags.extend(["O", "B-PER", "I-PER", "O", "O"]);
        words.push(["Rome", "Paris", "Oslo"][row / 2 % 3]);
        tags.push("B-LOC");
        json!({"tokens": words, "ner_tags": tags}).to_string() + "\n"
    };
    (0..rows).map(row).collect()
}

fn named(values: Value) -> Value {
    merged(json!({"train": "train.jsonl", "text": "tokens", "label": "ner_tags"}), values)
}

fn prepare_in(directory: &TempDir, values: Value, tokenizer: &TokenizerSource) -> PreparedData {
    prepare_logged(directory.path(), KIND, named(values), tokenizer).0.unwrap()
}

fn labels_of(data: &PreparedData, row: usize) -> Vec<u32> {
    data.extras(Extra::Labels, Split::Train).unwrap().ids(row).collect()
}

#[test]
fn validation_rows_without_entities_are_found() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("train.jsonl"), names(20)).unwrap();
    let source = tokenizer(TokenizerKind::WordPiece, 90, false);
    let arguments = arguments(json!({"task": "token-classification"}));
    let undefined = |row: Value| {
        fs::write(directory.path().join("v.jsonl"), row.to_string()).unwrap();
        let values = json!({"validation": "v.jsonl", "max_length": 32});
        undefined_metrics(&arguments, &prepare_in(&directory, values, &source))
    };
    let none = undefined(json!({"tokens": ["by", "Rome"], "ner_tags": ["O", "O"]})).unwrap();
    assert!(none.names.contains(&"eval_f1") && none.why.contains("but `O`"), "{none:?}");
    assert_eq!(undefined(json!({"tokens": ["by", "Rome"], "ner_tags": ["O", "B-LOC"]})), None);
}

#[test]
fn entities_are_learnt_resumed_and_found_in_texts() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("train.jsonl"), names(120)).unwrap();
    let source = tokenizer(TokenizerKind::WordPiece, 90, false);
    let data = prepare_in(&directory, json!({"max_length": 32}), &source);
    assert_eq!(data.labels(), ["B-LOC", "B-PER", "I-PER", "O"]);
    let arguments = arguments(json!({"task": "token-classification", "num_train_epochs": 8}));
    let path = directory.path().join("run");
    let runner = trained(&job(&arguments, &data, &path));
    let last = runner.last_report();
    assert!(last["eval_f1"] > 0.95 && last["eval_accuracy"] > 0.95, "{last:?}");
    let evaluated = evaluated(runner.last_checkpoint(), &data);
    assert!((evaluated["eval_f1"] - last["eval_f1"]).abs() < 1e-9);

    let stopped = interrupted(&job(&arguments, &data, &directory.path().join("stopped")), 20);
    let (_, checkpoint) = stopped.checkpoints.last().unwrap();
    let rest = directory.path().join("rest");
    let resumed = TrainingJob { start: Start::Resume(checkpoint), ..job(&arguments, &data, &rest) };
    assert_eq!(trained(&resumed).weights(), runner.weights(), "bit for bit");

    let text = "today Dr Ada Hopper went to  Oslo";
    let predictions = predicted(runner.last_checkpoint(), &[text, "", "went"]).unwrap();
    let [Prediction::Entities(found), Prediction::Entities(none), _] = &predictions[..] else {
        panic!("{predictions:?}")
    };
    let shown = |entity: &Entity| (entity.entity_group.clone(), entity.word.clone(), entity.start);
    let expected = [("PER", "Ada Hopper", 9), ("LOC", "Oslo", 29)];
    let expected = expected.map(|(kind, word, at)| (kind.to_owned(), word.to_owned(), at));
    assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected);
    assert!(found.iter().all(|entity| entity.score > 0.5 && entity.score <= 1.0));
    assert!(none.is_empty());
    let config = json_of(&runner.last_checkpoint().join("config.json"));
    assert_eq!(config["architectures"], json!(["HpsearchEncoderForTokenClassification"]));
    assert_eq!(config["id2label"]["1"], "B-PER");
    assert!(config["problem_type"].is_null());
}

#[test]
fn the_first_token_of_a_word_has_its_label_and_the_others_if_asked_for() {
    let directory = TempDir::new().unwrap();
    // Single letters, so that a word has as many tokens as letters.
    let row = json!({"tokens": ["ab", "c"], "ner_tags": ["B-X", "I-X"]}).to_string();
    let rows: String = (0..10).map(|_| row.clone() + "\n").collect();
    fs::write(directory.path().join("train.jsonl"), rows).unwrap();
    let source = tokenizer(TokenizerKind::WordPiece, 8, false);
    let data = prepare_in(&directory, json!({"max_length": 16}), &source);
    assert_eq!(labels_of(&data, 0), [NO_LABEL, 0, NO_LABEL, 1, NO_LABEL]);
    let all = prepare_in(&directory, json!({"max_length": 16, "label_all_tokens": true}), &source);
    assert_ne!(all.digest(), data.digest());
    assert_eq!(labels_of(&all, 0), [NO_LABEL, 0, 1, 1, NO_LABEL]);
    // What is cut has no label.
    let short = prepare_in(&directory, json!({"max_length": 4}), &source);
    assert_eq!(labels_of(&short, 0), [NO_LABEL, 0, NO_LABEL, NO_LABEL]);
}

#[test]
fn words_and_labels_may_stand_in_cells_between_spaces() {
    let directory = TempDir::new().unwrap();
    let csv = "text,label\n".to_owned() + &"the New York bus,O B-LOC I-LOC O\n".repeat(10);
    fs::write(directory.path().join("train.csv"), csv).unwrap();
    let (values, source) = (json!({"train": "train.csv"}), words());
    let data = prepare_logged(directory.path(), KIND, values, &source).0.unwrap();
    assert_eq!(data.labels(), ["B-LOC", "I-LOC", "O"]);
    assert_eq!(labels_of(&data, 0), [NO_LABEL, 2, 0, 1, 2, NO_LABEL]);
    // Words in lists may hold spaces and line breaks.
    let row = json!({"tokens": ["New York\nCity"], "ner_tags": ["LOC"]}).to_string();
    let other = json!({"tokens": ["bus"], "ner_tags": ["O"]}).to_string();
    let rows: String = (0..20).map(|_| format!("{row}\n{other}\n")).collect();
    fs::write(directory.path().join("train.jsonl"), rows).unwrap();
    let data = prepare_in(&directory, json!({"validation": "train.jsonl"}), &source);
    assert_eq!(labels_of(&data, 0), [NO_LABEL, 0, NO_LABEL, NO_LABEL, NO_LABEL]);
}

#[test]
fn words_without_their_labels_are_problems_of_their_rows() {
    let problem = |rows: &[Value]| {
        let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let values = named(json!({"validation": "train.jsonl"}));
        problem_with(&[("train.jsonl", rows.as_bytes())], KIND, values, &words())
    };
    let fine = json!({"tokens": ["a", "b"], "ner_tags": ["O", "X"]});
    let said = problem(&[fine.clone(), json!({"tokens": ["a", "b", "c"], "ner_tags": ["O", "X"]})]);
    let expected = "train.jsonl:2: 3 words in column `tokens` and 2 labels in column `ner_tags`";
    assert!(said.starts_with(expected), "{said}");
    let said = problem(&[fine.clone(), json!({"tokens": ["a", "b"], "ner_tags": ["O", ""]})]);
    assert!(said.starts_with("train.jsonl:2: a label in column `ner_tags` is empty"), "{said}");
    let said = problem(&[json!({"tokens": ["a", "b"], "ner_tags": ["O", "O"]})]);
    assert!(said.starts_with("train.jsonl: all words have the label `O`"), "{said}");
    let said = problem(&[fine.clone(), json!({"tokens": [["a"]], "ner_tags": ["O"]})]);
    assert!(said.starts_with("train.jsonl:2: `tokens` is `[[\"a\"]]`, not text"), "{said}");
    let said = problem(&[fine.clone(), json!({"tokens": "['a', 'b']", "ner_tags": "['O', 'X']"})]);
    let expected = "train.jsonl:2: columns `tokens` and `ner_tags` hold lists in brackets";
    assert!(said.starts_with(expected), "{said}");
    let values = named(json!({"validation": "v.jsonl"}));
    let other = json!({"tokens": ["a"], "ner_tags": ["Y"]}).to_string();
    let files = [("train.jsonl", fine.to_string()), ("v.jsonl", other)];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_bytes()));
    let said = problem_with(&files, KIND, values, &words());
    let expected =
        "v.jsonl:1: label `Y` occurs in the validation rows but not in the training rows";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn byte_level_tokenizers_put_a_space_before_each_word() {
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {
                "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                "use_regex": true,
            },
        ]},
        "post_processor": null, "decoder": null,
        "model": {
            "type": "BPE", "vocab": {"a": 0, "\u{120}": 1, "\u{120}a": 2},
            "merges": [["\u{120}", "a"]],
        },
    });
    let tokenizer = tokenizers::Tokenizer::from_bytes(file.to_string().as_bytes()).unwrap();
    let ids = |tokenizer: &tokenizers::Tokenizer| {
        tokenizer.encode(vec!["a", "a"], false).unwrap().get_ids().to_vec()
    };
    assert_eq!(ids(&tokenizer), [0, 0]);
    assert_eq!(ids(&spaced(tokenizer).unwrap()), [2, 2]);
}

#[test]
fn a_step_counts_labelled_tokens_in_all_its_micro_batches() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("train.jsonl"), names(40)).unwrap();
    let data = prepare_in(&directory, json!({"max_length": 32}), &words());
    let arguments = arguments(json!({
        "task": "token-classification", "model.dropout": 0.0, "model.attention_dropout": 0.0,
    }));
    let model = new_model(KIND, &arguments.model, &data).unwrap();
    let (rows, draw) = ([0, 1, 2, 3, 4, 5], Draw::default());
    assert_eq!(step_targets(&*model, &data, rows.into_iter(), draw), 6 * 7);
    let device = burn::tensor::Device::flex();
    let values = model.parameters().initial_values(1, &device);
    let loss = |chosen: &[usize], all: &[usize]| {
        let whole = MicroBatch::whole_step(&*model, &data, all);
        let context = super::super::layers::ForwardContext::evaluation(&values, &device);
        let loss = model.forward_loss(&context, &MicroBatch { chosen, ..whole });
        f64::from(super::super::parameters::host(loss).unwrap()[0])
    };
    let parts = loss(&rows[..1], &rows) + loss(&rows[1..], &rows);
    assert!((parts - loss(&rows, &rows)).abs() < 1e-6);
}

#[test]
fn hidden_tokens_are_learnt_resumed_and_told() {
    let directory = TempDir::new().unwrap();
    // The third word follows from the first.
    let rows: String = (0..160)
        .map(|row| {
            format!(
                "{}\n",
                [["sun", "shines", "warm"], ["snow", "falls", "cold"]][row % 2].join(" ")
            )
        })
        .collect();
    fs::write(directory.path().join("train.csv"), format!("text\n{rows}")).unwrap();
    let kind = TaskKind::MaskedLanguageModeling;
    let values = json!({"train": "train.csv", "max_length": 8});
    let data = prepare_logged(directory.path(), kind, values, &words()).0.unwrap();
    assert_eq!(data.mask(), Some(4));
    let arguments = arguments(json!({
        "task": "masked-language-modeling", "num_train_epochs": 40, "model.model_type": "bert",
        "mlm_probability": 0.3,
        "label_smoothing_factor": 0.0, "learning_rate": 0.005, "model.hidden_size": 32,
        "model.dropout": 0.0, "model.attention_dropout": 0.0,
    }));
    let runner = trained(&job(&arguments, &data, &directory.path().join("run")));
    let last = runner.last_report();
    assert!(last["eval_accuracy"] > 0.8 && last["eval_perplexity"] < 2.5, "{last:?}");
    assert!((last["eval_loss"].exp() - last["eval_perplexity"]).abs() < 1e-9);
    let evaluated = evaluated(runner.last_checkpoint(), &data);
    assert!(
        (evaluated["eval_loss"] - last["eval_loss"]).abs() < 1e-9,
        "the same tokens are hidden"
    );

    let stopped = interrupted(&job(&arguments, &data, &directory.path().join("stopped")), 25);
    let (_, checkpoint) = stopped.checkpoints.last().unwrap();
    let rest = directory.path().join("rest");
    let resumed = TrainingJob { start: Start::Resume(checkpoint), ..job(&arguments, &data, &rest) };
    assert_eq!(trained(&resumed).weights(), runner.weights(), "bit for bit");

    let checkpoint = runner.last_checkpoint();
    let predictions = predicted(checkpoint, &["sun shines [MASK]", "[MASK] falls [MASK]"]).unwrap();
    let best = |prediction: &Prediction| match prediction {
        Prediction::Masks(masks) => masks.iter().map(|told| told[0].label.clone()).collect(),
        _ => Vec::new(),
    };
    assert_eq!(best(&predictions[0]), ["warm"]);
    assert_eq!(best(&predictions[1]), ["snow", "cold"]);
    let none = predicted(checkpoint, &["sun shines", "sun [MASK]"]).unwrap();
    assert_eq!(none[0], Prediction::Masks(Vec::new()));
    assert_eq!(best(&none[1]).len(), 1);
    assert_eq!(json_of(&checkpoint.join("tokenizer_config.json"))["mask_token"], "[MASK]");
    let config = json_of(&checkpoint.join("config.json"));
    assert_eq!(config["architectures"], json!(["BertForMaskedLM"]));
}

#[test]
fn long_texts_are_cut_into_rows_and_none_of_them_is_lost() {
    let directory = TempDir::new().unwrap();
    let text: String = (0..50).map(|word| format!("w{} ", word % 7)).collect();
    fs::write(directory.path().join("train.txt"), &text).unwrap();
    fs::write(directory.path().join("valid.txt"), "w1 w2 w3").unwrap();
    let values = json!({"train": "train.txt", "validation": "valid.txt", "max_length": 12});
    let kind = TaskKind::MaskedLanguageModeling;
    let data = prepare_logged(directory.path(), kind, values, &words()).0.unwrap();
    let rows = data.split(Split::Train);
    let words = data.extras(Extra::Words, Split::Train).unwrap();
    assert_eq!(rows.len(), 5);
    for row in 0..5 {
        let ids: Vec<u32> = rows.ids(row).collect();
        assert_eq!((ids.len(), ids[0], ids[11]), (12, 2, 3));
        let words: Vec<u32> = words.ids(row).collect();
        assert_eq!((words[0], words[11]), (NO_LABEL, NO_LABEL));
        assert_eq!(words[1] as usize, 10 * row);
    }
}

#[test]
fn parameters_are_the_tensors_that_transformers_writes() {
    for name in
        ["bert-masked", "bert-tokens", "modernbert-masked", "electra-masked", "albert-masked"]
    {
        let source = super::golden::golden_directory(name);
        let model = super::super::tasks::read_model(super::golden::config_of(&source)).unwrap();
        let file = fs::read(source.join("model.safetensors")).unwrap();
        let file = safetensors::SafeTensors::deserialize(&file).unwrap();
        let mut theirs = file.names();
        theirs.sort_unstable();
        let mut sorted: Vec<_> = model.parameters().iter().map(|one| one.name.as_str()).collect();
        sorted.sort_unstable();
        assert_eq!(sorted, theirs, "{name}");
    }
}

/// Pairs of texts about one of four subjects, in different words.
fn paraphrases(rows: usize, with_scores: bool) -> String {
    let firsts = ["the sun is hot", "snow falls slowly", "a dog barks", "the bus is late"];
    let seconds = ["warm light", "cold white flakes", "loud animal", "slow traffic"];
    let row = |row: usize| {
        // With similarities half of the pairs do not belong together.
        let (one, other) = if with_scores { (row % 4, row / 4 % 4) } else { (row % 4, row % 4) };
        let mut pair = json!({"one": firsts[one], "other": seconds[other]});
        if with_scores {
            pair["score"] = json!(if one == other { 0.9 } else { 0.1 });
        }
        pair.to_string() + "\n"
    };
    (0..rows).map(row).collect()
}

#[test]
fn texts_that_belong_together_get_near_vectors() {
    let kind = TaskKind::SentenceSimilarity;
    for with_scores in [false, true] {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("train.jsonl"), paraphrases(160, with_scores)).unwrap();
        let score = with_scores.then_some("score");
        let values = json!({
            "train": "train.jsonl", "text": "one", "text_pair": "other", "score": score,
            "max_length": 8,
        });
        let values = merged(values, json!({}));
        let data = prepare_logged(directory.path(), kind, values, &words()).0.unwrap();
        assert_eq!(data.has_scores(), with_scores);
        let arguments = arguments(json!({"task": "sentence-similarity", "num_train_epochs": 10}));
        let path = directory.path().join("run");
        let runner = trained(&job(&arguments, &data, &path));
        let last = runner.last_report();
        if with_scores {
            assert!(last["eval_spearmanr"] > 0.6 && last["eval_pearson"] > 0.8, "{last:?}");
            assert!(!last.contains_key("eval_accuracy"));
        } else {
            // Of 16 pairs about four subjects equal ones count as the nearest.
            assert!(last["eval_accuracy"] > 0.9 && last["eval_mrr"] > 0.9, "{last:?}");
            assert!(!last.contains_key("eval_spearmanr"));
        }
        let checkpoint = runner.last_checkpoint();
        let evaluated = evaluated(checkpoint, &data);
        assert!((evaluated["eval_loss"] - last["eval_loss"]).abs() < 1e-6);

        let texts = ["the sun is hot", "the sun is hot"].map(str::to_owned);
        let others = ["warm light", "loud animal"].map(str::to_owned);
        let inputs = PredictionInputs {
            texts: &texts,
            pairs: Some(&others),
            writing: WritingOptions::default(),
        };
        let scored = predict(checkpoint, inputs, 1, "cpu", &|_, _, _| {}).unwrap().predictions;
        let score = |pair: usize| scored[pair].labels()[0].score;
        assert!(score(0) > score(1) + 0.1, "{scored:?}");
        let vectors = predicted(checkpoint, &["the sun is hot", "warm light"]).unwrap();
        let [Prediction::Vector(one), Prediction::Vector(other)] = &vectors[..] else { panic!() };
        let product = |one: &[f32], other: &[f32]| -> f64 {
            one.iter().zip(other).map(|(a, b)| f64::from(a * b)).sum()
        };
        assert!((product(one, one) - 1.0).abs() < 1e-5);
        assert!((product(one, other) - score(0)).abs() < 1e-5);

        let stopped = interrupted(&job(&arguments, &data, &directory.path().join("stopped")), 20);
        let (_, checkpoint) = stopped.checkpoints.last().unwrap();
        let rest = directory.path().join("rest");
        let resumed =
            TrainingJob { start: Start::Resume(checkpoint), ..job(&arguments, &data, &rest) };
        assert_eq!(trained(&resumed).weights(), runner.weights(), "bit for bit");
    }
}

#[test]
fn cached_outputs_of_frozen_layers_are_those_of_their_own_pair() {
    let directory = TempDir::new().unwrap();
    // Texts of several lengths: a mistaken order of tokens mixes texts.
    fs::write(directory.path().join("train.jsonl"), paraphrases(160, true)).unwrap();
    let values = json!({
        "train": "train.jsonl", "text": "one", "text_pair": "other", "score": "score",
        "max_length": 8,
    });
    let prepared = prepare_logged(directory.path(), TaskKind::SentenceSimilarity, values, &words());
    let data = prepared.0.unwrap();
    let run = |caches: bool| {
        let arguments = arguments(json!({
            "task": "sentence-similarity", "model.num_layers": 2, "freeze_layers": 1,
            "cache_frozen_features": caches,
        }));
        trained(&job(&arguments, &data, &directory.path().join(caches.to_string())))
    };
    let (cached, every) = (run(true), run(false));
    assert!(cached.has_logged("1 frozen layer are cached"), "{:?}", cached.logs);
    assert_all_close(&cached.losses(), &every.losses(), 1e-5);
}

#[test]
fn similarities_are_numbers_from_minus_one_to_one() {
    let rows =
        "{\"text\": \"a\", \"b\": \"c\", \"s\": 1}\n{\"text\": \"a\", \"b\": \"c\", \"s\": 4.5}\n";
    let values = json!({"train": "train.jsonl", "text_pair": "b", "score": "s"});
    let files = [("train.jsonl", rows.as_bytes())];
    let said = problem_with(&files, TaskKind::SentenceSimilarity, values, &words());
    let expected = "train.jsonl:2: similarity `4.5` is not a number from -1 to 1 (divide";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn words_with_the_label_minus_100_are_left_out() {
    let directory = TempDir::new().unwrap();
    let row = |number: usize, labels: Value| {
        let words = ["by", "train", ["to", "from"][number % 2], "Rome"];
        json!({"tokens": words, "ner_tags": labels}).to_string() + "\n"
    };
    let write = |rows: &[String]| {
        fs::write(directory.path().join("train.jsonl"), rows.concat()).unwrap();
    };
    let rows: Vec<String> = (0..20)
        .map(|number| match number % 2 {
            0 => row(number, json!(["O", -100, "-100", "B-LOC"])),
            _ => row(number, json!(["-100", "O", "O", "B-LOC"])),
        })
        .collect();
    write(&rows);
    let source = tokenizer(TokenizerKind::WordPiece, 90, false);
    let values = json!({"max_length": 32, "label_format": "auto"});
    let data = prepare_in(&directory, values.clone(), &source);
    assert_eq!(data.labels(), ["B-LOC", "O"]);
    for row in 0..2 {
        let labels = labels_of(&data, row);
        let learned = labels.iter().filter(|label| **label != NO_LABEL).count();
        assert!([2, 3].contains(&learned), "{labels:?}");
    }
    // Studies that began earlier have it as a class.
    let earlier = prepare_in(&directory, json!({"max_length": 32}), &source);
    assert_eq!(earlier.labels(), ["-100", "B-LOC", "O"]);

    let none = [rows.concat(), row(1, json!([-100, -100, -100, -100]))].concat();
    let file = [("train.jsonl", none.as_bytes())];
    let said = problem_with(&file, KIND, named(values), &source);
    assert!(said.contains("train.jsonl:21: no word has a label to learn in the "), "{said}");
}
