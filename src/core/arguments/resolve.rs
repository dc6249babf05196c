//! Resolves the arguments of a training run: what was given, defaults, and every problem at once.

use std::collections::BTreeMap;

use serde_json::Value;

use super::contradictions::contradictions;
use super::defaults::{fill_in, start_from_pretrained};
use super::problem::ArgumentProblem;
use super::table::{given, merge, of_other_tasks};
use super::tasks::TaskKind;
use super::trainer_table::ARGUMENTS;
use super::training::TrainerArguments;

impl TrainerArguments {
    /// Complete arguments from what was given, keys dotted (`model.hidden_size`) or nested.
    ///
    /// # Errors
    /// All problems at once, sorted by key: unknown keys, wrong types, values out of range,
    /// contradictions.
    pub fn resolve(values: &BTreeMap<String, Value>) -> Result<Self, Vec<ArgumentProblem>> {
        let (mut merged, mut problems) = merge(ARGUMENTS, values);
        let task = merged.get("task").map(TaskKind::named).unwrap_or_default();
        let given = given(ARGUMENTS, values);
        problems.extend(of_other_tasks(&given, task));
        if !merged["model"]["pretrained"].is_null() {
            problems.extend(start_from_pretrained(&mut merged, &given));
        }
        fill_in(&mut merged, &given, task);
        // Rejected values are null or at their default here, so only valid ones follow.
        match serde_json::from_value::<Self>(Value::Object(merged)) {
            Ok(arguments) => {
                problems.extend(contradictions(&arguments, &given, &problems));
                if problems.is_empty() { Ok(arguments) } else { Err(problems) }
            }
            Err(error) => {
                problems.push(ArgumentProblem::new(
                    "task",
                    format!("the argument table and the arguments disagree: {error}"),
                ));
                Err(problems)
            }
        }
    }
}
