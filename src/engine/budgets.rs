//! Budgets of time and devices: usage, and when they are exhausted.

use std::time::Duration;

use super::device_time::DeviceMeter;
use crate::study::budget::{Budget, DeviceLimit};
use crate::study::goal::Goal;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;

/// The usage of this run.
#[derive(Clone, Debug, Default)]
pub(super) struct Budgets {
    begun: Timestamp,
    /// Start of the current idle period (study paused, nothing running), and the total of earlier
    /// ones: this time does not count.
    idle_since: Option<Timestamp>,
    idle: Duration,
    pub meter: DeviceMeter,
    /// The device limit that ended the search.
    pub spent: Option<DeviceLimit>,
    /// Whether the target or the patience is reached: then only requested trials run.
    pub goal_reached: bool,
    /// The goal that ended the search.
    pub ended_by: Option<Goal>,
    /// Whether running trials were asked to leave.
    pub is_cut_off: bool,
}

impl Budgets {
    /// Whether the search would continue with more time, device time or patience with failures.
    pub fn stopped_short(&self) -> bool {
        self.is_cut_off && self.ended_by.is_none()
    }

    pub fn begin(&mut self, now: Timestamp) {
        self.begun = now;
    }

    /// Records the beginnings and ends of idle periods.
    pub fn note_idle(&mut self, is_idle: bool, now: Timestamp) {
        match (is_idle, self.idle_since) {
            (true, None) => self.idle_since = Some(now),
            (false, Some(since)) => {
                self.idle += now.since(since);
                self.idle_since = None;
            }
            _ => {}
        }
    }

    /// The running time of this run, excluding idle periods.
    pub fn ran(&self, now: Timestamp) -> Duration {
        let idle = self.idle_since.map_or(Duration::ZERO, |since| now.since(since));
        now.since(self.begun).saturating_sub(self.idle + idle)
    }

    /// When `budget.time` will be exhausted, given the `ran_micros` of earlier runs; the clock
    /// stops while idle.
    pub fn time_deadline(&self, budget: &Budget, ran_micros: i64) -> Option<Timestamp> {
        let limit = budget.time.filter(|_| self.idle_since.is_none())?.as_micros();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let begun = self.begun.after(self.idle);
        Some(Timestamp(begun.0.saturating_add(limit.saturating_sub(ran_micros).max(0))))
    }

    /// Device time up to now, accounted and not yet accounted.
    pub fn device_time(&self, state: &StudyState, now: Timestamp) -> Duration {
        let accounted = Duration::from_micros(u64::try_from(state.busy_micros).unwrap_or(0));
        accounted.saturating_add(self.meter.unaccounted(now))
    }

    /// When the device budget will be exhausted, if no trial starts or ends until then.
    pub fn device_deadline(
        &self,
        budget: &Budget,
        state: &StudyState,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let busy = u32::try_from(self.meter.devices()).ok().filter(|busy| *busy > 0)?;
        let left = budget.device_limit()?.time().saturating_sub(self.device_time(state, now));
        // Rounded up: a tick a moment too early would find a moment left, repeatedly.
        Some(now.after(left / busy + Duration::from_micros(1)))
    }

    /// A sentence on the usage of a device limit.
    pub fn used_up(&self, limit: DeviceLimit, state: &StudyState, now: Timestamp) -> String {
        let hours = self.device_time(state, now).as_secs_f64() / 3600.0;
        match limit {
            DeviceLimit::Hours(limit) => {
                format!("the budget of {limit} device-hours is used: {}", with_digits(hours, limit))
            }
            DeviceLimit::Cost { cost, price } => {
                let spent = with_digits(hours * price, cost);
                format!(
                    "the budget's cost of {cost} is spent: {spent}, {} device-hours at {price}",
                    with_digits(hours, cost / price)
                )
            }
        }
    }
}

/// An amount with enough decimals to differ from its limit: 2.01 of 2, 0.0021 of 0.002.
fn with_digits(amount: f64, limit: f64) -> String {
    let decimals = (0..9).find(|decimals| limit * 10f64.powi(*decimals) >= 100.0).unwrap_or(9);
    format!("{amount:.*}", usize::try_from(decimals).unwrap_or(0).max(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_does_not_count() {
        let budget = Budget { time: Some(Duration::from_micros(100)), ..Budget::default() };
        let mut budgets = Budgets::default();
        budgets.begin(Timestamp(10));
        assert_eq!(budgets.time_deadline(&budget, 30), Some(Timestamp(80)));
        budgets.note_idle(true, Timestamp(20));
        assert_eq!(budgets.time_deadline(&budget, 30), None);
        assert_eq!(budgets.ran(Timestamp(50)), Duration::from_micros(10));
        budgets.note_idle(false, Timestamp(60));
        assert_eq!(budgets.time_deadline(&budget, 30), Some(Timestamp(120)));
        assert_eq!(budgets.ran(Timestamp(70)), Duration::from_micros(20));
    }

    #[test]
    fn amounts_have_the_digits_that_tell_them_from_their_limit() {
        assert_eq!(with_digits(2.0123, 2.0), "2.01");
        assert_eq!(with_digits(0.00213, 0.002), "0.00213");
    }
}
