//! Pretrained models against transformers: `golden/` holds tiny checkpoints and what it computes with them, made by `tests/peers/models_golden.py`.

use burn::tensor::{Device, FloatDType, Tensor};

use super::super::atomic_directory::{AtomicDirectory, IfExists};
use super::super::batch::Batch;
use super::super::encoder::{Encoder, EncoderConfig};
use super::super::gradients::Gradients;
use super::super::layers::{DropoutKey, ForwardContext};
use super::super::learning_rate_schedule::{LearningRateSchedule, PlateauState};
use super::super::optimiser::{GradientClip, Optimiser, Placement, StepScalars, clip_coefficient};
use super::super::parameters::{Parameters, Role, Values, host};
use super::super::precision::GradScaler;
use super::super::prepared::{Description, FORMAT, TokenRows};
use super::super::pretrained_weights::load_trained;
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
        let values = load_trained(&source, &*model, &device).unwrap();
        let directory = TempDir::new().unwrap();
        let data = classified(directory.path(), &config, &expected);
        Self { model, values, expected, data, device, place: place.to_owned(), directory }
    }

    /// Model, values, data, device, and the directory that the data lies in.
    pub(super) fn parts(self) -> (Box<dyn Model>, Values, PreparedData, Device, TempDir) {
        (self.model, self.values, self.data, self.device, self.directory)
    }

    fn is_transformers(&self, name: &str) {
        let config = EncoderConfig::read(
            json_of(&golden_directory(name).join("config.json")).as_object().unwrap().clone(),
        )
        .unwrap();
        let (encoder, _) = Encoder::new(&config);
        let rows = self.data.split(Split::Train);
        let texts = (0..rows.len()).map(|row| rows.ids(row).collect()).collect();
        let logits = encoder
            .forward(&ForwardContext::evaluation(&self.values, &self.device), &Batch::new(texts));
        let loss = |context: &ForwardContext, chosen: &[usize]| {
            let micro_batch = MicroBatch {
                data: &self.data,
                chosen,
                step_examples: chosen.len(),
                weights: None,
                seed: 1,
                epoch: 0,
                smoothing: 0.0,
            };
            self.model.forward_loss(context, &micro_batch)
        };
        let Self { place, device, expected, values, .. } = self;
        Comparison {
            place,
            device,
            expected,
            parameters: self.model.parameters(),
            values,
            loss: &loss,
        }
        .run(logits, rows.len());
    }
}

/// The texts of a golden file as prepared data.
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
            number if config["problem_type"] == "regression" => {
                (number.as_f64().unwrap() as f32).to_bits()
            }
            label => u32::try_from(label.as_u64().unwrap()).unwrap(),
        })
        .collect();
    let texts = expected["texts"].as_array().unwrap().iter();
    let ids = texts.map(|text| {
        text.as_array()
            .unwrap()
            .iter()
            .map(|id| u32::try_from(id.as_u64().unwrap()).unwrap())
            .collect()
    });
    let rows: Vec<(Vec<u32>, u32)> = ids.zip(codes).collect();
    let labels = ["LABEL_0", "LABEL_1", "LABEL_2"].map(str::to_owned).to_vec();
    prepared(directory, &rows, Description { labels, label_sets, ..plain(rows.len()) })
}

/// The description of `rows` rows.
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
pub(super) fn prepared(
    directory: &Path,
    rows: &[(Vec<u32>, u32)],
    description: Description,
) -> PreparedData {
    let target = directory.join("data");
    let draft = AtomicDirectory::new(&target).unwrap();
    draft.write("train.rows", &TokenRows::encode(rows)).unwrap();
    draft.write("validation.rows", &TokenRows::encode(rows)).unwrap();
    draft.write("test.rows", &TokenRows::encode(&[])).unwrap();
    draft.write("data.json", &serde_json::to_vec(&description).unwrap()).unwrap();
    draft.publish(IfExists::Keep).unwrap();
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

/// A golden model, and how to compute its loss on some rows.
pub(super) struct Comparison<'a> {
    pub(super) place: &'a str,
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
            close("a logit", (*own).into(), theirs, on(self.place, 1e-4));
        }
        let (loss, gradients) =
            self.gradients(self.values, &(0..rows).collect::<Vec<_>>(), None, 1.0);
        close(
            "loss",
            host(loss).unwrap()[0].into(),
            self.expected["loss"].as_f64().unwrap(),
            on(self.place, 1e-4),
        );
        self.gradients_are_theirs(gradients, on(self.place, 1e-3));
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
        let context = ForwardContext::training(
            &leaves,
            &device,
            DropoutKey { seed: 1, step: 0, micro_batch: 0 },
        )
        .with_compute_dtype(compute_dtype);
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
        assert_eq!(
            self.parameters.iter().count(),
            expected.as_object().unwrap().len(),
            "as many tensors"
        );
        for (parameter, gradient) in self.parameters.iter().zip(gradients.0) {
            let (own, theirs) =
                (in_file_order(gradient, parameter.role), &expected[&parameter.name]);
            let norm = own.iter().map(|number| number * number).sum::<f64>().sqrt();
            close(&parameter.name, norm, theirs["norm"].as_f64().unwrap(), tolerance);
            close(&parameter.name, own.iter().sum(), theirs["sum"].as_f64().unwrap(), tolerance);
            for (own, theirs) in own.iter().zip(numbers(&theirs["first"])) {
                close(&parameter.name, *own, theirs, tolerance);
            }
        }
    }

    /// The arguments of twenty steps with AdamW, weight decay, clipping and a linear schedule, and the rows of each.
    fn steps(&self) -> (TrainerArguments, Vec<Vec<usize>>) {
        let training = &self.expected["training"];
        let rows = |batch: &Value| {
            batch
                .as_array()
                .unwrap()
                .iter()
                .map(|row| usize::try_from(row.as_u64().unwrap()).unwrap())
                .collect()
        };
        let batches: Vec<_> = training["batches"].as_array().unwrap().iter().map(rows).collect();
        let arguments = arguments(json!({
            "learning_rate": training["learning_rate"], "weight_decay": training["weight_decay"], "max_steps": batches.len(), "warmup_steps": 0,
        }));
        (arguments, batches)
    }

    fn fine_tuning_follows(&self) {
        let ((arguments, batches), losses) =
            (self.steps(), numbers(&self.expected["training"]["losses"]));
        let schedule = LearningRateSchedule::new(&arguments, losses.len() as u64);
        let own = (self.place == "cpu").then_some(Placement::InPlace);
        for place in own.into_iter().chain([Placement::Host, Placement::Device]) {
            let mut values = self.values.clone();
            let mut optimiser = Optimiser::new(&arguments, self.parameters, self.device, place);
            for (step, (chosen, expected)) in (0..).zip(batches.iter().zip(&losses)) {
                let (loss, gradients) = self.gradients(&values, chosen, None, 1.0);
                let gradients = Gradients::from(gradients);
                let squares = gradients.loss_and_squares(loss.clone());
                let (loss, norm) = gradients.loss_and_norm(loss).unwrap();
                close(&format!("loss of step {step}"), loss, *expected, on(self.place, 1e-3));
                let pace = StepScalars {
                    learning_rate: schedule.learning_rate(step, &PlateauState::default()),
                    step: step + 1,
                };
                let clip = match place {
                    Placement::Device => {
                        GradientClip::on_device(squares.clone().narrow(0, 1, 1), 1.0)
                    }
                    Placement::InPlace | Placement::Host => {
                        GradientClip::By(clip_coefficient(norm, 1.0))
                    }
                };
                optimiser.step(self.parameters, &mut values, gradients, pace, &clip).unwrap();
            }
        }
    }

    /// The same steps in mixed precision, fp16 with a scaled loss, as PyTorch's autocast and GradScaler: within a fraction of the first loss.
    fn mixed_precision_follows(&self) {
        for (kind, dtype, tolerance) in
            [("bf16", FloatDType::BF16, 0.02), ("fp16", FloatDType::F16, 0.01)]
        {
            if self.device.supports_dtype(dtype) {
                let losses = self.losses_in(kind, dtype);
                let [theirs, f32] = [format!("losses_in_{kind}"), "losses".to_owned()]
                    .map(|key| numbers(&self.expected["training"][key]));
                for (step, (own, theirs)) in losses.iter().zip(&theirs).enumerate() {
                    let near = (own - theirs).abs() <= tolerance * f32[0];
                    assert!(
                        near,
                        "{}, {kind}, step {step}: {own} where transformers has {theirs}",
                        self.place
                    );
                }
            }
        }
    }

    /// Which gradients overflow depends on the order of operations: steps that theirs skipped are skipped, and the others are made, with a
    /// smaller scale where necessary.
    fn losses_in(&self, kind: &str, dtype: FloatDType) -> Vec<f64> {
        let ((arguments, batches), skipped) =
            (self.steps(), numbers(&self.expected["training"][format!("skipped_in_{kind}")]));
        let schedule = LearningRateSchedule::new(&arguments, batches.len() as u64);
        let mut values = self.values.clone();
        let mut optimiser = Optimiser::new(
            &arguments,
            self.parameters,
            self.device,
            device::optimiser_placement(self.place),
        );
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
                assert!(scale >= 8_192.0, "{}, {kind}, step {step}", self.place);
            };
            if skipped.contains(&f64::from(step)) {
                assert!(scaler.as_mut().unwrap().overflowed());
                continue;
            }
            let made = u64::from(step) - scaler.map_or(0, |scaler| scaler.skipped);
            let pace = StepScalars {
                learning_rate: schedule.learning_rate(made, &PlateauState::default()),
                step: made + 1,
            };
            let clip = GradientClip::By(clip_coefficient(norm / scale, 1.0) / scale);
            optimiser.step(self.parameters, &mut values, gradients, pace, &clip).unwrap();
        }
        losses
    }
}

macro_rules! classifiers {
    ($($test:ident: $name:literal),*) => {$(
        #[test]
        fn $test() {
            each_device(|place| Golden::on(place, $name).is_transformers($name));
        }
    )*};
}

classifiers! {
    bert_is_transformers: "bert",
    bert_for_several_labels_is_transformers: "bert-multi-label",
    bert_for_regression_is_transformers: "bert-regression",
    roberta_is_transformers: "roberta",
    distilbert_is_transformers: "distilbert",
    modernbert_with_local_and_global_layers_is_transformers: "modernbert",
    modernbert_with_biases_and_its_first_token_is_transformers: "modernbert-biased"
}
