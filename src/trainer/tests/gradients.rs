//! Gradients, padding, clipping and optimiser steps against reference implementations.

use burn::tensor::{Device, Tensor, activation};

use super::super::batch::Batch;
use super::super::encoder::EncoderConfig;
use super::super::encoder_model::EncoderModel;
use super::super::fused::{SparseGradientSink, SparseRows};
use super::super::gradients::{Gradient, Gradients};
use super::super::layers::{DropoutKey, ForwardContext};
use super::super::optimiser::{GradientClip, Optimiser, Placement, StepScalars, clip_coefficient};
use super::super::parameters::{Parameters, Role, Values, host, tensor};
use super::super::sequence_classification::SequenceClassification;
use super::super::task::Model as _;
use super::*;

type Classifier = EncoderModel<SequenceClassification>;

fn model(values: Value) -> (Classifier, Parameters, Values, Device) {
    let (model, labels) = (arguments(values).model, ["a", "b", "c"].map(str::to_owned));
    let config = EncoderConfig::new(&model, TaskKind::TextClassification, &labels, 12, 10);
    let model = Classifier::new(config.unwrap());
    let (parameters, device) = (model.parameters().clone(), Device::flex());
    let values = parameters.initial_values(3, &device);
    (model, parameters, values, device)
}

const KEY: DropoutKey = DropoutKey { seed: 1, step: 2, micro_batch: 0 };

fn loss(model: &Classifier, values: &Values, device: &Device, batch: &Batch) -> Tensor<1> {
    let context = ForwardContext::training(values, device, KEY);
    let logits = model.logits(&context, batch);
    let targets = tensor(vec![0.9, 0.05, 0.05, 0.1, 0.2, 0.7], [2, 3], device);
    (activation::log_softmax(logits, 1) * targets).sum().neg()
}

#[test]
fn gradients_of_the_whole_model_are_finite_differences() {
    let (model, parameters, values, device) =
        model(json!({"model.hidden_size": 8, "model.intermediate_size": 12}));
    let batch = Batch::new(vec![vec![2, 5, 7, 9, 3], vec![2, 8, 3]]);
    gradients_are_finite_differences(&parameters, values, &device, |values, device| {
        loss(&model, values, device, &batch)
    });
}

/// Compares the gradient of `loss` at these values with finite differences.
pub(super) fn gradients_are_finite_differences(
    parameters: &Parameters,
    values: Values,
    device: &Device,
    loss: impl Fn(&Values, &Device) -> Tensor<1>,
) {
    // Initial embeddings are so small that a norm's curvature spoils the differences; gelu is
    // smooth.
    let pairs = values.0.into_iter().zip(parameters.iter());
    let larger = pairs.map(|(v, p)| if p.role == Role::Embedding { v * 30.0 } else { v });
    let values = Values(larger.collect());
    let leaves = values.leaves(parameters);
    let tracked = device.clone().autodiff();
    let mut gradients = loss(&leaves, &tracked).backward();
    let at = |values: &Values| f64::from(host(loss(values, device)).unwrap()[0]);
    for (index, parameter) in parameters.iter().enumerate() {
        let gradient = host(leaves.0[index].grad_remove(&mut gradients).unwrap()).unwrap();
        // A direction of +1 and -1, so that every element counts.
        let direction: Vec<f32> = (0..gradient.len())
            .map(|i| if (i * 7 + index) % 3 == 0 { 1.0 } else { -1.0 })
            .collect();
        let exact: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(g * d)).sum();
        let step = 2e-3 / (gradient.len() as f64).sqrt();
        let moved = |sign: f64| {
            let mut moved = values.clone();
            moved.0[index] = moved.0[index].clone()
                + tensor(direction.clone(), parameter.shape, device) * (sign * step);
            at(&moved)
        };
        let difference = (moved(1.0) - moved(-1.0)) / (2.0 * step);
        let is_close = (exact - difference).abs() < 0.02 * exact.abs() + 0.004;
        assert!(is_close, "{}: {exact} {difference}", parameter.name);
    }
}

#[test]
fn padding_does_not_change_logits() {
    for pooling in ["mean", "cls"] {
        let (model, _, values, device) = model(json!({"model.pooling": pooling}));
        let logits = |texts: Vec<Vec<u32>>| {
            host(model.logits(&ForwardContext::evaluation(&values, &device), &Batch::new(texts)))
                .unwrap()
        };
        let alone = logits(vec![vec![2, 7, 3]]);
        let beside = logits(vec![vec![2, 7, 3], vec![2, 5, 6, 7, 8, 9, 10, 11, 4, 3]]);
        let is_close = alone.iter().zip(&beside).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(is_close, "{alone:?} {beside:?}");
    }
}

#[test]
fn fresh_parameters_depend_on_seed_and_name_alone() {
    let (_, small, one, device) = model(json!({"model.num_layers": 1}));
    let (_, large, other, _) = model(json!({"model.num_layers": 2}));
    for (parameter, value) in small.iter().zip(&one.0) {
        let twin = large.iter().position(|other| other == parameter).unwrap();
        assert_eq!(host(value.clone()).unwrap(), host(other.0[twin].clone()).unwrap());
    }
    let of_another_seed = small.initial_values(4, &device).0.swap_remove(0);
    assert_ne!(host(one.0[0].clone()).unwrap(), host(of_another_seed).unwrap());
}

/// One weight and one bias, to which weight decay does not apply.
fn two_parameters() -> (Parameters, Device) {
    let mut parameters = Parameters::default();
    parameters.add("w".to_owned(), [1, 2], Role::Linear);
    parameters.add("b".to_owned(), [1, 1], Role::Bias);
    (parameters, Device::flex())
}

fn step_with(
    optimiser: &mut Optimiser,
    parameters: &Parameters,
    values: &mut Values,
    gradients: Gradients,
    step: u64,
    clip: f64,
) {
    let scalars = StepScalars::new(0.1, step);
    optimiser.step(parameters, values, gradients, scalars, &GradientClip::By(clip)).unwrap();
}

fn three_steps(values: Value, placement: Placement) -> Vec<Vec<f32>> {
    let (parameters, device) = two_parameters();
    let mut optimiser = Optimiser::new(&arguments(values), &parameters, &device, placement);
    let row =
        |numbers: Vec<f32>| -> Tensor<2> { tensor(numbers.clone(), [1, numbers.len()], &device) };
    let mut values = Values(vec![row(vec![1.0, -2.0]), row(vec![0.5])]);
    for (step, gradient) in (1..).zip([[0.1, -0.2, 0.3], [0.4, 0.0, -0.5], [-0.3, 1.0, 0.2]]) {
        let gradients = Values(vec![row(gradient[..2].to_vec()), row(gradient[2..].to_vec())]);
        step_with(&mut optimiser, &parameters, &mut values, gradients.into(), step, 1.0);
    }
    values.0.into_iter().map(|value| host(value).unwrap()).collect()
}

fn assert_close(actual: &[Vec<f32>], expected: &[&[f64]]) {
    let close = |(a, e): (&f32, &f64)| (f64::from(*a) - e).abs() < 1e-6;
    assert!(
        actual.iter().flatten().zip(expected.iter().copied().flatten()).all(close),
        "{actual:?} {expected:?}"
    );
}

/// AdamW in scalars and f64, as in Loshchilov and Hutter 2019 and `torch.optim.AdamW`.
fn reference_adamw(mut value: f64, gradients: [f64; 3], decay: f64) -> f64 {
    let (mut mean, mut square) = (0.0, 0.0);
    for (step, gradient) in (1..).zip(gradients) {
        value *= 1.0 - 0.1 * decay;
        mean = 0.9 * mean + 0.1 * gradient;
        square = 0.999 * square + 0.001 * gradient * gradient;
        let (mean, square) =
            (mean / (1.0 - 0.9_f64.powi(step)), square / (1.0 - 0.999_f64.powi(step)));
        value -= 0.1 * mean / (square.sqrt() + 1e-8);
    }
    value
}

#[test]
fn adamw_takes_pytorchs_steps() {
    let reference =
        [reference_adamw(1.0, [0.1, 0.4, -0.3], 0.1), reference_adamw(-2.0, [-0.2, 0.0, 1.0], 0.1)];
    for placement in [Placement::InPlace, Placement::Host, Placement::Device] {
        let actual = three_steps(json!({"weight_decay": 0.1}), placement);
        assert_close(&actual, &[&reference, &[reference_adamw(0.5, [0.3, -0.5, 0.2], 0.0)]]);
    }
}

#[test]
fn sgd_takes_pytorchs_steps() {
    // torch.optim.SGD(lr=0.1, momentum=0.9, weight_decay=0.1): g += 0.1 p; b = 0.9 b + g; p -= 0.1
    // b.
    let reference = |mut value: f64, gradients: [f64; 3], decay: f64| {
        let mut buffer = 0.0;
        for gradient in gradients {
            buffer = 0.9 * buffer + gradient + decay * value;
            value -= 0.1 * buffer;
        }
        value
    };
    let weight = [reference(1.0, [0.1, 0.4, -0.3], 0.1), reference(-2.0, [-0.2, 0.0, 1.0], 0.1)];
    for placement in [Placement::InPlace, Placement::Host, Placement::Device] {
        let actual = three_steps(json!({"optim": "sgd", "weight_decay": 0.1}), placement);
        assert_close(&actual, &[&weight, &[reference(0.5, [0.3, -0.5, 0.2], 0.0)]]);
    }
}

#[test]
fn clipping_is_by_the_norm_of_all_gradients_together() {
    let device = Device::flex();
    let gradients = || {
        Values(vec![tensor(vec![3.0, 0.0], [1, 2], &device), tensor(vec![4.0], [1, 1], &device)])
    };
    let (loss, norm) =
        Gradients::from(gradients()).loss_and_norm(tensor(vec![0.25], [1], &device)).unwrap();
    assert_eq!((loss, norm), (0.25, 5.0));
    assert!((clip_coefficient(norm, 1.0) - 0.2).abs() < 1e-6);
    assert_eq!(clip_coefficient(norm, 0.0), 1.0);
    assert_eq!(clip_coefficient(norm, 6.0), 1.0);
    let (parameters, device) = two_parameters();
    for placement in [Placement::InPlace, Placement::Host, Placement::Device] {
        for optim in ["sgd", "adamw"] {
            let step = |clip: f64, share: f64| {
                let arguments = arguments(json!({"optim": optim}));
                let mut optimiser = Optimiser::new(&arguments, &parameters, &device, placement);
                let (w, b) =
                    (tensor(vec![1.0, 2.0], [1, 2], &device), tensor(vec![3.0], [1, 1], &device));
                let mut values = Values(vec![w, b]);
                let shrunk = gradients().0.into_iter().map(|gradient| gradient * share);
                let shrunk = Values(shrunk.collect()).into();
                step_with(&mut optimiser, &parameters, &mut values, shrunk, 1, clip);
                values.0.into_iter().flat_map(|value| host(value).unwrap()).collect::<Vec<_>>()
            };
            for (clipped, scaled) in step(0.25, 1.0).iter().zip(step(1.0, 0.25)) {
                assert!((clipped - scaled).abs() < 1e-6, "{placement:?} {optim}");
            }
        }
    }
}

#[test]
fn sparse_gradients_are_the_dense_ones() {
    let (model, parameters, values, device) = model(json!({}));
    let batch = Batch::new(vec![vec![2, 5, 7, 7, 3], vec![2, 8, 3]]);
    let tracked = device.clone().autodiff();
    let gradients = |is_sparse: bool| {
        let (leaves, sink) = (values.leaves(&parameters), SparseGradientSink::default());
        let context = ForwardContext::training(&leaves, &tracked, KEY);
        let context = if is_sparse { context.with_sparse_gradients(&sink) } else { context };
        let loss = model.logits(&context, &batch).square().sum();
        Gradients::of(&loss, &leaves, &sink, &device).unwrap()
    };
    let (whole, parts) = (gradients(false), gradients(true));
    let is_sparse = |gradient: &&Gradient| matches!(gradient, Gradient::Sparse(_));
    assert_eq!(parts.0.iter().filter(is_sparse).count(), 2);
    let loss = || tensor(vec![1.0], [1], &device);
    let (one, other) = (whole.loss_and_norm(loss()).unwrap(), parts.loss_and_norm(loss()).unwrap());
    assert!((one.1 - other.1).abs() < 1e-6 * one.1);
    let twice = parts.clone().plus(parts.clone(), &device).unwrap();
    for (((parameter, whole), part), twice) in
        parameters.iter().zip(whole.0).zip(parts.0).zip(twice.0)
    {
        let numbers = |gradient: Gradient| host(gradient.into_dense(parameter, &device)).unwrap();
        let (whole, part) = (numbers(whole), numbers(part));
        assert_eq!(whole, part, "{}", parameter.name);
        let is_twice =
            |(twice, part): (&f32, &f32)| (twice - 2.0 * part).abs() <= 1e-6 * part.abs();
        assert!(numbers(twice).iter().zip(&part).all(is_twice));
    }
}

#[test]
fn steps_with_sparse_gradients_equal_those_with_dense_ones_bit_for_bit() {
    let mut parameters = Parameters::default();
    parameters.add("table".to_owned(), [5, 3], Role::Embedding);
    let device = Device::flex();
    for optim in ["adamw", "sgd"] {
        let arguments = arguments(json!({"optim": optim, "weight_decay": 0.1}));
        let run = |whole: bool| {
            let mut optimiser =
                Optimiser::new(&arguments, &parameters, &device, Placement::InPlace);
            let table = (1..16).map(|number| number as f32 / 7.0).collect();
            let mut values = Values(vec![tensor(table, [5, 3], &device)]);
            for (step, ids) in (1..).zip([[1, 3], [3, 1], [0, 3], [1, 1]]) {
                let entries = SparseRows::new(3, &ids, &[0.1, -0.2, 0.3, step as f32, 0.5, 0.7]);
                let gradient = Gradient::Sparse(entries);
                let gradient = if whole {
                    Gradient::Dense(gradient.into_dense(parameters.iter().next().unwrap(), &device))
                } else {
                    gradient
                };
                let gradients = Gradients(vec![gradient]);
                step_with(&mut optimiser, &parameters, &mut values, gradients, step, 0.5);
            }
            let all = optimiser.state.into_iter().flat_map(|one| one.values.0).chain(values.0);
            all.flat_map(|value| host(value).unwrap()).map(f32::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(run(true), run(false), "{optim}");
    }
}
