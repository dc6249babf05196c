//! Pretrained decoders against transformers, and the text that they generate.

use burn::tensor::Device;

use super::super::decoder::DecoderConfig;
use super::super::generation::TokenGenerator;
use super::super::language_modeling::LanguageModel;
use super::super::layers::ForwardContext;
use super::super::parameters::Values;
use super::super::pretrained_weights::load_trained;
use super::super::task::Model;
use super::golden::{Comparison, config_of, golden_directory, integers};
use super::*;

struct Golden {
    model: LanguageModel,
    values: Values,
    expected: Value,
    windows: Vec<Vec<u32>>,
    device: Device,
    /// The device's name.
    device_name: String,
}

impl Golden {
    fn on(device_name: &str, name: &str) -> Self {
        let (source, device) = (golden_directory(name), device::open(device_name).unwrap());
        let model = LanguageModel::new(DecoderConfig::read(config_of(&source)).unwrap());
        let values = load_trained(&source, &model, &device).unwrap();
        let expected = json_of(&source.join("golden.json"));
        let windows = expected["windows"].as_array().unwrap().iter().map(integers).collect();
        Self { model, values, expected, windows, device, device_name: device_name.to_owned() }
    }
}

fn is_transformers(name: &str) {
    each_device(|device_name| {
        let Golden { model, values, expected, windows, device, device_name } =
            &Golden::on(device_name, name);
        let context = ForwardContext::evaluation(values, device);
        let logits = model.decoder.forward(&context, &windows.concat(), 8);
        let loss = |context: &ForwardContext, chosen: &[usize]| {
            let [inputs, targets] = [0, 1].map(|first| -> Vec<u32> {
                chosen.iter().flat_map(|row| &windows[*row][first..][..7]).copied().collect()
            });
            let scale = 1.0 / targets.len() as f64;
            model.decoder.loss(context, &inputs, targets, 7, 0.0, scale)
        };
        Comparison {
            device_name,
            device,
            expected,
            parameters: model.parameters(),
            values,
            loss: &loss,
        }
        .run(logits, 3);
    });
}

/// Greedy decoding with a key-value cache.
fn writes_what_transformers_writes(name: &str) {
    each_device(|device_name| {
        let golden = Golden::on(device_name, name);
        let written = integers(&golden.expected["written"]);
        let prompt = written[..4].to_vec();
        let mut generator =
            TokenGenerator::new(&golden.model, &golden.values, &golden.device, prompt);
        for (position, expected) in written.iter().enumerate().skip(4) {
            let logits = generator.logits().unwrap();
            let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
            assert_eq!(best, *expected as usize, "{name}: token {position}");
            generator.push(*expected);
        }
    });
}

macro_rules! decoders {
    ($($test:ident: $name:literal),*) => {$(
        #[test]
        fn $test() {
            is_transformers($name);
            writes_what_transformers_writes($name);
        }
    )*};
}

decoders! {
    gpt2_is_transformers: "gpt2",
    llama_with_grouped_query_attention_is_transformers: "llama",
    gemma_with_its_scaled_embeddings_is_transformers: "gemma",
    phi_with_its_parallel_sublayers_is_transformers: "phi",
    phi3_with_its_packed_layers_is_transformers: "phi3",
    qwen2_with_its_biases_and_tied_embeddings_is_transformers: "qwen2",
    mistral_with_heads_of_their_own_width_is_transformers: "mistral",
    qwen3_with_norms_of_heads_is_transformers: "qwen3"
}

#[test]
fn phis_of_another_kind_are_refused() {
    let problem = |rope: Value, values: Value| {
        let mut config = merged(json_of(&golden_directory("phi").join("config.json")), values);
        config["rope_parameters"] = rope;
        DecoderConfig::read(config.as_object().unwrap().clone()).err()
    };
    let factor = |factor: f64| json!({"rope_theta": 10_000.0, "partial_rotary_factor": factor});
    assert_eq!(problem(factor(0.5), json!({})), None);
    // Phi-2's, before transformers 5.
    assert_eq!(problem(Value::Null, json!({"partial_rotary_factor": 0.25})), None);
    for (rope, values, expected) in [
        (factor(0.4), json!({}), "has heads of 8 elements, 3 of them rotated"),
        (factor(0.1), json!({}), "has heads of 8 elements, 0 of them rotated"),
        (factor(1.5), json!({}), "has `partial_rotary_factor` = 1.5, which is above 1"),
        (factor(0.5), json!({"qk_layernorm": true}), "has `qk_layernorm` = true"),
    ] {
        let said = problem(rope, values).unwrap();
        assert!(said.contains(expected), "{said}");
    }
}
