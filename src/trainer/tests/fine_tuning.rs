//! Fine-tuning options against torch, peft and scikit-learn: `golden/tuning.json` is made by
//! `tests/peers/tuning_golden.py`.

use burn::tensor::Device;

use super::super::backward_pass::BackwardPass;
use super::super::batch::Batch;
use super::super::decoder::DecoderConfig;
use super::super::encoder_model::EncoderModel;
use super::super::fine_tuning::{FineTuning, balanced, summary};
use super::super::gradients::{Gradient, Gradients};
use super::super::language_modeling::LanguageModel;
use super::super::layers::{DropoutKey, ForwardContext, weighted_cross_entropy};
use super::super::optimiser::{GradientClip, Optimiser, Placement, StepScalars, clip_coefficient};
use super::super::parameters::{Values, host, tensor};
use super::super::prepared::{Description, Stream};
use super::super::pretrained_weights::load_trained;
use super::super::rng::{Rng, key};
use super::super::sequence_classification::SequenceClassification;
use super::super::task::{Draw, MicroBatch, Model};
use super::golden::{
    Golden, close, config_of, golden_directory, in_file_order, norm_of, numbers, plain, prepared,
};
use super::*;

fn golden() -> Value {
    json_of(&golden_directory("tuning.json"))
}

/// A decoder whose three windows over the stream of `tuning.json` are those that a run with seed 1
/// sees in its first epoch.
fn decoder_of(name: &str) -> (Box<dyn Model>, Values, PreparedData, Device, TempDir) {
    let (device, source, directory) =
        (Device::flex(), golden_directory(name), TempDir::new().unwrap());
    let mut architecture = DecoderConfig::read(config_of(&source)).unwrap();
    architecture.shape.window = 7;
    let model = LanguageModel::new(architecture);
    let values = load_trained(&source, &model, &device).unwrap();
    let first = Rng::new(key(1, "window", &[0])).below(7);
    let stream: Vec<u32> = serde_json::from_value(golden()["stream"].clone()).unwrap();
    let tokens = [vec![0; first], stream, vec![0; 7 - first]].concat();
    let stream = Some(Stream { bytes: [29, 29, 0], start: 0, end: 0 });
    let description = Description { stream, ..plain(1) };
    let data = prepared(&directory.path().join("stream"), &[(tokens, 0)], description);
    assert_eq!(model.examples(&data, Split::Train), 3);
    (Box::new(model), values, data, device, directory)
}

/// A model under training, the way a run trains it.
pub(super) struct Tuned {
    pub(super) model: Box<dyn Model>,
    pub(super) values: Values,
    tuning: FineTuning,
    data: PreparedData,
    pub(super) device: Device,
    pub(super) arguments: TrainerArguments,
    _directory: TempDir,
}

impl Tuned {
    pub(super) fn of(name: &str, values: Value) -> Self {
        let golden = golden();
        let mut base = json!({
            "learning_rate": golden["learning_rate"], "weight_decay": golden["weight_decay"],
            "lr_scheduler_type": "constant",
            "label_smoothing_factor": 0, "warmup_steps": 0, "per_device_train_batch_size": 4,
        });
        let is_decoder = ["gpt2", "llama", "qwen2", "gemma"].contains(&name);
        if is_decoder {
            base["task"] = json!("language-modeling");
            base["model.model_type"] = json!(name);
        }
        let arguments = resolve(merged(base, values));
        let (mut model, values, data, device, _directory) =
            if is_decoder { decoder_of(name) } else { Golden::on("cpu", name).parts() };
        let tuning = FineTuning::new(model.parameters_mut(), &arguments, &data).unwrap();
        let values = tuning.begin(model.parameters(), values, 7, &device);
        Self { model, values, tuning, data, device, arguments, _directory }
    }

    fn trainable_count(&self) -> usize {
        self.model.parameters().trainable().count()
    }

    pub(super) fn gradients(&self, chosen: &[usize], recompute: bool) -> (f64, Gradients) {
        let tracked = self.device.clone().autodiff();
        let (model, device, tuning) = (&*self.model, &self.device, &self.tuning);
        let backward_pass = BackwardPass {
            model,
            tuning,
            autodiff_device: &tracked,
            device,
            features: None,
            precision: None,
            ranges: &Default::default(),
            scale: 1.0,
            recompute,
        };
        let micro_batch = MicroBatch {
            weights: self.tuning.step_weight(&self.data, chosen.iter().copied()),
            draw: Draw { seed: 1, ..Draw::default() },
            smoothing: self.arguments.label_smoothing_factor,
            ..MicroBatch::whole_step(model, &self.data, chosen)
        };
        let key = DropoutKey { seed: 1, step: 3, micro_batch: 0 };
        let (loss, gradients) = backward_pass.gradients(&self.values, &micro_batch, key).unwrap();
        (host(loss).unwrap()[0].into(), gradients)
    }

    /// Losses of steps as torch makes them.
    fn fit(&mut self, batches: &Value, losses: &Value) {
        let batches: Vec<Vec<usize>> = serde_json::from_value(batches.clone()).unwrap();
        let (parameters, learning_rate) =
            (self.model.parameters().clone(), self.arguments.learning_rate);
        let mut optimiser =
            Optimiser::new(&self.arguments, &parameters, &self.device, Placement::InPlace);
        for (step, expected) in (0..).zip(numbers(losses)) {
            let (loss, gradients) = self.gradients(&batches[step % batches.len()], false);
            close(&format!("loss of step {step}"), loss, expected, 1e-3);
            let (_, norm) = gradients.loss_and_norm(tensor(vec![0.0], [1], &self.device)).unwrap();
            let clip = GradientClip::By(clip_coefficient(norm, 1.0));
            let scalars = StepScalars::new(learning_rate, step as u64 + 1);
            optimiser.step(&parameters, &mut self.values, gradients, scalars, &clip).unwrap();
        }
    }

    /// Logits of the model that is exported.
    fn logits(&self) -> Vec<f32> {
        let model: &dyn std::any::Any = &*self.model;
        let values = self.tuning.merged(&self.values);
        let context = ForwardContext::evaluation(&values, &self.device);
        if let Some(model) = model.downcast_ref::<LanguageModel>() {
            let window: Vec<u32> = serde_json::from_value(golden()["stream"].clone()).unwrap();
            return host(model.decoder.forward(&context, &window[..8], 8)).unwrap();
        }
        let model = model.downcast_ref::<EncoderModel<SequenceClassification>>().unwrap();
        let rows = self.data.split(Split::Train);
        let batch = Batch::new((0..rows.len()).map(|row| rows.ids(row).collect()).collect());
        host(model.logits(&context, &batch)).unwrap()
    }

    pub(super) fn logits_are(&self, what: &str, expected: &Value, tolerance: f64) {
        all_close(what, &self.logits(), expected, tolerance);
    }
}

fn all_close(what: &str, own: &[f32], expected: &Value, tolerance: f64) {
    for (own, theirs) in own.iter().zip(numbers(expected)) {
        close(what, (*own).into(), theirs, tolerance);
    }
}

fn f32_numbers(value: &Value) -> Vec<f32> {
    numbers(value).into_iter().map(|number| number as f32).collect()
}

#[test]
fn frozen_parameters_stay_and_the_others_learn_as_in_pytorch() {
    let golden = golden();
    for freeze in [
        json!({"freeze_layers": 1}),
        json!({"freeze": "embeddings, layers.0"}),
        json!({"freeze": ["embeddings", "bert.encoder.layer.0.*"]}),
    ] {
        let mut tuned = Tuned::of("bert", freeze);
        let before = tuned.values.clone();
        assert_eq!(json!(tuned.trainable_count()), golden["frozen"]["trained"]);
        assert_contains(&summary(tuned.model.parameters()), "of which 2283 are trained");
        tuned.fit(&golden["batches"], &golden["frozen"]["losses"]);
        tuned.logits_are("logits with frozen layers", &golden["frozen"]["logits"], 5e-3);
        for ((parameter, before), after) in
            tuned.model.parameters().iter().zip(&before.0).zip(&tuned.values.0)
        {
            let same = host(before.clone()).unwrap() == host(after.clone()).unwrap();
            assert_eq!(same, parameter.rate.is_none(), "{}", parameter.name);
        }
        let (_, gradients) = tuned.gradients(&[0, 1], false);
        for (parameter, gradient) in tuned.model.parameters().iter().zip(&gradients.0) {
            let is_absent = matches!(gradient, Gradient::Absent);
            assert_eq!(is_absent, parameter.rate.is_none(), "{}", parameter.name);
        }
    }
}

#[test]
fn learning_rates_fall_from_layer_to_layer_as_pytorchs_groups() {
    let golden = golden();
    let mut tuned = Tuned::of("bert", json!({"layerwise_lr_decay": golden["layerwise"]["factor"]}));
    tuned.fit(&golden["batches"], &golden["layerwise"]["losses"]);
    tuned.logits_are("logits with rates by layer", &golden["layerwise"]["logits"], 5e-3);
}

#[test]
fn weighted_losses_are_pytorchs() {
    let golden = golden();
    let (weighted, device) = (&golden["weighted"], Device::flex());
    let (weights, logits) = (f32_numbers(&weighted["weights"]), f32_numbers(&weighted["logits"]));
    let labels: Vec<u32> = serde_json::from_value(weighted["labels"].clone()).unwrap();
    let all: f64 = labels.iter().map(|label| f64::from(weights[*label as usize])).sum();
    for (smoothing, expected) in weighted["losses"].as_object().unwrap() {
        let leaf = tensor(logits.clone(), [5, 3], &device).autodiff().require_grad();
        let smoothing = smoothing.parse().unwrap();
        let loss = weighted_cross_entropy(leaf.clone(), &labels, &weights, smoothing, 1.0 / all);
        let gradient = leaf.grad_remove(&mut loss.backward()).unwrap();
        let loss = f64::from(host(loss.inner()).unwrap()[0]);
        close("a weighted loss", loss, expected["loss"].as_f64().unwrap(), 1e-6);
        all_close("its gradient", &host(gradient).unwrap(), &expected["gradient"], 1e-6);
    }
    let values = json!({"class_weights": weighted["weights"], "label_smoothing_factor": 0.1});
    let mut tuned = Tuned::of("bert", values);
    tuned.fit(&golden["batches"], &weighted["training"]["losses"]);
    tuned.logits_are("logits after weighted losses", &weighted["training"]["logits"], 5e-3);
}

#[test]
fn balanced_weights_are_scikit_learns() {
    let golden = golden();
    let expected = &golden["weighted"]["balanced"];
    let labels: Vec<usize> = serde_json::from_value(expected["labels"].clone()).unwrap();
    let mut counts = vec![0; 3];
    labels.iter().for_each(|label| counts[*label] += 1);
    for (own, theirs) in balanced(&counts).iter().zip(numbers(&expected["weights"])) {
        close("a weight", *own, theirs, 1e-12);
    }
}

#[test]
fn weights_in_accumulated_batches_are_those_of_the_large_batch() {
    let fixture = Fixture::new();
    let losses = |batch: usize, accumulation: usize| {
        let arguments = arguments(json!({
            "per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation,
            "model.dropout": 0, "model.attention_dropout": 0,
            "class_weights": [0.2, 3.0, 1.5],
        }));
        trained(&fixture.job(&arguments, &fixture.path().join(format!("{batch}")))).losses()
    };
    assert_all_close(&losses(20, 1), &losses(4, 5), 2e-5);
}

fn adapters_are_pefts(name: &str, case: &str) {
    let golden = golden();
    let expected = &golden["lora"][case];
    let values = json!({
        "lora_r": expected["r"], "lora_alpha": expected["alpha"],
        "lora_target_modules": expected["targets"],
    });
    let mut tuned = Tuned::of(name, values);
    assert_eq!(json!(tuned.trainable_count()), expected["trained"], "{case}: trained parameters");
    // Fresh adapters add nothing.
    let own = host(tuned.tuning.merged(&tuned.values).0[0].clone()).unwrap();
    assert_eq!(own, host(tuned.values.0[0].clone()).unwrap());
    for (parameter, value) in tuned.model.parameters().iter().zip(&mut tuned.values.0) {
        if let Some(given) = expected["adapters"].get(&parameter.name) {
            let [rows, columns] = parameter.shape;
            *value = tensor(f32_numbers(given), [columns, rows], &tuned.device).transpose();
        }
    }
    tuned.logits_are(case, &expected["logits"], 1e-4);
    let all: Vec<usize> = (0..if name == "bert" { 4 } else { 3 }).collect();
    let (loss, gradients) = tuned.gradients(&all, false);
    close("loss", loss, expected["loss"].as_f64().unwrap(), 1e-4);
    let trainable = tuned.model.parameters().trainable();
    assert_eq!(trainable.iter().len(), expected["gradients"].as_object().unwrap().len(), "{case}");
    for (parameter, gradient) in tuned.model.parameters().iter().zip(gradients.0) {
        let Gradient::Dense(gradient) = gradient else { continue };
        let norm = norm_of(&in_file_order(gradient, parameter.role));
        let theirs = expected["gradients"][&parameter.name].as_f64().unwrap();
        close(&parameter.name, norm, theirs, 1e-3);
    }
    let batches = if name == "bert" { &golden["batches"] } else { &golden["window_batches"] };
    tuned.fit(batches, &expected["training"]["losses"]);
    tuned.logits_are(case, &expected["merged_logits"], 5e-3);
}

#[test]
fn adapters_of_queries_and_values_are_pefts() {
    adapters_are_pefts("bert", "bert");
    adapters_are_pefts("gpt2", "gpt2");
}

#[test]
fn adapters_of_all_linear_layers_are_pefts() {
    adapters_are_pefts("bert", "bert-all");
    adapters_are_pefts("gpt2", "gpt2-all");
    adapters_are_pefts("llama", "llama");
}

#[test]
fn layers_that_are_computed_again_give_the_same_gradients_bit_for_bit() {
    let bits = |gradients: Gradients, tuned: &Tuned| -> Vec<u32> {
        let pairs = gradients.0.into_iter().zip(tuned.model.parameters().iter());
        pairs
            .map(|(gradient, parameter)| gradient.into_dense(parameter, &tuned.device))
            .flat_map(|gradient| host(gradient).unwrap())
            .map(f32::to_bits)
            .collect()
    };
    for name in
        ["bert", "roberta", "distilbert", "electra", "albert", "gpt2", "llama", "qwen2", "gemma"]
    {
        for how in [
            json!({}),
            json!({"freeze_layers": 1}),
            json!({"lora_r": 2, "lora_dropout": 0.2}),
            json!({"freeze": "embeddings"}),
        ] {
            let tuned = Tuned::of(name, how.clone());
            let ((kept, one), (again, other)) =
                (tuned.gradients(&[0, 1, 2], false), tuned.gradients(&[0, 1, 2], true));
            assert_eq!(kept.to_bits(), again.to_bits(), "{name} {how}");
            assert_eq!(bits(one, &tuned), bits(other, &tuned), "{name} {how}");
        }
    }
}

/// Attention by tensor operations, whose last bits depend on whether a graph is kept.
#[test]
fn layers_with_relative_positions_that_are_computed_again_give_nearly_the_same_gradients() {
    for how in [json!({}), json!({"freeze_layers": 1}), json!({"lora_r": 2})] {
        let tuned = Tuned::of("deberta-v2", how.clone());
        let ((kept, one), (again, other)) =
            (tuned.gradients(&[0, 1, 2], false), tuned.gradients(&[0, 1, 2], true));
        close("the loss", kept, again, 1e-5);
        let pairs = one.0.into_iter().zip(other.0).zip(tuned.model.parameters().iter());
        for ((one, other), parameter) in pairs {
            let numbers =
                |gradient: Gradient| host(gradient.into_dense(parameter, &tuned.device)).unwrap();
            for (one, other) in numbers(one).into_iter().zip(numbers(other)) {
                assert!((one - other).abs() < 1e-5, "{how} {}: {one} {other}", parameter.name);
            }
        }
    }
}

#[test]
fn dropout_is_the_same_when_layers_are_computed_again() {
    let fixture = Fixture::new();
    let weights = |again: bool| {
        let arguments = arguments(
            json!({"gradient_checkpointing": again, "model.num_layers": 3, "num_train_epochs": 1}),
        );
        trained(&fixture.job(&arguments, &fixture.path().join(format!("{again}")))).weights()
    };
    assert!(weights(true) == weights(false), "the same weights");
}

#[test]
fn accumulated_batches_of_tokens_equal_the_same_rows_at_once() {
    let fixture = Fixture::new();
    let losses = |rows_at_once: Option<usize>, name: &str| {
        // Rows of up to 11 tokens.
        let arguments = arguments(json!({
            "per_device_train_batch_size": null, "max_tokens_per_batch": 60,
            "gradient_accumulation_steps": 2, "model.dropout": 0,
            "model.attention_dropout": 0,
        }));
        let rows_at_once = rows_at_once.map(|rows| RowsAtOnce { train: rows, eval: rows });
        let directory = fixture.path().join(name);
        trained(&TrainingJob { rows_at_once, ..fixture.job(&arguments, &directory) }).losses()
    };
    assert_all_close(&losses(None, "whole"), &losses(Some(30), "parts"), 2e-5);
}

#[test]
fn cached_features_train_as_those_of_every_step_and_survive_an_interruption_bit_for_bit() {
    let fixture = Fixture::new();
    // With dropout: the frozen layers have none, cached or not.
    let base = json!({"model.num_layers": 3, "freeze_layers": 2});
    let run = |values: Value, name: &str| {
        let arguments = arguments(merged(base.clone(), values));
        trained(&fixture.job(&arguments, &fixture.path().join(name)))
    };
    let (cached, every) =
        (run(json!({}), "cached"), run(json!({"cache_frozen_features": false}), "every"));
    assert!(cached.has_logged("frozen layers are cached"), "{:?}", cached.logs);
    assert_all_close(&cached.losses(), &every.losses(), 1e-5);
    let again = run(json!({"gradient_checkpointing": true}), "again");
    assert!(cached.weights() == again.weights(), "recomputed layers read the same features");

    let arguments = arguments(base.clone());
    let directory = fixture.path().join("parts");
    let first = interrupted(&fixture.job(&arguments, &directory), 12);
    let start = Start::Resume(first.last_checkpoint());
    let second = trained(&TrainingJob { start, ..fixture.job(&arguments, &directory) });
    assert!(cached.weights() == second.weights(), "the same weights");
}

#[test]
fn a_profile_of_frozen_layers_shows_the_steps_that_training_makes() {
    let fixture = Fixture::new();
    let layers = |values: Value| -> Vec<String> {
        let arguments =
            arguments(merged(json!({"model.num_layers": 3, "freeze_layers": 2}), values));
        let [directory, trace] = ["profile", "trace.json"].map(|name| fixture.path().join(name));
        let job = fixture.job(&arguments, &directory);
        let profile = profile(&job, 2, &trace, &mut Runner::default()).unwrap();
        profile.layers.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(layers(json!({})), ["layer 2", "head and loss"], "cached layers are not computed");
    let all = ["embeddings", "layer 0", "layer 1", "layer 2", "head and loss"];
    assert_eq!(layers(json!({"cache_frozen_features": false})), all);
}

#[test]
fn tuned_runs_that_were_interrupted_resume_bit_for_bit() {
    let fixture = Fixture::new();
    for (name, values) in [
        ("frozen", json!({"freeze_layers": 1, "layerwise_lr_decay": 0.8})),
        (
            "adapters",
            json!({"lora_r": 3, "lora_dropout": 0.1, "lora_target_modules": "all-linear"}),
        ),
        (
            "tokens",
            json!({
                "per_device_train_batch_size": null, "max_tokens_per_batch": 50,
                "gradient_checkpointing": true,
            }),
        ),
        ("both", json!({"lora_r": 3, "freeze_layers": 1, "class_weights": "balanced"})),
    ] {
        let has_adapters = values["lora_r"] == 3;
        let mut values = values;
        values["model.num_layers"] = json!(2);
        let arguments = arguments(values);
        let whole = trained(&fixture.job(&arguments, &fixture.path().join(name)));
        let directory = fixture.path().join(format!("{name}-parts"));
        let first = interrupted(&fixture.job(&arguments, &directory), 7);
        let start = Start::Resume(first.last_checkpoint());
        let second = trained(&TrainingJob { start, ..fixture.job(&arguments, &directory) });
        let (one, other) = (whole.last_checkpoint(), second.last_checkpoint());
        for file in ["model.safetensors", "optimizer.safetensors", "adapters.safetensors"] {
            let [one, other] = [one, other].map(|path| fs::read(path.join(file)).ok());
            assert!(one == other, "{name}: {file}");
        }
        assert_eq!(one.join("adapters.safetensors").exists(), has_adapters);
        // An export merges adapters, and has the metrics that were reported.
        let measured = evaluated(one, &fixture.data);
        assert!((measured["eval_loss"] - whole.last_report()["eval_loss"]).abs() < 1e-6);
    }
}

#[test]
fn names_that_match_nothing_are_refused_with_those_there_are() {
    let fixture = Fixture::new();
    for (values, expected) in [
        (
            json!({"freeze": "layers.3"}),
            "`layers.3`, which the model does not have; it has embeddings, layers.0 to layers.0",
        ),
        (json!({"freeze_layers": 2}), "the model has 1 layers"),
        (json!({"freeze": "*"}), "nothing to train"),
        (
            json!({"lora_r": 2, "lora_target_modules": "q_proj"}),
            "there are inner, key, outer, output, query, value, or all-linear",
        ),
        (json!({"lora_r": 2, "freeze_layers": 1}), "no trainable linear layer is left"),
        (
            json!({"class_weights": [1, 2]}),
            "`class_weights` are 2, and the data has 3 labels: `negative`, `neutral`, `positive`",
        ),
    ] {
        let directory = fixture.path().join("trial");
        assert_contains(&problem_of(&fixture.job(&arguments(values), &directory)), expected);
    }
}
