//! The study file as its users meet it: what is taken, and every message about what is not.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use hpsearch::config::{self, ChangeClass, Look, TABLES, difference};
use hpsearch::study::budget::Count;
use hpsearch::study::cluster::{AgentStart, SshHost};
use hpsearch::study::field::FieldKind;
use hpsearch::study::metric::Direction;
use hpsearch::study::params::Value;
use hpsearch::study::program::Program;
use hpsearch::study::spec::{FailureCause, PerTrial, StudySpec, ValueRule, WhileRunning};
use hpsearch::study::step::StepUnit;
use proptest::prelude::*;

use crate::harness::{ONE_SLOT, REPORT_X, Site, assert_done, assert_names, study};

const COMMAND: &str = r#"[study]
metric = "loss"
direction = "minimize"

[budget]
trials = 10

[space]
lr = { float = [1e-5, 1e-1], log = true }
optimizer = ["sgd", "adamw"]
momentum = { float = [0.0, 0.9], when = { optimizer = "sgd" } }

[command]
run = ["python3", "train.py", "--lr", "{lr}"]
"#;

const TRAINER: &str = r#"[study]
metric = "eval_loss"
direction = "minimize"

[budget]
trials = 10

[space]
learning_rate = { float = [1e-5, 1e-1], log = true }

[trainer]
task = "text-classification"
num_train_epochs = 3

[data]
train = "train.csv"
"#;

/// Every key that is taken today.
const FULL: &str = r#"# A comment.
[study]
name = "every-key_1.0"
description = "All that can be written"
tags = ["one", "two"]
metric = "accuracy"
direction = "maximize"
value = "last"
step = "samples"
seed = 7
duplicates = "allow"
deterministic = false
replicates = 1
race = 0

[budget]
trials = 48
count = "completed"
time = "2h30m"
target = 0.99
failures = 5
device_hours = 12.5
cost = 40
price_per_hour = 2.5
trial_patience = 5
trial_min_delta = 0.001
trial_time = "90m"
stall_time = "10m"
patience = 40

[space]
lr = { float = [1e-5, 1e-1], log = true, prior = 1e-3 }
width = { int = [16, 512], log = true }
depth = { int = [1, 9], step = 2, prior = 3 }
dropout = { float = [0, 0.5], step = 0.1 }
optimizer = { choice = ["sgd", "adamw", "lion"], prior = "adamw" }
flag = [true, false]
momentum = { float = [0.0, 0.99], when = { optimizer = "sgd" } }
betas = { choice = ["wide", "narrow"], when = { optimizer = ["adamw", "lion"], flag = true } }
"model.layers" = [1, 2, 4]
model.heads = { int = [1, 8] }

[[constraint]]
require = "width * depth <= 4096 or optimizer == 'lion'"

[[constraint]]
limit = "latency_ms <= 20"
prune = false

[[enqueue]]
lr = 0.01
optimizer = "sgd"
momentum = 0.9

[[enqueue]]
width = 64
model.layers = 2

[sampler]
type = "tpe"
n_startup_trials = 4
warm_start = ["yesterday", "runs/old.db:digits"]

[pruner]
type = "asha"
min_resource = 1
max_resource = 27
reduction_factor = 3
brackets = 1
mode = "promote"

[command]
run = ["python3", "train.py", "--lr={lr}", "{model.layers}"]
cwd = "."
env = { OMP_PROC_BIND = "true" }
args_style = "dashes"

[devices]
use = ["cpu", "cuda:0", "cuda:*", "sim:0", "sim:1..3"]
trials_per_device = "auto"
per_trial = 1
nodes_per_trial = 1
per_device = true
memory = "20GiB"
cpu_threads = 4

[retry]
max = 3
on = ["oom", "device_lost", "worker_lost", "timeout", "program"]

[checkpoints]
keep = "best-5"
dir = "checkpoints"
max_disk = "1.5 GiB"
while_running = "needed"

[export]
dir = "exported"
on_finish = true
quantize = "int8"

[track]
system = "30s"
to = ["tensorboard:tb"]

[notify]
command = ["notify-send", "{text}"]
webhook = "env:WEBHOOK"
on = ["best", "finished"]
"#;

/// A snapshot without the test's own source in it.
macro_rules! snapshot {
    ($text:expr) => {{
        let mut settings = insta::Settings::clone_current();
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!($text));
    }};
}

/// A directory with the files that studies of these tests name.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("train.csv"), "text,label\na,b\n").unwrap();
    fs::create_dir(directory.path().join("folder")).unwrap();
    fs::create_dir(directory.path().join("folder.csv")).unwrap();
    directory
}

fn parse_in(
    directory: &Path,
    text: &str,
    overrides: &[&str],
) -> Result<StudySpec, config::Diagnostics> {
    let overrides: Vec<String> = overrides.iter().map(|&set| set.to_owned()).collect();
    config::parse(text, Path::new("study.toml"), directory, &overrides)
}

fn parse(text: &str) -> Result<StudySpec, config::Diagnostics> {
    parse_in(directory().path(), text, &[])
}

/// What the user sees for `text`: its problems, or its warnings.
fn said(text: &str, overrides: &[&str]) -> String {
    let directory = directory();
    let overrides: Vec<String> = overrides.iter().map(|&set| set.to_owned()).collect();
    let rendered = match config::parse_with_warnings(
        text,
        Path::new("study.toml"),
        directory.path(),
        &overrides,
    ) {
        Ok(checked) => format!("(valid) {}", checked.warnings.render(Look::Plain)),
        Err(problems) => problems.render(Look::Plain),
    };
    rendered.replace(&directory.path().display().to_string(), "[DIR]")
}

/// Each change of `base` with what is said about it.
fn sheet(base: &str, changes: &[(&str, &str)]) -> String {
    let mut sheet = String::new();
    for (from, to) in changes {
        assert!(base.contains(from), "{from}");
        let rendered = said(&base.replacen(from, to, 1), &[]);
        says_what_to_do(&rendered);
        assert!(!rendered.starts_with("(valid) no problems"), "{to} is taken");
        // The renderer does not wrap its first line: 100 leaves room for long names.
        let titles = rendered
            .lines()
            .filter(|line| line.starts_with("error") || line.starts_with("warning"));
        titles.for_each(|title| assert!(title.chars().count() <= 100, "{title}"));
        writeln!(sheet, "{rendered}\n{}", "=".repeat(80)).unwrap();
    }
    sheet
}

/// Each problem has its advice: a study file is repaired by what its messages say.
fn says_what_to_do(rendered: &str) {
    let mut problem = None;
    for line in rendered.lines() {
        if line.starts_with("error") || line.starts_with("warning") {
            assert_eq!(problem.replace(line), None, "no help under it");
        } else if line.trim_start_matches([' ', '|']).starts_with("= help: ")
            || line.starts_with("help: ")
        {
            problem = None;
        }
    }
    assert_eq!(problem, None, "no help under it");
}

#[test]
fn what_is_not_toml_is_explained() {
    snapshot!(sheet(
        COMMAND,
        &[
            ("metric = \"loss\"", "metric = loss"),
            ("trials = 10", "trials = "),
            ("[space]", "[space"),
            ("trials = 10", "trials = 10\ntrials = 11"),
            ("run = [\"python3\"", "run = [\"python3"),
            ("trials = 10", "trials = 99999999999999999999"),
            ("trials = 10", "target = 1e999"),
            ("[command]", "[space]\nx = [1]\n[command]"),
            ("trials = 10", "target = .5"),
            ("trials = 10", "target = -5."),
            ("trials = 10", "deterministic = True"),
            ("trials = 10", "trials = None"),
            ("trials = 10", "trials = 010"),
        ]
    ));
}

#[test]
fn a_file_of_yaml_is_one_error() {
    let sweep = "# a sweep\nprogram: train.py\nmethod: bayes\nmetric:\n  name: loss\n  goal: \
        minimize\nparameters:\n  lr:\n    min: 1e-5\n    max: 0.1\n";
    for (name, text, help) in [
        ("sweep.yaml", sweep, "`hpsearch init --sweep sweep.yaml`"),
        ("study.toml", sweep, "`hpsearch init --sweep study.toml`"),
        ("search.yml", "- lr: 1\n- lr: 2\nx\n", "`hpsearch init`"),
    ] {
        let site = Site::new("", "");
        site.write(name, text);
        let checked = site.run(&["check", name]);
        assert_eq!(checked.code, 2, "{}", checked.err);
        assert_eq!(checked.err.matches("error: ").count(), 1, "{}", checked.err);
        assert_names(&checked.err, &["error: this is YAML, and a study file is TOML", help]);
    }
}

#[test]
fn unknown_tables_and_keys_are_explained() {
    snapshot!(sheet(
        COMMAND,
        &[
            ("[budget]", "[bugdet]"),
            ("[budget]", "[wandb]\nproject = \"x\"\n[budget]"),
            ("[study]", "trials = 10\n[study]"),
            ("trials = 10", "trails = 10"),
            ("trials = 10", "n_trials = 10"),
            ("metric = \"loss\"", "metric = \"loss\"\ntrials = 10"),
            ("metric = \"loss\"", "metric = \"loss\"\nzebra = 10"),
            ("[budget]", "[[budget]]"),
            ("[study]", "sampler = \"random\"\n[study]"),
            ("[command]", "[notify]\nmail = \"me\"\n[command]"),
        ]
    ));
}

#[test]
fn problems_of_constraints_are_explained_where_they_are() {
    let with = |text: &str| format!("{text}\n[command]");
    let edits = [
        with("[constraint]\nrequire = \"lr < 1\""),
        with("[[constraint]]\nrequire = \"lr <\""),
        with("[[constraint]]\nrequire = \"lr * 2 = 1\""),
        with("[[constraint]]\nrequire = \"momentun < 0.5 or lr < 1e-3\""),
        with("[[constraint]]\nrequire = 'optimizer == \"sgd\"'"),
        with("[[constraint]]\nrequire = \"optimizer == 'adam'\""),
        with("[[constraint]]\nrequire = \"lr + 1\""),
        with("[[constraint]]\nlimit = \"latency_ms ^ 2 < 3\""),
        with("[[constraint]]\nrequire = \"lr < 1\"\nlimit = \"loss < 1\""),
        with("[[constraint]]\nrequires = \"lr < 1\""),
        with("[[constraint]]\n"),
        with("[[constraint]]\nrequire = \"lr < 1e-3\"\n[[enqueue]]\nlr = 0.01"),
    ];
    let edits: Vec<(&str, &str)> = edits.iter().map(|edit| ("[command]", edit.as_str())).collect();
    snapshot!(sheet(COMMAND, &edits));
}

#[test]
fn constraints_are_kept_as_they_are_written() {
    let text = COMMAND.replace(
        "[command]",
        "[[constraint]]\nrequire = \"momentum < 0.5 or lr < \
            1e-3\"\n[[constraint]]\nlimit = '\"eval size\" <= 20'\n[command]",
    );
    let spec = parse(&text).unwrap();
    let constraints: Vec<String> = spec.constraints.iter().map(ToString::to_string).collect();
    assert_eq!(
        constraints,
        ["require = \"momentum < 0.5 or lr < 1e-3\"", "limit = \"\\\"eval size\\\" <= 20\""]
    );
    let stored = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<StudySpec>(&stored).unwrap(), spec);
}

#[test]
fn problems_of_the_study_table_are_explained() {
    let spare = "metric = \"loss\"\ndirection = \"minimize\"";
    snapshot!(sheet(
        COMMAND,
        &[
            (spare, ""),
            ("[study]\nmetric = \"loss\"\ndirection = \"minimize\"\n", ""),
            ("\"minimize\"", "\"min\""),
            ("\"minimize\"", "\"maximise\""),
            ("\"minimize\"", "\"up\""),
            ("\"minimize\"", "\"maximize\""),
            ("metric = \"loss\"", "metric = \"val_accuracy\""),
            ("metric = \"loss\"", "metric = 3"),
            ("metric = \"loss\"", "metric = \"\""),
            ("metric = \"loss\"", "metric = [\"loss\", \"latency\"]"),
            ("metric = \"loss\"", "metric = \"loss\"\nname = \"my study\""),
            ("metric = \"loss\"", "metric = \"loss\"\nname = 2026-11-21"),
            ("metric = \"loss\"", "metric = \"loss\"\nvalue = \"median\""),
            ("metric = \"loss\"", "metric = \"loss\"\nstep = \"epochs\""),
            ("metric = \"loss\"", "metric = \"loss\"\nseed = -1"),
            ("metric = \"loss\"", "metric = \"loss\"\nseed = \"7\""),
            ("metric = \"loss\"", "metric = \"loss\"\nduplicates = \"twice\""),
            ("metric = \"loss\"", "metric = \"loss\"\ndeterministic = 1"),
            ("metric = \"loss\"", "metric = \"loss\"\nreplicates = 0"),
            ("metric = \"loss\"", "metric = \"loss\"\nreplicates = 20"),
            ("metric = \"loss\"", "metric = \"loss\"\nrace = -1"),
            ("metric = \"loss\"", "metric = \"loss\"\ntags = \"one\""),
            ("metric = \"loss\"", "metric = \"loss\"\ntags = [1]"),
            (
                spare,
                "[[study.objective]]\nmetric = \"a\"\ndirection = \"minimize\"\n\
                 [[study.objective]]\nmetric = \"a\"\ndirection = \"minimize\""
            ),
            (spare, "[[study.objective]]\nmetric = \"a\"\ndirection = \"minimize\"\nthreshold = 1"),
            (spare, "[[study.objective]]\nmetric = \"a\"\n"),
            (spare, "objective = \"a\""),
            (
                spare,
                "metric = \"a\"\n[[study.objective]]\nmetric = \"a\"\ndirection = \"minimize\"\n"
            ),
        ]
    ));
}

/// A warning about a range takes no parameter away.
#[test]
fn a_range_whose_bound_is_not_reached_is_searched() {
    let ranges = "x = { float = [0.0, 1.0], step = 0.3 }\nn = { int = [1, 60], step = 7 }";
    let file = study("trials = 2", ONE_SLOT).replace("x = { float = [0.0, 1.0] }", ranges);
    let site = Site::new(&file, REPORT_X);
    let ended = site.run_study();
    assert_done(&ended);
    assert_names(&ended.err, &["never has its upper bound: its largest value is 0.9"]);
    for trial in site.trials() {
        assert!(trial["params"]["x"].is_number() && trial["params"]["n"].is_number(), "{trial}");
    }
}

#[test]
fn what_several_objectives_rule_out_is_explained() {
    let several = COMMAND.replacen(
        "metric = \"loss\"\ndirection = \"minimize\"",
        "spare = 1\n[[study.objective]]\nmetric = \"loss\"\ndirection = \"minimize\"\n\
         [[study.objective]]\nmetric = \"latency\"\ndirection = \"minimize\"",
        1,
    );
    assert_ne!(several, COMMAND);
    snapshot!(sheet(
        &several,
        &[
            ("spare = 1", "value = \"best\""),
            ("spare = 1", "value = \"mean\""),
            ("spare = 1", "replicates = 2"),
            ("spare = 1", "race = 2"),
            ("spare = 1", "duplicates = \"replicate\""),
        ]
    ));
    // Both objectives' problems at once.
    let typos = several
        .replacen("spare = 1\n", "", 1)
        .replacen("minimize", "minimise", 1)
        .replacen("metric = \"latency\"", "metrik = \"latency\"", 1);
    let rendered = said(&typos, &[]);
    for problem in ["`minimise`", "did you mean `metric`?", "2 problems"] {
        assert!(rendered.contains(problem), "{problem}: {rendered}");
    }
    let rendered = said(&several.replacen("spare = 1\n", "", 1), &[]);
    assert!(rendered.starts_with("(valid)"), "{rendered}");
}

#[test]
fn problems_of_the_budget_are_explained() {
    snapshot!(sheet(
        COMMAND,
        &[
            ("trials = 10", ""),
            ("[budget]\ntrials = 10", ""),
            ("trials = 10", "trials = 0"),
            ("trials = 10", "trials = 10.5"),
            ("trials = 10", "trials = \"10\""),
            ("trials = 10", "count = \"complete\"\ntrials = 10"),
            ("trials = 10", "time = \"90\""),
            ("trials = 10", "time = \"30m2h\""),
            ("trials = 10", "time = \"5 minutes\""),
            ("trials = 10", "time = 90"),
            ("trials = 10", "time = \"0s\""),
            ("trials = 10", "target = nan"),
            ("trials = 10", "target = \"0.9\""),
            ("trials = 10", "trials = 10\npatience = 0"),
            ("trials = 10", "device_hours = 0"),
            ("trials = 10", "device_hours = \"5h\""),
            ("trials = 10", "cost = 3"),
            ("trials = 10", "cost = 3\nprice_per_hour = -1"),
            ("trials = 10", "trials = 10\nstall_time = 60"),
        ]
    ));
}

#[test]
fn problems_of_ranges_are_explained() {
    let range = "{ float = [1e-5, 1e-1], log = true }";
    snapshot!(sheet(
        COMMAND,
        &[
            (range, "0.1"),
            (range, "{}"),
            (range, "{ flaot = [0, 1] }"),
            (range, "{ uniform = [0, 1] }"),
            (range, "{ low = 0, high = 1 }"),
            (range, "{ float = [0, 1], colour = 3 }"),
            (range, "{ float = [0, 1], int = [0, 1] }"),
            (range, "{ float = 0.1 }"),
            (range, "{ float = [0, 1, 2] }"),
            (range, "{ int = [1] }"),
            (range, "{ float = [\"a\", 1] }"),
            (range, "{ float = [1, 0] }"),
            (range, "{ float = [0, 1], log = true }"),
            (range, "{ float = [0.1, 1], log = true, step = 0.1 }"),
            (range, "{ float = [0, 1], log = \"yes\" }"),
            (range, "{ float = [0, 1], step = 0 }"),
            (range, "{ float = [0, inf] }"),
            (range, "{ float = [-1e308, 1e308] }"),
            (range, "{ int = [0.5, 1] }"),
            (range, "{ int = [1, 8], step = 0.5 }"),
            (range, "{ int = [1, 10], step = 4 }"),
            (range, "{ float = [0, 1], step = 0.3 }"),
            (range, "{ int = [0, 99999999999999999] }"),
            (range, "[]"),
            (range, "[1, 2, 1.0]"),
            (range, "[nan]"),
            (range, "[[1, [2]], [3, 4]]"),
            (range, "{ choice = 3 }"),
            (range, "{ choice = [1, 2], log = true }"),
            (range, "{ float = [0, 1], prior = 2 }"),
            (range, "{ float = [0, 1], prior = [2] }"),
            ("lr =", "\"l r\" ="),
        ]
    ));
}

#[test]
fn problems_between_parameters_are_explained() {
    let when = "{ optimizer = \"sgd\" }";
    let cases = sheet(
        COMMAND,
        &[
            (when, "{ optimiser = \"sgd\" }"),
            (when, "{ optimizer = \"lion\" }"),
            (when, "{ optimizer = [\"sgd\", \"lion\"] }"),
            (when, "{ optimizer = [] }"),
            (when, "{}"),
            (when, "\"sgd\""),
            (when, "{ lr = 7 }"),
            (
                "optimizer = [\"sgd\", \"adamw\"]",
                "optimizer = { choice = [\"sgd\", \"adamw\"], when = { momentum = 0.5 } }",
            ),
            ("lr =", "model.layers = [1]\n\"model.layers\" = [2]\nlr ="),
            ("lr =", "model.layers = [1]\nmodel_layers = [2]\nlr ="),
            ("[space]", "[other]"),
            ("[space]", "[space]\n[other]"),
        ],
    );
    snapshot!(cases);
}

#[test]
fn problems_of_enqueued_configurations_are_explained() {
    snapshot!(sheet(
        COMMAND,
        &[
            ("[command]", "[[enqueue]]\nlearning_rate = 0.1\n[command]"),
            ("[command]", "[[enqueue]]\nlr2 = 0.1\n[command]"),
            ("[command]", "[[enqueue]]\nlr = 7\n[command]"),
            ("[command]", "[[enqueue]]\noptimizer = \"lion\"\n[command]"),
            ("[command]", "[[enqueue]]\nlr = [0.1]\n[command]"),
            ("[command]", "[[enqueue]]\noptimizer = \"adamw\"\nmomentum = 0.5\n[command]"),
            ("[command]", "[[enqueue]]\nmomentum = 0.5\n[command]"),
            ("[command]", "[[enqueue]]\n[command]"),
            ("[command]", "[enqueue]\nlr = 0.1\n[command]"),
            ("[study]", "enqueue = [1]\n[study]"),
        ]
    ));
}

#[test]
fn a_study_file_of_a_thousand_nested_conditions_is_refused_where_the_chain_ends() {
    let chain = (1..1000)
        .map(|index| format!("p{index} = {{ int = [0, 1], when = {{ p{} = 1 }} }}\n", index - 1))
        .collect::<String>();
    let text = format!(
        "[study]\nmetric = \"loss\"\ndirection = \"minimize\"\n[space]\np0 = {{ int = [0, 1] \
         }}\n{chain}[command]\nrun = [\"train\", \"{{p0}}\"]\n"
    );
    let said = said(&text, &[]);
    assert_names(&said, &["the conditions are nested 1000 deep; 100 can be followed at most"]);
    assert!(said.contains("--> study.toml:1004:"), "{said}");
}

#[test]
fn problems_of_samplers_and_pruners_are_explained() {
    snapshot!(sheet(
        COMMAND,
        &[
            ("[command]", "[sampler]\ntype = \"randm\"\n[command]"),
            ("[command]", "[sampler]\ntype = 3\n[command]"),
            ("[command]", "[sampler]\ntype = \"grid\"\npoint = 3\n[command]"),
            ("[command]", "[sampler]\ntype = \"grid\"\npoints = 0\n[command]"),
            ("[command]", "[sampler]\ntype = \"random\"\npoints = 3\n[command]"),
            ("[command]", "[sampler]\nwarm_start = \"other\"\n[command]"),
            ("[command]", "[pruner]\ntype = \"pbt\"\n[command]"),
            ("trials = 10", "trials = 10\n[pruner]\ntype = \"pbt\"\ninterval = 2\npopulation = 4",),
            (
                "direction = \"minimize\"\n\n[budget]\ntrials = 10",
                "direction = \"minimize\"\nrace = 3\nreplicates = 2\n[pruner]\ntype = \"pbt\"\n\
                 interval = 2\npopulation = 5\n[budget]\ntrials = 10",
            ),
            (
                "[command]",
                "[pruner]\ntype = \"pbt\"\ninterval = 9\nmax_resource = 9\npopulation = 5\n\
                 [command]",
            ),
            (
                "trials = 10",
                "trials = 16\n[pruner]\ntype = \"pbt\"\ninterval = 2\nfrequencies = [1, 2, 4]",
            ),
            (
                "trials = 10",
                "trials = 16\n[pruner]\ntype = \"pbt\"\ninterval = 2\nfrequencies = [5, 1]",
            ),
            (
                "trials = 10",
                "trials = 16\n[pruner]\ntype = \"pbt\"\ninterval = 2\nmax_resource = 9\n\
                 frequencies = [1, 5]",
            ),
            (
                "trials = 10",
                "trials = 16\n[pruner]\ntype = \"pbt\"\ninterval = 2\n\
                 frequencies = 5",
            ),
            ("trials = 10", "trials = 16\n[pruner]\ntype = \"pbt\"\ninterval = 2\nmodel = \"gp\"",),
            (
                "trials = 10",
                "trials = 16\n[pruner]\ntype = \"pbt\"\ninterval = 2\nasynchronous = true\n\
                 frequencies = [1, 2]",
            ),
            (
                "trials = 10",
                "trials = 16\n[pruner]\ntype = \"pbt\"\ninterval = 2\nasynchronous = true\n\
                 model = true",
            ),
            (
                "direction = \"minimize\"\n\n[budget]\ntrials = 10",
                "direction = \"minimize\"\ndeterministic = true\n[budget]\ntrials = 16\n\
                 [pruner]\ntype = \"pbt\"\ninterval = 2\nasynchronous = true",
            ),
            (
                "trials = 10\n\n[space]\nlr = { float = [1e-5, 1e-1], log = true }\n\
                 optimizer = [\"sgd\", \"adamw\"]\n\
                 momentum = { float = [0.0, 0.9], when = { optimizer = \"sgd\" } }",
                "trials = 16\n[pruner]\ntype = \"pbt\"\ninterval = 2\nmodel = true\n\
                 [space]\nlr = [0.1, 0.2]",
            ),
            ("[command]", "[pruner]\ntype = \"asha\"\n[command]"),
            (
                "[command]",
                "[pruner]\ntype = \"asha\"\nmax_resource = 27\nmode = \"pause\"\n[command]"
            ),
            (
                "[command]",
                "[sampler]\ntype = \"grid\"\n[space.wide]\nint = [1, \
                 4000000000]\n[space.wider]\nint = [1, 4000000000]\n[space.widest]\nint = [1, \
                 4000000000]\n[command]"
            ),
            ("[command]", "[pruner]\ntype = \"none\"\nmax_resource = 2\n[command]"),
            (
                "[command]",
                "[pruner]\ntype = \"asha\"\nmax_resource = 2\nmin_resource = 9\n[command]"
            ),
        ]
    ));
}

#[test]
fn problems_of_commands_are_explained() {
    let run = "run = [\"python3\", \"train.py\", \"--lr\", \"{lr}\"]";
    snapshot!(sheet(
        COMMAND,
        &[
            ("[command]\nrun = [\"python3\", \"train.py\", \"--lr\", \"{lr}\"]", ""),
            ("[command]", "[trainer]\ntask = \"text-classification\"\n[command]"),
            ("[command]", "[data]\ntrain = \"train.csv\"\n[command]"),
            (run, ""),
            (run, "run = \"python3 train.py\""),
            (run, "run = []"),
            (run, "run = [\"train\", 3]"),
            (run, "run = [\"train\", \"--optim={optimiser}\"]"),
            (run, "run = [\"train\", \"{sead}\"]"),
            (run, "run = [\"train\", \"{device}\"]"),
            (run, "run = [\"train\", \"{zebra}\"]"),
            ("[command]", "[command]\ncwd = \"missing\""),
            ("[command]", "[command]\nenv = \"A=1\""),
            ("[command]", "[command]\nenv = { A = 1 }"),
            ("[command]", "[command]\nenv = { HPSEARCH_SEED = \"1\" }"),
            ("[command]", "[command]\nshell = true"),
        ]
    ));
}

#[test]
fn problems_of_the_trainer_and_its_data_are_explained() {
    let space = "learning_rate = { float = [1e-5, 1e-1], log = true }";
    let data = "[data]\ntrain = \"train.csv\"";
    snapshot!(sheet(
        TRAINER,
        &[
            (data, "[data]\ntrain = \"train.csv\"\ntext_pair = \"b\"\nscore = \"s\""),
            ("num_train_epochs = 3", "num_train_epoch = 3"),
            ("num_train_epochs = 3", "num_train_epochs = 0"),
            ("num_train_epochs = 3", "num_train_epochs = \"three\""),
            ("num_train_epochs = 3", "num_train_epochs = 3\nepochs = 4"),
            ("num_train_epochs = 3", "model.num_layers = 2\n\"model.num_layers\" = 3"),
            ("num_train_epochs = 3", "model.layers = 2"),
            ("num_train_epochs = 3", "seed = 2"),
            ("num_train_epochs = 3", "output_dir = \"out\""),
            ("num_train_epochs = 3", "bf16_full_eval = true"),
            ("num_train_epochs = 3", "model = \"bert-base-uncased\""),
            ("num_train_epochs = 3", "learning_rate = 0.1"),
            ("num_train_epochs = 3", "lr = 0.1"),
            ("num_train_epochs = 3", "model.hidden_size = 100\nmodel.num_heads = 3"),
            (space, "model.hidden_size = [96, 128]\nmodel.num_heads = [3, 4]"),
            (space, "learning_rat = { float = [1e-5, 1e-1] }"),
            (space, "learning_rate = { float = [-1, 1] }"),
            (space, "model.num_layers = { float = [1, 8] }"),
            (space, "optim = [\"adamw\", \"lomo\"]"),
            (
                "[trainer]",
                "model.hidden_size = [96, 128]\nmodel.dropout = [0.1, 0.2]\n\
                 [pruner]\ntype = \"pbt\"\npopulation = 5\n[trainer]",
            ),
            (space, "lr = [0.1]\nlearning_rate = [0.2]"),
            ("\"eval_loss\"", "\"accuracy\""),
            ("\"eval_loss\"", "\"zebra\""),
            ("\"minimize\"", "\"maximize\""),
            (data, ""),
            (data, "[data]"),
            (data, "[data]\ntrain = \"missing.csv\""),
            (data, "[data]\ntrain = \"trian.csv\""),
            (data, "[data]\ntrain = \"folder.csv\""),
            (data, "[data]\ntrain = \"train.csv\"\nlabels = \"y\""),
            (data, "[data]\ntrain = \"train.csv\"\nvalidation_split = 1.5"),
            (data, "[data]\ntrain = \"train.csv\"\ntext = \"label\""),
            (data, "[data]\ntrain = \"train.csv\"\nclean.dropempty = true"),
            ("num_train_epochs = 3", "metric = \"eval_loss\"\nzebra = 1"),
            (data, "[data]\ntrain = \"train.txt\""),
        ]
    ));
}

#[test]
fn a_requirement_that_prunes_is_refused() {
    let text = |rest: &str| format!("{COMMAND}\n[[constraint]]\n{rest}\n");
    let refused = said(&text("require = \"lr < 1\"\nprune = true"), &[]);
    assert!(refused.contains("`prune` is for limits"), "{refused}");
    let taken = said(&text("limit = \"size < 1\"\nprune = true"), &[]);
    assert!(taken.starts_with("(valid)"), "{taken}");
}

#[test]
fn objectives_and_limits_over_what_the_trainer_does_not_report_are_explained() {
    let one = "metric = \"eval_loss\"\ndirection = \"minimize\"";
    let two = |metric: &str, direction: &str| {
        let objective = |metric: &str, direction: &str| {
            format!("[[study.objective]]\nmetric = \"{metric}\"\ndirection = \"{direction}\"\n")
        };
        let both = objective("eval_loss", "minimize") + &objective(metric, direction);
        said(&TRAINER.replacen(one, &both, 1), &[])
    };
    assert!(TRAINER.contains(one));
    for known in ["n_params", "model_bytes", "peak_memory", "predict_ms", "train_loss"] {
        assert!(two(known, "minimize").starts_with("(valid)"), "{known}");
    }
    let limit = |text: &str| said(&format!("{TRAINER}\n[[constraint]]\nlimit = \"{text}\"\n"), &[]);
    let known = "n_params <= 70e6 and eval_accuracy > 0.5 or grad_norm < 1 or epoch > 1";
    assert!(limit(known).starts_with("(valid)"));
    snapshot!(
        [
            two("n_parameters", "minimize"),
            two("predict_ms", "maximize"),
            two("learning_rate", "minimize"),
            limit("num_params <= 70e6"),
            limit("accuracy >= 0.7 and latency_ms < 3"),
        ]
        .join("\n")
    );
}

#[test]
fn asha_of_a_trainer_study_without_known_length_is_explained() {
    let asha = |step: &str, fixed: &str| {
        let text = TRAINER
            .replace("[study]", &format!("[study]\nstep = \"{step}\""))
            .replace("num_train_epochs = 3", fixed);
        said(&format!("{text}\n[pruner]\ntype = \"asha\"\n"), &[])
    };
    snapshot!([asha("step", ""), asha("samples", ""), asha("epoch", "max_steps = 100")].join("\n"));
    assert!(asha("epoch", "num_train_epochs = 9").starts_with("(valid)"));
    assert!(asha("step", "max_steps = 900").starts_with("(valid)"));
}

#[test]
fn problems_of_devices_retries_checkpoints_and_exports_are_explained() {
    snapshot!(sheet(
        COMMAND,
        &[
            ("[command]", "[devices]\nuse = [\"gpu\"]\n[command]"),
            ("[command]", "[devices]\nuse = [\"cuda\"]\n[command]"),
            ("[command]", "[devices]\nuse = [\"tpu:0\"]\n[command]"),
            ("[command]", "[devices]\nuse = [\"cpu\", \"cpu\"]\n[command]"),
            ("[command]", "[devices]\nuse = [\"auto\", \"cpu\"]\n[command]"),
            ("[command]", "[devices]\nuse = []\n[command]"),
            ("[command]", "[devices]\nuse = [0]\n[command]"),
            ("[command]", "[devices]\nuse = [\"sim:3..1\"]\n[command]"),
            ("[command]", "[devices]\ntrials_per_device = 0\n[command]"),
            ("[command]", "[devices]\ntrials_per_device = \"many\"\n[command]"),
            ("[command]", "[devices]\ntrials_per_device = 0.5\n[command]"),
            ("[command]", "[devices]\nper_trial = 0.25\n[command]"),
            ("[command]", "[devices]\nmemory = \"9GiB\"\n[command]"),
            ("[command]", "[devices]\ncpu_threads = 0\n[command]"),
            ("[command]", "[retry]\nmax = -1\n[command]"),
            ("[command]", "[retry]\non = [\"oom\", \"crash\"]\n[command]"),
            ("[command]", "[retry]\non = \"oom\"\n[command]"),
            ("[command]", "[retry]\non = [3]\n[command]"),
            ("[command]", "[checkpoints]\nkeep = 3\n[command]"),
            ("[command]", "[checkpoints]\nkeep = \"best-0\"\n[command]"),
            ("[command]", "[checkpoints]\nmax_disk = 50\n[command]"),
            ("[command]", "[checkpoints]\nmax_disk = \"50\"\n[command]"),
            ("[command]", "[checkpoints]\nmax_disk = \"50 gigabytes\"\n[command]"),
            ("[command]", "[export]\non_finish = true\n[command]"),
            ("[command]", "[export]\nquantize = \"q8\"\n[command]"),
        ]
    ));
}

#[test]
fn several_problems_are_told_at_once_in_the_order_of_the_file() {
    let text = r#"[study]
metrics = "loss"
direction = "min"

[budget]
trails = 10

[space]
lr = { float = [0, 1], log = true }
layers = { int = [8, 1] }

[[enqueue]]
layer = 3

[sampler]
type = "nsga4"

[command]
run = ["train", "{learning_rate}"]

[devices]
use = ["gpu"]
"#;

    snapshot!(said(text, &[]));
}

#[test]
fn problems_of_overrides_name_the_override() {
    let cases = [
        vec!["budget.trials=many"],
        vec!["budget.trails=3"],
        vec!["trials=3"],
        vec!["bugdet.trials=3"],
        vec!["zebra.trials=3"],
        vec!["budget.trials"],
        vec!["budget.trials="],
        vec!["space.lr=[0.1"],
        vec!["budget.trials.x=3"],
        vec!["study.direction=maximise", "budget.time=9"],
        vec!["budget.trials=-1", "space.lr={ float = [1, 0] }"],
        vec!["sampler=random"],
    ];
    let sheet: Vec<String> = cases.iter().map(|overrides| said(COMMAND, overrides)).collect();
    snapshot!(sheet.join(&format!("\n{}\n", "=".repeat(80))));
}

#[test]
fn a_file_that_cannot_be_read_says_what_to_do() {
    let directory = directory();
    let told = |path: &Path| {
        let error = config::load(path, &[]).unwrap_err().render(Look::Plain);
        error.replace(&directory.path().display().to_string(), "[DIR]")
    };
    fs::write(directory.path().join("latin.toml"), b"[study]\nname = \"caf\xe9\"\n").unwrap();
    let told = [
        told(&directory.path().join("none.toml")),
        told(&directory.path().join("folder")),
        told(&directory.path().join("latin.toml")),
    ];
    snapshot!(told.join("\n"));
}

#[test]
fn a_file_whose_name_is_no_study_name_says_so() {
    let text = COMMAND;
    let problems =
        config::parse(text, Path::new("my study.toml"), Path::new("/"), &[]).unwrap_err();
    snapshot!(problems.render(Look::Plain));
}

#[test]
fn every_accepted_key_is_taken() {
    let directory = directory();
    let spec =
        parse_in(directory.path(), FULL, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((spec.name.as_str(), spec.tags.len(), spec.seed), ("every-key_1.0", 2, 7));
    assert_eq!(
        (spec.direction(), spec.value, spec.step),
        (Direction::Maximize, ValueRule::Last, StepUnit::Samples)
    );
    assert_eq!(
        (spec.budget.trials, spec.budget.count, spec.budget.target),
        (Some(48), Count::Completed, Some(0.99))
    );
    assert_eq!(
        (spec.budget.time.unwrap().as_secs(), spec.budget.trial_time.unwrap().as_secs()),
        (9_000, 5_400)
    );
    assert_eq!(spec.space.dimensions().len(), 10);
    assert_eq!(spec.enqueue.len(), 2);
    assert_eq!(spec.enqueue[1].get("model.layers"), Some(&Value::Int(2)));
    assert_eq!((spec.sampler.name.as_str(), spec.sampler.alias.as_deref()), ("tpe", None));
    assert_eq!(spec.pruner.options["mode"], "promote");
    assert_eq!(
        (spec.devices.automatic_concurrency, spec.devices.cpu_threads, spec.devices.select.len()),
        (true, 4, 5)
    );
    assert_eq!((spec.devices.trials_per_device, spec.devices.memory), (None, Some(20 << 30)));
    assert_eq!((spec.devices.per_trial, spec.devices.per_device), (Some(PerTrial::Count(1)), true));
    assert_eq!((spec.retry.max, spec.retry.on.contains(&FailureCause::Oom)), (3, true));
    assert_eq!(
        (spec.budget.device_hours, spec.budget.cost, spec.budget.price_per_hour),
        (Some(12.5), Some(40.0), Some(2.5))
    );
    assert_eq!((spec.checkpoints.keep_best, spec.checkpoints.max_disk), (Some(5), Some(3 << 29)));
    assert_eq!(spec.checkpoints.while_running, WhileRunning::Needed);
    assert_eq!(
        spec.checkpoints.dir.as_deref(),
        Some(directory.path().join("checkpoints").as_path())
    );
    assert!(spec.export.on_finish);
    let Program::Command { cwd, env, .. } = &spec.program else { panic!("not a command") };
    assert_eq!((cwd.as_path(), env["OMP_PROC_BIND"].get().unwrap()), (directory.path(), "true"));
}

/// A `[cluster]` of each type.
const CLUSTERS: [&str; 4] = [
    "[cluster]\nshared_dir = \"shared\"\nlisten = \"127.0.0.1:0\"\nlost_after = \"90s\"\n",
    "[cluster]\ntype = \"slurm\"\npartition = \"gpu\"\naccount = \"me\"\ntime = \"1:00\"\n\
     gres = \"gpu:1\"\ncpus = 4\nmemory = \"8G\"\nmax_jobs = 3\nextra = [\"--qos=low\"]\n",
    "[cluster]\ntype = \"ssh\"\n\nhost = [{ name = \"node1\", devices = [\"cuda:0\"] }]\n",
    "[cluster]\ntype = \"command\"\nrun = [\"start\", \"{file}\"]\nmax_jobs = 2\n",
];

#[test]
fn clusters_of_each_type_are_resolved() {
    let directory = directory();
    let clusters = CLUSTERS.map(|table| {
        let spec = parse_in(directory.path(), &format!("{COMMAND}\n{table}"), &[]).unwrap();
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<StudySpec>(&json).unwrap(), spec);
        (spec.cluster.unwrap(), spec.checkpoints.dir)
    });
    let [(manual, files), (slurm, own), (ssh, _), (command, _)] = clusters;
    assert_eq!((&manual.start, manual.lost_after.as_secs()), (&AgentStart::Manual, 90));
    assert_eq!(
        (manual.listen.as_str(), files.as_ref()),
        ("127.0.0.1:0", manual.shared_dir.as_ref())
    );
    assert_eq!((slurm.listen.as_str(), slurm.lost_after.as_secs(), own), ("0.0.0.0:0", 120, None));
    let AgentStart::Slurm(slurm) = slurm.start else { panic!("{slurm:?}") };
    assert_eq!((slurm.cpus, slurm.max_jobs, slurm.extra.len()), (Some(4), 3, 1));
    let host = SshHost { name: "node1".to_owned(), devices: vec!["cuda:0".to_owned()] };
    assert_eq!(ssh.start, AgentStart::Ssh { hosts: vec![host] });
    let run = ["start", "{file}"].map(str::to_owned).to_vec();
    assert_eq!(command.start, AgentStart::Command { run, max_jobs: 2 });
}

#[test]
fn the_full_example_writes_every_key_of_the_tables() {
    let written = format!("{FULL}\n{}", CLUSTERS.join("\n"));
    for table in TABLES {
        for key in table
            .fields
            .iter()
            .filter(|key| !matches!(key.kind, FieldKind::Objectives | FieldKind::CommandMetrics))
        {
            assert!(written.contains(&format!("\n{} = ", key.name)), "{}.{}", table.name, key.name);
        }
    }
}

#[test]
fn a_resolved_study_round_trips_through_json() {
    let directory = directory();
    for text in [FULL, COMMAND, TRAINER] {
        let spec = parse_in(directory.path(), text, &[]).unwrap();
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<StudySpec>(&json).unwrap(), spec);
    }
}

#[test]
fn defaults_are_those_of_the_contract() {
    let spec = parse(COMMAND).unwrap();
    assert_eq!(spec.name, "study");
    assert_eq!(
        (spec.value, spec.step, spec.seed, spec.budget.count),
        (ValueRule::Best, StepUnit::Epoch, 0, Count::Finished)
    );
    assert_eq!((spec.sampler.name.as_str(), spec.pruner.name.as_str()), ("auto", "none"));
    assert_eq!(
        (spec.checkpoints.keep_best, spec.devices.select.as_slice()),
        (Some(3), &["auto".to_owned()][..])
    );
}

#[test]
fn paths_become_absolute_from_the_study_file() {
    let directory = directory();
    let file = directory.path().join("trainer.toml");
    fs::write(&file, format!("{TRAINER}\n[export]\ndir = \"./out\"\n")).unwrap();
    let spec = config::load(&file, &[]).unwrap();
    assert_eq!(spec.name, "trainer");
    assert_eq!(spec.export.dir, Some(directory.path().join("out")));
    let Program::Trainer { data, .. } = &spec.program else { panic!("not a trainer") };
    assert_eq!(data["train"], directory.path().join("train.csv").to_str().unwrap());
}

#[test]
fn nested_keys_mean_the_same_dotted_quoted_and_in_tables() {
    let spaces = [
        "[space]\nmodel.num_layers = [1, 2]\nlearning_rate = [0.1]\n",
        "[space]\n\"model.num_layers\" = { choice = [1, 2] }\nlearning_rate = [0.1]\n",
        "[space]\nmodel = { num_layers = { choice = [1, 2] } }\nlearning_rate = [0.1]\n",
        "[space.model]\nnum_layers = [1, 2]\n[space]\nlearning_rate = [0.1]\n",
        "[space.\"model.num_layers\"]\nchoice = [1, 2]\n[space]\nlearning_rate = [0.1]\n",
    ];
    let fixed = [
        "model.num_heads = 2\n",
        "\"model.num_heads\" = 2\n",
        "model = { num_heads = 2 }\n",
        "[trainer.model]\nnum_heads = 2\n",
    ];
    let old = "[space]\nlearning_rate = { float = [1e-5, 1e-1], log = true }\n";
    let study = |space: &str, fixed: &str| {
        TRAINER.replace(old, space).replace("num_train_epochs = 3\n", fixed)
    };
    let directory = directory();
    let first = parse_in(directory.path(), &study(spaces[0], fixed[0]), &[]).unwrap();
    for space in spaces {
        for fixed in fixed {
            let text = study(space, fixed);
            assert_eq!(
                parse_in(directory.path(), &text, &[])
                    .unwrap_or_else(|problems| panic!("{problems}")),
                first,
                "{text}"
            );
        }
    }
}

#[test]
fn an_alias_of_an_argument_is_stored_under_its_own_name() {
    let directory = directory();
    let spec =
        parse_in(directory.path(), &TRAINER.replace("num_train_epochs = 3", "epochs = 2"), &[])
            .unwrap();
    let Program::Trainer { arguments, .. } = &spec.program else { panic!("not a trainer") };
    assert!(arguments.contains_key("num_train_epochs") && !arguments.contains_key("epochs"));
}

#[test]
fn overrides_win_over_the_file_and_later_ones_over_earlier() {
    let directory = directory();
    let overrides = [
        "budget.trials=3",
        "budget.trials=48",
        "budget.time=90m",
        "space.lr={ float = [0.1, 0.2] }",
        "study.name=other",
        "sampler.type=random",
    ];
    let spec = parse_in(directory.path(), COMMAND, &overrides)
        .unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        (spec.budget.trials, spec.name.as_str(), spec.sampler.name.as_str()),
        (Some(48), "other", "random")
    );
    assert_eq!(spec.budget.time.unwrap().as_secs(), 5_400);
    assert!(!spec.space.dimension("lr").unwrap().distribution.contains(&Value::Float(0.05)));
}

#[test]
fn an_exhausting_sampler_needs_no_limit() {
    let text = COMMAND
        .replace("trials = 10", "")
        .replace("[command]", "[sampler]\ntype = \"grid\"\n[command]");
    assert_eq!(parse(&text).unwrap().budget.trials, None);
}

#[test]
fn a_difference_names_each_key_with_what_it_asks_for() {
    let directory = directory();
    let old = parse_in(directory.path(), FULL, &[]).unwrap();
    let overrides = [
        "budget.trials=96",
        "budget.time=1d",
        "budget.device_hours=3",
        "checkpoints.max_disk=2GB",
        "study.seed=8",
        "study.tags=[]",
        "study.duplicates=skip",
        "space.lr={ float = [1e-4, 1e-1], log = true }",
        "space.extra=[1, 2]",
        "pruner.reduction_factor=4",
        "command.env.OMP_PROC_BIND=false",
        "devices.use=auto",
        "checkpoints.keep=all",
    ];
    let overrides: Vec<&str> = overrides
        .iter()
        .map(
            |set| if set.ends_with("=false") { "command.env.OMP_PROC_BIND=\"false\"" } else { set },
        )
        .collect();
    let new = parse_in(directory.path(), FULL, &overrides)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let lines: Vec<String> = difference(&old, &new)
        .iter()
        .map(|change| format!("{:<12}{change}", format!("{:?}", change.class)))
        .collect();
    snapshot!(lines.join("\n"));
    assert_eq!(
        difference(&old, &new).iter().map(|change| change.class).max(),
        Some(ChangeClass::NeedsFork)
    );
}

#[test]
fn the_schema_is_what_editors_get() {
    snapshot!(serde_json::to_string_pretty(&config::schema()["properties"]["budget"]).unwrap());
}

fn survives(text: &str, overrides: &[String]) {
    if let Err(problems) =
        config::parse_with_warnings(text, Path::new("study.toml"), Path::new("/"), overrides)
    {
        assert!(problems.has_errors());
        assert!(
            problems.iter().all(|problem| problem.help.iter().any(|help| !help.trim().is_empty())),
            "{problems}"
        );
        problems.render(Look::Plain);
        problems.render(Look::Styled);
    }
}

/// A valid file with a few stretches taken out, doubled, or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just(String::new()),
        "[\\[\\]{}=\"'.,#\n a-z0-9-]{0,6}",
        "\\PC{0,4}",
        Just("[[enqueue]]\n".to_owned()),
        Just("{ float = [0, 1] }".to_owned()),
        Just("-9223372036854775808".to_owned()),
        Just("inf".to_owned()),
        Just("1979-05-27T07:32:00Z".to_owned()),
    ];
    let edits = proptest::collection::vec((any::<prop::sample::Index>(), 0usize..30, pieces), 1..4);
    (prop::sample::select(vec![FULL, COMMAND, TRAINER]), edits).prop_map(|(text, edits)| {
        let mut characters: Vec<char> = text.chars().collect();
        for (at, length, piece) in edits {
            let start = at.index(characters.len());
            let end = (start + length).min(characters.len());
            characters.splice(start..end, piece.chars());
            if characters.is_empty() {
                break;
            }
        }
        characters.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_gives_a_study_or_messages(text in "\\PC*") {
        survives(&text, &[]);
    }

    #[test]
    fn any_bytes_in_a_file_give_a_study_or_messages(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        survives(&String::from_utf8_lossy(&bytes), &[]);
    }

    #[test]
    fn a_damaged_study_gives_a_study_or_messages(text in mutated()) {
        survives(&text, &[]);
    }

    #[test]
    fn any_override_gives_a_study_or_messages(
        set in "(study|budget|space|command|sampler)?\\.?[a-z.\"]{0,12}=?\\PC{0,20}",
    ) {
        survives(COMMAND, &[set]);
    }
}
