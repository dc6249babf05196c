//! Compares finished trials with limits that changed after them.

use super::StudyState;
use crate::study::constraint::{self, Constraint};
use crate::study::event::{DecisionEvent, Event};
use crate::study::spec::StudySpec;
use crate::study::trial::{Origin, Trial, TrialState};

impl StudyState {
    /// What changes for the complete trials of this study if it continues as `spec`, whose limits
    /// may be others. Imported trials keep what their source says of them.
    pub fn judged_again(&self, spec: &StudySpec) -> Vec<Event> {
        if limits(&self.constraints).eq(limits(&spec.constraints)) {
            return Vec::new();
        }
        let is_judged = |trial: &&Trial| {
            trial.state == TrialState::Complete && !matches!(trial.origin, Origin::Imported(_))
        };
        let judged = self.trials.iter().filter(is_judged).filter_map(|trial| {
            let event = judged(spec, trial);
            let is_same = matches!(
                &event,
                DecisionEvent::LimitsJudged { violation, reason }
                    if (violation, reason) == (&trial.violation, &trial.reason)
            );
            (!is_same).then(|| Event::of(trial.number, event))
        });
        judged.collect()
    }
}

/// A complete trial's verdict under the limits of `spec`.
pub fn judged(spec: &StudySpec, trial: &Trial) -> DecisionEvent {
    let rule = spec.last_metrics;
    match constraint::broken_limits(&spec.constraints, &trial.last_metrics, rule) {
        Some((violation, reason)) => {
            DecisionEvent::LimitsJudged { violation: Some(violation), reason: Some(reason) }
        }
        // The reason of a trial that violated limits is that it did.
        None => {
            let reason = trial.reason.clone().filter(|_| trial.violation.is_none());
            DecisionEvent::LimitsJudged { violation: None, reason }
        }
    }
}

fn limits(constraints: &[Constraint]) -> impl Iterator<Item = &str> {
    constraints.iter().filter_map(|constraint| Some(constraint.limit()?.text()))
}
