//! Prepares data once, before any trial needs it: reads, checks and tokenises it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::worker_job::{self, OnProgress};
use crate::arguments::{ARGUMENTS, TrainerArguments};
use crate::runner::protocol::WorkerJob;
use crate::runner::worker_job::JobError;
use crate::storage::paths;
use crate::study::constraint::broken;
use crate::study::params::{Params, Value};
use crate::study::program::Program;
use crate::study::space::{Dimension, Distribution};
use crate::study::spec::StudySpec;

/// Prepared data.
#[derive(Clone, Debug, Default)]
pub struct DataPreparation {
    /// Findings about it.
    pub findings: Vec<String>,
    /// Its directory, which includes its tokenizer.
    pub directory: Option<PathBuf>,
}

/// Attempts at a preparation whose worker is killed.
const PREPARATIONS: u32 = 3;

/// Prepares the data of a study; `store` is its store's absolute path.
///
/// # Errors
/// The data is invalid, or the worker failed.
pub fn prepare_data(
    spec: &StudySpec,
    store: &Path,
    on_progress: &mut OnProgress<'_>,
) -> Result<DataPreparation, JobError> {
    let Program::Trainer { arguments, data } = &spec.program else {
        return Ok(DataPreparation::default());
    };
    // The tokenizer's arguments may be searched.
    let point =
        trainable(spec, &Params::new()).unwrap_or_else(|| spec.space.spread(&Params::new(), 0));
    let job = WorkerJob::Prepare {
        arguments: with(arguments, &point),
        data: data.clone(),
        cache: paths::data_cache(spec, store),
        others: other_models(spec).iter().map(|point| with(arguments, point)).collect(),
    };
    let mut tries = 1;
    let mut answer = worker_job::run("preparing the data", job.clone(), on_progress);
    while tries < PREPARATIONS && matches!(answer, Err(JobError::Killed { .. })) {
        tries += 1;
        answer = worker_job::again(job.clone(), on_progress);
    }
    let answer = answer?;
    let undefined = answer["undefined"]["metrics"].as_array().into_iter().flatten();
    let undefined: Vec<&str> = undefined.filter_map(Json::as_str).collect();
    let objective = spec.objectives.iter().find(|one| undefined.contains(&&*one.metric));
    if let Some(objective) = objective {
        return Err(JobError::Failed(format!(
            "`{}` does not measure the model here: {}; give more validation rows, or choose \
             another metric",
            objective.metric,
            answer["undefined"]["why"].as_str().unwrap_or_default()
        )));
    }
    Ok(DataPreparation {
        findings: findings(&answer, spec),
        directory: answer["directory"].as_str().map(PathBuf::from),
    })
}

/// The findings in the answer of a worker that prepared the data of a study.
pub(super) fn findings(answer: &Json, spec: &StudySpec) -> Vec<String> {
    let findings = answer["findings"].as_array().into_iter().flatten();
    findings.filter_map(|finding| in_words(finding, spec)).collect()
}

/// A finding, with what it means for the study's metric.
fn in_words(finding: &Json, spec: &StudySpec) -> Option<String> {
    let message = finding["message"].as_str()?;
    let is_accuracy = spec.objectives.iter().any(|one| one.metric == "eval_accuracy");
    Some(match finding["code"].as_str() {
        Some("imbalance") if is_accuracy => format!(
            "{message}; `metric = \"eval_macro_f1\"` under [study] is more informative \
             than accuracy here"
        ),
        _ => message.to_owned(),
    })
}

/// Arguments that may not fit a model or the data, which is only known once both are read.
const MAY_NOT_FIT: [&str; 7] = [
    "model.pretrained",
    "freeze",
    "freeze_layers",
    "lora_target_modules",
    "class_weights",
    "per_device_train_batch_size",
    "dataloader_drop_last",
];

/// Further configurations whose models are checked: each end and each choice of such an argument,
/// as far as it can be trained.
fn other_models(spec: &StudySpec) -> Vec<Params> {
    let argument = |name: &str| {
        ARGUMENTS.iter().find(|argument| argument.name == name || argument.aliases.contains(&name))
    };
    let searched = spec.space.dimensions().iter().filter(|dimension| {
        argument(&dimension.name).is_some_and(|one| MAY_NOT_FIT.contains(&one.name))
    });
    let points = searched.flat_map(|dimension| {
        let values = match &dimension.distribution {
            Distribution::Choice { choices } => choices.clone(),
            range => vec![range.from_unit(0.0), range.from_unit(1.0)],
        };
        values.into_iter().filter_map(|value| with_value(spec, dimension, value))
    });
    points.collect()
}

/// The first of points spread over the space that has this value, with its parents active, and can
/// be trained; `None` if there is none.
fn with_value(spec: &StudySpec, dimension: &Dimension, value: Value) -> Option<Params> {
    let mut fixed = Params::new();
    fixed.insert(dimension.name.clone(), value);
    for (parent, accepted) in dimension.when.iter().flat_map(|condition| &condition.0) {
        fixed.insert(parent.clone(), accepted.first().cloned().unwrap_or(Value::Bool(true)));
    }
    trainable(spec, &fixed)
}

/// Points tried to find one that can be trained.
const POINTS: u32 = 4_096;

/// The first of points spread over the space, from its middle on, that satisfies the constraints
/// and whose arguments are consistent.
fn trainable(spec: &StudySpec, fixed: &Params) -> Option<Params> {
    let Program::Trainer { arguments, .. } = &spec.program else { return None };
    let is_sound = |point: &Params| {
        broken(&spec.constraints, point).is_none()
            && TrainerArguments::resolve(&with(arguments, point)).is_ok()
    };
    (0..POINTS).map(|index| spec.space.spread(fixed, index)).find(is_sound)
}

/// The fixed arguments and those of a point.
fn with(arguments: &BTreeMap<String, Json>, point: &Params) -> BTreeMap<String, Json> {
    let searched = point.iter().map(|(name, value)| (name.to_owned(), value.to_json()));
    arguments.iter().map(|(name, value)| (name.clone(), value.clone())).chain(searched).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn study(space: &str, rest: &str) -> StudySpec {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("t.csv"), "text,label\na,b\n").unwrap();
        let text = format!(
            "[study]\nmetric = \"eval_loss\"\ndirection = \"minimize\"\n[budget]\ntrials = \
             3\n[trainer]\ntask = \"text-classification\"\n\
             [data]\ntrain = \"t.csv\"\ntext = \"text\"\nlabel = \"label\"\nvalidation_split = \
             0.5\n[space]\n{space}\n{rest}\n"
        );
        config::parse(&text, Path::new("s.toml"), directory.path(), &[])
            .unwrap_or_else(|problems| panic!("{problems}"))
    }

    const FEW: &str =
        "model.hidden_size = { int = [32, 256] }\nmodel.num_heads = { int = [3, 16] }";

    #[test]
    fn data_is_prepared_with_a_configuration_that_can_be_trained() {
        let spec = study(FEW, "");
        let Program::Trainer { arguments, .. } = &spec.program else { panic!() };
        let middle = spec.space.spread(&Params::new(), 0);
        assert!(
            TrainerArguments::resolve(&with(arguments, &middle)).is_err(),
            "{middle}: the middle has to be one that cannot"
        );
        let point = trainable(&spec, &Params::new()).unwrap();
        assert!(TrainerArguments::resolve(&with(arguments, &point)).is_ok(), "{point}");
        // So are the models checked in addition.
        let spec = study(&format!("{FEW}\nfreeze_layers = [0, 1]"), "");
        for other in other_models(&spec) {
            assert!(TrainerArguments::resolve(&with(arguments, &other)).is_ok(), "{other}");
        }
    }

    #[test]
    fn only_accuracy_is_told_that_another_metric_tells_more_of_uneven_labels() {
        let mut spec = study(FEW, "");
        let message = |spec: &StudySpec, code: &str| {
            let finding = serde_json::json!({"code": code, "message": "labels are uneven"});
            in_words(&finding, spec).unwrap()
        };
        for metric in ["eval_macro_f1", "eval_loss"] {
            spec.objectives[0].metric = metric.to_owned();
            assert_eq!(message(&spec, "imbalance"), "labels are uneven");
        }
        spec.objectives[0].metric = "eval_accuracy".to_owned();
        assert!(message(&spec, "imbalance").contains("eval_macro_f1"));
        assert_eq!(message(&spec, "rows"), "labels are uneven");
    }

    #[test]
    fn constraints_are_kept_by_what_data_is_prepared_with() {
        let spec = study(FEW, "[[constraint]]\nrequire = \"model.hidden_size >= 240\"");
        let size = trainable(&spec, &Params::new())
            .and_then(|point| point.get("model.hidden_size")?.as_number());
        assert!(size.is_some_and(|size| size >= 240.0), "{size:?}");
    }
}
