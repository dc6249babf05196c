//! The final comparison (race): the best configurations, run again on fresh seeds until one wins.

use serde::{Deserialize, Serialize};

use crate::study::event::FinalistsEvent;
use crate::study::metric::Metrics;
use crate::study::statistics::Statistics;
use crate::study::trial::TrialNumber;

/// Rounds before any finalist drops out: two are too few to estimate the variance.
pub const LEAST_ROUNDS: u32 = 3;
/// Rounds of an undecided race.
pub const MOST_ROUNDS: u32 = 5;

/// The last race that started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Race {
    /// Index among the study's races, from 0: a study that continues after its race has another
    /// one.
    pub number: u32,
    /// The finalists, best of the search first.
    pub finalists: Vec<Finalist>,
    /// The winner.
    pub winner: Option<Winner>,
    /// Whether the search continued afterwards, which invalidates the result.
    pub void: bool,
}

/// A configuration in a race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finalist {
    /// The trial of the search with that configuration.
    pub trial: TrialNumber,
    /// Why it dropped out, if it did.
    pub dropped: Option<String>,
}

/// The result of a race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Winner {
    /// The trial of the search with the winning configuration.
    pub trial: TrialNumber,
    /// The statistics of its runs in the race. Those of the search are excluded: they are why it
    /// was selected.
    #[serde(rename = "sample")]
    pub statistics: Statistics,
    /// One sentence.
    pub reason: String,
    /// Metrics on the test split, measured once, after it won.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Metrics>,
}

impl Race {
    /// Applies an event.
    pub fn apply(race: &mut Option<Race>, event: &FinalistsEvent) {
        match (event, race) {
            (FinalistsEvent::Chosen { finalists }, race) => {
                let number = race.as_ref().map_or(0, |race| race.number + 1);
                let finalists = finalists
                    .iter()
                    .map(|trial| Finalist { trial: *trial, dropped: None })
                    .collect();
                *race = Some(Race { number, finalists, winner: None, void: false });
            }
            (FinalistsEvent::Dropped { trial, reason }, Some(race)) => {
                if let Some(finalist) =
                    race.finalists.iter_mut().find(|finalist| finalist.trial == *trial)
                {
                    finalist.dropped = Some(reason.clone());
                }
            }
            (FinalistsEvent::Won { trial, statistics, reason }, Some(race)) => {
                race.winner = Some(Winner {
                    trial: *trial,
                    statistics: *statistics,
                    reason: reason.clone(),
                    test: None,
                });
            }
            (FinalistsEvent::Tested { trial, metrics }, Some(race)) => {
                if let Some(winner) = race.winner.as_mut().filter(|winner| winner.trial == *trial) {
                    winner.test = Some(metrics.clone());
                }
            }
            (
                FinalistsEvent::Dropped { .. }
                | FinalistsEvent::Won { .. }
                | FinalistsEvent::Tested { .. },
                None,
            ) => {}
        }
    }

    /// The finalists that have not dropped out.
    pub fn running(&self) -> impl Iterator<Item = TrialNumber> {
        self.finalists
            .iter()
            .filter(|finalist| finalist.dropped.is_none())
            .map(|finalist| finalist.trial)
    }

    /// Its winner, if the result is valid.
    pub fn winner(&self) -> Option<&Winner> {
        self.winner.as_ref().filter(|_| !self.void)
    }
}
