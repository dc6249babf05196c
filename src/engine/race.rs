//! The race at the end: the best configurations run again, round by round on fresh seeds, until one of them is the winner.
//!
//! A race comes on top of **every** limit of the budget, and is always run to its end: cut short it would name no winner, and what
//! it takes is known before, `LEAST_ROUNDS` to `MOST_ROUNDS` runs of each finalist at most, which the forecast says. What it used
//! is used: a budget of device-hours or cost that is raised afterwards has to be raised by that, too.
//!
//! The runs of the search are why a configuration was chosen, so that their values flatter it: only fresh runs count. In a
//! round every finalist has the same seed, so that what the seed does to all of them cancels (the paired t test, one side). A
//! finalist that is worse than the one in front leaves. The truly best one does so with a chance of at most 5 % in the whole
//! race: the level is shared by all comparisons that may put it out, with each other one in each round (Bonferroni). Compare Birattari and others 2002, "A racing algorithm for
//! configuring metaheuristics", which tests ranks; with so few rounds ranks say too little.

use super::{Engine, Outcome, Phase};
use crate::study::event::Event;
use crate::study::finalists::Race;
pub use crate::study::finalists::{LEAST_ROUNDS, MOST_ROUNDS};
use crate::study::metric::{Direction, Score};
use crate::study::state::StudyView;
use crate::study::statistics::{Sample, chance_of_above_zero};
use crate::study::trial::{Origin, TrialNumber, TrialState};

/// The chance that a race drops the finalist that is truly best.
const LEVEL: f64 = 0.05;
/// How sure the interval of the winner's mean is.
pub const CONFIDENCE: f64 = 0.95;

/// Where a race stands between two turns of its engine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standing {
    /// This finalist runs in this round.
    Next(TrialNumber, u32),
    /// Runs of the round have not ended.
    Waits,
    /// A round is over, and this comes of it; then it is asked again.
    Events(Vec<Event>),
    /// It is over.
    Over,
}

/// Where the race of a study stands: a function of its state.
pub(super) fn standing(view: &StudyView) -> Standing {
    let Some(race) = view.race.as_ref().filter(|race| !race.void && race.winner.is_none()) else {
        return Standing::Over;
    };
    let running: Vec<TrialNumber> = race.running().collect();
    if running.is_empty() {
        return Standing::Over;
    }
    let run_of = |finalist: TrialNumber, round: u32| {
        let origin = Origin::Race { of: finalist, race: race.number, round };
        view.trials.iter().find(move |trial| trial.origin == origin)
    };
    let mut round = 0;
    // Rounds are full for whoever still runs, but the last.
    while running
        .iter()
        .all(|finalist| run_of(*finalist, round).is_some_and(|trial| trial.state.is_finished()))
    {
        round += 1;
    }
    if round > 0 && running.iter().all(|finalist| run_of(*finalist, round).is_none()) {
        let events = judge(view, race, &running, round);
        if !events.is_empty() {
            return Standing::Events(events);
        }
    }
    match running.iter().find(|finalist| run_of(**finalist, round).is_none()) {
        Some(finalist) => Standing::Next(*finalist, round),
        None => Standing::Waits,
    }
}

/// What comes of the first `rounds` rounds: who leaves, and who has won.
fn judge(view: &StudyView, race: &Race, running: &[TrialNumber], rounds: u32) -> Vec<Event> {
    let values_of = |finalist: TrialNumber| -> Result<Vec<f64>, String> {
        (0..rounds)
            .map(|round| {
                let origin = Origin::Race { of: finalist, race: race.number, round };
                let run = view
                    .trials
                    .iter()
                    .find(|trial| trial.origin == origin)
                    .ok_or("a run is missing")?;
                match run.value.filter(|_| run.state == TrialState::Complete) {
                    Some(_) if run.violation.is_some() => {
                        let why = run
                            .reason
                            .as_ref()
                            .map(|reason| format!(": {reason}"))
                            .unwrap_or_default();
                        Err(format!(
                            "its run in round {} breaks a limit (trial {}){why}",
                            round + 1,
                            run.number
                        ))
                    }
                    Some(value) if value.is_nan() => {
                        Err(format!("its run in round {} is NaN (trial {})", round + 1, run.number))
                    }
                    Some(value) => Ok(value),
                    None => {
                        let why = run
                            .reason
                            .as_ref()
                            .map(|reason| format!(": {reason}"))
                            .unwrap_or_default();
                        Err(format!(
                            "its run in round {} {} (trial {}){why}",
                            round + 1,
                            run.state.as_str(),
                            run.number
                        ))
                    }
                }
            })
            .collect()
    };
    let mut events = Vec::new();
    let mut ranked: Vec<(TrialNumber, Vec<f64>, Sample)> = Vec::new();
    for finalist in running {
        match values_of(*finalist) {
            Ok(values) => {
                ranked.extend(Sample::of(&values).map(|sample| (*finalist, values, sample)))
            }
            Err(reason) => events.push(Event::RaceDropped { trial: *finalist, reason }),
        }
    }
    // A stable sort: of equals the better one in the search.
    ranked.sort_by_key(|(_, _, sample)| Score::new(view.direction(), sample.mean));
    if rounds < LEAST_ROUNDS {
        return events;
    }
    let Some((first, best, sample)) = ranked.first().cloned() else { return events };
    let level = level(race.finalists.len());
    let mut still: Vec<(TrialNumber, Sample)> = Vec::new();
    for (finalist, values, other) in ranked.iter().skip(1) {
        let chance = chance_of_above_zero(&losses_above(view.direction(), &best, values));
        if chance < level {
            let reason = format!(
                "worse than trial {first}: mean {} against {} in {rounds} rounds; p {} in the paired t test, below {}",
                brief(other.mean),
                brief(sample.mean),
                brief(chance),
                brief(level)
            );
            events.push(Event::RaceDropped { trial: *finalist, reason });
        } else {
            still.push((*finalist, *other));
        }
    }
    if still.is_empty() || rounds >= MOST_ROUNDS {
        events.push(Event::RaceWon { trial: first, sample, reason: why_won(sample, &still) });
    }
    events
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

fn why_won(sample: Sample, still: &[(TrialNumber, Sample)]) -> String {
    let interval = sample
        .half_width(CONFIDENCE)
        .map(|half| format!(" +- {} (95 %)", brief(half)))
        .unwrap_or_default();
    let own = format!("mean {}{interval} of {} fresh runs", brief(sample.mean), sample.runs);
    match still.first() {
        None => format!("{own}; nobody is left beside it"),
        Some((second, other)) => {
            format!("{own}; trial {second} with {} is not told apart from it", brief(other.mean))
        }
    }
}

/// A number with five digits, for a sentence.
fn brief(number: f64) -> f64 {
    format!("{number:.4e}").parse().unwrap_or(number)
}

impl Engine {
    /// Whether a race is to be run before the study ends like this; begins it.
    pub(super) fn goes_on_racing(&mut self, outcome: &Outcome) -> bool {
        let finalists = usize::try_from(self.spec.race).unwrap_or(usize::MAX);
        if finalists == 0 || self.fills_on_demand() || !matches!(outcome, Outcome::Finished(_)) {
            return false;
        }
        if self.view.race.as_ref().is_none_or(|race| race.void) {
            let best = self
                .view
                .ranked_configurations()
                .into_iter()
                .take(finalists)
                .map(|(trial, _)| trial)
                .collect::<Vec<_>>();
            if best.is_empty() {
                return false;
            }
            self.emit(Event::RaceBegun { finalists: best });
        }
        let is_stuck = match standing(&self.view) {
            Standing::Over => true,
            // Its user paused a run: the study ends without it, and goes on with it.
            Standing::Waits => !self
                .view
                .trials
                .iter()
                .any(|trial| trial.origin.is_race() && trial.state == TrialState::Queued),
            Standing::Next(..) | Standing::Events(_) => false,
        };
        if is_stuck {
            return false;
        }
        self.phase = Phase::Racing(outcome.clone());
        true
    }

    /// The next run of the race, if it is to begin now.
    pub(super) fn next_race_run(&mut self) -> Option<TrialNumber> {
        let of_race = |number: &&TrialNumber| {
            self.view.trial(**number).is_some_and(|trial| trial.origin.is_race())
        };
        if let Some(waiting) = self.queue.iter().find(of_race) {
            return Some(*waiting);
        }
        loop {
            match standing(&self.view) {
                Standing::Waits | Standing::Over => return None,
                Standing::Events(events) => events.into_iter().for_each(|event| self.emit(event)),
                Standing::Next(of, round) => {
                    let race = self.view.race.as_ref().map_or(0, |race| race.number);
                    return self.create_run(of, Origin::Race { of, race, round });
                }
            }
        }
    }

    /// Another run of a trial's configuration.
    pub(super) fn create_run(&mut self, of: TrialNumber, origin: Origin) -> Option<TrialNumber> {
        let params = self.view.trial(of)?.params.clone();
        let number = TrialNumber(self.view.trials.len() as u64);
        self.emit(Event::TrialCreated { trial: number, params, origin });
        Some(number)
    }
}
