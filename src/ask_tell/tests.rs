//! The protocol, line by line.

use super::*;

const LINE: &str =
    r#"{"cmd":"init","space":[{"name":"x","type":"float","low":-5,"high":5}],"seed":1"#;

fn say(session: &mut Session, line: &str) -> Json {
    serde_json::from_str(&session.answer(line)).unwrap()
}

/// A session over one parameter, with these keys added to its `init`.
fn begun(more: &str) -> Session {
    let mut session = Session::new();
    assert_eq!(say(&mut session, &format!("{LINE}{more}}}")), json!({ "ok": true }));
    session
}

fn refusal(session: &mut Session, line: &str) -> String {
    let answer = say(session, line);
    let error = answer.get("error").and_then(Json::as_str);
    error.unwrap_or_else(|| panic!("{line} was answered with {answer}")).to_owned()
}

fn ask(session: &mut Session) -> Json {
    say(session, r#"{"cmd":"ask"}"#)
}

fn best(session: &mut Session) -> Json {
    say(session, r#"{"cmd":"best"}"#)
}

/// Tells the value of a trial, as JSON writes it.
fn tell(session: &mut Session, id: u64, value: impl std::fmt::Display) {
    let line = format!(r#"{{"cmd":"tell","id":{id},"value":{value}}}"#);
    assert_eq!(say(session, &line), json!({ "ok": true }), "{line}");
}

fn report(session: &mut Session, id: u64, step: u64, value: u64) -> Json {
    say(session, &format!(r#"{{"cmd":"report","id":{id},"step":{step},"value":{value}}}"#))
}

/// Lines, each followed by the reason for its rejection.
fn refusals<'a>(session: &mut Session, lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(|line| format!("{line}\n  {}\n", refusal(session, line))).collect()
}

#[test]
fn trials_are_asked_for_and_told_and_the_best_is_kept() {
    let mut session = begun(r#","n_trials":2"#);
    let first = ask(&mut session);
    assert_eq!(first["id"], 0);
    assert!((-5.0..=5.0).contains(&first["params"]["x"].as_f64().unwrap()));
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"best"}"#),
        "no trial is complete yet: tell a value that is a number first"
    );
    tell(&mut session, 0, 3);
    let second = ask(&mut session);
    tell(&mut session, 1, 2.5);
    assert_eq!(best(&mut session), json!({ "id": 1, "params": second["params"], "value": 2.5 }));
    assert_eq!(
        ask(&mut session),
        json!({ "done": true, "reason": "the budget of 2 trials is used up" })
    );
    assert_eq!(say(&mut session, r#"{"cmd":"quit"}"#), json!({ "ok": true }));
    assert!(session.has_quit());
}

#[test]
fn several_trials_may_be_out_and_an_ask_says_when_to_come_back() {
    let mut session = begun(r#","n_trials":3,"workers":3"#);
    let points: Vec<Json> = (0..3).map(|_| ask(&mut session)["params"].clone()).collect();
    assert!(points[0] != points[1] && points[1] != points[2]);
    assert_eq!(
        ask(&mut session),
        json!({ "done": true, "reason": "3 trials are open: tell how they ended, then ask again" })
    );
    for id in [2, 0, 1] {
        tell(&mut session, id, id);
    }
    assert_eq!(best(&mut session)["id"], 0);
}

#[test]
fn a_maximised_study_keeps_the_largest_and_nan_is_never_best() {
    for direction in [r#","direction":"maximize""#, r#","directions":["maximize"]"#] {
        let mut session = begun(direction);
        for (id, value) in (0..).zip(["1", "NaN", "\"Infinity\"", "-Infinity", "\"NaN\""]) {
            ask(&mut session);
            tell(&mut session, id, value);
        }
        let best = best(&mut session);
        assert_eq!((&best["id"], &best["value"]), (&json!(2), &json!("Infinity")));
    }
}

#[test]
fn asha_stops_the_worse_and_its_reason_has_numbers() {
    let mut session = begun(
        r#","pruner":{"type":"asha","min_resource":1,"max_resource":9,"reduction_factor":3}"#,
    );
    let stop = json!({ "verdict": "stop", "reason": "rank 3 of 3 at step 1; 1 continues" });
    for id in 0..3 {
        ask(&mut session);
        let answer = report(&mut session, id, 1, id);
        assert!(if id == 2 { answer == stop } else { answer["verdict"] == "continue" }, "{answer}");
    }
    let pruned = say(&mut session, r#"{"cmd":"tell","id":2,"state":"pruned"}"#);
    assert_eq!(pruned, json!({ "ok": true }));
    let late = report(&mut session, 2, 2, 1);
    assert_eq!(late, json!({ "error": "trial 2 is pruned: it can no longer report" }));
}

#[test]
fn a_paused_trial_is_resumed_by_ask_and_goes_on_reporting() {
    let mut session = begun(r#","pruner":{"type":"asha","max_resource":9,"mode":"promote"}"#);
    for id in 0..3 {
        assert_eq!(ask(&mut session)["until"], 1);
        assert_eq!(report(&mut session, id, 1, 10 - id)["verdict"], "pause");
    }
    let why = "trial 2 is paused: it continues when `ask` answers {\"resume\":2}";
    assert_eq!(report(&mut session, 2, 2, 1), json!({ "error": why }));
    assert_eq!(ask(&mut session), json!({ "resume": 2, "until": 3 }));
    assert_eq!(report(&mut session, 2, 2, 1), json!({ "verdict": "continue" }));
    assert_eq!(report(&mut session, 2, 3, 1)["verdict"], "pause");
    // A program that continued anyway may tell the result.
    tell(&mut session, 2, 0.5);
    assert_eq!(best(&mut session)["id"], 2);
}

#[test]
fn a_ladder_that_is_too_long_concludes_with_its_best_trial() {
    let mut session =
        begun(r#","n_trials":2,"pruner":{"type":"asha","max_resource":9,"mode":"promote"}"#);
    for id in 0..2 {
        ask(&mut session);
        report(&mut session, id, 1, id);
    }
    assert_eq!(ask(&mut session), json!({ "resume": 0, "until": null }));
    tell(&mut session, 0, 0);
    assert_eq!(ask(&mut session)["done"], true);
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"tell","id":1,"value":0}"#),
        "trial 1 is pruned already: `ask` gives another one"
    );
}

#[test]
fn a_trial_that_its_program_has_left_is_given_again_and_begins_anew() {
    let mut session = begun(r#","n_trials":1"#);
    assert_eq!(ask(&mut session)["id"], 0);
    report(&mut session, 0, 1, 5);
    report(&mut session, 0, 2, 5);
    let requeue = r#"{"cmd":"requeue","id":0}"#;
    assert_eq!(say(&mut session, requeue), json!({ "ok": true }));
    let refused = refusal(&mut session, r#"{"cmd":"report","id":0,"step":3,"value":5}"#);
    assert!(refused.starts_with("trial 0 is queued: it continues when"), "{refused}");
    assert_eq!(ask(&mut session), json!({ "resume": 0, "until": null }));
    assert_eq!(report(&mut session, 0, 1, 2)["verdict"], "continue");
    tell(&mut session, 0, 2);
    let trials = say(&mut session, r#"{"cmd":"trials"}"#);
    assert_eq!(trials["trials"][0]["reports"], json!([[1, 2.0]]));
    assert_eq!(say(&mut session, requeue), json!({ "ok": true }), "it has ended");
    assert_eq!(say(&mut session, r#"{"cmd":"trials"}"#), trials);
    let unknown = refusal(&mut session, r#"{"cmd":"requeue","id":1}"#);
    assert!(unknown.contains("there is no trial 1"), "{unknown}");
}

#[test]
fn failed_trials_count_towards_the_number_of_trials() {
    let mut session = begun(r#","n_trials":12"#);
    for id in 0..12 {
        assert_eq!(ask(&mut session)["id"], id);
        let failed = format!(r#"{{"cmd":"tell","id":{id},"state":"failed","reason":"no"}}"#);
        assert_eq!(say(&mut session, &failed), json!({ "ok": true }));
    }
    let reason = "the budget of 12 trials is used up, and no trial completed";
    assert_eq!(ask(&mut session), json!({ "done": true, "reason": reason }));
}

#[test]
fn conditional_parameters_are_there_exactly_when_their_condition_holds() {
    let space = r#"[{"name":"momentum","type":"float","low":0,"high":0.99,"when":{"param":"optim","in":["sgd"]}},
        {"name":"optim","type":"cat","choices":["sgd","adam"],"when":null},{"name":"layers","type":"int","low":1,"high":8,"log":true,"step":1},
        {"name":"bias","type":"cat","choices":[true,false]},{"name":"drop","type":"float","low":0,"high":0.5,"step":0.1,"log":false}]"#;
    let mut session = Session::new();
    let init =
        format!(r#"{{"cmd":"init","space":{space},"enqueue":[{{"optim":"sgd","layers":2}}]}}"#)
            .replace('\n', " ");
    assert_eq!(say(&mut session, &init), json!({ "ok": true }));
    let first = ask(&mut session);
    assert_eq!((&first["params"]["optim"], &first["params"]["layers"]), (&json!("sgd"), &json!(2)));
    for _ in 0..30 {
        let params = ask(&mut session)["params"].clone();
        assert_eq!(params.get("momentum").is_some(), params["optim"] == "sgd", "{params}");
        assert!(params["bias"].is_boolean() && params["layers"].is_i64(), "{params}");
    }
}

#[test]
fn a_grid_ends_when_every_point_was_given() {
    let mut session = Session::new();
    let init = concat!(
        r#"{"cmd":"init","space":[{"name":"n","type":"int","low":1,"high":3}],"#,
        r#""sampler":{"type":"grid"}}"#
    );
    say(&mut session, init);
    for id in 0..3 {
        assert_eq!(ask(&mut session)["id"], id);
        tell(&mut session, id, 1);
    }
    let reason = "every configuration of the space was tried (3 trials)";
    assert_eq!(ask(&mut session), json!({ "done": true, "reason": reason }));
}

#[test]
fn the_same_lines_get_the_same_answers() {
    let talk = || {
        let mut session = begun(r#","sampler":{"type":"tpe","n_startup_trials":5}"#);
        let turn = |id: u64| {
            let asked = ask(&mut session);
            tell(&mut session, id, (id * 7) % 5);
            asked
        };
        (0..20).map(turn).collect::<Vec<Json>>()
    };
    assert_eq!(talk(), talk());
}

#[test]
fn a_value_told_twice_and_an_id_that_was_never_given_are_refused_and_the_session_goes_on() {
    let mut session = begun("");
    ask(&mut session);
    let never_given = [
        r#"{"cmd":"tell","id":1,"value":1}"#,
        r#"{"cmd":"report","id":18446744073709551615,"step":1,"value":1}"#,
    ];
    let never_given = refusals(&mut session, never_given.into_iter());
    tell(&mut session, 0, 1);
    let ended =
        [r#"{"cmd":"tell","id":0,"value":2}"#, r#"{"cmd":"report","id":0,"step":1,"value":2}"#];
    insta::assert_snapshot!(never_given + &refusals(&mut session, ended.into_iter()));
    assert_eq!(best(&mut session)["value"], 1.0);
    assert_eq!(ask(&mut session)["id"], 1);
}

#[test]
fn what_is_wrong_with_a_line_is_said_with_what_to_send_instead() {
    let lines = r#"
[1]
{}
{"cmd":"reprot"}
{"cmd":7}
{"cmd":"ask"}
{"cmd":"ask","id":1}
{"cmd":"init"}
{"cmd":"tell","id":0}
{"cmd":"tell","id":0,"value":null}
{"cmd":"tell","id":0,"values":[1,2]}
{"cmd":"tell","id":0,"value":"high"}
{"cmd":"report","id":0,"step":1.5,"value":1}
{"cmd":"report","id":0,"setp":1,"value":1}
{"cmd":"report","id":0,"value":1}
{"cmd":"report","id":0,"step":1,"valeu":1,"value":1}"#;
    insta::assert_snapshot!(refusals(&mut Session::new(), lines.lines()));
}

#[test]
fn what_is_wrong_with_a_study_is_said_as_for_a_study_file() {
    let keys = r#""sampler":{"type":"randon"}
"sampler":{"type":"tpe","gama":0.2}
"pruner":{"type":"asha","reduction_factor":1}
"pruner":{"type":"asha","min_resource":9,"max_resource":9}
"pruner":"asha"
"directions":["minimize","up"]
"directions":["minimize","maximize"],"metric_names":["a"]
"directions":["minimize","maximize"],"metric_names":["a","a"]
"direction":"up"
"constraints":["x < 1"]
"constraints":[{"require":"y < 1"}]
"constraints":[{"limit":"value < 1"}]
"constraints":[{"require":"x <"}]
"constraints":[{"require":"x < 1","limit":"y < 1"}]
"constraints":[{"require":"x < 0"}],"enqueue":[{"x":1}]
"enqueue":[{"y":1}]
"enqueue":[{"x":9}]
"n_trial":5
"workers":0
"seed":-1"#;
    let parameters = r#"{"type":"float","low":0,"high":1}
{"name":"a","type":"flaot","low":0,"high":1}
{"name":"a","type":"float","low":1,"high":0}
{"name":"a","type":"float","low":0,"high":Infinity}
{"name":"a","type":"float","low":0,"high":1,"log":true}
{"name":"a","type":"int","low":0.5,"high":1}
{"name":"a","type":"int","low":0}
{"name":"a","type":"cat","choices":[]}
{"name":"a","type":"cat","choices":[1,1.0]}
{"name":"a","type":"cat","choices":[1,NaN]}
{"name":"a","type":"cat","choices":[[null]]}
{"name":"a","type":"int","low":0,"high":1,"when":{"param":"b","in":[1]}}
{"name":"a","type":"int","low":0,"high":1,"when":{"param":"a","in":[1]}}
{"name":"a","type":"int","low":0,"high":1,"hihg":2}"#;
    let with_keys = keys.lines().map(|keys| format!("{LINE},{keys}}}"));
    let of_one = parameters.lines().map(|own| format!(r#"{{"cmd":"init","space":[{own}]}}"#));
    let lines: Vec<String> = with_keys.chain(of_one).collect();
    let mut session = Session::new();
    insta::assert_snapshot!(refusals(&mut session, lines.iter().map(String::as_str)));
    // Afterwards a valid one is accepted; a second one is not.
    assert_eq!(say(&mut session, &format!("{LINE}}}")), json!({ "ok": true }));
    assert_eq!(
        refusal(&mut session, &format!("{LINE}}}")),
        "`init` was sent already: another study needs another `hpsearch ask-tell`"
    );
}

#[test]
fn choices_may_be_null_and_lists() {
    let mut session = Session::new();
    let init = concat!(
        r#"{"cmd":"init","space":[{"name":"a","type":"cat","choices":[null,[1,2]]},"#,
        r#"{"name":"b","type":"int","low":1,"high":2,"when":{"param":"a","in":[null]}}],"#,
        r#""sampler":{"type":"grid"}}"#
    );
    assert_eq!(say(&mut session, init), json!({ "ok": true }));
    let mut seen: Vec<String> = (0..3).map(|_| ask(&mut session)["params"].to_string()).collect();
    seen.sort();
    assert_eq!(seen, [r#"{"a":[1,2]}"#, r#"{"a":null,"b":1}"#, r#"{"a":null,"b":2}"#]);
}

#[test]
fn a_string_that_only_looks_like_a_bare_word_stays_what_it_is() {
    let mut session = Session::new();
    let init = concat!(
        r#"{"cmd":"init","space":[{"name":"NaN","type":"cat","#,
        r#""choices":["NaN, \"Infinity\"","-Infinity"]}]}"#
    );
    assert_eq!(say(&mut session, init), json!({ "ok": true }));
    let chosen = &ask(&mut session)["params"]["NaN"];
    assert!(chosen == "NaN, \"Infinity\"" || chosen == "-Infinity", "{chosen}");
}

#[test]
fn lines_are_answered_one_by_one_to_the_last_byte() {
    let too_long = "x".repeat(usize::try_from(LONGEST_LINE).unwrap() + 1);
    let input = [
        b"\xff\r\n".as_slice(),
        b"\n",
        too_long.as_bytes(),
        b"\n{\"cmd\":\"best\"}\r\n\0\n{\"cmd\":\"as",
    ]
    .concat();
    let mut output = Vec::new();
    serve(input.as_slice(), &mut output).unwrap();
    let answers = String::from_utf8(output).unwrap();
    let starts = [
        "the line is not UTF-8",
        "the line is empty",
        "the line is longer than 8388608 bytes",
        "there is no study yet",
        "the line is not JSON",
        "the line is not JSON",
    ];
    assert_eq!(answers.lines().count(), starts.len(), "{answers}");
    for (start, answer) in starts.iter().zip(answers.lines()) {
        assert!(answer.starts_with(&format!("{{\"error\":\"{start}")), "{answer}");
    }
}

#[test]
fn nothing_is_read_after_quit() {
    let mut output = Vec::new();
    serve(b"{\"cmd\":\"quit\"}\n{\"cmd\":\"ask\"}\n".as_slice(), &mut output).unwrap();
    assert_eq!(output, b"{\"ok\":true}\n");
}

#[test]
fn what_is_required_is_never_asked_for_otherwise_and_the_best_keeps_the_limits() {
    let mut session = begun(r#","constraints":[{"require":"x > 2"},{"limit":"latency <= 20"}]"#);
    for id in 0..30 {
        let x = ask(&mut session)["params"]["x"].as_f64().unwrap();
        assert!(x > 2.0, "{x}");
        let latency = if id == 7 { 19.0 } else { 21.0 };
        let told =
            format!(r#"{{"cmd":"tell","id":{id},"value":{x},"metrics":{{"latency":{latency}}}}}"#);
        assert_eq!(say(&mut session, &told), json!({ "ok": true }));
        if id == 6 {
            assert_eq!(
                refusal(&mut session, r#"{"cmd":"best"}"#),
                "none of 7 complete trials satisfies all limits"
            );
        }
    }
    assert_eq!(best(&mut session)["id"], 7);
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"tell","id":0,"value":1,"metrics":{"value":3}}"#),
        "`metrics` contains `value`: send it beside them"
    );
}

#[test]
fn constraints_that_reject_everything_are_named() {
    let mut session = begun(r#","constraints":[{"require":"x ** 2 > 30"},{"require":"x > 1"}]"#);
    let said = refusal(&mut session, r#"{"cmd":"ask"}"#);
    let start = "none of 10000 random points satisfies the constraints: `x ** 2 > 30` rejects \
        every one, `x > 1` rejects ";
    assert!(said.starts_with(start), "{said}");
}

#[test]
fn several_objectives_are_told_as_lists_and_the_best_are_a_front() {
    let mut session = Session::new();
    let mut say = |line: &str| -> Json { super::tests::say(&mut session, line) };
    let init = concat!(
        r#"{"cmd":"init","space":[{"name":"x","type":"float","low":0,"high":1}],"#,
        r#""directions":["minimize","maximize"],"metric_names":["error","speed"],"n_trials":4,"#,
        r#""sampler":{"type":"random"}}"#
    );
    assert_eq!(say(init), json!({"ok": true}));
    for (id, [error, speed]) in (0..).zip([[0.5, 1.0], [0.25, 0.5], [0.75, 0.5], [0.75, 2.0]]) {
        assert_eq!(say(r#"{"cmd":"ask"}"#)["id"], id);
        let report = json!({"cmd": "report", "id": id, "step": 1, "values": [9.0, speed]});
        assert_eq!(say(&report.to_string())["verdict"], "continue");
        let refused = say(&json!({"cmd": "tell", "id": id, "value": 1.0}).to_string());
        let why = refused["error"].as_str().unwrap();
        assert_eq!(why, "1 value for a study of 2 objectives: send `values`, a list of 2 numbers");
        let tell = json!({"cmd": "tell", "id": id, "values": [error, speed]});
        assert_eq!(say(&tell.to_string()), json!({"ok": true}));
    }
    let best = say(r#"{"cmd":"best"}"#);
    let ids: Vec<&Json> = best["front"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [0, 1, 3]);
    assert_eq!(best["front"][1]["values"], json!([0.25, 0.5]));
    let trials = say(r#"{"cmd":"trials"}"#);
    assert_eq!(trials["trials"][0]["reports"], json!([[1, [9.0, 1.0]]]));
    assert_eq!(trials["trials"][0]["value"], Json::Null);
}

#[test]
fn what_init_declares_or_was_enqueued_stays_with_a_trial_that_asks_for_other_parameters() {
    let mut session = Session::new();
    let init = r#"{"cmd":"init","define":true,"sampler":{"type":"random"},"seed":3,
        "space":[{"name":"lr","type":"float","low":0,"high":1}]}"#;
    assert_eq!(say(&mut session, &init.replace('\n', "")), json!({ "ok": true }));
    let suggest = r#"{"cmd":"suggest","id":0,"param":{"name":"n","type":"int","low":1,"high":9}}"#;
    let mut given = Vec::new();
    for id in 0..4 {
        match id {
            2 => drop(say(&mut session, r#"{"cmd":"enqueue","params":{"lr":0.25,"b":2}}"#)),
            3 => drop(say(&mut session, r#"{"cmd":"enqueue","params":{"lr":0.5,"c":3}}"#)),
            _ => {}
        }
        given.push(ask(&mut session)["params"]["lr"].clone());
        if id == 0 || id == 3 {
            say(&mut session, &suggest.replace("\"id\":0", &format!("\"id\":{id}")));
        }
        say(&mut session, &format!(r#"{{"cmd":"tell","id":{id},"value":1}}"#));
    }
    let trials = say(&mut session, r#"{"cmd":"trials"}"#)["trials"].clone();
    let params = |id: usize| trials[id]["params"].as_object().unwrap().clone();
    for (id, lr) in given.iter().enumerate() {
        assert!(lr.is_number() && params(id)["lr"] == *lr, "{trials}");
    }
    let names = |id: usize| params(id).keys().cloned().collect::<Vec<_>>();
    assert_eq!((names(0), names(1)), (vec!["lr".to_owned(), "n".to_owned()], vec!["lr".into()]));
    assert!(params(2)["b"] == json!(2), "the program read it from the answer");
    assert_eq!(names(3), ["lr", "n"], "it asks for what it uses");
}

#[test]
fn what_a_trial_did_not_ask_for_is_not_among_its_parameters() {
    let mut session = Session::new();
    let init = r#"{"cmd":"init","space":[],"define":true,"sampler":{"type":"random"},"seed":3,
        "pruner":{"type":"threshold","upper":5}}"#;
    assert_eq!(say(&mut session, &init.replace('\n', "")), json!({ "ok": true }));
    let suggest = |session: &mut Session, id: u64, name: &str| {
        let param = format!(r#"{{"name":"{name}","type":"float","low":0,"high":1}}"#);
        say(session, &format!(r#"{{"cmd":"suggest","id":{id},"param":{param}}}"#))
    };
    for (id, names) in [(0, &["x", "y"][..]), (1, &["x"]), (2, &[])] {
        assert_eq!(ask(&mut session)["id"], id);
        names.iter().for_each(|name| drop(suggest(&mut session, id, name)));
        say(&mut session, &format!(r#"{{"cmd":"tell","id":{id},"value":1}}"#));
    }
    // The next `ask` prunes it, as one of another thread does.
    assert_eq!(ask(&mut session)["id"], 3);
    suggest(&mut session, 3, "x");
    assert_eq!(report(&mut session, 3, 1, 9)["verdict"], "stop");
    suggest(&mut session, 3, "z");
    ask(&mut session);
    let trials = say(&mut session, r#"{"cmd":"trials"}"#);
    assert_eq!(trials["trials"][3]["state"], "pruned");
    let names = |id: usize| -> Vec<String> {
        trials["trials"][id]["params"].as_object().unwrap().keys().cloned().collect()
    };
    let expected = [vec!["x", "y"], vec!["x"], Vec::new(), vec!["x", "z"]];
    assert_eq!([names(0), names(1), names(2), names(3)], expected);
}
