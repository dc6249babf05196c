//! Conformance suite of samplers: each implementation runs it (each line of `SAMPLERS` does).

use std::collections::BTreeSet;

use super::{Ask, Sampler, SamplerEntry};
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::params::{Params, Value};
use crate::study::registry::RegistryError;
use crate::study::seed::SeedTree;
use crate::study::space::{Condition, Dimension, Distribution, Scale, Space};
use crate::study::spec::AlgorithmSpec;
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

/// Runs the suite with the options of `spec` (`entry.defaults()` for none). The error describes the
/// first violation.
///
/// - A configuration passes [`Space::check`], on every kind of axis and with two levels of
///   conditions.
/// - Equal arguments give equal configurations; other numbers (with their streams) give others,
///   unless the sampler enumerates the space.
/// - Histories of NaN, infinities, equal values, failed, pruned, paused and running trials do no
///   harm.
/// - So do histories of two and three objectives, if the sampler serves several: also infeasible
///   trials, and paused ones without the first objective.
/// - Fixed values are kept where they are active and valid, and ignored elsewhere.
/// - A sampler that enumerates proposes each point of a finite space exactly once, also when some
///   are lost and asked for again.
pub fn check(entry: &SamplerEntry, spec: &AlgorithmSpec) -> Result<(), String> {
    for (name, space) in spaces() {
        let sampler = match (entry.build)(spec, &space) {
            Ok(sampler) => sampler,
            Err(RegistryError::Unsuitable { .. }) => continue,
            Err(error) => return Err(format!("{name}: {error}")),
        };
        let suite = Suite { entry, name, space: &space, sampler: sampler.as_ref() };
        suite.points_are_valid_and_repeatable()?;
        suite.any_history_is_survived()?;
        if entry.several {
            suite.any_history_of_several_objectives_is_survived()?;
        }
        suite.fixed_values_are_kept()?;
        if sampler.exhausts() && space.cardinality().is_some_and(|cells| cells <= 100) {
            suite.each_point_comes_once()?;
        }
    }
    Ok(())
}

struct Suite<'a> {
    entry: &'a SamplerEntry,
    name: &'static str,
    space: &'a Space,
    sampler: &'a dyn Sampler,
}

impl Suite<'_> {
    fn points_are_valid_and_repeatable(&self) -> Result<(), String> {
        let mut trials = Vec::new();
        let mut points = BTreeSet::new();
        for number in 0..24 {
            let Some(point) = self.suggest(&trials, number, &Params::new())? else { break };
            if self.suggest(&trials, number, &Params::new())?.as_ref() != Some(&point) {
                return self.fails(format!("asked twice for trial {number}, it gave two answers"));
            }
            points.insert(point.fingerprint());
            trials.push(trial_of(number, point, TrialState::Complete, Some(score_of(number))));
        }
        if self.space.cardinality().is_none() && points.len() * 2 < trials.len() {
            return self.fails(format!(
                "{} trials gave only {} different points",
                trials.len(),
                points.len()
            ));
        }
        Ok(())
    }

    fn any_history_is_survived(&self) -> Result<(), String> {
        for kind in HistoryKind::ALL {
            // One long history is enough: a kind's effect shows in a few trials.
            let lengths: &[u64] =
                if matches!(kind, HistoryKind::Mixed) { &[1, 12, 300] } else { &[1, 12, 40] };
            for length in lengths.iter().copied() {
                let trials = self.history(kind, length);
                let first = self.suggest(&trials, length, &Params::new())?;
                // A long history is slow, too.
                if length < 300 && first != self.suggest(&trials, length, &Params::new())? {
                    return self.fails(format!(
                        "after {length} trials ({kind:?}), the same question had two answers"
                    ));
                }
                self.suggest(&trials, length + 1, &Params::new())?;
            }
        }
        Ok(())
    }

    fn any_history_of_several_objectives_is_survived(&self) -> Result<(), String> {
        for objectives in [2, 3] {
            for kind in HistoryKind::ALL {
                let lengths: &[u64] =
                    if matches!(kind, HistoryKind::Mixed) { &[1, 60] } else { &[1, 25] };
                for length in lengths.iter().copied() {
                    let trials = self.history(kind, length).into_iter();
                    let trials: Vec<Trial> =
                        trials.map(|trial| with_objectives(trial, objectives)).collect();
                    let history = History::of_several(&trials, &DIRECTIONS[..objectives]);
                    let ask = |number| self.answer(history, number, &Params::new());
                    if ask(length)? != ask(length)? {
                        return self.fails(format!(
                            "after {length} trials ({kind:?}) of {objectives} objectives, the \
                            same question had two answers"
                        ));
                    }
                    ask(length + 1)?;
                }
            }
        }
        Ok(())
    }

    /// Random points with outcomes of `kind`.
    fn history(&self, kind: HistoryKind, length: u64) -> Vec<Trial> {
        let seeds = SeedTree::new(11);
        let trial = |number| {
            let mut rng = seeds.stream(&format!("sampler/{number}"));
            let history = History::of(&[], Direction::Minimize);
            let ask = Ask::new(self.space, history, TrialNumber(number), seeds);
            kind.trial(number, super::random::point(&ask, &mut rng))
        };
        (0..length).map(trial).collect()
    }

    fn fixed_values_are_kept(&self) -> Result<(), String> {
        let trials = self.history(HistoryKind::Mixed, 30);
        let Some(given) = trials.last().map(|trial| trial.params.clone()) else { return Ok(()) };
        for (name, value) in given.iter() {
            let mut fixed = Params::new();
            fixed.insert(name, value.clone());
            fixed.insert("no such parameter", 1.0);
            let Some(point) = self.suggest(&trials, 30, &fixed)? else {
                return self.fails(format!("with `{name}` fixed it is exhausted"));
            };
            if let Some(kept) = point.get(name).filter(|kept| !kept.same(value)) {
                return self.fails(format!("`{name}` was fixed at `{value}`, and is `{kept}`"));
            }
        }
        if !given.is_empty() && self.suggest(&trials, 30, &given)?.as_ref() != Some(&given) {
            return self.fails("a point that was fixed as a whole was changed".to_owned());
        }
        let outside: Params = self
            .space
            .dimensions()
            .iter()
            .map(|dimension| (dimension.name.clone(), Value::from("no value of anything")))
            .collect();
        self.suggest(&[], 0, &outside).map(|_| ())
    }

    /// Asks for four at a time; every third is lost and asked for again.
    fn each_point_comes_once(&self) -> Result<(), String> {
        let cells = self.space.cardinality().unwrap_or(0);
        let mut trials: Vec<Trial> = Vec::new();
        let mut lost = 0;
        loop {
            let number = trials.len() as u64;
            let Some(point) = self.suggest(&trials, number, &Params::new())? else { break };
            if number % 3 == 2 && lost < number {
                lost = number;
                if self.suggest(&trials, number, &Params::new())?.as_ref() != Some(&point) {
                    return self.fails(format!(
                        "trial {number} was lost, and asked for again it is another"
                    ));
                }
            }
            if trials.iter().any(|trial| trial.params == point) {
                return self.fails(format!("`{point}` came twice"));
            }
            let state = TrialState::ALL[trials.len() % TrialState::ALL.len()];
            let value = (state == TrialState::Complete).then_some(1.0);
            trials.push(trial_of(number, point, state, value));
        }
        if trials.len() as u64 == cells {
            Ok(())
        } else {
            self.fails(format!("{} points of {cells} came", trials.len()))
        }
    }

    fn suggest(
        &self,
        trials: &[Trial],
        number: u64,
        fixed: &Params,
    ) -> Result<Option<Params>, String> {
        self.answer(History::of(trials, Direction::Minimize), number, fixed)
    }

    fn answer(
        &self,
        history: History<'_>,
        number: u64,
        fixed: &Params,
    ) -> Result<Option<Params>, String> {
        let seeds = SeedTree::new(1);
        let ask = Ask { fixed, ..Ask::new(self.space, history, TrialNumber(number), seeds) };
        let mut rng = seeds.stream(&format!("sampler/{number}"));
        let answer = self.sampler.suggest(&ask, &mut rng);
        let answer = answer.or_else(|error| self.fails(error.to_string()))?;
        let answer = answer.map(|proposal| proposal.params);
        match answer.as_ref().map_or(Ok(()), |point| self.space.check(point)) {
            Ok(()) => Ok(answer),
            Err(error) => self.fails(format!("trial {number} is no point of the space: {error}")),
        }
    }

    fn fails<T>(&self, what: String) -> Result<T, String> {
        Err(format!("sampler `{}` in the space `{}`: {what}", self.entry.name, self.name))
    }
}

/// The outcomes of a history's trials.
#[derive(Clone, Copy, Debug)]
enum HistoryKind {
    Complete,
    NotANumber,
    Infinite,
    Equal,
    Failed,
    Pruned,
    Running,
    Mixed,
}

impl HistoryKind {
    const ALL: [HistoryKind; 8] = [
        Self::Complete,
        Self::NotANumber,
        Self::Infinite,
        Self::Equal,
        Self::Failed,
        Self::Pruned,
        Self::Running,
        Self::Mixed,
    ];

    fn trial(self, number: u64, point: Params) -> Trial {
        let is_even = number.is_multiple_of(2);
        let (state, value) = match self {
            Self::Complete => (TrialState::Complete, Some(score_of(number))),
            Self::NotANumber => (TrialState::Complete, Some(f64::NAN)),
            Self::Infinite if is_even => (TrialState::Complete, Some(f64::INFINITY)),
            Self::Infinite => (TrialState::Complete, Some(f64::NEG_INFINITY)),
            Self::Equal => (TrialState::Complete, Some(1.0)),
            Self::Failed => (TrialState::Failed, None),
            Self::Pruned => {
                let value = if number.is_multiple_of(3) { f64::NAN } else { score_of(number) };
                let curve = vec![(number % 5, value)];
                return Trial { curve, ..trial_of(number, point, TrialState::Pruned, None) };
            }
            Self::Running => (TrialState::ALL[usize::from(is_even)], None),
            // Cycles through the other seven: this one is the last of the list.
            Self::Mixed => {
                return Self::ALL[usize::try_from(number % 7).unwrap_or(0)].trial(number, point);
            }
        };
        trial_of(number, point, state, value)
    }
}

const DIRECTIONS: [Direction; 3] = [Direction::Minimize, Direction::Maximize, Direction::Minimize];

/// The same trial in a study of several objectives: the first is the trial's value, the others
/// follow other sequences. Every fifth complete trial is infeasible, and every third unfinished one
/// is paused with a report that lacks the first objective.
fn with_objectives(mut trial: Trial, objectives: usize) -> Trial {
    let number = trial.number.0;
    let values = |first: f64| -> Vec<f64> {
        let others =
            (1..).map(|k: u64| if first.is_finite() { score_of(number * (k + 6)) } else { -first });
        std::iter::once(first).chain(others).take(objectives).collect()
    };
    if let Some(value) = trial.value.take() {
        trial.values = values(value);
        trial.violation = (number % 5 == 4).then(|| score_of(number));
    }
    trial.vectors = trial
        .curve
        .iter()
        .map(|(step, value)| (*step, values(*value).into_iter().map(Some).collect()))
        .collect();
    if trial.state == TrialState::Running && number.is_multiple_of(3) {
        trial.state = TrialState::Paused;
        let known = values(0.5).into_iter().enumerate();
        trial.vectors = vec![(1, known.map(|(k, value)| (k > 0).then_some(value)).collect())];
    }
    trial
}

/// A pseudo-random value.
#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn score_of(number: u64) -> f64 {
    ((number * 7919) % 101) as f64 / 101.0
}

/// A dimension that is active when each parent has one of the values.
pub fn dimension(name: &str, distribution: Distribution, when: &[(&str, Vec<Value>)]) -> Dimension {
    let when = when.iter().map(|(parent, values)| ((*parent).to_owned(), values.clone())).collect();
    let when = Some(Condition(when)).filter(|condition| !condition.0.is_empty());
    Dimension { name: name.to_owned(), distribution, prior: None, when }
}

/// A real number on a linear axis.
pub fn float(name: &str, low: f64, high: f64) -> Dimension {
    stepped(name, low, high, None)
}

/// A real number on a logarithmic axis.
pub fn log_float(name: &str, low: f64, high: f64) -> Dimension {
    let axis = Distribution::float(low, high, Scale::Log, None);
    dimension(name, axis.expect("a valid range"), &[])
}

/// A real number on a linear axis, in steps if given.
pub fn stepped(name: &str, low: f64, high: f64, step: impl Into<Option<f64>>) -> Dimension {
    let axis = Distribution::float(low, high, Scale::Linear, step.into());
    dimension(name, axis.expect("a valid range"), &[])
}

/// An integer on a linear axis.
pub fn int(name: &str, low: i64, high: i64) -> Dimension {
    every(name, low, high, 1)
}

/// An integer on a linear axis, in steps.
pub fn every(name: &str, low: i64, high: i64, step: i64) -> Dimension {
    let axis = Distribution::int(low, high, Scale::Linear, step);
    dimension(name, axis.expect("a valid range"), &[])
}

/// An integer on a logarithmic axis.
pub fn log_int(name: &str, low: i64, high: i64) -> Dimension {
    let axis = Distribution::int(low, high, Scale::Log, 1);
    dimension(name, axis.expect("a valid range"), &[])
}

/// One of several values.
pub fn choice<V: Into<Value>>(name: &str, choices: impl IntoIterator<Item = V>) -> Dimension {
    let choices = Distribution::choice(choices.into_iter().map(Into::into).collect());
    dimension(name, choices.expect("different values"), &[])
}

/// The same dimension, active where `parent` has this value.
pub fn under(parent: &str, value: impl Into<Value>, child: Dimension) -> Dimension {
    dimension(&child.name, child.distribution, &[(parent, vec![value.into()])])
}

/// A trial without reports.
pub fn trial_of(number: u64, params: Params, state: TrialState, value: Option<f64>) -> Trial {
    let origin = Origin::Sampled("conformance".to_owned());
    let trial = Trial::new(TrialNumber(number), params, origin, Timestamp(0));
    Trial { state, value, attempts: 1, ..trial }
}

/// A space of valid dimensions.
pub fn space(dimensions: impl IntoIterator<Item = Dimension>) -> Space {
    Space::new(dimensions.into_iter().collect()).expect("a valid space")
}

/// Spaces with every kind of axis, by name.
pub fn spaces() -> Vec<(&'static str, Space)> {
    const FAR: i64 = 1 << 52;
    let delay_when = [("nesterov", vec!["yes".into()]), ("optim", vec!["sgd".into()])];
    let kind_when = [("optim", vec!["sgd".into(), "lion".into()])];
    vec![
        ("empty", Space::default()),
        (
            "one point",
            space([
                int("a", 3, 3),
                float("b", 0.5, 0.5),
                log_float("log", 2.0, 2.0),
                choice("word", ["only"]),
            ]),
        ),
        (
            "flat and mixed",
            space([
                log_float("rate", 1e-6, 1.0),
                stepped("dropout", 0.0, 0.5, 0.1),
                int("layers", 1, 8),
                log_int("width", 16, 4096),
                choice("flag", [true, false]),
                float("momentum", -1.0, 1.0),
            ]),
        ),
        (
            "finite, two levels of conditions",
            space([
                choice("optim", ["sgd", "adamw"]),
                under("optim", "sgd", choice("nesterov", ["yes", "no"])),
                dimension("delay", every("delay", 1, 5, 2).distribution, &delay_when),
                int("layers", 1, 3),
            ]),
        ),
        (
            "continuous, two levels of conditions",
            space([
                choice("optim", ["sgd", "adamw", "lion"]),
                under("optim", "sgd", float("momentum", 0.0, 1.0)),
                dimension("kind", choice("kind", ["a", "b"]).distribution, &kind_when),
                under("kind", "b", log_float("depth", 1e-3, 1e3)),
            ]),
        ),
        (
            "extreme ranges",
            space([
                log_float("log", 1e-300, 1e300),
                float("wide", -1e300, 1e300 / 2.0),
                float("narrow", 1.0, 1.0f64.next_up()),
                float("tiny", 0.0, f64::MIN_POSITIVE),
                int("long", -FAR, FAR),
                stepped("steps", 0.0, 1.0, 0.3),
            ]),
        ),
        (
            "extreme steps",
            space([
                stepped("fine", 0.0, 1.0, 1e-13),
                stepped("wide", -1e300, 1e300 / 2.0, 1e288),
                stepped("coarse", 0.0, 1.0, 1e300),
                stepped("still", 1.0, 1.0, 1e-300),
                log_float("deep", 5e-324, 1e-300),
                log_int("huge", 1, FAR),
                every("leap", -FAR, FAR, i64::MAX),
            ]),
        ),
        ("thousands of choices", space([choice("one of many", 0..3000i64), float("x", 0.0, 1.0)])),
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_sampler_of_the_table_holds_the_contract() {
        for entry in super::super::SAMPLERS {
            assert_eq!(super::check(entry, &entry.defaults()), Ok(()));
        }
    }
}
