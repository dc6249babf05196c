//! Ways of fine-tuning against torch, peft and scikit-learn: `golden/tuning.json` is made by `tests/peers/tuning_golden.py`.

use burn::tensor::Device;

use super::super::backward_pass::BackwardPass;
use super::super::batch::Batch;
use super::super::decoder::DecoderConfig;
use super::super::fine_tuning::{FineTuning, balanced, summary};
use super::super::gradients::{Gradient, Gradients};
use super::super::language_modeling::LanguageModel;
use super::super::layers::{DropoutKey, ForwardContext, weighted_cross_entropy};
use super::super::optimiser::{GradientClip, Optimiser, Placement, StepScalars, clip_coefficient};
use super::super::parameters::{Values, host, tensor};
use super::super::prepared::{Description, Stream};
use super::super::pretrained_weights::load_trained;
use super::super::rng::{Rng, key};
use super::super::sequence_classification::SequenceClassifier;
use super::super::task::{MicroBatch, Model};
use super::golden::{
    Golden, close, golden_directory, in_file_order, json_of, numbers, plain, prepared,
};
use super::*;

fn golden() -> Value {
    json_of(&golden_directory("tuning.json"))
}

/// A decoder whose three windows over the stream of `tuning.json` are those that a run with seed 1 sees in its first epoch.
fn decoder_of(name: &str) -> (Box<dyn Model>, Values, PreparedData, Device, TempDir) {
    let (device, source, directory) =
        (Device::flex(), golden_directory(name), TempDir::new().unwrap());
    let mut architecture =
        DecoderConfig::read(json_of(&source.join("config.json")).as_object().unwrap().clone())
            .unwrap();
    architecture.shape.window = 7;
    let model = LanguageModel::new(architecture);
    let values = load_trained(&source, &model, &device).unwrap();
    let first = Rng::new(key(1, "window", &[0])).below(7);
    let stream: Vec<u32> = serde_json::from_value(golden()["stream"].clone()).unwrap();
    let tokens = [vec![0; first], stream, vec![0; 7 - first]].concat();
    let about = Stream { bytes: [29, 29, 0], start: 0, end: 0 };
    let data = prepared(
        &directory.path().join("stream"),
        &[(tokens, 0)],
        Description { stream: Some(about), ..plain(1) },
    );
    assert_eq!(model.examples(&data, Split::Train), 3);
    (Box::new(model), values, data, device, directory)
}

/// A model under training, the way a run trains it.
struct Tuned {
    model: Box<dyn Model>,
    values: Values,
    tuning: FineTuning,
    data: PreparedData,
    device: Device,
    arguments: TrainerArguments,
    _directory: TempDir,
}

impl Tuned {
    fn of(name: &str, values: Value) -> Self {
        let golden = golden();
        let mut all = json!({
            "learning_rate": golden["learning_rate"], "weight_decay": golden["weight_decay"], "lr_scheduler_type": "constant",
            "label_smoothing_factor": 0, "warmup_steps": 0,
        });
        all.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
        let decoder = ["gpt2", "llama", "qwen2"].contains(&name);
        if decoder {
            all["task"] = json!("language-modeling");
            all["model.model_type"] = json!(name);
        }
        let mut base = json!({"per_device_train_batch_size": 4});
        base.as_object_mut().unwrap().extend(all.as_object().unwrap().clone());
        let arguments = TrainerArguments::resolve(&serde_json::from_value(base).unwrap()).unwrap();
        let (model, values, data, device, directory) =
            if decoder { decoder_of(name) } else { Golden::of(name).parts() };
        let mut tuned = Self {
            model,
            values,
            tuning: FineTuning::default(),
            data,
            device,
            arguments,
            _directory: directory,
        };
        tuned.tuning =
            FineTuning::new(tuned.model.parameters_mut(), &tuned.arguments, &tuned.data).unwrap();
        tuned.values = tuned.tuning.begin(tuned.model.parameters(), tuned.values, 7, &tuned.device);
        tuned
    }

    fn gradients(&self, chosen: &[usize], recompute: bool) -> (f64, Gradients) {
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
        let (seed, epoch, smoothing) = (1, 0, self.arguments.label_smoothing_factor);
        let weights = self.tuning.step_weight(&self.data, chosen.iter().copied());
        let micro_batch = MicroBatch {
            data: &self.data,
            chosen,
            step_examples: chosen.len(),
            weights,
            seed,
            epoch,
            smoothing,
        };
        let (loss, gradients) = backward_pass
            .gradients(&self.values, &micro_batch, DropoutKey { seed, step: 3, micro_batch: 0 })
            .unwrap();
        (host(loss).unwrap()[0].into(), gradients)
    }

    /// Losses of steps as torch makes them.
    fn fit(&mut self, batches: &Value, losses: &Value) {
        let batches: Vec<Vec<usize>> = serde_json::from_value(batches.clone()).unwrap();
        let mut optimiser = Optimiser::new(
            &self.arguments,
            self.model.parameters(),
            &self.device,
            Placement::InPlace,
        );
        for (step, expected) in (0..).zip(numbers(losses)) {
            let (loss, gradients) = self.gradients(&batches[step % batches.len()], false);
            close(&format!("loss of step {step}"), loss, expected, 1e-3);
            let (_, norm) = gradients.loss_and_norm(tensor(vec![0.0], [1], &self.device)).unwrap();
            let pace =
                StepScalars { learning_rate: self.arguments.learning_rate, step: step as u64 + 1 };
            optimiser
                .step(
                    self.model.parameters(),
                    &mut self.values,
                    gradients,
                    pace,
                    &GradientClip::By(clip_coefficient(norm, 1.0)),
                )
                .unwrap();
        }
    }

    /// Logits of the model that is exported.
    fn logits(&self) -> Vec<f32> {
        let model: &dyn std::any::Any = &*self.model;
        let values = self.tuning.merged(&self.values);
        if let Some(model) = model.downcast_ref::<LanguageModel>() {
            let window: Vec<u32> = serde_json::from_value(golden()["stream"].clone()).unwrap();
            return host(model.decoder.forward(
                &ForwardContext::evaluation(&values, &self.device),
                &window[..8],
                8,
            ))
            .unwrap();
        }
        let model = model.downcast_ref::<SequenceClassifier>().unwrap();
        let rows = self.data.split(Split::Train);
        let batch = Batch::new((0..rows.len()).map(|row| rows.ids(row).collect()).collect());
        host(model.encoder.forward(&ForwardContext::evaluation(&values, &self.device), &batch))
            .unwrap()
    }

    fn logits_are(&self, what: &str, expected: &Value, tolerance: f64) {
        let (own, expected) = (self.logits(), numbers(expected));
        for (own, theirs) in own.iter().zip(&expected) {
            close(what, (*own).into(), *theirs, tolerance);
        }
    }
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
        assert_eq!(
            tuned.model.parameters().trainable().count() as u64,
            golden["frozen"]["trained"].as_u64().unwrap()
        );
        assert!(
            summary(tuned.model.parameters()).contains("of which 2283 are trained"),
            "{}",
            summary(tuned.model.parameters())
        );
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
            assert_eq!(
                matches!(gradient, Gradient::Absent),
                parameter.rate.is_none(),
                "{}",
                parameter.name
            );
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
    let single = |value: &Value| {
        numbers(value).into_iter().map(|number| number as f32).collect::<Vec<f32>>()
    };
    let (weights, logits) = (single(&weighted["weights"]), single(&weighted["logits"]));
    let labels: Vec<u32> = serde_json::from_value(weighted["labels"].clone()).unwrap();
    let all: f64 = labels.iter().map(|label| f64::from(weights[*label as usize])).sum();
    for (smoothing, expected) in weighted["losses"].as_object().unwrap() {
        let leaf = tensor(logits.clone(), [5, 3], &device).autodiff().require_grad();
        let loss = weighted_cross_entropy(
            leaf.clone(),
            &labels,
            &weights,
            smoothing.parse().unwrap(),
            1.0 / all,
        );
        let mut gradients = loss.backward();
        close(
            "a weighted loss",
            host(loss.inner()).unwrap()[0].into(),
            expected["loss"].as_f64().unwrap(),
            1e-6,
        );
        for (own, theirs) in host(leaf.grad_remove(&mut gradients).unwrap())
            .unwrap()
            .iter()
            .zip(numbers(&expected["gradient"]))
        {
            close("its gradient", (*own).into(), theirs, 1e-6);
        }
    }
    let mut tuned = Tuned::of(
        "bert",
        json!({"class_weights": weighted["weights"], "label_smoothing_factor": 0.1}),
    );
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
            "per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation, "model.dropout": 0, "model.attention_dropout": 0,
            "class_weights": [0.2, 3.0, 1.5],
        }));
        let mut runner = Runner::default();
        train(&fixture.job(&arguments, &fixture.path().join(format!("{batch}"))), &mut runner)
            .unwrap();
        runner
            .reports
            .iter()
            .map(|(_, metrics)| [metrics["train_loss"], metrics["eval_loss"]])
            .collect::<Vec<_>>()
    };
    for (one, other) in losses(20, 1).iter().flatten().zip(losses(4, 5).iter().flatten()) {
        assert!((one - other).abs() < 2e-5, "{one} {other}");
    }
}

fn adapters_are_pefts(name: &str, case: &str) {
    let golden = golden();
    let expected = &golden["lora"][case];
    let mut tuned = Tuned::of(
        name,
        json!({"lora_r": expected["r"], "lora_alpha": expected["alpha"], "lora_target_modules": expected["targets"]}),
    );
    assert_eq!(
        tuned.model.parameters().trainable().count() as u64,
        expected["trained"].as_u64().unwrap(),
        "{case}: trained parameters"
    );
    // Fresh adapters add nothing.
    let own = host(tuned.tuning.merged(&tuned.values).0[0].clone()).unwrap();
    assert_eq!(own, host(tuned.values.0[0].clone()).unwrap());
    for (parameter, value) in tuned.model.parameters().iter().zip(&mut tuned.values.0) {
        if let Some(given) = expected["adapters"].get(&parameter.name) {
            let given: Vec<f32> = numbers(given).into_iter().map(|number| number as f32).collect();
            let [rows, columns] = parameter.shape;
            *value = tensor(given, [columns, rows], &tuned.device).transpose();
        }
    }
    tuned.logits_are(case, &expected["logits"], 1e-4);
    let all: Vec<usize> = (0..if name == "bert" { 4 } else { 3 }).collect();
    let (loss, gradients) = tuned.gradients(&all, false);
    close("loss", loss, expected["loss"].as_f64().unwrap(), 1e-4);
    let found: Vec<&str> = tuned
        .model
        .parameters()
        .iter()
        .filter(|one| one.rate.is_some())
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(found.len(), expected["gradients"].as_object().unwrap().len(), "{case}: {found:?}");
    for (parameter, gradient) in tuned.model.parameters().iter().zip(gradients.0) {
        let Gradient::Dense(gradient) = gradient else { continue };
        let norm = in_file_order(gradient, parameter.role)
            .iter()
            .map(|number| number * number)
            .sum::<f64>()
            .sqrt();
        close(
            &parameter.name,
            norm,
            expected["gradients"][&parameter.name].as_f64().unwrap(),
            1e-3,
        );
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
fn adapters_of_all_linear_maps_are_pefts() {
    adapters_are_pefts("bert", "bert-all");
    adapters_are_pefts("gpt2", "gpt2-all");
    adapters_are_pefts("llama", "llama");
}

#[test]
fn layers_that_are_computed_again_give_the_same_gradients_bit_for_bit() {
    let numbers = |gradients: Gradients, tuned: &Tuned| -> Vec<Vec<u32>> {
        let parameters = tuned.model.parameters().iter();
        let bits = |numbers: Vec<f32>| numbers.into_iter().map(f32::to_bits).collect();
        gradients
            .0
            .into_iter()
            .zip(parameters)
            .map(|(gradient, parameter)| {
                bits(host(gradient.into_dense(parameter, &tuned.device)).unwrap())
            })
            .collect()
    };
    for name in ["bert", "roberta", "distilbert", "gpt2", "llama", "qwen2"] {
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
            assert_eq!(numbers(one, &tuned), numbers(other, &tuned), "{name} {how}");
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
        let (directory, mut runner) = (fixture.path().join(format!("{again}")), Runner::default());
        train(&fixture.job(&arguments, &directory), &mut runner).unwrap();
        fs::read(runner.checkpoints.last().unwrap().1.join("model.safetensors")).unwrap()
    };
    assert!(weights(true) == weights(false), "the same weights");
}

#[test]
fn accumulated_batches_of_tokens_equal_the_same_rows_at_once() {
    let fixture = Fixture::new();
    let losses = |rows_at_once: Option<usize>, name: &str| {
        // Rows of up to 11 tokens.
        let arguments = arguments(json!({
            "per_device_train_batch_size": null, "max_tokens_per_batch": 60, "gradient_accumulation_steps": 2, "model.dropout": 0,
            "model.attention_dropout": 0,
        }));
        let mut runner = Runner::default();
        train(
            &Job {
                rows_at_once: rows_at_once.map(|rows| RowsAtOnce { train: rows, eval: rows }),
                ..fixture.job(&arguments, &fixture.path().join(name))
            },
            &mut runner,
        )
        .unwrap();
        runner
            .reports
            .iter()
            .map(|(_, metrics)| [metrics["train_loss"], metrics["eval_loss"]])
            .collect::<Vec<_>>()
    };
    for (one, other) in
        losses(None, "whole").iter().flatten().zip(losses(Some(30), "parts").iter().flatten())
    {
        assert!((one - other).abs() < 2e-5, "{one} {other}");
    }
}

#[test]
fn cached_features_train_as_those_of_every_step_and_survive_an_interruption_bit_for_bit() {
    let fixture = Fixture::new();
    // With dropout: the frozen layers have none, cached or not.
    let run = |values: Value, name: &str| {
        let mut all = json!({"model.num_layers": 3, "freeze_layers": 2});
        all.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
        let (arguments, mut runner) = (arguments(all), Runner::default());
        train(&fixture.job(&arguments, &fixture.path().join(name)), &mut runner).unwrap();
        runner
    };
    let losses = |runner: &Runner| {
        runner
            .reports
            .iter()
            .flat_map(|(_, metrics)| [metrics["train_loss"], metrics["eval_loss"]])
            .collect::<Vec<_>>()
    };
    let (cached, every) =
        (run(json!({}), "cached"), run(json!({"cache_frozen_features": false}), "every"));
    assert!(
        cached.logs.iter().any(|line| line.contains("frozen layers are cached")),
        "{:?}",
        cached.logs
    );
    for (one, other) in losses(&cached).iter().zip(losses(&every)) {
        assert!((one - other).abs() < 1e-5, "{one} {other}");
    }
    let again = run(json!({"gradient_checkpointing": true}), "again");
    let weights = |runner: &Runner| {
        fs::read(runner.checkpoints.last().unwrap().1.join("model.safetensors")).unwrap()
    };
    assert!(weights(&cached) == weights(&again), "layers computed again read the same features");

    let arguments = arguments(json!({"model.num_layers": 3, "freeze_layers": 2}));
    let (directory, mut first) =
        (fixture.path().join("parts"), Runner { stop_after: Some(12), ..Runner::default() });
    assert_eq!(
        train(&fixture.job(&arguments, &directory), &mut first).unwrap(),
        RunEnd::Interrupted
    );
    let (_, checkpoint) = first.checkpoints.last().unwrap();
    let mut second = Runner::default();
    train(
        &Job { start: Start::Resume(checkpoint), ..fixture.job(&arguments, &directory) },
        &mut second,
    )
    .unwrap();
    assert!(weights(&cached) == weights(&second), "the same weights");
}

#[test]
fn a_profile_of_frozen_layers_shows_the_steps_that_training_makes() {
    let fixture = Fixture::new();
    let layers = |values: Value| -> Vec<String> {
        let mut all = json!({"model.num_layers": 3, "freeze_layers": 2});
        all.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
        let arguments = arguments(all);
        let (directory, trace) =
            (fixture.path().join("profile"), fixture.path().join("trace.json"));
        let made = profile(&fixture.job(&arguments, &directory), 2, &trace, &mut Runner::default())
            .unwrap();
        made.layers.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(layers(json!({})), ["layer 2", "head and loss"], "what is kept is not computed");
    assert_eq!(
        layers(json!({"cache_frozen_features": false})),
        ["embeddings", "layer 0", "layer 1", "layer 2", "head and loss"]
    );
}

#[test]
fn tuned_runs_that_were_interrupted_go_on_bit_for_bit() {
    let fixture = Fixture::new();
    for (name, values) in [
        ("frozen", json!({"freeze_layers": 1, "layerwise_lr_decay": 0.8})),
        (
            "adapters",
            json!({"lora_r": 3, "lora_dropout": 0.1, "lora_target_modules": "all-linear"}),
        ),
        (
            "tokens",
            json!({"per_device_train_batch_size": null, "max_tokens_per_batch": 50, "gradient_checkpointing": true}),
        ),
        ("both", json!({"lora_r": 3, "freeze_layers": 1, "class_weights": "balanced"})),
    ] {
        let mut all = json!({"model.num_layers": 2});
        all.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
        let arguments = arguments(all);
        let mut whole = Runner::default();
        train(&fixture.job(&arguments, &fixture.path().join(name)), &mut whole).unwrap();
        let (directory, mut first) = (
            fixture.path().join(format!("{name}-parts")),
            Runner { stop_after: Some(7), ..Runner::default() },
        );
        assert_eq!(
            train(&fixture.job(&arguments, &directory), &mut first).unwrap(),
            RunEnd::Interrupted
        );
        let (_, checkpoint) = first.checkpoints.last().unwrap();
        let mut second = Runner::default();
        train(
            &Job { start: Start::Resume(checkpoint), ..fixture.job(&arguments, &directory) },
            &mut second,
        )
        .unwrap();
        let (one, other) =
            (&whole.checkpoints.last().unwrap().1, &second.checkpoints.last().unwrap().1);
        for file in ["model.safetensors", "optimizer.safetensors", "adapters.safetensors"] {
            assert!(
                fs::read(one.join(file)).ok() == fs::read(other.join(file)).ok(),
                "{name}: {file}"
            );
        }
        assert_eq!(one.join("adapters.safetensors").exists(), values["lora_r"] == 3);
        // What is reported is what an export does: adapters are merged.
        let measured =
            evaluate(one, &fixture.data, Split::Validation, 64, "cpu", &|_, _, _| {}).unwrap();
        assert!(
            (measured["eval_loss"] - whole.reports.last().unwrap().1["eval_loss"]).abs() < 1e-6
        );
    }
}

#[test]
fn names_that_fit_nothing_are_refused_with_those_there_are() {
    let fixture = Fixture::new();
    let problem = |values: Value| {
        let mut runner = Runner::default();
        train(&fixture.job(&arguments(values), &fixture.path().join("trial")), &mut runner)
            .unwrap_err()
            .to_string()
    };
    assert!(problem(json!({"freeze": "layers.3"})).contains(
        "`layers.3`, which the model does not have; it has embeddings, layers.0 to layers.0"
    ));
    assert!(problem(json!({"freeze_layers": 2})).contains("the model has 1 layers"));
    assert!(problem(json!({"freeze": "*"})).contains("nothing to train"));
    assert!(
        problem(json!({"lora_r": 2, "lora_target_modules": "q_proj"}))
            .contains("there are inner, key, outer, output, query, value, or all-linear")
    );
    assert!(
        problem(json!({"lora_r": 2, "freeze_layers": 1}))
            .contains("no trainable linear layer is left")
    );
    assert!(problem(json!({"class_weights": [1, 2]})).contains(
        "`class_weights` are 2, and the data has 3 labels: `negative`, `neutral`, `positive`"
    ));
}
