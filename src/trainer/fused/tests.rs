//! Each fused operation against the tensor operations that it stands for: outputs and gradients, dropout and odd sizes included; and that
//! every processor computes the same.

mod chance;
mod equal;
#[cfg(target_arch = "x86_64")]
mod products;

use burn::tensor::{Device, Tensor};

use super::super::dice::Dice;
use super::super::parameters::{host, tensor};
use super::*;
use crate::arguments::Pooling;

type Numbers = (Vec<f32>, [usize; 2]);

fn random(seed: u64, shape: [usize; 2], deviation: f64) -> Numbers {
    (Dice::new(seed).normal(shape[0] * shape[1], deviation), shape)
}

/// Output and gradients of `function`, when the output's gradient is some fixed numbers.
fn derived<const N: usize>(inputs: [Numbers; N], function: impl Fn([Tensor<2>; N]) -> Tensor<2>) -> Vec<Vec<f32>> {
    derived_on(&Device::flex().autodiff(), inputs, function)
}

fn derived_on<const N: usize>(device: &Device, inputs: [Numbers; N], function: impl Fn([Tensor<2>; N]) -> Tensor<2>) -> Vec<Vec<f32>> {
    let leaves = inputs.map(|(numbers, shape)| tensor(numbers, shape, device).require_grad());
    let output = function(leaves.clone());
    let shape = output.dims();
    let outer = tensor(random(99, shape, 1.0).0, shape, device);
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

/// Every operation once, on odd sizes: what it gives and its gradients.
fn everything() -> Vec<Vec<f32>> {
    let drop = Mask::new(17, 0.3);
    let mask = Some(drop);
    let attention = |sight| Attention { lengths: [7, 1, 19].into(), longest: 20, heads: 4, groups: 2, size: 5, sight, dropout: mask };
    let loss = CrossEntropy { targets: (0..13).map(|row| row * 5 % 37).collect(), smoothing: 0.1, share: 0.5 };
    let rows = || random(1, [13, 37], 1.0);
    let row = |seed| random(seed, [1, 37], 1.0);
    let table = |seed| random(seed, [37, 37], 0.2);
    let same = [13, 37];
    let ids: std::sync::Arc<[u32]> = (0..13).map(|row| row * 7 % 37).collect();
    let mut found = vec![
        derived([rows()], |[x]| apply(Dropout { width: 37, mask: drop }, [&x], same).unwrap()),
        derived([rows(), row(3), row(4)], |[x, a, b]| apply(LayerNorm { epsilon: 1e-5 }, [&x, &a, &b], same).unwrap()),
        derived([rows(), row(3)], |[x, a]| apply(RmsNorm { epsilon: 1e-5 }, [&x, &a], same).unwrap()),
        derived([rows(), random(2, same, 1.0)], |[x, y]| apply(SwiGlu, [&x, &y], same).unwrap()),
        derived([rows(), table(5), row(6)], |[x, w, b]| apply(Linear { width: 37, curve: Some(Curve::Gelu) }, [&x, &w, &b], same).unwrap()),
        derived([rows(), random(2, same, 1.0), table(5), row(6)], |[r, x, w, b]| {
            apply(ResidualLinear { width: 37, dropout: mask }, [&r, &x, &w, &b], same).unwrap()
        }),
        derived([rows(), random(2, same, 1.0), table(5), row(6), table(7), row(8)], |[r, x, w1, b1, w2, b2]| {
            let operation = FeedForward { inner: 37, width: 37, curve: Curve::Gelu, dropout: mask };
            apply(operation, [&r, &x, &w1, &b1, &w2, &b2], same).unwrap()
        }),
        derived([rows()], |[x]| apply(loss.clone(), [&x], [1, 1]).unwrap()),
        derived([rows(), table(5)], |[x, t]| apply(TableCrossEntropy { loss: loss.clone(), width: 37 }, [&x, &t], [1, 1]).unwrap()),
        derived([table(5), table(6)], |[a, b]| {
            apply(Lookup { width: 37, taken: [(37, ids.clone()), (37, ids.clone())], aside: None }, [&a, &b], same).unwrap()
        }),
    ];
    for pooling in [Pooling::Mean, Pooling::Cls] {
        found.push(derived([rows()], |[x]| apply(Pool { lengths: [4, 1, 8].into(), width: 37, pooling }, [&x], [3, 37]).unwrap()));
    }
    for curve in [Curve::Gelu, Curve::GeluTanh, Curve::Relu, Curve::Silu, Curve::Tanh] {
        found.push(derived([rows()], |[x]| apply(curve, [&x], same).unwrap()));
    }
    for sight in [Sight::Whole, Sight::Back, Sight::Near(3)] {
        found.push(derived([random(7, [27, 40], 1.0)], |[x]| apply(attention(sight), [&x], [27, 20]).unwrap()));
    }
    let (mut values, mut means, mut squares_) = (row(8).0, row(9).0, row(10).0.iter().map(|x| x * x).collect::<Vec<_>>());
    let scalars = AdamW { clip: 0.5, mean: [0.9, 0.1], square: [0.99, 0.01], scale: 1.1, epsilon: 1e-8, shrink: 0.99, rate: 0.01 };
    adamw(&mut values, &row(11).0, &mut means, &mut squares_, scalars);
    found.push(vec![values, means, squares_]);
    found.concat()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn every_processor_computes_the_same_numbers() {
    // Matrix products are the same for AVX-512 and AVX2; other processors leave them to a crate.
    for (own_products, most) in [(true, lanes::Instance::Avx2), (false, lanes::Instance::Avx2), (false, lanes::Instance::Plain)] {
        super::products::OWN.set(Some(own_products));
        let best = everything();
        lanes::MOST.set(most);
        let other = everything();
        lanes::MOST.set(lanes::Instance::Avx512);
        super::products::OWN.set(None);
        assert!(best.iter().flatten().map(|x| x.to_bits()).eq(other.iter().flatten().map(|x| x.to_bits())), "{own_products} {most:?}");
    }
}

#[test]
fn strided_inputs_and_inputs_used_twice_are_read_rightly() {
    let input = || [random(6, [8, 12], 1.0)];
    let square = |x: &Tensor<2>| x.clone().transpose().matmul(x.clone());
    let fused = derived(input(), |[x]| {
        let turned = x.clone().transpose();
        let bent = apply(Curve::Gelu, [&turned], [12, 8]).unwrap();
        bent.matmul(square(&turned)).transpose().matmul(apply(Curve::Gelu, [&x], [8, 12]).unwrap().transpose())
    });
    let burns = derived(input(), |[x]| {
        let turned = x.clone().transpose();
        let bent = burn::tensor::activation::gelu(turned.clone());
        bent.matmul(square(&turned)).transpose().matmul(burn::tensor::activation::gelu(x).transpose())
    });
    assert_close(&fused, &burns, 1e-5);
}

#[test]
fn what_is_not_a_number_stays_so() {
    let broken = |operation: fn(&Tensor<2>) -> Tensor<2>| {
        let x: Tensor<2> = tensor(vec![1.0, f32::NAN, 0.5], [1, 3], &Device::flex());
        host(operation(&x)).unwrap().iter().any(|number| number.is_nan())
    };
    assert!(broken(|x| apply(Curve::Gelu, [x], [1, 3]).unwrap()));
    assert!(broken(|x| apply(Curve::GeluTanh, [x], [1, 3]).unwrap()));
    assert!(broken(|x| apply(Curve::Relu, [x], [1, 3]).unwrap()));
    assert!(broken(|x| apply(Curve::Silu, [x], [1, 3]).unwrap()));
    assert!(broken(|x| apply(CrossEntropy { targets: [0].into(), smoothing: 0.0, share: 1.0 }, [x], [1, 1]).unwrap()));
    for dropout in [None, Some(Mask::new(1, 0.5))] {
        let attention = Attention { lengths: [1].into(), longest: 1, heads: 1, groups: 1, size: 1, sight: Sight::Back, dropout };
        let found = derived([(vec![1.0, f32::NAN, 0.5], [1, 3])], |[x]| apply(attention.clone(), [&x], [1, 1]).unwrap());
        assert!(found.iter().all(|numbers| numbers.iter().any(|number| number.is_nan())));
    }
}

#[test]
fn without_autodiff_the_output_is_the_same() {
    let device = Device::flex();
    let operation = Attention { lengths: [4, 5].into(), longest: 5, heads: 2, groups: 2, size: 4, sight: Sight::Back, dropout: None };
    let x = || random(7, [9, 24], 1.0);
    let plain = host(apply(operation.clone(), [&tensor(x().0, [9, 24], &device)], [9, 8]).unwrap()).unwrap();
    let tracked = derived([x()], |[x]| apply(operation.clone(), [&x], [9, 8]).unwrap());
    assert_eq!(plain, tracked[0]);
}

#[test]
fn a_device_that_checkpoints_gradients_gets_the_same() {
    let inputs = || [random(1, [6, 10], 1.0), random(2, [10, 8], 1.0), random(3, [1, 8], 1.0)];
    let function = |[x, w, b]: [Tensor<2>; 3]| apply(Linear { width: 8, curve: Some(Curve::Gelu) }, [&x, &w, &b], [6, 8]).unwrap();
    let checkpointed = derived_on(&Device::flex().autodiff().gradient_checkpointing(), inputs(), function);
    assert_eq!(derived(inputs(), function), checkpointed);
}

#[test]
fn gradients_that_nobody_wants_are_not_computed() {
    let device = Device::flex().autodiff();
    let [x, w, b] =
        [random(1, [6, 10], 1.0), random(2, [10, 8], 1.0), random(3, [1, 8], 1.0)].map(|(numbers, shape)| tensor(numbers, shape, &device));
    let w = w.require_grad();
    let output: Tensor<2> = apply(Linear { width: 8, curve: None }, [&x, &w, &b], [6, 8]).unwrap();
    let mut gradients = output.sum().backward();
    assert!(w.grad_remove(&mut gradients).is_some());
    assert!(x.grad_remove(&mut gradients).is_none() && b.grad_remove(&mut gradients).is_none());
}
