//! Each operation against burn's.

use std::sync::Arc;

use burn::tensor::{Tensor, activation, module};

use super::super::activation::{activate_in_place, activate_with_derivative};
use super::super::simd::{MAX_LEVEL, SimdLevel};
use super::*;
use crate::trainer::batch::Batch;

#[test]
fn layer_norm_is_burns() {
    for shape in [[1, 3], [7, 16], [5, 37], [33, 128]] {
        let row = [1, shape[1]];
        let inputs = || [random(1, shape, 2.0), random(2, row, 1.0), random(3, row, 1.0)];
        let fused = derived(inputs(), |[x, scale, shift]| {
            apply(LayerNorm { epsilon: 1e-5 }, [&x, &scale, &shift], x.dims()).unwrap()
        });
        let burns = derived(inputs(), |[x, scale, shift]| {
            module::layer_norm(x, scale.reshape([shape[1]]), Some(shift.reshape([shape[1]])), 1e-5)
        });
        assert_close(&fused, &burns, 5e-6);
    }
}

#[test]
fn rms_norm_is_that_of_tensor_operations() {
    for shape in [[1, 3], [5, 37], [33, 128]] {
        let inputs = || [random(1, shape, 2.0), random(2, [1, shape[1]], 1.0)];
        let fused = derived(inputs(), |[x, scale]| {
            apply(RmsNorm { epsilon: 1e-5 }, [&x, &scale], shape).unwrap()
        });
        let burns = derived(inputs(), |[x, scale]| {
            x.clone() / (x.square().mean_dim(1) + 1e-5).sqrt() * scale
        });
        assert_close(&fused, &burns, 5e-6);
    }
}

#[test]
fn mean_and_first_token_pooling_are_those_of_tensor_operations() {
    let batch = Batch::new([4, 1, 8].map(|length| vec![0; length]).into());
    for (pooling, width) in [Pooling::Mean, Pooling::Cls].into_iter().zip([37, 16]) {
        let rows = || [random(1, [13, width], 1.0)];
        let fused = derived(rows(), |[x]| {
            apply(Pool { lengths: batch.lengths(), width, pooling }, [&x], [3, width]).unwrap()
        });
        let burns = derived(rows(), |[x]| match pooling {
            Pooling::Mean => batch.mean_pooling_weights(&x.device()).matmul(x),
            Pooling::Cls => x.clone().select(0, batch.first_token_indices(&x.device())),
        });
        assert_close(&fused, &burns, 1e-6);
    }
}

/// From -10 to 10.
fn line() -> Numbers {
    ((-1_000..=1_000).map(|number: i16| f32::from(number) / 100.0).collect(), [1, 2_001])
}

#[test]
fn activations_and_their_derivatives_are_burns() {
    type Burns = fn(Tensor<2>) -> Tensor<2>;
    let pairs: [(ActivationFn, Burns); 5] = [
        (ActivationFn::Gelu, activation::gelu),
        (ActivationFn::GeluTanh, activation::gelu_approximate),
        (ActivationFn::Relu, activation::relu),
        (ActivationFn::Silu, activation::silu),
        (ActivationFn::Tanh, activation::tanh),
    ];
    for (activation, burns) in pairs {
        let fused = derived([line()], |[x]| apply(activation, [&x], [1, 2_001]).unwrap());
        assert_close(&fused, &derived([line()], |[x]| burns(x)), 1e-6);
    }
}

#[test]
fn gelu_and_its_derivative_are_as_accurate_as_documented_with_every_instruction_set() {
    let places: Vec<f32> =
        (-12_000..=12_000).map(|number: i16| f32::from(number) / 1_000.0).collect();
    let with = |instance: SimdLevel| {
        MAX_LEVEL.set(instance);
        let (mut values, mut slopes) = (places.clone(), Vec::with_capacity(places.len()));
        activate_with_derivative(
            ActivationFn::Gelu,
            &mut values,
            &mut slopes.spare_capacity_mut()[..places.len()],
        );
        // SAFETY: all derivatives were written.
        #[expect(unsafe_code, reason = "the buffer is not zeroed first")]
        unsafe {
            slopes.set_len(places.len());
        }
        MAX_LEVEL.set(SimdLevel::Avx512);
        (values, slopes)
    };
    let (values, slopes) = with(SimdLevel::Avx512);
    assert_eq!((&values, &slopes), (&with(SimdLevel::Avx2).0, &with(SimdLevel::Avx2).1));
    assert_eq!((&values, &slopes), (&with(SimdLevel::Baseline).0, &with(SimdLevel::Baseline).1));
    for (place, (value, slope)) in places.iter().zip(values.iter().zip(&slopes)) {
        let x = f64::from(*place);
        let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        // Φ(|x|) - 1/2 = φ(x) (|x| + |x|³/3 + |x|⁵/15 ..), all of whose terms are positive.
        let (mut term, mut sum, mut odd) = (x.abs(), 0.0, 1.0);
        while term > 1e-18 * sum {
            sum += term;
            odd += 2.0;
            term *= x * x / odd;
        }
        let share = 0.5 + x.signum() * density * sum;
        assert!((f64::from(*value) - x * share).abs() < 3e-7 * x.abs().max(1.0), "{x}: {value}");
        assert!((f64::from(*slope) - (share + x * density)).abs() < 4e-7, "{x}: {slope}");
    }
    let mut ends = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN];
    activate_in_place(ActivationFn::Gelu, &mut ends);
    assert!(ends[0] == 0.0 && ends[1] == f32::INFINITY && ends[2].is_nan());
}

#[test]
fn swiglu_is_that_of_tensor_operations() {
    let inputs = || [random(1, [5, 19], 2.0), random(2, [5, 19], 1.0)];
    let fused = derived(inputs(), |[gate, x]| apply(SwiGlu, [&gate, &x], [5, 19]).unwrap());
    assert_close(&fused, &derived(inputs(), |[gate, x]| activation::silu(gate) * x), 2e-6);
}

#[test]
fn linear_layers_are_burns_with_and_without_activation() {
    for [rows, input, width] in [[1, 1, 1], [7, 5, 3], [33, 64, 70]] {
        let inputs = || {
            [
                random(1, [rows, input], 1.0),
                random(2, [input, width], 1.0),
                random(3, [1, width], 1.0),
            ]
        };
        let shape = [rows, width];
        for activation in [None, Some(ActivationFn::Gelu), Some(ActivationFn::Silu)] {
            let fused = derived(inputs(), |[x, w, b]| {
                apply(Linear { width, activation }, [&x, &w, &b], shape).unwrap()
            });
            let burns = derived(inputs(), |[x, w, b]| match activation {
                None => x.matmul(w) + b,
                Some(ActivationFn::Gelu) => activation::gelu(x.matmul(w) + b),
                Some(_) => activation::silu(x.matmul(w) + b),
            });
            assert_close(&fused, &burns, 1e-5);
            let [x, w, _] = inputs();
            let fused = derived([x.clone(), w.clone()], |[x, w]| {
                apply(Linear { width, activation }, [&x, &w], shape).unwrap()
            });
            let burns = derived([x, w], |[x, w]| match activation {
                None => x.matmul(w),
                Some(ActivationFn::Gelu) => activation::gelu(x.matmul(w)),
                Some(_) => activation::silu(x.matmul(w)),
            });
            assert_close(&fused, &burns, 1e-5);
        }
    }
}

#[test]
fn residual_linear_layers_are_those_of_tensor_operations() {
    let (rows, input, width) = (9, 14, 11);
    for dropout in [None, Some(DropoutMask::new(5, 0.3))] {
        let inputs = || {
            [
                random(1, [rows, width], 1.0),
                random(2, [rows, input], 1.0),
                random(3, [input, width], 1.0),
                random(4, [1, width], 1.0),
            ]
        };
        let factors = dropout.map_or(vec![1.0; rows * width], |mask| mask.factors(rows, width));
        let fused = derived(inputs(), |[r, x, w, b]| {
            apply(ResidualLinear { width, dropout }, [&r, &x, &w, &b], [rows, width]).unwrap()
        });
        let burns = derived(inputs(), |[r, x, w, b]| {
            r.clone() + (x.matmul(w) + b) * tensor(factors.clone(), [rows, width], &r.device())
        });
        assert_close(&fused, &burns, 1e-5);
    }
}

#[test]
fn the_feed_forward_network_is_that_of_tensor_operations() {
    let [rows, input, inner, width] = [9, 14, 21, 11];
    for (dropout, activation) in
        [(None, ActivationFn::Relu), (Some(DropoutMask::new(5, 0.3)), ActivationFn::Gelu)]
    {
        let inputs = || {
            [
                random(1, [rows, width], 1.0),
                random(2, [rows, input], 1.0),
                random(3, [input, inner], 1.0),
                random(4, [1, inner], 1.0),
                random(5, [inner, width], 1.0),
                random(6, [1, width], 1.0),
            ]
        };
        let factors = dropout.map_or(vec![1.0; rows * width], |mask| mask.factors(rows, width));
        let fused = derived(inputs(), |[r, x, w1, b1, w2, b2]| {
            apply(
                FeedForward { inner, width, activation, dropout },
                [&r, &x, &w1, &b1, &w2, &b2],
                [rows, width],
            )
            .unwrap()
        });
        let burns = derived(inputs(), |[r, x, w1, b1, w2, b2]| {
            let between = x.matmul(w1) + b1;
            let between = if activation == ActivationFn::Relu {
                activation::relu(between)
            } else {
                activation::gelu(between)
            };
            r.clone()
                + (between.matmul(w2) + b2) * tensor(factors.clone(), [rows, width], &r.device())
        });
        assert_close(&fused, &burns, 1e-5);
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
            .map(|place| {
                let (numbers, shape) = random(place as u64 + 1, shapes[place], 1.0);
                let leaf = tensor(numbers, shape, &device);
                if needs_grad.contains(&place) { leaf.require_grad() } else { leaf }
            })
            .collect();
        let inputs: [&Tensor<2>; 6] = std::array::from_fn(|place| &leaves[place]);
        let mut gradients = apply(operation, inputs, [6, 8]).unwrap().sum().backward();
        leaves
            .iter()
            .map(|leaf| leaf.grad_remove(&mut gradients).map(|found| host(found).unwrap()))
            .collect::<Vec<_>>()
    };
    let all = gradients_of(&[0, 1, 2, 3, 4, 5]);
    for needs_grad in [vec![0], vec![1], vec![2, 3], vec![4], vec![5], vec![1, 4]] {
        let some = gradients_of(&needs_grad);
        for place in 0..6 {
            assert_eq!(
                some[place].as_ref(),
                all[place].as_ref().filter(|_| needs_grad.contains(&place)),
                "{place}"
            );
        }
    }
}

#[test]
fn dropout_multiplies_with_the_masks_factors() {
    let (shape, mask) = ([13, 21], DropoutMask::new(9, 0.4));
    let factors = |x: &Tensor<2>| tensor(mask.factors(13, 21), shape, &x.device());
    let fused = derived([random(1, shape, 1.0)], |[x]| {
        apply(Dropout { width: 21, mask }, [&x], shape).unwrap()
    });
    assert_close(&fused, &derived([random(1, shape, 1.0)], |[x]| x.clone() * factors(&x)), 1e-7);
}

#[test]
fn packed_query_key_and_value_are_those_of_three_linear_layers() {
    let (rows, input, widths) = (9, 14, [8, 4, 6]);
    let weight = |seed: u64, width| random(seed, [input, width], 1.0);
    let (x, shape) = (|| random(1, [rows, input], 1.0), [rows, 18]);
    let weights = || [weight(2, 8), weight(3, 4), weight(4, 6)];
    let biases = [random(5, [1, 8], 1.0), random(6, [1, 4], 1.0), random(7, [1, 6], 1.0)];
    let all = || -> [Numbers; 7] {
        [vec![x()], weights().to_vec(), biases.to_vec()].concat().try_into().unwrap()
    };
    let fused = derived(all(), |[x, a, b, c, d, e, f]| {
        apply(QkvLinear { widths }, [&x, &a, &b, &c, &d, &e, &f], shape).unwrap()
    });
    let burns = derived(all(), |[x, a, b, c, d, e, f]| {
        Tensor::cat(
            [(a, d), (b, e), (c, f)].map(|(weight, bias)| x.clone().matmul(weight) + bias).to_vec(),
            1,
        )
    });
    assert_close(&fused, &burns, 1e-5);
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
        for attention_mask in
            [AttentionMask::Full, AttentionMask::Causal, AttentionMask::SlidingWindow(3)]
        {
            let tokens = lengths.iter().sum();
            let operation = Attention {
                lengths: lengths.clone().into(),
                longest,
                heads,
                kv_heads,
                head_dim,
                attention_mask,
                dropout,
            };
            let input = || [random(4, [tokens, (heads + 2 * kv_heads) * head_dim], 1.0)];
            let fused = derived(input(), |[x]| {
                apply(operation.clone(), [&x], [tokens, heads * head_dim]).unwrap()
            });
            assert_close(&fused, &derived(input(), |[x]| plain_attention(&operation, &x)), 3e-6);
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
        let input = || random(5, [6, 19], 3.0);
        let loss = CrossEntropy { targets: targets.into(), smoothing, scale: 0.25 };
        let fused = derived([input()], |[x]| apply(loss.clone(), [&x], [1, 1]).unwrap());
        assert_close(&fused, &derived([input()], |[x]| burns_loss(x, smoothing)), 2e-6);
        assert!(
            (cross_entropy_sum(&input().0, &targets) * 0.25 - f64::from(fused[0][0])).abs() < 1e-5
                || smoothing > 0.0
        );

        let inputs = || [random(6, [6, 8], 1.0), random(7, [19, 8], 1.0)];
        let operation = LinearCrossEntropy { loss, width: 8 };
        let fused =
            derived(inputs(), |[x, table]| apply(operation.clone(), [&x, &table], [1, 1]).unwrap());
        assert_close(
            &fused,
            &derived(inputs(), |[x, table]| burns_loss(x.matmul(table.transpose()), smoothing)),
            3e-6,
        );
    }
}

#[test]
fn logits_of_many_rows_are_computed_in_chunks() {
    let (rows, classes, width) = (200, 30_000, 2);
    let targets: Arc<[u32]> = (0..200).map(|row| row * 149).collect();
    let loss = CrossEntropy { targets: targets.clone(), smoothing: 0.0, scale: 1.0 };
    let inputs = || [random(6, [rows, width], 1.0), random(7, [classes, width], 1.0)];
    let fused = derived(inputs(), |[x, table]| {
        apply(LinearCrossEntropy { loss: loss.clone(), width }, [&x, &table], [1, 1]).unwrap()
    });
    let whole = derived(inputs(), |[x, table]| {
        apply(loss.clone(), [&x.matmul(table.transpose())], [1, 1]).unwrap()
    });
    assert_close(&fused, &whole, 1e-5);
}

#[test]
fn embedding_sums_are_those_of_tensor_operations() {
    let (ids, places): (Arc<[u32]>, Arc<[u32]>) = ([3, 0, 3, 3, 1].into(), [0, 1, 2, 0, 1].into());
    let inputs = || [random(1, [5, 6], 1.0), random(2, [3, 6], 1.0)];
    let operation = EmbeddingSum {
        width: 6,
        indices: [(5, ids.clone()), (3, places.clone())],
        sparse_gradients: None,
    };
    let fused = derived(inputs(), |[words, spots]| {
        apply(operation.clone(), [&words, &spots], [5, 6]).unwrap()
    });
    let chosen = |ids: &[u32], entries: usize, device: &Device| -> Tensor<2> {
        tensor(
            ids.iter()
                .flat_map(|id| (0..entries).map(move |entry| f32::from(entry == *id as usize)))
                .collect(),
            [ids.len(), entries],
            device,
        )
    };
    let burns = derived(inputs(), |[words, spots]| {
        let device = words.device();
        chosen(&ids, 5, &device).matmul(words) + chosen(&places, 3, &device).matmul(spots)
    });
    assert_close(&fused, &burns, 1e-6);
}

#[test]
fn rotary_positions_are_those_of_tensor_operations() {
    let (tokens, heads, head_dim, columns) = (5, 3, 4, 16);
    let angle =
        |token: usize, i: usize| (token as f32 + 1.0) / 10.0_f32.powi(i32::try_from(i).unwrap());
    let angles: Vec<f32> = (0..tokens)
        .flat_map(|token| {
            [f32::cos as fn(f32) -> f32, f32::sin]
                .into_iter()
                .flat_map(move |function| (0..head_dim / 2).map(move |i| function(angle(token, i))))
        })
        .collect();
    let operation = RotaryEmbedding { heads, head_dim, columns, angles: angles.into() };
    let input = || [random(3, [tokens, columns], 1.0)];
    let fused = derived(input(), |[x]| apply(operation.clone(), [&x], [tokens, columns]).unwrap());
    let burns = derived(input(), |[x]| {
        let row = |function: fn(f32) -> f32| -> Tensor<2> {
            tensor(
                (0..tokens)
                    .flat_map(|token| (0..2).map(move |i| function(angle(token, i))))
                    .collect(),
                [tokens, 2],
                &x.device(),
            )
        };
        let head = |head: usize| {
            let [a, b] = [0, 2].map(|half| x.clone().narrow(1, head * head_dim + half, 2));
            let (cosine, sine) = (row(f32::cos), row(f32::sin));
            Tensor::cat(
                vec![a.clone() * cosine.clone() - b.clone() * sine.clone(), b * cosine + a * sine],
                1,
            )
        };
        Tensor::cat(
            (0..heads)
                .map(head)
                .chain([x.clone().narrow(1, heads * head_dim, columns - heads * head_dim)])
                .collect(),
            1,
        )
    });
    assert_close(&fused, &burns, 1e-6);
}
