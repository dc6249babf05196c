//! What somebody meets on the first day: leaving a run, continuing from its last screen, choosing a
//! study, and JSON of every reading verb.

use std::path::Path;

use hpsearch::runner::processes;
use hpsearch::storage::StorageReader;
use hpsearch::study::event::{
    AttemptEnd, AttemptEvent, Event, RunnerEvent, StudyEvent, TrialEvent,
};
use rustix::process::Signal;
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::json;

use crate::harness::{ONE_SLOT, OnTerminal, Scene, Site, assert_names, study, wait_until};

/// A study whose trials report `steps` times and rest between reports.
fn reporting(trials: u32, steps: u32, rest: &str) -> Site {
    let script = format!(
        "for s in $(seq {steps}); do echo \"@hpsearch {{\\\"step\\\":$s,\\\"loss\\\":0.5}}\"; \
         sleep {rest}; done\n"
    );
    Site::new(&study(&format!("trials = {trials}"), ONE_SLOT), &script)
}

fn holder(site: &Site) -> u32 {
    let store = site.store();
    let study = store.study("s").unwrap().unwrap().id;
    store.summary(study).unwrap().held.unwrap().holder.pid
}

fn is_finished(site: &Site) -> bool {
    site.events().iter().any(|event| matches!(event, Event::Study(StudyEvent::Finished { .. })))
}

fn last_run_ended_in_order(site: &Site) -> bool {
    matches!(site.events().last(), Some(Event::Runner(RunnerEvent::Stopped { .. })))
}

#[test]
fn a_detached_run_goes_on_when_its_terminal_is_gone_and_loses_nothing() {
    let site = reporting(3, 10, "0.1");
    let mut terminal = OnTerminal::start(&site, &["run", "study.toml"]);
    terminal.wait_for_text("1 running");
    let runner = holder(&site);
    assert_ne!(runner, terminal.pid());
    terminal.press("q");
    terminal.wait_for_text("d detach");
    terminal.press("d");
    terminal.wait_for_text("`hpsearch watch s` shows it");
    assert_eq!(terminal.leave(), 0);
    // The terminal is closed with the end of `leave`, and the run is the same process as before.
    assert_eq!((holder(&site), is_finished(&site)), (runner, false));
    wait_until("the study is finished", || is_finished(&site) && last_run_ended_in_order(&site));
    let ends: Vec<AttemptEnd> = site
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Ended { end, .. })) => Some(end),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [AttemptEnd::Completed, AttemptEnd::Completed, AttemptEnd::Completed]);
    // What it has to say at its end is in its log.
    let log = site.path("runs/files/s/run.log");
    wait_until("its end is said", || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("`hpsearch best s` shows it"))
    });
}

#[test]
fn a_detached_run_is_watched_and_stopped_from_another_terminal() {
    let site = reporting(50, 10, "0.1");
    let mut terminal = OnTerminal::start(&site, &["run", "study.toml"]);
    terminal.wait_for_text("1 running");
    terminal.press("qd");
    assert_eq!(terminal.leave(), 0);
    let mut watching = OnTerminal::start(&site, &["watch"]);
    watching.wait_for_text("1 running");
    watching.press("S");
    watching.wait_for_text("stop the study?");
    watching.press("y");
    wait_until("it stops", || last_run_ended_in_order(&site));
    watching.press("q");
    assert_eq!(watching.leave(), 0);
}

#[test]
fn a_run_whose_shell_kills_the_waiting_process_ends_in_order() {
    let site = reporting(50, 10, "0.1");
    let mut terminal = OnTerminal::start(&site, &["run", "study.toml"]);
    terminal.wait_for_text("1 running");
    processes::signal(terminal.pid(), Signal::KILL);
    wait_until("it leaves, for nobody could stop it", || last_run_ended_in_order(&site));
}

/// For how long a study has run, by what `show` prints, if that is less than a minute.
fn seconds_of(shown: &str) -> Option<f64> {
    let time = shown.lines().find_map(|line| line.strip_prefix("time "))?;
    time.split_once(" s;")?.0.trim().parse().ok()
}

#[test]
fn a_killed_run_leaves_its_terminal_as_it_was() {
    let site = reporting(50, 10, "0.1");
    let mut terminal = OnTerminal::start(&site, &["run", "study.toml"]);
    terminal.wait_for_text("1 running");
    terminal.wait_for(|screen| screen.alternate_screen() && screen.bracketed_paste());
    let device = terminal.device();
    let edits_lines =
        || tcgetattr(&device).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO);
    assert!(!edits_lines());
    wait_until("it has run for 2 s", || seconds_of(&site.run(&["show"]).out) >= Some(2.0));
    processes::signal(holder(&site), Signal::KILL);
    terminal.wait_for_text("the run was killed (signal 9); `hpsearch run study.toml` continues");
    terminal.wait_for(|screen| !screen.alternate_screen() && !screen.bracketed_paste());
    assert!(edits_lines(), "keys are raw still");
    assert_ne!(terminal.leave(), 0);
    let shown = site.run(&["show"]).out;
    assert!(
        shown.contains("interrupted: its runner died; `hpsearch run study.toml")
            && shown.contains("1 interrupted")
            && seconds_of(&shown) > Some(0.0),
        "{shown}"
    );
}

#[test]
fn a_choice_that_always_fails_is_named_and_the_best_command_can_be_typed() {
    let enqueued = ["a", "b", "b"].map(|kind| {
        format!("[[enqueue]]\nx = 0.{}\nkind = \"{kind}\"\n", if kind == "a" { 5 } else { 25 })
    });
    let text = study("trials = 3\ncount = \"all\"", &format!("{ONE_SLOT}{}", enqueued.concat()))
        .replace("[space]\n", "[space]\nkind = [\"a\", \"b\"]\n")
        .replace("\"{x}\"", "\"{x}\", \"{kind}\"");
    let text = text.replacen("0.25", "0.75", 1);
    let script = "[ $2 = a ] || exit 3\necho \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\n";
    let site = Site::new(&text, script);
    let ran = site.run(&["run", "--plain"]);
    assert!(ran.err.contains("warning: all 2 trials with kind=b failed\n"), "{}", ran.err);
    let seed = site.json(&["show", "0", "--json"])["seed"].to_string();
    let command = format!("HPSEARCH_SEED={seed} sh trial.sh 0.5 a\n");
    assert_eq!(site.run(&["best", "--command"]).out, command);
    assert!(site.run(&["best"]).out.contains(&format!("# command: {command}")));
    let missing = site.run(&["check", "studdy.toml"]);
    assert_eq!(
        (missing.code, missing.err.as_str()),
        (2, "error: there is no study file `studdy.toml`\nhelp: did you mean `study.toml`?\n")
    );
}

#[test]
fn a_run_on_the_screens_is_known_by_the_command_that_was_typed() {
    let site = reporting(1, 1, "0");
    let mut terminal = OnTerminal::start(&site, &["run", "study.toml"]);
    terminal.wait_for_text("study finished");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
    let commands: Vec<Vec<String>> = site
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Runner(RunnerEvent::Described { provenance }) => Some(provenance.command),
            _ => None,
        })
        .collect();
    assert_eq!(commands, [["hpsearch", "run", "study.toml"]]);
}

#[test]
fn a_signal_to_the_waiting_process_is_one_to_the_run() {
    let site = reporting(50, 10, "0.1");
    let mut terminal = OnTerminal::start(&site, &["run", "study.toml"]);
    terminal.wait_for_text("1 running");
    processes::signal(terminal.pid(), Signal::TERM);
    assert_eq!(terminal.leave(), 143);
    assert!(last_run_ended_in_order(&site));
}

#[test]
fn a_suspended_run_gives_the_terminal_back_before_its_shell_takes_it() {
    let site = reporting(50, 10, "0.1");
    let mut terminal = OnTerminal::start(&site, &["run", "study.toml"]);
    terminal.wait_for_text("1 running");
    // Nothing is being started any more: a process between its fork and a group of its own would be
    // stopped, too.
    wait_until("a step is reported", || {
        site.events().iter().any(|event| {
            matches!(event, Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Reported { .. })))
        })
    });
    let runner = holder(&site);
    terminal.press("\u{1a}");
    wait_until("the waiting process stops", || processes::is_stopped(terminal.pid()));
    assert!(processes::is_stopped(runner), "the shell has the terminal, and the run still uses it");
    terminal.wait_for(|screen| !screen.alternate_screen());
    // As `fg` does: to the whole group, in which a process may be that was just being started.
    let group = rustix::process::Pid::from_raw(i32::try_from(terminal.pid()).unwrap()).unwrap();
    rustix::process::kill_process_group(group, Signal::CONT).unwrap();
    terminal
        .wait_for(|screen| screen.alternate_screen() && screen.contents().contains("1 running"));
    terminal.press("qy");
    assert_eq!(terminal.leave(), 130);
    assert!(last_run_ended_in_order(&site));
}

#[test]
fn the_last_screen_of_a_run_goes_on_with_more_trials() {
    let site = reporting(1, 2, "0");
    let mut terminal = OnTerminal::start(&site, &["run", "study.toml"]);
    terminal.wait_for_text("E +20 runs 20 more");
    terminal.press("E+2\r");
    terminal.wait_for(|screen| {
        screen.contents().contains("3/3 trials") && screen.contents().contains("study finished")
    });
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
    let finished = site
        .events()
        .iter()
        .filter(|event| matches!(event, Event::Study(StudyEvent::Finished { .. })))
        .count();
    assert_eq!(finished, 2);
}

#[test]
fn watching_a_study_that_is_over_says_how_to_go_on() {
    let mut scene = Scene::digits();
    scene.append(&[Event::Study(StudyEvent::finished("the budget is used up"))]);
    scene.leave();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("E raises the budget");
    terminal.press("E+2\r");
    terminal.wait_for_text("`hpsearch run STUDY.toml` continues: ");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn watch_offers_the_studies_of_a_store_that_holds_several() {
    let mut scene = Scene::digits();
    scene.leave();
    scene.begin("letters");
    let mut terminal = OnTerminal::start(&scene, &["watch"]);
    terminal.wait_for_text("2 studies: which one?");
    terminal.wait_for(|screen| {
        screen.contents().contains("digits") && screen.contents().contains("letters")
    });
    // The one that was made last is selected.
    terminal.press("\u{1b}[A\r");
    terminal.wait_for_text("best 0.18421");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
    let mut again = OnTerminal::start(&scene, &["watch"]);
    again.wait_for_text("which one?");
    again.press("q");
    assert_eq!(again.leave(), 0);
}

#[test]
fn notes_and_tags_are_read_and_written_as_json() {
    let scene = Scene::digits();
    assert_eq!(
        scene.json(&["note", "digits", "--json"]),
        json!({ "version": 1, "study": "digits", "notes": [] })
    );
    let written = scene.json(&["note", "digits", "0,1", "-m", "a \"quoted\" note", "--json"]);
    assert_eq!(
        (&written["notes"][0]["trial"], &written["notes"][1]["text"]),
        (&json!(0), &json!("a \"quoted\" note")),
        "{written}"
    );
    assert!(written["notes"][0]["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{written}");
    assert_eq!(
        scene.json(&["tag", "digits", "3", "+keep", "--json"]),
        json!({ "version": 1, "study": "digits", "tags": [{ "trial": 3, "tag": "keep" }] })
    );
    scene.run(&["tag", "digits", "+second"]);
    assert_eq!(scene.json(&["tag", "--json"])["tags"], json!([{ "trial": null, "tag": "second" }]));
}

fn write_log(scene: &Scene, text: &[u8]) {
    let directory = scene.path("runs/files/digits/trial-0");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("attempt-0.log"), text).unwrap();
}

#[test]
fn a_log_is_read_as_json_lines_with_the_numbers_of_its_lines() {
    let scene = Scene::digits();
    write_log(&scene, b"one\r\ntwo \x1b[31mred\n\nthe end");
    let lines =
        |arguments: &[&str]| -> Vec<serde_json::Value> { scene.run(arguments).json_lines() };
    let all = lines(&["logs", "digits", "0", "--json"]);
    assert_eq!(all[0], json!({ "trial": 0, "attempt": 0, "line": 1, "text": "one" }));
    assert_eq!(
        all.iter().map(|line| line["text"].as_str().unwrap()).collect::<Vec<_>>(),
        ["one", "two \u{1b}[31mred", "", "the end"]
    );
    let found = lines(&["logs", "digits", "0", "--json", "--grep", "end"]);
    assert_eq!(found, [json!({ "trial": 0, "attempt": 0, "line": 4, "text": "the end" })]);
}

#[test]
fn check_says_as_json_what_is_searched_or_everything_that_is_wrong() {
    let site = reporting(3, 1, "0");
    let good = site.json(&["check", "--json"]);
    assert_eq!((&good["valid"], &good["problems"]), (&json!(true), &json!([])), "{good}");
    assert_eq!(
        good["study"],
        json!({
            "name": "s", "metric": "loss", "direction": "minimize", "parameters": ["x"],
            "sampler": good["study"]["sampler"], "pruner": good["study"]["pruner"],
            "slots": { "sim:0": 1 }, "data": [], "forecast": null,
        })
    );
    let wrong = "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimise\"\n[space]\nx = \
        { float = [1.0] }\n[command]\nrun = [\"true\"]\n";
    site.write("study.toml", wrong);
    let ran = site.command(&["check", "--json"]).output().unwrap();
    assert_eq!((ran.status.code(), String::from_utf8(ran.stderr).unwrap().as_str()), (Some(2), ""));
    let bad: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&bad["valid"], bad.get("study")), (&json!(false), None), "{bad}");
    let places: Vec<_> = bad["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| (problem["severity"].as_str().unwrap(), problem["line"].as_u64()))
        .collect();
    assert!(places.contains(&("error", Some(4))) && places.contains(&("error", Some(6))), "{bad}");
    assert_eq!(bad["problems"][0]["file"], json!("study.toml"), "{bad}");
    let missing = site.command(&["check", "nowhere.toml", "--json"]).output().unwrap();
    let missing: serde_json::Value = serde_json::from_slice(&missing.stdout).unwrap();
    assert_eq!(missing["problems"][0]["help"], json!(["did you mean `study.toml`?"]), "{missing}");
}

#[test]
fn the_mark_of_a_studys_directory_is_no_file_of_an_unknown_trial() {
    let site = reporting(1, 1, "0");
    assert_eq!(site.run(&["run", "--plain"]).code, 0);
    assert!(Path::new(&site.path("runs/files/s/.hpsearch-store")).exists());
    let usage = site.json(&["du", "--json"]);
    let study = &usage["studies"][0];
    assert_eq!(study["unknown"], json!(0), "{usage}");
    assert!(study["own"].as_u64().is_some_and(|own| own > 0), "{usage}");
    let trials: u64 = study["states"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|state| {
            ["checkpoints", "logs", "other"].map(|part| state[part].as_u64().unwrap())
        })
        .sum();
    assert_eq!(study["total"].as_u64().unwrap(), trials + study["own"].as_u64().unwrap());
    assert!(!site.run(&["du"]).out.contains("unknown trials"));
}

#[test]
fn a_missing_file_a_missing_kind_and_a_missing_directory_say_what_to_write() {
    let site = Site::empty();
    let checked = site.run(&["check"]);
    assert_eq!(checked.code, 2);
    assert_names(&checked.err, &["there is no study file `study.toml`", "`hpsearch init"]);
    let plotted = site.run(&["plot", "all", "a"]);
    assert_names(&plotted.err, &["`all` is not a kind of plot", "hpsearch plot history all a"]);
    let exported = site.run(&["export", "s"]);
    assert_names(&exported.err, &["--output <DIR> [STUDY]"]);
}
