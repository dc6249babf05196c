//! How a trial of several objectives compares: who dominates it.

use serde::Serialize;

use crate::cli::Failure;
use crate::storage::{OutcomeCursor, StorageReader, StudySummary};
use crate::study::counted::count;
use crate::study::front;
use crate::study::pareto;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// Numbers of trials that are listed.
const MOST: usize = 8;

/// Whether a trial is on the front, and who dominates it.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Domination {
    /// Whether it is on the front.
    on_front: bool,
    /// The trials on the front.
    front: Vec<TrialNumber>,
    /// The complete trials that are at least as good in all objectives and better in one, by
    /// number; for a trial that is not complete, than its last reports.
    dominated_by: Vec<TrialNumber>,
    /// The number of other trials that can be on the front.
    of: u64,
}

/// `None` in a study of one objective, before all objectives were reported, and for a trial that
/// cannot be on the front: hidden, beyond a limit, or with NaN.
pub(super) fn of(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
) -> Result<Option<Domination>, Failure> {
    let known: Option<Vec<f64>> = trial.known_values().into_iter().collect();
    let known = known.filter(|known| known.len() == study.spec.objectives.len());
    let Some(known) = known.filter(|_| study.spec.has_several_objectives()) else {
        return Ok(None);
    };
    if trial.violation.is_some() || trial.hidden || known.iter().any(|value| value.is_nan()) {
        return Ok(None);
    }
    let directions = front::directions(&study.spec.objectives);
    let own = pareto::losses(&directions, &known);
    let (outcomes, _) = reader.outcomes(study.id, OutcomeCursor::default())?;
    let mut others = front::points_of(&outcomes);
    others.retain(|(number, _)| *number != trial.number);
    let is_better = |values: &[f64]| pareto::dominates(&pareto::losses(&directions, values), &own);
    let better = others.iter().filter(|(_, values)| is_better(values));
    let dominated_by = better.map(|(number, _)| *number).collect();
    let of = others.len() as u64;
    let front = study.front.as_ref().map_or_else(Vec::new, |front| front.trials.clone());
    Ok(Some(Domination { on_front: front.contains(&trial.number), front, dominated_by, of }))
}

impl Domination {
    /// `on the front, with trials 3 and 7`.
    pub(super) fn in_words(&self, trial: &Trial) -> String {
        if self.of == 0 {
            return "no other trial is complete".to_owned();
        }
        let others = count(self.of, "other complete trial");
        if self.on_front {
            let mut beside = self.front.clone();
            beside.retain(|number| *number != trial.number);
            return match beside.is_empty() {
                true => format!("alone on the front: it dominates or equals {others}"),
                false => format!("on the front, with {}", trials_in_words(&beside)),
            };
        }
        let last = if trial.state == TrialState::Complete { "" } else { "by its last reports, " };
        match self.dominated_by.is_empty() {
            true => format!("{last}dominated by none of {others}"),
            false => {
                let better = trials_in_words(&self.dominated_by);
                format!("{last}dominated by {better} of {others}")
            }
        }
    }
}

/// `trial 3`, `trials 3 and 7`, `trials 1, 2, 3, 5, 8, 13, 21, 34 and 5 more`.
pub(super) fn trials_in_words(trials: &[TrialNumber]) -> String {
    let mut listed: Vec<String> = trials.iter().take(MOST).map(ToString::to_string).collect();
    if trials.len() > MOST {
        listed.push(format!("{} more", trials.len() - MOST));
    }
    let last = listed.pop().unwrap_or_default();
    match listed.is_empty() {
        true => format!("trial {last}"),
        false => format!("trials {} and {last}", listed.join(", ")),
    }
}
