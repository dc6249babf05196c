//! The final comparison (`race`): the best configurations run again on fresh seeds until one of
//! them wins.
//!
//! A race is exempt from **every** limit of the budget and always runs to its end: an aborted one
//! has no winner, and its size, `LEAST_ROUNDS` to `MOST_ROUNDS` runs of each finalist, is known in
//! advance and part of the forecast. Its usage counts: a budget of device-hours or cost that is
//! raised afterwards has to be raised by that, too.
//!
//! The search's own runs are the reason for the selection and therefore biased, so only fresh runs
//! count. In a round all finalists share a seed, which cancels its effect (a one-sided paired t
//! test). A finalist that is worse than the leader drops out. The truly best one does so with a
//! probability of at most 5 % per race: the level is shared by all comparisons that may eliminate
//! it, one per opponent and round (Bonferroni). Compare Birattari and others 2002, "A racing
//! algorithm for configuring metaheuristics", which tests ranks; with so few rounds ranks have too
//! little power.

use super::{Engine, Phase, RunOutcome};
use crate::study::event::{Event, FinalistsEvent};
use crate::study::finalists::Race;
pub use crate::study::finalists::{LEAST_ROUNDS, MOST_ROUNDS};
use crate::study::metric::{Direction, Score};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::statistics::{Statistics, chance_of_above_zero};
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

/// The probability that a race drops the truly best finalist.
const LEVEL: f64 = 0.05;
/// The confidence level of the winner's interval.
pub const CONFIDENCE: f64 = 0.95;

/// The state of a race between two turns of the engine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standing {
    /// The next run: this finalist in this round.
    Next(TrialNumber, u32),
    /// Runs of the round are unfinished.
    Waits,
    /// A round is complete, with these events; then the standing is to be queried again.
    Events(Vec<Event>),
    /// It is over.
    Over,
}

/// The standing of a study's race: a function of its state.
pub(super) fn standing(state: &StudyState) -> Standing {
    let Some(race) = state.race.as_ref().filter(|race| !race.void && race.winner.is_none()) else {
        return Standing::Over;
    };
    let running: Vec<TrialNumber> = race.running().collect();
    if running.is_empty() {
        return Standing::Over;
    }
    let run = |finalist: &TrialNumber, round| run_of(state, race, *finalist, round);
    let has_ended = |trial: &Trial| trial.state.is_finished();
    let mut round = 0;
    // Complete rounds: every remaining finalist has run, except perhaps in the last.
    while running.iter().all(|finalist| run(finalist, round).is_some_and(has_ended)) {
        round += 1;
    }
    if round > 0 && running.iter().all(|finalist| run(finalist, round).is_none()) {
        let events = judge(state, race, &running, round);
        if !events.is_empty() {
            return Standing::Events(events);
        }
    }
    match running.iter().find(|finalist| run(finalist, round).is_none()) {
        Some(finalist) => Standing::Next(*finalist, round),
        None => Standing::Waits,
    }
}

/// The events after the first `rounds` rounds: who drops out, and who wins.
fn judge(state: &StudyState, race: &Race, running: &[TrialNumber], rounds: u32) -> Vec<Event> {
    let direction = state.direction();
    let mut events = Vec::new();
    let mut ranked: Vec<(TrialNumber, Vec<f64>, Statistics)> = Vec::new();
    for finalist in running {
        let values: Result<Vec<f64>, String> =
            (0..rounds).map(|round| value_in(state, race, *finalist, round)).collect();
        match values {
            Ok(values) => ranked
                .extend(Statistics::of(&values).map(|statistics| (*finalist, values, statistics))),
            Err(reason) => {
                events.push(Event::Finalists(FinalistsEvent::Dropped { trial: *finalist, reason }))
            }
        }
    }
    // Stable: ties keep the order of the search.
    ranked.sort_by_key(|(_, _, statistics)| Score::new(direction, statistics.mean));
    let Some(((first, best, statistics), others)) =
        ranked.split_first().filter(|_| rounds >= LEAST_ROUNDS)
    else {
        return events;
    };
    let level = level(race.finalists.len());
    let mut still: Vec<(TrialNumber, Statistics)> = Vec::new();
    for (finalist, values, other) in others {
        let chance = chance_of_above_zero(&losses_above(direction, best, values));
        if chance < level {
            let reason = format!(
                "worse than trial {first}: mean {} against {} in {rounds} rounds; p {} in the \
                 paired t test, below {}",
                brief(other.mean),
                brief(statistics.mean),
                brief(chance),
                brief(level)
            );
            events.push(Event::Finalists(FinalistsEvent::Dropped { trial: *finalist, reason }));
        } else {
            still.push((*finalist, *other));
        }
    }
    if still.is_empty() || rounds >= MOST_ROUNDS {
        let reason = why_won(*statistics, &still);
        events.push(Event::Finalists(FinalistsEvent::Won {
            trial: *first,
            statistics: *statistics,
            reason,
        }));
    }
    events
}

/// The value of a finalist's run in a round, or why it does not count.
fn value_in(
    state: &StudyState,
    race: &Race,
    finalist: TrialNumber,
    round: u32,
) -> Result<f64, String> {
    let run = run_of(state, race, finalist, round).ok_or("a run is missing")?;
    let value = run.value.filter(|_| run.state == TrialState::Complete);
    let what = match value {
        Some(_) if run.violation.is_some() => "violates a limit",
        Some(value) if value.is_nan() => "is NaN",
        Some(value) => return Ok(value),
        None => run.state.as_str(),
    };
    let why = run.reason.as_ref().filter(|_| what != "is NaN");
    let why = why.map(|reason| format!(": {reason}")).unwrap_or_default();
    Err(format!("its run in round {} {what} (trial {}){why}", round + 1, run.number))
}

fn run_of<'a>(
    state: &'a StudyState,
    race: &Race,
    finalist: TrialNumber,
    round: u32,
) -> Option<&'a Trial> {
    let origin = Origin::Race { of: finalist, race: race.number, round };
    state.trials.iter().find(|trial| trial.origin == origin)
}

#[expect(clippy::cast_precision_loss, reason = "finalists are few")]
fn level(finalists: usize) -> f64 {
    let looks = f64::from(MOST_ROUNDS - LEAST_ROUNDS + 1);
    LEVEL / (finalists.saturating_sub(1).max(1) as f64 * looks)
}

fn losses_above(direction: Direction, best: &[f64], values: &[f64]) -> Vec<f64> {
    let loss = |value: f64| if direction == Direction::Minimize { value } else { -value };
    values.iter().zip(best).map(|(value, best)| loss(*value) - loss(*best)).collect()
}

fn why_won(statistics: Statistics, still: &[(TrialNumber, Statistics)]) -> String {
    let interval = statistics
        .half_width(CONFIDENCE)
        .map(|half| format!(" +- {} (95 %)", brief(half)))
        .unwrap_or_default();
    let own =
        format!("mean {}{interval} of {} fresh runs", brief(statistics.mean), statistics.runs);
    match still.first() {
        None => format!("{own}; no other finalist is left"),
        Some((second, other)) => {
            format!("{own}; trial {second} with {} is not significantly worse", brief(other.mean))
        }
    }
}

/// A number with five significant digits, for messages.
fn brief(number: f64) -> f64 {
    format!("{number:.4e}").parse().unwrap_or(number)
}

/// The finalists of a new race.
pub(super) fn best_configurations(spec: &StudySpec, state: &StudyState) -> Vec<TrialNumber> {
    let most = usize::try_from(spec.race).unwrap_or(usize::MAX);
    state.ranked_configurations().into_iter().take(most).map(|(trial, _)| trial).collect()
}

impl Engine {
    /// Whether a race must run before the study ends with this outcome; starts it.
    pub(super) fn continues_with_race(&mut self, outcome: &RunOutcome) -> bool {
        if self.spec.race == 0
            || self.runs_on_demand()
            || !matches!(outcome, RunOutcome::Finished(_))
        {
            return false;
        }
        if self.state.race.as_ref().is_none_or(|race| race.void) {
            let finalists = best_configurations(&self.spec, &self.state);
            if finalists.is_empty() {
                return false;
            }
            self.emit(Event::Finalists(FinalistsEvent::Chosen { finalists }));
        }
        let is_queued = |trial: &Trial| trial.origin.is_race() && trial.state == TrialState::Queued;
        let goes_on = match standing(&self.state) {
            Standing::Over => false,
            // The user paused a run: the study ends without it, and continues with it.
            Standing::Waits => self.state.trials.iter().any(is_queued),
            Standing::Next(..) | Standing::Events(_) => true,
        };
        if goes_on {
            self.phase = Phase::Racing(outcome.clone());
        }
        goes_on
    }

    /// The next run of the race, if one can start now.
    pub(super) fn next_race_run(&mut self) -> Option<TrialNumber> {
        let of_race = |number| self.state.trial(number).is_some_and(|trial| trial.origin.is_race());
        if let Some(waiting) = self.queue.find(of_race) {
            return Some(waiting);
        }
        loop {
            match standing(&self.state) {
                Standing::Waits | Standing::Over => return None,
                Standing::Events(events) => events.into_iter().for_each(|event| self.emit(event)),
                Standing::Next(of, round) => {
                    let race = self.state.race.as_ref().map_or(0, |race| race.number);
                    return self.create_run(of, Origin::Race { of, race, round });
                }
            }
        }
    }
}
