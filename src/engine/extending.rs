//! Requests to extend a study: a larger budget, or a trial past its end.

use super::Engine;
use super::requests::{Refusal, Served, all_of, refused};
use crate::pruners::{POPULATION, is_population};
use crate::study::budget::{Budget, Extension};
use crate::study::control::TrialControl;
use crate::study::counted::count;
use crate::study::event::{Event, StateEvent, StudyEvent};
use crate::study::goal::Goal;
use crate::study::program::Program;
use crate::study::step::StepUnit;
use crate::study::trial::{LARGEST_STEP, TrialNumber, TrialState};

impl Engine {
    /// Trials that would not form whole populations: as in a study file, they are refused.
    fn incomplete_population(&self, by: Extension) -> Option<Refusal> {
        let is_asked = by.trials > 0 && is_population(&self.spec.pruner);
        let trials = self.spec.budget.trials.filter(|_| is_asked)?;
        let (size, all) = (POPULATION.of::<u64>(&self.spec.pruner), trials.checked_add(by.trials)?);
        let whole = all.checked_next_multiple_of(size).filter(|whole| *whole != all)?;
        let said = format!("{all} trials do not form populations of {size}");
        Some(refused(said, format!("say `--trials {}`", whole - trials)))
    }

    pub(super) fn extend(&mut self, by: Extension) -> Served {
        let budget = &self.spec.budget;
        let added = [
            ("trials", by.trials > 0, budget.trials.is_some()),
            ("time", !by.time.is_zero(), budget.time.is_some()),
            ("device_hours", by.device_hours > 0.0, budget.device_hours.is_some()),
            ("cost", by.cost > 0.0, budget.cost.is_some()),
        ];
        let nothing = by.is_nothing();
        let nothing =
            nothing.then(|| refused("nothing was added", "say `--trials N` or `--time 2h`"));
        let unlimited = added.iter().filter(|(_, is_added, is_limited)| *is_added && !is_limited);
        let unlimited = unlimited.map(|(key, ..)| {
            let instead = match (&self.spec.program, *key) {
                (Program::Trainer { .. } | Program::Command { .. }, key) => {
                    format!("set `{key}` under [budget] of the study file")
                }
                // A program made the study: there is no file.
                (Program::Inline, "trials") => {
                    "the program that made the study sets it: `trials`, or `n_trials` of ask-tell"
                        .to_owned()
                }
                (Program::Inline, _) => {
                    "only a study file can set it, and a program made this study".to_owned()
                }
            };
            refused(format!("`budget.{key}` is not set, so there is no limit to raise"), instead)
        });
        let incomplete = self.incomplete_population(by);
        all_of(nothing.into_iter().chain(unlimited).chain(incomplete).collect())?;
        let beyond = self.beyond_a_store(by);
        if !beyond.is_empty() {
            let keys: Vec<String> = beyond.iter().map(|key| format!("`budget.{key}`")).collect();
            return Err(refused(
                format!("{} would be larger than a store can hold", keys.join(" and ")),
                "ask for less",
            ));
        }
        self.emit(Event::Study(StudyEvent::BudgetExtended { by }));
        self.spec.budget.extend(by);
        self.reopen("its budget was extended".to_owned());
        let Budget { trials, time, device_hours, cost, .. } = &self.spec.budget;
        let parts = [
            trials.map(|trials| count(trials, "trial")),
            time.map(|time| format!("{} s", time.as_secs_f64())),
            device_hours.map(|hours| format!("{hours} device-hours")),
            cost.map(|cost| format!("a cost of {cost}")),
        ];
        let parts = parts.into_iter().zip(added).filter(|(_, (_, is_added, _))| *is_added);
        let parts: Vec<String> = parts.filter_map(|(part, _)| part).collect();
        let done = format!("the budget is {} now", parts.join(" and "));
        Ok(match self.why_none_starts(by) {
            Some(why) => done + &why,
            None => self.when(done),
        })
    }

    /// Why the larger budget starts no trial, if it does not.
    fn why_none_starts(&mut self, by: Extension) -> Option<String> {
        let limit = self.spec.budget.trials.filter(|_| by.trials > 0);
        let taken = self.trials_of_budget();
        if let Some(limit) = limit.filter(|limit| taken >= *limit) {
            let more = count(taken - limit + 1, "more trial");
            return Some(format!(
                ", but {taken} are complete or under way: {more} and a new one starts"
            ));
        }
        let goal = self.goal()?;
        let key = match goal {
            Goal::Target { .. } | Goal::Hypervolume { .. } => "target",
            Goal::Patience { .. } | Goal::FrontPatience { .. } => "patience",
        };
        Some(format!(
            ", but the study ends as before: {goal}; change `{key}` under [budget] of the study \
             file"
        ))
    }

    /// The budget keys that would overflow the store with `by` added.
    fn beyond_a_store(&self, by: Extension) -> Vec<&'static str> {
        let before = self.spec.budget.beyond_a_store();
        let mut budget = self.spec.budget.clone();
        budget.extend(by);
        let added = self.state.extension.and(by);
        let added = Budget {
            trials: Some(added.trials),
            time: Some(added.time),
            device_hours: Some(added.device_hours),
            cost: Some(added.cost),
            ..Budget::default()
        };
        let mut keys: Vec<&str> =
            budget.beyond_a_store().into_iter().filter(|key| !before.contains(key)).collect();
        keys.extend(added.beyond_a_store());
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    pub(super) fn continue_trial(&mut self, number: TrialNumber, until: u64) -> Served {
        self.known(number)?;
        let listed =
            |engine: &Self| engine.state.trial(number).map_or(0, |trial| trial.checkpoints.len());
        let before = listed(self);
        self.forget_gone_of(number);
        let gone = before - listed(self);
        let trial = self.known(number)?;
        let (state, last) = (trial.state, trial.last().map_or(0, |(step, _)| step));
        if !TrialControl::Continue.applies_to(state) {
            let not_ended = format!("trial {number} has not ended, it is {}", state.as_str());
            return Err(match state {
                TrialState::Failed => {
                    let why = format!("trial {number} failed");
                    refused(why, "`hpsearch retry` starts it again")
                }
                TrialState::Paused => {
                    refused(not_ended, format!("`hpsearch resume {number}` lets it continue"))
                }
                TrialState::Queued
                | TrialState::Running
                | TrialState::Complete
                | TrialState::Pruned => {
                    refused(not_ended, "wait for its end: `hpsearch watch` shows it")
                }
            });
        }
        let mut problems = Vec::new();
        if until > LARGEST_STEP {
            problems.push(refused(
                format!("{} is beyond the largest one, {LARGEST_STEP}", self.spec.step.at(until)),
                "say an earlier one",
            ));
        }
        if until <= last {
            problems.push(refused(
                format!("trial {number} has reached {}", self.spec.step.at(last)),
                format!("say a later one than {until}"),
            ));
        }
        let trains = matches!(self.spec.program, Program::Trainer { .. });
        if trains && self.spec.step == StepUnit::Samples {
            let why = "a trial that counts samples cannot be continued";
            problems.push(refused(
                why,
                "the trainer's length is in epochs or steps: a study with such a `step` can",
            ));
        }
        if trial.resumable_checkpoint().is_none() {
            let why = match state {
                _ if gone > 0 => "it was removed from the disk",
                TrialState::Pruned => {
                    "a pruned trial keeps none unless `[checkpoints] keep = \"all\"`"
                }
                TrialState::Queued
                | TrialState::Running
                | TrialState::Paused
                | TrialState::Complete
                | TrialState::Failed => {
                    "it saved none, or it is not among those that `[checkpoints] keep` keeps"
                }
            };
            let anew = format!("`hpsearch enqueue --from {number} --again` starts it from scratch");
            problems.push(refused(
                format!("trial {number} has no checkpoint to continue from ({why})"),
                anew,
            ));
        }
        all_of(problems)?;
        let place = self.resume_point(number);
        self.emit(Event::of(number, StateEvent::Continued { until, from: state }));
        self.reopen(format!("trial {number} continues"));
        Ok(self.when(format!("trial {number} continues {place} to {}", self.spec.step.at(until))))
    }
}
