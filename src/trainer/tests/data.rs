//! What is wrong with data is said with file and line.

use super::*;

fn problem_of(files: &[(&str, &[u8])], values: Value) -> String {
    let directory = TempDir::new().unwrap();
    for (name, bytes) in files {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    let data = arguments_of_data(directory.path(), values);
    let error = prepare(
        TaskKind::TextClassification,
        &data,
        &words(),
        &directory.path().join("cache"),
        &mut |_| {},
        &|_, _, _| {},
    )
    .unwrap_err()
    .to_string();
    assert!(
        !fs::exists(directory.path().join("cache")).unwrap()
            || fs::read_dir(directory.path().join("cache")).unwrap().count() == 0
    );
    error.replace(&format!("{}/", directory.path().display()), "")
}

fn csv_problem(csv: &str) -> String {
    problem_of(&[("a.csv", csv.as_bytes())], json!({"train": "a.csv", "clean.drop_empty": false}))
}

#[test]
fn a_missing_file_is_named() {
    assert_eq!(
        problem_of(&[], json!({"train": "a.csv"})),
        "a.csv: the file does not exist (paths are relative to the study file)"
    );
}

#[test]
fn a_missing_column_is_named_with_those_there_are() {
    let expected = "a.csv:1: there is no column `label`; columns are `text`, `labels` (did you mean `labels`?)";
    assert_eq!(csv_problem("text,labels\nx,1\n"), expected);
}

#[test]
fn a_file_with_another_delimiter_is_told_so() {
    assert!(
        csv_problem("text;label\nx;1\n")
            .ends_with("(are its fields separated by `;`? `[data] separator = \";\"` says so)")
    );
    assert!(
        csv_problem("text\tlabel\nx\t1\n")
            .ends_with("(are its fields separated by tabs? `[data] separator = \"\\t\"` says so)")
    );
}

#[test]
fn empty_files_and_headers_alone_are_refused() {
    assert_eq!(
        csv_problem("\n"),
        "a.csv: the file is empty (was it written to its end? `[data]` names another one)"
    );
    assert_eq!(
        csv_problem("text,label\n"),
        "a.csv: the file has a header but no rows (was it written to its end?)"
    );
}

#[test]
fn one_label_is_not_enough() {
    assert!(
        csv_problem("text,label\nx,1\ny,1\n").starts_with("a.csv: all 2 rows have the label `1`")
    );
}

#[test]
fn broken_quoting_is_found_at_its_line() {
    assert!(
        csv_problem("text,label\nx,1\n\"y,2\nz,1\n")
            .starts_with("a.csv:3: a quote is opened here and never closed (close it")
    );
    assert!(
        csv_problem("text,label\nx,1\n\"y\" z,2\n")
            .starts_with("a.csv:3: text after a closing quote")
    );
    assert!(
        csv_problem("text,label\nx,1\ny, z,2\n")
            .starts_with("a.csv:3: 3 fields where the first line has 2")
    );
}

#[test]
fn quoted_line_breaks_count_as_lines() {
    let problem = csv_problem("text,label\n\"x\ny\",1\n\"a \"\"b\"\"\",2\nz,\n");
    assert_eq!(
        problem,
        "a.csv:5: the label in column `label` is empty (give it a label, or take the row out)"
    );
}

#[test]
fn bytes_that_are_not_utf_8_are_located() {
    let problem =
        problem_of(&[("a.csv", b"text,label\nx,1\ncaf\xe9,2\n")], json!({"train": "a.csv"}));
    assert!(problem.starts_with("a.csv:3: not UTF-8: byte 0xe9 at byte offset 18"), "{problem}");
}

#[test]
fn an_empty_text_is_an_error_unless_it_is_to_be_dropped() {
    assert!(
        csv_problem("text,label\nx,1\n ,2\n")
            .starts_with("a.csv:3: the text in column `text` is empty")
    );
    let problem = problem_of(&[("a.csv", b"text,label\n,1\n,2\n")], json!({"train": "a.csv"}));
    assert_eq!(
        problem,
        "a.csv: all 2 texts in column `text` are empty (is that the right column? `[data] text` names it)"
    );
}

#[test]
fn a_label_that_is_never_trained_is_an_error() {
    let files: [(&str, &[u8]); 2] =
        [("a.csv", b"text,label\nx,1\ny,2\n"), ("v.csv", b"text,label\nx,1\nz,3\n")];
    let problem = problem_of(&files, json!({"train": "a.csv", "validation": "v.csv"}));
    assert!(
        problem.starts_with(
            "v.csv:3: label `3` occurs in the validation rows but not in the training rows"
        ),
        "{problem}"
    );
}

#[test]
fn too_few_rows_cannot_be_split() {
    assert!(
        csv_problem("text,label\nx,1\ny,2\n")
            .starts_with("a.csv: 2 rows with 2 labels are too few to split")
    );
}

#[test]
fn json_lines_are_located_too() {
    let problem =
        |text: &str| problem_of(&[("a.jsonl", text.as_bytes())], json!({"train": "a.jsonl"}));
    assert!(
        problem("{\"text\": \"x\", \"label\": 1}\n{\"text\"\n").starts_with("a.jsonl:2: not JSON")
    );
    assert!(
        problem("{\"text\": \"x\", \"label\": 1}\n{\"text\": \"y\"}\n")
            .starts_with("a.jsonl:2: there is no column `label`")
    );
    assert!(problem("{\"text\": null, \"label\": 1}\n").starts_with("a.jsonl:1: `text` is `null`"));
}

#[test]
fn what_was_noticed_is_kept_with_the_data() {
    let directory = TempDir::new().unwrap();
    fs::write(
        directory.path().join("a.tsv"),
        "label\ttext\n10\tsay \"hi\n9\tbye\n10\t\n9\tbye\n10\tsay\n",
    )
    .unwrap();
    fs::write(directory.path().join("v.jsonl"), "{\"text\": \"bye\", \"label\": 9}\n").unwrap();
    let data = arguments_of_data(
        directory.path(),
        json!({"train": "a.tsv", "validation": "v.jsonl", "clean": {"deduplicate": true}}),
    );
    let mut lines = Vec::new();
    let prepared = prepare(
        TaskKind::TextClassification,
        &data,
        &words(),
        &directory.path().join("cache"),
        &mut |line| lines.push(line.to_owned()),
        &|_, _, _| {},
    )
    .unwrap();
    assert_eq!(prepared.labels(), ["9", "10"]);
    assert_eq!(
        (prepared.rows(Split::Train), prepared.rows(Split::Validation), prepared.rows(Split::Test)),
        (3, 1, 0)
    );
    assert_eq!(prepared.label_counts(Split::Train), [1, 2]);
    let messages: Vec<&str> =
        prepared.findings().iter().map(|finding| finding.message.as_str()).collect();
    assert!(
        messages.contains(&"1 of 5 train rows have an empty text and are left out"),
        "{messages:?}"
    );
    assert!(
        messages.contains(&"1 of 4 train rows repeat an earlier one and are left out"),
        "{messages:?}"
    );
    assert!(messages.contains(&"1 of 1 validation texts also occur in train"), "{messages:?}");
    assert!(
        lines.iter().any(|line| line == "warning: 1 of 1 validation texts also occur in train")
    );
}

#[test]
fn preparing_again_uses_the_cache_and_a_changed_file_does_not() {
    let fixture = Fixture::new();
    let again = |name: &str| {
        let data = arguments_of_data(
            fixture.path(),
            json!({"train": name, "validation_split": 0.2, "max_length": 16}),
        );
        let mut lines = Vec::new();
        let prepared = prepare(
            TaskKind::TextClassification,
            &data,
            &words(),
            &fixture.path().join("cache"),
            &mut |line| lines.push(line.to_owned()),
            &|_, _, _| {},
        )
        .unwrap();
        (prepared.digest().to_owned(), lines.iter().any(|line| line.starts_with("preparing")))
    };
    assert_eq!(again("train.csv"), (fixture.data.digest().to_owned(), false));
    fs::copy(fixture.path().join("train.csv"), fixture.path().join("moved.csv")).unwrap();
    assert_eq!(again("moved.csv"), (fixture.data.digest().to_owned(), false));
    fs::write(fixture.path().join("train.csv"), keyword_csv(121)).unwrap();
    assert!(again("train.csv").1);
}

#[test]
fn preparing_twice_at_once_gives_the_same_data() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("a.csv"), keyword_csv(60)).unwrap();
    let data = arguments_of_data(directory.path(), json!({"train": "a.csv"}));
    let cache = directory.path().join("cache");
    let digests: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    prepare(
                        TaskKind::TextClassification,
                        &data,
                        &words(),
                        &cache,
                        &mut |_| {},
                        &|_, _, _| {},
                    )
                    .unwrap()
                    .digest()
                    .to_owned()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    let left: Vec<_> =
        fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn damaged_prepared_data_is_refused() {
    let fixture = Fixture::new();
    let rows = fixture.data.directory().join("train.rows");
    let bytes = fs::read(&rows).unwrap();
    fs::remove_file(&rows).unwrap();
    fs::write(&rows, &bytes[..bytes.len() - 4]).unwrap();
    let error = PreparedData::open(fixture.data.directory()).unwrap_err().to_string();
    assert!(error.contains("train.rows: prepared data is damaged"), "{error}");
}

#[test]
fn a_text_that_no_memory_suffices_for_is_refused_at_its_line() {
    let long = "word ".repeat((32 << 20) / 5 + 1);
    let problem = csv_problem(&format!("text,label\na,b\n{long},c\n"));
    assert_eq!(
        problem,
        "a.csv:3: the text has 32 MiB, and 32 MiB are the most (give it as several rows, or take the row out)"
    );
    let directory = TempDir::new().unwrap();
    fs::write(
        directory.path().join("a.txt"),
        format!("two\nlines of words\n{}\nmore", "x".repeat((32 << 20) + 1)),
    )
    .unwrap();
    let data =
        arguments_of_data(directory.path(), json!({"train": "a.txt", "validation_split": 0.2}));
    let chars = TokenizerSource::Trained(TokenizerArguments {
        kind: TokenizerKind::Chars,
        vocab_size: 100,
        lowercase: false,
    });
    let problem = prepare(
        TaskKind::LanguageModeling,
        &data,
        &chars,
        &directory.path().join("cache"),
        &mut |_| {},
        &|_, _, _| {},
    )
    .unwrap_err()
    .to_string();
    assert!(
        problem.contains(
            "a.txt:1: what follows without a space or line break between two words has 32 MiB"
        ),
        "{problem}"
    );
}

#[test]
fn a_word_of_two_hundred_thousand_letters_is_no_reason_to_wait() {
    let rows: String = (0..20).map(|row| format!("some text {row},{}\n", row % 2)).collect();
    for kind in [TokenizerKind::WordPiece, TokenizerKind::Bpe, TokenizerKind::Word] {
        let directory = TempDir::new().unwrap();
        fs::write(
            directory.path().join("train.csv"),
            format!("text,label\n{rows}{},1\n", "ab".repeat(100_000)),
        )
        .unwrap();
        let data = arguments_of_data(
            directory.path(),
            json!({"train": "train.csv", "validation_split": 0.2, "max_length": 16}),
        );
        let tokenizer = TokenizerSource::Trained(TokenizerArguments {
            kind,
            vocab_size: 2000,
            lowercase: true,
        });
        let began = std::time::Instant::now();
        prepare(
            TaskKind::TextClassification,
            &data,
            &tokenizer,
            &directory.path().join("cache"),
            &mut |_| {},
            &|_, _, _| {},
        )
        .unwrap();
        assert!(began.elapsed().as_secs() < 10, "{kind:?}: {:?}", began.elapsed());
    }
}

#[test]
fn a_file_with_another_separator_and_without_a_header_is_read_as_the_same_rows() {
    let directory = TempDir::new().unwrap();
    let rows = |separator: &str| {
        (0..12)
            .map(|row| format!("{}{separator}a text {row}\n", ["no", "yes"][row % 2]))
            .collect::<String>()
    };
    fs::write(directory.path().join("plain.csv"), format!("label,text\n{}", rows(","))).unwrap();
    fs::write(directory.path().join("bare.csv"), rows(";")).unwrap();
    let prepared = |values: Value| {
        let data = arguments_of_data(directory.path(), values);
        prepare(
            TaskKind::TextClassification,
            &data,
            &words(),
            &directory.path().join("cache"),
            &mut |_| {},
            &|_, _, _| {},
        )
        .unwrap()
    };
    let plain = prepared(json!({"train": "plain.csv"}));
    let bare =
        prepared(json!({"train": "bare.csv", "separator": ";", "column_names": ["label", "text"]}));
    for split in Split::ALL {
        let ids = |data: &PreparedData| {
            (0..data.rows(split))
                .map(|row| {
                    (data.split(split).ids(row).collect::<Vec<_>>(), data.split(split).label(row))
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&plain), ids(&bare), "{split:?}");
    }
    assert_ne!(plain.digest(), bare.digest());
}

#[test]
fn a_label_column_that_is_called_like_a_label_is_noticed() {
    let directory = TempDir::new().unwrap();
    let rows = (0..12)
        .map(|row| format!("{}\ta text {row}\n", ["ham", "spam"][row % 2]))
        .collect::<String>();
    fs::write(directory.path().join("sms.tsv"), rows).unwrap();
    let data = arguments_of_data(
        directory.path(),
        json!({"train": "sms.tsv", "text": "a text 0", "label": "ham"}),
    );
    let prepared = prepare(
        TaskKind::TextClassification,
        &data,
        &words(),
        &directory.path().join("cache"),
        &mut |_| {},
        &|_, _, _| {},
    )
    .unwrap();
    let finding = prepared.findings().iter().find(|finding| finding.code == "header").unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    assert!(
        finding.message.contains("called `ham`, which is also the label of 5 of its 11 rows"),
        "{}",
        finding.message
    );
}
