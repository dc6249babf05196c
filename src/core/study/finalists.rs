//! The race of a study: its best configurations, run again on fresh seeds until one of them is the
//! winner.

use serde::{Deserialize, Serialize};

use crate::study::event::FinalistsEvent;
use crate::study::metric::Metrics;
use crate::study::statistics::Sample;
use crate::study::trial::TrialNumber;

/// Rounds before anyone leaves: two say too little about the spread.
pub const LEAST_ROUNDS: u32 = 3;
/// Rounds of a race that is not decided.
pub const MOST_ROUNDS: u32 = 5;

/// The last race that was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Race {
    /// Which race of the study it is, from 0: a study that continues after its race has another
    /// one.
    pub number: u32,
    /// Who runs, the best of the search first.
    pub finalists: Vec<Finalist>,
    /// Who won.
    pub winner: Option<Winner>,
    /// Whether the search continued afterwards: then its result no longer counts.
    pub void: bool,
}

/// A configuration in a race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finalist {
    /// The trial of the search with that configuration.
    pub trial: TrialNumber,
    /// Why it does not run any more, if so.
    pub dropped: Option<String>,
}

/// The end of a race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Winner {
    /// The trial of the search with the winning configuration.
    pub trial: TrialNumber,
    /// Its runs in the race; those of the search do not count, for they are why it was chosen.
    pub sample: Sample,
    /// One sentence.
    pub reason: String,
    /// What was measured on the test split, once, after it had won.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Metrics>,
}

impl Race {
    /// Takes an event in.
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
            (FinalistsEvent::Won { trial, sample, reason }, Some(race)) => {
                race.winner = Some(Winner {
                    trial: *trial,
                    sample: *sample,
                    reason: reason.clone(),
                    test: None,
                });
            }
            (FinalistsEvent::Tested { trial, metrics }, Some(race)) => {
                if let Some(winner) = race.winner.as_mut().filter(|winner| winner.trial == *trial) {
                    winner.test = Some(metrics.clone());
                }
            }
            _ => {}
        }
    }

    /// Who still runs.
    pub fn running(&self) -> impl Iterator<Item = TrialNumber> {
        self.finalists
            .iter()
            .filter(|finalist| finalist.dropped.is_none())
            .map(|finalist| finalist.trial)
    }

    /// Its winner, as long as that counts.
    pub fn winner(&self) -> Option<&Winner> {
        self.winner.as_ref().filter(|_| !self.void)
    }
}
