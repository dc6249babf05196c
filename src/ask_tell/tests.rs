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
    answer
        .get("error")
        .and_then(Json::as_str)
        .unwrap_or_else(|| panic!("{line} was answered with {answer}"))
        .to_owned()
}

#[test]
fn trials_are_asked_for_and_told_and_the_best_is_kept() {
    let mut session = begun(r#","n_trials":2"#);
    let first = say(&mut session, r#"{"cmd":"ask"}"#);
    assert_eq!(first["id"], 0);
    assert!((-5.0..=5.0).contains(&first["params"]["x"].as_f64().unwrap()));
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"best"}"#),
        "no trial is complete yet: tell a value that is a number first"
    );
    assert_eq!(say(&mut session, r#"{"cmd":"tell","id":0,"value":3}"#), json!({ "ok": true }));
    let second = say(&mut session, r#"{"cmd":"ask"}"#);
    assert_eq!(say(&mut session, r#"{"cmd":"tell","id":1,"value":2.5}"#), json!({ "ok": true }));
    assert_eq!(
        say(&mut session, r#"{"cmd":"best"}"#),
        json!({ "id": 1, "params": second["params"], "value": 2.5 })
    );
    assert_eq!(
        say(&mut session, r#"{"cmd":"ask"}"#),
        json!({ "done": true, "reason": "the budget of 2 trials is used up" })
    );
    assert_eq!(say(&mut session, r#"{"cmd":"quit"}"#), json!({ "ok": true }));
    assert!(session.has_quit());
}

#[test]
fn several_trials_may_be_out_and_an_ask_says_when_to_come_back() {
    let mut session = begun(r#","n_trials":3,"workers":3"#);
    let points: Vec<Json> =
        (0..3).map(|_| say(&mut session, r#"{"cmd":"ask"}"#)["params"].clone()).collect();
    assert!(points[0] != points[1] && points[1] != points[2]);
    assert_eq!(
        say(&mut session, r#"{"cmd":"ask"}"#),
        json!({ "done": true, "reason": "3 trials are out: tell how they ended, then ask again" })
    );
    for id in [2, 0, 1] {
        assert_eq!(
            say(&mut session, &format!(r#"{{"cmd":"tell","id":{id},"value":{id}}}"#)),
            json!({ "ok": true })
        );
    }
    assert_eq!(say(&mut session, r#"{"cmd":"best"}"#)["id"], 0);
}

#[test]
fn a_maximised_study_keeps_the_largest_and_nan_is_never_best() {
    for direction in [r#","direction":"maximize""#, r#","directions":["maximize"]"#] {
        let mut session = begun(direction);
        for (id, value) in
            [(0, "1"), (1, "NaN"), (2, "\"Infinity\""), (3, "-Infinity"), (4, "\"NaN\"")]
        {
            say(&mut session, r#"{"cmd":"ask"}"#);
            assert_eq!(
                say(&mut session, &format!(r#"{{"cmd":"tell","id":{id},"value":{value}}}"#)),
                json!({ "ok": true })
            );
        }
        let best = say(&mut session, r#"{"cmd":"best"}"#);
        assert_eq!((&best["id"], &best["value"]), (&json!(2), &json!("Infinity")));
    }
}

#[test]
fn asha_stops_the_worse_and_its_reason_has_numbers() {
    let mut session = begun(
        r#","pruner":{"type":"asha","min_resource":1,"max_resource":9,"reduction_factor":3}"#,
    );
    for id in 0..3 {
        say(&mut session, r#"{"cmd":"ask"}"#);
        let verdict =
            say(&mut session, &format!(r#"{{"cmd":"report","id":{id},"step":1,"value":{id}}}"#));
        match id {
            2 => assert_eq!(
                verdict,
                json!({ "verdict": "stop", "reason": "rank 3 of 3 at step 1; 1 continues" })
            ),
            _ => assert_eq!(verdict["verdict"], "continue"),
        }
    }
    assert_eq!(
        say(&mut session, r#"{"cmd":"tell","id":2,"state":"pruned"}"#),
        json!({ "ok": true })
    );
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"report","id":2,"step":2,"value":1}"#),
        "trial 2 is pruned: it reports no more"
    );
}

#[test]
fn a_paused_trial_is_resumed_by_ask_and_goes_on_reporting() {
    let mut session = begun(r#","pruner":{"type":"asha","max_resource":9,"mode":"promote"}"#);
    for id in 0..3 {
        assert_eq!(say(&mut session, r#"{"cmd":"ask"}"#)["until"], 1);
        let verdict = say(
            &mut session,
            &format!(r#"{{"cmd":"report","id":{id},"step":1,"value":{}}}"#, 10 - id),
        );
        assert_eq!(verdict["verdict"], "pause");
    }
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"report","id":2,"step":2,"value":1}"#),
        "trial 2 is paused: it continues when `ask` answers {\"resume\":2}"
    );
    assert_eq!(say(&mut session, r#"{"cmd":"ask"}"#), json!({ "resume": 2, "until": 3 }));
    assert_eq!(
        say(&mut session, r#"{"cmd":"report","id":2,"step":2,"value":1}"#),
        json!({ "verdict": "continue" })
    );
    assert_eq!(
        say(&mut session, r#"{"cmd":"report","id":2,"step":3,"value":1}"#)["verdict"],
        "pause"
    );
    // A program that ran on all the same may say how it ended.
    assert_eq!(say(&mut session, r#"{"cmd":"tell","id":2,"value":0.5}"#), json!({ "ok": true }));
    assert_eq!(say(&mut session, r#"{"cmd":"best"}"#)["id"], 2);
}

#[test]
fn a_ladder_that_is_too_long_concludes_with_its_best_trial() {
    let mut session =
        begun(r#","n_trials":2,"pruner":{"type":"asha","max_resource":9,"mode":"promote"}"#);
    for id in 0..2 {
        say(&mut session, r#"{"cmd":"ask"}"#);
        say(&mut session, &format!(r#"{{"cmd":"report","id":{id},"step":1,"value":{id}}}"#));
    }
    assert_eq!(say(&mut session, r#"{"cmd":"ask"}"#), json!({ "resume": 0, "until": null }));
    say(&mut session, r#"{"cmd":"tell","id":0,"value":0}"#);
    assert_eq!(say(&mut session, r#"{"cmd":"ask"}"#)["done"], true);
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"tell","id":1,"value":0}"#),
        "trial 1 is pruned already: `ask` gives another one"
    );
}

#[test]
fn failed_trials_count_towards_the_number_of_trials() {
    let mut session = begun(r#","n_trials":12"#);
    for id in 0..12 {
        assert_eq!(say(&mut session, r#"{"cmd":"ask"}"#)["id"], id);
        assert_eq!(
            say(
                &mut session,
                &format!(r#"{{"cmd":"tell","id":{id},"state":"failed","reason":"no"}}"#)
            ),
            json!({ "ok": true })
        );
    }
    let answer = say(&mut session, r#"{"cmd":"ask"}"#);
    assert_eq!(
        answer,
        json!({ "done": true, "reason": "the budget of 12 trials is used up, and no trial \
            completed" })
    );
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
    let first = say(&mut session, r#"{"cmd":"ask"}"#);
    assert_eq!((&first["params"]["optim"], &first["params"]["layers"]), (&json!("sgd"), &json!(2)));
    for _ in 0..30 {
        let params = say(&mut session, r#"{"cmd":"ask"}"#)["params"].clone();
        assert_eq!(params.get("momentum").is_some(), params["optim"] == "sgd", "{params}");
        assert!(params["bias"].is_boolean() && params["layers"].is_i64(), "{params}");
    }
}

#[test]
fn a_grid_ends_when_every_point_was_given() {
    let mut session = Session::new();
    let init = r#"{"cmd":"init","space":[{"name":"n","type":"int","low":1,"high":3}],"sampler":{"type":"grid"}}"#;
    say(&mut session, init);
    for id in 0..3 {
        assert_eq!(say(&mut session, r#"{"cmd":"ask"}"#)["id"], id);
        say(&mut session, &format!(r#"{{"cmd":"tell","id":{id},"value":1}}"#));
    }
    let answer = say(&mut session, r#"{"cmd":"ask"}"#);
    assert_eq!(
        answer,
        json!({ "done": true, "reason": "every point of the space was tried (3 trials)" })
    );
}

#[test]
fn the_same_lines_get_the_same_answers() {
    let talk = || {
        let mut session = begun(r#","sampler":{"type":"tpe","n_startup_trials":5}"#);
        let mut answers = Vec::new();
        for id in 0..20 {
            answers.push(session.answer(r#"{"cmd":"ask"}"#));
            answers.push(
                session.answer(&format!(r#"{{"cmd":"tell","id":{id},"value":{}}}"#, (id * 7) % 5)),
            );
        }
        answers
    };
    assert_eq!(talk(), talk());
}

#[test]
fn a_value_told_twice_and_an_id_that_was_never_given_are_refused_and_the_session_goes_on() {
    let mut session = begun("");
    say(&mut session, r#"{"cmd":"ask"}"#);
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"tell","id":1,"value":1}"#),
        "there is no trial 1: ids are those that `ask` gave"
    );
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"report","id":18446744073709551615,"step":1,"value":1}"#)
            .split(',')
            .next(),
        Some("`id` must be an integer of at least 0")
    );
    say(&mut session, r#"{"cmd":"tell","id":0,"value":1}"#);
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"tell","id":0,"value":2}"#),
        "trial 0 is complete already: `ask` gives another one"
    );
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"report","id":0,"step":1,"value":2}"#),
        "trial 0 is complete: it reports no more"
    );
    assert_eq!(say(&mut session, r#"{"cmd":"best"}"#)["value"], 1.0);
    assert_eq!(say(&mut session, r#"{"cmd":"ask"}"#)["id"], 1);
}

#[test]
fn what_is_wrong_with_a_line_is_said_with_what_to_send_instead() {
    let mut session = Session::new();
    for (line, said) in [
        ("", "the line is empty: send one JSON object a line, such as {\"cmd\":\"ask\"}"),
        ("[1]", "the line is a list, not an object such as {\"cmd\":\"ask\"}"),
        ("{}", "`cmd` is missing: it is one of `init`, `ask`, `report`, `tell`, `best`, `quit`"),
        (r#"{"cmd":"reprot"}"#, "there is no command `reprot`: did you mean `report`?"),
        (
            r#"{"cmd":7}"#,
            "`cmd` is `7`: it must be one of `init`, `ask`, `report`, `tell`, `best`, `quit`",
        ),
        (r#"{"cmd":"ask"}"#, "there is no study yet: say {\"cmd\":\"init\",\"space\":[..]} first"),
        (r#"{"cmd":"ask","id":1}"#, "ask has no key `id`: it has none but `cmd`"),
        (r#"{"cmd":"init"}"#, "`space` is missing: it is a list of parameters"),
        (
            r#"{"cmd":"tell","id":0}"#,
            "say how the trial ended: `value` is a number, or `state` is `failed` or `pruned`",
        ),
        (
            r#"{"cmd":"tell","id":0,"value":null}"#,
            "say how the trial ended: `value` is a number, or `state` is `failed` or `pruned`",
        ),
        (
            r#"{"cmd":"tell","id":0,"values":[1,2]}"#,
            "`values` has 2 numbers, and the study one objective",
        ),
        (
            r#"{"cmd":"tell","id":0,"value":"high"}"#,
            "`value` must be a number (NaN and Infinity are), not the string `high`",
        ),
        (
            r#"{"cmd":"report","id":0,"step":1.5,"value":1}"#,
            "`step` must be an integer of at least 0, not `1.5`",
        ),
        (
            r#"{"cmd":"report","id":0,"setp":1,"value":1}"#,
            "report has no key `setp`: did you mean `step`?",
        ),
        (
            r#"{"cmd":"report","id":0,"value":1}"#,
            "`step` is missing: it is how far the trial is, as an integer",
        ),
        (
            r#"{"cmd":"report","id":0,"step":1,"valeu":1,"value":1}"#,
            "report has no key `valeu`: did you mean `value`?",
        ),
    ] {
        assert_eq!(refusal(&mut session, line), said, "{line}");
    }
}

#[test]
fn what_is_wrong_with_a_study_is_said_as_for_a_study_file() {
    let mut session = Session::new();
    for (more, said) in [
        (r#","sampler":{"type":"randon"}"#, "there is no sampler `randon` (did you mean `random`?"),
        (r#","sampler":{"type":"tpe","gama":0.2}"#, "has no key `gama` (did you mean `gamma`?)"),
        (
            r#","pruner":{"type":"asha","reduction_factor":1}"#,
            "`pruner.reduction_factor` must be an integer from 2 to 1000",
        ),
        (
            r#","pruner":{"type":"asha","min_resource":9,"max_resource":9}"#,
            "the first rung `9` is not below a full trial's `9`",
        ),
        (r#","pruner":"asha""#, "`pruner` must be an object, not the string `asha`"),
        (r#","directions":["minimize","maximize"]"#, "several objectives are not built yet"),
        (r#","direction":"up""#, "`direction` cannot be `up`: write \"minimize\" or \"maximize\""),
        (r#","constraints":["x < 1"]"#, "`constraints[0]`: `constraint` must be a list of tables"),
        (
            r#","constraints":[{"require":"y < 1"}]"#,
            "`constraints[0]`: there is no parameter `y` (the parameters are `x`)",
        ),
        (
            r#","constraints":[{"limit":"value < 1"}]"#,
            "`constraints[0]`: `value` is what is searched for",
        ),
        (
            r#","constraints":[{"require":"x <"}]"#,
            "`constraints[0]`: the condition ends where a value is expected",
        ),
        (
            r#","constraints":[{"require":"x < 1","limit":"y < 1"}]"#,
            "`constraints[0]`: a constraint has `require` or `limit`, not both",
        ),
        (
            r#","constraints":[{"require":"x < 0"}],"enqueue":[{"x":1}]"#,
            "`enqueue[0]`: this configuration breaks the constraint `x < 0`",
        ),
        (r#","enqueue":[{"y":1}]"#, "`enqueue[0]`: `y` is not a parameter of [space]"),
        (r#","enqueue":[{"x":9}]"#, "`enqueue[0]`: `9` is not a value of `x`"),
        (r#","n_trial":5"#, "init has no key `n_trial`: did you mean `n_trials`?"),
        (r#","workers":0"#, "`workers` must be an integer of at least 1, not `0`"),
        (r#","seed":-1"#, "`seed` must be an integer of at least 0, not `-1`"),
    ] {
        let line = format!("{LINE}{more}}}");
        let text = refusal(&mut session, &line);
        assert!(text.contains(said), "{line}: {text}");
    }
    for (parameter, said) in [
        (r#"{"type":"float","low":0,"high":1}"#, "`name` is missing: it is a string"),
        (
            r#"{"name":"a","type":"flaot","low":0,"high":1}"#,
            "`type` cannot be `flaot`: did you mean \"float\"?",
        ),
        (
            r#"{"name":"a","type":"float","low":1,"high":0}"#,
            "`space.a`: the lower bound `1` is above the upper bound `0`",
        ),
        (
            r#"{"name":"a","type":"float","low":0,"high":Infinity}"#,
            "`space.a`: the bounds must be finite numbers",
        ),
        (
            r#"{"name":"a","type":"float","low":0,"high":1,"log":true}"#,
            "`space.a`: a logarithmic axis needs a lower bound above 0, not `0`",
        ),
        (
            r#"{"name":"a","type":"int","low":0.5,"high":1}"#,
            "the lower bound of `space.a` must be an integer",
        ),
        (r#"{"name":"a","type":"int","low":0}"#, "parameter `a`: `low` and `high` are both needed"),
        (r#"{"name":"a","type":"cat","choices":[]}"#, "`space.a`: the list of choices is empty"),
        (
            r#"{"name":"a","type":"cat","choices":[1,1.0]}"#,
            "the choice `1` of `space.a` is there twice",
        ),
        (
            r#"{"name":"a","type":"cat","choices":[1,NaN]}"#,
            "a choice of `space.a` must be a string, a finite number, true or false",
        ),
        (
            r#"{"name":"a","type":"cat","choices":[null]}"#,
            "a choice of `space.a` must be a string, a finite number, true or false",
        ),
        (
            r#"{"name":"a","type":"int","low":0,"high":1,"when":{"param":"b","in":[1]}}"#,
            "`a` depends on `b`, which is not in the space",
        ),
        (
            r#"{"name":"a","type":"int","low":0,"high":1,"when":{"param":"a","in":[1]}}"#,
            "the conditions of a form a circle",
        ),
        (
            r#"{"name":"a","type":"int","low":0,"high":1,"hihg":2}"#,
            "space[0] has no key `hihg`: did you mean `high`?",
        ),
    ] {
        let text = refusal(&mut session, &format!(r#"{{"cmd":"init","space":[{parameter}]}}"#));
        assert!(text.starts_with(said), "{parameter}: {text}");
    }
    // After all that, a right one is taken; a second one is not.
    assert_eq!(say(&mut session, &format!("{LINE}}}")), json!({ "ok": true }));
    assert_eq!(
        refusal(&mut session, &format!("{LINE}}}")),
        "`init` was said already: another study needs another `hpsearch ask-tell`"
    );
}

#[test]
fn a_string_that_only_looks_like_a_bare_word_stays_what_it_is() {
    let mut session = Session::new();
    let init = r#"{"cmd":"init","space":[{"name":"NaN","type":"cat","choices":["NaN, \"Infinity\"","-Infinity"]}]}"#;
    assert_eq!(say(&mut session, init), json!({ "ok": true }));
    let chosen =
        say(&mut session, r#"{"cmd":"ask"}"#)["params"]["NaN"].as_str().unwrap().to_owned();
    assert!(["NaN, \"Infinity\"", "-Infinity"].contains(&chosen.as_str()));
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
    let answers: Vec<String> =
        String::from_utf8(output).unwrap().lines().map(str::to_owned).collect();
    let starts = [
        "{\"error\":\"the line is not UTF-8",
        "{\"error\":\"the line is empty",
        "{\"error\":\"the line is longer than 8388608 bytes",
    ];
    assert_eq!(answers.len(), 6, "{answers:#?}");
    assert!(
        starts.iter().zip(&answers).all(|(start, answer)| answer.starts_with(start)),
        "{answers:#?}"
    );
    assert!(answers[3].contains("there is no study yet"), "{answers:#?}");
    assert!(answers[4].contains("not JSON") && answers[5].contains("not JSON"), "{answers:#?}");
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
        let x = say(&mut session, r#"{"cmd":"ask"}"#)["params"]["x"].as_f64().unwrap();
        assert!(x > 2.0, "{x}");
        let latency = if id == 7 { 19.0 } else { 21.0 };
        let told =
            format!(r#"{{"cmd":"tell","id":{id},"value":{x},"metrics":{{"latency":{latency}}}}}"#);
        assert_eq!(say(&mut session, &told), json!({ "ok": true }));
        if id == 6 {
            assert_eq!(
                refusal(&mut session, r#"{"cmd":"best"}"#),
                "none of 7 complete trials keeps all limits"
            );
        }
    }
    assert_eq!(say(&mut session, r#"{"cmd":"best"}"#)["id"], 7);
    assert_eq!(
        refusal(&mut session, r#"{"cmd":"tell","id":0,"value":1,"metrics":{"value":3}}"#),
        "`metrics` holds `value`: it stands beside them"
    );
}

#[test]
fn constraints_that_reject_everything_are_named() {
    let mut session = begun(r#","constraints":[{"require":"x ** 2 > 30"},{"require":"x > 1"}]"#);
    let said = refusal(&mut session, r#"{"cmd":"ask"}"#);
    assert!(
        said.starts_with(
            "none of 10000 random points keeps the constraints: `x ** 2 > 30` \
        rejects every one, `x > 1` rejects "
        ),
        "{said}"
    );
}
