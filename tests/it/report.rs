//! `hpsearch report`: what the file tells, what it leaves out, and that nothing in it is markup.
//!
//! `report/filter.json` has filters with the trials that pass them. The program is held to it here,
//! the page's own filter by `tests/peers/report.sh`, on the table that `report/table.json` has as
//! the page has it.

use std::fs;
use std::path::PathBuf;

use hpsearch::storage::StorageReader as _;
use hpsearch::study::device::{Device, Slot};
use hpsearch::study::event::{AttemptEnd, AttemptEvent, Event, TrialEvent};
use hpsearch::study::params::{Params, Value};
use hpsearch::study::query::{Filter, SortKey, TrialQuery};
use hpsearch::study::spec::FailureCause;
use hpsearch::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};
use serde_json::Value as Json;

use crate::harness::{
    ONE_SLOT, REPORT_X, Scene, Site, assert_done, assert_names, assert_refused, study,
};
use crate::several_objectives;

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u{2028}&\"'";

fn digits() -> Scene {
    let mut scene = Scene::digits();
    scene.leave();
    scene
}

fn html(site: &Site, words: &[&str]) -> String {
    let ended = site.run(&[&["report", "-o", "-"], words].concat());
    assert_done(&ended);
    ended.out
}

/// What the script of a page reads.
fn data(html: &str) -> Json {
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/report").join(name)
}

#[test]
fn a_report_answers_the_question_and_names_nothing_outside() {
    let scene = digits();
    let page = html(&scene, &["digits"]);
    assert!(page.starts_with("<!doctype html>\n<!-- a report of hpsearch -->\n"));
    let answer = page.split_once("class=\"answer\"").unwrap().1.split_once("</section>").unwrap().0;
    let parameters = ["learning_rate = 0.0003162277", "model.num_layers = 2", "optim = "];
    assert_names(answer, &parameters);
    assert_names(answer, &["0.18421", "trial 0"]);
    assert_names(
        &page,
        &[
            "Which values of learning_rate, model.num_layers, optim and momentum minimize \
             eval_loss?",
            "1 running, 2 complete, 1 pruned",
            "<th scope=\"col\">why</th>",
            "<dt>seed</dt>",
            "<dt>verification</dt>",
            "24 trials",
        ],
    );
    // The one scheme that is there names the kind of a drawing, and is loaded by nobody.
    let names = page.matches("http://www.w3.org/2000/svg").count();
    assert_eq!(page.matches("http:").count() + page.matches("https:").count(), names);
    for outside in [" src=", "<link", "url(", "@import", "<iframe", "srcset"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<script").count(), 2, "data, and one script");
    assert!(page.matches("<svg").count() >= 4, "figures");
    let policy = page.split_once("Content-Security-Policy\" content=\"").unwrap().1;
    let policy = policy.split_once('"').unwrap().0;
    assert_names(policy, &["default-src 'none'", "script-src 'sha256-", "style-src 'sha256-"]);
    assert!(!policy.contains("unsafe"));
}

#[test]
fn the_table_has_all_trials_and_the_best_have_pages() {
    let mut scene = Scene::digits();
    scene.start(4, 0.02, 3, "adamw");
    scene.report(4, &[0.6]);
    scene.end(4, AttemptEnd::Completed, TrialState::Complete, Some(0.6), None);
    scene.leave();
    assert_done(&scene.run(&["rm", "digits", "4", "--yes"]));
    assert_done(&scene.run(&["note", "digits", "2", "-m", "odd"]));
    let part = |words: &[&str]| data(&html(&scene, words))["studies"][0].clone();
    let table = part(&["digits"]);
    let numbers: Vec<u64> =
        table["trials"].as_array().unwrap().iter().map(|row| row[0].as_u64().unwrap()).collect();
    assert_eq!(numbers[0], 0, "the best first");
    assert_eq!(numbers.len(), 5);
    let row = |number: u64| {
        let rows = table["trials"].as_array().unwrap();
        rows.iter().find(|row| row[0] == number).unwrap().clone()
    };
    assert_eq!(row(2)[2], "NaN");
    assert_eq!(row(2)[15][0], "odd");
    assert_eq!(row(4)[10], 1, "hidden");
    assert_eq!(row(3)[2], Json::Null);
    assert_eq!(row(0)[16][3], serde_json::json!({}), "an inactive parameter");
    let pages = |table: &Json| {
        let pages = table["pages"].as_array().unwrap().iter();
        pages.map(|page| page["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert!(!pages(&table).contains(&4), "a hidden trial has a page if it is named");
    assert!(pages(&part(&["digits", "--trial", "4"])).contains(&4));
    let page = &table["pages"][0];
    assert_eq!((&page["number"], page["curve"].as_array().unwrap().len()), (&Json::from(0), 3));
    assert_eq!(page["summary"], serde_json::json!({}));
    assert_eq!(page["artifacts"], serde_json::json!([]));
    assert_refused(&scene.run(&["report", "digits", "--trial", "99", "-o", "-"]), &["99"]);
}

#[test]
fn a_trials_page_has_its_summary() {
    let script = "echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\n\
        echo '@hpsearch {\"summary\":{\"test_accuracy\":0.5,\"verdict\":\"<b>good</b>\"}}'\n\
        echo '@hpsearch {\"text\":{\"sample\":\"once\"},\"step\":1}'\n";
    let site = Site::new(&study("trials = 2", ONE_SLOT), script);
    assert_done(&site.run_study());
    let report = site.run(&["report", "s", "-o", "-"]);
    assert_done(&report);
    let page = &data(&report.out)["studies"][0]["pages"][1];
    let summary = serde_json::json!({ "test_accuracy": 0.5, "verdict": "<b>good</b>" });
    assert_eq!(page["summary"], summary, "{page}");
    assert_eq!(page["artifacts"], serde_json::json!([["sample:v1", "text", 4, 1]]), "{page}");
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A PNG of 300 bytes, and another one for each number.
fn png(number: u8) -> Vec<u8> {
    let mut content = [PNG, &[number]].concat();
    content.resize(300, number);
    content
}

/// What the report in a file says at its end.
fn about(page: &str) -> &str {
    page.split_once("About this report").unwrap().1.split_once("</footer>").unwrap().0
}

#[test]
fn images_are_shown_up_to_a_limit_the_newest_of_each_trial_first() {
    let mut scene = Scene::digits();
    for step in 1..=6 {
        scene.log_image("digits", 0, ("sample", Some(u64::from(step))), &png(step));
    }
    for step in 1..=3 {
        scene.log_image("digits", 1, ("sample", Some(u64::from(step))), &png(10 + step));
    }
    // The same content as another one takes nothing.
    scene.log_image("digits", 1, ("last", None), &png(6));
    scene.log_image("digits", 1, ("large", Some(1)), &[&png(1)[..], b"x"].concat());
    scene.leave();
    let written = scene.run(&["report", "digits", "--images", "2400B"]);
    assert_done(&written);
    let left_out = [
        "1 image larger than 300 B (`--images SIZE`)",
        "1 older image beyond the limit of 2.3 KiB for all images (`--images SIZE`)",
    ];
    assert_names(&written.err, &left_out);
    let page = scene.read("report.html");
    let left_out = left_out.map(|text| text.split_once(" (").unwrap().0);
    assert_names(about(&page), &left_out);
    assert_names(&page, &["; img-src data:\""]);
    let data = data(&page);
    let images = data["images"].as_object().unwrap();
    assert_eq!(images.len(), 8, "300 bytes each");
    assert!(
        images.values().all(|image| {
            image.as_str().unwrap().starts_with("data:image/png;base64,iVBORw0KGg")
        })
    );
    let pages = data["studies"][0]["pages"].as_array().unwrap();
    let page = |trial: u64| pages.iter().find(|page| page["number"] == trial).unwrap();
    let shown = |trial: u64, name: usize| {
        let page = page(trial);
        let shown = page["images"][name][1].as_array().unwrap();
        assert!(shown.iter().all(|image| images.contains_key(image[2].as_str().unwrap())));
        shown.iter().map(|image| (image[0].to_string(), image[1].clone())).collect::<Vec<_>>()
    };
    let of_sample = |step: u64| (format!("\"sample:v{step}\""), Json::from(step));
    assert_eq!(shown(0, 0), [2, 3, 4, 5, 6].map(of_sample));
    assert_eq!(page(0)["images"][0][2], serde_json::json!([left_out[1]]));
    assert_eq!(shown(1, 1), [("\"last:v1\"".to_owned(), Json::Null)]);
    assert_eq!(page(1)["images"][0], serde_json::json!(["large", [], [left_out[0]]]));
    assert_eq!(shown(1, 2), [1, 2, 3].map(of_sample));
}

#[test]
fn a_report_without_images_says_so_and_lets_a_browser_load_none() {
    let mut scene = Scene::digits();
    scene.log_image("digits", 0, ("sample", Some(1)), &png(1));
    scene.leave();
    let page = html(&scene, &["digits", "--images", "none"]);
    assert!(!page.contains("img-src") && !page.contains("data:image/png"));
    assert_names(about(&page), &["1 image of trials (<code>--images SIZE</code>)"]);
    assert_eq!(data(&page)["studies"][0]["pages"][0]["images"], Json::Null);
    let markdown = html(&scene, &["digits", "--markdown"]);
    assert_names(&markdown, &["Left out: 1 image, which only an HTML report shows."]);
    for (size, said) in
        [("many", "a size is a number"), ("20", "the unit is missing"), ("1GiB", "at most 256")]
    {
        assert_refused(&scene.run(&["report", "digits", "--images", size]), &[said]);
    }
    let refused = scene.run(&["report", "digits", "--images", "1MiB", "-o", "digits.md"]);
    assert_refused(&refused, &["a Markdown report has no images"]);
}

#[test]
fn only_an_image_that_is_what_was_logged_is_shown() {
    let mut scene = Scene::digits();
    scene.write("secret.gif", "GIF89a, a secret");
    let mut log =
        |name: &str, content: &[u8]| scene.log_image("digits", 0, (name, Some(1)), content);
    log("drawing", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>");
    log("page", b"<!doctype html><script>alert(1)</script>");
    log(HOSTILE, &png(7));
    let gone = log("gone", &png(1));
    let changed = log("changed", &png(2));
    let linked = log("linked", b"GIF89a");
    fs::remove_file(gone).unwrap();
    fs::write(changed, png(3)).unwrap();
    fs::remove_file(&linked).unwrap();
    std::os::unix::fs::symlink(scene.path("secret.gif"), &linked).unwrap();
    scene.leave();
    let page = html(&scene, &["digits"]);
    assert_names(about(&page), &["5 images without a file, or with another one now"]);
    assert!(!page.contains("<img") && page.matches("<script").count() == 2);
    let data = data(&page);
    assert_eq!(data["images"].as_object().unwrap().len(), 1, "{}", data["images"]);
    let strips = data["studies"][0]["pages"][0]["images"].as_array().unwrap().clone();
    for (name, why) in [
        ("changed", "has changed since `changed:v1` was logged"),
        ("drawing", "`drawing:v1` is not a PNG, JPEG, GIF or WebP file"),
        ("gone", "the file of `gone:v1` is gone: there is no `"),
        ("linked", "has changed since `linked:v1` was logged"),
        ("page", "`page:v1` is not a PNG, JPEG, GIF or WebP file"),
    ] {
        let strip = strips.iter().find(|strip| strip[0] == name).unwrap();
        assert_eq!((&strip[1], strip[2].as_array().unwrap().len()), (&serde_json::json!([]), 1));
        assert_names(strip[2][0].as_str().unwrap(), &[why]);
    }
}

#[test]
fn no_name_note_reason_or_value_becomes_markup() {
    let mut scene = Scene::new();
    scene.begin(HOSTILE);
    scene.start(0, 1e-3, 2, HOSTILE);
    scene.report(0, &[0.5, 0.25]);
    scene.end(0, AttemptEnd::Completed, TrialState::Complete, Some(0.25), None);
    scene.start(1, 1e-2, 2, "sgd");
    scene.end(
        1,
        AttemptEnd::Failed(FailureCause::Program),
        TrialState::Failed,
        None,
        Some(HOSTILE),
    );
    scene.leave();
    assert_done(&scene.run(&["note", HOSTILE, "-m", HOSTILE]));
    assert_done(&scene.run(&["note", HOSTILE, "0", "-m", HOSTILE]));
    let page = html(&scene, &[HOSTILE]);
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<img"));
    let in_script = page.split_once("id=\"data\">").unwrap().1;
    assert!(!in_script.contains('\u{2028}'));
    assert!(page.contains("&lt;img src=x onerror=alert(2)&gt;"), "it is told as text");
    let table = &data(&page)["studies"][0];
    assert_eq!(table["study"], HOSTILE, "the data is what it was");
    assert_eq!(table["trials"][0][15][0], HOSTILE);
    let markdown = scene.run(&["report", HOSTILE, "--markdown"]);
    assert_done(&markdown);
    let outside_code: String = markdown
        .out
        .split("```")
        .step_by(2)
        .map(|part| part.replace("<!-- a report", ""))
        .collect();
    assert!(!outside_code.contains('<'), "{outside_code}");
}

#[test]
fn what_tells_of_the_machine_is_left_out_unless_it_is_asked_for() {
    let script = "echo secret-of-the-log\n\
        echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\n\
        case \"$1\" in 0.[0-4]*) exit 0 ;; esac\n\
        echo \"@hpsearch {\\\"failed\\\":\\\"no file $PWD/data/x.csv on $(uname -n)\\\"}\"; exit \
        3\n";
    let site = Site::new(&study("trials = 6\nfailures = 9", ONE_SLOT), script);
    site.run_study();
    let note = format!("see {}/x and /etc/hosts", site.path("").display());
    assert_done(&site.run(&["note", "s", "-m", &note]));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let directory = site.path("").display().to_string();
    let directory = directory.trim_end_matches('/');
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    let command = "trial.sh";
    for words in [&["s"][..], &["s", "--markdown"]] {
        let report = html(&site, words);
        for private in [directory, &home, "/etc/hosts", "secret-of-the-log"] {
            assert!(!report.contains(private), "{private}");
        }
        assert!(!report.contains(&format!("sh {command}")), "a command line");
        let is_in_a_word = |at: usize| {
            let is_word = |char: char| char.is_alphanumeric() || char == '-' || char == '_';
            report[..at].ends_with(is_word) || report[at + host.len()..].starts_with(is_word)
        };
        let found: Vec<usize> = report.match_indices(&host).map(|(at, _)| at).collect();
        assert!(found.iter().all(|at| is_in_a_word(*at)), "the host's name `{host}`");
        assert_names(&report, &["--include logs", "--include changes", "--include host"]);
    }
    let all = html(&site, &["s", "--include", "logs,changes,host"]);
    assert_names(&all, &["secret-of-the-log", directory, "sh trial.sh", "Nothing was left out"]);
    let logs = html(&site, &["s", "--include", "logs"]);
    assert_names(&logs, &["secret-of-the-log"]);
    assert!(!logs.contains(directory), "a log tells paths only with `host`");
}

#[test]
fn a_study_without_an_answer_and_several_studies_have_reports() {
    let mut scene = Scene::new();
    scene.begin("empty");
    scene.leave();
    let empty = html(&scene, &["empty"]);
    assert_names(&empty, &["No answer yet: no complete trial yet."]);
    assert_eq!(data(&empty)["studies"][0]["trials"], serde_json::json!([]));
    scene.begin("other");
    for (number, value) in [0.5, f64::NAN, f64::INFINITY, 0.25].into_iter().enumerate() {
        let number = number as u64;
        scene.start(number, 1e-3, 2, "adamw");
        scene.report(number, &[value]);
        scene.end(number, AttemptEnd::Completed, TrialState::Complete, Some(value), None);
    }
    scene.leave();
    let both = html(&scene, &["empty", "other"]);
    assert_names(&both, &["id=\"study-0\"", "id=\"study-1\"", "id=\"together\"", "0.25"]);
    assert_eq!(data(&both)["studies"][1]["trials"].as_array().unwrap().len(), 4);
    assert_eq!(html(&scene, &["--all"]).matches("<article").count(), 2);
    let markdown = scene.run(&["report", "other", "--markdown"]);
    assert_names(&markdown.out, &["**eval\\_loss 0.25** by trial 3", "| 1 | complete | NaN |"]);
    assert_refused(&scene.run(&["report", "others", "-o", "-"]), &["others"]);
}

#[test]
fn tracked_runs_have_names_instead_of_a_space() {
    let site = Site::empty();
    let report = "echo '@hpsearch {\"step\":1,\"loss\":0.25}'";
    let words = ["track", "--name", "base<line", "--", "sh", "-c", report, "x", "--lr", "0.1"];
    assert_done(&site.run(&words));
    let page = html(&site, &["runs"]);
    assert_names(&page, &["Which of 1 tracked run has the smallest loss?", "base&lt;line"]);
    assert!(!page.contains("Search space"));
    let table = &data(&page)["studies"][0];
    assert_eq!(table["trials"][0][12], "base<line");
    assert_eq!((&table["tracked"], &table["params"][0]["name"]), (&true.into(), &"lr".into()));
}

#[test]
fn configurations_that_ran_several_times_are_compared_by_their_means() {
    // Some run of every configuration is better than any mean.
    let script =
        "echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$((HPSEARCH_TRIAL % 3 * 100)).5}\"\n";
    let study = study("trials = 8", ONE_SLOT).replace("seed = 7", "seed = 7\nreplicates = 3");
    let site = Site::new(&study, script);
    assert_done(&site.run_study());
    let page = html(&site, &["s"]);
    let answer = page.split_once("class=\"answer\"").unwrap().1.split_once("</section>").unwrap().0;
    assert_names(answer, &["of 3 runs", "(95 %)", "second best configuration:", "the mean of its"]);
    assert!(!answer.contains("second best:"), "{answer}");
    let told = |before: &str| -> f64 {
        let rest = answer.split_once(before).unwrap().1;
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    let (best, second) = (told("mean "), told("second best configuration: "));
    assert!(best <= second, "{second} is better than the best, {best}");
}

#[test]
fn several_objectives_are_answered_by_a_front() {
    let site = several_objectives::finished("[sampler]\ntype = \"random\"");
    let on = several_objectives::front(&site.trials());
    let best = site.json(&["best", "s", "--json"]);
    let compromise = best["trial"]["number"].as_u64().unwrap();
    let page = html(&site, &["s"]);
    assert_names(
        &page,
        &[
            "Which values of x and y minimize error and maximize speed?",
            &format!("{} trials on the front, hypervolume ", on.len()),
            "<h3>Front</h3>",
            &format!("trial {compromise}</a></p>"),
            "s: error and speed",
            "hypervolume of the front by trial",
            "hpsearch enqueue s ",
        ],
    );
    let front = page.split_once("<h3>Front</h3>").unwrap().1.split_once("</table>").unwrap().0;
    assert_eq!(front.matches("<tr>").count(), on.len() + 1);
    let first = front.split_once("<tbody>").unwrap().1.split_once("</tr>").unwrap().0;
    assert_names(first, &[&format!("<a href=\"#study-0-trial-{compromise}\">")]);
    let table = &data(&page)["studies"][0];
    assert_eq!((&table["front"], &table["best"]), (&on.clone().into(), &compromise.into()));
    assert_eq!(table["objectives"][1]["direction"], "maximize");
    // The first objective is where filters look for it, and the others are among the metrics.
    assert_eq!((&table["metric"], &table["metrics"][0]), (&"error".into(), &"speed".into()));
    for row in table["trials"].as_array().unwrap() {
        let trial = &site.trials()[row[0].as_u64().unwrap() as usize];
        assert_eq!((&row[2], &row[17][0]), (&trial["values"][0], &trial["values"][1]));
    }
    let markdown = site.run(&["report", "s", "--markdown"]).out;
    assert_names(
        &markdown,
        &["**compromise error ", "## Front", "| trial | error | speed | x | y |"],
    );
    let both = site.run(&["report", "s", "s", "-o", "-"]);
    assert_done(&both);
}

#[test]
fn a_file_that_is_no_report_is_not_overwritten() {
    let scene = digits();
    scene.write("mine.html", "<p>mine</p>");
    assert_refused(
        &scene.run(&["report", "digits", "-o", "mine.html"]),
        &["is not a report of hpsearch", "--overwrite"],
    );
    assert_eq!(scene.read("mine.html"), "<p>mine</p>");
    assert_done(&scene.run(&["report", "digits", "-o", "mine.html", "--overwrite"]));
    assert_done(&scene.run(&["report", "digits", "-o", "mine.html", "--markdown"]));
    assert!(scene.read("mine.html").starts_with("<!-- a report of hpsearch -->\n\n# digits"));
    let written = scene.run(&["report", "digits"]);
    assert_names(&written.err, &["report.html", "left out", "--include"]);
    assert!(scene.read("report.html").contains("</html>"));
    let refused = scene.run(&["report", "digits", "-o", "runs/hpsearch.db", "--overwrite"]);
    assert_refused(&refused, &["would be overwritten"]);
    assert_refused(&scene.run(&["report", "digits", "-o", "no/such.html"]), &["no/such.html"]);
}

#[test]
fn a_report_of_a_thousand_trials_stays_small() {
    let mut scene = Scene::new();
    scene.begin("many");
    let mut events = Vec::new();
    for number in 0..1_000_u32 {
        let (trial, attempt) = (TrialNumber(number.into()), AttemptNumber(0));
        let rate = 1e-5 * f64::from(number + 1);
        let params: Params = [
            ("learning_rate", Value::from(rate)),
            ("model.num_layers", i64::from(number % 8 + 1).into()),
            ("optim", "adamw".into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
        let mut add = |event| events.push(Event::Trial(trial, event));
        add(TrialEvent::created(params, Origin::Sampled("random".into())));
        add(TrialEvent::Attempt(AttemptEvent::Started {
            attempt,
            slot: Slot::on(0, Device::Cpu),
            resume: None,
            until: None,
            rows_at_once: None,
            device_micros: 0,
        }));
        for step in 1..=30_u32 {
            let value = 1.0 / f64::from(step) + f64::from(number % 97) * 0.0123;
            let metrics = [("eval_loss".to_owned(), value)].into_iter().collect();
            add(TrialEvent::Attempt(AttemptEvent::reported(attempt, step.into(), metrics)));
        }
        let value = Some(1.0 / 30.0 + f64::from(number % 97) * 0.0123);
        add(TrialEvent::Attempt(AttemptEvent::Ended {
            attempt,
            end: AttemptEnd::Completed,
            reason: None,
            device_micros: None,
            memory: None,
            superseded: Default::default(),
        }));
        add(TrialEvent::finished(TrialState::Complete, value, None));
    }
    scene.append(&events);
    scene.leave();
    let page = html(&scene, &["many"]);
    let table = data(&page);
    let table = serde_json::to_string(&table).unwrap().len();
    assert!(table < 500_000, "the table has {table} bytes");
    assert!(page.len() - table < 1_000_000, "the rest has {} bytes", page.len() - table);
}

#[test]
fn the_program_and_the_page_filter_alike() {
    let scene = digits();
    assert_done(&scene.run(&["note", "digits", "0", "-m", "An odd curve"]));
    for trial in ["0", "1"] {
        assert_done(&scene.run(&["tag", "digits", trial, "+keep"]));
    }
    let mut table = data(&html(&scene, &["digits"]))["studies"][0].clone();
    table["pages"] = serde_json::json!([]);
    let written = serde_json::to_string_pretty(&table).unwrap() + "\n";
    if std::env::var_os("HPSEARCH_WRITE_DOCS").is_some() {
        fs::write(file("table.json"), &written).unwrap();
    }
    assert_eq!(
        fs::read_to_string(file("table.json")).unwrap_or_default(),
        written,
        "HPSEARCH_WRITE_DOCS=1 writes it anew; then run tests/peers/report.sh"
    );
    let study = scene.store.study("digits").unwrap().unwrap();
    let names = scene.store.trial_names(study.id).unwrap();
    let cases: Json =
        serde_json::from_str(&fs::read_to_string(file("filter.json")).unwrap()).unwrap();
    for case in cases["cases"].as_array().unwrap() {
        let text = case["filter"].as_str().unwrap();
        let filter = match Filter::parse_with(text, &study.spec, &names) {
            Ok(filter) => filter,
            Err(error) => {
                assert_eq!(case["refused"], "both", "`{text}`: {error}");
                continue;
            }
        };
        if case["refused"] == "page" {
            continue;
        }
        let query = TrialQuery::all(SortKey::Number).filtered(filter);
        let numbers = scene.store.numbers(study.id, &query).unwrap();
        let numbers: Vec<u64> = numbers.iter().map(|number| number.0).collect();
        assert_eq!(Json::from(numbers), case["trials"], "`{text}`");
    }
}

#[test]
fn a_text_on_tracked_runs_has_their_names_and_parameters_and_the_program_of_the_best() {
    let site = Site::empty();
    for (name, loss, lr) in [("good", "0.25", "0.1"), ("bad", "0.5", "0.2")] {
        let script = format!("{name}.sh");
        site.write(&script, format!("echo '@hpsearch {{\"step\":1,\"loss\":{loss}}}'\n"));
        let words = ["track", "--name", name, "--", "sh", &script, "--lr", lr, "--same", "1"];
        assert_done(&site.run(&words));
    }
    assert_done(&site.run(&["report", "runs", "-o", "x.md"]));
    let text = site.read("x.md");
    let rows = [
        "| trial | name | state | value | lr |",
        "| 0 | good | complete | 0.25 | 0.1 |",
        "| 1 | bad | complete | 0.5 | 0.2 |",
        "| program and machine | those of run 0, the best; of 2 processes, 1 with another program",
    ];
    assert_names(&text, &rows);
    assert!(text.contains("good.sh") && !text.contains("bad.sh"), "{text}");
}

#[test]
fn a_report_whose_name_ends_in_md_is_markdown() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    assert_done(&site.run_study());
    assert_done(&site.run(&["report", "s", "-o", "x.md"]));
    assert_done(&site.run(&["report", "s", "-o", "x.html"]));
    assert!(!site.read("x.md").contains("<html"), "{}", site.read("x.md"));
    assert!(site.read("x.html").contains("<html"));
}
