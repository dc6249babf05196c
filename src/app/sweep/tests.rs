//! Sweeps of W&B's documentation and tests, and sweeps at random.

use std::path::Path;

use super::*;
use crate::config::parse;
use crate::study::params::Value;
use crate::study::program::Program;
use crate::study::space::{Distribution, Scale};
use crate::study::spec::StudySpec;
use proptest::prelude::*;

fn read(text: &str) -> Sweep {
    Sweep::read(text, "sweep.yaml", &Given::default())
        .unwrap_or_else(|problems| panic!("{}\n{text}", problems.render(Default::default())))
}

fn problems(text: &str) -> String {
    let problems = Sweep::read(text, "sweep.yaml", &Given::default()).unwrap_err();
    problems.iter().map(|problem| format!("{}\n", problem.message)).collect()
}

fn spec_of(sweep: &Sweep) -> StudySpec {
    let text = sweep.study_file("study");
    parse(&text, Path::new("study.toml"), Path::new("/"), &[])
        .unwrap_or_else(|problems| panic!("{}\n{text}", problems.render(Default::default())))
}

/// A sweep with these lines under `parameters`.
fn with(method: &str, parameters: &str) -> String {
    format!(
        "program: train.py\nmethod: {method}\nmetric: {{name: loss}}\nparameters:\n{}",
        parameters.lines().map(|line| format!("  {line}\n")).collect::<String>()
    )
}

/// The parameter `x` of such a study: its values, its prior, and the notes.
fn x(definition: &str) -> (Distribution, Option<Value>, Vec<String>) {
    let sweep = read(&with("random", &format!("x: {definition}")));
    let spec = spec_of(&sweep);
    let dimension = spec.space.dimension("x").unwrap();
    let notes = sweep.notes().iter().filter(|note| note.contains("`x`")).cloned().collect();
    (dimension.distribution.clone(), dimension.prior.clone(), notes)
}

fn exact(definition: &str) -> Distribution {
    let (distribution, prior, notes) = x(definition);
    assert_eq!((prior, notes), (None, Vec::new()), "{definition}");
    distribution
}

fn float(low: f64, high: f64, scale: Scale, step: Option<f64>) -> Distribution {
    Distribution::float(low, high, scale, step).unwrap()
}

fn int(low: i64, high: i64, scale: Scale, step: i64) -> Distribution {
    Distribution::int(low, high, scale, step).unwrap()
}

fn run(parameters: &str, command: &str) -> (Vec<String>, Option<String>, Vec<String>) {
    let text = format!("{}command: {command}\n", with("random", parameters));
    let sweep = read(&text);
    let Program::Command { run, .. } = spec_of(&sweep).program else { panic!() };
    let style = sweep.command.args_style.map(str::to_owned);
    let notes = sweep.notes().iter().filter(|note| !note.contains("run_cap"));
    (run, style, notes.cloned().collect())
}

#[test]
fn ranges_are_those_that_wandb_draws_from() {
    use Scale::{Linear, Log};
    assert_eq!(exact("{min: 1, max: 8}"), int(1, 8, Linear, 1));
    assert_eq!(exact("{min: 0, max: 1.0}"), float(0.0, 1.0, Linear, None));
    assert_eq!(exact("{distribution: uniform, min: 0, max: 1}"), float(0.0, 1.0, Linear, None));
    assert_eq!(
        exact("{distribution: log_uniform_values, min: 1e-5, max: 0.1}"),
        float(1e-5, 0.1, Log, None)
    );
    // Exponents of e.
    assert_eq!(
        exact("{distribution: log_uniform, min: -9, max: -2}"),
        float((-9_f64).exp(), (-2_f64).exp(), Log, None)
    );
    // log(1/X) is uniform: X is log-uniform between the same bounds.
    assert_eq!(
        exact("{distribution: inv_log_uniform_values, min: 0.001, max: 0.1}"),
        float(0.001, 0.1, Log, None)
    );
    assert_eq!(
        exact("{distribution: inv_log_uniform, min: 2, max: 9}"),
        float((-9_f64).exp(), (-2_f64).exp(), Log, None)
    );
}

#[test]
fn quantized_ranges_are_multiples_of_q() {
    use Scale::{Linear, Log};
    let q = |rest: &str| exact(&format!("{{distribution: q_uniform, {rest}}}"));
    assert_eq!(q("min: 0, max: 0.5, q: 0.05"), float(0.0, 0.5, Linear, Some(0.05)));
    assert_eq!(q("min: 8, max: 64, q: 8"), int(8, 64, Linear, 8));
    // round(1 / 3) * 3 is 0, and W&B's default is the float 1.0.
    assert_eq!(q("min: 1, max: 10, q: 3"), int(0, 9, Linear, 3));
    assert_eq!(q("min: 1, max: 4"), float(1.0, 4.0, Linear, Some(1.0)));
    // W&B's grid counts from `min`, and leaves out `max`.
    let grid = with("grid", "x: {distribution: q_uniform, min: 1, max: 10, q: 3}");
    assert_eq!(
        spec_of(&read(&grid)).space.dimension("x").unwrap().distribution,
        int(1, 7, Linear, 3)
    );

    let q = |rest: &str| x(&format!("{{distribution: q_log_uniform_values, {rest}}}"));
    assert_eq!(q("min: 16, max: 256, q: 1"), (int(16, 256, Log, 1), None, Vec::new()));
    let (narrow, _, notes) = q("min: 32, max: 256, q: 8");
    assert_eq!((narrow, notes.len()), (int(32, 256, Linear, 8), 1));
    let (wide, _, notes) = q("min: 10, max: 10000, q: 10");
    assert_eq!((wide, notes.len()), (int(10, 10_000, Log, 1), 1));
    let (wide, _, notes) = q("min: 1e-5, max: 0.1, q: 1e-5");
    assert_eq!((wide, notes.len()), (float(1e-5, 0.1, Log, None), 1));
}

#[test]
fn distributions_without_a_counterpart_become_a_range_and_a_prior() {
    use Scale::{Linear, Log};
    let nearest = |definition: &str| {
        let (distribution, prior, notes) = x(definition);
        assert_eq!(notes.len(), 1, "{definition}: {notes:?}");
        (distribution, prior.unwrap())
    };
    assert_eq!(
        nearest("{distribution: normal, mu: 1, sigma: 0.5}"),
        (float(-0.5, 2.5, Linear, None), Value::Float(1.0))
    );
    assert_eq!(
        nearest("{distribution: q_normal, mu: 10, sigma: 2, q: 1}"),
        (int(4, 16, Linear, 1), Value::Int(10))
    );
    assert_eq!(
        nearest("{distribution: log_normal}"),
        (float((-3_f64).exp(), 3_f64.exp(), Log, None), Value::Float(1.0))
    );
    assert_eq!(
        nearest("{distribution: q_log_normal, mu: 3, sigma: 1, q: 1}"),
        (int(1, 403, Log, 1), Value::Int(20))
    );
    assert_eq!(
        nearest("{distribution: beta, a: 2, b: 6}"),
        (float(0.0, 1.0, Linear, None), Value::Float(0.25))
    );
    assert_eq!(
        nearest("{distribution: q_beta, a: 2, b: 6, q: 0.1}"),
        (float(0.0, 1.0, Linear, Some(0.1)), Value::Float(0.2))
    );
    assert_eq!(exact("{distribution: beta}"), float(0.0, 1.0, Linear, None));
    assert_eq!(
        nearest("{values: [a, b, c], probabilities: [0.2, 0.7, 0.1]}").1,
        Value::Text("b".to_owned())
    );
}

#[test]
fn choices_are_scalars_lists_null_or_json() {
    let choices = |definition: &str| match x(definition).0 {
        Distribution::Choice { choices } => choices,
        other => panic!("{other:?}"),
    };
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(
        choices("{values: [adam, 'no', no, 1e-3, ~, [64, 32]]}"),
        [
            text("adam"),
            text("no"),
            Value::Bool(false),
            Value::Float(1e-3),
            Value::Null,
            Value::List(vec![Value::Int(64), Value::Int(32)]),
        ]
    );
    assert_eq!(
        choices("{values: [{a: [1, {b: 2}]}, 3]}"),
        [text(r#"{"a":[1,{"b":2}]}"#), Value::Int(3)]
    );
    assert_eq!(choices("{values: [1, 2, 1.0, .inf]}"), [Value::Int(1), Value::Int(2), text("inf")]);
    // A value that is never drawn is none.
    assert_eq!(choices("{values: [a, b, c], probabilities: [0.5, 0, 0.5]}").len(), 2);
    assert_eq!(
        exact("{values: [a, b], probabilities: [0.5, 0.5]}"),
        Distribution::choice(vec![text("a"), text("b")]).unwrap()
    );
}

#[test]
fn arguments_are_those_that_wandb_passes() {
    let two = "lr: {values: [0.1, 0.2]}\nopt: {values: [adam, sgd]}\nepochs: {value: 5}\n\
               fast: {value: true}\nsizes: {value: [1, 2]}";
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let style = |style: &str| Some(style.to_owned());
    assert_eq!(
        run(two, "[\"${env}\", \"${interpreter}\", \"${program}\", \"${args}\"]"),
        (
            words(&["python", "train.py", "--epochs=5", "--fast=True", "--sizes=[1, 2]", "{args}"]),
            style("equals"),
            vec![]
        )
    );
    assert_eq!(
        run(two, "[python3, -u, \"${program}\", \"${args_no_hyphens}\"]"),
        (
            words(&[
                "python3",
                "-u",
                "train.py",
                "epochs=5",
                "fast=True",
                "sizes=[1, 2]",
                "{args}"
            ]),
            style("hydra"),
            vec![]
        )
    );
    assert_eq!(
        run(two, "[\"${program}\", \"${args_no_equals}\", 3]"),
        (
            words(&[
                "train.py", "--epochs", "5", "--fast", "True", "--sizes", "[1, 2]", "{args}", "3"
            ]),
            style("dashes"),
            vec![]
        )
    );
    let flags = "fast: {values: [true, false]}\nslow: {value: true}\nnone: {value: false}";
    assert_eq!(
        run(flags, "[\"${program}\", \"${args_no_boolean_flags}\"]"),
        (words(&["train.py", "--slow", "{args}"]), style("equals"), vec![])
    );
    let (named, style_of, notes) = run(flags, "[\"${program}\", \"${args}\"]");
    assert_eq!(named, words(&["train.py", "--fast={fast}", "--slow=True", "--none=False"]));
    assert_eq!((style_of, notes.len()), (None, 1));
    assert_eq!(
        run("lr: {min: 0.1, max: 1}", "[a, \"${args_override_hydra}\"]"),
        (words(&["a", "++lr={lr}"]), style("hydra"), vec![])
    );
    // Braces of the command are literal, and so is a macro within a word.
    assert_eq!(
        run("lr: {min: 0.1, max: 1}", "[a, \"{lr}{x}\", \"p=${program}\", \"${args}\"]"),
        (words(&["a", "{{lr}}{{x}}", "p=${{program}}", "{args}"]), style("equals"), vec![])
    );
    assert_eq!(run("args: {values: [1, 2]}", "[a, \"${args}\"]").0, words(&["a", "--args={args}"]));
}

#[test]
fn nested_parameters_are_passed_as_the_dictionary_that_wandb_passes() {
    let nested = "optimizer:\n  parameters:\n    lr: {values: [0.001, 0.0001]}\n    \
                  name: {values: [adam, sgd]}\n    nadam:\n      parameters:\n        \
                  beta: {value: 0.9}\n        eps: {min: 0.1, max: 0.2}\n";
    let (run_words, style, _) = run(nested, "[a, \"${args}\"]");
    assert_eq!(
        run_words,
        [
            "a",
            "--optimizer={'lr': {optimizer.lr}, 'name': '{optimizer.name}', 'nadam': {'beta': \
         0.9, 'eps': {optimizer.nadam.eps}}}"
        ]
    );
    assert_eq!(style, None);
    let (run_words, style, _) = run(nested, "[a, \"${args_no_hyphens}\"]");
    assert_eq!(run_words, ["a", "optimizer.nadam.beta=0.9", "{args}"]);
    assert_eq!(style.as_deref(), Some("hydra"));
    let space = spec_of(&read(&with("random", nested))).space;
    let names: Vec<&str> =
        space.dimensions().iter().map(|dimension| dimension.name.as_str()).collect();
    assert_eq!(names, ["optimizer.lr", "optimizer.name", "optimizer.nadam.eps"]);
}

#[test]
fn files_of_json_and_variables_are_left_to_a_shell() {
    let two = "lr: {min: 0.1, max: 1}\nepochs: {value: 5}";
    let (file, _, _) = run(two, "[python, \"${program}\", --file, \"${args_json_file}\"]");
    assert_eq!(file, ["sh", "-c", "exec python train.py --file \"$HPSEARCH_PARAMS\""]);
    let (json, _, _) = run(two, "[python, \"${program}\", \"${args_json}\"]");
    assert_eq!(json, ["sh", "-c", "exec python train.py \"$(cat \"$HPSEARCH_PARAMS\")\""]);
    let text = format!("{}command: [a, \"${{args_json}}\"]\n", with("random", two));
    let spec = spec_of(&read(&text));
    assert_eq!(
        spec.space.dimension("epochs").unwrap().distribution,
        Distribution::choice(vec![Value::Int(5)]).unwrap()
    );
    let (variable, style, _) =
        run(two, "[\"${program}\", \"--data=${envvar:HOME}/it's\", \"${args}\"]");
    assert_eq!(
        variable,
        [
            "sh",
            "-c",
            "exec train.py '--data='\"${{HOME-HOME}}\"'/it'\\''s' \"$@\"",
            "sh",
            "--epochs=5",
            "{args}"
        ]
    );
    assert_eq!(style.as_deref(), Some("equals"));
}

#[test]
fn hyperband_is_asha_with_the_same_rungs() {
    let pruner = |early: &str| {
        let text = with("bayes", "lr: {min: 0.1, max: 1}\nepochs: {value: 27}");
        let sweep = read(&format!("{text}early_terminate: {{type: hyperband, {early}}}\n"));
        let pruner = spec_of(&sweep).pruner;
        assert_eq!(pruner.name, "asha");
        let option = |key: &str| pruner.options[key].as_u64().unwrap();
        (option("min_resource"), option("max_resource"), option("reduction_factor"))
    };
    // The length of a run is that of its epochs.
    assert_eq!(pruner("min_iter: 3"), (3, 27, 3));
    assert_eq!(pruner("max_iter: 27, s: 2"), (3, 27, 3));
    assert_eq!(pruner("max_iter: 10, s: 2, eta: 3"), (1, 9, 3));
    assert_eq!(pruner("max_iter: 100, s: 3, eta: 2"), (12, 96, 2));
    assert_eq!(pruner("max_iter: 64, s: 3, eta: 2"), (8, 64, 2));
    assert_eq!(pruner("min_iter: 2, max_iter: 16, eta: 4, strict: true"), (2, 16, 4));
    let text = with("bayes", "lr: {min: 0.1, max: 1}");
    let sweep = read(&format!("{text}early_terminate: {{type: hyperband, min_iter: 5}}\n"));
    assert!(sweep.notes().iter().any(|note| note.contains("max_resource")));
    assert_eq!(spec_of(&sweep).pruner.options["max_resource"], 405);
}

#[test]
fn the_rest_of_a_sweep_has_its_keys() {
    let text = "name: My sweep\ndescription: a line\nproject: mer\nentity: me\nmethod: grid\n\
                program: train.py\nrun_cap: 7\nmetric: {name: val/acc, goal: maximize, \
                target: 0.95}\nparameters: {a: {values: [1, 2]}}\n";
    let sweep = read(text);
    assert_eq!((sweep.name(), sweep.notes()), (Some("My sweep"), &[][..]));
    let spec = spec_of(&sweep);
    assert_eq!(spec.sampler.name, "grid");
    assert_eq!(spec.description.as_deref(), Some("a line"));
    assert_eq!((spec.budget.trials, spec.budget.target), (Some(7), Some(0.95)));
    let written = sweep.study_file("study");
    for line in ["metric = \"val/acc\"", "direction = \"maximize\"", "count = \"all\""] {
        assert!(written.contains(line), "{written}");
    }
    let given = Given { metric: Some("f1".to_owned()), trials: Some(9) };
    let spec = spec_of(&Sweep::read(text, "sweep.yaml", &given).unwrap());
    assert_eq!(spec.budget.trials, Some(9));
    let several = "method: custom\nprogram: a.py\nmetrics:\n- {name: loss}\n- {name: acc, goal: \
                   maximize}\nparameters: {a: {min: 1, max: 5}}\n";
    assert_eq!(spec_of(&read(several)).objectives.len(), 2);
}

#[test]
fn problems_name_the_key_and_all_are_reported() {
    let sweep = "metod: grid\nmethod: gird\nrun_cap: 0\nmetric: {goal: minimise}\n\
                 early_terminate: {type: envelope}\ncommand: python train.py\nparameters:\n  \
                 a: 3\n  b: {vaules: [1]}\n  c: {min: 5, max: 3}\n  d: {min: '1', max: 2}\n  \
                 e: {distribution: unifrom, min: 1, max: 2}\n  f: {distribution: uniform, \
                 min: 1, max: 2, q: 1}\n  g: {distribution: normal, sigma: -1}\n  h: {values: \
                 [1, 2], probabilities: [0.5]}\n  i: {distribution: log_uniform, min: 1, \
                 max: 1000}\n  j: {values: []}\n  'k k': {value: 1}\n  l: {distribution: \
                 int_uniform, min: 0.0, max: 1.0}\n";
    let all = [
        "a sweep has no key `metod`",
        "there is no method `gird`",
        "`run_cap` must be an integer above 0",
        "a metric needs a `name`",
        "`early_terminate` of type `envelope` is unknown",
        "`command` must be a list, not a string",
        "`a` must be a mapping, not an integer",
        "`b`: it has no values",
        "`c`: `min: 5` is not below `max: 3`",
        "`d`: `min` must be a number, not a string",
        "`e`: there is no distribution `unifrom`",
        "`f`: `uniform` has no key `q`",
        "`g`: `sigma` must be above 0",
        "`h`: `probabilities` must be one number for each of `values`, with the sum 1",
        "`i`: the range is 2.718281828459045 to inf",
        "`j`: the list of choices is empty",
        "`k k` cannot be the name of a parameter",
        "`l`: `min` must be an integer, not a number",
    ];
    assert_eq!(problems(sweep).lines().collect::<Vec<_>>(), all);
    assert_eq!(problems("[1, 2]"), "a sweep is a mapping, not a list\n");
    assert_eq!(
        problems("method: grid\nprogram: a\nparameters: {a: {value: 1}}\n"),
        "all parameters have one value: nothing is searched\n"
    );
    assert_eq!(
        problems(&with("grid", "a: {values: [1]}\na.b: {values: [2]}")),
        "`a` is a parameter, and `a.b` is within it\n"
    );
}

/// The examples of W&B's documentation and of its tests.
const EXAMPLES: &[&str] = &[
    "program: train.py\nmethod: bayes\nmetric:\n  name: validation_loss\n  goal: minimize\n\
     parameters:\n  learning_rate:\n    min: 0.0001\n    max: 0.1\n  optimizer:\n    values: \
     [\"adam\", \"sgd\"]\n",
    "program: train.py\nmethod: bayes\nname: sweepdemo\nmetric:\n  goal: minimize\n  name: \
     validation_loss\nparameters:\n  learning_rate:\n    min: 0.0001\n    max: 0.1\n  \
     batch_size:\n    values: [16, 32, 64]\n  epochs:\n    values: [5, 10, 15]\n  optimizer:\n\
     \x20   values: [\"adam\", \"sgd\"]\n",
    "program: train_with_nested_params.py\nmethod: random\nmetric: {name: loss}\nparameters:\n\
     \x20 optimizer:\n    parameters:\n      learning_rate:\n        values: [0.01, 0.001]\n    \
     \x20 momentum:\n        value: 0.9\n",
    "program: train.py\nmethod: bayes\nmetric: {name: val_loss, goal: minimize}\n\
     early_terminate:\n  type: hyperband\n  s: 2\n  eta: 3\n  max_iter: 27\nparameters:\n  \
     dropout: {values: [0.15, 0.2, 0.25]}\n",
    "program: train.py\nmethod: random\nmetric: {name: acc, goal: maximize}\nparameters:\n  \
     batch_size:\n    distribution: q_log_uniform_values\n    min: 32\n    max: 256\n    q: 8\n  \
     learning_rate:\n    distribution: uniform\n    min: 0\n    max: 0.1\n  dropout: {values: \
     [0.3, 0.4, 0.5]}\n  epochs: {value: 1}\n  fc_layer_size: {values: [128, 256, 512]}\n  \
     optimizer: {values: [adam, sgd]}\n",
    "program: train.py\nmethod: grid\ncommand:\n  - ${env}\n  - python3\n  - ${program}\n  - \
     ${args_no_hyphens}\nparameters:\n  a: {values: [1, 2]}\n",
    "program: main.py\nmethod: random\nmetric: {name: val_acc, goal: maximize}\ncommand:\n  - \
     ${env}\n  - ${interpreter}\n  - -m\n  - accelerate.commands.launch\n  - ${program}\n  - \
     --optimizer=${envvar:OPTIMIZER}\n  - ${args_no_boolean_flags}\nparameters:\n  fp16: {values: \
     [true, false]}\n  seed: {min: 0, max: 10}\n",
    "description: sweep example using grid search\nprogram: train.py\nproject: sweeps-examples\n\
     method: grid\nmetric:\n  name: loss_metric\n  goal: minimize\nearly_terminate:\n  type: \
     hyperband\n  max_iter: 10\n  s: 2\n  eta: 3\ncontroller:\n  type: local\nparameters:\n  \
     epochs:\n    value: 20\n  sleep:\n    value: 0.5\n  base:\n    values: [10,15,20]\n  \
     increment:\n    values: [0.1,0.2,0.3]\n  direction:\n    values: [-1,0.1,1]\n",
    "command: [\"${env}\", \"${interpreter}\", \"${program}\", sweep, 2dconv_lstm.stat.ac, \
     --dataset, deam, --batch-size]\nearly_terminate: {min_iter: 3, type: hyperband}\nmethod: \
     random\nmetric: {goal: minimize, name: val/loss}\nname: AC-2DConvLSTM-Stat-DEAM\n\
     parameters:\n  dropout: {values: [\"0.15\", \"0.2\"]}\n  n_fft: {value: 1024}\nprogram: \
     exec.py\nproject: mer\n",
    "method: grid\nparameters:\n  v1: {values: [~, 2, 3, a, [2, 3]]}\n",
    "method: random\nparameters: {a: {min: 1, max: 2, distribution: log_uniform}, b: \
     {distribution: q_log_uniform, min: 0, max: 5}}\n",
    "method: bayes\nscheduler: {engine: wandb, source: s.py}\nparameters: {v1: {values: [1, 2, \
     3]}}\n",
    "{\"method\": \"random\", \"parameters\": {\"a\": {\"min\": 0.0, \"max\": 1.0}}}",
    "method: bayes\njob: me/project/job:v0\nmetric: {name: loss, impute: worst}\nparameters: \
     {lr: {distribution: normal}, l2: {distribution: log_normal, mu: -5, sigma: 2}}\n",
];

#[test]
fn every_example_becomes_a_valid_study() {
    for example in EXAMPLES {
        let sweep = read(example);
        spec_of(&sweep);
        let text = sweep.study_file("study");
        assert!(sweep.notes().iter().all(|note| text.contains(note)), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_translated_is_a_valid_study(
        method in prop_oneof![Just("grid"), Just("random"), Just("bayes")],
        command in prop_oneof![
            Just("args"), Just("args_no_equals"), Just("args_no_hyphens"), Just("args_json"),
            Just("args_no_boolean_flags"), Just("args_append_hydra"), Just("none"),
        ],
        kinds in prop::collection::vec(
            (0_usize..6, "[a-z_][a-z0-9_.-]{0,6}", -5_i32..9, 1_i32..400, 1_i32..9), 1..6,
        ),
        value in prop_oneof![
            Just("[1, 2.5, null, true]".to_owned()),
            Just("[{a: [1]}, \"it's {x}\"]".to_owned()),
            "\\[\"[ -~&&[^\"\\\\]]{0,8}\", [a-z]{1,3}\\]",
        ],
    ) {
        let mut text = format!("program: 'a {{b}}.py'\nmethod: {method}\n\
            command: [x, \"${{{command}}}\"]\nparameters:\n");
        for (at, (kind, name, low, span, q)) in kinds.iter().enumerate() {
            let high = low + span;
            let definition = match kind {
                0 => format!("{{min: {low}, max: {high}}}"),
                1 => format!("{{distribution: q_uniform, min: {low}, max: {high}, q: {q}}}"),
                2 => format!("{{distribution: q_log_uniform, min: {low}, max: {high}.5, q: {q}}}")
                    .replace(&format!("{high}.5"), &format!("{}.5", low + span % 9)),
                3 => format!("{{distribution: q_normal, mu: {low}, sigma: {q}, q: 0.{q}}}"),
                4 => format!("{{values: {value}}}"),
                _ => format!("{{parameters: {{p: {{value: {q}}}, q: {{values: {value}}}}}}}"),
            };
            text += &format!("  {name}_{at}: {definition}\n");
        }
        // Names may end in `.` or contain others: such sweeps are refused, not translated.
        if let Ok(sweep) = Sweep::read(&text, "sweep.yaml", &Given::default()) {
            let written = sweep.study_file("study");
            let parsed = parse(&written, Path::new("study.toml"), Path::new("/"), &[]);
            prop_assert!(parsed.is_ok(), "{:?}\n{text}\n{written}", parsed.map(drop));
        }
    }
}
