//! Gradients, padding, clipping and optimiser steps against numbers from elsewhere.

use burn::tensor::{Device, Tensor, activation};

use super::super::batch::Batch;
use super::super::encoder::{Architecture, Encoder};
use super::super::fused::{Aside, Entries};
use super::super::gradients::{Gradient, Gradients};
use super::super::layers::{DropoutKey, Pass};
use super::super::optimiser::{Clip, Optimiser, Pace, Place, clip_factor};
use super::super::parameters::{Parameters, Role, Values, host, tensor};
use super::*;

fn model(values: Value) -> (Encoder, Parameters, Values, Device) {
    let arguments = arguments(values);
    let labels: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    let (encoder, parameters) = Encoder::new(&Architecture::new(&arguments.model, TaskKind::TextClassification, &labels, 12, 10).unwrap());
    let device = Device::flex();
    let values = parameters.fresh(3, &device);
    (encoder, parameters, values, device)
}

fn loss(encoder: &Encoder, values: &Values, device: &Device, batch: &Batch) -> Tensor<1> {
    let pass = Pass::training(values, device, DropoutKey { seed: 1, step: 2, micro_batch: 0 });
    let logits = encoder.forward(&pass, batch);
    let targets = tensor(vec![0.9, 0.05, 0.05, 0.1, 0.2, 0.7], [2, 3], device);
    (activation::log_softmax(logits, 1) * targets).sum().neg()
}

#[test]
fn gradients_of_the_whole_model_are_finite_differences() {
    let (encoder, parameters, values, device) = model(json!({"model.hidden_size": 8, "model.intermediate_size": 12}));
    let batch = Batch::new(vec![vec![2, 5, 7, 9, 3], vec![2, 8, 3]]);
    gradients_are_differences(&parameters, values, &device, |values, device| loss(&encoder, values, device, &batch));
}

/// Holds the gradient of `loss`, at these values, against differences of it.
pub(super) fn gradients_are_differences(parameters: &Parameters, values: Values, device: &Device, loss: impl Fn(&Values, &Device) -> Tensor<1>) {
    // Embeddings as fresh are so small that a norm's curvature spoils the differences: larger ones, and gelu, which is smooth.
    let values = Values(values.0.into_iter().zip(parameters.iter()).map(|(v, p)| if p.role == Role::Table { v * 30.0 } else { v }).collect());
    let leaves = values.leaves(parameters);
    let tracked = device.clone().autodiff();
    let mut gradients = loss(&leaves, &tracked).backward();
    let at = |values: &Values| f64::from(host(loss(values, device)).unwrap()[0]);
    for (index, parameter) in parameters.iter().enumerate() {
        let gradient = host(leaves.0[index].grad_remove(&mut gradients).unwrap()).unwrap();
        // Along a direction of +1 and -1, so that every element counts.
        let direction: Vec<f32> = (0..gradient.len()).map(|i| if (i * 7 + index) % 3 == 0 { 1.0 } else { -1.0 }).collect();
        let exact: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(g * d)).sum();
        let step = 2e-3 / (gradient.len() as f64).sqrt();
        let moved = |sign: f64| {
            let mut moved = values.clone();
            moved.0[index] = moved.0[index].clone() + tensor(direction.clone(), parameter.shape, device) * (sign * step);
            at(&moved)
        };
        let difference = (moved(1.0) - moved(-1.0)) / (2.0 * step);
        assert!((exact - difference).abs() < 0.02 * exact.abs() + 0.004, "{}: {exact} {difference}", parameter.name);
    }
}

#[test]
fn padding_does_not_change_logits() {
    for pooling in ["mean", "cls"] {
        let (encoder, _, values, device) = model(json!({"model.pooling": pooling}));
        let logits = |texts: Vec<Vec<u32>>| host(encoder.forward(&Pass::inference(&values, &device), &Batch::new(texts))).unwrap();
        let alone = logits(vec![vec![2, 7, 3]]);
        let beside = logits(vec![vec![2, 7, 3], vec![2, 5, 6, 7, 8, 9, 10, 11, 4, 3]]);
        assert!(alone.iter().zip(&beside).all(|(a, b)| (a - b).abs() < 1e-6), "{alone:?} {beside:?}");
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
    assert_ne!(host(one.0[0].clone()).unwrap(), host(small.fresh(4, &device).0[0].clone()).unwrap());
}

/// One weight and one bias, so that decay is seen to spare the latter.
fn two_parameters() -> (Parameters, Device) {
    let mut parameters = Parameters::default();
    parameters.add("w".to_owned(), [1, 2], Role::Weight);
    parameters.add("b".to_owned(), [1, 1], Role::Bias);
    (parameters, Device::flex())
}

fn three_steps(values: Value, place: Place) -> Vec<Vec<f32>> {
    let (parameters, device) = two_parameters();
    let mut optimiser = Optimiser::new(&arguments(values), &parameters, &device, place);
    let row = |numbers: Vec<f32>| -> Tensor<2> { tensor(numbers.clone(), [1, numbers.len()], &device) };
    let mut values = Values(vec![row(vec![1.0, -2.0]), row(vec![0.5])]);
    for (step, gradient) in (1..).zip([[0.1, -0.2, 0.3], [0.4, 0.0, -0.5], [-0.3, 1.0, 0.2]]) {
        let gradients = Values(vec![row(gradient[..2].to_vec()), row(gradient[2..].to_vec())]);
        optimiser.step(&parameters, &mut values, gradients.into(), Pace { rate: 0.1, step }, &Clip::By(1.0)).unwrap();
    }
    values.0.into_iter().map(|value| host(value).unwrap()).collect()
}

fn assert_close(actual: &[Vec<f32>], expected: &[&[f64]]) {
    let close = |(a, e): (&f32, &f64)| (f64::from(*a) - e).abs() < 1e-6;
    assert!(actual.iter().flatten().zip(expected.iter().copied().flatten()).all(close), "{actual:?} {expected:?}");
}

/// AdamW in scalars and f64, as in Loshchilov and Hutter 2019 and `torch.optim.AdamW`.
fn adamw_by_hand(mut value: f64, gradients: [f64; 3], decay: f64) -> f64 {
    let (mut mean, mut square) = (0.0, 0.0);
    for (step, gradient) in (1..).zip(gradients) {
        value *= 1.0 - 0.1 * decay;
        mean = 0.9 * mean + 0.1 * gradient;
        square = 0.999 * square + 0.001 * gradient * gradient;
        let (mean, square) = (mean / (1.0 - 0.9_f64.powi(step)), square / (1.0 - 0.999_f64.powi(step)));
        value -= 0.1 * mean / (square.sqrt() + 1e-8);
    }
    value
}

#[test]
fn adamw_takes_pytorchs_steps() {
    let by_hand = [adamw_by_hand(1.0, [0.1, 0.4, -0.3], 0.1), adamw_by_hand(-2.0, [-0.2, 0.0, 1.0], 0.1)];
    for place in [Place::Own, Place::Host, Place::Device] {
        let actual = three_steps(json!({"weight_decay": 0.1}), place);
        assert_close(&actual, &[&by_hand, &[adamw_by_hand(0.5, [0.3, -0.5, 0.2], 0.0)]]);
    }
}

#[test]
fn sgd_takes_pytorchs_steps() {
    // torch.optim.SGD(lr=0.1, momentum=0.9, weight_decay=0.1), by hand: g += 0.1 p; b = 0.9 b + g; p -= 0.1 b.
    let by_hand = |mut value: f64, gradients: [f64; 3], decay: f64| {
        let mut buffer = 0.0;
        for gradient in gradients {
            buffer = 0.9 * buffer + gradient + decay * value;
            value -= 0.1 * buffer;
        }
        value
    };
    let weight = [by_hand(1.0, [0.1, 0.4, -0.3], 0.1), by_hand(-2.0, [-0.2, 0.0, 1.0], 0.1)];
    for place in [Place::Own, Place::Host, Place::Device] {
        let actual = three_steps(json!({"optim": "sgd", "weight_decay": 0.1}), place);
        assert_close(&actual, &[&weight, &[by_hand(0.5, [0.3, -0.5, 0.2], 0.0)]]);
    }
}

#[test]
fn clipping_is_by_the_norm_of_all_gradients_together() {
    let device = Device::flex();
    let gradients = || Values(vec![tensor(vec![3.0, 0.0], [1, 2], &device), tensor(vec![4.0], [1, 1], &device)]);
    let (loss, norm) = Gradients::from(gradients()).loss_and_norm(tensor(vec![0.25], [1], &device)).unwrap();
    assert_eq!((loss, norm), (0.25, 5.0));
    assert!((clip_factor(norm, 1.0) - 0.2).abs() < 1e-6);
    assert_eq!(clip_factor(norm, 0.0), 1.0);
    assert_eq!(clip_factor(norm, 6.0), 1.0);
    let (parameters, device) = two_parameters();
    for place in [Place::Own, Place::Host, Place::Device] {
        for optim in ["sgd", "adamw"] {
            let step = |clip: f64, share: f64| {
                let mut optimiser = Optimiser::new(&arguments(json!({"optim": optim})), &parameters, &device, place);
                let mut values = Values(vec![tensor(vec![1.0, 2.0], [1, 2], &device), tensor(vec![3.0], [1, 1], &device)]);
                let shrunk = Values(gradients().0.into_iter().map(|gradient| gradient * share).collect());
                optimiser.step(&parameters, &mut values, shrunk.into(), Pace { rate: 0.1, step: 1 }, &Clip::By(clip)).unwrap();
                values.0.into_iter().flat_map(|value| host(value).unwrap()).collect::<Vec<_>>()
            };
            for (clipped, scaled) in step(0.25, 1.0).iter().zip(step(1.0, 0.25)) {
                assert!((clipped - scaled).abs() < 1e-6, "{place:?} {optim}");
            }
        }
    }
}

#[test]
fn gradients_of_entries_are_those_of_whole_tables() {
    let (encoder, parameters, values, device) = model(json!({}));
    let batch = Batch::new(vec![vec![2, 5, 7, 7, 3], vec![2, 8, 3]]);
    let tracked = device.clone().autodiff();
    let gradients = |aside: Option<&Aside>| {
        let leaves = values.leaves(&parameters);
        let pass = Pass::training(&leaves, &tracked, DropoutKey { seed: 1, step: 2, micro_batch: 0 });
        let pass = if let Some(aside) = aside { pass.leaving(aside) } else { pass };
        let loss = encoder.forward(&pass, &batch).square().sum();
        Gradients::of(&loss, &leaves, aside.unwrap_or(&Aside::default()), &device).unwrap()
    };
    let (whole, parts) = (gradients(None), gradients(Some(&Aside::default())));
    assert_eq!(parts.0.iter().filter(|gradient| matches!(gradient, Gradient::Entries(_))).count(), 2);
    let loss = || tensor(vec![1.0], [1], &device);
    let (one, other) = (whole.loss_and_norm(loss()).unwrap(), parts.loss_and_norm(loss()).unwrap());
    assert!((one.1 - other.1).abs() < 1e-6 * one.1);
    let twice = parts.clone().plus(parts.clone(), &device).unwrap();
    for (((parameter, whole), part), twice) in parameters.iter().zip(whole.0).zip(parts.0).zip(twice.0) {
        let numbers = |gradient: Gradient| host(gradient.whole(parameter, &device)).unwrap();
        let (whole, part) = (numbers(whole), numbers(part));
        assert_eq!(whole, part, "{}", parameter.name);
        assert!(numbers(twice).iter().zip(&part).all(|(twice, part)| (twice - 2.0 * part).abs() <= 1e-6 * part.abs()));
    }
}

#[test]
fn steps_with_gradients_of_entries_are_those_with_whole_ones_to_the_last_bit() {
    let mut parameters = Parameters::default();
    parameters.add("table".to_owned(), [5, 3], Role::Table);
    let device = Device::flex();
    for optim in ["adamw", "sgd"] {
        let arguments = arguments(json!({"optim": optim, "weight_decay": 0.1}));
        let run = |whole: bool| {
            let mut optimiser = Optimiser::new(&arguments, &parameters, &device, Place::Own);
            let mut values = Values(vec![tensor((1..16).map(|number| number as f32 / 7.0).collect(), [5, 3], &device)]);
            for (step, ids) in (1..).zip([[1, 3], [3, 1], [0, 3], [1, 1]]) {
                let entries = Entries::new(3, &ids, &[0.1, -0.2, 0.3, step as f32, 0.5, 0.7]);
                let gradient = Gradient::Entries(entries);
                let gradient = if whole { Gradient::Whole(gradient.whole(parameters.iter().next().unwrap(), &device)) } else { gradient };
                let pace = Pace { rate: 0.1, step };
                optimiser.step(&parameters, &mut values, Gradients(vec![gradient]), pace, &Clip::By(0.5)).unwrap();
            }
            let all = optimiser.state.into_iter().flat_map(|(_, values)| values.0).chain(values.0);
            all.flat_map(|value| host(value).unwrap()).map(f32::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(run(true), run(false), "{optim}");
    }
}
