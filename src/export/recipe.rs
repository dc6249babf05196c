//! `best.toml`: the complete recipe to train a model again, in readable form.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ExportError;
use crate::arguments::data_format::is_on_hub;
use crate::arguments::{
    ARGUMENTS, ArgumentProblem, DataArguments, PRETRAINED, TRAIN_LOSS, TaskKind, TrainerArguments,
    monitored,
};
use crate::config::TrainingOverrides;
use crate::config::shown::{drives_a_terminal, one_line};
use crate::engine::{seed_of, seed_of_number};
use crate::runner::inputs;
use crate::study::device::Device;
use crate::study::field;
use crate::study::metric::Direction;
use crate::study::params::{Params, Value};
use crate::study::program::Program;
use crate::study::provenance::SourceFile;
use crate::study::schedule::Stage;
use crate::study::spec::{Milestones, StudySpec, ValueRule};
use crate::study::step::StepUnit;
use crate::study::trial::Trial;

/// A single training, complete: independent of defaults that may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Version of this format.
    pub format: u32,
    /// The study it came from.
    pub study: String,
    /// The trial's number there; absent for a configuration of a study file that is of no trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<u64>,
    /// The study's sampler, if it proposed the trial and is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<String>,
    /// The study's pruner, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruner: Option<String>,
    /// The trial's seed.
    pub seed: u64,
    /// Its device.
    pub device: Device,
    /// The study's metric.
    pub metric: String,
    /// Whether smaller or larger is better.
    pub direction: Direction,
    /// Which report is the value.
    pub rule: ValueRule,
    /// The value reached; absent for NaN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Unit of steps.
    #[serde(rename = "clock")]
    pub step_unit: StepUnit,
    /// Its end before `hpsearch continue`, if its value was reported after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued_after: Option<u64>,
    /// Steps at which it was evaluated, in addition to its arguments.
    pub milestones: Milestones,
    /// The values of several objectives, those of them that are finite.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, f64>,
    /// The searched parameters.
    #[serde(with = "params_in_toml")]
    pub params: Params,
    /// All arguments of the trainer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub trainer: BTreeMap<String, toml::Value>,
    /// The data arguments; paths absolute.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, toml::Value>,
    /// BLAKE3 of the data files and of the pretrained model, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub digests: BTreeMap<String, String>,
    /// The stages of a trial of a population, oldest first; absent where it never copied another.
    /// `seed`, `params` and `trainer` are the last stage's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<RecipeStage>,
    /// The command of a command study, with `{name}` for parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The `hpsearch train` that trained the model; absent for the model of a trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Training>,
}

/// A call of `hpsearch train`, whose model is in no store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// The absolute path of its file.
    pub file: String,
    /// The options that decide what it trains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// A parameter that is not trained with its value in `[params]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Contradiction {
    /// Its name.
    pub name: String,
    /// Its value in `[params]`.
    pub params: Option<String>,
    /// Its value in the other table.
    pub other: Option<String>,
    /// The other table.
    pub table: &'static str,
}

/// A stage of a schedule: some steps with the same parameters and seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeStage {
    /// The trial that trained it.
    pub trial: u64,
    /// Its seed.
    pub seed: u64,
    /// The step after which it starts, from the checkpoint of the stage before; 0: from scratch.
    pub start: u64,
    /// Its last step.
    pub end: u64,
    /// The digest of the checkpoint that it starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Its searched parameters.
    #[serde(with = "params_in_toml")]
    pub params: Params,
}

impl Recipe {
    /// That of an export, where it can be read.
    pub fn of_export(directory: &Path) -> Option<Recipe> {
        toml::from_str(&fs::read_to_string(directory.join("best.toml")).ok()?).ok()
    }

    /// The column of second texts, if its model was trained on pairs of texts.
    pub fn text_pair(&self) -> Option<&str> {
        let named = |key: &str| self.data.get(key)?.as_str();
        match TaskKind::of(&self.trainer_arguments()) {
            TaskKind::QuestionAnswering => named("context").or(Some("context")),
            _ => named("text_pair"),
        }
    }

    /// The column of texts.
    pub fn text(&self) -> Option<&str> {
        let named = |key: &str| self.data.get(key)?.as_str();
        match TaskKind::of(&self.trainer_arguments()) {
            TaskKind::QuestionAnswering => named("question").or(Some("question")),
            _ => named("text"),
        }
    }

    /// The recipe of a trial whose value was reported at `step`, without digests of data.
    pub fn of(
        spec: &StudySpec,
        trial: &Trial,
        step: Option<u64>,
        milestones: Milestones,
    ) -> Result<Recipe, ExportError> {
        let objective = match &spec.program {
            Program::Trainer { .. } => monitored(&spec.objectives).unwrap_or(spec.objective()),
            _ => spec.objective(),
        };
        let mut recipe = Recipe {
            format: 1,
            study: spec.name.clone(),
            trial: Some(trial.number.0),
            sampler: Some(spec.sampler.name.clone()),
            pruner: Some(spec.pruner.name.clone()),
            seed: seed_of(spec, trial),
            device: trial.devices.as_ref().map_or(Device::Cpu, |devices| devices.first().clone()),
            metric: objective.metric.clone(),
            direction: objective.direction,
            rule: spec.value,
            value: trial.value.filter(|value| value.is_finite()),
            step_unit: spec.step,
            continued_after: None,
            milestones,
            values: BTreeMap::new(),
            params: trial.params.clone(),
            trainer: BTreeMap::new(),
            data: BTreeMap::new(),
            digests: BTreeMap::new(),
            schedule: Vec::new(),
            command: Vec::new(),
            training: None,
        };
        match &spec.program {
            Program::Trainer { arguments, data } => {
                let mut values = own_arguments(arguments, trial);
                if let Some((first, until)) = continued(spec, trial, step) {
                    recipe.continued_after = Some(first);
                    values.retain(|key, _| ![EPOCHS, STEPS].contains(&key.as_str()));
                    values.insert(
                        if spec.step == StepUnit::Step { STEPS } else { EPOCHS }.to_owned(),
                        until.into(),
                    );
                }
                recipe.trainer = to_toml(&complete(&values)?)?;
                recipe.data = to_toml(data)?;
            }
            Program::Command { run, .. } => recipe.command.clone_from(run),
            Program::Inline => {}
        }
        Ok(recipe)
    }

    /// The recipe of a trial of a population, whose value is that of the end of `stages`.
    ///
    /// # Errors
    /// As [`Recipe::of`].
    pub fn of_schedule(
        spec: &StudySpec,
        trial: &Trial,
        stages: Vec<Stage>,
        milestones: Milestones,
    ) -> Result<Recipe, ExportError> {
        let last = stages.last().map_or(&trial.params, |stage| &stage.params);
        let trial = Trial { params: last.clone(), ..trial.clone() };
        let step = stages.last().map(|stage| stage.end);
        let recipe = Recipe::of(spec, &trial, step, milestones)?;
        let stage = |stage: Stage| RecipeStage {
            trial: stage.trial.0,
            seed: seed_of_number(spec, stage.trial),
            start: stage.start,
            end: stage.end,
            digest: stage.digest,
            params: stage.params,
        };
        Ok(Recipe { schedule: stages.into_iter().map(stage).collect(), ..recipe })
    }

    /// The text of `best.toml`.
    pub fn to_text(&self) -> Result<String, ExportError> {
        let body = toml::to_string_pretty(self)
            .map_err(|error| ExportError::Format { file: "best.toml", why: error.to_string() })?;
        // TOML allows control characters beyond ASCII, which would affect a terminal. In
        // single-quoted strings there are no escapes.
        let tame: String = body
            .chars()
            .map(|char| {
                if is_tame(char) { char.to_string() } else { format!("\\u{:04X}", u32::from(char)) }
            })
            .collect();
        let body =
            if tame != body && toml::from_str::<Recipe>(&tame).is_ok_and(|read| read == *self) {
                tame
            } else {
                body
            };
        let named = |(name, value): (&String, &f64)| format!("{} {value}", one_line(name));
        let values: Vec<String> = match self.values.is_empty() {
            true => self.value.iter().map(|value| named((&self.metric, value))).collect(),
            false => self.values.iter().map(named).collect(),
        };
        let value =
            if values.is_empty() { "no finite value".to_owned() } else { values.join(", ") };
        let again = match self.continued_after {
            _ if self.trainer.is_empty() && self.schedule.len() > 1 => "\n# `params` are those of \
                the last stage: follow `[[schedule]]`, each stage from the checkpoint of the one \
                before."
                .to_owned(),
            _ if self.trainer.is_empty() => String::new(),
            None => "\n# `hpsearch train best.toml -o DIR` trains it again.".to_owned(),
            Some(first) => format!(
                "\n# {}\n# `hpsearch train best.toml -o DIR` trains one of the whole length.",
                not_the_same(self.step_unit, first)
            ),
        };
        let study = one_line(&self.study);
        let what = match (&self.training, self.trial) {
            (None, Some(trial)) => format!("Trial {trial} of study `{study}`"),
            (None, None) => format!("A configuration of study `{study}`"),
            (Some(_), Some(trial)) => {
                format!("By `hpsearch train`, of trial {trial} of study `{study}`")
            }
            (Some(_), None) => format!("By `hpsearch train`, of no trial of study `{study}`"),
        };
        Ok(format!("# {what}: {value}.{again}\n\n{body}"))
    }

    /// The trainer's arguments in its own format.
    pub fn trainer_arguments(&self) -> BTreeMap<String, serde_json::Value> {
        to_json(&self.trainer)
    }

    /// The data arguments in the trainer's format.
    pub fn data_arguments(&self) -> BTreeMap<String, serde_json::Value> {
        to_json(&self.data)
    }

    /// Whether texts are normalised before they are read.
    pub fn normalizes(&self) -> bool {
        self.data_arguments().get("clean.normalize") == Some(&true.into())
    }

    /// The pretrained model that it begins with, where that is a directory.
    pub fn model(&self) -> Option<PathBuf> {
        let model = PathBuf::from(self.trainer.get(PRETRAINED)?.as_str()?);
        model.is_dir().then_some(model)
    }

    /// The same recipe, or one that exports the model of its last step, if no rows are held out to
    /// choose it by: then only the training loss is known.
    ///
    /// # Errors
    /// An argument depends on validation rows.
    pub fn without_validation(self) -> Result<Self, ArgumentProblem> {
        let data = self.data_arguments();
        if self.trainer.is_empty() || !DataArguments::holds_nothing_out(&data) {
            return Ok(self);
        }
        if let Some(problem) = DataArguments::lacks_validation(&data, &self.trainer_arguments()) {
            return Err(problem);
        }
        let comparable = self.metric == TRAIN_LOSS;
        Ok(Self {
            metric: TRAIN_LOSS.to_owned(),
            direction: Direction::Minimize,
            rule: ValueRule::Last,
            value: self.value.filter(|_| comparable),
            values: BTreeMap::new(),
            ..self
        })
    }

    /// The verb that uses its model.
    pub fn verb(&self) -> &'static str {
        match TaskKind::of(&self.trainer_arguments()) {
            TaskKind::LanguageModeling => "hpsearch generate",
            TaskKind::Translation => "hpsearch translate",
            _ => "hpsearch predict",
        }
    }

    /// The arguments of that verb behind the directory, as an example.
    pub fn example(&self) -> &'static str {
        match TaskKind::of(&self.trainer_arguments()) {
            TaskKind::MaskedLanguageModeling => "\"some [MASK] text\"",
            TaskKind::QuestionAnswering => "\"a question\" --text-pair \"its context\"",
            _ if self.text_pair().is_some() => "\"some text\" --text-pair \"another\"",
            _ => "\"some text\"",
        }
    }

    /// The first parameter that is not trained with its value in `[params]`, if there is one.
    pub fn contradiction(&self) -> Option<Contradiction> {
        let shown = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if let Some(last) = self.schedule.last() {
            let names = self.params.iter().chain(last.params.iter()).map(|(name, _)| name);
            for name in names {
                let values = [&self.params, &last.params].map(|params| params.get(name));
                let is_same = matches!(values, [Some(one), Some(other)] if one.same(other));
                if !is_same {
                    let [params, other] =
                        values.map(|value| value.map(|value| shown(&value.to_json())));
                    let table = "[[schedule]]";
                    return Some(Contradiction { name: name.to_owned(), params, other, table });
                }
            }
        }
        if self.trainer.is_empty() {
            return None;
        }
        let mut trained = self.trainer_arguments();
        let mut asked = trained.clone();
        let params = self.params.iter();
        asked.extend(params.map(|(name, value)| (name.to_owned(), value.to_json())));
        // In one form, unless an edited value is invalid.
        if let (Ok(one), Ok(other)) = (complete(&trained), complete(&asked)) {
            (trained, asked) = (one, other);
        }
        let is_lengthened =
            |name: &str| self.continued_after.is_some() && [EPOCHS, STEPS].contains(&name);
        let mut names = asked.keys().chain(trained.keys());
        let name = names
            .find(|name| asked.get(*name) != trained.get(*name) && !is_lengthened(name.as_str()))?;
        let [params, other] = [&asked, &trained].map(|values| values.get(name).map(shown));
        Some(Contradiction { name: name.clone(), params, other, table: "[trainer]" })
    }

    /// Whether the stages of a schedule set an argument of the trainer.
    pub fn is_staged(&self, argument: &str) -> bool {
        let mut params = self.schedule.iter().map(|stage| &stage.params);
        params.any(|params| name_in(params, argument).is_some())
    }

    /// Replaces arguments of the trainer, and with them parameters, and arguments of the data.
    ///
    /// # Errors
    /// A value that TOML cannot hold.
    pub fn set(&mut self, overrides: &TrainingOverrides) -> Result<(), ExportError> {
        for (argument, value) in &overrides.trainer {
            if let Some(name) = name_in(&self.params, argument)
                && let Some(value) = Value::from_json(value)
            {
                self.params.insert(name, value);
            }
        }
        self.data.retain(|key, _| !overrides.dropped.contains(&key.as_str()));
        self.trainer.extend(to_toml(&overrides.trainer)?);
        self.data.extend(to_toml(&overrides.data)?);
        Ok(())
    }

    /// Makes paths of data that were edited absolute; they are relative to the file's `directory`.
    ///
    /// # Errors
    /// There is no current directory.
    pub fn make_absolute(&mut self, directory: &Path) -> io::Result<()> {
        for split in SourceFile::DATA {
            let path = self.data.get_mut(split);
            let named = path.and_then(|path| Some((path.as_str().map(PathBuf::from)?, path)));
            if let Some((path, place)) = named.filter(|(path, _)| !is_on_hub(path)) {
                let path = std::path::absolute(directory.join(path))?;
                *place = path.display().to_string().into();
            }
        }
        Ok(())
    }

    /// The searched parameters with the values that are trained: a continued trial is longer.
    pub fn trained_params(&self) -> Params {
        let mut params = self.params.clone();
        if self.continued_after.is_some() {
            let arguments = self.trainer_arguments();
            let values = [EPOCHS, STEPS].into_iter().filter_map(|name| {
                self.params.get(name)?;
                Some((name, Value::from_json(arguments.get(name)?)?))
            });
            values.for_each(|(name, value)| params.insert(name, value));
        }
        params
    }

    /// Data files, and a pretrained model, whose contents have changed; those that are not read any
    /// more are left out.
    pub fn changed_files(&self) -> Vec<PathBuf> {
        let model = self.model();
        let data = SourceFile::DATA.into_iter().filter_map(|split| self.data.get(split));
        let read: Vec<&str> =
            data.chain(self.trainer.get(PRETRAINED)).filter_map(toml::Value::as_str).collect();
        let changed = |(path, digest): &(&String, &String)| {
            let path = Path::new(path);
            let found = if model.as_deref() == Some(path) {
                inputs::described(SourceFile::MODEL, path).digest
            } else {
                inputs::data_digest(path).ok()
            };
            found.as_ref() != Some(*digest)
        };
        let read = self.digests.iter().filter(|(path, _)| read.contains(&path.as_str()));
        read.filter(changed).map(|(path, _)| PathBuf::from(path)).collect()
    }
}

/// The name in `params` of an argument of the trainer, which may be one of its aliases.
fn name_in(params: &Params, argument: &str) -> Option<String> {
    let name = |own: &str| field::find(ARGUMENTS, own).map(|field| field.name);
    let mut names = params.iter().map(|(own, _)| own);
    names.find(|own| name(own) == Some(argument)).map(str::to_owned)
}

/// Whether a character may appear unescaped.
fn is_tame(char: char) -> bool {
    matches!(char, '\n' | '\t') || !drives_a_terminal(char)
}

const EPOCHS: &str = "num_train_epochs";
const STEPS: &str = "max_steps";

/// The first end and the final length of a built-in trial, if its value at `step` was reported
/// after it continued.
pub fn continued(spec: &StudySpec, trial: &Trial, step: Option<u64>) -> Option<(u64, u64)> {
    let Program::Trainer { arguments, .. } = &spec.program else { return None };
    let values = complete(&own_arguments(arguments, trial)).ok()?;
    let steps = values.get(STEPS).and_then(serde_json::Value::as_u64).filter(|steps| *steps > 0);
    let first = match spec.step {
        StepUnit::Step => steps?,
        StepUnit::Epoch if steps.is_none() => whole(values.get(EPOCHS)?.as_f64()?),
        StepUnit::Epoch | StepUnit::Samples => return None,
    };
    let step = step.filter(|step| *step > first)?;
    Some((first, trial.until.unwrap_or(step).max(step)))
}

/// A note that training from the start differs from a continued trial.
pub fn not_the_same(step_unit: StepUnit, first: u64) -> String {
    format!(
        "It ended at {} {first} and was continued: its learning rate changed there, and a \
         training from the start may differ.",
        step_unit.as_str()
    )
}

/// A started epoch counts.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a checked positive number, saturating"
)]
fn whole(epochs: f64) -> u64 {
    epochs.ceil() as u64
}

/// The study's arguments with the trial's own parameters.
fn own_arguments(
    arguments: &BTreeMap<String, serde_json::Value>,
    trial: &Trial,
) -> BTreeMap<String, serde_json::Value> {
    let mut values = arguments.clone();
    values.extend(trial.params.iter().map(|(name, value)| (name.to_owned(), value.to_json())));
    values
}

/// All arguments with their values, flat with dotted names: later versions with other defaults
/// train the same model.
fn complete(
    values: &BTreeMap<String, serde_json::Value>,
) -> Result<BTreeMap<String, serde_json::Value>, ExportError> {
    let failed = |why: String| ExportError::Format { file: "best.toml", why };
    let resolved = TrainerArguments::resolve(values).map_err(|problems| {
        failed(
            problems
                .iter()
                .map(|problem| format!("{}: {}", problem.key, problem.message))
                .collect::<Vec<_>>()
                .join("; "),
        )
    })?;
    let json = serde_json::to_value(&resolved).map_err(|error| failed(error.to_string()))?;
    let mut flat = BTreeMap::new();
    flatten("", &json, &mut flat);
    flat.retain(|_, value| !value.is_null());
    Ok(flat)
}

fn flatten(prefix: &str, json: &serde_json::Value, into: &mut BTreeMap<String, serde_json::Value>) {
    let serde_json::Value::Object(object) = json else {
        into.insert(prefix.to_owned(), json.clone());
        return;
    };
    for (key, value) in object {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        flatten(&name, value, into);
    }
}

fn to_toml(
    values: &BTreeMap<String, serde_json::Value>,
) -> Result<BTreeMap<String, toml::Value>, ExportError> {
    let convert = |(name, value): (&String, &serde_json::Value)| {
        let value = toml::Value::try_from(value).map_err(|error| ExportError::Format {
            file: "best.toml",
            why: format!("{name}: {error}"),
        })?;
        Ok((name.clone(), value))
    };
    values.iter().filter(|(_, value)| !value.is_null()).map(convert).collect()
}

fn to_json(values: &BTreeMap<String, toml::Value>) -> BTreeMap<String, serde_json::Value> {
    let convert = |(name, value): (&String, &toml::Value)| {
        Some((name.clone(), serde_json::to_value(value).ok()?))
    };
    values.iter().filter_map(convert).collect()
}

/// Parameters as study files have them: no value is `{ none = true }`, since TOML has no null.
mod params_in_toml {
    use std::collections::BTreeMap;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::json;

    use crate::study::params::{Params, Value};

    pub fn serialize<S: Serializer>(params: &Params, serializer: S) -> Result<S::Ok, S::Error> {
        let written = |value: &Value| match value {
            Value::Null => json!({ "none": true }),
            value => value.to_json(),
        };
        let written: BTreeMap<_, _> =
            params.iter().map(|(name, value)| (name, written(value))).collect();
        written.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Params, D::Error> {
        let read = |(name, value): (String, serde_json::Value)| {
            let value = match value == json!({ "none": true }) {
                true => Some(Value::Null),
                false => Value::from_json(&value).filter(|value| *value != Value::Null),
            };
            let value = value.ok_or_else(|| {
                D::Error::custom(format!(
                    "`{name}` is not a number, text, boolean, list of these, or `{{ none = true }}`"
                ))
            })?;
            Ok((name, value))
        };
        let written = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
        written.into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests;
