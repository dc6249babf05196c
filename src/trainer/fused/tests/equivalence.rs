//! Each operation against burn's.

use std::sync::Arc;

use burn::tensor::{Tensor, activation, module};

use super::super::activation::{activate_in_place, activate_with_derivative};
use super::super::simd::{MAX_LEVEL, SimdLevel};
use super::*;
use crate::batch::Batch;

#[test]
fn layer_norm_is_burns() {
    for shape in [[1, 3], [7, 16], [5, 37], [33, 128]] {
        let row = [1, shape[1]];
        let fused = |[x, scale, bias]: [Tensor<2>; 3]| {
            apply(LayerNorm { epsilon: 1e-5 }, [&x, &scale, &bias], shape).unwrap()
        };
        let burns = |[x, scale, bias]: [Tensor<2>; 3]| {
            module::layer_norm(x, scale.reshape([shape[1]]), Some(bias.reshape([shape[1]])), 1e-5)
        };
        let inputs = [random(1, shape, 2.0), random(2, row, 1.0), random(3, row, 1.0)];
        assert_same(inputs, fused, burns, 5e-6);
    }
}

#[test]
fn rms_norm_is_that_of_tensor_operations() {
    for shape in [[1, 3], [5, 37], [33, 128]] {
        assert_same(
            [random(1, shape, 2.0), random(2, [1, shape[1]], 1.0)],
            |[x, scale]| apply(RmsNorm { epsilon: 1e-5 }, [&x, &scale], shape).unwrap(),
            |[x, scale]| x.clone() / (x.square().mean_dim(1) + 1e-5).sqrt() * scale,
            5e-6,
        );
    }
}

#[test]
fn mean_and_first_token_pooling_are_those_of_tensor_operations() {
    let batch = Batch::new([4, 1, 8].map(|length| vec![0; length]).into());
    for (pooling, width) in [Pooling::Mean, Pooling::Cls].into_iter().zip([37, 16]) {
        let pool = Pool { lengths: batch.lengths(), width, pooling };
        assert_same(
            [random(1, [13, width], 1.0)],
            |[x]| apply(pool.clone(), [&x], [3, width]).unwrap(),
            |[x]| match pooling {
                Pooling::Mean => batch.mean_pooling_weights(&x.device()).matmul(x),
                Pooling::Cls => x.clone().select(0, batch.first_token_indices(&x.device())),
            },
            1e-6,
        );
    }
}

/// From -10 to 10.
fn line() -> Numbers {
    ((-1_000..=1_000).map(|number: i16| f32::from(number) / 100.0).collect(), [1, 2_001])
}

fn burns_activation(activation: ActivationFn, x: Tensor<2>) -> Tensor<2> {
    match activation {
        ActivationFn::Gelu => activation::gelu(x),
        ActivationFn::GeluTanh => activation::gelu_approximate(x),
        ActivationFn::Relu => activation::relu(x),
        ActivationFn::Silu => activation::silu(x),
        ActivationFn::Tanh => activation::tanh(x),
    }
}

#[test]
fn activations_and_their_derivatives_are_burns() {
    for activation in ACTIVATIONS {
        let fused = |[x]: [Tensor<2>; 1]| apply(activation, [&x], [1, 2_001]).unwrap();
        assert_same([line()], fused, |[x]| burns_activation(activation, x), 1e-6);
    }
}

#[test]
fn gelu_and_its_derivative_are_as_accurate_as_documented_with_every_instruction_set() {
    let points: Vec<f32> =
        (-12_000..=12_000).map(|number: i16| f32::from(number) / 1_000.0).collect();
    let with = |level: SimdLevel| {
        MAX_LEVEL.set(level);
        let (mut values, mut derivatives) = (points.clone(), Vec::with_capacity(points.len()));
        let buffer = &mut derivatives.spare_capacity_mut()[..points.len()];
        activate_with_derivative(ActivationFn::Gelu, &mut values, buffer);
        // SAFETY: all derivatives were written.
        #[expect(unsafe_code, reason = "the buffer is not zeroed first")]
        unsafe {
            derivatives.set_len(points.len());
        }
        MAX_LEVEL.set(SimdLevel::Avx512);
        (values, derivatives)
    };
    let found = with(SimdLevel::Avx512);
    assert_eq!(found, with(SimdLevel::Avx2));
    assert_eq!(found, with(SimdLevel::Baseline));
    for (point, (value, derivative)) in points.iter().zip(found.0.iter().zip(&found.1)) {
        let x = f64::from(*point);
        let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        // Φ(|x|) - 1/2 = φ(x) (|x| + |x|³/3 + |x|⁵/15 ..), all of whose terms are positive.
        let (mut term, mut sum, mut odd) = (x.abs(), 0.0, 1.0);
        while term > 1e-18 * sum {
            sum += term;
            odd += 2.0;
            term *= x * x / odd;
        }
        let cdf = 0.5 + x.signum() * density * sum;
        assert!((f64::from(*value) - x * cdf).abs() < 3e-7 * x.abs().max(1.0), "{x}: {value}");
        assert!((f64::from(*derivative) - (cdf + x * density)).abs() < 4e-7, "{x}: {derivative}");
    }
    let mut ends = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN];
    activate_in_place(ActivationFn::Gelu, &mut ends);
    assert!(ends[0] == 0.0 && ends[1] == f32::INFINITY && ends[2].is_nan());
}

#[test]
fn swiglu_is_that_of_tensor_operations() {
    assert_same(
        [random(1, [5, 19], 2.0), random(2, [5, 19], 1.0)],
        |[gate, x]| apply(SwiGlu, [&gate, &x], [5, 19]).unwrap(),
        |[gate, x]| activation::silu(gate) * x,
        2e-6,
    );
}

#[test]
fn linear_layers_are_burns_with_and_without_activation() {
    for [rows, input, width] in [[1, 1, 1], [7, 5, 3], [33, 64, 70]] {
        let (x, w) = (random(1, [rows, input], 1.0), random(2, [input, width], 1.0));
        let (b, shape) = (random(3, [1, width], 1.0), [rows, width]);
        for activation in [None, Some(ActivationFn::Gelu), Some(ActivationFn::Silu)] {
            let activated = |x: Tensor<2>| match activation {
                Some(activation) => burns_activation(activation, x),
                None => x,
            };
            assert_same(
                [x.clone(), w.clone(), b.clone()],
                |[x, w, b]| apply(Linear { width, activation }, [&x, &w, &b], shape).unwrap(),
                |[x, w, b]| activated(x.matmul(w) + b),
                1e-5,
            );
            assert_same(
                [x.clone(), w.clone()],
                |[x, w]| apply(Linear { width, activation }, [&x, &w], shape).unwrap(),
                |[x, w]| activated(x.matmul(w)),
                1e-5,
            );
        }
    }
}

/// The factors of `dropout` as a tensor beside `x`.
fn factors(dropout: Option<DropoutMask>, shape: [usize; 2], x: &Tensor<2>) -> Tensor<2> {
    let [rows, width] = shape;
    let factors = dropout.map_or(vec![1.0; rows * width], |mask| mask.factors(rows, width));
    tensor(factors, shape, &x.device())
}

#[test]
fn residual_linear_layers_are_those_of_tensor_operations() {
    let (shape, input, width) = ([9, 11], 14, 11);
    for dropout in [None, Some(DropoutMask::new(5, 0.3))] {
        let operation = ResidualLinear { width, dropout };
        assert_same(
            [
                random(1, shape, 1.0),
                random(2, [9, input], 1.0),
                random(3, [input, width], 1.0),
                random(4, [1, width], 1.0),
            ],
            |[r, x, w, b]| apply(operation, [&r, &x, &w, &b], shape).unwrap(),
            |[r, x, w, b]| r.clone() + (x.matmul(w) + b) * factors(dropout, shape, &r),
            1e-5,
        );
    }
}

#[test]
fn the_feed_forward_network_is_that_of_tensor_operations() {
    let ([input, inner, width], shape) = ([14, 21, 11], [9, 11]);
    for (dropout, activation) in
        [(None, ActivationFn::Relu), (Some(DropoutMask::new(5, 0.3)), ActivationFn::Gelu)]
    {
        let operation = FeedForward { inner, width, activation, dropout };
        assert_same(
            [
                random(1, shape, 1.0),
                random(2, [9, input], 1.0),
                random(3, [input, inner], 1.0),
                random(4, [1, inner], 1.0),
                random(5, [inner, width], 1.0),
                random(6, [1, width], 1.0),
            ],
            |[r, x, w1, b1, w2, b2]| apply(operation, [&r, &x, &w1, &b1, &w2, &b2], shape).unwrap(),
            |[r, x, w1, b1, w2, b2]| {
                let between = burns_activation(activation, x.matmul(w1) + b1);
                r.clone() + (between.matmul(w2) + b2) * factors(dropout, shape, &r)
            },
            1e-5,
        );
    }
}

#[test]
fn a_partly_frozen_feed_forward_network_computes_the_gradients_that_are_needed() {
    let device = Device::flex().autodiff();
    let shapes = [[6, 8], [6, 10], [10, 12], [1, 12], [12, 8], [1, 8]];
    let operation =
        FeedForward { inner: 12, width: 8, activation: ActivationFn::Gelu, dropout: None };
    let gradients_of = |needs_grad: &[usize]| {
        let leaves: Vec<Tensor<2>> = (0..6)
            .map(|input| {
                let (numbers, shape) = random(input as u64 + 1, shapes[input], 1.0);
                let leaf = tensor(numbers, shape, &device);
                if needs_grad.contains(&input) { leaf.require_grad() } else { leaf }
            })
            .collect();
        let inputs: [&Tensor<2>; 6] = std::array::from_fn(|input| &leaves[input]);
        let mut gradients = apply(operation, inputs, [6, 8]).unwrap().sum().backward();
        leaves
            .iter()
            .map(|leaf| leaf.grad_remove(&mut gradients).map(|found| host(found).unwrap()))
            .collect::<Vec<_>>()
    };
    let all = gradients_of(&[0, 1, 2, 3, 4, 5]);
    for needs_grad in [vec![0], vec![1], vec![2, 3], vec![4], vec![5], vec![1, 4]] {
        let some = gradients_of(&needs_grad);
        for input in 0..6 {
            let expected = all[input].as_ref().filter(|_| needs_grad.contains(&input));
            assert_eq!(some[input].as_ref(), expected, "{input}");
        }
    }
}

#[test]
fn dropout_multiplies_with_the_masks_factors() {
    let (shape, mask) = ([13, 21], DropoutMask::new(9, 0.4));
    assert_same(
        [random(1, shape, 1.0)],
        |[x]| apply(Dropout { width: 21, mask }, [&x], shape).unwrap(),
        |[x]| x.clone() * factors(Some(mask), shape, &x),
        1e-7,
    );
}

#[test]
fn packed_query_key_and_value_are_those_of_three_linear_layers() {
    let (shape, widths) = ([9, 18], [8, 4, 6]);
    let [w1, w2, w3] = widths.map(|width| random(width as u64, [14, width], 1.0));
    let [b1, b2, b3] = widths.map(|width| random(10 + width as u64, [1, width], 1.0));
    assert_same(
        [random(1, [9, 14], 1.0), w1, w2, w3, b1, b2, b3],
        |inputs| apply(QkvLinear { widths }, inputs.each_ref(), shape).unwrap(),
        |[x, w1, w2, w3, b1, b2, b3]| {
            let linear = |(weight, bias)| x.clone().matmul(weight) + bias;
            Tensor::cat([(w1, b1), (w2, b2), (w3, b3)].map(linear).to_vec(), 1)
        },
        1e-5,
    );
}

/// Attention text by text and head by head, with explicit masks.
fn plain_attention(operation: &Attention, x: &Tensor<2>) -> Tensor<2> {
    let Attention { lengths, longest, heads, kv_heads, head_dim, attention_mask, dropout } =
        operation;
    let mut start = 0;
    let mut texts = Vec::new();
    for (text, length) in lengths.iter().enumerate() {
        let rows = x.clone().narrow(0, start, *length);
        start += length;
        let head = |head: usize| {
            let part = |column: usize| rows.clone().narrow(1, column * head_dim, *head_dim);
            let group = head / (heads / kv_heads);
            let scores =
                part(head).matmul(part(heads + group).transpose()) / (*head_dim as f64).sqrt();
            let hidden = (0..length * length)
                .map(|i| if attention_mask.allows(i / length, i % length) { 0.0 } else { -1e9 })
                .collect();
            let shares =
                activation::softmax(scores + tensor(hidden, [*length, *length], &x.device()), 1);
            let factors = dropout.map_or(vec![1.0; length * length], |mask| {
                let first = (text * heads + head) * longest;
                let all = mask.factors(first + length, *length);
                all[first * length..].to_vec()
            });
            (shares * tensor(factors, [*length, *length], &x.device()))
                .matmul(part(heads + kv_heads + group))
        };
        texts.push(Tensor::cat((0..*heads).map(head).collect(), 1));
    }
    Tensor::cat(texts, 0)
}

#[test]
fn attention_is_that_of_tensor_operations_text_by_text() {
    let mask = Some(DropoutMask::new(3, 0.2));
    for (lengths, longest, [heads, kv_heads, head_dim], dropout) in [
        (vec![1], 1, [1, 1, 2], None),
        (vec![5, 2, 8], 8, [2, 2, 3], mask),
        (vec![17, 17, 1], 20, [4, 2, 8], mask),
        (vec![130, 64, 65], 130, [2, 1, 8], mask),
    ] {
        for attention_mask in MASKS {
            let tokens = lengths.iter().sum();
            let operation =
                attention(&lengths, longest, [heads, kv_heads, head_dim], attention_mask);
            let operation = Attention { dropout, ..operation };
            assert_same(
                [random(4, [tokens, (heads + 2 * kv_heads) * head_dim], 1.0)],
                |[x]| apply(operation.clone(), [&x], [tokens, heads * head_dim]).unwrap(),
                |[x]| plain_attention(&operation, &x),
                3e-6,
            );
        }
    }
}

#[test]
fn cross_entropy_is_that_of_tensor_operations() {
    let targets = [0, 18, 3, 3, 7, 11];
    let burns_loss = |x: Tensor<2>, smoothing: f32| {
        let weight = |target: u32, class: u32| {
            smoothing / 19.0 + if class == target { 1.0 - smoothing } else { 0.0 }
        };
        let weights = targets
            .iter()
            .flat_map(|target| (0..19).map(move |class| weight(*target, class)))
            .collect();
        let logs = activation::log_softmax(x.clone(), 1);
        ((logs * tensor(weights, [6, 19], &x.device())).sum() * -0.25).reshape([1, 1])
    };
    for smoothing in [0.0, 0.1] {
        let input = random(5, [6, 19], 3.0);
        let loss = CrossEntropy { targets: targets.into(), smoothing, scale: 0.25 };
        let fused = |[x]: [Tensor<2>; 1]| apply(loss.clone(), [&x], [1, 1]).unwrap();
        let sum = derived([input.clone()], fused)[0][0];
        let unsmoothed = cross_entropy_sum(&input.0, &targets) * 0.25;
        assert!((unsmoothed - f64::from(sum)).abs() < 1e-5 || smoothing > 0.0);
        assert_same([input], fused, |[x]| burns_loss(x, smoothing), 2e-6);

        let operation = LinearCrossEntropy { loss: loss.clone(), width: 8 };
        assert_same(
            [random(6, [6, 8], 1.0), random(7, [19, 8], 1.0)],
            |[x, table]| apply(operation.clone(), [&x, &table], [1, 1]).unwrap(),
            |[x, table]| burns_loss(x.matmul(table.transpose()), smoothing),
            3e-6,
        );
    }
}

#[test]
fn logits_of_many_rows_are_computed_in_chunks() {
    let (rows, classes, width) = (200, 30_000, 2);
    let targets: Arc<[u32]> = (0..200).map(|row| row * 149).collect();
    let loss = CrossEntropy { targets, smoothing: 0.0, scale: 1.0 };
    let operation = LinearCrossEntropy { loss: loss.clone(), width };
    assert_same(
        [random(6, [rows, width], 1.0), random(7, [classes, width], 1.0)],
        |[x, table]| apply(operation.clone(), [&x, &table], [1, 1]).unwrap(),
        |[x, table]| apply(loss.clone(), [&x.matmul(table.transpose())], [1, 1]).unwrap(),
        1e-5,
    );
}

#[test]
fn embedding_sums_are_those_of_tensor_operations() {
    let (ids, positions): (Arc<[u32]>, Arc<[u32]>) =
        ([3, 0, 3, 3, 1].into(), [0, 1, 2, 0, 1].into());
    let indices = [(5, ids.clone()), (3, positions.clone())];
    let operation = EmbeddingSum { width: 6, indices, sparse_gradients: None };
    let chosen = |ids: &[u32], entries: usize, device: &Device| -> Tensor<2> {
        let row = |id: &u32| {
            let id = *id as usize;
            (0..entries).map(move |entry| f32::from(entry == id))
        };
        tensor(ids.iter().flat_map(row).collect(), [ids.len(), entries], device)
    };
    assert_same(
        [random(1, [5, 6], 1.0), random(2, [3, 6], 1.0)],
        |[tokens, places]| apply(operation.clone(), [&tokens, &places], [5, 6]).unwrap(),
        |[tokens, places]| {
            let device = tokens.device();
            chosen(&ids, 5, &device).matmul(tokens) + chosen(&positions, 3, &device).matmul(places)
        },
        1e-6,
    );
}

#[test]
fn rotary_positions_are_those_of_tensor_operations() {
    // The last two numbers of each head stay as they are.
    let (tokens, heads, head_dim, rotated, columns) = (5, 3, 6, 4, 22);
    let angle =
        |token: usize, i: usize| (token as f32 + 1.0) / 10.0_f32.powi(i32::try_from(i).unwrap());
    let functions: [fn(f32) -> f32; 2] = [f32::cos, f32::sin];
    let half = |token: usize, function: fn(f32) -> f32| {
        (0..rotated / 2).map(move |i| function(angle(token, i)))
    };
    let row = |token| functions.into_iter().flat_map(move |function| half(token, function));
    let angles = (0..tokens).flat_map(row).collect();
    let operation = RotaryEmbedding { heads, head_dim, rotated, columns, angles };
    let expected = |[x]: [Tensor<2>; 1]| {
        let [cosines, sines] = functions.map(|function| -> Tensor<2> {
            let column = (0..tokens).flat_map(|token| half(token, function)).collect();
            tensor(column, [tokens, 2], &x.device())
        });
        let head = |head: usize| {
            let [a, b] = [0, 2].map(|half| x.clone().narrow(1, head * head_dim + half, 2));
            let first = a.clone() * cosines.clone() - b.clone() * sines.clone();
            let second = b * cosines.clone() + a * sines.clone();
            Tensor::cat(vec![first, second, x.clone().narrow(1, head * head_dim + rotated, 2)], 1)
        };
        let rest = x.clone().narrow(1, heads * head_dim, columns - heads * head_dim);
        Tensor::cat((0..heads).map(head).chain([rest]).collect(), 1)
    };
    let fused = |[x]: [Tensor<2>; 1]| apply(operation.clone(), [&x], [tokens, columns]).unwrap();
    assert_same([random(3, [tokens, columns], 1.0)], fused, expected, 1e-6);
}
