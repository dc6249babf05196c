//! The text of the study file of a sweep.

use super::command;
use super::parameter::{Parameter, Values};
use super::python;
use super::{Budget, Method, Sweep, TRIALS};
use crate::report::aligned_comments::aligned;
use crate::report::wording::{one_line, toml_key, toml_text as quoted, toml_value};
use crate::study::params::Value;

pub(super) fn text(sweep: &Sweep, name: &str) -> String {
    let mut text = header(sweep);
    text += &format!("[study]\nname = {}\n", quoted(name));
    if let Some(description) = &sweep.description {
        text += &format!("description = {}\n", quoted(&one_line(description)));
    }
    if let [objective] = &sweep.objectives[..] {
        text += &format!("metric = {}\n", quoted(&objective.metric));
        text += &format!("direction = \"{}\"\n", objective.direction.as_str());
    }
    text += "step = \"step\"\u{1}reports are counted, as W&B counts calls of log\n\n";
    if sweep.objectives.len() > 1 {
        for objective in &sweep.objectives {
            let (metric, direction) = (quoted(&objective.metric), objective.direction.as_str());
            text +=
                &format!("[[study.objective]]\nmetric = {metric}\ndirection = \"{direction}\"\n\n");
        }
    }
    text += &budget(sweep);
    text += &command_table(sweep);
    text += &space(sweep);
    text += &sampler(sweep.method);
    match &sweep.pruner {
        Some(pruner) => {
            text += &format!(
                "[pruner]\u{1}hyperband of W&B, which is successive halving in one bracket\n\
                 type = \"asha\"\nmin_resource = {}\nmax_resource = {}\u{1}{}\n\
                 reduction_factor = {}\n",
                pruner.min_resource,
                pruner.max_resource,
                one_line(&pruner.comment),
                pruner.reduction_factor
            );
        }
        None => {
            text += "[pruner]\u{1}who stops hopeless trials: `hpsearch list pruners`\n\
                     type = \"none\"\n";
        }
    }
    aligned(&text)
}

fn header(sweep: &Sweep) -> String {
    let metric = sweep.objectives.first().map_or("loss", |objective| objective.metric.as_str());
    let fixed = command::fixed_values(&sweep.parameters).filter(|_| !sweep.command.reads_file);
    let config = fixed.map(|fixed| format!("config={fixed}")).unwrap_or_default();
    let first = sweep
        .parameters
        .iter()
        .find(|parameter| matches!(parameter.values, Values::Searched(_)))
        .map_or("lr", |parameter| parameter.name.as_str());
    let metric = python::string(metric);
    let mut header = format!(
        "# Made by `hpsearch init` of {}, a sweep of Weights & Biases; every line may be changed.\n\
         # `hpsearch check` tells what is wrong.\n\
         #\n\
         # The program reports to hpsearch where it reported to W&B:\n\
         #   import hpsearch                      # was: import wandb\n\
         #   run = hpsearch.init({})\n\
         #   run.config[{}]\n\
         #   run.log({{{metric}: value}})\n\
         # or it prints lines `@hpsearch {{{}: 0.5}}`. docs/wandb.md has a counterpart for each\n\
         # function of wandb.\n",
        one_line(&sweep.file),
        one_line(&config),
        python::string(first),
        serde_json::Value::from(
            sweep.objectives.first().map_or("loss", |objective| objective.metric.as_str())
        ),
    );
    if !sweep.notes.is_empty() {
        header += "#\n# Not as in the sweep:\n";
        for note in &sweep.notes {
            header += &format!("# - {}\n", one_line(note));
        }
    }
    header.push('\n');
    header
}

fn budget(sweep: &Sweep) -> String {
    let mut text = match sweep.budget {
        Budget::Cap(cap) => format!(
            "[budget]\ntrials = {cap}\u{1}`run_cap`\ncount = \"all\"\u{1}failed ones, too, as W&B \
             counts\n"
        ),
        Budget::Given(trials) => format!("[budget]\ntrials = {trials}\n"),
        Budget::Grid => "[budget]\u{1}the study ends with its grid\n# trials = 24\n".to_owned(),
        Budget::Default => {
            format!("[budget]\ntrials = {TRIALS}\u{1}a sweep without `run_cap` has no end\n")
        }
    };
    if let Some(target) = sweep.target {
        let target = toml_value(&Value::Float(target));
        text += &format!("target = {target}\u{1}a trial that reaches it ends the study\n");
    }
    text + "\n"
}

fn command_table(sweep: &Sweep) -> String {
    let run: Vec<String> = sweep.command.run.iter().map(|word| quoted(word)).collect();
    let mut text = format!("[command]\nrun = [{}]\n", run.join(", "));
    if let Some(style) = sweep.command.args_style {
        text += &format!("args_style = \"{style}\"\u{1}how parameters are written\n");
    }
    if !sweep.command.passes {
        text += "# The program finds parameters in `run.config`, in HPSEARCH_PARAM_<NAME>, and in \
                 the file\n# HPSEARCH_PARAMS; \"{args}\" in `run` passes them as options.\n";
    }
    text + "\n"
}

fn space(sweep: &Sweep) -> String {
    let mut text = "[space]\n".to_owned();
    let with_prior = sweep.method != Method::Grid;
    for parameter in &sweep.parameters {
        let key = toml_key(&parameter.name);
        let (values, comment) = match &parameter.values {
            Values::Searched(searched) => {
                (Parameter::toml(searched, with_prior), searched.comment.clone())
            }
            Values::Fixed(value) if sweep.command.reads_file => {
                let value = super::parameter::value_of(value)
                    .unwrap_or_else(|| Value::Text(python::json(value).to_string()));
                (format!("[{}]", toml_value(&value)), Some("fixed".to_owned()))
            }
            Values::Fixed(_) => continue,
        };
        let comment =
            comment.map(|comment| format!("\u{1}{}", one_line(&comment))).unwrap_or_default();
        text += &format!("{key} = {values}{comment}\n");
    }
    text + "\n"
}

fn sampler(method: Method) -> String {
    match method {
        Method::Grid => "[sampler]\ntype = \"grid\"\n\n",
        Method::Random => "[sampler]\ntype = \"random\"\n\n",
        Method::Bayes => {
            "[sampler]\ntype = \"auto\"\u{1}W&B's bayes is a Gaussian process: \"gp\"\n\n"
        }
        Method::Custom => "[sampler]\ntype = \"auto\"\n\n",
    }
    .to_owned()
}
