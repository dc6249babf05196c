//! Encoders with decoders against transformers: logits, losses, gradients, training, and the texts
//! that they write.

use burn::tensor::Device;

use super::super::atomic_directory::AtomicDirectory;
use super::super::batch::Batch;
use super::super::encoder_decoder::Seq2SeqConfig;
use super::super::layers::ForwardContext;
use super::super::parameters::Values;
use super::super::prepared::{Description, Extra, TextEnds, TokenRows};
use super::super::pretrained_weights::load_trained;
use super::super::sequence_to_sequence::SequenceToSequenceModel;
use super::super::task::{MicroBatch, Model};
use super::super::writing::TextGeneration;
use super::golden::{Comparison, config_of, golden_directory, integers, plain};
use super::*;

struct Golden {
    model: SequenceToSequenceModel,
    values: Values,
    expected: Value,
    data: PreparedData,
    sources: Vec<Vec<u32>>,
    targets: Vec<Vec<u32>>,
    device: Device,
    /// The device's name.
    device_name: String,
    _directory: TempDir,
}

impl Golden {
    fn on(device_name: &str, name: &str) -> Self {
        let (source, device) = (golden_directory(name), device::open(device_name).unwrap());
        let model = SequenceToSequenceModel::new(Seq2SeqConfig::read(config_of(&source)).unwrap());
        let values = load_trained(&source, &model, &device).unwrap();
        let expected = json_of(&source.join("golden.json"));
        let of = |key: &str| expected[key].as_array().unwrap().iter().map(integers).collect();
        let (sources, targets): (Vec<Vec<u32>>, Vec<Vec<u32>>) = (of("texts"), of("targets"));
        let directory = TempDir::new().unwrap();
        let data = pairs(directory.path(), &sources, &targets);
        Self {
            model,
            values,
            expected,
            data,
            sources,
            targets,
            device,
            device_name: device_name.to_owned(),
            _directory: directory,
        }
    }
}

/// Pairs of texts as prepared data.
fn pairs(directory: &Path, sources: &[Vec<u32>], targets: &[Vec<u32>]) -> PreparedData {
    let ends = TextEnds { pad: 0, end: 1, longest: 9, prefix: None };
    let description = Description {
        extras: vec![Extra::SecondTexts],
        text_ends: Some(ends),
        ..plain(sources.len())
    };
    let staged = AtomicDirectory::new(&directory.join("data")).unwrap();
    let rows = |texts: &[Vec<u32>]| texts.iter().map(|ids| (ids.clone(), 0)).collect::<Vec<_>>();
    for (split, [sources, targets]) in
        Split::ALL.into_iter().zip([[sources, targets], [sources, targets], [&[], &[]]])
    {
        let name = format!("{}.rows", split.name());
        staged.write(&name, &TokenRows::encode(&rows(sources))).unwrap();
        let name = Extra::SecondTexts.file(split);
        staged.write(&name, &TokenRows::encode(&rows(targets))).unwrap();
    }
    staged.write("data.json", &serde_json::to_vec(&description).unwrap()).unwrap();
    staged.publish(super::super::atomic_directory::IfExists::Keep).unwrap();
    PreparedData::open(&directory.join("data")).unwrap()
}

fn is_transformers(name: &str) {
    each_device(|device_name| {
        let golden = &Golden::on(device_name, name);
        let Golden { model, values, expected, data, device, device_name, .. } = golden;
        let context = ForwardContext::evaluation(values, device);
        let source = Batch::new(golden.sources.clone());
        let logits = model.model.forward(&context, &source, &model.shifted(&golden.targets));
        let loss = |context: &ForwardContext, chosen: &[usize]| {
            model.forward_loss(context, &MicroBatch::whole_step(model, data, chosen))
        };
        let parameters = model.parameters();
        Comparison { device_name, device, expected, parameters, values, loss: &loss }
            .run(logits, golden.sources.len());
        writes_as_there(golden);
    });
}

/// Greedily and with beams, the same tokens.
fn writes_as_there(golden: &Golden) {
    let Golden { model, values, expected, device, device_name, .. } = golden;
    let context = ForwardContext::evaluation(values, device);
    let written = expected["written"].as_object().unwrap();
    assert_eq!(written.len(), 5);
    for (how, there) in written {
        let options = &there["options"];
        let number = |key: &str| options[key].as_u64().map(|number| number as usize);
        let config = TextGeneration {
            // The start counts there.
            max_new_tokens: there["max_length"].as_u64().unwrap() as usize - 1,
            min_new_tokens: number("min_length").map_or(0, |length| length - 1),
            num_beams: number("num_beams").unwrap(),
            length_penalty: options["length_penalty"].as_f64().unwrap_or(1.0),
            no_repeat_ngram_size: number("no_repeat_ngram_size").unwrap_or(0),
            early_stopping: options["early_stopping"] == true,
        };
        let texts = model.write(&context, &Batch::new(golden.sources.clone()), &config).unwrap();
        let theirs: Vec<Vec<u32>> =
            there["texts"].as_array().unwrap().iter().map(integers).collect();
        assert_eq!(texts, theirs, "{device_name}, {how}");
        // Alone a text is written as among others.
        let alone = Batch::new(vec![golden.sources[2].clone()]);
        assert_eq!(model.write(&context, &alone, &config).unwrap(), theirs[2..3], "{how}");
    }
}

#[test]
fn t5_is_transformers() {
    is_transformers("t5");
}

#[test]
fn t5_with_gates_and_an_output_of_its_own_is_transformers() {
    is_transformers("t5-gated");
}

#[test]
fn mt5_is_transformers() {
    is_transformers("mt5");
}

#[test]
fn bart_is_transformers() {
    is_transformers("bart");
}

#[test]
fn marian_is_transformers() {
    is_transformers("marian");
}
