//! The command lines of configurations.

use std::path::Path;

use super::*;
use crate::config::trial_values::{GroupValues, TrialValues};
use crate::study::metric::{Direction, LastMetrics};
use crate::study::program::Program;
use crate::study::space::{Condition, Dimension, Distribution};
use crate::study::spec::StudySpec;
use crate::study::trial::TrialNumber;

/// `lr` is always active, `momentum` and `fast` are conditional.
fn space() -> Space {
    let dimension = |name: &str, choices: Vec<Value>, when: Option<Condition>| Dimension {
        when,
        ..Dimension::new(name, Distribution::choice(choices).unwrap())
    };
    let when = || Some(Condition(vec![("optimizer".to_owned(), vec!["sgd".into()])]));
    Space::new(vec![
        dimension("optimizer", vec!["sgd".into(), "adam".into()], None),
        dimension("lr", vec![0.5.into()], None),
        dimension("momentum", vec![0.9.into()], when()),
        dimension("fast", vec![true.into(), false.into()], when()),
    ])
    .unwrap()
}

fn params(text: &str) -> Params {
    serde_json::from_str(text).unwrap()
}

const ADAM: &str = r#"{"optimizer":"adam","lr":0.5}"#;
const SGD: &str = r#"{"optimizer":"sgd","lr":0.5,"momentum":0.9,"fast":true}"#;

fn written(run: &[&str], style: Option<ArgsStyle>, of: &str) -> Vec<String> {
    let run: Vec<String> = run.iter().map(|word| (*word).to_owned()).collect();
    words(&run, ArgsRules { style, inactive: Inactive::Dropped }, &space(), &params(of), |_| None)
}

#[test]
fn an_inactive_parameter_drops_its_word_and_the_option_before_it() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["p", "--momentum", "{momentum}", "--lr", "{lr}"], &["p", "--lr", "0.5"]),
        (&["p", "-m", "{momentum}", "x"], &["p", "x"]),
        (&["p", "--momentum={momentum}", "x"], &["p", "x"]),
        (&["p", "model.momentum={momentum}"], &["p"]),
        // The argument before is dropped only if it is an option that waits for this value
        // alone.
        (&["p", "--lr={lr}", "{momentum}"], &["p", "--lr=0.5"]),
        (&["p", "--{lr}", "{momentum}"], &["p", "--0.5"]),
        (&["p", "--", "{momentum}"], &["p", "--"]),
        (&["p", "-", "{momentum}"], &["p", "-"]),
        (&["p", "--verbose", "m{momentum}"], &["p", "--verbose"]),
        (&["p", "--both", "{lr}:{momentum}"], &["p", "--both"]),
        // An option after an inactive pair, and two consecutive pairs.
        (
            &["p", "--momentum", "{momentum}", "--fast", "{fast}", "--lr", "{lr}"],
            &["p", "--lr", "0.5"],
        ),
        (&["p", "{{momentum}}"], &["p", "{momentum}"]),
    ];
    for (run, expected) in cases {
        assert_eq!(written(run, None, ADAM), *expected, "{run:?}");
    }
    assert_eq!(written(&["p", "--momentum", "{momentum}"], None, SGD), ["p", "--momentum", "0.9"]);
}

#[test]
fn a_boolean_is_a_flag_or_nothing_where_the_style_has_flags() {
    let off = SGD.replace("true", "false");
    for style in [ArgsStyle::Dashes, ArgsStyle::Equals] {
        for run in [&["p", "--fast", "{fast}", "x"][..], &["p", "--fast={fast}", "x"]] {
            assert_eq!(written(run, Some(style), SGD), ["p", "--fast", "x"], "{run:?}");
            assert_eq!(written(run, Some(style), &off), ["p", "x"], "{run:?}");
            assert_eq!(written(run, Some(style), ADAM), ["p", "x"], "{run:?}");
        }
        // What does not have its own option stays a value.
        assert_eq!(
            written(&["p", "x={fast}", "{fast}"], Some(style), SGD),
            ["p", "x=true", "true"]
        );
    }
    for style in [None, Some(ArgsStyle::Hydra)] {
        assert_eq!(
            written(&["p", "--fast", "{fast}", "fast={fast}"], style, &off),
            ["p", "--fast", "false", "fast=false"]
        );
    }
}

#[test]
fn args_is_every_parameter_that_no_other_word_names() {
    let dimension = |name: &str, choices: Vec<Value>| {
        Dimension::new(name, Distribution::choice(choices).unwrap())
    };
    let text = |text: &str| Value::from(text);
    let space = Space::new(vec![
        dimension("lr", vec![0.5.into()]),
        dimension("shift", vec![(-1e-5).into()]),
        dimension("fast", vec![true.into(), false.into()]),
        dimension("sizes", vec![vec![64i64, 32].into(), Value::List(Vec::new())]),
        dimension("schedule", vec![Value::Null, text("none"), text("null"), text("a b'c")]),
        dimension("depth", vec![3i64.into()]),
    ])
    .unwrap();
    let written = |run: &[&str], style, of: &str| {
        let run: Vec<String> = run.iter().map(|word| (*word).to_owned()).collect();
        words(&run, ArgsRules { style, ..ArgsRules::default() }, &space, &params(of), |_| None)
            .join(" ")
    };
    let all = r#"{"lr":0.5,"shift":-1e-5,"fast":true,"sizes":[64,32],"schedule":null}"#;
    let off = r#"{"lr":0.5,"fast":false,"sizes":[],"schedule":"none"}"#;
    let args = &["p", "{args}", "x"][..];
    let (equals, hydra) = (Some(ArgsStyle::Equals), Some(ArgsStyle::Hydra));
    assert_eq!(written(args, None, all), "p --lr 0.5 --shift=-1e-5 --fast --sizes 64 32 x");
    assert_eq!(written(args, None, off), "p --lr 0.5 --sizes --schedule none x");
    assert_eq!(written(args, equals, all), "p --lr=0.5 --shift=-1e-5 --fast --sizes=64,32 x");
    assert_eq!(written(args, equals, off), "p --lr=0.5 --sizes= --schedule=none x");
    assert_eq!(
        written(args, hydra, all),
        "p lr=0.5 shift=-1e-5 fast=true sizes=[64,32] schedule=null x"
    );
    assert_eq!(written(args, hydra, off), "p lr=0.5 fast=false sizes=[] schedule=none x");
    let strings = |value: &str| written(args, hydra, &format!(r#"{{"schedule":"{value}"}}"#));
    assert_eq!(strings("null"), "p schedule='null' x");
    assert_eq!(strings("a b'c"), r"p schedule='a b\'c' x");
    assert_eq!(strings(r"a \\"), r"p schedule='a \\' x");
    // Parameters with their own argument are not repeated; doubled braces name nothing.
    assert_eq!(
        written(&["p", "--rate", "{lr}", "{{shift}}", "{args}"], None, r#"{"lr":0.5,"depth":3}"#),
        "p --rate 0.5 {shift} --depth 3"
    );
    let named =
        |style| written(&["p", "--sizes", "{sizes}", "--s={sizes}", "--d={schedule}"], style, all);
    assert_eq!(named(None), "p --sizes [64,32] --s=[64,32]");
    assert_eq!(named(Some(ArgsStyle::Dashes)), "p --sizes 64 32 --s=64,32");
    assert_eq!(named(equals), "p --sizes 64,32 --s=64,32");
    assert_eq!(named(hydra), "p --sizes 64 32 --s=[64,32] --d=null".replace("64 32", "[64,32]"));
    // A parameter with that name takes precedence.
    let own = Space::new(vec![dimension("args", vec![1i64.into()])]).unwrap();
    let run = ["p".to_owned(), "{args}".to_owned()];
    let of = params(r#"{"args":1}"#);
    assert_eq!(words(&run, ArgsRules::default(), &own, &of, |_| None), ["p", "1"]);
    let rest: Vec<_> = unnamed(&run, &own, &of).collect();
    assert_eq!(rest, []);
}

#[test]
fn the_environment_has_what_no_word_names() {
    let names = |run: &[&str]| {
        let run: Vec<String> = run.iter().map(|word| (*word).to_owned()).collect();
        let of = params(ADAM);
        let space = space();
        let names: Vec<_> = unnamed(&run, &space, &of).map(|(name, _)| name.to_owned()).collect();
        names
    };
    assert_eq!(names(&["p", "{lr}"]), ["optimizer"]);
    assert_eq!(names(&["p", "{{lr}}"]), ["optimizer", "lr"]);
    assert_eq!(names(&["p", "{args}"]), [""; 0]);
}

#[test]
fn studies_of_earlier_rules_have_the_words_they_had() {
    let run = vec!["p".to_owned(), "--momentum".to_owned(), "{momentum}".to_owned()];
    let program = Program::Command {
        run: run.clone(),
        cwd: "/".into(),
        env: Default::default(),
        args: ArgsRules::default(),
        metrics: Default::default(),
    };
    let known = StudySpec::new("s", "loss", Direction::Minimize, space(), program);
    // As stored before the rules existed.
    let stored = serde_json::to_string(&known.program).unwrap();
    assert!(!stored.contains("args"), "{stored}");
    let mut spec = known.clone();
    let Program::Command { args, .. } = &mut spec.program else { panic!() };
    args.inactive = Inactive::Dropped;
    let fresh = spec.clone();
    keep_rules(&known, &mut spec);
    assert_eq!(spec, known);
    assert_eq!(
        words(&run, ArgsRules::default(), &space(), &params(ADAM), |_| None),
        ["p", "--momentum", ""]
    );
    // Another command, and a newer study, have it.
    let mut other = fresh.clone();
    let Program::Command { run, .. } = &mut other.program else { panic!() };
    run.push("x".to_owned());
    keep_rules(&known, &mut other);
    let inactive = |spec: &StudySpec| match &spec.program {
        Program::Command { args, .. } => args.inactive,
        _ => panic!(),
    };
    assert_eq!(inactive(&other), Inactive::Dropped);
    let mut again = known.clone();
    keep_rules(&fresh, &mut again);
    assert_eq!(inactive(&again), Inactive::Dropped);
}

#[test]
fn studies_that_began_with_limits_on_the_last_report_keep_them() {
    let fresh = StudySpec::new("s", "loss", Direction::Minimize, space(), Program::Inline);
    assert_eq!(fresh.last_metrics, LastMetrics::OfEach);
    let mut stored = serde_json::to_value(&fresh).unwrap();
    stored.as_object_mut().unwrap().remove("last_metrics").unwrap();
    let known: StudySpec = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(known.last_metrics, LastMetrics::OfLastReport);
    assert_eq!(serde_json::to_value(&known).unwrap(), stored, "and it is written as before");
    let mut spec = fresh.clone();
    keep_rules(&known, &mut spec);
    assert_eq!(spec, known);
}

#[test]
fn studies_keep_the_versions_of_their_sampler_and_pruner_while_the_tables_are_the_same() {
    let mut spec = StudySpec::new("s", "loss", Direction::Minimize, space(), Program::Inline);
    spec.sampler = crate::samplers::find("auto").unwrap().defaults();
    spec.pruner = crate::pruners::find("asha").unwrap().defaults();
    let mut known = spec.clone();
    known.sampler.version -= 1;
    known.pruner.version -= 1;
    let fresh = spec.clone();
    keep_rules(&known, &mut spec);
    assert_eq!(spec, known);
    // A changed table, which needs consent, has the present rules.
    let mut other = fresh.clone();
    other.pruner = other.pruner.with("reduction_factor", 4);
    keep_rules(&known, &mut other);
    assert_eq!(other.pruner.version, fresh.pruner.version);
    assert_eq!(other.sampler, known.sampler);
}

#[test]
fn studies_that_began_with_values_of_grids_as_they_are_computed_keep_them() {
    let grid = |decimals: &str| {
        let numbers = format!(r#""low":0.0,"high":1.0,"scale":"linear","step":0.3{decimals}"#);
        let space = format!(r#"[{{"name":"x","distribution":{{"float":{{{numbers}}}}}}}]"#);
        let space: Space = serde_json::from_str(&space).unwrap();
        StudySpec::new("s", "loss", Direction::Minimize, space, Program::Inline)
    };
    let (known, mut spec) = (grid(""), grid(",\"decimals\":1"));
    keep_rules(&known, &mut spec);
    assert_eq!(spec, known);
}

#[test]
fn placeholders_take_values_and_other_braces_stay() {
    let trial = TrialValues {
        number: TrialNumber(7),
        directory: Path::new("/t-7"),
        seed: 5,
        group: Some(GroupValues {
            world_size: 4,
            master_addr: "node7",
            master_port: 2_900,
            nodes: 2,
            node_rank: 1,
        }),
    };
    let written = |word: &str| {
        words(
            &[word.to_owned()],
            ArgsRules::default(),
            &space(),
            &params(r#"{"lr":0.5,"model.layers":3}"#),
            |name| trial.get(name),
        )
        .concat()
    };
    assert_eq!(written("{trial_dir}/{trial}.{seed} {checkpoint_dir}"), "/t-7/7.5 /t-7");
    assert_eq!(written("{world_size}@{master_port}"), "4@2900");
    assert_eq!(written("{node_rank}/{nodes}@{master_addr}"), "1/2@node7");
    assert_eq!(written("--lr={lr}:{model.layers}"), "--lr=0.5:3");
    assert_eq!(written("{momentum}|{ not a name }|{"), "|{ not a name }|{");
    // In an unchecked study nothing disappears.
    assert_eq!(written("{1..3} {unknown} {{lr}}"), "{1..3} {unknown} {lr}");
}

#[test]
fn studies_that_began_with_all_labels_as_names_keep_them() {
    let trainer = |task: &str, data: serde_json::Value| {
        let arguments = serde_json::json!({"task": task});
        Program::Trainer {
            arguments: serde_json::from_value(arguments).unwrap(),
            data: serde_json::from_value(data).unwrap(),
        }
    };
    let study = |program| StudySpec::new("s", "loss", Direction::Minimize, space(), program);
    let (task, data) = ("token-classification", serde_json::json!({"train": "a.jsonl"}));
    let known = study(trainer(task, data.clone()));
    let with = |format: &str| {
        let data = serde_json::json!({"train": "a.jsonl", "label_format": format});
        study(trainer(task, data))
    };
    let mut fresh = with("auto");
    keep_rules(&known, &mut fresh);
    assert_eq!(fresh, known);
    // Another one has to be said, and is a change; a newer study has it.
    let mut other = with("multi-hot");
    keep_rules(&known, &mut other);
    assert_eq!(other, with("multi-hot"));
    let mut newer = with("auto");
    keep_rules(&with("auto"), &mut newer);
    assert_eq!(newer, with("auto"));
}
