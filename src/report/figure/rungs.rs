//! Where trials were stopped, and how many continued.

use std::collections::{BTreeMap, BTreeSet};

use super::of_study::{present, series, whole};
use super::{Axis, Figure, Mark, SeriesRole};
use crate::report::fate::Fate;
use crate::report::wording::one_line;
use crate::study::outcome::TrialSummary;
use crate::study::spec::StudySpec;
use crate::study::trial::{TrialNumber, TrialState};

/// For each step at which a trial was stopped or paused, and the last at which one completed: how
/// many trials reached it, and how many of them went further, completed or still run there.
/// `fates`: what the pruner's decisions meant for each trial.
pub fn rungs(
    spec: &StudySpec,
    outcomes: &[TrialSummary],
    fates: &BTreeMap<TrialNumber, Vec<(u64, Fate)>>,
) -> Figure<'static> {
    let stopped = |outcome: &TrialSummary| {
        let (step, fate) = *fates.get(&outcome.number)?.last()?;
        (outcome.state == TrialState::Pruned && fate == Fate::Stopped).then_some(step)
    };
    // What a failed trial would have done is not known.
    let counts = |outcome: &&TrialSummary| outcome.state != TrialState::Failed;
    let reached: Vec<(u64, TrialState)> = outcomes
        .iter()
        .filter(counts)
        .filter_map(|outcome| Some((stopped(outcome).or(outcome.last_step)?, outcome.state)))
        .collect();
    let is_stop = |state: TrialState| matches!(state, TrialState::Pruned | TrialState::Paused);
    let stops = reached.iter().filter(|(_, state)| is_stop(*state));
    let mut steps: BTreeSet<u64> = stops.map(|(step, _)| *step).collect();
    let decided = fates.values().flatten().filter(|(_, fate)| *fate != Fate::Continued);
    steps.extend(decided.map(|(step, _)| *step));
    let ended = reached.iter().filter(|(_, state)| *state == TrialState::Complete);
    steps.extend(ended.map(|(step, _)| *step).max());
    let count = |holds: &dyn Fn(u64, TrialState) -> bool| {
        whole(reached.iter().filter(|(step, state)| holds(*step, *state)).count() as u64)
    };
    let (mut all, mut continued, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (index, rung) in (0_u64..).map(whole).zip(&steps) {
        let here = count(&|step, _| step >= *rung);
        let further = count(&|step, state| step > *rung || step == *rung && !is_stop(state));
        all.extend([(index, 0.0), (index, here)]);
        continued.extend([(index, 0.0), (index, further)]);
        names.push((index, rung.to_string()));
    }
    let last = whole(steps.len() as u64);
    let most = whole(reached.len() as u64).max(1.0);
    Figure {
        title: one_line(&format!("{}: trials by rung", spec.name)),
        x: Axis {
            ends: Some((-0.6, (last - 0.4).max(0.6))),
            names,
            ..Axis::linear().labelled(spec.step.as_str())
        },
        y: Axis { ends: Some((0.0, most)), ..Axis::whole().labelled("trials") },
        cells: None,
        series: present(vec![
            series("reached the step", all, Mark::Bars, SeriesRole::Behind),
            series("continued or completed", continued, Mark::Bars, SeriesRole::Compared(0)),
        ]),
        empty: "no trial has been stopped, paused or completed yet",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::time::Timestamp;

    #[test]
    fn each_rung_counts_who_reached_it_and_who_went_on() {
        let space = Space::new(Vec::new()).unwrap();
        let spec = StudySpec::new("digits", "loss", Direction::Minimize, space, Program::Inline);
        let states = [
            (TrialState::Pruned, Some(1)),
            (TrialState::Pruned, Some(1)),
            (TrialState::Pruned, Some(3)),
            (TrialState::Complete, Some(9)),
            (TrialState::Paused, Some(3)),
            // It has passed the first two rungs.
            (TrialState::Running, Some(4)),
            (TrialState::Failed, Some(2)),
            (TrialState::Queued, None),
        ];
        let outcomes: Vec<TrialSummary> = (0_u64..)
            .zip(states)
            .map(|(number, (state, last_step))| TrialSummary {
                values: Vec::new(),
                violation: None,
                hidden: false,
                number: TrialNumber(number),
                state,
                value: None,
                last_step,
                last_value: None,
                params: Params::new(),
                seconds: 1.0,
                created: Timestamp(0),
                finished: None,
            })
            .collect();
        let figure = rungs(&spec, &outcomes, &BTreeMap::new());
        let heights = |index: usize| -> Vec<f64> {
            figure.series[index].points.chunks(2).map(|bar| bar[1].1).collect()
        };
        let names: Vec<&str> = figure.x.names.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["1", "3", "9"]);
        assert_eq!(heights(0), [6.0, 4.0, 1.0], "reached");
        assert_eq!(heights(1), [4.0, 2.0, 1.0], "went on");
        assert!(rungs(&spec, &[], &BTreeMap::new()).ranges().is_none());
        // The third was told to stop at step 2, and reported once more; the fourth has been paused.
        let fates = BTreeMap::from([
            (TrialNumber(2), vec![(2, Fate::Stopped)]),
            (TrialNumber(3), vec![(1, Fate::Continued), (5, Fate::Resumed)]),
        ]);
        let figure = rungs(&spec, &outcomes, &fates);
        let names: Vec<&str> = figure.x.names.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["1", "2", "3", "5", "9"]);
        assert_eq!(figure.series[0].points[3].1, 4.0, "reached step 2");
        assert_eq!(figure.series[1].points[3].1, 3.0, "went on from it");
        assert_eq!(figure.series[1].points[7].1, 1.0, "went on after the pause");
    }
}
