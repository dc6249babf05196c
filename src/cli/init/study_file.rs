//! The text of a first study file: the chosen values, with comments on alternatives.

use super::script::Script;
use crate::arguments::TaskKind;
use crate::report::wording::{one_line, toml_key, toml_text as quoted, width};
use crate::study::metric::Direction;

/// A study of the built-in trainer.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainerStudy {
    /// Its name.
    pub name: String,
    /// Its task.
    pub task: TaskKind,
    /// The pretrained model to fine-tune, by its name in the study file.
    pub model: Option<String>,
    /// The training file, by its name in the study file.
    pub train: String,
    /// Validation rows.
    pub validation: Option<String>,
    /// Test rows.
    pub test: Option<String>,
    /// The cell separator, if it differs from the extension's.
    pub separator: Option<u8>,
    /// The columns of a file without a header.
    pub column_names: Option<Vec<String>>,
    /// Columns by their key under `[data]`; none of a text file.
    pub columns: Vec<(&'static str, String)>,
    /// What separates several labels in a cell, if it is no comma.
    pub label_separator: Option<char>,
    /// Whether one label is so frequent that accuracy is uninformative.
    pub is_unbalanced: bool,
    /// Whether labels of words are those of entities.
    pub has_entities: bool,
    /// Number of rows read.
    pub rows: usize,
    /// Maximum length of texts in tokens.
    pub max_length: u32,
    /// The budget.
    pub trials: u64,
    /// Findings, one comment line each.
    pub findings: Vec<String>,
}

/// Trailing comments start in this column, or after the longest line of their paragraph.
const COMMENTS: usize = 31;
/// Longer lines shift only their own comment.
const LONG: usize = 64;

/// Aligns the trailing comments of each paragraph.
fn aligned(text: &str) -> String {
    let paragraph = |paragraph: &str| {
        let lines: Vec<(&str, Option<&str>)> = paragraph
            .lines()
            .map(|line| {
                line.split_once('\u{1}')
                    .map_or((line, None), |(code, comment)| (code, Some(comment)))
            })
            .collect();
        let commented =
            lines.iter().filter(|(_, comment)| comment.is_some()).map(|(code, _)| width(code));
        let column = commented
            .filter(|width| *width < LONG)
            .map(|width| width + 1)
            .fold(COMMENTS, usize::max);
        let line = |(code, comment): &(&str, Option<&str>)| match comment {
            Some(comment) => format!(
                "{code}{}# {comment}\n",
                " ".repeat(column.saturating_sub(width(code)).max(1))
            ),
            None => format!("{code}\n"),
        };
        lines.iter().map(line).collect::<String>()
    };
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n")
}

impl TrainerStudy {
    /// The study file.
    pub fn text(&self) -> String {
        let (metric, direction, why) = self.objective();
        let (step, first) = match self.task {
            TaskKind::LanguageModeling => (
                "step = \"step\"\u{1}reports are counted in optimiser steps\n",
                "min_resource = 100\u{1}steps before the first judgement\n",
            ),
            _ => ("", "min_resource = 1\u{1}epochs before the first judgement\n"),
        };
        let findings: String =
            self.findings.iter().map(|finding| format!("# {}\n", one_line(finding))).collect();
        aligned(&format!(
            "# Made by `hpsearch init`; every line may be changed. `hpsearch check` tells what is \
             wrong.\n{findings}\n\
             [study]\nname = {}\nmetric = \"{metric}\"{why}\ndirection = \"{direction}\"\n{}\n\
             [budget]\u{1}it ends at whichever comes first\n\
             trials = {}\n# time = \"2h\"\n# target = 0.95\n\n{}\n{}\n{}\n\
             [sampler]\u{1}who proposes: `hpsearch list samplers`\ntype = \"auto\"\n\n\
             [pruner]\u{1}who stops hopeless trials: `hpsearch list pruners`\ntype = \"asha\"\n\
             {}reduction_factor = 3\u{1}the best third continues\n\
             rung_factor = 2\u{1}and is judged again after twice as long\n\
             rank_by = \"forecast\"\u{1}by a forecast of the final value, once there is one\n\n\
             # [devices]\n# use = [\"cpu\"]\u{1}default: the GPUs if there are any, else the CPU\n\
             \n\
             # [export]\u{1}the best model, written when the study ends\n# dir = \"model\"\n\
             # on_finish = true\n",
            quoted(&self.name),
            step,
            self.trials,
            self.data(),
            self.trainer(),
            self.space(),
            first,
        ))
    }

    /// The metric, its direction, and a comment on others.
    fn objective(&self) -> (&'static str, &'static str, &'static str) {
        let has_scores = self.columns.iter().any(|(key, _)| *key == "score");
        match self.task {
            TaskKind::TextClassification if self.is_unbalanced => {
                ("eval_macro_f1", "maximize", "\u{1}one label is frequent; else eval_accuracy")
            }
            TaskKind::TextClassification => {
                ("eval_accuracy", "maximize", "\u{1}or eval_macro_f1, or eval_loss (minimize)")
            }
            TaskKind::MultiLabelClassification => {
                ("eval_micro_f1", "maximize", "\u{1}or eval_macro_f1, or eval_exact_match")
            }
            TaskKind::TextRegression => {
                ("eval_rmse", "minimize", "\u{1}or eval_mae, or eval_pearson (maximize)")
            }
            TaskKind::TokenClassification if !self.has_entities => (
                "eval_accuracy",
                "maximize",
                "\u{1}of words; the labels are no entities (B-, I-, O)",
            ),
            TaskKind::TokenClassification => {
                ("eval_f1", "maximize", "\u{1}of entities; or eval_accuracy, of words")
            }
            TaskKind::QuestionAnswering => {
                ("eval_f1", "maximize", "\u{1}of words; or eval_exact_match, of answers")
            }
            TaskKind::SentenceSimilarity if has_scores => {
                ("eval_spearmanr", "maximize", "\u{1}or eval_pearson, or eval_loss (minimize)")
            }
            TaskKind::SentenceSimilarity => {
                ("eval_mrr", "maximize", "\u{1}or eval_accuracy, or eval_loss (minimize)")
            }
            TaskKind::Summarization => {
                ("eval_rougeL", "maximize", "\u{1}or eval_loss (minimize), without writing")
            }
            TaskKind::Translation | TaskKind::TextToText => {
                ("eval_chrf", "maximize", "\u{1}or eval_bleu, or eval_loss (minimize)")
            }
            TaskKind::LanguageModeling | TaskKind::MaskedLanguageModeling => {
                ("eval_loss", "minimize", "\u{1}or eval_perplexity")
            }
        }
    }

    fn data(&self) -> String {
        let mut text = format!("[data]\ntrain = {}\n", quoted(&self.train));
        for (key, file) in [("validation", &self.validation), ("test", &self.test)] {
            if let Some(file) = file {
                text += &format!("{key} = {}\n", quoted(file));
            }
        }
        if let Some(separator) = self.separator {
            text += &format!(
                "separator = {}\u{1}of the cells of a row\n",
                quoted(&char::from(separator).to_string())
            );
        }
        if let Some(names) = &self.column_names {
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            text += &format!("column_names = [{}]\u{1}the file has no header\n", names.join(", "));
        }
        for (key, column) in &self.columns {
            let comment = match *key {
                "target" => "\u{1}the texts to write",
                "score" => "\u{1}similarities from -1 to 1",
                _ => "",
            };
            text += &format!("{key} = {}{comment}\n", quoted(column));
        }
        if let Some(separator) = self.label_separator {
            text += &format!(
                "label_separator = {}\u{1}of several labels\n",
                quoted(&separator.to_string())
            );
        }
        if self.validation.is_none() {
            text += &format!(
                "validation_split = {}\u{1}held out of train, to compare trials\n",
                if self.rows < 300 { "0.2" } else { "0.1" }
            );
        }
        if self.test.is_none() {
            // With few rows all are used for training.
            let mark = if self.rows < 1_000 { "# " } else { "" };
            text += &format!(
                "{mark}test_split = 0.1\u{1}held out too, looked at by `hpsearch export` only\n"
            );
        }
        let longer = match self.task {
            TaskKind::QuestionAnswering => "longer contexts are read in windows",
            TaskKind::MaskedLanguageModeling => "longer texts are cut into rows",
            _ => "longer texts are cut",
        };
        text + &format!("max_length = {}\u{1}tokens; {longer}\n", self.max_length)
    }

    fn trainer(&self) -> String {
        const TITLE: &str = "[trainer]\u{1}fixed arguments, by Hugging Face's names\n";
        if let Some(model) = &self.model {
            let model =
                format!("model = {}\u{1}the pretrained model to start from\n", quoted(model));
            return match self.task {
                TaskKind::LanguageModeling => format!(
                    "{TITLE}task = \"language-modeling\"\n{model}max_steps = 1000\neval_strategy \
                     = \"steps\"\neval_steps = 100\nlogging_steps = 100\n\
                     per_device_train_batch_size = 8\n"
                ),
                _ => format!(
                    "{TITLE}task = \"{}\"\n{model}num_train_epochs = \
                     {}\nlr_scheduler_type = \"linear\"\n",
                    self.task.line().name,
                    if self.rows > 20_000 { 3 } else { 5 }
                ),
            };
        }
        match self.task {
            TaskKind::LanguageModeling => format!(
                "{TITLE}task = \"language-modeling\"\nmodel.tokenizer = \"chars\"\n\
                 max_steps = 1000\neval_strategy = \"steps\"\neval_steps = 100\n\
                 logging_steps = 100\nper_device_train_batch_size = 12\n\
                 model.hidden_size = 128\nmodel.num_heads = 4\n"
            ),
            _ => format!(
                "{TITLE}task = \"{}\"\nnum_train_epochs = {}\n\
                 lr_scheduler_type = \"linear\"\n",
                self.task.line().name,
                if self.rows > 20_000 { 3 } else { 9 }
            ),
        }
    }

    fn space(&self) -> String {
        if self.model.is_some() {
            let batch = if self.task == TaskKind::LanguageModeling {
                ""
            } else {
                "per_device_train_batch_size = [16, 32]\n"
            };
            // From the usual range of large models (Devlin et al. 2019: 2e-5 to 5e-5) to one that
            // suits small models.
            return format!(
                "[space]\u{1}what is searched\nlearning_rate = {{ float = [1e-5, 5e-4], log = \
                 true }}\u{1}small models take the larger ones\n{batch}\
                 warmup_steps = {{ float = [0.0, 0.2] }}\u{1}as a share of all \
                 steps\nweight_decay = {{ float = [1e-3, 0.1], log = true }}\n"
            );
        }
        let common =
            "[space]\u{1}what is searched\nlearning_rate = { float = [1e-4, 1e-2], log = true }\n";
        match self.task {
            TaskKind::LanguageModeling => format!(
                "{common}model.num_layers = {{ int = [2, 6] }}\nmodel.dropout = {{ float = [0.0, \
                 0.3] }}\n"
            ),
            _ => format!(
                "{common}per_device_train_batch_size = [16, 32]\nweight_decay = {{ float = [1e-4, \
                 0.3], log = true }}\nmodel.hidden_size = [32, 64, 128]\nmodel.num_layers = {{ \
                 int = [1, 3] }}\nmodel.dropout = {{ float = [0.0, 0.5] }}\n"
            ),
        }
    }
}

/// The study file of a command.
pub fn of_command(
    name: &str,
    script: &Script,
    metric: &str,
    direction: Direction,
    trials: u64,
) -> String {
    let run: Vec<String> = script.run.iter().map(|word| quoted(word)).collect();
    let style = script.args_style.map_or_else(String::new, |style| {
        format!("args_style = \"{style}\"\u{1}how `{{args}}` writes the parameters of [space]\n")
    });
    let env = match script.env.as_slice() {
        [] => String::new(),
        variables => {
            let variables: Vec<String> = variables
                .iter()
                .map(|(name, value)| format!("{} = {}", toml_key(name), quoted(value)))
                .collect();
            format!("env = {{ {} }}\n", variables.join(", "))
        }
    };
    let about = match script.args_style {
        Some(_) => "what is searched; each is an option of the program",
        None => "what is searched; `{name}` in `run` is its value",
    };
    let flags: String = script
        .flags
        .iter()
        .map(|flag| format!("# {} = [false, true]\u{1}a flag of the program\n", toml_key(flag)))
        .collect();
    let space = if script.space.is_empty() {
        "# Nothing to search was found in the command: this is an example. The program reads it \
         from HPSEARCH_PARAM_LEARNING_RATE\n\
         # or from the JSON file HPSEARCH_PARAMS; or write it into `run` as \"{learning_rate}\".\n\
         learning_rate = { float = [1e-5, 1e-1], log = true }\n"
            .to_owned()
    } else {
        let line = |searched: &super::declared::Searched| {
            let default = searched
                .default
                .as_ref()
                .map(|default| format!("\u{1}it was {}", one_line(default)))
                .unwrap_or_default();
            format!("{} = {}{default}\n", toml_key(&searched.name), searched.range)
        };
        script.space.iter().map(line).collect()
    };
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let group = metric.replace(|char| !is_name(char), "_");
    aligned(&format!(
        "# Made by `hpsearch init`; every line may be changed. `hpsearch check` tells what is \
         wrong.\n\
         #\n# The program says what it measured on lines of its own, as often as it likes:\n\
             # @hpsearch {{\"step\": 1, {}: 0.5}}\n\n\
         [study]\nname = {}\nmetric = {}\ndirection = \"{}\"\nstep = \"step\"\u{1}the unit of \
         their steps\n\n\
         [budget]\u{1}it ends at whichever comes first\ntrials = {trials}\n# time = \"2h\"\n# \
         trial_time = \"30m\"\u{1}of one attempt\n\n\
         [command]\nrun = [{}]\n{style}{env}\n\
             # [command.metrics]\u{1}of a program that prints them in its own words\n\
             # pattern = 'step (?<step>\\d+).* {group}: (?<{group}>\\S+)'\n\n\
         [space]\u{1}{about}\n{space}{flags}\
             # other = {{ int = [1, 8] }}\n# kind = [\"a\", \"b\"]\n\n\
         [sampler]\u{1}who proposes: `hpsearch list samplers`\ntype = \"auto\"\n\n\
         [pruner]\u{1}who stops hopeless trials: `hpsearch list pruners`\ntype = \"median\"\n\n\
             # [devices]\n# use = [\"cpu\"]\n# trials_per_device = 2\n",
        quoted(metric),
        quoted(name),
        quoted(metric),
        direction.as_str(),
        run.join(", "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stand_apart_from_long_lines_and_below_each_other() {
        let long = "lr = { float = [1.25e-5, 1.25e-1], log = true }";
        let endless = format!("kind = [{}]", "1, ".repeat(40));
        let text = aligned(&format!(
            "[space]\u{1}searched\n{long}\u{1}it was 0.1\n{endless}\u{1}it was \
             1\n\n[budget]\u{1}it ends\ntrials = 3\n"
        ));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("{long} # it was 0.1"));
        assert_eq!(lines[0].find('#'), lines[1].find('#'));
        assert_eq!(lines[2], format!("{endless} # it was 1"));
        assert_eq!(lines[3..], ["", "[budget]                       # it ends", "trials = 3"]);
    }
}
