//! Language models: causality, gradients, learning, and resumed runs.

use burn::tensor::Device;

use super::super::generation::TokenGenerator;
use super::super::language_modeling::LanguageModel;
use super::super::layers::{DropoutKey, ForwardContext, cross_entropy};
use super::super::parameters::{Role, Values, host};
use super::super::task::{EvaluationSet, Model};
use super::super::tasks::new_model;
use super::data::problem_with;
use super::gradients::gradients_are_finite_differences;
use super::*;

/// A text whose letters are determined by the preceding ones.
fn verse(lines: usize) -> String {
    (0..lines)
        .map(|line| {
            format!(
                "{} green bottles hanging on the wall,\n",
                ["ten", "nine", "eight", "seven", "six"][line % 5]
            )
        })
        .collect()
}

fn prepared(directory: &Path, name: &str, content: &str, kind: TokenizerKind) -> PreparedData {
    fs::write(directory.join(name), content).unwrap();
    let values = json!({"train": name, "validation_split": 0.2, "max_length": 12});
    let tokenizer = tokenizer(kind, 300, false);
    prepare_logged(directory, TaskKind::LanguageModeling, values, &tokenizer).0.unwrap()
}

struct Corpus {
    directory: TempDir,
    data: PreparedData,
}

impl Corpus {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let data = prepared(directory.path(), "verse.txt", &verse(50), TokenizerKind::Chars);
        Self { directory, data }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn job<'a>(&'a self, arguments: &'a TrainerArguments, directory: &'a Path) -> TrainingJob<'a> {
        TrainingJob {
            step_unit: StepUnit::Step,
            milestones: Milestones { every: Some(10), at: vec![] },
            ..job(arguments, &self.data, directory)
        }
    }
}

fn arguments_of(values: Value) -> TrainerArguments {
    let base = json!({
        "task": "language-modeling", "model.tokenizer": "chars", "learning_rate": 0.01,
        "max_steps": 30, "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2, "weight_decay": 0.1, "adam_beta2": 0.99,
        "logging_steps": 7,
        "model.hidden_size": 16, "model.num_layers": 2, "model.num_heads": 2, "model.dropout": 0.1,
        "model.attention_dropout": 0.1,
    });
    resolve(merged(base, values))
}

/// A fresh model of the corpus.
fn model(corpus: &Corpus, values: Value) -> (Box<LanguageModel>, Values, Device) {
    let model: Box<dyn std::any::Any> =
        new_model(TaskKind::LanguageModeling, &arguments_of(values).model, &corpus.data).unwrap();
    let model = model.downcast::<LanguageModel>().unwrap();
    let device = Device::flex();
    let values = model.parameters().initial_values(3, &device);
    (model, values, device)
}

#[test]
fn gradients_of_a_language_model_are_finite_differences() {
    let corpus = Corpus::new();
    for tied in [true, false] {
        let (model, values, device) =
            model(&corpus, json!({"model.hidden_size": 8, "model.tie_word_embeddings": tied}));
        // Larger weights than initial ones, so that attention is not uniform, and logits that leave
        // f32 enough digits for differences.
        let factor = |role: Role| match role {
            Role::Conv1d { .. } => 5.0,
            Role::Embedding => 0.3,
            _ => 1.0,
        };
        let scaled = values.0.into_iter().zip(model.parameters().iter());
        let values = Values(scaled.map(|(v, parameter)| v * factor(parameter.role)).collect());
        gradients_are_finite_differences(model.parameters(), values, &device, |values, device| {
            let key = DropoutKey { seed: 1, step: 2, micro_batch: 0 };
            let context = ForwardContext::training(values, device, key);
            let logits = model.decoder.forward(&context, &[3, 1, 4, 1, 5, 9, 2, 6], 4);
            cross_entropy(logits, [1, 4, 1, 5, 9, 2, 6, 5].into(), 0.1, 0.5)
        });
    }
}

#[test]
fn the_future_is_not_seen_and_the_past_is() {
    let corpus = Corpus::new();
    let (model, values, device) = model(&corpus, json!({}));
    let logits = |tokens: &[u32]| {
        host(model.decoder.forward(&ForwardContext::evaluation(&values, &device), tokens, 6))
            .unwrap()
    };
    let width = corpus.data.vocab_size();
    // Two texts of six tokens; the fourth token of the first changes.
    let one = logits(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4]);
    let other = logits(&[1, 2, 3, 9, 5, 6, 7, 8, 9, 2, 3, 4]);
    let pairs = one.chunks(width).zip(other.chunks(width));
    let changed: Vec<usize> =
        (0..).zip(pairs).filter(|(_, (one, other))| one != other).map(|(token, _)| token).collect();
    assert_eq!((one.len(), &changed[..]), (12 * width, &[3, 4, 5][..]));
}

#[test]
fn an_untrained_model_knows_nothing() {
    let corpus = Corpus::new();
    let (model, values, device) = model(&corpus, json!({}));
    let extent = EvaluationSet { split: Split::Validation, batch: 8, limit: None, writing: None };
    let metrics = model.measure(&values, &device, &corpus.data, &extent, &|_, _| {}).unwrap();
    let uniform = (corpus.data.vocab_size() as f64).ln();
    assert!((metrics["loss"] - uniform).abs() < 0.05, "{metrics:?} {uniform}");
    assert!((metrics["perplexity"] - metrics["loss"].exp()).abs() < 1e-9);
    // Each character here is one byte.
    assert!((metrics["bits_per_byte"] - metrics["loss"] / 2.0_f64.ln()).abs() < 1e-9);
}

#[test]
fn the_kv_cache_does_not_change_what_is_generated() {
    let corpus = Corpus::new();
    let (model, values, device) = model(&corpus, json!({}));
    let mut writer = TokenGenerator::new(&model, &values, &device, vec![5, 3]);
    let mut longest = 0;
    // Far enough that the window of twelve slides more than once.
    for _ in 0..40 {
        let cached = writer.logits().unwrap();
        let window = writer.window();
        let context = ForwardContext::evaluation(&values, &device);
        let all = host(model.decoder.forward(&context, window, window.len())).unwrap();
        let last = &all[all.len() - cached.len()..];
        assert!(cached.iter().zip(last).all(|(one, other)| (one - other).abs() < 1e-5));
        longest = longest.max(window.len());
        let next =
            (0..cached.len()).max_by(|one, other| cached[*one].total_cmp(&cached[*other])).unwrap();
        writer.push(u32::try_from(next).unwrap());
    }
    assert_eq!(longest, 12);
}

#[test]
fn a_verse_is_learnt_measured_and_recited() {
    let corpus = Corpus::new();
    let arguments = arguments_of(json!({
        "max_steps": 150, "model.dropout": 0, "model.attention_dropout": 0, "model.hidden_size": 32,
        "gradient_accumulation_steps": 1,
        "per_device_train_batch_size": 8
    }));
    let directory = corpus.path().join("trial");
    let milestones = Milestones { every: Some(75), at: vec![] };
    let runner = trained(&TrainingJob { milestones, ..corpus.job(&arguments, &directory) });
    let last = runner.last_report();
    let names: Vec<&str> = last.keys().map(String::as_str).collect();
    let expected = "epoch eval_bits_per_byte eval_loss eval_perplexity grad_norm learning_rate \
                    model_bytes n_params predict_ms steps_per_second train_loss weight_norm";
    assert_eq!(names.join(" "), expected);
    // Untrained it is 3.3; the rest is the next number, which windows of twelve letters cannot
    // determine.
    assert!(last["eval_loss"] < 0.9, "{last:?}");
    let checkpoint = runner.last_checkpoint();
    let measured = evaluated(checkpoint, &corpus.data);
    assert_eq!(measured["eval_bits_per_byte"], last["eval_bits_per_byte"]);

    let write = |prompt: &str, seed: u64| {
        let mut text = String::new();
        let sampling =
            GenerationConfig { max_new_tokens: 24, temperature: 0.2, top_k: 3, top_p: 0.9, seed };
        let generated =
            generate(checkpoint, prompt, &sampling, "cpu", &mut |piece| text += piece).unwrap();
        assert_eq!((generated.tokens, generated.unknown), (24, prompt.matches('Z').count()));
        text
    };
    let written = write("nine green bottles hang", 1);
    assert_eq!(written, write("nine green bottles hang", 1));
    assert!(written.starts_with("ing on the"), "{written}");
    assert_eq!(write("ZZ", 1).chars().count(), 24);
    // Without a prompt it begins like a line.
    assert_eq!(write("", 1).chars().count(), 24);
    let problem = predicted(checkpoint, &["x"]).unwrap_err().to_string();
    assert_contains(&problem, "hpsearch generate");
}

#[test]
fn interrupted_and_resumed_language_models_equal_uninterrupted_ones_bit_for_bit() {
    let corpus = Corpus::new();
    let arguments = arguments_of(json!({"eval_strategy": "steps", "eval_steps": 4}));
    let whole = corpus.path().join("whole");
    let uninterrupted = trained(&corpus.job(&arguments, &whole));
    let weights =
        |directory: &Path| fs::read(directory.join("checkpoint-30/model.safetensors")).unwrap();
    let losses = |runners: &[&Runner]| -> Vec<f64> {
        runners.iter().flat_map(|runner| runner.losses()).collect()
    };
    let steps = |runners: &[&Runner]| -> Vec<u64> {
        runners.iter().flat_map(|runner| runner.reported_steps()).collect()
    };
    // 17 steps an epoch: within the first, at its end, in the second.
    for step in [3, 17, 24] {
        let parts = corpus.path().join(format!("parts-{step}"));
        let first = interrupted(&corpus.job(&arguments, &parts), step);
        let (start, reported) =
            (Start::Resume(first.last_checkpoint()), first.reported_steps().last().copied());
        let second = trained(&TrainingJob { start, reported, ..corpus.job(&arguments, &parts) });
        let both = [&first, &second];
        assert_eq!(losses(&both), losses(&[&uninterrupted]), "interrupted at {step}");
        assert_eq!(steps(&both), steps(&[&uninterrupted]), "interrupted at {step}");
        assert!(weights(&parts) == weights(&whole), "interrupted at {step}");
    }
}

#[test]
fn a_limited_evaluation_is_close_to_a_whole_one_and_repeats() {
    let corpus = Corpus::new();
    let (model, values, device) = model(&corpus, json!({}));
    let measure = |limit| {
        let set = EvaluationSet { split: Split::Validation, batch: 3, limit, writing: None };
        model.measure(&values, &device, &corpus.data, &set, &|_, _| {}).unwrap()["loss"]
    };
    assert_eq!(measure(Some(10)), measure(Some(10)));
    assert_ne!(measure(Some(10)), measure(None));
    assert!((measure(Some(10)) - measure(None)).abs() < 0.1);
}

#[test]
fn running_text_is_cut_at_its_end_and_rows_end_with_their_own_token() {
    let directory = TempDir::new().unwrap();
    let running = prepared(directory.path(), "a.txt", "abcdefghij", TokenizerKind::Chars);
    assert_eq!(Split::ALL.map(|split| running.tokens(split)), [8, 2, 0]);
    // `i` and `j` do not occur in training.
    let expected = "2 of 2 validation characters are unknown to the tokenizer";
    assert!(running.findings().iter().any(|finding| finding.message == expected));
    let json_lines = "{\"text\": \"né\"}\n".repeat(10);
    let rows = prepared(directory.path(), "b.jsonl", &json_lines, TokenizerKind::Bytes);
    // Three bytes and the end, of eight rows.
    assert_eq!(
        (rows.rows(Split::Train), rows.tokens(Split::Train), rows.tokens(Split::Validation)),
        (8, 32, 8)
    );
    assert_eq!(rows.stream().unwrap().bytes, [32, 8, 0]);
    let window: Vec<u32> = rows.split(Split::Train).window(3..5).collect();
    assert_eq!(window[0], 0);
}

#[test]
fn text_that_cannot_be_learnt_from_is_refused_with_what_to_do() {
    let problem = |files: &[(&str, &[u8])], values: Value| {
        let tokenizer = tokenizer(TokenizerKind::Chars, 300, false);
        problem_with(files, TaskKind::LanguageModeling, values, &tokenizer)
    };
    let empty = "a.txt: the file is empty (was it written completely? `[data]` names another one)";
    assert_eq!(problem(&[("a.txt", b" \n")], json!({"train": "a.txt"})), empty);
    assert_contains(&problem(&[("a.txt", b"abc")], json!({"train": "a.txt"})), "too few");
    let mixed: [(&str, &[u8]); 2] = [("a.txt", b"abc"), ("v.csv", b"text\nx\n")];
    let values = json!({"train": "a.txt", "validation": "v.csv"});
    assert_contains(&problem(&mixed, values), "some files are .txt and some are not");
    let problem = problem(&[("a.csv", b"txt\nhello\n")], json!({"train": "a.csv"}));
    assert_contains(&problem, "no column `text`");
}

#[test]
fn a_model_lies_in_files_as_transformers_has_it() {
    let corpus = Corpus::new();
    let arguments = arguments_of(json!({"max_steps": 1, "model.num_layers": 1}));
    let runner = trained(&corpus.job(&arguments, &corpus.path().join("trial")));
    let bytes = runner.weights();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let shape = |name: &str| tensors.tensor(name).unwrap().shape().to_vec();
    assert_eq!(shape("transformer.h.0.attn.c_attn.weight"), [16, 48]);
    assert_eq!(shape("transformer.h.0.mlp.c_proj.weight"), [64, 16]);
    assert_eq!(shape("transformer.wpe.weight"), [12, 16]);
    assert!(tensors.tensor("lm_head.weight").is_err());
    let config = json_of(&runner.last_checkpoint().join("config.json"));
    let keys = ["model_type", "n_embd", "tie_word_embeddings", "activation_function"];
    assert_eq!(json!(keys.map(|key| &config[key])), json!(["gpt2", 16, true, "gelu"]));
}
