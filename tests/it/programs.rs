//! Programs whose parameters are options: `{args}`, null and lists as choices, and the examples of
//! docs/commands.md with Python's parsers.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::harness::{ONE_SLOT, Site, assert_done, assert_names};

/// Writes its words, whether null has a variable, and its file of parameters; reports.
const TELL: &str = "echo \"$*|${HPSEARCH_PARAM_SCHEDULE-unset}|$(tr -d ' \\n' < \
    \"$HPSEARCH_PARAMS\")\" >> seen\necho '@hpsearch {\"step\":1,\"loss\":1}'\n";

const SPACE: &str = "lr = [0.5]\nfast = [true, false]\nsizes = [[64, 32], [8]]\n\
    schedule = { choice = [{ none = true }, \"none\"], prior = { none = true } }\n\
    decay = { choice = [0.1], when = { schedule = { none = true } } }\n";

fn options(run: &str, rest: &str, space: &str) -> Site {
    let text = format!(
        "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"\nstep = \"step\"\n\
         [space]\n{space}[sampler]\ntype = \"grid\"\n[command]\nrun = [\"sh\", \"trial.sh\", \
         {run}]\n{rest}\n{ONE_SLOT}"
    );
    Site::new(&text, TELL)
}

#[test]
fn args_passes_all_parameters_in_the_programs_style() {
    for (style, words) in [
        (
            "",
            [
                "--lr 0.5 --decay 0.1 --rest --fast --sizes 64 32|unset|",
                "--lr 0.5 --rest --sizes 8 --schedule none|none|",
            ],
        ),
        (
            "args_style = \"equals\"",
            [
                "--lr 0.5 --decay=0.1 --rest --fast --sizes=64,32|unset|",
                "--lr 0.5 --rest --sizes=8 --schedule=none|none|",
            ],
        ),
        (
            "args_style = \"hydra\"",
            [
                "--lr 0.5 --decay 0.1 --rest fast=true sizes=[64,32] schedule=null|unset|",
                "--lr 0.5 --rest fast=false sizes=[8] schedule=none|none|",
            ],
        ),
    ] {
        let run = match style {
            "args_style = \"equals\"" => r#""--lr", "{lr}", "--decay={decay}", "--rest", "{args}""#,
            _ => r#""--lr", "{lr}", "--decay", "{decay}", "--rest", "{args}""#,
        };
        let site = options(run, style, SPACE);
        let checked = site.run(&["check", "study.toml"]);
        assert!(
            checked.code == 0 && !checked.out.contains("note "),
            "{}{}",
            checked.out,
            checked.err
        );
        assert!(checked.out.contains("runs      sh trial.sh --lr 0.5"), "{}", checked.out);
        assert_done(&site.run_study());
        let seen = site.lines("seen");
        assert_eq!(seen.len(), 8);
        for words in words {
            assert!(seen.iter().any(|line| line.starts_with(words)), "{words}: {seen:?}");
        }
        assert!(seen.iter().any(|line| {
            line.ends_with(r#"{"decay":0.1,"fast":true,"lr":0.5,"schedule":null,"sizes":[64,32]}"#)
        }));
    }
}

#[test]
fn null_and_lists_are_values_in_every_verb() {
    let site = options("\"{args}\"", "", SPACE);
    assert_done(&site.run_study());
    let trials: Json = serde_json::from_str(&site.run(&["trials", "s", "--json"]).out).unwrap();
    let all = trials["trials"].as_array().unwrap();
    let of =
        |schedule: Json| all.iter().filter(|trial| trial["params"]["schedule"] == schedule).count();
    assert_eq!((of(Json::Null), of(json!("none"))), (4, 4), "{trials}");
    assert!(all.iter().all(|trial| trial["params"]["sizes"].is_array()
        && trial["params"].as_object().unwrap().contains_key("schedule")));
    for (filter, count) in [
        ("schedule == \"null\"", 4),
        ("schedule=none", 4),
        ("sizes == \"[64,32]\"", 4),
        ("decay < 1", 4),
    ] {
        let found = site.run(&["trials", "s", "--json", "--where", filter]);
        let found: Json = serde_json::from_str(&found.out).unwrap();
        assert_eq!(found["trials"].as_array().unwrap().len(), count, "{filter}");
    }
    let best = site.run(&["best", "s"]);
    site.write("best.toml", &best.out);
    assert!(best.out.contains("sizes = ["), "{}", best.out);
    let again = ["enqueue", "s", "--file", "best.toml", "--again"];
    assert_done(&site.run(&again));
    let asked = site.run(&[
        "enqueue",
        "s",
        "--again",
        "fast=true",
        "sizes=[8]",
        "schedule=null",
        "lr=0.5",
        "decay=0.1",
    ]);
    assert_done(&asked);
    let refused = site.run(&["enqueue", "s", "--again", "fast=true", "sizes=[9]"]);
    assert!(refused.code == 2 && refused.err.contains("`[9]`"), "{}", refused.err);
    let queued: Json =
        serde_json::from_str(&site.run(&["trials", "s", "--json", "--where", "state=queued"]).out)
            .unwrap();
    let params = &queued["trials"][1]["params"];
    assert_eq!((&params["sizes"], &params["schedule"]), (&json!([8]), &Json::Null), "{queued}");
    let exported = site.run(&["export-data", "s", "-o", "t.csv"]);
    assert_done(&exported);
    assert!(site.read("t.csv").contains("\"[64,32]\""), "{}", site.read("t.csv"));
    for verb in
        [["show", "s", "0"], ["explain", "s", "0"], ["diff", "s", "s"], ["plot", "s", "slice"]]
    {
        let shown = site.run(&verb);
        assert!(shown.code != 1, "{verb:?}: {}", shown.err);
    }
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn args_that_cannot_be_passed_are_refused() {
    let lr = "lr = { float = [0.1, 0.9] }\n";
    for (run, space, code, said) in [
        ("\"x {args}\"", lr, 2, "`{args}` must be a separate argument"),
        ("\"{args}\", \"{args}\"", lr, 2, "`{args}` appears twice"),
        ("\"{arg}\"", lr, 2, "did you mean `{args}`?"),
        ("\"{args}\"", "args = [1, 2]\n", 0, "`{args}` is the parameter `args` here"),
        ("\"{x}\"", "x = [1, { none = true }]\n", 2, "`{x}` is null in some configurations"),
        ("\"{x}\"", "x = [1, { none = false }]\n", 2, "for no value write `{ none = true }`"),
        ("\"{x}\"", "x = [[1, [2]]]\n", 2, "a choice that is a list has numbers, strings"),
        ("\"{x}\"", "x = [[1, 2], [1.0, 2]]\n", 2, "appears twice"),
    ] {
        let checked = options(run, "", space).run(&["check", "study.toml"]);
        assert_eq!(checked.code, code, "{run} {space}: {}", checked.err);
        assert!(checked.err.contains(said), "{run} {space}: {}", checked.err);
    }
}

/// The first block of a language under a heading of docs/commands.md.
fn block(heading: &str, language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    let text = fs::read_to_string(page).unwrap();
    let (_, section) = text.split_once(&format!("\n### {heading}\n")).unwrap();
    let (_, block) = section.split_once(&format!("\n```{language}\n")).unwrap();
    block.split_once("\n```").unwrap().0.to_owned()
}

#[test]
fn the_examples_of_python_parsers_run() {
    for (heading, module) in [("argparse", "argparse"), ("click", "click"), ("Hydra", "hydra")] {
        let import = format!("import {module}");
        let has_it = Command::new("python3").args(["-c", &import]).output();
        if !has_it.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: python3 has no `{module}`");
            continue;
        }
        let site = Site::empty();
        site.write("train.py", block(heading, "python"));
        site.write("study.toml", block(heading, "toml"));
        let ended = site.run_study();
        assert_done(&ended);
        assert!(ended.out.contains("6 complete"), "{heading}: {}{}", ended.out, ended.err);
    }
}

#[test]
fn the_command_of_the_best_trial_has_a_file_of_parameters() {
    let site = options("\"sh\", \"trial.sh\"", "", "lr = [0.5]\n");
    assert_done(&site.run_study());
    let command = site.run(&["best", "s", "--command"]).out;
    assert_names(&command, &["HPSEARCH_PARAM_LR=0.5", "{\"lr\":0.5}"]);
    let before = site.lines("seen").len();
    assert_done(&site.run_program("sh", &["-c", &command]).unwrap());
    let seen = site.lines("seen");
    assert_eq!(seen.len(), before + 1);
    assert_eq!(seen.first(), seen.last());
}
