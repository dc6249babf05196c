//! Compares the properties of a filter with dates, as numbers.

use super::expression::{Comparison, Node, NodeKind};
use super::moment::Moment;

/// How a part compares with a moment: after a day means after its end.
pub(super) fn compared(part: &Node, comparison: Comparison, moment: Moment) -> NodeKind {
    let node = |kind| Node { kind, span: part.span.clone() };
    #[expect(clippy::cast_precision_loss, reason = "those of four-digit years stay below 2^53")]
    let with = |comparison, at: i64| {
        let at = node(NodeKind::Number(at as f64));
        NodeKind::Comparison(comparison, Box::new(part.clone()), Box::new(at))
    };
    let Moment { start, end } = moment;
    let (before, from) = (Comparison::Less, Comparison::AtLeast);
    match comparison {
        Comparison::Less => with(before, start),
        Comparison::AtMost => with(before, end),
        Comparison::More => with(from, end),
        Comparison::AtLeast => with(from, start),
        Comparison::Equal => NodeKind::And(vec![node(with(from, start)), node(with(before, end))]),
        Comparison::Unequal => NodeKind::Or(vec![node(with(before, start)), node(with(from, end))]),
    }
}

/// Replaces the moments of a comparison, or of a chain of them, by numbers.
pub(super) fn lower(node: &mut Node) {
    match &mut node.kind {
        NodeKind::And(parts) => parts.iter_mut().for_each(lower),
        NodeKind::Comparison(comparison, left, right) => match (&left.kind, &right.kind) {
            (_, NodeKind::Moment(moment)) => node.kind = compared(left, *comparison, *moment),
            (NodeKind::Moment(moment), _) => {
                node.kind = compared(right, comparison.mirrored(), *moment);
            }
            _ => {}
        },
        _ => {}
    }
}
