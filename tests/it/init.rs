//! From nothing to a study: `init` looks at data and commands, and what it writes is checked and
//! run.

use std::fs;
use std::path::Path;

use hpsearch::config;
use hpsearch::study::program::Program;
use serde_json::Value as Json;

use crate::harness::{Site, assert_done, assert_names};

fn reviews(directory: &Path, name: &str, rows: usize) {
    let row = |index: usize| {
        format!(
            "{index},\"Text number {index}, with a comma\",{}\n",
            ["good", "bad", "fair"][index % 3]
        )
    };
    fs::write(
        directory.join(name),
        format!("id,review,verdict\n{}", (0..rows).map(row).collect::<String>()),
    )
    .unwrap();
}

#[test]
fn a_table_becomes_a_study_of_the_built_in_trainer() {
    let site = Site::empty();
    reviews(&site.path(""), "train.csv", 90);
    reviews(&site.path(""), "valid.csv", 30);
    let ran = site.run(&["init", "train.csv", "--name", "reviews", "--yes"]);
    assert_done(&ran);
    assert_names(
        &ran.err,
        &["train.csv: 90 rows\ntexts: `review`, guessed by its name; median length 6 words, 95 \
             % have 6 or fewer\n"],
    );
    assert_names(
        &ran.err,
        &["labels: `verdict`, guessed: it has the fewest different values; 3 classes: bad (30), \
             fair (30), good (30)\n"],
    );
    insta::assert_snapshot!(site.read("study.toml"));
    let spec = config::load(&site.path("study.toml"), &[]).unwrap();
    let Program::Trainer { data, .. } = &spec.program else { panic!("{:?}", spec.program) };
    assert_eq!((&data["text"], &data["label"]), (&Json::from("review"), &Json::from("verdict")));
    assert!(data["validation"].as_str().unwrap().ends_with("valid.csv"));
}

#[test]
fn an_existing_file_is_never_overwritten() {
    let site = Site::empty();
    reviews(&site.path(""), "data.csv", 90);
    site.write("study.toml", "mine");
    let ran = site.run(&["init", "data.csv"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.starts_with(
            "error: `study.toml` exists, and nothing is overwritten\nhelp: \
        `hpsearch init -o OTHER.toml`"
        ),
        "{}",
        ran.err
    );
    assert_eq!(site.read("study.toml"), "mine");
    assert_eq!(site.run(&["init", "data.csv", "-o", "other.toml"]).code, 0);
}

#[test]
fn a_column_that_is_not_there_is_answered_with_those_that_are() {
    let site = Site::empty();
    reviews(&site.path(""), "data.csv", 90);
    let ran = site.run(&["init", "data.csv", "--label", "stars"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (2, "error: `data.csv` has no column `stars`\nhelp: it has `id`, `review`, `verdict`\n")
    );
    assert!(!site.exists("study.toml"));
}

#[test]
fn without_data_or_command_both_ways_are_shown() {
    let site = Site::empty();
    let ran = site.run(&["init"]);
    assert_eq!(ran.code, 2);
    assert_names(&ran.err, &["`hpsearch init data.csv`", "--command"]);
}

#[test]
fn a_command_becomes_a_study_that_checks_and_runs() {
    let site = Site::empty();
    let script = "echo '@hpsearch {\"step\": 1, \"score\": '$2'}'\n";
    site.write("train.sh", script);
    let ran = site.run(&[
        "init",
        "--command",
        "sh train.sh --rate 0.01",
        "--trials",
        "3",
        "--name",
        "shell",
    ]);
    assert_done(&ran);
    let text = site.read("study.toml");
    assert!(text.contains("run = [\"sh\", \"train.sh\", \"--rate\", \"{rate}\"]"), "{text}");
    assert!(text.contains("metric = \"score\"\ndirection = \"maximize\""), "{text}");
    let checked = site.run(&["check", "study.toml"]);
    assert_eq!((checked.code, checked.err.as_str()), (0, ""));
    let searched = site.run(&["run", "study.toml", "--plain"]);
    assert_done(&searched);
    let answer: Json = site.run(&["ls", "--json"]).json();
    assert_eq!(
        (&answer["studies"][0]["trials"]["complete"], &answer["studies"][0]["name"]),
        (&Json::from(3), &Json::from("shell"))
    );
}

#[test]
fn a_command_of_which_nothing_is_known_gets_an_example_to_change() {
    let site = Site::empty();
    let ran = site.run(&["init", "--command", "./simulate --fast"]);
    assert_done(&ran);
    assert_names(&ran.err, &["the program must print lines like `@hpsearch"]);
    insta::assert_snapshot!(site.read("study.toml"));
    assert_eq!(site.run(&["check", "study.toml"]).code, 0);
}

#[test]
fn a_script_that_reads_its_options_gets_all_parameters_by_their_names() {
    let site = Site::empty();
    // A shell script that looks like one of argparse: what it declares is only read.
    site.write(
        "train.py",
        "# parser.add_argument('--learning-rate', type=float, default=0.1)\n\
         # parser.add_argument('--momentum', type=float, default=0.9)\n\
         # parser.add_argument('--nesterov', action='store_true')\n\
         echo \"$GREETING $*\"\necho '@hpsearch {\"step\": 1, \"loss\": 0.5}'\n",
    );
    let command = "GREETING=hello sh train.py --learning-rate 0.2 --epochs 5";
    let ran = site.run(&["init", "--command", command, "--trials", "1", "--name", "s"]);
    assert_done(&ran);
    assert_names(&ran.err, &["searched: learning-rate, momentum", "by `env`: GREETING"]);
    let text = site.read("study.toml");
    assert_names(
        &text,
        &[
            "run = [\"sh\", \"train.py\", \"{args}\", \"--epochs\", \"5\"]\n",
            "args_style = \"dashes\"",
            "env = { GREETING = \"hello\" }",
            "learning-rate = { float = [2e-2, 1e0], log = true }",
            "# nesterov = [false, true]",
        ],
    );
    let checked = site.run(&["check", "study.toml"]);
    assert_eq!((checked.code, checked.err.as_str()), (0, ""));
    // The flag is searched once its line is one.
    site.write("study.toml", text.replace("# nesterov = [false, true]", "nesterov = [true]"));
    assert_done(&site.run(&["run", "study.toml", "--plain"]));
    let log = site.run(&["logs", "s", "0"]).out;
    let said = log.lines().find(|line| line.contains("hello")).unwrap_or_default().to_owned();
    assert_names(&said, &["hello --learning-rate ", " --momentum ", " --nesterov --epochs 5"]);
}

#[test]
fn the_direction_of_common_metrics_is_guessed_by_their_names() {
    let site = Site::empty();
    for (metric, direction) in
        [("mAP50", "maximize"), ("f1_negative", "maximize"), ("brier_score", "minimize")]
    {
        let given = ["init", "--command", "python train.py --lr 0.1", "--metric", metric];
        assert_done(&site.run(&[&given[..], &["-o", &format!("{metric}.toml")]].concat()));
        let text = site.read(&format!("{metric}.toml"));
        assert_names(&text, &[&format!("direction = \"{direction}\"")]);
    }
}

#[test]
fn a_command_for_a_shell_is_refused_with_both_ways_out() {
    let site = Site::empty();
    let ran = site.run(&["init", "--command", "python train.py --lr 0.1 | tee log.txt"]);
    assert_eq!(ran.code, 2);
    assert_names(&ran.err, &["has `|`, which only a shell understands", "hpsearch logs", "sh -c"]);
    assert!(!site.exists("study.toml"));
    let ran = site.run(&["init", "--command", "sh -c 'python train.py | tee log.txt'"]);
    assert_done(&ran);
}

#[test]
fn questions_and_texts_to_write_become_studies_of_their_tasks() {
    let site = Site::empty();
    let row = |row: usize| {
        serde_json::json!({
            "id": row, "question": format!("who was number {row}"),
            "context": format!("Ada {row} was number {row}"),
            "answers": {"text": [format!("Ada {row}")], "answer_start": [0]},
        })
    };
    let rows: String = (0..90).map(|number| format!("{}\n", row(number))).collect();
    site.write("squad.jsonl", &rows);
    let ran = site.run(&["init", "squad.jsonl", "-o", "squad.toml", "--yes"]);
    assert_done(&ran);
    assert_names(&ran.err, &["task question-answering: columns `question`, `context`"]);
    insta::assert_snapshot!("a_study_of_questions", site.read("squad.toml"));
    if cfg!(feature = "train") {
        assert_done(&site.run(&["check", "squad.toml"]));
    }

    let rows: String =
        (0..90).map(|row| format!("text number {row},its line {row},{}\n", row % 3)).collect();
    site.write("news.csv", format!("article,summary,section\n{rows}"));
    let ran = site.run(&["init", "news.csv", "-o", "news.toml", "--yes"]);
    assert_done(&ran);
    assert_names(
        &ran.err,
        &["texts to write: `summary`, guessed by its name", "task summarization"],
    );
    insta::assert_snapshot!("a_study_of_texts_to_write", site.read("news.toml"));
    if cfg!(feature = "train") {
        assert_done(&site.run(&["check", "news.toml"]));
    }
    let ran = site.run(&["init", "news.csv", "-o", "other.toml", "--yes", "--target", "section"]);
    assert_done(&ran);
    assert_names(&site.read("other.toml"), &["target = \"section\"", "task = \"text-to-text\""]);
    // Labels that are named are labels.
    let ran = site.run(&["init", "news.csv", "-o", "labels.toml", "--yes", "--label", "section"]);
    assert_done(&ran);
    assert_names(&site.read("labels.toml"), &["task = \"text-classification\""]);
    let both =
        site.run(&["init", "news.csv", "-o", "b.toml", "--text", "article", "--target", "article"]);
    assert_eq!(both.code, 2);
    assert_names(&both.err, &["`article` is both the column of texts and that of texts to write"]);
}

#[test]
fn a_table_becomes_a_study_of_the_task_that_its_columns_look_like() {
    let rows = |row: &dyn Fn(usize) -> String| -> String {
        (0..90).map(|number| row(number) + "\n").collect()
    };
    let genres = |n: usize| [["a", "b", "c"][n % 3], ["", "|d", "|e|f"][n / 3 % 3]].concat();
    let several = |n: usize| serde_json::json!(["a", "b", "c"][..1 + n % 3]);
    let sentence = |n: usize| format!("word{n} lives\tin Oslo{n}").replace('\t', " ");
    let tags = |n: usize| ["B-PER O O B-LOC", "B-PER O O O"][n % 2];
    let words = |n: usize| -> String {
        let both = sentence(n);
        let lines = both.split(' ').zip(tags(n).split(' '));
        lines.map(|(word, tag)| format!("{word} {tag}\n")).collect()
    };
    let tag_ids =
        |n: usize| serde_json::json!({"tokens": ["a", format!("b{n}")], "ner_tags": [0, n % 3]});
    let cases: [(&str, String, &[&str], &[&str]); 19] = [
        (
            "films.csv",
            format!("plot,genres\n{}", rows(&|n| format!("a film about number {n},{}", genres(n)))),
            &[],
            &[
                "text = \"plot\"",
                "label = \"genres\"",
                "label_separator = \"|\"",
                "task = \"multi-label-classification\"",
                "metric = \"eval_micro_f1\"",
            ],
        ),
        (
            "posts.jsonl",
            rows(&|n| {
                serde_json::json!({"body": format!("a post of number {n}"), "labels": several(n)})
                    .to_string()
            }),
            &[],
            &["text = \"body\"", "label = \"labels\"", "task = \"multi-label-classification\""],
        ),
        (
            "fares.csv",
            format!("trip,fare\n{}", rows(&|n| format!("a ride of {n} minutes,{n}.25"))),
            &[],
            &[
                "text = \"trip\"",
                "label = \"fare\"",
                "task = \"text-regression\"",
                "metric = \"eval_rmse\"",
            ],
        ),
        // Numbers that pandas wrote as decimals are classes all the same.
        (
            "stars.csv",
            format!("text,rating\n{}", rows(&|n| format!("a text of number {n},{}.0", n % 5))),
            &[],
            &["label = \"rating\"", "task = \"text-classification\""],
        ),
        (
            "stars.csv",
            format!("text,rating\n{}", rows(&|n| format!("a text of number {n},{}.0", n % 5))),
            &["--task", "text-regression"],
            &["label = \"rating\"", "task = \"text-regression\""],
        ),
        (
            "sts.csv",
            format!(
                "sentence1,sentence2,score\n{}",
                rows(&|n| format!("one man {n},a man {n},{}", f64::from(n as u32 % 7) / 10.0))
            ),
            &[],
            &[
                "text_pair = \"sentence2\"",
                "score = \"score\"",
                "task = \"sentence-similarity\"",
                "metric = \"eval_spearmanr\"",
            ],
        ),
        (
            "stsb.csv",
            format!(
                "sentence1,sentence2,score\n{}",
                rows(&|n| format!("one man {n},a man {n},{}", f64::from(n as u32 % 11) / 2.0))
            ),
            &[],
            &["text_pair = \"sentence2\"", "label = \"score\"", "task = \"text-regression\""],
        ),
        (
            "duplicates.csv",
            format!("anchor,positive\n{}", rows(&|n| format!("what is {n},which one is {n}"))),
            &[],
            &[
                "text = \"anchor\"",
                "text_pair = \"positive\"",
                "task = \"sentence-similarity\"",
                "metric = \"eval_mrr\"",
            ],
        ),
        (
            "ner.csv",
            format!("tokens,tags\n{}", rows(&|n| format!("{},{}", sentence(n), tags(n)))),
            &[],
            &["text = \"tokens\"", "label = \"tags\"", "task = \"token-classification\""],
        ),
        (
            "ner.conll",
            rows(&words),
            &[],
            &["text = \"tokens\"", "label = \"tags\"", "task = \"token-classification\""],
        ),
        (
            "opus.jsonl",
            rows(&|n| {
                serde_json::json!({
                    "translation": {"de": format!("die Zahl {n}"), "en": format!("the number {n}")},
                })
                .to_string()
            }),
            &["--text", "translation.en"],
            &["text = \"translation.en\"", "target = \"translation.de\"", "task = \"translation\""],
        ),
        (
            "shell.jsonl",
            rows(&|n| {
                serde_json::json!({"cmd": format!("head -n {n}"), "nl": format!("print {n} lines")})
                    .to_string()
            }),
            &[],
            &["text = \"nl\"", "target = \"cmd\"", "task = \"text-to-text\""],
        ),
        // In the order of the file; `id` is no language.
        (
            "books.jsonl",
            rows(&|n| {
                format!(
                    r#"{{"id": "{n}", "translation": {{"fr": "numéro {n}", "de": "Nummer {n}"}}}}"#
                )
            }),
            &[],
            &["text = \"translation.fr\"", "target = \"translation.de\"", "task = \"translation\""],
        ),
        (
            "kaggle.csv",
            format!("sentence,word_labels\n{}", rows(&|n| format!("{},{}", sentence(n), tags(n)))),
            &[],
            &[
                "text = \"sentence\"",
                "label = \"word_labels\"",
                "metric = \"eval_f1\"",
                "task = \"token-classification\"",
            ],
        ),
        (
            "pos.csv",
            format!(
                "sentence,pos\n{}",
                rows(&|n| format!(
                    "a man{n} sees{},DET NOUN VERB{}",
                    [" it", ""][n % 2],
                    [" PRON", ""][n % 2]
                ))
            ),
            &[],
            &[
                "text = \"sentence\"",
                "label = \"pos\"",
                "metric = \"eval_accuracy\"",
                "task = \"token-classification\"",
            ],
        ),
        (
            "conll2003.jsonl",
            rows(&|n| tag_ids(n).to_string()),
            &[],
            &[
                "label = \"ner_tags\"",
                "metric = \"eval_accuracy\"",
                "task = \"token-classification\"",
            ],
        ),
        (
            "pairs.csv",
            format!(
                "anchor,positive\n{}",
                rows(&|n| format!("what is {},which one is {}", n % 9, n % 9))
            ),
            &[],
            &["text_pair = \"positive\"", "task = \"sentence-similarity\""],
        ),
        (
            "recipes.csv",
            format!("dish,how\n{}", rows(&|n| format!("a soup of {n} beans,boil all {n} beans"))),
            &[],
            &["text = \"dish\"", "target = \"how\"", "task = \"text-to-text\""],
        ),
        (
            "notes.csv",
            format!("text,kind\n{}", rows(&|n| format!("a note of number {n},{}", n % 2))),
            &["--task", "masked-language-modeling"],
            &["text = \"text\"\n", "task = \"masked-language-modeling\"", "metric = \"eval_loss\""],
        ),
    ];
    for (file, content, flags, expected) in &cases {
        let site = Site::empty();
        site.write(file, content);
        let ran = site.run(&[&["init", file, "--yes"], *flags].concat());
        assert_done(&ran);
        assert_names(&site.read("study.toml"), expected);
        if cfg!(feature = "train") {
            assert_done(&site.run(&["check", "study.toml"]));
        }
    }
}

#[test]
fn a_task_that_is_named_needs_its_columns() {
    let site = Site::empty();
    reviews(&site.path(""), "data.csv", 90);
    for (task, flags, said) in [
        ("ner", &[][..], "there is no task `ner`"),
        ("text-regression", &[], "`verdict` does not hold a number in each row"),
        ("token-classification", &["--label", "verdict"], "`verdict` has not one label for each"),
        ("translation", &[], "no column of texts to write\nhelp: `--target COLUMN` names one"),
        ("sentence-similarity", &[], "no column of second texts\nhelp: `--text-pair COLUMN`"),
        ("question-answering", &[], "no columns `question`, `context` and `answers`"),
        ("language-modeling", &["--label", "verdict"], "reads no column of `--label`"),
    ] {
        let ran = site.run(&[&["init", "data.csv", "--task", task, "--yes"], flags].concat());
        assert_eq!(ran.code, 2, "{task}: {}", ran.err);
        assert_names(&ran.err, &[said]);
        assert!(!site.exists("study.toml"));
    }
    for (content, flags, said) in [
        (
            "text,label\na b,x\nc d,x\n",
            &[][..],
            "`label` looks like the column of labels or numbers, but it has one value",
        ),
        ("text,score\na b,1.5\nc d,\ne f,2.5\n", &[], "numbers, but it is empty in 1 row"),
        ("text,score\na b,37%\nc d,1\ne f,2.5\n", &[], "but `37%` is not a number"),
        (
            "text,label\na b,x\nc d,\ne f,x\ng h,\ni j,x\nk l,\nm n,x\no p,y\n",
            &[],
            "numbers, but it is empty in 3 rows",
        ),
        ("tokens,tags\n\"['a', 'b']\",\"['O', 'B-X']\"\n", &[], "`tokens` holds lists in brackets"),
        (
            "sentence1,sentence2,score\na b,c d,3.5\ne f,g h,0.5\n",
            &["--task", "sentence-similarity"],
            "`score` holds numbers from 0.5 to 3.5, not similarities",
        ),
    ] {
        site.write("odd.csv", content);
        let ran = site.run(&[&["init", "odd.csv", "--yes"], flags].concat());
        assert_eq!(ran.code, 2, "{content}: {}", ran.err);
        assert_names(&ran.err, &[said]);
    }
    let row = |n: usize| format!("a man{n} sees,O O {}\n", if n == 7 { "" } else { "B-X" });
    site.write("odd.csv", format!("words,other\n{}", (0..30).map(row).collect::<String>()));
    assert_names(&site.run(&["init", "odd.csv", "--yes"]).err, &["`words` in row 8"]);
    site.write("empty.txt", "");
    assert_names(&site.run(&["init", "empty.txt"]).err, &["`empty.txt` is empty"]);
    site.write("columns.json", r#"{"text": ["a", "b"], "label": ["x", "y"]}"#);
    let ran = site.run(&["init", "columns.json"]);
    assert_names(&ran.err, &["columns.json: it has a list of 2 values for each column, not rows"]);
    site.write("wrapped.json", r#"{"version": 1, "rows": [{"text": "a", "label": "b"}]}"#);
    let ran = site.run(&["init", "wrapped.json"]);
    assert_names(&ran.err, &["wrapped.json: its 1 rows are inside of `rows`", "json.dump("]);
}

#[test]
fn parts_of_a_set_are_taken_together_and_tests_without_labels_are_left_out() {
    let site = Site::empty();
    for part in 0..3 {
        reviews(&site.path(""), &format!("part-{part}-of-3.csv"), 30);
    }
    fs::create_dir(site.path("shards")).unwrap();
    for part in 0..3 {
        let name = format!("part-{part}-of-3.csv");
        fs::rename(site.path(&name), site.path("shards").join(name)).unwrap();
    }
    for data in ["shards", "shards/part-*.csv"] {
        let ran = site.run(&["init", data, "-o", "shards.toml", "--yes"]);
        assert_done(&ran);
        assert_names(&ran.err, &[": 90 rows", ": 3 files", "label per text", "not read: `id`"]);
        let text = site.read("shards.toml");
        assert_names(&text, &["name = \"shards\"", &format!("train = \"{data}\"")]);
        if cfg!(feature = "train") {
            assert_done(&site.run(&["check", "shards.toml"]));
        }
        fs::remove_file(site.path("shards.toml")).unwrap();
    }
    // The parts of each split beside each other.
    for (from, to) in
        [("part-0", "train-00000"), ("part-1", "train-00001"), ("part-2", "test-00000")]
    {
        let name = |stem: &str| site.path("shards").join(format!("{stem}-of-3.csv"));
        fs::copy(name(from), site.path("").join(format!("{to}-of-3.csv"))).unwrap();
    }
    fs::create_dir(site.path("hf")).unwrap();
    for stem in ["train-00000", "train-00001", "test-00000"] {
        let name = format!("{stem}-of-3.csv");
        fs::rename(site.path(&name), site.path("hf").join(&name)).unwrap();
    }
    assert_done(&site.run(&["init", "hf", "-o", "hf.toml", "--yes"]));
    assert_names(
        &site.read("hf.toml"),
        &["train = \"hf/train-*.csv\"", "test = \"hf/test-*.csv\"", "name = \"hf\""],
    );
    let mixed = site.run(&["init", "hf/*.csv", "-o", "mixed.toml"]);
    assert_eq!(mixed.code, 2);
    assert_names(&mixed.err, &["`hf/*.csv` matches files of several splits"]);
    let none = site.run(&["init", "shards/none-*.csv"]);
    assert_eq!(none.code, 2);
    assert_names(&none.err, &["no data file has a name like `none-*.csv`"]);

    reviews(&site.path(""), "train.csv", 90);
    site.write("test.csv", "id,review\n1,a text\n2,another\n");
    let ran = site.run(&["init", "train.csv", "--yes"]);
    assert_done(&ran);
    assert_names(&ran.err, &["test: test.csv is left out: it has no column `verdict`"]);
    assert!(!site.read("study.toml").contains("\ntest = "));
}

#[test]
fn multi_hot_labels_are_told_from_lists_of_names() {
    let site = Site::empty();
    let row = |n: usize| {
        let hot = [n % 2, 0, n / 2 % 2].map(|one| if one == 1 { 1.0 } else { 0.0 });
        serde_json::json!({"text": format!("a post of number {n}"), "labels": hot}).to_string()
            + "\n"
    };
    site.write("posts.jsonl", (0..40).map(row).collect::<String>());
    let ran = site.run(&["init", "posts.jsonl"]);
    assert_done(&ran);
    assert_names(
        &ran.err,
        &["labels: `labels`, guessed by its name; multi-hot, a 0 or 1 for each of 3 labels\n"],
    );
    let spec = config::load(&site.path("study.toml"), &[]).unwrap();
    let Program::Trainer { data, .. } = &spec.program else { panic!("{:?}", spec.program) };
    assert_eq!(data["label_format"], "auto");
}

#[test]
fn what_check_would_refuse_is_said_before_a_study_is_written() {
    let site = Site::empty();
    let rows = |count: usize, cells: &dyn Fn(usize) -> String| {
        (0..count).map(|n| format!("a text of number {n},{}\n", cells(n))).collect::<String>()
    };
    site.write(
        "twice.csv",
        format!("text,label,label\n{}", rows(40, &|n| format!("a{},b", n % 2))),
    );
    site.write(
        "few.csv",
        format!(
            "text,label\n{}",
            rows(10, &|n| ["Add", "Book", "Get", "Play", "Rate"][n % 5].to_owned())
        ),
    );
    site.write(
        "marked.csv",
        format!("text,label\n{}", rows(40, &|n| ["1", "2", "-100"][n % 3].to_owned())),
    );
    for (file, said) in [
        (
            "twice.csv",
            "error: twice.csv:1: column `label` occurs twice\nhelp: rename one of them in the \
             first line\n",
        ),
        (
            "few.csv",
            "error: `label` looks like the column of labels, but has too few rows for each: 5 \
             different values in 10 rows\nhelp: give four rows or more of each label; or `--label \
             label` uses it as labels nevertheless",
        ),
        (
            "marked.csv",
            "error: `label` has the label -100, which marks labels that are not learned\n",
        ),
    ] {
        let ran = site.run(&["init", file]);
        assert!(ran.code == 2 && ran.err.contains(said), "{}", ran.err);
        assert!(!site.exists("study.toml"));
    }
    assert_done(&site.run(&["init", "few.csv", "--label", "label"]));
    assert_names(&site.read("study.toml"), &["task = \"text-classification\""]);
}

#[test]
fn texts_of_a_language_model_are_joined_and_read_in_windows() {
    let site = Site::empty();
    site.write("a.txt", "some words of a running text\n".repeat(50));
    assert_done(&site.run(&["init", "a.txt"]));
    let expected = "# tokens; the texts are joined and read in windows of this length\n";
    assert_names(&site.read("study.toml"), &[expected]);
}
