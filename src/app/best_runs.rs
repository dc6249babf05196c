//! The statistics of the best configuration if it was run several times.

use serde::Serialize;

use crate::app::best::Runs;
use crate::engine::finalists::CONFIDENCE;
use crate::report::wording::{number, one_line};
use crate::study::counted::count;
use crate::study::metric::{Metrics, Number};
use crate::study::state::StudyState;
use crate::study::statistics::Statistics;

/// The form for `--json`.
#[derive(Clone, Debug, Serialize)]
pub struct RunsJson {
    from: &'static str,
    runs: u64,
    mean: Number,
    deviation: Number,
    low: Option<Number>,
    high: Option<Number>,
    test: Option<Metrics>,
}

impl From<&Runs> for RunsJson {
    fn from(runs: &Runs) -> Self {
        let Statistics { runs: count, mean, deviation } = runs.statistics;
        let half = runs.statistics.half_width(CONFIDENCE);
        RunsJson {
            from: if runs.reason.is_some() { "race" } else { "search" },
            runs: count,
            mean: Number(mean),
            deviation: Number(deviation),
            low: half.map(|half| Number(mean - half)),
            high: half.map(|half| Number(mean + half)),
            test: runs.test.clone(),
        }
    }
}

/// `mean 0.21 of 5 runs, 0.19 to 0.23 (95 %)`
pub fn in_words(behind: &Runs) -> String {
    let Statistics { runs, mean, deviation } = behind.statistics;
    let interval = behind
        .statistics
        .half_width(CONFIDENCE)
        .map(|half| format!(", {} to {} (95 %)", number(mean - half), number(mean + half)));
    let spread =
        if runs > 1 { format!(", deviation {}", number(deviation)) } else { String::new() };
    let which = if behind.reason.is_some() { "fresh run" } else { "run" };
    format!(
        "mean {} of {}{}{spread}",
        number(mean),
        count(runs, which),
        interval.unwrap_or_default()
    )
}

/// The state of the race in one sentence.
pub fn race(state: &StudyState) -> Option<String> {
    let race = state.race.as_ref()?;
    let finalists: Vec<String> =
        race.finalists.iter().map(|finalist| finalist.trial.to_string()).collect();
    let finalists = finalists.join(", ");
    Some(match (&race.winner, race.void) {
        (_, true) => format!(
            "between trials {finalists}; the search has continued since, and ends with another race"
        ),
        (Some(winner), false) => {
            one_line(&format!("won by trial {} of {finalists}: {}", winner.trial, winner.reason))
        }
        (None, false) => {
            let running: Vec<String> = race.running().map(|trial| trial.to_string()).collect();
            match running.is_empty() {
                true => format!(
                    "between trials {finalists}; each of them had a failed run, so there is no \
                     winner"
                ),
                false => format!("between trials {finalists}; still in it: {}", running.join(", ")),
            }
        }
    })
}
