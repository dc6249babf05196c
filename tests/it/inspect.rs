//! The verbs that show what is behind the figures: curves, explain, diff and plot, on a small
//! scripted store.

use hpsearch::study::decision::{Decision, Reason};
use hpsearch::study::event::{AttemptEnd, DecisionEvent, Event};
use hpsearch::study::step::StepUnit;
use hpsearch::study::trial::{TrialNumber, TrialState};
use serde_json::{Value as Json, json};

use crate::harness::{
    ONE_SLOT, REPORT_X, Scene, Site, assert_done, assert_names, held, study, wait_until,
};

/// `digits` with a fifth trial that a rung stopped.
fn judged() -> Scene {
    let mut scene = Scene::digits();
    scene.start(4, 2e-4, 3, "adamw");
    scene.report(4, &[0.95]);
    let at = StepUnit::Step.at(1);
    let verdict = Decision::Stop(Reason::Rank {
        rank: 4,
        of: 5,
        first: 1,
        at,
        forecast_from: None,
        forecast: None,
    });
    scene.append(&[Event::of(TrialNumber(4), DecisionEvent::Decided { step: 1, verdict })]);
    scene.end(
        4,
        AttemptEnd::Stopped,
        TrialState::Pruned,
        None,
        Some("rank 4 of 5 at step 1; 1 continues"),
    );
    scene
}

#[test]
fn a_pruned_trial_is_explained_with_what_was_known_and_the_cut_off() {
    insta::assert_snapshot!(judged().run(&["explain", "4"]).out);
}

#[test]
fn the_best_trial_is_explained_as_such() {
    insta::assert_snapshot!(Scene::digits().run(&["explain", "digits", "0"]).out);
}

#[test]
fn an_explanation_as_json_has_the_field_at_each_decision() {
    let mut answer = judged().json(&["explain", "4", "--json"]);
    // The process has an end after its first report, of five trials; none before.
    let end = answer["decisions"][0].as_object_mut().unwrap().remove("predicted_end").unwrap();
    let [low, mean, high] = ["low", "mean", "high"].map(|name| end[name].as_f64().unwrap());
    assert!(low < mean && mean < high && end["step"] == 3, "{end}");
    assert_eq!(answer["proposed"].get("predicted"), None);
    assert_eq!(
        (&answer["version"], &answer["trial"]["state"], &answer["origin"]["sampler"]),
        (&json!(1), &json!("pruned"), &json!("random"))
    );
    let decision = json!({"step": 1, "decision": "stop", "reason": "rank 4 of 5 at step 1; 1 \
        continues", "value": 0.95, "rank": 3, "of": 5,
        "best": 0.7, "median": 0.95, "cut_off": 0.7});
    assert_eq!(answer["decisions"], json!([decision]));
    assert_eq!(
        answer["proposed"]["others"],
        json!({"queued": 0, "running": 1, "paused": 0, "complete": 2, "pruned": 1, "failed": 0})
    );
    assert_eq!(
        (&answer["proposed"]["best"]["number"], &answer["attempts"][0]["end"]),
        (&json!(0), &json!("pruned"))
    );
    assert_eq!(answer["comparison"]["rank"], 2);
}

#[test]
fn two_trials_are_compared_side_by_side() {
    let scene = Scene::digits();
    insta::assert_snapshot!(scene.run(&["diff", "0", "1"]).out);
    let answer = scene.json(&["diff", "digits", "0", "1", "--json"]);
    let names: Vec<&str> = answer["different"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["learning_rate", "model.num_layers", "momentum", "optim", "eval_accuracy", "eval_loss"]
    );
    assert_eq!(answer["different"][2]["values"], json!([null, 0.9]));
}

#[test]
fn fewer_than_two_trials_cannot_be_compared() {
    let ran = Scene::digits().run(&["diff", "digits", "3"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.starts_with(
            "error: two different trials are compared, and these words name 1 trial\nhelp: "
        ),
        "{}",
        ran.err
    );
}

#[test]
fn a_changed_file_is_compared_with_its_study_and_says_how_it_is_taken() {
    let scene = Scene::digits();
    let text = "[study]\nname = \"digits\"\nmetric = \"eval_loss\"\ndirection = \"maximize\"\n\
                [budget]\ntrials = 48\n[space]\nx = { float = [0.0, 1.0] }\n[sampler]\n\
                type = \"random\"\n[pruner]\ntype = \"none\"\n[command]\n\
                run = [\"true\", \"{x}\"]\n";
    scene.write("mine.toml", text);
    let out = scene.run(&["diff", "mine.toml"]).out;
    assert!(out.contains("applied when it is run again:\n  budget.trials: 24 -> 48\n"), "{out}");
    assert!(
        out.contains("study.direction: minimize -> maximize")
            && out.ends_with("`hpsearch run mine.toml --fork NAME` starts it\n"),
        "{out}"
    );
    let answer = scene.json(&["diff", "mine.toml", "digits", "--json"]);
    assert_eq!((&answer["needs"], &answer["study"]), (&json!("fork"), &json!("digits")));
}

#[test]
fn a_study_file_that_was_never_run_is_answered_with_the_command_that_runs_it() {
    let scene = Scene::digits();
    let text = "[study]\nname = \"letters\"\nmetric = \"loss\"\ndirection = \"minimize\"\n\
                [budget]\ntrials = 4\n[space]\nx = { float = [0.0, 1.0] }\n[command]\n\
                run = [\"true\"]\n";
    scene.write("letters.toml", text);
    let ran = scene.run(&["trials", "letters.toml"]);
    assert_eq!(ran.code, 2);
    insta::assert_snapshot!(ran.err, @r"
    error: the study `letters` of `letters.toml` is not in the store
    help: `hpsearch run letters.toml` starts it; the store holds `digits`
    ");
}

#[test]
fn curves_are_drawn_in_braille_or_ascii_and_never_coloured_in_a_pipe() {
    let scene = Scene::digits();
    insta::assert_snapshot!(
        scene.run(&["curves", "0", "3", "--width", "60", "--height", "12"]).out
    );
    let ascii =
        scene.command(&["curves", "digits", "--width", "40"]).env("LC_ALL", "C").output().unwrap();
    assert!(ascii.stdout.is_ascii() && !ascii.stdout.contains(&0x1b));
    let forced = scene.command(&["curves", "digits"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(forced.stdout.contains(&0x1b));
}

#[test]
fn curves_are_numbers_too() {
    let scene = Scene::digits();
    insta::assert_snapshot!(scene.run(&["curves", "0,3", "--table"]).out, @r"
    epoch  trial 0  trial 3
        1  0.9          0.7
        2  0.18421
        3  0.2
    ");
    let answer = scene.json(&["curves", "digits", "0", "2", "--json"]);
    assert_eq!((&answer["version"], &answer["study"]), (&json!(2), &json!("digits")));
    let series = &answer["series"][0];
    assert_eq!(
        (&series["trial"], &series["metric"], &series["clock"]),
        (&json!(0), &json!("eval_loss"), &json!("epoch"))
    );
    let values = |series: &Json| {
        let points = series["points"].as_array().unwrap().iter();
        points.map(|point| json!([point[0], point[1]])).collect::<Vec<_>>()
    };
    assert_eq!(values(series), [json!([1, 0.9]), json!([2, 0.184_213]), json!([3, 0.2])]);
    assert!(series["points"][0][2].as_f64().is_some_and(|seconds| seconds >= 0.0), "{series}");
    assert_eq!(values(&answer["series"][1]), [json!([1, "NaN"])]);
}

#[test]
fn an_unknown_metric_is_answered_with_those_there_are() {
    let ran = Scene::digits().run(&["curves", "0", "--metric", "eval_acuracy"]);
    assert_eq!(ran.code, 2);
    insta::assert_snapshot!(ran.err, @r"
    error: these trials report no `eval_acuracy`
    help: did you mean `eval_accuracy`? they report `eval_accuracy`, `eval_loss`
    ");
}

#[test]
fn the_history_is_drawn_with_the_best_so_far() {
    insta::assert_snapshot!(
        judged().run(&["plot", "history", "--width", "60", "--height", "12"]).out
    );
}

/// All kinds but `importance`, which is another verb's in the terminal.
const KINDS: [&str; 10] = [
    "history",
    "curves",
    "parallel",
    "slice",
    "contour",
    "rungs",
    "edf",
    "comparison",
    "timeline",
    "system",
];

#[test]
fn every_kind_is_listed_and_written_to_files_of_each_format() {
    let scene = judged();
    let listed = scene.run(&["plot"]).out;
    for kind in KINDS.iter().chain(["importance"].iter()) {
        assert!(listed.contains(&format!("\n{kind}")), "{kind}: {listed}");
        let path = scene.path(&format!("{kind}.svg"));
        let ran = scene.run(&["plot", "digits", kind, "-o", path.to_str().unwrap()]);
        assert_eq!(ran.code, 0, "{kind}: {}", ran.err);
        let svg = std::fs::read_to_string(&path).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        assert!(document.root_element().attribute("aria-label").is_some(), "{kind}");
    }
    let write = |name: &str, more: &[&str]| {
        let path = scene.path(name);
        let words = [&["plot", "history", "-o", path.to_str().unwrap()], more].concat();
        (scene.run(&words), path)
    };
    let (ran, path) = write("history.html", &["--dark"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = std::fs::read_to_string(path).unwrap();
    assert!(
        page.starts_with("<!doctype html>")
            && page.contains("#0f1419")
            && !page.contains("http://www.w3.org/1999")
    );
    let (ran, path) = write("history.json", &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let data: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(
        (&data["plot"], &data["charts"][0]["x"]["label"]),
        (&json!("history"), &json!("trial"))
    );
    let (ran, path) = write("history.png", &["--width", "400", "--height", "300"]);
    if cfg!(feature = "png") {
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(std::fs::read(path).unwrap().starts_with(b"\x89PNG"));
    } else {
        assert_eq!(ran.code, 2);
        assert_names(&ran.err, &["without PNG", ".svg"]);
    }
}

#[test]
fn a_figure_that_cannot_be_written_leaves_the_file_as_it_was() {
    let scene = judged();
    let refused = |name: &str, words: &[&str]| {
        let ran = scene.run(&["plot", "history", "-o", scene.path(name).to_str().unwrap()]);
        assert_eq!(ran.code, 2, "{name}");
        assert_names(&ran.err, words);
    };
    refused("figure.jpeg", &["does not name a format", ".svg, .png, .html or .json"]);
    refused("figure", &["does not name a format"]);
    refused("nowhere/figure.svg", &["cannot be written", "an existing, writable directory"]);
    // The store is an input, by whatever name.
    let store = scene.path("runs/hpsearch.db");
    let before = std::fs::read(&store).unwrap();
    std::os::unix::fs::symlink(&store, scene.path("linked.svg")).unwrap();
    refused("linked.svg", &["is read here", "give another file"]);
    assert!(std::fs::read(&store).unwrap() == before, "the store was written over");
    std::fs::create_dir(scene.path("taken.svg")).unwrap();
    refused("taken.svg", &["is a directory"]);
    let left: Vec<_> = std::fs::read_dir(scene.path("."))
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".partial"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    for (words, said) in [
        (&["plot", "history", "--smooth", "0.5"][..], "`plot curves`"),
        (&["plot", "curves", "--smooth", "1"], "below 1"),
        (&["plot", "history", "--trial", "0"], "`plot system`"),
        (&["plot", "contour", "--param", "learning_rate"], "a contour is over two parameters"),
        (&["plot", "contour", "--param", "optim", "--param", "optim"], "both are the same"),
        (&["plot", "-o", "a.svg"], "the kind of plot is missing"),
        (&["plot", "history", "--width", "501"], "at most 500 columns"),
        (&["plot", "history", "--param", "optim"], "`plot slice` and `plot contour`"),
        (&["plot", "timeline", "--log-y"], "it is for history, curves, slice, comparison"),
        (&["plot", "slice", "--log-x"], "it is for history, curves, edf, comparison"),
    ] {
        let ran = scene.run(words);
        assert_eq!(ran.code, 2, "{words:?}");
        assert_names(&ran.err, &[said]);
    }
}

#[test]
fn a_figure_replaces_an_earlier_one_and_no_other_file() {
    let scene = judged();
    let names = match cfg!(feature = "png") {
        true => &["a.svg", "a.html", "a.json", "a.png"][..],
        false => &["a.svg", "a.html", "a.json"],
    };
    for name in names {
        let write = |more: &[&str]| scene.run(&[&["plot", "history", "-o", name], more].concat());
        for mine in ["<svg>mine</svg>", "<!doctype html>\n<p>mine</p>", "{\"version\":1}", "m"] {
            scene.write(name, mine);
            let refused = write(&[]);
            assert_eq!(refused.code, 2, "{name}");
            assert_names(&refused.err, &["exists, and is not a figure of hpsearch", "--overwrite"]);
            assert_eq!(scene.read(name), mine);
        }
        assert_done(&write(&["--overwrite"]));
        assert_done(&write(&["--dark"]));
        scene.write(name, "");
        assert_done(&write(&[]));
    }
}

#[test]
fn every_picture_fits_its_width_in_every_charset() {
    let scene = judged();
    for kind in KINDS {
        for (locale, width) in [("C.UTF-8", 10), ("C", 40), ("C.UTF-8", 150)] {
            let output = scene
                .command(&["plot", "digits", kind, "--width", &width.to_string()])
                .env("LC_ALL", locale)
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success() && !text.is_empty(), "{kind}");
            // The table below `parallel` is cut on terminals only.
            let picture = text.split("axis ").next().unwrap();
            assert!(
                picture.lines().all(|line| line.chars().count() <= width),
                "{kind} at {width}:\n{text}"
            );
            assert!(locale == "C.UTF-8" || text.is_ascii(), "{kind}:\n{text}");
        }
    }
}

#[test]
fn pictures_are_points_in_json_and_unknown_parameters_are_answered_with_the_known() {
    let scene = judged();
    let answer = scene.json(&["plot", "digits", "slice", "--param", "optim", "--json"]);
    assert_eq!(
        (&answer["version"], &answer["plot"], &answer["charts"][0]["title"]),
        (&json!(1), &json!("slice"), &json!("eval_loss by optim"))
    );
    assert_eq!(
        answer["charts"][0]["series"][1],
        json!({"name": "the best", "mark": "star", "role": "best", "points": [[0.0, 0.184_213]]})
    );
    let ran = scene.run(&["plot", "slice", "--param", "optin"]);
    assert_eq!(ran.code, 2);
    assert_names(&ran.err, &["help: did you mean `optim`? it searches `learning_rate`"]);
}

#[test]
fn running_a_study_by_its_name_is_answered_with_what_is_wanted() {
    let ran = Scene::digits().run(&["run", "digits"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.starts_with(
            "error: `digits` is a study in the store; `run` takes its study file\n\
            help: `hpsearch run STUDY.toml`"
        ),
        "{}",
        ran.err
    );
}

#[test]
fn the_time_of_a_running_trial_includes_its_attempt() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &held(REPORT_X));
    let running = site.start_study();
    site.wait_for("started");
    let seconds = || site.trials()[0]["seconds"].as_f64().unwrap();
    wait_until("its time is counted", || seconds() > 1.0);
    let shown = site.json(&["show", "s", "0", "--json"]);
    assert!(shown["trial"]["seconds"].as_f64().unwrap() > 1.0, "{shown}");
    let table = site.run(&["trials", "s"]).out;
    let row = table.lines().last().unwrap();
    assert!(row.contains("running") && row.contains(" s"), "{table}");
    site.write("go", "");
    assert_done(&running.end());
}
