//! Schedules and family trees of populations in words.

use super::wording::{one_line, param};
use crate::study::params::Params;
use crate::study::schedule::Stage;
use crate::study::step::StepUnit;
use crate::study::trial::{Trial, TrialNumber};

/// The stages of a schedule, one line each: `epochs 0 to 4, trial 3: rate=0.1`.
pub fn stage_lines(step_unit: StepUnit, stages: &[Stage]) -> Vec<String> {
    let line = |stage: &Stage| {
        let Stage { trial, start, end, params, .. } = stage;
        format!("{} {start} to {end}, trial {trial}: {}", step_unit.plural(), assigned(params))
    };
    stages.iter().map(|stage| one_line(&line(stage))).collect()
}

/// Where a trial continued from others, one line each, without the others' parameters.
pub fn segment_lines(step_unit: StepUnit, trial: &Trial) -> Vec<String> {
    let next = trial.segments.iter().skip(1).map(|segment| &segment.replaced);
    let params = next.chain([&trial.params]);
    let lines = trial.segments.iter().zip(params).map(|(segment, params)| {
        let at = step_unit.at(segment.start);
        one_line(&format!("from trial {} at {at}: {}", segment.from, assigned(params)))
    });
    lines.collect()
}

fn assigned(params: &Params) -> String {
    let words: Vec<String> =
        params.iter().map(|(name, value)| format!("{name}={}", param(value))).collect();
    words.join(" ")
}

/// The family tree of a population: every state that was copied, below the one that it came from.
/// `marked` is the trial whose path is marked with `*`.
///
/// ```text
/// trial 0 from the start
/// trial 2 from the start *
///   trial 1 from epoch 3 *
///     trial 0 from epoch 6
/// ```
pub fn family_tree(step_unit: StepUnit, trials: &[Trial], marked: &[Stage]) -> Vec<String> {
    let mut lines = Vec::new();
    for trial in trials {
        branch(step_unit, trials, marked, (trial.number, 0, 0), &mut lines);
    }
    lines
}

/// Adds a branch: a trial's state from `start` on, and what was copied from it.
fn branch(
    step_unit: StepUnit,
    trials: &[Trial],
    marked: &[Stage],
    (number, start, depth): (TrialNumber, u64, usize),
    lines: &mut Vec<String>,
) {
    let is_marked = marked.iter().any(|stage| (stage.trial, stage.start) == (number, start));
    let from = step_unit.resume_point((start > 0).then_some(start));
    let mark = if is_marked { " *" } else { "" };
    lines.push(format!("{:depth$}trial {number} from {from}{mark}", "", depth = 2 * depth));
    let own = trials.iter().find(|trial| trial.number == number);
    let left = own.into_iter().flat_map(|own| &own.segments).map(|segment| segment.start);
    let end = left.filter(|left| *left > start).min();
    for trial in trials {
        for segment in &trial.segments {
            // At the step at which it was replaced itself, its state is still its own.
            let is_within = segment.start > start && end.is_none_or(|end| segment.start <= end);
            if segment.from == number && is_within {
                let below = (trial.number, segment.start, depth + 1);
                branch(step_unit, trials, marked, below, lines);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::decision::Reason;
    use crate::study::params::Value;
    use crate::study::schedule::schedule;
    use crate::study::segment::Segment;
    use crate::study::time::Timestamp;
    use crate::study::trial::Origin;

    fn trial(number: u64, segments: &[(u64, u64)]) -> Trial {
        let params = |x: u64| [("x".to_owned(), Value::Float(x as f64))].into_iter().collect();
        let segment = |(index, (start, from)): (u64, &(u64, u64))| Segment {
            start: *start,
            from: TrialNumber(*from),
            digest: None,
            replaced: params(10 * number + index),
            reason: Reason::Recorded(String::new()),
        };
        let present = params(10 * number + segments.len() as u64);
        let trial = Trial::new(TrialNumber(number), present, Origin::Asked, Timestamp(0));
        Trial { segments: (0..).zip(segments).map(segment).collect(), ..trial }
    }

    #[test]
    fn a_tree_has_every_copy_below_the_state_that_was_copied() {
        let trials = [trial(0, &[(6, 1)]), trial(1, &[(3, 2), (6, 2)]), trial(2, &[])];
        let stages = schedule(|number| trials.get(number.index()), TrialNumber(0), 9);
        assert_eq!(
            stage_lines(StepUnit::Epoch, &stages),
            [
                "epochs 0 to 3, trial 2: x=20",
                "epochs 3 to 6, trial 1: x=11",
                "epochs 6 to 9, trial 0: x=1"
            ]
        );
        assert_eq!(
            family_tree(StepUnit::Epoch, &trials, &stages),
            [
                "trial 0 from the start",
                "trial 1 from the start",
                "trial 2 from the start *",
                "  trial 1 from epoch 3 *",
                "    trial 0 from epoch 6 *",
                "  trial 1 from epoch 6",
            ]
        );
        assert_eq!(
            segment_lines(StepUnit::Epoch, &trials[1]),
            ["from trial 2 at epoch 3: x=11", "from trial 2 at epoch 6: x=12"]
        );
    }
}
