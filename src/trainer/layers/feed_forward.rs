//! The feed-forward networks of transformer layers.

use super::super::fused;
use super::{ForwardContext, HiddenStates, Linear, activate, to_f32};
use hpsearch_core::arguments::Activation;

/// A feed-forward network with its activation and dropout.
pub(in super::super) struct FeedForward {
    pub(in super::super) projections: Projections,
    pub(in super::super) activation: Activation,
    /// Of what the last linear layer reads.
    pub(in super::super) inner_dropout: f64,
    pub(in super::super) dropout: f64,
}

/// The linear layers of a feed-forward network.
pub(in super::super) enum Projections {
    /// `down(activation(up(x)))`, with dropout of the result.
    Plain { up: Linear, down: Linear },
    /// `down(activation(gate(x)) * up(x))` (Shazeer 2020), with dropout of the result.
    Gated { gate: Linear, up: Linear, down: Linear },
    /// As `Gated`, with gate and up in one linear layer, the gate first, and dropout before `down`
    /// (ModernBERT's GeGLU).
    PackedGated { gate_up: Linear, down: Linear },
}

impl FeedForward {
    /// `residual` plus the network's output for `x [rows, width]`.
    pub(in super::super) fn residual(
        &self,
        context: &ForwardContext,
        residual: HiddenStates,
        x: HiddenStates,
    ) -> HiddenStates {
        let Self { projections, activation, inner_dropout, dropout } = self;
        match projections {
            Projections::Plain { up, down } if *inner_dropout > 0.0 => {
                let inner = to_f32(up.project(context, x, Some((*activation).into())));
                down.residual(context, residual, context.dropout(inner, *inner_dropout), *dropout)
            }
            Projections::Plain { up, down } => {
                plain(context, [up, down], residual, x, *activation, *dropout)
            }
            Projections::Gated { gate, up, down } => {
                let (gate, up) =
                    (gate.project(context, x.clone(), None), up.project(context, x, None));
                let fused = if *activation == Activation::Silu {
                    fused::apply(fused::SwiGlu, [&gate, &up], gate.dims())
                } else {
                    None
                };
                let inner = fused.unwrap_or_else(|| activate((*activation).into(), gate) * up);
                let inner = match *inner_dropout {
                    0.0 => inner,
                    rate => context.dropout(to_f32(inner), rate),
                };
                down.residual(context, residual, inner, *dropout)
            }
            Projections::PackedGated { gate_up, down } => {
                let (gate_up, activation) =
                    (gate_up.project(context, x, None), (*activation).into());
                let [rows, columns] = gate_up.dims();
                let half = columns / 2;
                let inner = fused::apply(
                    fused::PackedGlu { activation, columns },
                    [&gate_up],
                    [rows, half],
                )
                .unwrap_or_else(|| {
                    activate(activation, gate_up.clone().narrow(1, 0, half))
                        * gate_up.narrow(1, half, half)
                });
                down.residual(context, residual, context.dropout(inner, *dropout), 0.0)
            }
        }
    }
}

fn plain(
    context: &ForwardContext,
    [up, down]: [&Linear; 2],
    residual: HiddenStates,
    x: HiddenStates,
    activation: Activation,
    dropout: f64,
) -> HiddenStates {
    let unfused = |residual, x| {
        down.residual(context, residual, up.project(context, x, Some(activation.into())), dropout)
    };
    if [up, down].iter().any(|linear| context.adapter(linear).is_some()) {
        return unfused(residual, x);
    }
    let [w1, w2] = [up, down].map(|linear| context.values.get(linear.weight));
    let [b1, b2] = [up, down].map(|linear| context.bias(linear.bias, linear.width));
    // Both implementations use the same dropout site.
    let site = context.dropout_sites();
    let operation = fused::FeedForward {
        inner: up.width,
        width: down.width,
        activation: activation.into(),
        dropout: context.next_mask(dropout),
    };
    context.fused(operation, [&residual, &x, &w1, &b1, &w2, &b2], residual.dims()).unwrap_or_else(
        || {
            context.rewind_dropout(site);
            unfused(residual, x)
        },
    )
}
