//! Models whose predictions are of tokens or vectors, against transformers.

use std::any::Any;

use burn::tensor::{Device, Tensor};

use super::super::batch::{Batch, labelled_tokens};
use super::super::encoder_model::EncoderModel;
use super::super::layers::{ForwardContext, cross_entropy};
use super::super::masked_language_modeling::MaskedLanguageModeling;
use super::super::parameters::Values;
use super::super::prepared::{Description, Extra, NO_LABEL, QuestionsAbout};
use super::super::pretrained_weights::load_trained;
use super::super::question_answering::QuestionAnswering;
use super::super::sentence_similarity::SentenceSimilarity;
use super::super::task::{EvaluationSet, MicroBatch, Model};
use super::super::tasks::read_model;
use super::super::token_classification::TokenClassification;
use super::golden::{
    Comparison, close, config_of, golden_directory, integers, plain, with_all_numbers, with_numbers,
};
use super::*;

/// A directory of `golden/`, on a device.
struct Golden<'a> {
    device_name: &'a str,
    device: Device,
    /// `golden.json`.
    expected: Value,
    model: Box<dyn Model>,
    values: Values,
    /// The labels of each token.
    labels: Vec<Vec<u32>>,
}

fn rows_of_integers(rows: &Value) -> Vec<Vec<u32>> {
    rows.as_array().into_iter().flatten().map(integers).collect()
}

impl<'a> Golden<'a> {
    fn on(device_name: &'a str, name: &str) -> Self {
        let (source, device) = (golden_directory(name), device::open(device_name).unwrap());
        let expected = json_of(&source.join("golden.json"));
        let model = read_model(config_of(&source)).unwrap();
        let values = load_trained(&source, &*model, &device).unwrap();
        let label =
            |label: &Value| label.as_u64().map_or(NO_LABEL, |id| u32::try_from(id).unwrap());
        let of_row = |row: &Value| row.as_array().unwrap().iter().map(label).collect();
        let labels = expected["labels"].as_array().into_iter().flatten().map(of_row).collect();
        Self { device_name, device, expected, model, values, labels }
    }

    fn model<M: 'static>(&self) -> &M {
        let model: &dyn Any = &*self.model;
        model.downcast_ref().expect("the class of config.json tells the task")
    }

    fn texts(&self) -> Vec<Vec<u32>> {
        rows_of_integers(&self.expected["texts"])
    }

    /// Compares the logits of labelled tokens, which `logits` computes, and all that follows.
    fn tokens_are_transformers(
        &self,
        logits: &dyn Fn(&ForwardContext, &Batch, &[usize]) -> Tensor<2>,
        loss: &dyn Fn(&ForwardContext, &[usize]) -> Tensor<1>,
    ) {
        let (tokens, _) = labelled_tokens(self.labels.iter().cloned(), 100);
        let context = ForwardContext::evaluation(&self.values, &self.device);
        self.is_transformers(logits(&context, &Batch::new(self.texts()), &tokens), loss);
    }

    /// Compares logits, and all that follows.
    fn is_transformers(
        &self,
        logits: Tensor<2>,
        loss: &dyn Fn(&ForwardContext, &[usize]) -> Tensor<1>,
    ) {
        Comparison {
            device_name: self.device_name,
            device: &self.device,
            expected: &self.expected,
            parameters: self.model.parameters(),
            values: &self.values,
            loss,
        }
        .run(logits, self.texts().len());
    }
}

fn labels_of_words_are_transformers(device_name: &str, name: &str) {
    let golden = Golden::on(device_name, name);
    let model: &EncoderModel<TokenClassification> = golden.model();
    let rows: Vec<_> = golden.texts().into_iter().map(|ids| (ids, 0)).collect();
    let labels = ["LABEL_0", "LABEL_1", "LABEL_2"].map(str::to_owned).to_vec();
    let description = Description { labels, ..plain(rows.len()) };
    let directory = TempDir::new().unwrap();
    let data = with_numbers(directory.path(), &rows, description, (Extra::Labels, &golden.labels));
    assert!(model.is_compatible(&data) && model.tensor_names().keeps_labels);
    golden.tokens_are_transformers(
        &|context, batch, tokens| model.logits(context, batch, tokens),
        &|context, rows| model.forward_loss(context, &MicroBatch::whole_step(model, &data, rows)),
    );
    let set = EvaluationSet { split: Split::Validation, batch: 3, limit: None, writing: None };
    let metrics = model.measure(&golden.values, &golden.device, &data, &set, &|_, _| {}).unwrap();
    let loss = golden.expected["loss"].as_f64().unwrap();
    close("the loss of an evaluation", metrics["loss"], loss, on(device_name, 1e-4));
}

fn hidden_tokens_are_transformers(device_name: &str, name: &str) {
    let golden = Golden::on(device_name, name);
    let model: &EncoderModel<MaskedLanguageModeling> = golden.model();
    let texts = golden.texts();
    golden.tokens_are_transformers(
        &|context, batch, tokens| model.logits(context, batch, tokens),
        &|context, rows| {
            let batch = Batch::new(rows.iter().map(|row| texts[*row].clone()).collect());
            let labels = rows.iter().map(|row| golden.labels[*row].clone());
            let (tokens, targets) = labelled_tokens(labels, 100);
            let share = 1.0 / targets.len() as f64;
            cross_entropy(model.logits(context, &batch, &tokens), targets.into(), 0.0, share)
        },
    );
}

fn similarities_are_transformers(device_name: &str, name: &str) {
    let golden = Golden::on(device_name, name);
    let model: &EncoderModel<SentenceSimilarity> = golden.model();
    let rows: Vec<_> = golden.texts().into_iter().map(|ids| (ids, 0)).collect();
    let second = rows_of_integers(&golden.expected["second_texts"]);
    let directory = TempDir::new().unwrap();
    let data =
        with_numbers(directory.path(), &rows, plain(rows.len()), (Extra::SecondTexts, &second));
    let context = ForwardContext::evaluation(&golden.values, &golden.device);
    let vectors = |texts: Vec<Vec<u32>>| model.vectors(&context, &Batch::new(texts));
    let cosines = vectors(golden.texts()).matmul(vectors(second.clone()).transpose());
    golden.is_transformers(cosines * 20.0, &|context, rows| {
        model.forward_loss(context, &MicroBatch::whole_step(model, &data, rows))
    });
    let set = EvaluationSet { split: Split::Validation, batch: 3, limit: None, writing: None };
    let metrics = model.measure(&golden.values, &golden.device, &data, &set, &|_, _| {}).unwrap();
    let loss = golden.expected["loss"].as_f64().unwrap();
    close("the loss of an evaluation", metrics["loss"], loss, on(device_name, 1e-4));
}

fn answers_are_transformers(device_name: &str, name: &str) {
    let golden = Golden::on(device_name, name);
    let model: &EncoderModel<QuestionAnswering> = golden.model();
    let rows: Vec<_> = golden.texts().into_iter().map(|ids| (ids, 0)).collect();
    let of_texts = |number: u32| -> Vec<Vec<u32>> {
        rows.iter().map(|(ids, _)| vec![number; ids.len()]).collect()
    };
    let answers: Vec<Vec<u32>> = (0..)
        .zip(rows_of_integers(&golden.expected["answers"]))
        .map(|(number, answer)| [vec![number], answer].concat())
        .collect();
    let asked = QuestionsAbout { longest_answer: 30, may_be_unanswerable: false };
    let description = Description { questions: Some(asked), ..plain(rows.len()) };
    let (types, places) = (of_texts(0), of_texts(NO_LABEL));
    let all = [
        (Extra::TokenTypes, &types[..]),
        (Extra::ContextBegins, &places),
        (Extra::ContextEnds, &places),
        (Extra::Answers, &answers),
    ];
    let directory = TempDir::new().unwrap();
    let data = with_all_numbers(directory.path(), &rows, description, &all);
    let references = "{\"context\": \"\", \"answers\": []}\n".repeat(rows.len());
    fs::write(data.directory().join("validation.questions"), references).unwrap();
    assert!(model.is_compatible(&data) && model.tensor_names().keeps_labels);
    let context = ForwardContext::evaluation(&golden.values, &golden.device);
    golden
        .is_transformers(model.logits(&context, &Batch::new(golden.texts())), &|context, rows| {
            model.forward_loss(context, &MicroBatch::whole_step(model, &data, rows))
        });
    let set = EvaluationSet { split: Split::Validation, batch: 3, limit: None, writing: None };
    let metrics = model.measure(&golden.values, &golden.device, &data, &set, &|_, _| {}).unwrap();
    let loss = golden.expected["loss"].as_f64().unwrap();
    close("the loss of an evaluation", metrics["loss"], loss, on(device_name, 1e-4));
    // Without a token of a context there is no answer, which is right here.
    assert_eq!(metrics["exact_match"], 1.0);
}

macro_rules! models {
    ($compare:ident; $($test:ident: $name:literal),*) => {$(
        #[test]
        fn $test() {
            each_device(|device_name| $compare(device_name, $name));
        }
    )*};
}

models! {
    labels_of_words_are_transformers;
    bert_for_tokens_is_transformers: "bert-tokens",
    roberta_for_tokens_is_transformers: "roberta-tokens",
    distilbert_for_tokens_is_transformers: "distilbert-tokens",
    electra_for_tokens_is_transformers: "electra-tokens",
    albert_for_tokens_is_transformers: "albert-tokens",
    modernbert_for_tokens_is_transformers: "modernbert-tokens",
    deberta_for_tokens_is_transformers: "deberta-v2-tokens"
}

models! {
    hidden_tokens_are_transformers;
    bert_for_masks_is_transformers: "bert-masked",
    roberta_for_masks_is_transformers: "roberta-masked",
    distilbert_for_masks_is_transformers: "distilbert-masked",
    electra_for_masks_is_transformers: "electra-masked",
    albert_for_masks_is_transformers: "albert-masked",
    modernbert_for_masks_is_transformers: "modernbert-masked",
    deberta_for_masks_is_transformers: "deberta-v2-masked"
}

models! {
    answers_are_transformers;
    bert_for_answers_is_transformers: "bert-answers",
    roberta_for_answers_is_transformers: "roberta-answers",
    distilbert_for_answers_is_transformers: "distilbert-answers",
    electra_for_answers_is_transformers: "electra-answers",
    albert_for_answers_is_transformers: "albert-answers",
    modernbert_for_answers_is_transformers: "modernbert-answers",
    deberta_for_answers_is_transformers: "deberta-v2-answers"
}

models! {
    similarities_are_transformers;
    bert_for_similarities_is_transformers: "bert-similarity"
}
