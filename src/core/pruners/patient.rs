//! The patience rule: stops a trial whose reports have got worse for a while, if a second rule
//! agrees.

use super::percentile::PercentileRule;
use super::wilcoxon::WilcoxonRule;
use super::{Case, Pruner, PrunerEntry};
use crate::study::decision::{Comparison, Decision, Reason};
use crate::study::field::{Field, FieldDefault, FieldKind, NATURAL, NOT_NEGATIVE, field};
use crate::study::metric::Number;
use crate::study::spec::{AlgorithmSpec, Milestones};

const PATIENCE: Field = field(
    "patience",
    NATURAL,
    FieldDefault::Int(5),
    "reports that may be worse than the best before them; one more and the trial stops",
);

const MIN_DELTA: Field = field(
    "min_delta",
    NOT_NEGATIVE,
    FieldDefault::Float(0.0),
    "how much worse than the best a report may be and still count as equal",
);

const WRAPPED: Field = field(
    "wrapped",
    FieldKind::Choice(&["none", "median", "percentile", "wilcoxon"]),
    FieldDefault::Text("none"),
    "a second pruner, with its defaults, that must agree",
);

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "patient",
    aliases: &[],
    summary: "stops a trial whose last reports are all worse than its best before them",
    version: 1,
    oldest: 1,
    options: &[PATIENCE, MIN_DELTA, WRAPPED],
    several: false,
    build: |spec, _| Ok(Box::new(PatientRule::new(spec))),
};

/// Optuna's `PatientPruner`: the best of the last `patience + 1` reports against the best before
/// them. Equal is not worse: a trial on a plateau continues.
///
/// Unlike in Optuna, NaN counts as worst instead of being ignored, so that `patience + 1` NaN at
/// the end stop a trial.
pub struct PatientRule {
    patience: u64,
    min_delta: f64,
    wrapped: Option<Box<dyn Pruner>>,
}

impl PatientRule {
    /// From checked options.
    pub fn new(spec: &AlgorithmSpec) -> Self {
        let wrapped: Option<Box<dyn Pruner>> = match WRAPPED.of::<String>(spec).as_str() {
            name @ "median" => Some(Box::new(PercentileRule::median(&AlgorithmSpec::named(name)))),
            name @ "percentile" => Some(Box::new(PercentileRule::new(&AlgorithmSpec::named(name)))),
            name @ "wilcoxon" => Some(Box::new(WilcoxonRule::new(&AlgorithmSpec::named(name)))),
            _ => None,
        };
        PatientRule {
            patience: PATIENCE.of(spec),
            min_delta: MIN_DELTA.of::<f64>(spec).max(0.0),
            wrapped,
        }
    }
}

impl Pruner for PatientRule {
    fn judge(&self, case: &Case<'_>) -> Decision {
        let Case { history, trial, step, .. } = *case;
        let reports = &trial.curve[..trial.curve.partition_point(|(at, _)| *at <= step)];
        let last = usize::try_from(self.patience).unwrap_or(usize::MAX).saturating_add(1);
        let Some(before) = reports.len().checked_sub(last).filter(|before| *before > 0) else {
            return Decision::CONTINUE;
        };
        let best =
            |reports: &[(u64, f64)]| reports.iter().map(|(_, value)| history.score(*value)).min();
        let Some((best_before, best_since)) =
            best(&reports[..before]).zip(best(&reports[before..]))
        else {
            return Decision::CONTINUE;
        };
        let border = history.score(history.direction().loss(best_before.loss() + self.min_delta));
        let comparison = if best_since.loss().is_nan() {
            Comparison::Worse
        } else {
            Comparison::of(best_since, border)
        };
        let reason = |wrapped: Option<Reason>| Reason::Patience {
            best: history.value(best_since),
            reports: last as u64,
            before: history.value(best_before),
            min_delta: Number(self.min_delta),
            at: history.step_unit().at(step),
            comparison,
            wrapped: wrapped.map(Box::new),
        };
        if comparison == Comparison::NotWorse {
            return Decision::continues(reason(None));
        }
        match self.wrapped.as_ref().map(|wrapped| wrapped.judge(case)) {
            None => Decision::Stop(reason(None)),
            Some(Decision::Stop(second)) => Decision::Stop(reason(Some(second))),
            Some(mild) => mild,
        }
    }

    fn milestones(&self, budget: Option<u64>) -> Milestones {
        self.wrapped.as_ref().map_or(Milestones { every: Some(1), at: Vec::new() }, |wrapped| {
            wrapped.milestones(budget)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pruners::conformance::{self, trial};
    use crate::study::metric::Direction::{self, Maximize, Minimize};
    use crate::study::trial::{Trial, TrialState};

    fn judge(
        spec: &AlgorithmSpec,
        others: &[f64],
        values: &[f64],
        direction: Direction,
    ) -> Decision {
        let curve: Vec<(u64, f64)> = (1..).zip(values.iter().copied()).collect();
        let constant = |(number, value): (u64, &f64)| {
            let curve: Vec<(u64, f64)> = (1..=10).map(|step| (step, *value)).collect();
            trial(number, TrialState::Complete, &curve)
        };
        let others: Vec<Trial> = (0..).zip(others).map(constant).collect();
        let (rule, step) = (PatientRule::new(spec), values.len() as u64);
        conformance::judge(&rule, &others, &curve, step, direction)
    }

    fn patience(patience: u64) -> AlgorithmSpec {
        ENTRY.defaults().with("patience", patience)
    }

    #[test]
    fn every_wrapped_rule_holds_the_contract() {
        for wrapped in ["median", "percentile", "wilcoxon"] {
            assert_eq!(conformance::check(&ENTRY, &patience(1).with("wrapped", wrapped)), Ok(()));
        }
    }

    #[test]
    fn one_report_more_than_the_patience_must_be_worse_than_the_best_before() {
        let (nan, delta) = (f64::NAN, patience(0).with("min_delta", 0.5));
        let cases: [(_, &[f64], _, _); 11] = [
            (patience(1), &[1.0, 2.0], Minimize, "continue"),
            (patience(1), &[1.0, 2.0, 1.0], Minimize, "continue"),
            (patience(1), &[2.0, 1.0, 2.0], Minimize, "continue"),
            (patience(1), &[1.0, 3.0, 2.0], Maximize, "continue"),
            (patience(0), &[3.0, 2.0], Maximize, "stop"),
            // A difference up to `min_delta` does not count.
            (delta.clone(), &[1.0, 1.5], Minimize, "continue"),
            (delta.clone(), &[1.0, 1.75], Minimize, "stop"),
            (delta, &[1.0, 0.25], Maximize, "stop"),
            // NaN is worse than anything before it.
            (patience(1), &[9.0, nan, nan], Minimize, "stop"),
            (patience(1), &[nan, nan, 9.0], Minimize, "continue"),
            (patience(1), &[1.0, 3.0, 2.0], Minimize, "stop"),
        ];
        for (spec, values, direction, word) in cases {
            let decision = judge(&spec, &[], values, direction);
            assert_eq!(decision.word(), word, "{values:?}, {direction:?}: {decision:?}");
        }
        assert_eq!(
            judge(&patience(1), &[], &[1.0, 3.0, 2.0], Minimize).in_words(),
            "stop: the best value 2 of the last 2 reports up to step 3 is worse than 1 before them"
        );
    }

    #[test]
    fn the_wrapped_rule_must_agree() {
        let spec = patience(0).with("wrapped", "median");
        assert_eq!(judge(&spec, &[5.0; 5], &[1.0, 2.0], Minimize).word(), "continue");
        let stopped = judge(&spec, &[0.5; 5], &[1.0, 2.0], Minimize);
        assert!(stopped.in_words().ends_with(
            "before it, and best value 1 is worse than the \
            median 0.5 of 5 completed trials at step 2"
        ));
        assert_eq!(judge(&spec, &[0.5; 5], &[1.0, 1.0], Minimize).word(), "continue");
    }
}
