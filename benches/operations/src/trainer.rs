//! One layer of a transformer, operation by operation.

pub mod fused;

use std::time::Duration;

use fused::activation::ActivationFn;
use fused::attention::{Attention, AttentionMask};
use fused::dropout::DropoutMask;
use fused::feed_forward::FeedForward;
use fused::layer_norm::LayerNorm;
use fused::linear::{QkvLinear, ResidualLinear};
use fused::{BackwardInput, GradMode, Operation};

/// GFLOP/s of one core of the machine whose figures are in benches/README.md.
const PEAK: f64 = 118.0;

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
    fn mallopt(option: i32, value: i32) -> i32;
}

/// CPU time of this process.
fn now() -> Duration {
    let mut time = [0; 2];
    // SAFETY: clock 2 is the process's, and two integers are written.
    unsafe { clock_gettime(2, &mut time) };
    Duration::new(time[0] as u64, time[1] as u32)
}

/// Values in [-size, size).
fn numbers(count: usize, seed: u32, size: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / 8_388_608.0 - 1.0) * size
    };
    (0..count).map(|_| next()).collect()
}

/// An operation's name, multiplications and additions, and least time in milliseconds.
struct KernelTiming(&'static str, f64, f64);

fn timed<R>(
    rows: &mut Vec<KernelTiming>,
    name: &'static str,
    work: usize,
    run: impl FnOnce() -> R,
) -> R {
    let began = now();
    let found = run();
    let time = (now() - began).as_secs_f64() * 1e3;
    match rows.iter_mut().find(|row| row.0 == name) {
        Some(row) => row.2 = row.2.min(time),
        None => rows.push(KernelTiming(name, 2.0 * work as f64, time)),
    }
    found
}

pub fn measure() {
    // SAFETY: freed memory stays with the process, as hpsearch has it: two numbers of the
    // allocator's are set.
    unsafe {
        mallopt(-3, 1 << 30);
        mallopt(-1, i32::MAX);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let shape = words.first().map_or("small", String::as_str);
    let rounds: usize = words.get(1).map_or(10, |word| word.parse().expect("rounds are a number"));
    let rate: f64 = words.get(2).map_or(0.1, |word| word.parse().expect("dropout is a number"));
    // Those of benches/peers/step.py.
    let [d, heads, inner, length, texts] = match shape {
        "tiny" => [64, 2, 256, 32, 32],
        "small" => [256, 4, 1024, 128, 16],
        "mini" => [384, 12, 1536, 64, 32],
        _ => panic!("shapes are tiny, small and mini"),
    };
    let tokens = length * texts;
    let dropout = |key: u64| (rate > 0.0).then(|| DropoutMask::new(key, rate));
    let (x, gradient, gradients) =
        (numbers(tokens * d, 1, 1.0), numbers(tokens * d, 2, 1.0), numbers(tokens * 3 * d, 3, 1.0));
    let weight = |count: usize, seed: u32| numbers(count, seed, 0.06);
    let [wq, wk, wv, wo] = [4, 5, 6, 7].map(|seed| weight(d * d, seed));
    let [bq, bk, bv, bo, b2, scale, shift] = [8, 9, 10, 11, 12, 13, 14].map(|seed| weight(d, seed));
    let (w1, b1, w2) = (weight(d * inner, 15), weight(inner, 16), weight(d * inner, 17));
    let attention = Attention {
        lengths: vec![length; texts].into(),
        longest: length,
        heads,
        kv_heads: heads,
        head_dim: d / heads,
        attention_mask: AttentionMask::Full,
        dropout: dropout(1),
    };
    let (inputs, output) =
        (QkvLinear { widths: [d; 3] }, ResidualLinear { width: d, dropout: dropout(2) });
    let (feed, norm) = (
        FeedForward { inner, width: d, activation: ActivationFn::Gelu, dropout: dropout(3) },
        LayerNorm { epsilon: 1e-5 },
    );
    let [square, wide, mixing] = [tokens * d * d, tokens * d * inner, tokens * d * length];
    let (mut rows, grad_mode) = (Vec::new(), GradMode::Enabled);
    for _ in 0..rounds {
        let rows = &mut rows;
        let (read, statistics) =
            timed(rows, "norm", 0, || norm.forward([&x, &scale, &shift], grad_mode));
        let (all, ()) = timed(rows, "query, key, value", 3 * square, || {
            inputs.forward([&read, &wq, &wk, &wv, &bq, &bk, &bv], grad_mode)
        });
        let (mixed, shares) =
            timed(rows, "attention", 2 * mixing, || attention.forward([&all], grad_mode));
        let (sum, ()) =
            timed(rows, "output", square, || output.forward([&x, &mixed, &wo, &bo], grad_mode));
        let (_, kept) = timed(rows, "feed-forward", 2 * wide, || {
            feed.forward([&sum, &read, &w1, &b1, &w2, &b2], grad_mode)
        });
        timed(rows, "feed-forward, back", 4 * wide, || {
            feed.backward(BackwardInput {
                inputs: [&[], &read, &w1, &[], &w2, &[]],
                saved: kept,
                gradient: &gradient,
                needs_grad: [true; 6],
            })
        });
        timed(rows, "output, back", 2 * square, || {
            output.backward(BackwardInput {
                inputs: [&[], &mixed, &wo, &[]],
                saved: (),
                gradient: &gradient,
                needs_grad: [true; 4],
            })
        });
        timed(rows, "attention, back", 4 * mixing, || {
            attention.backward(BackwardInput {
                inputs: [&all],
                saved: shares,
                gradient: &gradient,
                needs_grad: [true],
            })
        });
        timed(rows, "query, key, value, back", 6 * square, || {
            inputs.backward(BackwardInput {
                inputs: [&read, &wq, &wk, &wv, &[], &[], &[]],
                saved: (),
                gradient: &gradients,
                needs_grad: [true; 7],
            })
        });
        timed(rows, "norm, back", 0, || {
            norm.backward(BackwardInput {
                inputs: [&x, &scale, &[]],
                saved: statistics,
                gradient: &gradient,
                needs_grad: [true; 3],
            })
        });
    }
    println!("{shape}, dropout {rate}, least of {rounds} rounds, ms      at {PEAK} GFLOP/s");
    for KernelTiming(name, work, time) in &rows {
        println!("{name:<26} {time:8.3} {:8.3}", work / PEAK / 1e6);
    }
    let sum = |number: fn(&KernelTiming) -> f64| rows.iter().map(number).sum::<f64>();
    println!("{:<26} {:8.3} {:8.3}", "together", sum(|row| row.2), sum(|row| row.1 / PEAK / 1e6));
}
