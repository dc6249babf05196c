//! The message that begins an attempt in its child.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{LaunchMode, ProcessLauncher};
use crate::arguments::monitored;
use crate::config::command_line;
use crate::config::trial_values::{self, GroupValues, TrialValues};
use crate::engine::{Assignment, GroupNode};
use crate::pruners::{is_population, prices_pauses};
use crate::runner::launcher::LaunchError;
use crate::runner::protocol::{
    Cloned, CommandJob, LONGEST_LINE, MessageToTrial, TrainJob, TrialJob, WorkerJob,
};
use crate::runner::slot_environment::inside;
use crate::study::params::Params;
use crate::study::program::{ArgsRules, EnvironmentValue, Program};
use crate::study::step::StepUnit;

/// Arguments of the trainer, or its `[data]`.
type Table = BTreeMap<String, serde_json::Value>;

impl ProcessLauncher {
    /// The line that begins an attempt.
    pub(super) fn message(
        &self,
        assignment: &Assignment,
        directory: PathBuf,
        node: Option<&GroupNode>,
    ) -> Result<String, LaunchError> {
        let trial = TrialJob {
            study: self.spec.name.clone(),
            trial: assignment.trial,
            attempt: assignment.attempt,
            params: assignment.params.clone(),
            device: inside(assignment.slot.devices.first()),
            seed: assignment.seed,
            cpu_threads: self.spec.devices.cpu_threads,
            directory,
            resume: assignment.resume.as_ref().map(|checkpoint| checkpoint.path.clone()),
            cloned: assignment.cloned_from.map(|from| Cloned {
                from,
                digest: assignment.resume.as_ref().and_then(|saved| saved.digest.clone()),
            }),
            objectives: self.spec.objective_names(),
            store: self.store.clone(),
        };
        let job = match &self.spec.program {
            Program::Trainer { arguments, data } => {
                WorkerJob::Train(self.training(assignment, trial, (arguments, data)))
            }
            Program::Command { run, cwd, env, args, .. } => {
                let values = values(assignment, &trial.directory, node);
                let words = self.words(assignment, (run, *args), values);
                let env = self.environment(env, assignment, values)?;
                WorkerJob::Command(self.command(assignment, trial, words, (cwd, env)))
            }
            Program::Inline => {
                return Err(LaunchError::Impossible(
                    "this study's objective is a Rust closure: run it from its own program"
                        .to_owned(),
                ));
            }
        };
        let line = serde_json::to_string(&MessageToTrial::Job(Box::new(job))).map_err(|error| {
            // Nothing else in a job can fail to serialise.
            LaunchError::Impossible(format!(
                "a path of this trial is not UTF-8, and paths are passed to programs as text: \
                 rename the directory ({error})"
            ))
        })?;
        if line.len() >= LONGEST_LINE {
            return Err(LaunchError::Impossible(format!(
                "its command and configuration take {} bytes, and {LONGEST_LINE} are too many",
                line.len()
            )));
        }
        Ok(line)
    }

    fn training(
        &self,
        assignment: &Assignment,
        mut trial: TrialJob,
        (arguments, data): (&Table, &Table),
    ) -> TrainJob {
        let mut arguments = arguments.clone();
        if let (true, Some(until)) = (assignment.past_its_end, assignment.until) {
            lengthen(&mut arguments, &mut trial.params, self.spec.step, until);
        }
        TrainJob {
            is_watched: false,
            trial,
            arguments,
            data: data.clone(),
            cache: self.cache.clone(),
            monitored: monitored(&self.spec.objectives).unwrap_or(self.spec.objective()).clone(),
            step_unit: self.spec.step,
            milestones: assignment.milestones.clone(),
            rows_at_once: assignment.rows_at_once,
            // Where the answer to a report may move the pause, it alone decides.
            until: assignment
                .until
                .filter(|_| assignment.past_its_end || !prices_pauses(&self.spec.pruner)),
            reported: assignment.reported,
            in_population: is_population(&self.spec.pruner),
        }
    }

    fn command(
        &self,
        assignment: &Assignment,
        trial: TrialJob,
        run: Vec<String>,
        (cwd, env): (&Path, BTreeMap<String, String>),
    ) -> CommandJob {
        let is_tracked = self.launch_mode == LaunchMode::Foreground;
        CommandJob {
            trial,
            run,
            cwd: cwd.to_owned(),
            env,
            devices: assignment.slot.devices.clone(),
            per_device: self.spec.devices.per_device,
            node: assignment.node.clone(),
            until: assignment.until,
            is_judged: !is_tracked && self.spec.stops_trials(),
            is_tracked,
        }
    }

    /// The variables of an attempt, those of a foreground program as they are written.
    fn environment(
        &self,
        env: &BTreeMap<String, EnvironmentValue>,
        assignment: &Assignment,
        values: TrialValues<'_>,
    ) -> Result<BTreeMap<String, String>, LaunchError> {
        let (space, params) = (&self.spec.space, &assignment.params);
        let filled = env.iter().map(|(name, value)| {
            let value = value.get().ok_or_else(|| unknown_value(name))?;
            Ok((
                name.clone(),
                match self.launch_mode {
                    LaunchMode::Foreground => value.to_owned(),
                    LaunchMode::Slots => trial_values::environment(value, space, params, values),
                },
            ))
        });
        filled.collect()
    }

    /// The command line of an attempt; a foreground program's is literal.
    fn words(
        &self,
        assignment: &Assignment,
        (run, rules): (&[String], ArgsRules),
        values: TrialValues<'_>,
    ) -> Vec<String> {
        if self.launch_mode == LaunchMode::Foreground {
            return run.to_owned();
        }
        command_line::words(run, rules, &self.spec.space, &assignment.params, |name| {
            values.get(name)
        })
    }
}

fn values<'a>(
    assignment: &Assignment,
    directory: &'a Path,
    node: Option<&'a GroupNode>,
) -> TrialValues<'a> {
    TrialValues {
        number: assignment.trial,
        directory,
        seed: assignment.seed,
        group: node.map(|node| GroupValues {
            world_size: node.world_size,
            master_addr: &node.address,
            master_port: node.port,
            nodes: node.nodes,
            node_rank: node.rank,
        }),
    }
}

/// Values are only in the study file.
fn unknown_value(name: &str) -> LaunchError {
    LaunchError::Impossible(format!(
        "the value of the variable `{name}` is not stored: run the study from its file"
    ))
}

/// Extends a built-in trial to `until`, whatever its arguments or parameters say. Its learning rate
/// then follows the schedule of the longer trial.
fn lengthen(arguments: &mut Table, params: &mut Params, step_unit: StepUnit, until: u64) {
    const EPOCHS: &str = "num_train_epochs";
    const STEPS: &str = "max_steps";
    for key in [EPOCHS, STEPS] {
        arguments.remove(key);
        let _not_searched = params.remove(key);
    }
    let key = if step_unit == StepUnit::Step { STEPS } else { EPOCHS };
    arguments.insert(key.to_owned(), until.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_trial_has_one_length_whatever_said_it_before() {
        let said = [("max_steps", 40), ("seed", 1)].map(|(key, value)| (key.into(), value.into()));
        let (mut arguments, mut params) = (BTreeMap::from(said), Params::new());
        params.insert("num_train_epochs", 3i64);
        lengthen(&mut arguments, &mut params, StepUnit::Epoch, 9);
        assert_eq!(
            serde_json::json!(arguments),
            serde_json::json!({"num_train_epochs":9,"seed":1})
        );
        assert!(params.is_empty());
        lengthen(&mut arguments, &mut params, StepUnit::Step, 70);
        assert_eq!(serde_json::json!(arguments), serde_json::json!({"max_steps":70,"seed":1}));
    }
}
