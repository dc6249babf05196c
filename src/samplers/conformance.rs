//! What every sampler must hold, whatever its method: the suite that an implementor runs (each line
//! of `SAMPLERS` does).

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

/// Runs the suite with the options of `spec` (`entry.defaults()` for none). The error is a sentence
/// about the first thing that does not hold.
///
/// - A point passes [`Space::check`], on every kind of axis and with conditions of two levels.
/// - The same arguments give the same point; other numbers (with their streams) give other points,
///   unless all points are listed one by one.
/// - Histories full of NaN, infinities, equal values, failed, pruned, paused and running trials do
///   no harm.
/// - Fixed values are kept where they are active and valid, and ignored elsewhere.
/// - A sampler that exhausts gives each point of a finite space exactly once, also when some are
///   lost and asked again.
pub fn check(entry: &SamplerEntry, spec: &AlgorithmSpec) -> Result<(), String> {
    for (name, space) in spaces() {
        let sampler = match (entry.build)(spec, &space) {
            Ok(sampler) => sampler,
            Err(RegistryError::Unsuitable { .. }) => continue,
            Err(error) => return Err(format!("{name}: {error}")),
        };
        let capabilities = sampler.capabilities();
        if (space.is_conditional() && !capabilities.conditional)
            || (space.cardinality().is_none() && !capabilities.continuous)
        {
            continue;
        }
        let suite = Suite { entry, name, space: &space, sampler: sampler.as_ref() };
        suite.points_are_valid_and_repeatable()?;
        suite.any_history_is_survived()?;
        suite.fixed_values_are_kept()?;
        if capabilities.exhausts && space.cardinality().is_some_and(|cells| cells <= 100) {
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
            // One long history is enough: what is special about a kind shows in a few trials.
            let lengths: &[u64] =
                if matches!(kind, HistoryKind::Mixed) { &[1, 12, 300] } else { &[1, 12, 40] };
            for length in lengths.iter().copied() {
                let trials = self.history(kind, length)?;
                let first = self.suggest(&trials, length, &Params::new())?;
                // A long history takes long, too.
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

    /// Random points with outcomes of `kind`.
    fn history(&self, kind: HistoryKind, length: u64) -> Result<Vec<Trial>, String> {
        let random = super::random::Random;
        let mut trials = Vec::new();
        for number in 0..length {
            let ask = Ask {
                room: None,
                constraints: &[],
                earlier: &[],
                space: self.space,
                history: History::of(&[], Direction::Minimize),
                number: TrialNumber(number),
                fixed: &Params::new(),
                budget: None,
                seeds: SeedTree::new(11),
            };
            let mut rng = SeedTree::new(11).stream(&format!("sampler/{number}"));
            let point = random
                .suggest(&ask, &mut rng)
                .map_err(|error| error.to_string())?
                .unwrap_or_default();
            trials.push(kind.trial(number, point));
        }
        Ok(trials)
    }

    fn fixed_values_are_kept(&self) -> Result<(), String> {
        let trials = self.history(HistoryKind::Mixed, 30)?;
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

    /// Four at a time; every third is lost, forgotten, and asked for again.
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
            trials.push(trial_of(
                number,
                point,
                state,
                (state == TrialState::Complete).then_some(1.0),
            ));
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
        let ask = Ask {
            room: None,
            constraints: &[],
            earlier: &[],
            space: self.space,
            history: History::of(trials, Direction::Minimize),
            number: TrialNumber(number),
            fixed,
            budget: None,
            seeds: SeedTree::new(1),
        };
        let mut rng = SeedTree::new(1).stream(&format!("sampler/{number}"));
        let answer =
            self.sampler.suggest(&ask, &mut rng).or_else(|error| self.fails(error.to_string()))?;
        match answer.as_ref().map(|point| self.space.check(point)) {
            Some(Err(error)) => {
                self.fails(format!("trial {number} is no point of the space: {error}"))
            }
            _ => Ok(answer),
        }
    }

    fn fails<T>(&self, what: String) -> Result<T, String> {
        Err(format!("sampler `{}` in the space `{}`: {what}", self.entry.name, self.name))
    }
}

/// What became of a history's trials.
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
        HistoryKind::Complete,
        HistoryKind::NotANumber,
        HistoryKind::Infinite,
        HistoryKind::Equal,
        HistoryKind::Failed,
        HistoryKind::Pruned,
        HistoryKind::Running,
        HistoryKind::Mixed,
    ];

    fn trial(self, number: u64, point: Params) -> Trial {
        match self {
            HistoryKind::Complete => {
                trial_of(number, point, TrialState::Complete, Some(score_of(number)))
            }
            HistoryKind::NotANumber => {
                trial_of(number, point, TrialState::Complete, Some(f64::NAN))
            }
            HistoryKind::Infinite => {
                let value =
                    if number.is_multiple_of(2) { f64::INFINITY } else { f64::NEG_INFINITY };
                trial_of(number, point, TrialState::Complete, Some(value))
            }
            HistoryKind::Equal => trial_of(number, point, TrialState::Complete, Some(1.0)),
            HistoryKind::Failed => trial_of(number, point, TrialState::Failed, None),
            HistoryKind::Pruned => {
                let value = if number.is_multiple_of(3) { f64::NAN } else { score_of(number) };
                Trial {
                    curve: vec![(number % 5, value)],
                    ..trial_of(number, point, TrialState::Pruned, None)
                }
            }
            HistoryKind::Running => trial_of(
                number,
                point,
                TrialState::ALL[usize::from(number.is_multiple_of(2))],
                None,
            ),
            // The other seven in turn: this one is the last of the list.
            HistoryKind::Mixed => {
                Self::ALL[usize::try_from(number % 7).unwrap_or(0)].trial(number, point)
            }
        }
    }
}

/// A value that jumps about with the trial's number.
#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn score_of(number: u64) -> f64 {
    ((number * 7919) % 101) as f64 / 101.0
}

/// A dimension that is active when each parent has one of the values.
pub fn dimension(name: &str, distribution: Distribution, when: &[(&str, Vec<Value>)]) -> Dimension {
    let condition = Condition(
        when.iter().map(|(parent, values)| ((*parent).to_owned(), values.clone())).collect(),
    );
    Dimension {
        name: name.to_owned(),
        distribution,
        prior: None,
        when: (!when.is_empty()).then_some(condition),
    }
}

/// A trial without reports.
pub fn trial_of(number: u64, params: Params, state: TrialState, value: Option<f64>) -> Trial {
    Trial {
        number: TrialNumber(number),
        params,
        origin: Origin::Sampled("conformance".to_owned()),
        state,
        value,
        violation: None,
        curve: Vec::new(),
        last_metrics: Default::default(),
        decisions: Vec::new(),
        checkpoints: Vec::new(),
        attempts: 1,
        failures: 0,
        hold: None,
        continued: None,
        notes: Vec::new(),
        tags: Vec::new(),
        device: None,
        until: None,
        reason: None,
        created: Timestamp(0),
        started: None,
        finished: None,
        busy_micros: 0,
    }
}

/// Spaces with every kind of axis, by what is special about them.
pub fn spaces() -> Vec<(&'static str, Space)> {
    let float = |low, high, scale, step| {
        Distribution::float(low, high, scale, step).expect("a valid range")
    };
    let int =
        |low, high, scale, step| Distribution::int(low, high, scale, step).expect("a valid range");
    let words = |words: &[&str]| {
        Distribution::choice(words.iter().map(|word| Value::from(*word)).collect())
            .expect("different words")
    };
    let many =
        Distribution::choice((0..3000i64).map(Value::Int).collect()).expect("different numbers");
    let space = |dimensions| Space::new(dimensions).expect("a valid space");
    vec![
        ("empty", Space::default()),
        (
            "one point",
            space(vec![
                dimension("a", int(3, 3, Scale::Linear, 1), &[]),
                dimension("b", float(0.5, 0.5, Scale::Linear, None), &[]),
                dimension("log", float(2.0, 2.0, Scale::Log, None), &[]),
                dimension("word", words(&["only"]), &[]),
            ]),
        ),
        (
            "flat and mixed",
            space(vec![
                dimension("rate", float(1e-6, 1.0, Scale::Log, None), &[]),
                dimension("dropout", float(0.0, 0.5, Scale::Linear, Some(0.1)), &[]),
                dimension("layers", int(1, 8, Scale::Linear, 1), &[]),
                dimension("width", int(16, 4096, Scale::Log, 1), &[]),
                dimension(
                    "flag",
                    Distribution::choice(vec![true.into(), false.into()]).expect("two"),
                    &[],
                ),
                dimension("momentum", float(-1.0, 1.0, Scale::Linear, None), &[]),
            ]),
        ),
        (
            "finite, two levels of conditions",
            space(vec![
                dimension("optim", words(&["sgd", "adamw"]), &[]),
                dimension("nesterov", words(&["yes", "no"]), &[("optim", vec!["sgd".into()])]),
                dimension(
                    "delay",
                    int(1, 5, Scale::Linear, 2),
                    &[("nesterov", vec!["yes".into()]), ("optim", vec!["sgd".into()])],
                ),
                dimension("layers", int(1, 3, Scale::Linear, 1), &[]),
            ]),
        ),
        (
            "continuous, two levels of conditions",
            space(vec![
                dimension("optim", words(&["sgd", "adamw", "lion"]), &[]),
                dimension(
                    "momentum",
                    float(0.0, 1.0, Scale::Linear, None),
                    &[("optim", vec!["sgd".into()])],
                ),
                dimension(
                    "kind",
                    words(&["a", "b"]),
                    &[("optim", vec!["sgd".into(), "lion".into()])],
                ),
                dimension(
                    "depth",
                    float(1e-3, 1e3, Scale::Log, None),
                    &[("kind", vec!["b".into()])],
                ),
            ]),
        ),
        (
            "extreme ranges",
            space(vec![
                dimension("log", float(1e-300, 1e300, Scale::Log, None), &[]),
                dimension("wide", float(-1e300, 1e300 / 2.0, Scale::Linear, None), &[]),
                dimension("narrow", float(1.0, 1.0f64.next_up(), Scale::Linear, None), &[]),
                dimension("tiny", float(0.0, f64::MIN_POSITIVE, Scale::Linear, None), &[]),
                dimension("long", int(-(1 << 52), 1 << 52, Scale::Linear, 1), &[]),
                dimension("steps", float(0.0, 1.0, Scale::Linear, Some(0.3)), &[]),
            ]),
        ),
        (
            "extreme steps",
            space(vec![
                dimension("fine", float(0.0, 1.0, Scale::Linear, Some(1e-13)), &[]),
                dimension("wide", float(-1e300, 1e300 / 2.0, Scale::Linear, Some(1e288)), &[]),
                dimension("coarse", float(0.0, 1.0, Scale::Linear, Some(1e300)), &[]),
                dimension("still", float(1.0, 1.0, Scale::Linear, Some(1e-300)), &[]),
                dimension("deep", float(5e-324, 1e-300, Scale::Log, None), &[]),
                dimension("huge", int(1, 1 << 52, Scale::Log, 1), &[]),
                dimension("leap", int(-(1 << 52), 1 << 52, Scale::Linear, i64::MAX), &[]),
            ]),
        ),
        (
            "thousands of choices",
            space(vec![
                dimension("one of many", many, &[]),
                dimension("x", float(0.0, 1.0, Scale::Linear, None), &[]),
            ]),
        ),
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
