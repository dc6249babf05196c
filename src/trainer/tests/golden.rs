//! Pretrained models against transformers: `golden/` holds tiny checkpoints and what it computes with them, made by `tests/peers/models_golden.py`.

use burn::tensor::{Device, FloatDType, Tensor};

use super::super::durable::{Draft, Existing};
use super::super::encoder::{Architecture, Encoder};
use super::super::gradients::Gradients;
use super::super::layers::{DropoutKey, Pass};
use super::super::optimiser::{Clip, Optimiser, Pace, Place, clip_factor};
use super::super::parameters::{Parameters, Role, Values, host};
use super::super::precision::Scaling;
use super::super::prepared::{Description, FORMAT, TokenRows};
use super::super::pretrained::trained_values;
use super::super::schedule::{Plateau, RateCourse};
use super::super::task::{Model, Part, read_model};
use super::*;

/// One directory of `golden/`.
pub(super) struct Golden {
    model: Box<dyn Model>,
    values: Values,
    /// `golden.json`.
    expected: Value,
    data: PreparedData,
    device: Device,
    /// The device's name.
    place: String,
    directory: TempDir,
}

pub(super) fn golden_directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/trainer/tests/golden").join(name)
}

pub(super) fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub(super) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

impl Golden {
    pub(super) fn of(name: &str) -> Self {
        Self::on("cpu", name)
    }

    fn on(place: &str, name: &str) -> Self {
        let (source, device) = (golden_directory(name), device::open(place).unwrap());
        let config = json_of(&source.join("config.json"));
        let expected = json_of(&source.join("golden.json"));
        let model = read_model(config.as_object().unwrap().clone()).unwrap();
        let values = trained_values(&source, &*model, &device).unwrap();
        let directory = TempDir::new().unwrap();
        let data = classified(directory.path(), &config, &expected);
        Self { model, values, expected, data, device, place: place.to_owned(), directory }
    }

    /// Model, values, data, device, and the directory that the data lies in.
    pub(super) fn parts(self) -> (Box<dyn Model>, Values, PreparedData, Device, TempDir) {
        (self.model, self.values, self.data, self.device, self.directory)
    }

    fn rows(&self) -> usize {
        self.data.rows(Split::Train)
    }

    /// Loss and gradients of some rows.
    fn gradients(&self, values: &Values, chosen: &[usize]) -> (Tensor<1>, Values) {
        self.scaled_gradients(values, chosen, None, 1.0)
    }

    /// The same in mixed precision, of a scaled loss.
    fn scaled_gradients(&self, values: &Values, chosen: &[usize], precision: Option<FloatDType>, scale: f64) -> (Tensor<1>, Values) {
        let leaves = values.leaves(self.model.parameters());
        let device = self.device.clone().autodiff();
        let pass = Pass::training(&leaves, &device, DropoutKey { seed: 1, step: 0, micro_batch: 0 }).in_precision(precision);
        let part = Part { data: &self.data, chosen, step_examples: chosen.len(), weights: None, seed: 1, epoch: 0, smoothing: 0.0 };
        let loss = self.model.loss(&pass, &part) * scale;
        let mut gradients = loss.backward();
        let gradient = |leaf: &Tensor<2>| leaf.grad_remove(&mut gradients).unwrap_or_else(|| leaf.clone().inner().zeros_like());
        (loss.inner(), Values(leaves.0.iter().map(gradient).collect()))
    }
}

/// The texts of a golden file as the prepared data that preparation would make of them.
fn classified(directory: &Path, config: &Value, expected: &Value) -> PreparedData {
    let labels = expected["labels"].as_array().unwrap();
    let mut label_sets: Vec<Vec<usize>> = Vec::new();
    let codes: Vec<u32> = labels
        .iter()
        .map(|label| match label {
            Value::Array(all) => {
                label_sets.push((0..all.len()).filter(|id| all[*id] == 1.0).collect());
                u32::try_from(label_sets.len() - 1).unwrap()
            }
            number if config["problem_type"] == "regression" => (number.as_f64().unwrap() as f32).to_bits(),
            label => u32::try_from(label.as_u64().unwrap()).unwrap(),
        })
        .collect();
    let texts = expected["texts"].as_array().unwrap().iter();
    let ids = texts.map(|text| text.as_array().unwrap().iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()).collect());
    let rows: Vec<(Vec<u32>, u32)> = ids.zip(codes).collect();
    let labels = ["LABEL_0", "LABEL_1", "LABEL_2"].map(str::to_owned).to_vec();
    prepared(directory, &rows, Description { labels, label_sets, ..plain(rows.len()) })
}

/// What is said of so many rows.
pub(super) fn plain(rows: usize) -> Description {
    Description {
        format: FORMAT,
        digest: "golden".to_owned(),
        labels: Vec::new(),
        label_sets: Vec::new(),
        rows: [rows, rows, 0],
        max_length: 12,
        vocab_size: 40,
        tokenizer: words(),
        stream: None,
        findings: Vec::new(),
    }
}

/// Rows as prepared data, for training and validation alike.
pub(super) fn prepared(directory: &Path, rows: &[(Vec<u32>, u32)], description: Description) -> PreparedData {
    let target = directory.join("data");
    let draft = Draft::new(&target).unwrap();
    draft.write("train.rows", &TokenRows::encode(rows)).unwrap();
    draft.write("validation.rows", &TokenRows::encode(rows)).unwrap();
    draft.write("test.rows", &TokenRows::encode(&[])).unwrap();
    draft.write("data.json", &serde_json::to_vec(&description).unwrap()).unwrap();
    draft.publish(Existing::Keep).unwrap();
    PreparedData::open(&target).unwrap()
}

pub(super) fn close(what: &str, actual: f64, expected: f64, tolerance: f64) {
    assert!((actual - expected).abs() <= tolerance * (1.0 + expected.abs()), "{what}: {actual} where transformers has {expected}");
}

/// A tensor's numbers in the order in which they lie in files.
pub(super) fn in_file_order(value: Tensor<2>, role: Role) -> Vec<f64> {
    let value = if role.is_transposed() { value.transpose() } else { value };
    host(value).unwrap().into_iter().map(f64::from).collect()
}

fn loss_and_gradients_are_transformers(golden: &Golden) {
    let all: Vec<usize> = (0..golden.rows()).collect();
    let (loss, gradients) = golden.gradients(&golden.values, &all);
    close("loss", host(loss).unwrap()[0].into(), golden.expected["loss"].as_f64().unwrap(), on(&golden.place, 1e-4));
    gradients_are(golden.model.parameters(), gradients, &golden.expected["gradients"], on(&golden.place, 1e-3));
}

/// Holds gradients against transformers': norms, sums and first numbers, by the names of the tensors.
pub(super) fn gradients_are(parameters: &Parameters, gradients: Values, expected: &Value, tolerance: f64) {
    assert_eq!(parameters.iter().count(), expected.as_object().unwrap().len(), "as many tensors");
    for (parameter, gradient) in parameters.iter().zip(gradients.0) {
        let (own, theirs) = (in_file_order(gradient, parameter.role), &expected[&parameter.name]);
        let norm = own.iter().map(|number| number * number).sum::<f64>().sqrt();
        close(&parameter.name, norm, theirs["norm"].as_f64().unwrap(), tolerance);
        close(&parameter.name, own.iter().sum(), theirs["sum"].as_f64().unwrap(), tolerance);
        for (own, theirs) in own.iter().zip(numbers(&theirs["first"])) {
            close(&parameter.name, *own, theirs, tolerance);
        }
    }
}

/// Twenty steps with AdamW, weight decay, clipping and a linear schedule.
fn fine_tuning_follows_transformers(golden: &Golden) {
    let training = &golden.expected["training"];
    let losses = numbers(&training["losses"]);
    let arguments = arguments(json!({
        "learning_rate": training["learning_rate"], "weight_decay": training["weight_decay"], "max_steps": losses.len(), "warmup_steps": 0,
    }));
    let course = RateCourse::new(&arguments, losses.len() as u64);
    let own = (golden.place == "cpu").then_some(Place::Own);
    for place in own.into_iter().chain([Place::Host, Place::Device]) {
        let mut values = golden.values.clone();
        let mut optimiser = Optimiser::new(&arguments, golden.model.parameters(), &golden.device, place);
        for (step, (batch, expected)) in (0..).zip(training["batches"].as_array().unwrap().iter().zip(&losses)) {
            let chosen: Vec<usize> = batch.as_array().unwrap().iter().map(|row| usize::try_from(row.as_u64().unwrap()).unwrap()).collect();
            let (loss, gradients) = golden.gradients(&values, &chosen);
            let gradients = Gradients::from(gradients);
            let squares = gradients.loss_and_squares(loss.clone());
            let (loss, norm) = gradients.loss_and_norm(loss).unwrap();
            close(&format!("loss of step {step}"), loss, *expected, on(&golden.place, 1e-3));
            let pace = Pace { rate: course.rate(step, &Plateau::default()), step: step + 1 };
            let clip = match place {
                Place::Device => Clip::on_device(squares.clone().narrow(0, 1, 1), 1.0),
                Place::Own | Place::Host => Clip::By(clip_factor(norm, 1.0)),
            };
            optimiser.step(golden.model.parameters(), &mut values, gradients, pace, &clip).unwrap();
        }
    }
}

/// Of some rows, in mixed precision, with a scaled loss: the loss and its gradients.
type ScaledGradients<'a> = &'a dyn Fn(&Values, &[usize], Option<FloatDType>, f64) -> (Tensor<1>, Values);

/// The same steps with products of short numbers, fp16 with a scaled loss, after PyTorch's autocast and GradScaler: within a share of the
/// first loss.
pub(super) fn mixed_precision_follows_transformers(
    place: &str,
    training: &Value,
    parameters: &Parameters,
    begun: &Values,
    gradients: ScaledGradients,
) {
    let device = device::open(place).unwrap();
    for (kind, precision, tolerance) in [("bf16", FloatDType::BF16, 0.02), ("fp16", FloatDType::F16, 0.01)] {
        if device.supports_dtype(precision) {
            let losses = losses_in(place, training, parameters, begun, gradients, (kind, precision));
            let [theirs, single] = [format!("losses_in_{kind}"), "losses".to_owned()].map(|key| numbers(&training[key]));
            for (step, (own, theirs)) in losses.iter().zip(&theirs).enumerate() {
                assert!((own - theirs).abs() <= tolerance * single[0], "{place}, {kind}, step {step}: {own} where transformers has {theirs}");
            }
        }
    }
}

/// Which gradients overflow is a matter of the order of operations: steps that theirs did not make are not made, and others are, if need be
/// with a smaller scale.
fn losses_in(
    place: &str,
    training: &Value,
    parameters: &Parameters,
    begun: &Values,
    gradients: ScaledGradients,
    (kind, precision): (&str, FloatDType),
) -> Vec<f64> {
    let device = device::open(place).unwrap();
    let skipped = numbers(&training[format!("skipped_in_{kind}")]);
    let batches = training["batches"].as_array().unwrap();
    let arguments = arguments(json!({
        "learning_rate": training["learning_rate"], "weight_decay": training["weight_decay"], "max_steps": batches.len(), "warmup_steps": 0,
    }));
    let course = RateCourse::new(&arguments, batches.len() as u64);
    let mut values = begun.clone();
    let mut optimiser = Optimiser::new(&arguments, parameters, &device, device::optimiser_place(place));
    let mut scaling = Scaling::begin(Some(precision));
    let mut losses = Vec::new();
    for (step, batch) in (0_u32..).zip(batches) {
        let chosen: Vec<usize> = batch.as_array().unwrap().iter().map(|row| usize::try_from(row.as_u64().unwrap()).unwrap()).collect();
        let mut scale = scaling.map_or(1.0, |scaling| scaling.scale);
        let (found, norm) = loop {
            let (loss, found) = gradients(&values, &chosen, Some(precision), scale);
            let found = Gradients::from(found);
            let (loss, norm) = found.loss_and_norm(loss).unwrap();
            if norm.is_finite() || skipped.contains(&f64::from(step)) {
                losses.push(loss / scale);
                break (found, norm);
            }
            scale /= 2.0;
            assert!(scale >= 8_192.0, "{place}, {kind}, step {step}");
        };
        if skipped.contains(&f64::from(step)) {
            assert!(scaling.as_mut().unwrap().overflowed());
            continue;
        }
        let made = u64::from(step) - scaling.map_or(0, |scaling| scaling.skipped);
        let pace = Pace { rate: course.rate(made, &Plateau::default()), step: made + 1 };
        let clip = Clip::By(clip_factor(norm / scale, 1.0) / scale);
        optimiser.step(parameters, &mut values, found, pace, &clip).unwrap();
    }
    losses
}

fn logits_are_transformers(golden: &Golden, name: &str) {
    let config = json_of(&golden_directory(name).join("config.json"));
    let architecture = Architecture::read(config.as_object().unwrap().clone()).unwrap();
    let (encoder, _): (Encoder, Parameters) = Encoder::new(&architecture);
    let rows = golden.data.split(Split::Train);
    let texts = (0..rows.len()).map(|row| rows.ids(row).collect()).collect();
    let logits = host(encoder.forward(&Pass::inference(&golden.values, &golden.device), &super::super::batch::Batch::new(texts))).unwrap();
    let expected = numbers(&golden.expected["logits"]);
    assert_eq!(logits.len(), expected.len());
    for (own, theirs) in logits.iter().zip(expected) {
        close("a logit", (*own).into(), theirs, on(&golden.place, 1e-4));
    }
}

macro_rules! classifiers {
    ($($test:ident: $name:literal),*) => {$(
        #[test]
        fn $test() {
            each_device(|place| {
                let golden = Golden::on(place, $name);
                logits_are_transformers(&golden, $name);
                loss_and_gradients_are_transformers(&golden);
                fine_tuning_follows_transformers(&golden);
                let (training, parameters) = (&golden.expected["training"], golden.model.parameters());
                let gradients = |values: &Values, chosen: &[usize], precision, scale| golden.scaled_gradients(values, chosen, precision, scale);
                mixed_precision_follows_transformers(place, training, parameters, &golden.values, &gradients);
            });
        }
    )*};
}

classifiers! {
    bert_is_transformers: "bert",
    bert_for_several_labels_is_transformers: "bert-multi-label",
    bert_for_regression_is_transformers: "bert-regression",
    roberta_is_transformers: "roberta",
    distilbert_is_transformers: "distilbert",
    modernbert_with_near_and_far_layers_is_transformers: "modernbert",
    modernbert_with_biases_and_its_first_token_is_transformers: "modernbert-biased"
}
