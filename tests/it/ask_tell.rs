//! `hpsearch ask-tell` as a program, and what hostile lines do to it: one answer each, no panic, no
//! memory kept.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use hpsearch::ask_tell::{LONGEST_LINE, Session, serve};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};

use crate::harness::{PROGRAM, cases};

const INIT: &str = concat!(
    r#"{"cmd":"init","space":[{"name":"x","type":"float","low":0,"high":1},"#,
    r#"{"name":"k","type":"cat","choices":["a","b"]},"#,
    r#"{"name":"y","type":"int","low":1,"high":9,"when":{"param":"k","in":["b"]}}],"seed":3}"#
);

fn run(input: &[u8]) -> Output {
    let mut command = Command::new(PROGRAM);
    let mut child = command
        .arg("ask-tell")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // The program may have quit before it read everything.
        let _quit = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn answers(output: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(output).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// What `serve` answers to these bytes: an object a line, every line.
fn served(input: &[u8]) -> Vec<Value> {
    let mut output = Vec::new();
    serve(input, &mut output).unwrap();
    let answers = answers(&output);
    assert!(answers.iter().all(Value::is_object));
    answers
}

#[test]
fn the_program_answers_each_line_before_the_next_one_is_sent() {
    let mut command = Command::new(PROGRAM);
    let mut child =
        command.arg("ask-tell").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) =
        (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut say = |line: &str| {
        writeln!(input, "{line}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    assert_eq!(say(INIT), json!({ "ok": true }));
    for id in 0..12 {
        let asked = say(r#"{"cmd":"ask"}"#);
        assert_eq!(asked["id"], id);
        assert_eq!(asked["params"].get("y").is_some(), asked["params"]["k"] == "b");
        assert_eq!(
            say(&format!(r#"{{"cmd":"tell","id":{id},"value":{}}}"#, asked["params"]["x"])),
            json!({ "ok": true })
        );
    }
    assert!(say(r#"{"cmd":"best"}"#)["value"].as_f64().unwrap() < 0.3);
    assert_eq!(say(r#"{"cmd":"quit"}"#), json!({ "ok": true }));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_candidate_that_was_tried_comes_last_and_odd_candidates_are_refused() {
    let lines = [
        INIT,
        r#"{"cmd":"ask","candidates":[{"x":1,"k":"a"},{"x":0.5,"k":"b","y":2}]}"#,
        r#"{"cmd":"ask","candidates":[{"x":1,"k":"a"},{"x":0.5,"k":"b","y":2}]}"#,
        r#"{"cmd":"ask","candidates":[{"x":1,"k":"a"}]}"#,
        r#"{"cmd":"enqueue","params":{"x":0.25,"k":"a"}}"#,
        r#"{"cmd":"ask","candidates":[{"x":0.125,"k":"a"}]}"#,
        r#"{"cmd":"ask","candidates":[{"x":2,"k":"a"}]}"#,
        r#"{"cmd":"ask","candidates":[{"x":1}]}"#,
        r#"{"cmd":"ask","candidates":[{"x":1,"k":"a","z":1}]}"#,
        r#"{"cmd":"ask","candidates":[]}"#,
        r#"{"cmd":"ask","candidates":[3]}"#,
        r#"{"cmd":"ask","candidate":[]}"#,
    ];
    let answers = served(lines.join("\n").as_bytes());
    let mut first: Vec<u64> =
        answers[1..3].iter().map(|answer| answer["candidate"].as_u64().unwrap()).collect();
    first.sort_unstable();
    assert_eq!(first, [0, 1]);
    assert_eq!(answers[3], json!({ "id": 2, "candidate": 0, "params": { "x": 1.0, "k": "a" } }));
    assert_eq!(answers[5], json!({ "id": 3, "params": { "x": 0.25, "k": "a" } }));
    let refused: Vec<&str> =
        answers[6..].iter().map(|answer| answer["error"].as_str().unwrap()).collect();
    assert_eq!(
        refused,
        [
            "`candidates[0]`: `2` is not a value of `x`",
            "`candidates[0]`: `k` has no value",
            "`candidates[0]`: `z` is not a parameter of the space",
            "`candidates` has 0 configurations: send 1 to 10000, or leave it out",
            "`candidates[0]` is `3`: it must be an object",
            "ask has no key `candidate`: did you mean `candidates`?",
        ]
    );
}

#[test]
fn an_end_in_the_middle_of_a_line_and_a_reader_that_is_gone_are_no_errors() {
    let output = run(format!("{INIT}\r\n{{\"cmd\":\"ask\"}}\n{{\"cmd\":\"te").as_bytes());
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let answers = answers(&output.stdout);
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[1]["id"], 0);
    assert!(answers[2]["error"].as_str().unwrap().contains("not JSON"));

    let mut command = Command::new(PROGRAM);
    let mut child = command
        .arg("ask-tell")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let _gone = stdin.write_all(b"{}\n{}\n");
    let _gone = stdin.write_all(&b"{}\n".repeat(50_000));
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_line_of_a_megabyte_and_deep_nesting_get_one_answer_each() {
    let choices: Vec<String> = (0..100_000).map(|choice| format!("choice{choice:06}")).collect();
    let wide =
        json!({ "cmd": "init", "space": [{ "name": "x", "type": "cat", "choices": choices }] })
            .to_string();
    assert!(wide.len() > 1 << 20);
    let parameters: Vec<Value> = (0..1001)
        .map(|index| json!({ "name": format!("p{index}"), "type": "int", "low": 0, "high": 1 }))
        .collect();
    let lines = [
        wide.clone(),
        r#"{"cmd":"ask"}"#.to_owned(),
        format!("{}{}", "[".repeat(500_000), "]".repeat(500_000)),
        format!(r#"{{"cmd":"tell","id":0,"value":{}}}"#, "9".repeat(1_000_000)),
        format!(r#"{{"cmd":"{}"}}"#, "é\u{1F600}".repeat(200_000)),
        format!(r#"{{"cmd":"tell","id":0,"value":1,"{}":1}}"#, "k".repeat(1_000_000)),
        json!({ "cmd": "init", "space": parameters }).to_string(),
        "x".repeat(usize::try_from(LONGEST_LINE).unwrap() + 5),
        r#"{"cmd":"tell","id":0,"value":1}"#.to_owned(),
    ];
    let answers = served(lines.join("\n").as_bytes());
    assert_eq!(answers.len(), lines.len());
    assert_eq!(
        (&answers[0], &answers[1]["id"], &answers[8]),
        (&json!({ "ok": true }), &json!(0), &json!({ "ok": true }))
    );
    for answer in &answers[2..8] {
        let error = answer["error"].as_str().unwrap();
        assert!(error.len() < 400, "an answer sends back what it was sent: {} bytes", error.len());
    }
}

#[test]
fn a_hundred_conditions_in_a_row_are_followed_and_a_thousand_refused() {
    let parameter = |index: usize| {
        let when = if index == 0 {
            Value::Null
        } else {
            json!({ "param": format!("p{}", index - 1), "in": [1] })
        };
        json!({ "name": format!("p{index}"), "type": "int", "low": 0, "high": 1, "when": when })
    };
    let init = |count: usize| {
        json!({ "cmd": "init", "space": (0..count).rev().map(parameter).collect::<Vec<Value>>() })
            .to_string()
    };
    let answers = served(format!("{}\n{}\n{{\"cmd\":\"ask\"}}", init(1000), init(100)).as_bytes());
    assert_eq!(
        answers[0]["error"],
        "the conditions are nested 1000 deep; 100 can be followed at most (remove one of the \
         conditions)"
    );
    assert_eq!(answers[1], json!({ "ok": true }));
    assert!(answers[2]["params"]["p0"].is_i64());
}

#[test]
fn odd_characters_and_odd_numbers_are_refused_and_nothing_else_happens() {
    let lines = [
        "\0",
        "{\"cmd\":\"ask\"}\0",
        "{\"cmd\":\"a\0sk\"}",
        r#"{"cmd":"\ud800"}"#,
        r#"{"cmd":"tell","id":0,"value":"\udc00\ud800"}"#,
        r#"{"cmd":"tell","id":1e400,"value":1}"#,
        r#"{"cmd":"tell","id":-0.5,"value":1}"#,
        r#"{"cmd":"tell","id":1.5,"value":1}"#,
        r#"{"cmd":"tell","id":NaN,"value":1}"#,
        r#"{"cmd":"tell","id":"0","value":1}"#,
        r#"{"cmd":"tell","id":[0],"value":1}"#,
        r#"{"cmd":"tell","id":0,"value":1e999}"#,
        r#"{"cmd":"tell","id":0,"value":true}"#,
        r#"{"cmd":"tell","id":0,"value":NaNNaN}"#,
        r#"{"cmd":"tell","id":0,"value":--NaN}"#,
        r#"{"cmd":"tell","id":0,"values":[]}"#,
        r#"{"cmd":"tell","id":0,"state":"done"}"#,
        r#"{"cmd":"tell","id":0,"state":"failed","value":1}"#,
        r#"{"cmd":"report","id":0,"step":-1,"value":1}"#,
        r#"{"cmd":"report","id":0,"step":18446744073709551616,"value":1}"#,
        r#"{"cmd":"report","id":0,"step":9223372036854775808,"value":1}"#,
        r#"{"cmd":"report","id":0,"step":"1","value":1}"#,
        r#"{"cmd":"report","id":0,"step":1}"#,
        r#"{"cmd":"ask"}{"cmd":"ask"}"#,
        r#"{"cmd":"ask"},"#,
        r#"{"cmd":["ask"]}"#,
        r#"{"cmd":null}"#,
        "\u{feff}{\"cmd\":\"ask\"}",
        "NaN",
        "null",
        "\"ask\"",
    ];
    let input = format!(
        "{INIT}\n{{\"cmd\":\"ask\"}}\n{}\n{{\"cmd\":\"tell\",\"id\":0,\"value\":1}}\n\
         {{\"cmd\":\"ask\"}}",
        lines.join("\n")
    );
    let answers = served(input.as_bytes());
    assert_eq!(answers.len(), lines.len() + 4);
    for (line, answer) in lines.iter().zip(&answers[2..]) {
        assert!(answer["error"].is_string(), "{line:?} was answered with {answer}");
    }
    assert_eq!(
        (&answers[lines.len() + 2], &answers[lines.len() + 3]["id"]),
        (&json!({ "ok": true }), &json!(1))
    );
}

#[test]
fn the_largest_steps_and_values_are_taken() {
    let mut session = Session::new();
    let init = INIT.replace(
        "\"seed\":3",
        r#""seed":18014398509481984,"pruner":{"type":"asha","max_resource":9223372036854775807}"#,
    );
    for line in [
        init.as_str(),
        r#"{"cmd":"ask"}"#,
        r#"{"cmd":"report","id":0,"step":0,"value":-1.7976931348623157e308}"#,
        r#"{"cmd":"report","id":0,"step":9223372036854775807,"value":Infinity}"#,
        r#"{"cmd":"report","id":0,"step":4.0,"value":5e-324}"#,
        r#"{"cmd":"report","id":0,"step":4,"value":"nan"}"#,
        r#"{"cmd":"tell","id":0.0,"value":-Infinity}"#,
    ] {
        let answer = session.answer(line);
        assert!(!answer.contains("error"), "{line}: {answer}");
    }
    assert!(session.answer(r#"{"cmd":"best"}"#).contains("\"value\":\"-Infinity\""));
}

/// A line that may be anything: a command, a broken one, or bytes.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let id = prop_oneof![
        4 => (0u64..8).prop_map(|id| id.to_string()),
        1 => Just("-1".to_owned()),
        1 => Just("1e99".to_owned()),
        1 => Just("null".to_owned()),
        1 => Just("{}".to_owned()),
    ];
    let number = prop_oneof![
        4 => (-1e3..1e3f64).prop_map(|value| value.to_string()),
        1 => prop_oneof![
            Just("NaN"),
            Just("-Infinity"),
            Just("\"Infinity\""),
            Just("1e309"),
            Just("[]"),
            Just("\"\\ud800\""),
            Just("tru"),
        ]
        .prop_map(str::to_owned),
    ];
    let step = prop_oneof![
        4 => (0u64..10).prop_map(|step| step.to_string()),
        1 => Just("18446744073709551615".to_owned()),
        1 => Just("0.5".to_owned()),
    ];
    let state = prop_oneof![
        Just("failed"),
        Just("pruned"),
        Just("complete"),
        Just("running"),
        Just("\u{0}")
    ];
    let command = prop_oneof![
        6 => Just(r#"{"cmd":"ask"}"#.to_owned()),
        6 => (id.clone(), step, number.clone()).prop_map(|(id, step, value)| {
            format!(r#"{{"cmd":"report","id":{id},"step":{step},"value":{value}}}"#)
        }),
        6 => (id.clone(), number).prop_map(|(id, value)| {
            format!(r#"{{"cmd":"tell","id":{id},"value":{value}}}"#)
        }),
        2 => (id, state).prop_map(|(id, state)| {
            format!(r#"{{"cmd":"tell","id":{id},"state":"{state}"}}"#)
        }),
        1 => Just(r#"{"cmd":"best"}"#.to_owned()),
        1 => Just(INIT.to_owned()),
    ];
    prop_oneof![
        12 => command.clone().prop_map(String::into_bytes),
        // Cut short, at any byte.
        2 => (command.clone(), any::<prop::sample::Index>()).prop_map(|(line, at)| {
            line.as_bytes()[..at.index(line.len())].to_vec()
        }),
        // One byte is another.
        2 => (command, any::<prop::sample::Index>(), any::<u8>()).prop_map(|(line, at, byte)| {
            let mut line = line.into_bytes();
            let at = at.index(line.len());
            line[at] = byte;
            line
        }),
        2 => prop::collection::vec(any::<u8>(), 0..200),
        1 => (0usize..2000).prop_map(|depth| "[{\"a\":".repeat(depth).into_bytes()),
    ]
}

proptest! {
    #![proptest_config(Config {
        cases: cases(100, 300),
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn whatever_is_sent_there_is_one_answer_a_line_and_the_search_goes_on(
        lines in prop::collection::vec(any_line(), 0..60),
        pruner in prop_oneof![Just("none"), Just("asha"), Just("promote"), Just("median")],
        sampler in prop_oneof![
            Just("random"), Just("tpe"), Just("tpe-independent"), Just("grid"), Just("auto"),
        ],
        ends in prop::sample::select(vec!["\n", "\r\n"]),
        is_ended in any::<bool>(),
    ) {
        let pruner = match pruner {
            "promote" => r#"{"type":"asha","max_resource":9,"mode":"promote"}"#.to_owned(),
            "asha" => r#"{"type":"asha","max_resource":9}"#.to_owned(),
            other => format!(r#"{{"type":"{other}"}}"#),
        };
        let init = INIT.replace(
            "\"seed\":3",
            &format!(
                r#""seed":3,"n_trials":20,"pruner":{pruner},"sampler":{{"type":"{sampler}"}}"#
            ),
        );
        // A mutated byte may be a line end, which makes two lines of one; a command may have become
        // `quit` in no way.
        let mut input = init.into_bytes();
        for line in &lines {
            input.extend_from_slice(ends.as_bytes());
            input.extend_from_slice(line);
        }
        if is_ended {
            input.extend_from_slice(ends.as_bytes());
        }
        let mut expected: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        if expected.last().is_some_and(|last| last.is_empty()) {
            expected.pop();
        }
        let answers = served(&input);
        prop_assert_eq!(answers.len(), expected.len());
        prop_assert_eq!(&answers[0], &json!({ "ok": true }));
        // Ids are given in order, once each; a resumed one was given before.
        let mut given = 0;
        for answer in &answers {
            if let Some(id) =
                answer.get("id").and_then(Value::as_u64).filter(|_| answer.get("value").is_none())
            {
                prop_assert_eq!(id, given);
                given += 1;
            }
            if let Some(id) = answer.get("resume").and_then(Value::as_u64) {
                prop_assert!(id < given);
            }
        }
        prop_assert!(given <= 20);
    }
}
