//! Pretrained models against transformers: `golden/` holds tiny checkpoints and transformers'
//! results, made by `tests/peers/models_golden.py`.

use burn::tensor::{Device, FloatDType, Tensor};

use super::super::atomic_directory::{AtomicDirectory, IfExists};
use super::super::encoder_model::EncoderModel;
use super::super::gradients::Gradients;
use super::super::layers::{DropoutKey, ForwardContext};
use super::super::learning_rate_schedule::{LearningRateSchedule, PlateauState};
use super::super::optimiser::{GradientClip, Optimiser, Placement, StepScalars, clip_coefficient};
use super::super::parameters::{Parameters, Role, Values, host};
use super::super::precision::GradScaler;
use super::super::prepared::{Description, Extra, FORMAT, TokenRows};
use super::super::pretrained_weights::load_trained;
use super::super::sequence_classification::SequenceClassification;
use super::super::task::{MicroBatch, Model};
use super::super::tasks::read_model;
use super::*;

/// One directory of `golden/`, of a classifier.
pub(super) struct Golden {
    model: Box<dyn Model>,
    values: Values,
    /// `golden.json`.
    expected: Value,
    data: PreparedData,
    device: Device,
    /// The device's name.
    device_name: String,
    directory: TempDir,
}

pub(super) fn golden_directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The `config.json` of a model's directory.
pub(super) fn config_of(directory: &Path) -> serde_json::Map<String, Value> {
    json_of(&directory.join("config.json")).as_object().unwrap().clone()
}

pub(super) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

impl Golden {
    pub(super) fn on(device_name: &str, name: &str) -> Self {
        let (source, device) = (golden_directory(name), device::open(device_name).unwrap());
        let (config, expected) = (config_of(&source), json_of(&source.join("golden.json")));
        let model = read_model(config.clone()).unwrap();
        let values = load_trained(&source, &*model, &device).unwrap();
        let directory = TempDir::new().unwrap();
        let is_regression = config.get("problem_type").is_some_and(|kind| kind == "regression");
        let data = labelled_rows(directory.path(), is_regression, &expected);
        Self {
            model,
            values,
            expected,
            data,
            device,
            device_name: device_name.to_owned(),
            directory,
        }
    }

    /// Model, values, data, device, and the directory that the data lies in.
    pub(super) fn parts(self) -> (Box<dyn Model>, Values, PreparedData, Device, TempDir) {
        (self.model, self.values, self.data, self.device, self.directory)
    }

    fn is_transformers(&self) {
        let model: &dyn std::any::Any = &*self.model;
        let model = model.downcast_ref::<EncoderModel<SequenceClassification>>().unwrap();
        let rows: Vec<usize> = (0..self.data.rows(Split::Train)).collect();
        let context = ForwardContext::evaluation(&self.values, &self.device);
        let logits = model.logits(&context, &model.batch(&self.data, Split::Train, &rows));
        let loss = |context: &ForwardContext, chosen: &[usize]| {
            let micro_batch = MicroBatch::whole_step(&*self.model, &self.data, chosen);
            self.model.forward_loss(context, &micro_batch)
        };
        let Self { device_name, device, expected, values, .. } = self;
        let parameters = self.model.parameters();
        Comparison { device_name, device, expected, parameters, values, loss: &loss }
            .run(logits, rows.len());
    }
}

pub(super) fn integers(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

/// The texts and labels of a golden file as prepared data.
fn labelled_rows(directory: &Path, is_regression: bool, expected: &Value) -> PreparedData {
    let mut label_sets: Vec<Vec<usize>> = Vec::new();
    let mut target = |label: &Value| match label {
        Value::Array(all) => {
            label_sets.push((0..all.len()).filter(|id| all[*id] == 1.0).collect());
            u32::try_from(label_sets.len() - 1).unwrap()
        }
        number if is_regression => (number.as_f64().unwrap() as f32).to_bits(),
        label => u32::try_from(label.as_u64().unwrap()).unwrap(),
    };
    let labels = expected["labels"].as_array().unwrap().iter().map(&mut target);
    let texts = expected["texts"].as_array().unwrap().iter().map(integers);
    let rows: Vec<(Vec<u32>, u32)> = texts.zip(labels).collect();
    let labels = ["LABEL_0", "LABEL_1", "LABEL_2"].map(str::to_owned).to_vec();
    let description = Description { labels, label_sets, ..plain(rows.len()) };
    match expected["token_types"].as_array() {
        Some(types) => {
            let types: Vec<Vec<u32>> = types.iter().map(integers).collect();
            with_numbers(directory, &rows, description, (Extra::TokenTypes, &types))
        }
        None => prepared(directory, &rows, description),
    }
}

/// The same with a number for each token.
pub(super) fn with_numbers(
    directory: &Path,
    rows: &[(Vec<u32>, u32)],
    description: Description,
    (what, numbers): (Extra, &[Vec<u32>]),
) -> PreparedData {
    with_all_numbers(directory, rows, description, &[(what, numbers)])
}

/// The same with several kinds of numbers.
pub(super) fn with_all_numbers(
    directory: &Path,
    rows: &[(Vec<u32>, u32)],
    description: Description,
    all: &[(Extra, &[Vec<u32>])],
) -> PreparedData {
    let target = directory.join("data");
    drop(prepared(directory, rows, description.clone()));
    for (what, numbers) in all {
        let numbers: Vec<(Vec<u32>, u32)> = numbers.iter().map(|row| (row.clone(), 0)).collect();
        for (split, numbers) in Split::ALL.into_iter().zip([&numbers[..], &numbers, &[]]) {
            fs::write(target.join(what.file(split)), TokenRows::encode(numbers)).unwrap();
        }
    }
    let extras = all.iter().map(|(what, _)| *what).collect();
    let description = Description { extras, ..description };
    fs::write(target.join("data.json"), serde_json::to_vec(&description).unwrap()).unwrap();
    PreparedData::open(&target).unwrap()
}

/// The description of `rows` rows.
pub(super) fn plain(rows: usize) -> Description {
    Description {
        format: FORMAT,
        digest: "golden".to_owned(),
        labels: Vec::new(),
        label_sets: Vec::new(),
        extras: Vec::new(),
        rows: [rows, rows, 0],
        max_length: 12,
        vocab_size: 40,
        tokenizer: words(),
        stream: None,
        has_scores: false,
        mask: None,
        text_ends: None,
        questions: None,
        findings: Vec::new(),
    }
}

/// Rows as prepared data, for training and validation alike.
pub(super) fn prepared(
    directory: &Path,
    rows: &[(Vec<u32>, u32)],
    description: Description,
) -> PreparedData {
    let target = directory.join("data");
    let staged = AtomicDirectory::new(&target).unwrap();
    staged.write("train.rows", &TokenRows::encode(rows)).unwrap();
    staged.write("validation.rows", &TokenRows::encode(rows)).unwrap();
    staged.write("test.rows", &TokenRows::encode(&[])).unwrap();
    staged.write("data.json", &serde_json::to_vec(&description).unwrap()).unwrap();
    staged.publish(IfExists::Keep).unwrap();
    PreparedData::open(&target).unwrap()
}

pub(super) fn close(what: &str, actual: f64, expected: f64, tolerance: f64) {
    assert!(
        (actual - expected).abs() <= tolerance * (1.0 + expected.abs()),
        "{what}: {actual} where transformers has {expected}"
    );
}

/// A tensor's elements in the order of a file.
pub(super) fn in_file_order(value: Tensor<2>, role: Role) -> Vec<f64> {
    let value = if role.is_transposed() { value.transpose() } else { value };
    host(value).unwrap().into_iter().map(f64::from).collect()
}

pub(super) fn norm_of(numbers: &[f64]) -> f64 {
    numbers.iter().map(|number| number * number).sum::<f64>().sqrt()
}

/// A golden model, and how to compute its loss on some rows.
pub(super) struct Comparison<'a> {
    pub(super) device_name: &'a str,
    pub(super) device: &'a Device,
    /// `golden.json`.
    pub(super) expected: &'a Value,
    pub(super) parameters: &'a Parameters,
    pub(super) values: &'a Values,
    pub(super) loss: &'a dyn Fn(&ForwardContext, &[usize]) -> Tensor<1>,
}

impl Comparison<'_> {
    /// Compares logits, loss, gradients and fine-tuning, in f32 and in mixed precision.
    pub(super) fn run(&self, logits: Tensor<2>, rows: usize) {
        let (logits, expected) = (host(logits).unwrap(), numbers(&self.expected["logits"]));
        assert_eq!(logits.len(), expected.len());
        for (own, theirs) in logits.iter().zip(expected) {
            close("a logit", (*own).into(), theirs, on(self.device_name, 1e-4));
        }
        let rows: Vec<usize> = (0..rows).collect();
        let (loss, gradients) = self.gradients(self.values, &rows, None, 1.0);
        let (loss, theirs) = (host(loss).unwrap()[0], self.expected["loss"].as_f64().unwrap());
        close("loss", loss.into(), theirs, on(self.device_name, 1e-4));
        self.gradients_are_theirs(gradients, on(self.device_name, 1e-3));
        self.fine_tuning_follows();
        self.mixed_precision_follows();
    }

    /// The loss on some rows and its gradients, both times `scale`.
    fn gradients(
        &self,
        values: &Values,
        chosen: &[usize],
        compute_dtype: Option<FloatDType>,
        scale: f64,
    ) -> (Tensor<1>, Values) {
        let (leaves, device) = (values.leaves(self.parameters), self.device.clone().autodiff());
        let key = DropoutKey { seed: 1, step: 0, micro_batch: 0 };
        let context =
            ForwardContext::training(&leaves, &device, key).with_compute_dtype(compute_dtype);
        let loss = (self.loss)(&context, chosen) * scale;
        let mut gradients = loss.backward();
        let gradient = |leaf: &Tensor<2>| {
            leaf.grad_remove(&mut gradients).unwrap_or_else(|| leaf.clone().inner().zeros_like())
        };
        (loss.inner(), Values(leaves.0.iter().map(gradient).collect()))
    }

    /// Compares norms, sums and first elements by the names of the tensors.
    fn gradients_are_theirs(&self, gradients: Values, tolerance: f64) {
        let expected = &self.expected["gradients"];
        let trained = self.parameters.iter().filter(|one| one.role != Role::Buffer).count();
        assert_eq!(trained, expected.as_object().unwrap().len());
        let all = self.parameters.iter().zip(gradients.0);
        for (parameter, gradient) in all.filter(|(one, _)| one.role != Role::Buffer) {
            let (own, theirs) =
                (in_file_order(gradient, parameter.role), &expected[&parameter.name]);
            close(&parameter.name, norm_of(&own), theirs["norm"].as_f64().unwrap(), tolerance);
            close(&parameter.name, own.iter().sum(), theirs["sum"].as_f64().unwrap(), tolerance);
            for (own, theirs) in own.iter().zip(numbers(&theirs["first"])) {
                close(&parameter.name, *own, theirs, tolerance);
            }
        }
    }

    /// The arguments of twenty steps with AdamW, weight decay, clipping and a linear schedule, and
    /// the rows of each.
    fn steps(&self) -> (TrainerArguments, Vec<Vec<usize>>) {
        let training = &self.expected["training"];
        let batches: Vec<Vec<usize>> = serde_json::from_value(training["batches"].clone()).unwrap();
        let arguments = arguments(json!({
            "learning_rate": training["learning_rate"], "weight_decay": training["weight_decay"],
            "max_steps": batches.len(), "warmup_steps": 0,
        }));
        (arguments, batches)
    }

    fn fine_tuning_follows(&self) {
        let ((arguments, batches), losses) =
            (self.steps(), numbers(&self.expected["training"]["losses"]));
        let schedule = LearningRateSchedule::new(&arguments, losses.len() as u64);
        let own = (self.device_name == "cpu").then_some(Placement::InPlace);
        for placement in own.into_iter().chain([Placement::Host, Placement::Device]) {
            let mut values = self.values.clone();
            let mut optimiser = Optimiser::new(&arguments, self.parameters, self.device, placement);
            for (step, (chosen, expected)) in (0..).zip(batches.iter().zip(&losses)) {
                let (loss, gradients) = self.gradients(&values, chosen, None, 1.0);
                let gradients = Gradients::from(gradients);
                let squares = gradients.loss_and_squares(loss.clone());
                let (loss, norm) = gradients.loss_and_norm(loss).unwrap();
                close(&format!("loss of step {step}"), loss, *expected, on(self.device_name, 1e-3));
                let learning_rate = schedule.learning_rate(step, &PlateauState::default());
                let scalars = StepScalars::new(learning_rate, step + 1);
                let clip = match placement {
                    Placement::Device => GradientClip::on_device(squares.narrow(0, 1, 1), 1.0),
                    _ => GradientClip::By(clip_coefficient(norm, 1.0)),
                };
                optimiser.step(self.parameters, &mut values, gradients, scalars, &clip).unwrap();
            }
        }
    }

    /// The same steps in mixed precision, fp16 with a scaled loss, as PyTorch's autocast and
    /// GradScaler: within a fraction of the first loss.
    fn mixed_precision_follows(&self) {
        // A device adds in another order, which twenty steps enlarge: 0.016 on an H100.
        let of_fp16 = if self.device_name == "cpu" { 0.01 } else { 0.03 };
        for (kind, dtype, tolerance) in
            [("bf16", FloatDType::BF16, 0.03), ("fp16", FloatDType::F16, of_fp16)]
        {
            if self.device.supports_dtype(dtype) {
                let losses = self.losses_in(kind, dtype);
                let [theirs, f32] = [format!("losses_in_{kind}").as_str(), "losses"]
                    .map(|key| numbers(&self.expected["training"][key]));
                for (step, (own, theirs)) in losses.iter().zip(&theirs).enumerate() {
                    let is_close = (own - theirs).abs() <= tolerance * f32[0];
                    assert!(
                        is_close,
                        "{}, {kind}, step {step}: {own}, not {theirs}",
                        self.device_name
                    );
                }
            }
        }
    }

    /// Which gradients overflow depends on the order of operations: steps skipped there are
    /// skipped, and the others are made, with a smaller scale if necessary.
    fn losses_in(&self, kind: &str, dtype: FloatDType) -> Vec<f64> {
        let ((arguments, batches), skipped) =
            (self.steps(), numbers(&self.expected["training"][format!("skipped_in_{kind}")]));
        let schedule = LearningRateSchedule::new(&arguments, batches.len() as u64);
        let mut values = self.values.clone();
        let placement = device::optimiser_placement(self.device_name);
        let mut optimiser = Optimiser::new(&arguments, self.parameters, self.device, placement);
        let mut scaler = GradScaler::new(Some(dtype));
        let mut losses = Vec::new();
        for (step, chosen) in (0_u32..).zip(&batches) {
            let mut scale = scaler.map_or(1.0, |scaler| scaler.scale);
            let (gradients, norm) = loop {
                let (loss, gradients) = self.gradients(&values, chosen, Some(dtype), scale);
                let gradients = Gradients::from(gradients);
                let (loss, norm) = gradients.loss_and_norm(loss).unwrap();
                if norm.is_finite() || skipped.contains(&f64::from(step)) {
                    losses.push(loss / scale);
                    break (gradients, norm);
                }
                scale /= 2.0;
                assert!(scale >= 8_192.0, "{}, {kind}, step {step}", self.device_name);
            };
            if skipped.contains(&f64::from(step)) {
                assert!(scaler.as_mut().unwrap().overflowed());
                continue;
            }
            let made = u64::from(step) - scaler.map_or(0, |scaler| scaler.skipped);
            let learning_rate = schedule.learning_rate(made, &PlateauState::default());
            let scalars = StepScalars::new(learning_rate, made + 1);
            let clip = GradientClip::By(clip_coefficient(norm / scale, 1.0) / scale);
            optimiser.step(self.parameters, &mut values, gradients, scalars, &clip).unwrap();
        }
        losses
    }
}

macro_rules! classifiers {
    ($($test:ident: $name:literal),*) => {$(
        #[test]
        fn $test() {
            each_device(|device_name| Golden::on(device_name, $name).is_transformers());
        }
    )*};
}

classifiers! {
    bert_is_transformers: "bert",
    bert_for_several_labels_is_transformers: "bert-multi-label",
    bert_for_regression_is_transformers: "bert-regression",
    bert_for_pairs_of_texts_is_transformers: "bert-pairs",
    roberta_is_transformers: "roberta",
    distilbert_is_transformers: "distilbert",
    xlm_roberta_is_transformers: "xlm-roberta",
    electra_is_transformers: "electra",
    albert_with_its_shared_layers_is_transformers: "albert",
    modernbert_with_local_and_global_layers_is_transformers: "modernbert",
    modernbert_with_biases_and_its_first_token_is_transformers: "modernbert-biased",
    deberta_is_transformers: "deberta-v2",
    deberta_without_buckets_is_transformers: "deberta-v2-plain"
}

#[test]
fn debertas_of_another_kind_are_refused() {
    let problem = |values: Value| {
        let config = merged(json_of(&golden_directory("deberta-v2").join("config.json")), values);
        read_model(config.as_object().unwrap().clone()).err()
    };
    assert_eq!(problem(json!({"pos_att_type": "p2c|c2p", "max_relative_positions": 512})), None);
    for (values, expected) in [
        (json!({"share_att_key": false}), "has no `share_att_key` = true"),
        (json!({"share_att_key": null}), "has no `share_att_key` = true"),
        (json!({"relative_attention": false}), "has no `relative_attention` = true"),
        (json!({"position_biased_input": true}), "has no `position_biased_input` = false"),
        (json!({"conv_kernel_size": 3}), "has `conv_kernel_size` = 3, which is not supported"),
        (json!({"type_vocab_size": 2}), "has `type_vocab_size` = 2, which is not supported"),
        (json!({"embedding_size": 8}), "has `embedding_size` = 8, which is not supported"),
        (json!({"pos_att_type": ["p2p"]}), "has `pos_att_type` = \"p2p\", which is not supported"),
        (json!({"position_buckets": 0.5e10}), "`position_buckets`"),
        (json!({"max_relative_positions": "x"}), "`max_relative_positions`"),
    ] {
        let said = problem(values.clone()).unwrap();
        assert!(said.contains(expected), "{values}: {said}");
    }
}
