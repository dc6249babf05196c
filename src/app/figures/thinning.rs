//! Leaves out points of figures.

use crate::report::figure::{Figure, Mark};

/// Leaves out points at equal distances, so that about `most` stay: more are larger, and show no
/// more.
pub fn thin(figure: &mut Figure<'static>, most: usize) {
    let points: usize = figure.series.iter().map(|series| series.points.len()).sum();
    let every = points.div_ceil(most).max(1);
    for one in &mut figure.series {
        let length = one.points.len();
        // Bars and bands are pairs of points, and short series tell something by each.
        let is_of_pairs = matches!(one.mark, Mark::Bars | Mark::Band);
        if every == 1 || is_of_pairs || length < every * 20 {
            continue;
        }
        let kept = one.points.iter().enumerate();
        let kept = kept.filter(|(index, _)| index % every == 0 || index + 1 == length);
        one.points = kept.map(|(_, point)| *point).collect::<Vec<_>>().into();
    }
}
