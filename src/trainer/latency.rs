//! The latency of predictions: the median time of one row, by itself.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use burn::tensor::Device;

use super::parameters::Values;
use super::task::{EvaluationSet, Model};
use super::{PreparedData, Split, TrainerError};

/// Rows before those that count: the first ones compile kernels and fill caches.
const WARM_UP: usize = 3;
/// Rows that count, within [`LONGEST`].
const FEWEST: usize = 5;
const MOST: usize = 31;
const LONGEST: Duration = Duration::from_millis(50);

/// The median latency of one validation row in milliseconds, its loss included, over rows spread
/// evenly; of one training row where no rows are held out.
///
/// # Errors
/// The device fails.
pub(super) fn predict_ms(
    model: &dyn Model,
    values: &Values,
    device: &Device,
    data: &PreparedData,
) -> Result<f64, TrainerError> {
    let warm_up = latencies(model, values, device, data, WARM_UP)?;
    let Some(fastest) = warm_up.into_iter().min() else { return Ok(f64::NAN) };
    let affordable = LONGEST.as_nanos() / fastest.as_nanos().max(1);
    let rows = usize::try_from(affordable).unwrap_or(MOST).clamp(FEWEST, MOST);
    let mut measured = latencies(model, values, device, data, rows)?;
    measured.sort_unstable();
    Ok(measured[measured.len() / 2].as_secs_f64() * 1e3)
}

/// The time of each of `rows` rows, or of all if there are fewer.
fn latencies(
    model: &dyn Model,
    values: &Values,
    device: &Device,
    data: &PreparedData,
    rows: usize,
) -> Result<Vec<Duration>, TrainerError> {
    let split = if data.has_validation() { Split::Validation } else { Split::Train };
    let set = EvaluationSet { split, batch: 1, limit: Some(rows), writing: None };
    let measured = RefCell::new((Instant::now(), Vec::with_capacity(rows)));
    // Each row is read from the device before the next begins.
    model.measure(values, device, data, &set, &|_, _| {
        let (begin, latencies) = &mut *measured.borrow_mut();
        latencies.push(begin.elapsed());
        *begin = Instant::now();
    })?;
    Ok(measured.into_inner().1)
}
