//! Groups trials by configuration: one run of it, or several on different seeds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::study::metric::{Direction, Score};
use crate::study::statistics::Statistics;
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

/// The fields of a trial that rank its configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigurationRun {
    /// Its number.
    pub number: TrialNumber,
    /// The origin of its parameters.
    pub origin: Origin,
    /// Its state.
    pub state: TrialState,
    /// Its value, if complete.
    pub value: Option<f64>,
    /// Whether it is infeasible or hidden.
    pub violates: bool,
}

impl From<&Trial> for ConfigurationRun {
    fn from(trial: &Trial) -> Self {
        ConfigurationRun {
            number: trial.number,
            origin: trial.origin.clone(),
            state: trial.state,
            value: trial.value,
            violates: trial.violation.is_some() || trial.hidden,
        }
    }
}

/// The runs of one configuration in the search. Runs of the final comparison are separate
/// measurements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// Its first complete run.
    pub first_complete: Option<TrialNumber>,
    /// The values of its complete runs.
    pub values: Vec<f64>,
    /// Runs that completed, or were started as replicates.
    pub counted: u64,
    /// Whether such a run is unfinished.
    pub measuring: bool,
    /// Whether one of its complete runs is infeasible or hidden.
    pub violates: bool,
}

impl Configuration {
    /// The statistics of its runs, once there are enough.
    pub fn statistics(&self, replicates: u32) -> Option<Statistics> {
        let is_measured = !self.measuring && self.counted >= u64::from(replicates);
        if is_measured { Statistics::of(&self.values) } else { None }
    }

    /// Whether it completed and needs more runs.
    pub fn lacks_runs(&self, replicates: u32) -> bool {
        !self.values.is_empty() && self.counted < u64::from(replicates)
    }
}

/// The configurations of a study, keyed by the first trial of each.
pub fn configurations(
    runs: impl IntoIterator<Item = ConfigurationRun>,
) -> BTreeMap<TrialNumber, Configuration> {
    let mut found: BTreeMap<TrialNumber, Configuration> = BTreeMap::new();
    for run in runs {
        if run.origin.is_race() {
            continue;
        }
        let configuration =
            found.entry(run.origin.configuration().unwrap_or(run.number)).or_default();
        let is_replicate = matches!(run.origin, Origin::Replicate(_));
        let value = run.value.filter(|_| run.state == TrialState::Complete);
        if let Some(value) = value {
            configuration.values.push(value);
            configuration.first_complete.get_or_insert(run.number);
        }
        configuration.counted += u64::from(value.is_some() || is_replicate);
        configuration.violates |= value.is_some() && run.violates;
        configuration.measuring |= is_replicate && !run.state.is_finished();
    }
    found
}

/// The fully measured configurations, best first, each with its first complete run; ties go to the
/// earlier. Excludes those whose mean is NaN or of which a run is infeasible.
pub fn ranked(
    runs: impl IntoIterator<Item = ConfigurationRun>,
    direction: Direction,
    replicates: u32,
) -> Vec<(TrialNumber, Statistics)> {
    let measured =
        configurations(runs).into_values().filter(|configuration| !configuration.violates);
    let measured = measured.filter_map(|configuration| {
        Some((configuration.first_complete?, configuration.statistics(replicates)?))
    });
    let mut ranked: Vec<(TrialNumber, Statistics)> =
        measured.filter(|(_, statistics)| !statistics.mean.is_nan()).collect();
    ranked.sort_by_key(|(number, statistics)| (Score::new(direction, statistics.mean), *number));
    ranked
}

/// The trials as samplers see them: one per configuration with the mean of its runs, numbered
/// without gaps. One with unfinished runs is unfinished.
pub fn for_samplers(trials: &[Trial], replicates: u32) -> Cow<'_, [Trial]> {
    if replicates == 1 && trials.iter().all(|trial| trial.origin.configuration().is_none()) {
        return Cow::Borrowed(trials);
    }
    let configurations = configurations(trials.iter().map(ConfigurationRun::from));
    let firsts = trials.iter().filter(|trial| trial.origin.configuration().is_none());
    let seen = (0..).zip(firsts).map(|(number, first)| {
        let mut trial = first.clone();
        trial.number = TrialNumber(number);
        let runs = trials.iter().filter(|run| {
            run.origin.configuration() == Some(first.number) && !run.origin.is_race()
        });
        trial.violation = runs
            .filter_map(|run| run.violation)
            .fold(first.violation, |most, more| Some(most.map_or(more, |most| most.max(more))));
        match configurations.get(&first.number) {
            Some(configuration) if !configuration.values.is_empty() => {
                let statistics = configuration.statistics(replicates);
                trial.state =
                    if statistics.is_some() { TrialState::Complete } else { TrialState::Running };
                trial.value = statistics.map(|statistics| statistics.mean);
            }
            _ => {}
        }
        trial
    });
    Cow::Owned(seen.collect())
}

/// The trials as pruners see them: runs that are not judged stay, so that numbers remain indices,
/// but without reports. Borrowed if there are none.
pub fn for_pruners(trials: &[Trial]) -> Cow<'_, [Trial]> {
    if trials.iter().all(|trial| trial.origin.is_judged()) {
        return Cow::Borrowed(trials);
    }
    let seen = trials.iter().map(|trial| match trial.origin.is_judged() {
        true => trial.clone(),
        false => Trial {
            state: TrialState::Failed,
            value: None,
            values: Vec::new(),
            curve: Vec::new(),
            vectors: Vec::new(),
            decisions: Vec::new(),
            ..trial.clone()
        },
    });
    Cow::Owned(seen.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64, origin: Origin, state: TrialState, value: Option<f64>) -> ConfigurationRun {
        ConfigurationRun { number: TrialNumber(number), origin, state, value, violates: false }
    }

    fn sampled(number: u64, value: f64) -> ConfigurationRun {
        run(number, Origin::Sampled("random".to_owned()), TrialState::Complete, Some(value))
    }

    fn replicate(number: u64, of: u64, value: f64) -> ConfigurationRun {
        run(number, Origin::Replicate(TrialNumber(of)), TrialState::Complete, Some(value))
    }

    #[test]
    fn the_best_configuration_has_the_best_mean_and_all_of_its_runs() {
        let lucky = [sampled(0, 0.1), sampled(1, 0.3), replicate(2, 0, 0.9), replicate(3, 1, 0.4)];
        let ranked_of = |runs: &[ConfigurationRun]| ranked(runs.to_vec(), Direction::Minimize, 2);
        let ranking = ranked_of(&lucky);
        assert_eq!(
            ranking
                .iter()
                .map(|(number, statistics)| (number.0, statistics.runs))
                .collect::<Vec<_>>(),
            [(1, 2), (0, 2)]
        );
        assert!((ranking[0].1.mean - 0.35).abs() < 1e-12);
        assert_eq!(ranked_of(&lucky[..3]).len(), 1, "one that lacks a run is not ranked");
        let mut running = lucky.to_vec();
        running[3] = run(3, Origin::Replicate(TrialNumber(1)), TrialState::Running, None);
        assert_eq!(ranked_of(&running).len(), 1, "nor one that is being measured");
        running[3].state = TrialState::Failed;
        assert_eq!(ranked_of(&running)[0].1.runs, 1, "a run that failed is not waited for");
    }

    #[test]
    fn runs_of_a_race_and_values_of_nan_do_not_count() {
        let race = run(
            2,
            Origin::Race { of: TrialNumber(0), race: 0, round: 0 },
            TrialState::Complete,
            Some(-5.0),
        );
        let ranking = ranked([sampled(0, 0.2), sampled(1, f64::NAN), race], Direction::Minimize, 1);
        assert_eq!(
            ranking
                .iter()
                .map(|(number, statistics)| (number.0, statistics.mean))
                .collect::<Vec<_>>(),
            [(0, 0.2)]
        );
    }

    #[test]
    fn a_repeated_proposal_counts_for_its_configuration_although_the_first_run_was_pruned() {
        let runs = [
            run(0, Origin::Sampled("random".to_owned()), TrialState::Pruned, None),
            run(1, Origin::Repeat(TrialNumber(0)), TrialState::Complete, Some(0.5)),
        ];
        assert_eq!(ranked(runs, Direction::Minimize, 1)[0].0, TrialNumber(1));
    }
}
