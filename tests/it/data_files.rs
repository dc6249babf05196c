//! Data files as people have them: other separators, no header, folders, other encodings; and what
//! `init`, `check`, `predict` and `export-data` say of them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use hpsearch::arguments::data_file::contents;
use hpsearch::config;
use hpsearch::study::program::Program;
use serde_json::{Value as Json, json};

use crate::harness::{Ended, Scene, Site, assert_code, assert_done, assert_names, command};

fn fed(directory: &Path, arguments: &[&str], input: &[u8]) -> Ended {
    let mut child = command(directory, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who refuses before reading closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input);
    Ended::of(child.wait_with_output().unwrap())
}

fn rows(row: impl Fn(usize) -> String) -> String {
    (0..60).map(|index| row(index) + "\n").collect()
}

fn data_of(study: &Path) -> serde_json::Map<String, Json> {
    let spec = config::load(study, &[]).unwrap();
    let Program::Trainer { data, .. } = spec.program else { panic!("{:?}", spec.program) };
    data.into_iter().collect()
}

fn trainer_of(study: &Path) -> serde_json::Map<String, Json> {
    let spec = config::load(study, &[]).unwrap();
    let Program::Trainer { arguments, .. } = spec.program else { panic!("{:?}", spec.program) };
    arguments.into_iter().collect()
}

/// What looks like a model: the files that are asked for, and `config.json` with these keys.
fn model(directory: &Path, config: &Json) {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("config.json"), config.to_string()).unwrap();
    fs::write(directory.join("model.safetensors"), "").unwrap();
    fs::write(directory.join("tokenizer.json"), "{}").unwrap();
}

#[test]
fn a_file_with_semicolons_becomes_a_study_that_says_so() {
    let site = Site::empty();
    let content = format!(
        "text;label\n{}",
        rows(|index| format!("a film, number {index};{}", ["good", "bad"][index % 2]))
    );
    site.write("reviews.csv", content);
    let ran = site.run(&["init", "reviews.csv"]);
    assert_done(&ran);
    assert!(ran.err.starts_with("reviews.csv: 60 rows, separated by `;`\n"), "{}", ran.err);
    let data = data_of(&site.path("study.toml"));
    assert_eq!(
        (&data["separator"], &data["text"], &data["label"]),
        (&json!(";"), &json!("text"), &json!("label"))
    );
}

#[test]
fn a_file_without_a_header_is_noticed_and_its_columns_are_numbered() {
    let site = Site::empty();
    site.write(
        "sms.tsv",
        rows(|index| format!("{}\tmessage \"number {index}", ["ham", "spam"][index % 2])),
    );
    let ran = site.run(&["init", "sms.tsv"]);
    assert_done(&ran);
    insta::assert_snapshot!(ran.err, @r"
    sms.tsv: 60 rows
    no header: `ham` in column 1 is also a value of 29 other rows; the columns are called column1, column2 (`--header`: line 1 names them)
    texts: `column2`, guessed: it has the longest values; median length 3 words, 95 % have 3 or fewer
    labels: `column1`, guessed: it has the fewest different values; 2 classes: ham (30), spam (30)
    task text-classification: one label per text
    wrote study.toml
    next: `hpsearch check study.toml` looks at it and its data, `hpsearch run study.toml` searches
    ");
    let data = data_of(&site.path("study.toml"));
    assert_eq!(data["column_names"], json!(["column1", "column2"]));
    assert_eq!((&data["text"], &data["label"]), (&json!("column2"), &json!("column1")));
    let forced = site.run(&["init", "sms.tsv", "--header", "-o", "forced.toml"]);
    assert_done(&forced);
    let data = data_of(&site.path("forced.toml"));
    assert_eq!((data.get("column_names"), &data["label"]), (None, &json!("ham")));
}

#[test]
fn a_flag_takes_the_first_line_for_a_row_where_nothing_shows_it() {
    let site = Site::empty();
    site.write("lines.csv", rows(|index| format!("only a text {index}")));
    let ran = site.run(&["init", "lines.csv", "--no-header"]);
    assert_done(&ran);
    assert!(
        ran.err.contains(
            "lines.csv: 60 rows\nno header: --no-header says so; the columns are called column1 ("
        ),
        "{}",
        ran.err
    );
    assert_eq!(data_of(&site.path("study.toml"))["column_names"], json!(["column1"]));
}

#[test]
fn keys_of_the_layout_are_checked_and_have_the_names_of_hugging_face() {
    let site = Site::empty();
    site.write("a.csv", "ham;x\nspam;y\n");
    let with = |data: &str| {
        let study = site.path("study.toml");
        let text = format!(
            "[study]\nname = \"s\"\nmetric = \"eval_loss\"\ndirection = \"minimize\"\n[budget]\n\
             trials = 1\n[trainer]\n[data]\ntrain = \"a.csv\"\n{data}\n[space]\n\
             learning_rate = {{ float = [1e-4, 1e-2] }}\n"
        );
        fs::write(&study, text).unwrap();
        config::load(&study, &[]).map(|_| data_of(&study)).map_err(|error| error.to_string())
    };
    let data = with("delimiter = \";\"\nnames = [\"label\", \"text\"]").unwrap();
    assert_eq!(
        (&data["separator"], &data["column_names"]),
        (&json!(";"), &json!(["label", "text"]))
    );
    assert_eq!(with("separator = \"\\t\"").unwrap()["separator"], json!("\t"));
    for (wrong, said) in [
        ("separator = \";;\"", "`separator` must be one ASCII character, not \";;\""),
        ("separator = \"\\\"\"", "`separator` must be one ASCII character"),
        ("sep = \";\"\ndelimiter = \",\"", "`delimiter` and `sep` are the same argument"),
        (
            "column_names = [\"label\", \"label\"]",
            "`column_names` must be a list of names, each once",
        ),
        (
            "column_names = [\"kind\", \"text\"]",
            "`label` is the column `label`, which is not among `column_names`",
        ),
        (
            "column_names = [\"label\", \"words\"]",
            "`text` is the column `text`, which is not among `column_names`",
        ),
    ] {
        let error = with(wrong).unwrap_err();
        assert!(error.contains(said), "{wrong}: {error}");
    }
}

#[test]
fn a_folder_is_its_training_file_with_the_splits_beside_it() {
    let site = Site::empty();
    let folder = site.path("intents");
    fs::create_dir(&folder).unwrap();
    let content = format!("text,label\n{}", rows(|index| format!("a text {index},{}", index % 3)));
    for split in ["train", "valid", "test"] {
        fs::write(folder.join(split).with_extension("csv"), &content).unwrap();
    }
    fs::write(folder.join("README.md"), "# Intents\n").unwrap();
    let ran = site.run(&["init", "intents"]);
    assert_done(&ran);
    let text = site.read("study.toml");
    assert_names(
        &text,
        &[
            "name = \"intents\"",
            "train = \"intents/train.csv\"",
            "validation = \"intents/valid.csv\"",
            "test = \"intents/test.csv\"",
        ],
    );
    assert_names(&ran.err, &["validation: intents/valid.csv, found beside the training file"]);
}

#[cfg(feature = "train")]
#[test]
fn changed_data_of_a_stored_study_is_told_and_checked() {
    let site = Site::empty();
    let rows = format!("text,label\n{}", rows(|index| format!("text {index},{}", index % 3)));
    site.write("t.csv", &rows);
    site.write(
        "s.toml",
        "[study]\nname = \"s\"\nmetric = \"eval_accuracy\"\ndirection = \"maximize\"\n\
         [budget]\ntrials = 1\n[data]\ntrain = \"t.csv\"\n[trainer]\nmax_steps = 2\n\
         [space]\nlearning_rate = [0.001]\n",
    );
    let before = site.run(&["check", "s.toml"]);
    assert_done(&before);
    assert_done(&site.run(&["run", "s.toml", "--plain"]));
    site.write("t.csv", format!("{rows}more,1\nmore,2\n"));
    let told = site.run(&["check", "s.toml"]);
    assert_eq!(told.code, 6, "{}", told.err);
    assert_names(
        &told.err,
        &[
            "data.train: contents ",
            "its trials were trained and measured on other data",
            "`hpsearch run s.toml --fork NAME` starts a new study",
        ],
    );
    assert_names(&told.out, &["data ", " training, ", "repeats a text with another label"]);
    assert_ne!(told.out, before.out);
    let told: Json = site.run(&["check", "s.toml", "--json"]).json();
    assert!(told["data"].as_array().is_some_and(|data| data.len() > 1), "{told}");
    // New rows that cannot be read are reported as well.
    site.write("t.csv", rows.replace("text,label", "body,label"));
    let told = site.run(&["check", "s.toml"]);
    assert_eq!(told.code, 2, "{}", told.err);
    assert_names(&told.err, &["data.train: contents ", "--fork NAME", "column `text`"]);
    let told = site.run(&["check", "s.toml", "--json"]);
    assert_eq!(told.code, 2, "{}", told.err);
    let json: Json = told.json();
    let severities: Vec<&Json> =
        json["problems"].as_array().unwrap().iter().map(|problem| &problem["severity"]).collect();
    assert_eq!(severities, ["error", "error", "warning"], "{json}");
}

#[cfg(feature = "train")]
#[test]
fn a_pattern_names_the_files_of_a_split() {
    let site = Site::empty();
    fs::create_dir(site.path("data")).unwrap();
    let content = |first: usize| {
        format!("text,label\n{}", rows(|index| format!("text {},{}", first + index, index % 3)))
    };
    for (number, name) in ["train-1", "train-2", "validation-1"].into_iter().enumerate() {
        site.write(&format!("data/{name}.csv"), content(100 * number));
    }
    let study = |train: &str| {
        format!(
            "[study]\nname = \"s\"\nmetric = \"eval_accuracy\"\ndirection = \"maximize\"\n\
             [budget]\ntrials = 1\n[data]\ntrain = \"data/{train}\"\n\
             validation = \"data/validation-?.csv\"\n[trainer]\nmax_steps = 2\n\
             [space]\nlearning_rate = [0.001]\n"
        )
    };
    site.write("s.toml", study("train-*.csv"));
    let checked = site.run(&["check", "s.toml"]);
    assert_done(&checked);
    let all = rows(|index| index.to_string()).lines().count();
    let counted = format!("{} training, {all} validation", 2 * all);
    assert!((checked.out.clone() + &checked.err).contains(&counted), "{counted}: {}", checked.err);
    site.write("s.toml", study("dev-*.csv"));
    let refused = site.run(&["check", "s.toml"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert_names(&refused.err, &["no data file has a name like `dev-*.csv`"]);
    site.write("s.toml", study("none/train-*.csv"));
    let refused = site.run(&["check", "s.toml"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert_names(&refused.err, &["`data.train`: no such file"]);
}

#[test]
fn a_folder_in_which_nothing_is_the_training_file_says_what_there_is() {
    let site = Site::empty();
    fs::create_dir(site.path("d")).unwrap();
    let ran = site.run(&["init", "d"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            2,
            "error: there is no data file in `d`\n\
             help: give the path of the file to learn from: .csv, .tsv, .jsonl, .json, .parquet, \
             .arrow, .conll or .txt, also with .gz or .zst appended\n"
        )
    );
    site.write("d/a.csv", "text,label\n");
    site.write("d/b.csv", "text,label\n");
    let ran = site.run(&["init", "d"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            2,
            "error: several data files in `d`: `d/a.csv`, `d/b.csv`; which one is the training \
             file?\nhelp: name it: `hpsearch init d/a.csv`; if they are parts of one set, \
             give a pattern: `hpsearch init 'd/*.csv'`\n"
        )
    );
    fs::create_dir(site.path("gz")).unwrap();
    for part in ["gz/a.csv.gz", "gz/b.csv.gz"] {
        site.write(part, "");
    }
    assert_names(
        &site.run(&["init", "gz"]).err,
        &["give a pattern: `hpsearch init 'gz/*.csv.gz'`"],
    );
    model(&site.path("bert"), &json!({"model_type": "bert"}));
    let ran = site.run(&["init", "bert"]);
    assert!(
        ran.code == 2
            && ran.err.contains("`bert` holds a model, not data\n")
            && ran.err.contains("`hpsearch init DATA --model bert`"),
        "{}",
        ran.err
    );
}

#[test]
fn a_pretrained_model_becomes_a_study_of_fine_tuning() {
    let site = Site::empty();
    model(&site.path("bert"), &json!({"model_type": "bert", "max_position_embeddings": 24}));
    model(&site.path("gpt2"), &json!({"model_type": "gpt2", "n_positions": 1024}));
    site.write(
        "r.csv",
        format!("text,label\n{}", rows(|index| format!("a text {index},{}", index % 2))),
    );
    let ran = site.run(&["init", "r.csv", "--model", "bert"]);
    assert_done(&ran);
    assert_names(&ran.err, &["model: bert (bert), fine-tuned with its own tokenizer\n"]);
    insta::assert_snapshot!(site.read("study.toml"));
    let trainer = trainer_of(&site.path("study.toml"));
    assert!(trainer["model.pretrained"].as_str().unwrap().ends_with("/bert"), "{trainer:?}");
    let ran = site.run(&["init", "r.csv", "--model", "gpt2", "-o", "lm.toml"]);
    assert_done(&ran);
    assert_names(&ran.err, &["task language-modeling: the model is a decoder"]);
    assert_eq!(trainer_of(&site.path("lm.toml"))["task"], json!("language-modeling"));
}

#[test]
fn a_model_that_cannot_be_fine_tuned_is_refused_before_a_study_is_written() {
    let site = Site::empty();
    model(&site.path("t5"), &json!({"model_type": "t5"}));
    model(&site.path("t6"), &json!({"model_type": "t6"}));
    model(&site.path("bert"), &json!({"model_type": "bert"}));
    model(&site.path("gpt2"), &json!({"model_type": "gpt2"}));
    model(&site.path("bare"), &json!({"model_type": "bert"}));
    fs::remove_file(site.path("bare/model.safetensors")).unwrap();
    site.write(
        "r.csv",
        format!("text,label\n{}", rows(|index| format!("a text {index},{}", index % 2))),
    );
    site.write("plain.txt", "a text\n");
    for (arguments, said) in [
        (
            &["r.csv", "--model", "t6"][..],
            "`t6` is of the architecture `t6` (`model_type`), which is not supported\nhelp: \
             supported architectures are",
        ),
        (&["r.csv", "--model", "t5"], "the model writes texts, and no column looks like them"),
        (
            &["r.csv", "--model", "t5", "--label", "label"],
            "the model writes texts, and no column looks like them",
        ),
        (
            &["r.csv", "--model", "bert", "--target", "label"],
            "the model (`bert`) writes no text for each text",
        ),
        (&["r.csv", "--model", "bare"], "`bare` has no model.safetensors\nhelp: `AutoModel"),
        (
            &["r.csv", "--model", "nowhere"],
            "`nowhere` is not a directory\nhelp: a pretrained model is a directory with",
        ),
        (
            &["plain.txt", "--model", "bert"],
            "the model is an encoder (`bert`), which learns labels, and this data has none",
        ),
        (
            &["r.csv", "--label", "label", "--model", "gpt2"],
            "the model is a decoder (`gpt2`), which learns texts and no labels",
        ),
        (&["--model", "bert"], "there is no data to fine-tune the model on"),
    ] {
        let ran = site.run(&[&["init"], arguments].concat());
        assert!(ran.code == 2 && ran.err.contains(said), "{arguments:?}: {}", ran.err);
        assert!(!site.exists("study.toml"), "{arguments:?}");
    }
}

#[test]
fn texts_to_label_that_are_none_are_refused_with_what_was_meant() {
    let site = Site::empty();
    model(&site.path("model"), &json!({"model_type": "bert"}));
    site.write("new.csv", "text\nx\n");
    let predict = |arguments: &[&str], input: &[u8]| {
        fed(&site.path(""), &[&["predict", "model"], arguments].concat(), input)
    };
    for (arguments, input, said) in [
        (
            &["new.csv"][..],
            &b""[..],
            "error: `new.csv` is a file, not a text\nhelp: `hpsearch predict model --file \
             new.csv` labels the texts in it",
        ),
        (
            &["-", "x"],
            b"",
            "error: `-` means standard input, but there are other texts besides it\n",
        ),
        (
            &[],
            b"",
            "error: standard input is empty: there is no text to label\nhelp: give texts as \
             arguments",
        ),
        (&["-"], b" \n", "error: standard input is empty"),
        (&["--file", "-"], b"", "error: standard input is empty"),
        (
            &["-"],
            b"good\ncaf\xe9\n",
            "error: standard input:2: not UTF-8: byte 0xe9 at byte offset 8\nhelp: convert it, \
             for example with `iconv",
        ),
        (
            &["x", "-o", "out.parquet"],
            b"",
            "error: `out.parquet` does not end in .csv, the only format that is written here\n\
             help: `-o out.csv`",
        ),
        (
            &["--file", "new.csv", "--keep", "id"],
            b"",
            "error: `--keep` needs `-o` or `--json`, which write its columns\nhelp: add `-o \
             OUT.csv`",
        ),
        (&["x", "--keep", "id"], b"", "error: the argument '[TEXT]...' cannot be used with"),
        (&["x", "--column", "id"], b"", "error: the argument '[TEXT]...' cannot be used with"),
    ] {
        let ran = predict(arguments, input);
        assert!(
            ran.code == 2 && ran.err.starts_with(said),
            "{arguments:?}: {} {}",
            ran.code,
            ran.err
        );
    }
    let dashed = predict(&["-5 stars of five"], b"");
    assert!(
        dashed.code == 2
            && dashed.err.starts_with(
                "error: `-5 stars of five` begins with `-`, as options do\nhelp: write `--` before"
            ),
        "{}",
        dashed.err
    );
}

#[test]
fn empty_texts_are_counted_in_a_warning() {
    let site = Site::empty();
    model(&site.path("model"), &json!({"model_type": "bert"}));
    let said = |content: &str, more: &[&str]| {
        site.write("a.csv", content);
        site.run(&[&["predict", "model", "--file", "a.csv"], more].concat()).err
    };
    let warning = "warning: 2 of 4 texts (the first is number 2) are empty: ";
    let texts = said("text,id\nx,1\n,2\ny,3\n  ,4\n", &[]);
    assert_eq!(texts.matches("empty").count(), 1, "{texts}");
    assert_names(&texts, &[warning]);
    let pairs = said("text,b\nx,\ny,z\n", &["--pair-column", "b"]);
    assert_names(&pairs, &["warning: 1 of 2 texts (number 1) is empty: "]);
    assert!(!said("text,id\nx,1\n", &[]).contains("empty"));
}

#[test]
fn a_pipe_is_no_text_and_one_that_nobody_writes_to_is_not_waited_for() {
    let site = Site::empty();
    model(&site.path("model"), &json!({"model_type": "bert"}));
    assert!(site.run_program("mkfifo", &["texts.csv"]).is_some());
    for (words, why) in [
        (&["predict", "model", "--file", "texts.csv"][..], "it is a named pipe, not a file"),
        (&["predict", "model", "texts.csv"], "`texts.csv` is a pipe or a device, not a text"),
        (&["import", "texts.csv", "--metric", "x"], "it is a named pipe, not a file"),
    ] {
        let ran = site.run(words);
        assert_ne!(ran.code, 0, "{}", ran.err);
        assert_names(&ran.err, &[why]);
    }
}

#[test]
fn a_file_of_texts_that_cannot_be_read_is_told_with_its_line() {
    let site = Site::empty();
    model(&site.path("model"), &json!({"model_type": "bert"}));
    let said = |name: &str, content: &[u8], more: &[&str]| {
        site.write(name, content);
        let ran = site.run(&[&["predict", "model", "--file", name], more].concat());
        assert_code(&ran, 2);
        ran.err
    };
    assert!(
        said("a.csv", b"text\nx\ncaf\xe9\n", &[])
            .starts_with("error: a.csv:3: not UTF-8: byte 0xe9"),
        "latin1"
    );
    assert!(
        said("a.csv", b"text,label\n\"x,1\n", &[])
            .starts_with("error: a.csv:2: a quote is opened here and never closed"),
        "quotes"
    );
    assert!(
        said("a.csv", b"text,label\nx,1\ny\n", &[])
            .starts_with("error: a.csv:3: 1 fields where the first line has 2"),
        "fields"
    );
    assert!(said("a.csv", b"", &[]).starts_with("error: a.csv: the file is empty"), "nothing");
    assert!(said("a.txt", b"", &[]).starts_with("error: a.txt: the file is empty"), "no texts");
    let semicolons = said("a.csv", b"review;label\nx, y;1\n", &[]);
    assert!(
        semicolons.starts_with(
            "error: a.csv:1: there is no column `text`; columns are `review`, \
            `label`\nhelp: `--column NAME`"
        ),
        "{semicolons}"
    );
    let numbered = said("a.csv", b"x, y;1\n", &["--no-header"]);
    assert!(
        numbered.starts_with(
            "error: a.csv:1: there is no column `text`; columns are `column1`, `column2`\n"
        ),
        "{numbered}"
    );
    assert!(
        said("a.jsonl", b"{\"a\": 1}\n", &["--no-header"])
            .starts_with("error: `--no-header` is for .csv and .tsv files"),
        "lines"
    );
}

#[test]
fn a_data_file_in_the_place_of_a_study_file_is_told_to_go_to_init() {
    let site = Site::empty();
    site.write("new.csv", "text,label\nx,1\n");
    for verb in ["check", "run", "train"] {
        let ran = site.run(&[verb, "new.csv"]);
        assert_eq!(
            (ran.code, ran.err.as_str()),
            (
                2,
                "error: `new.csv` is a data file, not a study file\nhelp: `hpsearch init new.csv` \
                 writes a study file for it\n"
            ),
            "{verb}"
        );
    }
}

#[test]
fn a_table_of_trials_has_the_format_that_its_name_says() {
    let scene = Scene::digits();
    let written = |name: &str, more: &[&str]| {
        let ran =
            scene.run(&[&["export-data", "digits", "--overwrite", "-o", name], more].concat());
        assert_done(&ran);
        fs::read_to_string(scene.path(name)).unwrap()
    };
    let lines: Vec<Json> =
        written("t.jsonl", &[]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(serde_json::from_str::<Vec<Json>>(&written("t.json", &[])).unwrap(), lines);
    assert_eq!(written("none.json", &["--where", "number>99"]), "[]\n");
    assert_eq!(scene.run(&["export-data", "digits", "-o", "-"]).out, written("t.csv", &[]));
    assert!(!scene.path("-").exists());
    let reports: Vec<Json> = serde_json::from_str(&written("r.json", &["--reports"])).unwrap();
    assert_eq!(reports.len(), written("r.tsv", &["--reports"]).lines().count() - 1);
    let cells = |text: &str, separator: u8| -> Vec<csv::StringRecord> {
        csv::ReaderBuilder::new()
            .delimiter(separator)
            .from_reader(text.as_bytes())
            .records()
            .map(Result::unwrap)
            .collect()
    };
    assert_eq!(cells(&written("t.tsv", &[]), b'\t'), cells(&written("t.csv", &[]), b','));
    assert_eq!(written("t.xlsx", &["--format", "csv"]), written("t.csv", &[]));
    for name in ["d.xlsx", "d.csv.gz"] {
        let ran = scene.run(&["export-data", "digits", "-o", name]);
        assert!(
            ran.code == 2
                && ran.err.contains(
                    "is not a supported format\nhelp: end the \
                name in .csv, .tsv, .json"
                ),
            "{}",
            ran.err
        );
        assert!(!scene.path(name).exists());
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_table_that_is_called_parquet_is_never_another_one() {
    let scene = Scene::digits();
    for words in [vec!["-o", "t.parquet"], vec!["-o", "t.pq"], vec!["--format", "parquet"]] {
        let refused = scene.run(&[vec!["export-data", "digits"], words].concat());
        crate::harness::assert_refused(&refused, &["does not write Parquet", "--features parquet"]);
        assert!(!scene.path("t.parquet").exists() && !scene.path("t.pq").exists());
    }
}

#[test]
fn compressed_files_and_lists_of_objects_are_examined_as_others() {
    let site = Site::empty();
    let rows: Vec<String> = (0..40)
        .map(|row| format!("{{\"text\": \"a text {row}\", \"label\": \"{}\"}}", row % 2))
        .collect();
    site.write("a.json", format!("[{}]", rows.join(",\n")));
    site.write("b.jsonl", rows.join("\n"));
    let packed = std::process::Command::new("gzip").arg(site.path("b.jsonl")).status().unwrap();
    assert!(packed.success());
    for file in ["a.json", "b.jsonl.gz"] {
        let ran = site.run(&["init", file, "-o", &format!("{file}.toml")]);
        assert_done(&ran);
        assert_names(&ran.err, &[&format!("{file}: 40 rows"), "2 classes"]);
    }
    site.write("c.csv.gz", "text,label\nx,1\n");
    let ran = site.run(&["init", "c.csv.gz"]);
    assert_eq!(ran.code, 2);
    assert_names(&ran.err, &["c.csv.gz: cannot be unpacked: "]);
}

/// Files that `tests/peers/data_files.py` writes with `datasets`, and whether they are read here.
const COLUMNS: [(&str, &[u8], bool); 2] = [
    (
        "parquet",
        include_bytes!("../../src/core/arguments/data_file/fixtures/reviews.parquet"),
        cfg!(feature = "parquet"),
    ),
    (
        "arrow",
        include_bytes!("../../src/core/arguments/data_file/fixtures/reviews.arrow"),
        cfg!(feature = "arrow"),
    ),
];

/// Their rows.
const ROWS: [&str; 3] = [
    concat!(
        r#"{"checked":true,"label":"positive","ner_tags":["B-PER","I-PER","O"],"stars":4.5,"#,
        r#""text":"a \"good\" film\nindeed","tokens":["Ada","Lovelace","wrote"]}"#
    ),
    concat!(
        r#"{"checked":false,"label":"negative","ner_tags":["O"],"stars":1.0,"text":"söß","#,
        r#""tokens":["ok"]}"#
    ),
    r#"{"checked":null,"label":-1,"ner_tags":[],"stars":null,"text":null,"tokens":[]}"#,
];

#[test]
fn rows_of_columns_have_the_names_of_their_classes() {
    let parsed = |line: &str| serde_json::from_str::<Json>(line).unwrap();
    for (ending, bytes, _) in COLUMNS.into_iter().filter(|(.., is_built)| *is_built) {
        let path = PathBuf::from(format!("reviews.{ending}"));
        let lines = contents(&path, bytes).unwrap().into_owned();
        let lines = String::from_utf8(lines).unwrap();
        assert_eq!(lines.lines().map(parsed).collect::<Vec<_>>(), ROWS.map(parsed), "{lines}");
        for torn in [&bytes[..bytes.len() / 2], b"text,label\nx,1\n", b""] {
            let said = contents(&path, torn).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{}: cannot be read as ", path.display())), "{said}");
        }
    }
}

#[test]
fn columns_are_examined_by_binaries_that_are_built_for_them() {
    let site = Site::empty();
    for (ending, bytes, is_built) in COLUMNS {
        let file = format!("reviews.{ending}");
        fs::write(site.path(&file), bytes).unwrap();
        let ran = site.run(&["init", &file, "--label", "label", "-o", &format!("{ending}.toml")]);
        if is_built {
            assert_done(&ran);
            assert_names(&ran.err, &[&format!("{file}: 3 rows"), "positive (1)"]);
        } else {
            assert_eq!(ran.code, 2);
            let feature = format!("build it with `--features {ending}`");
            assert_names(&ran.err, &["this program was built without", &feature]);
        }
    }
}
