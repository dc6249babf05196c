//! Each fused operation against its tensor operations, outputs and gradients, with dropout and odd
//! sizes; and equal results with every instruction set.

mod equivalence;
#[cfg(target_arch = "x86_64")]
mod matmul;
mod randomness;

use burn::tensor::{Device, Tensor};

use super::super::parameters::{host, tensor};
use super::super::rng::Rng;
use super::*;
use hpsearch_core::arguments::Pooling;

const ACTIVATIONS: [ActivationFn; 5] = [
    ActivationFn::Gelu,
    ActivationFn::GeluTanh,
    ActivationFn::Relu,
    ActivationFn::Silu,
    ActivationFn::Tanh,
];

const MASKS: [AttentionMask; 3] =
    [AttentionMask::Full, AttentionMask::Causal, AttentionMask::SlidingWindow(3)];

type Numbers = (Vec<f32>, [usize; 2]);

fn random(seed: u64, shape: [usize; 2], deviation: f64) -> Numbers {
    (Rng::new(seed).normal(shape[0] * shape[1], deviation), shape)
}

/// Output and gradients of `function` for a fixed gradient of the output.
fn derived<const N: usize>(
    inputs: [Numbers; N],
    function: impl Fn([Tensor<2>; N]) -> Tensor<2>,
) -> Vec<Vec<f32>> {
    derived_on(&Device::flex().autodiff(), inputs, function)
}

fn derived_on<const N: usize>(
    device: &Device,
    inputs: [Numbers; N],
    function: impl Fn([Tensor<2>; N]) -> Tensor<2>,
) -> Vec<Vec<f32>> {
    let leaves = inputs.map(|(numbers, shape)| tensor(numbers, shape, device).require_grad());
    let output = function(leaves.clone());
    let shape = output.dims();
    let outer = tensor(random(99, shape, 1.0).0, shape, device);
    let mut gradients = (output.clone() * outer).sum().backward();
    let gradients = leaves.iter().map(|leaf| leaf.grad_remove(&mut gradients).unwrap());
    std::iter::once(output.inner()).chain(gradients).map(|tensor| host(tensor).unwrap()).collect()
}

/// Compares a fused operation with its tensor operations, output and gradients.
fn assert_same<const N: usize>(
    inputs: [Numbers; N],
    fused: impl Fn([Tensor<2>; N]) -> Tensor<2>,
    tensors: impl Fn([Tensor<2>; N]) -> Tensor<2>,
    tolerance: f32,
) {
    assert_close(&derived(inputs.clone(), fused), &derived(inputs, tensors), tolerance);
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

/// Attention without dropout, with `[heads, kv_heads, head_dim]`.
fn attention(
    lengths: &[usize],
    longest: usize,
    [heads, kv_heads, head_dim]: [usize; 3],
    attention_mask: AttentionMask,
) -> Attention {
    let lengths = lengths.into();
    Attention { lengths, longest, heads, kv_heads, head_dim, attention_mask, dropout: None }
}

/// Output and gradients of every operation, on odd sizes.
fn everything() -> Vec<Vec<f32>> {
    let drop = DropoutMask::new(17, 0.3);
    let mask = Some(drop);
    let attention = |attention_mask| {
        let attention = attention(&[7, 1, 19], 20, [4, 2, 5], attention_mask);
        Attention { dropout: mask, ..attention }
    };
    let loss = CrossEntropy {
        targets: (0..13).map(|row| row * 5 % 37).collect(),
        smoothing: 0.1,
        scale: 0.5,
    };
    let rows = || random(1, [13, 37], 1.0);
    let row = |seed| random(seed, [1, 37], 1.0);
    let table = |seed| random(seed, [37, 37], 0.2);
    let same = [13, 37];
    let ids: std::sync::Arc<[u32]> = (0..13).map(|row| row * 7 % 37).collect();
    let mut found = vec![
        derived([rows()], |[x]| apply(Dropout { width: 37, mask: drop }, [&x], same).unwrap()),
        derived([rows(), row(3), row(4)], |[x, a, b]| {
            apply(LayerNorm { epsilon: 1e-5 }, [&x, &a, &b], same).unwrap()
        }),
        derived([rows(), row(3)], |[x, a]| {
            apply(RmsNorm { epsilon: 1e-5 }, [&x, &a], same).unwrap()
        }),
        derived([rows(), random(2, same, 1.0)], |[x, y]| apply(SwiGlu, [&x, &y], same).unwrap()),
        derived([rows(), table(5), row(6)], |[x, w, b]| {
            apply(Linear { width: 37, activation: Some(ActivationFn::Gelu) }, [&x, &w, &b], same)
                .unwrap()
        }),
        derived([rows(), random(2, same, 1.0), table(5), row(6)], |[r, x, w, b]| {
            apply(ResidualLinear { width: 37, dropout: mask }, [&r, &x, &w, &b], same).unwrap()
        }),
        derived(
            [rows(), random(2, same, 1.0), table(5), row(6), table(7), row(8)],
            |[r, x, w1, b1, w2, b2]| {
                let activation = ActivationFn::Gelu;
                let operation = FeedForward { inner: 37, width: 37, activation, dropout: mask };
                apply(operation, [&r, &x, &w1, &b1, &w2, &b2], same).unwrap()
            },
        ),
        derived([rows()], |[x]| apply(loss.clone(), [&x], [1, 1]).unwrap()),
        derived([rows(), table(5)], |[x, t]| {
            apply(LinearCrossEntropy { loss: loss.clone(), width: 37 }, [&x, &t], [1, 1]).unwrap()
        }),
        derived([table(5), table(6)], |[a, b]| {
            let indices = [(37, ids.clone()), (37, ids.clone())];
            let operation = EmbeddingSum { width: 37, indices, sparse_gradients: None };
            apply(operation, [&a, &b], same).unwrap()
        }),
    ];
    for pooling in [Pooling::Mean, Pooling::Cls] {
        found.push(derived([rows()], |[x]| {
            apply(Pool { lengths: [4, 1, 8].into(), width: 37, pooling }, [&x], [3, 37]).unwrap()
        }));
    }
    for activation in ACTIVATIONS {
        found.push(derived([rows()], |[x]| apply(activation, [&x], same).unwrap()));
    }
    for attention_mask in MASKS {
        found.push(derived([random(7, [27, 40], 1.0)], |[x]| {
            apply(attention(attention_mask), [&x], [27, 20]).unwrap()
        }));
    }
    let (mut values, mut means, mut squares_) =
        (row(8).0, row(9).0, row(10).0.iter().map(|x| x * x).collect::<Vec<_>>());
    let scalars = AdamWScalars {
        clip: 0.5,
        mean: [0.9, 0.1],
        square: [0.99, 0.01],
        scale: 1.1,
        epsilon: 1e-8,
        shrink: 0.99,
        rate: 0.01,
    };
    adamw(&mut values, &row(11).0, &mut means, &mut squares_, scalars);
    found.push(vec![values, means, squares_]);
    found.concat()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn every_instruction_set_computes_the_same_bits() {
    // Matrix products are the same with AVX-512 and AVX2; other CPUs use a crate.
    for (own_products, most) in [
        (true, simd::SimdLevel::Avx2),
        (false, simd::SimdLevel::Avx2),
        (false, simd::SimdLevel::Baseline),
    ] {
        super::matmul::FORCE_OWN_KERNELS.set(Some(own_products));
        let best = everything();
        simd::MAX_LEVEL.set(most);
        let other = everything();
        simd::MAX_LEVEL.set(simd::SimdLevel::Avx512);
        super::matmul::FORCE_OWN_KERNELS.set(None);
        let bits = |found: &[Vec<f32>]| -> Vec<u32> {
            found.iter().flatten().map(|x| x.to_bits()).collect()
        };
        assert!(bits(&best) == bits(&other), "{own_products} {most:?}");
    }
}

#[test]
fn strided_inputs_and_inputs_used_twice_are_read_correctly() {
    let input = [random(6, [8, 12], 1.0)];
    let square = |x: &Tensor<2>| x.clone().transpose().matmul(x.clone());
    let function = |gelu: fn(&Tensor<2>, [usize; 2]) -> Tensor<2>| {
        move |[x]: [Tensor<2>; 1]| {
            let transposed = x.clone().transpose();
            let product = gelu(&transposed, [12, 8]).matmul(square(&transposed));
            product.transpose().matmul(gelu(&x, [8, 12]).transpose())
        }
    };
    assert_same(
        input,
        function(|x, shape| apply(ActivationFn::Gelu, [x], shape).unwrap()),
        function(|x, _| burn::tensor::activation::gelu(x.clone())),
        1e-5,
    );
}

#[test]
fn nan_propagates() {
    let nan = || (vec![1.0, f32::NAN, 0.5], [1, 3]);
    let has_nan = |found: &[f32]| found.iter().any(|number| number.is_nan());
    for activation in ACTIVATIONS.into_iter().filter(|one| *one != ActivationFn::Tanh) {
        let found = derived([nan()], |[x]| apply(activation, [&x], [1, 3]).unwrap());
        assert!(has_nan(&found[0]), "{activation:?}");
    }
    let loss = CrossEntropy { targets: [0].into(), smoothing: 0.0, scale: 1.0 };
    assert!(has_nan(&derived([nan()], |[x]| apply(loss.clone(), [&x], [1, 1]).unwrap())[0]));
    for dropout in [None, Some(DropoutMask::new(1, 0.5))] {
        let attention = attention(&[1], 1, [1, 1, 1], AttentionMask::Causal);
        let attention = Attention { dropout, ..attention };
        let found = derived([nan()], |[x]| apply(attention.clone(), [&x], [1, 1]).unwrap());
        assert!(found.iter().all(|numbers| has_nan(numbers)));
    }
}

#[test]
fn without_autodiff_the_output_is_the_same() {
    let device = Device::flex();
    let operation = attention(&[4, 5], 5, [2, 2, 4], AttentionMask::Causal);
    let x = random(7, [9, 24], 1.0);
    let plain = apply(operation.clone(), [&tensor(x.0.clone(), x.1, &device)], [9, 8]).unwrap();
    let tracked = derived([x], |[x]| apply(operation.clone(), [&x], [9, 8]).unwrap());
    assert_eq!(host(plain).unwrap(), tracked[0]);
}

#[test]
fn a_device_that_checkpoints_gradients_gets_the_same() {
    let inputs = || [random(1, [6, 10], 1.0), random(2, [10, 8], 1.0), random(3, [1, 8], 1.0)];
    let function = |[x, w, b]: [Tensor<2>; 3]| {
        apply(Linear { width: 8, activation: Some(ActivationFn::Gelu) }, [&x, &w, &b], [6, 8])
            .unwrap()
    };
    let checkpointed =
        derived_on(&Device::flex().autodiff().gradient_checkpointing(), inputs(), function);
    assert_eq!(derived(inputs(), function), checkpointed);
}

#[test]
fn gradients_that_are_not_needed_are_not_computed() {
    let device = Device::flex().autodiff();
    let [x, w, b] = [random(1, [6, 10], 1.0), random(2, [10, 8], 1.0), random(3, [1, 8], 1.0)]
        .map(|(numbers, shape)| tensor(numbers, shape, &device));
    let w = w.require_grad();
    let output: Tensor<2> =
        apply(Linear { width: 8, activation: None }, [&x, &w, &b], [6, 8]).unwrap();
    let mut gradients = output.sum().backward();
    assert!(w.grad_remove(&mut gradients).is_some());
    assert!(x.grad_remove(&mut gradients).is_none() && b.grad_remove(&mut gradients).is_none());
}
