//! Forecasts in words and their inputs, shared by lines, tables and screens.

use std::time::Duration;

use super::wording::{bytes, number, rough_duration};
use crate::analysis::forecast::{EndedBy, Forecast, Situation, Span, forecast, most_steps};
use crate::config;
use crate::study::counted::count;
use crate::study::spec::StudySpec;
use crate::study::state::Counts;
use crate::study::time::Timestamp;
use crate::study::usage::Used;

/// The forecast of a study; `running`: whether a runner is active.
pub fn look_ahead(
    spec: &StudySpec,
    counts: Counts,
    elapsed: Duration,
    mut used: Used,
    now: Timestamp,
    running: Running,
) -> Forecast {
    if running == Running::No {
        // Attempts left open by a dead runner do not count.
        used.running.clear();
        used.recent.iter_mut().for_each(|tried| tried.since = None);
    }
    if used.slots == 0 {
        used.slots = 1;
    }
    forecast(&Situation { spec, full_trial: longest(spec), counts, elapsed, used: &used, now })
}

/// Whether a runner is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// A runner is active.
    Yes,
    /// No runner is active.
    No,
}

/// Step of the longest trial, if the study fixes it.
fn longest(spec: &StudySpec) -> Option<u64> {
    config::full_trial(spec).or_else(|| spec.pruner.options.get("max_resource")?.as_u64())
}

/// `about 20 min left`; `None` if unknown.
pub fn left(forecast: &Forecast) -> Option<String> {
    Some(format!("about {} left", seconds(forecast.seconds_left?.likely)))
}

/// All forecasts, each as a short phrase with its range.
pub fn parts(forecast: &Forecast) -> Vec<String> {
    let end = match forecast.ended_by {
        Some(EndedBy::Time) => ", when the time is used up",
        Some(EndedBy::DeviceHours) => ", when the device-hours are used up",
        Some(EndedBy::Cost) => ", when the cost is spent",
        Some(EndedBy::Trials) | None => "",
    };
    let left = forecast
        .seconds_left
        .map(|span| format!("about {} left{}{end}", seconds(span.likely), range(span, seconds)));
    let trials = forecast.trials.map(|span| {
        format!(
            "{}{} by then",
            count(whole(span.likely), "trial"),
            range(span, |trials| whole(trials).to_string())
        )
    });
    let device_hours = forecast.device_hours.map(|span| {
        format!("{} in all{}", device_hours(span.likely), range(span, number_of_hours))
    });
    let cost = forecast.cost.map(|span| {
        format!("cost {}{}", number_of_hours(span.likely), range(span, number_of_hours))
    });
    let disk = forecast.disk.map(|span| {
        format!(
            "checkpoints of up to {}{}{}",
            bytes(whole(span.likely)),
            range(span, |size| bytes(whole(size))),
            forecast.held.filter(|held| *held > 2.0).map_or_else(String::new, |held| {
                let held = count(whole(held), "checkpoint");
                format!(", keeping {held} for each running trial until it ends")
            })
        )
    });
    let race = forecast.race.map(|span| {
        format!(
            "then a race of about {}{}, on top of the budget",
            seconds(span.likely),
            range(span, seconds)
        )
    });
    [left, trials, device_hours, cost, disk, race].into_iter().flatten().collect()
}

/// The forecast from the study file alone: before the first trial, durations are unknown.
pub fn before_the_first(spec: &StudySpec) -> String {
    let unit = if spec.step.as_str() == "samples" { "sample" } else { spec.step.as_str() };
    let budget = &spec.budget;
    let trials = budget.trials.map(|trials| count(trials, "trial"));
    let each = longest(spec).map(|steps| format!(" of up to {}", count(steps, unit)));
    let all =
        most_steps(budget, longest(spec)).map(|steps| format!(", {} at most", count(steps, unit)));
    let time = budget.time.map(|time| format!("{} at most", rough_duration(time)));
    let hours = budget
        .device_limit()
        .map(|limit| format!("{} at most", device_hours(limit.time().as_secs_f64() / 3600.0)));
    let work = trials
        .map(|trials| format!("{trials}{}{}", each.unwrap_or_default(), all.unwrap_or_default()));
    let known: Vec<String> = work.into_iter().chain(time).chain(hours).collect();
    let known = if known.is_empty() { "nothing limits it".to_owned() } else { known.join("; ") };
    format!("{known}; how much a trial takes is known once the first ones have run")
}

/// `1.25 device-hours`, with the significant decimals.
pub fn device_hours(hours: f64) -> String {
    format!("{} device-hours", number_of_hours(hours))
}

fn number_of_hours(hours: f64) -> String {
    if hours >= 100.0 {
        format!("{hours:.0}")
    } else if hours >= 1.0 {
        format!("{hours:.1}")
    } else {
        number((hours * 1e4).round() / 1e4)
    }
}

fn seconds(seconds: f64) -> String {
    rough_duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// ` (15 min to 28 min)`, if it differs from the likely value.
fn range(span: Span, say: impl Fn(f64) -> String) -> String {
    let (low, high) = (say(span.low), say(span.high));
    if low == high { String::new() } else { format!(" ({low} to {high})") }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate that is not negative, saturating"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::spec::AlgorithmSpec;

    #[test]
    fn a_forecast_is_said_with_its_ranges() {
        let span = |low, likely, high| Some(Span { low, likely, high });
        let forecast = Forecast {
            seconds_left: span(900.0, 1200.0, 1700.0),
            device_hours: span(0.25, 0.5, 1.25),
            cost: span(2.0, 2.0, 2.0),
            trials: None,
            ended_by: Some(EndedBy::Trials),
            disk: span(1048576.0, 3145728.0, 4194304.0),
            held: None,
            race: span(90.0, 120.0, 150.0),
        };
        assert_eq!(
            parts(&forecast),
            [
                "about 20 min 00 s left (15 min 00 s to 28 min 20 s)",
                "0.5 device-hours in all (0.25 to 1.2)",
                "cost 2.0",
                "checkpoints of up to 3.0 MiB (1.0 MiB to 4.0 MiB)",
                "then a race of about 2 min 00 s (1 min 30 s to 2 min 30 s), on top of the budget"
            ]
        );
        let held = Forecast { held: Some(12.0), disk: span(1e6, 1e6, 1e6), ..Forecast::default() };
        let said = parts(&held).concat();
        assert!(
            said.ends_with(", keeping 12 checkpoints for each running trial until it ends"),
            "{said}"
        );
        assert_eq!(left(&forecast).as_deref(), Some("about 20 min 00 s left"));
        assert_eq!((parts(&Forecast::default()), left(&Forecast::default())), (Vec::new(), None));
    }

    #[test]
    fn before_the_first_trial_the_study_file_tells_what_it_can() {
        let mut spec =
            StudySpec::new("s", "loss", Direction::Minimize, Space::default(), Program::Inline);
        assert!(before_the_first(&spec).starts_with("nothing limits it; "));
        spec.budget.trials = Some(24);
        spec.pruner = AlgorithmSpec::named("asha").with("max_resource", 27);
        spec.budget.time = Some(Duration::from_secs(7200));
        spec.budget.device_hours = Some(3.0);
        let said = "24 trials of up to 27 epochs, 648 epochs at most; 2 h 00 min at most; 3.0 \
            device-hours at most; \
                    how much a trial takes is known once the first ones have run";
        assert_eq!(before_the_first(&spec), said);
    }
}
