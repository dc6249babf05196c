//! The help, the completions and the manual: complete, and readable at 80 columns.

use std::process::Command;

use clap::CommandFactory;
use hpsearch::cli::CommandLine;

use crate::harness::{Ended, Scene, Site, assert_done};

/// All verbs that people see.
fn verbs() -> Vec<String> {
    let command = CommandLine::command();
    command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .map(|verb| verb.get_name().to_owned())
        .collect()
}

fn help(arguments: &[&str], columns: &str) -> String {
    let site = Site::empty();
    let ran = Ended::of(site.command(arguments).env("COLUMNS", columns).output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
    ran.out
}

#[test]
fn the_help_of_every_verb_reads_well_at_80_columns() {
    insta::assert_snapshot!("help", help(&["--help"], "80"));
    for verb in verbs() {
        let text = help(&[&verb, "--help"], "80");
        // The same for all verbs, and in the first snapshot.
        let (own, rest) = text.split_once("Global options:").unwrap();
        let examples = rest.find("Examples:").map_or("", |at| &rest[at..]);
        insta::assert_snapshot!(format!("help_{verb}"), format!("{own}{examples}"));
    }
}

#[test]
fn no_line_of_the_help_is_wider_than_the_terminal() {
    let mut wide = Vec::new();
    let mut look = |arguments: &[&str]| {
        for (columns, room) in [("80", 80), ("250", 100)] {
            let text = help(arguments, columns);
            let lines = text.lines().filter(|line| line.chars().count() > room);
            wide.extend(lines.map(|line| format!("{arguments:?} at {columns}: {line}")));
        }
    };
    look(&["--help"]);
    for verb in verbs() {
        look(&[&verb, "--help"]);
    }
    assert_eq!(wide, Vec::<String>::new());
}

#[test]
fn examples_are_written_for_80_columns() {
    let command = CommandLine::command();
    let texts = std::iter::once(&command)
        .chain(command.get_subcommands())
        .filter_map(|command| Some((command.get_name(), command.get_after_help()?)));
    let wide: Vec<String> = texts
        .flat_map(|(name, text)| {
            text.to_string().lines().map(|line| format!("{name}: {line}")).collect::<Vec<_>>()
        })
        .filter(|line| line.split_once(": ").is_some_and(|(_, line)| line.chars().count() > 80))
        .collect();
    assert_eq!(wide, Vec::<String>::new(), "a wrapped example cannot be copied");
}

#[test]
fn the_help_lists_every_verb_with_one_line() {
    let text = help(&["--help"], "80");
    for verb in verbs() {
        assert!(
            text.lines().any(|line| line.trim_start().starts_with(&format!("{verb} "))),
            "{verb}\n{text}"
        );
    }
}

#[test]
fn completions_are_scripts_that_bash_can_read() {
    let site = Site::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = site.run(&["completions", shell]);
        assert!(
            ran.code == 0 && ran.out.contains("HPSEARCH_COMPLETE"),
            "{shell}: {}{}",
            ran.out,
            ran.err
        );
    }
    let script = site.path("hpsearch.bash");
    std::fs::write(&script, site.run(&["completions", "bash"]).out).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&script).status().unwrap().success());
}

/// What is offered for the last of the words.
fn offered(scene: &Scene, words: &[&str]) -> Vec<String> {
    let mut arguments = vec!["--", "hpsearch"];
    arguments.extend(words);
    let mut asking = scene.command(&arguments);
    asking
        .env("HPSEARCH_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .env("_CLAP_IFS", "\n");
    let ran = Ended::of(asking.output().unwrap());
    ran.out.lines().map(str::to_owned).collect()
}

#[test]
fn completions_know_the_studies_of_the_store_and_study_files() {
    let scene = Scene::digits();
    scene.write("mine.toml", "");
    scene.write("notes.txt", "");
    let first = offered(&scene, &["show", ""]);
    assert!(
        first.contains(&"digits".to_owned())
            && first.contains(&"mine.toml".to_owned())
            && !first.contains(&"notes.txt".to_owned()),
        "{first:?}"
    );
    assert_eq!(offered(&scene, &["curves", "di"]), ["digits"]);
    let run = offered(&scene, &["run", ""]);
    assert!(
        run.contains(&"mine.toml".to_owned()) && !run.contains(&"digits".to_owned()),
        "{run:?}"
    );
}

#[test]
fn every_verb_has_a_manual_page_that_troff_can_read() {
    let site = Site::empty();
    let ran = site.run(&["man", "--dir", "man1"]);
    assert_done(&ran);
    let page = |name: &str| std::fs::read_to_string(site.path("man1").join(name)).unwrap();
    for verb in verbs() {
        let text = page(&format!("hpsearch-{verb}.1"));
        assert!(text.contains(".SH NAME") && text.contains(".SH EXAMPLES"), "{verb}\n{text}");
    }
    assert!(page("hpsearch.1").contains(".SH SUBCOMMANDS"));
    // Where there is a troff, it has nothing to complain about.
    let troff = Command::new("groff")
        .args(["-man", "-Tascii", "-ww", "-z"])
        .arg(site.path("man1/hpsearch-run.1"))
        .output();
    if let Ok(output) = troff {
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn one_page_is_shown_and_an_unknown_verb_is_answered() {
    let site = Site::empty();
    let run = |arguments: &[&str]| site.run(arguments);
    assert!(run(&["man", "explain"]).out.contains(".TH HPSEARCH-EXPLAIN 1"));
    let unknown = run(&["man", "explian"]);
    assert_eq!(
        (unknown.code, unknown.err.as_str()),
        (2, "error: there is no verb `explian`\nhelp: did you mean `explain`?\n")
    );
}
