//! The table of tasks, and the models that they make. A task is one file and one line of [`TASKS`].

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::encoder_model::EncoderTask;
use super::language_modeling::LanguageModeling;
use super::masked_language_modeling::MaskedLanguageModeling;
use super::question_answering::QuestionAnswering;
use super::sentence_similarity::SentenceSimilarity;
use super::sequence_classification::SequenceClassification;
use super::sequence_to_sequence::SequenceToSequence;
use super::task::{Model, Task};
use super::token_classification::TokenClassification;
use super::{PreparedData, TrainerError, quantization};
use hpsearch_core::arguments::{ModelArguments, TaskKind};

/// All tasks.
static TASKS: &[&dyn Task] = &[
    &EncoderTask::<SequenceClassification>::new(TaskKind::TextClassification),
    &EncoderTask::<SequenceClassification>::new(TaskKind::MultiLabelClassification),
    &EncoderTask::<SequenceClassification>::new(TaskKind::TextRegression),
    &EncoderTask::<TokenClassification>::new(TaskKind::TokenClassification),
    &EncoderTask::<QuestionAnswering>::new(TaskKind::QuestionAnswering),
    &EncoderTask::<SentenceSimilarity>::new(TaskKind::SentenceSimilarity),
    &EncoderTask::<MaskedLanguageModeling>::new(TaskKind::MaskedLanguageModeling),
    &LanguageModeling,
    &SequenceToSequence(TaskKind::Translation),
    &SequenceToSequence(TaskKind::Summarization),
    &SequenceToSequence(TaskKind::TextToText),
];

/// The task of a kind.
pub(super) fn task(kind: TaskKind) -> &'static dyn Task {
    *TASKS
        .iter()
        .find(|task| task.kind() == kind)
        .expect("every kind has a task: a test goes through them")
}

/// The model that arguments ask for: pretrained, or from scratch.
pub(super) fn new_model(
    kind: TaskKind,
    arguments: &ModelArguments,
    data: &PreparedData,
) -> Result<Box<dyn Model>, TrainerError> {
    let Some(directory) = &arguments.pretrained else {
        return task(kind).new_model(arguments, data).map_err(|problem| {
            TrainerError::arguments(format!("the model that the arguments ask for {problem}"))
        });
    };
    task(kind)
        .pretrained_model(data.pretrained_config()?, arguments, data)
        .map_err(|problem| TrainerError::config(Path::new(directory), &problem))
}

/// The model that a `config.json` describes, or the end of a sentence about what is wrong with it.
pub(super) fn read_model(config: Map<String, Value>) -> Result<Box<dyn Model>, String> {
    let config = quantization::without_quantization(config)?;
    let model_type = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
    let classes = config.get("architectures").and_then(Value::as_array);
    let class = classes.and_then(|classes| classes.first()?.as_str()).unwrap_or_default();
    let mut of_type = TASKS.iter().filter(|task| task.model_types().contains(&model_type));
    let first = of_type.clone().next();
    match of_type.find(|task| task.has_class(class)).or(first) {
        Some(task) => task.read_model(config),
        None => {
            let known: BTreeSet<&str> = TASKS.iter().flat_map(|task| task.model_types()).collect();
            let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            Err(format!("has `model_type` = \"{model_type}\"; known are {}", known.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hpsearch_core::arguments::{DECODER_TYPES, ENCODER_TYPES, TRAINER_TASKS};

    #[test]
    fn every_task_that_is_listed_can_be_trained_and_reads_its_own_models() {
        for line in TRAINER_TASKS {
            assert_eq!(task(line.kind).kind(), line.kind);
            assert_eq!(line.kind.line().name, line.name);
            assert_eq!(serde_json::to_value(line.kind).unwrap(), line.name);
        }
        assert_eq!(TASKS.len(), TRAINER_TASKS.len());
        assert_eq!(task(TaskKind::TextClassification).model_types(), ENCODER_TYPES);
        assert_eq!(task(TaskKind::LanguageModeling).model_types(), DECODER_TYPES);
    }

    #[test]
    fn a_model_of_an_unknown_type_is_refused_with_those_known() {
        let config = serde_json::json!({"model_type": "t6"});
        let problem = read_model(config.as_object().unwrap().clone()).err().unwrap();
        assert_eq!(
            problem,
            "has `model_type` = \"t6\"; known are `albert`, `bart`, `bert`, `deberta-v2`, \
             `distilbert`, `electra`, `gemma`, `gpt2`, `hpsearch-encoder`, `llama`, `marian`, \
             `mistral`, `modernbert`, `mt5`, `phi`, `phi3`, `qwen2`, `qwen3`, `roberta`, `t5`, \
             `xlm-roberta`"
        );
    }
}
