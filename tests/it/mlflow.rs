//! Studies are sent to a server of MLflow and come back from one: whatever is killed, lost or
//! refused in between, each run is there once, and what the store has is what the server has.

mod server;

use std::collections::{BTreeMap, BTreeSet};

use hpsearch::storage::StorageReader as _;
use hpsearch::storage::any::AnyReader;
use hpsearch::study::query::{SortKey, TrialQuery};
use hpsearch::study::trial::TrialNumber;
use serde_json::{Value as Json, json};

use self::server::{Fault, Server, StoredRun};
use crate::harness::{
    KEEP_ALL, ONE_SLOT, OnTerminal, STORE, Site, assert_done, assert_names, assert_refused,
    files_below, held, study, wait_until,
};

/// Tracks a run that logs what this script says.
fn track(site: &Site, words: &[&str], script: &str, code: i32) {
    site.write("run.sh", script);
    let all = [&["track", "--study", "t", "--system", "off"], words, &["--", "sh", "run.sh"]];
    let done = site.run(&all.concat());
    assert_eq!(done.code, code, "{}", done.err);
}

const LOGS: &str = r#"
for step in 1 2 3 10; do echo "@hpsearch {\"step\":$step,\"train/loss\":$step.5,\"loss\":0.$step}"; done
echo '@hpsearch {"epoch":1,"speed":NaN,"gain":Infinity,"loss":7}'
"#;

fn sync(site: &Site, server: &Server) -> String {
    let done = site.run(&["sync", "t", "--to", &server.destination()]);
    assert_done(&done);
    done.err
}

/// What the store has of each trial: metric with its axis, whole step, value, millisecond.
fn stored(site: &Site, study: &str) -> BTreeMap<u64, BTreeSet<(String, i64, String, i64)>> {
    let reader = AnyReader::open(&site.path(STORE)).unwrap();
    let study = reader.study(study).unwrap().unwrap().id;
    let numbers = reader.numbers(study, &TrialQuery::all(SortKey::Number)).unwrap();
    let of = |number: TrialNumber| {
        let all = reader.series(study, &[number]).unwrap();
        let points = all.iter().flat_map(|series| {
            let name = format!("{} by {}", series.metric, series.axis);
            let (metric, range) = (&series.metric, f64::NEG_INFINITY..=f64::INFINITY);
            let points = reader.series_points(study, number, metric, series.axis, range).unwrap();
            points.into_iter().map(move |point| {
                let value = point.value.to_string();
                (name.clone(), point.step as i64, value, point.at.0 / 1_000)
            })
        });
        (number.0, points.collect())
    };
    numbers.into_iter().map(of).collect()
}

/// The same of a run on a server.
fn sent(run: &StoredRun) -> BTreeSet<(String, i64, String, i64)> {
    let renamed: Json = run
        .tags
        .get("hpsearch.series")
        .map_or(Json::Null, |text| serde_json::from_str(text).unwrap());
    let axis = &run.tags["hpsearch.clock"];
    let points = run.metrics.iter().map(|(key, at, step, value)| {
        let name = match &renamed[key] {
            Json::Null => format!("{key} by {axis}"),
            known => format!("{} by {}", known[0].as_str().unwrap(), known[1].as_str().unwrap()),
        };
        let value = match value.parse::<f64>().unwrap() {
            f64::MAX => f64::INFINITY.to_string(),
            f64::MIN => f64::NEG_INFINITY.to_string(),
            _ => value.clone(),
        };
        (name, *step, value, *at)
    });
    points.collect()
}

/// The server has what the store has, and nothing else.
fn assert_same(site: &Site, server: &Server) {
    let there = server.with(|content| content.active());
    let there: BTreeMap<u64, BTreeSet<_>> =
        there.iter().map(|(trial, run)| (*trial, sent(run))).collect();
    assert_eq!(there, stored(site, "t"));
}

#[test]
fn what_is_noted_tagged_and_renamed_after_the_last_point_arrives() {
    let (site, server) = (Site::new("", ""), Server::start());
    let tags: Vec<String> = (0..130).map(|number| format!("tag{number}")).collect();
    let mut words = vec!["--name", "first"];
    words.extend(tags.iter().flat_map(|tag| ["--tag", tag.as_str()]));
    track(&site, &words, LOGS, 0);
    assert_names(&sync(&site, &server), &["points of 1 run written"]);
    let tags_of = |run: &StoredRun| run.tags.keys().filter(|key| key.starts_with("tag.")).count();
    let run = server.with(|content| content.active().remove(&0).unwrap());
    assert_eq!((tags_of(&run), run.name.as_str(), run.status.as_str()), (130, "first", "FINISHED"));
    assert!(run.end.as_i64().unwrap() >= run.start.as_i64().unwrap());
    assert_done(&site.run(&["note", "t", "0", "-m", "looks good"]));
    assert_done(&site.run(&["tag", "t", "0", "+late", "-tag7"]));
    assert_names(&sync(&site, &server), &["0 points of 1 run written"]);
    let run = server.with(|content| content.active().remove(&0).unwrap());
    assert_eq!(run.tags["mlflow.note.content"], "looks good");
    assert_eq!(run.tags["tag.late"], "late");
    assert!(!run.tags.contains_key("tag.tag7"));
    assert_same(&site, &server);
    assert_names(&sync(&site, &server), &["has all of it"]);
    assert_eq!(server.asked("runs/create"), 1);
}

#[test]
fn runs_with_hundreds_of_series_are_sent_once_and_names_stay_distinct() {
    let (site, server) = (Site::new("", ""), Server::start());
    let metrics: Vec<String> =
        (0..300).map(|index| format!("\\\"metric {index}\\\":{index}")).collect();
    let script = format!(
        "echo \"@hpsearch {{\\\"step\\\":1,{}}}\"\n\
         echo '@hpsearch {{\"step\":2,\"recall@5\":1,\"recall#5\":2}}'\n",
        metrics.join(",")
    );
    track(&site, &["--param", "a@b=1", "--param", "a#b=2"], &script, 0);
    sync(&site, &server);
    let run = server.with(|content| content.active().remove(&0).unwrap());
    let of = |name: &str| {
        run.metrics
            .iter()
            .filter(|point| point.0.starts_with(name))
            .map(|point| &point.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("recall"), ["recall_5", "recall_5-2"]);
    assert_eq!(run.params.keys().collect::<Vec<_>>(), ["a_b", "a_b-2"]);
    assert_same(&site, &server);
    let asked = server.asked("runs/log-batch");
    assert_names(&sync(&site, &server), &["has all of it"]);
    assert_eq!(server.asked("runs/log-batch"), asked);
}

#[test]
fn hpsearch_may_be_killed_at_every_request_and_each_run_is_there_once() {
    let site = Site::new("", "");
    track(&site, &["--name", "a", "--param", "lr=0.1"], LOGS, 0);
    track(&site, &["--name", "b", "--tag", "odd", "--note", "text"], LOGS, 3 - 3);
    let whole = Server::start();
    sync(&site, &whole);
    let requests = whole.with(|content| content.requests.len());
    assert!(requests > 8, "{requests}");
    for request in 0..requests {
        for done in [false, true] {
            let server = Server::start();
            server.with(|content| content.fail("", request, Fault::Hang { done }, false));
            let mut killed = site.start(&["sync", "t", "--to", &server.destination()]);
            wait_until("it waits for an answer", || server.with(|content| content.hanging == 1));
            killed.kill();
            sync(&site, &server);
            assert_same(&site, &server);
            let (there, expected) = (server.with(|it| it.active()), whole.with(|it| it.active()));
            for (trial, run) in &there {
                let expected = &expected[trial];
                assert_eq!((&run.tags, &run.params), (&expected.tags, &expected.params));
                assert_eq!((&run.name, &run.status), (&expected.name, &expected.status));
            }
            assert_names(&sync(&site, &server), &["has all of it"]);
        }
    }
}

#[test]
fn points_that_are_superseded_while_nobody_knows_whether_they_arrived_do_not_stay() {
    for (fault, request) in [("runs/log-batch", 0), ("runs/log-batch", 1), ("runs/update", 0)] {
        let (site, server) = (Site::new("", ""), Server::start());
        let logs = |from: u32, value: &str| {
            format!(
                "for step in {from} {} {}; do echo \"@hpsearch \
                 {{\\\"step\\\":$step,\\\"loss\\\":{value}}}\"; done\n",
                from + 1,
                from + 2,
            )
        };
        // It is killed, and so may be resumed.
        track(&site, &["--name", "r"], &format!("{}kill -9 $$\n", logs(1, "0.5")), 137);
        server.with(|content| content.fail(fault, request, Fault::Hang { done: true }, false));
        let mut killed = site.start(&["sync", "t", "--to", &server.destination()]);
        wait_until("it waits for an answer", || server.with(|content| content.hanging == 1));
        killed.kill();
        track(&site, &["--resume", "r"], &logs(2, "0.25"), 0);
        sync(&site, &server);
        assert_same(&site, &server);
    }
}

#[test]
fn a_point_that_is_logged_again_behind_later_ones_is_the_one_that_is_there() {
    let (site, server) = (Site::new("", ""), Server::start());
    let script = held("echo '@hpsearch {\"step\":2,\"loss\":0.125}'\n");
    let before =
        "for step in 1 2 3; do echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":0.5}\"; done\n";
    site.write("run.sh", format!("{before}{script}"));
    let run = site.start(&["track", "--study", "t", "--system", "off", "--", "sh", "run.sh"]);
    site.wait_for("started");
    wait_until("its points are stored", || {
        site.exists(STORE) && stored(&site, "t").get(&0).is_some_and(|points| points.len() == 3)
    });
    sync(&site, &server);
    assert_same(&site, &server);
    site.write("go", "");
    assert_done(&run.end());
    sync(&site, &server);
    assert_same(&site, &server);
}

#[test]
fn a_server_by_another_of_its_names_gets_each_run_once() {
    let (site, server) = (Site::new("", ""), Server::start());
    track(&site, &[], LOGS, 0);
    sync(&site, &server);
    let other = server.destination().replace("127.0.0.1", "localhost");
    assert_done(&site.run(&["sync", "t", "--to", &other]));
    assert_same(&site, &server);
    assert_done(&site.run(&["note", "t", "0", "-m", "more"]));
    sync(&site, &server);
    assert_same(&site, &server);
    assert_eq!(
        server.with(|content| content.active()[&0].tags["mlflow.note.content"].clone()),
        "more"
    );
}

#[test]
fn lost_answers_and_a_server_that_is_out_of_order_leave_nothing_twice() {
    let site = Site::new("", "");
    track(&site, &[], LOGS, 0);
    let faults = [Fault::LostAnswer, Fault::Unheard, Fault::Status(500), Fault::Status(503)];
    for path in ["runs/create", "runs/log-batch", "runs/update", "runs/search"] {
        for fault in &faults {
            let server = Server::start();
            server.with(|content| content.fail(path, 0, fault.clone(), false));
            let done = site.run(&["sync", "t", "--to", &server.destination()]);
            assert!(done.code == 0 || path == "runs/create", "{path} {fault:?}: {}", done.err);
            sync(&site, &server);
            assert_same(&site, &server);
        }
    }
}

#[test]
fn a_run_that_is_deleted_there_is_left_so_and_one_that_is_lost_is_sent_again() {
    let (site, server) = (Site::new("", ""), Server::start());
    track(&site, &[], LOGS, 0);
    track(&site, &[], LOGS, 0);
    sync(&site, &server);
    let delete =
        |is_deleted| server.with(|it| it.runs.values_mut().next().unwrap().is_deleted = is_deleted);
    delete(true);
    assert_done(&site.run(&["note", "t", "0", "-m", "more"]));
    assert_names(
        &sync(&site, &server),
        &["1 run deleted in MLflow and left deleted", "has all of it"],
    );
    assert_eq!(server.with(|content| content.active().len()), 1);
    delete(false);
    sync(&site, &server);
    assert_same(&site, &server);
    assert_eq!(server.asked("runs/create"), 2);
    // A server that lost some points, as after a restore from an older copy, and one that lost all.
    server.with(|content| {
        let run = content.runs.values_mut().next().unwrap();
        run.metrics.truncate(3);
        run.tags.insert("hpsearch.sent".to_owned(), "3".to_owned());
    });
    sync(&site, &server);
    assert_same(&site, &server);
    server.with(|content| {
        content.runs.clear();
        content.experiments.clear();
    });
    sync(&site, &server);
    assert_same(&site, &server);
}

#[test]
fn long_parameters_of_any_script_fit_into_requests_and_one_refused_run_holds_up_no_other() {
    let (site, server) = (Site::new("", ""), Server::start());
    let long = "ж".repeat(5_999);
    let params: Vec<String> =
        (0..100).map(|index| format!("\\\"p{index}\\\":\\\"{long}\\\"")).collect();
    let script: String = params
        .chunks(20)
        .map(|params| {
            format!(
                "cat <<'END'\n@hpsearch {{\"params\":{{{}}}}}\nEND\n",
                params.join(",").replace('\\', "")
            )
        })
        .collect();
    track(&site, &[], &format!("{script}{LOGS}"), 0);
    track(&site, &[], LOGS, 0);
    sync(&site, &server);
    let run = server.with(|content| content.active().remove(&0).unwrap());
    assert_eq!(run.params.len(), 100);
    assert!(run.params.values().all(|value| *value == long));
    let other = Server::start();
    other.with(|content| content.fail("runs/create", 0, Fault::Status(400), false));
    let refused = site.run(&["sync", "t", "--to", &other.destination()]);
    assert_refused(
        &refused,
        &["does not accept run-0", "a fault", "other runs are sent regardless"],
    );
    assert_eq!(other.with(|content| content.active().keys().copied().collect::<Vec<_>>()), [1]);
    sync(&site, &other);
    assert_same(&site, &other);
}

#[test]
fn a_server_that_hangs_delays_no_trial_and_is_said_once_and_again_when_it_recovered() {
    let server = Server::start();
    server.with(|content| content.fail("", 0, Fault::Hang { done: false }, true));
    let text = study("trials = 3", &format!("{ONE_SLOT}{KEEP_ALL}"));
    let to = format!("[track]\nto = [\"{}\"]\n", server.destination());
    let waits = held("echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\n");
    let script = waits.replace(
        "echo >> started",
        "[ $HPSEARCH_TRIAL -lt 2 ] && touch go || rm -f go\necho >> started",
    );
    let site = Site::new(&format!("{text}{to}"), &script);
    let run = site.start_study();
    site.wait_for_lines("started", 3);
    let said = run.complained_so_far();
    assert!(!said.contains("is behind"), "two trials are over before the server is given up");
    let behind = || site.run(&["show", "s"]).out;
    wait_until("it is said", || behind().contains("did not answer"));
    assert_names(&behind(), &["behind", &server.address, "hpsearch sync s --to mlflow:"]);
    let doctor = site.run(&["doctor"]);
    assert_names(&doctor.out, &["sync", "lacks runs of `s`"]);
    let listed: Json = site.json(&["show", "s", "--json"]);
    assert_names(
        listed["behind"][0]["why"].as_str().unwrap(),
        &["did not answer experiments/get-by-name in 8 s"],
    );
    let mut screen = OnTerminal::start(&site, &["watch", "s"]);
    screen.wait_for_text("mlflow is behind: ");
    server.with(|content| content.heal());
    wait_until("it recovered", || !behind().contains("did not answer"));
    site.write("go", "");
    let done = run.end();
    assert_done(&done);
    assert_eq!(done.err.matches("is behind, trials continue").count(), 1, "{}", done.err);
    assert_eq!(done.err.matches("is up to date again").count(), 1, "{}", done.err);
    assert_eq!(server.with(|content| content.active().len()), 3);
    server.with(|content| content.fail("", 0, Fault::Hang { done: false }, true));
    let hangs = site.run(&["sync", "s", "--to", &server.destination()]);
    assert_refused(&hangs, &["did not answer", "in 8 s", "it continues where it was"]);
}

#[test]
fn who_asks_is_said_by_the_environment_and_kept_nowhere() {
    let (site, server) = (Site::new("", ""), Server::start());
    server.with(|content| content.password = Some("Bearer hidden-token".to_owned()));
    track(&site, &[], LOGS, 0);
    let to = ["sync", "t", "--to", &server.destination()];
    assert_refused(&site.run(&to), &["status 401", "who are you?", "MLFLOW_TRACKING_TOKEN"]);
    let ask = |words: &[&str]| {
        let mut command = site.command(words);
        command.env("MLFLOW_TRACKING_TOKEN", "hidden-token");
        crate::harness::Ended::of(command.output().unwrap())
    };
    assert_done(&ask(&to));
    assert_done(&ask(&["import", &server.destination(), "--study", "back"]));
    let kept = files_below(&site.path(""));
    let has = |bytes: &[u8]| bytes.windows(12).any(|part| part == b"hidden-token");
    assert!(kept.iter().all(|(_, bytes)| !has(bytes)));
}

#[test]
fn what_was_sent_comes_back_without_a_difference_once() {
    let (site, server) = (Site::new("", ""), Server::start());
    track(
        &site,
        &[
            "--name",
            "läuft ä/b",
            "--group",
            "g",
            "--tag",
            "odd",
            "--note",
            "two\nlines",
            "--param",
            "kind=a b",
            "--param",
            "size=1.0",
            "--param",
            "text=\"12\"",
            "--param",
            "a@b=null",
        ],
        LOGS,
        0,
    );
    track(&site, &["--parent", "0"], &format!("{LOGS}exit 3\n"), 3);
    track(&site, &["--name", "open"], &format!("{LOGS}kill -9 $$\n"), 137);
    sync(&site, &server);
    server.with(|content| {
        content.page = Some(2);
        let deleted =
            StoredRun { experiment: "1".to_owned(), is_deleted: true, ..StoredRun::default() };
        content.runs.insert("f".repeat(32), deleted);
    });
    let import = |words: &[&str]| {
        let done =
            site.run(&[&["import", &server.destination(), "--study", "back"], words].concat());
        assert_done(&done);
        done
    };
    assert_names(&import(&["--dry-run"]).err, &["3 runs would be new"]);
    assert_eq!(site.run(&["show", "back"]).code, 2);
    assert_names(&import(&["--experiment", "t"]).err, &["3 runs are new"]);
    assert_names(&import(&[]).err, &["0 runs are new, 3 were there"]);
    assert_eq!(stored(&site, "back"), stored(&site, "t"));
    let trials = |study: &str| -> Vec<Json> {
        let listed = site.json(&["trials", study, "--sort", "number", "--json"]);
        listed["trials"].as_array().unwrap().clone()
    };
    for (here, there) in trials("back").iter().zip(trials("t")) {
        for field in ["params", "state", "value", "name", "group", "tags", "parent"] {
            assert_eq!(here[field], there[field], "{field}");
        }
        let number = here["number"].to_string();
        let show = |study: &str| site.json(&["show", study, &number, "--json"]);
        let (here, there) = (show("back"), show("t"));
        for field in ["notes", "tags"] {
            let texts = |json: &Json| -> Vec<Json> {
                let all = json[field].as_array().cloned().unwrap_or_default();
                all.iter()
                    .map(|it| if it.is_object() { it["text"].clone() } else { it.clone() })
                    .collect()
            };
            assert_eq!(texts(&here), texts(&there), "{field}");
        }
    }
    assert_done(&site.run(&["verify", "back"]));
    // A run that grew gets a new attempt with all of it.
    track(&site, &["--resume", "open"], "echo '@hpsearch {\"step\":11,\"loss\":0.125}'\n", 0);
    sync(&site, &server);
    // It was sent anew, as another run there: here it is the same.
    let said: Json = import(&["--json"]).json();
    assert_eq!(
        (&said["studies"][0]["continued"], &said["studies"][0]["known"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(stored(&site, "back"), stored(&site, "t"));
    server.with(|content| {
        let run = content.runs.values_mut().find(|run| !run.is_deleted).unwrap();
        run.metrics.push(("loss".to_owned(), 1_700_000_000_000, 99, "0.5".to_owned()));
    });
    let more: Json = import(&["--json"]).json();
    assert_eq!(
        (&more["studies"][0]["continued"], &more["studies"][0]["known"]),
        (&json!(1), &json!(2))
    );
    let other = site.run(&["import", &server.destination(), "--experiment", "no such"]);
    assert_refused(&other, &["has no experiment `no such`; it has `t`"]);
    let nobody =
        site.run(&["import", "mlflow:http://127.0.0.1:9", "--study", "x", "--store", "new.db"]);
    assert_refused(&nobody, &["cannot be reached"]);
    assert!(!site.exists("new.db"), "no store is made for nothing");
}

#[test]
fn experiments_and_tags_whose_names_are_none_here_get_others() {
    let (site, server) = (Site::new("", ""), Server::start());
    server.with(|content| {
        for (number, name) in ["my exp (1)", "my-exp-1"].into_iter().enumerate() {
            let id = (number + 1).to_string();
            content.experiments.insert(id.clone(), name.to_owned());
            let tags = [("needs review", "true"), ("team", "a b"), ("story", &*"long ".repeat(30))];
            let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned()));
            let run = StoredRun {
                experiment: id.clone(),
                status: "FINISHED".to_owned(),
                tags: tags.into_iter().collect(),
                ..StoredRun::default()
            };
            content.runs.insert(id, run);
        }
    });
    for said in ["1 run is new", "0 runs are new, 1 was there"] {
        let done = site.run(&["import", &server.destination()]);
        assert_done(&done);
        assert_names(
            &done.err,
            &[
                "http://",
                ": `my exp (1)` is the study `my-exp-1` here; `--study NAME`",
                "`my-exp-1` is the study `my-exp-1-2` here",
                &format!("`my-exp-1`: {said}"),
                &format!("`my-exp-1-2`: {said}"),
            ],
        );
        let is_new = said.contains("is new");
        assert_eq!(done.err.contains("`needs review` as `needs-review`"), is_new, "{}", done.err);
        assert_eq!(done.err.contains("left out: `story/long"), is_new, "{}", done.err);
    }
    let trials: Json = site.json(&["trials", "my-exp-1", "--json"]);
    assert_eq!(trials["trials"][0]["tags"], json!(["needs-review", "team/a-b"]));
}
