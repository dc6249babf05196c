//! Each fused operation against the tensor operations that it stands for: outputs and gradients, dropout and odd sizes included.

use burn::tensor::{Device, Tensor, activation, module};

use super::super::dice::Dice;
use super::super::parameters::{host, tensor};
use super::*;

fn random(seed: u64, shape: [usize; 2], deviation: f64) -> Vec<f32> {
    Dice::new(seed).normal(shape[0] * shape[1], deviation)
}

/// Output and gradients of `function`, when the output's gradient is some fixed numbers.
fn derived<const N: usize>(inputs: [(Vec<f32>, [usize; 2]); N], function: impl Fn([Tensor<2>; N]) -> Tensor<2>) -> Vec<Vec<f32>> {
    let device = Device::flex().autodiff();
    let leaves = inputs.map(|(numbers, shape)| tensor(numbers, shape, &device).require_grad());
    let output = function(leaves.clone());
    let shape = output.dims();
    let outer = tensor(random(99, shape, 1.0), shape, &device);
    let mut gradients = (output.clone() * outer).sum().backward();
    let mut found = vec![host(output.inner()).unwrap()];
    found.extend(leaves.iter().map(|leaf| host(leaf.grad_remove(&mut gradients).unwrap()).unwrap()));
    found
}

fn assert_close(one: &[Vec<f32>], other: &[Vec<f32>], tolerance: f32) {
    for (index, (one, other)) in one.iter().zip(other).enumerate() {
        assert_eq!(one.len(), other.len());
        let size = other.iter().fold(1.0_f32, |size, number| size.max(number.abs()));
        for (a, b) in one.iter().zip(other) {
            assert!((a - b).abs() <= tolerance * size, "{index}: {a} {b}");
        }
    }
}

#[test]
fn layer_norm_is_burns() {
    for shape in [[1, 3], [7, 16], [5, 37], [33, 128]] {
        let row = [1, shape[1]];
        let inputs = || [(random(1, shape, 2.0), shape), (random(2, row, 1.0), row), (random(3, row, 1.0), row)];
        let fused = derived(inputs(), |[x, scale, shift]| apply(LayerNorm { epsilon: 1e-5 }, [&x, &scale, &shift], x.dims()).unwrap());
        let burns = derived(inputs(), |[x, scale, shift]| module::layer_norm(x, scale.reshape([shape[1]]), Some(shift.reshape([shape[1]])), 1e-5));
        assert_close(&fused, &burns, 5e-6);
    }
}

#[test]
fn gelu_is_burns_and_so_is_its_slope() {
    let shape = [1, 2_001];
    let line: Vec<f32> = (-1_000..=1_000).map(|number: i16| f32::from(number) / 100.0).collect();
    let fused = derived([(line.clone(), shape)], |[x]| apply(Gelu, [&x], shape).unwrap());
    let burns = derived([(line, shape)], |[x]| activation::gelu(x));
    assert_close(&fused, &burns, 1e-6);
}

#[test]
fn causal_attention_is_that_of_tensor_operations() {
    for (texts, length, heads, width, dropped) in [(1, 1, 1, 2, false), (2, 5, 2, 6, true), (3, 17, 4, 32, false), (2, 64, 1, 8, true)] {
        let shape = [texts * length, 3 * width];
        let dropout: Option<Vec<f32>> =
            dropped.then(|| (0..texts * heads * length * length).map(|number| if number % 5 == 0 { 0.0 } else { 1.25 }).collect());
        let input = || [(random(4, shape, 1.0), shape)];
        let operation = CausalAttention { texts, length, heads, dropout: dropout.clone().map(Into::into) };
        let fused = derived(input(), |[x]| apply(operation.clone(), [&x], [texts * length, width]).unwrap());
        let burns = derived(input(), |[x]| {
            let part = |part: usize| x.clone().narrow(1, part * width, width).reshape([texts, length, heads, width / heads]).swap_dims(1, 2);
            let mask: Vec<f32> = (0..length).flat_map(|row| (0..length).map(move |column| if column > row { -1e9 } else { 0.0 })).collect();
            let root = ((width / heads) as f64).sqrt();
            let scores = part(0).matmul(part(1).swap_dims(2, 3)) / root + tensor(mask, [1, 1, length, length], &x.device());
            let shares = activation::softmax(scores, 3);
            let shares = match &dropout {
                Some(dropout) => shares * tensor(dropout.clone(), [texts, heads, length, length], &x.device()),
                None => shares,
            };
            shares.matmul(part(2)).swap_dims(1, 2).reshape([texts * length, width])
        });
        assert_close(&fused, &burns, 3e-6);
    }
}

#[test]
fn cross_entropy_is_that_of_tensor_operations() {
    for smoothing in [0.0, 0.1] {
        let (shape, targets) = ([6, 19], [0, 18, 3, 3, 7, 11]);
        let input = || [(random(5, shape, 3.0), shape)];
        let operation = CrossEntropy { targets: targets.into(), smoothing, share: 0.25 };
        let fused = derived(input(), |[x]| apply(operation.clone(), [&x], [1, 1]).unwrap());
        let burns = derived(input(), |[x]| {
            let weights: Vec<f32> = targets
                .iter()
                .flat_map(|target| (0..19).map(move |class| smoothing / 19.0 + if class == *target { 1.0 - smoothing } else { 0.0 }))
                .collect();
            let logs = activation::log_softmax(x.clone(), 1);
            ((logs * tensor(weights, shape, &x.device())).sum() * -0.25).reshape([1, 1])
        });
        assert_close(&fused, &burns, 2e-6);
        assert!((row_losses(&input()[0].0, &targets) * 0.25 - f64::from(fused[0][0])).abs() < 1e-5 || smoothing > 0.0);
    }
}

#[test]
fn strided_inputs_and_inputs_used_twice_are_read_rightly() {
    let shape = [8, 12];
    let input = || [(random(6, shape, 1.0), shape)];
    let fused = derived(input(), |[x]| {
        let turned = x.clone().transpose();
        let square = turned.clone().transpose().matmul(turned.clone());
        apply(Gelu, [&turned], [12, 8]).unwrap().matmul(square).transpose().matmul(apply(Gelu, [&x], shape).unwrap().transpose())
    });
    let burns = derived(input(), |[x]| {
        let turned = x.clone().transpose();
        let square = turned.clone().transpose().matmul(turned.clone());
        activation::gelu(turned).matmul(square).transpose().matmul(activation::gelu(x).transpose())
    });
    assert_close(&fused, &burns, 1e-5);
}

#[test]
fn what_is_not_a_number_stays_so() {
    let broken = |operation: fn(&Tensor<2>) -> Tensor<2>| {
        let x: Tensor<2> = tensor(vec![1.0, f32::NAN, 0.5], [1, 3], &Device::flex());
        host(operation(&x)).unwrap().iter().any(|number| number.is_nan())
    };
    assert!(broken(|x| apply(Gelu, [x], [1, 3]).unwrap()));
    assert!(broken(|x| apply(CrossEntropy { targets: [0].into(), smoothing: 0.0, share: 1.0 }, [x], [1, 1]).unwrap()));
    assert!(broken(|x| apply(CausalAttention { texts: 1, length: 1, heads: 1, dropout: None }, [x], [1, 1]).unwrap()));
}

#[test]
fn without_autodiff_the_output_is_the_same() {
    let device = Device::flex();
    let x: Tensor<2> = tensor(random(7, [9, 24], 1.0), [9, 24], &device);
    let operation = CausalAttention { texts: 3, length: 3, heads: 2, dropout: None };
    let plain = host(apply(operation.clone(), [&x], [9, 8]).unwrap()).unwrap();
    let tracked = derived([(random(7, [9, 24], 1.0), [9, 24])], |[x]| apply(operation.clone(), [&x], [9, 8]).unwrap());
    assert_eq!(plain, tracked[0]);
}
