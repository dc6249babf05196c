//! Pretrained decoders against transformers, and the text that they write.

use burn::tensor::Device;

use super::super::decoder::DecoderConfig;
use super::super::generation::TokenGenerator;
use super::super::language_modeling::LanguageModel;
use super::super::layers::ForwardContext;
use super::super::parameters::Values;
use super::super::pretrained_weights::load_trained;
use super::super::task::Model;
use super::golden::{Comparison, golden_directory, json_of};
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
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| u32::try_from(id.as_u64().unwrap()).unwrap())
        .collect()
}

impl Golden {
    fn on(place: &str, name: &str) -> Self {
        let (source, device) = (golden_directory(name), device::open(place).unwrap());
        let model = LanguageModel::new(
            DecoderConfig::read(json_of(&source.join("config.json")).as_object().unwrap().clone())
                .unwrap(),
        );
        let values = load_trained(&source, &model, &device).unwrap();
        let expected = json_of(&source.join("golden.json"));
        let windows = expected["windows"].as_array().unwrap().iter().map(tokens).collect();
        Self { model, values, expected, windows, device, place: place.to_owned() }
    }
}

fn is_transformers(name: &str) {
    each_device(|place| {
        let Golden { model, values, expected, windows, device, place } = &Golden::on(place, name);
        let logits = model.decoder.forward(
            &ForwardContext::evaluation(values, device),
            &windows.concat(),
            8,
        );
        let loss = |context: &ForwardContext, chosen: &[usize]| {
            let inputs: Vec<u32> =
                chosen.iter().flat_map(|row| &windows[*row][..7]).copied().collect();
            let targets: Vec<u32> =
                chosen.iter().flat_map(|row| &windows[*row][1..]).copied().collect();
            let scale = 1.0 / targets.len() as f64;
            model.decoder.loss(context, &inputs, targets, 7, 0.0, scale)
        };
        Comparison { place, device, expected, parameters: model.parameters(), values, loss: &loss }
            .run(logits, 3);
    });
}

/// Greedy decoding with a key-value cache.
fn writes_what_transformers_writes(name: &str) {
    each_device(|place| writes_as_transformers(&Golden::on(place, name), name));
}

fn writes_as_transformers(golden: &Golden, name: &str) {
    let written = tokens(&golden.expected["written"]);
    let mut writer =
        TokenGenerator::new(&golden.model, &golden.values, &golden.device, written[..4].to_vec());
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
