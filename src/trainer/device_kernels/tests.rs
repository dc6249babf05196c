//! Each kernel against the CPU's, on every GPU that the binary can use: outputs and gradients.

use std::sync::Arc;

use burn::tensor::{Device, FloatDType, Tensor};

use super::super::batch::SequenceLayout;
use super::super::device::{available_devices, open};
use super::super::fused;
use super::super::parameters::{host, tensor};
use super::super::rng::{Rng, key};
use super::*;

/// Row-major numbers and their shape.
type Numbers = (Vec<f32>, [usize; 2]);

fn random(seed: u64, shape: [usize; 2]) -> Numbers {
    (Rng::new(key(seed, "test", &[])).normal(shape[0] * shape[1], 1.0), shape)
}

/// The output of `operation` on `inputs`, and the gradients of its weighted sum.
fn evaluated(
    inputs: &[Numbers],
    device: &Device,
    operation: impl Fn(&[Tensor<2>]) -> Tensor<2>,
) -> Vec<Vec<f32>> {
    let leaf = |(numbers, shape): &Numbers| {
        tensor(numbers.clone(), *shape, device).autodiff().require_grad()
    };
    let leaves: Vec<Tensor<2>> = inputs.iter().map(leaf).collect();
    let output = operation(&leaves);
    let (weights, shape) = random(99, output.dims());
    let weighted = output.clone() * tensor(weights, shape, device).autodiff();
    let mut gradients = weighted.sum().backward();
    std::iter::once(output.inner())
        .chain(leaves.iter().map(|leaf| leaf.grad_remove(&mut gradients).unwrap()))
        .map(|tensor| host(tensor).unwrap())
        .collect()
}

fn gpus() -> Vec<String> {
    let mut names = available_devices();
    names.retain(|name| name.starts_with("cuda") || name.starts_with("wgpu"));
    names
}

/// `on_gpu` gives on every GPU what `on_cpu` gives.
fn assert_same(
    what: &str,
    inputs: &[Numbers],
    tolerance: f32,
    on_cpu: impl Fn(&[Tensor<2>]) -> Tensor<2>,
    on_gpu: impl Fn(&[Tensor<2>]) -> Option<Tensor<2>>,
) {
    let expected = evaluated(inputs, &Device::flex(), on_cpu);
    for name in gpus() {
        let device = open(&name).unwrap();
        let found = evaluated(inputs, &device, |inputs| {
            on_gpu(inputs).unwrap_or_else(|| panic!("{name} has no kernel for {what}"))
        });
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let size = expected.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
            let off = found.iter().zip(expected).map(|(own, theirs)| (own - theirs).abs());
            let worst =
                off.fold(0.0_f32, |most, off| if off.is_nan() { off } else { most.max(off) });
            assert_eq!(found.len(), expected.len());
            assert!(
                worst <= tolerance * size,
                "{what} on {name}, tensor {index}: off by {worst} where numbers are up to {size}"
            );
        }
    }
}

#[test]
fn norms_are_the_cpus() {
    for shape in [[1, 3], [7, 16], [300, 37], [33, 384], [1100, 768]] {
        let row = [1, shape[1]];
        let inputs = [random(1, shape), random(2, row), random(3, row)];
        assert_same(
            "layer normalisation",
            &inputs,
            1e-4,
            |x| {
                let operation = fused::LayerNorm { epsilon: 1e-5 };
                fused::apply(operation, [&x[0], &x[1], &x[2]], shape).unwrap()
            },
            |x| norm(&x[0], &x[1], Some(&x[2]), 1e-5),
        );
        assert_same(
            "RMS normalisation",
            &inputs[..2],
            1e-4,
            |x| {
                let operation = fused::RmsNorm { epsilon: 1e-5 };
                fused::apply(operation, [&x[0], &x[1]], shape).unwrap()
            },
            |x| norm(&x[0], &x[1], None, 1e-5),
        );
    }
}

#[test]
fn cross_entropy_is_the_cpus() {
    for (rows, classes) in [(1, 2), (65, 77), (40, 1023), (9, 5000)] {
        for smoothing in [0.0, 0.1] {
            let targets: Arc<[u32]> =
                (0..rows).map(|row| u32::try_from(row * 31 % classes).unwrap()).collect();
            assert_same(
                "cross-entropy",
                &[random(4, [rows, classes])],
                1e-4,
                |x| {
                    let operation =
                        fused::CrossEntropy { targets: targets.clone(), smoothing, scale: 0.5 };
                    fused::apply(operation, [&x[0]], [1, 1]).unwrap()
                },
                |x| cross_entropy(&x[0], &targets, smoothing, 0.5),
            );
        }
    }
}

#[test]
fn embeddings_are_the_cpus() {
    for (entries, width, lookups) in [(3, 5, 200), (500, 64, 333), (1, 8, 70)] {
        let ids: Arc<[u32]> = (0..lookups)
            .map(|lookup: usize| u32::try_from(lookup * lookup % entries).unwrap())
            .collect();
        assert_same(
            "embedding",
            &[random(5, [entries, width])],
            1e-4,
            |x| {
                let indices = [(entries, Arc::clone(&ids))];
                let operation = fused::EmbeddingSum { width, indices, sparse_gradients: None };
                fused::apply(operation, [&x[0]], [lookups, width]).unwrap()
            },
            |x| embedding(&x[0], &ids),
        );
    }
}

#[test]
fn attention_is_the_cpus() {
    let masks = [AttentionMask::Full, AttentionMask::Causal, AttentionMask::SlidingWindow(2)];
    for (lengths, heads, kv_heads, head_dim) in
        [(vec![7], 1, 1, 4), (vec![5, 12, 1, 9], 4, 2, 8), (vec![64, 64], 2, 2, 32)]
    {
        for mask in masks {
            for dropout in [None, Some(DropoutMask::new(0x1234_5678_9ABC_DEF0, 0.2))] {
                let (tokens, longest) =
                    (lengths.iter().sum::<usize>(), *lengths.iter().max().unwrap());
                let uniform = lengths.iter().all(|length| *length == longest);
                let length = if uniform { longest } else { longest.next_multiple_of(4) };
                let packed = random(6, [tokens, (heads + 2 * kv_heads) * head_dim]);
                assert_same(
                    &format!("attention, {mask:?}, {lengths:?}"),
                    &[packed],
                    // Products may be made with TF32.
                    5e-3,
                    |x| {
                        let operation = fused::Attention {
                            lengths: lengths.clone().into(),
                            longest: length,
                            heads,
                            kv_heads,
                            head_dim,
                            attention_mask: mask,
                            dropout,
                        };
                        fused::apply(operation, [&x[0]], [tokens, heads * head_dim]).unwrap()
                    },
                    |x| {
                        let dtype = FloatDType::F32;
                        let config =
                            AttentionConfig { heads, kv_heads, head_dim, mask, dropout, dtype };
                        let layout = DeviceLayout::new(&lengths, length, &x[0].device());
                        attention(&x[0], &config, layout.as_ref())
                    },
                );
            }
        }
    }
}

#[test]
fn products_are_the_cpus_of_any_shape_and_of_many_rows() {
    // The last two are divided along their rows for the gradient of the weight.
    let shapes = [[1, 32, 8], [37, 50, 77], [130, 48, 144], [4100, 64, 96], [2500, 33, 7]];
    for [rows, input, output] in shapes {
        let numbers = [random(12, [rows, input]), random(13, [input, output])];
        assert_same(
            &format!("a product, {rows} x {input} x {output}"),
            &numbers,
            // TF32.
            5e-3,
            |x| x[0].clone().matmul(x[1].clone()),
            |x| product(&x[0], &x[1], FloatDType::F32),
        );
        let numbers = [random(14, [rows, input]), random(15, [output, input])];
        assert_same(
            &format!("a product with a transposed table, {rows} x {input} x {output}"),
            &numbers,
            5e-3,
            |x| x[0].clone().matmul(x[1].clone().transpose()),
            |x| product_transposed(&x[0], &x[1], FloatDType::F32),
        );
    }
}

#[test]
fn matrices_side_by_side_are_the_cpus() {
    for [rows, a, b, c] in [[1, 48, 48, 48], [37, 5, 9, 2]] {
        let inputs = [random(16, [rows, a]), random(17, [rows, b]), random(18, [rows, c])];
        assert_same(
            "a concatenation",
            &inputs,
            0.0,
            |x| Tensor::cat(x.to_vec(), 1),
            |x| concatenation([&x[0], &x[1], &x[2]]),
        );
    }
}

#[test]
fn steps_of_adamw_are_the_cpus() {
    let scalars = |decay: f32| fused::AdamWScalars {
        clip: 1.0,
        mean: [0.9, 0.1],
        square: [0.99, 0.01],
        scale: 1.3,
        epsilon: 1e-8,
        shrink: 1.0 - decay,
        rate: 0.01,
    };
    // More than one launch, the last of which is not full.
    let shapes = [([1, 48], 0.0), ([33, 7], 0.1), ([2, 2], 0.0), ([1, 1], 0.0), ([700, 90], 0.2)];
    let parameters: Vec<([Numbers; 4], fused::AdamWScalars)> = (20..)
        .zip(shapes)
        .map(|(seed, (shape, decay))| {
            let mut numbers = [0, 1, 2, 3].map(|kind| random(10 * seed + kind, shape));
            numbers[3].0.iter_mut().for_each(|square| *square = square.abs());
            (numbers, scalars(decay))
        })
        .collect();
    for name in gpus() {
        let device = open(&name).unwrap();
        let tensors: Vec<[Tensor<2>; 4]> = parameters
            .iter()
            .map(|(numbers, _)| {
                numbers.clone().map(|(numbers, shape)| tensor(numbers, shape, &device))
            })
            .collect();
        let inputs: Vec<_> = (tensors.iter().zip(&parameters))
            .map(|(tensors, (_, scalars))| (tensors.each_ref(), *scalars))
            .collect();
        let found = adamw(&inputs, &tensor(vec![0.5], [1, 1], &device)).unwrap();
        assert_eq!(found.len(), parameters.len());
        for (found, ([value, gradient, mean, square], scalars)) in
            found.into_iter().zip(&parameters)
        {
            let mut expected = [value.0.clone(), mean.0.clone(), square.0.clone()];
            let [value, mean, square] = &mut expected;
            let scalars = fused::AdamWScalars { clip: 0.5, ..*scalars };
            fused::adamw(value, &gradient.0, mean, square, scalars);
            for (found, expected) in found.into_iter().zip(expected) {
                for (found, expected) in host(found).unwrap().into_iter().zip(expected) {
                    let off = (found - expected).abs();
                    assert!(off <= 1e-5 * expected.abs().max(1.0), "{name}: {found}, {expected}");
                }
            }
        }
    }
}

#[test]
fn bias_and_activation_are_the_cpus() {
    use fused::ActivationFn as Function;
    for activation in
        [Function::Gelu, Function::GeluTanh, Function::Relu, Function::Silu, Function::Tanh]
    {
        let shape = [37, 50];
        assert_same(
            "bias and activation",
            &[random(7, shape), random(8, [1, 50])],
            1e-4,
            |x| fused::apply(activation, [&(x[0].clone() + x[1].clone())], shape).unwrap(),
            |x| bias_activation(&x[0], &x[1], activation),
        );
    }
    assert_same(
        "a bias",
        &[random(7, [37, 50]), random(8, [1, 50])],
        1e-6,
        |x| x[0].clone() + x[1].clone(),
        |x| add_bias(&x[0], &x[1]),
    );
}

#[test]
fn additions_to_the_residual_and_dropout_are_the_cpus() {
    let (shape, mask) = ([61, 50], DropoutMask::new(0x0123_4567_89AB_CDEF, 0.3));
    let dropped =
        |x: Tensor<2>| fused::apply(fused::Dropout { width: shape[1], mask }, [&x], shape).unwrap();
    let inputs = [random(9, shape), random(10, shape), random(11, [1, 50])];
    for with in [None, Some(mask)] {
        assert_same(
            "an addition to the residual",
            &inputs,
            1e-5,
            |x| {
                let sum = x[1].clone() + x[2].clone();
                x[0].clone() + if with.is_some() { dropped(sum) } else { sum }
            },
            |x| add_to_residual(&x[0], &x[1], &x[2], with),
        );
    }
    assert_same("dropout", &inputs[..1], 1e-5, |x| dropped(x[0].clone()), |x| dropout(&x[0], mask));
}

#[test]
fn sums_of_squares_are_those_of_all_tensors() {
    let mut all: Vec<Numbers> =
        (0..19).map(|seed| random(seed, [3 + 40 * usize::try_from(seed).unwrap(), 7])).collect();
    // Large enough for more cubes than the others.
    all.push(random(19, [6_001, 100]));
    let squares =
        |(numbers, _): &Numbers| numbers.iter().map(|number| number * number).sum::<f32>();
    let expected: f32 = all.iter().map(squares).sum();
    for name in gpus() {
        let device = open(&name).unwrap();
        let tensors: Vec<Tensor<2>> =
            all.iter().map(|(numbers, shape)| tensor(numbers.clone(), *shape, &device)).collect();
        let found = host(sum_of_squares(&tensors).unwrap()).unwrap()[0];
        assert!((found - expected).abs() < 1e-5 * expected, "{name}: {found} and {expected}");
        // A single row of a matrix whose rows lie apart, with something else between them.
        let wide = tensor((0_u8..120).map(f32::from).collect(), [2, 60], &device);
        let row = wide.clone().narrow(1, 0, 48).narrow(0, 0, 1);
        let found = host(sum_of_squares(&[row * 1.0]).unwrap()).unwrap()[0];
        let expected: f32 = (0_u8..48).map(f32::from).map(|number| number * number).sum();
        assert!((found - expected).abs() < 1e-5 * expected, "{name}: {found} and {expected}");
    }
}

#[test]
fn a_layout_is_made_once() {
    for name in gpus() {
        let device = open(&name).unwrap();
        assert!(SequenceLayout::uniform(2, 3).on_device(&device).is_some(), "{name}");
    }
    assert!(SequenceLayout::uniform(2, 3).on_device(&Device::flex()).is_none());
}
