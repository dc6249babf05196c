//! The README of an export: a model card with data, arguments, metrics, and the study.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::recipe::{Recipe, Training};
use super::{Exported, Holds, Quantized};
use crate::arguments::TaskKind;
use crate::config::shell;
use crate::config::shown::lines;
use crate::study::metric::Metrics;
use crate::study::spec::{Objective, ValueRule};
use crate::study::state::shown_params;

/// The text of the card: what the model is, how it was found and how to use it.
pub(super) fn card(exported: &Exported<'_>) -> String {
    let Exported { spec, trial, metrics, recipe, .. } = exported;
    let mut text = String::new();
    if !recipe.trainer.is_empty() {
        text.push_str(&front_matter(exported));
    }
    let objective = spec.objective();
    let title = match (&recipe.training, recipe.trial) {
        (None, _) => format!("trial {}", trial.number),
        (Some(_), Some(trial)) => format!("trial {trial}, trained again"),
        (Some(_), None) => "one training".to_owned(),
    };
    let _infallible = writeln!(text, "# {}: {title}\n", spec.name);
    if let Some(description) = &spec.description {
        let _infallible = writeln!(text, "{description}\n");
    }
    origin(&mut text, recipe);
    if !recipe.trainer.is_empty() {
        let _infallible =
            writeln!(text, "Its task is {}.", in_words(TaskKind::of(&recipe.trainer_arguments())));
    }
    if spec.has_several_objectives() {
        let named = |objective: &Objective| {
            format!("`{}` ({})", objective.metric, objective.direction.as_str())
        };
        let objectives: Vec<String> = spec.objectives.iter().map(named).collect();
        let _infallible = writeln!(
            text,
            "It is on the front of {}, where it reached {}.\n",
            objectives.join(", "),
            trial.values.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
        );
    } else {
        let chosen = if recipe.training.is_some() { "measured" } else { "chosen" };
        let _infallible = writeln!(
            text,
            "It was {chosen} by `{}` ({}), {}.\n",
            objective.metric,
            objective.direction.as_str(),
            reached(exported)
        );
    }
    table(
        &mut text,
        ["metric", "value"],
        metrics.iter().map(|(name, value)| (name, value.to_string())),
    );
    table(
        &mut text,
        ["parameter", "value"],
        recipe.params.iter().map(|(name, value)| (name, value.to_string())),
    );
    if recipe.schedule.len() > 1 {
        let _infallible = writeln!(
            text,
            "These are the parameters of the last of {} stages; `[[schedule]]` in `best.toml` has \
             those of each.",
            recipe.schedule.len()
        );
    }
    if !recipe.trainer.is_empty() {
        text.push_str("\n## Use\n\n");
        let _infallible = writeln!(
            text,
            "    {} . {}\n    hpsearch train best.toml -o again",
            recipe.verb(),
            recipe.example()
        );
        if let Some(quantized) = &exported.quantized {
            weights(&mut text, quantized, metrics);
        }
        text.push_str("\n## Data\n\n");
        rows(&mut text, ["argument", "value"], &recipe.data);
        for (path, digest) in &recipe.digests {
            let _infallible = writeln!(text, "\n`{path}`: BLAKE3 `{digest}`");
        }
        text.push_str("\n## Arguments\n\n");
        rows(&mut text, ["argument", "value"], &recipe.trainer);
    }
    leaders(&mut text, exported);
    text.push_str(
        "\n`best.toml` holds every argument, the data's paths and digests and the seed; \
        `metrics.json` the figures above.\n",
    );
    lines(&text)
}

/// How the model was made, as far as that is known.
fn origin(text: &mut String, recipe: &Recipe) {
    let search = recipe.sampler.as_ref().zip(recipe.pruner.as_ref());
    let search = search
        .map(|(sampler, pruner)| format!("with the sampler `{sampler}` and the pruner `{pruner}`"));
    let Some(Training { file, options }) = &recipe.training else {
        if let Some(search) = search {
            let _infallible = writeln!(text, "Found by hpsearch {search}.");
        }
        return;
    };
    let options = match options.is_empty() {
        true => String::new(),
        false => format!(" with `{}`", shell::quoted(options)),
    };
    let study = &recipe.study;
    let from = match (recipe.trial, search) {
        (Some(trial), Some(search)) => {
            format!(", the file of trial {trial} of the study `{study}`, found {search}")
        }
        (Some(trial), None) => format!(", the file of trial {trial} of the study `{study}`"),
        (None, _) => format!(": it is of no trial of the study `{study}`"),
    };
    let _infallible = writeln!(text, "Trained by `hpsearch train` from `{file}`{options}{from}.");
}

/// The name of a task on the Hub, and in `config.json`.
fn in_words(task: TaskKind) -> &'static str {
    match task {
        TaskKind::TextClassification => {
            "text classification: one label per text (`single_label_classification`)"
        }
        TaskKind::MultiLabelClassification => {
            "multi-label text classification: any number of labels per text \
             (`multi_label_classification`)"
        }
        TaskKind::TextRegression => "text regression: a number per text (`regression`)",
        TaskKind::TokenClassification => {
            "token classification: a label per word, by its first token"
        }
        TaskKind::QuestionAnswering => {
            "question answering: the part of a context that answers a question (extractive)"
        }
        TaskKind::SentenceSimilarity => {
            "sentence similarity: a vector per text, the mean of its tokens', compared by cosine"
        }
        TaskKind::MaskedLanguageModeling => "masked language modeling: the hidden tokens of a text",
        TaskKind::LanguageModeling => {
            "text generation: the next token of a text (causal language modeling)"
        }
        TaskKind::Translation => "translation: a text in another language",
        TaskKind::Summarization => "summarization: a summary of a text",
        TaskKind::TextToText => "text to text: a text written for each text",
    }
}

/// The value, and the checkpoint's step if it is another one.
fn reached(exported: &Exported<'_>) -> String {
    let in_words =
        |value: Option<f64>| value.map_or("no value".to_owned(), |value| format!("{value}"));
    let (value, step_unit) = (in_words(exported.trial.value), exported.spec.step.as_str());
    let at = exported.step.map_or(String::new(), |step| format!(" at {step_unit} {step}"));
    match exported.holds {
        Holds::Value if exported.spec.value == ValueRule::Mean => {
            format!("where the mean of its reports is {value}; the checkpoint is of the last one")
        }
        Holds::Value => format!("where it reached {value}"),
        Holds::Another { step, value: held } => {
            format!(
                "and **holds {step_unit} {step}, where it had {}**: the trial's value is \
                 {value}{at}, of which there is no checkpoint",
                in_words(held)
            )
        }
        Holds::Unknown { registered } => format!(
            "and **which {step_unit} it holds is not known**: it was changed after it was \
             registered at {step_unit} {registered}; the trial's value is {value}{at}"
        ),
    }
}

/// The quantization of the weights, and its cost.
fn weights(text: &mut String, quantized: &Quantized, after: &Metrics) {
    let Quantized { format, before, bytes: [large, small] } = quantized;
    let _infallible = writeln!(
        text,
        "\n## Weights\n\n8-bit integers with a scale for each channel (`{}`), \
         {small} bytes\n\
         instead of {large}: in `model.safetensors` a weight is\n\
         `<name>` (I8) times `<name>_scale` (F32); biases and norms are F32. `hpsearch predict`, \
         `generate` and\n\
         a study's `model` read them as they are. transformers refuses this directory, for it \
         does not know the\n\
         `model_type` `hpsearch-int8`: `hpsearch export` without `--quantize` writes one that it \
         loads.\n",
        format.word(),
    );
    let both = before.iter().filter_map(|(name, before)| Some((name, before, after.get(name)?)));
    let lines: Vec<String> = both
        .map(|(name, before, after)| {
            format!("| {name} | {before} | {after} | {:+.6} |\n", after - before)
        })
        .collect();
    if lines.is_empty() {
        text.push_str("It was not measured: the data is not what the model was trained on.\n");
        return;
    }
    let _infallible = write!(
        text,
        "| metric | f32 | {} | difference |\n|---|---|---|---|\n{}",
        format.word(),
        lines.concat(),
    );
}

/// The metadata by which the Hub sorts models.
fn front_matter(exported: &Exported<'_>) -> String {
    let kind = TaskKind::of(&exported.recipe.trainer_arguments());
    // The Hub has one task for all models with a head on a text; `problem_type` in config.json
    // specifies the head, and a tag of its own shows it on the model's page.
    let (task, tag) = match kind {
        TaskKind::TextClassification => ("text-classification", None),
        TaskKind::MultiLabelClassification | TaskKind::TextRegression => {
            ("text-classification", Some(kind.line().name))
        }
        TaskKind::TokenClassification => ("token-classification", None),
        TaskKind::QuestionAnswering => ("question-answering", None),
        TaskKind::SentenceSimilarity => ("sentence-similarity", None),
        TaskKind::MaskedLanguageModeling => ("fill-mask", None),
        TaskKind::LanguageModeling => ("text-generation", None),
        TaskKind::Translation => ("translation", None),
        TaskKind::Summarization => ("summarization", None),
        TaskKind::TextToText => ("text2text-generation", None),
    };
    let tag = tag.map_or(String::new(), |tag| format!("- {tag}\n"));
    let library = if exported.quantized.is_some() { "hpsearch" } else { "transformers" };
    let mut text =
        format!("---\nlibrary_name: {library}\npipeline_tag: {task}\ntags:\n- hpsearch\n{tag}");
    if let Some(toml::Value::String(model)) = exported.recipe.trainer.get("model.pretrained") {
        // A Hub name in full; of a path, the last component.
        let name = if model.starts_with('/') {
            model.trim_end_matches('/').rsplit('/').next()
        } else {
            model.split('@').next()
        }
        .unwrap_or_default();
        // As JSON, which is valid YAML for any name.
        let _infallible = writeln!(text, "base_model: {}", serde_json::Value::from(name));
    }
    text.push_str("---\n\n");
    text
}

/// The study's best trials with their searched parameters.
fn leaders(text: &mut String, exported: &Exported<'_>) {
    if exported.leaders.is_empty() {
        return;
    }
    let names: Vec<&str> =
        exported.spec.space.dimensions().iter().map(|dimension| dimension.name.as_str()).collect();
    let _infallible = writeln!(
        text,
        "\n## Study\n\n| trial | {} | {} |",
        exported.spec.objective_names().join(" | "),
        names.join(" | ")
    );
    let columns = exported.spec.objectives.len() + names.len();
    let _infallible = writeln!(text, "|---|{}", "---|".repeat(columns));
    for trial in &exported.leaders {
        let shown = shown_params(exported.spec, trial);
        let params: Vec<String> = names
            .iter()
            .map(|name| shown.get(name).map_or(String::new(), |value| cell(&value.to_string())))
            .collect();
        let values = trial.value.iter().chain(&trial.values);
        let value = values.map(f64::to_string).collect::<Vec<_>>().join(" | ");
        let _infallible = writeln!(text, "| {} | {value} | {} |", trial.number, params.join(" | "));
    }
}

fn rows(text: &mut String, head: [&str; 2], values: &BTreeMap<String, toml::Value>) {
    table(text, head, values.iter().map(|(name, value)| (name.as_str(), value.to_string())));
}

fn table<'a>(
    text: &mut String,
    [first, second]: [&str; 2],
    lines: impl Iterator<Item = (&'a str, String)>,
) {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return;
    }
    let _infallible = writeln!(text, "| {first} | {second} |\n|---|---|");
    for (name, value) in lines {
        let _infallible = writeln!(text, "| {name} | {} |", cell(&value));
    }
    text.push('\n');
}

/// A value in a table cell.
fn cell(value: &str) -> String {
    value.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::fixture::{exported, trial};
    use crate::study::metric::Direction;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::spec::StudySpec;

    #[test]
    fn the_card_and_the_recipe_of_a_training_say_only_what_is_known() {
        let program = Program::Trainer { arguments: Default::default(), data: Default::default() };
        let mut spec =
            StudySpec::new("s", "eval_loss", Direction::Minimize, Space::default(), program);
        spec.sampler.name = "tpe".to_owned();
        let trial = trial();
        let mut exported = exported(&spec, &trial, None);
        let texts = |exported: &Exported<'_>| (card(exported), exported.recipe.to_text().unwrap());
        let (text, recipe) = texts(&exported);
        assert!(
            text.contains("\n# s: trial 0\n\nFound by hpsearch with the sampler `tpe`"),
            "{text}"
        );
        assert!(recipe.starts_with("# Trial 0 of study `s`: "), "{recipe}");
        let options = ["--set", "a=[1, 2]"].map(str::to_owned).to_vec();
        let training = Training { file: "/model/best.toml".to_owned(), options: Vec::new() };
        exported.recipe.training = Some(training);
        let (text, recipe) = texts(&exported);
        let found = "Trained by `hpsearch train` from `/model/best.toml`, the file of trial 0 of \
                     the study `s`, found with the sampler `tpe` and the pruner `none`.\n";
        assert!(text.contains(found) && text.contains("trial 0, trained again"), "{text}");
        assert!(recipe.starts_with("# By `hpsearch train`, of trial 0 of study `s`: "), "{recipe}");
        exported.recipe.sampler = None;
        let (text, _) = texts(&exported);
        assert!(!text.contains("sampler") && text.contains("of the study `s`.\n"), "{text}");
        exported.recipe.trial = None;
        exported.recipe.training = Some(Training { file: "/study.toml".to_owned(), options });
        let (text, recipe) = texts(&exported);
        let known = "Trained by `hpsearch train` from `/study.toml` with `--set 'a=[1, 2]'`: it is \
                     of no trial of the study `s`.\n";
        assert!(text.contains(known) && !text.contains("trial 0"), "{text}");
        assert!(
            recipe.starts_with("# By `hpsearch train`, of no trial of study `s`: "),
            "{recipe}"
        );
        assert!(!recipe.contains("trial = "), "{recipe}");
    }

    #[test]
    fn the_card_names_the_task_that_the_model_was_trained_for() {
        for (task, tag, words) in [
            ("text-classification", None, "one label per text"),
            (
                "multi-label-classification",
                Some("- multi-label-classification\n"),
                "multi-label text classification",
            ),
            ("text-regression", Some("- text-regression\n"), "text regression"),
        ] {
            let arguments = [("task".to_owned(), serde_json::Value::from(task))].into();
            let program = Program::Trainer { arguments, data: Default::default() };
            let spec =
                StudySpec::new("s", "eval_loss", Direction::Minimize, Space::default(), program);
            let trial = trial();
            let exported = exported(&spec, &trial, None);
            let card = card(&exported);
            assert!(
                card.contains("pipeline_tag: text-classification\n") && card.contains(words),
                "{card}"
            );
            assert_eq!(card.contains("tags:\n- hpsearch\n- "), tag.is_some(), "{card}");
            assert!(tag.is_none_or(|tag| card.contains(tag)), "{card}");
        }
    }
}
