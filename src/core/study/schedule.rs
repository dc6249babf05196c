//! Schedules: the stages of parameters that led to a state of a trial.

use crate::study::params::Params;
use crate::study::trial::{Trial, TrialNumber};

/// A stage of a schedule: some steps with the same parameters and seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The trial whose seed it has.
    pub trial: TrialNumber,
    /// Step at which it starts; 0 without a checkpoint.
    pub start: u64,
    /// Its last step.
    pub end: u64,
    /// Its parameters.
    pub params: Params,
    /// The digest of the checkpoint that it starts from, if known.
    pub digest: Option<String>,
}

/// The schedule that led to a trial's state at step `end`: the stages of its ancestors, oldest
/// first. One stage where it never took over another's checkpoint. `find` returns trials by number.
pub fn schedule<'a>(
    find: impl Fn(TrialNumber) -> Option<&'a Trial>,
    number: TrialNumber,
    end: u64,
) -> Vec<Stage> {
    let mut stages = Vec::new();
    let mut next = find(number).map(|trial| (trial, end));
    while let Some((trial, end)) = next {
        // The first segment, which has no entry, begins at 0.
        let count = trial.segments.partition_point(|segment| segment.start < end);
        let segment = count.checked_sub(1).and_then(|index| trial.segments.get(index));
        stages.push(Stage {
            trial: trial.number,
            start: segment.map_or(0, |segment| segment.start),
            end,
            params: trial.params_at(end).clone(),
            digest: segment.and_then(|segment| segment.digest.clone()),
        });
        // Steps fall from stage to stage, so that this ends.
        next = segment.and_then(|segment| Some((find(segment.from)?, segment.start)));
    }
    stages.reverse();
    stages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::decision::Reason;
    use crate::study::params::Value;
    use crate::study::segment::Segment;
    use crate::study::time::Timestamp;
    use crate::study::trial::Origin;

    fn params(x: i64) -> Params {
        [("x".to_owned(), Value::Int(x))].into_iter().collect()
    }

    fn trial(number: u64, x: i64, segments: &[(u64, u64, i64)]) -> Trial {
        let segment = |(start, from, before): &(u64, u64, i64)| Segment {
            start: *start,
            from: TrialNumber(*from),
            digest: Some(format!("{from}@{start}")),
            replaced: params(*before),
            reason: Reason::Recorded("why".to_owned()),
        };
        let segments = segments.iter().map(segment).collect();
        let number = TrialNumber(number);
        Trial { segments, ..Trial::new(number, params(x), Origin::Asked, Timestamp(0)) }
    }

    fn stages(trials: &[Trial], number: u64, end: u64) -> Vec<(u64, u64, u64, Params)> {
        let find = |number: TrialNumber| trials.get(number.index());
        let stage = |stage: Stage| (stage.trial.0, stage.start, stage.end, stage.params);
        schedule(find, TrialNumber(number), end).into_iter().map(stage).collect()
    }

    #[test]
    fn a_schedule_follows_checkpoints_back_to_the_start() {
        // Trial 0 took over trial 1's state at 4, after trial 1 took over trial 2's at 2; trial 1
        // was then replaced by trial 0 at the same step 4 at which it was copied.
        let trials =
            [trial(0, 1, &[(4, 1, 0)]), trial(1, 12, &[(2, 2, 10), (4, 2, 11)]), trial(2, 20, &[])];
        let of_0 = [(2, 0, 2, params(20)), (1, 2, 4, params(11)), (0, 4, 9, params(1))];
        assert_eq!(stages(&trials, 0, 9), of_0);
        assert_eq!(stages(&trials, 0, 4), [(0, 0, 4, params(0))], "before it took over");
        assert_eq!(stages(&trials, 2, 9), [(2, 0, 9, params(20))]);
        assert_eq!(stages(&trials, 1, 5).last(), Some(&(1, 4, 5, params(12))));
        assert_eq!(stages(&trials, 7, 5), []);
    }
}
