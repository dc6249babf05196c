//! Pretrained decoders against transformers, and the text that they write.

use burn::tensor::{Device, FloatDType, Tensor};

use super::super::decoder::Architecture;
use super::super::generation::Writer;
use super::super::gradients::Gradients;
use super::super::language_modeling::LanguageModel;
use super::super::layers::{DropoutKey, Pass};
use super::super::optimiser::{Clip, Optimiser, Pace, clip_factor};
use super::super::parameters::{Values, host};
use super::super::pretrained::trained_values;
use super::super::schedule::{Plateau, RateCourse};
use super::super::task::Model;
use super::golden::{close, golden_directory, gradients_are, json_of, mixed_precision_follows_transformers, numbers};
use super::*;

struct Golden {
    model: LanguageModel,
    values: Values,
    expected: Value,
    windows: Vec<Vec<u32>>,
    device: Device,
    /// The device's name.
    place: String,
}

fn tokens(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()).collect()
}

impl Golden {
    fn on(place: &str, name: &str) -> Self {
        let (source, device) = (golden_directory(name), device::open(place).unwrap());
        let model = LanguageModel::new(Architecture::read(json_of(&source.join("config.json")).as_object().unwrap().clone()).unwrap());
        let values = trained_values(&source, &model, &device).unwrap();
        let expected = json_of(&source.join("golden.json"));
        let windows = expected["windows"].as_array().unwrap().iter().map(tokens).collect();
        Self { model, values, expected, windows, device, place: place.to_owned() }
    }

    fn gradients(&self, values: &Values, chosen: &[usize]) -> (Tensor<1>, Values) {
        self.scaled_gradients(values, chosen, None, 1.0)
    }

    /// The same in mixed precision, of a scaled loss.
    fn scaled_gradients(&self, values: &Values, chosen: &[usize], precision: Option<FloatDType>, scale: f64) -> (Tensor<1>, Values) {
        let leaves = values.leaves(self.model.parameters());
        let device = self.device.clone().autodiff();
        let pass = Pass::training(&leaves, &device, DropoutKey { seed: 1, step: 0, micro_batch: 0 }).in_precision(precision);
        let seen: Vec<u32> = chosen.iter().flat_map(|row| &self.windows[*row][..7]).copied().collect();
        let told: Vec<u32> = chosen.iter().flat_map(|row| &self.windows[*row][1..]).copied().collect();
        let share = 1.0 / told.len() as f64;
        let loss = self.model.decoder.loss(&pass, &seen, told, 7, 0.0, share) * scale;
        let mut gradients = loss.backward();
        let gradient = |leaf: &Tensor<2>| leaf.grad_remove(&mut gradients).unwrap_or_else(|| leaf.clone().inner().zeros_like());
        (loss.inner(), Values(leaves.0.iter().map(gradient).collect()))
    }
}

fn is_transformers(name: &str) {
    each_device(|place| {
        let golden = Golden::on(place, name);
        learns_as_transformers(&golden);
        let gradients = |values: &Values, chosen: &[usize], precision, scale| golden.scaled_gradients(values, chosen, precision, scale);
        let (training, parameters) = (&golden.expected["training"], golden.model.parameters());
        mixed_precision_follows_transformers(place, training, parameters, &golden.values, &gradients);
    });
}

fn learns_as_transformers(golden: &Golden) {
    let logits = host(golden.model.decoder.forward(&Pass::inference(&golden.values, &golden.device), &golden.windows.concat(), 8)).unwrap();
    let expected = numbers(&golden.expected["logits"]);
    assert_eq!(logits.len(), expected.len());
    for (own, theirs) in logits.iter().zip(expected) {
        close("a logit", (*own).into(), theirs, on(&golden.place, 1e-4));
    }
    let (loss, gradients) = golden.gradients(&golden.values, &[0, 1, 2]);
    close("loss", host(loss).unwrap()[0].into(), golden.expected["loss"].as_f64().unwrap(), on(&golden.place, 1e-4));
    gradients_are(golden.model.parameters(), gradients, &golden.expected["gradients"], on(&golden.place, 1e-3));

    let training = &golden.expected["training"];
    let losses = numbers(&training["losses"]);
    let arguments = arguments(json!({
        "learning_rate": training["learning_rate"], "weight_decay": training["weight_decay"], "max_steps": losses.len(), "warmup_steps": 0,
    }));
    let course = RateCourse::new(&arguments, losses.len() as u64);
    let mut values = golden.values.clone();
    let mut optimiser = Optimiser::new(&arguments, golden.model.parameters(), &golden.device, device::optimiser_place(&golden.place));
    for (step, (batch, expected)) in (0..).zip(training["batches"].as_array().unwrap().iter().zip(&losses)) {
        let chosen: Vec<usize> = tokens(batch).into_iter().map(|row| row as usize).collect();
        let (loss, gradients) = golden.gradients(&values, &chosen);
        let gradients = Gradients::from(gradients);
        let (loss, norm) = gradients.loss_and_norm(loss).unwrap();
        close(&format!("loss of step {step}"), loss, *expected, on(&golden.place, 1e-3));
        let pace = Pace { rate: course.rate(step, &Plateau::default()), step: step + 1 };
        optimiser.step(golden.model.parameters(), &mut values, gradients, pace, &Clip::By(clip_factor(norm, 1.0))).unwrap();
    }
}

/// Always the likeliest token, with what was computed for earlier ones kept.
fn writes_what_transformers_writes(name: &str) {
    each_device(|place| writes_as_transformers(&Golden::on(place, name), name));
}

fn writes_as_transformers(golden: &Golden, name: &str) {
    let written = tokens(&golden.expected["written"]);
    let mut writer = Writer::new(&golden.model, &golden.values, &golden.device, written[..4].to_vec());
    for (place, expected) in written.iter().enumerate().skip(4) {
        let logits = writer.logits().unwrap();
        let likeliest = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
        assert_eq!(likeliest, *expected as usize, "{name}: token {place}");
        writer.push(*expected);
    }
}

#[test]
fn gpt2_is_transformers() {
    is_transformers("gpt2");
    writes_what_transformers_writes("gpt2");
}

#[test]
fn llama_with_shared_heads_is_transformers() {
    is_transformers("llama");
    writes_what_transformers_writes("llama");
}

#[test]
fn qwen2_with_its_biases_and_tied_embeddings_is_transformers() {
    is_transformers("qwen2");
    writes_what_transformers_writes("qwen2");
}

#[test]
fn mistral_with_heads_of_their_own_width_is_transformers() {
    is_transformers("mistral");
    writes_what_transformers_writes("mistral");
}

#[test]
fn qwen3_with_norms_of_heads_is_transformers() {
    is_transformers("qwen3");
    writes_what_transformers_writes("qwen3");
}
