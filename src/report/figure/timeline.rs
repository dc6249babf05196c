//! Which trial ran where and when.

use std::collections::BTreeMap;

use super::of_study::{present, series, unit_of, whole};
use super::{Axis, Figure, Mark, SeriesRole};
use crate::report::wording::one_line;
use crate::storage::Attempt;
use crate::study::event::AttemptEnd;
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// How attempts are grouped, in the order of the legend.
const GROUPS: [&str; 6] = ["completed", "paused", "pruned", "interrupted", "failed", "running"];

/// The attempts of a study as bars, a row per slot, over the time since the first one began, and
/// the checkpoints that they saved. An attempt that ended in a pause is a bar of its own; while a
/// trial is paused it has none.
pub fn timeline(
    spec: &StudySpec,
    attempts: &[Attempt],
    checkpoints: &[(TrialNumber, Timestamp)],
    now: Timestamp,
) -> Figure<'static> {
    let rows: BTreeMap<(usize, String), f64> = {
        let mut slots: Vec<(usize, String)> = attempts.iter().map(row_of).collect();
        slots.sort();
        slots.dedup();
        // The first slot is at the top.
        let last = whole(slots.len() as u64) - 1.0;
        slots.into_iter().zip((0_u64..).map(|row| last - whole(row))).collect()
    };
    let began = attempts.iter().map(|attempt| attempt.started).min();
    let end = |attempt: &Attempt| attempt.ended.unwrap_or(now).max(attempt.started);
    let ended = attempts.iter().map(end).max();
    let lasted = began.zip(ended).map_or(0.0, |(began, end)| end.since(began).as_secs_f64());
    let (unit, length) = unit_of(lasted);
    let at = |moment: Timestamp| moment.since(began.unwrap_or(moment)).as_secs_f64() / length;
    let mut groups: [Vec<(f64, f64)>; GROUPS.len()] = Default::default();
    let mut of_trial: BTreeMap<TrialNumber, Vec<&Attempt>> = BTreeMap::new();
    for attempt in attempts {
        of_trial.entry(attempt.trial).or_default().push(attempt);
        if let Some(row) = rows.get(&row_of(attempt)) {
            groups[group_of(attempt)]
                .extend([(at(attempt.started), *row), (at(end(attempt)), *row)]);
        }
    }
    let saved = checkpoints.iter().filter_map(|(trial, moment)| {
        // The attempt that ran then: the last one that had begun.
        let attempts = of_trial.get(trial)?;
        let attempt = attempts.iter().rfind(|attempt| attempt.started <= *moment)?;
        Some((at(*moment), *rows.get(&row_of(attempt))?))
    });
    let saved = series("checkpoint", saved.collect(), Mark::Dots, SeriesRole::Behind);
    let bars = groups.into_iter().enumerate().map(|(index, points)| {
        series(GROUPS[index], points, Mark::Bars, SeriesRole::Compared(index))
    });
    let last = whole(rows.len() as u64);
    Figure {
        title: one_line(&format!("{}: slots over time", spec.name)),
        x: Axis::linear().labelled(unit),
        y: Axis {
            ends: Some((-0.6, (last - 0.4).max(0.6))),
            names: rows.into_iter().map(|((_, name), row)| (row, name)).collect(),
            ..Axis::linear().labelled("slot")
        },
        cells: None,
        series: present(bars.chain([saved]).collect()),
        empty: "no trial has started",
    }
}

/// The row of an attempt's slot: its index and name.
fn row_of(attempt: &Attempt) -> (usize, String) {
    (attempt.slot.index, one_line(&format!("{} {}", attempt.slot.index, attempt.slot.devices)))
}

fn group_of(attempt: &Attempt) -> usize {
    match &attempt.end {
        Some(AttemptEnd::Completed | AttemptEnd::Diverged) => 0,
        Some(AttemptEnd::Paused) => 1,
        Some(AttemptEnd::Stopped) => 2,
        Some(AttemptEnd::Interrupted | AttemptEnd::Lost | AttemptEnd::Refused) => 3,
        Some(AttemptEnd::Failed(_)) => 4,
        None => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::device::{Device, Slot};
    use crate::study::metric::Direction;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::trial::AttemptNumber;

    fn attempt(
        trial: u64,
        slot: usize,
        from: i64,
        to: Option<i64>,
        end: Option<AttemptEnd>,
    ) -> Attempt {
        Attempt {
            trial: TrialNumber(trial),
            attempt: AttemptNumber(0),
            slot: Slot::on(slot, Device::Cpu),
            resume: None,
            until: None,
            process: None,
            started: Timestamp(from * 1_000_000),
            ended: to.map(|to| Timestamp(to * 1_000_000)),
            end,
            reason: None,
            runner: None,
        }
    }

    fn spec() -> StudySpec {
        let space = Space::new(Vec::new()).unwrap();
        StudySpec::new("digits", "loss", Direction::Minimize, space, Program::Inline)
    }

    #[test]
    fn attempts_are_bars_of_their_slots_and_checkpoints_stand_on_them() {
        let attempts = [
            attempt(0, 0, 100, Some(110), Some(AttemptEnd::Paused)),
            attempt(1, 1, 105, Some(130), Some(AttemptEnd::Completed)),
            attempt(0, 1, 130, None, None),
        ];
        let second = |second: i64| Timestamp(second * 1_000_000);
        let saved = [(TrialNumber(0), second(109)), (TrialNumber(0), second(135))];
        let figure = timeline(&spec(), &attempts, &saved, second(140));
        let points = |name: &str| {
            figure.series.iter().find(|series| series.name == name).unwrap().points.to_vec()
        };
        // The first slot is the upper row.
        assert_eq!(points("paused"), [(0.0, 1.0), (10.0, 1.0)]);
        assert_eq!(points("completed"), [(5.0, 0.0), (30.0, 0.0)]);
        assert_eq!(points("running"), [(30.0, 0.0), (40.0, 0.0)]);
        // The second attempt of trial 0 ran on the other slot.
        assert_eq!(points("checkpoint"), [(9.0, 1.0), (35.0, 0.0)]);
        assert_eq!(figure.y.names, [(1.0, "0 cpu".to_owned()), (0.0, "1 cpu".to_owned())]);
        assert_eq!(figure.x.label, "seconds");
    }

    #[test]
    fn long_studies_are_shown_in_longer_units() {
        let attempts = [attempt(0, 0, 0, Some(7_200), Some(AttemptEnd::Completed))];
        let figure = timeline(&spec(), &attempts, &[], Timestamp(0));
        assert_eq!((figure.x.label.as_str(), figure.series[0].points[1].0), ("minutes", 120.0));
        assert!(timeline(&spec(), &[], &[], Timestamp(0)).series.is_empty());
    }
}
