//! `export-data -o FILE.parquet`: the same rows and values as in JSON lines, in columns with types.

use std::collections::BTreeMap;
use std::fs::{self, File};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value as Json;

use crate::harness::{KEEP_ALL, ONE_SLOT, Site, assert_done, study};

/// Values that JSON does not have, a value that is missing, and one of each type.
const LOGS: &str = r#"
[ "$HPSEARCH_TRIAL" = 2 ] && exit 3
loss=0.$HPSEARCH_TRIAL; [ "$HPSEARCH_TRIAL" = 1 ] && loss=NaN
echo '@hpsearch {"epoch":0.5,"speed":NaN,"gain":Infinity,"fall":-Infinity,"tiny":5e-324,"ä b":-0.0}'
echo "@hpsearch {\"step\":1,\"loss\":$loss,\"accuracy\":0.1}"
read -r answer
echo "@hpsearch {\"step\":2,\"loss\":$loss}"
echo '@hpsearch {"summary":{"test":0.5,"rows":7,"done":true,"verdict":"a, b"}}'
"#;

fn site() -> Site {
    let text = study("trials = 4\nfailures = 9", &format!("{ONE_SLOT}{KEEP_ALL}"));
    let space = "[sampler]\nk = { int = [1, 9] }\nmode = [\"a\", \"b, c\"]\nflag = [true, false]\n\
        mixed = [1, \"one\"]\n";
    let (before, after) = text.split_once("[sampler]\n").unwrap();
    let space = space.replace("[sampler]\n", "");
    let site = Site::new(&format!("{before}{space}[sampler]\n{after}"), LOGS);
    assert_done(&site.run_study());
    assert_done(&site.run(&["tag", "s", "0", "+kept", "+odd"]));
    assert_done(&site.run(&["note", "s", "0", "-m", "ein \"Satz\"\nmit Zeilen"]));
    site.write("run.sh", LOGS.replace("$HPSEARCH_TRIAL", "0"));
    let words = ["track", "--study", "t", "--name", "r", "--param", "k=7", "--", "sh", "run.sh"];
    assert_done(&site.run(&words));
    site
}

/// The rows of a file: what is not null, by column.
fn columns(site: &Site, words: &[&str]) -> Vec<BTreeMap<String, Field>> {
    let path = site.path("out.parquet");
    assert_done(&site.run(&[&["export-data"], words, &["-o", "out.parquet"]].concat()));
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let columns = row.unwrap().into_columns().into_iter();
        columns.filter(|(_, field)| *field != Field::Null).collect()
    });
    let rows = rows.collect();
    fs::remove_file(path).unwrap();
    rows
}

/// The same of JSON lines, with columns named as in Parquet.
fn lines(site: &Site, words: &[&str]) -> Vec<BTreeMap<String, Json>> {
    let done = site.run(&[&["export-data"], words, &["--format", "jsonl"]].concat());
    assert_done(&done);
    let row = |line: &str| {
        let mut row = BTreeMap::new();
        for (name, value) in serde_json::from_str::<serde_json::Map<String, Json>>(line).unwrap() {
            match (name.as_str(), value) {
                (_, Json::Null) => {}
                ("params" | "metrics" | "summary", Json::Object(of)) => {
                    row.extend(of.into_iter().map(|(key, json)| (format!("{name}.{key}"), json)));
                }
                (_, value) => drop(row.insert(name, value)),
            }
        }
        row
    };
    done.out.lines().map(row).collect()
}

/// Whether a cell says what the JSON says; numbers bit by bit.
fn is_same(name: &str, field: &Field, json: &Json) -> bool {
    let texts = |separator: &str| {
        let texts: Vec<&str> = json.as_array().unwrap().iter().filter_map(Json::as_str).collect();
        texts.join(separator)
    };
    match (field, json) {
        (Field::Str(text), _) if name == "tags" => *text == texts(" "),
        (Field::Str(text), _) if name == "notes" => *text == texts("\n"),
        // In words, as in CSV.
        (Field::Str(text), _) if name == "origin" || name == "device" => !text.is_empty(),
        (Field::Str(text), Json::String(json)) => text == json,
        // A parameter with values of several types.
        (Field::Str(text), json) => text.as_str() == json.to_string().as_str(),
        (Field::Long(int), json) => json.as_i64() == Some(*int),
        (Field::Bool(flag), json) => json.as_bool() == Some(*flag),
        (Field::Double(number), Json::String(json)) => match json.as_str() {
            "NaN" => number.is_nan(),
            "Infinity" => *number == f64::INFINITY,
            "-Infinity" => *number == f64::NEG_INFINITY,
            _ => false,
        },
        (Field::Double(number), json) => {
            json.as_f64().is_some_and(|json| json.to_bits() == number.to_bits())
        }
        _ => false,
    }
}

#[test]
fn parquet_has_the_values_of_json_lines_with_their_types() {
    let site = site();
    for words in [
        vec!["s"],
        vec!["s", "--reports"],
        vec!["s", "--series"],
        vec!["--all"],
        vec!["--all", "--series"],
        vec!["s", "--where", "loss > 1e9"],
    ] {
        let (columns, lines) = (columns(&site, &words), lines(&site, &words));
        assert_eq!(columns.len(), lines.len(), "{words:?}");
        for (row, line) in columns.iter().zip(&lines) {
            for (name, json) in line {
                let field = row.get(name);
                let empty = json.as_array().is_some_and(Vec::is_empty);
                assert!(
                    empty || field.is_some_and(|field| is_same(name, field, json)),
                    "{words:?}: {name} is {field:?}, not {json}"
                );
            }
            let is_known = |name: &&String| line.contains_key(*name);
            let more: Vec<&String> = row.keys().filter(|name| !is_known(name)).collect();
            let of_runs = ["name", "group", "tags", "notes"];
            assert!(more.iter().all(|name| of_runs.contains(&name.as_str())), "{more:?}");
        }
    }
    let all = columns(&site, &["--all"]);
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(|row| row.contains_key("study")));
    let types = &all[0];
    for (name, is_type) in [
        ("number", matches!(types["number"], Field::Long(_))),
        ("params.x", matches!(types["params.x"], Field::Double(_))),
        ("params.flag", matches!(types["params.flag"], Field::Bool(_))),
        ("params.mode", matches!(types["params.mode"], Field::Str(_))),
    ] {
        assert!(is_type, "{name} is {:?}", types[name]);
    }
    let points = columns(&site, &["--all", "--series"]);
    let is = |wanted: fn(f64) -> bool| {
        points.iter().any(|row| matches!(row["value"], Field::Double(value) if wanted(value)))
    };
    assert!(is(f64::is_nan) && is(|value| value == f64::NEG_INFINITY));
    assert!(is(|value| value == 5e-324) && is(|value| value == 0.0 && value.is_sign_negative()));
}

#[test]
fn a_study_of_several_objectives_has_a_column_for_each() {
    let site = crate::several_objectives::finished("[sampler]\ntype = \"random\"");
    let rows = columns(&site, &[]);
    let trials = site.trials();
    assert_eq!(rows.len(), trials.len());
    for (row, trial) in rows.iter().zip(&trials) {
        assert!(!row.contains_key("value"));
        for (index, name) in ["values.error", "values.speed"].into_iter().enumerate() {
            assert_eq!(row[name], Field::Double(trial["values"][index].as_f64().unwrap()));
        }
    }
}
